"""Predictions for the partitions of a Dask frame, as the guide to clusters types them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp

DOMAIN: dict[str, Any] = {"x": (0, 1), "g": ["a", "b"], "y": (0, 1)}
FITS: dict[str, Callable[[pd.DataFrame, int], Any]] = {
    "logit": lambda data, seed: dp.logit("y ~ x + g", data, 2.0, domain=DOMAIN, seed=seed),
    "ols": lambda data, seed: dp.ols("x ~ np.log1p(y) + g", data, 2.0, domain=DOMAIN, inference=True, seed=seed),
    "sums": lambda data, seed: dp.release_statistics(
        {name: DOMAIN[name] for name in "xy"}, ["x", "y"], 2.0, data=data, seed=seed
    ).fit("x ~ y"),
}


@pytest.mark.parametrize("kind", FITS)
def test_partitions_are_predicted_for_by_the_fit_that_is_asked(kind: str) -> None:
    """Also beside another fit of the same formula, which differs in its values alone."""
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    random = np.random.default_rng(0)
    data = pd.DataFrame({"x": random.uniform(0, 1, 600), "g": random.choice(["a", "b"], 600)})
    data["y"] = random.integers(0, 2, 600)
    fits = [FITS[kind](data, seed) for seed in (1, 2)]
    frame = dd.from_pandas(data, npartitions=3)
    found = [frame.map_partitions(fit.predict, meta=(None, float)) for fit in fits]
    for one, fit in zip(dask.compute(*found, scheduler="sync"), fits, strict=True):
        np.testing.assert_allclose(one, fit.predict(data))
    assert not np.allclose(*dask.compute(*found, scheduler="sync"))

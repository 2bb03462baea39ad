"""Models to draw, fitted once, and closed figures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from drawn import fitted

import dpstats as dp


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draw without a screen, and leave no figure behind."""
    import matplotlib as mpl
    from matplotlib import pyplot

    mpl.use("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="session")
def rows() -> pd.DataFrame:
    rng, size = np.random.default_rng(8), 20000
    data = pd.DataFrame({"x": rng.uniform(-2, 2, size), "z": rng.uniform(0, 10, size)})
    data["group"] = rng.choice(["a", "b", "c$_$"], size)
    linear = 0.8 * data["x"] - 0.2 * data["z"] + 0.5 * (data["group"] == "b")
    data["y"] = linear + rng.normal(size=size)
    data["b"] = np.where(linear + 1 + rng.logistic(size=size) > 0, "yes", "no")
    data["count"] = rng.poisson(np.exp(0.3 * linear + 0.5))
    return data


@pytest.fixture(scope="session")
def fit(rows: pd.DataFrame) -> dp.GLMResults:
    """A fit whose intervals all have ends."""
    return fitted(rows, inference=True)


@pytest.fixture(scope="session")
def bare(rows: pd.DataFrame) -> dp.GLMResults:
    """A fit of coefficients alone, certified."""
    return fitted(rows, inference=None, seed=None, eps=3.0)


@pytest.fixture(scope="session")
def evaluation(fit: dp.GLMResults, rows: pd.DataFrame) -> dp.Evaluation:
    return dp.evaluate(fit, rows, 1.0, delta=1e-6, seed=4)

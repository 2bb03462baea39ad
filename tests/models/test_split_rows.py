"""A fit to the half of the rows that did not choose its columns counts that half."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.cli.models import fit_facts

NAMES = [f"x{place}" for place in range(12)]
FORMULA, ROWS = f"y ~ {' + '.join(NAMES)}", 8_000


def rows(binary: bool) -> pd.DataFrame:
    random = np.random.default_rng(1)
    data = pd.DataFrame(random.uniform(-1, 1, (ROWS, len(NAMES))), columns=NAMES)
    response = data["x1"] - data["x3"] + random.normal(0, 1, ROWS)
    return data.assign(y=(response > 0).astype(int) if binary else response.clip(-5, 5))


@pytest.mark.parametrize("binary", [False, True])
def test_rows_are_those_of_the_half_that_is_fitted(binary: bool) -> None:
    """Within 5 standard deviations of half the rows: a false alarm in a million, and the seed is fixed."""
    domain = {**dict.fromkeys(NAMES, (-1, 1)), "y": (0, 1) if binary else (-5, 5)}
    call = {"domain": domain, "family": "binomial" if binary else "gaussian", "screen": 2, "inference": True}
    fit = dp.glm(FORMULA, rows(binary), 4.0, split="rows", seed=1, **call)
    counted = fit.glance().iloc[0]
    assert abs(counted["nobs"] - ROWS / 2) < 5 * counted["nobs_std_error"]
    assert counted["nobs_std_error"] >= np.sqrt(ROWS) / 2, "which half a row is in, is drawn"
    assert f"rows: about {counted['nobs']:,}" in " ".join(str(fit.summary()).split())
    assert fit.needed_rows is not None
    assert fit.needed_rows.rows == pytest.approx(ROWS, rel=0.1), "a plan is for both halves"
    public = dp.glm(FORMULA, rows(binary), 4.0, split="rows", seed=1, adjacency="replace_one", **call)
    assert f"rows: {ROWS} in both halves" in " ".join(str(public.summary()).split())


@pytest.mark.parametrize("ranges", [None, "bought"])
def test_a_count_before_ranges_were_bought_is_of_that_half_too(ranges: Literal["bought"] | None) -> None:
    """Within 5 standard deviations of half the rows; the fit leaves out some of them, whose number is private."""
    domain = {**dict.fromkeys(NAMES, (-40, 40)), "y": (-5, 5)}
    call: dict[str, Any] = {
        "domain": domain,
        "screen": 2,
        "inference": True,
        "ranges": ranges,
        "split": "rows",
        "seed": 1,
    }
    fit = dp.ols(FORMULA, rows(False), 8.0, **call)
    assert not fit.plan.counts_rows_used
    facts = fit_facts(fit)
    assert facts["rows"] is None
    assert abs(facts["rows_counted"] - ROWS / 2) < 5 * facts["rows_counted_se"]
    assert facts["rows_counted_se"] >= np.sqrt(ROWS) / 2, "which half a row is in, is drawn"
    assert fit.glance()["rows_counted"].item() == facts["rows_counted"]
    shown = f"about {facts['rows_counted']:,} (s.d. {facts['rows_counted_se']:.0f})"
    assert f"rows: {shown} before ranges were bought" in " ".join(str(fit.summary()).split())
    assert shown in " ".join(str(dp.etable([fit])).split())
    assert fit.needed_rows is None or fit.needed_rows.rows == pytest.approx(ROWS, rel=0.1), "a plan is for both halves"


def test_a_count_that_noise_leaves_below_zero_is_no_failure() -> None:
    domain = {**dict.fromkeys(NAMES, (-1, 1)), "y": (-5, 5)}
    call = {"domain": domain, "screen": 2, "split": "rows", "on_mismatch": "go", "inference": True}
    few = rows(False).head(6)
    fits = [dp.ols(FORMULA, few, 0.05, seed=seed, **call) for seed in range(8)]
    assert any((fit.plan.counts.released_rows or (0.0,))[0] < 0 for fit in fits if fit.plan.counts is not None)
    for fit in fits:
        assert "both halves" in str(fit.summary()) or "rows: about" in str(fit.summary())

"""A part of a ledger's partition pays for its own rows, and a fit charged to it reads no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats as dp

DOMAIN = {"y": (0, 100), "x": (0, 1)}


def frame() -> pd.DataFrame:
    """Region a has y near 10 and region b near 90."""
    rng = np.random.default_rng(0)
    region = np.repeat(["a", "b"], 3000)
    y = np.where(region == "a", 10.0, 90.0) + rng.normal(size=6000)
    return pd.DataFrame({"region": region, "x": rng.random(6000), "y": y})


def test_a_part_reads_its_own_rows_only(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=60.0) as ledger:
        parts = ledger.partition("region", ["a", "b"])
        for region, level in (("a", 10), ("b", 90)):
            fit = dp.ols("y ~ 1", frame(), 50.0, domain=DOMAIN, ledger=parts[region])
            assert fit.params["Intercept"] == pytest.approx(level, abs=3)
        assert ledger.remaining.eps == pytest.approx(10)


def test_ranges_and_many_models_of_a_part(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=30.0) as ledger:
        part = ledger.partition("region", ["a", "b"])["b"]
        bought = dp.buy_ranges(frame(), ["y"], 5.0, ledger=part)
        assert bought.domain["y"].low > 50
        plans = dp.plan_many({"one": "y ~ 1", "two": "y ~ x"}, DOMAIN, 20.0)
        fits = plans.fit(frame(), ledger=part)
        assert fits["one"].params["Intercept"] > 60
        assert ledger.remaining.eps == pytest.approx(5)


def test_rows_that_cannot_be_told_apart_are_refused_before_the_charge(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=2.0) as ledger:
        part = ledger.partition("region", ["a", "b"])["a"]
        with pytest.raises(dp.errors.ArgumentError, match="arrays"):
            dp.GLM(np.zeros(5), np.zeros((5, 1)), row_norm=1.0).fit(1.0, ledger=part)
        with pytest.raises(dp.errors.DataError, match="region"):
            dp.ols("y ~ x", frame().drop(columns="region"), 1.0, domain=DOMAIN, ledger=part)
        assert ledger.remaining.eps == 2.0
        assert len(ledger.entries()) == 0

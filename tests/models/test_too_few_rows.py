"""A fit that insists on standard errors stops where hardly any are to be expected, before it is paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError, MismatchError
from dpstats.models import errors_needed
from dpstats.models.errors_needed import too_few_rows

NAMES = [f"x{place}" for place in range(60)]
DOMAIN: dict[str, Any] = {"y": (0, 1), "v": (0, 100), "c": (0, 20), "w": (0, 1)} | dict.fromkeys(NAMES, (0, 1))
MANY = " + ".join(NAMES)


def frame(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(rows)
    columns = {name: rng.uniform(size=rows) for name in NAMES}
    rest = {"y": rng.integers(0, 2, rows), "v": rng.normal(50, 8, rows), "c": rng.poisson(3, rows), "w": 1.0}
    return pd.DataFrame(columns | rest)


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return dp.Ledger(tmp_path / "data.ledger", eps=5.0, dataset="people")


@pytest.mark.parametrize("family", ["binomial", "gaussian", "poisson"])
def test_it_stops_after_the_count(family: str, ledger: dp.Ledger) -> None:
    response = {"binomial": "y", "gaussian": "v", "poisson": "c"}[family]
    arguments: dict[str, Any] = {"domain": DOMAIN, "family": family, "inference": True, "ledger": ledger}
    # By chance 1,100 rows too many are counted, so that it goes on, once in 100,000 runs.
    with pytest.raises(MismatchError, match=r"too few for inference=True.*the rows cost eps=0\.03") as told:
        dp.glm(f"{response} ~ {MANY}", frame(50), 1.0, **arguments)
    assert "on_mismatch='go' fits in any case" in str(told.value)
    assert ledger.remaining.eps == pytest.approx(4.97)
    fit = dp.glm(f"{response} ~ {MANY}", frame(50), 1.0, on_mismatch="go", **arguments)
    assert np.isfinite(fit.bse).mean() <= 0.2
    assert ledger.remaining.eps == pytest.approx(3.97)


@pytest.mark.parametrize("public", [{"n": 50}, {"adjacency": "replace_one"}, {"n": 50, "check_share": 0.03}])
def test_nothing_is_charged_where_the_number_of_rows_is_public(public: dict[str, Any], tmp_path: Path) -> None:
    adjacency = public.get("adjacency", "add_remove")
    ledger = dp.Ledger(tmp_path / "data.ledger", eps=5.0, dataset="people", adjacency=adjacency)
    arguments: dict[str, Any] = {"domain": DOMAIN, "ledger": ledger, "inference": True, **public}
    with pytest.raises(ArgumentError, match=r"with 50 rows, .* usually need about [\d,]+ rows"):
        dp.logit(f"y ~ {MANY}", frame(50), 1.0, **arguments)
    assert ledger.remaining.eps == 5.0
    dp.logit(f"y ~ {MANY}", frame(50), 1.0, on_mismatch="go", **arguments)


@pytest.mark.parametrize("inference", [True, "auto"])
def test_a_query_is_not_run_before_the_charge(inference: Any, tmp_path: Path) -> None:
    """One that fails on a cell would quote it for nothing."""
    pl = pytest.importorskip("polars")
    ledger = dp.Ledger(tmp_path / "data.ledger", eps=5.0, dataset="people", adjacency="replace_one")
    arguments: dict[str, Any] = {"domain": DOMAIN, "ledger": ledger, "inference": inference}
    query = pl.from_pandas(frame(50).assign(z=["0"] * 49 + ["secret"])).lazy().filter(pl.col("z").cast(pl.Float64) == 0)
    with pytest.raises(dp.errors.ReleaseError) as told:
        dp.logit(f"y ~ {MANY}", query, 1.0, adjacency="replace_one", **arguments)
    assert "secret" not in str(told.value)
    assert ledger.remaining.eps < 5.0


@pytest.mark.parametrize("rows", [50, 4_000])
def test_the_private_number_of_rows_of_a_side_is_not_told(rows: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    frame(rows).assign(id=range(rows)).to_csv(path, index=False)
    for data in (frame(rows).assign(id=range(rows)), path):
        side = dp.holdout(data, 0.5, by="id", seed=1).train
        with pytest.raises(ArgumentError, match="the number of rows of a side is private"):
            dp.logit(f"y ~ {MANY}", side, 1.0, domain=DOMAIN, inference=True, adjacency="replace_one")


def test_a_ledger_to_which_the_number_of_rows_is_private_does_not_tell_it(ledger: dp.Ledger) -> None:
    rows = frame(50).assign(g="a")
    for pays in (ledger, ledger.partition("g", ["a", "b"])["a"]):
        with pytest.raises(dp.errors.LedgerError, match="treats the number of rows as public"):
            dp.logit(f"y ~ {MANY}", rows, 1.0, domain=DOMAIN, inference=True, adjacency="replace_one", ledger=pays)
    assert ledger.remaining.eps == 5.0


def test_a_file_is_judged_after_its_count(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    frame(50).to_csv(path, index=False)
    with pytest.raises(MismatchError, match=r"with 50 rows.*counting the rows cost"):
        dp.logit(f"y ~ {MANY}", path, 1.0, domain=DOMAIN, inference=True, adjacency="replace_one")


def test_it_goes_on_where_the_forecast_is_not_clear() -> None:
    arguments: dict[str, Any] = {"domain": DOMAIN, "seed": 1}
    dp.logit(f"y ~ {MANY}", frame(50), 1.0, **arguments)  # that insists on nothing
    dp.logit("y ~ x0", frame(300), 1.0, inference=True, **arguments)
    dp.logit(f"y ~ {MANY}", frame(50), 1.0, inference=True, weights="w", **arguments)  # which have no forecast
    for formula in ("y ~ 1", "y ~ x0 + x1"):
        assert too_few_rows(dp.plan(formula, DOMAIN, 1.0, family="binomial", inference=True), 200) is None


@pytest.mark.parametrize(("slopes", "rows"), [(1, 8), (8, 50), (15, 100)])
def test_where_it_stops_hardly_any_slope_has_an_error(slopes: int, rows: int) -> None:
    """Columns that fill their ranges evenly say more than what is forecast: 10 fits by fixed seeds."""
    formula = f"y ~ {' + '.join(NAMES[:slopes])}"
    assert too_few_rows(dp.plan(formula, DOMAIN, 1.0, family="binomial", inference=True), rows) is not None
    arguments: dict[str, Any] = {"domain": DOMAIN, "inference": True, "on_mismatch": "go"}
    fits = [dp.logit(formula, frame(rows), 1.0, seed=seed, **arguments) for seed in range(10)]
    shares = [np.isfinite(fit.bse.drop("Intercept")).mean() for fit in fits]
    assert np.mean(shares) <= 0.1


def test_where_rows_are_many_no_forecast_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes .05 s for ten columns."""
    monkeypatch.setattr(errors_needed, "carried_out", None)
    monkeypatch.setattr(errors_needed, "sample_rows", None)
    plan = dp.plan("y ~ x0 + x1 + x2 + x3", DOMAIN, 1.0, family="binomial", inference=True)
    assert too_few_rows(plan, 600) is None

"""Survival curves: exact sensitivity, planted bugs, agreement with statsmodels, coverage, and bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

import dpstats as dp
from dpstats.call import check_privacy
from dpstats.data import as_table
from dpstats.domain import Domain
from dpstats.inference.survival import NoisyCounts, curves, log_rank
from dpstats.models.kaplan_meier import ExitHistogram, _plan

DOMAIN = {"time": (0, 60), "event": (0, 1), "arm": ["a", "b"], "sex": ["f", "m"]}
FORMULA = "Surv(time, event) ~ arm + sex"
ADJACENCIES = ["add_remove", "replace_one"]


def frame(rows: int, seed: int) -> pd.DataFrame:
    """Rows all over the ranges and beyond them, some of them unusable."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "time": rng.choice([-3.0, 0.0, 2.5, 3.0, 17.0, 59.9, 60.0, 500.0, np.nan, np.inf], rows),
            "event": rng.choice([0.0, 1.0, 2.0, np.nan], rows, p=[0.4, 0.4, 0.1, 0.1]),
            "arm": rng.choice(["a", "b", "no"], rows),
            "sex": rng.choice(["f", "m"], rows),
        }
    )


def histogram(formula: str = FORMULA, adjacency: str = "add_remove", **options: Any) -> tuple[Any, ExitHistogram]:
    privacy = check_privacy(0.7, adjacency=adjacency, seed=None)
    return _plan(formula, Domain(DOMAIN), privacy, options.get("breaks", 20))


def log_ratio(scale: float, first: Any, second: Any) -> float:
    """The supremum over outcomes of the log ratio of two densities of discrete Laplace noise: at the first counts."""
    return float(np.abs(first - second).sum()) / scale


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_curves_keep_their_eps_exactly(adjacency: str) -> None:
    plan, cells = histogram(adjacency=adjacency)
    ratios = []
    for seed in range(20):
        data, other = frame(6, seed), frame(1, 10_000 + seed)
        one = data if adjacency == "add_remove" else pd.concat([data, frame(1, 20_000 + seed)])
        first, second = (cells.counted([as_table(rows)]) for rows in (one, pd.concat([data, other])))
        ratios.append(log_ratio(plan.sensitivity / 0.7, first, second))
    assert 0.7 * 0.99 < max(ratios) <= 0.7 * (1 + 1e-12)


def test_one_cell_for_a_replaced_row_is_caught() -> None:
    """Planted: the noise of add_remove, though a replaced row leaves one cell and enters another."""
    _, cells = histogram(adjacency="replace_one")
    first, second = (
        cells.counted([as_table({"time": [time], "event": [1], "arm": ["a"], "sex": ["f"]})]) for time in (5.0, 50.0)
    )
    assert log_ratio(1 / 0.7, first, second) > 1.3


def test_numbers_at_risk_with_their_own_noise_are_caught() -> None:
    """Planted: a count in every interval in which the row is at risk, with the noise of one cell."""
    _, cells = histogram("Surv(time, event) ~ 1")
    counts = cells.counted([as_table({"time": [50.0], "event": [1]})])
    assert log_ratio(1 / 0.7, counts, 0 * counts) == pytest.approx(0.7)
    at_risk = np.cumsum((counts[:20] + counts[20:40])[::-1])[::-1] + counts[40]
    assert log_ratio(1 / 0.7, at_risk, 0 * at_risk) > 10 * 0.7


def test_a_cut_time_has_no_event() -> None:
    _, cells = histogram("Surv(time, event) ~ 1", breaks=[10, 60])
    rows = {"time": [60.0, 500.0, 59.0, 0.0, -4.0, np.inf], "event": [1, 1, 1, 1, 0, 1]}
    # Events by interval, censored by interval, the end; an infinite time is missing.
    assert cells.counted([as_table(rows)]).tolist() == [1, 1, 1, 0, 2]
    _, cells = histogram("Surv(time, event) ~ 1", breaks=[10, 50])
    assert cells.counted([as_table(rows)]).tolist() == [1, 0, 1, 0, 3]


def test_the_counts_are_those_of_groups_and_intervals() -> None:
    _, cells = histogram(breaks=[10, 20])
    rows = {"time": [10.0, 10.1, 5.0, 5.0], "event": [1, 0, 1, 1], "arm": ["a", "b", "b", None], "sex": list("fmmf")}
    counts = cells.counted([as_table(rows)]).reshape(4, 5)
    assert cells.groups.names == ("arm=a, sex=f", "arm=a, sex=m", "arm=b, sex=f", "arm=b, sex=m")
    assert counts.tolist() == [[1, 0, 0, 0, 0], [0] * 5, [0] * 5, [1, 0, 0, 1, 0]]


def survival_rows(size: int, seed: int, hazards: tuple[float, ...] = (1.0, 1.0), most: float = 1.5) -> Any:
    """Times to an event under random censoring, in as many groups of equal size as there are hazards."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, len(hazards), size)
    event, lost = rng.exponential(1 / np.array(hazards)[arm]), rng.uniform(0, 2, size)
    time = np.minimum(event, lost)
    return {"time": 60 * time / most, "event": (event <= lost) * 1.0, "arm": np.array(["a", "b"])[arm]}


def test_without_noise_it_is_kaplan_and_meier_and_the_log_rank_test() -> None:
    rows = survival_rows(4000, 1, (1.0, 1.15))
    km = dp.kaplan_meier("Surv(time, event) ~ arm", rows, 1e4, domain=DOMAIN, breaks=300, seed=1)
    cut = rows["time"] >= 60
    times, events = np.minimum(rows["time"], 60), np.where(cut, 0, rows["event"])
    for arm in ("a", "b"):
        here = rows["arm"] == arm
        exact = SurvfuncRight(times[here], events[here])
        at = np.array([6.0, 30.0, 54.0])
        place = np.searchsorted(exact.surv_times, at, side="right") - 1
        mine = km.survival(at, f"arm={arm}")
        np.testing.assert_allclose(mine["survival"], exact.surv_prob[place], atol=2e-4)
        table = km.table[km.table["group"] == f"arm={arm}"].set_index("time")
        np.testing.assert_allclose(table.loc[at, "std_err"], exact.surv_prob_se[place], rtol=0.06)
        assert km.quantile().loc[f"arm={arm}", "time"] == pytest.approx(exact.quantile(0.5), abs=0.2)
    chi2, pvalue = survdiff(times, events, rows["arm"])
    assert km.logrank().statistic == pytest.approx(chi2, rel=0.03)
    assert km.logrank().pvalue == pytest.approx(pvalue, rel=0.1)


def noisy_counts(rows: Any, eps: float, rng: np.random.Generator, cells: ExitHistogram) -> NoisyCounts:
    counts = cells.counted([as_table(rows)]).reshape(cells.shape)
    noise = np.floor(rng.exponential(1 / eps, (2, *counts.shape)))
    noisy = counts + noise[0] - noise[1]
    return NoisyCounts(noisy[:, :20], noisy[:, 20:40], noisy[:, 40], 0.5 / np.sinh(eps / 2) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "eps"), [(1000, 1.0), (400, 3.0)])
def test_intervals_cover(size: int, eps: float) -> None:
    """Over 300 data sets; a mean coverage within .94 and .975 fails by chance once in 2,000 (s.d. .0034 or less)."""
    _, cells = histogram("Surv(time, event) ~ 1")
    rng, true, held = np.random.default_rng(5), np.linspace(0, 1.5, 21)[1:], []
    for seed in range(300):
        found = curves(noisy_counts(survival_rows(size, seed), eps, rng, cells), 0.05)
        shown = np.isfinite(found.hazard[0])
        held.append(np.mean((found.low[0] <= true)[shown] & (true <= found.high[0])[shown]))
    assert 0.94 <= np.mean(held) <= 0.975


@pytest.mark.slow
def test_the_log_rank_test_has_its_size_and_forgotten_noise_is_caught() -> None:
    """Over 1,200 data sets: .05 has a standard deviation of .0063, so .07 is passed by chance once in 1,000."""
    _, cells = histogram("Surv(time, event) ~ arm")
    rng, tests, forgetful = np.random.default_rng(6), [], []
    for seed in range(1200):
        counts = noisy_counts(survival_rows(400, seed), 0.5, rng, cells)
        tests.append(log_rank(counts).pvalue)
        forgetful.append(log_rank(counts._replace(variance=1e-9)).pvalue)
    assert 0.03 <= np.nanmean(np.array(tests) < 0.05) <= 0.07
    assert np.nanmean(np.array(forgetful) < 0.05) > 0.09


def test_a_group_that_is_too_small_has_no_curve() -> None:
    rows = {"time": [10.0] * 500, "event": [1.0] * 500, "arm": ["a"] * 500}
    km = dp.kaplan_meier("Surv(time, event) ~ arm", rows, 1.0, domain=DOMAIN, seed=1)
    assert km.table[km.table["group"] == "arm=b"]["survival"].isna().all()
    assert np.isnan(km.logrank().pvalue)
    assert "too few at risk" in km.summary().as_text()
    assert km.survival([5.0, -1.0], "arm=b")["survival"].isna().all()


def test_curves_fall_and_lie_within_their_intervals() -> None:
    for seed in range(5):
        rows = survival_rows(300, seed)
        km = dp.kaplan_meier("Surv(time, event) ~ 1", rows, 0.5, domain=DOMAIN, seed=seed)
        table = km.curves(0.1).dropna()
        assert (np.diff(table["survival"]) <= 0).all()
        assert ((table["low"] <= table["survival"]) & (table["survival"] <= table["high"])).all()
        assert table[["survival", "low", "high"]].stack().between(0, 1).all()
        assert (table["noise_err"] < table["std_err"]).all()


def test_the_guarantee_names_its_proof() -> None:
    km = dp.kaplan_meier("Surv(time, event) ~ 1", survival_rows(30, 3), 1.0, domain=DOMAIN)
    assert km.guarantee == dp.Guarantee(1.0, basis="docs/proofs/survival")
    assert "Theorem" in dp.proof(km.guarantee).text


def test_persons_count_once() -> None:
    rows = pd.DataFrame(survival_rows(300, 3)).assign(who=lambda data: np.arange(len(data)) // 3)
    km = dp.kaplan_meier("Surv(time, event) ~ 1", rows, 50.0, domain=DOMAIN, unit="who")
    assert km.counts.sum() == 100
    assert str(km.guarantee) == "eps=50, add_remove per who, certified"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no Surv": ({"formula": "time ~ arm"}, "not Surv"),
    "no tilde": ({"formula": "Surv(time, event)"}, "not Surv"),
    "one argument": ({"formula": "Surv(time) ~ arm"}, "a time and an event"),
    "entry": ({"formula": "Surv(entry, time, event) ~ arm"}, "delayed entry"),
    "text": ({"formula": 3}, "must be a string"),
    "number": ({"formula": "Surv(time, event) ~ time"}, "declare its levels"),
    "weights": ({"formula": "Surv(time, event) ~ arm + weights(event)"}, "weights"),
    "undeclared group": ({"formula": "Surv(time, event) ~ ward"}, "'ward' is not declared"),
    "undeclared time": ({"domain": {"event": (0, 1), "arm": ["a"]}}, "'time' is not declared"),
    "undeclared event": ({"domain": {"time": (0, 1), "arm": ["a"]}}, "'event' is not declared"),
    "event range": ({"domain": {**DOMAIN, "event": (0, 2)}}, "needs 0 and 1"),
    "negative time": ({"domain": {**DOMAIN, "time": (-1, 2)}}, "counted from 0"),
    "dropped times": ({"domain": {**DOMAIN, "time": dp.Range(0, 9, outside="drop")}}, "drops rows"),
    "many groups": ({"domain": {**DOMAIN, "arm": list(range(51))}}, "51 groups"),
    "no intervals": ({"breaks": 0}, "breaks"),
    "falling": ({"breaks": [3, 2]}, "increasing"),
    "beyond": ({"breaks": [3, 200]}, "within the declared range"),
    "flag": ({"breaks": True}, "breaks"),
    "an array": ({"breaks": np.array([1.0, 2.0])}, "breaks"),
    "eps": ({"eps": -1}, "eps"),
    "tiny eps": ({"eps": 1e-20}, "eps"),
    "adjacency": ({"adjacency": "other"}, "adjacency"),
    "no column": ({"data": {"time": [1.0]}}, "event"),
    "label": ({"label": "x"}, "ledger"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_before_any_charge(case: str, tmp_path: Any) -> None:
    ledger = dp.Ledger(tmp_path / "books.db", dataset="rows", eps=10.0)
    call: dict[str, Any] = {"formula": "Surv(time, event) ~ arm", "data": frame(20, 1), "eps": 1.0, "domain": DOMAIN}
    given, message = BAD[case]
    more = {} if case == "label" else {"ledger": ledger}
    with pytest.raises(dp.errors.DPStatsError, match=message):
        dp.kaplan_meier(**{**call, **more, **given})
    assert ledger.remaining[0] == 10.0


WRONG: dict[str, Callable[[dp.KaplanMeier], Any]] = {
    "alpha": lambda km: km.curves(2),
    "quantile": lambda km: km.quantile(1.0),
    "group": lambda km: km.survival(3.0, "arm=c"),
    "no group": lambda km: km.survival(3.0),
    "times": lambda km: km.survival("soon", "arm=a"),
    "picture": lambda km: dp.plots.survival(km.counts),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_questions_to_a_result(case: str) -> None:
    km = dp.kaplan_meier("Surv(time, event) ~ arm", frame(20, 1), 1.0, domain=DOMAIN, seed=1)
    with pytest.raises(dp.errors.ArgumentError):
        WRONG[case](km)


def test_an_entry_of_the_ledger_says_what_was_bought(tmp_path: Any) -> None:
    ledger = dp.Ledger(tmp_path / "books.db", dataset="rows", eps=10.0)
    dp.kaplan_meier(FORMULA, frame(20, 1), 2.0, domain=DOMAIN, ledger=ledger, label="table 1", analyst="Ada")
    entry = ledger.entries().iloc[-1]
    assert (entry["eps"], entry["method"]) == (2.0, "kaplan_meier")
    with pytest.raises(dp.errors.BudgetExceeded):
        dp.kaplan_meier(FORMULA, frame(20, 1), 9.0, domain=DOMAIN, ledger=ledger)


def test_an_evaluation_of_curves_is_refused() -> None:
    km = dp.kaplan_meier("Surv(time, event) ~ arm", frame(20, 1), 1.0, domain=DOMAIN, seed=1)
    with pytest.raises(dp.errors.DPStatsError):
        dp.evaluate(km, frame(20, 1), 1.0)  # type: ignore[arg-type]

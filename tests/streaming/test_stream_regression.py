"""Streams of regressions as users call them: what is released, what is refused, and before which step."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import dpstats as dp
from dpstats.errors import (
    ArgumentError,
    BudgetExceeded,
    DataError,
    DomainError,
    FormulaError,
    NotReleasedError,
    ReleaseError,
    StreamError,
    UncertifiedError,
)
from dpstats.streaming import Regression, StreamPlan, StreamResults
from dpstats.streaming.constraints import GroupL1, L1Ball, L2Ball
from dpstats.streaming.labels import ClosedLabels

DOMAIN: dict[str, Any] = {"x": (-2, 2), "g": ["a", "b", "c"], "y": (-6, 6)}
LOGIT = {**DOMAIN, "y": [0, 1]}
HUGE = 1e6
"""An eps at which the noise is nothing beside the rows: released coefficients are those of the sums themselves."""


def frame(rows: int, seed: int, *, binary: bool = False, slope: float = 1.0) -> pd.DataFrame:
    """Rows of a stream."""
    random = np.random.default_rng(seed)
    x, g = random.uniform(-2, 2, rows), random.choice(["a", "b", "c"], rows)
    eta = 0.3 + slope * x - 0.5 * (g == "b")
    y = (random.random(rows) < expit(eta)).astype(int) if binary else np.clip(eta + random.normal(size=rows), -6, 6)
    return pd.DataFrame({"x": x, "g": g, "y": y})


def linear(eps: float = HUGE, **options: Any) -> Regression:
    options = {"horizon": 20} | options
    return Regression("y ~ x + g", DOMAIN, eps, 1e-6, **options)


def least_squares(rows: pd.DataFrame, weights: np.ndarray | None = None) -> np.ndarray:
    """Coefficients of (Intercept, g[T.b], g[T.c], x)."""
    exog = np.column_stack([np.ones(len(rows)), rows.g == "b", rows.g == "c", rows.x]).astype(float)
    root = np.ones(len(rows)) if weights is None else np.sqrt(weights)
    return np.linalg.lstsq(exog * root[:, None], rows.y.to_numpy() * root, rcond=None)[0]


def test_each_tick_is_the_regression_of_all_rows_so_far() -> None:
    stream, months = linear(), [frame(200 + 50 * tick, tick) for tick in range(6)]
    for tick, month in enumerate(months, start=1):
        result = stream.update(month)
        want = least_squares(pd.concat(months[:tick]))
        np.testing.assert_allclose(result.params, want, atol=5e-3)
        assert isinstance(result, StreamResults)
        assert stream.tick == tick
        pd.testing.assert_series_equal(stream.params, result.params)


def test_a_result_has_the_methods_that_the_guide_names_and_says_what_stands_for_others() -> None:
    stream = linear(eps=20.0, horizon=2)
    result = stream.update(frame(2000, 0))
    new = {"x": [0.5], "g": ["b"]}
    for answer in (result.tidy(), result.conf_int(), result.t_test("x = 0"), result.wald_test("x = 0"), result.plot()):
        assert answer is not None
    assert len(result.predict(new)) == len(result.get_prediction(new).summary_frame()) == 1
    names = "comparisons effects get_margeff predictions fitstats rsquared_adj notes left_out focus"
    for name in names.split():
        with pytest.raises(NotReleasedError, match=rf"{name} is not offered for StreamResults: "):
            getattr(result, name)
    with pytest.raises(NotReleasedError, match=r"get_prediction\(newdata\) has the means of public rows"):
        result.predictions(newdata=new)
    for name in ("aic", "rsquared", "resid", "df_resid"):
        with pytest.raises(NotReleasedError, match=f"{name} was not released") as refusal:
            getattr(result, name)
        assert not re.search("fit.fitstats|replace_one", str(refusal.value)), "streams have neither"


def test_intervals_follow_from_the_same_sums() -> None:
    stream, months = linear(), [frame(300, tick) for tick in range(8)]
    for month in months:
        stream.update(month)
    np.testing.assert_allclose(stream.window(3).params, least_squares(pd.concat(months[-3:])), atol=5e-3)
    between = stream.between(2, 5)
    np.testing.assert_allclose(between.params, least_squares(pd.concat(months[2:5])), atol=5e-3)
    assert (between.first, between.last) == (3, 5)
    difference = least_squares(pd.concat(months[-4:])) - least_squares(pd.concat(months[:4]))
    change = stream.change(4)
    np.testing.assert_allclose(change["change"], difference, atol=5e-3)
    assert (change["std_error"] > 0).all()
    assert change.index.tolist() == list(stream.plan().names)
    history = stream.history
    assert len(history) == 8 * 4
    np.testing.assert_allclose(history[history.tick == 8].released, stream.params)
    np.testing.assert_allclose(stream.at(3).params, history[history.tick == 3].released)


def test_a_window_and_a_halflife_forget() -> None:
    months = [frame(400, tick, slope=1.0 + 0.3 * tick) for tick in range(6)]
    windowed = Regression("y ~ x + g", DOMAIN, HUGE, 1e-6, window=2)
    decaying = Regression("y ~ x + g", DOMAIN, HUGE, 1e-6, halflife=2)
    for month in months:
        last, faded = windowed.update(month), decaying.update(month)
    np.testing.assert_allclose(last.params, least_squares(pd.concat(months[-2:])), atol=5e-3)
    weights = np.repeat(0.5 ** (np.arange(5, -1, -1) / 2), 400)
    np.testing.assert_allclose(faded.params, least_squares(pd.concat(months), weights), atol=5e-3)
    assert last.first == 5
    np.testing.assert_allclose(decaying.between(4, 6).params, last.params, atol=5e-3)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_a_renewed_logistic_regression_finds_the_estimate_of_all_rows(adjacency: str) -> None:
    stream = Regression("y ~ x + g", LOGIT, HUGE, 1e-6, family="binomial", horizon=40, adjacency=adjacency)
    months = [frame(1000, tick, binary=True) for tick in range(40)]
    for month in months:
        result = stream.update(month)
    rows = pd.concat(months)
    exog = np.column_stack([np.ones(len(rows)), rows.g == "b", rows.g == "c", rows.x]).astype(float)
    params = np.zeros(4)
    for _ in range(20):
        mean = expit(exog @ params)
        hessian = (exog * (mean * (1 - mean))[:, None]).T @ exog
        params -= np.linalg.solve(hessian, exog.T @ (mean - rows.y))
    # The first ticks are linearised at coefficients of few rows: a second-order bias, far below a standard error.
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    assert np.abs((result.params.to_numpy() - params) / errors).max() < 0.6
    np.testing.assert_allclose(result.bse, errors, rtol=0.1)


def test_counts_are_renewed_too() -> None:
    random = np.random.default_rng(1)
    domain = {"x": (-1, 1), "y": (0, 20)}
    stream = Regression("y ~ x", domain, HUGE, 1e-6, family=dp.families.Poisson(mean_cap=15.0), horizon=30)
    for _ in range(30):
        x = random.uniform(-1, 1, 1000)
        result = stream.update(pd.DataFrame({"x": x, "y": random.poisson(np.exp(0.5 + x))}))
    np.testing.assert_allclose(result.params, [0.5, 1.0], atol=0.05)
    assert result.scale == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("dispersion", [1.0, 3.0])
def test_errors_of_counts_follow_their_dispersion(dispersion: float) -> None:
    """Nearly without noise they are those of quasi-Poisson regression, up to what the linearisation adds."""
    random = np.random.default_rng(2)
    domain = {"x": (-1, 1), "y": (0, 60)}
    stream = Regression("y ~ x", domain, HUGE, 1e-6, family=dp.families.Poisson(mean_cap=12.0), horizon=30)
    information = np.zeros((2, 2))
    for _ in range(30):
        x = random.uniform(-1, 1, 1000)
        mean = np.exp(0.5 + x)
        # A negative binomial count of variance `dispersion` times its mean.
        rate = mean if dispersion == 1 else random.gamma(mean / (dispersion - 1), dispersion - 1)
        result = stream.update(pd.DataFrame({"x": x, "y": random.poisson(rate)}))
        exog = np.column_stack([np.ones(1000), x])
        information += exog.T @ (exog * mean[:, None])
    assert result.scale == pytest.approx(dispersion, rel=0.1)
    ratio = result.bse / np.sqrt(dispersion * np.diag(np.linalg.inv(information)))
    assert ratio.between(0.95, 1.45).all()
    assert np.all(np.abs(result.debiased - [0.5, 1.0]) < 4 * result.bse)


@pytest.mark.slow
def test_intervals_of_counts_cover_with_noise() -> None:
    """At 95 % fewer than 40 of 45 is a false alarm in one of 80 runs of independent intervals; seeds are fixed.

    Twice the dispersion of a Poisson law, of which the errors know nothing but the sums.
    """
    covers = []
    for seed in range(15):
        random = np.random.default_rng(seed)
        domain = {"x": (-1, 1), "g": ["a", "b"], "y": (0, 30)}
        family = dp.families.Poisson(mean_cap=6.0)
        stream = Regression("y ~ x + g", domain, 2.0, 1e-6, family=family, horizon=12, seed=seed)
        for _ in range(12):
            x, level = random.uniform(-1, 1, 4000), random.integers(0, 2, 4000)
            rate = random.gamma(np.exp(0.3 + 0.6 * x + 0.3 * level), 1.0)
            rows = {"x": x, "g": np.array(["a", "b"])[level], "y": random.poisson(rate)}
            result = stream.update(pd.DataFrame(rows))
        if result.has_errors:
            ends = result.conf_int().loc[["Intercept", "g[T.b]", "x"]]
            covers += ((ends[0] <= [0.3, 0.3, 0.6]) & (ends[1] >= [0.3, 0.3, 0.6])).tolist()
    assert len(covers) >= 30
    assert np.mean(covers) >= 0.89


def test_counts_without_errors_say_that_coefficients_are_shrunk() -> None:
    """Without a delta, or an intercept, there is no dispersion; no message sends the reader round in a circle."""
    domain = {"x": (0, 1), "y": (0, 20)}
    stream = Regression("y ~ x - 1", domain, 1.0, 1e-6, family="poisson", horizon=3)
    result = stream.update({"x": [0.5] * 50, "y": [2] * 50})
    assert not result.has_errors
    shown = " ".join(str(result.summary()).split())
    assert "errors need an intercept" in shown
    assert "coef is shrunk towards zero" in shown
    with pytest.raises(NotReleasedError, match="intercept"):
        _ = result.noise_sd
    with pytest.raises(NotReleasedError, match="where there are standard errors"):
        _ = result.noise_at_most
    assert stream.plan().vector.square == 0
    assert "declare a smaller one" in " ".join(str(stream.plan()).split())


def test_an_empty_tick_is_a_tick_and_noise_alone_gives_the_null_model() -> None:
    # Seeded: in 4 of 60 draws noise alone passes for information on a coefficient.
    stream = linear(eps=1.0, seed=1)
    result = stream.update(frame(0, 0))
    assert stream.tick == 1
    assert np.abs(result.scaled_params).max() < 1.5
    assert not np.isfinite(result.bse).any()
    assert "identifies no coefficient" in str(result.summary())


def test_results_and_plans_are_stored_and_shown(tmp_path: Path) -> None:
    stream = linear(eps=2.0, penalty="ridge", alpha=1.0)
    for tick in range(3):
        result = stream.update(frame(2000, tick))
    result.save(tmp_path / "result.json")
    loaded = StreamResults.load(tmp_path / "result.json")
    pd.testing.assert_frame_equal(loaded.tidy(), result.tidy())
    assert StreamResults.from_dict(result.to_dict()).to_dict() == loaded.to_dict() == result.to_dict()
    assert str(loaded.summary()) == str(result.summary())
    for text in (str(result.summary()), str(result.summary(full=True)), str(stream.plan())):
        assert max(map(len, text.splitlines())) <= 80
    np.testing.assert_allclose(loaded.predict(frame(5, 9)), result.predict(frame(5, 9)))
    assert result.get_prediction(frame(5, 9)).summary_frame().notna().all().all()
    assert result.glance()["last_tick"][0] == 3
    assert list(result.selection) == []
    assert result.budget.loc["stream", "eps"] == 2.0
    assert {"noise", "excess_risk"} <= set(dir(result))
    with pytest.raises(NotReleasedError):
        result.excess_risk()
    with pytest.raises(NotReleasedError):
        _ = result.noise_at_most
    assert np.isfinite(result.noise_sd).all()
    assert result.information.shape == (4, 4)


def test_a_plan_reads_nothing_and_shows_every_workload() -> None:
    for options in ({"horizon": 120}, {"halflife": 12}, {"window": 12}, {}):
        plan = Regression("y ~ x + g", DOMAIN, 1.0, 1e-6, **options).plan()
        assert isinstance(plan, StreamPlan)
        table = plan.ticks()
        assert (table[["noise_sd", "excess", "per_row", "null"]] > 0).all().all()
        assert max(map(len, str(plan).splitlines())) <= 80
        again = StreamPlan.from_dict(plan.to_dict())
        assert again.digest() == plan.digest()
    late = Regression("y ~ x + g", DOMAIN, 1.0, 1e-6, horizon=120).plan().ticks([1, 60, 120])
    assert late.per_row.is_monotonic_decreasing
    assert late.noise_sd.is_monotonic_increasing


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + g"])
def test_the_noise_of_an_entry_is_the_same_number_wherever_it_stands(formula: str) -> None:
    """Plans and results have that of the sum of x y, in the coordinates in which rows have a norm of at most 1."""
    stream = Regression(formula, DOMAIN, 1.0, 1e-6, horizon=24)
    plan, size = stream.plan(), len(stream.plan().names)
    for tick in (1, 2):
        result = stream.update(frame(50, tick))
        [planned] = plan.ticks([tick]).noise_sd
        assert result.glance()["noise_sd"].item() == planned
        moments = plan.fitting.moments(result.sums, result.deviation)
        back = np.linalg.inv(plan.fitting.law(1.0).axes)  # rows: entries of scaled sums by those in model units
        variances = moments.law.bilinear(back[:size], np.repeat(back[[size]], size, axis=0))
        np.testing.assert_allclose(np.sqrt(variances), planned)


def test_predicted_excess_is_what_rows_have_at_the_guess() -> None:
    """40 streams: the mean is within a factor of two of the prediction, which knows neither rows nor coefficients."""
    domain = {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1), "y": (-1, 1)}
    found = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        stream = Regression("y ~ a + b + c - 1", domain, 1.0, 1e-5, horizon=4, rows_guess=2000, seed=seed)
        plan = stream.plan()
        exog = random.choice([-1.0, 1.0], (4, 2000, 3))
        coef = random.normal(size=3) / 3
        endog = np.clip(exog @ coef + 0.1 * random.normal(size=(4, 2000)), -1, 1)
        for tick in range(4):
            names = dict(zip("abc", exog[tick].T, strict=True))
            result = stream.update(pd.DataFrame({**names, "y": endog[tick]}))
        rows, outcome = exog.reshape(-1, 3), endog.reshape(-1)
        best = np.linalg.lstsq(rows, outcome, rcond=None)[0]
        apart = result.params.to_numpy() - best
        found.append(apart @ (rows.T @ rows) @ apart / 2)
    assert 0.5 < np.mean(found) / plan.ticks([4]).excess[4] < 2


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_coefficients_lie_in_their_constraint(family: str) -> None:
    """The intercept is free; where the set holds the estimate it changes nothing, and noise alone is the null model."""
    binary, domain = family == "binomial", LOGIT if family == "binomial" else DOMAIN
    plain = Regression("y ~ x + g", domain, HUGE, 1e-6, family=family, horizon=8)
    loose = Regression("y ~ x + g", domain, HUGE, 1e-6, family=family, horizon=8, constraint=L2Ball(50.0))
    tight = Regression("y ~ x + g", domain, HUGE, 1e-6, family=family, horizon=8, constraint=L1Ball(0.2))
    for tick in range(4):
        rows = frame(1000, tick, binary=binary)
        found = [stream.update(rows) for stream in (plain, loose, tight)]
    np.testing.assert_allclose(found[0].params, found[1].params, atol=0.02)
    assert np.abs(found[2].scaled_params[1:]).sum() == pytest.approx(0.2, abs=1e-6)
    assert found[2].scaled_params[0] != 0
    assert "Constraint:" in str(found[2].summary())
    assert np.isfinite(found[2].bse).all()
    noisy = Regression("y ~ x + g", domain, 0.1, 1e-6, family=family, horizon=8, constraint=L1Ball(1.0), seed=1)
    np.testing.assert_array_equal(noisy.update(frame(5, 0, binary=binary)).scaled_params[1:], 0.0)


def test_the_printed_solver_comes_near() -> None:
    accelerated, printed = (
        Regression("y ~ x - 1", DOMAIN, 100.0, 1e-6, horizon=4, constraint=L2Ball(1.0), solver=solver, rows_guess=500)
        for solver in ("accelerated", "paper")
    )
    want, found = accelerated.update(frame(500, 0)), printed.update(frame(500, 0))
    assert abs(want.params["x"] - found.params["x"]) < 0.3


def test_pure_noise_and_no_intercept_have_no_errors() -> None:
    pure = Regression("y ~ x", DOMAIN, 50.0, horizon=4)
    assert pure.guarantee.delta == 0
    result = pure.update(frame(3000, 0))
    assert abs(result.params["x"] - 1) < 0.2
    with pytest.raises(NotReleasedError, match="delta"):
        _ = result.bse
    result = Regression("y ~ x - 1", DOMAIN, 50.0, 1e-6, horizon=4).update(frame(3000, 0))
    with pytest.raises(NotReleasedError, match="intercept"):
        result.conf_int()
    sparse = Regression("y ~ x", DOMAIN, 50.0, 1e-6, penalty="lasso", alpha=1.0, horizon=2).update(frame(300, 0))
    with pytest.raises(NotReleasedError, match="penalty"):
        _ = sparse.pvalues
    assert "coef" in sparse.selection


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"eps": -1.0}, ArgumentError, "eps"),
    ({"delta": 2.0}, ArgumentError, "delta"),
    ({"formula": "y ~ z"}, DomainError, "z"),
    ({"formula": "y ~ x +"}, FormulaError, "formula"),
    ({"exposure": "x"}, ArgumentError, "exposure"),
    ({"weights": [1.0, 2.0]}, ArgumentError, "weights"),
    ({"weights": "z"}, DomainError, "z"),
    ({"unit": 7}, ArgumentError, "unit"),
    ({"mechanism": "projected"}, ArgumentError, "constraint"),
    ({"mechanism": "refits"}, ArgumentError, "horizon"),
    ({"mechanism": "refits", "horizon": 5, "participation": (0, 1)}, ArgumentError, "participation"),
    ({"directions": 5}, ArgumentError, "projected"),
    ({"lift": True}, ArgumentError, "projected"),
    ({"family": "nothing"}, ArgumentError, "family"),
    ({"mechanism": "magic"}, ArgumentError, "mechanism"),
    ({"mechanism": "renewable"}, ArgumentError, "linear"),
    ({"mechanism": "linear", "family": "poisson"}, ArgumentError, "renewable"),
    ({"horizon": 0}, ArgumentError, "horizon"),
    ({"horizon": 5, "window": 5}, ArgumentError, "one of horizon"),
    ({"halflife": -1.0}, ArgumentError, "halflife"),
    ({"participation": (0, 0)}, ArgumentError, "participation"),
    ({"sums": "flow"}, ArgumentError, "sums"),
    ({"sums": "tree", "window": 3}, ArgumentError, "sums of all ticks"),
    ({"sums": "blt", "delta": 0.0}, ArgumentError, "delta"),
    ({"penalty": "scad", "alpha": 1.0}, ArgumentError, "penalty"),
    ({"radius": 0.0}, ArgumentError, "radius"),
    ({"constraint": 1.0}, ArgumentError, "constraint"),
    ({"constraint": L1Ball(1.0), "penalty": "ridge", "alpha": 1.0}, ArgumentError, "one of them"),
    ({"constraint": GroupL1(1.0, (2, 2))}, ArgumentError, "groups"),
    ({"solver": "fast"}, ArgumentError, "solver"),
    ({"solver": "paper"}, ArgumentError, "constraint"),
    ({"solver": "paper", "constraint": L1Ball(1.0)}, ArgumentError, "without an intercept"),
    ({"adjacency": "both"}, ArgumentError, "adjacency"),
    ({"ledger": 7}, ArgumentError, "ledger"),
    ({"state": 7}, ArgumentError, "state"),
    ({"state": "/nowhere/at/all"}, ArgumentError, "directory"),
    ({"recall": 0}, ArgumentError, "recall"),
    ({"rows_guess": 0}, ArgumentError, "rows_guess"),
    ({"seed": -3}, ArgumentError, "seed"),
]


@pytest.mark.parametrize(("changed", "error", "said"), BAD, ids=[str(sorted(case[0])) for case in BAD])
def test_bad_arguments_are_refused_at_once(changed: dict[str, Any], error: type[Exception], said: str) -> None:
    arguments: dict[str, Any] = {"formula": "y ~ x", "domain": DOMAIN, "eps": 1.0, "delta": 1e-6} | changed
    with pytest.raises(error, match=said):
        Regression(**arguments)


def test_bad_rows_are_refused_before_the_charge(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=1.0, delta=1e-5)
    stream = linear(eps=1.0, ledger=ledger)
    with pytest.raises(DataError, match="'g'"):
        stream.update(pd.DataFrame({"x": [1.0], "y": [1.0]}))
    with pytest.raises(DataError):
        stream.update([1, 2])
    with pytest.raises(ArgumentError, match="label"):
        stream.update(frame(3, 0), label=3)  # type: ignore[arg-type]
    assert len(ledger.entries()) == 0
    stream.update(frame(3, 0))
    stream.update(frame(3, 1))
    assert ledger.entries().state.tolist() == ["read"]
    assert ledger.remaining.eps == 0
    with pytest.raises(BudgetExceeded):
        linear(eps=1.0, ledger=ledger).update(frame(3, 0))


def test_the_end_of_the_horizon_and_ticks_out_of_order() -> None:
    stream = linear(horizon=2)
    stream.update(frame(10, 0), label="2024-01")
    for label in ("2024-01", "2023-12"):
        with pytest.raises(StreamError, match=r"tick '2024-01' is closed already|does not come after '2024-01'"):
            stream.update(frame(10, 1), label=label)
    with pytest.raises(ArgumentError, match="every tick"):
        stream.update(frame(10, 1))
    stream.update(frame(10, 1), label="2024-02")
    with pytest.raises(StreamError, match="past its last tick, 2"):
        stream.update(frame(10, 2), label="2024-03")
    assert stream.tick == 2
    for call in (
        lambda: stream.between(1, 3),
        lambda: stream.window(3),
        lambda: stream.change(2),
    ):
        with pytest.raises(ArgumentError):
            call()
    for tick in (0, 3, -1):
        with pytest.raises(ArgumentError, match="tick must be a number from 1 to 2, those so far"):
            stream.at(tick)


def test_before_the_first_tick_there_is_nothing_to_look_back_at() -> None:
    with pytest.raises(ArgumentError, match="no tick has been closed yet"):
        linear(eps=1.0).window(2)
    with pytest.raises(ArgumentError, match="no tick has been closed yet"):
        linear(eps=1.0).at(1)


def test_in_memory_only_the_latest_releases_are_remembered() -> None:
    stream = linear(recall=3, eps=5.0)
    for tick in range(6):
        stream.update(frame(50, tick))
    assert "Each tick:" in str(stream.at(6).summary())
    assert "Each tick:" not in str(stream.window(3).summary()), "it is of these ticks, not of all so far"
    assert "Horizon:" in str(stream.window(3).summary())
    with pytest.raises(ArgumentError, match="recall"):
        stream.window(4)
    assert sorted(set(stream.history.tick)) == [3, 4, 5, 6]


def test_a_seeded_stream_is_reproducible_and_not_certified(tmp_path: Path) -> None:
    one, other = (linear(eps=1.0, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.update(frame(50, 0)).params, other.update(frame(50, 0)).params)
    assert not one.guarantee.certified
    assert "NOT CERTIFIED" in str(one.results.summary())
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=1.0, delta=1e-5)
    with pytest.raises(UncertifiedError):
        linear(eps=1.0, seed=3, ledger=ledger).update(frame(50, 0))


def test_streams_are_not_copied() -> None:
    stream = linear()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StreamError, match="not "):
            copied(stream)


def test_a_failure_after_rows_were_read_says_nothing_and_leaves_the_tick_open(monkeypatch: Any) -> None:
    stream = linear(seed=1)
    twin = linear(seed=1)

    def fail(*_: Any) -> None:
        raise ValueError("a cell is 17.5")

    with monkeypatch.context() as patch:
        patch.setattr("dpstats.streaming.vectors.exact_linear", fail)
        with pytest.raises(ReleaseError) as caught:
            stream.update(frame(50, 0))
    assert "17.5" not in str(caught.value)
    assert caught.value.__context__ is None
    assert stream.tick == 0
    np.testing.assert_array_equal(stream.update(frame(50, 0)).params, twin.update(frame(50, 0)).params)


def test_no_cell_raises_or_warns() -> None:
    stream = linear(eps=1.0)
    odd = frame(6, 0)
    odd["x"] = [np.nan, np.inf, -np.inf, 1e300, -5.0, 0.0]
    odd["g"] = ["a", "z", None, "b", "c", "a"]
    stream.update(odd)
    stream.update(odd.assign(y=np.nan))
    assert np.isfinite(stream.params).all()


def test_plans_and_coefficients_are_drawn() -> None:
    """A picture has its lines, and a caption that says what is protected; coefficients are those of the results."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    stream = linear(eps=2.0, participation=(0, 1))
    with pytest.raises(ArgumentError, match="tick to draw"):
        stream.plot("x")
    for tick in range(5):
        stream.update(frame(500, tick))
    summary = " ".join(str(stream.results.summary()).split())
    assert "for each person with at most one row in each of 2 ticks" in summary
    assert "cannot check that none has more" in summary
    drawn = [stream.plan().plot(), stream.plot("x"), stream.plot("x", window=2)]
    for axes in drawn:
        (caption,) = [text for text in axes.texts if text.get_gid() == "caption"]
        assert "person with a row in 2 ticks" in " ".join(caption.get_text().split())
    lines = {line.get_label(): line.get_xydata() for line in drawn[1].get_lines()}
    np.testing.assert_allclose(lines["params, for prediction"][-1], [5, stream.params["x"]])
    np.testing.assert_allclose(lines["without shrinkage"][-1], [5, stream.results.debiased["x"]])
    assert drawn[2].get_lines()[0].get_xydata()[0][0] == 2
    assert all(place == int(place) for axes in drawn[1:] for place in axes.get_xticks()), "ticks are whole"
    with pytest.raises(ArgumentError, match="term"):
        stream.plot("z")
    with pytest.raises(ArgumentError, match="window"):
        stream.plot("x", window=9)
    pyplot.close("all")


def test_pictures_have_intervals_at_the_ticks_with_errors() -> None:
    """The first ticks of a logistic stream have none, which left out those of all others below a caption about them."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    stream = Regression("y ~ x + g", LOGIT, 5.0, 1e-6, family="binomial", horizon=12)
    for tick in range(8):
        stream.update(frame(3000, tick, binary=True))
    for window in (None, 2):
        first = 1 if window is None else window
        results = [stream.at(at) if window is None else stream.between(at - 2, at) for at in range(first, 9)]
        known = [one for one in results if one.has_errors and np.isfinite(one.bse["x"])]
        assert not results[0].has_errors
        assert len(known) >= 5
        axes = stream.plot("x", window=window)
        lines = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
        np.testing.assert_allclose(lines["without shrinkage"], [[one.last, one.debiased["x"]] for one in known])
        (band,) = axes.collections
        corners = {tuple(np.round(corner, 9)) for corner in band.get_paths()[0].vertices}
        for one in known:
            assert {(float(one.last), round(end, 9)) for end in one.conf_int().loc["x"]} <= corners
        assert "Intervals include sampling error" in caption_of(axes)
    rare = Regression("y ~ x + g", LOGIT, 0.01, 1e-6, family="binomial", horizon=12)
    rare.update(frame(50, 0, binary=True))
    axes = rare.plot("x")
    assert not axes.collections
    assert caption_of(axes).startswith("No tick drawn has an interval. Protected")
    pyplot.close("all")


def test_a_stream_without_delta_says_what_its_errors_need(tmp_path: Path) -> None:
    result = Regression("y ~ x + g", LOGIT, 1.0, family="binomial", horizon=2, state=tmp_path / "state").update(
        frame(300, 1, binary=True)
    )
    with pytest.raises(
        NotReleasedError, match=r"^this regression has no standard errors: they .* pass delta=, such as"
    ):
        _ = result.bse


def caption_of(axes: Any) -> str:
    (caption,) = [text for text in axes.texts if text.get_gid() == "caption"]
    return " ".join(caption.get_text().split())


def test_errors_are_withheld_where_rows_were_linearised_far_off(tmp_path: Path) -> None:
    """The first tick of a strong signal is linearised at 0: nothing that holds it has errors, later ticks alone do."""
    stream = Regression("y ~ x + g", LOGIT, 20.0, 1e-6, family="binomial", horizon=12, state=tmp_path / "state")
    for tick in range(8):
        result = stream.update(frame(4000, tick, binary=True, slope=2.0))
    first = stream.between(0, 4)
    assert first.with_errors is not None
    typed = rf"no standard errors: .* too far from these.*type stream\.between\({first.with_errors[0]}, 4\)\.bse"
    with pytest.raises(NotReleasedError, match=typed):
        _ = first.bse
    assert stream.between(*first.with_errors).has_errors
    with pytest.raises(NotReleasedError, match=r"no other ticks.*more rows a tick, or typical values .* for x$"):
        _ = stream.between(0, 1).bse
    first.save(tmp_path / "first.json")
    assert StreamResults.load(tmp_path / "first.json").with_errors == first.with_errors
    with pytest.raises(NotReleasedError, match="so standard errors would be wrong"):
        stream.change(4)
    late = stream.window(3)
    assert late.has_errors
    assert "are left out" not in str(late.summary())  # the user has chosen these ticks
    assert "are left out" in str(result.summary())
    assert np.abs((late.debiased - [0.3, -0.5, 0.0, 2.0]) / late.bse).max() < 4  # false alarms: 3e-4
    assert result.first > 1
    assert "No errors are shown" in str(stream.between(0, 4).summary())
    late.save(tmp_path / "late.json")
    pd.testing.assert_series_equal(StreamResults.load(tmp_path / "late.json").bse, late.bse)
    assert stream.change(2).std_error.gt(0).all()


def test_a_stream_leaves_out_as_many_first_ticks_as_leave_errors() -> None:
    """Of an ordinary signal and a wide range only the first ticks are linearised too far off for errors."""
    domain = {"temp": (-40, 50), "weekend": ["no", "yes"], "high": [0, 1]}
    late, scores = [], []
    for seed in range(8):
        random = np.random.default_rng(seed)
        stream = Regression("high ~ temp + weekend", domain, 1.0, 1e-6, family="binomial", horizon=12, seed=seed)
        for _ in range(12):
            temp = random.normal(10, 8, 2500).clip(-40, 50)
            weekend = random.choice(["no", "yes"], 2500, p=[5 / 7, 2 / 7])
            high = random.random(2500) < expit(-0.5 - 0.08 * temp + 0.8 * (weekend == "yes"))
            result = stream.update(pd.DataFrame({"temp": temp, "weekend": weekend, "high": high.astype(int)}))
        truth = pd.Series({"Intercept": -0.5, "weekend[T.yes]": 0.8, "temp": -0.08})
        if result.has_errors:
            scores.extend((result.debiased - truth) / result.bse)
            assert stream.between(result.first - 1, 12).bse.equals(result.bse)
            assert f"The ticks before {result.first} are left out" in " ".join(str(result.summary()).split())
        late.append(result.has_errors)
    assert sum(late) >= 6
    assert np.abs(scores).max() < 4.5  # false alarms: 2e-4


def test_pictures_of_a_window() -> None:
    random = np.random.default_rng(0)
    stream = Regression("y ~ x", {"x": (0, 1), "y": (0, 1)}, 2.0, 1e-6, horizon=4)
    for _ in range(3):
        stream.update(pd.DataFrame({"x": random.uniform(0, 1, 3000), "y": random.uniform(0, 1, 3000)}))
    window = stream.window(2)
    assert window.plot().get_title(loc="left")
    assert "inference=True" not in " ".join(text.get_text() for text in window.plot("effect", column="x").figure.texts)
    with pytest.raises(ArgumentError, match="share one charge"):
        dp.etable([stream.results, window])
    with pytest.raises(ArgumentError, match=r"StreamResults cannot be evaluated: .* dp.streaming.Refits, and that of"):
        dp.evaluate(window, {"x": [0.5], "y": [0.5]}, 1.0)


@pytest.mark.parametrize(("binary", "domain"), [(False, DOMAIN), (True, LOGIT)])
def test_ticks_whose_rows_are_all_lost_show_in_the_number_of_rows(binary: bool, domain: dict[str, Any]) -> None:
    """Twelve counts within 4.5 s.d. of theirs: a false alarm in 12,000 runs, and the seed is fixed."""
    family = "binomial" if binary else "gaussian"
    stream = Regression("y ~ x + g", domain, 2.0, 1e-6, family=family, horizon=12, seed=3)
    for tick in range(12):
        rows = frame(3000, tick, binary=binary)
        stream.update(rows if tick < 6 else rows.assign(g=rows.g.str.upper()))
    for tick in range(12):
        count, deviation = stream.between(tick, tick + 1).rows
        if tick >= 6 or not binary:
            assert abs(count - 3000 * (tick < 6)) < 4.5 * deviation
        elif tick:  # a row may weigh less than the most
            assert 500 < count < 3000
    lost, all_of_them = str(stream.window(6).summary()), str(stream.results.summary())
    assert "no more than noise" in " ".join(lost.split())
    assert ("Effective number of rows" if binary else "Rows used") in all_of_them
    assert "no more than" not in all_of_them
    counted, facts = stream.results.rows, stream.results.glance().iloc[0]
    assert str(counted) in all_of_them
    assert "does not count lost and clipped rows; dp.check counts them" in " ".join(all_of_them.split())
    # In the first tick of a logistic stream all rows have the largest weight, and there are no more.
    assert ("there may be more rows" in " ".join(all_of_them.split())) == binary
    if not binary:
        assert (facts["nobs"], facts["nobs_std_error"]) == (round(counted.value), counted.std_error)
    wanted = Regression("y ~ 0 + x", domain, 2.0, 1e-6, family=family, horizon=2, seed=3).update(rows)
    assert wanted.rows is None


def test_changes_that_are_not_identified_have_no_test() -> None:
    stream = Regression("y ~ x + g", DOMAIN, 0.01, 1e-6, horizon=4, seed=3)
    for tick in range(4):
        stream.update(frame(50, tick))
    change = stream.change(2)
    assert np.isinf(change["std_error"]).all()
    assert change[["z", "p_value"]].isna().all(axis=None)


@pytest.mark.parametrize(("family", "options"), [("gaussian", {"horizon": 12}), ("binomial", {"window": 6})])
def test_a_stream_warns_once_of_ticks_that_use_far_fewer_rows(
    family: str, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    binary = family == "binomial"
    months = Regression("y ~ x + g", LOGIT if binary else DOMAIN, 1.0, 1e-6, family=family, seed=1, **options)
    for tick in range(12):
        rows = frame(3000, tick, binary=binary)
        months.update(rows if tick < 8 else rows.replace({"g": {"a": "A", "b": "B"}}))
        assert len(caplog.messages) == (tick >= 8)
    assert "if no fewer rows were passed, compare their cells with the Domain" in caplog.text
    assert "effective rows" in caplog.text or not binary
    assert "the ticks 3 to 8 about" in caplog.text


def test_the_rows_left_over_at_the_end_are_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    """Their number is public; a whole tick with as few usable rows is warned of."""
    rows = pd.concat([frame(3000, tick) for tick in range(8)] + [frame(100, 8)], ignore_index=True)
    stream = Regression("y ~ x + g", DOMAIN, 1.0, 1e-6, horizon=12, seed=1)
    assert [found.last for found in stream.run(rows, tick=3000)] == list(range(1, 10))
    (public,) = caplog.messages
    assert "with ticks of 3,000 rows the guarantee of add_remove does not hide how many rows the stream has" in public
    renamed = frame(3000, 9).replace({"g": {"a": "A", "b": "B"}})
    assert len(list(stream.run(renamed, tick=3000))) == 1
    assert len([message for message in caplog.messages if message != public]) == 1


def test_a_stream_whose_rows_are_used_does_not_warn(caplog: pytest.LogCaptureFixture) -> None:
    """Of few rows, more noise than rows, and of as many as before; by fixed seeds."""
    for size, eps in ((20, 0.05), (300, 1.0)):
        months = Regression("y ~ x + g", DOMAIN, eps, 1e-6, horizon=16, seed=2)
        for tick in range(16):
            months.update(frame(size, tick))
    assert not caplog.messages


def test_a_plan_foresees_the_errors_that_a_stream_shows() -> None:
    """Within a third, of least squares with an offset and of a logistic regression, for all ticks and for the last.

    Predictors have a standard deviation of 1 on the scale of log odds, as the forecast supposes.
    """
    domain = {"x": dp.Range(0, 120, typical=(16, 11.3)), "z": (0, 2), "y": (-50, 250), "late": [0, 1]}
    random = np.random.default_rng(0)
    known = {"x": (16, 11.3), "y": (22, 23), "late": 0.41}
    line = Regression("y ~ x + offset(z)", domain, 1.0, 1e-6, horizon=12, seed=1)
    curve = Regression("late ~ x", domain, 1.0, 1e-6, family="binomial", horizon=12, seed=1)
    for _ in range(12):
        x, z = random.gamma(2, 8, 1500).clip(0, 120), random.uniform(0, 2, 1500)
        late = random.random(1500) < expit(-1.8 + 0.088 * x)
        rows = pd.DataFrame({"x": x, "z": z, "y": 5 + x + z + random.normal(0, 20, 1500), "late": late.astype(int)})
        for stream in (line, curve):
            stream.update(rows)
    for stream, response, given in ((line, "y", {"residual_sd": 20.0}), (curve, "late", {})):
        typical = {name: known[name] for name in ("x", response)}
        for window, shown in ((None, stream.results), (4, stream.window(4))):
            foreseen = stream.plan().standard_errors(1500, window=window, typical=typical, **given)
            assert (foreseen.std_error["x"] / shown.bse["x"]) == pytest.approx(1.0, abs=0.35)
            assert (foreseen.sampling <= foreseen.std_error * (1 + 1e-9)).all()
            assert foreseen.identified.eq(1.0).all()


MEMBERS = {"age": (18, 65), "sex": ["f", "m"], "member": [0, 1]}


def member_rows(random: np.random.Generator, size: int) -> pd.DataFrame:
    table = pd.DataFrame({"age": random.uniform(18, 65, size), "sex": random.choice(["f", "m"], size)})
    chance = expit(-2 + 0.03 * table["age"] + 0.5 * (table["sex"] == "m"))
    return table.assign(member=(random.random(size) < chance).astype(int))


@pytest.mark.slow
def test_public_rows_foresee_how_first_ticks_are_linearised() -> None:
    """Standard errors of streams of few rows were 1.25 times the forecast, whose first ticks were as good as all."""
    errors, stream = [], None
    for seed in range(10):
        stream, random = (
            Regression("member ~ age + sex", MEMBERS, 1.0, 1e-6, family="binomial", horizon=24, seed=seed),
            np.random.default_rng(seed),
        )
        for _ in range(24):
            stream.update(member_rows(random, 400))
        errors.append(stream.results.bse)
    foreseen = stream.plan().standard_errors(400, like=member_rows(np.random.default_rng(99), 4000))
    ratios = np.median(errors, axis=0) / foreseen.std_error
    assert ratios.between(0.85, 1.2).all(), ratios
    assert (foreseen.sampling < foreseen.std_error).all()


def test_of_many_ticks_the_last_of_the_first_ones_stands_for_all_that_follow() -> None:
    long = Regression("member ~ age + sex", MEMBERS, 1.0, 1e-6, family="binomial", horizon=200).plan()
    public = member_rows(np.random.default_rng(99), 1000)
    *near, last = (long.standard_errors(400, tick=tick, like=public).std_error for tick in (63, 64, 65, 66, 200))
    assert np.array(near) == pytest.approx(np.array(near[1:2] * 4), rel=0.1)
    assert (last < 0.6 * near[1]).all()


def test_a_forecast_says_that_a_response_has_no_level() -> None:
    """Of wages of 2.6 declared as (0, 20) the intercept's standard error was 2.1 times the forecast, without a word."""
    plan = Regression("y ~ x", {"x": (0, 1), "y": (0, 20)}, 1.0, 1e-6, horizon=12).plan()
    known = {"x": (0.5, 0.3)}
    text = [
        " ".join(repr(plan.standard_errors(3000, residual_sd=0.4, typical=typical)).split())
        for typical in (known, {**known, "y": (2.6, 0.5)})
    ]
    assert "The level of y is not known" in text[0]
    assert "typical={'y': (mean, sd)}" in text[0]
    assert "The effects on y are not known" in text[1]
    public = pd.DataFrame({"x": np.linspace(0, 1, 50), "y": 2 + np.linspace(0, 1, 50) ** 2})
    assert "not known" not in repr(plan.standard_errors(3000, like=public))


def test_the_chance_that_counts_have_errors_is_not_stated() -> None:
    """It depends on how far ticks are linearised from the coefficients, of which draws of the noise know nothing."""
    plan = Regression("y ~ x", {"x": (0, 1), "y": (0, 30)}, 1.0, 1e-6, family="poisson", horizon=12).plan()
    foreseen = plan.standard_errors(10_000, typical={"x": (0.5, 0.2), "y": (1.8, 1.4)})
    assert np.isfinite(foreseen.std_error).all()
    assert foreseen[["identified", "identified_upper"]].isna().all(axis=None)
    assert "identified is not forecast (NaN)" in " ".join(repr(foreseen).split())
    assert "Poisson(mean_cap=...)" in repr(foreseen)


def test_no_errors_are_foreseen_where_none_will_be_shown() -> None:
    plan = linear(eps=1.0).plan()
    for wrong in ({"rows": 0}, {"rows": 100, "tick": 0}, {"rows": 100, "tick": 3, "window": 4}):
        with pytest.raises(ArgumentError):
            plan.standard_errors(**wrong)
    assert np.isinf(Regression("y ~ x + g", DOMAIN, 0.001, 1e-9, horizon=12).plan().standard_errors(2).std_error).all()
    with pytest.raises(ArgumentError, match="normal noise"):
        Regression("y ~ x", DOMAIN, 1.0, horizon=12).plan().standard_errors(100)


MONTHLY = ["2026-8", "2026-9", "2026-10", "2027-1"]
SEQUENCES = {
    "numbers are not text": (MONTHLY, ["2026-8", "2026-10", "2026-09", "2027/1", "2026-11", "2025-12"]),
    "one number": (["week 9", "week 10"], ["Week 9", "week 10", "week 010", "week 1"]),
    "words have no order": (["Feb", "Jan"], ["Feb", "jan"]),
    "the year last": (["W52 2026", "W1 2027", "31.01.2027", "01.02.2027"], ["w52 2026", "W01-2027", "1.2.2027"]),
    "words and a year": (["2026-Jan", "2026-Feb", "2027-Jan"], ["2026-jan", "2027-Jan"]),
    "no word, no number": (["?", "!"], ["?", "!"]),
    "more digits than Python converts": (["9" * 5000, "1" + "0" * 5000], ["8" * 5000]),
}


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_labels_come_in_the_order_that_a_reader_means_and_each_once(sequence: str, tmp_path: Path) -> None:
    """Also in a process that continues the stream; a refused tick is not closed."""
    labels, refused = SEQUENCES[sequence]
    for label in labels:
        stream = linear(seed=None, state=tmp_path / "state")
        stream.update(frame(10, 0), label=label)
    for one in (stream, linear(seed=None, state=tmp_path / "state")):
        assert (one.tick, one.label) == (len(labels), labels[-1])
        for label in refused:
            with pytest.raises(StreamError, match="is closed already"):
                one.update(frame(10, 0), label=label)
        assert one.tick == len(labels)


def test_a_refused_label_is_named_beside_the_one_that_it_follows() -> None:
    stream = linear()
    for label in ("2026-9", "2026-10"):
        stream.update(frame(10, 0), label=label)
    with pytest.raises(StreamError, match=r"^label: '2026-9' does not come after '2026-10', whose tick is closed"):
        stream.update(frame(10, 0), label="2026-9")
    with pytest.raises(StreamError, match=r"^label: tick '2026/10' is closed already as '2026-10', and its rows"):
        stream.update(frame(10, 0), label="2026/10")


def test_labels_are_kept_as_few_as_it_takes() -> None:
    """A state is written at every tick, and has no list of all months."""
    closed = ClosedLabels(f"{year}-{month}" for year in range(2000, 2100) for month in range(1, 13))
    assert closed.to_list() == ["2099-12"]
    assert len(ClosedLabels(["Jan", "Feb", "week 1 2026", "week 2 2026", "week 1 2026"]).to_list()) == 4


def test_a_state_of_before_has_the_last_label() -> None:
    """It closed ticks in the order of text: after Apr and Feb it accepted Apr again, of which it has no label."""
    stream, again = linear(), linear()
    stream.update(frame(10, 0), label="Feb")
    facts = stream._running._facts(1, stream._running.releases.last, "Feb")
    del facts["labels"]
    again._running._resume(facts)
    for label in ("Feb", "Apr"):
        with pytest.raises(StreamError, match=f"'{label}' does not come after 'Feb' in the order of text"):
            again.update(frame(10, 0), label=label)
    assert again._running._facts(1, again._running.releases.last, "Mar")["beyond"] == "Feb", "in states from then on"
    again._running._resume(facts | {"labels": ["Feb"], "beyond": "Feb"})
    with pytest.raises(StreamError, match="'Apr' does not come after 'Feb' in the order of text"):
        again.update(frame(10, 0), label="Apr")
    again._running._labels.check("Mar")


def test_a_first_number_of_four_digits_is_a_year() -> None:
    """Numbers after it count within it; after a shorter one the order is not told."""
    with pytest.raises(StreamError, match="'1000-8' does not come after '1000-9'"):
        ClosedLabels(["1000-9"]).check("1000-8")
    ClosedLabels(["999-9"]).check("999-8")
    with pytest.raises(StreamError, match="tick '999-9' is closed already"):
        ClosedLabels(["999-9"]).check("999-9")

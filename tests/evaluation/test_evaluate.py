"""`dpstats.evaluate`: what it estimates, how far off it is, and that it says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.evaluation import numeric
from dpstats.evaluation.histograms import (
    TAIL,
    Grid,
    Histogram,
    ReleasedHistogram,
    deviance_grid,
    display_bins,
    linear_range,
    monotone,
    probability_grid,
    residual_grid,
    response_grid,
)
from dpstats.evaluation.integer_noise import choose_noise
from dpstats.evaluation.model_quality import describe, plan_evaluation
from dpstats.evaluation.row_sums import RowSums, steps_left_out
from dpstats.privacy.randomness import SystemRandom

DOMAIN = {"y": (-10, 10), "x": (-1, 1), "g": ["a", "b"], "b": (0, 1), "n": (0, 20)}
FORMULAS = {"gaussian": "y ~ x + g", "binomial": "b ~ x + g", "poisson": "n ~ x + g", "huber_svm": "b ~ x + g"}


def frame(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(-1, 1, rows), rng.choice(["a", "b"], rows)
    linear = 1.5 * x + 0.5 * (g == "b")
    return pd.DataFrame(
        {
            "x": x,
            "g": g,
            "y": 1 + 2 * linear + rng.normal(size=rows),
            "b": (rng.random(rows) < special.expit(linear - 1)).astype(int),
            "n": np.minimum(rng.poisson(np.exp(linear / 2 + 0.5)), 20),
        }
    )


def fitted(family: str) -> dp.GLMResults:
    return dp.glm(FORMULAS[family], frame(20_000, 1), 20.0, family=family, domain=DOMAIN, seed=1)


@pytest.fixture(scope="module", params=list(FORMULAS))
def fit(request: pytest.FixtureRequest) -> dp.GLMResults:
    return fitted(request.param)


def truth(fit: dp.GLMResults, data: pd.DataFrame) -> dict[str, float]:
    """The metrics of these rows, exactly."""
    name, response = fit.plan.family.name, data[FORMULAS[fit.plan.family.name][0]].to_numpy(dtype=float)
    mean = fit.predict(data).to_numpy()
    if name in ("binomial", "huber_svm"):
        linear = fit.predict(data, "linear").to_numpy()
        ranks, ones = pd.Series(linear).rank().to_numpy(), response.sum()
        found = {
            "accuracy": float(((linear > 0) == response).mean()),
            "area under ROC": (ranks[response == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(data) - ones)),
        }
        if name == "huber_svm":
            return found
        loss, share = float(np.mean(np.logaddexp(0, linear) - response * linear)), float(response.mean())
        entropy = float(special.entr(share) + special.entr(1 - share))
        brier = float(np.mean((response - mean) ** 2))
        return {**found, "brier": brier, "log score": loss, "deviance explained": 1 - loss / entropy}
    if name == "gaussian":
        square, size = float(np.mean((response - mean) ** 2)), float(np.mean(np.abs(response - mean)))
        return {"rmse": square**0.5, "mae": size, "r2": 1 - square / float(np.var(response))}

    def deviance(fitted_mean: Any) -> float:
        return float(np.mean(2 * (special.xlogy(response, response / fitted_mean) - response + fitted_mean)))

    explained = 1 - deviance(mean) / deviance(response.mean())
    return {"mae": float(np.mean(np.abs(response - mean))), "deviance explained": explained}


def test_without_noise_metrics_are_exact_up_to_their_cells(fit: dp.GLMResults) -> None:
    data = frame(20_000, 2)
    found = dp.evaluate(fit, data, 1e4)
    assert found.rows == pytest.approx(20_000, abs=1)
    for name, value in truth(fit, data).items():
        slack = max(found.metrics.loc[name, "cells"], 0.004 * abs(value), 1e-3)
        assert found.metrics.loc[name, "estimate"] == pytest.approx(value, abs=slack), name
        assert found.metrics.loc[name, "noise_se"] < 1e-3


@pytest.mark.slow
def test_stated_noise_holds(fit: dp.GLMResults) -> None:
    """200 seeded runs on the same rows. Nominal 95 %: coverage below .89 or a bias beyond half an error is an alarm.

    With coverage .95 the chance of less than .89 in 200 runs is 3e-4 a figure.
    """
    data = frame(8000, 3)
    exact, held = truth(fit, data), fit.plan.family.name in ("gaussian", "poisson")
    runs = [dp.evaluate(fit, data, 1.0, seed=seed).metrics for seed in range(200)]
    for name, value in exact.items():
        estimates = np.array([run.loc[name, "estimate"] for run in runs])
        errors = np.array([run.loc[name, "noise_se"] for run in runs])
        slack = float(np.mean([run.loc[name, "cells"] for run in runs]))
        assert np.mean(np.abs(estimates - value) < 1.96 * errors + slack) > 0.89, name
        assert abs(estimates.mean() - value) < 0.5 * errors.mean() + slack, name
        # By quartiles: now and then noise passes for a tail of large residuals, and both figures are larger then. What
        # may hide in a tail counts as error of figures of numbers, whether or not there is anything.
        spread = float(np.subtract(*np.quantile(estimates, [0.75, 0.25]))) / 1.349
        assert (0.5 if held else 0.7) < spread / np.median(errors) < 1.3, name


@pytest.mark.slow
def test_intervals_cover_the_population() -> None:
    """150 samples of a population, a fit fixed beforehand: noise and sampling error together, as above."""
    fits = {name: fitted(name) for name in FORMULAS}
    for name, fit in fits.items():
        exact = truth(fit, frame(400_000, 4))
        runs = [dp.evaluate(fit, frame(3000, 100 + seed), 2.0, seed=seed).metrics for seed in range(150)]
        for metric, value in exact.items():
            inside = [run.loc[metric, "low"] <= value <= run.loc[metric, "high"] for run in runs]
            assert np.mean(inside) > 0.885, (name, metric)


def test_tables_of_a_logistic_model() -> None:
    fit, data = fitted("binomial"), frame(20_000, 5)
    found = dp.evaluate(fit, data, 5.0, seed=1)
    for table in (found.calibration, found.residuals):
        assert table is not None
        assert 5 <= len(table) <= 10
        assert table["rows"].sum() == pytest.approx(20_000, abs=100)
    assert found.calibration is not None
    assert found.calibration["predicted"].is_monotonic_increasing
    gap = (found.calibration["observed"] - found.calibration["predicted"]) / found.calibration["std_err"]
    assert np.abs(gap).max() < 5  # the model is true, and fitted with little noise
    assert found.roc is not None
    for rate in ("true_positive", "false_positive"):
        assert found.roc[rate].is_monotonic_increasing
        assert found.roc[rate].iloc[[0, -1]].tolist() == pytest.approx([0.0, 1.0])
    area = np.trapezoid(found.roc["true_positive"], found.roc["false_positive"])
    assert area == pytest.approx(found.metrics.loc["area under ROC", "estimate"], abs=0.01)
    assert found.confusion is not None
    assert found.confusion["rows"].sum() == pytest.approx(20_000, abs=100)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_binned_residuals_show_a_bend(family: str) -> None:
    """A response with a term that the model has not."""
    data = frame(20_000, 6)
    bent = data.assign(y=data["y"] + 3 * data["x"] ** 2, n=np.minimum(data["n"] + (data["x"] > 0.5) * 6, 20))
    straight = dp.evaluate(fitted(family), data, 5.0, metrics=["residuals"], seed=1).residuals
    curved = dp.evaluate(fitted(family), bent, 5.0, metrics=["residuals"], seed=1).residuals
    assert straight is not None
    assert curved is not None
    assert np.abs(straight["residual"] / straight["std_err"]).max() < 6
    assert np.abs(curved["residual"] / curved["std_err"]).max() > 10


def test_binned_residuals_of_small_counts_are_not_moved_by_the_cells() -> None:
    """A mean of .14 in a range of 20: nearly all residuals lie in one cell, below its middle."""
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, 20_000)
    data = pd.DataFrame({"x": x, "n": rng.poisson(np.exp(0.5 * x - 2))})
    fit = dp.poisson("n ~ x", data, 50.0, domain={"x": (-1, 1), "n": (0, 20)}, seed=1)
    residuals = dp.evaluate(fit, data, 50.0, metrics=["residuals"], seed=1).residuals
    assert residuals is not None
    means = fit.predict(data)
    assert abs(float(np.average(residuals["residual"], weights=residuals["rows"])) - (data["n"] - means).mean()) < 0.004
    assert np.abs(residuals["residual"] / residuals["std_err"]).max() < 5


def test_fewer_metrics_have_less_noise() -> None:
    fit, data = fitted("binomial"), frame(5000, 7)
    errors = [
        dp.evaluate(fit, data, 1.0, metrics=metrics, seed=1).metrics.loc["accuracy", "noise_se"]
        for metrics in (["accuracy"], ["accuracy", "brier"], None)
    ]
    assert errors[0] < errors[1] < errors[2]


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_too_few_rows_are_said_to_be_unknown(fit: dp.GLMResults, rows: int) -> None:
    for seed in range(10):
        found = dp.evaluate(fit, frame(rows, 1), 0.5, seed=seed)
        assert found.metrics["estimate"].isna().all()
        assert "unknown" in str(found)
        assert "so no metric can be estimated. More rows" in " ".join(str(found).split())
        assert "No row seems to be left out (s.d. of the noise" in " ".join(str(found.summary()).split())


def test_extreme_budgets(fit: dp.GLMResults) -> None:
    for eps in (1e-6, 1e-3, 1e6):
        assert len(str(dp.evaluate(fit, frame(50, 1), eps)).splitlines()) > 5
    with pytest.raises(dp.errors.ArgumentError, match="eps"):
        dp.evaluate(fit, frame(50, 1), 1e-7)


def test_arrays() -> None:
    rng = np.random.default_rng(1)
    exog = rng.uniform(-0.5, 0.5, (5000, 2))
    for family, endog in (
        ("binomial", (rng.random(5000) < special.expit(4 * exog[:, 0])).astype(float)),
        ("gaussian", np.clip(exog[:, 0] + rng.normal(0, 0.1, 5000), -1, 1)),
        (dp.families.Poisson(y_max=10), rng.poisson(np.exp(exog[:, 0])).astype(float)),
        ("huber_svm", (exog[:, 0] > 0).astype(float)),
    ):
        fit = dp.GLM(endog, exog, family=family, row_norm=1.0).fit(20.0, seed=1)
        found = dp.evaluate(fit, (endog, exog), 5.0)
        assert found.rows == pytest.approx(5000, abs=60)
        assert np.isfinite(found.metrics["estimate"]).all()
    for wrong in (exog, (endog, exog[:, :1]), (endog[:-1], exog), (endog,)):
        with pytest.raises(dp.errors.DataError, match="data"):
            dp.evaluate(fit, wrong, 1.0)


def test_saved_and_loaded(fit: dp.GLMResults, tmp_path: Path) -> None:
    found = dp.evaluate(fit, frame(2000, 1), 0.5, delta=1e-6)
    found.save(tmp_path / "evaluation.json")
    again = dp.Evaluation.load(tmp_path / "evaluation.json")
    assert str(again) == str(found)
    for name in ("metrics", "calibration", "roc", "residuals", "confusion"):
        first, second = getattr(found, name), getattr(again, name)
        assert (first is None) == (second is None)
        if first is not None:
            pd.testing.assert_frame_equal(first, second, check_dtype=False, check_index_type=False)
    assert again.budget.equals(found.budget)
    assert max(map(len, str(found).splitlines())) <= 80


def test_containers_agree() -> None:
    fit = fitted("binomial")
    one = dp.evaluate(fit, frame(500, 1), 1.0, seed=1).metrics
    pd.testing.assert_frame_equal(one, dp.evaluate(fit, pl.from_pandas(frame(500, 1)), 1.0, seed=1).metrics)


def test_a_loaded_fit_is_evaluated_alike(tmp_path: Path) -> None:
    fit = fitted("poisson")
    fit.save(tmp_path / "fit.json")
    again = dp.GLMResults.load(tmp_path / "fit.json")
    one, two = (dp.evaluate(model, frame(500, 1), 1.0, seed=1).metrics for model in (fit, again))
    pd.testing.assert_frame_equal(one, two)


@pytest.mark.slow
def test_sums_do_not_depend_on_the_order_or_the_blocks(fit: dp.GLMResults) -> None:
    """To the last bit: or one row more would move others."""
    data = frame(997, 1)
    model, design = plan_evaluation(fit, None, 10), fit.plan.design
    sums = RowSums(model, model.blocks(), fit.scaled_params, 1)

    def counted(rows: pd.DataFrame, size: int) -> list[int]:
        return sums.of_complete(design.blocks(rows, size)).tolist()  # type: ignore[attr-defined]

    whole = counted(data, 65536)
    assert counted(data.sample(frac=1, random_state=1), 65536) == whole
    assert counted(data, 7) == whole
    one_by_one = np.sum([counted(data.iloc[[row]], 1) for row in range(100)], axis=0)
    assert one_by_one.tolist() == counted(data.iloc[:100], 65536)


def test_every_linear_predictor_lies_within_its_public_ends(fit: dp.GLMResults) -> None:
    wild = pd.DataFrame({"x": [-1e9, -1, 0, 1, 1e9] * 2, "g": ["a"] * 5 + ["b"] * 5}).assign(y=0.0, b=0, n=0)
    low, high = linear_range(fit.plan.design, fit.scaled_params)
    for exog, *_ in fit.plan.design.blocks(wild):  # type: ignore[attr-defined]
        assert ((exog @ fit.scaled_params >= low) & (exog @ fit.scaled_params <= high)).all()


@pytest.mark.parametrize(("low", "high"), [(-1e200, 1e200), (0.0, 1e-200), (1e15, 1e15 + 2)])
def test_ranges_that_no_grid_divides_are_refused_before_the_charge(low: float, high: float, tmp_path: Path) -> None:
    data = pd.DataFrame({"y": [low, high] * 20, "x": [0.0, 1.0] * 20})
    fit = dp.ols("y ~ x", data, 1.0, domain={"y": (low, high), "x": (0, 1)}, seed=1)
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=10.0) as ledger:
        with pytest.raises(dp.errors.ArgumentError, match="rescale"):
            dp.evaluate(fit, data, 1.0, ledger=ledger)
        assert len(ledger.entries()) == 0


@pytest.mark.parametrize("family", ["binomial", "poisson", "gaussian", "huber_svm"])
def test_models_that_predict_one_number(family: str) -> None:
    data = frame(2000, 1)
    response = FORMULAS[family][0]
    for formula in (f"{response} ~ 1", f"{response} ~ 0 + x"):
        fit = dp.glm(formula, data, 1e-3, family=family, domain=DOMAIN, seed=1)
        found = dp.evaluate(fit, data, 1.0, seed=1)
        assert found.rows == pytest.approx(2000, abs=100)


grids = st.sampled_from(
    [
        *(probability_grid(cells, -7.0, 3.0) for cells in (2, 16, 40)),
        residual_grid(20.0),
        deviance_grid(400.0),
        response_grid(-3.0, 9.0, count=False),
        response_grid(0.0, 500.0, count=True),
    ]
)


@given(grids, st.floats(allow_nan=True, allow_infinity=True))
def test_every_value_has_a_cell_and_a_place(grid: Grid, value: float) -> None:
    cell, place = grid.locate(np.array([value]))
    assert 0 <= cell[0] < grid.size
    assert -1 <= place[0] <= 1
    assert np.all(np.diff(grid.ends) > 0)
    for weight in (0.0, 0.5, 1.0):
        block = Histogram(grid, 3, weight)
        part = block.count(np.array([2]), np.array([value]))
        assert np.abs(part).sum() <= block.largest
        assert np.square(part).sum() <= block.square


@settings(max_examples=30)
@given(grids)
def test_lines_are_exact_for_lines(grid: Grid) -> None:
    line = grid.line(lambda x: 3 - 2 * x)
    assert line.error == pytest.approx(0, abs=1e-8 * max(1.0, float(np.abs(grid.ends).max())))
    assert (line.constant - 3 + 2 * grid.middle)[~np.array(grid.whole)] == pytest.approx(0, abs=1e-8)


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=30))
def test_monotone_is_a_projection(values: list[float]) -> None:
    found = monotone(values)
    assert (np.diff(found) >= 0).all()
    assert ((found >= 0) & (found <= 1)).all()
    assert monotone(found) == pytest.approx(found)


@given(st.lists(st.floats(-50, 500), min_size=1, max_size=40), st.integers(1, 20))
def test_display_bins_hold_rows(counts: list[float], bins: int) -> None:
    labels = display_bins(np.array(counts), bins, 1.0)
    assert labels[0] == 0
    assert set(np.diff(labels)) <= {0, 1}
    assert labels[-1] < bins
    if labels[-1] > 0:
        assert (np.bincount(labels, weights=counts) > 8).all()


BAD: list[tuple[dict[str, Any], str]] = [
    ({"eps": 0}, "eps"),
    ({"eps": "1"}, "eps"),
    ({"delta": 1.0}, "delta"),
    ({"metrics": "accuracy"}, "metrics"),
    ({"metrics": []}, "metrics"),
    ({"metrics": ["r2"]}, "metrics"),
    ({"bins": 0}, "bins"),
    ({"bins": 2.5}, "bins"),
    ({"bins": True}, "bins"),
    ({"adjacency": "near"}, "adjacency"),
    ({"seed": -1}, "seed"),
    ({"fit": "fit"}, "fit"),
    ({"ledger": "file"}, "ledger"),
    ({"data": 17}, "data"),
    ({"data": pd.DataFrame({"x": [1.0]})}, "b"),
]


@pytest.mark.parametrize(("given_", "fragment"), BAD, ids=[str(index) for index in range(len(BAD))])
def test_bad_input(given_: dict[str, Any], fragment: str, tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=10.0, delta=0.1) as ledger:
        arguments = {"fit": fitted("binomial"), "data": frame(20, 1), "eps": 1.0, "ledger": ledger, **given_}
        with pytest.raises(dp.errors.DPStatsError, match=fragment):
            dp.evaluate(**arguments)
        assert len(ledger.entries()) == 0


def test_seeded_is_uncertified_and_no_ledger_takes_it(tmp_path: Path) -> None:
    fit = fitted("binomial")
    assert "NOT CERTIFIED" in str(dp.evaluate(fit, frame(200, 1), 1.0, seed=1))
    with (
        dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=10.0) as ledger,
        pytest.raises(dp.errors.UncertifiedError),
    ):
        dp.evaluate(fit, frame(200, 1), 1.0, seed=1, ledger=ledger)


def test_gaussian_noise_is_charged_by_rho(tmp_path: Path) -> None:
    """Where it is less: a large delta."""
    fit = fitted("gaussian")
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=4.0, delta=0.5, accountant="zcdp") as ledger:
        found = dp.evaluate(fit, frame(2000, 1), 1.0, delta=0.2, ledger=ledger)
        assert found.noise.kind == "gaussian"
        assert ledger.entries()["rho"].iloc[0] == pytest.approx(found.noise.rho)
    assert dp.evaluate(fit, frame(2000, 1), 1.0, delta=1e-6).guarantee.delta == 0.0


CALLS: dict[str, Callable[[pd.DataFrame, Any], Any]] = {
    "evaluate": lambda data, ledger: dp.evaluate(fitted("gaussian"), data, 1.0, ledger=ledger),
    "check": lambda data, ledger: dp.check("y ~ x + g", data, DOMAIN, 1.0, ledger=ledger),
}


@pytest.mark.parametrize("name", CALLS)
def test_rows_are_read_after_the_charge(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpstats.data.columns import NumericColumn

    CALLS[name](frame(50, 1), None)  # whatever is planned on rows of its own is planned by now
    plain, seen = NumericColumn.numbers, []
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=10.0) as ledger:

        def spied(column: NumericColumn) -> Any:
            if len(column) == 50:
                seen.append(ledger.entries()["state"].tolist())
            return plain(column)

        monkeypatch.setattr(NumericColumn, "numbers", spied)
        CALLS[name](frame(50, 1), ledger)
    assert seen
    assert all(states == ["read"] for states in seen)


@pytest.mark.parametrize("name", [*CALLS, "holdout"])
def test_a_failure_tells_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpstats.data.columns import NumericColumn

    calls = {**CALLS, "holdout": lambda data, ledger: dp.holdout(data, 0.5, ledger=ledger)}
    fitted("gaussian")
    plain = NumericColumn.numbers

    def broken(column: NumericColumn) -> Any:
        if len(column) == 50:
            raise ValueError(f"bad cell {column.values[0]}")
        return plain(column)

    monkeypatch.setattr(NumericColumn, "numbers", broken)
    with (
        dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=10.0) as ledger,
        pytest.raises(dp.errors.ReleaseError) as caught,
    ):
        calls[name](frame(50, 1), ledger)
    assert "bad cell" not in str(caught.value)
    assert caught.value.__context__ is None


def test_the_operating_system_draws_the_noise() -> None:
    """Not a seed's stream: two calls differ."""
    fit = fitted("binomial")
    first, second = (dp.evaluate(fit, frame(300, 1), 1.0, metrics=["accuracy"]).rows for _ in range(2))
    third = dp.evaluate(fit, frame(300, 1), 1.0, metrics=["accuracy"]).rows
    assert len({first, second, third}) > 1
    assert isinstance(SystemRandom(), SystemRandom)


class TheirGaussian(dp.families.Gaussian):
    """A family from elsewhere, of numbers."""

    name = "theirs"


class TheirLog(TheirGaussian):
    """The same, that calls its link another one."""

    link = "log"


def test_a_family_from_elsewhere_has_the_measures_of_its_responses(tmp_path: Path) -> None:
    """It was taken for a support vector machine, and the charge of an evaluation of numbers was lost."""
    random = np.random.default_rng(0)
    rows = {"x": random.uniform(0, 1, 3000)}
    rows["y"] = rows["x"] / 2 + random.normal(0, 0.05, 3000)
    fit = dp.glm(
        "y ~ x", rows, 2.0, domain={"x": (0, 1), "y": (0.0, 1.0)}, family=TheirGaussian(), allow_uncertified=True
    )
    ledger = dp.Ledger(tmp_path / "rows.ledger", dataset="made up", eps=1.0)
    assert dp.evaluate(fit, rows, 1.0, ledger=ledger).metrics.loc["r2", "estimate"] > 0.5
    # Declared as 0 and 1, which widens the cap of a linear model but leaves its family as it is.
    bent = dp.glm("y ~ x", rows, 2.0, domain={"x": (0, 1), "y": (0, 1)}, family=TheirLog(), allow_uncertified=True)
    with pytest.raises(dp.errors.ArgumentError, match="evaluated for the identity link"):
        dp.evaluate(bent, rows, 0.5, ledger=ledger)


def test_decisions_are_named_by_the_declared_levels(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    rows = pd.DataFrame({"x": rng.uniform(0, 1, 3000)})
    rows["b"] = np.where(rng.random(3000) < rows["x"], "nan", "kept")  # a level that JSON's text of no number is like
    model = dp.logit("b ~ x", rows, 3.0, domain={"x": (0, 1), "b": ["kept", "nan"]}, seed=1)
    found = dp.evaluate(model, rows, 3.0, metrics=["accuracy"], seed=1)
    found.save(tmp_path / "evaluation.json")
    for one in (found, dp.Evaluation.load(tmp_path / "evaluation.json")):
        assert one.confusion is not None
        assert one.confusion["response"].tolist() == ["kept", "kept", "nan", "nan"]
        assert one.confusion["decision"].tolist() == ["kept", "nan"] * 2
        assert "decision nan" in str(one)
        assert "response kept" in str(one)
    right = one.confusion.query("response == decision")["rows"].sum() / one.confusion["rows"].sum()
    assert right == pytest.approx(found.metrics.loc["accuracy", "estimate"], abs=0.01)


def test_figures_have_no_digits_beyond_their_errors() -> None:
    found = dp.evaluate(fitted("gaussian"), frame(8000, 3), 1.0, seed=2)
    lines = {line.split()[0]: line.split()[1:] for line in str(found).splitlines() if line.split()}
    for name in ("rmse", "mae", "r2"):
        row, cells = found.metrics.loc[name], lines[name]
        places = max(0, 1 - int(np.floor(np.log10(row["std_err"]))))  # the second digit of the error
        for place, column in ((0, "estimate"), (3, "low"), (4, "high")):
            assert cells[place] == f"{row[column]:.{places}f}"
        for place, column in ((1, "noise_se"), (2, "sampling_se")):
            assert float(cells[place]) == pytest.approx(row[column], rel=0.051)


def test_binned_residuals_of_skewed_counts_allow_for_what_their_clipping_hides() -> None:
    """The bins are of clipped residuals: intervals and words say what this may do to their means."""
    rng = np.random.default_rng(9)
    x = rng.uniform(-1, 1, 4000)
    data = pd.DataFrame({"x": x, "n": np.minimum(rng.negative_binomial(0.5, 0.5 / (0.5 + np.exp(0.5 * x + 1))), 80)})
    fit = dp.poisson("n ~ x", data, 50.0, domain={"x": (-1, 1), "n": (0, 80)}, seed=1)
    found = [dp.evaluate(fit, data, 1.0, metrics=["residuals"], seed=seed) for seed in range(5)]
    told = [one for one in found if any("bins clip residuals" in note for note in one.notes)]
    assert len(told) > 2
    for one in told:
        table = one.residuals
        assert table is not None
        assert (table["low"] < 0).mean() > 0.5
        assert (table["high"] > 0).mean() > 0.5, "a mean that clipping alone has lowered shows no misfit"
        words = " ".join(" ".join(text.get_text() for text in one.plot("residuals").texts).split())
        assert "Residuals are clipped" in words


DEVIATION = 20.0
"""Of the noise of a count of rows by fitted value and residual."""


def clipped_bins(far: float, moved: int = 0, rows: float = 0.0) -> tuple[pd.DataFrame, float]:
    """The one bin of 4,000 rows with small residuals and of `far` beyond, and the size to which it clips them.

    No noise is drawn, so that figures follow exactly; `rows` more are in the cell `moved` from the middle.
    """
    model = plan_evaluation(fitted("gaussian"), ["residuals"], 1)
    (block,) = model.blocks()
    counts, middle = np.zeros((block.groups, block.grid.size)), block.grid.size // 2
    counts[8, middle - 3 : middle + 4] = 4000 / 7
    counts[8, -1] = far
    counts[8, middle + moved] += rows
    held = ReleasedHistogram(block.grid, counts, np.zeros_like(counts), DEVIATION**2, 0.0, 3.0)
    tables = model.tables([held])
    assert tables.residuals is not None
    (note,) = (note for note in tables.notes if "bins clip residuals" in note)
    return tables.residuals, float(note.split("to a size of ")[1].split(":")[0])


def allowance_for_clipping(far: float) -> tuple[float, float]:
    """What the error of the bin has beside that of the noise in it, and what clipping `far` rows may hide by the note.

    These and a standard deviation of their noise may be at 1.5 times the size where they are clipped.
    """
    table, most = clipped_bins(far)
    (row,) = table.to_dict("records")
    grid = residual_grid(20.0)
    slopes = [
        clipped_bins(far, place - grid.size // 2, 1.0)[0]["residual"].iloc[0] - row["residual"]
        for place in range(grid.size)
    ]
    noise = DEVIATION * float(np.sqrt(16 * np.sum(np.square(slopes))))  # alike in all sixteen cells of fitted values
    outer = 16 * int((np.abs(grid.middle) > most).sum())
    hidden = (far + DEVIATION * outer**0.5) / row["rows"] * most / 2
    return float(np.sqrt(row["noise_se"] ** 2 - noise**2)), hidden


@pytest.mark.parametrize("far", [0.0, 200.0])
def test_bins_allow_for_the_tail_that_their_note_tells(far: float) -> None:
    """No draw, so no false alarm."""
    allowed, hidden = allowance_for_clipping(far)
    assert allowed == pytest.approx(hidden, rel=0.01)


@pytest.mark.parametrize("far", [0.0, 200.0])
def test_a_planted_half_of_that_allowance_is_caught(far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = numeric.estimate

    def halved(value: float, influences: Any, cells: float = 0.0, hidden: float = 0.0) -> Any:
        return honest(value, influences, cells, hidden / 2)

    monkeypatch.setattr(numeric, "estimate", halved)
    allowed, hidden = allowance_for_clipping(far)
    assert allowed == pytest.approx(hidden / 2, rel=0.04)


@pytest.mark.parametrize(("family", "high"), [("gaussian", 40.0), ("poisson", 80.0)])
@pytest.mark.parametrize("spiked", [0, 1], ids=["deviances", "responses"])
def test_noise_that_passes_for_rows_far_out_is_not_a_confident_figure(family: str, high: float, spiked: int) -> None:
    """Noise of 4 standard deviations in the outermost cell, as some calls have, and none elsewhere."""
    response, data = FORMULAS[family][0], frame(3000, 5)
    domain = {**DOMAIN, response: (-10 if response == "y" else 0, high)}
    fit = dp.glm(FORMULAS[family], data, 50.0, family=family, domain=domain, seed=1)
    metrics = {"gaussian": ["r2", "rmse"], "poisson": ["deviance"]}[family]
    model = plan_evaluation(fit, metrics, 10)
    blocks = model.blocks()
    largest, square = (sum(getattr(block, name) for block in blocks) for name in ("largest", "square"))
    noise = choose_noise(largest, square, 1.0, 0.0, "add_remove")
    sums = RowSums(model, blocks, fit.scaled_params, steps_left_out(blocks, noise.kind))
    rows = sums.of_complete(fit.plan.design.blocks(data))  # type: ignore[attr-defined]
    rows[sum(block.size for block in blocks[:spiked]) + blocks[spiked].grid.size - 1] += round(4 * noise.variance**0.5)
    found = describe(fit.plan, sums, rows, noise, noise.guarantee("add_remove"))
    exact = truth(fit, data)
    for name, row in found.metrics.iterrows():
        assert row["low"] <= exact[str(name)] <= row["high"], name
        assert row["estimate"] == pytest.approx(exact[str(name)], abs=0.06), name
    assert any("uncertain whether any rows lie beyond" in note for note in found.notes)


@pytest.mark.parametrize("cells", [1, 2, 3, 5, 8, 16, 32])
def test_hardly_any_noise_passes_for_rows_without_doubt(cells: int) -> None:
    """The chance that the sum of so many Laplace draws, a difference of two gamma variables, exceeds the limit."""
    limit = (TAIL[0] + TAIL[1] / cells**0.5) * (2 * cells) ** 0.5
    draws, weights = np.polynomial.legendre.leggauss(400)
    end = stats.gamma.isf(1e-12, cells)
    at = (draws + 1) * end / 2
    assert weights @ (stats.gamma.pdf(at, cells) * stats.gamma.sf(limit + at, cells)) * end / 2 < 1e-4


@pytest.mark.parametrize("family", ["binomial", "huber_svm"])
def test_the_area_stands_beside_its_curve(family: str, tmp_path: Path) -> None:
    """Its interval holds the area of these rows, which sampling would let vary: a miss in fewer than 1 of 20 seeds."""
    fit, data = fitted(family), frame(8000, 3)
    found = dp.evaluate(fit, data, 1.0, metrics=["auc"], seed=2)
    area = found.auc
    assert area is not None
    assert found.roc is not None
    assert area["low"] < truth(fit, data)["area under ROC"] < area["high"]
    assert area["std_err"] == pytest.approx(np.hypot(area["noise_se"], area["sampling_se"]))
    rates = found.roc[["false_positive", "true_positive"]].to_numpy().T
    assert area["estimate"] == pytest.approx(np.trapezoid(rates[1], rates[0]), abs=0.01)
    (line,) = (line.split() for line in str(found).splitlines() if line.startswith("area under ROC"))
    assert float(line[3]) == pytest.approx(area["estimate"], abs=0.001)
    found.save(tmp_path / "found.json")
    again = dp.Evaluation.load(tmp_path / "found.json").auc
    assert again is not None
    pd.testing.assert_series_equal(again, area)
    assert dp.evaluate(fit, data, 1.0, metrics=["accuracy"], seed=2).auc is None


def test_metrics_are_asked_for_by_their_printed_names() -> None:
    fit, data = fitted("poisson"), frame(2000, 1)
    found = dp.evaluate(fit, data, 1.0, metrics=["deviance explained", "deviance"], seed=1)
    pd.testing.assert_frame_equal(found.metrics, dp.evaluate(fit, data, 1.0, metrics=["deviance"], seed=1).metrics)
    assert list(found.metrics.index) == ["deviance explained"]
    with pytest.raises(ArgumentError, match=r"metrics must be among .* got \['auc'\]$"):
        dp.evaluate(fit, data, 1.0, metrics=["auc"])


def test_a_share_beside_an_exposure_says_what_it_is_relative_to() -> None:
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, 4000), "years": rng.uniform(0.5, 3, 4000)})
    data["n"] = np.minimum(rng.poisson(data["years"]), 20)
    domain = {"x": (-1, 1), "years": (0.5, 3), "n": (0, 20)}
    for more in ({}, {"exposure": "years"}):
        found = dp.evaluate(dp.poisson("n ~ x", data, 5.0, domain=domain, seed=1, **more), data, 5.0, seed=2)
        assert any("compare with one rate" in note for note in found.notes) == bool(more)
    without = dp.evaluate(dp.poisson("n ~ x", data, 5.0, domain=domain, exposure="years"), data, 1.0, metrics=["mae"])
    assert not any("compare with one rate" in note for note in without.notes)


def explained(kind: str, rows: int, seed: int) -> tuple[str, str, pd.DataFrame, dict[str, Any]]:
    """A family, a formula, rows and a Domain; of "ends" every response is 0 or 1, where residuals are least alike."""
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(size=rows), -3, 3)
    response = {
        "normal": lambda: np.clip(0.65 * x + rng.normal(size=rows), -10, 10),
        "counts": lambda: np.minimum(rng.poisson(np.exp(0.5 * x + 0.5)), 40),
        "ends": lambda: (rng.random(rows) < special.expit(x)).astype(float),
    }[kind]()
    ends = {"normal": (-10, 10), "counts": (0, 40), "ends": (0, 1)}[kind]
    family = "poisson" if kind == "counts" else "gaussian"
    return family, "y ~ x", pd.DataFrame({"x": x, "y": response}), {"x": (-3, 3), "y": ends}


@pytest.mark.parametrize("kind", ["normal", "counts", "ends"])
def test_the_sampling_error_of_r2_takes_both_its_means_together(kind: str) -> None:
    """The s.d. of a row's influence on R2, exact for these 40,000 rows; seeds are fixed, so no false alarm.

    As means of independent rows the errors were 1.5 to 1.8 times it, except at the ends.
    """
    family, formula, data, domain = explained(kind, 40_000, 1)
    fit = dp.glm(formula, data, 20.0, family=family, domain=domain, seed=1)
    inside = fit.plan.design.domain["x"]  # type: ignore[attr-defined]
    kept = data[data["x"].between(inside.low, inside.high)]
    y, mean = kept["y"].to_numpy(float), fit.predict(kept).to_numpy()
    if kind == "counts":
        own, null = (2 * (special.xlogy(y, y / m) - (y - m)) for m in (mean, y.mean()))
    else:
        mean = np.clip(mean, *domain["y"])
        own, null = (y - mean) ** 2, (y - y.mean()) ** 2
    name = "deviance explained" if kind == "counts" else "r2"
    for eps, low, high in ((1e4, 0.95, 1.1), (3.0, 0.95, 1.15)):
        found = dp.evaluate(fit, data, eps, seed=1).metrics.loc[name]
        exact = np.std(own - own.mean() / null.mean() * null) / null.mean() / len(kept) ** 0.5
        assert low < found["sampling_se"] / exact < high, eps


def test_test_rows_are_not_those_that_the_model_was_fitted_to(tmp_path: Path) -> None:
    """A holdout knows its test rows: the warning does not stand there, nor in the file that is loaded again."""
    data, words = frame(4000, 3), "On rows that the model was fitted to"
    ledger = dp.Ledger(tmp_path / "rows.ledger", dataset="rows", eps=20.0)
    split = dp.holdout(data, 0.4, by="x", ledger=ledger, seed=1)
    formulas = ("y ~ x + g", "y ~ x")
    fit, other = (dp.ols(one, split.train, 2.0, domain=DOMAIN, ledger=split.train_ledger) for one in formulas)
    tested = dp.evaluate(fit, split.test, 2.0, ledger=split.test_ledger)
    trained = dp.evaluate(fit, split.train, 2.0, ledger=split.train_ledger)
    pair = dp.evaluate(fit, split.test, 2.0, against=other, ledger=split.test_ledger)
    assert (tested.held_out, trained.held_out, pair.held_out) == (True, False, True)
    assert "favour it" not in pair.summary(full=True).as_text()
    for found in (tested, trained, dp.evaluate(fit, data, 2.0)):
        found.save(tmp_path / "evaluation.json")
        for one in (found, dp.Evaluation.load(tmp_path / "evaluation.json")):
            assert (words in " ".join(one.summary(full=True).as_text().split())) == (found is not tested)


def test_a_model_of_all_rows_is_not_held_out(tmp_path: Path) -> None:
    """Test rows said no word where the model was fitted to them too; a model of the training rows is told apart by
    whichever verb fitted it, and from its file."""
    data, rows, words = frame(4000, 3), {"domain": DOMAIN, "seed": 1}, "A model of all rows was fitted to these too"
    ledger = dp.Ledger(tmp_path / "rows.ledger", dataset="rows", eps=50.0)
    split = dp.holdout(data, 0.4, by="x", ledger=ledger, seed=1)
    again = dp.holdout(split.train, 0.5, by="x", seed=2)
    others = dp.holdout(data, 0.3, by="x", seed=3)

    def told(test: Any, *models: Any) -> bool:
        found = dp.evaluate(models[0], test, 2.0, against=models[1] if models[1:] else None, seed=1)
        text = " ".join(found.summary().as_text().split())
        assert found.held_out == (words not in text)
        full = " ".join(found.summary(full=True).as_text().split())
        assert full.count("too good") == (0 if found.held_out else 1)
        return words in text

    whole, trained = (dp.ols("y ~ x", one, 2.0, **rows) for one in (data, split.train))
    charged = dp.ols("y ~ x + g", data, 2.0, domain=DOMAIN, ledger=split.train_ledger)
    trained.save(tmp_path / "fit.json")
    levels = dp.ols("y ~ x", split.train, 8.0, by="g", **rows)
    tuned = dp.tune("y ~ x", split.train, {"curvature": [1.0, 10.0]}, eps=8.0, **rows)
    for fit in (trained, charged, dp.GLMResults.load(tmp_path / "fit.json"), tuned.fit, *levels.fits):
        assert not told(split.test, fit)
    for test, fit in ((split.test, whole), (again.test, trained), (others.test, trained)):
        assert told(test, fit)
    assert not told(again.test, dp.ols("y ~ x", again.train, 2.0, **rows))
    assert told(split.test, trained, whole)
    assert words not in dp.evaluate(whole, data, 2.0, seed=1).summary(full=True).as_text()


def test_residuals_with_a_long_tail_are_named_below_the_table() -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, 4000)
    for error, told in ((rng.normal(size=4000), False), (np.exp(rng.normal(size=4000)), True)):
        data = pd.DataFrame({"x": x, "y": np.clip(x + error, -10, 30)})
        fit = dp.ols("y ~ x", data, 20.0, domain={"x": (-1, 1), "y": (-10, 30)}, seed=1)
        for eps in (0.5, 3.0):
            text = " ".join(dp.evaluate(fit, data, eps, seed=2).summary().as_text().split())
            assert ("Residuals have a long tail" in text) == told


def test_an_r2_that_is_mostly_noise_is_said_to_be() -> None:
    """Of a range that is 40 deviations wide, and not of one that is 8 wide; the fit has its own figure."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, 4000)
    data = pd.DataFrame({"x": x, "y": x + rng.normal(size=4000)})
    for half, eps, told in ((20, 1.0, True), (4, 3.0, False)):
        fit = dp.ols("y ~ x", data, 10.0, domain={"x": (-1, 1), "y": (-half, half)}, inference=True, seed=1)
        found = dp.evaluate(fit, data, eps, seed=1)
        text, figure = " ".join(str(found).split()), found.metrics.loc["r2"]
        assert (figure["noise_se"] > 3 * figure["sampling_se"]) == told
        assert (figure["noise_se"] > 0.05) == told
        note = "Most of the uncertainty of R2 is privacy noise: a narrower declared range of the response or more eps"
        note += " helps. That of the rows"
        assert (note in text) == told
        own = fit.fitstats.loc["r_squared"]
        assert (f"{own['value']:.4f} (std err {own['std_error']:.4f}), in fit.fitstats" in text) == told
    plain = dp.ols("y ~ x", data, 10.0, domain={"x": (-1, 1), "y": (-20, 20)}, inference=None, seed=1)
    text = " ".join(str(dp.evaluate(plain, data, 1.0, seed=1)).split())
    assert "more eps helps." in text
    assert "fitted to is" not in text


def test_a_share_of_a_response_that_hardly_varies_is_not_blamed_on_noise() -> None:
    """As of a recoded one, whose usable responses are all 1; with few rows for the budget noise may hide the rest.

    It may hide that one row in twenty is a case.
    """
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 1, 4000)
    data = pd.DataFrame({"x": x, "ill": (rng.random(4000) < x).astype(int)})
    fit = dp.logit("ill ~ x", data, 5.0, domain={"x": (0, 1), "ill": [0, 1]}, seed=1)
    recoded, few = data.assign(ill=data["ill"] + 1), data.assign(ill=(np.arange(4000) % 20 == 0).astype(int))
    cases = ((recoded, 50.0, True), (recoded, 0.6, True), (recoded.head(60), 0.5, False), (few.head(200), 3.0, False))
    for rows, eps, told in cases:
        found = dp.evaluate(fit, rows, eps, metrics=["deviance"], seed=3)
        assert found.metrics["estimate"].isna().all()
        text = " ".join(str(found).split())
        assert ("The response hardly varies in these rows: the deviance explained is unknown." in text) == told
        assert "privacy noise:" not in text or not told


def test_noise_that_leaves_a_precise_r2_is_not_named() -> None:
    """It is most of the error of many rows, and small beside the figure."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, 12_000)
    data = pd.DataFrame({"x": x, "y": x + rng.normal(size=12_000)})
    fit = dp.ols("y ~ x", data, 10.0, domain={"x": (-1, 1), "y": (-20, 20)}, inference=True, seed=1)
    found = dp.evaluate(fit, data, 1.0, seed=1)
    figure = found.metrics.loc["r2"]
    assert 3 * figure["sampling_se"] < figure["noise_se"] < 0.05
    assert "privacy noise:" not in str(found)


def test_noise_below_zero_in_the_residuals_of_a_perfect_fit_fails_no_evaluation() -> None:
    """Where noise left the cells of the residuals less than no rows, the square root of R2's sampling error failed."""
    data = {"x": np.linspace(0, 1, 500), "y": np.linspace(0, 1, 500)}
    fit = dp.ols("y ~ x", data, 1.0, domain={"x": (0, 1), "y": (0, 1)}, method="napp", seed=0)
    for seed in range(590, 596):
        error = dp.evaluate(fit, data, 1.0, seed=seed).metrics.loc["r2", "sampling_se"]
        assert error >= 0 or np.isnan(error)  # unknown


def shares(n: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    a, b = random.uniform(0, 10, n), random.normal(0, 1, n).clip(-3, 3)
    chance = 1 / (1 + np.exp(1 - 0.15 * (a - 5) - 0.8 * b))
    return pd.DataFrame({"a": a, "b": b, "y": (random.uniform(size=n) < chance).astype(int)})


@pytest.mark.parametrize(("eps", "told"), [(0.08, True), (3.0, False)])
@pytest.mark.parametrize("inference", [True, None])
def test_shrinkage_is_named_where_observed_shares_differ_more_than_predicted_ones(
    eps: float, told: bool, inference: bool | None
) -> None:
    data = shares(40_000, 0)
    domain = {"a": (0, 10), "b": (-10, 10), "y": [0, 1]}
    spent = eps if inference else eps / 2  # the coefficients alone have less noise at the same eps
    fit = dp.logit("y ~ a + b", data, spent, domain=domain, inference=inference, ranges="declared", seed=0)
    found = dp.evaluate(fit, data, 1.0, metrics=["calibration"], seed=0)
    notes = [note for note in found.notes if "shrunken towards the mean" in note]
    assert bool(notes) == told
    assert all(("larger eps" in note) == (inference is None) for note in notes)
    assert ((found.calibration["observed"] - found.calibration["predicted"]).abs().max() > 0.05) == told


def test_bins_are_in_order_and_no_sampling_error_is_zero() -> None:
    """Public: a bin's mean prediction lies between its ends, whatever the noise; seeded."""
    data = shares(500, 1)
    fit = dp.logit("y ~ a + b", data, 5.0, domain={"a": (0, 10), "b": (-3, 3), "y": [0, 1]}, seed=1)
    for seed in range(30):
        found = dp.evaluate(fit, data, 0.5, seed=seed)
        for table, name in ((found.calibration, "predicted"), (found.residuals, "fitted")):
            assert table[name].is_monotonic_increasing
            assert (table["sampling_se"] > 0).all()
        assert not (found.metrics["sampling_se"] == 0).any()


def test_few_bins_of_residuals_say_what_gives_more() -> None:
    """Fitted values fill little of their possible range where a column does not fill its own."""
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"x": random.uniform(0, 1, 4000)})
    rows["cost"], rows["y"] = random.lognormal(5 + rows.x, 1.0), rows.x + random.normal(0, 0.1, 4000)
    notes = {}
    for name, high in (("cost", 50_000), ("y", 2)):
        domain = {"x": (0, 300 if high > 2 else 1), name: (0 if high > 2 else -1, high)}
        fit = dp.ols(f"{name} ~ x", rows, 2.0, domain=domain, seed=1)
        found = dp.evaluate(fit, rows, 1.0, metrics=["R2", "residuals"], seed=1)
        assert "r2" in found.metrics.index
        notes[name] = (len(found.residuals), any("few bins" in note for note in found.notes))
    assert notes["cost"][0] < 4 < notes["y"][0]
    assert (notes["cost"][1], notes["y"][1]) == (True, False)


@pytest.mark.slow
def test_a_noise_cell_far_out_does_not_widen_the_interval_of_deviance_explained() -> None:
    """One count in hundreds stands out by three standard deviations: responses and deviances must agree on a tail."""
    random = np.random.default_rng(0)

    def counted(rows: int) -> pd.DataFrame:
        x = random.uniform(-1, 1, rows)
        return pd.DataFrame({"x": x, "n": np.minimum(random.poisson(np.exp(x - 0.5)), 500)})

    fit = dp.poisson("n ~ x", counted(20_000), 20.0, domain={"x": (-1, 1), "n": (0, 500)}, seed=1)
    found = [dp.evaluate(fit, counted(6_000), 1.0, seed=seed).metrics for seed in range(60)]
    figures = pd.DataFrame([one.loc["deviance explained"] for one in found])
    widths = figures["high"] - figures["low"]
    assert widths.max() < 3 * widths.median()  # 20 times without that
    many = counted(300_000)
    response, means = many["n"].to_numpy(), fit.predict(many).to_numpy()
    true = 1 - deviances(response, means).mean() / deviances(response, np.full(len(many), response.mean())).mean()
    assert ((figures["low"] <= true) & (true <= figures["high"])).mean() >= 0.9


def deviances(response: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Poisson unit deviances."""
    return np.asarray(2 * (special.xlogy(response, response / means) - response + means))


def test_a_summary_has_three_notes_and_says_where_the_others_are() -> None:
    fit = dp.poisson("n ~ x + g", frame(4_000, 1), 4.0, domain=DOMAIN, seed=1)
    found = dp.evaluate(fit, frame(4_000, 2), 1.0, seed=1)
    assert len(found.notes) > 3
    short, whole = (" ".join(found.summary(full=full).as_text().split()) for full in (False, True))
    assert sum(note in short for note in found.notes) == 3
    assert all(note in whole for note in found.notes)
    assert "summary(full=True)" in short
    assert "more note" not in whole
    with pytest.raises(ArgumentError, match="evaluate each by itself"):
        dp.evaluate([fit, fit], frame(10, 1), 1.0)  # type: ignore[arg-type]


def test_an_interval_lies_in_the_possible_range_and_has_the_estimate() -> None:
    """Of two classes that are far apart the noise moves observed shares beyond 0 and 1."""
    random = np.random.default_rng(3)
    x = np.clip(random.standard_normal(3000), -3, 3)
    data = pd.DataFrame({"x": x, "y": (random.random(3000) < 1 / (1 + np.exp(-1 - 6 * x))).astype(int)})
    fit = dp.logit("y ~ x", data, 2.0, domain={"x": (-3, 3), "y": [0, 1]}, seed=1)
    beyond = 0
    for seed in range(30):
        table = dp.evaluate(fit, data, 0.5, metrics=["calibration"], seed=seed).calibration
        assert table is not None
        assert ((table["low"] >= 0) & (table["low"] <= table["observed"])).all()
        assert ((table["observed"] <= table["high"]) & (table["high"] <= 1)).all()
        beyond += int(table["observed"].isin([0.0, 1.0]).sum())
    assert beyond > 0  # such bins came up


def test_a_note_says_which_metric_compares_with_a_null_model_of_clipped_responses() -> None:
    random = np.random.default_rng(1)
    x = random.uniform(0, 1, 8_000)
    data = {"x": x, "y": 3 * x + random.normal(0, 1, 8_000), "k": random.poisson(np.exp(x))}
    domain = {"x": (0, 1), "y": (-20, 20), "k": (0, 60)}
    for model, response, metric in ((dp.ols, "y", "r2"), (dp.poisson, "k", "the deviance explained")):
        fit = model(f"{response} ~ x", data, 2.0, domain=domain, seed=1)
        told = (
            f"The null model of {metric} predicts one mean for all rows. Its errors are those of responses clipped to ("
        )
        found = dp.evaluate(fit, data, 0.5, seed=1)
        assert told in " ".join(str(found.summary(full=True)).split())
        assert metric.removeprefix("the ") in found.metrics.index


def test_the_noise_of_decisions_stands_below_the_decision_that_has_it() -> None:
    """It stood beside responses: of cells in one column one had the error of the other column."""
    random = np.random.default_rng(0)
    x = random.normal(0, 1, 8_000).clip(-3, 3)
    rows = {"x": x, "y": (random.random(8_000) < 1 / (1 + np.exp(1.5 - 1.5 * x))).astype(int)}
    fit = dp.logit("y ~ x", rows, 1.0, domain={"x": (-3, 3), "y": (0, 1)}, seed=1)
    evaluation = dp.evaluate(fit, rows, 1.0, seed=1)
    (line,) = (line for line in str(evaluation).splitlines() if line.startswith("noise se of each"))
    by_decision = evaluation.confusion.groupby("decision")["noise_se"]
    assert by_decision.nunique().eq(1).all()
    assert [float(cell) for cell in line.split()[-2:]] == pytest.approx(by_decision.first().tolist(), rel=0.02)
    assert by_decision.first().nunique() == 2

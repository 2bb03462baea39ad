"""Two models on the same rows: exact density ratios, planted bugs, estimates, refusals and what is printed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import dpstats as dp
from dpstats.cli import main
from dpstats.data import as_table
from dpstats.errors import ArgumentError, DataError
from dpstats.evaluation.integer_noise import choose_noise
from dpstats.evaluation.model_quality import _plan_pair
from dpstats.evaluation.paired import PairSums
from dpstats.evaluation.row_sums import steps_left_out
from dpstats.privacy.guarantee import ROW, Adjacency, Unit
from dpstats.privacy.randomness import SystemRandom

DOMAIN: dict[str, Any] = {
    **{"y": (-4, 6), "x": (-1, 1), "z": (-1, 1), "g": ["a", "b"], "b": (0, 1), "n": (0, 20), "w": (0, 2)},
    "k": ["low", "mid", "high"],
}
PERSON = Unit("who")
EPS = 0.7
GIVEN: dict[str, Any] = {"domain": DOMAIN, "seed": 1, "on_mismatch": "go"}

PAIRS: dict[str, Any] = {
    "numbers": lambda data: (dp.ols("y ~ x", data, 5.0, **GIVEN), dp.ols("y ~ z + g", data, 5.0, **GIVEN)),
    "binary": lambda data: (dp.logit("b ~ x", data, 5.0, **GIVEN), dp.logit("b ~ z + g", data, 5.0, **GIVEN)),
    "counts": lambda data: (dp.poisson("n ~ x", data, 5.0, **GIVEN), dp.poisson("n ~ z + g", data, 5.0, **GIVEN)),
    "quantiles": lambda data: (
        dp.quantreg("y ~ x", data, 5.0, q=0.7, **GIVEN),
        dp.quantreg("y ~ z + g", data, 5.0, q=0.7, **GIVEN),
    ),
    "levels": lambda data: (dp.ordinal("k ~ x", data, 5.0, **GIVEN), dp.ordinal("k ~ z + g", data, 5.0, **GIVEN)),
}
LOSSES = {
    "numbers": ["mse", "mae"],
    "binary": ["log_score", "brier", "accuracy"],
    "counts": ["deviance", "mse", "mae"],
    "quantiles": ["pinball"],
    "levels": ["log_score", "rps", "accuracy"],
}


def frame(rows: int, seed: int, *, lost: float = 0.0) -> pd.DataFrame:
    """Rows of which about a share `lost` misses a cell of either model, or has a level that is not declared."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, (2, rows))
    data = pd.DataFrame(
        {
            "x": np.where(rng.random(rows) < lost / 2, np.nan, x),
            "z": np.where(rng.random(rows) < lost / 2, np.nan, z),
            "g": np.where(rng.random(rows) < lost / 2, "neither", rng.choice(["a", "b"], rows)),
            "y": 1 + 1.5 * x + 0.5 * z + rng.normal(size=rows),
            "b": (rng.random(rows) < special.expit(1.5 * x + 0.5 * z)).astype(float),
            "n": rng.poisson(np.exp(0.5 + 0.7 * x + 0.3 * z)).astype(float),
            "k": np.array(["low", "mid", "high"])[
                np.digitize(1.5 * x + 0.5 * z + rng.logistic(size=rows), [-0.5, 1.0])
            ],
            "w": rng.uniform(0.1, 2, rows),
            "who": np.arange(rows) // 3,
        }
    )
    for name in ("y", "b", "n"):
        data.loc[rng.random(rows) < lost / 10, name] = np.nan
    return data


@pytest.fixture(scope="module", params=list(PAIRS))
def pair(request: pytest.FixtureRequest) -> tuple[str, dp.GLMResults, dp.GLMResults]:
    return request.param, *PAIRS[request.param](frame(3000, 1))


@pytest.fixture(scope="module")
def numbers() -> tuple[dp.GLMResults, dp.GLMResults]:
    return PAIRS["numbers"](frame(3000, 1))  # type: ignore[no-any-return]


def sums_of(pair: Any, kind: Literal["laplace", "gaussian"] = "laplace", sums: type[PairSums] = PairSums) -> PairSums:
    name, *fits = pair
    planned = _plan_pair(*fits, LOSSES[name], 10)
    blocks = planned.blocks()
    return sums(planned, blocks, steps_left_out(blocks, kind))


def moved(sums: PairSums, first: pd.DataFrame, second: pd.DataFrame, record: Unit) -> Any:
    """What the released vector differs by between two data sets, before the noise."""
    one, other = (sums.of_table(as_table(data), record, SystemRandom()) for data in (first, second))  # type: ignore[arg-type]
    return (one - other).astype(float)


def neighbours(seed: int, adjacency: Adjacency, record: Unit) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A record is there or not, or is another one; many are incomplete for one of the models or for both."""
    size = 1 if record is ROW else 3
    data = frame(5, seed, lost=0.8).assign(who=np.arange(5))
    one, other = (frame(size, 900 + seed + 90 * at, lost=0.8).assign(who=77) for at in (0, 1))
    if adjacency == "replace_one":
        return pd.concat([data, one], ignore_index=True), pd.concat([data, other], ignore_index=True)
    return pd.concat([data, one], ignore_index=True), data


def worst_ratio(sums: PairSums, adjacency: Adjacency, record: Unit, number: int) -> float:
    """The greatest logarithm of the ratio of both densities of the release at one outcome, over neighbours: exact."""
    largest, square = (sum(getattr(block, name) for block in sums.blocks) for name in ("largest", "square"))
    noise = choose_noise(largest, square, EPS, 0.0, adjacency)
    pairs = (neighbours(seed, adjacency, record) for seed in range(number))
    return max(float(np.abs(moved(sums, *both, record)).sum()) / noise.scale for both in pairs)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("record", [ROW, PERSON], ids=["rows", "persons"])
def test_a_comparison_keeps_its_eps_exactly(pair: Any, record: Unit, adjacency: Adjacency) -> None:
    """Records are added, removed or changed in any way; many are incomplete for one model or for both."""
    assert 0.8 * EPS < worst_ratio(sums_of(pair), adjacency, record, 40) <= EPS * (1 + 1e-12)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_squared_distance_is_as_declared(pair: Any, adjacency: Adjacency) -> None:
    sums = sums_of(pair, "gaussian")
    most = sum(block.square for block in sums.blocks) * (1 if adjacency == "add_remove" else 2)
    squares = [float((moved(sums, *neighbours(seed, adjacency, ROW), ROW) ** 2).sum()) for seed in range(40)]
    assert 0.5 * most < max(squares) <= most


class ByModel(PairSums):
    """Planted: a row counts once for each of the models that can use it."""

    def _of_tables(self, tables: Any) -> Any:
        total = self.of_differences([])
        for table in tables:
            counting = int(self.model.counting_rows(table).sum())
            for one in (self.model.first, self.model.second):
                known = one.read(table)[2]
                alone = np.where(known[:, None], np.nan_to_num(self.model.differences(table)), np.nan)
                total += self.of_differences([alone])
                total[-1] += self.left_out * counting
        return total


class IncompleteRows(PairSums):
    """Planted: a row that one model cannot use is in the cell of no difference, and left out as well."""

    def of_differences(self, parts: Any) -> Any:
        found = list(parts)
        total = super().of_differences([np.nan_to_num(rows) for rows in found])
        total[-1] = super().of_differences(found)[-1]
        return total


@pytest.mark.parametrize("planted", [ByModel, IncompleteRows])
def test_a_row_that_counts_more_than_once_is_caught(pair: Any, planted: type[PairSums]) -> None:
    sums = sums_of(pair, sums=planted)
    assert worst_ratio(sums, "add_remove", ROW, 40) > 1.5 * EPS


def loss_of_levels(name: str, fit: dp.GLMResults, data: pd.DataFrame) -> np.ndarray:
    chances, levels = fit.predict(data).to_numpy(), DOMAIN["k"]
    y = data["k"].map(levels.index).to_numpy()
    above = chances[:, ::-1].cumsum(axis=1)[:, -2::-1]
    each = {
        "log_score": -np.log(np.maximum(chances[np.arange(len(y)), y], np.exp(-9))),
        "rps": ((above - (y[:, None] > np.arange(2))) ** 2).mean(axis=1),
        "accuracy": chances.argmax(axis=1) != y,
    }[name]
    return np.where(np.isnan(chances).any(axis=1), np.nan, each)


def loss_of(name: str, fit: dp.GLMResults, data: pd.DataFrame) -> np.ndarray:
    """Losses by the predictions that the fit gives, independently of the package's own losses; shape (rows,)."""
    with np.errstate(all="ignore"):
        if fit.plan.family.name == "ordinal":
            return loss_of_levels(name, fit, data)
        mean = fit.predict(data).to_numpy()
        y = data[str(fit.plan.formula)[0]].to_numpy()
        if name == "accuracy":
            return np.where(np.isnan(mean + y), np.nan, (mean > 0.5) != (y > 0.5))
        if name in ("log_score", "brier"):
            mean = np.clip(mean, special.expit(-9), special.expit(9))
            return (mean - y) ** 2 if name == "brier" else -special.xlogy(y, mean) - special.xlog1py(1 - y, -mean)
        low, high = DOMAIN[str(fit.plan.formula)[0]]
        mean, y = np.clip(mean, max(low, 1e-3) if name == "deviance" else low, high), np.clip(y, low, high)
        if name == "deviance":
            return 2 * (special.xlogy(y, y / mean) - y + mean)
        away = y - mean
        return away**2 if name == "mse" else np.abs(away) if name == "mae" else np.maximum(0.7 * away, -0.3 * away)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_without_noise_it_is_the_difference_of_the_mean_losses(pair: Any) -> None:
    """Rows that either model cannot use are left out; errors of rows are those of the mean difference."""
    name, *fits = pair
    data = frame(6000, 3, lost=0.2)
    found = dp.evaluate(fits[0], data, 1e7, against=fits[1], metrics=LOSSES[name])
    for at, loss in enumerate(LOSSES[name]):
        each = loss_of(loss, fits[0], data) - loss_of(loss, fits[1], data)
        each = each[np.isfinite(each)]
        figure = found.metrics.iloc[at]
        assert figure["estimate"] == pytest.approx(each.mean(), abs=2e-3 * each.std())
        assert figure["sampling_se"] == pytest.approx(each.std() / len(each) ** 0.5, rel=0.08)
        assert found.rows == pytest.approx(len(each), abs=0.5)
        assert found.rows_left_out == pytest.approx(len(data) - len(each), abs=0.5)


def test_a_model_against_itself_differs_by_noise_alone(pair: Any) -> None:
    """100 seeded evaluations: an estimate beyond 4.5 errors of the noise comes in fewer than one in 500 of them."""
    name, fit, _ = pair
    data = frame(3000, 4)
    found = [dp.evaluate(fit, data, 1.0, against=fit, metrics=LOSSES[name][:1], seed=seed) for seed in range(100)]
    figures = pd.concat([one.metrics for one in found])
    assert (figures["estimate"].abs() > 4.5 * figures["noise_se"]).sum() <= 3
    assert ((figures["low"] <= 0) & (figures["high"] >= 0)).all()
    assert "neither is clearly better" in str(found[0].notes)


@pytest.mark.slow
@pytest.mark.parametrize("eps", [0.5, 2.0])
def test_intervals_cover_the_difference_in_the_population(pair: Any, eps: float) -> None:
    """Of 120 samples at least 105 cover: with a coverage of .95 fewer come once in 600 runs of each case."""
    name, *fits = pair
    whole, loss = frame(400_000, 5), LOSSES[name][0]
    true = float((loss_of(loss, fits[0], whole) - loss_of(loss, fits[1], whole)).mean())
    covered = 0
    for seed in range(120):
        data = whole.iloc[3000 * seed : 3000 * seed + 3000]
        figure = dp.evaluate(fits[0], data, eps, against=fits[1], metrics=[loss], seed=seed).metrics.iloc[0]
        covered += figure["low"] <= true <= figure["high"]
    assert stats.binom.cdf(104, 120, 0.95) < 1 / 600
    assert covered >= 105


def test_it_has_less_noise_than_two_evaluations(numbers: Any) -> None:
    data = frame(5000, 6)
    both = dp.evaluate(numbers[0], data, 1.0, against=numbers[1], seed=1).metrics["noise_se"].iloc[0]
    alone = [dp.evaluate(fit, data, 0.5, metrics=["rmse"], seed=1).metrics.iloc[0] for fit in numbers]
    assert both < 0.7 * math.hypot(*(2 * one["estimate"] * one["noise_se"] for one in alone))


def test_what_is_printed_saved_and_loaded(numbers: Any, tmp_path: Path) -> None:
    found = dp.evaluate(*numbers[:1], frame(5000, 7, lost=0.1), 1.0, against=numbers[1], seed=1)
    text = found.summary().as_text()
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    assert "Difference of two models: mse first: gaussian, y ~ x second: gaussian, y ~ z + g" in words
    assert "the first has the smaller mse" in words
    assert "Left out: " in words
    assert found.auc is None
    assert found.against == "gaussian, y ~ z + g"
    found.save(tmp_path / "difference.json")
    again = dp.Evaluation.load(tmp_path / "difference.json")
    assert str(again) == str(found)
    assert again.against == found.against
    assert "against" not in dp.evaluate(numbers[0], frame(500, 7), 1.0).to_dict()  # as older versions stored it
    swapped = dp.evaluate(numbers[1], frame(5000, 7), 1.0, against=numbers[0], metrics=["mse", "MAE"], seed=1)
    assert "the second has the smaller mse and mae" in " ".join(swapped.notes)


def test_files_agree_with_frames(numbers: Any, tmp_path: Path) -> None:
    """Files are read in batches, and rows of a person may be in several."""
    data = frame(3000, 12, lost=0.1).assign(who=np.arange(3000) % 1000)
    data.to_parquet(tmp_path / "rows.parquet", row_group_size=300)
    data.to_csv(tmp_path / "rows.csv", index=False)
    sums = sums_of(("numbers", *numbers))
    whole = sums.of_table(as_table(data), ROW, SystemRandom())  # type: ignore[arg-type]
    for name in ("rows.parquet", "rows.csv"):
        table: Any = as_table(str(tmp_path / name))
        assert (sums.of_table(table, ROW, SystemRandom()) == whole).all()
        persons = sums.of_table(table, PERSON, SystemRandom())
        complete = data.dropna(subset=["x", "z", "y"]).query("g != 'neither'")["who"].nunique()
        assert persons[-1] == sums.left_out * (1000 - complete)


def test_a_part_of_a_ledger_pays_for_its_rows(numbers: Any, tmp_path: Path) -> None:
    data = frame(4000, 13)
    ledger = dp.Ledger(tmp_path / "rows.ledger", dataset="rows", eps=5.0)
    split = dp.holdout(data, share=0.25, ledger=ledger)
    found = dp.evaluate(numbers[0], data, 2.0, against=numbers[1], ledger=split.test_ledger)
    assert found.rows == pytest.approx(1000, abs=150)
    assert found.rows_left_out == pytest.approx(0, abs=10)
    assert ledger.remaining[0] == 3.0


def test_few_rows_are_unknown(numbers: Any) -> None:
    found = dp.evaluate(numbers[0], frame(10, 1), 0.1, against=numbers[1], seed=1)
    assert found.metrics["estimate"].isna().all()
    assert "no metric can be estimated" in " ".join(found.notes)


def test_persons_are_those_of_either_model(tmp_path: Path) -> None:
    data = frame(3000, 8)
    plain = dp.ols("y ~ x", data, 5.0, **GIVEN)
    persons = dp.ols("y ~ z", data, 5.0, unit="who", max_rows=3, **GIVEN)
    others = dp.ols("y ~ z", data.rename(columns={"who": "id"}), 5.0, unit="id", max_rows=3, **GIVEN)
    for fit, against in ((plain, persons), (persons, plain)):
        found = dp.evaluate(fit, data, 1e6, against=against)
        assert found.guarantee.unit == "who"
        assert found.rows == pytest.approx(1000, abs=0.5)
    with pytest.raises(ArgumentError, match=r"unit: the models protect persons by 'who' and 'id'"):
        dp.evaluate(persons, data, 1.0, against=others)
    assert dp.evaluate(persons, data, 1e6, against=others, unit=False).rows == pytest.approx(3000, abs=0.5)


def test_refusals_come_before_any_charge(numbers: Any, tmp_path: Path) -> None:
    data = frame(3000, 9)
    ledger = dp.Ledger(tmp_path / "rows.ledger", dataset="rows", eps=100.0)
    fit, other = numbers
    logit = dp.logit("b ~ x", data, 5.0, **GIVEN)
    machine = dp.glm("b ~ x", data, 5.0, family="huber_svm", **GIVEN)
    wide = dp.ols("y ~ x", data, 5.0, **{**GIVEN, "domain": {**DOMAIN, "y": (-9, 9)}})
    medians = [dp.quantreg("y ~ x", data, 5.0, q=q, **GIVEN) for q in (0.5, 0.9)]
    levels = dp.ordinal("k ~ x", data, 5.0, **GIVEN)
    reversed_levels = dp.ordinal("k ~ x", data, 5.0, **{**GIVEN, "domain": {**DOMAIN, "k": DOMAIN["k"][::-1]}})
    arrays = dp.GLM(data["y"] / 9, data[["x"]], "gaussian", row_norm=1.0).fit(5.0, seed=1)
    weighted = dp.ols("y ~ x", data, 5.0, weights="w", **GIVEN)
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (fit, {"against": logit}, "against: its response is 'b' and that of fit 'y'; pass two models of one response"),
        (fit, {"against": wide}, r"against: 'y' is declared as \(-9, 9\) there and as \(-4, 6\) in fit; use one Dom"),
        (fit, {"against": medians[0]}, "against: no loss is offered to compare the families 'gaussian' and 'quantile'"),
        (medians[0], {"against": medians[1]}, "against: it is of the quantile 0.9 and fit of 0.5; pass two models"),
        (levels, {"against": reversed_levels}, r"against: 'k' is declared as levels \['high', .* use one Domain"),
        (fit, {"against": arrays}, "against: models of plain arrays are not compared; fit both by formula"),
        (weighted, {"against": fit}, "against: models with weights or numbers of trials are not compared; evaluate"),
        (fit, {"against": "fit.json"}, "against must be a fitted model, as dp.glm returns; got str"),
        (fit, {"against": [fit, other]}, "against must be one fitted model; got a list"),
        (
            fit,
            {"against": other, "metrics": ["r2"]},
            r"among \['mse', 'mae'\] with against=, .*R2 is no mean",
        ),
        (
            logit,
            {"against": logit, "metrics": ["auc"]},
            "the ROC curve is no mean over rows; use 'log_score'",
        ),
        (logit, {"against": machine, "metrics": ["brier"]}, r"metrics must be among \['accuracy'\] with against="),
        (fit, {"against": other, "metrics": ["msee"]}, "did you mean 'mse'"),
    ]
    for one, given, message in refused:
        with pytest.raises(ArgumentError, match=message):
            dp.evaluate(one, data, 1.0, ledger=ledger, **given)
    with pytest.raises(DataError, match="'z'"):
        dp.evaluate(fit, data.drop(columns="z"), 1.0, against=other, ledger=ledger)
    assert ledger.remaining[0] == 100
    dp.evaluate(fit, data, 1.0, against=other, ledger=ledger)
    assert ledger.remaining[0] == 99
    assert "against" in str(ledger.entries())


def test_families_are_compared_by_the_losses_that_both_have() -> None:
    data = frame(3000, 10)
    poisson, normal = dp.poisson("n ~ x", data, 5.0, **GIVEN), dp.ols("n ~ x", data, 5.0, **GIVEN)
    machine, logit = dp.glm("b ~ x", data, 5.0, family="huber_svm", **GIVEN), dp.logit("b ~ x", data, 5.0, **GIVEN)
    assert list(dp.evaluate(poisson, data, 1.0, against=normal).metrics.index) == ["mse"]
    assert list(dp.evaluate(logit, data, 1.0, against=machine).metrics.index) == ["error rate"]


def test_in_the_shell(numbers: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paths = [str(tmp_path / f"{at}.json") for at in range(2)]
    for fit, path in zip(numbers, paths, strict=True):
        fit.save(path)
    rows, output = str(tmp_path / "rows.csv"), str(tmp_path / "difference.json")
    frame(2000, 11).to_csv(rows, index=False)
    call = ["evaluate", paths[0], rows, "--against", paths[1], "--eps", "2"]
    assert main([*call, "--json", "--output", output]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert (facts["model"], facts["against"]) == ("gaussian, y ~ x", "gaussian, y ~ z + g")
    assert main(["show", output]) == 0
    assert "second: gaussian, y ~ z + g" in capfd.readouterr().out

"""`dpstats.select`: what it chooses, what it refuses before it spends, and what it never shows."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import as_table
from dpstats.privacy.selection import STEPS
from dpstats.tuning.losses import ModelLosses, RuleLosses, rule_losses, total_losses
from dpstats.tuning.selection import losses_of

DOMAIN = {"y": (0, 4), "x": (0, 10), "g": ["a", "b"], "b": ["no", "yes"]}
SCORE = "candidate != (b == 'yes')"
RULES = ["x > 2", "x > 5", "x > 8"]


def frame(rows=400, seed=0):
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 11, rows)
    return pd.DataFrame(
        {
            "x": np.where(random.random(rows) < 0.05, np.nan, x),
            "g": random.choice(["a", "b", "c"], rows),
            "b": np.where(x > 5, "yes", "no"),
            "y": np.clip(x / 3, 0, 4),
        }
    )


@pytest.fixture(scope="module")
def fits():
    arguments = {"eps": 5.0, "domain": DOMAIN, "inference": None, "on_mismatch": "go"}  # a third have level c
    return [dp.logit(formula, frame(), **arguments) for formula in ("b ~ g", "b ~ x", "b ~ x + g")]


def test_the_best_rule_is_chosen_where_rows_are_plenty():
    found = dp.select(RULES, SCORE, frame(), domain=DOMAIN, eps=1.0)
    assert found.chosen == found.candidate == "x > 5"
    assert found.guarantee == dp.Guarantee(1.0, 0.0, "add_remove", basis="docs/proofs/choice")


def test_numbers_take_the_place_of_the_name():
    found = dp.select([1, 5.0, 9], "abs(x - candidate) / 10", frame(), domain=DOMAIN, eps=2.0)
    assert (found.chosen, found.candidate) == ("5.0", 5.0)


def test_losses_of_rules_are_what_they_say():
    data = frame()
    complete = data[data["x"].notna()]
    total = total_losses(rule_losses(SCORE, RULES, dp.Domain(DOMAIN)), as_table(data), 0.0)
    yes = complete["b"] == "yes"
    expected = [int(((complete["x"] > cut) != yes).sum()) * STEPS for cut in (2, 5, 8)]
    assert total.tolist() == expected


@pytest.mark.filterwarnings("ignore:newdata")  # numbers beyond the declared range
@pytest.mark.parametrize("loss", ["mistakes", "absolute_error", "squared_error"])
def test_losses_of_models_are_those_of_their_predictions(fits, loss):
    data = frame()
    usable = data[data["x"].notna() & data["g"].isin(["a", "b"])]
    outcome = (usable["b"] == "yes").to_numpy(float)
    expected = []
    for fit in fits:
        mean = fit.predict(usable).to_numpy(float)
        error = np.abs(mean - outcome)
        each = {"mistakes": (mean > 0.5) != outcome, "absolute_error": error, "squared_error": error**2}[loss]
        expected.append(np.rint(each * STEPS).sum())
    found = total_losses(ModelLosses(tuple(fits), loss), as_table(data), 0.0)
    assert np.abs(found - expected).max() <= 2  # a loss on the border of a step


@pytest.mark.filterwarnings("ignore:newdata")  # numbers beyond the declared range
def test_errors_of_numbers_are_shares_of_the_range():
    fit = dp.ols("y ~ x", frame(), 50.0, domain=DOMAIN, inference=None)
    data = frame()[["x", "y"]].dropna()
    expected = np.abs(np.clip(fit.predict(data), 0, 4) - data["y"]).to_numpy() / 4
    losses = ModelLosses((fit, fit), "absolute_error")
    assert losses.each(as_table(data))[:, 0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("monotone", [True, False])
def test_one_row_moves_the_losses_as_declared(fits, monotone):
    """Whatever the cells and the expression: within [0, 1] together, or within [-1, 1]."""
    low = 0.0 if monotone else -1.0
    wild = RuleLosses(("np.exp(x) * (1 - 5) - x", "np.exp(x) * (7 - 5) - x"), dp.Domain(DOMAIN).to_json())
    losses: list = [wild, ModelLosses(tuple(fits), "squared_error")]
    cells = itertools.product([np.nan, -np.inf, 1e300, 0.0, 7.3], ["a", "zz", None], ["yes", "no", "?"])
    data = frame(30)
    for each in losses:
        base = total_losses(each, as_table(data), low)
        for x, g, b in cells:
            more = pd.concat([data, pd.DataFrame({"x": [x], "g": [g], "b": [b], "y": [1.0]})], ignore_index=True)
            move = total_losses(each, as_table(more), low) - base
            assert move.min() >= low * STEPS
            assert move.max() <= STEPS


@pytest.mark.parametrize(
    ("score", "given", "says"),
    [
        ("abs(x - candidate)", {}, "lies between 0 and 9 on the declared ranges.*divide by 9$"),
        ("(x - candidate) / 10", {}, r"within \[0, 1\]: divide by .* and pass monotone=False"),
        ("(x - candidate) / 5", {"monotone": False}, r"within \[-1, 1\]: divide by 1.8$"),
    ],
)
def test_losses_that_would_be_clipped_are_refused(score, given, says):
    """Clipped, the best of them need not win; on the declared ranges it can be told without a row."""
    with pytest.raises(dp.errors.ArgumentError, match=says):
        dp.select([1, 5.0, 9], score, frame(), domain=DOMAIN, eps=2.0, **given)
    dp.select([1, 5.0, 9], "(x - candidate) / 10", frame(), domain=DOMAIN, eps=2.0, monotone=False)


COLUMN = [83.25, 61.5, 47.125, 22.0, 39.75, 91.375, 12.5, 55.625, 70.875]
NAMES = ["Ada", "Bob", "Cyd", "Dee", "Eve", "Fay", "Gus", "Hal", "Ivy"]


@pytest.mark.parametrize(
    ("candidates", "score"),
    [
        (COLUMN, "abs(x - candidate)"),
        (COLUMN, "abs(x - candidate) / 10"),
        (COLUMN, "candidate != g"),
        (NAMES, "candidate != g"),
        ([f"{name} > 1" for name in NAMES], SCORE),
        ([f"{name}.mean()" for name in NAMES], SCORE),
        ([f"{name} {name}" for name in NAMES], SCORE),
    ],
)
def test_a_column_of_candidates_is_not_quoted(candidates, score):
    """Nor what its values make of the losses: a list of more than a few may be cells."""
    with pytest.raises(dp.errors.DPStatsError) as caught:
        dp.select(candidates, score, frame(), domain=DOMAIN, eps=1.0)
    said = f"{caught.value} {caught.value.__cause__}"
    assert not any(name in said for name in NAMES)
    assert not any(f"{value:g}"[:4] in said for value in [*COLUMN, *(10 - np.array(COLUMN)), *(np.array(COLUMN) / 10)])


def test_an_unclipped_row_is_caught(monkeypatch):
    """Planted: losses beyond 1 count in full."""
    monkeypatch.setattr(np, "clip", lambda values, *_: values)
    losses = RuleLosses(("x * 3",), dp.Domain({"x": (0, 10)}).to_json())
    assert total_losses(losses, as_table({"x": np.array([9.0])}), 0.0).max() > 20 * STEPS


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"candidates": ["x > 1"]}, dp.errors.ArgumentError, "at least two"),
        ({"candidates": "x > 1"}, dp.errors.ArgumentError, "at least two"),
        ({"candidates": ["x > 1", "x > 1"]}, dp.errors.ArgumentError, "differ"),
        ({"candidates": [1.0, float("nan")]}, dp.errors.ArgumentError, "candidates"),
        ({"candidates": [1.0, True]}, dp.errors.ArgumentError, "candidates"),
        ({"candidates": ["x > 1", "x.mean() > 1"]}, dp.errors.FormulaError, "refused"),
        ({"candidates": ["x > 1", "x >"]}, dp.errors.FormulaError, "not an expression"),
        ({"candidates": ["x > 1", "g"]}, dp.errors.FormulaError, "levels"),
        ({"score": "mistakes"}, dp.errors.ArgumentError, "reads the name candidate"),
        ({"score": lambda row: 0.0}, dp.errors.ArgumentError, "must be a string"),
        ({"score": "candidate != z"}, dp.errors.DomainError, "'z'"),
        ({"eps": 0}, dp.errors.ArgumentError, "eps"),
        ({"monotone": 1}, dp.errors.ArgumentError, "monotone"),
        ({"adjacency": "swap"}, dp.errors.ArgumentError, "adjacency"),
        ({"data": frame().drop(columns="x")}, dp.errors.DataError, "'x'"),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(arguments, error, says, tmp_path):
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=9.0) as ledger:
        call = {"candidates": RULES, "score": SCORE, "data": frame(), "domain": DOMAIN, "eps": 1.0, **arguments}
        with pytest.raises(error, match=says):
            dp.select(call.pop("candidates"), call.pop("score"), call.pop("data"), ledger=ledger, **call)
        assert ledger.remaining.eps == 9.0


def test_models_must_be_of_one_response(fits):
    other = dp.ols("y ~ x", frame(), 1.0, domain=DOMAIN, inference=None)
    with pytest.raises(dp.errors.ArgumentError, match="one response"):
        losses_of([fits[0], other], "absolute_error", None)
    with pytest.raises(dp.errors.ArgumentError, match="two values"):
        losses_of([other, other], "mistakes", None)
    with pytest.raises(dp.errors.ArgumentError, match="left out"):
        losses_of(fits, "mistakes", DOMAIN)
    with pytest.raises(dp.errors.ArgumentError, match="one of"):
        losses_of(fits, "auc", None)


def test_the_ledger_pays_and_only_the_choice_is_kept(tmp_path, fits):
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=1.0) as ledger:
        found = dp.select({"small": fits[0], "large": fits[1]}, "mistakes", frame(), eps=0.4, ledger=ledger)
        assert ledger.remaining.eps == pytest.approx(0.6)
        with pytest.raises(dp.errors.BudgetExceeded):
            dp.select({"small": fits[0], "large": fits[1]}, "mistakes", frame(), eps=0.7, ledger=ledger)
    assert found.chosen == "large"
    found.save(tmp_path / "choice.json")
    loaded = dp.Selection.load(tmp_path / "choice.json")
    assert (loaded.chosen, loaded.names, loaded.choice, loaded.guarantee) == (
        found.chosen,
        found.names,
        found.choice,
        found.guarantee,
    )
    assert str(loaded) == str(found)


def test_bounds_hold_where_they_are_proved():
    """2,000 seeded choices on fresh samples of a class whose risks are known; each bound may fail in 10 %.

    A right bound fails the test with probability below 1e-9 (binomial, 10 % against 14 %).
    """
    risks, n, beta = np.array([0.0, 0.1, 0.2, 0.3]), 100, 0.1
    random = np.random.default_rng(3)
    found = dp.select([*RULES, "x > 9"], SCORE, frame(), domain=DOMAIN, eps=0.3)
    bounds = found.utility(beta, n).set_index("bound")
    assert set(bounds["holds"]) == {"proved", "printed"}
    for name, truth in (("new rows", risks + 0.3), ("new rows, if one never errs", risks)):
        mistakes = random.binomial(n, truth, (2000, 4))
        picks = [found.choice.choose(row * STEPS, random) for row in mistakes]
        assert np.mean(truth[picks] - truth[0] > bounds["per_row"][name]) < 0.14
    worse = mistakes[np.arange(2000), picks] - mistakes.min(axis=1)
    assert np.mean(worse > bounds["rows"]["these rows, permute-and-flip (used)"]) < 0.14


def test_a_seeded_choice_is_reproducible_and_not_certified():
    calls = [dp.select(RULES, SCORE, frame(), domain=DOMAIN, eps=0.01, seed=4).chosen for _ in range(2)]
    assert calls[0] == calls[1]
    found = dp.select(RULES, SCORE, frame(), domain=DOMAIN, eps=0.01, seed=4)
    assert not found.guarantee.certified
    assert "NOT CERTIFIED" in str(found)


def test_a_summary_of_a_choice_has_proved_bounds_alone():
    found = dp.select(RULES, SCORE, frame(), domain=DOMAIN, eps=1.0)
    assert "printed" in set(found.utility()["holds"])
    assert "printed" not in str(found)
    assert "permute-and-flip" in str(found)

"""Choices and tuned fits for persons with several rows: a person adds what one row may, however many there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import as_table
from dpstats.models.release import person_rows
from dpstats.privacy.guarantee import Unit
from dpstats.privacy.randomness import random_source
from dpstats.privacy.selection import STEPS
from dpstats.tuning import losses as module
from dpstats.tuning.losses import block_loss, rule_losses, shared_steps, steps, total_losses

DOMAIN = {"x": (0, 10), "b": [0, 1]}
RULES = ["x > 2", "x > 5", "x > 8"]
SCORE = "candidate != (b == 1)"
UNIT = Unit("who", shared=True)


def frame(rows: int = 3000, persons: int = 700, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.uniform(0, 10, rows)
    data = pd.DataFrame({"who": random.integers(0, persons, rows).astype(float), "x": x, "b": (x > 5).astype(int)})
    data.loc[random.random(rows) < 0.05, "x"] = np.nan
    data.loc[random.random(rows) < 0.05, "who"] = np.nan
    return data


def crowd(person: float, rows: int) -> pd.DataFrame:
    """Many rows of one person, each of which every rule but the last gets wrong."""
    return pd.DataFrame({"who": person, "x": 6.0, "b": 0}, index=range(rows))


def fitted() -> dp.GLMResults:
    return dp.logit("b ~ x", frame(), 5.0, domain=DOMAIN, inference=None)


def test_a_persons_loss_is_the_mean_of_the_rows() -> None:
    data = frame()
    known = data.dropna()
    found = total_losses(rule_losses(SCORE, RULES, dp.Domain(DOMAIN)), as_table(data), 0.0, "who")
    for place, cut in enumerate((2, 5, 8)):
        wrong = ((known["x"] > cut) != (known["b"] == 1)).groupby(known["who"]).mean()
        # Each row loses less than a step.
        assert 0 <= wrong.sum() * STEPS - found[place] <= len(known)


@pytest.mark.parametrize("rows", [1, 3, 700, 1500, 4001])
@pytest.mark.parametrize("low", [0.0, -1.0])
def test_one_person_adds_what_one_row_may(rows: int, low: float) -> None:
    """Whoever comes moves no sum by more than a row's steps, and all sums of losses in [0, 1] the same way."""
    data, losses = frame(), rule_losses(SCORE, RULES, dp.Domain(DOMAIN))
    more = pd.concat([data, crowd(10_000.0, rows)], ignore_index=True)
    change = total_losses(losses, as_table(more), low, "who") - total_losses(losses, as_table(data), low, "who")
    assert change.min() >= 0
    assert STEPS - rows <= change[0] <= STEPS
    signed = shared_steps(np.full((rows, 1), -0.9), np.full(rows, 1 / rows), -1.0)
    assert -STEPS <= signed[0] <= 0


@pytest.mark.parametrize("rows", [1500, 2000])
def test_losses_rounded_to_the_nearest_are_caught(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: each part is rounded as a row's loss is, and a person of many rows adds more than one row may."""

    def rounded(each: np.ndarray, weights: np.ndarray, low: float) -> np.ndarray:
        return steps(np.clip(each, low, 1) * weights[:, None], low)

    monkeypatch.setattr(module, "shared_steps", rounded)
    data, losses = crowd(1.0, rows), rule_losses(SCORE, RULES, dp.Domain(DOMAIN))
    assert total_losses(losses, as_table(data), 0.0, "who").max() > STEPS


def test_a_tuned_fits_score_is_bounded_alike() -> None:
    """The rows of `dp.tune`, with one more person of many rows and without."""
    fit, random = fitted(), random_source(1)
    design: Any = fit.plan.design

    def loss(data: pd.DataFrame) -> int:
        return block_loss(fit, "absolute_error", person_rows(design, as_table(data), UNIT, random))

    for rows in (1, 40, 1500):
        change = loss(pd.concat([frame(), crowd(10_000.0, rows)], ignore_index=True)) - loss(frame())
        assert 0 <= change <= STEPS


@pytest.mark.parametrize("strategy", ["stopping", "all"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_persons_are_tuned_for_and_charged(strategy: str, adjacency: str, tmp_path: Any) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=9.0, unit="who", adjacency=adjacency) as ledger:
        call: dict[str, Any] = {"family": "binomial", "domain": DOMAIN, "ledger": ledger, "adjacency": adjacency}
        grid = {"curvature": [8.0, 80.0]}
        found = dp.tune("b ~ x", frame(), grid, eps=2.0, strategy=strategy, unit="who", **call)
        assert found.guarantee == found.fit.guarantee
        assert found.guarantee == dp.Guarantee(2.0, 0.0, adjacency, basis="docs/proofs/tuning", unit="who")
        assert found.fit.nobs is None
        assert ledger.entries()["unit"].tolist() == ["who"]
        with pytest.raises(dp.errors.ArgumentError, match="pass unit='who'"):
            dp.tune("b ~ x", frame(), grid, eps=2.0, strategy=strategy, **call)
        assert ledger.remaining.eps == 7.0


def test_persons_are_chosen_for_and_charged(tmp_path: Any) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=9.0, unit="who") as ledger:
        call: dict[str, Any] = {"domain": DOMAIN, "eps": 2.0, "ledger": ledger}
        found = dp.select(RULES, SCORE, frame(), unit="who", **call)
        assert found.chosen == "x > 5"
        assert found.guarantee == dp.Guarantee(2.0, 0.0, "add_remove", basis="docs/proofs/choice", unit="who")
        assert "All rows of one who together add" in " ".join(str(found).split())
        with pytest.raises(dp.errors.ArgumentError, match="pass unit='who'"):
            dp.select(RULES, SCORE, frame(), **call)
        with pytest.raises(dp.errors.DataError, match="'nobody'"):
            dp.select(RULES, SCORE, frame(), unit="nobody", domain=DOMAIN, eps=1.0)
        assert ledger.remaining.eps == 7.0


def test_a_row_each_is_the_choice_among_rows() -> None:
    data = frame().dropna().assign(who=lambda rows: np.arange(len(rows)))
    losses = rule_losses("abs(x - 1) / 9 * candidate", [0.3, 0.9], dp.Domain(DOMAIN))
    alone, owned = (total_losses(losses, as_table(data), 0.0, person) for person in (None, "who"))
    assert np.abs(alone - owned).max() <= len(data)

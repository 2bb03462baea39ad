"""One model a level of a factor under one charge: what a row can change, what it costs, what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.call import make_request
from dpstats.data import Table, as_table
from dpstats.models import groups
from dpstats.models.sources import FormulaSource
from dpstats.privacy.randomness import random_source

DOMAIN = {"y": (0, 1), "x": (0.0, 1.0), "place": ["1", "north", "true north"]}
CELLS: list[Any] = [
    "1",
    1,
    1.0,
    "1.0",
    " 1 ",
    True,
    "north",
    " north",
    "North",
    "true north",
    None,
    float("nan"),
    "",
    2,
    b"north",
]
"""Cells that could be in two groups, in none, or in every one."""


def frame(cells: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"y": 1, "x": 0.5, "place": pd.Series(cells, dtype=object)})


def play(monkeypatch: pytest.MonkeyPatch, *tables: list[Any], shrink: bool = True) -> list[list[tuple[float, int]]]:
    """Of each table the eps of every release of a call, and how many rows the real code hands to it."""
    handed: list[tuple[float, int]] = []

    def count(source: object, plan: dp.Plan, random: object, data: Table) -> object:
        handed.append((plan.guarantee.eps, len(data.column("place"))))
        return dp.GLMResults(plan, np.zeros(2), None)

    monkeypatch.setattr(groups, "release_fit", count)
    plan = dp.plan("y ~ x", DOMAIN, 1.0, family="binomial", by="place", shrink=shrink)
    played = []
    for cells in tables:
        handed.clear()
        rows = as_table(frame(cells))
        groups._release(plan, FormulaSource("y ~ x", rows, DOMAIN), random_source(None), rows)
        played.append(list(handed))
    return played


def worst(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The loss of one row more, exactly, where each fit is a count with Laplace noise that attains its eps."""
    less, *more = play(monkeypatch, CELLS, *([*CELLS, cell] for cell in CELLS))
    return [sum(eps * abs(two - one) for (eps, one), (_, two) in zip(less, rows, strict=True)) for rows in more]


def test_one_row_costs_at_most_what_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = worst(monkeypatch)
    assert max(losses) == pytest.approx(1.0)
    assert max(losses) <= 1.0 + 1e-12
    assert min(losses) == 0.0  # a row of no declared level


def with_missing(by: str, code_of: Any, code: int, table: Table) -> Any:
    codes = table.column(by).codes(code_of)
    return (codes == code) | (codes < 0)


def by_text(by: str, code_of: Any, code: int, table: Table) -> Any:
    names = ["1", "north", "true north"]
    texts = [str(cell) for cell in table.column(by).cells]  # type: ignore[attr-defined]
    return np.array([names[code] in text for text in texts])


@pytest.mark.parametrize("planted", [with_missing, by_text])
def test_a_rule_that_puts_a_row_into_two_groups_is_caught(
    monkeypatch: pytest.MonkeyPatch, planted: Callable[..., Any]
) -> None:
    monkeypatch.setattr(groups, "has_code", planted)
    assert max(worst(monkeypatch)) > 1.0 + 1e-6


def test_a_budget_that_is_spent_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "split_budget", lambda eps, delta, weights: [(eps, delta)] * 2)
    assert max(worst(monkeypatch)) > 1.0 + 1e-6


def test_each_group_has_the_rows_of_its_level(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(monkeypatch, CELLS, shrink=False)[0] == [(1.0, 6), (1.0, 2), (1.0, 1)]


def test_groups_are_the_declared_levels_whatever_the_rows() -> None:
    for cells in (["north"] * 5, ["nowhere"] * 5, []):
        result = dp.glm("y ~ x", frame(cells), 1.0, domain=DOMAIN, by="place", seed=1)
        assert list(result) == DOMAIN["place"]
        assert result.params.index.tolist() == DOMAIN["place"]
        assert isinstance(result["north"], dp.GLMResults)
    assert dp.glm("y ~ x", frame([]), 1.0, domain=DOMAIN, by="place", seed=1, shrink=True).summary().as_text()


def test_one_entry_of_a_ledger_pays_for_all_groups(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=2.0, domain=DOMAIN) as ledger:
        result = dp.glm("y ~ x", frame(["north"] * 9), 0.5, by="place", shrink=True, ledger=ledger, label="by place")
        assert ledger.remaining.eps == 1.5
        assert ledger.entries()["label"].tolist() == ["by place"]
        assert result.guarantee.eps == 0.5
        assert result.guarantee.basis == "docs/proofs/groups"
    replaced = dp.Ledger(tmp_path / "replaced.db", dataset="d", eps=2.0, adjacency="replace_one")
    dp.glm("y ~ x", frame(["north"] * 9), 0.5, domain=DOMAIN, by="place", ledger=replaced)
    assert replaced.remaining.eps == 1.0  # a row that moves changes two groups


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"by": 3}, "name of a column"),
    ({"by": "x"}, "levels the Domain declares"),
    ({"by": "nowhere"}, "levels the Domain declares"),
    ({"by": "place", "formula": "y ~ x + place"}, "must not be in the formula"),
    ({"by": "place", "unit": "person"}, "several groups"),
    ({"by": "place", "adjacency": "replace_one"}, "changes two fits"),
    ({"by": "place", "n": 100}, "number of rows"),
    ({"by": "place", "shrink": "yes"}, "shrink"),
    ({"shrink": True}, "by='region'"),
    ({"by": "place", "shrink": True, "penalty": "ridge", "alpha": 1.0}, "penalty cannot"),
    ({"by": "place", "shrink": True, "inference": "robust"}, "robust"),
    ({"by": "place", "shrink": True, "domain": {"place": ["1", "north", "south"]}}, "declare"),
    ({"by": "place", "shrink": True, "domain": {**DOMAIN, "place": ["1", "north"]}}, "3 groups"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_what_is_refused_before_any_charge(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    ledger = dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=2.0)
    call = {"formula": "y ~ x", "data": frame(["north"]), "eps": 1.0, "domain": DOMAIN, "ledger": ledger, **arguments}
    with pytest.raises(dp.errors.DPStatsError, match=message):
        dp.glm(**call)
    assert ledger.remaining.eps == 2.0
    planned = {name: value for name, value in call.items() if name not in ("data", "ledger")}
    with pytest.raises(dp.errors.DPStatsError, match=message):
        dp.plan(**planned)


def test_a_frame_without_the_factor_is_refused() -> None:
    with pytest.raises(dp.errors.DPStatsError, match="place"):
        dp.glm("y ~ x", frame(["north"]).drop(columns="place"), 1.0, domain=DOMAIN, by="place")
    recomputed = as_table(frame(["north"]))
    recomputed.recomputed = True
    plan = groups.plan_groups(FormulaSource("y ~ x", None, DOMAIN), make_request(eps=1.0), "place", False)
    with pytest.raises(dp.errors.ArgumentError, match="Dask"):
        groups.fit_groups(plan, recomputed)


def test_plans_say_what_groups_cost() -> None:
    plan = dp.plan("y ~ x", DOMAIN, 1.0, family="binomial", by="place", shrink=True)
    assert plan.whole is not None
    assert (plan.plan.eps, plan.whole.eps, plan.guarantee.eps) == (0.85, 0.15, 1.0)
    text = plan.summary().as_text()
    assert "each of 3 groups" in text
    assert max(map(len, text.splitlines())) <= 80
    assert plan.digest() != dp.plan("y ~ x", DOMAIN, 1.0, by="place").digest()
    fitted = plan.fit(frame(["north"] * 9), seed=1)
    assert not fitted.guarantee.certified
    pairs = itertools.zip_longest(fitted.levels, DOMAIN["place"])
    assert all(one == other for one, other in pairs)


def test_groups_shrink_to_what_all_rows_released_and_to_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of groups are equal on different rows if the fit of all rows is; planted: one that looks at them."""
    rng = np.random.default_rng(0)
    domain = {"y": (-3, 3), "x": (-1, 1), "place": ["a", "b", "c"]}

    def rows(size: int, slope: float) -> pd.DataFrame:
        x = rng.uniform(-1, 1, size)
        return pd.DataFrame({"x": x, "y": slope * x + 0.1 * rng.normal(size=size), "place": rng.choice([*"abc"], size)})

    plan = dp.plan("y ~ x", domain, 1.0, by="place", shrink=True)
    whole = dp.ols("y ~ x", rows(3000, 2.0), 1.0, domain=domain, inference=True, response="declared", seed=1)
    stage, moved = plan.plan.stages[-1].plan, groups.recentred(plan.plan, whole).stages[-1].plan
    assert np.any(moved.linear != 0)
    assert (moved.noise, moved.cost, moved.delta) == (stage.noise, stage.cost, stage.delta)
    assert np.array_equal(moved.curvature, stage.curvature)
    assert np.linalg.norm(moved.linear / moved.curvature) <= stage.radius * (1 + 1e-9)
    real = groups.release_fit

    def released(source: Any, plan: Any, random: Any, data: Any) -> Any:
        return whole if plan.guarantee.eps < 0.5 else real(source, plan, random, data)

    def fitted(table: pd.DataFrame) -> list[dict[str, Any]]:
        return [fit.plan.to_dict() for fit in dp.ols("y ~ x", table, 1.0, domain=domain, by="place", shrink=True).fits]

    monkeypatch.setattr(groups, "release_fit", released)
    assert fitted(rows(300, 1.0)) == fitted(rows(500, -1.0))
    monkeypatch.setattr(groups, "release_fit", real)
    assert fitted(rows(300, 1.0)) != fitted(rows(500, -1.0))


def test_groups_of_released_sums_shrink_to_nothing() -> None:
    plan = dp.plan("y ~ x", {**DOMAIN, "y": (0, 2)}, 1.0, by="place", shrink=True, method="statistics")
    assert groups.recentred(plan.plan, dp.GLMResults(plan.plan, np.ones(2), None)) is plan.plan

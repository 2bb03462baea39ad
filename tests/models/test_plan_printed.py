"""What `print(plan)` shows: the essentials, and where the rest is."""

from __future__ import annotations

from typing import Any

import pytest

import dpstats as dp
from dpstats.errors import ArgumentError

WIDE = {f"x{j}": (0, 10) for j in range(20)}
SCREEN: dict[str, Any] = {"screen": 8, "split": "rows", "inference": True}


def planned(response: object, domain: dict[str, Any], eps: float = 1.0, **options: Any) -> dp.Plan:
    return dp.plan(f"y ~ {' + '.join(domain)}", {"y": response, **domain}, eps, **options)


@pytest.mark.parametrize(
    ("response", "domain", "options"),
    [
        ((-50, 50), {"x1": (0, 10), "x2": bool}, {}),
        (bool, {"x1": (0, 10), "x2": bool}, {"family": "binomial", "n": 20_000}),
        ((0, 20), {"x1": (0, 10)}, {"family": "poisson", "delta": 1e-6}),
        ((-50, 50), WIDE, SCREEN),
        (bool, WIDE, {**SCREEN, "family": "binomial"}),
    ],
)
def test_a_printed_plan_is_short_and_leads_to_the_whole_text(
    response: object, domain: dict[str, Any], options: dict[str, Any]
) -> None:
    lines = str(planned(response, domain, **options)).splitlines()
    assert len(lines) <= (36 if "screen" in options else 30)
    assert max(map(len, lines)) <= 80
    assert lines[-1].endswith("print(plan.summary())")
    assert any(line.startswith("Budget: eps 1") for line in lines)
    assert any("-differentially private for" in line for line in lines)


def test_a_printed_plan_warns_of_weak_guarantees_and_of_none() -> None:
    assert "hardly limits" in str(planned((0, 1), {"x": (0, 1)}, 30.0))
    assert "NOT CERTIFIED" in str(planned((0, 1), {"x": (0, 1)}, seed=1, allow_uncertified=True))


@pytest.mark.parametrize("options", [{}, {"family": "binomial"}])
def test_ranges_of_chosen_columns_are_in_the_notes_and_by_rows(options: dict[str, Any]) -> None:
    """Before the rows are counted the budget is that of few rows, as for other ranges."""
    plan = planned(bool if options else (-50, 50), WIDE, **SCREEN, **options)
    assert plan.by_rows([15_000, 17_000])["ranges"].tolist() == ["declared", "bought"]
    assert "about 16,000 to 84,351 rows" in " ".join(str(plan).split())
    declared = planned(bool if options else (-50, 50), WIDE, ranges="declared", **SCREEN, **options)
    assert declared.by_rows(17_000)["ranges"].tolist() == ["declared"]
    assert "chosen columns" not in str(declared.summary())


def test_by_rows_takes_numbers_of_rows() -> None:
    plan = planned((-5, 5), {"x": (0, 1)})
    assert plan.by_rows(4_000).index.tolist() == [4_000]
    assert plan.by_rows(n=[1_000, 5_000]).index.tolist() == [1_000, 5_000]
    for wrong in ([], "many", [1.5], [1_000, -3]):
        with pytest.raises(ArgumentError, match="n must be a whole number of rows"):
            plan.by_rows(wrong)  # type: ignore[arg-type]

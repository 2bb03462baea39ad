"""Families whose rows are pieces of records are refused by every call but the one that makes the pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpstats as dp
from dpstats.families.hazard import PiecewiseExponential
from dpstats.families.ordinal import CumulativeLogit

DOMAIN = {"x": (0, 1), "y": (0, 1)}
ROWS = {"x": np.linspace(0, 1, 50), "y": np.arange(50) % 2.0}


class Renamed(PiecewiseExponential):
    """One's own, which the bounds do not cover either."""

    name = "renamed"


FAMILIES: dict[str, tuple[Any, str]] = {
    "hazard": (PiecewiseExponential(), r"call dp\.hazard\("),
    "levels": (CumulativeLogit(), r"call dp\.ordinal\("),
    "name": ("hazard", r"call dp\.hazard\("),
    "name of levels": (" Ordinal", r"call dp\.ordinal\("),
    "class": (PiecewiseExponential, r"call dp\.hazard\("),
    "heir": (Renamed(), r"call dp\.hazard\("),
}

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "glm": lambda family, ledger: dp.glm("y ~ x", ROWS, 1.0, family=family, domain=DOMAIN, ledger=ledger),
    "groups": lambda family, ledger: dp.glm(
        "y ~ x", ROWS, 1.0, family=family, domain={**DOMAIN, "g": ["a", "b"]}, by="g", ledger=ledger
    ),
    "lasso": lambda family, ledger: dp.lasso("y ~ x", ROWS, 1.0, family=family, domain=DOMAIN, ledger=ledger),
    "GLM": lambda family, ledger: dp.GLM(ROWS["y"], ROWS["x"][:, None], family, row_norm=1.0).fit(1.0, ledger=ledger),
    "plan": lambda family, _: dp.plan("y ~ x", DOMAIN, 1.0, family=family),
    "compare": lambda family, _: dp.compare("y ~ x", DOMAIN, 1.0, family=family),
    "sample_size": lambda family, _: dp.sample_size(family, 2, eps=1.0, target=0.1, radius=1.0),
    "plan_many": lambda family, _: dp.plan_many({"a": {"formula": "y ~ x", "family": family}}, DOMAIN, 1.0),
    "check": lambda family, ledger: dp.check("y ~ x", ROWS, DOMAIN, 1.0, family=family, ledger=ledger),
    "tune": lambda family, ledger: dp.tune(
        "y ~ x", ROWS, {"curvature": [1, 10]}, eps=1.0, family=family, domain=DOMAIN, ledger=ledger
    ),
    "stream": lambda family, ledger: dp.streaming.Regression(
        "y ~ x", DOMAIN, 1.0, family=family, horizon=10, ledger=ledger
    ),
    "refits": lambda family, ledger: dp.streaming.Refits(
        "y ~ x", DOMAIN, 1.0, family=family, horizon=10, schedule=2, ledger=ledger
    ),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("family", FAMILIES)
def test_families_of_pieces_are_refused_before_any_charge(call: str, family: str, tmp_path: Any) -> None:
    """A row with an event alone has no piece of time at risk: its loss is outside the bounds of a person."""
    given, message = FAMILIES[family]
    ledger = dp.Ledger(tmp_path / "books.db", dataset="rows", eps=10.0)
    with pytest.raises(dp.errors.ArgumentError, match=message):
        CALLS[call](given, ledger)
    assert ledger.remaining[0] == 10.0
    assert not len(ledger.entries())


def test_their_own_calls_and_stored_plans_take_them() -> None:
    hazard = dp.plan_hazard("Surv(x, y) ~ 1", DOMAIN, 1.0)
    assert dp.Plan.from_dict(hazard.to_dict()).family == hazard.family
    levels = dp.plan_ordinal("c ~ x", {**DOMAIN, "c": ["a", "b", "c"]}, 1.0)
    assert dp.Plan.from_dict(levels.to_dict()).family == CumulativeLogit()

"""The table of a plan: proved bounds first, printed ones marked by what is known of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian
from dpstats.privacy.calibration import objective_noise
from dpstats.privacy.noise import Noise
from dpstats.risk import objective_risk

FACTS = ("eps", "delta", "kappa", "radius")


@dataclass(frozen=True)
class PublicPlan:
    """The public facts of a plan with one curvature and no column weights."""

    family: Family
    columns: int
    eps: float
    delta: float
    level: float
    adjacency: str = "add_remove"
    radius: float = 4.0
    kappa: float = 0.0
    row_norm: float = 1.0

    @property
    def curvature(self) -> np.ndarray:
        return np.full(self.columns, self.level)

    @property
    def linear(self) -> np.ndarray:
        return np.zeros(self.columns)

    @property
    def noise_shape(self) -> np.ndarray:
        return np.ones(self.columns)

    @property
    def noise(self) -> Noise:
        return objective_noise(
            self.family,
            eps=self.eps,
            delta=self.delta,
            row_norm=self.row_norm,
            curvature=self.level,
            adjacency=self.adjacency,  # type: ignore[arg-type]
            size=self.columns,
        )


def public_plan(**changes: object) -> PublicPlan:
    facts: dict[str, object] = {"family": Binomial(), "columns": 6, "eps": 0.8, "delta": 0.0, "level": 4.0} | changes
    plan = PublicPlan(**facts)  # type: ignore[arg-type]
    object.__setattr__(plan, "kappa", plan.row_norm**2 / plan.level)
    return plan


def test_columns_and_order() -> None:
    table = objective_risk(public_plan()).frame()
    assert list(table.columns) == ["bound", "source", "value", "per_row", "holds", "note"]
    assert list(table["holds"][:4]) == ["proved"] * 4
    assert set(table["holds"][4:]) <= {"implied", "not implied", "order only", "other mechanism"}
    assert table["per_row"].isna().all()


def test_unequal_curvature_shows_what_the_norm_alone_would_give() -> None:
    plan = public_plan()
    uneven = SimpleNamespace(
        **{name: getattr(plan, name) for name in (*FACTS, "noise", "noise_shape", "linear", "family")}
    )
    uneven.curvature = np.geomspace(4, 40, 6)
    proved = objective_risk(uneven).frame().query("holds == 'proved'")  # type: ignore[arg-type]
    assert len(proved) == 5
    sharp, crude = proved["value"][:2]
    assert sharp < crude == pytest.approx(plan.noise.norm_quantile(6, 0.95) ** 2 / 8)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("columns", [1, 6, 60])
@pytest.mark.parametrize("family", [Binomial(), Gaussian(residual_cap=0.5)], ids=["binomial", "gaussian"])
def test_the_papers_bounds_on_our_release_are_implied(delta: float, columns: int, family: Family) -> None:
    """Where noise is for adding or removing a row our scale is never above theirs, so their valid bounds follow."""
    table = objective_risk(public_plan(delta=delta, columns=columns, family=family)).frame()
    quoted = table[table["source"].str.contains(r"Kifer.*lemma|lemma 7")]
    assert len(quoted) == 3
    assert set(quoted["holds"]) == {"implied"}


def test_replacing_a_row_takes_more_noise_than_the_papers_bound_allows_for() -> None:
    """One column, pi = .5: NAPP's constant leaves a factor 2, twice the noise costs a factor of nearly 4."""
    table = objective_risk(public_plan(columns=1, level=1.0, adjacency="replace_one", eps=0.3), pi=0.5).frame()
    row = table[(table["source"].str.contains("theorem 8")) & table["bound"].str.startswith("regularised")]
    assert list(row["holds"]) == ["not implied"]


def test_per_row_is_the_value_over_n() -> None:
    table = objective_risk(public_plan(), n=2000).frame()
    assert np.allclose(table["per_row"], table["value"] / 2000)
    assert table["value"].notna().all()


def test_row_bound_enters_by_kappa() -> None:
    """Rows three times as long under nine times the curvature: the same problem in other units."""
    one = objective_risk(public_plan(), n=500).frame()
    three = objective_risk(public_plan(row_norm=3.0, level=36.0, radius=4.0 / 3), n=500).frame()
    printed_right = ~one["source"].str.contains("theorem 8")
    assert np.allclose(one["value"][printed_right], three["value"][printed_right], rtol=1e-3)


def test_rarer_failure_and_wider_comparison_cost_more() -> None:
    base = objective_risk(public_plan(), n=500).frame()
    rarer, wider = (
        objective_risk(public_plan(), pi=0.01, n=500).frame(),
        objective_risk(public_plan(), radius=8.0, n=500).frame(),
    )
    assert (rarer["value"] > base["value"])[base["bound"].str.contains("probability")].all()
    assert (wider["value"] > base["value"])[base["bound"].str.startswith("unregularised")].all()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"pi": 0.0}, "pi"),
        ({"pi": 1.0}, "pi"),
        ({"radius": 0.0}, "radius"),
        ({"radius": math.nan}, "radius"),
        ({"n": 0}, "n must"),
        ({"n": 2.5}, "n must"),
        ({"n": True}, "n must"),
    ],
)
def test_bad_arguments(changes: dict[str, object], name: str) -> None:
    with pytest.raises(ArgumentError, match=name):
        objective_risk(public_plan(), **changes).frame()  # type: ignore[arg-type]

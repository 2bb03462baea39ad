"""Whole transcripts of regressions against a reader who chooses every row from what was released, and bugs caught.

A transcript is the list of noisy ticks. Given one, the coefficients at every tick are fixed, and so is the fresh noise
that explains it under each of two neighbouring streams; the hockey-stick of that shift is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from covers import pairwise
from transcripts import delta_at, explained, moved_by_nodes, noisy_ticks, person_patterns

from dpstats.data import Block, MemoryRows
from dpstats.streaming import vectors
from dpstats.streaming.constraints import L2Ball
from dpstats.streaming.plan import StreamPlan
from dpstats.streaming.projected import ProjectedPlan, ProjectedVector, Projection
from dpstats.streaming.request import make_plan
from dpstats.streaming.sums import Honaker
from dpstats.streaming.sums.lattice import GaussianDraws

DELTA, TICKS, EPS = 1e-5, 8, 1.0

Linearise = Callable[[int, np.ndarray, list[Block]], np.ndarray]
"""From tick, transcript so far and the tick's rows to the coefficients that they are linearised at."""

WORKLOADS: list[dict[str, Any]] = [
    {"horizon": TICKS},
    {"horizon": TICKS, "sums": "toeplitz"},
    {"horizon": TICKS, "sums": "tree"},
    {"horizon": TICKS, "sums": "honaker"},
    {"halflife": 3.0},
    {"window": 3},
]
ADJACENCIES = ["add_remove", "replace_one"]
PERSONS: list[tuple[int, ...]] = [(0,), (0, 1), (0, 1, 4)]


@lru_cache
def plan_of(family: str, adjacency: str, participation: tuple[int, ...], **workload: Any) -> StreamPlan:
    domain = {"a": (-1, 1), "y": (-1, 1) if family == "gaussian" else [0, 1]}
    options = {"participation": participation, "adjacency": adjacency} | workload
    return make_plan("y ~ a", domain, EPS, DELTA, family=family, **options)


def released_params(plan: StreamPlan, seen: np.ndarray) -> np.ndarray:
    """The coefficients after the ticks of a transcript, shape (p,): 0 before the first."""
    return params_of(plan, tuple(map(tuple, seen)))


@lru_cache(maxsize=64)  # rows of either neighbour, and what is linearised, ask for the same
def params_of(plan: StreamPlan, seen: tuple[tuple[int, ...], ...]) -> np.ndarray:
    if len(seen) == 0:
        return np.zeros(len(plan.names))
    sums = plan.sums.mechanism.workload.apply(np.array(seen, dtype=float))[-1] * plan.sums.step
    return plan.fitting.params(sums, plan.deviation(len(seen)))


def as_it_should(plan: StreamPlan) -> Linearise:
    return lambda tick, seen, rows: released_params(plan, seen)


def everybody(plan: StreamPlan, tick: int, seen: np.ndarray) -> Block:
    """The rows of all others: chosen from the coefficients released so far."""
    params = released_params(plan, seen)
    random = np.random.default_rng([tick, int(params[0] > 0)])
    signs = random.choice([-1.0, 1.0], (30, 1))
    exog = np.column_stack([np.ones(30), signs]) / np.sqrt(2)
    return Block(exog, random.choice([0.0, 1.0], 30))


def worst_row(plan: StreamPlan, tick: int, seen: np.ndarray) -> list[Block]:
    """The person's row, and the one in its place (none is added): as far apart as rows are, at these coefficients."""
    params = released_params(plan, seen)
    side = 1.0 if params[1] >= 0 else -1.0
    exog = np.array([[1.0, side], [1.0, -side]]) / np.sqrt(2) * (1 - 1e-6)
    endog = np.array([0.0, 1.0]) if plan.method == "renewable" else np.array([1.0, -1.0 if tick % 2 else 1.0])
    rows = [Block(exog[:1], endog[:1]), Block(exog[1:], endog[1:])]
    return rows if plan.guarantee.adjacency == "replace_one" else rows[:1]


def worst_shift(plan: StreamPlan, linearise: Linearise, patterns: list[list[int]] | None = None) -> float:
    """How far the fresh noise moves between neighbours that explain one transcript, over persons, in lattice steps."""
    mechanism = plan.sums.mechanism
    path, size = mechanism.path(), plan.vector.size
    assert isinstance(plan.sums.draws, GaussianDraws)

    def total(tick: int, seen: np.ndarray, rows: list[Block]) -> np.ndarray:
        return plan.vector.steps(plan.vector.exact(MemoryRows(rows), linearise(tick, seen, rows)), plan.sums.step)

    worst = 0.0
    for pattern in person_patterns(mechanism.participation, TICKS) if patterns is None else patterns:

        def one(tick: int, seen: np.ndarray, pattern: list[int] = pattern) -> np.ndarray:
            person = worst_row(plan, tick, seen)[1:] if tick in pattern else []
            return total(tick, seen, [everybody(plan, tick, seen), *person])

        def other(tick: int, seen: np.ndarray, pattern: list[int] = pattern) -> np.ndarray:
            person = worst_row(plan, tick, seen)[:1] if tick in pattern else []
            return total(tick, seen, [everybody(plan, tick, seen), *person])

        fresh = [
            plan.sums.draws.draw(path.fresh(tick), size, np.random.default_rng(tick)) for tick in range(1, TICKS + 1)
        ]
        transcript = noisy_ticks(path, fresh, one, size)
        if isinstance(mechanism, Honaker):
            change = [other(tick, transcript[: tick - 1]) - one(tick, transcript[: tick - 1]) for tick in range(1, 9)]
            moved = moved_by_nodes(TICKS, fresh, np.array(change, dtype=object))
        else:
            moved = explained(path, transcript, other)
        shift = np.concatenate([a - b for a, b in zip(fresh, moved, strict=True)]).astype(np.float64)
        worst = max(worst, float(np.linalg.norm(shift)))
    return worst


def hockey_stick(plan: StreamPlan, shift: float) -> float:
    assert isinstance(plan.sums.draws, GaussianDraws)
    return delta_at(plan.sums.draws.scale, shift)


@pytest.mark.parametrize(
    ("workload", "person", "model"),
    pairwise(WORKLOADS, PERSONS, list(product(["gaussian", "binomial"], ADJACENCIES))),
    ids=str,
)
def test_transcripts_of_an_adaptive_reader(
    workload: dict[str, Any], person: tuple[int, ...], model: tuple[str, str]
) -> None:
    family, adjacency = model
    plan = plan_of(family, adjacency, person, **workload)
    stick = hockey_stick(plan, worst_shift(plan, as_it_should(plan)))
    assert 0 < stick <= DELTA


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_the_stated_delta_is_reached(family: str) -> None:
    """The worst row of the first tick uses nearly all of it: what is caught below is not caught by slack alone."""
    plan = plan_of(family, "add_remove", (0,), horizon=TICKS)
    assert hockey_stick(plan, worst_shift(plan, as_it_should(plan))) > 0.5 * DELTA


def test_coefficients_of_the_same_tick_are_caught() -> None:
    """Linearised at what its own rows, a person's among them, make of the coefficients, others' vectors move too."""
    plan = plan_of("binomial", "add_remove", (0,), horizon=TICKS)

    def same_tick(tick: int, seen: np.ndarray, rows: list[Block]) -> np.ndarray:
        own = plan.vector.steps(plan.vector.exact(MemoryRows(rows), released_params(plan, seen)), plan.sums.step)
        matrix = plan.vector.matrix(own.astype(float) * plan.sums.step)
        return np.linalg.solve(matrix[:-1, :-1] + np.eye(2), matrix[:-1, -1])

    assert hockey_stick(plan, worst_shift(plan, same_tick)) > 2 * DELTA


def test_a_hessian_weight_above_the_free_one_is_caught(monkeypatch: Any) -> None:
    """With r = 4 at the price of r = sqrt 12 a row at a linear predictor of 0 is 1.118 long."""
    right = plan_of("binomial", "add_remove", (0,), horizon=TICKS)
    heavy = replace(right.vector, inner=4.0)
    plan = StreamPlan(right.design, heavy, right.sums, right.radius, None, None, "accelerated", 1e3, right.guarantee)

    def uncut(vector: vectors.RowVector, eta: np.ndarray, endog: np.ndarray, _: Any) -> tuple[np.ndarray, ...]:
        found = vector.family.derivatives(eta, endog)
        return found.curvature, found.curvature * eta - found.gradient, np.zeros_like(eta)

    first = [[1]]
    assert hockey_stick(plan, worst_shift(plan, as_it_should(plan), first)) <= DELTA  # the cut alone keeps the bound
    monkeypatch.setattr(vectors, "linearise", uncut)
    assert hockey_stick(plan, worst_shift(plan, as_it_should(plan), first)) > DELTA


def test_the_root_of_two_forgotten_off_the_diagonal_is_caught() -> None:
    """Rows of cells +-1 have entries of one size: without the root their vectors seem shorter than their matrices."""
    right = plan_of("gaussian", "add_remove", (0,), horizon=TICKS)
    row = np.ones(2) / np.sqrt(2)
    unweighted = np.outer(row, row)[np.triu_indices(2)]
    vector = right.vector
    short = float(np.sqrt(unweighted @ unweighted + vector.cross**2 + vector.square**2))
    sums = right.sums.mechanism.plan(vector.size, eps=EPS, delta=DELTA, row_sensitivity=short, step=right.sums.step)
    plan = StreamPlan(right.design, vector, sums, right.radius, None, None, "accelerated", 1e3, right.guarantee)
    assert hockey_stick(plan, worst_shift(plan, as_it_should(plan))) > DELTA


def test_a_replaced_row_at_the_price_of_an_added_one_is_caught() -> None:
    for family in ("gaussian", "binomial"):
        added = plan_of(family, "add_remove", (0,), horizon=TICKS)
        replaced = plan_of(family, "replace_one", (0,), horizon=TICKS)
        plan = StreamPlan(
            replaced.design,
            replaced.vector,
            added.sums,
            replaced.radius,
            None,
            None,
            "accelerated",
            1e3,
            replaced.guarantee,
        )
        assert hockey_stick(plan, worst_shift(plan, as_it_should(plan))) > DELTA


def test_a_person_of_several_ticks_at_the_price_of_one_row_is_caught() -> None:
    for workload in ({"horizon": TICKS}, {"halflife": 3.0}, {"window": 3}):
        row = plan_of("binomial", "add_remove", (0,), **workload)
        shift = worst_shift(row, as_it_should(row), person_patterns((0, 1, 4), TICKS))
        assert hockey_stick(row, shift) > DELTA


def test_a_horizon_off_by_one_is_caught() -> None:
    """A ninth tick of a stream for eight: more than the planned loss, in the worst case of a row of the first."""
    short = plan_of("binomial", "add_remove", (0,), horizon=TICKS - 4)
    whole = plan_of("binomial", "add_remove", (0,), horizon=TICKS)
    assert short.sums.mechanism.sensitivity < whole.sums.mechanism.sensitivity
    mixed = replace(whole.sums, draws=short.sums.draws)
    plan = StreamPlan(whole.design, whole.vector, mixed, whole.radius, None, None, "accelerated", 1e3, whole.guarantee)
    assert hockey_stick(plan, worst_shift(plan, as_it_should(plan), [[1]])) > DELTA


# ------------------------------------------------------------------------------------------------- projected rows

NAMES = [f"x{place}" for place in range(6)]


@lru_cache
def sketched(adjacency: str, participation: tuple[int, ...], **workload: Any) -> StreamPlan:
    """Rows of six columns along two directions."""
    options = {"participation": participation, "adjacency": adjacency, "constraint": L2Ball(1.0), "directions": 2}
    domain = {**dict.fromkeys(NAMES, (-1, 1)), "y": (-1, 1)}
    formula = f"y ~ {' + '.join(NAMES)} - 1"
    return make_plan(formula, domain, EPS, DELTA, mechanism="projected", **options, **workload)


def with_image(plan: StreamPlan, image: list[float]) -> np.ndarray:
    """A row of length 1 whose projection points to `image`."""
    assert isinstance(plan, ProjectedPlan)
    assert isinstance(plan.vector, ProjectedVector)
    row = np.linalg.pinv(plan.vector.projection.matrix) @ np.array(image)
    return row / np.linalg.norm(row) * (1 - 1e-6)


def sketched_shift(plan: StreamPlan, patterns: list[list[int]]) -> float:
    """As `worst_shift`, of projected rows: the others' by the released coefficients, the person's the worst there is.

    Replaced rows have images at an angle of 60 degrees and responses 1 and -1: the root of 4.5 apart.
    """
    path, size = plan.sums.mechanism.path(), plan.vector.size
    assert isinstance(plan.sums.draws, GaussianDraws)
    rows = np.array([with_image(plan, [0.0, 1.0]), with_image(plan, [np.sqrt(0.75), 0.5])])

    def total(tick: int, seen: np.ndarray, person: list[Block]) -> np.ndarray:
        params = np.zeros(len(NAMES))
        if len(seen):
            sums = plan.sums.mechanism.workload.apply(seen.astype(float))[-1] * plan.sums.step
            params = plan.fitting.params(sums, plan.deviation(len(seen)))
        random = np.random.default_rng([tick, int(params[0] > 0)])
        others = Block(random.choice([-1.0, 1.0], (30, 6)) / np.sqrt(6), random.choice([-1.0, 1.0], 30))
        return plan.vector.steps(plan.vector.exact(MemoryRows([others, *person]), params), plan.sums.step)

    worst = 0.0
    for pattern in patterns:

        def one(tick: int, seen: np.ndarray, pattern: list[int] = pattern) -> np.ndarray:
            replaced = plan.guarantee.adjacency == "replace_one" and tick in pattern
            return total(tick, seen, [Block(rows[1:], np.array([-1.0]))] if replaced else [])

        def other(tick: int, seen: np.ndarray, pattern: list[int] = pattern) -> np.ndarray:
            return total(tick, seen, [Block(rows[:1], np.array([1.0]))] if tick in pattern else [])

        random = np.random.default_rng(0)
        fresh = [plan.sums.draws.draw(path.fresh(tick), size, random) for tick in range(1, TICKS + 1)]
        moved = explained(path, noisy_ticks(path, fresh, one, size), other)
        shift = np.concatenate([a - b for a, b in zip(fresh, moved, strict=True)]).astype(np.float64)
        worst = max(worst, float(np.linalg.norm(shift)))
    return worst


@pytest.mark.parametrize(
    ("workload", "person", "adjacency"),
    pairwise([w for w in WORKLOADS if w.get("sums") != "honaker"], PERSONS, ADJACENCIES),
    ids=str,
)
def test_transcripts_of_projected_rows(workload: dict[str, Any], person: tuple[int, ...], adjacency: str) -> None:
    plan = sketched(adjacency, person, **workload)
    assert 0 < hockey_stick(plan, sketched_shift(plan, person_patterns(person, TICKS))) <= DELTA


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_stated_delta_is_reached_by_projected_rows(adjacency: str) -> None:
    plan = sketched(adjacency, (0,), horizon=TICKS)
    assert 0.99 * DELTA < hockey_stick(plan, sketched_shift(plan, person_patterns((0,), TICKS))) <= DELTA


def test_projected_rows_replaced_at_the_price_of_added_ones_are_caught() -> None:
    added, replaced = (sketched(adjacency, (0,), horizon=TICKS) for adjacency in ("add_remove", "replace_one"))
    assert hockey_stick(added, sketched_shift(replace(replaced, sums=added.sums), [[1]])) > DELTA


def test_projected_rows_of_any_length_are_caught(monkeypatch: Any) -> None:
    """Planted: rows as long as the sketch makes them. The sums still cut them; without that they are too long."""
    plan = sketched("add_remove", (0,), horizon=TICKS)
    row = with_image(plan, [0.0, 1.0])
    monkeypatch.setattr(Projection, "_images", lambda self, rows: rows @ self.matrix.T)
    assert np.linalg.norm(plan.vector.projection.matrix @ row) > 1.1  # type: ignore[attr-defined]
    assert hockey_stick(plan, sketched_shift(plan, [[1]])) <= DELTA

    def uncut(vector: vectors.RowVector, exog: np.ndarray, weights: np.ndarray, bound: float) -> np.ndarray:
        return np.trunc(exog * np.sqrt(weights / bound)[:, None] * 2.0**20)

    monkeypatch.setattr(vectors, "_inner", uncut)
    assert hockey_stick(plan, sketched_shift(plan, [[1]])) > DELTA

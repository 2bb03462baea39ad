"""Whole transcripts, seen by a reader whose later rows depend on earlier releases, and bugs planted and caught.

What docs/proofs/streams bounds is computed here from the noise path itself: the fresh noise that explains a transcript
under each of two neighbouring data sets, and the exact hockey-stick.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import integrate
from transcripts import (
    delta_at,
    explained,
    moved_by_nodes,
    noisy_ticks,
    normal_delta,
    person_patterns,
    responses,
    transcript_mu,
)

from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.streaming.sums import Blt, Honaker, Mechanism, NoisePath, SumsPlan, Toeplitz, Tree
from dpstats.streaming.sums.lattice import GaussianDraws
from dpstats.streaming.sums.toeplitz import TapPath
from dpstats.streaming.sums.tree import TreePath

EPS, DELTA = 1.0, 1e-5
TICKS = 8

CUMULATIVE: list[Mechanism] = [Blt(horizon=TICKS), Toeplitz(horizon=TICKS), Tree(horizon=TICKS), Honaker(horizon=TICKS)]
ENDLESS: list[Mechanism] = [Blt(halflife=3), Blt(window=3), Toeplitz(halflife=2), Toeplitz(window=3), Blt()]
PERSONS: list[Mechanism] = [
    kind(participation=(0, 1, 4), **workload)
    for kind in (Blt, Toeplitz)
    for workload in ({"horizon": TICKS}, {"halflife": 3}, {"window": 2})  # type: ignore[list-item]
] + [Tree(horizon=TICKS, participation=(0, 1, 4)), Honaker(horizon=TICKS, participation=(0, 1, 4))]
ALL = CUMULATIVE + ENDLESS + PERSONS


def everyone_else(tick: int, seen: np.ndarray) -> np.ndarray:
    """The other rows of a tick, chosen by whoever has read the releases so far, shape (tick - 1, size)."""
    return np.where(seen.sum(axis=0) > 0, 2**40, -3 * 2**39) * (1 + tick)


def contribution(tick: int, seen: np.ndarray, plan: SumsPlan) -> np.ndarray:
    """One person's row in lattice steps: as long as allowed, its direction chosen by the reader."""
    size = plan.size
    direction = np.where(seen.sum(axis=0) >= 0, 1.0, -1.0) if tick % 2 else np.eye(size)[tick % size]
    row = direction[None] / np.linalg.norm(direction) * plan.row_sensitivity
    if plan.guarantee.adjacency == "add_remove":
        return plan.total(row)
    return plan.total(row / 2) - plan.total(-row / 2)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("mechanism", ALL, ids=repr)
def test_transcripts_of_an_adaptive_reader(mechanism: Mechanism, size: int, adjacency: Any) -> None:
    """Whatever the reader does, the fresh noise that explains a transcript moves no further than the plan provides for.

    The hockey-stick of a shift of constant length is exact; the stated delta is reached to 1e-3 by the worst person.
    """
    plan = mechanism.plan(size, eps=EPS, delta=DELTA, row_sensitivity=1.5, adjacency=adjacency)
    assert isinstance(plan.draws, GaussianDraws)
    path, worst = mechanism.path(), 0.0
    for pattern in person_patterns(mechanism.participation, TICKS):
        fresh = [plan.draws.draw(path.fresh(tick), size, np.random.default_rng(tick)) for tick in range(1, TICKS + 1)]

        def others(tick: int, seen: np.ndarray) -> np.ndarray:
            return everyone_else(tick, seen)

        def with_person(tick: int, seen: np.ndarray, pattern: Sequence[int] = pattern) -> np.ndarray:
            return everyone_else(tick, seen) + (contribution(tick, seen, plan) if tick in pattern else 0)

        transcript = noisy_ticks(path, fresh, others, size)
        if isinstance(mechanism, Honaker):
            change = np.full((TICKS, size), 0, dtype=object)
            for tick in pattern:
                change[tick - 1] = contribution(tick, transcript[: tick - 1], plan)
            other = moved_by_nodes(TICKS, fresh, change)
            assert (noisy_ticks(path, other, with_person, size) == transcript).all()
        else:
            other = explained(path, transcript, with_person)
        shift = np.concatenate([one - two for one, two in zip(fresh, other, strict=True)]).astype(np.float64)
        worst = max(worst, float(np.linalg.norm(shift)))
    assert delta_at(plan.draws.scale, worst) <= DELTA
    if len(mechanism.participation) == 1 and mechanism.horizon == TICKS:
        assert delta_at(plan.draws.scale, worst) == pytest.approx(DELTA, rel=1e-3)


@pytest.mark.parametrize(
    "mechanism", [Toeplitz(horizon=2, participation=(0, 1)), Tree(horizon=2, participation=(0, 1))]
)
def test_a_second_row_whose_sign_the_first_release_decides(mechanism: Mechanism) -> None:
    """The exact hockey-stick of a person whose second row follows the first release, by quadrature over the latter."""
    plan = mechanism.plan(1, eps=EPS, delta=DELTA)
    assert isinstance(plan.draws, GaussianDraws)
    scale = plan.draws.scale * plan.step
    response = np.array([[float(value) for value in row] for row in np.linalg.inv(responses(mechanism.path(), 2))])
    first, both = response[:, 0] / scale, {sign: (response[:, 0] + sign * response[:, 1]) / scale for sign in (-1, 1)}
    for eps in (0.1, EPS, 3.0):
        for direction in (1, -1):

            def integrand(z: float, eps: float = eps, direction: int = direction) -> float:
                sign = 1 if z > 0 else -1
                loss = first[0] * z + first[0] ** 2 / 2
                rest = abs(both[sign * direction][1])
                return math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * float(normal_delta(rest, eps - loss))

            stick = sum(integrate.quad(integrand, *ends, epsabs=1e-12)[0] for ends in ((-12, 0), (0, 12)))
            worst = np.linalg.norm(both[1])
            assert stick <= float(normal_delta(worst, eps)) * (1 + 1e-6)
            if eps == EPS:
                assert 0 < stick <= DELTA


@pytest.mark.parametrize("path", [TapPath((2**32, 2**31)), TapPath((2**32, 2**32 // 3)), TreePath(2, 2)])
@pytest.mark.parametrize("reach", [7, 20])
def test_discrete_noise_by_enumeration(path: NoisePath, reach: int) -> None:
    """Every transcript of two ticks with discrete noise, on a lattice so coarse that rounding shows, both directions.

    The bound is the theorem's: normal noise at the stated shift, with the rounding of past noise, and what discreteness
    adds. It is met within the rounding: the hockey-stick exceeds that of a shift which is shorter by as much.
    """
    scale, span = 30.0, np.arange(-300, 301)
    mass = np.exp(-(span**2) / (2 * scale**2))
    mass /= mass.sum()
    taps = path.taps[1] / 2**32 if isinstance(path, TapPath) else 1.0
    column, slack = math.hypot(1.0, taps), math.sqrt(2) if isinstance(path, TapPath) else 0.0
    table = {first: _two_ticks(path, first, span, mass) for first in (0, reach)}
    for eps in (0.05, 0.3, 1.0):
        mu = (column * reach + slack) / scale
        loss = mu * (8 * math.sqrt(2) + mu) / (4 * scale**2)
        bound = math.exp(2 / (24 * scale**2)) * float(normal_delta(mu, eps - loss)) + 1e-13
        least = float(normal_delta((column * reach - slack) / scale, eps + loss)) * 0.999
        for p, q in ((table[0], table[reach]), (table[reach], table[0])):
            stick = float(np.maximum(p - math.exp(eps) * q, 0).sum())
            assert least <= stick <= bound


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [Blt(horizon=TICKS), Blt(horizon=TICKS, buffers=3)], ids=repr)
def test_rounding_of_past_noise_is_paid_for(mechanism: Mechanism) -> None:
    """On a coarse lattice fresh noise moves further than columns of C say, and never further than the plan provides."""
    size = 2**12
    plan = mechanism.plan(size, eps=EPS, delta=DELTA, step=2.0**-18)
    assert isinstance(plan.draws, GaussianDraws)
    assert plan.guarantee.rho is not None
    row, path, moved = np.full(size, 2**12, dtype=object), mechanism.path(), []  # of length 2^18 steps, exactly Delta
    for seed in range(8):
        random = np.random.default_rng(seed)
        fresh = [plan.draws.draw(1, size, random) for _ in range(TICKS)]
        transcript = noisy_ticks(path, fresh, lambda tick, seen: 0 * row, size)
        other = explained(path, transcript, lambda tick, seen: row * int(tick == 1))
        moved.append(np.linalg.norm(np.concatenate(fresh).astype(float) - np.concatenate(other).astype(float)))
    columns = np.linalg.norm(row.astype(float)) * transcript_mu(path, TICKS, [[1]])
    assert max(moved) > columns * (1 + 1e-7)
    assert max(moved) <= plan.draws.scale * math.sqrt(2 * plan.guarantee.rho)


def _two_ticks(path: NoisePath, first: int, span: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Probabilities of (first release, second release), the second tick's rows chosen from the first release."""
    found, middle = np.zeros((1001, 2001)), 500
    for draw, probability in zip(span.tolist(), mass.tolist(), strict=True):
        noise, memory = path.step(1, np.full((1, 1), draw, dtype=object), path.memory(1))
        seen = first + int(noise[0])
        base, _ = path.step(2, np.full((1, 1), 0, dtype=object), memory)
        chosen = (7 if seen % 3 else -4) + int(base[0]) + 2 * middle
        found[seen + middle, chosen + span[0] : chosen + span[-1] + 1] += probability * mass
    return found


# ------------------------------------------------------------------------------------------------- bugs, planted


def refuted(path: NoisePath, ticks: int, scale: float, offsets: Sequence[int] = (0,)) -> bool:
    """Whether the exact hockey-stick of `ticks` ticks, draws of this scale and rows of size 1 exceeds the claim."""
    mu = transcript_mu(path, ticks, person_patterns(offsets, ticks))
    return delta_at(scale, mu) > DELTA * (1 + 1e-6)


def scale_of(mechanism: Mechanism) -> float:
    plan = mechanism.plan(1, eps=EPS, delta=DELTA)
    assert isinstance(plan.draws, GaussianDraws)
    return plan.draws.scale * plan.step


@pytest.mark.parametrize("kind", [Blt, Toeplitz, Tree, Honaker])
def test_the_auditor_passes_what_is_right(kind: Callable[..., Mechanism]) -> None:
    for ticks in (1, 2, 5, 8):
        mechanism = kind(horizon=ticks)
        assert not refuted(mechanism.path(), ticks, scale_of(mechanism))


@pytest.mark.parametrize("kind", [Blt, Toeplitz])
@pytest.mark.parametrize("horizon", [2, 4, 7])
def test_a_horizon_off_by_one_is_caught(kind: Callable[..., Mechanism], horizon: int) -> None:
    assert refuted(kind(horizon=horizon + 1).path(), horizon + 1, scale_of(kind(horizon=horizon)))


def test_a_tree_s_horizon_off_by_one_is_caught() -> None:
    assert refuted(TreePath(8, 2), 8, scale_of(Tree(horizon=7)))


class Renoised(TreePath):
    """A tree that draws a node's noise again whenever a prefix uses the node."""

    def fresh(self, tick: int) -> int:
        return bin(tick).count("1") + bin(tick - 1).count("1")

    def step(self, tick: int, fresh: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        now = fresh[: bin(tick).count("1")].sum(axis=0)
        later = memory.copy()
        later[0] = now
        return now - memory[0], later


def test_a_node_noised_again_is_caught() -> None:
    for ticks in (4, 8):
        assert refuted(Renoised(ticks, 2), ticks, scale_of(Tree(horizon=ticks)))


def test_the_first_row_for_the_column_is_caught() -> None:
    """C is lower triangular: its first row is (1, 0, ...), of norm 1."""
    for mechanism in (Blt(horizon=TICKS), Toeplitz(horizon=TICKS), Blt(halflife=3), Blt(window=3)):
        row = scale_of(mechanism) / mechanism.sensitivity
        assert refuted(mechanism.path(), TICKS, row * 1.0)


def test_a_person_taken_for_a_row_is_caught() -> None:
    for kind in (Blt, Toeplitz, Tree, Honaker):
        mechanism = kind(horizon=TICKS)
        assert refuted(mechanism.path(), TICKS, scale_of(mechanism), offsets=(0, 1, 4))


def test_signs_of_a_person_matter() -> None:
    """Rows of opposite signs where columns of C have a negative product: the stated sensitivity adds sizes."""
    path = TapPath((2**32, -(2**31)))
    together = transcript_mu(path, 2, [[1, 2]])
    assert together == pytest.approx(math.sqrt(1 + 1.5**2))
    assert together > math.sqrt(1 + 0.5**2) * 1.2


def test_the_printed_tree_is_caught_at_two_ticks() -> None:
    """At eps 1 the printed node variance is too small for two ticks, and far too large for a thousand."""
    ratios = {}
    for ticks in (2, 4, 8, 1024):
        tree = Tree(horizon=ticks, calibration="printed")
        with pytest.raises(UncertifiedError):
            tree.plan(1, eps=EPS, delta=DELTA)
        plan = tree.plan(1, eps=EPS, delta=DELTA, allow_uncertified=True)
        assert not plan.guarantee.certified
        assert plan.guarantee.rho is None
        assert isinstance(plan.draws, GaussianDraws)
        scale = plan.draws.scale * plan.step
        ratios[ticks] = scale / scale_of(Tree(horizon=ticks))
        if ticks <= 8:
            assert refuted(tree.path(), ticks, scale) == (ticks == 2)
    assert ratios[1024] == pytest.approx(4.0, abs=0.01)
    with pytest.raises(ArgumentError, match="horizon"):
        Tree(horizon=1, calibration="printed").plan(1, eps=EPS, delta=DELTA, allow_uncertified=True)


def test_the_printed_tree_at_a_large_budget() -> None:
    """At eps 60 it is too small up to eight ticks, and large enough at a thousand (privacy calculus, section 8)."""
    for ticks, short in ((2, True), (8, True), (16, False), (1024, False)):
        printed = Tree(horizon=ticks, calibration="printed").plan(1, eps=60.0, delta=DELTA, allow_uncertified=True)
        exact = Tree(horizon=ticks).plan(1, eps=60.0, delta=DELTA)
        assert isinstance(printed.draws, GaussianDraws)
        assert isinstance(exact.draws, GaussianDraws)
        assert (printed.draws.scale < exact.draws.scale) == short

"""Losses of whole transcripts with pure noise on trees, counted node by node."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from dpstats.errors import ArgumentError
from dpstats.privacy.randomness import LARGEST_SCALE, SystemRandom, check_scale
from dpstats.streaming.sums import Blt, KNormTree
from dpstats.streaming.sums.tree import TreeShape, levels_below, worst_memberships

EPS = 1.0
TICKS = 8


def node_counts(start: int, offsets: Sequence[int], tree: TreeShape) -> list[int]:
    """For each node with a noise, how many of the ticks start + offsets it sums, if any: counted one by one."""
    counts: list[int] = []
    inside = [start + offset for offset in offsets if 1 <= start + offset <= tree.horizon]
    for level in range(levels_below(tree.horizon, tree.arity)):
        for node in range(1, tree.horizon // tree.arity**level + 1):
            if tree.every or node % tree.arity:
                last = node * tree.arity**level
                counts.append(sum(last - tree.arity**level < tick <= last for tick in inside))
    return [count for count in counts if count]


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [1, 7, 40, 81])
def test_counts_of_nodes(horizon: int) -> None:
    """The worst start of a person, among all there are, for sums of counts and of their squares."""
    for offsets in ((0,), (0, 1), (0, 2, 3), (0, 5, 6), (0, 1, 2, 3, 12, 13, 14, 15), (0, 30)):
        for tree in (TreeShape(horizon, arity, every) for arity in (2, 3, 5) for every in (True, False)):
            for power in (1, 2):
                found = worst_memberships(offsets, tree, power)
                each = [node_counts(start, offsets, tree) for start in range(1 - offsets[-1], horizon + 1)]
                assert found == max(sum(count**power for count in counts) for counts in each)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("offsets", [(0,), (0, 1, 5)])
@pytest.mark.parametrize("arity", [2, 3, None])
def test_pure_losses_of_transcripts(arity: int | None, offsets: tuple[int, ...], size: int) -> None:
    """The greatest log-ratio over noisy nodes far from their sums is eps, for every norm and person; one level less
    in the charge is caught."""
    tree = KNormTree(horizon=TICKS, arity=arity, participation=offsets)
    for norm, order in (("l1", 1), ("l2", 2), ("linf", np.inf)):
        plan = tree.plan(size, eps=EPS, row_sensitivity={norm: 1.0})
        rng, worst = np.random.default_rng(0), 0.0
        for start in range(1 - max(offsets), TICKS + 1):
            counts = node_counts(start, offsets, TreeShape(TICKS, tree.arity, every=False))
            # Every row of the person moves the node's sum by the same vector v, and the noise lies behind it.
            for direction in [*np.eye(size), *rng.normal(size=(20, size))]:
                v = direction / np.linalg.norm(direction, ord=order)
                far = -50.0 * v
                loss = sum(np.linalg.norm(far - c * v, ord=order) - np.linalg.norm(far, ord=order) for c in counts)
                worst = max(worst, loss * (1.0 / tree.sensitivity))
        assert worst == pytest.approx(EPS, rel=1e-9)
        nodes = round(tree.sensitivity)
        if nodes > 1:
            assert worst * nodes / (nodes - 1) > EPS * 1.05
        law = plan.draws.to_dict()
        if norm == "l1" or size == 1:
            assert law["reach"] / law["eps"] * plan.step == pytest.approx(nodes / EPS, rel=1e-9)
        else:
            spent = nodes / (law["law"]["scale"] * plan.step) + law["cover_eps"]
            assert spent == pytest.approx(EPS, rel=1e-9)
            assert spent <= EPS


def test_cover_of_rounded_draws() -> None:
    """Given the ideal noisy sum, rounded points of neighbours are within the stated l1 distance."""
    plan = KNormTree(horizon=TICKS, arity=2).plan(3, eps=EPS, row_sensitivity={"l2": 1.0})
    law, nodes = plan.draws.to_dict(), round(plan.mechanism.sensitivity)
    assert nodes == 4
    ideal = np.random.default_rng(0).uniform(-50, 50, (100_000, 3))
    # S + rint(ideal - S) for whole sums S is the same point whatever S is: only ties and the draws' error move it.
    first, second = np.rint(ideal - 1e-3), np.rint(ideal + 1e-3)
    assert np.abs(first - second).sum(axis=1).max() <= 3
    assert law["cover_reach"] >= nodes * 3
    rms = math.sqrt(12) * law["law"]["scale"]
    assert law["cover_reach"] >= nodes * (3 + 2e-8 * rms * math.sqrt(3)) - nodes


@pytest.mark.parametrize("eps", [1e-12, 1e-15, 1e-25, 1e-300])
def test_noise_that_would_leave_the_integers_is_refused(eps: float) -> None:
    """Draws held at the end of 64 bits are known, so that a tick's sum could be read off its release."""
    with pytest.raises(ArgumentError, match="eps is too small"):
        KNormTree(horizon=TICKS).plan(2, eps=eps)
    with pytest.raises(ArgumentError, match="eps is too small"):
        KNormTree(horizon=TICKS).plan(1, eps=min(eps, 1e-18))
    with pytest.raises(ArgumentError, match=r"eps is too small|step must be finer"):
        Blt(horizon=TICKS).plan(2, eps=min(eps, 1e-16), delta=1e-100)


@pytest.mark.parametrize("size", [1, 2])
def test_small_budgets_that_are_taken_have_noise_far_from_the_end(size: int) -> None:
    """Of 800 draws of the smallest budget taken, none is within a factor of 2 of the end of 64 bits."""
    for eps in 10.0 ** -np.arange(4, 12):
        try:
            draws = KNormTree(horizon=TICKS).plan(size, eps=eps).draws
        except ArgumentError:
            break
        largest = np.abs(draws.draw(400, size, SystemRandom())).max()
        assert largest < 2**62
    else:
        assert size == 1


def test_no_draw_of_the_largest_scale_reaches_the_end() -> None:
    """A scale twice as large would be reached with more than the probability that the proof states."""
    assert -(2.0**63) / LARGEST_SCALE < 184 * -math.log(2) < -(2.0**62) / LARGEST_SCALE
    check_scale(LARGEST_SCALE)
    for scale in (1.001 * LARGEST_SCALE, math.inf, math.nan):
        with pytest.raises(ArgumentError, match="eps is too small"):
            check_scale(scale)

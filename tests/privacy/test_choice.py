"""The choice of the least loss: its exact law on neighbouring data, planted bugs, and its bound."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from scipy import stats
from selection_law import probabilities

from dpstats.audit import audit
from dpstats.errors import ArgumentError
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.randomness import SystemRandom
from dpstats.privacy.selection import STEPS, PermuteAndFlip

ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")
CASES = [(adjacency, monotone) for adjacency in ADJACENCIES for monotone in (True, False)]


def law(losses, scale):
    """The exact probabilities of the candidates, losses in rows."""
    return probabilities(-np.asarray(losses), scale)


def moves(adjacency, monotone, size):
    """What neighbouring data may add to the losses, the corners."""
    one = (0, 1) if monotone else (-1, 0, 1)
    rows = list(itertools.product(one, repeat=size))
    if adjacency == "add_remove":
        return [sign * np.array(row) for row in rows for sign in (1, -1)]
    return [np.subtract(new, old) for new in rows for old in rows]


def worst_loss(adjacency, monotone, scale, size=3):
    """The largest log-ratio of exact laws over gaps of 0 to 40 rows and every move by one row."""
    bases = [np.array((0, *gaps)) for gaps in itertools.product((0, 1, 7, 40), repeat=size - 1)]
    shifts = {tuple(move) for move in moves(adjacency, monotone, size)}
    ratios = [law(base + np.array(move), scale) / law(base, scale) for base in bases for move in sorted(shifts)]
    return float(np.log(ratios).max())


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "monotone"), CASES)
@pytest.mark.parametrize("eps", [0.2, 1.0, 3.0])
def test_the_exact_law_keeps_eps_and_gives_little_away(adjacency, monotone, eps):
    found = worst_loss(adjacency, monotone, PermuteAndFlip(3, eps, adjacency, monotone).scale)
    assert 0.9 * eps < found <= eps * (1 + 1e-9)


@pytest.mark.slow
def test_noise_of_monotone_scores_under_replaced_rows_is_caught():
    """Planted: exp(-eps u) where a replaced row moves scores both ways."""
    assert worst_loss("replace_one", True, PermuteAndFlip(3, 1.0, "add_remove").scale) > 1.8


def test_noise_of_monotone_scores_for_signed_ones_is_caught():
    """Planted: a row that helps one candidate and harms another is taken for a mistake."""
    assert worst_loss("add_remove", False, PermuteAndFlip(3, 1.0, "add_remove").scale) > 1.8


@pytest.mark.parametrize(("adjacency", "monotone"), CASES)
@pytest.mark.parametrize("eps", [1e-6, 0.1, 1.0, 50.0])
def test_opendp_certifies_what_is_charged(adjacency, monotone, eps):
    choice = PermuteAndFlip(4, eps, adjacency, monotone)
    assert 0.999 * eps <= choice.measurement().map(choice.sensitivity * STEPS) <= eps


def test_reference_values():
    """Mistakes (3, 5, 9) at c = .5, the reference's figures."""
    assert law([3, 5, 9], 2.0) == pytest.approx(
        [0.7972719581932582, 0.18088711410426547, 0.021840927702476278], abs=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("source", ["opendp", "seeded"])
def test_draws_follow_the_exact_law(source):
    """Chi-square at level 1e-6 for each; OpenDP's draws cannot be seeded."""
    choice, losses, runs = PermuteAndFlip(4, 0.8, "add_remove"), np.array([0, 1, 2, 2]), 4000
    random = SystemRandom() if source == "opendp" else np.random.default_rng(5)
    picks = [choice.choose(losses * STEPS, random) for _ in range(runs)]
    expected = runs * law(losses, choice.scale)
    assert stats.chisquare(np.bincount(picks, minlength=4), expected).pvalue > 1e-6


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("gap", [0, 1, 3, 10])
def test_failure_is_the_exact_law_where_all_others_lose_the_gap(size, gap):
    choice = PermuteAndFlip(size, 0.7, "replace_one")
    worst = law([0, *([gap] * (size - 1))], choice.scale)
    assert choice.failure(gap) == pytest.approx(1 - worst[0], abs=1e-9)


def test_no_other_losses_fail_more_often():
    choice, random = PermuteAndFlip(5, 0.5, "add_remove"), np.random.default_rng(2)
    for _ in range(300):
        losses = np.concatenate([[0], random.integers(0, 25, 4)])
        gap = int(random.integers(0, 12))
        assert law(losses, choice.scale)[losses > gap].sum() <= choice.failure(gap) + 1e-9


@pytest.mark.parametrize("beta", [1e-9, 0.01, 0.05, 0.4])
@pytest.mark.parametrize("size", [2, 10, 1000])
def test_bound_inverts_failure(beta, size):
    choice = PermuteAndFlip(size, 0.3, "add_remove")
    assert choice.failure(choice.bound(beta)) == pytest.approx(beta, rel=1e-3)
    assert choice.bound(beta) <= choice.scale * math.log((size - 1) / (2 * beta)) * (1 + 1e-9)


def test_a_bound_that_never_fails_is_zero_and_beta_is_checked():
    assert PermuteAndFlip(2, 1.0, "add_remove").bound(0.5) == 0
    with pytest.raises(ArgumentError, match="beta"):
        PermuteAndFlip(2, 1.0, "add_remove").bound(0)


def chosen(losses, rng, noise="add_remove"):
    """The mechanism from rows of mistakes, with the law that the tests above compare with OpenDP's draws."""
    total = np.asarray(losses).sum(axis=0).astype(np.int64)
    return float(PermuteAndFlip(3, 1.0, noise).choose(total * STEPS, rng))


@pytest.mark.slow
def test_the_auditor_passes_the_choice_and_catches_the_planted_noise():
    """A sound choice fails with probability below 0.001."""
    data, other = [[0, 1, 1], [0, 1, 1]], [[0, 1, 1], [1, 0, 0]]
    assert audit(partial(chosen, noise="replace_one"), data, other, eps=1.0, runs=20_000, seed=1).passed
    assert not audit(chosen, data, other, eps=1.0, runs=20_000, seed=1).passed

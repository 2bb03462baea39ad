"""The best of a random number of runs: its exact price against brute force, its law, planted bugs."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import special, stats

from dpstats.audit import audit
from dpstats.errors import ArgumentError
from dpstats.privacy.randomness import SystemRandom
from dpstats.privacy.selection import ETAS, RandomStopping, expected_runs

LAWS = [RandomStopping(eta, mean) for eta in ETAS for mean in (1.5, 5, 10, 40)]


def law_of(runs, most=200_000):
    """P(K = k), k = 1, 2, ..., from the definition; what lies beyond `most` is below 1e-12."""
    k = np.arange(1, most)
    logs = k * math.log1p(-runs.gamma) + special.gammaln(k + runs.eta) - special.gammaln(k + 1)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


@pytest.mark.parametrize("runs", LAWS, ids=str)
def test_gamma_gives_the_mean_and_the_generating_function_is_that_of_the_law(runs):
    law = law_of(runs)
    k = np.arange(1, len(law) + 1)
    assert law @ k == pytest.approx(runs.mean, rel=1e-6)
    for at in (0.0, 0.3, 0.9, 1.0):
        assert runs.generating(at) == pytest.approx(float(law @ at**k), abs=1e-9)
    assert runs.coverage(5) == pytest.approx(1 - float(law @ 0.8**k), abs=1e-9)


@pytest.mark.parametrize(
    ("eta", "mean", "gamma", "total", "each"),
    [
        (-0.5, 5, 0.012345679012345677, 1.4857616095691935, 0.672539414723253),
        (-0.5, 10, 0.0027700831024930744, 1.4967584395547995, 0.6679895552917903),
        (0.0, 5, 0.06992031388355288, 1.8513906480811795, 0.5364270907377608),
        (0.0, 10, 0.026918259600680214, 1.9392357593486376, 0.5140265187683536),
        (1.0, 5, 0.2, 2.273682324866308, 0.43067156177732696),
        (1.0, 10, 0.1, 2.591344078319091, 0.3802504728051709),
    ],
)
def test_reference_values(eta, mean, gamma, total, each):
    runs = RandomStopping(eta, mean)
    assert (runs.gamma, runs.total(1.0), runs.each(1.0)) == pytest.approx((gamma, total, each), rel=1e-8)


@pytest.mark.parametrize("runs", LAWS, ids=str)
@pytest.mark.parametrize("eps", [1e-4, 0.1, 1.0, 8.0])
def test_what_a_run_may_spend_inverts_the_total(runs, eps):
    each = runs.each(eps)
    assert (1 - 1e-9) * eps < runs.total(each) <= eps
    assert runs.total(eps) < (2 + runs.eta) * eps  # below the published price


def released(runs, law):
    """The exact law of the best of K runs, each of which has the law `law` of scores in increasing order, ties split.

    The chance of a score is f of the chance of it or better less f of the chance of better.
    """
    above = np.concatenate([[0.0], np.cumsum(law)])
    return np.array([runs.generating(1 - low) - runs.generating(1 - high) for low, high in pairwise(above)])


def worst_pairs(each, size, random):
    """Laws of `size` scores, least first, with ratios within exp(+-each): some touch both ends, others do not."""
    for cut in np.concatenate([[1 / (1 + math.exp(each))], random.random(20)]):
        first = random.dirichlet(np.ones(size))
        ratio = np.where(np.cumsum(first) <= cut, math.exp(each), math.exp(-each))
        weights = first * ratio
        yield first, weights / weights.sum()
    for _ in range(20):
        first = random.dirichlet(np.ones(size))
        weights = first * np.exp(each * random.uniform(-0.5, 0.5, size))
        yield first, weights / weights.sum()


@pytest.mark.parametrize("runs", LAWS, ids=str)
@pytest.mark.parametrize("each", [0.1, 1.0, 3.0])
def test_no_pair_costs_more_than_the_total(runs, each):
    random = np.random.default_rng(4)
    for first, second in worst_pairs(each, 6, random):
        if np.abs(np.log(first / second)).max() > each:
            continue
        loss = np.abs(np.log(released(runs, first) / released(runs, second))).max()
        assert loss <= runs.total(each) * (1 + 1e-6) + 1e-9


def tight(runs, each, step=1e-6):
    """The loss of a pair of `each`-private laws: a sliver of outcomes where the survival is 1 / (1 + e^each)."""
    low = 1 / (1 + math.exp(each))
    first = np.array([low, step * math.exp(each), 1 - low - step * math.exp(each)])
    second = np.array([1 - low, step, low - step])
    return float(np.log(released(runs, first)[1] / released(runs, second)[1])), first, second


@pytest.mark.parametrize("runs", LAWS, ids=str)
@pytest.mark.parametrize("each", [0.1, 1.0, 3.0])
def test_some_pair_attains_the_total(runs, each):
    found, first, second = tight(runs, each)
    assert np.abs(np.log(first / second)).max() <= each * (1 + 1e-4)
    assert found == pytest.approx(runs.total(each), rel=2e-3)


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_runs_charged_one_plus_eta_are_caught(eta):
    """Planted: (1 + eta) eps for runs of eps each."""
    runs = RandomStopping(eta, 10)
    assert tight(runs, 1.0)[0] > (1 + eta) * 1.2


@pytest.mark.slow
@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("source", ["system", "seeded"])
def test_draws_follow_the_law(eta, source):
    """Chi-square at level 1e-6 for each of six."""
    runs, number = RandomStopping(eta, 4), 4000
    random = SystemRandom() if source == "system" else np.random.default_rng(7)
    drawn = np.array([runs.draw(random) for _ in range(number)])
    law = law_of(runs)
    seen = [*(np.sum(drawn == k) for k in range(1, 8)), np.sum(drawn > 7)]
    expected_counts = number * np.array([*law[:7], law[7:].sum()])
    assert stats.chisquare(seen, expected_counts).pvalue > 1e-6


def best_run(data, rng, runs, each):
    """A toy run: one of two candidates, its mistake flipped by randomised response; the best of K is released."""
    truth, keep = sum(data), math.exp(each) / (1 + math.exp(each))
    scores = [(int(rng.random() < keep) ^ (truth > 0), rng.random()) for _ in range(runs.draw(rng))]
    return float(min(scores)[0])


@pytest.mark.slow
def test_the_auditor_passes_the_price_and_catches_one_run_charged_as_all():
    """A sound price fails with probability below 0.001."""
    eps, runs = 1.0, RandomStopping(1.0, 10)
    sound = runs.each(eps)
    arguments = {"eps": eps, "runs": 10_000, "seed": 3}
    assert audit(lambda data, rng: best_run(data, rng, runs, sound), [], [1], **arguments).passed
    assert not audit(lambda data, rng: best_run(data, rng, runs, eps), [], [1], **arguments).passed


@pytest.mark.parametrize(("eta", "mean"), [(0.5, 5), (0.0, 1), (0.0, float("nan")), (1.0, True), (1.0, 1e9)])
def test_bad_laws_are_refused(eta, mean):
    with pytest.raises(ArgumentError, match=r"eta|runs"):
        RandomStopping(eta, mean)


def test_means_grow_with_small_gammas():
    assert [expected_runs(eta, 1e-9) > 1e3 for eta in ETAS] == [True] * 3
    assert RandomStopping.from_dict(json.loads(json.dumps(RandomStopping(0.0, 10).to_dict()))) == RandomStopping(
        0.0, 10
    )

"""Every certified mechanism, audited by its outputs and by the same randomness on neighbouring data.

Fast versions of ``benchmarks/audits/mechanisms.py``. A sound mechanism fails with probability at most 0.001 per audit
with a fresh seed; seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
from certified import CASES, Case, weakened

from dpstats.audit import audit, sensitivity

RUNS = 600
SEED = 11
ONE_STAGE = [case for case in CASES if len(case.plan.stages) == 1]


def by_name(case: Case) -> str:
    return case.name


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_the_claim_is_not_refuted(case):
    pair = case.worst_pair
    result = audit(case.mechanism(), pair.data, pair.neighbour, eps=case.eps, delta=case.delta, runs=RUNS, seed=SEED)
    assert result.passed, result.summary()


@pytest.mark.slow
@pytest.mark.parametrize("case", [CASES[1], CASES[6], CASES[9]], ids=by_name)
def test_as_many_runs_refute_a_fifth_of_the_noise(case):
    """The audit above has the power to fail: the same plan with its noise scale divided by five is caught."""
    pair = case.worst_pair
    weak = case.mechanism(plan=weakened(case.plan, 5.0))
    assert not audit(weak, pair.data, pair.neighbour, **case.claim, runs=RUNS, seed=SEED).passed


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_the_plan_reads_no_row(case):
    pair = case.worst_pair
    assert case.plan_for(pair.data).digest() == case.plan_for(pair.neighbour).digest() == case.plan.digest()


@pytest.mark.slow
@pytest.mark.parametrize("case", ONE_STAGE, ids=by_name)
def test_the_same_noise_moves_the_optimum_no_further_than_one_row_can(case):
    """L X / min(m), twice that when a row is replaced; what the final noise adds is a thousand times smaller."""
    plan = case.plan
    rows = 2 if case.adjacency == "replace_one" else 1
    bound = rows * plan.family.lipschitz * case.l2_bound / float(np.min(plan.curvature))
    pairs = [pair[1:] for pair in case.pairs]
    result = sensitivity(case.mechanism(), pairs, declared=bound * 1.001, runs=2, seed=SEED)
    assert result.passed, result.summary()
    assert result.largest > bound / 20


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_cells_beyond_the_public_bounds_count_as_the_bounds_and_missing_ones_not_at_all(case):
    """With one seed: a row a thousand times too long releases what the clipped row does; a NaN row, what none does."""
    endog, exog = case.worst_pair.neighbour
    far = np.vstack([exog[:-1], exog[-1] * 1000])
    missing = np.vstack([exog[:-1], np.full(case.size, np.nan)])
    release = case.mechanism()
    for changed, plain in (((endog, far), (endog, exog)), ((endog, missing), (endog[:-1], exog[:-1]))):
        pair = [np.concatenate(release(data, np.random.default_rng(SEED))) for data in (changed, plain)]
        np.testing.assert_allclose(*pair, rtol=0, atol=1e-6)

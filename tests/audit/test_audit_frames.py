"""Tuned fits and fits of random features, audited from end to end: sound calls pass, and a planted error is caught.

Fast versions of ``python -m benchmarks.audits.mechanisms frames``. At confidence .999 a sound call fails with
probability at most .001; seeds are fixed. An error that stops being caught fails its own test.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from frames import CALLS, Kernel, Tuning

from dpstats.audit import audit

SEED = 12


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_the_claim_is_not_refuted(call: Tuning | Kernel) -> None:
    runs = min(call.fast // 3, 700)
    result = audit(call.mechanism(), call.pair.data, call.pair.neighbour, **call.claim, runs=runs, seed=SEED)
    assert result.passed, result.summary()


# At eps 2 fewer than half of the runs refute a noise that is short by the root of two: 20 of 20 draws of 2,500 did.
ADDED = [call for call in CALLS if call.adjacency == "add_remove"]
PLANTED = [replace(call, eps=2.0, fast=2500) if isinstance(call, Kernel) else call for call in ADDED]


@pytest.mark.slow
@pytest.mark.parametrize("call", PLANTED, ids=lambda call: call.name)
def test_the_planted_error_is_caught(call: Tuning | Kernel) -> None:
    result = audit(call.wrong(), call.pair.data, call.pair.neighbour, **call.claim, runs=call.fast, seed=SEED)
    assert not result.passed
    assert result.eps_lower > call.claim["eps"]

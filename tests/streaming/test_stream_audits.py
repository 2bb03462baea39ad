"""Black-box audits of whole transcripts of regressions: 5,000 seeded runs of what `benchmarks/streams/audits` runs.

With other seeds a sound stream would fail one of the two audits of a case with probability 2e-4 at most.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.streams.audits import CASES, audit_planted, audited, check_copies, sides

RUNS = 5000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear, a person of two ticks", "logistic, weights", "projected"])
def test_audits_do_not_refute_a_stream(name: str) -> None:
    case = CASES[name]
    stated, point = audited(sides(case, case.stream().plan()), RUNS, np.random.default_rng(1))
    assert stated.passed
    assert point.passed
    assert point.hockey_stick.lower > 0.8 * point.delta  # the audit sees most of what there is


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "projected rows replaced at the price of added",
        "a person of two ticks at the price of one",
        "a tick noised twice",
        "coefficients of the same tick",
        "a Hessian at four times its weight, uncut",
    ],
)
def test_audits_catch_what_is_planted(name: str) -> None:
    assert not audit_planted(name, RUNS, np.random.default_rng(2))[1].passed


@pytest.mark.parametrize("name", ["logistic", "logistic, weights"])
def test_the_audit_sums_rows_as_the_package_does(name: str) -> None:
    check_copies(CASES[name], np.linspace(-3, 3, 7))

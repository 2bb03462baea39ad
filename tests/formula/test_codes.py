"""Codes for missing that a bought range ends at."""

from __future__ import annotations

import pytest

from dpstats.domain import Range
from dpstats.formula.advice import codes_at_bought_ends


@pytest.mark.parametrize(
    ("bought", "codes"),
    [
        (Range(0, 50_000, inner=(0, 14_998)), [9999]),
        (Range(0, 50_000, inner=(0, 15_001)), []),  # of the next narrower width it would hold 9999 too
        (Range(-50, 500, inner=(-15, 31)), [-9]),
        (Range(-50, 500, inner=(-15, 29)), []),  # values of both signs
        (Range(0, 200, inner=(90, 200)), []),  # no code lies below all values but a negative one
        (Range(0, 100, inner=(50, 100)), []),  # the declared end of a percentile
        (Range(0, 10_000, inner=(5000, 10_000)), [9999]),
        (Range(0, 999, inner=(500, 999)), []),  # a note on the declaration names it
        (Range(0, 16_384), [9999]),  # of a column that nobody declared
        (Range(0, 32_768), []),
        (Range(-16, 8), [-9]),
        (Range(-16, 16), []),
    ],
)
def test_codes_that_may_have_decided_an_end_of_a_bought_range(bought: Range, codes: list[float]) -> None:
    assert codes_at_bought_ends(bought) == codes

"""Coverage with one column by quadrature: second order is right where it should be, and not without it."""

from __future__ import annotations

import math
from unittest import mock

import pytest

from benchmarks.defaults.guard import coverage
from dpstats.inference import delta_method


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(0.3, 0.65), (0.4, 0.4), (0.5, 0.1)])
def test_coverage_is_nominal_to_second_order(shares: tuple[float, float]) -> None:
    """An error of fourth order falls sixteen-fold where the noise halves; that of second order fourfold."""
    with mock.patch.object(delta_method, "GUARD", 0.0):
        together = [abs(coverage(ratio, *shares, points=301) - 0.95) for ratio in (10.0, 20.0)]
    with mock.patch.object(delta_method, "GUARD", math.inf):
        apart = [abs(coverage(ratio, *shares, points=301) - 0.95) for ratio in (10.0, 20.0)]
    assert together[1] < 2e-4
    assert together[0] < apart[0] / 4
    assert apart[1] > 1e-3


@pytest.mark.slow
def test_the_guard_holds_coverage_where_the_information_is_poor() -> None:
    for ratio in (3.0, 5.0):
        assert coverage(ratio, 0.7, 0.2, points=201) > 0.94
        with mock.patch.object(delta_method, "GUARD", 0.0):
            assert coverage(ratio, 0.7, 0.2, points=201) < 0.935

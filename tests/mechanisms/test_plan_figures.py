"""What plans share to be fast decides nothing in them: hulls of lines, curves, designs; test_corpus.py has figures."""

from __future__ import annotations

import numpy as np
import pytest

import dpstats as dp
from dpstats.families import Binomial, Poisson, SmoothSVM
from dpstats.privacy.calibration import CELLS
from dpstats.privacy.gaussian import corner_lines, highest, normal_grid


@pytest.mark.parametrize("family", [Binomial(), Poisson(10.0, 20.0), SmoothSVM(0.1)], ids=lambda family: family.name)
@pytest.mark.parametrize("kappa", [1e-9, 0.3, 1e3])
def test_the_hull_has_the_supremum_of_all_lines(family, kappa):
    slopes, costs = corner_lines(family.curve(CELLS), kappa)
    nodes = normal_grid(1e-6).nodes
    for mu in (1e-6, 0.01, 1.0, 30.0):
        heights = costs + (mu * slopes) ** 2 / 2
        every = (np.multiply.outer(mu * slopes, nodes) + heights[:, None]).max(axis=0)
        np.testing.assert_allclose(highest(mu * slopes, heights, nodes), every, rtol=1e-14)


def test_lines_of_equal_slope_are_compared():
    slopes = np.repeat(np.arange(20.0), 2)
    heights = np.where(np.arange(40) % 2, 0.0, -np.arange(40.0))
    nodes = np.linspace(-5, 5, 101)
    every = (np.multiply.outer(slopes, nodes) + heights[:, None]).max(axis=0)
    np.testing.assert_array_equal(highest(slopes, heights, nodes), every)


def test_curves_are_shared_and_cannot_be_changed():
    curve = Binomial().curve(100)
    assert Binomial().curve(100) is curve
    with pytest.raises(ValueError, match="read-only"):
        curve.gradient[0] = 0.0


def test_levels_that_compare_equal_have_designs_of_their_own():
    names = [
        dp.plan("y ~ C(g)", {"y": [0, 1], "g": levels}, 1.0, family="binomial").names
        for levels in ([1, 2, 3], [1.0, 2.0, 3.0])
    ]
    assert names[0] != names[1]
    assert dp.plan("y ~ C(g)", {"y": [0, 1], "g": [1, 2, 3]}, 1.0, family="binomial").names == names[0]


def test_the_order_of_a_domain_decides_nothing():
    one = dp.plan("y ~ x + z", {"y": [0, 1], "x": (0, 1), "z": (0, 9)}, 1.0, family="binomial")
    other = dp.plan("y ~ x + z", {"z": (0, 9), "x": (0, 1), "y": [0, 1]}, 1.0, family="binomial")
    assert one.to_dict() == other.to_dict()

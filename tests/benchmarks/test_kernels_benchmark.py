"""The benchmark of kernels, on few runs."""

from __future__ import annotations

import pytest

from benchmarks.methods import kernels


@pytest.mark.slow
def test_features_find_the_circle_and_pairs_the_kernel():
    """One seeded run; lines err on three rows in ten, features on little more than the one in twenty."""
    found = kernels.errors(4_000, 2.0, 1)
    assert found["x + z"] > 0.25
    assert found["gaussian, pairs, D = 20"] < 0.15
    missed = kernels.kernel_errors(20)
    assert missed["pairs"] < missed["phase"]

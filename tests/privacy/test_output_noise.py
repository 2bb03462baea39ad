"""The calibration of output perturbation against reference values and its own definition."""

from __future__ import annotations

import math

import pytest

from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Gaussian
from dpstats.mechanisms.output import output_noise, output_sensitivity
from dpstats.privacy.gaussian import gaussian_delta

# L, X, m, eps, delta, adjacency, then the scale of pure and of Gaussian noise in the coefficients, from an independent
# implementation (privacy.md, section 5).
REFERENCE = [
    (1.0, 1.0, 10.0, 1.0, 1e-5, "add_remove", 0.1, 0.373063),
    (1.0, 1.0, 10.0, 1.0, 1e-5, "replace_one", 0.2, 0.746126),
    (1.0, math.sqrt(2), 10.0, 0.1, 1e-5, "replace_one", 2.828427, 8.697291),
    (2.0, 1.0, 50.0, 0.5, 1e-6, "add_remove", 0.08, 0.322305),
    (1.0, 1.0, 130.0, 0.1, 0.0, "replace_one", 0.153846, None),
    # Chaudhuri et al., algorithm 1: n = 45,220, Lambda = 0.01.
    (1.0, 1.0, 452.2, 0.1, 0.0, "replace_one", 0.0442282, None),
]


@pytest.mark.parametrize("case", REFERENCE, ids=str)
def test_reference_values(case):
    lipschitz, row_norm, m, eps, delta, adjacency, pure, normal = case
    family = Gaussian(residual_cap=lipschitz)
    arguments = {"eps": eps, "curvature_ratio": row_norm**2 / m, "adjacency": adjacency}
    assert output_noise(family, **arguments).scale / math.sqrt(m) == pytest.approx(pure, rel=1e-5)
    if normal is not None:
        found = output_noise(family, delta=delta, **arguments)
        assert found.kind == "gaussian"
        assert found.scale / math.sqrt(m) == pytest.approx(normal, rel=1e-5)


@pytest.mark.parametrize(("eps", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (10.0, 1e-9), (60.0, 1e-5)])
def test_normal_noise_spends_the_budget_and_no_more(eps, delta):
    noise = output_noise(Binomial(), eps=eps, delta=delta, curvature_ratio=0.3)
    mu = output_sensitivity(Binomial(), curvature_ratio=0.3) / noise.scale
    assert gaussian_delta(eps, mu) <= delta * (1 + 1e-9)
    assert gaussian_delta(eps, mu * 1.001) > delta


def test_the_classical_rule_is_caught_where_eps_is_large():
    eps, delta = 30.0, 0.01
    classical = math.sqrt(2 * math.log(1.25 / delta)) / eps
    assert gaussian_delta(eps, 1 / classical) > 2 * delta
    sensitivity = output_sensitivity(Binomial(), curvature_ratio=1.0)
    assert output_noise(Binomial(), eps=eps, delta=delta, curvature_ratio=1.0).scale > classical * sensitivity


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_bad_curvature_ratio(wrong):
    with pytest.raises(ArgumentError, match="curvature_ratio"):
        output_noise(Binomial(), eps=1.0, curvature_ratio=wrong)


def test_normal_noise_needs_a_delta():
    with pytest.raises(ArgumentError, match="delta"):
        output_noise(Binomial(), eps=1.0, curvature_ratio=1.0, kind="gaussian")

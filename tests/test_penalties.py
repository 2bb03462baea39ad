"""Each penalty against brute force: majorisation, prox, convexity modulus, certificate."""

import json
import math

import numpy as np
import pytest
from scipy import optimize

from dpstats.errors import ArgumentError
from dpstats.penalties import L0, SCAD, Bridge, ElasticNet, Lasso, Penalty, Ridge, from_dict, penalty

CONVEX = [
    Ridge(0.7),
    Lasso(1.3),
    ElasticNet(2.0, 0.3),
    Bridge(1.5, 1.0),
    Bridge(0.8, 1.2),
    Bridge(0.8, 1.9),
    Bridge(1, 2),
]
CONCAVE = [Bridge(0.9, 0.5), SCAD(0.8), SCAD(2.0, a=3.0, knot=0.4), L0(0.6)]
GRID = np.concatenate([-np.geomspace(8, 1e-6, 400), [0.0], np.geomspace(1e-6, 8, 400)])


@pytest.mark.parametrize("p", CONVEX + CONCAVE, ids=str)
class TestEvery:
    def test_value_is_even_zero_at_zero_and_sums_with_weights(self, p: Penalty):
        theta, weights = np.array([0.5, -2.0, 0.0]), np.array([2.0, 0.5, 9.0])
        expected = 2.0 * p.value([0.5]) + 0.5 * p.value([2.0])
        assert p.value(theta, weights) == pytest.approx(expected, rel=1e-14)
        assert p.value(np.zeros(4)) == 0.0

    @pytest.mark.slow
    def test_prox_beats_a_fine_grid(self, p: Penalty):
        random = np.random.default_rng(1)
        for z, metric, weight in random.uniform([-6, 0.05, 0], [6, 5, 3], size=(60, 3)):
            found = float(p.prox(z, metric, weight))
            grid = np.concatenate([GRID, [z]])
            costs = 0.5 * metric * (grid - z) ** 2 + [p.value(t, weight) for t in grid]
            assert 0.5 * metric * (found - z) ** 2 + p.value(found, weight) <= np.min(costs) + 1e-12

    def test_prox_solves_its_optimality_equation(self, p: Penalty):
        z, metric, weight = np.linspace(-6, 6, 121), 0.9, 1.1
        found = p.prox(z, metric, weight)
        moved = found != 0
        residual = metric * (found - z) + p.slope(found, weight)
        if not isinstance(p, L0):
            np.testing.assert_allclose(residual[moved], 0, atol=1e-12)

    def test_modulus_is_the_greatest_convexity(self, p: Penalty):
        if not math.isfinite(p.modulus):
            gap = p.value(0.5) - 0.5 * (p.value(0.0) + p.value(1.0))
            assert gap > 0, "an infinitely concave penalty must fail midpoint convexity somewhere"
            return
        grid = np.linspace(-40, 40, 1601)
        for slack, holds in ((1e-9, True), (-0.02, False)):
            height = np.array([p.value(t) for t in grid]) - 0.5 * (p.modulus - slack) * grid**2
            bends = height[2:] - 2 * height[1:-1] + height[:-2]
            if holds or not (isinstance(p, Bridge) and 1 < p.q < 2):  # those approach their modulus 0 only at infinity
                assert bool(np.all(bends >= -1e-8)) is holds

    def test_json_round_trip(self, p: Penalty):
        assert from_dict(json.loads(json.dumps(p.to_dict()))) == p

    def test_no_strength_is_no_penalty(self, p: Penalty):
        none = from_dict({**p.to_dict(), "alpha": 0.0})
        theta = np.array([0.0, 1e-3, -2.0])
        assert none.convex
        assert not none.sparse
        assert none.value(theta) == 0.0
        np.testing.assert_array_equal(none.majorizer(theta), 0.0)
        np.testing.assert_array_equal(none.prox(theta), theta)


@pytest.mark.parametrize("p", [*CONVEX, *CONCAVE[:3]], ids=str)
def test_majorizer_touches_and_lies_above(p: Penalty):
    for touch in (0.05, 0.7, -1.9, 5.0):
        weight = float(p.majorizer(touch, 1.7))
        quadratic = 0.5 * weight * (GRID**2 - touch**2) + p.value(touch, 1.7)
        heights = np.array([p.value(t, 1.7) for t in GRID])
        assert np.all(quadratic >= heights - 1e-12)
        step = 1e-6
        slope = (p.value(touch + step, 1.7) - p.value(touch - step, 1.7)) / (2 * step)
        assert weight * touch == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_majorizer_constants_of_the_derivation():
    theta = np.array([0.5, -2.0])
    np.testing.assert_allclose(Lasso(3.0).majorizer(theta), [6.0, 1.5])
    np.testing.assert_allclose(Bridge(3.0, 0.5).majorizer(theta), 3 * 0.5 * np.abs(theta) ** -1.5)
    np.testing.assert_allclose(ElasticNet(2.0, 0.25).majorizer(theta), 0.5 / np.abs(theta) + 1.5)
    np.testing.assert_allclose(L0(3.0).majorizer(theta), 6 / theta**2)
    assert math.isinf(float(Lasso(1.0).majorizer(0.0)))
    assert float(Lasso(1.0).majorizer(0.0, 0.0)) == 0.0, "an unpenalised zero has no weight"
    assert float(Ridge(2.0).majorizer(0.0)) == 2.0


def test_the_papers_weights_realise_twice_the_lasso():
    # Seed NAPP-ERM, Table 2: Lambda |t|^-g on t^2. Its fixed points solve gradient = -2 Lambda sign(t).
    found = optimize.brentq(lambda t: (t - 5.0) + 2 * (1.0 / t) * t, 0.1, 9)
    assert found == pytest.approx(float(Lasso(2.0).prox(5.0)))


def test_bridge_meets_lasso_and_ridge():
    z = np.linspace(-3, 3, 25)
    np.testing.assert_allclose(Bridge(1.1, 1.0).prox(z, 0.7), Lasso(1.1).prox(z, 0.7))
    np.testing.assert_allclose(Bridge(1.1, 2.0).prox(z, 0.7), Ridge(2.2).prox(z, 0.7))
    np.testing.assert_allclose(Bridge(1.1, 1 + 1e-6).prox(z, 0.7), Lasso(1.1).prox(z, 0.7), atol=1e-4)
    np.testing.assert_allclose(Bridge(1.1, 2 - 1e-9).prox(z, 0.7), Ridge(2.2).prox(z, 0.7), atol=1e-6)


def test_curvature_counts_only_what_is_everywhere():
    weights = np.array([0.0, 1.0, 2.0])
    np.testing.assert_array_equal(Ridge(3.0).curvature(weights), [0, 3, 6])
    np.testing.assert_array_equal(ElasticNet(3.0, 0.5).curvature(weights), [0, 1.5, 3])
    for none in (Lasso(3.0), Bridge(3.0, 1.5)):
        np.testing.assert_array_equal(none.curvature(weights), 0)
    np.testing.assert_array_equal(L0(1.0).curvature(weights), [0, -math.inf, -math.inf])
    assert np.all(SCAD(2.0, a=3.0, knot=0.5).curvature(weights) == [0, -2, -4])


class TestDistance:
    def test_is_zero_exactly_at_the_optimum(self):
        z, weights = np.array([2.0, -0.3, 0.4, 1.0]), np.array([1.0, 1.0, 0.0, 3.0])
        for p in CONVEX:
            theta = p.prox(z, 1.0, weights)
            assert p.distance(theta - z, theta, weights) < 1e-12
            assert p.distance(theta - z + 0.1, theta, weights) > 0.01

    def test_at_a_kink_only_the_excess_counts(self):
        assert Lasso(1.0).distance([1.5, -0.5, 0.0], np.zeros(3)) == pytest.approx(0.5)

    def test_bridge_zero_that_no_float_holds(self):
        # 0.4^(1/0.001) = 1e-398 is the minimiser; zero stands for it.
        p = Bridge(1.0, 1.001)
        theta = p.prox(0.4)
        assert theta == 0.0
        assert p.distance(theta - 0.4, theta) == 0.0

    def test_refuses_what_it_cannot_certify(self):
        with pytest.raises(ArgumentError, match="not convex"):
            SCAD(1.0).distance([0.0], [0.0])

    def test_keeps_extended_precision(self):
        theta = np.array([np.longdouble(1) + np.longdouble(2) ** -60])
        assert 0 < Ridge(1.0).distance(-np.ones(1, np.longdouble), theta) < 1e-17


class TestArguments:
    @pytest.mark.parametrize("alpha", [-1, math.nan, math.inf, "1", None, True, 1j])
    def test_alpha(self, alpha):
        with pytest.raises(ArgumentError, match="alpha"):
            Lasso(alpha)

    @pytest.mark.parametrize(
        ("build", "name"),
        [
            (lambda: Bridge(1.0, 0.0), "q"),
            (lambda: Bridge(1.0, 2.1), "q"),
            (lambda: ElasticNet(1.0, -0.1), "l1_ratio"),
            (lambda: ElasticNet(1.0, 1.1), "l1_ratio"),
            (lambda: SCAD(1.0, a=2.0), "a must"),
            (lambda: SCAD(1.0, knot=0.0), "knot"),
        ],
    )
    def test_parameters(self, build, name):
        with pytest.raises(ArgumentError, match=name):
            build()

    def test_resolver(self):
        assert penalty(None) is None
        assert penalty("lasso", 2) == Lasso(2.0)
        assert penalty("elastic_net", 2, l1_ratio=0.1) == ElasticNet(2.0, 0.1)
        assert penalty("bridge", 2, q=0.5) == Bridge(2.0, 0.5)
        assert penalty(Ridge(1.0)) == Ridge(1.0)

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            (("lasso",), "alpha must be given"),
            (("LASSO", 1.0), "penalty must be one of"),
            ((Lasso(1.0), 2.0), "alpha must not be given"),
            ((None, 2.0), "alpha must not be given"),
            (("bridge", 1.0), "power"),
            ((7, 1.0), "penalty must be one of"),
        ],
    )
    def test_resolver_refuses(self, arguments, match):
        with pytest.raises(ArgumentError, match=match):
            penalty(*arguments)

    def test_resolver_refuses_unknown_parameters(self):
        with pytest.raises(ArgumentError, match="l1_ratio"):
            penalty("lasso", 1.0, l1_ratio=0.5)

    def test_a_broken_store_is_refused(self):
        with pytest.raises(ArgumentError, match="keys"):
            from_dict({"alpha": 1.0})

"""Pairs of floats: every operation and every family's l' against 60 digits, in both float types."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf

from dpstats import families
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, NegativeBinomial, Poisson, Quantile, SmoothSVM
from dpstats.solvers import pairs
from dpstats.solvers.pairs import Pair
from dpstats.solvers.rounding import pair_slope

TYPES = [np.float64, np.longdouble]

FAMILIES: list[Family] = [
    Gaussian(0.5),
    Binomial(),
    Poisson(10.0, 7.0),
    Poisson(2.0, 9.0),
    Poisson(4.0, 8.0),
    Poisson(6.0, 8.0),
    Poisson(1e-3, 50.0),
    NegativeBinomial(0.5, 9.0),
    NegativeBinomial(3.0, 50.0),
    NegativeBinomial(0.03, 7.0),
    HuberSVM(0.3),
    HuberSVM(1e-7),
    SmoothSVM(0.5),
    SmoothSVM(1e-7),
    Quantile(0.5, 0.3),
    Quantile(0.9, 1e-7),
]


def exact(value: Pair) -> list[mpf]:
    """The pairs' values, exactly."""
    parts = []
    for high, low in zip(np.atleast_1d(value.high), np.atleast_1d(value.low), strict=True):
        total = mpf(0)
        for part in (high, low):
            near = float(part)
            total += mpf(near) + mpf(float(part - type(part)(near)))
        parts.append(total)
    return parts


def draws(rng: np.random.Generator, scale: float, dtype: type[np.floating]) -> Pair:
    high = (scale * rng.normal(size=200)).astype(dtype)
    return pairs.two_sum(high, high * np.finfo(dtype).eps * rng.uniform(-0.4, 0.4, 200).astype(dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_operations_keep_twice_the_digits(dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(1)
    unit = float(np.finfo(dtype).eps)
    with mp.workdps(90):
        left, right = draws(rng, 3.0, dtype), draws(rng, 2.0, dtype)
        for operation, reference, allowed in (
            (pairs.add, lambda a, b: (a + b, abs(a) + abs(b)), 4),
            (pairs.multiply, lambda a, b: (a * b, abs(a * b)), 8),
            (pairs.divide, lambda a, b: (a / b, abs(a / b)), 16),
        ):
            found = exact(operation(left, right))
            for value, a, b in zip(found, exact(left), exact(right), strict=True):
                wanted, size = reference(a, b)
                assert abs(value - wanted) <= allowed * unit**2 * size
        for scale in (1e-6, 1.0, 60.0):
            argument = draws(rng, scale, dtype)
            for value, a in zip(exact(pairs.exponential(argument)), exact(argument), strict=True):
                assert abs(value / mp.exp(a) - 1) <= (4 + abs(a)) * unit**2


def exact_mean(family: Poisson, eta: mpf) -> mpf:
    """A count's mean: exponential, level, a line, and the exponential approach of y_max."""
    cap, most = mpf(family.curvature_bound), mpf(family.lipschitz)
    start, width = (mpf(knot) for knot in family.knots())
    if eta <= start or cap == most:
        return min(mp.exp(eta), cap)
    if eta <= start + width:
        return cap * (1 + eta - start)
    rest = most - cap * (1 + width)
    return most - rest * mp.exp(-cap / rest * (eta - start - width))


def exact_slope(family: Family, eta: mpf, response: mpf) -> mpf:
    """l' by the formulas of docs/proofs/families."""
    if isinstance(family, Gaussian):
        return min(max(eta - response, -mpf(family.lipschitz)), mpf(family.lipschitz))
    if isinstance(family, Binomial):
        return 1 / (1 + mp.exp(-eta)) - response
    if isinstance(family, Poisson):
        return exact_mean(family, eta) - response
    if isinstance(family, NegativeBinomial):
        chance = 1 / (1 + mp.exp(-(eta + mpf(family.shift))))
        return mpf(family.failures) * chance - response * (1 - chance)
    if isinstance(family, Quantile):
        return 1 / (1 + mp.exp((response - eta) / mpf(float(family.h or 0)))) - mpf(family.q)
    assert isinstance(family, (HuberSVM, SmoothSVM))
    sign = 2 * response - 1
    v = min(max((1 - sign * eta) / mpf(family.h), mpf(-1)), mpf(1))
    return -sign * ((1 + v) / 2 if isinstance(family, HuberSVM) else mpf(1) / 2 + (3 * v - v**3) / 4)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_slopes_keep_twice_the_digits_at_kinks_too(family: Family, dtype: type[np.floating]) -> None:
    """Predictors of every size, and pairs whose two parts lie on different sides of a kink."""
    rng = np.random.default_rng(2)
    unit = float(np.finfo(dtype).eps)
    corner = getattr(family, "h", 0.5)
    kinks = {"binary": [1 - corner, 1 + corner, -1 - corner]}.get(family.response, [0.5, -0.5, 1e3 + 0.5, 1e15 + 0.5])
    if isinstance(family, Poisson):
        start, width = family.knots()
        kinks = [float(np.log(family.curvature_bound)), start, start + width, start + width + 1]
    high = np.concatenate([np.repeat(np.array(kinks), 40), rng.normal(size=100), 30 * rng.normal(size=60)])
    eta = pairs.two_sum(high.astype(dtype), (high * rng.uniform(-1, 1, len(high))).astype(dtype) * dtype(unit) / 2)
    response = np.round(high) if family.response == "continuous" else rng.integers(0, 2, len(high)).astype(float)
    with mp.workdps(90):
        found = exact(pair_slope(family, eta, response.astype(dtype)))
        for value, point, y in zip(found, exact(eta), response, strict=True):
            error = abs(value - exact_slope(family, point, mpf(float(y))))
            bent = family.curvature_bound * abs(point)
            assert error <= 2**10 * unit**2 * family.lipschitz + 2 * unit**2 * bent, (point, y)


def test_every_loss_has_a_slope_in_pairs() -> None:
    """The fallback, for losses from elsewhere, has no certificate."""
    losses = [kind for kind in vars(families).values() if isinstance(kind, type) and issubclass(kind, Family)]
    known = [kind for kind in losses if pair_slope.dispatch(kind) is not pair_slope.dispatch(object)]
    assert [kind.__name__ for kind in losses if kind not in (*known, Family)] == []
    assert len(known) > 5

"""Derivatives, constants, curves and caps of every family, from the formulas and by brute force; deterministic."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.special import expit

from dpstats.errors import ArgumentError
from dpstats.families import (
    Binomial,
    BinomialCounts,
    Family,
    Gaussian,
    HuberSVM,
    NegativeBinomial,
    Poisson,
    Quantile,
    SmoothSVM,
    from_dict,
    get_family,
)
from dpstats.families.gaussian import DEFAULT_CAP

FAMILIES = [
    Gaussian(0.7),
    Binomial(),
    BinomialCounts(7.0),
    Poisson(6.0, 4.0),
    Poisson(2.0, 9.0),
    Poisson(4.5, 9.0),
    Poisson(2.0, 2.5),
    NegativeBinomial(0.5, 9.0),
    NegativeBinomial(0.25, 4.0),
    NegativeBinomial(0.1, 3.0),
    HuberSVM(),
    HuberSVM(2.0),
    Quantile(0.5, 0.2),
    Quantile(0.9, 0.05),
    Quantile(0.1, 1.5),
    SmoothSVM(),
    SmoothSVM(0.01),
]
RESPONSES = {"continuous": [-3.0, 0.0, 0.4], "binary": [0.0, 1.0], "count": [-1.0, 0.0, 1.3, 2.0, 4.0, 9.0, 50.0]}


def responses(family: Family) -> list[float]:
    """Responses of a family, and what it must clip; rows of trials have any share of successes."""
    return [-1.0, 0.0, 0.3, 0.5, 1.0, 2.0] if isinstance(family, BinomialCounts) else RESPONSES[family.response]


EXTREMES = [-1e308, -1e4, -745.0, 0.0, 745.0, 1e4, 1e308]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=repr)


def cases(family: Family, dtype: type = np.float64, points: int = 4001) -> tuple[np.ndarray, np.ndarray]:
    """Linear predictors, dense around every kink, crossed with responses."""
    grid = np.concatenate((np.linspace(-12, 12, points), 1 + np.linspace(-0.02, 0.02, 401)))
    clipped = family.clip_response(np.array(responses(family)))
    return np.tile(grid, len(clipped)).astype(dtype), np.repeat(clipped, len(grid))


@every_family
def test_derivatives_are_the_slopes_of_the_one_before(family: Family) -> None:
    """Central differences in extended precision; within a step of a kink the second one may be between its sides."""
    eta, endog = cases(family, np.longdouble)
    step = np.longdouble(1e-7)
    low, middle, high = (family.derivatives(eta + shift, endog) for shift in (-step, 0, step))
    scale = family.curvature_bound + family.lipschitz
    slope = (high.value - low.value) / (2 * step)
    assert np.abs(slope - middle.gradient).max() < 1e-6 * scale
    bend = (high.gradient - low.gradient) / (2 * step)
    off = np.abs(bend - middle.curvature) > 1e-4 * scale
    assert off.mean() < 0.002
    if isinstance(family, (Binomial, SmoothSVM)):
        assert not off.any()


@every_family
def test_constants(family: Family) -> None:
    eta, endog = cases(family)
    _, gradient, curvature = family.derivatives(eta, endog)
    assert np.abs(gradient).max() <= family.lipschitz * (1 + 1e-15)
    assert np.abs(gradient).max() > 0.999 * family.lipschitz
    assert curvature.min() >= 0
    assert 0.99 * family.curvature_bound < curvature.max() <= family.curvature_bound * (1 + 1e-15)
    by_record = gradient.reshape(-1, 4402)
    one_sign = ((by_record >= 0).all(axis=1) | (by_record <= 0).all(axis=1)).all()
    assert one_sign == family.signed


@every_family
def test_convex(family: Family) -> None:
    """l' does not decrease in eta, kinks included."""
    eta = np.sort(cases(family)[0][:4402])
    for response in family.clip_response(np.array(responses(family))):
        gradient = family.derivatives(eta, np.full_like(eta, response)).gradient
        assert np.diff(gradient).min() >= -1e-15 * family.lipschitz


@pytest.mark.parametrize("size", [2, 50, 1000, 16385])
@every_family
def test_curve_covers_and_is_not_loose(family: Family, size: int) -> None:
    curve = family.curve(size)
    assert len(curve.gradient) <= size
    assert (np.diff(curve.gradient) > 0).all()
    assert (np.diff(curve.curvature) <= 0).all()
    assert curve.gradient[-1] == pytest.approx(family.lipschitz, rel=1e-15)
    assert curve.curvature[0] == pytest.approx(family.curvature_bound, rel=1e-15)
    _, gradient, curvature = family.derivatives(*cases(family))
    # The first corner with at least this gradient has the most curvature among the corners that could dominate.
    corner = np.searchsorted(curve.gradient, np.abs(gradient) * (1 - 1e-14))
    assert (curvature <= curve.curvature[corner] * (1 + 1e-14) + 1e-15).all()
    # Each corner is near a point of the loss: nothing is covered that is not there.
    if size >= 1000:
        distance = np.hypot(
            np.subtract.outer(curve.gradient[:: size // 50], np.abs(gradient)) / family.lipschitz,
            np.subtract.outer(curve.curvature[:: size // 50], curvature) / family.curvature_bound,
        )
        assert distance.min(axis=1).max() < 0.03


@every_family
def test_extended_precision_is_kept(family: Family) -> None:
    """The float64 pass differs from the extended one by rounding alone, and that one is finer than float64."""
    eta, endog = cases(family)
    eta = eta[np.abs(eta) > 1e-9]
    endog = endog[: len(eta)]
    double, extended = family.derivatives(eta, endog), family.derivatives(eta.astype(np.longdouble), endog)
    eps = np.finfo(np.float64).eps
    for part, exact in zip(double, extended, strict=True):
        assert part.dtype == np.float64
        assert exact.dtype == np.longdouble
    assert (np.abs(double.gradient - extended.gradient) <= 7 * eps * family.lipschitz).all()
    finer = family.derivatives(eta + np.longdouble(2.0**-58), endog).gradient
    assert (finer != finer.astype(np.float64)).any()


def test_binomial_extended_gradient_against_exact_rationals() -> None:
    """At eta = log 3 rounded to the format, p is 3/4 to its precision: constants lose nothing."""
    eta = np.log(np.array([3.0], dtype=np.longdouble))
    gradient = Binomial().derivatives(eta, np.array([1.0])).gradient
    assert abs(gradient[0] + np.longdouble(1) / 4) < 4 * np.finfo(np.longdouble).eps
    smooth = SmoothSVM(0.3).derivatives(np.array([1.0], dtype=np.longdouble), np.array([0.0])).curvature
    assert smooth[0] == 0
    inside = SmoothSVM(0.3).derivatives(np.array([-1.0], dtype=np.longdouble), np.array([0.0])).curvature
    assert abs(inside[0] - np.longdouble(3) / (4 * np.longdouble(0.3))) < 4 * np.finfo(np.longdouble).eps


@pytest.mark.filterwarnings("error")
@every_family
def test_no_overflow(family: Family) -> None:
    for response in family.clip_response(np.array(responses(family))):
        _, gradient, curvature = family.derivatives(np.array(EXTREMES), np.full(len(EXTREMES), response))
        assert np.isfinite(gradient).all()
        assert np.isfinite(curvature).all()
        assert np.isfinite(family.mean(np.array(EXTREMES))).all()


@every_family
def test_blocks_do_not_matter(family: Family) -> None:
    rng = np.random.default_rng(0)
    eta = rng.normal(0, 3, 20_001)
    endog = family.clip_response(rng.normal(1, 2, len(eta)))
    whole = family.derivatives(eta, endog)
    for part, alone in zip(whole, family.derivatives(eta[8190:8195], endog[8190:8195]), strict=True):
        np.testing.assert_array_equal(part[8190:8195], alone)
    assert family.derivatives(eta[:0], endog[:0]).value.shape == (0,)
    for dtype in (np.float64, np.longdouble):
        slope, gradient = family.slope(eta.astype(dtype), endog), family.derivatives(eta.astype(dtype), endog).gradient
        assert slope.dtype == dtype
        assert np.abs(slope - gradient).max() <= 4 * np.finfo(dtype).eps * family.lipschitz


class TestLikelihoods:
    """Each loss is the textbook one where it is not capped."""

    eta = np.linspace(-3, 3, 61)

    def test_gaussian_is_least_squares_within_the_cap(self) -> None:
        value, gradient, curvature = Gaussian(5.0).derivatives(self.eta, np.full(61, 1.0))
        np.testing.assert_allclose(value, (self.eta - 1) ** 2 / 2 - 1 / 2, atol=1e-15)
        np.testing.assert_array_equal(gradient, self.eta - 1)
        assert (curvature == 1).all()
        beyond = Gaussian(0.5).derivatives(np.array([2.0]), np.array([0.0]))
        assert [part[0] for part in beyond] == [0.5 * 2 - 0.125, 0.5, 0]

    def test_gaussian_responses_beyond_all_scales_keep_every_digit(self) -> None:
        """A residual past the cap costs cap |eta| and no more, however far it is."""
        for response in (1e16, 1e308, -1e308):
            value, gradient, _ = Gaussian(0.5).derivatives(self.eta, np.full(61, response))
            np.testing.assert_array_equal(gradient, -0.5 * np.sign(response))
            np.testing.assert_array_equal(value, gradient * self.eta)

    def test_binomial(self) -> None:
        for response in (0.0, 1.0):
            value, gradient, curvature = Binomial().derivatives(self.eta, np.full(61, response))
            p = expit(self.eta)
            np.testing.assert_allclose(value, -np.log(p if response else 1 - p))
            np.testing.assert_allclose(gradient, p - response)
            np.testing.assert_allclose(curvature, p * (1 - p))
            np.testing.assert_allclose(Binomial().mean(self.eta), p)

    def test_poisson_below_the_cap(self) -> None:
        value, gradient, curvature = Poisson(30.0, 5.0).derivatives(self.eta, np.full(61, 2.0))
        np.testing.assert_allclose(value, np.exp(self.eta) - 2 * self.eta)
        np.testing.assert_allclose(gradient, np.exp(self.eta) - 2)
        np.testing.assert_allclose(curvature, np.exp(self.eta))
        beyond = Poisson(7.0, 5.0).derivatives(np.array([4.0]), np.array([2.0]))
        assert [part[0] for part in beyond] == pytest.approx([7 + 7 * (4 - math.log(7)) - 8, 5, 0])

    def test_poisson_beyond_the_cap(self) -> None:
        """A line of slope 2 from 2 to 7, then 9 - 2 exp(-t); with a cap above half, 5 - 2 exp(-3 t / 2) at once."""
        log2, log3 = math.log(2), math.log(3)
        eta = np.array([log2 + 1, log2 + 2.5, log2 + 2.5 + log2])
        value, gradient, curvature = Poisson(2.0, 9.0).derivatives(eta, np.full(3, 1.0))
        np.testing.assert_allclose(gradient, [3, 6, 7])
        np.testing.assert_allclose(curvature, [2, 2, 1])
        line = 2 - log2 + 2.5 * (2 + 2.5 - 1)
        np.testing.assert_allclose(value, [2 - log2 + (2 + 1 - 1), line, line + 8 * log2 - 1])
        near = Poisson(3.0, 5.0).derivatives(np.array([log3 + 2 * log2 / 3]), np.array([2.0]))
        assert [part[0] for part in near] == pytest.approx([3 - 2 * log3 + 2 * log2 - 2 / 3, 2, 1.5])

    def test_a_count_below_y_max_holds_the_mean_down(self) -> None:
        """The slope changes sign at every count below y_max, so that no fit runs away; a level cap's would not."""
        for cap in (2.0, 4.5, 8.0):
            slope = Poisson(cap, 9.0).slope(np.array([200.0]), np.array([8.9]))
            assert slope[0] > 0
        assert Poisson(8.0, 8.0).slope(np.array([200.0]), np.array([8.9]))[0] < 0

    @pytest.mark.parametrize("family", [Poisson(2.0, 9.0), Poisson(3.0, 4.0), Poisson(1e-3, 50.0), Poisson(9.0, 5.0)])
    def test_poisson_predictors_give_their_means(self, family: Poisson) -> None:
        for mean in np.linspace(0.001, 0.999, 41) * family.lipschitz:
            assert family.mean(np.array([family.predictor(mean)]))[0] == pytest.approx(mean, rel=1e-9)
        assert family.mean(np.array([-np.inf, np.inf])).tolist() == [0, family.lipschitz]

    def test_a_curve_that_forgets_the_steepness_is_caught(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Planted: l'' taken for what is left of y_max although the cap lies above half of it."""
        monkeypatch.setattr(Poisson, "steepness", 1.0)
        with pytest.raises(AssertionError):
            test_curve_covers_and_is_not_loose(Poisson(2.0, 2.5), 1000)

    def test_smooth_svm_is_the_printed_quartic(self) -> None:
        h, margin = 0.5, np.linspace(0.5, 1.5, 41)
        d = 1 - margin
        printed = -(d**4) / (16 * h**3) + 3 * d**2 / (8 * h) + d / 2 + 3 * h / 16
        for sign, response in ((1, 1.0), (-1, 0.0)):
            value = SmoothSVM(h).derivatives(sign * margin, np.full(41, response)).value
            np.testing.assert_allclose(value, printed, atol=1e-15)

    def test_svms_are_the_hinge_off_the_corner(self) -> None:
        margin = np.array([-4.0, 0.0, 0.5, 1.5, 7.0])
        for family in (HuberSVM(), SmoothSVM()):
            value, gradient, curvature = family.derivatives(-margin, np.zeros(5))
            np.testing.assert_allclose(value, np.maximum(1 - margin, 0), atol=1e-15)
            np.testing.assert_allclose(gradient, [1, 1, 1, 0, 0])
            assert curvature[[0, 1, 4]].max() == 0
            np.testing.assert_array_equal(family.mean(np.array([-0.1, 0.0, 0.1])), [0, 0, 1])


class TestResponses:
    def test_binary_rounds_at_one_half(self) -> None:
        endog = np.array([-7.0, 0.0, 0.49, 0.5, 1.0, 3.0, np.nan, np.inf, -np.inf])
        for family in (Binomial(), HuberSVM(), SmoothSVM()):
            np.testing.assert_array_equal(family.clip_response(endog), [0, 0, 0, 1, 1, 1, np.nan, 1, 0])

    def test_counts_are_clipped(self) -> None:
        clipped = Poisson(2.0, 5.0).clip_response(np.array([-1.0, 0.0, 2.5, 9.0, np.nan]))
        np.testing.assert_array_equal(clipped, [0, 0, 2.5, 5, np.nan])

    def test_continuous_is_kept(self) -> None:
        endog = np.array([-1e9, np.nan, 2.0])
        np.testing.assert_array_equal(Gaussian(1.0).clip_response(endog), endog)


class TestCaps:
    def test_resolve_fills_only_what_is_open(self) -> None:
        assert Gaussian().resolve((-3.0, 1.0)) == Gaussian(2 * DEFAULT_CAP)
        assert Gaussian(3.0).resolve(None) == Gaussian(3.0)
        assert Poisson().resolve((0.0, 9.0)) == Poisson(6.0, 9.0)
        assert Poisson(mean_cap=3.0).resolve((0.0, 8.0)) == Poisson(3.0, 8.0)
        assert Poisson(y_max=6.0).resolve(None) == Poisson(4.0, 6.0)
        assert Binomial().resolve(None) == Binomial()

    @pytest.mark.parametrize("response_range", [None, (1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (-5.0, -1.0)])
    def test_resolve_needs_a_range(self, response_range: tuple[float, float] | None) -> None:
        with pytest.raises(ArgumentError, match=r"y_max|response_range"):
            Poisson().resolve(response_range)
        if response_range != (-5.0, -1.0):
            with pytest.raises(ArgumentError, match=r"residual_cap|response_range"):
                Gaussian().resolve(response_range)

    @pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "1", True])
    def test_invalid_caps_are_named(self, value: object) -> None:
        for kind, name in (
            (Gaussian, "residual_cap"),
            (Poisson, "mean_cap"),
            (Poisson, "y_max"),
            (HuberSVM, "h"),
            (SmoothSVM, "h"),
        ):
            with pytest.raises(ArgumentError, match=name):
                kind(**{name: value})

    def test_open_caps_cannot_be_used(self) -> None:
        for family in (Gaussian(), Poisson(), Poisson(mean_cap=2.0)):
            with pytest.raises(ArgumentError, match="is not set"):
                _ = family.lipschitz


class TestNames:
    def test_by_name_or_object(self) -> None:
        names = {"gaussian": Gaussian, "binomial": Binomial, "poisson": Poisson}
        for name, kind in (names | {"huber_svm": HuberSVM, "smooth_svm": SmoothSVM}).items():
            assert get_family(name) == kind()
            assert kind.name == name
        assert get_family(Gaussian(2.0)) == Gaussian(2.0)

    @pytest.mark.parametrize("value", ["bionmial", "", None, 3, Family, dict])
    def test_unknown_family(self, value: object) -> None:
        with pytest.raises(ArgumentError, match="family must be"):
            get_family(value)  # type: ignore[arg-type]

    @pytest.mark.parametrize("family", [*FAMILIES, Gaussian(), Poisson()], ids=repr)
    def test_json_round_trip(self, family: Family) -> None:
        assert from_dict(json.loads(json.dumps(family.to_dict()))) == family

    def test_json_of_something_else(self) -> None:
        for values in ({}, {"name": "nope"}, {"name": "binomial", "h": 2.0}):
            with pytest.raises(ArgumentError, match="family"):
                from_dict(values)


def test_a_name_that_is_nearly_one_of_others_is_answered_with_a_name_of_the_list() -> None:
    with pytest.raises(ArgumentError, match="got 'nb', did you mean 'negative_binomial'"):
        get_family("nb")

"""The joint calibration of coefficients and information: exact joint densities, closed forms, planted errors.

Nothing is drawn, so nothing can fail by chance.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from joint_density import Released, worst_log_ratio
from scipy import special

from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, NegativeBinomial, Poisson, Quantile, SmoothSVM
from dpstats.privacy.calibration import joint_scale
from dpstats.privacy.information import (
    free_information,
    free_ratio,
    headroom,
    joint_information_loss,
    joint_scales,
    majorant_lipschitz,
    row_weights,
    weight_bound,
)
from dpstats.privacy.information.joint import curve_weights
from dpstats.privacy.noise import Noise

FAMILIES = [
    Binomial(),
    Gaussian(0.5),
    Poisson(3.0, 3.0),
    Poisson(1.0, 4.0),
    NegativeBinomial(0.5, 4.0),
    NegativeBinomial(0.2, 4.0),
    HuberSVM(0.5),
    Quantile(0.5, 0.1),
    Quantile(0.9, 0.1),
    SmoothSVM(0.2),
]
RESPONSES = {"continuous": [-0.3, 0.8], "count": [0.0, 4.0], "binary": [0.0, 1.0]}
EPS = 1.0
CAPPED: list[tuple[Family, float]] = [
    (Poisson(3.0, 3.0), 0.5),
    (Poisson(1.0, 4.0), 0.4),
    (Poisson(2.0, 4.0), 0.5),
    (Poisson(3.0, 4.0), 0.5),
    (Poisson(3.0, 4.0), 1.0),
    (Poisson(3.0, 4.0), 2.0),
    (NegativeBinomial(0.5, 4.0), 0.6),
    (NegativeBinomial(0.2, 4.0), 0.6),
    (Binomial(), 0.1),
]
# eta on both sides of every kink, and far out
ETA = np.unique(
    np.concatenate(
        (
            np.linspace(-40, 40, 40001),
            *((kink - 1e-9, kink + 1e-9) for kink in (0, 0.5, -0.5, 1.5, -1.5, math.log(3), 0.2, -0.8, 0.3, 1.3, 0.8)),
            *((math.log(cap) - 1e-9, math.log(cap) + 1e-9) for cap in (0.4, 0.5, 2.0)),
        )
    )
)


def label(value: object) -> str:
    return repr(value)


def pair(
    family: Family,
    adjacency: str,
    kappa: float,
    scale: float,
    matrix: float,
    row_norm: float = 1.0,
    weight_cap: float | None = None,
) -> list[tuple[Released, Released]]:
    """One record against none, or against another response, for either sign of the noise."""
    found = []
    for sign in (-1, 1):
        for response in RESPONSES[family.response]:
            endog = family.clip_response(np.array([response]))
            other = family.clip_response(np.array([sum(RESPONSES[family.response]) - response]))
            base = Released(
                family,
                np.full((1, 1), row_norm),
                endog,
                np.array([row_norm**2 / kappa]),
                Noise("laplace", "l2", scale),
                matrix,
                row_norm,
                np.array([sign * 1e6]),
                weight_cap=weight_cap,
            )
            removed = replace(base, exog=np.empty((0, 1)), endog=np.empty(0))
            found.append((base, removed if adjacency == "add_remove" else replace(base, endog=other)))
    return found


def worst(
    family: Family,
    adjacency: str,
    kappa: float,
    scale: float,
    matrix: float,
    row_norm: float = 1.0,
    weight_cap: float | None = None,
) -> float:
    params = (ETA / row_norm)[:, None]
    pairs = pair(family, adjacency, kappa, scale, matrix, row_norm, weight_cap)
    return max(worst_log_ratio(*two, params) for two in pairs)


@pytest.mark.parametrize("row_norm", [0.1, 30.0])
@pytest.mark.parametrize("ratio", [0.3, 2.0])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("family", FAMILIES, ids=label)
def test_guarantee_and_tightness(family: Family, adjacency: str, ratio: float, row_norm: float) -> None:
    """The exact joint density keeps eps and, for one more record, reaches it."""
    kappa, ratio = 0.4 / family.curvature_bound, ratio * family.lipschitz / family.curvature_bound
    fit, matrix = joint_scales(
        family, eps=EPS, curvature_ratio=kappa, row_norm=row_norm, ratio=ratio, adjacency=adjacency
    )
    loss = worst(family, adjacency, kappa, fit, matrix, row_norm)
    assert loss <= EPS * (1 + 1e-6)
    if adjacency == "add_remove":
        assert loss >= EPS * (1 - 3e-4)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("family", "cap"), CAPPED, ids=label)
class TestCapped:
    """Weights under a cap of their own, at scales found for it."""

    @pytest.mark.parametrize("ratio", [0.3, 2.0])
    def test_guarantee_and_tightness(self, family: Family, cap: float, adjacency: str, ratio: float) -> None:
        kappa, ratio = 0.4 / family.curvature_bound, ratio * family.lipschitz / cap
        common = {"curvature_ratio": kappa, "row_norm": 2.0, "adjacency": adjacency, "weight_cap": cap}
        fit, matrix = joint_scales(family, eps=EPS, ratio=ratio, **common)  # type: ignore[arg-type]
        loss = worst(family, adjacency, kappa, fit, matrix, 2.0, cap)
        assert loss <= EPS * (1 + 1e-6)
        if adjacency == "add_remove":
            # The determinant may be extreme where the weight is not: the cells then see both at once.
            assert loss >= EPS * (1 - 3e-4)
        stated = joint_information_loss(family, scale=fit, matrix_scale=matrix, **common)  # type: ignore[arg-type]
        assert stated == pytest.approx(EPS, rel=1e-9)

    def test_what_is_left_beside_the_fit(self, family: Family, cap: float, adjacency: str) -> None:
        """`free_ratio` keeps eps, and uses it up."""
        kappa = 0.1 / family.curvature_bound
        common = {"curvature_ratio": kappa, "row_norm": 1.0, "adjacency": adjacency}
        scale = 1.2 * joint_scale(family, eps=EPS, **common)  # type: ignore[arg-type]
        ratio = free_ratio(family, scale=scale, eps=EPS, weight_cap=cap, **common)  # type: ignore[arg-type]
        assert ratio > 0
        loss = worst(family, adjacency, kappa, scale, scale / ratio, weight_cap=cap)
        assert loss <= EPS * (1 + 1e-6)
        if adjacency == "add_remove":
            assert loss >= EPS * (1 - 1e-3)

    def test_majorant(self, family: Family, cap: float, adjacency: str) -> None:
        """Weights rise no faster than stated above what the curve covers."""
        curve = family.curve(4001)
        weights = curve_weights(family, curve, cap)
        for response in RESPONSES[family.response]:
            for shift in (1e-3, 0.05, 0.4):
                endog = family.clip_response(np.full_like(ETA, response))
                slope = np.abs(family.slope(ETA, endog))
                moved = np.maximum(*(row_weights(family, ETA + side, endog, cap) for side in (-shift, shift)))
                covered = weights[np.minimum(np.searchsorted(curve.gradient, slope), len(curve.gradient) - 1)]
                assert np.all(moved <= covered + majorant_lipschitz(family, cap) * shift + 1e-12)
                assert moved.max() <= weight_bound(family, cap)

    def test_room(self, family: Family, cap: float, adjacency: str) -> None:
        """(L - g) / weight is at least one wherever counts have room at all, whatever it is for l''."""
        if headroom(family) == 0:
            return
        for response in np.linspace(0, 4, 41) if family.response == "count" else RESPONSES[family.response]:
            endog = family.clip_response(np.full_like(ETA, response))
            weights, slope = row_weights(family, ETA, endog, cap), family.slope(ETA, endog)
            least = 1.0 if cap <= family.lipschitz - family.curvature_bound else headroom(family)
            assert np.all(family.lipschitz - np.abs(slope) >= least * weights - 1e-12)


@pytest.mark.parametrize(
    "family",
    [Binomial(), Poisson(2.0, 4.0), Poisson(3.0, 4.0), NegativeBinomial(0.5, 4.0), NegativeBinomial(0.2, 4.0)],
    ids=label,
)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
class TestFree:
    """What is called free leaves eps, exactly, where the fit alone has all of it; a little more does not."""

    def scales(self, family: Family, adjacency: str) -> tuple[float, float, float]:
        kappa = 0.05 / family.curvature_bound * headroom(family)
        scale = joint_scale(family, eps=EPS, curvature_ratio=kappa, row_norm=1.0, adjacency=adjacency)
        free = free_information(family, eps=EPS, curvature_ratio=kappa, row_norm=1.0, adjacency=adjacency)
        rows = 2 if adjacency == "replace_one" else 1
        assert scale == pytest.approx(rows * family.lipschitz / EPS, rel=1e-4)
        assert free == pytest.approx(headroom(family) / scale - kappa, rel=1e-3)
        return kappa, rows * family.lipschitz / EPS, free

    def test_exact_density(self, family: Family, adjacency: str) -> None:
        kappa, scale, free = self.scales(family, adjacency)
        loss = worst(family, adjacency, kappa, scale, 1 / free)
        assert loss <= EPS * (1 + 1e-6)
        if adjacency == "add_remove":
            assert loss >= EPS * (1 - 1e-6)
            assert worst(family, adjacency, kappa, scale, 1 / (1.3 * free + 0.1)) > EPS * (1 + 1e-4)

    def test_bound(self, family: Family, adjacency: str) -> None:
        kappa, scale, free = self.scales(family, adjacency)
        common = {"curvature_ratio": kappa, "row_norm": 1.0, "adjacency": adjacency}
        assert joint_information_loss(family, scale=scale, matrix_scale=1 / free, **common) == pytest.approx(  # type: ignore[arg-type]
            EPS, rel=1e-4
        )
        more = joint_information_loss(family, scale=scale, matrix_scale=1 / (1.3 * free + 0.1), **common)  # type: ignore[arg-type]
        assert more > EPS * (1 + 1e-4)


def test_two_columns_replace_one_is_tight() -> None:
    """Two rows of disjoint columns, l1 noise: each costs as at its own worst point."""
    family, kappa = Binomial(), 0.3
    scale, matrix = joint_scales(
        family, eps=EPS, curvature_ratio=kappa, row_norm=1.0, ratio=2.0, adjacency="replace_one"
    )
    p = np.linspace(0.001, 0.999, 9999)
    cost = p / scale + p * (1 - p) / matrix
    worst_points = p[np.argmax(cost + np.log1p(kappa * p * (1 - p)))], p[np.argmax(cost)]
    params = np.log(np.array(worst_points) / (1 - np.array(worst_points)))[None]
    curvature, rows = np.array([1 / kappa, 1e7]), np.eye(2)
    losses = []
    for signs in itertools.product((-1e3, 1e3), repeat=2):
        linear = -curvature * params[0] - np.array(signs)
        one = Released(family, rows[:1], np.zeros(1), curvature, Noise("laplace", "l1", scale), matrix, 1.0, linear)
        losses.append(worst_log_ratio(one, replace(one, exog=rows[1:]), params))
    assert EPS * (1 - 1e-3) < max(losses) <= EPS * (1 + 1e-6)


class TestClosedForms:
    @pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
    def test_price_beyond_free(self, adjacency: str) -> None:
        """(X / s + A)^2 / (4 A), A = kappa + 1 / s2 >= X / s, up to log(1 + kappa h) <= kappa h."""
        for kappa in (1e-6, 0.3):
            scale, matrix, norm = 1.7, 0.4, 1.2
            loss = joint_information_loss(
                Binomial(), scale=scale, matrix_scale=matrix, curvature_ratio=kappa, row_norm=norm, adjacency=adjacency
            )
            terms = [kappa + 1 / matrix] + [1 / matrix] * (adjacency == "replace_one")
            price = sum((norm / scale + a) ** 2 / (4 * a) for a in terms)
            assert price * (1 - (0.02 if kappa > 0.1 else 1e-5)) <= loss <= price * (1 + 1e-4)

    def test_twice_the_free_amount_costs_an_eighth(self) -> None:
        scale, matrix = joint_scales("binomial", eps=1, curvature_ratio=1e-9, row_norm=1, ratio=2)
        assert scale == pytest.approx(1.125, rel=1e-4)
        assert matrix == pytest.approx(0.5625, rel=1e-4)

    def test_free_amounts(self) -> None:
        common = {"eps": 0.8, "curvature_ratio": 0.1, "row_norm": 2.0}
        assert free_information("binomial", **common) == pytest.approx(0.7)
        assert free_information("binomial", adjacency="replace_one", **common) == pytest.approx(0.3)
        # c / Y of eps: in units of 1 / mean_cap, half and nothing.
        poisson = {"eps": 0.8, "curvature_ratio": 1e-9, "row_norm": 1.0}
        assert 5 * free_information(Poisson(5.0, 10.0), **poisson) == pytest.approx(0.4)
        assert 8 * free_information(Poisson(8.0, 10.0), **poisson) == pytest.approx(0.16)
        assert free_information(Poisson(10.0, 10.0), **poisson) == 0
        assert free_information("binomial", eps=0.1, curvature_ratio=0.2, row_norm=1.0) == 0

    def test_ratio_zero_is_the_fit_alone(self) -> None:
        for family in FAMILIES:
            kappa = 0.3 / family.curvature_bound
            for adjacency in ("add_remove", "replace_one"):
                common = {"eps": 0.7, "curvature_ratio": kappa, "row_norm": 2.0, "adjacency": adjacency}
                alone = joint_scale(family, **common)  # type: ignore[arg-type]
                assert joint_scales(family, ratio=0, **common).fit == pytest.approx(alone, rel=1e-12)  # type: ignore[arg-type]

    def test_scales_and_loss_are_inverse(self) -> None:
        for family in FAMILIES:
            kappa = 0.3 / family.curvature_bound
            for adjacency in ("add_remove", "replace_one"):
                common = {"curvature_ratio": kappa, "row_norm": 2.0, "adjacency": adjacency, "eta_error": 1e-3}
                fit, matrix = joint_scales(family, eps=0.7, ratio=0.5, **common)  # type: ignore[arg-type]
                loss = joint_information_loss(family, scale=fit, matrix_scale=matrix, **common)  # type: ignore[arg-type]
                assert loss == pytest.approx(0.7, rel=1e-9)

    def test_no_curvature(self) -> None:
        assert math.isinf(joint_scales("binomial", eps=0.1, curvature_ratio=10, row_norm=1, ratio=1).fit)

    def test_errors(self) -> None:
        for ratio, moved in ((-1.0, 0.0), (math.nan, 0.0), (1.0, -1.0)):
            with pytest.raises(ArgumentError):
                joint_scales("binomial", eps=1, curvature_ratio=1, row_norm=1, ratio=ratio, eta_error=moved)


@pytest.mark.parametrize("family", FAMILIES, ids=label)
def test_majorant(family: Family) -> None:
    """h2 <= hbar <= hbar + Lip |difference|: no curvature rises faster than stated above what the curve covers."""
    curve = family.curve(4001)
    for response in RESPONSES[family.response]:
        for shift in (1e-3, 0.05, 0.4):
            endog = family.clip_response(np.full_like(ETA, response))
            slope = np.abs(family.slope(ETA, endog))
            moved = np.maximum(*(family.derivatives(ETA + side, endog).curvature for side in (-shift, shift)))
            covered = curve.curvature[np.minimum(np.searchsorted(curve.gradient, slope), len(curve.gradient) - 1)]
            assert np.all(moved <= covered + majorant_lipschitz(family) * shift + 1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=label)
def test_headroom(family: Family) -> None:
    """inf (L - g) / h over the curve, by a fine grid of eta and responses."""
    found = [math.inf]
    for response in np.linspace(0, 4, 41) if family.response == "count" else RESPONSES[family.response]:
        _, slope, curvature = family.derivatives(ETA, family.clip_response(np.full_like(ETA, response)))
        some = curvature > 1e-7
        found.append(float(((family.lipschitz - np.abs(slope[some])) / curvature[some]).min()))
    assert headroom(family) - 1e-6 <= min(found) <= headroom(family) + 2e-3


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    "family", [Binomial(), Poisson(1.0, 4.0), NegativeBinomial(0.5, 4.0), SmoothSVM(0.2)], ids=label
)
def test_information_at_the_released_eta(family: Family, adjacency: str) -> None:
    """Taken within `eta_error` of the optimum's eta: covered if charged, not covered if not."""
    kappa, ratio, error = 0.1 / family.curvature_bound, 4 * family.lipschitz / family.curvature_bound, 0.05
    params = ETA[:, None]

    def moved_worst(charged: float) -> float:
        fit, matrix = joint_scales(
            family,
            eps=EPS,
            curvature_ratio=kappa,
            row_norm=1.0,
            ratio=ratio,
            adjacency=adjacency,
            eta_error=charged,
        )
        return max(
            worst_log_ratio(replace(first, moved=moved), replace(second, moved=moved), params)
            for first, second in pair(family, adjacency, kappa, fit, matrix)
            for moved in (-error, error)
        )

    assert moved_worst(error) <= EPS * (1 + 1e-6)
    # For Poisson with mean_cap < y_max the worst eta is at the cap, beyond which the majorant does not rise.
    if adjacency == "add_remove" and family.signed:
        assert moved_worst(0.0) > EPS * (1 + 1e-3)


class TestPlantedCaps:
    """What a cap of the weights must not be taken for."""

    def test_weights_not_capped(self) -> None:
        """Priced with a cap, and l'' summed."""
        for family, cap in CAPPED:
            kappa, ratio = 0.1 / family.curvature_bound, 2 * family.lipschitz / cap
            fit, matrix = joint_scales(
                family, eps=EPS, curvature_ratio=kappa, row_norm=1.0, ratio=ratio, weight_cap=cap
            )
            assert worst(family, "add_remove", kappa, fit, matrix) > EPS * 1.05

    def test_the_determinant_is_not_capped(self) -> None:
        """The cap is the matrix's: the fit's Jacobian has all of l''."""
        family, cap, kappa = Poisson(3.0, 3.0), 0.1, 0.3
        fit, matrix = joint_scales(family, eps=EPS, curvature_ratio=kappa * cap / 3.0, row_norm=1.0, ratio=0.1)
        assert worst(family, "add_remove", kappa, fit, matrix, weight_cap=cap) > EPS * 1.05

    def test_the_tail_is_not_steeper_than_stated(self) -> None:
        """Room of one where mean_cap is three quarters of y_max, and weights that fall as l'' does beyond it."""
        family, cap = Poisson(3.0, 4.0), 1.0
        assert headroom(family) == pytest.approx(1 / 3)
        kappa = 1e-3
        common = {"eps": EPS, "curvature_ratio": kappa, "row_norm": 1.0}
        scale = 1.001 * joint_scale(family, **common)
        ratio = free_ratio(family, scale=scale, weight_cap=cap, **common)
        assert ratio > 0.9
        assert worst(family, "add_remove", kappa, scale, scale / ratio, weight_cap=cap) <= EPS * (1 + 1e-6)
        plain = min(family.curvature_bound, cap)
        losses = []
        for first, second in pair(family, "add_remove", kappa, scale, scale / ratio, weight_cap=cap):
            params = ETA[:, None]
            weights = np.minimum(family.weight(ETA, np.full_like(ETA, first.endog[0])), plain)
            moved = np.abs(first.fit.log_density(params) - second.fit.log_density(params))
            losses.append(float((moved + weights * ratio / scale).max()))
        assert max(losses) > EPS * 1.05

    def test_the_gradient_at_another_cap(self) -> None:
        """A cap chosen after the noise was fixed: twice as large costs more than was charged."""
        family, cap, kappa = Poisson(2.0, 4.0), 0.5, 0.1
        fit, matrix = joint_scales(family, eps=EPS, curvature_ratio=kappa, row_norm=1.0, ratio=8.0, weight_cap=cap)
        assert worst(family, "add_remove", kappa, fit, matrix, weight_cap=cap) <= EPS * (1 + 1e-6)
        assert worst(family, "add_remove", kappa, fit, matrix, weight_cap=2 * cap) > EPS * 1.05


class TestPlanted:
    def test_free_claimed_for_a_huber_svm(self) -> None:
        for family in (HuberSVM(0.5), Gaussian(0.5), Poisson(3.0, 3.0)):
            kappa = 0.4 / family.curvature_bound
            scale = joint_scale(family, eps=EPS, curvature_ratio=kappa, row_norm=1.0)
            claimed = 0.3 / family.curvature_bound
            assert free_information(family, eps=EPS, curvature_ratio=kappa, row_norm=1.0) == 0
            assert worst(family, "add_remove", kappa, scale, 1 / claimed) > EPS * 1.2

    def test_information_at_another_eta(self) -> None:
        """The fit's gradient at one eta, the information at another, where it is not small."""
        kappa, family = 0.2, Binomial()
        free = free_information(family, eps=EPS, curvature_ratio=kappa, row_norm=1.0)
        params = ETA[:, None]
        losses = [
            worst_log_ratio(replace(first, moved=-6.0), replace(second, moved=-6.0), params)
            for first, second in pair(family, "add_remove", kappa, 1 / EPS, 1 / free)
        ]
        assert max(losses) > EPS * 1.1

    def test_curvature_bound_forgotten(self) -> None:
        """The matrix charged 1 / s2 where its weights reach mean_cap = 3."""
        family = Poisson(3.0, 3.0)
        fit, _ = joint_scales(family, eps=EPS, curvature_ratio=0.1, row_norm=1.0, ratio=0.5)
        assert worst(family, "add_remove", 0.1, fit, 1 / 0.5) > EPS * 1.2

    def test_one_row_charged_for_two(self) -> None:
        family, kappa = HuberSVM(0.5), 0.1
        fit, matrix = joint_scales(family, eps=EPS, curvature_ratio=kappa, row_norm=1.0, ratio=0.5)
        assert worst(family, "replace_one", kappa, fit, matrix) > EPS * 1.05

    def test_coefficients_released_after_the_matrix(self) -> None:
        """The information at the optimum without noise, which the record itself moves, and all others' weights with it.

        400 rows where the curvature changes fastest. In the right order the same pair keeps eps: the information is
        taken where the coefficients were released, the same place for both data sets.
        """
        family, kappa, count = Binomial(), 0.4, 400
        fit, matrix = joint_scales(family, eps=EPS, curvature_ratio=kappa, row_norm=1.0, ratio=2.0)
        endog = np.r_[np.ones(316), np.zeros(84)]
        small = Released(
            family,
            np.ones((count, 1)),
            endog,
            np.array([1 / kappa]),
            Noise("laplace", "l2", fit),
            matrix,
            1.0,
            np.zeros(1),
        )
        large = replace(small, exog=np.ones((401, 1)), endog=np.r_[endog, 0.0])
        params = np.linspace(-8, 8, 4001)[:, None]
        assert worst_log_ratio(small, large, params) <= EPS * (1 + 1e-6)
        weights = []
        for data in (small, large):
            # The optimum is where the noise that explains it is zero: a bisection on the gradient.
            low, high = -5.0, 5.0
            for _ in range(80):
                middle = (low + high) / 2
                gradient = np.sum(special.expit(middle * data.exog[:, 0]) - data.endog) + middle / kappa
                low, high = (middle, high) if gradient < 0 else (low, middle)
            weights.append(float(data.information(np.array([[middle]]))[0, 0, 0]))
        coefficients = np.abs(small.fit.log_density(params) - large.fit.log_density(params)).max()
        assert coefficients + abs(weights[0] - weights[1]) / matrix > EPS * 1.1

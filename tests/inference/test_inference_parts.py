"""The parts of inference: matrix noise, inverse, laws, duality, joint tests, the bound on the noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special

from benchmarks.inference.entry_noise import project, symmetric_normal, wishart_difference
from dpstats.errors import ArgumentError
from dpstats.inference import (
    Estimates,
    MatrixLaw,
    ModelSpread,
    NormalLaw,
    ReleasedLaw,
    RobustSpread,
    identify,
    noise_bound,
    self_consistent_inverse,
    wald_test,
)
from dpstats.inference.inverse import least_identified
from dpstats.inference.noise_laws import simulated_draws, standard_laws
from dpstats.inference.table import _with_diagonal, simulated_tail, standardised_law
from dpstats.privacy.k_norm import ball, box, cross, intercept, k_norm_noise, simplex, unit_images
from dpstats.privacy.noise import Noise


def wisharts(scale: float, shape: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Draws of the difference, shape (count, p, p)."""
    size = len(shape)
    first, second = np.random.default_rng(seed).standard_normal((2, count, size, size + 1))
    root = np.sqrt(np.outer(shape, shape))
    return scale / 2 * (first @ first.swapaxes(1, 2) - second @ second.swapaxes(1, 2)) * root


def random_matrix(seed: int, size: int, level: float) -> np.ndarray:
    random = np.random.default_rng(seed)
    factor = random.normal(size=(size, size))
    return factor + factor.T + level * np.diag(np.exp(random.normal(size=size)))


@pytest.mark.parametrize("projected", [False, True])
def test_second_moments(projected: bool) -> None:
    """S(A) and Var(g'Em) against 200,000 draws: every entry within six standard errors."""
    shape = np.array([1.0, 0.5, 2.0, 1.5])
    draws, law = wisharts(1.3, shape, 200_000, 1), wishart_difference(1.3, shape)
    if projected:
        zeros, ties = [(2, 3)], [(0, 2, 1.0), (0, 3, 0.5)]
        draws = np.array([project(draw, law, zeros, ties)[0] for draw in draws[:20_000]])
        law = project(draws[0], law, zeros, ties)[1]
    matrix = random_matrix(2, 4, 3.0)
    products = draws @ matrix @ draws
    errors = products.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(products.mean(axis=0) - law.square(matrix)) <= 6 * errors)
    left, right = np.random.default_rng(3).normal(size=(2, 5, 4))
    forms = np.einsum("ki,nij,kj->nk", left, draws, right)
    assert law.bilinear(left, right) == pytest.approx(forms.var(axis=0), rel=0.1)
    expected = [g @ law.square(np.outer(m, m)) @ g for g, m in zip(left, right, strict=True)]
    assert law.bilinear(left, right) == pytest.approx(expected)
    kept = np.array([0, 3])
    wide = np.zeros((4, 4))
    wide[np.ix_(kept, kept)] = matrix[:2, :2]
    inner = law.restrict(kept).square(matrix[:2, :2])
    assert inner == pytest.approx(law.square(wide)[np.ix_(kept, kept)])
    # Without its base a tied entry is an entry like others.
    kept = np.array([1, 2, 3])
    wide[:] = 0
    wide[1:, 1:] = matrix[:3, :3]
    assert law.restrict(kept).square(matrix[:3, :3]) == pytest.approx(law.square(wide)[1:, 1:])


def test_symmetric_normal_is_of_the_same_form() -> None:
    """Var E_jj = s^2, Var E_jk = s^2 / 2."""
    variances = symmetric_normal(3.0, np.array([1.0, 2.0])).variances
    assert variances.tolist() == [[9, 9], [9, 36]]
    assert wishart_difference(2.0, np.ones(2)).variances.tolist() == [[12, 6], [6, 12]]


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from([0.0, -1, -30, -3000, 3000]))
@example(37201454, 1, -3000.0)
def test_self_consistent_inverse(seed: int, size: int, level: float) -> None:
    """The equation holds, G is positive definite, from another start too, whatever the matrix is."""
    matrix = random_matrix(seed, size, level)
    law = wishart_difference(0.7, np.exp(np.random.default_rng(seed).normal(size=size)))
    inverse = self_consistent_inverse(matrix, law)
    assert np.linalg.eigvalsh(inverse)[0] > 0
    cancelled = float(np.abs(matrix @ inverse).max())
    assert residual(inverse, matrix, law) < max(1e-4, 1e-14 * cancelled)
    # The function is convex, so the solution is unique.
    other = self_consistent_inverse(matrix, law, start=2 * np.diag(np.diag(inverse)))
    assert other == pytest.approx(inverse, rel=1e-4, abs=1e-8)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(3, 7), st.sampled_from([0.0, 5, -1, -30, 100]))
def test_projected_matrices(seed: int, size: int, level: float) -> None:
    """Whatever a projected matrix is, what `identify` keeps has its equation solved."""
    matrix = random_matrix(seed, size, level)
    zeros = [(i, j) for i in range(1, size) for j in range(1, i)]
    matrix, law = project(matrix, wishart_difference(0.7, np.ones(size)), zeros, [(0, j, 1.0) for j in range(1, size)])
    found = identify(matrix, law)
    if found.active.any():
        kept = np.flatnonzero(found.active)
        assert residual(found.inverse, matrix[np.ix_(kept, kept)], found.law) < 1e-4


def residual(inverse: np.ndarray, matrix: np.ndarray, law: MatrixLaw) -> float:
    """How far L'(H + S(G))L is from the identity, G = LL'."""
    root = np.linalg.cholesky(inverse)
    return float(np.abs(root.T @ (matrix + law.square(inverse)) @ root - np.eye(len(matrix))).max())


@pytest.mark.slow
def test_inverse_undoes_the_bias_of_inverses() -> None:
    """E (H + E)^-1 is above H^-1 by many s.e. here; the self-consistent one's mean is closer by a factor of five."""
    exact, shape = np.array([[40.0, 8], [8, 30]]), np.ones(2)
    law = wishart_difference(2.0, shape)
    found, plain = [], []
    for draw in wisharts(2.0, shape, 4000, 5):
        found.append(self_consistent_inverse(exact + draw, law))
        plain.append(np.linalg.inv(exact + draw))
    target = np.linalg.inv(exact)
    ours, theirs = (np.abs(np.mean(values, axis=0) - target).max() for values in (found, plain))
    assert ours < theirs / 5


@pytest.mark.slow
def test_noise_in_the_debiasing_part_is_taken_off() -> None:
    """Its mean is the variance of the debiasing's error, above which the plug-in value is by 8, 9 and 4 %.

    The information's t-ratios are 10, 8 and 18. The error's variance is measured beside that of its linear part,
    which is known: over 12 seeds the ratios have standard deviations of .010, .010 and .005, so the limit is four.
    """
    exact, pulled, count = np.array([[40.0, 12, 5], [12, 30, -4], [5, -4, 50]]), np.array([3.0, -2, 4]), 4000
    law, inverse = symmetric_normal(3.0, np.ones(3)), np.linalg.inv(exact)
    raw = 3.0 / np.sqrt(2) * np.random.default_rng(11).standard_normal((count, 3, 3))
    draws = (raw + raw.transpose(0, 2, 1)) / np.sqrt(2)
    errors, ours, plain = np.empty((3, count, 3))
    for at, draw in enumerate(draws):
        released = Estimates(pulled, exact + draw, np.eye(3), NormalLaw(np.eye(3)), law, ModelSpread())
        parts = released.parts(np.eye(3))
        errors[at] = released.correction - inverse @ pulled
        ours[at], plain[at] = parts.debiasing, parts.debiasing / parts.debiasing_left
    shift = inverse @ pulled
    linear = np.diag(inverse @ law.square(np.outer(shift, shift)) @ inverse)
    true = linear * errors.var(axis=0) / (draws @ shift @ inverse).var(axis=0)
    assert ours.mean(axis=0) / true == pytest.approx(1, abs=0.04)
    assert plain.mean(axis=0) / true == pytest.approx([1.08, 1.09, 1.04], abs=0.04)


def test_identify_drops_the_least_first() -> None:
    """One at a time: what is dropped changes the others' information."""
    information = np.diag([100.0, 3, 2, 200])
    found = identify(information, wishart_difference(1.5, np.ones(4)))
    assert found.active.tolist() == [True, False, False, True]
    assert np.all(found.ratios[found.active] >= 2)
    assert np.all(found.ratios[~found.active] < 2)
    again = self_consistent_inverse(
        np.diag([100.0, 200]), wishart_difference(1.5, np.ones(4)).restrict(np.array([0, 3]))
    )
    assert found.inverse == pytest.approx(again)
    assert not identify(-information, wishart_difference(1.5, np.ones(4))).active.any()


def test_a_column_hardly_told_apart_from_the_constant_goes_before_it() -> None:
    """Of a number that fills a hundredth of its range and the intercept the intercept went: the number stood in for it,
    and of 40 intervals of its slope 2 covered."""
    law, own = wishart_difference(1.5, np.ones(3)), np.array([200.0, 300.0, 205.0])
    for correlation, constants, gone in (
        (0.99, (0,), 2),
        (0.955, (0,), 2),
        (0.94, (0,), 0),
        (0.99, (), 0),
        (0.99, (2,), 0),
    ):
        information = np.diag(own)
        information[0, 2] = information[2, 0] = correlation * np.sqrt(own[0] * own[2])
        found = identify(information, law, 20.0, constants)
        assert found.active.tolist() == [place != gone for place in range(3)]
    # Entries that are noise tell nothing: the least of both is to be ten of its standard deviations.
    alike = np.array([[1.0, 0.99], [0.99, 1.01]])
    deviations, kept = np.ones(2), np.arange(2)
    for size, gone in ((11.0, 1), (9.0, 0)):
        assert least_identified(size * alike, deviations, kept, 0, (0,), solved=True) == gone


def test_each_equation_has_a_constant_of_its_own() -> None:
    """Columns are those of two equations in turn: the constants are the columns 0 and 1, a number 2 and 3."""
    deviations, kept = np.ones(4), np.arange(4)
    near = np.kron([[1.0, 0.99], [0.99, 1.0]], np.diag([200.0, 300.0]))
    for worst, constants, gone in ((0, (0, 1), 2), (1, (0, 1), 3), (2, (0, 1), 2), (1, (), 1), (0, (1, 0), 2)):
        assert least_identified(near, deviations, kept, worst, constants, solved=True) == gone
    # A number of the other equation does not stand in for a constant: here 3 is as near to 0 as 2 was.
    across = near[np.ix_([0, 1, 3, 2], [0, 1, 3, 2])]
    assert least_identified(across, deviations, kept, 0, (0, 1), solved=True) == 0
    # Without a solution all equations are concerned.
    second = near.copy()
    second[0, 2] = second[2, 0] = 0.0
    assert least_identified(second, deviations, kept, 0, (0, 1), solved=True) == 0
    assert least_identified(second, deviations, kept, 0, (0, 1), solved=False) == 3
    # Of the columns that are left the places count.
    assert least_identified(near, deviations, np.array([1, 3]), 0, (0, 1), solved=True) == 1


def test_inflations() -> None:
    """H_jj G_jj where each coefficient was left: large beside a column like it, 1 alone, and the same in any units."""
    information = 200 * np.array([[1, 0.99, 0], [0.99, 1.01, 0], [0, 0, 0.5]])
    units = np.array([1.0, 10.0, 0.1])
    found = identify(information, wishart_difference(1.5, np.ones(3)))
    other = identify(information * np.outer(units, units), wishart_difference(1.5, units**2))
    assert found.active.tolist().count(False) == 1
    whole = self_consistent_inverse(information, wishart_difference(1.5, np.ones(3)))
    dropped = int(np.argmin(found.active))
    assert found.inflations[dropped] == pytest.approx((information * whole)[dropped, dropped])
    assert found.inflations[dropped] > 20
    assert np.all(found.inflations >= 1)
    assert found.inflations[found.active] == pytest.approx(1, abs=0.02)
    assert other.inflations == pytest.approx(found.inflations)


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise",
    [
        Noise("laplace", "l1", 2.0),
        Noise("laplace", "l2", 2.0),
        Noise("laplace", "linf", 2.0),
        Noise("gaussian", "l2", 2.0),
        k_norm_noise(unit_images([intercept(), box(2), simplex(4), simplex(2), ball(3), cross(2)]), 1.3),
        k_norm_noise(unit_images([intercept(), simplex(2), simplex(4)]), 0.7),
    ],
    ids=["l1", "l2", "linf", "gaussian", "body", "hull"],
)
def test_draws_have_the_law(noise: Noise) -> None:
    """Covariances of 400,000 draws against exact ones: each within six standard errors; and the gauge's law."""
    size = getattr(noise, "size", 3)
    law = ReleasedLaw(noise, np.linspace(1, 2, size))
    draws = law.draws(400_000, np.random.default_rng(8))
    exact, fourth = law.covariance, np.einsum("ni,nj->ij", draws**2, draws**2) / len(draws)
    errors = np.sqrt((fourth - exact**2) / len(draws))
    assert np.all(np.abs(draws.T @ draws / len(draws) - exact) <= 6 * errors)
    if size == 7:  # The hull: gauge Gamma(7), which the covariance alone would not show.
        single = noise.bodies[0].gauge(draws * law.shape) / noise.scale if len(noise.bodies) == 1 else None
        assert single is not None
        assert np.mean(single <= 7) == pytest.approx(special.gammainc(7, 7), abs=0.005)


def test_laplace_quantiles() -> None:
    """All noise: the Laplace law, 2.118 standard deviations at 95 %, not 1.96; and no floor of p-values."""
    law = ReleasedLaw(Noise("laplace", "l1", 3.0), np.ones(2))
    found = standard_laws(np.eye(2), np.array([0.0, 1.0]), law, simulated_draws(law))
    assert found.quantile(0.05) == pytest.approx([1.95996, np.log(20) / np.sqrt(2)], rel=0.03)
    assert found.quantile(0.01) == pytest.approx([2.57583, np.log(100) / np.sqrt(2)], rel=0.06)
    assert found.chances.sum(axis=1) + found.upper == pytest.approx(1)
    for bound in (8.0, 15.0):
        tail = found.tail(np.full(2, bound))
        assert tail[0] == pytest.approx(2 * special.ndtr(-bound), rel=1e-9)
        assert np.log(tail[1]) == pytest.approx(-np.sqrt(2) * bound, rel=0.15)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(0.001, 0.6), st.floats(0, 1), st.booleans())
def test_intervals_grow_and_are_dual_to_pvalues(seed: int, alpha: float, where: float, laplace: bool) -> None:
    """Wider for smaller alpha; p <= alpha iff the null is outside."""
    random = np.random.default_rng(seed)
    factor = random.normal(size=(3, 3))
    law = ReleasedLaw(Noise("laplace", "l1", 2.0), np.ones(3)) if laplace else NormalLaw(4 * np.eye(3))
    spread = ModelSpread(1.0, random.uniform(0, 0.5))
    noise = wishart_difference(random.uniform(0.2, 2), np.ones(3))
    estimates = Estimates(
        random.normal(size=3), 20 * factor @ factor.T + 5 * np.eye(3), 3 * np.eye(3), law, noise, spread
    )
    found = estimates.contrasts(np.concatenate((np.eye(3), random.normal(size=(2, 3)))))
    half, wider = found.half_width(alpha), found.half_width(alpha * 0.9)
    assert np.all(wider >= half)
    steps = np.where(np.isfinite(half), half, 1.0)
    for distance in (0.999 * where, 1 + 1e-6 + 2 * where, 1 - 1e-9, 1 + 1e-9):
        null = found.estimates + distance * steps
        low, high = found.conf_int(alpha).T
        outside = (null < low) | (null > high)
        assert (found.pvalues(null) <= alpha).tolist() == outside.tolist()


@pytest.mark.parametrize("normal", [True, False])
def test_joint_test_of_one_is_its_interval(normal: bool) -> None:
    law = NormalLaw(9 * np.eye(2)) if normal else ReleasedLaw(Noise("laplace", "l1", 2.0), np.ones(2))
    information, noise = np.array([[60.0, 10], [10, 40]]), wishart_difference(1.25, np.ones(2))
    estimates = Estimates(np.array([0.5, -0.3]), information, 4 * np.eye(2), law, noise, ModelSpread())
    found = estimates.contrasts(np.eye(2))
    edge = found.estimates + found.half_width(0.05)
    for row in range(2):
        tested = wald_test(estimates, np.eye(2)[row], edge[row])
        assert tested.df == 1
        assert tested.pvalue == pytest.approx(0.05, rel=1e-6 if normal else 0.2)
    twice = wald_test(estimates, [[1, 0], [2, 0], [0, 1]])
    assert twice.df == 2
    joint = standardised_law(estimates, np.eye(2))
    draws = joint.simulate(law.draws(100_000, np.random.default_rng(4)))
    assert np.cov(draws.T) == pytest.approx(joint.correlation, abs=0.04)
    assert np.diag(joint.correlation) == pytest.approx(1)


@pytest.mark.parametrize("signs", [[1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, -1]])
@pytest.mark.parametrize("correlation", [0.0, 0.95])
def test_joint_tests_hold_whatever_correlations_are_not_released(correlation: float, signs: list[int]) -> None:
    """Of 600 estimates at most 48 are rejected at .05, as by a test of that level but for 1 chance in 1,000.

    The information has no correlations: a test by these rejected 89 where the estimates have some.
    """
    size, law = len(signs), NormalLaw(1e-4 * np.eye(6))
    truth = np.outer(signs, signs) * correlation + (1 - correlation) * np.eye(size)
    spread = RobustSpread(np.full(size, 1e-3), np.full(size, 1e-9))
    noise, random, tests = wishart_difference(1e-3, np.ones(size)), np.random.default_rng(7), []
    for coef in random.multivariate_normal(np.zeros(size), truth / 1000, 600):
        estimates = Estimates(coef, np.eye(size) * 1000, 1e-6 * np.eye(size), law, noise, spread)
        tests.append(wald_test(estimates, np.eye(size)))
    assert sum(one.pvalue <= 0.05 for one in tests) <= 48
    single = estimates.contrasts(np.eye(size)).pvalues()
    assert tests[-1].pvalue == pytest.approx(min(1.0, size * single.min()))
    assert tests[-1].bonferroni
    assert tests[-1].df == size
    # One combination has its own test, and combinations that follow from others are no further degree of freedom.
    one, twice = np.eye(size)[0], np.array([1.0, 2.0, 1.0])[:, None] * np.eye(size)[[0, 0, 1]]
    assert not wald_test(estimates, one).bonferroni
    assert wald_test(estimates, one).pvalue == pytest.approx(single[0])
    assert wald_test(estimates, twice).df == 2


@pytest.mark.slow
def test_noise_at_most() -> None:
    """The bounds hold for the deviation that noise alone gives a logistic fit, and are reached without rows."""
    random = np.random.default_rng(6)
    curvature, shape = np.diag([2.0, 1, 3]), np.array([1.0, 2, 0.5])
    law = ReleasedLaw(Noise("laplace", "l1", 1.5), shape)
    bound = noise_bound(law.covariance, curvature)
    weights = np.diag(law.covariance) / np.diag(curvature)
    assert np.all(bound <= np.sqrt(weights.max() / np.diag(curvature)) * (1 + 1e-12))
    alone = np.sqrt(np.diag(law.covariance)) / np.diag(curvature)
    assert np.all(alone <= bound * (1 + 1e-12))
    assert bound[np.argmax(weights)] == pytest.approx(alone[np.argmax(weights)])
    every = noise_bound(law.covariance, curvature, reading="any")
    assert np.all(noise_bound(law.covariance, curvature, reading="l1") <= every)
    exog, endog = random.uniform(-1, 1, (40, 3)), random.integers(0, 2, 40)
    fits = []
    for noise in law.draws(2000, random):
        theta = np.zeros(3)
        for _ in range(40):
            mean = special.expit(exog @ theta)
            hessian = (exog.T * (mean * (1 - mean))) @ exog + curvature
            step = np.linalg.solve(hessian, exog.T @ (mean - endog) + curvature @ theta + noise)
            theta = theta - step / max(1, np.abs(step).max())
        fits.append(theta)
    assert np.all(np.std(fits, axis=0) <= every)
    assert np.all(np.std(fits, axis=0) <= bound)
    assert noise_bound(np.eye(1), np.eye(1) * 4, reading="any") == pytest.approx([0.25])
    rows = np.array([[1.0, -1, 0]])
    assert noise_bound(law.covariance, curvature, rows)[0] <= bound[0] + bound[1]
    with pytest.raises(ArgumentError):
        noise_bound(np.eye(2), -np.eye(2))


def test_joint_p_values_have_no_floor() -> None:
    """The tail of |Z| against exact ones: Laplace, normal, and one of each, whose tail is Laplace's in the end."""
    random = np.random.default_rng(0)
    laplace, normal = random.laplace(scale=0.5**0.5, size=(2, 10_000)), random.normal(size=(2, 10_000))
    for length in (2.0, 5.0, 9.0):
        exact = np.exp(-(2**0.5) * length)
        assert exact / 2 <= simulated_tail(np.abs(laplace[0]), length) <= 3 * exact
    assert simulated_tail(np.abs(normal[0]), 1.96) == pytest.approx(0.05, abs=0.01)
    for length in (4.0, 6.0):
        assert simulated_tail(np.hypot(*normal), length) >= np.exp(-(length**2) / 2)
        # P(L^2 + N^2 >= r^2) by an integral over the normal part.
        nodes = np.linspace(-length, length, 4001)
        inner = np.exp(-((2 * (length**2 - nodes**2)) ** 0.5) - nodes**2 / 2) / (2 * np.pi) ** 0.5
        exact = float(np.sum(inner) * (nodes[1] - nodes[0])) + 2 * special.ndtr(-length)
        assert exact <= simulated_tail(np.hypot(laplace[0], normal[0]), length) <= 20 * exact
    tails = [simulated_tail(np.hypot(*laplace), length) for length in np.linspace(0, 30, 200)]
    assert np.all(np.diff(tails) <= 0)
    assert tails[-1] < 1e-12


def test_a_variance_of_roundings_alone_is_no_negative_one():
    """At an eps of 1e14 the noise is beyond the last digit of what it is computed from."""
    covariance = np.array([[-1e-45, 1e-45, 0.0], [1e-45, 4.0, 1.0], [0.0, 1.0, 9.0]])
    scaled = _with_diagonal(covariance, np.array([1e-40, 1.0, 1.0]))
    assert np.diag(scaled) == pytest.approx([1e-40, 1.0, 1.0])
    assert scaled[1, 2] == pytest.approx(1 / 6)
    assert scaled[0, 1] == 0


def test_noise_hides_distances_from_the_centre_and_not_coefficients() -> None:
    """Sums of residuals have noise times the distance from the first fit: where that lies does not matter."""
    information = random_matrix(3, 3, 1.0) + 3 * np.eye(3)
    law, zero = wishart_difference(0.3, np.ones(3)), np.zeros((3, 3))

    def attenuation(coef: np.ndarray, centre: np.ndarray) -> np.ndarray:
        found = Estimates(
            coef, information, zero, NormalLaw(0.01 * np.eye(3)), law, ModelSpread(1.0), 50.0, centre=centre
        )
        return found.contrasts(np.eye(3)).attenuation

    away, centre = np.array([0.3, -0.2, 0.5]), np.array([40.0, -7.0, 3.0])
    np.testing.assert_allclose(attenuation(away + centre, centre), attenuation(away, np.zeros(3)))
    assert np.all(attenuation(away + centre, centre)[:2] < attenuation(away + centre, np.zeros(3))[:2] / 10)

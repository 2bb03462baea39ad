"""The information on the way from the shrunken to the debiased coefficients."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from benchmarks.inference.entry_noise import wishart_difference
from dpstats.families import NegativeBinomial
from dpstats.inference import Dummies, Identified, JointValues, MeanFunction, average_along_path
from dpstats.inference.debiasing_path import moment_matched_rows, path_average, perturb_information, value_chances

Float = NDArray[np.float64]

COEF = np.array([0.3, 1.2, -1.5, 0.9, -1.1])
"""Of an intercept, the dummies of two factors (three levels and two), and a number."""

FACTORS = (Dummies(0, 1.0, (1, 2), (0.5, 0.5)), Dummies(0, 1.0, (3,), (1.0,)))
LOGISTIC = MeanFunction(special.expit, lambda eta, endog: special.expit(eta) * special.expit(-eta))

FAMILY = NegativeBinomial(0.5, 1e9)
COUNTS = MeanFunction(FAMILY.mean, FAMILY.weight, FAMILY.slope)


def draw(count: int, seed: int = 1) -> Float:
    """Rows with a rare level, a factor and a number that depend on each other; shape (count, 5)."""
    random = np.random.default_rng(seed)
    level = random.choice(3, count, p=(0.6, 0.37, 0.03))
    other = random.random(count) < np.array([0.3, 0.7, 0.5])[level]
    number = np.clip(0.3 * random.standard_normal(count) + 0.2 * other, -1, 1)
    return np.column_stack((np.ones(count), 0.5 * (level == 1), 0.5 * (level == 2), other, number)).astype(float)


def weights_of(rows: Float, coef: Float, truth: Float, response: MeanFunction = LOGISTIC) -> Float:
    """l'' at the mean response."""
    return response.weight(rows @ coef, response.mean(rows @ truth))


def information_of(rows: Float, coef: Float, truth: Float | None = None, response: MeanFunction = LOGISTIC) -> Float:
    weights = weights_of(rows, coef, coef if truth is None else truth, response)
    return np.asarray((rows * weights[:, None]).T @ rows)


def shrunken(rows: Float, truth: Float, ridge: float, response: MeanFunction = LOGISTIC) -> Float:
    """The minimum of the expected loss plus ridge / 2 times the squared length."""
    coef = np.zeros(len(truth))
    for _ in range(200):
        eta, endog = rows @ coef, response.mean(rows @ truth)
        left = response.mean(eta) - endog if response.slope is None else response.slope(eta, endog)
        slope = rows.T @ left + ridge * coef
        information = information_of(rows, coef, truth, response)
        coef = coef - 0.5 * np.linalg.solve(information + ridge * np.eye(len(truth)), slope)
    return coef


@pytest.fixture(scope="module")
def case() -> tuple[Float, Float, Float, float]:
    """Rows, the truth, the shrunken coefficients and the ridge."""
    rows, truth, ridge = draw(20_000), 2 * COEF, 300.0
    return rows, truth, shrunken(rows, truth, ridge), ridge


def identified(information: Float, active: NDArray[np.bool_] | None = None) -> Identified:
    """As if the information had no noise."""
    active = np.ones(len(information), dtype=bool) if active is None else active
    inverse = np.linalg.inv(information[np.ix_(active, active)])
    law = wishart_difference(1e-9, np.ones(len(inverse)))
    return Identified(active, inverse, np.full(len(information), 1e9), np.ones(len(information)), law)


@pytest.mark.slow
@pytest.mark.parametrize("response", [LOGISTIC, COUNTS], ids=["logistic", "negative binomial"])
def test_with_the_rows_themselves_the_shrinkage_is_undone(
    case: tuple[Float, Float, Float, float], response: MeanFunction
) -> None:
    """Without noise M theta = H (theta_0 - theta) for the average H on the way, exactly; one step is far from it."""
    rows, truth, _, ridge = case
    coef = shrunken(rows, truth, ridge, response)
    information = information_of(rows, coef, truth, response)
    mass = weights_of(rows, coef, truth, response)
    weighted = rows * np.sqrt(mass)[:, None]
    plain = coef + np.linalg.solve(information, ridge * coef)
    # `path_average` takes rows of equal weight: each row as often as it weighs.
    random = np.random.default_rng(2)
    chosen = rows[random.choice(len(rows), 200_000, p=mass / mass.sum())]
    change = path_average(chosen, mass.sum() / 200_000, information, coef, ridge * coef, response)
    found = perturb_information(identified(information), information, change)
    second = coef + found.inverse @ (ridge * coef)
    sizes = np.sqrt(np.diag(np.linalg.inv(weighted.T @ weighted)))
    first_miss, second_miss = np.abs(plain - truth) / sizes, np.abs(second - truth) / sizes
    assert first_miss.max() > 1.0
    assert second_miss.max() < 0.1


@pytest.mark.parametrize(
    ("response", "most", "without"),
    [(LOGISTIC, 0.25, 4.0), (COUNTS, 0.4, 1.0)],
    ids=["logistic", "negative binomial"],
)
def test_made_up_rows_do_as_well(
    case: tuple[Float, Float, Float, float], response: MeanFunction, most: float, without: float
) -> None:
    rows, truth, _, ridge = case
    coef = shrunken(rows, truth, ridge, response)
    information = information_of(rows, coef, truth, response)
    found = average_along_path(identified(information), coef, ridge * coef, response, (0, 1.0), FACTORS)
    sizes = np.sqrt(np.diag(np.linalg.inv(information)))
    miss = np.abs(coef + found.inverse @ (ridge * coef) - truth) / sizes
    assert miss.max() < most
    plain = coef + np.linalg.solve(information, ridge * coef)
    assert (np.abs(plain - truth) / sizes).max() > without


def test_made_up_rows_have_the_moments_and_the_levels() -> None:
    """4096 rows: a share has a standard error of at most 0.008, by ranks that are spread evenly less."""
    rows = draw(50_000)
    information = 7.0 * rows.T @ rows
    made, mass = moment_matched_rows(information, 0, 1.0, FACTORS)
    assert made.shape == (4096, 5)
    assert mass * len(made) == pytest.approx(7 * len(rows))
    np.testing.assert_allclose(made.T @ made / len(made), rows.T @ rows / len(rows), atol=0.02)
    assert set(np.unique(made[:, 1])) == {0.0, 0.5}
    assert not np.any(made[:, 1] * made[:, 2])


def squares(count: int, seed: int = 1) -> Float:
    """Rows with a skewed number of a range that excludes zero and its square, and a number that goes with both."""
    random = np.random.default_rng(seed)
    age = np.clip(17 + random.gamma(2.5, 9, count), 17, 90)
    other = np.clip(0.3 * random.standard_normal(count) + 0.005 * (age - 40), -1, 1)
    return np.column_stack((np.ones(count), *units(age).T, other))


def units(age: Float) -> Float:
    return np.column_stack(((age - 53.5) / 36.5, (age**2 - 4194.5) / 3905.5))


def test_a_number_and_its_square_are_made_up_together() -> None:
    """Normal rows leave 8 standard errors of the shrinkage; without noise values leave less than one."""
    rows, ridge = squares(20_000), 20.0
    truth = np.array([-1.4, 11.9, -12.3, 1.0])
    coef = shrunken(rows, truth, ridge)
    information = information_of(rows, coef)
    sizes = np.sqrt(np.diag(np.linalg.inv(information)))
    together = (JointValues((1, 2), units(np.linspace(17, 90, 2001))),)
    misses = []
    for values in ((), together):
        found = average_along_path(identified(information), coef, ridge * coef, LOGISTIC, (0, 1.0), (), together=values)
        misses.append(float((np.abs(coef + found.inverse @ (ridge * coef) - truth) / sizes).max()))
    assert misses[1] < 1.0 < misses[0]


def test_values_have_the_moments_that_they_can_have() -> None:
    """Chances of values have the mean and covariance of a law on them, and are refused where none has them."""
    points = units(np.linspace(17, 90, 2001))
    law = units(squares(20_000)[:, 1] * 36.5 + 53.5)
    chances = value_chances(points, law.mean(axis=0), np.cov(law.T))
    assert chances is not None
    np.testing.assert_allclose(chances @ points, law.mean(axis=0), atol=0.01)
    away = points - chances @ points
    np.testing.assert_allclose((away * chances[:, None]).T @ away, np.cov(law.T), atol=0.01)
    assert value_chances(points, law.mean(axis=0), 1e-6 * np.eye(2)) is None, "no value is so near to this mean"


def test_levels_that_are_not_identified_count_as_the_reference(case: tuple[Float, Float, Float, float]) -> None:
    rows, _, coef, ridge = case
    active = np.array([True, True, False, True, True])
    before = identified(information_of(rows, coef), active)
    found = average_along_path(before, coef, ridge * coef, LOGISTIC, (0, 1.0), FACTORS)
    assert found.inverse.shape == (4, 4)
    assert found.law.size == 4
    np.testing.assert_array_equal(found.active, active)


def test_nothing_moves_without_a_constant_column(case: tuple[Float, Float, Float, float]) -> None:
    rows, _, coef, ridge = case
    before = identified(information_of(rows, coef))
    assert average_along_path(before, coef, ridge * coef, LOGISTIC, None, ()) is before
    gone = identified(information_of(rows, coef), np.array([False, True, True, True, True]))
    assert average_along_path(gone, coef, ridge * coef, LOGISTIC, (0, 1.0), FACTORS) is gone


def test_nothing_moves_where_the_curve_is_straight(case: tuple[Float, Float, Float, float]) -> None:
    rows, _, coef, ridge = case
    before = identified(information_of(rows, coef))
    straight = MeanFunction(lambda eta: eta, lambda eta, endog: np.ones_like(eta))
    found = average_along_path(before, coef, ridge * coef, straight, (0, 1.0), FACTORS)
    np.testing.assert_allclose(found.inverse, before.inverse, rtol=1e-8)


def test_noise_goes_with_the_information(case: tuple[Float, Float, Float, float]) -> None:
    """t-ratios are those of the released information: B E B' is to B H B' as E is to H."""
    rows, _, coef, ridge = case
    information = information_of(rows, coef)
    before = identified(information)
    found = average_along_path(before, coef, ridge * coef, LOGISTIC, (0, 1.0), FACTORS)
    ratios = [np.linalg.eigvals(one.inverse @ one.law.square(one.inverse)).real.sum() for one in (before, found)]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e8])
def test_any_shrinkage_gives_finite_numbers(case: tuple[Float, Float, Float, float], scale: float) -> None:
    """However far the way is, and however rare a level: bounded ratios keep the information positive definite."""
    rows, _, coef, ridge = case
    found = average_along_path(
        identified(information_of(rows, coef)), coef, scale * ridge * coef, LOGISTIC, (0, 1.0), FACTORS
    )
    assert np.linalg.eigvalsh(found.inverse)[0] > 0
    assert np.isfinite(found.inverse).all()

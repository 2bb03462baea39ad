"""X'X, X'y and y'y under one noise: sensitivities, exact privacy profiles, planted bugs, exact sums."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import special
from wishart_law import log_ratio

from dpstats.errors import ArgumentError
from dpstats.privacy.information.exact_sums import BLOCK_ROWS, COVER_PLACES, PLACES, cover_sensitivity
from dpstats.privacy.information.matrix import MatrixNoise, analytic_mu, matrix_scale
from dpstats.privacy.information.statistics import (
    StatisticsNoise,
    frobenius_sensitivity,
    integer_statistics,
    noisy_statistics,
    statistics_noise,
    trace_sensitivity,
)
from dpstats.privacy.randomness import SystemRandom

WEIGHTS = [(0.3, 0.1), (0.3, 1.0), (1.0, 0.2), (1.0, 0.9), (1.4, 0.99), (3.0, 1.0), (2.0, 3.0)]
ADJACENCIES = ["add_remove", "replace_one"]


def matrix(row: np.ndarray) -> np.ndarray:
    """w w' of w = (z, y)."""
    return np.outer(row, row)


def rows(count: int, size: int, seed: int) -> np.ndarray:
    """w = (z, y), many on the boundary |z| = 1, |y| = 1, shape (count, size + 1)."""
    rng = np.random.default_rng(seed)
    inner = rng.normal(size=(count, size))
    inner /= np.linalg.norm(inner, axis=1, keepdims=True)
    inner *= np.where(rng.random(count) < 0.7, 1.0, rng.random(count))[:, None]
    outcome = np.where(rng.random(count) < 0.7, rng.choice([-1.0, 1.0], count), rng.uniform(-1, 1, count))
    return np.column_stack([inner, outcome])


def length(change: np.ndarray, response: float, square: float) -> float:
    """The norm of (X'X, a X'y, c y'y), X'X in the Frobenius norm."""
    return math.sqrt(
        float(np.sum(change[:-1, :-1] ** 2))
        + response**2 * float(np.sum(change[:-1, -1] ** 2))
        + square**2 * float(change[-1, -1] ** 2)
    )


def changes(adjacency: str, size: int, count: int = 4000) -> list[np.ndarray]:
    """What neighbouring data sets differ by; aligned and opposed pairs among them."""
    first, second = rows(count, size, 1), rows(count, size, 2)
    if adjacency == "add_remove":
        return [matrix(row) for row in first]
    angle = np.linspace(0, np.pi, 400)
    start = np.zeros(size + 1)
    start[0] = start[-1] = 1.0
    turned = []
    for each in angle:
        end = np.zeros(size + 1)
        end[0], end[-1] = math.cos(each), -1.0
        end[min(1, size - 1)] += math.sin(each) if size > 1 else 0.0
        turned.append(matrix(start) - matrix(end))
    return [matrix(one) - matrix(other) for one, other in zip(first, second, strict=True)] + turned


@pytest.mark.parametrize(
    ("norm", "bound", "add", "replace_one"),
    [
        (1, 1, 1.4142135623730951, 2.1213203435596424),
        (1, 0.5, 1.118033988749895, 1.590990257669732),
        (1, 2, 2.23606797749979, 4.0),
        (2, 1, 4.47213595499958, 6.363961030678928),
    ],
)
def test_reference_sensitivities(norm: float, bound: float, add: float, replace_one: float) -> None:
    """Of (X'y, X'X) for |x| <= norm, |y| <= bound, from an independent implementation."""
    weight = bound / norm
    assert norm**2 * frobenius_sensitivity(weight, 1e-9) == pytest.approx(add, rel=1e-12)
    assert norm**2 * frobenius_sensitivity(weight, 1e-9, "replace_one") == pytest.approx(replace_one, rel=1e-6)


def test_reference_scales() -> None:
    """eps = 1, delta = 1e-5, |x|, |y| <= 1, equal weights."""
    mu = analytic_mu(1.0, 1e-5)
    assert frobenius_sensitivity(1.0, 1e-9) / mu == pytest.approx(5.275910, rel=1e-5)
    assert frobenius_sensitivity(1.0, 1e-9, "replace_one") / mu == pytest.approx(7.913865, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("response", "square"), WEIGHTS)
def test_the_sensitivity_holds_and_is_attained(response: float, square: float, adjacency: str) -> None:
    bound = frobenius_sensitivity(response, square, adjacency)  # type: ignore[arg-type]
    found = max(length(change, response, square) for size in (1, 2, 4) for change in changes(adjacency, size))
    assert found <= bound * (1 + 1e-12)
    # Where y'y is heavy the bound adds its own maximum to that of the rest.
    attained = adjacency == "add_remove" or square**2 <= response**2 / 2
    assert found >= bound * (1 - 1e-4 if attained else 0.8)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_trace_sensitivity_holds_and_is_attained(adjacency: str) -> None:
    response = 0.8
    unit = np.diag([1.0, 1.0, response / math.sqrt(2)])
    found = max(float(np.abs(np.linalg.eigvalsh(unit @ change @ unit)).sum()) for change in changes(adjacency, 2))
    bound = trace_sensitivity(response, adjacency)  # type: ignore[arg-type]
    assert bound * (1 - 1e-3) <= found <= bound * (1 + 1e-12)


def deviations(noise: StatisticsNoise) -> np.ndarray:
    """Standard deviations of the entries of normal noise."""
    unit = np.full((noise.size + 1,) * 2, noise.scale / math.sqrt(2))
    np.fill_diagonal(unit, noise.scale)
    return unit * noise.factors


def hockey_stick(change: np.ndarray, sd: np.ndarray, eps: float) -> float:
    """The exact delta at eps of independent normal entries on and above the diagonal."""
    upper = np.triu_indices(len(sd))
    mu = math.sqrt(float(np.sum((change[upper] / sd[upper]) ** 2)))
    return float(special.ndtr(mu / 2 - eps / mu) - math.exp(eps) * special.ndtr(-mu / 2 - eps / mu))


def worst(sd: np.ndarray, adjacency: str, eps: float) -> float:
    return max(hockey_stick(change, sd, eps) for change in changes(adjacency, len(sd) - 1, 1500))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("eps", "delta"), [(1.0, 1e-5), (0.1, 1e-3), (4.0, 1e-6)])
def test_exact_profile_of_normal_noise(eps: float, delta: float, adjacency: str) -> None:
    """For X'X, X'y and y'y together delta is what was asked for, and no less."""
    for radius in (0.5, 1.0, 4.0):
        noise = normal_noise(2, eps, delta, radius, adjacency)
        found = worst(deviations(noise), adjacency, eps)
        assert 0.97 * delta <= found <= delta * (1 + 1e-9)


def normal_noise(size: int, eps: float, delta: float, radius: float, adjacency: str) -> StatisticsNoise:
    """The plan's weights with normal noise, whether or not pure noise is less."""
    found = statistics_noise(size, eps=eps, delta=delta, radius=radius, adjacency=adjacency)  # type: ignore[arg-type]
    if found.law == "normal":
        return found
    square = found.response / math.sqrt(2) if adjacency == "replace_one" else 0.1
    scale = frobenius_sensitivity(found.response, square, adjacency) / analytic_mu(eps, delta)  # type: ignore[arg-type]
    return StatisticsNoise("normal", scale, size, found.response, square)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_planted_each_block_has_the_whole_budget(adjacency: str) -> None:
    """X'X and X'y calibrated apart, both with all of eps: caught."""
    eps, delta = 1.0, 1e-5
    mu, times = analytic_mu(eps, delta), 2 if adjacency == "replace_one" else math.sqrt(2)
    matrix_sd = matrix_scale("normal", eps=eps, delta=delta, weight_bound=1.0, adjacency=adjacency)  # type: ignore[arg-type]
    sd = np.full((3, 3), matrix_sd / math.sqrt(2))
    np.fill_diagonal(sd, matrix_sd)
    sd[-1, :] = sd[:, -1] = (times if adjacency == "replace_one" else 1.0) / mu
    sd[-1, -1] = 1e9
    assert worst(sd, adjacency, eps) > 5 * delta


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_planted_root_two_forgotten_off_the_diagonal(adjacency: str) -> None:
    """Entries of X'y with the factor 1 / a of numbers that stand alone, on U's deviation off its diagonal: caught."""
    eps, delta = 1.0, 1e-5
    sd = deviations(normal_noise(2, eps, delta, 1.0, adjacency))
    sd[-1, :-1] /= math.sqrt(2)
    sd[:-1, -1] /= math.sqrt(2)
    assert worst(sd, adjacency, eps) > 3 * delta


def test_planted_the_other_adjacency() -> None:
    eps, delta = 1.0, 1e-5
    assert worst(deviations(normal_noise(2, eps, delta, 1.0, "add_remove")), "replace_one", eps) > 10 * delta


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_exact_density_of_the_wishart_difference(adjacency: str) -> None:
    """Two columns and the response: the log-ratio never passes eps, and comes near it."""
    eps, rng = 0.7, np.random.default_rng(5)
    noise = statistics_noise(2, eps=eps, adjacency=adjacency)  # type: ignore[arg-type]
    ratios = []
    # Each ratio is a long quadrature: rows and pairs of rows as they come, then some that turn against each other.
    found = changes(adjacency, 2, 40)
    for index, change in enumerate([*found[:16], *found[40::50]]):
        added = change / noise.factors
        point = noise.unit.unit_sample(rng) if index % 2 else 3 * added
        for at in (point, point + added):
            ratios.append(abs(log_ratio(at, added, noise.scale)))
    assert max(ratios) <= eps * (1 + 1e-6)
    if adjacency == "add_remove":
        assert max(ratios) >= 0.9 * eps


def test_planted_one_sided_wishart() -> None:
    """One Wishart matrix instead of a difference: its support moves with a row, so some outcomes tell all: caught.

    With U = W alone an outcome is possible with the row and impossible without it whenever U - A is not positive.
    """
    noise, rng = statistics_noise(2, eps=1.0), np.random.default_rng(6)
    added = matrix(np.array([1.0, 0.0, 1.0])) / noise.factors
    impossible = 0
    for _ in range(400):
        normal = rng.normal(size=(3, 4))
        one_sided = noise.scale / 2 * normal @ normal.T
        impossible += np.linalg.eigvalsh(one_sided - added)[0] < 0
    assert impossible > 100


def test_scale_of_the_wishart_law() -> None:
    for adjacency, times in (("add_remove", 1), ("replace_one", 2)):
        noise = statistics_noise(3, eps=0.5, adjacency=adjacency)  # type: ignore[arg-type]
        assert noise.law == "wishart"
        assert noise.scale == pytest.approx(times * (1 + noise.response**2 / 2) / 0.5)


def test_the_better_law_is_taken() -> None:
    assert statistics_noise(2, eps=1.0, delta=1e-9).law == "wishart"
    assert statistics_noise(40, eps=1.0, delta=1e-5).law == "normal"


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_weights_are_the_best(delta: float, adjacency: str) -> None:
    """No other weight has less noise in the normal equations; the optimum of the two blocks in closed form."""
    size, radius = 15, 2.0
    noise = statistics_noise(size, eps=1.0, delta=delta, radius=radius, adjacency=adjacency)  # type: ignore[arg-type]
    for factor in (0.8, 1.25):
        weight = noise.response * factor
        square = weight**2 / 2 if noise.law == "wishart" else min(noise.square, weight / math.sqrt(2))
        if noise.law == "wishart":
            scale = trace_sensitivity(weight, adjacency)  # type: ignore[arg-type]
        else:
            scale = frobenius_sensitivity(weight, square, adjacency) / analytic_mu(1.0, delta)  # type: ignore[arg-type]
        other = replace(noise, scale=scale, response=weight, square=square)
        assert other.gradient_variance(radius) > noise.gradient_variance(radius)
    if delta and adjacency == "add_remove":
        assert noise.response**2 == pytest.approx(math.sqrt(2 * size / (size + 1)) / radius, rel=1e-3)


@pytest.mark.parametrize("law", ["wishart", "normal"])
def test_moments_of_the_draws(law: str) -> None:
    """4000 draws: a variance is off by more than 0.2 of itself with probability below 1e-4."""
    noise = StatisticsNoise(law, 1.5, 2, 0.8, 0.32)  # type: ignore[arg-type]
    rng = np.random.default_rng(7)
    draws = np.array([noise.sample(rng) for _ in range(4000)])
    found = draws.var(axis=0)
    assert found[0, 1] == pytest.approx(noise.entry_variance, rel=0.2)
    assert found[0, 0] == pytest.approx(2 * noise.entry_variance, rel=0.2)
    assert found[0, 2] == pytest.approx(noise.response_variance, rel=0.2)
    assert found[2, 2] == pytest.approx(noise.square_variance, rel=0.2)
    theta = np.array([0.6, -0.8])
    gradient = draws[:, :2, 2] - draws[:, :2, :2] @ theta
    assert (gradient**2).sum(axis=1).mean() == pytest.approx(noise.gradient_variance(1.0), rel=0.1)


METRIC = MatrixNoise("normal", 1.0, (0.5, 2.0), ((1.0, 0.0), (0.3, 1.0)))


def test_integers_of_a_row_stay_within_the_bounds() -> None:
    """|v_z| and |v_y| at most 2^20, whatever the row; of rank one; another row does not matter."""
    rng = np.random.default_rng(8)
    exog, endog = rng.normal(size=(200, 2)) * rng.choice([1e-3, 1.0, 1e6], (200, 1)), rng.normal(size=200) * 3
    each = [integer_statistics([(exog[i : i + 1], endog[i : i + 1])], METRIC) for i in range(200)]
    for total in each:
        assert int(total[0, 0] + total[1, 1]) <= 2 ** (2 * PLACES)
        assert int(total[2, 2]) <= 2 ** (2 * PLACES)
        assert total[0, 0] * total[1, 1] == total[0, 1] ** 2
        assert total[0, 0] * total[2, 2] == total[0, 2] ** 2
    parts = [(exog[:7][::-1], endog[:7][::-1]), (exog[7:], endog[7:])]
    assert np.array_equal(integer_statistics(parts, METRIC), sum(each))


def test_largest_rows_add_up_exactly() -> None:
    count = 2 * BLOCK_ROWS + 7
    exog = np.ones((count, 1))
    total = integer_statistics([(exog, np.ones(count))], MatrixNoise("normal", 1.0, (1.0,)))
    assert total[1, 1] == count * 2 ** (2 * PLACES)
    assert total[0, 1] == count * (2**PLACES - 1) * 2**PLACES


@pytest.mark.parametrize("random", [SystemRandom(), np.random.default_rng(0)], ids=["system", "seeded"])
@pytest.mark.parametrize("law", ["wishart", "normal"])
def test_release_with_hardly_any_noise(law: str, random: object) -> None:
    rng = np.random.default_rng(9)
    exog, endog = rng.uniform(-0.5, 0.5, (3000, 2)), rng.uniform(-1, 1, 3000)
    total = integer_statistics([(exog, endog)], METRIC)
    noise = StatisticsNoise(law, 1e-8, 2, 0.8, 0.32)  # type: ignore[arg-type]
    found = noisy_statistics(total, noise, cover_eps=1.0, random=random)  # type: ignore[arg-type]
    inner = np.column_stack([METRIC.coordinates(exog) / np.sqrt(METRIC.diagonal), endog])
    assert np.array_equal(found, found.T)
    assert np.abs(found - inner.T @ inner).max() < 3000 * 2.0**-18
    assert np.array_equal(found * 2.0**COVER_PLACES, np.rint(found * 2.0**COVER_PLACES))


def test_the_cover_costs_nothing_visible() -> None:
    noise = statistics_noise(15, eps=0.1, delta=1e-6)
    widest = noise.unit.scaled(1.1 * noise.scale * float(noise.factors.max()))
    cover = cover_sensitivity(widest, 1.0) / (0.01 * 0.1) * 2.0**-COVER_PLACES
    assert cover < 1e-2 * math.sqrt(noise.entry_variance)


@pytest.mark.parametrize(
    ("fields", "fragment"),
    [
        ({"law": "laplace"}, "law"),
        ({"scale": 0.0}, "scale"),
        ({"size": 0}, "size"),
        ({"response": -1.0}, "response"),
        ({"square": 0.0}, "square"),
        ({"square": 0.5}, "square"),
    ],
)
def test_bad_fields(fields: dict[str, object], fragment: str) -> None:
    good = {"law": "wishart", "scale": 1.0, "size": 2, "response": 0.8, "square": 0.32}
    with pytest.raises(ArgumentError, match=fragment):
        StatisticsNoise(**{**good, **fields})  # type: ignore[arg-type]


def test_noise_goes_to_json_and_back() -> None:
    noise = statistics_noise(4, eps=1.0, delta=1e-4)
    assert StatisticsNoise.from_dict(noise.to_dict()) == noise

"""Wrong mechanisms, each with one planted error, beside their sound counterparts.

Every mechanism is small and self-contained: it shares nothing with the package, so that what catches it here owes
nothing to the code it audits. Most are vectorised, ``mechanism(data, rng, runs)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

Array = NDArray[np.float64]
Slope = Callable[[Array], Array]


@dataclass(frozen=True)
class Plant:
    """One planted error: the claim, both mechanisms, and a pair of neighbours that shows the difference."""

    name: str
    sound: Callable[..., Any]
    planted: Callable[..., Any]
    data: Any
    neighbour: Any
    eps: float = 1.0
    delta: float = 0.0
    vectorized: bool = True
    runs: int = 100_000


# --- Noisy sums ------------------------------------------------------------------------------------------------------


def noisy_sum(data: list[float], rng: np.random.Generator, runs: int, scale: float, bound: float = np.inf) -> Array:
    return np.clip(np.array(data, dtype=float), -bound, bound).sum() + rng.laplace(0, scale, runs)


def sum_over_range(data: list[float], rng: np.random.Generator, runs: int, declared: bool) -> Array:
    low, high = (0.0, 1.0) if declared else (min(data), max(data))
    scaled = (np.clip(data, low, high) - low) / (high - low)
    return (scaled.sum() + rng.laplace(0, 1, runs)) * (high - low) + low


def cosine_features(data: list[float], rng: np.random.Generator, runs: int, bound: float) -> Array:
    """One random Fourier feature sqrt(2/D) cos(w x), D = 1: its norm is up to sqrt(2)."""
    return np.sqrt(2) * np.cos(np.array(data)).sum() + rng.laplace(0, bound, runs)


def alternate_parts(data: list[float], rng: np.random.Generator, runs: int, by_index: bool) -> Array:
    """Each of two disjoint parts is summed with the whole budget; who is in which part must not depend on others."""
    values = np.array(data, dtype=float)
    part = np.arange(len(values)) % 2 if by_index else (values > 0.5).astype(int)
    sums = np.array([values[part == k].sum() for k in (0, 1)])
    return sums + rng.laplace(0, 1, (runs, 2))


def two_sums(data: list[tuple[float, float]], rng: np.random.Generator, runs: int, reuse: bool) -> Array:
    """Two sums at half the budget each, their noise drawn afresh or from the same stream."""
    noise = rng.laplace(0, 2, (runs, 1 if reuse else 2))
    return np.array(data, dtype=float).sum(axis=0) + noise


def fixed_seed(data: list[float], _rng: np.random.Generator, runs: int) -> Array:
    return np.repeat(noisy_sum(data, np.random.default_rng(7), 1, scale=1.0), runs)


def noisy_gaussian(data: list[float], rng: np.random.Generator, runs: int, sigma: float) -> Array:
    return sum(data) + rng.normal(0, sigma, runs)


def gaussian_delta(eps: float, mu: float) -> float:
    """The exact privacy profile of the Gaussian mechanism (Balle & Wang 2018, Theorem 8), mu = sensitivity / sigma."""
    return float(norm.cdf(mu / 2 - eps / mu) - np.exp(eps) * norm.cdf(-mu / 2 - eps / mu))


def classical_sigma(eps: float, delta: float) -> float:
    return float(np.sqrt(2 * np.log(1.25 / delta)) / eps)


def analytic_sigma(eps: float, delta: float) -> float:
    return float(1 / brentq(lambda mu: gaussian_delta(eps, mu) - delta, 1e-3, 50))


# --- What leaves beside the numbers ----------------------------------------------------------------------------------


def level_counts(data: list[str], rng: np.random.Generator, strict: bool) -> Array:
    position = {"a": 0, "b": 1}
    counts = np.zeros(2)
    for level in data:
        if strict or level in position:
            counts[position[level]] += 1
    return counts + rng.laplace(0, 1, 2)


def warned_sum(data: list[float], rng: np.random.Generator, warn: bool) -> float:
    clipped = np.clip(np.array(data, dtype=float), -1, 1)
    if warn and (clipped != data).any():
        warnings.warn("some values were outside the declared range", stacklevel=2)
    return float(clipped.sum() + rng.laplace(0, 1))


# --- Objective perturbation with at most one row ---------------------------------------------------------------------

Row = tuple[Array, float]  # (x, y)


def logistic(eta: Array, y: float) -> Array:
    return expit(eta) - y


def squared(eta: Array, y: float, cap: float) -> Array:
    return np.clip(eta - y, -cap, cap)


def huber_svm(eta: Array, y: float, h: float = 0.5) -> Array:
    sign = 2 * y - 1
    return -sign * np.clip((1 + h - sign * eta) / (2 * h), 0, 1)


def bisect(increasing: Slope, reach: Array) -> Array:
    """The root of an increasing function of one variable, for many functions at once, within [-reach, reach]."""
    low, high = -reach, reach.copy()
    for _ in range(64):
        middle = (low + high) / 2
        positive = increasing(middle) > 0
        high = np.where(positive, middle, high)
        low = np.where(positive, low, middle)
    return (low + high) / 2


def spherical(rng: np.random.Generator, runs: int, size: int, scale: float, shape: float | None = None) -> Array:
    """Density proportional to exp(-|b|/scale): a uniform direction and a gamma radius of shape `size`."""
    direction = rng.normal(size=(runs, size))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return direction * rng.gamma(size if shape is None else shape, scale, (runs, 1))


def minimise(rows: list[Row], noise: Array, curvature: Array, loss: Callable[[Array, float], Array]) -> Array:
    """argmin of loss + theta' M theta / 2 + b'theta, shape (runs, size), for no row or one."""
    if not rows:
        return -noise / curvature
    ((x, y),) = rows
    kappa, shift = float(x @ (x / curvature)), noise @ (x / curvature)
    eta = bisect(lambda eta: eta + kappa * loss(eta, y) + shift, np.abs(shift) + 10 * kappa + 1)
    return -(noise + loss(eta, y)[:, None] * x) / curvature


def objective(
    rows: list[Row],
    rng: np.random.Generator,
    runs: int,
    *,
    scale: float,
    curvature: float,
    size: int,
    loss: Callable[[Array, float], Array] = logistic,
    shape: float | None = None,
) -> Array:
    return minimise(rows, spherical(rng, runs, size, scale, shape), np.full(size, curvature), loss)


def n_in_curvature(rows: list[float], rng: np.random.Generator, runs: int, leak: bool) -> Array:
    """All x = 0: the mean form of the objective carries n into the curvature, whatever the rows say."""
    return -rng.laplace(0, 1, runs) / (len(rows) if leak else 1)


def counted(rows: list[Row], rng: np.random.Generator, runs: int, release_count: bool) -> Array:
    """Newton's method in one dimension, logistic loss, M = 1; the number of steps is a function of the data."""
    noise = rng.laplace(0, 1, runs)
    theta, steps = np.zeros(runs), np.zeros(runs)
    for _ in range(50):
        gradient = theta + noise + sum((x[0] * logistic(theta * x[0], y) for x, y in rows), np.zeros(runs))
        hessian = 1 + sum((x[0] ** 2 * expit(theta * x[0]) * expit(-theta * x[0]) for x, _ in rows), np.zeros(runs))
        steps += np.abs(gradient) > 1e-10
        theta = theta - gradient / hessian
    return np.column_stack([theta, steps]) if release_count else theta


def with_intercept(rows: list[Row], rng: np.random.Generator, runs: int, penalised: bool) -> Array:
    """Logistic with an intercept and a slope; without curvature of its own the intercept stops at the solver's 50."""
    noise = spherical(rng, runs, 2, scale=1.0)
    if penalised:
        return minimise(rows, noise, np.ones(2), logistic)
    if not rows:
        return np.column_stack([-50 * np.sign(noise[:, 0]), -noise[:, 1]])
    ((x, y),) = rows
    derivative = np.clip(-noise[:, 0] / x[0], -y, 1 - y)
    eta = np.clip(np.log((derivative + y + 1e-300) / (1 - derivative - y + 1e-300)), -50, 50)
    slope = -(noise[:, 1] + derivative * x[1])
    return np.column_stack([np.clip((eta - x[1] * slope) / x[0], -50, 50), slope])


# --- NAPP-ERM as printed (one dimension) -----------------------------------------------------------------------------

LASSO, RIDGE, CAP = 2.0, 1.0, 2.0  # Lambda, Lambda0 and L of the counterexample, eps = 1


def weighted_ridge(rows: list[Row], noise: Array, weight: Array | float) -> Array:
    """argmin of the capped squared loss + weight t^2 + b t, for x = 1."""
    if not rows:
        return -noise / (2 * weight)
    ((_, y),) = rows
    inner = (y - noise) / (1 + 2 * weight)
    outer = -(noise + CAP * np.sign(inner - y)) / (2 * weight)
    return np.where(np.abs(inner - y) <= CAP, inner, outer)


def lasso_weight(theta: Array) -> Array:
    return np.maximum(LASSO / np.maximum(np.abs(theta), 1e-300), RIDGE)


def moor(rows: list[Row], rng: np.random.Generator, runs: int, steps: int) -> Array:
    noise = rng.laplace(0, CAP / 0.5, runs)
    theta = weighted_ridge(rows, noise, RIDGE)
    for _ in range(steps):
        theta = weighted_ridge(rows, noise, lasso_weight(theta))
    return theta


def additive(rows: list[Row], rng: np.random.Generator, runs: int) -> Array:
    """The sound one-shot form: lasso plus ridge, the ridge alone carrying the curvature."""
    noise = rng.laplace(0, CAP / 0.5, runs)
    return sum(s * np.maximum(s * weighted_ridge(rows, noise + s * LASSO, RIDGE), 0) for s in (-1, 1))


def moor_limit(rows: list[Row], rng: np.random.Generator, runs: int, additive: bool) -> Array:
    """The exact limit for the Huber SVM with Lambda = Lambda0 = 1, or its sound additive counterpart."""
    noise = rng.laplace(0, 2, runs)

    def slope(theta: Array) -> Array:
        penalty = 1 + 2 * np.abs(theta) if additive else 2 * np.maximum(1, np.abs(theta))
        return noise + sum(huber_svm(theta, y) for _, y in rows) + np.sign(theta) * penalty

    theta = bisect(slope, np.abs(noise) + 5)
    at_zero = np.abs(noise + sum(huber_svm(np.zeros(1), y) for _, y in rows)) <= (1 if additive else 2)
    return np.where(at_zero, 0.0, theta)


def selected(rows: list[Row], rng: np.random.Generator, runs: int, truncated: bool) -> Array:
    """NAPP-VS+: b > 0 and b|t| in place of b t; logistic loss, M = 1."""
    noise = rng.laplace(0, 1, runs)
    if not truncated:
        return minimise(rows, noise[:, None], np.ones(1), logistic)[:, 0]
    noise = np.abs(noise)
    sides = [minimise(rows, s * noise[:, None], np.ones(1), logistic)[:, 0] for s in (-1, 1)]
    return np.maximum(sides[1], 0) + np.minimum(sides[0], 0)


def retrieval(rows: list[Row], rng: np.random.Generator, runs: int, recycle: bool) -> Array:
    """Equation (13), factor of two mended: the optimum's own weight says how much budget there is to spare."""
    noise = rng.laplace(0, CAP / 0.5, runs)
    theta = weighted_ridge(rows, noise, RIDGE)
    if not recycle:
        return theta
    weight = lasso_weight(theta)
    spare = 0.5 * (1 - RIDGE / weight)
    return weighted_ridge(rows, noise * 0.5 / (0.5 + spare), weight)


# --- The catalogue ---------------------------------------------------------------------------------------------------


def row(*x: float, y: float = 1.0) -> Row:
    return np.array(x), y


def objective_pair(long: float) -> tuple[partial[Array], partial[Array]]:
    """Objective perturbation for rows of norm `long`: curvature for long^2 (sound) and for long (planted), eps = 1."""
    share = np.expm1(0.5)
    loss = partial(squared, cap=1.0)
    return tuple(
        partial(objective, scale=2 * long, curvature=bound / share, size=1, loss=loss) for bound in (long**2, long)
    )


def pair(function: Callable[..., Any], option: str, sound: Any, planted: Any) -> tuple[partial[Any], partial[Any]]:
    """The same mechanism with an option set right and set wrong."""
    return partial(function, **{option: sound}), partial(function, **{option: planted})


ONE, LONG = [row(1.0)], [row(4.0, y=4.0)]
HALF = float(np.sqrt(0.5))
IN_3D = partial(objective, scale=1.0, curvature=1.0, size=3)
CLASSICAL = (6.0, 0.25)
SIGMAS = (analytic_sigma(*CLASSICAL), classical_sigma(*CLASSICAL))

PLANTS = [
    Plant("noise scale off by 2", *pair(noisy_sum, "scale", 1.0, 0.5), [], [1.0]),
    Plant("range read from the data", *pair(sum_over_range, "declared", True, False), [0.0, 0.1], [0.0, 0.1, 1.0]),
    Plant("n leaked through scaling", *pair(n_in_curvature, "leak", False, True), [0.0], [0.0, 0.0]),
    Plant("unknown level raises", *pair(level_counts, "strict", False, True), ["a"], ["a", "c"], vectorized=False),
    Plant("gamma shape 1 for spherical Laplace", IN_3D, partial(IN_3D, shape=1.0), [], [row(1.0, 0.0, 0.0)]),
    Plant("MOOR, 80 iterations", additive, partial(moor, steps=80), [], ONE),
    Plant("MOOR, exact limit", *pair(moor_limit, "additive", True, False), [], ONE),
    Plant("VS+ support", *pair(selected, "truncated", False, True), [], ONE),
    Plant("unpenalised intercept", *pair(with_intercept, "penalised", True, False), [], [row(HALF, HALF)]),
    Plant("row bound R for R^2", *objective_pair(4.0), [], LONG),
    Plant("noise reused in two releases", *pair(two_sums, "reuse", False, True), [(0, 0)], [(0, 0), (1, 0)]),
    Plant("seed fixed in the mechanism", partial(noisy_sum, scale=1.0), fixed_seed, [], [1.0]),
    Plant("clipping skipped", partial(noisy_sum, scale=1.0, bound=1.0), partial(noisy_sum, scale=1.0), [], [5.0]),
    Plant("retrieval from the private optimum", *pair(retrieval, "recycle", False, True), [], ONE),
    Plant("adjacency factor forgotten", *pair(noisy_sum, "scale", 2.0, 1.0), [-1.0], [1.0]),
    Plant(
        "warning when a value is clipped", *pair(warned_sum, "warn", False, True), [0.5], [0.5, 3.0], vectorized=False
    ),
    Plant("iteration count released", *pair(counted, "release_count", False, True), [], ONE),
    Plant(
        "classical Gaussian at eps >> 1", *pair(noisy_gaussian, "sigma", *SIGMAS), [], [1.0], *CLASSICAL, runs=1_000_000
    ),
    Plant(
        "parts split by index", *pair(alternate_parts, "by_index", False, True), [0.0, 1.0] * 5, [1.0] + [0.0, 1.0] * 5
    ),
    Plant("Fourier features' norm taken as 1", *pair(cosine_features, "bound", 2**0.5, 1.0), [], [0.0]),
]

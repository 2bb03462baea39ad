"""What the noise costs in the objective: proved bounds from public values alone (docs/proofs/risk)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.noise import Noise

Vector = NDArray[np.float64]

SMALLEST_GRID, LARGEST_GRID = 2**14, 2**17  # points of the grid of a sum's law
CELLS_PER_ROUNDING = 2000  # grid points for each variable that is rounded up, if the largest grid allows
MIXTURE_CELLS = 2**12  # points kept of a sum's law before it is mixed with a random radius
LEVELS = 64  # distinct weights; if there are more, each is rounded up to the next of so many levels
TAIL_SHARE = 1e-3  # of the failure probability, which may lie beyond the grid

TILT = 10.0
"""Damps sums beyond the grid, which wrap around: they add less than TAIL_SHARE exp(-TILT) of the failure."""

CROSS_SHARE = 0.3  # of the failure probability, spent on the noise's product with the comparator

SQUARES = {"normal": (1.0, 2.0), "laplace": (2.0, 20.0), "uniform": (1 / 3, 4 / 45)}
"""Mean and variance of the square of each law of xi."""

FFT_ERROR = 1e-8  # bound on the rounding error of a distribution function computed by fast Fourier transforms


def quadratic_quantile(noise: Noise | KNormNoise, weights: Vector, probability: float) -> float:
    """A bound that sum_j w_j b_j**2 exceeds with probability at most 1 - `probability`; weights (p,) >= 0, not all 0.

    Exact for equal weights under Gaussian and l2 noise, and as `KNormNoise.norm_quantile` for noise cut to a design;
    else above the quantile by what rounding the squares up to a fine grid costs.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights)) or np.any(weights < 0) or not np.any(weights > 0):
        raise ArgumentError("weights must be a vector of finite non-negative numbers, not all zero")
    if not 0 < probability < 1:
        raise ArgumentError(f"probability must lie strictly between 0 and 1, got {safe_repr(probability)}")
    if isinstance(noise, KNormNoise):
        # Columns that do not count still need a density.
        return noise.weighted(np.sqrt(np.maximum(weights, 1e-30 * np.max(weights)))).norm_quantile(probability) ** 2
    largest = float(np.max(weights))
    failure = (1 - probability) * (1 - TAIL_SHARE * math.exp(-TILT)) - FFT_ERROR
    if failure <= 0 or (_coordinate_law(noise)[0] == "normal" and np.ptp(weights) == 0):
        return largest * noise.norm_quantile(len(weights), probability) ** 2
    return noise.scale**2 * largest * _unit_quantile(noise, weights[weights > 0] / largest, len(weights), failure)


def _coordinate_law(noise: Noise) -> tuple[Literal["normal", "laplace", "uniform"], bool]:
    """The law of xi, and whether rho = 1, where b at scale 1 is sqrt(rho) times independent xi_j (docs/proofs/risk).

    Gaussian and l2 noise have normal xi, l2 with rho twice a Gamma((p + 1) / 2); l1 has Laplace xi; linf uniform xi,
    with rho the square of a Gamma(p + 1).
    """
    if noise.kind == "gaussian":
        return "normal", True
    laws: dict[str, tuple[Literal["normal", "laplace", "uniform"], bool]]
    laws = {"l1": ("laplace", True), "l2": ("normal", False), "linf": ("uniform", False)}
    return laws[noise.norm]


def _unit_quantile(noise: Noise, weights: Vector, size: int, failure: float) -> float:
    """The quantile at unit scale for positive weights, `size` being the dimension of the whole vector."""
    levels, counts = _levels(weights)
    law, independent = _coordinate_law(noise)
    mean, variance = SQUARES[law]
    largest = mean * float(counts @ levels) + 6 * math.sqrt(variance * float(counts @ levels**2))
    while True:
        masses, step = _sum_law(law, levels, counts, largest)
        if 1 - float(np.sum(masses)) <= TAIL_SHARE * failure:
            break
        largest *= 2
    if independent:
        # The first point whose distribution function reaches 1 - failure.
        return step * int(np.searchsorted(np.cumsum(masses), 1 - failure))
    masses, step = _coarsen(masses, step)
    points = step * np.arange(1, len(masses) + 1)
    overflow = max(0.0, 1 - float(np.sum(masses)))

    def exceeds(bound: float) -> bool:
        if law == "uniform":
            tail = special.gammaincc(size + 1, np.sqrt(bound / points))
        else:
            tail = special.gammaincc((size + 1) / 2, bound / (2 * points))
        return float(masses @ tail) + overflow > failure

    return _bisect(exceeds, largest * size)


def _levels(weights: Vector) -> tuple[Vector, NDArray[np.intp]]:
    """Distinct weights and how often each occurs, after rounding up to at most LEVELS of them."""
    levels, counts = np.unique(weights, return_counts=True)
    if len(levels) > LEVELS:
        rungs = np.geomspace(levels[0], levels[-1], LEVELS)
        rungs[-1] = levels[-1]
        levels, counts = np.unique(rungs[np.searchsorted(rungs, weights)], return_counts=True)
    return levels, counts


def _sum_law(law: str, levels: Vector, counts: NDArray[np.intp], largest: float) -> tuple[Vector, float]:
    """Masses of sum_j w_j xi_j**2, rounded up, at the grid points 0, step, 2 step ... up to `largest`; and the step."""
    roundings = len(levels) if law == "normal" else int(np.sum(counts))
    points = 2 ** math.ceil(math.log2(CELLS_PER_ROUNDING * roundings))
    points = min(max(points, SMALLEST_GRID), LARGEST_GRID)
    step = largest / (points - 1)
    grid = step * np.arange(points)
    damping = np.exp(-TILT * np.arange(points) / points)
    spectrum = np.ones(points // 2 + 1, dtype=np.complex128)
    for level, count in zip(levels, counts, strict=True):
        square, copies = grid / level, int(count)
        if law == "normal":
            distribution, copies = special.gammainc(count / 2, square / 2), 1
        elif law == "laplace":
            distribution = -np.expm1(-np.sqrt(square))
        else:
            distribution = np.minimum(np.sqrt(square), 1)
        spectrum *= np.fft.rfft(np.diff(distribution, prepend=0.0) * damping) ** copies
    return np.maximum(np.fft.irfft(spectrum, points), 0) / damping, step


def _coarsen(masses: Vector, step: float) -> tuple[Vector, float]:
    """Fewer and wider cells; each takes the value of its last point."""
    width = max(1, len(masses) // MIXTURE_CELLS)
    # Prepending the cells below zero puts point k * width last in its block, so that values are k * wide step.
    padded = np.concatenate((np.zeros(width - 1), masses, np.zeros(-(len(masses) + width - 1) % width)))
    coarse = padded.reshape(-1, width).sum(axis=1)
    coarse[1] += coarse[0]
    return coarse[1:], step * width


def _bisect(exceeds: Callable[[float], bool], start: float) -> float:
    """The upper end of a narrow interval in which a decreasing condition turns false."""
    high = start
    while exceeds(high):
        high *= 2
    low = 0.0
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        if exceeds(middle):
            low = middle
        else:
            high = middle
    return high


def gap_quantile(
    noise: Noise | KNormNoise,
    shape: Vector,
    curvature: Vector,
    pi: float,
    *,
    removed: Vector | None = None,
    radius: float = 0.0,
) -> float:
    """A bound on the excess objective of the released minimiser that fails with probability at most `pi`.

    theta_b minimises J(theta) + b'theta, where J is convex with curvature diag(m) everywhere. The bound is on
    F(theta_b) - F(theta), where F(theta) = J(theta) - 1/2 theta' diag(e) theta, for any one theta in the ball that
    does not depend on b, such as the best one for the rows. `noise` is the law of b * shape; e is `removed`, 0 <= e
    <= m, none by default, and the bound then holds for all theta whatever `radius` is, the ball's, in model units.
    It is 1/2 ||b + e theta||^2 in the metric 1/(m + e) at the level 1 - pi, on the sum of losses (docs/proofs/risk,
    theorems 1 and 2).
    """
    removed = _check(shape, curvature, pi, removed, radius)
    metric = 1 / (curvature + removed)
    weights = metric / shape**2
    if not np.any(removed) or radius == 0:
        return 0.5 * quadratic_quantile(noise, weights, 1 - pi)
    centre = radius**2 * float(np.max(removed**2 * metric))
    deviation = radius * _largest_deviation(noise, removed * metric / shape)
    apart = quadratic_quantile(noise, weights, 1 - (1 - CROSS_SHARE) * pi) + centre
    apart += 2 * log_concave_quantile(deviation, CROSS_SHARE * pi)
    together = (math.sqrt(quadratic_quantile(noise, weights, 1 - pi)) + math.sqrt(centre)) ** 2
    return 0.5 * min(apart, together)


def gap_mean(
    noise: Noise | KNormNoise, shape: Vector, curvature: Vector, *, removed: Vector | None = None, radius: float = 0.0
) -> float:
    """The bound of `gap_quantile` in expectation over the noise: its cross term vanishes."""
    removed = _check(shape, curvature, 0.5, removed, radius)
    metric = 1 / (curvature + removed)
    squares = float(_variances(noise, len(shape)) @ (metric / shape**2))
    return 0.5 * (squares + radius**2 * float(np.max(removed**2 * metric)))


def log_concave_quantile(deviation: float, probability: float) -> float:
    """A bound that a symmetric log-concave variable exceeds with at most `probability` < 1/2.

    From its standard deviation alone, by the log-concavity of P(|X| > t) (docs/proofs/risk, lemma 3).
    """
    if not 0 < probability < 0.5:
        raise ArgumentError(f"probability must lie strictly between 0 and 1/2, got {safe_repr(probability)}")
    exponent = -math.log(2 * probability)
    return deviation * exponent / math.sqrt(2 * (1 - math.exp(-exponent) * (1 + exponent)))


def check_failure(pi: float) -> float:
    """Return `pi` if it is a probability strictly between 0 and 1, else raise ArgumentError."""
    if isinstance(pi, bool) or not isinstance(pi, (int, float, np.floating)) or not 0 < pi < 1:
        raise ArgumentError(f"pi must be a number strictly between 0 and 1, got {safe_repr(pi)}")
    return float(pi)


def _variances(noise: Noise | KNormNoise, size: int) -> Vector:
    """Variances of the coordinates, shape (p,)."""
    if isinstance(noise, KNormNoise):
        return noise.standard_deviations() ** 2
    return np.full(size, noise.expected_square(size) / size)


def _largest_deviation(noise: Noise | KNormNoise, factors: Vector) -> float:
    """The largest standard deviation of t'diag(factors) b over unit vectors t."""
    if isinstance(noise, KNormNoise):
        return math.sqrt(float(np.linalg.eigvalsh(noise.covariance() * np.outer(factors, factors))[-1]))
    return math.sqrt(noise.expected_square(len(factors)) / len(factors)) * float(np.max(factors))


def _check(shape: Vector, curvature: Vector, pi: float, removed: Vector | None, radius: float) -> Vector:
    """Validate the arguments of a gap and fill in `removed`."""
    check_failure(pi)
    if not (math.isfinite(radius) and radius >= 0):
        raise ArgumentError(f"radius must be finite and not negative, got {safe_repr(radius)}")
    for name, values in (("shape", shape), ("curvature", curvature)):
        if not (np.all(np.isfinite(values)) and np.all(values > 0)):
            raise ArgumentError(f"{name} must be finite and positive")
    if removed is None:
        return np.zeros_like(curvature)
    if np.any(removed < 0) or np.any(removed > curvature):
        raise ArgumentError("removed must lie between 0 and curvature")
    return removed

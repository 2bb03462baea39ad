"""Quantiles of weighted sums of squares of a noise vector (docs/proofs/risk, quantiles)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.privacy.bodies import BodyNoise
from dpstats.privacy.noise import Noise

Vector = NDArray[np.float64]

SMALLEST_GRID, LARGEST_GRID = 2**14, 2**17
"""Points of the grid on which the law of a sum is kept."""

CELLS_PER_ROUNDING = 2000
"""Grid points for every variable rounded up, where the largest grid allows."""

MIXTURE_CELLS = 2**12
"""Points kept of a sum's law before it is mixed with a random radius."""

LEVELS = 64
"""Distinct weights kept apart; of more, each is rounded up to the next of so many levels."""

BEYOND = 1e-3
"""Share of the failure probability that may lie beyond the grid."""

TILT = 10.0
"""Sums beyond the grid wrap around, damped by exp(-TILT): they then add less than BEYOND exp(-TILT) of the failure."""

FFT_ERROR = 1e-8
"""Bound on the rounding error of a distribution function computed by fast Fourier transforms."""


def quadratic_quantile(noise: Noise | BodyNoise, weights: Vector, probability: float) -> float:
    """A bound that sum_j w_j b_j**2 exceeds with probability at most 1 - `probability`.

    Parameters
    ----------
    noise : Noise
        The law of b.
    weights : ndarray, shape (p,)
        Non-negative, not all zero.
    probability : float
        Strictly between 0 and 1.

    Returns
    -------
    float
        Never below the quantile. For noise cut to a design as `BodyNoise.norm_quantile` has it; exact for equal weights
        under Gaussian and l2 noise; else above it by what rounding the squares up to a fine grid costs.

    Raises
    ------
    ArgumentError
        If `weights` are negative, not finite or all zero, or `probability` is not strictly between 0 and 1.

    Notes
    -----
    Each law is, up to its scale, rho * sum_j w_j xi_j**2 with independent xi_j and an independent rho: normal xi and
    rho = 1 (Gaussian noise) or rho twice a Gamma((p + 1) / 2) (l2); Laplace xi and rho = 1 (l1); uniform xi and rho
    the square of a Gamma(p + 1) (linf). See docs/proofs/risk.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights)) or np.any(weights < 0) or not np.any(weights > 0):
        raise ArgumentError("weights must be a vector of finite non-negative numbers, not all zero")
    if not 0 < probability < 1:
        raise ArgumentError(f"probability must lie strictly between 0 and 1, got {shown(probability)}")
    if isinstance(noise, BodyNoise):
        # Columns that do not count still need a density.
        return noise.weighted(np.sqrt(np.maximum(weights, 1e-30 * np.max(weights)))).norm_quantile(probability) ** 2
    largest = float(np.max(weights))
    spherical = noise.kind == "gaussian" or noise.norm == "l2"
    failure = (1 - probability) * (1 - BEYOND * math.exp(-TILT)) - FFT_ERROR
    if failure <= 0 or (spherical and np.ptp(weights) == 0):
        return largest * noise.norm_quantile(len(weights), probability) ** 2
    return noise.scale**2 * largest * _unit_quantile(noise, weights[weights > 0] / largest, len(weights), failure)


def _unit_quantile(noise: Noise, weights: Vector, size: int, failure: float) -> float:
    """The quantile at unit scale for positive weights, `size` being the dimension of the whole vector."""
    levels, counts = _levels(weights)
    law = "normal" if noise.kind == "gaussian" or noise.norm == "l2" else noise.norm
    mean, variance = {"normal": (1.0, 2.0), "l1": (2.0, 20.0), "linf": (1 / 3, 4 / 45)}[law]
    largest = mean * float(counts @ levels) + 6 * math.sqrt(variance * float(counts @ levels**2))
    while True:
        masses, step = _sum_law(law, levels, counts, largest)
        if 1 - float(np.sum(masses)) <= BEYOND * failure:
            break
        largest *= 2
    if noise.kind == "gaussian" or noise.norm == "l1":
        # The first point whose distribution function reaches 1 - failure.
        return step * int(np.searchsorted(np.cumsum(masses), 1 - failure))
    masses, step = _coarsen(masses, step)
    points = step * np.arange(1, len(masses) + 1)
    overflow = max(0.0, 1 - float(np.sum(masses)))

    def exceeds(bound: float) -> bool:
        if noise.norm == "linf":
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
        elif law == "l1":
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

"""What the noise costs in the objective: proved bounds from public values alone (docs/proofs/risk)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.privacy.bodies import BodyNoise
from dpstats.privacy.noise import Noise
from dpstats.risk.quantiles import quadratic_quantile

Vector = NDArray[np.float64]

CROSS_SHARE = 0.3
"""Share of the failure probability spent on the noise's product with the comparator."""


def gap_quantile(
    noise: Noise | BodyNoise,
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
    does not depend on b, such as the best one for the rows.

    Parameters
    ----------
    noise : Noise
        The law of b * shape.
    shape : ndarray, shape (p,)
        Public weights a; the linear term is the noise divided by them.
    curvature : ndarray, shape (p,)
        m, all positive.
    pi : float
        Strictly between 0 and 1.
    removed : ndarray, shape (p,), optional
        e with 0 <= e <= m, the curvature that F does not have; none by default, and the bound then holds for all
        theta whatever `radius` is.
    radius : float
        Euclidean norm of the comparator, in model units.

    Returns
    -------
    float
        In units of the sum objective: theorems 1 and 2 of docs/proofs/risk, 1/2 ||b + e theta||^2 in the metric
        1/(m + e), at the level 1 - pi.
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
    noise: Noise | BodyNoise, shape: Vector, curvature: Vector, *, removed: Vector | None = None, radius: float = 0.0
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
        raise ArgumentError(f"probability must lie strictly between 0 and 1/2, got {shown(probability)}")
    exponent = -math.log(2 * probability)
    return deviation * exponent / math.sqrt(2 * (1 - math.exp(-exponent) * (1 + exponent)))


def check_failure(pi: float) -> float:
    """Return `pi` if it is a probability strictly between 0 and 1, else raise ArgumentError."""
    if isinstance(pi, bool) or not isinstance(pi, (int, float, np.floating)) or not 0 < pi < 1:
        raise ArgumentError(f"pi must be a number strictly between 0 and 1, got {shown(pi)}")
    return float(pi)


def _variances(noise: Noise | BodyNoise, size: int) -> Vector:
    """Variances of the coordinates, shape (p,)."""
    if isinstance(noise, BodyNoise):
        return noise.standard_deviations() ** 2
    return np.full(size, noise.expected_square(size) / size)


def _largest_deviation(noise: Noise | BodyNoise, factors: Vector) -> float:
    """The largest standard deviation of t'diag(factors) b over unit vectors t."""
    if isinstance(noise, BodyNoise):
        return math.sqrt(float(np.linalg.eigvalsh(noise.covariance() * np.outer(factors, factors))[-1]))
    return math.sqrt(noise.expected_square(len(factors)) / len(factors)) * float(np.max(factors))


def _check(shape: Vector, curvature: Vector, pi: float, removed: Vector | None, radius: float) -> Vector:
    """Validate the arguments of a gap and fill in `removed`."""
    check_failure(pi)
    if not (math.isfinite(radius) and radius >= 0):
        raise ArgumentError(f"radius must be finite and not negative, got {shown(radius)}")
    for name, values in (("shape", shape), ("curvature", curvature)):
        if not (np.all(np.isfinite(values)) and np.all(values > 0)):
            raise ArgumentError(f"{name} must be finite and positive")
    if removed is None:
        return np.zeros_like(curvature)
    if np.any(removed < 0) or np.any(removed > curvature):
        raise ArgumentError("removed must lie between 0 and curvature")
    return removed

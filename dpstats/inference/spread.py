"""The spread of the score, released beside the information (docs/proofs/inference, 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.inference.identified import Identified

Float = NDArray[np.float64]

MATCH = 1e-9
"""Relative size below which two directions differ by rounding alone."""


@dataclass(frozen=True)
class ModelSpread:
    """The score's covariance is phi H, as the model has it.

    Attributes
    ----------
    phi : float
        1 for the binomial family; else released, and then perhaps negative.
    deviation : float
        The standard deviation of its noise.
    """

    phi: float = 1.0
    deviation: float = 0.0

    def __post_init__(self) -> None:
        if not np.isfinite(self.phi) or not (np.isfinite(self.deviation) and self.deviation >= 0):
            raise ArgumentError("phi and deviation must be finite, deviation not negative")
        if self.value <= 0:
            raise ArgumentError("phi must be positive where it has no noise")

    @property
    def value(self) -> float:
        """phi, at least as large as its noise."""
        return max(self.phi, self.deviation)


@dataclass(frozen=True, eq=False)
class RobustSpread:
    """Released variances of directions of the estimate, sum l'^2 (x'G a_i)^2 with noise (HC0).

    Attributes
    ----------
    variances : ndarray, shape (k,)
        Perhaps negative; ignored, and best NaN, for directions that are not identified.
    deviations : ndarray, shape (k,)
        The standard deviations of their noise.
    directions : ndarray, shape (k, p), optional
        The rows a_i; by default the coefficients, k = p.
    """

    variances: Float
    deviations: Float
    directions: Float | None = None

    def __post_init__(self) -> None:
        variances, deviations = np.asarray(self.variances), np.asarray(self.deviations)
        if variances.ndim != 1 or variances.shape != deviations.shape or np.any(deviations < 0):
            raise ArgumentError("variances and deviations must be vectors of one length, deviations not negative")
        if self.directions is not None and (self.directions.ndim != 2 or len(self.directions) != len(variances)):
            raise ArgumentError("directions must have one row for each variance")


Spread = ModelSpread | RobustSpread


@dataclass(frozen=True, eq=False)
class Sampling:
    """The sampling variance of contrasts.

    Attributes
    ----------
    variance : ndarray, shape (k,)
        Infinite where no released variance speaks of the contrast.
    deviation : ndarray, shape (k,)
        Standard deviation of the noise in it.
    pull : ndarray, shape (k,)
        phi, or what stands for it: the variance over c'Gc.
    """

    variance: Float
    deviation: Float
    pull: Float


def sampling_variances(spread: Spread, found: Identified, contrasts: Float) -> Sampling:
    """The sampling variances of c'theta for rows c among the active coefficients, shape (k, active)."""
    plain = np.sum(contrasts @ found.inverse * contrasts, axis=1)
    if isinstance(spread, ModelSpread):
        return Sampling(spread.value * plain, spread.deviation * plain, np.full(len(contrasts), spread.value))
    directions = np.eye(len(found.active)) if spread.directions is None else spread.directions
    if directions.shape[1] != len(found.active):
        raise ArgumentError("directions of the spread must have one column for each coefficient")
    inside = ~np.any(directions[:, ~found.active] != 0, axis=1)
    noise = np.asarray(spread.deviations, dtype=np.float64)[inside]
    # A variance below its own noise says no more than that it is small.
    known = np.maximum(np.asarray(spread.variances, dtype=np.float64)[inside], noise)
    if not np.all(np.isfinite(known) & (known > 0)):
        raise ArgumentError("variances of identified directions must be finite, and positive where they have no noise")
    weights, spanned = _loadings(contrasts, directions[inside][:, found.active])
    roots = np.sqrt(known)
    # sd(sum w_i z_i) <= sum |w_i| sd(z_i), with equality for a direction that was released.
    total = np.abs(weights) @ roots
    deviation = total * (np.abs(weights) @ (noise / roots))
    pull = np.divide(total**2, plain, out=np.zeros_like(plain), where=plain > 0)
    return Sampling(np.where(spanned, total**2, np.inf), deviation, pull)


def _loadings(contrasts: Float, directions: Float) -> tuple[Float, NDArray[np.bool_]]:
    """Rows w with w'directions = c, one entry where c is a multiple of a direction, and whether there is one."""
    weights, spanned = np.zeros((len(contrasts), len(directions))), ~np.any(contrasts != 0, axis=1)
    if not len(directions):
        return weights, spanned
    lengths, sizes = np.linalg.norm(directions, axis=1), np.linalg.norm(contrasts, axis=1)
    along = contrasts @ (directions / lengths[:, None] ** 2).T
    nearest = np.argmax(np.abs(along) * lengths, axis=1)
    places = np.arange(len(contrasts))
    share = along[places, nearest]
    one = np.linalg.norm(contrasts - share[:, None] * directions[nearest], axis=1) <= MATCH * sizes
    solution = contrasts @ np.linalg.pinv(directions)
    every = np.linalg.norm(contrasts - solution @ directions, axis=1) <= MATCH * sizes
    weights[every] = solution[every]
    weights[one] = 0.0
    weights[places[one], nearest[one]] = share[one]
    spanned |= one | every
    return weights, spanned

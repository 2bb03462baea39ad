"""The spread of the score, and how errors and estimates move together with the information's noise
(docs/proofs/inference, 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.inference.inverse import Identified

Float = NDArray[np.float64]

MATCH = 1e-9
"""Relative size below which two directions differ by rounding alone."""


@dataclass(frozen=True)
class ModelSpread:
    """The score's covariance is phi H, as the model has it."""

    phi: float = 1.0  # 1 for the binomial family; else released, and then perhaps negative
    deviation: float = 0.0  # standard deviation of its noise

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

    `ceiling` bounds what was not released: the variance of c'theta is at most this many times c'Gc.
    """

    variances: Float  # shape (k,), perhaps negative; ignored, and best NaN, where not identified
    deviations: Float  # standard deviations of their noise, shape (k,)
    directions: Float | None = None  # the rows a_i, shape (k, p); the coefficients by default
    ceiling: float = np.inf

    def __post_init__(self) -> None:
        variances, deviations = np.asarray(self.variances), np.asarray(self.deviations)
        if variances.ndim != 1 or variances.shape != deviations.shape or np.any(deviations < 0):
            raise ArgumentError("variances and deviations must be vectors of one length, deviations not negative")
        if self.directions is not None and (self.directions.ndim != 2 or len(self.directions) != len(variances)):
            raise ArgumentError("directions must have one row for each variance")


Spread = ModelSpread | RobustSpread


@dataclass(frozen=True, eq=False)
class SamplingVariance:
    """The sampling variance of k contrasts."""

    variance: Float  # infinite where no released variance speaks of the contrast
    deviation: Float  # standard deviation of the noise in it
    pull: Float  # phi, or what stands for it: the variance over c'Gc


def sampling_variances(spread: Spread, identification: Identified, contrasts: Float) -> SamplingVariance:
    """The sampling variances of c'theta for rows c among the active coefficients, shape (k, active)."""
    plain = np.sum(contrasts @ identification.inverse * contrasts, axis=1)
    if isinstance(spread, ModelSpread):
        return SamplingVariance(spread.value * plain, spread.deviation * plain, np.full(len(contrasts), spread.value))
    directions = np.eye(len(identification.active)) if spread.directions is None else spread.directions
    if directions.shape[1] != len(identification.active):
        raise ArgumentError("directions of the spread must have one column for each coefficient")
    inside = ~np.any(directions[:, ~identification.active] != 0, axis=1)
    noise = np.asarray(spread.deviations, dtype=np.float64)[inside]
    # A variance below its own noise says no more than that it is small.
    known = np.maximum(np.asarray(spread.variances, dtype=np.float64)[inside], noise)
    if not np.all(np.isfinite(known) & (known > 0)):
        raise ArgumentError("variances of identified directions must be finite, and positive where they have no noise")
    weights, spanned, released = _loadings(contrasts, directions[inside][:, identification.active])
    roots = np.sqrt(known)
    # sd(sum w_i z_i) <= sum |w_i| sd(z_i), with equality for a direction that was released.
    total = np.abs(weights) @ roots
    deviation = total * (np.abs(weights) @ (noise / roots))
    variance = np.where(spanned, total**2, np.inf)
    highest = spread.ceiling * plain if np.isfinite(spread.ceiling) else np.full_like(plain, np.inf)
    bounded = ~released & (highest < variance)
    variance, deviation = np.where(bounded, highest, variance), np.where(bounded, 0.0, deviation)
    pull = np.divide(variance, plain, out=np.zeros_like(plain), where=(plain > 0) & np.isfinite(variance))
    return SamplingVariance(variance, deviation, pull)


def _loadings(contrasts: Float, directions: Float) -> tuple[Float, NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows w with w'directions = c, one entry if c is a multiple of a direction; whether there is one, and if it is."""
    weights, spanned = np.zeros((len(contrasts), len(directions))), ~np.any(contrasts != 0, axis=1)
    if not len(directions):
        return weights, spanned, spanned
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
    return weights, spanned | one | every, one


SQUARE = 1.959963984540054**2
"""q^2 at which coverage is nominal to second order: that of a normal 95 % interval."""

GUARD = 2.0
"""Of the fourth-order term that stands for what is left out; `python -m benchmarks.defaults.guard`."""

CHUNK = 64
"""Contrasts at once where each has a matrix of its own."""


@dataclass(frozen=True, eq=False)
class VarianceParts:
    """What A consists of for k contrasts."""

    inside: NDArray[np.bool_]  # whether only active coefficients enter
    directions: Float  # g = G c, shape (k, active)
    noise_directions: Float  # n = N c, shape (k, active)
    sampling: SamplingVariance
    noise: Float
    debiasing: Float
    debiasing_left: Float  # debiasing over g'S(dd')g, from which what noise adds on average is taken off
    linear_share: Float  # the share of b in the noise; the rest are dropped coefficients

    @property
    def total(self) -> Float:
        """A, shape (k,)."""
        return self.sampling.variance + self.noise + self.debiasing


@dataclass(frozen=True, eq=False)
class SecondOrder:
    """The change of k errors and of their estimated variances A with E, to second order."""

    parts: VarianceParts
    found: Identified
    shift: Float  # d, shape (active,)
    images: Float  # S(e_j d') for each j, shape (active, active, active)
    covariance: Float  # of b, with what dropped coefficients may add to it, shape (active, active)
    is_model: bool  # whether the sampling variance moves with the information once, not twice

    @cached_property
    def _tilted(self) -> tuple[Float, Float]:
        """m and n of dA / 2 = -g'E m - d'E n, shape (k, active).

        Where most of A is the shrinkage that is undone, A goes with the fourth power of the inverse information.
        """
        parts, law, size = self.parts, self.found.law, len(self.shift)
        directions, left = parts.directions, parts.debiasing_left[:, None]
        by_shift = directions @ law.square(np.outer(self.shift, self.shift)) @ self.found.inverse
        # S is adjoint to itself: e'S(g g') d = g'S(d e') g, so that p matrices serve all directions.
        products = (directions[:, :, None] * directions[:, None, :]).reshape(len(directions), size**2)
        by_direction = products @ self.images.reshape(size, size**2).T @ self.found.inverse
        return known_tilt(parts, self.is_model) + left * by_shift, left * by_direction

    def _with_shift(self, left: Float, right: Float) -> Float:
        """Cov(g'E m, d'E n) = m'S(g d')n for the rows m, n of `left` and `right`, shape (k,)."""
        size = len(self.shift)
        inner = (self.parts.directions @ self.images.reshape(size, size**2)).reshape(len(left), size, size)
        return np.asarray(np.sum((left[:, None, :] @ inner)[:, 0] * right, axis=1))

    @cached_property
    def variance(self) -> Float:
        """The variance of dA / 2, shape (k,)."""
        directions, law = self.parts.directions, self.found.law
        first, second = self._tilted
        own = law.bilinear(directions, first) + law.bilinear(np.broadcast_to(self.shift, directions.shape), second)
        return np.asarray(np.maximum(own + 2 * self._with_shift(first, second), 0.0), dtype=np.float64)

    def _joint(self, rows: Float, others: Float) -> Float:
        """E[(a'E d) E] b for the rows a, b of `rows` and `others`, shape (k, active)."""
        size = len(self.shift)
        turned = self.images.transpose(2, 1, 0).reshape(size, size**2)
        result = np.empty_like(rows)
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            matrices = (some @ turned).reshape(len(some), size, size)
            result[start : start + CHUNK] = (matrices @ others[start : start + CHUNK, :, None])[:, :, 0]
        return result

    @cached_property
    def information_noise(self) -> Float:
        """beta for intervals: what makes coverage nominal to second order where Z and A move together, shape (k,).

        At most the variance of A over 4 A^2, which is what it would be if they moved apart.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = self.variance / self.parts.total**2
            together = self._second_order(apart) / (SQUARE + 1)
        return np.asarray(np.minimum(apart, np.maximum(together, 0.0) + GUARD * (SQUARE + 1) * apart**2))

    def _second_order(self, apart: Float) -> Float:
        """E A^ / A - 1 at which P(Z^2 <= q^2 A^ / A) is nominal to second order, by Edgeworth's series, shape (k,)."""
        total = self.parts.total
        pull, skew, bend, cross, curved = self._cumulants()
        pull, skew = pull / total**1.5, skew / total**1.5
        bend, cross, curved = bend / total**2, cross / total**2, curved / total**2
        second = 4 * apart + 2 * pull**2 - 2 * cross - curved
        fourth = 12 * apart + 12 * bend + 18 * pull * (pull - skew) - 12 * cross - 6 * curved
        third = 3 * (skew - pull)
        kurtosis = (SQUARE - 3) * (fourth / 12 - pull * third / 6)
        return np.asarray(second + kurtosis + (SQUARE**2 - 10 * SQUARE + 15) * third**2 / 36)

    def _cumulants(self) -> tuple[Float, Float, Float, Float, Float]:
        """c, tau, 4 |B l|^2, kappa and lambda of docs/proofs/inference, 5, before they are divided by powers of A."""
        parts, inverse, law = self.parts, self.found.inverse, self.found.law
        directions, shift = parts.directions, np.broadcast_to(self.shift, parts.directions.shape)
        first, second = self._tilted
        own, by_shift = self._joint(directions, directions), self._joint(directions, shift)
        height, reach = own @ inverse, by_shift @ inverse
        further = self._joint(directions, height)
        back, back_shift = self._joint(height, directions), self._joint(height, shift)
        pairs = (law.bilinear(directions, reach + first) - law.bilinear(directions, reach - first)) / 4
        cross = pairs + np.sum(back * first + back_shift * second, axis=1) + self._with_shift(reach, second)
        bend = law.bilinear(directions, reach) + np.sum(back_shift * height + 2 * back * reach, axis=1)
        sampling = (1 if self.is_model else 3) * parts.sampling.pull * np.sum(own * height, axis=1)
        noise = np.sum(2 * further * parts.noise_directions + height @ self.covariance * height, axis=1)
        curved = sampling + noise + parts.debiasing_left * (bend + 6 * np.sum(further * reach, axis=1))
        pull = 2 * np.sum(own * first + by_shift * second, axis=1)
        return pull, 2 * np.sum(by_shift * height, axis=1), bend, 2 * cross, 2 * curved


def known_tilt(parts: VarianceParts, is_model: bool) -> Float:
    """m of dA / 2 = -g'E m if the debiasing part stays, shape (k, active): HC0's phi counts twice."""
    pull = parts.sampling.pull[:, None] * parts.directions
    return parts.noise_directions + (pull / 2 if is_model else pull)

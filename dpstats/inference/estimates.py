"""From what was released to estimates, intervals and tests of any linear combination (docs/proofs/inference, 5 to
7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.inference.delta_method import (
    ModelSpread,
    SecondOrder,
    Spread,
    VarianceParts,
    known_tilt,
    sampling_variances,
)
from dpstats.inference.inverse import Identified, identify
from dpstats.inference.noise_laws import (
    LinearLaw,
    MatrixLaw,
    StandardLaws,
    check_symmetric,
    simulated_draws,
    standard_laws,
)

Float = NDArray[np.float64]

LEVEL = 0.05
"""Standard errors are half-widths at this level over the normal quantile."""

NORMAL = 1.959963984540054
"""The normal law's 97.5 % quantile."""


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Estimates of k linear combinations, and what is known of their errors; the variance A and its parts."""

    estimates: Float  # debiased, or as released where not identified
    identified: NDArray[np.bool_]  # whether only identified coefficients enter
    sampling: Float  # this and the next two are infinite where not identified
    noise: Float
    debiasing: Float
    attenuation: Float  # what noise may hide of the effects of weakly identified coefficients; 0 where not identified
    spread_noise: Float  # F, the variance of A by noise in the spread, over 4 A
    information_noise: Float  # beta, the variance of A by noise in the information, over 4 A^2
    law_of: Callable[[], StandardLaws]  # what `laws` is: the noise is simulated for it

    @cached_property
    def laws(self) -> StandardLaws:
        """The laws of the standardised estimates."""
        return self.law_of()

    @cached_property
    def variances(self) -> Float:
        """A, shape (k,)."""
        return self.sampling + self.noise + self.debiasing

    def inflated(self, square: Float | float) -> Float:
        """The variance that an interval of q^2 = `square` standard deviations uses, shape (k,); perhaps infinite."""
        room = 1 - (square + 1) * self.information_noise
        with np.errstate(invalid="ignore", divide="ignore"):
            values = (self.variances + (square + 1) * self.spread_noise) / room + self.attenuation
        return np.where(self.identified & (room > 0), values, np.inf)

    def half_width(self, alpha: float = LEVEL) -> Float:
        """Half the width of the intervals of coverage 1 - alpha, shape (k,); infinite where unbounded."""
        quantiles = self.laws.quantile(check_level(alpha))
        return quantiles * np.sqrt(self.inflated(quantiles**2))

    def conf_int(self, alpha: float = LEVEL) -> Float:
        """Intervals of coverage 1 - alpha, shape (k, 2); (-inf, inf) where the budget gives no bound."""
        half = self.half_width(alpha)
        return np.column_stack((self.estimates - half, self.estimates + half))

    @cached_property
    def se(self) -> Float:
        """Standard errors, shape (k,): half-widths of 95 % intervals over 1.96."""
        return self.half_width(LEVEL) / NORMAL

    def pvalues(self, null: Float | float = 0.0) -> Float:
        """p-values of the two-sided tests of c'theta = null, shape (k,).

        At most alpha iff `null` is outside the interval of coverage 1 - alpha. 1 where not identified.
        """
        distance = np.broadcast_to(self.estimates - np.asarray(null, dtype=np.float64), self.estimates.shape) ** 2
        if not np.all(np.isfinite(distance)):
            raise ArgumentError("null must be finite, one value or one for each combination")
        usable = self.identified & np.isfinite(self.variances) & (self.information_noise < 1)
        scale = np.where(usable, self.variances, 1.0)
        distance = np.where(usable, distance, 0.0) / scale
        fixed, share = np.where(usable, self.spread_noise, 0.0) / scale, np.where(usable, self.information_noise, 0.0)
        hidden = np.where(usable, self.attenuation, 0.0) / scale
        last, first = distance * (1 - share), fixed - hidden * share
        middle = 1 + fixed + hidden * (1 - share) + distance * share
        # The least root q^2 of (F - D beta) q^4 + (A + F + D (1 - beta) + u^2 beta) q^2 = u^2 (1 - beta), without
        # cancellation, with D the attenuation.
        square = 2 * last / (middle + np.sqrt(np.maximum(middle**2 + 4 * first * last, 0.0)))
        return np.where(usable, np.minimum(self.laws.tail(np.sqrt(square)), 1.0), 1.0)

    @cached_property
    def shares(self) -> Float:
        """Shares of se^2 that are sampling, noise and information, shape (k, 3); rows add up to 1.

        Where the interval is unbounded all of it is information.
        """
        total = self.inflated(self.laws.quantile(LEVEL) ** 2)
        bounded = np.isfinite(total)
        safe = np.where(bounded, total, 1.0)
        sampling = np.where(bounded, self.sampling, 0.0) / safe
        noise = np.where(bounded, self.noise, 0.0) / safe
        return np.column_stack((sampling, noise, 1 - sampling - noise))


def check_level(alpha: float) -> float:
    """Return `alpha` if it is strictly between 0 and 1, else raise ArgumentError."""
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float, np.floating)) or not 0 < alpha < 1:
        raise ArgumentError(f"alpha must lie strictly between 0 and 1, got {safe_repr(alpha)}")
    return float(alpha)


REACH = 1.5
"""A coefficient that was dropped is taken to be of this many typical sizes, times the root of its variance inflation:
what its column adds to the predictor beside the others is taken to be what one by itself of this size would add."""

UNLUCKY = 2.0
"""Noise may have raised the information on a coefficient by this many of its deviations."""


FILLED = 0.1
"""A number whose standard deviation is certainly less than this share of half its range has a range far too wide."""

UNBOUNDED = 100.0
"""The coefficient of such a number, if dropped, is taken to be so many times as large as another's."""


@dataclass(frozen=True, eq=False)
class DeclaredRanges:
    """Which columns are numbers with a declared range, beside a constant."""

    widths: Float  # half of each range in model units, shape (p,); 0 for a column that is no such number
    constant: tuple[int, float] | None  # the column of one value in every row, and that value

    def too_wide(self, information: Float, law: MatrixLaw) -> NDArray[np.bool_]:
        """Numbers with far too wide a range, whatever the noise of a released information may be, shape (p,)."""
        wide = np.zeros(len(self.widths), dtype=bool)
        numbers = np.flatnonzero(self.widths)
        if self.constant is None or not len(numbers):
            return wide
        place, value = self.constant
        whole = float(information[place, place])
        if whole > 0:
            rows = np.eye(len(wide))[numbers]
            rows[:, place] = -information[numbers, place] / whole  # the number less its mean
            squares = np.sum(rows @ information * rows, axis=1)
            most = squares + UNLUCKY * np.sqrt(np.maximum(law.bilinear(rows, rows), 0.0))
            wide[numbers] = most < (FILLED * self.widths[numbers]) ** 2 * whole / value**2
        return wide


@dataclass(frozen=True, eq=False)
class Estimates:
    """Debiased coefficients and their errors, in model units; ArgumentError if shapes disagree or are not finite."""

    coef: Float  # as released, shape (p,)
    information: Float  # as released at them, shape (p, p)
    curvature: Float  # M, public, shape (p, p): the objective had theta'M theta / 2
    linear: LinearLaw  # of the objective's noise b
    matrix: MatrixLaw  # of the information's noise
    spread: Spread  # the released spread of the score
    typical_size: Float | float = 1.0  # public guess at coefficients that are not identified
    found: Identified | None = None  # identify(information, matrix) if it is at hand
    # Whether the debiasing part of A counts among what noise in the information moves, loses what this noise adds to it
    # on average, and errors and A move together. Without it intervals are those first published.
    debiasing_moves: bool = True
    centre: Float | float = 0.0  # sums of residuals have the noise times the distance from it, shape (p,)
    path_error: Float | float = 0.0  # a deviation of the information's average on the way, in coefficients, shape (p,)
    ranges: DeclaredRanges | None = None  # of numbers, if they are known

    def __post_init__(self) -> None:
        size = self.matrix.size
        if np.shape(self.coef) != (size,) or not np.all(np.isfinite(self.coef)):
            raise ArgumentError(f"coef must hold {size} finite numbers")
        check_symmetric("information", self.information, size)
        check_symmetric("curvature", self.curvature, size)
        sizes = np.asarray(self.typical_size, dtype=np.float64)
        if sizes.shape not in ((), (size,)) or not np.all(np.isfinite(sizes)) or not np.all(sizes > 0):
            raise ArgumentError("typical_size must be finite and positive, one value or one for each coefficient")

    @property
    def size(self) -> int:
        """The number of coefficients p."""
        return len(self.coef)

    @cached_property
    def identified(self) -> Identified:
        """The active coefficients and the inverse of their information."""
        return identify(self.information, self.matrix) if self.found is None else self.found

    @cached_property
    def correction(self) -> Float:
        """d = G M theta, shape (p,); 0 where not identified."""
        correction = np.zeros(self.size)
        active = self.identified.active
        correction[active] = self.identified.inverse @ (self.curvature @ self.coef)[active]
        return correction

    @cached_property
    def debiased(self) -> Float:
        """theta + d, shape (p,); the released coefficient where not identified."""
        return self.coef + self.correction

    def contrasts(self, rows: Float) -> Contrasts:
        """The combinations c'theta for the rows c, shape (k, p)."""
        rows = self.check_rows(rows)
        parts = self.parts(rows)
        total, beta = parts.total, self._information_noise(parts)
        if self.in_wide_ranges.any():  # what is added to A makes no combination identified that was not
            filled = replace(self, found=self.identified, ranges=None)
            beta = np.maximum(beta, filled._information_noise(filled.parts(rows)))
        attenuation = parts.directions**2 @ self.weak_scores + self.path_errors(rows) ** 2
        with np.errstate(invalid="ignore", divide="ignore"):
            fixed = parts.sampling.deviation**2 / (4 * total)
            weights = np.sqrt(parts.linear_share * parts.noise / (total + attenuation))
        bad = ~(parts.inside & np.isfinite(total))
        sampling, noise, debiasing = (
            np.where(bad, np.inf, part) for part in (parts.sampling.variance, parts.noise, parts.debiasing)
        )
        return Contrasts(
            estimates=rows @ self.debiased,
            identified=~bad,
            sampling=sampling,
            noise=noise,
            debiasing=debiasing,
            attenuation=np.where(bad, 0, attenuation),
            spread_noise=np.where(bad, 0, fixed),
            information_noise=np.where(bad, 0, beta),
            law_of=partial(self._laws, parts.directions, np.where(bad, 0, weights)),
        )

    def path_errors(self, rows: Float) -> Float:
        """A deviation of each row's combination by the average information, shape (k,), all moving as one."""
        return rows @ np.broadcast_to(self.path_error, (self.size,))

    def _laws(self, directions: Float, weights: Float) -> StandardLaws:
        """Of standardised estimates with directions among the active coefficients, shape (k, active)."""
        return standard_laws(self.widened(directions), weights, self.linear, self.draws)

    def _information_noise(self, parts: VarianceParts) -> Float:
        """beta: what intervals pay for the noise of the information in A, shape (k,)."""
        identification = self.identified
        if not self.debiasing_moves:
            moved = identification.law.bilinear(parts.directions, known_tilt(parts, self.is_model))
            with np.errstate(invalid="ignore"):
                return np.asarray(moved / parts.total**2)
        shift = self.correction[identification.active]
        return SecondOrder(parts, identification, shift, self._images, self._noise[1], self.is_model).information_noise

    @cached_property
    def _images(self) -> Float:
        """S(e_j d') for each active coefficient j, shape (k, k, k)."""
        return self.identified.law.images(self.correction[self.identified.active])

    @cached_property
    def _excess(self) -> Float:
        """Q: of g'S(dd')g at the released information g'Qg is noise on average, to second order, shape (k, k).

        X + Y + 2 Z of docs/proofs/inference, 5: with B_i = S(d e_i') and K_i = E[(e_i'E d) E] Y has the entries
        tr(G B_i G B_j), and Z tr(G K_i G B_j).
        """
        identification, shift = self.identified, self.correction[self.identified.active]
        size, inverse, law = len(shift), self.identified.inverse, identification.law
        # Axes 0 and 2 change places: entry (a, i) of S(e_b d') is entry (a, b) of K_i.
        by_score = inverse @ self._images.transpose(2, 1, 0)
        by_shift = inverse @ self._images.transpose(0, 2, 1)
        turned = by_shift.transpose(0, 2, 1).reshape(size, size**2)
        both = (by_shift + 2 * by_score).reshape(size, size**2) @ turned.T
        first = law.square(inverse @ law.square(np.outer(shift, shift)) @ inverse)
        return np.asarray(first + (both + both.T) / 2, dtype=np.float64)

    def _debiasing_left(self, directions: Float, debiasing: Float) -> Float:
        """What part of the plug-in debiasing variance is not noise, shape (k,)."""
        if not self.debiasing_moves:
            return np.ones(len(directions))
        excess = np.maximum(np.sum(directions @ self._excess * directions, axis=1), 0.0)
        safe = np.where(debiasing > 0, debiasing, 1.0)
        return np.asarray(1 / (1 + np.where(debiasing > 0, excess / safe, 0.0)), dtype=np.float64)

    @property
    def is_model(self) -> bool:
        """Whether the sampling variance moves with the information once, not twice."""
        return isinstance(self.spread, ModelSpread)

    @cached_property
    def draws(self) -> Float | None:
        """Simulated draws of b with a public seed; None if it is normal."""
        return simulated_draws(self.linear)

    @property
    def omitted_gain(self) -> float:
        """What dropped coefficients may add to w'Hw, the sum that is explained, by the public guess at their sizes.

        Of R_u^2 s_u = (1.5 t_u)^2 H_uu the sum, each H_uu a deviation of its noise above what was released
        (docs/proofs/inference, 4).
        """
        dropped = np.eye(self.size)[~self.identified.active]
        least = np.sqrt(np.maximum(self.matrix.bilinear(dropped, dropped), 0.0))
        own = np.maximum(np.diag(self.information)[~self.identified.active], 0.0) + least
        sizes = np.broadcast_to(REACH * np.asarray(self.typical_size), (self.size,))[~self.identified.active]
        return float(own @ sizes**2)

    @cached_property
    def weak_scores(self) -> Float:
        """Of each active coefficient, the variance that noise in its information leaves its score, shape (active,).

        More than the debiasing counts, where the information may be two deviations lower (docs/proofs/inference, 5).
        """
        identification = self.identified
        if not self.debiasing_moves:
            return np.zeros(len(identification.inverse))
        active = identification.active
        own, ratios = 1 / np.diag(identification.inverse), identification.ratios[active]
        curvature = np.diag(self.curvature)[active]
        shrunk = curvature > 0
        distance = (self.coef - self.centre)[active]
        effects = np.where(shrunk, self.correction[active], distance) ** 2
        left = np.maximum(1 - (UNLUCKY + 1 / ratios) / ratios, 0.0)
        typical = (
            REACH
            * np.broadcast_to(self.typical_size, (self.size,))[active]
            * np.sqrt(identification.inflations[active])
        )
        typical = np.where(shrunk, typical * curvature / (left * own + np.where(shrunk, curvature, 1.0)), typical)
        scores = np.diag(self.linear.covariance)[active]
        with np.errstate(divide="ignore"):
            largest = np.minimum(typical**2, (effects + scores / own**2) / left**2)
        return np.asarray(np.maximum(largest - effects, 0.0) * (own / ratios) ** 2, dtype=np.float64)

    @cached_property
    def in_wide_ranges(self) -> NDArray[np.bool_]:
        """Dropped numbers with far too wide a range, shape (p,)."""
        dropped = ~self.identified.active
        if self.ranges is None or not dropped.any():
            return np.zeros(self.size, dtype=bool)
        return dropped & self.ranges.too_wide(self.information, self.matrix)

    @cached_property
    def _noise(self) -> tuple[Float, Float]:
        """Covariances among the active coefficients: of b alone, and with what dropped coefficients may add to it."""
        active, wide = self.identified.active, self.in_wide_ranges
        alone = self.linear.covariance[np.ix_(active, active)]
        sizes = REACH * self.typical_size * np.sqrt(self.identified.inflations) * np.where(wide, UNBOUNDED, 1.0)
        across = np.asarray(self.information)[np.ix_(active, ~active)] * sizes[~active]
        # The products of released entries exceed those of the true ones by the noise's covariance, on average. Where
        # noise hides the range it hides these too: they may be as much larger.
        weights = np.where(active, 0.0, np.where(wide, -1.0, 1.0) * sizes**2)
        excess = self.matrix.square(np.diag(weights))[np.ix_(active, active)]
        return alone, alone + _positive_part(across @ across.T - excess, self.identified.inverse)

    @cached_property
    def covariances(self) -> tuple[Float, Float]:
        """N = G Sigma G and G S(d d') G among the active coefficients."""
        identification, shift = self.identified, self.correction[self.identified.active]
        inner = identification.law.square(np.outer(shift, shift))
        return identification.inverse @ self._noise[
            1
        ] @ identification.inverse, identification.inverse @ inner @ identification.inverse

    def parts(self, rows: Float) -> VarianceParts:
        """The parts of A for rows c, shape (k, p)."""
        identification = self.identified
        inner = rows[:, identification.active]
        directions = inner @ identification.inverse
        noise, debiasing = self.covariances
        tilted = inner @ noise
        first = np.sum(tilted * inner, axis=1)
        second = np.sum(directions @ identification.law.square(noise) * directions, axis=1)
        alone = np.sum(directions @ self._noise[0] * directions, axis=1)
        safe = np.where(first > 0, first, 1.0)
        plain = np.sum(inner @ debiasing * inner, axis=1)
        left = self._debiasing_left(directions, plain)
        return VarianceParts(
            inside=~np.any(rows[:, ~identification.active] != 0, axis=1) & np.any(inner != 0, axis=1),
            directions=directions,
            noise_directions=tilted,
            sampling=sampling_variances(self.spread, identification, inner),
            noise=first / (1 + second / safe),
            debiasing=left * plain,
            debiasing_left=left,
            linear_share=alone / safe,
        )

    def widened(self, directions: Float) -> Float:
        """Rows among the active coefficients as rows in all p columns."""
        rows = np.zeros((len(directions), self.size))
        rows[:, self.identified.active] = directions
        return rows

    def check_rows(self, rows: Float) -> Float:
        """Return finite `rows`, shape (k, p), or raise ArgumentError."""
        rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != self.size or not np.all(np.isfinite(rows)):
            raise ArgumentError(f"rows must be finite and have {self.size} columns")
        return rows


def _positive_part(matrix: Float, inverse: Float) -> Float:
    """The part of a symmetric matrix without its negative eigenvalues in the metric of the information G^-1."""
    if not len(matrix):
        return matrix
    root = np.linalg.cholesky(inverse)
    values, vectors = np.linalg.eigh(root.T @ matrix @ root)
    back = np.linalg.solve(root.T, vectors * np.sqrt(np.maximum(values, 0.0)))
    return back @ back.T

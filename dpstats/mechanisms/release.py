"""The last step of every release: discrete noise that hides the inexact optimum (docs/proofs/release)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.penalties import Lasso, Penalty
from dpstats.privacy.randomness import LARGEST_SCALE, RandomSource, noisy_integers
from dpstats.solvers.pairs import Pair
from dpstats.solvers.rounding import least_tolerance

Vector = NDArray[np.float64]

ROWS_AT_MOST = 1e7
"""The number of rows that a release is made for unless another is stated, and that every guarantee covers."""

MOST_COVERED = 1e10
"""More rows than these cannot be declared."""

GRADIENT_SHARE = 1e-9
"""gamma is at most this share of the noise's root mean square,"""

INVISIBLE = 0.05
"""and so small that at the greatest number of rows the final noise has at most this share of the standard deviation
that the objective's noise causes, as long as that does not ask for"""

LEAST_SHARE = 2e-13
"""less than this share of the root mean square: so well is the noise drawn (docs/proofs/release)."""

LONGEST_DRAW = 1000.0
"""No draw of the noise is longer than this plus p, in root mean squares, by far: its uniforms have 156 bits."""

LARGEST = 1e280
"""Linear predictors stay below this, so that nothing overflows."""

LARGEST_NOISE = 1e140
"""No noise is larger, root mean square: its square is a normal float."""

LATTICE_LIMIT = 2**500
"""Coordinates are clamped to so many lattice steps, far beyond any optimum of the rows that a release is made for
(docs/proofs/release)."""

DISTANCES = (1e-200, 1e140)
"""Points lie within no less and no more of the optimum, so that steps and their multiples are normal floats."""

ROUNDED = 1 + 1e-9
"""Covers the rounding of root mean squares that are computed in two ways; the bounds proved have more room."""

ZERO_SCALES = 40.0
"""Released coordinates within so many scales of the final noise of zero are set to zero where sparsity is wanted."""


@dataclass(frozen=True, eq=False)
class LastStep:
    """What settles how near to the optimum a release comes, and so its last step: the objective's noise and terms."""

    family: Family
    rms: float  # the root mean square of the norm of the objective's noise
    row_length: float  # the bound on the Euclidean norm of a row
    curvature: Vector
    rows: float  # their greatest number
    penalty: Penalty | None = None  # convex, without curvature of its own
    linear: Vector | None = None  # the public part of the linear term
    offset_bound: float = 0.0

    def tolerance(self, share: float = LEAST_SHARE) -> float:
        """gamma: at least `share` of the noise, and within reach of this machine's arithmetic on any rows.

        With the default it is the least that the proof allows (docs/proofs/release). ArgumentError if linear
        predictors, or the squares of the noise, could overflow.
        """
        if not self.rms <= LARGEST_NOISE:
            raise ArgumentError("eps is too small for such long rows or large caps: the noise would hide any data")
        public, longest = self._lengths
        length, least = self.row_length, float(np.min(self.curvature))
        steepest = self.rows * self.family.lipschitz * length
        if not length * (steepest + longest) + least * self.offset_bound <= LARGEST * least:
            raise ArgumentError(
                "curvature is too small for such long rows or large caps: linear predictors could overflow"
            )
        # The noise is added to the public part in float64.
        added = 16 * float(np.finfo(np.float64).eps) * public
        # A small bound on the rows asks for less noise; a guarantee for fewer rows than come it must not ask for.
        return max(share * self.rms, self._reachable(max(self.rows, ROWS_AT_MOST)), added)

    def plan(self, final_eps: float, *, averages_out: bool = True) -> tuple[float, LatticeRelease]:
        """gamma, small beside the noise, and the last step that covers it, charged `final_eps`; errors of `tolerance`.

        `averages_out` says that the effect of the objective's noise falls with the number of rows.
        """
        share = GRADIENT_SHARE
        if averages_out:
            share = min(share, max(LEAST_SHARE, INVISIBLE / self.final_share(final_eps)))
        gamma = self.tolerance(share)
        return gamma, LatticeRelease(final_eps, 2 * gamma / float(np.min(self.curvature)), len(self.curvature))

    def allows(self, tolerance: float) -> bool:
        """Whether the proof covers a release at this gamma."""
        return self.tolerance() <= tolerance * ROUNDED

    def final_share(self, final_eps: float) -> float:
        """The final noise's standard deviation for each unit of gamma, over that of the objective's noise for its rms.

        At so many rows with the sharpest loss, columns of equal size: the objective's noise moves a coefficient by
        rms / sqrt(p) over N sup l'' X^2 / p + m, and the final noise has at most 6 sqrt(2 p) gamma / (m eps_e).
        """
        size, least = len(self.curvature), float(np.min(self.curvature))
        bend = self.rows * self.family.curvature_bound * self.row_length**2
        return 6 * math.sqrt(2) * (bend + size * least) / (least * final_eps)

    def covered_rows(self, tolerance: float) -> float:
        """Up to how many rows a release at this gamma keeps its whole guarantee, by powers of ten to `MOST_COVERED`.

        See docs/proofs/release, more rows than were declared.
        """
        covered = MOST_COVERED
        while covered > 1 and tolerance * ROUNDED < self._reachable(covered):
            covered /= 10
        return covered

    @property
    def _lengths(self) -> tuple[float, float]:
        """Bounds on the linear term: the length of its public part, and of all of it with the longest draw."""
        public = 0.0 if self.linear is None else float(np.linalg.norm(self.linear))
        return public, (LONGEST_DRAW + len(self.curvature)) * self.rms + public

    def _reachable(self, rows: float) -> float:
        """A gamma that any `rows` rows can be certified to on this machine."""
        return least_tolerance(
            self.family,
            rows=rows,
            row_norm=self.row_length,
            curvature=self.curvature,
            linear=self._lengths[1],
            penalised=self.penalty is not None and not isinstance(self.penalty, Lasso),  # a lasso's slope is constant
            offset_bound=self.offset_bound,
        )


@dataclass(frozen=True)
class LatticeRelease:
    """Laplace noise on a lattice, for points known to lie within `distance` of the exact optimum."""

    eps: float  # the pure guarantee of this step given the exact optimum
    # D = 2 gamma / min(m): half for the solver's point and half for the sampling of the objective's noise.
    distance: float
    size: int  # the number of coordinates p

    @property
    def step(self) -> float:
        """The lattice spacing, a power of two near d / sqrt(p), finer where eps asks for less noise than that."""
        return 2.0 ** math.floor(math.log2(self.distance / math.sqrt(self.size) / max(1.0, self.eps)))

    @property
    def sensitivity(self) -> int:
        """Bound on the L1 distance, in steps, of two rounded points near the same optimum."""
        return math.ceil(2 * math.sqrt(self.size) * self.distance / self.step + self.size)

    @property
    def scale(self) -> float:
        """The scale of the noise in model units."""
        return self.sensitivity / self.eps * self.step

    def check(self) -> None:
        """Raise ArgumentError unless lattice points and draws of the noise stay within the range of numbers.

        No draw may stand at an end of the 64-bit integers, where what is added to it could be read off the sum.
        """
        if not DISTANCES[0] <= self.distance <= DISTANCES[1]:
            raise ArgumentError("curvature is too small or too large beside the noise: coefficients could overflow")
        if not self.sensitivity / self.eps <= LARGEST_SCALE:
            raise ArgumentError(
                f"release_share leaves eps = {self.eps:.3g} for the last step, whose noise would hide any data; "
                "raise release_share, or eps"
            )

    def release(self, theta: Pair, random: RandomSource) -> Vector:
        """Round theta to the lattice, add discrete Laplace noise, and return it as floats, shape (p,).

        OpenDP draws the noise, except from a seeded source, whose releases are never certified. Lattice points are
        whole numbers of any length: no 64-bit integer holds those of small steps far from zero.
        """
        noise = noisy_integers(np.zeros(self.size, dtype=np.int64), self.sensitivity, self.eps, random)
        noisy = [point + int(draw) for point, draw in zip(self.nearest(theta), noise, strict=True)]
        return np.array([float(point) for point in noisy]) * self.step

    def nearest(self, theta: Pair) -> list[int]:
        """The lattice point next to theta, clamped, in steps: p whole numbers."""
        # The step is a power of two: division by it is exact, and so is what the whole steps leave. The sum is clamped,
        # not its leading part, whose rest may be many steps.
        unit, far = theta.high.dtype.type(self.step), theta.high.dtype.type(2 * LATTICE_LIMIT)
        with np.errstate(over="ignore", invalid="ignore"):
            leading = np.clip(np.nan_to_num(theta.high / unit, nan=0.0), -far, far)
            whole = np.rint(leading)
            rest = np.where(np.abs(leading) < far, (leading - whole) + theta.low / unit, 0)
            rest = np.rint(np.clip(np.nan_to_num(rest, nan=0.0), -far, far))
        points = (int(one) + int(other) for one, other in zip(whole, rest, strict=True))
        return [min(max(point, -LATTICE_LIMIT), LATTICE_LIMIT) for point in points]

    def sparse(self, released: Vector) -> Vector:
        """Set to zero what cannot be told from zero beside this step's own noise (post-processing)."""
        return np.where(np.abs(released) <= ZERO_SCALES * self.scale, 0.0, released)

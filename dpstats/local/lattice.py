"""Reports on a lattice: how coarse it is, and the guarantee of one report and of the sum of many.

Every coordinate of a report is an integer, its own value in public units plus a discrete Gaussian of `scale` units.
docs/proofs/local, 3: such a report, and a sum of them, is post-processing of a continuous Gaussian mechanism of hardly
less variance, up to a factor within 1e-60 of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from dpstats.errors import ArgumentError
from dpstats.privacy.lattice import check_scale

LEAST_SCALE = 64
"""Standard deviation of a report in lattice units; 4 would do for the proof, more makes rounding cheaper."""

ROUNDING_SHARE = 1e-4
"""The lattice is so fine that rounding the statistics adds at most this share to their sensitivity."""

SMOOTHING = 16
"""Variance, in squared units, by which the continuous mechanism's noise falls short: a randomised rounding's."""

SLACK = 1 + 1e-9
"""For floating-point rounding, and for the factor within 1e-60 of one."""

REFUSED_SHARE = 1e-10
"""Of delta: what the refusal of reports that are not honest may add to it. `SLACK` covers it."""

MOST_SENSITIVITY = 2.0**60
"""With noise beside them, records that are this far apart stay within 64-bit integers."""

EXPOSED = (
    "one report protects nothing from whoever sees it: at this local_eps two records are told apart by it with errors "
    "rarer than delta. Add reports up by a secure sum, or give local_eps in place of eps"
)


@dataclass(frozen=True)
class Lattice:
    """The lattice of reports of `size` integers, `scale` units of noise in each, of which at least `n` are added.

    Attributes
    ----------
    size, scale, n : int
    sensitivity : float
        The greatest Euclidean distance, in units, between the integers of two records, rounding included.
    """

    size: int
    scale: int
    n: int
    sensitivity: float

    def mu(self, reports: int) -> float:
        """The Gaussian mechanism's mu for the sum of so many reports, one of which changes."""
        return self.sensitivity * SLACK / math.sqrt(reports * self.scale**2 - SMOOTHING)

    def reach(self, delta: float) -> float:
        """R: beyond R deviations in an integer, or sqrt(size) + R in norm, noise is taken for no honest noise.

        So large that reports of which half or more are honest hide what is refused too (docs/proofs/local, 7).
        """
        chances = math.log((2 * self.size + 1) * (self.n + 1)) - math.log(REFUSED_SHARE) - math.log(delta)
        alone, others = math.sqrt(2 * chances), max(2, (self.n + 1) // 2)
        return alone * math.sqrt(1 - 1 / others) + (alone + self.mu(others)) / math.sqrt(others)

    def exposed(self, delta: float) -> bool:
        """As `Spec.exposed`: a Gaussian mechanism of this mu is tested with error rates that add up to 2 Phi(-mu/2)."""
        return bool(2 * special.ndtr(-self.mu(1) / 2) < delta)

    @property
    def unrounded(self) -> float:
        """What the statistics themselves may differ by, in units."""
        return self.sensitivity - math.sqrt(self.size)


def lattice_for(mu: float, reports: int, size: int, n: int) -> Lattice:
    """The lattice on which the sum of `reports` reports has this mu.

    Rounding to the nearest integer moves each of two records' values by at most sqrt(size)/2.

    Raises
    ------
    ArgumentError
        If its noise would leave the 64-bit integers, whose ends would show the record, or the records themselves would.
    """
    wanted = math.sqrt(size) * math.sqrt(reports) / (ROUNDING_SHARE * mu) / reports
    scale = max(LEAST_SCALE, 2 ** math.ceil(math.log2(wanted)))
    check_scale(scale)
    sensitivity = mu / SLACK * math.sqrt(reports * scale**2 - SMOOTHING)
    if not sensitivity <= MOST_SENSITIVITY:
        raise ArgumentError("eps is too large: beside so little noise a record would leave the 64-bit integers")
    return Lattice(size, scale, n, sensitivity)

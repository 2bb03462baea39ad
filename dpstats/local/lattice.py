"""Reports on a lattice: how coarse it is, and the guarantee of one report and of the sum of many.

Every coordinate of a report is an integer, its own value in public units plus a discrete Gaussian of `scale` units.
docs/proofs/local, 3: such a report, and a sum of them, is post-processing of a continuous Gaussian mechanism of hardly
less variance, up to a factor within 1e-60 of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpstats.privacy.lattice import check_scale

LEAST_SCALE = 64
"""Standard deviation of a report in lattice units; 4 would do for the proof, more makes rounding cheaper."""

ROUNDING_SHARE = 1e-4
"""The lattice is so fine that rounding the statistics adds at most this share to their sensitivity."""

SMOOTHING = 16
"""Variance, in squared units, by which the continuous mechanism's noise falls short: a randomised rounding's."""

SLACK = 1 + 1e-9
"""For floating-point rounding, and for the factor within 1e-60 of one."""


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
        If its noise would leave the 64-bit integers, whose ends would show the record.
    """
    wanted = math.sqrt(size) * math.sqrt(reports) / (ROUNDING_SHARE * mu) / reports
    scale = max(LEAST_SCALE, 2 ** math.ceil(math.log2(wanted)))
    check_scale(scale)
    return Lattice(size, scale, n, mu / SLACK * math.sqrt(reports * scale**2 - SMOOTHING))

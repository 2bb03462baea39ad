"""What a released fit costs on new rows, with high probability (docs/proofs/risk, theorem 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.bodies import BodyNoise
from dpstats.privacy.noise import Noise
from dpstats.risk.gaps import gap_quantile
from dpstats.risk.output import OutputFacts, shortfall
from dpstats.risk.printed import Bound

Vector = NDArray[np.float64]

PROOF = "docs/proofs/risk, theorem 7"

STEP = 1.1
"""q: distances from the comparator are told apart by this factor."""

START = 1 / 16
"""The least distance that is told apart, as a share of the comparator's norm."""

THIRD = 1 / 3
"""Share of the failure probability of each event: the sample, and the noise, of which output perturbation has two."""


@dataclass(frozen=True)
class Sampling:
    """How far the mean loss of n rows may be from that of new ones, at coefficients that depend on the rows.

    Attributes
    ----------
    lipschitz : float
        sup |l'|.
    kappa : float
        sup x' M^-1 x.
    start : float
        s, the comparator's norm in the metric of M.
    """

    lipschitz: float
    kappa: float
    start: float

    def slope(self, rows: float, noise: float, pi: float) -> float:
        """a: the excess over the comparator is more on new rows than on these by a max(s / 16, q d) at most.

        d is the distance from the comparator; the bound fails with probability at most `pi`.

        Parameters
        ----------
        rows : float
            n.
        noise : float
            Norm of the noise in the metric of M, which is not exceeded.
        pi : float
        """
        single = self.lipschitz * math.sqrt(self.kappa)
        farthest = 2 * (rows * single + noise) + self.start
        levels = 1 + math.ceil(max(0.0, math.log(farthest / (START * self.start)) / math.log(STEP)))
        return single * math.sqrt(rows) * (2 + math.sqrt(2 * math.log(levels / pi)))


@dataclass(frozen=True)
class Drawn:
    """Quantiles of the noise, which do not depend on the number of rows.

    Attributes
    ----------
    shrunk : float
        What multiplies the distance from the comparator: s and the noise along it.
    whole : float
        Of the noise's norm in the metric of M; at least as large as s for noise in the objective.
    beside : float
        What does not go with the distance; nor does it count beyond what the sample moves at the comparator's.
    moved : float
        How far the noise moves the coefficients by itself, in the metric of M: 0 where it is in the objective.
    square : float
        Of the noise in the optimum along one direction, squared: the losses rise with it.
    """

    shrunk: float
    whole: float
    beside: float = 0.0
    moved: float = 0.0
    square: float = 0.0


def output_drawn(noise: Noise, size: int, pi: float, start: float) -> Drawn:
    """The quantiles of g, for noise in the optimum and a comparator of norm `start`."""
    whole = noise.norm_quantile(size, 1 - THIRD * pi)
    along, square = (shortfall(noise, size, THIRD * pi, power) for power in (1, 2))
    return Drawn(start + along, whole, beside=start * along, moved=whole, square=square)


def objective_drawn(noise: Noise | BodyNoise, shape: Vector, curvature: Vector, radius: float, pi: float) -> Drawn:
    """The quantile of ||b + M theta|| in the metric of M^-1, for noise in the objective."""
    gap = gap_quantile(noise, shape, curvature, 2 * THIRD * pi, removed=curvature, radius=radius)
    return Drawn(2 * math.sqrt(gap), 2 * math.sqrt(gap))


def cost_of_new_rows(sampling: Sampling, drawn: Drawn, rows: float, pi: float) -> float:
    """The bound of theorem 7, without the rise of the losses.

    Parameters
    ----------
    sampling : Sampling
    drawn : Drawn
    rows : float
        n.
    pi : float
        Probability that the bound may fail, over noise and rows together.
    """
    slope = sampling.slope(rows, drawn.whole, THIRD * pi)
    near = START * sampling.start * slope
    beside = min(drawn.beside, STEP * slope * sampling.start)
    return (drawn.shrunk + STEP * slope) ** 2 / 4 + beside + STEP * slope * drawn.moved + near


def output_new_rows(facts: OutputFacts, pi: float, radius: float, rows: int | None) -> Bound:
    """Theorem 7 for noise in the optimum; NaN without a number of rows."""
    value = math.nan
    if rows is not None:
        start = math.sqrt(float(np.max(facts.curvature))) * radius
        drawn = output_drawn(facts.noise, facts.size, pi, start)
        sampling = Sampling(facts.family.lipschitz, facts.kappa, start)
        value = cost_of_new_rows(sampling, drawn, rows, pi) + facts.rise(drawn.square, rows)
    return Bound("population", "quantile", PROOF, value, "over noise and rows, against any coefficients of norm radius")

"""What output perturbation costs in the objective, from public values alone (docs/proofs/risk, theorems 3 to 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from dpstats.families import Family
from dpstats.penalties import Bridge, Penalty
from dpstats.privacy.noise import Noise
from dpstats.risk.printed import Bound

Vector = NDArray[np.float64]

PROOF = "docs/proofs/risk"

RADII = 4001
"""Points of the quadrature over the radius of spherical Laplace noise."""

RADIUS_TAIL = 1e-16
"""Mass left out at either end of it."""


def shortfall(noise: Noise, size: int, pi: float, power: int = 1) -> float:
    """The mean of u'g, or of (u'g)^2, over the worst share `pi` of its law, rounded up; u any unit vector.

    Of all laws that are averages of such variables with total weight 1, none has a larger 1 - pi quantile
    (docs/proofs/risk, lemma 4).

    Parameters
    ----------
    noise : Noise
        Spherical: Gaussian, or Laplace in l2.
    size : int
        p.
    pi : float
        Strictly between 0 and 1.
    power : {1, 2}
    """
    weights, squares = _normal_mixture(noise.kind, size)

    def bound(start: float) -> float:
        """a + E (X - a)_+ / pi, at least the shortfall whatever a is."""
        if power == 1:
            at = start / np.sqrt(squares)
            rest = np.sqrt(squares) * stats.norm.pdf(at) - start * special.ndtr(-at)
        else:
            at = np.sqrt(start / squares)
            tail = 2 * special.ndtr(-at)
            rest = squares * (2 * at * stats.norm.pdf(at) + tail) - start * tail
        return start + float(weights @ rest) / pi

    highest = 100.0 * size * (size + 1) / pi
    found = optimize.minimize_scalar(bound, bounds=(0.0, highest), method="bounded", options={"xatol": 1e-9})
    near = optimize.minimize_scalar(bound, bounds=(0.0, max(4 * found.x, 1e-6)), method="bounded")
    least = min(float(found.fun), float(near.fun))
    return least * noise.scale**power * (1 + 1e-9)


def _normal_mixture(kind: str, size: int) -> tuple[Vector, Vector]:
    """Weights and variances of the normal laws that a coordinate of g is a mixture of, at scale 1."""
    if kind == "gaussian":
        return np.ones(1), np.ones(1)
    # A density prop. to exp(-||g||) is normal of variance V, V Gamma((p + 1)/2) of scale 2 (docs/proofs/risk).
    shape = (size + 1) / 2
    low, high = (float(inverse(shape, RADIUS_TAIL)) for inverse in (special.gammaincinv, special.gammainccinv))
    logs = np.linspace(math.log(low), math.log(high), RADII)
    density = np.exp(shape * logs - np.exp(logs) - special.gammaln(shape))
    return density * (logs[1] - logs[0]), 2 * np.exp(logs)


@dataclass(frozen=True, eq=False)
class OutputFacts:
    """The public facts of an output perturbation that its risk depends on.

    Attributes
    ----------
    family : Family
    noise : Noise
        The law of g; the release is the optimum plus M^(-1/2) g.
    curvature : ndarray, shape (p,)
        m, the diagonal of M.
    kappa : float
        sup x' M^-1 x.
    penalty : Penalty or None
        Convex, without curvature of its own.
    penalty_weights : ndarray, shape (p,)
    """

    family: Family
    noise: Noise
    curvature: Vector
    kappa: float
    penalty: Penalty | None = None
    penalty_weights: Vector | None = None

    @property
    def size(self) -> int:
        """p."""
        return len(self.curvature)

    def rise(self, square: float, rows: float) -> float:
        """By how much losses and penalty may exceed their tangents at the optimum, where (u'g)^2 counts `square`."""
        moved = rows * self.kappa * square
        losses = min(self.family.curvature_bound * moved / 2, 2 * self.family.lipschitz * math.sqrt(rows * moved))
        if self.penalty is None or self.penalty_weights is None:
            return losses
        power = self.penalty.q if isinstance(self.penalty, Bridge) else 1.0
        slopes = self.penalty.alpha * 2 ** (2 - power) * self.penalty_weights * self.curvature ** (-power / 2)
        return losses + float(np.sum(slopes)) * square ** (power / 2)


def output_bounds(facts: OutputFacts, pi: float, radius: float, rows: int | None) -> list[Bound]:
    """The bounds of theorems 3 to 5; NaN without a number of rows."""
    size, count = facts.size, math.nan if rows is None else float(rows)
    mean_square = facts.noise.expected_square(size)
    each, worst = mean_square / size, shortfall(facts.noise, size, pi, 2)
    longest = facts.noise.norm_quantile(size, 1 - pi) ** 2
    half = facts.noise.norm_quantile(size, 1 - pi / 2) ** 2
    apart = half / 2 + facts.rise(shortfall(facts.noise, size, pi / 2, 2), count)
    shrunk = math.sqrt(float(np.max(facts.curvature))) * radius
    crossed = (shrunk + shortfall(facts.noise, size, pi)) ** 2 / 4 + facts.rise(worst, count)
    together = (shrunk + math.sqrt(longest)) ** 2 / 4 + facts.rise(longest, count)
    mean = shrunk**2 / 4 + facts.rise(each, count)
    sampling = 2 * count * facts.family.lipschitz**2 * facts.kappa
    third, fourth, fifth = (f"{PROOF}, theorem {number}" for number in (3, 4, 5))
    against = "against any coefficients of norm radius"
    return [
        Bound(
            "regularised", "quantile", third, _least(longest / 2 + facts.rise(longest, count), apart), "grows with n"
        ),
        Bound("regularised", "mean", third, mean_square / 2 + facts.rise(each, count), "grows with n"),
        Bound("unregularised", "quantile", fourth, _least(crossed, together), against),
        Bound("unregularised", "mean", fourth, mean, against),
        Bound("population", "mean", fifth, mean + sampling, f"{against}; sampling {sampling:.4g}"),
    ]


def _least(*values: float) -> float:
    """The least of several bounds; NaN if they are."""
    return float(np.min(values))

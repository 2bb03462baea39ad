"""What a released fit costs in the objective and on new rows, from public values alone (docs/proofs/risk, theorems
3 to 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpstats.families import Family
from dpstats.penalties import Bridge, Penalty
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.noise import Noise
from dpstats.risk.gaps import gap_quantile
from dpstats.risk.literature_bounds import Bound

Vector = NDArray[np.float64]

PROOF = "docs/proofs/risk"
POSTERIOR_PROOF, NEW_ROWS_PROOF, REGION_PROOF = (f"{PROOF}, theorem {number}" for number in (6, 7, 8))
AGAINST = "against any coefficients of norm radius"

RADII = 4001  # points of the quadrature over the radius of spherical Laplace noise
RADIUS_TAIL = 1e-16  # the mass that it leaves out at either end
STEP = 1.1  # q, the ratio of neighbouring distances from the comparator
START = 1 / 16  # the least of these distances, as a share of the comparator's norm

EVENT_SHARE = 1 / 3
"""Share of the failure probability of each event: the sample, and the noise, of which output perturbation has two."""


def _density(at: Vector) -> Vector:
    """The normal law's density."""
    return np.asarray(np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi))


def shortfall(noise: Noise, size: int, pi: float, power: int = 1) -> float:
    """The mean of u'g, or of (u'g)^2, over the worst share `pi` of its law, rounded up; u any unit vector.

    Of all laws that are averages of such variables with total weight 1, none has a larger 1 - pi quantile
    (docs/proofs/risk, lemma 4). `noise` is spherical: Gaussian, or Laplace in l2.
    """
    weights, squares = _normal_mixture(noise.kind, size)

    def bound(start: float) -> float:
        """a + E (X - a)_+ / pi, at least the shortfall whatever a is."""
        if power == 1:
            at = start / np.sqrt(squares)
            rest = np.sqrt(squares) * _density(at) - start * special.ndtr(-at)
        else:
            at = np.sqrt(start / squares)
            tail = 2 * special.ndtr(-at)
            rest = squares * (2 * at * _density(at) + tail) - start * tail
        return start + float(weights @ rest) / pi

    highest = 100.0 * size * (size + 1) / pi
    wide = optimize.minimize_scalar(bound, bounds=(0.0, highest), method="bounded", options={"xatol": 1e-9})
    near = optimize.minimize_scalar(bound, bounds=(0.0, max(4 * wide.x, 1e-6)), method="bounded")
    least = min(float(wide.fun), float(near.fun))
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
    """The public facts of an output perturbation that its risk depends on."""

    family: Family
    noise: Noise  # The law of g; the release is the optimum plus M^(-1/2) g
    curvature: Vector  # (p,): m, the diagonal of M
    kappa: float  # sup x' M^-1 x
    penalty: Penalty | None = None  # Convex, without curvature of its own
    penalty_weights: Vector | None = None  # (p,)

    @property
    def size(self) -> int:
        """p."""
        return len(self.curvature)

    def rise(self, square: float, rows: float) -> float:
        """By how much losses and penalty may exceed their tangents at the optimum, where (u'g)^2 counts `square`."""
        change = rows * self.kappa * square
        losses = min(self.family.curvature_bound * change / 2, 2 * self.family.lipschitz * math.sqrt(rows * change))
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
    return [
        Bound(
            "regularised", "quantile", third, _least(longest / 2 + facts.rise(longest, count), apart), "grows with n"
        ),
        Bound("regularised", "mean", third, mean_square / 2 + facts.rise(each, count), "grows with n"),
        Bound("unregularised", "quantile", fourth, _least(crossed, together), AGAINST),
        Bound("unregularised", "mean", fourth, mean, AGAINST),
        Bound("population", "mean", fifth, mean + sampling, f"{AGAINST}; sampling {sampling:.4g}"),
    ]


def _least(*values: float) -> float:
    """The least of several bounds; NaN if they are."""
    return float(np.min(values))


def gamma_excess(size: int, pi: float) -> float:
    """t with t - p - p log(t / p) = log(1 / pi), t > p: what V - min V exceeds with probability at most `pi`.

    theta is drawn from exp(-V), V convex on R^p.
    """
    low, high = float(size), size + 10 * (size + math.log(1 / pi))
    while high > low * (1 + 1e-12):
        middle = (low + high) / 2
        if middle - size - size * math.log(middle / size) < math.log(1 / pi):
            low = middle
        else:
            high = middle
    return high


def posterior_bounds(temperature: float, size: int, most: float, pi: float, radius: float) -> list[Bound]:
    """The bounds for a draw from exp(-c J) on all of space; `most` is the largest entry of the curvature."""
    mean, high = size / temperature, gamma_excess(size, pi) / temperature
    shrunk = most * radius**2 / 2
    return [
        Bound("regularised", "quantile", POSTERIOR_PROOF, high, "by the convexity of J alone"),
        Bound("regularised", "mean", POSTERIOR_PROOF, mean, "by the convexity of J alone"),
        Bound("unregularised", "quantile", POSTERIOR_PROOF, high + shrunk, AGAINST),
        Bound("unregularised", "mean", POSTERIOR_PROOF, mean + shrunk, AGAINST),
    ]


def region_bounds(
    temperature: float, points: int, pi: float, *, each: float, once: float, inside: float, rows: int | None
) -> list[Bound]:
    """The bounds for a draw from exp(-c J), c the temperature, on a lattice in an ellipsoid; NaN without `rows`.

    The lattice costs `each` a row and `once`, against what lies in the ellipsoid shrunk to `inside`.
    """
    lattice = math.nan if rows is None else rows * each + once
    note = f"over the best coefficients in the ellipsoid shrunk to {inside:.4g}; the lattice adds {each:.3g} a row"
    quantile, mean = math.log(points / pi) / temperature + lattice, (math.log(points) + 1) / temperature + lattice
    return [
        Bound("regularised, on the region", "quantile", REGION_PROOF, quantile, note),
        Bound("regularised, on the region", "mean", REGION_PROOF, mean, note),
    ]


@dataclass(frozen=True)
class SamplingBound:
    """How far the mean loss of n rows may be from that of new ones, at coefficients that depend on the rows."""

    lipschitz: float  # sup |l'|
    kappa: float  # sup x' M^-1 x
    start: float  # s, the comparator's norm in the metric of M

    def slope(self, rows: float, noise: float, pi: float) -> float:
        """a: the excess over the comparator is more on new rows than on these by a max(s / 16, q d) at most.

        d is the distance from the comparator, `noise` what the norm of the noise in the metric of M does not exceed;
        the bound fails with probability at most `pi`.
        """
        single = self.lipschitz * math.sqrt(self.kappa)
        farthest = 2 * (rows * single + noise) + self.start
        levels = 1 + math.ceil(max(0.0, math.log(farthest / (START * self.start)) / math.log(STEP)))
        return single * math.sqrt(rows) * (2 + math.sqrt(2 * math.log(levels / pi)))


@dataclass(frozen=True)
class NoiseQuantiles:
    """Quantiles of the noise, which do not depend on the number of rows."""

    shrunk: float  # What multiplies the distance from the comparator: s and the noise along it
    norm: float  # Of the noise's norm in the metric of M; at least as large as s for noise in the objective
    # What does not go with the distance; nor does it count beyond what the sample moves at the comparator's.
    constant: float = 0.0
    # How far the noise moves the coefficients by itself, in the metric of M: 0 where it is in the objective.
    shift: float = 0.0
    square: float = 0.0  # Of the noise in the optimum along one direction, squared: the losses rise with it


def output_quantiles(noise: Noise, size: int, pi: float, start: float) -> NoiseQuantiles:
    """The quantiles of g, for noise in the optimum and a comparator of norm `start`."""
    norm = noise.norm_quantile(size, 1 - EVENT_SHARE * pi)
    along, square = (shortfall(noise, size, EVENT_SHARE * pi, power) for power in (1, 2))
    return NoiseQuantiles(start + along, norm, constant=start * along, shift=norm, square=square)


def objective_quantiles(
    noise: Noise | KNormNoise, shape: Vector, curvature: Vector, radius: float, pi: float
) -> NoiseQuantiles:
    """The quantile of ||b + M theta|| in the metric of M^-1, for noise in the objective."""
    gap = gap_quantile(noise, shape, curvature, 2 * EVENT_SHARE * pi, removed=curvature, radius=radius)
    return NoiseQuantiles(2 * math.sqrt(gap), 2 * math.sqrt(gap))


def cost_of_new_rows(sampling: SamplingBound, quantiles: NoiseQuantiles, rows: float, pi: float) -> float:
    """The bound of theorem 7, without the rise of the losses; it may fail with probability pi over noise and rows."""
    slope = sampling.slope(rows, quantiles.norm, EVENT_SHARE * pi)
    near = START * sampling.start * slope
    constant = min(quantiles.constant, STEP * slope * sampling.start)
    return (quantiles.shrunk + STEP * slope) ** 2 / 4 + constant + STEP * slope * quantiles.shift + near


def output_new_rows(facts: OutputFacts, pi: float, radius: float, rows: int | None) -> Bound:
    """Theorem 7 for noise in the optimum; NaN without a number of rows."""
    value = math.nan
    if rows is not None:
        start = math.sqrt(float(np.max(facts.curvature))) * radius
        quantiles = output_quantiles(facts.noise, facts.size, pi, start)
        sampling = SamplingBound(facts.family.lipschitz, facts.kappa, start)
        value = cost_of_new_rows(sampling, quantiles, rows, pi) + facts.rise(quantiles.square, rows)
    return Bound("population", "quantile", NEW_ROWS_PROOF, value, f"over noise and rows, {AGAINST}")

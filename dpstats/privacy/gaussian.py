"""The Gaussian mechanism exactly, and the privacy profile of normal noise along a loss curve
(docs/proofs/objective, part 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpstats.families.base import LossCurve
from dpstats.privacy.guarantee import Adjacency, check_delta

Float = NDArray[np.float64]

# Budgets are treated as at most this, far beyond any meaning, so that exp(eps) stays finite.
EPS_MAX = 500.0
# Relative allowance for floating-point rounding in a delta; it costs about 1e-7 of the noise.
ROUNDING = 1e-6
# The same for the Jacobian's cost, which may all but exhaust eps: what is left must still be on the safe side.
COST_ROUNDING = 1e-13
# Below this delta the far cells of the grid leave the range of floating-point numbers.
# Up to this mu the insertion's two terms agree in too many digits to be subtracted.
NARROW = 3e-3
# So few lines are compared everywhere.
FEW = 16
# Shares of the budget for removing the one record, the rest for inserting the other. Every share is valid; they crowd
# towards 1, where a costly Jacobian puts the best one. A finer set would save at most 2 % of the noise, mostly 0.1 %.
SPLITS = np.concatenate((np.arange(28) / 40, 1 - 0.3 * 2.0 ** -(np.arange(352) / 16), [1.0]))


@dataclass(frozen=True)
class NormalGrid:
    """Nodes u of a grid, the normal mass beyond and between them, and where in each cell its mean lies."""

    nodes: Float  # (nodes,)
    beyond: Float  # (nodes,): P(u > node)
    mass: Float  # (nodes - 1,): P(node < u < next node)
    mean: Float  # (nodes - 1,): the conditional mean of u as a fraction of the cell, in [0, 1]


def normal_grid(delta: float) -> NormalGrid:
    """A grid fine enough for deltas down to `delta`; the mass beyond its last node is negligible beside it."""
    top = -float(special.ndtri(delta * 1e-5))
    # Steps of 0.05 up to 1, then steps across which the normal density falls by the factor exp(-0.05).
    nodes = np.concatenate((np.arange(-top, 1.0, 0.05), np.sqrt(np.arange(1.0, top**2 + 0.1, 0.1))))
    beyond = special.ndtr(-nodes)
    # Right of 0 the difference of survival functions is exact to rounding; left of it that of distribution functions.
    mass = np.where(nodes[:-1] >= 0, -np.diff(beyond), np.diff(special.ndtr(nodes)))
    density = np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)
    mean = (-np.diff(density) / mass - nodes[:-1]) / np.diff(nodes)
    return NormalGrid(nodes, beyond, mass, np.clip(mean, 0.0, 1.0))


def corner_lines(curve: LossCurve, curvature_ratio: float, every: int = 64) -> tuple[Float, Float]:
    """Few points (w / L, log(1 + kappa h)) whose lines bound those of all cells from above.

    Between every 64th corner the others lie below a chord once its ends are raised; along a chord the exponent is
    convex in w, so that its ends give the supremum.
    """
    gradient, cost = curve.gradient, np.log1p(curvature_ratio * curve.curvature) * (1 + COST_ROUNDING)
    knots = np.append(np.arange(0, len(gradient) - 1, every), len(gradient) - 1)
    raised = cost[knots]
    if len(knots) > 1:
        excess = np.maximum.reduceat(cost - np.interp(gradient, gradient[knots], raised), knots[:-1])
        raised = raised + np.maximum(np.append(excess, 0.0), np.append(0.0, excess))
    slopes = np.append(0.0, gradient[knots] / gradient[-1])
    # The term in the slope's square that `removal_profile` adds is convex: it brings no line back.
    return upper_hull(slopes, np.append(cost[0], raised))


@dataclass(frozen=True)
class RemovalProfile:
    """Upper bound of remove(e) = E (1 - exp(e - g(u)))_+ for every e."""

    levels: Float  # (nodes,): g at the nodes, nondecreasing
    deltas: Float  # (nodes,): the bound at e = levels

    def __call__(self, eps: Float) -> Float:
        """The bound at each of `eps`, shape (k,): convex in exp(eps), hence below the chord between nodes.

        At and below levels[0] it is 1 - w exp(eps) for some w.
        """
        above = np.searchsorted(self.levels, eps)
        right = np.clip(above, 1, len(self.levels) - 1)
        low, high = self.levels[right - 1], self.levels[right]
        between = (above > 0) & (above < len(self.levels))
        width = np.where(between, high - low, 1.0)
        share = np.expm1(np.where(between, eps - low, 0.0)) / np.expm1(width)
        chord = self.deltas[right - 1] + share * (self.deltas[right] - self.deltas[right - 1])
        first = self.deltas[0]
        below = first - (1 - first) * np.expm1(np.minimum(eps - self.levels[0], 0.0))
        return np.where(between, chord, np.where(above > 0, self.deltas[-1], below))


def removal_profile(lines: tuple[Float, Float], mu: float, grid: NormalGrid) -> RemovalProfile:
    """Bound the removal profile for noise with X L / sigma = mu."""
    slopes = mu * lines[0]
    levels = highest(slopes, lines[1] + slopes**2 / 2, grid.nodes)
    levels = levels[levels <= EPS_MAX + 1] if levels[0] <= EPS_MAX else levels[:1]
    cells, steps = len(levels) - 1, np.diff(levels)
    mass, part = grid.mass[:cells], grid.mean[:cells] * steps
    # g lies below its chord on each cell, and E exp(-chord) >= exp(-E chord) by Jensen's inequality. In logarithms,
    # because beside exp(-levels) the mass of a far cell would vanish and the bound with it.
    log_rest = np.append(np.logaddexp.accumulate((np.log(mass) - levels[:-1] - part)[::-1])[::-1], -np.inf)
    # From one level to the next the bound falls by positive terms only, so that nothing cancels.
    falls = -mass * np.expm1(-part) + np.exp(levels[:-1] + log_rest[1:]) * np.expm1(steps)
    return RemovalProfile(levels, grid.beyond[cells] + _sums_from(falls))


def upper_hull(slopes: Float, heights: Float) -> tuple[Float, Float]:
    """The lines that can be highest somewhere, and perhaps a few others; slopes increase.

    A line is left out if its point (slope, height) lies on or below the chord of its neighbours.
    """
    first = np.flatnonzero(np.append(True, slopes[1:] > slopes[:-1]))
    slopes, heights = slopes[first], np.maximum.reduceat(heights, first)
    while len(slopes) > 2:
        left, right = slopes[1:-1] - slopes[:-2], slopes[2:] - slopes[1:-1]
        above = heights[1:-1] * (left + right) > heights[:-2] * right + heights[2:] * left
        if above.all():
            break
        on_hull = np.concatenate(([True], above, [True]))
        slopes, heights = slopes[on_hull], heights[on_hull]
    return slopes, heights


def highest(slopes: Float, heights: Float, at: Float) -> Float:
    """The supremum of the lines heights + slopes u at each u in `at`, an increasing array; slopes do not decrease.

    On the hull the highest line moves to the right with u. Three lines are compared at each u, so that the rounding
    of where they cross decides nothing.
    """
    if len(slopes) <= FEW:
        return np.asarray((np.multiply.outer(slopes, at) + heights[:, None]).max(axis=0), dtype=np.float64)
    slopes, heights = upper_hull(slopes, heights)
    crossings = (heights[:-1] - heights[1:]) / (slopes[1:] - slopes[:-1])
    nearest = np.searchsorted(np.maximum.accumulate(crossings), at)
    result = slopes[nearest] * at + heights[nearest]
    for line in (np.maximum(nearest - 1, 0), np.minimum(nearest + 1, len(slopes) - 1)):
        np.maximum(result, slopes[line] * at + heights[line], out=result)
    return result


def _sums_from(terms: Float) -> Float:
    """Sums over each index and all later ones, and a final 0."""
    return np.append(np.cumsum(terms[::-1])[::-1], 0.0)


def insertion(eps: Float, mu: float, signed: bool, shift: Float | float = 0.0) -> Float:
    """exp(shift) insert(eps), insert(eps) = E (1 - exp(eps - mu v - mu^2 / 2))_+.

    v is standard normal if `signed`, else its absolute value.
    """
    one_sided = _log_narrow(eps, mu) if mu <= NARROW else _log_wide(eps, mu)
    if signed:
        return np.exp(shift + one_sided)
    # Where eps < mu^2 / 2 the positive part is everything: 1 - 2 exp(eps) P(v > mu), v standard normal.
    few = np.minimum(eps, mu**2 / 2)
    everything = special.erf(mu / math.sqrt(2)) - np.expm1(few) * special.erfc(mu / math.sqrt(2))
    return np.where(eps >= mu**2 / 2, 2 * np.exp(shift + one_sided), np.exp(shift) * everything)


def _log_wide(eps: Float, mu: float) -> Float:
    """log d, d = P(u > s) - exp(eps) P(u > s + mu), s = eps / mu - mu / 2."""
    upper = special.log_ndtr(mu / 2 - eps / mu)
    ratio = np.minimum(eps + special.log_ndtr(-mu / 2 - eps / mu) - upper, 0.0)
    with np.errstate(divide="ignore"):
        return upper + np.log(-np.expm1(ratio))


def _log_narrow(eps: Float, mu: float) -> Float:
    """Upper bound of the same for small mu: d = exp(-s^2 / 2) / 2 times the fall of erfcx over [s, s + mu] / sqrt(2).

    The rate of that fall is convex, so the trapezium on it lies above.
    """
    start = np.minimum(eps / mu, 1e100) - mu / 2
    return math.log(mu / math.sqrt(32)) + np.log(_fall(start) + _fall(start + mu)) - start**2 / 2


def _fall(x: Float) -> Float:
    """-erfcx'(t) at t = x / sqrt(2); far out, where its terms cancel, its asymptote 1 / (sqrt(pi) t^2) from above."""
    t = x / math.sqrt(2)
    near = np.minimum(t, 50.0)
    rate = 2 / math.sqrt(math.pi) - 2 * near * special.erfcx(near)
    return np.where(t < 50.0, rate, 1 / (math.sqrt(math.pi) * np.maximum(t, 50.0) ** 2))


def delta_bound(removal: RemovalProfile, mu: float, signed: bool, eps: float, adjacency: Adjacency) -> float:
    """Upper bound of delta(eps)."""
    if adjacency == "add_remove":
        at = np.array([eps])
        delta = max(float(removal(at)[0]), float(insertion(at, mu, signed)[0]))
    else:
        split = eps * SPLITS
        delta = float(np.min(removal(split) + insertion(eps - split, mu, signed, split)))
    return delta * (1 + ROUNDING)


def _noise_only_mu(eps: float, delta: float) -> float:
    """The mu at which insertion alone spends the whole of delta: no larger mu can do."""
    z = max(-float(special.ndtri(delta)), 0.0)
    mu = 2 * eps / (z + math.sqrt(z**2 + 2 * eps))
    at = np.array([eps])
    while float(insertion(at, 2 * mu, signed=True)[0]) <= delta:
        mu *= 2
    return 2 * mu


@lru_cache(maxsize=256)
def gaussian_mu(
    curve: LossCurve, signed: bool, eps: float, delta: float, curvature_ratio: float, adjacency: Adjacency
) -> float:
    """A mu = X L / sigma, the greatest up to 1e-6, at which (eps, delta) holds; 0 if no noise suffices."""
    eps = min(eps, EPS_MAX)
    lines, grid = corner_lines(curve, curvature_ratio), normal_grid(delta)

    def excess(log_mu: float) -> float:
        mu = math.exp(log_mu)
        return math.log(delta_bound(removal_profile(lines, mu, grid), mu, signed, eps, adjacency) / delta)

    # g(u) >= log(1 + kappa h) whatever the noise, so that remove(eps) has this floor.
    if -math.expm1(eps - lines[1][0]) >= delta:
        return 0.0
    high, step = math.log(_noise_only_mu(eps, delta)), math.log(2)
    low = high - step
    while excess(low) > 0:
        if step > 100:
            return 0.0
        high, step = low, 2 * step
        low = high - step
    root = float(optimize.brentq(excess, low, high, xtol=1e-7)) if excess(high) > 0 else high
    while excess(root) > 0:
        root -= 1e-7
    return math.exp(root)


@lru_cache(maxsize=256)
def gaussian_eps(
    curve: LossCurve, signed: bool, mu: float, delta: float, curvature_ratio: float, adjacency: Adjacency
) -> float:
    """The least eps, up to 1e-9 relative and not below 1e-6, at which (eps, delta) holds; inf if above EPS_MAX."""
    mu = max(mu, 1e-100)  # less costs nothing that can be told from it
    if mu > 1e3 or float(insertion(np.array([EPS_MAX]), mu, signed)[0]) > delta:
        return math.inf
    removal = removal_profile(corner_lines(curve, curvature_ratio), mu, normal_grid(delta))

    def holds(eps: float) -> bool:
        return delta_bound(removal, mu, signed, eps, adjacency) <= delta

    low, high = 1e-6, EPS_MAX
    if holds(low):
        return low
    if not holds(high):
        return math.inf
    while high > low * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


LEAST_EPS = 1e-9
"""What no eps is reported to be below."""


def gaussian_delta(eps: float, mu: float) -> float:
    """The least delta, rounded up, at which noise of 1/mu of the sensitivity is (eps, delta)-DP."""
    return float(insertion(np.array([eps]), mu, signed=True)[0]) * (1 + ROUNDING)


def analytic_mu(eps: float, delta: float) -> float:
    """The greatest mu = sensitivity / sigma, up to 1e-12, at which a Gaussian mechanism is (eps, delta)-DP.

    ArgumentError if `delta` is too small for the arithmetic.
    """
    check_delta(delta)
    low, high = 0.0, 1.0
    while gaussian_delta(eps, high) <= delta:
        low, high = high, 2 * high
    while low == 0:
        half = high / 2
        low, high = (half, high) if gaussian_delta(eps, half) <= delta else (0.0, half)
    while high > low * (1 + 1e-12):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(eps, middle) <= delta else (low, middle)
    return low


def least_eps(mu: float, delta: float) -> float:
    """The least eps, up to 1e-9 relative and at least LEAST_EPS, at which a mechanism of this mu is (eps, delta)-DP.

    ArgumentError if `delta` is too small for the arithmetic.
    """
    check_delta(delta)
    if gaussian_delta(LEAST_EPS, mu) <= delta:
        return LEAST_EPS
    low, high = LEAST_EPS, 1.0
    while gaussian_delta(high, mu) > delta:
        low, high = high, 2 * high
    while high > low * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if gaussian_delta(middle, mu) <= delta else (middle, high)
    return high

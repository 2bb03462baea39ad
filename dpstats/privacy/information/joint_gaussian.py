"""Coefficients with normal noise and information, from one (eps, delta): upper bounds (docs/proofs/information, 4).

With mu = X L / sigma, t = 1 / s2 the matrix noise's inverse scale, u and v independent standard normal,

    g(u, v) = sup over (a, h) in the curve, 0 <= w <= a, 0 <= B <= t h of
              log(1 + kappa h) + (w X / sigma) u + (w X / sigma)^2 / 2 + B v + B^2 / 2,

is a supremum of planes, convex and nondecreasing in u and v. For each v of a grid its integral over u is that of
`calibration_gaussian`; between two v it lies below a chord once a bound of its curvature is added. With Wishart noise
h / s2 joins the logarithm and there is no v.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.families import Family, get_family
from dpstats.families.base import LossCurve
from dpstats.privacy.calibration import CELLS, check_positive
from dpstats.privacy.gaussian import (
    COST_ROUNDING,
    EPS_MAX,
    ROUNDING,
    SPLITS,
    NormalGrid,
    gaussian_mu,
    normal_grid,
    removal_profile,
)
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget, check_delta
from dpstats.privacy.information.joint import JointScales, check_ratio, curve_weights, majorant_shift
from dpstats.privacy.information.matrix import MatrixLaw, MatrixNoise

Float = NDArray[np.float64]

# Every so many cells of the curve a chord; with raised ends it lies within 1e-4 of the curve, or 3e-4 beside normal
# matrix noise, where all chords are tried for each v.
EVERY: dict[MatrixLaw, int] = {"wishart": 256, "normal": 1024}
# Step of the grid of v, times the largest slope in v, or times that over mu, and its limits: curvature bound and chords
# cost less than 2e-3 of the noise.
BEND, GROWTH, STEP, LONGEST = 0.03, 0.08, 0.15, 0.75
# So many shares on either side of the best one are tried while a scale is sought.
NEAR = 2
# Shares of eps for the one record: every one is valid.
SHARES = np.concatenate((SPLITS[:28], SPLITS[28::8]))


@dataclass(frozen=True)
class JointPoints:
    """Points whose planes bound g: slopes in u over mu, in v over t, and what does not depend on the noise."""

    gradient: Float  # (points,): w / L
    weight: Float  # (points,): B / t
    cost: Float  # (points,): log(1 + kappa h)
    extra: Float  # (points,): h, which Wishart noise charges for


def joint_points(curve: LossCurve, curvature_ratio: float, weights: Float, moved: float, law: MatrixLaw) -> JointPoints:
    """Few points that bound all cells; `weights`, shape (cells,), and `moved` more are what the matrix sees of them.

    Between two knots (g, h, log(1 + kappa h)) of the others lies below the chord once its ends are raised; along a
    chord the exponent is convex, as it is in w and in B, so that ends suffice.
    """
    gradient = curve.gradient / curve.gradient[-1]
    knots = np.append(np.arange(0, len(gradient) - 1, EVERY[law]), len(gradient) - 1)
    weight = _raised(gradient, weights, knots) + moved
    cost = _raised(gradient, np.log1p(curvature_ratio * curve.curvature) * (1 + COST_ROUNDING), knots)
    slopes = np.append(0.0, gradient[knots])
    weight, cost = np.append(weight.max(), weight), np.append(cost.max(), cost)
    none = np.zeros_like(weight)
    if law == "wishart":
        return JointPoints(slopes, none, cost, weight)
    twice = np.concatenate
    return JointPoints(twice((slopes, slopes)), twice((none, weight)), twice((cost, cost)), twice((none, none)))


def _raised(gradient: Float, values: Float, knots: NDArray[np.intp]) -> Float:
    """Values at the knots, raised so that the chords between them lie above all values."""
    excess = values - np.interp(gradient, gradient[knots], values[knots])
    raised = values[knots].copy()
    for index, (first, last) in enumerate(itertools.pairwise(knots)):
        most = max(0.0, float(excess[first : last + 1].max()))
        raised[index] = max(raised[index], values[first] + most)
        raised[index + 1] = max(raised[index + 1], values[last] + most)
    return raised * (1 + COST_ROUNDING)


def half_grid(grid: NormalGrid) -> NormalGrid:
    """The grid of |u|: nodes from 0 on, with the mass of both sides."""
    start = int(np.argmin(np.abs(grid.nodes)))
    nodes = grid.nodes[start:].copy()
    nodes[0] = 0.0
    return _grid_on(nodes, 2.0)


def coarse_grid(top: float, slope: float, mu: float) -> NormalGrid:
    """A grid of v from -top to top, in equal steps: smaller ones the larger the slope in v, by itself and over mu."""
    step = min(max(STEP, min(BEND, GROWTH * mu) / slope), LONGEST)
    return _grid_on(np.linspace(-top, top, math.ceil(2 * top / step) + 1), 1.0)


def _grid_on(nodes: Float, times: float) -> NormalGrid:
    beyond = special.ndtr(-nodes)
    mass = np.where(nodes[:-1] >= 0, -np.diff(beyond), np.diff(special.ndtr(nodes)))
    density = np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)
    mean = (-np.diff(density) / mass - nodes[:-1]) / np.diff(nodes)
    return NormalGrid(nodes, times * beyond, times * mass, np.clip(mean, 0.0, 1.0))


def joint_integral(points: JointPoints, mu: float, inverse: float, at: Float, grid: NormalGrid) -> Float:
    """Upper bound of E (1 - exp(e - g(u, v)))_+ at each e of `at`, shape (k,); `inverse` is t."""
    cost = points.cost + inverse * points.extra
    slope = inverse * points.weight
    if not np.any(slope):
        return removal_profile((points.gradient, cost), mu, grid)(at)
    top = float(slope.max())
    second = coarse_grid(float(grid.nodes[-1]), top, mu)
    levels = _levels(points.gradient * mu, cost, slope, grid.nodes, second.nodes)
    values, exceeds = _inner_integrals(levels, at, grid)
    mass, mean, width = second.mass[:, None], second.mean[:, None], np.diff(second.nodes)[:, None]
    cells = (1 - mean) * values[:-1] + mean * values[1:] + exceeds[1:] * (top * width) ** 2 / 8
    first = float(special.ndtr(second.nodes[0])) * values[0]
    return np.asarray((mass * cells).sum(axis=0) + first + second.beyond[-1])


def _levels(gradient: Float, cost: Float, slope: Float, nodes: Float, second: Float) -> Float:
    """g at the nodes of v and of u, shape (nodes of v, nodes of u): the largest of the planes."""
    pulls, group = np.unique(gradient, return_inverse=True)
    heights = np.full((len(pulls), len(second)), -np.inf)
    np.maximum.at(heights, group, cost[:, None] + np.multiply.outer(slope, second) + (slope**2 / 2)[:, None])
    levels = np.full((len(second), len(nodes)), -np.inf)
    for pull, height in zip(pulls, heights, strict=True):
        np.maximum(levels, (pull * nodes + pull**2 / 2) + height[:, None], out=levels)
    return levels


def _inner_integrals(levels: Float, at: Float, grid: NormalGrid) -> tuple[Float, Float]:
    """E (1 - exp(e - g))_+ over u and P(g > e), both from above, for each v and each e: two arrays (nodes of v, k).

    On a cell g lies below its chord. Above e the integrand is concave in g, so it is at most that of the mean level;
    on the cell where g crosses e it is at most that of the upper end.
    """
    # Below `first` g exceeds no e whatever v is.
    first = max(int(np.searchsorted(levels[-1], float(at.min()), side="right")) - 1, 0)
    start, end, mass = levels[:, first:-1], levels[:, first + 1 :], grid.mass[first:]
    middle = start + grid.mean[first:] * (end - start)
    values, exceeds = np.empty((len(levels), len(at))), np.empty((len(levels), len(at)))
    before = max(0.0, 1.0 - float(grid.mass.sum()) - float(grid.beyond[-1]))
    for index, eps in enumerate(at):
        reached = np.where(start >= eps, middle, end)
        values[:, index] = -np.expm1(np.minimum(eps - reached, 0.0)) @ mass + grid.beyond[-1]
        exceeds[:, index] = (end > eps) @ mass + grid.beyond[-1]
        values[:, index] += np.where(levels[:, 0] > eps, before, 0.0)
    return np.minimum(values, 1.0), np.minimum(exceeds + before, 1.0)


@dataclass(frozen=True)
class JointProfile:
    """The privacy of a fit with normal noise and its information, as a function of the noise."""

    # removal, insertion: With the determinant's cost and without it.
    removal: JointPoints
    insertion: JointPoints
    signed: bool
    eps: float
    delta: float
    adjacency: Adjacency
    # (k,): of eps for removing the one record, where another takes its place; any will do.
    shares: Float = field(default_factory=lambda: SHARES)

    def bound(self, mu: float, inverse: float) -> float:
        """Upper bound of delta(eps) with X L / sigma = mu and matrix noise of scale 1 / inverse."""
        return float(np.min(self.bounds(mu, inverse)))

    def near(self, mu: float, inverse: float) -> JointProfile:
        """The profile with the shares next to the one that is best for this noise."""
        if self.adjacency == "add_remove":
            return self
        best = int(np.argmin(self.bounds(mu, inverse)))
        return replace(self, shares=self.shares[max(best - NEAR, 0) : best + NEAR + 1])

    def bounds(self, mu: float, inverse: float) -> Float:
        """`bound` for each share, shape (k,), or (1,) if none takes the record's place."""
        full = normal_grid(self.delta)
        if self.adjacency == "add_remove":
            at = np.array([self.eps])
            grid = full if self.signed else half_grid(full)
            removed = float(joint_integral(self.removal, mu, inverse, at, full)[0])
            delta = np.maximum(removed, joint_integral(self.insertion, mu, inverse, at, grid))
        else:
            # What lies beyond the grid is counted exp(e) times.
            far = normal_grid(max(self.delta * math.exp(-self.eps), 1e-290))
            grid, split = far if self.signed else half_grid(far), self.eps * self.shares
            removed_at = joint_integral(self.removal, mu, inverse, split, full)
            inserted = joint_integral(self.insertion, mu, inverse, self.eps - split, grid)
            delta = removed_at + np.exp(split) * inserted
        return np.asarray(delta * (1 + ROUNDING), dtype=np.float64)


def joint_scales_delta(
    family: Family | str,
    *,
    eps: float,
    delta: float,
    curvature_ratio: float,
    row_norm: float,
    ratio: float,
    law: MatrixLaw = "normal",
    adjacency: Adjacency = "add_remove",
    eta_error: float = 0.0,
    weight_cap: float | None = None,
) -> JointScales:
    """Scales of normal noise for the fit and of matrix noise, together (eps, delta)-private, for a ratio of the two.

    `ratio` is 1 / s2 as a multiple of row_norm / sigma. Within about 1e-3 of the least; infinite if the curvature is
    too small for any noise.
    """
    family = get_family(family, of_pieces=True)
    eps, delta = check_budget(eps, delta)
    check_positive("delta", delta)
    check_delta(delta)
    kappa, norm = check_positive("curvature_ratio", curvature_ratio), check_positive("row_norm", row_norm)
    ratio, adjacency = check_ratio(ratio), check_adjacency(adjacency)
    profile = joint_profile(
        family,
        eps=eps,
        delta=delta,
        curvature_ratio=kappa,
        adjacency=adjacency,
        law=law,
        eta_error=eta_error,
        weight_cap=weight_cap,
    )
    most = gaussian_mu(family.curve(CELLS), family.signed, profile.eps, delta, kappa, adjacency)
    reach = norm * family.lipschitz
    if most == 0 or ratio == 0:
        return JointScales(reach / most if most > 0 else math.inf, math.inf)
    mu = _greatest(profile, most, ratio / family.lipschitz)
    return JointScales(reach / mu, family.lipschitz / (ratio * mu)) if mu > 0 else JointScales(math.inf, math.inf)


def joint_profile(
    family: Family | str,
    *,
    eps: float,
    delta: float,
    curvature_ratio: float,
    adjacency: Adjacency = "add_remove",
    law: MatrixLaw = "normal",
    eta_error: float = 0.0,
    weight_cap: float | None = None,
) -> JointProfile:
    """The profile of a family; arguments as for `joint_scales_delta`."""
    family = get_family(family, of_pieces=True)
    curve = family.curve(CELLS)
    weights = curve_weights(family, curve, weight_cap), majorant_shift(family, eta_error, weight_cap)
    removal = joint_points(curve, curvature_ratio, *weights, law)
    return JointProfile(
        removal, joint_points(curve, 0.0, *weights, law), family.signed, min(eps, EPS_MAX), delta, adjacency
    )


def _greatest(profile: JointProfile, most: float, per_mu: float) -> float:
    """The greatest mu, up to 1e-4, at which the bound with matrix noise of inverse scale per_mu * mu holds."""
    profile = profile.near(0.9 * most, 0.9 * per_mu * most)

    def excess(log_mu: float) -> float:
        mu = math.exp(log_mu)
        return math.log(max(profile.bound(mu, per_mu * mu), 1e-300) / profile.delta)

    high, step = math.log(most), 0.25
    low = high - step
    while excess(low) > 0:
        if step > 50:
            return 0.0
        high, step = low, 2 * step
        low = high - step
    root = float(optimize.brentq(excess, low, high, xtol=1e-4)) if excess(high) > 0 else high
    while excess(root) > 0:
        root -= 1e-4
    return math.exp(root)


LAWS: tuple[MatrixLaw, ...] = ("wishart", "normal")

PRECISION = 1e-3
"""Relative, of the matrix noise's scale."""


class JointChoice(NamedTuple):
    """A law of the matrix noise, with the scales of fit and matrix and the variance of an entry off the diagonal."""

    law: MatrixLaw
    scales: JointScales
    entry_variance: float


@lru_cache(maxsize=64)
def best_joint_scales_delta(
    family: Family | str,
    *,
    eps: float,
    delta: float,
    size: int,
    curvature_ratio: float,
    row_norm: float,
    surcharge: float = 0.01,
    adjacency: Adjacency = "add_remove",
    eta_error: float = 0.0,
    weight_cap: float | None = None,
) -> JointChoice:
    """The matrix noise of least variance, of either law, that a little more normal noise of the fit pays for.

    The fit's noise is (1 + surcharge) times what it is with the whole budget to itself; `size` is the matrix's p.
    Infinite scales if the curvature is too small for any noise.
    """
    family = get_family(family, of_pieces=True)
    eps, delta = check_budget(eps, delta)
    check_positive("delta", delta)
    check_delta(delta)
    kappa, norm = check_positive("curvature_ratio", curvature_ratio), check_positive("row_norm", row_norm)
    adjacency, extra = check_adjacency(adjacency), check_positive("surcharge", surcharge)
    if size < 1:
        raise ArgumentError(f"size must be a positive number of columns, got {safe_repr(size)}")
    profiles = {
        law: joint_profile(
            family,
            eps=eps,
            delta=delta,
            curvature_ratio=kappa,
            adjacency=adjacency,
            law=law,
            eta_error=eta_error,
            weight_cap=weight_cap,
        )
        for law in LAWS
    }
    most = gaussian_mu(family.curve(CELLS), family.signed, profiles["normal"].eps, delta, kappa, adjacency)
    if most == 0:
        return JointChoice("normal", JointScales(math.inf, math.inf), math.inf)
    mu = most / (1 + extra)
    choices = [_choice(law, profile, mu, size, norm * family.lipschitz / mu) for law, profile in profiles.items()]
    return min(choices, key=lambda choice: choice.entry_variance)


def _choice(law: MatrixLaw, profile: JointProfile, mu: float, size: int, fit: float) -> JointChoice:
    inverse = _greatest_inverse(profile, mu)
    if inverse == 0:
        return JointChoice(law, JointScales(fit, math.inf), math.inf)
    noise = MatrixNoise(law, 1 / inverse, (1.0,) * size)
    return JointChoice(law, JointScales(fit, noise.scale), noise.entry_variance)


def _greatest_inverse(profile: JointProfile, mu: float) -> float:
    """The greatest inverse scale of the matrix noise, up to `PRECISION`, at which the bound holds; 0 if none does."""
    weight = float(max(profile.removal.weight.max(), profile.removal.extra.max()))
    guess = math.log(mu / weight)
    profile = profile.near(mu, 0.5 * mu / weight)

    def excess(log_inverse: float) -> float:
        return math.log(max(profile.bound(mu, math.exp(log_inverse)), 1e-300) / profile.delta)

    high, step = guess, 0.5
    while excess(high) <= 0:
        high, step = high + step, 2 * step
    low, step = high - 0.5, 0.5
    while excess(low) > 0:
        if step > 20:
            return 0.0
        high, step = low, 2 * step
        low = high - step
    root = float(optimize.brentq(excess, low, high, xtol=PRECISION))
    while excess(root) > 0:
        root -= PRECISION
    return math.exp(root)

"""Logistic regression from second moments: its slope's best linear approximation (docs/proofs/local, 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.cached import cached_property
from dpstats.penalties import Penalty
from dpstats.privacy.k_norm.blocks import Image
from dpstats.solvers.linear_algebra import minimize_quadratic

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LEVELS = (np.arange(400) + 0.5) / 400
"""Of the quantiles that stand for a law of predictors."""

MOST_TURNS = 1000
CONVERGED = 1e-11
"""Of slope (in proportion) and offset together, in a turn."""

FLATTEST = 1e-12
"""No line is flatter: predictors so far out come of noise."""

NARROW = 1e-9
"""Predictors of so little variance count as one point."""

CONCENTRATED = 1e6
"""A beta law of so many pseudo-observations is as good as normal."""

SPREAD = 1e-3
"""And one of so few is two points."""

STEP = 1e-5
"""Of numerical derivatives, in proportion."""


class BestLinear(NamedTuple):
    """The linear function of eta that is nearest to expit(eta) - 1/2 in mean square."""

    offset: float
    slope: float


def nearest_line(mean: float, variance: float, low: float, high: float) -> BestLinear:
    """For a beta law on [low, high] with a mean and a variance.

    It is two points where the variance is the greatest possible, uniform where it is that of a uniform law, and nearly
    normal where it is small beside the interval.
    """
    eta = _quantiles(mean, variance, low, high)
    center = float(eta.mean())
    slope = special.expit(eta) - 0.5
    moved = eta - center
    square = float(np.mean(moved * moved))
    if square <= NARROW:
        bend = float(special.expit(center) * special.expit(-center))
    else:
        bend = float(np.mean(moved * slope)) / square
    bend = max(bend, FLATTEST)
    return BestLinear(float(slope.mean()) - bend * center, bend)


def _quantiles(mean: float, variance: float, low: float, high: float) -> Vector:
    width = high - low
    if not width**2 > NARROW:
        return np.full_like(LEVELS, mean)
    place = min(max((mean - low) / width, 1e-6), 1 - 1e-6)
    total = place * (1 - place) * width**2 / max(variance, 1e-300) - 1
    if total > CONCENTRATED:
        return np.asarray(mean + math.sqrt(max(variance, 0.0)) * special.ndtri(LEVELS))
    total = max(total, SPREAD)
    return np.asarray(low + width * special.betaincinv(place * total, (1 - place) * total, LEVELS))


@dataclass(frozen=True, eq=False)
class LinearisedLogistic:
    """The estimating equation of logistic regression, as far as second moments tell it.

    That equation is sum (expit(x'theta) - 1/2) x + K theta = v. With offset a and slope b of the line nearest to
    expit(eta) - 1/2 over the law of x'theta it becomes a sum x + b sum x x' theta + K theta = v: exactly so where the
    mean of x given x'theta is linear in x'theta. Mean and variance of x'theta are those of the sums, its range is that
    of the design, and its law is taken to be a beta law.
    """

    gram: Matrix  # (p, p): about sum x x', positive semidefinite
    vector: Vector  # (p,): v, about sum (y - 1/2) x
    ridge: Matrix  # (p, p): K, positive definite
    images: tuple[Image, ...]  # What rows of the design can be
    # The number of rows where there is no intercept, which tells it and the columns' means; these are then taken to be
    # zero.
    count: float

    @cached_property
    def intercept(self) -> tuple[int, float] | None:
        """The place of the column that is the same in all rows, and its value; None if there is none."""
        for image in self.images:
            if image.block.kind == "intercept" and np.count_nonzero(image.matrix) == 1:
                at = int(np.argmax(np.abs(image.matrix[0])))
                return image.columns[at], float(image.matrix[0, at])
        return None

    @cached_property
    def rows(self) -> float:
        """How many rows there are."""
        if self.intercept is None:
            return self.count
        at, constant = self.intercept
        return float(self.gram[at, at]) / constant**2

    @cached_property
    def sums(self) -> Vector:
        """Sums of the columns, shape (p,)."""
        if self.intercept is None:
            return np.zeros_like(self.vector)
        at, constant = self.intercept
        return np.asarray(self.gram[at] / constant)

    def moments(self, theta: Vector) -> tuple[float, float]:
        """Mean and variance of x'theta."""
        mean = float(self.sums @ theta) / self.rows
        return mean, max(float(theta @ self.gram @ theta) / self.rows - mean**2, 0.0)

    def reach(self, theta: Vector) -> tuple[float, float]:
        """The least and the greatest x'theta that the design has."""
        low, high = 0.0, 0.0
        for image in self.images:
            along, kind = image.matrix @ theta[list(image.columns)], image.block.kind
            if kind == "intercept":
                low, high = low + float(along[0]), high + float(along[0])
            elif kind == "simplex":
                low, high = low + min(float(along.min()), 0.0), high + max(float(along.max()), 0.0)
            else:
                sizes = np.abs(along)
                size = {"box": sizes.sum(), "cross": sizes.max(), "ball": float(np.linalg.norm(along))}[kind]
                low, high = low - float(size), high + float(size)
        return low, high

    def line(self, theta: Vector) -> BestLinear:
        """The nearest line over the law of x'theta."""
        return nearest_line(*self.moments(theta), *self.reach(theta))

    def solve(self, penalty: Penalty | None, weights: Vector, tolerance: float) -> Vector:
        """Coefficients for which line and solution agree, shape (p,), with a convex penalty if there is one.

        `tolerance` is of the distance of 0 to the subdifferential, for a given line.
        """
        theta, line = np.zeros_like(self.vector), BestLinear(0.0, 0.25)
        for _ in range(MOST_TURNS):
            hessian, target = line.slope * self.gram + self.ridge, self.vector - line.offset * self.sums
            if penalty is None:
                theta = np.asarray(np.linalg.solve(hessian, target), dtype=np.float64)
            else:
                theta = minimize_quadratic(hessian, hessian @ theta - target, penalty, weights, theta, tolerance)
            found = self.line(theta)
            change = abs(found.offset - line.offset) + abs(math.log(found.slope / line.slope))
            # Half of the way: where predictors are far out the new line overshoots.
            line = BestLinear((found.offset + line.offset) / 2, math.sqrt(found.slope * line.slope))
            if change < CONVERGED:
                break
        return theta

    def covariance(self, theta: Vector, matrix: float, vector: float) -> Matrix:
        """What noise in the sums gives the solution without penalty, to first order, shape (p, p).

        `matrix` and `vector` are variances of the noise in an entry off the diagonal of `gram`, on it twice as much,
        and of `vector`.
        """
        inverse = np.linalg.pinv(self._jacobian(theta))
        noise = self._noise(theta, matrix) + vector * np.eye(len(theta))
        return np.asarray(inverse @ noise @ inverse.T, dtype=np.float64)

    def _jacobian(self, theta: Vector) -> Matrix:
        """The equation's derivative by theta, shape (p, p)."""
        line, size = self.line(theta), max(float(np.linalg.norm(theta)), 1.0)
        moved = [
            (np.array(self.line(theta + STEP * size * unit)) - np.array(self.line(theta - STEP * size * unit)))
            / (2 * STEP * size)
            for unit in np.eye(len(theta))
        ]
        offsets, slopes = np.array(moved).T
        bent = np.outer(self.gram @ theta, slopes) + np.outer(self.sums, offsets)
        return np.asarray(line.slope * self.gram + self.ridge + bent, dtype=np.float64)

    def _noise(self, theta: Vector, variance: float) -> Matrix:
        """The equation's covariance by noise E in `gram`, shape (p, p): of E a + sum_i u_i b_i'E c_i."""
        direct, scalars = self._differential(theta)
        found = variance * ((direct @ direct) * np.eye(len(theta)) + np.outer(direct, direct))
        for u, b, c in scalars:
            mixed = variance * np.outer((direct @ c) * b + (direct @ b) * c, u)
            found = found + mixed + mixed.T
            for other, d, e in scalars:
                found = found + variance * ((b @ d) * (c @ e) + (b @ e) * (c @ d)) * np.outer(u, other)
        return np.asarray(found, dtype=np.float64)

    def _differential(self, theta: Vector) -> tuple[Vector, list[tuple[Vector, Vector, Vector]]]:
        """a, and the triples (u, b, c), of the equation's differential by `gram`."""
        (mean, variance), reach, n = self.moments(theta), self.reach(theta), self.rows
        line, step = nearest_line(mean, variance, *reach), STEP * max(math.sqrt(variance), STEP)
        by_mean = _slope(lambda by: nearest_line(mean + by, variance, *reach), step)
        by_variance = _slope(lambda by: nearest_line(mean, variance + by, *reach), step * math.sqrt(variance))
        along = np.column_stack([self.sums, self.gram @ theta])
        of_variance = along @ by_variance
        if self.intercept is None:
            return line.slope * theta, [(of_variance / n, theta, theta)]
        at, constant = self.intercept
        unit = np.zeros_like(theta)
        unit[at] = 1.0
        # n d mean = unit'E theta / c - mean dn and n d variance = theta'E theta - (variance + mean^2) dn - 2 n mean
        # d mean, with dn = unit'E unit / c^2.
        of_mean = along @ by_mean - 2 * mean * of_variance
        left = mean * of_mean + (variance + mean**2) * of_variance
        return line.slope * theta + line.offset / constant * unit, [
            (of_mean / (constant * n), unit, theta),
            (of_variance / n, theta, theta),
            (-left / (constant**2 * n), unit, unit),
        ]


def _slope(line: Callable[[float], BestLinear], step: float) -> Vector:
    """The derivatives of offset and slope, shape (2,)."""
    if step == 0:
        return np.zeros(2)
    return np.asarray((np.array(line(step)) - np.array(line(-step))) / (2 * step), dtype=np.float64)

"""Audit a mechanism with one or two outputs whose log density is known, by quadrature instead of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from statsmodels.iolib.table import SimpleTable

from dpstats.errors import ArgumentError
from dpstats.privacy.guarantee import check_budget
from dpstats.results.stored import Printed
from dpstats.summaries import Summary

FloatArray = NDArray[np.float64]
LogDensity = Callable[[FloatArray], FloatArray]

_ORDER = 8
_CELLS = {1: 64, 2: 24}
_STARTS = 20


@dataclass(frozen=True)
class ExactResult(Printed):
    """The privacy loss of two densities over a box."""

    # eps, delta: The claim.
    eps: float
    delta: float
    # Greatest log-ratio met, over both directions: a lower bound of its supremum, infinite if one density vanishes
    # where the other does not.
    max_log_ratio: float
    where: FloatArray  # (size,): the point it was met at
    hockey_stick: float  # The greater of the two integrals of (p - exp(eps) q)_+ over the box
    error: float  # Estimated quadrature error of `hockey_stick`
    # Greatest mass either density leaves outside the box (within quadrature error): what the box may hide.
    outside: float
    passed: bool  # False if the claim is refuted: by the log-ratio when delta is 0, else by the integral less its error

    def summary(self) -> Summary:
        """The result as a table of at most 80 columns."""
        point = ", ".join(f"{value:.4g}" for value in self.where)
        rows = [
            ["Claimed epsilon:", f"{self.eps:.6g}", "Claimed delta:", f"{self.delta:.4g}"],
            ["Greatest log-ratio:", f"{self.max_log_ratio:.6g}", "Met at:", f"({point})"],
            ["Hockey-stick:", f"{self.hockey_stick:.6g}", "Quadrature error:", f"{self.error:.2g}"],
            ["Mass outside the box:", f"{self.outside:.2g}", "The claim is", "kept" if self.passed else "REFUTED"],
        ]
        style = {"data_aligns": "lrlr", "colsep": "  "}
        return Summary([SimpleTable(rows, title="Audit by exact densities", txt_fmt=style)])


def audit_exact(
    log_density: LogDensity,
    log_neighbour: LogDensity,
    box: Sequence[tuple[float, float]],
    *,
    eps: float,
    delta: float = 0.0,
    tolerance: float = 1e-9,
    max_cells: int = 200_000,
) -> ExactResult:
    """Compare two output densities exactly, in one or two dimensions.

    Log densities map points, shape (rows, size), to shape (rows,), -inf where the density vanishes; `box` has one
    interval a dimension, wide enough to hold nearly all the mass. Cells of a grid carry tensor Gauss-Legendre rules of
    order 8; one whose rule disagrees with those of its parts is split, largest disagreement first, up to `max_cells` or
    an absolute error of `tolerance`, which is also the slack allowed to a log-ratio that meets eps exactly. The log-
    ratio is maximised over all nodes met and then by shrinking grids around the best of them. ArgumentError for a box
    without one or two finite intervals, or a log density that is NaN or +inf.
    """
    eps, delta = check_budget(eps, delta)
    corners = np.asarray(box, dtype=np.float64)
    if corners.ndim != 2 or corners.shape[0] not in _CELLS or corners.shape[1] != 2 or not np.isfinite(corners).all():
        raise ArgumentError("box must hold one or two (low, high) intervals of finite numbers")
    if (corners[:, 0] >= corners[:, 1]).any():
        raise ArgumentError("box must have low < high in every dimension")
    pair = _DensityPair(log_density, log_neighbour, eps)
    integrals, errors, starts = _integrate(pair, corners, tolerance, max_cells)
    ratio, where = _climb(pair, starts, (corners[:, 1] - corners[:, 0]) / (_CELLS[len(corners)] * _ORDER / 2), corners)
    side = 2 + int(np.argmax(integrals[2:]))
    stick, error = float(integrals[side]), float(errors[side])
    passed = ratio <= eps + tolerance if delta == 0 else stick - error <= delta
    outside = float(max(0.0, 1 - integrals[0], 1 - integrals[1]))
    return ExactResult(eps, delta, ratio, where, stick, error, outside, bool(passed))


@dataclass(frozen=True)
class _DensityPair:
    first: LogDensity
    second: LogDensity
    eps: float

    def logs(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        p, q = (np.asarray(f(points), dtype=np.float64).reshape(-1) for f in (self.first, self.second))
        for values in (p, q):
            if values.shape != (len(points),) or np.isnan(values).any() or (values == np.inf).any():
                raise ArgumentError("a log density must give one number below +inf for each row of points")
        return p, q

    def integrands(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The four integrands, shape (4, rows): p, q and both hockey sticks; and the log-ratio's size, (rows,)."""
        p, q = self.logs(points)
        excess = [np.exp(a) * -np.expm1(np.minimum(_difference(b, a) + self.eps, 0)) for a, b in ((p, q), (q, p))]
        return np.stack([np.exp(p), np.exp(q), *excess]), np.abs(_difference(p, q))


def _difference(a: FloatArray, b: FloatArray) -> FloatArray:
    """a - b where both may be -inf: no density on either side is no difference."""
    nowhere = np.isneginf(a) & np.isneginf(b)
    return np.where(nowhere, 0.0, np.where(nowhere, 0.0, a) - np.where(nowhere, 0.0, b))


def _rule(size: int) -> tuple[FloatArray, FloatArray]:
    """Tensor Gauss-Legendre nodes on the unit cube, (nodes, size), and weights, (nodes,)."""
    x, w = np.polynomial.legendre.leggauss(_ORDER)
    nodes = np.array(list(product((x + 1) / 2, repeat=size)))
    weights = np.array([np.prod(c) for c in product(w / 2, repeat=size)])
    return nodes, weights


def _quadrature(pair: _DensityPair, low: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Integrals over cells, shape (cells, 4); the greatest log-ratio of each cell and its node."""
    nodes, weights = _rule(low.shape[1])
    points = low[:, None, :] + width[:, None, :] * nodes
    values, ratios = pair.integrands(points.reshape(-1, low.shape[1]))
    sums = (values.reshape(4, len(low), -1) * weights).sum(axis=2).T * width.prod(axis=1)[:, None]
    ratios = ratios.reshape(len(low), -1)
    top = ratios.argmax(axis=1)
    rows = np.arange(len(low))
    return sums, ratios[rows, top], points[rows, top]


def _split(low: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The 2**size halves of each cell, in an order that keeps siblings together."""
    size = low.shape[1]
    corners = np.array(list(product((0.0, 0.5), repeat=size)))
    parts = (low[:, None, :] + corners * width[:, None, :]).reshape(-1, size)
    return parts, np.repeat(width / 2, len(corners), axis=0)


def _integrate(
    pair: _DensityPair, corners: FloatArray, tolerance: float, max_cells: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Adaptive integrals and their error estimates, each of shape (4,), and points of great log-ratio."""
    size, count = len(corners), _CELLS[len(corners)]
    width = np.tile((corners[:, 1] - corners[:, 0]) / count, (count**size, 1))
    low = corners[:, 0] + np.array(list(product(range(count), repeat=size))) * width
    sums, ratios, points = _quadrature(pair, low, width)
    total, error = np.zeros(4), np.zeros(4)
    best = _best(ratios, points)
    used = len(low)
    while len(low):
        parts, part_width = _split(low, width)
        part_sums, ratios, points = _quadrature(pair, parts, part_width)
        best = _best(np.append(ratios, best[0]), np.vstack([points, best[1]]))
        gaps = np.abs(part_sums.reshape(len(low), -1, 4).sum(axis=1) - sums)
        used += len(parts)
        # The cells of least disagreement may keep it, as long as together they use little of the tolerance.
        order = np.argsort(gaps.max(axis=1))
        again = np.empty(len(low), dtype=bool)
        again[order] = np.cumsum(gaps.max(axis=1)[order]) > tolerance / 20
        again &= used < max_cells
        done = np.repeat(~again, 2**size)
        total += part_sums[done].sum(axis=0)
        error += gaps[~again].sum(axis=0)
        low, width, sums = parts[~done], part_width[~done], part_sums[~done]
    return total, error, best[1]


def _best(ratios: FloatArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    order = np.argsort(ratios)[::-1][:_STARTS]
    return ratios[order], points[order]


def _climb(pair: _DensityPair, starts: FloatArray, step: FloatArray, corners: FloatArray) -> tuple[float, FloatArray]:
    """Shrinking grid search of the log-ratio from each start, within the box."""
    grid = np.array(list(product(np.linspace(-1, 1, 5), repeat=len(step))))
    at = starts
    ratios = np.zeros(len(at))
    for _ in range(60):
        points = np.clip(at[:, None, :] + grid * step, corners[:, 0], corners[:, 1])
        p, q = pair.logs(points.reshape(-1, len(step)))
        values = np.abs(_difference(p, q)).reshape(len(at), -1)
        top = values.argmax(axis=1)
        at, ratios = points[np.arange(len(at)), top], values.max(axis=1)
        step = step * 0.7
    best = int(np.argmax(ratios))
    return float(ratios[best]), at[best]

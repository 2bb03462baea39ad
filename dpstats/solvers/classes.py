"""The perturbed objective of several classes: a linear predictor each (docs/proofs/multinomial, arithmetic)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block
from dpstats.families.multinomial import Multinomial
from dpstats.solvers import pairs
from dpstats.solvers.linear_algebra import CERTIFIED_CELLS, CHUNK_ROWS, chunks
from dpstats.solvers.objective import Accumulated, PerturbedObjective, Vector
from dpstats.solvers.pairs import Array, Pair
from dpstats.solvers.rounding import (
    CERTIFIED_ROWS,
    SPLIT_BITS,
    Precision,
    Sums,
    add_products,
    split_array,
)


def _derivatives(family: Multinomial, theta: Vector, block: Block) -> tuple[float, Array, Array]:
    """The loss of some rows, and by row probabilities and slopes, shapes (rows, K), the latter times weights."""
    eta = block.exog @ theta.reshape(family.classes, -1).T
    value, slope, _ = family.derivatives(eta, block.endog)
    probabilities = family.mean(eta)
    if block.weights is None:
        return float(value.sum()), probabilities, slope
    return float(block.weights @ value), probabilities, block.weights[:, None] * slope


def _accumulated(family: Multinomial, theta: Vector, blocks: Iterable[Block]) -> Accumulated:
    """The loss of some rows, its gradient and Hessian."""
    classes, size = family.classes, len(theta) // family.classes
    value, gradient = 0.0, np.zeros((classes, size))
    hessian = np.zeros((classes, size, classes, size))
    for block in chunks(blocks, CHUNK_ROWS):
        one, probabilities, slope = _derivatives(family, theta, block)
        value += one
        gradient += slope.T @ block.exog
        weights = probabilities if block.weights is None else block.weights[:, None] * probabilities
        for row in range(classes):
            for column in range(row + 1):
                bend = weights[:, row] * ((row == column) - probabilities[:, column])
                part = np.dot(block.exog.T, bend[:, None] * block.exog)
                hessian[row, :, column] += part
                if row != column:
                    hessian[column, :, row] += part.T
    return Accumulated(value, gradient.ravel(), hessian.reshape(len(theta), len(theta)))


def _gradient(family: Multinomial, theta: Vector, blocks: Iterable[Block]) -> Vector:
    """What some rows add to the gradient."""
    gradient = np.zeros((family.classes, len(theta) // family.classes))
    for block in chunks(blocks, CHUNK_ROWS):
        gradient += _derivatives(family, theta, block)[2].T @ block.exog
    return gradient.ravel()


def _reach(classes: int, step: Vector, blocks: Iterable[Block]) -> float:
    """The largest change of any linear predictor along a step among some rows."""
    moves = step.reshape(classes, -1).T
    return max((float(np.max(np.abs(exog @ moves), initial=0.0)) for exog, *_ in chunks(blocks, CHUNK_ROWS)), default=0)


def class_slopes(precision: Precision, eta: list[Pair], endog: Vector, weights: Vector | None) -> list[Pair]:
    """w (pi_k - 1[y = k]) of each class, shapes (rows,): through exp(eta_k - max eta), which never overflows."""
    dtype = precision.dtype
    hits = [(endog == place).astype(dtype) for place in range(len(eta))]
    if not precision.paired:
        high = np.stack([one.high for one in eta])
        parts = np.exp(high - high.max(axis=0))
        total = parts.sum(axis=0)
        slopes = [part / total - hit for part, hit in zip(parts, hits, strict=True)]
        return [pairs.single(one if weights is None else weights * one, dtype) for one in slopes]
    top = eta[0]
    for one in eta[1:]:
        over = pairs.add(one, pairs.negative(top))
        top = pairs.choose(over.high + over.low > 0, one, top)
    raised = [pairs.exponential(pairs.add(one, pairs.negative(top))) for one in eta]
    whole = raised[0]
    for one in raised[1:]:
        whole = pairs.add(whole, one)
    exact = [pairs.plus(pairs.divide(one, whole), -hit) for one, hit in zip(raised, hits, strict=True)]
    return exact if weights is None else [pairs.multiply(pairs.single(weights, dtype), one) for one in exact]


def _certified_sums(
    family: Multinomial,
    precision: Precision,
    widest: type[np.floating],
    bounds: tuple[float, float],
    theta: Pair,
    blocks: Iterable[Block],
) -> Sums:
    """The parts of the sums of w (pi - e_y) x, shape (parts, K p), and the sum of w |pi_k - 1[y = k]| over all."""
    classes = family.classes
    shape = classes, len(theta.high) // classes
    points = [precision.point(Pair(*one)) for one in zip(*(part.reshape(shape) for part in theta), strict=True)]
    total, absolute = pairs.single(np.zeros((precision.sums, len(theta.high))), widest), 0.0
    inside, rows = np.zeros((precision.sums, *shape)), 0
    for block in chunks(blocks, CERTIFIED_ROWS, CERTIFIED_CELLS):
        if rows + len(block.endog) > CERTIFIED_ROWS:
            total, rows = pairs.plus(total, inside.reshape(total.high.shape)), 0
            inside = np.zeros_like(inside)
        cells = split_array(np.asarray(block.exog, dtype=np.float64), bounds[1], SPLIT_BITS)
        eta = [precision.eta(cells, point) for point in points]
        for place, slope in enumerate(class_slopes(precision, eta, block.endog, block.weights)):
            add_products(inside[:, place], slope, cells, precision, (1.0, bounds[1]))
            absolute += float(np.sum(np.abs(slope.high)))
        rows += len(block.endog)
    return pairs.plus(total, inside.reshape(total.high.shape)), absolute


class ClassesObjective(PerturbedObjective):
    """J(theta) = sum_i w_i [log sum_k exp(x_i'theta_k) - x_i'theta_y] + 1/2 theta' diag(m) theta + b'theta.

    Theta holds the K classes one after the other, p coefficients each; m and b have its shape, (K p,).
    """

    family: Multinomial
    sums_of = staticmethod(_accumulated)
    gradient_of = staticmethod(_gradient)
    certified_of = staticmethod(_certified_sums)

    def hessian(self, theta: Pair, precision: Precision, width: float) -> NDArray[np.float64]:
        """The Hessian; there are no kinks to average over."""
        return self.accumulate((theta.high + theta.low).astype(np.float64)).hessian

    def reach(self, step: Vector) -> float:
        return self.rows.total_of_pieces(partial(_reach, self.family.classes, step), max)

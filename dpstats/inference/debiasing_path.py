"""The information on the way from the shrunken coefficients to the debiased ones (docs/proofs/inference, 11).

The information was released at the shrunken coefficients, where a logistic model is steeper than at the truth.
What undoes the shrinkage is its average on the way. That is a sum over rows; made-up rows with the released second
moments, on which a factor's columns are its dummies and a number's square is its square, stand for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from dpstats.inference.basis import Dummies, MappedMatrix
from dpstats.inference.inverse import Identified

Float = NDArray[np.float64]

ROWS = 4096
"""Made-up rows."""

SEED = 20_261_122
"""Public seed of the made-up rows: they are a function of what was released."""

STEPS = 4
"""The way is where the step before led; on real rows four steps are within 0.01 standard errors of the limit."""

GREATEST = 10.0
"""A row's average weight on the way is at most this times its weight at the start, and at least 1 / this."""

NEAR = 1e-6
"""Predictors closer than this are one."""

SPARE = 1e-3
"""Share of the released information that stays as it is, so that levels without a made-up row do no harm."""


RIDGE = 1e-3
"""On the exponents that give values their chances: noisy moments may be those of no values."""

MATCHED = 0.3
"""Moments in standard units may be missed by so much; columns whose values miss them by more are made up as normal."""


class JointValues(NamedTuple):
    """The values that some columns take together on a grid of what they read, shape (m, k): a number and its square."""

    columns: tuple[int, ...]
    points: Float

    def among(self, place: Mapping[int, int]) -> JointValues | None:
        """What is left for the columns that have a new place; None if there are none."""
        places = [at for at, column in enumerate(self.columns) if column in place]
        left = tuple(place[self.columns[at]] for at in places)
        return JointValues(left, self.points[:, places]) if left else None


@dataclass(frozen=True, eq=False)
class MeanFunction:
    """How the response moves with the linear predictor, elementwise: its mean, and l' and l'' beside responses."""

    mean: Callable[[Float], Float]
    weight: Callable[[Float, Float], Float]
    slope: Callable[[Float, Float], Float] | None = None  # None if it is the mean less the response


def average_along_path(
    identification: Identified,
    coef: Float,
    score: Float,
    response: MeanFunction,
    constant: tuple[int, float] | None,
    factors: Sequence[Dummies],
    reach: Float | None = None,
    together: Sequence[JointValues] = (),
) -> Identified:
    """What is identified, with the information averaged on the way to the debiased coefficients.

    `coef` (p,) is as released, the predictors x'coef; `score` (p,) is M theta, the slope of the quadratic term there.
    `constant` is the column of one value in every row, and that value; `identification` is returned where there is none
    or it is not identified, as the rows' mean is not known then. No entry of a row is made up beyond `reach`, shape
    (p,): of capped weights the largest matter most. Columns that move `together` have values that they can have.
    """
    made = similar_rows(identification, constant, factors, reach, together)
    if made is None:
        return identification
    start, slope = coef[identification.active], score[identification.active]
    change = path_average(made.rows, made.mass, made.information, start, slope, response)
    return perturb_information(identification, made.information, change)


class SimilarRows(NamedTuple):
    """Made-up rows of the active columns, shape (m, k), the weight of each, and the moments that they have about."""

    rows: Float
    mass: float
    information: Float


def similar_rows(
    identification: Identified,
    constant: tuple[int, float] | None,
    factors: Sequence[Dummies],
    reach: Float | None = None,
    together: Sequence[JointValues] = (),
) -> SimilarRows | None:
    """Rows like those that the released information is of; None where their mean is not known, as for `constant`."""
    if constant is None or not identification.active[constant[0]]:
        return None
    place = np.cumsum(identification.active) - 1
    dummies = [_among(factor, identification.active, place) for factor in factors]
    places = {int(column): int(place[column]) for column in np.flatnonzero(identification.active)}
    values = [one for each in together if (one := each.among(places)) is not None]
    information = _inverse(identification.inverse)
    rows, mass = moment_matched_rows(
        information, places[constant[0]], constant[1], [factor for factor in dummies if factor.columns], values
    )
    if reach is not None:
        rows = np.clip(rows, -reach[identification.active], reach[identification.active])
    return SimilarRows(rows, mass, information)


def path_average(
    rows: Float, mass: Float | float, information: Float, coef: Float, score: Float, response: MeanFunction
) -> Float:
    """The relative change K of the information, (k, k) and positive definite: K in L K L' with L L' that at the start.

    `rows` (m, k), each of weight `mass`, have second moments like the information's.
    """
    eta = rows @ coef
    means = response.mean(eta)
    spare = SPARE * information
    root: Float = np.asarray(np.linalg.cholesky(information), dtype=np.float64)
    own = np.linalg.cholesky((rows * np.broadcast_to(mass, len(rows))[:, None]).T @ rows + spare)
    change: Float = np.eye(len(coef))
    for _ in range(STEPS):
        shift = _solve(root, change, score)
        weights = _relative_weights(response, eta, means, rows @ shift)
        whole = (rows * (mass * weights)[:, None]).T @ rows + spare
        inner = linalg.solve_triangular(own, whole, lower=True)
        change = linalg.solve_triangular(own, inner.T, lower=True)
        change = (change + change.T) / 2
    return change


def _relative_weights(response: MeanFunction, eta: Float, means: Float, step: Float) -> Float:
    """A row's average weight on the way over that at its start, shape (m,), of the mean response at the end.

    `means` are those at the start.
    """
    with np.errstate(all="ignore"):
        endog = response.mean(eta + step)
        slope = response.slope
        rise = endog - means if slope is None else slope(eta + step, endog) - slope(eta, endog)
        start = np.maximum(response.weight(eta, endog), np.finfo(np.float64).tiny)
        ratio = rise / (np.where(np.abs(step) > NEAR, step, 1.0) * start)
    return np.clip(np.where(np.abs(step) > NEAR, ratio, 1.0), 1 / GREATEST, GREATEST)


def perturb_information(identification: Identified, information: Float, change: Float) -> Identified:
    """What the information B H B' identifies, B = L K^1/2 L^-1, H = L L': a relative error of H is one of that."""
    root = np.linalg.cholesky(information)
    values, vectors = np.linalg.eigh(change)
    half = vectors * np.sqrt(np.maximum(values, 1 / GREATEST)) @ vectors.T
    transform = linalg.solve_triangular(root, (root @ half).T, trans=1, lower=True)
    inverse = _inverse(transform.T @ information @ transform)
    return replace(identification, inverse=inverse, law=MappedMatrix(identification.law, transform))


def moment_matched_rows(
    information: Float,
    base: int,
    constant: float,
    factors: Sequence[Dummies],
    together: Sequence[JointValues] = (),
    count: int = ROWS,
) -> tuple[Float, float]:
    """`count` rows whose second moments are about those of the positive definite information, and the weight of each.

    Column by column, each given those before it by linear regression: values of columns that move `together` have the
    chances of `value_chances`; a factor's level is drawn, with the regression for its probabilities; other columns are
    normal. `base` is the intercept's column, of value `constant`.
    """
    total = float(information[base, base]) / constant**2
    mean = information[base] / (total * constant)
    covariance = information / total - np.outer(mean, mean)
    random, size = np.random.default_rng(SEED), len(information)
    rows, known = np.zeros((count, size)), np.zeros(0, dtype=np.intp)
    rows[:, base] = constant
    for joint in together:
        columns = np.array(joint.columns)
        order = np.argsort(joint.points[:, 0], kind="stable")
        chances = value_chances(joint.points[order], mean[columns], covariance[np.ix_(columns, columns)])
        if chances is None:
            continue
        # The first column's ranks have what it shares with columns before it.
        expected, left = _regression(rows, mean, covariance, known, columns[:1])
        lead = expected[:, 0] + random.standard_normal(count) * math.sqrt(max(float(left[0, 0]), 0.0))
        ranks = (np.argsort(np.argsort(lead)) + 0.5) / count
        drawn = np.searchsorted(np.cumsum(chances), ranks).clip(max=len(order) - 1)
        rows[:, columns] = joint.points[order[drawn]]
        known = np.concatenate((known, columns))
    for factor in factors:
        columns = np.array(factor.columns)
        if np.isin(columns, known).any():
            continue
        expected, _ = _regression(rows, mean, covariance, known, columns)
        ranks = random.permutation((np.arange(count) + 0.5) / count)
        rows[:, columns] = _drawn(expected / np.array(factor.codes), ranks) * np.array(factor.codes)
        known = np.concatenate((known, columns))
    rest = np.setdiff1d(np.arange(size), [base, *known])
    expected, left = _regression(rows, mean, covariance, known, rest)
    values, vectors = np.linalg.eigh((left + left.T) / 2)
    plain = random.standard_normal((count, len(rest)))
    rows[:, rest] = expected + plain * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    return rows, total / count


def value_chances(points: Float, mean: Float, covariance: Float) -> Float | None:
    """Chances of the points (m, k) with about these moments, as even as they can be; None if no chances have them.

    Exponentials of quadratic functions, which are the closest to equal chances in relative entropy.
    """
    root = np.linalg.cholesky(covariance)
    units = linalg.solve_triangular(root, (points - mean).T, lower=True).T
    first, second = np.triu_indices(len(mean))
    moments = np.column_stack((units, units[:, first] * units[:, second] - (first == second)))

    def chances(exponents: Float) -> tuple[float, Float]:
        logs = moments @ exponents
        top = float(logs.max())
        sizes = np.exp(logs - top)
        return top + math.log(float(sizes.sum())), sizes / sizes.sum()

    def value_and_slope(exponents: Float) -> tuple[float, Float]:
        size, own = chances(exponents)
        return size + RIDGE * float(exponents @ exponents) / 2, own @ moments + RIDGE * exponents

    def bend(exponents: Float) -> Float:
        _, own = chances(exponents)
        away = moments - own @ moments
        return np.asarray((away * own[:, None]).T @ away + RIDGE * np.eye(len(exponents)), dtype=np.float64)

    start = np.zeros(moments.shape[1])
    solved = optimize.minimize(value_and_slope, start, jac=True, hess=bend, method="trust-exact")
    _, own = chances(solved.x)
    return own if np.all(np.abs(own @ moments) <= MATCHED) else None


def _regression(
    rows: Float, mean: Float, covariance: Float, known: NDArray[np.intp], wanted: NDArray[np.intp]
) -> tuple[Float, Float]:
    """The expectation of the columns `wanted` given those known, shape (m, q), and what is left of their covariance."""
    across = covariance[np.ix_(known, wanted)]
    loads = np.linalg.lstsq(covariance[np.ix_(known, known)], across, rcond=1e-10)[0]
    return mean[wanted] + (rows[:, known] - mean[known]) @ loads, covariance[np.ix_(wanted, wanted)] - across.T @ loads


def _drawn(chances: Float, ranks: Float) -> Float:
    """1 for the level drawn, shape (m, q), of levels with these chances and one more with the rest."""
    inside = np.maximum(chances, 0.0)
    rest = np.maximum(1 - inside.sum(axis=1, keepdims=True), 0.0)
    below = np.cumsum(inside, axis=1)
    level = np.sum(ranks[:, None] * (below[:, -1:] + rest) > below, axis=1)
    return (level[:, None] == np.arange(chances.shape[1])).astype(np.float64)


def _among(factor: Dummies, active: NDArray[np.bool_], place: NDArray[np.intp]) -> Dummies:
    """The dummies of the active levels; rows of the others count as of the reference."""
    kept = [(int(place[at]), code) for at, code in zip(factor.columns, factor.codes, strict=True) if active[at]]
    return Dummies(int(place[factor.base]), factor.constant, tuple(at for at, _ in kept), tuple(c for _, c in kept))


def _inverse(matrix: Float) -> Float:
    """The inverse of a positive definite matrix, symmetric."""
    inverse = linalg.cho_solve(linalg.cho_factor(matrix), np.eye(len(matrix)))
    return np.asarray((inverse + inverse.T) / 2, dtype=np.float64)


def _solve(root: Float, change: Float, score: Float) -> Float:
    """(L K L')^-1 u."""
    inner = np.linalg.solve(change, linalg.solve_triangular(root, score, lower=True))
    return np.asarray(linalg.solve_triangular(root, inner, trans=1, lower=True), dtype=np.float64)

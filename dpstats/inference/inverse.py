"""The inverse of a matrix released with noise, and which coefficients it identifies (docs/proofs/inference, 3 and
4)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.inference.noise_laws import MatrixLaw, check_symmetric

Float = NDArray[np.float64]
MatrixMap = Callable[[Float], Float]

STEPS = 100
"""Newton steps at most; ten are usual."""

SOLVED = 1e-5
"""Size of an entry of the residual up to which steps may end because of rounding."""

TOLERANCE = 1e-12
"""Size of an entry of the normalised equation's residual at which it counts as solved."""

ROUNDED = 8 * float(np.finfo(np.float64).eps)
"""Where two large terms all but cancel, an error of so much of them is rounding."""

LOST = 1e100
"""Size of an entry of the residual beyond which steps run away from where there is no solution."""

LADDER = 2.0 ** np.arange(-30, 31)
"""Steps tried; the full Newton step is taken whenever it gains a quarter of what the slope promises."""


def self_consistent_inverse(information: Float, law: MatrixLaw, start: Float | None = None) -> Float:
    """The positive definite G with G^-1 = H + S(G), S(A) = E[E A E], for any symmetric H that noise E has reached.

    It minimises tr(HG) + tr(G S(G))/2 - log det G: damped Newton steps from `start`, each by conjugate gradients. Every
    diagonal entry must have noise. ArgumentError if H is unusable or 100 steps do not solve it, which can happen only
    after projection, where H is many deviations of its noise below every positive definite matrix.
    """
    inverse, solved = stabilised_solve(information, law, start)
    if not solved:
        raise ArgumentError("information is too far from any positive definite matrix: use identify")
    return inverse


def stabilised_solve(information: Float, law: MatrixLaw, start: Float | None = None) -> tuple[Float, bool]:
    """As `self_consistent_inverse`, with whether the equation was solved; else the last positive definite iterate."""
    information = check_symmetric("information", information, law.size)
    size = law.size
    deviations = np.sqrt(law.bilinear(np.eye(size), np.eye(size)))
    if not np.all(deviations > 0):
        raise ArgumentError("law must give every diagonal entry noise")
    unit = np.sqrt(deviations)
    units = np.outer(unit, unit)
    scaled = information / units

    def square(matrix: Float) -> Float:
        # On what rounding leaves of an antisymmetric part S is negative, and conjugate gradients would go astray.
        return law.square((matrix + matrix.T) / (2 * units)) / units

    solved = False
    if start is not None:
        with contextlib.suppress(np.linalg.LinAlgError):  # the last iterate of no solution may be no start either
            factor, solved = _descend(scaled, np.linalg.cholesky(start * units), square)
    if not solved:
        factor, solved = _descend(scaled, _start(scaled, square(np.eye(size))), square)
    inverse = factor @ factor.T / units
    return (inverse + inverse.T) / 2, solved


def _descend(scaled: Float, factor: Float, square: MatrixMap) -> tuple[Float, bool]:
    """The factor of the solution by Newton's steps from another one, and whether it is one."""
    before, best = np.inf, (np.inf, factor)
    for _ in range(STEPS):
        own = factor.T @ scaled @ factor
        residual = own + factor.T @ square(factor @ factor.T) @ factor - np.eye(len(scaled))
        error = float(np.max(np.abs(residual)))
        # Newton's steps square small errors, so one that hardly falls has reached rounding, of the larger terms.
        small = max(SOLVED, ROUNDED * float(np.max(np.abs(own))))
        if error <= TOLERANCE or (error < small and error > before / 4):
            return factor, True
        if not error < LOST:
            return best[1], False
        before, best = error, min(best, (error, factor), key=itemgetter(0))
        factor = _step(residual, factor, square)
    return factor, False


def _start(scaled: Float, noise: Float) -> Float:
    """A factor L of a first G = L L' = (H + c I)^-1 with c = s^2 sum 1/(lambda_i + c)."""
    values, vectors = np.linalg.eigh(scaled)
    variance = float(np.trace(noise)) / len(values) ** 2
    # The root lies above max(0, -lambda_min), and where 1/(lambda_i + c) are all at most what the smallest gives.
    low = max(0.0, -float(values[0]))
    high = low + np.sqrt(variance * len(values)) + 1e-300
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle < variance * np.sum(1 / (values + middle)) else (low, middle)
    return np.asarray(vectors / np.sqrt(values + high), dtype=np.float64)


def _step(residual: Float, factor: Float, square: MatrixMap) -> Float:
    """The factor after one damped Newton step."""

    def curvature(matrix: Float) -> Float:
        return matrix + factor.T @ square(factor @ matrix @ factor.T) @ factor

    direction = _newton_direction(residual, curvature)
    values, vectors = np.linalg.eigh(direction)
    slope = float(np.sum(residual * direction))
    quadratic = float(np.sum(direction * curvature(direction) - direction**2)) / 2
    # The end of the positive definite matrices on the way, if there is one.
    end = 1 / -values[0] if values[0] < 0 else np.inf
    steps = np.append(LADDER[end > LADDER], [0.9 * end, 0.99 * end] if end < LADDER[-1] else [])
    moved = steps[:, None] * values
    # The function's change, without cancellation: the linear term of the logarithm is in the residual.
    changes = steps * slope + steps**2 * quadratic + np.sum(moved - np.log1p(moved), axis=1)
    full = end > 1 and changes[steps == 1.0][0] <= slope / 4
    best = moved[np.argmax(steps == 1.0) if full else np.argmin(changes)]
    return np.asarray(factor @ vectors * np.sqrt(1 + best), dtype=np.float64)


def _newton_direction(residual: Float, curvature: MatrixMap) -> Float:
    """Y with curvature(Y) = -residual by conjugate gradients, stopped at a direction of negative curvature."""
    solution, left = np.zeros_like(residual), -residual
    search = left
    square = first = float(np.sum(left**2))
    goal = first * min(0.1, np.sqrt(first)) ** 2
    for _ in range(10 * len(residual) + 50):
        image = curvature(search)
        bend = float(np.sum(search * image))
        if bend <= 0:
            return search if np.sum(search * residual) < 0 else -search
        solution = solution + square / bend * search
        left = left - square / bend * image
        before, square = square, float(np.sum(left**2))
        if square <= goal:
            break
        search = left + square / before * search
    return (solution + solution.T) / 2


LEAST_RATIO = 2.0
"""A coefficient's information must be so many standard deviations of its noise."""

LIKELY = 0.95
"""The chance of that with which forecasts count on a coefficient."""


@dataclass(frozen=True, eq=False)
class Identified:
    """The active coefficients and the inverse of their information."""

    active: NDArray[np.bool_]  # shape (p,); False is not identified at this budget
    inverse: Float  # G of the k active coefficients, shape (k, k)
    ratios: Float  # r_j = G_jj / sd(g_j'E g_j), shape (p,); where not identified that at which it was dropped
    inflations: Float  # of variance by the other columns, H_jj G_jj and at least 1, shape (p,); likewise
    law: MatrixLaw  # of the matrix noise among the active coefficients

    @property
    def directions(self) -> Float:
        """g_j = G e_j of the active coefficients as rows in all p columns, shape (k, p)."""
        rows = np.zeros((len(self.inverse), len(self.active)))
        rows[:, self.active] = self.inverse
        return rows


HARDLY_APART, CERTAIN_ENTRY = 0.9, 10.0
"""A column is hardly told apart from a constant if their squared correlation about zero is so large, by diagonal
entries that are so many standard deviations of their noise."""


def least_identified(
    information: Float,
    deviations: Float,
    kept: NDArray[np.intp],
    worst: int,
    constants: Sequence[int],
    *,
    solved: bool,
) -> int:
    """The place among those `kept` of the coefficient to drop where that at `worst` has the least t-ratio.

    That one, or before the constant of its equation a column hardly told apart from it. A number that fills a hundredth
    of its range is nearly a constant: if the intercept were dropped, it would stand in for it, and its slope would be
    read as an effect. Without a solution no ratio is known. `deviations` are those of the noise in diagonal entries.

    `constants` has one column for each equation. Columns are those of all equations in this order, again and again.
    """
    own, equations = np.diag(information)[kept], kept % max(len(constants), 1)
    certain = own >= CERTAIN_ENTRY * deviations[kept]
    squares = np.zeros(len(kept))
    for place in np.flatnonzero(np.isin(kept, constants) & certain):
        near = np.flatnonzero(certain & (equations == equations[place]) & (kept != kept[place]))
        squares[near] = information[kept[place], kept[near]] ** 2 / (own[place] * own[near])
    if solved:
        squares[equations != equations[worst]] = 0.0
    nearest = int(np.argmax(squares))
    concerned = kept[worst] in constants or squares[worst] >= HARDLY_APART or not solved
    return nearest if concerned and squares[nearest] >= HARDLY_APART else worst


def identify(
    information: Float, law: MatrixLaw, least: float = LEAST_RATIO, constants: Sequence[int] = ()
) -> Identified:
    """Drop the coefficient of the least information t-ratio until all are at least `least`, which is positive.

    Before the constant of an equation those go that are hardly told apart from it, see `least_identified`. A column
    whose diagonal entry has no noise left is known to be 0 in every row: it is dropped first.
    """
    if not (np.isfinite(least) and least > 0):
        raise ArgumentError(f"least must be finite and positive, got {safe_repr(least)}")
    information = check_symmetric("information", information, law.size)
    deviations = np.sqrt(law.bilinear(np.eye(law.size), np.eye(law.size)))
    kept = np.flatnonzero(deviations > 0)
    ratios, inflations, start = np.zeros(law.size), np.ones(law.size), None
    inverse = np.zeros((0, 0))
    while len(kept):
        inner = law.restrict(kept)
        inverse, solved = stabilised_solve(information[np.ix_(kept, kept)], inner, start)
        with np.errstate(divide="ignore"):
            t_ratios = np.diag(inverse) / np.sqrt(inner.bilinear(inverse, inverse))
        ratios[kept] = t_ratios
        inflations[kept] = np.maximum(np.diag(information)[kept] * np.diag(inverse), 1.0)
        worst = int(np.argmin(t_ratios))
        # Without a solution the information is that of no positive definite matrix: some coefficient has to go.
        if solved and t_ratios[worst] >= least:
            break
        worst = least_identified(information, deviations, kept, worst, constants, solved=solved)
        kept = np.delete(kept, worst)
        rest = np.delete(np.arange(len(t_ratios)), worst)
        # (X_KK)^-1 for X = G^-1 and K all but one column: a rank-one change of G.
        start = (inverse - np.outer(inverse[worst], inverse[worst]) / inverse[worst, worst])[np.ix_(rest, rest)]
    else:
        inner, inverse = law.restrict(np.arange(0)), np.zeros((0, 0))
    active = np.isin(np.arange(law.size), kept)
    return Identified(active, inverse, ratios, inflations, inner)

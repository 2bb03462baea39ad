"""Which coefficients an information matrix identifies, in a fraction of the time and to the digits of a forecast.

Noise whose entries are alike in the metric of the design is solved for by eigenvalues, to rounding; where forms that
vanish on every row take some of it off (docs/proofs/inference, 4), to less than a percent. A fit solves for either by
Newton's steps, to rounding (`dpstats.inference.inverse`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpstats.cached import cached_property
from dpstats.inference.basis import (
    KNOWN,
    Dummies,
    KnownInformation,
    Projection,
    metric_images,
    reference_levels,
    self_adjoint,
)
from dpstats.inference.inverse import LEAST_RATIO, Identified, least_identified

Float = NDArray[np.float64]
Indices = NDArray[np.intp]

CLOSE, ROUNDED, STEPS = 1e-2, 1e-12, 100
"""Steps of the inverse, and of its trace, that are relatively so small end the iterations; how many are tried."""

NOTHING = 1e-6
"""Information that is nothing beside its noise."""


@dataclass(frozen=True, eq=False)
class ProjectedNoise:
    """The law that `SpanNoise` has, by an orthonormal basis of what was taken off: quick where few columns are left."""

    metric: Float  # D, shape (k, k)
    variance: float  # v
    forms: Float  # C_q, shape (q, k, k): S(A) = v (tr(A D) D + D A'D) - 2 v sum_q C_q A C_q

    @classmethod
    def of(cls, projection: Projection, basis: Float) -> ProjectedNoise:
        """Of T'ET for the noise E that a projection leaves, and T, shape (p, k)."""
        whole = projection.whole
        return cls(basis.T @ whole.metric @ basis, whole.variance, basis.T @ projection.directions @ basis)

    @property
    def size(self) -> int:
        """The number of columns k."""
        return len(self.metric)

    @property
    def entry_variances(self) -> Float:
        """Var(E_ij), shape (k, k)."""
        whole = np.outer(np.diag(self.metric), np.diag(self.metric)) + self.metric**2
        rest = whole - 2 * np.sum(self.forms**2, axis=0)
        return np.asarray(self.variance * np.where(rest > KNOWN * whole, rest, 0.0))

    def square(self, matrix: Float) -> Float:
        """S(A) = E[E A E], shape (k, k)."""
        metric = self.metric
        return self.variance * (float(np.sum(matrix * metric)) * metric + metric @ matrix.T @ metric) - self.taken_off(
            matrix
        )

    def images(self, vector: Float) -> Float:
        """S(e_j m') for each unit vector e_j, shape (k, k, k)."""
        off = np.tensordot(self.forms, self.forms @ vector, axes=(0, 0)).transpose(1, 0, 2)
        return self.variance * (metric_images(self.metric, vector) - 2 * off)

    def taken_off(self, matrix: Float) -> Float:
        """What the forms take off S(A), shape (k, k)."""
        count, size = len(self.forms), self.size
        if not count * size:
            return np.zeros((size, size))
        inner = (self.forms.reshape(-1, size) @ matrix).reshape(count, size, size).transpose(1, 0, 2)
        return 2 * self.variance * (inner.reshape(size, -1) @ self.forms.reshape(-1, size))

    def bilinear(self, left: Float, right: Float) -> Float:
        """Var(g'E m) for the rows g, m of `left` and `right`, shape (rows, k)."""
        inner = left @ self.metric
        own = np.sum(inner * left, axis=1) * np.sum(right @ self.metric * right, axis=1)
        whole = own + np.sum(inner * right, axis=1) ** 2
        # Forms are symmetric: half of their entries, and of the products, are enough.
        above = np.triu_indices(self.size)
        products = left[:, above[0]] * right[:, above[1]]
        products += np.where(above[0] < above[1], left[:, above[1]] * right[:, above[0]], 0.0)
        rest = whole - 2 * np.sum((products @ self._packed.T) ** 2, axis=1)
        return self.variance * np.where(rest > KNOWN * whole, rest, 0.0)

    @cached_property
    def _packed(self) -> Float:
        """The entries of each form on the diagonal and above it, shape (q, k (k + 1) / 2)."""
        return self.forms[:, *np.triu_indices(self.size)]

    def restrict(self, kept: Indices) -> ProjectedNoise:
        """The law of E's rows and columns `kept`."""
        forms = np.ascontiguousarray(self.forms[:, kept][:, :, kept])
        return ProjectedNoise(self.metric[np.ix_(kept, kept)], self.variance, forms)


Solve = Callable[[Float, ProjectedNoise, Float | None], tuple[Float, bool]]


def forecast_information(
    matrix: Float,
    projection: Projection,
    factors: Sequence[Dummies] = (),
    basis: Float | None = None,
    *,
    noisy: bool,
    constants: Sequence[int] = (),
) -> KnownInformation:
    """As `KnownInformation.of`, and what it identifies, of a matrix with noise or of the mean of such ones.

    In the inverse of their mean there is no noise. A `basis` takes the place of that by the commonest levels.
    """
    matrix = projection.clean(matrix)
    basis = reference_levels(matrix, factors) if basis is None else basis
    information, law = self_adjoint(basis.T @ matrix @ basis), ProjectedNoise.of(projection, basis)
    return KnownInformation(
        basis, information, law, _identified(information, law, _stabilised if noisy else _plain, constants)
    )


def _identified(information: Float, law: ProjectedNoise, solve: Solve, constants: Sequence[int]) -> Identified:
    """The least coefficient is dropped until all reach `LEAST_RATIO`."""
    size = len(information)
    entry_deviations = np.sqrt(np.diag(law.entry_variances))
    kept = np.flatnonzero(entry_deviations > 0)
    ratios, inflations, start = np.zeros(size), np.ones(size), None
    inverse, inner = np.zeros((0, 0)), law.restrict(kept)
    while len(kept):
        part = information[np.ix_(kept, kept)]
        inverse, solved = solve(part, inner, start)
        deviations = np.sqrt(inner.bilinear(inverse, inverse))
        t_ratios = np.divide(np.diag(inverse), deviations, out=np.zeros(len(kept)), where=deviations > 0)
        ratios[kept], inflations[kept] = t_ratios, np.maximum(np.diag(part) * np.diag(inverse), 1.0)
        worst = int(np.argmin(t_ratios))
        if solved and t_ratios[worst] >= LEAST_RATIO:
            break
        worst = least_identified(information, entry_deviations, kept, worst, constants, solved=solved)
        rest = np.delete(np.arange(len(kept)), worst)
        # The inverse among the rest: a rank-one change.
        start = (inverse - np.outer(inverse[worst], inverse[worst]) / (inverse[worst, worst] or 1.0))[
            np.ix_(rest, rest)
        ]
        kept, inner, inverse = kept[rest], inner.restrict(rest), inverse[:0, :0]
    return Identified(np.isin(np.arange(size), kept), inverse, ratios, inflations, inner)


def _plain(information: Float, law: ProjectedNoise, start: Float | None) -> tuple[Float, bool]:
    """The inverse without noise, but for so little that columns which are never told apart have an inverse too."""
    steady = information + NOTHING * math.sqrt(law.variance) * law.metric
    return np.asarray(np.linalg.inv(steady), dtype=np.float64), True


def _stabilised(information: Float, law: ProjectedNoise, start: Float | None) -> tuple[Float, bool]:
    """The G with G^-1 = H + S(G), and whether it was found; see `self_consistent_inverse`."""
    half = linalg.solve_triangular(np.linalg.cholesky(law.metric), np.eye(len(law.metric)), lower=True)
    if not len(law.forms):
        return _solved_alike(information, half, law.variance), True
    inverse = _solved_alike(information, half, law.variance) if start is None else start
    for _ in range(STEPS):
        before = inverse
        inverse = _solved_alike(information - law.taken_off(before), half, law.variance)
        if np.max(np.abs(inverse - before)) <= CLOSE * np.max(np.abs(inverse)):
            return inverse, True
    return inverse, False


def _solved_alike(information: Float, half: Float, variance: float) -> Float:
    """G for S(A) = v (tr(A D) D + D A D), where W = `half` has W D W' = I: it has the eigenvectors of W H W'."""
    values, vectors = np.linalg.eigh(half @ information @ half.T)

    def entries(trace: float) -> Float:
        """Of G, the positive roots of 1 / g = h + v (trace + g)."""
        moved = values + variance * trace
        root = np.sqrt(moved**2 + 4 * variance)
        return np.where(moved > 0, 2 / (root + np.abs(moved)), (root + np.abs(moved)) / (2 * variance))

    # The sum falls ever more slowly as the trace grows: Newton's steps from below stay below.
    trace = 0.0
    for _ in range(STEPS):
        diagonal = entries(trace)
        slope = -variance * float(np.sum(diagonal / np.sqrt((values + variance * trace) ** 2 + 4 * variance))) - 1
        step = (trace - float(np.sum(diagonal))) / slope
        trace += step
        if step <= ROUNDED * trace:
            break
    turned = half.T @ vectors
    return np.asarray(turned * entries(trace) @ turned.T)

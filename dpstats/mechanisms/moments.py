"""Linear models from a released matrix of moments: post-processing (docs/proofs/statistics, 4 and 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpstats.formula.design import DesignSpec
from dpstats.inference import Estimates, Inference, ModelSpread, NormalLaw, SpanNoise
from dpstats.inference.basis import MappedMatrix, rebased
from dpstats.inference.identified import identify
from dpstats.inference.known import self_adjoint
from dpstats.inference.span import project_forms
from dpstats.mechanisms.statistics import StatisticsPlan
from dpstats.penalties import Penalty
from dpstats.solvers.quadratic import minimize_quadratic

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

PRECISION = 1e-12
"""Of a penalised fit, relative to the right-hand side of its equations."""


@dataclass(frozen=True, eq=False)
class Moments:
    """A released matrix of sums of w w' after what the design knows of it, and the law of its noise.

    Attributes
    ----------
    matrix : ndarray, shape (k, k)
    law : SpanNoise
    """

    matrix: Matrix
    law: SpanNoise

    @classmethod
    def of(cls, plan: StatisticsPlan, released: Matrix) -> Moments:
        """The released matrix projected on the span of possible ones: X'X, whose noise is not tied to that of X'y."""
        law, size = plan.law, len(plan.design.names)
        forms = plan.design.forms()
        if not len(forms):
            return cls(released, law)
        inner, clean = project_forms(released[:size, :size], SpanNoise(law.metric[:size, :size], law.variance), forms)
        matrix, removed = released.copy(), np.zeros((size + 1,) * 4)
        matrix[:size, :size] = inner
        assert clean.removed is not None
        removed[:size, :size, :size, :size] = clean.removed
        return cls(matrix, SpanNoise(law.metric, law.variance, removed))

    def equations(self, columns: Matrix, response: Vector) -> Equations:
        """The normal equations of a model of x = T'w and y = t'w, T of shape (k, q) and t of shape (k,)."""
        return Equations(
            information=self_adjoint(columns.T @ self.matrix @ columns),
            moments=columns.T @ self.matrix @ response,
            square=float(response @ self.matrix @ response),
            columns=columns,
            response=response,
            law=self.law,
        )


@dataclass(frozen=True, eq=False)
class Equations:
    """Released normal equations H theta = v of one model.

    Attributes
    ----------
    information : ndarray, shape (q, q)
        H, with noise: perhaps not positive.
    moments : ndarray, shape (q,)
        v, with noise.
    square : float
        y'y, with noise.
    columns : ndarray, shape (k, q)
        T.
    response : ndarray, shape (k,)
        t.
    law : SpanNoise
        Of the noise of the whole matrix.
    """

    information: Matrix
    moments: Vector
    square: float
    columns: Matrix
    response: Vector
    law: SpanNoise

    @property
    def metric(self) -> Matrix:
        """T'DT, the metric of the model's rows, shape (q, q)."""
        return self_adjoint(self.columns.T @ self.law.metric @ self.columns)

    def noise_covariance(self, middle: Matrix) -> Matrix:
        """E[T'E A E T] for A of shape (k, k); with A = u u', u = t - T theta, that of v - H theta."""
        return self_adjoint(self.columns.T @ self.law.square(middle) @ self.columns)

    def coefficient_noise(self, coef: Vector) -> Matrix:
        """Covariance of v - H theta by the noise alone, at the coefficients `coef`, shape (q, q)."""
        residual = self.response - self.columns @ coef
        return self.noise_covariance(np.outer(residual, residual))

    def ridge(self, radius: float) -> float:
        """m = sqrt(E |b|^2) / radius in the metric, b = v - H theta the noise for theta of norm `radius` at random."""
        inverse = np.linalg.inv(self.metric)
        spread = self.columns @ inverse @ self.columns.T * (radius**2 / len(inverse))
        covariance = self.noise_covariance(np.outer(self.response, self.response) + self_adjoint(spread))
        return float(np.sqrt(np.sum(covariance * inverse))) / radius

    def stabilised(self, ridge: float) -> Matrix:
        """A positive definite S for H: eigenvalues l in the metric become l/2 + sqrt(l^2/4 + m^2), l cut at 0.

        S = H + m^2 S^-1: a ridge of m where H is nothing, and of m^2 / l where it is much more, as for coefficients
        and noise of the sizes that m stands for (docs/proofs/statistics, 4).
        """
        root = np.linalg.cholesky(self.metric)
        inner = linalg.solve_triangular(root, self.information, lower=True)
        inner = self_adjoint(linalg.solve_triangular(root, inner.T, lower=True))
        values, vectors = np.linalg.eigh(inner)
        cut = np.maximum(values, 0.0)
        axes = root @ vectors
        return self_adjoint((axes * (cut / 2 + np.sqrt(cut**2 / 4 + ridge**2))) @ axes.T)

    def solve(self, radius: float, penalty: Penalty | None, weights: Vector) -> Vector:
        """argmin of theta'S theta / 2 - v'theta + P(theta), shape (q,), for a convex P with column weights."""
        metric = self.stabilised(self.ridge(radius))
        if penalty is None:
            return np.asarray(linalg.solve(metric, self.moments, assume_a="pos"))
        tolerance = PRECISION * float(np.linalg.norm(self.moments))
        return minimize_quadratic(metric, -self.moments, penalty, weights, np.zeros(len(metric)), tolerance)


@dataclass(frozen=True)
class Rows:
    """How many complete rows there are.

    Attributes
    ----------
    count, deviation : float
        The number and the standard deviation of its noise.
    """

    count: float
    deviation: float


def rows_of(plan: StatisticsPlan, moments: Moments, public: int | None) -> Rows:
    """The number of complete rows, read off the released sum of squares of the intercept; at most the public number."""
    at, constant = plan.intercept
    size = constant**2
    deviation = float(np.sqrt(2 * moments.law.variance)) * float(moments.law.metric[at, at]) / size
    count = max(float(moments.matrix[at, at]) / size, deviation)
    return Rows(count if public is None else min(count, float(max(public, 1))), deviation)


def inference_of(
    plan: StatisticsPlan,
    moments: Moments,
    part: DesignSpec,
    mapped: tuple[Matrix, Vector],
    nobs: int | None,
    radius: float,
) -> tuple[Inference, Matrix]:
    """Coefficients without ridge and penalty, and their errors, in the user's units.

    Parameters
    ----------
    plan : StatisticsPlan
    moments : Moments
    part : DesignSpec
        Of the model.
    mapped : tuple
        T and t of its columns and its response.
    nobs : int or None
        The number of rows if it is public.
    radius : float

    Returns
    -------
    Inference
        Each factor is measured from its commonest level within, and reported as the formula asks for.
    basis : ndarray, shape (q, q)
        Coefficients in model units are this times those within.
    """
    plain = moments.equations(*mapped)
    basis = rebased(plain.information, part.dummies)
    equations = moments.equations(mapped[0] @ basis, mapped[1])
    law = MappedMatrix(moments.law, equations.columns)
    found = identify(equations.information, law)
    coef = equations.solve(radius, None, np.ones(law.size))
    active, inverse = found.active, found.inverse
    rest = equations.moments - equations.information[:, ~active] @ coef[~active]
    coef[active] = inverse @ rest[active]
    noise = equations.coefficient_noise(coef)
    loss = float(np.sum(inverse * noise[np.ix_(active, active)]))
    spread = _dispersion(plan, equations, coef, loss, rows_of(plan, moments, nobs), int(active.sum()))
    transform, shift = part.back_transform()
    estimates = Estimates(
        coef=coef,
        information=equations.information,
        curvature=np.zeros_like(noise),
        linear=NormalLaw(noise),
        matrix=law,
        spread=spread,
        typical_size=radius / np.sqrt(law.size * np.diag(equations.metric)),
        found=found,
    )
    return Inference(estimates, transform @ basis, shift), basis


def _dispersion(
    plan: StatisticsPlan, equations: Equations, coef: Vector, loss: float, rows: Rows, fitted: int
) -> ModelSpread:
    """The residual variance u'Au / (n - q), u = t - T theta, with the noise that the fit took out of it put back."""
    residual = equations.response - equations.columns @ coef
    total = float(equations.square - 2 * coef @ equations.moments + coef @ equations.information @ coef) + loss
    variance = float(equations.law.bilinear(residual[None], residual[None])[0]) + residual[-1] ** 4 * plan.square_excess
    degrees = max(rows.count - fitted, 1.0)
    phi = total / degrees
    deviation = float(np.sqrt(max(variance, 0.0) + (phi * rows.deviation) ** 2)) / degrees
    return ModelSpread(phi, deviation)

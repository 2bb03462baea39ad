"""From released sums to coefficients and their errors: post-processing (docs/proofs/streams, 10)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstats.formula.design import DesignSpec
from dpstats.inference import Estimates, ModelSpread, NormalLaw
from dpstats.inference.basis import MappedMatrix, rebased
from dpstats.inference.identified import identify
from dpstats.inference.known import self_adjoint
from dpstats.mechanisms.moments import Equations, Moments, rows_of
from dpstats.mechanisms.statistics import StatisticsPlan
from dpstats.penalties import Penalty
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.information.statistics import StatisticsNoise
from dpstats.streaming.vectors import RowVector

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fitting:
    """How coefficients follow from sums, fixed without rows.

    Attributes
    ----------
    design : DesignSpec
    vector : RowVector
    radius : float
        Public guess at the norm of the coefficients in the metric, which the ridge goes by.
    penalty : Penalty or None
        Convex.
    guarantee : Guarantee
    """

    design: DesignSpec
    vector: RowVector
    radius: float
    penalty: Penalty | None
    guarantee: Guarantee

    @property
    def penalty_weights(self) -> Float:
        """1 for each column, 0 for the intercept, shape (p,)."""
        return np.array([0.0 if name == "Intercept" else 1.0 for name in self.design.names])

    @cached_property
    def _unit(self) -> StatisticsPlan:
        """The law of the noise at standard deviation 1 of a number."""
        row = self.vector
        square = row.square if row.square > 0 else row.cross
        noise = StatisticsNoise("normal", 1 / row.inner, row.columns, row.cross / row.inner, square / row.inner)
        return StatisticsPlan(self.design, noise, row.metric, self.radius, 0.0, self.guarantee)

    def law(self, deviation: float) -> StatisticsPlan:
        """The law of the noise at the standard deviation `deviation` of a number."""
        noise = self._unit.noise
        return replace(self._unit, noise=replace(noise, scale=noise.scale * deviation))

    def moments(self, released: Float, deviation: float) -> Moments:
        """Sums in model units with the law of their noise, after what the design knows of them.

        Parameters
        ----------
        released : ndarray, shape (size,)
            A vector of noisy sums.
        deviation : float
            Standard deviation of the noise of a number.
        """
        plan = self.law(deviation)
        matrix = self_adjoint(plan.axes @ self.vector.matrix(released) @ plan.axes.T)
        return Moments.of(plan, matrix)

    def equations(self, moments: Moments) -> Equations:
        """The normal equations of the model."""
        size = len(self.design.names)
        return moments.equations(np.eye(size + 1)[:, :size], np.eye(size + 1)[size])

    def params(self, released: Float, deviation: float) -> Float:
        """Coefficients in model units, shrunk as the noise asks for, shape (p,)."""
        return self.equations(self.moments(released, deviation)).solve(self.radius, self.penalty, self.penalty_weights)

    def estimates(self, released: Float, deviation: float) -> tuple[Estimates, Float]:
        """Coefficients without ridge and penalty and their errors, and T: those in model units are T times them."""
        moments = self.moments(released, deviation)
        basis = rebased(self.equations(moments).information, self.design.dummies)
        size = len(basis)
        columns, response = np.eye(size + 1)[:, :size] @ basis, np.eye(size + 1)[size]
        equations = moments.equations(columns, response)
        law = MappedMatrix(moments.law, equations.columns)
        found = identify(equations.information, law)
        coef = equations.solve(self.radius, None, np.ones(size))
        active = found.active
        rest = equations.moments - equations.information[:, ~active] @ coef[~active]
        coef[active] = found.inverse @ rest[active]
        noise = equations.coefficient_noise(coef)
        spread = ModelSpread()
        if self.vector.method == "linear":
            loss = float(np.sum(found.inverse * noise[np.ix_(active, active)]))
            spread = self._dispersion(deviation, moments, equations, coef, loss, int(active.sum()))
        estimates = Estimates(
            coef=coef,
            information=equations.information,
            curvature=np.zeros_like(noise),
            linear=NormalLaw(noise),
            matrix=law,
            spread=spread,
            typical_size=self.radius / np.sqrt(size * np.diag(equations.metric)),
            found=found,
        )
        return estimates, basis

    def _dispersion(
        self, deviation: float, moments: Moments, equations: Equations, coef: Float, loss: float, fitted: int
    ) -> ModelSpread:
        """The residual variance over the noisy number of rows, with what the fit took out of the noise put back."""
        plan = self.law(deviation)
        residual = equations.response - equations.columns @ coef
        total = float(equations.square - 2 * coef @ equations.moments + coef @ equations.information @ coef) + loss
        variance = float(equations.law.bilinear(residual[None], residual[None])[0])
        variance += residual[-1] ** 4 * plan.square_excess
        rows = rows_of(plan, moments, None)
        degrees = max(rows.count - fitted, 1.0)
        phi = total / degrees
        return ModelSpread(phi, float(np.sqrt(max(variance, 0.0) + (phi * rows.deviation) ** 2)) / degrees)


def predicted_excess(
    columns: int, weight: float, deviation: float, row: RowVector, radius: float, rows: float
) -> float:
    """What noise is likely to add to the sum of losses: ridge at its best, rows spread as the metric has it.

    Parameters
    ----------
    columns : int
        p.
    weight : float
        A row's typical w.
    deviation : float
        Standard deviation of the noise of a number.
    row : RowVector
    radius : float
        Norm of the coefficients in the metric.
    rows : float
        Their number.

    Returns
    -------
    float
        sum over directions of h s^2 v / (s^2 + h^2 v) / 2 with the information h = rows w / p, the noise's variance s^2
        in the equations and the coefficients' v = radius^2 / p.
    """
    information, prior = rows * weight / columns, radius**2 / columns
    noise = deviation**2 * (1 / row.cross**2 + (columns + 1) / columns * radius**2 / (2 * row.inner**2))
    return columns * information * prior * noise / (noise + information**2 * prior) / 2

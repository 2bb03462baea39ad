"""Instrumental variables from released sums: two-stage least squares, Anderson-Rubin tests and the strength of
instruments (docs/proofs/instruments)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpstats.cached import cached_property
from dpstats.errors import FormulaError
from dpstats.formula.design import DesignSpec
from dpstats.inference import Estimates, Identified, Inference, ModelSpread, NormalLaw, wald_test
from dpstats.inference.basis import reference_levels, self_adjoint
from dpstats.inference.estimates import REACH
from dpstats.inference.inverse import identify
from dpstats.inference.noise_laws import MatrixLaw
from dpstats.mechanisms.design import constant_places
from dpstats.mechanisms.statistics import Equations, Moments, NoisyCount, StatisticsPlan, inference_of, noisy_count

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]


RANK = 1e-7
"""Combinations of the released columns whose unit vectors are nearer than this to a plane lie in it."""


@dataclass(frozen=True, eq=False)
class FirstStageNoise:
    """The law of F = X'EX - R'ER: to first order that of X'Z (Z'Z)^-1 Z'X, of which R are the residuals of X."""

    law: MatrixLaw  # of E
    columns: Matrix  # X, shape (k, p)
    residuals: Matrix  # R, shape (k, p); 0 for controls

    @property
    def size(self) -> int:
        """The number of columns p."""
        return int(self.columns.shape[1])

    def square(self, matrix: Matrix) -> Matrix:
        """S(A) = E[F A F], shape (p, p)."""
        sides = ((self.columns, 1.0), (self.residuals, -1.0))
        parts = [
            first * second * (left.T @ self.law.square(left @ matrix @ right.T) @ right)
            for left, first in sides
            for right, second in sides
        ]
        return np.asarray(sum(parts), dtype=np.float64)

    def images(self, vector: Matrix) -> Matrix:
        """S(e_j m') for each unit vector e_j, shape (p, p, p)."""
        images = [self.square(np.outer(unit, vector)) for unit in np.eye(self.size)]
        return np.array(images, dtype=np.float64).reshape((self.size,) * 3)

    def bilinear(self, left: Matrix, right: Matrix) -> Vector:
        """Var(g'F m) for the rows g, m of `left` and `right`, shape (rows,)."""
        variances = [row @ self.square(np.outer(other, other)) @ row for row, other in zip(left, right, strict=True)]
        return np.maximum(np.array(variances, dtype=np.float64), 0.0)

    def restrict(self, kept: Indices) -> FirstStageNoise:
        """The law of F's rows and columns `kept`."""
        return FirstStageNoise(self.law, self.columns[:, kept], self.residuals[:, kept])


@dataclass(frozen=True, eq=False)
class InstrumentedModel:
    """y = X b + u with E[Z'u] = 0 in terms of released sums; columns in X and in Z are controls, W."""

    plan: StatisticsPlan
    moments: Moments
    part: DesignSpec  # of y and X
    first: DesignSpec  # of y and Z
    mapped: tuple[Matrix, Matrix, Vector]  # X, Z and y as combinations of what was released: (k, p), (k, L) and (k,)
    nobs: int | None
    radius: float

    @property
    def endogenous(self) -> Flags:
        """Which columns of X are not in Z, shape (p,)."""
        return np.array([name not in self.first.names for name in self.part.names])

    @property
    def excluded(self) -> Flags:
        """Which columns of Z are not in X, shape (L,)."""
        return np.array([name not in self.part.names for name in self.first.names])

    @property
    def controls(self) -> Indices:
        """The places in Z of the controls, in their order in X."""
        return np.array([self.first.names.index(name) for name in self.part.names if name in self.first.names], int)

    @cached_property
    def columns(self) -> Matrix:
        """X T, each factor of T'X'XT measured from its commonest level; shape (k, p)."""
        return self.mapped[0] @ self.basis

    @cached_property
    def basis(self) -> Matrix:
        """T, shape (p, p)."""
        return reference_levels(self.moments.products(self.mapped[0], self.mapped[0]), self.part.dummies)

    @cached_property
    def instruments(self) -> Matrix:
        """Z likewise, shape (k, L)."""
        columns = self.mapped[1]
        return columns @ reference_levels(self.moments.products(columns, columns), self.first.dummies)

    def check(self) -> None:
        """Raise FormulaError unless the formula has endogenous columns and instruments enough, and controls in both."""
        columns, instruments, response = self.mapped
        endogenous = [name for name, flag in zip(self.part.names, self.endogenous, strict=True) if flag]
        if self.part.has_intercept != self.first.has_intercept:
            raise FormulaError(
                "formula: write '0 +' on both sides of '|', or on none, so that the intercept is a control"
            )
        if not endogenous:
            raise FormulaError(
                "formula: no column is endogenous, as all that stand before '|' stand behind it too; use fit(formula)"
            )
        if int(self.excluded.sum()) < len(endogenous):
            raise FormulaError(
                f"formula: {len(endogenous)} columns are endogenous ({', '.join(endogenous)}), and fewer are "
                f"instruments alone ({int(self.excluded.sum())}); controls stand on both sides of '|', as in "
                "'y ~ x + w | z + w'"
            )
        spanned = np.linalg.matrix_rank(instruments, tol=RANK)
        if np.linalg.matrix_rank(np.column_stack([instruments, columns[:, ~self.endogenous]]), tol=RANK) > spanned:
            raise FormulaError(
                "formula: a factor or an interaction is coded in another way on each side of '|'; write its terms alike"
            )
        every = np.column_stack([instruments, columns[:, self.endogenous], response])
        if np.linalg.matrix_rank(every / np.linalg.norm(every, axis=0), tol=RANK) < every.shape[1]:
            raise FormulaError(
                f"formula: the response or an endogenous column ({', '.join(endogenous)}) is a combination of the "
                "instruments; leave it out behind '|'"
            )

    @cached_property
    def two_stage(self) -> tuple[Inference, Matrix]:
        """Two-stage least squares in the user's units with its errors, and the basis T (docs/proofs/instruments, 3)."""
        law, basis, columns, response = self.moments.whole_law, self.basis, self.columns, self.mapped[2]
        instruments = self.instruments
        identified = self.moments.identified(instruments, constant_places(self.first))
        inverse = np.zeros((len(identified.active),) * 2)
        inverse[np.ix_(identified.active, identified.active)] = identified.inverse
        # A control is its own first stage.
        usable = self.endogenous.copy()
        usable[~self.endogenous] = identified.active[self.controls]
        stage = inverse @ self.moments.products(instruments, columns)
        certain = usable & ~self.endogenous
        stage[:, certain] = np.linalg.lstsq(instruments, columns[:, certain], rcond=None)[0]
        fitted = instruments @ stage
        reduced = instruments @ (inverse @ self.moments.products(instruments, response[:, None]))
        residuals, rest = columns - fitted, response[:, None] - reduced
        information = self.moments.products(columns, columns)
        information -= self_adjoint(self.moments.unexplained(instruments, inverse, residuals, residuals))
        moments = self.moments.products(columns, response[:, None])
        moments -= self.moments.unexplained(instruments, inverse, residuals, rest)
        noise = FirstStageNoise(law, columns, residuals)
        places = np.flatnonzero(usable)
        constants = np.flatnonzero(np.isin(places, constant_places(self.part))).tolist()
        within = identify(information[np.ix_(places, places)], noise.restrict(places), constants=constants)
        active, ratios, inflations = np.zeros(len(usable), dtype=bool), np.zeros(len(usable)), np.ones(len(usable))
        active[places], ratios[places], inflations[places] = within.active, within.ratios, within.inflations
        equations = Equations(information, moments[:, 0], 0.0, columns, response, law, np.zeros(columns.shape[1]))
        coef = equations.solve(self.radius, None, np.ones(len(usable)))
        whole = np.zeros_like(information)
        whole[np.ix_(active, active)] = within.inverse
        moved = (
            fitted.T @ law.square(columns @ whole @ fitted.T) @ response[:, None]
            + fitted.T @ law.square(columns @ whole @ residuals.T) @ reduced
            + residuals.T @ law.square(fitted @ whole @ fitted.T) @ response[:, None]
            + residuals.T @ law.square(fitted @ whole @ residuals.T) @ reduced
        )
        right = (moments + moved)[:, 0] - information[:, ~active] @ coef[~active]
        coef[active] = within.inverse @ right[active]
        errors = response - columns @ coef
        spread = fitted.T @ law.square(np.outer(errors, errors)) @ fitted
        estimates = Estimates(
            coef=coef,
            information=information,
            curvature=np.zeros_like(information),
            linear=NormalLaw(self_adjoint(spread)),
            matrix=noise,
            spread=self._dispersion(errors, fitted, whole, spread, int(active.sum())),
            typical_size=self.radius / np.sqrt(noise.size * np.diag(equations.metric)),
            found=Identified(active, within.inverse, ratios, inflations, within.law),
        )
        transform, shift = self.part.back_transform()
        return Inference(estimates, transform @ basis, shift), basis

    def _dispersion(self, errors: Vector, fitted: Matrix, inverse: Matrix, spread: Matrix, used: int) -> ModelSpread:
        """The variance of u from the residuals' sum of squares, with what noise moves in it on average taken off."""
        law, columns, rows = self.moments.whole_law, self.columns, noisy_count(self.plan, self.moments, self.nobs)
        # Residuals of the second stage are not orthogonal to endogenous columns.
        slope = columns.T @ self.moments.matrix @ errors
        slope[~self.endogenous] = 0.0
        partner = errors - 2 * fitted @ inverse @ slope
        total = float(errors @ self.moments.matrix @ errors)
        total += 2 * float(errors @ law.square(columns @ inverse @ fitted.T) @ errors)
        total -= float(np.sum(self.moments.products(columns, columns) * (inverse @ spread @ inverse)))
        variance = float(law.bilinear(errors[None], partner[None])[0])
        degrees = max(rows.count - used, 1.0)
        phi = total / degrees
        return ModelSpread(phi, math.sqrt(max(variance, 0.0) + (phi * rows.deviation) ** 2) / degrees)

    def anderson_rubin(self) -> AndersonRubin:
        """The Anderson-Rubin statistic as a function of the coefficients of the endogenous columns.

        Of instruments with a bounded interval in every first stage: of others what the controls leave is not known.
        """
        columns, endogenous = self.columns, self.endogenous
        known = self.excluded.copy()
        for stage in self._stages:
            known[self.excluded] &= np.isfinite(stage.contrasts(np.eye(stage.size)[self.excluded]).se)
        return AndersonRubin.of(
            self.moments,
            controls=columns[:, ~endogenous],
            outcomes=np.column_stack([self.mapped[2], columns[:, endogenous]]),
            instruments=self.instruments[:, known],
            rows=noisy_count(self.plan, self.moments, self.nobs),
            radius=self.radius,
        )

    def first_stages(self) -> list[FirstStage]:
        """Of each endogenous column, in its order."""
        return [FirstStage.of(one, self.excluded) for one in self._stages]

    @cached_property
    def _stages(self) -> list[Estimates]:
        """Of each endogenous column on the instruments."""
        columns, facts = self.columns[:, self.endogenous], (self.nobs, self.radius)
        return [
            inference_of(self.plan, self.moments, self.first, (self.mapped[1], column), *facts)[0].estimates
            for column in columns.T
        ]


def _tail(degrees: int, statistic: float) -> float:
    """The chance that chi-squared is above; 1 where there is nothing to test."""
    return float(special.chdtrc(degrees, statistic)) if degrees > 0 else 1.0


def _positive(matrix: Matrix) -> Matrix:
    """A matrix, of which rounding alone is not symmetric, without its negative eigenvalues."""
    values, vectors = np.linalg.eigh(self_adjoint(matrix))
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


POINTS = 2001
"""Directions at which a statistic is looked at before its minima and crossings are."""


@dataclass(frozen=True, eq=False)
class AndersonRubin:
    """Released sums that the controls leave, for l instruments and (y, x), x of m columns, in model units."""

    cross: Matrix  # Z'(y, x), shape (l, m + 1)
    residuals: Matrix  # (y, x)'(y, x), shape (m + 1, m + 1)
    instruments: Matrix  # Z'Z, shape (l, l)
    noise: NDArray[
        np.float64
    ]  # N_ij: s's covariance of Z'(y, x)s is the sum of s_i s_j N_ij, shape (m + 1, m + 1, l, l)
    residual_noise: NDArray[np.float64]  # likewise of the noise of s'(y, x)'(y, x)s, four axes of m + 1
    omitted: Matrix  # what controls that are not identified may add to the covariance, over |s|^2, shape (l, l)
    degrees: float
    rows_deviation: float

    @classmethod
    def of(
        cls,
        moments: Moments,
        *,
        controls: Matrix,
        outcomes: Matrix,
        instruments: Matrix,
        rows: NoisyCount,
        radius: float,
    ) -> AndersonRubin:
        """For W, (y, x) and Z without W as combinations of what was released, shapes (k, q), (k, m + 1) and (k, l)."""
        law, identified = moments.whole_law, moments.identified(controls)
        kept, inverse, dropped = controls[:, identified.active], identified.inverse, controls[:, ~identified.active]
        outcomes, instruments = (
            columns - kept @ (inverse @ moments.products(kept, columns)) for columns in (outcomes, instruments)
        )
        squares = [[law.square(np.outer(one, other)) for other in outcomes.T] for one in outcomes.T]
        # What controls that are not identified may do, at coefficients as large as `Estimates` takes them to be.
        sizes = REACH * radius * np.sqrt(identified.inflations[~identified.active] / max(len(identified.active), 1))
        sizes = sizes / np.sqrt(np.sum(dropped * (law.metric @ dropped), axis=0))
        across = moments.products(instruments, dropped * sizes)
        excess = instruments.T @ law.square((dropped * sizes**2) @ dropped.T) @ instruments
        return cls(
            cross=moments.unexplained(kept, inverse, instruments, outcomes),
            residuals=self_adjoint(moments.unexplained(kept, inverse, outcomes, outcomes)),
            instruments=_positive(moments.unexplained(kept, inverse, instruments, instruments)),
            noise=np.array([[instruments.T @ one @ instruments for one in line] for line in squares]),
            residual_noise=np.array([[outcomes.T @ one @ outcomes for one in line] for line in squares]),
            omitted=_positive(across @ across.T - excess),
            degrees=max(rows.count - kept.shape[1], 1.0),
            rows_deviation=rows.deviation,
        )

    @property
    def sizes(self) -> tuple[int, int]:
        """l and m."""
        return len(self.instruments), len(self.residuals) - 1

    def statistic(self, directions: Matrix) -> Vector:
        """g'V^-1 g for g = Z'(y, x)s and rows s, shape (count, m + 1); s = (1, -b) tests the coefficients b."""
        sums = directions @ self.cross.T
        squares = np.einsum("ci,ij,cj->c", directions, self.residuals, directions)
        tilted = np.einsum("ci,cj,ijkl->ckl", directions, directions, self.residual_noise)
        variances = np.maximum(np.einsum("ck,cl,ckl->c", directions, directions, tilted), 0.0)
        phi = squares / self.degrees
        deviations = np.sqrt(variances + (phi * self.rows_deviation) ** 2) / self.degrees
        covariance = np.maximum(phi, deviations)[:, None, None] * self.instruments
        covariance += np.einsum("ci,cj,ijkl->ckl", directions, directions, self.noise)
        covariance += np.sum(directions**2, axis=1)[:, None, None] * self.omitted
        covariance = (covariance + covariance.transpose(0, 2, 1)) / 2
        return np.asarray(np.einsum("ck,ck->c", sums, np.linalg.solve(covariance, sums[:, :, None])[:, :, 0]))

    def at(self, coefficients: Vector) -> float:
        """The statistic of the test that the m coefficients are these; chi-squared of l degrees of freedom if so."""
        direction = np.append(1.0, -np.asarray(coefficients, dtype=np.float64))
        return float(self.statistic(direction[None] / np.linalg.norm(direction))[0])

    def pvalue(self, statistic: float) -> float:
        """Of a statistic of `at`."""
        return _tail(self.sizes[0], statistic)

    def overidentification(self, start: Vector) -> tuple[float, float, int]:
        """The least statistic of all coefficients, its p-value and l - m degrees of freedom."""
        instruments, endogenous = self.sizes
        if endogenous == 1:
            least = float(np.min(self._looked_at()[1]))
        else:
            minimum = optimize.minimize(self.at, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-8})
            least = float(minimum.fun)
        degrees = instruments - endogenous
        return least, _tail(degrees, least), max(degrees, 0)

    def confidence_set(self, alpha: float) -> tuple[tuple[float, float], ...]:
        """The coefficients of one endogenous column that are not rejected: intervals, in order; perhaps none."""
        if not len(self.instruments):
            return ((-math.inf, math.inf),)
        most = float(special.chdtri(self.sizes[0], alpha))
        angles, values = self._looked_at()
        inside = values <= most
        ends = [-math.inf] if inside[0] else []
        for at in np.flatnonzero(inside[1:] != inside[:-1]):
            root = optimize.brentq(lambda angle: self._along(np.array([angle]))[0] - most, angles[at], angles[at + 1])
            ends.append(math.tan(root))
        ends += [math.inf] if inside[-1] else []
        return tuple(zip(ends[::2], ends[1::2], strict=True))

    def _along(self, angles: Vector) -> Vector:
        """The statistic at coefficients tan(angle), which is that of a circle: both infinities are one point."""
        return self.statistic(np.column_stack([np.cos(angles), -np.sin(angles)]))

    def _looked_at(self) -> tuple[Vector, Vector]:
        """Angles from -pi / 2 to pi / 2, the minima between them too, and the statistic there."""
        angles = np.linspace(-math.pi / 2, math.pi / 2, POINTS)
        values = self._along(angles)
        step = angles[1] - angles[0]
        low = np.flatnonzero((values <= np.roll(values, 1)) & (values <= np.roll(values, -1)))
        # A ratio of polynomials of degree 2 l has no more minima; of a constant each point is one.
        low = low[np.argsort(values[low])][: 2 * len(self.instruments)]
        minima = [
            optimize.minimize_scalar(
                lambda angle: self._along(np.array([angle]))[0],
                bounds=(max(angles[at] - step, angles[0]), min(angles[at] + step, angles[-1])),
                method="bounded",
                options={"xatol": 1e-12},
            ).x
            for at in low
        ]
        angles = np.unique(np.append(angles, minima))
        return angles, self._along(angles)


WEAK = 10.0
"""A first stage is weak if its F is less (Staiger and Stock 1997)."""


@dataclass(frozen=True)
class FirstStage:
    """The test that no instrument moves an endogenous column, beside the controls."""

    f: float  # over sampling error and noise together; NaN where no instrument is identified
    pvalue: float
    df: int  # instruments tested
    untested: int  # instruments that are not identified
    rows_f: float  # the F of the rows without noise, by estimate; NaN where that is not known
    rows_f_sd: float

    @classmethod
    def of(cls, estimates: Estimates, excluded: Flags) -> FirstStage:
        """Of the coefficients of the instruments among all in a first stage."""
        test = wald_test(estimates, np.eye(estimates.size)[excluded])
        f = test.statistic / test.df if test.df else math.nan
        identified = estimates.identified
        places = np.flatnonzero(excluded[identified.active])
        if not len(places):
            return cls(f, test.pvalue, test.df, test.untested, math.nan, math.nan)
        coef = estimates.debiased[identified.active][places]
        weight = np.linalg.inv(identified.inverse[np.ix_(places, places)])
        noise = weight @ estimates.covariances[0][np.ix_(places, places)]
        assert isinstance(estimates.spread, ModelSpread)
        unit = estimates.spread.value * len(places)
        square = float(coef @ weight @ coef) - float(np.trace(noise))
        deviation = math.sqrt(4 * float(coef @ noise @ weight @ coef) + 2 * float(np.trace(noise @ noise)))
        return cls(f, test.pvalue, test.df, test.untested, max(square, 0.0) / unit, deviation / unit)

    @property
    def is_weak(self) -> bool:
        """Whether two-stage least squares may be far off."""
        return not self.f >= WEAK

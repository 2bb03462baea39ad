"""Sufficient statistics of linear models: planned without rows, released once, and the models that follow
(docs/proofs/statistics)."""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpstats.arguments import safe_repr
from dpstats.cached import cached_property
from dpstats.data import Block, Rows, block_rows
from dpstats.errors import ArgumentError
from dpstats.formula.design import DesignSpec
from dpstats.formula.submodels import uniform_exog
from dpstats.inference import (
    DeclaredRanges,
    Estimates,
    Identified,
    Inference,
    KnownInformation,
    ModelSpread,
    NormalLaw,
    Projection,
    SpanNoise,
    Spread,
)
from dpstats.inference.basis import MappedMatrix, reference_levels, self_adjoint
from dpstats.inference.inverse import identify
from dpstats.mechanisms.design import declared_ranges, has_errors
from dpstats.penalties import Penalty
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.guarantee import Adjacency, Guarantee
from dpstats.privacy.information import COVER_SHARE, JointColumns, MatrixLaw, MatrixNoise, design_metric
from dpstats.privacy.information.statistics import (
    StatisticsNoise,
    frobenius_sensitivity,
    integer_statistics,
    noisy_statistics,
    statistics_noise,
)
from dpstats.privacy.randomness import RandomSource
from dpstats.solvers.linear_algebra import minimize_quadratic

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]

PROOF = "docs/proofs/statistics"

RADIUS = 1.0
"""Default guess at the norm of the coefficients in the metric of the design: |x'theta| is at most that."""


WORTHWHILE = 0.5
"""See `worthwhile`; settled by `python -m benchmarks.methods.statistics joined`."""

LEAST, MOST = 1e-6, 1e6
"""Between which eps and the radius must lie: beyond, noise leaves the lattice, or means nothing."""


@dataclass(frozen=True)
class ResidualCentre:
    """Released coefficients b and a cap c, in model units: sums are of r = (y - x'b) / c, cut to [-1, 1], for y."""

    coef: tuple[float, ...]
    cap: float

    def __post_init__(self) -> None:
        check_positive("cap", self.cap)

    def of(self, exog: Matrix, endog: Vector) -> Vector:
        """r of some rows, each by itself: a product of matrices may sum a row in an order that depends on others."""
        left = np.array(endog, dtype=np.float64)
        product = np.empty_like(left)
        for column, coef in zip(exog.T, self.coef, strict=True):
            left -= np.multiply(column, coef, out=product)
        left /= self.cap
        return np.clip(left, -1.0, 1.0, out=left)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {"coef": list(self.coef), "cap": self.cap}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ResidualCentre:
        """What `to_dict` gave `stored` of."""
        return cls(tuple(stored["coef"]), float(stored["cap"]))


@dataclass(frozen=True, eq=False)
class StatisticsPlan:
    """One release of X'X, X'y and y'y, fixed before rows are read; or of X'X, X'r and r'r, from which those follow."""

    design: DesignSpec  # of all columns, in model units
    noise: StatisticsNoise  # in the coordinates of `metric`
    metric: MatrixNoise  # holds D and L with z = D^-1/2 L^-1 x, |z| <= 1; its scale means nothing
    radius: float
    cover_eps: float  # the part of eps for floating point
    guarantee: Guarantee
    residuals: ResidualCentre | None = None

    @cached_property
    def units(self) -> Matrix:
        """B with (x, y) = B (x, r), shape (p + 1, p + 1); r is y itself without residuals."""
        units = np.eye(len(self.design.names) + 1)
        if self.residuals is not None:
            units[-1] = [*self.residuals.coef, self.residuals.cap]
        return units

    @property
    def response_unit(self) -> float:
        """What r is in units of."""
        return 1.0 if self.residuals is None else self.residuals.cap

    @cached_property
    def axes(self) -> Matrix:
        """K with (x, y) = K (z, r), shape (p + 1, p + 1)."""
        size = len(self.design.names)
        axes = np.eye(size + 1)
        axes[:size, :size] = np.diag(np.sqrt(self.metric.diagonal))
        if self.metric.mixing:
            axes[:size, :size] = np.array(self.metric.mixing) @ axes[:size, :size]
        return np.asarray(self.units @ axes)

    @property
    def square_excess(self) -> float:
        """The variance of y'y less what `law` says it is."""
        excess = self.noise.square_variance - 8 * self.noise.entry_variance / self.noise.response**4
        return excess * self.response_unit**4

    @property
    def intercept(self) -> tuple[int, float]:
        """The place of the intercept's column and its value in model units."""
        at = self.design.names.index("Intercept")
        return at, float(1 / self.design.scale[at])

    @cached_property
    def law(self) -> SpanNoise:
        """The noise in the coordinates (x, y); that of y'y, which no fit of y uses, is as if its weight were a^2/2."""
        axes = self.axes.copy()
        axes[-1, -1] *= np.sqrt(2) / self.noise.response
        return SpanNoise(self_adjoint(axes @ axes.T), self.noise.entry_variance)

    def release(self, rows: Rows[Block] | Iterable[tuple[Any, ...]], random: RandomSource) -> Matrix:
        """The matrix of sums of w w', w = (x, y), with its noise. Reads rows: charge first."""
        exact = block_rows(rows).total(partial(_exact, self.metric, self.residuals), operator.add)
        released = noisy_statistics(exact, self.noise, cover_eps=self.cover_eps, random=random)
        return self._carried(released)

    def sample(self, random: RandomSource) -> Matrix:
        """A draw of the noise in the coordinates (x, y)."""
        return self._carried(self.noise.sample(random))

    def _carried(self, matrix: Matrix) -> Matrix:
        """A matrix of sums in the coordinates (z, r), or their noise, in (x, y)."""
        return self_adjoint(self.axes @ matrix @ self.axes.T)

    @cached_property
    def projection(self) -> Projection:
        """How X'X, whose noise is not tied to that of X'y, loses what the design knows of it."""
        law = self.law
        return Projection.of(SpanNoise(law.metric[:-1, :-1], law.variance), self.design.forms())

    def digest(self) -> str:
        """A hash of all that was decided, for the ledger."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {
            "design": self.design.to_dict(),
            "noise": self.noise.to_dict(),
            "metric": self.metric.to_dict(),
            "radius": self.radius,
            "cover_eps": self.cover_eps,
            "guarantee": self.guarantee.to_dict(),
            **({} if self.residuals is None else {"residuals": self.residuals.to_dict()}),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> StatisticsPlan:
        """The plan whose `to_dict` gave `stored`."""
        residuals = stored.get("residuals")
        return cls(
            design=DesignSpec.from_dict(stored["design"]),
            noise=StatisticsNoise.from_dict(stored["noise"]),
            metric=MatrixNoise.from_dict(stored["metric"]),
            radius=float(stored["radius"]),
            cover_eps=float(stored["cover_eps"]),
            guarantee=Guarantee(**stored["guarantee"]),
            residuals=None if residuals is None else ResidualCentre.from_dict(residuals),
        )


def plan_statistics(
    design: DesignSpec,
    *,
    eps: float,
    delta: float = 0.0,
    adjacency: Adjacency = "add_remove",
    radius: float = RADIUS,
    law: MatrixLaw | None = None,
    residuals: ResidualCentre | None = None,
) -> StatisticsPlan:
    """Weights, law and scale of the noise from public facts alone; ArgumentError if an argument is outside its range.

    Normal noise needs a positive delta, and pure noise is taken where it is less, unless a law is insisted on. `radius`
    guesses at sqrt(theta'D theta) for the coefficients theta in model units, D the metric; it bounds |x'theta|. Of
    residuals it is a guess at their coefficients, in units of the cap.
    """
    check_size("eps", eps)
    radius = check_size("radius", radius)
    if not has_errors(design):
        raise ArgumentError(
            "the units of the columns and the response differ by a factor of 1e70 or more, so errors would have "
            "no variances: rescale them"
        )
    cover = COVER_SHARE * eps
    noise = statistics_noise(
        len(design.names), eps=eps - cover, delta=delta, radius=radius, adjacency=adjacency, law=law
    )
    diagonal, mixing = design_metric(design.images, joined=worthwhile(design))
    if noise.law == "normal":
        mu = frobenius_sensitivity(noise.response, noise.square, adjacency) / noise.scale
        guarantee = Guarantee(eps, delta, adjacency, basis=PROOF, rho=(mu**2 + cover**2) / 2)
    else:
        guarantee = Guarantee(eps, 0.0, adjacency, basis=PROOF)
    metric = MatrixNoise("normal", 1.0, diagonal, mixing)
    return StatisticsPlan(design, noise, metric, radius, cover, guarantee, residuals)


def worthwhile(design: DesignSpec) -> tuple[JointColumns, ...]:
    """Columns that move together whose optimal design is to stand for the product of their bodies.

    Those for which it makes the noise in predictions, for rows drawn evenly from the Domain, `WORTHWHILE` of what it is
    or less: products of columns and splines, as a rule. Real rows are nearer to the middle, where it helps less, so a
    small gain is not taken (docs/proofs/statistics, 3).
    """
    if not design.joined:
        return ()
    rows = uniform_exog(design)
    inverse = np.linalg.pinv(rows.T @ rows / max(len(rows), 1))

    def spread(joined: tuple[JointColumns, ...]) -> float:
        shape = design_metric(design.images, joined=joined)
        return float(np.sum(inverse * MatrixNoise("normal", 1.0, *shape).metric))

    plain = spread(())
    return tuple(one for one in design.joined if spread((one,)) <= WORTHWHILE * plain)


def _exact(metric: MatrixNoise, residuals: ResidualCentre | None, blocks: Iterable[Block]) -> NDArray[np.object_]:
    """The exact sums over some rows."""
    rows = (block.doubles()[:2] for block in blocks)
    if residuals is not None:
        rows = ((exog, residuals.of(exog, endog)) for exog, endog in rows)
    return integer_statistics(rows, metric)


def check_size(name: str, value: float) -> float:
    """`value` as a float; ArgumentError unless it is a number from 1e-6 to 1e6."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not LEAST <= value <= MOST:
        raise ArgumentError(
            f"{name} must be a number from {LEAST:g} to {MOST:g} for released statistics, got {safe_repr(value)}"
        )
    return float(value)


PRECISION = 1e-12
"""Of a penalised fit, relative to the right-hand side of its equations."""


@dataclass(frozen=True, eq=False)
class SumsNoise(SpanNoise):
    """The noise of released sums with that of y'y as it is, whose variance is more or less than the metric says."""

    excess: float = 0.0

    def square(self, matrix: Matrix) -> Matrix:
        """S(A) = E[E A E], shape (k, k)."""
        expectation = super().square(matrix)
        expectation[-1, -1] += self.excess * matrix[-1, -1]
        return expectation

    def images(self, vector: Vector) -> Matrix:
        """S(e_j m') for each unit vector e_j, shape (k, k, k)."""
        images = super().images(vector)
        images[-1, -1, -1] += self.excess * vector[-1]
        return images

    def bilinear(self, left: Matrix, right: Matrix) -> Vector:
        """Var(g'E m) for the rows g, m of `left` and `right`, shape (rows, k)."""
        return super().bilinear(left, right) + self.excess * (left[:, -1] * right[:, -1]) ** 2

    def restrict(self, kept: Indices) -> SumsNoise:
        """The law of E's rows and columns `kept`, in their order."""
        part, last = super().restrict(kept), self.size - 1 in kept
        return SumsNoise(part.metric, part.variance, part.removed, self.excess if last else 0.0)


@dataclass(frozen=True, eq=False)
class Moments:
    """A released matrix of sums of w w' after what the design knows of it, shape (k, k), and the law of its noise."""

    matrix: Matrix
    law: SpanNoise  # of all but y'y, which models that explain y have no use for
    square_excess: float = 0.0
    residuals: ResidualCentre | None = None  # if those of r were released

    @property
    def whole_law(self) -> SumsNoise:
        """Of all, for models in which y stands elsewhere."""
        return SumsNoise(self.law.metric, self.law.variance, self.law.removed, self.square_excess)

    @classmethod
    def of(cls, plan: StatisticsPlan, released: Matrix) -> Moments:
        """The released matrix projected on the span of possible ones."""
        law, size = plan.law, len(plan.design.names)
        if not len(plan.design.forms()):
            return cls(released, law, plan.square_excess, plan.residuals)
        # What X'X loses X'y and y'y lose too, as far as they follow from it.
        follows, information = plan.units[:, :size], released[:size, :size]
        clean, taken = plan.projection.clean(information), plan.projection.law.removed
        matrix, removed = released.copy(), np.zeros((size + 1,) * 4)
        removed[:size, :size, :size, :size] = taken
        if plan.residuals is not None:
            matrix += self_adjoint(follows @ (clean - information) @ follows.T)
            for _ in range(4):
                removed = np.tensordot(removed, plan.units, axes=(0, 1))
        matrix[:size, :size] = clean
        return cls(matrix, SpanNoise(law.metric, law.variance, removed), plan.square_excess, plan.residuals)

    def products(self, left: Matrix, right: Matrix) -> Matrix:
        """Released sums of products of combinations of columns."""
        products: Matrix = left.T @ self.matrix @ right
        return self_adjoint(products) if left is right else products

    def identified(self, columns: Matrix, constants: Sequence[int] = ()) -> Identified:
        """Which columns have more information than noise."""
        return identify(self.products(columns, columns), MappedMatrix(self.whole_law, columns), constants=constants)

    def unexplained(self, columns: Matrix, inverse: Matrix, left: Matrix, right: Matrix) -> Matrix:
        """Sums of products of residuals of columns, with what noise takes off on average (docs/proofs/instruments)."""
        noise = left.T @ self.whole_law.square(columns @ inverse @ columns.T) @ right
        return np.asarray(left.T @ self.matrix @ right + noise, dtype=np.float64)

    def equations(self, columns: Matrix, response: Vector) -> Equations:
        """The normal equations of a model of x = T'w and y = t'w, T of shape (k, q) and t of shape (k,)."""
        centre, unit = np.zeros(columns.shape[1]), 1.0
        if self.residuals is not None and response[-1] != 0:
            unit = self.residuals.cap * abs(float(response[-1]))
            known = response[:-1] + response[-1] * np.array(self.residuals.coef)
            centre = np.linalg.lstsq(columns[:-1], known, rcond=None)[0]
        return Equations(
            centre=centre,
            unit=unit,
            information=self_adjoint(columns.T @ self.matrix @ columns),
            moments=columns.T @ self.matrix @ response,
            square=float(response @ self.matrix @ response),
            columns=columns,
            response=response,
            law=self.whole_law if np.any(columns[-1] != 0) else self.law,
        )


@dataclass(frozen=True, eq=False)
class Equations:
    """Released normal equations H theta = v of one model; u = t - T theta are its residuals."""

    information: Matrix  # H, with noise: perhaps not positive, shape (q, q)
    moments: Vector  # v, with noise, shape (q,)
    square: float  # y'y, with noise
    columns: Matrix  # T, shape (k, q)
    response: Vector  # t, shape (k,)
    law: SpanNoise  # of the noise of the whole matrix
    centre: Vector  # what coefficients shrink towards, shape (q,)
    unit: float = 1.0  # of distances from it

    @cached_property
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
        """m = sqrt(E |b|^2) / radius in the metric, b = v - H theta the noise for theta of norm `radius` at random.

        The norm is that of the distance from the centre, in its unit.
        """
        root, law, radius = self._root, self.law, radius * self.unit
        response = self.response - self.columns @ self.centre
        typical = linalg.solve_triangular(root, self.columns.T, lower=True) * (radius / math.sqrt(len(root)))
        covariance = self.noise_covariance(np.outer(response, response) + typical.T @ typical)
        square = float(np.trace(_in_metric(root, covariance)))
        # In closed form without what the design knows, which never adds: of columns that hardly differ, whose metric
        # has no inverse in doubles, the sum above may have no correct digit.
        image = law.metric @ response
        inner = linalg.solve_triangular(root, self.columns.T @ image, lower=True)
        size = float(response @ image) + radius**2
        most = law.variance * (len(root) * size + float(inner @ inner) + radius**2)
        return math.sqrt(square if 0 < square < most else most) / radius

    def stabilised(self, ridge: float) -> Matrix:
        """A positive definite S for H: eigenvalues l in the metric become l/2 + sqrt(l^2/4 + m^2), l cut at 0.

        S = H + m^2 S^-1: a ridge of m where H is nothing, and of m^2 / l where it is much more, as for coefficients
        and noise of the sizes that m stands for (docs/proofs/statistics, 4).
        """
        values, vectors = np.linalg.eigh(self_adjoint(_in_metric(self._root, self.information)))
        cut = np.maximum(values, 0.0)
        axes = self._root @ vectors
        return self_adjoint((axes * (cut / 2 + np.sqrt(cut**2 / 4 + ridge**2))) @ axes.T)

    def steady(self, radius: float) -> Matrix:
        """`stabilised` at the `ridge` of a radius: one that is asked for again is kept."""
        if radius not in self._steady:
            self._steady[radius] = self.stabilised(self.ridge(radius))
        return self._steady[radius]

    @cached_property
    def _steady(self) -> dict[float, Matrix]:
        return {}

    @cached_property
    def _root(self) -> Matrix:
        """The lower root of the metric."""
        return np.asarray(np.linalg.cholesky(self.metric), dtype=np.float64)

    def solve(self, radius: float, penalty: Penalty | None, weights: Vector) -> Vector:
        """argmin of d'S d / 2 - (v - H c)'d + P(theta), d = theta - c with c the centre, shape (q,).

        P is convex and has column weights.
        """
        metric = self.steady(radius)
        left = self.moments - self.information @ self.centre
        if penalty is None:
            return self.centre + np.asarray(linalg.solve(metric, left, assume_a="pos"))
        pulls = left + metric @ self.centre
        tolerance = PRECISION * float(np.linalg.norm(pulls))
        return minimize_quadratic(metric, -pulls, penalty, weights, np.zeros(len(metric)), tolerance)


def _in_metric(root: NDArray[np.floating[Any]], matrix: Matrix) -> Matrix:
    """R^-1 A R'^-1 for the lower root R of a metric and a symmetric A."""
    inner = linalg.solve_triangular(root, matrix, lower=True)
    return np.asarray(linalg.solve_triangular(root, inner.T, lower=True), dtype=np.float64)


@dataclass(frozen=True)
class NoisyCount:
    """How many complete rows there are, and the standard deviation of its noise."""

    count: float
    deviation: float


def noisy_count(plan: StatisticsPlan, moments: Moments, public: int | None) -> NoisyCount:
    """The number of complete rows, read off the released sum of squares of the intercept; at most the public number."""
    at, constant = plan.intercept
    size = constant**2
    one = np.eye(len(moments.matrix))[[at]]
    deviation = float(np.sqrt(moments.law.bilinear(one, one)[0])) / size
    count = max(float(moments.matrix[at, at]) / size, deviation)
    return NoisyCount(count if public is None else min(count, float(max(public, 1))), deviation)


def inference_of(
    plan: StatisticsPlan,
    moments: Moments,
    part: DesignSpec,
    mapped: tuple[Matrix, Vector],
    nobs: int | None,
    radius: float,
    known: KnownInformation | None = None,
) -> tuple[Inference, Matrix]:
    """Coefficients of the model `part` without ridge and penalty, with errors in the user's units; and a basis (q, q).

    `mapped` holds T and t of its columns and its response, `nobs` is the number of rows if it is public, and `known` is
    what is known of their information, if at hand. Each factor is measured from its commonest level within, and
    reported as the formula asks for: coefficients in model units are the basis times those within.
    """
    plain = moments.equations(*mapped)
    basis = reference_levels(plain.information, part.dummies) if known is None else known.basis
    equations = moments.equations(mapped[0] @ basis, mapped[1])
    transform, shift = part.back_transform()
    excess = 0.0 if isinstance(equations.law, SumsNoise) else plan.square_excess
    spread = partial(dispersion, excess, equations, noisy_count(plan, moments, nobs))
    identified = None if known is None else known.identified
    units = transform @ basis, shift
    return equations_inference(equations, radius, units, spread, identified, declared_ranges(part)), basis


class SpreadOf(Protocol):
    """The spread of the scores, once the coefficients are known."""

    def __call__(self, coef: Vector, loss: float, fitted: int) -> Spread:
        """At coefficients (q,), `fitted` of them identified, that noise made fit better by `loss`."""


def equations_inference(
    equations: Equations,
    radius: float,
    units: tuple[Matrix, Vector],
    spread: SpreadOf,
    identification: Identified | None = None,
    ranges: DeclaredRanges | None = None,
) -> Inference:
    """Coefficients of released equations without ridge, with errors, in the user's units: A theta + shift.

    `identification` is what the information identifies, if at hand.
    """
    law = MappedMatrix(equations.law, equations.columns)
    constants = () if ranges is None or ranges.constant is None else ranges.constant[:1]
    identified = identify(equations.information, law, constants=constants) if identification is None else identification
    coef = equations.solve(radius, None, np.ones(law.size))
    active, inverse = identified.active, identified.inverse
    # From the centre: the inverse allows for noise that multiplies the distance from it, not the coefficients.
    near = np.where(active, equations.centre, coef)
    rest = equations.moments - equations.information @ near
    coef[active] = near[active] + inverse @ rest[active]
    noise = equations.coefficient_noise(coef)
    loss = float(np.sum(inverse * noise[np.ix_(active, active)]))
    estimates = Estimates(
        coef=coef,
        information=equations.information,
        curvature=np.zeros_like(noise),
        linear=NormalLaw(noise),
        matrix=law,
        spread=spread(coef, loss, int(active.sum())),
        typical_size=radius / np.sqrt(law.size * np.diag(equations.metric)),
        found=identified,
        centre=equations.centre,
        ranges=ranges,
    )
    return Inference(estimates, *units)


def dispersion(
    square_excess: float, equations: Equations, rows: NoisyCount, coef: Vector, loss: float, fitted: int
) -> ModelSpread:
    """The residual variance u'Au / (n - q), u = t - T theta, with the noise that the fit took out of it put back."""
    residual = equations.response - equations.columns @ coef
    total = float(equations.square - 2 * coef @ equations.moments + coef @ equations.information @ coef) + loss
    variance = float(equations.law.bilinear(residual[None], residual[None])[0]) + residual[-1] ** 4 * square_excess
    degrees = max(rows.count - fitted, 1.0)
    phi = total / degrees
    deviation = float(np.sqrt(max(variance, 0.0) + (phi * rows.deviation) ** 2)) / degrees
    return ModelSpread(phi, deviation)

"""Least squares from released statistics, as a method of a fit (docs/proofs/statistics)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError
from dpstats.families import Family, Gaussian
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import Bounds
from dpstats.mechanisms.information import ReleasedSums
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.output import check_output_options, refuse_options
from dpstats.mechanisms.release import MOST_COVERED, LatticeRelease
from dpstats.mechanisms.spec import FitSpec
from dpstats.mechanisms.stage import MODEL_UNITS, NoiseFacts, Released, RiskTables, StagePlan, Table
from dpstats.mechanisms.statistics import RADIUS, Moments, StatisticsPlan, plan_statistics
from dpstats.privacy.information import MatrixLaw
from dpstats.privacy.noise import Kind, Noise
from dpstats.privacy.randomness import RandomSource
from dpstats.quiet import quiet
from dpstats.wording import argument

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LAWS: dict[Kind | None, MatrixLaw] = {"laplace": "wishart", "gaussian": "normal"}
"""The law of the sums' noise that the option `noise` insists on."""


@dataclass(frozen=True, eq=False)
class LeastSquaresPlan(StagePlan):
    """A linear model of released sums.

    What the tables of a plan show of noise and curvature is that of the normal equations: `noise_variances` are those
    of X'y - X'X theta for coefficients of the norm that `radius` says, and `curvature` is the ridge where the sums say
    nothing. `penalty` is whole; none of it is part of `curvature`.
    """

    released: ClassVar[str | None] = "statistics"
    caps_loss: ClassVar[bool] = False
    risk_is_proved: ClassVar[bool] = False

    statistics: StatisticsPlan = field(kw_only=True)

    def coefficients(self, rows: Rows[Block] | Iterable[tuple[Any, ...]], random: RandomSource) -> Vector:
        """Coefficients of sums that are released, shape (p,)."""
        return self._solved(self.statistics.release(rows, random))

    def release(self, design: Bounds, rows: Rows[Block], random: RandomSource) -> Released:
        """Coefficients, and the sums themselves."""
        sums = self.statistics.release(rows, random)
        return Released(self._solved(sums), ReleasedSums(sums))

    def _solved(self, sums: Matrix) -> Vector:
        with quiet():
            equations = Moments.of(self.statistics, sums).equations(*whole_model(self.size))
            return equations.solve(self.statistics.radius, self.penalty, self.penalty_weights)

    def check_last_step(self) -> None:
        """Nothing: coefficients follow from sums that have their noise, and no optimum is rounded."""

    @property
    def gradient_size(self) -> float:
        """None: nothing is minimised before the noise."""
        return 0.0

    @property
    def ridge(self) -> float:
        """m: what stands for eigenvalues that noise hides, in the metric of the design."""
        return ridge_of(self.statistics)

    @property
    def noise_variances(self) -> Vector:
        """Variances of the noise of the normal equations, shape (p,)."""
        noise, metric = self.statistics.noise, np.diag(self.statistics.law.metric)[: self.size]
        return np.asarray(metric * (noise.gradient_variance(self.statistics.radius) / self.size))

    @property
    def covered_rows(self) -> float:
        """Any number: no optimum of theirs is released before the noise."""
        return MOST_COVERED

    @property
    def law_name(self) -> str:
        return f"{self.statistics.noise.law} matrix"

    @property
    def bought_law(self) -> str:
        return "X'X, X'y and y'y"

    @property
    def shrunk_towards(self) -> Vector:
        """The coefficients that residuals are about, or 0."""
        return np.zeros(self.size) if self.statistics.residuals is None else np.array(self.statistics.residuals.coef)

    @property
    def noise_facts(self) -> NoiseFacts:
        """The noise of the released sums."""
        return sums_facts(self.statistics)

    @property
    def shrinkage_note(self) -> str:
        return (
            "Coefficients are shrunk towards zero where the released sums have more noise than information, "
            f"{MODEL_UNITS}"
        )

    @property
    def errors_note(self) -> str:
        """What the sums allow, errors among it unless they have chosen columns."""
        return (
            "The release holds the sums of squares and products of all columns, and the guarantee covers every "
            "linear model fitted from them: statistics.fit(formula) costs nothing. "
            + (
                "This fit has no standard errors, which would not be valid after a selection from the same sums."
                if self.penalty is not None and self.penalty.sparse
                else "Standard errors (model-based) account for sampling and for the noise."
            )
        )

    def risk(self, tables: RiskTables[Table]) -> Table:
        """None is proved."""
        return tables.unproved()

    def predicted_error(self, hessian: Matrix, coefficients: Vector) -> tuple[Matrix, Matrix]:
        """Of normal equations that are stabilised eigenvalue by eigenvalue (docs/proofs/statistics, 4).

        The ridge m makes the eigenvalue l of the equations in the metric l / 2 + sqrt(l^2 / 4 + m^2).
        """
        axes = self.statistics.axes[: self.size, : self.size]  # K with x = K z: the noise is alike in all directions
        inner = np.linalg.solve(axes, np.linalg.solve(axes, hessian).T)
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        values = np.maximum(values, 0.0)
        steady = values / 2 + np.sqrt(values**2 / 4 + self.ridge**2)
        turned = axes.T @ coefficients
        # Coefficients u of z are K' theta.
        back = np.linalg.solve(axes.T, vectors)
        bias = back @ ((1 - values / steady) * (vectors.T @ turned))
        unit = self.statistics.response_unit
        variance = unit**2 * self.statistics.noise.gradient_variance(float(np.linalg.norm(turned)) / unit) / self.size
        return (back * (variance / steady**2)) @ back.T, np.outer(bias, bias)

    def noise_bounds(self, transform: Matrix) -> Vector:
        """NaN: it is the released sums that tell (docs/proofs/statistics, 4)."""
        return np.full(len(transform), np.nan)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"statistics": self.statistics.to_dict()}

    @classmethod
    def specific_fields(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        return {"statistics": StatisticsPlan.from_dict(stored["statistics"])}


def ridge_of(statistics: StatisticsPlan) -> float:
    """m = sqrt(E |b|^2) / radius, b the noise of the equations at coefficients of norm `radius`."""
    return math.sqrt(statistics.noise.gradient_variance(statistics.radius)) / statistics.radius


def sums_facts(statistics: StatisticsPlan) -> NoiseFacts:
    """The standard deviations of the noise in the released sums."""
    noise = statistics.noise
    variances = {
        "an entry of X'X": noise.entry_variance,
        "an entry of X'y": noise.response_variance,
        "y'y": noise.square_variance,
    }
    rows = tuple((name, (float(np.sqrt(value)),)) for name, value in variances.items())
    return NoiseFacts("Noise, rows within the unit ball of the design's metric", ("sd of noise",), rows)


def plan_least_squares(spec: FitSpec, eps: float, delta: float) -> LeastSquaresPlan:
    """Law, weights and scale of the noise of one linear model's sums, from public facts only.

    ArgumentError if the model, the penalty or an option does not go with sums.
    """
    design, penalty, options = spec.design, spec.penalty, spec.options
    _check_options(options)
    formula = _checked_design(design, spec.family)
    if penalty is not None and not penalty.convex:
        raise ArgumentError(f"penalty must be convex to be fitted from released statistics, got {penalty.name!r}")
    radius = RADIUS if options.radius is None else options.radius
    statistics = plan_statistics(
        formula,
        eps=eps,
        delta=delta,
        adjacency=spec.adjacency,
        radius=radius,
        law=LAWS.get(options.noise),
        residuals=spec.residuals,
    )
    size = len(design.names)
    curvature = ridge_of(statistics) * np.diag(statistics.law.metric)[:size]
    normal = statistics.noise.law == "normal"
    paid = eps - statistics.cover_eps
    row_length = math.sqrt(design.curvature_ratio(np.ones(size)))
    return LeastSquaresPlan(
        family=spec.family,
        eps=paid,
        delta=delta if normal else 0.0,
        adjacency=spec.adjacency,
        curvature=curvature,
        kappa=design.curvature_ratio(curvature),
        row_norm=row_length,
        row_length=row_length,
        rows_at_most=options.rows_at_most,
        noise=Noise("gaussian" if normal else "laplace", "l2", statistics.noise.scale),
        noise_shape=np.ones(size),
        classical_scale=statistics.noise.scale,
        planned_eps=paid,
        joint_need=paid,
        penalty=penalty,
        penalty_weights=spec.weights,
        threshold=np.zeros(size),
        linear=np.zeros(size),
        radius=statistics.radius,
        tolerance=0.0,
        final=LatticeRelease(statistics.cover_eps, 1.0, size),
        statistics=statistics,
    )


def whole_model(size: int) -> tuple[Matrix, Vector]:
    """T and t of the model of all p columns: what it takes of (x, y)."""
    axes = np.eye(size + 1)
    return axes[:, :-1], axes[:, -1]


def _check_options(options: Options) -> None:
    """Raise ArgumentError for an option that sums do not have."""
    check_output_options(replace(options, inference=None), "statistics")
    conflicts = {
        argument("inference", "robust"): options.inference == "robust",
        "information_share": options.information_share is not None,
        "spread_share": options.spread_share is not None,
        "curvature": options.curvature is not None,
        argument("response", "bought"): options.response == "bought",
    }
    refuse_options(conflicts, "statistics")


def _checked_design(design: Bounds, family: Family) -> DesignSpec:
    """The design of a formula; ArgumentError for a model that does not follow from sums of its rows."""
    this, other = argument("method", "statistics"), argument("method", "napp")
    if not isinstance(family, Gaussian):
        raise ArgumentError(f"{this} fits linear models, the family 'gaussian'; use {other}")
    if not isinstance(design, DesignSpec):
        raise ArgumentError(f"{this} needs a formula and a frame, not arrays; use {other}")
    if any(part is not None for part in (design.weights, design.offset, design.subset)):
        raise ArgumentError(f"weights, offset and subset cannot be combined with {this}; use {other}")
    if design.response.working is not None:
        raise ArgumentError(f"{this} bounds the response by its declared range; leave out the bought interval")
    if not design.has_intercept:
        raise ArgumentError(
            f"{this} needs an intercept: keep it, and fit a model without one from the statistics of the result"
        )
    return design

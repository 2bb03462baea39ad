"""Least squares from released statistics, as a method of a fit (docs/proofs/statistics)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError
from dpstats.families import Family, Gaussian
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import Bounds
from dpstats.mechanisms.objective import ObjectivePlan
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.output import check_output_options
from dpstats.mechanisms.release import MOST_COVERED, LatticeRelease
from dpstats.mechanisms.statistics import RADIUS, Moments, StatisticsPlan, plan_statistics
from dpstats.penalties import Penalty
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information import MatrixLaw
from dpstats.privacy.noise import Kind, Noise
from dpstats.privacy.randomness import RandomSource
from dpstats.quiet import quiet

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LAWS: dict[Kind | None, MatrixLaw] = {"laplace": "wishart", "gaussian": "normal"}
"""The law of the sums' noise that the option `noise` insists on."""


@dataclass(frozen=True, eq=False)
class LeastSquaresPlan(ObjectivePlan):
    """Everything about a linear model of released sums that is fixed before rows are read.

    What the tables of a plan show of noise and curvature is that of the normal equations: `noise_variances` are those
    of X'y - X'X theta for coefficients of the norm that `radius` says, and `curvature` is the ridge where the sums say
    nothing. `penalty` is whole; none of it is part of `curvature`.

    Attributes
    ----------
    statistics : StatisticsPlan
    """

    statistics: StatisticsPlan = field(kw_only=True)

    def check_last_step(self) -> None:
        """Nothing: coefficients follow from sums that have their noise, and no optimum is rounded."""

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
        """The law of the noise, in words."""
        return f"{self.statistics.noise.law} matrix"

    @property
    def bought_law(self) -> str:
        """What `eps` buys, in words."""
        return "X'X, X'y and y'y"

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return super().to_dict() | {"released": "statistics", "statistics": self.statistics.to_dict()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> LeastSquaresPlan:
        """The plan whose `to_dict` gave `stored`."""
        base = ObjectivePlan.from_dict(stored)
        values = {item.name: getattr(base, item.name) for item in fields(base)}
        return cls(**values, statistics=StatisticsPlan.from_dict(stored["statistics"]))


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """What a fit from released statistics leaves for inference, and for other models.

    Attributes
    ----------
    sums : ndarray, shape (p + 1, p + 1)
        X'X, X'y and y'y with their noise, in model units; the response is last.
    """

    sums: Matrix

    @property
    def columns(self) -> tuple[int, ...]:
        """Positions in the design of the columns fitted: all."""
        return tuple(range(len(self.sums) - 1))

    @property
    def matrix(self) -> Matrix:
        """The information with its noise, shape (p, p)."""
        return self.sums[:-1, :-1]

    def to_dict(self) -> dict[str, Any]:
        """Plain released values, for JSON."""
        return {"sums": self.sums.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ReleasedSums:
        """What `to_dict` gave `stored` of."""
        return cls(np.array(stored["sums"], dtype=np.float64))


def plan_least_squares(
    design: Bounds,
    family: Family,
    penalty: Penalty | None,
    penalty_weights: Vector,
    *,
    eps: float,
    delta: float,
    adjacency: Adjacency,
    options: Options,
) -> LeastSquaresPlan:
    """Law, weights and scale of the noise of one linear model's sums, from public facts only.

    Parameters
    ----------
    design : Bounds
        Of a formula, with an intercept, without weights and offset.
    family : Gaussian
        With every cap filled in; least squares of sums has none.
    penalty : Penalty, optional
        Convex.
    penalty_weights : ndarray, shape (p,)
    eps, delta : float
    adjacency : {"add_remove", "replace_one"}
    options : Options
        `noise` and `radius` count here.

    Raises
    ------
    ArgumentError
        If the model, the penalty or an option does not go with sums.
    """
    _check_options(options)
    formula = _checked_design(design, family)
    if penalty is not None and not penalty.convex:
        raise ArgumentError(f"penalty must be convex to be fitted from released statistics, got {penalty.name!r}")
    radius = RADIUS if options.radius is None else options.radius
    found = plan_statistics(
        formula, eps=eps, delta=delta, adjacency=adjacency, radius=radius, law=LAWS.get(options.noise)
    )
    size = len(design.names)
    ridge = math.sqrt(found.noise.gradient_variance(found.radius)) / found.radius
    curvature = ridge * np.diag(found.law.metric)[:size]
    normal = found.noise.law == "normal"
    paid = eps - found.cover_eps
    row_length = math.sqrt(design.curvature_ratio(np.ones(size)))
    return LeastSquaresPlan(
        family=family,
        eps=paid,
        delta=delta if normal else 0.0,
        adjacency=adjacency,
        curvature=curvature,
        kappa=design.curvature_ratio(curvature),
        row_norm=row_length,
        row_length=row_length,
        rows_at_most=options.rows_at_most,
        noise=Noise("gaussian" if normal else "laplace", "l2", found.noise.scale),
        noise_shape=np.ones(size),
        classical_scale=found.noise.scale,
        planned_eps=paid,
        joint_need=paid,
        penalty=penalty,
        penalty_weights=penalty_weights,
        threshold=np.zeros(size),
        linear=np.zeros(size),
        radius=found.radius,
        tolerance=0.0,
        final=LatticeRelease(found.cover_eps, 1.0, size),
        statistics=found,
    )


def release_least_squares(
    plan: LeastSquaresPlan, rows: Rows[Block], random: RandomSource
) -> tuple[Vector, ReleasedSums]:
    """Read the rows once charged, release their sums, and solve for coefficients in model units, shape (p,).

    Parameters
    ----------
    plan : LeastSquaresPlan
    rows : Rows of Block
    random : RandomSource
    """
    sums = plan.statistics.release(rows, random)
    with quiet():
        moments = Moments.of(plan.statistics, sums)
        params = moments.equations(*whole_model(plan.size)).solve(
            plan.statistics.radius, plan.penalty, plan.penalty_weights
        )
    return params, ReleasedSums(sums)


def whole_model(size: int) -> tuple[Matrix, Vector]:
    """T and t of the model of all p columns: what it takes of (x, y)."""
    axes = np.eye(size + 1)
    return axes[:, :-1], axes[:, -1]


def _check_options(options: Options) -> None:
    """Raise ArgumentError for an option that sums do not have."""
    check_output_options(replace(options, inference=None), "statistics")
    asked = {
        "inference='robust'": options.inference == "robust",
        "information_share": options.information_share is not None,
        "spread_share": options.spread_share is not None,
        "curvature": options.curvature is not None,
        "response='bought'": options.response == "bought",
    }
    for name, given in asked.items():
        if given:
            raise ArgumentError(f"{name} does not go with method='statistics'; leave it out, or take method='napp'")


def _checked_design(design: Bounds, family: Family) -> DesignSpec:
    """The design of a formula; ArgumentError for a model that does not follow from sums of its rows."""
    if not isinstance(family, Gaussian):
        raise ArgumentError("method='statistics' fits linear models, the family 'gaussian'; take method='napp'")
    if not isinstance(design, DesignSpec):
        raise ArgumentError("method='statistics' needs a formula and a frame, not arrays; take method='napp'")
    if any(part is not None for part in (design.weights, design.offset, design.subset)):
        raise ArgumentError("weights, offset and subset do not go with method='statistics'; take method='napp'")
    if not design.has_intercept:
        raise ArgumentError(
            "method='statistics' needs the intercept: leave it in, and fit a model without one from the result's "
            "statistics"
        )
    return design

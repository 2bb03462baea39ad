"""What a stage buys for inference: the information at the released coefficients (docs/proofs/information).

What it costs beside a fit is planned with the fit (`dpstats.mechanisms.objective`), for a record's losses in both are
functions of the same linear predictor. What follows from it is post-processing (`dpstats.inference`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.inference import KnownInformation, ModelSpread, RobustSpread, SpanNoise
from dpstats.mechanisms.design import Bounds, constant_column, constant_places
from dpstats.mechanisms.release import LatticeRelease
from dpstats.privacy.information import DesignMetric, MatrixNoise, design_metric, shaped_diagonal

Vector = NDArray[np.float64]
SpreadKind = Literal["known", "dispersion", "robust", "clustered"]

COVER = 0.0025
"""Share of a stage's eps that covers the floating point of the matrix noise: about 1 % of what the matrix would cost
alone."""

WEIGHTS_PART = 0.4
"""The part of the spread's budget that buys the sum of weights where there is no intercept."""

FARTHEST = 1e6
"""Coefficients of norm above this over the rows' length are released without their information; offsets count too."""


TAIL = 60.0
"""No coordinate of the final noise passes so many of its scales, but for a probability of exp(-59)."""


@dataclass(frozen=True)
class InformationPurchase:
    """What a stage is to spend on inference."""

    ratio: float  # 1 / s2, the inverse scale of the matrix noise, times the fit's noise scale over the row norm
    free: bool  # the fit's noise is to be no larger for it: the curvature makes room
    # The score's covariance: the information; times a bought dispersion; or bought from scores of rows, or persons.
    spread: SpreadKind
    cover_eps: float  # for floating point
    spread_eps: float  # for the sum of squared scores
    weights_eps: float  # for the sum of weights where no intercept has it
    # By what part of it the information may raise normal noise of the fit, where the caller said so.
    surcharge: float | None = None
    most: int = 1  # the most rows of weight 1 that a person has, each of which may cost what is said here
    weight_cap: float | None = None  # of the rows' weights in the matrix, beside any cap of the family's

    @property
    def extra_eps(self) -> float:
        """What is spent besides fit and matrix."""
        return self.cover_eps + self.spread_eps + self.weights_eps

    def suited(self, design: Bounds) -> InformationPurchase:
        """The same budget for a design: without a constant column the sum of weights is bought apart."""
        total = self.spread_eps + self.weights_eps
        weights = WEIGHTS_PART * total if self.spread == "dispersion" and constant_column(design) is None else 0.0
        return replace(self, spread_eps=total - weights, weights_eps=weights)


@dataclass(frozen=True)
class InformationPlan:
    """The release of the information, fixed before rows are read."""

    purchase: InformationPurchase
    noise: MatrixNoise
    weight_bound: float  # h
    eps: float  # what the matrix adds to the price of the fit
    # Bound on the difference of linear predictors at the released and at the exact optimum, as planned for.
    eta_error: float

    @property
    def cost(self) -> float:
        """eps of everything that inference adds to the fit."""
        return self.eps + self.purchase.extra_eps

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {**asdict(self), "noise": self.noise.to_dict()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> InformationPlan:
        """The plan whose `to_dict` gave `stored`."""
        purchase, noise = InformationPurchase(**stored["purchase"]), MatrixNoise.from_dict(stored["noise"])
        return cls(**{**stored, "purchase": purchase, "noise": noise})


@dataclass(frozen=True, eq=False)
class Information:
    """What was released for inference."""

    columns: tuple[int, ...]  # positions in the design of the k columns that the last stage fitted
    matrix: Vector  # the information with its noise, in model units, shape (k, k)
    spread: ModelSpread | RobustSpread

    def among(self, columns: Sequence[int]) -> Information:
        """The same, for a stage that was given the columns `columns` of a larger design."""
        return replace(self, columns=tuple(int(columns[column]) for column in self.columns))

    def to_dict(self) -> dict[str, Any]:
        """Plain released values, for JSON."""
        spread = self.spread
        if isinstance(spread, ModelSpread):
            facts: dict[str, Any] = {"phi": spread.phi, "deviation": spread.deviation}
        else:
            missing = np.isnan(spread.variances)
            facts = {
                "variances": [None if gone else value for gone, value in zip(missing, spread.variances, strict=True)],
                "deviations": np.asarray(spread.deviations).tolist(),
            }
            if spread.directions is not None:
                facts["directions"] = spread.directions.tolist()
        return {"columns": list(self.columns), "matrix": self.matrix.tolist(), "spread": facts}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Information:
        """What `to_dict` gave `stored` of."""
        facts = stored["spread"]
        spread: ModelSpread | RobustSpread
        if "phi" in facts:
            spread = ModelSpread(**facts)
        else:
            variances = np.array([np.nan if value is None else value for value in facts["variances"]])
            directions = np.array(facts["directions"]) if "directions" in facts else None
            spread = RobustSpread(variances, np.array(facts["deviations"]), directions)
        return cls(tuple(stored["columns"]), np.array(stored["matrix"], dtype=np.float64), spread)


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """What a fit from released statistics leaves for inference, and for other models."""

    sums: Vector  # X'X, X'y and y'y with their noise, in model units, the response last, shape (p + 1, p + 1)

    @property
    def columns(self) -> tuple[int, ...]:
        """Positions in the design of the columns fitted: all."""
        return tuple(range(len(self.sums) - 1))

    @property
    def matrix(self) -> Vector:
        """The information with its noise, shape (p, p)."""
        return self.sums[:-1, :-1]

    def to_dict(self) -> dict[str, Any]:
        """Plain released values, for JSON."""
        return {"sums": self.sums.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ReleasedSums:
        """What `to_dict` gave `stored` of."""
        return cls(np.array(stored["sums"], dtype=np.float64))


def eta_error(final: LatticeRelease, row_length: float, offset_bound: float = 0.0) -> float:
    """Bound on the difference of a row's linear predictors at the released and at the exact optimum.

    The root of l1 norm times largest entry bounds the length of the final noise; the l1 norm is that of a gamma
    variable, within its quantile of exp(-59), and of a step a coordinate (docs/proofs/information, 3).
    """
    size = final.size
    total = size + math.sqrt(2 * (TAIL - 1) * size) + TAIL - 1
    noise = final.scale * math.sqrt(total * TAIL) + 1.5 * math.sqrt(size) * final.step
    rounding = (size + 8) * 2.0**-52 * largest_predictor(offset_bound)
    return row_length * (final.distance + noise) + rounding


def largest_predictor(offset_bound: float) -> float:
    """The largest linear predictor, offset included, at which the information is released."""
    return max(FARTHEST, 2 * offset_bound)


def with_final_step(
    plan: InformationPlan, final: LatticeRelease, row_length: float, offset_bound: float = 0.0
) -> InformationPlan:
    """The plan for another last step of the fit: as much matrix noise as its larger error asks for.

    (h + r D') / s2' <= (h + r D) / s2 for every h >= 0 if s2' / s2 is D' / D or 1, whichever is more.
    """
    error = eta_error(final, row_length, offset_bound)
    if error <= plan.eta_error:
        return plan
    return replace(plan, noise=plan.noise.scaled(plan.noise.scale * error / plan.eta_error), eta_error=error)


def matrix_metric(design: Bounds) -> DesignMetric:
    """The public metric of the matrix noise: x'D^-1 x is at most 1 in every row."""
    if design.images:
        return design_metric(design.images, joined=design.joined)
    least = 1e-6 * max(term.l2 for term in design.terms)
    bounds = [max(term.l2, least) for term in design.terms]
    shape = np.array(shaped_diagonal(bounds, [term.columns.stop - term.columns.start for term in design.terms]))
    return DesignMetric(tuple((shape * max(1.0, design.curvature_ratio(shape))).tolist()), ())


def known_information(matrix: Vector, noise: MatrixNoise, design: Bounds) -> KnownInformation:
    """A released matrix with what the design knows of every such matrix."""
    law = SpanNoise(noise.metric, noise.entry_variance)
    return KnownInformation.of(matrix, law, design.forms(), design.dummies, constant_places(design))

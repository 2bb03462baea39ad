"""Objective perturbation: one noisy linear term, one strongly convex optimum (docs/proofs/objective)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.inference import ReleasedLaw, noise_bound
from dpstats.mechanisms.calibration import (
    PAID_ROOM,
    Calibration,
    NoiseBudget,
    NoiseCandidate,
    Price,
    least_curvature,
    noise_candidates,
    risk_curvature,
    typical_sizes,
)
from dpstats.mechanisms.design import Bounds
from dpstats.mechanisms.information import InformationPlan, eta_error
from dpstats.mechanisms.release import LastStep, LatticeRelease
from dpstats.mechanisms.stage import NoiseFacts, RiskTables, StagePlan, Table, scale_facts
from dpstats.penalties import Penalty, split_curvature
from dpstats.privacy.randomness import RandomSource
from dpstats.wording import argument

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ObjectivePlan(StagePlan):
    """The minimiser of losses + theta'M theta / 2 + P(theta) + b'theta, b the noise; `linear` is part of b."""

    def coefficients(self, rows: Rows[Block] | Iterable[tuple[Any, ...]], random: RandomSource) -> Vector:
        """The optimum after its last step, shape (p,)."""
        released = self.final.release(self.optimum(rows, self.sample(random)), random)
        return self.final.sparse(released) if self.penalty is not None and self.penalty.sparse else released

    def sample(self, random: RandomSource) -> Vector:
        """One draw of the objective's linear term, its public part included, shape (p,)."""
        return self.linear + super().sample(random)

    @property
    def gradient_size(self) -> float:
        """The noise in the objective's gradient, root mean square."""
        return float(np.sqrt(float(np.sum(self.noise_variances))))

    @property
    def final_share(self) -> float:
        """The final noise's standard deviation over that of the objective's noise."""
        return self.final_share_at(self.rows_at_most)

    def final_share_at(self, rows: float) -> float:
        """The same at so many rows or fewer."""
        share = replace(self.last_step, rows=rows).final_share(self.final.eps)
        return share * self.tolerance / self.gradient_size

    @property
    def final_norm(self) -> float:
        """The final noise's norm in the coefficients, root mean square, in model units."""
        return math.sqrt(2 * self.size) * self.final.scale

    def check_visible(self, rows: float) -> None:
        """Raise ArgumentError if a curvature of the caller's lets the last step's noise drown coefficients of any size.

        What floating point leaves open of an optimum that is hardly held grows with the inverse square of it.
        """
        drowned = self.final_norm / self.radius
        if drowned <= 1 or self.final_share_at(rows) <= 1:
            return
        least = float(np.min(self.curvature))
        raise ArgumentError(
            f"curvature leaves {least:.2g} for the flattest column, too little for floating point to locate the "
            f"optimum: the noise that hides the rounding error has a norm of {self.final_norm:.2g} and would "
            f"exceed coefficients of a norm of {self.radius:.2g}. Give {least * math.sqrt(drowned / CLEAR):.0e} or "
            "more, or leave curvature out"
        )

    def limit_note(self, rows: float) -> str | None:
        """What a small curvature costs, where the last step's noise is what is seen."""
        if self.final_share_at(rows) <= 1 or self.final_norm < SEEN * self.radius:
            return None
        return (
            "The noise of the last step hides the rounding error of the optimum. At a curvature of "
            f"{float(np.min(self.curvature)):.2g} it has a norm of {self.final_norm:.2g} in model units, more than "
            f"all other noise at {rows:,.0f} rows (rows_guess). More curvature reduces it."
        )

    @property
    def noise_facts(self) -> NoiseFacts:
        """Scale and curvature, beside the classical split's scale."""
        return scale_facts(self, "Noise in the objective")

    def risk(self, tables: RiskTables[Table]) -> Table:
        """That of noise in the objective."""
        return tables.of_objective()

    @cached_property
    def covariance(self) -> Matrix:
        """E b b', shape (p, p)."""
        return ReleasedLaw(self.noise, self.noise_shape).covariance

    def predicted_error(self, hessian: Matrix, coefficients: Vector) -> tuple[Matrix, Matrix]:
        """(H + M)^-1 b in the mean square, and what M pulls."""
        inverse = np.linalg.inv(hessian + np.diag(self.curvature))
        bias = inverse @ (self.curvature * coefficients)
        return inverse @ self.covariance @ inverse, np.outer(bias, bias)

    def noise_bounds(self, transform: Matrix) -> Vector:
        """Of the part that is linear in b, whatever the rows are (docs/proofs/inference, 10)."""
        return noise_bound(self.covariance, np.diag(self.curvature), transform)


CLEAR, SEEN = 1e-4, 1e-3
"""The last step's noise over the norm of typical coefficients: where a refusal sends the curvature, and from where on
it is seen."""

SURELY = 1e-6
"""Risk bounds that differ by less than this part are compared as they are computed."""

AHEAD = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)
"""Where the last step's own error raises the noise, it is planned anew for so many times the noise asked for,"""

HOPELESS = 1e9
"""unless that is so many times the fit's alone."""

NO_JACOBIAN = 1e-9
"""A curvature ratio at which the Jacobian costs nothing."""


def plan_objective(
    design: Bounds,
    family: Family,
    budget: NoiseBudget,
    penalty: Penalty | None = None,
    penalty_weights: Vector | None = None,
) -> ObjectivePlan:
    """Choose curvature and noise for one release, from public facts only, every cap of `family` filled in.

    Of the laws that the design and the budget allow it is the one with the least bound on the risk. The penalty is
    convex; curvature that it has everywhere counts towards M (docs/proofs/napp). Its weights (p,) are ones by default.
    """
    size = len(design.names)
    weights = np.ones(size) if penalty_weights is None else penalty_weights
    ridge, remainder = (0.0, None) if penalty is None else split_curvature(penalty)
    best_choice = _kept_choice if isinstance(design, DesignSpec) else _best_choice
    metric, default, _ = best_choice(design, family, budget)  # type: ignore[arg-type]
    penalised = ridge * weights
    total = np.maximum(penalised, default) if budget.curvature is None else penalised + budget.curvature
    row_length = float(np.sqrt(design.curvature_ratio(np.ones(size))))
    price, total, tolerance, final, information = _price_stage(
        Calibration(design, family, budget, metric), total, default=default, row_length=row_length, penalty=remainder
    )
    return ObjectivePlan(
        family=family,
        eps=price.eps,
        delta=metric.delta,
        adjacency=budget.adjacency,
        curvature=total,
        kappa=design.curvature_ratio(total),
        row_norm=metric.row_norm,
        row_length=row_length,
        rows_at_most=budget.rows_at_most,
        noise=metric.unit.scaled(price.scale),
        noise_shape=metric.shape,
        classical_scale=price.classical,
        planned_eps=price.planned,
        joint_need=price.need,
        penalty=remainder,
        penalty_weights=weights,
        threshold=np.zeros(size),
        linear=np.zeros(size),
        radius=float(np.linalg.norm(typical_sizes(family, design, budget.radius))),
        tolerance=tolerance,
        final=final,
        information=information,
        offset_bound=design.offset_bound,
    )


class _PricedStage(NamedTuple):
    """What a stage costs and releases, at the curvature that it settles for."""

    price: Price
    curvature: Vector
    tolerance: float
    final: LatticeRelease
    information: InformationPlan | None


def _price_stage(
    calibration: Calibration, curvature: Vector, *, default: Vector, row_length: float, penalty: Penalty | None
) -> _PricedStage:
    """Settle noise, curvature, the last step and, if there is room for it, the information.

    A ridge of the caller's beyond the `default` curvature keeps its strength.
    """
    family, budget, offset_bound = calibration.family, calibration.budget, calibration.design.offset_bound
    unit = float(np.sqrt(np.sum(calibration.law.variances)))

    def last_step(scale: float, curvature: Vector) -> LastStep:
        rows = budget.rows_at_most
        return LastStep(family, unit * scale, row_length, curvature, rows, penalty, offset_bound=offset_bound)

    def with_information(curvature: Vector, fit_price: Price) -> _PricedStage | None:
        """The error of the last step costs noise, and more noise asks for a coarser last step: until both agree."""
        scale = fit_price.scale
        for ahead in AHEAD:
            tolerance, final = last_step(scale, curvature).plan(budget.final_eps)
            final.check()
            error = eta_error(final, row_length, offset_bound)
            priced = calibration.price_information(curvature, fit_price, error)
            if priced is None:
                return None
            price, information = priced
            if price.scale > HOPELESS * fit_price.scale:
                break
            if last_step(price.scale, curvature).allows(tolerance):
                return _PricedStage(price, curvature, tolerance, final, information)
            scale = price.scale * ahead
        if budget.information is None or budget.information.free or budget.charged:
            return None
        raise ArgumentError(
            "inference costs too much together with a last step for so many rows: lower rows_at_most, raise "
            f"curvature or release_share, or pass {argument('inference', None)}"
        )

    bought, alone = budget.information, calibration
    if bought is not None:
        fit = replace(calibration, budget=replace(budget, information=None)) if bought.free else calibration
        fit_price, raised = fit.price(curvature), curvature
        if bought.free and budget.curvature is None:
            room = calibration.room(calibration.design.curvature_ratio(curvature))
            raised = np.maximum(curvature, default * room)
        stage = with_information(raised, fit_price)
        if stage is not None:
            return stage
        # What inference would cost is spent on the fit.
        whole = replace(budget, eps=budget.eps + bought.extra_eps, information=None)
        alone = replace(calibration, budget=whole)
    price = alone.price(curvature)
    return _PricedStage(price, curvature, *last_step(price.scale, curvature).plan(budget.final_eps), None)


class _Choice(NamedTuple):
    """A law with the curvature that suits it best, and the risk bound there."""

    metric: NoiseCandidate
    curvature: Vector
    risk: float


def _best_choice(design: Bounds, family: Family, budget: NoiseBudget) -> _Choice:
    """Of the laws that the budget permits that of the least risk bound."""
    sizes = typical_sizes(family, design, budget.radius)
    best: _Choice | None = None
    for candidate in noise_candidates(design, budget):
        choice = _choose(candidate, design, family, budget, sizes, math.inf if best is None else best.risk)
        best = choice if best is None or (choice is not None and choice.risk < best.risk) else best
    assert best is not None
    return best


_kept_choice = lru_cache(maxsize=32)(_best_choice)
"""For a formula, whose design is the same object in the plan, in the fit and in the next fit."""


def _choose(
    metric: NoiseCandidate, design: Bounds, family: Family, budget: NoiseBudget, sizes: Vector, least_risk: float
) -> _Choice | None:
    """The best default curvature for the noise of one law; None if its risk is certainly no less than `least_risk`.

    The bound is sum_j (E b_j^2 / m_j + m_j r_j^2) / 2 (docs/proofs/risk): m_j is in proportion to the column's noise
    over the typical size r_j of its coefficient. Columns of much noise are those of terms with few columns, whose
    coefficients are larger: r_j grows with the root of the noise's deviation (docs/defaults).
    """
    deviations = np.sqrt(metric.variances)
    sizes = sizes * np.sqrt(deviations / np.mean(deviations))
    direction = deviations / sizes
    direction = direction / np.sqrt(np.mean(direction**2))
    unit_ratio = design.curvature_ratio(direction)

    # Free information leaves the noise as it is, and beside normal noise it costs too little to calibrate it here.
    bought = budget.information
    fit_only = bought is None or bought.free or metric.kind == "gaussian"
    searched = Calibration(design, family, replace(budget, information=None) if fit_only else budget, metric)

    @cache
    def mean_square(curvature: float) -> float:
        kappa = max(unit_ratio / curvature, NO_JACOBIAN)
        scale = searched.scales(kappa).fit
        return float(np.sum(metric.variances / direction)) * scale**2

    size = float(np.sqrt(np.sum(direction * sizes**2)))
    # Without a Jacobian the bound is least: E / 2 m + m r^2 / 2 is never below the root of E r^2.
    if np.sqrt(mean_square(np.inf)) * size > least_risk * (1 + SURELY):
        return None
    least = least_curvature(family, unit_ratio, budget.eps, shared=budget.shared)
    curvature, risk = risk_curvature(size, mean_square, 2 * least)
    if bought is not None and not bought.free:
        # What is paid for is the interval: less noise, for the shrinkage will be undone.
        curvature *= PAID_ROOM
    return _Choice(metric, curvature * direction, risk)

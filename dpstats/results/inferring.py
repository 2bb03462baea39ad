"""From what was released to standard errors, in the user's units (docs/proofs/inference)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpstats.inference import Estimates, Inference, MappedLinear, ReleasedLaw, RobustSpread, noise_at_most
from dpstats.inference.known import self_adjoint
from dpstats.mechanisms.design import SubDesign
from dpstats.mechanisms.information import Information, known_information
from dpstats.mechanisms.objective import ObjectivePlan
from dpstats.mechanisms.output import OutputPlan
from dpstats.plan import Plan

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Inferred:
    """Errors of the k columns that were fitted last.

    Attributes
    ----------
    table : Inference
        Of the coefficients in the user's units.
    basis : ndarray, shape (k, k)
        T: coefficients in model units are center + T times those of ``table.estimates``.
    center : ndarray, shape (k,)
        Where the quadratic term of the fit had its minimum.
    """

    table: Inference
    basis: Vector
    center: Vector

    @property
    def nulls(self) -> Vector:
        """The coefficients of ``table.estimates`` at which those in model units are zero, shape (k,)."""
        return np.asarray(-np.linalg.solve(self.basis, self.center), dtype=np.float64)


def inference_of(plan: Plan, scaled_params: Vector, released: Information) -> Inferred:
    """Debiased coefficients of the columns that were fitted last, with their errors.

    Parameters
    ----------
    plan : Plan
        As it was carried out.
    scaled_params : ndarray, shape (p,)
        Released, in model units.
    released : Information
    """
    stage, columns = plan.stages[-1].plan, np.array(released.columns)
    assert stage.information is not None
    part = SubDesign(plan.design, columns)
    known = known_information(released.matrix, stage.information.noise, part)
    basis, (transform, shift) = known.basis, part.back_transform()
    rows, spread = transform @ basis, released.spread
    if isinstance(spread, RobustSpread):
        spread = replace(spread, directions=rows)
    center = shrunk_towards(stage)
    estimates = Estimates(
        coef=np.linalg.solve(basis, scaled_params[columns] - center),
        information=known.matrix,
        curvature=self_adjoint(basis.T @ np.diag(stage.curvature) @ basis),
        linear=MappedLinear(ReleasedLaw(stage.noise, stage.noise_shape), basis),
        matrix=known.law,
        spread=spread,
        typical_size=stage.radius / float(np.sqrt(stage.size)),
        found=known.identified,
    )
    return Inferred(Inference(estimates, rows, transform @ center + shift), basis, center)


def rare_references(plan: Plan, released: Information) -> list[str]:
    """Terms measured from a level that the budget does not identify."""
    stage, columns = plan.stages[-1].plan, np.array(released.columns)
    assert stage.information is not None
    part = SubDesign(plan.design, columns)
    known = known_information(released.matrix, stage.information.noise, part)
    turned = np.flatnonzero((np.diag(known.basis) < 0) & ~known.identified.active)
    return [term.name for term in part.terms if np.any((turned >= term.columns.start) & (turned < term.columns.stop))]


def shrunk_towards(stage: ObjectivePlan) -> Vector:
    """Where the quadratic term of a stage has its minimum, shape (k,): 0, or what was released before."""
    return np.asarray(-stage.linear / stage.curvature, dtype=np.float64)


def noise_bounds(plan: Plan, columns: NDArray[np.intp]) -> Vector:
    """A bound on the standard deviation that the noise gives each coefficient, in the user's units, shape (k,).

    Of output perturbation the standard deviation itself.

    Parameters
    ----------
    plan : Plan
        As it was carried out.
    columns : ndarray of int (k,)
        Positions in the design of the columns that were fitted last.
    """
    stage = plan.stages[-1].plan
    transform, _ = plan.design.back_transform()
    if isinstance(stage, OutputPlan):
        return np.asarray(np.sqrt(transform[np.ix_(columns, columns)] ** 2 @ stage.noise_variances))
    covariance = ReleasedLaw(stage.noise, stage.noise_shape).covariance
    return noise_at_most(covariance, np.diag(stage.curvature), transform[np.ix_(columns, columns)])

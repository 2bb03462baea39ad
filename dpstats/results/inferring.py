"""From what was released to standard errors, in the user's units (docs/proofs/inference)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.formula.dummies import restricted_dummies
from dpstats.inference import (
    Estimates,
    Inference,
    MappedLinear,
    MappedMatrix,
    ReleasedLaw,
    RobustSpread,
    noise_at_most,
    rebased,
)
from dpstats.mechanisms.information import Information, projected
from dpstats.mechanisms.objective import ObjectivePlan
from dpstats.plan import Plan

Vector = NDArray[np.float64]


def inference_of(plan: Plan, scaled_params: Vector, released: Information) -> Inference:
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
    matrix, law = projected(released.matrix, stage.information.noise, plan.design.forms(columns))
    robust = isinstance(released.spread, RobustSpread)
    # Robust variances were released for the coefficients as they are.
    basis = np.eye(len(columns)) if robust else rebased(matrix, restricted_dummies(plan.design.dummies, columns))
    transform, shift = plan.design.back_transform()
    transform = transform[np.ix_(columns, columns)]
    center = shrunk_towards(stage)
    estimates = Estimates(
        coef=np.linalg.solve(basis, scaled_params[columns] - center),
        information=_symmetric(basis.T @ matrix @ basis),
        curvature=_symmetric(basis.T @ np.diag(stage.curvature) @ basis),
        linear=MappedLinear(ReleasedLaw(stage.noise, stage.noise_shape), basis),
        matrix=MappedMatrix(law, basis),
        spread=released.spread,
        typical_size=stage.radius / float(np.sqrt(stage.size)),
    )
    return Inference(estimates, transform @ basis, transform @ center + shift[columns])


def _symmetric(matrix: Vector) -> Vector:
    return (matrix + matrix.T) / 2


def shrunk_towards(stage: ObjectivePlan) -> Vector:
    """Where the quadratic term of a stage has its minimum, shape (k,): 0, or what was released before."""
    return np.asarray(-stage.linear / stage.curvature, dtype=np.float64)


def noise_bounds(plan: Plan, columns: NDArray[np.intp]) -> Vector:
    """A bound on the standard deviation that the noise gives each coefficient, in the user's units, shape (k,).

    Parameters
    ----------
    plan : Plan
        As it was carried out.
    columns : ndarray of int (k,)
        Positions in the design of the columns that were fitted last.
    """
    stage = plan.stages[-1].plan
    transform, _ = plan.design.back_transform()
    covariance = ReleasedLaw(stage.noise, stage.noise_shape).covariance
    return noise_at_most(covariance, np.diag(stage.curvature), transform[np.ix_(columns, columns)])

"""Intervals of a linear model fitted to reports, from the known noise of their sum (docs/proofs/local, 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpstats.formula.design import DesignSpec
from dpstats.inference import Estimates, Inference, KnownInformation, ModelSpread, NormalLaw, SpanNoise
from dpstats.inference.basis import self_adjoint

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


NEGLIGIBLE = 1e-12
"""The residual variance of errors that are of the noise alone: beside it the sample's error is nothing."""


@dataclass(frozen=True, eq=False)
class ReportMoments:
    """What the reports say of sum q q' and sum p, and how far off it is."""

    matrix: Matrix  # (p, p)
    vector: Vector  # (p,)
    matrix_noise: float  # Variance of the noise in an entry off the diagonal; on it twice as much
    vector_noise: float  # Variance of the noise in an entry of `vector`
    count: int  # The number of reports

    def equation_noise(self, coef: Vector) -> Matrix:
        """Covariance of the noise E coef + e in the normal equations, shape (p, p)."""
        square = self.matrix_noise * float(coef @ coef) + self.vector_noise
        return np.asarray(square * np.eye(len(coef)) + self.matrix_noise * np.outer(coef, coef), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Plain released values, for JSON."""
        return {**vars(self), "matrix": self.matrix.tolist(), "vector": self.vector.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """What `to_dict` gave `stored` of."""
        return cls(**{**stored, "matrix": np.asarray(stored["matrix"]), "vector": np.asarray(stored["vector"])})


def least_squares_inference(
    moments: ReportMoments, design: DesignSpec, radius: float, residual_variance: float
) -> Inference:
    """Least squares of the sums without a ridge, with errors in the user's units.

    `residual_variance`, in model units, adds the sample's error; without it the noise is the only one.
    """
    law = SpanNoise(np.eye(len(moments.vector), dtype=np.float64), moments.matrix_noise)
    known = KnownInformation.of(moments.matrix, law, design.forms(), design.dummies)
    basis, found, size = known.basis, known.identified, len(moments.vector)
    coef, active = np.zeros(size), found.active
    coef[active] = found.inverse @ (basis.T @ moments.vector)[active]
    estimates = Estimates(
        coef=coef,
        information=known.matrix,
        curvature=np.zeros((size, size)),
        linear=NormalLaw(self_adjoint(basis.T @ moments.equation_noise(basis @ coef) @ basis)),
        matrix=known.law,
        spread=ModelSpread(max(residual_variance, NEGLIGIBLE), 0.0),
        typical_size=radius / np.sqrt(size),
        found=found,
    )
    transform, shift = design.back_transform()
    return Inference(estimates, transform @ basis, shift)

"""A released information matrix, after what is known of every such matrix, in the basis that suits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.inference.basis import Dummies, MappedMatrix, rebased
from dpstats.inference.identified import Identified, identify
from dpstats.inference.span import SpanNoise, project_forms

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KnownInformation:
    """The information of coefficients theta' with theta = T theta'.

    Attributes
    ----------
    basis : ndarray, shape (p, p)
        T: each factor is measured from its commonest level.
    matrix : ndarray, shape (p, p)
        T'HT, projected on what the design knows.
    law : MappedMatrix
        Of its noise.
    """

    basis: Float
    matrix: Float
    law: MappedMatrix

    @classmethod
    def of(cls, released: Float, noise: SpanNoise, forms: Float, factors: Sequence[Dummies]) -> KnownInformation:
        """From the released matrix, its noise, the forms that vanish in every row, and the factors of the design."""
        matrix, law = project_forms(released, noise, forms)
        basis = rebased(matrix, factors)
        return cls(basis, self_adjoint(basis.T @ matrix @ basis), MappedMatrix(law, basis))

    @cached_property
    def identified(self) -> Identified:
        """The coefficients theta' that the budget identifies."""
        return identify(self.matrix, self.law)

    @property
    def inverse(self) -> Float:
        """T G'T', shape (p, p): the inverse among what is identified, for coefficients theta."""
        active = np.flatnonzero(self.identified.active)
        columns = self.basis[:, active]
        return self_adjoint(columns @ self.identified.inverse @ columns.T)

    def inside(self, contrasts: Float) -> NDArray[np.bool_]:
        """Which combinations of theta, the rows of `contrasts`, are identified."""
        rows = contrasts @ self.basis
        active = self.identified.active
        return np.asarray(~np.any(rows[:, ~active] != 0, axis=1) & np.any(rows[:, active] != 0, axis=1))


def self_adjoint(matrix: Float) -> Float:
    """The symmetric part of a matrix that rounding alone keeps from being symmetric."""
    return (matrix + matrix.T) / 2

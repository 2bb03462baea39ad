"""What each row adds to the scores of screening: its loss' derivative at the null model (docs/proofs/screening)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.families import BinomialCounts, Family
from dpstats.families.base import padded
from dpstats.rows import Block

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class NullResidual:
    """The derivative of one row's loss at a public linear predictor, as a function of the response alone.

    It is `at_zero` for a response of 0 and `at_one` for one of 1 if responses are binary; else `at_zero` less the
    response. It lies within `bound`, to which it is clipped. With offsets it is the derivative at `eta` + offset.
    """

    binary: bool
    at_zero: float
    at_one: float
    bound: float
    family: Family | None = None
    eta: float = 0.0

    @classmethod
    def at(cls, family: Family, eta: float, *, offset: bool = False) -> NullResidual:
        """The residual of the null model with linear predictor `eta`, for rows with offsets or without."""
        point = np.array([eta])
        ends = np.array([0.0, 1.0])
        if offset:
            return cls(False, 0.0, 0.0, family.lipschitz, family, eta)
        if isinstance(family, BinomialCounts):
            chance = float(family.mean(point)[0])
            return cls(False, chance, chance - 1, max(chance, 1 - chance))
        if family.response == "binary":
            at_zero, at_one = (float(family.derivatives(point, end[None]).gradient[0]) for end in ends)
            return cls(True, at_zero, at_one, max(abs(at_zero), abs(at_one), np.finfo(float).tiny))
        mean = float(np.clip(family.mean(point)[0], -family.lipschitz, family.lipschitz))
        bound = family.lipschitz
        if family.response == "count":
            bound = max(mean, float(family.clip_response(np.array([np.inf]))[0]) - mean)
        return cls(False, mean, mean - 1, bound)

    def __call__(self, endog: NDArray[np.floating]) -> Vector:
        """The residuals over their bound, shape (rows,): each from its own response, whatever the others are."""
        response = endog.astype(np.float64)
        if self.binary:
            residual = np.where(response >= 0.5, self.at_one, self.at_zero)
        else:
            residual = np.clip(self.at_zero - response, -self.bound, self.bound)
        return np.asarray(residual / self.bound, dtype=np.float64)

    def of(self, block: Block) -> Vector:
        """The residuals of a block's rows, shape (rows,): weighted, and at their offsets."""
        if block.offset is None:
            residuals = self(block.endog)
        else:
            assert self.family is not None
            eta, endog = padded(self.eta + block.offset), padded(block.endog)
            slope = self.family.slope(eta, endog)[: len(block.endog)]
            residuals = np.clip(slope.astype(np.float64) / self.bound, -1.0, 1.0)
        return residuals if block.weights is None else residuals * block.weights

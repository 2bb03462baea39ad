"""Ordered levels: logits of being above each cut-point, with the same slopes (docs/proofs/ordinal)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.families.binomial import Binomial


@dataclass(frozen=True)
class CumulativeLogit(Binomial):
    """The binomial loss of K - 1 pieces of a row, which share its weight: whether its level is above each cut-point.

    `dpstats.models.ordinal` makes the pieces; responses are 0 and 1.
    """

    name: ClassVar[str] = "ordinal"
    signed: ClassVar[bool] = False
    response: ClassVar[Literal["continuous", "binary", "count", "class"]] = "class"

    @property
    def title(self) -> str:
        """The family as titles name it."""
        return "ordinal, proportional odds"

    @property
    def target(self) -> str:
        """What the coefficients speak of."""
        return "the odds of a higher level"

    @property
    def pieced(self) -> bool:
        """A row has pieces in K - 1 directions."""
        return True


def score_ratio(cut_points: NDArray[np.float64]) -> float:
    """The greatest ratio of the score's covariance to the information, in any direction, of these cut-points (K - 1,).

    Whether a level is above one and above another correlate by exp(-|difference| / 2), wherever the row is (theorem 2).
    """
    correlation = np.exp(-np.abs(np.subtract.outer(cut_points, cut_points)) / 2)
    return float(np.linalg.eigvalsh(correlation)[-1]) / len(cut_points)

"""What is fitted and how: the specification that every mechanism plans from, besides a share of the budget."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpstats.families import Family
from dpstats.mechanisms.calibration import NoiseBudget
from dpstats.mechanisms.design import Bounds, SubDesign
from dpstats.mechanisms.options import Options
from dpstats.penalties import Penalty
from dpstats.privacy.guarantee import Adjacency

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FitSpec:
    """Public facts of a fit."""

    design: Bounds
    family: Family  # every cap filled in
    penalty: Penalty | None
    weights: Vector  # the penalty's on each column, shape (p,)
    options: Options
    adjacency: Adjacency = "add_remove"

    def budget(self, eps: float, delta: float) -> NoiseBudget:
        """One stage's budget, a share of it for its final discrete noise."""
        options = self.options
        final_eps = options.release_share * eps
        return NoiseBudget(
            eps - final_eps,
            delta,
            final_eps,
            self.adjacency,
            options.retrieval if options.retrieval != "paper" else None,
            options.curvature,
            options.radius,
            options.noise,
            rows_at_most=options.rows_at_most,
            shared=options.record.shared,
        )

    def among(self, columns: NDArray[np.intp]) -> FitSpec:
        """Of the columns at these positions alone."""
        return replace(self, design=SubDesign(self.design, columns), weights=self.weights[columns])

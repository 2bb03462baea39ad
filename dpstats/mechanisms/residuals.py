"""The residual cap of a fit of chosen columns, by a rough fit and how far residuals about it reach.

docs/proofs/purchases. All of it is bought by the rows of the fit itself, between the choice and the fit.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError
from dpstats.families import Family, Gaussian
from dpstats.mechanisms.objective import plan_objective
from dpstats.mechanisms.spec import FitSpec
from dpstats.mechanisms.statistics import ResidualCentre
from dpstats.privacy.randomness import RandomSource
from dpstats.privacy.residuals import buy_residual_counts, class_edges, residual_tails

ERROR_OF_CAP = 3.0
"""The noise of a coefficient is about so many caps over rows times eps, times the root of the columns."""

ROUGH = 0.4
"""The first fit's cap is so much of the widest one: that of coefficients alone."""

REACH = 4.0
"""Residuals are told apart up to so many times the widest cap."""


def suited_family(spec: FitSpec, fit_eps: float, rows: Rows[Block], random: RandomSource) -> Family:
    """The family with the cap that is bought for it, if one is. Reads rows: charge first.

    `fit_eps` is what the fit itself may spend. The cap is never wider than the family has it.
    """
    purchase, family = spec.cap, spec.family
    if purchase is None or not isinstance(family, Gaussian):
        return family
    rough, size = replace(family, residual_cap=ROUGH * family.lipschitz), len(spec.weights)
    try:
        first = plan_objective(spec.design, rough, spec.pure_budget(purchase.first_eps))
    except ArgumentError:  # of the columns chosen, which are released
        return family
    reach = REACH * family.lipschitz
    about = ResidualCentre(tuple(first.coefficients(rows, random)), reach)
    values, eps = rows.map(partial(residuals_about, about)), purchase.tails_eps
    counts = buy_residual_counts(values, 1.0, eps=eps, adjacency=spec.adjacency, random=random)
    number = max(float(counts.sum()), 1.0)
    tails = residual_tails(
        counts,
        class_edges(1.0),
        deviation=math.sqrt(2) * (1 if spec.adjacency == "add_remove" else 2) / eps,
        rows=number,
        unit_error=ERROR_OF_CAP * math.sqrt(size) / (number * fit_eps),
    )
    cap = reach * tails.settled_cap(family.lipschitz / reach, expected=not purchase.one_tail)
    return replace(family, residual_cap=cap)


def residuals_about(about: ResidualCentre, block: Block) -> NDArray[np.float64]:
    """The residuals of some rows over the cap, each by itself."""
    exog, endog = block.doubles()[:2]
    return about.of(exog, endog)

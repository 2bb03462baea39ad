"""Sums over the two arms of a randomised treatment, which give its coefficient an interval (docs/proofs/focus)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian
from dpstats.families.base import pad_rows
from dpstats.inference import Dummies
from dpstats.mechanisms.design import PublicDesign, constant_column, find_variable
from dpstats.mechanisms.fit_statistics import Lattice, add_sums
from dpstats.mechanisms.information_release import linear_predictors, pieces_by_columns
from dpstats.mechanisms.spec import FitSpec
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information.scores import MOST_PARTS
from dpstats.privacy.randomness import RandomSource, noisy_integers

Vector = NDArray[np.float64]

SHARE = 0.15
"""Share of eps that buys the sums (docs/benchmarks_inference)."""

STEPS = 2**29
"""What a row has of either sum, at most, is so many steps."""

ARMS = 2


@dataclass(frozen=True)
class FocusPlan:
    """The purchase of sums over two arms, fixed before rows are read."""

    eps: float
    adjacency: Adjacency
    treatment: str

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return asdict(self)


def treated(design: PublicDesign, name: str) -> Dummies:
    """The dummy of a treatment of two levels that stands by itself; ArgumentError if there is none of this name."""
    factor = find_variable("focus", design, name).factor
    if factor is None or len(factor.columns) != ARMS - 1:
        raise ArgumentError(f"focus must name a factor of two levels: declare {name}=[0, 1], or its two levels of text")
    return factor


def focus_obstacle(spec: FitSpec) -> str | None:
    """Why there can be no focus in this model, with the fix."""
    options, family, design = spec.options, spec.family, spec.design
    if not isinstance(family, (Binomial, Gaussian)):
        return f"is for families 'binomial' and 'gaussian', not {family.name!r}; leave it out"
    if options.inference not in ("auto", None):
        return "replaces the standard errors of the whole table: leave out inference or focus"
    if spec.penalty is not None or options.stages != 1 or options.refit_share > 0 or options.screen is not None:
        return "is for a single fit: leave out penalty, stages, refit_share and screen, or focus"
    if options.unit is not None or design.score_ratio != 1.0 or design.offset_bound:
        return "is for rows of equal weight: leave out unit, weights, trials and offset, or focus"
    if constant_column(design) is None:
        return "needs a formula with an intercept"
    return None


@dataclass(frozen=True)
class ArmSums:
    """Sums of l'' and of l'^2 over the rows without the treatment and with it, with the noise of each sum."""

    weights: tuple[float, float]
    squares: tuple[float, float]
    weight_sd: float
    square_sd: float

    def to_dict(self) -> dict[str, Any]:
        """Plain released values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ArmSums:
        """What `to_dict` gave `stored` of."""
        return cls(tuple(stored["weights"]), tuple(stored["squares"]), stored["weight_sd"], stored["square_sd"])


def arm_lattices(family: Family) -> tuple[Lattice, Lattice]:
    """How l'' and l'^2 are summed: by their greatest values, in whole steps."""
    greatest = float(family.curvature_bound), float(family.lipschitz) ** 2
    weight, square = (Lattice(0.0, most, 0, STEPS, ARMS) for most in greatest)
    return weight, square


def release_arm_sums(
    plan: FocusPlan, design: PublicDesign, family: Family, params: Vector, rows: Rows[Block], random: RandomSource
) -> ArmSums:
    """The sums at released coefficients, with independent noise on a common lattice."""
    lattices, column = arm_lattices(family), treated(design, plan.treatment).columns[0]
    exact = rows.total_of_pieces(partial(exact_arm_sums, family, params, column), add_sums)
    sensitivity = sum(lattice.sensitivity(plan.adjacency) for lattice in lattices)
    held = np.array([min(total, MOST_PARTS) for total in exact], dtype=np.int64)
    noisy = [int(total) for total in noisy_integers(held, sensitivity, plan.eps, random)]
    unit, square_unit = (lattice.unit for lattice in lattices)
    deviation = math.sqrt(2) * sensitivity / plan.eps
    return ArmSums(
        (noisy[0] * unit, noisy[1] * unit),
        (noisy[2] * square_unit, noisy[3] * square_unit),
        deviation * unit,
        deviation * square_unit,
    )


def exact_arm_sums(family: Family, params: Vector, column: int, blocks: Iterable[Block]) -> list[int]:
    """What some rows add to the sums of l'' by arm, and then of l'^2: whole steps."""
    totals = [0] * (2 * ARMS)
    for block in pieces_by_columns(0, blocks):
        size = len(block.endog)
        eta, endog = pad_rows(linear_predictors(params, block)), pad_rows(block.endog)
        with np.errstate(all="ignore"):
            slope = np.asarray(family.slope(eta, endog), dtype=np.float64)
            values = np.asarray(family.weight(eta, endog), dtype=np.float64)[:size], (slope * slope)[:size]
        member = block.exog[:, column] != 0
        for place, (lattice, value) in enumerate(zip(arm_lattices(family), values, strict=True)):
            steps = lattice.whole(value)
            for arm in range(ARMS):
                totals[ARMS * place + arm] += int(steps[member == bool(arm)].sum())
    return totals

"""Least squares within groups: planned without rows, released once as sums (docs/proofs/absorbed)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.data import Table
from dpstats.errors import ArgumentError, FormulaError
from dpstats.formula.design import DesignSpec
from dpstats.inference import Inference, RobustSpread, SpanNoise, Spread
from dpstats.inference.basis import self_adjoint
from dpstats.mechanisms.design import SubDesign, has_errors
from dpstats.mechanisms.least_squares import whole_model
from dpstats.mechanisms.statistics import (
    Equations,
    Moments,
    NoisyCount,
    SpreadOf,
    check_size,
    dispersion,
    equations_inference,
)
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.guarantee import Adjacency, Guarantee
from dpstats.privacy.information import COVER_SHARE
from dpstats.privacy.information.exact_sums import PLACES
from dpstats.privacy.information.statistics import StatisticsNoise, noisy_statistics, statistics_noise
from dpstats.privacy.information.within import (
    LEVELS,
    MOST_PARTS,
    WithinLattice,
    WithinSums,
    noisy_scores,
    within_sums,
)
from dpstats.privacy.randomness import RandomSource, noisy_integers
from dpstats.quiet import quiet

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

PROOF = "docs/proofs/absorbed"

COUNT_SHARE = 0.02
"""Of eps: the number of rows less that of groups, or of groups of two rows or more."""

SPREAD_SHARE = 0.2
"""Of eps: the squared scores of whole groups."""

TIMES_MEAN = 8.0
"""The squared score of a group counts up to so many times what it is on average if its rows move as one."""

ROUNDED = 2.0**-38
"""More than a group's rounding may add to a sum's norm over its sensitivity, times (p + 1)^1.5, for two groups."""


class ReleasedWithin(NamedTuple):
    """What is released of the rows."""

    sums: Matrix  # (p + 1, p + 1), of differences in model units, with noise
    counted: float  # rows less groups; with whole groups those of two rows or more
    spread: Vector | None = None  # with whole groups: variances of the coefficients in model units, NaN where unknown
    deviations: Vector | None = None  # of their noise


@dataclass(frozen=True, eq=False)
class WithinPlan:
    """One release of the sums within groups, fixed before rows are read.

    Where groups are the records (`guarantee.unit`) each is weighed as a whole: by one over its rows.
    """

    design: DesignSpec  # with its intercept, of which within groups nothing is left
    absorbed: str  # the column whose values tell groups apart
    noise: StatisticsNoise  # in the coordinates of `lattice`
    radius: float
    cover_eps: float  # for floating point
    count_eps: float
    spread_eps: float  # 0 where rows are the records
    guarantee: Guarantee
    counted_eps: float = 0.0  # of the guarantee's eps: for counts of the rows, before all else

    @property
    def whole(self) -> bool:
        """Whether a group is the record."""
        return self.guarantee.unit is not None

    @cached_property
    def part(self) -> SubDesign:
        """The columns but the intercept."""
        at = self.design.names.index("Intercept")
        return SubDesign(self.design, np.delete(np.arange(len(self.design.names)), at))

    @cached_property
    def _geometry(self) -> tuple[WithinLattice, Matrix]:
        return lattice_of(self.design, whole=self.whole)

    @property
    def lattice(self) -> WithinLattice:
        """The integers that stand for rows."""
        return self._geometry[0]

    @property
    def axes(self) -> Matrix:
        """K with (x, y) = K (z, y) for differences, shape (p + 1, p + 1)."""
        return self._geometry[1]

    @property
    def law(self) -> SpanNoise:
        """The noise of the sums in model units; that of y'y as if its weight were a^2 / 2."""
        axes = self.axes.copy()
        axes[-1, -1] *= math.sqrt(2) / self.noise.response
        return SpanNoise(self_adjoint(axes @ axes.T), self.noise.entry_variance)

    @property
    def square_excess(self) -> float:
        """The variance of y'y less what `law` says it is."""
        excess = self.noise.square_variance - 8 * self.noise.entry_variance / self.noise.response**4
        return float(excess * self.axes[-1, -1] ** 4)

    @property
    def records(self) -> int:
        """How many records neighbours differ in."""
        return 2 if self.guarantee.adjacency == "replace_one" else 1

    @property
    def budget(self) -> tuple[tuple[str, float, float, str], ...]:
        """What each purchase costs and buys."""
        rest = self.guarantee.eps - self.counted_eps - self.cover_eps - self.count_eps - self.spread_eps
        lines = [
            ("row counts", self.counted_eps, 0.0, "groups, at fault" if self.whole else "rows, rows at fault"),
            ("statistics", rest, self.guarantee.delta, f"{self.noise.law} noise"),
            ("count", self.count_eps, 0.0, "groups" if self.whole else "rows less groups"),
            ("spread", self.spread_eps, 0.0, "squared scores of groups"),
            ("cover", self.cover_eps, 0.0, "floating point"),
        ]
        return tuple(line for line in lines if line[1] > 0)

    def release(self, table: Table, random: RandomSource) -> ReleasedWithin:
        """The sums with their noise, the count, and with whole groups their scores. Reads rows: charge first.

        One pass; where rows are in several places those of a group are brought together first.
        """
        rows = self.design.owned(table, self.absorbed).by_person()
        scatter = rows.total(partial(within_sums, self.lattice), WithinSums.plus)
        noisy = noisy_statistics(scatter.total, self.noise, cover_eps=self.cover_eps, random=random)
        sums = self_adjoint(self.axes @ noisy @ self.axes.T)
        exact = scatter.groups if self.whole else scatter.spare
        # To replace a record changes either count by one at most, too.
        counted = noisy_integers(np.array([min(exact, MOST_PARTS)], dtype=np.int64), 1, self.count_eps, random)
        released = ReleasedWithin(sums, float(counted[0]))
        if not self.whole:
            return released
        with quiet():
            direction = self.directions(released)
        if direction is None:
            return released
        contrasts, sizes, residual, bound = direction
        cells = contrasts @ self.axes[:-1, :-1] / np.sqrt(sizes[:, None])
        options = {"eps": self.spread_eps, "records": self.records, "random": random}
        scores = noisy_scores(scatter.matrices, cells, self.axes.T @ residual, bound, **options)  # type: ignore[arg-type]
        deviation = math.sqrt(2) * self.records * bound / self.spread_eps
        spread, deviations = np.full((2, len(self.part.names)), np.nan)
        active = np.flatnonzero(self.fitted(released).estimates.identified.active)
        spread[active], deviations[active] = scores * sizes, deviation * sizes
        return released._replace(spread=spread, deviations=deviations)

    def equations(self, released: ReleasedWithin) -> Equations:
        """The released normal equations and the law of their noise; nothing is known of them beforehand."""
        return Moments(released.sums, self.law).equations(*whole_model(len(self.part.names)))

    def counted(self, released: ReleasedWithin) -> NoisyCount:
        """What was counted, at least as much as its noise."""
        deviation = math.sqrt(2) / self.count_eps
        return NoisyCount(max(released.counted, deviation), deviation)

    def fitted(self, released: ReleasedWithin) -> Inference:
        """Coefficients without ridge in the user's units, with errors: by the model for rows, by scores for groups."""
        equations = self.equations(released)
        spread: SpreadOf = partial(dispersion, self.square_excess, equations, self.counted(released))
        if self.whole:
            spread = partial(_spread_of_groups, released)
        return equations_inference(equations, self.radius, self.part.back_transform(), spread)

    def directions(self, released: ReleasedWithin) -> tuple[Matrix, Vector, Vector, float] | None:
        """Of the k active coefficients: g_j = G e_j (k, p), G_jj (k,), u = (-theta, 1), the bound of squared scores.

        None where nothing is identified. Public: functions of what was released.
        """
        estimates = self.fitted(released).estimates
        identified = estimates.identified
        if not identified.active.any():
            return None
        residual = np.append(-estimates.coef, 1.0)
        law = self.law
        noise = math.sqrt(float(law.bilinear(residual[None], residual[None])[0]))
        left = max(float(residual @ released.sums @ residual), noise)
        # Where a group's rows move as one, sum_j (g_j'R u)^2 / G_jj is u'R u times sum_j g_j'R g_j / G_jj: k over the
        # number of groups, on average.
        mean = left * int(identified.active.sum()) / self.counted(released).count ** 2
        return identified.directions, np.diag(identified.inverse).copy(), residual, TIMES_MEAN * mean

    def digest(self) -> str:
        """A hash of all that was decided, for the ledger."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {
            "design": self.design.to_dict(),
            "absorbed": self.absorbed,
            "noise": self.noise.to_dict(),
            **{name: getattr(self, name) for name in ("radius", "cover_eps", "count_eps", "spread_eps")},
            "guarantee": self.guarantee.to_dict(),
            **({"counted_eps": self.counted_eps} if self.counted_eps else {}),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> WithinPlan:
        """The plan whose `to_dict` gave `stored`."""
        made = {
            "design": DesignSpec.from_dict(stored["design"]),
            "noise": StatisticsNoise.from_dict(stored["noise"]),
            "guarantee": Guarantee(**stored["guarantee"]),
        }
        return cls(**{**stored, **made})


def _spread_of_groups(released: ReleasedWithin, *_: Any) -> Spread:
    """The released variances; before they are released, of no use: the coefficients need none."""
    if released.spread is None or released.deviations is None:
        size = len(released.sums) - 1
        return RobustSpread(np.ones(size), np.zeros(size))
    return RobustSpread(released.spread, released.deviations)


def plan_within(
    design: DesignSpec,
    absorbed: str,
    *,
    eps: float,
    delta: float = 0.0,
    adjacency: Adjacency = "add_remove",
    radius: float = 1.0,
    whole: bool = False,
) -> WithinPlan:
    """Law, weights and scale of the noise from public facts; ArgumentError or FormulaError if they do not suit.

    `whole`: the groups are the records.
    """
    check_size("eps", eps)
    radius = check_size("radius", radius)
    if not design.has_intercept:
        raise FormulaError("formula: the absorbed effects take the intercept's place; leave out - 1 and + 0")
    if not has_errors(design):
        raise ArgumentError(
            "the units of the columns and the response differ by a factor of 1e70 or more, so errors would have "
            "no variances: rescale them"
        )
    size = len(design.names) - 1
    cover, count, spread = COVER_SHARE * eps, COUNT_SHARE * eps, SPREAD_SHARE * eps if whole else 0.0
    left = eps - cover - count - spread
    noise = statistics_noise(size, eps=left, delta=delta, radius=radius, adjacency=adjacency)
    # A group's matrix is rounded to whole numbers before the noise: by so much its change may be more than exact.
    noise = replace(noise, scale=noise.scale * (1 + ROUNDED * (size + 1) ** 1.5))
    normal = noise.law == "normal"
    rho = (analytic_mu(left, delta) ** 2 + cover**2 + count**2 + spread**2) / 2 if normal else None
    guarantee = Guarantee(eps, delta if normal else 0.0, adjacency, basis=PROOF, rho=rho)
    guarantee = replace(guarantee, unit=absorbed if whole else None)
    return WithinPlan(design, absorbed, noise, radius, cover, count, spread, guarantee)


def lattice_of(design: DesignSpec, *, whole: bool) -> tuple[WithinLattice, Matrix]:
    """The lattice of a design's rows, and the axes K that lead from its coordinates to model units (p + 1, p + 1)."""
    at, packing = design.names.index("Intercept"), design.packing
    low, high = ((end - design.center) / design.scale for end in (design.lower, design.upper))
    kept = np.flatnonzero(packing.numbers != at)
    columns = packing.numbers[kept]
    halves = (high - low)[columns] / 2
    halves = np.where(halves > 0, halves, 1.0)
    blocks, tables, roots = [], [], []
    for coded in packing.varying:
        values = coded.values.T - coded.values.mean(axis=1)
        root = np.linalg.cholesky(values.T @ values / len(values))
        blocks.append(np.arange(coded.columns.start, coded.columns.stop))
        tables.append(np.linalg.solve(root, values.T).T)
        roots.append(root)
    ends = [
        (end - design.response.center) / design.response.scale for end in (design.response.low, design.response.high)
    ]
    response = ((ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2)
    middles = (low + high)[columns] / 2
    lattice = WithinLattice(kept, middles, halves, tuple(tables), response, whole)
    body, size = lattice.bounded, len(design.names)
    axes = np.zeros((size + 1, lattice.size))
    for place, (column, half, cap) in enumerate(zip(columns, halves, body.caps, strict=True)):
        axes[column, place] = half * 2.0**PLACES / cap
    start = len(columns)
    for block, root in zip(blocks, roots, strict=True):
        axes[block, start : start + len(block)] = root / (body.unit * math.sqrt(LEVELS))
        start += len(block)
    axes[-1, -1] = response[1] * 2.0**PLACES / body.response
    return lattice, np.delete(axes, at, axis=0)

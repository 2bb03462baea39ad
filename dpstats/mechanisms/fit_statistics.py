"""Fit statistics: the number of rows and averages over them at the debiased coefficients, in one release
(docs/proofs/fit_statistics)."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows
from dpstats.families import Binomial, Family, Gaussian, NegativeBinomial
from dpstats.families.base import pad_rows
from dpstats.inference import Dummies
from dpstats.mechanisms.design import constant_column
from dpstats.mechanisms.information_release import linear_predictors, pieces_by_columns
from dpstats.mechanisms.spec import FitSpec
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information.scores import MOST_PARTS
from dpstats.privacy.randomness import RandomSource, noisy_integers

Vector = NDArray[np.float64]

SHARE = 0.05
"""Share of eps that buys fit statistics unless another is asked for."""

LEAST_EPS = 1e-6
"""Below it the noise would leave the range of 64-bit integers."""

PARTS = 2**30
"""What one row moves the sums by at most, all of them together, is about so many steps."""

LEVELS_PART = 0.25
"""The part of the budget that buys changes of factor levels, where the formula has any."""

NULL_PART = 0.1
"""The part that buys the mean of two classes, at least: what is explained is measured from it."""

LARGE_PART = 1 / 3
"""The part of the budget that a sum has by which it is settled where to clip it."""

COUNT_LEVELS_PART = 0.12
"""The same for counts, of which a factor needs its reference level alone."""

COUNT_SLOPE = 8.0
"""What the square of an error of the average slope of counts is worth beside the others': slopes have long tails."""

HIDDEN = 0.1
"""What is clipped may move a sum by so much of its noise, by the model."""

LEAST_REACH = 2.0
"""Values are clipped no nearer to their middle than so many of their standard deviations."""

LEAST_EXPLAINED = 0.25
"""The budget is divided as if the model explained at least so much, and left so much."""

EDGE = 1e-9
"""Means of the null model are at least so far from the ends of what a response can be."""


@dataclass(frozen=True)
class FitStatisticsPlan:
    """The purchase of fit statistics, fixed before rows are read."""

    eps: float
    adjacency: Adjacency
    # The number of rows and its standard deviation, where it was released before; None buys it here.
    counted: tuple[float, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> FitStatisticsPlan:
        """The plan whose `to_dict` gave `stored`."""
        counted = stored.get("counted")
        return cls(stored["eps"], stored["adjacency"], None if counted is None else tuple(counted))


def fit_statistics_obstacle(spec: FitSpec) -> str | None:
    """Why there can be no fit statistics beside this model, with the fix; whether it has errors is another question."""
    options, family, design = spec.options, spec.family, spec.design
    if options.unit is not None:
        return "is for averages over rows, and the rows of a unit share a weight; leave it out with a unit"
    if design.score_ratio != 1.0:
        return "is for averages over rows that count alike; leave it out with weights or numbers of trials"
    if design.offset_bound:
        return "compares with a constant mean, which a model with an offset has not; leave it out"
    if family.response == "binary" and not isinstance(family, Binomial):
        return f"needs a mean response, which family {family.name!r} does not model; leave it out"
    if constant_column(design) is None:
        return "compares with the intercept alone: give a formula with an intercept, or leave it out"
    if options.screen is not None or options.refit_share > 0:
        return "is not offered after a choice of columns by the same rows; leave it out"
    return None


class Quantity(NamedTuple):
    """What is averaged over rows."""

    kind: str  # "null", "deviance", "gain", "slope", or of a factor "reference" or "level"
    column: int = -1  # of a factor's the column: that of the level, or the first one for the reference


@dataclass(frozen=True, eq=False)
class RowFunctions:
    """The functions of a row that are averaged: of that row alone and of released and public values."""

    family: Family
    params: Vector  # debiased coefficients in model units, shape (p,)
    null: float  # the mean response that the model is compared with
    factors: tuple[Dummies, ...] = ()  # whose levels' effects are averaged
    slope_is_known: bool = False  # the information's weights are the slopes: their sum was released

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """What `values` has a row for.

        The deviance and what the model takes off that of the null model; of two classes the latter itself, which is a
        count. The information has the sum of slopes where that is its weight (docs/proofs/fit_statistics, 4), and under
        a logarithm a level multiplies the mean.
        """
        binary = isinstance(self.family, Binomial)
        found = [Quantity("null" if binary else "deviance"), Quantity("gain")]
        if self.family.link == "identity":
            return tuple(found)
        if not self.slope_is_known:
            found.append(Quantity("slope"))
        for factor in self.factors:
            found.append(Quantity("reference", factor.columns[0]))
            found += [Quantity("level", column) for column in factor.columns if binary]
        return tuple(found)

    def values(self, columns: Vector, eta: Vector, endog: Vector) -> Vector:
        """Every quantity of rows in model units, shape (k, rows), from columns (p, rows), predictors and responses.

        Elementwise: arrays of whole vectors (`pad_rows`) leave no trace of one row in another.
        """
        null, gain = self.deviances(eta, endog)
        binary = isinstance(self.family, Binomial)
        found = [null if binary else null - gain, gain]
        if self.family.link == "identity":
            return np.array(found)
        if not self.slope_is_known:
            found.append(self.slope(eta))
        for factor in self.factors:
            apart = np.array(eta)
            for column in factor.columns:
                apart -= columns[column] * self.params[column]
            reference = self.mean(apart)
            found.append(reference)
            for column, code in zip(factor.columns, factor.codes, strict=True):
                if binary:
                    found.append(self.mean(apart + code * self.params[column]) - reference)
        return np.array(found)

    def mean(self, eta: Vector) -> Vector:
        """The mean response, clipped as responses are."""
        means = np.asarray(self.family.mean(eta), dtype=np.float64)
        return np.asarray(self.family.clip_response(means) if self.family.link == "log" else means)

    def slope(self, eta: Vector) -> Vector:
        """The derivative of the mean response."""
        if isinstance(self.family, NegativeBinomial):
            return self.mean(eta)
        return np.asarray(self.family.weight(eta, np.zeros_like(eta)), dtype=np.float64)

    def deviances(self, eta: Vector, endog: Vector) -> tuple[Vector, Vector]:
        """A row's deviance in the null model, and what the model takes off it."""
        null, family = self.null, self.family
        if isinstance(family, Gaussian):
            apart = (endog - null) ** 2
            return apart, apart - (endog - eta) ** 2
        if isinstance(family, Binomial):
            apart = np.where(endog > 0.5, -2 * math.log(null), -2 * math.log1p(-null))
            return apart, apart - 2 * np.asarray(family.derivatives(eta, endog).value)
        means = np.maximum(np.asarray(family.mean(eta), dtype=np.float64), 1e-300)
        observed = endog * np.log(np.maximum(endog, 1e-300) / null)
        gained = endog * np.log(means / null)
        if isinstance(family, NegativeBinomial):
            count = family.failures
            return (
                2 * (observed - (endog + count) * np.log((endog + count) / (null + count))),
                2 * (gained - (endog + count) * np.log((means + count) / (null + count))),
            )
        return 2 * (observed - (endog - null)), 2 * (gained - (means - null))

    def null_distance(self, mean: float) -> float:
        """What the null deviance of a row is too large by, on average, if the mean response is `mean`."""
        null, family = self.null, self.family
        if isinstance(family, Gaussian):
            return (mean - null) ** 2
        if isinstance(family, Binomial):
            return 2 * (mean * math.log(mean / null) + (1 - mean) * math.log((1 - mean) / (1 - null)))
        if isinstance(family, NegativeBinomial):
            count = family.failures
            return 2 * (mean * math.log(mean / null) - (mean + count) * math.log((mean + count) / (null + count)))
        return 2 * (mean * math.log(mean / null) - (mean - null))

    def ends(self, quantity: Quantity) -> tuple[float, float]:
        """Between which values a quantity lies, whatever the row."""
        if quantity.kind == "gain":
            return -math.inf, math.inf
        if not isinstance(self.family, Binomial):
            return 0.0, math.inf
        if quantity.kind == "null":
            low, high = sorted((-2 * math.log(self.null), -2 * math.log1p(-self.null)))
            return low, max(high, low + EDGE)
        if quantity.kind == "level":
            reach = math.tanh(self.effect(quantity.column) / 4)
            return min(reach, 0.0), max(reach, 0.0)
        return 0.0, 0.25 if quantity.kind == "slope" else 1.0

    def effect(self, column: int) -> float:
        """What a level adds to the linear predictor."""
        for factor in self.factors:
            if column in factor.columns:
                return float(self.params[column]) * factor.codes[factor.columns.index(column)]
        raise KeyError(column)


class MadeUpRows(NamedTuple):
    """Rows made up from what was released, which stand for the private ones wherever only errors depend on them."""

    exog: Vector  # in model units, shape (m, p)
    endog: Vector  # shape (m,)
    shares: Vector  # of the private rows that each stands for, shape (m,); they sum to 1
    number: float  # about how many private rows there are


class Lattice(NamedTuple):
    """How one quantity is summed: clipped to (low, high), in whole steps counted from its middle."""

    low: float
    high: float
    middle: int  # in steps from `low`
    steps: int  # from `low` to `high`

    @property
    def unit(self) -> float:
        """The size of a step."""
        return (self.high - self.low) / self.steps

    @property
    def center(self) -> float:
        """What a value counts from."""
        return self.low + self.middle * self.unit

    def whole(self, values: Vector) -> NDArray[np.int64]:
        """Values in steps from the middle, which is also what stands for one that is no number."""
        inside = np.clip(values, self.low, self.high)
        steps = np.rint((inside - self.low) / (self.high - self.low) * self.steps)
        return (np.nan_to_num(steps, nan=float(self.middle)) - self.middle).astype(np.int64)

    def sensitivity(self, adjacency: Adjacency) -> int:
        """By how many steps one row, or one in place of another or of none, moves the sum at most."""
        return self.steps if adjacency == "replace_one" else max(self.middle, self.steps - self.middle)


COUNT = Lattice(0.0, 1.0, 0, 1)
"""The number of rows, before it is given its part of the steps: every row has the value 1."""


def choose_lattices(
    plan: FitStatisticsPlan, functions: RowFunctions, made_up: MadeUpRows
) -> tuple[Lattice | None, list[Lattice]]:
    """How rows are counted, unless they were before, and how each quantity is summed: by released values alone.

    The budget is divided so that the noise in the number of rows, over that number, in the explained share of the
    deviance and in the average slope, over that, has the least mean square (docs/proofs/fit_statistics, 3).
    """
    quantities = functions.quantities
    eta = made_up.exog @ functions.params
    with np.errstate(all="ignore"):
        values = np.nan_to_num(functions.values(made_up.exog.T, eta, made_up.endog), posinf=0.0, neginf=0.0)
    each = LARGE_PART * plan.eps
    spans = [
        _span(value, made_up, functions.ends(quantity), each, whole=quantity.kind == "null")
        for quantity, value in zip(quantities, values, strict=True)
    ]
    means = values @ made_up.shares
    # Where the information has the sum of slopes, its average is as well known as the number of rows.
    counts = functions.family.link == "log"
    shown = 2.0 if functions.slope_is_known else 1.0
    weights = [0.0 if plan.counted is not None else shown]
    for quantity, (low, high, middle) in zip(quantities, spans, strict=True):
        reach = high - low if plan.adjacency == "replace_one" else max(high - middle, middle - low)
        worth = COUNT_SLOPE if counts and quantity.kind == "slope" else 1.0
        weights.append(worth * _importance(quantity, means, quantities) * reach**2)
    parts = np.cbrt(np.array(weights))
    levels = np.array([False] + [quantity.column >= 0 for quantity in quantities])
    if levels.any():  # each level's effect is in proportion to its bound: equal parts, equal relative errors
        part = COUNT_LEVELS_PART if counts else LEVELS_PART
        parts[levels] = part / levels.sum()
        parts[~levels] *= (1 - part) / parts[~levels].sum()
    parts = parts / parts.sum()
    if "null" in (kinds := [quantity.kind for quantity in quantities]):
        place = kinds.index("null") + 1
        parts[place] = max(parts[place], NULL_PART)
        parts = parts / parts.sum()
    lattices = [_lattice(span, part, plan.adjacency) for span, part in zip(spans, parts[1:], strict=True)]
    count = None if plan.counted is not None else COUNT._replace(steps=max(1, math.floor(parts[0] * PARTS)))
    return count, lattices


def _span(
    values: Vector, made_up: MadeUpRows, ends: tuple[float, float], eps: float, *, whole: bool
) -> tuple[float, float, float]:
    """Low, high and middle of what a quantity is clipped to.

    The nearest ends at which what is clipped moves the sum by no more than `HIDDEN` of the noise that they ask for.
    """
    middle = min(max(float(values @ made_up.shares), ends[0]), ends[1])
    if whole:
        return *ends, middle
    apart = np.abs(values - middle)
    spread = math.sqrt(float(apart**2 @ made_up.shares))
    least = max(LEAST_REACH * spread, EDGE + 0.05 * abs(middle))
    noise = HIDDEN * math.sqrt(2) / (eps * made_up.number)
    low, high = least, max(least, float(apart.max()))
    for _ in range(60):
        reach = (low + high) / 2
        beyond = float(np.maximum(apart - reach, 0.0) @ made_up.shares)
        low, high = (reach, high) if beyond > noise * reach else (low, reach)
    start = max(middle - high, ends[0])
    return start, max(min(middle + high, ends[1]), start + EDGE), middle


def _importance(quantity: Quantity, means: Vector, quantities: Sequence[Quantity]) -> float:
    """What a squared error of a quantity's mean is worth: an error of a hundredth counts alike in all that is shown."""
    own = dict(zip((one.kind for one in quantities), means.tolist(), strict=False))
    whole = max(own["null"] if "null" in own else own["deviance"] + own["gain"], 1e-12)
    explained = min(max(own["gain"] / whole, LEAST_EXPLAINED), 1 - LEAST_EXPLAINED)
    if quantity.kind == "slope":
        return 1 / max(own["slope"], 1e-12) ** 2
    gain = 1.0 if "null" in own else (1 - explained) ** 2
    return {"gain": gain, "null": explained**2, "deviance": explained**2}.get(quantity.kind, 0.0) / whole**2


def _lattice(span: tuple[float, float, float], part: float, adjacency: Adjacency) -> Lattice:
    """A lattice on which one row moves the sum by no more than its part of all steps."""
    low, high, middle = span
    reach = high - low if adjacency == "replace_one" else max(high - middle, middle - low)
    steps = max(1, math.floor(part * PARTS * (high - low) / reach))
    return Lattice(low, high, min(steps, max(0, round((middle - low) / (high - low) * steps))), steps)


@dataclass(frozen=True, eq=False)
class FitSums:
    """The released sums, and how they were taken."""

    quantities: tuple[Quantity, ...]
    lattices: tuple[Lattice, ...]
    sums: tuple[int, ...]  # with their noise, in steps from the middle
    scale: float  # of the noise, in steps
    null: float  # the mean response that the model is compared with, in model units
    count: float  # the number of rows with its noise
    count_sd: float

    @property
    def rows(self) -> float:
        """The number of rows where it is divided by: no less than its noise."""
        return max(self.count, self.count_sd, 1.0)

    def place(self, kind: str, column: int = -1) -> int | None:
        """Where a quantity stands; None if it was not bought."""
        wanted = Quantity(kind, column)
        return self.quantities.index(wanted) if wanted in self.quantities else None

    def mean(self, place: int) -> float:
        """A quantity's average over the rows."""
        lattice = self.lattices[place]
        return lattice.center + self.sums[place] * lattice.unit / self.rows

    def noise(self, place: int) -> float:
        """The standard deviation that the noise in its sum gives a quantity's average."""
        return math.sqrt(2) * self.scale * self.lattices[place].unit / self.rows

    def count_effect(self, place: int) -> float:
        """The derivative of a quantity's average by the number of rows."""
        return -(self.mean(place) - self.lattices[place].center) / self.rows

    def to_dict(self) -> dict[str, Any]:
        """Plain released values, for JSON."""
        return {**asdict(self), "quantities": [list(one) for one in self.quantities]} | {
            "lattices": [list(one) for one in self.lattices],
            "sums": list(self.sums),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> FitSums:
        """What `to_dict` gave `stored` of."""
        return cls(
            tuple(Quantity(*one) for one in stored["quantities"]),
            tuple(Lattice(*one) for one in stored["lattices"]),
            tuple(int(one) for one in stored["sums"]),
            *(float(stored[name]) for name in ("scale", "null", "count", "count_sd")),
        )


def release_fit_statistics(
    plan: FitStatisticsPlan,
    functions: RowFunctions,
    made_up: MadeUpRows,
    rows: Rows[Block],
    random: RandomSource,
) -> FitSums:
    """The sums over rows that are paid for, with independent noise on a common lattice."""
    count, lattices = choose_lattices(plan, functions, made_up)
    every = [*lattices] if count is None else [*lattices, count]
    exact = rows.total_of_pieces(partial(exact_sums, functions, tuple(lattices), count), _added)
    sensitivity = sum(one.sensitivity(plan.adjacency) for one in every)
    held = np.array([min(max(total, -MOST_PARTS), MOST_PARTS) for total in exact[: len(every)]], dtype=np.int64)
    noisy = [int(total) for total in noisy_integers(held, sensitivity, plan.eps, random)]
    scale = sensitivity / plan.eps
    counted = plan.counted if count is None else (noisy.pop() / count.steps, math.sqrt(2) * scale / count.steps)
    assert counted is not None
    return FitSums(functions.quantities, tuple(lattices), tuple(noisy), scale, functions.null, *counted)


def _added(one: list[int], other: list[int]) -> list[int]:
    return list(map(operator.add, one, other))


def exact_sums(
    functions: RowFunctions, lattices: Sequence[Lattice], count: Lattice | None, blocks: Iterable[Block]
) -> list[int]:
    """What some rows add to each sum, and last to their number: whole steps."""
    totals = [0] * (len(lattices) + 1)
    for block in pieces_by_columns(0, blocks):
        size = len(block.endog)
        eta, endog = pad_rows(linear_predictors(functions.params, block)), pad_rows(block.endog)
        columns = block.exog.T
        if functions.factors:
            columns = np.array([pad_rows(column) for column in columns])
        with np.errstate(all="ignore"):
            values = functions.values(columns, eta, endog)[:, :size]
        for place, (lattice, value) in enumerate(zip(lattices, values, strict=True)):
            totals[place] += int(lattice.whole(value).sum())
        totals[-1] += size * (0 if count is None else count.steps)
    return totals

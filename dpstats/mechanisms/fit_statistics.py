"""Fit statistics: the number of rows and averages over them at the debiased coefficients, in one release
(docs/proofs/fit_statistics)."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows
from dpstats.families import Binomial, Family, Gaussian, NegativeBinomial
from dpstats.families.base import pad_rows
from dpstats.inference import Dummies
from dpstats.mechanisms.design import Step
from dpstats.mechanisms.information_release import linear_predictors
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information.exact_sums import row_parts
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

NAMED_PART = 2 / 3
"""The part that buys changes of variables that are named, and averages by groups."""

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
    # Variables whose changes are averaged, with the steps of numbers; None for every factor by itself.
    variables: tuple[tuple[str, float | None], ...] | None = None
    by: str | None = None  # the factor by whose levels averages are taken

    @property
    def steps(self) -> dict[str, float | None]:
        """The changes that were named, as `fitstats_variables` takes them."""
        named = dict(self.variables or ())
        return {name: step if step is None or step % 1 else int(step) for name, step in named.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON; what is not asked for is left out, as older plans have it."""
        named = {name: value for name in ("variables", "by") if (value := getattr(self, name)) is not None}
        return {"eps": self.eps, "adjacency": self.adjacency, "counted": self.counted, **named}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> FitStatisticsPlan:
        """The plan whose `to_dict` gave `stored`."""
        counted, variables = stored.get("counted"), stored.get("variables")
        return cls(
            stored["eps"],
            stored["adjacency"],
            None if counted is None else tuple(counted),
            None if variables is None else tuple((name, step) for name, step in variables),
            stored.get("by"),
        )


class Quantity(NamedTuple):
    """What is averaged over rows."""

    kind: str  # "null", "deviance", "gain", "slope", "mean", of a factor "reference" or "level", of a number "step"
    column: int = -1  # of a factor's the column: that of the level, or the first one for the reference


@dataclass(frozen=True, eq=False)
class RowFunctions:
    """The functions of a row that are averaged: of that row alone and of released and public values."""

    family: Family
    params: Vector  # debiased coefficients in model units, shape (p,)
    null: float  # the mean response that the model is compared with
    factors: tuple[Dummies, ...] = ()  # whose levels' effects are averaged
    slope_is_known: bool = False  # the information's weights are the slopes: their sum was released
    steps: tuple[Step, ...] = ()  # of numbers, whose effects are averaged
    by: Dummies | None = None  # the factor by whose levels averages are taken
    sums_gain: bool = True  # the gain of least squares follows from the information, and only older fits sum it

    @property
    def buys_slope(self) -> bool:
        """Whether the sum of slopes is bought: under a logarithm groups and steps need it, which has the mean."""
        return self.by is not None or bool(self.steps) or not self.slope_is_known

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """What `values` has a row for.

        The deviance and what the model takes off that of the null model, but for least squares, whose information has
        that; of two classes the null deviance itself, which is a count. The information has the sum of slopes too where
        that is its weight (docs/proofs/fit_statistics, 4), and under a logarithm a level or a step multiplies the mean,
        which is the slope.
        """
        binary = isinstance(self.family, Binomial)
        quantities = [Quantity("null" if binary else "deviance"), Quantity("gain")][: 1 + self.sums_gain]
        if self.family.link == "identity":
            return (*quantities, Quantity("mean")) if self.by is not None else tuple(quantities)
        if self.buys_slope:
            quantities.append(Quantity("slope"))
        if binary and (self.by is not None or self.steps):
            quantities.append(Quantity("mean"))
            quantities += [Quantity("step", step.column) for step in self.steps]
        for factor in self.factors:
            quantities.append(Quantity("reference", factor.columns[0]))
            quantities += [Quantity("level", column) for column in factor.columns if binary]
        return tuple(quantities)

    def values(self, columns: Vector | Mapping[int, Vector], eta: Vector, endog: Vector) -> Vector:
        """Every quantity of rows in model units, shape (k, rows), from columns (p, rows), predictors and responses.

        Of the columns those of the factors alone are read.

        Elementwise: arrays of whole vectors (`pad_rows`) leave no trace of one row in another.
        """
        null, gain = self.deviances(eta, endog)
        binary = isinstance(self.family, Binomial)
        quantities = [null if binary else null - gain, gain][: 1 + self.sums_gain]
        if self.family.link == "identity":
            return np.array([*quantities, eta] if self.by is not None else quantities)
        if self.buys_slope:
            quantities.append(self.slope(eta))
        if binary and (self.by is not None or self.steps):
            mean = self.mean(eta)
            quantities += [mean, *(self.mean(eta + self.effect(step.column)) - mean for step in self.steps)]
        for factor in self.factors:
            apart = np.array(eta)
            for column in factor.columns:
                apart -= columns[column] * self.params[column]
            reference = self.mean(apart)
            quantities.append(reference)
            for column, code in zip(factor.columns, factor.codes, strict=True):
                if binary:
                    quantities.append(self.mean(apart + code * self.params[column]) - reference)
        return np.array(quantities)

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
        if self.family.link == "identity" and quantity.kind == "mean":
            return -math.inf, math.inf
        if not isinstance(self.family, Binomial):
            return 0.0, math.inf
        if quantity.kind == "null":
            low, high = sorted((-2 * math.log(self.null), -2 * math.log1p(-self.null)))
            return low, max(high, low + EDGE)
        if quantity.kind in ("level", "step"):
            reach = math.tanh(self.effect(quantity.column) / 4)
            return min(reach, 0.0), max(reach, 0.0)
        return 0.0, 0.25 if quantity.kind == "slope" else 1.0

    def effect(self, column: int) -> float:
        """What a level or a step adds to the linear predictor."""
        for step in self.steps:
            if step.column == column:
                return float(self.params[column]) * step.amount
        for factor in self.factors:
            if column in factor.columns:
                return float(self.params[column]) * factor.codes[factor.columns.index(column)]
        raise KeyError(column)

    @property
    def groups(self) -> int:
        """How many levels averages are taken by; 1 for none."""
        return 1 if self.by is None else 1 + len(self.by.columns)

    @property
    def squared_cap(self) -> float | None:
        """The square at which the loss caps residuals; None but for least squares."""
        return self.family.lipschitz**2 if isinstance(self.family, Gaussian) else None

    def is_parted(self, quantity: Quantity) -> bool:
        """Whether there is a sum for each group: of what comparisons and predictions are made of."""
        of_model = ("null", "deviance", "gain", "slope" if self.family.link == "logit" else "")
        return self.by is not None and quantity.kind not in of_model

    def group(self, columns: Vector) -> NDArray[np.intp]:
        """The one group of each row, shape (rows,), the reference level's first, from columns (p, rows)."""
        groups = np.zeros(columns.shape[1], dtype=np.intp)
        if self.by is not None:
            for level, column in enumerate(self.by.columns, start=1):
                groups[columns[column] != 0] = level
        return groups


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
    groups: int = 1  # every row adds to the sum of one of so many groups

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
        steps = np.clip(values, self.low, self.high)
        steps -= self.low
        steps /= self.high - self.low
        steps *= self.steps
        np.rint(steps, out=steps)
        np.copyto(steps, self.middle, where=np.isnan(steps))
        steps -= self.middle
        return steps.astype(np.int64)

    def sensitivity(self, adjacency: Adjacency) -> int:
        """By how many steps one row, or one in place of another or of none, moves the sums at most.

        A row in place of one of another group takes its part from one sum and adds its own to another.
        """
        reach = max(self.middle, self.steps - self.middle)
        if adjacency != "replace_one":
            return reach
        return self.steps if self.groups == 1 else 2 * reach


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
    if functions.squared_cap is not None:  # squared residuals may have any tails up to the cap: the model has no say
        low, high, middle = spans[0]
        spans[0] = (low, max(high, functions.squared_cap), middle)
    means = values @ made_up.shares
    # Where the information has the sum of slopes, its average is as well known as the number of rows.
    counts = functions.family.link == "log"
    shown = 2.0 if functions.slope_is_known else 1.0
    groups = [functions.groups if functions.is_parted(quantity) else 1 for quantity in quantities]
    counted = plan.counted is not None and functions.by is None
    weights = [0.0 if counted else shown]
    for quantity, span, parted in zip(quantities, spans, groups, strict=True):
        reach = _reach(span, plan.adjacency, parted)
        worth = COUNT_SLOPE if counts and quantity.kind == "slope" else 1.0
        weights.append(worth * _importance(quantity, means, quantities) * reach**2)
    parts = np.cbrt(np.array(weights))
    named = plan.variables is not None or plan.by is not None
    mean = ("slope" if counts else "mean") if named else None
    levels = np.array([False] + [one.column >= 0 or one.kind == mean for one in quantities])
    if levels.any():  # each level's effect is in proportion to its bound: equal parts, equal relative errors
        part = NAMED_PART if named else COUNT_LEVELS_PART if counts else LEVELS_PART
        parts[levels] = part / levels.sum()
        parts[~levels] *= (1 - part) / parts[~levels].sum()
    parts = parts / parts.sum()
    if "null" in (kinds := [quantity.kind for quantity in quantities]):
        place = kinds.index("null") + 1
        parts[place] = max(parts[place], NULL_PART)
        parts = parts / parts.sum()
    lattices = [_lattice(*one, plan.adjacency) for one in zip(spans, parts[1:], groups, strict=True)]
    if counted:
        return None, lattices
    whole = COUNT._replace(groups=functions.groups)
    return whole._replace(steps=max(1, math.floor(parts[0] * PARTS / whole.sensitivity(plan.adjacency)))), lattices


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
    gained = own.get("gain", own.get("deviance", 0.0))  # about a half where it is not summed
    whole = max(own["null"] if "null" in own else own["deviance"] + gained, 1e-12)
    explained = min(max(gained / whole, LEAST_EXPLAINED), 1 - LEAST_EXPLAINED)
    if quantity.kind == "slope" or (quantity.kind == "mean" and "null" in own):
        return 1 / max(own[quantity.kind], 1e-12) ** 2
    if quantity.kind == "mean":
        return 1 / whole
    gain = 1.0 if "null" in own else (1 - explained) ** 2
    return {"gain": gain, "null": explained**2, "deviance": explained**2}.get(quantity.kind, 0.0) / whole**2


def _reach(span: tuple[float, float, float], adjacency: Adjacency, groups: int) -> float:
    """By how much one row moves a sum, or those of several groups, as `Lattice.sensitivity` has it in steps."""
    low, high, middle = span
    reach = max(high - middle, middle - low)
    if adjacency != "replace_one":
        return reach
    return high - low if groups == 1 else 2 * reach


def _lattice(span: tuple[float, float, float], part: float, groups: int, adjacency: Adjacency) -> Lattice:
    """A lattice on which one row moves the sums by no more than its part of all steps."""
    low, high, middle = span
    steps = max(1, math.floor(part * PARTS * (high - low) / _reach(span, adjacency, groups)))
    return Lattice(low, high, min(steps, max(0, round((middle - low) / (high - low) * steps))), steps, groups)


@dataclass(frozen=True, eq=False)
class FitSums:
    """The released sums, and how they were taken."""

    quantities: tuple[Quantity, ...]
    lattices: tuple[Lattice, ...]
    sums: tuple[int, ...]  # over all rows, with their noise, in steps from the middle
    scale: float  # of the noise, in steps
    null: float  # the mean response that the model is compared with, in model units
    count: float  # the number of rows with its noise
    count_sd: float
    # Of each group the sums of every quantity, zero where it is of the whole model, and the number of rows.
    groups: tuple[tuple[int, ...], ...] = ()
    group_counts: tuple[float, ...] = ()
    group_sd: float = 0.0

    def number(self, group: int | None = None) -> tuple[float, float]:
        """The number of rows, or of one group, with the standard deviation of its noise."""
        return (self.count, self.count_sd) if group is None else (self.group_counts[group], self.group_sd)

    def rows(self, group: int | None = None) -> float:
        """The number of rows where it is divided by: no less than its noise."""
        return max(*self.number(group), 1.0)

    def place(self, kind: str, column: int = -1) -> int | None:
        """Where a quantity stands; None if it was not bought."""
        wanted = Quantity(kind, column)
        return self.quantities.index(wanted) if wanted in self.quantities else None

    def mean(self, place: int, group: int | None = None) -> float:
        """A quantity's average over the rows, or over one group."""
        lattice, sums = self.lattices[place], self.sums if group is None else self.groups[group]
        return lattice.center + sums[place] * lattice.unit / self.rows(group)

    def noise(self, place: int, group: int | None = None) -> float:
        """The standard deviation that the noise in its sum gives a quantity's average."""
        lattice = self.lattices[place]
        summed = lattice.groups if group is None else 1
        return math.sqrt(2 * summed) * self.scale * lattice.unit / self.rows(group)

    def count_effect(self, place: int, group: int | None = None) -> float:
        """The derivative of a quantity's average by the number of rows."""
        return -(self.mean(place, group) - self.lattices[place].center) / self.rows(group)

    def to_dict(self) -> dict[str, Any]:
        """Plain released values, for JSON; without groups as older results have them."""
        stored = {**asdict(self), "quantities": [list(one) for one in self.quantities], "sums": list(self.sums)}
        if self.groups:
            lattices = [list(one) for one in self.lattices]
            return stored | {"lattices": lattices, "groups": [list(one) for one in self.groups]}
        for name in ("groups", "group_counts", "group_sd"):
            del stored[name]
        return stored | {"lattices": [list(one[:-1]) for one in self.lattices]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> FitSums:
        """What `to_dict` gave `stored` of."""
        return cls(
            tuple(Quantity(*one) for one in stored["quantities"]),
            tuple(Lattice(*one) for one in stored["lattices"]),
            tuple(int(one) for one in stored["sums"]),
            float(stored["scale"]),
            float(stored["null"]),
            float(stored["count"]),
            float(stored["count_sd"]),
            tuple(tuple(int(part) for part in one) for one in stored.get("groups", ())),
            tuple(float(one) for one in stored.get("group_counts", ())),
            float(stored.get("group_sd", 0.0)),
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
    exact = rows.total_of_pieces(partial(exact_sums, functions, tuple(lattices), count), add_sums)
    sensitivity = sum(one.sensitivity(plan.adjacency) for one in every)
    bought = sum(one.groups for one in every)
    held = np.array([min(max(total, -MOST_PARTS), MOST_PARTS) for total in exact[:bought]], dtype=np.int64)
    noisy = iter(int(total) for total in noisy_integers(held, sensitivity, plan.eps, random))
    scale = sensitivity / plan.eps
    parted = [list(itertools.islice(noisy, lattice.groups)) for lattice in every]
    numbers = [] if count is None else [total / count.steps for total in parted.pop()]
    each = math.sqrt(2) * scale / (1 if count is None else count.steps)
    counted = plan.counted or (sum(numbers), math.sqrt(len(numbers)) * each)
    sums = FitSums(functions.quantities, tuple(lattices), tuple(map(sum, parted)), scale, functions.null, *counted)
    if functions.by is None:
        return sums
    whole = [one if len(one) > 1 else [0] * functions.groups for one in parted]
    return replace(sums, groups=tuple(zip(*whole, strict=True)), group_counts=tuple(numbers), group_sd=each)


def add_sums(one: list[int], other: list[int]) -> list[int]:
    """The sums over the rows of both."""
    return list(map(operator.add, one, other))


def exact_sums(
    functions: RowFunctions, lattices: Sequence[Lattice], count: Lattice | None, blocks: Iterable[Block]
) -> list[int]:
    """What some rows add to each sum, group by group, and last to their number: whole steps."""
    # Row by row there is one part of each, in the row's own group.
    every = [*lattices, COUNT if count is None else count]
    starts = np.cumsum([0, *(lattice.groups for lattice in every)])
    totals = [0] * int(starts[-1])
    for block in (whole.part(part).doubles() for whole in blocks for part in row_parts(*whole.exog.shape)):
        size = len(block.endog)
        eta, endog = pad_rows(linear_predictors(functions.params, block)), pad_rows(block.endog)
        members = functions.group(block.exog.T)
        columns = {at: pad_rows(block.exog[:, at]) for factor in functions.factors for at in factor.columns}
        with np.errstate(all="ignore"):
            values = functions.values(columns, eta, endog)[:, :size]
        parts = [lattice.whole(value) for lattice, value in zip(lattices, values, strict=True)]
        parts.append(np.full(size, 0 if count is None else count.steps))
        for start, lattice, part in zip(starts, every, parts, strict=False):
            for group in range(lattice.groups):
                inside = part if lattice.groups == 1 else part[members == group]
                totals[start + group] += int(inside.sum())
    return totals

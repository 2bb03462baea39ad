"""Average adjusted predictions and their comparisons, over the rows, by groups, and at public rows
(docs/proofs/fit_statistics, 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_choice, near_miss, safe_repr
from dpstats.domain import Levels, Range
from dpstats.errors import ArgumentError, DataError, NotReleasedError
from dpstats.formula.design import DesignSpec
from dpstats.frames import MOST_NAMED, EffectFrame
from dpstats.inference.estimates import check_level
from dpstats.mechanisms.design import Variable, find_variable, formula_variables
from dpstats.mechanisms.options import Variables, named_variables
from dpstats.plan import Plan
from dpstats.plan.methods import no_averages
from dpstats.results.contrasts import TESTED
from dpstats.results.explained_share import debiased_params
from dpstats.results.fit_statistics import (
    LEAST_MEAN_SDS,
    Average,
    Effect,
    FitStatistics,
    HalfWidth,
    contrast_width,
    derivative,
)
from dpstats.results.marginal_effects import FittedColumns
from dpstats.results.standard_errors import ReleasedErrors
from dpstats.wording import argument

Vector = NDArray[np.float64]
Ends = tuple[float, float]
Comparison = Literal["difference", "ratio"]
Changes = Variables | Mapping[str, Any]
"""Variables with the steps of numbers, and for factors "pairwise" or two levels."""


class Change(NamedTuple):
    """A change of a variable: from a level to another one, or of a number by a step."""

    label: str
    before: int  # the place of the level, the reference first; of a number 0
    after: int
    size: float  # of a number the step in the data's units, of a level 1


def changes_of(variable: Variable, change: Any, sign: str, *, codes: bool = False) -> Iterator[Change]:
    """Every change of a variable, under marginaleffects' labels: a step, or which levels are compared.

    A step of 1 leads from 0 to 1 where a number is one of these `codes`.
    """
    name, levels = safe_repr(variable.column_name), variable.levels
    chosen = isinstance(change, (str, list, tuple))
    if not levels:
        if chosen:
            raise ArgumentError(f"variables: {name} is a number, which has a step: give one, such as 10")
        size = 1.0 if change is None else change
        yield Change(f"1 {sign} 0" if codes and size == 1 else f"{size:+g}", 0, 0, size)
        return
    pairs, listed = [(0, after) for after in range(1, len(levels))], change if isinstance(change, (list, tuple)) else ()
    places = [levels.index(level) for level in listed if np.ndim(level) == 0 and level in levels]
    if isinstance(change, str) and change == "pairwise":
        pairs = list(combinations(range(len(levels)), 2))
    elif len(listed) == len(places) == 2 and places[0] != places[1]:
        pairs = [(places[0], places[1])]
    elif change is not None:
        for level in listed:
            if np.ndim(level) == 0 and level not in levels:
                raise ArgumentError(
                    f"variables: {name} has no level {safe_repr(level)}; its levels are {', '.join(map(str, levels))}"
                )
        raise ArgumentError(
            f"variables: {name} is a factor, which has no step: give None, 'pairwise' or a list of two of its levels, "
            f"{', '.join(map(str, levels))}"
        )
    for before, after in pairs:
        yield Change(f"{levels[after]} {sign} {levels[before]}", before, after, 1.0)


def effect_line(effect: Effect, alpha: float, *, ratio: bool) -> dict[str, float]:
    """The columns of a table, of a difference or of the logarithm of a ratio."""
    value, half, error = effect.value, effect.half_width(alpha), effect.se
    with np.errstate(over="ignore"):
        if ratio:
            ends, shown = np.exp([value, value - half, value + half]), float(np.exp(value)) * error
        else:
            ends, shown = np.array([value, value - half, value + half]), error
    if math.isinf(half):
        ends[1:] = (0.0 if ratio else -math.inf), math.inf
    # What is not identified has no test, as in `tidy`.
    tested = (math.nan, math.nan) if math.isinf(error) else (value / error, effect.pvalue)
    return dict(zip(TESTED, (ends[0], shown, *tested, ends[1], ends[2]), strict=True))


@dataclass(frozen=True, eq=False)
class PrivateRows:
    """Averages over the rows of the fit, from sums that were bought."""

    name: str  # of the call
    plan: Plan
    statistics: FitStatistics | None

    def bought_sums(self) -> FitStatistics:
        """The sums; NotReleasedError where none were bought."""
        if self.statistics is None:
            bought, by = argument("fitstats", 0.05), argument("fitstats_variables")
            raise self._not_bought("", f"{bought} buys them, and {by} names variables")
        return self.statistics

    def _by_a_factor(self) -> str:
        """What buys the average prediction over all rows."""
        factors = [one.column_name for one in formula_variables(self.plan.design).values() if one.factor is not None]
        if not factors:
            return f"{argument('fitstats_by')} buys them once a factor is in the formula"
        return f"{argument('fitstats_by', factors[0])} in the call of the fit buys them"

    def groups(self, by: str | None) -> dict[Any, int | None]:
        """The groups by their levels, or all rows."""
        if by is None:
            return {None: None}
        variable, statistics = find_variable("by", self.plan.design, by, groups=True), self.statistics
        bought = None if statistics is None else statistics.functions.by
        if bought is None or variable.factor is None or bought.columns != variable.factor.columns:
            bought_by = argument("fitstats_by", variable.column_name)
            raise self._not_bought(f" by {by!r}", f"{bought_by} in the call of the fit buys them")
        return {level: place for place, level in enumerate(variable.levels)}

    def fitted(self, group: int | None) -> Average:
        """The average prediction as the rows are."""
        average = None if self.statistics is None else self.statistics.fitted_mean(group)
        if average is None:
            raise self._not_bought("", self._by_a_factor())
        if self.plan.family.link != "identity":
            return average
        middle, half = self.plan.design.response_scaling()
        parts = {place: half * part for place, part in average.parts.items()}
        return Average(middle + half * average.value, parts, half * average.gradient)

    def level(self, variable: Variable, place: int, group: int | None) -> Average:
        """The average prediction were all rows of a level."""
        factor = variable.factor
        assert factor is not None
        if self.plan.family.link == "identity":
            # The difference of two levels is a coefficient, so that none of both is ever summed.
            raise NotReleasedError(
                f"{self.name} of {variable.name!r}: in a linear model no call buys them over the rows; comparisons has "
                f"the differences between levels, and {HINT}"
            )
        statistics = self.bought_sums()
        if all(factor.columns != bought.columns for bought in statistics.functions.factors):
            raise self._not_bought_of(variable, None)
        return statistics.level_mean(factor, factor.columns[place - 1] if place else None, group)

    def change(self, variable: Variable, change: Change, group: int | None) -> tuple[Average, Average]:
        """The averages before and after a change."""
        if variable.factor is not None:
            return self.level(variable, change.before, group), self.level(variable, change.after, group)
        means = self.bought_sums().step_means(variable.step(change.size), group)
        if means is None:
            raise self._not_bought_of(variable, change.size)
        return means

    def _not_bought(self, of_what: str, remedy: str) -> NotReleasedError:
        rows = no_averages(self.plan.request.options, self.plan.design)
        if rows is not None:
            return not_offered(self.name, of_what, rows, self.plan.family.link)
        if self.plan.family.link == "identity":
            bought = f"averages over the rows of the fit were not bought: {remedy}"
            return NotReleasedError(f"{self.name}{of_what}: {HINT}; {bought}")
        return NotReleasedError(f"{self.name}{of_what}: averages over the rows were not bought; {remedy}; {HINT}")

    def _not_bought_of(self, variable: Variable, step: float | None) -> NotReleasedError:
        setting = argument("fitstats_variables", {variable.name: step})
        steps = () if self.statistics is None else self.statistics.functions.steps
        sizes = [one.amount / variable.unit for one in steps if step is not None and one.column == variable.column]
        bought = f"comparisons({{{variable.name!r}: {sizes[0]:g}}}) has the step that was bought; " if sizes else ""
        return self._not_bought(f" of {variable.name!r}", f"{bought}{setting} in the call of the fit buys them")

    def knows(self, group: int | None) -> bool:
        """Whether a group stands out from its noise."""
        return self.bought_sums().knows(group)

    def ends(self, average: Average, group: int | None, alpha: float, bounds: tuple[float, float]) -> Ends | None:
        """The interval of an average within bounds; None of a group of which nothing is known.

        Hardly a row is in it, by its noisy number, or the interval is all between the bounds.
        """
        statistics = self.bought_sums()
        if not statistics.knows(group, LEAST_MEAN_SDS):
            return None
        ends = statistics.ends(average, group, alpha, bounds)
        return None if group is not None and ends == bounds else ends

    def half_widths(self, parts: list[tuple[Average, float]], group: int | None) -> HalfWidth:
        """Half the width of the interval of a combination of averages."""
        return self.bought_sums().half_widths(parts, group)


HINT = "newdata= has public rows, at no charge"


def not_offered(name: str, of_what: str, rows: str, link: str) -> NotReleasedError:
    """Why a call has no averages over the rows, and what needs none: ratios of means are coefficients of a log link."""
    ratios = ""
    if name == "comparisons" and link == "log":
        ratios = f"{argument('comparison', 'ratio')} has ratios of means, at no charge, and "
    return NotReleasedError(f"{name}{of_what}: averages over the rows are not offered {rows}; {ratios}{HINT}")


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Averages over public rows, which follow from the coefficients."""

    name: str  # of the call
    errors: ReleasedErrors
    frame: pd.DataFrame
    model_rows: Callable[[Any], tuple[Vector, Vector]]  # of the fitted columns, and what is added to predictors
    mean: Callable[[Vector], Vector]
    domain: Mapping[str, Any]  # of the columns that are declared
    read: Sequence[str]  # the columns that terms in the model read
    by: str | None = None  # the column whose values divide the rows into groups

    def groups(self, by: str | None) -> dict[Any, int | None]:
        """The groups of rows with the same value of `by`, in the order of their first rows; else all rows."""
        if by is None:
            return {None: None}
        if not isinstance(by, str) or by not in self.frame:
            raise ArgumentError(f"by: newdata has no column {safe_repr(by)}")
        return {value: place for place, value in enumerate(self.frame[by].dropna().unique())}

    def at(self, group: int | None, **cells: Any) -> Average:
        """The average prediction of a group's rows with some columns replaced."""
        frame = self.frame if group is None else self._rows_of(group)
        exog, added = self.model_rows(frame.assign(**cells))
        if not len(exog):
            raise ArgumentError(self._why_empty(self.frame if group is None else self._rows_of(group)))
        eta = exog @ debiased_params(self.errors) + added
        return Average(float(self.mean(eta).mean()), {}, derivative(self.mean, eta) @ exog / len(exog))

    def _rows_of(self, group: int) -> pd.DataFrame:
        return self.frame[pd.factorize(self.frame[self.by])[0] == group]

    def _why_empty(self, frame: pd.DataFrame) -> str:
        """What is wrong with rows of which none has an average."""
        for name, declared in self.domain.items():
            if name in frame and isinstance(declared, Range) and declared.drops:
                numbers, (low, high) = pd.to_numeric(frame[name], errors="coerce"), declared.interval
                if numbers.notna().any() and not numbers.between(low, high).any():
                    return (
                        f"newdata has {name!r} outside of ({low:g}, {high:g}), beyond which the fit left rows out, in "
                        "every row to be averaged; pass rows within it"
                    )
        return "newdata has no complete row; pass the columns of the formula within the Domain"

    def fitted(self, group: int | None) -> Average:
        """The average prediction as the rows are."""
        return self.at(group)

    def level(self, variable: Variable, place: int, group: int | None) -> Average:
        """The average prediction were all rows of a level."""
        return self.at(group, **{variable.column_name: variable.levels[place]})

    def change(self, variable: Variable, change: Change, group: int | None) -> tuple[Average, Average]:
        """The averages before and after a change."""
        column = variable.column_name
        if variable.levels:
            return self.level(variable, change.before, group), self.level(variable, change.after, group)
        before, after = self._stepped(column, change.size)
        return self.at(group, **{column: before}), self.at(group, **{column: after})

    def changes(self, variable: Variable, step: float | None) -> bool:
        """Whether a variable has levels to compare, or a number of every row can take the step one way."""
        column, size = variable.column_name, 1.0 if step is None else step
        if variable.levels:
            return True
        if not isinstance(self.domain.get(column), Range):
            return False
        numbers, forward = self._within(column, size)
        return bool((forward | (numbers - size).between(*self.domain[column].interval)).all())

    def not_compared(self, compared: set[str]) -> str:
        """Which columns that the model reads are not compared by default, and why; empty if all are."""
        left_out = [name for name in self.read if name not in compared]
        step = f" (1 is too large a step: pass {{{left_out[0]!r}: 0.1}})" if left_out else ""
        return f"not compared: {', '.join(left_out)}{step}" if left_out else ""

    def _stepped(self, column: str, size: float) -> tuple[pd.Series[float], pd.Series[float]]:
        """A column of numbers before and after a step; where the range ends first, the step leads to the number.

        Beyond the range cells are clipped, or their rows left out: the step would be cut short.
        """
        numbers, forward = self._within(column, size)
        before, after = numbers.where(forward, numbers - size), (numbers + size).where(forward, numbers)
        if isinstance(declared := self.domain.get(column), Range):
            low, high = declared.interval
            if not (before.isna() | before.between(low, high)).all():
                raise ArgumentError(
                    f"variables: a step of {size:g} leads out of the range ({low:g}, {high:g}) of {column!r} both ways "
                    "from some row of newdata; type a smaller one"
                )
        return before, after

    def _within(self, column: str, size: float) -> tuple[pd.Series[float], pd.Series[bool]]:
        """A column of numbers as its range has them, and from which of them a step stays within it."""
        numbers, declared = self._numbers(column), self.domain.get(column)
        if not isinstance(declared, Range):
            return numbers, pd.Series(data=True, index=numbers.index)
        low, high = declared.interval
        numbers = numbers.where(numbers.between(low, high)) if declared.drops else numbers.clip(low, high)
        return numbers, numbers.isna() | (numbers + size).between(low, high)

    def backward(self, column: str, size: float) -> str:
        """Which numbers of a column are compared with the number one step back, in words; empty for none."""
        numbers, forward = self._within(column, size)
        if forward.all():
            return ""
        low, high = self.domain[column].interval
        if abs(size) == high - low:  # such as from 0 to 1, which is the only step there is
            return ""
        shown = [f"{number:g}" for number in np.unique(numbers[~forward])]
        named = ", ".join(shown[:MOST_NAMED]) + f" and {len(shown) - MOST_NAMED} more" * (len(shown) > MOST_NAMED)
        here, there = ("below", "above") if size > 0 else ("above", "below")
        return (
            f"{column} {named}: compared from {abs(size):g} {here}, because {abs(size):g} {there} lies outside "
            f"({low:g}, {high:g})"
        )

    def _numbers(self, column: str) -> pd.Series[float]:
        """A column of numbers."""
        if column not in self.frame:
            raise DataError(f"newdata has no column {column!r}, which the comparison changes")
        try:
            return self.frame[column].astype(np.float64)
        except (ValueError, TypeError, OverflowError):
            raise DataError(
                f"newdata must have numbers in column {column!r}, which the comparison changes by a step"
            ) from None

    def knows(self, group: int | None) -> bool:
        """Public rows have no noise."""
        return True

    def ends(self, average: Average, group: int | None, alpha: float, bounds: tuple[float, float]) -> Ends:
        """The interval of an average within bounds."""
        half = self.half_widths([(average, 1.0)], group)(alpha)
        return max(average.value - half, bounds[0]), min(average.value + half, bounds[1])

    @property
    def note(self) -> str:
        """What the figures are averages of."""
        rows = len(self.frame)
        return f"averages over the {rows:,} rows of newdata{'' if self.by is None else f' by {self.by}'}" * (rows > 1)

    def half_widths(self, parts: list[tuple[Average, float]], group: int | None) -> HalfWidth:
        """Half the width of the interval of a combination of averages."""
        row = np.sum([factor * average.gradient for average, factor in parts], axis=0) @ self.errors.basis
        return contrast_width(self.errors.table.estimates, row)


@dataclass(frozen=True, eq=False)
class Comparer:
    """Comparisons and predictions of a released model."""

    model: FittedColumns
    source: PrivateRows | PublicRows

    @property
    def plan(self) -> Plan:
        """The public plan that the release followed."""
        return self.model.plan

    def comparisons(self, variables: Changes, comparison: Comparison, by: str | None, alpha: float) -> pd.DataFrame:
        """The table of `ReleasedModel.comparisons`."""
        check_choice("comparison", comparison, ("difference", "ratio"))
        check_level(alpha)
        ratio, link = comparison == "ratio", self.plan.family.link
        if ratio and link == "identity":
            raise ArgumentError("comparison='ratio' is for logit and log links, whose means are positive")
        pairs: dict[str, Any] = {}  # of factors: which levels are compared
        if isinstance(variables, Mapping):
            pairs = {name: which for name, which in variables.items() if isinstance(which, (str, list, tuple))}
            variables = {**variables, **dict.fromkeys(pairs)}
        named = named_variables("variables", variables)
        # Where the figure is the coefficient, no sum is needed, and all groups have the same one.
        free = isinstance(self.source, PrivateRows) and link == ("log" if ratio else "identity")
        lines, backward = [], []
        for name, step in self._default_variables(free=free) if named is None else named:
            variable = self._variable(name)
            groups = self.source.groups(None if free else by)
            if free and by is not None:
                groups = dict.fromkeys(find_variable("by", self.plan.design, by, groups=True).levels)
            # Steps of private rows lead on from 1 to 2, too.
            codes = (free or isinstance(self.source, PublicRows)) and self._is_binary(variable)
            for change in changes_of(variable, pairs.get(name, step), "/" if ratio else "-", codes=codes):
                if isinstance(self.source, PublicRows) and not variable.levels:
                    backward.append(self.source.backward(variable.column_name, change.size))
                for level, group in groups.items():
                    effect = (
                        self._coefficient(variable, change)
                        if free
                        else self._effect(variable, change, group, ratio=ratio)
                    )
                    known = {"term": name, "contrast": change.label} | ({} if by is None else {by: level})
                    lines.append(known | effect_line(effect, alpha, ratio=ratio))
        table = EffectFrame(pd.DataFrame(lines))
        compared = {line["term"] for line in lines}
        if isinstance(self.source, PublicRows):
            unnamed = [] if named is not None else [self.source.not_compared(compared)]
            table.attrs["note"] = "\n".join(filter(None, [self.source.note, *backward, *unnamed]))
        elif named is None:
            table.attrs["note"] = self._left_out(compared)
        return table

    def _left_out(self, compared: set[str]) -> str:
        """Which variables of the formula are not compared by default, and what to type for them; empty if all are."""
        design = self.plan.design
        if not isinstance(design, DesignSpec):
            return ""
        inside = formula_variables(design)
        dropped = [name for name, one in inside.items() if one.column not in self.model.columns]
        names = [name for name in design.parsed.exog_columns if name not in compared.union(dropped)]
        steps: dict[str, float | None] = {
            name: None if one.factor is not None else 1 for name, one in inside.items() if one.alone
        }
        steps.update(self.plan.fitstats.steps if self.plan.fitstats else {})
        bought = [name for name in names if name in steps]
        numbers = [name for name in bought if inside[name].factor is None]
        of_which = "their slopes" if numbers == names else f"slopes of {', '.join(numbers)}"
        slopes = f"get_margeff() has {of_which}, and " if numbers else ""
        what = "steps" if numbers == bought else "changes of " + ", ".join(bought)
        buys = f"; {slopes}{argument('fitstats_variables', steps)} in the call of the fit buys {what}"
        return f"not compared: {', '.join(names)}{buys if bought else ''}; {HINT}" if names else ""

    def _default_variables(self, *, free: bool) -> list[tuple[str, float | None]]:
        """The variables compared by default: those bought, else every factor; where that is `free`, numbers as well.

        Of numbers by the step that was bought. At public rows every column that the model reads, if it can be changed.
        """
        bought = None if self.plan.fitstats is None else self.plan.fitstats.variables
        if isinstance(self.source, PublicRows):
            inside = formula_variables(self.plan.design)
            columns = {one.name: one.column_name for one in inside.values()}
            steps = {columns.get(name, name): step for name, step in bought or ()}
            steps |= {name: None for name in (*inside, *self.source.read) if name not in steps}
            read = [(name, step) for name, step in steps.items() if name in self.source.read]
            chosen = [(name, step) for name, step in read if self.source.changes(self._variable(name), step)]
        elif bought is not None and not free:
            return list(bought)
        else:
            pairs = formula_variables(self.plan.design).items()
            variables = [(name, one) for name, one in pairs if one.column in self.model.columns and one.alone]
            steps = dict(bought or ())
            variables = [(name, one) for name, one in variables if free or one.factor is not None]
            chosen = [(name, steps.get(name, steps.get(one.name))) for name, one in variables]
        if not chosen:
            barred = no_averages(self.plan.request.options, self.plan.design)
            if barred is not None:
                raise not_offered("comparisons", "", barred, self.plan.family.link)
            named = argument("fitstats_variables")
            raise NotReleasedError(f"comparisons: no factor is a term by itself; {named} buys steps of numbers; {HINT}")
        return chosen

    def _variable(self, name: str) -> Variable:
        """The variable to change; at public rows it may be any column that the formula reads."""
        design, private = self.plan.design, isinstance(self.source, PrivateRows)
        known = design.parsed.exog_columns if isinstance(design, DesignSpec) else ()
        if isinstance(self.source, PublicRows) and name in known:
            if name not in self.source.read:
                raise ArgumentError(f"variables: {name!r} is in no term of the model, which left it out (left_out)")
            # Rows can be given any of its values, whatever its terms are.
            declared = self.source.domain.get(name)
            levels = declared.values if isinstance(declared, Levels) else ()
            other = Variable(name, name, None, levels, -1, 0.0, alone=False)
            variable = formula_variables(design).get(name, other)
            return variable if self._is_of_public_cells(name, variable) else other
        named = [one.name for one in formula_variables(design).values()]
        if isinstance(self.source, PublicRows) and known and name not in named:
            columns = [column for column in known if column in self.source.read]
            near = near_miss(name, columns)
            raise ArgumentError(
                f"variables must name a column that the model reads: {', '.join(columns)}; got {safe_repr(name)}"
                f"{'' if near is None else f': did you mean {near!r}?'}"
            )
        return find_variable("variables", design, name, alone=private)

    def _is_of_public_cells(self, name: str, variable: Variable) -> bool:
        """Whether public rows can be given its values: not if it is bins of a column of numbers."""
        source = self.source
        binned = variable.factor is not None and isinstance(getattr(source, "domain", {}).get(name), Range)
        return isinstance(source, PublicRows) and not binned

    def _coefficient(self, variable: Variable, change: Change) -> Effect:
        """A change of the linear predictor."""
        model, table, weights = self.model, self.model.errors.table, np.zeros(len(self.model.columns))
        # The reference level has no column.
        columns = (variable.column,) if variable.factor is None else (None, *variable.factor.columns)
        moved = [(columns[change.after], change.size)]
        moved += [] if variable.factor is None else [(columns[change.before], -change.size)]
        for column, size in moved:
            if column is None:
                continue
            if not np.any(model.columns == column):
                raise ArgumentError(f"variables: {self.plan.names[column]} is not in the fit, which dropped it")
            weights[model.columns == column] = size
        width = contrast_width(table.estimates, weights @ model.rows @ model.errors.basis)
        return Effect(float(weights @ table.coef), width)

    def _effect(self, variable: Variable, change: Change, group: int | None, *, ratio: bool) -> Effect:
        before, after = self.source.change(variable, change, group)
        if not self.source.knows(group) or (ratio and min(before.value, after.value) <= 0):
            return Effect(math.nan, lambda alpha: math.inf)
        weights = (1 / after.value, -1 / before.value) if ratio else (1.0, -1.0)
        value = math.log(after.value / before.value) if ratio else after.value - before.value
        parts = list(zip((after, before), weights, strict=True))
        return Effect(value, self.source.half_widths(parts, group))

    def predictions(self, variables: str | None, by: str | None, alpha: float) -> pd.DataFrame:
        """The table of `ReleasedModel.predictions`."""
        check_level(alpha)
        groups, lines = self.source.groups(by), []
        named = named_variables("variables", variables)
        for level, group in groups.items():
            known = {} if by is None else {by: level}
            if named is None:
                lines.append(known | self._prediction_columns(self.source.fitted(group), group, alpha))
                continue
            name = named[0][0]
            variable = self._variable(name)
            if isinstance(self.source, PublicRows) and self._is_binary(variable):
                variable = variable._replace(levels=(0, 1))
            if not variable.levels or len(named) > 1:
                raise ArgumentError(f"variables of predictions must be one factor; {self._instead(variable)}")
            if by == name:
                raise ArgumentError(
                    f"by: every row is of each level of {safe_repr(name)} in turn; leave out one of both"
                )
            for place, value in enumerate(variable.levels):
                average = self.source.level(variable, place, group)
                lines.append({name: value} | known | self._prediction_columns(average, group, alpha))
        table = EffectFrame(pd.DataFrame(lines))
        if isinstance(self.source, PublicRows):
            table.attrs["note"] = self.source.note
        return table

    def _is_binary(self, variable: Variable) -> bool:
        """Whether a number is 0 or 1, such as a column that is declared as bool."""
        design = self.plan.design
        declared = design.domain.get(variable.column_name) if isinstance(design, DesignSpec) else None
        return not variable.levels and isinstance(declared, Range) and declared.is_binary

    def _instead(self, variable: Variable) -> str:
        """What has predictions or changes of what is no factor."""
        name = safe_repr(variable.column_name)
        if self._is_binary(variable):
            return f"{name} is a number: predictions({name}, newdata=...) has averages over public rows with 0 and 1"
        return f"comparisons has steps of {name}"

    def _prediction_columns(self, average: Average, group: int | None, alpha: float) -> dict[str, float]:
        """The columns of a table, with the interval within the range of a mean."""
        low, high = {"logit": (0.0, 1.0), "log": (0.0, math.inf)}.get(self.plan.family.link, (-math.inf, math.inf))
        ends = self.source.ends(average, group, alpha, (low, high))
        if ends is None:
            return {"estimate": math.nan, "std_error": math.inf, "conf_low": low, "conf_high": high}
        effect = Effect(average.value, self.source.half_widths([(average, 1.0)], group))
        values = (min(max(effect.value, low), high), effect.se, *ends)
        return dict(zip(("estimate", "std_error", "conf_low", "conf_high"), values, strict=True))


def public_frame(newdata: Any) -> pd.DataFrame:
    """Public rows as a frame whose columns can be replaced."""
    if not isinstance(newdata, (pd.DataFrame, Mapping)):
        raise ArgumentError(f"newdata must be a DataFrame or a dict of columns, got {safe_repr(newdata)}")
    try:
        frame = pd.DataFrame(newdata)
    except (ValueError, TypeError):
        raise ArgumentError("newdata must have columns of one length: a dict of lists, such as {'x': [1.0]}") from None
    return frame.set_axis(pd.RangeIndex(len(frame)))

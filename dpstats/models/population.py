"""What is supposed of rows that nobody has read: how columns are spread, rows and responses made up so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, special, stats

from dpstats.arguments import safe_repr
from dpstats.domain import Levels, Range, Scalar, canonical
from dpstats.errors import ArgumentError
from dpstats.families import Family, NegativeBinomial
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import Column, columns_of
from dpstats.plan import Plan
from dpstats.privacy.randomness import random_source
from dpstats.quiet import quiet

Vector = NDArray[np.float64]

QUANTILES = 1025
"""Points that the inverse of a distribution function is drawn through."""

ENDS = 1.001
"""Rows at the two ends of a range have the largest standard deviation, up to this factor."""

WHOLE = 1e-6
"""Shares of all levels may miss 1 by so much, by rounding."""


@dataclass(frozen=True)
class ColumnPrior:
    """How columns are spread of which only the declaration is known."""

    spread: float  # standard deviation of a number over its range
    curved: float  # the same of a number under a curve, which nobody fits to one that hardly moves
    off: float  # how far its mean is below the middle, over the range
    fall: float  # the k-th level's share is in proportion to k^-fall
    ones: float  # share of ones in a column of 0 and 1
    second: float  # share of the second of a response's two values
    count: float  # mean of a response that counts, over the greatest count
    deviation: float  # standard deviation of a continuous response over half of its range
    shared: float  # correlation of any two columns, before they are cut to ranges and levels


USUAL = ColumnPrior(
    spread=1 / 6, curved=1 / 6, off=1 / 16, fall=2.0, ones=0.15, second=0.25, count=0.05, deviation=0.2, shared=0.1
)
"""As data often are. All three were chosen on eight data sets and tried on eight others (docs/defaults)."""

POOR = ColumnPrior(
    spread=1 / 16, curved=1 / 8, off=1 / 8, fall=3.0, ones=0.06, second=0.12, count=0.025, deviation=0.3, shared=0.2
)
"""As ordinary data are that say less: narrow numbers off the middle, rarer levels, columns that go together."""

KNOWN = replace(USUAL, shared=0.3)
"""Where all columns are known one by one, what is left open is how they go together."""

RICH = ColumnPrior(
    spread=0.25, curved=0.25, off=0.0, fall=1.0, ones=0.3, second=0.5, count=0.1, deviation=0.08, shared=0.0
)
"""As data are that say more: numbers that nearly fill their range, levels about as common as each other."""


@dataclass(frozen=True, eq=False)
class KnownColumns:
    """What the analyst says is known of rows like those that will be fitted."""

    # by column: (mean, sd) of a number, the share of ones, a dict of shares of levels
    typical: Mapping[str, Any] = field(default_factory=dict)
    like: pd.DataFrame | None = None  # public rows

    @classmethod
    def checked(cls, design: DesignSpec, typical: object, like: object) -> KnownColumns:
        """From arguments; ArgumentError for what is not of their form or does not fit the Domain."""
        found = cls(_checked_typical(design, {} if typical is None else typical), _checked_frame(like))
        if found.like is not None:
            others = [name for name in design.columns if name not in response_scores(design)]
            missing = [name for name in others if name not in found.like and name not in found.typical]
            if missing:
                raise ArgumentError(
                    f"like has no column {missing[0]!r}, which the formula reads; say what is typical of it, as in "
                    f"typical={{{missing[0]!r}: ...}}, or add it"
                )
        return found

    def all_of(self, design: DesignSpec, *, response: bool) -> bool:
        """Whether every column that the terms read is known, and the response too if that is asked for."""
        names = {*design.parsed.predicting_columns, *(response_scores(design) if response else ())}
        return all(name in self.typical or (self.like is not None and name in self.like) for name in names)

    def has_response(self, design: DesignSpec) -> bool:
        """Whether `like` has the response, and `typical` leaves it as it is."""
        if self.like is None:
            return False
        return all(name in self.like and name not in self.typical for name in response_scores(design))

    def rows(self, design: DesignSpec, count: int, habit: ColumnPrior, random: np.random.Generator) -> dict[str, Any]:
        """Columns of `count` rows: drawn from `like` where it is given, and else as `habit` has it, but for `typical`.

        The response is a column like others, to be replaced unless it is of `like`.
        """
        common = random.standard_normal(count)
        drawn: dict[str, Any] = {}
        for name, declared in design.domain.items():
            own = random.standard_normal(count)
            place = special.ndtr(math.sqrt(habit.shared) * common + math.sqrt(1 - habit.shared) * own)
            own_habit = replace(habit, spread=habit.curved) if name in design.parsed.curved_columns else habit
            drawn[name] = _spread_out(declared, self.typical.get(name), own_habit, place)
        if self.like is not None:
            many = count > len(self.like)
            chosen = self.like.iloc[random.choice(len(self.like), size=count, replace=many)]
            drawn |= {str(name): chosen[name].to_numpy() for name in chosen if name not in self.typical}
        return drawn


def _spread_out(declared: Range | Levels, said: Any, habit: ColumnPrior, place: Vector) -> list[Any] | Vector:
    """Values of a column at places between 0 and 1, in the order of its distribution."""
    if isinstance(declared, Levels):
        codes = np.searchsorted(np.cumsum(_shares(declared, said or {}, habit))[:-1], place, side="right")
        return [declared.values[code] for code in codes]
    low, width = declared.low, declared.high - declared.low
    if said is None and zero_or_one(declared):
        said = habit.ones
    if isinstance(said, float):
        return (place > 1 - said).astype(np.float64)
    mean, deviation = (0.5 - habit.off, habit.spread) if said is None else ((said[0] - low) / width, said[1] / width)
    return np.clip(low + width * _beta(mean, deviation, place), declared.low, declared.high)


def _beta(mean: float, deviation: float, place: Vector) -> Vector:
    """Quantiles of the beta distribution of a mean and a standard deviation; constant where that is 0."""
    if deviation == 0:
        return np.full(len(place), mean)
    size = mean * (1 - mean) / deviation**2 - 1
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.interp(place, levels, stats.beta.ppf(levels, mean * size, (1 - mean) * size))


def _shares(declared: Levels, said: Mapping[float | str | None, float], habit: ColumnPrior) -> Vector:
    """Shares of the levels: those that are known, and the rest ever rarer, shape (levels,)."""
    known = np.array([said.get(canonical(level), np.nan) for level in declared.values])
    others = np.where(np.isnan(known), np.arange(1.0, len(known) + 1) ** -habit.fall, 0.0)
    left = max(0.0, 1 - np.nansum(known))
    shares = np.where(np.isnan(known), left * others / (others.sum() or 1.0), known)
    return np.asarray(shares / shares.sum())


def response_scores(design: DesignSpec) -> set[str]:
    """The columns that the response reads."""
    nodes = [node for node in (design.encoder.node, design.encoder.failures) if node is not None]
    return {name for node in nodes for name in columns_of(node)}


def zero_or_one(declared: Range) -> bool:
    """Whether a range is that of 0 and 1."""
    return (declared.low, declared.high) == (0, 1) and isinstance(declared.high, int)


def _checked_typical(design: DesignSpec, typical: object) -> dict[str, Any]:
    """Of each column its mean and standard deviation, its share of ones, or its shares by canonical level."""
    if not isinstance(typical, Mapping):
        raise ArgumentError(f"typical must be a dict such as {{'age': (45, 15)}}, got {safe_repr(typical)}")
    found: dict[str, Any] = {}
    for name, said in typical.items():
        if name not in design.domain:
            raise ArgumentError(
                f"typical: {safe_repr(name)} is no column of the formula; it reads {', '.join(design.domain)}"
            )
        declared = design.domain[name]
        found[str(name)] = (
            _checked_shares(name, declared, said) if isinstance(declared, Levels) else _checked(name, declared, said)
        )
    return found


def _checked_shares(name: str, declared: Levels, said: object) -> dict[Any, float]:
    form = f"typical: {name!r} has levels; give shares of some or all, such as {{{declared.values[-1]!r}: 0.1}}"
    if not isinstance(said, Mapping) or not said:
        raise ArgumentError(f"{form}; got {safe_repr(said)}")
    codes, found = declared.code_of(), {}
    for level, share in said.items():
        known = canonical(level)
        if known not in codes:
            raise ArgumentError(
                f"typical: {name!r} has no level {safe_repr(level)}; it has {safe_repr(declared.values)}"
            )
        if not _is_number(share) or not 0 <= share <= 1:
            raise ArgumentError(f"{form}; got {safe_repr(share)} for {safe_repr(level)}")
        found[known] = float(share)
    total = sum(found.values())
    if total > 1 + WHOLE or (len(found) == len(codes) and total < 1 - WHOLE):
        raise ArgumentError(f"typical: the shares of the levels of {name!r} add up to {total:.4g}, not 1")
    return found


def _checked(name: str, declared: Range, said: object) -> float | tuple[float, float]:
    if zero_or_one(declared) and _is_number(said) and 0 <= said <= 1:  # type: ignore[operator]
        return float(said)  # type: ignore[arg-type]
    low, high = declared.low, declared.high
    if not isinstance(said, (tuple, list)) or len(said) != 2 or not all(map(_is_number, said)):
        ones = ", or the share of ones" if zero_or_one(declared) else ""
        raise ArgumentError(
            f"typical: {name!r} is a number; give its mean and sd as a pair{ones}; got {safe_repr(said)}"
        )
    mean, deviation = float(said[0]), float(said[1])
    if not low <= mean <= high:
        raise ArgumentError(f"typical: the mean of {name!r} must be within its range, {low:g} to {high:g}")
    most = math.sqrt((mean - low) * (high - mean))
    if not 0 <= deviation <= ENDS * most:
        raise ArgumentError(
            f"typical: the sd of {name!r} must be at least 0 and, for a mean of {mean:g}, at most {most:.4g} (the ends "
            "of its range)"
        )
    if zero_or_one(declared) and deviation >= most / ENDS:
        return mean
    # A standard deviation of a sample may be a little more than that of rows at the two ends of the range.
    return mean, min(deviation, most / ENDS)


def _is_number(value: object) -> bool:
    return (
        isinstance(value, (int, float, np.integer, np.floating))
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def _checked_frame(like: object) -> pd.DataFrame | None:
    """Public rows as a frame of pandas."""
    if like is None:
        return None
    frame: Any = like
    if not isinstance(frame, (pd.DataFrame, Mapping)) and hasattr(frame, "to_pandas"):
        frame = frame.to_pandas()
    if not isinstance(frame, (pd.DataFrame, Mapping)):
        raise ArgumentError(f"like must be a frame of public rows, or a dict of columns; got {safe_repr(like)}")
    try:
        frame = pd.DataFrame(frame)
    except ValueError:
        raise ArgumentError("like must be a frame of public rows, or a dict of columns of one length") from None
    if not len(frame):
        raise ArgumentError("like must have rows")
    if not frame.columns.is_unique:
        raise ArgumentError("like has several columns of one name; leave one of each")
    return frame


EXPLAINED = 0.5
"""Of the spread of a continuous response that is made up, the share that the columns explain."""

MOST_COUNTS = 1e15
"""Greater means of counts are not drawn."""

RAREST = 1e-4
"""A response whose second value is rarer, or whose mean count is less, is taken to be so."""

ROWS_EACH = 3
"""Rows of a person who is made up."""


class Level(NamedTuple):
    """Where a response lies: its mean in model units, of two values the share of the second; and its deviation."""

    mean: float
    deviation: float


def population_rows(plan: Plan, n: int, seed: int, typical: object = None, like: object = None) -> pd.DataFrame:
    """Rows that are made up; see `Plan.made_up`. The response must be a column by itself, or in `like`."""
    design = plan.design
    n = checked_rows(n, 10**7)
    if not isinstance(design, DesignSpec):
        raise ArgumentError("simulate needs a formula")
    known = KnownColumns.checked(design, typical, like)
    response = design.encoder.node
    if not known.has_response(design) and (not isinstance(response, Column) or design.encoder.failures):
        raise ArgumentError(
            "simulate needs a formula whose response is one column, as in y ~ x, not log(y) ~ x, or like= rows that "
            "have it"
        )
    random_source(seed)  # refuses what is no seed
    random = np.random.default_rng(seed)
    table = known.rows(design, int(n), USUAL, random)
    if not known.has_response(design):
        assert isinstance(response, Column)
        with quiet():
            level = response_level(design, known, USUAL, table)
            exog, complete, offset = design.predicting(table, offset=True)
            signal = population_signal(np.where(complete[:, None], np.nan_to_num(exog), 0.0), random)
            table[response.name] = _response(plan.family, design, signal, np.nan_to_num(offset), level, random)
    person = plan.request.options.record.column
    if person is not None:
        table[person] = np.arange(n) // ROWS_EACH
    return pd.DataFrame(table)


def population_signal(exog: Vector, random: np.random.Generator) -> Vector:
    """What coefficients drawn at random make of rows, of mean 0 and variance 1, shape (rows,)."""
    signal = exog @ random.standard_normal(exog.shape[1])
    return np.asarray((signal - signal.mean()) / (signal.std() or 1.0))


def response_level(design: DesignSpec, known: KnownColumns, habit: ColumnPrior, table: Mapping[str, Any]) -> Level:
    """Where the response of the rows of `table` lies: as `typical` says, or else as a habit has it."""
    if any(name in known.typical for name in response_scores(design)):
        values = design.endog(table)
        values = values[np.isfinite(values)]
        if not len(values):
            raise ArgumentError(f"typical: {design.response_name} has no value at what is typical of its columns")
        return Level(float(values.mean()), float(values.std()))
    if design.response.kind == "binary":
        return Level(habit.second, 0.0)
    if design.response.kind == "count":
        return Level(habit.count * design.response.high, 0.0)
    return Level(0.0, habit.deviation)


def linear_predictor(design: DesignSpec, signal: Vector, offset: Vector, level: Level) -> Vector:
    """The linear predictor of a signal in model units, shape (rows,), for a response about a level."""
    if design.response.kind == "binary":
        return signal + _shift(signal, min(max(level.mean, RAREST), 1 - RAREST))
    if design.response.kind == "count":
        eta = 0.5 * signal + offset
        return np.asarray(eta + np.log(max(level.mean, RAREST)) - np.log(np.mean(np.exp(eta))))
    return np.asarray(level.mean + np.sqrt(EXPLAINED) * level.deviation * signal)


def _shift(signal: Vector, share: float) -> float:
    """What to add for a mean probability of `share`."""

    def excess(shift: float) -> float:
        return float(np.mean(special.expit(signal + shift))) - share

    end = float(np.max(np.abs(signal))) + abs(special.logit(share))
    return float(optimize.brentq(excess, -end, end, xtol=1e-6))


def counts(family: Family, means: Vector, random: np.random.Generator) -> Vector:
    """Counts of some means that vary as the family has it, shape (rows,)."""
    if isinstance(family, NegativeBinomial):
        means = means * random.gamma(1 / family.alpha, family.alpha, len(means))
    return np.asarray(random.poisson(np.minimum(means, MOST_COUNTS)), dtype=np.float64)


def _response(
    family: Family, design: DesignSpec, signal: Vector, offset: Vector, level: Level, random: np.random.Generator
) -> list[Scalar] | Vector:
    """A response for a signal, in the units of the data."""
    eta = linear_predictor(design, signal, offset, level)
    if design.response.kind == "binary":
        second = random.uniform(size=len(signal)) < special.expit(eta)
        declared = design.domain[design.response_name]
        levels = declared.values if isinstance(declared, Levels) else (0, 1)
        return [levels[int(one)] for one in second]
    if design.response.kind == "count":
        high = design.response.high
        return np.minimum(counts(family, np.minimum(np.exp(eta), high), random), high)
    low, high = design.response.low, design.response.high
    unit = eta + np.sqrt(1 - EXPLAINED) * level.deviation * random.standard_normal(len(signal))
    return np.clip((low + high) / 2 + (high - low) / 2 * unit, low, high)


def checked_rows(n: object, most: int) -> int:
    """A number of rows; ArgumentError unless it is a whole one from 1 to `most`."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 1 <= n <= most:
        raise ArgumentError(f"n must be a whole number of rows from 1 to {most:,}, got {safe_repr(n)}")
    return int(n)

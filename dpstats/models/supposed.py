"""What is supposed of rows that nobody has read: how columns are spread, and rows that are drawn so.

Everything here is public: the Domain, rules of thumb, and what the analyst says is known (`typical`, `like`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special, stats

from dpstats.arguments import shown
from dpstats.domain import Levels, Range, canonical
from dpstats.errors import ArgumentError
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import columns_of

Vector = NDArray[np.float64]

QUANTILES = 1025
"""Points that the inverse of a distribution function is drawn through."""

ENDS = 1.001
"""Rows at the two ends of a range have the largest standard deviation, up to this factor."""

WHOLE = 1e-6
"""Shares of all levels may miss 1 by so much, by rounding."""


@dataclass(frozen=True)
class Habit:
    """How columns are spread of which only the declaration is known.

    Attributes
    ----------
    spread : float
        Standard deviation of a number over its range.
    curved : float
        The same of a number that a curve is fitted over, which nobody does to one that hardly moves.
    off : float
        How far its mean is below the middle, over the range.
    fall : float
        The k-th level's share is in proportion to k^-fall.
    ones : float
        Share of ones in a column of 0 and 1.
    second : float
        Share of the second of a response's two values.
    count : float
        Mean of a response that counts, over the greatest count.
    deviation : float
        Standard deviation of a continuous response over half of its range.
    shared : float
        Correlation of any two columns, before they are cut to ranges and levels.
    """

    spread: float
    curved: float
    off: float
    fall: float
    ones: float
    second: float
    count: float
    deviation: float
    shared: float


USUAL = Habit(
    spread=1 / 6, curved=1 / 6, off=1 / 16, fall=2.0, ones=0.15, second=0.25, count=0.05, deviation=0.2, shared=0.1
)
"""As data often are. All three were chosen on eight data sets and tried on eight others (docs/defaults)."""

POOR = Habit(
    spread=1 / 16, curved=1 / 8, off=1 / 8, fall=3.0, ones=0.06, second=0.12, count=0.025, deviation=0.3, shared=0.2
)
"""As ordinary data are that say less: narrow numbers off the middle, rarer levels, columns that go together."""

KNOWN = replace(USUAL, shared=0.3)
"""Where all columns are known one by one, what is left open is how they go together."""

RICH = Habit(spread=0.25, curved=0.25, off=0.0, fall=1.0, ones=0.3, second=0.5, count=0.1, deviation=0.08, shared=0.0)
"""As data are that say more: numbers that nearly fill their range, levels about as common as each other."""


@dataclass(frozen=True, eq=False)
class Known:
    """What the analyst says is known of rows like those that will be fitted.

    Attributes
    ----------
    typical : dict
        By column of the Domain: (mean, sd) of a number, the share of ones of 0 and 1, a dict of shares of levels.
    like : DataFrame or None
        Public rows.
    """

    typical: Mapping[str, Any] = field(default_factory=dict)
    like: pd.DataFrame | None = None

    @classmethod
    def checked(cls, design: DesignSpec, typical: object, like: object) -> Known:
        """From arguments; ArgumentError for what is not of their form or does not fit the Domain."""
        found = cls(_checked_typical(design, {} if typical is None else typical), _checked_frame(like))
        if found.like is not None:
            others = [name for name in design.columns if name not in answering(design)]
            missing = [name for name in others if name not in found.like and name not in found.typical]
            if missing:
                raise ArgumentError(
                    f"like has no column {missing[0]!r}, which the formula reads; say what is typical of it, as in "
                    f"typical={{{missing[0]!r}: ...}}, or add it"
                )
        return found

    def all_of(self, design: DesignSpec, *, response: bool) -> bool:
        """Whether every column that the terms read is known, and the response too if that is asked for."""
        names = {*design.predicting_columns, *(answering(design) if response else ())}
        return all(name in self.typical or (self.like is not None and name in self.like) for name in names)

    def has_response(self, design: DesignSpec) -> bool:
        """Whether `like` has the response, and `typical` leaves it as it is."""
        if self.like is None:
            return False
        return all(name in self.like and name not in self.typical for name in answering(design))

    def rows(self, design: DesignSpec, count: int, habit: Habit, random: np.random.Generator) -> dict[str, Any]:
        """Columns of `count` rows: drawn from `like` where it is given, and else as `habit` has it, but for `typical`.

        The response is a column like others, to be replaced unless it is of `like`.
        """
        common = random.standard_normal(count)
        drawn: dict[str, Any] = {}
        for name, declared in design.domain.items():
            own = random.standard_normal(count)
            place = special.ndtr(math.sqrt(habit.shared) * common + math.sqrt(1 - habit.shared) * own)
            own_habit = replace(habit, spread=habit.curved) if name in design.curved_columns else habit
            drawn[name] = _spread_out(declared, self.typical.get(name), own_habit, place)
        if self.like is not None:
            many = count > len(self.like)
            chosen = self.like.iloc[random.choice(len(self.like), size=count, replace=many)]
            drawn |= {str(name): chosen[name].to_numpy() for name in chosen if name not in self.typical}
        return drawn


def _spread_out(declared: Range | Levels, said: Any, habit: Habit, place: Vector) -> list[Any] | Vector:
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


def _shares(declared: Levels, said: Mapping[float | str | None, float], habit: Habit) -> Vector:
    """Shares of the levels: those that are known, and the rest ever rarer, shape (levels,)."""
    known = np.array([said.get(canonical(level), np.nan) for level in declared.values])
    others = np.where(np.isnan(known), np.arange(1.0, len(known) + 1) ** -habit.fall, 0.0)
    left = max(0.0, 1 - np.nansum(known))
    shares = np.where(np.isnan(known), left * others / (others.sum() or 1.0), known)
    return np.asarray(shares / shares.sum())


def answering(design: DesignSpec) -> set[str]:
    """The columns that the response reads."""
    nodes = [node for node in (design.encoder.node, design.encoder.failures) if node is not None]
    return {name for node in nodes for name in columns_of(node)}


def zero_or_one(declared: Range) -> bool:
    """Whether a range is that of 0 and 1."""
    return (declared.low, declared.high) == (0, 1) and isinstance(declared.high, int)


def _checked_typical(design: DesignSpec, typical: object) -> dict[str, Any]:
    """Of each column its mean and standard deviation, its share of ones, or its shares by canonical level."""
    if not isinstance(typical, Mapping):
        raise ArgumentError(f"typical must be a dict such as {{'age': (45, 15)}}, got {shown(typical)}")
    found: dict[str, Any] = {}
    for name, said in typical.items():
        if name not in design.domain:
            raise ArgumentError(
                f"typical: {shown(name)} is no column of the formula; it reads {', '.join(design.domain)}"
            )
        declared = design.domain[name]
        found[str(name)] = (
            _checked_shares(name, declared, said) if isinstance(declared, Levels) else _checked(name, declared, said)
        )
    return found


def _checked_shares(name: str, declared: Levels, said: object) -> dict[Any, float]:
    form = f"typical: {name!r} has levels; give shares of some or all, such as {{{declared.values[-1]!r}: 0.1}}"
    if not isinstance(said, Mapping) or not said:
        raise ArgumentError(f"{form}; got {shown(said)}")
    codes, found = declared.code_of(), {}
    for level, share in said.items():
        known = canonical(level)
        if known not in codes:
            raise ArgumentError(f"typical: {name!r} has no level {shown(level)}; it has {shown(declared.values)}")
        if not _is_number(share) or not 0 <= share <= 1:
            raise ArgumentError(f"{form}; got {shown(share)} for {shown(level)}")
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
        raise ArgumentError(f"typical: {name!r} is a number; give its mean and sd as a pair{ones}; got {shown(said)}")
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
        raise ArgumentError(f"like must be a frame of public rows, or a dict of columns; got {shown(like)}")
    try:
        frame = pd.DataFrame(frame)
    except ValueError:
        raise ArgumentError("like must be a frame of public rows, or a dict of columns of one length") from None
    if not len(frame):
        raise ArgumentError("like must have rows")
    if not frame.columns.is_unique:
        raise ArgumentError("like has several columns of one name; leave one of each")
    return frame

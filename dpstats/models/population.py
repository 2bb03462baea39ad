"""What is supposed of rows that nobody has read: how columns are spread, rows and responses made up so."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, special

from dpstats.arguments import check_row_count, is_number, safe_repr
from dpstats.data import Block, Rows, Table
from dpstats.domain import Levels, Range, Scalar, canonical
from dpstats.domain.declarations import ENDS
from dpstats.errors import ArgumentError
from dpstats.families import Family, NegativeBinomial
from dpstats.families.base import closed_cap
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import Apply, Column, as_codes, bind, columns_of, evaluate
from dpstats.formula.public_frame import Codes, Encoded
from dpstats.plan import Plan
from dpstats.privacy.randomness import random_source
from dpstats.quiet import quiet
from dpstats.wording import phrase

Vector = NDArray[np.float64]

LEVELS = (np.arange(1025) + 0.5) / 1025
"""Points that the inverse of a distribution function is drawn through."""

WHOLE = 1e-6
"""Shares of all levels may miss 1 by so much, by rounding."""


@dataclass(frozen=True)
class ColumnPrior:
    """How columns are spread of which only the declaration is known."""

    spread: float  # standard deviation of a number over its range
    curved: float  # the same of a number under a curve, which nobody fits to one that hardly moves
    off: float  # how far its mean is below the middle, over the range
    inner: tuple[float, float]  # off and spread over an interval that `inner=` declares
    fall: float  # the k-th level's share is in proportion to k^-fall
    ones: float  # share of ones in a column of 0 and 1
    second: float  # share of the second of a response's two values
    count: float  # mean of a response that counts, over the greatest count
    deviation: float  # standard deviation of a continuous response over half of its range
    shared: float  # correlation of any two columns, before they are cut to ranges and levels
    # So many times the usual standard deviation of the linear predictor: how strongly columns predict the response.
    strength: float = 1.0


USUAL = ColumnPrior(
    spread=1 / 6,
    curved=1 / 6,
    off=1 / 16,
    inner=(1 / 16, 1 / 6),
    fall=2.0,
    ones=0.15,
    second=0.25,
    count=0.05,
    deviation=0.2,
    shared=0.1,
)
"""As data often are. All three were chosen on eight data sets and tried on eight others (docs/defaults)."""

POOR = ColumnPrior(
    spread=1 / 16,
    curved=1 / 8,
    off=1 / 8,
    inner=(0.3, 1 / 8),
    fall=3.0,
    ones=0.06,
    second=0.12,
    count=0.025,
    deviation=0.3,
    shared=0.2,
)
"""As ordinary data are that say less: narrow numbers off the middle, rarer levels, columns that go together."""

KNOWN = replace(USUAL, shared=0.3)
"""Where all columns are known one by one, what is left open is how they go together."""

INDEPENDENT = replace(KNOWN, shared=0.0)
"""Columns that go together give a slope a larger error, but an intercept a smaller one if their means are on one side
of 0: errors of known columns are the larger ones of the two."""

RICH = ColumnPrior(
    spread=0.25,
    curved=0.25,
    off=0.0,
    inner=(0.0, 0.25),
    fall=1.0,
    ones=0.3,
    second=0.5,
    count=0.1,
    deviation=0.08,
    shared=0.0,
)
"""As data are that say more: numbers that nearly fill their range, levels about as common as each other."""


@dataclass(frozen=True, eq=False)
class KnownColumns:
    """What the analyst says is known of rows like those that will be fitted."""

    # by column: (mean, sd) of a number, the share of ones, a dict of shares of levels
    typical: Mapping[str, Any] = field(default_factory=dict)
    like: pd.DataFrame | None = None  # public rows
    bought: frozenset[str] = frozenset()  # columns of which a fit bought the inner interval

    @classmethod
    def from_arguments(
        cls, design: DesignSpec, typical: object, like: object, *, bought: Iterable[str] = ()
    ) -> KnownColumns:
        """From arguments; ArgumentError for what is not of their form or does not fit the Domain."""
        declared = {name: one.typical for name, one in design.domain.items() if isinstance(one, Range) and one.typical}
        given = {} if typical is None else _check_typical(design, typical)
        public = None if like is None else _public_frame(like)
        if public is not None:  # public rows say more: shapes, and how columns go together
            declared = {name: one for name, one in declared.items() if name not in public}
        known = cls(_check_typical(design, declared) | given, public, frozenset(bought))
        if known.like is not None:
            others = [name for name in design.columns if name not in design.parsed.response_columns]
            missing = [name for name in others if name not in known.like and name not in known.typical]
            if missing:
                raise ArgumentError(
                    f"like has no column {missing[0]!r}, which the formula reads; add it, or describe it by "
                    f"typical={{{missing[0]!r}: ...}}"
                )
        return known

    def has(self, names: Iterable[str]) -> bool:
        """Whether all these columns are known."""
        return all(name in self.typical or (self.like is not None and name in self.like) for name in names)

    def covers(self, design: DesignSpec, without: Sequence[str] = (), *, response: bool) -> bool:
        """Whether every column that the terms read is known, `without` some, and the response too if asked for."""
        names = {*design.parsed.predicting_columns, *(design.parsed.response_columns if response else ())}
        return self.has(names - set(without))

    def has_response(self, design: DesignSpec) -> bool:
        """Whether `like` has the response, and `typical` leaves it as it is."""
        return self.in_like(design.parsed.response_columns)

    def in_like(self, names: Iterable[str]) -> bool:
        """Whether `like` has all these columns, and `typical` leaves them as they are."""
        return self.like is not None and all(name in self.like and name not in self.typical for name in names)

    def numbers(self, name: str, declared: Range) -> Vector | None:
        """Values of a column as it is known to be spread, shape (rows,); None of one that is not."""
        if name in self.typical:
            return _column_values(declared, self.typical[name], KNOWN, LEVELS)  # type: ignore[return-value]
        if self.like is None or name not in self.like:
            return None
        return pd.to_numeric(self.like[name], errors="coerce").to_numpy(dtype=np.float64)

    def rows(self, design: DesignSpec, count: int, prior: ColumnPrior, random: np.random.Generator) -> dict[str, Any]:
        """Columns of `count` rows: drawn from `like` where it is given, and else as `prior` has it, but for `typical`.

        The response is a column like others, to be replaced unless it is of `like`.
        """
        columns = decoded(self.drawn(design, count, prior, random))
        if self.like is not None:
            many = count > len(self.like)
            chosen = self.like.iloc[random.choice(len(self.like), size=count, replace=many)]
            columns |= {str(name): chosen[name].to_numpy() for name in chosen if name not in self.typical}
        return columns

    def drawn(
        self, design: DesignSpec, count: int, prior: ColumnPrior, random: np.random.Generator
    ) -> dict[str, Encoded]:
        """The columns of `rows` without those of `like`, as a design encodes them."""
        common = random.standard_normal(count)
        columns: dict[str, Encoded] = {}
        curved, parsed = design.parsed.curved_columns, design.parsed
        for name, ranged in design.domain.items():
            # Of a range of which nothing is typical nearly all rows are taken to lie where they are kept.
            declared = ranged if name in self.typical else design.support[name]
            single = random.standard_normal(count)
            place = special.ndtr(math.sqrt(prior.shared) * common + math.sqrt(1 - prior.shared) * single)
            of_column = replace(prior, spread=prior.curved) if name in curved else prior
            if isinstance(ranged, Range) and ranged.inner is not None:
                # inner= is recommended for skewed columns: it often holds a long tail, which one that was bought leaves
                # out, as the narrowest of several that hold nearly all rows.
                off, spread = prior.inner
                if name in self.bought:
                    off, spread = min(off, USUAL.off), max(spread, USUAL.spread)
                of_column = replace(of_column, off=off, spread=spread)
            typical = self.typical.get(name)
            # A declared (0, 1) is 0 or 1, but for an exposure.
            if typical is None and name in parsed.exposures and isinstance(declared, Range) and declared.is_binary:
                typical = 0.5 - prior.off, prior.spread
            columns[name] = _column_values(declared, typical, of_column, place)
            if typical is None and isinstance(declared, Range):
                parts = _level_parts(design, name, declared)
                columns[name] = _values_in_parts(parts, declared, of_column, place, columns[name])
        return columns


def decoded(columns: Mapping[str, Encoded]) -> dict[str, Any]:
    """Encoded columns as cells."""
    return {
        name: [one.levels[code] for code in one.values] if isinstance(one, Codes) else one
        for name, one in columns.items()
    }


def _column_values(declared: Range | Levels, typical: Any, prior: ColumnPrior, place: Vector) -> Encoded:
    """Values of a column at places between 0 and 1, in the order of its distribution."""
    if isinstance(declared, Levels):
        shares = np.cumsum(_shares(declared, typical or {}, prior))
        return Codes(np.searchsorted(shares[:-1], place, side="right"), declared.values)
    low, width = declared.low, declared.high - declared.low
    if typical is None and declared.is_binary:
        typical = prior.ones
    if isinstance(typical, float):
        return (place > 1 - typical).astype(np.float64)
    mean, deviation = (
        (0.5 - prior.off, prior.spread) if typical is None else ((typical[0] - low) / width, typical[1] / width)
    )
    if not deviation:
        shares = np.full(len(place), mean)
    else:  # what `np.interp` makes of quantiles at `LEVELS`, which lie evenly: nothing is searched for
        quantiles, slopes = _beta(mean, deviation)
        at = np.clip((place * len(LEVELS) - 0.5).astype(np.intp), 0, len(LEVELS) - 2)
        shares = np.clip(slopes[at] * (place - LEVELS[at]) + quantiles[at], quantiles[0], quantiles[-1])
    return np.clip(low + width * shares, declared.low, declared.high)


def _level_parts(design: DesignSpec, name: str, declared: Range) -> Vector:
    """The parts of a column's range that its terms tell apart, if all make levels of it, as `cut(x, [0, 10, 20])`.

    Their ends as shares of the range, shape (parts, 2), without values of no level; no parts if a term has numbers.
    """
    nodes = {factor.code: factor.node for term in design.parsed.terms for factor in term}
    read = [node for node in nodes.values() if name in columns_of(node)]
    plain = (not isinstance(node, Apply) or columns_of(node) != (name,) for node in read)
    if declared.is_binary or any(plain):
        return np.zeros((0, 2))
    rows = {name: declared.low + (declared.high - declared.low) * LEVELS}
    levels = [as_codes(evaluate(bind(node, design.domain), rows)) for node in read]
    codes = [one.values for one in levels if one is not None]
    if not codes or len(codes) < len(levels):
        return np.zeros((0, 2))
    differ = np.any(np.diff(codes, axis=1), axis=0)
    ends = np.r_[0, np.flatnonzero(differ) + 1, len(LEVELS)]
    parts = np.column_stack((ends[:-1], ends[1:]))
    return np.asarray(parts[np.min(codes, axis=0)[ends[:-1]] >= 0] / len(LEVELS))


def _values_in_parts(parts: Vector, declared: Range, prior: ColumnPrior, place: Vector, usual: Encoded) -> Encoded:
    """A column's values at places in its order, as `usual` or so that no part of its range has too few rows.

    Breaks are written where there are rows: the rarest of the parts has the share of the rarest of so many levels.
    """
    if not len(parts):
        return usual
    values = np.asarray(_column_values(declared, None, prior, LEVELS))
    scaled = (values - declared.low) / (declared.high - declared.low)
    shares = np.diff(np.searchsorted(scaled, parts), axis=1)[:, 0] / len(LEVELS)
    least = _shares(Levels(tuple(range(len(parts)))), {}, prior).min()
    if (shares >= least).all():
        return usual
    shares = np.maximum(shares, least)
    begins = np.r_[0.0, np.cumsum(shares / shares.sum())]
    at = np.clip(np.searchsorted(begins, place, side="right") - 1, 0, len(parts) - 1)
    within = (place - begins[at]) / np.diff(begins)[at]
    return np.asarray(declared.low + (declared.high - declared.low) * (parts[at, 0] + within * np.diff(parts)[at, 0]))


@lru_cache(maxsize=64)
def _beta(mean: float, deviation: float) -> tuple[Vector, Vector]:
    """Quantiles of the beta distribution of a mean and a standard deviation at `LEVELS`, with the slopes between."""
    size = mean * (1 - mean) / deviation**2 - 1
    quantiles = np.asarray(special.betaincinv(mean * size, (1 - mean) * size, LEVELS))
    return quantiles, np.diff(quantiles) / np.diff(LEVELS)


def _shares(declared: Levels, typical: Mapping[float | str | None, float], prior: ColumnPrior) -> Vector:
    """Shares of the levels: those that are known, and the rest ever rarer, shape (levels,)."""
    known = np.array([typical.get(canonical(level), np.nan) for level in declared.values])
    others = np.where(np.isnan(known), np.arange(1.0, len(known) + 1) ** -prior.fall, 0.0)
    left = max(0.0, 1 - np.nansum(known))
    shares = np.where(np.isnan(known), left * others / (others.sum() or 1.0), known)
    return np.asarray(shares / shares.sum())


def _check_typical(design: DesignSpec, typical: object) -> dict[str, Any]:
    """Of each column its mean and standard deviation, its share of ones, or its shares by canonical level (of two the
    share of the second is enough)."""
    if not isinstance(typical, Mapping):
        raise ArgumentError(f"typical must be a dict such as {{'age': (45, 15)}}, got {safe_repr(typical)}")
    marginals: dict[str, Any] = {}
    for name, given in typical.items():
        if name not in design.domain:
            raise ArgumentError(
                f"{_typical()}: {safe_repr(name)} is no column of the formula; it reads {', '.join(design.domain)}"
            )
        declared = design.domain[name]
        if isinstance(declared, Levels):
            marginals[str(name)] = _check_shares(name, declared, given)
            continue
        checked = _check_number(name, declared, given)
        events = design.response.kind == "binary" and name == design.response_name
        # Of 0 and 1 the mean tells the spread.
        marginals[str(name)] = checked[0] if events and isinstance(checked, tuple) else checked
    return marginals


def _check_shares(name: str, declared: Levels, given: object) -> dict[Any, float]:
    last = declared.values[-1]
    # A shell quotes with single marks.
    quoted = phrase(repr(last), shell=json.dumps(last) if isinstance(last, str) else repr(last))
    form = f"{name!r} has levels; give shares of some or all, such as {_typed(name, f'{{{quoted}: 0.1}}')}"
    if len(declared.values) == 2:
        form += f", or {_typed(name, '0.1')}, the share of {last!r}"
        if is_number(given):
            given = {last: given}
    form = f"{_typical()}: {form}"
    if not isinstance(given, Mapping) or not given:
        raise ArgumentError(f"{form}; got {safe_repr(given)}")
    codes, shares = declared.code_of(), {}
    for level, share in given.items():
        known = canonical(level)
        if known not in codes:
            raise ArgumentError(
                f"{_typical()}: {name!r} has no level {safe_repr(level)}; it has {safe_repr(declared.values)}"
            )
        if not is_number(share) or not 0 <= share <= 1:
            raise ArgumentError(f"{form}; got {safe_repr(share)} for {safe_repr(level)}")
        shares[known] = float(share)
    total = sum(shares.values())
    if total > 1 + WHOLE or (len(shares) == len(codes) and total < 1 - WHOLE):
        raise ArgumentError(f"{_typical()}: the shares of the levels of {name!r} add up to {total:.4g}, not 1")
    return shares


def _check_number(name: str, declared: Range, given: object) -> float | tuple[float, float]:
    if declared.is_binary and is_number(given) and 0 <= given <= 1:
        return float(given)
    low, high = declared.low, declared.high
    if not isinstance(given, (tuple, list)) or len(given) != 2 or not all(map(is_number, given)):
        pair = phrase("(MEAN, SD)", shell="[MEAN, SD]")
        if is_number(given) and low <= given <= high:
            pair = pair.replace("MEAN", f"{given:g}")
        ones = f", or the share of ones, as in {_typed(name, '0.1')}" if declared.is_binary else ""
        raise ArgumentError(
            f"{_typical()}: {name!r} is numeric; give its mean and standard deviation, as in "
            f"{_typed(name, pair)}{ones}; got {safe_repr(given)}"
        )
    mean, deviation = float(given[0]), float(given[1])
    if not low <= mean <= high:
        raise ArgumentError(f"{_typical()}: the mean of {name!r} must be within its range, {low:g} to {high:g}")
    most = math.sqrt((mean - low) * (high - mean))
    if not 0 <= deviation <= ENDS * most:
        raise ArgumentError(
            f"{_typical()}: the sd of {name!r} must be at least 0 and, for a mean of {mean:g}, at most {most:.4g} (the "
            "ends of its range)"
        )
    if declared.is_binary and deviation >= most / ENDS:
        return mean
    # A standard deviation of a sample may be a little more than that of rows at the two ends of the range.
    return mean, min(deviation, most / ENDS)


def _typical() -> str:
    """The argument that describes rows, as it begins a message."""
    return phrase("typical", shell="--typical")


def _typed(name: str, known: str) -> str:
    """How to type what is known of a column."""
    return phrase(f"typical={{{name!r}: {known}}}", shell=f"--typical {shlex.quote(f'{name}={known}')}")


def _public_frame(like: object) -> pd.DataFrame:
    """Public rows as a frame of pandas."""
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
        raise ArgumentError("like has several columns of one name; keep one of each")
    return frame


EXPLAINED = 0.5
"""Of the spread of a continuous response that is made up, the share that the columns explain."""

MOST_COUNTS = 1e15
"""Greater means of counts are not drawn."""

RAREST = 1e-4
"""A response whose second value is rarer, or whose mean count is less, is taken to be so."""

KNOWN_COUNTS = 16_384
"""So many counts are drawn where their mean and standard deviation are known."""

ROWS_EACH = 3
"""Rows of a person who is made up."""


class Level(NamedTuple):
    """Where a response lies: its mean in model units, of two values the share of the second; and its deviation."""

    mean: float
    deviation: float


class RecordPieces(Protocol):
    """Records that are divided into pieces, the rows of a design, and how such records are made up."""

    @property
    def design(self) -> DesignSpec:
        """Of the pieces."""

    @property
    def records(self) -> DesignSpec:
        """What reads records as they stand in the data; what responds may be among its terms."""

    @property
    def responses(self) -> tuple[str, ...]:
        """The columns that respond, and by which an analyst describes how."""

    @property
    def clipping(self) -> tuple[str, ...]:
        """Columns of numbers that may lie beyond their range by intent."""

    def rows(self, table: Table) -> Rows[Block]:
        """Pieces of the records of a table, in model units."""

    def used(self, table: Table) -> int:
        """How many records of a table have pieces."""

    def made_up(
        self, known: KnownColumns, count: int, prior: ColumnPrior, random: np.random.Generator
    ) -> tuple[RecordPieces, dict[str, Any]]:
        """Records with a response, which is that of `like` where that has one, and what makes pieces of them."""


def population_rows(
    plan: Plan, n: int, seed: int, typical: object = None, like: object = None, pieces: RecordPieces | None = None
) -> pd.DataFrame:
    """Rows that are made up; see `Plan.made_up`. The response must be a column by itself, or in `like`."""
    design = plan.design if pieces is None else pieces.records
    n = check_row_count(n, 10**7)
    if not isinstance(design, DesignSpec):
        raise ArgumentError("simulate needs a formula")
    known = KnownColumns.from_arguments(design, typical, like)
    random_source(seed)  # refuses what is no seed
    random = np.random.default_rng(seed)
    if pieces is not None:
        record_pieces, table = pieces.made_up(known, n, USUAL, random)
        if record_pieces is not pieces:
            raise ArgumentError(NO_RESPONSE)
        return pd.DataFrame(table)
    table = made_up_rows(design, plan.family, known, n, USUAL, random)
    person = plan.request.options.record.column
    if person is not None:
        table[person] = np.arange(n) // ROWS_EACH
    return pd.DataFrame(table)


NO_RESPONSE = (
    "simulate needs a formula whose response is one column, as in y ~ x, not log(y) ~ x, or like= rows that have it"
)
"""Of what else no response is made up."""


def made_up_rows(
    design: DesignSpec,
    family: Family,
    known: KnownColumns,
    count: int,
    prior: ColumnPrior,
    random: np.random.Generator,
) -> dict[str, Any]:
    """Columns of rows with a response, which is made up unless `like` has it; ArgumentError unless it is one column."""
    response = design.encoder.node
    if not known.has_response(design) and (not isinstance(response, Column) or design.encoder.failures):
        raise ArgumentError(NO_RESPONSE)
    table = known.rows(design, count, prior, random)
    if not known.has_response(design):
        assert isinstance(response, Column)
        with quiet():
            exog, complete, offset = design.predicting(table, offset=True)
            exog = np.where(complete[:, None], np.nan_to_num(exog), 0.0)
            if design.response.kind == "class":
                declared = design.domain[response.name]
                assert isinstance(declared, Levels)
                typical = known.typical.get(response.name, {})
                places = _levels(family, declared, typical, exog, prior, random)
                table[response.name] = [declared.values[place] for place in places]
            else:
                level = response_level(design, known, prior, lambda: table)
                signal = prior.strength * population_signal(exog, random)
                table[response.name] = _response(family, design, signal, np.nan_to_num(offset), level, random)
    return table


def _levels(
    family: Family,
    declared: Levels,
    typical: Mapping[float | str | None, float],
    exog: Vector,
    prior: ColumnPrior,
    random: np.random.Generator,
) -> NDArray[np.intp]:
    """Places of a response's levels for rows: between cut-points on a scale, or by a linear predictor for each."""
    shares = response_shares(declared, typical, prior)
    if family.name == "ordinal":
        scale = prior.strength * population_signal(exog, random) + random.logistic(size=len(exog))
        return np.searchsorted(np.quantile(scale, np.cumsum(shares)[:-1]), scale)
    # Contrasts of two levels vary by one. A level a line: sums over few numbers that lie together are slow.
    eta = prior.strength * np.array([population_signal(exog, random) for _ in shares]) / math.sqrt(2)
    for _ in range(BALANCED):
        chances = np.exp(eta - eta.max(axis=0))
        chances /= chances.sum(axis=0)
        eta += np.log(shares / chances.mean(axis=1))[:, None]
    return np.argmax(eta + random.gumbel(size=eta.T.shape).T, axis=0)


def response_shares(declared: Levels, typical: Mapping[float | str | None, float], prior: ColumnPrior) -> Vector:
    """Shares of the levels of a response; of two the second is as rare as the prior has it, shape (levels,)."""
    falling = replace(prior, fall=math.log2(1 / prior.second - 1))
    shares = np.maximum(_shares(declared, typical, falling), RAREST)
    return np.asarray(shares / shares.sum())


STRENGTH = 2.0
"""A description does not tell how strongly columns predict a response of two values or a class. If they do, more rows
are nearly sure to respond one way, and these say little: unlucky errors are of linear predictors that vary so many
times as much."""

COUNT_SIGNAL = 0.5
"""The standard deviation of the linear predictor of counts that columns explain, where nothing says less."""

BALANCED = 30
"""So many corrections bring the mean chances of levels to their shares."""


def population_signal(exog: Vector, random: np.random.Generator) -> Vector:
    """What coefficients drawn at random make of rows, of mean 0 and variance 1, shape (rows,)."""
    signal = exog @ random.standard_normal(exog.shape[1])
    return np.asarray((signal - signal.mean()) / (signal.std() or 1.0))


def response_level(
    design: DesignSpec, known: KnownColumns, prior: ColumnPrior, table: Callable[[], Mapping[str, Any]]
) -> Level:
    """Where the response of the rows of `table` lies: as `typical` says, or else as the prior has it."""
    typical, declared = known.typical.get(design.response_name), design.domain.get(design.response_name)
    if typical is not None and design.response.kind in ("binary", "count"):
        if isinstance(declared, Levels):
            return Level(float(response_shares(declared, typical, prior)[1]), 0.0)
        return Level(*typical) if isinstance(typical, tuple) else Level(typical, 0.0)
    if any(name in known.typical for name in design.parsed.response_columns):
        values = design.endog(table())
        values = values[np.isfinite(values)]
        if not len(values):
            raise ArgumentError(
                f"{_typical()}: {design.response_name} has no finite value at the typical values of its columns"
            )
        return Level(float(values.mean()), float(values.std()))
    if design.response.kind == "binary":
        return Level(prior.second, 0.0)
    if design.response.kind == "count":
        return Level(prior.count * design.response.high, 0.0)
    if isinstance(declared, Range) and declared.is_binary:  # by least squares, in model units from -1 to 1
        return Level(2 * prior.second - 1, 2 * math.sqrt(prior.second * (1 - prior.second)))
    return Level(0.0, prior.deviation)


def linear_predictor(design: DesignSpec, signal: Vector, offset: Vector, level: Level) -> Vector:
    """The linear predictor of a signal in model units, shape (rows,), for a response about a level."""
    if design.response.kind == "binary":
        return signal + _shift(signal, min(max(level.mean, RAREST), 1 - RAREST))
    if design.response.kind == "count":
        eta = _spread_of_counts(level, offset) * signal + offset
        return np.asarray(eta + np.log(max(level.mean, RAREST)) - np.log(np.mean(np.exp(eta))))
    return np.asarray(level.mean + np.sqrt(EXPLAINED) * level.deviation * signal)


def _spread_of_counts(level: Level, offset: Vector) -> float:
    """The standard deviation of the linear predictor of counts that columns explain.

    Described counts that vary no more than Poisson counts with their exposures do leave columns nothing to explain.
    """
    if not level.deviation:
        return COUNT_SIGNAL
    mean = max(level.mean, RAREST)
    rates = np.exp(offset - offset.max())
    squares = (max(level.deviation**2 - mean, 0.0) / mean**2 + 1) * rates.mean() ** 2 / np.mean(rates**2)
    return min(COUNT_SIGNAL, math.sqrt(math.log(max(squares, 1.0))))


def _shift(signal: Vector, share: float) -> float:
    """What to add for a mean probability of `share`."""

    def excess(shift: float) -> float:
        return float(np.mean(special.expit(signal + shift))) - share

    end = float(np.max(np.abs(signal))) + abs(special.logit(share))
    return float(optimize.brentq(excess, -end, end, xtol=1e-6))


def counts(family: Family, means: Vector, random: np.random.Generator, deviation: float = 0.0) -> Vector:
    """Counts of some means that vary as the family has it, or with a standard deviation if it is known; (rows,)."""
    alpha = closed_cap("alpha", family.alpha) if isinstance(family, NegativeBinomial) else 0.0
    if deviation:
        alpha = max(0.0, float((deviation**2 - means.mean() - means.var()) / np.mean(means**2)))
    if alpha:
        means = means * random.gamma(1 / alpha, alpha, len(means))
    return np.asarray(random.poisson(np.minimum(means, MOST_COUNTS)), dtype=np.float64)


def mean_exposure(design: DesignSpec, known: KnownColumns, prior: ColumnPrior) -> float:
    """The mean of exp(offset) in the user's units; 1 without an offset."""
    if design.offset is None:
        return 1.0
    with quiet():
        rows = known.rows(design, KNOWN_COUNTS, prior, np.random.default_rng(0))
        _, complete, offset = design.predicting(rows, offset=True)
        return float(np.exp(offset[complete] + design.offset_center).mean())


def known_counts(design: DesignSpec, family: Family, known: KnownColumns) -> Vector | None:
    """Counts of a response as it is known to be spread, shape (rows,); None of one that is not."""
    name, declared = design.response_name, design.domain.get(design.response_name)
    typical = known.typical.get(name)
    if typical is None:
        return known.numbers(name, declared) if isinstance(declared, Range) else None
    mean, deviation = typical if isinstance(typical, tuple) else (typical, 0.0)
    random = np.random.default_rng(0)
    return counts(family, np.full(KNOWN_COUNTS, max(mean, RAREST)), random, deviation)


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
        return np.minimum(counts(family, np.minimum(np.exp(eta), high), random, level.deviation), high)
    low, high = design.response.low, design.response.high
    unit = eta + np.sqrt(1 - EXPLAINED) * level.deviation * random.standard_normal(len(signal))
    return np.clip((low + high) / 2 + (high - low) / 2 * unit, low, high)

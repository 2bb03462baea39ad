"""What a formula's factor may be made of: columns, literals, elementwise functions and public transforms.

A factor is a small tree of these nodes, never Python code that is run: what cannot be written as such a tree cannot
reach the data. Elementwise functions act on each row alone by definition; transforms are bound to public values
before any row is seen and are elementwise from then on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Domain, Range, canonical
from dpstats.errors import FormulaError
from dpstats.families.base import pad_rows
from dpstats.formula.public_frame import Codes, Encoded, public_frame
from dpstats.formula.transforms import EXAMPLES, Features, Norms, RowWise


@dataclass(frozen=True)
class Bins:
    """A row-wise function from numbers to levels; what is in no bin has the code -1, and its row is left out."""

    breaks: tuple[float, ...]  # increasing; bin k lies between breaks k and k + 1
    labels: tuple[str | int | float, ...]  # one for each bin
    right: bool = True  # whether a bin holds its right end, else its left one
    lowest: bool = False  # whether the outermost end on the open side belongs to its bin

    def __call__(self, value: Value) -> Codes:
        """The bin of each number, shape (rows,)."""
        values = np.atleast_1d(as_numbers(value))
        codes = np.digitize(values, self.breaks, right=self.right) - 1
        codes[~(np.isfinite(values)) | (codes < 0) | (codes >= len(self.labels))] = -1
        if self.lowest:
            end = (self.breaks[0], 0) if self.right else (self.breaks[-1], len(self.labels) - 1)
            codes[values == end[0]] = end[1]
        return Codes(codes, self.labels)

    def numbers(self, value: Value) -> NDArray[np.float64]:
        """The place of each number's bin as a number, shape (rows,); NaN for what is in none."""
        codes = self(value).values
        return np.where(codes < 0, np.nan, codes)


def cut(breaks: Any, labels: Any = None, right: bool = True, include_lowest: bool = False) -> Bins:
    """The bins of ``cut(x, breaks, labels)``, as R and pandas have them.

    Raises ValueError if breaks are not written out, or labels do not go with them.
    """
    ends = _ends(breaks, 2, "cut(x, [0, 10, 20])")
    if labels is None:
        brackets = "(]" if right else "[)"
        labels = [f"{brackets[0]}{low:g}, {high:g}{brackets[1]}" for low, high in itertools.pairwise(ends)]
    good = isinstance(labels, (list, tuple)) and all(isinstance(one, (str, int, float)) for one in labels)
    if not good or len(labels) != len(ends) - 1 or len(set(labels)) != len(labels):
        raise ValueError(f"labels must be a list of {len(ends) - 1} different names, one for each bin")
    if not (isinstance(right, bool) and isinstance(include_lowest, bool)):
        raise ValueError("right and include_lowest must be True or False")
    return Bins(ends, tuple(labels), right, include_lowest)


def digits(breaks: Any, right: bool = False) -> Bins:
    """The bins of ``C(np.digitize(x, breaks))``, numbered from 0: below all breaks, ..., beyond all of them."""
    ends = _ends(breaks, 1, "np.digitize(x, [10, 20])")
    if not isinstance(right, bool):
        raise ValueError("right must be True or False")
    return Bins((-math.inf, *ends, math.inf), tuple(range(len(ends) + 1)), right)


def _ends(breaks: Any, least: int, example: str) -> tuple[float, ...]:
    good = isinstance(breaks, Sequence) and not isinstance(breaks, str) and len(breaks) >= least
    if not good or not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in breaks):
        raise ValueError(f"breaks must be written out, as in {example}: any other rule would depend on the data")
    ends = tuple(float(one) for one in breaks)
    if not all(low < high for low, high in itertools.pairwise(ends)):
        raise ValueError(f"breaks must increase, as in {example}")
    return ends


MOST_LISTED = 20
"""A message spells out the whole numbers of a range up to this width."""

Value = NDArray[Any] | Codes | np.float64 | str | None
"""Rows of floats (one or two-dimensional) or of booleans, codes, or a literal."""


@dataclass(frozen=True)
class Column:
    """A column of the data, by name."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A number, string, boolean or None written in the formula."""

    value: np.float64 | str | None


@dataclass(frozen=True)
class Apply:
    """A row-wise function of other nodes; `text` as the formula writes it, `norms` what is proved of its columns."""

    text: str
    function: Callable[..., Value]
    arguments: tuple[Node, ...]
    norms: Norms | None = None


@dataclass(frozen=True)
class Transform:
    """A stateful transform by its name: `learn` maps public values of the arguments to a row-wise function."""

    text: str
    learn: Callable[..., RowWise]
    arguments: tuple[Node, ...]
    name: str


Node = Column | Literal | Apply | Transform


def columns_of(node: Node) -> tuple[str, ...]:
    """Names of the columns under `node`, in order of appearance."""
    match node:
        case Column(name):
            return (name,)
        case Apply() | Transform():
            return tuple(dict.fromkeys(name for argument in node.arguments for name in columns_of(argument)))
    return ()


def bind(node: Node, domain: Domain) -> Node:
    """`node` with every transform replaced by the row-wise function it learns from the Domain.

    Raises FormulaError if a transform cannot be learned from its public values.
    """
    match node:
        case Apply():
            check_levels_declared(node, domain)
            return Apply(node.text, node.function, tuple(bind(argument, domain) for argument in node.arguments))
        case Transform():
            arguments = tuple(bind(argument, domain) for argument in node.arguments)
            public = public_frame(domain, columns_of(node))
            values = [_transformable(node.text, evaluate(argument, public)) for argument in arguments]
            try:
                with np.errstate(all="ignore"):
                    learned = node.learn(*values)
            except (ArithmeticError, TypeError, ValueError, np.linalg.LinAlgError) as error:
                raise FormulaError(f"{node.text}: {error}; as in {EXAMPLES[node.name]}") from error
            text = node.text
            norms = learned.norms if isinstance(learned, Features) else None
            return Apply(text, lambda *rows: learned(*(_transformable(text, row) for row in rows)), arguments, norms)
    return node


def check_levels_declared(node: Apply, domain: Domain) -> None:
    """Raise FormulaError if C() or factor() is of a column of numbers: its levels would be those of the data."""
    coded = isinstance(node.function, partial) and node.function.func is categorical
    column = node.arguments[0] if coded else None
    declared = domain[column.name] if isinstance(column, Column) else None
    if not isinstance(declared, Range) or not isinstance(column, Column):
        return
    low, high = declared.low, declared.high
    # A range that is to be bought stands in by floats.
    whole = isinstance(low, int) and isinstance(high, int)
    levels = str(list(range(int(low), int(high) + 1))) if whole and high - low <= MOST_LISTED else "[...]"
    instead = f", not ({low:g}, {high:g})" if whole else ""
    raise FormulaError(
        f"{node.text}: the levels of {column.name} would be learned from the data; in the domain declare {levels}"
        f"{instead}, or write {column.name if (low, high) == (0, 1) else f'cut({column.name}, [...])'}"
    )


def may_miss(node: Node) -> bool:
    """Whether a value of levels may be in none of them, for rows whose columns have all their values."""
    if not isinstance(node, Apply):
        return False
    missing = isinstance(node.function, Bins) or is_among_levels(node)
    return missing or any(may_miss(argument) for argument in node.arguments)


def is_among_levels(node: Node) -> bool:
    """Whether a value is of some of its levels alone, those that rows of a subset may have."""
    return isinstance(node, Apply) and isinstance(node.function, partial) and node.function.func is only_levels


def public_values(node: Node, domain: Domain) -> Value:
    """The value of a bound `node` on public rows that fill the space of its columns, faces and corners included."""
    return evaluate(node, public_frame(domain, columns_of(node), faces=True))


@np.errstate(all="ignore")
def evaluate(node: Node, rows: Mapping[str, Encoded]) -> Value:
    """The value of a bound `node` on encoded `rows`, without numerical warnings.

    Raises FormulaError if a function does not take the kind of value it gets; kinds follow from formula and Domain.
    """
    match node:
        case Column(name):
            return rows[name]
        case Literal(value):
            return value
        case Apply(text, function, arguments):
            try:
                return function(*(evaluate(argument, rows) for argument in arguments))
            except FormulaError:
                raise
            except (TypeError, ValueError) as error:
                raise FormulaError(f"{text}: {error}") from error
    raise AssertionError("transforms are bound before they are evaluated")


def elementwise(function: Callable[..., Any]) -> Callable[..., Value]:
    """`function` of numbers, with booleans counted as 0 and 1, each row by itself.

    What numpy does at once may round what is left over at the end of an array in another way: ones fill it up.
    """

    def applied(*arguments: Value) -> Value:
        numbers = [as_numbers(argument) for argument in arguments]
        rows = max((len(one) for one in numbers if np.ndim(one)), default=0)
        if rows % 64 == 0:
            return function(*numbers)
        return function(*(pad_rows(one) if np.ndim(one) else one for one in numbers))[:rows]

    return applied


def logical(function: Callable[..., Any]) -> Callable[..., Value]:
    """`function` of truth values."""
    return partial(truths, function)


def truths(function: Callable[..., Any], *arguments: Value) -> Value:
    """`function` of truth values, in rows."""
    return function(*(_as_truth(argument) for argument in arguments))


def compare(function: Callable[..., Any], equality: bool) -> Callable[..., Value]:
    """A comparison of numbers, or of a categorical column with one of its declared levels."""

    def compared(left: Value, right: Value) -> Value:
        if isinstance(right, Codes) and not isinstance(left, Codes):
            left, right = right, left
        if not isinstance(left, Codes):
            return function(as_numbers(left), as_numbers(right))
        if not equality or not isinstance(right, (str, np.float64)):
            raise TypeError(
                "levels have no order here; compare by == or != with a declared level, or declare numbers as a range"
            )
        matching = [code for code, level in enumerate(left.levels) if canonical(level) == canonical(right)]
        if not matching:
            raise ValueError(f"{right!r} is not among the declared levels; write one of {list(left.levels)}")
        return function(left.values, matching[0])

    return compared


def choose(condition: Value, yes: Value, no: Value) -> Value:
    """``np.where`` of a truth value and two numbers."""
    return np.where(_as_truth(condition), as_numbers(yes), as_numbers(no))


def categorical(value: Value, contrast: Any = None, levels: tuple[Any, ...] | None = None) -> Codes:
    """``C(column, contrast, levels)``: a declared categorical column, coded by a contrast, levels perhaps reordered."""
    codes = as_codes(value)
    if codes is None:
        raise TypeError(
            "C() of numbers would learn its levels from the data; write cut(x, [0, 10, 20]), or declare the levels"
        )
    contrast = codes.contrast if contrast is None else contrast
    reference = getattr(contrast, "reference", None)
    if isinstance(reference, str) and canonical(reference) not in [canonical(level) for level in codes.levels]:
        raise ValueError(f"there is no level {reference!r} to use as reference; write one of {list(codes.levels)}")
    if levels is None:
        return Codes(codes.values, codes.levels, contrast)
    position = {canonical(level): code for code, level in enumerate(levels)}
    if len(levels) != len(codes.levels) or set(position) != {canonical(level) for level in codes.levels}:
        raise ValueError(f"levels must be the declared levels in another order; they are {list(codes.levels)}")
    moved = np.array([*(position[canonical(level)] for level in codes.levels), -1])
    ordered = sorted(codes.levels, key=lambda level: position[canonical(level)])
    return Codes(moved[codes.values], tuple(ordered), contrast)


def only_levels(value: Value, kept: tuple[bool, ...]) -> Codes:
    """Codes among the levels that are kept; rows of the others, which are outside the subset, have none."""
    codes = as_codes(value)
    assert codes is not None
    places = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
    levels = tuple(level for level, one in zip(codes.levels, kept, strict=True) if one)
    return Codes(places[codes.values], levels, codes.contrast)


def as_codes(value: Value) -> Codes | None:
    """Codes themselves, truth values as the levels False and True, None for anything else."""
    if isinstance(value, Codes):
        return value
    if isinstance(value, np.ndarray) and value.dtype == bool:
        return Codes(value.astype(np.intp), (False, True))
    return None


def as_numbers(value: Value) -> Any:
    """Floats of shape (rows,) or a float; TypeError for levels, text and bases of several columns."""
    if isinstance(value, Codes):
        raise TypeError("levels cannot be used as numbers; declare the column as a range (low, high), or compare by ==")
    if value is None or isinstance(value, str):
        raise TypeError("a number is needed, not text; only a column declared by levels compares with text")
    if value.ndim > 1:
        # Mixing (rows, k) with (rows,) would pair a row with other rows' values whenever rows == k.
        raise TypeError("a basis of several columns cannot be used in arithmetic; interact it with ':' instead")
    return value if value.dtype == np.float64 else value.astype(np.float64)


def _as_truth(value: Value) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype != bool:
        raise TypeError("a comparison is needed here, such as (x > 1)")
    return value


def _transformable(text: str, value: Value) -> NDArray[np.float64]:
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return value
    try:
        return np.asarray(as_numbers(value), dtype=np.float64)
    except TypeError as error:
        raise FormulaError(f"{text}: {error}") from error

"""What a formula's factor may be made of: columns, literals, elementwise functions and public transforms.

A factor is a small tree of these nodes, never Python code that is run: what cannot be written as such a tree cannot
reach the data. Elementwise functions act on each row alone by definition; transforms are bound to public values
before any row is seen and are elementwise from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Domain, canonical
from dpstats.errors import FormulaError
from dpstats.formula.codes import Codes, Encoded
from dpstats.formula.features import Features, Norms
from dpstats.formula.public_frame import public_frame
from dpstats.formula.transforms import RowWise

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
    """A stateful transform: `learn` maps public values of the arguments to a row-wise function."""

    text: str
    learn: Callable[..., RowWise]
    arguments: tuple[Node, ...]


Node = Column | Literal | Apply | Transform


def columns_of(node: Node) -> Iterator[str]:
    """Names of the columns under `node`, in order of appearance, with repeats."""
    match node:
        case Column(name):
            yield name
        case Apply() | Transform():
            for argument in node.arguments:
                yield from columns_of(argument)


def bind(node: Node, domain: Domain) -> Node:
    """Replace every transform under `node` by the row-wise function it learns from the Domain.

    Raises
    ------
    FormulaError
        If a transform cannot be learned from its public values.
    """
    match node:
        case Apply():
            return Apply(node.text, node.function, tuple(bind(argument, domain) for argument in node.arguments))
        case Transform():
            arguments = tuple(bind(argument, domain) for argument in node.arguments)
            public = public_frame(domain, list(dict.fromkeys(columns_of(node))))
            values = [_transformable(node.text, evaluate(argument, public)) for argument in arguments]
            try:
                with np.errstate(all="ignore"):
                    learned = node.learn(*values)
            except (ArithmeticError, TypeError, ValueError, np.linalg.LinAlgError) as error:
                raise FormulaError(f"{node.text}: {error}") from error
            text = node.text
            norms = learned.norms if isinstance(learned, Features) else None
            return Apply(text, lambda *rows: learned(*(_transformable(text, row) for row in rows)), arguments, norms)
    return node


def evaluate(node: Node, rows: Mapping[str, Encoded]) -> Value:
    """The value of a bound `node` on encoded `rows`, without numerical warnings.

    Raises
    ------
    FormulaError
        If a function is applied to a kind of value it does not take. The kinds follow from formula and Domain.
    """
    with np.errstate(all="ignore"):
        return _evaluate(node, rows)


def _evaluate(node: Node, rows: Mapping[str, Encoded]) -> Value:
    match node:
        case Column(name):
            return rows[name]
        case Literal(value):
            return value
        case Apply(text, function, arguments):
            try:
                return function(*(_evaluate(argument, rows) for argument in arguments))
            except FormulaError:
                raise
            except (TypeError, ValueError) as error:
                raise FormulaError(f"{text}: {error}") from error
    raise AssertionError("transforms are bound before they are evaluated")


def elementwise(function: Callable[..., Any]) -> Callable[..., Value]:
    """`function` of numbers, with booleans counted as 0 and 1."""
    return lambda *arguments: function(*(as_numbers(argument) for argument in arguments))


def logical(function: Callable[..., Any]) -> Callable[..., Value]:
    """`function` of truth values."""
    return lambda *arguments: function(*(_as_truth(argument) for argument in arguments))


def compare(function: Callable[..., Any], equality: bool) -> Callable[..., Value]:
    """A comparison of numbers, or of a categorical column with one of its declared levels."""

    def compared(left: Value, right: Value) -> Value:
        if isinstance(right, Codes) and not isinstance(left, Codes):
            left, right = right, left
        if not isinstance(left, Codes):
            return function(as_numbers(left), as_numbers(right))
        if not equality or not isinstance(right, (str, np.float64)):
            raise TypeError("levels can only be compared by == or != with one of the declared levels")
        matching = [code for code, level in enumerate(left.levels) if canonical(level) == canonical(right)]
        if not matching:
            raise ValueError(f"{right!r} is not among the declared levels {list(left.levels)}")
        return function(left.values, matching[0])

    return compared


def choose(condition: Value, yes: Value, no: Value) -> Value:
    """``np.where`` of a truth value and two numbers."""
    return np.where(_as_truth(condition), as_numbers(yes), as_numbers(no))


def categorical(value: Value, contrast: Any = None, levels: tuple[Any, ...] | None = None) -> Codes:
    """``C(column, contrast, levels)``: a declared categorical column, coded by a contrast, levels perhaps reordered."""
    codes = as_codes(value)
    if codes is None:
        raise TypeError("C() of a numeric column would learn its levels from the data; declare them in the domain")
    contrast = codes.contrast if contrast is None else contrast
    if levels is None:
        return Codes(codes.values, codes.levels, contrast)
    position = {canonical(level): code for code, level in enumerate(levels)}
    if len(levels) != len(codes.levels) or set(position) != {canonical(level) for level in codes.levels}:
        raise ValueError(f"levels must be an order of the declared levels {list(codes.levels)}")
    moved = np.array([*(position[canonical(level)] for level in codes.levels), -1])
    ordered = sorted(codes.levels, key=lambda level: position[canonical(level)])
    return Codes(moved[codes.values], tuple(ordered), contrast)


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
        raise TypeError("levels cannot be used as numbers; declare the column as a range (low, high)")
    if value is None or isinstance(value, str):
        raise TypeError("a number is needed, not text or None")
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

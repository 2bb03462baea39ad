"""How an argument is checked, and how its refusal may quote it."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ParamSpec, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.wording import argument

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

MOST_SHOWN = 8
"""A message quotes lists of so many plain values; a longer one may be a column."""

MOST_NAMES = 8
"""A message lists so many coefficients."""

MOST_LETTERS = 300
"""A message quotes texts of so many letters; a longer one may be a file."""

LONGEST_PATH, LONGEST_NAME = 4096, 255
"""Bytes of a path, and of a file's name, that systems take."""

_PLAIN = (bool, int, float, complex, str, np.generic)

_KNOWN = ("builtins", "collections", "dpstats", "numpy", "types")
"""Modules whose types print nothing but what is in them; a type of others may print anything."""


def safe_repr(value: object) -> str:
    """An argument as its refusal may quote it: plain values as they are, what may hold cells by its type alone.

    Whoever passes a private column where an option is wanted must not read it in the message, nor in a log of it.
    """
    if _is_plain(value) and len(text := repr(value)) <= MOST_LETTERS:
        return text
    return f"an object of type {type(value).__name__}"


TYPED_BY = ("builtins", "numpy", "pandas", "polars", "pyarrow")
"""Packages whose types of columns are named by their own words."""


def name_of_type(declared: object) -> str:
    """A column's type as a message may name it: without categories, fields and fill values, which may be cells.

    What a type from elsewhere calls itself may be a cell too: its class is named.
    """
    if type(declared).__module__.partition(".")[0] not in TYPED_BY:
        return type(declared).__name__
    name = re.sub(r"(?<=\w)([<(].*|\[[^]]*,.*)", "", str(declared), flags=re.DOTALL)
    return "structured" if name.startswith(("[", "{", "(")) else name


def check_choice(name: str, value: object, choices: Collection[object]) -> None:
    """Raise ArgumentError unless `value` is among `choices`: by its type too, since True equals 1 and is not it."""
    plain = value is None or isinstance(value, _PLAIN)
    if not (plain and any(isinstance(value, bool) == isinstance(one, bool) and value == one for one in choices)):
        raise ArgumentError(f"{name} must be one of {list(choices)}, got {safe_repr(value)}")


def can_be_path(text: str) -> bool:
    """Whether a text can name files, rather than be the contents of one."""
    if not text.isprintable():
        return False
    names = map(os.fsencode, text.replace(os.sep, "/").split("/"))
    return len(os.fsencode(text)) <= LONGEST_PATH and max(map(len, names)) <= LONGEST_NAME


def check_path(name: str, value: object) -> Path:
    """Return `value` as a Path if it can be one of a file, else raise ArgumentError, which quotes no file's text."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text:
        raise ArgumentError(f"{name} must be the path of a file, got {safe_repr(value)}")
    if not can_be_path(text):
        raise ArgumentError(f"{name} must be the path of a file; this text is too long or has several lines")
    return Path(text)


def check_type(name: str, value: object, kinds: type | tuple[type, ...], made: str) -> None:
    """Raise ArgumentError unless `value` is of the `kinds`; `made` says what that is and what makes it."""
    if not isinstance(value, kinds):
        raise ArgumentError(f"{name} must be {made}; got {safe_repr(value)}")


def check_numbers(name: str, value: object) -> NDArray[np.float64]:
    """Return `value` as a matrix of finite numbers, of one row if it is a vector, else raise ArgumentError."""
    try:
        matrix = np.atleast_2d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        matrix = np.full((1, 1), np.nan)
    if matrix.ndim > 2 or not np.isfinite(matrix).all():
        raise ArgumentError(
            f"{name} must be a finite number, a list of them, or a list of rows; got {safe_repr(value)}"
        )
    return matrix


def check_names(name: str, value: object, of: str = "columns") -> list[str]:
    """Return `value` as a list if it is a list or tuple of different texts, at least one, else raise ArgumentError.

    An array or a Series is refused by its type: it is a column, given in place of the name of one.
    """
    names = list(value) if isinstance(value, (list, tuple)) else []
    if not names or not all(isinstance(one, str) for one in names) or len(set(names)) < len(names):
        raise ArgumentError(f"{name} must be a list of one or more distinct names of {of}; got {safe_repr(value)}")
    return names


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a number that a double holds, so a finite one, and not a bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_whole(value: object) -> TypeGuard[int]:
    """Whether `value` is an integer, and not a bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_row_count(n: object, most: int) -> int:
    """A number of rows; ArgumentError unless it is a whole one from 1 to `most`."""
    if not is_whole(n) or not 1 <= n <= most:
        raise ArgumentError(f"n must be a whole number of rows from 1 to {most:,}, got {safe_repr(n)}")
    return int(n)


def check_fraction(name: str, value: object) -> float:
    """Return `value` as a float if it is a number strictly between 0 and 1, else raise ArgumentError."""
    if not is_number(value) or not 0 < value < 1:
        raise ArgumentError(f"{name} must lie strictly between 0 and 1, got {safe_repr(value)}")
    return float(value)


def check_flag(name: str, value: object) -> bool:
    """Return `value` as a bool if it is one, else raise ArgumentError."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentError(f"{name} must be True or False, got {safe_repr(value)}")
    return bool(value)


OTHER_ARGUMENTS = {
    "epsilon": "eps",
    "budget": "eps",
    "privacy_budget": "eps",
    "df": "data",
    "frame": "data",
    "dataset": "data",
    "bounds": "domain",
    "schema": "domain",
    "random_state": "seed",
    "rng": "seed",
    "lambda_": "alpha",
    "lam": "alpha",
    "groups": "unit",
    "sample_weight": "weights",
    "freq_weights": "weights",
    "neighbours": "adjacency",
    "neighbors": "adjacency",
}
"""What arguments are called elsewhere."""


def explain_calls(
    **refused: str,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """A decorator: calls that Python would refuse by their arguments are answered by what to write.

    `refused` are arguments that the function has not, and why.
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        signature = inspect.signature(function)
        called = function.__name__ if function.__name__ != "__init__" else function.__qualname__.split(".")[-2]
        named = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        names = [one.name for one in named if one.name != "self"]

        @functools.wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            for name in kwargs:
                if name in refused:
                    raise ArgumentError(f"{called}() does not take {name}: {refused[name]}")
                if name not in names and (meant := OTHER_ARGUMENTS.get(name)) in names:
                    raise ArgumentError(f"{called}() has no argument {name!r}; write {argument(meant)}")
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise ArgumentError(_mismatch(called, str(error), kwargs, names)) from None
            return function(*args, **kwargs)

        return call

    return decorate


def _mismatch(function: str, complaint: str, given: Mapping[str, object], names: Collection[str]) -> str:
    """What to do about arguments that do not fit, of which Python complains so."""
    if function == "Ledger" and "missing" in complaint:
        return "Ledger() needs dataset and eps, the totals of a new ledger; dp.Ledger.open(path) opens an existing one"
    if "'eps'" in complaint:
        return f"{function}() needs eps, the privacy budget, such as eps=1.0; dp.plan shows what it would buy"
    listed = f"its arguments are {', '.join(names)}"
    if "too many positional" in complaint:
        return f"{function}(): {complaint}; pass the other arguments by name, such as eps=1.0: {listed}"
    unknown = [name for name in given if name not in names]
    near = near_miss(unknown[0], names) if unknown and "unexpected" in complaint else None
    return f"{function}(): {complaint}; {f'did you mean {argument(near)}?' if near else listed}"


def near_miss(name: str, choices: Iterable[str]) -> str | None:
    """The choice that `name` most probably meant, if any: the same letters, or nearly the same."""
    known = [one for one in choices if one != name]
    same = [one for one in known if same_letters(one, name)]
    same = same or [one for one in known if sorted(_letters(one)) == sorted(_letters(name))]
    near = same or difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return near[0] if near else None


def named_rows(
    names: Sequence[str], keep: object, drop: object, rename: object, hidden: Sequence[str] = ()
) -> dict[str, str]:
    """What each coefficient to show is called, by its name: `keep`, `drop` and `rename` of tables and pictures.

    Those that are `hidden` anyway may be dropped too.
    """
    shown = list(names if keep is None else _matches("keep", keep, names))
    if drop is not None:
        dropped = _matches("drop", drop, [*names, *(name for name in hidden if name not in names)])
        shown = [name for name in shown if name not in dropped]
    if not shown:
        raise ArgumentError("drop: no row is left; leave some of them out")
    if not (isinstance(rename, Mapping | None) and all(isinstance(name, str) for name in (rename or {}).values())):
        raise ArgumentError('rename must be a dict of strings by coefficient, such as {"sex[T.Male]": "Men"}')
    for name in rename or {}:
        if name not in names:
            raise _no_row("rename", name, names, "")
    called = {name: (rename or {}).get(name, name) for name in shown}
    if len(set(called.values())) < len(called):
        raise ArgumentError("rename gives two rows the same name; every row needs its own")
    return called


def _matches(option: str, patterns: object, names: Sequence[str]) -> list[str]:
    """The names that are meant: by each pattern the name itself, or those that hold it, or that match it."""
    listed = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(listed, Sequence) or not all(isinstance(one, str) for one in listed):
        raise ArgumentError(f"{option} must be a string or a list of strings, got {safe_repr(patterns)}")
    matches: list[str] = []
    for pattern in listed:
        try:
            ways = [pattern] if pattern in names else [n for n in names if pattern in n]
            ways = ways or [name for name in names if re.search(pattern, name)]
        except re.error:
            ways = []
        if not ways:
            raise _no_row(option, pattern, names)
        matches += ways
    return list(dict.fromkeys(matches))


def _no_row(option: str, given: object, names: Sequence[str], matches: str = " or matches it") -> ArgumentError:
    near = near_miss(str(given), names)
    has = (
        f"did you mean {near!r}?"
        if near
        else f"the rows are {', '.join(names[:MOST_NAMES])}{', ...' * (len(names) > MOST_NAMES)}"
    )
    return ArgumentError(f"{option}: no coefficient is called {safe_repr(given)}{matches}; {has}")


def same_letters(one: str, other: str) -> bool:
    """Whether two names differ in case and punctuation alone."""
    return _letters(one) == _letters(other)


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _is_plain(value: object) -> bool:
    return _values_in(value) <= MOST_SHOWN


def _values_in(value: object) -> float:
    """How many plain values there are in one or in collections of them; infinitely many where there is another."""
    module = type(value).__module__.partition(".")[0]
    if module not in _KNOWN and not isinstance(value, type):
        return math.inf
    if isinstance(value, Mapping):
        return sum(_values_in(part) for part in value.values()) if all(map(_is_plain, value)) else math.inf
    if isinstance(value, (list, tuple, set, frozenset)):
        return sum(_values_in(part) for part in value)
    if isinstance(value, np.void):  # a whole row
        return math.inf
    # A table of ours may have been given further columns by its holder.
    ours = (module == "dpstats" and not hasattr(value, "__array__")) or isinstance(value, type)
    return 1 if value is None or ours or isinstance(value, _PLAIN) else math.inf

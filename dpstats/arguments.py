"""How an argument is checked, and how its refusal may quote it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from dpstats.errors import ArgumentError

MOST_SHOWN = 8
"""A message quotes lists of so many plain values; a longer one may be a column."""

MOST_LETTERS = 300
"""A message quotes texts of so many letters; a longer one may be a file."""

_PLAIN = (bool, int, float, complex, str, np.generic)


def shown(value: object) -> str:
    """An argument as its refusal may quote it: plain values as they are, what may hold cells by its type alone.

    Whoever passes a private column where an option is wanted must not read it in the message, nor in a log of it.
    """
    if _is_plain(value) and len(told := repr(value)) <= MOST_LETTERS:
        return told
    return f"an object of type {type(value).__name__}"


def check_choice(name: str, value: object, choices: Collection[object]) -> None:
    """Raise ArgumentError unless `value` is among `choices`: by its type too, since True equals 1 and is not it."""
    plain = value is None or isinstance(value, _PLAIN)
    if not (plain and any(isinstance(value, bool) == isinstance(one, bool) and value == one for one in choices)):
        raise ArgumentError(f"{name} must be one of {list(choices)}, got {shown(value)}")


def check_flag(name: str, value: object) -> bool:
    """Return `value` as a bool if it is one, else raise ArgumentError."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def near_miss(name: str, choices: Iterable[str]) -> str | None:
    """The choice that `name` most probably meant, if any: the same but for case and signs, or nearly the same."""
    known = [one for one in choices if one != name]
    bare = _bare(name)
    same = [one for one in known if _bare(one) == bare]
    near = same or difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return near[0] if near else None


def _bare(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return len(value) <= MOST_SHOWN and all(_is_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, (list, tuple, set, frozenset)):
        return len(value) <= MOST_SHOWN and all(_is_plain(part) for part in value)
    own = type(value).__module__.partition(".")[0] == "dpstats" or isinstance(value, type)
    return value is None or own or isinstance(value, _PLAIN)

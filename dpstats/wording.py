"""What a reader types, as messages and notes write it: in Python, or in a shell while a command of it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

_OPTION: ContextVar[Callable[[str, object], str] | None] = ContextVar("shell_option", default=None)
"""How the shell writes an argument and its value; None in Python."""


def argument(name: str, value: object = ...) -> str:
    """An argument such as ``method='napp'``, in a shell ``--method napp``; without a value ``method=``, ``--method``.

    Made when the message is: a text of a module's own would have the words of whoever imported it.
    """
    option = _OPTION.get()
    if option is not None:
        return option(name, value)
    return f"{name}=" if value is ... else f"{name}={value!r}"


def phrase(python: str, *, shell: str) -> str:
    """The one or the other: what else is written in another way."""
    return shell if in_shell() else python


def shell_command(name: str, family: str) -> str:
    """How a command of the shell for a model of that family begins: without one, `plan` and `fit` take gaussian."""
    return f"python -m dpstats {name}" + f" --family {family}" * (family != "gaussian")


def purchase(columns: Sequence[str], eps: str, domain: str, adjacency: str) -> str:
    """The call that buys narrower ranges of columns, for the adjacency that eps is for."""
    other = "" if adjacency == "add_remove" else f", {argument('adjacency', adjacency)}"
    return f"dp.buy_ranges(data, {list(columns)}, eps={eps}, domain={domain}{other})"


def joined(parts: Sequence[str], last: str = "and") -> str:
    """The parts in a list, with a word before the last one."""
    return f" {last} ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def sentence(text: str) -> str:
    """The text as a sentence: it begins with a capital and ends with one mark, its own if it is a question."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"


def days_since(column: str) -> str:
    """How a column of dates becomes numbers."""
    days = f"(pd.to_datetime(data[{column!r}], errors='coerce') - pd.Timestamp('2000-01-01')).dt.days"
    public = "such as the days since a public date"
    return phrase(f"{public}, data[{column!r}] = {days}", shell=public)


def in_shell() -> bool:
    """Whether a command of the shell is at work."""
    return _OPTION.get() is not None


@contextlib.contextmanager
def shell_wording(option: Callable[[str, object], str]) -> Iterator[None]:
    """Messages made within have the words of a shell, where `option` writes an argument and its value."""
    token = _OPTION.set(option)
    try:
        yield
    finally:
        _OPTION.reset(token)


PARTS = {
    "MultinomialResults": "it has an equation for each class: tidy() and summary() show all of them",
    "QuantileResults": "pass the fit of one quantile, result[q]",
    "GroupResults": "pass the fit of one group, result[level]",
    "KaplanMeier": "curves have no coefficients",
    "LocalResults": "fit.tidy() has its coefficients, with standard errors and intervals",
}
"""What to do with results that are not of one fit, by type."""


def part_of(result: object) -> str:
    """What to add to a refusal of a result that is not of one fit; nothing for other objects."""
    hint = PARTS.get(type(result).__name__)
    return "" if hint is None else f"; {hint}"

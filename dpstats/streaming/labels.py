"""The order of the labels of ticks: numbers within text are compared as numbers, and no tick is closed twice."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dpstats.arguments import safe_repr
from dpstats.errors import StreamError

PARTS = re.compile(r"[0-9]+|[^\W0-9_]+")
"""Numbers and words; signs and spaces between them do not tell labels apart."""

YEAR = 4
"""Digits of a year: where the first number has as many, those after it count within it."""


class ClosedLabels:
    """Labels of closed ticks, as few as it takes to know an earlier one again.

    Labels with the same words are in the order of their numbers, from the left, if there is one number or the first is
    a year. Others, such as week 52 of 2026 and week 1 of 2027, may come in any order, each of them once.
    """

    def __init__(self, labels: Iterable[str] = (), beyond: str | None = None) -> None:
        self.beyond = beyond  # up to which, as text, all may be closed: older states have the last label alone
        self._last: dict[object, str] = {}
        for label in labels:
            self._last[_read(label)[0]] = label

    def followed_by(self, label: str | None) -> ClosedLabels:
        """These and another one."""
        labels = [*self._last.values(), *([] if label is None else [label])]
        return ClosedLabels(labels, self.beyond)

    def to_list(self) -> list[str]:
        """For the state."""
        return list(self._last.values())

    def check(self, label: str) -> None:
        """Raise StreamError if the tick with that label, or one known to come after it, is closed."""
        if self.beyond is not None and label <= self.beyond:
            raise StreamError(
                f"label: {safe_repr(label)} does not come after {safe_repr(self.beyond)} in the order of text, in "
                "which an earlier version closed ticks of this stream; give a label that does"
            )
        form, numbers = _read(label)
        if (last := self._last.get(form)) is None:
            return
        of_last = _read(last)[1]
        if numbers == of_last:
            spelling = "" if label == last else f" as {safe_repr(last)}"
            raise StreamError(
                f"label: tick {safe_repr(label)} is closed already{spelling}, and its rows are not added again; pass "
                "the rows of a later tick with a label of their own"
            )
        if numbers < of_last:
            raise StreamError(
                f"label: {safe_repr(label)} does not come after {safe_repr(last)}, whose tick is closed already; pass "
                "the rows of a later tick, with a later label, and with them late rows that are in no tick yet"
            )


def _read(label: str) -> tuple[object, list[tuple[int, str]]]:
    """What labels have in common that have an order, and the numbers that it goes by."""
    parts = PARTS.findall(label.casefold()) or [label]
    # By their digits: Python converts no number of more than 4,300.
    numbers = [(len(digits), digits) for digits in (part.lstrip("0") for part in parts if part[:1] in "0123456789")]
    words = tuple("0" if part[:1] in "0123456789" else part for part in parts)
    ordered = len(numbers) == 1 or (bool(numbers) and numbers[0][0] >= YEAR)
    return (words if ordered else (words, tuple(numbers))), numbers

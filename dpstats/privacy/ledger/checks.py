"""What the words and parts that a ledger keeps must be like."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from dpstats.domain import canonical
from dpstats.errors import ArgumentError
from dpstats.privacy.ledger.filters import HOLDOUT

Level = str | int | bool


def check_texts(texts: Mapping[str, str | None]) -> None:
    """Raise ArgumentError unless each is a text that a file can hold, or None; a label must be given."""
    for name, text in texts.items():
        if not isinstance(text, str) and (text is not None or name == "label"):
            raise ArgumentError(f"{name} must be a string")
        if text is not None and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ArgumentError(f"{name} must be valid Unicode, without lone surrogates")
        if name == "analyst" and text is not None and text != (text.strip() or None):
            raise ArgumentError("analyst must be a name, without blanks around it")


def check_parts(by: str, parts: Sequence[Level]) -> list[str]:
    """The parts as JSON, each distinct both as a value and as text."""
    check_texts({"by": by if isinstance(by, str) else None})
    if not isinstance(by, str) or not by or by.startswith(HOLDOUT):
        raise ArgumentError("by must be the name of a column")
    listed = isinstance(parts, (list, tuple)) and len(parts) > 0
    if not listed or not all(isinstance(part, (str, int, bool)) for part in parts):
        raise ArgumentError("parts must be a non-empty sequence of strings, integers or booleans")
    if any(canonical(part) is None for part in parts):
        raise ArgumentError("parts must be text or numbers that a double can hold")
    if len({canonical(part) for part in parts}) < len(parts):
        raise ArgumentError("parts must be distinct (True, 1 and '1' are the same value)")
    return [json.dumps(part) for part in parts]

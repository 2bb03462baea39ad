"""Released values on disk, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from dpstats.arguments import check_path, safe_repr
from dpstats.errors import ArgumentError, DataError
from dpstats.writing import write_whole

Loaded = TypeVar("Loaded")


def text_of(kind: str, facts: Mapping[str, Any]) -> str:
    """Released values and public facts as `save_released` writes them."""
    return json.dumps({"format": 1, "kind": kind, **facts}, indent=1, allow_nan=False)


def save_released(path: str | Path, kind: str, facts: Mapping[str, Any]) -> None:
    """Write released values and public facts, whole or not at all: an older file stays until the new one is there."""
    target = check_path("path", path)
    try:
        write_whole(target, text_of(kind, facts))
    except OSError as error:
        raise ArgumentError(
            f"path: {safe_repr(str(target))} cannot be written ({error.strerror}); choose another"
        ) from error


def load_released(path: str | Path, kind: str, build: Callable[[dict[str, Any]], Loaded]) -> Loaded:
    """What `build` makes of a file of `save_released`, also from before kinds were written; DataError if it is none."""
    if not check_path("path", path).is_file():
        raise DataError(f"path: there is no file {safe_repr(str(path))}")
    try:
        facts = json.loads(Path(path).read_text())
        if (facts.pop("format"), facts.pop("kind", kind)) != (1, kind):
            raise ValueError("unknown format")
        return build(facts)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"path: {safe_repr(str(path))} is not a file written by {kind}.save") from error

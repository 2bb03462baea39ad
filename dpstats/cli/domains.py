"""A Domain from a file: JSON as `dpstats.Domain.to_json` writes it, or YAML as one writes by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dpstats.domain import Domain, as_number
from dpstats.errors import ArgumentError, DomainError

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})")


def read_domain(path: Path) -> Domain:
    """The Domain that a file declares.

    Parameters
    ----------
    path : Path
        ``.json``, or ``.yaml`` and ``.yml`` with a line for each column: ``age: {range: [17, 90]}``,
        ``sex: {levels: [F, M]}`` or ``sex: [F, M]``, ``member: bool``.

    Raises
    ------
    DomainError
        If the file is missing, is neither, or declares anything else.
    """
    ending = path.suffix.lower()
    if ending not in (".json", ".yaml", ".yml"):
        raise DomainError(f"--domain: {path} must end in .yaml, .yml or .json")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise DomainError(f"--domain: {path} cannot be read as text; check the path") from error
    return Domain.from_json(text) if ending == ".json" else _from_yaml(text, path)


def _from_yaml(text: str, path: Path) -> Domain:
    try:
        import yaml
    except ImportError as error:
        raise ArgumentError("--domain: YAML needs pip install dpstats[cli]; JSON is read without") from error
    try:
        # Every scalar as the text that it is: YAML would take the level "no" for False and "1:30" for 90.
        declared = yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1})"
        raise DomainError(f"--domain: {path} is not YAML{where}") from error
    if not isinstance(declared, dict) or not declared:
        raise DomainError(f"--domain: {path} must have a line for each column, such as 'age: {{range: [17, 90]}}'")
    return Domain({str(name): _declaration(str(name), value) for name, value in declared.items()})


def _declaration(name: str, value: Any) -> Any:
    """What `Domain` takes for one column."""
    match value:
        case "bool":
            return bool
        case {"range": [low, high], **rest} if not rest:
            return tuple(_number(name, end) for end in (low, high))
        case {"levels": [*levels], **rest} if not rest:
            return levels
        case [*levels]:  # whole numbers as such, so that [17, 90], which looks like a range, is asked about
            return [int(level) if _WHOLE.fullmatch(str(level)) else level for level in levels]
    raise DomainError(f"--domain: declare {name!r} as {{range: [low, high]}}, as {{levels: [a, b]}}, or as bool")


def _number(name: str, text: str) -> float:
    number = as_number(text)
    if number != number:
        raise DomainError(f"--domain: the range of {name!r} must be a pair of numbers [low, high]")
    return int(number) if number.is_integer() and abs(number) <= 2**53 else number

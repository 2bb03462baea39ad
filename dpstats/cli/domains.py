"""A Domain from a file: JSON as `dpstats.Domain.to_json` writes it, or YAML as one writes by hand."""

from __future__ import annotations

from pathlib import Path

from dpstats.domain import Domain
from dpstats.domain.codebooks import text_of
from dpstats.errors import ArgumentError, DomainError


def read_domain(path: Path) -> Domain:
    """The Domain that a file declares.

    Parameters
    ----------
    path : Path
        ``.json``, ``.csv`` (`dpstats.Domain.from_csv`), or ``.yaml`` and ``.yml`` with a line for each column: ``age:
        {range: [17, 90]}``, ``sex: {levels: [F, M]}`` or ``sex: [F, M]``, ``member: bool``.

    Raises
    ------
    DomainError
        If the file is missing, is neither, or declares anything else.
    """
    ending = path.suffix.lower()
    if ending not in (".csv", ".json", ".yaml", ".yml"):
        raise DomainError(f"--domain: {path} must end in .yaml, .yml, .csv or .json")
    text = text_of(path, "--domain")
    try:
        if ending == ".csv":
            return Domain.from_csv(path)
        return Domain.from_json(text) if ending == ".json" else Domain.from_yaml(path)
    except (ArgumentError, DomainError) as error:
        named = str(error) if str(path) in str(error) else f"{path}: {error}"
        raise type(error)(f"--domain: {named}") from error

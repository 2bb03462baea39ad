"""A Domain to fill in, from the names and types of columns alone."""

from __future__ import annotations

import csv
import json
import keyword
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpstats.errors import DataError

NUMBERS = ("int", "uint", "float", "double", "decimal", "half")
"""How the names of numeric types begin, in any of the containers."""

NEITHER = ("date", "time", "duration", "period", "interval", "complex", "list", "struct", "binary")
"""How the names of types begin that no model takes as they are."""

WIDTH = 80
"""Columns of a line, if names leave the choice."""

HEAD = "# Fill in what the codebook says, not what the data hold; leave out the rest."

UNKNOWN = "unknown"
"""The type of a column of a CSV file: only its rows could tell."""


class Template(str):
    """Text that shows itself as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def template_of(frame: Any) -> Template:
    """The text of a Domain with a line for each column, its ranges and levels still to be filled in.

    Raises
    ------
    DataError
        If the names and types of `frame` cannot be told without reading it.
    """
    lines = []
    for name, kind in _schema(frame):
        declaration, comment = _line(kind.lower())
        plain = name.isidentifier() and not keyword.iskeyword(name)
        own = f"    {name}={declaration}," if plain else f"        {name!r}: {declaration},"
        lines.append(_with_comment(own, f"{kind}{comment}"))
    odd = [line for line in lines if line.startswith("        ")]
    rest = [line for line in lines if not line.startswith("        ")]
    quoted = ["    {", *odd, "    },"] if odd else []
    return Template("\n".join([HEAD, "domain = dp.Domain(", *quoted, *rest, ")"]))


def yaml_template_of(frame: Any) -> str:
    """The text of a codebook in YAML with a line for each column, to be filled in; errors as for `template_of`."""
    lines = [HEAD]
    for name, kind in _schema(frame):
        declaration, comment = _line(kind.lower())
        written = {"(..., ...)": "{range: [..., ...]}", "[...]": "{levels: [...]}"}.get(declaration, declaration)
        lines.append(_with_comment(f"{json.dumps(name, ensure_ascii=False)}: {written}", f"{kind}{comment}"))
    return "\n".join(lines) + "\n"


def _with_comment(line: str, comment: str) -> str:
    """The line with a comment behind it, or above it where both are too long for one line."""
    both = f"{line}  # {comment}"
    indent = " " * (len(line) - len(line.lstrip()))
    return both if len(both) <= WIDTH else f"{indent}# {comment}\n{line}"


def _line(kind: str) -> tuple[str, str]:
    """What is to be declared for a type, and what to think of."""
    if kind.startswith("bool"):
        return "bool", ""
    if kind == UNKNOWN:
        return "(..., ...)", ": least, greatest; of words [every level]"
    if kind.startswith(NUMBERS):
        return "(..., ...)", ": least, greatest; a list of few codes"
    if kind.startswith(NEITHER):
        return "(..., ...)", ": convert it to a number first"
    return "[...]", ": every level, the reference first"


def _type_name(values: Any) -> str:
    """The type of an array; not how long its longest text is, which numpy's types of text tell."""
    kind = getattr(values, "dtype", "list")
    return kind.type.__name__ if isinstance(kind, np.dtype) and kind.kind in "SU" else str(kind)


def _schema(frame: Any) -> Iterable[tuple[str, str]]:
    """Names and types of the columns of a pandas or polars frame, an Arrow table or a mapping of arrays."""
    if isinstance(frame, (str, Path)):
        return _file_schema(Path(frame))
    if isinstance(frame, Mapping):
        return [(str(name), _type_name(values)) for name, values in frame.items()]
    # polars first: its lazy frames warn when they are asked for `dtypes`.
    schema: Any = frame.collect_schema() if hasattr(frame, "collect_schema") else getattr(frame, "schema", None)
    if isinstance(schema, Mapping):
        return [(str(name), str(kind).partition("(")[0]) for name, kind in schema.items()]
    dtypes: Any = getattr(frame, "dtypes", None)
    if hasattr(dtypes, "items"):  # pandas; of categories the word alone, since they are values of the data
        return [(str(name), str(kind)) for name, kind in dtypes.items()]
    if hasattr(schema, "names") and hasattr(schema, "types"):
        return [(str(n), str(t).partition("<")[0]) for n, t in zip(schema.names, schema.types, strict=True)]
    raise DataError(
        "frame must be a pandas or polars DataFrame, an Arrow table, a dict of arrays or a path, whose names and types "
        f"can be told without reading cells; got {type(frame).__name__}"
    )


def _file_schema(path: Path) -> list[tuple[str, str]]:
    """Names and types of a Parquet file, by its schema, or names of a CSV file, by its first line."""
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            from pyarrow import parquet

            schema = parquet.read_schema(path)
            return [(str(n), str(t).partition("<")[0]) for n, t in zip(schema.names, schema.types, strict=True)]
        if path.suffix.lower() in (".csv", ".tsv"):
            with path.open(encoding="utf-8-sig", newline="") as file:
                names = next(csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ","), [])
            return [(name.strip(), UNKNOWN) for name in names]
    except (OSError, UnicodeError, ValueError, csv.Error) as error:
        raise DataError(f"frame: the columns of {str(path)!r} cannot be read; check the path") from error
    raise DataError(f"frame: {str(path)!r} must end in .parquet, .pq, .csv or .tsv")

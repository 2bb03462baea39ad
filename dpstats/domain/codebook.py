"""Codebooks: declarations from CSV or YAML, and a template to fill in, from the names and types of columns alone."""

from __future__ import annotations

import csv
import glob
import io
import json
import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpstats.arguments import name_of_type, near_miss, safe_repr
from dpstats.domain.declarations import Levels, Range, like_a_range
from dpstats.errors import ArgumentError, DataError, DomainError
from dpstats.wording import phrase

HEADINGS = {
    "name": ("name", "column", "variable"),
    "low": ("low", "min", "minimum"),
    "high": ("high", "max", "maximum"),
    "levels": ("levels", "values", "codes"),
    "outside": ("outside",),
    "mean": ("mean",),
    "sd": ("sd",),
    "inner_low": ("inner_low",),
    "inner_high": ("inner_high",),
}
"""What the columns of a codebook may be called."""

OPTIONAL: dict[str, tuple[str, ...]] = {
    "outside": ("outside",),
    "typical": ("mean", "sd"),
    "inner": ("inner_low", "inner_high"),
}
"""Columns that are written where a range has more than its ends, by what they say."""

REMARKS = ("label", "labels", "description", "question", "type", "unit", "units", "note", "notes", "comment")
"""Columns of a codebook that say nothing of ranges or levels and are not read."""

TRUTHS = {"false": False, "true": True}

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})")


def codebook_text(path: str | Path, what: str) -> str:
    """The text of the file at `path`, or `path` itself where it has line breaks, as no path has; else DomainError."""
    if _is_text(path):
        return io.StringIO(str(path).removeprefix("\ufeff"), newline=None).read()  # line breaks as in a file of text
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise DomainError(f"{what}: there is no file {safe_repr(str(path))}; check the path") from error
    except (OSError, UnicodeError, TypeError, ValueError) as error:
        given = safe_repr(str(path) if isinstance(path, Path) else path)
        raise DomainError(f"{what}: {given} cannot be read as text; check the path") from error


def codebook_name(path: str | Path) -> str:
    """What errors call a codebook: its path."""
    return "the text" if _is_text(path) else str(path)


def _is_text(path: object) -> bool:
    return isinstance(path, str) and "\n" in path


def from_csv(text: str, number: Callable[[object], float]) -> dict[str, Any]:
    """Declarations from comma-separated lines, of which the first names the columns: name, low and high, or levels.

    Levels are divided by |, or ``bool`` stands in their place; `number` reads a text or gives NaN. Raises DomainError
    that names the line.
    """
    lines = list(csv.reader(io.StringIO(text)))
    if not lines:
        raise DomainError("the codebook is empty; its first line must be name,low,high,levels")
    places = _places([heading.strip().lower() for heading in lines[0]])
    # pandas writes a point after every number of a column with an empty cell: there it tells nothing.
    ends = [places[one] for one in ("low", "high") if one in places]
    written = {line[at].strip() for line in lines[1:] for at in ends if at < len(line)} - {"", "0.0", "1.0"}
    pointed = bool(written) and not any(one.lstrip("+-").isdigit() for one in written)
    declared: dict[str, Any] = {}
    for place, line in enumerate(lines[1:], start=2):
        if any(cell.strip() for cell in line[len(lines[0]) :]):
            raise DomainError(
                f"line {place} of the codebook has {len(line)} cells, and the first line {len(lines[0])}; divide "
                "levels by |, as in a|b|c"
            )
        cells = {what: line[at].strip() if at < len(line) else "" for what, at in places.items()}
        if not any(cells.values()):
            continue
        name = cells["name"]
        if not name or name in declared:
            raise DomainError(f"line {place} of the codebook {'repeats a name' if name else 'has no name'}")
        if pointed and (cells.get("low"), cells.get("high")) == ("0.0", "1.0"):
            cells |= {"low": "0", "high": "1"}
        declared[name] = _declaration(place, cells, number)
    return declared


def _places(headings: list[str]) -> dict[str, int]:
    """Which column of the codebook holds what."""
    places = {what: headings.index(alias) for what, names in HEADINGS.items() for alias in names if alias in headings}
    if "name" not in places or not {"levels", "low", "high"} & set(places):
        separated = ", divided by commas, with numbers such as 0.5" if any(";" in one for one in headings) else ""
        raise DomainError(f"the first line of the codebook must be name,low,high,levels{separated}")
    unread = [heading for at, heading in enumerate(headings) if heading and at not in places.values()]
    over = [heading for heading in unread if heading not in REMARKS or unread.count(heading) > 1]
    if over:
        raise DomainError(
            f"the codebook has an unknown or repeated column {over[0]!r}; the columns are name,low,high,levels and, if "
            f"needed, {','.join(one for places in OPTIONAL.values() for one in places)}: rename it, or leave it out"
        )
    return places


def _declaration(place: int, cells: dict[str, str], number: Callable[[object], float]) -> Any:
    low, high, levels = (cells.get(what, "") for what in ("low", "high", "levels"))
    extras: dict[str, Any] = {}
    for what, places in OPTIONAL.items():
        words = [cells.get(one, "") for one in places]
        if any(words):
            extras[what] = words[0] if len(words) == 1 else [number(word) for word in words]
    if levels and not low and not high and not extras:
        if levels == "bool":
            return bool
        labelled = all("=" in level for level in levels.split("|"))
        if labelled or ("|" not in levels and ";" in levels):
            raise DomainError(
                f"line {place} of the codebook has levels written as {levels!r}; divide levels by |, and write codes "
                "without their labels: 1|2"
            )
        return _two_truths([level.strip() for level in levels.split("|")])
    ends = _ends(low, high, number)
    if levels or any(end != end for end in ends):
        numbers = ", written as 0.5 and 1000, with no comma" if low or high else ""
        raise DomainError(
            f"line {place} of the codebook must have two numbers (low and high{numbers}), levels such as a|b|c, or bool"
        )
    return range_of(f"line {place} of the codebook", ends, extras)


def _ends(low: object, high: object, number: Callable[[object], float]) -> list[float]:
    """Two ends, whole numbers without a point, but for 0.0 and 1.0: a share lies between, a code is one of both."""
    ends = [number(low), number(high)]
    if ends == [0, 1] and "." in str(high):
        return ends
    return [int(one) if one.is_integer() and abs(one) <= 2**53 else one for one in ends]


def range_of(where: str, ends: Sequence[Any], extras: Mapping[str, Any]) -> Range:
    """A range that is written down somewhere, with what it says beside its ends; DomainError that names the place."""
    given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in extras.items()}
    low, high = ends
    try:
        return Range(low, high, **given)
    except ArgumentError as error:
        raise DomainError(f"{where}: {error}") from error


def from_yaml(text: str, number: Callable[[object], float]) -> dict[str, Any]:
    """Declarations from YAML, with a line for each column: ``age: {range: [17, 90]}``, ``sex: [F, M]``, ``m: bool``.

    Raises ArgumentError if PyYAML is not installed, DomainError if the text is not YAML, or declares anything else.
    """
    try:
        import yaml
    except ImportError as error:
        raise ArgumentError(
            "YAML needs the package PyYAML: pip install pyyaml; JSON and CSV are read without"
        ) from error
    try:
        # Every scalar as the text that it is: YAML would take the level "no" for False and "1:30" for 90.
        declared = yaml.load(text, Loader=yaml.BaseLoader)
        document = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1})"
        raise DomainError(f"the codebook is not YAML{where}") from error
    if not isinstance(declared, dict) or not declared:
        raise DomainError("the codebook must have a line for each column, such as 'age: {range: [17, 90]}'")
    written = [key.value for key, _ in document.value]
    if repeated := [name for name in declared if written.count(name) > 1]:
        raise DomainError(f"the codebook declares {repeated[0]!r} twice; keep one declaration")
    declarations = {str(name): _from_yaml(str(name), value, number) for name, value in declared.items()}
    plain = {key.value for key, value in document.value if _unquoted(value)}
    return {name: _two_truths(value) if name in plain else value for name, value in declarations.items()}


def _unquoted(node: Any) -> bool:
    """Whether no scalar of a YAML node is in quotes, by which a word says that it is a text."""
    if isinstance(node.value, str):
        return node.style is None
    parts = node.value if node.id == "sequence" else [value for _, value in node.value]
    return all(map(_unquoted, parts))


def _two_truths(declared: Any) -> Any:
    """False and True for levels that are these two words: so a file of text spells a column of both."""
    if not isinstance(declared, list):
        return declared
    known = [TRUTHS.get(str(level).lower()) for level in declared]
    return known if sorted(known, key=repr) == [False, True] else declared


def to_yaml(declared: Mapping[str, Any]) -> str:
    """The lines that `from_yaml` reads; of levels that are neither all text nor all whole numbers, the texts."""
    return "".join(f"{_quoted(name)}: {_yaml_value(value)}\n" for name, value in declared.items())


def _yaml_value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{{range: [{value[0]!r}, {value[1]!r}]}}"
    if isinstance(value, Range):
        extras = {name: list(extra) if isinstance(extra, tuple) else extra for name, extra in value.extras.items()}
        more = "".join(f", {name}: {extra}" for name, extra in extras.items())
        return f"{{range: [{value.low!r}, {value.high!r}]{more}}}"
    if all(type(level) is int for level in value):
        return f"[{', '.join(map(str, value))}]"
    if _is_truths(value):
        return f"[{', '.join(map(_word, value))}]"
    return f"{{levels: [{', '.join(_quoted(_text(level)) for level in value)}]}}"


def _is_truths(levels: Any) -> bool:
    """Whether levels are False and True, and not 0 and 1."""
    return len(levels) == 2 and all(type(level) is bool for level in levels)


def _word(level: bool) -> str:
    return "true" if level else "false"


def _text(level: Any) -> str:
    """A level as a codebook spells it; True is 1."""
    return str(int(level)) if isinstance(level, bool) else str(level)


def _quoted(text: str) -> str:
    """A scalar of YAML in double quotes."""
    plain = (sign if sign.isprintable() and sign not in '"\\' else f"\\U{ord(sign):08x}" for sign in text)
    return f'"{"".join(plain)}"'


def to_csv(declared: Mapping[str, Any]) -> str:
    """The lines that `from_csv` reads."""
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    extras = [what for what in OPTIONAL if any(isinstance(v, Range) and what in v.extras for v in declared.values())]
    table.writerow(["name", "low", "high", "levels", *(place for what in extras for place in OPTIONAL[what])])
    for name, value in declared.items():
        if isinstance(value, Range):
            table.writerow([name, repr(value.low), repr(value.high), "", *_cells_of(value, extras)])
        elif isinstance(value, tuple):
            table.writerow([name, *map(repr, value), ""])
        else:
            table.writerow([name, "", "", "|".join(map(_word if _is_truths(value) else _text, value))])
    return lines.getvalue()


def _cells_of(declared: Range, extras: Iterable[str]) -> list[str]:
    """What a range says beside its ends, a cell for each column of a codebook."""
    cells: list[str] = []
    for what in extras:
        given = declared.extras.get(what, ("",) * len(OPTIONAL[what]))
        cells += [given] if isinstance(given, str) else [one if one == "" else repr(one) for one in given]
    return cells


def _from_yaml(name: str, value: Any, number: Callable[[object], float]) -> Any:
    """What `Domain` takes for one column."""
    match value:
        case "bool":
            return bool
        case {"range": [*given]} | {"levels": [*given]} if "..." in given:
            raise DomainError(f"{name!r} is not filled in: write its range or its levels from the codebook")
        case {"range": [low, high], **rest} if set(rest) <= set(OPTIONAL):
            ends = _ends(low, high, number)
            if any(end != end for end in ends):
                raise DomainError(
                    f"the range of {name!r} must be a pair of numbers [low, high]; for levels write {{levels: [a, b]}}"
                )
            extras = {
                str(key): [number(one) for one in given]
                if isinstance(given, list)
                else number(given)
                if key == "typical"
                else given
                for key, given in rest.items()
            }
            return range_of(repr(name), ends, extras)
        case {"levels": [*levels], **rest} if not rest:
            return levels
        case [str(low), str(high)] if like_a_range(Levels((number(low), number(high)))) is not None:
            pair = ", ".join(sorted((low, high), key=number))
            raise DomainError(
                f"declare {name!r} as {{range: [{pair}]}} for a range, as {{levels: [{low}, {high}]}} for two levels"
            )
        case [*levels]:
            return [int(level) if _WHOLE.fullmatch(str(level)) else level for level in levels]
        case dict():
            words = ("range", "levels", *OPTIONAL)
            known = near_miss(next((str(word) for word in value if word not in words), ""), words)
            raise DomainError(
                f"declare {name!r} as {{range: [low, high]}}, as {{levels: [a, b]}}, or as bool"
                + (f"; did you mean {known!r}?" if known else "")
            )
    raise DomainError(f"declare {name!r} as {{range: [low, high]}}, as {{levels: [a, b]}}, or as bool")


NUMBERS = ("int", "uint", "float", "double", "decimal", "half")
"""How the names of numeric types begin, in any of the containers."""

NEITHER = ("date", "time", "duration", "period", "interval", "complex", "list", "struct", "binary")
"""How the names of types begin that no model takes as they are."""

WIDTH = 80
"""Columns of a line, if names leave the choice."""

YAML_WORDS = ("yes", "no", "on", "off", "true", "false", "null")
"""Names of columns that YAML does not read as text unless they stand in quotes."""

HEAD = """# Fill in what the codebook says, not what the data hold; leave out the rest.
# A range is (least, greatest), the levels of a text are all that exist, the
# reference first. Numbers that are codes are levels, too."""

UNKNOWN = "unknown"
"""The type of a column of a CSV file: only its rows could tell."""


class Template(str):
    """Text that shows itself as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def template_of(frame: Any) -> Template:
    """The text of a Domain with a line for each column, its ranges and levels still to be filled in.

    Raises DataError if the names and types of `frame` cannot be told without reading it.
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


def json_template_of(frame: Any) -> str:
    """As `yaml_template_of`, in JSON, which has no comments."""
    blanks = {"(..., ...)": {"range": ["...", "..."]}, "[...]": {"levels": ["..."]}, "bool": {"range": [0, 1]}}
    columns = {name: blanks[_line(kind.lower())[0]] for name, kind in _schema(frame)}
    lines = (f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(blank)}" for name, blank in columns.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def yaml_template_of(frame: Any) -> str:
    """The text of a codebook in YAML with a line for each column, to be filled in; errors as for `template_of`."""
    lines = [HEAD.replace("(least, greatest)", "[least, greatest]")]
    for name, kind in _schema(frame):
        declaration, comment = _line(kind.lower())
        written = {"(..., ...)": "{range: [..., ...]}", "[...]": "{levels: [...]}"}.get(declaration, declaration)
        plain = re.fullmatch(r"[A-Za-z]\w+", name, re.ASCII) is not None and name.lower() not in YAML_WORDS
        key = name if plain else json.dumps(name, ensure_ascii=False)
        lines.append(_with_comment(f"{key}: {written}", f"{kind}{comment}"))
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
        return "(..., ...)", ": a range, or levels of a text"
    if kind.startswith(NUMBERS):
        return "(..., ...)", ""
    if kind.startswith(NEITHER):
        return "(..., ...)", ": convert it to a number first"
    return "[...]", ""


def _type_name(values: Any) -> str:
    """The type of an array; not how long its longest text is, which numpy's types of text tell."""
    kind = getattr(values, "dtype", "list")
    return kind.type.__name__ if isinstance(kind, np.dtype) and kind.kind in "SU" else name_of_type(kind)


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
        return [(str(name), name_of_type(kind)) for name, kind in dtypes.items()]
    if hasattr(schema, "names") and hasattr(schema, "types"):
        return [(str(n), str(t).partition("<")[0]) for n, t in zip(schema.names, schema.types, strict=True)]
    raise DataError(
        "frame must be a pandas or polars DataFrame, an Arrow table, a dict of arrays or a path, whose names and "
        f"types are declared; got {type(frame).__name__}"
    )


def check_separator(first_line: str, names: Sequence[str], delimiter: str) -> None:
    """Raise DataError if the columns of a file seem to be separated by another sign."""
    others = [sign for sign in ",;\t|" if sign != delimiter and any(sign in name for name in names)]
    if len(names) == 1 and others:
        what = {",": "commas", "\t": "tabulators"}[delimiter]
        raise DataError(
            f"{first_line} names a single column and contains {others[0]!r}; columns must be separated by {what}: "
            "write the file so, or name it .tsv if tabulators separate them"
        )


def _file_schema(path: Path) -> list[tuple[str, str]]:
    """Names and types of a Parquet file, by its schema, or names of a CSV file, by its first line.

    Of the files that match a pattern those of the first, as a call that reads them has all agree.
    """
    frame = phrase("frame", shell="data")
    try:
        if not path.exists():
            path = Path(min(glob.glob(str(path), recursive=True), default=path))
        if path.suffix.lower() in (".parquet", ".pq"):
            from pyarrow import parquet

            schema = parquet.read_schema(path)
            return [(str(n), str(t).partition("<")[0]) for n, t in zip(schema.names, schema.types, strict=True)]
        if path.suffix.lower() in (".csv", ".tsv"):
            delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
            with path.open(encoding="utf-8-sig", newline="") as file:
                names = next(csv.reader(file, delimiter=delimiter), [])
            check_separator(f"{frame}: the first line of {str(path)!r}", names, delimiter)
            return [(name.strip(), UNKNOWN) for name in names]
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{frame}: there is no file {str(path)!r}; check the path") from error
    except (OSError, UnicodeError, ValueError, csv.Error) as error:
        raise DataError(f"{frame}: the columns of {str(path)!r} cannot be read; check the path") from error
    raise DataError(f"{frame}: {str(path)!r} must end in .parquet, .pq, .csv or .tsv")

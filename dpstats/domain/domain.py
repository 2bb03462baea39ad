"""The public facts about a data set: each column's range or levels, declared without looking at the rows."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dpstats.arguments import safe_repr
from dpstats.domain import codebook
from dpstats.domain.codebook import Template, template_of
from dpstats.errors import DomainError

Scalar = str | int | float | bool


_NUMPY_NUMBERS = frozenset(np.dtype(code).type for code in "?bBhHiIlLqQpPefdg")


def as_number(cell: object) -> float:
    """The finite number that a cell or level stands for, or NaN.

    Python's and numpy's numbers and booleans, Decimal, Fraction and strings that spell a decimal number count;
    everything else (dates, containers, infinities, integers beyond the range of a double) is NaN. Never raises, and
    never calls a method that a cell's own class defines.
    """
    kind = type(cell)
    try:
        if issubclass(kind, str):
            text = str.__str__(cell)
            number = math.nan if "_" in text else float(text)
        elif issubclass(kind, float):
            number = float.__float__(cell)  # type: ignore[arg-type]
        elif issubclass(kind, int):
            number = int.__float__(cell)  # type: ignore[arg-type]
        elif issubclass(kind, Decimal):
            number = Decimal.__float__(cell)  # type: ignore[arg-type]
        elif kind is Fraction or kind in _NUMPY_NUMBERS:
            number = float(cell)  # type: ignore[arg-type]
        else:
            return math.nan
    except Exception:  # cells may be objects of any class, and no error may depend on a cell
        return math.nan
    return number if math.isfinite(number) else math.nan


def canonical(cell: object) -> float | str | None:
    """The value by which a cell matches a level: a number, else the stripped string, else None (missing).

    So 1, 1.0, "1" and True are one level, as are "F" and " F ".
    """
    number = as_number(cell)
    if not math.isnan(number):
        return number
    return str.strip(cell) if issubclass(type(cell), str) else None  # type: ignore[arg-type]


@dataclass(frozen=True)
class Range:
    """A numeric column: every cell is clipped to [low, high]."""

    low: float
    high: float


@dataclass(frozen=True)
class Levels:
    """A categorical column: a cell of no declared level is missing. The order is the coding order."""

    values: tuple[Scalar, ...]

    def code_of(self) -> dict[float | str, int]:
        """Canonical value of each level, to its position."""
        return {canonical(level): code for code, level in enumerate(self.values)}  # type: ignore[misc]


class Domain(Mapping[str, Range | Levels]):
    """The public facts about a data set, on which every design and every noise scale is planned.

    Parameters
    ----------
    columns : mapping, optional
        Column name to declaration; the way to declare names that are not Python identifiers.
    **named
        The same by keyword. A declaration is a pair ``(low, high)``, the range of a numeric column; a list, the levels
        of a categorical column in coding order (a two-level response is coded 0, 1); or ``bool``, the range (0, 1). An
        Enum class, and a CategoricalDtype or polars Enum that was written down (not one that was found in the data),
        stand for their levels.

    Raises
    ------
    DomainError
        If a declaration is neither, a range is not finite with low < high, or levels are empty, repeated or not
        scalars (numbers compare as numbers, so 1, 1.0 and "1" are the same level), or are two numbers that look like a
        range.

    Notes
    -----
    Ranges and levels must come from public knowledge, never from the data at hand: what is declared here is not
    protected. Immutable and hashable.

    Examples
    --------
    >>> Domain({"hours-per-week": (1, 99)}, age=(17, 90), sex=["F", "M"])
    Domain({'hours-per-week': (1, 99), 'age': (17, 90), 'sex': ['F', 'M']})
    """

    __slots__ = ("_columns",)
    _columns: dict[str, Range | Levels]

    def __init__(self, columns: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        if columns is None:
            columns = {}
        if not isinstance(columns, Mapping):
            raise DomainError(f"domain must map column names to ranges or levels, got {type(columns).__name__}")
        if repeated := sorted(set(columns) & set(named)):
            raise DomainError(f"domain declares {repeated[0]!r} twice; keep one declaration")
        declared = {**columns, **named}
        self._columns = {_check_name(name): _declaration(name, value) for name, value in declared.items()}

    @classmethod
    def coerce(cls, domain: Domain | Mapping[str, Any] | None) -> Domain:
        """`domain` itself if it is a Domain, one built from a plain dict, or an empty one for None.

        Examples
        --------
        >>> Domain.coerce({"age": (17, 90)})
        Domain({'age': (17, 90)})
        """
        return domain if isinstance(domain, Domain) else cls(domain)

    def __getitem__(self, name: str) -> Range | Levels:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __hash__(self) -> int:
        return hash(frozenset(self._columns.items()))

    def __repr__(self) -> str:
        return f"Domain({ {name: _plain(column) for name, column in self.items()}!r})"

    def with_(self, columns: Mapping[str, Any] | None = None, /, **named: Any) -> Domain:
        """A new Domain with these declarations added, or put in the place of those of the same names.

        Examples
        --------
        >>> Domain(age=(17, 90)).with_(age=(18, 65), sex=["F", "M"])
        Domain({'age': (18, 65), 'sex': ['F', 'M']})
        """
        return Domain({**self, **Domain(columns, **named)})

    def __or__(self, other: object) -> Domain:
        """Both together; where both declare a column, the right one counts, as for dicts."""
        return self.with_(other) if isinstance(other, Mapping) else NotImplemented

    def __ror__(self, other: object) -> Domain:
        return Domain(other).with_(self) if isinstance(other, Mapping) else NotImplemented

    @staticmethod
    def template(frame: Any) -> Template:
        """The text of a Domain to fill in, from the names and types of the columns alone; no cell is read.

        Parameters
        ----------
        frame : DataFrame, Arrow table, LazyFrame, dict of arrays, or path
            Of a Parquet file the schema is read, of a CSV file the first line alone.

        Returns
        -------
        str
            Python code: print it, and write down what the codebook says.

        Raises
        ------
        DataError
            If names and types cannot be told without reading rows.

        Examples
        --------
        >>> import numpy as np
        >>> Domain.template({"age": np.zeros(0), "smoker": np.zeros(0, dtype=bool)})
        # Fill in what the codebook says, not what the data hold; leave out the rest.
        domain = dp.Domain(
            age=(..., ...),  # float64: least, greatest; a list of few codes
            smoker=bool,  # bool
        )
        """
        return template_of(frame)

    @classmethod
    def from_csv(cls, path: str | Path) -> Domain:
        """The Domain that a codebook declares, one column of the data a line.

        Parameters
        ----------
        path : str or Path
            A CSV file, or its text of several lines, with the columns name, low, high and levels; levels are divided by
            ``|``: ``sex,,,F|M``; of a column of true and false the word bool stands for them.

        Raises
        ------
        DomainError
            Naming the line that is neither a range nor levels.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> domain, path = Domain(age=(17, 90), sex=["F", "M"]), pathlib.Path(tempfile.mkdtemp()) / "codebook.csv"
        >>> characters = path.write_text(domain.to_csv())
        >>> Domain.from_csv(path).matches(domain)
        True
        """
        return cls._read(path, codebook.from_csv, "from_csv")

    @classmethod
    def from_yaml(cls, path: str | Path) -> Domain:
        """The Domain that a YAML file declares, one column of the data a line.

        Parameters
        ----------
        path : str or Path
            A file, or its text with line breaks: ``age: {range: [17, 90]}``, ``sex: {levels: [F, M]}`` or
            ``sex: [F, M]``, ``member: bool``.

        Raises
        ------
        ArgumentError
            If PyYAML is not installed.
        DomainError
            If the file cannot be read, or declares anything else.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> domain, path = Domain(age=(17, 90)), pathlib.Path(tempfile.mkdtemp()) / "codebook.yaml"
        >>> characters = path.write_text(domain.to_yaml())
        >>> Domain.from_yaml(path)  # with the extra "cli"
        Domain({'age': (17, 90)})
        """
        return cls._read(path, codebook.from_yaml, "from_yaml")

    @classmethod
    def _read(cls, path: str | Path, reader: Callable[..., dict[str, Any]], what: str) -> Domain:
        """What `reader` makes of a file, which its errors name."""
        text = codebook.codebook_text(path, what)
        try:
            return cls(reader(text, as_number))
        except DomainError as error:
            raise DomainError(f"{codebook.codebook_name(path)}: {error}") from error

    def to_yaml(self) -> str:
        """The text of a codebook that `from_yaml` reads: the same ranges, and levels that match the same cells."""
        return codebook.to_yaml({name: _plain(column) for name, column in self.items()})

    def to_csv(self) -> str:
        """The text of a codebook that `from_csv` reads: the same ranges, and levels that match the same cells.

        Raises
        ------
        DomainError
            If a name or level would be read as another one, such as a level with a ``|``: `to_yaml` writes all.
        """
        text = codebook.to_csv({name: _plain(column) for name, column in self.items()})
        try:
            read = text.replace("\r", "\n")  # as a file of text is read
            same = Domain(codebook.from_csv(read, as_number)).matches(self)
        except DomainError:
            same = False
        if not same:
            raise DomainError("to_csv: a name or a level would be read as another one; to_yaml writes all of them")
        return text

    def matches(self, other: Domain) -> bool:
        """Whether both declare the same columns, with ranges of the same ends and levels that match the same cells."""
        return list(self) == list(other) and all(_matched(self[name]) == _matched(other[name]) for name in self)

    def with_ranges(self, ranges: Mapping[str, tuple[float, float]]) -> Domain:
        """A new Domain that also declares `ranges` (column name to (low, high)).

        Raises
        ------
        DomainError
            If a column is already declared, or a range is not finite with low < high.

        Examples
        --------
        >>> Domain(sex=["F", "M"]).with_ranges({"age": (17, 90)})
        Domain({'sex': ['F', 'M'], 'age': (17, 90)})
        """
        if known := [name for name in ranges if name in self]:
            raise DomainError(f"domain already declares {known[0]!r}")
        return Domain({**self, **{name: tuple(pair) for name, pair in ranges.items()}})

    def to_dict(self) -> dict[str, dict[str, list[Any]]]:
        """Plain values for JSON: name to ``{"range": [low, high]}`` or ``{"levels": [...]}``."""
        return {name: {type(column).__name__.lower(): list(_plain(column))} for name, column in self.items()}

    @classmethod
    def from_dict(cls, columns: Mapping[str, Mapping[str, Any]]) -> Domain:
        """The inverse of `to_dict`; raises DomainError on anything else."""
        declared: dict[str, Any] = {}
        for name, column in columns.items():
            match column:
                case {"range": [low, high], **rest} if not rest:
                    declared[name] = (low, high)
                case {"levels": [*levels], **rest} if not rest:
                    declared[name] = levels
                case _:
                    raise DomainError(f"the stored domain of {name!r} is neither a range nor levels")
        return cls(declared)

    def to_json(self) -> str:
        """A JSON text that `from_json` reads back.

        Examples
        --------
        >>> Domain.from_json(Domain(sex=["F", "M"]).to_json())
        Domain({'sex': ['F', 'M']})
        >>> Domain.from_dict(Domain(age=(17, 90)).to_dict())
        Domain({'age': (17, 90)})
        """
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Domain:
        """Read what `to_json` wrote; raises DomainError on anything else."""
        try:
            columns = json.loads(text)
        except (TypeError, ValueError) as error:
            raise DomainError("the stored domain is not valid JSON") from error
        if not isinstance(columns, dict) or not all(isinstance(column, dict) for column in columns.values()):
            raise DomainError("the stored domain is not an object of columns")
        return cls.from_dict(columns)


def _matched(column: Range | Levels) -> object:
    """What a column's cells are compared with."""
    return column if isinstance(column, Range) else [canonical(level) for level in column.values]


def _plain(column: Range | Levels) -> Any:
    return (column.low, column.high) if isinstance(column, Range) else list(column.values)


def _check_name(name: object) -> str:
    if not isinstance(name, str):
        raise DomainError(f"column names must be strings, got {safe_repr(name)}; rename the column")
    return name


def _declaration(name: object, value: object) -> Range | Levels:
    if isinstance(value, (Range, Levels)):
        value = _plain(value)
    if value is bool:
        return Range(0, 1)
    if isinstance(value, (set, frozenset)):
        raise DomainError(
            f"the levels of {name!r} are a set, which has no order: write a list of levels; the first is the reference "
            "and, of a response of two, the second what is modelled"
        )
    levels = value if isinstance(value, list) else _typed_levels(name, value)
    if levels is not None:
        return _levels(name, levels)
    # By the module of its class: a Domain is read where pandas is not installed.
    if isinstance(value, np.ndarray) or any(kind.__module__.split(".")[0] == "pandas" for kind in type(value).__mro__):
        # Such as data["sex"].unique(): levels found in the data are not public.
        raise DomainError(
            f"the levels of {name!r} must be a list written from the codebook, not a {type(value).__name__}: values "
            "found in the data are not public"
        )
    if isinstance(value, tuple):
        return _range(name, value)
    if isinstance(value, range) and len(value) > 1:
        raise DomainError(
            f"declare {name!r} as ({value[0]}, {value[-1]}), a range of numbers, or as list({value!r}), levels: "
            "Python's range is neither"
        )
    raise DomainError(f"declare {name!r} as a range (low, high), a list of levels, or bool; got {type(value).__name__}")


def _typed_levels(name: object, value: object) -> list[object] | None:
    """The levels that a type lists: of an Enum class, a pandas CategoricalDtype or a polars Enum; else None."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return [member.value for member in value]
    kind, home = type(value).__name__, type(value).__module__.partition(".")[0]
    # By name: a Domain is read where neither is installed.
    if (home, kind) not in (("pandas", "CategoricalDtype"), ("polars", "Enum")):
        return None
    categories = getattr(value, "categories", None)
    if categories is None:
        raise DomainError(f"the CategoricalDtype of {name!r} lists no categories; write the levels as a list")
    return list(categories.to_list())


def _range(name: object, pair: tuple[object, ...]) -> Range:
    if any(end is ... for end in pair):
        raise DomainError(f"the range of {name!r} is still to be filled in: write (low, high) from the codebook")
    ends = [_python_scalar(end) for end in pair]
    if len(ends) != 2 or any(isinstance(end, bool) or not isinstance(end, (int, float)) for end in ends):
        raise DomainError(f"the range of {name!r} must be a pair of numbers (low, high); write levels as a list")
    low, high = ends
    # The width must be a finite double too, so that no later arithmetic on the range can overflow.
    if not math.isfinite(as_number(low)) or not math.isfinite(as_number(high)) or float(high) - float(low) == math.inf:
        raise DomainError(f"the range of {name!r} must be finite, got ({safe_repr(low)}, {safe_repr(high)})")
    if not float(low) < float(high):
        raise DomainError(f"the range of {name!r} must have low < high, got ({safe_repr(low)}, {safe_repr(high)})")
    # Beyond 2**53 an integer is not a double; below, it reads better as the user wrote it.
    return Range(*(end if abs(end) <= 2**53 else float(end) for end in (low, high)))


def _levels(name: object, values: list[object]) -> Levels:
    levels = tuple(_python_scalar(value) for value in values)
    if any(level is ... for level in levels):
        raise DomainError(f"the levels of {name!r} are still to be filled in: write [...] from the codebook")
    if not levels:
        raise DomainError(f"the levels of {name!r} are empty; list every value the column may take")
    if any(not isinstance(level, Scalar) or canonical(level) is None for level in levels):
        raise DomainError(f"the levels of {name!r} must be strings, finite numbers or booleans")
    if len({canonical(level) for level in levels}) < len(levels):
        raise DomainError(
            f"the levels of {name!r} are not distinct (1, 1.0, '1' and '01' are one level: cells go by their value)"
        )
    # Taken as levels, [17, 90] would drop every other age, silently: missing rows are private.
    if len(levels) == 2 and all(type(level) in (int, float) for level in levels) and levels[1] - levels[0] > 1:
        low, high = levels
        raise DomainError(f"declare {name!r} as ({low}, {high}) for a range, as ['{low}', '{high}'] for two levels")
    return Levels(levels)


def _python_scalar(value: object) -> Any:
    return value.item() if isinstance(value, np.generic) else value

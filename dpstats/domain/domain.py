"""The public facts about a data set: each column's range or levels, declared without looking at the rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dpstats.arguments import safe_repr
from dpstats.domain import codebook
from dpstats.domain.codebook import Template, template_of
from dpstats.domain.declarations import EXTRAS, Levels, Range, as_number, canonical, declaration_of, like_a_range
from dpstats.errors import DomainError


class Domain(Mapping[str, Range | Levels]):
    """The public facts about a data set, from which every design and every noise scale is planned.

    Parameters
    ----------
    columns : mapping, optional
        Column name to declaration; needed for names that are not Python identifiers.
    **named
        The same by keyword. A declaration is a pair ``(low, high)``, the range of a numeric column, whose cells are
        clipped to it, or a `Range`, which may leave rows out instead; a list, the levels of a categorical column in
        coding order (a two-level response is coded 0, 1); or ``bool``, the range (0, 1). An Enum class, a
        CategoricalDtype or a polars Enum stands for its levels; it must be written by hand, not taken from the data.

    Raises
    ------
    DomainError
        If a declaration is none of these, a range is not finite with low < high, levels are empty, repeated or not
        scalars (numbers compare as numbers, so 1, 1.0 and "1" are the same level), or two levels look like a range.

    Notes
    -----
    Ranges and levels must come from public knowledge, never from the data at hand: declarations are not protected. A
    Domain is immutable and hashable.

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
        if isinstance(columns, str | os.PathLike):
            raise DomainError(
                "domain must map column names to ranges or levels; dp.Domain.from_yaml and dp.Domain.from_csv read one "
                "from a path"
            )
        if not isinstance(columns, Mapping):
            raise DomainError(f"domain must map column names to ranges or levels, got {type(columns).__name__}")
        if repeated := sorted(set(columns) & set(named)):
            raise DomainError(f"domain declares {repeated[0]!r} twice; keep one declaration")
        declared = {**columns, **named}
        for name in declared:
            if not isinstance(name, str):
                raise DomainError(f"column names must be strings, got {safe_repr(name)}; rename the column")
        self._columns = {name: declaration_of(name, value) for name, value in declared.items()}

    @classmethod
    def coerce(cls, domain: Domain | Mapping[str, Any] | None) -> Domain:
        """`domain` itself if it is a Domain, one built from a plain dict, or an empty one for None.

        Examples
        --------
        >>> Domain.coerce({"age": (17, 90)})
        Domain({'age': (17, 90)})
        """
        return domain if isinstance(domain, Domain) else cls(domain)

    def _among(self, names: Iterable[str]) -> Domain:
        """Some of the columns, in this order: they were checked when they were declared."""
        part = object.__new__(Domain)
        part._columns = {name: self._columns[name] for name in names}
        return part

    def __getitem__(self, name: str) -> Range | Levels:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __hash__(self) -> int:
        return hash(frozenset(self._columns.items()))

    def __repr__(self) -> str:
        return f"Domain({ {name: _short(column) for name, column in self.items()}!r})"

    def with_(self, columns: Mapping[str, Any] | None = None, /, **named: Any) -> Domain:
        """A new Domain with these declarations added; they replace declarations of the same names.

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
            Of a Parquet file only the schema is read, of a CSV file only the first line.

        Returns
        -------
        str
            Python code: print it, and fill in the facts from the codebook.

        Raises
        ------
        DataError
            If names and types are not declared.

        Examples
        --------
        >>> import numpy as np
        >>> Domain.template({"age": np.zeros(0), "smoker": np.zeros(0, dtype=bool)})
        # Fill in what the codebook says, not what the data hold; leave out the rest.
        # A range is (least, greatest), the levels of a text are all that exist, the
        # reference first. Numbers that are codes are levels, too.
        domain = dp.Domain(
            age=(..., ...),  # float64
            smoker=bool,  # bool
        )
        """
        return template_of(frame)

    @classmethod
    def from_csv(cls, path: str | Path) -> Domain:
        """The Domain that a codebook declares, with one line per column of the data.

        Parameters
        ----------
        path : str or Path
            A CSV file, or its text of several lines, with the columns name, low, high and levels. Levels are divided by
            ``|``, as in ``sex,,,F|M``; the word bool declares a column of true and false, ``0.0,1.0`` a share, which
            ``0,1`` does not. The further columns outside, mean, sd, inner_low and inner_high hold the other facts of a
            `Range`.

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
        """The Domain that a YAML file declares, with one line per column of the data.

        Parameters
        ----------
        path : str or Path
            A file, or its text with line breaks: ``age: {range: [17, 90]}``, ``delay: {range: [-20, 120], outside:
            drop}``, ``bmi: {range: [5, 300], typical: [27, 5]}``, ``sex: {levels: [F, M]}`` or ``sex: [F, M]``,
            ``member: bool``.

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
        return codebook.to_yaml({name: _short(column) for name, column in self.items()})

    def to_csv(self) -> str:
        """The text of a codebook that `from_csv` reads: the same ranges, and levels that match the same cells.

        Raises
        ------
        DomainError
            If a name or level would be read back differently, such as a level with a ``|``; use `to_yaml`.
        """
        text = codebook.to_csv({name: _short(column) for name, column in self.items()})
        try:
            read = text.replace("\r", "\n")  # as a file of text is read
            same = Domain(codebook.from_csv(read, as_number)).matches(self)
        except DomainError:
            same = False
        if not same:
            raise DomainError("to_csv: a name or a level would be read back as a different one; use to_yaml")
        return text

    def matches(self, other: Domain) -> bool:
        """Whether both declare the same columns, with the same ranges and levels that match the same cells."""
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

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain values for JSON: name to ``{"range": [low, high], ...}`` or ``{"levels": [...]}``."""
        return {
            name: {"range": [column.low, column.high], **column.extras}
            if isinstance(column, Range)
            else {"levels": list(column.values)}
            for name, column in self.items()
        }

    @classmethod
    def from_dict(cls, columns: Mapping[str, Any]) -> Domain:
        """The inverse of `to_dict`, which takes a plain list of texts as levels; DomainError on anything else."""
        declared: dict[str, Any] = {}
        for name, column in columns.items():
            match column:
                case {"range": [*blank]} | {"levels": [*blank]} | [*blank] if blank and all(
                    one == "..." for one in blank
                ):
                    raise DomainError(f"{name!r} is not filled in: write its range or its levels from the codebook")
                case {"range": [*levels]} | [*levels] if levels and all(isinstance(one, str) for one in levels):
                    if isinstance(column, Mapping):
                        raise DomainError(
                            f"the range of {name!r} must be two numbers; for levels write {_json_entry(name, levels)}"
                        )
                    declared[name] = levels
                case {"range": [low, high], **extras} if set(extras) <= set(EXTRAS):
                    declared[name] = codebook.range_of(
                        f"the stored domain of {name!r}",
                        (low, high),
                        {str(key): extra for key, extra in extras.items()},
                    )
                case {"levels": [*levels], **rest} if not rest:
                    declared[name] = Levels(tuple(levels))
                case [int() | float(), int() | float()] if column[0] != column[1] and bool not in map(type, column):
                    key = json.dumps(name, ensure_ascii=False)
                    raise DomainError(
                        f'the stored domain of {name!r} is neither a range nor levels; write {key}: {{"levels": '
                        f'{column}}} for two levels, or {key}: {{"range": {sorted(column)}}} for a range'
                    )
                case _:
                    raise DomainError(
                        f"the stored domain of {name!r} is neither a range nor levels; write "
                        f'{_json_entry(name, ["a", "b"])}, or {{"range": [0, 1]}} with its two ends'
                    )
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
        if not isinstance(columns, dict):
            entry = _json_entry("sex", ["f", "m"])
            raise DomainError(f"the stored domain is not an object of columns, such as {{{entry}}}")
        return cls.from_dict(columns)


def _matched(column: Range | Levels) -> object:
    """What a column's cells are compared with."""
    return column if isinstance(column, Range) else [canonical(level) for level in column.values]


def _json_entry(name: str, levels: list[str]) -> str:
    """Levels of a column as a codebook in JSON has them, and no more of them than show the form."""
    some = json.dumps(levels[:2], ensure_ascii=False)[:-1] + (", ..." if len(levels) > 2 else "")
    return f'{json.dumps(name, ensure_ascii=False)}: {{"levels": {some}]}}'


def _short(column: Range | Levels) -> Any:
    """A declaration as one would write it: a pair where that says all."""
    if isinstance(column, Range):
        return column if column.extras else (column.low, column.high)
    # As texts two levels cannot be taken for a range.
    return list(column.values) if like_a_range(column) is None else list(map(str, column.values))


def support_of(domain: Domain) -> Domain:
    """The Domain of the rows that a fit keeps: every range is the interval in which it keeps or to which it clips."""
    narrow = {
        name: declared.interval
        for name, declared in domain.items()
        if isinstance(declared, Range) and declared.interval != (declared.low, declared.high)
    }
    return domain.with_(narrow) if narrow else domain

"""Types of column: how each is built from cells, and what it stores of them. Here those of Python and numpy."""

from __future__ import annotations

import array
import collections
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from benchmarks.audits.edge_cases.cells import Cell, Hidden

Build = Callable[[Sequence[Any], Sequence[Any]], Any]
Home = Literal["python", "numpy", "pandas", "arrow", "polars", "series"]


@dataclass(frozen=True)
class Column:
    """A type of column.

    Attributes
    ----------
    build : callable
        From the cells, and from all cells that any neighbour holds: categories are part of a type, which is public.
        Raises anything if it cannot hold them.
    fill : "objects", "text", "numbers" or tuple
        What stands in the other rows: cells as the formula wants them, as text, as numbers, or these.
    own : tuple of Cell
        Cells that only this type can hold.
    stored : bool
        Whether a cell must be read back to know what it means, since the type may change it.
    """

    name: str
    home: Home
    build: Build
    fill: str | tuple[Any, ...] = "objects"
    own: tuple[Cell, ...] = ()
    stored: bool = True


def own(**named: Any) -> tuple[Cell, ...]:
    """Cells for one type of column, by name."""
    return tuple(Cell(f"own {name}", lambda value=value: value) for name, value in named.items())


def objects(cells: Sequence[Any]) -> np.ndarray[Any, Any]:
    """An array of objects, whatever they are: numpy would unpack lists."""
    made = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        made[place] = cell
    return made


class Row(collections.abc.Sequence):  # type: ignore[type-arg]
    """A sequence that is not a list."""

    def __init__(self, cells: Sequence[Any]) -> None:
        self._cells = list(cells)

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, place: Any) -> Any:
        return self._cells[place]


class Arrayed:
    """What numpy and pandas turn into an array."""

    def __init__(self, cells: Sequence[Any]) -> None:
        self._cells = objects(cells)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._cells

    def __len__(self) -> int:
        return len(self._cells)


def _generator(cells: Sequence[Any]) -> Iterator[Any]:
    yield from cells


def hidden(cells: Sequence[Any]) -> tuple[list[Any], list[bool]]:
    """The values, those beneath a mask too, and the mask."""
    return [c.value if isinstance(c, Hidden) else c for c in cells], [isinstance(c, Hidden) for c in cells]


def _matrix(cells: Sequence[Any]) -> Any:
    return np.array([[cell, cell] for cell in cells], dtype=float).reshape(-1, 2)


def _same(cell: Any) -> Any:
    return cell


def _flat(made: Any) -> Any:
    """The array, if no cell was taken for a row of cells."""
    if made.ndim != 1:
        raise ValueError
    return made


def _masked(dtype: Any, **options: Any) -> Build:
    def build(cells: Sequence[Any], every: Sequence[Any]) -> Any:
        values, mask = hidden(cells)
        filled = objects(values) if dtype is object else _flat(np.array(values, dtype=dtype))
        return np.ma.MaskedArray(filled, mask=mask, **options)

    return build


def _hard(cells: Sequence[Any], every: Sequence[Any]) -> Any:
    made = _masked(np.float64)(cells, every)
    made.harden_mask()
    return made


def numpy_column(dtype: Any) -> Build:
    """A builder of arrays of one dtype."""

    def build(cells: Sequence[Any], every: Sequence[Any]) -> Any:
        return _flat(np.array(list(cells), dtype=dtype))

    return build


def _simple(build: Callable[[Sequence[Any]], Any]) -> Build:
    return lambda cells, every: build(cells)


def _python_columns() -> Iterator[Column]:
    forms: dict[str, Callable[[Sequence[Any]], Any]] = {
        "list": list, "tuple": tuple, "deque": collections.deque, "generator": _generator,
        "iterator": lambda cells: iter(list(cells)), "map": lambda cells: map(_same, cells),
        "UserList": collections.UserList, "sequence": Row, "array protocol": Arrayed,
        "dict by row": lambda cells: dict(enumerate(cells)),
        "dict values": lambda cells: dict(enumerate(cells)).values(),
        "list of arrays": lambda cells: [np.array(cell, dtype=object) for cell in cells],
    }  # fmt: skip
    for name, form in forms.items():
        yield Column(name, "python", _simple(form), stored=name == "list of arrays")
    packed: dict[str, Any] = {"range": lambda cells: range(len(cells)), "bytes": lambda cells: bytes(len(cells))}
    packed |= {"set": lambda cells: set(range(len(cells))), "text": lambda cells: "1" * len(cells)}
    packed |= {"array.array": lambda c: array.array("d", c), "memoryview": lambda c: memoryview(array.array("d", c))}
    for name, form in packed.items():
        yield Column(name, "python", _simple(form), "numbers")


FLOATS = own(nan=np.nan, inf=np.inf, minus_inf=-np.inf, huge=1e308, tiny=5e-324, subnormal=2.3e-308, minus_zero=-0.0)
WIDE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def extremes(name: str) -> tuple[Cell, ...]:
    """The smallest and greatest integers of a type."""
    limits = np.iinfo(name)
    return own(least=int(limits.min), greatest=int(limits.max))


def _numpy_columns() -> Iterator[Column]:
    yield Column("numpy object", "numpy", _simple(objects), stored=False)
    for name in ("float16", "float32", "float64", "longdouble"):
        yield Column(f"numpy {name}", "numpy", numpy_column(name), "numbers", FLOATS)
    yield Column("numpy big-endian", "numpy", numpy_column(">f8"), "numbers", FLOATS)
    for name in WIDE:
        yield Column(f"numpy {name}", "numpy", numpy_column(name), "numbers", extremes(name))
    yield Column("numpy bool", "numpy", numpy_column(bool), (True, False), own(true=True, false=False))
    yield Column("numpy complex", "numpy", numpy_column(complex), "numbers", own(i=1j, nan=complex(np.nan, 1)))
    yield Column("numpy text", "numpy", numpy_column("U9"), "text", own(nul="a\x00b", surrogate="\udc80"))
    yield Column("numpy bytes", "numpy", numpy_column("S9"), "text", own(bad=b"\xff\xfe"))
    yield Column("numpy datetime", "numpy", numpy_column("M8[s]"), (0, 1, 2), own(nat="NaT", far=2**60))
    yield Column("numpy timedelta", "numpy", numpy_column("m8[ns]"), (0, 1, 2), own(nat="NaT", far=2**62))
    yield Column("numpy void", "numpy", numpy_column("V3"), (b"abc", b"abd"), own(zero=b"\x00"))
    yield Column("numpy matrix", "numpy", _simple(_matrix), "numbers", FLOATS)
    for name in ("float64", "int64", "bool", "float32"):
        masks = own(**{f"hidden_{value}": Hidden(value) for value in (0, 1, 7)})
        masks += own(hidden_nan=Hidden(np.nan), hidden_tiny=Hidden(5e-324)) if name.startswith("float") else ()
        yield Column(f"masked {name}", "numpy", _masked(name), "numbers", masks)
    floats = own(hidden_3=Hidden(3.0), hidden_inf=Hidden(np.inf))
    yield Column("masked, filled with 5", "numpy", _masked("float64", fill_value=5.0), "numbers", floats)
    yield Column("masked, hard", "numpy", _hard, "numbers", floats)
    yield Column("masked object", "numpy", _masked(object), "objects", own(hidden_1=Hidden(1), hidden_a=Hidden("a")))


COLUMNS = [*_python_columns(), *_numpy_columns()]

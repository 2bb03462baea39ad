"""No cell decides whether there is an error or a warning, what it says, or what a missing row adds to the release."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dpstats as dp
from benchmarks.audits.edge_cases.calls import ENTRIES, Books, Entry, Shown
from benchmarks.audits.edge_cases.cells import BY_NAME, CELLS, Cell
from benchmarks.audits.edge_cases.groups import COLUMN_BY_NAME, ENTRY_BY_NAME, Finding, Setting, run, settings, sweep
from benchmarks.audits.edge_cases.observed import ENVIRONMENTS
from benchmarks.audits.edge_cases.tables import KINDS
from benchmarks.audits.edges import table

Call = Callable[[Any, Books], Shown]
Plant = Callable[[Call], Call]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_neighbours_look_alike(seed: int) -> None:
    found, cases = sweep(300, seed)
    assert cases >= 300
    assert not found, "\n" + table(found)


def test_the_search_is_wide() -> None:
    assert len(CELLS) == len({cell.name for cell in CELLS}) >= 65
    assert len(KINDS) >= 500
    drawn = list(itertools.islice(settings(0), 6000))
    assert {entry.name for entry in ENTRIES} == {setting.entry for setting, _ in drawn}
    assert {(kind.name, column.name) for kind, column in KINDS if not kind.target} <= {
        (setting.table, setting.column) for setting, _ in drawn
    }
    assert {cell.name for cell in CELLS} <= {cell.name for _, cells in drawn for cell in cells}
    assert set(ENVIRONMENTS) == {setting.environment for setting, _ in drawn}


def before(reads: Callable[[Any], object]) -> Plant:
    """A call that reads rows in its own way first."""

    def plant(call: Call) -> Call:
        def planted(data: Any, books: Books) -> Shown:
            reads(data)
            return call(data, books)

        return planted

    return plant


def is_float(cell: object) -> bool:
    return type(cell) is float and cell == cell


def warns(data: Any) -> None:
    if not all(map(is_float, data["x"])):
        warnings.warn("a cell is no number", UserWarning, stacklevel=1)


def quotes(data: Any) -> None:
    """The error is there whatever the cells are, but it shows one."""
    raise dp.errors.DataError(f"cannot read a column that ends in {type(data['x'].iloc[-1]).__name__}")


def hangs_on(where: str) -> Callable[[Any], None]:
    """The same error for all cells, with another one attached that depends on them."""

    def reads(data: Any) -> None:
        error = dp.errors.DataError("no")
        if not all(map(is_float, data["x"])):
            if where == "note":
                error.add_note("a cell is no number")
            else:
                setattr(error, f"__{where}__", ValueError("a cell is no number"))
                error.__suppress_context__ = True
        raise error

    return reads


def prints(data: Any) -> None:
    if not all(map(is_float, data["x"])):
        print("a cell is no number", file=sys.stderr)


def charges(call: Call) -> Call:
    """Books that differ, though the call does not fail."""

    def planted(data: Any, books: Books) -> Shown:
        for _ in range(2 - all(map(is_float, data["x"]))):
            books.ledger.charge(dp.Guarantee(0.5), label="planted")
        return call(data, books)

    return planted


def fills(call: Call) -> Call:
    """A missing cell counts as zero, and a row is there that should not be."""

    def planted(data: Any, books: Books) -> Shown:
        cells = [cell if is_float(cell) else 0.0 for cell in data["x"]]
        return call(data.assign(x=cells), books)

    return planted


def bares(call: Call) -> Call:
    """What lies beneath a mask is read."""
    return lambda data, books: call({**data, "x": np.ma.getdata(data["x"])}, books)


def counts(call: Call) -> Call:
    """The number of rows is told."""
    return lambda data, books: (f"{call(data, books)[0]}, {len(data)} rows", "")


def underflows(data: Any) -> None:
    np.multiply(np.asarray(data["x"], dtype=float), 1e-10)


OBJECTS = Setting("glm, gaussian", "frame", "object", "x", "last", "plain")
FLOATS = replace(OBJECTS, column="pandas float64")
ALONE = replace(OBJECTS, way="alone")
MASKED = replace(OBJECTS, table="dict", column="masked float64")
UNREAD = replace(OBJECTS, target="z")

PLANTED: dict[str, tuple[Plant, Setting, str, str]] = {
    "raises on text": (before(lambda data: data["x"].astype(float)), OBJECTS, "error", "str 'None'"),
    "raises on a cell's own error": (before(lambda data: list(map(float, data["x"]))), OBJECTS, "error", "list"),
    "compares with ==": (before(lambda data: [cell == 1 for cell in data["x"]]), OBJECTS, "error", "Decimal sNaN"),
    "compares, and is stopped": (before(lambda data: data["x"] == 1), OBJECTS, "error", "object, KeyboardInterrupt"),
    "hashes": (before(lambda data: set(data["x"])), OBJECTS, "error", "list"),
    "reads other columns": (before(lambda data: set(data["z"])), UNREAD, "error", "dict"),
    "needs a row": (before(lambda data: data["x"].iloc[0]), ALONE, "error", "no row"),
    "warns": (before(warns), OBJECTS, "warned", "float nan"),
    "warns as an error": (before(warns), replace(OBJECTS, environment="warnings and floating point raise"), "error",
                          "float nan"),
    "quotes": (before(quotes), OBJECTS, "error", "str ''"),
    "note": (before(hangs_on("note")), OBJECTS, "error", "NoneType None"),
    "cause": (before(hangs_on("cause")), OBJECTS, "error", "NoneType None"),
    "context": (before(hangs_on("context")), OBJECTS, "error", "NoneType None"),
    "prints": (before(prints), OBJECTS, "printed", "float nan"),
    "depends on errstate": (before(underflows), replace(FLOATS, environment="underflow raises"), "error", "own tiny"),
    "warns by errstate": (before(underflows), replace(FLOATS, environment="warnings and floating point raise"), "error",
                          "own subnormal"),
    "charges twice": (charges, OBJECTS, "books", "float nan"),
    "counts a missing row": (fills, OBJECTS, "bits", "float nan"),
    "ignores masks": (bares, MASKED, "bits", "own hidden_7"),
    "tells the number of rows": (counts, OBJECTS, "facts", "no row"),
}  # fmt: skip


def cell_of(setting: Setting, name: str) -> list[Cell]:
    own = {cell.name: cell for cell in COLUMN_BY_NAME[setting.column].own}
    known = {**BY_NAME, **own}
    # Beside it, another one that counts as missing and harms nobody.
    return [
        known["own nan" if "own nan" in own else "float nan"],
        *([known[name]] if name in known else []),
        *own.values(),
    ]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    plant, setting, what, cell = PLANTED[name]
    entry: Entry = ENTRY_BY_NAME[setting.entry]
    planted = replace(entry, call=plant(entry.call))
    found, _ = run(setting, cell_of(setting, cell), planted)
    assert (what, cell) in {(one.what, one.cell) for one in found}, table(found)


@pytest.mark.parametrize("setting", sorted({case[1] for case in PLANTED.values()}, key=str), ids=str)
def test_without_it_nothing_is_found(setting: Setting) -> None:
    cells = [cell for _, where, _, name in PLANTED.values() if where == setting for cell in cell_of(setting, name)]
    found: list[Finding] = run(setting, cells)[0]
    assert not found, table(found)

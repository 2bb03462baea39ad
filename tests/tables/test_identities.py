"""Identities of persons: alike in every container, exact beyond doubles, and never an error from a cell."""

from __future__ import annotations

import time
import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpstats.data import as_table
from dpstats.data.identities import MISSING_IDENTITY, of_cell
from dpstats.data.persons import tally_of

BIG = 2**53


def identities(column: object) -> list[tuple[int, int]]:
    """Of the cells of one column, whatever holds it."""
    found = as_table({"id": column}).column("id").identities()
    assert found.dtype == np.uint64
    return [(int(first), int(second)) for first, second in found]


NOBODY = (int(MISSING_IDENTITY), int(MISSING_IDENTITY))
NUMBERS = [
    np.array([1, 2, 1, 3], dtype=np.int8),
    np.array([1, 2, 1, 3], dtype=np.uint64),
    np.array([1.0, 2.0, 1.0, 3.0]),
    ["1", 2, True, Decimal(3)],
    np.array(["1", " 2", "1.0", "3"], dtype=object),
    pd.array([1, 2, 1, 3], dtype="Int64"),
    pd.array([1, 2, 1, 3], dtype="Float32"),
    pd.Categorical([1, 2, 1, 3]),
    pd.array([1, 2, 1, 3], dtype="Sparse[int]"),
    pa.array([1, 2, 1, 3], type=pa.int16()),
    pa.array(["1", "2", "1", "3"]).dictionary_encode(),
    pa.array([1, 2, 1, 3], type=pa.decimal128(5, 0)),
    pa.chunked_array([[1, 2], [1, 3]]),
]


@pytest.mark.parametrize("column", NUMBERS, ids=lambda column: f"{type(column).__name__}")
def test_one_number_is_one_person_in_every_container(column: object) -> None:
    assert identities(column) == [of_cell(number) for number in (1, 2, 1, 3)]


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    found = as_table(polars.DataFrame({"id": [BIG + 1, BIG, None], "name": ["a", "b", None]}))
    assert [tuple(map(int, row)) for row in found.column("id").identities()] == [of_cell(BIG + 1), of_cell(BIG), NOBODY]
    assert [tuple(map(int, row)) for row in found.column("name").identities()] == [of_cell("a"), of_cell("b"), NOBODY]


@pytest.mark.parametrize(
    "column",
    [
        np.array([BIG, BIG + 1, -BIG - 1]),
        [BIG, str(BIG + 1), -BIG - 1],
        np.array([np.int64(BIG), BIG + 1, np.int64(-BIG - 1)], dtype=object),
        pd.array([BIG, BIG + 1, -BIG - 1], dtype="Int64"),
        pa.array([BIG, BIG + 1, -BIG - 1]),
    ],
    ids=["numpy", "list", "objects", "Int64", "arrow"],
)
def test_whole_numbers_that_no_double_holds_are_told_apart(column: object) -> None:
    assert float(BIG) == float(BIG + 1)
    assert identities(column) == [of_cell(BIG), of_cell(BIG + 1), of_cell(-BIG - 1)]
    assert len(set(identities(column))) == 3


@pytest.mark.parametrize("value", [BIG, -BIG, 10**16, 2**63, 2**64 - 2**11, -(2**63), 2**64, 10**22, 2**200], ids=str)
def test_one_whole_number_is_one_person_however_it_is_written(value: int) -> None:
    """A person with two identities would weigh 2."""
    assert int(float(value)) == value
    cells = [
        value,
        float(value),
        np.float64(value),
        Decimal(value),
        Fraction(value),
        str(value),
        f" {value}.0 ",
        f"{value}e0",
    ]
    assert len({of_cell(cell) for cell in cells}) == 1
    columns: list[object] = [cells, np.array([value] * 2, dtype=np.float64), pa.array([float(value)]), [f"{value}.00"]]
    if -(2**63) <= value < 2**63:
        columns += [np.array([value]), pa.array([value]), pd.array([value], dtype="Int64")]
    assert {identity for column in columns for identity in identities(column)} == {of_cell(value)}


def test_what_no_double_is_near_has_an_identity_all_the_same() -> None:
    cells = ["1e400", Decimal("1e400"), 10**400, "9" * 400, Decimal("9007199254740993.5"), "9007199254740992.5"]
    found = [of_cell(cell) for cell in cells]
    assert len(set(found)) == len(cells)
    assert NOBODY not in found
    assert [of_cell(cell) for cell in (Decimal("nan"), Decimal("inf"), "", " ")] == [NOBODY] * 4


@pytest.mark.parametrize("digits", [401, 5_000, 1_000_000])
def test_no_length_of_a_cell_raises_or_takes_long(digits: int) -> None:
    """Python refuses to write numbers of more than 4,300 digits: one such cell would decide whether a call fails."""
    tail = "7" * digits
    cells = [
        f"{BIG}.{tail}",
        f"{BIG}{tail}",
        Decimal(f"{BIG}.{tail}"),
        Decimal(f"{BIG}{tail}"),
        "9" * digits,
        "x" * digits,
    ]
    started = time.process_time()
    found = [of_cell(cell) for cell in cells]
    assert time.process_time() - started < 5
    assert len(set(found)) == len(cells)
    assert of_cell(10 ** min(digits, 5000)) not in found
    assert of_cell(" " * digits + "5") == of_cell(5)


def test_long_identifiers_of_text_are_told_apart() -> None:
    texts = ["12345678901234567890123", "12345678901234567890124", "id-1", "id-2", "1e400", "1e401"]
    assert len(set(identities(texts))) == len(texts)
    assert identities(np.array([2**64 - 1], dtype=np.uint64)) == identities([str(2**64 - 1)])


class Hostile:
    """A cell that must not be asked for anything."""

    def __hash__(self) -> int:
        raise AssertionError("asked")

    __eq__ = __str__ = __int__ = __float__ = __hash__  # type: ignore[assignment]


@pytest.mark.parametrize(
    "cell",
    [None, np.nan, np.inf, "", "  ", pd.NaT, pd.NA, [1], {}, Hostile(), 1j],
    ids=lambda cell: type(cell).__name__,
)
def test_cells_that_name_nobody_are_missing(cell: object) -> None:
    assert identities([cell, 1]) == [NOBODY, of_cell(1)]


def test_texts_that_stand_for_missing_are_nobodys_and_told_apart() -> None:
    """A pass over the rows is known by its cells: a level may be such a word."""
    words = ["NA", "nan", "None", "<NA>", ".", None, "ann"]
    found = identities(words)
    assert [first == int(MISSING_IDENTITY) for first, _ in found] == [True] * 6 + [False]
    assert len(set(found)) == len(words)
    tallied = tally_of(np.array(found, dtype=np.uint64))
    assert tallied.rows.tolist() == [1]
    assert tallied.find(np.array(found, dtype=np.uint64)).tolist() == [-1] * 6 + [0]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_large_whole_numbers_are_told_apart_when_masked_or_sparse(dtype: str) -> None:
    values = np.array([2**60, 2**60 + 1, 2**60 + 2], dtype=dtype)
    exact = identities(values)
    assert len(set(exact)) == 3
    assert identities(np.ma.masked_array(values)) == exact
    assert identities(np.ma.masked_array(values, mask=[False, True, False])) == [exact[0], NOBODY, exact[2]]
    assert identities(pd.arrays.SparseArray(values)) == exact


def test_missing_cells_of_typed_columns() -> None:
    assert identities(pd.array([1, None], dtype="Int64")) == [of_cell(1), NOBODY]
    assert identities(pd.array([1, None], dtype="UInt8")) == [of_cell(1), NOBODY]
    assert identities(pa.array([1, None])) == [of_cell(1), NOBODY]
    assert identities(pa.array(["a", None])) == [of_cell("a"), NOBODY]
    assert identities(pd.Categorical(["a", None])) == [of_cell("a"), NOBODY]
    assert identities(np.array([1.0, np.nan])) == [of_cell(1), NOBODY]
    assert identities(np.array([0.0, -0.0])) == [of_cell(0)] * 2


def test_bytes_and_uuids() -> None:
    one, other = uuid.UUID(int=1), uuid.UUID(int=2**127)
    assert len(set(identities([one, other, b"1", b"", "x"]))) == 5
    assert identities([one]) == identities([uuid.UUID(int=1)])


def test_chosen_rows_keep_their_identities() -> None:
    table = as_table(pa.table({"id": ["a", "b", None, "a"]}))
    chosen = table.select(np.array([True, False, True, True]), 3).column("id").identities()
    assert [tuple(map(int, row)) for row in chosen] == [of_cell("a"), NOBODY, of_cell("a")]


def test_decimals_are_told_apart() -> None:
    """Keys of databases: two of them in one double are two persons."""
    whole = [14 * 10**17 + 1, 14 * 10**17 + 2, 5]
    cells = [Decimal(value) for value in whole]
    for column in (np.array(cells, dtype=object), pa.array(cells, pa.decimal128(20, 0))):
        assert identities(column) == [of_cell(value) for value in whole]
    parts = [Decimal("14000000000000000.25"), Decimal("14000000000000000.250")]
    assert of_cell(parts[0]) == of_cell(parts[1]) != of_cell(Decimal("14000000000000000.5"))
    assert of_cell(Decimal("NaN")) == NOBODY

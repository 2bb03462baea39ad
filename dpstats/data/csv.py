"""Rows of CSV files, line by line: a row is a line, and no line can change how another one is read.

A parser of CSV is a machine whose state runs on from line to line: one stray quotation mark turns the lines after it
into a cell, and one carriage return inside of a line makes two rows of it. Then data that differ in one line would
differ in many rows. So lines that would leave the parser within a cell, or hold a line end of another kind, are taken
out before it sees them, each by its own bytes alone; they are rows of which every cell is missing (docs/proofs/files).
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from dpstats.data.columns import Column
from dpstats.data.containers import ArrowColumn
from dpstats.data.table import Table

Places = NDArray[np.intp]

LONGEST = 2**18
"""Bytes of the longest line that can be a row."""

READ_BYTES = 2**22
"""Bytes read at a time."""

QUOTE, NEWLINE, RETURN = b'"\n\r'


TRUTHS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
"""Texts that pandas, R and databases write for what is 1 and 0 elsewhere."""

UNREAD = Column("CSV text", "numeric")
"""A column of a CSV file, which declares no types: each cell is read as the Domain asks, text by text.

What the Domain leaves out can only be a number: no cell is looked at to find out.
"""


class Dialect(NamedTuple):
    """What is public of a CSV file: its columns' names and what stands between cells."""

    names: tuple[str, ...]
    delimiter: str


def batches_of_lines(source: IO[bytes], dialect: Dialect, wanted: Sequence[str]) -> Iterator[Table]:
    """Batches of rows of a file whose header has been read, with some of its columns."""
    for lines, dropped in whole_lines(source):
        yield parse_lines(lines, dropped, dialect, wanted)


def whole_lines(source: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Blocks of whole lines, each with its line end, and how many lines were left out of the block for their length."""
    rest, skipping = b"", False
    while chunk := source.read(READ_BYTES):
        block = rest + chunk
        end = block.rfind(b"\n") + 1
        lines, rest = block[:end], block[end:]
        dropped = 0
        if skipping and lines:
            lines, skipping, dropped = lines[lines.index(b"\n") + 1 :], False, 1
        if skipping or len(rest) > LONGEST:
            rest, skipping = b"", True
        if lines or dropped:
            yield lines, dropped
    if rest or skipping:
        yield (rest + b"\n" if rest else b""), int(skipping)


def parse_lines(lines: bytes, dropped: int, dialect: Dialect, wanted: Sequence[str]) -> Table:
    """A block of lines as a table with a row for each, whatever it holds, and `dropped` rows of missing cells."""
    sound, count = sound_lines(lines, dialect)
    cells = _parse(sound, dialect, wanted)
    missing = count + dropped - cells.num_rows

    def fetch(at: int) -> ArrowColumn:
        chunks = [chunk.view(pa.string()) for chunk in cells.column(at).chunks]
        texts = pa.chunked_array([*chunks, pa.nulls(missing, pa.string())])
        return ArrowColumn(texts, UNREAD.type_name, UNREAD.kind, words=TRUTHS)

    return Table(wanted, count + dropped, fetch)


def sound_lines(lines: bytes, dialect: Dialect) -> tuple[bytes, int]:
    """The lines that are rows of CSV by themselves, and how many lines there were in all.

    A line stays if it is neither empty nor longer than `LONGEST`, does not begin with a byte order mark, which a parser
    takes off the first line that it is given and off no other, has a carriage return at its end only, as many cells
    as the header, and quotation marks that alternate between those that open a cell (after a delimiter, at the start of
    the line, or right after one that closes) and those that close it (before a delimiter, at the end of the line, or
    right before one that opens: a doubled mark within a cell), the last of them closing. So each line is judged by its
    own bytes alone, and a parser is after it where it was before it.
    """
    letters = np.frombuffer(lines, dtype=np.uint8)
    ends = np.flatnonzero(letters == NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    delimiter, marks = ord(dialect.delimiter), np.flatnonzero(letters == QUOTE)
    unsound = (ends + 1 - starts > LONGEST) | (letters[starts] == NEWLINE) | (letters[starts] == RETURN)
    unsound |= _marked(letters, starts)
    returns = np.flatnonzero(letters == RETURN)
    unsound[_lines_at(ends, returns[letters[returns + 1] != NEWLINE])] = True
    unsound[_misplaced(letters, ends, starts, marks, delimiter)] = True
    between = _lines_at(ends, _outside(np.flatnonzero(letters == delimiter), marks, starts, ends))
    unsound |= np.bincount(between, minlength=len(ends)) != len(dialect.names) - 1
    if not unsound.any():
        return lines, len(ends)
    kept = np.repeat(~unsound, ends + 1 - starts)
    return letters[kept].tobytes(), len(ends)


def _marked(letters: NDArray[np.uint8], starts: Places) -> NDArray[np.bool_]:
    """Which lines begin with the byte order mark of UTF-8."""
    last = len(letters) - 1
    letters_at = [letters[np.minimum(starts + place, last)] == byte for place, byte in enumerate(codecs.BOM_UTF8)]
    return np.logical_and.reduce(letters_at)


def _misplaced(letters: NDArray[np.uint8], ends: Places, starts: Places, marks: Places, delimiter: int) -> Places:
    """Lines with a quotation mark where none can stand, or an odd number of them; some more than once."""
    line = _lines_at(ends, marks)
    opens = (np.arange(len(marks)) - np.searchsorted(line, line)) % 2 == 0
    before, after = letters[marks - 1], letters[marks + 1]
    can_open = (before == delimiter) | (before == QUOTE) | (marks == starts[line])
    can_close = (after == delimiter) | (after == QUOTE) | (after == NEWLINE) | (after == RETURN)
    odd = np.flatnonzero(np.bincount(line, minlength=len(ends)) % 2)
    return np.concatenate([line[~np.where(opens, can_open, can_close)], odd])


def _outside(delimiters: Places, marks: Places, starts: Places, ends: Places) -> Places:
    """The delimiters that are not within quotation marks, counted from the start of their own line."""
    if not len(marks):
        return delimiters
    before_line = np.searchsorted(marks, starts)[_lines_at(ends, delimiters)]
    return delimiters[(np.searchsorted(marks, delimiters) - before_line) % 2 == 0]


def _lines_at(ends: Places, places: Places) -> Places:
    return np.searchsorted(ends, places)


def _parse(lines: bytes, dialect: Dialect, wanted: Sequence[str]) -> Any:
    """The cells of sound lines as bytes, one column for each of `wanted`."""
    # By their places, since names may be repeated.
    names = [str(place) for place in range(len(dialect.names))]
    places = [str(dialect.names.index(name)) for name in wanted] or names[:1]
    if not lines:  # which pyarrow refuses to read
        return pa.table({place: pa.array([], pa.binary()) for place in places})
    # Not with a handler of ragged rows: pyarrow decodes them for it, and prints what it cannot decode.
    return csv.read_csv(
        pa.BufferReader(lines),
        csv.ReadOptions(column_names=names, block_size=len(lines) + 1, use_threads=False),
        csv.ParseOptions(delimiter=dialect.delimiter, double_quote=True, newlines_in_values=False),
        csv.ConvertOptions(
            include_columns=places,
            column_types=dict.fromkeys(places, pa.binary()),
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )

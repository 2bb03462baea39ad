"""Rows of Parquet and CSV files: one path or all files of a pattern; types from the schema or from the Domain."""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from dpstats.arguments import can_be_path, safe_repr
from dpstats.data.batches import Files, batches_of, check_fragments, declared_columns
from dpstats.data.csv import LONGEST, UNREAD, Dialect, batches_of_lines
from dpstats.data.table import BATCH_ROWS, Stream, Table
from dpstats.domain.codebook import check_separator
from dpstats.errors import DataError

PARQUET = (".parquet", ".pq")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
BUFFER = 2**16
"""Bytes of a column that are read at a time."""

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def from_files(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Stream:
    """The rows of all Parquet or CSV files that match a path or pattern, file by file in the order of their names.

    Of several paths each is named once, and their order is kept.

    Raises DataError if there is none, names end otherwise, or the files do not agree in their columns or types.
    """
    given = [os.fspath(path)] if isinstance(path, (str, os.PathLike)) else [os.fspath(one) for one in path]
    names = [name for one in given for name in matching_files(one)]
    if len(given) > 1 and len(set(map(os.path.realpath, names))) < len(names):
        raise DataError("data: the paths name a file more than once; name each file once")
    files = Files(names)
    endings = {file_kind(name) for name in files.names}
    if len(endings) > 1 or not endings <= {*PARQUET, *DELIMITERS}:
        listed = ", ".join(map(safe_repr, given))
        raise DataError(f"data: {listed} must name files with one ending: .parquet, .pq, .csv or .tsv")
    return _parquet(files) if endings <= set(PARQUET) else _lines(files, DELIMITERS[endings.pop()])


def matching_files(pattern: str) -> list[str]:
    """Files by name, or those that match a pattern; DataError if there is none.

    What can be no path is not quoted: it may be the text of a file.
    """
    if not can_be_path(pattern):
        raise DataError(
            "data: a text must be the path of files, and this one is too long or has several lines; pass a table, "
            "or a path such as 'folder/*.parquet'"
        )
    paths = [pattern] if Path(pattern).is_file() else sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
    if not paths:
        what = (
            "is a folder; name its files with a pattern such as"
            if Path(pattern).is_dir()
            else "does not exist; pass a path such as"
        )
        raise DataError(f"data: {safe_repr(pattern)} {what} 'folder/*.parquet'")
    return paths


def file_kind(name: str) -> str:
    path = Path(name.lower())
    return path.with_suffix("").suffix if path.suffix in COMPRESSED else path.suffix


def _parquet(files: Files) -> Stream:
    paths = files.names
    try:
        dataset: Any = ds.dataset(list(paths), format="parquet")
        schemas = [fragment.physical_schema for fragment in dataset.get_fragments()]
    except (pa.ArrowException, OSError):
        dataset = None
    if dataset is None:
        raise DataError(f"data: {paths[0]!r} or another file of the pattern is not a readable Parquet file")
    for name, schema in zip(paths, schemas, strict=True):
        if schema.names != dataset.schema.names:
            raise DataError(f"data: {name!r} has other columns than {paths[0]!r}; name files with the same columns")
    check_fragments(dataset)
    return Stream(
        dataset.schema.names,
        declared_columns(dataset.schema),
        lambda names: batches_of(scan_parquet(files, names)),
        files.check_ready,
    )


def scan_parquet(
    files: Files, names: Sequence[str], row_groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Record batches of some columns of Parquet files, of some row groups of each or all."""
    for name in files.names:
        with files.opened(name) as (file, check):
            metadata = pq.read_metadata(file)
            types = metadata.schema.to_arrow_schema()
            if any(pa.types.is_dictionary(types.field(column).type) for column in names):
                metadata = _without_arrow(file)
            # Not by the dataset: it reads ahead of whoever works on the batches, in the end the whole file into memory.
            with pq.ParquetFile(file, metadata=metadata, pre_buffer=False, buffer_size=BUFFER) as parquet:
                for batch in parquet.iter_batches(BATCH_ROWS, columns=list(names), row_groups=row_groups):
                    check()
                    yield batch


def _without_arrow(file: IO[bytes]) -> Any:
    """The metadata of a Parquet file but for the types that Arrow wrote beside those of Parquet.

    They make dictionaries of text, as pandas writes categories; pyarrow then checks all of it for UTF-8, and fails.
    """
    file.seek(-8, os.SEEK_END)
    size = file.read(4)
    file.seek(-8 - int.from_bytes(size, "little"), os.SEEK_END)
    footer = file.read(int.from_bytes(size, "little"))
    # A key of the same length that nobody knows.
    return pq.read_metadata(
        pa.BufferReader(b"PAR1" + footer.replace(b"ARROW:schema", b"arrow:schema") + size + b"PAR1")
    )


def _lines(files: Files, delimiter: str) -> Stream:
    paths = files.names
    dialect = Dialect(_header(paths[0], delimiter), delimiter)
    for name in paths[1:]:
        if _header(name, delimiter) != dialect.names:
            raise DataError(f"data: {name!r} has other columns than {paths[0]!r}; name files with the same columns")

    def read(names: Sequence[str]) -> Iterator[Table]:
        for name in paths:
            with files.opened(name) as (file, check):
                source = _unpacked(file, name)
                _first_line(source)
                for batch in batches_of_lines(source, dialect, names):
                    check()
                    yield batch

    return Stream(dialect.names, [UNREAD] * len(dialect.names), read, files.check_ready)


def _unpacked(file: IO[bytes], name: str) -> Any:
    """The bytes of a file, taken out of its packing if its name says that it is packed."""
    return pa.input_stream(file, compression=COMPRESSED.get(Path(name.lower()).suffix), buffer_size=BUFFER)


def _header(name: str, delimiter: str) -> tuple[str, ...]:
    """The names of the columns, from the first line of a file."""
    try:
        with open(name, "rb") as file:
            line = _first_line(_unpacked(file, name))
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        text = ""
    if not text or "\r" in text or text.count('"') % 2:
        raise DataError(
            f"data: {name!r} must start with a line of column names in UTF-8, of at most {LONGEST:,} bytes, that ends "
            "in a line feed"
        )
    names = tuple(cell.strip() for cell in next(csv.reader([text], delimiter=delimiter)))
    check_separator(f"data: the first line of {name!r}", names, delimiter)
    return names


def _first_line(source: Any) -> bytes:
    """The first line, up to which `source` is read."""
    line = bytearray()
    while len(line) <= LONGEST and (letter := source.read(1)):
        line += letter
        if letter == b"\n":
            return bytes(line)
    return bytes(line) if len(line) <= LONGEST else b""

"""Rows of other libraries in batches: Arrow readers and datasets, polars' and DuckDB's queries."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, Any, NamedTuple
from weakref import WeakSet

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from dpstats.arguments import safe_repr
from dpstats.data.columns import Column
from dpstats.data.containers import from_arrow, from_polars, is_integral, kind_of
from dpstats.data.spool import free_bytes
from dpstats.data.table import BATCH_ROWS, Stream, Table, with_deciding
from dpstats.errors import DataError, NoRoomError, RowsChangedError
from dpstats.quiet import silence_native
from dpstats.wording import argument

Produce = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""From names of columns to their record batches."""

KEPT_IN_MEMORY = 2**24
"""Bytes of a query's result beyond which it is kept in a file."""


def declared_columns(kinds: pa.Schema) -> list[Column]:
    """What an Arrow schema says of each of its columns."""
    return [Column(str(field.type), kind_of(field.type), integral=is_integral(field.type)) for field in kinds]


def batches_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Table]:
    """Record batches as tables, small ones joined until there are `BATCH_ROWS` rows or no more of them."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= BATCH_ROWS:
            yield _joined(held, rows)
            held, rows = [], 0
    if held:
        yield _joined(held, rows)


def _joined(batches: Sequence[pa.RecordBatch], rows: int) -> Table:
    # Not a pyarrow Table: chunks of one column may have dictionaries of their own.
    labels = batches[0].schema.names

    def fetch(at: int) -> Any:
        columns = [batch.column(at) for batch in batches]
        return from_arrow(columns[0] if len(columns) == 1 else pa.chunked_array(columns))

    return Table(labels, rows, fetch)


class OneShotStream(Stream):
    """Rows whose every reading may be costly or differ: the query is carried out once for a release."""

    def __init__(self, labels: Sequence[str], columns: Sequence[Column], produce: Produce) -> None:
        super().__init__(labels, columns, self._once, check_room)
        self._produce = produce

    def _once(self, names: Sequence[str]) -> Iterator[Table]:
        return SpooledBatches(names or self.labels[:1], self._produce).read(names)

    def only(self, names: Iterable[str]) -> Stream:
        """The rows for one release, with the columns `names`, kept from their first reading to its end."""
        columns = set(names)
        wanted = with_deciding(columns, self._selections)
        kept = [label for label in self.labels if label in wanted]
        return self._of_columns(columns, SpooledBatches(kept, self._produce).read)


class SpooledBatches:
    """Record batches that are produced at the first reading and read again from an anonymous file at all others.

    The file has no name from its birth, only this process can read it, and it is gone with this object or the process.
    Where producing fails or is interrupted there are no rows from then on, rather than some of them.
    """

    def __init__(self, names: Sequence[str], produce: Produce) -> None:
        self._names, self._produce = list(names), produce
        self._started = False
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None

    def read(self, names: Sequence[str]) -> Iterator[Table]:
        """Batches of rows with at least the columns `names`."""
        if self._file is None:
            if self._started:
                raise AssertionError("the first reading of these rows failed")
            self._started = True
            self._file = self._filled()
        return batches_of(self._batches(names))

    def _filled(self) -> IO[bytes]:
        # It rolls over into TemporaryFile; the first finalizer runs too if producing fails.
        file: IO[bytes] = tempfile.SpooledTemporaryFile(KEPT_IN_MEMORY)  # noqa: SIM115
        weakref.finalize(self, file.close)
        writer = None
        with silence_native():
            for batch in self._produce(self._names):
                with _room():
                    if writer is None:
                        # Streams, unlike files of Arrow, may hold other dictionaries in every batch.
                        writer = pa.ipc.new_stream(pa.PythonFile(file, mode="w"), batch.schema)
                    writer.write_batch(batch)
        if writer is not None:
            with _room():
                writer.close()
        return file

    def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        assert self._file is not None
        reading = FileReader(self._file, self._lock)
        if reading.size:
            yield from pa.ipc.open_stream(pa.PythonFile(reading, mode="r"))


def check_room() -> None:
    """Raise DataError unless some folder has room for more rows of a query than are kept in memory."""
    with contextlib.suppress(OSError), tempfile.TemporaryFile() as file:
        if free_bytes(file.fileno()) > KEPT_IN_MEMORY:
            return
    raise DataError(
        "data: the rows of a query are kept in a temporary file until the release, and no temporary folder has "
        "room for it; set the variable TMPDIR to a folder with more room"
    )


@contextlib.contextmanager
def _room() -> Iterator[None]:
    """Raise NoRoomError where writing to a temporary file fails."""
    try:
        yield
    except OSError:
        raise NoRoomError from None


class FileReader(io.RawIOBase):
    """A file from its beginning, with a place of its own: several passes may be under way at once."""

    def __init__(self, file: IO[bytes], lock: threading.Lock) -> None:
        self._file, self._lock, self._place = file, lock, 0

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        with self._lock:
            return self._file.seek(0, io.SEEK_END)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The bytes that follow."""
        with self._lock:
            self._file.seek(self._place)
            chunk = self._file.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self._place += len(chunk)
        return len(chunk)


GRAIN, COARSE = 0.02, 2.0
"""Seconds after which a file that is written to gets another stamp: two ticks of a kernel; where stamps are whole
seconds, the longest that a file system has."""

OLD = 60.0
"""Seconds after which a stamp was surely not given in the present tick, whoever's clock it is of."""


class Mark(NamedTuple):
    """What the system says of a file: any write changes `changed`, even if `modified` is set back after it."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


class Files:
    """Files by their paths, and the marks that they had when they were opened."""

    def __init__(self, names: Iterable[str]) -> None:
        self._marks = {name: _mark(name) for name in names}
        self._taken, self._grain = time.monotonic(), max(map(_grain, self._marks.values()), default=0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The paths, in order."""
        return tuple(self._marks)

    def check_ready(self) -> None:
        """Raise DataError unless the files are still what they were; for before the charge."""
        for name, mark in self._marks.items():
            if mark is None or _mark(name) != mark:
                raise DataError(f"data: {safe_repr(name)} was changed after it was opened; pass its path again")

    def check(self, name: str, where: int | None = None) -> None:
        """Raise RowsChangedError unless a file, by its name or as it is open, is what it was."""
        mark = self._marks[name]
        if mark is None or _mark(name if where is None else where) != mark:
            raise RowsChangedError

    def check_all(self) -> None:
        """`check` every file by its name."""
        for name in self._marks:
            self.check(name)

    @contextmanager
    def opened(self, name: str) -> Iterator[tuple[IO[bytes], Callable[[], None]]]:
        """One file, and what raises RowsChangedError once it is not what it was: to be called after each reading.

        It is read through the descriptor that is checked, so that no other file can stand in its place in between.
        """
        try:
            file = open(name, "rb")  # noqa: SIM115
        except OSError:
            raise RowsChangedError from None
        with file:
            descriptor = file.fileno()
            with self._checked(lambda: self.check(name, descriptor)) as check:
                yield file, check

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Within the block no file changes, or RowsChangedError is raised."""
        with self._checked(self.check_all):
            yield

    @contextmanager
    def _checked(self, check: Callable[[], None]) -> Iterator[Callable[[], None]]:
        """`check` before the block and after it, and where it fails: a reader stumbles over what has changed."""
        # A file that was written to just before its mark was taken could be again, without another stamp.
        time.sleep(max(0.0, self._taken + self._grain - time.monotonic()))
        check()
        try:
            yield check
        except Exception:
            check()
            raise
        check()


def _mark(where: str | int) -> Mark | None:
    """The mark of a path, or of an open file; None if there is none."""
    try:
        status = os.stat(where)
    except OSError:
        return None
    return Mark(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _grain(mark: Mark | None) -> float:
    """Seconds to wait before a file of this mark is read: none if it is old."""
    if mark is None or max(mark.modified, mark.changed) < (time.time() - OLD) * 1e9:
        return 0.0
    return COARSE if mark.modified % 10**9 == mark.changed % 10**9 == 0 else GRAIN


_TYPED = ("parquet", "arrow", "feather", "orc")


def local_files(dataset: Any) -> list[str] | None:
    """The files of a dataset that can be read again and looked at in between: none of one in memory.

    None if there are others: on another machine, in memory or mapped into it, or of a kind that is not known.
    """
    if isinstance(dataset, ds.InMemoryDataset):
        return []
    if isinstance(dataset, ds.UnionDataset):
        parts = [local_files(child) for child in dataset.children]
        return None if None in parts else [name for part in parts for name in part or ()]
    if not isinstance(dataset, ds.FileSystemDataset):
        return None
    # By fragments: `files` names buffers too, and `filesystem` of a dataset that has none ends the process.
    fragments = list(dataset.get_fragments())
    here = all(fragment.filesystem == LocalFileSystem() for fragment in fragments)
    return [fragment.path for fragment in fragments] if here else None


def scan(dataset: Any, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Record batches of some of the columns, in the order of the rows."""
    return (batch.record_batch for batch in _scanner(dataset, names).scan_batches())


def scan_files(dataset: Any, files: Files, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """As `scan`, of a dataset whose files are these and what is in memory, as long as they are what they were."""
    with files.unchanged():
        for batch in _scanner(dataset, names).scan_batches():
            # What is in memory has no path.
            if path := getattr(batch.fragment, "path", None):
                files.check(path)
            yield batch.record_batch


def _scanner(dataset: Any, names: Sequence[str]) -> Any:
    options: dict[str, Any] = {}
    if getattr(getattr(dataset, "format", None), "default_extname", "") == "parquet":
        options["fragment_scan_options"] = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    # By default threads read ahead of whoever works on the batches, in the end all rows into memory.
    options |= {"use_threads": False, "batch_readahead": 2, "fragment_readahead": 1}
    return dataset.scanner(columns=list(names), batch_size=BATCH_ROWS, **options)


def check_fragments(dataset: Any) -> None:
    """Raise DataError unless every file of the dataset declares its types, and the same ones; reads schemas only.

    Types inferred from cells (CSV, JSON), and conversions that fail for some cells, would tell of a row.
    """
    if isinstance(dataset, ds.UnionDataset):
        for child in dataset.children:
            check_fragments(child)
        return
    if not isinstance(dataset, ds.FileSystemDataset):
        return
    if dataset.format.default_extname not in _TYPED:
        raise DataError(
            f"data: a dataset of {dataset.format.default_extname} files infers column types from cells; pass the "
            "path of the CSV files, or convert them to Parquet"
        )
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:
        fragments = None
    if fragments is None:
        raise DataError(
            "data: a dataset with a filter cannot be read by its files; pass the dataset without the filter and "
            f"give {argument('subset')}, such as {argument('subset', 'age > 30')}, or pass "
            "data.scanner().to_reader(), which is read once"
        )
    for fragment in fragments:
        check_types(dataset.schema, fragment.physical_schema, fragment.path)


def check_types(expected: pa.Schema, schema: pa.Schema, path: str) -> None:
    """Raise DataError if a column of one file has another type than the others'."""
    for field in schema:
        at = expected.get_field_index(field.name)
        if at >= 0 and not expected.field(at).type.equals(field.type):
            raise DataError(
                f"data: column {field.name!r} is {field.type} in {path!r} and {expected.field(at).type} in other "
                "files; write the files with one type"
            )


_PASSED: WeakSet[Any] = WeakSet()
"""Readers of which a release has taken rows."""

_DUCKDB_WHOLE = frozenset(
    f"{sign}{size}" for sign in ("", "u") for size in ("tinyint", "smallint", "integer", "bigint", "hugeint")
)
_DUCKDB_REAL = frozenset(["float", "double", "decimal"])
_DUCKDB_TEXT = frozenset(["varchar", "enum", "null"])


def from_reader(reader: Any) -> Stream:
    """A RecordBatchReader, which passes once: its usable columns are kept for as long as the stream.

    Raises DataError if it has passed: a second model would be fitted to no rows.
    """
    if reader in _PASSED:
        raise DataError(
            "data: this reader was read already and can be read only once; pass a new reader, a table or a file"
        )
    known = [(name, column) for name, column in zip(reader.schema.names, declared_columns(reader.schema), strict=True)]
    usable = [at for at, (_, column) in enumerate(known) if column.kind is not None]

    def produce(_: Sequence[str]) -> Iterator[pa.RecordBatch]:
        names = [known[at][0] for at in usable]
        _PASSED.add(reader)
        for batch in reader:
            yield pa.RecordBatch.from_arrays([batch.column(at) for at in usable], names=names)

    labels, columns = zip(*known, strict=True) if known else ((), ())
    return Stream(labels, columns, SpooledBatches([], produce).read, check_room)


def from_dataset(dataset: Any) -> Stream:
    """A dataset of pyarrow whose files declare their types; DataError otherwise.

    Files of this machine are read in every pass; what is elsewhere is carried out like a query, once for each release.
    """
    check_fragments(dataset)
    names, columns, paths = dataset.schema.names, declared_columns(dataset.schema), local_files(dataset)
    if paths is None:
        return OneShotStream(names, columns, partial(scan, dataset))
    files = Files(paths)
    return Stream(names, columns, lambda some: batches_of(scan_files(dataset, files, some)), files.check_ready)


def from_lazyframe(frame: Any) -> Stream:
    """A LazyFrame of polars, carried out once for each release; DataError if its columns and types cannot be told."""
    import polars

    try:
        schema = dict(frame.collect_schema())
    except Exception:
        schema = None
    if schema is None:
        # Outside of the handler: what polars says may quote cells.
        raise DataError("data: polars cannot resolve the columns and types of the LazyFrame; check the query")

    def produce(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in frame.select(list(names)).collect_batches(chunk_size=BATCH_ROWS):
            yield from batch.to_arrow(compat_level=polars.CompatLevel.oldest()).to_batches()

    columns = [from_polars(polars.Series([], dtype=dtype)).declared() for dtype in schema.values()]
    return OneShotStream(list(schema), columns, produce)


def from_duckdb(relation: Any) -> Stream:
    """A relation of DuckDB, carried out once for each release."""
    import duckdb

    labels = [str(name) for name in relation.columns]
    columns = [_duckdb_column(declared_type) for declared_type in relation.types]

    def produce(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from relation.select(*map(duckdb.ColumnExpression, names)).to_arrow_reader(BATCH_ROWS)

    return OneShotStream(labels, columns, produce)


def _duckdb_column(declared_type: Any) -> Column:
    kind, name = declared_type.id, str(declared_type)
    if kind == "boolean":
        return Column(name, "boolean", integral=True)
    if kind in _DUCKDB_WHOLE or kind in _DUCKDB_REAL:
        return Column(name, "numeric", integral=kind in _DUCKDB_WHOLE)
    return Column(name, "text" if kind in _DUCKDB_TEXT else None)

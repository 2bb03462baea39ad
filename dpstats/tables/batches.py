"""Arrow record batches as batches of rows: read again from where they are, or kept in an anonymous file."""

from __future__ import annotations

import contextlib
import io
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

import pyarrow as pa

from dpstats.errors import DataError, NoRoomError
from dpstats.quiet import unheard
from dpstats.rows.spool import free_bytes
from dpstats.tables.arrow import ArrowColumn, kind_of
from dpstats.tables.columns import Column
from dpstats.tables.containers import from_arrow
from dpstats.tables.streams import BATCH_ROWS, DeclaredColumn, Stream
from dpstats.tables.table import Holds, Table

Produce = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""From names of columns to their record batches."""

KEPT_IN_MEMORY = 2**24
"""Bytes of a query's result beyond which it is kept in a file."""


def declared(kinds: pa.Schema) -> list[DeclaredColumn]:
    """What an Arrow schema says of each of its columns."""
    return [
        DeclaredColumn(str(field.type), kind_of(field.type), integral=ArrowColumn(field.type, []).integral)
        for field in kinds
    ]


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


def repeated(
    labels: Sequence[str], columns: Sequence[DeclaredColumn], produce: Produce, ready: Callable[[], None]
) -> Stream:
    """A stream of rows that `produce` can read as often as one likes, the same each time."""
    return Stream(labels, columns, lambda names: batches_of(produce(names)), ready=ready)


class Query(Stream):
    """A stream of rows whose every reading may be costly or differ: for one release it is carried out once.

    Parameters
    ----------
    labels : sequence of str
    columns : sequence of DeclaredColumn
    produce : callable
        Carries the query out for some of the columns.
    conditions : sequence of (holds, names)
        Only rows for which all hold are meant; see `where`.
    """

    def __init__(
        self,
        labels: Sequence[str],
        columns: Sequence[Column],
        produce: Produce,
        conditions: Sequence[tuple[Holds, Sequence[str]]] = (),
    ) -> None:
        super().__init__(labels, columns, self._once, divided=bool(conditions), ready=check_room)
        self._produce, self._conditions = produce, tuple(conditions)

    def _once(self, names: Sequence[str]) -> Iterator[Table]:
        return self.only(names or self.labels[:1])._read(names)

    def only(self, names: Iterable[str]) -> Stream:
        """The rows for one release, with the columns `names`, kept from their first reading to its end."""
        asked = list(names)
        wanted = {*asked, *(name for _, deciding in self._conditions for name in deciding)}
        kept = [at for at, label in enumerate(self.labels) if label in wanted]
        labels = [self.labels[at] for at in kept]
        found = Stream(labels, [self._declared[at] for at in kept], Kept(labels, self._produce).read)
        for holds, deciding in self._conditions:
            found = found.where(holds, deciding)
        return self._like(found.only(asked))

    def where(self, holds: Holds, names: Iterable[str]) -> Stream:
        """The rows where `holds` says so: a query still, which is carried out once for a release."""
        conditions = (*self._conditions, (holds, list(names)))
        return self._like(Query(self.labels, self._declared, self._produce, conditions))


class Kept:
    """Record batches that are produced at the first reading and read again from an anonymous file at all others.

    The file has no name from its birth, only this process can read it, and it is gone with this object or the process.

    Parameters
    ----------
    names : sequence of str
        The columns to keep.
    produce : callable
        Called once; where it fails or is interrupted there are no rows from then on, rather than some of them.
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
        with unheard():
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
        reading = Reading(self._file, self._lock)
        if reading.size:
            yield from pa.ipc.open_stream(pa.PythonFile(reading, mode="r"))


def check_room() -> None:
    """Raise unless there is a folder for the rows of a query, with room for more than is kept in memory.

    Raises
    ------
    DataError
        If there is none.
    """
    with contextlib.suppress(OSError), tempfile.TemporaryFile() as file:
        if free_bytes(file.fileno()) > KEPT_IN_MEMORY:
            return
    raise DataError(
        "data: the rows of a query are kept in a file until the release is made, and there is no folder for temporary "
        "files with room for it; set the variable TMPDIR to one"
    )


@contextlib.contextmanager
def _room() -> Iterator[None]:
    """Raise NoRoomError where writing to a temporary file fails."""
    try:
        yield
    except OSError:
        raise NoRoomError from None


class Reading(io.RawIOBase):
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
            found = self._file.read(len(buffer))
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)

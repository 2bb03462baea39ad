"""Files of reports in Parquet, one pass and flat memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.errors import ArgumentError, DataError
from dpstats.local.contributor import Report
from dpstats.writing import whole_file

Integers = NDArray[np.int64]

BATCH = 8192
"""Reports read and written at a time."""


def write_parquet(reports: Iterable[Report], target: Path) -> None:
    """Write reports to a new file."""
    pyarrow, parquet = _pyarrow()
    stream, first = _peek(reports)
    kind = pyarrow.list_(pyarrow.int64(), len(first.values) if first is not None else 1)
    schema = pyarrow.schema({"spec": pyarrow.string(), "values": kind})
    # Differences of neighbouring integers take a quarter of the space of the integers and less than half of the time.
    # Checksums, since damage would else be other integers.
    how: dict[str, Any] = {"compression": "none", "write_page_checksum": True}
    how["column_encoding"] = {"values.list.element": "DELTA_BINARY_PACKED"}
    with (
        whole_file(target, new=True) as sink,
        parquet.ParquetWriter(sink, schema, use_dictionary=["spec"], **how) as writer,
    ):
        while some := list(itertools.islice(stream, BATCH)):
            flat = pyarrow.array(np.concatenate([report.values for report in some]))
            values = pyarrow.FixedSizeListArray.from_arrays(flat, kind.list_size)
            writer.write_table(pyarrow.table([[report.spec for report in some], values], schema=schema))


def read_parquet(path: Path) -> Iterator[tuple[list[str], Integers, Integers]]:
    """Batches of a file of reports: hashes, the place of each report's among them, and integers.

    Raises
    ------
    DataError
        If the file is of another kind or damaged.
    """
    pyarrow, parquet = _pyarrow()
    how = {"read_dictionary": ["spec"], "pre_buffer": False, "page_checksum_verification": True}
    try:
        with parquet.ParquetFile(path, **how) as file:
            kind = file.schema_arrow.field("values").type
            if not pyarrow.types.is_fixed_size_list(kind) or kind.value_type != pyarrow.int64():
                raise DataError("'values' must be a column of lists of 64-bit integers, all of one length")
            left = file.metadata.num_rows
            for batch in file.iter_batches(BATCH, columns=["spec", "values"], use_threads=False):
                specs, values = batch.column("spec"), batch.column("values")
                if specs.null_count or values.null_count or values.flatten().null_count:
                    raise DataError("a report is incomplete: 'spec' and 'values' must have no missing cells")
                coded = specs if pyarrow.types.is_dictionary(specs.type) else specs.dictionary_encode()
                coded.validate(full=True)
                integers = values.flatten().to_numpy().reshape(len(batch), kind.list_size)
                yield coded.dictionary.to_pylist(), coded.indices.to_numpy(), integers
                left -= len(batch)
            if left:
                raise EOFError
    except DataError:
        raise
    except Exception as error:
        # Of damage pyarrow says OSError, UnicodeDecodeError and others, by its place.
        named = shown(str(path))
        raise DataError(
            f"reports: {named} is damaged, or not a Parquet file with columns 'spec' and 'values'"
        ) from error


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ArgumentError("Parquet needs pyarrow: pip install dpstats[parquet], or use .jsonl") from None
    return pyarrow, parquet


def _peek(reports: Iterable[Report]) -> tuple[Iterator[Report], Report | None]:
    """All the reports again, and the first of them."""
    stream = iter(reports)
    first = next(stream, None)
    return itertools.chain([] if first is None else [first], stream), first

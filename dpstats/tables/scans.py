"""Datasets of pyarrow: types declared by their files, rows read in order, a few row groups in memory at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from dpstats.errors import DataError
from dpstats.tables.marks import Files
from dpstats.tables.streams import BATCH_ROWS

_TYPED = ("parquet", "arrow", "feather", "orc")


def local_files(dataset: Any) -> list[str] | None:
    """The files of a dataset that can be read again and looked at in between: none of one in memory.

    None if there are others: on another machine, mapped into memory, or of a kind that is not known.
    """
    if isinstance(dataset, ds.InMemoryDataset):
        return []
    if isinstance(dataset, ds.UnionDataset):
        parts = [local_files(child) for child in dataset.children]
        return None if None in parts else [name for part in parts for name in part or ()]
    known = isinstance(dataset, ds.FileSystemDataset) and dataset.filesystem == LocalFileSystem()
    return list(dataset.files) if known else None


def scan(dataset: Any, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Record batches of some of the columns, in the order of the rows."""
    return (found.record_batch for found in _scanner(dataset, names).scan_batches())


def scan_files(dataset: Any, files: Files, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """As `scan`, of a dataset whose files are these and what is in memory, as long as they are what they were."""
    with files.unchanged():
        for found in _scanner(dataset, names).scan_batches():
            # What is in memory has no path.
            if path := getattr(found.fragment, "path", None):
                files.check(path)
            yield found.record_batch


def _scanner(dataset: Any, names: Sequence[str]) -> Any:
    options: dict[str, Any] = {}
    if getattr(getattr(dataset, "format", None), "default_extname", "") == "parquet":
        options["fragment_scan_options"] = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    # By default threads read ahead of whoever works on the batches, in the end all rows into memory.
    options |= {"use_threads": False, "batch_readahead": 2, "fragment_readahead": 1}
    return dataset.scanner(columns=list(names), batch_size=BATCH_ROWS, **options)


def check_fragments(dataset: Any) -> None:
    """Raise unless every file of the dataset declares its types, and the same ones; reads schemas only.

    Raises
    ------
    DataError
        If types are inferred from cells (CSV, JSON): what is inferred, or fails to convert, would tell of a row. If a
        file has another type for a column: its cells would be converted, which can fail for some of them.
    """
    if isinstance(dataset, ds.UnionDataset):
        for child in dataset.children:
            check_fragments(child)
        return
    if not isinstance(dataset, ds.FileSystemDataset):
        return
    if dataset.format.default_extname not in _TYPED:
        raise DataError(
            f"data: a dataset of {dataset.format.default_extname} files takes the types of its columns from cells; "
            "give the path of CSV files itself, or convert them to Parquet"
        )
    for fragment in dataset.get_fragments():
        check_types(dataset.schema, fragment.physical_schema, fragment.path)


def check_types(expected: pa.Schema, found: pa.Schema, path: str) -> None:
    """Raise DataError if a column of one file has another type than the others'."""
    for field in found:
        at = expected.get_field_index(field.name)
        if at >= 0 and not expected.field(at).type.equals(field.type):
            raise DataError(
                f"data: column {field.name!r} is {field.type} in {path!r} and {expected.field(at).type} in other "
                "files; write the files with one type"
            )

"""Reports on their way: JSON lines, Parquet, and sums of them, in one pass and flat memory."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstats.arguments import check_path, check_type, is_whole, safe_repr
from dpstats.errors import ArgumentError, DataError
from dpstats.local.contributor import Report
from dpstats.local.spec import BOUNDS, SLACK, Spec
from dpstats.writing import whole_file

Integers = NDArray[np.int64]

# Reports per batch; fewer when read from JSON lines, whose integers take more memory
BATCH, LINES = 8192, 1024
COLLISIONS = 1e-6  # Honest reports are refused as copies with this probability at most
MISMATCH = "a report belongs to another specification than spec; keep reports of different collections apart"
TOO_MANY = "there are too many reports for 64-bit sums; add up parts of them modulo 2**128"
UNREADABLE = (
    "a line is not a report; each must be a JSON object with 'spec', a string, and 'values', a list of integers"
)


class ReportBounds(NamedTuple):
    """Bounds of an honest report."""

    # lower, upper: of each integer, (size,).
    lower: Integers
    upper: Integers
    norm: float  # Of the Euclidean norm of a report

    @property
    def most(self) -> int:
        """The largest absolute value of an integer."""
        return max(int(self.upper.max()), -int(self.lower.min()))

    def fits(self, values: Integers) -> NDArray[np.bool_]:
        """Which of some reports, shape (r, size), may be honest ones, shape (r,)."""
        floats = values.astype(np.float64)
        fitting = np.einsum("ij,ij->i", floats, floats) <= self.norm**2
        if (values.min(axis=0) < self.lower).any() or (values.max(axis=0) > self.upper).any():
            fitting &= ((values >= self.lower) & (values <= self.upper)).all(axis=1)
        return np.asarray(fitting)


def report_bounds(spec: Spec) -> ReportBounds:
    """Bounds of the honest reports of a specification: the range of statistics, plus rounding and noise."""
    linear, rest = BOUNDS[spec.family]
    p, size, scale = len(spec.names), spec.size, spec.lattice.scale
    if spec.scheme == "features":
        rest = math.sqrt(rest)
        upper = np.repeat([linear, rest], p)
        lower = -upper
    else:
        diagonal = np.equal(*np.triu_indices(p))
        # Off the diagonal sqrt(2) q_i q_j, and 2 |q_i q_j| is at most the square of the norm.
        upper = np.concatenate([np.full(p, linear), np.where(diagonal, rest, rest / math.sqrt(2))])
        lower = np.concatenate([np.full(p, -linear), np.where(diagonal, 0.0, -rest / math.sqrt(2))])
    gradient, unit = spec.units
    units = np.repeat([gradient, unit], [p, size - p])
    noise = spec.lattice.reach(spec.delta)
    room = 0.5 + noise * scale
    norm = math.hypot(linear / gradient, rest / unit) + math.sqrt(size) / 2 + (math.sqrt(size) + noise) * scale
    return ReportBounds(
        np.floor((lower / units - room) * SLACK).astype(np.int64),
        np.ceil((upper / units + room) * SLACK).astype(np.int64),
        norm * SLACK,
    )


def write_parquet(reports: Iterable[Report], target: Path) -> None:
    """Write reports to a new file."""
    pyarrow, parquet = _pyarrow()
    stream = iter(reports)
    first = next(stream, None)
    stream = itertools.chain([] if first is None else [first], stream)
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
    """Batches of a file: hashes, each report's index into them, and integers; DataError if it is damaged."""
    pyarrow, parquet = _pyarrow()
    how = {"read_dictionary": ["spec"], "pre_buffer": False, "page_checksum_verification": True}
    try:
        with parquet.ParquetFile(path, **how) as file:
            kind = file.schema_arrow.field("values").type
            if not pyarrow.types.is_fixed_size_list(kind) or kind.value_type != pyarrow.int64():
                raise DataError("'values' must be a column of lists of 64-bit integers, all of one length")
            rows_left = file.metadata.num_rows
            for batch in file.iter_batches(BATCH, columns=["spec", "values"], use_threads=False):
                specs, values = batch.column("spec"), batch.column("values")
                if specs.null_count or values.null_count or values.flatten().null_count:
                    raise DataError("a report is incomplete: 'spec' and 'values' must have no missing cells")
                coded = specs if pyarrow.types.is_dictionary(specs.type) else specs.dictionary_encode()
                coded.validate(full=True)
                integers = values.flatten().to_numpy().reshape(len(batch), kind.list_size)
                yield coded.dictionary.to_pylist(), coded.indices.to_numpy(), integers
                rows_left -= len(batch)
            if rows_left:
                raise EOFError
    except DataError:
        raise
    except Exception as error:
        # Of damage pyarrow says OSError, UnicodeDecodeError and others, by its place.
        what = "is damaged, or not a Parquet file with columns 'spec' and 'values'"
        raise DataError(f"reports: {safe_repr(str(path))} {what}") from error


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ArgumentError("Parquet needs pyarrow: pip install pyarrow, or use .jsonl") from None
    return pyarrow, parquet


Batch = tuple[Integers, set[str]]
"""Some reports: their integers, shape (r, size), and the hashes that occur among them."""


@dataclass(frozen=True, eq=False)
class Total:
    """The sum of reports.

    Attributes
    ----------
    spec : str
        The hash of the specification that all of them answer.
    values : ndarray of int64, shape (spec.size,)
    count : int
        How many reports were added, which is public. They must be different ones, which a sum cannot show: a copy
        counts, and brings no noise of its own.

    Examples
    --------
    >>> import dpstats as dp
    >>> spec = dp.local.Spec({"x": (0, 1), "y": (0, 1)}, "y ~ x", eps=2.0, delta=1e-6, n=5000)
    >>> summed = dp.local.total([dp.local.randomize({"x": 0.3, "y": 0.7}, spec)], spec)
    >>> modular = [int(value) % 2**62 for value in summed.values]
    >>> dp.local.Total.from_modular(modular, 2**62, 1, spec).count
    1
    """

    spec: str
    values: Integers
    count: int

    def __add__(self, other: Total) -> Total:
        if not isinstance(other, Total):
            return NotImplemented
        if other.spec != self.spec:
            raise ArgumentError("these sums belong to different specifications and cannot be added")
        values = self.values.astype(object) + other.values
        if max(map(abs, values), default=0) >= 2**63:
            raise ArgumentError(TOO_MANY)
        return Total(self.spec, values.astype(np.int64), self.count + other.count)

    @classmethod
    def from_modular(cls, values: ArrayLike, modulus: int, count: int, spec: Spec) -> Total:
        """From a secure sum modulo `modulus`: each number stands for the nearest to zero with its remainder.

        Raises
        ------
        ArgumentError
            If the sum of `count` reports need not fit into the modulus, or an argument is no whole number.
        DataError
            If `values` has the wrong shape, or is no sum of so many reports.
        """
        for name, number in (("modulus", modulus), ("count", count)):
            if not is_whole(number) or number < 1:
                raise ArgumentError(f"{name} must be a positive whole number, got {safe_repr(number)}")
        bounds = report_bounds(spec)
        if modulus <= 2 * count * bounds.most:
            least = f"2**{math.ceil(math.log2(2 * count * bounds.most + 1))}"
            raise ArgumentError(
                f"modulus must be at least {least} for sums of {count} reports, got {safe_repr(modulus)}"
            )
        remainders = np.asarray(values, dtype=object) % modulus
        lifted = np.where(remainders > modulus // 2, remainders - modulus, remainders)
        if max(map(abs, lifted.ravel()), default=0) > min(count * bounds.most, 2**63 - 1):
            raise DataError(f"values are no sum of {count} reports")
        return cls(spec.hash, _check_shape(lifted[None].astype(np.int64), spec)[0], int(count))


def checked_batches(reports: str | Path | Iterable[Report], spec: Spec) -> Iterator[Integers]:
    """The reports' integers in batches of shape (r, spec.size); errors as in `total`."""
    check_type("reports", reports, (str, Path, Iterable), "dp.local.Report objects, a path or a Total")
    if isinstance(reports, (str, Path)):
        batches = _file_batches(check_path("reports", reports))
    else:
        batches = _report_batches(reports)
    # 128 bits of each report, by which copies are found: the guarantee counts noises, and a copy has none.
    words = [secrets.randbits(64) | 1 for _ in range(2 * spec.size)]
    weights = np.array(words, dtype=np.uint64).reshape(spec.size, 2)
    prints: list[NDArray[np.uint64]] = []
    bounds, before = report_bounds(spec), 0
    for values, specs in batches:
        _check_batch(values, specs, spec, bounds, before)
        before += len(values)
        prints.append(values.astype(np.uint64) @ weights)
        yield values
    _check_copies(prints, before, spec)


def _check_copies(prints: list[NDArray[np.uint64]], count: int, spec: Spec) -> None:
    """Raise DataError if there are copies, unless honest reports of this size may well be alike.

    An honest report equals one of the k before it with probability k q at most, whatever they are: none of its integers
    has a value with a probability above 1 / (s sqrt(2 pi)). So the number that equal an earlier one is at most a sum of
    independent events of mean count^2 q / 2, and Chernoff's bound holds. Two independent reports are equal with a lower
    probability, by which any are (docs/proofs/local, 3).
    """
    if count < 2:
        return
    fingerprints = np.concatenate(prints)
    order = np.lexsort(fingerprints.T)
    repeats = int((fingerprints[order[1:]] == fingerprints[order[:-1]]).all(axis=1).sum())
    pairs = 2 * math.log(count) - math.log(2)
    chance = pairs - spec.size * math.log(2 * spec.lattice.scale * math.sqrt(math.pi))
    log_mean = pairs - spec.size * math.log(spec.lattice.scale * math.sqrt(2 * math.pi))
    if repeats and math.log(repeats) > log_mean:  # at its mean and below Chernoff's bound says nothing
        chance = min(chance, repeats * (1 + log_mean - math.log(repeats)) - math.exp(log_mean))
    if repeats and chance <= math.log(COLLISIONS):
        raise DataError("a report occurs more than once: copies count towards n but add no noise; keep one of each")


def total(reports: Total | str | Path | Iterable[Report], spec: Spec) -> Total:
    """The sum of reports.

    Parameters
    ----------
    reports : Total, path or iterable of Report
        A path ends in ``.jsonl`` or ``.parquet``, as `write` makes them.
    spec : Spec

    Raises
    ------
    ArgumentError
        If a report answers another specification.
    DataError
        If a Total is no sum of so many reports, the file cannot be read, a report is not of integers within the reach
        of an honest one, or one occurs twice.

    Examples
    --------
    >>> import dpstats as dp
    >>> spec = dp.local.Spec({"x": (0, 1), "y": (0, 1)}, "y ~ x", eps=2.0, delta=1e-6, n=5000)
    >>> reports = [dp.local.randomize({"x": x, "y": 0.7}, spec) for x in (0.3, 0.6)]  # of two contributors
    >>> dp.local.total(reports, spec).count
    2
    """
    check_type("spec", spec, Spec, "a dp.local.Spec")
    if isinstance(reports, Total):
        _check_total(reports, spec)
        return reports
    values, count, most = np.zeros(spec.size, dtype=np.int64), 0, report_bounds(spec).most
    for checked in checked_batches(reports, spec):
        count += len(checked)
        if count * most >= 2**63:
            raise ArgumentError(TOO_MANY)
        values += checked.sum(axis=0)
    return Total(spec.hash, values, count)


def write(reports: Iterable[Report], path: str | Path) -> None:
    """Write reports to a new file, one JSON object a line (``.jsonl``) or Parquet (``.parquet``, needs pyarrow).

    The file is there when all of them are in it.

    Raises
    ------
    ArgumentError
        If the path ends otherwise, or pyarrow is missing.

    Examples
    --------
    >>> import tempfile
    >>> import dpstats as dp
    >>> spec = dp.local.Spec({"x": (0, 1), "y": (0, 1)}, "y ~ x", eps=2.0, delta=1e-6, n=5000)
    >>> path = f"{tempfile.mkdtemp()}/reports.jsonl"
    >>> dp.local.write([dp.local.randomize({"x": 0.3, "y": 0.7}, spec)], path)
    >>> len(list(dp.local.read(path)))
    1
    """
    target = check_path("path", path)
    check_type("reports", reports, Iterable, "dp.local.Report objects")
    if target.exists():
        raise ArgumentError(f"path: there is a file {safe_repr(str(target))} already; choose another")
    if _suffix(target) == ".jsonl":
        with whole_file(target, new=True) as lines:
            lines.writelines(f"{to_json(report)}\n".encode() for report in reports)
    else:
        write_parquet(reports, target)


def read(path: str | Path) -> Iterator[Report]:
    """The reports of a file, one by one; errors as in `total`.

    Examples
    --------
    >>> import dpstats as dp
    >>> reports = dp.local.read("reports.jsonl")  # opened when the first is asked for; see `write`
    """
    source = check_path("path", path)
    if _source_suffix(source) == ".jsonl":
        with source.open(encoding="utf-8", errors="replace") as lines:
            yield from map(from_json, lines)
        return
    for names, which, values in read_parquet(source):
        for place, row in zip(which, values, strict=True):
            yield Report(names[place], row)


def to_json(report: Report) -> str:
    """One line of JSON, without the line's end.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> dp.local.to_json(dp.local.Report("hash", np.array([1, -2])))
    '{"spec": "hash", "values": [1, -2]}'
    """
    if not isinstance(report, Report):  # by its type alone: somebody's record may have been passed
        raise ArgumentError(f"report must be what dp.local.randomize returns; got {type(report).__name__}")
    return json.dumps({"spec": report.spec, "values": report.values.tolist()})


def from_json(line: str) -> Report:
    """The inverse of `to_json`; raises DataError on anything else.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.local.from_json('{"spec": "hash", "values": [1, -2]}').values
    array([ 1, -2])
    """
    spec, values = _fields(line)
    return Report(spec, _integers([values])[0])


def _fields(line: str) -> tuple[str, list[int]]:
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        fields = json.loads(line)
        spec, values = fields["spec"], fields["values"]
        if isinstance(spec, str) and isinstance(values, list):
            return spec, values
    raise DataError(UNREADABLE)


def _integers(rows: list[list[int]]) -> Integers:
    """Rows of integers of one length, shape (rows, size)."""
    try:
        values = np.array(rows)
    except (ValueError, OverflowError):
        raise DataError("reports must be lists of integers of one length") from None
    if values.dtype != np.int64 or values.ndim != 2:
        raise DataError("reports must be lists of 64-bit integers of one length")
    return values


def _report_batches(reports: Iterable[Report]) -> Iterator[Batch]:
    each = iter(reports.ravel() if isinstance(reports, np.ndarray) else reports)
    while some := list(itertools.islice(each, BATCH)):
        if not all(isinstance(report, Report) for report in some):
            raise DataError("reports must be dp.local.Report objects, a path or a Total")
        rows = [np.asarray(report.values).tolist() for report in some]
        yield _integers(rows), {report.spec for report in some}


def _file_batches(path: Path) -> Iterator[Batch]:
    if _source_suffix(path) == ".jsonl":
        with path.open(encoding="utf-8", errors="replace") as lines:
            while some := [_fields(line) for line in itertools.islice(lines, LINES)]:
                yield _integers([values for _, values in some]), {spec for spec, _ in some}
        return
    for names, which, values in read_parquet(path):
        yield values, {names[place] for place in np.unique(which)}


def _check_batch(values: Integers, specs: set[str], spec: Spec, bounds: ReportBounds, before: int) -> None:
    """Raise ArgumentError or DataError unless these reports, after so many others, may be honest ones of `spec`."""
    if specs - {spec.hash}:
        raise ArgumentError(MISMATCH)
    _check_shape(values, spec)
    fitting = bounds.fits(values)
    if not fitting.all():
        raise DataError(
            f"report {before + int(np.argmin(fitting))}, counted from 0, holds integers that no record with noise "
            "can have; it was not made by dp.local.randomize"
        )


def _check_shape(values: Integers, spec: Spec) -> Integers:
    if values.shape[1:] != (spec.size,):
        raise DataError(f"a report must hold {spec.size} integers")
    return values


def _check_total(sums: Total, spec: Spec) -> None:
    """Raise unless it can be a sum of so many reports to `spec`: it need not have been made here."""
    if sums.spec != spec.hash:
        raise ArgumentError(MISMATCH)
    values, count = np.asarray(sums.values), sums.count
    if not is_whole(count) or count < 0:
        raise DataError("the count of a Total must be a whole number of reports")
    if values.dtype != np.int64 or values.shape != (spec.size,):
        raise DataError(f"the values of a Total must be {spec.size} 64-bit integers")
    bounds, number = report_bounds(spec), int(count)
    entries = zip(bounds.lower.tolist(), values.tolist(), bounds.upper.tolist(), strict=True)
    if not all(number * low <= value <= number * high for low, value, high in entries):
        raise DataError(f"the values of this Total are no sum of {count} reports")


def _source_suffix(path: Path) -> str:
    if not path.is_file():
        raise DataError(f"reports: there is no file {safe_repr(str(path))}")
    return _suffix(path)


def _suffix(path: Path) -> str:
    if path.suffix not in (".jsonl", ".parquet"):
        raise ArgumentError(f"path must end in .jsonl or .parquet, got {safe_repr(str(path))}")
    return path.suffix

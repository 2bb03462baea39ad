"""What a verb does once it is planned: charge first, then read the rows that are paid for, by row or by person."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Memory, MemoryRows, PackedRows, Rows, Table
from dpstats.data.columns import usable_kind
from dpstats.data.persons import OwnedRows, draw_block, draw_rows, draw_values, shared_weights
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DataError, LedgerError
from dpstats.formula.design import DesignSpec
from dpstats.ledger import Ledger, LedgerLike, Part, as_ledger
from dpstats.ledger.accounts import HOLDOUT
from dpstats.privacy.guarantee import Guarantee, Unit
from dpstats.privacy.randomness import RandomSource, secret_key
from dpstats.progress import show_elapsed
from dpstats.quiet import fail_closed
from dpstats.wording import argument

Released = TypeVar("Released")
Data = TypeVar("Data", bound=Table | None)


@dataclass(frozen=True, eq=False)
class Release(Generic[Data, Released]):
    """What a call will release, planned without rows: its guarantee, its entry in a ledger, the work that this buys."""

    guarantee: Guarantee
    data: Data  # None if `work` holds its rows as arrays
    work: Callable[[Data], Released]  # reads the rows that are paid for
    label: str
    method: str
    columns: Sequence[str] = ()  # those of `data` that `work` reads; the guarantee's unit is read too
    compared: Sequence[str] = ()  # of these, keys that only tell rows apart, as a unit does: no Domain declares them
    formula: str | None = None
    digest: Callable[[], str] | None = None  # of the plan
    domain: Domain | None = None  # what the caller declares of the columns
    memory: Memory | None = None  # what `work` may keep of the rows

    def run(self, ledger: LedgerLike, *, analyst: str | None = None, label: str | None = None) -> Released:
        """Charge the guarantee durably, if there is a ledger, and only then work quietly on the rows it pays for.

        A path is that of an existing ledger's file; a part of a partition pays for its own rows only, and no others are
        read. Nothing is charged if rows and ledger do not suit each other (as `check_rows` says) or the ledger does not
        take the charge; if the work fails, ReleaseError, and the charge stays. `analyst` and `label` sign the entry.
        """
        ledger = as_ledger(ledger)
        if ledger is None and not (analyst is None and label is None):
            given = argument("ledger")
            raise ArgumentError(f"label and analyst are for the entry of a ledger; give {given}, or leave them out")
        check_rows(ledger, self.guarantee, self.data)
        if ledger is None:
            return fail_closed(self._work)
        charge = ledger.signed(analyst, label=label).charge(
            self.guarantee,
            label=self.label,
            formula=self.formula,
            method=self.method,
            plan_hash=None if self.digest is None else self.digest(),
            domain=None if self.data is None else Domain.coerce(self.domain),
            columns=[name for name in self.columns if name not in (self.guarantee.unit, *self.compared)],
        )
        charge.rows_read()
        return fail_closed(partial(self._work, ledger), f"Ledger charge {charge.number} was kept.")

    def _work(self, ledger: Ledger | Part | None = None) -> Released:
        """The work on the rows that are paid for, of which nothing is kept anywhere afterwards."""
        rows: Table | None = self.data
        if rows is not None:
            unit = () if self.guarantee.unit is None else (self.guarantee.unit,)
            rows = rows.only((*self.columns, *unit, *(ledger.columns if isinstance(ledger, Part) else ())))
            rows = rows if ledger is None else ledger.rows_of(rows)
            if self.memory is not None or rows.memory is None:  # a release within a release was given some
                rows = rows.within(self.memory or Memory())
        try:
            with show_elapsed(f"{self.label}: reading rows"):
                return self.work(cast(Data, rows))
        finally:
            if rows is not None:
                rows.forget()


def check_rows(ledger: Ledger | Part | None, guarantee: Guarantee, data: Table | None) -> None:
    """Raise unless the rows can be those that a charge of `guarantee` pays for, by their schema alone.

    They are not if the ledger is none, or a part whose column `data` has not, or of which `data` is known to be
    another; if one side of a holdout is to have a guarantee for replaced rows; if files changed since they were opened.
    """
    if data is None:
        if ledger is not None and ledger.domain is not None:
            raise LedgerError(
                "ledger: it keeps the Domain of its data set, and arrays have no declared columns to compare; "
                "pass a formula and a data frame"
            )
        if isinstance(ledger, Part):
            raise ArgumentError(
                "ledger: a part of a partition pays for rows of a data frame, and arrays cannot be divided; pass "
                "a data frame"
            )
        return
    data.check_ready()
    rules = [one.rule.removeprefix(HOLDOUT) for one in data.memberships if one.rule.startswith(HOLDOUT)]
    columns = [json.loads(rule)["by"] for rule in rules]
    if any(guarantee.unit in by and len(by) > 1 for by in columns):  # others may keep persons together
        raise ArgumentError(
            f"data is one side of a holdout of rows, and {argument('unit', guarantee.unit)} protects persons, who have "
            f"rows on both sides: pass {argument('by', guarantee.unit)} to dp.holdout"
        )
    if data.filtered and guarantee.adjacency == "replace_one":
        raise ArgumentError(
            f"{argument('adjacency', 'replace_one')} cannot be combined with one side of a holdout: a replaced row "
            "may change sides, and the number of rows of a side is private; use "
            f"{argument('adjacency', 'add_remove')}"
        )
    if isinstance(ledger, Part):
        ledger.check_rows(data)
        for by in ledger.columns:
            if data.count(by) != 1:
                raise DataError(
                    f"data must have exactly one column {by!r}, which the partition of the ledger is made by"
                )
            usable_kind(by, data.column(by))


def holdouts(data: Table | None, side: str) -> tuple[str, ...]:
    """The holdouts of which a table holds rows of one side alone: hashes of their rules, from public facts."""
    known = () if data is None else data.memberships
    rules = (one.rule for one in known if one.rule.startswith(HOLDOUT) and one.part == side)
    return tuple(hashlib.sha256(rule.encode()).hexdigest()[:16] for rule in rules)


def check_for_unit(ledger: LedgerLike, unit: str | None, what: str) -> None:
    """Raise ArgumentError if a ledger for persons is to pay for a call that counts rows."""
    opened = as_ledger(ledger)
    if opened is not None and opened.unit is not None and unit is None:
        raise ArgumentError(
            f"ledger is for persons ({opened.unit}), and {what} of rows cannot be charged to it: pass "
            f"{argument('unit', opened.unit)}"
        )


# What is read below is private; docs/proofs/persons says what a person may add to it.

Values = NDArray[np.float64]
Read = Callable[[Table], Values]


def check_unit(table: Table, record: Unit) -> None:
    """Raise unless one column of numbers or text tells persons apart, by the schema alone.

    ArgumentError if every pass works the rows out again, in this process, where they are not kept.
    """
    if record.column is None:
        return
    usable_kind(record.column, table.column(record.column))
    if table.recomputed:
        raise ArgumentError(
            "unit needs a cluster for a Dask frame, to bring the rows of a person together: from distributed "
            "import Client; client = Client(), or its address. Or write the frame to Parquet and pass the path"
        )


def person_rows(design: DesignSpec, table: Table, record: Unit, random: RandomSource) -> PackedRows:
    """The rows of a fit: those of a person share a weight of 1, or are few enough. Reads rows: charge first."""
    if record.column is None or not record.shared:
        return counted_rows(design, table, record, random)
    return PackedRows(design.packing, shared_weights(_kept(design.owned(table, record.column))))


def counted_rows(design: DesignSpec, table: Table, record: Unit, random: RandomSource) -> PackedRows:
    """Complete rows to be counted: all, or as many of a person as may be counted. Reads rows: charge first."""
    if record.column is None:
        return design.rows(table)
    rows = _kept(design.owned(table, record.column))
    return PackedRows(design.packing, draw_rows(rows, record.rows, secret_key(random), draw_block))


def counted_values(table: Table, read: Read, names: Sequence[str], record: Unit, random: RandomSource) -> Rows[Values]:
    """Finite values to be counted, as many of a person as may be counted. Reads rows: charge first.

    `read` gives a value of each row from a table with the columns `names`, or several, shape (rows, k), of which all
    must be finite; it must be picklable.
    """
    if record.column is None:
        return table.batches(names).map(read)
    rows = table.batches([*names, record.column]).map(partial(_owned_values, read, record.column))
    return draw_rows(rows, record.rows, secret_key(random), draw_values)


def counted_tables(table: Table, names: Sequence[str], record: Unit, random: RandomSource) -> Rows[Table]:
    """Rows to be counted whatever their cells are, as many of a person as may be. Reads rows: charge first."""
    if record.column is None:
        return table.batches(names)
    rows = table.batches([*names, record.column]).map(partial(_owned_table, record.column))
    return draw_rows(rows, record.rows, secret_key(random), _chosen)


def _kept(rows: Rows[OwnedRows[Block]]) -> Rows[OwnedRows[Block]]:
    """Worked out once, where rows are in memory anyway: there are two passes to come."""
    return rows.persist() if isinstance(rows, MemoryRows) else rows


def _owned_values(read: Read, column: str, table: Table) -> OwnedRows[Values]:
    values = read(table)
    known = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    return OwnedRows(values[known], table.column(column).identities()[known])


def _owned_table(column: str, table: Table) -> OwnedRows[Table]:
    return OwnedRows(table, table.column(column).identities())


def _chosen(table: Table, persons: NDArray[np.intp], chosen: NDArray[np.bool_]) -> Table:
    return table.select(chosen, int(np.count_nonzero(chosen)))

"""Charge first, then read rows: the one place where a release meets the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar, cast

from dpstats.data import Memory, Table
from dpstats.data.columns import usable_kind
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DataError, LedgerError
from dpstats.ledger import Ledger, LedgerLike, Part, as_ledger
from dpstats.privacy.guarantee import Guarantee
from dpstats.progress import show_elapsed
from dpstats.quiet import fail_closed

Released = TypeVar("Released")
Rows = TypeVar("Rows", bound=Table | None)


def run_charged(
    ledger: LedgerLike,
    guarantee: Guarantee,
    data: Rows,
    release: Callable[[Rows], Released],
    *,
    label: str,
    method: str,
    columns: Iterable[str] = (),
    memory: Memory | None = None,
    formula: str | None = None,
    plan_hash: str | None = None,
    domain: Domain | None = None,
) -> Released:
    """Charge `guarantee` durably, if there is a ledger, and only then call `release` quietly with the rows it pays for.

    A path is that of an existing ledger's file; a part of a partition pays for its own rows only, and `release` is
    given no others. `columns` are those of `data` that it reads, `domain` is what the caller declares of them, `memory`
    what it may keep of the rows. `data` is None if `release` holds its rows as arrays. Nothing is charged if rows and
    ledger do not suit each other (as `check_rows` says) or the ledger does not take the charge; if `release` fails,
    ReleaseError, and the charge stays.
    """
    ledger = as_ledger(ledger)
    check_rows(ledger, guarantee, data)
    release = partial(_forgetting, release, f"{label}: reading rows")
    if ledger is None:
        return fail_closed(lambda: release(_limited(_narrowed(data, columns), memory)))
    columns = tuple(columns)
    names = [name for name in columns if name != guarantee.unit]
    if isinstance(ledger, Part):
        columns = (*columns, *ledger.columns)
    charge = ledger.charge(
        guarantee,
        label=label,
        formula=formula,
        method=method,
        plan_hash=plan_hash,
        domain=None if data is None else Domain.coerce(domain),
        columns=names,
    )
    charge.rows_read()
    return fail_closed(
        lambda: release(_limited(_part_of(ledger, _narrowed(data, columns)), memory)),
        f"Ledger charge {charge.number} was kept.",
    )


def check_rows(ledger: Ledger | Part | None, guarantee: Guarantee, data: Table | None) -> None:
    """Raise unless the rows can be those that a charge of `guarantee` pays for, by their schema alone.

    They are not if the ledger is none, or a part whose column `data` has not, or of which `data` is known to be
    another; if one side of a holdout is to have a guarantee for replaced rows; if files changed since they were opened.
    """
    if data is not None:
        data.check_ready()
    if data is not None and data.divided and guarantee.adjacency == "replace_one":
        raise ArgumentError(
            "adjacency='replace_one' does not go with one side of a holdout: a replaced row may change sides, and how "
            "many rows a side has is private; use adjacency='add_remove'"
        )
    if data is None and ledger is not None:
        _check_arrays(ledger)
    if isinstance(ledger, Part):
        _check_part(ledger, data)


def _forgetting(release: Callable[[Rows], Released], what: str, rows: Rows) -> Released:
    """The release of some rows, of which nothing is kept anywhere afterwards."""
    try:
        with show_elapsed(what):
            return release(rows)
    finally:
        if rows is not None:
            rows.forget()


def _narrowed(data: Rows, columns: Iterable[str]) -> Rows:
    return data if data is None else cast(Rows, data.only(columns))


def _part_of(ledger: Ledger | Part, data: Rows) -> Rows:
    return data if data is None else cast(Rows, ledger.rows_of(data))


def _limited(data: Rows, memory: Memory | None) -> Rows:
    if data is None or (memory is None and data.memory is not None):  # what a release within a release was given
        return data
    return cast(Rows, data.within(memory or Memory()))


def ledger_domain(ledger: LedgerLike) -> Domain | None:
    """The Domain that a ledger keeps, if it keeps one."""
    book = as_ledger(ledger)
    return None if book is None else book.domain


def ledger_domain_note(ledger: LedgerLike, domain: Domain | None) -> str:
    """A word on the Domain that a ledger keeps, where a call declares nothing."""
    if domain or ledger_domain(ledger) is None:
        return ""
    return "the ledger keeps the Domain of its data: pass domain=ledger.domain"


def _check_arrays(ledger: Ledger | Part) -> None:
    """Raise if nobody can tell whether arrays are the ledger's data."""
    if ledger.domain is not None:
        raise LedgerError(
            "ledger: it keeps the Domain of its data set, and arrays have no declared columns to compare with it; give "
            "a formula and a data frame"
        )


def _check_part(part: Part, data: Table | None) -> None:
    """Raise unless the schema lets the part's rows be found."""
    if data is None:
        raise ArgumentError("ledger: a part of a partition pays for rows of a data frame; arrays cannot be divided")
    part.check_rows(data)
    for by in part.columns:
        if data.count(by) != 1:
            raise DataError(f"data must have exactly one column {by!r}, which the partition of the ledger goes by")
        usable_kind(by, data.column(by))


def sign_ledger(ledger: LedgerLike, analyst: str | None, label: str | None) -> Ledger | Part | None:
    """The ledger, opened, with the name and label of its next entry; ArgumentError if it lacks a ledger for them."""
    opened = as_ledger(ledger)
    if analyst is None and label is None:
        return opened
    if opened is None:
        raise ArgumentError("label and analyst are for the entry of a ledger; give ledger=, or leave them out")
    return opened.signed(analyst, label=label)


def check_for_unit(ledger: LedgerLike, unit: str | None, what: str) -> None:
    """Raise ArgumentError if a ledger for persons is to pay for a call that counts rows."""
    opened = as_ledger(ledger)
    if opened is not None and opened.unit is not None and unit is None:
        raise ArgumentError(
            f"ledger is for persons ({opened.unit}), and {what} of rows cannot be charged to it: pass unit="
            f"{opened.unit!r}"
        )

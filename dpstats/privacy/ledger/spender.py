"""Charging the books of a data set, or of a part of it, and asking what is left."""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats._version import __version__
from dpstats.domain import canonical
from dpstats.errors import ArgumentError, BudgetExceeded, DataError, LedgerError, UncertifiedError
from dpstats.privacy.accounting import RHO_UNIT, group_rule
from dpstats.privacy.exact import float_down
from dpstats.privacy.guarantee import Adjacency, Guarantee
from dpstats.privacy.ledger import report
from dpstats.privacy.ledger.charge import Charge
from dpstats.privacy.ledger.filters import HOLDOUT, Account, Amount, Books, LedgerAccountant, cost, largest
from dpstats.privacy.ledger.schema import ROOT
from dpstats.privacy.ledger.store import Store, insert
from dpstats.quiet import quiet
from dpstats.tables import Table, as_table
from dpstats.tables.containers import rows_can_be_taken
from dpstats.tables.table import Holds, Membership

Level = str | int | bool


class Budget(NamedTuple):
    """An (eps, delta)."""

    eps: float
    delta: float


class Facts(NamedTuple):
    """What was fixed when the ledger was made."""

    dataset: str
    eps: float
    delta: float
    adjacency: Adjacency
    accountant: LedgerAccountant
    limit: Amount
    unit: str | None = None


class Spender:
    """What a whole ledger and a part of a partition have in common: charging, asking what is left, and splitting."""

    _store: Store
    _facts: Facts
    _account: int

    @property
    def dataset(self) -> str:
        """The name of the data set."""
        return self._facts.dataset

    @property
    def adjacency(self) -> Adjacency:
        """The notion of neighbouring data that the totals are stated for."""
        return self._facts.adjacency

    @property
    def unit(self) -> str | None:
        """The column that tells persons apart, if the totals are for persons; None if they are for rows."""
        return self._facts.unit

    @property
    def accountant(self) -> LedgerAccountant:
        """How charges add up: ``"basic"`` or ``"zcdp"``."""
        return self._facts.accountant

    @property
    def remaining(self) -> Budget:
        """What one more charge may take, in the ledger's adjacency, rounded down.

        ``remaining.eps`` is the greatest eps of a pure charge; with zCDP it starts below the total, since rho is
        what runs out: see `remaining_rho`.
        """
        return Budget(*largest(self.accountant, self._left(self._read())))

    @property
    def remaining_rho(self) -> float | None:
        """The rho that one more charge may take; None under basic composition."""
        return None if self.accountant == "basic" else float_down(self._left(self._read()).rho * RHO_UNIT)

    def charge(
        self,
        guarantee: Guarantee,
        *,
        label: str,
        formula: str | None = None,
        method: str | None = None,
        plan_hash: str | None = None,
    ) -> Charge:
        """Take `guarantee` from the budget; it is on disk when this returns. Call it before any row is read.

        Parameters
        ----------
        guarantee : Guarantee
            Of the release to be made. An add_remove guarantee charged to a replace_one ledger is converted by the
            group rule (eps doubles, delta grows by 1 + exp(eps)), and the entry says so.
        label, formula, method, plan_hash : str
            What the budget is spent on; public, so never taken from the data.

        Returns
        -------
        Charge
            Spent already, whatever becomes of the release; `Charge.refund` gives it back if no row was read.

        Raises
        ------
        BudgetExceeded
            If the budget would be overspent; nothing is recorded.
        UncertifiedError
            If the guarantee is not certified.
        LedgerError
            If the adjacency cannot be converted, the guarantee is for another unit than the ledger, or the file cannot
            be trusted or written.
        ArgumentError
            If an argument has the wrong type.
        """
        texts = {"label": label, "formula": formula, "method": method, "plan_hash": plan_hash}
        _check_texts(texts)
        converted = self._convert(guarantee)
        price = cost(self.accountant, converted)
        notes = []
        if converted is not guarantee:
            notes.append(f"group rule, two steps of eps={guarantee.eps!r}, delta={guarantee.delta!r} under add_remove")
        if self.accountant == "zcdp" and converted.delta > 0 and price.delta == 0:
            notes.append("charged by rho, its delta is not used up")
        with self._store.transaction(write=True) as connection:
            books = read_books(connection)
            if not books.charged(self._account, price).total(ROOT).within(self._facts.limit):
                raise self._exceeded(label, converted, self._left(books))
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
            latest = connection.execute("SELECT MAX(time) FROM entry").fetchone()[0]
            if latest is not None and now < latest:
                notes.append("clock behind an earlier entry")
            row = {
                "account": self._account,
                **{f"cost_{name}": amount for name, amount in price._asdict().items()},
                **{"eps": converted.eps, "delta": converted.delta, **texts, "adjacency": guarantee.adjacency},
                **{"basis": guarantee.basis, "version": __version__, "time": now, "note": "; ".join(notes)},
            }
            return Charge(self._store, insert(connection, "entry", row), converted)

    def partition(self, by: str, parts: Sequence[Level]) -> Partition:
        """Split the rows by the public rule "the value of column `by`" into disjoint parts with books of their own.

        The parts compose in parallel: the whole pays for the worst part only, since a record lies in one part. Each
        part takes add_remove guarantees only, because the number of its rows is never public; in a replace_one
        ledger the group rule then covers a record that moves to another part (docs/proofs/composition, section 5).

        Parameters
        ----------
        by : str
            A column that describes each row by itself: never one computed from several rows, such as a quantile bin.
        parts : sequence of str, int or bool
            The values, known beforehand; rows with another value, or none, belong to no part.

        Returns
        -------
        Partition
            ``partition[value]`` has the methods of a ledger, and ``rows(data)``.

        Raises
        ------
        LedgerError
            If the ledger knows this rule with other parts, or is for persons and `by` does not tell them apart.
        ArgumentError
            If `by` or `parts` has the wrong type, or a part occurs twice.
        """
        levels = _check_parts(by, parts)
        self.check_division((by,))
        with self._store.transaction(write=True) as connection:
            known = read_books(connection).parts(self._account, by)
            if not known:
                connection.executemany(
                    "INSERT INTO account (parent, rule, part) VALUES (?, ?, ?)",
                    [(self._account, by, level) for level in levels],
                )
                known = read_books(connection).parts(self._account, by)
        declared = [account.part for account in known]
        if declared != levels:
            names = ", ".join(str(part) for part in declared)
            raise LedgerError(f"parts: the ledger knows the partition by {by!r} with parts [{names}], in this order")
        return Partition(self, by, [(account.id, json.loads(account.part or "")) for account in known])

    def entries(self) -> pd.DataFrame:
        """One row an entry, by number: eps, delta, label, formula, method, adjacency, basis and so on.

        Returns
        -------
        DataFrame
            `eps` and `delta` are the guarantee under the ledger's adjacency, `rho` what it took under zCDP (else
            NaN), `adjacency` the one it was stated in, `unit` the column that tells persons apart (None for rows),
            `part` the part of a partition, `state` one of "charged" (spent, rows not yet announced), "read" (spent for
            good) and "refunded" (costs nothing).
        """
        with self._store.transaction(write=False) as connection:
            return report.entries(connection, read_books(connection), self._account, self.unit)

    def report(self) -> str:
        """A table of at most 80 columns: the totals, and what was spent on what."""
        with self._store.transaction(write=False) as connection:
            books = read_books(connection)
            table = report.entries(connection, books, self._account, self.unit)
        spent, left = books.total(self._account), self._left(books)
        return report.text(table, self._facts, books.path(self._account), spent, left)

    def rows(self, data: pd.DataFrame) -> pd.DataFrame:
        """The rows of `data` that charges made here pay for: all of them, or those of the part."""
        return data

    def rows_of(self, table: Table) -> Table:
        """The same of a table."""
        return table

    def check_division(self, columns: Sequence[str]) -> None:
        """Raise LedgerError if parts by these columns could hold rows of one person each, where totals are for persons.

        Such parts would not compose in parallel: a person in two of them would pay in both.
        """
        if self.unit is not None and set(columns) != {self.unit}:
            raise LedgerError(
                f"by must be {self.unit!r}: the ledger is for persons, and by other columns the rows of one person "
                "could fall into several parts"
            )

    def _read(self) -> Books:
        with self._store.transaction(write=False) as connection:
            return read_books(connection)

    def _left(self, books: Books) -> Amount:
        return self._facts.limit.minus(books.total(ROOT)).plus(books.slack(self._account))

    def _convert(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee under the ledger's adjacency."""
        if not isinstance(guarantee, Guarantee):
            raise ArgumentError("guarantee must be a dpstats.Guarantee")
        if not guarantee.certified:
            raise UncertifiedError(
                f"guarantee is not certified ({guarantee.reason}); no ledger accepts it: "
                "use a certified method, or run without a ledger"
            )
        if guarantee.unit != self.unit:
            raise LedgerError(f"guarantee: {_whose(guarantee.unit)}, and the ledger is {_other(self.unit)}")
        if guarantee.adjacency == "replace_one" and (self.adjacency == "add_remove" or self._account != ROOT):
            where = "a part of a partition" if self._account != ROOT else "an add_remove ledger"
            raise LedgerError(
                f"guarantee: replace_one takes the number of rows for public, which {where} does not; "
                'make the release with adjacency="add_remove"'
            )
        return guarantee if guarantee.adjacency == self.adjacency else group_rule(guarantee)

    def _exceeded(self, label: str, guarantee: Guarantee, left: Amount) -> BudgetExceeded:
        eps, delta = largest(self.accountant, left)
        return BudgetExceeded(
            f"charge {label!r} of eps={guarantee.eps:g}, delta={guarantee.delta:g} ({self.adjacency}) exceeds what "
            f"remains of {self.dataset!r}: at most eps={eps!r} for a pure charge, delta={delta!r}; "
            "lower eps or delta (nothing was charged or released)"
        )


class Part(Spender):
    """One part of a partition: a ledger for the rows whose column `by` has the value `value`."""

    def __init__(self, parent: Spender, account: int, by: str, values: Sequence[Level], place: int) -> None:
        self._store, self._facts, self._account = parent._store, parent._facts, account
        self.by, self.value = by, values[place]
        self._parent, self._earlier = parent, tuple(values[:place])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that decide which rows belong to this part."""
        return (*self._parent.columns, self.by) if isinstance(self._parent, Part) else (self.by,)

    def rows(self, data: pd.DataFrame) -> pd.DataFrame:
        """The rows of `data` that belong to this part; only these may be used with its charges.

        A row belongs to the first declared value that it equals, as `dpstats.Domain` compares a cell with a level, so
        that no row is ever in two parts. This reads rows: call it after the charge. Raises DataError unless exactly
        one column is named `by`.
        """
        if not isinstance(data, pd.DataFrame):
            raise DataError(f"data must be a pandas DataFrame, got {type(data).__name__}")
        # By type alone, before a row is read: pyarrow has no way to take rows of some of its types.
        for name, dtype in zip(data.columns, data.dtypes, strict=True):
            if isinstance(dtype, pd.ArrowDtype) and not rows_can_be_taken(dtype.pyarrow_dtype):
                raise DataError(f"column {name!r} has dtype {dtype}, which rows cannot be taken of; leave it out")
        with quiet():
            return data.iloc[np.flatnonzero(self._rule(as_table(data)))]

    def rows_of(self, table: Table) -> Table:
        """The rows of `table` that belong to this part."""
        kept = (*table.memberships, *self.memberships)
        return table.where(self._rule, self.columns).within_parts(kept)

    @property
    def memberships(self) -> tuple[Membership, ...]:
        """The parts, this one and those around it, to which its rows belong."""
        around = self._parent.memberships if isinstance(self._parent, Part) else ()
        return (*around, self._own_membership())

    def check_rows(self, table: Table) -> None:
        """Raise ArgumentError if `table` is known to hold rows of another part alone, from public facts.

        No row would be left: the charge would buy noise.
        """
        own = {membership.rule: membership for membership in self.memberships}
        for held in table.memberships:
            paid = own.get(held.rule)
            if paid is not None and paid.part != held.part:
                raise ArgumentError(
                    f"ledger pays for {paid.name}, and data are {held.name}: no row would be left (nothing was "
                    "charged); pass the part of the ledger that belongs to these rows, or all of the data"
                )

    @property
    def _rule(self) -> Holds:
        """Which rows belong to this part and to those around it: a function that can be sent to other processes."""
        return partial(_all_hold, self._own_rules())

    def _own_rules(self) -> tuple[Holds, ...]:
        around = self._parent._own_rules() if isinstance(self._parent, Part) else ()
        return (*around, self._own_rule())

    def _own_membership(self) -> Membership:
        part = canonical(self.value)
        assert part is not None, "partition() has checked the values"
        return Membership(f"column {self.by}", part, f"the rows with {self.by}={self.value!r}")

    def _own_rule(self) -> Holds:
        code_of: dict[float | str, int] = {}
        for code, value in enumerate((*self._earlier, self.value)):
            code_of.setdefault(canonical(value), code)  # type: ignore[arg-type]
        return partial(_has_code, self.by, code_of, len(self._earlier))


def _all_hold(rules: Sequence[Holds], table: Table) -> NDArray[np.bool_]:
    """Where all of the rules hold, shape (rows,)."""
    return np.logical_and.reduce([rule(table) for rule in rules])


def _has_code(by: str, code_of: Mapping[float | str, int], code: int, table: Table) -> NDArray[np.bool_]:
    """Where the column `by` has the value of that code, shape (rows,)."""
    if table.count(by) != 1:
        raise DataError(f"data must have exactly one column {by!r}, which the partition goes by")
    return table.column(by).codes(code_of) == code


class Partition(Mapping[Level, Part]):
    """The parts of a partition, by their values."""

    def __init__(self, parent: Spender, by: str, accounts: Sequence[tuple[int, Level]]) -> None:
        self.by = by
        values = [value for _, value in accounts]
        self._parts = {
            value: Part(parent, account, by, values, place) for place, (account, value) in enumerate(accounts)
        }

    def __getitem__(self, value: Level) -> Part:
        return self._parts[value]

    def __iter__(self) -> Iterator[Level]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def _whose(unit: str | None) -> str:
    return "it is for rows" if unit is None else f"it is per {unit}"


def _other(unit: str | None) -> str:
    """What the ledger is for, and what to do about a guarantee that is not."""
    if unit is None:
        return "for rows; neither bounds the other, so keep another ledger, made with that unit"
    return f"per {unit}; pass unit={unit!r} to the call, or keep another ledger"


def read_books(connection: sqlite3.Connection) -> Books:
    """The tree of accounts as the file has it."""
    rows = connection.execute(
        "SELECT id, parent, rule, part, spent_eps, spent_delta, spent_rho FROM account ORDER BY id"
    )
    return Books(Account(row[0], row[1], row[2], row[3], Amount(*row[4:])) for row in rows)


def _check_texts(texts: Mapping[str, str | None]) -> None:
    for name, text in texts.items():
        if not isinstance(text, str) and (text is not None or name == "label"):
            raise ArgumentError(f"{name} must be a string")
        if text is not None and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ArgumentError(f"{name} must be valid Unicode, without lone surrogates")


def _check_parts(by: str, parts: Sequence[Level]) -> list[str]:
    """The parts as JSON, each distinct both as a value and as text."""
    if not isinstance(by, str) or not by or by.startswith(HOLDOUT):
        raise ArgumentError("by must be the name of a column")
    if isinstance(parts, str) or not parts or not all(isinstance(part, (str, int, bool)) for part in parts):
        raise ArgumentError("parts must be a non-empty sequence of strings, integers or booleans")
    if any(canonical(part) is None for part in parts):
        raise ArgumentError("parts must be text or numbers that a double can hold")
    if len({canonical(part) for part in parts}) < len(parts):
        raise ArgumentError("parts must be distinct (True, 1 and '1' are the same value)")
    return [json.dumps(part) for part in parts]

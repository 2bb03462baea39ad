"""Charging the books of a data set, or of a part of it, and asking what is left."""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import TypeVar

import numpy as np
import pandas as pd

from dpstats._version import __version__
from dpstats.arguments import check_made
from dpstats.domain import Domain, canonical
from dpstats.errors import ArgumentError, BudgetExceeded, DataError, LedgerError
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger.charge import Charge
from dpstats.privacy.ledger.checks import Level, check_parts, check_texts
from dpstats.privacy.ledger.codebook import check_codebook, read_codebook, schema_hash, used
from dpstats.privacy.ledger.filters import Amount, cost
from dpstats.privacy.ledger.prices import check_price, converted
from dpstats.privacy.ledger.queries import read_books
from dpstats.privacy.ledger.reader import Reader, Signature
from dpstats.privacy.ledger.rules import all_hold, has_code
from dpstats.privacy.ledger.store import insert
from dpstats.quiet import quiet
from dpstats.tables import Table, as_table
from dpstats.tables.containers import rows_can_be_taken
from dpstats.tables.table import Holds, Membership

AnySpender = TypeVar("AnySpender", bound="Spender")


class Spender(Reader):
    """What a whole ledger and a part of a partition have in common: charging and splitting, and what a Reader tells.

    Examples
    --------
    >>> import tempfile
    >>> import dpstats as dp
    >>> ledger = dp.Ledger(f"{tempfile.mkdtemp()}/survey.ledger", dataset="survey", eps=1.0)
    """

    def signed(
        self: AnySpender, analyst: str | None = None, *, purpose: str | None = None, label: str | None = None
    ) -> AnySpender:
        """The same ledger, whose entries say who charges and why; pass it to any call as ``ledger=``.

        Parameters
        ----------
        analyst : str, optional
            Whose quota pays. A name is a statement, not a proof of identity: whoever can write the file can use any.
        purpose : str, optional
            What the releases are for.
        label : str, optional
            The entries' title, instead of the one that a call makes up.

        Returns
        -------
        Ledger or Part
            On the same file, with the same books.

        Raises
        ------
        ArgumentError
            If one is no text.

        Examples
        --------
        >>> charge = ledger.signed("Ada", purpose="a pilot").charge(dp.Guarantee(0.125), label="a mean")
        >>> ledger.entries()["analyst"].tolist()[-1]
        'Ada'
        """
        given = {"analyst": analyst, "purpose": purpose, "label": label}
        check_texts({name: text for name, text in given.items() if text is not None})
        found = copy.copy(self)
        found._signature = Signature(*(new or old for new, old in zip(given.values(), self._signature, strict=True)))
        return found

    def charge(
        self,
        guarantee: Guarantee,
        *,
        label: str,
        formula: str | None = None,
        method: str | None = None,
        plan_hash: str | None = None,
        analyst: str | None = None,
        purpose: str | None = None,
        domain: Domain | None = None,
        columns: Iterable[str] = (),
    ) -> Charge:
        """Take `guarantee` from the budget; it is on disk when this returns. Call it before any row is read.

        Parameters
        ----------
        guarantee : Guarantee
            Of the release to be made. An add_remove guarantee charged to a replace_one ledger is converted by the
            group rule (eps doubles, delta grows by 1 + exp(eps)), and the entry says so.
        label, formula, method, plan_hash : str
            What the budget is spent on; public, so never taken from the data.
        analyst, purpose : str, optional
            Who charges and why, if not as `signed` says. The analyst's quota must suffice.
        domain : Domain, optional
            What the release takes its columns to be; the entry keeps the hash of it. It must agree with the Domain
            of the ledger, if that keeps one.
        columns : iterable of str
            Those that the release reads.

        Returns
        -------
        Charge
            Spent already, whatever becomes of the release; `Charge.refund` gives it back if no row was read.

        Raises
        ------
        BudgetExceeded
            If the budget or the analyst's quota would be overspent; nothing is recorded.
        UncertifiedError
            If the guarantee is not certified.
        LedgerError
            If the adjacency cannot be converted, the guarantee is for another unit than the ledger, the columns are
            declared otherwise than in the ledger's Domain, or the file cannot be trusted or written.
        ArgumentError
            If an argument has the wrong type.

        Examples
        --------
        >>> charge = ledger.charge(dp.Guarantee(0.25), label="a count")
        >>> ledger.remaining.eps
        0.75
        """
        named = self._named(label=label, analyst=analyst, purpose=purpose)
        texts = {"formula": formula, "method": method, "plan_hash": plan_hash, **named}
        check_texts({"label": label, **texts})
        check_made("columns", columns, (Sequence, Set, Iterator), "the names of the columns that are read")
        taken = converted(guarantee, self._facts, self._account)
        price, names = cost(self.accountant, taken), tuple(columns)
        notes = self._notes(guarantee, taken, price)
        with self._store.transaction(write=True) as connection:
            check_codebook(read_codebook(connection), domain, names, self._store.path)
            books = read_books(connection)
            try:
                check_price(connection, books, self._facts, self._account, price, texts["analyst"])
            except BudgetExceeded as error:
                charge = f"charge {label!r} of eps={taken.eps:g}, delta={taken.delta:g} ({self.adjacency})"
                raise BudgetExceeded(f"{charge} {error}") from None
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
            latest = connection.execute("SELECT MAX(time) FROM entry").fetchone()[0]
            if latest is not None and now < latest:
                notes.append("clock behind an earlier entry")
            row = {
                "account": self._account,
                **{f"cost_{name}": amount for name, amount in price._asdict().items()},
                **{"eps": taken.eps, "delta": taken.delta, **texts, "adjacency": guarantee.adjacency},
                **{"basis": guarantee.basis, "version": __version__, "time": now, "note": "; ".join(notes)},
                "domain_hash": None if domain is None else schema_hash(used(domain, names)),
            }
            return Charge(self._store, insert(connection, "entry", row), taken)

    def partition(self, by: str, parts: Sequence[Level]) -> Partition:
        """Split the rows by the public rule "the value of column `by`" into disjoint parts with books of their own.

        The parts compose in parallel: the whole pays for the worst part only, since a record lies in one part. Each
        part takes add_remove guarantees only, because the number of its rows is never public; in a replace_one
        ledger the group rule then covers a record that moves to another part (docs/proofs/composition, section 5).

        Parameters
        ----------
        by : str
            A column that describes each row by itself and is never altered later: never one computed from several rows,
            such as a quantile bin, nor one that analysts code anew.
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

        Notes
        -----
        The ledger trusts the column as it is in the data of each call. A row whose cell is altered between calls (coded
        anew, imputed, rounded) is in both parts, and pays in each as if it were not in the other: its guarantee is the
        sum of both. Where analysts pass data of their own making, charge the whole ledger instead.

        Examples
        --------
        >>> north = ledger.partition("region", ["north", "south"])["north"]
        >>> charge = north.charge(dp.Guarantee(0.25), label="in the north")
        >>> north.remaining.eps < 1
        True
        """
        levels = check_parts(by, parts)
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

    def rows(self, data: pd.DataFrame) -> pd.DataFrame:
        """The rows of `data` that charges made here pay for: all of them, or those of the part.

        Examples
        --------
        >>> import pandas as pd
        >>> from dpstats.tables import as_table
        >>> frame = pd.DataFrame({"region": ["north", "south", "north"]})
        >>> ledger.partition("region", ["north", "south"])["north"].rows(frame).shape
        (2, 1)
        >>> whole = ledger.rows_of(as_table(frame))
        """
        return data

    def rows_of(self, table: Table) -> Table:
        """The same of a table."""
        return table

    def check_division(self, columns: Sequence[str]) -> None:
        """Raise LedgerError if parts by these columns could hold rows of one person each, where totals are for persons.

        Such parts would not compose in parallel: a person in two of them would pay in both.

        Examples
        --------
        >>> ledger.check_division(["region"])  # this ledger's totals are for rows
        """
        if self.unit is not None and set(columns) != {self.unit}:
            raise LedgerError(
                f"by must be {self.unit!r}: the ledger is for persons, and by other columns the rows of one person "
                "could fall into several parts"
            )

    def _named(self, **given: str | None) -> dict[str, str | None]:
        """Label, analyst and purpose of an entry: a signature's label comes first, of the others the call's own."""
        signed = self._signature._asdict()
        own = {
            name: signed[name] if text is None or (isinstance(text, str) and not text) else text
            for name, text in given.items()
        }
        return {**own, "label": signed["label"] or given["label"]}

    def _notes(self, guarantee: Guarantee, taken: Guarantee, price: Amount) -> list[str]:
        """What an entry says of how its price came about."""
        notes = []
        if taken is not guarantee:
            notes.append(f"group rule, two steps of eps={guarantee.eps!r}, delta={guarantee.delta!r} under add_remove")
        if self.accountant == "zcdp" and taken.delta > 0 and price.delta == 0:
            notes.append("charged by rho, its delta is not used up")
        return notes


class Part(Spender):
    """One part of a partition: a ledger for the rows whose column `by` has the value `value`."""

    def __init__(self, parent: Spender, account: int, by: str, values: Sequence[Level], place: int) -> None:
        self._store, self._facts, self._account = parent._store, parent._facts, account
        self._signature = parent._signature
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
        return partial(all_hold, self._own_rules())

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
        return partial(has_code, self.by, code_of, len(self._earlier))


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

"""Charging the books of a data set or of a part of it."""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from types import TracebackType
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats._version import __version__
from dpstats.arguments import check_type
from dpstats.data import Table, as_table
from dpstats.data.containers import rows_can_be_taken
from dpstats.data.table import Holds, Membership
from dpstats.domain import Domain, canonical
from dpstats.errors import ArgumentError, BudgetExceeded, DataError, LedgerError
from dpstats.ledger.accounts import HOLDOUT, Amount, check_price, convert_guarantee, cost, read_books
from dpstats.ledger.reader import Key, Reader, Signature, check_codebook, read_codebook, schema_hash, used_declarations
from dpstats.ledger.store import Connection, Store, insert
from dpstats.privacy.guarantee import Guarantee
from dpstats.quiet import quiet


class Charge:
    """A charge that is already durable; also a context manager around the release that it pays for.

    It is spent from the start. Leaving the block by an error gives nothing back, since the block may have shown its
    release before; the error gets a note that says so. `refund` gives the charge back where it is known that no row
    was read. Reading rows must be announced first, by `rows_read`, which rules a refund out.

    Attributes
    ----------
    number : int
        The entry's number in the ledger.
    guarantee : Guarantee
        What was charged, under the ledger's adjacency.
    """

    def __init__(self, store: Store, number: int, guarantee: Guarantee) -> None:
        self.number = number
        self.guarantee = guarantee
        self._store = store

    @property
    def state(self) -> str:
        """``"charged"``, ``"read"`` or ``"refunded"``, as the file has it."""
        with self._store.transaction(write=False) as connection:
            return connection.execute("SELECT state FROM entry WHERE id = ?", (self.number,)).fetchone()[0]

    def rows_read(self) -> None:
        """Record durably that rows are about to be read: from here on the charge cannot be refunded.

        Raises
        ------
        LedgerError
            If the file cannot be written, or the charge was refunded before: no row may be read.
        """
        if self._advance("read") == "refunded":
            raise LedgerError(f"charge {self.number} was refunded; charge the ledger again before reading rows")

    def refund(self) -> None:
        """Give the charge back, durably: the caller's word that no row was read for it, nor will be.

        A charge that was refunded already stays so.

        Raises
        ------
        LedgerError
            If rows were announced by `rows_read`, or the file cannot be written: the charge stays spent.
        """
        if self._advance("refunded") == "read":
            raise LedgerError(f"charge {self.number} cannot be refunded: its rows were read; leave it as spent")

    def __enter__(self) -> Charge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        try:
            state = self.state
        except LedgerError:
            state = "charged"  # the first error is the one to report
        outcome = {
            "charged": "kept. If no row was read, refund() of this charge gives it back",
            "read": "kept: rows were read",
            "refunded": "refunded",
        }[state]
        error.add_note(f"Ledger charge {self.number} was {outcome}.")

    def _advance(self, state: str) -> str:
        """Move on from "charged" to `state`; the state afterwards."""
        with self._store.transaction(write=True) as connection:
            connection.execute("UPDATE entry SET state = ? WHERE id = ? AND state = 'charged'", (state, self.number))
            return connection.execute("SELECT state FROM entry WHERE id = ?", (self.number,)).fetchone()[0]


def all_hold(rules: Sequence[Holds], table: Table) -> NDArray[np.bool_]:
    """Where all of the rules hold, shape (rows,)."""
    return np.logical_and.reduce([rule(table) for rule in rules])


def has_code(by: str, code_of: Mapping[float | str, int], code: int, table: Table) -> NDArray[np.bool_]:
    """Where the column `by` has the value of that code, shape (rows,)."""
    if table.count(by) != 1:
        raise DataError(f"data must have exactly one column {by!r}, which the partition is made by")
    return table.column(by).codes(code_of) == code


Level = str | int | bool


def check_texts(texts: Mapping[str, str | None]) -> None:
    """Raise ArgumentError unless each is a text that a file can hold, or None; a label must be given."""
    for name, text in texts.items():
        if not isinstance(text, str) and (text is not None or name == "label"):
            raise ArgumentError(f"{name} must be a string")
        if text is not None and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ArgumentError(f"{name} must be valid Unicode, without lone surrogates")
        if name == "analyst" and text is not None and text != (text.strip() or None):
            raise ArgumentError("analyst must be a name without leading or trailing blanks")


def check_parts(by: str, parts: Sequence[Level]) -> list[str]:
    """The parts as JSON, each distinct both as a value and as text."""
    check_texts({"by": by if isinstance(by, str) else None})
    if not isinstance(by, str) or not by or by.startswith(HOLDOUT):
        raise ArgumentError("by must be the name of a column")
    listed = isinstance(parts, (list, tuple)) and len(parts) > 0
    if not listed or not all(isinstance(part, (str, int, bool)) for part in parts):
        raise ArgumentError("parts must be a non-empty sequence of strings, integers or booleans")
    if any(canonical(part) is None for part in parts):
        raise ArgumentError("parts must be text or numbers that a double can hold")
    if len({canonical(part) for part in parts}) < len(parts):
        raise ArgumentError("parts must be distinct (True, 1 and '1' are the same value)")
    return [json.dumps(part) for part in parts]


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
        self: AnySpender,
        analyst: str | None = None,
        purpose: str | None = None,
        *,
        label: str | None = None,
        key: str | None = None,
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
        key : str, optional
            A name of one piece of work that may have to be done again after a crash. Its charges are made once: where
            a run that was cut off has charged as much for the same, under this key and this name of an analyst, its
            entry pays. The caller's word that the result of at most one run is ever seen by anybody
            (docs/proofs/office); so a key is drawn anew for each piece of work, as by ``secrets.token_hex()``.

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
        check_texts({name: text for name, text in {**given, "key": key}.items() if text is not None})
        if key == "":
            raise ArgumentError("key must not be empty")
        before, copied = self._signature, copy.copy(self)
        copied._signature = Signature(
            analyst or before.analyst,
            purpose or before.purpose,
            label or before.label,
            before.key if key is None else Key(key, set()),
        )
        return copied

    def charges_of_key(self) -> list[int]:
        """The numbers of the entries under the key of `signed`, without refunded ones.

        Examples
        --------
        >>> work = ledger.signed("Ada", key="9f3c2a")
        >>> numbers = [work.charge(dp.Guarantee(0.03125), label="a sum").number]
        >>> again = ledger.signed("Ada", key="9f3c2a")  # in another process, after a crash
        >>> again.charge(dp.Guarantee(0.03125), label="a sum").number == numbers[0]
        True
        >>> again.charges_of_key() == numbers
        True
        """
        key = self._signature.key
        if key is None:
            return []
        with self._store.transaction(write=False) as connection:
            entries = connection.execute(
                "SELECT id FROM entry WHERE key = ? AND state <> 'refunded' ORDER BY id", (key.text,)
            )
            return [row[0] for row in entries]

    def _paid_before(
        self, connection: Connection, taken: Guarantee, price: Amount, analyst: str | None, besides: Set[int]
    ) -> int | None:
        """The entry of the key by which an earlier run has paid as much; `besides` names those drawn on already."""
        key = self._signature.key
        if key is None:
            return None
        entries = connection.execute(
            "SELECT id FROM entry WHERE key = ? AND account = ? AND analyst IS ? AND eps = ? AND delta = ?"
            " AND cost_eps = ? AND cost_delta = ? AND cost_rho = ? AND state <> 'refunded' ORDER BY id",
            (key.text, self._account, analyst, taken.eps, taken.delta, *price),
        )
        return next((row[0] for row in entries if row[0] not in besides), None)

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
        named = self._texts(label=label, analyst=analyst, purpose=purpose)
        texts = {"formula": formula, "method": method, "plan_hash": plan_hash, **named}
        check_texts({"label": label, **texts})
        check_type("columns", columns, (Sequence, Set, Iterator), "the names of the columns that are read")
        converted = convert_guarantee(guarantee, self._facts, self._account)
        price, names = cost(self.accountant, converted), tuple(columns)
        notes = self._notes(guarantee, converted, price)
        with self._store.transaction(write=True) as connection:
            check_codebook(read_codebook(connection), domain, names, self._store.path)
            key = self._signature.key
            number = self._paid_before(connection, converted, price, texts["analyst"], key.drawn if key else set())
            if key is not None and number is not None:
                key.drawn.add(number)
                return Charge(self._store, number, converted)
            books = read_books(connection)
            try:
                check_price(connection, books, self._facts, self._account, price, texts["analyst"])
            except BudgetExceeded as error:
                charge = f"charge {label!r} of eps={converted.eps:g}, delta={converted.delta:g} ({self.adjacency})"
                # Another charge of the call, such as that for its row counts, may have been made before.
                why = str(error).removeprefix("the charge ")
                refused = f"{charge} {why} (this charge was not made, and nothing was released for it)"
                raise BudgetExceeded(refused) from None
            number = self._enter(
                connection,
                price,
                notes,
                **{"eps": converted.eps, "delta": converted.delta, **texts, "adjacency": guarantee.adjacency},
                basis=guarantee.basis,
                domain_hash=None if domain is None else schema_hash(used_declarations(domain, names)),
                key=None if key is None else key.text,
            )
        if key is not None:
            key.drawn.add(number)
        return Charge(self._store, number, converted)

    def check_charges(self, guarantees: Sequence[Guarantee]) -> None:
        """Raise unless the budget and the analyst's quota suffice for all of these, one after the other.

        Nothing is charged, so another process may still spend what this call has seen.

        Parameters
        ----------
        guarantees : sequence of Guarantee

        Raises
        ------
        BudgetExceeded, UncertifiedError, LedgerError
            As for `charge`.

        Examples
        --------
        >>> ledger.check_charges([dp.Guarantee(0.125), dp.Guarantee(0.25)])
        """
        taken = [convert_guarantee(one, self._facts, self._account) for one in guarantees]
        analyst, key = self._signature.analyst, self._signature.key
        drawn, due, unpaid = set(key.drawn if key else ()), Amount(0, 0, 0), list[Guarantee]()
        with self._store.transaction(write=False) as connection:
            for one in taken:
                price = cost(self.accountant, one)
                if (number := self._paid_before(connection, one, price, analyst, drawn)) is not None:
                    drawn.add(number)
                else:
                    due = due.plus(price)
                    unpaid.append(one)
            try:
                check_price(connection, read_books(connection), self._facts, self._account, due, analyst)
            except BudgetExceeded as error:
                eps, delta = " + ".join(f"{one.eps:g}" for one in unpaid), sum(one.delta for one in unpaid)
                charge = f"a charge of eps={eps}, delta={delta:g} ({self.adjacency})"
                refused = f"{charge} {str(error).removeprefix('the charge ')} (nothing was charged or released)"
                raise BudgetExceeded(refused) from None

    def partition(self, by: str, parts: Sequence[Level]) -> Partition:
        """Split the rows by the value of column `by` into disjoint parts with separate accounts.

        The parts compose in parallel: the whole ledger pays only for the worst part, since a row lies in one part. Each
        part accepts only add_remove guarantees, because the number of its rows is never public; in a replace_one ledger
        the group rule then covers a record that moves to another part (docs/proofs/composition, section 5).

        Parameters
        ----------
        by : str
            A column that describes each row by itself and never changes: not a column computed from several rows, such
            as a quantile bin, and not one that analysts recode.
        parts : sequence of str, int or bool
            The values, known beforehand; rows with another value or a missing one belong to no part.

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
        The ledger relies on the column in the data of each call. A row whose cell is altered between calls (recoded,
        imputed, rounded) is in both parts, and its guarantee is the sum of both. If analysts pass data that they have
        prepared themselves, charge the whole ledger instead.

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
            accounts = read_books(connection).parts(self._account, by)
            if not accounts:
                connection.executemany(
                    "INSERT INTO account (parent, rule, part) VALUES (?, ?, ?)",
                    [(self._account, by, level) for level in levels],
                )
                accounts = read_books(connection).parts(self._account, by)
        declared = [account.part for account in accounts]
        if declared != levels:
            names = ", ".join(str(part) for part in declared)
            raise LedgerError(f"parts: the ledger has the partition by {by!r} with parts [{names}], in this order")
        return Partition(self, by, [(account.id, json.loads(account.part or "")) for account in accounts])

    def rows(self, data: pd.DataFrame) -> pd.DataFrame:
        """The rows of `data` that charges made here pay for: all of them, or those of the part.

        Examples
        --------
        >>> import pandas as pd
        >>> from dpstats.data import as_table
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
                f"by must be {self.unit!r}: the ledger is for persons, and a partition by another column could "
                "spread the rows of one person over several parts"
            )

    def _enter(self, connection: Connection, price: Amount, notes: Sequence[str], **facts: str | float | None) -> int:
        """Write an entry, dated now; its number."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        latest = connection.execute("SELECT MAX(time) FROM entry").fetchone()[0]
        behind = ["clock behind an earlier entry"] if latest is not None and now < latest else []
        row = {
            "account": self._account,
            **{f"cost_{name}": amount for name, amount in price._asdict().items()},
            **facts,
            **{"version": __version__, "time": now, "note": "; ".join([*notes, *behind])},
        }
        insert(connection, "entry", row)
        number: int = connection.execute("SELECT MAX(id) FROM entry").fetchone()[0]
        return number

    def _texts(self, **given: str | None) -> dict[str, str | None]:
        """Label, analyst and purpose of an entry: a signature's label comes first, of the others the call's own."""
        signed = self._signature._asdict()
        texts = {
            name: signed[name] if text is None or (isinstance(text, str) and not text) else text
            for name, text in given.items()
        }
        return {**texts, "label": signed["label"] or given["label"]}

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
                raise DataError(f"column {name!r} has dtype {dtype}, from which rows cannot be selected; leave it out")
        with quiet():
            return data.iloc[np.flatnonzero(self._rule(as_table(data)))]

    def rows_of(self, table: Table) -> Table:
        """The rows of `table` that belong to this part."""
        memberships = (*table.memberships, *self.memberships)
        return table.where(self._rule, self.columns).within_parts(memberships)

    @property
    def memberships(self) -> tuple[Membership, ...]:
        """The parts, this one and those around it, to which its rows belong."""
        around = self._parent.memberships if isinstance(self._parent, Part) else ()
        return (*around, self._part_membership())

    def check_rows(self, table: Table) -> None:
        """Raise ArgumentError if `table` is known to hold rows of another part alone, from public facts.

        No row would be left: the charge would buy noise.
        """
        paid_by_rule = {membership.rule: membership for membership in self.memberships}
        for held in table.memberships:
            paid = paid_by_rule.get(held.rule)
            if paid is not None and paid.part != held.part:
                raise ArgumentError(
                    f"ledger pays for {paid.name}, and data are {held.name}: no row would be left (nothing was "
                    "charged); pass the part of the ledger that belongs to these rows, or all data"
                )

    @property
    def _rule(self) -> Holds:
        """Which rows belong to this part and to those around it: a function that can be sent to other processes."""
        return partial(all_hold, self._part_rules())

    def _part_rules(self) -> tuple[Holds, ...]:
        around = self._parent._part_rules() if isinstance(self._parent, Part) else ()
        return (*around, self._part_rule())

    def _part_membership(self) -> Membership:
        part = canonical(self.value)
        assert part is not None, "partition() has checked the values"
        return Membership(f"column {self.by}", part, f"the rows with {self.by}={self.value!r}")

    def _part_rule(self) -> Holds:
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

"""Asking a ledger what is left and who has spent what, and the Domain that belongs to its data set."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dpstats.domain import Domain, Levels, Range, canonical
from dpstats.errors import LedgerError
from dpstats.ledger import report
from dpstats.ledger.accounts import (
    Amount,
    Budget,
    LedgerAccountant,
    LedgerFacts,
    Statement,
    analysts,
    history,
    largest,
    left_of,
    quota_changes,
    quota_left,
    read_books,
)
from dpstats.ledger.store import Connection, Store, insert
from dpstats.privacy.accounting import RHO_UNIT, float_down
from dpstats.privacy.guarantee import Adjacency
from dpstats.wording import phrase
from dpstats.writing import written_text


def schema_hash(domain: Domain) -> str:
    """A hash of the declarations, whatever order the columns are in; levels keep theirs, which is the coding."""
    facts = {name: _canonical(column) for name, column in domain.items()}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _canonical(column: Range | Levels | None) -> list[str | float | None]:
    """What a declaration says cells can be: 17 and 17.0 end a range alike, and 1 and "1" are one level.

    What a fit does with rows beyond a range is no fact about the data: `dpstats.buy_ranges` gives a range an interval,
    and others may leave the same rows in.
    """
    if column is None:
        return []
    if isinstance(column, Range):
        return ["range", float(column.low), float(column.high)]
    return ["levels", *map(canonical, column.values)]


def used_declarations(domain: Domain, columns: Iterable[str]) -> Domain:
    """The declarations of `columns`."""
    return Domain({name: domain[name] for name in columns if name in domain})


def read_codebook(connection: Connection) -> Domain | None:
    """The Domain that the ledger keeps, if any: the latest."""
    row = connection.execute("SELECT domain FROM codebook ORDER BY id DESC LIMIT 1").fetchone()
    return None if row is None else Domain.from_json(row[0])


def store_codebook(connection: Connection, domain: Domain) -> None:
    """Keep `domain` from now on; earlier ones stay on record."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    insert(connection, "codebook", {"domain": domain.to_json(), "hash": schema_hash(domain), "time": now})


def keep_codebook(connection: Connection, domain: Domain, path: Path | str) -> None:
    """Keep `domain` if there is none yet. Raises LedgerError if another one is kept."""
    stored = read_codebook(connection)
    if stored is None:
        store_codebook(connection, domain)
    elif difference := _difference(stored, domain):
        fix = phrase("leave domain out and use ledger.domain", shell="leave out --domain")
        raise LedgerError(
            f"domain: ledger {path} keeps a different Domain ({difference}); {fix}, or use another "
            f"path for another data set. {correction()} if it is wrong"
        )


def correction() -> str:
    """What to do about a wrong Domain that a ledger keeps."""
    return f"Have the ledger's keeper correct the Domain ({_set_domain()})"


def _set_domain() -> str:
    return phrase("ledger.set_domain(domain)", shell="dpstats ledger domain LEDGER --domain FILE")


def check_codebook(stored: Domain | None, domain: Domain | None, columns: Iterable[str], path: Path | str) -> None:
    """Raise LedgerError if a release of `columns`, declared by `domain`, is about other data than the ledger's.

    Columns that `domain` leaves out have their ranges bought, which no declaration contradicts; they must be known.
    Nothing is checked where the ledger keeps no Domain, or the caller of `charge` states none.
    """
    if stored is None or domain is None:
        return
    names = list(dict.fromkeys(columns))
    if unknown := [name for name in names if name not in stored]:
        raise LedgerError(
            f"domain: column {unknown[0]!r} is not in the Domain of ledger {path}, which is for the data set that "
            f"has {_abbreviated(list(stored))}. If it is a column of these data, have the ledger's keeper add it to "
            f"the Domain ({_set_domain()}). If not, use the ledger of these data"
        )
    for name in names:
        if name in domain and _canonical(domain[name]) != _canonical(stored[name]):
            fix = phrase("pass domain=ledger.domain", shell="leave out --domain")
            raise LedgerError(
                f"domain: column {name!r} is declared as {_declaration(domain[name])}, and as "
                f"{_declaration(stored[name])} in the Domain of ledger {path}; {fix}, or use the ledger of these "
                f"data. {correction()} if it is wrong"
            )


def _difference(stored: Domain, other: Domain) -> str:
    """The first column in which two Domains differ, also in what becomes of rows; empty if they agree."""
    for name in [*stored, *other]:
        there, here = stored.get(name), other.get(name)
        if _canonical(there) != _canonical(here) or _extras(there) != _extras(here):
            return f"{name!r}: {_declaration(there)} there, {_declaration(here)} here"
    return ""


def _extras(column: Range | Levels | None) -> dict[str, Any]:
    """What a declaration says of rows beside what cells can be."""
    return column.extras if isinstance(column, Range) else {}


def _declaration(column: Range | Levels | None) -> str:
    if column is None:
        return "nothing"
    if isinstance(column, Range):
        return repr(column) if column.extras else f"({column.low}, {column.high})"
    return f"[{_abbreviated(list(map(str, column.values)))}]"


def _abbreviated(names: list[str], most: int = 4) -> str:
    listed = ", ".join(names[:most])
    return listed if len(names) <= most else f"{listed} and {len(names) - most} more"


class Key(NamedTuple):
    """Under which charges may be repeated, and the entries that this run has drawn on."""

    text: str
    drawn: set[int]


class Signature(NamedTuple):
    """What entries say of who charges and why, where the call does not; and the key of the work, if it has one."""

    analyst: str | None = None
    purpose: str | None = None
    label: str | None = None
    key: Key | None = None


class Reader:
    """What can be asked of a whole ledger and of a part of a partition.

    Examples
    --------
    >>> import tempfile
    >>> import dpstats as dp
    >>> ledger = dp.Ledger(f"{tempfile.mkdtemp()}/survey.ledger", dataset="survey", eps=1.0)
    >>> charge = ledger.signed("Ada").charge(dp.Guarantee(0.25), label="a count")
    >>> ledger.dataset, ledger.adjacency, ledger.accountant, ledger.unit, ledger.total.eps
    ('survey', 'add_remove', 'basic', None, 1.0)
    """

    _store: Store
    _facts: LedgerFacts
    _account: int
    _signature = Signature()

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
        what runs out: see `remaining_rho`. Of a signed ledger it is what the analyst's quota leaves, if that is less;
        of one that names nobody, what the quota for nobody leaves, which may be 0 while others may still spend. What is
        left of the whole data set is `total_remaining`.
        """
        return Budget(*largest(self.accountant, self._left_now()))

    @property
    def total_remaining(self) -> Budget:
        """What is left of the data set's budget, whoever asks: `remaining` without quotas."""
        return Budget(*largest(self.accountant, self._statement().left))

    @property
    def remaining_rho(self) -> float | None:
        """The rho that one more charge may take; None under basic composition."""
        return None if self.accountant == "basic" else float_down(self._left_now().rho * RHO_UNIT)

    @property
    def domain(self) -> Domain | None:
        """The Domain of the data set, if the ledger keeps one: ``dp.glm(..., domain=ledger.domain, ledger=ledger)``."""
        with self._store.transaction(write=False) as connection:
            return read_codebook(connection)

    def entries(self) -> pd.DataFrame:
        """One row an entry, by number: eps, delta, label, formula, method, adjacency, basis and so on.

        Returns
        -------
        DataFrame
            `eps` and `delta` are the guarantee under the ledger's adjacency, `rho` what it took under zCDP (else
            NaN), `adjacency` the one it was stated in, `unit` the column that tells persons apart (None for rows),
            `part` the part of a partition, `state` one of "charged" (spent, rows not yet announced), "read" (spent for
            good) and "refunded" (costs nothing); `analyst` and `purpose` as the charge names them, and `domain_hash`,
            the same for charges that declare the columns they read alike.

        Examples
        --------
        >>> ledger.entries()["label"].tolist()
        ['a count']
        """
        with self._store.transaction(write=False) as connection:
            return report.entries(connection, read_books(connection), self._account, self.unit)

    def report(self) -> str:
        """A table of at most 80 columns: the totals, who spent how much, and what was spent on what.

        Examples
        --------
        >>> "a count" in ledger.report()
        True
        """
        return report.text(self._statement())

    def to_html(self, path: str | Path | None = None) -> str:
        """The same as one HTML page that needs no other file, also written to `path` if one is given.

        Examples
        --------
        >>> "a count" in ledger.to_html()
        True
        """
        return written_text(path, report.page(self._statement()))

    def spending(self) -> pd.DataFrame:
        """What each analyst has spent and has left, with the quotas in force, by analyst; "" for whoever gives no name.

        Returns
        -------
        DataFrame
            `entries`, their number without refunded ones; `eps`, `delta` (and `rho` under zCDP, where `eps` is NaN),
            as they count for the whole data set: of the parts of a partition the worst; `quota_eps` and `quota_delta`
            (NaN without a quota); `remaining_eps` and `remaining_delta`, what one more charge may take under quota and
            total. What is left of the total, whoever asks, is `total_remaining`.

        Examples
        --------
        >>> ledger.spending().shape[0]
        1
        """
        with self._store.transaction(write=False) as connection:
            return analysts(connection, self._facts)

    def quotas(self) -> pd.DataFrame:
        """Every quota that was set, by time; the latest of each analyst is in force.

        Returns
        -------
        DataFrame
            `time`; `analyst`, "" for the quota of all who have none of their own; `eps` and `delta`.

        Examples
        --------
        >>> ledger.set_quota("Ada", eps=0.25)
        >>> ledger.set_quota("Ada", eps=0.5)
        >>> ledger.quotas()["eps"].tolist()
        [0.25, 0.5]
        """
        with self._store.transaction(write=False) as connection:
            return quota_changes(connection)

    def history(self) -> pd.DataFrame:
        """What was spent in all after each entry, by number; refunded ones are left out, as if they had never been.

        Returns
        -------
        DataFrame
            `time`; `eps`, `delta` (and `rho` under zCDP, where `eps` is NaN) spent so far: of the parts of a partition
            the worst; `analyst`, "" without a name, and `by_analyst`, the eps or rho that this one has spent so far.
            `dpstats.plots.spending` draws it.

        Examples
        --------
        >>> ledger.history()["eps"].tolist()
        [0.25]
        """
        with self._store.transaction(write=False) as connection:
            return history(connection, self._facts, self._account)

    def _statement(self) -> Statement:
        with self._store.transaction(write=False) as connection:
            books = read_books(connection)
            return Statement(
                self._facts,
                books.path(self._account),
                books.total(self._account),
                left_of(books, self._facts, self._account),
                report.entries(connection, books, self._account, self.unit),
                analysts(connection, self._facts),
                read_codebook(connection),
            )

    def _left_now(self) -> Amount:
        """What one more charge may take, under the signature's quota too."""
        with self._store.transaction(write=False) as connection:
            left = left_of(read_books(connection), self._facts, self._account)
            quota = quota_left(connection, self._signature.analyst, self._account)
        return left if quota is None else left.least(quota)

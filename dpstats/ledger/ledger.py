"""The budget of one data set: charged durably before any row is read, and never overspent."""

from __future__ import annotations

import datetime
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from dpstats._version import __version__
from dpstats.arguments import can_be_path, check_choice, explain_calls, is_number, safe_repr
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DomainError, LedgerError
from dpstats.ledger.accounts import Amount, Budget, LedgerAccountant, LedgerFacts, limits
from dpstats.ledger.reader import check_codebook, keep_codebook, read_codebook, schema_hash, store_codebook
from dpstats.ledger.spender import Part, Spender, check_texts
from dpstats.ledger.sqlite import SQLiteStore
from dpstats.ledger.store import ROOT, Store, insert
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget

_FIXED = ("dataset", "eps", "delta", "adjacency", "unit", "accountant")
"""What is fixed when a ledger is made."""


class Ledger(Spender):
    """The budget of one data set in a file, shared safely by processes and threads of one machine.

    Opens the file at `path`, or creates it. Totals are fixed at creation: an existing file must agree with the
    arguments. Opening checks the whole file. docs/ledger describes how the file must be protected.

    Parameters
    ----------
    path : str or path-like
        On a local disk; SQLite keeps a ``-wal`` and a ``-shm`` file beside it. For several machines the URL of a
        PostgreSQL database, ``postgresql://keeper@server/office?schema=survey``: one schema holds one ledger.
    dataset : str
        The name of the data set.
    eps, delta : float
        The total budget.
    adjacency : {"add_remove", "replace_one"}
        The notion of neighbouring data that the total is stated for.
    unit : str, optional
        The column that identifies persons, if the total is for persons with all their rows: the ledger then accepts
        only charges of calls with the same ``unit``. By default the total is for rows, and the ledger accepts only
        charges of calls without a unit.
    accountant : {"basic", "zcdp"}
        "basic" adds eps and delta. "zcdp" adds rho, which is better for many Gaussian releases; half of delta pays
        for its conversion, the other half for charges that have a delta and no rho.
    domain : Domain or dict, optional
        The codebook of the data set, stored in the file: every charged call must declare its columns in the same way,
        so a fit to another data set is refused. A file without a Domain stores it from now on; `set_domain` corrects
        it.
    timeout : float
        Seconds to wait for charges of other processes.

    Raises
    ------
    LedgerError
        If the file is not a ledger, is damaged, was written by another version, cannot be written, or disagrees
        with an argument.
    ArgumentError
        If an argument is invalid.

    Examples
    --------
    >>> import tempfile
    >>> import dpstats as dp
    >>> path = f"{tempfile.mkdtemp()}/survey.ledger"
    >>> ledger = dp.Ledger(path, dataset="survey", eps=1.0)
    >>> charge = ledger.signed("Ada").charge(dp.Guarantee(0.25), label="a count")
    >>> ledger.remaining
    Budget(eps=0.75, delta=0.0)
    >>> ledger.set_quota("Ada", eps=0.5)
    >>> ledger.signed("Ada").remaining.eps
    0.25
    """

    @explain_calls()
    def __init__(
        self,
        path: str | os.PathLike[str],
        dataset: str,
        eps: float,
        delta: float = 0.0,
        *,
        adjacency: Adjacency = "add_remove",
        unit: str | None = None,
        accountant: LedgerAccountant = "basic",
        domain: Domain | Mapping[str, Any] | None = None,
        timeout: float = 60.0,
    ) -> None:
        eps, delta = check_budget(eps, delta)
        declared = None if domain is None else Domain.coerce(domain)
        check_choice("accountant", accountant, get_args(LedgerAccountant))
        check_texts({"dataset": dataset if isinstance(dataset, str) else None, "unit": unit})
        if not isinstance(dataset, str) or not dataset.strip():
            raise ArgumentError("dataset must be a non-empty name")
        if unit is not None and not (isinstance(unit, str) and unit.strip()):
            raise ArgumentError(f"unit must be None or the name of a column, got {safe_repr(unit)}")
        limit = limits(accountant, eps, delta)
        requested = LedgerFacts(dataset, eps, delta, check_adjacency(adjacency), accountant, limit, unit)
        store = store_at(path, timeout)
        store.create(_row(requested))
        self._open(store)
        for name in _FIXED:
            stored, argument = getattr(self._facts, name), getattr(requested, name)
            if stored != argument:
                self.close()
                raise LedgerError(
                    f"{name}: ledger {store.path} was made with {name}={stored!r}, not {argument!r}; pass "
                    f"{name}={stored!r}, or another path for another budget"
                )
        if declared is not None:
            with self._store.transaction(write=True) as connection:
                keep_codebook(connection, declared, store.path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, timeout: float = 60.0) -> Ledger:
        """Open an existing ledger whatever its totals. Raises LedgerError as the constructor, and if it is missing.

        Examples
        --------
        >>> dp.Ledger.open(path).dataset
        'survey'
        """
        ledger = cls.__new__(cls)
        ledger._open(store_at(path, timeout))
        return ledger

    @property
    def path(self) -> Path | str:
        """The file, or the URL of the database without its password."""
        return self._store.path

    @property
    def total(self) -> Budget:
        """The whole budget, (eps, delta)."""
        return Budget(self._facts.eps, self._facts.delta)

    def set_quota(self, analyst: str | None, eps: float, delta: float = 0.0) -> None:
        """Limit what one analyst may spend in all, with what is spent already; `quotas` has earlier ones.

        Charges to parts compose in parallel for a quota as they do for the whole. Quotas may add up to more than the
        total, which holds in any case.

        Parameters
        ----------
        analyst : str or None
            The analyst, as named by `Spender.signed`; None sets the quota of each analyst without an own quota, and of
            all charges without a name together.
        eps, delta : float
            eps may be 0: nothing may be spent. With a delta of 0 calls that spend a delta are refused; those
            whose guarantee has none, as many a fit with ``delta=``, are not. With zCDP composition the quota is
            converted to rho at its own delta, so that it allows less eps than it names.

        Raises
        ------
        ArgumentError
            If an argument is invalid, or a name differs only in case from one in the ledger.
        LedgerError
            If the file cannot be written.

        Examples
        --------
        >>> ledger.set_quota("Grace", eps=0.25)
        >>> ledger.signed("Grace").remaining.eps
        0.25
        """
        check_texts({"analyst": analyst})
        alike = [name for name in self.spending().index if name and name != analyst]
        if analyst and (known := next((name for name in alike if name.casefold() == analyst.casefold()), None)):
            raise ArgumentError(
                f"analyst: {analyst!r} differs only in case from {known!r}, whom the ledger knows; use one spelling"
            )
        number = isinstance(eps, (int, float)) and not isinstance(eps, bool)
        eps, delta = (0.0, check_budget(1.0, delta)[1]) if number and eps == 0 else check_budget(eps, delta)
        limit = Amount(0, 0, 0) if eps == 0 else limits(self.accountant, eps, delta)
        row = {
            **{"analyst": analyst, "eps": eps, "delta": delta},
            **{f"limit_{name}": value for name, value in limit._asdict().items()},
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        with self._store.transaction(write=True) as connection:
            insert(connection, "quota", row)

    def set_domain(self, domain: Domain | Mapping[str, Any]) -> None:
        """Correct the Domain of the data set, from now on, by an entry that costs nothing; what was spent stays spent.

        Calls that are charged later must declare the columns that they use as the new Domain does. A saved plan that
        declares one of its columns in another way is refused, and so is the evaluation of such a model, unless the fit
        bought the range of this column. Streams that have started go on. Without a change nothing is entered.

        Parameters
        ----------
        domain : Domain or dict
            All columns of the data set, in the place of those before. It is public, so never taken from the data.

        Raises
        ------
        DomainError
            If a column is declared wrongly, or none is declared.
        LedgerError
            If the file cannot be written.

        Examples
        --------
        >>> ledger.set_domain({"age": (17, 90), "region": ["north", "south"]})
        >>> ledger.set_domain({"age": (17, 90), "region": ["North", "South"]})
        >>> ledger.entries()["note"].tolist()[-1]
        "region: {'levels': ['north', 'south']} before, {'levels': ['North', 'South']} from now on"
        """
        declared = Domain.coerce(domain)
        if not declared:
            raise DomainError("domain must declare the columns of the data set")
        with self._store.transaction(write=True) as connection:
            before, after = (read_codebook(connection) or Domain()).to_dict(), declared.to_dict()
            notes = [
                f"{name}: {before.get(name, 'nothing')} before, {after.get(name, 'nothing')} from now on"
                for name in dict.fromkeys([*before, *after])
                if before.get(name) != after.get(name)
            ]
            if not notes:
                return
            store_codebook(connection, declared)
            texts = self._texts(label="Domain corrected" if before else "Domain declared", analyst=None, purpose=None)
            self._enter(
                connection,
                Amount(0, 0, 0),
                notes if before else [],
                **{"eps": 0.0, "delta": 0.0, **texts, "adjacency": self.adjacency, "basis": "no rows are read"},
                domain_hash=schema_hash(declared),
            )

    def close(self) -> None:
        """Close the file; a later charge would open it again.

        Examples
        --------
        >>> dp.Ledger.open(path).close()
        """
        self._store.disconnect()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        signed = "" if self._signature.analyst is None else f", analyst={self._signature.analyst!r}"
        facts = f"dataset={self.dataset!r}, eps={self.total.eps}, delta={self.total.delta}"
        return f"Ledger({str(self.path)!r}, {facts}{signed})"

    def _open(self, store: Store) -> None:
        self._store, self._account = store, ROOT
        self._store.verify()
        with self._store.transaction(write=False) as connection:
            row = connection.execute(
                "SELECT dataset, eps, delta, adjacency, accountant, limit_eps, limit_delta, limit_rho, unit FROM ledger"
            ).fetchone()
        self._facts = LedgerFacts(row[0], row[1], row[2], row[3], row[4], Amount(*row[5:8]), row[8])


def store_at(path: str | os.PathLike[str], timeout: float = 60.0) -> Store:
    """The file at the absolute path without symbolic links, so that all processes agree on the name of the log; or the
    database of a URL."""
    if not is_number(timeout) or timeout < 0:
        raise ArgumentError(f"timeout must be a number of seconds, 0 or more; got {safe_repr(timeout)}")
    if is_url(path):
        try:
            from dpstats.ledger.postgres import PostgresStore
        except ImportError as error:
            raise ArgumentError(
                'a ledger in PostgreSQL needs the package psycopg: pip install "psycopg[binary]"'
            ) from error
        return PostgresStore(str(path), timeout)
    try:
        resolved = Path(path)
    except TypeError as error:
        raise ArgumentError("path must be a string or a path-like object") from error
    if not can_be_path(str(resolved)):
        raise ArgumentError("path must name a file; this text is too long or has several lines")
    return SQLiteStore(resolved.resolve(), timeout)


def ledger_path(text: str) -> Path | str:
    """What a text typed in a shell names: a file, or the URL of a database."""
    return text if is_url(text) else Path(text)


def is_url(path: object) -> bool:
    """Whether a ledger's path is the URL of a PostgreSQL database."""
    return isinstance(path, str) and path.startswith(("postgresql://", "postgres://"))


def _row(facts: LedgerFacts) -> dict[str, Any]:
    return {
        "identity": secrets.token_hex(16),
        **{name: getattr(facts, name) for name in _FIXED},
        **{f"limit_{name}": value for name, value in facts.limit._asdict().items()},
        "version": __version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


LedgerLike = Ledger | Part | str | os.PathLike[str] | None
"""A ledger, a part of one, the path of an existing ledger's file, or None: nothing is charged."""


def with_domain(
    ledger: LedgerLike, domain: Domain | Mapping[str, Any] | None
) -> tuple[LedgerLike, Domain | Mapping[str, Any] | None]:
    """The ledger that is meant, and the Domain: that of the data set, where none is given and the ledger keeps one."""
    if domain is None and ledger is not None:
        books = as_ledger(ledger)
        return books, None if books is None else books.domain
    return ledger, domain


def check_columns(ledger: Ledger | Part, domain: Domain, columns: Iterable[str]) -> None:
    """Raise LedgerError where a charge for a release of `columns`, declared by `domain`, would."""
    check_codebook(ledger.domain, domain, columns, ledger._store.path)


def as_ledger(ledger: LedgerLike) -> Ledger | Part | None:
    """The ledger that is meant; a path is opened, and no file is ever made.

    ArgumentError if it is none of `LedgerLike`; LedgerError if the file is missing, is no ledger or is damaged.
    """
    if ledger is None or isinstance(ledger, (Ledger, Part)):
        return ledger
    if not isinstance(ledger, (str, os.PathLike)):
        raise ArgumentError(
            "ledger must be a Ledger, a part of one, or the path of its file, as dp.Ledger(path, dataset=, eps=) "
            f"makes; got {safe_repr(ledger)}"
        )
    if is_url(ledger):
        return Ledger.open(ledger)
    if not can_be_path(os.fspath(ledger)):
        raise LedgerError("ledger must name a file; this text is too long or has several lines")
    if not Path(ledger).exists():
        raise LedgerError(
            f"ledger {safe_repr(os.fspath(ledger))} is missing; correct the path, restore the file, or create it: "
            "dp.Ledger(path, dataset=..., eps=...) (nothing was charged or released)"
        )
    return Ledger.open(ledger)

"""Rows set aside for testing, by a draw for each row that the ledger remembers (docs/proofs/evaluation, section 4)."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import check_fraction, check_names
from dpstats.data import Table, as_table
from dpstats.data.columns import usable_kind
from dpstats.data.table import Holds, Membership
from dpstats.errors import DataError, LedgerError
from dpstats.ledger import LedgerLike, as_ledger
from dpstats.ledger.accounts import HOLDOUT, read_books
from dpstats.ledger.spender import Part, Spender
from dpstats.privacy.randomness import random_source
from dpstats.quiet import fail_closed, hide_frames
from dpstats.wording import joined

Side = Literal["train", "test"]
SIDES: tuple[Side, Side] = ("train", "test")
NAMES: dict[Side, str] = {"train": "training", "test": "test"}
MOST_SHOWN = 3  # columns that are named where a holdout is printed


@dataclass(frozen=True)
class HoldoutRule:
    """Which rows are for testing: those whose hash, a uniform number, is below the share."""

    share: float  # of the rows, for testing
    by: tuple[str, ...]  # the columns that are hashed: rows that agree in them go to the same side
    key: str  # of the hash, hexadecimal; drawn independently of the data, and not secret

    def text(self) -> str:
        """The rule as the ledger keeps it."""
        return HOLDOUT + json.dumps({"share": self.share, "by": list(self.by), "key": self.key}, sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> HoldoutRule:
        """The rule whose `text` this is."""
        facts = json.loads(text.removeprefix(HOLDOUT))
        return cls(facts["share"], tuple(facts["by"]), facts["key"])

    def tests(self, table: Table) -> NDArray[np.bool_]:
        """Whether each row is for testing, shape (rows,)."""
        for name in self.by:
            if table.count(name) != 1:
                raise DataError(f"data must have exactly one column {name!r}, which the holdout is split by")
        tokens = np.empty((table.rows, len(self.by)), dtype="<u8")
        for place, name in enumerate(self.by):
            tokens[:, place] = table.column(name).tokens()
        width, cells = 8 * len(self.by), tokens.tobytes()
        # Copied for each row, which takes half the time of another hash with the key.
        keyed = hashlib.blake2b(key=bytes.fromhex(self.key), digest_size=8)
        digests = []
        for start in range(0, len(cells), width):
            hashed = keyed.copy()
            hashed.update(cells[start : start + width])
            digests.append(hashed.digest())
        limit = int(Fraction(self.share) * 2**64)
        return np.frombuffer(b"".join(digests), dtype="<u8") < np.uint64(limit)

    def membership(self, side: Side) -> Membership:
        """One side, as tables remember it."""
        return Membership(self.text(), side, f"the {NAMES[side]} rows of a holdout")

    def rows(self, side: Side) -> Holds:
        """Whether each row of a table is on one side."""
        return self.tests if side == "test" else self.trains

    def trains(self, table: Table) -> NDArray[np.bool_]:
        """Whether each row is for training, shape (rows,)."""
        return ~self.tests(table)


class HoldoutPart(Part):
    """The training or the test rows of a holdout: a ledger for them alone."""

    def __init__(self, parent: Spender, account: int, rule: HoldoutRule, side: Side) -> None:
        super().__init__(parent, account, "holdout", SIDES, SIDES.index(side))
        self.rule = rule
        self.side = side

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that decide which rows belong to this part."""
        above = self._parent.columns if isinstance(self._parent, Part) else ()
        return tuple(dict.fromkeys((*above, *self.rule.by)))

    def _part_membership(self) -> Membership:
        return self.rule.membership(self.side)

    def _part_rule(self) -> Holds:
        return self.rule.rows(self.side)


def open_holdout(
    spender: Spender, share: float, by: Sequence[str] | None, columns: Sequence[str], key: str | None, fresh: str
) -> tuple[HoldoutPart, HoldoutPart]:
    """The training and the test part of a ledger, made on the first call and found again on every later one.

    `by` None takes what the ledger knows, else `columns`; the rule must have `key`, if any, and a new one has `fresh`
    otherwise. LedgerError if the ledger knows another holdout, since a row could be on both sides; or if it is for
    persons and `by` is not the column that tells them apart.
    """
    if spender.unit is not None:
        by = (spender.unit,) if by is None else by
        spender.check_division(by)
    with spender._store.transaction(write=True) as connection:
        known = read_books(connection).holdout(spender._account)
        if known is None:
            known = HoldoutRule(share, tuple(columns if by is None else by), key or fresh).text()
            connection.executemany(
                "INSERT INTO account (parent, rule, part) VALUES (?, ?, ?)",
                [(spender._account, known, json.dumps(side)) for side in SIDES],
            )
        accounts = read_books(connection).parts(spender._account, known)
    rule = HoldoutRule.from_text(known)
    requested = (share, rule.by if by is None else tuple(by), rule.key if key is None else key)
    if requested != (rule.share, rule.by, rule.key):
        columns = ", ".join(rule.by[:6]) + (f" and {len(rule.by) - 6} more" if len(rule.by) > 6 else "")
        raise LedgerError(
            f"share, by or seed: the ledger has a holdout of share {rule.share:g} by {columns}, and every later "
            "call must repeat it: another split of the same rows would put some of them on both sides"
        )
    train, test = (HoldoutPart(spender, account.id, rule, side) for account, side in zip(accounts, SIDES, strict=True))
    return train, test


@dataclass(frozen=True, eq=False)
class Holdout:
    """Training and test rows, and the parts of the ledger that pay for them.

    Attributes
    ----------
    train, test : Table
        Pass them to fits, evaluations and `predict`. They are not data frames: `test_ledger.rows(data)` is one. Their
        numbers of rows are private.
    train_ledger, test_ledger : Part or None
        Charges to them compose in parallel: the whole ledger pays for the larger one. None without a ledger.
    share : float
        The chance of each row to be a test row.
    by : tuple of str
        The columns that decide; rows that agree in them go to the same side.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> split = dp.holdout(rows, 0.3, by="x")
    >>> split.by
    ('x',)
    """

    train: Table
    test: Table
    train_ledger: Part | None
    test_ledger: Part | None
    share: float
    by: tuple[str, ...]

    def __repr__(self) -> str:
        named = joined(self.by) if len(self.by) <= MOST_SHOWN else f"{len(self.by)} columns"
        return f"<Holdout: about {self.share:g} of the rows for testing, by {named}>"

    def __getstate__(self) -> Any:
        """Refuse to be pickled: the rows would go along."""
        raise DataError("a holdout holds private rows and cannot be pickled; call dp.holdout again with the ledger")


@hide_frames
def holdout(
    data: object,
    share: float,
    *,
    by: str | Sequence[str] | None = None,
    seed: int | None = None,
    ledger: LedgerLike = None,
    engine: str | None = None,
) -> Holdout:
    """Set rows aside for testing, each at random with the same probability.

    Parameters
    ----------
    data : DataFrame or another table
    share : float
        The probability that a row is set aside, strictly between 0 and 1.
    by : str or sequence of str, optional
        Columns that are never altered later, such as a person's identifier; rows that agree in all of them stay
        together. By default every column of numbers or text; the ledger remembers which.
    seed : int, optional
        Fixes the draws; different seeds give independent splits. The guarantees of later releases do not depend on it.
        By default the draws are new, or those stored in the ledger.
    ledger : Ledger, Part or path, optional
        Stores the split as a partition: charges to the two sides compose in parallel. The call itself charges nothing.
    engine : {"dask"}, optional
        Read files on the cluster that this process is a client of; see `dpstats.glm`.

    Returns
    -------
    Holdout

    Raises
    ------
    ArgumentError, DataError, DomainError
        If an argument is invalid, or a column of `by` is missing, repeated, or neither numbers nor text.
    LedgerError
        If the ledger remembers another holdout, with another share, other columns or another seed.

    Notes
    -----
    The side of a row is a keyed hash of its cells, so it depends neither on the other rows nor on their order
    (docs/proofs/evaluation, section 4). A row whose cells are altered between calls may therefore change sides: keep
    the data unchanged, or name columns with `by` that do not change.

    Releases from one side are private for that side's rows under add_remove, where the number of its rows is private
    too. ``adjacency="replace_one"`` is refused on one side: a replaced row may change sides.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> split = dp.holdout(rows, 0.3)
    >>> split
    <Holdout: about 0.3 of the rows for testing, by x and y>
    >>> fit = dp.ols("y ~ x", split.train, eps=1.0, domain=domain)
    """
    chance = check_fraction("share", share)
    random_source(seed)  # refuses what is no seed
    ledger = as_ledger(ledger)
    table = as_table(data, engine)
    columns = usable_columns(table)
    names = None if by is None else _check_by(by, table)
    if names is None and not columns:
        raise DataError("data must have a column of numbers or text to split the holdout by")
    key = None
    if seed is not None:  # another key for another share, so that splits of splits differ
        key = hashlib.blake2b(f"{int(seed)} {chance!r}".encode(), digest_size=16).hexdigest()
    fresh = secrets.token_hex(16)
    if ledger is None:
        rule = HoldoutRule(chance, tuple(names or columns), key or fresh)
        train, test = fail_closed(lambda: (_side(table, rule, "train"), _side(table, rule, "test")))
        return Holdout(train, test, None, None, chance, rule.by)
    if isinstance(ledger, Part):
        ledger.check_rows(table)
    parts = open_holdout(ledger, chance, names, columns, key, fresh)
    by = parts[1].rule.by
    _check_by(by, table)
    train, test = fail_closed(lambda: (parts[0].rows_of(table), parts[1].rows_of(table)))
    return Holdout(train, test, *parts, chance, by)


def _side(table: Table, rule: HoldoutRule, side: Side) -> Table:
    """The rows of one side, which know that they are."""
    rows = table.where(rule.rows(side), rule.by)
    return rows.within_parts((*table.memberships, rule.membership(side)))


def usable_columns(table: Table) -> list[str]:
    """Names of the columns that can be hashed, by their names and declared types alone, in order of the alphabet."""
    usable = []
    for name in sorted({label for label in table.labels if isinstance(label, str)}):
        with suppress(DataError):  # a mapping may hold values that are no columns
            if table.count(name) == 1 and table.column(name).kind is not None:
                usable.append(name)
    return usable


def _check_by(by: str | Sequence[str], table: Table) -> list[str]:
    """The columns to go by, each of them one column of numbers or text."""
    names = [by] if isinstance(by, str) else check_names("by", by)
    for name in names:
        usable_kind(name, table.column(name))
    return names

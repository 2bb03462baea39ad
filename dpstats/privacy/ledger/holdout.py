"""A partition into training and test rows by a draw for each row, which every later call repeats.

The draw is a keyed hash of the row's own cells: a function of that row alone, fixed before any row is read, so that
docs/proofs/composition, section 5, covers it (docs/proofs/evaluation, section 4).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DataError, LedgerError
from dpstats.privacy.ledger.filters import HOLDOUT
from dpstats.privacy.ledger.queries import read_books
from dpstats.privacy.ledger.spender import Part, Spender
from dpstats.tables import Table
from dpstats.tables.table import Holds, Membership

Side = Literal["train", "test"]
SIDES: tuple[Side, Side] = ("train", "test")
NAMES: dict[Side, str] = {"train": "training", "test": "test"}


@dataclass(frozen=True)
class HoldoutRule:
    """Which rows are for testing: those whose hash, a uniform number, is below the share.

    Attributes
    ----------
    share : float
        Of the rows, for testing.
    by : tuple of str
        The columns that are hashed. Rows that agree in them go to the same side.
    key : str
        Of the hash, hexadecimal; drawn independently of the data, and not secret.
    """

    share: float
    by: tuple[str, ...]
    key: str

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
                raise DataError(f"data must have exactly one column {name!r}, which the holdout goes by")
        tokens = np.empty((table.rows, len(self.by)), dtype="<u8")
        for place, name in enumerate(self.by):
            tokens[:, place] = table.column(name).tokens()
        key, width, cells = bytes.fromhex(self.key), 8 * len(self.by), tokens.tobytes()
        digests = b"".join(
            hashlib.blake2b(cells[start : start + width], key=key, digest_size=8).digest()
            for start in range(0, len(cells), width)
        )
        limit = int(Fraction(self.share) * 2**64)
        return np.frombuffer(digests, dtype="<u8") < np.uint64(limit)

    def membership(self, side: Side) -> Membership:
        """One side, as tables remember it."""
        return Membership(self.text(), side, f"the {NAMES[side]} rows of a holdout")

    def trains(self, table: Table) -> NDArray[np.bool_]:
        """Whether each row is for training, shape (rows,)."""
        return ~self.tests(table)


class HoldoutPart(Part):
    """The training or the test rows of a holdout: a ledger for them alone."""

    def __init__(self, parent: Spender, account: int, rule: HoldoutRule, side: Side) -> None:
        super().__init__(parent, account, "holdout", SIDES, SIDES.index(side))
        self.rule = rule

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that decide which rows belong to this part."""
        above = self._parent.columns if isinstance(self._parent, Part) else ()
        return tuple(dict.fromkeys((*above, *self.rule.by)))

    def _own_membership(self) -> Membership:
        return self.rule.membership("test" if self.value == "test" else "train")

    def _own_rule(self) -> Holds:
        return self.rule.tests if self.value == "test" else self.rule.trains


def open_holdout(
    spender: Spender, share: float, by: Sequence[str] | None, columns: Sequence[str], key: str | None, fresh: str
) -> tuple[HoldoutPart, HoldoutPart]:
    """The training and the test part of a ledger, made on the first call and found again on every later one.

    Parameters
    ----------
    spender : Ledger or Part
    share : float
        Of the rows, for testing.
    by : sequence of str or None
        None takes what the ledger knows, else `columns`.
    columns : sequence of str
        What a new rule goes by if `by` is None.
    key, fresh : str
        A key that the rule must have, if any, and one for a new rule otherwise.

    Raises
    ------
    LedgerError
        If the ledger knows a holdout with another share, other columns or another key: a row could be on both sides.
        If it is for persons and `by` is not the column that tells them apart.
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
    asked = (share, rule.by if by is None else tuple(by), rule.key if key is None else key)
    if asked != (rule.share, rule.by, rule.key):
        columns = ", ".join(rule.by[:6]) + (f" and {len(rule.by) - 6} more" if len(rule.by) > 6 else "")
        raise LedgerError(
            f"share, by or seed: the ledger knows a holdout of share {rule.share:g} by {columns}, which every later "
            "call must repeat; another split of the same rows would put some of them on both sides"
        )
    train, test = (HoldoutPart(spender, account.id, rule, side) for account, side in zip(accounts, SIDES, strict=True))
    return train, test

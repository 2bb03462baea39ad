"""Rows set aside for testing, by a draw for each row that the ledger remembers (docs/proofs/evaluation, section 4)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.arguments import check_names, shown
from dpstats.errors import ArgumentError, DataError
from dpstats.privacy.ledger import LedgerLike, Part, as_ledger
from dpstats.privacy.ledger.holdout import HoldoutRule, Side, open_holdout
from dpstats.privacy.randomness import random_source
from dpstats.quiet import guarded, sealed
from dpstats.tables import Table, as_table
from dpstats.tables.columns import usable_kind


@dataclass(frozen=True, eq=False)
class Holdout:
    """Training and test rows, and the parts of the ledger that pay for them.

    Attributes
    ----------
    train, test : Table
        Pass them wherever a data frame is expected. How many rows they have is private.
    train_ledger, test_ledger : Part or None
        Charges to them compose in parallel: the whole ledger pays for the greater. None without a ledger.
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
        return f"<Holdout: about {self.share:g} of the rows for testing, by {len(self.by)} columns>"

    def __getstate__(self) -> Any:
        """Refuse to be pickled: the rows would go along."""
        raise DataError("a holdout holds private rows and cannot be pickled; call dp.holdout again with the ledger")


@sealed
def holdout(
    data: object,
    share: float,
    *,
    by: str | Sequence[str] | None = None,
    seed: int | None = None,
    ledger: LedgerLike = None,
    engine: str | None = None,
) -> Holdout:
    """Set rows aside for testing: each with the same chance, by a draw of its own.

    Parameters
    ----------
    data : DataFrame or another table
    share : float
        The chance of a row to be set aside, strictly between 0 and 1.
    by : str or sequence of str, optional
        Columns that are never altered later, such as a person's identifier; rows that agree in all of them stay
        together. By default every column of numbers or text; the ledger remembers which.
    seed : int, optional
        Fixes the draws; with different seeds, splits are independent. The guarantees of later releases do not depend
        on it. Left out, the draws are new, or those that the ledger remembers.
    ledger : Ledger, Part or path, optional
        Remembers the split, and knows it as a partition: what is charged to the two sides composes in parallel. Nothing
        is charged here.
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
    A row's side is a keyed hash of its cells, hence a function of that row alone, whatever the other rows are and in
    whatever order they come (docs/proofs/evaluation, section 4). It follows that a row whose cells are altered between
    calls may change sides: keep the data as they are, or name columns with `by` that stay.

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
    <Holdout: about 0.3 of the rows for testing, by 2 columns>
    >>> fit = dp.ols("y ~ x", split.train, eps=1.0, domain=domain)
    """
    chance = _check_share(share)
    random_source(seed)  # refuses what is no seed
    ledger = as_ledger(ledger)
    table = as_table(data, engine)
    columns = usable_columns(table)
    names = None if by is None else _check_by(by, table)
    if names is None and not columns:
        raise DataError("data must have a column of numbers or text for the holdout to go by")
    key = None if seed is None else seeded_key(seed, chance)
    fresh = secrets.token_hex(16)
    if ledger is None:
        rule = HoldoutRule(chance, tuple(names or columns), key or fresh)
        train, test = guarded(lambda: (_side(table, rule, "train"), _side(table, rule, "test")))
        return Holdout(train, test, None, None, chance, rule.by)
    if isinstance(ledger, Part):
        ledger.check_rows(table)
    parts = open_holdout(ledger, chance, names, columns, key, fresh)
    by = parts[1].rule.by
    _check_by(by, table)
    train, test = guarded(lambda: (parts[0].rows_of(table), parts[1].rows_of(table)))
    return Holdout(train, test, *parts, chance, by)


def _side(table: Table, rule: HoldoutRule, side: Side) -> Table:
    """The rows of one side, which know that they are."""
    kept = (*table.memberships, rule.membership(side))
    return table.where(rule.tests if side == "test" else rule.trains, rule.by).within_parts(kept)


def seeded_key(seed: int, share: float) -> str:
    """The key that a seed stands for; another one for another share, so that splits of splits differ."""
    return hashlib.blake2b(f"{int(seed)} {share!r}".encode(), digest_size=16).hexdigest()


def usable_columns(table: Table) -> list[str]:
    """Names of the columns that can be hashed, by their names and declared types alone, in order of the alphabet."""
    names = sorted({label for label in table.labels if isinstance(label, str)})
    once = [name for name in names if table.count(name) == 1]
    return [name for name in once if _kind_of(table, name) is not None]


def _kind_of(table: Table, name: str) -> str | None:
    try:
        return table.column(name).kind
    except DataError:  # a mapping may hold values that are no columns
        return None


def _check_share(share: object) -> float:
    number = isinstance(share, (int, float, np.integer, np.floating)) and not isinstance(share, bool)
    if not number or not 0 < share < 1:  # type: ignore[operator]
        raise ArgumentError(f"share must lie strictly between 0 and 1, got {shown(share)}")
    return float(share)  # type: ignore[arg-type]


def _check_by(by: str | Sequence[str], table: Table) -> list[str]:
    """The columns to go by, each of them one column of numbers or text."""
    names = [by] if isinstance(by, str) else check_names("by", by)
    for name in names:
        usable_kind(name, table.column(name))
    return names

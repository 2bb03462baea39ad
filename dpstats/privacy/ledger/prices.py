"""Whether a charge may be made: under which adjacency and unit, and whether budget and quota cover it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from dpstats.arguments import near_miss
from dpstats.errors import ArgumentError, BudgetExceeded, LedgerError, UncertifiedError
from dpstats.privacy.accounting import group_rule
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger.facts import Facts
from dpstats.privacy.ledger.filters import Amount, Books, largest
from dpstats.privacy.ledger.queries import Quota, quota_left, quota_of, read_quotas
from dpstats.privacy.ledger.schema import ROOT


def converted(guarantee: Guarantee, facts: Facts, account: int) -> Guarantee:
    """The guarantee under the ledger's adjacency.

    Raises
    ------
    ArgumentError, UncertifiedError, LedgerError
        If it is none, is not certified, or cannot be converted.
    """
    if not isinstance(guarantee, Guarantee):
        raise ArgumentError("guarantee must be a dpstats.Guarantee")
    if not guarantee.certified:
        raise UncertifiedError(
            f"guarantee is not certified ({guarantee.reason}); no ledger accepts it: "
            "use a certified method, or run without a ledger"
        )
    if guarantee.unit != facts.unit:
        raise LedgerError(f"guarantee: {_whose(guarantee.unit)}, and the ledger is {_other(facts.unit)}")
    if guarantee.adjacency == "replace_one" and (facts.adjacency == "add_remove" or account != ROOT):
        where = "a part of a partition" if account != ROOT else "an add_remove ledger"
        raise LedgerError(
            f"guarantee: replace_one takes the number of rows for public, which {where} does not; "
            'make the release with adjacency="add_remove"'
        )
    return guarantee if guarantee.adjacency == facts.adjacency else group_rule(guarantee)


def left_of(books: Books, facts: Facts, account: int) -> Amount:
    """What one more charge to `account` may take of the whole budget."""
    return facts.limit.minus(books.total(ROOT)).plus(books.slack(account))


def check_price(
    connection: sqlite3.Connection, books: Books, facts: Facts, account: int, price: Amount, analyst: str | None
) -> None:
    """Raise BudgetExceeded, with the most that both leave, unless the budget and a quota of the analyst cover it."""
    whole, quota = left_of(books, facts, account), quota_left(connection, analyst, account)
    short = [] if books.charged(account, price).total(ROOT).within(facts.limit) else [repr(facts.dataset)]
    signature = ""
    if quota is not None and not price.within(quota):
        quotas = read_quotas(connection)
        limit = quota_of(quotas, analyst)
        assert limit is not None, "there is something left of it"
        whose = "those who give no name" if analyst is None else f"analyst {analyst!r}"
        short.append(f"the quota of {whose}, eps={limit.eps:g}, delta={limit.delta:g}")
        signature = _signature(quotas, analyst)
    if short:
        left = whole if quota is None else whole.least(quota)
        raise _exceeded(f"what remains of {' and of '.join(short)}", left, facts, signature)


def _signature(quotas: Mapping[str | None, Quota], analyst: str | None) -> str:
    """What to do about a charge that is under the quota of those without one of their own."""
    if analyst in quotas and analyst is not None:
        return ""
    if analyst is None:
        return "; sign with analyst= or ledger.signed(...) if a quota is yours"
    meant = near_miss(analyst, [name for name in quotas if name is not None])
    return f"; {analyst!r} has no quota of its own" + (f": did you mean {meant!r}?" if meant else "")


def _exceeded(what: str, left: Amount, facts: Facts, signature: str) -> BudgetExceeded:
    eps, delta = largest(facts.accountant, left)
    offer = f"at most eps={eps!r} for a pure charge, delta={delta!r}; lower eps or delta"
    if not facts.delta:  # all charges are pure
        offer = f"at most eps={eps!r}; lower eps"
    if eps == 0:
        offer = "nothing is left"
    return BudgetExceeded(f"exceeds {what}: {offer}{signature} (nothing was charged or released)")


def _whose(unit: str | None) -> str:
    return "it is for rows" if unit is None else f"it is per {unit}"


def _other(unit: str | None) -> str:
    """What the ledger is for, and what to do about a guarantee that is not."""
    if unit is None:
        return "for rows; neither bounds the other, so keep another ledger, made with that unit"
    return f"per {unit}; pass unit={unit!r} to the call, or keep another ledger"

"""Charge first, then read rows: the one place where a release meets the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger import Ledger

Released = TypeVar("Released")


def charged(
    ledger: Ledger | None,
    guarantee: Guarantee,
    release: Callable[[], Released],
    *,
    label: str,
    method: str,
    formula: str | None = None,
    plan_hash: str | None = None,
) -> Released:
    """Charge `guarantee` durably, if there is a ledger, and only then call `release`, which reads rows.

    Raises
    ------
    BudgetExceeded, UncertifiedError, LedgerError
        If the ledger does not take the charge; `release` is not called then.
    """
    if ledger is None:
        return release()
    with ledger.charge(guarantee, label=label, formula=formula, method=method, plan_hash=plan_hash) as charge:
        charge.rows_read()
        return release()

"""What was fixed when a ledger was made, and what it tells."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from dpstats.domain import Domain
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.ledger.filters import Amount, LedgerAccountant


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


class Statement(NamedTuple):
    """What a report tells: of the whole data set or of one part (in words; empty for the whole)."""

    facts: Facts
    part: str
    spent: Amount
    left: Amount
    entries: pd.DataFrame
    analysts: pd.DataFrame
    domain: Domain | None

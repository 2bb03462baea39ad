"""The privacy budget of a data set, in a file that nobody can overspend."""

from dpstats.privacy.ledger.charge import Charge
from dpstats.privacy.ledger.facts import Budget
from dpstats.privacy.ledger.ledger import Ledger
from dpstats.privacy.ledger.opening import LedgerLike, as_ledger
from dpstats.privacy.ledger.spender import Part, Partition

__all__ = ["Budget", "Charge", "Ledger", "LedgerLike", "Part", "Partition", "as_ledger"]

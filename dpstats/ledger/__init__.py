"""The privacy budget of a data set, in a file that nobody can overspend."""

from dpstats.ledger.accounts import Budget
from dpstats.ledger.ledger import Ledger, LedgerLike, as_ledger, check_columns, with_domain
from dpstats.ledger.spender import Charge, Part, Partition

__all__ = ["Budget", "Charge", "Ledger", "LedgerLike", "Part", "Partition", "as_ledger", "check_columns", "with_domain"]

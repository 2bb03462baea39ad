"""The privacy budget of a data set, in a file that nobody can overspend."""

from dpstats.privacy.ledger.charge import Charge
from dpstats.privacy.ledger.ledger import Ledger
from dpstats.privacy.ledger.spender import Budget, Part, Partition

__all__ = ["Budget", "Charge", "Ledger", "Part", "Partition"]

"""The public facts about a data set, and the ways to write them down."""

from dpstats.domain.declarations import Levels, Range, Scalar, as_number, canonical, number_pair
from dpstats.domain.domain import Domain, support_of

__all__ = ["Domain", "Levels", "Range", "Scalar", "as_number", "canonical", "number_pair", "support_of"]


def __dir__() -> list[str]:
    return list(__all__)

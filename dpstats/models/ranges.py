"""Ranges of undeclared columns, bought once and shared by every model of the data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DomainError
from dpstats.formula import cells
from dpstats.models.charging import charged
from dpstats.privacy.guarantee import Adjacency, Guarantee, check_adjacency, check_budget
from dpstats.privacy.ledger import Ledger, Part
from dpstats.privacy.randomness import RandomSource, random_source
from dpstats.privacy.ranges import buy_range
from dpstats.request import SEEDED

PROOF = "docs/proofs/ranges"


@dataclass(frozen=True)
class BoughtRanges:
    """A Domain completed by bought ranges, and what they cost.

    Attributes
    ----------
    domain : Domain
        Pass it as ``domain=`` to any number of models: the ranges are public from now on.
    guarantee : Guarantee
        For the ranges alone.
    """

    domain: Domain
    guarantee: Guarantee


def buy_ranges(
    data: pd.DataFrame,
    columns: Sequence[str],
    eps: float,
    *,
    domain: Domain | Mapping[str, Any] | None = None,
    adjacency: str = "add_remove",
    ledger: Ledger | Part | None = None,
    seed: int | None = None,
) -> BoughtRanges:
    """Buy the ranges of numeric columns once, to be used by several models.

    Parameters
    ----------
    data : DataFrame
    columns : sequence of str
        Numeric columns that `domain` does not declare.
    eps : float
        For all of them together, in equal parts.
    domain : Domain or dict, optional
        What is declared already.
    adjacency : {"add_remove", "replace_one"}
    ledger : Ledger or Part, optional
        Charged durably before any row is read.
    seed : int, optional
        For tests only; the guarantee is then not certified.

    Returns
    -------
    BoughtRanges

    Raises
    ------
    ArgumentError, DataError, DomainError
        Before anything is spent, if a column is missing, declared already, repeated or not numeric.
    BudgetExceeded
        If the ledger has too little left.
    """
    if isinstance(columns, str):
        raise ArgumentError(f"columns must be a list of names: columns=[{columns!r}]")
    names, declared = list(columns), Domain.coerce(domain)
    check_budget(eps)
    notion = check_adjacency(adjacency)
    random = random_source(seed)
    if not names or len(set(names)) != len(names) or any(name in declared for name in names):
        raise ArgumentError("columns must name different columns that the domain does not declare yet, at least one")
    frame = cells.as_frame(data)
    check_numeric(frame, names)
    guarantee = Guarantee(eps, 0.0, notion, basis=PROOF)
    if seed is not None:
        guarantee = guarantee.uncertified(SEEDED)
    ranges = charged(
        ledger,
        guarantee,
        frame,
        lambda rows: ranges_of(rows, names, eps, notion, random),
        label=f"ranges of {', '.join(names)}",
        method="ranges",
    )
    return BoughtRanges(declared.with_ranges(ranges), guarantee)


def check_numeric(frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Raise DataError or DomainError unless each of `names` is one column of numbers or booleans, by its dtype."""
    for name in names:
        if cells.dtype_kind(frame, name) == "text":
            raise DomainError(f"column {name!r} is not numeric; declare its levels instead of buying a range")


def ranges_of(
    data: pd.DataFrame, names: Sequence[str], eps: float, adjacency: Adjacency, random: RandomSource
) -> dict[str, tuple[float, float]]:
    """Buy a range for each column with an equal part of eps. Reads rows: charge first."""
    share = eps / len(names)
    return {
        name: buy_range(cells.numbers_of(data[name]), eps=share, adjacency=adjacency, random=random) for name in names
    }

"""Whose data one record is: a row by itself, or all rows of a person (docs/proofs/persons)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpstats.arguments import check_choice, shown
from dpstats.errors import ArgumentError

UNIT_WEIGHTS = (None, "equal", "one")


@dataclass(frozen=True)
class Unit:
    """What a record adds to a sum over rows.

    Attributes
    ----------
    column : str or None
        Its values tell persons apart; None if every row is a record.
    rows : int
        k, the most rows of weight 1 that a record has: it adds to every sum at most what k rows do.
    shared : bool
        Whether its rows have weights that sum to at most 1 instead, however many they are.
    """

    column: str | None = None
    rows: int = 1
    shared: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The column that is read to tell records apart, if one is."""
        return () if self.column is None else (self.column,)

    def each(self, eps: float) -> float:
        """The part of a record's eps that one row of weight 1 may cost."""
        return eps / self.rows

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any] | None) -> Unit:
        """The unit whose `to_dict` gave `stored`; a row for what older versions stored."""
        return ROW if stored is None else cls(**stored)


ROW = Unit()
"""Every row is a record of its own."""


def make_unit(unit: str | None, unit_weight: str | None = None, max_rows: int | None = None) -> Unit:
    """The unit that a call asks for.

    Parameters
    ----------
    unit : str or None
        A column's name.
    unit_weight : {None, "equal", "one"}
        "equal": a person's rows share the weight 1 in equal parts; "one": each has the weight 1. By default equal
        unless `max_rows` is given.
    max_rows : int, optional
        The most rows of a person, which go by a draw if there are more; needs rows of weight one.

    Raises
    ------
    ArgumentError
        If an argument is not usable, or does not suit the others.
    """
    check_choice("unit_weight", unit_weight, UNIT_WEIGHTS)
    whole = isinstance(max_rows, (int, np.integer)) and not isinstance(max_rows, bool)
    if max_rows is not None and not (whole and max_rows >= 1):
        raise ArgumentError(f"max_rows must be a positive whole number, got {shown(max_rows)}")
    if unit is None:
        if unit_weight is not None or max_rows is not None:
            raise ArgumentError("unit_weight and max_rows need unit, the name of the column that tells persons apart")
        return ROW
    if not isinstance(unit, str) or not unit:
        raise ArgumentError(f"unit must be the name of the column that tells persons apart, got {type(unit).__name__}")
    if max_rows is None:
        if unit_weight == "one":
            raise ArgumentError("unit_weight='one' needs max_rows, the most rows that a person may have")
        return Unit(unit, shared=True)
    if unit_weight == "equal":
        raise ArgumentError("max_rows is for rows of weight one: rows that share a weight need no bound; leave it out")
    return Unit(unit, rows=int(max_rows))

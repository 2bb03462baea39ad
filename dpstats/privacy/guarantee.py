"""What a release promises: the guarantee, whose data it protects, and whether we stand behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from dpstats.arguments import check_choice, check_flag, is_number, safe_repr
from dpstats.errors import ArgumentError
from dpstats.families.base import check_cap
from dpstats.wording import argument

Adjacency = Literal["add_remove", "replace_one"]

DIFFERENCES = {
    ("add_remove", True): "adding or removing one row",
    ("replace_one", True): "changing the contents of one row (the number of rows is public)",
    ("add_remove", False): "adding or removing one {unit} with all its rows",
    ("replace_one", False): "replacing all rows of one {unit} (how many there are is public)",
}
"""What a guarantee hides, by its notion of neighbours and whether it is for rows."""


def check_adjacency(adjacency: str) -> Adjacency:
    """Return `adjacency` unchanged if it is a known notion of neighbouring data, else raise ArgumentError."""
    check_choice("adjacency", adjacency, get_args(Adjacency))
    return adjacency  # type: ignore[return-value]


def check_budget(eps: float, delta: float = 0.0) -> tuple[float, float]:
    """Return (eps, delta) as floats if eps is finite and positive and delta is in [0, 1), else raise ArgumentError."""
    given: dict[str, object] = {"eps": eps, "delta": delta}
    for name, value in given.items():
        if not is_number(value):
            part = f"; use its .{name}" if isinstance(value, tuple) and hasattr(value, name) else ""
            raise ArgumentError(f"{name} must be a finite number, got {safe_repr(value)}{part}")
    if eps <= 0:
        raise ArgumentError(f"eps must be positive, got {safe_repr(eps)}")
    if not 0 <= delta < 1:
        raise ArgumentError(f"delta must lie in [0, 1), got {safe_repr(delta)}")
    return float(eps), float(delta)


DELTA_MIN = 1e-290


def check_delta(delta: float, least: float = DELTA_MIN) -> None:
    """Raise ArgumentError if `delta` is positive and below `least`, where no bound can be computed."""
    if 0 < delta < least:
        raise ArgumentError(f"delta must be 0, or at least {least:g} for Gaussian noise, got {safe_repr(delta)}")


def check_planned(eps: float, delta: float = 0.0) -> tuple[float, float]:
    """As `check_budget`, of an eps that a release can be planned with: powers of the noise's scale are numbers too."""
    eps, delta = check_budget(eps, delta)
    check_cap("eps", eps)
    return eps, delta


@dataclass(frozen=True)
class Guarantee:
    """A differential-privacy guarantee for everything one call releases.

    Attributes
    ----------
    eps, delta : float
        The privacy parameters: P(S | D) <= exp(eps) P(S | D') + delta for all events S and neighbours D, D'.
    adjacency : {"add_remove", "replace_one"}
        Neighbours differ by the presence of one row, or by the contents of one row (n is then public). With a `unit`
        they differ by all rows of one person: their presence, or their contents (the number of persons is then public,
        the number of rows is private).
    certified : bool
        True if the proof at `basis` covers the release.
    basis : str
        The proof page, such as ``"docs/proofs/objective"``.
    reason : str or None
        Why the guarantee is not certified; None when it is.
    rho : float or None
        The release is also rho-zCDP under the same adjacency (Bun & Steinke 2016, Definition 1.1); None if unproved.
    mu : float or None
        The release is also mu-GDP, as one Gaussian mechanism of sensitivity mu times its standard deviation
        (Dong, Roth & Su 2022, Definition 4); None if unproved. It implies rho = mu^2/2.
    unit : str or None
        The column whose values identify persons (docs/proofs/persons); None if every row counts by itself.

    Examples
    --------
    >>> print(Guarantee(0.5, 1e-6))
    eps=0.5, delta=1e-06, add_remove, certified
    >>> print(Guarantee(0.5, unit="person_id"))
    eps=0.5, add_remove per person_id, certified
    """

    eps: float
    delta: float = 0.0
    adjacency: Adjacency = "add_remove"
    certified: bool = True
    basis: str = ""
    reason: str | None = None
    rho: float | None = None
    mu: float | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        check_adjacency(self.adjacency)
        check_budget(self.eps, self.delta)
        check_flag("certified", self.certified)
        if self.certified == (self.reason is not None):
            raise ArgumentError("reason must be given exactly when certified is False")
        for name, value in (("rho", self.rho), ("mu", self.mu)):
            if value is not None and not (is_number(value) and value > 0):
                raise ArgumentError(f"{name} must be None or a positive number, got {safe_repr(value)}")
        if self.unit is not None and not (isinstance(self.unit, str) and self.unit):
            raise ArgumentError(f"unit must be None or the name of a column, got {safe_repr(self.unit)}")

    def __str__(self) -> str:
        spent = f"eps={self.eps:.4g}" + (f", delta={self.delta:.4g}" if self.delta else "")
        return f"{spent}, {self.neighbours}, {'certified' if self.certified else 'NOT CERTIFIED'}"

    @property
    def neighbours(self) -> str:
        """The adjacency, and whose data it is about."""
        return self.adjacency if self.unit is None else f"{self.adjacency} per {self.unit}"

    @property
    def difference(self) -> str:
        """What the guarantee hides, in words: that by which neighbouring data differ."""
        return DIFFERENCES[self.adjacency, self.unit is None].format(unit=self.unit)

    def uncertified(self, reason: str) -> Guarantee:
        """The same figures marked as uncertified for `reason` (appended to an earlier one).

        Examples
        --------
        >>> print(Guarantee(0.5).uncertified("seeded"))
        eps=0.5, add_remove, NOT CERTIFIED
        """
        joined = reason if self.reason is None else f"{self.reason}; {reason}"
        return replace(self, certified=False, reason=joined)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON.

        Examples
        --------
        >>> Guarantee(**Guarantee(0.5).to_dict()) == Guarantee(0.5)
        True
        """
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


UNIT_WEIGHTS = (None, "equal", "one")


@dataclass(frozen=True)
class Unit:
    """What a record adds to a sum over rows."""

    column: str | None = None  # Its values tell persons apart; None if every row is a record
    rows: int = 1  # k, the most rows of weight 1 that a record has: it adds to every sum at most what k rows do
    shared: bool = False  # Whether its rows have weights that sum to at most 1 instead, however many they are

    @property
    def columns(self) -> tuple[str, ...]:
        """The column that is read to tell records apart, if one is."""
        return () if self.column is None else (self.column,)

    @property
    def of(self) -> str:
        """What is counted."""
        return "rows" if self.column is None else "persons"

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
    """The unit that a call asks for: `unit` names a column, `unit_weight` says what a person's rows weigh.

    "equal", the default without `max_rows`: they share the weight 1 in equal parts. "one": each has the weight 1, and
    those beyond `max_rows` go by a draw. ArgumentError if the arguments do not suit each other.
    """
    check_choice("unit_weight", unit_weight, UNIT_WEIGHTS)
    is_integer = isinstance(max_rows, (int, np.integer)) and not isinstance(max_rows, bool)
    if max_rows is not None and not (is_integer and max_rows >= 1):
        raise ArgumentError(f"max_rows must be a positive whole number, got {safe_repr(max_rows)}")
    if unit is None:
        if unit_weight is not None or max_rows is not None:
            raise ArgumentError("unit_weight and max_rows need unit, the name of the column that identifies persons")
        return ROW
    if not isinstance(unit, str) or not unit:
        raise ArgumentError(f"unit must be the name of the column that identifies persons, got {type(unit).__name__}")
    if max_rows is None:
        if unit_weight == "one":
            raise ArgumentError(
                f"{argument('unit_weight', 'one')} needs max_rows, the most rows that a person may have"
            )
        return Unit(unit, shared=True)
    if unit_weight == "equal":
        raise ArgumentError("max_rows is for rows of weight one: rows that share a weight need no bound; leave it out")
    return Unit(unit, rows=int(max_rows))

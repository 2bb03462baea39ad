"""What a release promises: the guarantee, and whether we stand behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from dpstats.arguments import check_choice, check_flag, is_number, shown
from dpstats.errors import ArgumentError
from dpstats.families.base import check_cap

Adjacency = Literal["add_remove", "replace_one"]


def check_adjacency(adjacency: str) -> Adjacency:
    """Return `adjacency` unchanged if it is a known notion of neighbouring data, else raise ArgumentError."""
    check_choice("adjacency", adjacency, get_args(Adjacency))
    return adjacency  # type: ignore[return-value]


def check_budget(eps: float, delta: float = 0.0) -> tuple[float, float]:
    """Return (eps, delta) as floats if eps is finite and positive and delta is in [0, 1), else raise ArgumentError."""
    for name, value in (("eps", eps), ("delta", delta)):
        if not is_number(value):
            raise ArgumentError(f"{name} must be a finite number, got {shown(value)}")
    if eps <= 0:
        raise ArgumentError(f"eps must be positive, got {shown(eps)}")
    if not 0 <= delta < 1:
        raise ArgumentError(f"delta must lie in [0, 1), got {shown(delta)}")
    return float(eps), float(delta)


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
        by one person's rows: all of them are there or not, or others take their place (the number of persons is then
        public, that of rows is not).
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
        The column whose values tell persons apart (docs/proofs/persons); None if every row counts by itself.

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
                raise ArgumentError(f"{name} must be None or a positive number, got {shown(value)}")
        if self.unit is not None and not (isinstance(self.unit, str) and self.unit):
            raise ArgumentError(f"unit must be None or the name of a column, got {shown(self.unit)}")

    def __str__(self) -> str:
        spent = f"eps={self.eps:.4g}" + (f", delta={self.delta:.4g}" if self.delta else "")
        return f"{spent}, {self.neighbours}, {'certified' if self.certified else 'NOT CERTIFIED'}"

    @property
    def neighbours(self) -> str:
        """The adjacency, and whose data it is about."""
        return self.adjacency if self.unit is None else f"{self.adjacency} per {self.unit}"

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

"""What a mechanism may know of the design before any row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError

Vector = NDArray[np.float64]
NormName = Literal["l1", "l2", "linf"]
NORM_NAMES: tuple[NormName, ...] = ("l1", "l2", "linf")


class TermBounds(Protocol):
    """Bounds on a term's part of every row, in model units."""

    @property
    def columns(self) -> slice:
        """Where the term stands among the columns."""

    @property
    def l2(self) -> float:
        """Bound on the Euclidean norm of the term's part."""

    @property
    def l1(self) -> float:
        """Bound on the sum of absolute values of the term's part."""


class PublicDesign(Protocol):
    """Names and bounds of the design's columns: a function of formula, Domain and options alone."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, p of them."""

    @property
    def terms(self) -> Sequence[TermBounds]:
        """The terms, in the order of their columns."""

    @property
    def has_intercept(self) -> bool:
        """Whether the first column is an intercept."""

    @property
    def response_name(self) -> str:
        """What the model explains."""

    def back_transform(self) -> tuple[NDArray[np.float64], Vector]:
        """Matrix A, shape (p, p), and shift, shape (p,): coefficients in the user's units are A @ scaled + shift."""

    def response_scaling(self) -> tuple[float, float]:
        """Middle and half width: a continuous response in the user's units is middle + half width * scaled."""

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""

    def norm_bound(self, which: NormName, weights: Vector) -> float:
        """The supremum over rows of the norm of x * weights; infinite where no bound is known."""

    def curvature_ratio(self, curvature: Vector) -> float:
        """kappa: the supremum over rows of sum_j x_j**2 / curvature_j."""


@dataclass(frozen=True)
class ArrayTerm:
    """All columns of an array design as one term."""

    columns: slice
    l2: float
    l1: float


@dataclass(frozen=True)
class ArrayDesign:
    """The design of plain arrays: rows are clipped to the stated norms.

    Attributes
    ----------
    names : tuple of str
    norms : dict
        Bounds on the rows' norms, with at least the key ``"l2"``; the others may be missing.
    """

    names: tuple[str, ...]
    norms: Mapping[NormName, float]
    has_intercept: bool = False
    response_name: str = "y"

    def back_transform(self) -> tuple[NDArray[np.float64], Vector]:
        """The identity: arrays are in model units already."""
        return np.eye(len(self.names)), np.zeros(len(self.names))

    def response_scaling(self) -> tuple[float, float]:
        """The identity: middle 0, half width 1."""
        return 0.0, 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {"names": list(self.names), "norms": dict(self.norms), "response_name": self.response_name}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ArrayDesign:
        """The design whose `to_dict` gave `stored`."""
        return cls(tuple(stored["names"]), stored["norms"], response_name=stored["response_name"])

    @property
    def terms(self) -> tuple[ArrayTerm, ...]:
        """One term holding every column."""
        return (ArrayTerm(slice(0, len(self.names)), self.norms["l2"], self.norms.get("l1", np.inf)),)

    def norm_bound(self, which: NormName, weights: Vector) -> float:
        """The stated bound times the largest weight."""
        return self.norms.get(which, np.inf) * float(np.max(weights))

    def curvature_ratio(self, curvature: Vector) -> float:
        """kappa = l2**2 / min(curvature)."""
        return self.norms["l2"] ** 2 / float(np.min(curvature))


def array_norms(row_norm: float | Mapping[str, float], size: int) -> dict[NormName, float]:
    """Check the row bounds of an array design and return them, with an l2 bound implied by the others if missing.

    Raises
    ------
    ArgumentError
        If `row_norm` is not a positive finite number or a dict of such under the keys l1, l2, linf.
    """
    given = dict(row_norm) if isinstance(row_norm, Mapping) else {"l2": row_norm}
    unknown = set(given) - set(NORM_NAMES)
    if unknown or not given:
        raise ArgumentError(f"row_norm must be a number or a dict with keys among {list(NORM_NAMES)}, got {row_norm!r}")
    for key, value in given.items():
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not number or not np.isfinite(value) or value <= 0:
            raise ArgumentError(f"row_norm must be positive and finite, got {value!r} for {key}")
    norms: dict[NormName, float] = {name: float(given[name]) for name in NORM_NAMES if name in given}
    implied = min(norms.get("l1", np.inf), norms.get("linf", np.inf) * np.sqrt(size))
    norms["l2"] = min(norms.get("l2", np.inf), float(implied))
    return norms

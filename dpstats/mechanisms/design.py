"""What a mechanism may know of the design before any row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.formula.bounds import Term, restrict_images, term_norm
from dpstats.formula.coding import restricted_dummies
from dpstats.inference import Dummies
from dpstats.privacy.information import JointColumns
from dpstats.privacy.k_norm import Image

Vector = NDArray[np.float64]

FARTHEST = 1e70
"""A coefficient in the user's units may be so many times one in model units, or the inverse, where it has an error."""

NormName = Literal["l1", "l2", "linf"]
NORM_NAMES: tuple[NormName, ...] = ("l1", "l2", "linf")


class Bounds(Protocol):
    """Names and bounds of a design's columns: a function of formula, Domain and options alone."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, p of them."""

    @property
    def terms(self) -> Sequence[Term]:
        """The terms, in the order of their columns."""

    @property
    def images(self) -> tuple[Image, ...]:
        """Bodies that hold every row, for noise cut to the design; none where only norms are bounded."""

    @property
    def dummies(self) -> tuple[Dummies, ...]:
        """The columns that are dummies of a factor beside an intercept."""

    @property
    def joined(self) -> tuple[JointColumns, ...]:
        """Columns that move together, as a number and its square, with the optimal design on what they can be."""

    def forms(self, columns: NDArray[np.intp] | None = None) -> Vector:
        """Symmetric C, shape (q, p, p), with x'C x = 0 in every row x, of all columns or of some."""

    @property
    def offset_bound(self) -> float:
        """The greatest size of a row's offset in model units."""

    @property
    def score_ratio(self) -> float | None:
        """The covariance of a row's score over its information if the model is right; None where weights leave it open.

        1 for rows that count alike, 1 over the greatest number of trials for rows of trials.
        """

    def back_transform(self) -> tuple[NDArray[np.float64], Vector]:
        """Matrix A, shape (p, p), and shift, shape (p,): coefficients in the user's units are A @ scaled + shift."""

    def norm_bound(self, which: NormName, weights: Vector) -> float:
        """The supremum over rows of the norm of x * weights; infinite where no bound is known."""

    def curvature_ratio(self, curvature: Vector) -> float:
        """kappa: the supremum over rows of sum_j x_j**2 / curvature_j."""


class PublicDesign(Bounds, Protocol):
    """A whole design: its columns' bounds and its response."""

    @property
    def has_intercept(self) -> bool:
        """Whether the first column is an intercept."""

    @property
    def response_name(self) -> str:
        """What the model explains."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Public oddities worth telling the user."""

    def response_scaling(self) -> tuple[float, float]:
        """Middle and half width: a continuous response in the user's units is middle + half width * scaled."""

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""


@dataclass(frozen=True)
class ArrayDesign:
    """The design of plain arrays: rows are clipped to the stated norms."""

    names: tuple[str, ...]
    norms: Mapping[NormName, float]  # bounds on the rows' norms, "l2" among them
    response_name: str = "y"
    has_intercept: bool = False
    notes: tuple[str, ...] = ()
    offset_bound: float = 0.0  # offsets are clipped to this size; 0 without any
    weight_bound: float | None = None  # weights are clipped to this and divided by it; None without any

    @property
    def score_ratio(self) -> float | None:
        """1, or None with weights."""
        return 1.0 if self.weight_bound is None else None

    @property
    def terms(self) -> tuple[Term, ...]:
        """One term holding every column."""
        size = len(self.names)
        maxima = np.full(size, min(self.norms.values()))
        largest = float(self.norms.get("l1", np.inf))
        return (Term("exog", slice(0, size), maxima, self.norms["l2"], min(largest, float(np.sum(maxima)))),)

    @property
    def images(self) -> tuple[Image, ...]:
        """None: an array's columns are bounded together."""
        return ()

    @property
    def dummies(self) -> tuple[Dummies, ...]:
        return ()

    @property
    def joined(self) -> tuple[JointColumns, ...]:
        return ()

    def forms(self, columns: NDArray[np.intp] | None = None) -> Vector:
        size = len(self.names) if columns is None else len(columns)
        return np.zeros((0, size, size))

    def back_transform(self) -> tuple[NDArray[np.float64], Vector]:
        """The identity: arrays are in model units already."""
        return np.eye(len(self.names)), np.zeros(len(self.names))

    def response_scaling(self) -> tuple[float, float]:
        """The identity: middle 0, half width 1."""
        return 0.0, 1.0

    def norm_bound(self, which: NormName, weights: Vector) -> float:
        return term_norm(self.terms[0], which, weights)

    def curvature_ratio(self, curvature: Vector) -> float:
        return self.norm_bound("l2", curvature**-0.5) ** 2

    def to_dict(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "norms": dict(self.norms),
            "response_name": self.response_name,
            "offset_bound": self.offset_bound,
            "weight_bound": self.weight_bound,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ArrayDesign:
        """The design whose `to_dict` gave `stored`."""
        later = {name: stored[name] for name in ("offset_bound", "weight_bound") if name in stored}
        return cls(tuple(stored["names"]), stored["norms"], stored["response_name"], **later)


@dataclass(frozen=True, eq=False)
class SubDesign:
    """Some columns of a design, at increasing `positions`, under the bounds of the whole."""

    design: Bounds
    positions: NDArray[np.intp]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.design.names[j] for j in self.positions)

    @property
    def terms(self) -> tuple[Term, ...]:
        """What is left of each term."""
        left: list[Term] = []
        start = 0
        for term in self.design.terms:
            inside = self.positions[(self.positions >= term.columns.start) & (self.positions < term.columns.stop)]
            maxima = term.maxima[inside - term.columns.start]
            if len(inside):
                norms = min(term.l2, float(np.linalg.norm(maxima))), min(term.l1, float(np.sum(maxima)))
                left.append(Term(term.name, slice(start, start + len(inside)), maxima, *norms))
            start += len(inside)
        return tuple(left)

    @property
    def offset_bound(self) -> float:
        return self.design.offset_bound

    @property
    def score_ratio(self) -> float | None:
        return self.design.score_ratio

    @property
    def images(self) -> tuple[Image, ...]:
        """What is left of the bodies."""
        return restrict_images(self.design.images, self.positions)

    @property
    def dummies(self) -> tuple[Dummies, ...]:
        """Those that are whole."""
        return restricted_dummies(self.design.dummies, self.positions)

    @property
    def joined(self) -> tuple[JointColumns, ...]:
        """Those that are left in part or whole."""
        place = {int(column): position for position, column in enumerate(self.positions)}
        left = (one.among(place) for one in self.design.joined)
        return tuple(one for one in left if one is not None)

    def forms(self, columns: NDArray[np.intp] | None = None) -> Vector:
        """What is known of the columns kept, or of some of them."""
        return self.design.forms(self.positions if columns is None else self.positions[columns])

    def back_transform(self) -> tuple[NDArray[np.float64], Vector]:
        """The whole design's, all other coefficients being zero."""
        matrix, shift = self.design.back_transform()
        return matrix[np.ix_(self.positions, self.positions)], shift[self.positions]

    def norm_bound(self, which: NormName, weights: Vector) -> float:
        """The whole design's bound with no weight on the other columns."""
        spread = np.zeros(len(self.design.names))
        spread[self.positions] = weights
        return self.design.norm_bound(which, spread)

    def curvature_ratio(self, curvature: Vector) -> float:
        return self.norm_bound("l2", curvature**-0.5) ** 2


def has_errors(design: Bounds) -> bool:
    """Whether errors can be had in the user's units: the noise of their variances is of fourth powers."""
    sizes = np.abs(design.back_transform()[0])
    return bool(np.all((sizes == 0) | ((sizes > 1 / FARTHEST) & (sizes < FARTHEST))))


def constant_column(design: Bounds) -> tuple[int, float] | None:
    """A column that has the same value in every row, and that value; None if none is known.

    The bodies of the design's terms tell. A name does not: an array's column may be called Intercept, whatever is in
    it.
    """
    varying = {column for image in design.images if image.block.kind != "intercept" for column in image.columns}
    for image in design.images:
        if image.block.kind == "intercept":
            for column, value in zip(image.columns, np.asarray(image.matrix)[0], strict=True):
                if column not in varying and value != 0:
                    return int(column), float(value)
    return None


def array_norms(row_norm: float | Mapping[str, float], size: int) -> dict[NormName, float]:
    """The row bounds of an array design, checked, with an l2 bound implied by the others if missing.

    ArgumentError unless `row_norm` is a number from 1e-50 to 1e50 or a dict of such under the keys l1, l2, linf.
    """
    given = dict(row_norm) if isinstance(row_norm, Mapping) else {"l2": row_norm}
    unknown = set(given) - set(NORM_NAMES)
    if unknown or not given:
        raise ArgumentError(
            f"row_norm must be a number or a dict with keys among {list(NORM_NAMES)}, got {safe_repr(row_norm)}"
        )
    for key, value in given.items():
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        # The fourth power of a row's norm times that of a count must be a normal float: curvature squares it once more.
        if not number or not 1e-50 <= value <= 1e50:
            raise ArgumentError(f"row_norm must be a number from 1e-50 to 1e50, got {safe_repr(value)} for {key}")
    norms: dict[NormName, float] = {name: float(given[name]) for name in NORM_NAMES if name in given}
    implied = min(norms.get("l1", np.inf), norms.get("linf", np.inf) * np.sqrt(size))
    norms["l2"] = min(norms.get("l2", np.inf), float(implied))
    return norms

"""Public bounds on the terms of a design, and the suprema that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.formula.features import Norms

Array = NDArray[np.float64]

LARGEST = 1e100
"""Columns must stay below this, so that scaling them cannot overflow."""

LEAST = 1e-290
"""Columns that vary must reach this far from their centre: subnormal numbers are rounded by more than any margin."""

MARGIN = 1e-3
"""A smooth basis may rise a little between grid points; bounds measured on a grid are widened by this share."""

NEGLIGIBLE = 1e-12
"""Values this share below zero are zeros that were rounded."""

LEAST_FINITE = 0.01
"""A factor must be finite on a greater share of the public rows: on fewer its bounds would be those of a corner."""


@dataclass(frozen=True, eq=False)
class Term:
    """One term of the design in model units: where it stands and how large it can be in any row.

    Attributes
    ----------
    name : str
    columns : slice
        The term's k columns of the design.
    maxima : ndarray, shape (k,)
        Bounds on the absolute value of each column.
    l2, l1 : float
        Bounds on the Euclidean norm and on the sum of absolute values of the term's part of a row.
    penalized : bool
        Whether a penalty applies to the term.
    """

    name: str
    columns: slice
    maxima: Array
    l2: float
    l1: float
    penalized: bool = True


@dataclass(frozen=True, eq=False)
class FactorBounds:
    """What one coded factor contributes to its terms.

    `low` and `high`, shape (k,), bound its columns; `l2` and `l1` bound the norms of the row after each column is
    divided by its largest absolute value. `total` bounds the sum of absolute values as they are, `positive` says that
    none was negative, and `vanishes` that the row may be zero. `codes` holds the coding matrices of factors of levels,
    and is None if a factor is numeric.
    """

    low: Array
    high: Array
    l2: float
    l1: float
    total: float
    positive: bool
    vanishes: bool
    codes: tuple[Array, ...] | None = None


def measure(values: Array, *, grid: bool, codes: tuple[Array, ...] | None = None) -> FactorBounds:
    """Bounds of a factor from its values on public rows, shape (m, k); rows with a non-finite value are left out.

    With `grid`, the rows only sample the values a column can take, and the bounds are widened by `MARGIN`.

    Raises
    ------
    ValueError
        If hardly any public row is finite.
    """
    finite = values[np.isfinite(values).all(axis=1)]
    if len(finite) <= LEAST_FINITE * len(values):
        raise ValueError("it is not finite anywhere on the declared ranges, or nearly so; narrow them")
    low, high = finite.min(axis=0), finite.max(axis=0)
    unit = np.abs(finite) / _nonzero(np.maximum(np.abs(low), np.abs(high)))
    l2, l1 = np.sqrt((unit**2).sum(axis=1).max()), unit.sum(axis=1).max()
    margin = MARGIN if grid else 0.0
    width = high - low
    sums = np.abs(finite).sum(axis=1)
    return FactorBounds(
        low - margin * width,
        high + margin * width,
        float(l2 * (1 + margin)),
        float(l1 * (1 + margin)),
        total=float(sums.max()),
        positive=bool((low >= -NEGLIGIBLE * np.maximum(np.abs(low), np.abs(high))).all()),
        vanishes=bool(sums.min() == 0),
        codes=None if grid else codes,
    )


def proved(norms: Norms, size: int) -> FactorBounds:
    """Bounds of a factor of `size` columns whose norms are proved, whatever the row."""
    ends = np.full(size, norms.largest)
    l2, l1 = norms.l2 / norms.largest, norms.l1 / norms.largest
    return FactorBounds(-ends, ends, l2, l1, total=norms.l1, positive=False, vanishes=False)


def interact(factors: list[FactorBounds]) -> FactorBounds:
    """Bounds of the products of factors, in patsy's column order (the first factor varies fastest).

    Exact when the factors read different columns of the data, since then each can be at its extreme at once, and the
    norm of an outer product is the product of the norms; never too small otherwise.
    """
    low, high, l2, l1, total = np.ones(1), np.ones(1), 1.0, 1.0, 1.0
    for factor in factors:
        ends = [np.multiply.outer(end, other).ravel() for end in (factor.low, factor.high) for other in (low, high)]
        low, high = np.min(ends, axis=0), np.max(ends, axis=0)
        l2, l1, total = l2 * factor.l2, l1 * factor.l1, total * factor.total
    coded = all(factor.codes is not None for factor in factors)
    return FactorBounds(
        low,
        high,
        l2,
        l1,
        total,
        positive=all(factor.positive for factor in factors),
        vanishes=any(factor.vanishes for factor in factors),
        codes=tuple(code for factor in factors for code in factor.codes or ()) if coded else None,
    )


def largest_sum(gains: Array, limits: Array, total: float) -> float:
    """max sum_j gains_j z_j over 0 <= z_j <= limits_j and sum_j z_j <= total (a fractional knapsack)."""
    order = np.argsort(-gains)
    room = np.clip(total - np.concatenate(([0.0], np.cumsum(limits[order])[:-1])), 0.0, limits[order])
    return float(gains[order] @ room)


def term_norm(term: Term, which: str, weights: Array) -> float:
    """An upper bound on the norm of the term's part of a row after multiplying column j by weights_j.

    The supremum under the term's bounds for l2 and linf; for l1 the smaller of two bounds, from the l1 bound and, by
    Cauchy and Schwarz, from the l2 bound.

    Raises
    ------
    ArgumentError
        If `which` is not a norm known here.
    """
    if which == "linf":
        return float(np.max(weights * term.maxima, initial=0.0))
    if which == "l2":
        return math.sqrt(largest_sum(weights**2, term.maxima**2, term.l2**2))
    if which == "l1":
        by_l2 = term.l2 * float(np.linalg.norm(weights[term.maxima > 0]))
        return min(largest_sum(weights, term.maxima, term.l1), by_l2)
    raise ArgumentError(f"which must be 'l1', 'l2' or 'linf', got {shown(which)}")


@dataclass(frozen=True, eq=False)
class TermNorms:
    """`term_norm` of many terms at once: those of one column, of which most designs have many, together.

    Attributes
    ----------
    terms : tuple of Term
    """

    terms: tuple[Term, ...]

    @cached_property
    def _single(self) -> tuple[NDArray[np.intp], NDArray[np.intp], dict[str, Array]]:
        """Positions of the terms of one column, their columns, and the bound of each that a weight of 1 gives."""
        where = [index for index, term in enumerate(self.terms) if term.columns.stop - term.columns.start == 1]
        alone = [self.terms[index] for index in where]
        bounds = {
            "linf": [float(term.maxima[0]) for term in alone],
            "l2": [min(max(term.l2**2, 0.0), float(term.maxima[0] ** 2)) for term in alone],
            "l1": [min(max(term.l1, 0.0), float(term.maxima[0])) for term in alone],
            "cauchy": [term.l2 * float(term.maxima[0] > 0) for term in alone],
        }
        columns = np.array([term.columns.start for term in alone], dtype=np.intp)
        return np.array(where, dtype=np.intp), columns, {name: np.array(values) for name, values in bounds.items()}

    def norms(self, which: str, weights: Array) -> Array:
        """`term_norm` of each term, shape (terms,), for weights of all columns, shape (p,)."""
        if which not in ("l1", "l2", "linf"):
            raise ArgumentError(f"which must be 'l1', 'l2' or 'linf', got {shown(which)}")
        where, columns, bounds = self._single
        result = np.empty(len(self.terms))
        for index in np.setdiff1d(np.arange(len(self.terms)), where):
            term = self.terms[index]
            result[index] = term_norm(term, which, weights[term.columns])
        own = weights[columns]
        if which == "l2":
            result[where] = np.sqrt(own**2 * bounds["l2"])
        else:
            result[where] = own * bounds[which]
        if which == "l1":
            result[where] = np.minimum(result[where], bounds["cauchy"] * own)
        return result


def combined_norm(norms: Array, which: str) -> float:
    """The norm of a row whose parts have the given `norms`."""
    return float(np.linalg.norm(norms, {"l1": 1, "l2": 2, "linf": np.inf}[which]))


def _nonzero(values: Array) -> Array:
    return np.where(values > 0, values, 1.0)


def unit_term(name: str, columns: slice, reach: Array, norms: list[tuple[float, float]]) -> Term:
    """A term whose columns are divided by their reach; its norms come from those of its parts."""
    maxima = (reach[columns] > 0).astype(float)
    l2 = np.sqrt(sum(l2**2 for l2, _ in norms))
    l1 = sum(l1 for _, l1 in norms)
    # A single centred column reaches 1 whatever its range was; the parts' norms are of uncentred columns.
    return Term(name, columns, maxima, float(min(l2, np.linalg.norm(maxima))), float(min(l1, maxima.sum())))

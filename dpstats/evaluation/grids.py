"""Public cells of the real line: a row's number becomes a cell, and a place within it (docs/proofs/evaluation)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import PublicDesign

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

MARGIN = 9.0
"""Log odds are held within so many of zero: probabilities within 1.2e-4 of 0 and 1."""

LEAST_MEAN = 1e-3
"""A predicted count is taken to be at least so much."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


class Line(NamedTuple):
    """The straight line in each cell that stands for a function: constant + slope * place, shapes (cells,).

    `error` bounds what it is off by anywhere in the cell, at the points looked at.
    """

    constant: Array
    slope: Array
    error: Array


@dataclass(frozen=True, eq=False)
class Grid:
    """Neighbouring cells; values beyond the first and the last are held at their outer ends.

    Attributes
    ----------
    ends : ndarray, shape (cells + 1,)
        Increasing; a cell holds its upper end, not its lower one.
    whole : bool
        Whether the values are whole numbers and the ends half ones.

    Raises
    ------
    ArgumentError
        If the ends are not finite and increasing.
    """

    ends: Array
    whole: bool = False

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"):
            if not (np.isfinite(self.ends).all() and (np.diff(self.ends) > 0).all()):
                raise ArgumentError("fit: the range of its response is too wide or too narrow to divide; rescale it")

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.ends) - 1

    @property
    def middle(self) -> Array:
        """The middle of each cell."""
        return (self.ends[1:] + self.ends[:-1]) / 2

    @property
    def half(self) -> Array:
        """Half the width of each cell."""
        return (self.ends[1:] - self.ends[:-1]) / 2

    def locate(self, values: Array) -> tuple[Indices, Array]:
        """The cell of each value and its place there, from -1 to 1; shapes (rows,). No value depends on another."""
        held = np.clip(values, self.ends[0], self.ends[-1])
        cell = np.searchsorted(self.ends[1:-1], held, side="left").astype(np.intp)
        # Whatever the value is, a place is a number: what is none would become the greatest integer.
        return cell, np.nan_to_num(np.clip((held - self.middle[cell]) / self.half[cell], -1.0, 1.0))

    def line(self, function: Callable[[Array], Array]) -> Line:
        """The best line for `function` in each cell, all its places alike: over whole numbers, or over the interval."""
        if self.whole:
            return self._whole_line(function)
        middle, half = self.middle[:, None], self.half[:, None]
        values = function(middle + half * NODES)
        constant = values @ WEIGHTS / 2
        slope = values @ (WEIGHTS * NODES) * 1.5
        ends = function(middle + half * np.array([-1.0, 1.0]) * (1 - 1e-12))
        off = np.concatenate([values, ends], axis=1)
        places = np.append(NODES, [-1.0, 1.0])
        return Line(constant, slope, np.abs(off - constant[:, None] - slope[:, None] * places).max(axis=1))

    def _whole_line(self, function: Callable[[Array], Array]) -> Line:
        found = []
        for low, high, middle, half in zip(self.ends[:-1], self.ends[1:], self.middle, self.half, strict=True):
            points = np.arange(np.ceil(low), np.floor(high) + 1)
            places, values = (points - middle) / half, function(points)
            slope = float(places @ values / (places @ places)) if len(points) > 1 else 0.0
            constant = float(values.mean())
            found.append((constant, slope, float(np.abs(values - constant - slope * places).max())))
        return Line(*(np.array(column) for column in zip(*found, strict=True)))


def probability_grid(cells: int, low: float, high: float) -> Grid:
    """Log odds from `low` to `high`, in cells of equal width in arcsin(sqrt(p)): a frequency's error is even there.

    If zero lies between, on which decisions hang, it is the end of a cell.
    """
    low, high = max(low, -MARGIN), min(high, MARGIN)
    first, last = (float(np.arcsin(np.sqrt(1 / (1 + np.exp(-end))))) for end in (low, high))
    angles = np.linspace(first, last, cells + 1)[1:-1]
    return _with_zero(low, np.log(np.sin(angles) ** 2) - np.log(np.cos(angles) ** 2), high)


def decision_grid(cells: int, low: float, high: float) -> Grid:
    """Margins of a support vector machine from `low` to `high`, within [-2, 2], in cells of equal width."""
    low, high = max(low, -2.0), min(high, 2.0)
    return _with_zero(low, np.linspace(low, high, cells + 1)[1:-1], high)


def _with_zero(low: float, inner: Array, high: float) -> Grid:
    """A grid with the given ends, the inner one nearest to zero moved there if zero lies between them."""
    if low < 0 < high:
        inner = np.append(inner, 0.0) if len(inner) == 0 else inner
        inner[np.argmin(np.abs(inner))] = 0.0
    return Grid(np.concatenate([[low], inner, [high]]))


def residual_grid(width: float) -> Grid:
    """Residuals from -width to width: half octaves down to a 64th on either side, and one cell around zero."""
    sizes = width * 2.0 ** (-np.arange(13) / 2)
    return Grid(np.concatenate([-sizes, sizes[::-1]]))


def deviance_grid(most: float) -> Grid:
    """Unit deviances from 0 to `most`, in octaves."""
    return Grid(np.concatenate([[0.0], most * 2.0 ** -np.arange(14.0, -1.0, -1.0)]))


def response_grid(low: float, high: float, *, count: bool) -> Grid:
    """Responses: 32 cells of equal width, or every count up to six, then cells that grow by a third."""
    if not count:
        return Grid(np.linspace(low, high, 33))
    ends = [-0.5]
    while ends[-1] < high:
        ends.append(ends[-1] + max(1.0, float(np.floor(ends[-1] / 3))))
    return Grid(np.array(ends), whole=True)


def fitted_grid(low: float, high: float, *, count: bool) -> Grid:
    """Predicted responses in 16 cells: of equal width, or of equal width in the logarithm from `LEAST_MEAN` on."""
    return Grid(np.geomspace(low, high, 17) if count else np.linspace(low, high, 17))


def linear_range(design: PublicDesign, params: Array) -> tuple[float, float]:
    """Ends between which the linear predictor lies whatever a row is: of public bounds and released coefficients.

    Parameters
    ----------
    design : PublicDesign
    params : ndarray, shape (p,)
        In model units.

    Returns
    -------
    low, high : float
        With low < high.
    """
    reach = np.concatenate([term.maxima for term in design.terms])
    below, above = -reach, reach
    if isinstance(design, DesignSpec):
        below = np.minimum((design.lower - design.center) / design.scale, 0.0)
        above = np.maximum((design.upper - design.center) / design.scale, 0.0)
    least, most = np.minimum(params * below, params * above), np.maximum(params * below, params * above)
    low = high = 0.0
    for term in design.terms:
        part = params[term.columns]
        if len(part) == 0:
            continue
        sizes = min(float(np.abs(part).max()) * term.l1, float(np.linalg.norm(part)) * term.l2)
        low += max(float(least[term.columns].sum()), -sizes)
        high += min(float(most[term.columns].sum()), sizes)
    room = 1e-3 + 1e-9 * (high - low)  # for rounding, and so that the ends differ
    room += design.offset_bound
    return low - room, high + room

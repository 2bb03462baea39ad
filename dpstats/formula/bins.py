"""Numbers sorted into bins whose ends the formula spells out: `cut` and `np.digitize`, row by row."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.formula.codes import Codes


@dataclass(frozen=True)
class Bins:
    """A row-wise function from numbers to levels; what is in no bin has the code -1, and its row is left out.

    Attributes
    ----------
    breaks : tuple of float
        Increasing; bin k lies between breaks k and k + 1.
    labels : tuple of str, float or int
        One for each bin.
    right : bool
        Whether a bin holds its right end, else its left one.
    lowest : bool
        Whether the outermost end on the open side belongs to its bin.
    """

    breaks: tuple[float, ...]
    labels: tuple[str | int | float, ...]
    right: bool = True
    lowest: bool = False

    def __call__(self, values: NDArray[np.float64]) -> Codes:
        """The bins of some numbers, shape (rows,)."""
        codes = np.digitize(values, self.breaks, right=self.right) - 1
        codes[~(np.isfinite(values)) | (codes < 0) | (codes >= len(self.labels))] = -1
        if self.lowest:
            end = (self.breaks[0], 0) if self.right else (self.breaks[-1], len(self.labels) - 1)
            codes[values == end[0]] = end[1]
        return Codes(codes, self.labels)


def cut(breaks: Any, labels: Any = None, right: bool = True, include_lowest: bool = False) -> Bins:
    """The bins of ``cut(x, breaks, labels)``, as R and pandas have them.

    Raises
    ------
    ValueError
        If breaks are not written out, or labels do not go with them.
    """
    ends = _ends(breaks, 2, "cut(x, [0, 10, 20])")
    if labels is None:
        brackets = "(]" if right else "[)"
        labels = [f"{brackets[0]}{low:g}, {high:g}{brackets[1]}" for low, high in itertools.pairwise(ends)]
    good = isinstance(labels, (list, tuple)) and all(isinstance(one, (str, int, float)) for one in labels)
    if not good or len(labels) != len(ends) - 1 or len(set(labels)) != len(labels):
        raise ValueError(f"labels must be a list of {len(ends) - 1} different names, one for each bin")
    if not (isinstance(right, bool) and isinstance(include_lowest, bool)):
        raise ValueError("right and include_lowest must be True or False")
    return Bins(ends, tuple(labels), right, include_lowest)


def digits(breaks: Any, right: bool = False) -> Bins:
    """The bins of ``C(np.digitize(x, breaks))``, numbered from 0: below all breaks, ..., beyond all of them."""
    ends = _ends(breaks, 1, "np.digitize(x, [10, 20])")
    if not isinstance(right, bool):
        raise ValueError("right must be True or False")
    return Bins((-math.inf, *ends, math.inf), tuple(range(len(ends) + 1)), right)


def numbered(bins: Bins, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The numbers of bins as numbers, NaN for what is in none."""
    codes = bins(np.asarray(values, dtype=np.float64)).values
    return np.where(codes < 0, np.nan, codes)


def _ends(breaks: Any, least: int, example: str) -> tuple[float, ...]:
    good = isinstance(breaks, Sequence) and not isinstance(breaks, str) and len(breaks) >= least
    if not good or not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in breaks):
        raise ValueError(f"breaks must be written out, as in {example}: any other rule would look at the data")
    ends = tuple(float(one) for one in breaks)
    if not all(low < high for low, high in itertools.pairwise(ends)):
        raise ValueError(f"breaks must increase, as in {example}")
    return ends

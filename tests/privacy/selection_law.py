"""The exact law of report noisy max with exponential noise, for tests of what is selected by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

gauss_legendre = cache(np.polynomial.legendre.leggauss)


def probabilities(scores: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """Exact law of the noisy argmax; most of small data sets have scores that another has."""
    return _probabilities(tuple(scores.tolist()), scale)


@cache
def _probabilities(of: tuple[int, ...], scale: float) -> NDArray[np.float64]:
    """By Gauss-Legendre quadrature of a polynomial in u = exp(-noise / scale)."""
    scores = np.array(of)
    nodes, weights = gauss_legendre(len(scores))
    gaps = np.exp((scores[None, :] - scores[:, None]) / scale)  # exp((s_j - s_i) / scale)
    law = np.empty(len(scores))
    for i, row in enumerate(gaps):
        top = min(1.0, float(1 / row.max()))
        u = top * (nodes + 1) / 2
        others = np.delete(row, i)
        law[i] = top / 2 * weights @ np.prod(1 - u[:, None] * others, axis=1)
    law.flags.writeable = False
    return law


def neighbours(
    cells: Sequence[float], adjacency: str, rows: int
) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Every pair of neighbouring data sets with `rows` shared rows, as tuples of `cells`."""
    for shared in combinations_with_replacement(cells, rows):
        for cell in cells:
            if adjacency == "add_remove":
                yield shared, (*shared, cell)
                yield (*shared, cell), shared
            else:
                yield from (((*shared, cell), (*shared, other)) for other in cells)

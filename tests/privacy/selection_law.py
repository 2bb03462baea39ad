"""The exact law of report noisy max with exponential noise, for tests of what is selected by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray


def probabilities(scores: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """Exact law of the noisy argmax, by Gauss-Legendre quadrature of a polynomial in u = exp(-noise / scale)."""
    nodes, weights = np.polynomial.legendre.leggauss(len(scores))
    gaps = np.exp((scores[None, :] - scores[:, None]) / scale)  # exp((s_j - s_i) / scale)
    law = np.empty(len(scores))
    for i, row in enumerate(gaps):
        top = min(1.0, float(1 / row.max()))
        u = top * (nodes + 1) / 2
        others = np.delete(row, i)
        law[i] = top / 2 * weights @ np.prod(1 - u[:, None] * others, axis=1)
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

"""How many random directions a projected stream needs: as printed, and as memory allows (docs/proofs/geometry)."""

from __future__ import annotations

import math

import numpy as np

from dpstats.penalties.base import number
from dpstats.streaming.constraints import Constraint

MOST_NUMBERS = 250_000
"""Sums that "auto" directions make at most, unless it is told otherwise."""


def region_width(columns: int, region: Constraint | int | None, reach: float = 1.0) -> float:
    """w(G), an upper bound, for rows of Euclidean norm at most `reach`.

    k entries that are not 0: sup |g restricted to k| is at most sqrt(k) + sqrt(2 k log(e d / k)) on average.
    """
    if isinstance(region, Constraint):
        return region.gaussian_width(columns)
    if region is None or region >= columns:
        return reach * math.sqrt(columns)
    sparse = math.sqrt(region) + math.sqrt(2 * region * math.log(math.e * columns / region))
    return reach * min(sparse, math.sqrt(columns))


def printed_directions(rows: int, width: float, failure: float = 0.05) -> int:
    """m of Algorithm 3 as printed, with 1 for its constants: max(W^2, log(T / failure)) / gamma^2.

    gamma = (W / T)^(1/3), so m is of order T^(2/3) W^(4/3): at sizes that are met in practice it exceeds d, so that
    nothing is gained. Offered to be compared with.

    Parameters
    ----------
    rows : int
        T, of the whole stream.
    width : float
        W = w(X) + w(C).
    failure : float
        beta.
    """
    many = number("rows", rows, 1, math.inf)
    wide = number("width", width, 0.0, math.inf, open_low=True)
    gamma = (wide / many) ** (1 / 3)
    return math.ceil(max(wide**2, math.log(many / number("failure", failure, 0.0, 1.0, open_low=True))) / gamma**2)


def choose_directions(
    columns: int,
    constraint: Constraint,
    *,
    rows: float,
    noise_sd: float,
    row_reach: float = 1.0,
    most_numbers: int = MOST_NUMBERS,
) -> int:
    """m by balancing what the sketch and the noise are likely to add, from public facts: "auto".

    A row's <x, theta> is off by about |x| |theta| / sqrt(m), which adds up to T X^2 R^2 / m, R the reach of the set.
    The noise adds 2 noise_sd (1 + R) w, w the width of the set's image: that of the set itself, or R sqrt(m) if that
    is less. For sets of small width it does not grow with m, and as many directions are taken as memory allows.

    Parameters
    ----------
    columns : int
        d, which m does not exceed.
    constraint : Constraint
    rows : float
        T, a public guess at the rows of the stream.
    noise_sd : float
        Of the entries of q.
    row_reach : float
        X, the greatest norm of a row.
    most_numbers : int
        The memory: m (m + 3) / 2 is kept at or below it.
    """
    many, reach = number("rows", rows, 1, math.inf), constraint.reach
    scale = 2 * number("noise_sd", noise_sd, 0.0, math.inf, open_low=True) * (1 + reach)
    most = min(columns, int((math.sqrt(9 + 8 * number("most_numbers", most_numbers, 2, math.inf)) - 3) / 2))
    sizes = np.unique(np.round(np.geomspace(1, most, 200)))
    wide = np.minimum(constraint.gaussian_width(columns), reach * np.sqrt(sizes))
    return int(sizes[np.argmin(many * (row_reach * reach) ** 2 / sizes + scale * wide)])

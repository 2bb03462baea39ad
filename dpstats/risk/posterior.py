"""What a posterior sample costs in the objective, from public values alone (docs/proofs/risk, theorem 6)."""

from __future__ import annotations

import math

from dpstats.risk.printed import Bound

PROOF = "docs/proofs/risk, theorem 6"


def gamma_excess(size: int, pi: float) -> float:
    """t with t - p - p log(t / p) = log(1 / pi), t > p: what V - min V exceeds with probability at most `pi`.

    theta is drawn from exp(-V), V convex on R^p.
    """
    low, high = float(size), size + 10 * (size + math.log(1 / pi))
    while high > low * (1 + 1e-12):
        middle = (low + high) / 2
        if middle - size - size * math.log(middle / size) < math.log(1 / pi):
            low = middle
        else:
            high = middle
    return high


def posterior_bounds(temperature: float, size: int, most: float, pi: float, radius: float) -> list[Bound]:
    """The bounds for a draw from exp(-c J) on all of space.

    Parameters
    ----------
    temperature : float
        c.
    size : int
        p.
    most : float
        The largest entry of the curvature.
    pi, radius : float
        As for `dpstats.risk.excess_risk`.
    """
    mean, high = size / temperature, gamma_excess(size, pi) / temperature
    shrunk = most * radius**2 / 2
    against = "against any coefficients of norm radius"
    return [
        Bound("regularised", "quantile", PROOF, high, "by the convexity of J alone"),
        Bound("regularised", "mean", PROOF, mean, "by the convexity of J alone"),
        Bound("unregularised", "quantile", PROOF, high + shrunk, against),
        Bound("unregularised", "mean", PROOF, mean + shrunk, against),
    ]


def region_bounds(temperature: float, points: int, pi: float) -> list[Bound]:
    """The bounds for a draw from exp(-c J) on so many points of a lattice, over the best of them."""
    at = "over the best point of the lattice"
    return [
        Bound("regularised", "quantile", PROOF, math.log(points / pi) / temperature, at),
        Bound("regularised", "mean", PROOF, (math.log(points) + 1) / temperature, at),
    ]

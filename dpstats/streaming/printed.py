"""The averaged noisy descent as it is printed (Kasiviswanathan et al. 2017; docs/proofs/geometry)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstats.penalties.base import number
from dpstats.streaming.constraints import Constraint
from dpstats.streaming.solving import check_sums, check_vector

Vector = NDArray[np.float64]

MOST_PRINTED_STEPS = 1_000_000


def printed_descent(
    cross: ArrayLike,
    gram: ArrayLike,
    constraint: Constraint,
    *,
    error: float,
    lipschitz: float,
    start: ArrayLike | None = None,
    most_steps: int = MOST_PRINTED_STEPS,
) -> Vector:
    """NoisyProjGrad of source 001 (appendix B) as printed: constant steps on the raw Q, and the average of all points.

    r = ceil((1 + L / alpha)^2) steps of length 2 reach / (sqrt(r) (alpha + L)) along the negative noisy gradient
    2 (Q theta - q): the average is at most 4 alpha reach above the least if the gradient is within alpha of the true
    one (Corollary B.2, the diameter being 2 reach).

    Parameters
    ----------
    cross, gram
        As in `minimise`.
    constraint : Constraint
    error : float
        alpha, a bound on the noise of the gradient on the set; see `gradient_error`.
    lipschitz : float
        L, a bound on the norm of the true gradient on the set: 2 T X (Y + X reach) for T rows of norm at most X.
    start : array_like, shape (p,), optional
    most_steps : int
        If r is more, so many steps of the length for so many are taken.

    Returns
    -------
    ndarray, shape (p,)

    Raises
    ------
    ArgumentError
        As for `minimise`.
    """
    vector, matrix = check_sums(cross, gram)
    alpha = number("error", error, 0.0, math.inf, open_low=True)
    whole = alpha + number("lipschitz", lipschitz, 0.0, math.inf)
    steps = max(1, min(most_steps, math.ceil((whole / alpha) ** 2)))
    length = 2 * constraint.reach / (math.sqrt(steps) * whole)
    point = constraint.project(np.zeros(len(vector)) if start is None else check_vector("start", start, len(vector)))
    total = np.zeros(len(vector))
    for _ in range(steps):
        total += point
        point = constraint.project(point - 2 * length * (matrix @ point - vector))
    return total / steps


def gradient_error(size: int, cross_sd: float, gram_sd: float, reach: float, failure: float = 0.05) -> float:
    """alpha: 2 |q's noise| + 2 reach |Q's noise| is above it with probability at most `failure` (Lemma 4.1).

    For normal noise |e| is above (sqrt(p) + sqrt(2 log(2 / failure))) sd with probability at most failure / 2, and so
    is the spectral norm of a symmetric E, of sd off and sqrt 2 sd on the diagonal, above (2 sqrt(p) + sqrt(4 log(4 /
    failure))) sd: its mean is at most 2 sqrt(p) sd, and it moves by sqrt 2 sd with the normal numbers that make E.
    """
    allowed = number("failure", failure, 0.0, 1.0, open_low=True)
    crossing = (math.sqrt(size) + math.sqrt(2 * math.log(2 / allowed))) * cross_sd
    turning = (2 * math.sqrt(size) + math.sqrt(4 * math.log(4 / allowed))) * gram_sd
    return 2 * crossing + 2 * reach * turning

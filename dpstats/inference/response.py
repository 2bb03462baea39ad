"""Intervals for the mean response at given rows (docs/proofs/inference, 9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.inference.estimates import Estimates

Float = NDArray[np.float64]


AT_ONCE = 1024
"""Rows at once: what they take of memory goes with the square of the columns."""


class MeanResponse(NamedTuple):
    """Predictions at k rows: arrays of shape (k,), intervals of shape (k, 2)."""

    linear: Float
    linear_se: Float
    linear_interval: Float
    mean: Float
    mean_interval: Float


def mean_response(
    estimates: Estimates,
    rows: Float,
    inverse_link: Callable[[Float], Float],
    offset: Float | float = 0.0,
    alpha: float = 0.05,
) -> MeanResponse:
    """The mean response of rows of the design, each with an interval of coverage 1 - alpha.

    Parameters
    ----------
    estimates : Estimates
    rows : ndarray, shape (k, p)
        In model units, public.
    inverse_link : callable
        From linear predictors to means, nondecreasing; called at -inf and inf where a row is not identified.
    offset : float or ndarray, shape (k,)
        Added to the linear predictor.
    alpha : float

    Returns
    -------
    MeanResponse
        The interval of the mean is the image of the linear predictor's, so it covers exactly when that does. Each
        row's interval holds by itself, not all of them at once.
    """
    rows = estimates.check_rows(rows)
    moved = np.broadcast_to(np.asarray(offset, dtype=np.float64), (len(rows),))
    if not np.all(np.isfinite(moved)):
        raise ArgumentError("offset must be finite")
    found = [_linear(estimates, rows[at : at + AT_ONCE], alpha) for at in range(0, max(len(rows), 1), AT_ONCE)]
    effect, error, interval = (np.concatenate(part) for part in zip(*found, strict=True))
    linear, ends = effect + moved, interval + moved[:, None]
    with np.errstate(over="ignore"):
        return MeanResponse(linear, error, ends, inverse_link(linear), inverse_link(ends))


def _linear(estimates: Estimates, rows: Float, alpha: float) -> tuple[Float, Float, Float]:
    """Estimates, standard errors and intervals of rows, shape (k, p)."""
    found = estimates.contrasts(rows)
    return found.estimates, found.se, found.conf_int(alpha)

"""The private purchase of a numeric column's range, for columns that no Domain declares.

Two report-noisy-max selections, each with half of the budget: first among intervals between signed powers of two,
then among sub-intervals of the winner. Proof and the choice of scores: docs/proofs/ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import opendp.prelude as opendp
from numpy.typing import NDArray

from dpstats.errors import ArgumentError, DataError
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget
from dpstats.privacy.randomness import RandomSource, SystemRandom

_POWERS = 2.0 ** np.arange(-20, 51)
COARSE_EDGES: NDArray[np.float64] = np.concatenate([-_POWERS[::-1], [0.0], _POWERS])
"""Ends that the first selection may choose: 0 and plus or minus 2^k, k = -20, ..., 50."""

FINE_BINS = 64
"""Equal parts into which the second selection divides the interval that the first one chose."""

COARSE_PRICE, FINE_PRICE = 2.0, 3.0
"""An interval twice as wide must hold this many more rows, in units of the noise scale, or of one row if that is more.
Settled by the experiment in docs/proofs/ranges."""

SMALLEST_EPS = 1e-300
"""Below it the noise scale would not be a finite number."""

_LARGEST_PENALTY = 2.0**60

Blocks = NDArray[Any] | Sequence[NDArray[Any]]


def buy_range(
    values: Blocks, *, eps: float, adjacency: Adjacency = "add_remove", random: RandomSource | None = None
) -> tuple[float, float]:
    """Choose a range that holds most of a column's values, with eps-differential privacy.

    Parameters
    ----------
    values : ndarray, shape (rows,), or sequence of such blocks
        The column, of a real numeric or boolean dtype. NaN and infinite values count for nothing.
    eps : float
        The budget, all of it spent whatever the values are.
    adjacency : {"add_remove", "replace_one"}
        What neighbouring data means; with "replace_one" the noise is twice as large.
    random : RandomSource, optional
        None or `SystemRandom` selects with OpenDP's own generator. Any other source makes the choice reproducible, and
        whoever passes one must mark the guarantee as uncertified.

    Returns
    -------
    low, high : float
        Finite, with ``low < high``, whatever the values are. Nothing else about the values is released.

    Raises
    ------
    ArgumentError
        If `eps` is not finite or below `SMALLEST_EPS`, or `adjacency` is unknown.
    DataError
        If the values are not one-dimensional arrays of a numeric dtype.

    Notes
    -----
    Report noisy max with exponential noise [1]_ on the score "rows inside the interval minus a public penalty for its
    width". Pure eps-DP by docs/proofs/ranges.

    References
    ----------
    .. [1] McKenna, R. and Sheldon, D. (2020). Permute-and-flip: a new mechanism for differentially private selection.
       NeurIPS 33. With exponential noise, report noisy max is permute-and-flip.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = buy_range(np.arange(100_000) % 80, eps=1.0)
    >>> low < 2 and high > 77
    True
    """
    check_budget(eps)
    if eps < SMALLEST_EPS:
        raise ArgumentError(f"eps must be at least {SMALLEST_EPS:g} to buy a range, got {eps!r}")
    check_adjacency(adjacency)
    random = SystemRandom() if random is None else random
    blocks = _checked_blocks(values)
    scale = noise_scale(eps / 2, adjacency)
    unit = max(scale, 1.0)

    # Below width 1 the first penalty is nearly flat: with too few rows to tell, the range ends up short, not absurd.
    scores = interval_scores(blocks, COARSE_EDGES, lambda width: COARSE_PRICE * unit * np.log2(1 + width))
    low, high = _interval(COARSE_EDGES, noisy_argmax(scores, scale, adjacency, random))

    edges = np.linspace(low, high, FINE_BINS + 1)
    scores = interval_scores(blocks, edges, lambda width: FINE_PRICE * unit * np.log2(width / (high - low)))
    return _interval(edges, noisy_argmax(scores, scale, adjacency, random))


def noise_scale(eps: float, adjacency: Adjacency) -> float:
    """The scale of the exponential noise with which one selection is eps-DP: 1/eps or, for "replace_one", 2/eps.

    One added row raises scores by 0 or 1, all in one direction, and monotone scores need 1/eps; one replaced row moves
    each score by at most 1 in either direction (docs/proofs/ranges, Lemma 2).
    """
    # The margin keeps the rounding of the quotient from costing more than eps.
    return (1.0 if adjacency == "add_remove" else 2.0) / eps * (1 + 1e-12)


def selection(scale: float, adjacency: Adjacency) -> Any:
    """OpenDP's measurement from integer scores to the index of the noisy maximum; ``.map(1)`` is its epsilon."""
    opendp.enable_features("contrib")
    scores_move_together = adjacency == "add_remove"
    return opendp.m.make_noisy_max(
        opendp.vector_domain(opendp.atom_domain(T="i64")),
        opendp.linf_distance(T="i64", monotonic=scores_move_together),
        opendp.max_divergence(),
        scale=scale,
    )


def interval_scores(
    blocks: Sequence[NDArray[np.float64]],
    edges: NDArray[np.float64],
    penalty: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.int64]:
    """Score every closed interval between two edges: its number of rows minus a rounded public penalty.

    Parameters
    ----------
    blocks : sequence of ndarray, shape (rows,)
        Finite values.
    edges : ndarray, shape (k,)
        Increasing.
    penalty : callable
        A public function of the widths, shape (k (k - 1) / 2,), in rows.

    Returns
    -------
    ndarray, shape (k (k - 1) / 2,)
        In the order of ``numpy.triu_indices(k, 1)``.
    """
    below = np.zeros(len(edges), dtype=np.int64)
    up_to = np.zeros(len(edges), dtype=np.int64)
    for block in blocks:
        ordered = np.sort(block)
        below += np.searchsorted(ordered, edges, side="left")
        up_to += np.searchsorted(ordered, edges, side="right")
    left, right = np.triu_indices(len(edges), 1)
    cost = np.clip(penalty(edges[right] - edges[left]), -_LARGEST_PENALTY, _LARGEST_PENALTY)
    return up_to[right] - below[left] - np.rint(cost).astype(np.int64)


def noisy_argmax(scores: NDArray[np.int64], scale: float, adjacency: Adjacency, random: RandomSource) -> int:
    """The index of the largest score after exponential noise: by OpenDP, or from `random` when it is seeded."""
    if isinstance(random, SystemRandom):
        return int(selection(scale, adjacency)(scores.tolist()))
    return int(np.argmax(scores - scale * np.log(random.random(len(scores)))))


def _interval(edges: NDArray[np.float64], index: int) -> tuple[float, float]:
    left, right = np.triu_indices(len(edges), 1)
    return float(edges[left[index]]), float(edges[right[index]])


def _checked_blocks(values: Blocks) -> list[NDArray[np.float64]]:
    """Finite float64 blocks; only the dtype and the number of dimensions may raise, and no message quotes a value."""
    blocks = [values] if isinstance(values, np.ndarray) else values
    finite = []
    for block in blocks:
        if not isinstance(block, np.ndarray) or block.dtype.kind not in "biuf" or block.ndim != 1:
            raise DataError("values must be one-dimensional numpy arrays of a real numeric or boolean dtype")
        with np.errstate(all="ignore"):  # a long double too large for float64 becomes infinite, without a warning
            floats = block.astype(np.float64)
        finite.append(floats[np.isfinite(floats)])
    return finite

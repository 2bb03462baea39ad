"""Ranges and responses bought privately: where a column's values lie, a reach of counts, a mean."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import near_miss, safe_repr
from dpstats.data import Rows, as_rows
from dpstats.errors import ArgumentError, DataError
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget
from dpstats.privacy.randomness import RandomSource, SystemRandom, noisy_integers
from dpstats.privacy.selection import (
    choice_chances,
    exponential_scale,
    likely_choices,
    noisy_argmax,
    quantile_choice,
)
from dpstats.wording import argument

POWERS = range(51)
"""The first selection chooses among [0, 2^k], [-2^k, 0] and [-2^k, 2^k] for these k."""

CELLS = 1024
"""Equal cells into which the second selection divides the interval that the first one chose."""

WIDTHS = (1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32)
"""Widths in cells that the second selection may choose; intervals of one width lie a quarter of it apart."""

LEAST_WIDTH_AROUND_ZERO = CELLS // 4
"""An interval that holds zero is no narrower: zeros are often common, and the first selection has found the scale."""

COARSE_PRICE, FINE_PRICE = 2.0, 2.0
"""An interval twice as wide must hold this many more rows, in units of the noise scale, or of one row if that is more.
Settled by the experiment in docs/proofs/ranges."""

ROWS_TIMES_EPS = 200.0
"""Rows times eps below which a range means nothing."""

ROWS_AT_LEAST = 10_000
"""The number of rows that is taken for granted, unless another is stated, where a budget is judged too small."""

SMALLEST_EPS = 1e-300
"""Below it the noise scale would not be a finite number."""

LARGEST_PENALTY = 2.0**60

CHUNK = 2**14
"""Values that are counted at a time."""

SMALLEST = 1e-290
"""Of the widths of ranges whose cells are told by a product: below it a step has fewer digits."""

Array = NDArray[np.float64]
Values = NDArray[Any] | Rows[NDArray[Any]] | Sequence[NDArray[Any]]


def buy_range(
    values: Values, *, eps: float, adjacency: Adjacency = "add_remove", random: RandomSource | None = None
) -> tuple[float, float]:
    """Choose a range that holds most of a column's values, with eps-differential privacy.

    Parameters
    ----------
    values : ndarray, shape (rows,), or Rows or sequence of such blocks
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
        raise ArgumentError(f"eps must be at least {SMALLEST_EPS:g} to buy a range, got {safe_repr(eps)}")
    check_adjacency(adjacency)
    random = SystemRandom() if random is None else random
    blocks = finite_rows(values).persist()
    scale = noise_scale(eps / 2, adjacency)
    unit = max(scale, 1.0)

    ends, cost = coarse_intervals()
    scores = interval_scores(blocks, ends, COARSE_PRICE * unit * cost)
    low, high = ends[noisy_argmax(scores, scale, random, monotone=adjacency == "add_remove")]

    ends = fine_intervals(low, high)
    penalty = FINE_PRICE * unit * np.log2((ends[:, 1] - ends[:, 0]) / (high - low))
    scores = cell_counts(blocks, low, high).inside(ends) - whole_penalty(penalty)
    low, high = ends[noisy_argmax(scores, scale, random, monotone=adjacency == "add_remove")]
    return float(low), float(high)


def check_range_eps(
    eps: float, names: Sequence[str], adjacency: Adjacency, rows_at_least: float, declared: Iterable[str] = ()
) -> None:
    """Raise ArgumentError, before anything is spent, if a range at this price could mean nothing.

    `rows_at_least` is a public lower bound on the number of rows, on which no guarantee depends. A misspelt name of a
    `declared` column is the likelier mistake, and is named first.
    """
    rows = check_positive("rows_at_least", rows_at_least)
    least = ROWS_TIMES_EPS * (1 if adjacency == "add_remove" else 2) / rows
    if eps < least * (1 - 1e-9):
        others = [name for name in declared if name not in names]
        for name in names:
            if near := near_miss(name, others):
                raise ArgumentError(
                    f"column {name!r} is not declared; the domain declares {near!r}: did you mean that? If not, "
                    f"declare a range of {name!r} too: eps is too small to buy one"
                )
        raise ArgumentError(
            f"eps is too small to buy ranges: {eps:.3g} for each of {len(names)} columns, and {rows_at_least:g} "
            f"rows need at least {least:.3g}. Declare ranges of {', '.join(names)} in the domain (levels of "
            f"text), raise eps or {argument('range_share')}, or state more rows with {argument('rows_at_least')}"
        )


def coarse_intervals() -> tuple[Array, Array]:
    """Ends of the first selection's intervals, shape (k, 2), and their doublings beyond 1, which cost; all public."""
    powers = np.array(POWERS, dtype=np.float64)
    most, none = 2.0**powers, np.zeros(len(powers))
    ends = np.concatenate([np.column_stack(pair) for pair in ((none, most), (-most, none), (-most, most))])
    return ends, np.concatenate([powers, powers, powers + 1])


def fine_intervals(low: float, high: float) -> Array:
    """Ends of the second selection's intervals within the first one's, shape (k, 2); public once that is released."""
    ends = overlapping_intervals(low, high)
    has_zero = (ends[:, 0] <= 0) & (ends[:, 1] >= 0)
    narrow = ends[:, 1] - ends[:, 0] < (high - low) * (LEAST_WIDTH_AROUND_ZERO / CELLS) * (1 - 1e-9)
    return ends[~(has_zero & narrow)]


def overlapping_intervals(low: float, high: float, widths: Sequence[int] = WIDTHS) -> Array:
    """Ends of intervals of `widths` cells of [low, high], each a quarter of its width from the next; shape (k, 2)."""
    places = [
        (start, start + width) for width in widths for start in (*range(0, CELLS - width, width // 4), CELLS - width)
    ]
    return np.linspace(low, high, CELLS + 1)[np.array(places)]


def noise_scale(eps: float, adjacency: Adjacency) -> float:
    """The scale of the exponential noise with which one selection is eps-DP: 1/eps or, for "replace_one", 2/eps.

    One added row raises scores by 0 or 1, all in one direction; one replaced row moves each score by at most 1 in
    either direction (docs/proofs/ranges, Lemma 2).
    """
    return exponential_scale(eps, monotone=adjacency == "add_remove")


def interval_scores(blocks: Rows[Array] | Sequence[Array], ends: Array, penalty: Array) -> NDArray[np.int64]:
    """The number of rows inside each closed interval of `ends`, shape (k, 2), less a rounded public `penalty` in rows.

    Blocks hold finite values, shape (rows,).
    """
    return as_rows(blocks).total(partial(_counts_inside, ends), operator.add) - whole_penalty(penalty)


def whole_penalty(penalty: Array) -> NDArray[np.int64]:
    """Public penalties in whole rows."""
    return np.rint(np.clip(penalty, -LARGEST_PENALTY, LARGEST_PENALTY)).astype(np.int64)


def _counts_inside(ends: Array, blocks: Iterable[Array]) -> NDArray[np.int64]:
    """How many of some values lie in each interval."""
    counts = np.zeros(len(ends), dtype=np.int64)
    for block in blocks:
        ordered = np.sort(block)
        counts += np.searchsorted(ordered, ends[:, 1], side="right") - np.searchsorted(ordered, ends[:, 0], side="left")
    return counts


class CellCounts(NamedTuple):
    """How the values within a range lie; all that a choice among intervals of whole cells reads of them."""

    edges: Array  # of the cells, shape (CELLS + 1,)
    within: NDArray[np.int64]  # in each cell with its lower edge, and at the upper end of the range; shape (CELLS + 1,)
    at_edge: NDArray[np.int64]  # of these on the lower edge
    away: int  # all of them but those at the atom

    def inside(self, ends: Array) -> NDArray[np.int64]:
        """How many lie in each closed interval, whose ends, shape (k, 2), are edges."""
        below = np.append(0, np.cumsum(self.within))
        first, last = np.searchsorted(self.edges, ends[:, 0]), np.searchsorted(self.edges, ends[:, 1], side="right") - 1
        return np.asarray(below[last] + self.at_edge[last] - below[first])


def cell_counts(
    values: Values, low: float, high: float, *, atom: float | None = None, clip: bool = False
) -> CellCounts:
    """The counts of [low, high], in one pass.

    Values beyond it are in none of them, or moved to its ends with `clip`; those that are not finite are in none.
    """
    edges = np.linspace(low, high, CELLS + 1)
    counts = float_rows(values).total(partial(_cell_counts, edges, atom, clip), operator.add)
    return CellCounts(edges, counts[: len(edges)], counts[len(edges) : -1], int(counts[-1]))


def _cell_counts(edges: Array, atom: float | None, clip: bool, blocks: Iterable[Array]) -> NDArray[np.int64]:
    """The counts of `CellCounts`, one after the other."""
    low, high = edges[0], edges[-1]
    total = np.zeros(2 * len(edges) + 1, dtype=np.int64)
    within, at_edge = total[: len(edges)], total[len(edges) : -1]
    # The steps of a chunk stay in the cache.
    for part in (block[start : start + CHUNK] for block in blocks for start in range(0, len(block), CHUNK)):
        bulk = chunk = np.ascontiguousarray(part)
        if not (chunk.min() >= low and chunk.max() <= high):
            bulk = np.clip(chunk[np.isfinite(chunk)], low, high) if clip else chunk[(chunk >= low) & (chunk <= high)]
        cells, edge = _cells(edges, bulk)
        within += np.bincount(cells, minlength=len(edges))
        at_edge += np.bincount(edge, minlength=len(edges))
        total[-1] += len(bulk) if atom is None else np.count_nonzero(bulk != atom)
    return total


def _cells(edges: Array, values: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The last edge at or below each value of the range, and those edges that a value is equal to."""
    low, high = float(edges[0]), float(edges[-1])
    width = high - low
    # Product and edges are within 4.5 roundings of 2**-53 of the largest numbers in them: beyond this distance, in
    # cells, the product tells on which side of an edge a value is. Nearer ones are compared.
    unsure = 1e-11 + 4e-16 * CELLS * max(abs(low), abs(high)) / width if SMALLEST < width < math.inf else 1.0
    if unsure >= 0.5:
        cells = np.searchsorted(edges, values, side="right") - 1
        return cells, cells[values == edges[cells]]
    places = values - low
    places *= CELLS / width
    nearest = np.rint(places)
    cells = places.astype(np.intp)
    places -= nearest
    np.abs(places, out=places)
    if places.min(initial=1.0) > unsure:
        return cells, cells[:0]
    near = np.flatnonzero(places <= unsure)
    edge, close = nearest[near].astype(np.intp), values[near]
    cells[near] = edge - (close < edges[edge])
    return cells, edge[close == edges[edge]]


def finite_rows(values: Values) -> Rows[Array]:
    """The finite values of `float_rows`."""
    return float_rows(values).map(_finite)


def float_rows(values: Values) -> Rows[Array]:
    """float64 blocks; only the dtype and the number of dimensions may raise, and no message quotes a value."""
    return as_rows([values] if isinstance(values, np.ndarray) else values).map(_floats)


def _floats(block: NDArray[Any]) -> Array:
    if not isinstance(block, np.ndarray) or block.dtype.kind not in "biuf" or block.ndim != 1:
        raise DataError("values must be one-dimensional numpy arrays of a real numeric or boolean dtype")
    with np.errstate(all="ignore"):  # a long double too large for float64 becomes infinite, without a warning
        return block.astype(np.float64, copy=False)


def _finite(floats: Array) -> Array:
    finite = np.isfinite(floats)
    return floats if finite.all() else floats[finite]


INTERVAL_PRICE = 2.5
"""An interval twice as wide must hold this many more rows, in units of the noise scale, or of one row if that is more.
Settled by the experiment in docs/proofs/purchases, as is `REACH_PRICE`."""

CORE_PRICE = 0.05
"""An interval of the core that is twice as wide must hold so much more of all rows, if they are counted."""

CORE_WIDTHS = (*WIDTHS, 24, 16, 12, 8, 6, 4)
"""Widths in cells of intervals of the core: far values do not matter, and most of a declared range may be empty."""

REACH_PRICE = 2.5
"""A reach twice as far must leave so many rows fewer above it, in the same units."""

MEAN_UNITS = 1024
"""A count enters the mean as a whole number of such parts of the reach."""


def is_narrowest(low: float, high: float) -> bool:
    """Whether a range that `buy_range` chose is the narrowest that it chooses about zero."""
    sides = (low < 0) + (high > 0)  # of zero that the first selection's interval has
    return low <= 0 <= high and high - low <= sides * 2.0 ** POWERS[0] * LEAST_WIDTH_AROUND_ZERO / CELLS


def buy_interval(
    values: Values,
    low: float,
    high: float,
    *,
    eps: float,
    adjacency: Adjacency,
    random: RandomSource,
    core: float | None = None,
) -> tuple[float, float]:
    """Choose an interval within [low, high] that holds most of the values, with eps-differential privacy.

    Parameters
    ----------
    values : ndarray, shape (rows,), or Rows or sequence of such blocks
        Values outside [low, high] are moved to its ends; those that are not finite count for nothing.
    low, high : float
        Public.
    eps : float
        Spent whatever the values are.
    adjacency : {"add_remove", "replace_one"}
    random : RandomSource
    core : float, optional
        Only the core of the values matters, of about so many rows; public, 0 where their number is not known.

    Returns
    -------
    low, high : float
        One of `dpstats.privacy.ranges.overlapping_intervals`: at least 1/32 of the declared width, 1/256 of a core.
    """
    scale = noise_scale(eps, adjacency)
    ends, scores = _response_scores(values, low, high, scale, core)
    first, last = ends[noisy_argmax(scores, scale, random, monotone=adjacency == "add_remove")]
    return float(first), float(last)


def likely_response_interval(
    values: Array,
    low: float,
    high: float,
    *,
    rows: float,
    eps: float,
    adjacency: Adjacency,
    core: float | None = None,
    share: float,
) -> tuple[float, float]:
    """An interval than which a `share` of purchases by `buy_interval` are no wider, of rows like public `values`."""
    scale, part = noise_scale(eps, adjacency), len(values) / rows
    ends, scores = _response_scores(values, low, high, scale, core, part)
    chosen = likely_choices(scores, part * scale, np.random.default_rng(0))
    first, last = ends[quantile_choice(chosen, np.diff(ends, axis=1)[:, 0], share)]
    return float(first), float(last)


def _response_scores(
    values: Values, low: float, high: float, scale: float, core: float | None, part: float = 1.0
) -> tuple[Array, NDArray[np.int64]]:
    """The candidates of `buy_interval` and their scores, of values that are `part` of as many as are counted."""
    ends = overlapping_intervals(low, high, WIDTHS if core is None else CORE_WIDTHS)
    price = max(INTERVAL_PRICE * max(scale, 1.0), CORE_PRICE * (core or 0.0))
    penalty = part * price * np.log2((ends[:, 1] - ends[:, 0]) / (high - low))
    return ends, cell_counts(values, low, high, clip=True).inside(ends) - whole_penalty(penalty)


def buy_number(values: Values, *, eps: float, random: RandomSource) -> int:
    """About how many values are finite, with eps-differential privacy for both adjacencies: a row has one or none."""
    number = np.array([finite_rows(values).total(_number, operator.add)], dtype=np.int64)
    return int(noisy_integers(number, 1, eps, random)[0])


def _number(blocks: Iterable[Array]) -> int:
    return sum(map(len, blocks))


def count_candidates(high: float) -> Array:
    """Candidate greatest counts, increasing to `high`: four whole numbers a doubling, at least 1."""
    steps = np.floor(high * 2.0 ** (-np.arange(400) / 4))
    return np.unique(np.append(steps[(steps >= 1) & (steps < high)], high))


def count_scores(blocks: Rows[Array] | Sequence[Array], candidates: Array, price: float) -> NDArray[np.int64]:
    """Minus the rows above each candidate, less `price` for each doubling of it; shape (k,)."""
    above = as_rows(blocks).total(partial(_counts_above, candidates), operator.add)
    cost = np.minimum(price * np.log2(candidates / candidates[0]), LARGEST_PENALTY)
    return -above - np.rint(cost).astype(np.int64)


def _counts_above(candidates: Array, blocks: Iterable[Array]) -> NDArray[np.int64]:
    """How many of some values lie above each candidate."""
    above = np.zeros(len(candidates), dtype=np.int64)
    for block in blocks:
        above += len(block) - np.searchsorted(np.sort(block), candidates, side="right")
    return above


def buy_reach(values: Values, high: float, *, eps: float, random: RandomSource) -> float:
    """Choose a count that few of the values exceed, at most `high`, with eps-differential privacy for both adjacencies.

    Parameters
    ----------
    values : ndarray, shape (rows,), or Rows or sequence of such blocks
        Values that are not finite count for nothing.
    high : float
        Public.
    eps : float
        Spent whatever the values are.
    random : RandomSource

    Returns
    -------
    float
        One of `count_candidates`.
    """
    candidates = count_candidates(high)
    # A row that is replaced moves all scores in one direction too, so that both notions need the same noise.
    scale = noise_scale(eps, "add_remove")
    scores = count_scores(finite_rows(values), candidates, REACH_PRICE * max(scale, 1.0))
    return float(candidates[noisy_argmax(scores, scale, random, monotone=True)])


def likely_reach(values: Array, high: float, *, rows: float, eps: float, share: float | None = None) -> float:
    """The mean of what `buy_reach` buys of rows like public `values`, or what a `share` of purchases do not exceed.

    Between candidates too, so that it hardly moves with the rows and eps.
    """
    candidates, scale = count_candidates(high), noise_scale(eps, "add_remove")
    above = rows / len(values) * _counts_above(candidates, [values])
    chances = choice_chances(-above - REACH_PRICE * max(scale, 1.0) * np.log2(candidates / candidates[0]), scale)
    if share is None:
        return float(chances @ candidates)
    reach = float(np.exp2(np.interp(share, np.cumsum(chances) - chances / 2, np.log2(candidates))))
    return min(reach, high)


def mean_parts(blocks: Rows[Array] | Sequence[Array], most: float) -> NDArray[np.int64]:
    """The sum of the values, clipped to [0, most], and that of what they lack of `most`; in parts of `most`."""
    return as_rows(blocks).total(partial(_mean_parts, most), operator.add)


def _mean_parts(most: float, blocks: Iterable[Array]) -> NDArray[np.int64]:
    total = np.zeros(2, dtype=np.int64)
    for block in blocks:
        parts = np.rint(np.clip(block, 0, most) / most * MEAN_UNITS).astype(np.int64)
        total += np.array([parts.sum(), (MEAN_UNITS - parts).sum()])
    return total


def buy_mean(values: Values, most: float, *, eps: float, adjacency: Adjacency, random: RandomSource) -> float:
    """The mean of counts clipped to [0, most], with eps-differential privacy.

    Parameters
    ----------
    values : ndarray, shape (rows,), or Rows or sequence of such blocks
    most : float
        Public, positive.
    eps : float
        Spent whatever the values are.
    adjacency : {"add_remove", "replace_one"}
    random : RandomSource

    Returns
    -------
    float
        Strictly between 0 and `most`.
    """
    sensitivity = MEAN_UNITS * (1 if adjacency == "add_remove" else 2)
    above, below = _noisy_sums(mean_parts(finite_rows(values), most), sensitivity, eps, random)
    return float(most * (above / (above + below)))


def weighted_mean_parts(most: float, blocks: Iterable[tuple[Array, Array]]) -> NDArray[np.int64]:
    """As `mean_parts` for some rows of (values, weights), both sums times the weights; a row adds one unit at most."""
    total = np.zeros(2, dtype=np.int64)
    for values, weights in blocks:
        most_parts = np.rint(np.clip(weights, 0, 1) * MEAN_UNITS).astype(np.int64)
        parts = np.rint(np.clip(values, 0, most) / most * most_parts).astype(np.int64)
        total += np.array([parts.sum(), (most_parts - parts).sum()])
    return total


def rate_parts(most: float, blocks: Iterable[tuple[Array, Array, Array]]) -> NDArray[np.int64]:
    """The sums of w y / most and of w t for some rows of (values y, weights w, exposures t), in `MEAN_UNITS`."""
    total = np.zeros(2, dtype=np.int64)
    for values, weights, exposures in blocks:
        parts = np.clip(weights, 0, 1) * MEAN_UNITS
        events, time = np.clip(values, 0, most) / most, np.clip(exposures, 0, 1)
        total += np.array([np.rint(parts * of).astype(np.int64).sum() for of in (events, time)])
    return total


def buy_weighted_mean(
    rows: Rows[tuple[Array, Array]], most: float, *, eps: float, adjacency: Adjacency, random: RandomSource
) -> float:
    """As `buy_mean`, of rows (values, weights) with weights within [0, 1]."""
    sensitivity = MEAN_UNITS * (1 if adjacency == "add_remove" else 2)
    above, below = _noisy_sums(rows.total(partial(weighted_mean_parts, most), operator.add), sensitivity, eps, random)
    return float(most * (above / (above + below)))


def buy_rate(rows: Rows[tuple[Array, Array, Array]], most: float, *, eps: float, random: RandomSource) -> float:
    """The sum of counts clipped to [0, most] over that of exposures, with eps-differential privacy.

    Weights and exposures are within [0, 1]; both sums move by one unit at most, whether a row is added, removed or
    replaced.
    """
    events, time = _noisy_sums(rows.total(partial(rate_parts, most), operator.add), 2 * MEAN_UNITS, eps, random)
    return float(most * events / time)


def _noisy_sums(total: NDArray[np.int64], sensitivity: int, eps: float, random: RandomSource) -> Array:
    """Sums with their noise; what cannot be told from it is taken for one standard deviation (post-processing)."""
    deviation = np.sqrt(2) * sensitivity / eps
    return np.maximum(noisy_integers(total, sensitivity, eps, random), deviation)


def likely_sums(total: Sequence[float], sensitivity: int, eps: float, share: float | None = None) -> list[float]:
    """What half of the purchases make of sums of public values in rows, as `_noisy_sums` has it.

    With a `share` the first sum is what so many purchases do not exceed.
    """
    scale = sensitivity / eps
    more = 0.0 if share is None else math.copysign(scale, share - 0.5) * -math.log(2 * min(share, 1 - share))
    first, *others = total
    return [max(one, math.sqrt(2) * scale) for one in (first + more, *others)]

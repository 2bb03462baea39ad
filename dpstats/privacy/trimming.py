"""Where a column's bulk lies: an inner interval of its declared range, chosen privately, outside of which rows go.

Noise follows the range of a column, and what is estimated lives in its spread. Proof and figures: docs/proofs/trimming.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.randomness import RandomSource, noisy_integers
from dpstats.privacy.ranges import CELLS, LARGEST_PENALTY, CellCounts, Values, cell_counts
from dpstats.privacy.selection import (
    PURCHASES,
    STEPS,
    exponential_scale,
    noisy_argmax,
    quantile_choice,
)

WIDTHS = (512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16)
"""Widths of inner intervals in cells of the declared range, of which it has `CELLS`; a quarter of a width apart."""

NARROWEST = WIDTHS[-1] / CELLS
"""The part of a declared range that an inner interval has at least."""

ROWS_A_HALVING = 0.02
"""Share of the rows that an interval half as wide may lose. Settled by the experiment in docs/proofs/trimming."""

ROWS_NEEDED = 60.0
"""Rows away from the atom, in units of the noise scale, below which the full range is kept: noise would choose."""

COUNT_SHARE = 0.1
"""Of the budget, for counting these rows first."""

Array = NDArray[np.float64]


def allowances() -> NDArray[np.int64]:
    """What a row away from the atom adds to the score of each width, in steps of 1/`STEPS` row; increasing."""
    shares = ROWS_A_HALVING * np.log2(CELLS / np.array(WIDTHS))
    return np.rint(STEPS * shares).astype(np.int64)


def score_range() -> int:
    """The most by which an added row raises a score, in steps: 1 + a_max - a_min rows. None falls by one."""
    steps = allowances()
    return STEPS + int(steps[-1] - steps[0])


def trimming_scale(eps: float, adjacency: Adjacency) -> float:
    """The mean of the exponential noise on each score with which the choice is eps-DP, in steps."""
    return exponential_scale(eps, sensitivity=score_range(), monotone=adjacency == "add_remove")


def inner_intervals(low: float, high: float) -> tuple[Array, NDArray[np.intp]]:
    """Ends of the candidates, shape (k, 2), and the position of each in `WIDTHS`, -1 for the first: the full range."""
    cells, widths = _candidates(CELLS, WIDTHS)
    ends = np.linspace(low, high, CELLS + 1)[cells]
    ends[0] = low, high
    return ends, widths


@lru_cache(maxsize=1)
def _candidates(most: int, offered: tuple[int, ...]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """As `inner_intervals`, with ends as positions among the edges of the cells."""
    cells, widths = [(0, most)], [-1]
    for position, width in enumerate(offered):
        starts = (*range(0, most - width, width // 4), most - width)
        cells += [(start, start + width) for start in starts]
        widths += [position] * len(starts)
    return np.array(cells), np.array(widths)


def trimming_scores(
    counts: CellCounts, low: float, high: float, scale: float, *, columns: int = 1
) -> NDArray[np.int64]:
    """The score of each candidate, in steps, shape (k,): the full range's first.

    q(I) = n_in(I) + (a_w - a_min) n* - s ln(N_w columns) and q(full) = n_in(full) - a_min n*, for n* the rows away from
    the atom, N_w the number of intervals of I's width and s the noise scale.
    """
    ends, widths = inner_intervals(low, high)
    steps = allowances()
    share = np.where(widths < 0, -steps[0], steps[widths] - steps[0])
    places = np.bincount(widths[1:])
    penalty = np.where(widths < 0, 0.0, scale * np.log(columns * places[widths]))
    # Whole numbers all along: only the penalty is rounded, which is public.
    cost = np.rint(np.minimum(penalty, LARGEST_PENALTY / 4)).astype(np.int64)
    return np.asarray(counts.inside(ends) * STEPS + share * counts.away - cost)


def buy_inner_interval(
    values: Values,
    low: float,
    high: float,
    *,
    eps: float,
    adjacency: Adjacency,
    random: RandomSource,
    columns: int = 1,
) -> tuple[float, float]:
    """Choose an interval within [low, high] outside of which few of the values lie, with eps-differential privacy.

    Rows are counted first: of few the whole range is kept, which takes no choice and leaves its part of eps unspent.

    Values that are not finite or outside [low, high] count for nothing. The result is the declared range, or a part of
    it of at least 1/64 of its width: narrower only where rows are many, or few are lost. Zero, if the range holds it,
    is an atom: rows there speak for no width. The more `columns` are trimmed for one fit, the less each may lose by
    mischance.
    """
    counts = counts_away(values, low, high)
    away = noisy_away(counts, COUNT_SHARE * eps, random)
    choice_eps = eps - COUNT_SHARE * eps
    return choose_inner_interval(counts, away, choice_eps, adjacency=adjacency, random=random, columns=columns)


def counts_away(values: Values, low: float, high: float) -> CellCounts:
    """The counts of a declared range, of which zero is the atom if it holds it."""
    return cell_counts(values, low, high, atom=0.0 if low <= 0 <= high else None)


def noisy_away(counts: CellCounts, eps: float, random: RandomSource) -> int:
    """About how many rows are away from the atom, with eps-differential privacy for both adjacencies."""
    # A row adds at most one, and one that is replaced moves the count by one at most.
    return int(noisy_integers(np.array([counts.away]), 1, eps, random)[0])


def choose_inner_interval(
    counts: CellCounts, away: float, eps: float, *, adjacency: Adjacency, random: RandomSource, columns: int
) -> tuple[float, float]:
    """The choice of `buy_inner_interval` by itself, for eps, given what was released of the rows `away`."""
    low, high = float(counts.edges[0]), float(counts.edges[-1])
    if not may_narrow(away, eps, adjacency):
        return low, high
    scale = trimming_scale(eps, adjacency)
    scores = trimming_scores(counts, low, high, scale, columns=columns)
    return _candidate(low, high, noisy_argmax(scores, scale, random, monotone=adjacency == "add_remove"))


def may_narrow(away: float, eps: float, adjacency: Adjacency) -> bool:
    """Whether about so many rows away from the atom are enough for a choice that costs eps."""
    return eps > 0 and away * STEPS >= ROWS_NEEDED * trimming_scale(eps, adjacency)


class Choice(NamedTuple):
    """What is released of a column before its interval is chosen, and what the choice costs."""

    away: float  # about how many rows are away from the atom
    eps: float


def priced_choices(
    count: Callable[[int, float], float], columns: int, *, eps: float, most: float, adjacency: Adjacency
) -> tuple[list[Choice], float]:
    """The choice of each of some columns, and what all of them and the counts cost: eps, or else up to `most`.

    `count` gives the number of rows of a column away from the atom for a price. Each column has an equal part of eps
    unless one is short of rows for that: fewer than half of `ENOUGH`, as where most values are zero. Then no choice
    costs more than enough rows take, and a column that is short is counted again, in the order of their rows, for a
    choice by an equal part of what is left of `most`. One that cannot be narrowed costs no more than its counts.
    """
    each = eps / columns
    part, enough = each - COUNT_SHARE * each, (1 - COUNT_SHARE) * ENOUGH * rows_to_narrow(1.0, adjacency, columns)
    choices = [Choice(count(place, COUNT_SHARE * each), part) for place in range(columns)]
    short = [place for place, one in enumerate(choices) if one.away * part < enough / 2]
    if not short:
        return choices, eps
    spent = columns * COUNT_SHARE * each
    for place, one in enumerate(choices):
        if place not in short:
            choices[place] = one._replace(eps=min(part, enough / one.away))
            spent += choices[place].eps
    short.sort(key=lambda place: choices[place].away)
    while short:
        offer = (most - spent) / len(short)
        place = short.pop()
        again = COUNT_SHARE * offer
        if offer - again > part:  # else it has its part, as if no column were short: `most` is eps at least
            away = count(place, again)
            choices[place] = Choice(away, min(offer - again, enough / max(away, 1.0)))
            spent += again
        if not may_narrow(*choices[place], adjacency):
            choices[place] = choices[place]._replace(eps=0.0)
        spent += choices[place].eps
    return choices, spent


def buy_inner_intervals(
    columns: Sequence[CellCounts], *, eps: float, most: float, adjacency: Adjacency, random: RandomSource
) -> tuple[list[tuple[float, float]], float]:
    """An interval for each of some columns, as `buy_inner_interval`, and what all cost together: at most `most`."""

    def count(place: int, price: float) -> float:
        return noisy_away(columns[place], price, random)

    choices, spent = priced_choices(count, len(columns), eps=eps, most=most, adjacency=adjacency)
    how: dict[str, Any] = {"adjacency": adjacency, "random": random, "columns": len(columns)}
    return [choose_inner_interval(one, *two, **how) for one, two in zip(columns, choices, strict=True)], spent


def joint_scale(eps: float, adjacency: Adjacency) -> float:
    """The mean of the exponential noise on each score with which `buy_narrowest` is eps-DP, in steps."""
    return exponential_scale(eps, sensitivity=STEPS + int(allowances()[-1]), monotone=adjacency == "add_remove")


def joint_scores(counts: Sequence[CellCounts], scale: float) -> NDArray[np.int64]:
    """The scores of no interval and of each inner one of each column, in steps, one column after the other.

    That of an interval is n_in(I) + a_w n* - s ln(N_w columns), that of none the number of rows.
    """
    steps, widths = allowances(), _candidates(CELLS, WIDTHS)[1][1:]
    penalty = np.rint(np.minimum(scale * np.log(len(counts) * np.bincount(widths)), LARGEST_PENALTY / 4))
    cost = penalty.astype(np.int64)[widths]
    scores = [one.inside(_inner_ends(one)) * STEPS + steps[widths] * one.away - cost for one in counts]
    return np.concatenate([[int(counts[0].within.sum()) * STEPS], *scores]).astype(np.int64)


def _inner_ends(counts: CellCounts) -> Array:
    """The ends of a range's candidates without the range itself, shape (k, 2)."""
    return inner_intervals(float(counts.edges[0]), float(counts.edges[-1]))[0][1:]


def buy_narrowest(
    counts: Sequence[CellCounts], *, eps: float, adjacency: Adjacency, random: RandomSource
) -> tuple[int, float, float] | None:
    """Choose one column and an interval of its range, of all that `counts` describe, with eps-differential privacy.

    Each range must hold every row. None leaves all ranges as they are (docs/proofs/trimming, 7).
    """
    scale, monotone = joint_scale(eps, adjacency), adjacency == "add_remove"
    chosen = noisy_argmax(joint_scores(counts, scale), scale, random, monotone=monotone) - 1
    if chosen < 0:
        return None
    column, place = divmod(chosen, len(_inner_ends(counts[0])))
    first, last = _inner_ends(counts[column])[place]
    return column, float(first), float(last)


CHOSEN_SHARE = 0.1
"""The most of eps that narrows ranges of chosen columns, by the rows of their fit."""

CHOSEN_FROM, CHOSEN_ALL = 8_000.0, 25_000.0
"""Rows of the fit times eps from which ranges of chosen columns are narrowed, and from which the share falls."""


def rows_that_choose(eps: float, adjacency: Adjacency) -> int:
    """The number of rows from which on a fit of half of them for eps narrows ranges of chosen columns: public."""
    return math.ceil(2 * CHOSEN_FROM * (1 if adjacency == "add_remove" else 2) / eps)


def chosen_share(rows_eps: float, adjacency: Adjacency) -> float:
    """The share of eps that narrows ranges of chosen columns, for so many rows of their fit times eps; 0 for none."""
    rows_eps *= 1.0 if adjacency == "add_remove" else 0.5
    return 0.0 if rows_eps < CHOSEN_FROM else float(f"{CHOSEN_SHARE * min(1.0, CHOSEN_ALL / rows_eps):.2g}")


def likely_interval(
    values: Array,
    low: float,
    high: float,
    *,
    rows: float,
    eps: float,
    adjacency: Adjacency,
    columns: int = 1,
    share: float,
) -> tuple[float, float]:
    """An interval than which a `share` of purchases by `buy_inner_interval` are no wider, of rows like public `values`.

    By draws of the noise: it is the declared range where more than the rest of the purchases find no other.
    """
    count_eps, part = COUNT_SHARE * eps, len(values) / rows
    scale = trimming_scale(eps - count_eps, adjacency) * part
    counts, random = counts_away(values, low, high), np.random.default_rng(0)
    enough = counts.away + random.laplace(0.0, part / count_eps, PURCHASES) >= ROWS_NEEDED * scale / STEPS
    scores = trimming_scores(counts, low, high, scale, columns=columns)
    # All candidates have draws of their own, as when the figures of docs/defaults were measured.
    chosen = np.argmax(scores + random.exponential(scale, (PURCHASES, len(scores))), axis=1) * enough
    widths = np.diff(inner_intervals(low, high)[0], axis=1)[:, 0]
    return _candidate(low, high, quantile_choice(chosen, widths, share))


def _candidate(low: float, high: float, chosen: int) -> tuple[float, float]:
    """The ends of one of `inner_intervals`."""
    first, last = inner_intervals(low, high)[0][chosen]
    # Of a range of few doubles an interval may have none in between.
    return (float(first), float(last)) if first < last else (low, high)


MOST_SHARE, LEAST_SHARE = 0.07, 0.01
"""Of a fit's budget for intervals that a count of its rows decides to buy: the most, and the least where rows are many.

Where the declared ranges are right the most costs three hundredths of the standard errors (docs/proofs/trimming)."""

SHARE_STEP = 0.005
"""The share is a multiple of that."""

ENOUGH, WORTHWHILE = 4.0, 3.4
"""Rows of a column, over those from which a range can be narrowed at all, that a purchase pays for, and from how many
on one is made."""


def share_to_spend(rows_eps: float, adjacency: Adjacency, columns: int) -> float:
    """The share of a fit's budget that buys intervals of some columns, for so many rows times eps; 0 for none."""
    if not columns or rows_eps < rows_that_pay(1.0, adjacency, columns):
        return 0.0
    needed = columns * rows_to_narrow(1.0, adjacency, columns)
    # In whole steps: plans for numbers of rows that hardly differ are the same.
    steps = math.ceil(ENOUGH * needed / rows_eps / SHARE_STEP - 1e-9)
    return min(max(steps * SHARE_STEP, LEAST_SHARE), MOST_SHARE)


def rows_that_pay(eps: float, adjacency: Adjacency, columns: int) -> float:
    """The number of rows from which on a fit for eps buys intervals of some columns: public."""
    return WORTHWHILE * columns * rows_to_narrow(1.0, adjacency, columns) / (MOST_SHARE * eps)


COUNT_MARGIN = 1.08
"""A fit counts its rows with noise: of so many times the rows that pay, nearly all fits buy; of those alone half do."""

PAID_FOR_NEEDED = 1.6
"""A purchase that pays for so many times the rows that a range takes narrows it in nine of ten cases."""

MANY_ZEROS, USUALLY_ENOUGH = 0.9, 2.5
"""Share of zeros in a column for which a reader learns what narrows it, and as `ENOUGH` where nine fits in ten do."""

BOUGHT_EPS = 0.1
"""What a purchase of a range costs in examples, or more where the rows are few."""


def eps_despite_zeros(rows: float, adjacency: Adjacency, columns: int) -> tuple[float, float]:
    """The eps from which a fit of so many rows usually narrows a column of `MANY_ZEROS`, and `buy_ranges` of it alone.

    As in `priced_choices` each other column costs what is enough, and this one what is left.
    """
    own = USUALLY_ENOUGH / (1 - MANY_ZEROS)
    fit = (ENOUGH * (columns - 1) + own) * rows_to_narrow(1.0, adjacency, columns) / (MOST_SHARE * rows)
    alone = own * rows_to_narrow(1.0, adjacency) / rows
    return fit, max(alone, BOUGHT_EPS)


def usually_narrows(outside: Mapping[int, float], adjacency: Adjacency, columns: int, paid: float = WORTHWHILE) -> bool:
    """Whether a fit that buys intervals usually narrows a range, from the share of rows outside parts of it.

    Keys are the widths of these parts in eighths of the range. The fit pays for so many times `rows_to_narrow`, and
    the rows outside a part take as much off what its width may lose.
    """
    scale, needed = trimming_scale(1 - COUNT_SHARE, adjacency) / STEPS, math.inf
    for eighths, share in outside.items():
        width = CELLS * eighths // 8
        left = ROWS_A_HALVING * math.log2(CELLS / width) - share
        if left > 0:
            needed = min(needed, scale * math.log(columns * ((CELLS - width) // (width // 4) + 1)) / left)
    return PAID_FOR_NEEDED * needed <= paid * rows_to_narrow(1.0, adjacency, columns)


def rows_to_narrow(eps: float, adjacency: Adjacency, columns: int = 1) -> float:
    """The number of rows below which no inner interval is likely to be chosen, whatever the values are: public."""
    steps, scale = allowances(), trimming_scale((1 - COUNT_SHARE) * eps, adjacency)
    if not math.isfinite(scale):
        return math.inf
    _, widths = _candidates(CELLS, WIDTHS)
    won = scale * np.log(columns * np.bincount(widths[1:])) / steps
    return max(float(np.min(won)), ROWS_NEEDED * scale / STEPS)

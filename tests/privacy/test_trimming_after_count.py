"""The exact law of a count of rows and of the interval that it decides to buy (docs/proofs/adaptive, Theorem 2)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from selection_law import probabilities

import dpstats as dp
from dpstats.privacy import trimming
from dpstats.privacy.trimming import (
    cell_counts,
    eps_despite_zeros,
    rows_that_pay,
    share_to_spend,
    trimming_scale,
    trimming_scores,
)


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty-nine intervals of [-2, 2], which few rows are enough to choose among."""
    monkeypatch.setattr(trimming, "CELLS", 16)
    monkeypatch.setattr(trimming, "WIDTHS", (12, 8, 4))
    monkeypatch.setattr(trimming, "ROWS_A_HALVING", 0.4)
    monkeypatch.setattr(trimming, "ROWS_NEEDED", 1.0)


COUNT_EPS, EPS = 0.5, 40.0
COUNTS = range(-20, 41)


def joint_law(cells: tuple[float, ...], *, of_true_rows: bool = False) -> NDArray[np.float64]:
    """Logarithms of the exact probabilities of each noisy number of rows and each interval, shape (counts, intervals).

    The count in each purchase is left out: with `ROWS_NEEDED` it is a further release of its own part.
    """
    law = np.full((len(COUNTS), len(trimming.inner_intervals(-2.0, 2.0)[0])), -np.inf)
    for at, count in enumerate(COUNTS):
        share = share_to_spend(EPS * (len(cells) if of_true_rows else count), "add_remove", 1)
        law[at] = np.log(np.tanh(COUNT_EPS / 2)) - COUNT_EPS * abs(count - len(cells))
        if not share:
            law[at, 1:] = -np.inf
            continue
        scale = trimming_scale(share * EPS, "add_remove")
        scores = trimming_scores(cell_counts([np.array(cells)], -2.0, 2.0), -2.0, 2.0, scale)
        law[at] += np.log(probabilities(scores, scale))
    return law


def worst(**settings: bool) -> NDArray[np.float64]:
    """The greatest log-ratio for each number of rows that may be released, over some neighbours."""
    least = int(rows_that_pay(EPS, "add_remove", 1))  # so many do not, one more does
    many, sizes = tuple(np.linspace(-0.4, 0.4, least)), (3, least)
    laws = [joint_law((*many[:size], *more), **settings) for size in sizes for more in ((), (0.1,), (1.9,))]
    found = np.zeros(len(COUNTS))
    for first in range(0, len(laws), 3):
        for one, other in ((first, first + 1), (first, first + 2), (first + 1, first), (first + 2, first)):
            with np.errstate(invalid="ignore"):
                ratios = np.where(np.isneginf(laws[one]), -np.inf, laws[one] - laws[other])
            found = np.maximum(found, ratios.max(axis=1))
    return found


@pytest.mark.usefixtures("few_candidates")
def test_count_and_choice_together_cost_what_they_are_charged() -> None:
    """Theorem 2 of docs/proofs/adaptive, exactly: for each number that is released the choice has its own price."""
    shares = np.array([share_to_spend(EPS * count, "add_remove", 1) for count in COUNTS])
    assert {0.0} < {*shares}
    assert len({*shares}) > 3
    loss = worst()
    assert (loss <= COUNT_EPS + shares * EPS + 1e-9).all()
    assert loss.max() > COUNT_EPS + 0.3 * EPS * shares.max()


@pytest.mark.usefixtures("few_candidates")
def test_a_purchase_that_follows_the_true_number_of_rows_is_caught() -> None:
    """The planted bug: the number of rows itself decides; where it begins to pay, one row makes intervals possible."""
    assert np.isinf(worst(of_true_rows=True)).any()


def test_the_eps_that_is_named_for_many_zeros_buys_a_narrower_range_and_a_third_of_it_does_not() -> None:
    """Of 40 purchases for a column of which nine in ten are 0 all, 30 of half of the eps, and 4 of .35 of it."""
    rows, (_, eps), narrowed = 5_000, eps_despite_zeros(5_000, "add_remove", 1), []
    for part in (1.0, 0.35):
        found = []
        for seed in range(40):
            random = np.random.default_rng(seed)
            frame = pd.DataFrame({"x": np.where(random.random(rows) < 0.9, 0, random.uniform(0, 12, rows))})
            bought = dp.buy_ranges(frame, ["x"], eps=part * eps, domain={"x": (0, 100)}, seed=seed).domain["x"]
            found.append(isinstance(bought, dp.Range) and bought.interval[1] < 50)
        narrowed.append(sum(found))
    assert narrowed[0] >= 36
    assert narrowed[1] <= 12

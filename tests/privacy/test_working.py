"""What is bought of a response: exact guarantees on small data, and what comes out on any data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats
from selection_law import probabilities

from dpstats.data import MemoryRows
from dpstats.privacy import randomness, ranges
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.randomness import RandomSource, SystemRandom
from dpstats.privacy.ranges import (
    MEAN_UNITS,
    buy_interval,
    buy_mean,
    buy_number,
    buy_rate,
    buy_reach,
    buy_weighted_mean,
    count_candidates,
    count_scores,
    likely_reach,
    likely_response_interval,
    mean_parts,
    noise_scale,
    overlapping_intervals,
)
from dpstats.privacy.selection import PURCHASES, choice_chances, likely_choices

CELLS = (-2.0, 0.0, 0.4, 1.0, 1.5, 3.0, 4.0, 7.0, 9.0)
ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")


def neighbours(adjacency: Adjacency, rows: int) -> Iterator[tuple[list[float], list[float]]]:
    """Every pair of neighbouring data sets with `rows` shared rows."""
    for shared in combinations_with_replacement(CELLS, rows):
        for cell in CELLS:
            if adjacency == "add_remove":
                yield [*shared], [*shared, cell]
                yield [*shared, cell], [*shared]
            else:
                yield from (([*shared, cell], [*shared, other]) for other in CELLS)


def reach_loss(adjacency: Adjacency, scale: float) -> float:
    """The largest log-ratio of the exact laws of the reach, over all neighbours of up to three rows."""
    candidates = count_candidates(8.0)

    def law(data: list[float]) -> NDArray[np.float64]:
        return probabilities(count_scores([np.array(data)], candidates, 1.0), scale)

    pairs = [pair for rows in (0, 1, 2) for pair in neighbours(adjacency, rows)]
    return max(float(np.max(np.log(law(data) / law(other)))) for data, other in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("eps", [0.2, 2.0])
def test_the_reach_spends_its_epsilon(adjacency: Adjacency, eps: float) -> None:
    """Under either notion with the smaller noise: one row moves all scores in one direction."""
    assert 0.3 * eps < reach_loss(adjacency, noise_scale(eps, "add_remove")) <= eps * (1 + 1e-9)


@pytest.mark.slow
def test_half_the_noise_of_the_reach_is_caught() -> None:
    """Planted: sensitivity halved."""
    for adjacency in ADJACENCIES:
        assert reach_loss(adjacency, noise_scale(1.0, "add_remove") / 2) > 1.2


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_number_of_rows_spends_its_epsilon(adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row moves it by one at most under either notion, and the noise is for that: the law's ratio is e^eps."""
    asked: list[tuple[int, int, float]] = []

    def noted(values: NDArray[np.int64], sensitivity: int, eps: float, _: RandomSource) -> NDArray[np.int64]:
        asked.append((int(values[0]), sensitivity, eps))
        return values

    monkeypatch.setattr(ranges, "noisy_integers", noted)
    cells = [[*one, math.nan, math.inf] for pair in neighbours(adjacency, 2) for one in pair]
    for data in cells:
        assert buy_number(np.array(data), eps=0.25, random=np.random.default_rng(0)) == len(data) - 2
    for (number, sensitivity, eps), (other, *_) in zip(asked[::2], asked[1::2], strict=True):
        assert abs(number - other) <= sensitivity == 1
        assert eps == 0.25
    missing = [buy_number(np.array([1.0, one]), eps=0.25, random=np.random.default_rng(0)) for one in (2.0, math.nan)]
    assert missing == [2, 1]  # replaced by a missing cell


def test_the_number_of_rows_is_noisy() -> None:
    """200 draws of a discrete Laplace law of scale 4, of standard deviation 5.6: off by 4 errors in 1 of 5,000."""
    random = np.random.default_rng(1)
    drawn = [buy_number(np.zeros(50), eps=0.25, random=random) for _ in range(200)]
    assert abs(np.std(drawn) - 5.6) < 1.8
    assert abs(np.mean(drawn) - 50) < 1.6


class Recorded(Exception):
    """Carries the scores and the scale of a selection out of the mechanism."""


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_interval_spends_its_epsilon(adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact loss of the whole purchase, its scores taken from `buy_interval` itself."""

    def record(scores: NDArray[np.int64], scale: float, *_: object, **__: object) -> int:
        raise Recorded(scores, scale)

    monkeypatch.setattr(ranges, "noisy_argmax", record)
    monkeypatch.setattr(ranges, "overlapping_intervals", lambda *given: overlapping_intervals(*given)[::9])

    def law(data: list[float], eps: float, shrunk: float = 1.0) -> NDArray[np.float64]:
        with pytest.raises(Recorded) as caught:
            buy_interval(np.array(data), 0.0, 8.0, eps=eps, adjacency=adjacency, random=SystemRandom())
        scores, scale = caught.value.args
        return probabilities(scores, scale * shrunk)

    pairs = [pair for rows in (0, 1) for pair in neighbours(adjacency, rows)]
    losses = [
        [float(np.max(np.log(law(data, 1.0, shrunk) / law(other, 1.0, shrunk)))) for data, other in pairs]
        for shrunk in (1.0, 0.5)
    ]
    assert 0.3 < max(losses[0]) <= 1 + 1e-9
    assert max(losses[1]) > 1.05  # planted: half the noise


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_mean_spends_its_epsilon(adjacency: Adjacency) -> None:
    """The log-ratio of two discrete Laplace laws is at most, and far out exactly, their l1 distance over the scale."""
    furthest = 0
    for rows in (0, 1, 2):
        for data, other in neighbours(adjacency, rows):
            apart = mean_parts([np.array(data)], 4.0) - mean_parts([np.array(other)], 4.0)
            furthest = max(furthest, int(np.abs(apart).sum()))
    assert furthest == MEAN_UNITS * (1 if adjacency == "add_remove" else 2)


@given(eps=st.floats(1e-6, 1e3), sensitivity=st.sampled_from([MEAN_UNITS, 2 * MEAN_UNITS]))
@settings(max_examples=50)
def test_opendp_certifies_the_mean(eps: float, sensitivity: int) -> None:
    """The measurement that `noisy_integers` ends with, by OpenDP's own map."""
    import opendp.prelude as opendp

    seen = []
    make = opendp.m.make_laplace

    def recorded(*space: object, scale: float) -> object:
        seen.append(make(*space, scale=scale))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(randomness, "make_laplace", recorded)
        randomness.noisy_integers(np.array([3, 5]), sensitivity, eps, SystemRandom())
    assert 0.999 * eps <= seen[-1].map(sensitivity) <= eps


def test_opendp_and_seeded_integers_follow_one_law() -> None:
    """Kolmogorov-Smirnov at level 1e-6 on a scale where the lattice is fine; OpenDP's draws cannot be seeded."""
    zeros = np.zeros(3000, dtype=np.int64)
    for random in (SystemRandom(), np.random.default_rng(3)):
        drawn = randomness.noisy_integers(zeros, 1024, 0.5, random)
        assert stats.kstest(drawn / 2048, "laplace").pvalue > 1e-6


@pytest.mark.slow
@given(
    values=arrays(np.float64, st.integers(0, 40), elements=st.floats(allow_nan=True, allow_infinity=True)),
    eps=st.sampled_from([1e-6, 0.1, 1.0, 1e6]),
    adjacency=st.sampled_from(ADJACENCIES),
)
@settings(max_examples=60)
def test_any_values_give_something_usable(values: NDArray[np.float64], eps: float, adjacency: Adjacency) -> None:
    sources: tuple[RandomSource, ...] = (SystemRandom(), np.random.default_rng(0))
    for random in sources:
        low, high = buy_interval(values, -3.0, 5.0, eps=eps, adjacency=adjacency, random=random)
        assert -3 <= low < high <= 5
        for most in (0.3, 1.0, 100.0):
            reach = buy_reach(values, most, eps=eps, random=random)
            assert 0 < reach <= most
            assert 0 < buy_mean(values, reach, eps=eps, adjacency=adjacency, random=random) < reach


def test_plentiful_rows_are_described_well() -> None:
    """Twenty seeded purchases each, in wide margins."""
    random = np.random.default_rng(1)
    bell, counts = random.normal(3, 0.5, 20_000), random.poisson(0.4, 20_000).astype(float)
    for seed in range(20):
        source = np.random.default_rng(seed)
        low, high = buy_interval(bell, -20.0, 30.0, eps=0.2, adjacency="add_remove", random=source)
        assert low < 2.5
        assert high > 3.5
        assert high - low <= 25
        assert 1 <= buy_reach(counts, 100.0, eps=0.2, random=source) <= 8
        mean = buy_mean(counts, 4.0, eps=0.2, adjacency="add_remove", random=source)
        assert mean == pytest.approx(0.4, abs=0.1)


def test_candidates_of_the_reach() -> None:
    assert count_candidates(0.5).tolist() == [0.5]
    assert count_candidates(9.0).tolist() == [1, 2, 3, 4, 5, 6, 7, 9]
    found = count_candidates(1000.0)
    assert found[0] == 1
    assert found[-1] == 1000
    assert np.all(found[1:] / found[:-1] <= 2)


@pytest.mark.parametrize("price", [1e16, 1e18, 1e20, 1e300])
def test_no_price_makes_a_score_wrap_around(price: float) -> None:
    """Integers of 64 bits: beyond them one row would move a score by 2^64."""
    candidates = count_candidates(1e5)
    few, more = (count_scores([np.full(rows, 1e5)], candidates, price) for rows in (3, 4))
    assert np.abs(few - more).max() == 1


class TestWhatIsPaidFor:
    """The noise of a purchase is what its sums need: a factor of two in one direction is seen, and in the other."""

    MOST = 5.0
    ROWS = ((0.0, 1.0, 1.0), (5.0, 1.0, 0.0), (5.0, 1.0, 1.0), (0.0, 1.0, 0.0), (2.0, 0.5, 0.3), (3.0, 0.0, 1.0))

    def bought(self, kind: str, rows: list[tuple[float, float, float]], adjacency: Adjacency) -> None:
        columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0)] * 3
        common = {"eps": 0.7, "random": np.random.default_rng(0)}
        if kind == "mean":
            buy_mean(columns[0], self.MOST, adjacency=adjacency, **common)  # type: ignore[arg-type]
        elif kind == "weighted":
            pair: MemoryRows[tuple[NDArray[np.float64], NDArray[np.float64]]] = MemoryRows([(columns[0], columns[1])])
            buy_weighted_mean(pair, self.MOST, adjacency=adjacency, **common)  # type: ignore[arg-type]
        else:
            triple: MemoryRows[tuple[NDArray[np.float64], ...]] = MemoryRows([tuple(columns)])
            buy_rate(triple, self.MOST, **common)  # type: ignore[arg-type]

    @pytest.mark.parametrize("kind", ["mean", "weighted", "rate"])
    @pytest.mark.parametrize("adjacency", ADJACENCIES)
    def test_it_is_what_a_row_can_change(
        self, kind: str, adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[tuple[NDArray[np.int64], int, float]] = []

        def spied(total: NDArray[np.int64], sensitivity: int, eps: float, random: RandomSource) -> NDArray[np.int64]:
            seen.append((total.copy(), sensitivity, eps))
            return total + MEAN_UNITS

        monkeypatch.setattr(ranges, "noisy_integers", spied)
        shared = [self.ROWS[4]]
        if adjacency == "add_remove":
            pairs = [(shared, [*shared, row]) for row in self.ROWS]
        else:
            pairs = [([*shared, row], [*shared, other]) for row in self.ROWS for other in self.ROWS]
        moved = 0
        for data, other in pairs:
            seen.clear()
            self.bought(kind, data, adjacency)
            self.bought(kind, other, adjacency)
            (one, sensitivity, eps), (two, _, _) = seen
            assert eps == 0.7
            moved = max(moved, int(np.abs(one - two).sum()))
        assert moved == sensitivity


def test_forecasts_of_purchases_are_quantiles_of_them() -> None:
    """Of 400 purchases, of public rows that are half as many as those forecast, less five deviations each way.

    False alarm < 1e-4, seeds being fixed.
    """
    random = np.random.default_rng(4)
    bell, skewed = random.normal(20, 10, 4000), random.negative_binomial(0.5, 0.3, 4000).astype(float)
    reached, widths = [], []
    for _ in range(400):
        reached.append(buy_reach(np.tile(skewed, 2), 60, eps=0.02, random=random))
        ends = buy_interval(np.tile(bell, 2), -100, 100, eps=0.02, adjacency="replace_one", random=random)
        widths.append(ends[1] - ends[0])
    assert abs(likely_reach(skewed, 60, rows=8000, eps=0.02) - np.mean(reached)) < 5 * np.std(reached) / 20
    for share in (0.5, 0.9, 0.99):
        reach = likely_reach(skewed, 60, rows=8000, eps=0.02, share=share)
        ends = likely_response_interval(bell, -100, 100, rows=8000, eps=0.02, adjacency="replace_one", share=share)
        slack = 5 * np.sqrt(share * (1 - share) * 2 / 400)
        # Between two candidates: a candidate further on each side decides.
        assert np.mean(np.array(reached) <= found_next(60, reach, 1)) >= share - slack
        assert np.mean(np.array(reached) < found_next(60, reach, -1)) <= share + slack
        width = ends[1] - ends[0]
        assert np.mean(np.array(widths) <= width * (1 + 1e-9)) >= share - slack
        assert np.mean(np.array(widths) < width * (1 - 1e-9)) <= share + slack


def found_next(high: float, reach: float, way: int) -> float:
    """The candidate count at `reach` or next to it, above or below."""
    candidates = count_candidates(high)
    return float(candidates[candidates >= reach - 1e-9][0] if way > 0 else candidates[candidates <= reach + 1e-9][-1])


def test_chances_of_a_choice_are_shares_of_draws() -> None:
    """Of 2,000 draws, each within five standard errors (false alarm < 1e-4), and near ties among 200 candidates."""
    scores = np.array([0, -3, -40, -8, -8, -900])
    drawn = np.bincount(likely_choices(scores, 7.0, np.random.default_rng(0)), minlength=6) / PURCHASES
    chances = choice_chances(scores.astype(float), 7.0)
    assert np.all(np.abs(drawn - chances) <= 5 * np.sqrt(chances * (1 - chances) / PURCHASES))
    assert chances[-1] == 0
    assert np.isclose(chances.sum(), 1, atol=1e-12)
    assert np.allclose(choice_chances(np.zeros(200), 3.0), 1 / 200)


def test_the_forecast_greatest_count_moves_smoothly_with_rows_and_eps() -> None:
    """A step of 2 % moves it by less than 2 %, and its noise over the information never grows with the rows."""
    counts = np.random.default_rng(4).negative_binomial(0.5, 0.15, 16_384).astype(float)
    rows = 4000 * 1.02 ** np.arange(150)
    for share in (None, 0.5, 0.99):
        reach = np.array([likely_reach(counts, 80, rows=n, eps=0.02, share=share) for n in rows])
        assert np.all(np.abs(np.diff(np.log(reach))) < 0.02)
        assert np.all(np.diff(reach / rows) < 0)

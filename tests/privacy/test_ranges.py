"""The purchase of ranges: its guarantee, exactly, on small data; and its behaviour on any data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats
from selection_law import neighbours, probabilities

import dpstats as dp
from dpstats.errors import ArgumentError, DataError
from dpstats.privacy import ranges
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.ranges import (
    buy_range,
    check_range_eps,
    coarse_intervals,
    fine_intervals,
    interval_scores,
    noise_scale,
)
from dpstats.privacy.selection import noisy_argmax, noisy_max

EDGES = np.array([-1.0, 0.0, 0.5, 2.0])
ENDS = np.array([(low, high) for low in EDGES for high in EDGES if low < high])
CELLS = (-3.0, -1.0, -0.2, 0.0, 0.3, 0.5, 1.0, 2.0, 9.0, np.nan)
ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")


def scores_of(cells: tuple[float, ...]) -> NDArray[np.int64]:
    values = np.array(cells, dtype=float)
    return interval_scores([values[np.isfinite(values)]], ENDS, 1.5 * np.log2(1 + ENDS[:, 1] - ENDS[:, 0]))


def worst_loss(adjacency: Adjacency, scale: float) -> float:
    """The largest log-ratio of the exact laws over all neighbours of up to three rows."""
    losses = [
        np.max(np.log(probabilities(scores_of(data), scale) / probabilities(scores_of(other), scale)))
        for rows in (0, 1, 2)
        for data, other in neighbours(CELLS, adjacency, rows)
    ]
    return float(max(losses))


def test_exact_law_matches_brute_force() -> None:
    """The quadrature against a million seeded draws; 5 standard errors on 4 cells: false alarms below 1e-5."""
    scores = np.array([0, -1, -3, 1])
    random = np.random.default_rng(3)
    draws = np.argmax(scores + random.exponential(2.0, (1_000_000, 4)), axis=1)
    law = probabilities(scores, 2.0)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    shares = np.bincount(draws, minlength=4) / 1e6
    assert np.all(np.abs(shares - law) < 5 * np.sqrt(law * (1 - law) / 1e6))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("eps", [0.1, 1.0, 3.0])
def test_one_selection_spends_its_epsilon(adjacency: Adjacency, eps: float) -> None:
    loss = worst_loss(adjacency, noise_scale(eps, adjacency))
    assert 0.3 * eps < loss <= eps * (1 + 1e-9)


@pytest.mark.slow
def test_forgotten_replacement_sensitivity_is_caught() -> None:
    """Planted: the add_remove noise under replace_one."""
    assert worst_loss("replace_one", noise_scale(1.0, "add_remove")) > 1.05


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_neighbouring_scores_move_as_declared(adjacency: Adjacency) -> None:
    """Lemma 1 of the proof: by at most one, and in one direction when a row is added or removed."""
    for data, other in neighbours(CELLS, adjacency, 2):
        change = scores_of(other) - scores_of(data)
        assert np.abs(change).max() <= 1
        if adjacency == "add_remove":
            assert change.min() >= 0 or change.max() <= 0


@given(eps=st.floats(1e-9, 1e3), adjacency=st.sampled_from(ADJACENCIES))
@settings(max_examples=200)
def test_opendp_certifies_what_is_charged(eps: float, adjacency: Adjacency) -> None:
    loss = noisy_max(noise_scale(eps / 2, adjacency), monotone=adjacency == "add_remove").map(1)
    assert 0.999 * eps <= 2 * loss <= eps


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_opendp_and_seeded_selection_follow_the_exact_law(adjacency: Adjacency) -> None:
    """Chi-square at level 1e-6 for each of four samples; OpenDP's cannot be seeded."""
    scores, runs = np.array([2, 0, 1, -2, 2]), 4_000
    random = np.random.default_rng(11)
    law = probabilities(scores, 2.0)
    for source in (random, ranges.SystemRandom()):
        picks = [noisy_argmax(scores, 2.0, source, monotone=adjacency == "add_remove") for _ in range(runs)]
        assert stats.chisquare(np.bincount(picks, minlength=5), runs * law).pvalue > 1e-6


@pytest.mark.slow
@given(
    values=arrays(np.float64, st.integers(0, 50), elements=st.floats(allow_nan=True, allow_infinity=True)),
    eps=st.sampled_from([1e-300, 1e-6, 0.1, 1.0, 1e6]),
    adjacency=st.sampled_from(ADJACENCIES),
)
@settings(max_examples=150)
def test_any_values_give_a_finite_range(values: NDArray[np.float64], eps: float, adjacency: Adjacency) -> None:
    for random in (None, np.random.default_rng(0)):
        low, high = buy_range(values, eps=eps, adjacency=adjacency, random=random)
        assert np.isfinite([low, high]).all()
        assert low < high


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (np.tile(np.arange(17.0, 91.0), 500), 17, 90),
        (np.tile(np.arange(1990, 2021), 1000), 1990, 2020),
        (np.tile([False, True], 10_000), 0, 1),
        (np.linspace(-1e-3, 2e-3, 30_000), -1e-3, 2e-3),
        (np.full(20_000, 7.0), 7, 7),
    ],
)
def test_plentiful_rows_give_a_close_range(values: NDArray[np.generic], low: float, high: float) -> None:
    """Twenty seeded purchases at eps = 1; wide margins, so that a right mechanism never fails by luck here."""
    for seed in range(20):
        found = buy_range(values, eps=1.0, random=np.random.default_rng(seed))
        inside = np.mean((values >= found[0]) & (values <= found[1]))
        assert inside > 0.99
        assert found[1] - found[0] < 12 * max(high - low, 0.3)


COMMON = {
    "four zeros in five": (np.repeat([0, 1, 2, 3, 5], [8000, 900, 700, 300, 100]), 0, 3),
    "one one in ten": (np.repeat([0, 1], [9000, 1000]), 0, 1),
    "one two in ten": (np.repeat([1, 2], [9000, 1000]), 1, 2),
    "four in five at the top": (np.repeat([12, 3, 6, 9], [8000, 700, 700, 600]), 3, 12),
}


@pytest.mark.parametrize("name", COMMON)
def test_a_common_value_does_not_swallow_the_range(name: str) -> None:
    """Forty seeded purchases where rows times eps is 500; before, a range of 0 to 0.03 was common here."""
    values, low, high = COMMON[name]
    for seed in range(40):
        found = buy_range(values, eps=500 / len(values), random=np.random.default_rng(seed))
        assert found[0] <= low + 0.26 * (high - low)
        assert found[1] >= high - 0.26 * (high - low)
        assert found[1] - found[0] <= 10 * (high - low)


def test_candidates_lie_within_and_keep_zero_wide() -> None:
    ends, doublings = coarse_intervals()
    assert np.all(ends[:, 0] < ends[:, 1])
    assert len({tuple(pair) for pair in ends}) == len(ends)
    assert np.all(doublings >= 0)
    for low, high in ((0.0, 16.0), (-4.0, 4.0), (-8.0, 0.0)):
        found = fine_intervals(low, high)
        width, holds_zero = found[:, 1] - found[:, 0], (found[:, 0] <= 0) & (found[:, 1] >= 0)
        assert found.min() == low
        assert found.max() == high
        assert width.min() == pytest.approx((high - low) / 32)
        assert width[holds_zero].min() == pytest.approx((high - low) / 4)


def test_too_small_a_budget_is_refused_with_the_fix() -> None:
    check_range_eps(0.02, ["a"], "add_remove", 10_000)
    check_range_eps(0.002, ["a"], "add_remove", 100_000)
    for eps, adjacency in ((0.019, "add_remove"), (0.039, "replace_one")):
        with pytest.raises(ArgumentError, match=r"Declare ranges of a, b.*range_share.*rows_at_least"):
            check_range_eps(eps, ["a", "b"], adjacency, 10_000)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="'agee' is not declared; the domain declares 'age': did you mean that"):
        check_range_eps(0.001, ["x1", "agee", "x2"], "add_remove", 10_000, ["x1", "age"])
    with pytest.raises(ArgumentError, match="'agee' is not declared; the domain declares 'age': did you mean that"):
        dp.plan("y ~ agee", {"y": (0, 1), "age": (0, 90)}, eps=0.1)


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, np.uint64, np.int8, np.bool_])
def test_extreme_values_of_any_numeric_dtype_pass_silently(dtype: type[np.generic]) -> None:
    """Warnings are errors here, and one that depends on a cell would leak it."""
    kind = np.dtype(dtype).kind
    extreme = [np.finfo(dtype).max, np.finfo(dtype).min, np.inf] if kind == "f" else [0, 1]  # type: ignore[arg-type]
    if kind in "ui":
        extreme += [np.iinfo(dtype).max, np.iinfo(dtype).min]  # type: ignore[arg-type]
    assert np.isfinite(buy_range(np.array(extreme, dtype=dtype), eps=1.0)).all()


def test_blocks_equal_one_array() -> None:
    values = np.random.default_rng(0).normal(size=3_000)
    whole = buy_range(values, eps=1.0, random=np.random.default_rng(5))
    parts = buy_range(np.array_split(values, 7), eps=1.0, random=np.random.default_rng(5))
    assert whole == parts


@pytest.mark.parametrize("values", [np.array(["secret"]), np.array([1 + 2j]), np.zeros((2, 2)), [["secret"]]])
def test_wrong_containers_are_refused_without_quoting_a_cell(values: NDArray[np.generic]) -> None:
    with pytest.raises(DataError) as error:
        buy_range(values, eps=1.0)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("options", [{"eps": 0.0}, {"eps": 5e-324}, {"eps": np.nan}, {"eps": 1.0, "adjacency": "swap"}])
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        buy_range(np.zeros(3), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_all_selections_of_a_range_together_spend_its_epsilon(
    adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by its own noise: what noise buys at eps = 1, over what it has, is the eps of a selection."""
    scales: list[float] = []
    real = ranges.noisy_argmax

    def spied(scores: NDArray[np.int64], scale: float, random: object, *, monotone: bool) -> int:
        assert monotone == (adjacency == "add_remove")
        scales.append(scale)
        return real(scores, scale, random, monotone=monotone)  # type: ignore[arg-type]

    monkeypatch.setattr(ranges, "noisy_argmax", spied)
    buy_range(np.arange(1000.0), eps=0.6, adjacency=adjacency, random=np.random.default_rng(0))
    assert len(scales) == 2
    spent = sum(noise_scale(1.0, adjacency) / scale for scale in scales)
    assert 0.6 * (1 - 1e-6) <= spent <= 0.6 * (1 + 1e-9)

"""The purchase of an inner interval: its guarantee, exactly, on small data; what it loses and gains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from selection_law import neighbours, probabilities

from dpstats.privacy import trimming
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.selection import STEPS, noisy_max
from dpstats.privacy.trimming import (
    allowances,
    buy_inner_interval,
    buy_inner_intervals,
    buy_narrowest,
    cell_counts,
    inner_intervals,
    joint_scale,
    joint_scores,
    likely_interval,
    priced_choices,
    rows_to_narrow,
    score_range,
    trimming_scale,
    trimming_scores,
)

ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")
CELLS = (-9.0, -2.0, -0.9, 0.0, 0.1, 1.4, 2.0, np.nan)


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty-nine intervals of [-2, 2] whose scores move far: by 1 + .4 (log2 4 - log2(4/3)) rows."""
    monkeypatch.setattr(trimming, "CELLS", 16)
    monkeypatch.setattr(trimming, "WIDTHS", (12, 8, 4))
    monkeypatch.setattr(trimming, "ROWS_A_HALVING", 0.4)


def scores_of(cells: tuple[float, ...], scale: float) -> NDArray[np.int64]:
    values = np.array(cells, dtype=float)
    return trimming_scores(cell_counts(values, -2.0, 2.0, atom=0.0), -2.0, 2.0, scale)


def worst_loss(adjacency: Adjacency, scale: float) -> float:
    """The largest log-ratio of the exact laws over all neighbours of up to three rows, and some of sixty."""
    law = {}
    pairs = [pair for rows in (0, 1, 2) for pair in neighbours(CELLS, adjacency, rows)]
    # Here [-2, 1] leads, which the further row leaves alone; it raises the narrow intervals around it by most.
    many = tuple(np.linspace(-2.0, 1.0, 60))
    other = (*many, -2.0) if adjacency == "replace_one" else many
    pairs += [((*many, 1.4), other), (other, (*many, 1.4))]
    for data in {data for pair in pairs for data in pair}:
        law[data] = np.log(probabilities(scores_of(data, scale), scale))
    return float(max(np.max(law[data] - law[other]) for data, other in pairs))


@pytest.mark.slow
@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("eps", [0.3, 3.0])
def test_the_choice_spends_its_epsilon(adjacency: Adjacency, eps: float) -> None:
    loss = worst_loss(adjacency, trimming_scale(eps, adjacency))
    assert 0.5 * eps < loss <= eps * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_scores_taken_for_counts_are_caught(adjacency: Adjacency) -> None:
    """Planted: the noise of scores that move by one row."""
    assert worst_loss(adjacency, trimming_scale(3.0, adjacency) * STEPS / score_range()) > 3.0 * 1.02


@pytest.mark.slow
@pytest.mark.usefixtures("few_candidates")
def test_forgotten_replacement_is_caught() -> None:
    """Planted: the add_remove noise under replace_one."""
    assert worst_loss("replace_one", trimming_scale(3.0, "add_remove")) > 3.0 * 1.05


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_neighbouring_scores_move_as_declared(adjacency: Adjacency) -> None:
    """With all candidates: at most by the declared range, which is attained, and upwards when a row is added."""
    sizes = []
    for cell in (*CELLS, 1e-3, 0.01):
        for other in (np.nan, *CELLS):
            if adjacency == "add_remove" and not np.isnan(other):
                continue
            change = scores_of((0.3, cell), 5.0) - scores_of((0.3, other), 5.0)
            assert adjacency == "replace_one" or change.min() >= 0
            sizes.append(int(np.abs(change).max()))
    assert max(sizes) == score_range()


def test_reference_law() -> None:
    """Scores (10, 9, 7) rows with noise of mean one row (privacy reference, section 12)."""
    assert probabilities(np.array([10, 9, 7]), 1.0) == pytest.approx([0.7973, 0.1809, 0.0218], abs=5e-5)


def test_allowances_grow_with_narrowness() -> None:
    steps = allowances()
    assert np.all(np.diff(steps) > 0)
    assert steps[0] > 0
    assert steps[-1] == round(0.12 * STEPS)


@given(eps=st.floats(1e-6, 1e3), adjacency=st.sampled_from(ADJACENCIES))
@settings(max_examples=100)
def test_opendp_certifies_what_is_charged(eps: float, adjacency: Adjacency) -> None:
    measurement = noisy_max(trimming_scale(eps, adjacency), monotone=adjacency == "add_remove")
    assert 0.999 * eps <= measurement.map(score_range()) <= eps


@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30),
    eps=st.sampled_from([1e-6, 1.0, 1e6]),
    ends=st.sampled_from([(-2.0, 3.0), (0.0, 1e9), (5e5, 5e5 + 1.0)]),
)
@settings(max_examples=60)
def test_any_values_give_a_candidate(values: list[float], eps: float, ends: tuple[float, float]) -> None:
    low, high = buy_inner_interval(
        np.array(values), *ends, eps=eps, adjacency="add_remove", random=np.random.default_rng(1)
    )
    assert ends[0] <= low < high <= ends[1]
    assert [low, high] in inner_intervals(*ends)[0].tolist()


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-1.0, 1.0),
        (0.1, 0.7),
        (0.0, 1024.0),
        (-3.0, 1e9),
        (5e5, 5e5 + 1.0),
        (1e15, 1e15 + 1),
        (0.0, 5e-324),
        (1e-300, 3e-300),
        (2.0**40, 2.0**40 + 2.0**-9),
        (-1e-9, 1e300),
    ],
)
def test_counts_are_those_of_comparisons(low: float, high: float) -> None:
    """Edges, their neighbours among the doubles, values in between, outside and none."""
    random = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        edges = np.linspace(low, high, trimming.CELLS + 1)
        between = low + random.random(20_000) * (high - low)
    values = np.concatenate((edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), between))
    values = np.append(values, [np.nan, np.inf, -np.inf, low, high])
    inside = values[(values >= low) & (values <= high)]
    counts = cell_counts(values, low, high, atom=low)
    within = np.bincount(np.searchsorted(edges, inside, side="right") - 1, minlength=len(edges))
    assert counts.within.tolist() == within.tolist()
    expected = np.array([np.sum(inside == edge) for edge in edges])
    expected[:-1][edges[:-1] == edges[1:]] = 0  # of edges that are one double the last counts
    assert counts.at_edge.tolist() == expected.tolist()
    assert counts.away == np.sum(inside != low)


@pytest.mark.slow
def test_a_range_of_few_doubles_is_kept_whole() -> None:
    """Its cells are points, and no Domain takes an interval of one: what is paid for would be lost."""
    low = 1e15
    bought = [
        buy_inner_interval(
            np.full(5_000, low), low, low + 1, eps=5.0, adjacency="add_remove", random=np.random.default_rng(seed)
        )
        for seed in range(5)
    ]
    assert all(low <= first < last <= low + 1 for first, last in bought)


def test_few_rows_keep_the_declared_range() -> None:
    """At n eps = 1, 3, 10 and 30 at most .01 of purchases lose a row in twenty. 400 draws each: false alarm < 1e-3 if
    the chance is .006, as measured at n eps = 1 and 3; smaller beyond."""
    random = np.random.default_rng(8)
    for rows in (1, 3, 10, 30):
        lost = 0.0
        for _ in range(400):
            values = random.normal(size=rows)
            low, high = buy_inner_interval(values, -10.0, 10.0, eps=1.0, adjacency="add_remove", random=random)
            lost += np.mean((values >= low) & (values <= high)) < 0.95
        assert lost <= 9, rows


@pytest.mark.parametrize("rows_eps", [150, 220, 300])
def test_a_forecast_is_no_narrower_than_what_its_share_of_purchases_find(rows_eps: int) -> None:
    """Half of 200 purchases less five deviations are no wider than what half of them are forecast to be, and so on;
    a step narrower would not do, unless there is none. False alarm < 1e-4."""
    random = np.random.default_rng(4)
    bell, price = random.normal(27, 4.5, 4000), rows_eps / 4000
    drawn = [
        np.subtract(*buy_inner_interval(bell, 12, 70, eps=price, adjacency="add_remove", random=random))
        for _ in range(200)
    ]
    for share in (0.5, 0.9, 0.99):
        found = likely_interval(bell, 12, 70, rows=4000, eps=price, adjacency="add_remove", share=share)
        slack = 5 * np.sqrt(share * (1 - share) * (1 / 200 + 1 / trimming.PURCHASES))
        assert np.mean(np.array(drawn) >= np.subtract(*found) * (1 + 1e-9)) >= share - slack
        assert np.mean(np.array(drawn) > np.subtract(*found) * (1 - 1e-9)) <= share + slack


@pytest.mark.parametrize(("spread", "most"), [(1.0, 0.4), (0.2, 0.08)])
def test_many_rows_narrow_a_wide_range(spread: float, most: float) -> None:
    """A range 20 and 100 times the standard deviation; seeds 0 to 9, all must pass."""
    for seed in range(10):
        random = np.random.default_rng(seed)
        values = random.normal(0.7, spread, size=3000)
        low, high = buy_inner_interval(values, -10.0, 10.0, eps=1.0, adjacency="add_remove", random=random)
        assert high - low <= most * 20
        assert np.mean((values >= low) & (values <= high)) > 0.97


def test_a_column_of_mostly_zeros_keeps_its_tail() -> None:
    """Nineteen rows in twenty at zero: the rest decide alone. Seeds 0 to 9, all must pass."""
    for seed in range(10):
        random = np.random.default_rng(seed)
        values = np.where(random.random(4000) < 0.95, 0.0, random.exponential(1.0, 4000))
        low, high = buy_inner_interval(values, 0.0, 20.0, eps=1.0, adjacency="add_remove", random=random)
        assert np.mean(values[values > 0] <= high) > 0.9
        assert low == 0.0


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_count_and_choice_share_the_budget(adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count of sensitivity 1, then a choice of the rest: together no more than eps."""
    spent: dict[str, float] = {}

    def counted(total: NDArray[np.int64], sensitivity: int, eps: float, random: object) -> NDArray[np.int64]:
        assert sensitivity == 1
        spent["count"] = eps
        return total

    def scaled(eps: float, notion: Adjacency) -> float:
        assert notion == adjacency
        spent["choice"] = eps
        return trimming_scale(eps, notion)

    monkeypatch.setattr(trimming, "noisy_integers", counted)
    monkeypatch.setattr(trimming, "trimming_scale", scaled)
    random = np.random.default_rng(3)
    buy_inner_interval(random.normal(size=5000), -9.0, 9.0, eps=0.7, adjacency=adjacency, random=random)
    assert sum(spent.values()) == pytest.approx(0.7, rel=1e-15)
    assert spent["count"] == pytest.approx(0.07)


def counts_of(cells: tuple[float, ...]) -> int:
    return cell_counts(np.array(cells), -2.0, 2.0, atom=0.0).away


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_count_moves_by_one(adjacency: Adjacency) -> None:
    pairs = neighbours(CELLS, adjacency, 0)
    assert max(abs(counts_of(one) - counts_of(other)) for one, other in pairs) == 1


def test_rows_to_narrow_is_where_narrowing_begins() -> None:
    least = rows_to_narrow(1.0, "add_remove")
    assert least == pytest.approx(10 * rows_to_narrow(10.0, "add_remove"))
    random = np.random.default_rng(2)
    values = random.normal(0, 0.01, size=int(least / 4))
    widths = [
        np.ptp(buy_inner_interval(values, -10.0, 10.0, eps=1.0, adjacency="add_remove", random=random))
        for _ in range(20)
    ]
    assert np.median(widths) == 20.0


def test_fewer_rows_than_sixty_scales_are_never_narrowed() -> None:
    """Nine tenths of eps choose, by a noise scale of 1 + .02 log2(32) rows over that."""
    scale = (1 + 0.02 * np.log2(32)) / 0.9
    assert rows_to_narrow(1.0, "add_remove") == pytest.approx(60 * scale, rel=1e-3)
    assert rows_to_narrow(1.0, "replace_one") == pytest.approx(120 * scale, rel=1e-3)


PAIRS = ((-2.0, -2.0), (-0.9, 1.4), (0.0, 0.0), (0.1, 0.1), (2.0, 0.1))
"""Rows of two columns, each within its range."""


def worst_joint_loss(adjacency: Adjacency, scale: float) -> float:
    """The largest log-ratio of the exact laws of the choice among two columns, over neighbours of up to three rows."""

    def law(rows: tuple[tuple[float, float], ...]) -> NDArray[np.float64]:
        columns = np.array(rows, dtype=float).reshape(len(rows), 2).T
        scores = joint_scores([cell_counts(one, -2.0, 2.0, atom=0.0) for one in columns], scale)
        return np.asarray(np.log(probabilities(scores, scale)))

    pairs = [pair for rows in (0, 1, 2) for pair in neighbours(PAIRS, adjacency, rows)]
    # An interval of the first column leads; one row raises it by most, another one an interval of the second.
    many = ((1.4, -2.0), (1.4, 0.0)) * 30
    other = (*many, (0.0, 1.4)) if adjacency == "replace_one" else many
    pairs += [((*many, (1.4, 0.0)), other), (other, (*many, (1.4, 0.0)))]
    laws = {data: law(data) for data in {data for pair in pairs for data in pair}}
    return float(max(np.max(laws[data] - laws[other]) for data, other in pairs))


@pytest.mark.slow
@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_choice_among_columns_spends_its_epsilon(adjacency: Adjacency) -> None:
    loss = worst_joint_loss(adjacency, joint_scale(3.0, adjacency))
    assert 0.5 * 3.0 < loss <= 3.0 * (1 + 1e-9)
    # Planted: the noise of scores that move by one row, for the narrowest gains .8 more.
    assert worst_joint_loss(adjacency, joint_scale(3.0, adjacency) / 1.8) > 3.0 * 1.02


def test_the_narrowest_of_several_columns_is_chosen_or_none() -> None:
    """By margins of more than twenty scales of the noise: false alarms below 1e-6."""
    random = np.random.default_rng(0)
    wide, narrow = random.uniform(0, 1, 20_000), random.uniform(0, 0.2, 20_000)
    both = [cell_counts(one, 0.0, 1.0, atom=0.0) for one in (wide, narrow)]
    bought = buy_narrowest(both, eps=1.0, adjacency="add_remove", random=random)
    assert bought is not None
    column, low, high = bought
    assert column == 1
    assert low == 0
    assert 0.2 <= high < 0.26
    assert buy_narrowest(both[:1], eps=1.0, adjacency="replace_one", random=random) is None


@given(
    away=st.lists(st.integers(-1_000, 10**6), min_size=1, max_size=6),
    eps=st.floats(1e-4, 1.0),
    factor=st.floats(1.0, 20.0),
    adjacency=st.sampled_from(ADJACENCIES),
)
@settings(max_examples=200)
def test_prices_add_up_to_what_is_spent(away: list[int], eps: float, factor: float, adjacency: Adjacency) -> None:
    """Counts and choices, whatever the counts are; at most `most`, and each column its part if none is short."""
    counted = []

    def count(place: int, price: float) -> float:
        counted.append(price)
        return away[place]

    choices, spent = priced_choices(count, len(away), eps=eps, most=factor * eps, adjacency=adjacency)
    assert min(counted) > 0
    assert min(one.eps for one in choices) >= 0
    assert sum(counted) + sum(one.eps for one in choices) == pytest.approx(spent, rel=1e-12)
    assert spent <= factor * eps * (1 + 1e-12)
    enough = 4 * rows_to_narrow(1.0, adjacency, len(away)) * len(away) / eps
    if min(away) >= enough / 2 * (1 + 1e-9):
        assert spent == eps
        assert [one.eps for one in choices] == pytest.approx([0.9 * eps / len(away)] * len(away))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_what_is_spent_is_the_price_of_each_release(adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of 30,000 rows, and one that has a tenth of these away from zero and is counted again."""
    priced: list[float] = []

    def argmax(scores: NDArray[np.int64], scale: float, random: object, *, monotone: bool) -> int:
        assert monotone == (adjacency == "add_remove")
        priced.append(trimming_scale(1.0, adjacency) / scale)
        return 0

    def counted(total: NDArray[np.int64], sensitivity: int, eps: float, random: object) -> NDArray[np.int64]:
        assert sensitivity == 1
        priced.append(eps)
        return total

    monkeypatch.setattr(trimming, "noisy_integers", counted)
    monkeypatch.setattr(trimming, "noisy_argmax", argmax)
    random = np.random.default_rng(3)
    full = random.uniform(0, 1, 30_000)
    cells = [trimming.counts_away(one, 0.0, 8.0) for one in (full, np.where(full < 0.9, 0, full))]
    _, spent = buy_inner_intervals(cells, eps=0.05, most=0.2, adjacency=adjacency, random=random)
    assert len(priced) == 5
    assert spent == pytest.approx(sum(priced), rel=1e-12)
    assert 0.05 < spent <= 0.2

"""Rows of persons: tallies, shares of a weight, draws; alike however rows are cut into blocks."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpstats.data import Block, MemoryRows, divide
from dpstats.data import persons as module
from dpstats.data.persons import (
    LAST,
    NOBODY,
    OwnedRows,
    PersonTally,
    draw_block,
    draw_rows,
    draw_values,
    merge_tallies,
    ranks_of,
    shared_weights,
    tally,
    tally_of,
)

KEY = bytes(range(64))
Floats = NDArray[np.float64]


def ids_of(people: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Identities, -1 for nobody; a few share one of their halves."""
    people = np.asarray(people)
    ids = np.column_stack([people % 3, people // 3]).astype(np.uint64)
    ids[people < 0] = NOBODY
    return ids


def owned(people: NDArray[np.integer], cuts: list[int]) -> MemoryRows[OwnedRows[Block]]:
    """Rows numbered in their only column, in blocks."""
    number = np.arange(len(people), dtype=np.float64)
    parts = np.split(np.arange(len(people)), cuts)
    return MemoryRows([OwnedRows(Block(number[part, None], number[part]), ids_of(people[part])) for part in parts])


PEOPLE = np.array([4, 7, 4, -1, 1, 4, 10, 7, -1, 2, 4])
CUTS = [[], [3], [1, 2, 5, 9], [0, 0, 11]]


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_tallies_do_not_depend_on_blocks(cuts: list[int]) -> None:
    found = tally(owned(PEOPLE, cuts))
    whole = tally_of(ids_of(PEOPLE))
    assert np.array_equal(found.ids, whole.ids)
    assert dict(zip(map(tuple, found.ids.tolist()), found.rows.tolist(), strict=True)) == {
        (1, 1): 4,
        (1, 2): 2,
        (1, 0): 1,
        (1, 3): 1,
        (2, 0): 1,
    }


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_a_persons_rows_share_a_weight_of_one(cuts: list[int]) -> None:
    blocks = shared_weights(owned(PEOPLE, cuts)).collect()
    rows = np.concatenate([block.endog for block in blocks])
    weights = np.concatenate([block.weights for block in blocks])  # type: ignore[misc]
    persons = np.concatenate([block.person for block in blocks])  # type: ignore[misc]
    assert rows.tolist() == np.flatnonzero(PEOPLE >= 0).tolist()
    assert weights == pytest.approx([{4: 0.25, 7: 0.5}.get(person, 1.0) for person in PEOPLE[PEOPLE >= 0]])
    assert (np.bincount(persons, weights=weights) <= 1).all()
    assert sorted(set(persons.tolist())) == list(range(5))


def test_shares_never_sum_to_more_than_one() -> None:
    counts = np.concatenate([np.arange(1, 5000), [10**6 + 1, 3**15]])
    shares = PersonTally(
        np.zeros((len(counts), 2), dtype=np.uint64), counts, np.zeros((len(counts), 0), dtype=np.uint64)
    ).shares()
    for count, share in zip(counts.tolist(), shares.tolist(), strict=True):
        numerator, denominator = float(share).as_integer_ratio()
        assert numerator * count <= denominator
        assert share * count > 1 - 1e-15 * count
    assert shares[0] == 1.0


def test_own_weights_are_kept() -> None:
    block = Block(np.ones((3, 1)), np.ones(3), weights=np.array([1.0, 0.5, 0.25]))
    (found,) = shared_weights(MemoryRows([OwnedRows(block, ids_of(np.array([5, 5, 6])))])).collect()
    assert found.weights == pytest.approx([0.5, 0.25, 0.25])


def test_what_others_have_changes_nothing() -> None:
    """A person's weights and the rows drawn of it are the same with and without another person."""
    others = np.array([3, 3, 8, 8, 8])
    with_one = np.concatenate([others, np.full(6, 99)])
    alone, together = (
        np.concatenate([block.weights for block in shared_weights(owned(people, [2])).collect()])  # type: ignore[misc]
        for people in (others, with_one)
    )
    assert np.array_equal(alone, together[:5])


@pytest.mark.parametrize("most", [1, 2, 3, 10])
@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_at_most_so_many_rows_are_drawn(cuts: list[int], most: int) -> None:
    rows = draw_rows(owned(PEOPLE, cuts), most, KEY, draw_block)
    first, again = (np.concatenate([block.endog for block in rows.collect()]).astype(int) for _ in range(2))
    assert np.array_equal(first, again)  # every pass draws the same
    people, counts = np.unique(PEOPLE[first], return_counts=True)
    assert counts.tolist() == [min(most, int((person == PEOPLE).sum())) for person in people]
    assert people.tolist() == [1, 2, 4, 7, 10]
    persons = np.concatenate([block.person for block in rows.collect()])  # type: ignore[misc]
    assert np.bincount(persons).max() <= most


@pytest.mark.slow
def test_every_set_of_rows_is_equally_likely() -> None:
    """Two of five rows, 4,000 keys: chi-square with 9 degrees of freedom; a false alarm in 1 of 10,000."""
    people = np.array([1, 0, 1, 1, 2, 1, 0, 1])
    rows, places = owned(people, [3]), np.flatnonzero(people == 1).tolist()
    seen: dict[tuple[int, ...], int] = {}
    for seed in range(4000):
        key = np.random.default_rng(seed).bytes(64)
        kept = np.concatenate([block.endog for block in draw_rows(rows, 2, key, draw_block).collect()]).astype(int)
        pair = tuple(row for row in kept.tolist() if row in places)
        seen[pair] = seen.get(pair, 0) + 1
    assert len(seen) == 10
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4


def test_coinciding_ranks_draw_fewer_rows_and_never_more() -> None:
    ids = ids_of(np.array([1, 1, 1, 1]))
    for ranks, drawn in (([5, 5, 5, 5], 0), ([1, 5, 5, 9], 1), ([1, 2, 5, 5], 2), ([1, 2, 3, 9], 2)):
        at = np.array(ranks, dtype=np.uint64)
        found = tally_of(ids, at, most=2)
        assert int(found.drawn(found.find(ids), at).sum()) == drawn


@pytest.mark.parametrize("together", [1, 7, 2**15])
def test_ranks_are_kept_through_merges(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SORTED_PERSONS", together)
    rng = np.random.default_rng(1)
    people, ranks = rng.integers(-1, 40, 500), rng.integers(0, 2**63, 500, dtype=np.uint64)
    whole = tally_of(ids_of(people), ranks, most=3)
    parts = [tally_of(ids_of(people[part]), ranks[part], most=3) for part in np.array_split(np.arange(500), 7)]
    for found in (merge_tallies(parts), merge_tallies([merge_tallies(parts[:4]), merge_tallies(parts[4:])])):
        for one, other in zip(found, whole, strict=True):
            assert np.array_equal(one, other)
    for position, count in enumerate(whole.rows.tolist()):
        assert (whole.ranks[position] < LAST).sum() == min(count, 4)
    for one, person in enumerate(whole.ids):
        own = np.sort(ranks[(ids_of(people) == person).all(axis=1)])[:4]
        assert np.array_equal(whole.ranks[one, : len(own)], own)


def test_nobodys_rows_and_no_rows() -> None:
    nobody = MemoryRows([OwnedRows(Block(np.ones((2, 1)), np.ones(2)), ids_of(np.array([-1, -1])))])
    assert [len(block.endog) for block in shared_weights(nobody).collect()] == [0]
    assert [len(block.endog) for block in draw_rows(nobody, 1, KEY, draw_block).collect()] == [0]
    empty: MemoryRows[OwnedRows[Floats]] = MemoryRows([])
    assert draw_rows(empty, 1, KEY, draw_values).collect() == []
    found = tally_of(ids_of(np.array([1])))
    assert found.find(ids_of(np.array([-1, 2, 1, 10**6]))).tolist() == [-1, -1, 0, -1]


def test_values_are_drawn_like_rows() -> None:
    values = MemoryRows([OwnedRows(np.arange(6.0), ids_of(np.array([1, 1, 1, 2, 2, 3])))])
    (kept,) = draw_rows(values, 1, KEY, draw_values).collect()
    assert len(kept) == 3
    assert kept[0] < 3 <= kept[1] < 5 == kept[2]


def test_ranks_are_of_the_key_and_the_block() -> None:
    assert np.array_equal(ranks_of(KEY, 3, 5), ranks_of(KEY, 3, 9)[:5])
    assert not np.array_equal(ranks_of(KEY, 3, 5), ranks_of(KEY, 4, 5))
    assert not np.array_equal(ranks_of(KEY, 3, 5), ranks_of(KEY[::-1], 3, 5))
    # 20,000 ranks in 16 equal classes: a false alarm in 1 of 10,000 keys, and this one is none.
    assert stats.chisquare(np.bincount((ranks_of(KEY, 0, 20_000) >> np.uint64(59)).astype(int))).pvalue > 1e-4


def test_what_is_handed_over_can_be_sent() -> None:
    found = tally(owned(PEOPLE, [4]), 2, KEY)
    again = pickle.loads(pickle.dumps(partial(draw_block)))
    assert again.func is draw_block
    assert all(np.array_equal(one, other) for one, other in zip(pickle.loads(pickle.dumps(found)), found, strict=True))


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_a_division_keeps_persons_whole(cuts: list[int]) -> None:
    rng = np.random.default_rng(3)
    people = rng.integers(0, 50, 400)
    for rows in (shared_weights(owned(people, cuts)), draw_rows(owned(people, cuts), 3, KEY, draw_block)):
        one, other = divide(rows, KEY)
        sides = [np.concatenate([block.endog for block in side.collect()]).astype(int) for side in (one, other)]
        assert not set(people[sides[0]]) & set(people[sides[1]])
        whole = np.concatenate([block.endog for block in rows.collect()]).astype(int)
        assert sorted(np.concatenate(sides)) == sorted(whole)
        assert min(len(set(people[side])) for side in sides) > 10


def test_rows_divided_by_themselves_are_caught() -> None:
    """Planted: blocks that have forgotten their persons."""
    people = np.random.default_rng(3).integers(0, 50, 400)
    forgotten = MemoryRows([block._replace(person=None) for block in shared_weights(owned(people, [7])).collect()])
    one, other = divide(forgotten, KEY)
    sides = [np.concatenate([block.endog for block in side.collect()]).astype(int) for side in (one, other)]
    assert set(people[sides[0]]) & set(people[sides[1]])

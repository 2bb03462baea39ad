"""Rows of persons brought together on a cluster: whole persons in each shard, and nothing of them with the client."""

from __future__ import annotations

import gc
import itertools
import operator
import pickle
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.data import Block, as_table, divide
from dpstats.data.persons import NOBODY, OwnedRows, draw_block, draw_rows, person_count, shared_weights
from dpstats.data.worker import arrays_of, bucket_of, fingerprint, parts_of

pytest.importorskip("distributed")

from dpstats.data.dask import DaskRows, Shard

RNG = np.random.default_rng(0)
PEOPLE = RNG.integers(-1, 60, 400)
KEY = bytes(range(64))


def ids_of(people: Any) -> Any:
    people = np.asarray(people)
    ids = np.column_stack([people % 3, people // 3]).astype(np.uint64)
    ids[people < 0] = NOBODY
    return ids


def given(elements: list[Any]) -> list[Any]:
    return elements


def owned_rows(client: Any, shards: int, people: Any = PEOPLE) -> DaskRows[OwnedRows[Block]]:
    """Rows numbered in their only column, two blocks a shard."""
    places = np.array_split(np.arange(len(people)), 2 * shards)
    elements = [OwnedRows(Block(at[:, None].astype(float), at.astype(float)), ids_of(people[at])) for at in places]
    return DaskRows(client, [Shard(partial(given, elements[2 * k : 2 * k + 2])) for k in range(shards)])


def rows_of_shards(blocks: Iterable[Block]) -> list[tuple[list[float], list[float], list[int]]]:
    """One entry a shard: rows, weights and persons."""
    kept = list(blocks)
    join = [[value for block in kept for value in getattr(block, name)] for name in ("endog", "weights", "person")]
    return [tuple(join)]  # type: ignore[list-item]


@pytest.fixture(autouse=True)
def nothing_stays(client: Any) -> Iterator[None]:
    yield
    gc.collect()
    deadline = time.monotonic() + 20
    while (tasks := client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.05)
    assert not tasks


def test_buckets_are_of_persons() -> None:
    whose = bucket_of(ids_of(PEOPLE), 7)
    assert ((whose == -1) == (PEOPLE < 0)).all()
    assert all(len(set(whose[person == PEOPLE])) == 1 for person in set(PEOPLE[PEOPLE >= 0].tolist()))
    assert len(set(whose.tolist())) == 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "cells",
    [
        np.arange(400.0),
        Block(np.arange(400.0)[:, None], np.arange(400.0)),
        as_table(pd.DataFrame({"a": np.arange(400.0), "b": ["x", "y"] * 200})),
    ],
    ids=["array", "block", "table"],
)
def test_parts_have_the_rows_of_their_persons(cells: Any) -> None:
    found = dict(parts_of(OwnedRows(cells, ids_of(PEOPLE)), 5))
    for bucket, part in found.items():
        assert (bucket_of(part.ids, 5) == bucket).all()
        travelled = pickle.loads(pickle.dumps(part.cells))
        for kept in (part.cells, travelled):
            first = kept if isinstance(kept, np.ndarray) else kept.endog if isinstance(kept, Block) else None
            numbers = kept.column("a").numbers() if first is None else first
            assert np.array_equal(ids_of(PEOPLE[numbers.astype(int)]), part.ids)
    assert sum(len(part.ids) for part in found.values()) == (PEOPLE >= 0).sum()


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 2, 5])
def test_rows_share_a_weight_of_one_wherever_they_were(client: Any, shards: int) -> None:
    rows = shared_weights(owned_rows(client, shards))
    found = rows.total(rows_of_shards, operator.add)
    assert rows.persist().total(rows_of_shards, operator.add) == found
    numbers = np.concatenate([shard[0] for shard in found]).astype(int)
    weights = np.concatenate([shard[1] for shard in found])
    assert sorted(numbers.tolist()) == np.flatnonzero(PEOPLE >= 0).tolist()
    counts = np.bincount(PEOPLE[PEOPLE >= 0])
    assert weights == pytest.approx(1 / counts[PEOPLE[numbers]])
    assert (np.bincount(PEOPLE[numbers], weights=weights) <= 1).all()
    for own, _, persons in found:
        assert len(set(zip(persons, PEOPLE[np.array(own, int)].tolist(), strict=True))) == len(set(persons))
        assert sorted(set(persons)) == list(range(len(set(persons))))


@pytest.mark.slow
def test_a_tally_of_each_shard_without_gathering_is_caught(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: a person whose rows are in two shards would count twice."""
    monkeypatch.setattr(DaskRows, "by_person", lambda rows: rows)
    found = shared_weights(owned_rows(client, 2)).total(rows_of_shards, operator.add)
    numbers = np.concatenate([shard[0] for shard in found]).astype(int)
    weights = np.concatenate([shard[1] for shard in found])
    assert np.bincount(PEOPLE[numbers], weights=weights).max() > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("shards", [1, 4])
def test_at_most_so_many_rows_of_a_person_are_drawn(client: Any, shards: int, most: int) -> None:
    rows = draw_rows(owned_rows(client, shards), most, KEY, draw_block)
    first, again = (rows.map(_number).total(list, operator.add) for _ in range(2))
    assert [part.tolist() for part in first] == [part.tolist() for part in again]
    drawn = np.bincount(PEOPLE[np.concatenate(first).astype(int)], minlength=60)
    assert drawn.tolist() == np.minimum(np.bincount(PEOPLE[PEOPLE >= 0]), most).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 3])
def test_persons_are_counted_wherever_their_rows_are(client: Any, shards: int) -> None:
    assert person_count(owned_rows(client, shards)) == len(set(PEOPLE[PEOPLE >= 0].tolist()))


@pytest.mark.slow
def test_persons_are_divided_by_coins_of_their_own(client: Any) -> None:
    """Whole persons to each side; persons of two shards that have one number there have different coins."""
    people = np.repeat(np.arange(3000), 2)
    shared = shared_weights(owned_rows(client, 4, people)).persist()
    sides = [side.map(_number).total(list, operator.add) for side in divide(shared, KEY)]
    one, other = (set(people[np.concatenate(side).astype(int)].tolist()) for side in sides)
    assert not one & other
    assert len(one) + len(other) == 3000
    # Of 3,000 fair coins; three standard deviations for each of the comparisons below.
    assert abs(len(one) - 1500) < 3 * np.sqrt(750)
    by_shard = shared.total(_persons, operator.add)
    heads = [[int(person) in one for person in people[shard.astype(int)]] for shard in by_shard]
    for first, second in itertools.pairwise(heads):
        length = min(len(first), len(second))
        alike = np.mean(np.array(first[:length]) == np.array(second[:length]))
        assert abs(alike - 0.5) < 3 * 0.5 / np.sqrt(length)


def test_tables_and_owned_rows_are_marked() -> None:
    table = as_table(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    other = as_table(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "z"]}))
    ids = ids_of([1, 2])
    block = Block(np.ones((2, 1)), np.ones(2))
    assert fingerprint([table]) != fingerprint([other])
    assert fingerprint([OwnedRows(table, ids)]) != fingerprint([OwnedRows(other, ids)])
    assert fingerprint([OwnedRows(block, ids)]) != fingerprint([OwnedRows(block._replace(endog=np.zeros(2)), ids)])
    assert [cells.shape for cells in arrays_of(OwnedRows(block, ids))] == [(2, 1), (2,), (2, 2)]


def _number(block: Block) -> Any:
    return block.endog


def _persons(blocks: Iterable[Block]) -> list[Any]:
    """The first row of each person of a shard, in the order of their numbers there."""
    kept = list(blocks)
    rows, persons = (np.concatenate([getattr(block, name) for block in kept]) for name in ("endog", "person"))
    return [rows[np.unique(persons, return_index=True)[1]]]

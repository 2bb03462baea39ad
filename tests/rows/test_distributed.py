"""Rows on a cluster of two processes."""

from __future__ import annotations

import gc
import itertools
import operator
import os
import pickle
import signal
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rows_contract import PACKING, RowsContract, blocks_of, doubled, packed, responses, total_response

from dpstats.data import Block, PackedRows, row_count
from dpstats.data.dask import FAN_IN, DaskRows, Shard, Tasks
from dpstats.data.worker import FailedShard, KeptShard, Pickled, fingerprint
from dpstats.errors import DataError, RowsChangedError

pytest.importorskip("distributed")


def given(blocks: list[Block]) -> list[Block]:
    return blocks


def rows_of(client: Any, blocks: list[Block], shards: int) -> DaskRows[Block]:
    """The blocks in so many shards, some of which may be empty."""
    ends = np.linspace(0, len(blocks), shards + 1).astype(int)
    pieces = [blocks[a:b] for a, b in itertools.pairwise(ends)]
    return DaskRows(client, [Shard(partial(given, piece)) for piece in pieces])


def second_columns(blocks: Iterable[Block]) -> list[float]:
    return [value for block in blocks for value in block.exog[:, 1].tolist()]


def widths(blocks: Iterable[Block]) -> list[int]:
    return [block.exog.shape[1] for block in blocks]


def task_names(client: Any) -> list[str]:
    return client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])


@pytest.fixture(autouse=True)
def nothing_stays(client: Any) -> Iterator[None]:
    yield
    gc.collect()  # an error that was caught holds the frames it came through
    assert soon_without_tasks(client)


def soon_without_tasks(client: Any) -> bool:
    """The scheduler hears in its own time of what is not needed any more."""
    deadline = time.monotonic() + 20
    while task_names(client) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not task_names(client)


class _Contract(RowsContract):
    @pytest.fixture(autouse=True)
    def _client(self, client: Any) -> None:
        self.client = client

    def test_collected(self) -> None:
        rows = self.make(blocks_of([3]))
        # Dask's scheduler forgets no task that it is told to forget before it has heard of it.
        assert row_count(rows) == 3
        with pytest.raises(DataError, match="stay on its cluster"):
            rows.collect()

    def test_every_block_has_a_number_of_its_own(self) -> None:
        rows = self.make(blocks_of([2, 7, 1, 5]))
        numbers: list[Any] = [rows.map_numbered(_numbered).total(list, operator.add) for _ in range(2)]
        assert numbers[0] == numbers[1]
        assert len(set(numbers[0])) == 4


class TestOneShard(_Contract):
    def make(self, blocks: list[Block]) -> DaskRows[Block]:
        return rows_of(self.client, blocks, 1)


class TestShards(_Contract):
    def make(self, blocks: list[Block]) -> DaskRows[Block]:
        return rows_of(self.client, blocks, 3)


class TestKept(_Contract):
    def make(self, blocks: list[Block]) -> DaskRows[Block]:
        return rows_of(self.client, blocks, 2).persist()


class TestPacked(_Contract):
    """Workers keep levels, and open them in each pass."""

    def make(self, blocks: list[Block]) -> PackedRows:
        return PackedRows(PACKING, rows_of(self.client, [packed(block) for block in blocks], 2)).persist()

    @pytest.mark.slow
    def test_columns(self) -> None:
        rows = self.make(blocks_of([3, 4]))
        assert rows.total(second_columns, operator.add) == list(range(7))
        assert rows.packed.total(widths, operator.add) == [1, 1]


def _numbered(number: int, _: Block) -> int:
    return number


@pytest.mark.slow
def test_shards_are_kept_together(client: Any) -> None:
    """As many as there are threads: every pass is a task for each."""
    rows = rows_of(client, blocks_of([3] * 40), 20)
    held = rows.persist()
    assert len(held._shards) == 2
    assert held.total(responses, operator.add) == list(range(120))
    assert held.map(doubled).persist().total(responses, operator.add) == [2.0 * value for value in range(120)]
    assert held.persist() is held
    # What goes by a shard's number goes by the one that it had.
    numbers: list[int] = rows.map_numbered(_numbered).total(list, operator.add)
    assert rows.map_numbered(_numbered).persist().total(list, operator.add) == numbers


@pytest.mark.slow
def test_shards_are_kept_where_their_inputs_are(client: Any) -> None:
    workers = list(client.nthreads())
    futures = [
        client.submit(blocks_of, [3], workers=[workers[at % 2]], key=f"input-{at}", pure=False) for at in range(6)
    ]
    client.gather(futures)
    rows = DaskRows(client, [Shard(given, (one,)) for one in futures])
    assert rows._homes(workers).tolist() == [workers[at % 2] for at in range(6)]
    assert rows._groups() == [[0, 2, 4], [1, 3, 5]]
    assert row_count(rows.persist()) == 18


@pytest.mark.slow
def test_no_shards(client: Any) -> None:
    assert row_count(DaskRows(client, [])) == 0


@pytest.mark.slow
def test_many_shards_are_added_in_order(client: Any) -> None:
    sizes = [1] * (FAN_IN**2 + 3)
    assert rows_of(client, blocks_of(sizes), len(sizes)).total(responses, operator.add) == list(range(len(sizes)))


def _broken(_: Iterable[Block]) -> float:
    raise SystemExit("cell-7316549")


def _unpacked(_: Iterable[Block]) -> Any:
    return Shout()


class Shout:
    def __reduce__(self) -> Any:
        raise ValueError("cell-7316549")

    __repr__ = __reduce__  # type: ignore[assignment]


@pytest.mark.slow
@pytest.mark.parametrize("part", [_broken, _unpacked])
def test_what_fails_on_a_worker_is_not_told(client: Any, part: Any) -> None:
    rows = rows_of(client, blocks_of([3, 4, 5]), 3)
    with pytest.raises(RuntimeError) as raised:
        rows.total(part, operator.add)
    assert str(raised.value) == "a worker could not work out its shard"
    with pytest.raises(RuntimeError):
        rows.map(part).persist().total(responses, operator.add)
    with pytest.raises(RuntimeError):
        rows.total(total_response, part)
    del raised
    logs = str(client.get_worker_logs()) + str(client.get_scheduler_logs())
    assert "7316549" not in logs
    assert "Compute Failed" not in logs


@pytest.mark.slow
def test_names_of_tasks_are_drawn_anew(client: Any) -> None:
    """Dask's own are hashes of the data, which tell whoever can guess the data that the guess is right."""
    names = set[str]()
    for _ in range(2):
        rows = rows_of(client, blocks_of([3, 4]), 2).persist()
        assert row_count(rows) == 7
        found = [name for name in task_names(client) if "rows" in name]
        assert all(name.startswith("dpstats-rows-") for name in found)
        assert len(found) == 2
        assert names.isdisjoint(found)
        names.update(found)
        del rows
        assert soon_without_tasks(client)


def _unsteady(path: str) -> list[Block]:
    """Other rows each time: the order of a source that is not sorted."""
    block = blocks_of([50])[0]
    times = len(Path(path).read_text()) if Path(path).exists() else 0
    Path(path).write_text("." * (times + 1))
    return [block.take(np.roll(np.arange(50), times))]


def kill_workers(client: Any) -> None:
    """Kill every process that holds rows; their nannies start new ones."""
    for pid in client.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_rows_that_come_back_different_are_refused(client: Any, tmp_path: Path) -> None:
    """Shards that are lost are worked out again: alike they serve, else no pass may mix them with the former ones."""
    unsteady = [DaskRows[Block](client, [Shard(partial(_unsteady, str(tmp_path / name)))]).persist() for name in "ab"]
    changed = [unsteady[0], unsteady[1].map(_doubled).persist()]
    steady = rows_of(client, blocks_of([30, 20, 10]), 3).persist()
    before = [rows.total(responses, operator.add) for rows in (*changed, steady)]
    assert [rows.total(responses, operator.add) for rows in (*changed, steady)] == before
    kill_workers(client)
    for rows in changed:
        with pytest.raises(RowsChangedError, match="the data were changed"):
            rows.total(responses, operator.add)
    assert steady.total(responses, operator.add) == before[2]


def _doubled(block: Block) -> Block:
    return block._replace(endog=2 * block.endog)


@pytest.mark.slow
def test_what_is_kept_can_be_dropped_while_it_is_referred_to(client: Any) -> None:
    tasks = Tasks()
    rows = DaskRows[Block](client, [Shard(partial(given, blocks_of([3])))], tasks=tasks).persist()
    derived = rows.map(_doubled).persist()
    assert row_count(derived) == 3
    assert len([name for name in task_names(client) if "rows" in name]) == 2
    tasks.release()
    assert soon_without_tasks(client)
    del rows, derived
    # Messages on their way hold futures a little longer.
    deadline = time.monotonic() + 20
    while len(tasks) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    assert len(tasks) == 0


@pytest.mark.slow
def test_marks_see_cells_order_and_shape() -> None:
    block = blocks_of([20])[0]
    alike = fingerprint([block])
    assert alike == fingerprint(blocks_of([20]))
    changed = block.exog.copy()
    changed[3, 1] = np.nextafter(changed[3, 1], 9)
    others = [
        [block._replace(exog=changed)],
        [block.take(np.arange(20)[::-1])],
        [block.part(slice(0, 10)), block.part(slice(10, 20))],
        [block, block],
        [block._replace(exog=block.exog.reshape(10, 4))],
        [],
    ]
    assert len({fingerprint(elements) for elements in others} | {alike}) == 7
    assert fingerprint([np.arange(3, dtype=np.int8)]) != fingerprint([np.arange(4, dtype=np.int8)])
    assert fingerprint([np.array(["a"], dtype=object)]) == fingerprint([])


@pytest.mark.slow
def test_what_stays_on_a_worker_shows_nothing() -> None:
    block = blocks_of([5000])[0]
    shown = [KeptShard([block], 3), Pickled(block), FailedShard()]
    assert [repr(one) for one in shown[:2]] == ["<Kept>", "<Sealed>"]
    assert not any("499" in repr(one) or "499" in str(one) for one in shown)
    # Dask spills by size, which it takes from here.
    assert KeptShard([block], 3).__sizeof__() == block.exog.nbytes + block.endog.nbytes
    assert Pickled(block).__sizeof__() > block.exog.nbytes


@pytest.mark.slow
def test_rows_are_not_pickled(client: Any) -> None:
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(rows_of(client, blocks_of([3]), 1))

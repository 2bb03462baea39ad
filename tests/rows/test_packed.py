"""Packed rows: whatever reads them sees all columns, and what is kept are levels."""

from __future__ import annotations

import operator
import pickle
import threading
from collections.abc import Iterable

import numpy as np
import pytest
import rows_contract as contract
from rows_contract import RowsContract, blocks_of, responses

from dpstats.data import (
    Block,
    CodedColumns,
    Memory,
    MemoryRows,
    PackedRows,
    ReadRows,
    RowPacking,
    Rows,
    divide,
    partition,
    passes,
    row_count,
    thin,
)

PACKING = RowPacking(
    6,
    (
        CodedColumns(slice(0, 1), np.array([[0.25]])),
        CodedColumns(slice(1, 3), np.array([[0.0, 1.5, 0.0], [0.0, 0.0, -2.5]])),
        CodedColumns(slice(4, 5), np.arange(300.0)[None]),
    ),
    np.array([3, 5]),
)
"""A constant, a factor of three levels, and one of three hundred between two numbers."""


def packed_blocks(sizes: Iterable[int], seed: int = 0) -> list[Block]:
    random, found, start = np.random.default_rng(seed), [], 0
    for size in sizes:
        levels = np.stack([random.integers(0, 3, size), random.integers(0, 300, size)]).astype(np.uint16).T
        weights, endog = random.random(size), np.arange(start, start + size, dtype=float)
        found.append(Block(random.normal(size=(2, size)).T, endog, weights, levels=levels))
        start += size
    return found


def dense(block: Block) -> Block:
    """By hand: all columns of a packed block."""
    assert block.levels is not None
    rows = []
    for (first, second), (three, many) in zip(block.exog, block.levels, strict=True):
        rows.append([0.25, 1.5 * (three == 1), -2.5 * (three == 2), first, float(many), second])
    return block._replace(exog=np.array(rows).reshape(len(block.endog), 6), levels=None)


def stacked(blocks: Iterable[Block]) -> list[list[float]]:
    """All there is of each row."""
    found = []
    for block in blocks:
        assert block.levels is None
        assert block.weights is not None
        found += np.column_stack([block.exog, block.endog, block.weights]).tolist()
    return found


class TestPacked(RowsContract):
    """One column is a number and the other, which is the same, a level."""

    def make(self, blocks: list[Block]) -> Rows[Block]:
        return PackedRows(contract.PACKING, self.within([contract.packed(block) for block in blocks]))

    def test_unpacked(self) -> None:
        blocks = blocks_of([3, 0, 4])
        for one, other in zip(self.make(blocks).collect(), blocks, strict=True):
            np.testing.assert_array_equal(one.exog, other.exog)

    def within(self, blocks: list[Block]) -> Rows[Block]:
        return MemoryRows(blocks)


class TestPackedRead(TestPacked):
    def within(self, blocks: list[Block]) -> Rows[Block]:
        return ReadRows(lambda: blocks, Memory(1e9))


def test_rows_have_all_of_their_columns() -> None:
    blocks = packed_blocks([5, 0, 300])
    for block in blocks:
        np.testing.assert_array_equal(PACKING.unpacked(block).exog, dense(block).exog)
    rows = PackedRows(PACKING, MemoryRows(blocks))
    assert rows.total(stacked, operator.add) == stacked(map(dense, blocks))
    assert stacked(rows.collect()) == stacked(map(dense, blocks))
    assert PACKING.unpacked(blocks[2]).exog.flags.f_contiguous


@pytest.mark.parametrize("rows", [1, 7, 299, 300, 4096])
def test_pieces_are_the_rows_in_order(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PIECE_ROWS", rows)
    blocks = packed_blocks([300, 0, 13])
    pieces = list(PACKING.pieces(blocks))
    assert max(len(piece.endog) for piece in pieces) == min(rows, 300)
    assert stacked(pieces) == stacked(map(dense, blocks))


def test_rows_of_many_columns_are_opened_fewer_at_a_time() -> None:
    numbers = RowPacking(1000, (), np.arange(1000))
    pieces = list(numbers.pieces([Block(np.zeros((600, 1000)), np.zeros(600))]))
    assert [len(piece.endog) for piece in pieces] == [256, 256, 88]


def test_what_takes_whole_rows_takes_them_packed() -> None:
    """The same rows as of blocks with all columns, and still packed."""
    blocks = packed_blocks([1000, 0, 777])
    ours, theirs = PackedRows(PACKING, MemoryRows(blocks)), MemoryRows([dense(block) for block in blocks])
    pairs = [
        (thin(ours, 3, 16), thin(theirs, 3, 16)),
        *zip(divide(ours, b"k"), divide(theirs, b"k"), strict=True),
    ]
    for one, other in [*pairs, *zip(partition(ours, b"k", 3), partition(theirs, b"k", 3), strict=True)]:
        assert isinstance(one, PackedRows)
        assert one.total(stacked, operator.add) == other.total(stacked, operator.add)
        assert one.packed.collect()[0].levels is not None


def test_counting_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = PackedRows(PACKING, MemoryRows(packed_blocks([10, 20])))
    monkeypatch.setattr(RowPacking, "unpacked", None)
    assert row_count(rows) == 30
    with pytest.raises(TypeError):
        rows.total(responses, operator.add)


def names(blocks: Iterable[Block]) -> set[str]:
    return {threading.current_thread().name for _ in blocks}


def test_threads_open_what_they_work_on(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = packed_blocks([40] * 32)
    rows = PackedRows(PACKING, MemoryRows(blocks))
    found = []
    for cores in (1, 3):
        monkeypatch.setattr(passes, "thread_count", lambda cores=cores: cores)
        found.append(rows.total_of_pieces(stacked, operator.add))
    assert found[0] == found[1] == stacked(map(dense, blocks))
    assert threading.main_thread().name not in rows.total_of_pieces(names, operator.or_)


def test_memory_counts_what_is_kept() -> None:
    """A byte or two a factor: 8 columns of a factor of eight levels are an eighth of one."""
    packing = RowPacking(8, (CodedColumns(slice(0, 7), np.eye(8)[1:]),), np.array([7]))
    block = Block(np.ones((1000, 1)), np.ones(1000), levels=np.zeros((1000, 1), dtype=np.uint8))
    room = Memory(20_000)
    rows = PackedRows(packing, ReadRows(lambda: [block], room)).persist()
    assert room.taken == 1000 * (8 + 8 + 1)
    assert isinstance(rows.packed, MemoryRows)
    # With all columns it would not fit.
    assert not Memory(20_000).take(sum(cells.nbytes for cells in packing.unpacked(block)[:2]))


def test_what_goes_to_a_file_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpstats.data import spool as reading

    monkeypatch.setattr(reading, "PASSES", 1e9)
    monkeypatch.setattr(reading, "_file_costs", lambda spool, kept: [spool.write(kept[0]), 0.0][1])
    blocks = packed_blocks([50, 0, 9])
    rows = PackedRows(PACKING, ReadRows(lambda: blocks, Memory(1))).persist()
    assert isinstance(rows.packed, ReadRows)
    for _ in range(2):
        assert rows.total(stacked, operator.add) == stacked(map(dense, blocks))
    # The numbers stand one column after the other, as they did.
    assert all(block.exog.flags.f_contiguous for block in rows.packed.collect())


def test_rows_that_are_taken_stand_in_memory_as_before() -> None:
    block = packed_blocks([60])[0]
    chosen = block.endog % 3 == 0
    kept, apart = block.take(chosen), block.part(slice(5, 20)).detached()
    assert kept.exog.flags.f_contiguous
    assert stacked([PACKING.unpacked(kept)]) == stacked([dense(block).take(chosen)])
    assert stacked([PACKING.unpacked(apart)]) == stacked([dense(block).part(slice(5, 20))])
    assert dense(block).take(chosen).exog.flags.c_contiguous


def test_a_level_of_another_factor_is_caught() -> None:
    """Planted: levels in another order than the columns that they stand for."""
    block = packed_blocks([60])[0]
    assert block.levels is not None
    swapped = block._replace(levels=block.levels[:, ::-1])
    assert (PACKING.unpacked(swapped).exog != dense(block).exog).any()


def test_packed_rows_are_not_pickled() -> None:
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(PackedRows(PACKING, MemoryRows(blocks_of([3]))))

"""Rows in memory, and the coins that divide rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from rows_contract import RowsContract, blocks_of, responses

from dpstats.data import Block, MemoryRows, as_rows, block_rows, divide, passes
from dpstats.data.passes import coins


class TestMemory(RowsContract):
    def make(self, blocks: list[Block]) -> MemoryRows[Block]:
        return MemoryRows(blocks)

    def test_nothing_is_copied(self) -> None:
        block = blocks_of([4])[0]
        assert next(iter(MemoryRows([block]))) is block
        assert block.part(slice(1, 3)).exog.base is not None

    def test_rows_are_not_pickled(self) -> None:
        with pytest.raises(TypeError, match="private"):
            pickle.dumps(MemoryRows(blocks_of([3])))


def test_plain_pairs_become_blocks() -> None:
    exog, endog = np.ones((2, 3)), np.array([4.0, 5.0])
    assert block_rows([(exog, endog)]).total(responses, list.__add__) == [4, 5]
    rows = MemoryRows([Block(exog, endog)])
    assert block_rows(rows) is rows
    assert as_rows(rows) is rows


def test_blocks_are_cut_whole() -> None:
    block = Block(np.arange(6.0).reshape(3, 2), np.arange(3.0), np.array([0.5, 1.0, 0.0]), np.array([7.0, 8.0, 9.0]))
    kept = block.take(np.array([True, False, True]))
    assert [cells.tolist() for cells in kept if cells is not None] == [[[0, 1], [4, 5]], [0, 2], [0.5, 0], [7, 9]]
    one = block.columns(np.array([1]))
    assert one.exog.tolist() == [[1], [3], [5]]
    assert one.offset is block.offset
    assert one.exog.flags.c_contiguous
    single = Block(block.exog.astype(np.float32), block.endog).doubles()
    assert single.exog.dtype == np.float64
    assert single.weights is None


def test_coins_are_fair_and_fixed_by_the_key() -> None:
    drawn = coins(b"key", 3, 100_000)
    # Standard deviation 158; a fair stream fails at another key once in 500 million.
    assert abs(int(drawn.sum()) - 50_000) < 950
    assert abs(int((drawn[1:] != drawn[:-1]).sum()) - 50_000) < 950
    assert (coins(b"key", 3, 5) == drawn[:5]).all()
    assert (coins(b"key", 4, 100) != drawn[:100]).any()
    assert len(coins(b"key", 0, 0)) == 0


def test_no_row_of_one_part_moves_the_blocks_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours with the same coins: sums over the blocks of the part that the new row is not in are rounded alike."""
    monkeypatch.setattr(passes, "EVEN_ROWS", 20)
    rng = np.random.default_rng(0)
    exog, heads = rng.normal(size=(300, 2)), rng.random(300) < 0.5

    def second(kept: slice) -> list[list[float]]:
        rows, tossed = exog[kept], heads[kept]
        starts = range(0, len(rows), 70)
        monkeypatch.setattr(passes, "coins", lambda _, number, size: tossed[70 * number : 70 * number + size])
        blocks = [Block(rows[start : start + 70], rows[start : start + 70, 0]) for start in starts]
        _, tails = divide(MemoryRows(blocks), b"key")
        return [block.endog.tolist() for block in tails.collect()]

    heads[:13] = True
    found = second(slice(0, None))
    assert found == second(slice(13, None))
    assert {len(block) for block in found[:-1]} == {20}

"""How data are cut into ticks: by a column with public values, by a number of rows, or one tick per item."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from dpstats.arguments import is_whole, safe_repr
from dpstats.data import Table, as_table
from dpstats.data.columns import usable_kind
from dpstats.data.table import Stream
from dpstats.domain import Domain, Levels
from dpstats.errors import ArgumentError, DataError, DPStatsError, StreamError
from dpstats.ledger.spender import has_code
from dpstats.quiet import fail_closed, hide_frames
from dpstats.streaming.running import RunningStream

_log = logging.getLogger("dpstats")

MOST_ROWS = 10**9


Tick = tuple[list[Table], str | None]
"""The rows of a tick, in pieces, and its public name."""


def is_iterator(data: object) -> bool:
    """Whether `data` is an iterator or a list of tables, and no table itself."""
    if isinstance(data, Iterator) or not isinstance(data, Sequence) or isinstance(data, (str, bytes)) or not data:
        return isinstance(data, Iterator)
    try:
        as_table(data[0])
    except (DataError, ArgumentError):
        return False
    return True


def check_tick(tick: object, iterated: bool) -> None:
    """Raise ArgumentError unless `tick` is a way to cut rows into ticks."""
    if tick is None:
        if not iterated:
            raise ArgumentError(
                "tick must be a number of rows per tick, or a column whose levels the Domain declares; for a "
                "single tick call update"
            )
        return
    if isinstance(tick, str):
        if iterated:
            raise ArgumentError(
                "tick: the ticks of an iterator are its items, or a number of rows; with a column, the time of a "
                "release would reveal when a row arrived. Pass a table or files, or one item per tick"
            )
        return
    if not is_whole(tick) or not 1 <= tick <= MOST_ROWS:
        raise ArgumentError(f"tick must be a positive number of rows, or the name of a column, got {safe_repr(tick)}")


def tick_levels(tick: str, domain: Domain) -> tuple[Any, ...]:
    """The public values of a column in their order. ArgumentError if the Domain does not declare them."""
    declared = domain.get(tick)
    if not isinstance(declared, Levels):
        raise ArgumentError(
            f"tick: the Domain must declare the values of column {tick!r} as levels, in their order, because the "
            "list of ticks must not depend on the data"
        )
    return declared.values


def by_column(table: Table, tick: str, domain: Domain, first: int, last: int) -> Iterator[Tick]:
    """The ticks number first + 1, ..., last of a table: the rows of each level, perhaps none. Reads rows."""
    levels = tick_levels(tick, domain)
    code_of = Levels(levels).code_of()
    for code in range(first, last):
        yield [table.where(partial(has_code, tick, code_of, code), [tick])], str(levels[code])


def by_count(tables: Iterable[Table], rows: int) -> Iterator[Tick]:
    """Ticks of `rows` rows each, the last with the remaining ones, over one table after another. Reads rows."""
    pieces: list[Table] = []
    room = rows
    for table in tables:
        start = 0
        while size := min(room, table.rows - start):
            pieces.append(table.select(slice(start, start + size), size))
            start, room = start + size, room - size
            if room == 0:
                yield pieces, None
                pieces, room = [], rows
    if pieces:
        yield pieces, None


def in_memory_batches(table: Table, names: Sequence[str]) -> Iterator[Table]:
    """The rows of a table as tables in memory, in order. Reads rows. ArgumentError if they are on other machines."""
    if table.distributed:
        raise ArgumentError("tick: rows on a cluster have no order; name a column with public values")
    return table.read(names) if isinstance(table, Stream) else iter([table])


class TickFeed:
    """An iterator that cuts data into ticks and closes them one after another."""

    def __init__(
        self, running: RunningStream, domain: Domain, data: Any, tick: int | str | None, until: int | None
    ) -> None:
        iterated = is_iterator(data)
        check_tick(tick, iterated)
        self._running, self._failed = running, list[Exception]()
        self._last = self._end(tick, domain, until)
        self._to_the_end = until is None and not isinstance(tick, str)
        self._rows = None if tick is None or isinstance(tick, str) else int(tick)
        self.is_rest = False  # whether the tick closed last has the rows that did not make up a whole one
        if running.tick < self._last:
            running.check_usable()
        elif isinstance(tick, str) and until is None:
            _log.warning(
                "dpstats: run closes no tick and reads no rows: the stream has closed tick %s, %r, the last level of "
                "%r in its Domain. Each declared level is a tick, with or without rows; until= stops before levels "
                "that are still to come",
                f"{running.tick:,}",
                running.label,
                tick,
            )
        table = None if iterated else running.table(data)
        if table is not None and table.filtered and not isinstance(tick, str):
            raise ArgumentError(
                "tick: the number of these rows is private, since they were selected by their cells, and ticks of "
                "a number of rows would reveal it; name a column with public values"
            )
        if table is not None and isinstance(tick, str):
            if table.count(tick) != 1:
                raise DataError(f"data must have exactly one column {tick!r}, which defines the ticks")
            usable_kind(tick, table.column(tick))
            if running.plan.guarantee.adjacency == "replace_one":
                raise ArgumentError(
                    "tick: with adjacency='replace_one' a replaced row may change ticks, which the charge does "
                    "not cover; use adjacency='add_remove', or call update with the rows of each tick"
                )
        if self._rows is not None and running.plan.guarantee.adjacency == "add_remove":
            _log.warning(
                "dpstats: with ticks of %s rows the guarantee of add_remove does not hide how many rows the stream "
                "has: it is for streams that differ in one row whose cells may be missing",
                f"{self._rows:,}",
            )
        self._ticks = self._cut(data, table, tick, domain)

    def __iter__(self) -> Iterator[int]:
        return self

    @hide_frames
    def __next__(self) -> int:
        """Close the next tick; its number."""
        with self._running.lock.held():
            return self._close()

    def _close(self) -> int:
        running = self._running
        if running.tick >= self._last:
            if self._to_the_end:  # whether rows are left is not looked at
                _log.warning(
                    "dpstats: the stream has closed its last tick, %s; rows after it are not read. A stream with a "
                    "longer horizon can go on",
                    f"{self._last:,}",
                )
            raise StopIteration
        running.check_usable()
        if running.waits:
            raise StreamError(
                f"tick {running.tick + 1} is computed but not recorded: call update once with its rows, which are "
                "not read again, and then run with the rows after it"
            )
        running.begin(self._rows)
        tick = fail_closed(self._read)
        if self._failed:
            raise self._failed.pop()
        if not tick:
            raise StopIteration
        pieces, _ = tick[0]
        self.is_rest = self._rows is not None and sum(piece.rows for piece in pieces) < self._rows
        running.close(*tick[0])
        return running.tick

    def _read(self) -> list[Tick]:
        """The next tick, if there is one and nothing was refused. Reads rows."""
        try:
            return list(itertools.islice(self._ticks, 1))
        except DPStatsError as error:  # by a schema alone, see `Running.table`
            self._failed.append(error)
            return []

    def _cut(self, data: Any, table: Table | None, tick: int | str | None, domain: Domain) -> Iterator[Tick]:
        """The ticks of the data, whose rows are read as they are asked for."""
        names = self._running.columns
        if table is not None and isinstance(tick, str):
            return by_column(table.only([*names, tick]), tick, domain, self._running.tick, self._last)
        if table is not None:
            return by_count(in_memory_batches(table.only(names), names), int(tick or 1))
        tables = self._items(data)
        if tick is None:
            return (([one], None) for one in tables)
        return by_count((batch for one in tables for batch in in_memory_batches(one, names)), int(tick))

    def _items(self, data: Iterable[object]) -> Iterator[Table]:
        """The items of an iterator as tables; what it raises is its own and is passed on as it is."""
        iterator = iter(data)
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                return
            except Exception as error:
                self._failed.append(error)
                return
            table = self._running.table(item)
            if self._rows is not None and table.filtered:
                raise ArgumentError(
                    "tick: the number of rows of an item is private, since they were selected by their cells, and "
                    "ticks of a number of rows would reveal it; let each item be a tick"
                )
            yield table

    def _end(self, tick: int | str | None, domain: Domain, until: int | None) -> int:
        """The number of the tick to stop after."""
        running = self._running
        end = running.plan.sums.mechanism.workload.ticks
        if isinstance(tick, str):
            levels = tick_levels(tick, domain)
            if until is None and len(levels) > end:
                raise ArgumentError(
                    f"tick: the Domain declares {len(levels):,} levels of {tick!r}, and the stream ends after tick "
                    f"{end:,}: declare a longer horizon, or pass until={end} to leave out the rows of later levels"
                )
            end = min(end, len(levels))
            expected = None if running.tick == 0 else str(levels[min(running.tick, len(levels)) - 1])
            if running.tick > len(levels) or running.label != expected:
                raise StreamError(
                    f"tick: the tick closed last is not level number {running.tick} of column {tick!r}; ticks must "
                    "follow the levels of the Domain, each of them once"
                )
        if until is None:
            return end
        if not is_whole(until) or not 0 < until <= end:
            raise ArgumentError(f"until must be a tick from 1 to {end:,}, the last one")
        return int(until)

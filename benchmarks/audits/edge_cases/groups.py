"""Neighbouring data that differ in one row, one call on each of them, and whatever differs between what is seen."""

from __future__ import annotations

import contextlib
import random
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.audits.edge_cases.arrow_columns import pa, pl
from benchmarks.audits.edge_cases.calls import ARRAYS, ENTRIES, WORLD, Books, Entry
from benchmarks.audits.edge_cases.cells import CELLS, OPEN, TAME, Cell, Meaning, meaning
from benchmarks.audits.edge_cases.columns import Column
from benchmarks.audits.edge_cases.observed import ENVIRONMENTS, STREAMS, Seen, observe, stoppable
from benchmarks.audits.edge_cases.pandas_columns import FIXED
from benchmarks.audits.edge_cases.tables import COLUMNS, KINDS, TABLES, Table

WAYS = ("first", "middle", "last", "alone")
"""Where the row stands that neighbours differ in; "alone" has no other."""

REFUSED = re.compile(r"dpstats\.errors\.(?!ReleaseError)")
"""What a call may raise beside harmless cells: not another library's error, nor that a release failed."""

GOOD = Cell("a good cell", lambda: None)
ABSENT = Cell("no row", lambda: None)


@dataclass(frozen=True)
class Setting:
    """What the neighbours of a group have in common, by name."""

    entry: str
    table: str
    column: str
    target: str
    way: str
    environment: str

    def __str__(self) -> str:
        return " | ".join(self.__dict__.values())


@dataclass(frozen=True)
class Finding:
    """A difference that must not be: `what` differs, `expected` beside a harmless cell, `got` beside this one."""

    setting: Setting
    cell: str
    what: str
    expected: str
    got: str


@dataclass(frozen=True)
class Probe:
    """One of the neighbours: its data, made anew, and which of them must have the same bits."""

    cell: Cell
    make: Callable[[], Any]
    key: object


class Unfit(Exception):
    """The type of column cannot hold the cell."""


ENTRY_BY_NAME = {entry.name: entry for entry in ENTRIES}
TABLE_BY_NAME = {table.name: table for table in TABLES}
COLUMN_BY_NAME = {column.name: column for column in COLUMNS}


def filled(column: Column, cells: Sequence[Any]) -> list[Any]:
    """Harmless cells for a column of this type."""
    if isinstance(column.fill, tuple):
        return [column.fill[place % len(column.fill)] for place in range(len(cells))]
    if column.fill == "numbers":
        return [place % 3 if isinstance(cell, str) else int(cell) for place, cell in enumerate(cells)]
    if column.fill == "text":
        return [cell if isinstance(cell, str) else f"{cell:g}" for cell in cells]
    return list(cells)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Building the data is the caller's own affair: what it prints or warns is not looked at."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with STREAMS.caught():
            yield


def stored(column: Any, place: int) -> Meaning:
    """What a built column holds at a place, as far as it can be told."""
    try:
        if pa is not None and isinstance(column, pa.Array):
            return meaning(column[place].as_py())
        if isinstance(column, pd.Series):
            return meaning(column.iloc[place])
        if isinstance(column, np.ndarray) or (pl is not None and isinstance(column, pl.Series)):
            return meaning(column[place])
    except UnicodeDecodeError:
        return None
    except Exception:
        return OPEN
    return OPEN


class Maker:
    """Builds the neighbours of a setting."""

    def __init__(self, setting: Setting) -> None:
        self.entry: Entry = ENTRY_BY_NAME[setting.entry]
        self.table: Table = TABLE_BY_NAME[setting.table]
        self.column: Column = COLUMN_BY_NAME[setting.column]
        self.target = setting.target
        world = WORLD if self.entry.world == "table" else ARRAYS
        size = 1 if setting.way == "alone" else len(world[self.target]) - 1
        self.place = {"first": 0, "alone": 0, "middle": size // 2, "last": size - 1}[setting.way]
        self.world = {name: cells[:size] for name, cells in world.items()}
        self.good = filled(self.column, self.world[self.target])

    def data(self, cells: Sequence[Any], every: Sequence[Any], *, absent: bool = False) -> tuple[Any, Any]:
        """The data with `cells` in the target column, and that column; without the row if `absent`."""
        kept = [place for place in range(len(cells)) if not (absent and place == self.place)]
        with quiet():
            columns = {
                name: self.column.build([cells[place] for place in kept], every)
                if name == self.target
                else self.table.plain([others[place] for place in kept], isinstance(others[0], str))
                for name, others in self.world.items()
            }
            if pl is not None:
                columns = {n: c.alias(n) if isinstance(c, pl.Series) else c for n, c in columns.items()}
            return self.table.build(columns), columns[self.target]

    def probe(self, cell: Cell, beside: Sequence[Cell]) -> Probe:
        """A neighbour with `cell` at the place, or the harmless one, or without the row.

        `beside` are the cells that are part of the column's type, whether or not it holds them.
        """

        def built() -> tuple[Any, Any]:
            if cell is GOOD or cell is ABSENT:
                return self.data(self.good, [*self.good, *(c.make() for c in beside)], absent=cell is ABSENT)
            made = cell.make()
            return self.data([*self.good[: self.place], made, *self.good[self.place + 1 :]], [*self.good, made])

        _, column = built()
        means = OPEN if cell is GOOD else None if cell is ABSENT else cell.means
        if self.column.stored and cell is not GOOD and cell is not ABSENT:
            with quiet():
                means = stored(column, self.place)
        key = None if cell is ABSENT and self.entry.several else self.entry.key(self.target, means)
        return Probe(cell, lambda: built()[0], key)

    def probes(self, cells: Sequence[Cell]) -> list[Probe]:
        """All neighbours that can be built, the harmless one first."""
        beside = cells if self.column.name in FIXED else ()
        with_absent = not self.entry.by_row and self.target in self.entry.columns
        made = []
        for cell in [GOOD, *([ABSENT] if with_absent else []), *cells]:
            try:
                made.append(self.probe(cell, beside))
            except BaseException as error:  # the caller's own code fails: there is no such data
                if cell is GOOD:
                    raise Unfit from error
        return made


def run(setting: Setting, cells: Sequence[Cell], entry: Entry | None = None) -> tuple[list[Finding], int]:
    """Compare the neighbours of one setting; what was found, and how many pairs were compared.

    Parameters
    ----------
    entry : Entry, optional
        To be called instead of the setting's own; for planted bugs.
    """
    if setting.column in FIXED and len(cells) > 1:
        parts = [run(setting, [cell], entry) for cell in cells]
        return [finding for found, _ in parts for finding in found], sum(count for _, count in parts)
    maker = Maker(setting)
    try:
        probes = maker.probes(cells)
    except Unfit:
        return [], 0
    books = Books()
    try:
        seen = [_seen(entry or maker.entry, probe, setting.environment, books) for probe in probes]
    finally:
        books.close()
    return list(_differences(setting, probes, seen)), len(probes) - 1


def _seen(entry: Entry, probe: Probe, environment: str, books: Books) -> Seen:
    data = probe.make()
    return observe(lambda: entry.call(data, books), environment, books.state)


def _differences(setting: Setting, probes: Sequence[Probe], seen: Sequence[Seen]) -> Iterator[Finding]:
    bits: dict[object, str] = {}
    harmless = seen[0]
    for probe, one in zip(probes, seen, strict=True):
        what = harmless.differs(one)
        if what is not None:
            yield Finding(setting, probe.cell.name, what, getattr(harmless, what), getattr(one, what))
        elif probe.key is not None and bits.setdefault(probe.key, one.bits) != one.bits:
            yield Finding(setting, probe.cell.name, "bits", bits[probe.key], one.bits)
    if harmless.error and not REFUSED.match(harmless.error):
        yield Finding(setting, GOOD.name, "foreign error", "nothing, or a refusal", harmless.error)


def settings(seed: int) -> Iterator[tuple[Setting, list[Cell]]]:
    """Groups without end: every kind of column in turn, each with a random call, place, environment and cells."""
    chance = random.Random(seed)
    kinds = [kind for kind in KINDS for _ in range(1 if kind[1].stored else 8)]
    while True:
        chance.shuffle(kinds)
        for table, column in kinds:
            entry = chance.choice([entry for entry in ENTRIES if entry.world == table.world])
            readable = [*entry.columns, "z"] if entry.world == "table" else list(entry.columns)
            target = table.target or chance.choice(readable)
            if target not in readable:
                continue
            way = chance.choice(WAYS)
            environment = chance.choice(["plain", *ENVIRONMENTS])
            # Polars dies of some objects before they are a column.
            some = chance.sample(CELLS, 12) if column.fill == "objects" else chance.sample(TAME, 4)
            yield Setting(entry.name, table.name, column.name, target, way, environment), [*column.own, *some]


def sweep(cases: int, seed: int) -> tuple[list[Finding], int]:
    """Run groups until `cases` pairs of neighbours are compared."""
    found: list[Finding] = []
    done = 0
    with stoppable():
        for setting, cells in settings(seed):
            if done >= cases:
                break
            findings, count = run(setting, cells)
            found += findings
            done += count
    return found, done

"""Tables that public calls return: DataFrames that print whole at 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import pandas as pd

LONGEST, LONGEST_NAME = 64, 36
"""Letters of a text and of a row's name on one line, where a table would be too wide; the rest follows below."""


class WideFrame(pd.DataFrame):
    """A DataFrame of released or public values that prints all of its columns and all of their texts.

    pandas leaves out, behind "...", what goes beyond a terminal's width and what is long; here further columns follow
    below, within ``pandas.options.display.width``. What is made of it is a plain DataFrame, and everything else is
    pandas' too.

    Examples
    --------
    >>> from dpstats.frames import WideFrame
    >>> table = WideFrame({f"a name of some length, {place}": [place] for place in range(9)})
    >>> max(map(len, repr(table).splitlines())) <= 80 and "..." not in repr(table)
    True
    """

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        with pd.option_context("display.max_columns", None, "display.max_colwidth", None):
            table, most = pd.DataFrame(self), pd.get_option("display.max_rows")
            written = repr(table)
            if most and len(table) > most:
                return written
            fits = max(map(len, written.splitlines())) <= pd.get_option("display.width")
            return written if fits else repr(_folded(table))


def _folded(table: pd.DataFrame) -> pd.DataFrame:
    """The table with rows added for what long texts and long names of rows go on with."""
    columns = [_on_lines(table.iloc[:, place]) for place in range(table.shape[1])]
    names, rows = [], []
    for name, *cells in zip(table.index, *columns, strict=True):
        named = textwrap.wrap(name, LONGEST_NAME, subsequent_indent="  ") if isinstance(name, str) else [name]
        lines = list(zip_longest(named or [""], *cells, fillvalue=""))
        names += [line[0] for line in lines]
        rows += [line[1:] for line in lines]
    index = pd.Index(names, dtype=object, name=table.index.name)
    return pd.DataFrame(rows, index, dtype=object).set_axis(table.columns, axis="columns")


def _on_lines(column: pd.Series[Any]) -> list[list[str]]:
    """The lines of each cell, as pandas writes it; to the left if there are long texts."""
    written = column.to_string(index=False, header=False).split("\n")
    if max(map(len, written)) <= LONGEST:
        return [[cell] for cell in written]
    lines = [textwrap.wrap(cell, LONGEST) or [""] for cell in written]
    width = max(len(line) for own in lines for line in own)
    return [[line.ljust(width) for line in own] for own in lines]

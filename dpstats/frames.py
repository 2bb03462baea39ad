"""Tables that public calls return: DataFrames that print whole at 80 columns."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

MOST_NAMED = 6  # names that a note lists
LARGE = 1e4  # estimates from here on are printed in whole numbers
TINY = 1e-16  # p-values below are printed as such
PRECISE = 2.5e-4  # times an estimate: an interval of smaller errors has ends that may be printed alike
MOST_DIGITS = 15  # of a float

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
            width = pd.get_option("display.width")
            if table.empty:
                return "\n".join(textwrap.fill(line, width) for line in written.splitlines())
            fits = max(map(len, written.splitlines())) <= width
            return written if fits else repr(_folded(table))


class ForecastFrame(WideFrame):
    """A DataFrame of forecasts that prints their ends only where they differ: of known rows they do not.

    Examples
    --------
    >>> from dpstats.frames import ForecastFrame
    >>> print(ForecastFrame({"std_error": [0.5], "lower": [0.5], "upper": [0.5]}, index=["x"]))
       std_error
    x        0.5
    lower, upper: as std_error
    """

    same: ClassVar[Mapping[str, Sequence[str]]] = {"std_error": ("lower", "upper"), "identified": ("identified_upper",)}

    def __repr__(self) -> str:
        equal = {
            name: [end for end in ends if end in self and self[end].equals(self[name])]
            for name, ends in self.same.items()
            if name in self
        }
        shown = WideFrame(pd.DataFrame(self).drop(columns=[end for ends in equal.values() for end in ends]))
        notes = "; ".join(f"{', '.join(ends)}: as {name}" for name, ends in equal.items() if ends)
        more = textwrap.fill(self.attrs.get("note", ""), pd.get_option("display.width"))
        return "\n".join([WideFrame.__repr__(shown), *filter(None, [notes, more])])


class NotedFrame(WideFrame):
    """A DataFrame that prints a note below, its ``attrs["note"]``.

    Examples
    --------
    >>> from dpstats.frames import NotedFrame
    >>> table = NotedFrame({"estimate": [0.5]}, index=["x"])
    >>> table.attrs["note"] = "not compared: z"
    >>> print(table)
       estimate
    x       0.5
    not compared: z
    """

    def __repr__(self) -> str:
        lines = [textwrap.fill(line, pd.get_option("display.width")) for line in self.attrs.get("note", "").split("\n")]
        return "\n".join([super().__repr__(), *filter(None, lines)])

    def _repr_html_(self) -> Any:
        """What notebooks show."""
        note = self.attrs.get("note", "")
        return super()._repr_html_() + (f"<p>{html.escape(note)}</p>" if note else "")  # type: ignore[misc]


class EffectFrame(NotedFrame):
    """A DataFrame of estimates that prints blank what is not identified, whose error is infinite, and names it below.

    An estimate is left of its error, what says of what it is further left or in the index. Four digits are printed, and
    of an estimate and its interval as many as tell them apart; the frame itself has all.

    Examples
    --------
    >>> from dpstats.frames import EffectFrame
    >>> print(EffectFrame({"g": ["a", "b"], "estimate": [0.5, 0.7], "std_error": [0.1, float("inf")]}))
       g estimate std_error
    0  a      0.5       0.1
    1  b
    not identified at this budget: b
    >>> print(EffectFrame({"estimate": [0.99998], "std_error": [1e-6], "conf_low": [0.999978]}))
      estimate  std_error  conf_low
    0  0.99998      1e-06  0.999978
    """

    errors: ClassVar[Sequence[str]] = ("std_error", "mean_se", "Std. Err.")
    pvalues: ClassVar[Sequence[str]] = ("p_value", "Pr(>|z|)")
    lows: ClassVar[Sequence[str]] = ("conf_low", "mean_ci_lower", "Conf. Int. Low")
    highs: ClassVar[Sequence[str]] = ("conf_high", "mean_ci_upper", "Conf. Int. Hi.")

    def _printed(self) -> NotedFrame:
        """The same with p-values that are printed alike, and with texts in the place of figures if one is blank."""
        table, at = pd.DataFrame(self), next((place for place, one in enumerate(self) if one in self.errors), None)
        # Zero stands for one that is smaller than any float.
        table = table.assign(**{name: table[name].replace(0.0, TINY / 2) for name in self.pvalues if name in table})
        note = self.attrs.get("note", "")
        if at is None:
            return _noted(table, note)
        unknown = table.iloc[:, at] == math.inf
        ends = [name for name in table if name in (*self.lows, *self.highs)]
        table = _told_apart(table, str(table.columns[at]), [table.columns[at - 1], *ends])
        if not unknown.any():
            return _noted(table, note)
        shown, figures = table.iloc[:, : at - 1], table.iloc[:, at - 1 :]
        for name, column in figures.items():
            texts = iter(column[~unknown].to_string(index=False, header=False).split("\n"))
            shown = shown.assign(**{str(name): ["" if blank else next(texts).strip() for blank in unknown]})
        named = [", ".join(map(str, cells)) for cells in table.loc[unknown].iloc[:, : at - 1].itertuples(index=False)]
        named = named if at > 1 else [str(one) for one in table.index[unknown]]
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        blank = f"not identified at this budget: {'; '.join(named[:MOST_NAMED])}{more}"
        return _noted(shown, "\n".join([blank, *filter(None, [note])]))

    def __repr__(self) -> str:
        with _few_digits():
            return "\n".join(map(str.rstrip, repr(self._printed()).split("\n")))

    def _repr_html_(self) -> Any:
        """What notebooks show."""
        with _few_digits():
            return self._printed()._repr_html_()

    def to_latex(self, buf: Any = None, **options: Any) -> Any:
        """As of any DataFrame, with the digits that are printed and with signs such as ``_`` and ``<`` as text."""
        with _few_digits():
            shown = {"float_format": pd.get_option("display.float_format"), "escape": True, **options}
            text = pd.DataFrame(self._printed()).to_latex(**shown).replace("<", r"\textless{}")
        if buf is None or hasattr(buf, "write"):
            return text if buf is None else buf.write(text)
        Path(buf).write_text(text, encoding="utf-8")
        return None


def _noted(table: pd.DataFrame, note: str) -> NotedFrame:
    """The table above the note."""
    noted = NotedFrame(table)
    noted.attrs["note"] = note
    return noted


def _told_apart(table: pd.DataFrame, error: str, columns: Sequence[str]) -> pd.DataFrame:
    """The table with texts in columns of estimates and ends, if some errors are beyond the digits that are printed."""
    errors = table[error]
    precise = (errors > 0) & (errors < PRECISE * table[columns[0]].abs())
    if not precise.any() or pd.get_option("display.float_format") is not four_digits:
        return table
    texts = {
        name: [
            _to_the_error(value, float(deviation)) if more else four_digits(value)
            for value, deviation, more in zip(table[name].tolist(), errors, precise, strict=True)
        ]
        for name in columns
    }
    return table.assign(**texts)


def _to_the_error(value: float, error: float) -> str:
    """A number up to the second digit of its error."""
    if not math.isfinite(value) or value == 0:
        return four_digits(value)
    digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(error)) + 2
    return f"{value:,.{min(max(digits, 4), MOST_DIGITS)}g}"


def _few_digits() -> Any:
    """Four significant digits in what pandas prints, unless the user has chosen a format."""
    return pd.option_context("display.float_format", pd.get_option("display.float_format") or four_digits)


def four_digits(value: float) -> str:
    """A number as tables print it; very small ones, which are p-values, by their bound."""
    if 0 < value < TINY:
        return f"<{TINY:g}"
    return f"{value:,.0f}" if abs(value) >= LARGE else f"{value:.4g}"


class SpendingFrame(WideFrame):
    """A DataFrame of sums spent that prints the columns in which there is something, and names the others.

    Columns without a number have nothing in them, and those of delta where all of them are zero.

    Examples
    --------
    >>> from dpstats.frames import SpendingFrame
    >>> print(SpendingFrame({"eps": [0.5], "delta": [0.0], "rho": [float("nan")]}, index=["Ada"]))
         eps
    Ada  0.5
    not printed: delta, rho
    """

    def __repr__(self) -> str:
        deltas = [name for name in self if "delta" in str(name)]
        pure = all(_is_blank(self[name]) for name in deltas)
        hidden = [name for name in self if len(self) and (self[name].isna().all() or (pure and name in deltas))]
        shown = WideFrame.__repr__(WideFrame(pd.DataFrame(self).drop(columns=hidden)))
        names = textwrap.fill(f"not printed: {', '.join(map(str, hidden))}", pd.get_option("display.width"))
        return "\n".join([*map(str.rstrip, shown.split("\n")), *([names] if hidden else [])])


class LogFrame(WideFrame):
    """A DataFrame of dated entries that prints the columns which a reader looks for, and names the others.

    Times are printed to the minute, texts go on in further lines, and columns with nothing in them are left out. The
    frame itself has every column and every digit.

    Examples
    --------
    >>> from dpstats.frames import LogFrame
    >>> print(LogFrame({"eps": [0.5, 0.25], "label": ["a count", "a mean"], "plan_hash": ["0e0e" * 16] * 2}))
        eps    label
    0   0.5  a count
    1  0.25  a mean
    [2 rows x 3 columns; not printed: plan_hash]
    """

    printed: ClassVar[Sequence[str]] = ("time", "eps", "delta", "rho", "by_analyst", "analyst", "part", "state")
    """The columns printed, beside label and formula of an entry."""

    def __repr__(self) -> str:
        most, width = pd.get_option("display.max_rows"), pd.get_option("display.width")
        half = len(self) if not most or len(self) <= most else FEW_ROWS
        table = pd.DataFrame(self)
        rows = pd.concat([table.head(half), table.tail(min(half, len(table) - half))])
        shown = [name for name in self.printed if name in table and not _is_blank(table[name])]
        cells = {name: [_on_short_lines(_entry_cell(value), SHORT_CELL) for value in rows[name]] for name in shown}
        index = [str(label) for label in rows.index]
        texts = [self._about(rows)] if "label" in rows and len(rows) else []
        if not cells and not texts:
            return super().__repr__()
        room = width - max(map(len, [*index, str(table.index.name or "")]))
        room -= sum(max(map(len, [name, *"\n".join(cells[name]).split("\n")])) + 2 for name in shown) + 2
        for name, about in texts:
            cells[name] = [_on_short_lines(text, max(room, LEAST_TEXT)) for text in about]
        lines: list[tuple[str, ...]] = []
        for place, row in enumerate(zip(index, *cells.values(), strict=True)):
            lines += [("...",) * len(row)] if place == half else []  # of the entries left out
            lines += zip_longest(*(cell.split("\n") for cell in row), fillvalue="")
        made = pd.DataFrame([line[1:] for line in lines], columns=list(cells), dtype=object)
        for name in (name for name, _ in texts):
            made[name] = made[name].str.ljust(max(map(len, made[name])))
        made.index = pd.Index([line[0] for line in lines], name=table.index.name)
        headings = {part for name, _ in texts for part in name.split("; ")}
        hidden = [str(name) for name in table if name not in shown and name not in headings]
        size = f"[{table.shape[0]} rows x {table.shape[1]} columns"
        size += f"; not printed: {', '.join(hidden)}]" if hidden else "]"
        return "\n".join([*map(str.rstrip, made.to_string().split("\n")), textwrap.fill(size, width)])

    @staticmethod
    def _about(rows: pd.DataFrame) -> tuple[str, list[str]]:
        """What entries are about: a heading, and their labels, with formulas that these do not name."""
        labels = [_entry_cell(value) for value in rows["label"]]
        formulas = [_entry_cell(value) for value in rows["formula"]] if "formula" in rows else [""] * len(labels)
        both = [
            f"{label}; {formula}" if formula and formula not in label else label
            for label, formula in zip(labels, formulas, strict=True)
        ]
        return "label; formula" if any(formulas) else "label", both


FEW_ROWS = 5  # of a long log, the first and the last are printed
SHORT_CELL, LEAST_TEXT = 17, 12  # letters of a name, and at least of a text, on a line


def _is_nothing(value: object) -> bool:
    return value is None or value == "" or value != value


def _is_blank(column: pd.Series[Any]) -> bool:
    """Whether there is nothing in a column, or only zeros."""
    return all(_is_nothing(value) or value == 0 for value in column)


def _on_short_lines(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width))


def _entry_cell(value: Any) -> str:
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d %H:%M")
    if _is_nothing(value):
        return ""
    # Nothing that could steer a terminal.
    letters = (letter if letter.isprintable() else " " for letter in str(value))
    return f"{value:.6g}" if isinstance(value, float) else " ".join("".join(letters).split())


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

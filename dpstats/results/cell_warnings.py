"""What is wrong with the cells of rows for prediction, in warnings: columns and counts, but no cell."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from dpstats.data import Table
from dpstats.domain import Levels
from dpstats.formula.design import DesignSpec
from dpstats.formula.faults import cell_faults
from dpstats.wording import joined

MOST_LEVELS, MOST_COLUMNS = 12, 6  # declared levels, and columns, that a warning lists

SEVERAL = {
    "levels": "have levels that the Domain does not declare, and no prediction (NaN)",
    "clipped": "have columns outside of their ranges, for which the model takes the nearer ends",
    "extrapolated": "have columns outside of limits beyond which the fit left rows out: their predictions are "
    "extrapolations",
    "held": "have columns outside of limits beyond which the fit left rows out: their predictions are extrapolations, "
    "in which splines and polynomials stay as they are at the nearer ends of the declared ranges",
}
"""What is wrong with rows, and what becomes of them, where that is so of several columns."""


def warn_of_cells(design: DesignSpec, table: Table, *, offset: bool) -> None:
    """Warn of rows for prediction with cells missing, not declared or clipped, once for each that this does to them."""
    faults = cell_faults(design, table, offset=offset)
    wrong = []
    if faults.rows_missing:
        which = joined(_first([repr(name) for name in faults.missing]), "or")
        lost = f"have no value of {which}, and no prediction (NaN)"
        wrong.append(f"{faults.rows_missing:,} of {table.rows:,} rows {lost}")
    for name, rows in faults.not_positive.items():
        lost = f"have {name!r} of 0 or less, and no prediction (NaN): an exposure must be positive"
        wrong.append(f"{rows:,} of {table.rows:,} rows {lost}")
    for text in [*wrong, *_beyond(design, faults.beyond, table.rows)]:
        warnings.warn(f"newdata: {text}", UserWarning, stacklevel=4)


def _first(columns: list[str]) -> list[str]:
    """The first of some columns, and how many more there are: one more is named too."""
    more = len(columns) - MOST_COLUMNS
    return [*columns[:MOST_COLUMNS], f"{more} more columns"] if more > 1 else columns


def _beyond(design: DesignSpec, beyond: Mapping[str, int], rows: int) -> list[str]:
    """On the rows with cells beyond what is declared, by column: columns alike in what becomes of the rows together."""
    alike: dict[str, list[tuple[str, int]]] = {}
    for name, count in beyond.items():
        declared = design.model_domain[name]
        if isinstance(declared, Levels):
            kind = "levels"
        elif not declared.drops:
            kind = "clipped"
        else:
            kind = "held" if name in design.parsed.held_columns else "extrapolated"
        alike.setdefault(kind, []).append((name, count))
    return [
        f"{group[0][1]:,} of {rows:,} rows {_one(design, group[0][0])}"
        if len(group) == 1
        else f"some of {rows:,} rows {SEVERAL[kind]}: "
        + joined(_first([f"{name!r} {_limits(design, name)} in {n:,} row{'s' * (n != 1)}" for name, n in group]))
        for kind, group in alike.items()
    ]


def _limits(design: DesignSpec, name: str) -> str:
    """What is declared of a column, in brackets."""
    declared = design.model_domain[name]
    if isinstance(declared, Levels):
        levels = ", ".join(map(repr, declared.values[:MOST_LEVELS]))
        return f"({levels}{', ...' * (len(declared.values) > MOST_LEVELS)})"
    low, high = declared.interval
    return f"({low:g}, {high:g})"


def _one(design: DesignSpec, name: str) -> str:
    """What is wrong with rows of one column, and what becomes of them."""
    declared, limits = design.model_domain[name], _limits(design, name)
    if declared != design.domain[name]:
        return (
            f"have a level of {name!r} that the model does not have, and no prediction (NaN); its subset keeps "
            f"{limits[1:-1]}"
        )
    if isinstance(declared, Levels):
        return (
            f"have a level of {name!r} that the Domain does not declare, and no prediction (NaN); declared are "
            f"{limits[1:-1]}"
        )
    if not declared.drops:
        return f"have {name!r} outside of its range {limits}, for which the model takes the nearer end"
    wrong = f"have {name!r} outside of {limits}, beyond which the fit left rows out: their predictions are "
    wrong += "extrapolations"
    if name in design.parsed.held_columns:  # whose basis is of the whole range, not of an interval in it
        whole = (declared.low, declared.high)
        where = "in which" if whole == declared.interval else f"and beyond ({whole[0]:g}, {whole[1]:g})"
        wrong += f", {where} splines and polynomials stay as they are at the nearer end"
    return wrong

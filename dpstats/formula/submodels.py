"""Rows drawn evenly from the Domain alone, and which columns of a design they show to be combinations of others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Domain, Levels
from dpstats.errors import FormulaError
from dpstats.formula.design import DesignSpec
from dpstats.quiet import quiet

Array = NDArray[np.float64]

ROWS_A_COLUMN = 50
"""Made-up rows for each column, so that every level and most pairs of levels occur."""

LEAST_ROWS = 2000

SUBMODEL_SEED = 20_261_122
"""Public: the rows are a function of the Domain."""

EXACT = 1e-7
"""A column is a combination of others if it differs from one by so much of its own root mean square at most."""


def combinations(whole: DesignSpec, part: DesignSpec) -> tuple[Array, Array]:
    """T, (p + 1, q), and t, (p + 1,), with x = T'w and y = t'w, for rows w = (x, y) of `whole` and x, y of `part`.

    All in model units; both of the same Domain, and `part` reads no column that `whole` does not. Raises FormulaError
    if a column of `part` or its response is no linear combination of what `whole` has, or the columns of `part` depend
    on each other.
    """
    count = max(LEAST_ROWS, ROWS_A_COLUMN * len(whole.names))
    rows = uniform_rows(whole.support, count)
    known, wanted = _stacked(whole, rows), _stacked(part, rows)
    complete = np.isfinite(known).all(axis=1) & np.isfinite(wanted).all(axis=1)
    known, wanted = known[complete], wanted[complete]
    transform: Array = np.asarray(np.linalg.lstsq(known, wanted, rcond=1e-10)[0], dtype=np.float64)
    missed = np.sqrt(np.mean((known @ transform - wanted) ** 2, axis=0) / np.mean(wanted**2, axis=0))
    names = [*part.names, part.response_name]
    # A comparison with NaN, where no row is complete, is a miss too.
    strangers = [name for name, share in zip(names, missed, strict=True) if not share <= EXACT]
    if strangers:
        raise FormulaError(
            f"{strangers[0]!r} is not a combination of the columns whose statistics were released: "
            f"{whole.response_name}, {', '.join(whole.names)}"
        )
    if np.linalg.matrix_rank(wanted[:, :-1] / np.linalg.norm(wanted[:, :-1], axis=0), tol=1e-7) < len(part.names):
        raise FormulaError(
            f"the columns of {part.formula!r} are linearly dependent, so the statistics do not determine "
            "coefficients; leave out one column, or the intercept with '0 +'"
        )
    transform[np.abs(transform) <= EXACT * np.abs(transform).max(axis=0)] = 0.0
    return transform[:, :-1], transform[:, -1]


def uniform_rows(domain: Domain, count: int) -> dict[str, Any]:
    """Columns of independent uniform values within the declared ranges and levels, a function of the Domain alone."""
    random = np.random.default_rng(SUBMODEL_SEED)
    rows: dict[str, Any] = {}
    for name in domain:
        declared = domain[name]
        if isinstance(declared, Levels):
            values = declared.values
            rows[name] = [values[code] for code in random.integers(0, len(values), count)]
        else:
            share = random.random(count)
            rows[name] = declared.low * (1 - share) + declared.high * share
    return rows


def _stacked(spec: DesignSpec, rows: dict[str, Any]) -> Array:
    """Columns and response of the rows, shape (rows, p + 1)."""
    return np.column_stack([spec.exog(rows)[0], spec.endog(rows)])


SEED = 4021
"""Public: what is made up tells nothing of any data."""


def uniform_columns(domain: Domain, count: int, random: np.random.Generator) -> dict[str, Any]:
    """Columns of `count` rows drawn evenly from a Domain."""
    table: dict[str, Any] = {}
    for name, declared in domain.items():
        if isinstance(declared, Levels):
            table[name] = [declared.values[code] for code in random.integers(len(declared.values), size=count)]
        else:
            table[name] = random.uniform(declared.low, declared.high, count)
    return table


def uniform_exog(design: DesignSpec, count: int = 4096) -> NDArray[np.float64]:
    """Rows of the design's columns in model units, shape (at most count, p); rows that have no value are left out."""
    table = uniform_columns(design.support, count, np.random.default_rng(SEED))
    with quiet():
        exog, complete = design.exog(table)
    return exog[complete]

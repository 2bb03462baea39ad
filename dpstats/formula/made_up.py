"""Rows drawn from the Domain alone: evenly over ranges and levels, or as data often are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Domain, Levels
from dpstats.formula.design import DesignSpec
from dpstats.quiet import quiet

SPREAD, ONES = 0.125, 0.3
"""Of uneven columns: the standard deviation of a number over its range, and the share of ones of 0 and 1."""

SEED = 4021
"""Public: what is made up tells nothing of any data."""


def made_up_columns(domain: Domain, count: int, random: np.random.Generator) -> dict[str, Any]:
    """Columns of `count` rows drawn evenly from a Domain."""
    table: dict[str, Any] = {}
    for name, declared in domain.items():
        if isinstance(declared, Levels):
            table[name] = [declared.values[code] for code in random.integers(len(declared.values), size=count)]
        else:
            table[name] = random.uniform(declared.low, declared.high, count)
    return table


def uneven_columns(domain: Domain, count: int, random: np.random.Generator) -> dict[str, Any]:
    """Columns of `count` rows as data often are: normal about the middle of their range, levels ever rarer.

    The standard deviation of a number is an eighth of its range, the second level is half as common as the first and so
    on, and of a column of 0 and 1 three rows in ten are 1.
    """
    table: dict[str, Any] = {}
    for name, declared in domain.items():
        if isinstance(declared, Levels):
            shares = 1 / np.arange(1, len(declared.values) + 1)
            codes = random.choice(len(declared.values), size=count, p=shares / shares.sum())
            table[name] = [declared.values[code] for code in codes]
        elif (declared.low, declared.high) == (0, 1) and isinstance(declared.high, int):
            table[name] = (random.uniform(size=count) < ONES).astype(np.float64)
        else:
            middle, width = declared.low / 2 + declared.high / 2, declared.high - declared.low
            numbers = middle + width * SPREAD * random.standard_normal(count)
            table[name] = np.clip(numbers, declared.low, declared.high)
    return table


def made_up_exog(design: DesignSpec, count: int = 4096) -> NDArray[np.float64]:
    """Rows of the design's columns in model units, shape (at most count, p); rows that have no value are left out."""
    table = made_up_columns(design.domain, count, np.random.default_rng(SEED))
    with quiet():
        exog, complete = design.exog(table)
    return exog[complete]

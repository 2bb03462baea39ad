"""Rows drawn evenly from the Domain alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Domain, Levels
from dpstats.formula.design import DesignSpec
from dpstats.quiet import quiet

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


def made_up_exog(design: DesignSpec, count: int = 4096) -> NDArray[np.float64]:
    """Rows of the design's columns in model units, shape (at most count, p); rows that have no value are left out."""
    table = made_up_columns(design.domain, count, np.random.default_rng(SEED))
    with quiet():
        exog, complete = design.exog(table)
    return exog[complete]

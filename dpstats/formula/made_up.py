"""Rows drawn from the Domain alone: numbers uniform over their range, levels alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Levels
from dpstats.formula.design import DesignSpec
from dpstats.quiet import quiet

SEED = 4021
"""Public: what is made up tells nothing of any data."""


def made_up_exog(design: DesignSpec, count: int = 4096) -> NDArray[np.float64]:
    """Rows of the design's columns in model units, shape (at most count, p); rows that have no value are left out."""
    random = np.random.default_rng(SEED)
    table: dict[str, NDArray[np.generic] | list[object]] = {}
    for name, declared in design.domain.items():
        if isinstance(declared, Levels):
            table[name] = [declared.values[code] for code in random.integers(len(declared.values), size=count)]
        else:
            table[name] = random.uniform(declared.low, declared.high, count)
    with quiet():
        exog, complete = design.exog(table)
    return exog[complete]

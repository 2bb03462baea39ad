"""How much columns vary by their declaration: what makes a choice of columns even between numbers and 0/1 columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Range
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import Column

Vector = NDArray[np.float64]

SPREAD_POWER = 0.75
"""The power of its spread by which a term counts less in a choice (benchmarks.inference.sparse_mixed).

With 0 noise hides all terms alike, and a 0/1 column, which always moves through its whole range, is chosen before a
number that it is correlated with. With 1 columns compare as correlations do, and noise hides active 0/1 columns.
"""

USUAL_SPREAD = 1 / 3
"""The standard deviation of a number over half of its range, where no typical one is declared."""


FILLED_SPREAD = 3**-0.5
"""The same of a number that fills its range evenly."""


def declared_spreads(design: DesignSpec, usual: float = USUAL_SPREAD) -> Vector:
    """The standard deviation of each column by the Domain alone, in model units, shape (p,).

    That of numbers without a typical one is `usual` over half of their range. 0/1 columns and factors are taken as
    balanced unless a share is declared. An intercept has none.
    """
    nodes = {factor.code: factor.node for term in design.parsed.terms for factor in term}
    half = (design.upper - design.lower) / 2
    spreads = np.zeros(len(design.names))
    for term, columns in design.coding.term_slices.items():
        read = [nodes[factor.code] for factor in term.factors if design.coding.factor_infos[factor].type == "numerical"]
        declared = [design.domain[node.name] if isinstance(node, Column) else None for node in read]
        known = declared[0] if len(term.factors) == len(declared) == 1 else None
        if isinstance(known, Range) and known.typical is not None:
            spreads[columns] = np.minimum(known.typical[1], half[columns])
        elif declared and all(isinstance(one, Range) and one.is_binary for one in declared):
            spreads[columns] = half[columns]
        elif declared:
            spreads[columns] = usual * half[columns]
        elif term.factors:
            share = 1 / (columns.stop - columns.start + 1)
            spreads[columns] = 2 * half[columns] * np.sqrt(share * (1 - share))
    return np.asarray(spreads / design.scale, dtype=np.float64)


def balancing_weights(spreads: Vector) -> Vector:
    """What terms of these spreads over their reach count in a choice, in (0, 1]: the less, the more they vary.

    None of the spreads counts as less than `USUAL_SPREAD`: one term of little spread would lower all others.
    """
    floored = np.maximum(spreads, USUAL_SPREAD * (1 + 1e-6))  # so that rounding does not tell numbers apart
    return np.asarray((floored.min(initial=np.inf) / floored) ** SPREAD_POWER, dtype=np.float64)

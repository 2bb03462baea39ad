"""Which columns are the dummies of a factor beside an intercept (docs/proofs/inference, 4)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from patsy.design_info import DesignInfo, SubtermInfo

from dpstats.formula.coding import placed_subterms
from dpstats.inference import Dummies

Array = NDArray[np.float64]


def coded_dummies(info: DesignInfo, center: Array, scale: Array) -> tuple[Dummies, ...]:
    """The subterms of which each combination of levels but one has a dummy of its own, beside an intercept.

    Parameters
    ----------
    info : DesignInfo
    center, scale : ndarray, shape (p,)
        A column in model units is (x - center) / scale.
    """
    if "Intercept" not in info.column_names:
        return ()
    base = info.column_names.index("Intercept")
    found = []
    for place, subterm in placed_subterms(info):
        if not subterm.factors or any(factor not in subterm.contrast_matrices for factor in subterm.factors):
            continue
        columns, codes = range(place.start, place.stop), _codes(subterm)
        used = codes != 0
        alone = np.all(used.sum(axis=0) == 1) and np.all(used.sum(axis=1) <= 1) and np.all(codes >= 0)
        if alone and np.sum(~used.any(axis=1)) == 1 and not center[list(columns)].any():
            sizes = codes.max(axis=0) / scale[list(columns)]
            found.append(Dummies(base, 1 / float(scale[base]), tuple(columns), tuple(sizes.tolist())))
    return tuple(found)


def restricted_dummies(factors: tuple[Dummies, ...], kept: NDArray[np.intp]) -> tuple[Dummies, ...]:
    """The factors all of whose columns are among `kept`, renumbered."""
    place = {int(column): position for position, column in enumerate(kept)}
    return tuple(
        replace(factor, base=place[factor.base], columns=tuple(place[column] for column in factor.columns))
        for factor in factors
        if {factor.base, *factor.columns} <= set(place)
    )


def _codes(subterm: SubtermInfo) -> Array:
    """The coding matrix of a subterm of factors: a row for each combination of levels, the first varying fastest."""
    codes = np.ones((1, 1))
    for factor in subterm.factors:
        matrix = np.asarray(subterm.contrast_matrices[factor].matrix, dtype=np.float64)
        codes = np.asarray(np.kron(matrix, codes), dtype=np.float64)
    return codes

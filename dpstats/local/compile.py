"""From formula and Domain to the plain program that encodes one record (`dpstats.local.encoding`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpstats.domain import Domain
from dpstats.errors import FormulaError
from dpstats.families import get_family
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.formula.expression import columns_of
from dpstats.local.encoding import Program
from dpstats.mechanisms.calibration import typical_sizes


def local_design(formula: str, domain: Domain | Mapping[str, Any], family: str) -> DesignSpec:
    """The design of a local specification; no rows are read. Errors as in `design_spec`."""
    design = design_spec(formula, domain, family=get_family(family))
    if any(part is not None for part in (design.weights, design.offset, design.subset, design.response.trials)):
        raise FormulaError(
            "formula: weights, offsets, subsets and counts of trials are not part of a contributor's report"
        )
    return design


# Norm of fitted coefficients relative to the typical one; see benchmarks.defaults.local
SHRUNK = {"gaussian": 1.0, "binomial": 0.5}


def typical_radius(design: DesignSpec, family: str) -> float:
    """The norm of the coefficients, in model units, that the noise is shared out for (docs/proofs/local, 1)."""
    return SHRUNK[family] * float(np.linalg.norm(typical_sizes(get_family(family), design)))


def compile_program(design: DesignSpec) -> Program:
    """The design as plain data."""
    info, response = design.coding, design.encoder
    factors = list(info.factor_infos)
    subterms = tuple(
        tuple((factors.index(factor), _coding(subterm, factor)) for factor in subterm.factors)
        for _, subterm in design.subterms
    )
    explaining = [name for factor in factors for name in columns_of(factor.node)]
    return Program(
        exog_domain=Domain({name: design.domain[name] for name in dict.fromkeys(explaining)}),
        endog_domain=Domain({name: response.domain[name] for name in dict.fromkeys(columns_of(response.node))}),
        response=design.response,
        factors=tuple(factor.code for factor in factors),
        subterms=subterms,
        lower=design.lower,
        upper=design.upper,
        center=design.center,
        scale=design.scale,
        shrunk=tuple((term.columns.start, term.columns.stop, term.l2, term.l1) for term in design.shrunk),
    )


def _coding(subterm: Any, factor: Any) -> Any:
    """The coding matrix of a factor of levels; None for a numeric one."""
    contrast = subterm.contrast_matrices.get(factor)
    return None if contrast is None else np.asarray(contrast.matrix, dtype=np.float64)

"""Where an expression has no finite value on the declared ranges: rows there are left out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dpstats.domain import Domain, Range
from dpstats.formula.expression import bind, columns_of, evaluate
from dpstats.formula.parse import Formula

POINTS = 401
"""Values of a column that are tried, evenly over its range."""


def gap_notes(parsed: Formula, domain: Domain, partial: Iterable[str]) -> tuple[str, ...]:
    """A sentence on each expression of `partial`, from public facts alone.

    Parameters
    ----------
    parsed : Formula
    domain : Domain
        Of all its columns.
    partial : iterable of str
        Expressions as the formula writes them that are not finite on all of the declared ranges.
    """
    places = {code: _place(parsed, domain, code) or "on part of the declared ranges" for code in partial}
    return tuple(
        f"{code} is not finite {place}: rows there are left out{_logarithm(domain, code)}"
        for code, place in places.items()
    )


def _logarithm(domain: Domain, code: str) -> str:
    """A word on what may be a logarithm already: an exposure that is declared to be negative."""
    name = code.removeprefix("offset(np.log(").removesuffix("))")
    declared = domain.get(name)
    if name == code or not isinstance(declared, Range) or declared.low >= 0:
        return ""
    return f"; if {name} is a logarithm already, it is an offset and no exposure"


def _place(parsed: Formula, domain: Domain, code: str) -> str:
    """For which values of its column an expression is not finite; empty where it has several, or none was tried."""
    factors = [parsed.response, *(factor for term in parsed.terms for factor in term), *parsed.offsets]
    node = next((factor.node for factor in factors if factor.code == code), None)
    columns = [] if node is None else list(dict.fromkeys(columns_of(node)))
    if node is None or len(columns) != 1 or not isinstance(declared := domain[columns[0]], Range):
        return ""
    name, tried = columns[0], np.linspace(declared.low, declared.high, POINTS)
    values = evaluate(bind(node, domain), {name: tried})
    if not isinstance(values, np.ndarray) or values.shape != tried.shape or values.dtype.kind not in "fiub":
        return ""
    missing = tried[~np.isfinite(values)]
    if not len(missing):
        return ""
    low, high = float(missing[0]), float(missing[-1])
    return f"at {name} = {low:.4g}" if low == high else f"for {name} from {low:.4g} to {high:.4g}"

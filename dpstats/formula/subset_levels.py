"""Levels that no row of a subset has, which are no levels of the model, as in R and statsmodels."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Domain, Levels, canonical
from dpstats.errors import FormulaError
from dpstats.formula.expression import (
    Apply,
    Column,
    Node,
    as_codes,
    categorical,
    columns_of,
    evaluate,
    is_among_levels,
    only_levels,
    truths,
)
from dpstats.formula.parse import Factor, Formula
from dpstats.formula.public_frame import MOST_LEVEL_COMBINATIONS, Codes, Encoded, public_frame
from dpstats.formula.syntax import locate

Truth = NDArray[np.bool_]


def met_levels(formula: Formula, domain: Domain) -> dict[str, Truth]:
    """Of columns of which the subset keeps some levels alone: which it may keep, whatever the other columns are.

    Of formula and Domain alone. A comparison of numbers counts as open, so that a level is left out for certain.
    """
    if formula.subset is None:
        return {}
    declared = {name: one for name in formula.subset_columns if isinstance(one := domain[name], Levels)}
    if not declared or math.prod(len(one.values) for one in declared.values()) > MOST_LEVEL_COMBINATIONS:
        return {}
    rows = public_frame(domain, tuple(declared))
    _, may_be = _truth(formula.subset.node, rows, set(declared))
    met = {}
    for name, one in declared.items():
        codes = rows[name]
        assert isinstance(codes, Codes)
        met[name] = np.bincount(codes.values, np.broadcast_to(may_be, codes.values.shape), len(one.values)) > 0
    return {name: kept for name, kept in met.items() if kept.any() and not kept.all()}


def _truth(node: Node, rows: dict[str, Encoded], known: set[str]) -> tuple[Truth, Truth]:
    """In which rows a condition is certain, and in which it may be met, where other columns are open."""
    if isinstance(node, Apply) and set(columns_of(node)) <= known:
        value = np.asarray(evaluate(node, rows), dtype=bool)
        return value, value
    open_truth = np.array([False]), np.array([True])
    if not (isinstance(node, Apply) and isinstance(node.function, partial) and node.function.func is truths):
        return open_truth
    function, parts = node.function.args[0], [_truth(one, rows, known) for one in node.arguments]
    if function is np.logical_not:
        return ~parts[0][1], ~parts[0][0]
    if function not in (np.logical_and, np.logical_or):
        return open_truth
    certain, may_be = (function(*ends) for ends in zip(*parts, strict=True))
    return certain, may_be


def without_unmet(formula: Formula, domain: Domain) -> Formula:
    """The formula whose factors have no levels that no row of its subset has."""
    met = met_levels(formula, domain)
    return replace(formula, terms=tuple(tuple(_kept(one, met, domain) for one in term) for term in formula.terms))


def leaves_out_levels(formula: Formula) -> bool:
    """Whether a formula is one that `without_unmet` changed."""
    return any(is_among_levels(factor.node) for term in formula.terms for factor in term)


def model_domain(formula: Formula, domain: Domain) -> Domain:
    """The Domain with the levels that the factors of `without_unmet` have, of columns of which it left out some."""
    met, read = met_levels(formula, domain) if leaves_out_levels(formula) else {}, formula.exog_columns
    levels = {name: one.values for name in met if name in read and isinstance(one := domain[name], Levels)}
    return domain.with_({name: Levels(tuple(itertools.compress(own, met[name]))) for name, own in levels.items()})


def _kept(factor: Factor, met: dict[str, Truth], domain: Domain) -> Factor:
    """A factor of a column's levels among those that are met."""
    node = factor.node
    coded = isinstance(node, Apply) and isinstance(node.function, partial) and node.function.func is categorical
    column = node.arguments[0] if coded and isinstance(node, Apply) else node
    if not isinstance(column, Column) or column.name not in met:
        return factor
    levels = domain[column.name]
    assert isinstance(levels, Levels)
    plain = Codes(np.arange(len(levels.values)), levels.values)
    order = as_codes(evaluate(node, {column.name: plain}))  # C(g, levels=[...]) has them in another one
    assert order is not None
    reference = getattr(order.contrast, "reference", None)
    left_out = [level for level, one in zip(levels.values, met[column.name], strict=True) if not one]
    if isinstance(reference, str) and canonical(reference) in map(canonical, left_out):
        raise FormulaError(
            locate(f"{factor.code}: no row of the subset has the reference {reference!r}; write another", factor.at)
        )
    kept = np.zeros(len(levels.values), dtype=bool)
    kept[order.values] = met[column.name]
    return replace(factor, node=Apply(factor.code, partial(only_levels, kept=tuple(kept.tolist())), (node,)))

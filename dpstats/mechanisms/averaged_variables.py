"""Variables of a formula whose change is averaged over rows, and the factor by whose levels
(docs/proofs/fit_statistics, 5)."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from dpstats import wording
from dpstats.arguments import near_miss, safe_repr
from dpstats.errors import ArgumentError
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import Column, columns_of
from dpstats.inference import Dummies
from dpstats.mechanisms.design import Bounds, PublicDesign
from dpstats.mechanisms.options import NamedVariables


class Step(NamedTuple):
    """A change of a number, which moves one column of every row."""

    column: int
    amount: float  # in model units


class Variable(NamedTuple):
    """A term of one factor that reads one column of the data: a factor with its levels, or a plain number."""

    name: str  # as the formula writes it
    column_name: str  # of the data
    factor: Dummies | None
    levels: tuple[Any, ...]  # the reference first
    column: int  # the first one
    unit: float  # what a unit of a number adds to its column in model units
    alone: bool  # no other term reads the data's column: a change moves these columns of the design alone

    def step(self, size: float) -> Step:
        """A change of a number."""
        return Step(self.column, size * self.unit)


def formula_variables(design: Bounds) -> dict[str, Variable]:
    """By column of the data, the variables that have a term of their own."""
    if not isinstance(design, DesignSpec):
        return {}
    nodes = {factor.code: factor.node for term in design.parsed.terms for factor in term}
    read = Counter(name for term in design.parsed.terms for name in {c for f in term for c in columns_of(f.node)})
    found: dict[str, Variable] = {}
    for term in design.coding.terms:
        code = term.factors[0].code if len(term.factors) == 1 else None
        names = () if code is None else columns_of(nodes[code])
        if code is None or len(names) != 1:
            continue
        column, alone = design.coding.term_slices[term].start, read[names[0]] == 1
        factor = next((one for one in design.dummies if one.columns[:1] == (column,)), None)
        if factor is not None:
            found[names[0]] = Variable(code, names[0], factor, level_names(design, factor), column, 0.0, alone)
        elif isinstance(nodes[code], Column) and design.coding.factor_infos[term.factors[0]].type == "numerical":
            found[names[0]] = Variable(code, names[0], None, (), column, 1 / float(design.scale[column]), alone)
    return found


def divided_variables(design: Bounds) -> list[str]:
    """Columns of the data that move several columns of the design and are no factor by themselves."""
    if not isinstance(design, DesignSpec):
        return []
    nodes = {factor.code: factor.node for term in design.parsed.terms for factor in term}
    sizes: Counter[str] = Counter()
    for term, place in design.coding.term_slices.items():
        for name in {name for factor in term.factors for name in columns_of(nodes[factor.code])}:
            sizes[name] += place.stop - place.start
    alone = {name for name, one in formula_variables(design).items() if one.alone}
    return [name for name, size in sizes.items() if size > 1 and name not in alone]


def level_names(design: DesignSpec, factor: Dummies) -> tuple[Any, ...]:
    """The levels of a factor, the reference first, then as its columns stand."""
    term = next(one for one, place in design.coding.term_slices.items() if place.start == factor.columns[0])
    categories = design.coding.factor_infos[term.factors[0]].categories
    codes = design.coding.term_codings[term][0].contrast_matrices[term.factors[0]].matrix
    order = [int(np.flatnonzero(column)[0]) for column in np.asarray(codes).T]
    reference = next(place for place in range(len(categories)) if place not in order)
    return tuple(categories[place] for place in (reference, *order))


def find_variable(argument: str, design: Bounds, name: str, *, groups: bool = False, alone: bool = True) -> Variable:
    """The variable of a name, the data's or the formula's: one to change, or a factor to take averages by."""
    variables = formula_variables(design)
    right = [one for one in variables.values() if (one.factor is not None if groups else one.alone or not alone)]
    for one in right:
        if isinstance(name, str) and name in (one.column_name, one.name):
            return one
    wanted = "a factor" if groups else "a factor or a plain number"
    which = "whose column no other term reads" if alone and not groups else "with a term of its own"
    known = ", ".join(one.column_name for one in right) or "this formula has none"
    fix = ""
    if isinstance(name, str) and isinstance(design, DesignSpec) and name in design.parsed.exog_columns:
        free = {"variables": "newdata=", "fitstats_variables": "fit.comparisons(..., newdata=...)"}.get(argument)
        fix = f"; {free} changes any column, at public rows and at no charge" if free else ""
    elif isinstance(name, str) and isinstance(design, DesignSpec):
        near = near_miss(name, [one.column_name for one in right])
        bought = wording.argument("fitstats_by", name) if groups else wording.argument("fitstats_variables")
        planned = "" if argument.startswith("fitstats") else f", and {bought} to the call of the fit"
        fix = f": did you mean {near!r}?" if near else f", which is not in the formula: add it there{planned}"
    raise ArgumentError(f"{argument} must name {wanted} {which}: {known}; got {safe_repr(name)}{fix}")


class Averaged(NamedTuple):
    """What changes and by what, as found in a design."""

    factors: tuple[Dummies, ...]
    steps: tuple[Step, ...]
    by: Dummies | None


def averaged_variables(design: PublicDesign, variables: NamedVariables | None, by: str | None) -> Averaged:
    """What is averaged; ArgumentError where a name is none of the formula. Without names every factor by itself."""
    group = None if by is None else find_variable("fitstats_by", design, by, groups=True).factor
    if variables is None:
        every = formula_variables(design).values()
        return Averaged(tuple(one.factor for one in every if one.alone and one.factor is not None), (), group)
    factors, steps = [], []
    for name, step in variables:
        one = find_variable("fitstats_variables", design, name)
        if one.factor is None:
            steps.append(one.step(1.0 if step is None else step))
        elif step is not None:
            raise ArgumentError(f"fitstats_variables: {safe_repr(name)} is a factor, which has no step: give None")
        else:
            factors.append(one.factor)
    return Averaged(tuple(factors), tuple(steps), group)

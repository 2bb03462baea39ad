"""What a forecast assumes of what nobody describes, in words, and which plans and descriptions it refuses."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from dpstats.arguments import safe_repr
from dpstats.domain import Levels
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.families.base import OF_PIECES
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import columns_of
from dpstats.mechanisms.design import PublicDesign
from dpstats.models.population import ColumnPrior, KnownColumns
from dpstats.plan import Plan
from dpstats.plan.tables import has_many_columns
from dpstats.privacy.calibration import check_positive
from dpstats.results.standard_errors import missing_information
from dpstats.wording import argument, joined, phrase


class HasModel(Protocol):
    """What has a formula and a family: a plan of a fit, or a stream."""

    @property
    def design(self) -> PublicDesign:
        """How rows are coded."""

    @property
    def family(self) -> Family:
        """The loss."""


def check_plan(plan: Plan) -> None:
    """Refuse plans whose errors public facts do not tell."""
    design = plan.design
    if plan.screening is not None:
        shows = phrase("plan.by_rows() shows", shell="the plan without --rows shows")
        by_rows = f"{shows} from how many rows on there are any; " if plan.request.options.unit is None else ""
        raise ArgumentError(
            f"plan: the terms that {argument('screen')} will choose are not known, so no standard errors are predicted "
            f"for them: {by_rows}leave out {argument('screen')} for a forecast of all terms"
        )
    if plan.objective.statistics is not None:
        offered = plan.request.options.inference is not None and plan.request.penalty is None
    else:
        offered = plan.stages[-1].plan.information is not None
    if not offered:
        raise ArgumentError(f"plan: standard errors are {missing_information(plan)}")
    alike = design.score_ratio == 1.0 or plan.family.name in OF_PIECES
    if not isinstance(design, DesignSpec) or not alike:
        raise ArgumentError(
            "plan: standard errors are predicted for formulas without weights or trials; plan.simulate(n, "
            "seed).bse has those of simulated rows"
        )
    unknown = [name for name in plan.bought if name not in plan.trimmed]
    if unknown or plan.stages[-1].plan.size != len(plan.names):
        needed = [f"declare {', '.join(unknown)}"] * bool(unknown)
        needed += [f"leave out {argument('refit_share')}"] * (plan.request.options.refit_share > 0)
        raise ArgumentError(
            "plan: standard errors are predicted for declared ranges and all columns: "
            + joined(needed or ["declare what is fitted"])
        )


def residual_in_model_units(plan: HasModel, known: KnownColumns, residual_sd: float | None) -> float | None:
    """The standard deviation of a continuous response's residuals in model units, if it is said."""
    if residual_sd is None:
        return None
    name = phrase("residual_sd", shell="--residual-sd")
    if plan.family.response != "continuous":
        raise ArgumentError(
            f"{name} is for numeric responses; family {plan.family.name!r} has no free residual, got "
            f"{safe_repr(residual_sd)}"
        )
    assert isinstance(plan.design, DesignSpec)
    if known.has_response(plan.design):
        raise ArgumentError(f"{name} must be left out if like= has the response, which determines the residuals")
    size, width = check_positive(name, residual_sd), plan.design.response.high - plan.design.response.low
    if size > width:
        raise ArgumentError(f"{name} must be less than the range of the response, {width:.4g}")
    return size / plan.design.response_scaling()[1]


def response_words(plan: HasModel, mean: float) -> str:
    """What share of a response are events, which mean counts have, or which standard deviation a number, in words."""
    assert isinstance(plan.design, DesignSpec)
    name, declared = plan.design.response_name, plan.design.domain.get(plan.design.response_name)
    if plan.family.response == "continuous":
        return f"{name} has a standard deviation of {figure(mean)}"
    if plan.family.response != "binary":
        return f"{name} has a mean of {mean:.3g}"
    return f"{100 * mean:.3g} % of {name} are {declared.values[1] if isinstance(declared, Levels) else 1}"


def typical_response(plan: HasModel, mean: float) -> str:
    """How to type what is typical of a response whose mean is known, or of a number whose standard deviation is."""
    assert isinstance(plan.design, DesignSpec)
    name, declared, known = plan.design.response_name, plan.design.domain.get(plan.design.response_name), f"{mean:.3g}"
    if declared is None:  # an expression
        name, known = plan.design.parsed.response_columns[0], "..."
    elif plan.family.response == "continuous":
        known = f"[{figure(plan.design.without_working().response_scaling()[0])}, {figure(mean)}]"
    elif plan.family.response != "binary":
        known = f"[{known}, {math.sqrt(2 * mean):.2g}]"
    elif isinstance(declared, Levels):
        known = f"{{{json.dumps(declared.values[1])}: {known}}}"
    return phrase(f"typical={{{name!r}: {known}}}", shell=f"--typical {shlex.quote(f'{name}={known}')}")


def response_assumption(plan: HasModel, means: Sequence[float], deviation: float) -> str:
    """What is supposed of a response, in a sentence: `means` of usual, informative and uninformative rows.

    `deviation` is that of counts which are described, 0 if they vary as their family has it.
    """
    if not np.all(np.isfinite(means)):
        return ""
    kind, assumption = plan.family.response, f"This assumes that {response_words(plan, means[0])}"
    if len(set(means)) == 1:  # as it is known
        return f"{assumption}{f' and a standard deviation of {deviation:.3g}' * (kind == 'count' and deviation > 0)}."
    rich, poor = (f"{100 * mean:.3g} %" if kind == "binary" else figure(mean) for mean in means[1:])
    varies = " and varies as Poisson counts do" if kind == "count" else ""
    fact = "the share" if kind == "binary" else "mean and standard deviation"
    return (
        f"{assumption}{varies} (informative rows: {rich}, uninformative: {poor}). If you know {fact}, type "
        f"{'it' if kind == 'binary' else 'them'} as {typical_response(plan, means[0])}."
    )


def described_response_assumption(
    plan: Plan, known: KnownColumns, priors: Mapping[str, ColumnPrior], residual: float | None
) -> str:
    """What is supposed of the response of described columns and may be worse, in sentences."""
    design = plan.design
    assert isinstance(design, DesignSpec)
    name, like = design.response_name, phrase(": public rows show that (like=)", shell="")
    if "strong known" in priors:
        assumed = phrase("upper and .cautious allow", shell="upper and the cautious answer allow")
        others = phrase("std_error, .n and .eps do not", shell="std error and the first answer do not")
        return (
            f"{assumed} for columns that predict `{name}` strongly, {others}. If they predict it even more strongly, "
            f"or are strongly correlated, standard errors are larger{like}."
        )
    if "known" not in priors or plan.family.response != "continuous" or known.has_response(design):
        return ""
    if residual is None:
        return (
            f"This assumes that the columns explain half of the variance of `{name}`. If they explain less, standard "
            f"errors are larger: pass {phrase('residual_sd=', shell='--residual-sd')}."
        )
    if known.has(design.parsed.response_columns):
        return ""
    column = design.parsed.response_columns[0]
    typed = phrase(f"typical={{{column!r}: (MEAN, SD)}}", shell=f"--typical {shlex.quote(f'{column}=[MEAN, SD]')}")
    return (
        f"`{column}` is not described, so upper assumes skewed residuals with a wide cap. If you know its mean and "
        f"standard deviation, type them as {typed}."
    )


def shape_assumption(design: DesignSpec, known: KnownColumns) -> str:
    """That errors depend on the shape of a number in a power, a spline or an interaction, of which it is not known."""
    parsed = design.parsed
    joint = {name for term in parsed.terms if len(term) > 1 for one in term for name in columns_of(one.node)}
    factors = {one.code: one.node for term in parsed.terms for one in term}
    read = Counter(name for node in factors.values() for name in columns_of(node))
    shaped = [
        name
        for name in sorted(joint | parsed.held_columns | {name for name, times in read.items() if times > 1})
        if isinstance(known.typical.get(name), tuple) and not (known.like is not None and name in known.like)
    ]
    if not shaped:
        return ""
    return (
        f"Errors of powers, splines and interactions of `{shaped[0]}` depend on its shape, which a mean and a standard "
        f"deviation do not tell{phrase(': public rows show it (like=)', shell='')}."
    )


def correlation_assumption(plan: Plan) -> str:
    """What is supposed of the correlations of many columns that no rows describe, in sentences."""
    if not has_many_columns(plan):
        return ""
    return (
        "Columns are assumed to be hardly correlated. With so many columns, correlations of .3 to .5 may require "
        f"twice the eps or rows{phrase('; public rows describe them (like=)', shell='')}."
    )


def person_assumption(plan: Plan) -> str:
    """That the rows of a person are supposed to be alike, in sentences."""
    record = plan.request.options.record
    each = "" if record.shared else f", {record.rows} of each"
    described = phrase(f"; public rows with {record.column!r} describe them (like=)", shell="")
    return (
        f"The rows of a person are taken as alike{each}. Rows that differ within persons give smaller standard "
        f"errors{described}."
    )


def figure(value: float) -> str:
    """To three digits, without an exponent where it can be read so."""
    return f"{float(f'{value:.3g}'):.12g}"

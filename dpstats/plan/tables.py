"""The tables of a plan: statsmodels' look, public values only, readable at 80 columns."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.iolib.table import SimpleTable

from dpstats.domain import Levels, Range
from dpstats.families import NegativeBinomial
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.spec import automatic_alpha
from dpstats.mechanisms.stage import NoiseFacts
from dpstats.plan.facts import CHOSEN_RANGES, PlanFacts
from dpstats.privacy.guarantee import Guarantee
from dpstats.proof_pages import cite_proof
from dpstats.summaries import WIDTH, format_number, format_range, full_width, paired_facts, shorten
from dpstats.wording import phrase

RISK_LEVEL = 0.05

OF_ALL_ROWS = ("row counts", "ranges", "response")
"""Purchases before the rows are divided into those that choose columns and those that are fitted."""

MOST_TERMS = 60
"""A plan lists so many terms and then how many more there are."""


RATIOS = {"logit": "odds ratios", "log": "ratios of means"}  # what exponentiated coefficients are, by link

RATES = "rate ratios (of the intercept a rate)"
"""What they are of a model with exposures."""


def ratios_of(fit: Any) -> str:
    """What the exponentials of coefficients are; beside an offset, as of exposures, means are rates."""
    link = fit._family.link
    return RATES if link == "log" and fit._design.offset_bound > 0 else RATIOS[link]


def plan_tables(plan: PlanFacts, rows: str = "") -> list[SimpleTable]:
    """The tables that a plan and a result share: budget, noise and, where its proof applies, excess risk.

    `rows` tells of how many rows they are, where their number decides.
    """
    tables = [budget_table(plan), *bought_tables(plan), noise_table(plan)]
    tables += [risk_table(plan)] if has_risk(plan) else []
    for table in tables if rows else ():
        title = f"{table.title.strip()} {rows}"
        table.title = "\n".join(line.center(WIDTH) for line in textwrap.wrap(title, WIDTH - 4))
    return tables


def has_risk(plan: PlanFacts) -> bool:
    """Whether the proofs of the excess risk apply."""
    return plan.objective.risk_is_proved and not plan.request.options.replicates


def header_table(plan: PlanFacts, observations: str, figures: Sequence[str] = ()) -> SimpleTable:
    """Pairs of facts on the model (left) and on the guarantee (right), and in the title figures of the fit."""
    guarantee, request = plan.guarantee, plan.request
    title = headings(banner(guarantee), [model_title(plan)], facts_lines([modelled_level(plan)]), facts_lines(figures))
    left = [
        ("Dep. Variable:", shorten(_response(plan), 22)),
        ("Model:", "GLM"),
        ("Family:", plan.family.name),
        ("Link:", plan.family.link),
        (
            "Method:",
            f"{request.method}, two stages" if any(role == "pilot" for role, _ in plan.stages) else method_name(plan),
        ),
        ("Penalty:", "None" if request.penalty is None else request.penalty.name),
        ("Df Model:", str(plan.df_model)),
        *([] if guarantee.unit is None else [("Weights:", _shares(plan))]),
    ]
    right = [
        ("Adjacency:", guarantee.adjacency),
        *([] if guarantee.unit is None else [("Unit:", shorten(guarantee.unit, 20))]),
        ("Epsilon:", f"{guarantee.eps:.6g}"),
        ("Delta:", f"{guarantee.delta:.6g}"),
        ("Certified:", "yes" if guarantee.certified else "NO"),
        ("Proof:", cite_proof(guarantee.basis) if guarantee.certified else "none"),
        ("Noise:", plan.objective.law_name),
        (_counted(plan), observations),
    ]
    for name, fact in auxiliary_facts(plan):
        left.append((name, shorten(fact, 18)))
        right.append(("", ""))
    return paired_facts(title, left, right)


def _counted(plan: PlanFacts) -> str:
    """What the number in the header is of; where that of all persons is public, not theirs."""
    if plan.counts is None or not plan.counts.persons:
        return "No. Observations:"
    return "Persons Used:" if plan.guarantee.adjacency == "replace_one" else "No. Persons:"


def banner(guarantee: Guarantee) -> list[str]:
    """What an uncertified output opens with; nothing for others."""
    if guarantee.certified:
        return []
    return [line.center(WIDTH) for line in textwrap.wrap(f"*** NOT CERTIFIED: {guarantee.reason} ***", WIDTH)]


def model_title(plan: PlanFacts) -> str:
    """The first line of a table of coefficients."""
    family = plan.family.title
    if plan.response is not None and isinstance(plan.family, NegativeBinomial):
        bought = plan.response.alpha is not None
        family = f"{family} (bought)" if bought else "negative binomial, alpha to be bought"
    return f"Private Generalized Linear Model: {family}".center(WIDTH)


RELATION = re.compile(" ([=<]) ")  # a number is not broken from what it is


def headings(*blocks: Sequence[str]) -> str:
    """The title of a table, of headings of one or more lines: those without a line are left out."""
    return "\n\n".join("\n".join(block) for block in blocks if block)


def facts_lines(facts: Sequence[str]) -> list[str]:
    """Facts below a title, as wide as the tables: as many on a line as it has room for, each of them whole."""
    lines: list[str] = []
    for fact in facts:
        joined = f"{lines[-1]}; {fact}" if lines else fact
        if lines and len(joined) <= WIDTH - 4:
            lines[-1] = joined
        else:
            lines = [*lines[:-1], f"{lines[-1]};"] if lines else []
            lines += [one.replace("\xa0", " ") for one in textwrap.wrap(RELATION.sub("\xa0\\1\xa0", fact), WIDTH - 4)]
    return [line.center(WIDTH) for line in lines]


def capped_at(plan: PlanFacts) -> float | None:
    """From which residual on least squares is no longer that, in the response's units; None if no row has one."""
    cap, design, sums = getattr(plan.family, "residual_cap", None), plan.design, plan.objective.statistics
    if sums is not None:
        cap = None if sums.residuals is None else sums.residuals.cap
    elif not plan.objective.caps_loss:
        return None
    if cap is None:
        return None
    units = float(cap * design.response_scaling()[1])
    return None if isinstance(design, DesignSpec) and units >= design.response.high - design.response.low else units


CAPPED_SUMS = "sums with a cap"
"""The method of sums that cap residuals about a first fit."""

OPEN_METHOD = "least squares (method chosen by the rows)"
"""In a ledger, of a fit whose rows decide between that of the call, statistics and sums with a cap."""


def method_name(plan: PlanFacts) -> str:
    """As in the call; sums that cap residuals about a first fit are not what ``method="statistics"`` releases."""
    sums = plan.objective.statistics
    return plan.request.method if sums is None or sums.residuals is None or capped_at(plan) is None else CAPPED_SUMS


def penalty_text(plan: PlanFacts) -> str:
    """A penalty and the numbers that it has been given."""
    penalty = plan.request.penalty
    if penalty is None:
        return "none"
    if automatic_alpha(penalty, plan.request.options):
        return f"{penalty.name}, alpha auto"
    sizes = [f"{name} {value:.4g}" for name, value in vars(penalty).items() if isinstance(value, (int, float))]
    return ", ".join([penalty.name, *sizes])


def in_units(size: float) -> str:
    """A size in units of the response, in four digits; zeros follow where there are more before the point."""
    return f"{float(f'{size:.4g}'):,.0f}" if 1e4 <= size < 1e9 else f"{size:,.4g}"


def _response(plan: PlanFacts) -> str:
    """The response as the formula names it: the design of a hazard is of pieces of time, and has a name of its own."""
    if plan.family.name == "hazard" and plan.formula:
        return plan.formula.partition("~")[0].strip()
    return plan.design.response_name


def modelled_level(plan: PlanFacts) -> str:
    """What the coefficients are about: of a response of two values, which of them they speak for."""
    design, family = plan.design, plan.family
    name = " ".join(_response(plan).split())
    if family.response == "binary":
        spec = design.response if isinstance(design, DesignSpec) else None
        if spec is not None and spec.trials is not None:
            event = name.partition("+")[0].strip() + " per trial"
        elif spec is not None and spec.levels is not None and spec.levels != (False, True):
            event = f"{name} = {spec.levels[1]}"
        else:
            event = name if any(sign in name for sign in "<>=") else f"{name} = 1"  # a comparison is an event
        return f"the class {event}" if family.name.endswith("svm") else f"Pr({event})"
    return f"{family.target} of {name}"


def auxiliary_facts(plan: PlanFacts) -> list[tuple[str, str]]:
    """What belongs to the rows beside their columns, pairs of a heading and a name; not what makes pieces of them."""
    facts, design, pieces = [], plan.design, plan.family.name == "hazard"
    if isinstance(design, DesignSpec):
        for name, value in (("Weights:", design.weights), ("Offset:", design.offset), ("Subset:", design.subset)):
            if value is not None and (name == "Subset:" or not pieces):
                opening = f"{name[:-1].lower()}("
                summed = value.name.replace(f") + {opening}", " + ")
                facts.append((name, summed.removeprefix(opening).removesuffix(")")))
        if design.response.trials is not None:
            facts.append(("Trials at most:", format_number(design.response.trials)))
        return facts
    if design.score_ratio is None:
        facts.append(("Weights:", "an array"))
    return [*facts, ("Offset:", "an array")] if design.offset_bound else facts


def column_table(plan: PlanFacts) -> SimpleTable:
    """The terms and the bounds on their part of a row, in model units."""
    rows = [
        (term.name, [str(term.columns.stop - term.columns.start), format_number(term.l2), format_number(term.l1)])
        for term in plan.design.terms
    ]
    if len(rows) > MOST_TERMS:
        rows = [*rows[:MOST_TERMS], (f"... {len(rows) - MOST_TERMS} more", ["", "", ""])]
    return full_width(["columns", "l2 bound", "l1 bound"], rows, [10, 12, 12], title="Terms, bounds in model units")


def budget_table(plan: PlanFacts) -> SimpleTable:
    """Every purchase and the total; beside it what the classical split would have wasted."""
    budget = plan.budget
    columns = ["eps", "delta", "need", "retrieved"]
    rows = [
        (name, [*(format_number(row[column]) for column in columns), row["buys"]]) for name, row in budget.iterrows()
    ]
    return full_width([*columns, "buys"], rows, [9, 9, 9, 9, 23], title="Budget")


def purchases_text(plan: PlanFacts, budget: pd.DataFrame) -> str:
    """What was bought for how much; apart for the rows that choose columns and those that are fitted.

    What hides rounding is added to the release that it is a part of.
    """
    costs = budget["eps"].drop(index="total")

    def listed(names: Iterable[Any]) -> str:
        parts: dict[str, float] = {}
        for purchase in names:
            name = next(reversed(parts)) if str(purchase).endswith(": rounding") else str(purchase)
            parts[name] = parts.get(name, 0.0) + float(costs[purchase])
        return ", ".join(f"{name} {eps:.4g}" for name, eps in parts.items())

    names = list(costs.index)
    if plan.request.options.split is None:
        return listed(names)
    of_all = [name for name in names if name in OF_ALL_ROWS]
    last = (CHOSEN_RANGES, "residual spread", plan.stages[-1].role)
    first = next(name for name in last if name in names)
    fitted = names[names.index(first) :]
    chosen = [name for name in names if name not in (*of_all, *fitted)]
    counted = f"{listed(of_all)}; " if of_all else ""
    return f"{counted}rows that choose: {listed(chosen)}; other rows, which are fitted: {listed(fitted)}"


def bought_tables(plan: PlanFacts) -> list[SimpleTable]:
    """What was bought of the columns' values, once it is known: ranges, and what the fit needed of the response."""
    rows = []
    if plan.completed:
        domain = getattr(plan.design, "domain", {})
        chosen = () if plan.screening is None else plan.screening.narrowed
        ranges = {name: domain[name].interval for name in (*plan.bought, *chosen) if name in domain}
        rows = [
            (name, [*map(format_number, ends), "rows kept" if name in (*plan.trimmed, *chosen) else "range"])
            for name, ends in ranges.items()
        ]
    if plan.completed and plan.response is not None:
        response = plan.response
        capped = "centre, scale and cap" if plan.family.models_mean else "centre, scale, width h"
        use = capped if plan.family.response == "continuous" else "greatest count"
        if not plan.objective.caps_loss:
            use = "choice of method"
        rows.append((plan.design.response_name, [format_number(response.low), format_number(response.high), use]))
        if plan.residuals is not None:
            rows.append(("residuals", ["", format_number(capped_at(plan) or math.inf), "cap"]))
        if response.mean is not None:
            what = "rate, per exp(offset)" if plan.design.offset_bound else "mean"
            rows.append((plan.design.response_name, ["", format_number(response.mean), what]))
        if response.alpha is not None:
            rows.append((plan.design.response_name, ["", format_number(response.alpha), "alpha, dispersion"]))
    return [full_width(["low", "high", "for"], rows, [12, 12, 23], title="Bought with the budget")] if rows else []


def uninformative_columns(plan: PlanFacts) -> list[str]:
    """What a forecast supposes of columns that explain, in words: of those that nothing declared describes."""
    design = plan.design
    if not isinstance(design, DesignSpec):
        return []
    declared = [design.domain.get(name) for name in design.parsed.exog_columns]
    unknown = [one for one in declared if isinstance(one, Range) and one.typical is None and one.inner is None]
    numbers = [one for one in declared if isinstance(one, Range) and not one.is_binary]
    narrow = [one for one in numbers if one in unknown]
    rare = any(isinstance(one, Levels) for one in declared) or len(unknown) > len(narrow)
    others = " or inner=" if any(one.inner is not None for one in numbers) else ""
    which = "numbers" if len(narrow) == len(numbers) else f"numbers without typical values{others}"
    inner = f"numbers with {phrase('inner=', shell='an inner interval')} lie far from its middle"
    tailed = any(name in tailed_columns(plan) for name in design.parsed.exog_columns)
    return [
        *[f"{which} fill little of their ranges"] * bool(narrow),
        *[inner] * tailed,
        *["levels are rare"] * rare,
    ]


def tailed_columns(plan: PlanFacts) -> set[str]:
    """Numbers that may have a long tail: `inner=` is declared of them, which is for skewed columns, and nothing else.

    An interval that a fit bought is the narrowest of several, which leaves a long tail out.
    """
    if not isinstance(plan.design, DesignSpec):
        return set()
    bought = {*plan.trimmed, *(() if plan.screening is None else plan.screening.narrowed)}
    declared = ((name, one) for name, one in plan.design.domain.items() if name not in bought)
    return {name for name, one in declared if isinstance(one, Range) and one.inner is not None and one.typical is None}


def awaits_alpha(plan: PlanFacts) -> bool:
    """Whether counts vary by an alpha that is still to be bought, for which the least one stands in."""
    return isinstance(plan.family, NegativeBinomial) and plan.response is not None and plan.response.alpha is None


FEW_COLUMNS = 20
"""Of more columns a forecast says that it does not know how they are correlated: errors may not be larger but missing.
Of 60 columns with correlations of .15 to .55 no fit had any at an eps for which all were forecast."""


def has_many_columns(plan: PlanFacts) -> bool:
    """Whether correlations of .3 to .5 may leave coefficients without errors."""
    return len(plan.names) - ("Intercept" in plan.names) > FEW_COLUMNS


def supposed_columns(plan: PlanFacts) -> str:
    """The line that stands at a forecast by rows.

    It is not cautious of chosen columns, as these may be correlated, nor of an alpha that is still to be bought.
    """
    supposed, chosen = ", ".join(uninformative_columns(plan)), plan.screening is not None
    hopes = ["hardly correlated columns"] * chosen + ["counts that vary as Poisson counts do"] * awaits_alpha(plan)
    if not hopes:
        return f"cautious forecast: {supposed}" if supposed else "forecast for columns as declared"
    declared = ", as declared" if chosen else ", columns as declared"
    return f"forecast for {' and '.join(hopes)}{f': {supposed}' if supposed else declared}"


def rows_table(outcomes: pd.DataFrame) -> SimpleTable:
    """What the number of rows decides, below what its forecast supposes."""
    several = ["method"] if outcomes["method"].nunique() > 1 else []
    rows = [
        (f"{rows:,}", [row["ranges"], row["errors"], f"{row['share']:.0%}", *row[several]])
        for rows, row in outcomes.iterrows()
    ]
    title = f"Ranges and standard errors by the counted number of {outcomes.index.name}"
    title += "".join(f"\n{line.partition(';')[0]}" for line in outcomes.attrs.get("note", "").split("\n") if line)
    headers, widths = ["ranges", "standard errors", "coefficients identified", *several], [12, 20, 24, 20]
    if several and max(len(name) for name, _ in rows) >= len("100,000"):
        widths = [10, 17, 14, 20]  # the longest header is broken, and no number of rows
    return full_width(headers, rows, widths[: len(headers)], title=title)


NOISE_WIDTHS = {"curvature": 20, "on": 13, "drawn": 13, "sd of noise": 14, "ratio": 9}
"""Of the columns of a table of noise that are not 11 wide."""


def noise_table(plan: PlanFacts) -> SimpleTable:
    """The noise of each stage, a row without a name taking the stage's."""
    stages = [(role, stage.noise_facts) for role, stage in plan.stages]
    rows = [(name or role, cells) for role, facts in stages for name, cells in facts.rows]
    return facts_table(stages[-1][1]._replace(rows=tuple(rows)))


def facts_table(facts: NoiseFacts) -> SimpleTable:
    """The facts of noise as they are."""
    rows = [(name, [_cell(value) for value in cells]) for name, cells in facts.rows]
    widths = [NOISE_WIDTHS.get(header, 11) for header in facts.headers]
    return full_width(facts.headers, rows, widths, title=facts.title)


def _cell(value: float | str | NDArray[np.float64]) -> str:
    """Text as it is, a number in four digits, and the range of several."""
    if isinstance(value, str):
        return value
    return format_range(value) if isinstance(value, np.ndarray) else format_number(value)


def risk_table(plan: PlanFacts) -> SimpleTable:
    """The proved bounds on what privacy costs in the objective."""
    n = int(plan.request.options.rows_guess) if plan.stages[-1].plan.risk_takes_rows else None
    bounds = plan.risk_bounds(RISK_LEVEL, n=n)
    sharpest = {bounds.named(one): one.value for one in reversed(bounds.proved)}
    rows = [(name, [format_number(sharpest[name])]) for name in dict.fromkeys(map(bounds.named, bounds.proved))]
    losses = "the sum of losses" if n is None else f"the losses of {n:,} rows"
    return full_width(["at most"], rows, [20], title=f"Excess risk: proved bounds on what privacy adds to {losses}")


def is_output(plan: PlanFacts) -> bool:
    """Whether the noise is in the coefficients themselves, not in the objective."""
    return plan.stages[-1].plan.noise_in_coefficients


def _shares(plan: PlanFacts) -> str:
    """How the rows of a person count."""
    record = plan.request.options.record
    return "equal shares" if record.shared else f"1, {record.rows} rows at most"


def weighing(plan: PlanFacts) -> str:
    """How persons count, for a title."""
    record = plan.request.options.record
    if record.shared:
        return f"every {record.column} weighs the same"
    return f"{record.rows} row{'s' * (record.rows != 1)} of each {record.column} at most"


def price(plan: PlanFacts, eps: float) -> str:
    """What a part costs, as in the table of the budget: a person may have several rows that each cost `eps`."""
    return f"eps {eps * plan.request.options.record.rows:.4g}"


def level_name(plan: PlanFacts) -> str:
    """What is bought of the level of counts, in a word."""
    return "rate" if plan.design.offset_bound else "mean"

"""The regression table: statsmodels' look, from released and public values only."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from statsmodels.iolib.table import SimpleTable

from dpstats.families import NegativeBinomial
from dpstats.mechanisms.design import SubDesign
from dpstats.mechanisms.information import Information, ReleasedSums
from dpstats.mechanisms.options import ROWS_GUESS
from dpstats.mechanisms.spec import obstacle
from dpstats.plan.notes import (
    assumed_response_note,
    cap_note,
    design_notes,
    guarantee_note,
    guaranteed,
    limit_note,
    link_note,
    lost_errors,
    plan_notes,
)
from dpstats.plan.plan import Plan
from dpstats.plan.tables import (
    RISK_LEVEL,
    auxiliary_facts,
    banner,
    capped_at,
    facts_lines,
    has_risk,
    header_table,
    is_output,
    model_title,
    modelled_level,
    plan_tables,
)
from dpstats.results.contrasts import inference_table, to_the_noise
from dpstats.results.model import ReleasedModel
from dpstats.results.standard_errors import rare_references
from dpstats.summaries import WIDTH, Summary, format_number, full_width, wrap_notes

__all__ = ["Summary", "summarize"]

MOST_NAMES = 8
"""A note lists so many coefficients, and counts them where there are more."""

FIGURE_WORDS = {"r_squared": "R2", "deviance_explained": "deviance explained", "scale": "scale"}
"""Rows of `fitstats` in a summary, each followed by its standard error in brackets."""

VISIBLE = 0.001
"""The last digit of a p-value in a table."""

MANY = 100
"""A chi-squared statistic from here on has no decimals."""

LEAST_IDENTIFIED = 0.25
"""Errors are shown where at least this share of the coefficients has one: a table of infinite errors says less than a
bound."""


def summarize(results: ReleasedModel, *, full: bool = False, n: int | None = None) -> Summary:
    """Coefficients, then what is guaranteed and what was spent; or, in full, all tables and notes.

    `n` is a public number of rows, for the excess risk of one.
    """
    summary = Summary()
    plan, risk = results.plan, risk_note(results, n)
    if not full:
        summary.tables = [coefficient_table(results, title="\n".join(heading(results)))]
        certified = f"Certified: {guaranteed(plan)}" if plan.guarantee.certified else guarantee_note(plan)
        notes = [certified, budget_line(results), *risk, *essential_notes(results)]
        summary.add_extra_txt([line for note in notes for line in textwrap.wrap(note, WIDTH, subsequent_indent="  ")])
        return summary
    tables = [header_table(plan, rows_cell(results), fit_facts(results)), coefficient_table(results, full=True)]
    if len(results.selection):
        tables.append(selection_table(results))
    summary.tables = [*tables, *plan_tables(plan)]
    summary.add_extra_txt(
        wrap_notes([*plan_notes(plan, released=results.has_errors), *risk, *inference_notes(results)])
    )
    return summary


def heading(results: ReleasedModel) -> list[str]:
    """The lines above the coefficients: a banner if there is no guarantee, the model, and what it is about."""
    plan = results.plan
    facts = [
        modelled_level(plan),
        f"{plan.family.link} link",
        f"rows: {rows_cell(results)}",
    ]
    if (cap := capped_at(plan)) is not None:
        facts.append(f"residuals capped at {cap:,.4g}")
    if isinstance(plan.family, NegativeBinomial):
        facts.append(f"alpha = {plan.family.alpha:.4g}")
    if plan.request.method in ("output", "posterior", "statistics"):
        facts.append(f"method: {plan.request.method}")
    if plan.guarantee.basis == "docs/proofs/tuning":
        facts.append("tuned")
    if plan.request.penalty is not None:
        facts.append(f"penalty: {plan.request.penalty.name}")
    facts += [f"{name.lower()} {fact}" for name, fact in auxiliary_facts(plan.design)]
    return [*banner(plan.guarantee), model_title(plan), *facts_lines(facts), *facts_lines(fit_facts(results))]


def rows_cell(results: ReleasedModel, *, brief: bool = False) -> str:
    """The number of rows: as it is where it is public, else with the noise that it was bought with."""
    if results.nobs is not None:
        return str(results.nobs)
    if results.fit_sums is None:
        return "private"
    number, deviation = f"{max(round(results.fit_sums.count), 0):,}", f"{results.fit_sums.count_sd:,.0f}"
    return f"{number} ({deviation})" if brief else f"about {number} (sd {deviation})"


def fit_facts(results: ReleasedModel) -> list[str]:
    """The fit of the whole model with its errors, where it was bought and the table shows errors."""
    if results.fit_sums is None or not shows_errors(results):
        return []
    figures = results.fitstats.T.to_dict()
    facts = []
    for name, words in FIGURE_WORDS.items():
        if name in figures and np.isfinite(figures[name]["value"]):
            value, error = figures[name]["value"], figures[name]["std_error"]
            facts.append(f"{words} {to_the_noise(value, error)} ({to_the_noise(error, error)})")
    if "slopes" in figures:
        test = figures["slopes"]
        size = "p < 0.001" if test["p_value"] < VISIBLE else f"p = {test['p_value']:.3f}"
        value = test["value"]
        facts.append(f"slopes: chi2({test['df']:.0f}) = {f'{value:,.0f}' if value >= MANY else f'{value:.3g}'}, {size}")
    return facts


def budget_line(results: ReleasedModel) -> str:
    """What was spent, and on what, in a line; small parts that go together are added up."""
    plan, guarantee = results.plan, results.guarantee
    parts: dict[str, float] = {}
    for purchase, eps in results.budget["eps"].drop(index="total").items():
        name = "rounding" if str(purchase).endswith("rounding") else str(purchase)
        parts[name] = parts.get(name, 0.0) + float(eps)
    spent = ", ".join(f"{name} {eps:.4g}" for name, eps in parts.items())
    ranges = f" Ranges bought: {', '.join(plan.bought)}." if plan.bought else ""
    delta = f", delta {guarantee.delta:.3g}" if guarantee.delta else ""
    split = " (of parts with rows of their own)" if plan.request.options.split is not None else ""
    return f"Budget: eps {guarantee.eps:.4g}{delta}: {spent}{split}.{ranges} Details: summary(full=True)."


def risk_note(results: ReleasedModel, n: int | None) -> list[str]:
    """What privacy adds to the mean loss of a row at most, where a number of rows is public."""
    plan = results.plan
    guess = plan.request.options.rows_guess
    # Public by the guarantee, or as a guess that was made.
    rows = (results.nobs or (None if guess == ROWS_GUESS else int(guess))) if n is None else n
    if rows is None or not has_risk(plan):
        return []
    most = plan.risk_bounds(RISK_LEVEL, n=rows).value("unregularised", "quantile") / rows
    if math.isnan(most):
        return []
    loss = null_loss(plan)
    compared = "" if loss is None else f", beside {loss:.4g} of the model without coefficients"
    return [
        f"Excess risk: privacy adds at most {most:.2g} to the mean loss of {rows:,} rows, with probability "
        f"{1 - RISK_LEVEL:g}{compared}."
    ]


def null_loss(plan: Plan) -> float | None:
    """The loss of a row at coefficients of zero where every row has the same one, which makes it public."""
    ends = np.array([0.0, 1.0])
    if plan.family.response != "binary" or plan.design.offset_bound or plan.design.score_ratio != 1.0:
        return None
    losses = plan.family.derivatives(np.zeros(2), ends).value
    return float(losses[0]) if losses[0] == losses[1] else None


def coefficient_table(results: ReleasedModel, *, full: bool = False, title: str | None = None) -> SimpleTable:
    """Coefficients in the user's units, with what is known of their errors; of a screened fit those kept."""
    if not shows_errors(results):
        return bounded_table(results, full, title)
    frame = results.uncertainty()
    return inference_table(frame[frame["std_error"].notna()], title=title)


def shows_errors(results: ReleasedModel) -> bool:
    """Whether the budget identifies enough of the coefficients for a table of their errors."""
    if results.released is None or not results.has_errors:
        return False
    return int(np.sum(results.identified)) >= max(1, LEAST_IDENTIFIED * len(results.released.columns))


def bounded_table(results: ReleasedModel, full: bool, title: str | None = None) -> SimpleTable:
    """Coefficients in the user's units, in full also in model units, with a bound on the noise in them."""
    tested: dict[str, float] = {}
    if results.released is not None and results.has_errors:
        tested = {str(name): float(p) for name, p in results.pvalues[results.identified].items()}
    facts = zip(results.params.items(), results.scaled_params, results.noise_at_most, results.plan.kept, strict=True)
    rows = [
        (
            name,
            [
                to_the_noise(value, bound / 10),  # a bound: the noise itself leaves more digits
                *([format_number(scaled)] if full else []),
                to_the_noise(bound, bound),
                bound_mark(value, bound, tested.get(str(name))),
            ],
        )
        for (name, value), scaled, bound, kept in facts
        if kept
    ]
    headers = ["coef", *(["scaled coef"] if full else []), bound_name(results), ""]
    return full_width(headers, rows, columns=[12, *([13] if full else []), 14, 13], title=title)


def bound_mark(value: float, bound: float, pvalue: float | None) -> str:
    """What a reader must know of a coefficient beside a bound on its noise: the p-value of one that has an error."""
    if value == 0:
        return "set to zero"  # by the penalty
    if pvalue is not None:
        return f"p = {pvalue:.3f}"
    return "undecided" if abs(value) < 2 * bound else ""


def bound_name(results: ReleasedModel) -> str:
    """What stands beside coefficients without errors."""
    exact = is_output(results.plan) or isinstance(results.released, ReleasedSums)
    return "noise sd" if exact else "noise at most"


def shown_bound(results: ReleasedModel) -> str | None:
    """What stands beside the coefficients, None for standard errors."""
    return None if shows_errors(results) else bound_name(results)


def essential_notes(results: ReleasedModel) -> list[str]:
    """What no reader of the coefficients may miss."""
    plan = results.plan
    notes = [*inference_notes(results), *limit_note(plan), *cap_note(plan), *link_note(plan), *design_notes(plan)]
    if plan.guarantee.basis == "docs/proofs/tuning":
        notes = ["dp.tune chose the settings by the same rows; the budget is that of the whole tuning.", *notes]
    notes = [*assumed_response_note(plan), *notes]
    if len(results.selection):
        chosen = results.selection["selected"].drop("Intercept", errors="ignore")
        notes.insert(0, f"Selection: {int(np.sum(chosen))} of {len(chosen)} columns kept; see selection.")
    napp = "method='napp' releases standard errors"
    at_most = "'noise at most' bounds the noise's standard deviation whatever the rows are"
    mark = "; what is 'undecided' by twice the bound need not be noise"
    if isinstance(results.released, ReleasedSums) and not shows_errors(results):
        return ["'noise sd' is the standard deviation of the noise at the released sums.", *notes]
    if is_output(plan):
        return [f"'noise sd' is the exact standard deviation of the noise; {napp}.", *notes]
    if not shows_errors(results):
        if plan.request.method == "posterior":
            drawn = f"The coefficients are one draw from a flattened posterior, and {at_most}; {napp}."
            return [drawn, *notes]
        return [f"{at_most}{mark}.", shrunk_note(results), *notes]
    return notes


def shrunk_note(results: ReleasedModel) -> str:
    """What coefficients without errors are not, and what buys those that are."""
    plan = results.plan
    reason = obstacle(plan.family, plan.request.penalty, plan.request.options)
    fix = "" if reason is None else f". Inference {reason}"
    lost = None if reason is not None or results.has_errors else lost_errors(plan)
    if lost is not None:
        fix = f". Standard errors were planned and are not released: {lost}"
    elif reason is None and plan.stages[-1].plan.information is None:
        fix = "; inference=True buys coefficients without it, with standard errors and intervals"
    return f"coef is shrunken towards zero, and this table does not say how far: twice the bound is no interval{fix}."


def inference_notes(results: ReleasedModel) -> list[str]:
    """What a reader of standard errors must know."""
    if results.released is None or not results.has_errors:
        return []
    free = results.plan.request.options.inference == "auto" and isinstance(results.released, Information)
    more = "More eps, inference=True" if free else "More eps"
    if not shows_errors(results):
        known = int(np.sum(results.identified))
        few = f"{known} of {len(results.released.columns)} coefficients" if known else "no coefficient"
        errors = "there are no standard errors to show"
        if known:
            errors = "their standard errors are in uncertainty(), and p, of the test by them, in the table"
        return [
            f"The information that was released identifies {few} at this budget: {errors}. {more} or fewer columns "
            "(screen= chooses them) may help, as plan.standard_errors(n) foretells, unless rows were lost to levels or "
            "codes that are not as declared: dp.check counts them.",
            *rare_note(results),
        ]
    notes = ["coef is free of the shrinkage and what std err refers to; params, as released, predict better."]
    unknown = [str(name) for name, error in results.bse.items() if np.isinf(error)]
    if unknown:
        which = ", ".join(unknown) if len(unknown) <= MOST_NAMES else f"{len(unknown)} coefficients (see identified)"
        notes.append(
            f"Not identified at this budget, coef as released: {which}. {more}, fewer columns or rare levels merged "
            "would help."
        )
        notes += rare_note(results)
    if beyond_normal(results.tvalues.to_numpy(), results.pvalues.to_numpy()):
        notes.append(
            "P>|z| is that of sampling and noise together, whose law is not normal: a normal table gives another."
        )
    chosen = results.plan.screening is not None or any(role == "refit" for role, _ in results.plan.stages)
    if chosen and results.plan.request.options.split is None:
        notes.append("Not adjusted for selection: the same rows chose the columns. split='rows' keeps them apart.")
    return notes


def column_of_term(term: str) -> str:
    """The column in a term such as g or C(g, Sum)."""
    return term.removeprefix("C(").partition(",")[0].rstrip(")")


def rare_note(results: ReleasedModel) -> list[str]:
    """Which factors would show more from another reference level."""
    assert results.released is not None
    design = SubDesign(results.plan.design, np.array(results.released.columns))
    return [
        f"{name} is measured from a level that is too rare for this budget. Name a common one as its reference, as in "
        f"C({column_of_term(name)}, Treatment('a common level')), to see the others."
        for name in rare_references(design, results._inferred)
    ]


def beyond_normal(statistics: NDArray[Any], pvalues: NDArray[Any]) -> bool:
    """Whether a printed p-value of a finite error is visibly other than a normal table gives for its statistic.

    A statistic of 0 or NaN stands for a coefficient that is not identified.
    """
    tested = np.isfinite(statistics) & (statistics != 0)
    normal = 2 * norm.sf(np.abs(statistics[tested]))
    more = pvalues[tested] > np.maximum(2 * normal, normal + VISIBLE)
    return bool(np.any(more | (normal > np.maximum(2 * pvalues[tested], pvalues[tested] + VISIBLE))))


def selection_table(results: ReleasedModel) -> SimpleTable:
    """Which columns a sparse penalty kept, or screening: of those that it put out the number alone."""
    facts = results.selection[results.plan.kept]
    rows = [(name, [_cell(row[column]) for column in facts.columns]) for name, row in facts.iterrows()]
    out = len(results.selection) - len(facts)
    title = f"Selection ({out} columns screened out)" if out else "Selection"
    return full_width(list(facts.columns), rows, columns=[10, *[12] * (len(facts.columns) - 1)], title=title)


def _cell(value: object) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    return value if isinstance(value, str) else format_number(float(str(value)))

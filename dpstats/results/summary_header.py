"""What stands above the coefficients of a summary: what was fitted, to how many rows, and how well."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpstats.domain import Range
from dpstats.formula.advice import codes_at_bought_ends
from dpstats.formula.design import DesignSpec
from dpstats.inference import JointTest
from dpstats.mechanisms.information import ReleasedSums
from dpstats.mechanisms.narrowing import narrowable
from dpstats.plan.methods import ONE_TAIL
from dpstats.plan.plan import Plan, interval_cap
from dpstats.plan.row_counts import about_rows
from dpstats.plan.row_notes import narrowed_columns
from dpstats.plan.tables import (
    auxiliary_facts,
    banner,
    capped_at,
    facts_lines,
    headings,
    in_units,
    method_name,
    model_title,
    modelled_level,
    penalty_text,
    purchases_text,
    weighing,
)
from dpstats.results.contrasts import to_the_noise
from dpstats.results.error_advice import (
    SHARE_WORDS,
    hidden_shares,
)
from dpstats.results.inference_mixin import shows_errors
from dpstats.results.model import ReleasedModel
from dpstats.wording import argument, joined, phrase

FIGURE_WORDS = {**SHARE_WORDS, "scale": "scale", "dispersion_used": "dispersion used"}
"""Rows of `fitstats` in a summary, each followed by its standard error in brackets."""

PVALUE_STEP = 0.001  # the last digit of a p-value in a table

ROOM_FOR_TESTED = 54  # characters of the header for what a joint test is of, or leaves out

LARGE_WALD = 100  # larger statistics of joint tests have no decimals

MOST_RANGES = 4  # columns whose ranges were bought are named, the first so many of them


def heading(results: ReleasedModel) -> str:
    """The lines above the coefficients: a banner if there is no guarantee, the model, and what it is about."""
    plan = results.plan
    facts = [modelled_level(plan), f"{plan.family.link} link", f"{counted_title(results)}: {rows_text(results)}"]
    if (cap := capped_at(plan)) is not None:
        facts.append(f"residuals capped at {in_units(cap)}")
    if plan.guarantee.unit is not None:
        facts.append(weighing(plan))
    if plan.request.method in ("output", "posterior", "statistics"):
        facts.append(f"method: {method_name(plan)}")
    if plan.guarantee.basis == "docs/proofs/tuning":
        facts.append("tuned")
    if plan.request.penalty is not None:
        facts.append(f"penalty: {penalty_text(plan)}")
    if results.selects:
        facts.append(chosen_text(results))
    facts += [f"{name.lower()} {fact}" for name, fact in auxiliary_facts(plan)]
    return headings(banner(plan.guarantee), [model_title(plan)], facts_lines(facts), facts_lines(fit_facts(results)))


def chosen_text(results: ReleasedModel) -> str:
    """Which model the effects belong to."""
    terms = results.in_model[[name != "Intercept" for name in results.plan.names]]
    return f"effects in the model chosen: {int(np.sum(terms))} of {len(terms)} columns"


def fit_facts(results: ReleasedModel) -> list[str]:
    """The fit of the whole model with its errors, where it is known and the table shows errors; or the focus."""
    if results.arm_sums is not None:
        focus = results.focus()
        value, error, *_, low, high = focus.iloc[0]
        if not np.isfinite(error):
            return [f"{focus.index[0]}: its arms do not stand out from the noise"]
        ends = f"[{to_the_noise(low, error)}, {to_the_noise(high, error)}]"
        return [f"in focus: {focus.index[0]} {to_the_noise(value, error)} ({to_the_noise(error, error)}) {ends}"]
    if not shows_errors(results):
        return []
    figures = results.fitstats.T.to_dict()
    if results.fit_sums is None and not isinstance(results.released, ReleasedSums):
        # The errors hold the dispersion that they use; the other figures they hold were not asked for.
        figures = {name: figure for name, figure in figures.items() if name == "dispersion_used"}
    facts = []
    for name, words in FIGURE_WORDS.items():
        if name in figures and np.isfinite(figures[name]["value"]) and name not in hidden_shares(results):
            value, error = figures[name]["value"], figures[name]["std_error"]
            capped = " (residuals capped)" if name == "r_squared" and capped_at(results.plan) is not None else ""
            noise = "noise alone" if name == "dispersion_used" and error >= value else to_the_noise(error, error)
            facts.append(f"{words}{capped} {to_the_noise(value, error)} ({noise})")
    if (joint_test := shown_test(results)) is not None:
        test = joint_test.test
        size = "p < 0.001" if test.pvalue < PVALUE_STEP else f"p = {test.pvalue:.3f}"
        statistic = f"{test.statistic:,.0f}" if test.statistic >= LARGE_WALD else f"{test.statistic:.3g}"
        name = f"Bonferroni({test.df})" if test.bonferroni else f"Wald({test.df}) = {statistic}"
        facts.append(f"{joint_test.words}: {name}, {size}")
    return facts


class ShownTest(NamedTuple):
    """The joint test that the header has, and what it is of."""

    test: JointTest
    words: str
    counted: list[str]  # what is tested, where the words only count it; else empty


def shown_test(results: ReleasedModel) -> ShownTest | None:
    """The joint test of two or more slopes, or of all; None without the errors of a whole model.

    It has wider errors, with which some slopes of the table may have none; of one the table has the test. Where the
    reference level of a factor is rare the test is of differences from its commonest level, which the table lacks.
    """
    whole = results.fit_sums is not None or isinstance(results.released, ReleasedSums)
    if not (whole and shows_errors(results)) or results._slopes_test is None:
        return None
    test, tested = results._slopes_test
    slopes = results.bse.iloc[results.plan.constants :]
    shown = [str(name) for name in slopes.index[np.isfinite(slopes)]]
    if len(tested) == len(slopes):
        return ShownTest(test, "slopes", [])
    if len(tested) < 2:
        return None
    differences = results._tested_differences
    if differences:
        apart = {name for names in differences.values() for name in names}
        levels = f"differences of levels of {joined(list(differences))}"
        named = [*(name for name in tested if name not in apart), levels]
        if len(joined(named)) <= ROOM_FOR_TESTED:
            return ShownTest(test, f"joint test of {joined(named)}", [])
        kinds = "slopes or differences of levels" if len(named) > 1 else "differences of levels"
        return ShownTest(test, f"joint test of {len(tested)} {kinds}", named)
    if set(tested) == set(shown):
        return ShownTest(test, f"joint test of the {len(shown)} slopes with a std err", [])
    left_out = joined([name for name in shown if name not in tested])
    if len(joined(tested)) <= ROOM_FOR_TESTED:
        return ShownTest(test, f"joint test of {joined(tested)}", [])
    if len(left_out) <= ROOM_FOR_TESTED:
        return ShownTest(test, f"joint test of the slopes with a std err, without {left_out} (too noisy for it)", [])
    return ShownTest(test, f"joint test of {len(tested)} of the {len(shown)} slopes with a std err", tested)


BEFORE_RANGES = " before ranges were bought"


def rows_text(results: ReleasedModel) -> str:
    """The number of rows: public, counted with noise, or private; of a split, of which the coefficients have half."""
    halves = "" if results.plan.request.options.split is None else " in both halves"
    if results.nobs is not None:
        return f"{results.nobs}{halves}"
    counted, counts = results._counted, results.plan.counts
    if counted is not None:  # of the rows of the last fit
        return about_rows(counted.value, counted.se)
    if counts is None or counts.rows is None:
        return "private"
    before = results._rows_before
    return f"{counts.shown}{halves}" if before is None else f"{about_rows(*before)}{BEFORE_RANGES}"


KEPT = "Ranges kept as declared"

NONE_TO_NARROW = "No chosen column has a range that a fit narrows; the price is fixed before the choice"


def _ranges(results: ReleasedModel) -> dict[str, list[str]]:
    """The columns whose ranges were bought, by what came of it; with the ranges of those that nobody has declared."""
    order = ("Ranges bought", "Ranges bought, which clip", "Ranges narrowed", KEPT)
    ranges: dict[str, list[str]] = {what: [] for what in order}
    plan = results.plan
    for name in plan.bought:
        known = getattr(plan.design, "domain", {})[name]
        if name in plan.trimmed:
            what = KEPT if known.inner is None else "Ranges narrowed"
        else:
            what = "Ranges bought" if known.drops else "Ranges bought, which clip"
        ends = f" ({known.interval[0]:,.7g}, {known.interval[1]:,.7g})" if name not in plan.trimmed else ""
        ranges[what].append(name + ends)
    if plan.screening is not None:
        ranges["Ranges narrowed"] += plan.screening.narrowed
    return {what: names for what, names in ranges.items() if names}


def _offers_ranges(results: ReleasedModel) -> bool:
    """Whether any of the columns chosen has a range that a purchase could have narrowed."""
    design = results.plan.design
    assert isinstance(design, DesignSpec)
    return bool(results.in_model[list(narrowable(design).values())].any())


def counted_name(results: ReleasedModel) -> str:
    """What the number in `rows_text` is of."""
    counts = results.plan.counts
    return "rows" if counts is None or results.nobs is not None else counts.of


def counted_title(results: ReleasedModel) -> str:
    """`counted_name`, where a reader may take it for the number of all persons, which is public."""
    name = counted_name(results)
    public = results.guarantee.adjacency == "replace_one"
    return f"{name} with a complete row" if name == "persons" and public else name


def budget_line(results: ReleasedModel) -> str:
    """What was spent, and on what, in a line; small parts that go together are added up."""
    guarantee = results.guarantee
    ranges = "".join(
        f" {what}: {', '.join(names[:MOST_RANGES])}"
        + f" and {len(names) - MOST_RANGES} more" * (len(names) > MOST_RANGES)
        + "."
        for what, names in _ranges(results).items()
    )
    screening = results.plan.screening
    if screening is not None and screening.range_eps and not screening.narrowed:
        ranges += f" {KEPT if _offers_ranges(results) else NONE_TO_NARROW}."
    delta = f", delta {guarantee.delta:.3g}" if guarantee.delta else ""
    spent = purchases_text(results.plan, results.budget)
    coded = "".join(f" {note}" for note in codes_note(results))
    return f"Budget: eps {guarantee.eps:.4g}{delta}: {spent}.{ranges}{coded}{_cap_kept(results.plan)}"


def codes_note(results: ReleasedModel) -> list[str]:
    """Codes for missing that may have decided an end of a bought range, and what to do about them."""
    plan = results.plan
    if not isinstance(plan.design, DesignSpec):
        return []
    domain, responses = plan.design.domain, plan.design.parsed.response_columns
    ranges = {name: domain[name] for name in plan.bought if name not in plan.trimmed} | narrowed_columns(plan)
    bought = {name: one for name, one in ranges.items() if isinstance(one, Range)}
    coded = [(name, code) for name, one in bought.items() for code in codes_at_bought_ends(one)]
    sentences = []
    for of_response in (True, False):
        codes = [(name, code) for name, code in coded if (name in responses) == of_response][:MOST_RANGES]
        if not codes:
            continue
        # Within ends that clip, rows with a code beyond them stay in the fit; a response drops no rows.
        drops = phrase('outside="drop"', shell="outside: drop")
        if len(codes) == 1:
            (name, code), without = codes[0], "the range without it"
            what = f"The range of {name} reaches just beyond {code:g}, a usual code for missing. If {code:g} stands"
        else:
            named, without = joined([f"{code:g} in {name}" for name, code in codes]), "ranges without them"
            what = f"These ranges reach just beyond usual codes for missing: {named}. If these stand"
        cure = "make those cells missing" if of_response else f"declare {without}, with {drops}"
        sentences.append(f"{what} for missing, {cure}.")
    return [" ".join(sentences)] if sentences else []


def _cap_kept(plan: Plan) -> str:
    """What to do where residuals were paid for and the cap is that of a single tail or of the declared range."""
    response, design, cap = plan.response, plan.design, capped_at(plan)
    if plan.residuals is None or response is None or cap is None or not isinstance(design, DesignSpec):
        return ""
    declared = (response.low, response.high) == (design.response.low, design.response.high)
    widest = interval_cap(design, response) * (response.high - response.low) / 2
    if not (response.one_tail or declared) or not 0.999 * widest <= cap <= 1.001 * widest:
        return ""
    low, high = design.response.low, design.response.high
    capped = f" No narrower cap found: residuals are capped at {in_units(cap)}, which"
    public = (
        f"{argument('residual_cap')}, with 3 to 4 times the residuals' standard deviation, if that is public and no "
        "long tail is expected (with one, it biases slopes)"
    )
    reason = (
        "A noisy histogram showed no two tails within this cap: large residuals lie on one side, or are too few at "
        "this eps."
    )
    if response.one_tail and ONE_TAIL * (response.high - response.low) < high - low:
        return (
            f"{capped} is {cap / (response.high - response.low):.2g} times the width of the response's bought interval "
            f"({response.low:.6g}, {response.high:.6g}). {reason} Smaller standard errors: {public}."
        )
    column, *others = design.parsed.response_columns
    known, kind = design.domain[column], "declared"
    if column in plan.bought and column not in plan.trimmed:
        kind = "bought"
    elif column in plan.trimmed and isinstance(known, Range) and known.inner is not None:
        kind = "narrowed"
    follows = f"{capped} follows from the response's {kind} range ({low:.6g}, {high:.6g})."
    if plan.counts is not None and any(fault.response for fault, _, _ in plan.counts.named):
        return f"{follows} Smaller standard errors: {public}."  # it clips rows already, which the note on these says
    typed = phrase(f"domain={{{column!r}: (low, high)}}", shell=f"{column!r}: {{range: [low, high]}}")
    declare = "" if others else f" ({typed})"
    return f"{follows} {reason} A narrower range{declare} gives smaller standard errors. So does {public}."

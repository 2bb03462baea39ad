"""What the reader of a plan or a result must know, in plain words: all notes in their order."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpstats.families import Family, NegativeBinomial, Poisson, Quantile
from dpstats.families.base import OF_PIECES, closed_cap
from dpstats.families.hazard import PiecewiseExponential
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.release import MOST_COVERED
from dpstats.mechanisms.screening import ScreeningPlan
from dpstats.mechanisms.stage import StagePlan
from dpstats.plan.error_notes import errors_note, persons_note
from dpstats.plan.facts import PlanFacts
from dpstats.plan.methods import (
    CENTRE_SHARE,
    FEWEST_BOUGHT,
    INTERVAL_CAP,
    LARGE_SHIFT,
    ONE_TAIL,
    TAILS_SHARE,
    TWO_VALUES_CAP,
    WORKING_CAP,
    caps_for_intervals,
    chosen_range_eps,
    fit_spec,
    has_two_values,
    is_open_least_squares,
    may_cap_persons,
    may_take_sums,
    no_fit_statistics,
    persons_for_cap,
)
from dpstats.plan.row_notes import advised_notes, counts_note, trimmed_note, unnamed_note
from dpstats.plan.tables import capped_at, in_units, is_output, level_name, price
from dpstats.privacy.information.exact_sums import COVER_PLACES, LATTICE_LIMIT
from dpstats.privacy.trimming import rows_that_choose, rows_that_pay
from dpstats.proof_pages import cite_proof
from dpstats.summaries import format_number
from dpstats.wording import argument, phrase, sentence


def guarantee_note(plan: PlanFacts, what: str = "Everything above") -> str:
    """What is guaranteed of everything shown, or of `what`, in a sentence."""
    if not plan.guarantee.certified:
        return f"No guarantee is claimed for this output: {plan.guarantee.reason}."
    return f"{what} is {guaranteed(plan)}"


def guaranteed(plan: PlanFacts) -> str:
    """The guarantee and what it hides, for the end of a sentence."""
    guarantee = plan.guarantee
    privacy = f"({guarantee.eps:.4g}, {guarantee.delta:.4g})" if guarantee.delta else f"{guarantee.eps:.4g}"
    return f"{privacy}-differentially private for {guarantee.difference}."


GREATEST_EPS, GREATEST_DELTA = 20.0, 1e-3
"""Beyond them a guarantee promises hardly anything."""


def weak_guarantee_note(plan: PlanFacts) -> list[str]:
    """A line of warning where eps or delta is so large that the guarantee means little; empty elsewhere."""
    guarantee, rows = plan.guarantee, plan.request.options.n
    notes = []
    if guarantee.eps > GREATEST_EPS:
        notes.append(
            f"eps = {guarantee.eps:.4g} is above {GREATEST_EPS:g}: it hardly limits what a release reveals about a row."
        )
    if guarantee.delta > GREATEST_DELTA:
        notes.append(
            f"delta = {guarantee.delta:.4g} is above {GREATEST_DELTA:g}: the guarantee may fail with this probability."
        )
    elif rows is not None and guarantee.delta * rows > 1:
        notes.append(
            f"delta = {guarantee.delta:.4g} is above 1/n = {1 / rows:.4g}: publishing one of the rows would "
            "satisfy such a guarantee."
        )
    return notes


def plan_notes(
    plan: PlanFacts, *, released: bool = True, what: str = "Everything above", case: PlanFacts | None = None
) -> list[str]:
    """What the reader must know, in plain words; `released` says whether the errors that were planned were.

    `what` is what the guarantee is for. `case` is the plan for the number of rows that its tables are of, if any.
    """
    guarantee = plan.guarantee
    notes = [guarantee_note(plan, what), *weak_guarantee_note(plan)]
    notes += [plan.stages[-1].plan.shrinkage_note, errors_note(plan, released=released)]
    if guarantee.delta < plan.request.delta:
        notes.append(
            f"The fit spends {guarantee.delta:.4g} of the allowed delta of {plan.request.delta:.4g}: the noise of "
            "pure epsilon is smaller here than Gaussian noise."
        )
    notes += covered_note(plan)
    notes += sums_note(plan)
    notes += limit_note(plan)
    notes += cap_note(plan)
    notes += [] if plan.completed else alpha_note(plan)
    notes += link_note(plan)
    if guarantee.unit is not None:
        notes.append(persons_note(plan))
    notes += retrieved_note(plan if case is None else case)
    notes += fit_statistics_note(plan)
    if plan.screening is not None:
        notes.append(screening_note(plan))
    if plan.request.options.split is not None:
        notes.append(
            "Each row is assigned at random to one of two parts: one part chooses the columns, the other fits "
            "them. A row pays for its own part only, so the total is less than the sum "
            f"({cite_proof('docs/proofs/composition')}, 5)."
        )
    notes += [*unknown_note(plan), *trimmed_note(plan)]
    notes += response_note(plan)
    if plan.residuals is not None:
        notes.append(
            f"{price(plan, plan.residuals.eps)} buys a first fit and how far residuals about it reach."
            + ("" if plan.completed else " This plan has the widest cap; the fit will have less noise than shown.")
        )
    if plan.completed and plan.response is not None and plan.response.mean is not None:
        notes.append(
            f"The intercept is shrunk towards a {level_name(plan)} of "
            f"{plan.response.mean:.4g} instead of zero. The excess risk measures the norm of coefficients from "
            "there."
        )
    notes += pieces_note(plan.family) if plan.family.name in OF_PIECES else weights_note(plan.design)
    notes += [*counts_note(plan), *unnamed_note(plan)]
    return [*notes, *design_notes(plan), *advised_notes(plan)]


def response_note(plan: PlanFacts) -> list[str]:
    """What is bought of the response, and what stands in for it in a plan."""
    bought = plan.response
    if bought is None:
        return []
    note = f"{price(plan, bought.eps)} buys an estimate of where {plan.design.response_name} lies within its range."
    if plan.completed:
        return [note]
    mean = "" if bought.mean is None else f" and a {level_name(plan)} of {bought.mean:.3g}"
    return [f"{note} This plan uses the whole range{mean}; the fit will have less noise than shown."]


def retrieved_note(plan: PlanFacts) -> list[str]:
    """What the proved joint bound saves."""
    objective = plan.objective
    retrieved = objective.planned_eps - objective.joint_need
    if retrieved <= 0:
        return []
    use = {"recycle": "spent on less noise", "return": "not charged"}.get(
        str(plan.request.options.retrieval), "not used"
    )
    return [
        f"The classical calibration spends {price(plan, objective.planned_eps)} on noise of scale "
        f"{objective.classical_scale:.4g}. By the proved joint bound the same noise needs only "
        f"{price(plan, objective.joint_need)}. The difference, {price(plan, retrieved)} ('retrieved'), is {use}."
    ]


MOST_MAIN_NOTES = 3
"""A plan is printed with so many notes, beside its guarantee and its budget."""


def main_notes(plan: PlanFacts) -> list[str]:
    """The notes that matter most for a plan: probable mistakes, then what the model is, then what it buys."""
    notes = [*weak_guarantee_note(plan), *([] if plan.completed else map(sentence, plan.advice)), *counts_note(plan)]
    notes += [] if plan.screening is None else [screening_note(plan)]
    notes += [
        *limit_note(plan),
        errors_note(plan),
        *unknown_note(plan),
        *trimmed_note(plan),
        *design_notes(plan),
        *link_note(plan),
    ]
    return [*notes, *cap_note(plan)][:MOST_MAIN_NOTES]


def unknown_note(plan: PlanFacts) -> list[str]:
    """That ranges which are not declared cost budget."""
    names = [name for name in plan.bought if name not in plan.trimmed]
    if not names:
        return []
    saves = "Declaring them from a codebook would save this part of the budget."
    return [f"Ranges bought with the budget: {', '.join(names)}. {saves}"]


def design_notes(plan: PlanFacts) -> list[str]:
    """Public oddities of the design."""
    return [f"{note}." for note in plan.design.notes]


def cap_note(plan: PlanFacts) -> list[str]:
    """From which residual on least squares is no longer that, if rows can have one; of a plan, what the fit settles."""
    units, request = capped_at(plan), plan.request
    if units is None:
        uncapped = getattr(request.family, "residual_cap", None) == TWO_VALUES_CAP and has_two_values(plan.design)
        return [
            f"{plan.design.response_name} is declared as 0 and 1, so no residual is capped. If it has numbers between "
            "0 and 1, declare (0.0, 1.0): standard errors are then smaller."
        ] * uncapped
    statistics = argument("method", "statistics")
    if plan.objective.statistics is not None:
        cap = in_units(units) if plan.completed else f"a cap (usually at most {in_units(units)})"
        biased = "If most of the moved responses lie on one side of the fit, the fitted values are biased for the mean "
        biased += "response."
        if plan.residuals is not None and (plan.residuals.shift or 0.0) > LARGE_SHIFT:
            biased = (
                "Most of the moved responses seem to lie on one side of the fit. Slopes may then be biased by more "
            )
            biased += "than half a standard error, and intervals of slopes may miss."
        return [
            f"A response that is more than {cap} (in units of the response) from a rough first fit is moved to that "
            f"distance. {biased} To move no response, pass {statistics}."
        ]
    linear = (
        "enter the loss linearly, as in Huber regression. If most of these residuals have the same sign, the fitted "
        "values are biased for the mean response."
    )
    settled = f"Residuals beyond {in_units(units)} (residual_cap, in units of the response) {linear}"
    uncapped = "" if request.options.unit is not None else f" {statistics} is least squares without a cap."
    if plan.completed and plan.residuals is not None:
        uncapped = ""  # the cap fits the residuals
    elif plan.completed and caps_for_intervals(request) and isinstance(plan.design, DesignSpec):
        # The cap follows a range or an interval that may be wide; and sums that are asked for buy no ranges.
        cap, uncapped = argument("residual_cap"), ""
        if plan.response is None:
            uncapped = " The cap follows the declared range, as no interval of the response was bought. A narrower "
            uncapped += "range or more eps gives smaller standard errors."
        uncapped += " If no long tail is expected and the standard deviation of all residuals is public, 3 to 4 times "
        uncapped += f"this value often gives smaller standard errors ({cap})."
    if plan.completed or not is_open_least_squares(request):
        return [f"{settled}{uncapped}"]
    counts, of = plan.counts, request.options.record.of
    adapts = plan.design.score_ratio == 1.0 and counts is not None and counts.settles_errors
    most = INTERVAL_CAP * plan.design.response_scaling()[1]  # no tail makes it wider
    if plan.response is not None and caps_for_intervals(request):
        cap = f"The fit buys an interval of the response. The cap is {INTERVAL_CAP:g} times half its width, or "
        cap += f"{INTERVAL_CAP * ONE_TAIL / 2:g} times its width if only one of its ends is an end of the declared "
        fewest = float(f"{FEWEST_BOUGHT / plan.response.eps:.2g}")
        cap += f"range. It is at most {in_units(most)} in units of the response, and this value with fewer than about "
        cap += f"{fewest:,.0f} {of}."
    elif plan.response is not None:
        cap = f"The fit buys an interval of the response. The cap is {WORKING_CAP:g} times half its width, and at most "
        cap += f"{in_units(units)} in units of the response."
    elif adapts:
        bought = f"buys an interval of the response if there are enough {of}; it determines the cap: at most"
        cap = f"Without standard errors the cap is {in_units(units)} in units of the response. A fit with standard "
        cap += f"errors {bought if request.options.response == 'auto' else 'has the cap'} {in_units(most)}."
    else:
        return [f"{settled}{uncapped}"]
    if may_take_sums(request, plan.design) and (adapts or request.options.n is not None):
        uncapped = f" Such a fit may also take {statistics}, which has no cap, or sums that cap residuals about a "
        uncapped += "first fit."
    elif may_cap_persons(request, plan.design) and not (counts is None and request.options.n is None):
        many = f"about {persons_for_cap(request, len(plan.design.names)):,} {of}"
        spread = f"{(CENTRE_SHARE + TAILS_SHARE) * request.eps:.2g}"
        uncapped = f" With {many} or more, the fit also spends up to eps {spread} on how far residuals about a first "
        uncapped += "fit reach (residual spread), and the cap is at most what these suggest."
    return [f"Residuals beyond a cap (residual_cap) {linear} {cap}{uncapped}"]


def alpha_note(plan: PlanFacts) -> list[str]:
    """What sizes of alpha mean something under a sparse penalty: those between the noise and all that rows can add."""
    penalty, objective, design = plan.request.penalty, plan.objective, plan.design
    if penalty is None or not penalty.sparse or not penalty.convex or is_output(plan):
        return []
    rows = plan.request.options.rows_guess
    noise = float(np.median(plan.noise_sd))
    most = objective.family.lipschitz * max(term.l2 for term in design.terms)
    return [
        f"alpha = {penalty.alpha:.4g} applies to the sum of the losses, in model units: a column is kept if its "
        "gradient, summed over the rows, exceeds alpha. Noise alone gives this sum a standard deviation of "
        f"{noise:.3g}, below which alpha selects noise. Each row adds at most {most:.3g}, so no column is kept "
        f"above {most * rows:.3g} for {rows:,.0f} rows (rows_guess); the practical limit is far lower."
    ]


def link_note(plan: PlanFacts, clipping: str | None = None) -> list[str]:
    """How counts vary, and up to which mean their link is a logarithm, if not of all; how quantiles are rounded.

    With what is known of how `clipping` counts moves the slopes: `clipping_words()` if nothing is.
    """
    if isinstance(plan.family, NegativeBinomial):
        if plan.response is not None:
            return [dispersion_note(plan)]
        alpha = f"{plan.family.alpha:.4g}"
        made = phrase(" (family=dp.families.NegativeBinomial(alpha=...))", shell="")
        errors = f"also for model-based standard errors; {argument('inference', 'robust')} does not rely on it."
        if _is_robust(plan):
            errors = "and standard errors are robust: they hold for any alpha."
        return [
            f"A count of mean mu has the variance mu + {alpha} mu^2. alpha = {alpha} is assumed to be known{made}, "
            f"{errors}"
        ]
    if isinstance(plan.family, Quantile):
        return [width_note(plan, plan.family)]
    if not isinstance(plan.family, Poisson) or plan.family.curvature_bound >= plan.family.lipschitz:
        return []
    lower = ""
    if plan.response is not None and not plan.completed:
        lower = " Both caps are for the whole range; the fit buys the greatest count, which lowers them."
    return [
        f"The link is the logarithm for means up to {in_units(plan.family.curvature_bound)}. Larger means rise more "
        f"slowly, to at most {in_units(plan.family.lipschitz)}, and greater counts are clipped to it. Coefficients are "
        "those of this capped model: logarithms of ratios of means if few rows lie above the cap."
        f"{clipping_words() if clipping is None else clipping}{lower}"
    ]


def clipping_words(dispersion: str = "") -> str:
    """What clipping does to the slopes of counts that vary so many times as much as Poisson counts, or may."""
    larger = argument("y_max")
    if not dispersion:
        return (
            " If counts vary far more than Poisson counts, clipping may move slopes towards zero; a larger "
            f"{larger} avoids it."
        )
    return (
        f" Counts vary about {dispersion} times as much as Poisson counts, so clipping may move slopes towards zero "
        f"beyond their intervals; a larger {larger} avoids it."
    )


def width_note(plan: PlanFacts, family: Quantile) -> str:
    """What the rounded corner of the pinball loss does to quantiles."""
    width = closed_cap("h", family.h) * plan.design.response_scaling()[1]
    return (
        f"The corner of the loss is rounded over a width of {width:,.3g} (h, in units of the response): coefficients "
        f"and intervals are of {family.target} of the response plus a logistic shift of this scale "
        f"({cite_proof('docs/proofs/families')})."
    )


def dispersion_note(plan: PlanFacts) -> str:
    """What a bought alpha is, and what standard errors take it for."""
    assert plan.response is not None
    verb = "will be" if plan.response.alpha is None else "was"
    bought = (
        f"alpha {verb} bought for all counts without regard to their columns, and set one standard deviation above "
        "its estimate."
    )
    if _is_robust(plan):
        return f"{bought} It tends to be too large. Coefficients and robust standard errors are valid for any alpha."
    return (
        f"{bought} It tends to be too large, which may widen model-based standard errors; coefficients are valid "
        f"for any alpha. {argument('inference', 'robust')} does not use it, but its standard errors are usually wider, "
        f"often two to three times. The alternative is {argument('family', 'poisson')}: its quasi-Poisson errors use "
        "no alpha."
    )


def _is_robust(plan: PlanFacts) -> bool:
    """Whether errors of counts, where a fit has some, do not rest on the model of their variance."""
    options = plan.request.options
    return options.unit is not None or options.inference == "robust" or plan.design.score_ratio is None


def covered_note(plan: PlanFacts) -> list[str]:
    """Up to how many rows the guarantee holds, if somebody could have more."""
    covered = min(stage.plan.covered_rows for stage in plan.stages)
    if not plan.guarantee.certified or covered >= MOST_COVERED:
        return []
    return [
        f"The guarantee is proved for up to {covered:,.0f} rows; with more rows, rounding may reveal more. For "
        "larger data raise rows_at_most, which is public."
    ]


def sums_note(plan: PlanFacts) -> list[str]:
    """Up to how many rows the sums that errors rest on are whole, if more are declared; private they always are."""
    last, rows = plan.stages[-1].plan, 2.0 ** (math.log2(LATTICE_LIMIT) - COVER_PLACES)
    sums = last.statistics is not None
    if plan.request.options.rows_at_most <= rows or not (sums or last.information):
        return []
    what = "coefficients and errors" if sums else "standard errors and bias-corrected coefficients"
    return [
        f"Sums of squares are capped at those of {rows:,.0f} rows of the greatest length. With more rows {what} "
        "may be wrong; the guarantee holds all the same. A fit to a random part of the rows avoids this."
    ]


def limit_note(plan: PlanFacts) -> list[str]:
    """What limits the last release beside its noise, at the rows that are guessed."""
    note = plan.stages[-1].plan.limit_note(plan.request.options.rows_guess)
    return [] if note is None else [note]


def rounding_note(stage: StagePlan) -> list[str]:
    """What hiding the rounding of floating point costs, where there is a last step for it."""
    if stage.final_share is None:
        return []
    added = 100 * (math.hypot(1.0, stage.final_share) - 1)
    return [
        "'rounding' pays for discrete noise that hides floating-point rounding. For up to "
        f"{stage.rows_at_most:.4g} rows (rows_at_most) it adds less than {max(added, 0.001):.2g} % to the standard "
        "deviation of the noise."
    ]


def fit_statistics_note(plan: PlanFacts) -> list[str]:
    """What is bought of the fit of the whole model, or why it cannot be beside errors."""
    if plan.fitstats is not None:
        bought, by, proof = plan.fitstats, plan.fitstats.by, cite_proof("docs/proofs/fit_statistics")
        groups = "" if by is None else f", and averages by the levels of {by}"
        if plan.family.link == "identity":
            # A change of a variable is a coefficient: nothing is averaged for it.
            figures = "the number of rows and R2"
            other = (
                " Fit statistics of a linear model need a fit by the objective. Without them a fit of enough rows may "
                "release sums, which have R2 and the number of rows at no charge."
            )
        else:
            names = [name for name, _ in bought.variables or ()]
            changes = f"changes of {', '.join(names)}" if names else "changes of factors"
            named = "the averages for marginal effects" if not names and by is None else changes
            figures, other = f"the number of rows, the deviance explained and {named}", ""
        return [
            f"{price(plan, bought.eps)} buys {figures}, each with its standard error{groups} (fitstats; proof: "
            f"{proof}).{other}"
        ]
    if plan.request.options.fitstats != "auto" or plan.stages[-1].plan.information is None:
        return []
    reason = no_fit_statistics(plan.request, fit_spec(plan.request, plan.design, plan.family))
    # What follows a semicolon is for those who have asked for them.
    return [] if reason is None else [f"No fit statistics are bought: fitstats {reason.partition(';')[0]}."]


def screening_note(plan: PlanFacts) -> str:
    """What screening did to the model."""
    assert plan.screening is not None
    screening = plan.screening
    follows = "" if plan.completed else " The noise and curvature shown are those of the widest terms."
    follows += "" if plan.completed else chosen_ranges_note(plan, screening)
    return (
        f"Screening keeps {screening.choices} of {screening.candidates} terms, chosen by noisy scores (noise of "
        f"{format_number(screening.scale)} rows); all other coefficients are zero. Terms with small effects, alone "
        f"or given the others, are missed. If many terms matter, a fit of all of them is more accurate.{follows}"
    )


def chosen_ranges_note(plan: PlanFacts, screening: ScreeningPlan) -> str:
    """What narrower ranges of chosen columns cost, or may cost once the rows are counted; empty if none are bought."""
    what = (
        "an interval within the declared range of at most two chosen columns that fill little of theirs; rows outside "
        "it are left out."
    )
    request, counts = plan.request, plan.counts
    if screening.range_eps > 0:
        return f" {price(plan, screening.range_eps)} buys {what}"
    if counts is None or counts.rows is not None:
        return ""
    spec, least = fit_spec(request, plan.design, plan.family), rows_that_choose(request.row_eps, request.adjacency)
    if counts.settles_errors:  # by the number of rows
        spec = replace(spec, options=replace(spec.options, inference=True))
    most = chosen_range_eps(request, spec, least)
    of_all = rows_that_pay(request.row_eps, request.adjacency, len(counts.trimmable)) if counts.trimmable else math.inf
    if not most or least >= of_all:
        return ""
    ends = "" if math.isinf(of_all) else f" to {of_all:,.0f}"
    from_rows = f"about {least:,.0f}{ends} rows" if ends else f"about {least:,.0f} rows or more"
    return f" With {from_rows}, a fit with standard errors spends at most {most:.2g} of eps on {what}"


def pieces_note(family: Family) -> list[str]:
    """What a reader must know of records that are in pieces."""
    if not isinstance(family, PiecewiseExponential):
        return [
            "The logits of being above each cut-point have the same coefficients; exp(coef) is the ratio of the odds "
            "of a higher level. Cut-points are those of R's polr: the logit of being at or below one is it less the "
            "terms. Errors take proportional odds for granted unless they are robust, and those of cut-points are "
            "then too wide. A row is one record, whatever the number of levels."
        ]
    return [
        "A row of the data is one record, whatever the number of intervals. Coefficients are logarithms of hazard "
        "ratios; the intercept is that of the events expected over the whole time. In an interval a person "
        f"counts at most {family.most:.4g} events times the interval's part of the whole time (rate_cap)."
    ]


def weights_note(design: PublicDesign) -> list[str]:
    """What a reader must know of weights and trials."""
    notes = []
    if design.score_ratio is None:
        most = design.weights.high if isinstance(design, DesignSpec) and design.weights is not None else None
        bound = "the greatest weight allowed" if most is None else f"{most:.4g}, the upper end of their range"
        notes.append(f"Weights are divided by {bound}, so one row counts at most once. Standard errors are robust.")
    if isinstance(design, DesignSpec) and design.response.trials is not None:
        notes.append(
            f"A row of successes and failures is weighted by its trials divided by {design.response.trials:.4g}, "
            "the greatest possible number, so one row has at most the influence of one 0/1 response."
        )
    return notes

"""What the reader of a plan or a result must know, in plain words."""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np

from dpstats.errors import ArgumentError
from dpstats.families import NegativeBinomial, Poisson
from dpstats.formula.advice import TAKEN
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.release import MOST_COVERED
from dpstats.mechanisms.spec import obstacle
from dpstats.mechanisms.stage import StagePlan
from dpstats.plan.facts import PlanFacts
from dpstats.plan.methods import no_fit_statistics, range_eps
from dpstats.plan.tables import capped_at, is_output
from dpstats.privacy.information.exact_sums import COVER_PLACES, LATTICE_LIMIT
from dpstats.privacy.trimming import rows_to_narrow
from dpstats.proof_pages import cite_proof
from dpstats.summaries import format_number
from dpstats.wording import argument, phrase

ROWS_TRIED = tuple(250 * 2**doubled for doubled in range(16))
"""Numbers of rows that a forecast tries."""

MOST_FORETOLD = 20
"""A forecast of more coefficients takes longer than printing a plan should."""

NEIGHBOURS = {
    ("add_remove", True): "adding or removing one row",
    ("replace_one", True): "changing the contents of one row (the number of rows is public)",
    ("add_remove", False): "adding or removing one {unit} with all its rows",
    ("replace_one", False): "replacing all rows of one {unit} (how many there are is public)",
}
"""What a guarantee hides, by its notion of neighbours and whether it is for rows."""


def guarantee_note(plan: PlanFacts) -> str:
    """What is guaranteed of everything shown, in a sentence."""
    if not plan.guarantee.certified:
        return f"No guarantee is claimed for this output: {plan.guarantee.reason}."
    return f"Everything above is {guaranteed(plan)}"


def guaranteed(plan: PlanFacts) -> str:
    """The guarantee and what it hides, for the end of a sentence."""
    guarantee = plan.guarantee
    neighbours = NEIGHBOURS[guarantee.adjacency, guarantee.unit is None].format(unit=guarantee.unit)
    privacy = f"({guarantee.eps:.4g}, {guarantee.delta:.4g})" if guarantee.delta else f"{guarantee.eps:.4g}"
    return f"{privacy}-differentially private for {neighbours}."


def plan_notes(plan: PlanFacts, *, released: bool = True) -> list[str]:
    """What the reader must know, in plain words; `released` says whether the errors that were planned were."""
    guarantee, objective = plan.guarantee, plan.objective
    notes = [guarantee_note(plan), plan.stages[-1].plan.shrinkage_note, errors_note(plan, released=released)]
    if guarantee.delta < plan.request.delta:
        notes.append(
            f"Of the delta of {plan.request.delta:.4g} that was allowed {guarantee.delta:.4g} is spent: pure noise is "
            "less here than Gaussian noise."
        )
    notes += covered_note(plan)
    notes += sums_note(plan)
    notes += limit_note(plan)
    notes += cap_note(plan)
    notes += [] if plan.completed else alpha_note(plan)
    notes += link_note(plan)
    if guarantee.unit is not None:
        notes.append(persons_note(plan))
    retrieved = objective.planned_eps - objective.joint_need
    if retrieved > 0:
        use = {"recycle": "spent on less noise", "return": "not charged"}.get(
            str(plan.request.options.retrieval), "not used"
        )
        notes.append(
            f"Noise of scale {objective.classical_scale:.4g} is what the classical calibration buys with eps "
            f"{objective.planned_eps:.4g}; by the proved joint bound it needs {objective.joint_need:.4g} only. "
            f"The difference, {retrieved:.4g} ('retrieved'), is {use}."
        )
    notes += fit_statistics_note(plan)
    if plan.screening is not None:
        notes.append(screening_note(plan))
    if plan.request.options.split is not None:
        notes.append(
            "Each row went by a draw of its own to one of two parts: one chose the columns, the other fitted them. A "
            f"row pays for its own part only, so the total is not the sum ({cite_proof('docs/proofs/composition')}, 5)."
        )
    unknown = [name for name in plan.bought if name not in plan.trimmed]
    if unknown:
        names = ", ".join(unknown)
        notes.append(f"Ranges bought with the budget: {names}. Declaring what a codebook says of them would save it.")
    notes += trimmed_note(plan)
    if plan.response is not None:
        notes.append(
            f"{plan.response.eps:.4g} of eps buys what the fit needs to know of {plan.design.response_name} within its "
            "range." + ("" if plan.completed else " Until then the range stands in: the noise will be less than shown.")
        )
    if plan.response is not None and plan.response.mean is not None:
        notes.append(
            f"The intercept is shrunk towards a {'rate' if plan.design.offset_bound else 'mean'} of "
            f"{plan.response.mean:.4g}, not zero; the excess risk is over coefficients whose norm is counted from "
            "there."
        )
    notes += weights_note(plan.design)
    notes += counts_note(plan)
    advised = [] if plan.completed else [f"{one[0].upper()}{one[1:]}." for one in plan.advice if TAKEN not in one]
    return [*notes, *assumed_response_note(plan), *design_notes(plan), *advised]


def counts_note(plan: PlanFacts) -> list[str]:
    """What the rows, counted before the fit, say of the Domain."""
    if plan.counts is None or plan.counts.rows is None:
        return []
    return [f"{one[0].upper()}{one[1:]}." for one in plan.counts.findings()]


def trimmed_note(plan: PlanFacts) -> list[str]:
    """What intervals within declared ranges cost, and how many rows it takes to narrow a range."""
    if not plan.trimmed:
        return []
    eps, number = range_eps(plan.request, plan.bought), len(plan.trimmed)
    least = rows_to_narrow(eps / len(plan.bought), plan.request.adjacency, number)
    until = "" if plan.completed else " Until then the declared ranges stand in: the noise will be less than shown."
    return [
        f"{eps:.4g} of eps buys, within the declared range of {', '.join(plan.trimmed)}, the interval that holds "
        "nearly all rows; the others are left out. Fewer than about "
        f"{least:,.0f} rows keep the declared range.{until}"
    ]


def assumed_response_note(plan: PlanFacts) -> list[str]:
    """What an undeclared response was taken for."""
    return [f"{one}." for one in plan.advice if TAKEN in one]


def design_notes(plan: PlanFacts) -> list[str]:
    """Public oddities of the design."""
    return [f"{note}." for note in plan.design.notes]


def cap_note(plan: PlanFacts) -> list[str]:
    """From which residual on least squares is no longer that, if rows can have one."""
    units = capped_at(plan)
    if units is None:
        return []
    return [
        f"Residuals beyond {units:,.4g} (residual_cap, in units of the response) count linearly, not squared: of a "
        f"skewed response this is not the mean. {argument('method', 'statistics')} is least squares without a cap."
    ]


def alpha_note(plan: PlanFacts) -> list[str]:
    """What sizes of alpha mean something under a sparse penalty: those between the noise and all that rows can add."""
    penalty, objective, design = plan.request.penalty, plan.objective, plan.design
    if penalty is None or not penalty.sparse or not penalty.convex or is_output(plan):
        return []
    rows = plan.request.options.rows_guess
    noise = float(np.median(plan.noise_sd))
    most = objective.family.lipschitz * max(term.l2 for term in design.terms)
    return [
        f"alpha = {penalty.alpha:.4g} is on the sum of the losses, in model units: a column is kept where its "
        f"gradient, summed over the rows, passes alpha. Noise alone gives that sum a standard deviation of "
        f"{noise:.3g}, below which alpha chooses noise; a row adds {most:.3g} at most, so that no column is kept above "
        f"{most * rows:.3g} for {rows:,.0f} rows (rows_guess), and in practice far below."
    ]


def link_note(plan: PlanFacts) -> list[str]:
    """How counts vary, and up to which mean their link is a logarithm, if not of all."""
    if isinstance(plan.family, NegativeBinomial):
        alpha = f"{plan.family.alpha:.4g}"
        made = phrase(" (family=dp.families.NegativeBinomial(alpha=...))", shell="")
        return [
            f"Counts of mean mu have the variance mu + {alpha} mu^2: alpha = {alpha} is taken as known"
            f"{made}, by model-based standard errors too; {argument('inference', 'robust')} "
            "does not trust it."
        ]
    if not isinstance(plan.family, Poisson) or plan.family.curvature_bound >= plan.family.lipschitz:
        return []
    return [
        f"The link is the logarithm for means up to {plan.family.curvature_bound:.4g}; larger means rise more slowly, "
        f"to {plan.family.lipschitz:.4g} at most, and greater counts are clipped to that. Coefficients and their "
        "intervals are those of this capped model: logarithms of ratios of means where few rows lie beyond."
    ]


def lost_errors(plan: PlanFacts) -> str | None:
    """Why a fit has no errors though they were planned; None if they were not."""
    wanted, options = plan.request.options.inference, plan.request.options
    if not plan.completed or wanted is None or obstacle(plan.family, plan.request.penalty, options) is not None:
        return None
    role, last = plan.stages[-1]
    if last.information is not None:
        unchosen = "no column was chosen, or " if role == "refit" else ""
        return f"{unchosen}the coefficients are too large for the information at them to be priced"
    if wanted == "auto":
        return None
    return (
        "beside the columns that were chosen no noise within the budget leaves room for them, and all of it went to "
        "the coefficients; fewer terms, another choice or more eps may have them"
    )


def errors_note(plan: PlanFacts, *, released: bool = True) -> str:
    """Whether standard errors are part of the release."""
    few = "Few rows say little: coefficients of rare levels and rare 0/1 columns carry the most noise."
    last = plan.stages[-1].plan
    information = last.information
    if last.errors_note is not None:
        return last.errors_note
    lost = lost_errors(plan)
    if lost is not None and not (released and information is not None):
        return (
            f"Standard errors were planned and are no part of this release: {lost}. 'noise at most' bounds the "
            f"standard deviation that noise alone gives a coefficient, whatever the rows are. {few}"
        )
    if information is None and plan.focus is not None:
        return (
            f"{plan.focus.eps:.4g} of eps buys two sums of each arm of {plan.focus.treatment}, whose coefficient alone "
            "has an interval. It takes for granted that chance assigned the treatment, whatever else a row holds "
            f"(focus; proof: {cite_proof('docs/proofs/focus')}). {few}"
        )
    if information is None:
        offered = obstacle(plan.family, plan.request.penalty, plan.request.options) is None
        buys = f"; {argument('inference', True)} buys them" if offered else ""
        return (
            f"Standard errors are functions of the rows and no part of this release{buys}. 'noise "
            f"at most' bounds the standard deviation that noise alone gives a coefficient, whatever the rows are. {few}"
        )
    spread = information.purchase.spread
    if information.purchase.free:
        few = (
            "They are free, of what room the fit leaves, and a matter of luck where that is little: with many "
            "columns, rare levels or wide ranges one draw has them and the next has not. "
            f"{argument('inference', True)} pays for errors that are there. {rows_needed_note(plan)}{few}"
        )
    cap = information.purchase.weight_cap
    capped = (
        "" if cap is None else f"No row weighs more than {cap:.3g} there, and what that leaves out is made up for. "
    )
    kind = {"robust": "robust", "clustered": f"robust, clustered by {plan.guarantee.unit}"}.get(spread, "model-based")
    return (
        f"Standard errors ({kind}) account for the sample, for the noise in the coefficients and for that in the "
        f"information matrix, which is released beside them (proof: {cite_proof('docs/proofs/information')}). "
        f"{capped}{few}"
    )


def covered_note(plan: PlanFacts) -> list[str]:
    """Up to how many rows the guarantee holds, if somebody could have more."""
    covered = min(stage.plan.covered_rows for stage in plan.stages)
    if not plan.guarantee.certified or covered >= MOST_COVERED:
        return []
    return [
        f"The guarantee is proved for up to {covered:,.0f} rows; rounding may tell more of more. Who has more says so "
        "in public, by rows_at_most."
    ]


def sums_note(plan: PlanFacts) -> list[str]:
    """Up to how many rows the sums that errors rest on are whole, if more are declared; private they always are."""
    last, rows = plan.stages[-1].plan, 2.0 ** (math.log2(LATTICE_LIMIT) - COVER_PLACES)
    sums = last.statistics is not None
    if plan.request.options.rows_at_most <= rows or not (sums or last.information):
        return []
    what = "coefficients and errors" if sums else "standard errors, and coefficients that are free of the shrinkage,"
    return [
        f"Sums of squares end at what {rows:,.0f} of the longest rows make: of more rows {what} may be wrong, though "
        "as private as ever. A fit to a random part of the rows has them."
    ]


def limit_note(plan: PlanFacts) -> list[str]:
    """What limits the last release beside its noise, at the rows that are guessed."""
    said = plan.stages[-1].plan.limit_note(plan.request.options.rows_guess)
    return [] if said is None else [said]


def rows_needed_note(plan: PlanFacts) -> str:
    """From how many rows on free errors are likely to be there, by a forecast; empty where there is none."""
    if plan.call is None:
        return ""
    if len(plan.names) > MOST_FORETOLD:
        forecast = phrase("plan.standard_errors(n)", shell="python -m dpstats plan --rows N")
        return f"{forecast} foretells whether they will be. "
    try:
        place = bisect_left(ROWS_TRIED, True, key=plan.call.forecast(plan, None, None, None).enough)
    except ArgumentError:  # of persons, weights or ranges still to be bought nothing is foreseen
        return ""
    if place == len(ROWS_TRIED):
        return ""
    return (
        f"About {ROWS_TRIED[place]:,} rows are enough for all of them, even if numbers are narrow and levels rare "
        f"({phrase('plan.standard_errors', shell='python -m dpstats plan --rows N')}). "
    )


def persons_note(plan: PlanFacts) -> str:
    """What becomes of a person's rows."""
    record = plan.request.options.record
    if record.shared:
        return (
            f"The rows of one {record.column} share a weight of 1 in equal parts, however many they are: a mean row of "
            f"each counts. Rows with no {record.column} are left out."
        )
    return (
        f"At most {record.rows} rows of each {record.column} count, drawn at random where there are more, with "
        f"{record.rows} times the noise of one. Rows with no {record.column} are left out."
    )


def rounding_note(stage: StagePlan) -> list[str]:
    """What hiding the rounding of floating point costs, where there is a last step for it."""
    if stage.final_share is None:
        return []
    added = 100 * (math.hypot(1.0, stage.final_share) - 1)
    return [
        f"'rounding' pays for discrete noise that hides what floating point betrays. Up to {stage.rows_at_most:.4g} "
        f"rows (rows_at_most) it adds less than {max(added, 0.001):.2g} % to the noise's standard deviation."
    ]


def fit_statistics_note(plan: PlanFacts) -> list[str]:
    """What is bought of the fit of the whole model, or why it cannot be beside errors."""
    if plan.fitstats is not None:
        figure = "R2" if plan.family.link == "identity" else "the deviance explained"
        names = [name for name, _ in plan.fitstats.variables or ()]
        changes = f"changes of {', '.join(names)}" if names else "changes of factors"
        named = "what average marginal effects need" if not names and plan.fitstats.by is None else changes
        groups = "" if plan.fitstats.by is None else f", averages by the levels of {plan.fitstats.by} as well"
        return [
            f"{plan.fitstats.eps:.4g} of eps buys the number of rows, {figure} and {named}, "
            f"each with its error{groups} (fitstats; proof: {cite_proof('docs/proofs/fit_statistics')})."
        ]
    if plan.request.options.fitstats != "auto" or plan.stages[-1].plan.information is None:
        return []
    reason = no_fit_statistics(plan.request, plan.design, plan.family)
    return [] if reason is None else [f"No fit statistics are bought: fitstats {reason}."]


def screening_note(plan: PlanFacts) -> str:
    """What screening did to the model."""
    assert plan.screening is not None
    screening = plan.screening
    follows = "" if plan.completed else " Noise and curvature above are those of the widest terms, which stand in."
    return (
        f"Screening keeps {screening.choices} of {screening.candidates} terms, chosen by noisy scores (noise of "
        f"{format_number(screening.scale)} rows); all other coefficients are zero. Terms that matter little, "
        f"alone or beside others, are missed: where many matter, a fit of all loses less.{follows}"
    )


def weights_note(design: PublicDesign) -> list[str]:
    """What a reader must know of weights and trials."""
    notes = []
    if design.score_ratio is None:
        most = design.weights.high if isinstance(design, DesignSpec) and design.weights is not None else None
        bound = "the greatest weight allowed" if most is None else f"{most:.4g}, the upper end of their range"
        notes.append(
            f"Weights are divided by {bound}, so that one row counts once at most. Standard errors are robust."
        )
    if isinstance(design, DesignSpec) and design.response.trials is not None:
        notes.append(
            f"A row of successes and failures counts as its trials over {design.response.trials:.4g}, the greatest "
            "number of them: one row has the influence of one 0/1 response at most."
        )
    return notes

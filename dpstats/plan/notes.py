"""What the reader of a plan or a result must know, in plain words."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.domain import Range
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, BinomialCounts, Family, NegativeBinomial, Poisson, Quantile
from dpstats.families.base import OF_PIECES, closed_cap
from dpstats.families.hazard import PiecewiseExponential
from dpstats.formula.advice import MOST_LISTED, end_codes, missing_code
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.napp import TYPICAL_RESIDUAL
from dpstats.mechanisms.release import MOST_COVERED
from dpstats.mechanisms.screening import ScreeningPlan
from dpstats.mechanisms.spec import obstacle
from dpstats.mechanisms.spreads import FILLED_SPREAD, declared_spreads
from dpstats.mechanisms.stage import StagePlan
from dpstats.penalties.base import NEGLIGIBLE
from dpstats.plan.facts import PlanFacts
from dpstats.plan.methods import (
    APART,
    FEWEST_BOUGHT,
    INTERVAL_CAP,
    ONE_TAIL,
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
    range_eps,
)
from dpstats.plan.row_counts import DRAWN, LARGE_UNNAMED, rows_of_nobody
from dpstats.plan.tables import capped_at, in_units, is_output, uninformative_columns
from dpstats.privacy.information.exact_sums import COVER_PLACES, LATTICE_LIMIT
from dpstats.privacy.trimming import MOST_SHARE, rows_that_choose, rows_that_pay, rows_to_narrow
from dpstats.proof_pages import cite_proof
from dpstats.summaries import format_number
from dpstats.wording import argument, joined, phrase, sentence, shell_command

ROWS_TRIED = tuple(250 * 2**doubled for doubled in range(16))
"""Numbers of rows that a forecast tries."""

MOST_FORECAST = 20
"""A forecast of more coefficients takes longer than printing a plan should."""

NEARLY = 0.85
"""A number that is at least this part of another is not told beside it."""

FEWEST_CHOSEN = 5
"""Of no more coefficients a sparse penalty hardly chooses: a fit of all has their errors."""


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
            f"{_price(plan, plan.residuals.eps)} buys a first fit and how far residuals about it reach."
            + ("" if plan.completed else " This plan has the widest cap; the fit will have less noise than shown.")
        )
    if plan.completed and plan.response is not None and plan.response.mean is not None:
        notes.append(
            f"The intercept is shrunk towards a {_level_name(plan)} of "
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
    price = f"{_price(plan, bought.eps)} buys an estimate of where {plan.design.response_name} lies within its range."
    if plan.completed:
        return [price]
    mean = "" if bought.mean is None else f" and a {_level_name(plan)} of {bought.mean:.3g}"
    return [f"{price} This plan uses the whole range{mean}; the fit will have less noise than shown."]


def _level_name(plan: PlanFacts) -> str:
    """What is bought of the level of counts, in a word."""
    return "rate" if plan.design.offset_bound else "mean"


def _price(plan: PlanFacts, eps: float) -> str:
    """What a part costs, as in the table of the budget: a person may have several rows that each cost `eps`."""
    return f"eps {eps * plan.request.options.record.rows:.4g}"


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
        f"The classical calibration spends {_price(plan, objective.planned_eps)} on noise of scale "
        f"{objective.classical_scale:.4g}. By the proved joint bound the same noise needs only "
        f"{_price(plan, objective.joint_need)}. The difference, {_price(plan, retrieved)} ('retrieved'), is {use}."
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


def counts_note(plan: Any) -> list[str]:
    """What the rows, counted before the fit, say of the Domain, in one note."""
    if plan.counts is None or plan.counts.rows is None:
        return []
    sentences = [sentence(one) for one in count_findings(plan)]
    return [" ".join(sentences)] if sentences else []


def unnamed_note(plan: PlanFacts) -> list[str]:
    """That a fit's counts name no small faults: a reader would take their silence for none."""
    counts = plan.counts
    if counts is None or counts.rows is None or not counts.faults:
        return []
    check = phrase("dp.check", shell="python -m dpstats check")
    named = f"they name a column only if at least about {counts.least_named:,.0f} {counts.of_faults} are at fault"
    return [" ".join([f"The counts do not replace {check}: {named}.", *faults_line(plan)])]


def faults_line(plan: Any) -> list[str]:
    """How many rows a column may lose or clip that is not named for it, where these are not few."""
    counts = plan.counts
    if counts is None or counts.rows is None or not counts.faults:
        return []
    most, share = counts.most_unnamed
    if share <= LARGE_UNNAMED:
        return []
    unit, eps = plan.guarantee.unit, counts.eps_to_check
    typed = [] if unit is None else [argument("unit", unit)]  # without it single rows are protected
    typed += [phrase(f"eps={eps:g}", shell=f"--eps {eps:g}")] if eps <= plan.guarantee.eps else []
    python = f"dp.check{' with ' * bool(typed)}{joined(typed)}"
    family = getattr(plan, "family", None)  # of released sums there is none, and no command of the shell
    command = "" if family is None else shell_command("check", family.name)
    check = phrase(python, shell=" ".join([command, *typed]))
    which = "no other column" if counts.named else "no column"
    if share >= 1:
        return [f"Noise hides how many rows a column loses or clips. {check} counts them."]
    drawn = f"{DRAWN}; " * counts.persons
    # They are counted under the Domain as declared, before anything is bought.
    bought = set(getattr(plan, "bought", ())).difference(getattr(plan, "trimmed", ())).union(narrowed_columns(plan))
    beyond = f" Rows beyond the {'ranges' if len(bought) > 1 else 'range'} that the fit bought are not counted."
    return [
        f"With 95 % confidence, {which} loses or clips more than about {most:,} rows ({drawn}{100 * share:.2g} % of "
        f"all) unnoticed.{beyond * bool(bought)} {check} counts smaller faults."
    ]


def advised_notes(plan: PlanFacts) -> list[str]:
    """What was probably not meant, without ranges that end at a code for missing where a bought one leaves it out."""
    if not isinstance(plan.design, DesignSpec):  # of arrays
        return list(map(sentence, plan.advice))
    parsed = plan.design.parsed
    ranges = narrowed_columns(plan)
    left_out = {missing_code(name, parsed, _declared(ranges[name])) for name in codes_left_out(plan)}
    return [sentence(one) for one in plan.advice if one not in left_out]


def codes_left_out(plan: Any) -> dict[str, list[float]]:
    """Codes for missing at the end of a declared range which the narrower one that was bought leaves out, by column."""
    ends = {name: (one, end_codes(_declared(one))) for name, one in narrowed_columns(plan).items()}
    return {name: codes for name, (one, codes) in ends.items() if codes and not one.holds(np.array(codes)).any()}


def _declared(narrowed: Range) -> Range:
    """A range as it was before a narrower one was bought."""
    return replace(narrowed, inner=None)


def count_findings(plan: Any) -> list[str]:
    """Columns that certainly lose or clip rows, in sentences."""
    return plan.counts.findings(narrowed_columns(plan))


def narrowed_columns(plan: Any) -> dict[str, Range]:
    """Columns of which a narrower range than the declared one was bought, with what is known of them since."""
    screening = getattr(plan, "screening", None)
    names = (*getattr(plan, "trimmed", ()), *(() if screening is None else screening.narrowed))
    if not names or not isinstance(plan.design, DesignSpec):
        return {}
    known = ((name, plan.design.domain.get(name)) for name in names)
    return {name: one for name, one in known if isinstance(one, Range) and one.inner is not None}


def _listed(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = [f"{len(names) - MOST_LISTED} more"] if len(names) > MOST_LISTED else []
    return ", ".join([*names[: MOST_LISTED if more else None], *more])


def trimmed_note(plan: PlanFacts) -> list[str]:
    """What intervals within declared ranges cost or may cost, and how many rows it takes to narrow a range."""
    counts = plan.counts
    if not plan.trimmed and counts is not None and counts.trimmable and counts.rows is None:
        most = min(MOST_SHARE, plan.request.options.range_share)
        least = rows_that_pay(plan.request.row_eps, plan.request.adjacency, len(counts.trimmable))
        return [
            f"With about {least:,.0f} rows or more, a fit spends at most {100 * most:.2g} % of eps on narrower ranges "
            f"of {_listed(counts.trimmable)} that hold nearly all rows, and leaves out other rows. "
            f"{argument('ranges', 'declared')} buys none. The forecast is for the declared ranges."
        ]
    if not plan.trimmed:
        return []
    eps, number = range_eps(plan.request, plan.bought), len(plan.trimmed)
    narrowed = narrowed_columns(plan) if plan.completed else plan.trimmed
    names = [name for name in plan.trimmed if name in narrowed]
    if not names:
        return [
            f"{_price(plan, eps)} is spent on narrower ranges of {_listed(plan.trimmed)}. The declared ranges stay, as "
            "where values fill them, rows are few or nearly all values are 0."
        ]
    needed = ""
    if not (plan.completed or (counts is not None and counts.trimmable)) and plan.request.options.n is None:
        # Where the number of rows decides the price, fits of fewer rows pay more and need fewer.
        least = rows_to_narrow(eps / len(plan.bought), plan.request.adjacency, number)
        needed = f" With fewer than about {least:,.0f} rows the declared range stays."
    until = "" if plan.completed else " This plan uses the declared ranges; the fit will have less noise than shown."
    return [
        f"{_price(plan, eps)} buys a narrower range of {_listed(names)}, which holds nearly all rows. Rows "
        f"outside it are left out.{needed}{until}"
    ]


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
        cap = in_units(units) if plan.completed else f"a cap (at most {in_units(units)})"
        return [
            f"A response that is more than {cap} (in units of the response) from a rough first fit is moved to that "
            "distance. If most of the moved responses lie on one side of the fit, the fitted values are biased for the "
            f"mean response. To move no response, pass {statistics}."
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
        uncapped = " With many persons the fit also buys how far residuals about a first fit reach, and the cap is at "
        uncapped += "most what these suggest."
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


def may_screen(plan: PlanFacts) -> bool:
    """Whether screening could choose the columns in the place of a sparse penalty."""
    barred = plan.screening is not None or plan.family.name in OF_PIECES
    return not barred and plan.request.options.retrieval != "return"


def kept_note(plan: PlanFacts, rows: float | None = None, eta: float = 0.0) -> list[str]:
    """That a sparse penalty keeps columns without effect too, how many of them, and which call tests effects.

    `rows` is their number if it is known, `eta` the linear predictor at the centre of all columns.
    """
    objective, options = plan.objective, plan.request.options
    penalty, few = objective.penalty, len(plan.names) <= FEWEST_CHOSEN
    if penalty is None or not penalty.sparse or options.refit_share > 0 or few:
        return []
    note = "Columns are kept for prediction and may have no effect."
    if objective.released is None and penalty.convex:  # objective perturbation
        slopes = penalty.slope(np.full(objective.size, NEGLIGIBLE), objective.penalty_weights)
        penalised = slopes > 0
        kept = []
        for sampling in _null_variances(plan, rows, eta):
            spread = np.sqrt(objective.noise_variances + sampling[plan.kept])
            kept.append(float(np.sum(2 * special.ndtr(-slopes[penalised] / spread[penalised]))))
        if kept[-1] >= 1:
            low, high = (f"{float(f'{number:.2g}'):.0f}" for number in (kept[0], kept[-1]))
            number = f"about {high if kept[0] > NEARLY * kept[-1] else f'{low} to {high}'} of {np.sum(penalised)}"
            if len(kept) > 1:
                note += f" Noise and chance alone would keep {number} independent columns, more if they are correlated."
            else:
                note += f" Noise alone would keep {number}; chance in many rows, and correlated columns, add to these."
    if not may_screen(plan):
        return [note]
    screen, apart = phrase("screen=K", shell="--set screen=K"), argument("split", "rows")
    return [f"{note} {screen} with {apart} and {argument('inference', True)} tests effects."]


def _null_variances(plan: PlanFacts, rows: float | None, eta: float) -> list[NDArray[np.float64]]:
    """Variances over samples of the scores of columns without effect, shape (p,) each: the least and most likely.

    Zero alone if the rows, what they weigh or how columns vary is not known.
    """
    family, design = plan.objective.family, plan.design
    if rows is None or not isinstance(design, DesignSpec) or design.weights is not None:
        return [np.zeros(len(plan.names))]
    if isinstance(family, (Binomial, NegativeBinomial, Poisson)):
        # Where the model holds the variance of the slope is the mean curvature.
        point = np.array([eta])
        variance = float(family.weight(point, family.mean(point))[0])
        if isinstance(family, BinomialCounts):
            variance /= closed_cap("trials", family.trials)
        deviations = variance**0.5, variance**0.5
    else:
        deviations = family.lipschitz * TYPICAL_RESIDUAL, family.lipschitz
    spreads = declared_spreads(design), declared_spreads(design, usual=FILLED_SPREAD)
    return [rows * (one * spread) ** 2 for one, spread in zip(deviations, spreads, strict=True)]


def link_note(plan: PlanFacts) -> list[str]:
    """How counts vary, and up to which mean their link is a logarithm, if not of all; how quantiles are rounded."""
    if isinstance(plan.family, NegativeBinomial):
        if plan.response is not None:
            return [dispersion_note(plan)]
        alpha = f"{plan.family.alpha:.4g}"
        made = phrase(" (family=dp.families.NegativeBinomial(alpha=...))", shell="")
        return [
            f"A count of mean mu has the variance mu + {alpha} mu^2. alpha = {alpha} is assumed to be known{made}, "
            f"also for model-based standard errors; {argument('inference', 'robust')} does not rely on it."
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
        "those of this capped model: logarithms of ratios of means if few rows lie above the cap. If counts vary "
        f"far more than Poisson counts, slopes are too near zero; a larger {argument('y_max')} avoids it.{lower}"
    ]


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
    return (
        f"alpha {verb} bought for all counts without regard to their columns, and set one standard deviation above "
        "its estimate. It tends to be too large, which may widen model-based standard errors; coefficients are valid "
        f"for any alpha. {argument('inference', 'robust')} does not use it, but its standard errors are usually wider, "
        f"often two to three times. The alternative is {argument('family', 'poisson')}: its quasi-Poisson errors use "
        "no alpha."
    )


def lost_errors(plan: PlanFacts) -> str | None:
    """Why a fit has no errors though they were planned; None if they were not."""
    wanted, options = plan.request.options.inference, plan.request.options
    if not plan.completed or wanted is None or obstacle(plan.family, plan.request.penalty, options) is not None:
        return None
    role, last = plan.stages[-1]
    if last.information is not None:
        unchosen = "no column was chosen, or " if role == "refit" else ""
        return f"{unchosen}the released coefficients are too large for an information matrix to be priced"
    if wanted == "auto":
        return None
    return (
        "for the columns chosen, the budget has no room for them and went to the coefficients alone; fewer terms, "
        "another selection or more eps may help"
    )


def lacks_errors(plan: PlanFacts) -> bool:
    """Whether a fit of persons has no errors whatever is counted, though they are offered and nobody declined them."""
    options, counts = plan.request.options, plan.counts
    offered = plan.request.method not in APART and obstacle(plan.family, plan.request.penalty, options) is None
    open_errors = options.unit is not None and options.inference == "auto" and options.focus is None
    return offered and open_errors and not (counts is not None and counts.settles_errors)


def errors_note(plan: PlanFacts, *, released: bool = True) -> str:
    """Whether standard errors are part of the release."""
    few = "Coefficients of rare levels and rare 0/1 columns carry the most noise."
    last = plan.stages[-1].plan
    information = last.information
    if last.errors_note is not None:
        return last.errors_note
    lost = lost_errors(plan)
    if lost is not None and not (released and information is not None):
        return (
            f"Standard errors were planned but are not part of this release: {lost}. 'noise at most' bounds the "
            f"standard deviation of the privacy noise in a coefficient, for any rows. {few}"
        )
    counts, alike = plan.counts, plan.design.score_ratio == 1.0  # of weights the number of rows settles nothing
    if counts is not None and counts.settles_errors and counts.rows is None and alike:
        forecast = phrase("plan.standard_errors(n, typical=...)", shell="--rows N")
        predicted = "" if plan.screening is not None else f"{forecast} forecasts them. "
        return (
            f"The budget for standard errors depends on the number of {counts.of}, as in the table above. "
            f"{argument('inference', True)} always pays for them. {predicted}{few}"
        )
    if information is None and plan.focus is not None:
        return (
            f"{_price(plan, plan.focus.eps)} buys two sums of each arm of {plan.focus.treatment}, whose coefficient "
            "alone has an interval. It assumes that the treatment was assigned at random, independently of all "
            f"other columns (focus; proof: {cite_proof('docs/proofs/focus')}). {few}"
        )
    if information is None:
        offered = obstacle(plan.family, plan.request.penalty, plan.request.options) is None
        buys = f"; {argument('inference', True)} buys them" if offered and not plan.completed else ""
        return (
            f"Standard errors depend on the rows and are not part of this release{buys}. 'noise at most' bounds "
            f"the standard deviation of the privacy noise in a coefficient, for any rows. {few}"
        )
    spread = information.purchase.spread
    if information.purchase.free:
        few = (
            "They cost no extra budget, but not every fit has them: with many columns, rare levels or wide ranges "
            f"it depends on the draw of the noise. {_level_supposed(plan)}{argument('inference', True)} reserves "
            f"budget for them. {rows_needed_note(plan)}{few}"
        )
    cap, given = information.purchase.weight_cap, plan.request.options.information_cap
    capped = (
        ""
        if cap is None or not (plan.completed or given is not None)
        else f"Each row has a weight of at most {cap:.3g} in it, and the errors are corrected for this cap. "
    )
    by_person = f"robust, clustered by {plan.guarantee.unit}" if plan.guarantee.unit is not None else "robust"
    kind = {"robust": "robust", "clustered": by_person}.get(spread, "model-based")
    return (
        f"Standard errors ({kind}) account for sampling, for the noise in the coefficients and for the noise in "
        f"the information matrix, which is released with them (proof: {cite_proof('docs/proofs/information')}). "
        f"{capped}{few}"
    )


def _level_supposed(plan: PlanFacts) -> str:
    """That free errors of counts rest on a mean that is still to be bought; else empty."""
    bought = plan.response
    if plan.completed or bought is None or bought.mean is None:
        return ""
    level = _level_name(plan)
    return (
        f"This plan supposes that {plan.design.response_name} has a {level} of {bought.mean:.3g}. If the {level} is a "
        "large part of the greatest count, the fit may have no fit statistics, or no free standard errors. "
    )


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


def rows_needed_note(plan: PlanFacts) -> str:
    """From how many rows on free errors are likely to be there, by a forecast; empty where there is none."""
    if plan.call is None:
        return ""
    if len(plan.names) > MOST_FORECAST:
        forecast = phrase("plan.standard_errors(n)", shell="--rows N")
        return f"{forecast} predicts whether a fit will have them. "
    try:
        place = bisect_left(ROWS_TRIED, True, key=plan.call.forecast(plan, None, None, None).enough)
    except ArgumentError:  # of persons, weights or ranges still to be bought there is no forecast
        return ""
    if place == len(ROWS_TRIED):
        return ""
    supposed = uninformative_columns(plan)
    even = f", even if {' and '.join(supposed)}" if supposed else ""
    forecast = phrase("plan.standard_errors", shell="--rows N")
    return f"About {ROWS_TRIED[place]:,} rows are enough for all of them{even} ({forecast}). "


def persons_note(plan: PlanFacts) -> str:
    """What becomes of a person's rows."""
    record = plan.request.options.record
    assert record.column is not None
    unknown = rows_of_nobody(plan.formula, record.column)
    if record.shared:
        return (
            f"The rows of one {record.column} share a weight of 1 equally, so each {record.column} counts the same. "
            f"{unknown}"
        )
    return (
        f"At most {record.rows} rows of each {record.column} count, drawn at random if there are more. The noise in "
        f"the sums is {record.rows} times that of one row each, but the sums have more rows. {unknown}"
    )


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
            f"{_price(plan, bought.eps)} buys {figures}, each with its standard error{groups} (fitstats; proof: "
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
        return f" {_price(plan, screening.range_eps)} buys {what}"
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

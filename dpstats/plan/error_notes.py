"""Notes on standard errors: why there are none, what would buy them, and what hides those of columns."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.errors import ArgumentError
from dpstats.families import Binomial, BinomialCounts, NegativeBinomial, Poisson
from dpstats.families.base import OF_PIECES, closed_cap
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.napp import TYPICAL_RESIDUAL
from dpstats.mechanisms.spec import obstacle
from dpstats.mechanisms.spreads import FILLED_SPREAD, declared_spreads
from dpstats.penalties.base import NEGLIGIBLE
from dpstats.plan.facts import PlanFacts
from dpstats.plan.methods import (
    APART,
)
from dpstats.plan.row_counts import rows_of_nobody
from dpstats.plan.tables import level_name, price, uninformative_columns
from dpstats.proof_pages import cite_proof
from dpstats.wording import argument, phrase

ROWS_TRIED = tuple(250 * 2**doubled for doubled in range(16))
"""Numbers of rows that a forecast tries."""

MOST_FORECAST = 20
"""A forecast of more coefficients takes longer than printing a plan should."""

NEARLY = 0.85
"""A number that is at least this part of another is not told beside it."""

FEWEST_CHOSEN = 5
"""Of no more coefficients a sparse penalty hardly chooses: a fit of all has their errors."""


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
            f"{price(plan, plan.focus.eps)} buys two sums of each arm of {plan.focus.treatment}, whose coefficient "
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
    level = level_name(plan)
    return (
        f"This plan supposes that {plan.design.response_name} has a {level} of {bought.mean:.3g}. If the {level} is a "
        "large part of the greatest count, the fit may have no fit statistics, or no free standard errors. "
    )


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

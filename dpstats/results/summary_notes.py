"""What stands below the coefficients of a summary: what a reader may not miss."""

from __future__ import annotations

import bisect
import itertools
import math

import numpy as np
from scipy import special

from dpstats.domain import Range
from dpstats.formula.advice import ON_SCALE, dropped_note
from dpstats.formula.design import DesignSpec
from dpstats.formula.faults import FORMULA
from dpstats.mechanisms.information import ReleasedSums
from dpstats.mechanisms.options import ROWS_GUESS
from dpstats.mechanisms.spec import automatic_alpha
from dpstats.plan.error_notes import persons_note
from dpstats.plan.notes import (
    cap_note,
    clipping_words,
    design_notes,
    limit_note,
    link_note,
    weak_guarantee_note,
)
from dpstats.plan.plan import Plan
from dpstats.plan.row_notes import advised_notes, codes_left_out, counts_note, narrowed_columns
from dpstats.plan.tables import (
    RISK_LEVEL,
    capped_at,
    has_risk,
    in_units,
    is_output,
)
from dpstats.results.contrasts import PVALUES_WORDS, UNLIKE
from dpstats.results.error_advice import (
    MOST_NAMES,
    costly_references_note,
    cut_points_note,
    fills_ranges,
    missing_notes,
    names_cure,
    no_errors_note,
    suspects_note,
    unadjusted_note,
    wide_response_note,
    withheld_note,
)
from dpstats.results.inference_mixin import shows_errors
from dpstats.results.model import ReleasedModel
from dpstats.results.standard_errors import Estimate, beyond_cap
from dpstats.results.summary_header import PVALUE_STEP, shown_test
from dpstats.wording import argument, joined, phrase, sentence

NAMES_ROOM = 100  # characters of the coefficients that were left out; more are counted

SCREENING_FINDS_MORE = (200.0, 1000.0)
"""Rows times eps for each column where screening finds weaker effects than a lasso with a refit in most fits: with
fewer neither finds any, with more both find all (benchmarks.methods.lasso). Measured with columns that fill their
ranges: it is told only where that is known."""

WRONG_DOMAIN = 0.05  # if a column loses or clips more of the rows, no other note is more important

MOSTLY_BLANK = 1 / 3  # of the lines of a table: if more are blank, the note on these stands before lost rows

FAR_TOO_WIDE = 0.25  # a declared range is far too wide if the range bought is at most this part of it

OVERDISPERSED = 2.0
"""Of counts that vary so many times as much as Poisson counts, clipping leaves out a part of the tail that matters
(docs/defaults.md)."""

LARGEST_SHARE_SD = 0.02  # a share of rows with more noise is not printed


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
    compared = "" if loss is None else f", compared with a loss of {loss:.4g} without coefficients"
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


def has_exact_noise(results: ReleasedModel) -> bool:
    """Whether the standard deviation of the noise in the coefficients is known exactly."""
    return is_output(results.plan) or isinstance(results.released, ReleasedSums)


def essential_notes(results: ReleasedModel) -> list[str]:
    """What no reader of the coefficients may miss."""
    plan = results.plan
    capped = cap_note(plan) if capped_at(plan) is None else [" ".join([*cap_note(plan), *beyond_cap_note(results)])]
    outside, design = outside_note(results), design_notes(plan)
    if outside and isinstance(plan.design, DesignSpec):  # it says which rows are left out, too
        dropping = {name for name, one in plan.design.domain.items() if isinstance(one, Range) and one.drops}
        if dropping == set(narrowed_columns(plan)):
            design = [
                note for note in design if note.rstrip(".") not in dropped_note(plan.design.parsed, plan.design.domain)
            ]
    counted = " ".join([*counts_note(plan), *suspects_note(results)])
    if FORMULA in counted:  # which expression loses the rows, and where, is public
        where = [note for note in design if " is not finite " in note]
        counted, design = " ".join([counted, *where]), [note for note in design if note not in where]
    # What the coefficients are, then which are missing, then the words of the table.
    missing, first = missing_notes(results), names_cure(results) or _mostly_blank(results)
    coefficient_notes = [*ratios_note(results), *([] if first else missing)]
    unlike = pvalues_note(results)
    # The line above the table has the cap too; a choice of columns takes places of its own.
    waits = bool(unlike) or results.selects
    notes = [*coefficient_notes, *unlike, *capped] if waits else [*capped, *coefficient_notes]
    notes += [*design, *cut_points_note(results), *limit_note(plan), *wording_notes(results)]
    if plan.guarantee.basis == "docs/proofs/tuning":
        notes = ["dp.tune chose the settings on the same rows; the budget covers the whole tuning.", *notes]
    small, large = _by_share(plan, counted)
    notes = [*small, *outside, *notes]
    if plan.guarantee.unit is not None:
        notes.insert(0, persons_note(plan))
    if results.selects:
        notes.insert(0, " ".join([*results.kept_notes, selection_note(results)]))
    if not shows_errors(results):
        notes.insert(0, no_errors_note(results))
    # A Domain that is wrong comes before what its fit is.
    advice = advised_notes(plan)
    if shows_errors(results) and not missing:  # a low end that hides nothing need not be raised
        advice = [note for note in advice if not note.startswith(sentence(ON_SCALE).rstrip("."))]
    advised = " ".join(advice)
    wrong = [*wide_response_note(results), *costly_references_note(results), *(missing if first else [])]
    # Nobody may read p-values of chosen columns without the word on the choice, nor take one for another.
    beginning = [*weak_guarantee_note(plan), *unadjusted_note(results)]
    return [*beginning, *large, *([advised] if advised else []), *withheld_note(results), *wrong, *notes]


def _mostly_blank(results: ReleasedModel) -> bool:
    """Whether so many lines of the table are blank that its reader asks first why."""
    if not shows_errors(results):
        return False
    errors = results.bse.to_numpy()
    return bool(np.sum(np.isinf(errors)) > MOSTLY_BLANK * np.sum(~np.isnan(errors)))


def ratios_note(results: ReleasedModel) -> list[str]:
    """How to read coefficients of counts where no row of the Domain has a mean beyond the cap; else that on the link.

    A bound: of each term the greatest coefficient times the l1 norm of its columns.
    """
    plan, notes = results.plan, link_note(results.plan)
    if plan.family.name != "poisson" or not notes:
        return notes
    clipping = _clipping(results)
    highest = plan.design.offset_high
    for term in plan.design.terms:
        own = results.scaled_params[term.columns]
        highest += term.l1 * float(own[0] if term.name == "Intercept" else np.max(np.abs(own), initial=0.0))
    cap, most = plan.family.curvature_bound, in_units(plan.family.lipschitz)
    if not highest < math.log(cap):
        return link_note(plan, clipping)
    ratios = phrase("tidy(exponentiate=True)", shell="show FILE --exponentiate")
    return [
        f"coef is the logarithm of a ratio of means; {ratios} has the ratios. Counts above {most} are clipped to "
        f"{most}. The link is the logarithm for means up to {in_units(cap)}, which these coefficients do not exceed."
        f"{clipping}"
    ]


def _clipping(results: ReleasedModel) -> str:
    """What clipping counts does to the slopes, by the released dispersion if it tells; empty if it does nothing."""
    plan = results.plan
    if isinstance(plan.design, DesignSpec):
        declared = [plan.design.domain[name] for name in plan.design.parsed.response_columns]
        if all(isinstance(one, Range) and one.high <= plan.family.lipschitz for one in declared):
            return ""  # the limit of the declared range, not of the fit
    if not shows_errors(results) or "dispersion_used" not in results.fitstats.index:
        return clipping_words()
    value, low, high = results.fitstats.loc["dispersion_used", ["value", "low", "high"]].to_numpy(dtype=np.float64)
    if plan.response is None:  # the analyst's limit, which may be above all plausible counts
        return clipping_words() if low > OVERDISPERSED else ""
    return "" if high < OVERDISPERSED else clipping_words(f"{value:.2g}" if low > OVERDISPERSED else "")


def _by_share(plan: Plan, counted: str) -> tuple[list[str], list[str]]:
    """The note on rows at fault, if there is one, as one that may wait or as one that comes first."""
    if not counted or plan.counts is None:
        return [], []
    large = any(share >= WRONG_DOMAIN for _, share, _ in plan.counts.named)
    return ([], [counted]) if large else ([counted], [])


def beyond_cap_note(results: ReleasedModel) -> list[str]:
    """How many rows have a residual beyond the cap, where that follows from what was released."""
    plan, rows = results.plan, results._counted
    known = rows is not None and capped_at(plan) is not None
    share = beyond_cap(plan, results.released, rows[:2]) if rows is not None and known else None
    return [] if (part := part_text(share)) is None else [f"{part} have a residual beyond the cap."]


def part_text(share: Estimate | None) -> str | None:
    """A share of the rows in words; None if it is not known well enough."""
    if share is None or share.sd > LARGEST_SHARE_SD:
        return None
    value, error = 100 * max(share.value, 0.0), 100 * share.sd
    if value < 3 * error:
        return f"Probably less than {max(value + 2 * error, 0.1):.1f} % of the rows (noisy estimate plus 2 s.d.)"
    digits = 1 if error >= 0.05 else min(-math.floor(math.log10(max(error, 1e-4))), 4)
    return f"About {value:.{digits}f} % of the rows (s.d. {error:.{digits}f} %)"


def outside_note(results: ReleasedModel) -> list[str]:
    """How many rows lie outside the bought ranges of columns, and whose coefficients the table has."""
    narrowed = narrowed_columns(results.plan)
    if not narrowed:
        return []
    ranges = [f"{name} ({one.interval[0]:,.6g}, {one.interval[1]:,.6g})" for name, one in narrowed.items()]
    listed = f"outside the bought range of {' or '.join(ranges)}"
    part = part_text(outside_share(results))
    which = f"Rows {listed}" if part is None else f"{part} lie {listed} and"
    keeps = argument("ranges", "declared")
    ends = {name: joined([f"{code:g}" for code in codes]) for name, codes in codes_left_out(results.plan).items()}
    coded = [
        f" So are rows with {code} in {name}: if that stands for missing, declare the range without it."
        for name, code in ends.items()
    ]
    wide = [
        name
        for name, one in narrowed.items()
        if name not in ends and one.interval[1] - one.interval[0] <= FAR_TOO_WIDE * (one.high - one.low)
    ]
    nearer = f" Declaring a narrower range of {joined(wide)} costs no eps." * bool(wide)
    kept = f"The coefficients are those of the rows inside, not of all; {keeps} keeps all rows."
    return [f"{which} are left out.{''.join(coded)} {kept}{nearer}"]


def outside_share(results: ReleasedModel) -> Estimate | None:
    """The share of the rows that ranges bought after the count leave out, where the rest has been counted too."""
    counts, sums = results.plan.counts, results.fit_sums
    before = None if counts is None else counts.released_rows
    if before is None or before[0] <= 0:
        return None
    if sums is not None:
        used = (sums.count, sums.count_sd)
    elif isinstance(results.released, ReleasedSums) and results.has_errors:
        used = tuple(results.fitstats.loc["nobs", ["value", "std_error"]].to_numpy(dtype=float))
    else:
        return None
    return Estimate(1 - used[0] / before[0], math.hypot(used[1], before[1] * used[0] / before[0]) / before[0])


def selection_note(results: ReleasedModel) -> str:
    """What was left out, and what the effects shown may then hold."""
    out = results.left_out
    if not out:
        return "Selection: no column was left out."
    ends = list(itertools.accumulate(len(name) + 2 for name in out[:MOST_NAMES]))
    few = max(bisect.bisect_right(ends, NAMES_ROOM), 1)
    every = phrase(" (fit.left_out has all)", shell="")
    names = ", ".join(out[:few]) + (f" and {len(out) - few} more{every}" if len(out) > few else "")
    meaning = " A coefficient above can include the effect of a similar column that was left out."
    shows_slopes = shows_errors(results) and bool({*results.plan.names} - {*out, "Intercept"})
    screen = phrase("screen=K", shell="--set screen=K")
    weak = f" {screen} usually finds weaker effects at this eps and number of rows." if finds_fewer(results) else ""
    return f"Left out: {names}.{meaning if shows_slopes else ''}{weak}"


def finds_fewer(results: ReleasedModel) -> bool:
    """Whether screening would probably find weaker effects than this fit, a lasso of the default alpha with a refit."""
    plan, rows = results.plan, results._counted
    if plan.screening is not None or plan.request.options.refit_share == 0:
        return False
    halves = 1 if plan.request.options.split is None else 2
    known = results.nobs if rows is None else halves * rows.value
    low, high = SCREENING_FINDS_MORE
    slopes = len(set(plan.names) - {"Intercept"})
    automatic = automatic_alpha(plan.request.penalty, plan.request.options) and fills_ranges(plan)
    return automatic and known is not None and low <= known * plan.guarantee.eps / slopes <= high


def wording_notes(results: ReleasedModel) -> list[str]:
    """What the columns of a table with errors mean."""
    if not shows_errors(results):
        return []
    test = shown_test(results)
    joint = (
        [f"The joint test is of {joined(test.counted)}: others are too noisy for it."] if test and test.counted else []
    )
    return [*joint, "coef is bias-corrected; params holds the coefficients as released, with shrinkage."]


def pvalues_note(results: ReleasedModel) -> list[str]:
    """That a p-value is not that of a normal distribution, where the table shows one that is far larger."""
    if not shows_errors(results):
        return []
    shown = results.pvalues.to_numpy()
    normal = 2 * special.ndtr(-np.abs(results.tvalues.to_numpy()))
    if not np.any((shown >= PVALUE_STEP) & (shown > UNLIKE * normal)):
        return []
    return [f"{PVALUES_WORDS} coef/se suggests."]

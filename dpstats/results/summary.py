"""The regression table: statsmodels' look, from released and public values only."""

from __future__ import annotations

import bisect
import itertools
import math
from itertools import compress
from typing import NamedTuple

import numpy as np
from scipy import special
from statsmodels.iolib.table import SimpleTable

from dpstats.domain import Range
from dpstats.formula.advice import ON_SCALE, codes_at_bought_ends, dropped_note
from dpstats.formula.design import DesignSpec
from dpstats.formula.faults import FORMULA
from dpstats.inference import JointTest
from dpstats.mechanisms.information import ReleasedSums
from dpstats.mechanisms.narrowing import narrowable
from dpstats.mechanisms.options import ROWS_GUESS
from dpstats.mechanisms.spec import automatic_alpha
from dpstats.plan.error_notes import persons_note
from dpstats.plan.methods import ONE_TAIL
from dpstats.plan.notes import (
    cap_note,
    design_notes,
    guarantee_note,
    guaranteed,
    limit_note,
    link_note,
    plan_notes,
    weak_guarantee_note,
)
from dpstats.plan.plan import Plan, interval_cap
from dpstats.plan.row_counts import about_rows, rows_of_nobody, uncounted
from dpstats.plan.row_notes import advised_notes, codes_left_out, counts_note, faults_line, narrowed_columns
from dpstats.plan.tables import (
    RISK_LEVEL,
    auxiliary_facts,
    banner,
    capped_at,
    facts_lines,
    has_risk,
    header_table,
    headings,
    in_units,
    is_output,
    method_name,
    model_title,
    modelled_level,
    penalty_text,
    plan_tables,
    purchases_text,
    weighing,
)
from dpstats.results.contrasts import PVALUES_WORDS, UNLIKE, inference_table, to_the_noise
from dpstats.results.error_advice import (
    MOST_NAMES,
    SHARE_WORDS,
    costly_references_note,
    cut_points_note,
    fills_ranges,
    hidden_shares,
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
from dpstats.summaries import WIDTH, Summary, format_number, full_width, wrap_note
from dpstats.wording import argument, joined, phrase, sentence

__all__ = ["Summary", "summarize"]

NAMES_ROOM = 100  # characters of the coefficients that were left out; more are counted
SHORT_NAME = 18  # the room of names in a regression table, and in one of coefficients alone if all are shorter

SCREENING_FINDS_MORE = (200.0, 1000.0)
"""Rows times eps for each column where screening finds weaker effects than a lasso with a refit in most fits: with
fewer neither finds any, with more both find all (benchmarks.methods.lasso). Measured with columns that fill their
ranges: it is told only where that is known."""

FIGURE_WORDS = {**SHARE_WORDS, "scale": "scale", "dispersion_used": "dispersion used"}
"""Rows of `fitstats` in a summary, each followed by its standard error in brackets."""

PVALUE_STEP = 0.001  # the last digit of a p-value in a table
ROOM_FOR_TESTED = 54  # characters of the header for what a joint test is of, or leaves out

LARGE_WALD = 100  # larger statistics of joint tests have no decimals
HALF_LINE = 21  # characters of a fact that fit on the right of a table's header
WRONG_DOMAIN = 0.05  # if a column loses or clips more of the rows, no other note is more important

MOSTLY_BLANK = 1 / 3  # of the lines of a table: if more are blank, the note on these stands before lost rows

FAR_TOO_WIDE = 0.25  # a declared range is far too wide if the range bought is at most this part of it

MOST_RANGES = 4  # columns whose ranges were bought are named, the first so many of them

LARGEST_SHARE_SD = 0.02  # a share of rows with more noise is not printed
MOST_NOTES = 3  # on the coefficients in a short summary, the most important first; `notes` has all


def summarize(
    results: ReleasedModel, *, full: bool = False, n: int | None = None, details: str | None = None
) -> Summary:
    """Coefficients, then what is guaranteed and what was spent; or, in full, all tables and notes.

    `n` is a public number of rows, for the excess risk of one. `details` is what leads from the one to the other, for
    a line of its own; by default it is Python's call.
    """
    plan, risk = results.plan, risk_note(results, n)
    if not full:
        summary = Summary([coefficient_table(results, title=heading(results))])
        certified = f"Certified: {guaranteed(plan)}" if plan.guarantee.certified else guarantee_note(plan)
        spent = budget_line(results) + (" Details: summary(full=True)." if details is None else "")
        risk_notes, notes = (risk, []) if n is not None else ([], risk)
        # What is the same in every table stands there if there is room.
        words = wording_notes(results)
        notes = [note for note in [*essential_notes(results), *notes] if note not in words]
        if (unit := plan.guarantee.unit) is not None:  # in full, and by a check
            notes = [note.replace(rows_of_nobody(plan.formula, unit), uncounted(unit)) for note in notes]
        if (unnamed := faults_line(plan)) and isinstance(plan.design, DesignSpec):  # why rows may be lost stands there
            left_out = dropped_note(plan.design.parsed, plan.design.domain)
            notes.sort(key=lambda note: note.rstrip(".") not in left_out)
        notes += words
        more = len(notes) - MOST_NOTES
        notes = notes[:MOST_NOTES]
        if more > 0:
            notes.append(f"{more} more note{'s' * (more > 1)}: {phrase('fit.notes', shell='--full')}")
        parts = [wrap_note(note) for note in (certified, spent, *unnamed, *notes, *risk_notes)]
        parts.insert(2, [] if details is None else [f"  Details: {details}."])
        summary.add_extra_txt([line for lines in parts for line in lines])
        return summary
    observations = rows_text(results).replace("about ", "")
    if len(observations) > HALF_LINE:
        # The table of purchases says that ranges come after the count.
        observations = observations.removesuffix(BEFORE_RANGES).replace(" (s.d. ", " +- ").replace(")", "")
    text = chosen_text(results) if results.selects else None
    title = None if text is None else text[0].upper() + text[1:]
    tables = [header_table(plan, observations, fit_facts(results)), coefficient_table(results, full=True, title=title)]
    if results.selects:
        tables.append(selection_table(results))
    notes = [*plan_notes(plan, released=results.has_errors), *outside_note(results), *beyond_cap_note(results), *risk]
    notes += [no_errors_note(results)] if not shows_errors(results) else []
    notes += [
        *results.kept_notes,
        *codes_note(results),
        *suspects_note(results),
        *unadjusted_note(results),
        *costly_references_note(results),
        *withheld_note(results),
        *missing_notes(results),
        *wide_response_note(results),
        *pvalues_note(results),
        *wording_notes(results),
    ]
    return Summary([*tables, *plan_tables(plan)], notes)


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
            facts.append(f"{words}{capped} {to_the_noise(value, error)} ({to_the_noise(error, error)})")
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


def coefficient_table(results: ReleasedModel, *, full: bool = False, title: str | None = None) -> SimpleTable:
    """Coefficients in the user's units, with what is known of their errors; of a screened fit those kept.

    Where the budget identifies none, coefficients stand alone, as in a fit that bought no errors: the noise of
    shrunken coefficients beside them would read like their errors.
    """
    if not shows_errors(results):
        return bounded_table(results, full, title)
    frame = results.uncertainty()
    return inference_table(frame[frame["std_error"].notna()], title=title)


def bounded_table(results: ReleasedModel, full: bool, title: str | None = None) -> SimpleTable:
    """Coefficients in the user's units; in full also in model units and with a bound on the noise in them.

    Where the noise in the coefficients has an exact standard deviation, it always stands beside them.
    """
    exact = has_exact_noise(results) and not results.has_errors
    headers = {"coef": 12, "scaled coef": 13, "noise sd" if exact else "noise at most": 14}
    shown = [True, full, full or exact]
    facts = zip(results.params.items(), results.scaled_params, results.noise_at_most, results.in_model, strict=True)
    rows = []
    for (name, value), scaled, bound, kept in facts:
        shown_error = place_of_noise(value, bound, selects=results.selects)
        cells = [to_the_noise(value, shown_error), format_number(scaled), to_the_noise(bound, bound)]
        rows += [(name, list(compress(cells, shown)))] if kept else []
    widths, heads = list(compress(headers.values(), shown)), list(compress(headers, shown))
    # Columns stand beside the names and not at the far end of the line.
    taken = sum(widths) + len(widths) + max([SHORT_NAME, *(len(str(name)) for name, _ in rows)])
    spare = max(WIDTH - taken, 0)
    for line in (heads, *(cells for _, cells in rows)):
        line[-1] = f"{line[-1]:>{widths[-1]}}{'':{spare}}"
    widths[-1] += spare
    return full_width(heads, rows, widths, title=title)


def place_of_noise(value: float, bound: float, *, selects: bool) -> float:
    """The error to which a coefficient without a standard error is printed.

    A bound leaves more digits, of which the noise itself may be less; what a penalty kept is not printed as 0.
    """
    return min(bound / 10, abs(value)) if selects else bound / 10


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
    highest = plan.design.offset_high
    for term in plan.design.terms:
        own = results.scaled_params[term.columns]
        highest += term.l1 * float(own[0] if term.name == "Intercept" else np.max(np.abs(own), initial=0.0))
    cap, most = plan.family.curvature_bound, in_units(plan.family.lipschitz)
    if not highest < math.log(cap):
        return notes
    ratios = phrase("tidy(exponentiate=True)", shell="show FILE --exponentiate")
    return [
        f"coef is the logarithm of a ratio of means; {ratios} has the ratios. Counts above {most} are clipped to "
        f"{most}. The link is the logarithm for means up to {in_units(cap)}, which these coefficients do not exceed."
    ]


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


def selection_table(results: ReleasedModel) -> SimpleTable:
    """Which columns a sparse penalty kept, or screening: of those that it put out the number alone."""
    facts = results.selection.drop(columns="coef")
    rows = [
        (name, [cell if isinstance(cell, str) else format_number(cell) for cell in row])
        for name, *row in facts.itertuples()
    ]
    out = len(results.left_out)
    title = f"Selection ({out} columns left out)" if out else "Selection"
    return full_width(list(facts.columns), rows, columns=[10, *[12] * (len(facts.columns) - 1)], title=title)

"""The regression table: statsmodels' look, from released and public values only."""

from __future__ import annotations

from itertools import compress

from statsmodels.iolib.table import SimpleTable

from dpstats.formula.advice import dropped_note
from dpstats.formula.design import DesignSpec
from dpstats.plan.notes import (
    guarantee_note,
    guaranteed,
    plan_notes,
)
from dpstats.plan.row_counts import rows_of_nobody, uncounted
from dpstats.plan.row_notes import faults_line
from dpstats.plan.tables import (
    header_table,
    plan_tables,
)
from dpstats.results.contrasts import inference_table, to_the_noise
from dpstats.results.error_advice import (
    costly_references_note,
    missing_notes,
    no_errors_note,
    suspects_note,
    unadjusted_note,
    wide_response_note,
    withheld_note,
)
from dpstats.results.inference_mixin import shows_errors
from dpstats.results.model import ReleasedModel
from dpstats.results.summary_header import (
    BEFORE_RANGES,
    budget_line,
    chosen_text,
    codes_note,
    fit_facts,
    heading,
    rows_text,
)
from dpstats.results.summary_notes import (
    beyond_cap_note,
    essential_notes,
    has_exact_noise,
    outside_note,
    pvalues_note,
    risk_note,
    wording_notes,
)
from dpstats.summaries import WIDTH, Summary, format_number, full_width, wrap_note
from dpstats.wording import phrase

__all__ = ["Summary", "summarize"]

SHORT_NAME = 18  # the room of names in a regression table, and in one of coefficients alone if all are shorter

HALF_LINE = 21  # characters of a fact that fit on the right of a table's header

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

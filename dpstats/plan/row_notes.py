"""Notes on rows: what the counts of a fit show, and which rows narrower ranges leave out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.domain import Levels, Range
from dpstats.formula.advice import MOST_LISTED, end_codes, missing_code
from dpstats.formula.design import DesignSpec
from dpstats.plan.facts import PlanFacts
from dpstats.plan.methods import (
    range_eps,
)
from dpstats.plan.row_counts import DRAWN, LARGE_UNNAMED
from dpstats.plan.tables import price
from dpstats.privacy.trimming import MOST_SHARE, rows_that_pay, rows_to_narrow
from dpstats.wording import argument, joined, phrase, sentence, shell_command


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
    family = getattr(plan, "family", None)  # of released sums there is none, and no command of the shell
    design = getattr(plan, "design", None)
    response = design.domain.get(design.response_name) if isinstance(design, DesignSpec) else None
    two = len(response.values) == 2 if isinstance(response, Levels) else response is not None and response.is_binary
    # Of a response of two values a check is for the binomial family if none is given.
    linear = [argument("family", family.name)] if two and family is not None and family.name == "gaussian" else []
    listed = joined([*linear, *typed])
    python = f"dp.check{' with ' * bool(listed)}{listed}"
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
            f"{price(plan, eps)} is spent on narrower ranges of {_listed(plan.trimmed)}. The declared ranges stay, as "
            "where values fill them, rows are few or nearly all values are 0."
        ]
    needed = ""
    if not (plan.completed or (counts is not None and counts.trimmable)) and plan.request.options.n is None:
        # Where the number of rows decides the price, fits of fewer rows pay more and need fewer.
        least = rows_to_narrow(eps / len(plan.bought), plan.request.adjacency, number)
        needed = f" With fewer than about {least:,.0f} rows the declared range stays."
    until = "" if plan.completed else " This plan uses the declared ranges; the fit will have less noise than shown."
    return [
        f"{price(plan, eps)} buys a narrower range of {_listed(names)}, which holds nearly all rows. Rows "
        f"outside it are left out.{needed}{until}"
    ]

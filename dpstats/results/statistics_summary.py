"""The printed tables of released statistics and of the linear models fitted from them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from statsmodels.iolib.summary import fmt_2cols
from statsmodels.iolib.table import SimpleTable

from dpstats.inference.contrasts import LEVEL
from dpstats.mechanisms.moments import Rows
from dpstats.mechanisms.statistics import StatisticsPlan
from dpstats.plan.tables import WIDTH, Summary, format_number, full_width, shorten, statistics_table, wrap_notes
from dpstats.proving import cited
from dpstats.results.contrasts import COEFFICIENT_WIDTHS, coefficient_cells, coefficient_headers

if TYPE_CHECKING:
    from dpstats.results.statistics import StatisticsResults


def summarize_release(plan: StatisticsPlan, mass: Rows) -> Summary:
    """What was released, at what price, with what noise, from about how many rows."""
    facts = [("Columns:", str(len(plan.design.names))), ("Response:", shorten(plan.design.response_name, 22))]
    summary = Summary()
    summary.tables = [
        _header("Released Statistics", [*facts, ("Complete Rows:", _rounded(mass.count, mass.deviation))], plan),
        statistics_table(plan.noise),
    ]
    notes = [
        "The guarantee covers this release and every model fitted from it: a fit is charged nothing.",
        f"Columns: {', '.join(plan.design.names)}.",
        *(f"{note}." for note in plan.design.notes),
    ]
    summary.add_extra_txt(wrap_notes(notes))
    return summary


def summarize_model(model: StatisticsResults) -> Summary:
    """The regression table of a model from released statistics."""
    sparse = model.penalty is not None and model.penalty.sparse
    facts = [
        ("Dep. Variable:", shorten(model.design.response_name, 22)),
        ("Model:", "Linear, from sums"),
        ("Penalty:", "None" if model.penalty is None else model.penalty.name),
    ]
    summary = Summary()
    summary.tables = [
        _header("Private Linear Model", facts, model.statistics.plan),
        _plain_table(model) if sparse else _inference_table(model),
    ]
    summary.add_extra_txt(wrap_notes(_notes(model, sparse)))
    return summary


def _plain_table(model: StatisticsResults) -> SimpleTable:
    values = zip(model.params.items(), model.scaled_params, strict=True)
    lines = [(name, [format_number(value), format_number(scaled)]) for (name, value), scaled in values]
    return full_width(["coef", "scaled coef"], lines, [14, 14])


def _inference_table(model: StatisticsResults) -> SimpleTable:
    columns = [model.debiased, model.bse, model.tvalues, model.pvalues, *(model.conf_int()[side] for side in (0, 1))]
    values = np.column_stack(columns)
    lines = [(name, coefficient_cells(row)) for name, row in zip(model.design.names, values, strict=True)]
    return full_width(coefficient_headers(LEVEL), lines, columns=COEFFICIENT_WIDTHS)


def _notes(model: StatisticsResults, sparse: bool) -> list[str]:
    said = ["The guarantee is that of the released statistics; this fit is charged nothing."]
    if sparse:
        return [*said, "Errors are not shown: the penalty selects by the same statistics."]
    said.append(
        "coef is free of the shrinkage, and what std err and the tests refer to; params holds the coefficients "
        "shrunk as the noise asks for, which predict better. Errors (model-based) account for the sample and for "
        "the noise."
    )
    unknown = [name for name, error in model.bse.items() if np.isinf(error)]
    if unknown:
        said.append(f"Not identified at this budget: {', '.join(str(name) for name in unknown)}.")
    return said


def _rounded(count: float, deviation: float) -> str:
    """A noisy number without the digits that are noise alone."""
    step = 10 ** max(0, math.floor(math.log10(deviation)))
    return f"{round(count / step) * step} ± {deviation:.2g}"


def _header(title: str, left: list[tuple[str, str]], plan: StatisticsPlan) -> SimpleTable:
    """Pairs of facts on the release (left) and on the guarantee (right)."""
    guarantee = plan.guarantee
    if not guarantee.certified:
        title = f"*** NOT CERTIFIED: {guarantee.reason} ***\n{title}"
    right = [
        ("Epsilon:", f"{guarantee.eps:.6g}"),
        ("Delta:", f"{guarantee.delta:.6g}"),
        ("Adjacency:", guarantee.adjacency),
        ("Noise:", plan.noise.law),
        ("Proof:", cited(guarantee.basis) if guarantee.certified else "none"),
    ]
    left = [*left, *[("", "")] * (len(right) - len(left))]
    longest = max(len(fact) for _, fact in right)
    narrow = _paired(title, left, right, longest)
    # Stretched to the width of the tables below.
    return _paired(title, left, right, longest + max(0, WIDTH - len(narrow.as_text().splitlines()[-1])))


def _paired(title: str, left: list[tuple[str, str]], right: list[tuple[str, str]], wide: int) -> SimpleTable:
    table = SimpleTable([[fact] for _, fact in left], stubs=[name for name, _ in left], title=title, txt_fmt=fmt_2cols)
    table.extend_right(SimpleTable([[f"{fact:>{wide}}"] for _, fact in right], stubs=[name for name, _ in right]))
    return table

"""The tables of a plan: statsmodels' look, public values only, readable at 80 columns."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from statsmodels.iolib import summary as statsmodels_summary
from statsmodels.iolib.summary import fmt_2cols, fmt_params
from statsmodels.iolib.table import SimpleTable

from dpstats.families import Poisson
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.least_squares import LeastSquaresPlan
from dpstats.mechanisms.objective_plan import ObjectivePlan
from dpstats.mechanisms.output import OutputPlan
from dpstats.mechanisms.posterior import PosteriorPlan
from dpstats.privacy.information.statistics import StatisticsNoise

if TYPE_CHECKING:
    from dpstats.plan.plan import Plan

__all__ = ["Summary", "full_width", "plan_notes", "plan_tables", "summarize_plan"]

WIDTH = 78

RISK_LEVEL = 0.05

MOST_TERMS = 60
"""A plan lists so many terms and then how many more there are."""


class Summary(statsmodels_summary.Summary):
    """statsmodels' Summary, for tables that need not have the same number of columns in LaTeX either."""

    def as_latex(self) -> str:
        """Each table as a tabular of its own, then the notes."""
        parts = [table.as_latex_tabular() for table in self.tables]
        if self.extra_txt is not None:
            parts.append(self.extra_txt.replace("\n", " \\newline\n"))
        return "\n\n".join(parts)


def summarize_plan(plan: Plan) -> Summary:
    """The summary of a dry run: what would be released, at what price, with what noise."""
    summary = Summary()
    summary.tables = [header_table(plan, "none read"), column_table(plan), *plan_tables(plan)]
    rounded = plan.objective.noise_averages_out and not isinstance(plan.objective, LeastSquaresPlan)
    rounding = [rounding_note(plan.objective)] if rounded else []
    summary.add_extra_txt(wrap_notes([*plan_notes(plan), *rounding]))
    return summary


def plan_tables(plan: Plan) -> list[SimpleTable]:
    """The tables that a plan and a result share: budget, noise and, where its proof applies, excess risk."""
    tables = [budget_table(plan), *bought_tables(plan), noise_table(plan)]
    options = plan.request.options
    proved = not options.replicates and options.realization == "analytic"
    bounded = not isinstance(plan.objective, LeastSquaresPlan)
    return [*tables, risk_table(plan)] if proved and bounded else tables


def header_table(plan: Plan, observations: str) -> SimpleTable:
    """Pairs of facts on the model (left) and on the guarantee (right)."""
    guarantee, request = plan.guarantee, plan.request
    wide = WIDTH // 2 - 18  # as wide as the tables below, whatever the facts
    title = f"Private Generalized Linear Model: {plan.family.name}"
    if not guarantee.certified:
        title = "\n".join([*textwrap.wrap(f"*** NOT CERTIFIED: {guarantee.reason} ***", WIDTH), title])
    left = [
        ("Dep. Variable:", shorten(plan.design.response_name, 22)),
        ("Model:", "GLM"),
        ("Family:", plan.family.name),
        ("Link:", plan.family.link),
        (
            "Method:",
            f"{request.method}, two stages" if any(role == "pilot" for role, _ in plan.stages) else request.method,
        ),
        ("Penalty:", "None" if request.penalty is None else request.penalty.name),
        ("Df Model:", str(plan.df_model)),
        *([] if guarantee.unit is None else [("Weights:", _shares(plan))]),
    ]
    right = [
        ("Adjacency:", guarantee.adjacency),
        *([] if guarantee.unit is None else [("Unit:", shorten(guarantee.unit, 20))]),
        ("Epsilon:", f"{guarantee.eps:.6g}"),
        ("Delta:", f"{guarantee.delta:.6g}"),
        ("Certified:", "yes" if guarantee.certified else "NO"),
        ("Proof:", guarantee.basis if guarantee.certified else "none"),
        ("Noise:", plan.objective.law_name),
        ("No. Observations:", observations),
    ]
    for name, fact in beside_facts(plan.design):
        left.append((name, shorten(fact, 18)))
        right.append(("", ""))
    table = SimpleTable([[fact] for _, fact in left], stubs=[name for name, _ in left], title=title, txt_fmt=fmt_2cols)
    table.extend_right(SimpleTable([[f"{fact:>{wide}}"] for _, fact in right], stubs=[name for name, _ in right]))
    return table


def beside_facts(design: PublicDesign) -> list[tuple[str, str]]:
    """What belongs to the rows beside their columns, as pairs of a heading and a name."""
    facts = []
    if isinstance(design, DesignSpec):
        for name, value in (("Weights:", design.weights), ("Offset:", design.offset)):
            if value is not None:
                facts.append((name, value.name.removeprefix(f"{name[:-1].lower()}(").removesuffix(")")))
        if design.response.trials is not None:
            facts.append(("Trials at most:", format_number(design.response.trials)))
        return facts
    if design.score_ratio is None:
        facts.append(("Weights:", "an array"))
    return [*facts, ("Offset:", "an array")] if design.offset_bound else facts


def beside_note(design: PublicDesign) -> list[str]:
    """What a reader must know of weights and trials."""
    said = []
    if design.score_ratio is None:
        most = design.weights.high if isinstance(design, DesignSpec) and design.weights is not None else None
        bound = "the greatest weight allowed" if most is None else f"{most:.4g}, the upper end of their range"
        said.append(f"Weights are divided by {bound}, so that one row counts once at most. Standard errors are robust.")
    if isinstance(design, DesignSpec) and design.response.trials is not None:
        said.append(
            f"A row of successes and failures counts as its trials over {design.response.trials:.4g}, the greatest "
            "number of them: one row has the influence of one 0/1 response at most."
        )
    return said


def column_table(plan: Plan) -> SimpleTable:
    """The terms and the bounds on their part of a row, in model units."""
    rows = [
        (term.name, [str(term.columns.stop - term.columns.start), format_number(term.l2), format_number(term.l1)])
        for term in plan.design.terms
    ]
    if len(rows) > MOST_TERMS:
        rows = [*rows[:MOST_TERMS], (f"... {len(rows) - MOST_TERMS} more", ["", "", ""])]
    return full_width(["columns", "l2 bound", "l1 bound"], rows, [10, 12, 12], title="Terms, bounds in model units")


def budget_table(plan: Plan) -> SimpleTable:
    """Every purchase and the total; beside it what the classical split would have wasted."""
    budget = plan.budget
    columns = ["eps", "delta", "need", "retrieved"]
    rows = [
        (name, [*(format_number(row[column]) for column in columns), shorten(row["buys"], 22)])
        for name, row in budget.iterrows()
    ]
    return full_width([*columns, "buys"], rows, [9, 9, 9, 9, 23], title="Budget")


def bought_tables(plan: Plan) -> list[SimpleTable]:
    """What was bought of the columns' values, once it is known: ranges, and what the fit needed of the response."""
    rows = []
    if plan.completed:
        domain = getattr(plan.design, "domain", {})
        ranges = {name: domain[name] for name in plan.bought if name in domain}
        rows = [(name, [*map(format_number, (pair.low, pair.high)), "range"]) for name, pair in ranges.items()]
    if plan.completed and plan.response is not None:
        found = plan.response
        use = "centre, scale and cap" if plan.family.response == "continuous" else "greatest count"
        rows.append((plan.design.response_name, [format_number(found.low), format_number(found.high), use]))
        if found.mean is not None:
            what = "rate, per exp(offset)" if plan.design.offset_bound else "mean"
            rows.append((plan.design.response_name, ["", format_number(found.mean), what]))
    return [full_width(["low", "high", "for"], rows, [12, 12, 23], title="Bought with the budget")] if rows else []


def noise_table(plan: Plan) -> SimpleTable:
    """Noise scale and curvature of each stage, and the noise of the classical split."""
    last = plan.stages[-1].plan
    if isinstance(last, PosteriorPlan):
        return posterior_table(last)
    if isinstance(last, LeastSquaresPlan):
        return statistics_table(last.statistics.noise)
    rows = [
        (
            role,
            [
                format_number(stage.noise.scale),
                format_number(stage.classical_scale),
                format_number(stage.classical_scale / stage.noise.scale),
                _range(stage.curvature),
            ],
        )
        for role, stage in plan.stages
    ]
    headers = ["scale", "classical", "ratio", "curvature"]
    title = "Noise in the coefficients, in the metric of the curvature" if is_output(plan) else "Noise in the objective"
    return full_width(headers, rows, [11, 11, 9, 20], title=title)


def posterior_table(plan: PosteriorPlan) -> SimpleTable:
    """How cold the posterior is, and what holds it together."""
    where = "all of space" if plan.semi_axes is None else "an ellipsoid"
    cells = [format_number(plan.temperature), _range(plan.curvature), where, "exact" if plan.exact else "Markov chain"]
    headers = ["factor on J", "curvature", "on", "drawn"]
    return full_width(headers, [("posterior", cells)], [11, 20, 13, 13], title="Posterior: density exp(-factor J)")


def statistics_table(noise: StatisticsNoise) -> SimpleTable:
    """The noise of the released sums."""
    variances = [noise.entry_variance, noise.response_variance, noise.square_variance]
    names = ["an entry of X'X", "an entry of X'y", "y'y"]
    rows = [(name, [format_number(float(np.sqrt(value)))]) for name, value in zip(names, variances, strict=True)]
    return full_width(["sd of noise"], rows, [14], title="Noise, rows within the unit ball of the design's metric")


def risk_table(plan: Plan) -> SimpleTable:
    """The proved bounds on what privacy costs in the objective."""
    n = int(plan.request.options.rows_guess) if is_output(plan) else None
    table = plan.excess_risk(RISK_LEVEL, n=n)
    rows = [(row["bound"], [format_number(row["value"])]) for _, row in table.iterrows()]
    losses = "the sum of losses" if n is None else f"the losses of {n:,} rows"
    return full_width(["at most"], rows, [20], title=f"Excess risk: proved bounds on what privacy adds to {losses}")


def is_output(plan: Plan) -> bool:
    """Whether the noise is in the coefficients themselves, not in the objective."""
    last = plan.stages[-1].plan
    return isinstance(last, OutputPlan) and not isinstance(last, PosteriorPlan)


def full_width(
    headers: Sequence[str], rows: Sequence[tuple[Any, list[str]]], columns: Sequence[int], title: str | None = None
) -> SimpleTable:
    """A table as wide as the header: named rows, with the given widths for the columns beside the names."""
    room = WIDTH - sum(columns) - len(columns)
    formats = {**fmt_params, "colwidths": [room, *columns]}
    stubs = [shorten_middle(name, room) for name, _ in rows]
    return SimpleTable([cells for _, cells in rows], headers=list(headers), stubs=stubs, title=title, txt_fmt=formats)


def plan_notes(plan: Plan) -> list[str]:
    """What the reader must know, in plain words."""
    guarantee, objective = plan.guarantee, plan.objective
    neighbours = {
        ("add_remove", True): "adding or removing one row",
        ("replace_one", True): "changing the contents of one row (the number of rows is public)",
        ("add_remove", False): f"adding or removing one {guarantee.unit} with all its rows",
        ("replace_one", False): f"replacing all rows of one {guarantee.unit} (how many there are is public)",
    }[guarantee.adjacency, guarantee.unit is None]
    privacy = f"({guarantee.eps:.4g}, {guarantee.delta:.4g})" if guarantee.delta else f"{guarantee.eps:.4g}"
    said = [
        f"Everything above is {privacy}-differentially private for {neighbours}."
        if guarantee.certified
        else f"No guarantee is claimed for this output: {guarantee.reason}.",
        shrinkage_note(plan),
        errors_note(plan),
    ]
    if guarantee.delta < plan.request.delta:
        said.append(
            f"Of the delta of {plan.request.delta:.4g} that was allowed {guarantee.delta:.4g} is spent: pure noise is "
            "less here than Gaussian noise."
        )
    if isinstance(plan.family, Poisson) and plan.family.curvature_bound < plan.family.lipschitz:
        said.append(
            f"The link is the logarithm for means up to {plan.family.curvature_bound:.4g}. Larger means rise more "
            f"slowly, to {plan.family.lipschitz:.4g} at most, the greatest count that is not clipped; coefficients are "
            "logarithms of ratios below that mean only."
        )
    if guarantee.unit is not None:
        said.append(persons_note(plan))
    retrieved = objective.planned_eps - objective.joint_need
    if retrieved > 0:
        use = {"recycle": "spent on less noise", "return": "not charged"}.get(
            str(plan.request.options.retrieval), "not used"
        )
        said.append(
            f"Noise of scale {objective.classical_scale:.4g} is what the classical calibration buys with eps "
            f"{objective.planned_eps:.4g}; by the proved joint bound it needs {objective.joint_need:.4g} only. "
            f"The difference, {retrieved:.4g} ('retrieved'), is {use}."
        )
    if plan.screening is not None:
        said.append(screening_note(plan))
    if plan.request.options.split is not None:
        said.append(
            "Each row went by a draw of its own to one of two parts: one chose the columns, the other fitted them. A "
            "row pays for its own part only, so the total is not the sum (docs/proofs/composition, 5)."
        )
    if plan.bought:
        names = ", ".join(plan.bought)
        said.append(f"Ranges bought with the budget: {names}. Declaring what a codebook says of them would save it.")
    if plan.response is not None:
        said.append(
            f"{plan.response.eps:.4g} of eps buys what the fit needs to know of {plan.design.response_name} within its "
            "range." + ("" if plan.completed else " Until then the range stands in: the noise will be less than shown.")
        )
    if plan.response is not None and plan.response.mean is not None:
        said.append(
            f"The intercept is shrunk towards a {'rate' if plan.design.offset_bound else 'mean'} of "
            f"{plan.response.mean:.4g}, not zero; the excess risk is over coefficients whose norm is counted from "
            "there."
        )
    said += beside_note(plan.design)
    return [*said, *(f"{note[0].upper()}{note[1:]}." for note in plan.design.notes)]


def shrinkage_note(plan: Plan) -> str:
    """What the coefficients are shrunk by."""
    units = "on columns in model units: numeric columns scaled to [-1, 1], rows to a Euclidean norm of at most one."
    if isinstance(plan.objective, LeastSquaresPlan):
        return f"Coefficients are shrunk towards zero where the released sums have more noise than information, {units}"
    scaled = "" if plan.stages[-1].plan.information else " 'scaled coef' is on that scale."
    return f"Coefficients are shrunk towards zero by a public quadratic term ('curvature') {units}{scaled}"


def errors_note(plan: Plan) -> str:
    """Whether standard errors are part of the release."""
    few = "Few rows say little: coefficients of rare levels and rare 0/1 columns carry the most noise."
    information = plan.stages[-1].plan.information
    if is_output(plan):
        return (
            "The noise is in the coefficients themselves and its law is public: 'noise sd' is its exact standard "
            "deviation. Standard errors would add what the sample leaves open, which is a function of the rows and no "
            "part of this release; method='napp' releases them."
        )
    if isinstance(plan.stages[-1].plan, PosteriorPlan):
        return (
            "The coefficients are one draw from a posterior that the budget has flattened. 'noise at most' bounds its "
            "standard deviation, whatever the rows are; with many rows it is far less. Standard errors are no part of "
            "this release; method='napp' releases them."
        )
    if isinstance(plan.objective, LeastSquaresPlan):
        return (
            "What was bought are the sums of squares and products of all columns, and the guarantee covers every "
            "linear model of them: statistics.fit(formula) costs nothing. "
            + (
                "Errors of this fit would not be valid after a selection by the same sums."
                if plan.request.penalty is not None and plan.request.penalty.sparse
                else "Standard errors (model-based) account for the sample and for the noise."
            )
        )
    if information is None:
        return (
            "Standard errors are functions of the rows and no part of this release; inference=True buys them. 'noise "
            f"at most' bounds the standard deviation that noise alone gives a coefficient, whatever the rows are. {few}"
        )
    spread = information.purchase.spread
    kind = {"robust": "robust", "clustered": f"robust, clustered by {plan.guarantee.unit}"}.get(spread, "model-based")
    return (
        f"Standard errors ({kind}) account for the sample, for the noise in the coefficients and for that in the "
        f"information matrix, which is released beside them (proof: docs/proofs/information). {few}"
    )


def persons_note(plan: Plan) -> str:
    """What becomes of a person's rows."""
    record = plan.request.options.record
    if record.shared:
        return (
            f"The rows of one {record.column} share a weight of 1 in equal parts, however many they are: a mean row of "
            f"each counts. Rows without a {record.column} are left out."
        )
    return (
        f"At most {record.rows} rows of each {record.column} count, drawn at random where there are more, with "
        f"{record.rows} times the noise of one. Rows without a {record.column} are left out."
    )


def _shares(plan: Plan) -> str:
    """How the rows of a person count."""
    record = plan.request.options.record
    return "equal shares" if record.shared else f"1, {record.rows} rows at most"


def rounding_note(stage: ObjectivePlan) -> str:
    """What hiding the rounding of floating point costs."""
    added = 100 * (math.hypot(1.0, stage.final_share) - 1)
    return (
        f"'rounding' pays for discrete noise that hides what floating point betrays. Up to {stage.rows_at_most:.4g} "
        f"rows (rows_at_most) it adds less than {max(added, 0.001):.2g} % to the noise's standard deviation."
    )


def screening_note(plan: Plan) -> str:
    """What screening did to the model."""
    assert plan.screening is not None
    screening = plan.screening
    follows = "" if plan.completed else " Noise and curvature above are those of the widest terms, which stand in."
    return (
        f"Screening keeps {screening.choices} of {screening.candidates} terms, chosen by noisy scores (noise of "
        f"{format_number(screening.scale)} rows); all other coefficients are zero. Terms that matter little, "
        f"alone or beside others, are missed: where many matter, a fit of all loses less.{follows}"
    )


def wrap_notes(said: Sequence[str]) -> list[str]:
    """Numbered notes, wrapped to the width of the tables."""
    lines = ["Notes:"]
    for number, note in enumerate(said, start=1):
        lines += textwrap.wrap(f"[{number}] {note}", WIDTH, subsequent_indent="    ")
    return lines


def shorten(name: Any, width: int) -> str:
    """The name, cut to at most `width` characters."""
    text = str(name)
    return text if len(text) <= width else text[: width - 3] + "..."


def shorten_middle(name: Any, width: int) -> str:
    """The name, cut to at most `width` characters; its end stays, which tells levels of a factor apart."""
    text, head = str(name), max(3, (width - 3) // 4)
    return text if len(text) <= width else f"{text[:head]}...{text[len(text) - (width - 3 - head) :]}"


def format_number(value: float) -> str:
    """Four significant digits; nothing for what is not a number."""
    return "" if value != value else f"{value:.4g}"


def _range(values: Any) -> str:
    """One number, or the least and the greatest."""
    low, high = float(np.min(values)), float(np.max(values))
    return format_number(low) if high - low <= 1e-9 * high else f"{format_number(low)} to {format_number(high)}"

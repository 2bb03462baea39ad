"""``plan`` and ``fit``: a model from the shell."""

from __future__ import annotations

import argparse
import ast
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pandas as pd

from dpstats.api import glm, plan
from dpstats.call import METHODS
from dpstats.cli.shared import (
    ADJACENCIES,
    CAPS,
    INFERENCE,
    NAMED,
    Commands,
    add_output,
    add_payment,
    as_json,
    deliver,
    domain_of,
    flag,
    new_file,
    payment,
    records,
)
from dpstats.domain import Domain, Range
from dpstats.errors import ArgumentError, NotReleasedError
from dpstats.families import get_family
from dpstats.formula.design import DesignSpec
from dpstats.formula.parse import parse
from dpstats.formula.syntax import absorbed_factor
from dpstats.ledger import Ledger, check_columns
from dpstats.ledger.ledger import ledger_path
from dpstats.mechanisms.narrowing import narrowable
from dpstats.plan import Plan
from dpstats.plan.notes import weak_guarantee_note
from dpstats.plan.row_counts import RowCounts
from dpstats.plan.row_notes import count_findings, faults_line
from dpstats.plan.tables import capped_at, method_name
from dpstats.results.glm_results import GLMResults
from dpstats.results.summary import summarize
from dpstats.risk import ErrorSize, RequiredEps, required, sample_size
from dpstats.summaries import Summary, format_number, full_width
from dpstats.wording import argument


def add_commands(commands: Commands) -> None:
    """Add ``plan`` and ``fit``."""
    dry = commands.add_parser("plan", help="what a fit would release and cost; reads no data")
    dry.add_argument("formula", help='such as "income ~ age + C(sex)"')
    dry.add_argument("--ledger", type=ledger_path, help="use the Domain of this ledger; nothing is charged")
    dry.add_argument("--rows", type=int, metavar="N", help="predict the standard errors of a fit of N rows")
    dry.add_argument(
        "--se",
        action="append",
        default=[],
        metavar="NAME=ERROR",
        help="the number of rows for a standard error of a coefficient; with --rows, the eps for it",
    )
    dry.add_argument(
        "--typical",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help='what is publicly known of a column, for --rows and --se: ill=0.06, "age=[45, 15]", \'sex={"M": 0.7}\'',
    )
    dry.add_argument(
        "--residual-sd",
        type=float,
        metavar="SD",
        help="the standard deviation of the residuals, if it is publicly known, for --rows and --se",
    )
    dry.add_argument("--full", action="store_true", help="print all tables and notes")
    _add_model(dry, eps="the budget of this model; with --rows and --se the answer, so it is not needed")
    add_output(dry)
    dry.set_defaults(run=_plan)

    fit = commands.add_parser("fit", help="charge the ledger, read the rows, and release a model")
    fit.add_argument("formula", help='such as "income ~ age + C(sex)"')
    fit.add_argument("data", help="path or pattern of CSV or Parquet files")
    _add_model(fit)
    add_payment(fit)
    add_output(fit, "the released values, for evaluate and show")
    fit.add_argument("--full", action="store_true", help="also print mechanism, budget, risk and notes")
    fit.set_defaults(run=_fit)


def _strength(text: str) -> float | str:
    """A number, or the word that has it chosen."""
    return text if text == "auto" else float(text)


def _inference(text: str) -> str:
    """A word of `INFERENCE`, or what YAML or Python has for yes and no."""
    word = _LITERALS.get(text.lower(), text.lower())
    word = {True: "yes", False: "no", None: "no"}.get(word, word)
    if word not in INFERENCE:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(INFERENCE)}")
    return word


_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None, "none": None}
"""As YAML, JSON or Python write them, in any case."""


def _add_model(parser: argparse.ArgumentParser, eps: str | None = None) -> None:
    parser.add_argument("--domain", type=Path, help="YAML, CSV or JSON file with the columns' ranges and levels")
    parser.add_argument("--eps", type=float, required=eps is None, help=eps or "the budget of this model")
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--family", default="gaussian", help="gaussian (default), binomial, poisson, huber_svm ...")
    parser.add_argument("--method", choices=METHODS, default="auto")
    parser.add_argument("--penalty", help="lasso, or with --alpha ridge, elastic_net ...")
    parser.add_argument("--alpha", type=_strength, help="strength of the penalty; auto, the default of a lasso")
    for name, (family, text) in CAPS.items():
        parser.add_argument(flag(name), type=float, help=f"of {family}: {text}")
    parser.add_argument("--adjacency", choices=ADJACENCIES, default="add_remove")
    for name in ("weights", "offset", "exposure"):
        parser.add_argument(f"--{name}", metavar="COLUMN", help="a column, or an expression of columns")
    parser.add_argument("--subset", metavar="CONDITION", help='a condition on the rows, such as "age >= 18"')
    parser.add_argument("--unit", metavar="COLUMN", help="guarantee for persons, identified by this column")
    parser.add_argument(
        "--inference",
        type=_inference,
        nargs="?",
        const="yes",
        metavar=f"{{{','.join(INFERENCE)}}}",
        default="auto",
        help="standard errors and tests; yes if no word follows",
    )
    parser.add_argument("--n", type=float, help="a public guess at the number of rows, instead of a private count")
    parser.add_argument("--check-share", type=float, help="share of eps for counting the rows first; 0 for no count")
    parser.add_argument(
        "--on-mismatch",
        choices=("stop", "go"),
        default="stop",
        help="whether to stop or go on if the rows do not suit the Domain",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another option of dpstats.glm, such as --set screen=5",
    )


def _plan(options: argparse.Namespace) -> None:
    domain = domain_of(options, None)
    if domain is None and options.ledger is not None:
        with Ledger.open(options.ledger) as ledger:
            domain = ledger.domain
    if options.eps is None and (options.rows is None or not options.se):
        raise ArgumentError("--eps is missing: give the budget of this model, such as --eps 1")
    fit_plan = plan(options.formula, domain, 1.0 if options.eps is None else options.eps, **_arguments(options))
    if options.ledger is not None:
        with Ledger.open(options.ledger) as ledger:
            check_columns(ledger, Domain.coerce(domain), parse(fit_plan.formula).columns)
    if options.rows is not None:
        options.flags["n"] = flag("rows")  # what forecasts call n; the plan has taken --n
    _warn(fit_plan, options)
    known = {"typical": _typical(options.typical), "residual_sd": options.residual_sd}
    for name, value in known.items():
        if value is not None and options.rows is None and not options.se:
            raise ArgumentError(f"{flag(name)} describes rows for a forecast: add --rows N, or --se NAME=ERROR")
    if options.se:
        _print_needed(fit_plan, _errors_wanted(options.se), known, options)
        return
    forecast = None if options.rows is None else fit_plan.standard_errors(options.rows, **known)
    if options.json:
        more: dict[str, Any] = {}
        if forecast is not None:
            more = {"assumption": forecast.attrs["note"], "standard_errors": records(forecast.rename_axis("term"))}
        outcomes = fit_plan._outcomes()
        case, rows = fit_plan._usual(outcomes)
        if rows:  # the number of rows settles the budget
            if options.rows is not None and fit_plan.call is not None:
                case = fit_plan.call.with_rows(fit_plan, options.rows)
                rows = f"{options.rows:,} {fit_plan.request.options.record.of}"
            more |= {"budget_for": rows.removeprefix("with "), "by_rows": records(outcomes)}
        print(as_json({**plan_facts(case), **more}), end="")
        return
    shown = fit_plan.summary() if options.full else fit_plan
    of = fit_plan.request.options.record.of
    print(shown if forecast is None else _forecast_text(forecast, f"{options.rows:,} {of}"))


FORECAST_NOTES = (
    "std error is the forecast for usual rows or those described, lower for rows whose numbers nearly fill their "
    "ranges, upper for rows with narrow, off-centre numbers and rare levels; sampling is that of usual rows without "
    "privacy.",
    "finite and at upper are the chances that an error is finite, of usual rows and of those of upper.",
)


DESCRIBED_NOTES = (
    "std error is the forecast for rows as described, lower that of the median fit; at least 95 of 100 fits are "
    "expected to stay below upper, if the description is right. sampling is without privacy.",
    "finite is the chance that an error is finite; an upper of inf means that an unlucky fit may have none, by its "
    "noise or by a range that it buys.",
)


def _forecast_text(table: pd.DataFrame, rows: str) -> Summary:
    """A forecast of standard errors of so many rows or persons, as a table."""
    chances = ("identified", "identified_upper")
    lines = [
        # A chance below one is not printed as 100 %.
        (
            name,
            [
                f"{int(100 * value + 1e-9)}%" if column in chances else format_number(value)
                for column, value in row.items()
            ],
        )
        for name, row in table.iterrows()
    ]
    headers = ["std error", "lower", "upper", "sampling", "finite", "at upper"]
    title = f"Standard errors forecast for {rows}"
    return Summary(
        [full_width(headers, lines, [10, 10, 10, 10, 8, 10], title=title)],
        (*(DESCRIBED_NOTES if table.attrs.get("described") else FORECAST_NOTES), *filter(None, [table.attrs["note"]])),
    )


def _warn(fit_plan: Plan, options: argparse.Namespace) -> None:
    """Say on standard error what a summary says of a guarantee that means little, where none is printed."""
    if options.json or getattr(options, "rows", None) is not None or getattr(options, "se", None):
        for note in weak_guarantee_note(fit_plan):
            print(f"note: {note}", file=sys.stderr)


def _errors_wanted(settings: list[str]) -> dict[str, float]:
    """Standard errors by coefficient, whose names may hold an equals sign."""
    wanted: dict[str, float] = {}
    for setting in settings:
        name, _, text = setting.rpartition("=")
        try:
            wanted[name] = float(text)
        except ValueError:
            raise ArgumentError(f"--se takes NAME=ERROR, such as --se age=0.1; got {setting!r}") from None
    return wanted


def _typical(settings: list[str]) -> dict[str, Any] | None:
    """What is known of columns by name, None of none."""
    values = {name: _value(text) for name, _, text in (setting.partition("=") for setting in settings)}
    return values or None


def _print_needed(fit_plan: Plan, wanted: dict[str, float], known: dict[str, Any], options: argparse.Namespace) -> None:
    """How many rows standard errors need, or which eps where the number of rows is given."""
    if options.rows is None:
        size = sample_size(fit_plan, se=wanted, **known)
        assert isinstance(size, ErrorSize)
        answer: ErrorSize | RequiredEps = size
        facts = {name: getattr(size, name) for name in ("n", "cautious", "eps")}
    else:
        answer = required(fit_plan, se=wanted, n=options.rows, **known)
        facts = {name: getattr(answer, name) for name in ("eps", "cautious", "n")}
    table = records(answer.table.rename_axis("term"))
    report = {**facts, "assumption": answer.assumption, "standard_errors": table}
    print(as_json(report) if options.json else f"{answer}\n", end="")


def _fit(options: argparse.Namespace) -> None:
    arguments = _arguments(options)
    with payment(options) as ledger, new_file(options.output):
        domain = domain_of(options, ledger)
        fit = glm(options.formula, options.data, options.eps, domain=domain, ledger=ledger, **arguments)
    _warn(fit.plan, options)
    # How many rows there are is public under replace_one; the shell shows no count of rows all the same.
    if fit.nobs is not None and fit.plan.counts is not None:
        findings = [*count_findings(fit.plan), *faults_line(fit.plan)]  # which the summary tells beside the rows
        for finding in findings:
            print(f"note: {finding}", file=sys.stderr)
    fit = replace(fit, plan=replace(fit.plan, counts=_without_public_rows(fit.plan.counts)), nobs=None)
    deliver(fit, lambda: _text(fit, options), options.output)


def _without_public_rows(counts: RowCounts | None) -> RowCounts | None:
    """The counts without a number of rows that has no noise."""
    return counts if counts is None or counts.rows_eps else replace(counts, rows=None)


def _text(fit: GLMResults, options: argparse.Namespace) -> str:
    """What is printed."""
    if options.json:
        return as_json(fit_facts(fit))
    kept = "FILE" if options.output is None else options.output
    more = f"python -m dpstats show {kept} --full" + (", if --output keeps one" if options.output is None else "")
    return f"{summarize(fit, full=options.full, details=more)}\n"


def _arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of `dpstats.glm`."""
    if absorbed_factor(options.formula)[1] is not None:
        raise ArgumentError("formula: models with an absorbed factor, y ~ x | g, are fitted in Python, by dpstats.ols")
    arguments = {name: getattr(options, name) for name in NAMED}
    arguments["family"] = _family(options)
    arguments["inference"] = INFERENCE[options.inference]
    for name in ("unit", "n", "check_share", "on_mismatch"):
        if getattr(options, name) is not None:
            arguments[name] = getattr(options, name)
    for setting in options.set:
        name, equals, text = setting.partition("=")
        if not equals or not name.isidentifier():
            raise ArgumentError(f"--set takes NAME=VALUE, such as {argument('screen', 5)}; got {setting!r}")
        if name in ("by", "shrink"):
            raise ArgumentError(f"--set: {name} is for groups, which are fitted in Python: dp.glm(..., by='region')")
        if name in arguments or hasattr(options, name):
            raise ArgumentError(f"--set: {name} has its own argument, {flag(name)}")
        arguments[name] = _value(text)
    return arguments


def _family(options: argparse.Namespace) -> Any:
    """The family, with the caps that were given."""
    caps = {name: getattr(options, name) for name in CAPS if getattr(options, name) is not None}
    family = get_family(options.family)  # refuses what only Python's calls offer
    if not caps:
        return family
    for name in caps:
        if not hasattr(family, name):
            raise ArgumentError(f"{flag(name)} is for {CAPS[name][0]!r}, not for --family {family.name}")
    return replace(cast("Any", family), **caps)


def _value(text: str) -> Any:
    """A literal of Python, such as a number, or true, false, null and none in any case; else the text itself."""
    if text.lower() in _LITERALS:
        return _LITERALS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def plan_facts(fit_plan: Plan) -> dict[str, Any]:
    """What is public of a plan, for JSON."""
    opened, trimmed = _open_ranges(fit_plan), list(fit_plan.trimmed)
    return {**_model_facts(fit_plan), "ranges_to_buy": opened, "ranges_to_narrow": trimmed}


def _model_facts(fit_plan: Plan) -> dict[str, Any]:
    """What JSON has of a plan before and after the fit."""
    request = fit_plan.request
    return {
        "formula": fit_plan.formula,
        "family": fit_plan.family.name,
        "method": method_name(fit_plan),
        "penalty": None if request.penalty is None else request.penalty.name,
        "guarantee": fit_plan.guarantee.to_dict(),
        "columns": list(fit_plan.names),
        "budget": records(fit_plan.budget),
    }


def _open_ranges(fit_plan: Plan) -> list[str]:
    """The columns that nobody declared, whose ranges the budget buys."""
    return [name for name in fit_plan.bought if name not in fit_plan.trimmed]


def _range_facts(fit_plan: Plan) -> dict[str, Any]:
    """The ranges that a fit bought or narrowed, with their ends, and the columns of which no narrower one was found."""
    design, screening, searched = fit_plan.design, fit_plan.screening, list(fit_plan.trimmed)
    declared = design.domain.items() if isinstance(design, DesignSpec) else ()
    ranges = {name: one for name, one in declared if isinstance(one, Range)}
    narrowed = [name for name in searched if ranges[name].inner is not None]
    if screening is not None and screening.range_eps and isinstance(design, DesignSpec):
        narrowed += screening.narrowed
        searched += [name for name, column in narrowable(design).items() if fit_plan.kept[column]]

    def ends(names: list[str]) -> dict[str, list[float]]:
        return {name: list(map(float, ranges[name].interval)) for name in names}

    return {
        "bought_ranges": ends(_open_ranges(fit_plan)),
        "narrowed_ranges": ends(narrowed),
        "no_narrower_range": [name for name in searched if name not in narrowed],
    }


def fit_facts(fit: GLMResults, *, exponentiate: bool = False) -> dict[str, Any]:
    """What was released of a fit, for JSON: all that its summary tells, with numbers of rows as `glance` has them."""
    tidy, glance = fit.tidy(exponentiate=exponentiate), fit.glance().iloc[0]
    counted = {}
    for name, key in (("nobs", "rows"), ("rows_counted", "rows_counted"), ("persons_counted", "persons")):
        if name in glance or name == "nobs":
            known = glance[name] is not pd.NA
            counted[key] = glance[name] if known else None
            counted[f"{key}_se"] = glance.get(f"{name}_std_error", 0.0) if known else None
    notes = dict.fromkeys([*faults_line(fit.plan), *fit.notes, *filter(None, [tidy.attrs.get("note")])])
    try:
        figures = records(fit.fitstats.rename_axis("figure"))
    except NotReleasedError:
        figures = []
    facts = {
        **_model_facts(fit.plan),
        "residual_cap": capped_at(fit.plan),
        **_range_facts(fit.plan),
        **counted,
        "coefficients": records(tidy),
        "fitstats": figures,
    }
    return {**facts, "notes": list(notes)}

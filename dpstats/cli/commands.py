"""Commands about data and results: template, check, evaluate, show and predict."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from dpstats.cli.models import fit_facts
from dpstats.cli.shared import (
    ADJACENCIES,
    NAMED,
    Commands,
    add_output,
    add_payment,
    as_json,
    deliver,
    domain_of,
    new_file,
    opened_new,
    payment,
    records,
    write_new,
)
from dpstats.data import Table, as_table
from dpstats.domain import Domain
from dpstats.domain.codebook import json_template_of, yaml_template_of
from dpstats.errors import ArgumentError, DataError, NotReleasedError
from dpstats.evaluation import Check, Evaluation, check, evaluate
from dpstats.evaluation.data_check import implied_family
from dpstats.evaluation.result import FRAMES
from dpstats.formula.design import DesignSpec
from dpstats.results.cell_warnings import warn_of_cells
from dpstats.results.etable import etable
from dpstats.results.glm_results import GLMResults
from dpstats.results.summary import summarize


def add_evaluate(commands: Commands) -> None:
    """Add ``evaluate``."""
    parser = commands.add_parser("evaluate", help="charge the ledger, read the rows, and release metrics of a fit")
    parser.add_argument("fit", type=Path, help="a file written by fit --output")
    parser.add_argument("data", help="path or pattern of CSV or Parquet files")
    parser.add_argument("--eps", type=float, required=True, help="the budget of this evaluation")
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--adjacency", choices=ADJACENCIES, default="add_remove")
    units = parser.add_mutually_exclusive_group()
    units.add_argument("--unit", metavar="COLUMN", help="guarantee for persons, identified by this column")
    units.add_argument("--no-unit", action="store_const", const=False, dest="unit", help="guarantee for single rows")
    parser.add_argument("--metrics", nargs="+", help="such as accuracy brier; by default all metrics of the family")
    parser.add_argument("--against", type=Path, metavar="FIT", help="another model: release how their losses differ")
    parser.add_argument("--full", action="store_true", help="also print all notes")
    add_payment(parser)
    add_output(parser, "the released values")
    parser.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> None:
    fit = _loaded_fit(options.fit, "fit")
    arguments = {name: getattr(options, name) for name in ("delta", "adjacency", "unit", "metrics")}
    if options.against is not None:
        arguments["against"] = _loaded_fit(options.against, "--against")
    with payment(options) as ledger, new_file(options.output):
        evaluation = evaluate(fit, options.data, options.eps, ledger=ledger, **arguments)
    deliver(evaluation, lambda: _evaluation_text(evaluation, options), options.output)


def _evaluation_text(evaluation: Evaluation, options: argparse.Namespace) -> str:
    """What is printed."""
    if not options.json:
        return f"{evaluation.summary(full=options.full)}\n"
    frames = {name: getattr(evaluation, name) for name in FRAMES}
    tables = {name: None if table is None else records(table) for name, table in frames.items()}
    numbers = {name: getattr(evaluation, name) for name in ("rows", "rows_se", "rows_left_out", "rows_left_out_se")}
    models = {"model": evaluation.model} | ({} if evaluation.against is None else {"against": evaluation.against})
    facts = {**models, **numbers, "guarantee": evaluation.guarantee.to_dict(), "notes": list(evaluation.notes)}
    return as_json({**facts, **tables})


def add_data_commands(commands: Commands) -> None:
    """Add ``template`` and ``check``."""
    template = commands.add_parser("template", help="write a Domain to fill in, from names and types; reads no row")
    template.add_argument(
        "data", type=Path, help="path or pattern of Parquet or CSV files; of CSV only the first line is read"
    )
    template.add_argument(
        "--output", type=Path, metavar="FILE", help="a new file, .json or .yaml (default: standard output)"
    )
    template.set_defaults(run=_template)

    parser = commands.add_parser("check", help="charge the ledger, and count rows that a fit would lose or clip")
    parser.add_argument("formula", help='such as "income ~ age + C(sex)"')
    parser.add_argument("data", help="path or pattern of CSV or Parquet files")
    parser.add_argument("--domain", type=Path, help="YAML, CSV or JSON file with the columns' ranges and levels")
    parser.add_argument("--eps", type=float, required=True, help="the budget of this check; 0.1 is usually enough")
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--family", help="as for fit (default: by the declared response)")
    parser.add_argument("--adjacency", choices=ADJACENCIES, default="add_remove")
    for name in ("weights", "offset", "exposure"):
        parser.add_argument(f"--{name}", metavar="COLUMN", help="as for fit")
    parser.add_argument("--unit", metavar="COLUMN", help="guarantee for persons, identified by this column")
    add_payment(parser)
    add_output(parser, "the released counts")
    parser.set_defaults(run=_check)


def _template(options: argparse.Namespace) -> None:
    ending = None if options.output is None else options.output.suffix.lower()
    if ending not in (None, ".json", ".yaml", ".yml"):
        raise ArgumentError(f"--output: {options.output} must end in .json, .yaml or .yml")
    # What is written can be read here: YAML, with a comment on each column, where there is PyYAML.
    readable = find_spec("yaml") is not None
    if not readable and ending in (".yaml", ".yml"):
        raise ArgumentError("--output: YAML needs the package PyYAML (pip install pyyaml); a file .json needs none")
    yaml = readable if ending is None else ending != ".json"
    write_new((yaml_template_of if yaml else json_template_of)(options.data), options.output)


def _check(options: argparse.Namespace) -> None:
    arguments = {name: getattr(options, name) for name in (*NAMED, "unit") if hasattr(options, name)}
    with payment(options) as ledger, new_file(options.output):
        domain = domain_of(options, ledger)
        data_check = check(options.formula, options.data, domain, options.eps, ledger=ledger, **arguments)
    # How many rows there are is public under replace_one; the shell shows noisy counts alone all the same.
    data_check = replace(data_check, nobs=None)
    implied = None if options.family is not None else implied_family(options.formula, Domain.coerce(domain))
    deliver(data_check, lambda: _text(data_check, options.json, implied), options.output)


def _text(data_check: Check, as_facts: bool, implied: str | None) -> str:
    """What is printed; `implied` is a family that nobody has named."""
    if not as_facts:
        needed = "The response has two values: pass --family binomial to plan and fit.\n" * (implied == "binomial")
        return f"{data_check.summary()}\n{needed}"
    tables = {name: records(getattr(data_check, name)) for name in ("table", "located")}
    totals = data_check.totals.rename_axis("what")
    facts = {
        "formula": data_check.formula,
        "guarantee": data_check.guarantee.to_dict(),
        "findings": data_check.findings,
    }
    return as_json({**facts, "totals": records(totals), **tables})


def add_show(commands: Commands) -> None:
    """Add ``show``."""
    parser = commands.add_parser("show", help="print a saved fit, check or evaluation; spends nothing")
    parser.add_argument("file", type=Path, help="a file written by --output")
    parser.add_argument("--full", action="store_true", help="for a fit: also mechanism, budget, risk and notes")
    parser.add_argument("--uncertainty", action="store_true", help="for a fit: the full table of standard errors")
    parser.add_argument("--exponentiate", action="store_true", help="for a fit: odds ratios, or ratios of means")
    parser.add_argument("--format", choices=("text", "markdown", "latex", "html", "json"), default="text")
    parser.add_argument("--json", dest="format", action="store_const", const="json", default="text")
    parser.set_defaults(run=_show)


def _show(options: argparse.Namespace) -> None:
    release = _loaded(options.file, "file")
    of_fits = [name for name in ("full", "uncertainty", "exponentiate") if getattr(options, name)]
    if of_fits and not isinstance(release, GLMResults) and (options.format != "json" or options.exponentiate):
        raise ArgumentError(f"--{of_fits[-1]} is for a fit")
    if options.format == "json":
        facts = release.to_dict()
        if isinstance(release, GLMResults):
            facts = fit_facts(release, exponentiate=options.exponentiate)
        print(as_json(facts), end="")
        return
    if isinstance(release, GLMResults) and (apart := [name for name in of_fits if name != "full"]):
        formats = "" if options.exponentiate else ", and any --format except json"
        if len(of_fits) > 1 or (formats and options.format != "text"):
            others = " and ".join(f"--{name}" for name in ("full", "uncertainty", "exponentiate") if name != apart[0])
            raise ArgumentError(f"--{apart[0]} prints a separate table: leave out {others}{formats}")
        if options.exponentiate:
            table = etable({release.plan.design.response_name: release}, exponentiate=True)
            print(table if options.format == "text" else getattr(table, f"to_{options.format}")())
        else:  # on one line each: --format json has all digits
            print(release.uncertainty().to_string(float_format="{:.5g}".format))
        return
    more = "--full" if options.format == "text" else None
    summary = (
        summarize(release, full=options.full, details=more) if isinstance(release, GLMResults) else release.summary()
    )
    print(getattr(summary, f"as_{options.format}")())


def add_predict(commands: Commands) -> None:
    """Add ``predict``."""
    parser = commands.add_parser("predict", help="predictions of a fit for public rows, as CSV; spends nothing")
    parser.add_argument("fit", type=Path, help="a file written by fit --output")
    parser.add_argument("data", type=Path, help="a CSV or Parquet file of public rows: predictions tell of their rows")
    for name in ("offset", "exposure"):
        parser.add_argument(f"--{name}", type=float, metavar="NUMBER", help="of all rows, in place of its column")
    parser.add_argument("--level", type=float, default=0.95, help="of the intervals of the mean (default 0.95)")
    parser.add_argument(
        "--no-intervals",
        action="store_true",
        help="predictions alone, not corrected for shrinkage: for many rows intervals take most of the time",
    )
    parser.add_argument("--id", metavar="COLUMN", help="a column of the data to write beside the predictions")
    parser.add_argument("--output", type=Path, metavar="FILE", help="a new CSV file, .csv (default: standard output)")
    parser.set_defaults(run=_predict)


def _predict(options: argparse.Namespace) -> None:
    if options.output is not None and options.output.suffix.lower() not in ("", ".csv"):
        named = options.output.with_suffix(".csv")
        raise ArgumentError(f"--output: {options.output} would be a CSV file; pass --output {shlex.quote(str(named))}")
    if not 0 < options.level < 1:
        raise ArgumentError(f"--level must lie strictly between 0 and 1, got {options.level:g}")
    fit, table = _loaded_fit(options.fit, "fit"), as_table(options.data)
    design, beside = fit.predicting_design, {"offset": options.offset, "exposure": options.exposure}
    if not isinstance(design, DesignSpec):
        raise ArgumentError(f"fit: {options.fit} is a fit of arrays, whose columns have no names; predict in Python")
    if options.id is not None and not table.count(options.id):
        named = ", ".join(map(str, table.labels))
        raise ArgumentError(f"--id: {options.data} has no column {options.id!r}; its columns are {named}")
    own = options.offset is None and options.exposure is None
    columns = design.parsed.predicting_columns if own else design.parsed.exog_columns

    of_all: dict[str, None] = {}  # warnings, by their text

    def written(batches: Iterable[Table]) -> tuple[int, int]:
        """Write the predictions of all batches; how many there are, and how many of them are missing."""
        rows = missing = 0
        for number, batch in enumerate(batches):
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                frame = _batch_predictions(fit, batch, None if options.no_intervals else 1 - options.level, beside)
            of_all.update(dict.fromkeys(str(one.message) for one in heard))
            missing += int(frame.iloc[:, 0].isna().sum())
            if options.id is not None:
                if options.id in frame:
                    taken = f"the predictions have a column {options.id!r} too; give the column another name"
                    raise ArgumentError(f"--id: {taken}")
                frame.insert(0, options.id, _cells(batch, options.id))
            write(frame.to_csv(index=False, header=not number))
            rows += len(frame)
        return rows, missing

    read = [name for name in dict.fromkeys((*columns, options.id)) if name is not None and table.count(name)]
    with opened_new(options.output) as write:
        rows, missing = table.batches(read).total(written, lambda one, other: (one[0] + other[0], one[1] + other[1]))
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        warn_of_cells(design, table, offset=own)  # once of all rows: each batch would count its own
    notes = [str(one.message) for one in messages]
    notes += [text for text in of_all if not text.startswith("newdata:")]
    if missing and sum("no prediction" in note for note in notes) != 1:  # one cause alone has told their number
        notes.append(f"in all, {missing:,} of {rows:,} rows have no prediction, and empty cells in the output")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def _batch_predictions(fit: GLMResults, batch: Table, alpha: float | None, beside: Mapping[str, Any]) -> pd.DataFrame:
    """Predictions of some rows, with intervals where `alpha` asks for them and the fit has any."""
    if alpha is not None:
        with suppress(NotReleasedError):  # no standard errors, or no mean
            return fit.get_prediction(batch, alpha, **beside).summary_frame()
    return pd.DataFrame({"predicted": np.asarray(fit.predict(batch, **beside))})


def _cells(table: Table, name: str) -> list[object]:
    """A column of public rows, as it stands in their file."""
    cells = cast("Any", table.column(name)).values.to_pylist()
    return [cell.decode() if isinstance(cell, bytes) else cell for cell in cells]


def _loaded(path: Path, what: str) -> GLMResults | Check | Evaluation:
    """The released values in a file, by the kind that it says it is; errors call the argument `what`."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        kind = facts.get("kind", "GLMResults") if isinstance(facts, dict) else ""
    except FileNotFoundError as error:
        raise DataError(f"{what}: there is no file {str(path)!r}") from error
    except (OSError, UnicodeError, ValueError) as error:
        raise DataError(f"{what}: {path} does not hold released values; check the path") from error
    if isinstance(facts, dict) and "format" not in facts:
        raise DataError(
            f"{what}: {path} is not a file written by --output. The output of --json is for other programs and cannot "
            "be read back: pass the file that fit, check or evaluate wrote with --output"
        )
    for release_type in (GLMResults, Check, Evaluation):
        if kind == release_type.__name__:
            return release_type.load(path)
    raise DataError(f"{what}: {path} is not a fit, check or evaluation written by --output")


def _loaded_fit(path: Path, what: str) -> GLMResults:
    """The fit in a file; DataError if it holds something else."""
    release = _loaded(path, what)
    if isinstance(release, GLMResults):
        return release
    kind = {Check: "a check", Evaluation: "an evaluation"}[type(release)]
    raise DataError(f"{what}: {path} holds {kind}, not a fit; pass a file written by fit --output")

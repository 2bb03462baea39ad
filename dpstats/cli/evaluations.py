"""``evaluate``: how good a saved fit is on some rows."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpstats.cli.shared import (
    ADJACENCIES,
    Commands,
    add_output,
    add_payment,
    as_json,
    deliver,
    new_file,
    paying,
    records,
    worded,
)
from dpstats.evaluation import Evaluation, evaluate
from dpstats.results.glm_results import GLMResults

_FRAMES = ("metrics", "calibration", "roc", "residuals", "confusion")


def add_command(commands: Commands) -> None:
    """Add ``evaluate``."""
    parser = commands.add_parser("evaluate", help="charge the ledger, read the rows, and release how good a fit is")
    parser.add_argument("fit", type=Path, help="a file that fit --output has written")
    parser.add_argument("data", help="path or pattern of CSV or Parquet files")
    parser.add_argument("--eps", type=float, required=True, help="the budget of this evaluation")
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--adjacency", choices=ADJACENCIES, default="add_remove")
    parser.add_argument("--unit", metavar="COLUMN", help="guarantee for persons, whom this column tells apart")
    parser.add_argument("--metrics", nargs="+", help="such as accuracy brier; by default all that suit the family")
    add_payment(parser)
    add_output(parser, "the released values")
    parser.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> None:
    fit = GLMResults.load(options.fit)
    named = {name: getattr(options, name) for name in ("delta", "adjacency", "unit", "metrics")}
    with paying(options) as ledger, new_file(options.output):
        found = evaluate(fit, options.data, options.eps, ledger=ledger, **named)
    deliver(found, lambda: _text(found, options.json), options.output)


def _text(found: Evaluation, as_facts: bool) -> str:
    """What is printed."""
    if not as_facts:
        return f"{worded(found.summary())}\n"
    tables = {name: getattr(found, name) for name in _FRAMES}
    tables = {name: None if table is None else records(table) for name, table in tables.items()}
    facts = {"model": found.model, "guarantee": found.guarantee.to_dict(), "notes": list(found.notes)}
    return as_json({**facts, **tables})

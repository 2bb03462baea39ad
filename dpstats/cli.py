"""The command line: ``python -m dpstats ledger show|init|export`` and ``python -m dpstats demo``."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from dpstats.errors import DPStatsError, LedgerError
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.ledger import Ledger
from dpstats.privacy.ledger.filters import LedgerAccountant


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        The exit status: 0, or 1 after an error of ours, whose message goes to standard error.
    """
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except DPStatsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dpstats", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    commands.add_parser("demo", help="fit private models to bundled data and show them").set_defaults(run=_demo)
    ledger = commands.add_parser("ledger", help="look after the privacy budget of a data set")
    actions = ledger.add_subparsers(required=True, metavar="action")

    show = actions.add_parser("show", help="print what was spent on what, and what remains")
    show.set_defaults(run=_show)

    init = actions.add_parser("init", help="make a new ledger")
    init.add_argument("--dataset", required=True, help="the name of the data set")
    init.add_argument("--eps", type=float, required=True, help="the total eps")
    init.add_argument("--delta", type=float, default=0.0, help="the total delta (default 0)")
    init.add_argument("--adjacency", choices=get_args(Adjacency), default="add_remove")
    init.add_argument("--unit", help="the column that tells persons apart, if the total is for persons (default: rows)")
    init.add_argument("--accountant", choices=get_args(LedgerAccountant), default="basic")
    init.set_defaults(run=_init)

    export = actions.add_parser("export", help="write the entries as CSV or JSON")
    export.add_argument("--format", choices=("csv", "json"), default="csv")
    export.add_argument("--output", type=Path, help="a new file (default: standard output)")
    export.set_defaults(run=_export)

    for action in (show, init, export):
        action.add_argument("path", type=Path, help="the ledger's file")
    return parser


def _demo(options: argparse.Namespace) -> None:
    importlib.import_module("dpstats.demo").main()


def _show(options: argparse.Namespace) -> None:
    with Ledger.open(options.path) as ledger:
        print(ledger.report())


def _init(options: argparse.Namespace) -> None:
    if options.path.exists():
        raise LedgerError(f"path: {options.path} exists already; choose another path")
    fixed = ("dataset", "eps", "delta", "adjacency", "unit", "accountant")
    totals = {name: getattr(options, name) for name in fixed}
    with Ledger(options.path, **totals) as ledger:
        print(ledger.report())


def _export(options: argparse.Namespace) -> None:
    with Ledger.open(options.path) as ledger:
        entries = ledger.entries().reset_index()
    if options.format == "csv":
        text = entries.to_csv(index=False)
    else:
        entries["time"] = entries["time"].map(lambda time: time.isoformat())
        records = entries.astype(object).where(entries.notna(), None).to_dict("records")
        text = json.dumps(records, indent=2) + "\n"
    if options.output is None:
        sys.stdout.write(text)
        return
    try:
        with options.output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise LedgerError(
            f"output: {options.output} cannot be written ({error.strerror}); choose a new file"
        ) from error

"""``ledger``: looking after the privacy budget of a data set."""

from __future__ import annotations

import argparse
import csv
import re
from pathlib import Path
from typing import get_args

from dpstats.cli.shared import ADJACENCIES, Commands, as_json, read_domain, records, write_new
from dpstats.errors import LedgerError
from dpstats.ledger import Ledger
from dpstats.ledger.accounts import LedgerAccountant
from dpstats.ledger.ledger import ledger_path, store_at

FORMULA = re.compile(r"""(^|;)([\s"]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])""")
"""Where spreadsheets may take text for a formula: analysts write labels, others open the file.

Where decimals have a comma a semicolon ends a cell, and Asian forms of the signs count too.
"""


def add_commands(commands: Commands) -> None:
    """Add ``ledger`` and its actions."""
    ledger = commands.add_parser("ledger", help="manage the privacy budget of a data set")
    actions = ledger.add_subparsers(required=True, metavar="action")

    show = actions.add_parser("show", help="print the entries by analyst and purpose, and the remaining budget")
    show.add_argument("--json", action="store_true", help="print JSON instead of tables")
    show.set_defaults(run=_show)

    init = actions.add_parser("init", help="create a new ledger")
    init.add_argument("--dataset", required=True, help="the name of the data set")
    init.add_argument("--eps", type=float, required=True, help="the total eps")
    init.add_argument("--delta", type=float, default=0.0, help="the total delta (default 0)")
    init.add_argument("--adjacency", choices=ADJACENCIES, default="add_remove")
    init.add_argument("--unit", help="the column that identifies persons, if the total is for persons (default: rows)")
    init.add_argument("--accountant", choices=get_args(LedgerAccountant), default="basic")
    init.add_argument("--domain", type=Path, help="file of the data set's columns, kept in the ledger")
    init.set_defaults(run=_init)

    quota = actions.add_parser("quota", help="limit what one analyst may spend from now on")
    who = quota.add_mutually_exclusive_group(required=True)
    who.add_argument("--analyst", help="whose charges")
    who.add_argument("--everyone-else", action="store_true", help="all analysts without a quota of their own")
    quota.add_argument("--eps", type=float, required=True)
    quota.add_argument("--delta", type=float, default=0.0)
    quota.set_defaults(run=_quota)

    domain = actions.add_parser("domain", help="correct the Domain of the data set from now on; costs nothing")
    domain.add_argument("--domain", type=Path, required=True, help="file of all columns of the data set")
    domain.set_defaults(run=_domain)

    html = actions.add_parser("html", help="write the report as one HTML page")
    html.set_defaults(run=_html)

    export = actions.add_parser("export", help="write the entries, or quotas, as CSV or JSON")
    export.add_argument("--format", choices=("csv", "json"), default="csv")
    tables = export.add_mutually_exclusive_group()
    tables.add_argument(
        "--by-analyst", action="store_true", help="what each analyst has spent and has left, with the quotas"
    )
    tables.add_argument("--quotas", action="store_true", help="every quota that was set, with its time")
    export.set_defaults(run=_export)

    for action in (html, export):
        action.add_argument("--output", type=Path, help="a new file (default: standard output)")
    for action in (show, init, quota, domain, html, export):
        action.add_argument("path", type=ledger_path, help="the ledger's file, or the URL of a database")


def _show(options: argparse.Namespace) -> None:
    with Ledger.open(options.path) as ledger:
        if not options.json:
            print(ledger.report())
            return
        left, total = ledger.total_remaining, ledger.total
        names = ("dataset", "adjacency", "unit", "accountant")
        facts = {name: getattr(ledger, name) for name in names}
        facts |= {"total": total._asdict(), "remaining": left._asdict()}
        tables = {"analysts": ledger.spending(), "quotas": ledger.quotas(), "entries": ledger.entries()}
        facts |= {name: records(table) for name, table in tables.items()}
        facts["domain"] = None if ledger.domain is None else ledger.domain.to_dict()
        print(as_json(facts), end="")


def _init(options: argparse.Namespace) -> None:
    if (store := store_at(options.path)).exists():
        raise LedgerError(f"path: {store.path} exists already; choose another path")
    domain = None if options.domain is None else read_domain(options.domain)
    fixed = ("dataset", "eps", "delta", "adjacency", "unit", "accountant")
    totals = {name: getattr(options, name) for name in fixed}
    with Ledger(options.path, **totals, domain=domain) as ledger:
        print(ledger.report())


def _quota(options: argparse.Namespace) -> None:
    with Ledger.open(options.path) as ledger:
        ledger.set_quota(options.analyst, options.eps, options.delta)
        left = ledger.signed(options.analyst).remaining
        owner = options.analyst or "everyone else, each"
        quota = f"eps={options.eps:g}, delta={options.delta:g}"
        print(f"Quota of {owner}: {quota}; a charge may now have at most eps={left.eps:g}, delta={left.delta:g}.")


def _domain(options: argparse.Namespace) -> None:
    with Ledger.open(options.path) as ledger:
        before = len(ledger.entries())
        ledger.set_domain(read_domain(options.domain))
        entry = ledger.entries().iloc[-1] if len(ledger.entries()) > before else None
        message = (
            "The ledger has this Domain already" if entry is None else "; ".join(filter(None, entry[["label", "note"]]))
        )
        print(f"{message}. What was spent stays spent.")


def _html(options: argparse.Namespace) -> None:
    with Ledger.open(options.path) as ledger:
        write_new(ledger.to_html(), options.output)


def _export(options: argparse.Namespace) -> None:
    with Ledger.open(options.path) as ledger:
        if options.quotas:
            table = ledger.quotas().rename_axis("number")
        else:
            table = ledger.spending() if options.by_analyst else ledger.entries()
    if options.format == "csv":
        text = table.reset_index().map(spreadsheet_safe).to_csv(index=False, quoting=csv.QUOTE_ALL)
    else:
        text = as_json(records(table))
    write_new(text, options.output)


def spreadsheet_safe(cell: object) -> object:
    """A cell of a CSV file: text on one line, with a quotation mark before what may be taken for a formula."""
    if not isinstance(cell, str):
        return cell
    # Some programs begin a row at a carriage return even within quotes; others skip what is not seen.
    line = "".join(letter if letter.isprintable() else " " for letter in cell)
    return FORMULA.sub(r"\1'\2", line)

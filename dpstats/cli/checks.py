"""``template`` and ``check``: a Domain to fill in, and whether the rows suit it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from dpstats.cli.domains import read_domain
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
    write_new,
)
from dpstats.domain.template import yaml_template_of
from dpstats.evaluation import Check, check

_NAMED = ("delta", "family", "adjacency", "weights", "offset", "exposure", "unit")


def add_commands(commands: Commands) -> None:
    """Add ``template`` and ``check``."""
    template = commands.add_parser("template", help="write a Domain to fill in, from names and types; reads no row")
    template.add_argument("data", type=Path, help="a Parquet file, or a CSV file, of which the first line is read")
    template.add_argument("--output", type=Path, metavar="FILE", help="a new YAML file (default: standard output)")
    template.set_defaults(run=_template)

    parser = commands.add_parser("check", help="charge the ledger, and count rows that a fit would lose or clip")
    parser.add_argument("formula", help='such as "income ~ age + C(sex)"')
    parser.add_argument("data", help="path or pattern of CSV or Parquet files")
    parser.add_argument("--domain", type=Path, help="YAML, CSV or JSON file with the columns' ranges and levels")
    parser.add_argument("--eps", type=float, required=True, help="the budget of this check; 0.1 is mostly enough")
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--family", help="as for fit (default: by the declared response)")
    parser.add_argument("--adjacency", choices=ADJACENCIES, default="add_remove")
    for name in ("weights", "offset", "exposure"):
        parser.add_argument(f"--{name}", metavar="COLUMN", help="as for fit")
    parser.add_argument("--unit", metavar="COLUMN", help="guarantee for persons, whom this column tells apart")
    add_payment(parser)
    add_output(parser, "the released counts")
    parser.set_defaults(run=_check)


def _template(options: argparse.Namespace) -> None:
    write_new(yaml_template_of(options.data), options.output)


def _check(options: argparse.Namespace) -> None:
    arguments = {name: getattr(options, name) for name in _NAMED}
    with paying(options) as ledger, new_file(options.output):
        kept = None if ledger is None else ledger.domain
        domain = kept if options.domain is None else read_domain(options.domain)
        found = check(options.formula, options.data, domain, options.eps, ledger=ledger, **arguments)
    # How many rows there are is public under replace_one; the shell shows noisy counts alone all the same.
    found = replace(found, nobs=None)
    deliver(found, lambda: _text(found, options.json), options.output)


def _text(found: Check, as_facts: bool) -> str:
    """What is printed."""
    if not as_facts:
        return f"{worded(found.summary())}\n"
    tables = {name: records(getattr(found, name)) for name in ("table", "located")}
    totals = found.totals.rename_axis("what")
    facts = {"formula": found.formula, "guarantee": found.guarantee.to_dict(), "findings": found.findings}
    return as_json({**facts, "totals": records(totals), **tables})

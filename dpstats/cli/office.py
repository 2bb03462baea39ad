"""``office`` and ``serve``: rows that stay with their keeper, asked for over the network."""

from __future__ import annotations

import argparse
import datetime
import json
import logging
import sys
from pathlib import Path
from typing import Any

from dpstats.cli.shared import ADJACENCIES, Commands
from dpstats.errors import ArgumentError

QUESTIONS = {
    "dataset": "Name of the data set (letters, digits, - and _)",
    "source": "Path or pattern of its Parquet or CSV files",
    "domain": "Codebook with the ranges and levels of its columns (dpstats template writes one)",
    "eps": "Total eps that all analysts together may spend",
    "rows": "About how many rows, as a public number",
}
"""What an office cannot do without, in the order in which it is asked for."""

NUMBERS: dict[str, type] = {"eps": float, "rows": int}
OFFICE: dict[str, Any] = {"type": Path, "default": Path("office.toml"), "help": "default: office.toml"}


def add_commands(commands: Commands) -> None:
    office = commands.add_parser("office", help="set up an office: a server that keeps rows and answers analysts")
    actions = office.add_subparsers(required=True, metavar="action")

    what = "write the file of an office and create its ledger; asks for what is missing"
    init = actions.add_parser("init", help=what)
    init.add_argument("file", nargs="?", **OFFICE)
    for name, question in QUESTIONS.items():
        init.add_argument(f"--{name}", type=NUMBERS.get(name, str), help=question)
    init.add_argument("--delta", type=float, help="total delta (default 0)")
    init.add_argument("--most-eps", type=float, help="greatest eps of one release (default: the total)")
    init.add_argument("--quota", type=float, help="eps that each analyst may spend (default: the total)")
    init.add_argument("--adjacency", choices=ADJACENCIES)
    init.add_argument("--unit", metavar="COLUMN", help="guarantee for persons, identified by this column")
    init.add_argument("--approve", action="store_true", default=None, help="each release waits for the keeper")
    init.set_defaults(run=_init)

    who = actions.add_parser("analyst", help="analysts and their tokens").add_subparsers(
        required=True, metavar="action"
    )
    for place, name, run, what in (
        (who, "add", _add, "print a token for an analyst, once; an earlier one no longer works"),
        (who, "revoke", _revoke, "make an analyst's token useless"),
        (who, "list", _list, "print who has a token"),
        (actions, "keeper", _keeper, "print a new token for the keeper's page, once"),
    ):
        action = place.add_parser(name, help=what)
        if name in ("add", "revoke"):
            action.add_argument("name")
        action.add_argument("--office", metavar="FILE", **OFFICE)
        action.set_defaults(run=run)

    serve = commands.add_parser("serve", help="answer analysts and the keeper over HTTP")
    serve.add_argument("office", nargs="?", **OFFICE)
    serve.set_defaults(run=_serve)


def _service(path: Path) -> Any:
    from dpstats.office.config import Office
    from dpstats.office.service import Service

    return Service(Office.load(path))


def _init(options: argparse.Namespace) -> None:
    from dpstats.office.config import Office
    from dpstats.office.source import check_source

    path: Path = options.file
    if path.exists():
        raise ArgumentError(f"{path} exists already; add a table [data.NAME] to it, or choose another name")
    facts = {name: _asked(name) if getattr(options, name) is None else getattr(options, name) for name in QUESTIONS}
    name = facts.pop("dataset")
    facts |= {key: getattr(options, key) for key in ("delta", "most_eps", "adjacency", "unit", "approve")}
    lines = [
        "# An office of dpstats. Paths are relative to this file; dpstats serve reads it when it starts.",
        *("[office]", 'title = "Office"', 'listen = "127.0.0.1:8470"', 'keeper_listen = "127.0.0.1:8471"', ""),
        *(f"[data.{name}]", f'ledger = "{name}.ledger"'),
        *(f"{key} = {json.dumps(value)}" for key, value in facts.items() if value is not None),
        *([] if options.quota is None else ["", f"[data.{name}.quotas]", f'"*" = {options.quota!r}']),
    ]
    path.write_text("\n".join(lines) + "\n")
    try:
        for dataset in Office.load(path).datasets.values():
            check_source(dataset)  # its names and types alone
            dataset.make_ledger().close()
        token = _service(path).new_keeper_token()
    except BaseException:
        path.unlink()
        raise
    _show(f"{path} is written. Token for the keeper's page", token)
    print(f"Next: dpstats office analyst add NAME --office {path}, and dpstats serve {path}")


def _asked(name: str) -> Any:
    if not sys.stdin.isatty():
        raise ArgumentError(f"--{name} is missing: {QUESTIONS[name]}")
    try:
        return NUMBERS.get(name, str)(input(f"{QUESTIONS[name]}: ").strip())
    except ValueError:
        raise ArgumentError(f"--{name} must be a number") from None


def _show(whose: str, token: str) -> None:
    print(f"{whose}, which is not shown again:\n{token}")


def _add(options: argparse.Namespace) -> None:
    _show(f"Token of {options.name}", _service(options.office).add_analyst(options.name))


def _keeper(options: argparse.Namespace) -> None:
    _show("Token for the keeper's page", _service(options.office).new_keeper_token())


def _revoke(options: argparse.Namespace) -> None:
    _service(options.office).revoke(options.name)
    print(f"The token of {options.name} no longer works; releases stay.")


def _list(options: argparse.Namespace) -> None:
    for row in _service(options.office).analysts():
        since = datetime.datetime.fromtimestamp(row["since"]).isoformat(" ", "minutes")
        print(f"{row['name']:32} since {since}{'' if row['revoked'] is None else ', revoked'}")


def _serve(options: argparse.Namespace) -> None:
    try:
        from dpstats.office.api import serve
    except ImportError as error:
        what = 'a server needs packages: pip install "dpstats[server]", or starlette uvicorn jinja2'
        raise ArgumentError(what) from error
    log = logging.getLogger("dpstats")
    level = log.level
    log.setLevel(logging.ERROR)  # hints at formulas are in the plans
    try:
        serve(_service(options.office))
    finally:
        log.setLevel(level)

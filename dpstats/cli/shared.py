"""What several commands have in common: the ledger that pays, and where the output goes."""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import math
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from dpstats.errors import ArgumentError
from dpstats.plan.tables import WIDTH, Summary
from dpstats.plan.written import DETAILS, notes_of
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.ledger import Ledger

Commands = Any
"""What argparse's add_subparsers returns; the class is not public."""

ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")


def add_payment(parser: argparse.ArgumentParser) -> None:
    """The arguments that say who pays."""
    group = parser.add_argument_group("who pays")
    group.add_argument("--ledger", type=Path, help="the file of an existing ledger; charged before rows are read")
    group.add_argument("--analyst", help="who asks: whose quota pays")
    group.add_argument("--purpose", help="what it is for")
    group.add_argument("--label", help="the title of the ledger's entry")


def add_output(parser: argparse.ArgumentParser, saved: str | None = None) -> None:
    """The arguments that say what is printed, and what is written to a file."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print JSON instead of tables")
    if saved is not None:
        group.add_argument("--output", type=Path, metavar="FILE", help=f"a new file for {saved}")


@contextlib.contextmanager
def paying(options: argparse.Namespace) -> Iterator[Ledger | None]:
    """The ledger that was named, signed, or None with a word of warning; what would not be recorded is refused."""
    given = {name: getattr(options, name) for name in ("analyst", "purpose", "label")}
    if options.ledger is None:
        if named := [name for name, text in given.items() if text is not None]:
            raise ArgumentError(f"--{named[0]} is kept in a ledger; name it with --ledger")
        print("note: without --ledger nobody keeps count of what is spent on these data", file=sys.stderr)
        yield None
        return
    with Ledger.open(options.ledger) as ledger:
        yield ledger.signed(given["analyst"], purpose=given["purpose"], label=given["label"])


@contextlib.contextmanager
def new_file(path: Path | None) -> Iterator[None]:
    """Make sure that a new file can be written at `path` before anything is spent; none is left after an error."""
    if path is None:
        yield
        return
    try:
        path.open("x").close()
    except OSError as error:
        raise ArgumentError(f"--output: {path} cannot be written ({error.strerror}); choose a new file") from error
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


PHRASES = {
    "summary(full=True)": "--full",
    "dp.check counts them": "python -m dpstats check counts them",
    "screen= chooses": "--set screen=K chooses",
    "their standard errors are in uncertainty()": "their standard errors are in show --uncertainty",
    "plan.standard_errors(n)": "python -m dpstats plan --rows N",
    "(plan.standard_errors)": "(python -m dpstats plan --rows N)",
    "is in `located`": "is in --json",
    "is in .roc": "is in --json",
    "dp.check": "python -m dpstats check",
    "pass domain=ledger.domain": "leave out --domain",
    "inference=True": "--inference yes",
    "inference=None": "--inference no",
}
"""Words of messages that a shell has others for."""

OPTIONS = ("inference", "method", "family", "adjacency", "unit", "weights", "offset", "exposure", "subset", "penalty",
           "alpha", "label", "analyst", "residual_cap", "mean_cap", "y_max")  # fmt: skip
"""Arguments that have an option of their name; others are given by ``--set``."""

SETTINGS = ("screen", "response", "rows_at_least", "range_share", "split", "refit_share", "noise", "retrieval",
            "radius", "spread_share", "release_share", "information_share", "rows_at_most",
            "response_share")  # fmt: skip


def in_shell(text: str) -> str:
    """A message with Python's arguments as the shell has them: ``method='napp'`` as ``--method napp``."""
    for said, meant in PHRASES.items():
        text = text.replace(said, meant)
    value = r"=(?:'([^']*)'|\"([^\"]*)\"|(-?[\w.]+))(?![\w(\['\"])"
    text = re.sub(rf"(?<!--set )(?<![\w.-])({'|'.join(SETTINGS)}){value}", r"--set \1=\2\3\4", text)
    found = re.sub(rf"(?<![\w.-])({'|'.join(OPTIONS)}){value}", r"--\1 \2\3\4", text)
    return re.sub(r"--(residual|mean|y)_(cap|max)", r"--\1-\2", found)


def worded(summary: Summary, details: str | None = "--full") -> Summary:
    """The summary with titles and notes in the shell's words, wrapped again; cells and formulas stay as they are.

    Parameters
    ----------
    summary : Summary
    details : str or None
        What leads to the rest, in the place of ``summary(full=True)``, if anything does.
    """
    found = Summary()
    found.tables = [copy.copy(table) for table in summary.tables]
    for table in found.tables:
        table.title = "\n".join(map(_title_line, (table.title or "").split("\n")))
    if summary.extra_txt is not None:
        found.add_extra_txt([line for note in notes_of(summary.extra_txt) for line in _note_lines(note, details)])
    return found


def _title_line(line: str) -> str:
    """A line of a title, or the lines it takes now."""
    meant = in_shell(line)
    return line if meant == line else "\n".join(part.center(WIDTH) for part in textwrap.wrap(meant, WIDTH - 4))


def _note_lines(note: str, details: str | None) -> list[str]:
    """The lines of a note; what leads to the rest has one of its own, for it is copied."""
    said = DETAILS.sub("", note)
    indent = "    " if said.startswith("[") else "  "
    lines = textwrap.wrap(in_shell(said), WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]
    return lines if said == note or details is None else [*lines, f"{indent}Details: {details}."]


def as_json(facts: Any) -> str:
    """Facts as JSON that any reader takes: what is missing or infinite is null."""
    return json.dumps(_plain(facts), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table, its index first where that has a name."""
    table = table if table.index.name is None else table.reset_index()
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    value = value.item() if hasattr(value, "item") else value
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value

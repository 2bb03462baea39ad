"""``show``: what a file of released values holds."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from dpstats.cli.shared import Commands, as_json, records, worded
from dpstats.errors import ArgumentError, DataError
from dpstats.evaluation import Check, Evaluation
from dpstats.results.glm_results import GLMResults

_FORMATS = ("text", "markdown", "latex", "html", "json")


def add_command(commands: Commands) -> None:
    """Add ``show``."""
    parser = commands.add_parser("show", help="print a saved fit, check or evaluation; spends nothing")
    parser.add_argument("file", type=Path, help="a file that --output has written")
    parser.add_argument("--full", action="store_true", help="of a fit: mechanism, budget, risk and notes too")
    parser.add_argument("--uncertainty", action="store_true", help="of a fit: each coefficient's error, whole")
    parser.add_argument("--format", choices=_FORMATS, default="text")
    parser.set_defaults(run=_show)


def _show(options: argparse.Namespace) -> None:
    found = _loaded(options.file)
    if options.format == "json":
        facts = {"coefficients": records(found.tidy())} if isinstance(found, GLMResults) else found.to_dict()
        print(as_json(facts), end="")
        return
    if (options.full or options.uncertainty) and not isinstance(found, GLMResults):
        raise ArgumentError(f"--{'full' if options.full else 'uncertainty'} is for a fit")
    if options.uncertainty and isinstance(found, GLMResults):
        if options.full or options.format != "text":
            raise ArgumentError("--uncertainty is a table of its own: leave out --full, and --format but for json")
        print(found.uncertainty())
        return
    summary = found.summary(full=options.full) if isinstance(found, GLMResults) else found.summary()
    print(getattr(worded(summary, "--full" if options.format == "text" else None), f"as_{options.format}")())


def _loaded(path: Path) -> GLMResults | Check | Evaluation:
    """The released values in a file, by the kind that it says it is."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        kind = facts.get("kind", "GLMResults") if isinstance(facts, dict) else ""
    except (OSError, UnicodeError, ValueError) as error:
        raise DataError(f"file: {path} cannot be read as released values; check the path") from error
    found: type[GLMResults | Check | Evaluation] | None
    found = {"GLMResults": GLMResults, "Check": Check, "Evaluation": Evaluation}.get(kind)
    if found is None:
        raise DataError(f"file: {path} is no fit, check or evaluation that --output has written")
    return found.load(path)

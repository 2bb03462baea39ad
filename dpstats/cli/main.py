"""Which command was asked for, and how it ended."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from dpstats._version import __version__
from dpstats.api import logit
from dpstats.arguments import near_miss
from dpstats.cli import commands as releases
from dpstats.cli import ledgers, models, office
from dpstats.cli.shared import shell_argument, silence
from dpstats.datasets import load_adult
from dpstats.errors import (
    ArgumentError,
    BudgetExceeded,
    DPStatsError,
    LedgerError,
    MismatchError,
    ReleaseError,
    UncertifiedError,
)
from dpstats.results.glm_results import GLMResults
from dpstats.wording import shell_wording

STATUS: tuple[tuple[type[DPStatsError], int], ...] = (
    (BudgetExceeded, 3),
    (LedgerError, 4),
    (UncertifiedError, 5),
    (ReleaseError, 6),
    (MismatchError, 6),
    (DPStatsError, 1),
)
"""The exit status of an error, by the first class that it belongs to; argparse itself ends with 2."""

PIPE_CLOSED = 141
"""Where nobody reads on, as a shell has it of what SIGPIPE ended. What was paid for is saved all the same."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, ``sys.argv[1:]`` by default, and return its exit status; errors go to standard error."""
    _open_streams()
    options = _parser().parse_args(arguments)
    try:
        with shell_wording(shell_argument):
            options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read it has seen enough, as head has.
        silence()
        return PIPE_CLOSED
    except OSError as error:  # what else is written or read says it by errors of its own
        print(f"error: standard output cannot be written ({error.strerror})", file=sys.stderr)
        silence()
        return 1
    except DPStatsError as error:
        print(f"error: {_as_typed(error, options)}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return next(status for kind, status in STATUS if isinstance(error, kind))
    return 0


def _open_streams() -> None:
    """Put nothing where a standard stream was closed: the next file to be opened would take its place."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # notes would be printed to standard output
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


NAMES_ARGUMENT = re.compile(r"([a-z_]+)\b(?=:|\s(must|needs|takes|is\sfor)\b)")
"""How an error begins that is about one argument."""


def _as_typed(error: DPStatsError, options: argparse.Namespace) -> str:
    """What an error says, with the option of the command in the place of the argument that Python has for it."""
    message = str(error)
    # Other errors may begin with the name of a column.
    named = NAMES_ARGUMENT.match(message) if isinstance(error, ArgumentError) else None
    if named is None or named[1] not in options.flags:
        return message
    return f"{options.flags[named[1]]}{message[named.end() :]}"


ONE_MODEL = (
    "evaluate takes one FIT: run it once for each model, what they cost on one test set adds up; or compare two by "
    "--against FIT"
)
"""What to say of a second model."""


class Parser(argparse.ArgumentParser):
    """Options are written whole: a beginning that is one option's today may be two options' tomorrow."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **arguments})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does; a command names the option that a misspelt one means before it misses what is required."""
        if self._subparsers is None:
            words = takewhile(lambda word: word != "--", args or ())
            names = (word.partition("=")[0] for word in words if word.startswith("--"))
            for strange in (name for name in names if name not in self._option_string_actions):
                if near := near_miss(strange, self._option_string_actions):
                    self.error(f"unrecognized arguments: {strange}; did you mean {near}?")
        options, unknown = super().parse_known_args(args, namespace)
        if self._subparsers is None:
            options.flags = {one.dest: one.option_strings[0] for one in self._actions if one.option_strings}
        if unknown and self._subparsers is None:
            surplus = self.prog.endswith(" evaluate") and not unknown[0].startswith("-")
            self.error(f"unrecognized arguments: {' '.join(unknown)}{f'; {ONE_MODEL}' if surplus else ''}")
        return options, unknown


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="dpstats" if Path(sys.argv[0]).stem == "dpstats" else "python -m dpstats",
        description="Private regression from the shell. Output holds released values and public facts alone.",
        epilog="Exit status: 0 done; 1 input or output not usable, nothing spent; 2 usage; 3 budget or quota "
        "exceeded, nothing spent; 4 ledger not usable; 5 not certified; 6 charged, in part or whole, and then "
        "the fit stopped, failed or could not be written as asked: the error says what was charged and which file has "
        "the release.",
    )
    parser.add_argument("--version", action="version", version=f"dpstats {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    models.add_commands(commands)
    releases.add_data_commands(commands)
    releases.add_evaluate(commands)
    releases.add_show(commands)
    releases.add_predict(commands)
    ledgers.add_commands(commands)
    office.add_commands(commands)
    commands.add_parser("demo", help="fit private models to bundled data and show them").set_defaults(run=run_demo)
    return parser


FORMULA = "income ~ age + education_num + hours_per_week + sex + marital_status + np.log1p(capital_gain)"
EPS = 1.0


def fit_adult() -> GLMResults:
    """Who earns more than $50,000? A logistic regression on the Adult training rows, pure eps = 1."""
    adult = load_adult()
    return logit(FORMULA, adult.data, EPS, domain=adult.domain)


def run_demo(options: argparse.Namespace | None = None) -> None:
    """Fit the Adult model and print its summary."""
    print("dpstats demo: who earns more than $50,000? (1994 US census)".center(78))
    print("One private fit. Each run has fresh noise.".center(78))
    print()
    print(fit_adult().summary())

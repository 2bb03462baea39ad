"""What several commands have in common: the ledger that pays, and where the output goes."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import secrets
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from dpstats.domain import Domain
from dpstats.domain.codebook import codebook_text
from dpstats.errors import ArgumentError, DomainError, DPStatsError, ReleaseError
from dpstats.ledger import Ledger
from dpstats.ledger.ledger import ledger_path
from dpstats.privacy.guarantee import Adjacency
from dpstats.results.stored import Released, json_text
from dpstats.writing import whole_file

ROOM = 2**20
"""Bytes of released values that a new file must take, before anything is spent."""

Commands = Any
"""What argparse's add_subparsers returns; the class is not public."""

ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")


def add_payment(parser: argparse.ArgumentParser) -> None:
    """The arguments that say who pays."""
    group = parser.add_argument_group("who pays")
    group.add_argument(
        "--ledger", type=ledger_path, help="the file or URL of an existing ledger; charged before rows are read"
    )
    group.add_argument("--analyst", help="the analyst whose quota pays")
    group.add_argument("--purpose", help="the purpose of the call")
    group.add_argument("--label", help="the title of the entry in the ledger")


def add_output(parser: argparse.ArgumentParser, saved: str | None = None) -> None:
    """The arguments that say what is printed, and what is written to a file."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print JSON instead of tables")
    if saved is not None:
        group.add_argument("--output", type=Path, metavar="FILE", help=f"a new file for {saved}")


@contextlib.contextmanager
def payment(options: argparse.Namespace) -> Iterator[Ledger | None]:
    """The ledger that was named, signed, or None with a word of warning; what would not be recorded is refused."""
    given = {name: getattr(options, name) for name in ("analyst", "purpose", "label")}
    if options.ledger is None:
        if named := [name for name, text in given.items() if text is not None]:
            raise ArgumentError(f"--{named[0]} is for the entry of a ledger: name the ledger with --ledger")
        print("note: without --ledger the budget spent on these data is not recorded", file=sys.stderr)
        yield None
        return
    with Ledger.open(options.ledger) as ledger:
        yield ledger.signed(given["analyst"], purpose=given["purpose"], label=given["label"])


@contextlib.contextmanager
def new_file(path: Path | None) -> Iterator[None]:
    """Make sure before anything is spent that what is released has somewhere to go; no file is left after an error.

    A new file at `path` must take it, or standard output.
    """
    if path is None:
        if sys.stdout is None:
            raise ArgumentError("standard output is closed: name a file for the result with --output")
        yield
        return
    try:
        with path.open("xb") as file:
            # A disk that is full takes a name, and no content.
            file.write(bytes(ROOM))
            file.flush()
            os.fsync(file.fileno())
            file.truncate(0)
    except OSError as error:
        if not isinstance(error, FileExistsError):
            path.unlink(missing_ok=True)
        raise ArgumentError(f"--output: {path} cannot be written ({error.strerror}); choose a new file") from error
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def deliver(release: Released, text: Callable[[], str], output: Path | None) -> None:
    """Print what was paid for, and keep it in the file that `new_file` has made: if one of the two fails, not both do.

    ReleaseError then says where the released values are.
    """
    unprinted: BaseException | None = None
    try:
        if sys.stdout is not None:
            sys.stdout.write(text())
            sys.stdout.flush()
    except BaseException as error:
        unprinted = error
    # A reader that has seen enough wants no file but the one that was named.
    enough = isinstance(unprinted, BrokenPipeError)
    place, unwritten = _kept(release, output) if output is not None or not (unprinted is None or enough) else ("", None)
    if isinstance(unprinted, OSError):
        silence()
    if isinstance(unprinted, Exception) and not enough:
        why = unprinted.strerror if isinstance(unprinted, OSError) else type(unprinted).__name__
        raise ReleaseError(f"standard output cannot be written ({why}); {place}") from unprinted
    if unwritten is not None:
        raise ReleaseError(f"{unwritten}; {place}")
    if unprinted is not None:  # the reader has seen enough, or the user has
        raise unprinted


def _kept(release: Released, output: Path | None) -> tuple[str, str | None]:
    """Where the released values are now, and why they are not at `output`, if they should be."""
    reason = None
    if output is not None:
        try:
            release.save(output)
        except DPStatsError as error:
            reason = f"--output: {error.__cause__.strerror}" if isinstance(error.__cause__, OSError) else str(error)
            with contextlib.suppress(OSError):
                output.unlink()
        else:
            return f"the release that was paid for is in {output}", None
    name = f"dpstats-{type(release).__name__.lower()}-{secrets.token_hex(4)}.json"
    for folder in (Path.cwd, Path.home, lambda: Path(tempfile.gettempdir())):
        with contextlib.suppress(DPStatsError, OSError, RuntimeError):
            path = folder() / name
            release.save(path)
            return f"the release that was paid for is in {path}", reason
    print(json_text(release), file=sys.stderr)
    return "no folder could be written, so the release is printed above: save it in a file that ends in .json", reason


def silence() -> None:
    """Let what is still to be printed go nowhere: at its end Python would complain once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_new(text: str, output: Path | None) -> None:
    """To a new file, whole or not at all, or to standard output."""
    with opened_new(output) as write:
        write(text)


@contextlib.contextmanager
def opened_new(output: Path | None) -> Iterator[Callable[[str], object]]:
    """What writes text to a new file, which is there at the end or not at all, or to standard output."""
    if output is None:
        yield sys.stdout.write
        return
    try:
        with whole_file(output, new=True) as file:
            yield lambda text: file.write(text.encode("utf-8"))
    except OSError as error:
        raise ArgumentError(f"--output: {output} cannot be written ({error.strerror}); choose a new file") from error


NAMED = ("delta", "family", "method", "penalty", "alpha", "adjacency", "weights", "offset", "exposure", "subset")
"""Arguments of a fit that options of their names hand on as they are."""

CAPS = {
    "residual_cap": ("gaussian", "the residual, in units of the response, beyond which the loss is linear"),
    "mean_cap": ("poisson", "the largest mean with a logarithmic link"),
    "y_max": ("poisson", "the largest count that is not clipped"),
    "q": ("quantile", "the quantile, 0.5 by default"),
    "h": ("quantile", "the width of the loss's rounded corner, in units of the response"),
}
"""Numbers that belong to a family."""

INFERENCE = {"auto": "auto", "model": "model", "robust": "robust", "yes": True, "no": None}
"""What ``--inference`` takes, and what it stands for."""

OPTIONS = (
    *NAMED,
    *CAPS,
    "eps",
    "domain",
    "ledger",
    "inference",
    "unit",
    "n",
    "check_share",
    "on_mismatch",
    "label",
    "analyst",
)
"""Arguments that have an option of their name; others are given by ``--set``."""


def flag(name: str) -> str:
    """The option of an argument."""
    return f"--{name.replace('_', '-')}"


def shell_argument(name: str, value: object) -> str:
    """How a shell gives an argument: ``--method napp``, ``--set split=rows``; without the value if that is ``...``."""
    if name == "inference":
        value = next((word for word, meant in INFERENCE.items() if meant == value), value)
    if name in ("formula", "data"):
        return name
    text = "" if value is ... else shlex.quote(str(value))
    if name in OPTIONS:
        return f"{flag(name)} {text}".rstrip()
    return f"--set {name}={text or 'VALUE'}"


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


def domain_of(options: argparse.Namespace, ledger: Ledger | None) -> Domain | None:
    """The Domain of the file that was named, else the one that the ledger keeps, if any."""
    if options.domain is not None:
        return read_domain(options.domain)
    return None if ledger is None else ledger.domain


def read_domain(path: Path) -> Domain:
    """The Domain that a file declares, ``.json``, ``.csv``, ``.yaml`` or ``.yml``; DomainError if it declares none."""
    ending = path.suffix.lower()
    if ending not in (".csv", ".json", ".yaml", ".yml"):
        raise DomainError(f"--domain: {path} must end in .yaml, .yml, .csv or .json")
    text = codebook_text(path, "--domain")
    try:
        if ending == ".csv":
            return Domain.from_csv(path)
        return Domain.from_json(text) if ending == ".json" else Domain.from_yaml(path)
    except (ArgumentError, DomainError) as error:
        named = str(error) if str(path) in str(error) else f"{path}: {error}"
        raise type(error)(f"--domain: {named}") from error

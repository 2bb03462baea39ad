"""What dpstats releases, prints and refuses, recorded as text: a restructuring must leave all of it as it is.

    python tests/data/make_corpus.py --check [PART...]     compare with the record, without pytest
    python tests/data/make_corpus.py --record [PART...]    record anew; other cases stay as they are
    python tests/data/make_corpus.py --show PART...        print what is to be recorded

A part is a group or a piece of a case's name: ``families`` or ``penalties/fit(MODEL, penalty="scad"``. The cases are
the calls in corpus_cases.txt, public ones alone, written with the names of `corpus_calls`. The record of a case is
lines of text (`corpus_text`, which says how they are compared); times, versions, identities and the folder of a case
are masked. ``--exact`` compares all bits, for the machine that has recorded them: there no version of the package may
differ from another but by intent.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gzip
import itertools
import json
import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import corpus_calls
import numpy as np
import scipy
from corpus_text import alike, attempt, digest, lines
from scipy import linalg, optimize, special

import dpstats as dp

HERE = Path(__file__).parent
HOME = HERE / "corpus_machine.txt"


PROCESSOR = re.compile(r"^(?:cpu family|model|model name|stepping|cache size|flags)\s*:.*$", re.MULTILINE)

OWN = "! "
"""Begins calls that go by the last bits of the machine, and are compared on one like that of the record alone."""


def groups(text: str) -> dict[str, list[str]]:
    """The calls of the table by group, with all that ``<<a|b>>`` stands for."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("[") and line[1:-1].isidentifier():
            found[line[1:-1]] = calls = []
        elif line and not line.startswith("#"):
            calls += [one for one in written_out(line) if one not in calls]
    return found


def written_out(line: str) -> list[str]:
    """All calls that a line of the table stands for."""
    places = [re.split(r"(?<!\\)\|", place) for place in re.findall(r"<<(.*?)>>", line)]
    rest = re.split(r"<<.*?>>", line)
    found = []
    for chosen in itertools.product(*places):
        whole = "".join(itertools.chain.from_iterable(itertools.zip_longest(rest, chosen, fillvalue="")))
        found.append(whole.replace("\\|", "|").replace(", )", ")").replace("(, ", "("))
    return found


GROUPS = groups((HERE / "corpus_cases.txt").read_text())
"""A group is a file of records, and a test."""

RAW = "no error of dpstats"
"""How a case is recorded that ends in another error: such ones are faults, of the case or of the package."""

MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?(\+\d\d:?\d\d|Z| UTC)?"), "<time>"),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "<date>"),
    (re.compile(re.escape(dp.__version__)), "<version>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<identity>"),
    (re.compile(r"(?<!#)\b([0-9a-f]{64})\b"), r"#\1"),
    (re.compile(r" at 0x[0-9a-f]+"), ""),
)


def masked(text: str, folder: str) -> str:
    """Text without what differs from run to run."""
    text = text.replace(os.path.realpath(folder), "<folder>").replace(folder, "<folder>")
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return text


class Heard(logging.Handler):
    """What is logged while a case runs."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(f"{record.levelname} {record.getMessage()}")


def record(call: str) -> list[str]:
    """The lines of a case, run in a folder of its own: its result or error, what it logs, and its warnings."""
    heard, logger = Heard(), logging.getLogger("dpstats")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(contextlib.chdir(folder))
        warned = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.callback(logger.removeHandler, heard)
        logger.addHandler(heard)
        try:
            found = list(lines(attempt(lambda: eval(call.removeprefix(OWN), vars(corpus_calls))), ""))
        except Exception as error:
            found = [f"{RAW}: {type(error).__name__} {error}"]
        said = {f"log: {one}" for one in heard.said}
        said |= {f"warning: {type(one.message).__name__} {one.message}" for one in warned}
        return [masked(line, folder) for line in (*found, *sorted(said))]


def differences(before: list[str], now: list[str], exact: bool = False) -> list[str]:
    """Lines that differ, as a diff has them."""
    found = []
    for change, i, j, k, m in difflib.SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if change == "equal":
            continue
        old, new = before[i:j], now[k:m]
        if exact or len(old) != len(new) or not all(map(alike, old, new)):
            found += [*(f"- {line}" for line in old), *(f"+ {line}" for line in new)]
    return found


def machine() -> str:
    """What this machine's arithmetic makes of some numbers: two with the same are likely to have the same last bits.

    The processor and its caches, by which libraries choose how they sum, belong to it: machines that agreed in the
    numbers alone have differed in a search for the least variance.
    """
    x = np.linspace(-1, 1, 360_000).reshape(600, 600) + np.eye(600)
    close = 1 / (np.arange(12)[:, None] + np.arange(12) + 1)  # Hilbert's matrix: the last bits are all that is left

    def valley(point: np.ndarray) -> float:
        return float(np.sum(100 * (point[1:] - point[:-1] ** 2) ** 2 + (close[1] @ (1 - point)) ** 2))

    found = [np.exp(x), np.log(2 + x), np.power(2 + x, 0.3), special.ndtr(x), x @ x[0], x @ x.T]
    found += [*np.linalg.eigh(x @ x.T), *np.linalg.svd(close), np.linalg.solve(close, close[0])]
    found += [linalg.cholesky(x @ x.T), optimize.minimize(valley, np.zeros(12), method="L-BFGS-B").x]
    processor = Path("/proc/cpuinfo")
    about = sorted(set(PROCESSOR.findall(processor.read_text()))) if processor.exists() else []
    return digest("".join([np.__version__, scipy.__version__, *about, *(one.tobytes().hex() for one in found)]))


@cache
def at_home() -> bool:
    """Whether this machine is like the one of the record."""
    return HOME.exists() and HOME.read_text().strip() == machine()


def path_of(group: str) -> Path:
    return HERE / f"corpus_{group}.json.gz"


def recorded(group: str) -> dict[str, list[str]]:
    """What is on record of a group, by case; nothing if there is no record."""
    path = path_of(group)
    return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else {}


def keep(group: str, cases: Mapping[str, list[str]]) -> None:
    """Write the record of a group: the same bytes for the same lines."""
    text = json.dumps(cases, indent=0, ensure_ascii=False)
    path_of(group).write_bytes(gzip.compress(text.encode(), mtime=0))


def compare(group: str, exact: bool = False, chosen: Callable[[str], bool] = lambda name: True) -> dict[str, list[str]]:
    """The differences of a group's cases between the record and now, by case."""
    before, found = recorded(group), {}
    for call in filter(chosen, [*GROUPS[group], *(call for call in before if call not in GROUPS[group])]):
        if call.startswith(OWN) and not (exact or at_home()):
            continue
        if call not in before or call not in GROUPS[group]:
            found[call] = ["not on record: --record it" if call in GROUPS[group] else "on record, and no case any more"]
        elif difference := differences(before[call], record(call), exact):
            found[call] = difference
    return found


def report(group: str, found: Mapping[str, list[str]], most: int = 12, wide: int = 300) -> str:
    """Differences to be read: each case by name, with the first lines that differ."""
    said = [f"{group}: {len(found)} of {len(GROUPS[group])} cases differ"]
    for call, difference in found.items():
        said += [f"  {group}/{call}", *(f"    {line[:wide]}" for line in difference[:most])]
        said += [f"    ... {len(difference) - most} more lines"] * (len(difference) > most)
    return "\n".join(said)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python tests/data/make_corpus.py", description=(__doc__ or "").splitlines()[0]
    )
    for action in ("check", "record", "show"):
        parser.add_argument(f"--{action}", nargs="*", metavar="PART", help="groups, or pieces of group/call; or all")
    parser.add_argument("--exact", action="store_true", help="compare rough numbers bit for bit too")
    options = parser.parse_args(arguments)
    asked = [part for parts in (options.check, options.record, options.show) for part in parts or ()]
    differing = 0
    for group, calls in GROUPS.items():

        def chosen(call: str, group: str = group) -> bool:
            return not asked or group in asked or any(part in f"{group}/{call}" for part in asked if part not in GROUPS)

        if not any(map(chosen, calls)):
            continue
        if options.record is not None:
            before, now = recorded(group), {call: record(call) for call in filter(chosen, calls)}
            keep(group, {call: now.get(call) or before[call] for call in calls if call in now or call in before})
            print(f"{group}: {len(now)} cases, {path_of(group).stat().st_size:,} bytes", flush=True)
            raw = [f"  {call}: {text[0][:300]}" for call, text in now.items() if text and text[0].startswith(RAW)]
            print(*raw, sep="\n", end="\n" if raw else "")
        elif options.show is not None:
            for call in filter(chosen, calls):
                print(f"== {group}/{call}", *record(call), sep="\n")
        else:
            found = compare(group, options.exact, chosen)
            differing += len(found)
            print(report(group, found) if found else f"{group}: as recorded", flush=True)
    if options.record is not None and not asked:
        HOME.write_text(machine() + "\n")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())

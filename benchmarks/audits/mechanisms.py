"""Audit the planted errors and every certified mechanism at full length, and write the tables of docs/audits.md.

``python -m benchmarks.audits.mechanisms [planted] [certified] [frames]`` runs all parts unless told which.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from dpstats.audit import audit

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "audits.md"
SEED = 2026
CONFIDENCE = 0.999
RUNS = 50_000  # 100,000 draws on both data sets together
PILOT_RUNS = 200
WORKERS = int(os.environ.get("AUDIT_WORKERS", os.cpu_count() or 1))


def planted_table() -> Iterable[list[str]]:
    """Each planted error beside its sound counterpart."""
    yield ["planted error", "claimed eps", "delta", "runs", "eps at least: sound", "planted", "caught"]
    for plant in import_module("planted").PLANTS:
        sound, planted = (
            audit(
                mechanism,
                plant.data,
                plant.neighbour,
                eps=plant.eps,
                delta=plant.delta,
                runs=plant.runs,
                confidence=CONFIDENCE,
                seed=SEED,
                vectorized=plant.vectorized,
            )
            for mechanism in (plant.sound, plant.planted)
        )
        caught = {(True, False): "yes", (True, True): "no"}.get((sound.passed, planted.passed), "SOUND ONE REFUTED")
        claim = [f"{plant.eps:g}", f"{plant.delta:g}", f"{plant.runs:,}"]
        yield [plant.name, *claim, f"{sound.eps_lower:.3f}", f"{planted.eps_lower:.3f}", caught]


def certified_table() -> Iterable[list[str]]:
    """Each certified mechanism at the pair that a pilot over all worst cases finds most telling."""
    yield [
        "mechanism",
        "adjacency",
        "claimed eps",
        "delta",
        "runs",
        "pair, of how many",
        "eps at least",
        "hockey-stick",
        "refuted",
    ]
    for case in import_module("certified").CASES:
        release, claim = case.mechanism(), case.claim
        pilots = [
            (audit(release, *pair[1:], **claim, runs=PILOT_RUNS, confidence=0.5, seed=SEED).eps_lower, pair.name)
            for pair in case.pairs
        ]
        worst = next(pair for pair in case.pairs if pair.name == max(pilots)[1])
        result = audit(release, *worst[1:], **claim, runs=RUNS, confidence=CONFIDENCE, seed=SEED + 1, n_jobs=WORKERS)
        found = [f"{result.eps_lower:.3f}", f"{result.hockey_stick.lower:.3g}", "no" if result.passed else "REFUTED"]
        stated = [case.name, case.adjacency, f"{result.eps:.4g}", f"{result.delta:g}", f"{RUNS:,}"]
        yield [*stated, f"{worst.name} (of {len(case.pairs)})", *found]


def frames_table() -> Iterable[list[str]]:
    """Calls on data frames, each beside itself with a planted error."""
    yield ["call", "adjacency", "planted", "claimed eps", "runs", "eps at least: sound", "planted", "caught"]
    for call in import_module("frames").CALLS:
        sound, planted = (
            audit(mechanism, *call.pair[1:], **call.claim, runs=call.runs, confidence=CONFIDENCE, seed=SEED)
            for mechanism in (call.mechanism(), call.wrong())
        )
        caught = {(True, False): "yes", (True, True): "no"}.get((sound.passed, planted.passed), "SOUND ONE REFUTED")
        stated = [call.name, call.adjacency, call.planted, f"{sound.eps:.4g}", f"{call.runs:,}"]
        yield [*stated, f"{sound.eps_lower:.3f}", f"{planted.eps_lower:.3f}", caught]


def write(name: str, rows: Iterable[list[str]]) -> None:
    """Print the rows as they come and keep the table between the page's markers of that name up to date."""
    start, lines = time.monotonic(), []
    for row in rows:
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
        minutes = (time.monotonic() - start) / 60
        ruled = [lines[0], "|" + "---|" * len(row), *lines[1:]]
        put(name, "\n".join([*ruled, "", f"Confidence {CONFIDENCE:g}, seed {SEED}; {minutes:.0f} minutes."]))


def put(name: str, table: str) -> None:
    """Replace what stands between the markers."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    page, found = marked.subn(lambda match: match[1] + table + "\n" + match[2], PAGE.read_text())
    if found != 1:
        raise SystemExit(f"{PAGE} needs one <!-- {name} --> ... <!-- end -->")
    PAGE.write_text(page)


TABLES: dict[str, Callable[[], Iterable[list[str]]]] = {
    "planted": planted_table,
    "certified": certified_table,
    "frames": frames_table,
}


def main() -> None:
    """Run the parts named on the command line, or all."""
    sys.path.insert(0, str(ROOT / "tests" / "audit"))
    for name in sys.argv[1:] or TABLES:
        write(name, TABLES[name]())


if __name__ == "__main__":
    main()

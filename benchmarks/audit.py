"""Audit the planted errors and every certified mechanism at full length, and write the tables of docs/audits.md.

``python -m benchmarks.audit [planted] [certified]`` runs both parts unless told which.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from dpstats.audit import audit

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "audits.md"
SEED = 2026
CONFIDENCE = 0.999


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
    """Each certified mechanism at its worst pair; the pairs share one probability of a false alarm."""
    yield ["mechanism", "adjacency", "claimed eps", "delta", "pairs", "runs", "eps at least", "worst pair", "refuted"]
    for case in import_module("certified").CASES:
        pairs = list(case.pairs())
        confidence = 1 - (1 - CONFIDENCE) / len(pairs)
        results = {
            pair.name: audit(
                case.mechanism(),
                pair.data,
                pair.neighbour,
                eps=case.eps,
                delta=case.delta,
                runs=case.runs,
                confidence=confidence,
                seed=SEED,
            )
            for pair in pairs
        }
        worst = max(results, key=lambda name: results[name].eps_lower)
        refuted = sum(not result.passed for result in results.values())
        claim = [case.adjacency, f"{case.eps:g}", f"{case.delta:g}", str(len(pairs)), f"{case.runs:,}"]
        yield [
            case.name,
            *claim,
            f"{results[worst].eps_lower:.3f}",
            worst,
            "none" if not refuted else f"{refuted} REFUTED",
        ]


def write(name: str, rows: Iterable[list[str]]) -> None:
    """Print the rows as they come and put them between the page's markers of that name."""
    start, lines = time.monotonic(), []
    for row in rows:
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    lines.insert(1, "|" + "---|" * lines[0].count(" | ") + "---|")
    minutes = (time.monotonic() - start) / 60
    table = "\n".join([*lines, "", f"Confidence {CONFIDENCE:g}, seed {SEED}; {minutes:.1f} minutes on one core."])
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    page, found = marked.subn(lambda match: match[1] + table + "\n" + match[2], PAGE.read_text())
    if found != 1:
        raise SystemExit(f"{PAGE} needs one <!-- {name} --> ... <!-- end -->")
    PAGE.write_text(page)


TABLES: dict[str, Callable[[], Iterable[list[str]]]] = {"planted": planted_table, "certified": certified_table}


def main() -> None:
    """Run the parts named on the command line, or all."""
    sys.path.insert(0, str(ROOT / "tests" / "audit"))
    for name in sys.argv[1:] or TABLES:
        write(name, TABLES[name]())


if __name__ == "__main__":
    main()

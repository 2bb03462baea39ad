"""Is the first table that a call prints as full as it can be? ``python -m benchmarks.inference.first_table``.

``... measure FILE [splits [names]]`` appends a line of JSON a fit to FILE and skips those that it holds; ``... write
FILE`` prints the table of FILE into docs/benchmarks_inference.md. The data sets are those that no constant of the rule
was chosen on (`benchmarks.inference.adaptive.REPORTING`): rows are drawn with replacement, and a fit by default is
compared with the better of ``inference="auto"`` and ``True``, which count no rows and buy no ranges.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.inference.adaptive import BUDGETS, REPORTING, SEED, Optimum, deviance, population, responses

ROWS = (1_000, 5_000, 15_000, 50_000)
SPLITS = 2
BEFORE = {"check_share": 0, "ranges": "declared"}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "auto": {"inference": "auto", **BEFORE},
    "True": {"inference": True, **BEFORE},
}
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks_inference.md"
FIRST, LAST = "<!-- first_table -->\n", "<!-- end of first_table -->"
FEW = 0.2
"""Cells whose better setting leaves fewer of the coefficients an interval are not judged by their share."""
LEAST_PART, MOST_LOSS = 0.95, 1.05


@cache
def drawn(name: str, rows: int, split: int) -> pd.DataFrame:
    """Rows of a data set."""
    frame = population(name).frame
    random = np.random.default_rng([SEED, rows, split])
    return frame.iloc[random.integers(0, len(frame), rows)].reset_index(drop=True)


def one(name: str, rows: int, eps: float, setting: str, split: int) -> dict[str, Any]:
    """What one fit shows: how many coefficients have an interval, how many of these cover, and the loss."""
    found, seed = population(name), int(np.random.default_rng([SEED, rows, split, 1]).integers(2**62))
    call = {"family": found.family, "domain": found.domain, "seed": seed, "allow_uncertified": True}
    fit = dp.glm(found.formula, drawn(name, rows, split), eps, **call, **SETTINGS[setting])
    endog, shown, covered = responses(name), 0, 0
    if fit.has_errors and (bounded := np.isfinite(fit.bse).to_numpy()).any():
        low, high = fit.conf_int().to_numpy(dtype=float).T
        # Of the rows that the fit keeps, by the loss that it minimises.
        truth = Optimum(fit.plan, found.frame).params
        shown, covered = int(bounded.sum()), int((bounded & (low <= truth) & (truth <= high)).sum())
    loss = deviance(found.family, endog, np.asarray(fit.predict(found.frame)))
    null = deviance(found.family, endog, np.full(len(endog), endog.mean()))
    return {"columns": len(fit.params), "shown": shown, "covered": covered, "loss": loss / null}


def measure(path: Path, splits: int, names: list[str]) -> None:
    """Append what `path` does not hold yet, a split of every cell in turn."""
    held = {tuple(json.loads(line)["cell"]) for line in path.read_text().splitlines()} if path.exists() else set()
    with path.open("a") as file:
        for split in range(splits):
            for name in names or REPORTING:
                for rows in ROWS:
                    for eps in BUDGETS:
                        for setting in SETTINGS:
                            cell = (name, rows, eps, setting, split)
                            if cell not in held:
                                print(json.dumps({"cell": cell, **one(*cell)}), file=file, flush=True)


def cells(path: Path) -> pd.DataFrame:
    """Means of each data set, number of rows and eps: a column of shares and of losses for each setting."""
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    names = ["data", "rows", "eps", "setting", "split"]
    found = pd.DataFrame([dict(zip(names, line.pop("cell"), strict=True)) | line for line in lines])
    found["share"] = found["shown"] / found["columns"]
    each = found.groupby(names[:4])[["share", "loss", "shown", "covered"]].agg(
        {"share": "mean", "loss": "mean", "shown": "sum", "covered": "sum"}
    )
    return each.unstack("setting").fillna(0.0)


def short(share: float) -> str:
    """Two decimals, without those that say nothing."""
    return f"{share:.2f}".strip("0").rstrip(".") or "0"


def tables(path: Path) -> str:
    """Shares by data set, and what is reached over all of them, in Markdown."""
    found = cells(path)
    share, loss = found["share"], found["loss"]
    better, least = share[["auto", "True"]].max(axis=1), loss[["auto", "True"]].min(axis=1)
    judged, ratio = better >= FEW, loss["default"] / least
    part = (share["default"] / better)[judged]
    shown, covered = found["shown"].sum(), found["covered"].sum()
    every = json.loads(path.read_text().splitlines()[-1])["cell"][-1] + 1
    met = {
        setting: (~judged | (share[setting] >= LEAST_PART * better)) & (loss[setting] <= MOST_LOSS * least)
        for setting in SETTINGS
    }
    possible = met["auto"] | met["True"]
    # A setting whose errors cost predictions much is no better one, however many intervals it shows.
    affordable = loss.le(MOST_LOSS * loss.min(axis=1), axis=0)
    fuller = share.where(affordable)[["auto", "True"]].max(axis=1)
    full = fuller >= FEW
    as_full = int((share["default"] >= LEAST_PART * fuller)[full].sum())
    text = [
        "| data | eps .1 | .3 | 1 | 3 | loss over the better: median, most |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(found.index.get_level_values("data")):
        entries = [
            ", ".join(f"{short(share['default'][name, n, eps])} ({short(better[name, n, eps])})" for n in ROWS)
            for eps in BUDGETS
        ]
        own = ratio.xs(name, level="data")
        text.append(f"| {name} | {' | '.join(entries)} | {own.median():.3f}, {own.max():.2f} |")
    rate = {
        setting: f"{covered[setting] / max(shown[setting], 1):.3f} of {shown[setting]:,.0f}" for setting in SETTINGS
    }
    reached, cheap = int((part >= LEAST_PART).sum()), int((ratio <= MOST_LOSS).sum())
    text += [
        "",
        f"* {every} fits a cell, {len(found)} cells. Where the better setting has {FEW:g} or more, the default has",
        f"  at least {LEAST_PART:g} of its share in {reached} of {int(judged.sum())} cells; the means are",
        f"  {share['default'][judged].mean():.2f} and {better[judged].mean():.2f}.",
        f"* Judged by those settings alone whose loss is at most {MOST_LOSS:g} of the least of the three:",
        f"  in {as_full} of {int(full.sum())} cells; the means are {share['default'][full].mean():.2f} and",
        f"  {fuller[full].mean():.2f}.",
        f"* Its loss is at most {MOST_LOSS:g} of the better one in {cheap} of {len(ratio)} cells; the median ratio is",
        f"  {ratio.median():.3f}, the greatest {ratio.max():.2f}.",
        f"* Both are met in {int(met['default'].sum())} cells, and in {int((met['default'] & possible).sum())} of the",
        f'  {int(possible.sum())} in which "auto" or True meets both.',
        f"* Of the intervals shown by default {rate['default']} cover the optimum of the rows that the fit keeps;",
        f'  with "auto" {rate["auto"]}, with True {rate["True"]}.',
        "",
    ]
    return "\n".join(text)


def write(path: Path) -> None:
    """Print the table into the page."""
    page = PAGE.read_text()
    before, rest = page.split(FIRST)
    PAGE.write_text(f"{before}{FIRST}\n{tables(path)}\n{LAST}{rest.split(LAST)[1]}")


def main(arguments: list[str]) -> None:
    """Measure, or write the table."""
    what, path, *rest = arguments
    if what == "measure":
        measure(Path(path), int(rest[0]) if rest else SPLITS, rest[1:])
    elif what == "show":
        print(tables(Path(path)))
    else:
        write(Path(path))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Twelve ways to declare a wrong Domain: ``python -m benchmarks.audits.wrong_domains [fits [draws]]``.

Rows of CPS1988 are drawn with replacement, so many that rows times eps are 1,000 or 3,000. Of each way the table has
the share of calls that are refused before anything is spent, stopped by the count of rows, and named by the summary of
a fit that was made; and the eps that those which made no fit have spent, over that of the call. The noise of the counts
is drawn by itself with the right Domain: how often it stops a fit, or names a column.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.prediction import cps1988
from dpstats.errors import DPStatsError, MismatchError
from dpstats.plan.row_counts import RowCounts

SEED = 20_261_123
FITS, DRAWS = 100, 20_000
SIZES = ((1_000, 1.0), (3_000, 1.0))
FORMULA = cps1988.FORMULA.replace("ethnicity", "ethnicity + share")


class Wrong(NamedTuple):
    """What is declared wrongly, or what the rows have in the place of what was declared."""

    declared: Mapping[str, Any]
    cells: Callable[[pd.DataFrame], pd.DataFrame] = lambda rows: rows


def coded(rows: pd.DataFrame) -> pd.DataFrame:
    """Codes 1 and 2 for no and yes."""
    return rows.assign(smsa=np.where(rows["smsa"] == "yes", 2, 1))


def unknown(rows: pd.DataFrame) -> pd.DataFrame:
    """999 in three of ten rows."""
    return rows.assign(education=np.where(np.arange(len(rows)) % 10 < 3, 999, rows["education"]))


WAYS: dict[str, Wrong] = {
    "a common level misspelt": Wrong({"ethnicity": ["caucasian", "afam"]}),
    "a rare level misspelt (9 % of rows)": Wrong({"parttime": ["no", "y"]}),
    "levels in capitals": Wrong({"smsa": ["No", "Yes"]}),
    "levels of two columns exchanged": Wrong({"ethnicity": ["no", "yes"], "smsa": ["cauc", "afam"]}),
    "a range ten times too narrow": Wrong({"experience": (-6, 1)}),
    "a range of two values": Wrong({"education": (12, 13)}),
    "the response in thousands": Wrong({"wage": (0.05, 20)}),
    "the response by year": Wrong({"wage": (2_600, 1_000_000)}),
    "percent declared as shares": Wrong({}, lambda rows: rows.assign(share=100 * rows["share"])),
    "codes 1 and 2 declared as 0 and 1": Wrong({"smsa": (0, 1)}, coded),
    "999 for missing numbers (30 % of rows)": Wrong({}, unknown),
    "dates as text": Wrong(
        {}, lambda rows: rows.assign(experience=[f"19{70 + n % 30}-05-01" for n in range(len(rows))])
    ),
}


def drawn(size: int, seed: int) -> pd.DataFrame:
    """Rows of CPS1988, with a share between 0 and 1."""
    random, frame = np.random.default_rng([SEED, seed]), cps1988.load()
    rows = frame.iloc[random.integers(0, len(frame), size)].reset_index(drop=True)
    return rows.assign(share=random.uniform(0, 1, size))


def outcome(rows: pd.DataFrame, eps: float, domain: dp.Domain, seed: int) -> str:
    """What becomes of a call."""
    try:
        fit = dp.ols(FORMULA, rows, eps, domain=domain, seed=seed, allow_uncertified=True)
    except MismatchError:
        return "stopped"
    except DPStatsError:
        return "refused"
    return "named" if fit.plan.counts.findings() else "missed"


def right(counts: RowCounts, size: int, draws: int) -> tuple[float, float]:
    """How often noise stops a fit, and names a column, where no row is at fault."""
    random = np.random.default_rng(SEED)
    tails = [-math.expm1(-eps) for eps in (counts.rows_eps, counts.fault_eps / counts.fault_sensitivity)]
    # The difference of two geometric numbers has the law of the counts' noise.
    rows, faults = (
        random.geometric(tail, (draws, many)) - random.geometric(tail, (draws, many))
        for tail, many in zip(tails, (1, len(counts.faults)), strict=True)
    )
    found = [counts.released(size + int(of[0]), own.tolist()) for of, own in zip(rows, faults, strict=True)]
    return tuple(float(np.mean([bool(of(one)) for one in found])) for of in (RowCounts.mismatch, RowCounts.findings))


def main() -> None:
    """Print the table."""
    fits = int(sys.argv[1]) if len(sys.argv) > 1 else FITS
    draws = int(sys.argv[2]) if len(sys.argv) > 2 else DRAWS
    known = cps1988.DOMAIN.with_(share=(0, 1))
    for size, eps in SIZES:
        counts = dp.plan(FORMULA, known, eps).counts
        stopped, named = right(counts, size, draws)
        cell = f"n = {size:,}, eps = {eps:g}"
        print(cell, "the right Domain", f"stopped {stopped:.5f}, named {named:.4f} of {draws:,}", sep=" | ", flush=True)
        for name, wrong in WAYS.items():
            domain = known.with_(wrong.declared)
            found = Counter(outcome(wrong.cells(drawn(size, seed)), eps, domain, seed) for seed in range(fits))
            shares = [f"{found[what] / fits:.2f}" for what in ("refused", "stopped", "named", "missed")]
            spent = counts.eps / eps if found["stopped"] else 0.0
            print(cell, name, *shares, f"{spent:.3f}", sep=" | ", flush=True)


if __name__ == "__main__":
    main()

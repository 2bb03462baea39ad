"""How often a fit stops, or names the column, where the Domain does not suit the rows: ``python -m
benchmarks.methods.wrong_domains [fits]``.

Rows of the Adult census at n eps = 1,000 (2,000 rows, eps .5), drawn anew for each fit, ten ways of declaring them
wrongly, and the right Domain.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp
from dpstats.errors import MismatchError

ROWS, EPS, SHARE = 2_000, 0.5, 0.03
LOGIT = "income ~ age + education_num + hours_per_week + sex + workclass"
WAYS: dict[str, dict[str, Any]] = {
    "right": {},
    "every level in capitals": {"sex": ["FEMALE", "MALE"]},
    "a common level misspelt": {"sex": ["Female", "Man"]},
    "a rarer level misspelt": {"sex": ["Woman", "Male"]},
    "range ten times too narrow": {"age": (17, 24)},
    "range in another unit (months)": {"age": (200, 1100)},
    "range a third too narrow": {"hours_per_week": (0, 35)},
    "share for per cent": {"hours_per_week": (0, 1)},
    "response misspelt": {"income": ["<=50k", ">50k"]},
    "codes for levels": {"workclass": [1, 2, 3, 4, 5, 6, 7, 8]},
    "dates as text": {"when": (0, 100)},
}


def outcome(data: pd.DataFrame, changed: dict[str, Any], seed: int) -> str:
    """ "stopped", "named" or "silent"."""
    domain = dp.Domain({**dp.datasets.load_adult().domain, **changed})
    formula = LOGIT + (" + when" if "when" in changed else "")
    try:
        fit = dp.logit(formula, data, EPS, domain=domain, inference=None, check_share=SHARE, seed=seed)
    except MismatchError:
        return "stopped"
    assert fit.plan.counts is not None
    return "named" if fit.plan.counts.findings() else "silent"


def main() -> None:
    fits = int(sys.argv[1]) if sys.argv[1:] else 100
    adult = dp.datasets.load_adult().data
    adult = adult.assign(when=np.array(["2020-01-02"] * len(adult), dtype=object))
    lines = {}
    for name, changed in WAYS.items():
        found = [
            outcome(adult.sample(ROWS, random_state=seed).reset_index(drop=True), changed, seed) for seed in range(fits)
        ]
        lines[name] = [found.count(word) for word in ("stopped", "named", "silent")]
    table = pd.DataFrame(lines, index=["stopped", "named", "silent"]).T
    print(f"{ROWS:,} rows, eps {EPS:g}, {SHARE * EPS:g} of it for the count; {fits} fits each\n\n{table.to_string()}")


if __name__ == "__main__":
    main()

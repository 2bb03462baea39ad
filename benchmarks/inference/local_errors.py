"""Standard errors of fits to reports, beside their forecast: ``python -m benchmarks.inference.local_errors [runs]``.

The records, specifications and description of docs/guide/local.md. For each coefficient, `local_eps` and number of
reports: the forecast by `typical=`, that by `like=` (public records with the response), and of the fits to `runs`
collections the median standard error, 0.1 and 0.9 quantiles, and the share that have one. The noise of the reports is
added to their sum, as normal noise of its variance, rounded.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

import dpstats as dp
from dpstats.data import as_table
from dpstats.data.passes import concatenate
from dpstats.local.compile import local_design
from dpstats.local.contributor import statistics
from dpstats.local.transport import Total

SEED = 7
DOMAIN = {"hours": (0, 80), "urban": ["no", "yes"], "income": (0, 100)}
KNOWN = {"hours": (35, 14), "urban": {"yes": 0.5}, "income": (35, 12)}
EPS, COUNTS = (8.0, 16.0, 30.0), (5000, 20_000, 80_000)


def records(count: int, random: np.random.Generator) -> pd.DataFrame:
    """Those of the guide."""
    hours, urban = random.uniform(10, 60, count), random.choice(["no", "yes"], count)
    income = 10 + 0.6 * hours + 8 * (urban == "yes") + random.normal(0, 8, count)
    return pd.DataFrame({"hours": hours, "urban": urban, "income": income})


def errors(spec: dp.local.Spec, count: int, random: np.random.Generator) -> pd.Series:
    """The standard errors of a fit to `count` reports."""
    design, p = local_design(spec.formula, spec.domain, spec.family), len(spec.names)
    block = concatenate(design.rows(as_table(records(count, random))).collect())
    exact = statistics(block.exog, block.endog, spec).sum(axis=0) / np.repeat(spec.units, [p, spec.size - p])
    noise = spec.lattice.scale * np.sqrt(count) * random.standard_normal(spec.size)
    fit = dp.local.fit(Total(spec.hash, np.rint(exact + noise).astype(np.int64), count), spec)
    return fit.uncertainty()["std_error"]


def table(runs: int) -> pd.DataFrame:
    """A line for each coefficient, local_eps and number of reports."""
    lines = []
    for eps in EPS:
        spec = dp.local.Spec(DOMAIN, "income ~ hours + urban", local_eps=eps, delta=1e-6, n=min(COUNTS))
        for count in COUNTS:
            random = np.random.default_rng([SEED, int(eps), count])
            found = pd.DataFrame([errors(spec, count, random) for _ in range(runs)])
            public = records(4000, random)
            by_typical, by_like = (
                dp.local.standard_errors(spec, count, **facts)["std_error"]
                for facts in ({"typical": KNOWN}, {"like": public})
            )
            for name in spec.names:
                low, middle, high = np.quantile(found[name], [0.1, 0.5, 0.9], method="nearest")
                facts = {"coefficient": name, "local_eps": eps, "reports": count, "typical": by_typical[name]}
                facts |= {"like": by_like[name], "median": middle, "low": low, "high": high}
                with np.errstate(invalid="ignore"):
                    facts |= {"over typical": middle / by_typical[name], "over like": middle / by_like[name]}
                lines.append({**facts, "identified": float(np.isfinite(found[name]).mean())})
    return pd.DataFrame(lines)


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(table(runs).to_string(index=False, float_format="{:.3g}".format))


if __name__ == "__main__":
    main()

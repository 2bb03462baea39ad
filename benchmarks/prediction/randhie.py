"""RAND health insurance: visits to a doctor, Poisson deviance explained.

``python -m benchmarks.prediction.randhie [draws]``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

import dpstats as dp
from benchmarks.shared.splits import DRAWS, Rows, Score, score

FORMULA = "mdvis ~ lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp"

Fit = Callable[[pd.DataFrame], Callable[[pd.DataFrame], np.ndarray]]


def private(eps: float, y_max: float, **options: Any) -> Fit:
    """dpstats with a declared range of 0 to `y_max` visits, and nothing else set but the options."""
    domain = dp.Domain({**dp.datasets.load_randhie().domain, "mdvis": (0, y_max)})
    return lambda frame: dp.poisson(FORMULA, frame, eps, domain=domain, **options).predict


def maximum_likelihood(frame: pd.DataFrame) -> Callable[[pd.DataFrame], np.ndarray]:
    """statsmodels."""
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    return smf.glm(FORMULA, frame, family=sm.families.Poisson()).fit().predict


def deviance(counts: np.ndarray, means: np.ndarray | float) -> float:
    """Twice the log-likelihood lost by `means` against the counts themselves."""
    return float(2 * np.sum(special.xlogy(counts, counts / means) - (counts - means)))


def explained(fit: Fit, draws: int = DRAWS) -> Score:
    """Share of the deviance explained on the test rows of each split; counts are not clipped there."""
    frame = dp.datasets.load_randhie().data
    counts = frame["mdvis"].to_numpy(float)

    def share(training: Rows, test: Rows) -> float:
        predict = fit(frame.iloc[training])
        with warnings.catch_warnings():  # rows beyond a narrowed range count too
            warnings.filterwarnings("ignore", message="newdata: .* beyond which the fit left rows out")
            means = np.asarray(predict(frame.iloc[test]))
        return 1 - deviance(counts[test], means) / deviance(counts[test], float(np.mean(counts[test])))

    return score(len(frame), share, draws)


def table(draws: int = DRAWS) -> pd.DataFrame:
    """Two declared ranges: the data set's own, and a judgement that clips one count in a hundred or so."""
    lines = [
        (f"dpstats, at most {y_max:g} visits", f"{eps:g}", str(explained(private(eps, y_max), draws)))
        for eps in (1.0, 0.3)
        for y_max in (52.0, 20.0)
    ]
    alone = "dpstats, at most 52 visits, inference=None"
    lines += [(alone, f"{eps:g}", str(explained(private(eps, 52.0, inference=None), draws))) for eps in (1.0, 0.3)]
    lines.append(("statsmodels", "not private", str(explained(maximum_likelihood, draws))))
    return pd.DataFrame(lines, columns=["RAND, doctor visits", "eps", "test deviance explained"])


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    print(f"\n## RAND, {draws} splits\n\n{FORMULA}\n\n{table(draws).to_string(index=False)}", flush=True)


if __name__ == "__main__":
    main()

"""What privacy costs: standard errors of a wage equation over those of OLS, beside dp-statsmodels'.

``python -m benchmarks.inference.wages [draws [picture.svg]]``.

54,875 wages of the Current Population Survey (`dp.datasets.load_wages`), add_remove, pure, the codebook's ranges, and
nothing else set. A figure is the median over fits. dp-statsmodels, the other package whose private regression has
standard errors, reports one figure a budget for the same rows and the same model.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import dpstats as dp
from benchmarks.shared.splits import DRAWS

FORMULA = "np.log(wage) ~ education_years + experience + I(experience**2) + female"
EPS = (0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
IN_TABLE = (0.5, 1.0, 10.0)
WAYS: Mapping[str, Mapping[str, Any]] = {
    "dp.ols": {},
    'dp.ols, method="statistics"': {"method": "statistics"},
}
"""The default, or plain least squares by itself."""

PUBLISHED = {10: 300, 50: 70, 100: 37, 500: 8, 1000: 4}
"""dp-statsmodels' figures by eps, with a delta: its paper and dp_statsmodels/paper_results.py at commit ce4a47b,
https://github.com/MaxGhenis/dp-statsmodels (Ghenis 2024, Differentially private regression with valid statistical
inference)."""


def least_squares(rows: pd.DataFrame) -> tuple[pd.Series[float], pd.Series[float]]:
    """Coefficients and standard errors without privacy; their slopes."""
    fit = smf.ols(FORMULA, rows).fit()
    return fit.params.iloc[1:], fit.bse.iloc[1:]


def ratios(eps: float, options: Mapping[str, Any], draws: int) -> pd.DataFrame:
    """By slope: the median ratio of standard errors, and the distance from OLS over its own standard errors.

    The distance is a root mean square over fits of the same rows. Errors that are honest have a ratio of about
    sqrt(1 + distance^2) where the fit estimates what OLS does.
    """
    dataset = dp.datasets.load_wages()
    params, errors = least_squares(dataset.data)
    fits = [dp.ols(FORMULA, dataset.data, eps, domain=dataset.domain, **options) for _ in range(draws)]
    return pd.DataFrame(
        {
            "ratio": np.median([fit.bse[errors.index] / errors for fit in fits], axis=0),
            "distance": np.sqrt(
                np.mean([((fit.debiased[errors.index] - params) / errors) ** 2 for fit in fits], axis=0)
            ),
        },
        index=errors.index,
    )


def draw(measured: Mapping[float, pd.DataFrame], path: str) -> None:
    """The picture of README and landing page: the span of the slopes' ratios by eps, beside the published ones."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from dpstats.plots.style import BLUE, GREY, INK, ORANGE, TICK_SIZE, finish, new_axes

    # The same measurements give the same file.
    plt.rcParams["svg.hashsalt"] = "dpstats"
    ax = new_axes(None, height=3.7, width=4.9)
    eps = list(measured)
    low, high = ([float(getattr(one["ratio"], end)()) for one in measured.values()] for end in ("min", "max"))
    ax.fill_between(eps, low, high, color=BLUE, alpha=0.25, linewidth=0)
    ax.plot(eps, high, "o-", color=BLUE, markersize=4)
    ax.plot(eps, low, "o-", color=BLUE, markersize=4)
    ax.plot(list(PUBLISHED), list(PUBLISHED.values()), "s-", color=ORANGE, markersize=5)
    ax.axhline(1, color=GREY, linewidth=1, linestyle="--")
    ax.set(xscale="log", yscale="log", xlim=(0.2, 1300), ylim=(0.6, 600))
    ax.set_xticks([0.25, 1, 10, 100, 1000], ["0.25", "1", "10", "100", "1000"])
    ax.set_yticks([1, 3, 10, 30, 100, 300], ["1", "3", "10", "30", "100", "300"])
    ax.minorticks_off()
    ax.text(0.27, high[0] * 1.5, "dpstats: least to greatest\nof four slopes", color=BLUE, fontsize=TICK_SIZE)
    ax.text(13, 330, "dp-statsmodels,\nas published", color="#8a5f00", fontsize=TICK_SIZE, va="center")
    ax.text(1300, 1.08, "without privacy", color=INK, fontsize=TICK_SIZE, ha="right", va="bottom")
    labels = "privacy budget eps (less is more private)", "standard error / that of OLS"
    finish(ax, "What privacy costs: 54,875 wages", labels=labels)
    ax.get_figure(root=True).savefig(path, metadata={"Date": None}, bbox_inches="tight", pad_inches=0.05)
    plt.close("all")


def main(arguments: list[str] | None = None) -> None:
    """Print all ratios, and draw the picture where a path is given."""
    given = sys.argv[1:] if arguments is None else arguments
    draws = int(given[0]) if given else DRAWS
    for name, options in WAYS.items():
        measured = {eps: ratios(eps, options, draws) for eps in EPS}
        print(f"{name}, {draws} fits: standard errors over those of OLS (distance from OLS over its standard errors)")
        for eps, table in measured.items():
            cells = [f"{slope} {one.ratio:.2f} ({one.distance:.2f})" for slope, one in table.iterrows()]
            print(f"  eps {eps:g}: {', '.join(cells)}")
        if len(given) > 1 and name == "dp.ols":
            draw(measured, given[1])
    print(f"dp-statsmodels, as published: {', '.join(f'eps {eps}: {ratio}' for eps, ratio in PUBLISHED.items())}")


if __name__ == "__main__":
    main()

"""A coefficient of several quantiles, by quantile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd

from dpstats.arguments import check_choice
from dpstats.plots import style
from dpstats.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class QuantilesSubject(Protocol):
    """Released fits of several quantiles; `dpstats.QuantileResults`."""

    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def params(self) -> pd.DataFrame: ...
    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame: ...


def quantiles(
    result: QuantilesSubject,
    term: str | None = None,
    *,
    alpha: float = 0.05,
    caption: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """A coefficient by quantile, with the intervals of the fits that have errors; see `QuantileResults.plot`."""
    names = [str(name) for name in result.params.index]
    name = next((one for one in names if one != "Intercept"), names[0]) if term is None else term
    check_choice("term", name, names)
    ends = {key: (float(low), float(high)) for key, (low, high) in result.conf_int(alpha).iterrows()}
    ax = style.new_axes(ax)
    for q, value in zip(result.params.columns, result.params.loc[name].to_numpy(dtype=float), strict=True):
        low, high = ends.get((q, name), (np.nan, np.nan))
        known = bool(np.isfinite([low, high]).all())
        if known:
            ax.plot([q, q], [low, high], color=style.BLUE, linewidth=1.6)
        middle = (low + high) / 2 if known else value
        ax.plot([q], [middle], "o", color=style.BLUE, markerfacecolor=style.BLUE if known else "none")
    sentences = (
        f"Lines: {100 * (1 - alpha):g} % intervals; open marks have none.",
        style.promise(result.guarantee, "all quantiles"),
    )
    return style.finish(ax, name, *sentences, labels=("quantile", "coefficient"), caption=caption)

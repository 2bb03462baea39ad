"""One coefficient of all groups of a factor, by size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd

from dpstats.arguments import check_choice
from dpstats.errors import ArgumentError
from dpstats.plots import style
from dpstats.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class GroupsSubject(Protocol):
    """What has coefficients of groups; `dpstats.GroupResults`."""

    @property
    def by(self) -> str: ...  # the factor
    @property
    def names(self) -> tuple[str, ...]: ...  # the coefficients
    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def between(self) -> pd.DataFrame: ...  # their means, of groups that were pooled
    def tidy(self, alpha: float = ...) -> pd.DataFrame: ...  # a row for each level and coefficient


def groups(
    result: GroupsSubject,
    term: str | None = None,
    *,
    alpha: float = 0.05,
    unpooled: bool = False,
    caption: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """One coefficient of every group, sorted by size, with intervals: a caterpillar plot of small areas.

    A vertical line is the mean of the groups where they were pooled, which groups of few rows are drawn to. A group
    whose interval is unbounded has an open mark and no line.

    Parameters
    ----------
    result : GroupResults
    term : str, optional
        The coefficient; the first one besides the intercept by default.
    alpha : float
        1 less the coverage of the intervals.
    unpooled : bool
        Also show, in grey, the coefficient of each group's own fit as released.
    caption : bool
        Write below the picture what it shows and what is protected.
    ax : Axes, optional
        To draw on; by default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ArgumentError
        If matplotlib is not installed, or `term` is no coefficient.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 6000), "y": rng.uniform(0, 1, 6000), "place": rng.integers(0, 3, 6000)}
    >>> domain = {"x": (0, 1), "y": (0, 1), "place": [0, 1, 2]}
    >>> result = dp.glm("y ~ x", rows, eps=1.0, domain=domain, by="place", shrink=True)
    >>> axes = dp.plots.groups(result)
    >>> axes.get_title(loc="left")
    'x by place'
    """
    if not all(hasattr(result, name) for name in ("by", "names", "tidy")):
        raise ArgumentError(f"result must be what dp.glm returns with by=, got {type(result).__name__}")
    if term is None:
        term = next((name for name in result.names if name != "Intercept"), result.names[0])
    check_choice("term", term, result.names)
    tidy = result.tidy(alpha)
    table = tidy[tidy["term"] == term].sort_values("estimate", ascending=False, kind="stable")
    pooled = "own" in table
    ax = style.new_axes(ax, 2.0 + 0.22 * len(table))
    style.name_rows(ax, [str(level) for level in table[result.by]])
    places, coef = np.arange(len(table)), table["estimate"].to_numpy()
    bounded = np.isfinite(table["std_error"].to_numpy())
    ends = table[["conf_low", "conf_high"]].to_numpy()
    ax.hlines(places[bounded], *ends[bounded].T, color=style.BLUE, linewidth=1.6)
    ax.plot(coef[bounded], places[bounded], "o", color=style.BLUE, markersize=4.5, label="of the group")
    if not bounded.all():
        label = "without an interval"
        ax.plot(coef[~bounded], places[~bounded], "o", mfc="white", mec=style.GREY, markersize=4.5, label=label)
    if pooled and unpooled:
        own = table["unpooled"].to_numpy()
        ax.plot(own, places, "|", color=style.GREY, markersize=7, label="its own fit, unpooled")
    if pooled and bounded.any():
        ax.axvline(float(result.between["mean"][term]), color=style.ORANGE, linewidth=1.2, label="mean of the groups")
    sentences = [
        f"Lines are {100 * (1 - alpha):g} % intervals, of the sample and of the noise.",
        "Groups are shrunk to their mean as far as both ask for." if pooled else "",
        style.promise(result.guarantee, "all groups together"),
    ]
    return style.finish(
        ax, f"{term} by {result.by}", *sentences, labels=("coefficient", ""), legend="above", caption=caption
    )

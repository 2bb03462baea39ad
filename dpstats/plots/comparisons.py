"""Methods against the number of rows: predictions alone, no row is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import pandas as pd

from dpstats.arguments import check_choice
from dpstats.plots import style
from dpstats.plots.subjects import check_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASURES = {
    "excess": "predicted excess loss per row",
    "noise": "predicted sd of noise in a coefficient",
    "at_most": "excess loss per row, at most",
}


class Compared(Protocol):
    """What `methods` draws: a `Comparison`."""

    @property
    def formula(self) -> str:
        """The model."""

    @property
    def n(self) -> int:
        """The guess at the number of rows."""

    @property
    def curves(self) -> pd.DataFrame:
        """Columns method, n and the measures."""

    @property
    def description(self) -> str:
        """Family, budget and neighbours in a line."""


def methods(
    comparison: Compared, *, what: Literal["excess", "noise", "at_most"] = "excess", ax: Axes | None = None
) -> Axes:
    """What each method would cost at several numbers of rows.

    Parameters
    ----------
    comparison : Comparison
        Of `dpstats.compare`.
    what : {"excess", "noise", "at_most"}
        The predicted excess of the mean loss, the predicted standard deviation of the noise in a coefficient, root mean
        square in model units, or the proved bound on the excess, in the mean.
    ax : Axes, optional
        To draw on; by default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ArgumentError
        If matplotlib is not installed or an argument is outside its allowed values.

    Examples
    --------
    >>> import dpstats as dp
    >>> found = dp.compare("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, n=5000)
    >>> dp.plots.methods(found).get_xlabel()
    'rows'
    """
    check_subject("comparison", comparison, "curves", "what dp.compare returns")
    check_choice("what", what, MEASURES)
    ax = style.new_axes(ax)
    drawn = comparison.curves.dropna(subset=[what])
    for number, (method, curve) in enumerate(drawn.groupby("method", sort=False)):
        color, marker = style.SERIES[number % len(style.SERIES)], style.MARKERS[number % len(style.MARKERS)]
        ax.plot(curve["n"], curve[what], color=color, marker=marker, markersize=4, linewidth=1.6, label=str(method))
    ax.axvline(comparison.n, linestyle=":", color=style.INK, linewidth=1.0, label=f"n = {comparison.n:,}")
    ax.set(xscale="log", yscale="log")
    style.name_axes(ax, "rows", MEASURES[what])
    style.show_legend(ax, loc="best")
    proved = what == "at_most"
    style.finish(
        ax,
        f"Which method: {comparison.formula}",
        "A proved bound, for any rows." if proved else "A prediction for rows drawn evenly from the Domain.",
        f"{comparison.description}.",
        "No row was read and nothing spent.",
    )
    return ax

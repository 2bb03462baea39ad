"""Coefficients with what is known of their errors, and where the errors come from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_flag, named_rows
from dpstats.domain import Range
from dpstats.errors import ArgumentError
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import PublicDesign
from dpstats.plan.tables import RATIOS, ratios_of
from dpstats.plots import style
from dpstats.plots.style import FIT, check_subject
from dpstats.quiet import quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]

WIDE, SQUEEZE = 4.0, 2.0
"""Intervals so many times as wide as the median one leave the picture, if it would be so many times as wide as without
them; an arrow shows where they do."""

NEAR_RATIOS, FINE_RATIOS = 6.0, 1e4
"""An axis of ratios that spans less has evenly spaced ticks, and ticks between powers of ten."""

FARTHEST = 99.0  # from 0 of the logarithm of a ratio in a picture

INTERCEPT = "Intercept"
LABEL_WIDTH = 20  # letters of a fit's name in the legend


def coefficients(
    result: Any,
    *,
    alpha: float = 0.05,
    by_range: bool = False,
    intercept: bool = False,
    exponentiate: bool = False,
    keep: str | Sequence[str] | None = None,
    drop: str | Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    caption: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """The coefficients with their intervals, or with bounds on their noise.

    With inference, points are the bias-corrected coefficients and lines their intervals; a pale bar is the part of an
    interval due to privacy. A coefficient that the budget does not identify has an open mark, as released, and a dotted
    line with arrows, because its interval is unbounded. Without inference a bar is twice the proved bound on the
    standard deviation of the noise, and open marks are coefficients within it, which may be noise alone.

    Parameters
    ----------
    result : GLMResults
        Or a model with an absorbed factor, of released statistics, or with instruments. Several stand side by side, in
        colours of their own: a dict by label, or a list.
    alpha : float
        1 less the coverage of the intervals.
    by_range : bool
        Multiply coefficients by the declared width of their column, so columns in different units compare. The columns
        of a spline or a product have their own widths.
    intercept : bool
        Show the intercept too.
    exponentiate : bool
        Show odds ratios, or ratios of means or rates, on a logarithmic axis; for fits with a logit or log link.
    keep, drop, rename
        As for `dpstats.etable`: rows to show, in this order, rows to leave out, and what rows are called.
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
        If no coefficient is left to draw, a name is of no coefficient, a fit has no ratios, or `by_range` is asked for
        plain arrays; of every picture if matplotlib is not installed.

    Examples
    --------
    >>> import dpstats as dp
    >>> adult = dp.datasets.load_adult()
    >>> fit = dp.logit("income ~ age", adult.data, 1.0, domain=adult.domain, seed=1)
    >>> dp.plots.coefficients(fit).get_title(loc="left")
    'income (binomial)'
    >>> more = dp.logit("income ~ age + sex", adult.data, 1.0, domain=adult.domain, seed=1)
    >>> [label.get_text() for label in dp.plots.coefficients({"small": fit, "large": more}).get_yticklabels()]
    ['age', 'sex[T.Male]']
    >>> dp.plots.coefficients(more, exponentiate=True, keep="sex", rename={"sex[T.Male]": "Men"}).get_xlabel()
    'odds ratios'
    """
    results = style.by_label("result", result)
    tables = []
    for one in results.values():
        check_subject("result", one, "uncertainty", FIT)
        table = _table(one, alpha, check_flag("intercept", intercept))
        if check_flag("by_range", by_range):
            table *= _widths(_model_facts(one).design, table.index)[:, None]
        tables.append(table)
    if check_flag("exponentiate", exponentiate):
        for label, one in results.items():
            if one._family.link not in RATIOS:
                of_which = f"{label} has another one" if label else f"that of the model is {one._family.link!r}"
                raise ArgumentError(f"exponentiate needs a logit or log link, and {of_which}; leave it out")
    names = list(dict.fromkeys(name for table in tables for name in table.index))
    called = named_rows(names, keep, drop, rename, hidden=() if intercept else (INTERCEPT,))
    tables = [table.loc[[name for name in called if name in table.index]] for table in tables]
    names = list(called)
    ax = style.new_axes(ax, 2.3 + 0.27 * len(names) * (1 + 0.5 * (len(tables) - 1)))
    style.name_rows(ax, list(called.values()))
    errors = [one.has_errors for one in results.values()]
    reach = _reach([table for table, known in zip(tables, errors, strict=True) if known or any(errors)])
    if exponentiate:
        with quiet():
            tables = [pd.DataFrame(np.exp(table)) for table in tables]
        reach = math.exp(max(reach[0], -FARTHEST)), math.exp(min(reach[1], FARTHEST))
        ax.set_xscale("log")
    ax.axvline(1.0 if exponentiate else 0.0, color=style.INK, linewidth=0.8, zorder=1)
    sentences = []
    for place, label in enumerate(results):
        lane = Lane(label, place, len(tables), np.array([names.index(name) for name in tables[place].index], float))
        draw = _draw_intervals if errors[place] else _draw_bounds
        sentences += draw(ax, tables[place], lane, alpha, reach)
    selected = any(getattr(one, "ignores_selection", False) for one in results.values())
    sentences += [
        "Splines and products are scaled by the widths of their columns in the design." if by_range else "",
        "Not adjusted for selection." if selected else "",
        *(style.promise(one.guarantee, label or "the fit") for label, one in results.items()),
    ]
    if any(errors):
        ax.set_xlim(*reach)
    if exponentiate:
        _name_ratios(ax)
    titles = list(dict.fromkeys(map(_title, results.values())))
    across = "coefficient, times the declared width of its column" if by_range else "coefficient"
    if exponentiate:
        kinds = " and ".join(dict.fromkeys(ratios_of(one) for one in results.values()))
        across = f"{kinds}, over the declared width of each column" if by_range else kinds
    return style.finish(ax, ", ".join(titles), *sentences, labels=(across, ""), legend="above", caption=caption)


@dataclass(frozen=True)
class Lane:
    """Where and how the coefficients of one of several fits are drawn."""

    label: str  # empty for a fit alone
    place: int
    of: int
    at: Float  # the rows of its coefficients

    @property
    def rows(self) -> Float:
        """Their heights in the picture: fits share a row."""
        return self.at + 0.8 * ((self.place + 0.5) / self.of - 0.5)

    @property
    def color(self) -> str:
        """The next one of the cycle."""
        return style.SERIES[self.place % len(style.SERIES)]

    @property
    def marker(self) -> str:
        return style.MARKERS[self.place % len(style.MARKERS)]

    def legend(self, what: str) -> str:
        """What the legend says of it."""
        return f"{style.shorten(self.label, LABEL_WIDTH)}: {what}" if self.label else what


def shares(result: Any, *, intercept: bool = False, caption: bool = True, ax: Axes | None = None) -> Axes:
    """The sources of the error of each coefficient, as shares of its squared standard error.

    Parameters
    ----------
    result : GLMResults
    intercept, caption, ax
        As for `coefficients`.

    Raises
    ------
    NotReleasedError
        If the call released no errors.

    Examples
    --------
    >>> import dpstats as dp
    >>> adult = dp.datasets.load_adult()
    >>> fit = dp.logit("income ~ age", adult.data, 1.0, domain=adult.domain, seed=1)
    >>> dp.plots.shares(fit).get_xlabel()
    'share of the squared standard error'
    """
    check_subject("result", result, "uncertainty", FIT)
    by_source = result.variance_shares
    errors = _select(result.bse, check_flag("intercept", intercept))
    table, bounded = by_source.loc[errors.index], np.isfinite(errors.to_numpy())
    ax = style.new_axes(ax, 2.3 + 0.27 * len(table))
    style.name_rows(ax, list(table.index))
    rows, left = np.arange(len(table)), np.zeros(len(table))
    parts = {
        "sampling": ("the sample", style.GREEN),
        "noise": ("noise in the coefficients", style.BLUE),
        "information": ("noise in the information", style.ORANGE),
    }
    for name, (label, color) in parts.items():
        width = np.where(bounded, table[name].to_numpy(), 0.0)
        ax.barh(rows, width, left=left, height=0.7, color=color, label=label)
        left += width
    if not bounded.all():
        blank = np.flatnonzero(~bounded)
        hatched: dict[str, Any] = {"facecolor": "none", "edgecolor": style.GREY, "hatch": "///", "linewidth": 0.6}
        ax.barh(blank, np.ones(len(blank)), height=0.7, label="not identified", **hatched)
    ax.set_xlim(0, 1)
    sentences = (
        "More budget shrinks the noise, more rows shrink every part.",
        style.promise(result.guarantee, "the fit"),
    )
    labels = "share of the squared standard error", ""
    return style.finish(ax, _title(result), *sentences, labels=labels, legend="above", caption=caption)


def _table(result: Any, alpha: float, intercept: bool) -> pd.DataFrame:
    """value, low, high, and the ends of the part that noise asks for, of the coefficients to draw."""
    if not result.has_errors:
        value = _select(result.params[result.in_model], intercept)
        noise = 2 * result.noise_at_most.loc[value.index].to_numpy()
        low, high = value - noise, value + noise
        return pd.DataFrame({"value": value, "low": low, "high": high, "noise_low": low, "noise_high": high})
    errors = _select(result.bse, intercept)
    table = result.uncertainty(alpha).loc[errors.index]
    private = 1 - result.variance_shares["sampling"].loc[errors.index].clip(0, 1)
    noise = (table["high"] - table["low"]) / 2 * np.sqrt(private)
    ends = {"noise_low": table["coef"] - noise, "noise_high": table["coef"] + noise}
    return pd.DataFrame({"value": table["coef"], "low": table["low"], "high": table["high"], **ends})


def _select(values: pd.Series[float], intercept: bool) -> pd.Series[float]:
    """The values that are not missing, with or without the intercept."""
    values = values[values.notna()]
    if not intercept:
        values = values[values.index != INTERCEPT]
    if not len(values):
        raise ArgumentError("intercept: the model has no other coefficient; pass intercept=True")
    return values


def _draw_intervals(ax: Axes, table: pd.DataFrame, lane: Lane, alpha: float, reach: tuple[float, float]) -> list[str]:
    """Released intervals; what the caption must say of them."""
    rows, values, (low, high) = lane.rows, table["value"].to_numpy(), reach
    ends = table[["low", "high"]].to_numpy()
    bounded = np.isfinite(ends).all(axis=1)
    cut = bounded & ((ends[:, 0] < low) | (ends[:, 1] > high))
    caption = []
    if bounded.any():
        of_which = "Points" if bounded.all() and lane.of == 1 else "Points with an interval"
        caption.append(f"{of_which} are bias-corrected. Intervals include sampling error and privacy noise.")
        noise_low, noise_high = table.loc[bounded, ["noise_low", "noise_high"]].to_numpy().T
        color, strength = (lane.color, 0.25) if lane.place else (style.SKY, 0.45)
        pale: dict[str, Any] = {"height": 0.4 / lane.of, "color": color, "alpha": strength, "linewidth": 0}
        ax.barh(rows[bounded], noise_high - noise_low, left=noise_low, label="part due to privacy", **pale)
        look = {"label": lane.legend(f"{1 - alpha:.4g} interval"), "color": lane.color, "fmt": lane.marker}
        style.bars(ax, rows[bounded], values[bounded], ends[bounded], across=True, **look)
    if not bounded.all():
        _open_marks(ax, rows[~bounded], values[~bounded], lane.legend("not identified"), lane)
        ax.hlines(
            rows[~bounded], low, high, linestyles=":", colors=style.GREY, linewidth=1.0, gid="unbounded", zorder=2
        )
        _arrows(ax, rows[~bounded], low, "<", style.GREY)
        _arrows(ax, rows[~bounded], high, ">", style.GREY)
        count = int((~bounded).sum())
        caption.append(
            f"Open marks ({count}): drawn as released, not identified at this budget, any value is possible."
        )
    if cut.any():
        _arrows(ax, rows[cut & (ends[:, 0] < low)], low, "<", lane.color)
        _arrows(ax, rows[cut & (ends[:, 1] > high)], high, ">", lane.color)
        caption.append(
            f"{'Arrows in colour' if lane.label else 'Blue arrows'}: the interval goes on beyond the picture."
        )
    return caption


def _draw_bounds(ax: Axes, table: pd.DataFrame, lane: Lane, alpha: float, reach: tuple[float, float]) -> list[str]:
    """Coefficients beside what noise may do to them; what the caption must say."""
    rows, values = lane.rows, table["value"].to_numpy()
    ends = table[["low", "high"]].to_numpy()
    nothing = 1.0 if ax.get_xscale() == "log" else 0.0
    hidden = (ends[:, 0] < nothing) & (nothing < ends[:, 1])
    known, clear = np.isfinite(ends).all(axis=1), ~hidden
    ends = np.where(known[:, None], ends, values[:, None])
    if clear.any():
        label = lane.legend("coefficient as released")
        marks = {"color": lane.color, "fmt": lane.marker, "elinewidth": 0, "label": label}
        style.bars(ax, rows[clear], values[clear], np.repeat(values[clear, None], 2, axis=1), across=True, **marks)
    widths = ends[:, 1] - ends[:, 0]
    pale: dict[str, Any] = {"height": 0.5 / lane.of, "color": style.PALE, "linewidth": 0, "zorder": 1.5}
    ax.barh(rows, widths, left=ends[:, 0], label="twice the noise at most", **pale)
    ax.use_sticky_edges = False
    ax.margins(x=0.05)
    if hidden.any():
        _open_marks(ax, rows[hidden], values[hidden], lane.legend("within noise"), lane)
    bars = "Bars: twice a proved bound on the standard deviation of the noise. They omit sampling error."
    return [bars, "Open marks may be noise alone." if hidden.any() else ""]


def _open_marks(ax: Axes, rows: Float, values: Float, label: str, lane: Lane) -> None:
    color = lane.color if lane.label else style.RED
    face: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": color, "markeredgewidth": 1.3}
    ax.plot(values, rows, lane.marker, label=label, markersize=5.5, zorder=4, **face)


def _arrows(ax: Axes, rows: Float, end: float, marker: str, color: str) -> None:
    """Arrowheads at one end of the picture."""
    marks: dict[str, Any] = {"color": color, "markersize": 5, "linestyle": "none", "clip_on": False, "zorder": 4}
    ax.plot(np.full(len(rows), end), rows, marker, gid="arrow", **marks)


def _reach(tables: list[pd.DataFrame]) -> tuple[float, float]:
    """Ends of the picture. Intervals too wide to leave room for the others go on beyond them."""
    if not tables:
        return 0.0, 1.0
    values, ends = (np.concatenate([table[part].to_numpy() for table in tables]) for part in ("value", ["low", "high"]))
    bounded: Mask = np.isfinite(ends).all(axis=1)
    halves = np.where(bounded, (ends[:, 1] - ends[:, 0]) / 2, np.nan)
    usual = bounded & (halves <= WIDE * np.nanmedian(halves)) if bounded.any() else bounded
    whole, part = (np.concatenate([values, ends[shown].ravel(), [0.0]]) for shown in (bounded, usual))
    reach = part if np.ptp(whole) > SQUEEZE * np.ptp(part) else whole
    room = 0.06 * float(np.ptp(reach)) or 1.0
    return float(reach.min()) - room, float(reach.max()) + room


def _name_ratios(ax: Axes) -> None:
    """Ticks of an axis of ratios, written out: evenly spaced, at 1, 2 and 5 times powers of ten, or at powers alone."""
    from matplotlib import ticker

    low, high = ax.get_xlim()
    times = [1.0, 2.0, 5.0] if high < FINE_RATIOS * low else [1.0]
    near = high < NEAR_RATIOS * low
    ax.xaxis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 5, 10]) if near else ticker.LogLocator(subs=times))
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda ratio, _: f"{ratio:g}"))
    ax.xaxis.set_minor_locator(ticker.NullLocator())


def _widths(design: PublicDesign, names: pd.Index) -> Float:
    """Declared widths of the columns; 1 for the intercept."""
    if not isinstance(design, DesignSpec):
        raise ArgumentError("by_range: plain arrays declare no ranges; leave it out")
    width = pd.Series(design.upper - design.lower, index=list(design.names))
    width[width == 0] = 1.0
    # The declared one, though a fit may have bought a narrower range: those of several fits are to be compared.
    declared = {name: one.high - one.low for name, one in design.domain.items() if isinstance(one, Range)}
    width.update(pd.Series(declared, dtype=np.float64))
    return np.asarray(width.loc[names], dtype=np.float64)


def _model_facts(result: Any) -> Any:
    """The object with the design: the plan, or a model of released statistics itself."""
    return getattr(result, "plan", result)


def _title(result: Any) -> str:
    public = _model_facts(result)
    family = getattr(public, "family", None)
    return f"{public.design.response_name} ({'gaussian' if family is None else family.title})"

"""How good a model is: calibration, ROC curve and residuals by bins, with the stated errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.plots import style
from dpstats.plots.style import EVALUATION, check_subject
from dpstats.wording import joined

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]

PICTURES = ("calibration", "residuals", "roc")  # tables of an evaluation that can be drawn
AREA = "area under ROC"
BARS = "Bars: 95 % intervals for noise and sampling. Pale: the part due to privacy."
LEVEL = float(special.ndtri(0.975))
LABEL_WIDTH = 28  # letters of a name in the legend
GID = "evaluation of "  # what marks an evaluation's points or curve begins so
ROC_BARS = 12  # about how many thresholds of an ROC curve show errors: bars at each would hide it


def calibration(evaluation: Any, *, label: str | None = None, caption: bool = True, ax: Axes | None = None) -> Axes:
    """Observed against predicted frequency by bins, with 95 % intervals of noise and sampling.

    Parameters
    ----------
    evaluation : Evaluation
        Or several, each in its colour: a dict by label, or a list.
    label : str, optional
        What the legend calls the evaluation.
    caption : bool
        As for `coefficients`.
    ax : Axes, optional
        To draw on; axes that have evaluations keep them, and this one gets the next colour.

    Raises
    ------
    ArgumentError
        If the evaluation has no calibration.

    Examples
    --------
    >>> import dpstats as dp
    >>> adult = dp.datasets.load_adult()
    >>> fit = dp.logit("income ~ age", adult.data, 1.0, domain=adult.domain, seed=1)
    >>> dp.plots.calibration(dp.evaluate(fit, adult.data, 1.0)).get_xlabel()
    'predicted frequency'
    """
    series = _series(evaluation, "calibration", ["predicted", "observed"], label)
    ax = style.new_axes(ax)
    series = _beside(ax, series)
    for one in series:
        if one.place == 0:
            ax.plot([0, 1], [0, 1], "--", color=style.GREY, linewidth=1.0, label="perfect")
        _binned(ax, one, "predicted", "observed")
        most = min(1.0, 1.08 * float(np.nanmax(one.table[["predicted", "high"]].to_numpy(), initial=0.0)) or 1.0)
        most = max(most, ax.get_xlim()[1]) if one.place else most
        ax.set(xlim=(-0.02 * most, most), ylim=(-0.02 * most, most))
    labels = "predicted frequency", "observed frequency"
    return _finished(ax, "Calibration", series, BARS, labels=labels, legend="upper left", caption=caption)


def residuals(evaluation: Any, *, label: str | None = None, caption: bool = True, ax: Axes | None = None) -> Axes:
    """Mean residual (response less prediction) by bins of the fitted value, with 95 % intervals.

    Parameters and errors as for `calibration`.

    Examples
    --------
    >>> import dpstats as dp
    >>> adult = dp.datasets.load_adult()
    >>> fit = dp.logit("income ~ age", adult.data, 1.0, domain=adult.domain, seed=1)
    >>> dp.plots.residuals(dp.evaluate(fit, adult.data, 1.0)).get_xlabel()
    'fitted value'
    """
    series = _series(evaluation, "residuals", ["residual"], label)
    ax = style.new_axes(ax)
    series = _beside(ax, series)
    for one in series:
        if one.place == 0:
            ax.axhline(0.0, linestyle="--", color=style.GREY, linewidth=1.0)
        _binned(ax, _with_middles(one), "fitted", "residual")
    clipped = any(one.evaluation._bins_clip for one in series)
    long = "Residuals are clipped: a long tail moves all means, too."
    sentences = BARS, long if clipped else "Bars that exclude zero show misfit."
    middles = any("fitted" not in one.table for one in series)
    labels = "fitted value (middle of the bin)" if middles else "fitted value", "mean residual"
    # Inside, the bars leave no corner free.
    return _finished(ax, "Residuals", series, *sentences, labels=labels, legend="above", caption=caption)


def roc(evaluation: Any, *, label: str | None = None, caption: bool = True, ax: Axes | None = None) -> Axes:
    """The ROC curve with its area, and 95 % intervals of both rates at some of its thresholds.

    Parameters and errors as for `calibration`.

    Examples
    --------
    >>> import dpstats as dp
    >>> adult = dp.datasets.load_adult()
    >>> fit = dp.logit("income ~ age", adult.data, 1.0, domain=adult.domain, seed=1)
    >>> dp.plots.roc(dp.evaluate(fit, adult.data, 1.0)).get_xlabel()
    'false positive rate'
    >>> other = dp.logit("income ~ age + education_num", adult.data, 1.0, domain=adult.domain, seed=1)
    >>> quality = {"small": dp.evaluate(fit, adult.data, 1.0), "large": dp.evaluate(other, adult.data, 1.0)}
    >>> dp.plots.roc(quality).get_title(loc="left")
    'ROC: small, large'
    """
    series = _series(evaluation, "roc", ["false_positive", "true_positive"], label)
    ax = style.new_axes(ax, 6.0, 5.4)  # about square: a fixed aspect would leave the caption no room
    series = _beside(ax, series)
    for one in series:
        if one.place == 0:
            ax.plot([0, 1], [0, 1], "--", color=style.GREY, linewidth=1.0, label="guessing")
        false, true = (one.table[name].to_numpy() for name in ("false_positive", "true_positive"))
        ax.plot(false, true, color=one.color, linewidth=1.8, label=one.legend(_area(one.evaluation)), gid=one.gid)
        some = _evenly_spaced(false, true)
        sizes = [LEVEL * _std_err(one.table, name)[some] for name in ("false_positive", "true_positive")]
        crosses: dict[str, Any] = {"fmt": "none", "ecolor": one.color, "elinewidth": 1.2, "zorder": 4}
        ax.errorbar(false[some], true[some], xerr=sizes[0], yerr=sizes[1], label="0.95 intervals", **crosses)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    crossed = "Crosses: 95 % intervals of both rates for noise and sampling, at some thresholds."
    labels = "false positive rate", "true positive rate"
    return _finished(ax, "ROC", series, crossed, labels=labels, legend="lower right", caption=caption)


@dataclass(frozen=True)
class Series:
    """An evaluation as it is drawn."""

    evaluation: Any
    table: pd.DataFrame  # the rows of which something can be said
    label: str  # in the legend; perhaps empty
    place: int = 0  # how many others the axes have

    @property
    def color(self) -> str:
        """The next one of the cycle."""
        return style.SERIES[self.place % len(style.SERIES)]

    @property
    def gid(self) -> str:
        return f"{GID}{self.label or self.evaluation.model}"

    def legend(self, what: str) -> str:
        """What the legend says of it."""
        return f"{style.shorten(self.label, LABEL_WIDTH)}: {what}" if self.label else what

    def sentences(self) -> str:
        """What is protected."""
        what = f"the evaluation of {self.label}" if self.label else "this evaluation"
        return style.promise(self.evaluation.guarantee, what)


def _drawn(ax: Axes) -> list[tuple[Any, str]]:
    """What axes show of evaluations, each with its name: lines, or points with their bars."""
    bars = {container[0]: container for container in ax.containers if container.get_label() and len(container) == 3}
    lines = [line for line in ax.lines if str(line.get_gid()).startswith(GID)]
    return [(bars.get(line, line), str(line.get_gid()).removeprefix(GID)) for line in lines]


def _series(evaluation: Any, metric: str, columns: list[str], label: str | None) -> list[Series]:
    """What is to be drawn; ArgumentError if there is nothing."""
    if label is not None and (not isinstance(label, str) or not label):
        raise ArgumentError(f"label must be a string, got {safe_repr(label)}")
    several = style.by_label("evaluation", evaluation)
    if label is not None and "" not in several:
        raise ArgumentError("label is for one evaluation; the keys of a dict are the labels of several")
    return [Series(one, _table(one, metric, columns), label or name) for name, one in several.items()]


def _beside(ax: Axes, series: list[Series]) -> list[Series]:
    """The evaluations beside those that the axes have; one that was alone so far is named now."""
    drawn = _drawn(ax)
    for artist, name in drawn:
        if not str(artist.get_label()).startswith(prefix := f"{style.shorten(name, LABEL_WIDTH)}: "):
            artist.set_label(f"{prefix}{artist.get_label()}")
    named = [replace(one, label=one.label or one.evaluation.model) for one in series] if drawn else series
    return [replace(one, place=place) for place, one in enumerate(named, len(drawn))]


def _finished(ax: Axes, kind: str, series: list[Series], *sentences: str, **arguments: Any) -> Axes:
    title = f"{kind}: {', '.join(name for _, name in _drawn(ax))}"
    whole = "The cost of the models is not included." if len(series) > 1 else "The cost of the model is not included."
    return style.finish(ax, title, *sentences, *(one.sentences() for one in series), whole, **arguments)


def _table(evaluation: Any, metric: str, columns: list[str]) -> pd.DataFrame:
    """The rows of a table of which something can be said; ArgumentError if there are none."""
    check_subject("evaluation", evaluation, "calibration", EVALUATION)
    table = getattr(evaluation, metric)
    if evaluation.against is not None:
        raise ArgumentError(
            "a comparison of two models has no plot; evaluate each model alone, and plot the evaluations"
        )
    if table is None:
        known = [name for name in PICTURES if getattr(evaluation, name) is not None]
        drawn = f"it has {joined(known)}, which can be drawn" if known else "it has nothing that can be drawn"
        raise ArgumentError(
            f"the evaluation has no {metric}; {drawn}. Models of two "
            f"classes have calibration and roc: evaluate with metrics=[{metric!r}] if the model has one"
        )
    finite: pd.DataFrame = table.loc[np.isfinite(table[columns].to_numpy(dtype=np.float64)).all(axis=1)]
    if finite.empty:
        raise ArgumentError("the evaluation's rows do not stand out from the noise: there is nothing to draw")
    return finite


def _with_middles(series: Series) -> Series:
    """Bins of which the mean fitted value is not known are drawn at their middle."""
    table = series.table
    if "fitted" in table:
        return series
    return replace(series, table=table.assign(fitted=table[["fitted_from", "fitted_to"]].mean(axis=1)))


def _binned(ax: Axes, series: Series, across: str, upward: str) -> None:
    """Points with intervals, and behind them the part of each interval that is due to privacy."""
    table = series.table
    at, values = table[across].to_numpy(), table[upward].to_numpy()
    ends = table[["low", "high"]].to_numpy()
    ends = np.where(np.isfinite(ends), ends, values[:, None])
    noise = LEVEL * np.nan_to_num(table["noise_se"].to_numpy())
    private = np.clip(values[:, None] + np.stack([-noise, noise], axis=1), ends[:, [0]], ends[:, [1]])
    color, alpha = (series.color, 0.25) if series.place else (style.SKY, 0.45)
    pale: dict[str, Any] = {"fmt": "none", "ecolor": color, "elinewidth": 8, "alpha": alpha, "zorder": 2}
    style.bars(ax, at, values, private, label="part due to privacy", **pale)
    look: dict[str, Any] = {"color": series.color, "gid": series.gid, "fmt": style.MARKERS[series.place % 6]}
    style.bars(ax, at, values, ends, label=series.legend("bins, 0.95 intervals"), **look)


def _area(evaluation: Any) -> str:
    """The area with its interval, in words."""
    area = evaluation.metrics.loc[AREA] if AREA in evaluation.metrics.index else None
    if area is None or not np.isfinite(area["estimate"]):
        return "ROC curve, area unknown"
    return f"area {area['estimate']:.3f} [{area['low']:.3f}, {area['high']:.3f}]"


def _std_err(table: pd.DataFrame, name: str) -> Float:
    parts = [np.nan_to_num(table[f"{name}_{part}"].to_numpy(dtype=np.float64)) for part in ("noise_se", "sampling_se")]
    return np.hypot(*parts)


def _evenly_spaced(false: Float, true: Float) -> NDArray[np.intp]:
    """Positions of points evenly spaced along the curve, its ends left out."""
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(false), np.diff(true)))])
    lengths = np.linspace(0, along[-1], ROC_BARS + 2)[1:-1]
    return np.unique(np.clip(np.searchsorted(along, lengths), 1, max(len(along) - 2, 0)))

"""How good a model is: calibration, ROC curve and residuals by bins, with the stated errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from dpstats.errors import ArgumentError
from dpstats.plots import style
from dpstats.plots.style import EVALUATION, check_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]

AREA = "area under ROC"
BARS = "Bars: 95 % intervals for noise and sampling. Pale: the part due to privacy."
LEVEL = float(special.ndtri(0.975))
ROC_BARS = 12  # about how many thresholds of an ROC curve show errors: bars at each would hide it


def calibration(evaluation: Any, *, caption: bool = True, ax: Axes | None = None) -> Axes:
    """Observed against predicted frequency by bins, with 95 % intervals of noise and sampling.

    Parameters
    ----------
    evaluation : Evaluation
    caption, ax
        As for `coefficients`.

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
    table = _table(evaluation, "calibration", ["predicted", "observed"])
    ax = style.new_axes(ax)
    ax.plot([0, 1], [0, 1], "--", color=style.GREY, linewidth=1.0, label="perfect")
    _binned(ax, table, "predicted", "observed")
    most = min(1.0, 1.08 * float(np.nanmax(table[["predicted", "high"]].to_numpy(), initial=0.0)) or 1.0)
    ax.set(xlim=(-0.02 * most, most), ylim=(-0.02 * most, most))
    labels = "predicted frequency", "observed frequency"
    title = f"Calibration: {evaluation.model}"
    return style.finish(ax, title, BARS, _promise(evaluation), labels=labels, legend="upper left", caption=caption)


def residuals(evaluation: Any, *, caption: bool = True, ax: Axes | None = None) -> Axes:
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
    table = _table(evaluation, "residuals", ["fitted", "residual"])
    ax = style.new_axes(ax)
    ax.axhline(0.0, linestyle="--", color=style.GREY, linewidth=1.0)
    _binned(ax, table, "fitted", "residual")
    sentences = BARS, "Bars that exclude zero show misfit.", _promise(evaluation)
    labels = "fitted value", "mean residual"
    # Inside, the bars leave no corner free.
    return style.finish(
        ax, f"Residuals: {evaluation.model}", *sentences, labels=labels, legend="above", caption=caption
    )


def roc(evaluation: Any, *, caption: bool = True, ax: Axes | None = None) -> Axes:
    """The ROC curve with its area, and 95 % intervals of both rates at some of its thresholds.

    Parameters and errors as for `calibration`.

    Examples
    --------
    >>> import dpstats as dp
    >>> adult = dp.datasets.load_adult()
    >>> fit = dp.logit("income ~ age", adult.data, 1.0, domain=adult.domain, seed=1)
    >>> dp.plots.roc(dp.evaluate(fit, adult.data, 1.0)).get_xlabel()
    'false positive rate'
    """
    table = _table(evaluation, "roc", ["false_positive", "true_positive"])
    false, true = (table[name].to_numpy() for name in ("false_positive", "true_positive"))
    ax = style.new_axes(ax, 6.0, 5.4)  # about square: a fixed aspect would leave the caption no room
    ax.plot([0, 1], [0, 1], "--", color=style.GREY, linewidth=1.0, label="guessing")
    ax.plot(false, true, color=style.BLUE, linewidth=1.8, label=_area(evaluation))
    some = _evenly_spaced(false, true)
    sizes = [LEVEL * _std_err(table, name)[some] for name in ("false_positive", "true_positive")]
    crosses: dict[str, Any] = {"fmt": "none", "ecolor": style.ORANGE, "elinewidth": 1.6, "zorder": 4}
    ax.errorbar(false[some], true[some], xerr=sizes[0], yerr=sizes[1], label="0.95 intervals", **crosses)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    crossed = "Crosses: 95 % intervals of both rates for noise and sampling, at some thresholds."
    labels = "false positive rate", "true positive rate"
    return style.finish(
        ax,
        f"ROC: {evaluation.model}",
        crossed,
        _promise(evaluation),
        labels=labels,
        legend="lower right",
        caption=caption,
    )


def _promise(evaluation: Any) -> str:
    return f"{style.promise(evaluation.guarantee, 'this evaluation')} The cost of the model is not included."


def _table(evaluation: Any, metric: str, columns: list[str]) -> pd.DataFrame:
    """The rows of a table of which something can be said; ArgumentError if there are none."""
    check_subject("evaluation", evaluation, "calibration", EVALUATION)
    table = getattr(evaluation, metric)
    if table is None:
        raise ArgumentError(f"the evaluation has no {metric}: evaluate with metrics=[{metric!r}], if its model has one")
    finite: pd.DataFrame = table.loc[np.isfinite(table[columns].to_numpy(dtype=np.float64)).all(axis=1)]
    if finite.empty:
        raise ArgumentError("the evaluation's rows do not stand out from the noise: there is nothing to draw")
    return finite


def _binned(ax: Axes, table: pd.DataFrame, across: str, upward: str) -> None:
    """Points with intervals, and behind them the part of each interval that is due to privacy."""
    at, values = table[across].to_numpy(), table[upward].to_numpy()
    ends = table[["low", "high"]].to_numpy()
    ends = np.where(np.isfinite(ends), ends, values[:, None])
    noise = LEVEL * np.nan_to_num(table["noise_se"].to_numpy())
    private = np.clip(values[:, None] + np.stack([-noise, noise], axis=1), ends[:, [0]], ends[:, [1]])
    pale: dict[str, Any] = {"fmt": "none", "ecolor": style.SKY, "elinewidth": 8, "alpha": 0.45, "zorder": 2}
    style.bars(ax, at, values, private, label="part due to privacy", **pale)
    style.bars(ax, at, values, ends, label="bins, 0.95 intervals")


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

"""The mean response over one column's declared range, everything else held: predictions at public points."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import is_number, is_whole, safe_repr
from dpstats.domain import Levels, Range, canonical, support_of
from dpstats.errors import ArgumentError
from dpstats.formula.design import DesignSpec
from dpstats.formula.parse import parse
from dpstats.plots import style
from dpstats.plots.style import FIT, check_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]

MOST_LINES = len(style.SERIES)
MOST_HELD = 6  # held columns that the caption names, unless the caller gave more


def effect(
    result: Any,
    column: str,
    *,
    at: Mapping[str, Any] | None = None,
    points: int = 101,
    alpha: float = 0.05,
    exposure: float | None = None,
    caption: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """The mean response over the range or levels of one column, the others held, with a pointwise band.

    The points are public, so drawing costs no budget. A range is the declared one; where the fit left out rows beyond
    a narrower interval, which it bought or which follows from `typical`, the line ends there, and the caption says so.

    Parameters
    ----------
    result : GLMResults
        Of a formula. Without inference there is a line and no band.
    column : str
        A column that the model reads.
    at : dict, optional
        Values of other columns. By default a number is held at its declared mean (`typical`) or in the middle of the
        range that the fit kept, which is the declared one unless it was narrowed; a factor at its first level; a
        column declared as bool or as (0, 1) at 0, whatever its mean; an exposure at 1 where that is within its range.
        A column of 0 and 1 is drawn only there: declare (0.0, 1.0) for a share in between, in a file 0.0,1.0. A list
        of values for one column draws a line for each.
    points : int
        The number of points in a range; at least 2.
    alpha : float
        1 less the coverage of the band at each point.
    exposure : float, optional
        Takes the place of the formula's offset or exposure, as for `predict`: 1 draws rates.
    caption, ax
        As for `coefficients`.

    Raises
    ------
    ArgumentError
        If the model has no formula or no mean response (the SVMs), or a column or a value is not declared.

    Examples
    --------
    >>> import dpstats as dp
    >>> adult = dp.datasets.load_adult()
    >>> fit = dp.logit("income ~ age", adult.data, 1.0, domain=adult.domain, seed=1)
    >>> dp.plots.effect(fit, "age").get_xlabel()
    'age'
    """
    check_subject("result", result, "get_prediction", FIT)
    design = _design(result)
    read, parsed = design.parsed.predicting_columns, parse(design.formula)
    if isinstance(column, str) and column in set(parsed.predicting_columns).difference(read):
        raise ArgumentError(f"column: {column!r} is in no term of the model, which left it out (left_out)")
    if exposure is not None:  # nothing of the offset is read
        if not is_number(exposure) or exposure <= 0:
            raise ArgumentError(f"exposure must be a positive number, got {safe_repr(exposure)}")
        read = design.parsed.exog_columns
    if not isinstance(column, str) or column not in read:
        raise ArgumentError(f"column must be one that the formula reads: {', '.join(read)}; got {safe_repr(column)}")
    others = [name for name in read if name != column]
    if not is_whole(points) or points < 2:
        raise ArgumentError(f"points must be an integer of at least 2, got {safe_repr(points)}")
    at = {} if at is None else at
    held, several = _fixed_values(design, others, at)
    ax = style.new_axes(ax)
    declared = _axis_of(support_of(design.model_domain)[column], exposure=column in parsed.exposures)
    axis = np.linspace(declared.low, declared.high, points) if isinstance(declared, Range) else declared.values
    bounded = unbounded = False
    lines = [{several: value} for value in held.pop(several)] if several else [{}]
    for number, varied in enumerate(lines):
        frame = pd.DataFrame({column: list(axis), **{**held, **varied}}, index=range(len(axis)))
        mean, ends = _predicted(result, frame, alpha, {} if exposure is None else {"exposure": exposure})
        # Where the formula has no value, as at an exposure of 0, nothing is drawn.
        bounded |= ends is not None and bool(np.isfinite(ends).all(axis=1).any())
        unbounded |= ends is not None and not np.isfinite(ends[np.isfinite(mean)]).all()
        look: Any = {"color": style.SERIES[number], "label": f"{several} = {varied[several]}" if several else None}
        if isinstance(declared, Range):
            _draw_curve(ax, np.asarray(axis), mean, ends, ("-", "--", "-.", ":")[number % 4], **look)
        else:
            shift = 0.0 if len(lines) == 1 else 0.5 * (number / (len(lines) - 1) - 0.5)
            _draw_points(ax, np.arange(len(mean), dtype=np.float64) + shift, mean, ends, style.MARKERS[number], **look)
    if isinstance(declared, Levels):
        _name_levels(ax, declared)
    return style.finish(
        ax,
        f"Effect of {column} ({result.plan.family.title})",
        _kept_note(column, design.domain[column], declared),
        _fixed_note(held if exposure is None else {"exposure": float(exposure)} | held, at),
        _band_note(result, alpha, isinstance(declared, Range), bounded=bounded, unbounded=unbounded),
        "Points are public: the picture costs no budget.",
        style.promise(result.guarantee, "the fit"),
        labels=(column, _response(design, result.plan.family.target)),
        legend="best",
        caption=caption,
    )


def _design(result: Any) -> DesignSpec:
    """The formula's design; ArgumentError without formula or mean."""
    if not hasattr(getattr(result, "plan", None), "family"):
        raise ArgumentError(
            "result: an effect is drawn of a generalized linear model; plots.coefficients draws this one"
        )
    design, family = result.predicting_design, result.plan.family
    if not isinstance(design, DesignSpec):
        raise ArgumentError("result: an effect needs a formula, and this model was fitted to plain arrays")
    if family.name.endswith("svm"):
        raise ArgumentError("result: a support vector machine has no mean response; draw predict(which='linear')")
    return design


def _fixed_values(design: DesignSpec, others: Sequence[str], at: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Values of the other columns, and the name of the one that has several, or ""."""
    if not isinstance(at, Mapping):
        raise ArgumentError(f"at must be a dict of column names and values, got {type(at).__name__}")
    if unknown := [name for name in at if name not in others]:
        known = ", ".join(others) or "none"
        raise ArgumentError(f"at: {unknown[0]!r} is not among the other columns of the formula: {known}")
    lists = [name for name, value in at.items() if isinstance(value, (list, tuple))]
    if len(lists) > 1:
        raise ArgumentError(f"at: only one column may have several values, got lists for {', '.join(lists)}")
    if lists and not 1 <= len(at[lists[0]]) <= MOST_LINES:
        raise ArgumentError(f"at: {lists[0]!r} must have 1 to {MOST_LINES} values, got {len(at[lists[0]])}")
    held: dict[str, Any] = {}
    for name in others:
        declared = design.model_domain[name]
        exposure, kept = name in design.parsed.exposures, support_of(design.model_domain)[name]
        value = at.get(name, _usual(declared, _axis_of(kept, exposure=exposure), exposure=exposure))
        one = partial(_checked_value, name, declared)
        held[name] = list(map(one, value)) if name in lists else one(value)
    return held, lists[0] if lists else ""


def _axis_of(declared: Range | Levels, *, exposure: bool) -> Range | Levels:
    """What a column is drawn as: one of 0 and 1 has two places, but for an exposure."""
    codes = isinstance(declared, Range) and declared.is_binary and not exposure
    return Levels((0, 1)) if codes else declared


def _usual(declared: Range | Levels, kept: Range | Levels, *, exposure: bool) -> Any:
    """Where a column is held: at its declared mean, in the middle of the interval that the fit kept, or a level.

    An exposure of 1 gives rates, as comparisons do.
    """
    if isinstance(kept, Levels):
        return kept.values[0]
    if isinstance(declared, Levels):
        return declared.values[0]
    if exposure and kept.low <= 1 <= kept.high:
        return 1.0
    mean = None if declared.typical is None else float(declared.typical[0])
    return mean if mean is not None and kept.low <= mean <= kept.high else kept.low / 2 + kept.high / 2


def _checked_value(name: str, declared: Range | Levels, value: Any) -> Any:
    """A value within a range, or a level as it is declared, which may be given by its text."""
    cell = canonical(value)
    if isinstance(declared, Levels):
        by_text = [level for level in declared.values if str(level) == value]
        levels = [level for level in declared.values if canonical(level) == cell] or by_text
        if cell is None or len(levels) != 1:
            raise ArgumentError(f"at: {name!r} must be one of {list(declared.values)}, got {safe_repr(value)}")
        return levels[0]
    if not isinstance(cell, float) or not declared.low <= cell <= declared.high:
        raise ArgumentError(
            f"at: {name!r} must lie within its range ({declared.low}, {declared.high}), got {safe_repr(value)}"
        )
    return value


def _predicted(
    result: Any, frame: pd.DataFrame, alpha: float, exposure: Mapping[str, Any]
) -> tuple[Float, Float | None]:
    """Means, shape (k,), and ends of the band, shape (k, 2): NaN where it has none; no band without inference."""
    with warnings.catch_warnings():  # the range of an exposure may begin at 0, where nothing is drawn
        warnings.filterwarnings("ignore", ".* of 0 or less, and no prediction")
        if not result.has_errors:
            return np.asarray(result.predict(frame, **exposure), dtype=np.float64), None
        prediction = result.get_prediction(frame, alpha, **exposure)
    ends = np.array(prediction.conf_int(), dtype=np.float64)
    ends[~np.isfinite(prediction.se_mean)] = np.nan
    return np.asarray(prediction.predicted_mean), ends


def _draw_curve(ax: Axes, axis: Float, mean: Float, ends: Float | None, linestyle: str, **look: Any) -> None:
    """A line over a range, with its band; hatched where the band has no ends."""
    ax.plot(axis, mean, linewidth=1.8, linestyle=linestyle, **look)
    if ends is not None:
        known = np.isfinite(ends).all(axis=1) | ~np.isfinite(mean)
        ax.fill_between(axis, ends[:, 0], ends[:, 1], where=known, color=look["color"], alpha=0.18, linewidth=0)
        lost: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "facecolor": "none", "edgecolor": style.PALE}
        if not known.all():
            ax.fill_between(axis, 0, 1, where=~known, hatch="///", linewidth=0, zorder=0.5, **lost)
    ax.set_xlim(axis[0], axis[-1])


def _draw_points(
    ax: Axes, places: Float, mean: Float, ends: Float | None, marker: str, *, color: str, label: str | None
) -> None:
    """Points at the levels, with bars; open, on a dotted line, where a bar has no ends."""
    known = np.zeros(len(mean), dtype=bool) if ends is None else np.isfinite(ends).all(axis=1)
    if ends is not None and known.any():
        style.bars(ax, places[known], mean[known], ends[known], color=color, fmt=marker, label=label)
    if ends is not None and not known.all():
        upright = ax.get_xaxis_transform()
        ax.vlines(places[~known], 0, 1, transform=upright, linestyles=":", colors=style.GREY, gid="unbounded")
    face = color if ends is None else "white"
    marks: dict[str, Any] = {"markerfacecolor": face, "markeredgecolor": color, "linestyle": "none", "markersize": 5.5}
    ax.plot(places[~known], mean[~known], marker, label=None if known.any() else label, **marks)
    ax.set_xlim(-0.6, len(mean) - 0.4)


def _name_levels(ax: Axes, declared: Levels) -> None:
    """The levels below their points, slanted if two neighbours would meet."""
    names = [style.shorten(level, 20) for level in declared.values]
    slanted = any(len(left) + len(right) + 4 > 2 * 70 / len(names) for left, right in pairwise(names))
    turned: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    ax.set_xticks(range(len(names)), names, **turned)
    style.literal_text(ax.get_xticklabels())


def _response(design: DesignSpec, target: str) -> str:
    """What the vertical axis shows."""
    spec = design.response
    if spec.trials is not None:
        return f"Pr(success), {spec.name}"
    if spec.kind == "binary":
        level = 1 if spec.levels is None else spec.levels[1]
        return f"Pr({spec.name} = {level})"
    return f"expected {spec.name}" if spec.kind == "count" else f"{target.removeprefix('the ')} of {spec.name}"


def _kept_note(column: str, declared: Range | Levels, drawn: Range | Levels) -> str:
    """What the caption says of a range that is not drawn to its declared ends."""
    if isinstance(declared, Levels) or isinstance(drawn, Levels) or declared.interval == (declared.low, declared.high):
        return ""
    return (
        f"Drawn from {drawn.low:.4g} to {drawn.high:.4g}: of the declared {declared.low:.4g} to {declared.high:.4g} "
        f"the fit left out the rows with {column} beyond."
    )


def _fixed_note(held: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """What the caption says of the other columns: those given, and a few at their usual values."""
    names = sorted(held, key=lambda name: name not in given)[: max(MOST_HELD, len(given))]
    if not names:
        return ""
    shown = {name: f"{held[name]:.4g}" if isinstance(held[name], float) else str(held[name]) for name in names}
    values = ", ".join(f"{name} = {value}" for name, value in shown.items())
    rest = len(held) - len(names)
    more = f" and {rest} more columns at the middle of their range or their first level" if rest else ""
    return f"Held: {values}{more}."


def _band_note(result: Any, alpha: float, numeric: bool, *, bounded: bool, unbounded: bool) -> str:
    """What the caption says of the band."""
    if not result.has_errors:
        return "No band: the call released no standard errors (bse says why)."
    name, lost = ("Band", "Hatched") if numeric else ("Bars", "Dotted")
    band = f"{name}: {100 * (1 - alpha):g} % at each point, for sampling error and noise."
    gap = f"{lost}: not identified at this budget, any value is possible."
    return " ".join([*([band] if bounded else []), *([gap] if unbounded else [])])

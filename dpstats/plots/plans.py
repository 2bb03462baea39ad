"""What other budgets would buy, and methods against the number of rows: plans alone, no row is read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import check_choice, check_type, is_number, is_whole, safe_repr
from dpstats.errors import ArgumentError
from dpstats.plan import Plan, replan
from dpstats.plan.simulated import Simulated
from dpstats.plots import style
from dpstats.plots.style import check_subject
from dpstats.progress import show_elapsed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]

FACTORS = 2.0 ** np.arange(-3, 3.5, 0.5)  # the budgets of a picture, over the plan's own eps
LEAST_CHANCE = 0.5  # an error that is less likely to be finite is not drawn

UNPROVED = "what: no bound on the risk of this plan is proved; use what='noise'"


def budget(
    plan: Plan,
    *,
    eps: Sequence[float] | None = None,
    n: int | Sequence[int] | None = None,
    what: Literal["risk", "noise", "se"] = "risk",
    coefficient: str | tuple[Any, str] | None = None,
    residual_sd: float | None = None,
    typical: Mapping[str, Any] | None = None,
    like: Any = None,
    pi: float = 0.05,
    caption: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """The cost of privacy at other budgets and numbers of rows; reads no row and spends nothing.

    Parameters
    ----------
    plan : Plan
        Of `dpstats.plan`, or of a fit; for what="se" of `dpstats.plan`, with several classes too.
    eps : sequence of float, optional
        At least two budgets; by default from an eighth to eight times the plan's, as far as they can be planned.
    n : int or sequence of int, optional
        Numbers of rows, public or assumed, with a line for each. By default the cost is for the sum over all rows.
    what : {"risk", "noise", "se"}
        The proved bound on what privacy adds to the loss per row, against any coefficients of the plan's radius; or the
        standard deviation of the noise in the columns' mean gradients, in model units: the median column, and the range
        of all. Or the expected standard error of a coefficient for `n` rows simulated from the Domain, with a band from
        more to less informative rows, and the error without noise below it.
    coefficient : str, optional
        The coefficient whose standard error is drawn, a pair of class and name with several classes; by default the
        last one.
    residual_sd, typical, like : float, dict, DataFrame, optional
        Public facts about the rows, as for ``plan.standard_errors``; `like` must be public rows.
    pi : float
        Probability, over the noise, that the bound on the risk may fail.
    caption, ax
        As for `coefficients`.

    Raises
    ------
    ArgumentError
        If an argument is outside its range, a budget asked for cannot be planned, or the risk is asked for of a plan
        without a proof of it.

    Examples
    --------
    >>> import dpstats as dp
    >>> plan = dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, eps=1.0)
    >>> dp.plots.budget(plan, n=[1000, 10000]).get_xlabel()
    'eps'
    """
    check_choice("what", what, ("risk", "noise", "se"))
    check_type("plan", plan, Simulated, "what dp.plan returns")
    assumptions = {"residual_sd": residual_sd, "typical": typical, "like": like}
    _check_suited(plan, what, n, {"coefficient": coefficient, **assumptions})
    named: Any = plan.coefficients[-1] if coefficient is None else coefficient
    rows = _rows(n)
    forecast = plan.forecast(**assumptions) if what == "se" else None
    plans = _plans(plan, eps)
    ax = style.new_axes(ax)
    budgets, band = np.array([one.eps for one in plans]), False
    for number, count in enumerate(rows):
        color, marker = style.SERIES[number], style.MARKERS[number]
        lines: dict[str, Any] = {"color": color, "marker": marker, "markersize": 4, "linewidth": 1.6}
        lines["label"] = None if count is None else f"{count:,} rows"
        if forecast is not None and count is not None:
            band |= _draw_errors(ax, forecast, plans, count, plan.coefficients.index(named), lines)
            continue
        costs = np.stack([_risk(one, pi, count) if what == "risk" else _noise(one) for one in plans])
        low, middle, high = costs.T / (count or 1)
        ax.plot(budgets, middle, **lines)
        if what == "noise":
            ax.fill_between(budgets, low, high, color=color, alpha=0.18, linewidth=0)
    ax.axvline(plan.eps, linestyle=":", color=style.INK, linewidth=1.0, label=f"eps = {plan.eps:.4g}")
    ax.set(xscale="log", yscale="log")
    ticks = budgets[:: max(1, -(-len(budgets) // 8))]
    ax.set_xticks(ticks, [f"{value:.3g}" for value in ticks])
    ax.set_xticks([], minor=True)
    cost = f"standard error of {named}" if what == "se" else COSTS[what, n is not None]
    model = (
        f"{plan.formula or plan.design.response_name} ({plan.family.title})"
        if isinstance(plan, Plan)
        else f"{plan.design.formula} (multinomial)"
    )
    title = f"What eps buys: {model}"
    sentences = _caption(plan, what, pi, forecast, band=band)
    return style.finish(ax, title, *sentences, labels=("eps", cost), legend="best", caption=caption)


def _check_suited(plan: Any, what: str, n: object, of_errors: Mapping[str, Any]) -> None:
    """Raise ArgumentError for what the plan does not have, or what does not go together."""
    for name, given in of_errors.items():
        if what != "se" and given is not None:
            raise ArgumentError(f"{name} goes with what='se', the standard error of a coefficient")
    if what != "se" and not isinstance(plan, Plan):
        raise ArgumentError("what must be 'se' for plans of several classes: plan.summary() has their noise")
    if what == "risk" and (plan.request.method == "statistics" or plan.request.options.replicates):
        raise ArgumentError(UNPROVED)
    if what == "risk" and plan.request.method == "output" and n is None:
        raise ArgumentError("n must be given for method='output', whose risk depends on the number of rows")
    if what == "se" and n is None:
        raise ArgumentError("n must be given for what='se': standard errors depend on the number of rows")
    coefficient = of_errors["coefficient"]
    if coefficient is not None and coefficient not in plan.coefficients:
        known = ", ".join(map(str, plan.coefficients))
        raise ArgumentError(f"coefficient must be one of the plan's, {known}; got {safe_repr(coefficient)}")


def _rows(n: int | Sequence[int] | None) -> list[int | None]:
    if n is None:
        return [None]
    counts: list[Any] = list(n) if isinstance(n, (list, tuple, range)) else [n]
    if not 1 <= len(counts) <= len(style.SERIES):
        raise ArgumentError(f"n must hold 1 to {len(style.SERIES)} numbers of rows, got {len(counts)}")
    for count in counts:
        if not is_whole(count) or not 1 <= count < 2**53:
            raise ArgumentError(f"n must be a positive integer or several, got {safe_repr(count)}")
    return [int(count) for count in counts]


def _plans(plan: Any, eps: Sequence[float] | None) -> list[Any]:
    """Plans at the budgets asked for, or at those around the plan's own that can be planned."""
    again = partial(replan, plan) if isinstance(plan, Plan) else plan.at
    if eps is not None:
        listed = isinstance(eps, (list, tuple, np.ndarray)) and np.ndim(np.asarray(eps, dtype=object)) == 1
        if not listed or len(eps) < 2 or not all(map(is_number, eps)):
            raise ArgumentError(f"eps must hold at least two budgets, got {safe_repr(eps)}")
        return [again(value) for value in sorted(eps)]
    plans = []
    for factor in FACTORS:
        try:
            plans.append(again(float(factor) * plan.eps))
        except ArgumentError:  # too small for the ranges to be bought
            continue
    return plans


def _risk(plan: Plan, pi: float, count: int | None) -> Float:
    """The bound, repeated to shape (3,): it has no range."""
    bound = plan.risk_bounds(pi, n=count).value("unregularised", "quantile")
    if np.isnan(bound):
        raise ArgumentError(UNPROVED)
    return np.full(3, bound)


def _draw_errors(ax: Axes, forecast: Any, plans: Sequence[Any], count: int, place: int, lines: dict[str, Any]) -> bool:
    """The standard error of a coefficient of `count` rows: a line, with marks where one is likely to be there.

    Returns whether it has a band: errors of other rows differ, and are likely to be there at neighbouring budgets.
    """
    budgets = np.array([plan.eps for plan in plans])
    with show_elapsed("forecasting standard errors"):
        errors, without, likely = _errors(forecast, plans, count, place)
    low, high = np.fmin.reduce(errors), np.fmax.reduce(errors)
    ax.plot(budgets, errors[0], markevery=np.flatnonzero(likely).tolist(), **lines)
    wide = likely & (high > low)
    band = bool((wide[1:] & likely[:-1]).any() or (wide[:-1] & likely[1:]).any())
    if band:
        ax.fill_between(budgets, low, np.where(likely, high, np.nan), color=lines["color"], alpha=0.18, linewidth=0)
    ax.plot(budgets, without, color=lines["color"], linestyle="--", linewidth=1.0)
    return band


def _errors(forecast: Any, plans: Sequence[Any], count: int, place: int) -> tuple[Float, Float, NDArray[np.bool_]]:
    """Errors of each population, NaN where there is none, shape (populations, m); those without noise; whether likely.

    A larger budget identifies no less, so that few budgets take draws of noise: each would take as long as a table.
    """
    errors, without = np.full((len(forecast.names), len(plans)), np.nan), np.full(len(plans), np.nan)
    likely = np.zeros(len(plans), dtype=bool)
    usable = []
    for number, plan in enumerate(plans):
        with suppress(ArgumentError):  # another eps than the plan's need not leave the information free
            usable.append((number, forecast.at(plan)))
    for population, name in enumerate(forecast.names):
        first = bisect_left(usable, True, key=lambda one: bool(one[1].chances(name, count)[place] >= LEAST_CHANCE))
        for number, at_plan in usable[first:]:
            error = at_plan.expected(name, count)[place]
            errors[population, number] = error if np.isfinite(error) else np.nan
    for number, at_plan in usable:
        without[number] = at_plan.sampling(forecast.names[0], count)[place] / np.sqrt(count)
    for number, _ in usable[bisect_left(usable, True, key=lambda one: one[1].enough(count, [place])) :]:
        likely[number] = True
    return errors, without, likely


def _noise(plan: Plan) -> Float:
    """Least, median and greatest standard deviation over the columns, shape (3,)."""
    return np.quantile(plan.noise_sd.to_numpy(dtype=np.float64), [0.0, 0.5, 1.0])


COSTS = {
    ("noise", True): "sd of noise in mean gradients",
    ("noise", False): "sd of noise in summed gradients",
    ("risk", True): "excess loss per row, at most",
    ("risk", False): "excess loss of all rows, at most",
}
"""What the vertical axis shows: of a row, or of all."""


def _caption(plan: Any, what: str, pi: float, forecast: Any, *, band: bool) -> list[str]:
    """The caption's sentences."""
    rows = "simulated from the Domain"
    if forecast is not None:
        rows = "as described by typical= or like=" if forecast.known else rows
        rows += ". Band: from more to less informative rows" if band else ""
        rows = f"{rows}. {forecast.assumption}".removesuffix(".").removesuffix(". ")
    marked = "Marks and band" if band else "Marks"
    likely = "the error is likely to be finite"
    if forecast is not None and not forecast.known:
        likely = "less informative rows too are likely to have a finite error"
    finite = f"Dashed: without noise. {marked}: where {likely}."
    proved = f"Proved bound on the loss that privacy adds, with probability {1 - pi:g}."
    legend = {
        "risk": f"{proved} The loss is usually far smaller.",
        "se": f"Forecast for rows {rows}. {finite}",
        "noise": "Line: the median column; band: all columns; columns in model units.",
    }[what]
    delta = f", delta = {plan.guarantee.delta:.4g}" if plan.guarantee.delta else ""
    return [
        legend,
        "Drawn from plans alone, without the data: the picture costs nothing.",
        f"Protected by a fit at eps{delta}: {style.neighbours(plan.guarantee)}.",
        "" if plan.guarantee.certified else f"{style.UNPROTECTED}: {plan.guarantee.reason}.",
    ]


MEASURES = {
    "excess": "predicted excess loss per row",
    "noise": "predicted sd of noise in a coefficient",
    "at_most": "excess loss per row, at most",
}


def methods(
    comparison: Any,
    *,
    what: Literal["excess", "noise", "at_most"] = "excess",
    caption: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """The cost of each method at several numbers of rows.

    Parameters
    ----------
    comparison : Comparison
        Of `dpstats.compare`.
    what : {"excess", "noise", "at_most"}
        The predicted excess of the mean loss, the predicted standard deviation of the noise in a coefficient, root mean
        square in model units, or the proved bound on the excess, in the mean.
    caption, ax
        As for `coefficients`.

    Examples
    --------
    >>> import dpstats as dp
    >>> comparison = dp.compare("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, n=5000)
    >>> dp.plots.methods(comparison).get_xlabel()
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
    proved = what == "at_most"
    return style.finish(
        ax,
        f"Which method: {comparison.formula}",
        "A proved bound, for any rows." if proved else "A prediction for rows drawn evenly from the Domain.",
        f"{comparison.description}.",
        "Drawn from plans alone, without the data: the picture costs nothing.",
        labels=("rows", MEASURES[what]),
        legend="best",
        caption=caption,
    )

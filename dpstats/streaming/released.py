"""What a stream has released, looked at again: past ticks, intervals, changes. Nothing is charged for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_choice
from dpstats.errors import ArgumentError, StreamError
from dpstats.frames import WideFrame
from dpstats.plots import style
from dpstats.privacy.guarantee import Guarantee
from dpstats.quiet import quiet
from dpstats.streaming.plan import StreamPlan, promise
from dpstats.streaming.results import StreamResults, change_table
from dpstats.streaming.running import RunningStream
from dpstats.streaming.sums.workloads import Window

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]


class ReleasedTicks:
    """The side of a stream that shows: post-processing of released sums.

    Parameters
    ----------
    plan : StreamPlan
    running : Running

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng, domain = np.random.default_rng(0), {"x": (0, 1), "y": (0, 1)}
    >>> stream = dp.streaming.Regression("y ~ x", domain, eps=1, delta=1e-6, horizon=12)
    >>> for month in range(4):
    ...     fit = stream.update({"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)})
    >>> stream.tick, stream.params.equals(fit.params), stream.guarantee.certified
    (4, True, True)
    >>> "tick" in stream.history.columns
    True
    """

    def __init__(self, plan: StreamPlan, running: RunningStream) -> None:
        self._plan, self._running = plan, running

    def plan(self) -> StreamPlan:
        """What the stream releases and costs, by tick: reads nothing and charges nothing.

        Examples
        --------
        >>> stream.plan().horizon
        12
        """
        return self._plan

    @property
    def guarantee(self) -> Guarantee:
        """Of everything that the stream ever shows."""
        return self._plan.guarantee

    @property
    def tick(self) -> int:
        """Ticks closed so far."""
        return self._running.tick

    @property
    def label(self) -> str | None:
        """The public value of the tick that was closed last, where ticks have one; see `run`."""
        return self._running.label

    @property
    def params(self) -> pd.Series[float]:
        """The latest coefficients in the user's units; before the first tick those of the null model."""
        matrix, shift = self._plan.design.back_transform()
        return pd.Series(
            matrix @ self._running.releases.last.params + shift, index=list(self._plan.names), name="params"
        )

    @property
    def results(self) -> StreamResults:
        """The regression of the tick that was closed last."""
        return self.at(self.tick)

    def at(self, tick: int) -> StreamResults:
        """The regression as it was released at a past tick.

        Raises
        ------
        ArgumentError
            If there is none, or it is not remembered.

        Examples
        --------
        >>> stream.at(2).params.index.tolist()
        ['Intercept', 'x']
        """
        tick = _whole("tick", tick)
        if tick < 1:
            raise ArgumentError("tick must be at least 1: nothing has been released before the first tick")
        found = self._running.releases.at(tick)
        workload = self._plan.sums.mechanism.workload
        start = max(0, tick - workload.window) if isinstance(workload, Window) else int(found.start[0])
        plan = self._plan
        deviation = plan.interval_deviation(start, tick) if plan.may_start_late else plan.deviation(tick)
        return self._results(found.params, found.released, deviation, start, tick)

    def between(self, a: int, b: int) -> StreamResults:
        """The regression of the ticks a + 1, ..., b: from the same noisy sums, at no charge.

        Parameters
        ----------
        a, b : int
            0 <= a < b <= tick.

        Raises
        ------
        ArgumentError
            If the interval is empty or not over yet, or its ends are not remembered.

        Examples
        --------
        >>> stream.between(1, 3).params.index.tolist()
        ['Intercept', 'x']
        """
        a, b = _whole("a", a), _whole("b", b)
        if not 0 <= a < b <= self.tick:
            raise ArgumentError(f"between needs 0 <= a < b <= {self.tick}, the ticks so far")
        sums = self._running.releases.at(b).total - self._running.releases.at(a).total
        deviation = self._plan.interval_deviation(a, b)
        with quiet():
            params = self._plan.fitting.params(sums, deviation, ticks=b - a)
        return self._results(params, sums, deviation, a, b)

    def _results(self, params: Float, sums: Float, deviation: float, a: int, b: int) -> StreamResults:
        """The regression of the ticks a + 1, ..., b."""
        far, weights = self._running.linearised(a, b)
        ticks: dict[str, Any] = {"first": a + 1, "last": b, "linearised": far, "weights": weights}
        return StreamResults(self._plan, params, sums=sums, deviation=deviation, **ticks)

    def window(self, ticks: int) -> StreamResults:
        """The regression of the last `ticks` ticks; see `between`.

        Examples
        --------
        >>> stream.window(2).conf_int().shape
        (2, 2)
        """
        ticks = _whole("ticks", ticks)
        if self.tick == 0:
            raise ArgumentError("ticks: no tick has been closed yet; update(rows) closes one")
        if not 1 <= ticks <= self.tick:
            raise ArgumentError(f"ticks must be a number from 1 to {self.tick}, those so far")
        return self.between(self.tick - ticks, self.tick)

    def change(self, ticks: int) -> pd.DataFrame:
        """How coefficients of the last `ticks` ticks differ from those of as many ticks before, with errors.

        Returns
        -------
        DataFrame
            Indexed by term: change, std_error, z, p_value, low, high.

        Raises
        ------
        ArgumentError
            If there have not been twice as many ticks.
        NotReleasedError
            If there are no errors, see `StreamResults.bse`.

        Examples
        --------
        >>> stream.change(2).index.tolist()
        ['Intercept', 'x']
        """
        ticks = _whole("ticks", ticks)
        if not 1 <= 2 * ticks <= self.tick:
            raise ArgumentError(f"change needs twice its ticks, {2 * ticks}, and there are {self.tick} so far")
        ends = [(self.tick - ticks, self.tick), (self.tick - 2 * ticks, self.tick - ticks)]
        later, earlier = (self.between(a, b) for a, b in ends)
        covariance = self._plan.sums.covariance(ends)
        correlation = float(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]))
        return change_table(self._plan.names, later, earlier, correlation)

    @property
    def history(self) -> pd.DataFrame:
        """The coefficients of every remembered tick, a row a coefficient: tick, term, estimate, scaled_estimate."""
        matrix, shift = self._plan.design.back_transform()
        ticks = list(range(self._running.releases.first, self.tick + 1))
        scaled = np.array([self._running.releases.at(tick).params for tick in ticks]).reshape(len(ticks), -1)
        names = list(self._plan.names)
        return WideFrame(
            {
                "tick": np.repeat(np.array(ticks, dtype=np.int64), len(names)),
                "term": names * len(ticks),
                "estimate": (scaled @ matrix.T + shift).ravel() if ticks else np.zeros(0),
                "scaled_estimate": scaled.ravel() if ticks else np.zeros(0),
            }
        )

    def plot(self, term: str, *, window: int | None = None, ax: Axes | None = None) -> Axes:
        """Draw a coefficient over the remembered ticks with 95 % intervals.

        Parameters
        ----------
        term : str
            Its name, see ``plan().names``.
        window : int, optional
            Of the last so many ticks at each tick, rather than as it was released.
        ax : Axes, optional
            To draw on; by default those of a new figure.

        Raises
        ------
        ArgumentError
            If there is no such coefficient or no tick to draw, or matplotlib is not installed.

        Examples
        --------
        >>> stream.plot("x").get_xlabel()  # with the extra "plots"
        'tick'
        """
        check_choice("term", term, self._plan.names)
        first = self._running.releases.first + (0 if window is None else _whole("window", window))
        ticks = range(first if window is None else max(first - 1, window), self.tick + 1)
        if not ticks or (window is not None and window < 1):
            raise ArgumentError("window must be positive, and there must be a tick to draw: close one with update")
        found = [self.at(tick) if window is None else self.between(tick - window, tick) for tick in ticks]
        of = self._plan.workload if window is None else f"the last {window} ticks"
        return coefficient_picture(found, term, f"{term}: {of}", ax)

    def __repr__(self) -> str:
        return f"<Regression: tick {self.tick}, {self._plan.description}>"

    def __reduce__(self) -> Any:
        raise StreamError("a stream is not pickled or copied: give it state=, from which it goes on")


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentError(f"{name} must be an integer: a number of ticks")
    return int(value)


MOST_TICKS = 60
"""Ticks of which a picture has intervals, evenly spread."""


def coefficient_picture(results: Sequence[StreamResults], term: str, title: str, ax: Axes | None) -> Axes:
    """A coefficient over the ticks at which the results end, with 95 % intervals where there are any."""
    ax = style.new_axes(ax)
    plan = results[0].plan
    ticks = np.array([result.last for result in results])
    values = np.array([result.params[term] for result in results])
    if results[0].has_errors:
        chosen = list(results)
        if len(results) > MOST_TICKS:
            chosen = [results[place] for place in np.linspace(0, len(results) - 1, MOST_TICKS).astype(int)]
        ends = np.array([result.conf_int().loc[term].to_numpy(dtype=float) for result in chosen])
        middle = np.array([result.debiased[term] for result in chosen])
        at = np.array([result.last for result in chosen])
        shown = np.isfinite(ends).all(axis=1)
        if shown.any():
            ax.fill_between(
                at[shown],
                ends[shown, 0],
                ends[shown, 1],
                color=style.SKY,
                alpha=0.3,
                linewidth=0,
                label="95 % interval",
            )
            ax.plot(at[shown], middle[shown], color=style.BLUE, linewidth=1.6, label="without shrinkage")
    ax.plot(ticks, values, color=style.ORANGE, linewidth=1.2, linestyle="--", label="params, for prediction")
    style.name_axes(ax, "tick", f"coefficient of {term}")
    lines = style.show_legend_above(ax)
    style.finish(
        ax, title, "Intervals hold sampling error and noise.", promise(plan, "the whole stream"), lines_above=lines
    )
    return ax

"""A regression that is released again at every tick of a stream, for ever, under one charge."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_choice
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, StreamError
from dpstats.families import Family
from dpstats.penalties import Penalty
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger.opening import LedgerLike
from dpstats.quiet import quiet, sealed
from dpstats.streaming.constraints import Constraint
from dpstats.streaming.feeding import Feed, Tick
from dpstats.streaming.making import make_plan
from dpstats.streaming.pictures import coefficient_picture
from dpstats.streaming.planning import StreamPlan
from dpstats.streaming.results import StreamResults, change_table
from dpstats.streaming.running import Running
from dpstats.streaming.sums import Workload
from dpstats.streaming.sums.workloads import Window

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]

RECALL = 512
"""Releases kept in memory where no file keeps them."""


class Regression:
    """A regression of a stream of rows, released again at every tick.

    A stream is a sequence of ticks, a public clock: a batch, a day, a month. How many rows a tick brings is private. At
    each tick the noisy sums of bounded statistics of all rows are released; coefficients, errors, windows and changes
    follow from them at no further charge.

    Parameters
    ----------
    formula : str
        As for `dpstats.glm`, without weights and offsets.
    domain : Domain or dict
        Declares every column that the formula reads: nothing of a stream can be bought beforehand.
    eps, delta : float
        The budget of the whole stream. With ``delta=0`` the noise is pure, a tree of sums, and larger.
    family : str or Family
    mechanism : {"linear", "renewable"}, optional
        "linear" releases the sums of x y and x x'; the default of the Gaussian family. "renewable" linearises a tick's
        rows at the coefficients released before it; that of all others.
    horizon : int, optional
        The last tick. Left out, a million ticks are declared, for 30 to 45 % more noise.
    halflife : float, optional
        A tick counts half after so many ticks: the stream may run for ever.
    window : int, optional
        Each regression is of the last `window` ticks: likewise.
    workload : Workload or str, optional
        The same in one object, see `dpstats.streaming.sums`.
    participation : sequence of int
        Offsets of the ticks in which one person may have a row, such as ``(0, 1, 2, 3, 12, 13, 14, 15)``: the guarantee
        is then the person's. Whoever feeds the stream answers for it.
    sums : {"blt", "toeplitz", "tree", "honaker", "knorm_tree"}, optional
        The noise of the sums; "blt" has nearly the least in constant memory.
    penalty, alpha : str or Penalty, float
        Convex, as for `dpstats.glm`, beside the ridge that the noise asks for.
    constraint : Constraint, optional
        A set of ``dpstats.streaming.constraints`` for the coefficients in model units, the intercept aside, in place of
        the ridge: `params` lies in it.
    solver : {"accelerated", "paper"}
        For a constraint: to a certified gap, or the averaged descent that Kasiviswanathan, Nissim and Jin print, for a
        model without an intercept.
    radius : float, optional
        Public guess at the norm of the coefficients in the metric of the rows, from which ridge and noise are balanced.
    adjacency : {"add_remove", "replace_one"}
        Of one row in its tick; ticks are public.
    ledger : Ledger, Part or path, optional
        Charged once, durably, before the first row is read; it keeps the tick, so that an old copy of the state is
        refused.
    state : path, optional
        Of the file from which the stream goes on after the process has ended, however it ended. It holds private data.
        The releases are kept beside it, in a file with ".releases" added to the name.
    recall : int
        Without `state` so many releases are remembered for `between`, `window` and `history`.
    rows_guess : float
        Public guess at the rows of a tick, for the predictions of `plan` alone.
    seed : int, optional
        For tests only; the guarantee is then not certified.

    Attributes
    ----------
    tick : int
        Ticks closed so far.

    Raises
    ------
    ArgumentError, FormulaError, DomainError
        Naming the argument and the fix; nothing is read or charged.
    StreamError
        If `state` holds another stream, or is not the valid state of this one.

    Notes
    -----
    The guarantee is proved in docs/proofs/streams. The state is on the disk before a release is returned, so that a
    process that is killed repeats the same numbers.

    Examples
    --------
    >>> stream = dp.streaming.Regression("y ~ x", domain, eps=1, delta=1e-6, horizon=120)  # doctest: +SKIP
    >>> print(stream.plan())  # doctest: +SKIP
    >>> for month in months:  # doctest: +SKIP
    ...     print(stream.update(month).params)
    >>> stream.window(12).summary()  # doctest: +SKIP
    """

    def __init__(
        self,
        formula: str,
        domain: Domain | Mapping[str, Any],
        eps: float,
        delta: float = 0.0,
        *,
        family: str | Family = "gaussian",
        mechanism: str | None = None,
        horizon: int | None = None,
        halflife: float | None = None,
        window: int | None = None,
        workload: Workload | str | None = None,
        participation: Sequence[int] = (0,),
        sums: str | None = None,
        penalty: str | Penalty | None = None,
        alpha: float | None = None,
        constraint: Constraint | None = None,
        solver: str = "accelerated",
        radius: float | None = None,
        adjacency: str = "add_remove",
        ledger: LedgerLike = None,
        state: str | os.PathLike[str] | None = None,
        recall: int = RECALL,
        rows_guess: float = 1000.0,
        seed: int | None = None,
    ) -> None:
        self._plan = make_plan(
            formula,
            domain,
            eps,
            delta,
            family=family,
            mechanism=mechanism,
            sums=sums,
            horizon=horizon,
            halflife=halflife,
            window=window,
            workload=workload,
            participation=participation,
            penalty=penalty,
            alpha=alpha,
            constraint=constraint,
            solver=solver,
            radius=radius,
            adjacency=adjacency,
            rows_guess=rows_guess,
            seeded=seed is not None,
        )
        self._domain = Domain.coerce(domain)
        self._running = Running(self._plan, ledger=ledger, state=state, recall=recall, seed=seed)

    def plan(self) -> StreamPlan:
        """What the stream releases and costs, by tick: reads nothing and charges nothing."""
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

    @sealed
    def update(self, rows: object, *, label: str | None = None) -> StreamResults:
        """Close a tick with its rows and release its regression.

        Parameters
        ----------
        rows : DataFrame or another table
            All rows of the tick, perhaps none; whatever `dpstats.glm` takes.
        label : str, optional
            A public name of the tick, such as the month; labels must increase.

        Returns
        -------
        StreamResults

        Raises
        ------
        ArgumentError, DataError, DomainError
            By the schema of `rows` alone; nothing was read, charged or released.
        StreamError
            If the stream is past its horizon, or its state is not the valid one: nothing was released.
        BudgetExceeded, LedgerError
            If the ledger does not take the charge, before the first tick.
        ReleaseError
            If it fails after rows were read; the tick is still open.
        """
        running = self._running
        with running.alone():
            running.check_usable()
            running.check_label(label)
            table = running.table(rows)
            running.begin()
            running.close(Tick([table], label))
            return self.at(self.tick)

    def run(self, data: object, *, tick: int | str | None = None, until: int | None = None) -> Iterator[StreamResults]:
        """Close one tick after another with the rows of a table, of files, or of an iterator.

        Parameters
        ----------
        data : DataFrame or another table, path, or iterator of tables
            Each item of an iterator is a tick, unless `tick` is a number.
        tick : int or str, optional
            A number of rows: every so many rows, in their order, are a tick, the last of what is left. The number of
            rows is then public, and a neighbour is a stream in which one row is empty. Or a column whose levels the
            Domain declares, in their order: each level is a tick, with rows or without.
        until : int, optional
            Stop after tick number `until`; the last level of a column by default.

        Yields
        ------
        StreamResults
            Of each tick as it is closed; nothing happens before one is asked for. A stream that goes on begins with the
            level after the last tick; of rows and items it takes the next that it is given.

        Raises
        ------
        ArgumentError, DataError, DomainError
            As for `update`, before anything is read; for an iterator before the item is.
        StreamError, BudgetExceeded, LedgerError, ReleaseError
            As for `update`.
        """
        feed = Feed(self._running, self._domain, data, tick, until)
        return (self.at(self.tick) for _ in feed)

    def at(self, tick: int) -> StreamResults:
        """The regression as it was released at a past tick.

        Raises
        ------
        ArgumentError
            If there is none, or it is not remembered.
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
        """The regression of the last `ticks` ticks; see `between`."""
        ticks = _whole("ticks", ticks)
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
        return pd.DataFrame(
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

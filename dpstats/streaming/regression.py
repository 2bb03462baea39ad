"""A regression that is released again at every tick of a stream, for ever, under one charge.

What it has released is looked at again at no charge: past ticks, intervals, changes.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_choice, explain_calls, is_whole
from dpstats.call import PlanKeywords, RowKeywords, expand_signature, split_kwargs
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, StreamError
from dpstats.families import Family
from dpstats.frames import WideFrame
from dpstats.ledger.ledger import LedgerLike
from dpstats.models.sources import FormulaSource, model_formula
from dpstats.plan.row_counts import RowCount
from dpstats.privacy.guarantee import Guarantee, check_budget
from dpstats.quiet import hide_frames, quiet
from dpstats.results.glm_results import GLMResults
from dpstats.streaming.plan import StreamPlan
from dpstats.streaming.refits import RefitsPlan, RunningRefits, Schedule, make_schedule
from dpstats.streaming.request import STREAM_DEFAULTS, StreamKeywords, make_plan
from dpstats.streaming.results import StreamResults, change_table, coefficient_picture
from dpstats.streaming.running import RunningStream
from dpstats.streaming.sums.workloads import Window
from dpstats.streaming.ticks import TickFeed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]

RECALL = 512  # Releases kept in memory without a state file

FALLEN = 0.5
"""A stream warns where its last ticks used less than this part of the rows that the ticks before them used."""

SURE = 5.0
"""So many standard deviations of the noise beyond that: noise alone warns in fewer than one tick of 100,000."""

_log = logging.getLogger("dpstats")


class _Stream:
    """What a regression has whose strategy is chosen by `mechanism`: sums of all ticks, or fits made anew.

    Apart from `Regression`, whose signature would else be that of ``__new__``.
    """

    _running: RunningStream | RunningRefits

    def __new__(cls, *arguments: Any, mechanism: str | None = None, **options: Any) -> Self:
        if not _is_refits(mechanism):
            return super().__new__(cls)
        if options.get("horizon") is None:
            raise ArgumentError("horizon must be given for mechanism='refits', whose fits share the budget")
        return super().__new__(Refits)  # type: ignore[return-value]

    @property
    def guarantee(self) -> Guarantee:
        """Of everything that the stream ever shows."""
        return self._running.plan.guarantee

    @property
    def tick(self) -> int:
        """Ticks closed so far."""
        return self._running.tick

    def __reduce__(self) -> Any:
        raise StreamError("a stream cannot be pickled or copied: pass state=, from which it continues")


class Regression(_Stream):
    """A regression of a stream of rows, released again at every tick.

    A stream is a sequence of ticks of a public clock: a batch, a day, a month. The number of rows of a tick is private.
    At each tick the noisy sums of bounded statistics of all rows are released; coefficients, errors, windows and
    changes follow from them at no further cost.

    Parameters
    ----------
    formula : str
        As for `dpstats.glm`; a binomial response may be ``successes + failures``.
    domain : Domain or dict
        Must declare every column that the formula reads, because a stream cannot buy ranges.
    eps, delta : float
        The budget of the whole stream. With ``delta=0`` the noise is pure, a tree of sums, and larger.
    family : str or Family
    mechanism : {"linear", "renewable", "projected", "refits"}, optional
        "linear", the default of the Gaussian family, releases the sums of x y and x x'. "renewable", the default of all
        other families, linearises the rows of a tick at the coefficients released before it. "projected" is "linear"
        along few public random directions, for wide rows. "refits" fits any method of `dpstats.glm` again at a few
        ticks: the stream is a `Refits`, with all its arguments, and its `update` takes all rows so far.
    weights, offset, exposure, subset : str, optional
        As for `dpstats.glm`: a column or an expression of columns, or terms of the formula. Weighted streams have no
        errors.
    horizon : int, optional
        The last tick. By default a million ticks are planned, with 1.8 times the noise of a horizon of 6 ticks, 1.6
        times that of 24, 1.45 times that of 120, 1.3 times that of 1,000 and 1.2 times that of 10,000.
    halflife : float, optional
        The number of ticks after which the weight of a tick is one half. The stream may run for ever.
    window : int, optional
        Each regression covers the last `window` ticks. The stream may run for ever.
    workload : Workload or str, optional
        The same in one object, see `dpstats.streaming.sums`.
    participation : sequence of int
        Offsets of the ticks in which one person may have a row, such as ``(0, 1, 2, 3, 12, 13, 14, 15)``. The guarantee
        is then for persons, and the caller is responsible for this pattern.
    unit : str, optional
        The name of a person in the guarantee, as in the ledger that pays for it; by default "person" if `participation`
        has several ticks. Otherwise a person has one row in the whole stream. **The stream does not check this**:
        unlike `dpstats.glm`, it does not look for persons in its rows, and a person with more rows has a weaker
        guarantee.
    sums : {"blt", "toeplitz", "tree", "honaker", "knorm_tree"}, optional
        The noise of the sums; "blt" has nearly the least noise, in constant memory.
    penalty, alpha : str or Penalty, float
        A convex penalty, as for `dpstats.glm`, in addition to the ridge penalty for the noise.
    constraint : Constraint, optional
        A set of ``dpstats.streaming.constraints`` for the coefficients in model units, without the intercept, instead
        of the ridge: `params` lies in it. "projected" needs one.
    solver : {"accelerated", "paper"}
        For a constraint: a solver with a certified gap, or the averaged descent of Kasiviswanathan, Nissim and Jin, for
        a model without an intercept.
    radius : float, optional
        Public guess at the norm of the coefficients in the metric of the rows; it determines the ridge.
    directions : int or {"auto", "printed"}, optional
        For "projected": the number of directions; "auto" balances sketch and noise within a quarter of a million sums.
    region : Constraint or int, optional
        For "projected": rows outside it count as zeros; a set of rows in model units, or the largest number of entries
        that are not 0.
    projection_seed : int, optional
        For "projected": the seed of its public matrix, 0 by default.
    lift : bool
        For "projected": whether to release the coefficients of least gauge among those with the same sketch, which
        takes seconds per tick, or the first ones found.
    adjacency : {"add_remove", "replace_one"}
        For one row in its tick; ticks are public.
    ledger : Ledger, Part or path, optional
        Charged once, durably, before the first row is read; it stores the tick, so an old copy of the state is refused.
    state : path, optional
        The file from which the stream continues after the process has ended. It holds private data. The releases are
        stored next to it, in a file with ".releases" added to the name.
    recall : int
        Without `state`, the number of releases kept for `between`, `window` and `history`.
    rows_guess : float
        Public guess at the number of rows of a tick, for the predictions of `plan` and directions="auto".
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
    The guarantee is proved in docs/proofs/streams (docs/proofs/geometry for "projected"). The state is on the disk
    before a release is returned, so a process that is killed repeats the same numbers.

    Examples
    --------
    >>> stream = dp.streaming.Regression("y ~ x", domain, eps=1, delta=1e-6, horizon=120)  # doctest: +SKIP
    >>> print(stream.plan())  # doctest: +SKIP
    >>> for month in months:  # doctest: +SKIP
    ...     print(stream.update(month).params)
    >>> stream.window(12).summary()  # doctest: +SKIP

    >>> import dpstats as dp
    >>> ball = dp.streaming.constraints.L1Ball(1.0)
    >>> domain = {"word": [f"w{i}" for i in range(100)], "y": (-1, 1)}
    >>> wide = dict(mechanism="projected", directions=20, constraint=ball, horizon=100)
    >>> dp.streaming.Regression("y ~ word - 1", domain, 1, 1e-6, **wide).plan().vector.size
    230
    >>> dp.streaming.Regression("y ~ word - 1", domain, 1, mechanism="refits", horizon=12).plan().schedule.times
    (1, 2, 3, 5, 7, 11)

    >>> import numpy as np
    >>> rng, domain = np.random.default_rng(0), {"x": (0, 1), "y": (0, 1)}
    >>> stream = dp.streaming.Regression("y ~ x", domain, eps=1, delta=1e-6, horizon=12)
    >>> for month in range(4):
    ...     fit = stream.update({"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)})
    >>> stream.tick, stream.params.equals(fit.params), stream.guarantee.certified, stream.plan().horizon
    (4, True, True, 12)
    >>> [(one.first, one.last) for one in (stream.at(2), stream.between(1, 3), stream.window(2))]
    [(1, 2), (2, 3), (3, 4)]
    >>> stream.change(2).index.tolist(), stream.history.columns.tolist()
    (['Intercept', 'x'], ['tick', 'term', 'released', 'scaled_released'])
    >>> stream.plot("x").get_xlabel()  # with the extra "plots"
    'tick'
    """

    @explain_calls()
    @expand_signature(StreamKeywords, defaults=STREAM_DEFAULTS)
    def __init__(
        self,
        formula: str,
        domain: Domain | Mapping[str, Any],
        eps: float,
        delta: float = 0.0,
        *,
        ledger: LedgerLike = None,
        state: str | os.PathLike[str] | None = None,
        recall: int = RECALL,
        seed: int | None = None,
        **arguments: Unpack[StreamKeywords],
    ) -> None:
        begun = isinstance(state, (str, os.PathLike)) and os.path.exists(state)
        plan = make_plan(formula, domain, eps, delta, seeded=seed is not None, begun=begun, **arguments)
        self._running: RunningStream = RunningStream(plan, ledger=ledger, state=state, recall=recall, seed=seed)
        self._warned = False
        self._domain = Domain.coerce(domain)

    @hide_frames
    def update(self, rows: object, *, label: str | None = None) -> StreamResults:
        """Close a tick with its rows and release its regression.

        A tick that is computed but cannot be recorded (the disk is full, or the ledger stays locked) is kept: the next
        call records and shows it and ignores `rows`, because a tick has only one release.

        Parameters
        ----------
        rows : DataFrame or another table
            All rows of the tick, possibly none, in any form that `dpstats.glm` accepts.
        label : str, optional
            A public name of the tick, such as ``"2026-9"``. Labels must increase: ``"2026-10"`` comes after it, as
            numbers are compared, and the first of several numbers must be the year. Where labels have no such order,
            as with Jan and Feb, each can be given once.

        Raises
        ------
        ArgumentError, DataError, DomainError
            By the schema of `rows` alone; nothing was read, charged or released.
        StreamError
            If the stream is past its horizon, or its state is not the valid one or cannot be written: nothing was
            released.
        BudgetExceeded, LedgerError
            If the ledger does not take the charge, before the first tick, or cannot be written.
        ReleaseError
            If it fails after rows were read; the tick is still open.
        """
        self._running.update(rows, label)
        return self._closed()

    def run(self, data: object, *, tick: int | str | None = None, until: int | None = None) -> Iterator[StreamResults]:
        """Close one tick after another with the rows of a table, of files, or of an iterator.

        Parameters
        ----------
        data : DataFrame or another table, path, or iterator of tables
            Each item of an iterator is a tick, unless `tick` is a number.
        tick : int or str, optional
            A number of rows per tick, in their order; the last tick has the remaining rows. The number of rows is then
            public, and a neighbour is a stream in which one row is empty. Or a column whose levels the Domain declares,
            in their order: each level is a tick, with or without rows.
        until : int, optional
            Stop after tick number `until`; by default after the last level of a column, which must be within the
            horizon, and after the horizon otherwise, of which a warning is logged.

        Yields
        ------
        StreamResults
            One for each tick, computed when it is requested. A stream that continues starts with the level after the
            last tick, or with the next rows and items that it is passed.

        Raises
        ------
        ArgumentError, DataError, DomainError
            As for `update`, before anything is read; for an iterator before the item is.
        StreamError, BudgetExceeded, LedgerError, ReleaseError
            As for `update`.

        Examples
        --------
        >>> months = {"x": (0, 1), "y": (0, 1), "month": ["May", "June"]}
        >>> stream = dp.streaming.Regression("y ~ x", months, 1, 1e-6, horizon=12)
        >>> rows = {"x": [0.2, 0.4], "y": [0.1, 0.9], "month": ["May", "June"]}
        >>> [stream.label for _ in stream.run(rows, tick="month")]
        ['May', 'June']
        """
        feed = TickFeed(self._running, self._domain, data, tick, until)
        return (self._closed(whole=not feed.is_rest) for _ in feed)

    def plan(self) -> StreamPlan:
        """What the stream releases and costs, by tick: reads nothing and charges nothing."""
        return self._running.plan

    @property
    def label(self) -> str | None:
        """The public name of the tick that was closed last, where ticks have one; see `update` and `run`."""
        return self._running.label

    @property
    def params(self) -> pd.Series[float]:
        """The latest coefficients in the user's units; before the first tick those of the null model."""
        plan, (matrix, shift) = self._running.plan, self._running.plan.design.back_transform()
        scaled = self._running.releases.last.params
        return pd.Series(matrix @ scaled + shift, index=list(plan.names), name="params")

    @property
    def results(self) -> StreamResults:
        """The regression of the tick that was closed last."""
        return self.at(self.tick)

    def at(self, tick: int) -> StreamResults:
        """The regression released at a past tick; ArgumentError if there is none, or it is not remembered."""
        tick = check_ticks("tick", tick)
        if self.tick == 0:
            raise ArgumentError("tick: no tick has been closed yet; update(rows) closes one")
        if not 1 <= tick <= self.tick:
            raise ArgumentError(f"tick must be a number from 1 to {self.tick}, those so far")
        plan, release = self._running.plan, self._running.releases.at(tick)
        workload = plan.sums.mechanism.workload
        start = max(0, tick - workload.window) if isinstance(workload, Window) else int(release.start[0])
        deviation = plan.interval_deviation(start, tick) if plan.may_start_late else plan.deviation(tick)
        late = start > 0 and plan.may_start_late
        results = self._results(release.params, release.released, deviation, start, tick)
        return self._or_with_errors(replace(results, late=late))

    def between(self, a: int, b: int) -> StreamResults:
        """The regression of the ticks a + 1, ..., b, with 0 <= a < b <= tick, from the same noisy sums, at no cost.

        ArgumentError if the interval is empty or not over yet, or its ends are not remembered.
        """
        a, b = check_ticks("a", a), check_ticks("b", b)
        if not 0 <= a < b <= self.tick:
            raise ArgumentError(f"between needs 0 <= a < b <= {self.tick}, the ticks so far")
        return self._or_with_errors(self._interval(a, b))

    def _interval(self, a: int, b: int) -> StreamResults:
        """See `between`."""
        plan, releases = self._running.plan, self._running.releases
        sums, deviation = releases.at(b).total - releases.at(a).total, plan.interval_deviation(a, b)
        with quiet():
            params = plan.fitting.params(sums, deviation, ticks=b - a)
        return self._results(params, sums, deviation, a, b)

    def _results(self, params: Float, sums: Float, deviation: float, a: int, b: int) -> StreamResults:
        """The regression of the ticks a + 1, ..., b."""
        linearised, weights = self._running.linearised(a, b)
        return StreamResults(self._running.plan, params, sums, deviation, a + 1, b, linearised, weights)

    def _or_with_errors(self, results: StreamResults) -> StreamResults:
        """A regression that names ticks with errors, the nearest in number of some that end where its own do.

        Itself if it has errors, or no regression of the stream has.
        """
        if results.has_errors or results.plan.without_errors is not None:
            return results
        last, ticks = results.last, results.last - results.first + 1
        lengths = {last, *(round(2 ** (half / 2)) for half in range(2 * last.bit_length()))}
        starts = [last - length for length in sorted(lengths, key=lambda length: abs(length - ticks))]
        for start in starts:
            kept = start == 0 or start >= self._running.releases.first
            if kept and self._interval(start, last).has_errors:
                return replace(results, with_errors=(start, last))
        return results

    def _closed(self, *, whole: bool = True) -> StreamResults:
        """The regression of the tick that was just closed; a warning, once a process, if ticks use far fewer rows.

        A tick that is not `whole` has fewer rows than the others by their public number.
        """
        if whole and not self._warned and (fallen := self._fallen_rows()) is not None:
            self._warned = True
            _log.warning("dpstats: %s", fallen)
        return self.results

    def _fallen_rows(self) -> str | None:
        """That the last ticks use far fewer rows than those before, by the noisy sums; None if noise may explain it."""
        # Rows count by their weight in the fit, which the first ticks move.
        tick, start = self.tick, self.tick // 4
        start = max(start, self._running.releases.first) if start else 0
        for length in (2**power for power in range(tick.bit_length()) if 2 * 2**power <= tick - start):
            later, before = self._rows(tick - length, tick), self._rows(start, tick - length)
            if later is None or before is None:
                return None
            number = tick - length - start
            part = FALLEN * length / number
            if later.value + SURE * math.hypot(later.std_error, part * before.std_error) < part * before.value:
                ticks = f"each of the last {length} ticks" if length > 1 else "the last tick"
                rows = "rows" if self._running.plan.method == "linear" else "effective rows"
                return (
                    f"{ticks} used about {max(later.value, 0) / length:,.0f} {rows}, by the noisy sums, and the ticks "
                    f"{start + 1} to {tick - length} about {before.value / number:,.0f} each: if no fewer rows were "
                    "passed, compare their cells with the Domain, since a level may have been renamed. run(tick=) "
                    "closes each declared level as a tick, with or without rows; until= stops it earlier"
                )
        return None

    def _rows(self, a: int, b: int) -> RowCount | None:
        """About how many rows the ticks a + 1, ..., b used; see `StreamResults.rows`."""
        plan, releases = self._running.plan, self._running.releases
        sums, deviation = releases.at(b).total - releases.at(a).total, plan.interval_deviation(a, b)
        none = np.zeros((0, len(plan.names)))
        return StreamResults(plan, releases.last.params, sums, deviation, a + 1, b, none, none[:, 0]).rows

    def window(self, ticks: int) -> StreamResults:
        """The regression of the last `ticks` ticks; see `between`."""
        ticks = check_ticks("ticks", ticks)
        if self.tick == 0:
            raise ArgumentError("ticks: no tick has been closed yet; update(rows) closes one")
        if not 1 <= ticks <= self.tick:
            raise ArgumentError(f"ticks must be a number from 1 to {self.tick}, those so far")
        return self.between(self.tick - ticks, self.tick)

    def change(self, ticks: int) -> pd.DataFrame:
        """Differences of coefficients between the last `ticks` ticks and as many ticks before, with errors.

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
        ticks = check_ticks("ticks", ticks)
        if not 1 <= 2 * ticks <= self.tick:
            raise ArgumentError(f"change needs twice its ticks, {2 * ticks}, and there are {self.tick} so far")
        ends = [(self.tick - ticks, self.tick), (self.tick - 2 * ticks, self.tick - ticks)]
        later, earlier = (self.between(a, b) for a, b in ends)
        return change_table(later, earlier, self._running.plan.sums.covariance(ends))

    @property
    def history(self) -> pd.DataFrame:
        """The coefficients of every remembered tick as released: tick, term, released, scaled_released.

        They are `params`, shrunken according to the noise. ``at(tick).tidy()`` has the bias-corrected estimates of a
        tick with their errors, which are computed for one tick at a time.
        """
        matrix, shift = self._running.plan.design.back_transform()
        names, ticks = list(self._running.plan.names), np.arange(self._running.releases.first, self.tick + 1)
        params = [self._running.releases.at(tick).params for tick in ticks.tolist()]
        scaled = np.array(params).reshape(len(ticks), len(names))
        columns = {"tick": np.repeat(ticks, len(names)), "term": names * len(ticks)}
        return WideFrame(
            {**columns, "released": (scaled @ matrix.T + shift).ravel(), "scaled_released": scaled.ravel()}
        )

    def plot(self, term: str, *, window: int | None = None, caption: bool = True, ax: Axes | None = None) -> Axes:
        """Draw a coefficient over the stored ticks, with 95 % intervals at those that have standard errors.

        Parameters
        ----------
        term : str
            Its name, see ``plan().names``.
        window : int, optional
            Draw the coefficient of the last `window` ticks at each tick instead of the released one.
        caption : bool
            Write below the picture what it shows and what is protected.
        ax : Axes, optional
            To draw on; by default those of a new figure.

        Raises
        ------
        ArgumentError
            If there is no such coefficient or no tick to draw, or matplotlib is not installed.
        """
        plan, first = self._running.plan, self._running.releases.first
        check_choice("term", term, plan.names)
        if window is not None:
            first += check_ticks("window", window) - 1
        if first > self.tick or (window is not None and window < 1):
            raise ArgumentError("window must be positive, and there must be a tick to draw: close one with update")
        ticks = range(first, self.tick + 1)
        results = [self.at(tick) if window is None else self.between(tick - window, tick) for tick in ticks]
        span = plan.workload if window is None else f"the last {window} ticks"
        return coefficient_picture(results, term, f"{term}: {span}", ax, caption=caption)

    def __repr__(self) -> str:
        return f"<Regression: tick {self.tick}{self._running.kept}, {self._running.plan.description}>"


class Refits(Regression):
    """A private regression of a stream of rows, fitted again at ticks fixed beforehand.

    The stream stores no rows: every tick is passed all rows so far, and reads them only if the schedule has the tick. A
    result is on the disk before it is returned, so a process that is killed never makes a second one.

    Parameters
    ----------
    formula : str
    domain : Domain or dict
    eps, delta : float
        The budget of all fits together.
    horizon : int
        The last tick.
    schedule : Schedule or int, optional
        The ticks of the fits: a `dpstats.streaming.Schedule`; a number tau means every tau ticks. By default geometric
        with the ratio 1.6: few fits, each of which misses at most the last 3/8 of the ticks and one tick.
    family, method, penalty, alpha, weights, offset, exposure, subset, adjacency, seed
        As for `dpstats.glm`.
    ledger : Ledger, Part or path, optional
        Charged once, durably, before the first fit; it stores the tick.
    state : path, optional
        The file from which the stream continues after the process has ended.
    **options
        As for `dpstats.glm`, such as ``unit``; ``inference`` is None by default.

    Attributes
    ----------
    tick : int
        Ticks closed so far.
    results : GLMResults or None
        The latest fit.

    Raises
    ------
    ArgumentError, FormulaError, DomainError
        Naming the argument and the fix; nothing is read or charged.
    StreamError
        If `state` holds another stream, or is not the valid state of this one.

    Examples
    --------
    >>> import dpstats as dp
    >>> days = dp.streaming.Refits("y ~ x", {"x": (0, 1), "y": (0, 1)}, eps=1, family="huber_svm", horizon=60)
    >>> days.plan().schedule.times
    (1, 2, 3, 5, 7, 11, 17, 27, 43)
    >>> days.update({"x": [0.1, 0.9], "y": [0, 1]}).params.index.tolist()
    ['Intercept', 'x']
    >>> days.tick, days.fitted, len(days.history), days.plan().guarantee == days.guarantee
    (1, 1, 2, True)
    """

    @explain_calls()
    @expand_signature(PlanKeywords, without=("delta", "seed"))
    def __init__(
        self,
        formula: str,
        domain: Domain | Mapping[str, Any],
        eps: float,
        delta: float = 0.0,
        *,
        horizon: int,
        schedule: Schedule | int | None = None,
        family: str | Family = "gaussian",
        ledger: LedgerLike = None,
        state: str | os.PathLike[str] | None = None,
        seed: int | None = None,
        **arguments: Any,
    ) -> None:
        if _is_refits(arguments.get("mechanism")):  # made by `Regression`
            del arguments["mechanism"]
        row_terms, options = split_kwargs(arguments, RowKeywords)
        formula = model_formula(formula, family, **row_terms)
        declared, times, budget = Domain.coerce(domain), make_schedule(schedule, horizon), check_budget(eps, delta)
        source, options = FormulaSource(formula, None, declared), {"inference": None, **options}
        self._running: RunningRefits  # type: ignore[assignment]
        self._running = RunningRefits(source, family, options, times, budget, ledger=ledger, state=state, seed=seed)

    @property
    def results(self) -> GLMResults | None:  # type: ignore[override]
        """The latest fit; None before the first."""
        return self._running.results

    def plan(self) -> RefitsPlan:  # type: ignore[override]
        """When fits will be made and what they cost; reads nothing."""
        return self._running.plan

    @property
    def fitted(self) -> int:
        """The tick of the latest fit; 0 before the first."""
        return self.plan().schedule.latest(self.tick)

    @property
    def params(self) -> pd.Series[float]:
        """The latest coefficients in the user's units; ArgumentError before the first fit."""
        if self.results is None:
            raise ArgumentError(f"params: the first fit is at tick {self.plan().schedule.times[0]}")
        return self.results.params

    @property
    def history(self) -> pd.DataFrame:
        """The coefficients of every fit: tick, term, released; with standard errors also estimate and std_error.

        estimate is bias-corrected. std_error is NaN where the budget does not identify the coefficient.
        """
        columns = ["tick", "term", "estimate", "std_error", "released"]
        table = pd.DataFrame(self._running.history, columns=columns)
        table = table.astype(dict.fromkeys(columns[2:], float))
        return WideFrame(table.drop(columns=[name for name in columns[2:4] if table[name].isna().all()]))

    @hide_frames
    def update(self, so_far: object) -> GLMResults | None:  # type: ignore[override]
        """Close a tick, and fit again if the schedule has this tick.

        A tick that cannot be recorded (the disk is full, or the ledger stays locked) is kept: the next call records and
        shows it and ignores `so_far`.

        Parameters
        ----------
        so_far : DataFrame or another table, or path
            All rows of the ticks so far, including this tick, in any form that `dpstats.glm` accepts. They are read
            only if a fit is due.

        Returns
        -------
        GLMResults or None
            The latest fit, `fitted` ticks after the beginning; None before the first.

        Raises
        ------
        ArgumentError, DataError, DomainError, StreamError, BudgetExceeded, LedgerError, ReleaseError
            As for `Regression.update`.
        """
        self._running.update(so_far, None)
        return self.results

    def _without_sums(self, *_: Any, **__: Any) -> NoReturn:
        """ArgumentError: what other streams answer from their sums."""
        raise ArgumentError(
            "a stream of refits keeps its latest fit (results) and the coefficients of all fits (history): pass "
            "all rows so far to update; only a stream of sums has other ticks, intervals and changes"
        )

    run = at = between = window = change = plot = _without_sums

    def __repr__(self) -> str:
        return f"<Refits: tick {self.tick}{self._running.kept}, fitted at {self.fitted}; {self.guarantee}>"


def _is_refits(mechanism: object) -> bool:
    return isinstance(mechanism, str) and mechanism == "refits"


def check_ticks(name: str, value: object) -> int:
    """`value` as an int; ArgumentError unless it is a whole number."""
    if not is_whole(value):
        raise ArgumentError(f"{name} must be an integer: a number of ticks")
    return int(value)

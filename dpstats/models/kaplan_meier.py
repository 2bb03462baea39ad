"""Survival curves by group from one histogram of who leaves when (docs/proofs/survival)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import explain_calls
from dpstats.call import PrivacyParameters, check_privacy
from dpstats.data import Table, as_table, slices
from dpstats.domain import Domain
from dpstats.errors import FormulaError
from dpstats.formula.reader import BLOCK_ROWS, check_columns
from dpstats.formula.survival import Groups, SurvivalTimes, bind_groups, bind_times, survival_response
from dpstats.ledger import LedgerLike, with_domain
from dpstats.models.release import Release, check_unit, counted_tables
from dpstats.privacy.randomness import check_scale, noisy_integers
from dpstats.quiet import hide_frames
from dpstats.results.kaplan_meier import ALL, KaplanMeier, KaplanMeierPlan

PROOF = "docs/proofs/survival"

INTERVALS = 20
"""By default: the noise in numbers at risk grows with the root of it, and so few are smooth enough to the eye."""


class ExitHistogram(NamedTuple):
    """A person is one count in (group) x (interval of exit by an event, or by censoring, or observed to the end)."""

    times: SurvivalTimes
    groups: Groups

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(dict.fromkeys(name for names, _ in self.parts for name in names))

    @property
    def parts(self) -> tuple[tuple[tuple[str, ...], Domain], ...]:
        """The columns of time, event and groups, each with the Domain that encodes them."""
        return (*self.times.parts, (self.groups.columns, self.groups.domain))

    @property
    def shape(self) -> tuple[int, int]:
        """Groups, and cells of each."""
        return len(self.groups.names), 2 * (len(self.times.breaks) - 1) + 1

    def counted(self, tables: Iterable[Table]) -> NDArray[np.int64]:
        """Numbers of the rows that are complete, shape (groups * cells,)."""
        groups, cells = self.shape
        total = np.zeros(groups * cells, dtype=np.int64)
        for table in tables:
            for rows in slices(table.rows, BLOCK_ROWS):
                observations = self.times.observed(table, rows)
                group, named = self.groups.codes(table, rows)
                # Censored cells follow those of events, and the end is the last: cells // 2 intervals.
                cell = group * cells + observations.places + np.where(observations.events, 0, cells // 2)
                total += np.bincount(cell[observations.complete & named], minlength=groups * cells)
        return total


@hide_frames
@explain_calls()
def plan_kaplan_meier(
    formula: str,
    domain: Domain | Mapping[str, Any],
    eps: float,
    *,
    breaks: int | list[float] = INTERVALS,
    adjacency: str = "add_remove",
    unit: str | None = None,
) -> KaplanMeierPlan:
    """What `kaplan_meier` would release, and its noise; reads no rows and costs nothing.

    Parameters
    ----------
    formula, domain, eps, breaks, adjacency, unit
        As for `kaplan_meier`.

    Returns
    -------
    KaplanMeierPlan

    Raises
    ------
    ArgumentError, FormulaError, DomainError

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"time": (0, 60), "event": (0, 1), "arm": ["a", "b"]}
    >>> plan = dp.plan_kaplan_meier("Surv(time, event) ~ arm", domain, eps=1.0)
    >>> float(plan.table["noise_sd"].iloc[10].round(1))
    6.2
    """
    privacy = check_privacy(eps, adjacency=adjacency, seed=None, unit=unit, max_rows=None if unit is None else 1)
    return _plan(formula, Domain.coerce(domain), privacy, breaks)[0]


@hide_frames
@explain_calls()
def kaplan_meier(
    formula: str,
    data: object,
    eps: float,
    *,
    domain: Domain | Mapping[str, Any] | None = None,
    breaks: int | list[float] = INTERVALS,
    adjacency: str = "add_remove",
    ledger: LedgerLike = None,
    label: str | None = None,
    analyst: str | None = None,
    seed: int | None = None,
    unit: str | None = None,
    engine: str | None = None,
) -> KaplanMeier:
    """Survival curves by group, with intervals that count the noise, and the log-rank test.

    Parameters
    ----------
    formula : str
        ``"Surv(time, event) ~ group"``, or ``~ 1`` for one curve; several factors give a curve for each combination of
        levels. `time` counts from 0 and `event` is 0 for whoever was still under observation (censored), 1 for whoever
        had the event; both may be expressions, such as ``days / 365.25`` and ``status == 2``.
    data : DataFrame or another table
        One row a person.
    eps : float
        The budget of this call.
    domain : Domain or dict
        Declares every column: the range of the time, (0, 1) or two levels for the event, levels of the groups. By
        default that of the ledger.
    breaks : int or list of float
        Ends of the intervals in which exits are counted; a number means so many of one width. Curves and intervals are
        for these times. Whoever is there at the last is observed to the end.
    adjacency : {"add_remove", "replace_one"}
    ledger : Ledger, Part or path, optional
        Charged durably before any row is read.
    label, analyst : str, optional
        Sign the entry of the ledger.
    seed : int, optional
        For tests only; the guarantee is then not certified.
    unit : str, optional
        The column that tells persons apart, if they may have several rows: one row of each is counted, by a draw.
    engine : {"dask"}, optional
        Read files on the cluster that this process is a client of; see `dpstats.glm`.

    Returns
    -------
    KaplanMeier

    Raises
    ------
    ArgumentError, FormulaError, DataError, DomainError
        Before anything is spent.
    BudgetExceeded
        If the ledger has too little left.

    Notes
    -----
    A person is one count of one histogram, whatever the number of intervals and groups (docs/proofs/survival). Curves,
    intervals, numbers at risk and the test are functions of it. Rows with a missing cell are left out. A time beyond
    the declared range is cut there, and its event is not counted.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"time": rng.exponential(30, 2000)}
    >>> rows["event"] = rows["time"] < 60
    >>> domain = {"time": (0, 60), "event": (0, 1)}
    >>> km = dp.kaplan_meier("Surv(time, event) ~ 1", rows, 1.0, domain=domain)
    >>> bool(abs(km.quantile()["time"].iloc[0] - 30 * np.log(2)) < 5)
    True
    """
    privacy = check_privacy(eps, adjacency=adjacency, seed=seed, unit=unit, max_rows=None if unit is None else 1)
    ledger, domain = with_domain(ledger, domain)
    plan, histogram = _plan(formula, Domain.coerce(domain), privacy, breaks)
    table = as_table(data, engine)
    for names, declared in histogram.parts:
        check_columns(table, declared, names)
    check_unit(table, privacy.record)

    def work(rows: Table) -> KaplanMeier:
        random = privacy.random()
        counted = counted_tables(rows, histogram.columns, privacy.record, random)
        counts = counted.total(partial(ExitHistogram.counted, histogram), operator.add)
        released = noisy_integers(counts, plan.sensitivity, privacy.eps, random)
        return KaplanMeier(plan, released.reshape(histogram.shape))

    return Release(
        plan.guarantee,
        table,
        work,
        label="survival curves",
        method="kaplan_meier",
        columns=histogram.columns,
        formula=formula,
        domain=Domain.coerce(domain),
    ).run(ledger, label=label, analyst=analyst)


def _plan(
    formula: str, domain: Domain, privacy: PrivacyParameters, breaks: object
) -> tuple[KaplanMeierPlan, ExitHistogram]:
    """The plan, and what is to be counted."""
    read = survival_response(formula)
    if read.entry is not None:
        raise FormulaError("Surv(entry, time, event): curves are not offered with delayed entry; dp.hazard takes it")
    histogram = ExitHistogram(bind_times(read, domain, breaks), bind_groups(read.times, domain))
    groups = tuple(group or ALL for group in histogram.groups.names)
    ends = tuple(histogram.times.breaks.tolist())
    plan = KaplanMeierPlan(formula, groups, ends, privacy.guarantee(PROOF))
    check_scale(plan.sensitivity / privacy.eps)
    return plan, histogram

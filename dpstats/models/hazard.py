"""Piecewise exponential survival: a person's time at risk as weighted pieces of one record (docs/proofs/survival)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpstats.arguments import explain_calls, is_number, safe_repr
from dpstats.data import Block, Rows, Table, as_table, slices
from dpstats.data.columns import CategoricalColumn, Column, NumericColumn, ObjectColumn
from dpstats.data.passes import PackedRows
from dpstats.data.table import with_level
from dpstats.domain import Domain, Levels, Scalar
from dpstats.errors import ArgumentError, DomainError
from dpstats.families import Gaussian
from dpstats.families.base import CAPS, pad_rows
from dpstats.families.hazard import PiecewiseExponential
from dpstats.formula.design import DesignSpec, design_spec, requested_spec
from dpstats.formula.expression import Column as ColumnNode
from dpstats.formula.expression import columns_of
from dpstats.formula.reader import BLOCK_ROWS, check_columns, cut_anew
from dpstats.formula.survival import SurvivalFormula, SurvivalTimes, bind_times, check_declared, survival_response
from dpstats.ledger import LedgerLike, with_domain
from dpstats.models.glm import DryRun
from dpstats.models.pieces import PieceSource, piece_request
from dpstats.models.population import ColumnPrior, KnownColumns, population_signal, response_shares
from dpstats.plan import Plan
from dpstats.quiet import hide_frames
from dpstats.results.glm_results import GLMResults
from dpstats.results.hazard import AT_RISK, EVENT, INTERVAL, PARTS, WEIGHT, HazardResults

EVENTS_AT_MOST = 2.0
"""By default persons are followed until so many events would be expected over the whole time (docs/guide/survival)."""

SHORTEST = 1e-6
"""Parts of an interval below it are taken for it: a person is then at risk for a moment, and eta stays bounded."""

OPTIONS = (
    *("curvature", "radius", "information_share", "release_share", "rows_at_most"),
    *("check_share", "on_mismatch"),
)
"""Options of a fit that hazards take; others would draw, count or weigh rows, which are pieces of persons here."""

ROUNDED = 1 - 1e-12
"""Intervals are shortened by this part, so that their weights do not add up to more than 1 by rounding."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """How a table of persons becomes one of pieces of their time."""

    times: SurvivalTimes
    design: DesignSpec  # of pieces
    records: DesignSpec  # of persons: the event, and an entry, are among its terms

    @property
    def responses(self) -> tuple[str, ...]:
        """The columns of the event."""
        return columns_of(self.times.event.node)

    @property
    def clipping(self) -> tuple[str, ...]:
        """Those of times: whoever is there at the end of the last interval is observed to the end."""
        return tuple(name for name in self._timing if name not in self.responses)

    @property
    def _timing(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for names, _ in self.times.parts for name in names))

    @property
    def persons(self) -> tuple[str, ...]:
        """The columns of the data that terms read."""
        return tuple(name for name in self.design.columns if name not in PARTS)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that are read."""
        return tuple(dict.fromkeys((*self._timing, *self.persons)))

    def check_schema(self, table: Table) -> None:
        """Raise DataError or DomainError if the table cannot be read, by names and types alone."""
        for names, declared in (*self.times.parts, (self.persons, self.design.domain)):
            check_columns(table, declared, names)

    def rows(self, table: Table) -> Rows[Block]:
        """Pieces in model units. Reads rows: charge first."""
        batches = table.batches(self.columns).map_shards(partial(_blocks, self))
        return PackedRows(self.design.packing, batches)

    def used(self, table: Table) -> int:
        """How many persons of a table have pieces."""
        complete = self.records.usable(table) & self.times.observed(table, slice(0, table.rows)).complete
        return int(np.count_nonzero(complete))

    def made_up(
        self, known: KnownColumns, count: int, prior: ColumnPrior, random: np.random.Generator
    ) -> tuple[Pieces, dict[str, Any]]:
        """Persons whose hazard does not change over time and who stay until the event or the end of the observation.

        Where times or events are no columns by themselves, with pieces that read other columns in their place.
        """
        table = known.rows(self.records, count, prior, random)
        if known.in_like(self._timing):
            return self, table
        names, end = interval_names(self.times.breaks), float(self.times.breaks[-1])
        exog, complete, _ = self.design.predicting(with_level(as_table(table), INTERVAL, names, 0), offset=False)
        signal = (
            HAZARDS * prior.strength * population_signal(np.where(complete[:, None], np.nan_to_num(exog), 0.0), random)
        )
        event, share = self.times.event.node, prior.second
        levels: tuple[Scalar, ...] = (0, 1)
        if isinstance(event, ColumnNode):
            declared = self.times.event.domain[event.name]
            assert isinstance(declared, Levels)
            share = float(response_shares(declared, known.typical.get(event.name, {}), prior)[-1])
            levels = declared.values
        reach = float(np.max(np.abs(signal))) + abs(math.log(-math.log1p(-share)))
        level = optimize.brentq(lambda at: np.mean(-np.expm1(-np.exp(signal + at))) - share, -reach, reach)
        time = end * random.exponential(size=count) / np.exp(signal + level)
        pieces, nodes = self, (self.times.time.node, event)
        columns = [node.name for node in nodes if isinstance(node, ColumnNode)]
        if len(columns) < 2 or self.times.entry is not None:
            columns, levels = [AT_RISK, EVENT], (0, 1)  # no columns of persons have these names
            plain = survival_response(f"Surv({AT_RISK}, {EVENT}) ~ 1")
            facts = Domain({AT_RISK: (0, end), EVENT: (0, 1)})
            pieces = replace(self, times=bind_times(plain, facts, self.times.breaks[1:].tolist()))
        events = [levels[one] for one in (time < end).astype(int)]
        return pieces, table | dict(zip(columns, (np.minimum(time, end), events), strict=True))

    def results(self, fit: GLMResults) -> HazardResults:
        """The fit."""
        return HazardResults(fit.plan, fit.scaled_params, fit.nobs, fit.released)


HAZARDS = 0.5
"""The standard deviation of the logarithms of hazards that are made up."""


def _blocks(pieces: Pieces, _: int, tables: Iterable[Table]) -> Iterator[Block]:
    blocks = (
        (table.filtered, block)
        for table in tables
        for rows in slices(table.rows, BLOCK_ROWS)
        for part in split_time(pieces, table, rows)
        for block in pieces.design.read_blocks(part, BLOCK_ROWS)
    )
    return cut_anew(blocks, BLOCK_ROWS)


def split_time(pieces: Pieces, table: Table, rows: slice) -> Iterator[Table]:
    """Tables of the pieces of some persons' time: those of an interval, then the events in it.

    The weight of a piece is the length of its interval over the whole time, and its offset the logarithm of the part of
    the interval at risk; an event has the weight 1 and the same offset. All rows of a person have the same terms but
    for the interval.
    """
    observations, breaks = pieces.times.observed(table, rows), pieces.times.breaks
    names = interval_names(breaks)
    chosen = np.zeros(table.rows, dtype=bool)
    for at, (start, end) in enumerate(pairwise(breaks)):
        length = np.minimum(observations.times, end) - np.maximum(observations.starts, start)
        parts = np.clip(np.where(observations.complete, length, 0.0) / (end - start), SHORTEST, 1.0)
        offsets = np.log(pad_rows(parts))[: len(parts)]
        weight = float((end - start) / breaks[-1]) * ROUNDED
        event = observations.complete & observations.events & (observations.places == at)
        # An event at time 0 has a piece as well, of the shortest time: alone it would exceed the bound of a person.
        for mask, response in (((observations.complete & (length > 0)) | event, 0.0), (event, 1.0)):
            chosen[rows] = mask
            count = int(np.count_nonzero(mask))
            facts = np.full(count, response), np.full(count, response or weight), offsets[mask]
            yield _extended(table.select(chosen.copy(), count), pieces.persons, names, at, *facts)


def _extended(
    table: Table,
    persons: tuple[str, ...],
    names: list[str],
    at: int,
    events: NDArray[np.float64],
    weights: NDArray[np.float64],
    offsets: NDArray[np.float64],
) -> Table:
    """Rows with their interval, whether they are an event, their weight, and their offset."""
    labels = ObjectColumn(np.array(names, dtype=object))
    columns: dict[str, Column] = {
        **{name: table.column(name) for name in persons},
        INTERVAL: CategoricalColumn(np.full(len(events), at, dtype=np.intp), labels),
        EVENT: NumericColumn(events),
        WEIGHT: NumericColumn(weights),
        AT_RISK: NumericColumn(offsets),
    }
    return Table(tuple(columns), len(events), tuple(columns.values()).__getitem__, filtered=True)


def interval_names(breaks: NDArray[np.float64]) -> list[str]:
    """What the intervals are called in tables."""
    written = [f"{end:g}" for end in breaks]
    written = written if len(set(written)) == len(written) else [repr(float(end)) for end in breaks]
    # Curves take the end of the observation from the last name.
    written[-1] = written[-1] if float(written[-1]) == breaks[-1] else repr(float(breaks[-1]))
    return [f"{start} to {end}" for start, end in pairwise(written)]


@hide_frames
@explain_calls()
def plan_hazard(
    formula: str,
    domain: Domain | Mapping[str, Any],
    eps: float,
    *,
    breaks: int | list[float] = 4,
    rate_cap: float | None = None,
    adjacency: str = "add_remove",
    inference: bool | None = True,
    **options: Any,
) -> Plan:
    """What `hazard` would release and cost; reads no rows.

    Parameters
    ----------
    formula, domain, eps, breaks, rate_cap, adjacency, inference
        As for `hazard`.
    **options
        As for `hazard`.

    Returns
    -------
    Plan

    Raises
    ------
    ArgumentError, FormulaError, DomainError

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"time": (0, 10), "event": (0, 1), "age": (20, 90)}
    >>> plan = dp.plan_hazard("Surv(time, event) ~ age", domain, 1.0, breaks=[2, 5, 10])
    >>> plan.names
    ('Intercept', 'interval[T.2 to 5]', 'interval[T.5 to 10]', 'age')
    """
    arguments = {"adjacency": adjacency, "inference": inference, **options}
    return _call(formula, Domain.coerce(domain), eps, breaks, rate_cap, None, arguments).plan()


@hide_frames
@explain_calls()
def hazard(
    formula: str,
    data: object,
    eps: float,
    *,
    domain: Domain | Mapping[str, Any] | None = None,
    breaks: int | list[float] = 4,
    rate_cap: float | None = None,
    adjacency: str = "add_remove",
    inference: bool | None = True,
    ledger: LedgerLike = None,
    label: str | None = None,
    analyst: str | None = None,
    seed: int | None = None,
    memory: float | None = None,
    **options: Any,
) -> HazardResults:
    """Hazard ratios of a piecewise exponential model, a baseline hazard an interval.

    Parameters
    ----------
    formula : str
        ``"Surv(time, event) ~ age + group"``; `time` counts from 0, `event` is 0 for whoever was still under
        observation (censored) and 1 for whoever had the event. ``Surv(entry, time, event)`` for rows that are under
        observation from a later time on.
    data : DataFrame or another table
        One row a person. The guarantee is for rows: in start-stop data, with several rows a person, a person with m
        rows has m times eps.
    eps : float
        The budget of this call.
    domain : Domain or dict
        Declares every column: ranges of the times and of numbers, (0, 1) or two levels for the event, levels of groups.
        By default that of the ledger.
    breaks : int or list of float
        Ends of the intervals with a hazard each; a number means so many of one width. Observation ends at the last.
    rate_cap : float, optional
        A rate, in events per unit of time; ``2 / breaks[-1]`` by default. In an interval of length L the time of a
        person contributes at most rate_cap * L to the score. Time and events have full weight until the person's
        cumulative hazard in the interval reaches 0.58 * rate_cap * L. The weight then falls, to zero at 1.58 * rate_cap
        * L. The noise is proportional to the cap. If the model holds, the cap does not bias the coefficients, but
        persons with a greater hazard contribute less information.
    adjacency : {"add_remove", "replace_one"}
    inference : {True, None}
        True pays for standard errors; None releases coefficients alone.
    ledger : Ledger, Part or path, optional
        Charged durably before any row is read.
    label, analyst : str, optional
        Sign the entry of the ledger.
    seed : int, optional
        For tests only; the guarantee is then not certified.
    memory : float, optional
        Bytes that pieces in model units may take up in memory; see `dpstats.glm`.
    **options
        curvature, radius, information_share, release_share, rows_at_most, check_share and on_mismatch, of
        `dpstats.call.Options`.

    Returns
    -------
    HazardResults
        Its table has a line for each term: the logarithm of the hazard ratio. "Intercept" is the logarithm of the
        number of events that the first interval's hazard would give over the whole time, and "interval[T.2 to 5]" that
        of the ratio of an interval's hazard to the first one's.

    Raises
    ------
    ArgumentError, FormulaError, DataError, DomainError
        Before anything is spent.
    BudgetExceeded
        If the ledger has too little left.

    Notes
    -----
    The time of a person is divided at the breaks, and all pieces together are one record. Their bound is that of the
    time at risk times the rate cap, not the number of intervals (docs/proofs/survival). Rows with a missing cell are
    left out. A time beyond the last break is cut there, and its event is not counted. An event at time 0 is taken as
    one after a millionth of the first interval.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.integers(0, 2, 5000)
    >>> time = rng.exponential(10 / np.exp(-0.7 * arm))
    >>> rows = {"time": np.minimum(time, 10), "event": time < 10, "arm": np.where(arm, "new", "old")}
    >>> domain = {"time": (0, 10), "event": (0, 1), "arm": ["old", "new"]}
    >>> fit = dp.hazard("Surv(time, event) ~ arm", rows, 3.0, domain=domain, breaks=[5, 10], seed=1)
    >>> low, high = fit.conf_int().loc["arm[T.new]"]
    >>> bool(low < -0.7 < high)
    True
    """
    arguments = {"adjacency": adjacency, "inference": inference, **options}
    ledger, domain = with_domain(ledger, domain)
    call = _call(formula, Domain.coerce(domain), eps, breaks, rate_cap, seed, arguments)
    results = call.fit(data, None, ledger=ledger, label=label, analyst=analyst, memory=memory)
    assert isinstance(results, HazardResults)
    return results


def _call(
    formula: str,
    domain: Domain,
    eps: float,
    breaks: object,
    rate_cap: float | None,
    seed: int | None,
    arguments: Mapping[str, Any],
) -> DryRun:
    """What is asked for, and how rows become pieces."""
    if not (arguments["inference"] is None or isinstance(arguments["inference"], bool)):
        raise ArgumentError(f"inference must be True or None, got {safe_repr(arguments['inference'])}")
    read = survival_response(formula)
    times = bind_times(read, domain, breaks)
    family = _family(times, rate_cap)
    settings = {**arguments, "inference": "model" if arguments["inference"] else arguments["inference"]}
    # A person is a piece an interval and an event at most.
    request = piece_request("hazard", eps, family, seed, len(times.breaks), OPTIONS, settings)
    design = requested_spec(_formula_of_pieces(read), _domain_of_pieces(read, times, domain), family=family)
    # The range of an event of 0 and 1 is encoded by equality.
    facts = domain.with_({name: times.event.domain[name] for name in columns_of(times.event.node)})
    beside = (part.text.partition("~")[0].strip() for part in (read.events, read.entry) if part is not None)
    records = design_spec(f"{read.times.text} + {' + '.join(beside)}", facts, family=Gaussian())
    return DryRun(PieceSource(formula, domain, family, Pieces(times, design, records)), request)


def _family(times: SurvivalTimes, rate_cap: float | None) -> PiecewiseExponential:
    whole = float(times.breaks[-1])
    most = EVENTS_AT_MOST if rate_cap is None else rate_cap
    if not (is_number(most) and most > 0 and CAPS[0] <= (most if rate_cap is None else most * whole) <= CAPS[1]):
        raise ArgumentError(f"rate_cap must be a positive number of events per unit of time, got {safe_repr(rate_cap)}")
    ends = tuple((times.breaks[1:] / whole).tolist())
    return PiecewiseExponential((*ends[:-1], 1.0), float(most if rate_cap is None else most * whole))


def _person_columns(read: SurvivalFormula) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*read.times.exog_columns, *read.times.subset_columns)))


def _formula_of_pieces(read: SurvivalFormula) -> str:
    """The formula that the design of pieces is of."""
    right = read.times.text.partition("~")[2].strip()
    return f"{EVENT} ~ {INTERVAL} + {right} + weights({WEIGHT}) + offset({AT_RISK})"


def _domain_of_pieces(read: SurvivalFormula, times: SurvivalTimes, domain: Domain) -> Domain:
    """The declarations of the columns of pieces."""
    columns = _person_columns(read)
    check_declared(domain, columns, "give its range (low, high) or list its levels")
    if reserved := [name for name in columns if name in PARTS]:
        raise DomainError(f"column {reserved[0]!r} has the name of a part of the model here; rename it")
    declared = {name: domain[name] for name in columns}
    # Offsets are measured from the middle of their range, to which the intercept is shrunk: 0, all of an interval.
    ranges = {EVENT: (0, 1), WEIGHT: (0.0, 1.0), AT_RISK: (math.log(SHORTEST), -math.log(SHORTEST))}
    return Domain({**declared, INTERVAL: interval_names(times.breaks), **ranges})

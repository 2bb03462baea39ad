"""Where a model's rows come from: a formula on a frame, or plain arrays. Public facts first, rows on request."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.call import Request, RowKeywords
from dpstats.data import Block, Column, Floats, Matrix, MemoryRows, Rows, Table, as_endog, as_exog, slices
from dpstats.data.passes import map_runs, row_count, split_runs
from dpstats.data.persons import person_count
from dpstats.domain import Domain, Range
from dpstats.errors import ArgumentError, DataError, DPStatsError
from dpstats.families import Family, get_family
from dpstats.formula.advice import advice, schema_domain
from dpstats.formula.design import DesignSpec, design_spec, requested_spec
from dpstats.formula.faults import Facts, Fault, column_facts, possible_faults, raw_flags
from dpstats.formula.parse import expand_dot, parse
from dpstats.formula.reader import BLOCK_ROWS
from dpstats.formula.syntax import add_terms
from dpstats.mechanisms.design import ArrayDesign, NormName, array_norms
from dpstats.mechanisms.spec import automatic_alpha
from dpstats.models.adaptive import (
    adaptive_errors,
    affordable,
    before_residuals,
    interval_follows,
    most_of_intervals,
    offered_intervals,
    settled,
    with_chosen_ranges,
    with_intervals,
    with_public_residuals,
    with_refit_residuals,
    with_residuals,
    with_spent,
)
from dpstats.models.expectations import with_free_errors
from dpstats.models.population import RecordPieces
from dpstats.models.ranges import STAND_IN, bought_ranges, bought_response, serve
from dpstats.models.release import check_unit, counted_rows, counted_tables, person_rows
from dpstats.models.residuals import bought_residuals
from dpstats.plan import Plan, make_plan, range_eps, settle_law, with_settled_law
from dpstats.plan.methods import caps_for_intervals, response_purchase, trimmable, with_cap_of_two_values
from dpstats.plan.plan import plan_model, rescaled, unit_family
from dpstats.plan.row_counts import CHECK_SHARE, LEAST_EPS, RowCounts
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.guarantee import ROW, Unit
from dpstats.privacy.randomness import RandomSource, noisy_integers
from dpstats.privacy.ranges import check_range_eps
from dpstats.quiet import quiet
from dpstats.results.standard_errors import releases_errors
from dpstats.wording import argument, phrase

ARRAY_ROWS = 8192
"""Rows of a block of arrays: it is copied as soon as one of them must change."""

LONGEST = 1e150
"""Rows longer than this count as not finite: their squares overflow and shortening them would lose all digits."""

OFFSET_BOUND = 100.0
"""Offsets of arrays are clipped to this size unless another is stated."""

ROUNDINGS = 16
"""More than the roundings of a row's length, of the factor that shortens it, and of its product with a cell, beside
one for each column of the sum."""

CLEARLY = 1 - 1e-9
"""Sums of squares in any order agree far better than this."""


@dataclass(frozen=True)
class AuxiliaryArrays:
    """Weights and offsets of the rows of plain arrays."""

    weights: Column | None = None
    offset: Column | None = None
    weight_bound: float = 1.0  # weights beyond it count as much, and are divided by it
    offset_bound: float = OFFSET_BOUND  # offsets are clipped to it on either side

    def of(self, rows: slice) -> tuple[Floats | None, Floats | None]:
        """Weights within [0, 1] and offsets of some rows, NaN where a row has none or must not count."""
        weights = offset = None
        if self.weights is not None:
            given = _finite(self.weights.select(rows).numbers())
            weights = np.where(given > 0, np.minimum(given, self.weight_bound) / self.weight_bound, np.nan)
        if self.offset is not None:
            offset = np.clip(_finite(self.offset.select(rows).numbers()), -self.offset_bound, self.offset_bound)
        return weights, offset


NO_ARRAYS = AuxiliaryArrays()
"""Rows without weights and offsets."""


class Completed(NamedTuple):
    """A plan of which nothing is left open, and its rows if a purchase has encoded them already."""

    plan: Plan
    rows: Rows[Block] | None = None


def auxiliary_arrays(weights: Any, offset: Any, weight_bound: float, offset_bound: float, rows: int) -> AuxiliaryArrays:
    """Weights and offsets of arrays with their public bounds (1e-50 to 1e50), checked: one for each of `rows` rows."""
    for name, bound in (("weight_bound", weight_bound), ("offset_bound", offset_bound)):
        if not 1e-50 <= check_positive(name, bound) <= 1e50:
            raise ArgumentError(f"{name} must be a number from 1e-50 to 1e50, got {safe_repr(bound)}")
    columns = (_auxiliary_column("weights", weights, rows), _auxiliary_column("offset", offset, rows))
    return AuxiliaryArrays(*columns, float(weight_bound), float(offset_bound))


def _auxiliary_column(name: str, given: Any, rows: int) -> Column | None:
    column = None if given is None else as_endog(given, name)
    if column is not None and len(column) != rows:
        raise DataError(f"{name} must have one number for each row of exog")
    return column


def array_blocks(
    endog: Column,
    exog: Matrix,
    family: Family,
    norms: Mapping[NormName, float],
    auxiliary: AuxiliaryArrays = NO_ARRAYS,
) -> MemoryRows[Block]:
    """Blocks of complete rows within the bounds; views of the arrays wherever nothing had to change.

    `norms` bounds the rows' l1, l2 and linf norms: longer rows are shortened to them.
    """
    blocks = partial(_blocks, endog, exog, family, norms, auxiliary)
    with quiet():
        return MemoryRows(list(chain.from_iterable(map_runs(blocks, split_runs(list(slices(exog.rows, ARRAY_ROWS)))))))


def _blocks(
    endog: Column,
    exog: Matrix,
    family: Family,
    norms: Mapping[NormName, float],
    auxiliary: AuxiliaryArrays,
    pieces: Sequence[slice],
) -> list[Block]:
    """The complete rows of each piece."""
    responses = (family.clip_response(_finite(endog.select(rows).numbers())) for rows in pieces)
    return [
        _clean(Block(exog.block(rows), response, *auxiliary.of(rows)), norms)
        for rows, response in zip(pieces, responses, strict=True)
    ]


def _finite(response: NDArray[np.float64]) -> NDArray[np.float64]:
    """The responses, NaN where they are infinite: a family would clip them to its largest."""
    finite = np.isfinite(response)
    return response if finite.all() else np.where(finite, response, np.nan)


def _clean(block: Block, norms: Mapping[NormName, float]) -> Block:
    """Drop rows that are not finite, shorten those that are too long."""
    numbers = [cells for cells in (block.endog, block.weights, block.offset) if cells is not None]
    complete = np.logical_and.reduce([np.isfinite(cells) for cells in numbers])
    exog = np.asarray(block.exog)
    unclear = np.flatnonzero(~_clearly_inside(exog, norms))
    shorter, factor = _shortened(exog[unclear], norms)
    complete[unclear] &= np.isfinite(factor)
    if shorter.size:
        exog = np.array(exog, dtype=np.result_type(exog, factor))
        exog[unclear[shorter]] *= factor[shorter, None]
        block = block._replace(exog=exog)
    return block if complete.all() else block.take(complete)


def _shortened(exog: Floats, norms: Mapping[NormName, float]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Which rows are too long, and what each must be multiplied by, shape (rows,): NaN for one that is not finite."""
    factor = np.ones(len(exog))
    for name, bound in norms.items():
        length, most = _length(exog, name), safe_share(name, exog.shape[1]) * bound
        # The greatest of some sizes is not rounded: rows of a linf norm at the bound stay as they are.
        long = length > (bound if name == "linf" else most)
        needed = np.where(long, most / np.maximum(length, most), 1.0)
        factor = np.minimum(factor, np.where(length < LONGEST, needed, np.nan))
    return np.flatnonzero(factor < 1), factor


def safe_share(norm: NormName, columns: int) -> float:
    """The share of a bound that a row's computed norm may reach, so that the exact norm stays within the bound.

    A sum of p squares or sizes is computed to p roundings of 2^-53, and the greatest of them exactly. What is left
    holds for the shortened row, whose factor and cells are rounded once more (docs/proofs/design).
    """
    return 1 - (ROUNDINGS + (0 if norm == "linf" else columns)) * 2.0**-53


def _clearly_inside(exog: Floats, norms: Mapping[NormName, float]) -> NDArray[np.bool_]:
    """Which rows are finite and so far below their bounds that no order of a sum could tell otherwise: (rows,)."""
    sizes = {
        "l2": lambda: np.sqrt(np.einsum("ij,ij->i", exog, exog)),
        "l1": lambda: np.abs(exog).sum(axis=1),
        "linf": lambda: np.abs(exog).max(axis=1),
    }
    return np.logical_and.reduce([sizes[name]() <= CLEARLY * min(bound, LONGEST) for name, bound in norms.items()])


def _length(exog: NDArray[np.float64], norm: NormName) -> NDArray[np.float64]:
    """The norm of each row, shape (rows,)."""
    total = np.zeros(len(exog))
    # Column by column: a sum along rows is rounded in another order where there are few of them.
    for column in exog.T:
        if norm == "l2":
            total += column * column
        elif norm == "l1":
            total += np.abs(column)
        else:
            total = np.maximum(total, np.abs(column))
    return np.sqrt(total) if norm == "l2" else total


class ArraySource:
    """Plain arrays, with bounds on the rows' norms: one l2 bound, or bounds under the keys l1, l2, linf.

    Columns are called x1, x2, ... or as in a frame by default. Weights and offsets beyond their bounds are clipped.
    """

    data: None = None  # no frame, of which a ledger's part could pay for some rows
    columns: tuple[str, ...] = ()
    domain: None = None

    def __init__(
        self,
        endog: Any,
        exog: Any,
        row_norm: float | Mapping[str, float],
        names: Sequence[str] | None,
        *,
        weights: Any = None,
        offset: Any = None,
        weight_bound: float = 1.0,
        offset_bound: float = OFFSET_BOUND,
    ) -> None:
        self.endog, self.exog = as_endog(endog), as_exog(exog)
        self.auxiliary = auxiliary_arrays(weights, offset, weight_bound, offset_bound, self.exog.rows)
        if len(self.endog) != self.exog.rows:
            raise DataError("endog and exog must have the same number of rows")
        size = self.exog.size
        if size == 0:
            raise DataError("exog must have at least one column")
        if names is None:
            names = self.exog.names or [f"x{j + 1}" for j in range(size)]
        try:
            names = [str(name) for name in names]
        except TypeError:  # no list at all
            names = []
        if len(names) != size or len(set(names)) != size:
            raise ArgumentError(f"names must hold {size} distinct names, one for each column of exog")
        response = getattr(endog, "name", None)
        self.design = ArrayDesign(
            tuple(names),
            array_norms(row_norm, size),
            response_name="y" if response is None else str(response),
            offset_bound=0.0 if offset is None else self.auxiliary.offset_bound,
            weight_bound=None if weights is None else self.auxiliary.weight_bound,
        )

    def plan(self, request: Request, *, alone: bool = False) -> Plan:
        """The plan, from public facts alone."""
        response_purchase(request, self.design)  # refuses one that is asked for
        if request.options.unit is not None:
            raise ArgumentError(
                "unit is the name of a column of a data frame; pass a formula and a frame instead of arrays"
            )
        if request.options.check_share:
            raise ArgumentError("check_share counts rows by their Domain; pass a formula and a frame instead of arrays")
        family = request.family
        continuous = family.response == "continuous"
        family = unit_family(family, intervals=caps_for_intervals(request)) if continuous else family.resolve(None)
        return make_plan(request, self.design, family, formula=None)

    def complete(self, plan: Plan, data: None, random: RandomSource) -> Completed:
        """The plan itself: nothing is left open."""
        return Completed(plan)

    def rows(self, plan: Plan, data: None, random: RandomSource) -> Rows[Block]:
        """Clipped row blocks. Reads rows: charge first."""
        return array_blocks(self.endog, self.exog, plan.family, self.design.norms, self.auxiliary)

    def nobs(self, request: Request, data: None) -> int | None:
        """The number of rows as given, where it is public."""
        return self.exog.rows if request.adjacency == "replace_one" else None


class FormulaSource:
    """A formula on a frame, with a Domain that declares public facts of its columns; a dry run has no data."""

    def __init__(self, formula: str, data: Table | None, domain: Domain | Mapping[str, Any] | None) -> None:
        self.domain = Domain.coerce(domain)
        self.formula = expand_dot(formula, self.domain)
        self.data = data
        if self.formula is not formula and data is not None:  # there was a dot
            for name in parse(self.formula).exog_columns:
                if name in self.domain and not data.count(name):
                    raise DataError(
                        f"data has no column {name!r}: '.' means all columns that domain declares, so leave it out "
                        "of domain, or write the columns out"
                    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the frame that the formula reads."""
        return tuple(parse(self.formula).columns)

    def plan(self, request: Request, *, alone: bool = False) -> Plan:
        """The plan, from public facts alone; ranges still to be bought stand in as (-1, 1), or as they are declared.

        Rows are counted first only for a fit that is made `alone`, not as one of several that share a purchase.
        """
        if self.data is not None and self.data.distributed and request.options.replicates:
            raise ArgumentError(
                "realization and moor: the paper's modes stack all rows in memory, but the rows of a Dask frame "
                "stay on its cluster; leave these options out"
            )
        person = request.options.record.column
        if self.data is not None and person is not None:
            check_unit(self.data, request.options.record)
        if person is not None and person in parse(self.formula).exog_columns:
            raise ArgumentError(
                f"unit: {person!r} identifies persons and must not be in the formula; leave it out of one of them"
            )
        known, open_ranges = schema_domain(self.formula, self.domain, self.data, request.family)
        advised = advice(self.formula, self.domain, self.data, open_ranges, request.family.response)
        if request.options.ranges == "bought" and not alone:
            bought = argument("ranges", "bought")
            raise ArgumentError(f"{bought} is for a single fit: dp.buy_ranges buys the intervals once for several")
        known = known.with_(dict.fromkeys(open_ranges, STAND_IN)) if open_ranges else known
        design = requested_spec(self.formula, known, family=request.family)
        request = with_cap_of_two_values(request, design)
        trimmed = trimmable(design.parsed, design.domain, open_ranges) if request.options.ranges == "bought" else ()
        if open_ranges:  # here all of the Domain is known, which names a column that is misspelt
            share = range_eps(request, (*open_ranges, *trimmed)) / (len(open_ranges) + len(trimmed))
            check_range_eps(share, open_ranges, request.adjacency, request.options.rows_at_least, self.domain)
        counts = plan_counts(request, design, open_ranges, self.data, alone=alone)
        plan = plan_model(request, design, bought=(*open_ranges, *trimmed), trimmed=trimmed, counts=counts)
        plan = settle_law(plan)
        if (rows := request.options.n) is not None:
            if person is None and not open_ranges and counts_obstacle(request, alone=alone) is None:
                plan = with_intervals(plan, offered_intervals(request, design), rows)
            plan = affordable(plan, rows)
            chosen = settled(plan, rows)
            plan = rescaled(plan, chosen.request) if interval_follows(plan.request) else chosen
            plan = with_public_residuals(plan)
        # A plan whose errors follow a count of the rows says so; others say what the fit will release.
        follows = counts is not None and counts.settles_errors and rows is None and design.score_ratio == 1.0
        return replace(plan if follows else with_free_errors(plan), advice=advised)

    def reading(self, table: Table) -> FormulaSource:
        """The same of the rows of a table."""
        return FormulaSource(self.formula, table, self.domain)

    def complete(self, plan: Plan, data: Table, random: RandomSource) -> Completed:
        """Buy what the Domain and the options leave open and plan with it. Reads rows: charge first."""
        design, counts, advised = plan.design, plan.counts, plan.advice
        rows = plan.request.options.n if counts is None else counts.rows
        plan, share = before_residuals(plan), plan.request.options.range_share
        if counts is not None and counts.trimmable:
            assert counts.rows is not None
            plan = with_intervals(plan, counts.trimmable, counts.rows)
        plan = with_chosen_ranges(affordable(plan, rows))
        adapts = counts is not None and counts.settles_errors
        weighs = automatic_alpha(plan.request.penalty, plan.request.options)
        counted = rows if weighs and counts is not None else None
        if not plan.bought and plan.response is None and not adapts and counted is None:
            return Completed(replace(plan, advice=advised))
        assert isinstance(design, DesignSpec)
        request = with_settled_law(plan)
        if counted is not None:
            request = replace(request, options=replace(request.options, n=max(float(counted), 1.0)))

        def build(narrowed: DesignSpec) -> Plan:
            return plan_model(request, narrowed, bought=plan.bought, trimmed=plan.trimmed, counts=counts)

        def with_ranges(usable: Mapping[str, Range]) -> Plan:
            return build(design_spec(self.formula, design.domain.with_(usable), family=request.family))

        if plan.bought:
            planned = range_eps(request, plan.bought)
            # What may be spent is settled before the rows are read: a fit must be left to every price.
            most = most_of_intervals(replace(plan, request=request), share)
            ranges, spent = bought_ranges(plan, data, random, most)
            request = with_spent(request, planned, spent)
            plan = serve(ranges, with_ranges, self.domain)
        elif counted is not None:
            plan = build(design)
        # Of least squares errors are chosen first: coefficients alone buy nothing of the response. With it once more.
        follows = rows is not None and interval_follows(request)
        if rows is not None and follows:
            plan = settled(plan, rows)
        if plan.response is not None:
            bought = bought_response(plan, data, random)
            # What cannot be planned is decided by released and public values alone; the plan that was charged serves.
            with contextlib.suppress(DPStatsError):
                plan = rescaled(plan, with_settled_law(plan), bought)
            adapts |= request.options.inference == "auto" and not releases_errors(plan)  # free ones have no room here
        encoded = None
        if rows is not None and (plan.response is not None if follows else adapts):
            plan = settled(plan, rows, request if follows else None)
            plan = with_residuals(plan, rows, request) if follows else plan
            if plan.residuals is not None:
                read = partial(self._counted, data=data, random=random)
                residuals, encoded = bought_residuals(plan, rows, read, random)
                encoded = encoded if request.options.unit is None else None  # a fit of persons weighs all their rows
                plan = rescaled(plan, with_settled_law(plan), plan.response, residuals)
        if rows is not None:
            plan = with_refit_residuals(plan, rows)
        return Completed(replace(plan, advice=advised), encoded)

    def rows(self, plan: Plan, data: Table, random: RandomSource) -> Rows[Block]:
        """Clipped, scaled row blocks. Reads rows: charge first."""
        assert isinstance(plan.design, DesignSpec)
        with quiet():
            return cap_rows(person_rows(plan.design, data, plan.request.options.record, random), plan.family)

    def _counted(self, plan: Plan, data: Table, random: RandomSource) -> Rows[Block]:
        """The same of as many rows of a person as may be counted. Reads rows: charge first."""
        assert isinstance(plan.design, DesignSpec)
        with quiet():
            return cap_rows(counted_rows(plan.design, data, plan.request.options.record, random), plan.family)

    def nobs(self, request: Request, data: Table) -> int | None:
        """The number of rows as given, where it is public: persons may be replaced by others with more or fewer."""
        return data.rows if request.adjacency == "replace_one" and request.options.unit is None else None

    def undeclared(self, family: Family) -> tuple[str, ...]:
        """Columns whose range must be bought, from the schema alone."""
        return schema_domain(self.formula, self.domain, self.data, family)[1]


def cap_rows(rows: Rows[Block], family: Family) -> Rows[Block]:
    """The rows as the family takes them, kept for the passes of a fit."""
    return rows.map_rows(partial(_all_capped, family)).persist()


def cap_response(family: Family, block: Block) -> Block:
    """The family's own cap on the response may lie below the declared range, and L is proved for the cap."""
    return block._replace(endog=family.clip_response(block.endog))


def _all_capped(family: Family, _: int, blocks: Iterable[Block]) -> Iterator[Block]:
    return map(partial(cap_response, family), blocks)


def model_formula(formula: str, family: str | Family, **row_terms: Unpack[RowKeywords]) -> str:
    """The formula with the terms that these arguments stand for; an exposure needs a log link."""
    if row_terms.get("exposure") is not None and (link := get_family(family).link) != "log":
        raise ArgumentError(
            f"exposure needs a family with a log link, such as 'poisson', and the link of this family is {link!r}; "
            f"{argument('offset')} works with any link"
        )
    return add_terms(formula, **row_terms)


def plan_counts(
    request: Request, design: DesignSpec, open_ranges: Sequence[str], table: Table | None, *, alone: bool
) -> RowCounts | None:
    """What counts the rows before all else: where it is offered, unless the call says otherwise.

    The design has stand-ins for `open_ranges`; a fit that is not made `alone` is one of several that go together. Of
    `table` only the types of the columns are looked at.
    """
    share = request.options.check_share
    obstacle = counts_obstacle(request, alone=alone)
    if share is None:
        offered = obstacle is None and request.options.n is None and request.eps >= LEAST_EPS
        share = CHECK_SHARE if offered else 0.0
    if share == 0:
        return None
    if obstacle is not None:
        raise ArgumentError(f"check_share {obstacle}")
    facts = known_facts(design, open_ranges, request.family)
    faults = possible_faults(facts, None if open_ranges else design, design.parsed, table=table)
    persons = request.options.unit is not None
    # Of persons it is followed by whether errors are bought, and by nothing that is bought for errors insisted on.
    open_errors = request.options.inference == "auto" and design.score_ratio == 1.0
    adapts = adaptive_errors(request, request.family) and (open_errors or not persons)
    # A public guess at the number of rows has settled what is bought.
    settled = persons or bool(open_ranges) or request.options.n is not None
    names = () if settled else offered_intervals(request, design)
    given: dict[str, Any] = {"settles_errors": adapts, "trimmable": names, "persons": persons}
    return RowCounts.planned(request.eps, share, request.adjacency, faults, **given)


def counts_obstacle(request: Request, *, alone: bool) -> str | None:
    """Why no rows are counted before a fit, with the fix; several fits that go together count none."""
    reason = None
    if not alone:
        reason = "is for a single fit;"
    elif request.method not in ("napp", "objective", "statistics"):
        reason = f"is not offered with {argument('method', request.method)}:"
    if reason is not None:
        check = phrase("call dp.check", shell="run python -m dpstats check")
        return f"{reason} leave it out, and {check} first"
    if request.options.replicates:
        return "is not part of the replicated paper; leave it out"
    if request.options.retrieval == "return":
        returned, recycled = argument("retrieval", "return"), argument("retrieval", "recycle")
        return f"cannot be combined with {returned}, which needs a price known beforehand; use {recycled}"
    return None


def known_facts(design: DesignSpec, open_ranges: Sequence[str], family: Family) -> Facts:
    """What is known of each column of a design that has stand-ins for `open_ranges`."""
    known = {name: one for name, one in design.domain.items() if name not in open_ranges}
    return column_facts(design.parsed, known, family)


def count_rows(
    plan: Plan, data: Table, random: RandomSource, rows: Rows[Block] | None = None, pieces: RecordPieces | None = None
) -> RowCounts:
    """Release the counts that are planned. Reads rows, or those encoded already as the plan has it: charge first.

    Where rows of the design are `pieces` of records it is records that are counted.
    """
    counts, design = plan.counts, plan.design if pieces is None else pieces.records
    assert counts is not None
    assert isinstance(design, DesignSpec)
    open_ranges = [name for name in plan.bought if name not in plan.trimmed] if pieces is None else pieces.clipping
    facts = known_facts(design, open_ranges, plan.request.family)
    used = design.used_rows if pieces is None else pieces.used
    return release_counts(counts, design, facts, used, data, random, rows, plan.request.options.record)


def release_counts(
    counts: RowCounts,
    design: DesignSpec,
    facts: Facts,
    used: Callable[[Table], int],
    data: Table,
    random: RandomSource,
    rows: Rows[Block] | None = None,
    record: Unit = ROW,
) -> RowCounts:
    """The counts of rows that are `used`, or encoded already, and of those at fault. Reads rows: charge first.

    Of persons those are counted who have a row that is used, and the faults of one row each, by a draw.
    """
    with quiet():
        part = partial(_row_sums, design, facts, counts.faults, None if counts.persons or rows is not None else used)
        one = replace(record, rows=1, shared=False)
        names = [*design.parsed.columns, *(fault.column for fault in counts.faults if fault.ungrouped)]
        sums = counted_tables(data, names, one, random).total(part, operator.add)
        if counts.persons:
            assert record.column is not None
            sums[0] = person_count(design.owned(data, record.column))
        else:
            sums[0] += 0 if rows is None else row_count(rows)
    # A drawn row without a fault lies in a cell of its own: one person still changes one of these counts.
    disjoint = sums[1:] if counts.persons else sums[1:-1]
    at_fault = noisy_integers(disjoint, counts.fault_sensitivity, counts.fault_eps, random).tolist()
    number = data.rows if not counts.rows_eps else noisy_integers(sums[:1], 1, counts.rows_eps, random)[0]
    return counts.released(int(number), at_fault[: len(counts.faults)], at_fault[-1] if counts.persons else None)


def _row_sums(
    design: DesignSpec,
    facts: Facts,
    faults: Sequence[Fault],
    used: Callable[[Table], int] | None,
    tables: Iterable[Table],
) -> NDArray[np.int64]:
    """How many rows of some tables are `used`, if they are to be encoded, have each fault first, and have no fault.

    Shape (2 + faults,).
    """
    total = np.zeros(2 + len(faults), dtype=np.int64)
    for table in tables:
        for rows in slices(table.rows, BLOCK_ROWS):
            block = table.select(rows, rows.stop - rows.start)
            left, grouped = design.counting_rows(block), None
            for place, flags in enumerate(raw_flags(block, facts, design, faults), start=1):
                if flags.any():
                    total[place] += np.count_nonzero(left & flags)
                    left &= ~flags
                    grouped = ~flags if faults[place - 1].ungrouped else grouped
            # The design does not read an absorbed factor: a fit uses the rows that have a value of it.
            whole = block if grouped is None else block.select(grouped, int(np.count_nonzero(grouped)))
            total[0] += 0 if used is None else used(whole)
            total[-1] += np.count_nonzero(left)
    return total

"""Where a model's rows come from: a formula on a frame, or plain arrays. Public facts first, rows on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DataError, DPStatsError
from dpstats.families import BinomialCounts, Family, Gaussian, Poisson, get_family
from dpstats.formula.advice import advice
from dpstats.formula.beside import with_terms
from dpstats.formula.design import DesignSpec, design_spec, numeric_columns_undeclared, schema_domain
from dpstats.formula.everything import written_out
from dpstats.formula.parse import parse
from dpstats.keywords import RowKeywords
from dpstats.mechanisms.design import ArrayDesign, array_norms
from dpstats.models.arrays import OFFSET_BOUND, array_beside, array_blocks
from dpstats.models.persons import check_unit, person_rows
from dpstats.models.purchases import bought_response
from dpstats.models.ranges import STAND_IN, ranges_of, serve
from dpstats.plan import Plan, make_plan, range_eps
from dpstats.plan.response import ResponsePurchase, response_purchase
from dpstats.privacy.randomness import RandomSource, random_source
from dpstats.quiet import quiet
from dpstats.request import Request
from dpstats.rows import Block, Rows
from dpstats.tables import Table, as_endog, as_exog, as_table

UNIT_RESPONSE = (-1.0, 1.0)
"""The range assumed of a continuous array response, as row_norm=1 is of the rows."""

WORKING_CAP = 0.35
"""The default residual cap as a multiple of half the width of a bought interval (docs/proofs/purchases)."""


class ArraySource:
    """Plain arrays, with bounds on the rows' norms.

    Parameters
    ----------
    endog : array_like, shape (rows,)
    exog : array_like, shape (rows, p)
    row_norm : float or dict
        An l2 bound, or bounds under the keys l1, l2, linf.
    names : sequence of str, optional
        Column names; x1, x2, ... or a frame's own by default.
    weights, offset : array_like, shape (rows,), optional
    weight_bound, offset_bound : float
        The greatest weight, and the greatest size of an offset; what is beyond is clipped.
    """

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
        self.beside = array_beside(weights, offset, weight_bound, offset_bound, self.exog.rows)
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
            raise ArgumentError(f"names must hold {size} different names, one for each column of exog")
        response = getattr(endog, "name", None)
        self.design = ArrayDesign(
            tuple(names),
            array_norms(row_norm, size),
            response_name="y" if response is None else str(response),
            offset_bound=0.0 if offset is None else self.beside.offset_bound,
            weight_bound=None if weights is None else self.beside.weight_bound,
        )

    @property
    def data(self) -> None:
        """No frame."""
        return

    @property
    def columns(self) -> tuple[str, ...]:
        """No columns of a frame."""
        return ()

    @property
    def domain(self) -> None:
        """No Domain."""
        return

    def with_data(self, data: Table | None) -> ArraySource:
        """The source itself: arrays are not divided."""
        return self

    def plan(self, request: Request) -> Plan:
        """The plan, from public facts alone."""
        response_purchase(request, self.design)  # refuses one that is asked for
        if request.options.unit is not None:
            raise ArgumentError("unit names a column of a data frame; give a formula and a frame, not arrays")
        family = request.family.resolve(UNIT_RESPONSE if request.family.response == "continuous" else None)
        return make_plan(request, self.design, family, formula=None)

    def complete(self, plan: Plan, random: RandomSource) -> Plan:
        """The plan itself: nothing is left open."""
        return plan

    def rows(self, plan: Plan, random: RandomSource | None = None) -> Rows[Block]:
        """Clipped row blocks. Reads rows: charge first."""
        return array_blocks(self.endog, self.exog, plan.family, self.design.norms, self.beside)

    def public_rows(self) -> int:
        """The number of rows as given."""
        return self.exog.rows


class FormulaSource:
    """A formula on a frame, with a Domain that declares public facts of its columns.

    Parameters
    ----------
    formula : str
    data : DataFrame, another table or None
        None for a dry run, which plans and reads nothing.
    domain : Domain, dict or None
    """

    def __init__(self, formula: str, data: object, domain: Domain | Mapping[str, Any] | None) -> None:
        self.domain = Domain.coerce(domain)
        self.formula = written_out(formula, self.domain)
        self.data = None if data is None else as_table(data)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the frame that the formula reads."""
        return tuple(parse(self.formula).columns)

    def with_data(self, data: Table | None) -> FormulaSource:
        """The same formula and Domain on other rows."""
        return FormulaSource(self.formula, data, self.domain)

    def plan(self, request: Request) -> Plan:
        """The plan, from public facts alone; ranges still to be bought stand in as (-1, 1)."""
        if self.data is not None and self.data.elsewhere and request.options.replicates:
            raise ArgumentError(
                "realization and moor: the paper's modes stack all rows in memory, and those of a Dask frame stay on "
                "its cluster; leave these options out"
            )
        if self.data is not None:
            check_unit(self.data, request.options.record)
        person = request.options.record.column
        if person is not None and person in parse(self.formula).exog_columns:
            raise ArgumentError(f"unit: {person!r} tells persons apart, and the formula reads it; leave it out of one")
        ranges = dict.fromkeys(self.undeclared(request.family), STAND_IN)
        advised = advice(self.formula, self.domain, self.data, ranges, request.family.response)
        plan = replace(self._plan(request, ranges), advice=advised)
        if not plan.bought and plan.response is None:
            return plan
        # The charge is made before the purchase: no stage's noise may turn from pure to Gaussian after it.
        settled = with_settled_law(plan)
        return plan if plan.one_law else replace(self._plan(settled, ranges), advice=advised)

    def complete(self, plan: Plan, random: RandomSource) -> Plan:
        """Buy what the Domain and the options leave open and plan with it. Reads rows: charge first."""
        assert self.data is not None
        ranges: Mapping[str, tuple[float, float]] = {}
        request = with_settled_law(plan)
        if plan.bought:
            eps = range_eps(plan.request, plan.bought)
            record = plan.request.options.record
            ranges = ranges_of(self.data, plan.bought, eps, plan.request.adjacency, random, record)
            advised = plan.advice
            plan, ranges = serve(ranges, lambda usable: (self._plan(request, usable), usable))
            plan = replace(plan, advice=advised)
        if plan.response is None:
            return plan
        bought = bought_response(plan, self.data, random)
        try:
            return replace(self._plan(request, ranges, bought), advice=plan.advice)
        except DPStatsError:  # decided by released and public values alone; the plan that was charged serves
            return plan

    def rows(self, plan: Plan, random: RandomSource | None = None) -> Rows[Block]:
        """Clipped, scaled row blocks. Reads rows: charge first."""
        assert isinstance(plan.design, DesignSpec)
        assert self.data is not None
        with quiet():
            rows = person_rows(plan.design, self.data, plan.request.options.record, random or random_source(None))
            return capped_rows(rows, plan.family)

    def public_rows(self) -> int:
        """The number of rows as given."""
        assert self.data is not None
        return self.data.rows

    def undeclared(self, family: Family) -> tuple[str, ...]:
        """Columns whose range must be bought, from the schema alone."""
        return tuple(numeric_columns_undeclared(self.formula, self.domain, self.data, family))

    def _plan(
        self, request: Request, ranges: Mapping[str, tuple[float, float]], response: ResponsePurchase | None = None
    ) -> Plan:
        """The plan under a Domain completed by `ranges`, and what was bought of the response."""
        known = schema_domain(self.formula, self.domain, self.data, request.family).with_ranges(dict(ranges))
        design = design_spec(self.formula, known, family=request.family)
        response = response or response_purchase(request, design)
        if response is not None and request.family.response == "continuous":
            design = design.with_working(response.low, response.high)
        family = scaled_family(request.family, design, response)
        return make_plan(request, design, family, formula=self.formula, bought=tuple(ranges), response=response)


def capped_rows(rows: Rows[Block], family: Family) -> Rows[Block]:
    """The rows as the family takes them, kept for the passes of a fit."""
    return rows.chosen(partial(_all_capped, family)).held()


def capped(family: Family, block: Block) -> Block:
    """The family's own cap on the response may lie below the declared range, and L is proved for the cap."""
    return block._replace(endog=family.clip_response(block.endog))


def _all_capped(family: Family, _: int, blocks: Iterable[Block]) -> Iterator[Block]:
    return map(partial(capped, family), blocks)


def model_formula(formula: str, family: str | Family, **beside: Unpack[RowKeywords]) -> str:
    """The formula with the terms that these arguments stand for.

    Raises
    ------
    ArgumentError
        If one of them is no text, or there is an exposure and the link is no logarithm.
    """
    if beside.get("exposure") is not None and (link := get_family(family).link) != "log":
        raise ArgumentError(
            f"exposure needs a family with a log link, such as 'poisson', and this one's is {link!r}; "
            "offset= is added to any linear predictor"
        )
    return with_terms(formula, **beside)


def with_settled_law(plan: Plan) -> Request:
    """The plan's request, insisting on the law of its noise; on pure noise if stages differ."""
    law = plan.noise.kind if plan.one_law else "laplace"
    return replace(plan.request, options=replace(plan.request.options, noise=law))


def scaled_family(family: Family, design: DesignSpec, response: ResponsePurchase | None = None) -> Family:
    """The family on the scale of the design's response, open caps filled in from its public range.

    A residual cap is given in the response's units; the solver sees a continuous response scaled to [-1, 1].
    """
    if design.response.trials is not None:
        return BinomialCounts(design.response.trials)
    if isinstance(family, Gaussian):
        _, half_width = design.response_scaling()
        given = family.residual_cap
        if given is not None:
            return Gaussian(given / half_width)
        return family.resolve(UNIT_RESPONSE) if response is None else Gaussian(WORKING_CAP)
    if response is not None and isinstance(family, Poisson):
        most = response.high if family.y_max is None else min(response.high, family.y_max)
        return replace(family, y_max=most).resolve(None)
    return family.resolve((design.response.low, design.response.high))

"""One model in every group of a factor under one charge: planned once, fitted to disjoint rows (docs/proofs/groups)."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import check_flag, safe_repr
from dpstats.call import Request
from dpstats.data import Memory, Table, as_table
from dpstats.data.columns import usable_kind
from dpstats.domain.declarations import Levels, Scalar
from dpstats.errors import ArgumentError, DPStatsError
from dpstats.formula.parse import parse
from dpstats.ledger import LedgerLike
from dpstats.ledger.spender import has_code
from dpstats.models.glm import release_fit
from dpstats.models.release import Release
from dpstats.models.sources import FormulaSource
from dpstats.plan import Plan
from dpstats.privacy.accounting import compose, split_budget
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.randomness import RandomSource, random_source
from dpstats.quiet import hide_frames, quiet
from dpstats.results.glm_results import GLMResults
from dpstats.results.groups import GroupResults
from dpstats.results.stored import Printed, guarantee_sentence
from dpstats.summaries import Summary, format_number, full_width
from dpstats.wording import argument

PROOF = "docs/proofs/groups"

WHOLE_SHARE = 0.15
"""Of the budget, with `shrink`, for the fit of all rows: the groups' own mean has too much noise."""

FEWEST = 3
"""Groups that can be pooled: of two their spread is not known."""


@dataclass(frozen=True, eq=False)
class GroupPlan(Printed):
    """The plan of one model in every group of a factor; `dpstats.plan` makes it with ``by=``.

    Attributes
    ----------
    plan : Plan
        Of each group: the same for all, since no row is read. ``plan.standard_errors(n)`` forecasts a group of n rows.
    whole : Plan or None
        Of the fit of all rows, with ``shrink=True``.
    by : str
    levels : tuple
        The declared levels of the factor.
    guarantee : Guarantee
        Of all groups together.

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"x": (0, 1), "y": (0, 1), "place": ["north", "south", "east"]}
    >>> groups = dp.plan("y ~ x", domain, eps=1.0, by="place")
    >>> groups
    <GroupPlan of 3 levels of place: y ~ x; eps=1, add_remove, certified>
    >>> groups.plan.eps, dp.plan("y ~ x", domain, eps=1.0, by="place", shrink=True).plan.eps
    (1.0, 0.85)
    """

    plan: Plan
    whole: Plan | None
    by: str
    levels: tuple[Scalar, ...]
    guarantee: Guarantee
    source: FormulaSource

    @hide_frames
    def fit(
        self,
        data: object,
        *,
        ledger: LedgerLike = None,
        seed: int | None = None,
        memory: float | None = None,
        engine: str | None = None,
        label: str | None = None,
        analyst: str | None = None,
    ) -> GroupResults:
        """Charge once, read the rows of each group and release its fit.

        Parameters
        ----------
        data : DataFrame or another table
        ledger, seed, memory, engine, label, analyst
            As for `dpstats.glm`.

        Returns
        -------
        GroupResults

        Raises
        ------
        DataError, DomainError
            Before anything is spent, if the frame does not suit the model.

        Examples
        --------
        >>> list(groups.fit({"x": [0.2, 0.4], "y": [0.1, 0.9], "place": ["north", "east"]}))
        ['north', 'south', 'east']
        """
        random_source(seed)  # refuses what is no seed
        plan = self
        if seed is not None:
            plans = [None if one is None else replace(one.request, seed=seed) for one in (self.plan, self.whole)]
            assert plans[0] is not None
            plan = _planned(self.source, plans[0], plans[1], self.by, self.levels)
        return fit_groups(plan, as_table(data, engine), ledger=ledger, memory=memory, label=label, analyst=analyst)

    def summary(self) -> Summary:
        """What each group and the fit of all rows cost; as_text, as_html, as_latex and as_markdown.

        Examples
        --------
        >>> "each of 3 groups" in groups.summary().as_text()
        True
        >>> "tabular" in groups.to_latex(), "<td" in groups.to_html(), "---:|" in groups.to_markdown()
        (True, True, True)
        """
        lines = [(f"each of {len(self.levels)} groups", self.plan)]
        if self.whole is not None:
            lines.append(("all rows", self.whole))
        rows = [(name, [format_number(one.eps), format_number(one.delta), one.request.method]) for name, one in lines]
        rows.append(("total", [format_number(self.guarantee.eps), format_number(self.guarantee.delta), ""]))
        title = f"Groups by {self.by}: {self.plan.formula}"
        table = full_width(["eps", "delta", "method"], rows, [12, 12, 14], title=title)
        notes = [
            guarantee_sentence(self.guarantee, "Everything above is"),
            f"A row belongs to one level of {self.by} at most, so the groups together cost what one of them does.",
            "Its attribute plan is that of a group: plan.summary() shows it, plan.standard_errors(n) forecasts n rows.",
        ]
        return Summary([table], notes)

    def digest(self) -> str:
        """A hash of the public facts, as the ledger records it.

        Examples
        --------
        >>> len(groups.digest())
        64
        """
        facts = [
            self.by,
            list(self.levels),
            self.plan.digest(),
            None if self.whole is None else self.whole.digest(),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"<GroupPlan of {len(self.levels)} levels of {self.by}: {self.plan.formula}; {self.guarantee}>"


def plan_groups(source: FormulaSource, request: Request, by: str, shrink: bool) -> GroupPlan:
    """The plan of one model a level of `by`; from public facts alone."""
    levels = _levels(source, by)
    if request.options.unit is not None:
        raise ArgumentError(
            f"unit cannot be combined with {argument('by', by)}: a person may have rows in several groups, and "
            f"would pay in each of them; fit one model with {by} in its formula, or make one row of each person first"
        )
    if request.adjacency == "replace_one":
        raise ArgumentError(
            f"{argument('adjacency', 'replace_one')} cannot be combined with {argument('by', by)}: a row that changes "
            f"its group changes two fits and the numbers of rows of both; use {argument('adjacency', 'add_remove')}, "
            "which a ledger for replaced rows takes at twice its eps"
        )
    if request.options.n is not None:
        raise ArgumentError(
            f"n is the number of rows of one fit and groups have different ones: leave it out with {by=}"
        )
    if not check_flag("shrink", shrink):
        return _planned(source, request, None, by, levels)
    if len(levels) < FEWEST:
        raise ArgumentError(f"shrink needs {FEWEST} groups or more, and {by!r} has {len(levels)}; leave it out")
    if unknown := source.undeclared(request.family):
        raise ArgumentError(f"shrink needs the ranges of all columns: declare {', '.join(unknown)} in the Domain")
    shared = _poolable(request)
    budgets = split_budget(request.eps, request.delta, [1 - WHOLE_SHARE, WHOLE_SHARE])
    parts = [replace(shared, eps=eps, delta=delta) for eps, delta in budgets]
    plan = _planned(source, parts[0], parts[1], by, levels)
    assert plan.whole is not None
    _check_poolable(plan.whole)
    return plan


def fit_groups(
    plan: GroupPlan,
    data: Table,
    *,
    ledger: LedgerLike = None,
    memory: float | None = None,
    label: str | None = None,
    analyst: str | None = None,
) -> GroupResults:
    """Charge for a plan, read the rows of each group, and release its fit."""
    source = FormulaSource(plan.source.formula, data, plan.source.domain)
    source.plan(plan.plan.request)  # checks the schema
    if data.count(plan.by) != 1:
        raise ArgumentError(f"by: data must have exactly one column {plan.by!r}")
    usable_kind(plan.by, data.column(plan.by))
    if data.recomputed:
        raise ArgumentError(
            "by needs a cluster for a Dask frame, so that no row changes its group from pass to pass: from distributed "
            "import Client; client = Client(), or its address. Or write the frame to Parquet and pass the path"
        )
    return Release(
        plan.guarantee,
        data,
        partial(_release, plan, source, random_source(plan.plan.request.seed)),
        label=f"{plan.plan.title}, by {plan.by}",
        method=plan.plan.request.method,
        columns=(*source.columns, plan.by),
        formula=plan.plan.formula,
        digest=plan.digest,
        domain=source.domain,
        memory=None if memory is None else Memory(memory),
    ).run(ledger, label=label, analyst=analyst)


def _release(plan: GroupPlan, source: FormulaSource, random: RandomSource, data: Table) -> GroupResults:
    """Every fit, each of the rows of its level alone. Reads rows: charge first."""
    code_of, whole, each = Levels(plan.levels).code_of(), None, plan.plan
    if plan.whole is not None:
        known = data.where(partial(_is_known, plan.by, code_of), [plan.by])
        whole = release_fit(source, plan.whole, random, known)
        each = recentred(each, whole)
    fits = [
        release_fit(source, each, random, data.where(partial(has_code, plan.by, code_of, code), [plan.by]))
        for code in range(len(plan.levels))
    ]
    return GroupResults(plan.by, plan.levels, tuple(fits), whole, plan.guarantee)


def recentred(plan: Plan, whole: GLMResults) -> Plan:
    """The plan of a group, shrunk to the released coefficients of all rows in the place of 0 (docs/proofs/groups, 1).

    As it was where sums are released, or where it would cost more: decided by released and public values alone.
    """
    *before, stage = plan.stages
    if before or plan.request.method == "statistics":
        return plan
    with quiet(), contextlib.suppress(DPStatsError):
        centre = whole.scaled_params
        centre = centre * min(1.0, stage.plan.radius / max(float(np.linalg.norm(centre)), 1e-300))
        moved = stage.plan.recentred(stage.plan.curvature, -stage.plan.curvature * centre)
        if moved.cost <= stage.plan.cost and moved.delta <= stage.plan.delta:
            return replace(plan, stages=(stage._replace(plan=moved),))
    return plan


def _is_known(by: str, code_of: Mapping[float | str, int], table: Table) -> NDArray[np.bool_]:
    """Where a column has one of the declared levels, shape (rows,)."""
    return np.asarray(table.column(by).codes(code_of) >= 0)


def _planned(
    source: FormulaSource, request: Request, whole: Request | None, by: str, levels: tuple[Scalar, ...]
) -> GroupPlan:
    """The plans of a group and of all rows, and what both guarantee together."""
    plans = [None if one is None else source.plan(one) for one in (request, whole)]
    assert plans[0] is not None
    total = compose([one.guarantee for one in plans if one is not None])
    return GroupPlan(plans[0], plans[1], by, levels, replace(total, basis=PROOF), source)


def _levels(source: FormulaSource, by: object) -> tuple[Scalar, ...]:
    """The declared levels of a factor that is not in the model."""
    if not isinstance(by, str):
        raise ArgumentError(f"by must be the name of a column, got {safe_repr(by)}")
    declared = source.domain.get(by)
    if not isinstance(declared, Levels):
        raise ArgumentError(
            f"by must be a column whose levels the Domain declares, and {by!r} is not: groups that are looked up "
            f"in the rows would tell who is there; declare its levels in the Domain, as {{{by!r}: ['north', 'south']}}"
        )
    if by in parse(source.formula).columns:
        raise ArgumentError(
            f"by: {by!r} is the same in all rows of a group and must not be in the formula; leave it out"
        )
    return declared.values


def _poolable(request: Request) -> Request:
    """The request of a fit that can be pooled: with its sums or its information, in units that all groups share."""
    options = request.options
    refused = {
        "penalty": request.penalty is not None,
        argument("response", "bought"): options.response == "bought",
        argument("ranges", "bought"): options.ranges == "bought",
        argument("inference", None): options.inference is None,
        argument("inference", "robust"): options.inference == "robust",
        "screen": options.screen is not None,
        "split": options.split is not None,
        argument("stages", options.stages): options.stages != 1,
        "focus": options.focus is not None,
        argument("method", request.method): request.method in ("output", "posterior"),
    }
    for name, given in refused.items():
        if given:
            raise ArgumentError(
                f"{name} cannot be combined with shrink, which pools plain fits with errors; leave it out"
            )
    paid = replace(options, inference=True, response="declared", fitstats=0)
    return request if request.method == "statistics" else replace(request, options=paid, open_method=False)


def _check_poolable(plan: Plan) -> None:
    """Raise ArgumentError for a model whose groups have no model of their errors."""
    information = plan.stages[-1].plan.information
    if plan.request.method != "statistics" and (
        information is None or information.purchase.spread in ("robust", "clustered")
    ):
        raise ArgumentError(
            "shrink needs standard errors by the model, which this family, or weights, do not have; leave shrink out"
        )

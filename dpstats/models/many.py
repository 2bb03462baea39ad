"""Several models of one data set under one budget: split by weight, ranges bought once, one charge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpstats.arguments import is_number, safe_repr
from dpstats.call import SEEDED, check_privacy, make_request
from dpstats.data import Memory, Table, as_table
from dpstats.domain import Domain, Range
from dpstats.errors import ArgumentError
from dpstats.families import Family, get_family
from dpstats.formula.expression import Column
from dpstats.formula.parse import parse
from dpstats.ledger import LedgerLike
from dpstats.models.glm import fit_source
from dpstats.models.ranges import PROOF, STAND_IN, check_numeric, ranges_of, serve
from dpstats.models.release import Release, check_unit
from dpstats.models.sources import FormulaSource, model_formula
from dpstats.plan import Plan, with_settled_law
from dpstats.privacy.accounting import compose, split_budget
from dpstats.privacy.guarantee import ROW, Guarantee, Unit
from dpstats.privacy.randomness import random_source
from dpstats.privacy.ranges import ROWS_AT_LEAST, check_range_eps
from dpstats.quiet import hide_frames
from dpstats.results.glm_results import GLMResults
from dpstats.results.stored import Printed
from dpstats.summaries import Summary, format_number, full_width
from dpstats.wording import argument


@dataclass(frozen=True, eq=False)
class ManyPlans(Printed):
    """Plans of several models of one data set; made by `plan_many`.

    Attributes
    ----------
    plans : dict
        A Plan for each model, by name.
    models : dict
        The arguments of each model: ``formula`` and those of `dpstats.glm`.
    domain : Domain
        What is declared.
    bought : tuple of str
        Columns whose ranges are bought once, for all models.
    range_eps : float
        What those ranges cost together.
    guarantee : Guarantee
        For all releases together, by basic composition.
    record : Unit
        Whose data one record is, for all models and ranges.

    Examples
    --------
    >>> import dpstats as dp
    >>> plans = dp.plan_many({"a": "y ~ x", "b": "y ~ 1"}, {"x": (0, 1), "y": (0, 1)}, eps=1.0, weights=[3, 1])
    >>> plans["a"].eps, plans["b"].eps
    (0.75, 0.25)
    """

    plans: Mapping[str, Plan]
    models: Mapping[str, Mapping[str, Any]]
    domain: Domain
    bought: tuple[str, ...]
    range_eps: float
    guarantee: Guarantee
    record: Unit = ROW

    def __getitem__(self, name: str) -> Plan:
        return self.plans[name]

    @hide_frames
    def fit(
        self,
        data: object,
        *,
        ledger: LedgerLike = None,
        seed: int | None = None,
        memory: float | None = None,
        engine: str | None = None,
    ) -> dict[str, GLMResults]:
        """Charge the whole budget once, buy the shared ranges, and release every model.

        Parameters
        ----------
        data : DataFrame or another table
        ledger : Ledger, Part or path, optional
            One entry for all models, charged durably before any row is read.
        seed : int, optional
            For tests only; nothing is certified then.
        memory : float, optional
            As for `dpstats.glm`.
        engine : {"dask"}, optional
            Read files on the cluster that this process is a client of; see `dpstats.glm`.

        Returns
        -------
        dict
            Results by name. Each states its own guarantee; this object's `guarantee` covers all of them.

        Raises
        ------
        DataError, DomainError
            Before anything is spent, if the frame does not suit a model.

        Examples
        --------
        >>> list(plans.fit({"x": [0.2, 0.4], "y": [0.1, 0.9]}))
        ['a', 'b']
        """
        limit = None if memory is None else Memory(memory)
        table = as_table(data, engine)
        check_numeric(table, self.bought)
        check_unit(table, self.record)
        random_source(seed)  # refuses what is no seed
        stand_ins = self.domain.with_(dict.fromkeys(self.bought, STAND_IN))
        for plan in self.plans.values():
            domain = _counting_from_zero(str(plan.formula), plan.family, stand_ins, self.bought)
            FormulaSource(str(plan.formula), table, domain).plan(plan.request)
        return Release(
            self.guarantee if seed is None else self.guarantee.uncertified(SEEDED),
            table,
            lambda rows: self._release(rows, seed),
            label=f"{len(self.models)} models: {', '.join(self.models)}",
            method="many",
            memory=limit,
            columns=[name for plan in self.plans.values() for name in parse(str(plan.formula)).columns],
            formula="; ".join(str(model["formula"]) for model in self.models.values()),
            domain=self.domain,
        ).run(ledger)

    def summary(self) -> Summary:
        """What each model costs; as_text, as_html and as_latex.

        Examples
        --------
        >>> "y ~ x" in plans.summary().as_text()
        True
        >>> "tabular" in plans.to_latex(), "<td" in plans.to_html(), "---:|" in plans.to_markdown()
        (True, True, True)
        """
        rows = [("ranges", [format_number(self.range_eps), "0", ", ".join(self.bought)])]
        rows = rows if self.bought else []
        for name, plan in self.plans.items():
            rows.append((name, [format_number(plan.eps), format_number(plan.delta), str(plan.formula)]))
        rows.append(("total", [format_number(self.guarantee.eps), format_number(self.guarantee.delta), ""]))
        table = full_width(["eps", "delta", "buys"], rows, [10, 10, 39], title="Budget of several models")
        return Summary([table], [f"The guarantee is for {self.guarantee.difference}; the parts add up to the total."])

    def __repr__(self) -> str:
        return f"<ManyPlans: {', '.join(self.plans)}; {self.guarantee}>"

    def _release(self, data: Table, seed: int | None) -> dict[str, GLMResults]:
        """Read rows: the budget is spent by now."""
        ranges: dict[str, Range] = {}
        if self.bought:
            eps, notion = self.record.each(self.range_eps), self.guarantee.adjacency
            ranges, _ = ranges_of(data, self.bought, eps, notion, random_source(seed), self.record)
        return {name: self._fit(plan, data, ranges, seed) for name, plan in self.plans.items()}

    def _fit(self, plan: Plan, data: Table, ranges: Mapping[str, Range], seed: int | None) -> GLMResults:
        """The fit of one model over the bought ranges, or the nearest that suit it; they are paid for already."""
        request = replace(plan.request, seed=seed)

        def usable_source(usable: Mapping[str, Range]) -> FormulaSource:
            domain = _counting_from_zero(str(plan.formula), plan.family, self.domain.with_(usable), self.bought)
            source = FormulaSource(str(plan.formula), data, domain)
            source.plan(request)
            return source

        return fit_source(serve(ranges, usable_source), request, alone=False)


def plan_many(
    models: Mapping[str, str | Mapping[str, Any]],
    domain: Domain | Mapping[str, Any] | None,
    eps: float,
    *,
    delta: float = 0.0,
    weights: Sequence[float] | None = None,
    adjacency: str = "add_remove",
    family: str | Family | None = None,
    range_share: float = 0.1,
    rows_at_least: float = ROWS_AT_LEAST,
    unit: str | None = None,
    unit_weight: str | None = None,
    max_rows: int | None = None,
) -> ManyPlans:
    """Split one budget over several models of the same data; reads no data and spends nothing.

    Parameters
    ----------
    models : dict
        By name, a formula, or a dict with ``formula`` and further arguments of `dpstats.glm` such as ``family``,
        ``penalty`` and options.
    domain : Domain or dict, optional
        Columns it leaves out are taken to be numeric; their ranges are bought once, with `range_share` of eps.
    eps, delta : float
        For everything together.
    weights : sequence of float, optional
        Shares of the models, in their order; equal by default.
    adjacency : {"add_remove", "replace_one"}
    family : str or Family, optional
        Of the models that do not name their own; "gaussian" by default.
    range_share : float
        Strictly between 0 and 1.
    rows_at_least : float
        As for `buy_ranges`.
    unit, unit_weight, max_rows
        As for `dpstats.glm`, for all models and ranges.

    Returns
    -------
    ManyPlans
        Its `fit` carries the plans out.

    Raises
    ------
    ArgumentError, FormulaError, DomainError
        As for `dpstats.plan`, for any of the models.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> plans = dp.plan_many({"all": "y ~ x", "mean": "y ~ 1"}, domain, eps=1.0)
    >>> plans
    <ManyPlans: all, mean; eps=1, add_remove, certified>
    >>> fits = plans.fit(rows)
    >>> list(fits)
    ['all', 'mean']
    """
    unit_arguments: dict[str, Any] = {"unit": unit, "unit_weight": unit_weight, "max_rows": max_rows}
    privacy = check_privacy(eps, delta, adjacency=adjacency, seed=None, **unit_arguments)
    if not isinstance(models, Mapping) or not models:
        raise ArgumentError("models must be a non-empty dict from names to formulas or dicts of arguments")
    listed = isinstance(weights, (list, tuple)) and all(is_number(weight) and weight > 0 for weight in weights)
    if weights is not None and not (listed and len(weights) == len(models)):
        raise ArgumentError(
            f"weights must be a list of {len(models)} positive numbers, one a model, got {safe_repr(weights)}"
        )
    if not is_number(range_share) or not 0 < range_share < 1:
        raise ArgumentError(f"range_share must lie strictly between 0 and 1, got {safe_repr(range_share)}")
    common = {} if family is None else {"family": family}
    arguments = {name: {**common, **_model_arguments(name, model), **unit_arguments} for name, model in models.items()}
    declared = Domain.coerce(domain)
    bought = tuple(
        dict.fromkeys(
            column
            for model in arguments.values()
            for column in FormulaSource(model["formula"], None, declared).undeclared(_family(model))
        )
    )
    ranges = replace(privacy, eps=range_share * privacy.eps if bought else 0.0, delta=0.0)
    if bought:
        check_range_eps(ranges.row_eps / len(bought), bought, privacy.adjacency, rows_at_least, declared)
    complete = declared.with_(dict.fromkeys(bought, STAND_IN))
    weights = [1.0] * len(models) if weights is None else list(weights)
    shares = split_budget(privacy.eps - ranges.eps, privacy.delta, weights)
    plans = {}
    for (name, model), (share_eps, share_delta) in zip(arguments.items(), shares, strict=True):
        rest = {key: value for key, value in model.items() if key != "formula"}
        request = make_request(eps=share_eps, delta=share_delta, adjacency=adjacency, **rest)
        if bought and request.options.retrieval == "return":
            returned = argument("retrieval", "return")
            raise ArgumentError(f"{returned} needs every range in the domain; declare {', '.join(bought)}")
        source = FormulaSource(
            model["formula"], None, _counting_from_zero(model["formula"], _family(model), complete, bought)
        )
        plans[name] = source.plan(request)
        if bought:
            # The charge is made before the ranges are known: no noise may turn from pure to Gaussian after it.
            settled = with_settled_law(plans[name])
            plans[name] = source.plan(settled)
            arguments[name] = {**model, "noise": settled.options.noise}
    parts = [plan.guarantee for plan in plans.values()]
    if bought:
        parts.append(ranges.guarantee(PROOF))
    return ManyPlans(plans, arguments, declared, bought, ranges.eps, compose(parts), privacy.record)


def _model_arguments(name: str, model: str | Mapping[str, Any]) -> dict[str, Any]:
    """A model's arguments, which must hold a formula and must not choose the budget again."""
    if not isinstance(model, (str, Mapping)):
        raise ArgumentError(
            f"models must hold formulas or dicts of arguments, got {safe_repr(model)} for {safe_repr(name)}"
        )
    arguments = {"formula": model} if isinstance(model, str) else dict(model)
    fixed = sorted(set(arguments) & _FIXED)
    if not isinstance(arguments.get("formula"), str) or fixed:
        raise ArgumentError(f"models[{name!r}] must be a formula or a dict with 'formula' and without {fixed or 'eps'}")
    row_terms = {name: arguments.pop(name, None) for name in ("weights", "offset", "exposure")}
    arguments["formula"] = model_formula(arguments["formula"], _family(arguments), **row_terms)
    return arguments


_FIXED = {"eps", "delta", "adjacency", "domain", "ledger", "seed", "data", "unit", "unit_weight", "max_rows"}
"""What all models have in common."""


def _counting_from_zero(formula: str, family: Family, domain: Domain, bought: Sequence[str]) -> Domain:
    """`domain` with a range that begins at 0 or above if it is bought for a count: it may begin below."""
    response = parse(formula).response.node
    if family.response != "count" or not isinstance(response, Column) or response.name not in bought:
        return domain
    known = domain[response.name]
    if not isinstance(known, Range) or known.low >= 0:
        return domain
    return domain.with_({response.name: replace(known, low=0.0, high=max(known.high, 1.0))})


def _family(model: Mapping[str, Any]) -> Family:
    return get_family(model.get("family", "gaussian"))

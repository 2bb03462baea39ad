"""Several models of one data set under one budget: split by weight, ranges bought once, one charge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpstats.arguments import is_number, safe_repr
from dpstats.call import SEEDED, Request, check_privacy, make_request
from dpstats.data import Memory, Table, as_table
from dpstats.domain import Domain, Range
from dpstats.errors import ArgumentError
from dpstats.families import Family, get_family
from dpstats.formula.expression import Column
from dpstats.formula.parse import parse
from dpstats.ledger import LedgerLike
from dpstats.mechanisms.spec import obstacle
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
from dpstats.results.standard_errors import releases_errors
from dpstats.results.stored import Printed
from dpstats.summaries import Summary, format_number, full_width
from dpstats.wording import argument, joined


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
    requests : dict
        What `fit` asks of each model, by name.

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
    requests: Mapping[str, Request] = field(default_factory=dict)

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
        for name, plan in self.plans.items():
            domain = _counting_from_zero(str(plan.formula), plan.family, stand_ins, self.bought)
            FormulaSource(str(plan.formula), table, domain).plan(self.requests[name])
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
        rows = [("ranges", [format_number(self.range_eps), "0", "", ", ".join(self.bought)])]
        rows = rows if self.bought else []
        for name, plan in self.plans.items():
            rows.append((name, [format_number(plan.eps), format_number(plan.delta), _errors(plan), str(plan.formula)]))
        rows.append(("total", [format_number(self.guarantee.eps), format_number(self.guarantee.delta), "", ""]))
        headers, widths = ["eps", "delta", "std errors", "buys"], [9, 9, 10, 34]
        table = full_width(headers, rows, widths, title="Budget of several models")
        guarantee = f"The guarantee is for {self.guarantee.difference}; the parts add up to the total."
        return Summary([table], [guarantee, *self._errors_notes()])

    def _errors_notes(self) -> list[str]:
        """Which models have no standard errors, or perhaps none, and what to type."""
        undecided: list[str] = []
        decided: list[str] = []
        perhaps: list[str] = []
        refused: dict[str, list[str]] = {}
        for name, plan in self.plans.items():
            errors, options, why = _errors(plan), self.requests[name].options, _why_not_offered(plan)
            if errors == "perhaps":
                perhaps.append(name)
            elif errors == "no" and why is not None:
                refused.setdefault(why, []).append(name)
            elif errors == "no" and options.inference is not None:
                (undecided if options.n is None else decided).append(name)
        notes, insist = [], 'To pay for them in any case, write {"formula": "...", "inference": True} for a model'
        if undecided:
            notes.append(
                f"{joined(undecided)}: no standard errors. In a single fit a count of its rows decides on them, and "
                f"models that share a budget count none. Pass {argument('n')}, a public guess at the number of rows. "
                f"{insist}."
            )
        if decided:
            notes.append(f"{joined(decided)}: no standard errors, by the number of rows n. {insist}.")
        if perhaps:
            notes.append(
                f"{joined(perhaps)}: standard errors cost nothing extra, but not every fit has them: few rows, many "
                f"columns and rare levels leave some fits without. {insist}."
            )
        return notes + [f"{joined(names)}: no standard errors. {why}" for why, names in refused.items()]

    def __repr__(self) -> str:
        return f"<ManyPlans: {', '.join(self.plans)}; {self.guarantee}>"

    def _release(self, data: Table, seed: int | None) -> dict[str, GLMResults]:
        """Read rows: the budget is spent by now."""
        ranges: dict[str, Range] = {}
        if self.bought:
            eps, notion = self.record.each(self.range_eps), self.guarantee.adjacency
            ranges, _ = ranges_of(data, self.bought, eps, notion, random_source(seed), self.record)
        return {name: self._fit(name, data, ranges, seed) for name in self.plans}

    def _fit(self, name: str, data: Table, ranges: Mapping[str, Range], seed: int | None) -> GLMResults:
        """The fit of one model over the bought ranges, or the nearest that suit it; they are paid for already."""
        plan, request = self.plans[name], replace(self.requests[name], seed=seed)

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
    n: float | None = None,
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
    n : float, optional
        A PUBLIC guess at the number of rows, as for `dpstats.glm`. It decides which models pay for standard errors:
        models that share a budget count no rows. Without it, least squares and some others have none unless the dict
        of the model has ``"inference": True``; the summary says which.

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
    common: dict[str, Any] = {name: given for name, given in (("family", family), ("n", n)) if given is not None}
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
    plans, requests = {}, {}
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
            noise = with_settled_law(plans[name]).options.noise
            request = replace(request, options=replace(request.options, noise=noise))
            plans[name] = source.plan(request)
            arguments[name] = {**model, "noise": noise}
        requests[name] = request  # that of the plan may have been settled by n, and a fit settles it itself
    parts = [plan.guarantee for plan in plans.values()]
    if bought:
        parts.append(ranges.guarantee(PROOF))
    return ManyPlans(plans, arguments, declared, bought, ranges.eps, compose(parts), privacy.record, requests)


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


def _errors(plan: Plan) -> str:
    """Whether the fit will have standard errors: "yes", "no", or "perhaps" where its noise decides."""
    if not releases_errors(plan):
        return "no"
    information = plan.stages[-1].plan.information
    return "perhaps" if information is not None and information.purchase.free else "yes"


def _why_not_offered(plan: Plan) -> str | None:
    """Why `inference` would be refused, with what to do instead, in a sentence."""
    why = plan.stages[-1].plan.errors_note
    if why is not None:
        return why
    reason = obstacle(plan.family, plan.request.penalty, plan.request.options)
    return None if reason is None else f"{argument('inference', True)} {reason}."


def _family(model: Mapping[str, Any]) -> Family:
    return get_family(model.get("family", "gaussian"))

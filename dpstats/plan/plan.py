"""The plan of a call: curvature, noise and budget split, fixed without reading a row."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from dpstats.call import Request
from dpstats.errors import ArgumentError
from dpstats.families import BinomialCounts, Family, Gaussian, NegativeBinomial, Poisson, Quantile
from dpstats.families.base import OF_PIECES, check_cap
from dpstats.families.negative_binomial import least_alpha
from dpstats.families.quantile import default_width
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import ArrayDesign, PublicDesign
from dpstats.mechanisms.fit_statistics import FitStatisticsPlan
from dpstats.mechanisms.focus import FocusPlan
from dpstats.mechanisms.napp import stored_plan
from dpstats.mechanisms.screening import ScreeningPlan
from dpstats.mechanisms.stage import Stage
from dpstats.plan.facts import PlanFacts, PlannedCall
from dpstats.plan.methods import (
    INTERVAL_CAP,
    ONE_TAIL,
    WORKING_CAP,
    ResidualPurchase,
    ResponsePurchase,
    caps_for_intervals,
    centre_stages,
    chosen_range_eps,
    fit_spec,
    may_cap_persons,
    may_take_sums,
    needs_errors,
    paid_apart,
    persons_for_cap,
    plan_fit_statistics,
    plan_focus,
    plan_releases,
    proof_page,
    range_eps,
    response_purchase,
    uncertified_method,
    zcdp_of,
)
from dpstats.plan.notes import guarantee_note, main_notes, plan_notes, rounding_note
from dpstats.plan.row_counts import RowCounts
from dpstats.plan.simulated import Simulated
from dpstats.plan.tables import (
    OPEN_METHOD,
    banner,
    column_table,
    facts_lines,
    header_table,
    method_name,
    model_title,
    modelled_level,
    penalty_text,
    plan_tables,
    purchases_text,
    rows_table,
)
from dpstats.privacy.guarantee import Guarantee, check_budget
from dpstats.privacy.ranges import check_range_eps
from dpstats.replication.napp import plan_replication
from dpstats.summaries import Summary, shorten, wrap_note
from dpstats.wording import argument, phrase

_log = logging.getLogger("dpstats")

LEAST_REST = 1e-12
"""Shares that leave less of eps than that for the coefficients leave rounding errors, if anything."""


class Plan(Simulated, PlanFacts):
    """The releases of a call and their cost; a function of formula, Domain and options alone.

    Attributes
    ----------
    request : Request
    design : PublicDesign
        Columns and their bounds.
    formula : str or None
        None for plain arrays.
    bought : tuple of str
        Columns whose range, or an interval within it, is bought from the budget.
    trimmed : tuple of str
        Columns with a declared range for which an interval is bought.
    stages : tuple of Stage
        The releases of the fit, in order.
    guarantee : Guarantee
        For everything the call releases.
    response : ResponsePurchase or None
        The purchase on the response within its range; until then the declared range is used, and a likely mean of
        counts where free errors need one. None without a purchase.
    residuals : ResidualPurchase or None
        The first fit and the spread of the residuals about it, of least squares by sums; None if none are bought, and
        until rows are counted unless their number is public (`n`).
    completed : bool
        Whether the bought ranges are known, and the columns that screening keeps; until then the plan uses (-1, 1) for
        each range, and the widest terms for those kept.
    screening : ScreeningPlan or None
        The choice of terms before the fit; the stages then hold only the columns kept.
    fitstats : FitStatisticsPlan or None
        The purchase of fit statistics after the stages; None without one.
    focus : FocusPlan or None
        What is bought of the arms of a randomised treatment; None if nothing.
    advice : tuple of str
        Hints at probable mistakes in names and declarations.
    call : Planned or None
        The call that `fit` and `simulate` carry out; only plans from `dpstats.plan` have one.

    Examples
    --------
    >>> import dpstats as dp
    >>> plan = dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, eps=1.0)
    >>> plan.noise.kind, plan.names, plan.df_model
    ('laplace', ('Intercept', 'x'), 1)
    >>> bool(plan.risk_bounds().value("unregularised", "quantile") > 0)
    True
    >>> "per_row" in plan.excess_risk(n=2000).columns
    True
    """

    def fit(
        self,
        data: object,
        *,
        ledger: Any = None,
        seed: int | None = None,
        memory: float | None = None,
        engine: str | None = None,
        label: str | None = None,
        analyst: str | None = None,
    ) -> Any:
        """Carry out a plan from `dpstats.plan` on private rows; arguments and result as for `dpstats.glm`.

        Examples
        --------
        >>> plan.fit({"x": [0.2, 0.4], "y": [0.1, 0.9]})
        <GLMResults: gaussian, y ~ x; eps=1, add_remove, certified>
        """
        call = self._call("fit")
        return call.fit(data, engine, ledger=ledger, seed=seed, memory=memory, label=label, analyst=analyst)

    def by_rows(self, n: int | Sequence[int] | None = None) -> pd.DataFrame:
        """What the plan will spend on ranges and on standard errors once it knows the number of rows.

        Parameters
        ----------
        n : int, sequence of int or None
            Numbers of rows, or of persons of a plan with a unit; by default several from 300 to 1,000,000.

        Returns
        -------
        DataFrame
            By number of rows: ranges, "bought" where intervals within the declared ranges are; errors, "none", "free"
            or "paid"; share, the share of coefficients that are expected to have an interval; and method, as the
            summary of the fit names it, or "napp or statistics" where what is bought before decides between the two.
            The share is a cautious forecast, for uninformative rows (narrow, off-centre numbers; rare levels) and the
            declared ranges (docs/proofs/adaptive); `standard_errors` and `dp.sample_size` also forecast for usual rows,
            which show intervals with far fewer. Numbers with typical values are as these say, and rows beyond them
            are taken off as of normal numbers; those beyond an interval that was bought are not. Numbers with
            ``inner=`` alone lie far from its middle, as skewed ones do: a mean at 1/5 of its width, and a standard
            deviation of 1/8. Of a screened model the widest terms stand for those that will be chosen, and narrower
            ranges of chosen columns cost their part of eps but count as declared. The forecast is then for hardly
            correlated columns (0.2) and not cautious: if chosen columns are more correlated, fewer have an interval.
            Nor is it cautious of a negative binomial fit that buys alpha: it is for counts that vary as Poisson counts
            do, and if they vary more, fewer coefficients have an interval. With ``inference=True`` errors are paid for
            in every line. The frame is empty, and a warning says why, if the number of rows changes nothing or there is
            no forecast.

        Examples
        --------
        >>> dp.plan("y ~ x", {"x": (0, 1), "y": bool}, 1.0, family="binomial").by_rows()["errors"].iloc[-1]
        'free'
        """
        table = self._call("by_rows").by_rows(self, n)
        if table.empty:
            _log.warning("dpstats: by_rows is empty: %s", self._same_for_all_rows())
        return table

    def _same_for_all_rows(self) -> str:
        """Why the number of rows changes nothing, or there is no forecast by it."""
        options = self.request.options
        if self.counts is not None and (self.counts.settles_errors or self.counts.trimmable):
            return f"there is no forecast with weights, trials, {argument('refit_share')} or a selection"
        if self.counts is None and options.n is None:
            errors = "" if options.inference is True else f"; {argument('inference', True)} buys standard errors"
            return f"this plan counts no rows, so it is the same for every number of them{errors}"
        setting = argument("inference", options.inference) if options.n is None else argument("n")
        fixed = options.inference != "auto" or options.n is not None
        free = "" if options.unit is None else f"; {argument('inference', True)} buys standard errors"
        fix = f"; leave out {setting} and it follows their number" if fixed else free
        return f"this plan is the same for every number of {options.record.of}{fix}"

    def at(self, eps: float) -> Plan:
        """The plan of the same call at another eps; reads no row and spends nothing.

        Examples
        --------
        >>> plan.at(2.0).eps
        2.0
        """
        call = self._call("at")
        # With a public number of rows eps decides what is bought.
        return replan(self, eps) if self.request.options.n is None else call.at(eps).plan()

    @property
    def charges(self) -> tuple[Guarantee, ...]:
        """What a fit charges to a ledger, in order: rows may be counted first, at a price of their own.

        Examples
        --------
        >>> [charge.eps for charge in plan.charges]
        [0.03, 0.97]
        """
        return (self.guarantee,) if self.counts is None else self.counts.guarantees(self.guarantee)

    @property
    def entries(self) -> tuple[dict[str, str], ...]:
        """The words of each of the `charges` in a ledger: a label, and a method, as a summary names it.

        Examples
        --------
        >>> [entry["method"] for entry in plan.entries]
        ['row counts', 'napp']
        """
        method = self.family.name if self.family.name in OF_PIECES else method_name(self)
        if self.counts is None:
            return ({"label": self.title, "method": method},)
        if self.counts.settles_errors and may_take_sums(self.request, self.design):
            method = OPEN_METHOD  # settled after the charge, by their number and what is bought
        counting = {"label": f"rows of a {self.title}", "method": "row counts"}
        return counting, {"label": self.title, "method": method}

    def _call(self, what: str) -> PlannedCall:
        if self.call is None:
            verb = f"dp.plan_{self.family.name}" if self.family.name in OF_PIECES else "dp.plan"
            raise ArgumentError(f"{what} is for what {verb} returns: {verb}(formula, domain, eps, ...).{what}(...)")
        return self.call

    @property
    def coefficients(self) -> list[str]:
        return list(self.names)

    def summary(self) -> Summary:
        """The public tables of the plan, in statsmodels' look; as_text, as_html and as_latex.

        Examples
        --------
        >>> "gaussian" in plan.summary().as_text()
        True
        """
        case, rows = self._usual(outcomes := self._outcomes())
        tables = [header_table(self, "none read"), column_table(self), *plan_tables(case, rows)]
        tables += [] if outcomes.empty else [rows_table(outcomes)]
        return Summary(
            tables, [*plan_notes(self, what="A fit by this plan", case=case), *rounding_note(case.objective)]
        )

    def _outcomes(self) -> pd.DataFrame:
        """The table of `by_rows` where rows will be counted that settle something; empty elsewhere."""
        follows = self.counts is not None and (self.counts.settles_errors or self.counts.trimmable)
        return self.call.by_rows(self) if self.call is not None and follows else pd.DataFrame()

    def _usual(self, outcomes: pd.DataFrame) -> tuple[Plan, str]:
        """The plan as most lines of the table of `by_rows` have it, and for how many rows, in words; itself without.

        Of lines that print alike it is the first. An open plan stands for errors that cost nothing, which fits of few
        rows never have.
        """
        if self.call is None:
            return self, ""
        if outcomes.empty:
            counted = self.counts is not None and self.counts.rows is None
            if not (counted and may_cap_persons(self.request, self.design)):
                return self, ""
            rows = persons_for_cap(self.request, len(self.names))
            return self.call.with_rows(self, rows), f"with {rows:,} {self.request.options.record.of}"
        kinds = list(zip(outcomes["ranges"], outcomes["errors"], outcomes["method"], strict=True))
        alike = [
            rows
            for rows, kind in zip(outcomes.index, kinds, strict=True)
            if kinds.count(kind) == max(map(kinds.count, kinds))
        ]
        printed = _printed(outcomes).astype(str)
        same = (printed == printed.loc[alike[len(alike) // 2]]).all(axis=1)
        rows = int(printed.index[same][0])
        return self.call.with_rows(self, rows), f"with {rows:,} {outcomes.index.name}"

    def __str__(self) -> str:
        """What most readers need of the `summary`."""
        outcomes, guarantee = self._outcomes(), self.guarantee
        open_method = not outcomes.empty and outcomes["method"].nunique() > 1  # the table has it
        facts = [f"{self.family.link} link", f"{len(self.names)} columns"]
        facts += [] if open_method else [f"method: {method_name(self)}"]
        facts += [] if self.request.penalty is None else [f"penalty: {penalty_text(self)}"]
        lines = [*banner(guarantee), model_title(self), *facts_lines([modelled_level(self), *facts])]
        if not outcomes.empty:
            # No line repeats another.
            lines += rows_table(_printed(outcomes).drop_duplicates()).as_text().split("\n")
        delta = f", delta {guarantee.delta:.3g}" if guarantee.delta else ""
        case, rows = self._usual(outcomes)
        budget = (
            f"Budget: eps {guarantee.eps:.4g}{delta}{f', {rows}' * bool(rows)}: {purchases_text(case, case.budget)}."
        )
        notes = [guarantee_note(self, "A fit by this plan"), budget, *main_notes(self)]
        notes.append(f"All tables and notes: {phrase('print(plan.summary())', shell='--full')}")
        return "\n".join([*lines, "", *itertools.chain.from_iterable(map(wrap_note, notes))])

    def __repr__(self) -> str:
        return f"<Plan: {self.description}>"

    @property
    def description(self) -> str:
        """Model and guarantee in a line."""
        model = (
            shorten(self.formula, 200)
            if self.formula
            else f"{self.design.response_name} on {len(self.names)} columns of an array"
        )
        return f"{self.family.name}, {model}; {self.guarantee}"

    @property
    def title(self) -> str:
        """A line that names the release, for the ledger."""
        if self.family.name == "hazard":  # weights and offsets are those of pieces of time
            return f"hazard of {str(self.formula).partition('~')[0].strip()} on {len(self.names)} columns"
        weighted = ", weighted" if self.design.score_ratio is None else ""
        offset = ", with an offset" if self.design.offset_bound else ""
        return f"{self.family.name} GLM of {self.design.response_name} on {len(self.names)} columns{weighted}{offset}"

    def digest(self) -> str:
        """A hash of the public facts, as the ledger records it.

        Examples
        --------
        >>> plan.digest() == dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, eps=1.0).digest()
        True
        """
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON.

        Examples
        --------
        >>> dp.Plan.from_dict(plan.to_dict()).digest() == plan.digest()
        True
        """
        return {
            "formula": self.formula,
            "bought": list(self.bought),
            "request": self.request.to_dict(),
            "design": self.design.to_dict(),
            "stages": [[role, plan.to_dict()] for role, plan in self.stages],
            "guarantee": self.guarantee.to_dict(),
            "response": None if self.response is None else self.response.to_dict(),
            "completed": self.completed,
            "screening": None if self.screening is None else self.screening.to_dict(),
            **({} if self.fitstats is None else {"fitstats": self.fitstats.to_dict()}),
            **({} if self.focus is None else {"focus": self.focus.to_dict()}),
            **({} if self.counts is None else {"counts": self.counts.to_dict()}),
            **({"trimmed": list(self.trimmed)} if self.trimmed else {}),
            **({} if self.residuals is None else {"residuals": self.residuals.to_dict()}),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Plan:
        """The plan whose `to_dict` gave `stored`."""
        response = stored.get("response")
        design = ArrayDesign if stored["formula"] is None else DesignSpec
        return cls(
            request=Request.from_dict(stored["request"]),
            design=design.from_dict(stored["design"]),
            formula=stored["formula"],
            bought=tuple(stored["bought"]),
            stages=tuple(Stage(role, stored_plan(plan)) for role, plan in stored["stages"]),
            guarantee=Guarantee(**stored["guarantee"]),
            response=None if response is None else ResponsePurchase(**response),
            completed=stored["completed"],
            screening=None if stored.get("screening") is None else ScreeningPlan.from_dict(stored["screening"]),
            fitstats=None if stored.get("fitstats") is None else FitStatisticsPlan.from_dict(stored["fitstats"]),
            focus=None if stored.get("focus") is None else FocusPlan(**stored["focus"]),
            counts=None if stored.get("counts") is None else RowCounts.from_dict(stored["counts"]),
            trimmed=tuple(stored.get("trimmed", ())),
            residuals=None if stored.get("residuals") is None else ResidualPurchase.from_dict(stored["residuals"]),
        )


def _printed(outcomes: pd.DataFrame) -> pd.DataFrame:
    """The table of `by_rows` with its shares as they are printed."""
    return outcomes.assign(share=outcomes["share"].round(2))


@np.errstate(all="ignore")
def make_plan(
    request: Request,
    design: PublicDesign,
    family: Family,
    *,
    formula: str | None,
    bought: tuple[str, ...] = (),
    trimmed: tuple[str, ...] = (),
    response: ResponsePurchase | None = None,
    counts: RowCounts | None = None,
    residuals: ResidualPurchase | None = None,
) -> Plan:
    """Split the budget and plan the release; reads no row. Every cap of `family` is filled in.

    `bought` are columns whose range is bought, `trimmed` those of which the range is declared and an interval bought;
    design and family follow what is bought of the response already, and `counts` of rows are paid for before all else.
    """
    if bought:
        _check_bought(request, design, family, bought, trimmed)
    # A cap on residuals is given in the response's units, which may be any.
    check_cap("residual_cap, or another cap on the loss's slope, over half the response's range", family.lipschitz)
    if isinstance(family, Quantile):
        check_cap("h, over half the response's range,", family.h)
    left = request.row_eps if counts is None else request.options.record.each(counts.rest)
    spec = fit_spec(request, design, family, response, residuals)
    left -= range_eps(request, bought) + sum(one.eps for one in (response, residuals) if one is not None)
    rows = request.options.n if counts is None else counts.rows
    spec = spec if bought else replace(spec, range_eps=chosen_range_eps(request, spec, rows))
    left += spec.cap_eps  # by the rows of the last fit, beside what the others pay for the choice
    focus = None if request.options.focus is None else plan_focus(request, design, request.options.focus, spec)
    fitstats = plan_fit_statistics(request, design, spec)
    left -= 0.0 if focus is None else focus.eps
    rest = left - (0.0 if fitstats is None else fitstats.eps)
    if rest <= LEAST_REST * request.row_eps:
        purchases = {
            "check_share": counts,
            "range_share": bought,
            "response_share": response,
            "fitstats": fitstats,
        }
        shares = " or ".join(argument(name) for name, purchase in purchases.items() if purchase)
        raise ArgumentError(f"{shares} must be lower: no eps is left for the coefficients")
    screening, stages = plan_releases(request, design, spec, rest)
    if fitstats is not None and stages[-1].plan.information is None:
        if request.options.fitstats != "auto" or fitstats.variables is not None or fitstats.by is not None:
            raise ArgumentError(f"fitstats {needs_errors()}")
        fitstats, (screening, stages) = None, plan_releases(request, design, spec, left)
    if response is not None and response.mean is not None:
        kept = range(len(design.names)) if screening is None else screening.kept
        stages = centre_stages(stages, design, response.mean, kept)
    if request.options.replicates:
        stages = plan_replication(stages, spec)
    guarantee = _guarantee(request, design, stages, screening, alone=not (bought or counts or response or residuals))
    first = counts is not None and request.method == "statistics" and not bought and response is None
    if counts is not None and first and (rho := zcdp_of(stages)) is not None:
        guarantee = replace(guarantee, rho=rho + counts.eps**2 / 2)  # eps-DP is eps^2 / 2-zCDP
    return Plan(
        request,
        design,
        formula,
        bought,
        stages,
        guarantee,
        response,
        screening=screening,
        fitstats=fitstats,
        focus=focus,
        counts=counts,
        trimmed=trimmed,
        residuals=residuals,
    )


def _check_bought(
    request: Request, design: PublicDesign, family: Family, bought: tuple[str, ...], trimmed: tuple[str, ...]
) -> None:
    """Raise ArgumentError unless these ranges can be bought; see `make_plan`."""
    unknown = [name for name in bought if name not in trimmed]
    if request.options.retrieval == "return":
        fix = f"declare {', '.join(unknown)}" if unknown else f"leave out {argument('ranges', 'bought')}"
        raise ArgumentError(f"{argument('retrieval', 'return')} needs every range in the domain; {fix}")
    if request.options.replicates and trimmed:
        raise ArgumentError(f"{argument('ranges', 'bought')} is not part of the replicated paper; leave it out")
    if design.response_name in bought and family.response == "count" and request.options.curvature is not None:
        # The curvature that suffices follows the greatest count: too little of it must not come out after the charge.
        raise ArgumentError(f"curvature needs the range of the counts in the domain; declare {design.response_name}")


def _guarantee(
    request: Request,
    design: PublicDesign,
    stages: tuple[Stage, ...],
    screening: ScreeningPlan | None,
    *,
    alone: bool,
) -> Guarantee:
    """For everything that a call with these stages releases; they are `alone` if nothing is bought beside them."""
    returned = sum(plan.planned_eps - plan.eps for _, plan in stages)
    record = request.options.record
    guarantee = Guarantee(
        request.eps - record.rows * returned,
        _spent_delta(request, stages, screening),
        request.adjacency,
        basis=proof_page(request, stages),
        rho=zcdp_of(stages) if alone else None,
        unit=record.column,
    )
    unproved = uncertified_method(request, design)
    for reason in (*request.uncertified_reasons, *(() if unproved is None else (unproved,))):
        guarantee = guarantee.uncertified(reason)
    return guarantee


def _spent_delta(request: Request, stages: tuple[Stage, ...], screening: ScreeningPlan | None) -> float:
    """Pure noise spends no delta; all of it is charged while the law of the noise is open."""
    if screening is not None and request.options.noise != "laplace":
        return request.delta  # the law follows the columns kept
    if all(plan.noise.kind == "gaussian" for _, plan in stages):
        return request.delta
    return max(sum(plan.delta for _, plan in part) for part in paid_apart(stages, request.options))


def replan(plan: Plan, eps: float) -> Plan:
    """The plan of the same call with `eps` in place of its total; reads no row and spends nothing.

    Bought values that the plan knows already stay as they are. A law of the noise that the call did not ask for is
    settled anew. ArgumentError if `eps` is too small for the ranges that the call buys.
    """
    eps, _ = check_budget(eps)
    original = plan.request if plan.call is None else plan.call.request
    request = replace(plan.request, eps=eps, options=replace(plan.request.options, noise=original.options.noise))
    unknown = [name for name in plan.bought if name not in plan.trimmed]
    if unknown and not plan.completed:
        # Of few rows an interval within a declared range is that range: any share will do.
        share = range_eps(request, plan.bought) / len(plan.bought)
        check_range_eps(share, unknown, request.adjacency, request.options.rows_at_least)
    response = plan.response
    if response is not None and (priced := response_purchase(request, plan.design)) is not None:
        response = replace(response, eps=priced.eps)
    residuals = plan.residuals
    if residuals is not None:
        residuals = replace(residuals, eps=residuals.eps * eps / plan.request.eps)
    counts = None if plan.counts is None else plan.counts.at(eps)
    known = replace(plan, response=response, counts=counts, residuals=residuals)
    again = settle_law(replan_request(known, request))
    return replace(again, call=None if plan.call is None else plan.call.at(eps))


def replan_request(plan: Plan, request: Request) -> Plan:
    """What another request plans for the same model, purchases and counts; reads no row."""
    return make_plan(
        request,
        plan.design,
        plan.family,
        formula=plan.formula,
        bought=plan.bought,
        trimmed=plan.trimmed,
        response=plan.response,
        counts=plan.counts,
        residuals=plan.residuals,
    )


def settle_law(plan: Plan) -> Plan:
    """The plan, or one that insists on its law of noise where a purchase could change it.

    The charge is made before the purchase: no stage's noise may turn from pure to Gaussian after it, and no delta
    may be charged that the fit, which keeps to one law from then on, does not spend.
    """
    buys = plan.bought or plan.response is not None or plan.counts is not None
    several = len({stage.noise.kind for _, stage in plan.stages}) > 1
    follows = plan.screening is not None and plan.request.options.noise is None  # the columns that are chosen
    return replan_request(plan, with_settled_law(plan)) if buys and (several or follows) else plan


def with_settled_law(plan: Plan) -> Request:
    """The plan's request, insisting on the law of its noise; on pure noise if stages differ."""
    laws = {stage.noise.kind for _, stage in plan.stages}
    law = laws.pop() if len(laws) == 1 else "laplace"
    return replace(plan.request, options=replace(plan.request.options, noise=law))


UNIT_RESPONSE = (-1.0, 1.0)
"""The range assumed of a continuous array response, as row_norm=1 is of the rows."""


def plan_model(
    request: Request,
    design: DesignSpec,
    *,
    bought: tuple[str, ...],
    trimmed: tuple[str, ...],
    response: ResponsePurchase | None = None,
    counts: RowCounts | None,
    residuals: ResidualPurchase | None = None,
) -> Plan:
    """The plan of a design with every range, and of what was bought of the response; the rest as for `make_plan`."""
    response = response or response_purchase(request, design)
    # The sums of released statistics are of the response as it is declared: its range is their bound.
    scaling = None if request.method == "statistics" else response
    if request.family.response == "continuous":
        design = design.without_working() if scaling is None else design.with_working(scaling.low, scaling.high)
    rows = request.options.n if counts is None else counts.rows
    # A width that follows a count could need more curvature than was judged before the charge.
    judged = counts is not None and request.options.curvature is not None
    information = None if judged or rows is None else rows * request.row_eps
    family = scaled_family(
        request.family, design, scaling, intervals=caps_for_intervals(request), information=information
    )
    if isinstance(family, Gaussian) and residuals is not None and residuals.centre is not None and scaling is not None:
        # Of persons: the loss has the cap that sums of rows would have.
        cap = residuals.centre.cap * design.without_working().response_scaling()[1] / design.response_scaling()[1]
        family = replace(family, residual_cap=min(cap, family.lipschitz))
    return make_plan(
        request,
        design,
        family,
        formula=design.formula,
        bought=bought,
        trimmed=trimmed,
        response=response,
        counts=counts,
        residuals=residuals,
    )


def rescaled(
    plan: Plan,
    request: Request,
    response: ResponsePurchase | None = None,
    residuals: ResidualPurchase | None = None,
) -> Plan:
    """What another request, or what has been bought of response or residuals, plans for the same model of a formula."""
    assert isinstance(plan.design, DesignSpec)
    return plan_model(
        request,
        plan.design,
        bought=plan.bought,
        trimmed=plan.trimmed,
        response=response,
        counts=plan.counts,
        residuals=residuals,
    )


def unit_family(family: Family, *, intervals: bool) -> Family:
    """The family of a continuous response in [-1, 1] of which nothing is bought; see `caps_for_intervals`."""
    return Gaussian(INTERVAL_CAP) if intervals else family.resolve(UNIT_RESPONSE)


def interval_cap(design: DesignSpec, response: ResponsePurchase) -> float:
    """The residual cap of a fit with errors, in half widths of the interval of the response that was bought."""
    # No tail makes it wider than for a response that fills its range.
    reach = (design.response.high - design.response.low) / (response.high - response.low)
    return INTERVAL_CAP * (min(ONE_TAIL, reach) if response.one_tail else 1.0)


def scaled_family(
    family: Family,
    design: DesignSpec,
    response: ResponsePurchase | None = None,
    *,
    intervals: bool = False,
    information: float | None = None,
) -> Family:
    """The family on the scale of the design's response, open caps filled in from its public range.

    A residual cap, or the width of a rounded corner, is given in the response's units; the solver sees a continuous
    response scaled to [-1, 1]. `information` is rows times eps, where their number is public.
    """
    if design.response.trials is not None:
        return BinomialCounts(design.response.trials)
    _, half_width = design.response_scaling()
    if isinstance(family, Gaussian):
        given = family.residual_cap
        if given is not None:
            return replace(family, residual_cap=given / half_width)
        if response is None:
            return unit_family(family, intervals=intervals)
        return Gaussian(interval_cap(design, response) if intervals else WORKING_CAP)
    if isinstance(family, Quantile):
        open_width = default_width(family.q, information)
        return replace(family, h=open_width if family.h is None else family.h / half_width)
    if response is not None and isinstance(family, Poisson):
        most = response.high if family.y_max is None else min(response.high, family.y_max)
        return replace(family, y_max=most).resolve(None)
    if response is not None and isinstance(family, NegativeBinomial):
        most = response.high if family.y_max is None else min(response.high, family.y_max)
        # Until it is bought the least alpha stands in, beside which no other one has more noise.
        return replace(family, y_max=most, alpha=least_alpha(most, response.alpha))
    return family.resolve((design.response.low, design.response.high))

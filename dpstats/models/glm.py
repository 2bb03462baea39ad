"""Generalised linear models with a privacy guarantee: plan, charge, read rows, release."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar, Unpack, overload

import pandas as pd

from dpstats.arguments import explain_calls
from dpstats.call import (
    ChargeKeywords,
    DomainLike,
    FitKeywords,
    Request,
    RequestKeywords,
    RowKeywords,
    expand_signature,
    make_request,
    split_kwargs,
)
from dpstats.data import Block, Memory, Rows, as_table
from dpstats.data.passes import single_blas_thread
from dpstats.domain import Levels
from dpstats.errors import ArgumentError, DataError, DomainError, MismatchError
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.formula.faults import column_facts
from dpstats.ledger import Part, as_ledger, check_columns
from dpstats.ledger.reader import correction
from dpstats.mechanisms.fit_statistics import release_fit_statistics
from dpstats.mechanisms.focus import release_arm_sums
from dpstats.mechanisms.napp import release_stages
from dpstats.mechanisms.screening import release_screened
from dpstats.models.adaptive import carried_out, interval_follows
from dpstats.models.errors_needed import needed_rows, too_few_rows
from dpstats.models.forecast import Forecast, forecast
from dpstats.models.forecast_by_rows import by_rows, forecast_by_rows
from dpstats.models.pieces import PieceSource, ReadPieces
from dpstats.models.population import population_rows
from dpstats.models.release import Release, check_rows, holdouts
from dpstats.models.sources import OFFSET_BOUND, ArraySource, FormulaSource, count_rows, model_formula
from dpstats.plan import Plan, fit_spec, paid_apart, range_eps
from dpstats.plan.error_notes import lacks_errors
from dpstats.plan.row_counts import RowCounts
from dpstats.privacy.accounting import compose
from dpstats.privacy.guarantee import Guarantee, check_planned
from dpstats.privacy.randomness import RandomSource, random_source
from dpstats.quiet import hide_frames, quiet
from dpstats.replication.napp import release_replication
from dpstats.results.glm_results import GLMResults
from dpstats.wording import argument, phrase, sentence

_log = logging.getLogger("dpstats")


class GLM:
    """A generalised linear model of plain arrays, or of a frame through `from_formula`.

    Parameters
    ----------
    endog : array_like, shape (rows,)
        The response. For "binomial" and the SVMs 0 or 1; for "gaussian" clipped to [-1, 1] in effect unless the family
        has a `residual_cap`; for "poisson" counts up to the family's `y_max`.
    exog : array_like, shape (rows, p)
        The columns, an intercept included if wanted. Rows longer than `row_norm` are shortened to it; rows with a
        value that is not finite are dropped.
    family : str or Family
        "gaussian", "binomial", "poisson", "huber_svm", "smooth_svm", or an object of ``dp.families``.
    row_norm : float or dict
        An l2 bound on the rows, or bounds such as ``{"l2": 1, "l1": 3.75}``. It must be stated, since longer rows are
        shortened to it and the noise grows with it. Public: not computed from the data.
    names : sequence of str, optional
        Column names.
    weights : array_like, shape (rows,), optional
        What each row counts, as in a survey: scaled by `weight_bound`, never by the data. Rows of a weight that is
        missing, infinite or not positive are dropped.
    offset : array_like, shape (rows,), optional
        Added to the linear predictor; the logarithm of an exposure, say. It costs no privacy.
    weight_bound, offset_bound : float
        Public bounds: a weight beyond counts as this much, an offset is clipped to this size.

    Raises
    ------
    DataError
        If the arrays have the wrong type or shape.
    ArgumentError
        If another argument is not usable.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> exog = np.column_stack([np.ones(2000), rng.uniform(0, 1, 2000)])
    >>> model = dp.GLM(rng.integers(0, 2, 2000), exog, family="binomial", row_norm=2**0.5, names=["const", "x"])
    >>> model.fit(eps=1.0)
    <GLMResults: binomial, y on 2 columns of an array; eps=1, add_remove, certified>
    """

    def __init__(
        self,
        endog: Any,
        exog: Any,
        family: str | Family = "gaussian",
        row_norm: float | Mapping[str, float] | None = None,
        names: Sequence[str] | None = None,
        *,
        weights: Any = None,
        offset: Any = None,
        weight_bound: float = 1.0,
        offset_bound: float = OFFSET_BOUND,
    ) -> None:
        if row_norm is None:
            raise ArgumentError(
                "row_norm is missing: pass a public bound on the Euclidean length of a row of exog, with the "
                "intercept, such as row_norm=1.0; longer rows are shortened. A formula with a Domain needs none: "
                "dp.glm(formula, data, eps, domain=...)"
            )
        self._source: ArraySource | FormulaSource = ArraySource(
            endog,
            exog,
            row_norm,
            names,
            weights=weights,
            offset=offset,
            weight_bound=weight_bound,
            offset_bound=offset_bound,
        )
        self.family = family

    @classmethod
    @explain_calls()
    @expand_signature(RowKeywords)
    def from_formula(
        cls,
        formula: str,
        data: object,
        family: str | Family = "gaussian",
        domain: DomainLike = None,
        *,
        engine: str | None = None,
        **row_terms: Unpack[RowKeywords],
    ) -> GLM:
        """A model of a frame's columns.

        Parameters
        ----------
        formula : str
            As in R, statsmodels and patsy; only row-wise expressions of the frame's columns.
        data : DataFrame or another table
        family : str or Family
        domain : Domain or dict, optional
            Public ranges and levels of the columns. Numeric columns left out have their range bought privately.
        weights, offset, exposure, subset : str, optional
            Columns, or expressions of columns; see `dpstats.glm`.
        engine : {"dask"}, optional
            Read files on the cluster that this process is a client of; see `dpstats.glm`.

        Examples
        --------
        >>> import numpy as np
        >>> import dpstats as dp
        >>> rng = np.random.default_rng(0)
        >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.integers(0, 2, 2000)}
        >>> model = dp.GLM.from_formula("y ~ x", rows, "binomial", {"x": (0, 1), "y": (0, 1)})
        >>> model.fit(eps=1.0)
        <GLMResults: binomial, y ~ x; eps=1, add_remove, certified>
        """
        model = cls.__new__(cls)
        model._source = FormulaSource(model_formula(formula, family, **row_terms), as_table(data, engine), domain)
        model.family = family
        return model

    @hide_frames
    @explain_calls()
    @expand_signature(FitKeywords)
    def fit(self, eps: float, **arguments: Unpack[FitKeywords]) -> GLMResults:
        """Spend (eps, delta) on one private fit.

        Parameters
        ----------
        eps, delta : float
            The budget; delta = 0 asks for Laplace noise and a pure guarantee, delta > 0 for Gaussian noise.
        method : {"auto", "napp", "objective", "output", "statistics", "posterior"}
        penalty : str, Penalty or None
        alpha : float, optional
            Strength of a penalty given by name.
        adjacency : {"add_remove", "replace_one"}
            Neighbouring data differ by the presence of a row (the number of rows is private), or by its contents.
        ledger : Ledger, Part or path, optional
            Charged durably before any row is read; a part of a partition pays for its own rows, and only they are read.
        seed : int, optional
            For tests only: makes the release reproducible and its guarantee uncertified.
        allow_uncertified : bool
            Needed for settings that exist to replicate a paper.
        memory : float, optional
            Bytes that rows in model units may take up in memory; see `dpstats.glm`.
        label, analyst : str, optional
            What the ledger's entry is called and who makes it.
        **options
            See `dpstats.call.Options`.

        Returns
        -------
        GLMResults

        Raises
        ------
        ArgumentError, FormulaError, DomainError, DataError
            Before anything is spent, if an argument, the formula or the frame's schema is not usable.
        BudgetExceeded
            If the ledger has too little left; nothing is released.

        Examples
        --------
        >>> model.fit(eps=0.5, penalty="ridge", alpha=1.0)
        <GLMResults: binomial, y on 2 columns of an array; eps=0.5, add_remove, certified>
        """
        charge, settings = split_kwargs(arguments, ChargeKeywords)
        return fit_source(self._source, make_request(eps=eps, family=self.family, **settings), **charge)

    def __getstate__(self) -> Any:
        """Refuse to be pickled: the rows would go along."""
        raise DataError("a model holds private rows and cannot be pickled or copied; fit it and save the result")

    @explain_calls()
    @expand_signature(RequestKeywords)
    def plan(self, eps: float, **arguments: Unpack[RequestKeywords]) -> Plan:
        """What `fit` with these arguments would release and cost, from public facts and the data's schema alone.

        Parameters
        ----------
        eps : float
        **arguments
            As for `fit`, without `ledger`.

        Returns
        -------
        Plan

        Examples
        --------
        >>> model.plan(eps=0.5)
        <Plan: binomial, y on 2 columns of an array; eps=0.5, add_remove, certified>
        """
        return self._source.plan(make_request(eps=eps, family=self.family, **arguments), alone=True)


Source = ArraySource | FormulaSource | PieceSource
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Further(Generic[Result]):
    """What is charged with a fit and released after it, of the same rows, by what the fit has released."""

    guarantee: Guarantee
    title: str
    release: Callable[[GLMResults, Any, RandomSource], Result]


@overload
def fit_source(
    source: Source,
    request: Request,
    *,
    alone: bool = True,
    further: None = None,
    **charge: Unpack[ChargeKeywords],
) -> GLMResults: ...


@overload
def fit_source(
    source: Source,
    request: Request,
    *,
    alone: bool = True,
    further: Further[Result],
    **charge: Unpack[ChargeKeywords],
) -> Result: ...


def fit_source(
    source: Source,
    request: Request,
    *,
    alone: bool = True,
    further: Further[Any] | None = None,
    **charge: Unpack[ChargeKeywords],
) -> Any:
    """Plan the model of these rows, tell what may not have been meant, charge for it, read the rows and release it.

    Where it is one of several models that share a budget, and not `alone`, no rows are counted first. With `further`
    the result is what that releases.
    """
    memory = charge.get("memory")
    limit = None if memory is None else Memory(memory)
    try:
        plan = source.plan(request, alone=alone)
    except DomainError as error:
        opened = None if source.domain else as_ledger(charge.get("ledger"))
        if opened is None or opened.domain is None:
            raise
        fix = phrase("pass domain=ledger.domain", shell="leave out --domain")
        raise DomainError(f"{sentence(str(error))} The ledger keeps the Domain of its data: {fix}") from None
    random, ledger, data = random_source(request.seed), as_ledger(charge.get("ledger")), source.data
    if ledger is not None and source.domain is not None:
        check_columns(ledger, source.domain, source.columns)  # before what is logged of a fit
    for one in plan.advice:
        _log.warning("dpstats: %s", one)
    if lacks_errors(plan):
        _log.warning("dpstats: this fit has no standard errors; %s spends eps on them", argument("inference", True))
    if unknown := [name for name in plan.bought if name not in plan.trimmed]:
        _log.warning("dpstats: the budget buys the ranges of %s; declared ranges are free", ", ".join(unknown))
    if plan.counts is not None and data is not None:
        # A query is carried out once for both releases, which share what memory there is.
        limit = Memory() if limit is None else limit
        unit = request.options.record.columns
        read = (*source.columns, *unit, *(ledger.columns if isinstance(ledger, Part) else ()))
        data = data.only(read).within_parts(data.memberships)
    release = partial(
        Release,
        data=data,
        columns=source.columns,
        formula=plan.formula,
        digest=plan.digest if further is None else None,
        domain=source.domain,
        memory=limit,
    )
    title = plan.title if further is None else further.title
    signed = {"analyst": charge.get("analyst"), "label": charge.get("label")}
    rest = plan.guarantee if further is None else compose([plan.guarantee, further.guarantee])
    rows: Rows[Block] | None = None
    stops = alone and request.options.on_mismatch == "stop" and not isinstance(source, PieceSource)
    if stops and isinstance(source, FormulaSource) and data is not None:
        # Before the charge no query is run and no file read: a cell that it fails on would be told for nothing.
        public = request.options.n or (source.nobs(request, data) if data.is_counted else None)
        if public is not None and (few := too_few_rows(plan, public)):
            if ledger is not None:  # to which the number may be private
                check_rows(ledger, rest, data)
                ledger.signed(charge.get("analyst")).check_charges([rest])
            raise ArgumentError(few)
    if plan.counts is not None:
        counted, rest = plan.counts.guarantees(plan.guarantee)
        rest = rest if further is None else compose([rest, further.guarantee])
        label, method = f"rows of a {title}", plan.entries[0]["method"]
        counting = release(counted, work=partial(_release_counts, source, plan, random), label=label, method=method)
        truths = zero_one_response(plan)
        counts, rows = count_first(counting, [counted, rest], ledger, request.options.on_mismatch, truths, **signed)
        plan = replace(plan, counts=counts)
        if stops and counts.rows is not None and (few := too_few_rows(plan, counts.rows)):
            raise MismatchError(f"{sentence(few)} No fit was made; counting the rows cost {counted}")
    fit = partial(release_fit, source, plan, random, encoded=rows)
    work = fit if further is None else lambda data: further.release(fit(data), data, random)
    return release(rest, work=work, label=title, method=plan.entries[-1]["method"]).run(ledger, **signed)


def count_first(
    counting: Release[Any, tuple[RowCounts, Result]],
    charges: Sequence[Guarantee],
    ledger: Any,
    on_mismatch: str,
    truths: Container[str],
    *,
    analyst: str | None,
    label: str | None,
) -> tuple[RowCounts, Result]:
    """The counts of rows and what was read with them, charged by themselves if `charges`, the fit's too, can be met.

    MismatchError if too many rows are at fault, fewer of `truths`, unless the fit is to be made in any case.
    """
    if ledger is not None:
        check_rows(ledger, charges[0], counting.data)
        ledger.signed(analyst).check_charges(charges)
    counts, read = counting.run(ledger, analyst=analyst, label=label)
    if (wrong := counts.mismatch(truths)) and on_mismatch == "stop":
        fix = "Correct the Domain or these cells" if ledger is None or ledger.domain is None else correction()
        raise MismatchError(
            f"{' '.join(map(sentence, wrong))} No fit was made; counting the rows cost {charges[0]}. {fix}, or pass "
            f"{argument('on_mismatch', 'go')} to fit in any case"
        )
    return counts, read


def zero_one_response(plan: Plan) -> list[str]:
    """The response if it is declared as 0 and 1, or true and false: of codes 1 and 2 one class alone would be left."""
    design = plan.design
    assert isinstance(design, DesignSpec)
    facts = column_facts(design.parsed, design.domain, plan.family)
    return [
        name
        for name in design.parsed.response_columns
        if isinstance(fact := facts[name], Levels) and fact.code_of().keys() == {0, 1}
    ]


def _release_counts(
    source: Source, plan: Plan, random: RandomSource, data: Any
) -> tuple[RowCounts, Rows[Block] | None]:
    """The counts, and the encoded rows if the fit may use the same: they wait in this process for its charge.

    Where intervals may be bought, and to count takes no scaling, they are encoded once it is known which.
    """
    assert plan.counts is not None
    same = not (plan.bought or plan.response or data.distributed or plan.counts.persons)
    moves = bool(plan.counts.trimmable) or interval_follows(plan.request)
    later = moves and isinstance(plan.design, DesignSpec) and plan.design.numbers_are_cells
    rows = source.rows(plan, data, random) if same and not later else None
    pieces = source.pieces if isinstance(source, PieceSource) else None
    return count_rows(plan, data, random, rows if pieces is None else None, pieces), rows


def release_fit(
    source: Source,
    plan: Plan,
    random: RandomSource,
    data: Any,
    *,
    encoded: Rows[Block] | None = None,
) -> GLMResults:
    """Read the rows, those of `data` if the source is a formula's, and release; the budget is spent by now."""
    completed, rows = source.complete(plan, data, random)
    same = completed.design is plan.design and completed.family == plan.family
    if rows is None:
        rows = encoded if same and encoded is not None else source.rows(completed, data, random)
    # The adaptive plan may have settled on another method, which another page proves.
    charged = replace(plan.guarantee, basis=completed.guarantee.basis)
    released = release_rows(completed, charged, rows, source.nobs(plan.request, data), random)
    trained = holdouts(data, "train")
    if isinstance(source, PieceSource):
        return replace(source.pieces.results(released), holdouts=trained)
    return released._completed(forecast_rows=partial(needed_rows, plan), holdouts=trained)


def release_rows(
    plan: Plan, charged: Guarantee, rows: Rows[Block], nobs: int | None, random: RandomSource
) -> GLMResults:
    """Release the model of these rows by a plan with every range known, charged `charged` before it was completed.

    `nobs` is their number where it is public.
    """
    # The completed plan's options insist on the law of noise that was charged.
    request, design = plan.request, plan.design
    spec = fit_spec(request, design, plan.family, plan.response, plan.residuals)
    arguments = (plan.stages, spec, rows, random)
    with single_blas_thread(len(design.names)):
        if plan.screening is not None:
            screening, fitted, narrow = release_screened(plan.screening, *arguments)
            plan = replace(plan, screening=screening, design=design if narrow is None else narrow)
        else:
            fitted = (release_replication if request.options.replicates else release_stages)(*arguments)
    plan = replace(plan, stages=fitted.stages, completed=True)
    _check_charge(plan, charged)
    # What is printed and stored is what was charged, whatever the completed plan would cost by itself.
    released = GLMResults(replace(plan, guarantee=charged), fitted.params, nobs, fitted.information)
    if plan.focus is not None:
        sums = release_arm_sums(plan.focus, design, plan.family, fitted.params, rows, random)
        return replace(released, arm_sums=sums)
    return released if plan.fitstats is None else with_fit_statistics(released, rows, random)


def with_fit_statistics(released: GLMResults, rows: Rows[Block], random: RandomSource) -> GLMResults:
    """The result with the fit statistics that its plan has paid for, if what was released has errors to take them at.

    Where they are taken, and whether, is decided by released values alone.
    """
    plan = released.plan
    if plan.fitstats is None or not released.has_errors:
        return released
    averaged = None
    # Of released values alone: a defect here must not lose a fit that is paid for.
    with quiet(), contextlib.suppress(Exception):
        averaged = released._averaged
    if averaged is None:
        return released
    counted = plan.counts.released_rows if plan.counts is not None and plan.counts_rows_used else None
    bought = replace(plan.fitstats, counted=counted)
    return released._completed(fit_sums=release_fit_statistics(bought, *averaged, rows, random))


def _check_charge(plan: Plan, charged: Guarantee) -> None:
    """Raise unless what was bought and carried out, stage by stage, costs no more than what was charged."""
    slack = 1 + 1e-9
    rows = plan.request.options.record.rows
    parts = paid_apart(plan.stages, plan.request.options)
    deltas = max(sum(stage.delta for _, stage in part) for part in parts)
    request, response, counts = plan.request, plan.response, plan.counts
    bought = range_eps(request, plan.bought) + (0.0 if response is None else response.eps)
    costs = [sum(stage.cost for _, stage in part) for part in parts]
    costs[-1] += 0.0 if plan.residuals is None else plan.residuals.eps  # by the rows of the last fit
    fitted = max(costs)
    screened, narrowing = (0.0, 0.0) if plan.screening is None else (plan.screening.eps, plan.screening.range_eps)
    fitted += narrowing  # by the rows of the last fit
    # Divided rows pay for the choice and for the fit side by side.
    fits = rows * (bought + (max(fitted, screened) if request.options.split is not None else fitted + screened))
    fits += 0.0 if counts is None else counts.eps
    fits += 0.0 if plan.fitstats is None else plan.fitstats.eps
    fits += 0.0 if plan.focus is None else plan.focus.eps
    dearer = max(plan.guarantee.eps, fits) > charged.eps * slack
    if dearer or max(plan.guarantee.delta, deltas) > charged.delta * slack:
        raise AssertionError("the release does not cost what was charged")


@dataclass(frozen=True)
class DryRun:
    """What a dry run planned: all of the call but the data."""

    source: FormulaSource | PieceSource
    request: Request

    def plan(self) -> Plan:
        """The plan, with what it can do besides being looked at."""
        return replace(self.source.plan(self.request, alone=True), call=self)

    @property
    def unread(self) -> frozenset[str]:
        """Columns that are declared and not read."""
        return frozenset(self.source.domain) - set(self.source.columns)

    def fit(self, data: object, engine: str | None, *, seed: int | None = None, **charge: Any) -> GLMResults:
        """The fit that was planned; `charge` as for `fit_source`."""
        source = self.source.reading(as_table(data, engine))
        random_source(seed)  # refuses what is no seed
        request = self.request if seed is None else replace(self.request, seed=seed)
        return fit_source(source, request, **charge)

    @property
    def _pieces(self) -> ReadPieces | None:
        return self.source.pieces if isinstance(self.source, PieceSource) else None

    def simulate(self, plan: Plan, n: int, seed: int, typical: object, like: object) -> GLMResults:
        """The fit of rows that are made up by the Domain; see `Plan.simulate`."""
        return self.fit(self.made_up(plan, n, seed, typical, like), None, seed=seed)

    def made_up(self, plan: Plan, n: int, seed: int, typical: object, like: object) -> pd.DataFrame:
        """Rows that are made up by the Domain; see `Plan.made_up`."""
        return population_rows(plan, n, seed, typical, like, self._pieces)

    def by_rows(self, plan: Plan, n: object = None) -> pd.DataFrame:
        """What is spent on errors by the number of rows that will be counted; see `Plan.by_rows`."""
        return by_rows(plan, n)

    def with_rows(self, plan: Plan, n: int) -> Plan:
        """What the plan becomes once so many rows are counted; ranges stand in as they are declared."""
        return carried_out(plan, n)

    def at(self, eps: float) -> DryRun:
        """The same at another budget."""
        return replace(self, request=replace(self.request, eps=check_planned(eps)[0]))

    def forecast(self, plan: Plan, residual_sd: float | None, typical: object, like: object) -> Forecast:
        """What errors fits are likely to show, by their numbers of rows; see `Plan.standard_errors`."""
        if self._pieces is not None:
            return forecast(plan, residual_sd, typical, like, self._pieces)
        return forecast_by_rows(plan, residual_sd, typical, like)

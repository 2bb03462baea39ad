"""Linear models with one absorbed factor: planned, charged, released (docs/proofs/absorbed)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from dpstats.arguments import check_choice, explain_calls, is_number, safe_repr
from dpstats.call import (
    DELTA_LEAST,
    ChargeKeywords,
    DomainLike,
    PrivacyParameters,
    RowKeywords,
    check_privacy,
    make_request,
    split_kwargs,
)
from dpstats.data import Memory, Table, as_table
from dpstats.data.columns import usable_kind
from dpstats.domain import Domain, Range
from dpstats.errors import ArgumentError, DataError, DomainError, FormulaError
from dpstats.families import Family, Gaussian, get_family
from dpstats.formula.advice import schema_domain
from dpstats.formula.design import DesignSpec, requested_spec
from dpstats.formula.faults import Facts, possible_faults
from dpstats.formula.parse import expand_dot, parse
from dpstats.formula.submodels import uniform_exog
from dpstats.formula.syntax import add_terms
from dpstats.frames import NotedFrame
from dpstats.ledger import as_ledger, with_domain
from dpstats.mechanisms.absorbed import WithinPlan, plan_within
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.statistics import RADIUS
from dpstats.models.forecast_assumptions import figure
from dpstats.models.glm import count_first
from dpstats.models.release import Release, check_unit
from dpstats.models.sources import known_facts, release_counts
from dpstats.plan.row_counts import CHECK_SHARE, LEAST_EPS, RowCounts
from dpstats.plan.tables import facts_table
from dpstats.privacy.guarantee import Guarantee, check_delta
from dpstats.results.absorbed import AbsorbedResults, budget_of, formula_of, header, noise_facts, plan_notes
from dpstats.results.stored import Printed
from dpstats.summaries import Summary
from dpstats.wording import argument, joined

TYPICAL = 1 / 6
"""The standard deviation within groups that a forecast supposes of a number, over its range."""

BINARY = 0.35
"""That of a column of 0 and 1, of which one in seven is 1."""

RESIDUAL = 0.07
"""That of the residuals, over the response's range."""

SUITABLE = ("radius", "inference", "check_share", "on_mismatch")
"""Options that go with an absorbed factor."""


@dataclass(frozen=True, eq=False)
class AbsorbedModel(Printed):
    """What a fit of ``y ~ x | firm`` would release and cost, as `dpstats.plan` returns it; no row is read.

    Attributes
    ----------
    plan : WithinPlan

    Examples
    --------
    >>> import dpstats as dp
    >>> plan = dp.plan("y ~ x | firm", {"x": (0, 1), "y": (0, 1)}, eps=1.0)
    >>> plan
    <AbsorbedModel: y ~ x | firm; eps=1, add_remove, certified>
    >>> plan.names, plan.eps, list(plan.budget.index)
    (('x',), 1.0, ['row counts', 'statistics', 'count', 'cover'])
    >>> "tabular" in plan.to_latex(), "<td" in plan.to_html(), "|---:|" in plan.to_markdown()
    (True, True, True)
    """

    plan: WithinPlan
    privacy: PrivacyParameters
    counts: RowCounts | None = None  # what counts the rows before the fit
    on_mismatch: str = "stop"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return self.plan.part.names

    @property
    def eps(self) -> float:
        """What a fit costs."""
        return self.plan.guarantee.eps

    @property
    def guarantee(self) -> Guarantee:
        """For everything the call releases."""
        return self.plan.guarantee

    @property
    def budget(self) -> pd.DataFrame:
        """What each part of the budget buys."""
        return budget_of(self.plan)

    def fit(
        self, data: object, *, seed: int | None = None, engine: str | None = None, **charge: Any
    ) -> AbsorbedResults:
        """Carry out the plan on private rows; arguments as for `dpstats.glm`.

        Examples
        --------
        >>> plan.fit({"x": [0.2, 0.4], "y": [0.1, 0.9], "firm": ["a", "a"]}).params.index.to_list()
        ['x']
        """
        model = self
        if seed is not None:
            made = check_privacy(self.eps, self.privacy.delta, adjacency=self.privacy.adjacency, seed=seed)
            privacy = replace(self.privacy, seed=made.seed)
            model = replace(self, privacy=privacy, plan=replace(self.plan, guarantee=_marked(self.plan, privacy)))
        table = as_table(data, engine)
        _check_table(model.plan, table)
        return model._run(table, charge)

    def _run(self, table: Table, charge: Mapping[str, Any]) -> AbsorbedResults:
        """Charge, then read the rows and release."""
        plan, design, record, counts = self.plan, self.plan.design, self.privacy.record, self.counts
        others = dict(charge)
        limit, ledger = others.pop("memory", None), as_ledger(others.pop("ledger", None))
        signed = {name: others.pop(name, None) for name in ("analyst", "label")}
        random, rest = self.privacy.random(), plan.guarantee
        title = f"linear model of {design.response_name} within {plan.absorbed}, {len(self.names)} columns"
        release = partial(
            Release,
            data=table,
            columns=(*design.columns, plan.absorbed),
            compared=(plan.absorbed,),
            formula=formula_of(plan),
            digest=plan.digest,
            domain=design.domain,
            memory=None if limit is None else Memory(limit),
        )
        if counts is not None:
            if counts.persons:
                check_unit(table, record)  # of a group one row is drawn
            counted, rest = counts.guarantees(plan.guarantee)
            count = partial(
                release_counts, counts, design, _facts(design), design.used_rows, random=random, record=record
            )
            label = f"rows of a {title}"
            counting = release(counted, work=lambda rows: (count(rows), None), label=label, method="row counts")
            counts, _ = count_first(counting, [counted, rest], ledger, self.on_mismatch, (), **signed)

        def work(rows: Table) -> AbsorbedResults:
            return AbsorbedResults(plan, plan.release(rows, random), counts)

        return release(rest, work=work, label=title, method="statistics").run(ledger, **signed, **others)

    @explain_calls(
        typical="within_sd= and residual_sd= describe the rows of an absorbed factor",
        like="within_sd= and residual_sd= describe the rows of an absorbed factor",
    )
    def standard_errors(
        self,
        n: int,
        groups: int | None = None,
        *,
        residual_sd: float | None = None,
        within_sd: Mapping[str, float] | None = None,
    ) -> pd.DataFrame:
        """Standard errors that a fit is likely to show: a forecast, for which nothing is read or spent.

        Parameters
        ----------
        n, groups : int
            The number of rows, also with a unit, and that of the groups among which they fall evenly; both are needed.
        residual_sd : float, optional
            Of the residuals, in units of the response; 0.07 of its range by default.
        within_sd : dict, optional
            By coefficient the standard deviation within groups, of a number (a sixth of its range by default, .35 of 0
            and 1) or of the column of 0 and 1 of a level (by default as if all levels were equally frequent).

        Returns
        -------
        DataFrame
            In the user's units: std_error, and sampling, without any noise. What it supposes is printed below.

        Examples
        --------
        >>> plan.standard_errors(100_000, 10_000).round(4).loc["x", "sampling"].item()
        0.0007
        """
        plan, design = self.plan, self.plan.design
        if groups is None:
            raise ArgumentError(
                f"groups must be given: plan.standard_errors(n, groups), where n is the number of rows and "
                f"groups that of different values of {plan.absorbed!r}"
            )
        for name, value in (("n", n), ("groups", groups)):
            if not is_number(value) or value < 1:
                raise ArgumentError(f"{name} must be a positive number, got {safe_repr(value)}")
        if n <= groups:
            raise ArgumentError(
                "n, the number of rows, must exceed groups, the number of groups: a group of one row says nothing"
            )
        low, high = design.response.low, design.response.high
        if residual_sd is not None and not (is_number(residual_sd) and residual_sd > 0):
            raise ArgumentError(f"residual_sd must be a positive number, got {safe_repr(residual_sd)}")
        residual = RESIDUAL * (high - low) if residual_sd is None else residual_sd
        phi = (residual / design.response_scaling()[1]) ** 2
        rows = uniform_exog(design)[:, plan.part.positions]
        covariance = np.atleast_2d(np.cov(rows.T))
        units, spread = design.scale[plan.part.positions], np.sqrt(np.diag(covariance))
        factor = np.where(np.isin(plan.part.positions, design.packing.numbers), np.sqrt(12) * TYPICAL, 1.0)
        ranges = {name: one for name in self.names if isinstance(one := design.domain.get(name), Range)}
        for name, sd in (within_sd or {}).items():
            if name not in self.names:
                known = ", ".join(map(repr, self.names))
                raise ArgumentError(f"within_sd: {safe_repr(name)} must be the name of a coefficient, one of {known}")
            if not is_number(sd) or sd <= 0:
                raise ArgumentError(f"within_sd: {name!r} must have a positive number, got {safe_repr(sd)}")
        usual = {
            name: BINARY if one.is_binary else TYPICAL * (one.interval[1] - one.interval[0])
            for name, one in ranges.items()
        }
        for name, sd in {**usual, **(within_sd or {})}.items():
            at = self.names.index(name)
            factor[at] = sd / (spread[at] * units[at])
        numbers = {self.names[at] for at in np.flatnonzero(np.isin(plan.part.positions, design.packing.numbers))}
        deviations = dict(zip(self.names, (factor * spread * units).tolist(), strict=True))
        supposed = {name: sd for name, sd in deviations.items() if name not in (within_sd or {})}
        each = groups / n if plan.whole else 1.0  # what a row weighs
        information = covariance * np.outer(factor, factor) * ((n - groups) * each)
        score = phi * information * each
        law, size = plan.law, len(self.names)
        inverse = np.linalg.pinv(information)
        middle = np.zeros((size + 1, size + 1))
        middle[-1, -1] = 1.0
        noise = law.square(middle)[:-1, :-1]
        transform, _ = plan.part.back_transform()
        back = np.abs(np.diag(transform))
        sampling = np.sqrt(np.diag(inverse @ score @ inverse)) * back
        total = np.sqrt(np.diag(inverse @ (score + noise) @ inverse)) * back
        table = NotedFrame(pd.DataFrame({"std_error": total, "sampling": sampling}, index=list(self.names)))
        table.attrs["note"] = self._assumption(
            None if residual_sd is not None else residual,
            {name: sd for name, sd in supposed.items() if name in numbers},
            {name: sd for name, sd in supposed.items() if name not in numbers},
            [name for name in supposed if name in ranges],
            n / groups,
        )
        return table

    def _assumption(
        self,
        residual: float | None,
        spread: Mapping[str, float],
        levels: Mapping[str, float],
        described: Sequence[str],
        rows: float,
    ) -> str:
        """What a forecast supposes of `rows` a group, residuals, numbers and levels, and how to describe them."""
        # Single rows count alike in groups of any size.
        parts = [f"every {self.plan.absorbed} has {figure(rows)} rows"] if self.plan.whole else []
        parts += [] if residual is None else [f"residuals have a standard deviation of {figure(residual)}"]
        typed = [] if residual is None else [f"residual_sd={figure(residual)}"]
        if levels:
            parts.append(f"the levels of a factor are equally frequent within every {self.plan.absorbed}")
        if spread:
            deviations = joined([f"{figure(sd)} ({name})" for name, sd in spread.items()])
            parts.append(f"numbers vary within {self.plan.absorbed} with a standard deviation of {deviations}")
        # One level shows how the others are written.
        if known := {**{name: spread[name] for name in described}, **dict(list(levels.items())[:1])}:
            typed.append(f"within_sd={{{', '.join(f'{name!r}: {figure(sd)}' for name, sd in known.items())}}}")
        advice = f" If you know better, type {joined(typed)}." if typed else ""
        uneven = (
            f" Count no {self.plan.absorbed} of one row, which adds nothing. Uneven numbers of rows give larger "
            "errors: by 6 to 11 % if 2 to 10 are equally frequent."
        )
        return f"This assumes that {joined(parts)}.{uneven * self.plan.whole}{advice}" if parts else ""

    def by_rows(self, *_: Any) -> NoReturn:
        """What other plans choose by the number of rows; here it is the same for all numbers.

        Examples
        --------
        >>> plan.by_rows()
        Traceback (most recent call last):
        dpstats.errors.ArgumentError: by_rows: no choice follows the number of rows; try plan.standard_errors(n, groups)
        """
        raise ArgumentError("by_rows: no choice follows the number of rows; try plan.standard_errors(n, groups)")

    def forecast(self, **_: Any) -> NoReturn:
        """What `dpstats.required` asks for; it takes numbers of groups too.

        Examples
        --------
        >>> plan.forecast()
        Traceback (most recent call last):
        dpstats.errors.ArgumentError: errors depend on the number of groups too: plan.standard_errors(n, groups)
        """
        raise ArgumentError("errors depend on the number of groups too: plan.standard_errors(n, groups)")

    def summary(self) -> Summary:
        """The public facts of the plan; as_text, as_html and as_latex.

        Examples
        --------
        >>> "none read" in plan.summary().as_text()
        True
        """
        title = "Plan of a Private Linear Model with an Absorbed Factor"
        return Summary(
            [header(self.plan, title, "none read"), facts_table(noise_facts(self.plan))], plan_notes(self.plan)
        )

    def digest(self) -> str:
        """A hash of the public facts, as the ledger records it.

        Examples
        --------
        >>> len(plan.digest())
        64
        """
        return self.plan.digest()

    def __repr__(self) -> str:
        return f"<AbsorbedModel: {formula_of(self.plan)}; {self.guarantee}>"


def plan_absorbed(
    formula: str, absorbed: str, table: Table | None, domain: DomainLike, eps: float, family: str | Family, **given: Any
) -> AbsorbedModel:
    """The model of `formula` with the factor `absorbed`, from public facts alone; `given` as for `dpstats.glm`."""
    row_terms, settings = split_kwargs(given, RowKeywords)
    privacy, options = _checked(eps, absorbed, family, settings)
    for name in ("weights", "offset", "exposure"):
        if row_terms.get(name) is not None:
            raise ArgumentError(f"{name} cannot be combined with an absorbed factor; leave it out")
    known = Domain.coerce(domain)
    formula = add_terms(expand_dot(formula, Domain({k: v for k, v in known.items() if k != absorbed})), **row_terms)
    parsed = parse(formula)
    if absorbed in parsed.columns:
        raise FormulaError(f"formula: {absorbed!r} is absorbed and cannot stand in another place too; leave it out")
    if not parsed.exog_columns:
        raise FormulaError(f"formula: within {absorbed} an intercept alone says nothing; add a column")
    known, undeclared = schema_domain(formula, known, table, Gaussian())
    if undeclared:
        raise DomainError(
            f"column {undeclared[0]!r} is not declared, and ranges are not bought beside an absorbed factor: declare "
            f"{{{undeclared[0]!r}: (low, high)}}, or buy the range first with dp.buy_ranges"
        )
    design = requested_spec(formula, known, family=Gaussian(), absorbed=absorbed)
    if design.has_intercept and len(design.names) < 2:
        raise FormulaError(
            f"formula: no column is left within {absorbed}, where an intercept says nothing: every factor is declared "
            "with one level; list its other levels in the Domain, or add a column"
        )
    if design.weights is not None or design.offset is not None:
        raise FormulaError("formula: weights and offsets cannot be combined with an absorbed factor; leave them out")
    counts = _planned_counts(privacy, options, design, absorbed, table)
    plan = plan_within(
        design,
        absorbed,
        eps=privacy.eps if counts is None else counts.rest,
        delta=privacy.delta,
        adjacency=privacy.adjacency,
        radius=RADIUS if options.radius is None else options.radius,
        whole=privacy.record.column is not None,
    )
    if counts is not None:
        plan = replace(plan, guarantee=_with_counts(plan.guarantee, counts, privacy.eps), counted_eps=counts.eps)
    if table is not None:
        _check_table(plan, table)
    return AbsorbedModel(replace(plan, guarantee=_marked(plan, privacy)), privacy, counts, options.on_mismatch)


def _planned_counts(
    privacy: PrivacyParameters, options: Options, design: DesignSpec, absorbed: str, table: Table | None
) -> RowCounts | None:
    """What counts the rows, or groups and one row of each, before the fit; None where the call says so."""
    share, persons = options.check_share, privacy.record.column is not None
    public = persons and privacy.adjacency == "replace_one"
    if share is None:
        # Where every pass works rows out again none can be drawn.
        offered = not public and not (persons and table is not None and table.recomputed)
        share = CHECK_SHARE if offered and privacy.eps >= LEAST_EPS else 0.0
    if not share:
        return None
    if public:
        raise ArgumentError(
            f"check_share: groups are not counted under {argument('adjacency', 'replace_one')}; leave it out"
        )
    counted = None if persons else absorbed
    faults = possible_faults(_facts(design), design, design.parsed, counted, table=table)
    return replace(RowCounts.planned(privacy.eps, share, privacy.adjacency, faults), persons=persons)


def _facts(design: DesignSpec) -> Facts:
    return known_facts(design, (), Gaussian())


def _with_counts(fit: Guarantee, counts: RowCounts, eps: float) -> Guarantee:
    """Of the counts and the fit together: eps-DP is eps^2 / 2-zCDP."""
    return replace(fit, eps=eps, rho=None if fit.rho is None else fit.rho + counts.eps**2 / 2)


def fit_absorbed(
    formula: str, absorbed: str, data: object, eps: float, family: str | Family, **given: Any
) -> AbsorbedResults:
    """`dpstats.glm` of a formula with an absorbed factor."""
    domain, engine = given.pop("domain", None), given.pop("engine", None)
    charge, settings = split_kwargs(given, ChargeKeywords)
    charge["ledger"], domain = with_domain(charge.get("ledger"), domain)
    table = as_table(data, engine)
    return plan_absorbed(formula, absorbed, table, domain, eps, family, **settings)._run(table, charge)


def _marked(plan: WithinPlan, privacy: PrivacyParameters) -> Guarantee:
    return privacy.of_records(plan.guarantee)


def _check_table(plan: WithinPlan, table: Table) -> None:
    """Raise unless the columns suit, by the schema alone; any source will do."""
    plan.design.check_schema(table)
    if table.count(plan.absorbed) != 1:
        raise DataError(f"data must have one column {plan.absorbed!r}, which the formula absorbs")
    usable_kind(plan.absorbed, table.column(plan.absorbed))


def _checked(
    eps: float, absorbed: str, family: str | Family, settings: Mapping[str, Any]
) -> tuple[PrivacyParameters, Options]:
    """The privacy parameters and the options; ArgumentError for what does not go with an absorbed factor."""
    given = dict(settings)
    unit = {name: given.pop(name, None) for name in ("unit", "unit_weight", "max_rows")}
    method, delta = given.pop("method", "auto"), given.pop("delta", 0.0)
    request = make_request(eps=eps, family=family, **given)
    chosen = get_family(family)
    if not isinstance(chosen, Gaussian) or chosen.residual_cap is not None:
        instead = f"write the factor as + C({absorbed}), with its levels declared"
        if unit["unit"] == absorbed:  # persons, whose levels nobody declares
            instead = (
                f"effects of persons are not offered otherwise: leave out | {absorbed}; {argument('unit', absorbed)} "
                "protects persons, and clusters their standard errors"
            )
        raise ArgumentError(f"family must be 'gaussian', without a residual_cap, to absorb a factor; {instead}")
    check_choice("method", method, ("auto", "statistics"))
    if request.penalty is not None:
        raise ArgumentError("penalty cannot be combined with an absorbed factor; leave it out")
    usual = Options()
    for option in fields(Options):
        if option.name not in SUITABLE and getattr(request.options, option.name) != getattr(usual, option.name):
            raise ArgumentError(f"{option.name} cannot be combined with an absorbed factor; leave it out")
    privacy = check_privacy(eps, delta, adjacency=request.adjacency, seed=request.seed, **unit)
    check_delta(privacy.delta, DELTA_LEAST)
    record = privacy.record
    if record.column not in (None, absorbed):
        raise ArgumentError(
            f"unit must be the absorbed column, {argument('unit', absorbed)}, or left out: a record with rows in "
            f"several groups has no proof. Effects of {absorbed!r} for such records: declare its levels and write "
            f"C({absorbed}) in the formula, or a coarser factor in its place"
        )
    if record.column is not None and not record.shared:
        raise ArgumentError("max_rows is not needed beside an absorbed factor: groups of any size count alike")
    kind = request.options.inference
    if kind in ((None, "model") if record.column is not None else (None, "robust")):
        fix = argument("unit", absorbed)
        wrong = "is released with its errors" if kind is None else f"has errors of another kind; {fix} decides"
        raise ArgumentError(f"{argument('inference', kind)}: a model with an absorbed factor {wrong}; leave it out")
    return privacy, request.options

"""Standard errors that are forecast for plans which follow the number of their rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from dpstats.arguments import check_row_count, check_type
from dpstats.cached import cached_property
from dpstats.domain import Domain, Range
from dpstats.domain.declarations import TYPICAL_REACH
from dpstats.families.base import OF_PIECES
from dpstats.formula.design import DesignSpec
from dpstats.frames import NotedFrame
from dpstats.mechanisms.statistics import ResidualCentre
from dpstats.models.adaptive import (
    LIKELY,
    MIDDLE,
    SURE,
    affordable,
    before_residuals,
    candidates_of,
    carried_out,
    finds_cap,
    interval_follows,
    interval_share,
    pays_for_residuals,
    with_public_residuals,
)
from dpstats.models.expectations import (
    Expectation,
    Outlook,
    comparable,
    expectations,
    has_expectation,
    preferred,
    with_likely_mean,
)
from dpstats.models.forecast import HALF, Forecast, forecast, noises
from dpstats.models.forecast_assumptions import response_words, typical_response
from dpstats.models.likely_caps import LIKELY_CAP, bought_caps, likely_cap, residual_size
from dpstats.models.population import POOR, USUAL, KnownColumns
from dpstats.models.supposed_rows import sample_rows, weight_cap
from dpstats.plan import Plan
from dpstats.plan.methods import ResponsePurchase, chosen_range_eps, fit_spec, may_take_sums
from dpstats.plan.plan import rescaled, with_settled_law
from dpstats.plan.tables import CAPPED_SUMS, awaits_alpha, has_many_columns, method_name, supposed_columns
from dpstats.results.standard_errors import releases_errors
from dpstats.wording import argument, phrase

Vector = NDArray[np.float64]

SMALL_COUNT = 2.0
"""A forecast takes the count of the rows for so many of its standard deviations less: 97 of 100 are larger.

Where a count that is larger by as many pays otherwise for errors, the noise decides, and all outcomes are forecast.
"""

HALVINGS = 5
"""Of counts on either side, for the least one that pays otherwise for errors: shares of fits are then known to .04."""

PURCHASES = {0.1: 0.3, MIDDLE: 0.4, LIKELY: 0.23, 0.96: 0.05, 0.985: 0.02}
"""What stands for all purchases in an unlucky error: those than which such a part are no wider, and the share of fits
they stand for. A range that is kept in more than 4 of 100 fits counts; one that is too narrow leaves out rows."""

ABOVE = 1 / 40
"""The share of fits that may have a greater error than an unlucky one: less than one of as many draws."""


class Choices:
    """What a fit of a plan that counts its rows becomes by their number, its ranges as they are declared.

    What intervals cost is as if so much less were to be had of the rows: noise and rows go together.
    """

    def __init__(self, plan: Plan) -> None:
        counts = plan.counts
        self.plan, self.names = plan, () if counts is None else counts.trimmable
        offered = candidates_of(plan) if counts is not None and counts.settles_errors else []
        self.candidates = offered or [plan]
        self.open = bool(offered or self.names) and comparable(plan)

    @cached_property
    def _expectations(self) -> list[Expectation]:
        return expectations(self.candidates)

    def share(self, rows: float, candidate: Plan) -> float:
        """The share of eps that a candidate spends on intervals: of all columns, or else of those it will choose."""
        share, request = interval_share(self.plan.request, self.names, rows), candidate.request
        if share or candidate.screening is None or candidate.counts is None:
            return share  # without counts the plan has settled it
        spec = fit_spec(request, candidate.design, candidate.family)
        return chosen_range_eps(request, spec, rows) / request.row_eps

    def outlook(self, rows: float) -> tuple[int, Outlook]:
        """The place of the candidate that is chosen, and what it is expected to show."""
        pairs = zip(self._expectations, self.candidates, strict=True)
        expected = [one.of(rows * (1 - self.share(rows, candidate))) for one, candidate in pairs]
        place = preferred(expected)
        if len(expected) > 1 and interval_follows(self.plan.request):
            # Few rows buy no interval of the response, and a fit that has bought one chooses once more.
            place = int(carried_out(self.plan, rows).request.options.inference is not None)
        return place, expected[place]


Assumptions = tuple[float | None, object, object]  # residual_sd, typical, like

Simulated = dict[object, Forecast]


@dataclass(frozen=True, eq=False)
class AdaptiveForecast(Forecast):
    """Standard errors of fits of a plan that follows the number of its rows; `plan` is what spends most on errors."""

    followed: Plan
    assumptions: Assumptions
    simulated: Simulated
    likely_share: float = LIKELY
    skewed: bool = False  # whether residuals keep the cap of skewed ones
    # By `likely_share`, count and rows: plans, and those with a forecast of their errors, None if they have none.
    plans: dict[tuple[float, float, float], Plan] = field(default_factory=dict, repr=False)
    # The same, and by `skewed`.
    forecasts: dict[tuple[float, float, float, bool], tuple[Plan, Forecast | None]] = field(
        default_factory=dict, repr=False
    )
    # By `likely_share` and rows: shares of fits, and the counts that stand for theirs.
    outcomes: dict[tuple[float, float], list[tuple[float, float]]] = field(default_factory=dict, repr=False)

    @cached_property
    def _known_columns(self) -> KnownColumns | None:
        """What is known of columns, if anything is."""
        assert isinstance(self.followed.design, DesignSpec)
        _, *given = self.assumptions
        known = KnownColumns.from_arguments(self.followed.design, *given)
        return known if known.typical or known.like is not None else None

    def at(self, plan: Plan) -> Forecast:
        check_type("plan", plan, Plan, "a plan of the same call, as plan.at(eps) makes it")
        return forecast_by_rows(plan, *self.assumptions, simulated=self.simulated)

    def cautious(self) -> Forecast:
        return replace(self, unlucky=True) if self.known else replace(self, likely_share=SURE)

    def errors(self, n: int) -> pd.DataFrame:
        """As of any forecast; of described rows the lower end is that of purchases which go well."""
        table, plan = super().errors(n), self.plan_at(n)
        counts = plan.response is not None and plan.family.response == "count"
        if not self.known or not (plan.trimmed or plan.residuals is not None or counts):
            return table
        errors, well = table["std_error"], replace(self, likely_share=MIDDLE)
        if well.bought_at(n) != self.bought_at(n):
            # Where there are errors after worse purchases no draws need tell that there are some.
            sure = np.isfinite(errors).all()
            best = well.expected(self.names[0], n) if sure else well.likely(self.names[0], n, rough=True)[0]
            table["lower"] = np.minimum(errors, best)
        return table

    def plan_at(self, n: float) -> Plan:
        return self._settled(n)[0]

    def bought_at(self, n: float) -> tuple[Domain, ResponsePurchase | None, bool, float | None]:
        """The Domain with the ranges that the search finds, what is bought of the response, and if and which cap."""
        plan, error_forecast = self._settled(n)
        assert isinstance(plan.design, DesignSpec)
        cap = None if plan.residuals is None or plan.residuals.centre is None else plan.residuals.centre.cap
        if error_forecast is None:
            return plan.design.domain, plan.response, True, cap
        return (
            plan.design.domain,
            plan.response,
            error_forecast.finds_cap,
            cap if error_forecast.cap is None else error_forecast.cap,
        )

    def sampling(self, name: str, n: float | None = None) -> Vector:
        # Until alpha is bought counts vary by the least one, nearly as Poisson counts do.
        error_forecast = self._settled(n)[1] if n is not None and awaits_alpha(self.plan) else None
        return super().sampling(name) if error_forecast is None else error_forecast.sampling(name)

    def expected(self, name: str, n: int) -> Vector:
        error_forecast = self._settled(n)[1]
        if error_forecast is None:
            return np.full(len(self.plan.names), np.inf)
        return self._unlucky_errors(name, n, rough=True) if self.unlucky else error_forecast.expected(name, n)

    def likely(self, name: str, n: int, *, rough: bool = False) -> tuple[Vector, Vector]:
        error_forecast = self._settled(n)[1]
        if self.unlucky:
            chance, errors = self.chances(name, n, rough=rough), self._unlucky_errors(name, n, rough=rough)
            return np.where(chance < HALF, np.inf, errors), chance
        if len(self._counts(n)) == 1 or error_forecast is None:
            return super().likely(name, n, rough=rough)
        # Errors are those of a fit that counts its rows right; the chance is of all.
        errors, chance = error_forecast.likely(name, n, rough=rough)[0], self.chances(name, n, rough=rough)
        return np.where(chance < HALF, np.inf, errors), chance

    def chances(self, name: str, n: int, *, rough: bool = True) -> Vector:
        if not self.unlucky:
            return super().chances(name, n, rough=rough)
        shares, kinds = zip(*self._purchases(n), strict=True)
        of_kinds = [replace(one, unlucky=False).chances(name, n, rough=rough) for one in kinds]
        return np.asarray(np.average(of_kinds, axis=0, weights=shares))

    def spread(self, name: str, n: int, *, rough: bool = False) -> Vector:
        error_forecast = self._settled(n)[1]
        if error_forecast is None:
            return np.full((1, len(self.coefficients)), np.inf)
        if rough or len(self._counts(n)) == 1:
            return error_forecast.spread(name, n, rough=rough)
        return np.sort(list(self.drawn_errors(name, n, noises(len(self.coefficients)))), axis=0)

    def _purchases(self, n: float) -> list[tuple[float, AdaptiveForecast]]:
        """Shares of fits, and the same forecast of the purchases that stand for theirs; see `PURCHASES`."""
        kinds: list[tuple[float, AdaptiveForecast]] = []
        design, known = self.followed.design, self._known_columns
        assert isinstance(design, DesignSpec)
        # Residuals of a response that nobody describes may be skewed, and then hardly any fit finds a narrow cap.
        skewed = known is None or not known.has(design.parsed.response_columns)
        for level, share in PURCHASES.items():
            one = replace(self, likely_share=level, skewed=skewed)
            if kinds and kinds[-1][1].bought_at(n) == one.bought_at(n):
                share += kinds.pop()[0]
            kinds.append((share, one))
        return kinds

    def _unlucky_errors(self, name: str, n: int, *, rough: bool) -> Vector:
        """Errors that a share of `ABOVE` of fits exceed, by all purchases and all noise, shape (p,)."""
        spreads = [(share, one.spread(name, n, rough=rough)) for share, one in self._purchases(n)]
        errors = np.concatenate([spread for _, spread in spreads])
        weights = np.concatenate([np.full(len(spread), share / len(spread)) for share, spread in spreads])
        order = np.argsort(errors, axis=0)
        above = 1 - np.cumsum(weights[order], axis=0)
        return np.take_along_axis(errors, order, axis=0)[
            np.argmax(above < ABOVE - 1e-9, axis=0), np.arange(errors.shape[1])
        ]

    def drawn_errors(self, name: str, n: int, draws: int, *, worst: bool = True) -> Iterator[Vector]:
        left = draws
        for share, rows in self._counts(n):
            error_forecast = self._forecast_at(rows, n)[1]
            made = min(math.ceil(share * draws - 1e-9), left)  # rounded up for the smallest count, which comes first
            left -= made
            if error_forecast is None:
                yield from [np.full(len(self.coefficients), np.inf)] * made
            elif made:
                yield from error_forecast.drawn_errors(name, n, made, worst=worst)

    def _settled(self, n: float) -> tuple[Plan, Forecast | None]:
        """The plan of a fit that counts its `n` rows right, and the forecast of its errors; None if it has none."""
        return self._forecast_at([rows for _, rows in self._counts(n) if rows <= n][-1], n)

    def _counts(self, n: float) -> list[tuple[float, float]]:
        """Shares of fits of `n` rows, and the counts that stand for theirs, the smallest first.

        It is small, as what more rows decide may not come. Where the noise decides how errors are paid for, others
        stand for the counts that are large enough to decide otherwise.
        """
        key, counts = (self.likely_share, float(n)), self.followed.counts
        if key not in self.outcomes:
            deviation = 0.0 if counts is None else counts.rows_sd
            rows, large = max(n - SMALL_COUNT * deviation, 1.0), n + SMALL_COUNT * deviation
            pairs = ((rows, n), (n, large)) if self._payment(rows, n) != self._payment(large, n) else ()
            shares, below = [], 0.0
            for low, high in pairs:
                if self._payment(low, n) == (payment := self._payment(high, n)):
                    continue
                for _ in range(HALVINGS):
                    middle = (low + high) / 2
                    low, high = (low, middle) if self._payment(middle, n) == payment else (middle, high)
                tail = math.exp(-math.sqrt(2) * abs(n - high) / deviation) / 2  # of Laplace noise
                smaller = tail if high < n else 1 - tail
                shares.append((smaller - below, rows))
                below, rows = smaller, max(high, n)
            self.outcomes[key] = [*shares, (1 - below, rows)]
        return self.outcomes[key]

    def _payment(self, rows: float, n: float) -> object:
        """How a fit of `n` rows that counts so many pays for errors."""
        return self._plan_of(rows, n).request.options.inference

    def _plan_of(self, rows: float, n: float) -> Plan:
        """The plan of a fit of `n` rows that counts so many, to three digits: the choice changes at few numbers."""
        rows, n = float(f"{rows:.3g}"), float(f"{n:.3g}")
        key = (self.likely_share, rows, n)
        if key not in self.plans:
            plan = carried_out(self.followed, rows, self._known_columns, self.likely_share, n)
            self.plans[key] = with_likely_mean(plan)
        return self.plans[key]

    def _forecast_at(self, rows: float, n: float) -> tuple[Plan, Forecast | None]:
        """The plan of a fit of `n` rows that counts so many, and the forecast of its errors; None if it has none."""
        rows, n = float(f"{rows:.3g}"), float(f"{n:.3g}")
        key = (self.likely_share, rows, n, self.skewed)
        if key not in self.forecasts:
            plan = self._plan_of(rows, n)
            error_forecast = _forecast_once(plan, self.assumptions, self.simulated) if releases_errors(plan) else None
            if error_forecast is not None:
                plan, error_forecast = self._with_cap(plan, error_forecast, rows)
            self.forecasts[key] = (plan, error_forecast)
        plan, error_forecast = self.forecasts[key]
        if error_forecast is None or error_forecast.unlucky == self.unlucky:
            return plan, error_forecast
        return plan, replace(error_forecast, unlucky=self.unlucky)

    def _with_cap(self, plan: Plan, error_forecast: Forecast, rows: float) -> tuple[Plan, Forecast]:
        """The plan and its forecast once a cap of residuals is bought, if one is."""
        if plan.residuals is None:
            return plan, error_forecast
        persons = plan.objective.statistics is None
        if error_forecast.sample is not None:
            centre_errors = partial(error_forecast.centre_errors, error_forecast.last)
            caps = bought_caps(plan, centre_errors, error_forecast.sample, rows)
            cap = float(np.quantile(caps, self.likely_share, method="higher"))
            if self.skewed:
                cap = likely_cap(plan, error_forecast.populations[error_forecast.last], narrowed=False)
            if not persons:
                return plan, replace(error_forecast, cap=cap, computed={})
            plan = _capped(plan, cap)
            return plan, _forecast_once(plan, self.assumptions, self.simulated)
        finds = finds_cap(plan, rows, self.likely_share)
        if finds and persons:
            assert isinstance(plan.design, DesignSpec)
            units = plan.design.response_scaling()[1] / plan.design.without_working().response_scaling()[1]
            plan = _capped(plan, units * LIKELY_CAP * residual_size(error_forecast.populations[error_forecast.last]))
            error_forecast = _forecast_once(plan, self.assumptions, self.simulated)
        # Where the cap of most fits is far from the widest, the mean is of no fit.
        return plan, replace(error_forecast, finds_cap=finds, computed={})


def _forecast_once(plan: Plan, assumptions: Assumptions, simulated: Simulated) -> Forecast:
    """The forecast of a plan by rows that are simulated once for all plans with the same units and cap."""
    assert isinstance(plan.design, DesignSpec)
    kind = (plan.design.response_scaling(), plan.family, weight_cap(plan), plan.design.domain)
    if kind not in simulated:
        simulated[kind] = forecast(plan, *assumptions)
    return simulated[kind].at(plan)


def _capped(plan: Plan, cap: float) -> Plan:
    """The plan of persons whose residuals have bought such a cap, in declared half widths; no wider than it is."""
    assert plan.residuals is not None
    centre = ResidualCentre((0.0,) * len(plan.names), cap)
    return rescaled(plan, with_settled_law(plan), plan.response, replace(plan.residuals, centre=centre))


def forecast_by_rows(
    plan: Plan, residual_sd: float | None, typical: object, like: object, *, simulated: Simulated | None = None
) -> Forecast:
    """A forecast of a plan's standard errors, as each number of rows settles it; see `Plan.standard_errors`.

    `simulated` holds forecasts of the same call at other budgets.
    """
    simulated, assumptions = {} if simulated is None else simulated, (residual_sd, typical, like)
    plan = plan if plan.residuals is None else with_public_residuals(before_residuals(plan))
    counts = plan.counts
    follows = counts is not None and bool(counts.settles_errors or counts.trimmable)
    known = (typical, like, residual_sd if plan.request.options.unit is not None else None)
    described = any(one is not None for one in known) or _describes_response(plan)
    narrows = bool(plan.trimmed or plan.response) and described
    if not (follows or narrows) or not has_expectation(plan):
        return forecast(plan, *assumptions)
    dearest = [plan, *candidates_of(plan)][-1]
    if interval_follows(plan.request):
        dearest = rescaled(plan, dearest.request)
    error_forecast = _forecast_once(dearest, assumptions, simulated)
    return AdaptiveForecast(
        dearest,
        error_forecast.populations,
        plan,
        assumptions,
        simulated,
        alike=error_forecast.alike,
        of_response=error_forecast.of_response,
        supposes_correlations=error_forecast.supposes_correlations,
    )


def _describes_response(plan: Plan) -> bool:
    """Whether the Domain says where the response lies."""
    design = plan.design
    declared = design.domain.get(design.response_name) if isinstance(design, DesignSpec) else None
    return isinstance(declared, Range) and declared.typical is not None


ROWS = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
"""Numbers of rows that a plan tells the choice for, if none are asked about."""

MOST_ROWS = 10**15
"""A forecast is of no more."""


def by_rows(plan: Plan, n: object = None) -> pd.DataFrame:
    """What would be chosen by number of rows: ranges, how errors are paid for, how many to expect, and the method."""
    given = list(n) if isinstance(n, (Sequence, np.ndarray)) and len(n) else [n]
    numbers = ROWS if n is None else [check_row_count(one, MOST_ROWS) for one in given]
    choices, lines, of = Choices(plan), [], plan.request.options.record.of
    explicit = plan.request.options.inference is True and comparable(plan) and plan.family.name not in OF_PIECES
    for rows in numbers if choices.open or explicit else ():
        used = rows * _kept(plan)
        with np.errstate(all="ignore"):  # of units that are far apart
            place, expected = choices.outlook(used)
        chosen = choices.candidates[place]
        setting, screening = chosen.request.options.inference, chosen.screening
        bought = choices.share(used, chosen) or chosen.trimmed or (screening is not None and screening.range_eps)
        paid = "none" if not expected.share else "free" if setting == "auto" else "paid"
        method = _method(chosen, plan, used) if setting is True else method_name(plan)
        lines.append((rows, "bought" if bought else "declared", paid, expected.share, method))
    table = NotedFrame(pd.DataFrame(lines, columns=[of, "ranges", "errors", "share", "method"]).set_index(of))
    notes = [supposed_columns(plan)] if lines else []
    if lines and plan.family.response == "binary":
        assert isinstance(plan.design, DesignSpec)
        nothing = KnownColumns.from_arguments(plan.design, None, None)
        share = sample_rows(plan.design, plan.family, nothing, POOR, None, 1).response
        notes.append(f"This assumes that {response_words(plan, share)}{_other_share(plan, share)}.")
    if lines and awaits_alpha(plan):
        notes.append(f"Fewer coefficients have a standard error if counts vary more{_other_deviation(plan)}.")
    if lines and (plan.screening is not None or has_many_columns(plan)):
        which = "Columns" if plan.screening is None else f"Columns that {argument('screen')} chooses"
        fewer = "fewer of more correlated columns have an interval"
        notes.append(f"{which} count as correlated by {POOR.shared:g}; {fewer}.")
    if lines and _has_inner(plan):
        notes.append("All rows count as within inner=; rows beyond it would be left out.")
    if notes:
        table.attrs["note"] = "\n".join(notes)
    return table


def _other_share(plan: Plan, share: float) -> str:
    """Where a share of a binary response is told that is known, or that it was; empty where none can be."""
    if _describes_response(plan):
        return ", as declared"
    if plan.screening is None:
        typed = typical_response(plan, share)
        return f"; {phrase(f'plan.standard_errors(n, {typed})', shell=typed)} takes the share that you know"
    # The terms that will be chosen have no other forecast.
    design = plan.design
    assert isinstance(design, DesignSpec)
    if not isinstance(design.domain.get(design.response_name), Range):
        return ""
    declared = phrase(f"dp.Range(0, 1, typical={share:.3g})", shell=f"{{range: [0, 1], typical: {share:.3g}}}")
    return f"; {declared} for {design.response_name} in the Domain takes the share that you know"


def _other_deviation(plan: Plan) -> str:
    """Where the standard deviation of counts is told that is known; empty where none can be."""
    if plan.screening is not None:  # the terms that will be chosen have no forecast that takes it
        return ""
    assert isinstance(plan.design, DesignSpec)
    if _describes_response(plan):
        return f"; {phrase('plan.standard_errors(n)', shell='--rows N')} takes the declared standard deviation"
    typed = typical_response(plan, USUAL.count * plan.design.response.high)
    typed = phrase(f"plan.standard_errors(n, {typed})", shell=typed)
    return f"; {typed} takes the mean and the standard deviation that you know"


def _has_inner(plan: Plan) -> bool:
    """Whether a number has an interval within its range that leaves out nobody knows how many rows."""
    assert isinstance(plan.design, DesignSpec)
    domain = plan.design.domain
    return any(
        isinstance(one, Range) and one.inner is not None for name, one in domain.items() if name not in plan.bought
    )


def _kept(plan: Plan) -> float:
    """The share of rows that typical values leave in a fit, if numbers are normal and independent.

    Of a person one row is enough, and what an interval leaves out that was bought, nobody knows.
    """
    if plan.request.options.unit is not None or not isinstance(plan.design, DesignSpec):
        return 1.0
    responses = plan.design.parsed.response_columns
    cut = [
        end != declared
        for name, one in plan.design.domain.items()
        if isinstance(one, Range) and one.inner is None and name not in responses
        for end, declared in zip(one.interval, (one.low, one.high), strict=True)
    ]
    return float(special.ndtr(TYPICAL_REACH) ** sum(cut))


def _method(chosen: Plan, plan: Plan, rows: float) -> str:
    """By which a choice with errors is carried out; between two a bought interval of the response will decide."""
    settles = plan.counts is not None and plan.counts.settles_errors
    if not settles or not may_take_sums(plan.request, plan.design):
        return method_name(plan)
    if pays_for_residuals(affordable(chosen, rows), rows, plan.request):
        return CAPPED_SUMS
    return f"{plan.request.method} or statistics"

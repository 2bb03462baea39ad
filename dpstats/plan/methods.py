"""The releases of a fit by the method asked for, and what they buy of the response."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.call import Request
from dpstats.domain import Domain, Range
from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.families import Family, Gaussian, NegativeBinomial, Poisson, Quantile
from dpstats.families.base import OF_PIECES
from dpstats.families.gaussian import DEFAULT_CAP
from dpstats.formula.design import DesignSpec
from dpstats.formula.parse import Formula
from dpstats.mechanisms.design import Bounds, PublicDesign, averaged_variables, constant_column
from dpstats.mechanisms.fit_statistics import LEAST_EPS, SHARE, FitStatisticsPlan
from dpstats.mechanisms.focus import SHARE as FOCUS_SUMS
from dpstats.mechanisms.focus import FocusPlan, focus_obstacle, treated
from dpstats.mechanisms.least_squares import plan_least_squares
from dpstats.mechanisms.napp import plan_stages
from dpstats.mechanisms.narrowing import narrowable
from dpstats.mechanisms.options import Options, named_variables
from dpstats.mechanisms.output import plan_output
from dpstats.mechanisms.posterior import EXACT_COLUMNS, NOT_EXACT, plan_posterior
from dpstats.mechanisms.screening import ScreeningPlan, plan_choice
from dpstats.mechanisms.spec import CapPurchase, FitSpec, buys_errors, obstacle
from dpstats.mechanisms.stage import Stage, StagePlan
from dpstats.mechanisms.statistics import ResidualCentre
from dpstats.privacy.trimming import chosen_share
from dpstats.wording import argument

Vector = NDArray[np.float64]

APART: dict[str, Callable[[FitSpec, float, float], StagePlan]] = {
    "output": plan_output,
    "posterior": plan_posterior,
    "statistics": plan_least_squares,
}
"""Methods that do not perturb the objective; each has one stage and a proof page of its name."""


def penalty_weights(design: PublicDesign, options: Options) -> Vector:
    """The penalty's weight on each column, shape (p,): 0 on the intercept, else as the options say, else 1.

    ArgumentError if a key of the option `penalty_weights` is neither a term nor a column.
    """
    weights = np.ones(len(design.names))
    if design.has_intercept:
        weights[0] = 0.0
    terms = {getattr(term, "name", ""): term.columns for term in design.terms}
    for key, weight in (options.penalty_weights or {}).items():
        if key in terms:
            weights[terms[key]] = weight
        elif key in design.names:
            weights[design.names.index(key)] = weight
        else:
            raise ArgumentError(f"penalty_weights: {key!r} is neither a term nor a column; terms: {', '.join(terms)}")
    return weights


def fit_spec(
    request: Request,
    design: PublicDesign,
    family: Family,
    response: ResponsePurchase | None = None,
    residuals: ResidualPurchase | None = None,
) -> FitSpec:
    """What the request fits on this design, every cap of `family` filled in, and what it buys of the response."""
    weights = penalty_weights(design, request.options)
    choosing = choosing_family(request, design, family)
    mean, one_tail = (None, False) if response is None else (response.mean, response.one_tail)
    if mean is not None and isinstance(design, DesignSpec) and design.offset is not None:  # it is a rate
        mean *= math.exp(min(design.offset.high, LARGEST_EXPONENT))
    centre = None if residuals is None else residuals.centre
    return FitSpec(
        design,
        family,
        request.penalty,
        weights,
        request.options,
        request.adjacency,
        mean,
        choosing,
        centre,
        cap_purchase(request, residuals, one_tail=one_tail),
    )


def chosen_range_eps(request: Request, spec: FitSpec, rows: float | None) -> float:
    """What narrower ranges of the columns that are chosen on half of so many rows cost the other half; 0 for none.

    Of a call that leaves open which ranges are bought, for the sake of its errors.
    """
    options, design = request.options, spec.design
    suits = options.screen is not None and options.split is not None and options.ranges is None
    suits = suits and options.unit is None and options.focus is None
    suits = suits and request.method != "statistics" and request.family.name not in OF_PIECES
    if rows is None or not suits or not isinstance(design, DesignSpec) or not buys_errors(spec):
        return 0.0
    share = chosen_share(rows * request.row_eps / 2, request.adjacency)
    return share * request.row_eps if narrowable(design) else 0.0


def plan_releases(
    request: Request, design: PublicDesign, spec: FitSpec, eps: float
) -> tuple[ScreeningPlan | None, tuple[Stage, ...]]:
    """The releases of the fit by the method asked for, for `eps` of the budget."""
    if spec.options.information_cap is not None:
        spec.check_information_cap()
    if request.method == "statistics" and isinstance(request.family, Gaussian) and request.family.residual_cap:
        method = argument("method", "statistics")
        raise ArgumentError(
            f"residual_cap cannot be combined with {method}, which is plain least squares; leave it out"
        )
    options = request.options
    if request.method not in APART:
        chooses = options.screen is not None or options.refit_share > 0 or options.split is not None
        return plan_choice(spec, eps, request.delta) if chooses else (None, plan_stages(spec, eps, request.delta))
    reason = uncertified_method(request, design)
    if reason is not None and not request.allow_uncertified:
        allowed = argument("allow_uncertified", True)
        raise UncertifiedError(f"not certified: {reason}. Pass {allowed} to fit it without a guarantee")
    return None, (Stage("fit", APART[request.method](spec, eps, request.delta)),)


def needs_errors() -> str:
    """Why fit statistics do not go without standard errors, with the fix."""
    return (
        "buys averages at bias-corrected coefficients, and this fit has no standard errors: pass "
        f"{argument('inference', True)}, or leave fitstats out"
    )


def plan_fit_statistics(request: Request, design: PublicDesign, spec: FitSpec) -> FitStatisticsPlan | None:
    """What is set aside for fit statistics, should the stages have errors; None for nothing.

    ArgumentError if they are asked for where there are none.
    """
    options = request.options
    share, by = options.fitstats, options.fitstats_by
    variables = named_variables("fitstats_variables", options.fitstats_variables)
    named = "fitstats_by" if by is not None else "fitstats_variables" if variables is not None else None
    if options.focus is not None:
        return None
    if share is None or share == 0:
        if named is not None:
            raise ArgumentError(
                f"{named} needs fit statistics: pass {argument('fitstats', SHARE)} too, or leave it out"
            )
        return None
    reason = no_fit_statistics(request, spec)
    eps = (SHARE if share == "auto" else share) * request.eps
    if reason is None and eps < LEAST_EPS:
        reason = f"would be only noise at an eps of {eps:.2g}; raise eps"
    biased = obstacle(spec.family, spec.penalty, spec.options) is not None
    if reason is None and (biased or not buys_errors(spec)):
        if share != "auto" or named is not None:
            raise ArgumentError(f"fitstats {needs_errors()}")
        return None
    if reason is None:
        if named is not None:  # refuses names of none of the formula's variables
            averaged_variables(design, variables, by)
        return FitStatisticsPlan(eps, request.adjacency, variables=variables, by=by)
    if share != "auto" or named is not None:
        raise ArgumentError(f"{named or 'fitstats'} {reason}")
    return None


def plan_focus(request: Request, design: PublicDesign, treatment: str, spec: FitSpec) -> FocusPlan:
    """What is set aside for the arms of a treatment; ArgumentError where there can be none."""
    options = request.options
    if request.method in APART or options.replicates:
        raise ArgumentError(f"focus is for {argument('method', 'napp')} only; leave it out")
    if options.fitstats not in (None, 0, "auto") or options.fitstats_by or options.fitstats_variables:
        raise ArgumentError("focus releases no standard errors for fit statistics: leave out fitstats or focus")
    treated(design, treatment)
    if (reason := focus_obstacle(spec)) is not None:
        raise ArgumentError(f"focus {reason}")
    eps = FOCUS_SUMS * request.eps
    if eps < LEAST_EPS:
        raise ArgumentError(f"focus would be only noise at an eps of {eps:.2g}; raise eps")
    return FocusPlan(eps, request.adjacency, treatment)


def no_fit_statistics(request: Request, spec: FitSpec) -> str | None:
    """Why a model has no fit statistics to buy, with the fix; whether it has errors is another question."""
    if request.method in APART:
        method, napp = argument("method", request.method), argument("method", "napp")
        return f"cannot be combined with {method}; use {napp}, or leave it out"
    options, family, design = spec.options, spec.family, spec.design
    if options.replicates:
        return "is not part of the replicated paper; leave it out"
    if (rows := no_averages(options, design)) is not None:
        return f"averages over rows, which is not offered {rows}; leave it out"
    if not family.models_mean:
        return f"needs a mean response, which family {family.name!r} does not model; leave it out"
    if constant_column(design) is None:
        return "compares with the intercept alone; use a formula with an intercept, or leave it out"
    return None


def no_averages(options: Options, design: Bounds) -> str | None:
    """The option with which averages over the private rows are not offered, if a model has one."""
    if options.unit is not None:
        return "with a unit"
    if design.score_ratio != 1.0:
        return "with weights or numbers of trials"
    if options.screen is not None or options.refit_share > 0:
        return "after a choice of columns"
    return "with an offset or exposure" if design.offset_bound else None


def uncertified_method(request: Request, design: PublicDesign) -> str | None:
    """Why the method itself has no proof for this design, if it has none."""
    return NOT_EXACT if request.method == "posterior" and len(design.names) > EXACT_COLUMNS else None


def zcdp_of(stages: tuple[Stage, ...]) -> float | None:
    """rho, where the stages are one release for which it is proved."""
    statistics = stages[0].plan.statistics
    return None if statistics is None else statistics.guarantee.rho


def proof_page(request: Request, stages: tuple[Stage, ...]) -> str:
    """The proof that covers what the request releases."""
    options = request.options
    if request.family.name in OF_PIECES:
        return OF_PIECES[request.family.name]
    if options.unit is not None:
        return "docs/proofs/persons"
    if request.method in APART:
        return f"docs/proofs/{request.method}"
    if options.screen is not None:
        return "docs/proofs/screening"
    if any(role == "pilot" for role, _ in stages):
        return "docs/proofs/two_stage"
    if options.selection is not None or options.refit_share > 0:
        return "docs/proofs/selection"
    return "docs/proofs/objective" if request.penalty is None else "docs/proofs/napp"


def paid_apart(stages: tuple[Stage, ...], options: Options) -> tuple[tuple[Stage, ...], ...]:
    """The stages by whose rows pay for them: of parts with rows of their own the dearest counts."""
    if options.split is not None and stages[-1].role == "refit":
        return stages[:-1], stages[-1:]
    return (stages,)


def range_eps(request: Request, bought: tuple[str, ...]) -> float:
    """What the ranges of the columns left out of the Domain cost together."""
    return request.options.range_share * request.row_eps if bought else 0.0


LARGEST_EXPONENT = 700.0
"""exp of more would overflow."""

MEAN_SHARE = 0.25
"""The part of a count's purchase that buys the mean; the greatest count gets the rest."""


@dataclass(frozen=True)
class ResponsePurchase:
    """What is bought of the response.

    `low` and `high` are the interval that scale, centre and cap of a continuous response follow, or 0 and the greatest
    count that is not clipped, in the user's units: the declared range until it is bought.
    """

    eps: float  # what it costs
    low: float
    high: float
    # The bought mean of a count, or its rate per exp(offset); None until then, for other responses, and without an
    # intercept to centre.
    mean: float | None = None
    # The dispersion of negative binomial counts; None until it is bought, and of other responses.
    alpha: float | None = None
    # Whether a cap is for a response with one tail: its interval meets a single end of the declared range.
    one_tail: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON; what is not known is left out where older versions did not know it."""
        later = {"alpha": None, "one_tail": False}
        return {name: value for name, value in asdict(self).items() if name not in later or value != later[name]}


CENTRE_SHARE, TAILS_SHARE = 0.05, 0.04
"""The shares of eps that buy coefficients for residuals to be about, and how far these reach: of `FULL_SHARES` rows
times eps a column or fewer. Of more they fall with the root of these."""

FULL_SHARES = 4000.0

CAPPED_A_COLUMN = 1000.0
"""A cap of the loss that follows residuals, of persons and of columns chosen on other rows, is bought for so many rows
times eps for each column or more."""

LARGE_SHIFT = 0.5
"""A cap that may move a mean by more standard errors may bias slopes as far: their intervals may miss."""


@dataclass(frozen=True)
class ResidualPurchase:
    """What is bought of residuals: released coefficients that they are about, and a cap that few of them exceed.

    A fit of chosen columns buys them between the choice and the fit, and has the cap in its family.
    """

    eps: float  # what both cost
    centre: ResidualCentre | None = None  # in the model units of the declared response; None until it is bought
    beyond: tuple[float, float] | None = None  # the share of the rows beyond the cap, and the deviation of its noise
    sd: float | None = None  # the root mean square of the residuals about the centre, in units of the response
    # How far the cap may move a mean, in standard errors; None of two tails, which hardly move it, or of few rows.
    shift: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        centre = None if self.centre is None else self.centre.to_dict()
        facts = {"eps": self.eps, "centre": centre, "beyond": None if self.beyond is None else list(self.beyond)}
        later = {"sd": self.sd, "shift": self.shift}
        return facts | {
            name: value for name, value in later.items() if value is not None
        }  # as older versions stored it

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ResidualPurchase:
        """What `to_dict` gave `stored` of."""
        centre = stored["centre"]
        beyond = None if stored["beyond"] is None else (stored["beyond"][0], stored["beyond"][1])
        residual_centre = None if centre is None else ResidualCentre.from_dict(centre)
        return cls(stored["eps"], residual_centre, beyond, stored.get("sd"), stored.get("shift"))


def cap_purchase(request: Request, residuals: ResidualPurchase | None, *, one_tail: bool) -> CapPurchase | None:
    """What is bought of residuals by the rows that columns chosen on other rows are fitted to."""
    if residuals is None or request.options.split is None:
        return None
    first = CENTRE_SHARE / (CENTRE_SHARE + TAILS_SHARE) * residuals.eps
    return CapPurchase(first, residuals.eps - first, one_tail)


ERRORS_SHARE = 0.03
"""The share of eps that buys an interval of the response for the sake of errors, unless `response_share` is less."""


FEWEST_BOUGHT = 50.0
"""An interval of the response is bought for the sake of errors of so many rows times its eps or more."""

NUMBER_SHARE = 1 / 8
"""The part of the purchase that counts rows for that, where nothing else tells their number."""


def response_purchase(request: Request, design: PublicDesign) -> ResponsePurchase | None:
    """What the request buys of its response, the declared range standing in for what is not known yet; None if nothing.

    ArgumentError if the purchase is asked for where there is nothing to buy or no room for it in the plan.
    """
    reason, options = _obstacle(request, design), request.options
    explicit = options.response == "bought"
    if explicit and reason is not None:
        raise ArgumentError(f"{argument('response', 'bought')} {reason}")
    if options.response == "declared" or reason is not None:
        return None
    intervals = caps_for_intervals(request)
    open_counts = buys_greatest_count(request.family)
    open_width = is_open_quantile(request)
    if not (explicit or intervals or open_counts or open_width):
        return None
    share = interval_share(request) if (intervals or open_width) and not explicit else options.response_share
    assert isinstance(design, DesignSpec)
    return ResponsePurchase(share * request.row_eps, design.response.low, design.response.high)


def interval_share(request: Request) -> float:
    """The share of eps that buys an interval of the response which nobody asked for.

    Half of the whole `response_share` for quantiles, so that one of several can pay for all.
    """
    share = request.options.response_share
    return share / 2 if is_open_quantile(request) else min(share, ERRORS_SHARE)


WORKING_CAP, INTERVAL_CAP = 0.35, 0.9
"""The default residual cap as a multiple of half the width of a bought interval: for coefficients alone, and where
their intervals are to cover the slopes of least squares (docs/proofs/purchases)."""

ONE_TAIL = 2.0
"""The latter is so many times as wide for a response with one tail, whose residuals reach further on its side."""


TWO_VALUES_CAP = 1.0
"""The residual cap of least squares of a 0/1 response: fitted values within its range have no residual beyond."""


def is_open_least_squares(request: Request) -> bool:
    """Whether the residual cap of a linear model is left open."""
    return isinstance(request.family, Gaussian) and request.family.residual_cap is None


def has_two_values(design: PublicDesign) -> bool:
    """Whether the response is declared as a number that is 0 or 1."""
    declared = design.domain.get(design.response_name) if isinstance(design, DesignSpec) else None
    return isinstance(declared, Range) and declared.is_binary


def with_cap_of_two_values(request: Request, design: DesignSpec) -> Request:
    """The request whose open residual cap has room for both values of a 0/1 response.

    A cap of about the residuals' size would move nearly all responses of the rarer value, and with them the slopes.
    """
    family = request.family
    if not isinstance(family, Gaussian) or not is_open_least_squares(request) or request.method in APART:
        return request
    return replace(request, family=replace(family, residual_cap=TWO_VALUES_CAP)) if has_two_values(design) else request


def may_take_statistics(request: Request) -> bool:
    """Whether released statistics, or of persons a cap of residuals, may settle plain least squares, nothing asked."""
    options = request.options
    plain = request.penalty is None and options.response != "bought" and request.method == "napp"
    plain = plain and options.screen is None
    return request.open_method and plain and is_open_least_squares(request)


def may_take_sums(request: Request, design: PublicDesign) -> bool:
    """Whether sums may take the place of one fit by the method, with an intercept and of rows that all count alike."""
    if not isinstance(design, DesignSpec) or not design.has_intercept or request.options.unit is not None:
        return False
    alike = all(part is None for part in (design.weights, design.offset, design.subset))
    return alike and leaves_shares_open(request.options) and may_take_statistics(request)


def may_cap_persons(request: Request, design: PublicDesign) -> bool:
    """Whether the residuals of persons may settle the cap: of plain least squares with equal weights."""
    options = request.options
    alike = design.has_intercept and design.score_ratio == 1.0 and not design.offset_bound
    persons = options.unit is not None and options.inference in (True, "auto")
    return alike and persons and leaves_shares_open(options) and may_take_statistics(request)


def persons_for_cap(request: Request, size: int) -> int:
    """From about how many persons on a model of so many columns buys how far their residuals reach."""
    least = CAPPED_A_COLUMN * size / request.row_eps
    unit = 10 ** max(math.floor(math.log10(least)) - 1, 0)
    return math.ceil(least / unit) * unit


def leaves_shares_open(options: Options) -> bool:
    """Whether no shares or curvature are asked for: they would be those of one fit, with no rough one before it."""
    return options.information_share is None and options.spread_share is None and options.curvature is None


def is_open_quantile(request: Request) -> bool:
    """Whether the width of the pinball loss's corner is left open."""
    return isinstance(request.family, Quantile) and request.family.h is None


def caps_for_intervals(request: Request) -> bool:
    """Whether the residual cap is open and to be so wide that intervals cover the slopes of least squares."""
    options = request.options
    if not is_open_least_squares(request) or request.method in APART:
        return False
    if options.focus is not None:
        return True
    return options.inference not in (None, "auto") and obstacle(request.family, request.penalty, options) is None


def choosing_family(request: Request, design: PublicDesign, family: Family) -> Family | None:
    """That of screening, or of a choice of columns for a refit on other rows, if it is not the fit's `family`.

    A choice has no errors, so an open residual cap is there that of coefficients alone.
    """
    options = request.options
    chooses = options.screen is not None or (options.split is not None and options.refit_share > 0)
    if not chooses or not caps_for_intervals(request) or not isinstance(family, Gaussian):
        return None
    bought = isinstance(design, DesignSpec) and design.response.working is not None
    narrow = WORKING_CAP if bought else DEFAULT_CAP
    return replace(family, residual_cap=narrow) if family.lipschitz > narrow else None


def centre_stages(stages: Sequence[Stage], design: PublicDesign, mean: float, kept: Sequence[int]) -> tuple[Stage, ...]:
    """The stages of counts, shrinking the intercept towards the linear predictor of a released mean instead of zero.

    They hold the columns `kept` of the design.
    """
    assert isinstance(design, DesignSpec)
    target = np.zeros(len(design.names))
    at = design.names.index("Intercept")
    family = stages[0].plan.family
    assert isinstance(family, (NegativeBinomial, Poisson))
    # With an offset what was bought is the rate: counts per exp(offset).
    level = family.predictor(mean) if design.offset is None else math.log(mean) + design.offset_center
    target[at] = level * design.scale[at]
    part = target[list(kept)]
    return tuple(Stage(role, plan.recentred(plan.curvature, -plan.curvature * part)) for role, plan in stages)


def _obstacle(request: Request, design: PublicDesign) -> str | None:
    """Why nothing can be bought of the response, with the fix."""
    if request.family.response == "binary":
        return f"does not suit family {request.family.name!r}, whose response has two values; leave it out"
    if isinstance(request.family, NegativeBinomial) and request.family.alpha is not None:
        return f"is not offered for family {request.family.name!r} of a known alpha; declare the range of the counts"
    if not isinstance(design, DesignSpec):
        return "needs a formula and a declared range; leave it out for plain arrays"
    if request.options.replicates:
        return "is not part of the replicated paper; leave it out"
    if request.options.retrieval == "return":
        returned, recycled = argument("retrieval", "return"), argument("retrieval", "recycle")
        return f"cannot be combined with {returned}, which needs a price known beforehand; use {recycled}"
    return None


def buys_greatest_count(family: Family) -> bool:
    """Whether a fit buys the greatest count unasked: unless the analyst has chosen a cap, or knows alpha."""
    if isinstance(family, NegativeBinomial):
        return family.alpha is None
    return isinstance(family, Poisson) and family.y_max is None and family.mean_cap is None


def trimmable(parsed: Formula, domain: Domain, open_ranges: Sequence[str] = ()) -> tuple[str, ...]:
    """Columns that explain of which an interval within the declared range may be bought: no `open_ranges`."""
    left_out = {*open_ranges, *parsed.response_columns}
    names = (name for name in parsed.exog_columns if name not in left_out)
    return tuple(name for name in names if can_be_trimmed(domain.get(name)))


def narrowed_unasked(parsed: Formula, domain: Domain) -> tuple[str, ...]:
    """Those that a fit of enough rows narrows by itself: none of a spline, whose knots would stay where they are.

    The rows that are kept would lie between few of the knots, and the spline's columns would hide all others.
    """
    return tuple(name for name in trimmable(parsed, domain) if name not in parsed.knotted_columns)


def can_be_trimmed(declared: object) -> bool:
    """Whether a declaration is a range of which an inner interval may be bought: of more than two codes, with none."""
    return (
        isinstance(declared, Range)
        and not declared.is_binary
        and declared.interval == (declared.low, declared.high)
        and declared.inner is None
    )

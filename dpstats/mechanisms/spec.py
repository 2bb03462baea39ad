"""What a fit is planned from: one specification of model, options and neighbours, and how inference shares the
budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.families import Binomial, BinomialCounts, Family, NegativeBinomial, Poisson
from dpstats.families.hazard import PiecewiseExponential
from dpstats.families.ordinal import CumulativeLogit
from dpstats.mechanisms.calibration import NoiseBudget
from dpstats.mechanisms.design import Bounds, SubDesign, constant_column, find_variable, has_errors
from dpstats.mechanisms.information import COVER, InformationPurchase, SpreadKind
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.statistics import ResidualCentre
from dpstats.penalties import Lasso, Penalty, split_curvature
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information import headroom, weight_bound
from dpstats.wording import argument

Vector = NDArray[np.float64]


class CapPurchase(NamedTuple):
    """What a fit of chosen columns spends on its residual cap before all else, by its own rows; pure."""

    first_eps: float  # for coefficients that residuals are about
    tails_eps: float  # for how far these reach
    one_tail: bool  # whether the response has a single tail

    @property
    def eps(self) -> float:
        """What both cost."""
        return self.first_eps + self.tails_eps


@dataclass(frozen=True, eq=False)
class FitSpec:
    """Public facts of a fit."""

    design: Bounds
    family: Family  # every cap filled in
    penalty: Penalty | None
    weights: Vector  # the penalty's on each column, shape (p,)
    options: Options
    adjacency: Adjacency = "add_remove"
    mean: float | None = None  # of counts at the greatest exposure, once it has been bought
    choosing: Family | None = None  # of screening or the stages before a refit, if their caps differ from the fit's
    residuals: ResidualCentre | None = None  # what released sums are about, once it has been bought
    cap: CapPurchase | None = None  # until which the family has the widest cap
    range_eps: float = 0.0  # what the rows of a fit of chosen columns spend on narrower ranges of these

    @property
    def weight_cap(self) -> float | None:
        """The cap on the weights in the information, of counts at the greatest exposure; None where l'' is no greater.

        What it takes away is made up for where `_restores_weights` (docs/proofs/inference, 13).
        """
        cap = self.options.information_cap
        if cap is None and self.mean is not None and isinstance(self.family, Poisson):
            cap = TIMES_MEAN * self.mean
        if cap is None or cap >= self.family.curvature_bound or not isinstance(self.family, CAPPABLE):
            return None
        return cap if self._restores_weights else None

    @property
    def _restores_weights(self) -> bool:
        """Whether the correction for a cap is known: beside an intercept, and an offset of Poisson counts alone."""
        by_rate = isinstance(self.family, Poisson) or self.design.offset_bound == 0
        return constant_column(self.design) is not None and by_rate

    def check_information_cap(self) -> None:
        """Raise ArgumentError if the cap that is given would be ignored."""
        family = self.family
        if not isinstance(family, CAPPABLE):
            raise ArgumentError(
                f"information_cap does not suit family {family.name!r}: it is for counts and for rare outcomes; "
                "leave it out"
            )
        if self.options.inference is None or obstacle(family, self.penalty, self.options) is not None:
            raise ArgumentError("information_cap applies to standard errors, and this fit has none; leave it out")
        if not self._restores_weights:
            counts = " or family 'poisson'" if constant_column(self.design) is not None else ""
            raise ArgumentError(
                f"information_cap needs a formula with an intercept and without an offset{counts}, which the "
                "correction for the cap relies on; leave it out"
            )

    def budget(self, eps: float, delta: float) -> NoiseBudget:
        """One stage's budget, a share of it for its final discrete noise."""
        options = self.options
        final_eps = options.release_share * eps
        return NoiseBudget(
            eps - final_eps,
            delta,
            final_eps,
            self.adjacency,
            options.retrieval if options.retrieval != "paper" else None,
            options.curvature,
            options.radius,
            options.noise,
            rows_at_most=options.rows_at_most,
            shared=options.record.shared or self.family.pieced,
            focus=None if options.focus is None else find_variable("focus", self.design, options.focus).column,
        )

    def pure_budget(self, eps: float) -> NoiseBudget:
        """That of a fit which only prepares a release: pure noise, by the defaults."""
        options, final = self.options, self.options.release_share * eps
        return NoiseBudget(
            eps - final, 0.0, final, self.adjacency, rows_at_most=options.rows_at_most, shared=options.record.shared
        )

    @property
    def cap_eps(self) -> float:
        """What the last fit spends on its cap."""
        return 0.0 if self.cap is None else self.cap.eps

    @property
    def choice(self) -> FitSpec:
        """What chooses columns: the same with the family that is for choices."""
        return self if self.choosing is None else replace(self, family=self.choosing)

    def among(self, columns: NDArray[np.intp]) -> FitSpec:
        """Of the columns at these positions alone."""
        return replace(self, design=SubDesign(self.design, columns), weights=self.weights[columns])


def automatic_alpha(penalty: Penalty | None, options: Options) -> bool:
    """Whether a lasso has no strength of its own: its weights follow from noise and rows."""
    return isinstance(penalty, Lasso) and penalty.alpha == 0 and options.selection == "auto"


CAPPABLE = (Binomial, NegativeBinomial, Poisson)
"""Families whose weights may be capped in the information."""

TIMES_MEAN = 2.0
"""Poisson counts whose mean was bought have their weights capped at so many times it (docs/defaults)."""

SHARES = {"few": 0.42, "most": 0.5, "many": 0.6}
"""Shares of eps that the information matrix would take if it were bought alone (docs/defaults); beside the fit of a
family whose gradient and curvature are not extreme together it takes far less."""

FEW_COLUMNS = 12
"""Up to so many columns the information of a logistic regression, or of hazards, needs a smaller share."""

MANY_COLUMNS = 20
"""Beyond so many the other families' needs a larger one."""

TOO_FAR = (
    "needs variances in the units of the columns and the response, which differ by a factor of 1e70 or more: "
    "rescale them"
)

SPREAD_SHARES: dict[SpreadKind, float] = {"known": 0.0, "dispersion": 0.05, "robust": 0.15, "clustered": 0.15}


def with_inference(budget: NoiseBudget, spec: FitSpec) -> NoiseBudget:
    """The budget of the stage that is released last, its share for inference set aside if there is one.

    ArgumentError if inference is asked for where there is none, or a share is given that would buy nothing.
    """
    design, family, options = spec.design, spec.family, spec.options
    if options.focus is not None:  # its sums take the place of the information
        return budget
    reason = obstacle(family, spec.penalty, options)
    kind = options.inference
    if options.information_share is not None or options.spread_share is not None:
        _check_shares(spec, offered=reason is None)
    if reason is not None:
        if kind in (None, "auto"):
            return budget
        raise ArgumentError(f"{argument('inference', kind)} {reason}")
    if not buys_errors(spec):
        return budget
    if not check_units(design, options):
        return budget
    if kind == "model" and _variance_is_open(family, design):
        raise ArgumentError(
            f"{argument('inference', 'model')} is not offered with weights, which do not determine the variance of "
            "the response; use 'robust'"
        )
    spread = _spread(spec)
    total = budget.eps + budget.final_eps
    bought = SPREAD_SHARES[spread] if options.spread_share is None or spread == "known" else options.spread_share
    share = options.information_share
    information = InformationPurchase(
        ratio=_ratio(family, len(design.names), options),
        free=kind == "auto",
        spread=spread,
        cover_eps=COVER * total,
        spread_eps=bought * total,
        weights_eps=0.0,
        # Of eps what the share leaves buys normal noise 1 / (1 - share) times as large.
        surcharge=None if share is None else share / (1 - share),
        most=options.record.rows,
        weight_cap=spec.weight_cap,
    ).suited(design)
    if information.extra_eps >= budget.eps:
        raise ArgumentError("spread_share and release_share leave no budget for the coefficients; lower them")
    return replace(budget, eps=budget.eps - information.extra_eps, information=information)


def buys_errors(spec: FitSpec) -> bool:
    """Whether the stage that is released last is to have standard errors, if there is room for them and no obstacle."""
    options = spec.options
    if options.inference == "auto":
        return errors_are_free(spec.family, options)
    return options.inference is not None


def errors_are_free(family: Family, options: Options) -> bool:
    """Whether a fit has errors for nothing: not where the spread of scores must be bought.

    It must be of quantiles, and of persons.
    """
    return headroom(family) > 0 and family.models_mean and options.unit is None


def check_units(design: Bounds, options: Options) -> bool:
    """Whether doubles hold what inference needs; ArgumentError if they do not and it is asked for."""
    suited = has_errors(design)
    if not suited and options.inference not in (None, "auto"):
        raise ArgumentError(f"{argument('inference', options.inference)} {TOO_FAR}")
    return suited


def obstacle(family: Family, penalty: Penalty | None, options: Options) -> str | None:
    """Why there can be no inference, with the fix."""
    if not type(family).__module__.startswith("dpstats."):
        return "needs a family of dpstats: the price of the information is proved for those"
    if options.replicates:
        return "is not part of the replicated paper; leave it out"
    if options.retrieval != "recycle":
        reason = "is priced together with the coefficients"
        if options.retrieval == "return":
            reason = f"cannot be combined with {argument('retrieval', 'return')}, which needs a price known beforehand"
        return f"{reason}; use {argument('retrieval', 'recycle')}"
    if not family.models_mean and options.inference == "model":
        return f"is not offered for family {family.name!r}, which has no model of the variance; use 'robust'"
    if options.unit is not None and options.inference == "model":
        return "treats the rows of one person as independent; use 'robust' with a unit"
    if options.refit_share > 0:
        return None
    if options.selection is not None or (penalty is not None and _biased(penalty)):
        return (
            "is not offered for coefficients under such a penalty, whose bias it cannot correct: add "
            f"{argument('refit_share', 0.5)}, best with {argument('split', 'rows')}, or use a ridge penalty or none"
        )
    return None


def _check_shares(spec: FitSpec, *, offered: bool) -> None:
    """Refuse shares of the budget that would be ignored."""
    options, family, kind = spec.options, spec.family, spec.options.inference
    paid = argument("inference", True)
    if options.information_share is not None and kind in (None, "auto"):
        raise ArgumentError(f"information_share needs standard errors that are paid for: pass {paid}, or leave it out")
    if options.spread_share is None:
        return
    if kind is None or (kind == "auto" and (not offered or not errors_are_free(family, options))):
        raise ArgumentError(f"spread_share buys nothing without inference: pass {paid}, or leave it out")
    if _spread(spec) == "known":
        raise ArgumentError(
            f"spread_share buys nothing for family {family.name!r}, whose variance follows from its mean: leave "
            f"it out, or pass {argument('inference', 'robust')}"
        )


def _biased(penalty: Penalty) -> bool:
    """Whether the penalty pulls other than a quadratic term does."""
    return not penalty.convex or split_curvature(penalty)[1] is not None


def _variance_is_open(family: Family, design: Bounds) -> bool:
    """Whether the model does not say how a row's score varies: under weights, and for shares of nobody knows how many.

    Shares of successes in plain arrays are of an unknown number of trials.
    """
    if isinstance(family, PiecewiseExponential):  # its weights are lengths of time, and events a martingale
        return False
    return design.score_ratio is None or (isinstance(family, BinomialCounts) and design.score_ratio == 1)


def _spread(spec: FitSpec) -> SpreadKind:
    """How the score's covariance is known: weights and persons leave it open, and then it is bought."""
    family, options = spec.family, spec.options
    if options.unit is not None or (isinstance(family, CumulativeLogit) and options.inference == "robust"):
        return "clustered"
    if _variance_is_open(family, spec.design):
        return "robust"
    if options.inference == "robust" or not family.models_mean:
        return "robust"
    return "known" if isinstance(family, (Binomial, NegativeBinomial, PiecewiseExponential)) else "dispersion"


def _ratio(family: Family, columns: int, options: Options) -> float:
    """The inverse scale of the matrix noise in units of the fit's."""
    if options.inference == "auto":
        return headroom(family)
    share = options.information_share
    if share is None:
        if isinstance(family, (Binomial, PiecewiseExponential)):
            share = SHARES["few" if columns <= FEW_COLUMNS else "most"]
        else:
            share = SHARES["most" if columns <= MANY_COLUMNS else "many"]
    return share / (1 - share) * family.lipschitz / weight_bound(family, None)

"""Standard errors to be expected of a plan, from public facts alone: no row is read and nothing spent.

The released values that errors follow from are put where rows made up from the Domain would have them, and go through
the same inference as those of a fit; which coefficients are identified is told by draws of the noise (docs/guide/eps).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.formula.made_up import SEED, uneven_columns
from dpstats.inference import Inference, ModelSpread, RobustSpread, Spread
from dpstats.mechanisms.information import Information, InformationPlan, known_information
from dpstats.mechanisms.information_release import dispersion, variance_noise
from dpstats.mechanisms.least_squares import LeastSquaresPlan, ReleasedSums
from dpstats.models.made_up import EXPLAINED, SPREAD, checked_rows, linear_predictor, made_up_signal
from dpstats.plan import Plan
from dpstats.privacy.calibration import check_positive
from dpstats.quiet import quiet
from dpstats.results.inferring import inference_of, shrunk_towards, sums_inference
from dpstats.results.missing import missing_information

Vector = NDArray[np.float64]

ROWS, DRAWS = 4096, 8
"""The means are over so many rows and so many draws of coefficients."""

NOISES = 20
"""Draws of the information's noise."""


class _Means(NamedTuple):
    """What a row adds in the mean: l'' x x', shape (p, p); l'' and l'^2; and (x, y)(x, y)', shape (p + 1, p + 1)."""

    information: Vector
    weight: float
    square: float
    moments: Vector


def foreseen_errors(plan: Plan, n: int, residual_sd: float | None = None) -> pd.DataFrame:
    """Standard errors that a fit of `n` rows would show; see `Plan.standard_errors`."""
    n = checked_rows(n, 10**15)
    _check_plan(plan)
    with quiet():
        means = _means(plan, _residual(plan, residual_sd))
        without = _sampling(plan, means) / np.sqrt(n)
        typical = _inferred(plan, means, float(n)).se
        chance = _identified(plan, means, float(n), typical)
        if not np.all(np.isfinite(typical[chance >= 0.5])):
            # At the edge of what is identified.
            typical = np.fmin(typical, _inferred(plan, means, float(n), corrected=False).se)
    errors = np.where(chance < 0.5, np.inf, np.maximum(typical, without))
    return pd.DataFrame({"std_error": errors, "sampling": without, "identified": chance}, index=list(plan.names))


def _check_plan(plan: Plan) -> None:
    """Refuse plans whose errors public facts do not tell."""
    design = plan.design
    if isinstance(plan.objective, LeastSquaresPlan):
        offered = plan.request.options.inference is not None and plan.request.penalty is None
    else:
        offered = plan.stages[-1].plan.information is not None
    if not offered:
        raise ArgumentError(f"plan: standard errors are {missing_information(plan)}")
    if not isinstance(design, DesignSpec) or design.score_ratio != 1.0 or plan.request.options.unit is not None:
        raise ArgumentError(
            "plan: standard errors are foreseen for a formula whose rows count alike, not with weights, trials or a "
            "unit; plan.simulate(n, seed).bse shows those of made-up rows"
        )
    if plan.bought or plan.screening is not None or plan.stages[-1].plan.size != len(plan.names):
        raise ArgumentError(
            "plan: standard errors are foreseen over declared ranges and for all columns: declare "
            f"{', '.join(plan.bought) or 'what is fitted'}, and leave out screen= and refit_share="
        )


def _residual(plan: Plan, residual_sd: float | None) -> float:
    """The standard deviation of a continuous response's residuals, in model units."""
    if plan.family.response != "continuous":
        if residual_sd is not None:
            raise ArgumentError(
                f"residual_sd is for responses that are numbers; family {plan.family.name!r} has no residual of its "
                f"own, got {shown(residual_sd)}"
            )
        return 0.0
    half = plan.design.response_scaling()[1]
    if residual_sd is None:
        return float(SPREAD * np.sqrt(1 - EXPLAINED))
    found = check_positive("residual_sd", residual_sd) / half
    if found > 2:
        raise ArgumentError(f"residual_sd must be less than the range of the response, {2 * half:.4g}")
    return found


def _means(plan: Plan, residual: float) -> _Means:
    """What a row that is made up from the Domain adds in the mean, its response as `Plan.simulate` makes it up."""
    design, family = plan.design, plan.family
    assert isinstance(design, DesignSpec)
    random = np.random.default_rng(SEED)
    exog, complete, offset = design.predicting(uneven_columns(design.domain, ROWS, random), offset=True)
    if not complete.any():
        raise ArgumentError("plan: the formula has no value at any row drawn from the domain")
    exog, offset = exog[complete], offset[complete]
    exog, offset = np.tile(exog, (DRAWS, 1)), np.tile(offset, DRAWS)
    signal = np.concatenate([made_up_signal(part, random) for part in np.split(exog, DRAWS)])
    eta = linear_predictor(design, signal, offset)
    endog = _endog(family, eta, residual, random)
    weights, slopes = family.weight(eta, endog), family.slope(eta, endog)
    # Of one draw: over all of them the response would go with no column.
    both = np.column_stack((exog, endog))[: len(exog) // DRAWS]
    return _Means(
        (exog * weights[:, None]).T @ exog / len(exog),
        float(np.mean(weights)),
        float(np.mean(slopes**2)),
        both.T @ both / len(both),
    )


def _endog(family: Family, eta: Vector, residual: float, random: np.random.Generator) -> Vector:
    """Responses in model units for linear predictors."""
    if family.response == "binary":
        return (random.uniform(size=len(eta)) < 1 / (1 + np.exp(-eta))).astype(np.float64)
    if family.response == "count":
        return np.asarray(family.clip_response(random.poisson(np.exp(eta)).astype(np.float64)))
    return np.asarray(eta + residual * random.standard_normal(len(eta)), dtype=np.float64)


def _sampling(plan: Plan, means: _Means) -> Vector:
    """Standard errors of one row's worth, in the user's units, that no noise adds to."""
    rows = plan.design.back_transform()[0]
    inverse = np.linalg.pinv(means.information)
    information = plan.stages[-1].plan.information
    known = information is not None and information.purchase.spread == "known"
    phi = 1.0 if known else means.square / means.weight
    square = phi * np.sum(rows @ inverse * rows, axis=1)
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))


def _inferred(plan: Plan, means: _Means, n: float, corrected: bool = True) -> Inference:
    """The table of errors where everything released is as the mean of its rows would have it."""
    if isinstance(plan.objective, LeastSquaresPlan):
        return sums_inference(plan, ReleasedSums(n * means.moments), None).table
    stage = plan.stages[-1].plan
    assert stage.information is not None
    matrix = n * means.information
    if corrected:
        # Less what the self-consistent inverse takes noise to have added: it is then that of the mean itself.
        matrix = matrix - stage.information.noise.sandwich(np.asarray(np.linalg.pinv(matrix), dtype=np.float64))
    spread = _spread(plan, stage.information, matrix, n * means.square, n * means.weight)
    released = Information(tuple(range(stage.size)), matrix, spread)
    return inference_of(plan, shrunk_towards(stage), released).table


def _identified(plan: Plan, means: _Means, n: float, errors: Vector) -> Vector:
    """In which share of the draws of the information's noise each coefficient has a standard error, shape (p,)."""
    if isinstance(plan.objective, LeastSquaresPlan):
        return np.isfinite(errors).astype(np.float64)
    information = plan.stages[-1].plan.information
    assert information is not None
    noise, design = information.noise, plan.design
    wanted, random = design.back_transform()[0], np.random.default_rng(SEED)
    drawn = (known_information(n * means.information + noise.sample(random), noise, design) for _ in range(NOISES))
    return np.asarray(np.mean([known.inside(wanted) for known in drawn], axis=0), dtype=np.float64)


def _spread(plan: Plan, bought: InformationPlan, matrix: Vector, total: float, mass: float) -> Spread:
    """The spread of the score with its noise."""
    family, design = plan.family, plan.design
    if bought.purchase.spread == "known":
        return ModelSpread()
    if bought.purchase.spread == "dispersion":
        return dispersion(bought, family, design, total, mass)
    wanted = design.back_transform()[0]
    known = known_information(matrix, bought.noise, design)
    inside, inverse = known.inside(wanted), known.inverse
    variances, deviations = np.full(len(wanted), np.nan), np.zeros(len(wanted))
    rows = wanted[inside]
    variances[inside] = total / mass * np.sum(rows @ inverse * rows, axis=1)
    if len(rows):
        deviations[inside] = variance_noise(bought, family, inverse, rows, plan.adjacency).deviations  # type: ignore[arg-type]
    return RobustSpread(variances, deviations)

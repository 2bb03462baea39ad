"""The cap of residuals that a fit is likely to buy, and the errors of the first fit that residuals are about."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpstats.data.passes import as_rows
from dpstats.formula.design import DesignSpec
from dpstats.formula.submodels import SEED
from dpstats.mechanisms.residuals import ERROR_OF_CAP
from dpstats.models.supposed_rows import RowMeans, Sample
from dpstats.plan import Plan
from dpstats.plan.methods import CENTRE_SHARE, INTERVAL_CAP, TAILS_SHARE
from dpstats.plan.plan import interval_cap
from dpstats.privacy.residuals import class_edges, residual_counts, residual_tails

Vector = NDArray[np.float64]

LIKELY_CAP = 3.5
"""The cap that is bought of residuals is taken for so many of their standard deviations."""

SKEWED_CAP = 20.0
"""A cap that no purchase narrows is taken for no more of them, however wide the declared range is: the fit buys an
interval of the response first, and skewed residuals keep a cap that follows it."""

PURCHASES = 20
"""Draws of the purchase: the widest of them stands for what 99 in 100 find no wider."""


def likely_cap(plan: Plan, means: RowMeans, *, narrowed: bool) -> float:
    """The cap of residuals in model units that a population's suggest, or that of skewed ones if it is not `narrowed`.

    As in `bought_residuals`; of a response that nobody describes the declared range stands in.
    """
    response, design = plan.response, plan.design
    assert isinstance(design, DesignSpec)
    part = 1.0 if response is None else (response.high - response.low) / (design.response.high - design.response.low)
    widest = INTERVAL_CAP if response is None else part * interval_cap(design, response)
    return min((LIKELY_CAP if narrowed else SKEWED_CAP) * residual_size(means), widest)


def residual_size(means: RowMeans) -> float:
    """The root mean square of a linear model's residuals, in model units."""
    left = np.append(-means.coef, 1.0)
    return math.sqrt(left @ means.moments @ left)


def rough_errors(first: Plan, means: RowMeans, n: float) -> tuple[Vector, Vector]:
    """Of a first fit's coefficients of `n` rows the bias (p,) and the noise's covariance (p, p), in declared units."""
    design, stage = first.design, first.stages[-1].plan
    assert isinstance(design, DesignSpec)
    own, declared = design.response_scaling(), design.without_working().response_scaling()
    coef = means.coef * (declared[1] / own[1])
    at = design.names.index("Intercept")
    coef[at] += design.scale[at] * (declared[0] - own[0]) / own[1]
    coef -= stage.shrunk_towards
    noise, products = stage.predicted_error(n * means.moments[:-1, :-1], coef)
    # Their products leave the side of all open: coefficients are pulled to what they shrink towards.
    most = int(np.argmax(np.diag(products)))
    bias = products[most] / math.sqrt(max(products[most, most], np.finfo(float).tiny))
    bias = -np.copysign(1.0, bias @ (stage.curvature * coef)) * bias
    return np.asarray(own[1] / declared[1] * bias), np.asarray((own[1] / declared[1]) ** 2 * noise)


def bought_caps(
    plan: Plan, centre_errors: Callable[[float], tuple[Vector, Vector]], sample: Sample, n: float
) -> Vector:
    """Caps that purchases for `n` rows find, in half widths of the declared response, in order, shape (PURCHASES,).

    As in `bought_residuals`: residuals of the sample about a first fit, whose errors are drawn too (`centre_errors`, by
    rows), are counted with noise. Skewed residuals, as those of wages, often keep the widest cap, where normal ones
    would find a narrow one.
    """
    design, response, purchase, request = plan.design, plan.response, plan.residuals, plan.request
    assert isinstance(design, DesignSpec)
    assert purchase is not None
    random, declared = np.random.default_rng(SEED), design.without_working().response_scaling()[1]
    # Of a response that nobody describes the declared range stands in.
    half = 1.0 if response is None else (response.high - response.low) / 2 / declared
    widest = INTERVAL_CAP if response is None else half * interval_cap(design, response)
    used = n / 2 if request.options.split is not None else n
    residuals = (sample.endog - sample.eta) * (design.response_scaling()[1] / declared)
    errors = random.multivariate_normal(*centre_errors(used), PURCHASES, method="eigh")
    edges = class_edges(1.0)
    eps = purchase.eps * TAILS_SHARE / (CENTRE_SHARE + TAILS_SHARE)
    sensitivity = 1 if request.adjacency == "add_remove" else 2
    expected, caps = response is None or not response.one_tail, []
    widens = plan.objective.statistics is not None
    for error in errors:
        sizes = as_rows([(residuals - sample.exog @ error) / (2 * half)])
        counts = random.poisson(residual_counts(sizes, edges) * (used / len(residuals)))
        noisy = counts + np.rint(random.laplace(0.0, sensitivity / eps, counts.shape)).astype(np.int64)
        tails = residual_tails(
            noisy,
            edges,
            deviation=math.sqrt(2) * sensitivity / eps,
            rows=used,
            unit_error=ERROR_OF_CAP * math.sqrt(sample.exog.shape[1]) / (max(used, 1.0) * request.row_eps),
        )
        caps.append(2 * half * tails.settled_cap(widest / (2 * half), expected=expected, widens=widens))
    return np.sort(caps)

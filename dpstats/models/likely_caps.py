"""The cap of residuals that a fit is likely to buy, of rows whose response is described."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpstats.data.passes import as_rows
from dpstats.formula.design import DesignSpec
from dpstats.formula.submodels import SEED
from dpstats.mechanisms.residuals import ERROR_OF_CAP
from dpstats.models.forecast import Forecast
from dpstats.models.supposed_rows import Sample
from dpstats.plan import Plan
from dpstats.plan.methods import CENTRE_SHARE, INTERVAL_CAP, TAILS_SHARE
from dpstats.plan.plan import interval_cap
from dpstats.privacy.residuals import class_edges, residual_counts, residual_tails

Vector = NDArray[np.float64]

PURCHASES = 20
"""Draws of the purchase: the widest of them stands for what 99 in 100 find no wider."""


def bought_caps(plan: Plan, forecast: Forecast, sample: Sample, n: float) -> Vector:
    """Caps that purchases for `n` rows find, in half widths of the declared response, in order, shape (PURCHASES,).

    As in `bought_residuals`: residuals of the sample about a first fit, whose errors are drawn too, are counted with
    noise. Skewed residuals, as those of wages, often keep the widest cap, where normal ones would find a narrow one.
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
    errors = random.multivariate_normal(*forecast.centre_errors(forecast.last, used), PURCHASES, method="eigh")
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

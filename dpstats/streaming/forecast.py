"""Standard errors to be expected of a stream, from public facts alone: no row is read and nothing spent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.formula.submodels import SEED
from dpstats.frames import ForecastFrame
from dpstats.models.forecast import HALF, noises, residual_in_model_units, response_assumption
from dpstats.models.population import KnownColumns
from dpstats.models.supposed_rows import DRAWS, RowMeans, row_means, sample_rows, supposed
from dpstats.quiet import quiet
from dpstats.streaming.fit import TickFitting

Float = NDArray[np.float64]

NO_NOISE = 1e-9
"""Part of the noise that hides nothing of what rows tell."""


EARLY_COUNTS = (
    "For counts, identified is not forecast (NaN). A stream of counts has no standard errors if its ticks were "
    "linearised too far from its coefficients, and two or three times those forecast if nearly so. Both are rarer with "
    "family=dp.families.Poisson(mean_cap=...) near the largest usual mean."
)


def forecast_errors(
    fitting: TickFitting, rows: float, deviation: float, residual_sd: float | None, typical: object, like: object
) -> pd.DataFrame:
    """Errors of the regression of so many rows, where numbers of their sums have noise of that standard deviation.

    Rows are supposed as for `Plan.standard_errors`, and linearised at their own coefficients.
    """
    design = fitting.design
    known = KnownColumns.from_arguments(design, typical, like)
    residual = residual_in_model_units(fitting, known, residual_sd)
    means, random = [], np.random.default_rng(SEED)
    with quiet():
        for prior in supposed(known.covers(design, response=residual is None)).values():
            sample = sample_rows(design, fitting.family, known, prior, residual, DRAWS)
            if fitting.vector.method == "linear":  # whose sums are of what the offset leaves of the response
                eta, endog = sample.eta - sample.offset, sample.endog - sample.offset
                sample = sample._replace(offset=np.zeros(len(eta)), eta=eta, endog=endog)
            means.append(row_means(fitting.family, sample, None))
        found = [_errors(fitting, one, rows, deviation, random) for one in means]
        sampling = fitting.inference(_sums(fitting, means[0], rows), NO_NOISE * deviation)[0].se
    usual, upper = found[0], found[-1]
    counts = fitting.family.response == "count"
    # Draws of the noise know nothing of how far ticks are linearised from the coefficients.
    chances = [np.full(len(sampling), np.nan) if counts else chance for _, chance in (usual, upper)]
    columns = {
        "std_error": usual[0],
        "lower": np.minimum.reduce([errors for errors, _ in found]),
        "upper": np.maximum(usual[0], upper[0]),
        "sampling": sampling,
        "identified": chances[0],
        "identified_upper": chances[1],
    }
    table = ForecastFrame(columns, index=pd.Index(list(design.names), name="term"))
    notes = [response_assumption(fitting, [one.response for one in means], means[0].deviation)]
    if counts:
        notes.append(EARLY_COUNTS)
    table.attrs["note"] = " ".join(filter(None, notes))
    return table


def _sums(fitting: TickFitting, means: RowMeans, rows: float) -> Float:
    """The sums of rows that are as their mean, shape (size,)."""
    matrix = means.moments
    if fitting.vector.method != "linear":
        cross = means.information @ means.coef
        matrix = np.block([[means.information, cross[:, None]], [cross[None], np.array([[means.square]])]])
    return fitting.released(rows * matrix)


def _errors(fitting: TickFitting, means: RowMeans, rows: float, deviation: float, random: Any) -> tuple[Float, Float]:
    """Errors in the middle of draws of noise, inf where most leave none, and the share that leave one, each (p,)."""
    sums = _sums(fitting, means, rows)
    drawn = np.array(
        [
            fitting.inference(sums + deviation * random.standard_normal(len(sums)), deviation)[0].se
            for _ in range(noises(len(fitting.design.names)))
        ]
    )
    drawn = np.where(np.isfinite(drawn), drawn, np.inf)
    chance = np.isfinite(drawn).mean(axis=0)
    return np.where(chance < HALF, np.inf, np.quantile(drawn, 0.5, axis=0, method="lower")), chance

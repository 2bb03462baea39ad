"""Rows and responses made up from public facts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.domain import Levels, Scalar
from dpstats.errors import ArgumentError
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import Column
from dpstats.formula.made_up import uneven_columns
from dpstats.plan import Plan
from dpstats.privacy.randomness import random_source
from dpstats.quiet import quiet

Vector = NDArray[np.float64]

EXPLAINED = 0.5
"""Of the spread of a continuous response that is made up, the share that the columns explain."""

SPREAD = 0.3
"""Its standard deviation in units of half of its range."""

MEAN_SHARE = 0.1
"""The mean of counts that are made up, as a share of the greatest count."""

ROWS_EACH = 3
"""Rows of a person who is made up."""


def made_up_rows(plan: Plan, n: int, seed: int) -> pd.DataFrame:
    """Rows drawn from the Domain, unevenly as data are, with a response by the family and coefficients drawn at random.

    Raises
    ------
    ArgumentError
        If `n` is no positive number of rows, or the response is not a column by itself.
    """
    design = plan.design
    n = checked_rows(n, 10**7)
    if not isinstance(design, DesignSpec) or not isinstance(design.encoder.node, Column) or design.encoder.failures:
        raise ArgumentError("simulate needs a formula whose response is one column, as in y ~ x, not log(y) ~ x")
    random_source(seed)  # refuses what is no seed
    random = np.random.default_rng(seed)
    table = uneven_columns(design.domain, int(n), random)
    with quiet():
        exog, complete, offset = design.predicting(table, offset=True)
        signal = made_up_signal(np.where(complete[:, None], np.nan_to_num(exog), 0.0), random)
        table[design.encoder.node.name] = _response(plan, design, signal, np.nan_to_num(offset), random)
    person = plan.request.options.record.column
    if person is not None:
        table[person] = np.arange(n) // ROWS_EACH
    return pd.DataFrame(table)


def made_up_signal(exog: Vector, random: np.random.Generator) -> Vector:
    """What coefficients drawn at random make of rows, of mean 0 and variance 1, shape (rows,)."""
    signal = exog @ random.standard_normal(exog.shape[1])
    return np.asarray((signal - signal.mean()) / (signal.std() or 1.0))


def linear_predictor(design: DesignSpec, signal: Vector, offset: Vector) -> Vector:
    """The linear predictor of a signal in model units, shape (rows,), as `made_up_rows` has it."""
    if design.response.kind == "binary":
        return signal
    if design.response.kind == "count":
        return np.log(MEAN_SHARE * design.response.high) + 0.5 * signal + offset - offset.mean()
    return np.asarray(SPREAD * np.sqrt(EXPLAINED) * signal)


def _response(
    plan: Plan,
    design: DesignSpec,
    signal: Vector,
    offset: Vector,
    random: np.random.Generator,
) -> list[Scalar] | Vector:
    """A response for a linear predictor of mean 0 and variance 1, in the units of the data."""
    if design.response.kind == "binary":
        second = random.uniform(size=len(signal)) < 1 / (1 + np.exp(-signal))
        declared = design.domain[design.response_name]
        levels = declared.values if isinstance(declared, Levels) else (0, 1)
        return [levels[int(one)] for one in second]
    if design.response.kind == "count":
        mean = np.exp(linear_predictor(design, signal, offset))
        return np.minimum(random.poisson(np.minimum(mean, design.response.high)), design.response.high)
    low, high = design.response.low, design.response.high
    residual = SPREAD * np.sqrt(1 - EXPLAINED) * random.standard_normal(len(signal))
    unit = linear_predictor(design, signal, offset) + residual
    return np.clip((low + high) / 2 + (high - low) / 2 * unit, low, high)


def checked_rows(n: object, most: int) -> int:
    """A number of rows; ArgumentError unless it is a whole one from 1 to `most`."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 1 <= n <= most:
        raise ArgumentError(f"n must be a whole number of rows from 1 to {most:,}, got {shown(n)}")
    return int(n)

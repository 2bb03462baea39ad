"""Rows and responses made up from public facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, special

from dpstats.arguments import shown
from dpstats.domain import Levels, Scalar
from dpstats.errors import ArgumentError
from dpstats.families import Family, NegativeBinomial
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import Column
from dpstats.models.supposed import USUAL, Habit, Known, answering
from dpstats.plan import Plan
from dpstats.privacy.randomness import random_source
from dpstats.quiet import quiet

Vector = NDArray[np.float64]

EXPLAINED = 0.5
"""Of the spread of a continuous response that is made up, the share that the columns explain."""

MOST_COUNTS = 1e15
"""Greater means of counts are not drawn."""

RAREST = 1e-4
"""A response whose second value is rarer, or whose mean count is less, is taken to be so."""

ROWS_EACH = 3
"""Rows of a person who is made up."""


class Level(NamedTuple):
    """Where a response lies: its mean in model units, of two values the share of the second; and its deviation."""

    mean: float
    deviation: float


def made_up_rows(plan: Plan, n: int, seed: int, typical: object = None, like: object = None) -> pd.DataFrame:
    """Rows that are made up; see `Plan.made_up`.

    Raises
    ------
    ArgumentError
        If `n` is no positive number of rows, or the response is not a column by itself and not in `like`.
    """
    design = plan.design
    n = checked_rows(n, 10**7)
    if not isinstance(design, DesignSpec):
        raise ArgumentError("simulate needs a formula")
    known = Known.checked(design, typical, like)
    response = design.encoder.node
    if not known.has_response(design) and (not isinstance(response, Column) or design.encoder.failures):
        raise ArgumentError(
            "simulate needs a formula whose response is one column, as in y ~ x, not log(y) ~ x, or like= rows that "
            "have it"
        )
    random_source(seed)  # refuses what is no seed
    random = np.random.default_rng(seed)
    table = known.rows(design, int(n), USUAL, random)
    if not known.has_response(design):
        assert isinstance(response, Column)
        with quiet():
            level = response_level(design, known, USUAL, table)
            exog, complete, offset = design.predicting(table, offset=True)
            signal = made_up_signal(np.where(complete[:, None], np.nan_to_num(exog), 0.0), random)
            table[response.name] = _response(plan.family, design, signal, np.nan_to_num(offset), level, random)
    person = plan.request.options.record.column
    if person is not None:
        table[person] = np.arange(n) // ROWS_EACH
    return pd.DataFrame(table)


def made_up_signal(exog: Vector, random: np.random.Generator) -> Vector:
    """What coefficients drawn at random make of rows, of mean 0 and variance 1, shape (rows,)."""
    signal = exog @ random.standard_normal(exog.shape[1])
    return np.asarray((signal - signal.mean()) / (signal.std() or 1.0))


def response_level(design: DesignSpec, known: Known, habit: Habit, table: Mapping[str, Any]) -> Level:
    """Where the response of rows lies: as `typical` says, or else as a habit has it.

    Parameters
    ----------
    table : dict
        Rows that have the columns of the response, whatever they are unless `typical` speaks of them.
    """
    if any(name in known.typical for name in answering(design)):
        values = design.endog(table)
        values = values[np.isfinite(values)]
        if not len(values):
            raise ArgumentError(f"typical: {design.response_name} has no value at what is typical of its columns")
        return Level(float(values.mean()), float(values.std()))
    if design.response.kind == "binary":
        return Level(habit.second, 0.0)
    if design.response.kind == "count":
        return Level(habit.count * design.response.high, 0.0)
    return Level(0.0, habit.deviation)


def linear_predictor(design: DesignSpec, signal: Vector, offset: Vector, level: Level) -> Vector:
    """The linear predictor of a signal in model units, shape (rows,), for a response about a level."""
    if design.response.kind == "binary":
        return signal + _shift(signal, min(max(level.mean, RAREST), 1 - RAREST))
    if design.response.kind == "count":
        eta = 0.5 * signal + offset
        return np.asarray(eta + np.log(max(level.mean, RAREST)) - np.log(np.mean(np.exp(eta))))
    return np.asarray(level.mean + np.sqrt(EXPLAINED) * level.deviation * signal)


def _shift(signal: Vector, share: float) -> float:
    """What to add for a mean probability of `share`."""

    def excess(shift: float) -> float:
        return float(np.mean(special.expit(signal + shift))) - share

    end = float(np.max(np.abs(signal))) + abs(special.logit(share))
    return float(optimize.brentq(excess, -end, end, xtol=1e-6))


def counts(family: Family, means: Vector, random: np.random.Generator) -> Vector:
    """Counts of some means that vary as the family has it, shape (rows,)."""
    if isinstance(family, NegativeBinomial):
        means = means * random.gamma(1 / family.alpha, family.alpha, len(means))
    return np.asarray(random.poisson(np.minimum(means, MOST_COUNTS)), dtype=np.float64)


def _response(
    family: Family, design: DesignSpec, signal: Vector, offset: Vector, level: Level, random: np.random.Generator
) -> list[Scalar] | Vector:
    """A response for a signal, in the units of the data."""
    eta = linear_predictor(design, signal, offset, level)
    if design.response.kind == "binary":
        second = random.uniform(size=len(signal)) < special.expit(eta)
        declared = design.domain[design.response_name]
        levels = declared.values if isinstance(declared, Levels) else (0, 1)
        return [levels[int(one)] for one in second]
    if design.response.kind == "count":
        high = design.response.high
        return np.minimum(counts(family, np.minimum(np.exp(eta), high), random), high)
    low, high = design.response.low, design.response.high
    unit = eta + np.sqrt(1 - EXPLAINED) * level.deviation * random.standard_normal(len(signal))
    return np.clip((low + high) / 2 + (high - low) / 2 * unit, low, high)


def checked_rows(n: object, most: int) -> int:
    """A number of rows; ArgumentError unless it is a whole one from 1 to `most`."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 1 <= n <= most:
        raise ArgumentError(f"n must be a whole number of rows from 1 to {most:,}, got {shown(n)}")
    return int(n)

"""What rows add that nobody has read, in the mean: simulated from the Domain, from public facts or public rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.data import Block, as_table
from dpstats.data.passes import concatenate
from dpstats.errors import ArgumentError
from dpstats.families import Family, Quantile
from dpstats.formula.design import DesignSpec
from dpstats.formula.submodels import SEED
from dpstats.mechanisms.stage import StagePlan
from dpstats.models.population import (
    EXPLAINED,
    INDEPENDENT,
    KNOWN,
    POOR,
    RICH,
    STRENGTH,
    USUAL,
    ColumnPrior,
    KnownColumns,
    Level,
    RecordPieces,
    counts,
    decoded,
    linear_predictor,
    population_signal,
    response_level,
)
from dpstats.models.release import person_rows
from dpstats.models.residual_law import ResidualLaw
from dpstats.plan import Plan
from dpstats.privacy.guarantee import Unit
from dpstats.privacy.information import relative_exposure, row_weights
from dpstats.privacy.randomness import random_source
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import PerturbedObjective

Vector = NDArray[np.float64]

ROWS, DRAWS = 4096, 8
"""The means are over so many rows and so many draws of coefficients."""

PUBLIC_ROWS = 16_384
"""So many public rows at most stand for all."""

STEP = 1e-3
"""Of linear predictors, for the slope of weights."""

PUBLIC_RIDGE, PUBLIC_GRADIENT = 1e-6, 1e-7
"""Of the fit to public rows: what a row adds to the quadratic term, and to the gradient left."""


class RowMeans(NamedTuple):
    """What a row adds in the mean: l'' x x', shape (p, p); l'' and l'^2; and (x, y)(x, y)', shape (p + 1, p + 1).

    `coef`, shape (p,), are the coefficients in model units of one draw. `response` is the share of events, the mean of
    counts, or the standard deviation of a number, in its units, of which nothing is known; NaN of other responses, and
    of pieces of records. `deviation` is the standard deviation of counts that are described; 0 or NaN of others.
    """

    coef: Vector
    information: Vector
    weight: float
    square: float
    moments: Vector
    response: float = math.nan
    deviation: float = math.nan

    def person(self, record: Unit) -> RowMeans:
        """What a person adds whose rows are all alike: as many as count, or of one weight together."""
        k = record.rows
        return self._replace(information=k * self.information, weight=k * self.weight, square=k**2 * self.square)


def supposed(
    design: DesignSpec, known: KnownColumns, without: Sequence[str] = (), *, response: bool
) -> dict[str, ColumnPrior]:
    """The kinds of rows that are supposed, by name; arguments as for `KnownColumns.covers`.

    Where everything is known it is "known", with "independent" if several columns that predict are drawn, and both
    with "strong" columns if the response is of two values or a class, and `like` does not have it.
    """
    if not known.covers(design, without, response=response):
        return {"usual": USUAL, "rich": RICH, "poor": POOR}
    drawn = [name for name in design.parsed.predicting_columns if not known.in_like((name,))]
    kinds = {"known": KNOWN} | ({"independent": INDEPENDENT} if len(drawn) > 1 else {})
    if design.response.kind not in ("binary", "class") or known.has_response(design):
        return kinds
    return kinds | {f"strong {name}": replace(prior, strength=STRENGTH) for name, prior in kinds.items()}


class Sample(NamedTuple):
    """Rows in model units with a response, of which the first `size` are of one draw of coefficients."""

    exog: Vector  # (rows, p)
    offset: Vector
    eta: Vector  # linear predictors
    endog: Vector
    size: int
    offset_high: float
    coef: Vector | None = None  # those of the linear predictor, where they are known
    # As of `RowMeans`.
    response: float = math.nan
    deviation: float = math.nan
    # Of n rows drawn like these the variance of the logarithm of a standard error is this over n, shape (p,).
    log_variances: Vector | float = 0.0

    def of_one_draw(self) -> Sample:
        """The rows of one draw of coefficients."""
        rows = slice(self.size)
        return self._replace(exog=self.exog[rows], offset=self.offset[rows], eta=self.eta[rows], endog=self.endog[rows])

    def weights(self, family: Family, cap: float | None) -> Vector:
        """Of the rows in the information, under a cap if there is one."""
        exposure = relative_exposure(self.offset, self.offset_high)
        return np.asarray(row_weights(family, self.eta, self.endog, cap, exposure))


def sample_rows(
    design: DesignSpec, family: Family, known: KnownColumns, prior: ColumnPrior, residual: float | None, draws: int
) -> Sample:
    """Rows that are as the analyst says, and else as a prior has it."""
    random = np.random.default_rng(SEED)
    endog = np.zeros(ROWS)
    if known.like is None:
        encoded = known.drawn(design, ROWS, prior, random)
        exog, complete, offset = design.of_encoded(encoded, ROWS)
    else:
        table = known.rows(design, min(len(known.like), PUBLIC_ROWS), prior, random)
        exog, complete, offset = design.predicting(table, offset=True)
        endog = design.endog(table) if known.has_response(design) else np.zeros(len(exog))
        complete = complete & design.keeps(table) & np.isfinite(endog)
    if not complete.any():
        raise ArgumentError(
            "like: the formula has no finite value at any row; check its numbers and levels against the domain"
            if known.like is not None
            else "plan: the formula has no finite value at any row drawn from the domain"
        )
    exog, offset, endog = exog[complete], offset[complete], endog[complete]
    if known.has_response(design):
        coef = _fitted(family, Block(np.ascontiguousarray(exog), family.clip_response(endog), None, offset))
        endog = np.asarray(family.clip_response(endog), dtype=np.float64)
        mean = math.nan if family.response == "continuous" else float(endog.mean())
        eta, high = exog @ coef + offset, design.offset_high
        return Sample(exog, offset, eta, endog, len(exog), high, coef, mean, float(endog.std()))
    level = response_level(design, known, prior, lambda: decoded(encoded) if known.like is None else table)
    size = len(exog)
    exog, offset = np.tile(exog, (draws, 1)), np.tile(offset, draws)
    signal = prior.strength * np.concatenate([population_signal(part, random) for part in np.split(exog, draws)])
    if family.response != "continuous":
        eta = linear_predictor(design, signal, offset, level)
        endog, high = _endog(family, eta, level.deviation, ResidualLaw(), random), design.offset_high
        return Sample(exog, offset, eta, endog, size, high, None, level.mean, level.deviation)
    described, supposed_deviation = known.has(design.parsed.response_columns), math.nan
    law = _residual_law(design, known, level) if described else ResidualLaw()
    if residual is None:
        residual = math.sqrt(1 - EXPLAINED) * level.deviation
        supposed_deviation = math.nan if described else design.response_scaling()[1] * level.deviation
    elif described:  # columns explain what the residuals leave
        level = level._replace(deviation=math.sqrt(max(level.deviation**2 - residual**2, 0.0) / EXPLAINED))
    else:
        level = level._replace(deviation=residual / math.sqrt(1 - EXPLAINED))
    eta = linear_predictor(design, signal, offset, level)
    endog, high = _endog(family, eta, residual, law, random), design.offset_high
    return Sample(exog, offset, eta, endog, size, high, response=supposed_deviation)


def weight_cap(plan: Plan) -> float | None:
    """The cap on the rows' weights in the information that a plan releases."""
    information = plan.stages[-1].plan.information
    return None if information is None else information.purchase.weight_cap


def mean_information(family: Family, sample: Sample, cap: float | None) -> Vector:
    """The mean of l'' x x' over rows whose weights have that cap, shape (p, p)."""
    weights = sample.weights(family, cap)
    return np.asarray((sample.exog * weights[:, None]).T @ sample.exog / len(sample.exog))


def differing_information(family: Family, sample: Sample, cap: float | None) -> Vector:
    """As `mean_information`, by which squared errors are their mean over draws of coefficients, shape (p, p).

    Levels of a factor that differ in the response differ in what their rows say: that is lost in a mean of information.
    """
    draws = len(sample.exog) // sample.size
    parts = zip(np.split(sample.exog, draws), np.split(sample.weights(family, cap), draws), strict=True)
    inverses = [np.linalg.pinv(exog.T @ (exog * weights[:, None]) / sample.size) for exog, weights in parts]
    return np.asarray(np.linalg.pinv(np.mean(inverses, axis=0)))


def log_variances(plan: Plan, sample: Sample, cap: float | None) -> Vector:
    """What standard errors vary by with the rows that there are; see `Sample`.

    An error's square is the inverse information, a sum over rows, times the mean square of residuals where it is free.
    """
    inverse = np.linalg.pinv(mean_information(plan.family, sample, cap))
    directions = plan.design.back_transform()[0] @ inverse
    spread = _relative_variance(sample.weights(plan.family, cap)[:, None] * (sample.exog @ directions.T) ** 2)
    if plan.family.response != "binary":
        squares = np.square(plan.family.slope(sample.eta, sample.endog))[:, None]
        spread = spread + _relative_variance(np.asarray(squares, dtype=np.float64))
    else:  # Coefficients vary with the events that there are, and move the weights of all rows.
        squares = (sample.exog @ directions.T) ** 2
        above, below = (
            sample._replace(eta=sample.eta + step).weights(plan.family, cap)[:, None] * squares
            for step in (STEP, -STEP)
        )
        slopes = sample.exog.T @ (above - below) / (STEP * (above + below).sum(axis=0))
        spread = spread + np.einsum("ij,ik,kj->j", slopes, inverse, slopes)
    return np.asarray(spread / 4, dtype=np.float64)


def _relative_variance(values: Vector) -> Vector:
    """The variance of each column over the square of its mean, 0 where this is; shape (columns,)."""
    means = np.asarray(values.mean(axis=0), dtype=np.float64)
    variances = np.asarray(values.var(axis=0), dtype=np.float64)
    return np.divide(variances, means**2, out=np.zeros(len(means)), where=means > 0)


def row_means(family: Family, sample: Sample, cap: float | None) -> RowMeans:
    """What a row of the sample adds in the mean."""
    exog, offset, eta, endog, size, _, coef, response, deviation, _ = sample
    if coef is None:
        coef = np.asarray(np.linalg.lstsq(exog[:size], (eta - offset)[:size], rcond=None)[0], dtype=np.float64)
    # Of one draw: over all of them the response would go with no column.
    both = np.column_stack((exog[:size], endog[:size]))
    return RowMeans(
        coef,
        mean_information(family, sample, cap),
        float(np.mean(sample.weights(family, cap))),
        float(np.mean(family.slope(eta, endog) ** 2)),
        both.T @ both / len(both),
        response,
        deviation,
    )


def shrunk_means(
    family: Family,
    sample: Sample,
    cap: float | None,
    means: RowMeans,
    stage: StagePlan,
    n: float,
    noise: Vector | None = None,
) -> RowMeans:
    """What a row of counts adds at the coefficients of `n` rows that are shrunk as in a stage of a plan, with a noise.

    Weights of counts follow their means, of which shrinkage may leave little: all of them change by the factor by which
    those of the sample do, which has one draw of coefficients.
    """
    ridge = stage.curvature * (len(sample.exog) / n)
    rows = Block(np.ascontiguousarray(sample.exog), family.mean(sample.eta), None, sample.offset)
    linear = -ridge * stage.shrunk_towards + (0.0 if noise is None else noise * (len(sample.exog) / n))
    objective = PerturbedObjective(family, [rows], ridge, linear, 1.0)
    coef = np.asarray(minimize(objective, PUBLIC_GRADIENT * len(sample.exog)), dtype=np.float64)
    shrunk = sample._replace(eta=sample.exog @ coef + sample.offset)
    weights = [float(np.mean(one.weights(family, cap))) for one in (sample, shrunk)]
    squares = [float(np.mean(family.slope(one.eta, one.endog) ** 2)) for one in (sample, shrunk)]
    weight, square = weights[1] / weights[0], squares[1] / squares[0]
    return means._replace(
        coef=coef, information=weight * means.information, weight=weight * means.weight, square=square * means.square
    )


@lru_cache(maxsize=12)
def declared_means(pieces: RecordPieces, family: Family, cap: float | None, prior: ColumnPrior) -> RowMeans:
    """`record_means` by the Domain alone: the same for all numbers of rows and budgets that are asked about."""
    return record_means(pieces, family, cap, KnownColumns.from_arguments(pieces.records, None, None), prior)


def record_means(
    pieces: RecordPieces, family: Family, cap: float | None, known: KnownColumns, prior: ColumnPrior
) -> RowMeans:
    """What a record that is divided into pieces adds in the mean, at coefficients that fit the records best."""
    draws = [made_up_means(one, family, cap) for one in made_up_records(pieces, known, prior)]
    means = (np.mean(np.array([one[at] for one in draws], dtype=np.float64), axis=0) for at in range(1, len(draws[0])))
    return RowMeans(draws[0].coef, *means)


def panel_means(plan: Plan, known: KnownColumns) -> RowMeans:
    """What a person of public rows adds in the mean, at the coefficients that fit them best."""
    assert isinstance(plan.design, DesignSpec)
    rows = person_rows(plan.design, as_table(known.like), plan.request.options.record, random_source(SEED))
    block = concatenate(rows.collect())
    if block.person is None or not len(block.exog):
        raise ArgumentError("like: no row is complete; check its numbers and levels against the domain")
    persons, place = np.unique(block.person, return_inverse=True)
    block = block._replace(endog=plan.family.clip_response(block.endog), person=place)
    return made_up_means(Records(block, len(persons)), plan.family, weight_cap(plan), plan.design.offset_high)


class Records(NamedTuple):
    """Pieces of some records, or rows of some persons."""

    block: Block
    number: int


def made_up_records(pieces: RecordPieces, known: KnownColumns, prior: ColumnPrior) -> Iterator[Records]:
    """Pieces of records that are made up, a draw of coefficients each; of those of `like` with their response."""
    random = np.random.default_rng(SEED)
    whole = known.in_like(pieces.responses)
    size = min(len(known.like), PUBLIC_ROWS) if known.like is not None and whole else ROWS
    for _ in range(1 if whole else DRAWS):
        record_pieces, table = pieces.made_up(known, size, prior, random)
        records = as_table(pd.DataFrame(table))
        block, count = concatenate(record_pieces.rows(records).collect()), record_pieces.used(records)
        if not count:
            raise ArgumentError("like: no row is complete; check its numbers and levels against the domain")
        yield Records(block, count)


def made_up_means(records: Records, family: Family, cap: float | None, offset_high: float = 0.0) -> RowMeans:
    """What one of the records adds in the mean."""
    block, count = records
    exog, offset = block.exog, 0.0 if block.offset is None else block.offset
    share = np.ones(len(exog)) if block.weights is None else block.weights
    coef = _fitted(family, block)
    eta = exog @ coef + offset
    weights = share * row_weights(family, eta, block.endog, cap, relative_exposure(offset, offset_high))
    information = (exog * weights[:, None]).T @ exog / count
    weight = square = float(weights.sum()) / count
    moments = np.zeros((0, 0))
    if block.person is not None:
        rows = np.column_stack([exog, block.endog])
        moments = (rows * share[:, None]).T @ rows / share.sum()
        scores = np.zeros((count, exog.shape[1]))
        np.add.at(scores, block.person, exog * (share * family.slope(eta, block.endog))[:, None])
        # So many times the information is the score's covariance, in the mean over directions.
        square *= float(np.sum(np.linalg.pinv(information) * (scores.T @ scores))) / count / exog.shape[1]
    return RowMeans(coef, information, weight, square, moments)


def _fitted(family: Family, rows: Block) -> Vector:
    """The coefficients in model units that fit public rows best, shape (p,)."""
    count, size = rows.exog.shape
    ridge = np.full(size, PUBLIC_RIDGE * count)
    minimiser = minimize(PerturbedObjective(family, [rows], ridge, np.zeros(size), 1.0), PUBLIC_GRADIENT * count)
    return np.asarray(minimiser, dtype=np.float64)


def _residual_law(design: DesignSpec, known: KnownColumns, level: Level) -> ResidualLaw:
    """Of a response that is described, or whose columns are: then `level` has it in model units."""
    typical, response = known.typical.get(design.response_name), design.response
    if not isinstance(typical, tuple):
        centre, unit = design.response_scaling()
        typical = centre + unit * level.mean, unit * level.deviation
    return ResidualLaw.of_response(response.low, response.high, *typical)


def _endog(family: Family, eta: Vector, deviation: float, law: ResidualLaw, random: np.random.Generator) -> Vector:
    """Responses in model units for linear predictors, with the deviation of residuals, or of counts if it is known."""
    if family.response == "binary":
        return (random.uniform(size=len(eta)) < 1 / (1 + np.exp(-eta))).astype(np.float64)
    if family.response == "count":
        return np.asarray(family.clip_response(counts(family, np.exp(eta), random, deviation)))
    # So many of the residuals lie below a quantile as it says.
    below = law.quantile(family.q) if isinstance(family, Quantile) else 0.0
    return np.asarray(eta + deviation * (law.drawn(len(eta), random) - below), dtype=np.float64)

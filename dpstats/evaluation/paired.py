"""The mean difference of two models' losses on the same private rows: one histogram a loss (docs/proofs/evaluation)."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.data import Table, slices
from dpstats.data.persons import person_count
from dpstats.errors import ArgumentError
from dpstats.evaluation.binary import BinaryModel
from dpstats.evaluation.histograms import (
    DOUBT,
    MARGIN,
    TAIL,
    UNKNOWN,
    Array,
    CellwiseLinear,
    Estimate,
    Grid,
    Histogram,
    ReleasedHistogram,
    mean,
)
from dpstats.evaluation.levels import LevelModel
from dpstats.evaluation.numeric import ClippedMean, NumericModel, doubt_text, signed_reach, tail_share
from dpstats.evaluation.result import FEW_ROWS_NOTE, METRICS_CLIP, Evaluation, Tables
from dpstats.evaluation.row_sums import Model, columns_read, owned_counting
from dpstats.families import Quantile
from dpstats.families.base import pad_rows
from dpstats.formula.design import DesignSpec
from dpstats.formula.reader import BLOCK_ROWS
from dpstats.models.ordinal import at_first_cut
from dpstats.models.release import counted_values
from dpstats.privacy.guarantee import Unit
from dpstats.privacy.information import linear_predictor
from dpstats.privacy.randomness import RandomSource
from dpstats.results.glm_results import GLMResults
from dpstats.wording import joined

OCTAVES, PLACE = 15, 0.5
"""Of the grid of differences on either side, and the weight of places within its cells."""

PRINTED_LOSSES = {
    **{name: name for name in ("mse", "mae", "pinball", "brier")},
    **{"deviance": "mean deviance", "log_score": "log score", "accuracy": "error rate"},
    "rps": "ranked probability score",
}
"""What tables call the losses that are compared, by their names in `metrics=`; evaluations call the same figures so."""

NO_DIFFERENCE = {
    "r2": "R2 is no mean over rows, and 'mse' compares the same models",
    "rmse": "a root is no mean over rows, and 'mse' compares the same models",
    "roc": "the area under the ROC curve is no mean over rows; use 'log_score', or evaluate each model alone",
    **dict.fromkeys(("calibration", "residuals"), "that table is of one model; evaluate each model alone"),
}
"""Metrics of one model that are not compared, and what to do."""


class ComparedModel(NamedTuple):
    """A released model as rows are judged by it."""

    design: DesignSpec
    params: Array
    model: Model

    @classmethod
    def of(cls, fit: GLMResults, model: Model) -> ComparedModel:
        """A model whose response `check_same_response` took."""
        design = fit.predicting_design
        assert isinstance(design, DesignSpec)
        return cls(design, fit.scaled_params, model)

    def read(self, table: Table) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Linear predictors, responses in the user's units, and which rows the model can use; shapes (rows,)."""
        design = self.design
        table = at_first_cut(design, table) if design.cut_points else table
        exog, known, offset = design.predicting(table, offset=True)
        response = design.response_values(table)
        return (
            linear_predictor(exog, self.params, offset),
            response,
            known & design.keeps(table) & np.isfinite(response),
        )

    def losses(self, name: str, linear: Array, response: Array) -> Array:
        """One loss of rows that `pad_rows` made whole vectors, by responses in the user's units."""
        model = self.model
        if isinstance(model, BinaryModel):
            if name == "accuracy":
                return np.not_equal(linear > 0, response > 0.5).astype(np.float64)
            linear = np.clip(linear, -MARGIN, MARGIN)
            if name == "brier":
                return np.asarray((special.expit(linear) - response) ** 2)
            return np.asarray(-special.log_expit(np.where(response > 0.5, linear, -linear)))
        if isinstance(model, LevelModel):
            if name == "rps":
                beyond = response > np.arange(len(model.points))[:, None]
                return np.asarray(np.mean((model.above(linear) - beyond) ** 2, axis=0))
            chances, level = model.chances(linear), response.astype(np.intp)
            if name == "accuracy":
                return np.not_equal(chances.argmax(axis=0), level).astype(np.float64)
            return -np.log(chances[level, np.arange(len(level))])
        fitted = model.predicted(linear)
        if name == "deviance":
            return model.deviances(response, fitted)
        return (response - fitted) ** 2 if name == "mse" else model.residual_sizes(response - fitted)

    def most(self, name: str) -> float:
        """A public bound on the size of the difference of two such losses."""
        if not isinstance(self.model, NumericModel):
            return math.log1p(math.exp(MARGIN)) if name == "log_score" else 1.0
        width = self.model.width
        return {"mse": width * width, "deviance": self.model.most_deviance()}.get(name, width)


def _losses(model: Model) -> tuple[str, ...]:
    """The losses by which a model may be compared; the first is its family's own."""
    if isinstance(model, LevelModel):
        return ("log_score", "rps", "accuracy")
    if isinstance(model, BinaryModel):
        return ("log_score", "brier", "accuracy") if model.probabilities else ("accuracy",)
    if isinstance(model.family, Quantile):
        return ("pinball",)
    return ("deviance", "mse", "mae") if model.family.name == "poisson" else ("mse", "mae")


@dataclass(frozen=True, eq=False)
class ModelPair:
    """Two models of one response, and the losses by which they are compared."""

    first: ComparedModel
    second: ComparedModel
    losses: Sequence[str]

    def blocks(self) -> tuple[Histogram, ...]:
        """One histogram of the difference a loss: signed octaves, or of decisions -1, 0 and 1."""
        return tuple(self._histogram(name) for name in self.losses)

    def _histogram(self, name: str) -> Histogram:
        if name == "accuracy":
            return Histogram(Grid(np.array([-1.5, -0.5, 0.5, 1.5]), whole=True))
        sizes = self.first.most(name) * 2.0 ** -np.arange(float(OCTAVES))
        return Histogram(Grid(np.concatenate([-sizes, sizes[::-1]])), place=PLACE)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that are read."""
        return tuple(dict.fromkeys((*columns_read(self.first.design), *columns_read(self.second.design))))

    def counting_rows(self, table: Table) -> NDArray[np.bool_]:
        """Which rows both formulas select, complete or not, shape (rows,)."""
        return self.first.design.counting_rows(table) & self.second.design.counting_rows(table)

    def differences(self, table: Table) -> Array:
        """Losses under the first model less those under the second, shape (rows, losses).

        They are NaN in rows that do not count or that either model cannot use. No row's depend on another's, to the
        last bit.
        """
        differences = np.full((table.rows, len(self.losses)), np.nan)
        for rows in slices(table.rows, BLOCK_ROWS):
            some = table.select(rows, rows.stop - rows.start)
            (one, response, usable), (other, _, known) = self.first.read(some), self.second.read(some)
            both = np.flatnonzero(usable & known & self.counting_rows(some))
            one, other, response = (pad_rows(numbers[both]) for numbers in (one, other, response))
            for at, name in enumerate(self.losses):
                difference = self.first.losses(name, one, response) - self.second.losses(name, other, response)
                differences[rows.start + both, at] = difference[: len(both)]
        return differences

    def tables(self, measured: Sequence[ReleasedHistogram]) -> Tables:
        """The mean difference of every loss."""
        tables = Tables.of(measured[0])
        enough = all(block.enough(block.counts) for block in measured)
        for name, block in zip(self.losses, measured, strict=True):
            most = self.first.most(name)
            figure = self._mean(name, block, tables.notes) if enough else UNKNOWN
            tables.metrics[PRINTED_LOSSES[name]] = (figure, -most, most)
        tables.notes += [] if enough else [FEW_ROWS_NOTE]
        return tables

    def _mean(self, name: str, block: ReleasedHistogram, notes: list[str]) -> Estimate:
        """The mean of differences, held where they no longer stand out from the noise."""
        (end, beyond), (far, _) = signed_reach(block, TAIL), signed_reach(block, DOUBT)
        if block.grid.whole:
            end = far = 1.0
        value, influence, off = mean(block, _held(block, end))
        if end < block.grid.ends[-1] and not block.grid.whole:
            doubt = doubt_text(f"{far:.4g}") if end < far else ""
            what = f"differences of the {PRINTED_LOSSES[name]}"
            notes.append(f"{METRICS_CLIP} {what} to a size of {end:.4g}: {beyond} rows.{doubt}")
        further = mean(block, _held(block, far))[0]
        outer = block.counts[0, np.abs(block.grid.middle) > far]
        unseen = tail_share(outer, block) * far / 2 if outer.size else 0.0  # half an octave further, on average
        return ClippedMean(value, influence, off, further - value, unseen).estimate()


def _held(block: ReleasedHistogram, most: float) -> CellwiseLinear:
    """Numbers held within a size, by lines in cells."""
    return CellwiseLinear(*(part[None] for part in block.grid.line(lambda value: np.clip(value, -most, most))))


@dataclass(frozen=True, eq=False)
class PairSums:
    """As `RowSums`: a row that both models can use adds to a cell of each histogram, any other is left out."""

    model: ModelPair
    blocks: tuple[Histogram, ...]
    left_out: int

    def of_differences(self, parts: Iterable[Array]) -> NDArray[np.int64]:
        """The sums over rows with finite differences, shape (rows, losses), for which none is left out yet."""
        total = [np.zeros(block.size, dtype=np.int64) for block in self.blocks]
        complete = 0
        for differences in parts:
            rows = differences[np.isfinite(differences).all(axis=1)]
            complete += len(rows)
            for sums, block, values in zip(total, self.blocks, rows.T, strict=True):
                sums += block.count(np.zeros(len(values), dtype=np.intp), values)
        return np.append(np.concatenate(total), -self.left_out * complete)

    def of_table(self, table: Table, record: Unit, random: RandomSource) -> NDArray[np.int64]:
        """The sums over the rows of a table, or over one row of each person. Reads rows: charge first."""
        if record.column is None:
            return table.batches(self.model.columns).total(self._of_tables, operator.add)
        columns = self.model.columns
        total = counted_values(table, self.model.differences, columns, record, random).total(
            self.of_differences, operator.add
        )
        owned = table.batches((*columns, record.column)).map(
            partial(owned_counting, self.model.counting_rows, record.column)
        )
        total[-1] += self.left_out * person_count(owned)
        return total

    def _of_tables(self, tables: Iterable[Table]) -> NDArray[np.int64]:
        total = self.of_differences([])
        for table in tables:
            total += self.of_differences([self.model.differences(table)])
            total[-1] += self.left_out * int(np.count_nonzero(self.model.counting_rows(table)))
        return total


def check_same_response(fit: GLMResults, against: GLMResults) -> None:
    """Raise ArgumentError, by public facts alone, unless both models explain one response of single rows."""
    designs = []
    for design in (fit.predicting_design, against.predicting_design):
        if not isinstance(design, DesignSpec):
            raise ArgumentError("against: models of plain arrays are not compared; fit both by formula")
        if design.score_ratio != 1:
            raise ArgumentError(
                "against: models with weights or numbers of trials are not compared; evaluate each model alone"
            )
        designs.append(design.response)
    first, second = designs
    if first.name != second.name:
        raise ArgumentError(
            f"against: its response is {second.name!r} and that of fit {first.name!r}; pass two models of one response"
        )
    facts = [(one.low, one.high, one.levels) for one in designs]
    if facts[0] != facts[1]:
        known = [f"levels {list(one.levels)}" if one.levels else f"({one.low:g}, {one.high:g})" for one in designs]
        raise ArgumentError(
            f"against: {first.name!r} is declared as {known[1]} there and as {known[0]} in fit; use one Domain"
        )


def shared_losses(first: Model, second: Model) -> tuple[str, ...]:
    """The losses by which two models may be compared, that of the first's family first. ArgumentError if none."""
    families = [model.family for model in (first, second) if not isinstance(model, LevelModel)]
    quantiles = [family.q for family in families if isinstance(family, Quantile)]
    if len(set(quantiles)) > 1:
        raise ArgumentError(
            f"against: it is of the quantile {quantiles[1]:g} and fit of {quantiles[0]:g}; pass two models of one "
            "quantile"
        )
    other = _losses(second)
    if not (shared := tuple(name for name in _losses(first) if name in other)):
        names = joined([repr(family.name) for family in families])  # levels are a response of their own
        raise ArgumentError(f"against: no loss is offered to compare the families {names}; evaluate each model alone")
    return shared


def verdict_note(evaluation: Evaluation) -> str:
    """Which model has the smaller losses, as far as intervals tell."""
    smaller: dict[str, list[str]] = {"first": [], "second": [], "neither": []}
    for name, row in evaluation.metrics.iterrows():
        if not math.isnan(row["estimate"]):
            smaller["first" if row["high"] < 0 else "second" if row["low"] > 0 else "neither"].append(str(name))
    verdicts = [
        f"the {which} has the smaller {joined(smaller[which])}" for which in ("first", "second") if smaller[which]
    ]
    if smaller["neither"]:
        verdicts.append(f"neither is clearly better in {joined(smaller['neither'])}, as 0 is in the interval")
    return f"Losses of the first model less those of the second: {'; '.join(verdicts) or 'unknown'}."

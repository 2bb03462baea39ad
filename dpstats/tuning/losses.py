"""Losses of rows under candidates: released models, or rules that a formula could hold."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import MOST_SHOWN, is_number, safe_repr
from dpstats.data import Block, MemoryRows, Rows, Table, slices
from dpstats.data.persons import OwnedRows, shared_weights
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DomainError, FormulaError
from dpstats.formula import reader
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import Node, as_numbers, bind, columns_of, evaluate
from dpstats.formula.public_frame import public_frame
from dpstats.formula.translate import compile_factor
from dpstats.privacy.information import linear_predictor
from dpstats.privacy.selection import STEPS
from dpstats.quiet import quiet
from dpstats.results.glm_results import GLMResults

Array = NDArray[np.float64]

BLOCK_ROWS = 65536  # Rows per evaluation of the losses
CLOSE = 1e-9  # Losses may exceed their bounds by this much through rounding
# Losses of a row under a released model; errors are divided by the width of the response's range
MODEL_LOSSES = ("mistakes", "absolute_error", "squared_error")


def total_losses(losses: Losses, table: Table, low: float, person: str | None = None) -> NDArray[np.int64]:
    """Sums over complete rows in steps, shape (k,), a row's part kept within [low, 1]. Reads rows: charge first.

    A row that is incomplete for one candidate counts for none: the others would pay for being able to judge it. With a
    column `person` a person's rows share what one row may add, in equal parts.
    """
    with quiet():
        if person is None:
            return table.batches(losses.columns).total(partial(_steps, losses, low), operator.add)
        names = list(dict.fromkeys([*losses.columns, person]))
        owned = table.batches(names).map_shards(partial(_losses_by_person, losses, person))
        owned = owned.persist() if isinstance(owned, MemoryRows) else owned
        return shared_weights(owned).total(partial(_shared_steps, low), operator.add)


def _parts(tables: Iterable[Table]) -> Iterator[Table]:
    """The rows of some tables, at most `BLOCK_ROWS` at a time."""
    return (table.select(rows, rows.stop - rows.start) for table in tables for rows in slices(table.rows, BLOCK_ROWS))


def _losses_by_person(losses: Losses, person: str, _: int, tables: Iterable[Table]) -> Iterator[OwnedRows[Block]]:
    """The losses of complete rows, in the place of columns, with their owners."""
    for part in _parts(tables):
        each = losses.each(part)
        complete = np.isfinite(each).all(axis=1)
        identities = part.column(person).identities()[complete]
        yield OwnedRows(Block(each[complete], np.zeros(len(identities))), identities)


def _shared_steps(low: float, blocks: Iterable[Block]) -> NDArray[np.int64]:
    total = np.zeros(1, dtype=np.int64)
    for block in blocks:
        assert block.weights is not None
        total = total + shared_steps(block.exog, block.weights, low)
    return total


def _steps(losses: Losses, low: float, tables: Iterable[Table]) -> NDArray[np.int64]:
    total = np.zeros(1, dtype=np.int64)
    for part in _parts(tables):
        total = total + steps(losses.each(part), low)
    return total


def steps(each: Array, low: float) -> NDArray[np.int64]:
    """Sums of the losses of complete rows, shape (rows, k), in whole steps, shape (k,)."""
    each = each[np.isfinite(each).all(axis=1)]
    return np.asarray(np.rint(np.clip(each, low, 1) * STEPS).astype(np.int64).sum(axis=0))


def shared_steps(each: Array, weights: Array, low: float) -> NDArray[np.int64]:
    """As `steps`, each row by its weight; rows whose weights sum to at most 1 add whole steps of one row at most.

    Truncated towards zero: rounded, many small parts of one person could add up to more.
    """
    complete = np.isfinite(each).all(axis=1)
    parts = np.clip(each[complete], low, 1) * weights[complete, None] * STEPS
    return np.asarray(np.trunc(parts).astype(np.int64).sum(axis=0))


@dataclass(frozen=True, eq=False)
class ModelLosses:
    """Losses of released models of one response: `each` has shape (rows, k), NaN where a row is incomplete.

    `check` raises DataError or DomainError by a table's names and declared types alone.
    """

    fits: tuple[GLMResults, ...]
    loss: str  # one of `MODEL_LOSSES`

    def __post_init__(self) -> None:
        responses = [_design(fit).response for fit in self.fits]
        facts = {(spec.name, spec.kind, spec.low, spec.high, spec.levels) for spec in responses}
        if any(_design(fit).score_ratio != 1 for fit in self.fits):
            raise ArgumentError(
                "candidates must be models without weights and numbers of trials; dp.evaluate takes those into account"
            )
        if len(facts) > 1:
            raise ArgumentError("candidates must be models of one response, with one declared range or list of levels")
        if self.loss not in MODEL_LOSSES:
            raise ArgumentError(
                f"score must be one of {list(MODEL_LOSSES)} for fitted models, got {safe_repr(self.loss)}"
            )
        if self.loss == "mistakes" and responses[0].kind != "binary":
            raise ArgumentError("score='mistakes' needs a response of two values; use 'absolute_error'")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for fit in self.fits for name in _design(fit).columns))

    def check(self, table: Table) -> None:
        for fit in self.fits:
            _design(fit).check_schema(table)

    def each(self, table: Table) -> Array:
        design = _design(self.fits[0])
        center, scale = design.response_scaling()
        response = center + scale * design.endog_of(table)
        losses = []
        for fit in self.fits:
            exog, _, offset = _design(fit).predicting(table, offset=True)
            losses.append(model_loss(fit, self.loss, exog, response, offset))
        return np.column_stack(losses)


def block_loss(fit: GLMResults, loss: str, rows: Rows[Block]) -> int:
    """The total loss of rows of the fit's own design, in model units, in steps, each by its weight. Charge first.

    Rows of a person share one row's.
    """
    return rows.total(partial(_block_loss, fit, loss), operator.add)


def _block_loss(fit: GLMResults, loss: str, blocks: Iterable[Block]) -> int:
    center, scale = _design(fit).response_scaling()
    total = 0
    for block in blocks:
        each = model_loss(fit, loss, block.exog, center + scale * block.endog, block.offset)
        if block.person is not None and block.weights is not None:
            total += int(shared_steps(each[:, None], block.weights, 0.0)[0])
            continue
        if block.weights is not None:
            each = each * block.weights
        total += int(steps(each[:, None], 0.0)[0])
    return total


def model_loss(fit: GLMResults, loss: str, exog: Array, response: Array, offset: Array | None = None) -> Array:
    """Losses of rows under one model, shape (rows,); `exog` and `offset` in model units, `response` in the user's."""
    linear = linear_predictor(exog, fit.scaled_params, offset)
    if loss == "mistakes":
        decision = np.where(np.isfinite(linear), linear > 0, np.nan)
        return np.where(np.isfinite(response), np.abs(decision - response), np.nan)
    spec = _design(fit).response
    width = spec.high - spec.low or 1.0
    predicted = np.asarray(fit.plan.family.mean(linear), dtype=np.float64)
    if spec.kind == "continuous":
        predicted = spec.center + spec.scale * predicted
    error = np.abs(np.clip(predicted, spec.low, spec.high) - response) / width
    return error if loss == "absolute_error" else error**2


def _design(fit: GLMResults) -> DesignSpec:
    design = fit.predicting_design
    if not isinstance(design, DesignSpec):
        raise ArgumentError("candidates must be models of a formula; models of plain arrays have no named columns")
    return design


@dataclass(frozen=True)
class RuleLosses:
    """Losses that an expression gives, one a candidate; as `ModelLosses`."""

    codes: tuple[str, ...]  # the expressions, each with its candidate in place
    declared: str  # the Domain, as JSON

    @property
    def columns(self) -> tuple[str, ...]:
        names = [name for code in self.codes for name in columns_of(compile_factor(code).node)]
        return tuple(dict.fromkeys(names))

    def check(self, table: Table) -> None:
        reader.check_columns(table, Domain.from_json(self.declared), self.columns)

    def each(self, table: Table) -> Array:
        domain = Domain.from_json(self.declared)
        encoded, complete = reader.encode(table, self.columns, domain)
        values = np.full((table.rows, len(self.codes)), np.nan)
        complete_rows = reader.take(encoded, complete)
        for place, code in enumerate(self.codes):
            values[complete, place] = as_numbers(evaluate(_bind_code(code, self.declared), complete_rows))
        return values


Losses = ModelLosses | RuleLosses
"""Losses of rows under candidates: a function of each row alone, picklable."""


@lru_cache(maxsize=256)
def _bind_code(code: str, declared: str) -> Node:
    return bind(compile_factor(code).node, Domain.from_json(declared))


def rule_losses(score: str, candidates: Sequence[Any], domain: Domain, low: float = 0.0) -> RuleLosses:
    """The losses of rules or numbers put into an expression in place of the name ``candidate``.

    ArgumentError too if losses leave [low, 1] on the declared ranges: they would be clipped, and another candidate
    chosen than the best.
    """
    codes = tuple(_substitute_candidate(score, candidate) for candidate in candidates)
    declared = domain.to_json()
    for place, code in enumerate(codes, start=1):
        try:
            least, most = _declared_range(code, domain, declared)
        except (DomainError, FormulaError) as error:
            if len(codes) <= MOST_SHOWN:
                raise
            # It may quote the candidate, and so many may be a column.
            raise type(error)(
                f"candidate {place} of {len(codes)}, put into score {safe_repr(score)}, is refused; select() with a "
                "few candidates says why"
            ) from None
        if most > 1 + CLOSE or least < low - CLOSE:
            raise ArgumentError(_range_message(score, place, (least, most) if len(codes) <= MOST_SHOWN else None, low))
    return RuleLosses(codes, declared)


def _declared_range(code: str, domain: Domain, declared: str) -> tuple[float, float]:
    """The least and the greatest loss on the declared ranges, and 0."""
    columns = columns_of(compile_factor(code).node)
    if missing := [name for name in columns if name not in domain]:
        raise DomainError(f"domain must declare the column {missing[0]!r}, which score or a candidate reads")
    try:
        losses = as_numbers(evaluate(_bind_code(code, declared), public_frame(domain, columns)))
    except TypeError as error:
        raise FormulaError(f"score {safe_repr(code)} is not a number or a comparison: {error}") from error
    known = losses[np.isfinite(losses)]
    return float(known.min(initial=0.0)), float(known.max(initial=0.0))


def _range_message(score: str, place: int, losses: tuple[float, float] | None, low: float) -> str:
    """The message about losses that are not within [low, 1]."""
    start = f"score {safe_repr(score)} with candidate {place}"
    if losses is None:
        return f"{start} leaves [{low:g}, 1] on the declared ranges: divide it by the width of its range"
    least, most = losses
    negative = " and pass monotone=False" if low == 0 and least < -CLOSE else ""
    return (
        f"{start} lies between {least:.4g} and {most:.4g} on the declared ranges; losses must lie within "
        f"[{low:g}, 1]: divide by {max(most, -least):.4g}{negative}"
    )


class _Substitution(ast.NodeTransformer):
    """Puts an expression in place of the name ``candidate``."""

    def __init__(self, value: ast.expr) -> None:
        self.value = value
        self.times = 0

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id != "candidate":
            return node
        self.times += 1
        return self.value


def _substitute_candidate(score: str, candidate: Any) -> str:
    if not isinstance(candidate, str) and not is_number(candidate):
        raise ArgumentError(
            "candidates must all be fitted models, or all numbers or texts such as 'age > 40' to be put in place of "
            f"the name candidate in score; got {type(candidate).__name__}"
        )
    text = candidate if isinstance(candidate, str) else repr(float(candidate))
    try:
        substitution = _Substitution(ast.parse(text.strip(), mode="eval").body)
        tree = substitution.visit(ast.parse(score.strip(), mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise FormulaError(f"score {safe_repr(score)} with a candidate put in is not an expression") from error
    if not substitution.times:
        raise ArgumentError(
            f"score must be one of {list(MODEL_LOSSES)} for fitted models, or an expression that reads the name "
            f"candidate, such as 'candidate != (income == \">50K\")'; got {safe_repr(score)}"
        )
    return ast.unparse(ast.fix_missing_locations(tree))

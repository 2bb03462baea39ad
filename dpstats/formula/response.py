"""The response of a model, and the weight and offset of a row: bounded by the Domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Domain, Levels, Range, Scalar, support_of
from dpstats.errors import DomainError, FormulaError
from dpstats.families.multinomial import MOST_CLASSES
from dpstats.formula.bounds import LEAST, LEAST_FINITE
from dpstats.formula.expression import (
    Apply,
    Column,
    Node,
    Value,
    as_numbers,
    bind,
    columns_of,
    elementwise,
    evaluate,
    public_values,
)
from dpstats.formula.parse import Factor, Formula
from dpstats.formula.public_frame import SEED, Codes, Encoded, drawn_rows, public_frame
from dpstats.formula.syntax import locate, share_hint
from dpstats.wording import argument, phrase

Array = NDArray[np.float64]
Kind = Literal["continuous", "binary", "count", "class"]

CONDITION_ROWS = 10_000, 300_000
"""Rows on which a condition must be met by some before it is refused: more if it is met by none of the first."""


@dataclass(frozen=True)
class ResponseSpec:
    """Public facts about the response."""

    name: str  # as the formula writes it
    low: float  # range in the user's units; 0 and 1 for a binary response
    high: float
    kind: Kind
    levels: tuple[Scalar, ...] | None  # those coded 0 and 1, of a binary response declared by levels; or the classes
    center: float = 0.0  # in model units it is (y - center) / scale; 0 and 1 unless continuous
    scale: float = 1.0
    # the bought interval that center and scale follow, in the user's units; None if they follow the range
    working: tuple[float, float] | None = None
    # the greatest number of trials of a row, for successes and failures: the rows' response is the share of successes
    trials: float | None = None


@dataclass(frozen=True)
class Response:
    """A response bound to the Domain that its columns are encoded by; `partial` if some declared values have none."""

    spec: ResponseSpec
    node: Node
    domain: Domain
    partial: bool = False
    failures: Node | None = None

    def encode(self, rows: dict[str, Encoded]) -> Array:
        """Model-unit values of encoded rows, shape (rows,); what cannot be a response is NaN (missing)."""
        values = _as_response(evaluate(self.node, rows))
        if self.failures is not None:
            total = _trials(values, _as_response(evaluate(self.failures, rows)))
            return np.divide(values, total, out=np.full_like(total, np.nan), where=total > 0)
        if self.spec.kind == "binary":
            return np.where((values == 0) | (values == 1), values, np.nan)
        if self.spec.kind == "class":
            return np.where(values >= 0, values, np.nan)
        clipped = np.clip(values, self.spec.low, self.spec.high)
        return np.where(np.isfinite(values), (clipped - self.spec.center) / self.spec.scale, np.nan)

    def trials(self, rows: dict[str, Encoded]) -> Array | None:
        """What each encoded row holds of the greatest number of trials, shape (rows,), from 0 to 1; None without them.

        NaN for rows that have no response.
        """
        if self.failures is None or self.spec.trials is None:
            return None
        both = (_as_response(evaluate(node, rows)) for node in (self.node, self.failures))
        return np.asarray(np.minimum(_trials(*both) / self.spec.trials, 1.0))


def bind_response(
    formula: Formula, domain: Domain, kind: Kind, has_intercept: bool, trials: float | None = None
) -> Response:
    """The response of `formula` under the declared facts; `trials` bounds those of a row, by default their ranges do.

    Raises DomainError if its declaration does not suit its kind, FormulaError if it is finite nowhere on the ranges.
    """
    if formula.failures is not None:
        return _bind_counts(formula, domain, formula.failures.node, trials)
    node, name = formula.response.node, formula.response.code
    if kind == "binary" and isinstance(node, Column):
        domain = _binary_column(domain, node.name)
    node = bind(node, domain)
    value = public_values(node, domain)
    levels = value.levels if isinstance(value, Codes) else None
    if kind == "binary":
        return Response(_binary_spec(name, value, levels), node, domain)
    if kind == "class":
        return Response(_class_spec(name, levels), node, domain)
    if levels is not None:
        raise DomainError(
            f"the response {name!r} is declared by levels, but this family needs a number; declare a range "
            f"(low, high), or pass {argument('family', 'binomial')}"
        )
    everywhere = _as_response(value)
    public = everywhere[np.isfinite(everywhere)]
    if len(public) == 0:
        raise FormulaError(f"the response {name!r} is not finite anywhere on the declared ranges")
    low, high, partial = float(public.min()), float(public.max()), len(public) < len(everywhere)
    if kind == "count":
        if high <= 0:
            raise DomainError(f"the response {name!r} is a count and must have a range above 0; declare (0, most)")
        return Response(ResponseSpec(name, max(low, 0.0), high, kind, None), node, domain, partial)
    center, scale = center_and_scale(low, high, has_intercept)
    if not LEAST <= scale <= 1 / LEAST:
        raise DomainError(f"the response {name!r} must vary by {LEAST:g} to {1 / LEAST:g}; rescale it")
    return Response(ResponseSpec(name, low, high, kind, None, center, scale), node, domain, partial)


def clipping_response(formula: Formula, domain: Domain) -> Domain:
    """The Domain with ranges of the response that keep every row, whatever is typical of them.

    DomainError if one is declared to drop rows.
    """
    kept: dict[str, Range] = {}
    for name in formula.response_columns:
        declared = domain.get(name)
        if not isinstance(declared, Range) or not declared.drops:
            continue
        ends = declared.low, declared.high
        if declared.outside == "drop" or declared.inner is not None:
            typed = phrase(
                f"domain.with_({{{name!r}: {ends}}})",
                shell=f"{name!r}: {{range: [{ends[0]}, {ends[1]}]}}, without outside: drop, in the file of --domain",
            )
            raise DomainError(
                f"the range of {name!r} drops rows beyond it, and {name!r} is part of the response: rows dropped "
                f"by their response bias every coefficient. Declare a range that clips: {typed}"
            )
        kept[name] = replace(declared, inner=ends)
    return domain.with_(kept) if kept else domain


def _bind_counts(formula: Formula, domain: Domain, failures: Node, trials: float | None) -> Response:
    """A response of successes and failures, the greatest number of both together from their ranges."""
    name = formula.text.partition("~")[0].strip()
    node, failures = bind(formula.response.node, domain), bind(failures, domain)
    public = public_frame(domain, list(formula.response_columns), faces=True)
    totals = _trials(_as_response(evaluate(node, public)), _as_response(evaluate(failures, public)))
    possible = totals[totals > 0]
    if len(possible) == 0:
        raise DomainError(f"the response {name!r} has no trials on the declared ranges; declare (0, most) for both")
    spec = ResponseSpec(name, 0.0, 1.0, "binary", None, trials=float(possible.max()) if trials is None else trials)
    return Response(spec, node, domain, bool(np.isnan(totals).any()), failures)


def _trials(successes: Array, failures: Array) -> Array:
    """Successes plus failures, shape (rows,); NaN where either is negative or missing."""
    possible = (successes >= 0) & (failures >= 0)
    return np.where(possible, successes + failures, np.nan)


def center_and_scale(low: float, high: float, has_intercept: bool) -> tuple[float, float]:
    """Center and scale that take [low, high] into [-1, 1]; the center is 0 without an intercept to take it up."""
    center = low / 2 + high / 2 if has_intercept else 0.0
    return center, max(abs(low - center), abs(high - center)) or 1.0


def _binary_column(domain: Domain, name: str) -> Domain:
    """Encode a 0/1 column by equality: clipping would turn a 2 into a 1."""
    declared = domain[name]
    if isinstance(declared, Levels):
        return domain
    if (declared.low, declared.high) != (0, 1):
        ends = [declared.low, declared.high]
        codes = f", such as {ends}, of which the second is modelled" if ends[1] == ends[0] + 1 else ""
        raise DomainError(
            f"the response {name!r} has the range ({declared.low}, {declared.high}), but the family needs 0 and 1; "
            f"declare (0, 1) or two levels{codes}, or compare it in the formula: I({name} > value) ~ ..."
        )
    return Domain({**domain, name: [0, 1]})


def _binary_spec(name: str, value: Value, levels: tuple[Scalar, ...] | None) -> ResponseSpec:
    if levels is not None and len(levels) != 2:
        raise DomainError(
            f"the response {name!r} has {len(levels)} levels, but the family needs two; "
            "declare two levels or compare it in the formula: I(column == 'level') ~ ..."
        )
    if levels is None:
        public = _as_response(value)
        if not np.isin(public[np.isfinite(public)], (0, 1)).all():
            raise DomainError(
                f"the response {name!r} takes values other than 0 and 1; declare (0, 1) or two levels, "
                f"or compare it in the formula: I(column > value) ~ ...{share_hint(name)}"
            )
    return ResponseSpec(name, 0.0, 1.0, "binary", None if levels in (None, (0, 1)) else levels)


def _class_spec(name: str, levels: tuple[Scalar, ...] | None) -> ResponseSpec:
    if levels is None or not 3 <= len(levels) <= MOST_CLASSES:
        given = "is no column of declared levels" if levels is None else f"has {len(levels)} levels"
        raise DomainError(
            f"the response {name!r} {given}, but this model needs 3 to {MOST_CLASSES} levels: list them, in "
            "their order if they have one; of classes the first is the one that the others are compared with. For two "
            f"levels, {argument('family', 'binomial')}"
        )
    return ResponseSpec(name, 0.0, len(levels) - 1.0, "class", levels)


def _as_response(value: Value) -> Array:
    if isinstance(value, Codes):
        return value.values.astype(np.float64)
    try:
        return np.asarray(as_numbers(value), dtype=np.float64)
    except TypeError as error:
        raise FormulaError(f"the response is not a single column of numbers: {error}") from error


@dataclass(frozen=True)
class RowValue:
    """A row-wise expression bound to the Domain."""

    name: str  # as the formula writes it
    node: Node
    domain: Domain  # that its columns are encoded by
    low: float  # its public range in the user's units, to which it is clipped
    high: float
    middle: float  # its median over the declared ranges: what is typical, as far as the Domain tells
    partial: bool  # whether some declared values give no finite number: rows that have them are left out

    def __call__(self, rows: Mapping[str, Encoded]) -> Array:
        """Values of encoded rows, shape (rows,), within the range; NaN where there is none."""
        values = np.asarray(as_numbers(evaluate(self.node, rows)), dtype=np.float64)
        return np.where(np.isfinite(values), np.clip(values, self.low, self.high), np.nan)


def bind_offset(formula: Formula, domain: Domain) -> RowValue | None:
    """The sum of a formula's offsets, None without any; FormulaError if it is no number, or hardly anywhere finite."""
    if not formula.offsets:
        return None
    name = " + ".join(factor.code for factor in formula.offsets)
    return bind_value(name, _sum(name, formula.offsets), domain)


def bind_weights(formula: Formula, domain: Domain) -> RowValue | None:
    """A formula's weights, None without any; their scale is the upper end of their range.

    Raises DomainError if no declared value is positive, FormulaError if they are no number, or hardly anywhere finite.
    """
    if formula.weights is None:
        return None
    node, name = formula.weights.node, formula.weights.code
    declared = domain[node.name] if isinstance(node, Column) else None
    if isinstance(node, Column) and isinstance(declared, Range) and declared.high > 0 and not declared.drops:
        # A column's weights below its range count as they are, and negative ones not at all.
        domain = Domain({**domain, node.name: (0.0, declared.high)})
    weights = bind_value(name, node, domain)
    if not weights.high > 0:
        raise DomainError(f"{name} must have a range above 0: declare (0, greatest weight) for its columns")
    if not LEAST <= weights.high <= 1 / LEAST:
        raise DomainError(f"{name} must have a greatest value between {LEAST:g} and {1 / LEAST:g}; rescale it")
    return weights


@dataclass(frozen=True)
class Condition:
    """A condition on a row's columns, bound to the Domain; other rows are left out as incomplete ones are."""

    name: str
    node: Node

    def __call__(self, rows: Mapping[str, Encoded]) -> NDArray[np.bool_]:
        """Whether encoded rows meet it, shape (rows,)."""
        return np.asarray(evaluate(self.node, rows), dtype=bool)


def bind_subset(formula: Formula, domain: Domain) -> Condition | None:
    """A formula's condition on rows, None without any; FormulaError if it is none, or no declared row meets it."""
    if formula.subset is None:
        return None
    name, at = formula.subset.code, formula.subset.at
    node = bind(formula.subset.node, domain)
    public = public_values(node, support_of(domain))
    if not isinstance(public, np.ndarray) or public.dtype != bool:
        raise FormulaError(locate(f"{name} is not a condition: write a comparison, such as subset(age >= 18)", at))
    # An even lattice need not have the numbers that a condition such as year == 2019 names, or day // 7 == 2600 means.
    random = np.random.default_rng(SEED)
    draws = (drawn_rows([(columns_of(node), name)], support_of(domain), count, random) for count in CONDITION_ROWS)
    if not public.any() and not any(Condition(name, node)(rows).any() for rows in draws):
        raise FormulaError(locate(f"{name}: no row within the declared ranges meets it; change its bounds", at))
    return Condition(name, node)


def _sum(name: str, factors: Sequence[Factor]) -> Node:
    node = factors[0].node
    for factor in factors[1:]:
        node = Apply(name, elementwise(np.add), (node, factor.node))
    return node


def bind_value(name: str, node: Node, domain: Domain) -> RowValue:
    """The expression with its range on the public frame."""
    node = bind(node, domain)
    public = public_values(node, support_of(domain))
    try:
        values = np.asarray(as_numbers(public), dtype=np.float64)
    except TypeError as error:
        raise FormulaError(f"{name} is not a single number a row: {error}") from error
    finite = values[np.isfinite(values)]
    if len(finite) <= LEAST_FINITE * len(values):
        raise FormulaError(f"{name} is not finite anywhere on the declared ranges, or nearly so; narrow them")
    ends = float(finite.min()), float(finite.max())
    return RowValue(name, node, domain, *ends, float(np.median(finite)), len(finite) < len(values))

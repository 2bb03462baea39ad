"""Numbers of a row that are no columns: its weight and its offset, bounded by the Domain (docs/proofs/objective)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Domain, Range
from dpstats.errors import DomainError, FormulaError
from dpstats.formula.bounds import LEAST, LEAST_FINITE
from dpstats.formula.codes import Encoded
from dpstats.formula.expression import Apply, Column, Node, as_numbers, bind, columns_of, elementwise, evaluate
from dpstats.formula.hints import located
from dpstats.formula.public_frame import public_frame

if TYPE_CHECKING:
    from dpstats.formula.parse import Factor, Formula

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RowValue:
    """A row-wise expression bound to the Domain.

    Attributes
    ----------
    name : str
        As the formula writes it.
    node : Node
    domain : Domain
        That its columns are encoded by.
    low, high : float
        Its public range, in the user's units; it is clipped to it.
    middle : float
        Its median over the declared ranges: what is typical of it, as far as the Domain tells.
    partial : bool
        Whether some declared values give no finite number: rows that have them are left out.
    """

    name: str
    node: Node
    domain: Domain
    low: float
    high: float
    middle: float
    partial: bool

    def __call__(self, rows: Mapping[str, Encoded]) -> Array:
        """Values of encoded rows, shape (rows,), within the range; NaN where there is none."""
        values = np.asarray(as_numbers(evaluate(self.node, rows)), dtype=np.float64)
        return np.where(np.isfinite(values), np.clip(values, self.low, self.high), np.nan)


def bind_offset(formula: Formula, domain: Domain) -> RowValue | None:
    """The sum of a formula's offsets; None without any.

    Raises
    ------
    FormulaError
        If it is no number, or hardly anywhere finite on the declared ranges.
    """
    if not formula.offsets:
        return None
    name = " + ".join(factor.code for factor in formula.offsets)
    return _bound(name, _sum(name, formula.offsets), domain)


def bind_weights(formula: Formula, domain: Domain) -> RowValue | None:
    """A formula's weights; None without any. Their scale is the upper end of their range.

    Raises
    ------
    DomainError
        If no declared value is positive.
    FormulaError
        If they are no number, or hardly anywhere finite.
    """
    if formula.weights is None:
        return None
    node, name = formula.weights.node, formula.weights.code
    if isinstance(node, Column) and isinstance(declared := domain[node.name], Range) and declared.high > 0:
        # A column's weights below its range count as they are, and negative ones not at all.
        domain = Domain({**domain, node.name: (0.0, declared.high)})
    found = _bound(name, node, domain)
    if not found.high > 0:
        raise DomainError(f"{name} must be able to exceed 0: declare (0, greatest weight) for its columns")
    if not LEAST <= found.high <= 1 / LEAST:
        raise DomainError(f"{name} must reach to between {LEAST:g} and {1 / LEAST:g}; rescale it")
    return found


@dataclass(frozen=True)
class Condition:
    """A condition on a row's columns, bound to the Domain; other rows are left out as incomplete ones are.

    Attributes
    ----------
    name : str
        As the formula writes it.
    node : Node
    """

    name: str
    node: Node

    def __call__(self, rows: Mapping[str, Encoded]) -> NDArray[np.bool_]:
        """Whether encoded rows meet it, shape (rows,)."""
        return np.asarray(evaluate(self.node, rows), dtype=bool)


def bind_subset(formula: Formula, domain: Domain) -> Condition | None:
    """A formula's condition on rows; None without any.

    Raises
    ------
    FormulaError
        If it is no condition, or no row of the declared ranges meets it.
    """
    if formula.subset is None:
        return None
    name, at = formula.subset.code, formula.subset.at
    node = bind(formula.subset.node, domain)
    public = evaluate(node, public_frame(domain, list(dict.fromkeys(columns_of(node))), faces=True))
    if not isinstance(public, np.ndarray) or public.dtype != bool:
        raise FormulaError(located(f"{name} is no condition: write a comparison, such as subset(age >= 18)", at))
    if not public.any():
        raise FormulaError(located(f"{name}: no row of the declared ranges meets it; move its bounds", at))
    return Condition(name, node)


def _sum(name: str, factors: Sequence[Factor]) -> Node:
    node = factors[0].node
    for factor in factors[1:]:
        node = Apply(name, elementwise(np.add), (node, factor.node))
    return node


def _bound(name: str, node: Node, domain: Domain) -> RowValue:
    """The expression with its range on the public frame."""
    node = bind(node, domain)
    public = evaluate(node, public_frame(domain, list(dict.fromkeys(columns_of(node))), faces=True))
    try:
        values = np.asarray(as_numbers(public), dtype=np.float64)
    except TypeError as error:
        raise FormulaError(f"{name} is not a single number a row: {error}") from error
    finite = values[np.isfinite(values)]
    if len(finite) <= LEAST_FINITE * len(values):
        raise FormulaError(f"{name} is not finite anywhere on the declared ranges, or nearly so; narrow them")
    ends = float(finite.min()), float(finite.max())
    return RowValue(name, node, domain, *ends, float(np.median(finite)), len(finite) < len(values))

"""The public facts of a design in model units, and what they make of encoded rows.

A design is fixed before any row is read (docs/proofs/design): every column is clipped to its public range, centred if
it is a numeric term of one column beside an intercept, and divided to at most 1; every term's part of a row is
shrunk to the term's public norms; the row is divided by the root of the sum of the squared term norms. So a row's
norm is at most 1 whatever the cells are, and a bound that is too small costs accuracy, never privacy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.data import CodedColumns, RowPacking
from dpstats.data.columns import all_within
from dpstats.domain import Domain, Range, support_of
from dpstats.formula.bounds import Array, Term, TermBody, term_norm
from dpstats.formula.coding import (
    Part,
    PublicFactor,
    coded_dummies,
    combination_index,
    factor_values,
    level_combinations,
    products,
)
from dpstats.formula.expression import Column
from dpstats.formula.joint_bodies import JointBody
from dpstats.formula.parse import Formula, term_name
from dpstats.formula.patsy_internals import DesignInfo, SubtermInfo
from dpstats.formula.public_frame import Encoded
from dpstats.formula.response import Condition, Response, ResponseSpec, RowValue, center_and_scale
from dpstats.inference import Dummies
from dpstats.privacy.k_norm import Image, shrink_block, slack

MOST_VALUES = 2**18
"""Of the columns of a subterm at all its levels; columns that would have more are kept as numbers."""

MOST_LEVELS = 2**16
"""Of a subterm, so that two bytes tell them apart."""


@dataclass(frozen=True, eq=False)
class ScaledDesign:
    """The public facts of a design in model units."""

    formula: str
    domain: Domain  # of the columns that the formula reads
    names: tuple[str, ...]  # of the p columns, as patsy writes them
    terms: tuple[Term, ...]  # in the order of their columns; bounds in model units, whose squared l2 bounds sum to 1
    has_intercept: bool  # and then it is the first column
    response: ResponseSpec
    lower: Array  # public ranges of the columns in the user's units, (p,)
    upper: Array
    center: Array  # a column in model units is (x - center) / scale, (p,)
    scale: Array
    notes: tuple[str, ...]  # public oddities worth telling the user
    has_gaps: bool = field(repr=False)  # whether an expression is not finite on all of the declared ranges
    gap_columns: frozenset[str] = field(repr=False)  # whose ranges decide for which rows an expression is not finite
    coding: DesignInfo = field(repr=False)  # of the right-hand side, learned from the Domain
    encoder: Response = field(repr=False)  # bound to the Domain of the response's columns
    parsed: Formula = field(repr=False)
    shrunk: tuple[Term, ...] = field(repr=False)  # terms whose part of a row is shrunk to their bounds
    bodies: tuple[TermBody, ...] = field(repr=False)  # with the scales that rows are shrunk by
    offset: RowValue | None = None  # added to the linear predictor
    weights: RowValue | None = None
    subset: Condition | None = None  # on which rows count
    cut_points: tuple[str, ...] = ()  # what the intercept and the dummies after it are shown as, of ordered levels
    # Bodies of columns that move together, which hold every row besides the others.
    joint: tuple[JointBody, ...] = field(default=(), repr=False)
    absent: tuple[str, ...] = field(default=(), repr=False)  # terms that are not read: their columns are 0

    @property
    def offset_center(self) -> float:
        """What is taken off an offset in the user's units: what is typical, if an intercept can take it up."""
        return self.offset.middle if self.offset is not None and self.has_intercept else 0.0

    @property
    def offset_bound(self) -> float:
        """The greatest size of an offset in model units; 0 without any."""
        if self.offset is None:
            return 0.0
        return max(abs(end - self.offset_center) for end in (self.offset.low, self.offset.high)) / self.response.scale

    @property
    def offset_high(self) -> float:
        """The greatest offset in model units; 0 without any."""
        return 0.0 if self.offset is None else (self.offset.high - self.offset_center) / self.response.scale

    @property
    def score_ratio(self) -> float | None:
        """The covariance of a row's score over its information, if the model is right: 1 for rows that count alike.

        1 over the greatest number of trials for successes and failures; None where weights leave it open.
        """
        if self.weights is not None:
            return None
        return 1.0 if self.response.trials is None else 1.0 / self.response.trials

    @property
    def response_name(self) -> str:
        """The response as the formula writes it."""
        return self.response.name

    @property
    def row_norms(self) -> dict[str, float]:
        """Bounds on the l1, l2 and linf norms of a row."""
        ones = np.ones(len(self.names))
        return {"l1": self.norm_bound("l1", ones), "l2": 1.0, "linf": self.norm_bound("linf", ones)}

    @cached_property
    def images(self) -> tuple[Image, ...]:
        """Bodies that hold every row, for noise cut to the design (docs/proofs/bodies)."""
        return tuple(body.image for body in self.bodies)

    @cached_property
    def dummies(self) -> tuple[Dummies, ...]:
        """The columns that are dummies of a factor beside the intercept."""
        return coded_dummies(self.subterms, self.center, self.scale) if self.has_intercept else ()

    @cached_property
    def _single_terms(self) -> tuple[NDArray[np.intp], NDArray[np.intp], dict[str, Array]]:
        """Positions of the terms of one column, of which most designs have many, their columns, and `term_norm` of each
        for a weight of 1; "cauchy" is its second bound for l1.
        """
        where = [index for index, term in enumerate(self.terms) if term.columns.stop - term.columns.start == 1]
        alone = [self.terms[index] for index in where]
        bounds = {
            "linf": [float(term.maxima[0]) for term in alone],
            "l2": [min(max(term.l2**2, 0.0), float(term.maxima[0] ** 2)) for term in alone],
            "l1": [min(max(term.l1, 0.0), float(term.maxima[0])) for term in alone],
            "cauchy": [term.l2 * float(term.maxima[0] > 0) for term in alone],
        }
        columns = np.array([term.columns.start for term in alone], dtype=np.intp)
        return np.array(where, dtype=np.intp), columns, {name: np.array(values) for name, values in bounds.items()}

    @cached_property
    def _wide_terms(self) -> list[tuple[int, Term]]:
        """The other terms by their positions."""
        single = set(self._single_terms[0].tolist())
        return [(index, term) for index, term in enumerate(self.terms) if index not in single]

    def norm_bound(self, which: str, weights: Array) -> float:
        """A bound on the norm (l1, l2 or linf) of x * weights over all rows x; weights of shape (p,), of any sign.

        The supremum under the term bounds for l2 and linf, and for l1 at most the smaller of two bounds.
        """
        sizes = np.abs(np.asarray(weights, dtype=float))
        where, columns, bounds = self._single_terms
        norms, own = np.empty(len(self.terms)), sizes[columns]
        for index, term in self._wide_terms:
            norms[index] = term_norm(term, which, sizes[term.columns])
        norms[where] = np.sqrt(own**2 * bounds["l2"]) if which == "l2" else own * bounds[which]
        if which == "l1":
            norms[where] = np.minimum(norms[where], bounds["cauchy"] * own)
        return float(np.linalg.norm(norms, {"l1": 1, "l2": 2, "linf": np.inf}[which]))

    def curvature_ratio(self, curvature: Array) -> float:
        """kappa: the supremum over all rows x of sum_j x_j**2 / curvature_j, for positive `curvature`, shape (p,)."""
        return self.norm_bound("l2", np.asarray(curvature, dtype=float) ** -0.5) ** 2

    def back_transform(self) -> tuple[Array, Array]:
        """A, shape (p, p), and shift, shape (p,): coefficients in the user's units are A @ scaled + shift."""
        unit = self.response.scale
        matrix, shift = np.diag(unit / self.scale), np.zeros(len(self.names))
        if self.has_intercept:
            matrix[0] -= unit * self.center / self.scale
            shift[0] = self.response.center - self.offset_center
        if (size := len(self.cut_points)) > 0:
            # Minus the intercept, and minus its sum with each dummy (docs/proofs/ordinal).
            matrix[1:size] += matrix[0]
            shift[1:size] += shift[0]
            matrix[:size] *= -1
            shift[:size] *= -1
        return matrix, shift

    def with_cut_points(self, names: Sequence[str]) -> Self:
        """The design whose intercept and first factor are shown as the cut-points between ordered levels."""
        names = tuple(names)
        return replace(self, names=(*names, *self.names[len(names) :]), cut_points=names)

    def with_working(self, low: float, high: float) -> Self:
        """The design with a continuous response scaled by [low, high], in the user's units; rows are clipped as before.

        Whatever the interval is, it changes no bound on a row of columns: the family's cap bounds the response's part.
        """
        return self._scaled(low, high, (low, high))

    def _scaled(self, low: float, high: float, working: tuple[float, float] | None) -> Self:
        center, scale = center_and_scale(low, high, self.has_intercept)
        spec = replace(self.response, center=center, scale=scale, working=working)
        return replace(self, response=spec, encoder=replace(self.encoder, spec=spec))

    def without_terms(self, names: Sequence[str]) -> Self:
        """The design of a model whose coefficients of some terms are 0: what they alone read may be missing."""
        terms = tuple(term for term in self.parsed.terms if term_name(term) not in names)
        return replace(self, parsed=replace(self.parsed, terms=terms), absent=tuple(names))

    def without_working(self) -> Self:
        """The design with a continuous response scaled by its declared range."""
        return self if self.response.working is None else self._scaled(self.response.low, self.response.high, None)

    def response_scaling(self) -> tuple[float, float]:
        """Middle and half width: a continuous response in the user's units is middle + half width * scaled."""
        return self.response.center, self.response.scale

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of data that the formula reads."""
        return self.parsed.columns

    @property
    def response_columns(self) -> list[str]:
        """The columns that the response reads."""
        return [name for name in self.parsed.columns if name in self.encoder.domain]

    def scaled_offset(self, offset: Array) -> Array:
        """Offsets in the user's units as what is added to x'theta in model units."""
        return np.asarray((offset - self.offset_center) / self.response.scale)

    @cached_property
    def support(self) -> Domain:
        """The Domain of the rows that a fit keeps."""
        return support_of(self.domain)

    @cached_property
    def unbounded(self) -> Self:
        """The design as it predicts: itself, or without any bounds on rows where some ranges drop rows beyond them.

        Coefficients of a fit that clips describe clipped cells; those of one that drops rows describe the cells.
        """
        if not any(isinstance(declared, Range) and declared.drops for declared in self.domain.values()):
            return self
        ends = np.full(len(self.names), np.inf)
        return replace(
            self,
            lower=-ends,
            upper=ends,
            shrunk=(),
            joint=(),
            bodies=tuple(replace(body, scales=None) for body in self.bodies),
            offset=None if self.offset is None else replace(self.offset, low=-math.inf, high=math.inf),
        )

    @cached_property
    def numbers_are_cells(self) -> bool:
        """Whether the columns are cells as they are, levels and products of these: finite where no cell is missing."""
        infos = self.coding.factor_infos
        plain = all(infos[one].type == "categorical" or isinstance(one.node, Column) for one in self.factors)
        return plain and not self.moves

    @cached_property
    def factors(self) -> tuple[PublicFactor, ...]:
        """The factors of the terms that are read."""
        terms = (term for term in self.coding.term_codings if term.name() not in self.absent)
        read = {factor for term in terms for factor in term.factors}
        return tuple(factor for factor in self.coding.factor_infos if factor in read)

    @cached_property
    def _absent_columns(self) -> set[int]:
        """The columns of the terms that are not read."""
        absent = (term.columns for term in self.terms if term.name in self.absent)
        return {column for columns in absent for column in range(columns.start, columns.stop)}

    @cached_property
    def moves(self) -> tuple[tuple[NDArray[np.intp], Callable[[Array], None]], ...]:
        """Columns that are bounded together, and what moves their part of some rows, in place and in this order."""
        shrunk = ((_places(term.columns), partial(_shrink, term)) for term in self.shrunk)
        drawn_in = (
            (_places(body.columns), partial(shrink_block, block=body.image.block, scales=body.scales))
            for body in self.bodies
            if body.scales is not None
        )
        joint = ((np.array(body.columns, dtype=np.intp), body.shorten) for body in self.joint)
        # Every row that the Domain allows is in all of them: without what is not read nothing has to move.
        every: tuple[tuple[NDArray[np.intp], Callable[[Array], None]], ...] = (*shrunk, *drawn_in, *joint)
        return tuple((columns, move) for columns, move in every if self._absent_columns.isdisjoint(columns.tolist()))

    @cached_property
    def subterms(self) -> tuple[tuple[slice, SubtermInfo], ...]:
        """The parts of terms that patsy codes by themselves, each with its columns, in their order."""
        every = [(term.name(), part) for term, parts in self.coding.term_codings.items() for part in parts]
        ends = itertools.accumulate(part.num_columns for _, part in every)
        placed = zip(every, ends, strict=True)
        return tuple((slice(end - one.num_columns, end), one) for (of, one), end in placed if of not in self.absent)

    @cached_property
    def by_levels(self) -> dict[int, tuple[SubtermInfo, tuple[int, ...]]]:
        """Subterms kept as the combination of their factors' levels, with the numbers of levels, by first column."""
        subterms, infos = {}, self.coding.factor_infos
        moved = {int(column) for columns, _ in self.moves for column in columns}
        for columns, subterm in self.subterms:
            levels = all(infos[factor].type == "categorical" for factor in subterm.factors)
            if not levels or not subterm.num_columns or moved & set(range(columns.start, columns.stop)):
                continue
            counts = tuple(len(infos[factor].categories) for factor in subterm.factors)
            if math.prod(counts) <= MOST_LEVELS and subterm.num_columns * math.prod(counts) <= MOST_VALUES:
                subterms[columns.start] = subterm, counts
        return subterms

    @cached_property
    def packing(self) -> RowPacking:
        """How rows are kept between passes."""
        numbers, coded = np.ones(len(self.names), dtype=bool), []
        for start, (subterm, counts) in self.by_levels.items():
            columns = slice(start, start + subterm.num_columns)
            every = dict(zip(subterm.factors, level_combinations(counts), strict=True))
            values = np.empty((subterm.num_columns, math.prod(counts)))
            _scale(self, np.arange(columns.start, columns.stop), products(self.coding, subterm, every), values)
            coded.append(CodedColumns(columns, values))
            numbers[columns] = False
        for column in sorted(self._absent_columns):
            coded.append(CodedColumns(slice(column, column + 1), np.zeros((1, 1))))
            numbers[column] = False
        return RowPacking(len(numbers), tuple(coded), np.flatnonzero(numbers))


def packed_rows(
    spec: ScaledDesign, encoded: Mapping[str, Encoded], rows: int
) -> tuple[Array, NDArray[Any] | None, NDArray[np.bool_]]:
    """Complete encoded rows in model units, as the design's `RowPacking` keeps them.

    Numbers (rows, k), Fortran-contiguous, NaN where not finite; levels (rows, l), unsigned, or None; which rows are
    finite in all columns, (rows,).
    """
    packing = spec.packing
    numbers, levels = np.empty((len(packing.numbers), rows)), None
    with np.errstate(all="ignore"):
        values, known = factor_values(spec.factors, encoded)
        numeric = (subterm for columns, subterm in spec.subterms if columns.start not in spec.by_levels)
        parts = (part for subterm in numeric for part in products(spec.coding, subterm, values))
        known = known & _scale(spec, packing.numbers, parts, numbers)
    for columns, move in spec.moves:
        own = np.searchsorted(packing.numbers, columns)
        if own[-1] - own[0] < len(own):
            move(numbers.T[:, own[0] : own[-1] + 1])
        else:
            part = numbers.T[:, own]
            move(part)
            numbers.T[:, own] = part
        known = known & np.isfinite(numbers[own]).all(axis=0)
    if packing.varying:
        most = max(coded.values.shape[1] for coded in packing.varying)
        levels = np.zeros((len(packing.varying), rows), dtype=np.min_scalar_type(most - 1))
        for own_levels, coded in zip(levels, packing.varying, strict=True):
            subterm, counts = spec.by_levels[coded.columns.start]
            combined = combination_index([values[factor] for factor in subterm.factors], counts)
            np.copyto(own_levels, combined, casting="unsafe")
    return numbers.T, None if levels is None else levels.T, np.broadcast_to(known, rows)


def _scale(spec: ScaledDesign, places: NDArray[np.intp], parts: Iterable[list[Part]], out: Array) -> NDArray[np.bool_]:
    """Fill in some columns in model units, shape (k, rows), from what they are products of.

    Returns which rows are finite in all of them, shape (rows,), or (1,) where there are no columns. A column after the
    other: its steps stay in the cache.
    """
    known = np.ones(1, dtype=bool)
    for column, place, factors in zip(out, places, parts, strict=True):
        each = (part if levels is None else part[levels] for part, levels in factors)
        values = np.ascontiguousarray(next(each, np.ones(1)))
        for other in each:
            values = values * other
        low, high, center = spec.lower[place], spec.upper[place], spec.center[place]
        finite = None
        if not all_within(values, low, high):
            finite = np.isfinite(values)
            values = np.clip(values, low, high, out=column)
        if center:
            values = np.subtract(values, center, out=column)
        np.divide(values, spec.scale[place], out=column)
        if finite is not None and not finite.all():
            np.copyto(column, np.nan, where=~finite)
            known = known & finite
    return known


def _places(columns: slice) -> NDArray[np.intp]:
    return np.arange(columns.start, columns.stop)


def _shrink(term: Term, part: Array) -> None:
    """Scale each row of `part` down, in place, to the term's bounds less the slack."""
    squares, sizes = np.zeros(len(part)), np.zeros(len(part))
    # Column by column: a sum along rows could be rounded in another order when the number of rows changes.
    for column in part.T:
        squares += column * column
        sizes += np.abs(column)
    room = 1 + slack(part.shape[1])
    with np.errstate(all="ignore"):
        by_l2 = term.l2 / room / np.sqrt(squares)
        by_l1 = term.l1 / room / sizes
    factor = np.fmin(np.fmin(by_l2, by_l1), 1.0)
    part *= factor[:, None]

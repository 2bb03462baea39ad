"""The right-hand side as patsy codes it, learned from the Domain alone."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.domain import Domain
from dpstats.errors import FormulaError
from dpstats.formula.bounds import LARGEST, FactorBounds, interact, measure, proved_bounds
from dpstats.formula.expression import (
    Apply,
    Column,
    Value,
    as_codes,
    as_numbers,
    bind,
    evaluate,
    is_among_levels,
    may_miss,
    public_values,
)
from dpstats.formula.parse import Factor, Formula
from dpstats.formula.patsy_internals import DesignInfo, PatsyError, SubtermInfo, Term, learn_coding
from dpstats.formula.public_frame import Encoded, end_rows
from dpstats.formula.syntax import locate
from dpstats.inference import Dummies

Array = NDArray[np.float64]

Part = tuple[NDArray[Any], NDArray[Any] | None]
"""A number of each row, or a number of each level and the rows' levels."""

NEAR_ONE = 1e-9
"""Columns whose sum is so near to one in every row sum to one."""


class PublicFactor:
    """A factor in patsy's factor protocol that evaluates a bound tree instead of Python code."""

    origin = None

    def __init__(self, factor: Factor, domain: Domain) -> None:
        self.code, self.at = factor.code, factor.at
        try:
            self.node = bind(factor.node, domain)
        except FormulaError as error:
            raise FormulaError(locate(str(error), self.at)) from error

    def name(self) -> str:
        """The factor's text, from which patsy makes column names."""
        return self.code

    def memorize_passes_needed(self, state: dict[str, Any], eval_env: object) -> int:
        """Nothing to memorize: what there was to learn came from the Domain."""
        return 0

    def eval(self, state: object, data: Mapping[str, Encoded]) -> Array | pd.Categorical:
        """Values on encoded rows, as patsy takes them."""
        try:
            value = evaluate(self.node, data)
        except FormulaError as error:  # of the kinds of values, which follow from formula and Domain
            raise FormulaError(locate(str(error), self.at)) from error
        codes = as_codes(value)
        if codes is None:
            return value if isinstance(value, np.ndarray) and value.ndim > 1 else as_numbers(value)
        # Without an object dtype pandas would turn levels such as 1 and 2.5 into 1.0 and 2.5.
        categories = pd.Index(list(codes.levels), dtype=object)
        # patsy takes no missing level: rows that have one are left out (`factor_values`).
        categorical = pd.Categorical.from_codes(np.maximum(codes.values, 0), categories)
        categorical.contrast = codes.contrast  # type: ignore[attr-defined]
        return categorical

    def __repr__(self) -> str:
        # patsy quotes it in errors.
        return self.code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicFactor) and self.code == other.code

    def __hash__(self) -> int:
        return hash((PublicFactor, self.code))


def public_design(formula: Formula, domain: Domain) -> DesignInfo:
    """patsy's design of the right-hand side; no rows are read.

    Raises FormulaError if a factor cannot be evaluated on the declared ranges and levels, or no column results.
    """
    factors = {factor.code: PublicFactor(factor, domain) for term in formula.terms for factor in term}
    terms = [Term([factors[factor.code] for factor in term]) for term in formula.terms]
    rows = end_rows(domain, formula.exog_columns)
    try:
        info = learn_coding(terms, rows)
    except FormulaError:
        raise
    # What patsy raises here concerns contrasts and levels, both public; IndexError is a contrast's unknown reference.
    except (PatsyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise FormulaError(f"formula {formula.text!r} cannot be coded: {str(error).splitlines()[0]}") from error
    if not info.column_names:
        raise FormulaError(f"formula {formula.text!r} has no columns; keep the intercept or add a column")
    return info


def term_bounds(info: DesignInfo, domain: Domain) -> tuple[dict[Term, list[FactorBounds]], list[str]]:
    """Bounds of each term in the user's units, one entry a subterm, and the factors not finite everywhere.

    Raises FormulaError if a term is nowhere finite on the declared ranges, or too large there.
    """
    numeric = {f: _public_columns(f, domain) for f, known in info.factor_infos.items() if known.type == "numerical"}

    def bounds(factor: PublicFactor, contrasts: Mapping[PublicFactor, Any]) -> FactorBounds:
        if factor in numeric:
            return _numeric_bounds(factor, numeric[factor])
        return _contrast_bounds(factor, contrasts[factor])

    with np.errstate(all="ignore"):
        terms = {
            term: [interact([bounds(factor, part.contrast_matrices) for factor in part.factors]) for part in subterms]
            for term, subterms in info.term_codings.items()
        }
    for term, parts in terms.items():
        if not all((np.abs([part.low, part.high]) <= LARGEST).all() for part in parts):
            raise FormulaError(f"{term.name()} exceeds {LARGEST:g} on the declared ranges; rescale it")
    partial = [factor.code for factor, columns in numeric.items() if not np.isfinite(columns).all()]
    return terms, [*partial, *_partly_binned(info, domain)]


def _partly_binned(info: DesignInfo, domain: Domain) -> list[str]:
    """Factors of bins that do not hold all of the declared ranges; FormulaError for one whose bins hold nothing."""
    factors = []
    for factor, known in info.factor_infos.items():
        if known.type != "categorical" or not may_miss(factor.node) or is_among_levels(factor.node):
            continue
        codes = as_codes(public_values(factor.node, domain))
        assert codes is not None
        missing = codes.values < 0
        if missing.all():
            message = f"{factor.code}: no value of the declared ranges is in any of the bins; move the breaks"
            raise FormulaError(locate(message, factor.at))
        factors += [factor.code] * bool(missing.any())
    return factors


def column_ranges(
    info: DesignInfo, by_term: Mapping[Term, list[FactorBounds]], has_intercept: bool
) -> tuple[Array, Array, Array]:
    """Lower and upper end and centre of each column in the user's units, shapes (p,)."""
    parts = [part for bounds in by_term.values() for part in bounds]
    lower, upper = np.concatenate([part.low for part in parts]), np.concatenate([part.high for part in parts])
    center = np.zeros(len(lower))
    for term, columns in info.term_slices.items():
        numeric = all(info.factor_infos[factor].type == "numerical" for factor in term.factors)
        if has_intercept and numeric and term.factors and columns.stop - columns.start == 1:
            center[columns] = lower[columns] / 2 + upper[columns] / 2
    return lower, upper, center


def subterms(info: DesignInfo, by_term: Mapping[Term, list[FactorBounds]]) -> list[tuple[slice, FactorBounds]]:
    """Columns and bounds of every subterm, in the order of the columns."""
    bounds = []
    for term, parts in by_term.items():
        start = info.term_slices[term].start
        for part in parts:
            if len(part.low):  # a factor of one level has no columns beside an intercept
                bounds.append((slice(start, start + len(part.low)), part))
            start += len(part.low)
    return bounds


def factor_values(
    factors: Iterable[PublicFactor], encoded: Mapping[str, Encoded]
) -> tuple[dict[Any, NDArray[Any]], NDArray[np.bool_]]:
    """What each factor is in some encoded rows, and which rows are in one of the levels of all, shape (rows,) or (1,).

    A factor's level of each row, shape (rows,), or its columns, shape (k, rows).
    """
    values: dict[Any, NDArray[Any]] = {}
    known = np.ones(1, dtype=bool)
    for factor in factors:
        value = evaluate(factor.node, encoded)
        codes = as_codes(value)
        if codes is None:
            values[factor] = _columns(value)
            continue
        values[factor] = codes.values
        if may_miss(factor.node):
            known = known & (codes.values >= 0)
            values[factor] = np.maximum(codes.values, 0)
    return values, known


def _columns(value: Value) -> Array:
    """A numeric factor as columns one after the other, shape (k, rows)."""
    if isinstance(value, np.ndarray) and value.ndim > 1:
        return np.asarray(value.T, dtype=np.float64)
    return np.asarray(as_numbers(value), dtype=np.float64)[None]


def products(info: DesignInfo, subterm: SubtermInfo, values: Mapping[Any, NDArray[Any]]) -> Iterator[list[Part]]:
    """What each column of a subterm is the product of; those of its first factor change fastest.

    The products are patsy's to the last bit, which would write them row by row.
    """
    choices: list[list[Part]] = []
    for factor in subterm.factors:
        if info.factor_infos[factor].type == "categorical":
            choices.append([(column, values[factor]) for column in subterm.contrast_matrices[factor].matrix.T])
        else:
            choices.append([(column, None) for column in values[factor]])
    for chosen in itertools.product(*reversed(choices)):
        yield list(reversed(chosen))


def level_combinations(counts: Sequence[int]) -> NDArray[np.intp]:
    """The levels of factors at each combination of them, the first varying fastest: shape (factors, combinations)."""
    return np.indices(tuple(reversed(counts))).reshape(len(counts), math.prod(counts))[::-1]


def combination_index(levels: Sequence[NDArray[Any]], counts: Sequence[int]) -> NDArray[Any]:
    """The place of each row's levels of some factors among their `level_combinations`, shape (rows,)."""
    place = levels[-1]
    for own, count in zip(reversed(levels[:-1]), reversed(counts[:-1]), strict=True):
        place = place * count + own
    return place


def refuse_repeated_sums(info: DesignInfo, domain: Domain, absorbed: str | None = None) -> None:
    """Raise FormulaError if a basis whose columns sum to one, such as cr(x, df=4), stands beside what they sum to.

    Its columns times the other factors of its term sum to these factors, or to a constant where there are none. If
    other terms have that too, no coefficient of either is identified. An `absorbed` factor has a constant.
    """
    numeric = {factor for factor, known in info.factor_infos.items() if known.type == "numerical"}
    whole = {factor for factor in numeric if _sums_to_one(factor, domain)}
    # patsy codes the factors of levels so that terms of the same numbers repeat nothing, whatever numbers these are.
    numbers = {term: numeric & set(term.factors) for term in info.term_codings}
    for term, own in numbers.items():
        beside = [other for other, its in numbers.items() if its != own and its - whole == own - whole]
        bases = [factor for factor in term.factors if factor in whole]
        if not bases or not (beside or (absorbed is not None and own <= whole)):
            continue
        rest = ":".join(factor.code for factor in term.factors if factor not in whole)
        if absorbed is not None:
            sum_of = f"one, as the levels of {absorbed} do"
        elif all(other.factors for other in beside):
            sum_of = f"one, as {beside[0].name()} does"
        else:
            sum_of = "the intercept"
        missing = rest and all(other.name() != rest for other in numbers)
        instead = ":".join(_without_sum(factor.code) if factor in whole else factor.code for factor in term.factors)
        message = f"{term.name()} adds up to {rest or sum_of}; write {f'{rest} + ' if missing else ''}{instead}"
        raise FormulaError(locate(message, bases[0].at))


def _sums_to_one(factor: PublicFactor, domain: Domain) -> bool:
    """Whether the columns of a numeric factor, two or more, sum to one whatever the row."""
    if not isinstance(factor.node, Apply) or factor.node.norms is not None:
        return False
    columns = _public_columns(factor, domain)
    columns = columns[np.isfinite(columns).all(axis=1)]
    return columns.shape[1] > 1 and len(columns) > 0 and bool(np.all(np.abs(columns.sum(axis=1) - 1) < NEAR_ONE))


def _without_sum(code: str) -> str:
    """The code of a basis that sums to one as one that does not."""
    if code.startswith("I("):
        return _without_sum(code[2:-1])
    if code.startswith("bs("):
        return re.sub(r",\s*include_intercept\s*=\s*\w+", "", code)
    return f"{code[:-1]}, constraints='center')"


def _public_columns(factor: PublicFactor, domain: Domain) -> Array:
    """Values of a numeric factor on public rows that fill the space of its columns, shape (m, k)."""
    value = public_values(factor.node, domain)
    assert isinstance(value, np.ndarray)
    return value if value.ndim > 1 else value[:, None]


def _numeric_bounds(factor: PublicFactor, columns: Array) -> FactorBounds:
    if isinstance(factor.node, Apply) and factor.node.norms is not None:
        return proved_bounds(factor.node.norms, columns.shape[1])
    try:
        return measure(columns, grid=not isinstance(factor.node, Column))
    except ValueError as error:
        raise FormulaError(locate(f"{factor.code}: {error}", factor.at)) from error


def _contrast_bounds(factor: PublicFactor, contrast: Any) -> FactorBounds:
    matrix = np.asarray(contrast.matrix, dtype=float)
    if not np.isfinite(matrix).all():
        raise FormulaError(f"{factor.code}: the contrast must be finite")
    return measure(matrix, grid=False, codes=(matrix,))


def coded_dummies(subterms: Iterable[tuple[slice, SubtermInfo]], center: Array, scale: Array) -> tuple[Dummies, ...]:
    """The subterms of which each combination of levels but one has a dummy of its own, beside an intercept in column 0.

    A column in model units is (x - center) / scale, both of shape (p,).
    """
    dummies = []
    for place, subterm in subterms:
        if not subterm.factors or any(factor not in subterm.contrast_matrices for factor in subterm.factors):
            continue
        columns, codes = range(place.start, place.stop), _codes(subterm)
        used = codes != 0
        alone = np.all(used.sum(axis=0) == 1) and np.all(used.sum(axis=1) <= 1) and np.all(codes >= 0)
        if alone and np.sum(~used.any(axis=1)) == 1 and not center[list(columns)].any():
            sizes = codes.max(axis=0) / scale[list(columns)]
            dummies.append(Dummies(0, 1 / float(scale[0]), tuple(columns), tuple(sizes.tolist())))
    return tuple(dummies)


def restricted_dummies(factors: tuple[Dummies, ...], kept: NDArray[np.intp]) -> tuple[Dummies, ...]:
    """The factors all of whose columns are among `kept`, renumbered."""
    place = {int(column): position for position, column in enumerate(kept)}
    return tuple(
        replace(factor, base=place[factor.base], columns=tuple(place[column] for column in factor.columns))
        for factor in factors
        if {factor.base, *factor.columns} <= set(place)
    )


def _codes(subterm: SubtermInfo) -> Array:
    """The coding matrix of a subterm of factors: a row for each combination of levels, the first varying fastest."""
    codes = np.ones((1, 1))
    for factor in subterm.factors:
        matrix = np.asarray(subterm.contrast_matrices[factor].matrix, dtype=np.float64)
        codes = np.asarray(np.kron(matrix, codes), dtype=np.float64)
    return codes

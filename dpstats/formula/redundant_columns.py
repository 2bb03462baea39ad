"""Columns of a design that are linear combinations of others in every row that the Domain allows."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Domain, Levels, Range
from dpstats.errors import FormulaError
from dpstats.formula.coding import PublicFactor, factor_values, refuse_repeated_sums
from dpstats.formula.expression import Apply, Column, categorical, columns_of, may_miss
from dpstats.formula.parse import Formula
from dpstats.formula.patsy_internals import DesignInfo, SubtermInfo, Term
from dpstats.formula.public_frame import SEED, Codes, Encoded, drawn_rows
from dpstats.formula.response import Condition
from dpstats.formula.syntax import locate
from dpstats.formula.vanishing_forms import is_polynomial
from dpstats.wording import joined

Array = NDArray[np.float64]

ROUNDING = 2.0**-44
"""A combination of columns vanishes if it is so small against the sum of its parts' largest values: 256 roundings."""

SUSPECT = 1e-6
"""A column of which so little is left beside those before it, as a share of its norm, is looked at on more rows."""

ROWS_A_COLUMN = 4
LEAST_ROWS = 300
MORE_ROWS = 10_000
"""Rows on which a combination must vanish: the few on which it was looked for need not show every piece of a curve."""

MOST_COLUMNS = 600
"""Beyond it combinations are not looked for: it would take more than a second."""


@dataclass(frozen=True)
class _Columns:
    """The columns of a subterm without the factors that stand alone."""

    term: Term
    subterm: SubtermInfo
    factors: tuple[PublicFactor, ...]


def refuse_redundant(info: DesignInfo, domain: Domain, support: Domain, absorbed: str | None = None) -> None:
    """Raise FormulaError if columns depend on each other linearly in every row, so that no row can tell them apart.

    Of public facts alone. A basis that sums to what other terms have is refused with what to write instead. Rows lie
    within the `support` of the Domain; an `absorbed` factor has a constant.
    """
    refuse_repeated_sums(info, domain, absorbed)
    tangled = [one for one in _tangled(info, domain) if not _unknown(one, domain)]
    if not tangled:
        return
    wide = sum(known.num_columns or len(known.categories) for f, known in info.factor_infos.items() if f in tangled)
    parts = _parts(info, domain, tangled, absorbed)
    for part in parts:
        width = sum(math.prod(_width(info, one.subterm, factor) for factor in one.factors) for one in part)
        if 1 < width <= MOST_COLUMNS:
            count = ROWS_A_COLUMN * max(width, wide) + LEAST_ROWS
            if terms := _dependent(info, support, part, count):
                if support is not domain and not _dependent(info, domain, part, count):
                    raise FormulaError(_cut_off(domain, support, terms))
                raise FormulaError(_message(info, support, parts, terms, absorbed))


def refuse_single_values(parsed: Formula, condition: Condition | None, support: Domain) -> None:
    """Raise FormulaError for a column of the formula that has a single value in all rows of its subset.

    A range that is still to be bought tells nothing of what the subset keeps.
    """
    if condition is None or parsed.subset is None or any(_is_open(support[name]) for name in parsed.subset_columns):
        return
    rows = drawn_rows([(parsed.subset_columns, parsed.subset.code)], support, MORE_ROWS, np.random.default_rng(SEED))
    met = condition(rows)
    kept = {
        name: replace(own, values=own.values[met]) if isinstance(own, Codes) else own[met] for name, own in rows.items()
    }
    response = parsed.response_columns if isinstance(parsed.response.node, Column) else ()
    for name, column in kept.items():
        values = column.values if isinstance(column, Codes) else column
        if name not in (*parsed.exog_columns, *response) or len(np.unique(values)) != 1:
            continue
        # Few rows may have been drawn that meet the condition: then others do that have another value.
        if any(condition({**kept, name: other}).any() for other in _others(column, support[name])):
            continue
        if name in response:
            raise FormulaError(f"the response {name} has the same value in every row that {parsed.subset.code} keeps")
        raise FormulaError(
            f"{name} has the same value in every row that {parsed.subset.code} keeps: leave {name} out of the terms"
        )


def _others(column: Encoded, declared: Range | Levels) -> Iterator[Encoded]:
    """A column of one value with others in its place: each of its other levels, or the next numbers of its range."""
    if isinstance(column, Codes):
        for turn in range(1, len(column.levels)):
            yield replace(column, values=(column.values + turn) % len(column.levels))
    else:
        assert isinstance(declared, Range)
        yield from (np.nextafter(column, end) for end in (declared.low, declared.high) if (column != end).all())


def _tangled(info: DesignInfo, domain: Domain) -> list[PublicFactor]:
    """The factors that share columns of the data, or are not a column themselves: others depend on nothing."""
    factors = list(info.factor_infos)
    groups: list[tuple[set[str], list[PublicFactor]]] = []
    for factor in factors:
        reads = set(columns_of(factor.node))
        shared = [group for group in groups if group[0] & reads]
        groups = [group for group in groups if not group[0] & reads]
        names, members = reads.union(*(names for names, _ in shared)), [one for _, its in shared for one in its]
        groups.append((names, [*members, factor]))
    tangled = {one for _, members in groups for one in members if len(members) > 1 or not _is_column(one, info)}
    return [factor for factor in factors if factor in tangled]


def _is_column(factor: PublicFactor, info: DesignInfo) -> bool:
    """Whether a factor is a column of the data, whose levels patsy codes so that no term repeats another's."""
    node = factor.node
    if isinstance(node, Apply) and isinstance(node.function, partial) and node.function.func is categorical:
        # A matrix that the formula writes out may be anything.
        contrast = node.function.keywords.get("contrast")
        node = node.arguments[0] if not isinstance(contrast, (list, tuple, np.ndarray)) else node
    return isinstance(node, Column)


def _unknown(factor: PublicFactor, domain: Domain) -> bool:
    """Whether what a factor's columns are is not for a few rows to show: features, and what a bought range decides."""
    if isinstance(factor.node, Apply) and factor.node.norms is not None:
        return True
    return any(_is_open(domain[name]) for name in columns_of(factor.node)) and not is_polynomial(factor, domain)


def _is_open(declared: Range | Levels) -> bool:
    """Whether a range may stand in for one that is to be bought."""
    return isinstance(declared, Range) and isinstance(declared.low, float) and (declared.low, declared.high) == (-1, 1)


def _width(info: DesignInfo, subterm: SubtermInfo, factor: PublicFactor) -> int:
    contrast = subterm.contrast_matrices.get(factor)
    return info.factor_infos[factor].num_columns if contrast is None else contrast.matrix.shape[1]


def _parts(
    info: DesignInfo, domain: Domain, tangled: Collection[PublicFactor], absorbed: str | None
) -> list[list[_Columns]]:
    """Columns of tangled factors that multiply the same columns of other factors: parts are independent of each other.

    A factor of levels that is coded in full is a constant and what its coding beside an intercept has.
    """
    parts: dict[frozenset[PublicFactor], list[_Columns]] = {}
    for term, subterms in info.term_codings.items():
        for subterm in subterms:
            own = tuple(factor for factor in subterm.factors if factor in tangled)
            rest = [factor for factor in subterm.factors if factor not in tangled]
            if any(_unknown(factor, domain) for factor in rest):
                continue
            choices = []
            for factor in rest:
                beside, whole = frozenset({factor}), frozenset[PublicFactor]()
                contrast = subterm.contrast_matrices.get(factor)
                levels = 0 if contrast is None else contrast.matrix.shape[0]
                in_full = contrast is not None and contrast.matrix.shape[1] == levels
                choices.append([*([whole] if in_full else []), *([beside] if levels != 1 else [])])
            for chosen in itertools.product(*choices):
                parts.setdefault(frozenset().union(*chosen), []).append(_Columns(term, subterm, own))
    if absorbed is not None and not any(not one.term.factors for one in parts.get(frozenset(), ())):
        parts[frozenset()] = [_Columns(Term([]), SubtermInfo([], {}, 1), ()), *parts.get(frozenset(), ())]
    return list(parts.values())


def _dependent(info: DesignInfo, support: Domain, part: Sequence[_Columns], count: int) -> list[Term]:
    """The terms of the first columns of a part that depend on each other, none if all are independent."""
    random = np.random.default_rng(SEED)
    rows, owners = _evaluated(info, support, part, count, random)
    norms = np.linalg.norm(rows, axis=0)
    # The rows need not have every combination of levels, and a column of zeros repeats no other.
    used = np.flatnonzero(norms > 0)
    if len(rows) <= 2 * len(used):
        return []
    unit = rows[:, used] / norms[used]
    left = np.abs(np.diag(np.linalg.qr(unit, mode="r")))
    suspects = np.flatnonzero(left < SUSPECT)
    more = _evaluated(info, support, part, max(count, MORE_ROWS), random)[0][:, used] if len(suspects) else rows
    largest = np.abs(more).max(axis=0, initial=0.0)
    more = more / np.where(largest > 0, largest, 1.0)
    for column in suspects:
        loads = np.append(-np.linalg.lstsq(more[:, :column], more[:, column], rcond=None)[0], 1.0)
        total = more[:, : column + 1] @ loads
        if np.abs(total).max() <= ROUNDING * np.abs(loads).sum():
            places = used[: column + 1][np.abs(loads) > SUSPECT * np.abs(loads).max()]
            return list(dict.fromkeys(owners[place].term for place in places))
    return []


def _evaluated(
    info: DesignInfo, support: Domain, part: Sequence[_Columns], count: int, random: np.random.Generator
) -> tuple[Array, list[_Columns]]:
    """Columns on rows drawn from the Domain, but for rows that a fit would leave out, and whose columns they are."""
    factors = list(dict.fromkeys(factor for one in part for factor in one.factors))
    codes = [(columns_of(factor.node), factor.code) for factor in factors]
    values, known = factor_values(factors, drawn_rows(codes, support, count, random))
    columns, owners = [], []
    for one in part:
        own = np.ones((count, 1))
        for factor in one.factors:
            contrast = one.subterm.contrast_matrices.get(factor)
            # A constant factor is one number for all rows.
            each = values[factor].T if contrast is None else contrast.matrix[values[factor]]
            own = (own[:, :, None] * np.broadcast_to(each, (count, each.shape[1]))[:, None, :]).reshape(count, -1)
        columns.append(own)
        owners += [one] * own.shape[1]
    whole = np.concatenate(columns, axis=1)
    return whole[np.broadcast_to(known, count) & np.isfinite(whole).all(axis=1)], owners


def _adds_nothing(info: DesignInfo, support: Domain, parts: Sequence[Sequence[_Columns]], term: Term) -> bool:
    """Whether all columns of a term are linear combinations of those of other terms."""
    for part in parts:
        if any(one.term == term for one in part):
            rows, owners = _evaluated(info, support, part, MORE_ROWS, np.random.default_rng(SEED))
            rows = rows / np.maximum(np.abs(rows).max(axis=0, initial=0.0), sys.float_info.min)
            rest = [place for place, owner in enumerate(owners) if owner.term != term]
            if np.linalg.matrix_rank(rows[:, rest], tol=SUSPECT) < np.linalg.matrix_rank(rows, tol=SUSPECT):
                return False
    return True


def _cut_off(domain: Domain, support: Domain, terms: Sequence[Term]) -> str:
    """That a curve over a declared range has too many columns for the part of it whose rows are kept."""
    named = [term for term in terms if term.factors]
    read = dict.fromkeys(name for term in named for factor in term.factors for name in columns_of(factor.node))
    narrowed = ((name, support[name]) for name in read if support[name] != domain[name])
    cut = {name: one for name, one in narrowed if isinstance(one, Range)}
    kept = joined([f"{name} in ({one.low:g}, {one.high:g})" for name, one in cut.items()])
    what = f"columns of {joined([term.name() for term in named])} depend on each other linearly"
    why = f"a fit keeps only rows with {kept}, and knots lie all over the declared range"
    narrower = joined([f"a narrower range of {name}" for name in cut])
    return locate(f"{what}: {why}; declare {narrower}, or take fewer columns (df=)", named[-1].factors[0].at)


def _message(
    info: DesignInfo, support: Domain, parts: Sequence[Sequence[_Columns]], terms: Sequence[Term], absorbed: str | None
) -> str:
    """What depends on what, and which term to leave out."""
    constant = "the intercept" if absorbed is None else f"a constant (the levels of {absorbed} add up to one)"
    named, always = [term for term in terms if term.factors], "in every row that the Domain allows"
    names = [term.name() if term.factors else constant for term in terms]
    coded = [factor for term in named for factor in term.factors if info.factor_infos[factor].type == "categorical"]
    coded = list(dict.fromkeys(coded))
    if len(coded) > 1 and len(read := {columns_of(factor.node) for factor in coded}) == 1:
        column = joined(read.pop())
        what = f"{joined([factor.code for factor in coded])} code the same column, {column}: their columns depend on"
        return locate(f"{what} each other {always}; write one of them in every term", coded[-1].at)
    for term in reversed(named):
        if _adds_nothing(info, support, parts, term):
            others = joined([name for name in names if name != term.name()])
            what = f"a linear combination of {others}" if len(named) > 1 else "the same"
            return locate(f"{term.name()} is {what} {always}; leave {term.name()} out", term.factors[0].at)
    at = named[-1].factors[0].at
    bins = [factor.code for factor in named[0].factors if may_miss(factor.node)]
    if len(named) == 1 and bins:
        what = f"{bins[0]}: no value of the declared ranges is in one of its bins, so its columns add up to"
        return locate(f"{what} {constant}; leave that bin out", at)
    what, instead = f"columns of {joined(names)}", joined([term.name() for term in named], "or")
    return locate(f"{what} depend on each other linearly {always}; leave {instead} out", at)

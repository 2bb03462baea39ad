"""What a design knows of every matrix sum of w x x': quadratic forms that vanish on its rows, columns that read the
same numbers."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Domain, Levels, Range
from dpstats.formula.coding import PublicFactor
from dpstats.formula.expression import columns_of
from dpstats.formula.joint_bodies import JointBody
from dpstats.formula.reader import ReadableDesign
from dpstats.inference import JointValues
from dpstats.privacy.information import JointColumns, optimal_design

LARGEST_POWER = 12

AFFINE = ("center", "standardize", "scale")
"""Transforms of their first argument that move and stretch it."""


def is_polynomial(factor: PublicFactor, domain: Domain) -> bool:
    """Whether a factor's columns are polynomials of columns that are declared by a range.

    Not by pieces, as a spline or np.where is: its identities may hold on all pieces but a small one.
    """
    ranges = all(isinstance(domain[name], Range) for name in columns_of(factor.node))
    return ranges and _polynomial(ast.parse(factor.code, mode="eval").body)


def _polynomial(tree: ast.AST) -> bool:
    match tree:
        case ast.Name():
            return True
        case ast.Call(func=ast.Name("Q")):
            return True
        case ast.Call(func=ast.Name("I"), args=[inner]):
            return _polynomial(inner)
        case ast.Call(func=ast.Name(name), args=[inner, *_]) if name in AFFINE:
            return _polynomial(inner)
        # Of an expression it clips what lies beyond the values that its ends were learned from.
        case ast.Call(func=ast.Name("poly"), args=[inner, *_]):
            return isinstance(inner, ast.Name)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
            return _polynomial(inner)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            return all(_constant(side) or _polynomial(side) for side in (left, right))
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _polynomial(left) and _constant(right)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() | float() as power)):
            return _polynomial(left) and power in range(1, LARGEST_POWER + 1)
    return False


def _constant(tree: ast.AST) -> bool:
    return isinstance(tree, ast.Constant) and type(tree.value) in (int, float)


Array = NDArray[np.float64]
Values = Mapping[Any, NDArray[Any]]

MOST_COLUMNS = 45
"""Beyond it forms are not looked for: their number grows with the square of the columns."""

MOST_ROWS = 30_000
"""Designs that need more rows to show every combination of levels are taken to have no forms."""

REPEATS = 3
"""Rows for each combination of the levels of two terms."""

SEED = 20_261_122
"""Public: the rows are a function of the formula's coding."""

VANISHING = 1e-12
"""Mean square of a form on rows, its coefficients' squares adding up to one and entries of unit mean square."""

DEPENDENT = 1e-8
"""Root mean square of a combination of columns, over that of the largest, below which it vanishes."""


def design_forms(spec: ReadableDesign, columns: NDArray[np.intp] | None = None) -> Array:
    """Symmetric C, shape (q, p, p), that span the forms with x'C x = 0 in every row x of the design in model units.

    Of some `columns`, or of all. No forms for more than `MOST_COLUMNS` columns, or too many combinations of levels.
    """
    kept = np.arange(len(spec.names)) if columns is None else columns
    rows = _symbolic_rows(spec) if len(kept) <= MOST_COLUMNS else None
    return np.zeros((0, len(kept), len(kept))) if rows is None else vanishing_forms(rows[:, kept])


def vanishing_forms(rows: Array) -> Array:
    """Symmetric C, shape (q, p, p), that span the forms with x'C x = 0 in all of `rows`, shape (m, p).

    The rows must be so many and so varied that what vanishes on them does on every row.
    """
    upper, axes = np.triu_indices(rows.shape[1]), _own_axes(rows)
    count, free = len(upper[0]), rows @ axes
    total = np.zeros((count, count))
    for start in range(0, len(free), 4096):
        part = free[start : start + 4096]
        products = part[:, upper[0]] * part[:, upper[1]]
        total += products.T @ products
    deviation = np.sqrt(np.diag(total) / max(len(rows), 1))
    unit = np.where(deviation > 0, deviation, 1.0)
    values, vectors = np.linalg.eigh(total / np.outer(unit, unit) / max(len(rows), 1))
    loads = (vectors[:, values <= VANISHING] / unit[:, None]).T
    forms = np.zeros((len(loads), rows.shape[1], rows.shape[1]))
    forms[:, upper[0], upper[1]] = loads / 2
    turned = axes @ (forms + forms.transpose(0, 2, 1)) @ axes.T
    return np.asarray((turned + turned.transpose(0, 2, 1)) / 2, dtype=np.float64)


def _own_axes(rows: Array) -> Array:
    """T, shape (p, p), with columns of x'T uncorrelated and of mean square 1, or all but 0.

    A number of a short range far from zero and its square hardly differ: the square of the difference is small, but no
    smaller than is to be expected of it.
    """
    unit = np.sqrt(np.mean(rows**2, axis=0)) if len(rows) else np.ones(rows.shape[1])
    unit = np.where(unit > 0, unit, 1.0)
    triangle = np.asarray(np.linalg.qr(rows / unit, mode="r"))
    _, sizes, axes = np.linalg.svd(triangle / math.sqrt(max(len(rows), 1)))
    padded = np.concatenate((sizes, np.zeros(rows.shape[1] - len(sizes))))
    large = padded > DEPENDENT * padded.max(initial=0.0)
    return np.asarray(axes.T / np.where(large, padded, 1.0) / unit[:, None], dtype=np.float64)


def _symbolic_rows(spec: ReadableDesign) -> Array | None:
    """Rows in model units for levels in all combinations of two terms, and normal numbers; None if they are many."""
    known = spec.coding.factor_infos
    levels = {factor: len(info.categories) for factor, info in known.items() if info.type == "categorical"}
    terms = [frozenset(factor for factor in term.factors if factor in levels) for term in spec.coding.term_codings]
    pairs = dict.fromkeys(one | other for one, other in itertools.combinations_with_replacement(terms, 2))
    free = 2 * len(spec.names) * (len(spec.names) + 1)
    counts = [REPEATS * math.prod(levels[factor] for factor in pair) for pair in pairs]
    total = free + sum(counts)
    if total > MOST_ROWS:
        return None
    random = np.random.default_rng(SEED)
    values: dict[Any, NDArray[Any]] = {factor: random.integers(0, size, total) for factor, size in levels.items()}
    start = free
    for pair, count in zip(pairs, counts, strict=True):
        fixed = [factor for factor in levels if factor in pair]
        if fixed:
            grid = np.indices([levels[factor] for factor in fixed]).reshape(len(fixed), -1)
            for factor, codes in zip(fixed, grid, strict=True):
                values[factor][start : start + count] = np.tile(codes, REPEATS)
        start += count
    values |= _numbers(spec, total, random)
    return (_coded_rows(spec, values, total) - spec.center) / spec.scale


def _numbers(spec: ReadableDesign, count: int, random: np.random.Generator) -> dict[Any, NDArray[Any]]:
    """The columns of numeric factors: polynomials of numbers within their ranges, others normal, by factor."""
    sizes, values, drawn = _sizes(spec), {}, {}
    for factor, info in spec.coding.factor_infos.items():
        if info.type != "numerical":
            continue
        if is_polynomial(factor, spec.domain):
            for name in columns_of(factor.node):
                declared = spec.support[name]
                if name not in drawn and isinstance(declared, Range):
                    drawn[name] = random.uniform(declared.low, declared.high, count)
            values[factor] = factor.eval(None, drawn).reshape(count, info.num_columns)
        else:
            values[factor] = sizes[factor] * random.standard_normal((count, info.num_columns))
    return values


def _sizes(spec: ReadableDesign) -> dict[Any, float]:
    """For each factor the largest absolute value of the columns that it enters, in the user's units.

    Numbers much smaller than their column's centre would be almost constant in model units, and nearly collinear with
    the intercept: squares of what is left would seem to vanish.
    """
    largest = np.maximum(np.abs(spec.lower), np.abs(spec.upper))
    sizes: dict[Any, float] = {}
    for columns, subterm in spec.subterms:
        # A factor of one level has no columns beside an intercept.
        size = float(largest[columns].max(initial=0.0))
        for factor in subterm.factors:
            sizes[factor] = max(sizes.get(factor, 0.0), size)
    return {factor: size if size > 0 else 1.0 for factor, size in sizes.items()}


def _coded_rows(spec: ReadableDesign, values: Values, count: int) -> Array:
    """The design's columns in the user's units from each factor's codes or numbers, shape (count, p)."""
    parts = []
    for _, subterm in spec.subterms:
        columns = np.ones((count, 1))
        for factor in subterm.factors:
            contrast = subterm.contrast_matrices.get(factor)
            own = values[factor] if contrast is None else contrast.matrix[values[factor]]
            # The first factor's columns vary fastest.
            columns = (own[:, :, None] * columns[:, None, :]).reshape(count, -1)
        parts.append(columns)
    return np.concatenate(parts, axis=1)


GRID = {1: 65, 2: 13, 3: 7, 4: 5}
"""Grid points of each range, by how many ranges there are: the ends, the middle, and some between."""

NEAR_ENDS = {
    1: 10.0 ** -np.linspace(0.5, 6, 45),
    2: 10.0 ** -np.array([1.5, 2.5, 3.5, 5]),
    3: 10.0 ** -np.array([2, 4]),
}
"""Further points at these shares of a range from both of its ends: logarithms and reciprocals turn there."""

FINE_GRID = {1: 2001, 2: 65, 3: 17, 4: 9}
FINE_ENDS = {1: 10.0 ** -np.linspace(0.5, 6, 200), 2: 10.0 ** -np.linspace(0.5, 5, 12), 3: 10.0 ** -np.arange(1, 5.0)}
"""The points at which a body is checked to hold every row."""

MOST_WORK = 400_000
"""Points times squared columns: beyond it the search for an optimal design would take too long."""


ROWS_AT_ONCE = 10_000
"""Grid points that are encoded together, give or take a grid."""


def joined_columns(spec: ReadableDesign, among: Collection[int] | None = None) -> tuple[JointColumns, ...]:
    """The columns of terms that share variables, with the optimal design on a grid; none without an intercept.

    Of those that are all `among` some columns, or of all.
    """
    designs: list[JointColumns] = []
    known: dict[tuple[tuple[int, ...], bytes], JointColumns | None] = {}
    for columns, points in _points(spec, among, fine=False) if spec.has_intercept else ():
        if len(points) * (len(columns) + 1) ** 2 <= MOST_WORK:
            own = points[:, columns]
            key = own.shape, own.tobytes()
            if key not in known:
                known[key] = optimal_design(columns, own)
            if (one := known[key]) is not None:
                designs.append(one._replace(columns=columns))
    return tuple(designs)


def joint_values(spec: ReadableDesign) -> tuple[JointValues, ...]:
    """The values that columns of terms that share variables take on a fine grid, where that is not too large."""
    return tuple(
        JointValues(columns, points[:, columns])
        for columns, points in _points(spec, None, fine=True)
        if len(points) * (len(columns) + 1) ** 2 <= MOST_WORK
    )


def stretched_bodies(spec: ReadableDesign, bodies: Sequence[JointBody], widths: Mapping[int, float]) -> list[JointBody]:
    """Bodies that hold the rows of a finer grid too; without those that are then too large, or cannot be checked.

    Polynomials hardly move between the points of the first grid.
    """
    curved = _curved(spec)
    ellipsoids = [one for one in bodies if not curved & _read_by(spec, one.columns)]
    left = {one.columns: one for one in bodies if one not in ellipsoids}
    among = {column for columns in left for column in columns}
    for columns, points in _points(spec, among, fine=True) if left else ():
        if (one := left.get(columns)) is not None:
            one = one.stretched(float(np.max(one.gauges(points[:, columns]), initial=0.0)))
            ellipsoids += [one] if one.worth_having(widths) else []
    return sorted(ellipsoids, key=lambda one: one.columns)


def _curved(spec: ReadableDesign) -> set[str]:
    """The variables of factors that are no polynomials of numbers."""
    infos = spec.coding.factor_infos.items()
    curved = (one for one, info in infos if info.type == "numerical" and not is_polynomial(one, spec.domain))
    return {name for factor in curved for name in columns_of(factor.node)}


def _read_by(spec: ReadableDesign, columns: Sequence[int]) -> set[str]:
    """The variables of the terms of some columns."""
    info, variables = spec.coding, set()
    for term, where in info.term_slices.items():
        if any(where.start <= column < where.stop for column in columns):
            variables |= {name for factor in term.factors for name in columns_of(factor.node)}
    return variables


def _groups(spec: ReadableDesign) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Columns and variables of terms that share a variable, where a body for each subterm would be too large."""
    info = spec.coding
    groups: list[tuple[set[int], set[str], int]] = []
    for term in info.term_codings:
        where = info.term_slices[term]
        inside = set(range(where.start, where.stop))
        reads = {name for factor in term.factors for name in columns_of(factor.node)}
        if not reads or not inside:
            continue
        shared = [group for group in groups if group[1] & reads]
        groups = [group for group in groups if not group[1] & reads]
        columns, names = inside.union(*(one for one, _, _ in shared)), reads.union(*(two for _, two, _ in shared))
        groups.append((columns, names, 1 + sum(count for _, _, count in shared)))
    coded = {column for factor in spec.dummies for column in factor.columns}
    return [
        (tuple(sorted(columns)), tuple(sorted(names)))
        for columns, names, terms in groups
        if terms > 1 or (len(columns) > 1 and not columns <= coded)
    ]


def _points(
    spec: ReadableDesign, among: Collection[int] | None, *, fine: bool
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """The groups' columns, each with rows of the design in model units for a grid of its variables."""
    groups = [(columns, names) for columns, names in _groups(spec) if among is None or set(columns) <= set(among)]
    grids = [(columns, grid) for columns, names in groups if (grid := _grid(spec, names, fine=fine)) is not None]
    ends = itertools.accumulate(len(next(iter(grid.values()))) for _, grid in grids)
    for _, some in itertools.groupby(zip(ends, grids, strict=True), lambda one: one[0] // ROWS_AT_ONCE):
        together = [one for _, one in some]
        table: dict[str, list[object]] = {name: [] for name in spec.parsed.exog_columns}
        sizes = []
        for _, grid in together:
            sizes.append(len(next(iter(grid.values()))))
            for name, cells in table.items():
                cells += grid[name] if name in grid else [_one_value(spec.support[name])] * sizes[-1]
        # Numbers as an array, of which no cell is looked at by itself.
        ranged = {name: np.array(table[name]) for name in table if isinstance(spec.support[name], Range)}
        exog, complete = spec.exog({**table, **ranged})
        end = 0
        for (columns, _), size in zip(together, sizes, strict=True):
            at = slice(end, end := end + size)
            yield columns, np.asarray(exog[at][complete[at]], dtype=np.float64)


def _one_value(declared: Range | Levels) -> object:
    return declared.values[0] if isinstance(declared, Levels) else declared.high


def _grid(spec: ReadableDesign, variables: tuple[str, ...], *, fine: bool) -> dict[str, list[object]] | None:
    """A grid of some variables, each with its value at every point; None where it would be too fine."""
    ranges = [name for name in variables if not isinstance(spec.support[name], Levels)]
    if len(ranges) > max(GRID):
        return None
    choices: dict[str, list[object]] = {}
    even, near, curved = (FINE_GRID, FINE_ENDS, set(ranges)) if fine else (GRID, NEAR_ENDS, _curved(spec))
    for name in variables:
        declared = spec.support[name]
        if isinstance(declared, Levels):
            choices[name] = list(declared.values)
        else:
            values, width = np.linspace(declared.low, declared.high, even[len(ranges)]), declared.high - declared.low
            if name in curved:
                shares = width * near.get(len(ranges), np.zeros(0))
                values = np.unique(np.concatenate([values, declared.low + shares, declared.high - shares]))
            choices[name] = values.tolist()
    if math.prod(len(values) for values in choices.values()) > MOST_WORK / 4:
        return None
    rows = list(itertools.product(*choices.values()))
    return {name: [row[at] for row in rows] for at, name in enumerate(choices)}

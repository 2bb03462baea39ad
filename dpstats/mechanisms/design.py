"""What mechanisms know of a design: bounds on its rows, and the variables of its formula."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats import wording
from dpstats.arguments import near_miss, safe_repr
from dpstats.cached import cached_property
from dpstats.domain import Levels, Range
from dpstats.errors import ArgumentError
from dpstats.formula.bounds import Term, restrict_images, term_norm
from dpstats.formula.coding import restricted_dummies
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import Column, columns_of
from dpstats.formula.joint_bodies import JointBody, number_widths
from dpstats.inference import DeclaredRanges, Dummies, JointValues
from dpstats.mechanisms.options import NamedVariables
from dpstats.privacy.information import JointColumns
from dpstats.privacy.k_norm import Image

Vector = NDArray[np.float64]

FARTHEST = 1e70
"""A coefficient in the user's units may be so many times one in model units, or the inverse, where it has an error."""

NormName = Literal["l1", "l2", "linf"]
NORM_NAMES: tuple[NormName, ...] = ("l1", "l2", "linf")


class Bounds(Protocol):
    """Names and bounds of a design's columns: a function of formula, Domain and options alone."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, p of them."""

    @property
    def terms(self) -> Sequence[Term]:
        """The terms, in the order of their columns."""

    @property
    def images(self) -> tuple[Image, ...]:
        """Bodies that hold every row, for noise cut to the design; none where only norms are bounded."""

    @property
    def joint(self) -> tuple[JointBody, ...]:
        """Bodies of columns that move together, which hold every row besides the others."""

    @property
    def dummies(self) -> tuple[Dummies, ...]:
        """The columns that are dummies of a factor beside an intercept."""

    @property
    def joined(self) -> tuple[JointColumns, ...]:
        """Columns that move together, as a number and its square, with the optimal design on what they can be."""

    @property
    def joint_values(self) -> tuple[JointValues, ...]:
        """The values that columns which move together take, on a grid of what they read."""

    def forms(self, columns: NDArray[np.intp] | None = None) -> Vector:
        """Symmetric C, shape (q, p, p), with x'C x = 0 in every row x, of all columns or of some."""

    @property
    def offset_bound(self) -> float:
        """The greatest size of a row's offset in model units."""

    @property
    def offset_high(self) -> float:
        """The greatest offset of a row in model units."""

    @property
    def score_ratio(self) -> float | None:
        """The covariance of a row's score over its information if the model is right; None where weights leave it open.

        1 for rows that count alike, 1 over the greatest number of trials for rows of trials.
        """

    def back_transform(self) -> tuple[NDArray[np.float64], Vector]:
        """Matrix A, shape (p, p), and shift, shape (p,): coefficients in the user's units are A @ scaled + shift."""

    def norm_bound(self, which: NormName, weights: Vector) -> float:
        """The supremum over rows of the norm of x * weights; infinite where no bound is known."""

    def curvature_ratio(self, curvature: Vector) -> float:
        """kappa: the supremum over rows of sum_j x_j**2 / curvature_j."""


class PublicDesign(Bounds, Protocol):
    """A whole design: its columns' bounds and its response."""

    @property
    def has_intercept(self) -> bool:
        """Whether the first column is an intercept."""

    @property
    def response_name(self) -> str:
        """What the model explains."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Public oddities worth telling the user."""

    def response_scaling(self) -> tuple[float, float]:
        """Middle and half width: a continuous response in the user's units is middle + half width * scaled."""

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""


@dataclass(frozen=True)
class ArrayDesign:
    """The design of plain arrays: rows are clipped to the stated norms."""

    names: tuple[str, ...]
    norms: Mapping[NormName, float]  # bounds on the rows' norms, "l2" among them
    response_name: str = "y"
    has_intercept: bool = False
    notes: tuple[str, ...] = ()
    offset_bound: float = 0.0  # offsets are clipped to this size; 0 without any
    weight_bound: float | None = None  # weights are clipped to this and divided by it; None without any

    @property
    def offset_high(self) -> float:
        """Offsets are clipped to this on either side."""
        return self.offset_bound

    @property
    def score_ratio(self) -> float | None:
        """1, or None with weights."""
        return 1.0 if self.weight_bound is None else None

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """One term holding every column."""
        size = len(self.names)
        maxima = np.full(size, min(self.norms.values()))
        largest = float(self.norms.get("l1", np.inf))
        return (Term("exog", slice(0, size), maxima, self.norms["l2"], min(largest, float(np.sum(maxima)))),)

    @property
    def images(self) -> tuple[Image, ...]:
        """None: an array's columns are bounded together."""
        return ()

    @property
    def joint(self) -> tuple[JointBody, ...]:
        return ()

    @property
    def dummies(self) -> tuple[Dummies, ...]:
        return ()

    @property
    def joined(self) -> tuple[JointColumns, ...]:
        return ()

    @property
    def joint_values(self) -> tuple[JointValues, ...]:
        return ()

    def forms(self, columns: NDArray[np.intp] | None = None) -> Vector:
        size = len(self.names) if columns is None else len(columns)
        return np.zeros((0, size, size))

    def back_transform(self) -> tuple[NDArray[np.float64], Vector]:
        """The identity: arrays are in model units already."""
        return np.eye(len(self.names)), np.zeros(len(self.names))

    def response_scaling(self) -> tuple[float, float]:
        """The identity: middle 0, half width 1."""
        return 0.0, 1.0

    def norm_bound(self, which: NormName, weights: Vector) -> float:
        return term_norm(self.terms[0], which, weights)

    def curvature_ratio(self, curvature: Vector) -> float:
        return self.norm_bound("l2", curvature**-0.5) ** 2

    def to_dict(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "norms": dict(self.norms),
            "response_name": self.response_name,
            "offset_bound": self.offset_bound,
            "weight_bound": self.weight_bound,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ArrayDesign:
        """The design whose `to_dict` gave `stored`."""
        later = {name: stored[name] for name in ("offset_bound", "weight_bound") if name in stored}
        return cls(tuple(stored["names"]), stored["norms"], stored["response_name"], **later)


@dataclass(frozen=True, eq=False)
class SubDesign:
    """Some columns of a design, at increasing `positions`, under the bounds of the whole."""

    design: Bounds
    positions: NDArray[np.intp]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.design.names[j] for j in self.positions)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """What is left of each term."""
        left: list[Term] = []
        start = 0
        for term in self.design.terms:
            inside = self.positions[(self.positions >= term.columns.start) & (self.positions < term.columns.stop)]
            maxima = term.maxima[inside - term.columns.start]
            if len(inside):
                norms = min(term.l2, float(np.linalg.norm(maxima))), min(term.l1, float(np.sum(maxima)))
                left.append(Term(term.name, slice(start, start + len(inside)), maxima, *norms))
            start += len(inside)
        return tuple(left)

    @property
    def offset_bound(self) -> float:
        return self.design.offset_bound

    @property
    def offset_high(self) -> float:
        return self.design.offset_high

    @property
    def score_ratio(self) -> float | None:
        return self.design.score_ratio

    @cached_property
    def images(self) -> tuple[Image, ...]:
        """What is left of the bodies."""
        return restrict_images(self.design.images, self.positions)

    @property
    def joint(self) -> tuple[JointBody, ...]:
        """Those of which all columns are left."""
        return tuple(one for body in self.design.joint if (one := body.among(self._places)) is not None)

    @property
    def _places(self) -> dict[int, int]:
        return {int(column): position for position, column in enumerate(self.positions)}

    @property
    def dummies(self) -> tuple[Dummies, ...]:
        """Those that are whole."""
        return restricted_dummies(self.design.dummies, self.positions)

    @property
    def joined(self) -> tuple[JointColumns, ...]:
        """Those that are left in part or whole."""
        left = (one.among(self._places) for one in self.design.joined)
        return tuple(one for one in left if one is not None)

    @property
    def joint_values(self) -> tuple[JointValues, ...]:
        """Those that are left in part or whole."""
        left = (one.among(self._places) for one in self.design.joint_values)
        return tuple(one for one in left if one is not None)

    def forms(self, columns: NDArray[np.intp] | None = None) -> Vector:
        """What is known of the columns kept, or of some of them."""
        return self.design.forms(self.positions if columns is None else self.positions[columns])

    def back_transform(self) -> tuple[NDArray[np.float64], Vector]:
        """The whole design's, all other coefficients being zero."""
        matrix, shift = self.design.back_transform()
        return matrix[np.ix_(self.positions, self.positions)], shift[self.positions]

    def norm_bound(self, which: NormName, weights: Vector) -> float:
        """The whole design's bound with no weight on the other columns."""
        spread = np.zeros(len(self.design.names))
        spread[self.positions] = weights
        return self.design.norm_bound(which, spread)

    def curvature_ratio(self, curvature: Vector) -> float:
        return self.norm_bound("l2", curvature**-0.5) ** 2


def has_errors(design: Bounds) -> bool:
    """Whether errors can be had in the user's units: the noise of their variances is of fourth powers."""
    sizes = np.abs(design.back_transform()[0])
    return bool(np.all((sizes == 0) | ((sizes > 1 / FARTHEST) & (sizes < FARTHEST))))


def constant_column(design: Bounds) -> tuple[int, float] | None:
    """A column that has the same value in every row, and that value; None if none is known.

    The bodies of the design's terms tell. A name does not: an array's column may be called Intercept, whatever is in
    it.
    """
    varying = {column for image in design.images if image.block.kind != "intercept" for column in image.columns}
    for image in design.images:
        if image.block.kind == "intercept":
            for column, value in zip(image.columns, np.asarray(image.matrix)[0], strict=True):
                if column not in varying and value != 0:
                    return int(column), float(value)
    return None


def declared_ranges(design: Bounds) -> DeclaredRanges:
    """Those of the columns that are declared numbers themselves, other than 0 and 1."""
    whole = design.design if isinstance(design, SubDesign) else design
    widths = np.zeros(len(design.names))
    if isinstance(whole, DesignSpec):
        alone = number_widths(design.images)
        for term in design.terms:
            declared = whole.domain.get(term.name)
            if isinstance(declared, Range) and not declared.is_binary:
                widths[term.columns.start] = alone.get(term.columns.start, 0.0)
    return DeclaredRanges(widths, constant_column(design))


def constant_places(design: Bounds, equations: int = 1) -> tuple[int, ...]:
    """Where the column is that `constant_column` knows, in each equation; those of a column are one after the other."""
    known = constant_column(design)
    return () if known is None else tuple(known[0] * equations + one for one in range(equations))


def array_norms(row_norm: float | Mapping[str, float], size: int) -> dict[NormName, float]:
    """The row bounds of an array design, checked, with an l2 bound implied by the others if missing.

    ArgumentError unless `row_norm` is a number from 1e-50 to 1e50 or a dict of such under the keys l1, l2, linf.
    """
    given = dict(row_norm) if isinstance(row_norm, Mapping) else {"l2": row_norm}
    unknown = set(given) - set(NORM_NAMES)
    if unknown or not given:
        raise ArgumentError(
            f"row_norm must be a number or a dict with keys among {list(NORM_NAMES)}, got {safe_repr(row_norm)}"
        )
    for key, value in given.items():
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        # The fourth power of a row's norm times that of a count must be a normal float: curvature squares it once more.
        if not number or not 1e-50 <= value <= 1e50:
            raise ArgumentError(f"row_norm must be a number from 1e-50 to 1e50, got {safe_repr(value)} for {key}")
    norms: dict[NormName, float] = {name: float(given[name]) for name in NORM_NAMES if name in given}
    implied = min(norms.get("l1", np.inf), norms.get("linf", np.inf) * np.sqrt(size))
    norms["l2"] = min(norms.get("l2", np.inf), float(implied))
    return norms


class Step(NamedTuple):
    """A change of a number, which moves one column of every row."""

    column: int
    amount: float  # in model units


class Variable(NamedTuple):
    """A term of one factor that reads one column of the data: a factor with its levels, or a plain number."""

    name: str  # as the formula writes it
    column_name: str  # of the data
    factor: Dummies | None
    levels: tuple[Any, ...]  # the reference first
    column: int  # the first one
    unit: float  # what a unit of a number adds to its column in model units
    alone: bool  # no other term reads the data's column: a change moves these columns of the design alone

    def step(self, size: float) -> Step:
        """A change of a number."""
        return Step(self.column, size * self.unit)


def formula_variables(design: Bounds) -> dict[str, Variable]:
    """By column of the data, the variables that have a term of their own."""
    if not isinstance(design, DesignSpec):
        return {}
    nodes = {factor.code: factor.node for term in design.parsed.terms for factor in term}
    read = Counter(name for term in design.parsed.terms for name in {c for f in term for c in columns_of(f.node)})
    variables: dict[str, Variable] = {}
    for term in design.coding.terms:
        code = term.factors[0].code if len(term.factors) == 1 else None
        names = () if code is None else columns_of(nodes[code])
        if code is None or len(names) != 1:
            continue
        column, alone = design.coding.term_slices[term].start, read[names[0]] == 1
        factor = next((one for one in design.dummies if one.columns[:1] == (column,)), None)
        if factor is not None:
            variables[names[0]] = Variable(code, names[0], factor, level_names(design, factor), column, 0.0, alone)
        elif isinstance(nodes[code], Column) and design.coding.factor_infos[term.factors[0]].type == "numerical":
            variables[names[0]] = Variable(code, names[0], None, (), column, 1 / float(design.scale[column]), alone)
    return variables


def divided_variables(design: Bounds) -> list[str]:
    """Columns of the data that move several columns of the design and are no factor by themselves."""
    if not isinstance(design, DesignSpec):
        return []
    nodes = {factor.code: factor.node for term in design.parsed.terms for factor in term}
    sizes: Counter[str] = Counter()
    for term, place in design.coding.term_slices.items():
        for name in {name for factor in term.factors for name in columns_of(nodes[factor.code])}:
            sizes[name] += place.stop - place.start
    alone = {name for name, one in formula_variables(design).items() if one.alone}
    return [name for name, size in sizes.items() if size > 1 and name not in alone]


def level_names(design: DesignSpec, factor: Dummies) -> tuple[Any, ...]:
    """The levels of a factor, the reference first, then as its columns stand."""
    term = next(one for one, place in design.coding.term_slices.items() if place.start == factor.columns[0])
    categories = design.coding.factor_infos[term.factors[0]].categories
    codes = design.coding.term_codings[term][0].contrast_matrices[term.factors[0]].matrix
    order = [int(np.flatnonzero(column)[0]) for column in np.asarray(codes).T]
    reference = next(place for place in range(len(categories)) if place not in order)
    return tuple(categories[place] for place in (reference, *order))


def find_variable(argument: str, design: Bounds, name: str, *, groups: bool = False, alone: bool = True) -> Variable:
    """The variable of a name, the data's or the formula's: one to change, or a factor to take averages by."""
    variables = formula_variables(design)
    right = [one for one in variables.values() if (one.factor is not None if groups else one.alone or not alone)]
    for one in right:
        if isinstance(name, str) and name in (one.column_name, one.name):
            return one
    wanted = "a factor" if groups else "a factor or a plain number"
    which = "whose column no other term reads" if alone and not groups else "with a term of its own"
    known = ", ".join(one.column_name for one in right) or "this formula has none"
    fix = ""
    if isinstance(name, str) and isinstance(design, DesignSpec) and name in design.parsed.exog_columns:
        free = {"variables": "newdata=", "fitstats_variables": "fit.comparisons(..., newdata=...)"}.get(argument)
        fix = f"; {free} changes any column, at public rows and at no charge" if free else ""
        single = [next(iter(term)) for term in design.parsed.terms if len(term) == 1]
        coded = next((factor.code for factor in single if columns_of(factor.node) == (name,)), None)
        if coded is not None and isinstance(design.domain.get(name), Levels) and name not in variables:
            fix += f"; {coded} has no treatment coding, which averages over the rows of the fit need"
        if groups and getattr(design.domain.get(name), "is_binary", False):
            fix = f"; {name!r} is declared as a number: in the domain declare [0, 1], not (0, 1), to make it a factor"
    elif isinstance(name, str) and isinstance(design, DesignSpec):
        near = near_miss(name, [one.column_name for one in right])
        bought = wording.argument("fitstats_by", name) if groups else wording.argument("fitstats_variables")
        planned = "" if argument.startswith("fitstats") else f", and {bought} to the call of the fit"
        fix = f": did you mean {near!r}?" if near else f", which is not in the formula: add it there{planned}"
    raise ArgumentError(f"{argument} must name {wanted} {which}: {known}; got {safe_repr(name)}{fix}")


class Averaged(NamedTuple):
    """What changes and by what, as found in a design."""

    factors: tuple[Dummies, ...]
    steps: tuple[Step, ...]
    by: Dummies | None


def averaged_variables(design: PublicDesign, variables: NamedVariables | None, by: str | None) -> Averaged:
    """What is averaged; ArgumentError where a name is none of the formula. Without names every factor by itself."""
    group = None if by is None else find_variable("fitstats_by", design, by, groups=True).factor
    if variables is None:
        every = formula_variables(design).values()
        return Averaged(tuple(one.factor for one in every if one.alone and one.factor is not None), (), group)
    factors, steps = [], []
    for name, step in variables:
        one = find_variable("fitstats_variables", design, name)
        if one.factor is None:
            steps.append(one.step(1.0 if step is None else step))
        elif step is not None:
            raise ArgumentError(f"fitstats_variables: {safe_repr(name)} is a factor, which has no step: give None")
        else:
            factors.append(one.factor)
    return Averaged(tuple(factors), tuple(steps), group)

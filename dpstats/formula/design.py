"""A design: its facts from formula and Domain, then rows block by block."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.domain import Domain, Range, support_of
from dpstats.errors import DomainError, FormulaError
from dpstats.families import Family
from dpstats.formula import coding
from dpstats.formula.advice import check_counts, dropped_note, gap_notes, power_notes, uncentred_notes, with_response
from dpstats.formula.bounds import LEAST, Array, Term, TermBody, term_bodies, unit_term
from dpstats.formula.expression import Column, columns_of
from dpstats.formula.joint_bodies import JointBody, joint_bodies, number_widths
from dpstats.formula.parse import Formula, is_logarithm, parse
from dpstats.formula.patsy_internals import DesignInfo
from dpstats.formula.reader import ReadableDesign
from dpstats.formula.redundant_columns import refuse_redundant, refuse_single_values
from dpstats.formula.response import (
    Kind,
    ResponseSpec,
    bind_offset,
    bind_response,
    bind_subset,
    bind_weights,
    clipping_response,
)
from dpstats.formula.subset_levels import leaves_out_levels, without_unmet
from dpstats.formula.vanishing_forms import design_forms, joined_columns, joint_values, stretched_bodies
from dpstats.inference import JointValues
from dpstats.privacy.information import JointColumns
from dpstats.privacy.k_norm import SLACK

LEAST_UNIT = 1e-250
"""A coefficient in the user's units is at least so many times one in model units, and at most the inverse."""


@dataclass(frozen=True, eq=False)
class DesignSpec(ReadableDesign):
    """A design as `design_spec` makes it, to and from its plain values. Attributes as for `ScaledDesign`."""

    origin: DesignSpec | None = field(default=None, repr=False)
    """The design with these columns of which the response alone was scaled anew: what follows from columns is its."""

    def with_working(self, low: float, high: float) -> DesignSpec:
        """The design with another scaling of its response; see `ScaledDesign.with_working`."""
        return replace(super().with_working(low, high), origin=self if self.origin is None else self.origin)

    def narrowed(self, ranges: Mapping[str, Range]) -> DesignSpec:
        """The design with other ranges of columns that are terms by themselves: only these are centred and scaled anew.

        DomainError if anything of another column would change.
        """
        domain = self.domain.with_(ranges)._among(self.domain)
        design = _build(self.formula, domain.to_json(), self.response.kind, self.response.trials)
        other = np.array([name not in ranges for name in self.names])
        facts = ("lower", "upper", "center", "scale")
        same = all(np.array_equal(getattr(self, fact)[other], getattr(design, fact)[other]) for fact in facts)
        bounds = [(one.l1, one.l2, one.maxima.tolist()) for one in self.terms]
        same &= bounds == [(one.l1, one.l2, one.maxima.tolist()) for one in design.terms]
        same &= (self.offset_center, self.offset_bound) == (design.offset_center, design.offset_bound)
        if not same or [one.to_dict() for one in self.joint] != [one.to_dict() for one in design.joint]:
            raise DomainError("a narrower range would move other columns")
        working = self.response.working
        return design if working is None else design.with_working(*working)

    @cached_property
    def joined(self) -> tuple[JointColumns, ...]:
        """Columns that move together, as a number and its square, with the optimal design on what they can be."""
        return joined_columns(self) if self.origin is None else self.origin.joined

    @cached_property
    def joint_values(self) -> tuple[JointValues, ...]:
        """The values that columns which move together take."""
        return joint_values(self) if self.origin is None else self.origin.joint_values

    def forms(self, columns: NDArray[np.intp] | None = None) -> Array:
        """What is known of every sum of w x x' over rows; see `dpstats.formula.vanishing_forms.design_forms`."""
        every = columns is None or np.array_equal(columns, np.arange(len(self.names)))
        return self._forms if every else design_forms(self, columns)

    @cached_property
    def _forms(self) -> Array:
        # Forecasts and results ask again and again; of forty columns it takes a second.
        return design_forms(self) if self.origin is None else self.origin._forms

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON: enough to build the design again, and its scaling to compare with."""
        return {
            "formula": self.formula,
            "domain": self.domain.to_dict(),
            "response": self.response.kind,
            "trials": self.response.trials,
            "working": None if self.response.working is None else list(self.response.working),
            "names": list(self.names),
            "center": self.center.tolist(),
            "scale": self.scale.tolist(),
            **({"cut_points": list(self.cut_points)} if self.cut_points else {}),
            **({"absent": list(self.absent)} if self.absent else {}),
            **({"unmet": "left out"} if leaves_out_levels(self.parsed) else {}),
            **({"joint": [body.to_dict() for body in self.joint]} if self.joint else {}),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its plain public values: patsy's part of it cannot be."""
        return DesignSpec.from_dict, (self.to_dict(),)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> DesignSpec:
        """The design that `to_dict` described.

        Raises DomainError if `stored` is incomplete, or this version scales it differently: stored coefficients would
        not fit.
        """
        if missing := {"formula", "domain", "response", "names", "center", "scale"} - set(stored):
            raise DomainError(f"the stored design lacks {sorted(missing)[0]!r}")
        text, declared = parse(stored["formula"]).text, Domain.from_dict(stored["domain"]).to_json()
        left_out = "unmet" in stored  # older designs kept levels that no row of their subset had
        spec = _build(text, declared, stored["response"], stored.get("trials"), unmet_left_out=left_out)
        spec = spec.with_cut_points(stored["cut_points"]) if "cut_points" in stored else spec
        same = list(spec.names) == stored["names"] and all(
            np.allclose(getattr(spec, fact), stored[fact], rtol=1e-9, atol=0) for fact in ("center", "scale")
        )
        if not same:
            raise DomainError("the stored design was made by a version of dpstats that scales columns differently")
        # The bodies that its rows were kept in: a search in floating point found them, on whichever machine.
        joint = tuple(map(JointBody.from_dict, stored.get("joint", ())))
        widths = number_widths(spec.images) if joint else {}
        for body in joint:
            body.check(widths)
        spec = replace(spec, joint=joint)
        spec = spec.without_terms(stored["absent"]) if "absent" in stored else spec
        working = stored.get("working")
        return spec if working is None else spec.with_working(*working)


def design_spec(formula: str, domain: Domain | Mapping[str, Any], *, family: Family) -> DesignSpec:
    """The design of `formula` from public facts; no rows are read.

    The Domain must declare every column read, but for a response whose range the family fixes; else DomainError.
    FormulaError if the formula cannot be parsed, is not row-wise, or has no columns.
    """
    parsed = parse(formula)
    declared = with_response(parsed, Domain.coerce(domain), family)
    for name in parsed.columns:
        if name not in declared:
            raise DomainError(
                f"column {name!r} is not declared; add {{{name!r}: (low, high)}} or {{{name!r}: [levels]}} to the "
                "domain (variables of the calling program are not visible to formulas)"
            )
    check_counts(parsed, family)
    known = declared._among(parsed.columns).to_json()
    return _build(parsed.text, known, family.response, getattr(family, "trials", None))


def requested_spec(
    formula: str, domain: Domain | Mapping[str, Any], *, family: Family, absorbed: str | None = None
) -> DesignSpec:
    """The design of a new call, perhaps beside an `absorbed` factor; see `design_spec`.

    FormulaError too for a response of one value, and for columns that depend on each other linearly in every row. A
    design of such a formula that has been stored is built as it was.
    """
    design = design_spec(formula, domain, family=family)
    if design.response.low == design.response.high:
        raise FormulaError(
            f"the response {design.response.name} has the same value in every row that the Domain allows"
        )
    refuse_single_values(design.parsed, design.subset, design.support)
    refuse_redundant(design.coding, design.domain, design.support, absorbed)
    return design


@lru_cache(maxsize=16)
@np.errstate(all="ignore")
def _build(formula: str, declared: str, kind: Kind, trials: float | None, *, unmet_left_out: bool = True) -> DesignSpec:
    """The design of a formula under a Domain of its columns, in their order.

    Of public facts alone, and a plan and its fit, or several fits, have the same. The Domain is given as JSON: text
    tells levels apart that compare equal, such as 1, 1.0 and True.
    """
    parsed, domain = parse(formula), Domain.from_json(declared)
    domain = clipping_response(parsed, domain)
    subset = bind_subset(parsed, domain)
    parsed = without_unmet(parsed, domain) if unmet_left_out else parsed
    # Bases are laid out over the declared ranges, and bounded where rows are kept.
    support = support_of(domain)
    info = coding.public_design(parsed, domain)
    has_intercept = any(not term.factors for term in info.term_codings)
    constant = info.column_names.index("Intercept") if has_intercept else None
    response = bind_response(parsed, domain, kind, has_intercept, trials)
    offset, weights = bind_offset(parsed, domain), bind_weights(parsed, domain)
    by_term, partial = coding.term_bounds(info, support)
    partial += [response.spec.name] * response.partial
    partial += [value.name for value in (offset, weights) if value is not None and value.partial]
    lower, upper, center = coding.column_ranges(info, by_term, has_intercept)
    reach = np.maximum(np.abs(lower - center), np.abs(upper - center))
    for name in itertools.compress(info.column_names, (reach > 0) & (reach < LEAST)):
        raise FormulaError(f"{name} varies by less than {LEAST:g} on the declared ranges; rescale it")
    units = [
        unit_term(term.name(), info.term_slices[term], reach, [(part.l2, part.l1) for part in parts])
        for term, parts in by_term.items()
    ]
    norm = math.sqrt(math.fsum(term.l2**2 for term in units))
    if norm == 0:
        raise FormulaError(f"formula {parsed.text!r}: every column is zero on the declared ranges")
    terms = [Term(term.name, term.columns, term.maxima / norm, term.l2 / norm, term.l1 / norm) for term in units]
    scale = np.where(reach > 0, reach, 1.0) * norm * (1 + SLACK)
    _check_units(info.column_names, response.spec, center, scale)
    for shared in (lower, upper, center, scale, *(term.maxima for term in terms)):
        shared.setflags(write=False)
    numeric = {term.name() for term in by_term if any(info.factor_infos[f].type == "numerical" for f in term.factors)}
    spec = DesignSpec(
        formula=parsed.text,
        domain=domain,
        names=tuple(info.column_names),
        terms=tuple(terms),
        has_intercept=has_intercept,
        response=response.spec,
        lower=lower,
        upper=upper,
        center=center,
        scale=scale,
        notes=(
            *gap_notes(parsed, domain, partial),
            *dropped_note(parsed, domain),
            *uncentred_notes(parsed, domain),
            *power_notes(parsed, domain),
        ),
        has_gaps=bool(partial),
        gap_columns=_gap_columns(parsed, partial),
        coding=info,
        encoder=response,
        parsed=parsed,
        shrunk=tuple(term for term in terms if term.name in numeric and len(term.maxima) > 1),
        bodies=tuple(
            _with_spread(body, info, domain, reach)
            for body in term_bodies(coding.subterms(info, by_term), reach, scale, constant)
        ),
        offset=offset,
        weights=weights,
        subset=subset,
    )
    # What follows from columns is that of the design whose rows are not kept in any ellipsoid yet.
    widths = number_widths(spec.images)
    joint = joint_bodies(joined_columns(spec, widths), widths) if len(widths) > 1 else ()
    joint = tuple(stretched_bodies(spec, joint, widths))
    return replace(spec, joint=joint, origin=spec) if joint else spec


def _gap_columns(parsed: Formula, partial: Iterable[str]) -> frozenset[str]:
    """Columns whose ranges decide for which rows an expression of `partial` is not finite.

    The logarithm of a column has none: it is finite above 0, whatever the range, if it is not so everywhere.
    """
    factors = [parsed.response, *(factor for term in parsed.terms for factor in term), *parsed.offsets, parsed.weights]
    nodes = {factor.code: factor.node for factor in factors if factor is not None}
    columns: set[str] = set()
    for code in partial:
        node = nodes.get(code)
        if node is None:  # a sum of several offsets
            return frozenset(parsed.columns)
        if not is_logarithm(node):
            columns.update(columns_of(node))
    return frozenset(columns)


def _with_spread(body: TermBody, info: DesignInfo, domain: Domain, reach: Array) -> TermBody:
    """The body of a column of the data with what is typical of its spread, over the greatest variance it can have."""
    place = body.columns.start
    if body.columns.stop - place != 1:
        return body
    term = next(term for term, columns in info.term_slices.items() if columns.start <= place < columns.stop)
    node = term.factors[0].node if len(term.factors) == 1 else None
    declared = domain[node.name] if isinstance(node, Column) else None
    if not isinstance(declared, Range) or declared.typical is None or declared.is_binary:
        return body
    variance = min(1.0, (declared.typical[1] / float(reach[place])) ** 2)
    return replace(body, image=replace(body.image, spread=variance))


def _check_units(names: Sequence[str], response: ResponseSpec, center: Array, scale: Array) -> None:
    """Raise FormulaError unless coefficients in the user's units are doubles, whatever is released."""
    sizes = response.scale / scale
    for name, size, place in zip(names, sizes, center, strict=True):
        if not (LEAST_UNIT < size < 1 / LEAST_UNIT and abs(place) * size < 1 / LEAST_UNIT):
            raise FormulaError(f"{name}: its units are too far from those of the response; rescale it")

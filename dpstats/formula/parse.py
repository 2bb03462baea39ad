"""From formula text to factors: patsy reads the formula, a whitelist reads each factor.

patsy would evaluate a factor as Python code in the caller's scope. Here each factor's syntax tree is translated into
the nodes of `expression`, and whatever has no translation is refused with the reason.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dpstats.cached import cached_property
from dpstats.domain import Domain
from dpstats.errors import FormulaError
from dpstats.formula.expression import Apply, Column, Node, Transform, columns_of
from dpstats.formula.patsy_internals import ModelDesc, ParseNode, PatsyError, Term, factor_codes, parse_tree
from dpstats.formula.syntax import as_python, auxiliary_call, dots, locate, one_at_most, refuse_symbols, share_hint
from dpstats.formula.translate import STANDS, Factor, compile_factor, first_line
from dpstats.wording import argument

__all__ = ["Factor", "Formula", "parse"]


SPLINES = frozenset({"bs", "cr", "cc", "te"})
"""Transforms that have knots over the ranges of their columns."""

BASES = SPLINES | {"poly", "rff"}
"""Transforms that are the same beyond the ranges of their columns as at the nearer end."""

LOGARITHM = re.compile(r"(np\.)?log\(")


@dataclass(frozen=True)
class Formula:
    """A parsed formula."""

    text: str
    response: Factor  # the successes, if there are `failures`
    terms: tuple[tuple[Factor, ...], ...]  # an interaction each; the empty one is the intercept
    failures: Factor | None = None  # second column of a response of counts, ``successes + failures ~``
    offsets: tuple[Factor, ...] = ()  # added to the linear predictor as they are
    weights: Factor | None = None
    subset: Factor | None = None  # the condition on which a row counts

    @cached_property
    def exog_columns(self) -> tuple[str, ...]:
        """Columns that the terms of the right-hand side read."""
        return _columns(*(factor for term in self.terms for factor in term))

    @cached_property
    def predicting_columns(self) -> tuple[str, ...]:
        """Columns that a prediction needs: those of the terms and of the offset."""
        return tuple(dict.fromkeys((*self.exog_columns, *_columns(*self.offsets))))

    @cached_property
    def exposures(self) -> set[str]:
        """Columns whose logarithm is an offset and which no term reads: numbers, never codes, as log(0) is none."""
        nodes = [one.node for one in self.offsets if isinstance(one.node, Apply) and LOGARITHM.match(one.node.text)]
        return {name for node in nodes for name in columns_of(node)}.difference(self.exog_columns)

    @property
    def plain_exposures(self) -> set[str]:
        """Columns whose logarithm, of the column as it is, is an offset."""
        return {name for one in self.offsets if is_logarithm(one.node) for name in columns_of(one.node)}

    @cached_property
    def response_columns(self) -> tuple[str, ...]:
        """Columns that the response reads."""
        return _columns(self.response, self.failures)

    @cached_property
    def weight_columns(self) -> tuple[str, ...]:
        """Columns that the weights read."""
        return _columns(self.weights)

    @cached_property
    def subset_columns(self) -> tuple[str, ...]:
        """Columns that the condition on rows reads."""
        return _columns(self.subset)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns that the formula reads, the response's first."""
        read = (*self.response_columns, *self.predicting_columns, *self.weight_columns, *self.subset_columns)
        return tuple(dict.fromkeys(read))

    @property
    def curved_columns(self) -> set[str]:
        """Columns that several factors read, as a number and its square, or a transform such as a spline."""
        factors = {factor.code: factor.node for term in self.terms for factor in term}
        read = Counter(name for node in factors.values() for name in columns_of(node))
        bent = {name for node in factors.values() if isinstance(node, Transform) for name in columns_of(node)}
        return bent | {name for name, times in read.items() if times > 1}

    @property
    def knotted_columns(self) -> set[str]:
        """Columns that a spline reads, whose knots lie over the declared range."""
        return self._read_by(SPLINES)

    @property
    def held_columns(self) -> set[str]:
        """Columns that a basis reads, which holds a prediction beyond the range at the nearer end."""
        return self._read_by(BASES)

    def _read_by(self, transforms: frozenset[str]) -> set[str]:
        """Columns that one of these transforms reads in a term."""
        nodes = [factor.node for term in self.terms for factor in term]
        read = [node for node in nodes if isinstance(node, Transform) and node.name in transforms]
        return {name for node in read for name in columns_of(node)}

    @property
    def untransformed_columns(self) -> set[str]:
        """Columns that some factor reads other than by an elementwise function, such as a logarithm."""
        factors = (
            self.response,
            self.failures,
            *self.offsets,
            self.weights,
            *(one for term in self.terms for one in term),
        )
        nodes = [factor.node for factor in factors if factor is not None]
        return {name for node in nodes if not isinstance(node, Apply) for name in columns_of(node)}


def is_logarithm(node: Node) -> bool:
    """Whether an expression is the natural logarithm of a column as it is."""
    if not isinstance(node, Apply) or not LOGARITHM.match(node.text):
        return False
    return len(node.arguments) == 1 and isinstance(node.arguments[0], Column)


def _columns(*factors: Factor | None) -> tuple[str, ...]:
    """Names of the columns that factors read, once each."""
    return tuple(dict.fromkeys(name for factor in factors if factor is not None for name in columns_of(factor.node)))


def term_name(factors: Sequence[Factor]) -> str:
    """The name of a term, as patsy writes it."""
    return ":".join(factor.code for factor in factors) or "Intercept"


def parse(formula: str) -> Formula:
    """Parse a formula such as ``"y ~ x + C(group)"``.

    Raises FormulaError if the syntax is wrong, the left side is not one expression, the right side is empty, or a
    factor is not a row-wise function of the data.
    """
    if not isinstance(formula, str):
        raise FormulaError(f"formula must be a string, got {type(formula).__name__}")
    return _parse(formula)


@lru_cache(maxsize=64)
def _parse(formula: str) -> Formula:
    """See `parse`; a call reads its formula several times."""
    text = as_python(formula)
    if re.fullmatch(r"\s*(\w+)\s+(\w+)\s*", text):
        message = f"formula {formula!r} has no '~' between the response and the terms: write it as in y ~ x + C(g)"
        raise FormulaError(locate(message, len(text.split()[0])))
    refuse_symbols(text)
    try:
        tree = parse_tree(text)
        described = ModelDesc.from_formula(tree)
    # patsy lets errors of Python's tokenizer through, of several types; all of them concern the formula's text only.
    except Exception as error:
        raise FormulaError(_unparsed(formula, error)) from error
    # Every factor is checked, also one that is subtracted and so leaves the model: x - x.mean() is a term less a term.
    factors = {code: [compile_factor(part, at) for part in _parts(code, at)] for code, at in factor_codes(tree)}
    _refuse_powers(tree)
    response, failures = _response(formula, described.lhs_termlist, factors)
    terms: list[tuple[Factor, ...]] = []
    auxiliary: dict[str, list[Factor]] = {"offset": [], "weights": [], "subset": []}
    for term in described.rhs_termlist:
        codes = [factor.code for factor in term.factors]
        calls = [call for code in codes if (call := auxiliary_call(code)) is not None]
        if not calls:
            terms.append(tuple(factors[code][0] for code in codes))
        elif len(codes) == 1 and calls[0][0] in auxiliary:
            auxiliary[calls[0][0]].append(replace(factors[codes[0]][0], code=codes[0]))
        else:
            raise FormulaError(locate(f"{term.name()}: {calls[0][0]}() {STANDS}", factors[codes[0]][0].at))
    if not terms:
        message = f"formula {formula!r} has no term on the right of '~'; keep the intercept or add a column"
        raise FormulaError(locate(message, text.index("~")))
    for name in ("weights", "subset"):
        one_at_most(formula, name, [factor.at for factor in auxiliary[name]])
    weights, subset = (next(iter(auxiliary[name]), None) for name in ("weights", "subset"))
    # log and np.log are one function: an exposure beside offset(log(t)) counts once, as it does beside np.log.
    offsets = tuple({factor.code.replace("np.", ""): factor for factor in auxiliary["offset"]}.values())
    return Formula(formula, response, tuple(terms), failures, offsets, weights, subset)


FIXES = {
    "expected a noun": "a column or a call is missing here",
    "Unmatched": "close the bracket",
    "missing '('": "take the bracket away, or open one before",
    "~ can only": "write one ~, between response and terms",
    "numbers besides": "write 0 or 1 for the intercept; other numbers go into I(...), as in I(x + 5)",
    "intercept term cannot": "put arithmetic into I(...), as in I(1 / x)",
    "'**' requires": "put powers into I(...), as in I(x**2.5)",
    "expected an operator": "put + between terms, or arithmetic into I(...)",
    "error tokenizing": "close quotes and brackets; names with other signs than letters, digits and _ need Q('name')",
}
"""What to do about what patsy says, by how that begins."""


def _unparsed(formula: str, error: Exception) -> str:
    """Why patsy cannot read a formula, where, and what to do."""
    reason = first_line(error)
    placed = isinstance(error, PatsyError) and error.origin is not None
    at = error.origin.start if placed else len(formula.rstrip())  # type: ignore[attr-defined]
    fix = next((fix for start, fix in FIXES.items() if reason.startswith(start)), "write it as in y ~ x + C(g) + x:g")
    return locate(f"formula {formula!r} cannot be parsed: {reason}; {fix}", at)


def _refuse_powers(tree: ParseNode) -> None:
    """Raise FormulaError for ``x**2`` of one factor, which patsy takes for x itself without a word."""
    if tree.type == "**" and tree.args[0].type == "PYTHON_EXPR":
        base, power = (branch.token.extra for branch in tree.args)
        base = base[2:-1] if base.startswith("I(") else base
        at = tree.args[0].token.origin.start
        raise FormulaError(locate(f"{base}**{power} of one term equals the term itself; write I({base}**{power})", at))
    for branch in tree.args:
        _refuse_powers(branch)


def _parts(code: str, at: int) -> tuple[str, ...]:
    """The code of a factor, or that of the arguments of offset(), weights() or cbind()."""
    try:
        call = auxiliary_call(code)
    except FormulaError as error:
        raise FormulaError(locate(str(error), at)) from error
    return (code,) if call is None else call[1]


def _response(formula: str, terms: Sequence[Term], factors: Mapping[str, list[Factor]]) -> tuple[Factor, Factor | None]:
    """The response of a formula, or its successes and failures."""
    codes = [[factor.code for factor in term.factors] for term in terms]
    responses = [factor for code in codes for factor in (factors[code[0]] if len(code) == 1 else [])]
    calls = [call[0] for code in codes if len(code) == 1 and (call := auxiliary_call(code[0])) is not None]
    plain = bool(codes) and all(len(code) == 1 for code in codes) and set(calls) <= {"cbind"}
    if not plain or len(responses) > 2:
        message = (
            f"formula {formula!r} needs one response on the left of '~', as in y ~ x, or successes + failures; "
            f"sums are I(a + b){share_hint(formula.partition('~')[0])}"
        )
        raise FormulaError(locate(message, 0))
    return responses[0], responses[1] if len(responses) == 2 else None


def expand_dot(formula: str, domain: Domain | Mapping[str, Any] | None) -> str:
    """The formula with ``.`` on its right as a sum of the declared columns that it does not read otherwise.

    The columns of response, offset and weights are left out. What ``.`` stands for so follows from the Domain, never
    from the data. Raises FormulaError if there is nothing that it could stand for, or it stands on the left.
    """
    places = list(dots(formula)) if isinstance(formula, str) else []
    if not places:
        return formula
    if places[0] < formula.find("~"):
        raise FormulaError(locate("'.' is not allowed on the left of '~'; name the response", places[0]))
    bare = parse(_with(formula, places, "1"))
    taken = {*bare.response_columns, *bare.weight_columns, *(set(bare.predicting_columns) - set(bare.exog_columns))}
    names = [name for name in Domain.coerce(domain) if name not in taken]
    if not names:
        reason = "'.' means all columns that the domain declares, and it declares no other"
        raise FormulaError(locate(f"{reason}: add some to {argument('domain')}", places[0]))
    return _with(formula, places, f"({' + '.join(map(_code, names))})" if len(names) > 1 else _code(names[0]))


def _with(formula: str, places: list[int], text: str) -> str:
    for place in reversed(places):
        formula = formula[:place] + text + formula[place + 1 :]
    return formula


def _code(name: str) -> str:
    plain = name.isidentifier() and not keyword.iskeyword(name)
    return name if plain else f"Q({name!r})"

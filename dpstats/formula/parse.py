"""From formula text to factors: patsy reads the formula, a whitelist reads each factor.

patsy would evaluate a factor as Python code in the caller's scope. Here each factor's syntax tree is translated into
the nodes of `expression`, and whatever has no translation is refused with the reason.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import patsy
from patsy.desc import ModelDesc, Term
from patsy.parse_formula import ParseNode, parse_formula

from dpstats.errors import FormulaError
from dpstats.formula import expression
from dpstats.formula.beside import ARGUMENTS, one_at_most, special
from dpstats.formula.expression import Apply, Column, Literal, Node, Transform, columns_of
from dpstats.formula.transforms import TRANSFORMS, RowWise
from dpstats.formula.trees import balanced

CONTRASTS = {name: getattr(patsy, name) for name in ("Treatment", "Poly", "Sum", "Helmert", "Diff")}

ARITHMETIC: dict[type[ast.operator], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.remainder,
    # The operator, unlike the ufunc, squares instead of calling pow().
    ast.Pow: lambda base, exponent: base**exponent,
}
LOGIC: dict[type[ast.operator], Callable[..., Any]] = {
    ast.BitAnd: np.logical_and,
    ast.BitOr: np.logical_or,
    ast.BitXor: np.logical_xor,
}
COMPARISONS: dict[type[ast.cmpop], Callable[..., Any]] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
REFUSED: dict[type[ast.AST], str] = {
    ast.Attribute: "attributes and methods may combine rows; only np.<elementwise function> is understood",
    ast.Subscript: "subscripts pick cells across rows",
    ast.Lambda: "functions cannot be defined in a formula",
    ast.BoolOp: "'and' and 'or' do not act row by row; use & and | between comparisons in brackets",
    ast.Compare: "write (1 < x) & (x < 3) for a chain; 'in' and 'is' do not act row by row",
    ast.UnaryOp: "'not' does not act row by row; use ~ before a comparison in brackets",
    ast.IfExp: "'if' does not act row by row; use np.where(condition, a, b)",
    ast.ListComp: "comprehensions run over rows",
    ast.SetComp: "comprehensions run over rows",
    ast.DictComp: "comprehensions run over rows",
    ast.GeneratorExp: "comprehensions run over rows",
    ast.NamedExpr: "variables cannot be assigned in a formula",
    ast.Starred: "arguments cannot be unpacked in a formula",
}


@dataclass(frozen=True)
class Factor:
    """One factor of a formula: its normalised text and its tree."""

    code: str
    node: Node


@dataclass(frozen=True)
class Formula:
    """A parsed formula.

    Attributes
    ----------
    text : str
    response : Factor
        The successes, if there are `failures`.
    terms : tuple of tuple of Factor
        The right-hand side, an interaction each; the empty one is the intercept.
    failures : Factor or None
        The second column of a response of counts, ``successes + failures ~``.
    offsets : tuple of Factor
        What is added to the linear predictor as it is.
    weights : Factor or None
    """

    text: str
    response: Factor
    terms: tuple[tuple[Factor, ...], ...]
    failures: Factor | None = None
    offsets: tuple[Factor, ...] = ()
    weights: Factor | None = None

    @property
    def exog_columns(self) -> tuple[str, ...]:
        """Columns that the terms of the right-hand side read."""
        return _columns(factor for term in self.terms for factor in term)

    @property
    def predicting_columns(self) -> tuple[str, ...]:
        """Columns that a prediction needs: those of the terms and of the offset."""
        return tuple(dict.fromkeys((*self.exog_columns, *_columns(self.offsets))))

    @property
    def response_columns(self) -> tuple[str, ...]:
        """Columns that the response reads."""
        return _columns(factor for factor in (self.response, self.failures) if factor is not None)

    @property
    def weight_columns(self) -> tuple[str, ...]:
        """Columns that the weights read."""
        return () if self.weights is None else _columns([self.weights])

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that the formula reads, the response's first."""
        return tuple(dict.fromkeys((*self.response_columns, *self.predicting_columns, *self.weight_columns)))


def _columns(factors: Iterable[Factor]) -> tuple[str, ...]:
    """Names of the columns that factors read, once each."""
    return tuple(dict.fromkeys(name for factor in factors for name in columns_of(factor.node)))


def parse(formula: str) -> Formula:
    """Parse a formula such as ``"y ~ x + C(group)"``.

    Raises
    ------
    FormulaError
        If the syntax is wrong, the left side is not one expression, the right side is empty, or a factor is not a
        row-wise function of the data.
    """
    if not isinstance(formula, str):
        raise FormulaError(f"formula must be a string, got {type(formula).__name__}")
    return _parse(formula)


@lru_cache(maxsize=64)
def _parse(formula: str) -> Formula:
    """See `parse`; a call reads its formula several times."""
    try:
        tree = balanced(parse_formula(formula))
        described = ModelDesc.from_formula(tree)
    # patsy lets errors of Python's tokenizer through, of several types; all of them concern the formula's text only.
    except Exception as error:
        raise FormulaError(f"formula {formula!r} cannot be parsed: {_first_line(error)}") from error
    # Every factor is checked, also one that is subtracted and so leaves the model: x - x.mean() is a term less a term.
    factors = {code: [compile_factor(part) for part in _parts(code)] for code in _codes(tree)}
    response, failures = _response(formula, described.lhs_termlist, factors)
    terms: list[tuple[Factor, ...]] = []
    beside: dict[str, list[Factor]] = {"offset": [], "weights": []}
    for term in described.rhs_termlist:
        codes = [factor.code for factor in term.factors]
        calls = [found for code in codes if (found := special(code)) is not None]
        if not calls:
            terms.append(tuple(factors[code][0] for code in codes))
        elif len(codes) == 1 and calls[0][0] in beside:
            beside[calls[0][0]].append(Factor(codes[0], factors[codes[0]][0].node))
        else:
            raise FormulaError(f"{term.name()}: {calls[0][0]}() {_STANDS}")
    if not terms:
        raise FormulaError(f"formula {formula!r} has no term on the right of '~'; keep the intercept or add a column")
    one_at_most(formula, beside["weights"])
    weights = beside["weights"][0] if beside["weights"] else None
    return Formula(formula, response, tuple(terms), failures, tuple(beside["offset"]), weights)


_STANDS = "stands by itself: offset() and weights() as terms on the right of '~', cbind() on its left"


def _parts(code: str) -> tuple[str, ...]:
    """The code of a factor, or that of the arguments of offset(), weights() or cbind()."""
    found = special(code)
    return (code,) if found is None else found[1]


def _response(formula: str, terms: Sequence[Term], factors: Mapping[str, list[Factor]]) -> tuple[Factor, Factor | None]:
    """The response of a formula, or its successes and failures."""
    codes = [[factor.code for factor in term.factors] for term in terms]
    found = [factor for code in codes for factor in (factors[code[0]] if len(code) == 1 else [])]
    calls = [call[0] for code in codes if len(code) == 1 and (call := special(code[0])) is not None]
    plain = bool(codes) and all(len(code) == 1 for code in codes) and set(calls) <= {"cbind"}
    if not plain or len(found) > 2:
        raise FormulaError(
            f"formula {formula!r} needs one response on the left of '~', or successes + failures; sums are I(a + b)"
        )
    return found[0], found[1] if len(found) == 2 else None


def _codes(tree: ParseNode) -> Iterator[str]:
    if tree.type == "PYTHON_EXPR":
        yield tree.token.extra
    for branch in tree.args:
        yield from _codes(branch)


OTHER_NAMES = {
    **{name: f"; write np.{name}(...)" for name in ("exp", "expm1", "log", "log10", "log1p", "log2", "sqrt")},
    "as_factor": "; write C(...)",
    "factor": "; write C(...)",
    "ns": "; write cr(..., df=...) for a natural spline",
    "s": "; write cr(..., df=...) for a smooth term",
}
"""What R calls otherwise, and what to write."""


def compile_factor(code: str) -> Factor:
    """Translate one factor's code; FormulaError says what cannot be translated and why."""
    try:
        body = ast.parse(code, mode="eval").body
        node = _Translator(code).node(body)
    except (SyntaxError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, FormulaError):
            raise
        if code == ".":
            message = "'.' is refused: what it stands for would depend on the data; write the columns out"
        else:
            message = (
                f"{code!r} is not a valid expression ({_first_line(error)}); names with spaces or keywords need Q(...)"
            )
        raise FormulaError(message) from error
    if next(columns_of(node), None) is None:
        raise FormulaError(f"{code!r} reads no column; use the intercept for a constant")
    return Factor(code, node)


def _first_line(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    return (str(error) or type(error).__name__).splitlines()[0]


class _Translator:
    """Translates the syntax tree of one factor's code."""

    def __init__(self, code: str) -> None:
        self.code = code

    def node(self, tree: ast.AST) -> Node:
        match tree:
            case ast.Name():
                # The text as written: Python normalises the identifiers of a syntax tree, column names are not.
                return Column(self._text(tree))
            case ast.Constant(value=bool() | int() | float() | str() | None):
                value: Any = tree.value
                return Literal(value if isinstance(value, (str, type(None))) else np.float64(value))
            case ast.BinOp() if type(tree.op) in ARITHMETIC:
                return self._apply(tree, expression.elementwise(ARITHMETIC[type(tree.op)]), tree.left, tree.right)
            case ast.BinOp() if type(tree.op) in LOGIC:
                return self._apply(tree, expression.logical(LOGIC[type(tree.op)]), tree.left, tree.right)
            case ast.UnaryOp(op=ast.USub()):
                return self._apply(tree, expression.elementwise(np.negative), tree.operand)
            case ast.UnaryOp(op=ast.UAdd()):
                return self._apply(tree, expression.elementwise(np.positive), tree.operand)
            case ast.UnaryOp(op=ast.Invert()):
                return self._apply(tree, expression.logical(np.logical_not), tree.operand)
            case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
                equality = isinstance(operator, (ast.Eq, ast.NotEq))
                function = expression.compare(COMPARISONS[type(operator)], equality)
                return self._apply(tree, function, tree.left, tree.comparators[0])
            case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="pi" | "e" as name):
                return Literal(np.float64(getattr(np, name)))
            case ast.Call():
                return self._call(tree)
        raise self._refusal(tree)

    def _apply(self, tree: ast.AST, function: Callable[..., Any], *arguments: ast.AST) -> Apply:
        return Apply(self._text(tree), function, tuple(self.node(argument) for argument in arguments))

    def _call(self, tree: ast.Call) -> Node:
        match tree:
            case ast.Call(func=ast.Name("I"), args=[argument], keywords=[]):
                return self.node(argument)
            case ast.Call(func=ast.Name("Q"), args=[ast.Constant(value=str(name))], keywords=[]):
                return Column(name)
            case ast.Call(func=ast.Name("I" | "Q" as name)):
                raise FormulaError(f"{self._text(tree)}: {name}() takes one argument; Q() the name as a string")
            case ast.Call(func=ast.Name(name)) if name in ARGUMENTS:
                raise FormulaError(f"{self._text(tree)}: {name}() {_STANDS}")
            case ast.Call(func=ast.Name("C"), args=[argument, *_]):
                return self._apply(tree, self._coding(tree), argument)
            case ast.Call(func=ast.Name("abs"), args=[argument], keywords=[]):
                return self._apply(tree, expression.elementwise(np.abs), argument)
            case ast.Call(func=ast.Name(name)) if name in TRANSFORMS:
                return self._transform(tree, name)
            case ast.Call(func=ast.Attribute(value=ast.Name("np" | "numpy"), attr=name)):
                return self._numpy(tree, name)
        if isinstance(tree.func, ast.Attribute):
            raise self._refusal(tree.func)
        known = ", ".join(sorted(["I", "Q", "C", "abs", *TRANSFORMS]))
        fix = "" if not isinstance(tree.func, ast.Name) else OTHER_NAMES.get(tree.func.id, "")
        raise FormulaError(
            f"{self._text(tree)} is refused: a formula can call only {known} and elementwise np functions{fix}"
        )

    def _numpy(self, tree: ast.Call, name: str) -> Apply:
        text = self._text(tree)
        if tree.keywords:
            raise FormulaError(f"{text} is refused: np functions take no keyword arguments in a formula")
        function = getattr(np, name, None)
        if name == "where" and len(tree.args) == 3:
            return self._apply(tree, expression.choose, *tree.args)
        if name == "clip" and len(tree.args) == 3:
            return self._apply(tree, expression.elementwise(np.clip), *tree.args)
        # A ufunc without a signature acts on each element alone: numpy's definition of one.
        if not isinstance(function, np.ufunc) or function.signature is not None or function.nout != 1:
            raise FormulaError(f"{text} is refused: np.{name} is not an elementwise function and may combine rows")
        if len(tree.args) != function.nin:
            raise FormulaError(f"{text}: np.{name} takes {function.nin} argument(s)")
        if name.startswith(("bitwise", "logical", "invert")):
            return self._apply(tree, expression.logical(function), *tree.args)
        return self._apply(tree, expression.elementwise(function), *tree.args)

    def _transform(self, tree: ast.Call, name: str) -> Transform:
        text = self._text(tree)
        data_count = len(tree.args) if name in ("te", "rff") else min(1, len(tree.args))
        arguments = tuple(self.node(argument) for argument in tree.args[:data_count])
        options = [self._literal(argument) for argument in tree.args[data_count:]]
        named = self._keywords(tree)
        try:
            inspect.signature(TRANSFORMS[name]).bind(*arguments, *options, **named)
        except TypeError as error:
            raise FormulaError(f"{text}: {error}") from error
        if not arguments:
            raise FormulaError(f"{text} needs a column to act on")

        def learn(*public: Any) -> RowWise:
            return TRANSFORMS[name](*public, *options, **named)

        return Transform(text, learn, arguments)

    def _coding(self, tree: ast.Call) -> Callable[..., Any]:
        given = {keyword.arg: keyword.value for keyword in tree.keywords}
        for name, value in zip(("contrast", "levels"), tree.args[1:], strict=False):
            given.setdefault(name, value)
        if len(tree.args) > 3 or not set(given) <= {"contrast", "levels"}:
            raise FormulaError(f"{self._text(tree)}: write C(column, contrast, levels=[...])")
        contrast = self._contrast(given["contrast"]) if "contrast" in given else None
        levels = self._literal(given["levels"]) if "levels" in given else None
        if levels is not None and not isinstance(levels, list):
            raise FormulaError(f"{self._text(tree)}: levels must be a list")
        return partial(expression.categorical, contrast=contrast, levels=None if levels is None else tuple(levels))

    def _contrast(self, tree: ast.AST) -> Any:
        match tree:
            case ast.Name(name) if name in CONTRASTS:
                return CONTRASTS[name]()
            case ast.Call(func=ast.Name(name)) if name in CONTRASTS:
                options = [self._literal(argument) for argument in tree.args]
                try:
                    return CONTRASTS[name](*options, **self._keywords(tree))
                except TypeError as error:
                    raise FormulaError(f"{self._text(tree)}: {error}") from error
        return self._literal(tree)

    def _keywords(self, tree: ast.Call) -> dict[str, Any]:
        if any(keyword.arg is None for keyword in tree.keywords):
            raise FormulaError(f"{self._text(tree)} is refused: {REFUSED[ast.Starred]}")
        return {str(keyword.arg): self._literal(keyword.value) for keyword in tree.keywords}

    def _literal(self, tree: ast.AST) -> Any:
        try:
            value = ast.literal_eval(tree)
        except (ValueError, TypeError) as error:
            text = self._text(tree)
            raise FormulaError(f"{text} in {self.code!r} must be written out as a number, string or list") from error
        return list(value) if isinstance(value, tuple) else value

    def _refusal(self, tree: ast.AST) -> FormulaError:
        reason = REFUSED.get(type(tree), "it is not a row-wise operation on numbers")
        return FormulaError(f"{self._text(tree)} in {self.code!r} is refused: {reason}")

    def _text(self, tree: ast.AST) -> str:
        return ast.get_source_segment(self.code, tree) or self.code

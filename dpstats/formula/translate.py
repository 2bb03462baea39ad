"""One factor of a formula: its Python text as a tree of `expression`, or a refusal that says what to write."""

from __future__ import annotations

import ast
import copy
import difflib
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dpstats.errors import FormulaError
from dpstats.formula import expression
from dpstats.formula.expression import Apply, Column, Literal, Node, Transform, columns_of
from dpstats.formula.patsy_internals import CONTRASTS
from dpstats.formula.syntax import AUXILIARY, OTHER_NAMES, locate
from dpstats.formula.transforms import EXAMPLES, TRANSFORMS, RowWise
from dpstats.wording import argument

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
    ast.Attribute: "attributes and methods may combine rows; write np.log(x) or the like, center(x) for x - x.mean()",
    ast.Subscript: "subscripts pick cells across rows; compare instead, as in I(g == 'a')",
    ast.Lambda: "functions cannot be defined in a formula; write the expression itself",
    ast.BoolOp: "'and' and 'or' do not act row by row; use & and | between comparisons in brackets",
    ast.Compare: "write (1 < x) & (x < 3) for a chain; 'in' and 'is' do not act row by row",
    ast.UnaryOp: "'not' does not act row by row; use ~ before a comparison in brackets",
    ast.IfExp: "'if' does not act row by row; use np.where(condition, a, b)",
    ast.ListComp: "comprehensions run over rows; write the expression for one row",
    ast.SetComp: "comprehensions run over rows; write the expression for one row",
    ast.DictComp: "comprehensions run over rows; write the expression for one row",
    ast.GeneratorExp: "comprehensions run over rows; write the expression for one row",
    ast.NamedExpr: "variables cannot be assigned in a formula; write the expression itself",
    ast.Starred: "arguments cannot be unpacked in a formula; write them out",
}


@dataclass(frozen=True)
class Factor:
    """One factor of a formula: its normalised text, its tree, and where in the formula it stands, from 0."""

    code: str
    node: Node
    at: int | None = field(default=None, compare=False)


BARE = ("abs", "exp", "expm1", "log", "log10", "log1p", "log2", "sqrt")
"""Elementwise functions of numpy that need not be called np.<name>, as R writes them."""

CODINGS = ("C", "factor")
"""Calls that take a column for one of levels."""

STANDS = (
    "cannot be part of another term: write offset(), weights() and subset() as terms on the right of '~', cbind() "
    "on its left"
)


def compile_factor(code: str, at: int | None = None) -> Factor:
    """Translate one factor's code, which stands at a place of its formula.

    Raises FormulaError: what cannot be translated, why, where, and what to write.
    """
    try:
        return replace(_compiled(code), at=at)
    except FormulaError as error:
        raise FormulaError(locate(str(error), at)) from error


def _compiled(code: str) -> Factor:
    try:
        body = ast.parse(code, mode="eval").body
        node = _Translator(code).node(body)
    except (SyntaxError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, FormulaError):
            raise
        raise FormulaError(_unreadable(code, error)) from error
    if not columns_of(node):
        raise FormulaError(f"{code!r} reads no column; leave it out, or write 1 for the intercept")
    return Factor(code, node)


def _unreadable(code: str, error: Exception) -> str:
    """Why a factor's code is no Python expression, and what was meant."""
    if code == ".":
        given = argument("domain")
        return f"'.' means all columns that a domain declares: pass {given}, or write the columns out"
    if re.fullmatch(r"\w+( \w+)+", code):
        return f"{code!r} is not one name: put + or : between two columns, or write Q({code!r}) for a name with spaces"
    return f"{code!r} is not a valid expression ({first_line(error)}); names with spaces or keywords need Q('name')"


def first_line(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    return (str(error) or type(error).__name__).splitlines()[0]


def _instead(name: str) -> str:
    """What to write instead of a function of the whole column."""
    return {
        "mean": "center(x) centres by the declared range",
        "std": "standardize(x) scales by the declared range",
        "round": "write np.rint(x)",
    }.get(name, "np.log, np.exp, np.where and the like act on each row; compute the rest as a column of the data")


class _Literals(ast.NodeTransformer):
    """Infinities and R's c(...) as literals."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(math.inf) if node.id in ("inf", "Inf") else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        inside = isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy")
        return ast.Constant(math.inf) if inside and node.attr == "inf" else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "c" and not node.keywords:
            return ast.List([self.visit(one) for one in node.args], ast.Load())
        return node


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
            case ast.BinOp(op=ast.BitXor(), right=ast.Constant(value=int() | float())):
                raise FormulaError(f"{self._text(tree)} is refused: powers are written **, as in I(x**2)")
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

    def _apply(self, tree: ast.AST, function: Callable[..., Any], *arguments: ast.AST | Node) -> Apply:
        nodes = (self.node(argument) if isinstance(argument, ast.AST) else argument for argument in arguments)
        return Apply(self._text(tree), function, tuple(nodes))

    def _call(self, tree: ast.Call) -> Node:
        match tree:
            case ast.Call(func=ast.Name("I"), args=[argument], keywords=[]):
                return self.node(argument)
            case ast.Call(func=ast.Name("Q"), args=[ast.Constant(value=str(name))], keywords=[]):
                return Column(name)
            case ast.Call(func=ast.Name("I" | "Q" as name)):
                raise FormulaError(
                    f"{self._text(tree)}: {name}() takes one argument: write I(x**2), or Q('name') with the name quoted"
                )
            case ast.Call(func=ast.Name(name)) if name in AUXILIARY:
                raise FormulaError(f"{self._text(tree)}: {name}() {STANDS}")
            case ast.Call(func=ast.Name(name), args=[argument, *_]) if name in CODINGS:
                return self._apply(tree, self._coding(tree), self._coded(argument))
            case ast.Call(func=ast.Name(name)) if name in CODINGS:
                raise FormulaError(f"{self._text(tree)} names no column; write {name}(column)")
            case ast.Call(func=ast.Name("cut"), args=[argument, *_]):
                return self._apply(tree, self._bins(tree, expression.cut), argument)
            case ast.Call(func=ast.Name(name), args=[_], keywords=[]) if name in BARE:
                return self._apply(tree, expression.elementwise(getattr(np, name)), tree.args[0])
            case ast.Call(func=ast.Name(name)) if name in BARE:
                raise FormulaError(f"{self._text(tree)}: {name}() takes one expression of columns, as in {name}(x)")
            case ast.Call(func=ast.Name(name)) if name in TRANSFORMS:
                return self._transform(tree, name)
            case ast.Call(func=ast.Attribute(value=ast.Name("np" | "numpy"), attr=name)):
                return self._numpy(tree, name)
        if isinstance(tree.func, ast.Attribute):
            raise self._refusal(tree.func)
        raise self._unknown(tree)

    def _unknown(self, tree: ast.Call) -> FormulaError:
        """The refusal of a call that is not known."""
        known = sorted({"I", "Q", "cut", *CODINGS, *BARE, *TRANSFORMS})
        name = tree.func.id if isinstance(tree.func, ast.Name) else ""
        near = difflib.get_close_matches(name, known, n=1)
        if name in OTHER_NAMES:
            fix = OTHER_NAMES[name]
        elif near:
            fix = f"did you mean {near[0]}(...)?"
        elif isinstance(getattr(np, name, None), np.ufunc):
            fix = f"write np.{name}(...)"
        else:
            fix = "compute it as a column of the data, row by row"
        return FormulaError(
            f"{self._text(tree)} is refused: {fix}; a formula can call only {', '.join(known)} and elementwise np "
            "functions"
        )

    def _coded(self, tree: ast.AST) -> Node | ast.AST:
        """The argument of C(): np.digitize in it numbers levels."""
        match tree:
            case ast.Call(func=ast.Attribute(value=ast.Name("np" | "numpy"), attr="digitize"), args=[argument, *_]):
                return self._apply(tree, self._bins(tree, expression.digits), argument)
        return tree

    def _bins(self, tree: ast.Call, rule: Callable[..., expression.Bins]) -> expression.Bins:
        """The bins that a call spells out."""
        options = [self._literal(argument) for argument in tree.args[1:]]
        named = self._keywords(tree)
        try:
            inspect.signature(rule).bind(*options, **named)
            return rule(*options, **named)
        except TypeError as error:
            raise FormulaError(f"{self._text(tree)}: write cut(x, [0, 10, 20], ['low', 'high'])") from error
        except ValueError as error:
            raise FormulaError(f"{self._text(tree)}: {error}") from error

    def _numpy(self, tree: ast.Call, name: str) -> Apply:
        text = self._text(tree)
        if name == "digitize" and tree.args:
            return self._apply(tree, self._bins(tree, expression.digits).numbers, tree.args[0])
        if tree.keywords:
            raise FormulaError(
                f"{text} is refused: np functions in a formula have no keyword arguments; leave them out"
            )
        function = getattr(np, name, None)
        if name == "where" and len(tree.args) == 3:
            return self._apply(tree, expression.choose, *tree.args)
        if name == "clip" and len(tree.args) == 3:
            return self._apply(tree, expression.elementwise(np.clip), *tree.args)
        # A ufunc without a signature acts on each element alone: numpy's definition of one.
        if not isinstance(function, np.ufunc) or function.signature is not None or function.nout != 1:
            raise FormulaError(
                f"{text} is refused: np.{name} is not an elementwise function and may combine rows; {_instead(name)}"
            )
        if len(tree.args) != function.nin:
            shape = ", ".join(["x", "z"][: function.nin])
            raise FormulaError(f"{text}: np.{name} takes {function.nin} argument(s), as in np.{name}({shape})")
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
            reason = str(error).replace("'public'", "a column")
            raise FormulaError(f"{text}: {reason}; as in {EXAMPLES[name]}") from error
        if not arguments:
            raise FormulaError(f"{text} needs a column to act on, as in {EXAMPLES[name]}")

        def learn(*public: Any) -> RowWise:
            return TRANSFORMS[name](*public, *options, **named)

        return Transform(text, learn, arguments, name)

    def _coding(self, tree: ast.Call) -> Callable[..., Any]:
        given = {keyword.arg: keyword.value for keyword in tree.keywords}
        for name, value in zip(("contrast", "levels"), tree.args[1:], strict=False):
            given.setdefault(name, value)
        for name in ("ref", "reference", "base"):
            if name in given:
                level = self._text(given[name])
                raise FormulaError(f"{self._text(tree)}: write C({self._text(tree.args[0])}, Treatment({level}))")
        if len(tree.args) > 3 or not set(given) <= {"contrast", "levels"}:
            raise FormulaError(f"{self._text(tree)}: write C(column, contrast, levels=[...]), as in C(g, Sum)")
        contrast = self._contrast(given["contrast"]) if "contrast" in given else None
        levels = self._literal(given["levels"]) if "levels" in given else None
        if levels is not None and not isinstance(levels, list):
            raise FormulaError(f"{self._text(tree)}: levels must be a list, as in levels=['b', 'a']")
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
                    fix = "write Treatment('level')" if name == "Treatment" else f"write {name} or {name}()"
                    raise FormulaError(f"{self._text(tree)}: {fix}") from error
            case ast.Name(name):
                known = ", ".join(CONTRASTS)
                raise FormulaError(f"{name} in {self.code!r} is no contrast; write one of {known}, as in C(g, Sum)")
        return self._literal(tree)

    def _keywords(self, tree: ast.Call) -> dict[str, Any]:
        if any(keyword.arg is None for keyword in tree.keywords):
            raise FormulaError(f"{self._text(tree)} is refused: {REFUSED[ast.Starred]}")
        return {str(keyword.arg): self._literal(keyword.value) for keyword in tree.keywords}

    def _literal(self, tree: ast.AST) -> Any:
        try:
            value = ast.literal_eval(_Literals().visit(copy.deepcopy(tree)))
        except (ValueError, TypeError) as error:
            text = self._text(tree)
            raise FormulaError(
                f"{text} in {self.code!r} must be written out: a number, string or list, as in C(g, levels=['a', 'b'])"
            ) from error
        return list(value) if isinstance(value, tuple) else value

    def _refusal(self, tree: ast.AST) -> FormulaError:
        reason = REFUSED.get(
            type(tree), "it is not a row-wise operation on numbers; compute it as a column of the data"
        )
        return FormulaError(f"{self._text(tree)} in {self.code!r} is refused: {reason}")

    def _text(self, tree: ast.AST) -> str:
        return ast.get_source_segment(self.code, tree) or self.code

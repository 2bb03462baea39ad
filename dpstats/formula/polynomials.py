"""Which factors are polynomials of numbers: what vanishes on some of their values then vanishes on all."""

from __future__ import annotations

import ast

from dpstats.domain import Domain, Range
from dpstats.formula.coding import PublicFactor
from dpstats.formula.expression import columns_of

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

"""All that the package takes from patsy, internals among it, which is no longer developed.

tests/formula/test_patsy_internals.py pins what is used, and that no other file imports patsy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from patsy import Diff, EvalEnvironment, Helmert, PatsyError, Poly, Sum, Treatment
from patsy.build import design_matrix_builders
from patsy.desc import ModelDesc, Term
from patsy.design_info import DesignInfo, SubtermInfo
from patsy.parse_formula import ParseNode, parse_formula

__all__ = [
    "CONTRASTS",
    "DesignInfo",
    "ModelDesc",
    "ParseNode",
    "PatsyError",
    "SubtermInfo",
    "Term",
    "factor_codes",
    "learn_coding",
    "parse_tree",
]

CONTRASTS = {kind.__name__: kind for kind in (Treatment, Poly, Sum, Helmert, Diff)}

NO_SCOPE = EvalEnvironment([{}])


def learn_coding(terms: Sequence[Term], rows: Mapping[str, Any]) -> DesignInfo:
    """The coding of terms, learned from a few rows; their factors find no variable of the calling program."""
    return design_matrix_builders([terms], lambda: iter([rows]), NO_SCOPE)[0]


def parse_tree(formula: str) -> ParseNode:
    """The formula as a tree in which a sum of p terms is log p deep; errors are patsy's and Python's tokenizer's."""
    return _balanced(parse_formula(formula))


def factor_codes(tree: ParseNode) -> Iterator[tuple[str, int]]:
    """The code of every factor, and where it stands."""
    if tree.type == "PYTHON_EXPR":
        yield tree.token.extra, tree.token.origin.start
    for branch in tree.args:
        yield from factor_codes(branch)


def _balanced(tree: ParseNode) -> ParseNode:
    """The tree with its runs of plain summands as sums of sums, so that a sum of p terms is log p deep and not p.

    patsy reads trees by recursion, and some hundred terms exceed Python's limit. ``1``, ``0`` and ``-`` stay in place,
    because what they mean depends on what stands before them.
    """
    if tree.type != "+" or len(tree.args) != 2:
        return ParseNode(tree.type, tree.token, [_balanced(branch) for branch in tree.args], tree.origin)
    summands = []
    while tree.type == "+" and len(tree.args) == 2 and _plain(tree.args[1]):
        summands.append(tree.args[1])
        plus, tree = tree, tree.args[0]
    if _plain(tree) and summands:
        return _sum([tree, *summands[::-1]], plus)
    if not summands:
        return ParseNode(tree.type, tree.token, [_balanced(branch) for branch in tree.args], tree.origin)
    return ParseNode("+", plus.token, [_balanced(tree), _sum(summands[::-1], plus)], plus.origin)


def _plain(tree: ParseNode) -> bool:
    """Whether the tree is a factor or a product of factors."""
    return tree.type == "PYTHON_EXPR" or (tree.type in (":", "*") and all(_plain(branch) for branch in tree.args))


def _sum(summands: list[ParseNode], plus: ParseNode) -> ParseNode:
    """The summands added up in their order, as a tree of least depth."""
    if len(summands) == 1:
        return summands[0]
    half = len(summands) // 2
    return ParseNode("+", plus.token, [_sum(summands[:half], plus), _sum(summands[half:], plus)], plus.origin)

"""patsy's tree of a formula, reshaped so that long sums can be read."""

from __future__ import annotations

from patsy.parse_formula import ParseNode


def balanced(tree: ParseNode) -> ParseNode:
    """The tree with its runs of plain summands as sums of sums, so that a sum of p terms is log p deep and not p.

    patsy reads trees by recursion, and some hundred terms exceed Python's limit. ``1``, ``0`` and ``-`` stay in place,
    because what they mean depends on what stands before them.
    """
    if tree.type != "+" or len(tree.args) != 2:
        return ParseNode(tree.type, tree.token, [balanced(branch) for branch in tree.args], tree.origin)
    summands = []
    while tree.type == "+" and len(tree.args) == 2 and _plain(tree.args[1]):
        summands.append(tree.args[1])
        plus, tree = tree, tree.args[0]
    if _plain(tree) and summands:
        return _sum([tree, *summands[::-1]], plus)
    if not summands:
        return ParseNode(tree.type, tree.token, [balanced(branch) for branch in tree.args], tree.origin)
    return ParseNode("+", plus.token, [balanced(tree), _sum(summands[::-1], plus)], plus.origin)


def _plain(tree: ParseNode) -> bool:
    """Whether the tree is a factor or a product of factors."""
    return tree.type == "PYTHON_EXPR" or (tree.type in (":", "*") and all(_plain(branch) for branch in tree.args))


def _sum(summands: list[ParseNode], plus: ParseNode) -> ParseNode:
    """The summands added up in their order, as a tree of least depth."""
    if len(summands) == 1:
        return summands[0]
    half = len(summands) // 2
    return ParseNode("+", plus.token, [_sum(summands[:half], plus), _sum(summands[half:], plus)], plus.origin)

"""What we use of patsy, which is no longer developed: one file imports it, and what that takes is as it was."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import dpstats
from dpstats.formula import patsy_internals
from dpstats.formula.patsy_internals import CONTRASTS, DesignInfo, ModelDesc, ParseNode, PatsyError, factor_codes

PACKAGE = Path(dpstats.__file__).parent


def imports_patsy(text: str) -> bool:
    nodes = list(ast.walk(ast.parse(text)))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules = [*plain, *(node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level)]
    return any(module.partition(".")[0] == "patsy" for module in modules)


@pytest.mark.slow
def test_one_file_imports_patsy() -> None:
    users = [path for path in sorted(PACKAGE.rglob("*.py")) if imports_patsy(path.read_text())]
    assert [path.relative_to(PACKAGE).as_posix() for path in users] == ["formula/patsy_internals.py"]


@pytest.mark.parametrize("text", ["import patsy", "from patsy.desc import Term", "def f():\n    import patsy.build"])
def test_a_second_import_is_caught(text: str) -> None:
    """Planted."""
    assert imports_patsy(text)
    assert not imports_patsy(text.replace("patsy", "patsies"))


def test_nodes_of_a_formula_are_made_as_we_make_them() -> None:
    assert list(inspect.signature(ParseNode).parameters) == ["type", "token", "args", "origin"]
    tree = patsy_internals.parse_tree("y ~ a + b:log(c) - 1")
    assert (tree.type, len(tree.args)) == ("~", 2)
    assert list(factor_codes(tree)) == [("y", 0), ("a", 4), ("b", 8), ("log(c)", 10)]
    described = ModelDesc.from_formula(tree)
    assert [term.name() for term in described.rhs_termlist] == ["a", "b:log(c)"]
    with pytest.raises(PatsyError) as caught:
        patsy_internals.parse_tree("y ~ a + + ")
    assert caught.value.origin.start >= 0


def test_a_sum_of_many_terms_is_read_by_few_calls() -> None:
    terms = [f"x{number}" for number in range(2000)]
    described = ModelDesc.from_formula(patsy_internals.parse_tree(f"y ~ {' + '.join(terms)}"))
    assert [term.name() for term in described.rhs_termlist] == ["Intercept", *terms]


def test_a_coding_tells_what_designs_read_of_it() -> None:
    design = dpstats.plan("y ~ a*x", {"a": list("pqr"), "x": (0, 1), "y": (0, 1)}, 1.0).design
    info = design.coding
    assert isinstance(info, DesignInfo)
    assert info.column_names == ["Intercept", "a[T.q]", "a[T.r]", "x", "a[T.q]:x", "a[T.r]:x"]
    assert [term.name() for term in info.term_codings] == ["Intercept", "a", "x", "a:x"]
    assert [(columns.start, columns.stop) for columns in info.term_slices.values()] == [(0, 1), (1, 3), (3, 4), (4, 6)]
    kinds = {factor.name(): known.type for factor, known in info.factor_infos.items()}
    assert kinds == {"a": "categorical", "x": "numerical"}
    product = info.term_codings[list(info.term_codings)[3]][0]
    assert (product.num_columns, [factor.name() for factor in product.factors]) == (2, ["a", "x"])
    coding = product.contrast_matrices[product.factors[0]].matrix
    assert coding.tolist() == [[0, 0], [1, 0], [0, 1]]


def test_contrasts_are_those_of_the_manual() -> None:
    assert list(CONTRASTS) == ["Treatment", "Poly", "Sum", "Helmert", "Diff"]

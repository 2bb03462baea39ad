"""Proof pages come with the package, and what is printed cites them by a call that finds them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.proof_pages import cite_proof

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path.stem for path in (ROOT / "docs" / "proofs").glob("*.md"))
SOURCES = sorted((ROOT / "dpstats").rglob("*.py"))
POINTER = r"\b(docs|benchmarks|vignettes|tests)/"
DOMAIN = {"y": (0, 1), "x": (0, 1), "z": (0, 1)}


def test_every_page_is_found() -> None:
    for name in PAGES:
        found = dp.proof(name)
        assert str(found) == (ROOT / "docs" / "proofs" / f"{name}.md").read_text(encoding="utf-8")
        assert repr(found) == f"<Proof: {found.title}>"
        assert found.title, name
        assert not found.title.startswith("#")


def test_every_proof_that_a_guarantee_names_exists() -> None:
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in SOURCES
        for name in re.findall(r"[\"']docs/proofs/([a-z_]+)", path.read_text(encoding="utf-8"))
    }
    assert named
    assert not {(path, name) for path, name in named if name not in PAGES}


def said(source: str) -> set[str]:
    """The texts of a module that are not docstrings."""
    tree = ast.parse(source)
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {str(node.value) for node in texts if id(node) not in told}


@pytest.mark.slow
def test_nothing_printed_points_into_the_repository() -> None:
    """An installed package has no docs: what is said cites ``dp.proof("objective")``, see `cite_proof`."""
    pointing = {
        (str(path.relative_to(ROOT)), text)
        for path in SOURCES
        for text in said(path.read_text(encoding="utf-8"))
        if re.search(POINTER, text)
    }
    assert not {(path, text) for path, text in pointing if not text.startswith("docs/proofs/")}


def test_a_pointer_is_caught() -> None:
    """Planted."""
    assert any(re.search(POINTER, text) for text in said("def f():\n    return f'{1} see docs/guide/formulas'"))
    assert not any(re.search(POINTER, text) for text in said('"""See docs/napp."""'))


def test_a_guarantee_and_what_it_is_cited_as_lead_to_its_page() -> None:
    plan = dp.plan("y ~ x", DOMAIN, 1.0)
    assert dp.proof(plan.guarantee) == dp.proof("objective")
    assert dp.proof("docs/proofs/risk, theorem 6") == dp.proof("risk")
    assert cite_proof("docs/proofs/risk, theorem 6") == 'dp.proof("risk"), theorem 6'
    assert cite_proof("none") == "none"


@pytest.mark.parametrize(
    ("of", "words"), [("objectiv", "did you mean 'objective'"), ("../ledger", "no proof"), (3, "3")]
)
def test_what_is_no_page(of: object, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        dp.proof(of)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(0).uniform(size=(2000, 3)), columns=["y", "x", "z"])


PRINTED: dict[str, Callable[[pd.DataFrame], object]] = {
    "plan": lambda rows: dp.plan("y ~ x", DOMAIN, 1.0).summary(),
    "fit": lambda rows: dp.ols("y ~ x", rows, 1.0, domain=DOMAIN, inference=True).summary(full=True),
    "split": lambda rows: dp.plan("y ~ x + z", DOMAIN, 1.0, screen=1, split="rows").summary(),
    "evaluation": lambda rows: dp.evaluate(dp.ols("y ~ x", rows, 1.0, domain=DOMAIN), rows, 1.0).summary(),
    "choice": lambda rows: dp.select([0.2, 0.5], "abs(x - candidate)", rows, domain=DOMAIN, eps=1.0).summary(),
    "tuning": lambda rows: dp.plan_tuning("y ~ x", DOMAIN, {"alpha": [1.0, 2.0]}, eps=1.0, penalty="ridge"),
    "sums": lambda rows: dp.release_statistics(DOMAIN, ["y", "x"], 1.0, data=rows).fit("y ~ x").summary(),
    "absorbed": lambda rows: dp.ols("y ~ x | z", rows.assign(z=rows["z"].round(2)), 1.0, domain=DOMAIN),
    "comparison": lambda rows: dp.compare("y ~ x", DOMAIN, 1.0, n=1000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_nothing_that_is_printed_names_a_path_of_the_repository(name: str, rows: pd.DataFrame) -> None:
    text = str(PRINTED[name](rows))
    assert "docs/" not in text
    for cited_page in re.findall(r'dp\.proof\(\s*"(\w+)"\s*\)', text):
        assert cited_page in PAGES
    assert max(map(len, text.splitlines())) <= 80

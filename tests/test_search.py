"""The search of the documentation brings the guide first: its index is built, and ranked as Sphinx's script does."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from sphinx.application import Sphinx
from sphinx.search import IndexBuilder

DOCS = Path(__file__).resolve().parents[1] / "docs"
QUERIES = {
    "confidence interval": "guide/inference",
    "p-value": "guide/inference",
    "odds ratio": "guide/results",
    "lasso": "guide/screening",
    "budget": "guide/eps",
    "cross-validation": "guide/evaluate",
    "cross validation": "guide/evaluate",
    "missing data": "guide/check",
    "panel data": "guide/persons",
    "survey weights": "guide/weights",
}
MOST_ELSEWHERE = 31
"""What searchtools.js gives the name of an object, a title or a text at most: 11 + 15, 15 + 1, 15 + 5, and a little."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The search index of the pages that name entries of it, of which none is executed."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("_build", "generated"))
    for path in (folder / "docs").rglob("*.md"):
        if path.stem != "index" and not re.search(r"\{(index|eval-rst)", path.read_text()):
            path.unlink()
    known = ("autodoc", "autosummary", "mathjax")
    changed = {"extensions": [*(f"sphinx.ext.{name}" for name in known), "numpydoc", "myst_parser"]}
    changed["autosummary_generate"] = False  # pages of the reference are named by their objects, whose score is below
    places = [str(folder / name) for name in ("docs", "docs", "out", "trees")]
    app = Sphinx(*places, "html", confoverrides=changed, status=None, warning=None, freshenv=True)
    app.builder.read()
    found = IndexBuilder(app.env, "en", {}, "")
    for page in sorted(app.env.all_docs):
        tree = app.env.get_doctree(page)
        found.feed(page, str(app.env.doc2path(page, base=False)), app.env.titles[page].astext(), tree)
    return found.freeze()


@pytest.mark.slow
def test_the_guide_comes_first(index: dict[str, Any]) -> None:
    """One test, or each process would build the index for its share of the queries."""
    pages, titles, found = index["docnames"], index["titles"], {}
    for query in QUERIES:
        ranked = sorted(
            (-round(100 * len(query) / len(entry)), titles[place], pages[place])
            for entry, places in index["indexentries"].items()
            if query in entry and 2 * len(query) >= len(entry)
            for place, _, main in places
            if main
        )
        score, _, found[query] = ranked[0]
        assert -score > MOST_ELSEWHERE, query
    assert found == QUERIES

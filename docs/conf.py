"""Sphinx settings; `make docs` builds with warnings as errors."""

import gc
import logging
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from sphinx.application import Sphinx

from dpstats._version import __version__

sys.path.insert(0, str(Path(__file__).parent))
mpl.use("Agg")
# Pages that start a cluster would fill the terminal.
logging.getLogger("distributed").setLevel(logging.WARNING)

project = "dpstats"
author = "dpstats developers"
project_copyright = "2026, dpstats developers"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "executed",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
# File systems that ignore case would take these pages for those of the functions glm and plan.
autosummary_filename_map = {"dpstats.GLM": "dpstats.GLM-class", "dpstats.Plan": "dpstats.Plan-class"}
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "furo"
html_title = "dpstats"
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"color-brand-primary": "#0072B2", "color-brand-content": "#0072B2"},
    "dark_css_variables": {"color-brand-primary": "#56B4E9", "color-brand-content": "#56B4E9"},
}
html_static_path = ["_static"]
html_css_files = ["dpstats.css"]
html_show_sourcelink = False


def escape_bars(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Let docstrings write |x| for an absolute value, which reStructuredText would take for a substitution."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", line)


def link_pages(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings name pages by their path, docs/guide/files; here they are links that show the page's title."""

    def link(found: re.Match[str]) -> str:
        there = (Path(app.srcdir) / f"{found['page']}.md").exists()
        return f":doc:`/{found['page']}`" if there else found[0]

    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = re.sub(r"(?<![\w`/])docs/(?P<page>(?:guide/|proofs/)?[a-z_]+)", link, line)


def keep_what_is_read(app: Sphinx, *ignored: object) -> None:
    """Modules and trees of pages stay to the end: each collection of garbage would look through all of them."""
    gc.collect()
    gc.freeze()


def fold_other_branches(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """The list of pages is open at the page's own branch: whole, it took more than half of the time of a build."""
    if "toctree" in context:
        whole = context["toctree"]
        context["toctree"] = lambda **options: whole(**{**options, "collapse": True})


def setup(app: Sphinx) -> None:
    # Before pages are read and before they are written, each in processes of its own.
    app.connect("env-before-read-docs", keep_what_is_read)
    app.connect("env-updated", keep_what_is_read)
    app.connect("html-page-context", fold_other_branches, priority=400)  # before the theme asks for the list
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
    app.connect("autodoc-process-docstring", link_pages, priority=901)

"""Sphinx settings; `make docs` builds with warnings as errors."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

import matplotlib as mpl

sys.path.insert(0, str(Path(__file__).parent))
mpl.use("Agg")

project = "dpstats"
author = "dpstats developers"
project_copyright = "2026, dpstats developers"
version = release = installed_version("dpstats")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "executed",
]
exclude_patterns = ["_build"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "alabaster"
html_theme_options = {
    "description": "Regression with a differential-privacy guarantee",
    "fixed_sidebar": True,
    "page_width": "1080px",
}
html_show_sourcelink = False

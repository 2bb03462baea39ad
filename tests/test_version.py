"""The version is said once, in a file that needs nothing else of the package."""

from __future__ import annotations

import ast
import importlib.metadata
from pathlib import Path

import pytest

import dpstats
from dpstats._version import __version__
from dpstats.cli import main

ROOT = Path(__file__).resolve().parents[1]


def test_package_and_distribution_agree() -> None:
    assert dpstats.__version__ == __version__ == importlib.metadata.version("dpstats")


def test_the_shell_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr().out == f"dpstats {__version__}\n"


def test_it_can_be_read_without_importing_the_package() -> None:
    """As setuptools does for ``attr:``: one plain assignment."""
    tree = ast.parse((ROOT / "dpstats" / "_version.py").read_text())
    docstring, assignment = tree.body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(assignment, ast.Assign)
    assert ast.literal_eval(assignment.value) == __version__
    assert "version = attr: dpstats._version.__version__" in (ROOT / "setup.cfg").read_text()

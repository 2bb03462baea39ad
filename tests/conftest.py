"""Fixtures of more than one test file."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def run_page() -> Callable[..., str]:
    """`run_page` of docs/executed.py, which the documentation's build uses too."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    spec = importlib.util.spec_from_file_location("executed", ROOT / "docs" / "executed.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run_page  # type: ignore[no-any-return]

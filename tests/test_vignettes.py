"""Every vignette runs from its first block to its last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

VIGNETTES = sorted((Path(__file__).resolve().parents[1] / "vignettes").glob("*.md"))


@pytest.mark.parametrize("path", VIGNETTES, ids=lambda path: path.stem)
def test_vignette_runs(path: Path, run_page: Callable[..., str]) -> None:
    text = path.read_text()
    assert "```python" in text
    run_page(text, path.name)


def test_there_are_vignettes() -> None:
    assert VIGNETTES

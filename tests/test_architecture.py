"""docs/architecture.md describes the package that there is."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from test_layers import LAYERS

import dpstats as dp
from benchmarks import architecture

PACKAGE = Path(dp.__file__).parent
PAGE = architecture.PAGE.read_text()


def test_the_rooms_are_the_layers() -> None:
    """In the same order: what may import what is said once."""
    assert [room.name for room in architecture.rooms(PAGE)] == [
        layer for layer in LAYERS if layer not in ("", "__main__")
    ]
    assert {room.floor for room in architecture.rooms(PAGE)} == set(architecture.FLOORS)


def test_the_picture_is_of_this_page() -> None:
    """``python -m benchmarks.architecture`` draws it anew."""
    assert architecture.PICTURE.read_text() == architecture.picture(PAGE)


@pytest.mark.parametrize("what", architecture.WALKS)
def test_a_fit_takes_the_walk(what: str, tmp_path: Path) -> None:
    """Each step is a function that a real fit enters, first in the order of the page."""
    rows = {"x": np.linspace(-1, 1, 200), "y": np.linspace(-1, 1, 200)}
    domain = {"x": (-1, 1), "y": (-1, 1)}
    ledger = dp.Ledger(tmp_path / "data.ledger", dataset="made up", eps=1.0)
    first: dict[architecture.Step, int] = {}

    def tracer(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            step = architecture.Step(str(Path(code.co_filename).relative_to(PACKAGE)), code.co_name)
            first.setdefault(step, len(first))
            if code.co_name == "__init__":
                owner = architecture.Step(step.file, type(frame.f_locals["self"]).__name__)
                first.setdefault(owner, len(first))

    sys.setprofile(tracer)
    try:
        dp.glm("y ~ x", rows, 1.0, domain=domain, ledger=ledger, check_share=0)
    finally:
        sys.setprofile(None)
    steps = architecture.walk(PAGE, what)
    assert len(steps) > 5
    assert [step for step in steps if step not in first] == []
    assert sorted(steps, key=first.__getitem__) == steps


def test_files_that_the_page_names_exist() -> None:
    named = set(architecture.NAMED.findall(PAGE))
    assert len(named) > 30
    for file, function in named:
        path = PACKAGE / file if (PACKAGE / file).exists() else PACKAGE.parent / file
        assert path.exists(), file
        if function:
            defined = {getattr(node, "name", None) for node in ast.walk(ast.parse(path.read_text()))}
            assert function in defined, f"{file}:{function}"

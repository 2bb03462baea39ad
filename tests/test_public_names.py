"""What `dir` shows of a public room, and completion after a dot: its public names, and nothing that it is made of."""

import importlib
import re
from pathlib import Path

import pytest

import dpstats as dp

REFERENCE = (Path(__file__).parent.parent / "docs" / "api.md").read_text()
LISTED = set(re.findall(r"^   (\w+(?:\.\w+)*)$", REFERENCE, re.MULTILINE))

ROOMS = ("datasets", "domain", "families", "local", "penalties", "plots", "privacy", "streaming")
SUBROOMS = ("streaming.constraints", "streaming.sums")


@pytest.mark.parametrize("room", [*ROOMS, *SUBROOMS])
def test_a_room_shows_its_public_names_alone(room: str) -> None:
    module = importlib.import_module(f"dpstats.{room}")
    shown = dir(module)
    assert {name for name in shown if name not in module.__all__} <= {"ranges"}
    # What the reference lists of the room, or of a room inside of it.
    listed = {name.removeprefix(f"{room}.").partition(".")[0] for name in LISTED if name.startswith(f"{room}.")}
    assert listed <= set(shown)


def test_completion_after_penalties_names_penalties() -> None:
    known = {"L0", "SCAD", "Bridge", "ElasticNet", "Lasso", "Penalty", "Ridge", "from_dict", "penalty"}
    assert set(dir(dp.penalties)) == known


def test_the_package_shows_its_public_names_alone() -> None:
    assert set(dir(dp)) == {*dp.__all__, "__version__"}

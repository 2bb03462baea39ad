"""What `import dpstats` and a first fit load: not the large modules that they do without."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    *(
        "scipy.stats",
        "scipy.signal",
        "statsmodels.api",
        "statsmodels.genmod",
        "statsmodels.tsa",
        "formulaic",
        "sklearn",
    ),
    *("opendp.prelude", "opendp.extras", "matplotlib", "dask", "distributed", "duckdb", "yaml", "dp_accounting"),
    "dpstats.streaming",
)
"""Each takes a twentieth of a second and more, or is an extra."""

FIT = """
rows = {"x": [0.2, 0.4, 0.9], "y": [0.1, 0.9, 0.3]}
str(dp.glm("y ~ x", rows, 1.0, domain={"x": (0, 1), "y": (0, 1)}).summary())
"""


USES = f"""
import sys, dpstats as dp
print(*sys.modules)
{FIT}
print(*sys.modules)
print("streaming" in dir(dp), dp.streaming.sums.__name__)
"""


@pytest.fixture(scope="module")
def told() -> list[list[str]]:
    """Modules after the import and after a fit, and what is asked of streams then: of one process, as it takes long."""
    ran = subprocess.run([sys.executable, "-c", USES], capture_output=True, text=True, check=True)
    return [line.split() for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("line", [0, 1], ids=["import", "fit"])
def test_heavy_modules_are_left_alone(line: int, told: list[list[str]]) -> None:
    assert "dpstats.api" in told[line]
    assert not set(HEAVY) & set(told[line])


def test_streams_come_on_first_use(told: list[list[str]]) -> None:
    """As a room that is listed with the others, in a process that has not imported it."""
    assert told[2] == ["True", "dpstats.streaming.sums"]

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


@pytest.mark.parametrize("then", ["", FIT], ids=["import", "fit"])
def test_heavy_modules_are_left_alone(then: str) -> None:
    code = f"import sys, dpstats as dp\n{then}\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "dpstats.api" in ran.stdout.split()
    assert not set(HEAVY) & set(ran.stdout.split())


def test_streams_come_on_first_use() -> None:
    """As a room that is listed with the others, in a process that has not imported it."""
    code = "import dpstats as dp; print('streaming' in dir(dp), dp.streaming.sums.__name__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "dpstats.streaming.sums"]

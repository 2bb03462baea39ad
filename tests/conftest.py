"""Fixtures of more than one test file."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import numpy as np
import pytest

# A search that differs from run to run, or ends with the clock, fails on changes that did nothing.
hypothesis.settings.register_profile("suite", deadline=None, derandomize=True)
hypothesis.settings.load_profile("suite")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _no_figures_left() -> Iterator[None]:
    """pyplot keeps figures until they are closed, and warns of more than twenty."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(autouse=True, scope="module")
def no_stop_by_chance(request: pytest.FixtureRequest) -> Iterator[None]:
    """Noise alone stops a fit of few rows once in 1,000 fits, and a run makes hundreds of them."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem not in ("test_row_counts", "test_corpus"):
            patch.setattr(importlib.import_module("dpstats.plan.row_counts"), "FALSE_STOPS", 1e-9)
        yield


@pytest.fixture
def never_drawn(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[int]], None]:
    """Has OpenDP draw again what would be one of these counts: an exact count that is printed is a leak then.

    A noisy count of 3,000 rows is the exact one by chance in about 1 of 100 fits.
    """
    randomness = importlib.import_module("dpstats.privacy.randomness")
    laplace = randomness._laplace

    def never(counts: list[int]) -> None:
        def measurement(sensitivity: int, eps: float) -> Callable[[np.ndarray], np.ndarray]:
            def draw(values: np.ndarray) -> np.ndarray:
                noisy = np.array(laplace(sensitivity, eps)(values))
                while (again := np.isin(noisy, counts)).any():
                    noisy[again] = np.array(laplace(sensitivity, eps)(values))[again]
                return noisy

            return draw

        monkeypatch.setattr(randomness, "_laplace", measurement)

    return never


@pytest.fixture(scope="session")
def database() -> Iterator[Any]:
    """A PostgreSQL server, one for a session."""
    import postgres

    with postgres.server() as running:
        yield running


@pytest.fixture(scope="session")
def run_page() -> Callable[..., str]:
    """`run_page` of docs/executed.py, which the documentation's build uses too."""
    return _executed().run_page  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def linked() -> Callable[[str, str], str]:
    """`linked` of docs/executed.py."""
    return _executed().linked  # type: ignore[no-any-return]


def _executed() -> ModuleType:
    os.environ.setdefault("MPLBACKEND", "Agg")
    spec = importlib.util.spec_from_file_location("executed", ROOT / "docs" / "executed.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_collection() -> None:
    """Nothing that is collected is garbage: to look for it took a seventh of the time."""
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a cluster is slow: to start it takes seconds."""
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Tests and modules stay to the end: each collection of garbage would look through millions of objects."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a cluster, and the file of all that its processes say; one for a session, as it takes seconds."""
    pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("cluster")
    address, said = folder / "address", folder / "said"
    paths = os.pathsep.join([str(ROOT), *filter(None, sys.path)])  # functions of tests are sent by name
    # A worker that is killed by a test is no sign that its task kills workers.
    own = {"PYTHONPATH": paths, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "20"}
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, ROOT / "tests" / "cluster.py", address],
            **{"stdin": subprocess.PIPE, "stdout": output, "stderr": output, "cwd": folder},
            env={**os.environ, **own},
        )
        try:
            deadline = time.monotonic() + 120
            while not (address.exists() and address.read_text()):
                assert process.poll() is None, said.read_text()
                assert time.monotonic() < deadline, said.read_text()
                time.sleep(0.1)
            yield address.read_text(), said
        finally:
            process.communicate(timeout=60)


@pytest.fixture(scope="session")
def client(cluster: tuple[str, Path]) -> Iterator[Any]:
    """The client of the cluster."""
    from distributed import Client

    with Client(cluster[0]) as running:
        yield running

"""The client for R against a real office, where R is installed; and the JSON that it relies on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")

from served import served

CLIENT = Path(__file__).parents[2] / "clients" / "r"


def _has_r() -> bool:
    needed = 'for (one in c("httr2", "generics", "openssl", "testthat")) library(one, character.only = TRUE)'
    return (
        shutil.which("Rscript") is not None
        and not subprocess.run(["Rscript", "-e", needed], capture_output=True).returncode
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")
def test_its_own_tests_pass(opened: Callable[..., Any], tmp_path: Path) -> None:
    if not _has_r():
        pytest.skip("needs R with httr2, generics, openssl and testthat")
    library = tmp_path / "library"
    library.mkdir()
    installed = ["R", "CMD", "INSTALL", "--no-docs", "--no-test-load", f"--library={library}", str(CLIENT)]
    subprocess.run(installed, check=True, capture_output=True, timeout=300)
    service = opened(start=True)
    with served(service) as url:
        own = {"DPSTATS_TEST_URL": url, "DPSTATS_TOKEN": service.add_analyst("anna"), "R_LIBS": str(library)}
        code = f'testthat::test_dir("{CLIENT}/tests/testthat", package = "dpstats", load_package = "installed")'
        ran = subprocess.run(
            ["Rscript", "-e", code], env={**os.environ, **own}, capture_output=True, text=True, timeout=300
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert own["DPSTATS_TOKEN"] not in ran.stdout + ran.stderr

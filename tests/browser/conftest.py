"""An office with two data sets, and a browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("starlette")

from office.offices import FILE, write_office, write_rows
from office.served import served

from dpstats.office.config import Office
from dpstats.office.service import Service

CHROMIUM = shutil.which("chromium")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
QUIET += ("--disable-background-networking", "--disable-component-update")
SECOND = """
[data.panel]
title = "A panel, whose keeper looks at requests"
source = "panel.csv"
domain = "codebook.csv"
ledger = "panel.ledger"
eps = 2.0
rows = 2000
approve = true
"""


@dataclass(frozen=True)
class Place:
    """Where the office is, and who may enter."""

    service: Service
    analysts: str
    keepers: str
    keeper: str


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    os.environ["PYTHONPATH"] = os.getcwd()  # workers are processes of their own
    folder = tmp_path_factory.mktemp("office")
    write_rows(folder / "panel.csv")
    service = Service(Office.load(write_office(folder, text=FILE + SECOND)))
    service.start()
    with ExitStack() as stack:
        addresses = [stack.enter_context(served(service, keeper=keeper)) for keeper in (False, True)]
        yield Place(service, *addresses, service.new_keeper_token())
    service.stop()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser; without one the tests are skipped, unless `make test-browser` runs them."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing = "pip install playwright"
    else:
        missing = "" if CHROMIUM else "apt-get install chromium"
    if missing and os.environ.get("DPSTATS_BROWSER") == "needed":
        pytest.fail(f"there is no browser: {missing}")
    if missing:
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A fresh profile; whatever its pages complain of fails the test, if it is not the status of an answer."""
    opened = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **getattr(request, "param", {})})
    opened.set_default_timeout(30_000)
    complaints: list[str] = []
    opened.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("weberror", lambda error: complaints.append(str(error.error)))
    yield opened
    opened.close()
    assert not [text for text in complaints if "the server responded with a status of 4" not in text]


@pytest.fixture
def token(place: Place, request: pytest.FixtureRequest) -> str:
    """Of an analyst who has asked for nothing yet; each has a name of their own."""
    return place.service.add_analyst(request.node.name.partition("[")[0].removeprefix("test_")[:60])

"""Offices in temporary folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from offices import write_office

from dpstats.office.config import Office
from dpstats.office.service import Service


@pytest.fixture(scope="session", autouse=True)
def _paths() -> None:
    """Workers are processes of their own, which must import the package that is tested."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """What makes a service in the temporary folder; all are stopped afterwards."""
    services: list[Service] = []

    def make(more: str = "", *, start: bool = False) -> Service:
        path = tmp_path / "office.toml"
        services.append(Service(Office.load(path if path.exists() else write_office(tmp_path, more))))
        if start:
            services[-1].start()
        return services[-1]

    yield make
    for service in services:
        service.stop()

"""Hostile requests, and neighbouring tables behind an office: short versions of benchmarks/office."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx2")

from benchmarks.office import hostile, neighbours
from dpstats.errors import ArgumentError
from dpstats.office import worker
from dpstats.office.service import Service

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("keeper", [False, True])
def test_hostile_requests(keeper: bool) -> None:
    report, _, _ = hostile.attack(300, seed=int(keeper) + 1, keeper=keeper, dear=0, plans=0)
    assert not report.findings
    assert report.statuses.keys() >= {200, 400, 401, 404, 422}


@pytest.mark.parametrize("error", [ArgumentError(f"no column {hostile.CANARY}"), ValueError("x")])
def test_a_leak_and_a_failure_are_caught(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted."""

    def leaking(*_: object) -> None:
        raise error

    monkeypatch.setattr(Service, "made_up", leaking)
    report, _, _ = hostile.attack(100, seed=1, dear=0, plans=0)
    assert report.findings


def test_neighbouring_tables() -> None:
    findings, states = neighbours.sweep(12, seed=1)
    assert not findings
    assert states["released"] >= 6


def test_a_difference_between_neighbours_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the message of a failure depends on the file."""

    def failing(store: Any, dataset: Any, row: Any) -> tuple[str, str, None]:
        with open(dataset.source, "rb") as file:
            odd = len(file.read()) % 2
        return "failed", "even" if odd else "odd", None

    monkeypatch.setattr(worker, "carry_out", failing)
    assert neighbours.sweep(6, seed=2)[0]

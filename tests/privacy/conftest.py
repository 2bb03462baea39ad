"""Ledgers to test: a file of SQLite, and a schema of PostgreSQL."""

from __future__ import annotations

import itertools
from pathlib import Path

import postgres
import pytest

_numbers = itertools.count()


@pytest.fixture(params=["sqlite", "postgres"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a ledger may be made."""
    if request.param == "sqlite":
        return tmp_path / "budget.db"
    server: postgres.Server = request.getfixturevalue("database")
    return server.url(f"budget{next(_numbers)}")

"""Lines of progress: on terminals only, after some patience, and of public facts alone."""

from __future__ import annotations

import io
import re
import sys
import time
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.models import release
from dpstats.models.sources import FormulaSource
from dpstats.progress import progress_counter, show_elapsed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """In place of the standard error; not a fixture, since pytest sets its own anew before a test's call."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    return found


def test_nothing_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with show_elapsed("a fit", patience=0.0), progress_counter("an audit", 10, patience=0.0) as advance:
        advance(5)
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_nothing_of_short_work(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    with show_elapsed("a fit"), progress_counter("an audit", 10) as advance:
        advance(10)
    assert shown.getvalue() == ""


def test_long_work_shows_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    with show_elapsed("a fit", patience=0.01):
        time.sleep(0.2)
    assert "dpstats: a fit 00:0" in shown.getvalue()
    assert shown.getvalue().endswith("\r")


def test_counted_work_shows_how_much_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    with progress_counter("an audit", 10, patience=0.0) as advance:
        time.sleep(0.15)  # tqdm draws ten times a second at most
        advance(5)
    assert re.search(r"dpstats: an audit:  50%.* 5/10", shown.getvalue())


@pytest.mark.parametrize("rows", [50, 5000])
def test_a_fit_says_what_was_asked_for_and_the_time_alone(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Whatever the rows are, and however many."""
    shown = terminal(monkeypatch)
    slow = FormulaSource.rows

    def waiting(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.1)
        return slow(*arguments, **named)

    monkeypatch.setattr(FormulaSource, "rows", waiting)
    monkeypatch.setattr(release, "show_elapsed", partial(show_elapsed, patience=0.01))
    frame = pd.DataFrame({"x": np.linspace(0, 1, rows), "y": np.linspace(0, 1, rows)})
    dp.ols("y ~ x", frame, 1.0, domain={"x": (0, 1), "y": (0, 1)})
    lines = set(re.split(r"\r", shown.getvalue())) - {""}
    assert {re.sub(r"\d\d:\d\d", "TIME", line).strip() for line in lines} <= {
        "dpstats: rows of a gaussian GLM of y on 2 columns: reading rows TIME",
        "dpstats: gaussian GLM of y on 2 columns: reading rows TIME",
        "",
    }
    assert any("reading rows" in line for line in lines)

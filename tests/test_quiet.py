"""Work on rows makes no sound, changes nothing of the caller's, and fails with one constant error."""

from __future__ import annotations

import threading
import traceback
import warnings
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data.columns import NumericColumn
from dpstats.errors import ReleaseError
from dpstats.quiet import FAILED, fail_closed, hide_frames, quiet

CELL = 7316549.0


def test_nothing_is_heard_and_the_callers_settings_return() -> None:
    filters = list(warnings.filters)
    with np.errstate(all="raise"):
        before = np.geterr()
        with quiet():
            assert np.isinf(np.array([1.0]) / np.array([0.0]))
            warnings.warn("a row", stacklevel=1)  # an error under the test's filters
            with quiet():
                pass
            warnings.warn("another row", stacklevel=1)
        assert np.geterr() == before
    assert warnings.filters == filters


def test_overlapping_threads_leave_the_filters_as_they_were() -> None:
    filters, inside, leave = list(warnings.filters), threading.Event(), threading.Event()

    def work() -> None:
        with quiet():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    with quiet():
        thread.start()
        assert inside.wait(10)
    warnings.warn("the other thread is still at work", stacklevel=1)
    leave.set()
    thread.join()
    assert warnings.filters == filters
    with pytest.raises(UserWarning):
        warnings.warn("heard again", stacklevel=1)


@pytest.mark.parametrize(
    "error", [ValueError(CELL), SystemExit(CELL), MemoryError(), RecursionError(), dp.errors.FormulaError("a row")]
)
def test_whatever_is_raised_becomes_one_constant(error: BaseException) -> None:
    def work() -> None:
        rows = np.full(3, CELL)
        raise error from KeyError(rows[0])

    with pytest.raises(ReleaseError) as caught:
        fail_closed(work, "a public note")
    assert str(caught.value) == FAILED
    assert caught.value.__notes__ == ["a public note"]
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "work" not in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_an_interrupt_stays_one_but_tells_nothing() -> None:
    def work() -> None:
        raise KeyboardInterrupt(CELL)

    with pytest.raises(KeyboardInterrupt) as caught:
        fail_closed(work)
    assert caught.value.args == ()
    assert caught.value.__context__ is None


def frames_of(trace: TracebackType | None) -> list[Any]:
    return [frame for frame, _ in traceback.walk_tb(trace)]


@pytest.mark.parametrize("name", ["glm", "inference", "ols", "fit", "many", "ranges", "arrays"])
def test_no_frame_of_ours_in_the_traceback_holds_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pd.DataFrame({"x": np.full(5, CELL), "y": np.zeros(5)})
    facts = {"x": (0, 1e7), "y": (0, 1)}

    def broken(column: NumericColumn) -> None:
        raise ValueError(f"bad cell {column.values[0]}")

    monkeypatch.setattr(NumericColumn, "numbers", broken)
    calls = {
        "glm": lambda: dp.glm("y ~ x", data, 1.0, domain=facts),
        "inference": lambda: dp.glm("y ~ x", data, 1.0, domain=facts, inference="robust"),
        "ols": lambda: dp.ols("y ~ x", data, 1.0, domain=facts),
        "fit": lambda: dp.GLM.from_formula("y ~ x", data, domain=facts).fit(1.0),
        "many": lambda: dp.plan_many({"one": "y ~ x"}, facts, 1.0).fit(data),
        "ranges": lambda: dp.buy_ranges(data, ["x"], 1.0),
        "arrays": lambda: dp.GLM(data["y"], data[["x"]], row_norm=1.0).fit(1.0),
    }
    with pytest.raises(ReleaseError) as caught:
        calls[name]()
    assert str(caught.value) == FAILED
    assert caught.value.__context__ is None
    ours = [frame for frame in frames_of(caught.value.__traceback__) if "/dpstats/" in frame.f_code.co_filename]
    assert [frame.f_code.co_name for frame in ours] == ["call"]
    for frame in ours:
        assert not any(isinstance(value, (pd.DataFrame, np.ndarray, tuple, dict)) for value in frame.f_locals.values())


def test_an_interrupt_leaves_no_frame_of_ours_with_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pd.DataFrame({"x": np.full(5, CELL), "y": np.zeros(5)})

    def interrupted(column: NumericColumn) -> None:
        raise KeyboardInterrupt(CELL)

    monkeypatch.setattr(NumericColumn, "numbers", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        dp.ols("y ~ x", data, 1.0, domain={"x": (0, 1e7), "y": (0, 1)})
    assert caught.value.args == ()
    ours = [frame for frame in frames_of(caught.value.__traceback__) if "/dpstats/" in frame.f_code.co_filename]
    assert [frame.f_code.co_name for frame in ours] == ["call"]


def test_sealed_lets_other_errors_pass() -> None:
    @hide_frames
    def call(eps: float) -> None:
        raise dp.errors.ArgumentError(f"eps must be positive, got {eps}")

    with pytest.raises(dp.errors.ArgumentError, match="got -1"):
        call(-1)

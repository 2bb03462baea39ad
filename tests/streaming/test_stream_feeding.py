"""One path for rows: whatever holds them, cut into ticks by a column, by counting or by items, the releases agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError, DataError, LedgerError, ReleaseError, StreamError
from dpstats.streaming import Regression

MONTHS = ["2024-01", "2024-02", "2024-03", "2024-04"]
DOMAIN: dict[str, Any] = {"x": (-1, 1), "y": (-2, 2), "month": MONTHS}


def frame(rows: int = 400) -> pd.DataFrame:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, rows)
    month = np.sort(random.choice([MONTHS[0], MONTHS[1], MONTHS[3]], rows))  # nothing in March
    return pd.DataFrame({"x": x, "y": x + 0.1 * random.normal(size=rows), "month": month, "other": "private"})


def stream(**options: Any) -> Regression:
    arguments: dict[str, Any] = {"horizon": 40, "seed": 5} | options
    return Regression("y ~ x", DOMAIN, 1.0, 1e-6, **arguments)


def history(run: Regression) -> np.ndarray:
    return run.history.released.to_numpy()


def csv(folder: Path, rows: pd.DataFrame) -> str:
    rows.to_csv(folder / "rows.csv", index=False)
    return str(folder / "rows.csv")


def parquet(folder: Path, rows: pd.DataFrame) -> str:
    rows.to_parquet(folder / "rows.parquet", row_group_size=37)
    return str(folder / "rows.parquet")


CONTAINERS: dict[str, Callable[[Path, pd.DataFrame], Any]] = {
    "pandas": lambda _, rows: rows,
    "polars": lambda _, rows: pl.from_pandas(rows),
    "lazy": lambda _, rows: pl.from_pandas(rows).lazy(),
    "arrow": lambda _, rows: pa.Table.from_pandas(rows),
    "dict": lambda _, rows: {name: rows[name].tolist() for name in rows},
    "csv": csv,
    "parquet": parquet,
}


@pytest.mark.parametrize("container", sorted(CONTAINERS))
def test_ticks_of_every_container_are_those_of_single_updates(container: str, tmp_path: Path) -> None:
    rows = frame()
    data = CONTAINERS[container](tmp_path, rows)
    want, by_month = stream(), stream()
    for month in MONTHS:
        want.update(rows[rows.month == month], label=month)
    results = list(by_month.run(data, tick="month"))
    assert [result.last for result in results] == [1, 2, 3, 4]
    assert by_month.label == MONTHS[-1]
    np.testing.assert_array_equal(history(by_month), history(want))
    want, counted = stream(), stream()
    for start in range(0, 400, 150):
        want.update(rows[start : start + 150])
    list(counted.run(data, tick=150))
    np.testing.assert_array_equal(history(counted), history(want))


def test_an_iterator_gives_one_tick_an_item_or_is_counted_across_items() -> None:
    rows = frame()
    pieces = [rows[:10], rows[10:250], rows[250:400]]
    want, items, listed = stream(), stream(), stream()
    for piece in pieces:
        want.update(piece)
    assert len(list(items.run(iter(pieces)))) == 3
    list(listed.run(pieces))
    np.testing.assert_array_equal(history(items), history(want))
    np.testing.assert_array_equal(history(listed), history(want))
    want, counted = stream(), stream()
    for start in range(0, 400, 120):
        want.update(rows[start : start + 120])
    list(counted.run((piece for piece in pieces), tick=120))
    np.testing.assert_array_equal(history(counted), history(want))


def test_a_socket_s_items_are_released_as_they_come() -> None:
    """A generator is asked for its next item only when the tick before has been released."""
    asked: list[int] = []

    def socket() -> Iterator[pd.DataFrame]:
        for number in range(5):
            asked.append(number)
            yield frame(20)

    running = stream()
    for number, result in enumerate(running.run(socket()), start=1):
        assert (result.last, running.tick, len(asked)) == (number, number, number)


def test_a_run_goes_on_where_the_stream_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = frame()
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=1.0, delta=1e-5)
    whole: dict[str, Any] = {"seed": None, "ledger": ledger, "state": tmp_path / "state"}
    assert [result.last for result in stream(**whole).run(rows, tick="month", until=2)] == [1, 2]
    again = stream(**whole)
    assert again.label == "2024-02"
    assert [result.last for result in again.run(rows, tick="month")] == [3, 4]
    assert "run closes no tick" not in caplog.text
    assert list(stream(**whole).run(rows, tick="month")) == []
    assert "run closes no tick and reads no rows: the stream has closed tick 4, '2024-04', the last" in caplog.text
    assert len(ledger.entries()) == 1
    with pytest.raises(StreamError, match="'2024-02' does not come after '2024-04'"):
        again.update(rows, label="2024-02")
    other = Regression(
        "y ~ x", DOMAIN | {"month": MONTHS[::-1]}, 1.0, 1e-6, horizon=40, ledger=ledger, state=tmp_path / "state"
    )
    with pytest.raises(StreamError, match="follow the levels"):
        other.run(rows, tick="month")


def test_no_run_leaves_out_ticks_beyond_the_horizon_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    rows = frame()
    with pytest.raises(ArgumentError, match="4 levels of 'month', and the stream ends after tick 3"):
        stream(horizon=3).run(rows, tick="month")
    assert len(list(stream(horizon=3).run(rows, tick="month", until=3))) == 3
    assert not caplog.records
    assert len(list(stream(horizon=3).run(rows for _ in range(5)))) == 3
    assert "closed its last tick, 3; rows after it are not read" in caplog.text
    caplog.clear()
    assert len(list(stream().run(rows for _ in range(5)))) == 5
    assert not caplog.records


def test_nothing_happens_before_a_result_is_asked_for(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=1.0, delta=1e-5)
    stream(seed=None, ledger=ledger).run(frame(), tick="month")
    assert len(ledger.entries()) == 0


REFUSED: list[tuple[Any, dict[str, Any], dict[str, Any], type[Exception], str]] = [
    (frame(), {}, {}, ArgumentError, "tick must be a number of rows per tick"),
    (frame(), {"tick": 0}, {}, ArgumentError, "positive number"),
    (frame(), {"tick": True}, {}, ArgumentError, "positive number"),
    (frame(), {"tick": 1.5}, {}, ArgumentError, "positive number"),
    (frame(), {"tick": "other"}, {}, ArgumentError, "levels"),
    (frame(), {"tick": "x"}, {}, ArgumentError, "levels"),
    (frame().drop(columns="month"), {"tick": "month"}, {}, DataError, "month"),
    (frame().drop(columns="x"), {"tick": "month"}, {}, DataError, "'x'"),
    (iter([frame()]), {"tick": "month"}, {}, ArgumentError, "iterator"),
    (frame(), {"tick": "month", "until": 5}, {}, ArgumentError, "until"),
    (frame(), {"tick": "month", "until": 0}, {}, ArgumentError, "until"),
    (frame(), {"tick": "month"}, {"adjacency": "replace_one"}, ArgumentError, "change ticks"),
    (7, {"tick": "month"}, {}, DataError, "data must be"),
]


@pytest.mark.parametrize(("data", "arguments", "options", "error", "said"), REFUSED, ids=[case[-1] for case in REFUSED])
def test_what_is_refused_at_once(
    data: Any, arguments: dict[str, Any], options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        stream(**options).run(data, **arguments)


def test_a_bad_item_is_refused_and_the_tick_stays_open() -> None:
    running = stream()
    items = running.run(iter([frame(20), frame(20).drop(columns="x"), frame(20)]))
    next(items)
    with pytest.raises(DataError, match="'x'"):
        next(items)
    assert running.tick == 1
    running.update(frame(20))


def test_what_an_iterator_raises_is_its_own() -> None:
    def broken() -> Iterator[pd.DataFrame]:
        yield frame(30)
        raise ConnectionError("the sensor is gone")

    running = stream()
    with pytest.raises(ConnectionError, match="sensor"):
        list(running.run(broken(), tick=20))
    assert running.tick == 1


def test_files_that_cannot_be_read_are_a_constant_error(tmp_path: Path) -> None:
    path = parquet(tmp_path, frame())
    running = stream()
    results = running.run(path, tick=100)
    next(results)
    Path(path).unlink()
    with pytest.raises(ReleaseError):
        list(stream().run(path, tick=100)) if Path(path).exists() else list(_reopened(running, path, tmp_path))


def _reopened(running: Regression, path: str, folder: Path) -> Iterator[Any]:
    """A file that is there when it is opened, and not when its rows are read."""
    parquet(folder, frame())
    results = running.run(path, tick=100)
    Path(path).unlink()
    return results


def test_a_part_of_a_ledger_pays_for_its_own_rows_only(tmp_path: Path) -> None:
    rows = frame()
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=1.0, delta=1e-5)
    parts = ledger.partition("month", MONTHS)
    running = Regression("y ~ x", DOMAIN, 1.0, 1e-6, horizon=4, ledger=parts["2024-01"])
    running.update(rows)
    exact = rows[rows.month == "2024-01"]
    wide = Regression("y ~ x", DOMAIN, 1e6, 1e-6, horizon=4).update(exact)
    count = running.results.information.loc["Intercept", "Intercept"]
    want = wide.information.loc["Intercept", "Intercept"]
    assert abs(count - want) < 6 * running.results.deviation
    with pytest.raises(DataError, match="month"):
        running.update(rows.drop(columns="month"))


def test_rows_that_their_cells_chose_are_not_counted_into_ticks() -> None:
    """How many ticks they make would tell how many rows one side of a holdout has."""
    side = dp.holdout(frame(), 0.3).train
    for run in (lambda: stream().run(side, tick=5), lambda: next(stream().run(iter([side]), tick=5))):
        with pytest.raises(ArgumentError, match="were selected by their cells"):
            run()
    assert next(stream().run(iter([side]))).plan is not None


# ------------------------------------------------------------------------------------------- what the ledger is told


def test_the_ledger_says_where_ticks_are_counts_of_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Their number is public then, and that of a stream begun otherwise is not told afterwards."""
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=9.0, delta=1e-5)

    def opened(name: str, **options: Any) -> Regression:
        arguments = {"horizon": 9, "ledger": ledger, "state": tmp_path / name} | options
        return Regression("y ~ x", {"x": (-1, 1), "y": (-1, 1)}, 1.0, 1e-6, **arguments)

    rows = pd.DataFrame({"x": [0.0, 1.0] * 3, "y": [0.0, 1.0] * 3})
    assert len(list(opened("counted").run(rows, tick=2))) == 3
    assert len(list(opened("counted").run(rows, tick=3))) == 2  # goes on from its state
    opened("counted").update(rows)
    opened("own").update(rows)
    with pytest.raises(StreamError, match="private"):
        list(opened("own").run(rows, tick=2))
    assert opened("own").tick == 1
    assert "the guarantee of add_remove does not hide how many rows" in caplog.text
    caplog.clear()
    replaced = opened("replaced", adjacency="replace_one", ledger=None)
    replaced.update(rows)
    assert len(list(replaced.run(rows, tick=3))) == 2  # the number of rows is public by itself
    assert not caplog.messages
    labels = ledger.entries().label.tolist()
    assert [("ticks of 2 rows, whose number is public" in label) for label in labels] == [True, False]


@pytest.mark.slow
def test_the_guarantee_of_a_pattern_of_ticks_is_a_person_s(tmp_path: Path) -> None:
    def opened(**options: Any) -> Regression:
        arguments = {"horizon": 9} | options
        return Regression("y ~ x", {"x": (-1, 1), "y": (-1, 1)}, 1.0, 1e-6, **arguments)

    assert opened().guarantee.unit is None
    assert opened(participation=(0, 3)).guarantee.unit == "person"
    assert opened(unit="firm").guarantee.unit == "firm"
    named = {"participation": (0, 3), "unit": "id"}
    text = " ".join(str(opened(**named).plan()).split())
    assert "one id with at most one row in each of 2 ticks" in text
    assert "id, 2 ticks" in text
    assert "the caller must ensure that no id has more rows" in text
    assert "must ensure that no firm has more rows" in " ".join(str(opened(unit="firm").plan()).split())
    assert "The stream cannot check this" not in str(opened().plan())
    rows = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]})
    with pytest.raises(LedgerError, match="for rows"):
        opened(**named, ledger=dp.Ledger(tmp_path / "rows", dataset="d", eps=9.0, delta=1e-5)).update(rows)
    ledger = dp.Ledger(tmp_path / "persons", dataset="d", eps=9.0, delta=1e-5, unit="id")
    with pytest.raises(LedgerError, match="unit='id'"):
        opened(participation=(0, 3), ledger=ledger).update(rows)
    assert opened(**named, ledger=ledger).update(rows).plan.guarantee.unit == "id"
    assert ledger.entries().unit.tolist() == ["id"]
    assert "in each of 2 ticks (offsets as declared), which is not checked" in ledger.entries().label.item()

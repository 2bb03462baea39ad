"""Canaries planted in the data of a cluster reach no log, no dashboard and no message; noise never reaches a worker."""

from __future__ import annotations

import contextlib
import logging
import re
import traceback
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import dask as distributed_rows
from dpstats.data.worker import Pickled
from dpstats.solvers.objective import PerturbedObjective

dd = pytest.importorskip("dask.dataframe")

NUMBER, TEXT, ROWS = 7316549.0, "canary-cell", 3173
PATTERN = re.compile(rf"{NUMBER:.0f}|7\.316549|7\.31655e|{TEXT}|(?<![\w.-]){ROWS}(?![\w.])".encode())
DOMAIN = {"y": (-5, 5), "x": (0, 10), "g": ["a", "b"], "b": (0, 1)}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"y": rng.normal(size=ROWS), "x": rng.uniform(0, 10, ROWS), "b": rng.integers(0, 2, ROWS) / 1})
    data["g"] = rng.choice(["a", "b"], ROWS)
    data.loc[3::100, ["y", "x", "b"]], data.loc[4::100, "g"] = NUMBER, TEXT
    return data.set_axis([f"{TEXT}-{row}" for row in range(ROWS)])


def parts() -> Any:
    return dd.from_pandas(frame(), npartitions=4, sort=False)


def _raises(part: pd.DataFrame) -> pd.DataFrame:
    raise ValueError(f"cannot read {part.x.max()} and {part.g.max()}")


def _exits(part: pd.DataFrame) -> pd.DataFrame:
    raise SystemExit(f"cannot read {part.x.max()}")


def _warns(part: pd.DataFrame) -> pd.DataFrame:
    warnings.warn(f"odd cells: {part.x.max()}, {part.g.max()}", stacklevel=1)
    return part


def _odd(part: pd.DataFrame) -> pd.DataFrame:
    return part.assign(x=part.x.astype(object).where(part.x < 100, {TEXT: NUMBER}))


def _held_out(_: Path) -> Any:
    split = dp.holdout(parts(), 0.3)
    return [repr(split), dp.ols("y ~ x", split.test, 1.0, domain=DOMAIN)]


def _charged(folder: Path) -> Any:
    with dp.Ledger(folder / "ledger.db", dataset="d", eps=3.0) as ledger:
        dp.ols("y ~ x", parts(), 1.0, domain=DOMAIN, ledger=ledger.partition("g", ["a", "b"])["a"])
        with contextlib.suppress(dp.errors.ReleaseError):
            dp.ols("y ~ x", parts().map_partitions(_raises, meta=frame()[:0]), 1.0, domain=DOMAIN, ledger=ledger)
        return [ledger.report(), ledger.entries()]


def _files(folder: Path) -> Any:
    (folder / "rows").mkdir()
    frame().to_parquet(folder / "rows" / "1.parquet", index=False)
    found = dp.ols("y ~ x + g", folder / "rows" / "*.parquet", 1.0, domain=DOMAIN, engine="dask")
    (folder / "rows" / "1.parquet").unlink()
    return found


CALLS: dict[str, Callable[[Path], Any]] = {
    "fit": lambda _: dp.ols("y ~ x + g", parts(), 1.0, domain=DOMAIN),
    "binomial": lambda _: dp.logit("b ~ x + g", parts(), 1.0, domain=DOMAIN, inference=True),
    "bought": lambda _: dp.ols("y ~ x", parts(), 1.0, domain={"y": (-5, 5)}, response="bought"),
    "persisted": lambda _: dp.ols("y ~ x", parts().map_partitions(_odd, meta=frame()[:0]), 1.0, domain=DOMAIN),
    "check": lambda _: dp.check("y ~ x + g", parts(), DOMAIN, 1.0),
    "statistics": lambda _: dp.release_statistics(DOMAIN, ["y", "x", "g"], 1.0, data=parts()),
    "absorbed": lambda _: dp.ols("y ~ x | g", parts(), 1.0, domain=DOMAIN),
    "absorbed, of groups": lambda _: dp.ols("y ~ x | g", parts(), 1.0, domain=DOMAIN, unit="g"),
    "warnings": lambda _: dp.ols("y ~ x", parts().map_partitions(_warns, meta=frame()[:0]), 1.0, domain=DOMAIN),
    "errors": lambda _: dp.ols("y ~ x", parts().map_partitions(_raises, meta=frame()[:0]), 1.0, domain=DOMAIN),
    "exits": lambda _: dp.ols("y ~ x", parts().map_partitions(_exits, meta=frame()[:0]), 1.0, domain=DOMAIN),
    "predictions": lambda _: dp.ols("y ~ x", frame(), 1.0, domain=DOMAIN).predict(parts()),
    "persons": lambda _: dp.logit("b ~ x", parts(), 1.0, domain=DOMAIN, unit="g", inference=True),
    "persons drawn": lambda _: dp.check("y ~ x + g", parts(), DOMAIN, 1.0, unit="g"),
    "holdout": _held_out,
    "ledger": _charged,
    "files": _files,
}


def told(error: BaseException) -> Iterator[bytes]:
    """An error as a traceback shows it, without the source lines of this test."""
    for link in (error, error.__cause__, error.__context__ if not error.__suppress_context__ else None):
        if link is not None:
            yield "".join(traceback.format_exception_only(link)).encode()


def told_by_the_cluster(client: Any) -> Iterator[bytes]:
    """What its operators can look at: logs, names of tasks, events, profiles and pages."""
    for logs in (client.get_worker_logs(), client.get_worker_logs(nanny=True), client.get_scheduler_logs()):
        yield str(logs).encode()
    yield str(client.get_task_stream()).encode()
    yield str(client.get_events()).encode()
    yield str(client.profile()).encode()
    yield client.run_on_scheduler(_state).encode()
    info = client.scheduler_info()
    for service, port in info["services"].items():
        if "dashboard" in service:
            for page in ("/info/main/workers.html", "/info/main/exceptions.html", "/metrics", "/json/counts.json"):
                with contextlib.suppress(OSError):
                    yield urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=10).read()


def _state(dask_scheduler: Any) -> str:
    """Names of all tasks, of their groups, and of what they did."""
    return str([*dask_scheduler.tasks, *dask_scheduler.task_groups, *dask_scheduler.transition_log])


@pytest.mark.parametrize("name", CALLS)
def test_no_canary_leaves_the_cluster(
    name: str,
    client: Any,
    cluster: tuple[str, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    never_drawn: Callable[[list[int]], None],
) -> None:
    never_drawn([ROWS])
    said = cluster[1]
    before = said.stat().st_size
    caplog.set_level(logging.DEBUG)
    left = list[bytes]()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            left.append(repr(CALLS[name](tmp_path)).encode())
        except dp.errors.DPStatsError as error:
            left += told(error)
    assert not warned
    left += told_by_the_cluster(client)
    left += [said.read_bytes()[before:], caplog.text.encode(), *(text.encode() for text in capfd.readouterr())]
    left += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for piece in left:
        assert not PATTERN.search(piece), PATTERN.search(piece)


def test_the_search_finds_what_tasks_of_dask_tell(client: Any, cluster: tuple[str, Path]) -> None:
    """The same look after a task of Dask's own that fails: it writes the cell to the worker's log."""
    failing = parts().map_partitions(_raises, meta=frame()[:0]).persist()
    with pytest.raises(ValueError, match=TEXT):
        failing.compute()
    assert any(PATTERN.search(piece) for piece in [*told_by_the_cluster(client), cluster[1].read_bytes()])
    del failing
    client.restart()


class _Listening:
    """Keeps all that is sent to the workers, and all noise that is drawn."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sent, self.noise = list[bytes](), list[np.ndarray]()
        patch.setattr(distributed_rows, "Pickled", self.seal)
        kept = PerturbedObjective.__init__

        def build(objective: PerturbedObjective, *arguments: Any, **named: Any) -> None:
            kept(objective, *arguments, **named)
            self.noise.append(objective.noise)

        patch.setattr(PerturbedObjective, "__init__", build)

    def seal(self, value: Any) -> Pickled:
        sealed = Pickled(value)
        self.sent.append(sealed._packed)
        return sealed

    def found(self) -> bool:
        values = {value.tobytes() for noise in self.noise for value in noise.astype(np.float64) if value != 0}
        assert values
        return any(value in sent for sent in self.sent for value in values)


@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}, {"penalty": "lasso", "alpha": 2.0}, {"method": "output"}])
def test_noise_is_not_sent_to_workers(client: Any, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    listening = _Listening(monkeypatch)
    dp.logit("b ~ x + g", parts().persist(), 1.0, domain=DOMAIN, **options)
    assert len(listening.sent) > 5
    if "method" not in options:
        assert not listening.found()
    assert not any(TEXT.encode() in sent for sent in listening.sent)


def test_noise_that_is_sent_would_be_found(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    listening = _Listening(monkeypatch)
    whole = PerturbedObjective.accumulate

    def careless(objective: PerturbedObjective, theta: np.ndarray) -> Any:
        distributed_rows.Pickled(objective.noise)
        return whole(objective, theta)

    monkeypatch.setattr(PerturbedObjective, "accumulate", careless)
    dp.logit("b ~ x + g", parts(), 1.0, domain=DOMAIN)
    assert listening.found()

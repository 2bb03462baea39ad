"""Disks that are full, ledgers that stay locked, locks that are removed: a tick has one release, and it is not lost."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_stream_keeping import DOMAIN, one_charge, opened, rows

import dpstats as dp
from dpstats.errors import LedgerError, StreamError
from dpstats.streaming import Refits, Regression, checkpoint
from dpstats.streaming.checkpoint import Checkpoint, StreamPositions, file_lock, write_durably
from dpstats.streaming.refits import RunningRefits
from dpstats.streaming.running import Releases, RunningStream


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dp.Ledger(tmp_path / "ledger", dataset="d", eps=2.0, delta=1e-5)
    return tmp_path


PERSISTENT = pytest.mark.parametrize("ledger", [True, False], ids=["ledger", "no ledger"])


def begun(folder: Path, charged: bool = True, **options: Any) -> Regression:
    """A stream after its first tick."""
    stream = opened(folder, **({} if charged else {"ledger": None}) | options)
    stream.update(rows(0))
    return stream


def content(stream: Any, tick: int) -> bytes:
    shown = stream.at(tick)
    return bytes(np.concatenate([shown.sums, shown.scaled_params]).tobytes())


def failing(real: Callable[..., Any], code: int, count: int = 1) -> Callable[..., Any]:
    """`real`, whose call number `count` the system refuses."""
    left = [count]

    def call(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(code, os.strerror(code))
        return real(*arguments, **options)

    return call


@contextlib.contextmanager
def limited(size: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def busy(folder: Path) -> Iterator[None]:
    """The ledger is locked by somebody else."""
    other = sqlite3.connect(folder / "ledger", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


def impatient(folder: Path) -> dp.Ledger:
    return dp.Ledger.open(folder / "ledger", timeout=0.02)


# The file of releases.


def test_a_system_that_writes_less_than_it_is_given_is_asked_again(folder: Path, monkeypatch: Any) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data)[:50]))
    stream = begun(folder, False)
    shown = content(stream, 1)
    stream.update(rows(1))
    monkeypatch.undo()
    assert content(stream, 1) == content(opened(folder, ledger=None), 1) == shown


def test_what_is_shown_is_what_the_history_holds_where_a_limit_cuts_a_record_off(folder: Path) -> None:
    """The state is shorter than the limit, the file of releases is not."""
    kept, ticks = folder / "state.releases", 60
    stream = begun(folder, False, horizon=ticks)
    record = kept.stat().st_size
    needed = (folder / "state").stat().st_size + 200
    while kept.stat().st_size < needed:
        stream.update(rows(stream.tick))
    tick = stream.tick
    with limited(kept.stat().st_size + record // 2), pytest.raises(StreamError, match="free some space"):
        stream.update(rows(tick))
    assert stream.tick == tick
    stream.update(rows(99))
    shown = content(stream, tick + 1)
    again = opened(folder, ledger=None, horizon=ticks)
    again.update(rows(tick))
    assert content(again, tick + 1) == shown
    assert len(again.history) == 2 * (tick + 2)


def test_a_record_that_is_not_as_it_was_written_is_not_shown(folder: Path) -> None:
    stream = begun(folder)
    for tick in (1, 2):
        stream.update(rows(tick))
    kept = folder / "state.releases"
    whole, record = kept.read_bytes(), kept.stat().st_size // 3
    for place in (record, record + 8, record + 20, 2 * record - 1):
        kept.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(StreamError, match="damaged"):
            opened(folder).at(2)
    kept.write_bytes(whole[record : 2 * record] + whole[record:])
    with pytest.raises(StreamError, match="damaged"):
        opened(folder).at(1)


def test_the_latest_release_is_that_of_the_state(folder: Path) -> None:
    """A file that another stream has left there is not taken for this one's."""
    begun(folder, False)
    (folder / "state").unlink()
    left = (folder / "state.releases").read_bytes()
    shown = content(begun(folder, False), 1)
    (folder / "state.releases").write_bytes(left)
    again = opened(folder, ledger=None)
    again.update(rows(1))
    assert content(again, 1) == shown


def test_releases_without_checksums_are_read_and_gone_on_with(folder: Path) -> None:
    """As dpstats wrote them before: the number of the tick stands where the checksum is now."""
    stream = begun(folder)
    stream.update(rows(1))
    shown = [content(stream, tick) for tick in (1, 2)]
    kept = folder / "state.releases"
    written = np.frombuffer(kept.read_bytes(), dtype="<f8").reshape(2, -1).copy()
    written[:, 0] = (1.0, 2.0)
    kept.write_bytes(written.tobytes())
    again = opened(folder)
    again.update(rows(2))
    assert [content(again, tick) for tick in (1, 2)] == shown
    assert len(opened(folder).history) == 6


# Ticks that cannot be recorded.


@pytest.mark.parametrize("state", [True, False], ids=["state", "no state"])
def test_a_tick_waits_for_a_ledger_that_stays_locked(folder: Path, state: bool) -> None:
    stream = begun(folder, ledger=impatient(folder), **({} if state else {"state": None}))
    shown = content(stream, 1)
    for _ in range(2):
        with busy(folder), pytest.raises(LedgerError, match="stayed locked") as raised:
            stream.update(rows(1))
        assert "call update again" in raised.value.__notes__[-1]
        assert stream.tick == 1
        assert content(stream, 1) == shown
    waiting = stream._running._waiting
    assert waiting is not None
    # Its rows are read no more, whatever is given.
    fit = stream.update(None)
    assert fit.last == stream.tick == 2
    assert fit.sums.tolist() == waiting.release.released.tolist()
    assert stream.update(rows(2)).last == 3
    one_charge(folder)
    if state:
        assert content(opened(folder), 2) == content(stream, 2)


def steps_of(folder: Path, monkeypatch: Any) -> list[int]:
    """The ticks that are computed, one after another, where each but the first is given other rows after a failure."""
    steps: list[int] = []
    real = RunningStream._step

    def step(running: RunningStream, vector: Any) -> Any:
        steps.append(running.tick + 1)
        return real(running, vector)

    monkeypatch.setattr(RunningStream, "_step", step)
    stream = begun(folder, ledger=impatient(folder), state=None, horizon=9)
    for tick in (1, 2):
        with busy(folder), pytest.raises(LedgerError):
            stream.update(rows(tick))
        stream.update(rows(tick + 10))
    return steps


def test_a_tick_that_waits_is_computed_once(folder: Path, monkeypatch: Any) -> None:
    """Two releases of a tick, one of which can be recorded, would be two with the same noise."""
    assert steps_of(folder, monkeypatch) == [1, 2, 3]


def test_a_tick_that_is_forgotten_would_be_computed_again(folder: Path, monkeypatch: Any) -> None:
    """A planted bug, which the test before catches."""
    real = RunningStream._record

    def forgetting(running: RunningStream) -> None:
        try:
            real(running)
        except LedgerError:
            running._waiting = running._checkpoint._waiting = None
            raise

    monkeypatch.setattr(RunningStream, "_record", forgetting)
    assert steps_of(folder, monkeypatch) == [1, 2, 2, 3, 3]


@PERSISTENT
@pytest.mark.parametrize(
    ("step", "code", "count"),
    [
        ("dpstats.streaming.checkpoint.write_durably", errno.ENOSPC, 1),
        ("dpstats.streaming.checkpoint.os.fsync", errno.EDQUOT, 1),
        ("dpstats.streaming.checkpoint.sync_directory", errno.ENOSPC, 1),
        ("dpstats.streaming.checkpoint.sync_directory", errno.EIO, 2),
        ("dpstats.streaming.checkpoint.os.replace", errno.EBUSY, 1),
        ("dpstats.streaming.running.write_durably", errno.ENOSPC, 1),
    ],
)
def test_a_tick_waits_for_a_disk_that_refuses(
    folder: Path, monkeypatch: Any, step: str, code: int, count: int, ledger: bool
) -> None:
    stream = begun(folder, ledger)
    shown = content(stream, 1)
    module, _, name = step.rpartition(".")
    real = getattr(os, name) if module.endswith("os") else getattr(__import__(module, fromlist=[name]), name)
    with monkeypatch.context() as patch:
        patch.setattr(step, failing(real, code, count))
        with pytest.raises(StreamError, match="mount point" if code == errno.EBUSY else "disk") as raised:
            stream.update(rows(1))
        assert raised.value.__context__ is None
    assert stream.tick == 1
    assert content(stream, 1) == shown
    # A process that opens the state now either has the tick that waits, or closes it itself; here nobody does.
    assert stream.update(rows(7)).last == 2
    assert stream.update(rows(2)).last == 3
    again = opened(folder, **({} if ledger else {"ledger": None}))
    assert again.tick == 3
    assert content(again, 1) == shown
    assert content(again, 2) == content(stream, 2)
    assert not list(folder.glob(".state.next-*"))


@pytest.mark.parametrize("state", [True, False], ids=["state", "no state"])
def test_a_ledger_that_moved_on_and_could_not_say_so_is_asked(folder: Path, monkeypatch: Any, state: bool) -> None:
    stream = begun(folder, **({} if state else {"state": None}))
    real = StreamPositions.advance

    def advance(*arguments: Any) -> bool:
        real(*arguments)
        raise LedgerError("the disk refused")

    with monkeypatch.context() as patch:
        patch.setattr(StreamPositions, "advance", advance)
        with pytest.raises(LedgerError):
            stream.update(rows(1))
    assert stream.update(rows(1)).last == 2
    assert stream.update(rows(2)).last == 3
    if state:
        assert opened(folder).tick == 3


def test_a_stop_while_the_ledger_is_awaited_ends_no_stream_without_a_state(folder: Path, monkeypatch: Any) -> None:
    stream = begun(folder, state=None)
    with monkeypatch.context() as patch:
        patch.setattr(StreamPositions, "advance", failing_with(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            stream.update(rows(1))
    assert stream.update(rows(1)).last == 2


def failing_with(error: BaseException) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


@pytest.mark.parametrize("state", [True, False], ids=["state", "no state"])
def test_a_stream_that_could_not_begin_is_charged_once(folder: Path, monkeypatch: Any, state: bool) -> None:
    stream = opened(folder, **({} if state else {"state": None}))
    for name in ("begin", "_nothing"):
        with monkeypatch.context() as patch:
            if name == "begin":
                patch.setattr(StreamPositions, "begin", failing_with(LedgerError("locked")))
            else:
                patch.setattr(Checkpoint, "_put", failing_with(OSError(errno.ENOSPC, "full")))
            with pytest.raises(LedgerError if name == "begin" else (StreamError, OSError)):
                stream.update(rows(0))
    for tick in range(2):
        assert stream.update(rows(tick)).last == tick + 1
    one_charge(folder)
    if state:
        assert opened(folder).tick == 2


def test_ticks_of_a_number_of_rows_are_not_begun_with_a_charge_that_does_not_say_so(
    folder: Path, monkeypatch: Any
) -> None:
    stream = opened(folder, state=None)
    with monkeypatch.context() as patch:
        patch.setattr(StreamPositions, "begin", failing_with(LedgerError("locked")))
        with pytest.raises(LedgerError):
            stream.update(rows(0))
    with pytest.raises(StreamError, match="number of rows is private"):
        next(stream.run(rows(0), tick=10))


def test_a_full_disk_before_the_charge_charges_nothing(folder: Path, monkeypatch: Any) -> None:
    stream = opened(folder)
    with monkeypatch.context() as patch:
        patch.setattr("dpstats.streaming.checkpoint.os.fsync", failing(os.fsync, errno.ENOSPC))
        with pytest.raises(StreamError, match="free some space"):
            stream.update(rows(0))
    assert len(dp.Ledger.open(folder / "ledger").entries()) == 0
    stream.update(rows(0))
    one_charge(folder)


def test_run_does_not_take_rows_while_a_tick_waits(folder: Path) -> None:
    """Those of the tick that waits would be counted twice."""
    stream = begun(folder, ledger=impatient(folder), state=None)
    items = iter([rows(1), rows(2)])
    with busy(folder), pytest.raises(LedgerError):
        next(stream.run(items))
    with pytest.raises(StreamError, match="call update once"):
        next(stream.run(items))
    assert stream.update(rows(1)).last == 2
    assert next(stream.run(items)).last == 3


def test_a_tick_that_waits_keeps_its_name(folder: Path) -> None:
    stream = opened(folder, ledger=impatient(folder), state=None)
    stream.update(rows(0), label="2024-01")
    with busy(folder), pytest.raises(LedgerError):
        stream.update(rows(1), label="2024-02")
    for label in ("2024-03", None):
        with pytest.raises(StreamError, match="label='2024-02'"):
            stream.update(rows(1), label=label)
    stream.update(rows(1), label="2024-02")
    assert (stream.tick, stream.label) == (2, "2024-02")


@PERSISTENT
def test_a_tick_that_another_process_has_closed_meanwhile_is_never_shown(
    folder: Path, monkeypatch: Any, ledger: bool
) -> None:
    stream = begun(folder, ledger)
    before = (folder / "state").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("dpstats.streaming.checkpoint.write_durably", failing(write_durably, errno.ENOSPC))
        with pytest.raises(StreamError, match="disk"):
            stream.update(rows(1))
    opened(folder, **({} if ledger else {"ledger": None})).update(rows(7))
    with pytest.raises(StreamError, match="old copy"):
        stream.update(rows(1))
    (folder / "state").write_bytes(before)
    with pytest.raises(StreamError):
        stream.update(rows(1))
    assert stream.tick == 1


def test_a_refit_that_could_not_be_recorded_is_not_drawn_again(folder: Path, monkeypatch: Any) -> None:
    """Which of two fits is shown would depend on which of them the disk could take."""
    fits: list[int] = []
    real = RunningRefits._fit

    def fit(self: RunningRefits, table: Any, tick: int) -> Any:
        fits.append(tick)
        return real(self, table, tick)

    monkeypatch.setattr(RunningRefits, "_fit", fit)
    arguments: dict[str, Any] = {"family": "gaussian", "horizon": 3, "schedule": 1, "ledger": impatient(folder)}
    stream = Refits("y ~ x", DOMAIN, 1.0, **arguments)
    stream.update(rows(0))
    with busy(folder), pytest.raises(LedgerError) as raised:
        stream.update(rows(1))
    assert "call update again" in raised.value.__notes__[-1]
    assert (stream.tick, len(stream.history)) == (1, 2)
    assert stream.update(rows(5)) is not None
    assert (stream.tick, len(stream.history), fits) == (2, 4, [1, 2])
    one_charge(folder)


# Two processes, one state.


def shown_by_two(folder: Path, monkeypatch: Any) -> list[bytes]:
    """What two objects of one state show of tick 2, with other rows, where the lock between them is removed."""
    first = begun(folder, False)
    second = opened(folder, ledger=None)
    staged, go_on, seen = threading.Event(), threading.Event(), list[bytes]()
    real = Checkpoint._stage

    def stage(keeper: Checkpoint, content: bytes) -> None:
        real(keeper, content)
        if keeper is first._running._checkpoint:
            staged.set()
            assert go_on.wait(60)

    def close(stream: Regression, tick: int) -> None:
        with contextlib.suppress(StreamError):
            stream.update(rows(tick))
            seen.append(content(stream, 2))

    monkeypatch.setattr(Checkpoint, "_stage", stage)
    threads = [threading.Thread(target=close, args=pair) for pair in ((first, 1), (second, 7))]
    threads[0].start()
    assert staged.wait(60)
    (folder / ".state.lock").unlink()
    threads[1].start()
    threads[1].join(0.3)
    go_on.set()
    for thread in threads:
        thread.join(60)
    return seen


def test_a_lock_that_is_removed_gives_a_tick_to_one_process(folder: Path, monkeypatch: Any) -> None:
    pytest.importorskip("fcntl")
    assert len(shown_by_two(folder, monkeypatch)) == 1


def test_the_lock_beside_the_state_alone_would_give_it_to_both(folder: Path, monkeypatch: Any) -> None:
    """A planted bug: two releases with the same noise, whose difference is that of the rows."""
    pytest.importorskip("fcntl")
    real = checkpoint.file_lock

    def file_lock(path: Path, *, make: bool) -> Any:
        return real(path, make=make) if make else contextlib.nullcontext()

    monkeypatch.setattr(checkpoint, "file_lock", file_lock)
    assert len(set(shown_by_two(folder, monkeypatch))) == 2


def test_a_lock_that_was_removed_while_it_was_awaited_is_of_no_use(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path, entered = tmp_path / "lock", threading.Event()

    def wait() -> None:
        with file_lock(path, make=True):
            entered.set()

    thread = threading.Thread(target=wait)
    with contextlib.ExitStack() as later:
        with file_lock(path, make=True):
            thread.start()
            entered.wait(0.1)
            path.unlink()
            later.enter_context(file_lock(path, make=True))
        assert not entered.wait(0.1)
    assert entered.wait(60)
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_forked_amid_a_tick_does_not_keep_the_lock(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "lock"
    with file_lock(path, make=True):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_the_name_is_durable_before_the_tick_is_shown(folder: Path, monkeypatch: Any) -> None:
    """Else a power failure would leave the state before, from which the tick would be closed again."""
    stream, order = begun(folder, False), list[str]()

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: (order.append(name), real(*arguments))[1]  # type: ignore[func-returns-value]

    monkeypatch.setattr(os, "replace", noted("rename", os.replace))
    monkeypatch.setattr(checkpoint, "sync_directory", noted("folder", checkpoint.sync_directory))
    monkeypatch.setattr(Releases, "append", noted("shown", Releases.append))
    stream.update(rows(1))
    assert order == ["folder", "rename", "folder", "shown"]


# A state that is mounted by itself.


@pytest.fixture
def mounted(folder: Path) -> Iterator[Path]:
    """A folder in which the state of another is mounted."""
    other = folder / "other"
    other.mkdir()
    begun(folder, False)
    (other / "state").touch()
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("files can be mounted by root on Linux alone")
    done = subprocess.run(["mount", "--bind", folder / "state", other / "state"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("this system mounts no files")
    try:
        yield other
    finally:
        subprocess.run(["umount", other / "state"], check=True)


def test_a_state_that_is_mounted_by_itself_is_refused_before_anything_is_charged(mounted: Path) -> None:
    with pytest.raises(StreamError, match="mount its folder"):
        opened(mounted.parent, ledger=None, state=mounted / "state")
    opened(mounted.parent, ledger=None).update(rows(1))

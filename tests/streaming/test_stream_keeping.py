"""States on disk: whatever is killed, copied, restored or run twice, no tick has two noises, no stream two charges."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from benchmarks.audits.ledger_faults import context
from dpstats.errors import ArgumentError, LedgerError, StreamError
from dpstats.streaming import Regression
from dpstats.streaming.checkpoint import digest_of
from dpstats.streaming.sums import Buffers, toeplitz
from dpstats.streaming.sums.state import pack, unpack

DOMAIN: dict[str, Any] = {"x": (-1, 1), "y": (-2, 2)}
TICKS = 4


class Killed(BaseException):
    """In place of a signal that nothing survives."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dp.Ledger(tmp_path / "ledger", dataset="d", eps=2.0, delta=1e-5)
    return tmp_path


def opened(folder: Path, **options: Any) -> Regression:
    ledger = dp.Ledger.open(folder / "ledger")
    arguments: dict[str, Any] = {"horizon": TICKS, "ledger": ledger, "state": folder / "state"} | options
    return Regression("y ~ x", DOMAIN, 1.0, 1e-6, **arguments)


def rows(tick: int) -> pd.DataFrame:
    random = np.random.default_rng(tick)
    x = random.uniform(-1, 1, 100)
    return pd.DataFrame({"x": x, "y": x + 0.1 * random.normal(size=100)})


def seen_by(stream: Regression, seen: dict[int, bytes]) -> None:
    """Every release that the stream shows is the one that was shown of that tick before."""
    for tick in range(1, stream.tick + 1):
        shown = stream.at(tick)
        content = np.concatenate([shown.sums, shown.scaled_params]).tobytes()
        assert seen.setdefault(tick, content) == content


def one_charge(folder: Path) -> None:
    ledger = dp.Ledger.open(folder / "ledger")
    assert len(ledger.entries()) == 1
    assert ledger.remaining.eps == pytest.approx(1.0)


STEPS: list[tuple[str, str]] = [
    ("dpstats.streaming.checkpoint.write_durably", "before"),
    ("dpstats.streaming.checkpoint.write_durably", "halfway"),
    ("dpstats.streaming.checkpoint.write_durably", "after"),
    ("dpstats.streaming.checkpoint.os.replace", "before"),
    ("dpstats.streaming.checkpoint.os.replace", "after"),
    ("dpstats.streaming.checkpoint.StreamPositions.advance", "before"),
    ("dpstats.streaming.checkpoint.StreamPositions.advance", "after"),
    ("dpstats.streaming.checkpoint.StreamPositions.begin", "before"),
    ("dpstats.streaming.checkpoint.StreamPositions.begin", "after"),
    ("dpstats.ledger.spender.Spender.charge", "before"),
    ("dpstats.ledger.spender.Spender.charge", "after"),
    ("dpstats.streaming.running.Releases._write", "before"),
    ("dpstats.streaming.running.Releases._write", "after"),
]


def dying(real: Callable[..., Any], when: str, left: list[int]) -> Callable[..., Any]:
    """`real`, which ends the process in its call number left[0]."""

    def call(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and when == "before":
            raise Killed
        if left[0] == 0 and when == "halfway":
            Path(arguments[0]).write_bytes(arguments[1][: len(arguments[1]) // 2])
            raise Killed
        result = real(*arguments, **options)
        if left[0] == 0:
            raise Killed
        return result

    return call


def real_of(name: str) -> Callable[..., Any]:
    module, _, last = name.rpartition(".")
    if module.endswith(".os"):
        return os.replace
    parts = module.split(".")
    holder: Any = sys.modules.get(module)
    if holder is None:
        holder = getattr(sys.modules[".".join(parts[:-1])], parts[-1])
    return getattr(holder, last)


@pytest.mark.parametrize("persistent", [True, False], ids=["ledger", "no ledger"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(("step", "when"), STEPS)
def test_killed_at_every_step_the_same_numbers_are_released(
    folder: Path, monkeypatch: Any, step: str, when: str, count: int, persistent: bool
) -> None:
    options: dict[str, Any] = {} if persistent else {"ledger": None}
    seen: dict[int, bytes] = {}
    with monkeypatch.context() as patch:
        patch.setattr(step, dying(real_of(step), when, [count]))
        for _ in range(10):
            try:
                stream = opened(folder, **options)
                seen_by(stream, seen)
                while stream.tick < TICKS:
                    stream.update(rows(stream.tick))
                    seen_by(stream, seen)
                break
            except Killed:
                continue
    stream = opened(folder, **options)
    seen_by(stream, seen)
    assert stream.tick == TICKS == len(seen)
    if persistent:
        one_charge(folder)
    left = sorted(path.name for path in folder.iterdir() if "state" in path.name)
    assert left == [".state.lock", "state", "state.releases"]


def test_an_object_that_did_not_complete_a_tick_is_of_no_use(folder: Path, monkeypatch: Any) -> None:
    stream = opened(folder)
    stream.update(rows(0))
    with monkeypatch.context() as patch:
        patch.setattr("dpstats.streaming.checkpoint.os.replace", dying(os.replace, "before", [1]))
        with pytest.raises(Killed):
            stream.update(rows(1))
    with pytest.raises(StreamError, match="again from its state"):
        stream.update(rows(1))
    assert opened(folder).tick == 2


def test_the_state_is_private_and_says_so(folder: Path) -> None:
    stream = opened(folder)
    stream.update(rows(0))
    content = (folder / "state").read_bytes()
    assert b"PRIVATE DATA" in content.splitlines()[0]
    assert stat.S_IMODE((folder / "state").stat().st_mode) == 0o600
    (folder / "state").write_bytes(content[:-1] + b"?")
    with pytest.raises(StreamError, match="damaged"):
        opened(folder)


def test_the_hash_in_the_ledger_tells_no_guess_of_the_rows_from_another(folder: Path) -> None:
    """After the last tick all else in a state follows from releases and rows: only the salt keeps it secret."""
    stream = opened(folder, horizon=1)
    stream.update(rows(0))
    facts = unpack((folder / "state").read_bytes())
    assert len(bytes.fromhex(facts["salt"])) == 32
    kept = digest_of((folder / "state").read_bytes())
    guessed = {**facts, "salt": secrets.token_hex(32)}
    assert digest_of(pack(facts)) == kept
    assert digest_of(pack(guessed)) != kept
    assert digest_of(pack({name: fact for name, fact in facts.items() if name != "salt"})) != kept


def test_each_tick_has_a_salt_of_its_own(folder: Path) -> None:
    stream, salts = opened(folder), set()
    for tick in range(3):
        stream.update(rows(tick))
        salts.add(unpack((folder / "state").read_bytes())["salt"])
    assert len(salts) == 3


def test_errors_hold_no_sums_and_no_noise(folder: Path) -> None:
    """What debuggers and reports print of a traceback: not the sums of a tick whose release is refused."""
    early = opened(folder, ledger=None)
    stream = opened(folder, ledger=None)
    stream.update(rows(0))
    late = opened(folder, ledger=None)
    stream.update(rows(1))
    for refused in (early, late):
        with pytest.raises(StreamError) as raised:
            refused.update(rows(5))
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None
        trace, names = raised.value.__traceback__, set[str]()
        while trace is not None:
            names |= set(trace.tb_frame.f_locals)
            trace = trace.tb_next
        assert "pieces" not in names
        assert not names & {"vector", "release", "facts", "content", "found"}


def test_two_threads_do_not_close_ticks_at_once(folder: Path) -> None:
    """They would be given the same noise, and the difference of their releases would be that of their rows."""
    stream = opened(folder)
    entered, go_on = threading.Event(), threading.Event()
    real = stream._running._vector

    def waiting(pieces: Any) -> Any:
        entered.set()
        assert go_on.wait(60)
        return real(pieces)

    stream._running._vector = waiting
    first = threading.Thread(target=stream.update, args=(rows(0),))
    first.start()
    assert entered.wait(60)
    with pytest.raises(StreamError, match="another thread"):
        stream.update(rows(1))
    with pytest.raises(StreamError, match="another thread"):
        next(stream.run(iter([rows(1)])))
    go_on.set()
    first.join()
    assert stream.tick == 1
    stream.update(rows(1))
    assert stream.tick == 2


def test_an_old_copy_is_refused_whoever_holds_it(folder: Path) -> None:
    stream = opened(folder)
    stream.update(rows(0))
    shutil.copy(folder / "state", folder / "copy")
    twin = opened(folder)
    stream.update(rows(1))
    with pytest.raises(StreamError, match="old copy"):
        twin.update(rows(7))
    with pytest.raises(StreamError):
        opened(folder, state=folder / "copy")
    shutil.copy(folder / "copy", folder / "state")
    with pytest.raises(StreamError, match="old copy"):
        opened(folder)
    with pytest.raises(StreamError, match="old copy"):
        stream.update(rows(2))
    one_charge(folder)


def test_without_a_ledger_two_objects_of_one_state_are_told_apart(folder: Path) -> None:
    stream, twin = (opened(folder, ledger=None) for _ in range(2))
    stream.update(rows(0))
    with pytest.raises(StreamError):
        twin.update(rows(5))
    third = opened(folder, ledger=None)
    stream.update(rows(1))
    with pytest.raises(StreamError):
        third.update(rows(5))


def test_a_state_has_one_name(folder: Path) -> None:
    """By two names a tick could be closed twice, with one noise."""
    (folder / "link").symlink_to(folder / "state")
    stream = opened(folder, ledger=None, state=folder / "link")
    stream.update(rows(0))
    assert (folder / "link").is_symlink()
    twin = opened(folder, ledger=None)
    assert twin.tick == 1
    twin.update(rows(1))
    with pytest.raises(StreamError, match="old copy"):
        stream.update(rows(2))
    os.link(folder / "state", folder / "hard")
    with pytest.raises(ArgumentError, match="hard link"):
        opened(folder, ledger=None)


def test_a_state_goes_with_its_ledger(folder: Path) -> None:
    opened(folder).update(rows(0))
    with pytest.raises(StreamError, match="pass the ledger"):
        opened(folder, ledger=None)
    other = dp.Ledger(folder / "other", dataset="d", eps=2.0, delta=1e-5)
    with pytest.raises(StreamError, match="not charged for the stream"):
        opened(folder, ledger=other)
    opened(folder, ledger=None, state=folder / "free").update(rows(0))
    with pytest.raises(StreamError, match="leave it out"):
        opened(folder, state=folder / "free")


@pytest.mark.parametrize("kind", ["sums", "refits"])
def test_a_second_stream_in_place_of_one_that_goes_on_is_told(
    folder: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistyped or forgotten state= began a second stream, with a charge of its own, without a word."""
    ledger = dp.Ledger.open(folder / "ledger")
    parts = ledger.partition("month", ["May", "June"])
    more = {"horizon": TICKS} | (
        {} if kind == "sums" else {"mechanism": "refits", "schedule": 1, "family": "huber_svm"}
    )

    def begun(**options: Any) -> Regression:
        return Regression("y ~ x", {**DOMAIN, "y": (0, 1)}, 0.5, **{"ledger": ledger} | more | options)

    def told() -> list[str]:
        text = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return text

    data = rows(0).assign(y=lambda one: (one.y > 0).astype(int), month="May")
    first = begun(state=folder / "right")
    assert f"tick 0, new, state to be kept in {str(folder / 'right')!r}" in repr(first)
    first.update(data)
    kept = f"tick 1, state in {str(folder / 'right')!r}"
    assert kept in repr(first)
    assert kept in repr(begun(state=folder / "right"))
    begun(state=folder / "other", ledger=None)
    begun(state=folder / "other", horizon=5)
    begun(state=folder / "other", ledger=parts["May"]).update(data)
    begun(state=folder / "June", ledger=parts["June"])
    assert "state" not in repr(begun(ledger=None))
    assert not told(), "of the same state, another model, other rows or no ledger there is nothing to warn of"
    wrong = begun(state=folder / "wrong")
    (message,) = told()
    assert f"there is no state at {str(folder / 'wrong')!r}, so this is a new stream" in message
    assert "charge 1, 1 tick)" in message
    begun()
    (message,) = told()
    assert "no state= was passed" in message
    wrong.update(data)
    assert len(ledger.entries()) == 3, "whoever goes on is charged, as the message says"


CHANGED: list[tuple[dict[str, Any], str]] = [
    ({"horizon": 5}, "horizon"),
    ({"participation": (0, 1)}, "participation"),
    ({"radius": 2.0}, "radius"),
    ({"penalty": "ridge", "alpha": 1.0}, "penalty"),
    ({"adjacency": "replace_one"}, "adjacency"),
]


@pytest.mark.parametrize(("changed", "said"), CHANGED, ids=[said for _, said in CHANGED])
def test_a_changed_plan_is_refused_and_nothing_is_lost(folder: Path, changed: dict[str, Any], said: str) -> None:
    opened(folder).update(rows(0))
    before = (folder / "state").read_bytes()
    with pytest.raises(StreamError, match=said):
        opened(folder, **changed)
    ledger = dp.Ledger.open(folder / "ledger")
    for formula, domain in (("y ~ x - 1", DOMAIN), ("y ~ x", DOMAIN | {"x": (-1, 2)})):
        with pytest.raises(StreamError, match="formula" if "-" in formula else "domain"):
            Regression(formula, domain, 1.0, 1e-6, horizon=TICKS, ledger=ledger, state=folder / "state")
    assert (folder / "state").read_bytes() == before
    assert opened(folder).update(rows(1)).last == 2


def test_a_refunded_charge_begins_no_stream(folder: Path, monkeypatch: Any) -> None:
    stream = opened(folder)
    with monkeypatch.context() as patch:
        patch.setattr("dpstats.streaming.checkpoint.StreamPositions.begin", dying(lambda: None, "before", [1]))
        with pytest.raises(Killed):
            stream.update(rows(0))
    ledger = dp.Ledger.open(folder / "ledger")
    from dpstats.ledger.spender import Charge

    Charge(ledger._store, 1, stream.guarantee).refund()
    fresh = opened(folder)
    assert fresh.tick == 0
    fresh.update(rows(0))
    assert ledger.entries().state.tolist() == ["refunded", "read"]


def test_a_ledger_that_cannot_be_written_releases_nothing(folder: Path) -> None:
    stream = opened(folder)
    stream.update(rows(0))
    os.rename(folder / "ledger", folder / "away")
    with pytest.raises(LedgerError):
        stream.update(rows(1))
    os.rename(folder / "away", folder / "ledger")
    assert opened(folder).tick == 1


def test_without_its_releases_a_stream_goes_on_and_says_what_is_gone(folder: Path) -> None:
    opened(folder).update(rows(0))
    opened(folder).update(rows(1))
    (folder / "state.releases").unlink()
    stream = opened(folder)
    assert stream.tick == 2
    stream.update(rows(2))
    stream.at(3)
    with pytest.raises(StreamError, match="missing"):
        stream.between(1, 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_does_not_go_on(folder: Path) -> None:
    stream = opened(folder, ledger=None, state=None)
    stream.update(rows(0))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            stream.update(rows(1))
        except StreamError:
            code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def close_ticks(folder: Path, ticks: int, pipe: Connection) -> None:
    """Once a parent says so, open the stream and close ticks until there are so many, saying each release."""
    pipe.send("ready")
    pipe.recv()
    while True:
        try:
            stream = opened(folder, horizon=40)
            if stream.tick >= ticks:
                break
            tick = stream.tick + 1
            result = stream.update(rows(tick))
            pipe.send((tick, result.scaled_params.tobytes().hex()))
        except StreamError:
            pass


def processes(folder: Path, count: int, ticks: int) -> list[tuple[BaseProcess, Connection]]:
    """Running processes that wait for word before they open the stream; forked from one that has the package."""
    waiting = []
    for _ in range(count):
        pipe, theirs = context().Pipe()
        process = context().Process(target=close_ticks, args=(folder, ticks, theirs))
        process.start()
        theirs.close()
        waiting.append((process, pipe))
    for _, pipe in waiting:
        assert pipe.recv() == "ready"
    return waiting


def releases(pipe: Connection) -> Iterator[tuple[int, str]]:
    """All that a process sent before it ended."""
    with pipe, contextlib.suppress(EOFError, OSError):
        while True:
            yield pipe.recv()


@pytest.mark.slow
def test_a_race_gives_each_tick_to_one_process(folder: Path) -> None:
    ticks = 12
    racing = processes(folder, 3, ticks)
    for _, pipe in racing:
        pipe.send("begin")
    closed = [release for _, pipe in racing for release in releases(pipe)]
    for process, _ in racing:
        process.join()
        assert process.exitcode == 0
    assert sorted(tick for tick, _ in closed) == list(range(1, ticks + 1))
    stream = opened(folder, horizon=40)
    for tick, params in closed:
        assert stream.at(tick).scaled_params.tobytes().hex() == params
    one_charge(folder)


@pytest.mark.slow
def test_killed_processes_repeat_their_numbers(folder: Path) -> None:
    """Real signals, at random instants of a fixed seed; the long run is in benchmarks/streams/kills.py."""
    random, shown = np.random.default_rng(0), dict[int, str]()
    for process, pipe in processes(folder, 4, 40):
        pipe.send("begin")
        time.sleep(float(random.uniform(0.02, 0.3)))
        process.kill()
        for tick, params in releases(pipe):
            assert shown.setdefault(tick, params) == params
        process.join()
    stream = opened(folder, horizon=40)
    for tick, params in shown.items():
        assert stream.at(tick).scaled_params.tobytes().hex() == params
    assert len(dp.Ledger.open(folder / "ledger").entries()) <= 1


# Another machine, whose fits end in other digits.


def other_digits(buffers: Buffers) -> Buffers:
    """What another processor's fit ends at, see `test_a_state_goes_on_on_another_processor`."""
    return Buffers(buffers.decays, tuple(round(weight * (1 + 1e-6)) for weight in buffers.weights))


@pytest.mark.parametrize("options", [{}, {"horizon": None, "halflife": 3}, {"participation": (0, 2)}], ids=str)
def test_a_state_goes_on_where_fits_end_in_other_digits(
    folder: Path, monkeypatch: Any, options: dict[str, Any]
) -> None:
    """The noise is that of the buffers in the state: none is drawn twice, and none is another for an old node."""
    given = {"ledger": None, "seed": 1, **options}
    at_home, away = opened(folder, **given, state=folder / "home"), opened(folder, **given)
    for tick in range(2):
        at_home.update(rows(tick))
        away.update(rows(tick))
    real = toeplitz.fit_buffers
    monkeypatch.setattr(toeplitz, "fit_buffers", lambda *fitted: other_digits(real(*fitted)))
    assert Regression("y ~ x", DOMAIN, 1.0, 1e-6, **{"horizon": TICKS, "seed": 1, **options}).plan() != away.plan()
    moved = opened(folder, **given)
    assert moved.plan().digest() == away.plan().digest()
    for tick in range(2, TICKS):
        want, found = at_home.update(rows(tick)), moved.update(rows(tick))
        assert found.sums.tolist() == want.sums.tolist()
        assert found.scaled_params.tolist() == want.scaled_params.tolist()
        assert found.deviation == want.deviation
    assert moved.guarantee == away.guarantee
    monkeypatch.undo()
    assert opened(folder, **given).params.tolist() == moved.params.tolist()


@pytest.mark.parametrize("changed", ["scale", "filter", "reach", "rho"])
def test_a_state_whose_noise_is_not_that_of_its_buffers_is_refused(folder: Path, changed: str) -> None:
    """Planted: a state from elsewhere brings less noise than its own buffers need."""
    stream = opened(folder, ledger=None)
    stream.update(rows(0))
    facts = unpack((folder / "state").read_bytes())
    sums = unpack(facts["sums"].encode())
    plan = sums["plan"]
    if changed == "scale":
        plan["draws"]["scale"] *= 1 - 1e-8
    elif changed == "filter":
        plan["mechanism"]["filter"]["weights"][0] //= 2
    elif changed == "reach":
        plan["row_sensitivity"] /= 2
    else:
        plan["guarantee"]["rho"] /= 2
    (folder / "state").write_bytes(pack({**facts, "sums": pack(sums).decode()}))
    with pytest.raises(StreamError, match="another"):
        opened(folder, ledger=None)


def test_a_state_of_another_formula_is_refused_for_that_alone(folder: Path) -> None:
    domain = {"x": (0, 1), "g": ["a", "b"], "y": (0, 1)}
    call: dict[str, Any] = {"horizon": 4, "state": folder / "other"}
    stream = dp.streaming.Regression("y ~ x + g", domain, 1.0, 1e-6, **call)
    stream.update({"x": [0.5, 0.2], "g": ["a", "b"], "y": [0.5, 0.1]})
    with pytest.raises(StreamError, match=r"a stream with another formula\. Open it"):
        dp.streaming.Regression("y ~ x", domain, 1.0, 1e-6, **call)
    with pytest.raises(StreamError, match=r"with another eps, delta or adjacency\. |another .*eps, delta"):
        dp.streaming.Regression("y ~ x + g", domain, 0.5, 1e-6, **call)


OTHER_PROCESSOR = {
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512_SKX",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA",
}

ANOTHER = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
from test_stream_keeping import opened, rows
stream = opened(Path({folder!r}))
print(stream.tick)
stream.update(rows(1))
"""


@pytest.mark.slow
def test_a_state_goes_on_on_another_processor(folder: Path) -> None:
    """Libraries are told not to use what this processor has: in trials buffers then differed in the sixth digit."""
    stream = opened(folder)
    stream.update(rows(0))
    code = ANOTHER.format(here=str(Path(__file__).parent), folder=str(folder))
    environment = {**os.environ, **OTHER_PROCESSOR}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    back = opened(folder)
    assert back.tick == 2
    back.update(rows(2))
    one_charge(folder)

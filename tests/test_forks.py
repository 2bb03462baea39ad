"""A child that is forked while other threads work: it waits for none of them, and what they have set is undone."""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tqdm import tqdm

from dpstats.cached import cached_property
from dpstats.data import passes
from dpstats.privacy.k_norm import Image, box
from dpstats.privacy.k_norm import noise as law_module
from dpstats.privacy.k_norm.noise import KNormNoise
from dpstats.progress import show_elapsed
from dpstats.quiet import quiet, silence_native

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
HUNG, ROOT = -signal.SIGALRM, Path(__file__).resolve().parents[1]


def child(work: Callable[[], object], seconds: float = 20.0) -> int:
    """What a forked child ends with: 0 if `work` is true there, 3 if not, 4 if it fails, HUNG if it takes longer."""
    process = os.fork()
    if process == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        status = 4
        try:
            status = 0 if work() else 3
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@contextmanager
def another_thread(work: Callable[[threading.Event, threading.Event], Any]) -> Iterator[None]:
    """`work` goes on in another thread: it says that it is under way, and waits for the end of the block."""
    inside, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=(inside, leave))
    thread.start()
    try:
        assert inside.wait(20)
        yield
    finally:
        leave.set()
        thread.join()


def staying(block: Callable[[], AbstractContextManager[Any]]) -> AbstractContextManager[None]:
    """Another thread is inside of `block`."""

    def work(inside: threading.Event, leave: threading.Event) -> None:
        with block():
            inside.set()
            leave.wait(20)

    return another_thread(work)


@pytest.mark.parametrize("planted", [False, True])
def test_a_child_computes_what_another_thread_was_computing(planted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the lock of Python 3.11's functools.cached_property, which all laws of noise share."""
    if planted:
        if sys.version_info >= (3, 12):
            pytest.skip("functools has no such lock any more")
        old = functools.cached_property(KNormNoise.bodies.func)  # type: ignore[attr-defined]
        old.__set_name__(KNormNoise, "bodies")
        monkeypatch.setattr(KNormNoise, "bodies", old)
    image = Image(box(1), (0,), np.eye(1))
    laws, group = [KNormNoise(1.0, (image,), ((0,),), (1.0,)) for _ in range(2)], law_module.Group

    def bodies(inside: threading.Event, leave: threading.Event) -> None:
        def slow(*parts: Any) -> Any:
            inside.set()
            leave.wait(20)
            return group(*parts)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(law_module, "Group", slow)
            _ = laws[0].bodies

    def computed() -> bool:
        law_module.Group = group  # type: ignore[misc]
        return len(laws[1].bodies) == 1

    with another_thread(bodies):
        assert child(computed, 0.5 if planted else 20.0) == (HUNG if planted else 0)


def test_nothing_of_the_package_is_kept_under_the_lock_of_functools() -> None:
    files = (ROOT / "dpstats").rglob("*.py")
    asked = re.compile(r"from functools import .*cached_property|functools\.cached_property[(\s]*\n")
    assert [file for file in files if asked.search(file.read_text()) and file.name != "cached.py"] == []


def test_threads_that_compute_at_the_same_time_get_one_value() -> None:
    both = threading.Barrier(2, timeout=20)

    class Slow:
        @cached_property
        def value(self) -> object:
            both.wait()
            return object()

    slow, found = Slow(), []
    workers = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [slow.value] * 2


def test_warnings_are_heard_in_a_child_though_another_thread_was_quiet() -> None:
    filters = list(warnings.filters)

    def heard() -> bool:
        with quiet():
            warnings.warn("a row", stacklevel=1)
        return warnings.filters == filters

    with staying(quiet):
        assert warnings.filters != filters
        assert child(heard) == 0
        assert warnings.filters != filters
    assert warnings.filters == filters


def test_a_child_forked_within_a_quiet_block_stays_quiet_to_its_end() -> None:
    filters = list(warnings.filters)

    def left() -> bool:
        warnings.warn("a row", stacklevel=1)  # an error under the test's filters
        block.__exit__(None, None, None)
        return warnings.filters == filters

    with staying(quiet):
        block = quiet()
        block.__enter__()
        try:
            assert child(left) == 0
        finally:
            block.__exit__(None, None, None)
    assert warnings.filters == filters


@pytest.mark.slow
def test_children_of_busy_threads_neither_hang_nor_fall_silent() -> None:
    """Wherever the threads are, 30 times."""
    filters, done = list(warnings.filters), threading.Event()

    def busy() -> None:
        while not done.is_set():
            with quiet(), quiet():
                pass

    def heard() -> bool:
        with quiet():
            pass
        return warnings.filters == filters

    workers = [threading.Thread(target=busy) for _ in range(3)]
    for worker in workers:
        worker.start()
    try:
        assert {child(heard) for _ in range(30)} == {0}
    finally:
        done.set()
        for worker in workers:
            worker.join()
    assert warnings.filters == filters


@pytest.mark.parametrize("where", ["another thread", "the same thread"])
def test_a_child_has_its_standard_error(where: str) -> None:
    """Planted once: a child of a process that carries out a query could never say anything."""
    outside = os.fstat(2)

    def back() -> bool:
        if where == "the same thread":
            assert not os.path.samestat(os.fstat(2), outside)
            block.__exit__(None, None, None)
        with silence_native():
            within = os.path.samestat(os.fstat(2), outside)
        return not within and os.path.samestat(os.fstat(2), outside)

    if where == "another thread":
        with staying(silence_native):
            assert not os.path.samestat(os.fstat(2), outside)
            assert child(back) == 0
    else:
        block = silence_native()
        with block:
            assert child(back) == 0
    assert os.path.samestat(os.fstat(2), outside)


def test_a_child_makes_lines_of_progress_while_another_thread_was_making_one() -> None:
    def through() -> bool:
        with show_elapsed("a fit"):
            return True

    with staying(tqdm.get_lock):
        assert child(through) == 0


def test_threads_that_look_for_blas_at_the_same_time_find_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted, two that each restore what they found: one thread of BLAS would be left for good."""
    both = threading.Barrier(2, timeout=20)

    class Slow(passes._Blas):
        def __init__(self) -> None:
            super().__init__()
            both.wait()

    monkeypatch.setattr(passes, "_Blas", Slow)
    monkeypatch.setattr(passes, "_found", {})
    found: list[object] = []
    workers = [threading.Thread(target=lambda: found.append(passes._blas())) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found[0] is found[1]

"""Passes on several threads: the same sums, in the same order, without a sound."""

from __future__ import annotations

import operator
import os
import signal
import threading
import warnings
from collections.abc import Iterable

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info

import dpstats as dp
from dpstats.data import Block, MemoryRows
from dpstats.data import passes as module
from dpstats.data.passes import LEAST_ELEMENTS, RUNS, map_runs, split_runs, thread_count
from dpstats.errors import ReleaseError
from dpstats.quiet import fail_closed


def numbers(elements: Iterable[int]) -> list[int]:
    return list(elements)


@pytest.mark.parametrize("count", [0, 1, LEAST_ELEMENTS - 1, LEAST_ELEMENTS, 17, 1001])
@pytest.mark.parametrize("cores", [1, 2, 7])
def test_every_element_once_and_in_order(count: int, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "thread_count", lambda: cores)
    assert MemoryRows[int](range(count)).total_of_pieces(numbers, operator.add) == list(range(count))
    assert len(split_runs(range(count))) == (RUNS if count >= LEAST_ELEMENTS else 1)


def test_what_is_made_in_every_pass_stays_together() -> None:
    """Changes may number elements, and coins hang on the numbers."""
    rows = MemoryRows[int](range(100)).map_numbered(operator.mul)
    assert rows.total_of_pieces(numbers, operator.add) == [number**2 for number in range(100)]


def test_threads_work_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "thread_count", lambda: 2)
    both = threading.Barrier(2, timeout=60)
    assert map_runs(lambda run: both.wait() >= 0, [1, 2]) == [True, True]


@pytest.mark.parametrize(("given", "most"), [("1", 1), ("", 1000), ("many", 1000), ("0", 1000), ("²", 1000)])
def test_as_many_threads_as_other_libraries_may_use(given: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert 1 <= thread_count() <= most


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_does_not_wait_for_a_lock_that_its_parent_held() -> None:
    """Planted, a child that keeps the parent's lock: it would wait until the alarm ends it."""
    with module._blas()._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            with module._blas().alone():
                os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_blas_has_one_thread_until_the_last_of_ours_is_done() -> None:
    """Planted, limits that each set and restore for itself: the second would restore the first's single thread."""
    libraries = ThreadpoolController().select(user_api="blas")
    with libraries.limit(limits=2):
        before = blas_threads()
        assert 2 in before
        blas = module._Blas()
        one, other = blas.alone(), blas.alone()
        one.__enter__()
        other.__enter__()
        assert blas_threads() == [1]
        one.__exit__(None, None, None)
        assert blas_threads() == [1]
        other.__exit__(None, None, None)
        assert blas_threads() == before


def test_workers_find_blas_at_one_thread_and_leave_it_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "thread_count", lambda: 2)
    with ThreadpoolController().select(user_api="blas").limit(limits=2):
        before = blas_threads()
        assert map_runs(lambda run: blas_threads(), [1, 2]) == [[1], [1]]
        assert blas_threads() == before
        with pytest.raises(ZeroDivisionError):
            map_runs(lambda run: run // 0, [1, 2])
        assert blas_threads() == before


@pytest.mark.parametrize(("columns", "cores", "held"), [(3, 2, True), (3, 1, False), (5000, 2, False)])
def test_models_of_moderate_width_hold_blas(
    columns: int, cores: int, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "thread_count", lambda: cores)
    with ThreadpoolController().select(user_api="blas").limit(limits=2):
        before = blas_threads()
        with module.single_blas_thread(columns):
            assert blas_threads() == ([1] if held else before)
        assert blas_threads() == before


def blas_threads() -> list[int]:
    """How many threads the BLAS libraries of the process have now."""
    return sorted({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})


@pytest.mark.slow
def test_seeded_releases_do_not_hang_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit: coefficients, the information and robust errors of 20 blocks."""
    random = np.random.default_rng(4)
    exog = random.normal(size=(160_000, 3)) / 3
    endog = (random.random(160_000) < 1 / (1 + np.exp(-exog.sum(axis=1)))).astype(float)
    released = []
    for cores in (1, 3):
        monkeypatch.setattr(module, "thread_count", lambda cores=cores: cores)
        model = dp.GLM(endog, exog, family="binomial", row_norm=2.0)
        released.append(model.fit(1.0, inference="robust", seed=2, allow_uncertified=True))
    one, other = released
    assert (one.params == other.params).all()
    assert (one.bse == other.bse).all()


def overflowing(blocks: Iterable[Block]) -> float:
    return float(sum(np.exp(1000 * block.endog).sum() for block in blocks))


def failing(blocks: Iterable[Block]) -> float:
    raise ValueError(f"a cell: {next(iter(blocks)).endog[0]}")


def test_no_sound_and_no_cell_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy's error state is a thread's own: planted, workers without it, whose warning is one cell's doing."""
    monkeypatch.setattr(module, "thread_count", lambda: 2)
    rows = MemoryRows([Block(np.ones((2, 1)), np.array([float(at == 13), 0.0])) for at in range(20)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert fail_closed(lambda: rows.total_of_pieces(overflowing, operator.add)) == np.inf
    assert not caught
    with pytest.raises(ReleaseError) as refused:
        fail_closed(lambda: rows.total_of_pieces(failing, operator.add))
    assert refused.value.__context__ is None
    assert "cell" not in str(refused.value)

"""Running streams: memory, kills, rows as integers."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from transcripts import mechanism_mu

from dpstats.errors import StreamError
from dpstats.streaming.sums import Blt, KNormTree, PrefixSums, Toeplitz, Tree

EPS, DELTA = 1.0, 1e-5


@pytest.mark.slow
def test_constant_memory() -> None:
    """At most 8 vectors, and the same number at every tick."""
    for mechanism in (Blt(), Blt(halflife=12), Blt(horizon=10_000)):
        stream = mechanism.plan(2, eps=EPS, delta=DELTA).start()
        sizes = []
        for _ in range(300):
            stream.step(np.array([1, 2]))
            state = stream._state
            sizes.append(len(state["memory"]) + len(state["fresh"]) + len(state["sums"]))
        assert set(sizes) == {sizes[0]}
        assert sizes[0] + 1 <= 8


def test_a_killed_step_repeats_the_same_numbers() -> None:
    """Killed before the state was written, or after, the same rows give the same release, down to the last bit."""
    plan = Blt(horizon=20).plan(3, eps=EPS, delta=DELTA)
    stream, vectors = plan.start(), np.arange(60).reshape(20, 3)
    stored, transcript = stream.to_bytes(), []
    for vector in vectors:
        lost = PrefixSums.from_bytes(stored, plan).step(vector)  # this process dies before it writes its state
        stream = PrefixSums.from_bytes(stored, plan)
        released = stream.step(vector)
        stored = stream.to_bytes()  # durable from here on
        shown = PrefixSums.from_bytes(stored, plan).released  # and this one dies before it shows the numbers
        np.testing.assert_array_equal(lost, released)
        np.testing.assert_array_equal(shown, released)
        transcript.append(released)
    assert len(np.unique(np.array(transcript))) == 60


def test_two_streams_have_different_noise() -> None:
    plan = Blt(horizon=3).plan(4, eps=EPS, delta=DELTA)
    zeros = np.zeros(4, dtype=np.int64)
    assert not np.array_equal(plan.start().step(zeros), plan.start().step(zeros))


def test_rows_are_shortened_and_counted_exactly() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9000, 3)) * 10.0 ** rng.integers(-8, 8, (9000, 1))
    for norm, order in (("l1", 1), ("l2", 2), ("linf", np.inf)):
        plan = KNormTree(horizon=3).plan(3, eps=EPS, row_sensitivity={norm: 0.7})
        single = np.array([plan.total(row[None]) for row in rows[:500]])
        lengths = np.linalg.norm(single.astype(np.float64), ord=order, axis=1) * plan.step
        assert lengths.max() <= 0.7
        assert lengths.max() > 0.7 * (1 - 1e-8)
        np.testing.assert_array_equal(plan.total(rows[:500]), single.sum(axis=0))
        np.testing.assert_array_equal(plan.total(rows), plan.total(rows[:5000]) + plan.total(rows[5000:]))
        half = replace(plan, guarantee=replace(plan.guarantee, adjacency="replace_one"))
        halves = np.array([half.total(row[None]) for row in rows[:500]]).astype(np.float64)
        assert np.linalg.norm(halves, ord=order, axis=1).max() * plan.step == pytest.approx(0.35, rel=1e-8)
    odd = np.array([[np.nan, 1, 1], [np.inf, 0, 0], [1e308, 1e308, 1e308], [5e-324, 0, 0]])
    assert (plan.total(odd) == plan.total(odd[2:3])).all()


@pytest.mark.parametrize("count", [63, 64, 700])
def test_products_of_long_memories_are_exact(count: int) -> None:
    from dpstats.streaming.sums.toeplitz import TAP_BITS, exact_product

    rng = np.random.default_rng(count)
    rows = rng.integers(-(2**61), 2**61, (count, 4)).astype(object)
    weights = rng.integers(-(2**TAP_BITS), 2**TAP_BITS, count).astype(object)
    assert (exact_product(weights, rows) == weights @ rows).all()


@pytest.mark.slow
def test_sensitivity_of_persons() -> None:
    """All signs and all first ticks, for patterns of a few ticks, against the exact distance of transcripts."""
    for offsets in ((0, 1), (0, 2, 3), (0, 3, 6), (0, 1, 2, 3)):
        for kind in (Blt, Toeplitz, Tree):
            mechanism = kind(horizon=11, participation=offsets)
            assert mechanism_mu(mechanism, 11) == pytest.approx(mechanism.sensitivity, rel=1e-8)


def test_two_threads_do_not_close_one_tick() -> None:
    """Both would be given the same noise: the difference of what they release is that of their rows."""
    stream = Blt(horizon=4).plan(2, eps=EPS, delta=DELTA).start()
    entered, go_on = threading.Event(), threading.Event()
    real = stream._checked

    def waiting(vector: Any) -> Any:
        entered.set()
        assert go_on.wait(60)
        return real(vector)

    stream._checked = waiting  # type: ignore[method-assign]
    first = threading.Thread(target=stream.step, args=(np.array([1, 2]),))
    first.start()
    assert entered.wait(60)
    with pytest.raises(StreamError, match="another thread"):
        stream.step(np.array([1, 3]))
    go_on.set()
    first.join()
    assert stream.tick == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are POSIX's")
def test_a_forked_process_closes_no_tick() -> None:
    stream = Blt(horizon=4).plan(2, eps=EPS, delta=DELTA).start()
    stream._lock._process = os.getpid() + 1  # what a child finds; to fork with threads running is not safe in a test
    with pytest.raises(StreamError, match="another process"):
        stream.step(np.array([1, 2]))
    assert stream.tick == 0


def test_a_stored_plan_of_another_rho_is_not_repeated() -> None:
    """What is printed and charged of a resumed stream is what its scale of noise costs."""
    plan = Blt(horizon=12).plan(2, eps=EPS, delta=DELTA)
    rho = plan.guarantee.rho
    assert rho is not None
    assert plan.repeats(replace(plan, guarantee=replace(plan.guarantee, rho=rho * (1 + 1e-13))))
    assert not plan.repeats(replace(plan, guarantee=replace(plan.guarantee, rho=rho / 2)))

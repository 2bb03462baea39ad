"""Figures of docs/benchmarks on streams, and a fast version of its audit."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.streams import sums as streams
from dpstats.streaming.sums import Blt, Honaker, KNormTree, Mechanism, SumsPlan, Toeplitz, Tree


def test_noise() -> None:
    for figure in streams.noise_figures():
        assert figure.value == pytest.approx(figure.target, abs=1e-3), figure.name


@pytest.mark.slow
def test_months_and_persons() -> None:
    """The square root to 1e-4; buffers within .2 % of it, and below it for the CPS panel they are made for."""
    for figure in streams.interval_figures():
        if figure.name.startswith("Toeplitz"):
            assert figure.value == pytest.approx(figure.target, abs=1e-4), figure.name
        elif "CPS" in figure.name:
            assert figure.value < 0.93 * figure.target
        else:
            assert figure.value == pytest.approx(figure.target, rel=2e-3), figure.name


def test_horizons() -> None:
    known, longer, *doubled = streams.horizon_figures()
    assert known.value == pytest.approx(1.45, abs=0.01)
    assert longer.value == pytest.approx(1.30, abs=0.01)
    for figure in doubled:
        assert figure.value == pytest.approx(figure.target, abs=5e-3)


def test_buffers_by_horizon() -> None:
    counts = [len(Blt(horizon=ticks).filter.gaps) for ticks in (60, 1024, 10_000, 10**6)]
    assert counts == [2, 3, 4, 5]


def test_pure_trees_choose_more_than_two_children() -> None:
    for figure in streams.pure_figures():
        assert figure.value < 0.55 * figure.target


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [Blt(), Blt(window=12), Tree(horizon=200)], ids=repr)
def test_a_tick_takes_milliseconds_besides_its_draws(mechanism: Mechanism) -> None:
    """Ten times what was measured on an idle core, so that load does not fail it."""
    (cost,) = streams.costs([mechanism], 50)
    assert cost.tick_ms - cost.draw_ms < 20
    assert cost.state_bytes < 200_000


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [Blt(horizon=4), Toeplitz(horizon=4), Tree(horizon=4), Honaker(horizon=4)])
def test_a_short_audit(mechanism: Mechanism) -> None:
    """1,000 runs; a sound mechanism fails with probability at most .001."""
    assert streams.audit_transcripts(mechanism, size=2, runs=1000).passed


@pytest.mark.slow
def test_a_short_audit_of_pure_noise() -> None:
    assert streams.audit_transcripts(KNormTree(horizon=4, arity=2), size=2, runs=1000).passed


@pytest.mark.slow
def test_the_audit_catches_a_row_twice_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the row moves its tick by four times what the plan was told."""
    total = SumsPlan.total
    monkeypatch.setattr(SumsPlan, "total", lambda plan, rows: 4 * total(plan, np.asarray(rows)))
    assert not streams.audit_transcripts(KNormTree(horizon=4, arity=2), size=1, runs=4000).passed

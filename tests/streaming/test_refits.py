"""Batch fits made anew along a stream: one charge, no second noise, no rows before their time."""

from __future__ import annotations

import contextlib
import pickle
import shutil
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from benchmarks.audits.ledger_faults import context
from dpstats.errors import ArgumentError, BudgetExceeded, DataError, ReleaseError, StreamError
from dpstats.privacy.accounting import compose
from dpstats.streaming import Refits, Regression, Schedule
from dpstats.streaming.checkpoint import Checkpoint
from dpstats.streaming.refits import RunningRefits

DOMAIN = dp.Domain(x=(-1, 1), z=(-1, 1), y=(0, 1))


def frame(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, (2, rows))
    return pd.DataFrame({"x": x, "z": z, "y": (rng.random(rows) < 1 / (1 + np.exp(-3 * x))).astype(int)})


ROWS = frame(600)


def make(**arguments: Any) -> Refits:
    given: dict[str, Any] = {"eps": 5.0, "horizon": 6, "family": "binomial", **arguments}
    return Refits("y ~ x + z", DOMAIN, **given)


def so_far(tick: int) -> pd.DataFrame:
    return ROWS.iloc[: 100 * tick]


def test_a_stream_is_fitted_at_its_times_and_kept_between() -> None:
    stream = make(schedule=Schedule((2, 5), 6), seed=1)
    found = [stream.update(so_far(tick)) for tick in range(1, 7)]
    assert found[0] is None
    assert [stream.plan().schedule.latest(tick) for tick in range(1, 7)] == [0, 2, 2, 2, 5, 5]
    assert found[1] is found[2] is found[3]
    assert found[4] is found[5]
    assert not found[1].params.equals(found[4].params)
    assert stream.fitted == 5
    assert stream.history["tick"].tolist() == [2] * 3 + [5] * 3
    np.testing.assert_allclose(stream.history["released"][:3], found[1].params)
    assert stream.history.columns.tolist() == ["tick", "term", "released"]


def test_the_history_has_the_errors_that_fits_have() -> None:
    stream = make(schedule=Schedule((1, 2), 2), horizon=2, eps=50.0, inference=True, seed=1)
    assert stream.history.columns.tolist() == ["tick", "term", "released"]
    found = [stream.update(ROWS.iloc[: 300 * tick]) for tick in (1, 2)]
    history = stream.history
    assert history.columns.tolist() == ["tick", "term", "estimate", "std_error", "released"]
    for place, fit in enumerate(found):
        rows = history.iloc[3 * place : 3 * place + 3]
        np.testing.assert_allclose(rows["estimate"], fit.debiased)
        np.testing.assert_allclose(rows["std_error"], fit.bse.replace(np.inf, np.nan))
        np.testing.assert_allclose(rows["released"], fit.params)


def test_a_fit_is_the_batch_fit_of_all_rows_so_far() -> None:
    stream = make(schedule=3, seed=7)
    for tick in range(1, 7):
        found = stream.update(so_far(tick))
    each = stream.plan().each.guarantee
    batch = dp.logit("y ~ x + z", so_far(6), each.eps, domain=DOMAIN, seed=7 + 6, inference=None)
    pd.testing.assert_series_equal(found.params, batch.params)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize(
    "fitted",
    [{}, {"family": "huber_svm"}, {"family": "gaussian", "penalty": "lasso", "alpha": 2.0}, {"method": "output"}],
    ids=["logistic", "svm", "lasso", "output"],
)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_all_fits_together_keep_the_budget(fitted: dict[str, Any], delta: float, adjacency: str) -> None:
    plan = make(eps=1.0, delta=delta, horizon=60, adjacency=adjacency, **fitted).plan()
    assert plan.guarantee.certified
    assert plan.guarantee.adjacency == adjacency
    assert plan.guarantee.eps <= 1.0
    assert plan.guarantee.delta <= delta
    parts = [plan.each.guarantee] * len(plan.schedule.times)
    spent = plan.guarantee.delta  # 0 also where delta would buy next to nothing
    total = compose(parts, **({"delta": spent, "accountant": "pld"} if spent else {}))
    assert total.eps == pytest.approx(plan.guarantee.eps)
    assert total.eps > 0.98


def test_a_regression_by_refits_is_a_regression() -> None:
    given: dict[str, Any] = {"eps": 5.0, "horizon": 6, "family": "binomial", "schedule": 2, "seed": 1}
    made, same = Regression("y ~ x + z", DOMAIN, mechanism="refits", **given), Refits("y ~ x + z", DOMAIN, **given)
    assert isinstance(made, Regression)
    assert isinstance(made, Refits)
    assert made.plan().digest() == same.plan().digest()
    with pytest.raises(ArgumentError, match="the first fit is at tick 2"):
        _ = made.params
    for tick in (1, 2):
        made.update(so_far(tick))
        same.update(so_far(tick))
    pd.testing.assert_series_equal(made.params, same.results.params)
    for ask in (
        lambda: made.run(so_far(3)),
        lambda: made.at(1),
        lambda: made.between(0, 1),
        lambda: made.window(1),
        lambda: made.change(1),
        lambda: made.plot("x"),
    ):
        with pytest.raises(ArgumentError, match="keeps its latest fit"):
            ask()
    with pytest.raises(ArgumentError, match="mechanism"):
        Refits("y ~ x + z", DOMAIN, mechanism="linear", **given)


def test_rows_are_read_only_where_a_fit_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    fit = RunningRefits._fit

    def watched(self: RunningRefits, model: Any, tick: int) -> Any:
        read.append(tick)
        return fit(self, model, tick)

    monkeypatch.setattr(RunningRefits, "_fit", watched)
    stream = make(schedule=Schedule((1, 4), 6), seed=3)
    for tick in range(1, 7):
        stream.update(so_far(tick))
    assert read == [1, 4]


def test_a_stream_goes_on_from_its_state_with_the_same_numbers(tmp_path: Path) -> None:
    state = tmp_path / "state"
    stream = make(schedule=2, state=state)
    stream.update(so_far(1))
    released = stream.update(so_far(2))
    again = make(schedule=2, state=state)
    assert again.tick == 2
    pd.testing.assert_series_equal(again.results.params, released.params)
    pd.testing.assert_frame_equal(again.history, stream.history)
    assert again.update(so_far(3)).params.equals(released.params)
    assert state.stat().st_mode & 0o777 == 0o600


def test_a_process_killed_before_its_result_is_kept_has_shown_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fit is drawn again, but only one was ever shown; killed after, the one on the disk is shown again."""
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=5.0)
    stream = make(schedule=1, horizon=2, state=tmp_path / "state", ledger=ledger)
    stream.update(so_far(1))
    commit = Checkpoint.commit

    def killed(self: Checkpoint, facts: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        stream.update(so_far(2))
    with pytest.raises(StreamError, match="open the stream again"):
        stream.update(so_far(2))
    kept: list[dict[str, Any]] = []

    def killed_after(self: Checkpoint, facts: Any) -> None:
        commit(self, facts)
        kept.append(dict(facts))
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "commit", killed_after)
    again = make(schedule=1, horizon=2, state=tmp_path / "state", ledger=ledger)
    assert again.tick == 1
    with pytest.raises(KeyboardInterrupt):
        again.update(so_far(2))
    monkeypatch.setattr(Checkpoint, "commit", commit)
    last = make(schedule=1, horizon=2, state=tmp_path / "state", ledger=ledger)
    assert last.tick == 2
    assert last.results.scaled_params.tolist() == kept[0]["results"]["scaled_params"]
    assert len(ledger.entries()) == 1


def test_an_old_copy_of_the_state_is_refused(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=5.0)
    state = tmp_path / "state"
    stream = make(schedule=1, state=state, ledger=ledger)
    stream.update(so_far(1))
    shutil.copy(state, tmp_path / "old")
    stream.update(so_far(2))
    shutil.copy(tmp_path / "old", state)
    with pytest.raises(StreamError, match="not the valid one"):
        make(schedule=1, state=state, ledger=ledger)
    other = make(schedule=1, state=tmp_path / "other")
    other.update(so_far(1))
    with pytest.raises(StreamError):
        make(schedule=2, state=tmp_path / "other")


def test_two_processes_do_not_both_fit(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=5.0)
    first = make(schedule=1, state=tmp_path / "state", ledger=ledger)
    first.update(so_far(1))
    second = make(schedule=1, state=tmp_path / "state", ledger=ledger)
    second.update(so_far(2))
    with pytest.raises(StreamError):
        first.update(so_far(2))


def test_the_ledger_is_charged_once_for_all(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=5.0)
    stream = make(schedule=2, ledger=ledger, state=tmp_path / "state")
    assert ledger.remaining.eps == 5.0
    for tick in range(1, 7):
        stream.update(so_far(tick))
    assert ledger.entries()["eps"].tolist() == [pytest.approx(stream.guarantee.eps)]
    with pytest.raises(BudgetExceeded):
        make(schedule=2, ledger=ledger, state=tmp_path / "more").update(so_far(1))


def test_a_ledger_refuses_another_domain_than_its_own(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=5.0, domain={"x": (-9, 9), "y": [0, 1]})
    with pytest.raises(dp.errors.DPStatsError, match="omain"):
        make(schedule=1, horizon=1, ledger=ledger, state=tmp_path / "state").update(so_far(1))
    assert len(ledger.entries()) == 0


def test_errors_come_before_rows_and_charges(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=5.0)
    stream = make(schedule=1, horizon=1, ledger=ledger, state=tmp_path / "state")
    with pytest.raises(DataError):
        stream.update(ROWS.drop(columns="x"))
    assert len(ledger.entries()) == 0
    stream.update(so_far(1))
    with pytest.raises(StreamError, match="past its last tick"):
        stream.update(so_far(2))


def test_cells_make_no_error_and_no_second_charge(tmp_path: Path) -> None:
    """Rows that no model can use are dropped; the fit is then on none."""
    useless = pd.DataFrame({"x": [np.nan, np.inf], "z": [0.0, 1.0], "y": [0, 7]})
    stream = make(schedule=1, horizon=1, seed=1)
    assert np.isfinite(stream.update(useless).params).all()


def test_a_failure_leaves_the_tick_open(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = make(schedule=1, seed=1)
    with monkeypatch.context() as patched:
        patched.setattr("dpstats.models.glm.release_fit", lambda *rest: 1 / 0)
        with pytest.raises(ReleaseError):
            stream.update(so_far(1))
    assert stream.tick == 0
    assert stream.update(so_far(1)) is not None


def test_a_seed_is_not_certified_and_undeclared_columns_cost_the_same() -> None:
    assert not make(seed=1).guarantee.certified
    assert make().guarantee.certified


def test_a_plan_says_when_and_what() -> None:
    said = str(make(eps=1.0, horizon=60).plan())
    assert "9 fits" in said
    assert "1, 2, 3, 5, 7, 11, 17, 27, 43 of 60" in " ".join(said.split())
    assert max(len(line) for line in said.splitlines()) <= 80


def test_a_plan_names_sums_for_rows_alone() -> None:
    """For persons they take a limit on their rows and a delta, and were twice as noisy."""
    sums = "dp.streaming.Regression"
    assert sums in str(make().plan())
    assert sums not in str(Refits("y ~ x + z", DOMAIN, eps=5.0, horizon=6, unit="pid").plan())


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedule": 7},
        {"schedule": "often"},
        {"schedule": Schedule((1,), 5)},
        {"horizon": 0},
        {"eps": -1.0},
        {"method": "none"},
        {"penalty": "ridge"},
    ],
)
def test_bad_arguments_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        make(**wrong)


def test_streams_are_not_pickled() -> None:
    with pytest.raises(StreamError):
        pickle.dumps(make())


def release_all(folder: Path, pipe: Connection) -> None:
    """Once a parent says so, open the stream and close all its ticks, saying each result before and after."""
    pipe.recv()
    stream = make(schedule=1, horizon=40, state=folder / "state", ledger=dp.Ledger.open(folder / "ledger"))
    while stream.tick < 40:
        tick = stream.tick + 1
        if stream.results is not None:
            pipe.send((stream.tick, stream.results.scaled_params.tolist()))
        found = stream.update(so_far(min(tick, 6)))
        pipe.send((tick, found.scaled_params.tolist()))


@pytest.mark.slow
def test_killed_processes_show_one_release_a_tick(tmp_path: Path) -> None:
    """Three processes killed at random instants: no tick is shown with two results, and the ledger has one charge."""
    dp.Ledger(tmp_path / "ledger", dataset="d", eps=5.0)
    random, shown = np.random.default_rng(1), dict[int, list[float]]()
    for _ in range(3):
        pipe, theirs = context().Pipe()
        child = context().Process(target=release_all, args=(tmp_path, theirs))
        child.start()
        theirs.close()
        pipe.send("begin")
        found = [pipe.recv() for _ in range(int(random.integers(1, 6)))]
        time.sleep(float(random.uniform(0, 0.02)))
        child.kill()
        child.join()
        with pipe, contextlib.suppress(EOFError, OSError):
            while True:
                found.append(pipe.recv())
        for tick, values in found:
            assert shown.setdefault(tick, values) == values
    assert len(shown) > 3
    assert len(dp.Ledger.open(tmp_path / "ledger").entries()) == 1


def test_rows_of_a_part_are_read_after_the_charge_and_only_for_a_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which rows are the part's is read off their cells: not before they are paid for, and at no tick without a fit."""
    ledger = dp.Ledger(tmp_path / "ledger", dataset="rows", eps=5.0)
    part = ledger.partition("g", ["a", "b"])["a"]
    order: list[str] = []

    choose, charge = type(part).rows_of, Checkpoint.begin

    def read(of: Any, table: Any) -> Any:
        order.append("read")
        return choose(of, table)

    def begin(keeper: Checkpoint, *facts: Any, **said: Any) -> None:
        charge(keeper, *facts, **said)
        order.append("charged")

    monkeypatch.setattr(type(part), "rows_of", read)
    monkeypatch.setattr(Checkpoint, "begin", begin)
    stream = make(schedule=Schedule((2,), 3), horizon=3, ledger=part)
    rows = so_far(1).assign(g=["a", "b"] * 50)
    for _ in range(3):
        stream.update(rows)
    assert order == ["charged", "read"]
    spent = dp.Ledger.open(tmp_path / "ledger").partition("g", ["a", "b"])["a"]
    with pytest.raises(BudgetExceeded):
        make(ledger=spent).update(rows)
    assert order == ["charged", "read"]

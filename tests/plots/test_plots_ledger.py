"""Pictures of a ledger over time and of an audit."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from looking import caption, faults, legend, rendered
from matplotlib import pyplot

import dpstats as dp
from dpstats import plots
from dpstats.audit.blackbox import AuditResult
from dpstats.errors import ArgumentError
from dpstats.ledger import spender


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dp.Ledger:
    """Charges of four people on different days; one is refunded, two are in parts."""
    days = iter(range(1, 28, 3))

    def now(zone: object) -> datetime.datetime:
        return datetime.datetime(2025, 3, next(days), tzinfo=datetime.UTC)

    monkeypatch.setattr(spender, "datetime", SimpleNamespace(datetime=SimpleNamespace(now=now), UTC=datetime.UTC))
    made = dp.Ledger(tmp_path / "budget.db", "census $of$ 1994", 2.0)
    made.signed("Ada").charge(dp.Guarantee(0.25), label="a")
    made.signed("Ada").charge(dp.Guarantee(0.5), label="b").refund()
    made.signed("Bob with a long name, of the second floor").charge(dp.Guarantee(0.5), label="c")
    parts = made.partition("region", ["north", "south"])
    parts["north"].signed("Ada").charge(dp.Guarantee(0.25), label="d")
    parts["south"].charge(dp.Guarantee(0.125), label="e")
    return made


def test_history_adds_up_as_the_ledger_does(ledger: dp.Ledger) -> None:
    table = ledger.history()
    assert table.index.tolist() == [1, 3, 4, 5]
    assert table["eps"].tolist() == [0.25, 0.75, 1.0, 1.0]
    assert table["by_analyst"].tolist() == [0.25, 0.5, 0.5, 0.125]
    assert 2.0 - table["eps"].iloc[-1] == ledger.remaining.eps
    part = ledger.partition("region", ["north", "south"])["south"]
    assert part.history()["eps"].tolist() == [0.125]


@pytest.mark.slow
def test_spending_shows_steps_by_analyst_and_the_total(ledger: dp.Ledger) -> None:
    ax = plots.spending(ledger)
    assert not faults(ax)
    assert len(np.unique(rendered(ax).reshape(-1, 4), axis=0)) > 50
    assert legend(ax)[0] == "all"
    assert legend(ax)[-1] == "total, 2"
    assert {"Ada", "(no name)"} <= set(legend(ax))
    (whole,) = (line for line in ax.lines if line.get_label() == "all")
    assert np.asarray(whole.get_ydata()).tolist() == [0.25, 0.75, 1.0, 1.0, 1.0]
    assert "whether any one row is in the data" in caption(ax)
    assert "is eps = 1" in caption(ax)
    assert "do not add up" in caption(ax)


def test_quotas_are_drawn(ledger: dp.Ledger) -> None:
    assert not any(line.get_gid() == "quota" for line in plots.spending(ledger).lines)
    ledger.set_quota("Ada", 1.25)
    ax = plots.spending(ledger)
    (quota,) = (line for line in ax.lines if line.get_gid() == "quota")
    assert set(quota.get_ydata()) == {1.25}
    (own,) = (line for line in ax.lines if line.get_label() == "Ada, quota 1.25 (dashed)")
    assert quota.get_color() == own.get_color()
    assert "Dashed: quotas" in caption(ax)


def test_spending_of_a_path_alone_and_on_axes_of_ones_own(ledger: dp.Ledger) -> None:
    _, (left, right) = pyplot.subplots(1, 2, figsize=(13, 5), layout="constrained")
    assert plots.spending(ledger.path, ax=right) is right
    assert not left.has_data()
    assert not faults(right)


@pytest.mark.slow
def test_spending_of_empty_single_and_zcdp_ledgers(tmp_path: Path) -> None:
    empty = plots.spending(dp.Ledger(tmp_path / "a.db", "empty", 1.0))
    assert "Nothing has been charged" in caption(empty)
    ledger = dp.Ledger(tmp_path / "z.db", "z", 1.0, 1e-6, accountant="zcdp", unit="person", adjacency="replace_one")
    ledger.charge(dp.Guarantee(0.1, unit="person", adjacency="replace_one"), label="a")
    single = plots.spending(ledger)
    assert single.get_ylabel() == "rho spent"
    assert single.get_xlabel() == "entry"
    assert "the contents of any one person" in caption(single)
    for ax in (empty, single):
        assert not faults(ax)


def test_a_part_has_no_total_to_draw(ledger: dp.Ledger) -> None:
    with pytest.raises(ArgumentError, match="whole ledger"):
        plots.spending(ledger.partition("region", ["north", "south"])["north"])


def noisy(shift: float) -> AuditResult:
    return dp.audit(
        lambda data, rng, runs: rng.laplace(size=runs) + shift * data, 0, 1, eps=1, runs=4000, seed=1, vectorized=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("what", ["bounds", "scores"])
@pytest.mark.parametrize("shift", [1.0, 3.0])
def test_an_audit_says_its_verdict_and_its_limits(what: str, shift: float) -> None:
    found = noisy(shift)
    ax = found.plot(what)
    assert not faults(ax)
    assert len(np.unique(rendered(ax).reshape(-1, 4), axis=0)) > 50
    refuted = shift > 1
    assert ("REFUTED" in ax.get_title(loc="left")) == refuted
    assert ("proves nothing" in caption(ax)) != refuted
    assert "4,000 runs on each" in caption(ax)
    if what == "bounds":
        assert legend(ax)[-1] == "claimed, 1"


def test_an_audit_has_no_other_picture() -> None:
    with pytest.raises(ArgumentError, match="what must be one of"):
        noisy(1.0).plot("curve")

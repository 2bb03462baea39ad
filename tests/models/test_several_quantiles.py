"""Quantile regression: one charge, shared purchases, predictions that do not cross, and the same as QuantReg."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats as dp
from dpstats.errors import ArgumentError, DomainError
from dpstats.families import Quantile
from dpstats.models import glm, sources
from dpstats.models.quantiles import QuantilePlan, check_quantiles
from dpstats.plan.methods import ResponsePurchase

DOMAIN = {"x": (0, 1), "g": ["a", "b"], "y": (-40, 60)}
TAILS = [0.1, 0.5, 0.9]


def frame(rows: int = 3000, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    data = pd.DataFrame({"x": random.uniform(0, 1, rows), "g": random.choice(["a", "b"], rows)})
    data["y"] = 5 + 3 * data["x"] + (data["g"] == "b") + (0.5 + data["x"]) * random.normal(size=rows)
    return data


def fit(q: Any = None, data: pd.DataFrame | None = None, eps: float = 3.0, **options: Any) -> Any:
    settings = {"domain": DOMAIN, "seed": 1, **options}
    return dp.quantreg("y ~ x + g", frame() if data is None else data, eps, TAILS if q is None else q, **settings)


def pinball(residual: pd.Series, q: float) -> float:
    return float(np.maximum(q * residual, (q - 1) * residual).mean())


def test_one_quantile_is_a_fit_of_its_family() -> None:
    found, usual = fit(0.9), dp.glm("y ~ x + g", frame(), 3.0, family=Quantile(0.9), domain=DOMAIN, seed=1)
    assert found.params.equals(usual.params)
    assert dp.families.get_family("median") == Quantile(0.5)
    assert "the 0.9 quantile of y" in found.summary().as_text()
    assert "the median of y" in fit(0.5).summary().as_text()


@pytest.mark.slow
def test_with_much_budget_it_is_quantreg() -> None:
    """The width is given: what is left is its bias and the noise."""
    data = frame(3_000)
    found = fit(data=data, eps=1000.0, h=0.02, ranges="declared", check_share=0, inference=None)
    for q in TAILS:
        usual = smf.quantreg("y ~ x + g", data).fit(q=q)
        close = 0.6 * usual.bse.to_numpy()
        assert (np.abs(found[q].params[usual.params.index] - usual.params) < close).all()


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "delta"), [("add_remove", 0.0), ("add_remove", 1e-6), ("replace_one", 0.0)])
def test_the_budget_is_divided_and_charged_once(adjacency: str, delta: float, tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "l.db", dataset="d", eps=2.0, delta=1e-5, adjacency=adjacency) as ledger:
        found = fit(eps=0.7, delta=delta, adjacency=adjacency, ledger=ledger, seed=None, on_mismatch="go")
        entries = ledger.entries()
    assert entries["eps"].sum() == pytest.approx(0.7, rel=1e-9)
    assert entries["eps"].sum() <= 0.7
    assert entries["delta"].sum() <= delta
    assert entries["state"].tolist() == ["read"] * len(entries)
    assert found.guarantee.certified
    assert found.guarantee.basis == "docs/proofs/quantiles"
    assert found.guarantee.eps <= 0.7
    assert sum(one.guarantee.eps for one in found.fits.values()) <= 0.7 * (1 + 1e-12)
    for one in found.fits.values():
        assert one.budget["eps"].drop("total").sum() == pytest.approx(one.guarantee.eps, rel=1e-9)


def test_nothing_is_released_that_the_ledger_does_not_pay_for(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "l.db", dataset="d", eps=0.5) as ledger:
        with pytest.raises(dp.errors.BudgetExceeded):
            fit(eps=0.7, ledger=ledger, seed=None)
        assert ledger.entries().empty


@pytest.mark.slow
def test_what_one_quantile_has_bought_serves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """With purchases and count replaced by constants the plans are the same on different rows."""

    def bought(plan: Any, data: Any, random: Any) -> ResponsePurchase:
        return ResponsePurchase(plan.response.eps, 2.0, 12.0)

    def counted(plan: Any, *_: Any) -> Any:
        return plan.counts.released(3987, [0] * len(plan.counts.faults))

    monkeypatch.setattr(sources, "bought_response", bought)
    monkeypatch.setattr(glm, "count_rows", counted)
    found = [fit(data=frame(rows, seed), ranges="declared") for rows, seed in ((3000, 1), (5000, 2))]
    for q in TAILS:
        plans = [json.dumps(one[q].plan.to_dict(), sort_keys=True) for one in found]
        assert plans[0] == plans[1]
        assert found[0][q].plan.design.response_scaling() == (7.0, 5.0)
    assert (found[0].params != found[1].params).all(axis=None)
    assert found[0][0.1].family.h == pytest.approx(found[0][0.9].family.h)

    def peeking(plan: Any, data: Any, random: Any) -> ResponsePurchase:
        return ResponsePurchase(plan.response.eps, 2.0, float(np.max(data.column("y").numbers())))

    monkeypatch.setattr(sources, "bought_response", peeking)
    planted = [fit(data=frame(rows, seed), ranges="declared") for rows, seed in ((3000, 1), (5000, 2))]
    assert planted[0][0.9].plan.to_dict() != planted[1][0.9].plan.to_dict()


def test_predictions_do_not_cross() -> None:
    """At a budget so small that fits do; sorted ones lose nothing against any rising truth."""
    found = fit(data=frame(300), eps=0.15, on_mismatch="go", inference=None)
    raw, ordered = (found.predict(frame(500, 3), rearranged=sort) for sort in (False, True))
    assert (np.diff(raw.to_numpy(), axis=1) < 0).any()
    assert (np.diff(ordered.to_numpy(), axis=1) >= 0).all()
    assert np.sort(raw.to_numpy(), axis=1).tolist() == ordered.to_numpy().tolist()
    assert list(ordered.columns) == TAILS
    truth = np.array([4.0, 6.0, 8.0])
    for power in (1, 2, 3):
        losses = [(np.abs(one.to_numpy() - truth) ** power).sum(axis=1) for one in (raw, ordered)]
        assert (losses[1] <= losses[0] * (1 + 1e-12)).all()


def test_a_range_ten_times_too_wide_changes_no_noise() -> None:
    """The slope does not follow the range; a given width is in units of the response."""
    plans = [
        dp.plan("y ~ x + g", {**DOMAIN, "y": ends}, 1.0, family=Quantile(0.5, h)).stages[-1].plan
        for ends, h in (((-40, 60), None), ((-490, 510), None), ((-40, 60), 1.0), ((-490, 510), 10.0))
    ]
    assert len({plan.noise.scale for plan in plans[:2]}) == 1
    assert plans[2].family.h == pytest.approx(1 / 50)
    assert plans[3].family.h == pytest.approx(1 / 50)
    found = [fit(0.5, domain={**DOMAIN, "y": ends}) for ends in ((-40, 60), (-490, 510))]
    assert found[1].family.h < 2 * found[0].family.h
    close = [pinball(frame(seed=5)["y"] - one.predict(frame(seed=5)), 0.5) for one in found]
    assert close[1] == pytest.approx(close[0], rel=0.01)


def test_few_rows_keep_the_declared_range() -> None:
    found = fit(0.5, data=frame(200), eps=1.0, on_mismatch="go")
    assert found.plan.response is None
    assert found.family.h == pytest.approx(0.04 * 1.25 * 50)


def test_a_noisy_number_of_rows_below_zero_is_no_failure() -> None:
    counts = [fit(0.5, frame(5), 0.5, seed=seed, on_mismatch="go").plan.counts.rows for seed in range(4)]
    assert min(counts) < 0


@pytest.mark.slow
def test_errors_are_robust_and_cover() -> None:
    found = fit(data=frame(20_000), inference=True)
    assert all(one.has_errors for one in found.fits.values())
    exact = {0.1: -1.2816, 0.5: 0.0, 0.9: 1.2816}
    ends = found.conf_int(0.001)
    for q, z in exact.items():
        truth = pd.Series({"Intercept": 5 + 0.5 * z, "g[T.b]": 1.0, "x": 3 + z})
        own = ends.loc[q].loc[truth.index]
        assert ((own["lower"] < truth) & (truth < own["upper"])).all()
    with pytest.raises(ArgumentError, match="use 'robust'"):
        fit(0.5, inference="model")
    with pytest.raises(ArgumentError, match="does not model; leave it out"):
        fit(0.5, inference=True, fitstats=0.1)


def test_persons_and_weights() -> None:
    data = frame(2000).assign(person=np.arange(2000) // 2, w=1.0)
    domain = {**DOMAIN, "w": (0, 2)}
    found = fit([0.25, 0.75], data=data, unit="person", on_mismatch="go")
    assert found.guarantee.unit == "person"
    weighted = fit([0.25, 0.75], data=data, domain=domain, weights="w", on_mismatch="go")
    assert weighted[0.25].formula == "y ~ x + g + weights(w)"


@pytest.mark.slow
def test_results_are_stored_and_read(tmp_path: Path) -> None:
    found = fit()
    found.save(tmp_path / "found.json")
    again = dp.QuantileResults.load(tmp_path / "found.json")
    assert again.quantiles == tuple(TAILS)
    assert again.summary().as_text() == found.summary().as_text()
    assert again.guarantee == found.guarantee
    assert again.predict(frame(5)).equals(found.predict(frame(5)))
    assert max(map(len, found.summary().as_text().splitlines())) <= 80
    assert found.tidy()["quantile"].tolist() == [q for q in TAILS for _ in range(3)]


def test_pinball_loss_is_evaluated() -> None:
    data, found = frame(6000), fit(0.9)
    measured = dp.evaluate(found, data, 5.0, seed=2)
    assert list(measured.metrics.index) == ["pinball"]
    exact = pinball(data["y"] - found.predict(data), 0.9)
    assert measured.metrics.loc["pinball", "estimate"] == pytest.approx(exact, rel=0.05)
    with pytest.raises(ArgumentError, match="metrics must be among"):
        dp.evaluate(found, data, 1.0, metrics=["r2"])


def test_a_plan_reads_no_rows() -> None:
    plan = dp.plan_quantreg("y ~ x + g", DOMAIN, 1.0, q=TAILS)
    assert isinstance(plan, QuantilePlan)
    assert plan.guarantee.eps <= 1
    assert plan[0.1].eps == plan[0.9].eps > plan[0.5].eps
    assert plan[0.5].response is not None
    assert plan[0.5].response.eps == pytest.approx(0.03)
    assert max(map(len, plan.summary().as_text().splitlines())) <= 80


@pytest.mark.parametrize(
    ("q", "message"),
    [
        ([], "a list of 1 to 99"),
        ("median", "q must be a number such as 0.5"),
        (None, "q must be a number such as 0.5"),
        (True, "q must be a number such as 0.5"),
        (np.array(None), "q must be a number such as 0.5"),
        ({0.5: 1}, "q must be a number such as 0.5"),
        ([0.5, 1.5], "from 0.0001 to 0.9999"),
        ([0.5, 0.1], "q must rise"),
        ([0.5, 0.5], "q must rise"),
        (1.0, "from 0.0001 to 0.9999"),
    ],
)
def test_quantiles_that_are_refused_cost_nothing(q: object, message: str, tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "l.db", dataset="d", eps=2.0) as ledger:
        with pytest.raises(ArgumentError, match=message):
            dp.quantreg("y ~ x", frame(50), 1.0, q, domain=DOMAIN, ledger=ledger)  # type: ignore[arg-type]
        assert ledger.entries().empty


def test_other_arguments_that_are_refused() -> None:
    for settings, message in (
        ({"h": -1.0}, "h must be a positive number"),
        ({"h": 1e-200}, "h, over half the response's range, must be a positive number"),
        ({"method": "statistics"}, "method must be 'napp'"),
        ({"family": "poisson"}, "family is fixed"),
        ({"eps": -1.0}, "eps"),
    ):
        with pytest.raises(ArgumentError, match=message):
            fit(**settings)
    with pytest.raises(DomainError, match="'g'"):
        fit(domain={"x": (0, 1), "y": (-40, 60)})
    with pytest.raises(ArgumentError, match="q must be one of"):
        fit()[0.3]
    assert check_quantiles(np.array([0.2, 0.4])) == (0.2, 0.4)


def test_the_table_says_how_many_rows_and_what_is_lost_or_blank() -> None:
    lost = frame(20_000).assign(g=lambda rows: np.where(np.arange(len(rows)) % 12 == 0, "c", rows["g"]))
    found = fit(data=lost, eps=1.0, inference=True)
    words = " ".join(found.summary().as_text().split())
    for said in ("rows: about", "are lost to `g`", "coef is bias-corrected"):
        assert said in words
    blank = any(np.isinf(one.bse).any() for one in found.fits.values())
    assert ("A blank line is not identified" in words) == blank

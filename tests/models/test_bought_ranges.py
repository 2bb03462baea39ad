"""Ranges bought by a fit: what has been planned is fitted, whatever ranges the purchase returns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.models.ranges import serve
from dpstats.privacy.ranges import is_narrowest

FORMULAS = {
    "y ~ x": "gaussian",
    "y ~ np.log(x)": "gaussian",
    "np.log(y) ~ x": "gaussian",
    "y ~ np.sqrt(x) + I(1 / x)": "gaussian",
    "y ~ bs(x, df=4)": "gaussian",
    "y ~ poly(x, 3) + constant": "gaussian",
    "y ~ x + np.maximum(x - 2**52, 0)": "gaussian",
    "c ~ x": "poisson",
    "b ~ x": "binomial",
}


def frame(rows: int) -> pd.DataFrame:
    random = np.random.default_rng(rows)
    return pd.DataFrame({
        "x": random.uniform(1, 100, rows),
        "y": random.normal(size=rows),
        "c": random.poisson(2, rows),
        "b": random.integers(0, 2, rows).astype(bool),
        "constant": np.zeros(rows),
    })  # fmt: skip


@pytest.mark.parametrize("rows", [0, 1, 200])
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_spent_budget_always_buys_a_fit(formula: str, rows: int) -> None:
    """With few rows the ranges are arbitrary: often entirely below zero, where logarithms and counts have no values."""
    for seed in range(4):
        fit = dp.glm(formula, frame(rows), eps=1.0, family=FORMULAS[formula], seed=seed)
        assert np.isfinite(fit.params).all()
        assert fit.budget.loc["ranges", "eps"] == pytest.approx(0.1)


def test_a_curvature_that_bought_counts_may_outgrow_is_refused_before_the_charge() -> None:
    with pytest.raises(dp.errors.ArgumentError, match="curvature"):
        dp.poisson("c ~ x", frame(200), 1.0, curvature=3.0)
    dp.poisson("c ~ x", frame(200), 1.0, curvature=300.0, domain={"c": (0, 20)})


TRANSFORMS = ["np.log(x)", "np.exp(x)", "np.sqrt(x)", "I(1 / x)", "np.exp(np.exp(x))", "bs(x, df=4)", "I(x ** 8)"]


@pytest.mark.parametrize("term", TRANSFORMS)
@pytest.mark.parametrize("sign", [-1, 1])
def test_no_bought_range_makes_a_paid_fit_fail(term: str, sign: int) -> None:
    """Ranges far below zero, for a logarithm, and up to 2^50, for an exponential."""
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": sign * rng.uniform(1e14, 1e15, 500), "y": rng.uniform(0, 1, 500)})
    domain = {"y": (0, 1)}
    many = dp.plan_many({"one": f"y ~ {term}", "two": "y ~ x"}, domain, 2.0)
    for fits in ({"glm": dp.glm(f"y ~ {term}", data, 1.0, domain=domain)}, many.fit(data)):
        for fit in fits.values():
            assert np.isfinite(fit.scaled_params).all()


def test_only_the_range_that_does_not_serve_is_cut() -> None:
    """An exponential on a range up to 2^50 is planned on a part of it; the other bought column keeps its range."""
    ranges = {"x": dp.Range(0.0, 2.0**50), "z": dp.Range(-8.0, 1e6)}
    seen = []

    def build(usable: Mapping[str, dp.Range]) -> Mapping[str, dp.Range]:
        seen.append(usable)
        dp.plan("y ~ np.exp(x) + np.log(z)", {"y": (0, 1), **usable}, 1.0)
        return usable

    assert serve(ranges, build) == {"x": dp.Range(-1.0, 128.0), "z": dp.Range(-8.0, 1e6)}
    assert seen[0] == ranges


SIGNED = "y ~ a:I(x+1) + b:I(x+1) + c:I(x+1) + d:I(x+1)"
"""Never negative on the stand-in's range, where its bodies are simplices; of either sign on the bought one."""


@pytest.mark.parametrize("delta", [1e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3])
def test_no_purchase_turns_pure_noise_into_gaussian(delta: float, tmp_path: Path) -> None:
    """The charge follows the stand-in's plan: a law that spends more delta must not come out of the ranges."""
    levels = {name: [name + str(k) for k in range(12)] for name in "abcd"}
    rng = np.random.default_rng(0)
    data = pd.DataFrame({name: rng.choice(values, 2000) for name, values in levels.items()})
    data["x"], data["y"] = rng.normal(size=2000) * 20, rng.uniform(-1, 1, 2000)
    domain = {**levels, "y": (-1, 1)}
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=2.0, delta=0.01) as ledger:
        fit = dp.glm(SIGNED, data, 0.5, delta=delta, domain=domain, ledger=ledger)
        many = dp.plan_many({"one": SIGNED, "two": "y ~ x"}, domain, 0.5, delta=delta)
        fits = many.fit(data, ledger=ledger)
        charged = ledger.entries()["delta"].tolist()
    assert charged[0] == 0  # the count of rows
    assert fit.guarantee.delta <= charged[1]
    assert sum(one.guarantee.delta for one in fits.values()) <= charged[2] * (1 + 1e-12)


@pytest.mark.parametrize("delta", [5e-5, 4e-4])
def test_no_screened_column_brings_gaussian_noise_after_a_pure_charge(delta: float) -> None:
    """Stages are planned again on the columns kept: by the law that was charged, not by what the caller permitted."""
    numbers, factors = [f"x{k}" for k in range(20)], [f"f{k}" for k in range(20)]
    rng = np.random.default_rng(0)
    data = pd.DataFrame({**{x: rng.random(300) for x in numbers}, **{f: ["a"] * 300 for f in factors}})
    data["y"] = data[numbers].mean(axis=1)
    domain = {**dict.fromkeys(numbers, (0, 1)), **{f: list("abc") for f in factors}, "y": (0, 1)}
    model = dp.GLM.from_formula("y ~ " + " + ".join(numbers + factors), data, "gaussian", domain)
    settings = {"penalty": "ridge", "alpha": 1.0, "screen": 19, "response": "bought"}
    fit = model.fit(eps=1.0, delta=delta, **settings)
    planned = model.plan(1.0, delta=delta, **settings)
    spent = sum(stage.delta for _, stage in fit.plan.stages)
    assert spent <= fit.guarantee.delta <= planned.guarantee.delta
    assert all(stage.noise.kind == "laplace" or stage.delta > 0 for _, stage in fit.plan.stages)


def test_a_range_of_zeros_alone_is_named_with_what_to_type() -> None:
    """Of 1,500 rows 2 % are amounts in the thousands, of which (0, 0.25) was bought without a word."""
    rng = np.random.default_rng(0)
    amount = np.where(rng.random(1500) < 0.98, 0, rng.lognormal(8, 1, 1500))
    rows = pd.DataFrame({"amount": amount, "share": rng.uniform(0, 0.4, 1500), "change": rng.normal(0, 2, 1500)})
    bought = dp.buy_ranges(rows, ["amount", "share", "change"], 3.0, domain={}, seed=1)
    assert bought.narrowest == ("amount",)
    assert "\n'amount': the narrowest range about zero that can be bought" in repr(bought)
    assert "as in domain={'amount': (0, 1000)}, or buy with more eps" in repr(bought)
    assert dp.BoughtRanges.from_dict(bought.to_dict()) == bought
    more = dp.buy_ranges(pd.concat([rows] * 20), ["amount"], 3.0, domain={}, seed=1)
    assert more.narrowest == ()
    assert more.domain["amount"].high > 10_000
    assert "narrowest" not in f"{more.to_dict()}{more!r}"


def test_what_is_the_narrowest_range_about_zero() -> None:
    assert all(is_narrowest(*ends) for ends in [(0.0, 0.25), (-0.25, 0.0), (-0.375, 0.125), (-0.25, 0.25)])
    assert not any(is_narrowest(*ends) for ends in [(0.0, 0.375), (-0.5, 0.0), (-0.5, 0.25), (0.25, 0.5)])

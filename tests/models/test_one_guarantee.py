"""What is charged, planned, printed, stored and loaded is one guarantee, whatever is bought before the fit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpstats as dp
from dpstats.errors import DPStatsError

RANDOM = np.random.default_rng(20_260)
ROWS = {
    **{name: RANDOM.uniform(0, 1, 60) for name in "axz"},
    "y": RANDOM.uniform(0, 3, 60),
    "k": RANDOM.poisson(2.0, 60).astype(float),
    "id": np.repeat(np.arange(20), 3),
}
DOMAIN = {"a": (0, 1), "x": (0, 1), "z": (0, 1), "y": (0, 3), "k": (0, 10)}

Facts = tuple[float, float, str, bool, str | None]


def promise(guarantee: dp.Guarantee) -> Facts:
    return guarantee.eps, guarantee.delta, guarantee.adjacency, guarantee.certified, guarantee.unit


def check_one_guarantee(tmp_path: Path, eps: float, hidden: tuple[str, ...], outcome: str, **options: Any) -> None:
    """Charge a fit and compare every place that says what it costs; a plan that is refused costs nothing."""
    domain = {name: fact for name, fact in DOMAIN.items() if name not in hidden}
    family = "poisson" if outcome == "k" else "gaussian"
    model = dp.GLM.from_formula(f"{outcome} ~ a + x + z", ROWS, family, domain)
    whose = {"adjacency": options.get("adjacency", "add_remove"), "unit": options.get("unit")}
    try:
        plan = model.plan(eps, rows_at_least=1e6, **options)
    except DPStatsError as refused:
        pytest.skip(str(refused))
    ledger = dp.Ledger(tmp_path / "one.ledger", "rows", eps=100, delta=0.1, **whose)
    # The rows are too few for the errors that some options insist on.
    fit = model.fit(eps, rows_at_least=1e6, ledger=ledger, on_mismatch="go", **options)
    fit.save(tmp_path / "fit.json")
    loaded = dp.GLMResults.load(tmp_path / "fit.json")
    charged = ledger.entries()[["eps", "delta"]].sum()  # of a count of the rows and of the rest
    shown = {promise(one) for one in (plan.guarantee, fit.guarantee, loaded.guarantee, loaded.plan.guarantee)}
    ((told_eps, told_delta, *others),) = shown
    # Both charges are on the ledger's grid and add up to no more than what is told.
    assert told_eps - 3e-12 <= charged["eps"] <= told_eps * (1 + 1e-15)
    assert (told_delta, *others) == (charged["delta"], whose["adjacency"], True, whose["unit"])
    assert tuple(fit.budget.loc["total", ["eps", "delta"]]) == (told_eps, charged["delta"])
    private = f"({charged['eps']:.4g}, {charged['delta']:.4g})" if charged["delta"] else f"{charged['eps']:.4g}"
    for text in (str(plan.summary()), str(fit), str(loaded), str(loaded.summary(full=True))):
        assert f" {private}-differentially private for " in " ".join(text.split())
    again = dp.plan(f"{outcome} ~ a + x + z", domain, 4 * eps, family=family, rows_at_least=1e6, **options).at(eps)
    assert promise(again.guarantee) == promise(plan.guarantee)


BOUGHT = ((), ("x",), ("x", "z", "y", "k"))


@pytest.mark.slow
@pytest.mark.parametrize("hidden", BOUGHT)
@pytest.mark.parametrize("outcome", ["y", "k"])
def test_screening_after_a_purchase_is_charged_what_it_prints(
    tmp_path: Path, hidden: tuple[str, ...], outcome: str
) -> None:
    check_one_guarantee(tmp_path, 1.0, hidden, outcome, screen=1, delta=1e-6)


ASKED: tuple[dict[str, Any], ...] = (
    *({"screen": 2}, {"screen": 1, "split": "rows"}, {"inference": True}, {"inference": "robust"}),
    *({"method": name} for name in ("objective", "output", "statistics", "posterior")),
    *({"unit": "id", "max_rows": 3}, {"penalty": dp.penalties.Lasso(1.0), "refit_share": 0.3, "split": "rows"}),
    *({"response": "bought"}, {"response": "declared"}, {"noise": "gaussian"}, {"retrieval": "return"}),
    *({"penalty": dp.penalties.Bridge(1.0, 0.5), "stages": "auto"}, {"penalty": dp.penalties.Ridge(1.0)}, {}),
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_ledger_plan_and_results_have_one_guarantee(tmp_path: Path, seed: int) -> None:
    """Options that settle what a fit costs, two by two, with and without purchases, on random budgets."""
    draws, done = random.Random(seed), 0
    for number in range(60):
        (tmp_path / str(number)).mkdir()
        try:
            check_one_guarantee(
                tmp_path / str(number),
                draws.choice([0.5, 3.0, 20.0]),
                draws.choice(BOUGHT),
                draws.choice("yk"),
                delta=draws.choice([0.0, 1e-6, 1e-3]),
                adjacency=draws.choice(["add_remove", "replace_one"]),
                **{**draws.choice(ASKED), **draws.choice(ASKED)},
            )
        except pytest.skip.Exception:
            continue
        done += 1
    assert done > 20


@pytest.mark.parametrize("screen", [None, 1])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_several_models_are_charged_what_they_print(tmp_path: Path, screen: int | None, delta: float) -> None:
    more = {} if screen is None else {"screen": screen}
    models = {"plain": "y ~ a + x", "counts": {"formula": "k ~ a + x + z", "family": "poisson", **more}}
    domain = {"a": (0, 1), "z": (0, 1), "y": (0, 3)}
    plans = dp.plan_many(models, domain, 2.0, delta=delta, rows_at_least=1e6)
    ledger = dp.Ledger(tmp_path / "many.ledger", "rows", eps=10, delta=0.1)
    fits = plans.fit(ROWS, ledger=ledger)
    charged = ledger.entries()[["eps", "delta"]].sum()  # of a count of the rows and of the rest
    charged["eps"] = round(charged["eps"], 12)
    assert (charged["eps"], charged["delta"]) == (plans.guarantee.eps, plans.guarantee.delta)
    assert charged["eps"] == pytest.approx(plans.range_eps + sum(fit.guarantee.eps for fit in fits.values()))
    assert charged["delta"] == pytest.approx(sum(fit.guarantee.delta for fit in fits.values()))
    for name, fit in fits.items():
        assert promise(fit.guarantee) == promise(plans[name].guarantee)


@pytest.mark.parametrize("law", [None, "laplace"])
def test_another_budget_settles_its_law_anew(law: str | None) -> None:
    """A law that purchases settled at one eps does not bind the plan of another, as it would not bind its fit."""
    given: dict[str, Any] = {"screen": 1, "delta": 1e-3, "family": "poisson", "noise": law}
    formula, domain = "k ~ a + x + z", DOMAIN
    for eps in (0.05, 0.5, 5.0, 50.0):
        for other in (0.05, 50.0):
            at = dp.plan(formula, domain, other, **given).at(eps)
            assert at.digest() == dp.plan(formula, domain, eps, **given).digest()

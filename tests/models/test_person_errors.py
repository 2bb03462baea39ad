"""Errors of persons by default: a noisy count of persons decides whether they are paid for."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted_residuals import dearer_residuals

import dpstats as dp
from dpstats.mechanisms import information_release
from dpstats.models import residuals, sources
from dpstats.privacy.accounting import exact
from dpstats.results.standard_errors import clustered_ceiling

DOMAIN: dict[str, Any] = {"x": (-1, 1), "z": (-1, 1), "b": [0, 1], "y": (-20, 20), "n": (0, 20), "w": (0, 1)}
FAMILIES = {"binomial": "b ~ x + z", "gaussian": "y ~ x + z", "poisson": "n ~ x + z"}
MODELS = pytest.mark.parametrize("family", FAMILIES)
ADJACENCIES = pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
UNITS = pytest.mark.parametrize("unit", [{}, {"max_rows": 2}], ids=["equal", "two"])


def frame(persons: int, seed: int = 0) -> pd.DataFrame:
    """Persons of 1 to 6 rows; half of the variance of what moves responses is theirs."""
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(persons), random.integers(1, 7, persons))
    data = pd.DataFrame(random.uniform(-1, 1, (len(who), 2)), columns=["x", "z"]).assign(who=who, w=0.5)
    rest = (random.standard_normal(len(who)) + random.standard_normal(persons)[who]) / np.sqrt(2)
    signal = data["x"] - 0.5 * data["z"]
    counts = np.minimum(random.poisson(np.exp(0.5 * (signal + rest))), 20)
    return data.assign(b=(signal + rest > 0).astype(int), y=signal + rest, n=counts)


def fitted(family: str, data: pd.DataFrame, **options: Any) -> Any:
    given = {"eps": 1.0, "seed": 1, "unit": "who", "domain": DOMAIN, "family": family, **options}
    return dp.glm(FAMILIES[family], data, **given)


def released_count(count: int, patch: pytest.MonkeyPatch) -> None:
    """Have every count of persons be released as this."""
    honest = sources.noisy_integers

    def noisy(values: Any, sensitivity: int, eps: float, random: Any) -> Any:
        return np.array([count]) if len(values) == 1 else honest(values, sensitivity, eps, random)

    patch.setattr(sources, "noisy_integers", noisy)


@ADJACENCIES
@MODELS
def test_many_persons_have_errors_unasked_and_few_do_not(
    family: str, adjacency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = fitted(family, frame(6_000), adjacency=adjacency)
    with monkeypatch.context() as patch:
        released_count(40, patch)
        few = fitted(family, frame(40), adjacency=adjacency)
    assert many.plan.request.options.inference is True
    assert np.isfinite(many.bse).all()
    assert many.guarantee.basis == "docs/proofs/persons"
    assert not few.has_errors
    said = " ".join(str(few.summary()).split())
    assert "inference=True pays for them" in said
    assert " persons" in said.partition("pays for them")[2]
    assert not re.search(r"\d rows", said)
    insisted = fitted(family, frame(40), adjacency=adjacency, inference=True, on_mismatch="go")
    assert insisted.plan.stages[-1].plan.information is not None
    assert not fitted(family, frame(6_000), adjacency=adjacency, inference=None).has_errors


@pytest.mark.slow
@UNITS
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_a_plan_says_what_persons_decide(family: str, unit: dict[str, int]) -> None:
    """The table, the forecast, the number that is enough, and the fit agree."""
    plan = dp.plan(FAMILIES[family], DOMAIN, 1.0, family=family, unit="who", **unit)
    table = plan.by_rows([40, 6_000])
    assert table.index.name == "persons"
    assert table["errors"].tolist() == ["none", "paid"]
    assert "by the counted number of persons" in str(plan)
    assert "depends on the number of persons" in " ".join(str(plan).split())
    errors = [plan.standard_errors(persons)["std_error"] for persons in (40, 6_000)]
    assert not np.isfinite(errors[0]).any()
    assert np.isfinite(errors[1]).all()
    wanted = {"x": float(errors[1]["x"])}
    assert dp.sample_size(plan, se=wanted).n == pytest.approx(6_000, rel=0.15)
    assert dp.required(plan, se=wanted, n=6_000).eps == pytest.approx(1.0, rel=0.25)
    given = {"family": family, "unit": "who", **unit}
    public = [dp.plan(plan.formula, DOMAIN, 1.0, n=size, **given) for size in (40, 6_000)]
    assert [one.request.options.inference for one in public] == [None, True]


@pytest.mark.parametrize("count", [-300, 40, 400, 2_500, 40_000])
@ADJACENCIES
@UNITS
@MODELS
def test_every_branch_costs_what_is_charged(
    family: str, unit: dict[str, int], adjacency: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is planned for one row of weight 1, times the rows of a person, and the counts: exactly, at several eps."""
    data, rows = frame(300), unit.get("max_rows", 1)
    for eps in (0.1, 1.0, 7.3):
        with monkeypatch.context() as patch:
            released_count(count, patch)
            found = fitted(family, data, eps=eps, adjacency=adjacency, on_mismatch="go", **unit)
        plan = found.plan
        assert plan.counts.rows == count
        parts = [plan.stages[-1].plan.cost, *(one.eps for one in (plan.response, plan.residuals) if one is not None)]
        spent = exact(plan.counts.eps) + rows * sum(map(exact, parts))
        assert exact(eps) * Fraction(98, 100) < spent <= exact(eps) * (1 + Fraction(1, 10**12))
        assert sum(exact(charge.eps) for charge in plan.charges) <= exact(eps)
        assert found.guarantee.eps == eps


def test_a_planted_purchase_that_costs_more_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    dearer_residuals(monkeypatch)
    with pytest.raises(dp.errors.ReleaseError, match="nothing was released"):
        fitted("gaussian", frame(6_000))


@UNITS
def test_the_spread_of_persons_has_the_noise_of_as_many_rows_as_one_may_have(
    unit: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to k rows of weight 1: k times the length of one row's score, for k times its price."""
    bought, rows = [], unit.get("max_rows", 1)
    honest = information_release.noisy_cluster_spread

    def spied(*arguments: Any, **options: Any) -> Any:
        bought.append((options["most"], options["eps"]))
        return honest(*arguments, **options)

    monkeypatch.setattr(information_release, "noisy_cluster_spread", spied)
    plan = fitted("binomial", frame(3_000), inference=True, **unit).plan
    assert bought == [(rows, rows * plan.stages[-1].plan.information.purchase.spread_eps)]


def first_of(honest: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which gives what it gave first again and again."""
    released: list[Any] = []

    def once(*arguments: Any, **others: Any) -> Any:
        released.append(honest(*arguments, **others))
        return released[0]

    return once


def plans_of_neighbours(family: str, patch: pytest.MonkeyPatch, number: Callable[[Any], Any]) -> list[str]:
    """What two data sets of 40 and 6,000 persons are fitted by, if what is counted is released as `number` of it.

    All other purchases come out alike.
    """
    honest = sources.noisy_integers
    patch.setattr(
        sources,
        "noisy_integers",
        lambda values, *others: number(values) if len(values) == 1 else np.zeros_like(honest(values, *others)),
    )
    for module, name in (
        (sources, "bought_response"),
        (residuals, "release_stages"),
        (residuals, "buy_residual_counts"),
    ):
        patch.setattr(module, name, first_of(getattr(module, name)))
    return [fitted(family, frame(persons)).plan.digest() for persons in (40, 6_000)]


@MODELS
def test_nothing_but_the_released_count_decides(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = plans_of_neighbours(family, monkeypatch, lambda _: np.array([2_500]))
    assert one == other


@MODELS
def test_a_planted_exact_count_is_caught(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision by the number of persons before its noise."""
    one, other = plans_of_neighbours(family, monkeypatch, lambda values: values)
    assert one != other


@pytest.mark.parametrize("options", [{"weights": "w"}, {"check_share": 0}], ids=str)
def test_who_gets_no_errors_hears_so_before_the_charge(
    options: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where no count decides. Nothing is charged here: the ledger has too little."""
    told = "this fit has no standard errors; inference=True spends eps on them"
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=0.5, unit="who")
    with caplog.at_level(logging.WARNING, logger="dpstats"), pytest.raises(dp.errors.BudgetExceeded):
        dp.logit("b ~ x", frame(40), 1.0, domain=DOMAIN, unit="who", ledger=ledger, **options)
    assert told in caplog.text
    if "weights" in options:
        assert dp.plan("b ~ x", DOMAIN, 1.0, family="binomial", unit="who", **options).by_rows().empty
        assert "same for every number of persons; inference=True buys standard errors" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="dpstats"):
        for asked in ({"inference": None}, {"inference": True, "on_mismatch": "go"}):
            assert dp.logit("b ~ x", frame(40), 1.0, domain=DOMAIN, unit="who", **options, **asked) is not None
        dp.logit("b ~ x", frame(40), 1.0, domain=DOMAIN, unit="who", on_mismatch="go")
    assert "no standard errors" not in caplog.text


def test_too_few_persons_for_errors_that_are_insisted_on_stop_the_fit() -> None:
    with pytest.raises(dp.errors.ArgumentError, match=r"the persons are too few .* usually need about [\d,]+ persons"):
        fitted("binomial", frame(20), eps=0.1, inference=True, n=20)


def test_covariances_are_not_released() -> None:
    """Correlations of model-based errors stood there: a sum of slopes had intervals that covered in 30 of 40 fits."""
    found = fitted("gaussian", frame(6_000), inference=True)
    matrix = found.cov_params()
    assert np.sqrt(np.diag(matrix)) == pytest.approx(found.bse.to_numpy())
    assert np.isnan(matrix.to_numpy()[~np.eye(len(matrix), dtype=bool)]).all()
    assert "t_test tests combinations" in " ".join(str(matrix).split())
    names = list(matrix.index)[-2:]
    both = float(np.ravel(found.t_test(f"{names[0]} + {names[1]} = 0").sd)[0])
    assert both >= found.bse[names].max(), "an upper bound"
    joint, single = found.wald_test("x, z"), found.t_test("x, z").pvalue
    assert joint.pvalue == pytest.approx(min(1.0, 2 * single.min()))
    assert str(joint).startswith("<Bonferroni test: ")
    model = dp.ols("y ~ x + z", frame(6_000), 8.0, domain=DOMAIN, seed=1, inference=True)
    assert str(model.wald_test("x, z")).startswith("<Wald test: ")
    robust = dp.logit("b ~ x + z", frame(2_000), 8.0, domain=DOMAIN, seed=1, inference="robust", fitstats="auto")
    assert "slopes: Bonferroni(2), p " in " ".join(str(robust.summary()).split())


def test_a_table_of_terms_says_how_factors_of_persons_are_tested() -> None:
    data = frame(6_000).assign(g=lambda rows: np.array(list("abc"))[rows.who % 3])
    found = dp.ols("y ~ x + g", data, 8.0, domain={**DOMAIN, "g": list("abc")}, unit="who", inference=True, seed=1)
    assert "Bonferroni's test" in " ".join(str(found.anova()).split())
    row, single = found.anova().loc["g"], found.t_test("g[T.b], g[T.c]").pvalue
    assert row["df_constraint"] == 2
    assert row["pvalue"] == pytest.approx(min(1.0, 2 * single.min()), rel=1e-6)


@pytest.mark.parametrize("most", [None, 3])
def test_the_ceiling_of_combinations_is_little_above_the_variance_of_the_residuals(most: int | None) -> None:
    """As if rows of a person were copies: in units of the model, and times the rows that a person may have."""
    fit = fitted("gaussian", frame(8000), eps=4.0, max_rows=most)
    units = fit.plan.design.response_scaling()[1]
    assert 0.9 < clustered_ceiling(fit.plan) * units**2 / (most or 1) < 1.6  # residuals have a variance of 1
    assert clustered_ceiling(fitted("binomial", frame(3000), max_rows=most).plan) == (most or 1)


def test_the_ceiling_grows_with_what_lies_beyond_the_cap_and_with_residuals_larger_than_a_third_of_it() -> None:
    plan = fitted("gaussian", frame(8000), eps=4.0).plan
    assert plan.residuals is not None
    units, cap = plan.design.response_scaling()[1], plan.family.residual_cap

    def ceiling(share: float, deviation: float, sd: float) -> float:
        bought = replace(plan.residuals, beyond=(share, deviation), sd=sd)
        return clustered_ceiling(replace(plan, residuals=bought))

    assert ceiling(0.0, 0.0, 0.01) == pytest.approx((cap / 3) ** 2)
    assert ceiling(0.0, 0.0, cap * units) == pytest.approx(cap**2)
    assert ceiling(0.1, 0.05, 0.01) == pytest.approx((cap / 3) ** 2 / 0.8)
    assert ceiling(0.9, 0.0, 0.01) == pytest.approx((cap / 3) ** 2 / 0.5)


@pytest.mark.parametrize(
    "options", [{"family": dp.families.Gaussian(residual_cap=0.3), "inference": True}, {"eps": 0.2, "inference": True}]
)
def test_a_cap_that_does_not_follow_the_residuals_gives_no_ceiling(options: dict[str, Any]) -> None:
    """A cap below a standard deviation would make predictions look five times as certain as they are."""
    given = {"family": "gaussian", "eps": 4.0, "seed": 1, "unit": "who", "domain": DOMAIN, **options}
    fit = dp.glm(FAMILIES["gaussian"], frame(8000), **given)
    assert fit.plan.residuals is None
    assert clustered_ceiling(fit.plan) == np.inf


@pytest.mark.slow
def test_predictions_cover_where_residuals_fill_the_cap_and_rows_of_a_person_are_alike() -> None:
    """The worst case of the ceiling, 30 fits, expected within 95 %: fewer than 26 by chance once in 300."""
    covered = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        who = np.repeat(np.arange(4000), 4)
        rows = pd.DataFrame({"who": who, "x": random.uniform(-1, 1, len(who))})
        rows["y"] = rows["x"] + np.repeat(random.uniform(-1, 1, 4000), 4)
        domain = {"x": (-1, 1), "y": (-20, 20)}
        fit = dp.ols("y ~ x", rows, 4.0, domain=domain, unit="who", inference=True, seed=seed)
        low, high = fit.get_prediction(pd.DataFrame({"x": [0.5]})).summary_frame().iloc[0, 2:4]
        covered += low <= 0.5 <= high
        assert high - low < 0.2
    assert covered >= 26


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"unit": "who"}, {"unit": "who", "max_rows": 3}, {}], ids=["equal", "three", "rows"])
def test_a_table_by_counts_says_what_fits_of_least_squares_decide(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands for a purchase is bought by each fit here, so that the two are the same at every count.

    A fit that has bought the interval of its response chooses once more, and few rows buy none.
    """
    domain = {"a": (2010, 2019), "x": (18, 70), "z": (0, 80), "b": bool, "g": ["n", "s", "w"], "y": (-2, 8)}
    formula = "y ~ a + x + z + b + g"
    counts = [300, 2_300, 2_540, 2_700, 2_820, 2_940, 3_000, 3_100, 3_160, 3_220, 6_000]
    monkeypatch.setattr(sources, "bought_response", lambda plan, *_: plan.response)
    monkeypatch.setattr(sources, "bought_residuals", lambda plan, *_: (plan.residuals, None))
    plan, source = dp.plan(formula, domain, 1.0, **given), sources.FormulaSource(formula, None, domain)
    assert plan.counts is not None
    no_faults, decided = [0] * len(plan.counts.faults), []
    for count in counts:
        counted = replace(plan, counts=plan.counts.released(count, no_faults))
        completed = source.complete(counted, None, None).plan  # type: ignore[arg-type]
        decided.append("none" if completed.request.options.inference is None else "paid")
    assert set(decided) == {"none", "paid"}
    assert plan.by_rows(counts)["errors"].tolist() == decided

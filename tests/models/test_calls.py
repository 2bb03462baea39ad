"""Calls as users of other packages make them: family names and objects, near misses of arguments, signed entries."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dpstats as dp
from dpstats.errors import ArgumentError, NotReleasedError
from dpstats.families import get_family

DOMAIN = {"y": (0, 10), "b": (0, 1), "n": (0, 20), "x": (0, 1), "t": (0.5, 2)}


def frame(rows: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = rng.uniform(size=rows)
    t = rng.uniform(0.5, 2, rows)
    return pd.DataFrame(
        {
            "x": x,
            "t": t,
            "y": 10 * x,
            "b": x > 0.5,
            "n": rng.poisson(t * np.exp(1 + x)),
            "who": rng.integers(0, 90, rows),
        }
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("logistic", "binomial"),
        ("Logit", "binomial"),
        ("Gaussian", "gaussian"),
        ("normal", "gaussian"),
        ("squared_error", "gaussian"),
        ("hinge", "huber_svm"),
        (sm.families.Binomial(), "binomial"),
        (sm.families.Binomial, "binomial"),
        (sm.families.Poisson(link=sm.families.links.Log()), "poisson"),
        (sm.families.Gaussian(), "gaussian"),
        (dp.families.Poisson, "poisson"),
    ],
)
def test_families_of_others_are_taken(given: Any, name: str) -> None:
    assert get_family(given) == get_family(name)


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("gamma", "without bound"),
        (sm.families.Gamma(), "without bound"),
        (sm.families.Binomial(link=sm.families.links.Probit()), "has only the link Logit"),
        (sm.families.Poisson(link=sm.families.links.Identity()), "has only the link Log,"),
        ("probit", "family='binomial'"),
        ("quasipoisson", "family='poisson'"),
        ("bionmial", "one of"),
        (np.ones(3), "an object of type ndarray"),
    ],
)
def test_families_that_are_not_here_say_why(given: Any, fix: str) -> None:
    with pytest.raises(ArgumentError, match=fix):
        dp.plan("y ~ x", DOMAIN, 1.0, family=given)


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: dp.glm("y ~ x", frame(), epsilon=1.0), "write eps="),
    (lambda: dp.logit("b ~ x", frame(), 1.0, link="probit"), "logit for 'binomial'"),
    (lambda: dp.ols("y ~ x", frame(), 1.0, cov_type="HC0"), "inference='robust'"),
    (lambda: dp.glm("y ~ x", frame()), "needs eps, the privacy budget"),
    (lambda: dp.ols("y ~ x", df=frame(), eps=1.0), "write data="),
    (lambda: dp.logit("b ~ x", frame(), 1.0, epsilon=2.0), "write eps="),
    (lambda: dp.glm("y ~ x", frame(), 1.0, random_state=3), "write seed="),
    (lambda: dp.poisson("n ~ x", frame(), 1.0, domain=DOMAIN, sample_weight="t"), "write weights="),
    (lambda: dp.plan("y ~ x", DOMAIN), "needs eps"),
    (lambda: dp.plan("y ~ x", domian=DOMAIN, eps=1.0), "domain"),
    (lambda: dp.GLM([0.0], np.ones((1, 1)), row_norm=1.0).fit(epsilon=1.0), "write eps="),
    (lambda: dp.glm("y ~ x", frame(), 1.0, domain=DOMAIN, label="first"), "give ledger="),
]


@pytest.mark.parametrize(("call", "fix"), CALLS)
def test_arguments_by_other_names_are_answered(call: Callable[[], Any], fix: str) -> None:
    with pytest.raises(ArgumentError, match=fix):
        call()


def test_an_entry_says_who_and_what(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "l", dataset="d", eps=5.0) as ledger:
        dp.ols("y ~ x", frame(), 1.0, domain=DOMAIN, ledger=ledger, label="first look", analyst="ada")
        entry = ledger.entries().iloc[0]
        assert entry["analyst"] == "ada"
        assert "first look" in entry["label"]


def test_a_ledger_for_persons_asks_for_its_unit_where_persons_are_chosen_for(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "l", dataset="d", eps=5.0, unit="who") as ledger:
        for call in (
            lambda: dp.select(["x > 0.5", "x > 0.2"], "candidate != b", frame(), domain=DOMAIN, eps=1.0, ledger=ledger),
            lambda: dp.tune("y ~ x", frame(), {"curvature": [10.0, 90.0]}, eps=1.0, domain=DOMAIN, ledger=ledger),
        ):
            with pytest.raises(ArgumentError, match=r"ledger is for persons.* pass unit='who'"):
                call()
        assert len(ledger.entries()) == 0


@pytest.mark.slow
def test_a_comparison_for_persons_speaks_of_them() -> None:
    found = dp.compare("b ~ x", DOMAIN, 1.0, family="binomial", unit="who", n=500)
    text = " ".join(str(found).split())
    assert "500 persons (who)" in text
    assert "one who with all its rows added or removed" in text
    assert set(found.left_out) == {"posterior", "statistics"}
    with pytest.raises(ArgumentError, match="takes no unit"):
        dp.compare("b ~ x", DOMAIN, 1.0, family="binomial", unit="who", methods=["posterior"])


def test_many_plans_share_a_family() -> None:
    plans = dp.plan_many({"a": "b ~ x", "b": {"formula": "n ~ x", "family": "poisson"}}, DOMAIN, 1.0, family="logistic")
    assert plans["a"].family.name == "binomial"
    assert plans["b"].family.name == "poisson"


def test_results_answer_what_statsmodels_have() -> None:
    fit = dp.poisson("n ~ x", frame(), 20.0, domain=DOMAIN, exposure="t", inference=True, seed=1)
    assert (fit.df_model, fit.family.name) == (1, "poisson")
    assert fit.formula == "n ~ x + offset(np.log(t))"
    new = frame(5).drop(columns="t")
    tenth = fit.predict(new, exposure=0.1)
    np.testing.assert_allclose(tenth, fit.predict(new, offset=np.log(0.1)))
    np.testing.assert_allclose(fit.predict(new, exposure=np.full(5, 0.1), offset=0.0), tenth)
    found = fit.get_prediction(new, exposure=0.1)
    wide, narrow = found.summary_frame(alpha=0.01), found.summary_frame(alpha=0.5)
    assert (wide["mean_ci_upper"] > narrow["mean_ci_upper"]).all()
    expected = fit.get_prediction(new, 0.01, offset=np.log(0.1)).summary_frame()
    pd.testing.assert_frame_equal(wide, expected)
    np.testing.assert_array_equal(found.conf_int(alpha=0.01), wide[["mean_ci_lower", "mean_ci_upper"]])
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(found)).summary_frame(0.01), wide)
    with pytest.raises(ArgumentError, match="positive"):
        fit.predict(new, exposure=0.0)
    with pytest.raises(NotReleasedError, match=r"dp\.check"):
        _ = fit.df_resid
    with pytest.raises(ArgumentError, match="log link"):
        dp.ols("y ~ x", frame(), 1.0, domain=DOMAIN).predict(new, exposure=0.1)

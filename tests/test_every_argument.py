"""A wrong value for any argument of any public call is taken, or refused by an error of dpstats that quotes no cell."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.arguments import check_numbers, check_path, check_type, is_number
from dpstats.errors import ArgumentError, DPStatsError

CANARY = 271828.1828
ROWS = 60
RNG = np.random.default_rng(1)
FRAME = pd.DataFrame({"x": RNG.uniform(0, 1, ROWS), "y": RNG.uniform(0, 1, ROWS), "b": RNG.integers(0, 2, ROWS)})
DOMAIN = dp.Domain(x=(0, 1), y=(0, 1), b=[0, 1])
MODEL: dict[str, Any] = {"formula": "y ~ x", "domain": DOMAIN, "eps": 1.0}
WRONG: dict[str, Any] = {
    "nothing": None,
    "text": "nonsense",
    "empty": "",
    "negative": -1,
    "zero": 0.0,
    "nan": float("nan"),
    "infinite": float("inf"),
    "large": 1e300,
    "small": 1e-300,
    "beyond a double": 10**400,
    "flag": True,
    "bytes": b"x",
    "complex": 3 + 4j,
    "object": object(),
    "list": [],
    "mapping": {},
    "class": int,
    "unknown": pd.NA,
    "null sign": "a\0b",
    "lone surrogate": "\ud800",
    "array of nothing": np.array(1.5),
    "nested": [[1, [2]], "a", None],
    "series": pd.Series([CANARY] * ROWS, name="private"),
    "array": np.full(ROWS, CANARY),
    "frame": pd.DataFrame({"private": [CANARY] * ROWS}),
}
PRIVATE = ("nan", "nested", "series", "array", "frame")
"""Tried with every argument; of the others a third, in turn: each meets every kind of argument."""

LEFT_OUT = ("progress", "n_jobs", "mechanism")
"""A mechanism is anybody's code, and raises what it likes; processes and lines on terminals are tested elsewhere."""

RIGHT = {("audit", "runs", "beyond a double"), ("audit", "vectorized", "flag")}
"""Not wrong there: an integer of any size would be taken, and the mechanism called with three arguments."""


def noisy(data: list[float], rng: np.random.Generator) -> float:
    return data[0] + float(rng.laplace())


def calls(folder: Path) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Public calls that `tests/test_arguments.py` has not, with arguments that are right."""
    fit = dp.ols("y ~ x", FRAME, 5.0, domain=DOMAIN, inference=True)
    binary = dp.logit("b ~ x", FRAME, 5.0, domain=DOMAIN)
    plan, spec = dp.plan("y ~ x", DOMAIN, 1.0), dp.local.Spec(DOMAIN, "y ~ x", eps=1.0, delta=1e-6, n=10_000)
    report = dp.local.randomize({"x": 0.5, "y": 0.5}, spec)
    model = dp.GLM.from_formula("y ~ x", FRAME, domain=DOMAIN)
    km = dp.kaplan_meier("Surv(x, b) ~ 1", FRAME, 5.0, domain=DOMAIN)
    hazards = dp.hazard("Surv(x, b) ~ y", FRAME, 5.0, domain=DOMAIN)
    evaluation, classes = dp.evaluate(fit, FRAME, 1.0), dp.evaluate(binary, FRAME, 1.0)
    sums = dp.release_statistics(DOMAIN, ["x", "y"], 1.0, data=FRAME)
    ledger = dp.Ledger(folder / "books.db", dataset="rows", eps=50.0)
    audited = dp.audit(noisy, [0.0], [1.0], eps=1.0, runs=2000, seed=1)
    yield "GLM", dp.GLM, {"endog": FRAME["y"].to_numpy(), "exog": FRAME[["x"]].to_numpy(), "row_norm": 1.0}
    yield "GLM.from_formula", dp.GLM.from_formula, {"formula": "y ~ x", "data": FRAME, "domain": DOMAIN}
    yield "GLM.fit", model.fit, {"eps": 1.0}
    yield "GLM.plan", model.plan, {"eps": 1.0}
    yield "logit", dp.logit, {**MODEL, "formula": "b ~ x", "data": FRAME}
    yield "poisson", dp.poisson, {**MODEL, "data": FRAME}
    yield "quantreg", dp.quantreg, {**MODEL, "data": FRAME}
    yield "plan_quantreg", dp.plan_quantreg, {**MODEL, "q": [0.25, 0.75]}
    yield "svm", dp.svm, {**MODEL, "formula": "b ~ x", "data": FRAME}
    yield "audit", dp.audit, {"mechanism": noisy, "data": [0.0], "neighbour": [1.0], "eps": 1.0, "runs": 100}
    yield "absorbed", dp.ols, {**MODEL, "formula": "y ~ x | b", "data": FRAME, "unit": "b", "radius": 1.0}
    yield "etable", dp.etable, {"fits": [fit, binary]}
    yield "proof", dp.proof, {"of": "objective"}
    yield "required", dp.required, {"plan": dp.plan("y ~ x", DOMAIN, 1.0, inference=True), "se": {"x": 0.5}, "n": 5_000}
    yield "plan_tuning", dp.plan_tuning, {**MODEL, "grid": {"curvature": [5.0, 9.0]}}
    yield "Guarantee", dp.Guarantee, {"eps": 1.0}
    yield "Noise", dp.Noise, {"kind": "laplace", "norm": "l2", "scale": 1.0}
    yield "Ledger.open", dp.Ledger.open, {"path": folder / "books.db"}
    yield "signed", ledger.signed, {"analyst": "Ada"}
    yield "charge", ledger.charge, {"guarantee": dp.Guarantee(1e-3), "label": "a count"}
    yield "set_quota", ledger.set_quota, {"analyst": "Ada", "eps": 1.0}
    yield "set_domain", ledger.set_domain, {"domain": DOMAIN}
    yield "partition", ledger.partition, {"by": "x", "parts": [1, 2]}
    for family in ("BinomialCounts", "Gaussian", "HuberSVM", "NegativeBinomial", "Poisson", "Quantile", "SmoothSVM"):
        yield family, getattr(dp.families, family), {}
    yield "get_family", dp.families.get_family, {"family": "binomial"}
    for penalty in ("L0", "SCAD", "Bridge", "ElasticNet", "Lasso", "Ridge"):
        more = {"q": 0.5} if penalty == "Bridge" else {}
        yield penalty, getattr(dp.penalties, penalty), {"alpha": 1.0, **more}
    yield "penalty", dp.penalties.penalty, {"which": "ridge", "alpha": 1.0}
    yield "split_curvature", dp.penalties.split_curvature, {"whole": dp.penalties.Ridge(1.0)}
    law: dict[str, Any] = {"family": "binomial", "curvature_ratio": 1.0, "row_norm": 1.0}
    yield "joint_loss", dp.privacy.joint_loss, {**law, "scale": 1.0}
    yield "joint_scale", dp.privacy.joint_scale, {**law, "eps": 1.0}
    yield "objective_noise", dp.privacy.objective_noise, {"family": "binomial", "eps": 1.0, "curvature": 1.0}
    yield "Regression", dp.streaming.Regression, {**MODEL, "delta": 1e-6, "horizon": 4}
    yield "Refits", dp.streaming.Refits, {**MODEL, "horizon": 4}
    yield "Spec", dp.local.Spec, {"domain": DOMAIN, "formula": "y ~ x", "eps": 1.0, "delta": 1e-6, "n": 10_000}
    yield "local.fit", dp.local.fit, {"reports": [report], "spec": spec}
    yield "local.standard_errors", dp.local.standard_errors, {"spec": spec}
    yield "randomize", dp.local.randomize, {"record": {"x": 0.5, "y": 0.5}, "spec": spec}
    yield "total", dp.local.total, {"reports": [report], "spec": spec}
    yield "to_json", dp.local.to_json, {"report": report}
    yield "from_json", dp.local.from_json, {"line": dp.local.to_json(report)}
    yield "write", dp.local.write, {"reports": [report], "path": folder / "reports.jsonl"}
    yield "load_adult", dp.datasets.load_adult, {"split": "test"}
    for name, result in (("coefficients", fit), ("shares", fit)):
        yield name, getattr(dp.plots, name), {"result": result}
    yield "effect", dp.plots.effect, {"result": fit, "column": "x", "points": 3}
    yield "calibration", dp.plots.calibration, {"evaluation": classes}
    yield "roc", dp.plots.roc, {"evaluation": classes}
    yield "residuals", dp.plots.residuals, {"evaluation": evaluation}
    yield "methods", dp.plots.methods, {"comparison": dp.compare("y ~ x", DOMAIN, 1.0, n=100)}
    yield "plots.audit", dp.plots.audit, {"result": audited}
    yield "spending", dp.plots.spending, {"ledger": ledger}
    for name in ("curves", "conf_int", "tidy", "quantile", "summary", "plot"):
        yield f"km.{name}", getattr(km, name), {}
    yield "km.survival", km.survival, {"times": [0.5]}
    yield "plots.survival", dp.plots.survival, {"result": km}
    yield "hazards.survival", hazards.survival, {"newdata": {"y": [0.5]}, "times": [0.5]}
    for name in ("save", "conf_int", "uncertainty", "summary", "tidy", "excess_risk"):
        yield f"fit.{name}", getattr(fit, name), {"path": folder / "fit.json"} if name == "save" else {}
    yield "fit.load", dp.GLMResults.load, {"path": folder / "none.json"}
    yield "fit.t_test", fit.t_test, {"r_matrix": "x = 0"}
    yield "fit.wald_test", fit.wald_test, {"r_matrix": "x = 0"}
    yield "fit.predict", fit.predict, {"newdata": FRAME}
    for name in ("get_margeff", "comparisons", "predictions"):
        yield f"fit.{name}", getattr(fit, name), {} if name == "get_margeff" else {"newdata": FRAME}
    yield "evaluation.save", evaluation.save, {"path": folder / "score.json"}
    yield "evaluation.plot", evaluation.plot, {"kind": "residuals"}
    yield "plan.at", plan.at, {"eps": 2.0}
    yield "plan.simulate", plan.simulate, {"n": 50}
    yield "statistics.t_test", sums.fit("y ~ x").t_test, {"weights": [0, 1]}


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Callable[..., Any], dict[str, Any]]]:
    mpl.use("Agg")
    return list(calls(tmp_path_factory.mktemp("arguments")))


@pytest.mark.slow
def test_every_argument_is_taken_or_refused_by_name(
    public: list[tuple[str, Callable[..., Any], dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no error of dpstats names neither the argument nor the fix, and may quote what it was given."""
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)  # "nonsense" is a good name of a file
    raw: dict[tuple[str, str, str], list[str]] = {}
    refused: list[str] = []
    turn = 0
    for name, call, right in public:
        parameters = inspect.signature(call).parameters.values()
        named = [one.name for one in parameters if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
        for argument in (one for one in named if one not in LEFT_OUT):
            for kind, value in WRONG.items():
                turn += 1
                if (name, argument, kind) in RIGHT or (kind not in PRIVATE and turn % 3):
                    continue
                try:
                    call(**{**right, argument: value})
                except DPStatsError as error:
                    refused.append(str(error))
                except Exception as error:
                    raw.setdefault((name, argument, repr(error)[:60]), []).append(kind)
                pyplot.close("all")
    assert not raw, "\n".join(f"{where}: {kinds}" for where, kinds in raw.items())
    assert len(refused) > 1000
    assert not [text for text in refused if str(int(CANARY)) in text]


@pytest.mark.parametrize("eps", [1e-300, 1e-51, 1e-12, 1e6, 1e12, 1e51, 1e300])
@pytest.mark.parametrize("method", ["napp", "objective", "output", "statistics", "posterior"])
def test_every_method_plans_or_refuses_any_budget(method: str, eps: float) -> None:
    for delta in (0.0, 1e-300, 1e-6, 0.999999):
        try:
            plan = dp.plan("y ~ x", DOMAIN, eps, delta=delta, method=method)
        except DPStatsError:
            continue
        assert str(plan.summary())
        assert np.isfinite(plan.noise_sd).all()


@pytest.mark.parametrize("eps", [1e-300, 1e-12, 1e6, 1e12, 1e300])
def test_every_other_call_takes_or_refuses_any_budget(eps: float) -> None:
    asked: list[Callable[[], object]] = [
        lambda: dp.sample_size("binomial", 3, eps=eps, target=0.1, radius=1.0),
        lambda: dp.compose([dp.Guarantee(eps)] * 2, accountant="zcdp", delta=0.9),
        lambda: dp.streaming.Regression("y ~ x", DOMAIN, eps, horizon=4),
        lambda: dp.streaming.Refits("y ~ x", DOMAIN, eps, 1e-6, horizon=4),
        lambda: dp.plan_tuning("y ~ x", DOMAIN, {"curvature": [50.0, 90.0]}, eps),
        lambda: dp.plan_many({"a": "y ~ x"}, DOMAIN, eps),
        lambda: dp.local.Spec({"x": (0, 1), "y": (0, 1)}, "y ~ x", eps=eps, delta=1e-6, n=1000),
        lambda: dp.compare("y ~ x", DOMAIN, eps),
    ]
    for call in asked:
        with contextlib.suppress(DPStatsError):
            call()


@pytest.mark.parametrize("value", [1e-300, 1e-160, 1e160, 1e300])
def test_radius_target_and_norms_are_numbers_whose_squares_are(value: float) -> None:
    for call in (
        lambda: dp.plan("y ~ x", DOMAIN, 1.0).excess_risk(radius=value),
        lambda: dp.sample_size("binomial", 3, eps=1.0, target=value, radius=1.0),
        lambda: dp.sample_size("binomial", 3, eps=1.0, target=0.1, radius=value),
        lambda: dp.privacy.objective_noise("binomial", eps=1.0, row_norm=value, curvature=1.0),
    ):
        with pytest.raises(ArgumentError, match=r"(radius|target|row_norm) must be a positive number from"):
            call()  # type: ignore[no-untyped-call]


class TestChecks:
    def test_numbers_are_those_that_a_double_holds(self) -> None:
        assert all(map(is_number, (0, -1.5, np.float64(2), np.int8(3))))
        assert not any(map(is_number, (True, np.bool_(True), "1", None, float("nan"), 10**400, 1j, np.array(1.0))))

    def test_a_path_names_a_file(self) -> None:
        assert check_path("path", "a/b.json") == Path("a/b.json")
        for wrong in (None, "", 3, b"a", "y,x\n0.125,0.25", "\ud800"):
            with pytest.raises(ArgumentError, match="path must be the path of a file") as caught:
                check_path("path", wrong)
            assert "0.125" not in str(caught.value)

    def test_numbers_are_rows(self) -> None:
        assert check_numbers("weights", [1, 2]).shape == (1, 2)
        for wrong in ("a", [1, None], np.zeros((1, 1, 1)), [float("nan")], 10**400):
            with pytest.raises(ArgumentError, match="weights must be a finite number, a list of them"):
                check_numbers("weights", wrong)

    def test_what_makes_it_is_said(self) -> None:
        with pytest.raises(ArgumentError, match=r"plan must be what dp.plan returns; got 3"):
            check_type("plan", 3, dp.Plan, "what dp.plan returns")

"""The list of keywords: what help shows of it, what type checkers are told, and that both are what calls take."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import numpy as np
import pytest

import dpstats as dp
from dpstats.call import (
    REQUEST_DEFAULTS,
    ChargeKeywords,
    FitKeywords,
    ModelKeywords,
    PlanKeywords,
    Request,
    RequestKeywords,
    RowKeywords,
    split_kwargs,
)
from dpstats.errors import ArgumentError
from dpstats.mechanisms.options import OptionKeywords, Options
from dpstats.models.glm import GLM
from dpstats.streaming.request import STREAM_DEFAULTS, StreamKeywords

DOMAIN = {"x": (0, 1), "y": (0, 1)}

CALLS: tuple[tuple[Callable[..., Any], type], ...] = (
    (dp.glm, ModelKeywords),
    (dp.ols, ModelKeywords),
    (dp.logit, ModelKeywords),
    (dp.poisson, ModelKeywords),
    (dp.svm, ModelKeywords),
    (dp.plan, PlanKeywords),
    (GLM.fit, FitKeywords),
    (GLM.plan, RequestKeywords),
)


def test_type_checkers_know_the_options() -> None:
    assert get_type_hints(OptionKeywords) == {
        name: of for name, of in get_type_hints(Options).items() if name in OptionKeywords.__annotations__
    }
    assert list(OptionKeywords.__annotations__) == [one.name for one in fields(Options)]
    assert all(one.default is not MISSING for one in fields(Options))


def test_type_checkers_know_what_a_stream_is_asked_for() -> None:
    shown = inspect.signature(dp.streaming.Regression).parameters
    for name in StreamKeywords.__annotations__:
        assert shown[name].default == STREAM_DEFAULTS.get(name)
    with pytest.raises(ArgumentError, match=r"Regression\(\).*did you mean horizon="):
        dp.streaming.Regression("y ~ x", DOMAIN, 1.0, horizn=12)


@pytest.mark.parametrize(("call", "listed"), CALLS, ids=[call.__qualname__ for call, _ in CALLS])
def test_help_shows_every_keyword_with_its_default(call: Callable[..., Any], listed: type) -> None:
    shown = inspect.signature(call).parameters
    for name in set(listed.__annotations__) - set(OptionKeywords.__annotations__):
        assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert shown[name].default == REQUEST_DEFAULTS.get(name)
    assert list(shown)[-1] == "options"
    assert "arguments" not in shown


def test_a_call_may_leave_keywords_out_and_has_no_others() -> None:
    shown = inspect.signature(dp.compare).parameters
    assert {"method", "seed", "allow_uncertified"}.isdisjoint(shown)
    assert {"delta", "penalty", "alpha", "adjacency"} <= set(shown)
    with pytest.raises(ArgumentError, match="pass methods="):
        dp.compare("y ~ x", DOMAIN, 1.0, method="output")
    beside = inspect.signature(GLM.from_formula).parameters
    assert "options" not in beside
    assert set(RowKeywords.__annotations__) <= set(beside)
    with pytest.raises(ArgumentError, match="did you mean weights="):
        GLM.from_formula("y ~ x", {"x": [0.5], "y": [0.5]}, weigths="x")


def test_defaults_are_those_of_a_request() -> None:
    request = dp.plan("y ~ x", DOMAIN, 1.0).request
    for name, value in REQUEST_DEFAULTS.items():
        assert getattr(request, name, None) == ("napp" if name == "method" else value)
    assert REQUEST_DEFAULTS["method"] == "auto"
    assert request.open_method
    assert not dp.plan("y ~ x", DOMAIN, 1.0, method="napp").request.open_method
    settled = {"eps", "family", "options", "open_method"}
    assert {one.name for one in fields(Request)} - settled <= set(REQUEST_DEFAULTS)


def test_parted() -> None:
    assert split_kwargs({"ledger": 1, "delta": 0.5, "label": None}, ChargeKeywords) == (
        {"ledger": 1, "label": None},
        {"delta": 0.5},
    )


SURVIVAL, LEVELS = {"t": (0, 1), "e": (0, 1), "x": (0, 1)}, {"c": ["a", "b", "c"], "x": (0, 1)}

VERBS: dict[str, Callable[..., Any]] = {
    "glm": lambda **asked: dp.plan("y ~ x", DOMAIN, 1.0, family="binomial", **asked),
    "classes": lambda **asked: dp.plan("c ~ x", LEVELS, 1.0, family="multinomial", **asked),
    "hazard": lambda **asked: dp.plan_hazard("Surv(t, e) ~ x", SURVIVAL, 1.0, **asked),
    "ordinal": lambda **asked: dp.plan_ordinal("c ~ x", LEVELS, 1.0, **asked),
    "quantile": lambda **asked: dp.plan("y ~ x", DOMAIN, 1.0, family=dp.families.Quantile(0.5), **asked),
    "quantiles": lambda **asked: dp.plan_quantreg("y ~ x", DOMAIN, 1.0, q=[0.2, 0.8], **asked),
    "array": lambda **asked: GLM(np.ones(2), np.ones((2, 1)), "binomial", row_norm=1.0).plan(1.0, **asked),
}


@pytest.mark.parametrize("verb", VERBS)
def test_none_and_false_both_leave_standard_errors_out(verb: str) -> None:
    paid, without, spelt = (str(VERBS[verb](inference=one).summary()) for one in (True, None, False))
    assert spelt == without != paid

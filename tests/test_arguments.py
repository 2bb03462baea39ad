"""Whoever passes a private column where an option is wanted reads a clear error without a cell of it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpstats as dp
from dpstats.arguments import can_be_path, check_choice, check_flag, name_of_type, safe_repr
from dpstats.errors import ArgumentError
from dpstats.frames import WideFrame

CANARY = 271828.1828
ROWS = 60
RNG = np.random.default_rng(1)
FRAME = pd.DataFrame({"x": RNG.uniform(0, 1, ROWS), "y": RNG.uniform(0, 1, ROWS), "g": RNG.choice(list("abc"), ROWS)})
DOMAIN = dp.Domain(x=(0, 1), y=(0, 1))
MODEL = {"formula": "y ~ x", "domain": DOMAIN, "eps": 1.0}
CALLS: dict[str, dict[str, Any]] = {
    "glm": {**MODEL, "data": FRAME},
    "ols": {**MODEL, "data": FRAME},
    "lasso": {**MODEL, "data": FRAME, "alpha": 1.0},
    "quantreg": {**MODEL, "data": FRAME},
    "plan": MODEL,
    "plan_many": {"models": ["y ~ x"], "domain": DOMAIN, "eps": 1.0},
    "check": {**MODEL, "data": FRAME},
    "kaplan_meier": {**MODEL, "formula": "Surv(x, y) ~ 1", "data": FRAME},
    "hazard": {**MODEL, "formula": "Surv(x, y) ~ 1", "data": FRAME},
    "ordinal": {**MODEL, "formula": "g ~ x", "data": FRAME, "domain": {"x": (0, 1), "g": ["a", "b", "c"]}},
    "plan_ordinal": {**MODEL, "formula": "g ~ x", "domain": {"x": (0, 1), "g": ["a", "b", "c"]}},
    "plan_kaplan_meier": {**MODEL, "formula": "Surv(x, y) ~ 1"},
    "plan_hazard": {**MODEL, "formula": "Surv(x, y) ~ 1"},
    "evaluate": {"fit": dp.glm(data=FRAME, **MODEL), "data": FRAME, "eps": 1.0},
    "holdout": {"data": FRAME, "share": 0.5},
    "tune": {**MODEL, "data": FRAME, "grid": {"curvature": [1.0, 2.0]}},
    "select": {"candidates": ["a", "b"], "score": "y", "data": FRAME, "domain": DOMAIN, "eps": 1.0},
    "release_statistics": {"columns": ["x", "y"], "domain": DOMAIN, "data": FRAME, "eps": 1.0, "delta": 1e-6},
    "compare": MODEL,
    "sample_size": {"family": "gaussian", "target": 0.1, "eps": 1.0, "columns": 3, "radius": 1.0},
    "buy_ranges": {"data": FRAME, "columns": ["x"], "eps": 1.0},
    "compose": {"guarantees": [dp.Guarantee(1.0, 0.0, "add_remove")]},
}
OPTIONS = ("curvature", "selection", "stages", "retrieval", "inference", "unit", "max_rows", "weights", "screen")
POISON: dict[str, Any] = {
    "series": pd.Series([CANARY] * ROWS, name="private"),
    "array": np.full(ROWS, CANARY),
    "texts": np.array([str(CANARY)] * ROWS, dtype=object),
    "frame": pd.DataFrame({"private": [CANARY] * ROWS}),
    "list": [CANARY] * ROWS,
    "mapping": {"private": [CANARY] * ROWS},
    "polars": pl.Series("private", [CANARY] * ROWS),
    "arrow": pa.array([CANARY] * ROWS),
    "categories": pd.Categorical([CANARY] * ROWS),
    "set": {CANARY + at / ROWS for at in range(ROWS)},
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "seed of made-up rows": lambda given: dp.plan(**MODEL).simulate(10, given),
    "seed of an audit": lambda given: dp.audit(lambda data, rng: 0.0, [1], [2], eps=1.0, runs=100, seed=given),
    "path of a ledger": lambda given: dp.Ledger(given, dataset="rows", eps=1.0),
    "columns of ranges": lambda given: dp.buy_ranges(FRAME, given, 1.0),
    "by": lambda given: dp.holdout(FRAME, 0.5, by=given),
    "data": lambda given: dp.ols("y ~ x", given, eps=1.0, domain=DOMAIN),
    "ledger": lambda given: dp.ols("y ~ x", FRAME, eps=1.0, domain=DOMAIN, ledger=given),
}
"""Arguments that are none of a call above, that take texts, or for which a key is as much as a cell."""


def arguments(call: str) -> list[str]:
    parameters = inspect.signature(getattr(dp, call)).parameters.values()
    names = [one.name for one in parameters if one.kind is not inspect.Parameter.VAR_KEYWORD]
    return sorted({*names, *(OPTIONS if call == "glm" else ())})


def messages(error: BaseException | None) -> str:
    """What an interpreter prints of an error and of those behind it, without the lines of source."""
    said = ""
    while error is not None:
        said += "".join(traceback.format_exception_only(type(error), error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return said


@pytest.mark.parametrize("call", CALLS)
def test_no_argument_is_quoted_where_it_may_hold_cells(call: str) -> None:
    for argument, (kind, value) in product(arguments(call), POISON.items()):
        if argument == "data" and kind in ("frame", "mapping"):
            continue  # these are data, with columns that the formula does not name
        refused = None
        try:
            getattr(dp, call)(**{**CALLS[call], argument: value})
        except dp.errors.DPStatsError as error:
            refused = error
        assert refused is not None, f"{argument}: {kind}"
        assert str(int(CANARY)) not in messages(refused), f"{argument}: {kind}"


@pytest.mark.parametrize("call", OTHERS)
def test_no_seed_and_no_path_is_quoted(call: str) -> None:
    # Keys of an argument above may be names, which are quoted.
    for kind, value in {**POISON, "keys": dict.fromkeys(POISON["set"], 1)}.items():
        if call == "data" and kind in ("frame", "mapping"):
            continue  # as above
        with pytest.raises(dp.errors.DPStatsError) as refused:
            OTHERS[call](value)
        assert str(int(CANARY)) not in messages(refused.value), kind


@pytest.mark.parametrize("call", ["data", "ledger", "path of a ledger"])
def test_the_text_of_a_file_is_not_quoted(call: str) -> None:
    for text in ("y,x\n0.125,0.25\n", "cell " * 2000, "y,x\n" + "0.125,0.25\n" * 2000, "cell " * 60):
        with pytest.raises(dp.errors.DPStatsError) as caught:
            OTHERS[call](text)
        assert "0.125" not in messages(caught.value)
        assert "cell" not in messages(caught.value)


def test_paths_can_be_paths() -> None:
    assert all(can_be_path(path) for path in ("rows.csv", "/a/b c/*.parquet", "zäh/ü.csv", "a/" * 1000 + "b", ""))
    assert not any(can_be_path(text) for text in ("a\nb", "a" * 256, "a/" * 3000, "a\0b", "\ud800"))


class Speaking(list[str]):
    """A list that prints something else than its elements."""

    def __repr__(self) -> str:
        return str(CANARY)


def widened() -> WideFrame:
    """A table of ours to which its holder has added a column."""
    table = WideFrame({"released": [1.0]})
    table["private"] = [CANARY]
    return table


class TestShown:
    @pytest.mark.parametrize("value", [None, True, 2, 0.5, "napp", np.float64(2.0), ["a", "b"], {"l2": 1.0}, (1, (2,))])
    def test_plain_values_are_shown_as_they_are(self, value: object) -> None:
        assert safe_repr(value) == repr(value)

    @pytest.mark.parametrize(
        "value",
        [
            *POISON.values(),
            "x" * 400,
            range(3),
            [[1.0] * 8] * 8,
            {"a": [1.0] * 5, "b": [2.0] * 5},
            np.array([(1.0, 2)], dtype="f8,i4")[0],
            Speaking(["a"]),
            widened(),
            [widened()],
        ],
    )
    def test_what_may_hold_cells_is_named_by_its_type(self, value: object) -> None:
        assert safe_repr(value) == f"an object of type {type(value).__name__}"
        assert str(CANARY) not in safe_repr(value)


class TestChoices:
    def test_a_flag_is_not_the_number_that_it_equals(self) -> None:
        check_choice("stages", 1, (1, 2))
        with pytest.raises(ArgumentError, match=r"stages must be one of \[1, 2\], got True"):
            check_choice("stages", True, (1, 2))

    def test_a_flag_is_true_or_false(self) -> None:
        assert check_flag("certified", np.bool_(True)) is True
        with pytest.raises(ArgumentError, match="certified must be True or False, got 1"):
            check_flag("certified", 1)


def test_what_must_be_named_is_said() -> None:
    with pytest.raises(
        ArgumentError, match=r"too many positional arguments; pass the other arguments by name, such as eps=1\.0"
    ):
        dp.tune("y ~ x", FRAME, {"curvature": [1.0]}, 1.0)  # type: ignore[misc]


def test_a_type_from_elsewhere_is_named_by_its_class() -> None:
    """What it calls itself may be made from cells."""

    class Theirs(pd.api.extensions.ExtensionDtype):
        name = "SECRET"
        type = object

    assert name_of_type(Theirs()) == "Theirs"
    assert name_of_type(np.dtype("int64")) == "int64"
    assert name_of_type(pd.SparseDtype("int64", 7361984)) == "Sparse"

"""Bad input: a clear error that names the argument, before anything is charged, and never quotes a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp

CANARY = 918273645
"""Stands in cells only; no message may hold its digits."""

DOMAIN = {"y": (-5, 5), "x": (0, 10), "g": ["a", "b", "c"], "b": (0, 1), "three": ["u", "v", "w"]}


def frame(rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    data = pd.DataFrame(
        {
            "y": rng.normal(size=rows),
            "x": rng.uniform(0, 10, rows),
            "g": rng.choice(["a", "b", "c"], rows),
            "b": rng.integers(0, 2, rows),
            "three": rng.choice(["u", "v", "w"], rows),
        }
    )
    data.loc[data.index[:1], "x"] = float(CANARY)
    return data


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[dp.Ledger]:
    with dp.Ledger(tmp_path / "ledger.db", dataset="test", eps=10.0, delta=0.1) as ledger:
        yield ledger


def refused(call: Callable[[], Any], ledger: dp.Ledger, *fragments: str) -> None:
    """The call raises one of our errors with the fragments in its message, spends nothing, and quotes no cell."""
    before = ledger.remaining
    with pytest.raises(dp.errors.DPStatsError) as caught:
        call()
    message = str(caught.value)
    for fragment in fragments:
        assert fragment in message, message
    assert str(CANARY) not in message
    assert ledger.remaining == before
    assert len(ledger.entries()) == 0


ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"eps": 0}, "eps"),
    ({"eps": -1.0}, "eps"),
    ({"eps": float("nan")}, "eps"),
    ({"eps": float("inf")}, "eps"),
    ({"eps": "1"}, "eps"),
    ({"eps": None}, "eps"),
    ({"delta": -0.1}, "delta"),
    ({"delta": 1.0}, "delta"),
    ({"delta": float("nan")}, "delta"),
    ({"noise": "gaussian"}, "delta"),
    ({"noise": "cauchy"}, "noise"),
    ({"family": "gamma"}, "fit the logarithm by least squares, such as np.log(y) ~ x, or family='poisson'"),
    ({"family": 3}, "family"),
    ({"method": "magic"}, "method"),
    ({"adjacency": "neighbours"}, "adjacency"),
    ({"penalty": "ridgy"}, "penalty"),
    ({"penalty": "ridge"}, "alpha"),
    ({"penalty": "lasso", "alpha": -1.0}, "alpha"),
    ({"penalty": None, "alpha": 1.0}, "alpha"),
    ({"curvature": 0}, "curvature"),
    ({"curvature": -3.0}, "curvature"),
    ({"curvature": float("inf")}, "curvature"),
    ({"curvature": 1e-6}, "curvature is too small"),
    ({"curvatur": 1.0}, "curvature"),
    ({"radius": 0}, "radius"),
    ({"range_share": 1.5}, "range_share"),
    ({"release_share": 0}, "release_share"),
    ({"stages": 3}, "stages"),
    ({"selection": "all"}, "selection"),
    ({"retrieval": "refund"}, "retrieval"),
    ({"realization": "magic"}, "realization"),
    ({"moor": True}, "moor"),
    ({"refit_share": 0.2}, "refit_share"),
    ({"penalty_weights": {"nothing": 1.0}}, "nothing"),
    ({"penalty_weights": {"x": -1.0}}, "penalty_weights"),
    ({"penalty_weights": [1.0]}, "penalty_weights"),
    ({"seed": -1}, "seed"),
    ({"seed": "a"}, "seed"),
    ({"penalty": dp.penalties.Bridge(1.0, 0.5)}, "stages=2"),
    ({"moor": "paper", "penalty": "lasso", "alpha": 1.0}, "allow_uncertified"),
    ({"realization": "augmented"}, "allow_uncertified"),
    ({"selection": "vs+", "penalty": "lasso", "alpha": 1.0}, "allow_uncertified"),
    ({"retrieval": "paper", "penalty": "lasso", "alpha": 1.0}, "allow_uncertified"),
]


@pytest.mark.parametrize(("arguments", "fragment"), ARGUMENTS, ids=[str(arguments) for arguments, _ in ARGUMENTS])
def test_arguments(arguments: dict[str, Any], fragment: str, ledger: dp.Ledger) -> None:
    given = {"eps": 1.0, **arguments}
    eps = given.pop("eps")
    refused(lambda: dp.glm("y ~ x + g", frame(), eps, domain=DOMAIN, ledger=ledger, **given), ledger, fragment)


FORMULAS = [
    ("y ~ x +", "formula"),
    ("y", "~"),
    ("", "formula"),
    ("y ~ 0", "column"),
    ("~ x", "response"),
    ("y ~ nowhere", "nowhere"),
    ("y ~ x - x.mean()", "x"),
    ("y ~ np.mean(x)", "mean"),
    ("y ~ I(x - np.mean(x))", "mean"),
    ("y ~ CANARY", "CANARY"),
    ("y ~ x.rank()", "rank"),
    ("y ~ np.cumsum(x)", "cumsum"),
    ("y ~ (lambda v: v)(x)", "formula"),
    ("y ~ C(x)", "x"),
    ("y ~ open('f')", "open"),
    ("y ~ x[0]", "x"),
    ("y + x ~ three", "y + x"),
]


@pytest.mark.parametrize(("formula", "fragment"), FORMULAS[:-1])
def test_formulas(formula: str, fragment: str, ledger: dp.Ledger) -> None:
    refused(lambda: dp.glm(formula, frame(), 1.0, domain=DOMAIN, ledger=ledger), ledger, fragment)


FRAMES: list[tuple[str, Callable[[pd.DataFrame], Any], str]] = [
    ("missing column", lambda data: data.drop(columns="x"), "x"),
    ("duplicate column", lambda data: pd.concat([data, data[["x"]]], axis=1), "x"),
    ("no columns", lambda data: pd.DataFrame(), "data"),
    ("not a frame", lambda data: 17, "data"),
    ("dates", lambda data: data.assign(x=pd.Timestamp("2020-01-01")), "x"),
    ("complex", lambda data: data.assign(x=1j), "x"),
    ("durations", lambda data: data.assign(x=pd.Timedelta("1D")), "x"),
]


@pytest.mark.parametrize(("change", "fragment"), [case[1:] for case in FRAMES], ids=[case[0] for case in FRAMES])
def test_frames(change: Callable[[pd.DataFrame], Any], fragment: str, ledger: dp.Ledger) -> None:
    refused(lambda: dp.glm("y ~ x", change(frame()), 1.0, domain=DOMAIN, ledger=ledger), ledger, fragment)


def test_undeclared_text_and_objects(ledger: dp.Ledger) -> None:
    nested = frame().assign(x=[[CANARY]] * 40)
    refused(lambda: dp.glm("y ~ x", nested, 1.0, ledger=ledger), ledger, "x")
    refused(lambda: dp.glm("y ~ g", frame(), 1.0, ledger=ledger), ledger, "g", "levels")
    category = frame().assign(g=lambda data: data["g"].astype("category"))
    refused(lambda: dp.glm("y ~ g", category, 1.0, ledger=ledger), ledger, "g", "levels")


DOMAINS: list[tuple[dict[str, Any], str]] = [
    ({"x": (1, 1)}, "x"),
    ({"x": (2, 1)}, "x"),
    ({"x": (0, float("inf"))}, "x"),
    ({"x": (float("nan"), 1)}, "x"),
    ({"x": (0, 1, 2)}, "x"),
    ({"x": ("a", "b")}, "x"),
    ({"g": []}, "g"),
    ({"g": ["a", "a"]}, "g"),
    ({"g": ["a", None]}, "g"),
    ({"g": [["a"]]}, "g"),
    ({"x": 3}, "x"),
]


@pytest.mark.parametrize(("change", "fragment"), DOMAINS, ids=[str(change) for change, _ in DOMAINS])
def test_domains(change: dict[str, Any], fragment: str, ledger: dp.Ledger) -> None:
    refused(lambda: dp.glm("y ~ x + g", frame(), 1.0, domain={**DOMAIN, **change}, ledger=ledger), ledger, fragment)


def test_binary_responses(ledger: dp.Ledger) -> None:
    refused(lambda: dp.logit("three ~ x", frame(), 1.0, domain=DOMAIN, ledger=ledger), ledger, "three")
    refused(lambda: dp.logit("x ~ b", frame(), 1.0, domain=DOMAIN, ledger=ledger), ledger, "x")
    refused(lambda: dp.ols("g ~ b", frame(), 1.0, domain=DOMAIN, ledger=ledger), ledger, "g")


@pytest.mark.parametrize("row_norm", [0, -1.0, float("inf"), float("nan"), "1", {}, {"l3": 1.0}, {"l2": 0.0}, True])
def test_row_norms(row_norm: Any, ledger: dp.Ledger) -> None:
    refused(
        lambda: dp.GLM(np.zeros(5), np.zeros((5, 2)), row_norm=row_norm).fit(1.0, ledger=ledger), ledger, "row_norm"
    )


ARRAYS: list[tuple[Any, Any, dict[str, Any], str]] = [
    (np.zeros(4), np.zeros((5, 2)), {}, "endog"),
    (np.zeros((5, 1)), np.zeros((5, 2)), {}, "endog"),
    (np.zeros(5), np.zeros(5), {}, "exog"),
    (np.zeros(5), np.zeros((5, 0)), {}, "exog"),
    (np.array(["a"] * 5), np.zeros((5, 2)), {}, "endog"),
    (np.zeros(5), np.full((5, 2), 1j), {}, "exog"),
    (np.zeros(5), np.zeros((5, 2)), {"names": ["a"]}, "names"),
    (np.zeros(5), np.zeros((5, 2)), {"names": ["a", "a"]}, "names"),
    (np.zeros(5), np.zeros((5, 2)), {"family": "poisson"}, "y_max"),
]


@pytest.mark.parametrize(("endog", "exog", "arguments", "fragment"), ARRAYS)
def test_arrays(endog: Any, exog: Any, arguments: dict[str, Any], fragment: str, ledger: dp.Ledger) -> None:
    refused(lambda: dp.GLM(endog, exog, **{"row_norm": 1.0, **arguments}).fit(1.0, ledger=ledger), ledger, fragment)


@pytest.mark.parametrize("sibling", [dp.ols, dp.logit, dp.poisson, dp.svm])
def test_siblings_keep_their_family(sibling: Callable[..., Any], ledger: dp.Ledger) -> None:
    given = {"family": "gaussian", "domain": DOMAIN, "ledger": ledger}
    refused(lambda: sibling("y ~ x", frame(), 1.0, **given), ledger, "family")


def test_lasso_keeps_its_penalty(ledger: dp.Ledger) -> None:
    given = {"alpha": 1.0, "penalty": "ridge", "domain": DOMAIN, "ledger": ledger}
    refused(lambda: dp.lasso("y ~ x", frame(), 1.0, **given), ledger, "penalty")


def test_gaussian_noise_needs_delta(ledger: dp.Ledger) -> None:
    with pytest.raises(dp.errors.ArgumentError, match="delta"):
        dp.privacy.joint_loss(dp.families.Binomial(), scale=1.0, curvature_ratio=1.0, row_norm=1.0, kind="gaussian")


def test_what_depends_on_cells_makes_rows_missing() -> None:
    """Infinite, unparsable, unknown: no error, no warning (warnings are errors here), the row is left out."""
    data = frame().astype({"x": object})
    data.loc[3, "x"], data.loc[4, "x"], data.loc[5, "x"] = float("inf"), "no number", None
    data.loc[6, "g"] = "unknown"
    design = dp.plan("y ~ x + g", DOMAIN, 1.0).design
    assert sum(len(endog) for _, endog, *_ in design.blocks(data)) == len(data) - 4  # type: ignore[attr-defined]
    assert np.isfinite(dp.glm("y ~ x + g", data, 1.0, domain=DOMAIN, seed=1).params).all()

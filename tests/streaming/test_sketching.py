"""Projected streams from the formula to coefficients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import Block, as_rows
from dpstats.errors import ArgumentError, NotReleasedError, StreamError
from dpstats.streaming import Regression, StreamResults
from dpstats.streaming.constraints import L1Ball, L2Ball
from dpstats.streaming.projected import ProjectedPlan

WORDS = [f"w{place:02d}" for place in range(40)]

DOMAIN = dp.Domain(word=WORDS, x=(-1, 1), y=(-1, 1))


def frame(rows: int, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    word = random.integers(0, 40, rows)
    x = random.uniform(-1, 1, rows)
    y = 0.6 * (word == 3) - 0.5 * (word == 8) + 0.05 * random.normal(size=rows)
    return pd.DataFrame({"word": np.array(WORDS)[word], "x": x, "y": np.clip(y, -1, 1)})


def make(**arguments: Any) -> Regression:
    given: dict[str, Any] = {"mechanism": "projected", "constraint": L1Ball(1.5), "directions": 15, "horizon": 5}
    given |= arguments
    formula = given.pop("formula", "y ~ word - 1")
    return Regression(formula, DOMAIN, given.pop("eps", 1.0), given.pop("delta", 1e-6), **given)


def test_many_rows_find_the_coefficients() -> None:
    """Noise of eps 50 on 60,000 rows; columns of one word are orthogonal, and the sketch keeps two of them apart."""
    stream = make(eps=50.0, delta=1e-3, seed=1, directions=25)
    for tick in range(3):
        found = stream.update(frame(20_000, tick))
    largest = found.params.sort_values()
    assert largest.index[-1] == "word[w03]"
    assert largest.index[0] == "word[w08]"
    assert found.plan.constraint.gauge(found.scaled_params) <= 1 + 1e-9
    pd.testing.assert_series_equal(stream.params, found.params)


def test_an_intercept_is_kept_and_free() -> None:
    stream = make(eps=50.0, delta=1e-3, seed=1, formula="y ~ x + word", horizon=2)
    rows = frame(20_000)
    rows["y"] = 0.4 + 0.3 * rows["x"]
    params = stream.update(rows).params
    assert params["Intercept"] == pytest.approx(0.4, abs=0.2)
    assert stream.plan().vector.columns == 16


def test_sums_are_those_of_projected_rows() -> None:
    vector = make().plan().vector
    random = np.random.default_rng(3)
    exog = random.normal(size=(300, 40))
    exog /= np.linalg.norm(exog, axis=1)[:, None]
    endog = random.uniform(-1, 1, 300)
    rows = as_rows([Block(exog, endog)])
    sums = vector.matrix(vector.exact(rows, np.zeros(40)).astype(float) * vector.units * vector.weights)
    image = vector.projection.rows(exog)
    np.testing.assert_allclose(sums[:-1, :-1], image.T @ image, atol=2e-3)
    np.testing.assert_allclose(sums[:-1, -1], image.T @ endog, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "moved"), [("add_remove", np.sqrt(2)), ("replace_one", np.sqrt(4.5))])
def test_a_row_moves_sums_no_further_than_planned(adjacency: str, moved: float) -> None:
    """Exactly, in lattice steps: rows at the border of what a design can be, beside 50 others."""
    plan = make(adjacency=adjacency).plan()
    vector, step = plan.vector, plan.sums.step
    assert plan.sums.row_sensitivity == pytest.approx(moved, rel=1e-6)
    random = np.random.default_rng(4)
    others = random.normal(size=(50, 40)) / 7
    sides = random.choice([-1.0, 1.0], size=(2, 50))

    def steps(exog: np.ndarray, endog: np.ndarray) -> np.ndarray:
        return vector.steps(vector.exact(as_rows([Block(exog, endog)]), np.zeros(40)), step).astype(float)

    for _ in range(50):
        one, two = random.normal(size=(2, 40))
        one, two = one / np.linalg.norm(one), two / np.linalg.norm(two)
        for outcome in (1.0, -1.0, 0.5):
            if adjacency == "add_remove":
                apart = steps(np.vstack([one, others]), np.r_[outcome, sides[0]]) - steps(others, sides[0])
            else:
                first, second = np.vstack([one, others]), np.vstack([two, others])
                apart = steps(first, np.r_[1.0, sides[0]]) - steps(second, np.r_[-outcome, sides[0]])
            assert np.linalg.norm(apart) * step <= plan.sums.row_sensitivity


def test_rows_outside_the_region_change_nothing() -> None:
    vector = make(region=2, formula="y ~ word").plan().vector
    exog = np.zeros((3, 40))
    exog[:, 0] = 0.5
    exog[0, 1:4], exog[1, 1:3] = 0.1, 0.1
    both = vector.image(Block(exog, np.ones(3))).exog
    np.testing.assert_array_equal(both[0], 0)
    assert (both[1] != 0).any()
    np.testing.assert_array_equal(both[2], [0.5] + [0.0] * 15)  # no words at all: inside, and only its intercept counts


def test_streams_go_on_from_their_state(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=1.0, delta=1e-6)
    stream = make(state=tmp_path / "state", ledger=ledger)
    shown = stream.update(frame(500))
    again = make(state=tmp_path / "state", ledger=ledger)
    assert again.tick == 1
    pd.testing.assert_series_equal(again.params, shown.params)
    again.update(frame(500, 1))
    assert len(ledger.entries()) == 1
    with pytest.raises(StreamError):
        make(state=tmp_path / "state", ledger=ledger, projection_seed=1)
    with pytest.raises(StreamError):
        stream.update(frame(500, 1))


def test_windows_and_results_have_no_errors(tmp_path: Path) -> None:
    stream = make(seed=2)
    for tick in range(3):
        stream.update(frame(300, tick))
    found = stream.window(2)
    found.save(tmp_path / "found")
    assert StreamResults.load(tmp_path / "found").params.equals(found.params)
    with pytest.raises(NotReleasedError, match="sketch"):
        _ = found.bse
    with pytest.raises(NotReleasedError, match="sketch"):
        _ = found.information
    assert "projected" in str(found.summary())
    assert len(stream.history) == 3 * 40


def test_a_sketch_with_an_intercept_has_a_summary_and_no_number_of_rows() -> None:
    """A sum of sketches does not count rows."""
    found = make(seed=2, formula="y ~ x + word").update(frame(300))
    assert found.rows is None
    assert "projected" in str(found.summary())
    assert "Rows used" not in str(found.summary())


def test_a_plan_says_what_is_bought() -> None:
    plan = make(rows_guess=500).plan()
    text = str(plan)
    assert max(len(line) for line in text.splitlines()) <= 80
    said = " ".join(text.split())
    assert "m = 15 public random directions" in said
    assert "exceeds d" in said
    assert "lose accuracy" in said
    again = ProjectedPlan.from_dict(plan.to_dict())
    assert again.digest() == plan.digest()
    assert plan.digest() != make(rows_guess=500, directions=16).plan().digest()
    assert plan.guarantee.certified


@pytest.mark.parametrize(
    "given", [{"halflife": 12}, {"window": 6}, {}, {"delta": 0.0}, {"sums": "tree", "horizon": 8}], ids=str
)
def test_all_workloads_run(given: dict[str, Any]) -> None:
    stream = make(**{"horizon": None, "seed": 1, "directions": 4, "adjacency": "replace_one", **given})
    assert stream.update(frame(10)).scaled_params.shape == (40,)
    assert stream.plan().guarantee.eps == 1.0


def test_noise_alone_gives_the_null_model() -> None:
    """2 rows at eps 1: a false alarm once in 40 times at most, with this seed never."""
    assert (make(seed=5).update(frame(2)).scaled_params == 0).all()


def test_lifting_is_within_the_set() -> None:
    found = make(eps=50.0, delta=1e-3, seed=1, lift=True, constraint=L2Ball(1.0), horizon=1).update(frame(5000))
    assert np.linalg.norm(found.scaled_params) <= 1 + 1e-9


@pytest.mark.parametrize(
    "wrong",
    [
        {"constraint": "l1"},
        {"directions": 40},
        {"directions": "few"},
        {"region": "sparse"},
        {"sums": "none"},
        {"eps": 0.0},
        {"horizon": 0},
        {"adjacency": "both"},
        {"rows_guess": 0},
        {"constraint": None},
        {"family": "binomial"},
        {"penalty": "ridge", "alpha": 1.0, "constraint": None},
        {"radius": 2.0},
        {"solver": "paper"},
        {"mechanism": "linear"},
        {"mechanism": "sketched"},
        {"lift": 1},
        {"projection_seed": -1},
        {"projection_seed": np.array([1, 2])},
        {"mechanism": np.array(["projected", "refits"])},
    ],
)
def test_bad_arguments_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        make(**wrong)

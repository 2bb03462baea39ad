"""Weights, offsets, exposures and counts of trials in streams: what a row may move, and whose estimates they give."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from transcripts import delta_at

import dpstats as dp
from dpstats.data import Block, MemoryRows
from dpstats.errors import NotReleasedError
from dpstats.streaming import Regression, vectors
from dpstats.streaming.plan import StreamPlan
from dpstats.streaming.request import make_plan
from dpstats.streaming.sums.lattice import GaussianDraws
from dpstats.streaming.vectors import reach_of

DOMAIN: dict[str, Any] = {"a": (-1, 1), "b": (0, 3), "o": (-1, 3), "u": (0, 4), "y": (-1, 1)}
FAMILIES: dict[str, tuple[Any, Any]] = {
    "gaussian": ("gaussian", (-1, 1)),
    "binomial": ("binomial", [0, 1]),
    "poisson": (dp.families.Poisson(mean_cap=10.0), (0, 8)),
    "huber_svm": (dp.families.HuberSVM(0.5), [0, 1]),
}
HUGE = 1e4


@lru_cache
def plan_of(name: str, formula: str = "y ~ a + b + offset(o) + weights(u)", **options: Any) -> StreamPlan:
    family, response = FAMILIES[name]
    given_ = {"horizon": 8} | options
    return make_plan(formula, DOMAIN | {"y": response}, 1.0, 1e-5, family=family, **given_)


def outcomes(plan: StreamPlan) -> tuple[float, float]:
    return {"continuous": (-1.0, 1.0), "binary": (0.0, 1.0), "count": (0.0, 8.0)}[plan.family.response]


def vector_of(plan: StreamPlan, exog: Any, endog: float, weight: float, offset: float, params: Any) -> np.ndarray:
    """One row's vector in lattice steps."""
    block = Block(np.atleast_2d(exog), np.array([endog]), np.array([weight]), np.array([offset]))
    exact = plan.vector.exact(MemoryRows([block]), np.atleast_1d(params))
    return plan.vector.steps(exact, plan.sums.step).astype(float)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", sorted(FAMILIES))
@settings(max_examples=60)
@given(data=st.data())
def test_no_weighted_row_moves_a_tick_by_more_than_is_planned_for(name: str, adjacency: Any, data: Any) -> None:
    """Any rows, weights, offsets and coefficients, beyond what is declared too."""
    plan = plan_of(name, adjacency=adjacency)
    size, values = len(plan.names), st.floats(-3, 3)
    vectors_ = []
    params = np.array(data.draw(st.lists(values, min_size=size, max_size=size)))
    params *= data.draw(st.sampled_from([0.0, 1.0, 30.0, 1e6]))
    for _ in range(2):
        exog = np.array(data.draw(st.lists(values, min_size=size, max_size=size)))
        weight = data.draw(st.sampled_from([1.0, 0.5, 0.0, 7.0]))
        offset = data.draw(st.sampled_from([0.0, 1.0, -1.0, 2.0, 1e9, -50.0]))
        vectors_.append(vector_of(plan, exog, data.draw(st.sampled_from(outcomes(plan))), weight, offset, params))
    moved = vectors_[0] - (vectors_[1] if adjacency == "replace_one" else 0.0)
    assert np.linalg.norm(moved) * plan.sums.step <= plan.sums.row_sensitivity


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_bound_is_reached_at_the_greatest_weight_and_offset(name: str) -> None:
    """Some row does 99 % of what is planned for; at half of its weight half of that, to the rounding of entries."""
    plan = plan_of(name, "y ~ a + offset(o) + weights(u) - 1")
    exog = np.sqrt(plan.vector.metric.metric)[0]
    bound = plan.design.offset_bound
    worst, at = 0.0, (0.0, 0.0, 0.0)
    for eta in np.linspace(-38, 38, 761):
        for offset in (-bound, bound):
            for endog in outcomes(plan):
                # What an offset leaves of a response of a linear model is what counts.
                seen = (endog + offset, eta) if name == "gaussian" else (endog, eta - offset)
                moved = np.linalg.norm(vector_of(plan, exog, seen[0], 1.0, offset, seen[1] / exog))
                if moved > worst:
                    worst, at = float(moved), (seen[0], offset, seen[1])
    assert 0.99 <= worst * plan.sums.step / plan.sums.row_sensitivity <= 1
    half = np.linalg.norm(vector_of(plan, exog, at[0], 0.5, at[1], at[2] / exog))
    assert half == pytest.approx(worst / 2, rel=1e-5)


def test_the_reach_grows_with_the_offset_and_is_what_no_offset_passes() -> None:
    family = dp.families.Binomial()
    eta = np.linspace(-30, 30, 3001)
    reaches = [reach_of(family, 2.0, bound) for bound in (0.0, 1.5, 2.0)]
    assert reaches[0] == 1.0 < reaches[1] < reaches[2]
    for offset in np.linspace(-2, 2, 41):
        for outcome in (0.0, 1.0):
            found = family.derivatives(eta, np.full_like(eta, outcome))
            squares = (found.curvature * (eta - offset) - found.gradient) ** 2 + (2 * found.curvature) ** 2
            assert np.sqrt(squares.max()) <= reaches[2] * (1 + 1e-9)


def stick(plan: StreamPlan, moved: np.ndarray) -> float:
    """delta at eps of a first tick that is moved so far: the worst tick of a stream of eight."""
    assert isinstance(plan.sums.draws, GaussianDraws)
    return delta_at(plan.sums.draws.scale, float(np.linalg.norm(moved)) * plan.sums.mechanism.sensitivity)


def test_weights_that_are_not_cut_are_caught(monkeypatch: Any) -> None:
    """Planted: weights divided by half of the greatest one. The first tick's stick is above delta; cut it is not."""
    plan = plan_of("binomial", "y ~ a + weights(u) - 1")
    exog = np.sqrt(plan.vector.metric.metric)[0]
    assert stick(plan, vector_of(plan, exog, 1.0, 2.0, 0.0, -30.0 / exog)) <= 1e-5

    def uncut(blocks: Any) -> Any:
        return [(b.exog, b.endog, b.weights, b.offset) for b in blocks]

    monkeypatch.setattr(vectors, "_parts", uncut)
    assert stick(plan, vector_of(plan, exog, 1.0, 2.0, 0.0, -30.0 / exog)) > 1e-5


def test_an_offset_at_the_price_of_none_is_caught(monkeypatch: Any) -> None:
    """Planted: the reach of a curve without offset for rows that have one, and no cut that holds them to it."""
    plain, other = (plan_of("poisson", f"y ~ a{more} - 1") for more in ("", " + offset(o)"))
    assert plain.sums.row_sensitivity < other.sums.row_sensitivity
    exog, bound = np.sqrt(plain.vector.metric.metric)[0], other.design.offset_bound
    eta = np.log(10.0) - 1e-9

    def moved(plan: StreamPlan) -> np.ndarray:
        return vector_of(plan, exog, 8.0, 1.0, -bound, (eta + bound) / exog)

    assert 0 < stick(plain, moved(plain)) <= 1e-5

    def uncut(vector: Any, linear: np.ndarray, endog: np.ndarray, offset: np.ndarray) -> Any:
        found = vector.family.derivatives(linear + offset, endog)
        return found.curvature, found.curvature * linear - found.gradient, np.zeros_like(linear)

    monkeypatch.setattr(vectors, "linearise", uncut)
    assert stick(plain, moved(plain)) > 1e-5
    assert stick(other, moved(other)) <= 1e-5


# -------------------------------------------------------------------------------------- whose estimates they give


def ticks_of(frame: pd.DataFrame, count: int) -> list[pd.DataFrame]:
    return [frame.iloc[part] for part in np.array_split(np.arange(len(frame)), count)]


def run(formula: str, frame: pd.DataFrame, domain: Any, ticks: int = 20, **options: Any) -> Regression:
    stream = Regression(formula, domain, HUGE, 1e-6, horizon=ticks, **options)
    for rows in ticks_of(frame, ticks):
        stream.update(rows)
    return stream


def fitted(*arguments: Any, **options: Any) -> Any:
    return run(*arguments, **options).results


def test_a_weighted_line_with_an_offset_is_that_of_weighted_least_squares() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({name: random.uniform(0, 1, 8000) for name in ("x", "o", "w")})
    frame["y"] = 1 + 0.7 * frame.x + frame.o + random.uniform(-0.5, 0.5, 8000)
    domain = {"x": (0, 1), "o": (0, 1), "w": (0, 1), "y": (0, 4)}
    found = fitted("y ~ x", frame, domain, weights="w", offset="o", radius=3.0)
    exog, root = np.column_stack([np.ones(8000), frame.x]), np.sqrt(frame.w.to_numpy())
    want = np.linalg.lstsq(exog * root[:, None], (frame.y - frame.o) * root, rcond=None)[0]
    np.testing.assert_allclose(found.params, want, atol=2e-3)
    predicted = found.predict(pd.DataFrame({"x": [0.5], "o": [1.0]})).iloc[0]
    assert predicted == pytest.approx(want @ [1, 0.5] + 1, abs=2e-3)
    with pytest.raises(NotReleasedError, match="weights"):
        _ = found.bse
    assert "weight divided by 1" in " ".join(str(found.plan).split())
    # With an offset alone there are errors: those of the least squares.
    offset = fitted("y ~ x + offset(o)", frame, domain, radius=3.0)
    residual = frame.y - frame.o - exog @ offset.params
    errors = np.sqrt(np.diag(np.linalg.inv(exog.T @ exog)) * residual.var())
    np.testing.assert_allclose(offset.bse, errors, rtol=0.05)


def test_without_an_intercept_an_offset_is_no_less_exact() -> None:
    random = np.random.default_rng(1)
    frame = pd.DataFrame({"x": random.uniform(-1, 1, 4000), "o": random.uniform(1, 2, 4000)})
    frame["y"] = 0.5 * frame.x + frame.o
    found = fitted("y ~ x + offset(o) - 1", frame, {"x": (-1, 1), "o": (1, 2), "y": (0, 3)}, ticks=4)
    assert found.params["x"] == pytest.approx(0.5, abs=2e-3)


def newton(exog: np.ndarray, endog: Any, weights: Any, offset: Any) -> tuple[np.ndarray, np.ndarray]:
    """The weighted logistic regression, and the root of the inverse information's diagonal."""
    params = np.zeros(exog.shape[1])
    for _ in range(25):
        mean = expit(exog @ params + offset)
        hessian = (exog * (weights * mean * (1 - mean))[:, None]).T @ exog
        params -= np.linalg.solve(hessian, exog.T @ (weights * (mean - endog)))
    return params, np.sqrt(np.diag(np.linalg.inv(hessian)))


def test_a_weighted_logistic_stream_with_an_offset_is_the_maximum_of_its_likelihood() -> None:
    random = np.random.default_rng(2)
    frame = pd.DataFrame({"x": random.uniform(-1, 1, 20_000), "o": random.uniform(-1, 1, 20_000)})
    frame["w"] = random.uniform(0.2, 3, 20_000)
    frame["y"] = (random.random(20_000) < expit(0.3 + frame.x + frame.o)).astype(int)
    domain = {"x": (-1, 1), "o": (-1, 1), "w": (0, 3), "y": [0, 1]}
    found = fitted("y ~ x", frame, domain, family="binomial", weights="w", offset="o")
    exog = np.column_stack([np.ones(20_000), frame.x])
    want, errors = newton(exog, frame.y, frame.w.to_numpy(), frame.o.to_numpy())
    assert np.abs((found.params.to_numpy() - want) / errors).max() < 1
    unweighted = newton(exog, frame.y, 1.0, 0.0)[0]
    assert np.abs((unweighted - want) / errors).max() > 2  # the test can fail


def test_trials_are_so_many_rows_and_have_their_errors() -> None:
    random = np.random.default_rng(3)
    trials = random.integers(1, 9, 12_000)
    frame = pd.DataFrame({"x": random.uniform(-1, 1, 12_000)})
    frame["hits"] = random.binomial(trials, expit(-0.4 + frame.x))
    frame["misses"] = trials - frame.hits
    domain = {"x": (-1, 1), "hits": (0, 8), "misses": (0, 8)}
    family = dp.families.BinomialCounts(trials=8)
    stream = run("hits + misses ~ x", frame, domain, family=family)
    exog = np.column_stack([np.ones(12_000), frame.x])
    want, errors = newton(exog, frame.hits / trials, trials, 0.0)
    assert np.abs((stream.params.to_numpy() - want) / errors).max() < 1
    # Later ticks were linearised well: their errors are those of their rows.
    found, late = stream.window(15), slice(3000, None)
    errors = newton(exog[late], (frame.hits / trials)[late], trials[late], 0.0)[1]
    np.testing.assert_allclose(found.bse, errors, rtol=0.1)
    assert found.scale == pytest.approx(1.0)


def test_counts_with_an_exposure_are_rates() -> None:
    random = np.random.default_rng(4)
    frame = pd.DataFrame({"x": random.uniform(-1, 1, 20_000), "years": random.uniform(0.5, 3, 20_000)})
    frame["y"] = random.poisson(frame.years * np.exp(-0.3 + 0.8 * frame.x))
    domain = {"x": (-1, 1), "years": (0.5, 3), "y": (0, 20)}
    family = dp.families.Poisson(mean_cap=10.0)
    found = fitted("y ~ x", frame, domain, family=family, exposure="years")
    np.testing.assert_allclose(found.params, [-0.3, 0.8], atol=0.06)  # 4 standard errors of some 0.013
    assert found.predict({"x": [0.0], "years": [2.0]}).iloc[0] == pytest.approx(2 * np.exp(-0.3), rel=0.06)


def test_a_condition_leaves_rows_out_and_their_number_private() -> None:
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"x": random.uniform(-1, 1, 4000), "age": random.uniform(0, 90, 4000)})
    frame["y"] = np.where(frame.age >= 18, 0.5, -0.5) * frame.x
    domain = {"x": (-1, 1), "age": (0, 90), "y": (-1, 1)}
    stream = Regression("y ~ x", domain, HUGE, 1e-6, horizon=4, subset="age >= 18")
    results = list(stream.run(frame, tick=1000))
    assert len(results) == 4
    assert results[-1].params["x"] == pytest.approx(0.5, abs=2e-3)


def test_projected_streams_take_weights() -> None:
    random = np.random.default_rng(6)
    words = [f"w{place}" for place in range(12)]
    said = random.integers(0, 12, 20_000)
    frame = pd.DataFrame({"word": np.array(words)[said], "w": random.choice([0.0, 1.0], 20_000)})
    frame["y"] = np.where(frame.w > 0, 0.5 * (said == 3), 1.0)  # rows without weight would say otherwise
    ball = dp.streaming.constraints.L1Ball(1.0)
    wide = {"mechanism": "projected", "constraint": ball, "directions": 11, "weights": "w"}
    found = fitted("y ~ word - 1", frame, {"word": words, "w": (0, 1), "y": (-1, 1)}, ticks=2, **wide)
    assert found.params.idxmax() == "word[w3]"
    assert found.params.sum() < 0.8


def test_refits_take_what_a_batch_fit_takes() -> None:
    random = np.random.default_rng(7)
    frame = pd.DataFrame({"x": random.uniform(-1, 1, 3000), "w": random.uniform(0, 1, 3000)})
    frame["y"] = (random.random(3000) < expit(frame.x)).astype(int)
    domain = {"x": (-1, 1), "w": (0, 1), "y": [0, 1]}
    options = {"family": "binomial", "horizon": 3, "weights": "w", "subset": "x > -0.5", "mechanism": "refits"}
    options["schedule"] = 3
    stream: Any = Regression("y ~ x", domain, 5.0, **options)
    assert isinstance(stream, dp.streaming.Refits)
    assert [stream.update(frame) is None for _ in range(3)] == [True, True, False]
    assert "weights(w) + subset(x > -0.5)" in str(stream.plan().each.formula)

"""Exact density ratios of everything that `dpstats.evaluation` releases, both adjacencies, and bugs that they catch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import PackedRows, as_table
from dpstats.domain import Domain, Levels, Range
from dpstats.evaluation import histograms as blocks_module
from dpstats.evaluation.column_histograms import column_histograms
from dpstats.evaluation.data_check import STEPS as CHECK_STEPS
from dpstats.evaluation.data_check import count_faults, shared_steps
from dpstats.evaluation.histograms import STEPS, Grid, Histogram
from dpstats.evaluation.integer_noise import IntegerNoise, choose_noise
from dpstats.evaluation.model_quality import plan_evaluation
from dpstats.evaluation.row_sums import RowSums, steps_left_out
from dpstats.families import get_family
from dpstats.formula.design import design_spec
from dpstats.formula.faults import column_facts, possible_faults
from dpstats.formula.parse import parse
from dpstats.models.ordinal import _blocks
from dpstats.privacy.guarantee import ROW, Adjacency
from dpstats.privacy.randomness import SystemRandom

DOMAIN = {"y": (-4, 4), "x": (0, 10), "g": ["a", "b", "c"], "b": (0, 1), "n": (0, 20)}
FORMULAS = {"gaussian": "y ~ x + g", "binomial": "b ~ x + g", "poisson": "n ~ x + g", "huber_svm": "b ~ x + g"}
ADJACENCIES: list[Adjacency] = ["add_remove", "replace_one"]


def frame(rows: int, seed: int) -> pd.DataFrame:
    """Rows all over the ranges and beyond them, some of them unusable."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "y": rng.uniform(-9, 9, rows),
            "x": rng.choice([-5.0, 0.0, 3.3, 10.0, 50.0, np.nan], rows),
            "g": rng.choice(["a", "b", "c", "no"], rows),
            "b": rng.choice([0.0, 1.0, 2.0], rows, p=[0.45, 0.45, 0.1]),
            "n": rng.choice([0.0, 1.0, 4.4, 20.0, 90.0], rows),
        }
    )


def neighbours(rows: int, adjacency: Adjacency, number: int) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    for seed in range(number):
        data, other = frame(rows, seed), frame(1, 10_000 + seed)
        if adjacency == "add_remove":
            yield data, pd.concat([data, other], ignore_index=True)
        else:
            yield data, pd.concat([data.iloc[1:], other], ignore_index=True)


def log_ratio(noise: IntegerNoise, first: Any, second: Any) -> float:
    """The supremum over outcomes k of log P(first + noise = k) / P(second + noise = k), at k = first, for Laplace."""
    return float(np.abs(first - second).sum()) / noise.scale


@pytest.fixture(scope="module", params=list(FORMULAS))
def fit(request: pytest.FixtureRequest) -> dp.GLMResults:
    data = frame(400, 1)
    return dp.glm(FORMULAS[request.param], data, 5.0, family=request.param, domain=DOMAIN, seed=1)


def sums_of(fit: dp.GLMResults, kind: Literal["laplace", "gaussian"] = "laplace") -> RowSums:
    """What rows add to an evaluation, where the noise is of this kind."""
    model = plan_evaluation(fit, None, 10)
    blocks = model.blocks()
    return RowSums(model, blocks, fit.scaled_params, steps_left_out(blocks, kind))


def counted(fit: dp.GLMResults, data: pd.DataFrame, kind: Literal["laplace", "gaussian"] = "laplace") -> Any:
    """The whole vector that is released, before the noise."""
    return sums_of(fit, kind).of_table(fit.predicting_design, as_table(data), ROW, SystemRandom())  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_evaluation_keeps_its_eps_exactly(fit: dp.GLMResults, adjacency: Adjacency) -> None:
    blocks = plan_evaluation(fit, None, 10).blocks()
    largest = sum(block.largest for block in blocks)
    noise = choose_noise(largest, sum(block.square for block in blocks), 0.7, 0.0, adjacency)
    ratios = [log_ratio(noise, counted(fit, one), counted(fit, two)) for one, two in neighbours(6, adjacency, 150)]
    assert max(ratios) <= 0.7 * (1 + 1e-12)
    assert max(ratios) > 0.7 * 0.8  # and little is given away


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_squared_distance_is_as_declared(fit: dp.GLMResults, adjacency: Adjacency) -> None:
    blocks = plan_evaluation(fit, None, 10).blocks()
    most = sum(block.square for block in blocks) * (1 if adjacency == "add_remove" else 2)
    squares = [
        float(np.square(counted(fit, one, "gaussian") - counted(fit, two, "gaussian")).sum())
        for one, two in neighbours(6, adjacency, 150)
    ]
    assert max(squares) <= most


@pytest.mark.slow
def test_a_forgotten_second_cell_is_caught(fit: dp.GLMResults) -> None:
    """Planted: noise for one changed cell, though a replaced row leaves one and enters another."""
    largest = sum(block.largest for block in plan_evaluation(fit, None, 10).blocks())
    wrong = choose_noise(largest, largest**2, 0.7, 0.0, "add_remove")
    ratios = [log_ratio(wrong, counted(fit, one), counted(fit, two)) for one, two in neighbours(6, "replace_one", 50)]
    assert max(ratios) > 0.7 * 1.5


LEVELLED = {**DOMAIN, "g": ["a", "b", "c"], "n": [0, 1, 20, 90]}


def levels_fit() -> dp.OrdinalResults:
    return dp.ordinal("n ~ x + g", frame(400, 1), 5.0, domain=LEVELLED, seed=1, on_mismatch="go")


def all_pieces(fit: dp.OrdinalResults, data: pd.DataFrame) -> Any:
    design: Any = fit.plan.design
    rows = PackedRows(design.packing, as_table(data).batches(["n", "x", "g"]).map_shards(partial(_blocks, design)))
    return sums_of(fit).of_complete(block._replace(weights=None) for block in rows.collect())


@pytest.mark.slow
def test_an_evaluation_of_ordered_levels_keeps_its_eps_exactly() -> None:
    """Planted: all pieces of a row are counted, in the place of the first."""
    fit = levels_fit()
    (block,) = plan_evaluation(fit, None, 10).blocks()
    worst, squares, planted = [], [], []
    for adjacency in ADJACENCIES:
        noise = choose_noise(block.largest, block.square, 0.7, 0.0, adjacency)
        times = 1 if adjacency == "add_remove" else 2
        ratios = []
        for one, two in neighbours(6, adjacency, 60):
            ratios.append(log_ratio(noise, counted(fit, one), counted(fit, two)))
            moved = counted(fit, one, "gaussian") - counted(fit, two, "gaussian")
            squares.append(float(np.square(moved).sum()) / times / block.square)
            wrong = [all_pieces(fit, data) for data in (one, two)]
            planted.append(log_ratio(noise, *wrong))
        worst.append(max(ratios))
    assert max(worst) <= 0.7 * (1 + 1e-12)
    assert min(worst) > 0.7 * 0.8
    assert max(squares) <= 1
    assert max(planted) > 0.7 * 2


def test_a_place_that_is_not_clipped_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a row's place within its cell, of a value that lies far beyond the grid."""
    block = Histogram(Grid(np.array([-1.0, 0.0, 1.0])), place=0.5)
    rows = np.array([1e6]), np.zeros(1, dtype=np.intp)
    assert np.abs(block.count(rows[1], rows[0])).sum() <= block.largest

    def unclipped(self: Grid, values: Any) -> Any:
        cell = np.searchsorted(self.ends[1:-1], values, side="left")
        return cell, (values - self.middle[cell]) / self.half[cell]

    monkeypatch.setattr(blocks_module.Grid, "locate", unclipped)
    assert np.abs(block.count(rows[1], rows[0])).sum() > 1000 * block.largest


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_check_keeps_its_eps_exactly(adjacency: Adjacency, family: str) -> None:
    formula = {"gaussian": "np.log(y) ~ x + g + n", "binomial": "b ~ x + g + n"}[family]
    noise = choose_noise(CHECK_STEPS, CHECK_STEPS**2, 0.3, 0.0, adjacency)
    ratios, sums = [], []
    for one, two in neighbours(6, adjacency, 50):
        found = []
        for data in (one, two):
            table = as_table(data)
            design = design_spec(formula, Domain(DOMAIN), family=get_family(family))
            facts = column_facts(design.parsed, design.domain, get_family(family))
            counts = count_faults(
                table, facts, design, possible_faults(facts, design, design.parsed), column_histograms(facts)
            )
            found.append(counts)
            sums.append(counts.sum() == CHECK_STEPS * len(data))
        ratios.append(log_ratio(noise, *found))
    assert all(sums)
    assert 0.3 * 0.99 < max(ratios) <= 0.3 * (1 + 1e-12)


def test_places_beside_a_whole_row_without_a_fault_are_caught() -> None:
    """Planted: what a row gives its places is not taken from what it gives "no fault"."""
    facts = {"x": Range(0, 9.5), "g": Levels(("a", "b"))}
    table, places = as_table({"x": [0.3], "g": ["b"]}), column_histograms(facts)
    counts = count_faults(table, facts, None, possible_faults(facts, None, parse("x ~ g")), places)
    noise, nothing = choose_noise(CHECK_STEPS, CHECK_STEPS**2, 0.3, 0.0, "add_remove"), np.zeros_like(counts)
    assert counts.sum() == CHECK_STEPS
    assert np.count_nonzero(counts) == 3
    assert log_ratio(noise, counts, nothing) == pytest.approx(0.3)
    beside = counts.copy()
    beside[0] = CHECK_STEPS
    assert log_ratio(noise, beside, nothing) > 0.4


def test_whole_counts_for_every_faulty_column_are_caught() -> None:
    """Planted: a row counts fully in each column that loses it."""
    flags = np.array([[True, True, True]])
    noise = choose_noise(CHECK_STEPS, CHECK_STEPS**2, 0.3, 0.0, "add_remove")
    nothing = np.zeros(4, dtype=np.int64)
    assert log_ratio(noise, shared_steps(flags), nothing) == pytest.approx(0.3)
    whole = np.concatenate([[0], flags.sum(axis=0) * CHECK_STEPS])
    assert log_ratio(noise, whole, nothing) > 0.8


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("eps", "delta"), [(0.5, 1e-3), (1.0, 1e-6), (3.0, 1e-2)])
def test_discrete_gaussian_keeps_its_delta(adjacency: Adjacency, eps: float, delta: float) -> None:
    """The exact hockey-stick sum of the discrete normal law at the greatest shift along one coordinate."""
    times = 1 if adjacency == "add_remove" else 2
    noise = choose_noise(400, 9, eps, delta, adjacency)  # an l1 norm so large that Gaussian noise is less
    assert (noise.kind, noise.delta) == ("gaussian", delta)
    shift = math.floor(math.sqrt(9 * times))
    reach = int(60 * noise.scale) + shift
    points = np.arange(-reach, reach + 1)
    log_law = -(points**2) / (2 * noise.scale**2)
    law = np.exp(log_law - np.logaddexp.reduce(log_law))
    moved = np.roll(law, shift)
    spent = np.maximum(law - math.exp(eps) * moved, 0).sum()
    assert 0 < spent <= delta
    smaller = np.exp(-(points**2) / (2 * (noise.scale / 3) ** 2))
    smaller /= smaller.sum()
    assert np.maximum(smaller - math.exp(eps) * np.roll(smaller, shift), 0).sum() > delta  # planted


def test_opendp_charges_no_more_than_we_say() -> None:
    noise = choose_noise(400, 9, 1.0, 1e-6, "replace_one")
    drawn = noise.add(np.zeros(4000, dtype=np.int64), SystemRandom())
    # Fails once in 10,000 runs: the variance of 4000 draws has a relative standard deviation of 0.022.
    assert np.var(drawn) / noise.variance == pytest.approx(1.0, abs=0.09)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1.5, 40.0, 2000.0])
def test_variances_are_those_of_the_laws(kind: Any, scale: float) -> None:
    noise = IntegerNoise(kind, 1, scale, 1.0, 0.0)
    points = np.arange(-int(60 * scale), int(60 * scale) + 1)
    weights = np.exp(-np.abs(points) / scale) if kind == "laplace" else np.exp(-(points**2) / (2 * scale**2))
    exact = float((points**2 * weights).sum() / weights.sum())
    assert noise.variance == pytest.approx(exact, rel=1e-6)


def test_the_law_with_less_noise_is_taken() -> None:
    few = choose_noise(STEPS, STEPS**2, 1.0, 1e-6, "add_remove")
    assert (few.kind, few.delta, few.rho) == ("laplace", 0.0, None)
    many = choose_noise(400, 9, 1.0, 1e-6, "add_remove")
    assert many.variance < choose_noise(400, 9, 1.0, 0.0, "add_remove").variance
    assert many.guarantee("add_remove").rho == pytest.approx(9 / (2 * many.scale**2))

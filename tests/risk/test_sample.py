"""Sample sizes: minimal, monotone, and beside the printed results."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.errors import ArgumentError
from dpstats.families import Binomial
from dpstats.privacy.calibration import objective_noise
from dpstats.risk import gap_quantile, sample_size

ASK: dict[str, object] = {"eps": 1.0, "target": 0.01, "radius": 4.0}


def bound_at(curvature: float, columns: int = 8, pi: float = 0.05) -> float:
    ones = np.ones(columns)
    noise = objective_noise(Binomial(), eps=1.0, curvature=curvature, size=columns)
    return gap_quantile(noise, ones, curvature * ones, pi, removed=curvature * ones, radius=4.0)


def test_it_is_the_smallest_n_at_its_curvature() -> None:
    found = sample_size("binomial", 8, **ASK)  # type: ignore[arg-type]
    bound = bound_at(found.curvature)
    assert bound / found.n <= 0.01 < bound / (found.n - 1)
    assert int(found) == found.n == found.table["n"][0]


def test_no_other_curvature_needs_much_fewer() -> None:
    found = sample_size("binomial", 8, **ASK)  # type: ignore[arg-type]
    for curvature in np.geomspace(0.2, 200, 40):
        assert found.n <= 1.01 * bound_at(curvature) / 0.01


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_more_budget_needs_fewer_rows_and_replacing_more(delta: float) -> None:
    sizes = [int(sample_size("binomial", 5, **(ASK | {"eps": eps, "delta": delta}))) for eps in (0.1, 1.0, 5.0)]  # type: ignore[arg-type]
    assert sizes == sorted(sizes, reverse=True)
    replaced = sample_size("binomial", 5, delta=delta, adjacency="replace_one", **ASK)  # type: ignore[arg-type]
    assert replaced.n > sizes[1]


def test_a_given_curvature_is_kept() -> None:
    found = sample_size("binomial", 8, curvature=2.0, **ASK)  # type: ignore[arg-type]
    assert found.curvature == 2.0
    assert found.n == math.ceil(bound_at(2.0) / 0.01)


@pytest.mark.slow
def test_the_norm_of_the_noise_is_chosen() -> None:
    found = sample_size("binomial", 30, row_norm={"l2": 1.0, "l1": 1.5}, **ASK)  # type: ignore[arg-type]
    assert found.noise.norm == "l1"
    assert found.n < sample_size("binomial", 30, **ASK).n  # type: ignore[arg-type]


def test_printed_results_by_hand() -> None:
    """p = 1, pi = 1/e, |l'| <= 1, rows of norm 1, c = 1/4: eqs. (59), (43), and (21) with C' = 0."""
    found = sample_size("binomial", 1, eps=0.5, target=0.1, radius=6.0, pi=math.exp(-1))
    sizes = found.table.set_index("source")["n"]
    theorem_4 = max(36 / 0.01, 0.25 * 36 / (0.1 * 0.5), 6 / (0.1 * 0.5))
    theorem_3 = max(36 / 0.01, 6 / (0.1 * 0.5), math.sqrt(0.25) * 36 / (0.1**1.5 * 0.5))
    constant = 2 * (1 / 0.25) ** 2
    curvature = max(math.sqrt(2 * constant) / 6, 0.25 / 0.25)
    theorem_10 = (constant / curvature + curvature * 36 / 2) / 0.1
    assert sizes.filter(like="theorem 4").tolist() == [math.ceil(theorem_4)]
    assert sizes.filter(like="theorem 3").tolist() == [math.ceil(theorem_3)]
    assert sizes.filter(like="theorem 10").tolist() == [math.ceil(theorem_10)]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"target": 0.0}, "target"),
        ({"radius": math.inf}, "radius"),
        ({"eps": -1.0}, "eps"),
        ({"pi": 0.0}, "pi"),
        ({"row_norm": -1.0}, "row_norm"),
        ({"curvature": 1e-9}, "curvature"),
        ({"curvature": -1.0}, "curvature"),
        ({"adjacency": "both"}, "adjacency"),
    ],
)
def test_bad_arguments(changes: dict[str, object], name: str) -> None:
    with pytest.raises(ArgumentError, match=name):
        sample_size("binomial", 3, **(ASK | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [0, 2.0, True])
def test_bad_columns(columns: object) -> None:
    with pytest.raises(ArgumentError, match="columns"):
        sample_size("binomial", columns, **ASK)  # type: ignore[arg-type]


def test_an_open_cap_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="residual_cap"):
        sample_size("gaussian", 3, **ASK)  # type: ignore[arg-type]

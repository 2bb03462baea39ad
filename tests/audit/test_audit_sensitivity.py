"""The sensitivity recorder and the generator of worst cases."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.audit import sensitivity, worst_cases
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Gaussian, HuberSVM, NegativeBinomial, Poisson

FAMILIES = [
    Binomial(),
    HuberSVM(),
    Gaussian(residual_cap=2.0),
    Poisson(mean_cap=10.0, y_max=10),
    NegativeBinomial(0.5, 6.0),
]


def gradient_at_zero(data, rng):
    """For least squares: sum of -y x, plus noise that both data sets share."""
    endog, exog = data
    return -(np.clip(endog, -1, 1) @ exog) + rng.normal(size=exog.shape[1])


@pytest.mark.parametrize(("adjacency", "declared"), [("add_remove", 1.5), ("replace_one", 3.0)])
def test_the_declared_sensitivity_is_met_and_no_less_would_do(adjacency, declared):
    """Rows up to 1.5 long, responses within 1: 1.5 for a row more, 3 for a row turned round."""
    pairs = [pair[1:] for pair in worst_cases(Gaussian(residual_cap=2.0), 1.5, 3, adjacency)]
    kept = sensitivity(gradient_at_zero, pairs, declared=declared, runs=3)
    assert kept.passed
    assert kept.largest == pytest.approx(declared)
    assert kept.comparisons == 3 * len(pairs)
    assert not sensitivity(gradient_at_zero, pairs, declared=declared * 0.99).passed


def test_randomness_is_the_same_on_both_sides():
    fresh = sensitivity(lambda data, rng: rng.normal(size=4), [(0, 1)] * 5, declared=1e-12, runs=4)
    assert fresh.largest == 0


@pytest.mark.parametrize(("norm", "expected"), [(1, 7.0), (2, 5.0), (np.inf, 4.0)])
def test_the_norm_is_the_stated_one(norm, expected):
    result = sensitivity(lambda data, rng: np.multiply(data, [3.0, 4.0]), [(0, 1)], declared=10, norm=norm)
    assert result.largest == pytest.approx(expected)


def test_the_worst_pair_is_named():
    result = sensitivity(lambda data, rng: data, [(0, 1), (0, -5), (0, 2)], declared=10)
    assert (result.pair, result.largest) == (1, 5)


def test_not_a_number_is_the_worst_distance():
    assert not sensitivity(lambda data, rng: data, [(0, np.nan), (0, 1)], declared=10).passed


def test_results_of_different_shapes_are_refused():
    with pytest.raises(ArgumentError, match="as many numbers"):
        sensitivity(lambda data, rng: np.zeros(data), [(1, 2)], declared=1)


def test_no_pair_at_all_is_refused():
    with pytest.raises(ArgumentError, match="pair"):
        sensitivity(lambda data, rng: 0.0, [], declared=1)


def test_the_summary_states_the_verdict():
    assert "REFUTED" in str(sensitivity(lambda data, rng: data, [(0, 2)], declared=1))
    assert "not refuted" in str(sensitivity(lambda data, rng: data, [(0, 1)], declared=1))


# --- Worst cases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("size", [1, 3])
def test_added_rows_are_one_row_at_the_bound(family, size):
    pairs = list(worst_cases(family, 2.0, size))
    assert len({pair.name for pair in pairs}) == len(pairs)
    for _, (endog, exog), (more_endog, more_exog) in pairs:
        assert len(more_endog) == len(endog) + 1 == len(more_exog)
        np.testing.assert_array_equal(more_exog[:-1], exog)
        np.testing.assert_array_equal(more_endog[:-1], endog)
        assert np.linalg.norm(more_exog[-1]) == pytest.approx(2.0)
        assert (np.linalg.norm(exog, axis=1) <= 2.0 + 1e-12).all()
        np.testing.assert_array_equal(family.clip_response(more_endog), more_endog)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_replaced_rows_are_one_row(family):
    for _, (endog, exog), (other_endog, other_exog) in worst_cases(family, 1.0, 2, "replace_one"):
        assert exog.shape == other_exog.shape
        differs = (exog != other_exog).any(axis=1) | (endog != other_endog)
        assert differs.sum() == 1


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_replaced_row_keeps_either_its_response_or_its_direction(family):
    """Turning both round would give a binary model the same record again."""
    kept = {"exog": 0, "endog": 0}
    for _, (endog, exog), (other_endog, other_exog) in worst_cases(family, 1.0, 2, "replace_one"):
        assert (exog == other_exog).all() != (endog == other_endog).all()
        kept["exog" if (exog == other_exog).all() else "endog"] += 1
    assert kept["exog"] == kept["endog"] > 0


def test_the_empty_data_set_and_every_extreme_response_are_among_them():
    pairs = list(worst_cases(Poisson(mean_cap=10.0, y_max=7), 1.0, 2))
    assert any(len(pair.data[0]) == 0 for pair in pairs)
    assert {0.0, 7.0} <= {float(pair.neighbour[0][-1]) for pair in pairs}


def test_an_unknown_adjacency_is_refused():
    with pytest.raises(ArgumentError, match="adjacency"):
        list(worst_cases(Binomial(), 1.0, 1, "neighbours"))

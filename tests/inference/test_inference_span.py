"""Noise in a metric, and its projection on what the design knows: moments against draws, agreement with entries.

Seeds are fixed; limits are six standard errors.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.inference.entry_noise import project, wishart_difference
from dpstats.errors import ArgumentError
from dpstats.formula.vanishing_forms import vanishing_forms
from dpstats.inference import SpanNoise, identify, project_forms
from dpstats.privacy.information import MatrixNoise, design_metric
from dpstats.privacy.k_norm import box, intercept, simplex, unit_images


def rows(count: int = 400) -> np.ndarray:
    """Intercept, a number, three levels by treatment coding."""
    random = np.random.default_rng(0)
    levels = np.vstack((np.zeros(2), np.eye(2)))[random.integers(0, 3, count)]
    return np.column_stack((np.ones(count), random.uniform(-1, 1, count), levels))


def noise() -> MatrixNoise:
    return MatrixNoise("wishart", 1.3, *design_metric(unit_images([intercept(), box(), simplex(2)])))


def law(of: MatrixNoise) -> SpanNoise:
    return SpanNoise(of.metric, of.entry_variance)


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    """Matrices of the noise, shape (40,000, 4, 4)."""
    random, of = np.random.default_rng(1), noise()
    return np.array([of.sample(random) for _ in range(40_000)])


@pytest.mark.slow
@pytest.mark.parametrize("projected", [False, True])
def test_second_moments(projected: bool, drawn: np.ndarray) -> None:
    """S(A) and Var(g'Em) against draws, and of a part of the columns."""
    draws, found = drawn, law(noise())
    if projected:
        forms = vanishing_forms(rows())
        draws = np.array([project_forms(draw, found, forms)[0] for draw in draws[:15_000]])
        found = project_forms(draws[0], found, forms)[1]
    # S is asked for matrices that are not symmetric too.
    matrix = np.diag([1.0, 3, 0.5, 2]) + 0.4 + np.outer([1.0, -2, 0, 1], [0.0, 1, 3, -1])
    for kept in (np.arange(4), np.array([1, 3])):
        inner, part, middle = found.restrict(kept), draws[:, kept][:, :, kept], matrix[np.ix_(kept, kept)]
        products = part @ middle @ part
        errors = products.std(axis=0) / np.sqrt(len(draws))
        assert np.all(np.abs(products.mean(axis=0) - inner.square(middle)) <= 6 * errors + 1e-9)
        left, right = np.random.default_rng(3).normal(size=(2, 5, len(kept)))
        forms = np.einsum("ki,nij,kj->nk", left, part, right)
        squares = forms**2
        errors = squares.std(axis=0) / np.sqrt(len(draws))
        assert np.all(np.abs(squares.mean(axis=0) - inner.bilinear(left, right)) <= 6 * errors)


def test_projection_of_a_diagonal_metric_is_that_of_the_entries() -> None:
    """Zeros and ties in the other form of the same law."""
    shape = np.array([2.0, 3.0, 0.7, 0.7])
    random = np.random.default_rng(2)
    matrix = random.normal(size=(4, 4))
    matrix = matrix + matrix.T
    plain = SpanNoise(np.diag(shape), MatrixNoise("wishart", 0.9, tuple(shape)).entry_variance)
    first, span = project_forms(matrix, plain, vanishing_forms(rows()))
    second, entries = project(matrix, wishart_difference(0.9, shape), [(2, 3)], [(0, 2, 1.0), (0, 3, 1.0)])
    assert first == pytest.approx(second, abs=1e-6)
    middle = np.diag([1.0, 3, 0.5, 2]) + 0.4 + np.outer([1.0, -2, 0, 1], [0.0, 1, 3, -1])
    assert span.square(middle) == pytest.approx(entries.square(middle), rel=1e-6, abs=1e-6)


def test_matrices_of_the_design_stay_and_noise_falls() -> None:
    forms = vanishing_forms(rows())
    assert len(forms) == 3
    exact = rows().T @ rows()
    kept, projected = project_forms(exact, law(noise()), forms)
    assert kept == pytest.approx(exact, abs=1e-6 * exact.max())
    directions = np.random.default_rng(4).normal(size=(20, 4))
    before, after = law(noise()).bilinear(directions, directions), projected.bilinear(directions, directions)
    assert np.all(after <= before * (1 + 1e-9))
    assert np.any(after < 0.8 * before)
    # Redundant forms change nothing.
    again, same = project_forms(exact, law(noise()), np.concatenate((forms, forms[:1] + forms[1:2])))
    assert same.bilinear(directions, directions) == pytest.approx(after)
    assert again == pytest.approx(kept)


def test_units_do_not_matter() -> None:
    """Columns a billion times as large."""
    units = np.array([1.0, 1e9, 1e-3, 1e3])
    of, forms = noise(), vanishing_forms(rows())
    exact = 20 * rows().T @ rows() + of.sample(np.random.default_rng(5))
    first, one = project_forms(exact, law(of), forms)
    scaled = SpanNoise(of.metric * np.outer(units, units), of.entry_variance)
    second, other = project_forms(exact * np.outer(units, units), scaled, vanishing_forms(rows() * units))
    assert second / np.outer(units, units) == pytest.approx(first, rel=1e-6, abs=1e-6)
    assert identify(second, other).ratios == pytest.approx(identify(first, one).ratios, rel=1e-5)


def test_errors() -> None:
    plain = law(noise())
    forms = vanishing_forms(rows())
    with pytest.raises(ArgumentError):
        SpanNoise(np.eye(2), 0.0)
    with pytest.raises(ArgumentError):
        SpanNoise(np.eye(2), 1.0, np.zeros((2, 2)))
    with pytest.raises(ArgumentError):
        project_forms(np.eye(4), plain, np.zeros((1, 3, 3)))
    _, once = project_forms(np.eye(4), plain, forms)
    with pytest.raises(ArgumentError):
        project_forms(np.eye(4), once, forms)
    same, unchanged = project_forms(np.eye(4), plain, np.zeros((0, 4, 4)))
    assert unchanged is plain
    assert np.array_equal(same, np.eye(4))

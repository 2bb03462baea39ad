"""Information whose weights are capped: what debiasing by it misses, and what the made-up rows make up for."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.inference.entry_noise import wishart_difference
from dpstats.families import Poisson
from dpstats.inference import Dummies, Identified, MeanFunction, average_along_path
from dpstats.privacy.information import row_weights

Float = NDArray[np.float64]

FAMILY = Poisson(mean_cap=200.0, y_max=300.0)
FACTOR = Dummies(0, 1.0, (1, 2, 3), (0.5, 0.5, 1.0))


def response(cap: float | None) -> MeanFunction:
    """Counts of a mean far below its cap, beside weights that have one."""
    return MeanFunction(FAMILY.mean, partial(row_weights, FAMILY, weight_cap=cap))


def identified(information: Float) -> Identified:
    """As if the information had no noise."""
    law = wishart_difference(1e-9, np.ones(len(information)))
    every = np.ones(len(information), dtype=bool)
    return Identified(every, np.linalg.inv(information), np.full(len(information), 1e9), np.ones(len(information)), law)


def information_of(rows: Float, weights: Float) -> Float:
    return np.asarray((rows * weights[:, None]).T @ rows)


def shrunken(rows: Float, truth: Float, ridge: Float) -> Float:
    """The minimum of the expected loss plus the ridge."""
    coef = np.zeros(len(truth))
    for _ in range(400):
        means = np.exp(rows @ coef)
        slope = rows.T @ (means - np.exp(rows @ truth)) + ridge * coef
        coef = coef - 0.5 * np.linalg.solve(information_of(rows, means) + np.diag(ridge), slope)
    return coef


def cells(count: int = 4096) -> Float:
    """An intercept and a factor of four levels, in shares that the made-up rows have too."""
    level = np.repeat(np.arange(4), [count // 2, count // 4, count // 8, count // 8])
    return np.column_stack((np.ones(count), 0.5 * (level == 1), 0.5 * (level == 2), level == 3)).astype(float)


def debiased(rows: Float, coef: Float, ridge: Float, cap: float | None, *, corrected: bool = True) -> Float:
    """The coefficients without their shrinkage, by the information under a cap."""
    weights = row_weights(FAMILY, rows @ coef, np.zeros(len(rows)), cap)
    whole = identified(information_of(rows, weights))
    found = average_along_path(whole, coef, ridge * coef, response(cap if corrected else None), (0, 1.0), [FACTOR])
    return np.asarray(coef + found.inverse @ (ridge * coef))


@pytest.mark.parametrize("cap", [3.0, 1.0, 0.5])
def test_with_one_factor_the_cap_costs_nothing(cap: float) -> None:
    """Theorem 4: the debiased coefficients are those of the whole information, which are the truth."""
    rows, truth, ridge = cells(), np.array([0.4, 1.6, -1.4, 0.9]), np.array([60.0, 90.0, 90.0, 60.0])
    coef = shrunken(rows, truth, ridge)
    assert np.abs(coef - truth).max() > 0.05
    plain, found = debiased(rows, coef, ridge, None), debiased(rows, coef, ridge, cap)
    assert plain == pytest.approx(truth, abs=3e-3)
    assert found == pytest.approx(truth, abs=3e-3)
    # Planted: errors that take the capped information for the whole overshoot where the cap is felt.
    wrong = debiased(rows, coef, ridge, cap, corrected=False)
    assert np.abs(wrong - truth).max() > (0.005 if cap == 3 else 0.05)


@pytest.mark.parametrize("kind", ["uniform", "two humps"])
def test_numbers_are_made_up_for_in_part(kind: str) -> None:
    """Where made-up rows are normal within the range: at the mean itself a tenth of the shrinkage is left."""
    random = np.random.default_rng(3)
    number = random.uniform(-1, 1, 20_000)
    if kind == "two humps":
        number = np.where(random.random(20_000) < 0.2, 0.8 + number / 5, -0.7 + 0.3 * number)
    rows = np.column_stack((np.ones(len(number)), number))
    truth, ridge = np.array([0.2, 1.2]), np.array([900.0, 900.0])
    coef = shrunken(rows, truth, ridge)
    weights = row_weights(FAMILY, rows @ coef, np.zeros(len(rows)), float(np.exp(rows @ truth).mean()))
    errors = []
    for own, reach in ((1.0, np.ones(2)), (1.0, None), (None, None)):
        cap = None if own is None else float(weights.max())
        found = average_along_path(
            identified(information_of(rows, weights)), coef, ridge * coef, response(cap), (0, 1.0), [], reach
        )
        errors.append(np.abs(coef + found.inverse @ (ridge * coef) - truth).max())
    assert errors[0] < 0.1 * np.abs(coef - truth).max()
    assert errors[0] < errors[2] / 3
    if kind == "uniform":  # a normal tail beyond the range makes up for more than was taken away
        assert errors[0] < errors[1] / 2


class TestTheorem3:
    """What is left of the estimate and of its error where nothing is made up for."""

    def test_debiasing_overshoots_within_its_bound(self) -> None:
        random = np.random.default_rng(5)
        for _ in range(200):
            size = int(random.integers(1, 6))
            root = random.standard_normal((size, 2 * size))
            information = root @ root.T
            share = float(random.uniform(0.2, 1))
            turned = np.linalg.cholesky(information)
            basis = np.linalg.qr(random.standard_normal((size, size)))[0]
            capped = turned @ basis @ np.diag(random.uniform(share, 1, size)) @ basis.T @ turned.T
            contrast, pull = random.standard_normal((2, size))
            inverse = np.linalg.inv(information)
            bias = contrast @ (np.linalg.inv(capped) - inverse) @ pull
            reach = np.sqrt(contrast @ inverse @ contrast * (pull @ inverse @ pull))
            assert abs(bias) <= (1 / share - 1) * reach * (1 + 1e-9)
            noise = np.diag(random.uniform(0, 3, size))
            largest = np.abs(np.linalg.eigvals(noise @ np.linalg.inv(capped))).max()
            true = contrast @ inverse @ noise @ inverse @ contrast
            assert true <= largest * (contrast @ np.linalg.inv(capped) @ contrast) * (1 + 1e-9)

    def test_the_noise_part_may_be_too_small(self) -> None:
        """Products of matrices are not monotone: a plug-in of nothing, where there is noise."""
        inverse = np.eye(2) + np.full((2, 2), 0.5)
        assert np.linalg.eigvalsh(np.linalg.inv(inverse)) == pytest.approx([0.5, 1.0])
        noise, contrast = np.array([1.0, -3.0]), np.array([1.0, 0.0])
        assert contrast @ inverse @ noise == pytest.approx(0.0)
        assert contrast @ noise == 1.0

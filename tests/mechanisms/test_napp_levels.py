"""The level of noise-aware selection, by whole releases on simulated null data."""

import numpy as np
import pytest
from scipy import stats

import dpstats as dp
from dpstats.mechanisms.design import ArrayDesign
from dpstats.mechanisms.napp import plan_stages, release_stages
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.spec import FitSpec

DATA_SETS, ROWS, COLUMNS, LEVEL = 500, 60, 5, 0.1
PENALTY = dp.penalties.Lasso(0.5)
FALSE_ALARM = 1e-5
"""Of each binomial test below; four families and two kinds of noise make eight of them, 8e-5 in all."""

FAMILIES = {
    "gaussian": dp.families.Gaussian(residual_cap=1.0),
    "binomial": dp.families.Binomial(),
    "poisson": dp.families.Poisson(mean_cap=6.0, y_max=6.0),
    "huber_svm": dp.families.HuberSVM(),
}


def null_response(name: str, random: np.random.Generator) -> np.ndarray:
    """A response that no column explains."""
    if name == "gaussian":
        return random.normal(0, 0.3, ROWS)
    if name == "poisson":
        return np.minimum(random.poisson(1.0, ROWS), 6).astype(float)
    return random.integers(0, 2, ROWS).astype(float)


class Fits:
    """One plan of a private lasso, released on as many data sets as wanted."""

    def __init__(self, name: str, delta: float, **options: object) -> None:
        self.name, self.family = name, FAMILIES[name]
        norms = {"l2": 1.0, "linf": float(COLUMNS**-0.5)}
        design = ArrayDesign(tuple(f"x{j}" for j in range(COLUMNS)), norms)
        self.spec = FitSpec(design, self.family, PENALTY, np.ones(COLUMNS), Options(**options))
        self.stages = plan_stages(self.spec, 1.0, delta)

    def caused_by_noise(self, seed: int) -> bool:
        """Draw null data, release, and look for a column that noise caused."""
        random = np.random.default_rng([11, seed])
        exog = random.uniform(-1, 1, (ROWS, COLUMNS)) / np.sqrt(COLUMNS)
        rows = (exog, null_response(self.name, random))
        released = release_stages(self.stages, self.spec, [rows], random).params
        return caused_by_noise(self.family, released, rows)


def caused_by_noise(family: dp.families.Family, theta: np.ndarray, rows: tuple) -> bool:
    """Whether some kept column would not move to its side without noise, the others held (docs/proofs/selection)."""
    exog, endog = rows
    for j in np.flatnonzero(theta):
        without = np.where(np.arange(COLUMNS) == j, 0.0, theta)
        pull = -float(family.derivatives(exog @ without, endog).gradient @ exog[:, j])
        # The released point is the optimum up to the final noise, far below 1e-5 here.
        if np.sign(theta[j]) * pull < PENALTY.alpha - 1e-5:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("name", FAMILIES)
def test_noise_causes_a_false_positive_at_most_at_the_level(name: str, delta: float) -> None:
    fits = Fits(name, delta, selection="noise_aware", selection_level=LEVEL)
    caused = sum(fits.caused_by_noise(seed) for seed in range(DATA_SETS))
    assert stats.binomtest(caused, DATA_SETS, LEVEL, alternative="greater").pvalue > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_test_has_power(name: str, delta: float) -> None:
    """Planted: the same count at a level near 1, and for a lasso that does not know of the noise."""
    for options in ({"selection": "noise_aware", "selection_level": 0.99}, {}):
        fits = Fits(name, delta, **options)
        caused = sum(fits.caused_by_noise(seed) for seed in range(60))
        assert stats.binomtest(caused, 60, LEVEL, alternative="greater").pvalue < 1e-5

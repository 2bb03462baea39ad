"""The noise's threshold against draws, the lasso with it against the level it promises."""

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import ArgumentError
from dpstats.families import Gaussian
from dpstats.mechanisms import selection
from dpstats.mechanisms.selection import noise_aware, noise_threshold
from dpstats.penalties import Bridge, ElasticNet, Lasso, Ridge
from dpstats.privacy.noise import Noise
from dpstats.solvers import prox
from dpstats.solvers.objective import PerturbedObjective

LAWS = [
    Noise("laplace", "l1", 2.0),
    Noise("laplace", "l2", 2.0),
    Noise("laplace", "linf", 2.0),
    Noise("gaussian", "l2", 2.0),
]


@pytest.mark.parametrize("noise", LAWS, ids=str)
class TestThreshold:
    @pytest.mark.parametrize(("size", "columns"), [(1, 1), (6, 6), (6, 2), (50, 50), (50, 20)])
    def test_is_exceeded_at_its_level(self, noise, size, columns):
        # 20 binomial tests a law, each two-sided at 1e-5.
        random = np.random.default_rng(size)
        largest = np.array([np.max(np.abs(noise.sample(size, random)[:columns])) for _ in range(5000)])
        for level in (0.3, 0.05):
            exceeded = int(np.sum(largest > noise_threshold(noise, size, level, columns)))
            assert stats.binomtest(exceeded, 5000, level).pvalue > 1e-5

    def test_one_coordinate_has_its_marginal_law(self, noise):
        law = stats.laplace(scale=2.0) if noise.kind == "laplace" else stats.norm(scale=2.0)
        assert noise_threshold(noise, 1, 0.01) == pytest.approx(law.isf(0.005), rel=1e-7)

    @pytest.mark.parametrize("level", [1e-12, 1e-4, 0.999])
    @pytest.mark.parametrize("size", [2, 300])
    def test_extreme_levels(self, noise, size, level):
        found = noise_threshold(noise, size, level)
        assert 0 < found < np.inf
        assert found > noise_threshold(noise, size, min(1.5 * level, 0.9999))
        assert found >= noise_threshold(noise, size, level, columns=1)

    @pytest.mark.parametrize("level", [0.0, 1.0, -0.1, np.nan])
    def test_level(self, noise, level):
        with pytest.raises(ArgumentError, match="level"):
            noise_threshold(noise, 3, level)

    @pytest.mark.parametrize("columns", [0, 4])
    def test_columns(self, noise, columns):
        with pytest.raises(ArgumentError, match="columns"):
            noise_threshold(noise, 3, 0.1, columns)


def test_the_spherical_laws_quadrature_has_converged(monkeypatch):
    fine = [noise_threshold(LAWS[1], size, level) for size in (1, 40, 2000) for level in (0.5, 1e-8)]
    monkeypatch.setattr(selection, "MIXTURE_POINTS", 1500)
    coarse = [noise_threshold(LAWS[1], size, level) for size in (1, 40, 2000) for level in (0.5, 1e-8)]
    np.testing.assert_allclose(coarse, fine, rtol=1e-10)


class TestNoiseAware:
    weights = np.array([0.0, 1.0, 2.0])

    @pytest.mark.parametrize(
        ("penalty", "lasso", "ridge"),
        [
            (None, 0.0, 0.0),
            (Lasso(3.0), 3.0, 0.0),
            (Ridge(3.0), 0.0, 3.0),
            (ElasticNet(4.0, 0.25), 1.0, 3.0),
            (Bridge(3.0, 1.0), 3.0, 0.0),
            (Bridge(3.0, 2.0), 0.0, 6.0),
        ],
        ids=str,
    )
    def test_splits_and_adds(self, penalty, lasso, ridge):
        terms = noise_aware(penalty, self.weights, 5.0)
        np.testing.assert_allclose(terms.lasso, [0.0, lasso + 5.0, 2 * lasso + 5.0])
        np.testing.assert_allclose(terms.ridge, ridge * self.weights)

    def test_refuses_other_penalties(self):
        with pytest.raises(ArgumentError, match="noise_aware"):
            noise_aware(Bridge(1.0, 1.5), self.weights, 1.0)

    @pytest.mark.slow
    def test_without_signal_noise_selects_at_most_at_its_level(self):
        # No rows: every nonzero coefficient is the noise's. The rate is the level exactly; binomial test at 1e-5.
        noise, random = LAWS[1], np.random.default_rng(0)
        threshold = noise_threshold(noise, 4, 0.2)
        terms = noise_aware(Lasso(0.0), np.ones(4), threshold)
        false = 0
        for _ in range(1500):
            objective = PerturbedObjective(Gaussian(1.0), [], np.ones(4) + terms.ridge, noise.sample(4, random))
            false += bool(np.any(prox.minimize(objective, Lasso(1.0), 1e-8, weights=terms.lasso) != 0))
        assert stats.binomtest(false, 1500, 0.2).pvalue > 1e-5

    @pytest.mark.slow
    def test_what_is_selected_would_be_without_noise(self):
        # docs/proofs/selection, theorem 1: if |b_j| <= lambda, then with the other coefficients held where they are the
        # noise-free lasso moves column j off zero too, to the same side.
        random = np.random.default_rng(1)
        noise, family, level = LAWS[1], Gaussian(2.0), 0.3
        threshold, alpha, curvature = noise_threshold(noise, 5, level), 1.0, 0.7
        noise_caused = 0
        for _ in range(200):
            exog = random.uniform(-0.4, 0.4, (150, 5))
            endog = exog @ np.array([3.0, -2.0, 0.0, 0.0, 0.0]) + random.normal(0, 0.5, 150)
            b = noise.sample(5, random)
            terms = noise_aware(Lasso(alpha), np.ones(5), threshold)
            objective = PerturbedObjective(family, [(exog, endog)], np.full(5, curvature), b)
            theta = prox.minimize(objective, Lasso(1.0), 1e-8, weights=terms.lasso).astype(float)
            caused = False
            for j in np.flatnonzero(theta):
                without = np.where(np.arange(5) == j, 0.0, theta)
                pull = float(family.derivatives(exog @ without, endog).gradient @ exog[:, j])
                caused |= not (-np.sign(theta[j]) * pull >= alpha)
            assert not (caused and np.max(np.abs(b)) <= threshold), "the theorem"
            noise_caused += caused
        # One-sided binomial at 1e-4: the rate is at most the level.
        assert stats.binomtest(noise_caused, 200, level, alternative="greater").pvalue > 1e-4

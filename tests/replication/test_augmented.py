"""Noise rows against the weighted ridge they imitate, and what the paper says of them that does not hold."""

import numpy as np
import pytest

import dpstats as dp
from benchmarks.replications import majorized
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Gaussian, HuberSVM, Poisson
from dpstats.penalties import ElasticNet, Lasso, Ridge
from dpstats.replication import napp
from dpstats.solvers import newton
from dpstats.solvers.objective import PerturbedObjective

FAMILIES = [Gaussian(100.0), Binomial(), Poisson(1e6, 20.0)]
CURVATURE, NOISE = np.full(4, 4.0), np.array([1.0, -2.0, 0.5, 3.0])


def rows(family):
    random = np.random.default_rng(4)
    exog = random.uniform(-0.5, 0.5, (200, 4))
    eta = 2 * exog[:, 0] + exog[:, 1]
    if family.response == "binary":
        return exog, (random.random(200) < 1 / (1 + np.exp(-eta))).astype(float)
    return exog, random.poisson(np.exp(eta)).astype(float) if family.response == "count" else eta + random.normal(
        0, 0.5, 200
    )


def root_mean_square_gap(family, penalty, noise_rows, seeds):
    """Distance of the augmented fit from the analytic one, over `seeds` draws of the noise rows."""
    exog, endog = rows(family)
    objective = PerturbedObjective(family, [(exog, endog)], CURVATURE, NOISE)
    analytic = majorized.iterate(objective, penalty, iterations=500, change=1e-9)
    gaps = [
        napp.augmented_fit(
            family, [(exog, endog)], CURVATURE, NOISE, penalty, np.random.default_rng(seed),
            noise_rows=noise_rows, iterations=25, change=1e-3,
        ) - analytic
        for seed in range(seeds)
    ]  # fmt: skip
    return np.sqrt(np.mean(np.sum(np.square(gaps), axis=1)))


@pytest.mark.parametrize("family", FAMILIES, ids=str)
class TestConvergence:
    @pytest.mark.slow
    def test_at_the_rate_of_one_over_root_rows(self, family):
        # Four sets of 24 draws gave slopes within 0.03 of -0.49 in every family: +-0.1 is about five standard errors.
        sizes = np.array([200, 600, 2000, 6400])
        gaps = [root_mean_square_gap(family, Ridge(2.0), int(size), seeds=24) for size in sizes]
        slope = np.polyfit(np.log(sizes), np.log(gaps), 1)[0]
        assert slope == pytest.approx(-0.5, abs=0.1)

    @pytest.mark.slow
    @pytest.mark.parametrize("penalty", [Lasso(3.0), ElasticNet(4.0, 0.5)], ids=str)
    def test_sparse_penalties_too(self, family, penalty):
        coarse, fine = (root_mean_square_gap(family, penalty, size, seeds=6) for size in (400, 6400))
        assert fine < 0.12
        assert fine < coarse / 2  # 1/4 expected

    def test_the_rows_carry_the_linear_and_quadratic_terms(self, family):
        draws = napp.reference_draws(20_000, 4, np.random.default_rng(1))
        exog, endog = napp.augment(family, CURVATURE, NOISE, draws)
        at_zero = family.derivatives(np.zeros(len(endog)), endog)
        np.testing.assert_allclose(at_zero.gradient @ exog, NOISE, atol=1e-9)
        gram = (exog * at_zero.curvature[:, None]).T @ exog
        np.testing.assert_allclose(gram, np.diag(CURVATURE), atol=0.2)

    def test_no_rows_of_data(self, family):
        fitted = napp.augmented_fit(
            family, [], CURVATURE, NOISE / 10, None, np.random.default_rng(0), noise_rows=20_000
        )
        np.testing.assert_allclose(fitted, -NOISE / 10 / CURVATURE, atol=0.02)


class TestWhatThePaperSays:
    @pytest.mark.parametrize(("family", "printed"), [(Gaussian(9.0), 0.0), (Poisson(9.0, 9.0), 1.0)])
    def test_equation_3_divides_by_zero_at_the_printed_responses(self, family, printed):
        slope = family.derivatives(np.zeros(1), np.array([printed])).gradient[0]
        assert slope == 0.0
        ours = napp.noise_row(family)[0]
        assert family.derivatives(np.zeros(1), np.array([ours])).gradient[0] != 0.0

    @pytest.mark.slow
    def test_logistic_responses_in_halves_leave_noise_that_no_number_of_rows_removes(self):
        # Table 1 gives the first half e_y = 0 and the second 1, eq. (5) makes the second half minus the first: the
        # linear terms +1/2 e and -1/2 (-e) add up instead of cancelling, to variance 2 w in every coordinate.
        leftovers = []
        for noise_rows in (1000, 16_000):
            endog = np.repeat([0.0, 1.0], noise_rows // 2)
            slope = Binomial().derivatives(np.zeros(noise_rows), endog).gradient
            draws = napp.reference_draws(noise_rows, 400, np.random.default_rng(2))
            scaled = draws * np.sqrt(CURVATURE[0] / (noise_rows * 0.25))
            leftovers.append(np.mean((slope @ scaled) ** 2))
        # Means of 400 squares: relative standard error 0.07, 4.3 of them allowed.
        np.testing.assert_allclose(leftovers, 2 * CURVATURE[0], rtol=0.3)

    def test_the_sampled_curvature_misses_its_modulus(self):
        # p = 16, n_e = 1e4, the paper's setting: the least eigenvalue is about 0.90 of the one privacy needs.
        least = []
        for seed in range(10):
            draws = napp.reference_draws(10_000, 16, np.random.default_rng(seed))
            exog, _ = napp.augment(Gaussian(9.0), np.full(16, 2.0), np.zeros(16), draws)
            least.append(np.linalg.eigvalsh(exog.T @ exog)[0] / 2.0)
        assert np.max(least) < 0.95
        assert np.mean(least) == pytest.approx(0.90, abs=0.02)

    def test_for_logistic_it_vanishes_far_out(self):
        draws = napp.reference_draws(10_000, 2, np.random.default_rng(0))
        exog, endog = napp.augment(Binomial(), np.full(2, 2.0), np.zeros(2), draws)
        ratios = []
        for radius in (0.0, 300.0, 3000.0):
            bend = Binomial().derivatives(exog @ np.array([radius, 0.0]), endog).curvature
            ratios.append(np.linalg.eigvalsh((exog * bend[:, None]).T @ exog)[0] / 2.0)
        assert ratios[0] > 0.9
        assert ratios[1] < 0.1
        assert ratios[2] < ratios[1] / 100


def test_a_ridge_by_rows_is_a_ridge():
    exog, endog = rows(Binomial())
    ridge = newton.minimize(PerturbedObjective(Binomial(), [(exog, endog)], CURVATURE, NOISE), 1e-10)
    by_rows = napp.augmented_fit(
        Binomial(), [(exog[:90], endog[:90]), (exog[90:], endog[90:])], CURVATURE, NOISE, None, np.random.default_rng(3)
    )
    np.testing.assert_allclose(by_rows, ridge.astype(float), atol=0.05)


def test_families_without_an_ordinary_fitter_are_refused():
    with pytest.raises(ArgumentError, match="augmented"):
        napp.augment(HuberSVM(), CURVATURE, NOISE, np.zeros((2, 4)))


@pytest.mark.parametrize("family", ["huber_svm", "smooth_svm", dp.families.NegativeBinomial(y_max=9.0)], ids=str)
def test_a_family_without_noise_rows_is_refused_by_the_plan(family):
    model = dp.GLM(np.ones(3), np.eye(3), family=family, row_norm=1.0)
    with pytest.raises(ArgumentError, match="needs a family statsmodels fits"):
        model.plan(1.0, realization="augmented", allow_uncertified=True)

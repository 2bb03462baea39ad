"""The paper's claims, each shown to fail by exact probabilities or densities in one dimension (docs/napp)."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from dpstats.errors import ArgumentError
from dpstats.families import Gaussian, HuberSVM
from dpstats.penalties import Bridge, ElasticNet, Lasso, Ridge
from dpstats.replication import napp
from dpstats.replication.napp import PaperConstants

SQUARED = Gaussian(1e6)
EMPTY = [(np.zeros((1, 1)), np.zeros(1))]  # one row with x = 0
NEIGHBOUR = [(np.array([[0.0], [1.0]]), np.array([0.0, 1.0]))]  # one more, x = 1, y = 1


class TestConstants:
    def test_equation_4_and_lambda0(self):
        c = PaperConstants(eps=0.8, lipschitz=2.0, curvature_bound=0.25)
        assert c.scale == pytest.approx(2 / 0.4)
        assert c.lambda0 == pytest.approx(0.25 / (2 * 0.5 * 0.8))
        gaussian = PaperConstants(eps=0.8, delta=1e-3)
        assert gaussian.scale == pytest.approx(math.sqrt(2 * (0.4 - math.log(1e-3))) / 0.4)

    def test_table_2(self):
        theta, one = np.array([0.5, -2.0]), np.ones(2)
        moor = napp.curvature(Lasso(3.0), theta, 2.0, moor=True, weights=one)
        np.testing.assert_allclose(moor, [12.0, 4.0])
        summed = napp.curvature(Lasso(3.0), theta, 2.0, moor=False, weights=one)
        np.testing.assert_allclose(summed, [16.0, 7.0])
        bridge = napp.curvature(Bridge(3.0, 0.5), theta, 0.1, moor=True, weights=one)
        np.testing.assert_allclose(bridge, 6 * np.abs(theta) ** -1.5)
        net = napp.curvature(ElasticNet(4.0, 0.75), theta, 0.1, moor=True, weights=one)
        np.testing.assert_allclose(net, 2 * (3 / np.abs(theta) + 1))
        ridge = napp.curvature(Ridge(3.0), theta, 5.0, moor=False, weights=one)
        np.testing.assert_allclose(ridge, 10.0)

    @pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
    def test_share(self, share):
        with pytest.raises(ArgumentError, match="share"):
            PaperConstants(eps=1.0, share=share)

    @pytest.mark.parametrize("delta", [0.0, 1e-3])
    def test_draws_follow_their_law(self, delta):
        # Kolmogorov-Smirnov at 1e-4, four tests.
        c = PaperConstants(eps=1.0, delta=delta)
        random = np.random.default_rng(0)
        for printed, shape, scale in ((True, 1, 2 * c.scale), (False, 3, c.scale)):
            norms = [np.linalg.norm(c.sample(3, random, printed_shape=printed)) for _ in range(2000)]
            law = stats.gamma(shape, scale=scale) if delta == 0 else stats.chi(3, scale=c.scale)
            assert stats.kstest(norms, law.cdf).pvalue > 1e-4
        assert np.all(c.sample(50, random, selection="vs+") > 0)


def moor_path(b, x, y, iterations, strength=2.0, lambda0=1.0):
    """Algorithm 1 for squared loss on one row (x, y), in one dimension and in closed form."""
    heavier, theta = 2 * lambda0, 0.0
    for _ in range(iterations):
        theta = (x * y - b) / (x * x + heavier)
        heavier = 2 * max(strength / max(abs(theta), 1e-300), lambda0)
    return theta


class TestMoor:
    """eps = 1, sup |l'| = 2, Lambda = 2: noise Laplace(4), Lambda_0 = 1."""

    noise = stats.laplace(scale=PaperConstants(eps=1.0, lipschitz=2.0).scale)

    def probability(self, x, y, low, high, iterations):
        """P(low < theta < high), from the decreasing map b -> theta."""

        def threshold(level):
            return optimize.brentq(lambda b: moor_path(b, x, y, iterations) - level, -60, -1e-3, xtol=1e-14)

        return self.noise.cdf(threshold(low)) - self.noise.cdf(threshold(high))

    def test_closed_form_is_the_algorithm(self):
        for b in (-5.3, -3.1, 0.7, 5.0):
            for blocks, x, y in ((EMPTY, 0.0, 0.0), (NEIGHBOUR, 1.0, 1.0)):
                found = napp.fit(SQUARED, blocks, np.array([b]), Lasso(2.0), 1.0, iterations=12)[0]
                expected = moor_path(b, x, y, 12)
                assert found == pytest.approx(expected if abs(expected) > 1e-6 else 0.0, rel=1e-6)

    def test_an_event_whose_log_ratio_exceeds_3_4_and_grows(self):
        ratios = []
        for iterations in (80, 800):
            with_row = self.probability(1.0, 1.0, 1.99, 2.0, iterations)
            without = self.probability(0.0, 0.0, 1.99, 2.0, iterations)
            ratios.append(math.log(with_row / without))
        assert ratios[0] > 3.4, "the paper claims at most eps = 1"
        assert ratios[1] > ratios[0] + 2

    @pytest.mark.slow
    def test_in_the_limit_an_event_is_impossible_without_the_row(self):
        # Huber loss, eps = Lambda = Lambda_0 = 1: noise Laplace(2). The limit solves 0 = l' + b + 2 max(1, |t|) sign t,
        # so without the row |b| < 2 goes to 0 and the rest to |t| > 1; with it, t in (1/2, 1) has b = -l'(t) - 2.
        constants = PaperConstants(eps=1.0, curvature_bound=HuberSVM(0.5).curvature_bound)
        assert (constants.lambda0, constants.scale) == (1.0, 2.0)
        noise = stats.laplace(scale=2.0)
        b = [-float(HuberSVM(0.5).derivatives(np.array([t]), np.ones(1)).gradient[0]) - 2 for t in (0.5, 1.0)]
        assert noise.cdf(b[0]) - noise.cdf(b[1]) == pytest.approx(0.0671, abs=1e-4)
        for draw in (-1.4, -1.2):
            with_row = napp.fit(HuberSVM(0.5), NEIGHBOUR, np.array([draw]), Lasso(1.0), 1.0, iterations=400)[0]
            assert 0.5 < with_row < 1.0
        for draw in (-2.1, -1.9, 1.9, 2.1):
            without = napp.fit(HuberSVM(0.5), EMPTY, np.array([draw]), Lasso(1.0), 1.0, iterations=400)[0]
            assert without == 0.0 or abs(without) > 1.0


class TestSelection:
    @pytest.mark.slow
    def test_vs_plus_has_neighbours_with_different_supports(self):
        # Without the row, theta = 0 whatever b > 0 is. With it, theta != 0 when 2 Lambda + b < 1.
        constants = PaperConstants(eps=1.0)
        probability = stats.expon(scale=constants.scale).cdf(1 - 2 * 0.2)
        assert probability > 0.2
        for draw in (0.01, 0.3, 0.58):
            noise = np.array([draw])
            arguments = (noise, Lasso(0.2), constants.lambda0)
            assert napp.fit(SQUARED, EMPTY, *arguments, moor=False, selection="vs+")[0] == 0.0
            assert napp.fit(SQUARED, NEIGHBOUR, *arguments, moor=False, selection="vs+", iterations=300)[0] > 0.0

    def test_vs_fits_the_random_lasso_of_equation_8(self):
        random = np.random.default_rng(3)
        exog = random.uniform(-1, 1, (100, 3))
        endog = exog @ np.array([1.0, -1.0, 0.0])
        noise = np.array([2.0, -1.0, 0.5])
        found = napp.fit(SQUARED, [(exog, endog)], noise, Lasso(1.5), 1.0, moor=False, selection="vs", iterations=500)

        def objective(t):
            return 0.5 * np.sum((exog @ t - endog) ** 2) + np.sum((2 * 1.5 + noise) * np.abs(t)) + np.sum(t**2)

        expected = optimize.minimize(
            objective, found + 0.05, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
        )
        np.testing.assert_allclose(found, expected.x, atol=1e-4)
        assert found[2] == 0.0


class TestGammaShape:
    def test_the_printed_radius_has_no_bounded_ratio(self):
        # Density of b under the printed law: exp(-|b|/(2 s)) |b|^(1 - p), unbounded at 0. A shift by the row's greatest
        # pull X L = 1 must cost r eps; near the origin it costs more than any eps.
        constants, size = PaperConstants(eps=1.0), 5

        def log_density(norm, shape, scale):
            return stats.gamma(shape, scale=scale).logpdf(norm) - (size - 1) * math.log(norm)

        near, far = 1e-3, 1.0
        printed = log_density(near, 1, 2 * constants.scale) - log_density(far, 1, 2 * constants.scale)
        right = log_density(near, size, constants.scale) - log_density(far, size, constants.scale)
        assert printed > 27
        assert right <= constants.share * constants.eps

    def test_its_noise_is_too_small(self):
        # Mean norm 2 s whatever p is; it should be p s.
        constants = PaperConstants(eps=1.0)
        random = np.random.default_rng(0)
        norms = [np.linalg.norm(constants.sample(16, random)) for _ in range(4000)]
        assert np.mean(norms) == pytest.approx(2 * constants.scale, rel=0.08)  # 5 standard errors


class TestRetrieval:
    constants = PaperConstants(eps=1.0)

    def test_as_printed_it_never_retrieves(self):
        for weight in (0.1, 1.0, 50.0):
            assert self.constants.retrieved(np.full(3, weight), corrected=False) <= 0

    def test_a_plain_ridge_gives_back_half_with_nothing_spare(self):
        weights = napp.curvature(Ridge(0.0), np.ones(1), self.constants.lambda0, moor=True, weights=np.ones(1))
        back = self.constants.retrieved(weights)
        assert back == pytest.approx(0.25)
        # Recycled, the noise's share is r eps + back; the Jacobian's factor 1 + l''/(2 Lambda_0) is what it was. For
        # squared loss |l'| = L and l'' = 1 meet at the cap, so the loss there is their sum: above the promised eps.
        loss = 0.5 + back + math.log(1 + 1 / (2 * self.constants.lambda0))
        assert loss > 1.15

    def test_the_eps_it_returns_is_exceeded_where_it_is_lowest(self):
        # Lasso, additive weights, one dimension: the released theta is the image of b under
        # b = -(l' + 2 Lambda sign t + 2 Lambda_0 t), with density f(b) |db/dt|. Just above t = 0 eq. (13) says that
        # all of (1 - r) eps is spare and returns it, yet the log-ratio there is r eps + log(1 + l''/(2 Lambda_0)).
        family, lambda0, strength, theta = Gaussian(1.0), self.constants.lambda0, 3.0, 1e-4
        noise = stats.laplace(scale=self.constants.scale)

        def log_density(t, endog):
            row = family.derivatives(np.array([t]), np.array([endog])) if endog is not None else None
            pull, bend = (float(row.gradient[0]), float(row.curvature[0])) if row else (0.0, 0.0)
            b = -(pull + 2 * strength + 2 * lambda0 * t)
            return noise.logpdf(b) + math.log(bend + 2 * lambda0)

        weights = napp.curvature(Lasso(strength), np.array([theta]), lambda0, moor=False, weights=np.ones(1))
        claimed = self.constants.eps - self.constants.retrieved(weights)
        assert claimed < 0.51
        # A row with the residual just inside the cap pulls with 1 and bends with 1.
        actual = log_density(theta, 1.0) - log_density(theta, None)
        assert actual == pytest.approx(0.5 + math.log(1.5), abs=1e-3)
        assert actual > claimed + 0.3

    def test_neighbours_are_charged_differently(self):
        # Same b: the eps reported depends on the row, which is a release of its own that no one has paid for.
        charged = []
        for blocks in (EMPTY, NEIGHBOUR):
            theta = napp.fit(SQUARED, blocks, np.array([-1.5]), Lasso(1.0), self.constants.lambda0)
            weights = napp.curvature(Lasso(1.0), theta, self.constants.lambda0, moor=True, weights=np.ones(1))
            charged.append(self.constants.eps - self.constants.retrieved(weights))
        assert charged == pytest.approx([0.5, 0.625], abs=1e-3)


@pytest.mark.slow
def test_bridge_below_one_leaves_gaps_that_depend_on_the_data():
    # The optimum jumps from 0 over a gap, whose end falls as curvature is added. Between the two ends lies an event of
    # probability 0 without the row and not with it, even with the additive Lambda_0.
    penalty, modulus = Bridge(1.0, 0.5), 2.0
    noise = stats.laplace(scale=2.0)

    def theta(b, x):
        return float(penalty.prox((x - b) / (modulus + x), modulus + x))

    ends = [(2 * 0.5 * 1.0 / metric) ** (1 / 1.5) for metric in (modulus, modulus + 1)]
    assert ends[1] < ends[0]
    without = np.array([theta(b, 0.0) for b in np.linspace(-30, 30, 4001)])
    assert not np.any((np.abs(without) > 1e-9) & (np.abs(without) < ends[0] - 1e-6))

    def draw(t):
        return 1 - (modulus + 1) * t - 0.5 * t**-0.5

    for t in np.linspace(ends[1], ends[0], 12)[1:-1]:
        assert theta(draw(t), 1.0) == pytest.approx(t, rel=1e-9)
    assert noise.cdf(draw(ends[1])) - noise.cdf(draw(ends[0])) > 0.01

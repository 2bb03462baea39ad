"""Matrix noise: exact log-ratios by quadrature, exact marginals of the sampler, and planted errors.

Seeds are fixed. Tests of fit have level 1e-4 and there are 18 of them: with fresh seeds a sound package fails one with
probability below 0.2 %.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats
from wishart_law import log_density, log_ratio

from dpstats.errors import ArgumentError
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.information import MatrixNoise, matrix_noise, matrix_scale, shaped_diagonal
from dpstats.privacy.randomness import SystemRandom

LEVEL = 1e-4


def unit_row(size: int, rng: np.random.Generator) -> np.ndarray:
    row = rng.normal(size=size)
    return row / np.linalg.norm(row)


class TestExactLaw:
    """The theorem: log f(E) - log f(E - A) within tr A / s for A >= 0."""

    def test_reference_values(self) -> None:
        noise, row = np.array([[1, 0.5], [0.5, -0.8]]), np.array([0.6, 0.8])
        assert log_ratio(noise, np.outer(row, row)) == pytest.approx(0.0573, abs=1e-4)
        assert log_density(np.diag([1.0, -1.0])) == pytest.approx(-1.5758, abs=1e-4)
        assert log_density(np.eye(2)) == pytest.approx(-2)

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_random_pairs_reach_and_keep_the_bound(self, size: int) -> None:
        rng = np.random.default_rng(3)
        worst, scale = 0.0, 0.7
        for draw in range(16 if size == 3 else 60):
            centre = rng.normal(size=(size, size)) * rng.choice([0.3, 1, 3])
            centre = (centre + centre.T) / 2
            if draw % 4 == 0:
                centre = centre @ centre.T
            row = unit_row(size, rng)
            added = rng.choice([0.1, 0.5, 2]) * np.outer(row, row)
            worst = max(worst, abs(log_ratio(centre, added, scale)) / (np.trace(added) / scale))
        assert 0.999 <= worst <= 1 + 1e-4

    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_tight_on_the_cone(self, size: int) -> None:
        assert log_ratio(np.eye(size), np.eye(size), 0.5) == pytest.approx(-size / 0.5, rel=1e-12)

    @pytest.mark.slow
    def test_frequencies_agree_with_the_density(self) -> None:
        """P(U >= 0) for p = 2 by draws and by integrating exp(-tr U / s) over the cone against f(0)."""
        random, noise = np.random.default_rng(5), MatrixNoise("wishart", 1.0, (1.0, 1.0))
        inside = sum(np.linalg.eigvalsh(noise.unit_sample(random))[0] >= 0 for _ in range(20000)) / 20000
        # W1 >= W2: the density of W1 - W2 at 0 is c^2 / (2^3 c), c = 1 / Gamma_2(3 / 2); the cone's integral is 1 / c.
        assert inside == pytest.approx(1 / 8, abs=4 * math.sqrt(0.11 / 20000))


class TestSampler:
    def draws(self, noise: MatrixNoise, count: int = 4000) -> np.ndarray:
        random = np.random.default_rng(8)
        return np.array([noise.sample(random) for _ in range(count)])

    def test_one_column_is_laplace(self) -> None:
        sample = self.draws(MatrixNoise("wishart", 2.0, (3.0,)))[:, 0, 0]
        assert stats.kstest(sample, stats.laplace(scale=6.0).cdf).pvalue > LEVEL

    @pytest.mark.parametrize("size", [2, 5])
    def test_marginals(self, size: int) -> None:
        """Entries x'Ux of unit x are differences of two Gamma((p + 1) / 2); the trace has p times that shape."""
        noise = MatrixNoise("wishart", 1.5, (1.0,) * size)
        sample, rng = self.draws(noise), np.random.default_rng(9)
        row = unit_row(size, rng)
        for values, shape in (
            (sample[:, 0, 0], (size + 1) / 2),
            (np.einsum("i,kij,j->k", row, sample, row), (size + 1) / 2),
            (np.trace(sample, axis1=1, axis2=2), size * (size + 1) / 2),
        ):
            other = 1.5 * (rng.gamma(shape, size=40000) - rng.gamma(shape, size=40000))
            assert stats.ks_2samp(values, other).pvalue > LEVEL
            assert stats.ks_2samp(1.1 * values, other).pvalue < 0.1

    @pytest.mark.slow
    @pytest.mark.parametrize("law", ["wishart", "normal"])
    def test_moments(self, law: str) -> None:
        noise = MatrixNoise(law, 0.8, (1.0, 4.0, 0.25))  # type: ignore[arg-type]
        sample = self.draws(noise, 20000)
        assert np.array_equal(sample, sample.transpose(0, 2, 1))
        upper = sample[:, *np.triu_indices(3)] / np.sqrt(noise.variances()[np.triu_indices(3)])
        covariance = upper.T @ upper / len(upper)
        assert np.abs(upper.mean(axis=0)).max() < 5 / math.sqrt(len(upper))
        assert np.abs(covariance - np.eye(6)).max() < 0.08
        assert (sample**2).sum(axis=(1, 2)).mean() == pytest.approx(noise.expected_square(), rel=0.05)

    def test_system_random(self) -> None:
        assert np.isfinite(MatrixNoise("wishart", 1.0, (1.0,) * 4).sample(SystemRandom())).all()

    def test_wrong_degrees_of_freedom_are_rejected(self) -> None:
        rng = np.random.default_rng(1)
        right = self.draws(MatrixNoise("wishart", 2.0, (1.0, 1.0)))[:, 0, 0]
        wrong = rng.chisquare(2, 4000) - rng.chisquare(2, 4000)
        assert stats.ks_2samp(right, wrong).pvalue < LEVEL


class TestScales:
    def test_reference_sizes(self) -> None:
        for size, root in ((3, 4.9), (10, 24.6), (30, 120)):
            noise = MatrixNoise("wishart", 1.0, (1.0,) * size)
            assert math.sqrt(noise.expected_square()) == pytest.approx(root, rel=3e-3)
        for size, root in ((3, 8.89), (10, 26.92), (30, 78.29)):
            scale = matrix_scale("normal", eps=0.1, delta=1e-6, weight_bound=0.1)
            noise = MatrixNoise("normal", scale, (1.0,) * size)
            assert math.sqrt(noise.expected_square()) == pytest.approx(root, rel=1e-3)

    def test_analytic_gaussian(self) -> None:
        assert 1 / analytic_mu(0.3, 1e-6) == pytest.approx(12.9924, abs=1e-4)
        assert 1 / analytic_mu(0.15, 3e-7) == pytest.approx(26.6123, abs=1e-4)

    def test_scales(self) -> None:
        assert matrix_scale("wishart", eps=0.5, weight_bound=0.25) == 0.5
        assert matrix_scale("wishart", eps=0.5, weight_bound=0.25, adjacency="replace_one") == 1.0
        once = matrix_scale("normal", eps=0.5, delta=1e-6, weight_bound=2)
        twice = matrix_scale("normal", eps=0.5, delta=1e-6, weight_bound=2, adjacency="replace_one")
        assert twice / once == pytest.approx(math.sqrt(2))

    def test_smaller_variance(self) -> None:
        few = matrix_noise([1.0] * 3, eps=0.5, delta=1e-6, weight_bound=1)
        many = matrix_noise([1.0] * 60, eps=0.5, delta=1e-6, weight_bound=1)
        assert (few.law, many.law) == ("wishart", "normal")
        assert matrix_noise([1.0] * 60, eps=0.5, weight_bound=1).law == "wishart"

    def test_shape(self) -> None:
        diagonal = np.array(shaped_diagonal([1.0, 2.0, 1.0], [1, 3, 9]))
        assert 1 / diagonal[0] + 4 / diagonal[1] + 1 / diagonal[-1] == pytest.approx(1)
        rng = np.random.default_rng(2)
        for _ in range(50):
            other = diagonal[[0, 1, 4]] * np.exp(rng.normal(0, 0.3, 3))
            other *= (np.array([1, 4, 1]) / other).sum()
            assert other @ np.array([1, 3, 9]) >= diagonal.sum() - 1e-9

    def test_round_trip_and_errors(self) -> None:
        noise = MatrixNoise("normal", 1.0, (1.0, 2.0))
        assert MatrixNoise.from_dict(noise.to_dict()) == noise
        assert noise.scaled(3.0).scale == 3.0
        for wrong in (("cauchy", 1.0, (1.0,)), ("normal", 0.0, (1.0,)), ("normal", 1.0, ()), ("normal", 1.0, (-1.0,))):
            with pytest.raises(ArgumentError):
                MatrixNoise(*wrong)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError):
            matrix_scale("normal", eps=1, weight_bound=1)


class TestPlanted:
    """Each breaks the bound tr A / s that the right law keeps."""

    def test_one_sided(self) -> None:
        """A Wishart alone: its support moves, a released matrix below a record's own is impossible with it."""
        random, added = np.random.default_rng(0), 0.5 * np.outer([1, 0], [1, 0])
        released = [np.cov(random.normal(size=(2, 4))) for _ in range(200)]
        assert any(np.linalg.eigvalsh(matrix - added)[0] < 0 < np.linalg.eigvalsh(matrix)[0] for matrix in released)

    def test_p_degrees_of_freedom(self) -> None:
        """p = 1, one degree of freedom: the difference has density K_0(|e| / s) / (pi s), unbounded at 0."""
        points = np.array([1e-6, 0.5])
        density = np.log(special.kv(0, points))
        assert density[0] - density[1] > 2 * 0.5

    def test_metric_not_scaled(self) -> None:
        """Rows of squared length 4 with D = I."""
        row = np.array([2.0, 0.0])
        assert abs(log_ratio(np.outer(row, row), np.outer(row, row))) == pytest.approx(4)
        root = 1 / np.sqrt(np.array(shaped_diagonal([2.0], [2])))
        scaled = np.outer(row * root, row * root)
        assert abs(log_ratio(scaled, scaled)) == pytest.approx(1)

"""Laws of the noise: draws against exact distribution functions, moments, densities and quantiles.

Seeds are fixed. Every test of fit has level 1e-4 and there are about 170 of them: with fresh seeds, a sound package
would fail one with probability below 2 %. Planted errors are rejected at the same level.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from dpstats.errors import ArgumentError
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import SystemRandom

LEVEL = 1e-4
LAWS = [Noise("gaussian", "l2", 2.0), *(Noise("laplace", norm, 2.0) for norm in ("l1", "l2", "linf"))]  # type: ignore[arg-type]
LAPLACE = LAWS[1:]
ORDER = {"l1": 1, "l2": 2, "linf": np.inf}
SIZES = [1, 2, 7, 300]


def name(noise: Noise) -> str:
    return f"{noise.kind}-{noise.norm}"


def draws(noise: Noise, size: int, count: int = 3000, seed: int = 11) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.array([noise.sample(size, random) for _ in range(count)])


def radius_fits(noise: Noise, sample: np.ndarray) -> float:
    """The p-value of the radius in the law's own norm."""
    size = sample.shape[1]
    if noise.kind == "gaussian":
        return stats.kstest((sample**2).sum(axis=1) / noise.scale**2, stats.chi2(size).cdf).pvalue
    radius = np.linalg.norm(sample, ord=ORDER[noise.norm], axis=1)
    return stats.kstest(radius, stats.gamma(size, scale=noise.scale).cdf).pvalue


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("noise", LAWS, ids=name)
def test_radius(noise: Noise, size: int) -> None:
    assert radius_fits(noise, draws(noise, size)) > LEVEL


@pytest.mark.parametrize("noise", LAPLACE, ids=name)
def test_radius_of_the_wrong_shape_is_rejected(noise: Noise) -> None:
    """Shape 1, shape p + 1 and a scale 10 % off, each planted."""
    size, random = 3, np.random.default_rng(5)
    unit = draws(noise, size)
    unit /= np.linalg.norm(unit, ord=ORDER[noise.norm], axis=1)[:, None]
    for shape, scale in ((1, 2.0), (size + 1, 2.0), (size, 2.2)):
        assert radius_fits(noise, unit * random.gamma(shape, scale, len(unit))[:, None]) < LEVEL


@pytest.mark.parametrize("noise", LAWS, ids=name)
def test_first_coordinate_given_the_radius(noise: Noise) -> None:
    """The cone measure's marginal, by its exact distribution function, and symmetry between coordinates and signs."""
    size = 4
    sample = draws(noise, size)
    unit = np.abs(sample / np.linalg.norm(sample, ord=ORDER[noise.norm], axis=1)[:, None])
    if noise.norm == "l1":
        marginal = stats.beta(1, size - 1).cdf  # uniform on the simplex
    elif noise.norm == "l2":
        marginal = lambda t: stats.beta(0.5, (size - 1) / 2).cdf(t**2)  # noqa: E731
    else:
        # On a face with probability 1/size, else uniform: jitter the faces so that the law is continuous.
        on_face = unit[:, 0] == 1
        assert stats.binomtest(int(on_face.sum()), len(unit), 1 / size).pvalue > LEVEL
        unit, marginal = unit[~on_face], stats.uniform().cdf
    assert stats.kstest(unit[:, 0], marginal).pvalue > LEVEL
    orthant = ((sample > 0) @ (2 ** np.arange(size))).astype(int)
    assert stats.chisquare(np.bincount(orthant, minlength=2**size)).pvalue > LEVEL
    assert stats.chisquare(np.bincount(np.abs(sample).argmax(axis=1), minlength=size)).pvalue > LEVEL


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("noise", LAWS, ids=name)
def test_expected_square(noise: Noise, size: int) -> None:
    squares = (draws(noise, size) ** 2).sum(axis=1)
    z = (squares.mean() - noise.expected_square(size)) / (squares.std() / math.sqrt(len(squares)))
    assert abs(z) < stats.norm.isf(LEVEL / 2)


@pytest.mark.parametrize("noise", LAWS, ids=name)
def test_density_integrates_to_one(noise: Noise) -> None:
    line = integrate.quad(lambda b: math.exp(noise.log_density(np.array([b]))), -80, 80, points=[0.0], limit=200)[0]
    assert line == pytest.approx(1, abs=1e-6)
    grid = np.linspace(-60, 60, 1201)
    plane = np.exp(noise.log_density(np.stack(np.meshgrid(grid, grid), axis=-1)))
    assert integrate.simpson(integrate.simpson(plane, x=grid), x=grid) == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("size", [1, 3, 40])
@pytest.mark.parametrize("noise", LAPLACE, ids=name)
def test_density_is_that_of_the_radius(noise: Noise, size: int) -> None:
    """Density times the sphere's surface growth equals the Gamma density: fixes the constant for any size."""
    b = np.full(size, 0.7)
    radius = np.linalg.norm(b, ord=ORDER[noise.norm])
    volume = {
        "l1": size * math.log(2) - math.lgamma(size + 1),
        "l2": size / 2 * math.log(math.pi) - math.lgamma(size / 2 + 1),
        "linf": size * math.log(2),
    }[noise.norm]
    surface = math.log(size) + volume + (size - 1) * math.log(radius)
    expected = stats.gamma(size, scale=noise.scale).logpdf(radius)
    assert noise.log_density(b) + surface == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("size", [1, 2, 30, 400])
@pytest.mark.parametrize("noise", LAWS, ids=name)
def test_norm_quantile(noise: Noise, size: int, probability: float) -> None:
    """The share of draws within the quantile; for l1 and linf it may exceed the probability, but by little."""
    lengths = np.linalg.norm(draws(noise, size, count=4000, seed=size), axis=1)
    quantile = noise.norm_quantile(size, probability)
    within = int((lengths <= quantile).sum())
    assert stats.binomtest(within, len(lengths), probability, alternative="less").pvalue > LEVEL
    shorter = int((lengths <= 0.98 * quantile).sum())
    assert stats.binomtest(shorter, len(lengths), probability, alternative="greater").pvalue > LEVEL


@pytest.mark.parametrize("noise", LAPLACE, ids=name)
def test_one_column_is_the_same_law_in_every_norm(noise: Noise) -> None:
    laplace = Noise("laplace", "l1", 2.0)
    assert noise.expected_square(1) == laplace.expected_square(1) == 8
    assert noise.norm_quantile(1, 0.9) == pytest.approx(2 * math.log(10), rel=1e-4)
    assert noise.log_density(np.array([3.0])) == pytest.approx(-1.5 - math.log(4))


def test_quantiles_of_very_wide_designs_stay_bounds() -> None:
    for norm in ("l1", "l2", "linf"):
        noise = Noise("laplace", norm, 1.0)  # type: ignore[arg-type]
        for size in (10_000, 200_000):
            root = math.sqrt(noise.expected_square(size))
            assert root * 0.99 < noise.norm_quantile(size, 0.9) < 2 * root
            assert noise.norm_quantile(size, 1 - 1e-9) > noise.norm_quantile(size, 0.9)


@pytest.mark.parametrize("noise", LAWS, ids=name)
def test_extreme_uniforms_give_finite_noise(noise: Noise) -> None:
    class Fixed:
        def __init__(self, value: float) -> None:
            self.value = value

        def random(self, size: int) -> np.ndarray:
            return np.full(size, self.value)

    for value in (0.0, 2.0**-53, 0.25, 1 - 2.0**-53):
        for size in (1, 5, 100_000):
            assert np.isfinite(noise.sample(size, Fixed(value))).all()


@pytest.mark.parametrize("noise", LAWS, ids=name)
@pytest.mark.parametrize("side", [0, 1])
def test_tails_have_no_steps(noise: Noise, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outermost 2**-53 of the uniforms, one point of 52 bits, holds values far apart, as a continuous law has."""
    drawn = []
    for exponent in (52, 40, 20, 0):

        def outermost(count: int, fine: int = (2**exponent - 1) << 12) -> bytes:
            return np.repeat(np.array([side, fine, 0], np.uint64), count // 24).tobytes()

        monkeypatch.setattr("dpstats.privacy.randomness.os.urandom", outermost)
        drawn.append(float(noise.sample(1, SystemRandom())[0]))
    assert np.all(np.isfinite(drawn))
    assert len({abs(value) for value in drawn}) == 4
    if side == 0:
        assert np.all(np.diff(np.abs(drawn)) > 0.5 * noise.scale)


def test_folded_uniforms_are_uniform() -> None:
    """Kolmogorov-Smirnov and binomial tests of 100,000 draws of the system's generator, false alarm 1e-6 each."""
    tail, upper = SystemRandom().folded(100_000)
    assert tail.min() > 0
    assert tail.max() <= 0.5
    assert stats.kstest(2 * tail, stats.uniform.cdf).pvalue > 1e-6
    assert stats.binomtest(int(upper.sum()), len(upper)).pvalue > 1e-6
    assert abs(stats.pearsonr(tail, upper).statistic) < 0.02


def test_system_randomness_and_seeds_take_the_same_path() -> None:
    for noise in LAWS:
        assert noise.sample(5, SystemRandom()).shape == (5,)
        one, two = (noise.sample(5, np.random.default_rng(1)) for _ in range(2))
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "fields",
    [("normal", "l2", 1.0), ("gaussian", "l1", 1.0), ("laplace", "l3", 1.0), ("laplace", "l2", 0.0)]
    + [("laplace", "l2", value) for value in (-1.0, math.inf, math.nan)],
)
def test_invalid_fields(fields: tuple[str, str, float]) -> None:
    with pytest.raises(ArgumentError):
        Noise(*fields)  # type: ignore[arg-type]


def test_invalid_calls() -> None:
    for size in (0, -1, 1.5, True):
        with pytest.raises(ArgumentError, match="size"):
            LAWS[0].sample(size, SystemRandom())  # type: ignore[arg-type]
    for probability in (0.0, 1.0, math.nan):
        with pytest.raises(ArgumentError, match="probability"):
            LAWS[0].norm_quantile(2, probability)

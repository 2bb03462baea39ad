"""What a forecast takes for identified is what a fit would: the same equation, solved in another way."""

from __future__ import annotations

import numpy as np
import pytest

import dpstats as dp
from dpstats.inference import Projection, SpanNoise
from dpstats.inference.forecast_identification import forecast_information
from dpstats.mechanisms.information import ReleasedSums, known_information
from dpstats.results.standard_errors import information_law, sums_inference

FACTORS = {"g": list("abcde"), "h": list("pqr"), "x": (0, 1), "b": ["no", "yes"]}
NUMBERS = {**{f"x{place}": (0, 1) for place in range(6)}, "b": ["no", "yes"]}


@pytest.mark.parametrize(("domain", "forms"), [(FACTORS, True), (NUMBERS, False)], ids=["factors", "numbers"])
@pytest.mark.parametrize("n", [300, 3_000, 30_000])
def test_it_is_what_a_fit_identifies(domain: dict[str, object], forms: bool, n: int) -> None:
    """Of some draws of the noise; ratios and the inverse to a percent, without forms to rounding."""
    plan = dp.plan("b ~ .", domain, 1.0, family="binomial", inference=True)
    information = plan.stages[-1].plan.information
    assert information is not None
    noise, random = information.noise, np.random.default_rng(n)
    projection = Projection.of(SpanNoise(noise.metric, noise.entry_variance), plan.design.forms())
    assert (len(projection.basis) > 0) == forms
    mean = n * plan.forecast().populations["usual"].information
    close = 3e-2 if forms else 1e-8
    for _ in range(5):
        matrix = mean + noise.sample(random)
        exact = known_information(matrix, noise, plan.design)
        quick = forecast_information(matrix, projection, plan.design.dummies, noisy=True)
        assert np.array_equal(exact.matrix, quick.matrix)
        assert np.array_equal(exact.identified.active, quick.identified.active)
        assert np.allclose(quick.identified.ratios, exact.identified.ratios, rtol=close, atol=close)
        assert np.allclose(quick.identified.inverse, exact.identified.inverse, rtol=close, atol=close * 1e-2)
        some, other = random.standard_normal((2, 4, len(mean)))
        for name in ("square", "bilinear"):
            arguments = (some.T @ other,) if name == "square" else (some, other)
            assert np.allclose(getattr(quick.law, name)(*arguments), getattr(exact.law, name)(*arguments))
        size = len(mean)
        pairs = np.repeat(np.eye(size), size, axis=0), np.tile(np.eye(size), (size, 1))
        assert np.allclose(quick.law.entry_variances.ravel(), exact.law.bilinear(*pairs))


@pytest.mark.parametrize("domain", [FACTORS, NUMBERS], ids=["factors", "numbers"])
@pytest.mark.parametrize("n", [300, 3_000, 30_000])
def test_released_sums_have_the_errors_of_a_fit(domain: dict[str, object], n: int) -> None:
    """Of some draws of the noise; errors to a tenth, which are steep where an interval is hardly bounded."""
    plan = dp.plan("y ~ .", {**domain, "y": (0, 10)}, 1.0, method="statistics")
    statistics, random = plan.objective.statistics, np.random.default_rng(n)
    assert statistics is not None
    law = information_law(plan)
    assert law is not None
    projection = Projection.of(law, plan.design.forms())
    for _ in range(5):
        sums = ReleasedSums(n * plan.forecast().populations["usual"].moments + statistics.sample(random))
        known = forecast_information(sums.matrix, projection, plan.design.dummies, noisy=True)
        exact, quick = (sums_inference(plan, sums, None, one).table.se for one in (None, known))
        assert np.array_equal(np.isfinite(exact), np.isfinite(quick))
        assert np.allclose(quick[np.isfinite(quick)], exact[np.isfinite(exact)], rtol=0.1)


def test_the_mean_has_no_noise_in_its_inverse() -> None:
    plan = dp.plan("b ~ .", FACTORS, 1.0, family="binomial", inference=True)
    information = plan.stages[-1].plan.information
    assert information is not None
    noise = information.noise
    projection = Projection.of(SpanNoise(noise.metric, noise.entry_variance), plan.design.forms())
    mean = 1e6 * plan.forecast().populations["usual"].information
    known = forecast_information(mean, projection, plan.design.dummies, noisy=False)
    assert known.identified.active.all()
    assert np.allclose(known.inverse @ mean, np.eye(len(mean)), atol=1e-4)
    # A column that is another one is never told apart from it.
    both = np.block([[mean, mean[:, :1]], [mean[:1], mean[:1, :1]]])
    law = Projection.of(SpanNoise(np.eye(len(both)), 1.0), np.zeros((0, *both.shape)))
    assert forecast_information(both, law, (), noisy=False).identified.active.sum() < len(both)

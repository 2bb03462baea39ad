"""What reports must be within: every honest one is, and what one report may move is bounded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import dpstats as dp
from dpstats.local.contributor import noisy_report, on_lattice, statistics
from dpstats.local.spec import BOUNDS, REFUSED_SHARE, SLACK
from dpstats.local.transport import report_bounds
from dpstats.privacy.gaussian import analytic_mu, gaussian_delta

DOMAIN = {"y": (0, 10), "x": (0, 1), "g": ["a", "b", "c"], "b": (0, 1)}
KINDS = [("gaussian", "statistics"), ("binomial", "statistics"), ("gaussian", "features"), ("binomial", "features")]


def make(family: str = "gaussian", scheme: str = "statistics", **changes: Any) -> dp.local.Spec:
    formula = "y ~ x + g" if family == "gaussian" else "b ~ x + g"
    given = {"eps": 2.0, "delta": 1e-6, "n": 500, "family": family, "scheme": scheme, **changes}
    return dp.local.Spec(DOMAIN, formula, **given)


def report(spec: dp.local.Spec, values: Any) -> dp.local.Report:
    return dp.local.Report(spec.hash, np.asarray(values, dtype=np.int64))


def accepted(spec: dp.local.Spec, values: Any) -> bool:
    refused = False
    try:
        dp.local.total([report(spec, values)], spec)
    except dp.errors.DataError as error:
        refused = "not made by" in str(error)
        if not refused:
            raise
    return not refused


@pytest.mark.parametrize(("family", "scheme"), KINDS)
def test_what_a_record_says_is_within_the_bounds_and_reaches_them(family: str, scheme: str) -> None:
    """Rows of norm 1 in every direction of the lemma's plane, and random ones, with extreme responses."""
    spec = make(family, scheme)
    random, p = np.random.default_rng(3), len(spec.names)
    angles = np.linspace(0, 2 * math.pi, 3601)
    plane = np.zeros((len(angles), p))
    plane[:, 0], plane[:, 1] = np.cos(angles), np.sin(angles)
    rows = np.vstack([plane, (drawn := random.normal(size=(4000, p))) / np.linalg.norm(drawn, axis=1)[:, None]])
    said = np.concatenate([on_lattice(statistics(rows, np.full(len(rows), y), spec), spec) for y in (-1.0, 0.0, 1.0)])
    bounds, noise = report_bounds(spec), spec.lattice.reach(spec.delta) * spec.lattice.scale
    assert (said - noise >= bounds.lower).all()
    assert (said + noise <= bounds.upper).all()
    assert np.linalg.norm(said, axis=1).max() + math.sqrt(spec.size) * spec.lattice.scale + noise <= bounds.norm
    # No wider than they need be: the first and second integer of each kind reach them, and the norm.
    rest = p
    first = [0, rest] if scheme == "features" else [0, rest, rest + 1]
    assert said.max(axis=0)[first] + noise == pytest.approx(bounds.upper[first], rel=1e-3)
    if scheme == "statistics":
        assert said.min(axis=0)[rest] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("family", "scheme"), KINDS)
def test_honest_reports_pass(family: str, scheme: str) -> None:
    """2,000 of them; one false alarm in 1e15 runs."""
    spec, random = make(family, scheme), np.random.default_rng(1)
    records = [
        {"y": random.uniform(-1, 11), "x": random.random(), "g": "a", "b": float(random.integers(2))}
        for _ in range(2000)
    ]
    reports = [noisy_report(record, spec, random) for record in records]
    assert report_bounds(spec).fits(np.array([one.values for one in reports])).all()


def test_every_integer_is_bounded_on_both_sides() -> None:
    """Planted once: 40 deviations of noise beside the sensitivity, in every integer."""
    spec = make()
    bounds = report_bounds(spec)
    for place in range(spec.size):
        for end, step in ((bounds.lower, -1), (bounds.upper, 1)):
            values = np.zeros(spec.size, dtype=np.int64)
            values[place] = end[place]
            assert accepted(spec, values)
            values[place] += step
            assert not accepted(spec, values)


def test_the_norm_is_bounded_too() -> None:
    spec = make()
    bounds, scale = report_bounds(spec), spec.lattice.scale
    even = np.full(spec.size, bounds.norm / math.sqrt(spec.size))
    assert accepted(spec, np.floor(even))
    assert not accepted(spec, np.ceil(even) + 1)
    # An attacker who goes to the end of every integer is far outside.
    assert np.linalg.norm(bounds.upper) > 1.5 * bounds.norm
    assert spec.lattice.reach(spec.delta) < 10.5
    assert bounds.norm < scale * (math.sqrt(spec.size) + 10.5) + spec.lattice.sensitivity


def test_a_refusal_says_which_report() -> None:
    spec = make()
    honest_ones = [dp.local.randomize(None, spec) for _ in range(7)]
    with pytest.raises(dp.errors.DataError, match="report 5, counted from 0"):
        dp.local.total([*honest_ones[:5], report(spec, np.full(spec.size, 2**40)), *honest_ones[5:]], spec)


@pytest.mark.parametrize("scale", [1.0, 8.0, 64.0])
def test_tails_of_discrete_noise_are_those_of_the_lemma(scale: float) -> None:
    """All integers out to 60 deviations; centers between integers as given a sum, too."""
    for center in (0.0,) if scale < 4 else (0.0, 0.3, 0.5):
        points = np.arange(-60 * int(scale), 60 * int(scale) + 1) - center
        mass = np.exp(-((points / scale) ** 2) / 2)
        mass /= mass.sum()
        for deviations in np.arange(0.5, 12.0, 0.5):
            assert mass[np.abs(points) > deviations * scale].sum() <= 2 * math.exp(-(deviations**2) / 2)


@pytest.mark.parametrize("size", [2, 5, 14, 135, 5000])
@pytest.mark.parametrize("away", [0.0, 0.5, 3.0, 40.0])
def test_tails_of_the_norm_are_those_of_the_lemma(size: int, away: float) -> None:
    """Of normal noise around a center, whose norm is known."""
    for deviations in np.arange(0.25, 8.0, 0.25):
        bound = (math.sqrt(size + away**2) + deviations) ** 2
        beyond = stats.chi2.sf(bound, size) if away == 0 else stats.ncx2.sf(bound, size, away**2)
        assert beyond <= math.exp(-(deviations**2) / 2)


BUDGETS = [(0.01, 1e-9), (0.1, 1e-6), (1.0, 1e-5), (2.0, 0.01), (8.0, 1e-6), (30.0, 1e-12), (400.0, 1e-6)]
BUDGETS += [(1e-4, 1e-3), (0.5, 0.4)]


@pytest.mark.parametrize("n", [2, 10, 500, 10**6])
@pytest.mark.parametrize(("eps", "delta"), BUDGETS)
def test_what_refusals_tell_is_paid_for(eps: float, delta: float, n: int) -> None:
    """The theorem's terms, with all reports honest and with half of them: what `SLACK` leaves of delta covers them."""
    lattice = make(eps=eps, delta=delta, n=n).lattice
    size, bound = lattice.size, lattice.reach(delta)
    for honest_ones in {n, (n + 1) // 2} - {1}:  # of one report everything is a function
        shift = math.sqrt(2 * math.log((2 * size + 1) * (n + 1) / (REFUSED_SHARE * delta)))
        given_sum = (shift + lattice.mu(honest_ones)) / math.sqrt(honest_ones) + shift * math.sqrt(1 - 1 / honest_ones)
        assert bound >= given_sum * (1 - 1e-12)
        assert bound >= shift * (1 - 1e-12)
        assert (n + 1) * (2 * size + 1) * math.exp(-(shift**2) / 2) <= REFUSED_SHARE * delta * (1 + 1e-9)
    # d delta / d mu is phi(eps / mu - mu / 2), and d delta / d eps is -e^eps Phi(-eps / mu - mu / 2).
    mu = analytic_mu(eps, delta)
    assert gaussian_delta(eps, mu) <= delta
    spared = mu * (SLACK - 1) * stats.norm.pdf(eps / mu - mu / 2)
    by_eps = math.exp(eps + special.log_ndtr(-eps / mu - mu / 2)) * 2 * REFUSED_SHARE * delta
    assert REFUSED_SHARE * delta + by_eps < spared


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_one_report_moves_a_sum_by_few_deviations_of_its_noise(share: float) -> None:
    """Along any direction: at most norm / scale of them over the root of n (40 in every integer were up to 6 here)."""
    spec, random = make(), np.random.default_rng(0)
    bounds, noise = report_bounds(spec), spec.lattice.scale * math.sqrt(spec.n)
    record = math.hypot(*(bound / unit for bound, unit in zip(BOUNDS["gaussian"], spec.units, strict=True)))
    for _ in range(200):
        along = random.normal(size=spec.size) ** (1 if share else 3)
        along /= np.linalg.norm(along)
        values = np.clip(along * bounds.norm * 0.999999, bounds.lower, bounds.upper)
        values = np.trunc(values * min(1.0, bounds.norm / np.linalg.norm(values)))
        assert accepted(spec, values)
        moved = float(values @ along) / noise
        assert moved <= (record / spec.lattice.scale + math.sqrt(spec.size) + 10.5) / math.sqrt(spec.n)
        assert moved < 1.1


OLD = (
    '{"delta": 1e-05, "domain": {"x": {"range": [0, 1]}, "y": {"range": [0, 1]}}, "eps": 1.0, "family": "gaussian", '
    '"format": 1, "formula": "y ~ x", "local_eps": null, "n": 2, "names": ["Intercept", "x"], "program": {"center": '
    '[0.0, 0.5], "endog_domain": {"y": {"range": [0, 1]}}, "exog_domain": {"x": {"range": [0, 1]}}, "factors": ["x"], '
    '"lower": [1.0, 0.0], "response": {"center": 0.5, "high": 1.0, "kind": "continuous", "levels": null, "low": 0.0, '
    '"name": "y", "scale": 0.5, "trials": null, "working": null}, "scale": [1.4142135623745096, 0.7071067811872548], '
    '"shrunk": [], "subterms": [[], [[0, null]]], "upper": [1.0, 1.0]}, "radius": 1.0606601717798214, "scheme": '
    '"statistics"}'
)
SENT = [[19670, -36914, -108068, -148073, 64260], [-1348, 108093, -63655, 106948, -32156]]


def test_specifications_and_reports_of_before_still_work() -> None:
    """Written by the version that had 40 deviations."""
    spec = dp.local.Spec.from_json(OLD)
    assert spec.hash == "b847702583aefd70ed4b7b4cac2c59ae1f9f86bd858eb7b5656a3696a2b8cda3"
    assert (spec.lattice.scale, spec.lattice.sensitivity) == (65536, pytest.approx(24843.48585844926, rel=1e-9))
    assert spec.units == pytest.approx((8.597799037851754e-05, 8.428529048848938e-05), rel=1e-6)
    summed = dp.local.total([report(spec, values) for values in SENT], spec)
    assert summed.values.tolist() == np.sum(SENT, axis=0).tolist()
    assert np.isfinite(dp.local.fit(summed, spec).scaled_params).all()


class TestLargeEps:
    """An eps of 1e50 gave reports at the end of the 64-bit integers, with a warning of numpy's."""

    @pytest.mark.parametrize("scheme", ["statistics", "features"])
    @pytest.mark.parametrize("budget", [{"eps": 1e50}, {"local_eps": 1e50}, {"local_eps": 1e34}])
    def test_records_that_would_leave_the_integers_are_refused(self, scheme: Any, budget: dict[str, float]) -> None:
        with pytest.raises(dp.errors.ArgumentError, match="eps is too large"):
            make(**{"eps": None, **budget}, scheme=scheme)

    @pytest.mark.parametrize("eps", [1e3, 1e10, 1e20, 1e30])
    def test_what_is_not_refused_stays_within(self, eps: float) -> None:
        spec = make(eps=None, local_eps=eps)
        one = dp.local.randomize({"y": 10, "x": 1, "g": "c"}, spec)
        assert np.abs(one.values).max() < 2**62
        assert report_bounds(spec).fits(one.values[None]).all()


class TestExposed:
    """Where error rates of the best test between two records add up to less than delta."""

    def test_it_is_said_to_who_writes_who_reports_and_who_reads(self, caplog: pytest.LogCaptureFixture) -> None:
        spec = make(n=5000)
        assert spec.exposed
        assert [record.getMessage()[:20] for record in caplog.records] == ["dpstats: a single re"]
        received = dp.local.Spec.from_json(spec.to_json())
        assert len(caplog.records) == 2
        text = str(dp.local.fit(dp.local.Total(received.hash, np.zeros(received.size, dtype=np.int64), 5000), received))
        assert "does not protect its record from those who see it" in " ".join(text.split())

    def test_a_local_guarantee_that_means_something_passes_in_silence(self, caplog: pytest.LogCaptureFixture) -> None:
        assert not make(eps=None, local_eps=8.0).exposed
        assert not make(eps=1.0, delta=1e-5, n=1000).exposed
        assert caplog.records == []

    def test_the_threshold(self) -> None:
        """2 Phi(-mu / 2) = delta."""
        for delta in (1e-3, 1e-6, 1e-12):
            mu = -2 * stats.norm.ppf(delta / 2)
            lattice = make(delta=delta).lattice
            for factor, exposed in ((0.999, False), (1.001, True)):
                at = type(lattice)(lattice.size, lattice.scale, 1, factor * mu * lattice.scale)
                assert at.exposed(delta) is exposed

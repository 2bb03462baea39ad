"""Specifications: calibration, what follows from what, sensitivity, JSON, errors."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError, DomainError
from dpstats.local.spec import best_ratio, features_sensitivity, joint_sensitivity, printed_noise
from dpstats.privacy.gaussian import analytic_mu, gaussian_delta, least_eps

DOMAIN = {"y": (0, 10), "x": (0, 1), "g": ["a", "b"]}


def make(**changes: Any) -> dp.local.Spec:
    given = {"eps": 1.0, "delta": 1e-5, "n": 1000, **changes}
    return dp.local.Spec(DOMAIN, "y ~ x + g", **given)


@pytest.mark.parametrize(
    ("eps", "delta", "mu"),
    [(0.1, 1e-5, 0.0325208), (1, 1e-5, 0.2680511), (4, 1e-6, 0.8378588), (1, 0.01, 0.5325166), (60, 1e-5, 7.557617)],
)
def test_mu_of_the_gaussian_mechanism(eps: float, delta: float, mu: float) -> None:
    """privacy.md's reference values."""
    assert analytic_mu(eps, delta) == pytest.approx(mu, rel=1e-5)
    assert least_eps(mu, delta) == pytest.approx(eps, rel=1e-5)
    assert gaussian_delta(eps, analytic_mu(eps, delta)) <= delta


def test_calibration_matches_the_reference() -> None:
    spec = make(radius=1.0)
    assert (spec.tau, spec.sigma_b) == pytest.approx((7.913865, 7.913865), rel=1e-3)
    assert spec.mu_local == pytest.approx(8.476521, rel=1e-3)
    assert spec.local_eps == pytest.approx(71.26863, rel=1e-3)
    assert spec.central_guarantee(500).eps == pytest.approx(1.46517, rel=1e-3)
    mu = analytic_mu(1.0, 1e-5)
    assert math.sqrt(2) / mu == pytest.approx(5.275910, rel=1e-3)


def test_the_best_ratios() -> None:
    assert best_ratio(1, 1, 1.0) == pytest.approx(1.0, abs=2e-3)
    assert best_ratio(1, 1, 4.0) == pytest.approx(1.757, abs=2e-3)


def test_the_printed_noise_matches_the_reference() -> None:
    sigma_u, sigma_b = printed_noise(1.0, 0.01, 1000, 5, 1.0, 1.0)
    assert (sigma_u, sigma_b) == pytest.approx((1.854921, 7.206366), rel=1e-6)
    mu = math.sqrt(1000) * features_sensitivity(1.0, 1.0, sigma_b, sigma_u)
    assert mu == pytest.approx(35.20749, rel=1e-6)
    assert least_eps(mu, 0.01) == pytest.approx(700.7205, rel=1e-3)
    # The paper claims (133, .02) for it, which fails altogether.
    assert gaussian_delta(133.2266, mu) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("sigma_b", "tau"), [(1.0, 1.0), (3.0, 1.0), (0.5, 1.0), (1.0, 1.7)])
def test_no_pair_of_records_moves_more_and_one_moves_as_much(sigma_b: float, tau: float) -> None:
    """Random pairs in four dimensions, norms at and below the bound; then the pair of the lemma."""
    random = np.random.default_rng(1)

    def statistics(q: Any, y: Any) -> Any:
        triangle = (q[:, :, None] * q[:, None, :]).reshape(len(q), -1)
        return np.hstack([y[:, None] * q / sigma_b, triangle / tau])

    def draw() -> Any:
        q = random.normal(size=(50_000, 2))
        q /= np.linalg.norm(q, axis=1)[:, None] / random.choice([1.0, 1.0, 0.7], 50_000)[:, None]
        return statistics(q, random.choice([-1.0, 1.0, 0.5], 50_000))

    bound = joint_sensitivity(1, 1, sigma_b, tau)
    found = np.linalg.norm(draw() - draw(), axis=1).max()
    assert 0.999 * bound < found <= bound * (1 + 1e-12)
    assert math.hypot(1 / sigma_b, 1 / tau) <= bound  # from the null report


def test_either_eps_implies_the_other() -> None:
    there = make(eps=0.5)
    back = make(eps=None, local_eps=there.local_eps)
    assert back.eps == pytest.approx(0.5, rel=1e-5)
    assert back.tau == pytest.approx(there.tau, rel=1e-3)


def test_features_have_the_local_guarantee_only() -> None:
    printed = make(scheme="features")
    assert not printed.central_guarantee().certified
    local = make(scheme="features", eps=None, local_eps=printed.local_eps)
    for guarantee in (printed.central_guarantee(7), local.central_guarantee(), local.central_guarantee(7)):
        assert guarantee.certified
        assert guarantee.eps == pytest.approx(printed.local_eps)
    # The same guarantee with less noise than a bad division of it has.
    assert local.mu_local == pytest.approx(printed.mu_local, rel=1e-3)
    assert min(local.sigma_u / printed.sigma_u, local.sigma_b / printed.sigma_b) < 1


def test_more_colluders_know_more() -> None:
    spec = make()
    assert spec.central_guarantee(0).eps == 1.0
    eps = [spec.central_guarantee(k).eps for k in (0, 1, 500, 999)]
    assert eps == sorted(eps)
    assert eps[-1] == pytest.approx(spec.local_eps, rel=1e-6)


def test_reports_are_fine_enough() -> None:
    for n in (10, 10**5, 10**9):
        assert make(n=n).lattice.scale >= 64
    spec = make()
    assert spec.lattice.unrounded > 0.9998 * spec.lattice.sensitivity


def test_json_round_trip(tmp_path: Path) -> None:
    spec = make(scheme="features")
    again = dp.local.Spec.from_json(spec.to_json())
    assert again == spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert again.units == spec.units
    assert spec.to_dict()["formula"] == "y ~ x + g"
    assert make(n=1001) != make()


def test_stored_noise_is_not_believed() -> None:
    """A collector cannot hand out less noise than the stated eps needs: the text holds no noise."""
    facts = json.loads(make().to_json())
    facts["tau"] = facts["scale"] = 1e-9
    with pytest.raises(DomainError, match="other fields"):
        dp.local.Spec.from_json(json.dumps(facts))


@pytest.mark.parametrize(
    ("name", "value"), [("radius", None), ("radius", float("nan")), ("n", 10**400), ("n", True), ("delta", [1])]
)
def test_numbers_of_a_stored_specification_are_checked(name: str, value: Any) -> None:
    facts = json.loads(make().to_json())
    facts[name] = value
    with pytest.raises((DomainError, ArgumentError)):
        dp.local.Spec.from_json(json.dumps(facts))


def test_a_manipulated_program_does_not_reach_beyond_the_bounds() -> None:
    """Planted: a program whose rows have norm 1000 and whose responses reach 10."""
    facts = json.loads(make().to_json())
    facts["program"]["scale"] = [1e-3] * 3
    facts["program"]["response"]["scale"] = 0.5
    spec = dp.local.Spec.from_json(json.dumps(facts))
    row, _ = spec.program.encode({"y": 10, "x": 1, "g": "b"})  # type: ignore[misc]
    assert np.linalg.norm(row) <= 1
    from dpstats.local.contributor import on_lattice, statistics

    value = on_lattice(statistics(row[None], np.array([20.0]), spec), spec)
    assert np.linalg.norm(value) <= spec.lattice.sensitivity


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"local_eps": 3.0}, "exactly one"),
        ({"eps": None}, "exactly one"),
        ({"eps": -1.0}, "eps"),
        ({"delta": 0.0}, "delta"),
        ({"n": 0}, "n must"),
        ({"n": 10.5}, "n must"),
        ({"radius": math.inf}, "radius"),
        ({"family": "poisson"}, "family"),
        ({"scheme": "shuffle"}, "scheme"),
        ({"scheme": "features", "n": 20}, "n must be at least"),
    ],
)
def test_bad_arguments(changes: Any, named: str) -> None:
    with pytest.raises(dp.errors.ArgumentError, match=named):
        make(**changes)


def test_facts_of_the_other_scheme() -> None:
    with pytest.raises(dp.errors.ArgumentError, match="sigma_u"):
        _ = make(scheme="features").tau
    with pytest.raises(dp.errors.ArgumentError, match="tau"):
        _ = make().sigma_u
    with pytest.raises(dp.errors.ArgumentError, match="statistics"):
        _ = make(scheme="features").mu_central
    with pytest.raises(dp.errors.ArgumentError, match="colluders"):
        make().central_guarantee(1000)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 2}', "3"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(dp.errors.DPStatsError):
        dp.local.Spec.from_json(text)


@pytest.mark.parametrize("budget", [{"eps": 1e-14}, {"local_eps": 1e-14}, {"local_eps": 1e-100}, {"eps": 1e-300}])
def test_noise_that_would_leave_the_integers_is_refused(budget: dict[str, float]) -> None:
    """Noise held at the end of 64 bits is the same in every report, and what it is added to is then in plain sight."""
    with pytest.raises(ArgumentError, match="eps is too small"):
        make(**{"eps": None, **budget}, delta=1e-100, n=1)


def test_a_stored_specification_of_too_much_noise_is_refused() -> None:
    facts = {**make(delta=1e-100, n=1).to_dict(), "eps": 1e-20}
    with pytest.raises(ArgumentError, match="eps is too small"):
        dp.local.Spec.from_json(json.dumps(facts))


@pytest.mark.parametrize("eps", [1e-3, 1e-7, 1e-10])
def test_no_draw_stands_at_the_end_of_the_integers(eps: float) -> None:
    """Of 400 integers, none within a factor of 2 of the end: their scale is 2**-7 of it at most."""
    spec = make(eps=eps, delta=1e-100, n=1)
    for _ in range(100):
        assert np.abs(dp.local.randomize({"y": 10.0, "x": 1.0, "g": "a"}, spec).values).max() < 2**62

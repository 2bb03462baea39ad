"""The exact privacy loss of reports and of their sums, on every pair of some records; planted faults are caught.

The loss of a product of discrete Gaussians under a shift d is a function of sum_j d_j k_j, whose law is found by
convolution: nothing is approximated but floating-point sums.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from dpstats.local import spec as lattice
from dpstats.local import spec as spec_module
from dpstats.local.contributor import on_lattice, statistics
from dpstats.local.spec import ReportLattice, Spec

DOMAIN = {"y": (-1, 1), "x": (-1, 1), "z": (-1, 1), "w": (-1, 1)}
FORMULA = "y ~ x + z + w"
N, EPS, DELTA = 4, 1.0, 0.01
# Rows of norm one at cosines 0, 1/2 and 1: at radius 1 the worst cosine is 1/2.
SIDES = itertools.product((-1.0, 0.3, 1.0), (-1.0, 1.0), (-1.0, 1.0), (-1.0, 0.0, 1.0))
RECORDS: list[dict[str, float] | None] = [None, *(dict(zip("xzwy", ends, strict=True)) for ends in SIDES)]


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coarsest lattice allowed, on which rounding costs most and laws have few points."""
    monkeypatch.setattr(lattice, "ROUNDING_SHARE", 1.0)


def make(**changes: Any) -> Spec:
    return Spec(DOMAIN, FORMULA, **{"eps": EPS, "delta": DELTA, "n": N, "radius": 1.0, **changes})


def integers(record: dict[str, float] | None, spec: Spec) -> Any:
    """A report without its noise."""
    encoded = None if record is None else spec.program.encode(record)
    if encoded is None:
        return np.zeros(spec.size, dtype=np.int64)
    row, outcome = encoded
    return on_lattice(statistics(row[None], np.array([outcome]), spec)[0], spec)


def exact_delta(eps: float, shift: Any, scale: float) -> float:
    """sum over k of (P(k) - exp(eps) P(k - shift))_+, P a product of discrete Gaussians of variance scale^2."""
    steps = np.arange(-math.ceil(10 * scale), math.ceil(10 * scale) + 1)
    law = np.exp(-(steps**2) / (2 * scale**2))
    law /= law.sum()
    shift = np.abs(shift[shift != 0])
    reach = int(steps[-1] * shift.sum())
    points = 2 ** math.ceil(math.log2(2 * reach + 1))
    spectrum = np.ones(points // 2 + 1, dtype=complex)
    for size in shift:
        part = np.zeros(points)
        part[(steps * size) % points] = law
        spectrum *= np.fft.rfft(part)
    chances = np.maximum(np.fft.irfft(spectrum, points), 0)
    sums = (np.arange(points) + points // 2) % points - points // 2
    loss = (float(shift @ shift) - 2 * sums) / (2 * scale**2)
    return float(chances @ np.maximum(-np.expm1(np.minimum(eps - loss, 0)), 0))


def worst_shift(spec: Spec) -> Any:
    """The greatest difference between the integers of two of the records."""
    values = [integers(record, spec) for record in RECORDS]
    return max((one - other for one, other in itertools.combinations(values, 2)), key=np.linalg.norm)


def central(spec: Spec, noisy: int | None = None) -> float:
    """delta at the spec's eps of a sum with the noise of so many reports."""
    return exact_delta(spec.eps, worst_shift(spec), spec.lattice.scale * math.sqrt(noisy or spec.n))


def test_the_law_agrees_with_a_sum_over_a_plane() -> None:
    """The convolution against the definition, in two dimensions."""
    scale, shift = 5.0, np.array([3, -4])
    k = np.arange(-60, 61)
    law = np.exp(-(k**2) / (2 * scale**2))
    law /= law.sum()
    moved = [np.interp(k - d, k, law, left=0, right=0) for d in shift]
    plane = np.multiply.outer(law, law) - math.e * np.multiply.outer(*moved)
    assert exact_delta(1.0, shift, scale) == pytest.approx(np.maximum(plane, 0).sum(), rel=1e-6)


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
@pytest.mark.parametrize("radius", [0.3, 1.0, 4.0])
def test_the_sum_keeps_its_delta(family: Any, radius: float) -> None:
    domain = DOMAIN if family == "gaussian" else {**DOMAIN, "y": (0, 1)}
    spec = Spec(domain, FORMULA, eps=EPS, delta=DELTA, n=N, radius=radius, family=family)
    assert 0.2 * DELTA < central(spec) <= DELTA


@pytest.mark.parametrize("scheme", ["statistics", "features"])
def test_one_report_keeps_its_delta(scheme: Any) -> None:
    spec = make(eps=None, local_eps=2.0, scheme=scheme, n=N if scheme == "statistics" else 60)
    assert spec.local_eps == 2.0
    # Features are bounded by separate maxima, which two orthogonal records do not reach.
    assert 0.05 * DELTA < exact_delta(2.0, worst_shift(spec), spec.lattice.scale) <= DELTA


@pytest.mark.parametrize("colluders", [1, 3])
def test_colluders_who_know_their_noise(colluders: int) -> None:
    spec = make()
    told = spec.central_guarantee(colluders).eps
    scale = spec.lattice.scale * math.sqrt(N - colluders)
    assert exact_delta(told, worst_shift(spec), scale) <= DELTA


def test_a_forgotten_colluder_is_caught() -> None:
    """Planted: the guarantee of the fit, though one of four knows a quarter of the noise."""
    assert central(make(), noisy=N - 1) > DELTA


def whole_budget_each(linear: float, square: float, sigma_b: float, tau: float) -> float:
    """Planted: X'y and X'X each calibrated as if it were alone."""
    return max(2 * linear / sigma_b, math.sqrt(2) * square / tau)


def test_the_whole_budget_for_each_statistic_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec_module, "best_ratio", lambda *_: math.sqrt(2))  # both shares are the whole at this ratio
    monkeypatch.setattr(spec_module, "joint_sensitivity", whole_budget_each)
    assert central(make(n=1)) > DELTA


def test_noise_for_the_null_report_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: right for a record that becomes the null report, wrong for one that becomes another."""

    def from_null(linear: float, square: float, sigma_b: float, tau: float) -> float:
        return math.hypot(linear / sigma_b, square / tau)

    monkeypatch.setattr(spec_module, "joint_sensitivity", from_null)
    assert central(make(n=1)) > DELTA


@pytest.mark.slow
def test_forgotten_rounding_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the whole sensitivity on the lattice for the statistics, none for their rounding."""
    monkeypatch.setattr(ReportLattice, "unrounded", property(lambda self: self.sensitivity))
    assert max(central(make(n=1, eps=eps)) for eps in np.linspace(1, 2, 9)) > DELTA


@pytest.mark.slow
def test_forgotten_square_root_of_two_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: entries off the diagonal as they stand and the Frobenius norm of half of the matrix, twice too small."""
    half = spec_module.joint_sensitivity
    monkeypatch.setattr(spec_module, "joint_sensitivity", lambda b, s, sb, tau: half(b, s / 2, sb, tau))
    assert central(make(radius=4.0)) > DELTA


def test_sums_of_reports_are_discrete_gaussian() -> None:
    """Four reports' exact law against one discrete Gaussian of twice the scale, at the least scale of the proof."""
    steps = np.arange(-80, 81)
    law = np.exp(-(steps**2) / 32)
    law /= law.sum()
    four = np.convolve(np.convolve(law, law), np.convolve(law, law))
    wide = np.arange(-320, 321)
    expected = np.exp(-(wide**2) / 128.0)
    assert np.abs(four - expected / expected.sum()).max() < 1e-16


def test_neighbours_of_one_record_keep_their_delta_on_the_default_lattice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not coarse: the worst pair reaches the declared mu to a thousandth, so that no noise is wasted."""
    monkeypatch.undo()
    spec = make()
    reached = np.linalg.norm(worst_shift(spec)) / (spec.lattice.scale * math.sqrt(N))
    assert reached == pytest.approx(spec.mu_central, rel=1e-3)

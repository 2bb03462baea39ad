"""Weights and offsets by exact densities: the guarantee of rows that count alike holds, and planted errors exceed it.

No runs are drawn: log-ratios and hockey-stick integrals are computed, so nothing here can fail by chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from covers import pairwise
from objective_density import ObjectiveDensity

from dpstats.audit.exact import audit_exact
from dpstats.families import (
    Binomial,
    BinomialCounts,
    Family,
    Gaussian,
    HuberSVM,
    NegativeBinomial,
    Poisson,
    SmoothSVM,
)
from dpstats.families.base import Derivatives
from dpstats.privacy.calibration import joint_scale
from dpstats.privacy.information import free_information, joint_scales, row_weights
from dpstats.privacy.noise import Noise

FAMILIES = [
    *(Binomial(), BinomialCounts(5.0), Gaussian(0.5), Poisson(3.0, 3.0), Poisson(1.0, 4.0)),
    NegativeBinomial(0.5, 4.0),
    *(HuberSVM(0.5), SmoothSVM(0.2)),
]
EPS = 1.0
SHARES = [0.1, 0.5, 0.95]
DELTA = {"laplace": 0.0, "gaussian": 1e-3}
LAWS = list(product(DELTA, ["add_remove", "replace_one"]))
"""Each has its calibration, so that each meets every family."""

RADIUS = {"laplace": 25.0, "gaussian": 6.0}
OFFSETS = [-6.0, 0.0, 2.5]
KINKS = [0, 0.5, -0.5, 1.5, -1.5, math.log(3), 0.2, -0.2, 0.8, -0.8, 1.2, -1.2, 0.3, 1.3, -1e-9]
ETA = np.concatenate((np.linspace(-40, 40, 40001), *((kink - 1e-9, kink + 1e-9) for kink in KINKS)))
"""Linear predictors far out and on both sides of every kink."""


@dataclass(frozen=True)
class WeighedDensity(ObjectiveDensity):
    """The law of the minimiser where each row has a weight and an offset."""

    weight: np.ndarray | None = None
    offset: np.ndarray | None = None

    def _derivatives(self, params: np.ndarray) -> Derivatives:
        assert self.weight is not None
        eta = params @ self.exog.T + self.offset
        endog = np.broadcast_to(self.endog, eta.shape).ravel()
        return Derivatives(
            *(part.reshape(eta.shape) * self.weight for part in self.family.derivatives(eta.ravel(), endog))
        )


@dataclass(frozen=True)
class Record:
    """One record of one column."""

    x: float
    y: float
    weight: float = 1.0
    offset: float = 0.0


def label(value: object) -> str:
    return type(value).__name__ + str(value.curvature_bound) if isinstance(value, Family) else str(value)


def density(family: Family, records: list[Record], curvature: float, noise: Noise, pull: float) -> WeighedDensity:
    columns = np.array([[r.x, r.y, r.weight, r.offset] for r in records]).reshape(-1, 4)
    endog = family.clip_response(columns[:, 1])
    return WeighedDensity(
        family,
        columns[:, :1],
        endog,
        np.array([curvature]),
        noise,
        np.array([pull]),
        columns[:, 2],
        columns[:, 3],
    )


def excess(first: WeighedDensity, second: WeighedDensity, kind: str, scale: float) -> float:
    """By how much the pair exceeds the guarantee: the log-ratio over eps, or the hockey-stick integral over delta."""
    boxes = [one.box(RADIUS[kind] * scale)[0] for one in (first, second)]
    # What weights above 1 pull is not in the box of a row.
    room = 40 * first.family.lipschitz / float(first.curvature[0])
    box = [(min(b[0] for b in boxes) - room, max(b[1] for b in boxes) + room)]
    found = audit_exact(
        first.log_density, second.log_density, box, eps=EPS, delta=DELTA[kind], tolerance=1e-6, max_cells=1500
    )
    if kind == "laplace":
        return found.max_log_ratio / EPS - 1
    return (found.hockey_stick - found.error) / DELTA[kind] - 1


def planned(family: Family, kind: str, adjacency: str, share: float) -> tuple[float, Noise]:
    """The curvature at which the greatest l'' takes a share of eps, and the noise for rows of norm 1."""
    kappa = math.expm1(share * EPS) / family.curvature_bound
    scale = joint_scale(
        family,
        eps=EPS,
        delta=DELTA[kind],
        curvature_ratio=kappa,
        row_norm=1.0,
        adjacency=adjacency,  # type: ignore[arg-type]
    )
    return 1 / kappa, Noise(kind, "l2", scale)  # type: ignore[arg-type]


def random_records(rng: np.random.Generator, count: int) -> list[Record]:
    """Rows within the unit interval, weights within [0, 1], any offset."""
    choices = ([-1.0, 1.0, 0.3], [0.0, 1.0, 0.4, 3.0], [1.0, 0.3, 0.02], OFFSETS)
    return [Record(*(float(rng.choice(choice)) for choice in choices)) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "law", "share"), pairwise(FAMILIES, LAWS, SHARES), ids=label)
def test_guarantee_holds_with_weights_and_offsets(family: Family, law: tuple[str, str], share: float) -> None:
    kind, adjacency = law
    curvature, noise = planned(family, kind, adjacency, share)
    rng = np.random.default_rng(11)
    for _ in range(3):
        kept = random_records(rng, int(rng.integers(0, 3)))
        one, other = random_records(rng, 2)
        pull = float(rng.normal(0, 2 * noise.scale))
        second = kept if adjacency == "add_remove" else [*kept, other]
        pair = (density(family, rows, curvature, noise, pull) for rows in ([*kept, one], second))
        assert excess(*pair, kind, noise.scale) <= 1e-9


@pytest.mark.parametrize(("family", "share", "offset"), pairwise(FAMILIES, SHARES, [-30.0, 0.0, 7.0]), ids=label)
def test_bound_is_reached_whatever_the_offset_is(family: Family, share: float, offset: float) -> None:
    """An offset costs nothing and saves nothing: the worst theta is another one."""
    curvature, noise = planned(family, "laplace", "add_remove", share)
    pull = 1e4 * noise.scale
    pairs = (
        tuple(density(family, rows, curvature, noise, sign * pull) for rows in ([Record(1.0, y, 1.0, offset)], []))
        for y in (0.0, 1.0, 4.0)
        for sign in (-1, 1)
    )
    assert max(ratio_on_a_line(*pair, offset) for pair in pairs) == pytest.approx(EPS, rel=3e-4)


def ratio_on_a_line(first: WeighedDensity, second: WeighedDensity, offset: float) -> float:
    """The greatest log-ratio at the linear predictors `ETA`."""
    params = (ETA - offset)[:, None]
    return float(np.abs(first.log_density(params) - second.log_density(params)).max())


@pytest.mark.parametrize("weight", [0.9, 0.5, 0.01])
@pytest.mark.parametrize("family", FAMILIES, ids=label)
def test_less_weight_costs_less(family: Family, weight: float) -> None:
    curvature, noise = planned(family, "laplace", "add_remove", 0.5)
    for y in (0.0, 1.0, 4.0):
        pair = [density(family, rows, curvature, noise, 1.0) for rows in ([Record(1.0, y, weight, 1.0)], [])]
        assert ratio_on_a_line(*pair, 1.0) <= math.sqrt(weight) * EPS


class TestPlantedErrorsAreCaught:
    """Each wrong weight or offset exceeds the guarantee by the check that the right one passes."""

    @pytest.mark.slow
    @pytest.mark.parametrize("family", FAMILIES, ids=label)
    @pytest.mark.parametrize("kind", ["laplace", "gaussian"])
    def test_weights_normalised_by_the_data(self, family: Family, kind: str) -> None:
        """Weights over their own mean: a newcomer of great weight takes weight from all others."""
        curvature, noise = planned(family, kind, "add_remove", 0.1)
        others = [Record(1.0, 4.0, 0.05)] * 40
        found = []
        for y in (0.0, 1.0, 4.0):
            pair = []
            for rows in ([*others, Record(1.0, y, 1.0)], others):
                total = sum(row.weight for row in rows)
                normalised = [replace(row, weight=row.weight * len(rows) / total) for row in rows]
                pair.append(density(family, normalised, curvature, noise, 0.0))
            found.append(excess(*pair, kind, noise.scale))
        assert max(found) > 0.5

    @pytest.mark.slow
    @pytest.mark.parametrize("family", FAMILIES, ids=label)
    @pytest.mark.parametrize("kind", ["laplace", "gaussian"])
    def test_weights_not_divided_by_their_upper_end(self, family: Family, kind: str) -> None:
        curvature, noise = planned(family, kind, "add_remove", 0.5)
        found = [
            excess(
                *(density(family, rows, curvature, noise, sign * noise.scale) for rows in ([Record(1.0, y, 4.0)], [])),
                kind,
                noise.scale,
            )
            for y in (0.0, 1.0, 4.0)
            for sign in (-1, 1)
        ]
        assert max(found) > 0.5

    def test_counts_taken_for_a_signed_loss(self) -> None:
        """The share of successes of several trials lies between 0 and 1: l' changes its sign with theta."""
        assert Binomial().signed
        assert not BinomialCounts(5.0).signed
        slopes = BinomialCounts(5.0).slope(np.array([-3.0, 3.0]), np.array([0.5, 0.5]))
        assert slopes[0] < 0 < slopes[1]

    @pytest.mark.parametrize(
        "family", [Binomial(), BinomialCounts(5.0), Poisson(1.0, 4.0), NegativeBinomial(0.5, 4.0)], ids=label
    )
    def test_trials_not_divided_by_the_greatest_number(self, family: Family) -> None:
        """Ten trials as ten rows' worth of loss."""
        curvature, noise = planned(family, "laplace", "add_remove", 0.5)
        pair = [density(family, rows, curvature, noise, 1.0) for rows in ([Record(1.0, 0.0, 10.0)], [])]
        assert excess(*pair, "laplace", noise.scale) > 3


class TestInformation:
    """Coefficients and information together, in one dimension: the supremum over matrices is |H - H'| / s2."""

    def paid(self, family: Family, adjacency: str) -> tuple[float, float, float]:
        """Curvature ratio and both scales where the matrix is paid for."""
        kappa, ratio = 0.4 / family.curvature_bound, 2.0 * family.lipschitz / family.curvature_bound
        common = {"eps": EPS, "curvature_ratio": kappa, "row_norm": 1.0, "adjacency": adjacency}
        return kappa, *joint_scales(family, ratio=ratio, **common)  # type: ignore[arg-type]

    def worst(
        self, family: Family, adjacency: str, row: Record, scales: tuple[float, float, float], forgotten: float = 0.0
    ) -> float:
        """The greatest log-ratio; `forgotten` is what the information leaves out of the linear predictor."""
        kappa, fit, matrix = scales
        noise, params, found = Noise("laplace", "l2", fit), (ETA - row.offset)[:, None], 0.0
        for y in (0.0, 1.0, 4.0):
            for sign in (-1, 1):
                one = [replace(row, y=y)]
                other = [] if adjacency == "add_remove" else [replace(row, y=4.0 if y == 0 else 0.0)]
                fits = [density(family, rows, 1 / kappa, noise, sign * 1e6) for rows in (one, other)]
                sums = [self.information(family, rows, params[:, 0], forgotten) for rows in (one, other)]
                ratio_of_fits = np.abs(fits[0].log_density(params) - fits[1].log_density(params))
                found = max(found, float((ratio_of_fits + np.abs(sums[0] - sums[1]) / matrix).max()))
        return found

    def information(self, family: Family, rows: list[Record], params: np.ndarray, forgotten: float) -> np.ndarray:
        total = np.zeros(len(params))
        for row in rows:
            endog = family.clip_response(np.full(len(params), row.y))
            total += row.weight * row_weights(family, params * row.x + row.offset - forgotten, endog)
        return total

    @pytest.mark.parametrize(
        ("family", "row", "offset"),
        pairwise(FAMILIES, list(product([1.0, 0.4], ["add_remove", "replace_one"])), [-4.0, 3.0]),
        ids=label,
    )
    def test_guarantee(self, family: Family, row: tuple[float, str], offset: float) -> None:
        weight, adjacency = row
        loss = self.worst(family, adjacency, Record(1.0, 0.0, weight, offset), self.paid(family, adjacency))
        assert loss <= EPS * (1 + 1e-6)
        assert weight < 1 or adjacency == "replace_one" or loss >= EPS * (1 - 3e-4)

    @pytest.mark.parametrize("offset", [-12.0, 12.0])
    @pytest.mark.parametrize(
        "family", [Binomial(), BinomialCounts(5.0), Poisson(1.0, 4.0), NegativeBinomial(0.25, 4.0)], ids=label
    )
    def test_offset_left_out_of_the_information(self, family: Family, offset: float) -> None:
        """Free information: where the gradient is extreme there must be no curvature; without the offset there is."""
        kappa = 0.05 / family.curvature_bound
        common = {"eps": EPS, "curvature_ratio": kappa, "row_norm": 1.0}
        scales = kappa, joint_scale(family, **common), 1 / free_information(family, **common)
        row = Record(1.0, 0.0, 1.0, offset)
        assert self.worst(family, "add_remove", row, scales) <= EPS * (1 + 1e-3)
        assert self.worst(family, "add_remove", row, scales, offset) > 1.19 * EPS

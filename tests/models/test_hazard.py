"""Hazards: the bound of a person, exact densities, planted bugs, agreement with a Poisson fit, errors, bad input."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from mpmath import mp

import dpstats as dp
from dpstats.data import Block, as_table
from dpstats.families.hazard import PiecewiseExponential
from dpstats.models.hazard import Pieces, split_time
from dpstats.privacy.calibration import joint_loss, joint_scale
from dpstats.privacy.information import joint_scales, row_weights, weight_bound
from dpstats.privacy.information.joint import majorant_lipschitz
from dpstats.results.hazard import AT_RISK, EVENT, INTERVAL, WEIGHT
from dpstats.solvers.pairs import single
from dpstats.solvers.rounding import pair_slope

DOMAIN = {"start": (0, 9), "time": (0, 10), "event": (0, 1), "arm": ["old", "new"], "age": (20, 90)}
FORMULA, ENTERED = "Surv(time, event) ~ arm + age", "Surv(start, time, event) ~ arm + age"
BREAKS = [2, 5, 10]


def pieces_of(formula: str = FORMULA, **options: Any) -> tuple[dp.Plan, Pieces]:
    plan = dp.plan_hazard(formula, DOMAIN, 1.0, **{"breaks": BREAKS, **options})
    return plan, plan.call.source.pieces  # type: ignore[union-attr]


def people(rows: int, seed: int) -> dict[str, Any]:
    """Persons all over the ranges and beyond them."""
    rng = np.random.default_rng(seed)
    return {
        "start": rng.choice([0.0, 0.5, 2.0, 4.0], rows),
        "time": rng.choice([0.0, 1e-9, 0.7, 2.0, 2.0001, 4.9, 5.0, 9.999, 10.0, 70.0, np.nan], rows),
        "event": rng.choice([0.0, 1.0], rows),
        "arm": rng.choice(["old", "new"], rows),
        "age": rng.uniform(0, 120, rows),
    }


def figures(family: PiecewiseExponential, blocks: Any, eta_of: Any) -> tuple[float, float]:
    """The sum of |w l'|, an event taken from its own interval's piece, and of w l'', over one person's pieces."""
    slopes: dict[float, float] = {}
    bend = 0.0
    for block in blocks:
        weights = np.ones(len(block.endog)) if block.weights is None else block.weights
        rows = zip(np.asarray(block.exog), block.endog, weights, block.offset, strict=True)
        for row, endog, weight, offset in rows:
            eta = np.array([eta_of(row) + offset])
            key = hash(row.tobytes())
            slopes[key] = slopes.get(key, 0.0) + float(weight * family.slope(eta, np.array([endog]))[0])
            bend += float(weight * family.weight(eta, np.array([endog]))[0])
    return sum(map(abs, slopes.values())), bend


@pytest.mark.parametrize("formula", [FORMULA, ENTERED])
@pytest.mark.parametrize("rate_cap", [0.02, 0.1, 0.4])
def test_a_person_lies_on_the_curve(formula: str, rate_cap: float) -> None:
    plan, pieces = pieces_of(formula, rate_cap=rate_cap)
    family, curve = plan.family, plan.family.curve(4000)
    rng, reached = np.random.default_rng(2), 0.0
    for seed in range(40):
        blocks = pieces.rows(as_table(people(1, seed))).collect()
        theta = rng.normal(0, 9, len(plan.names))
        slope, bend = figures(family, blocks, lambda row, theta=theta: float(row @ theta))
        assert np.any((slope <= curve.gradient * (1 + 1e-12)) & (bend <= curve.curvature * (1 + 1e-9)))
        reached = max(reached, slope / family.lipschitz)
    assert reached > 0.6


def test_pieces_are_the_time_at_risk() -> None:
    _, pieces = pieces_of(ENTERED)
    rows = {"start": [1.0], "time": [4.0], "event": [1], "arm": ["new"], "age": [30.0]}
    parts = [part for part in split_time(pieces, as_table(rows), slice(0, 1)) if part.rows]
    found = [[part.column(name).numbers()[0] for name in (EVENT, WEIGHT, AT_RISK)] for part in parts]
    halved, two_thirds = pytest.approx(np.log(1 / 2)), pytest.approx(np.log(2 / 3))
    assert found == [[0, pytest.approx(0.2), halved], [0, pytest.approx(0.3), two_thirds], [1, 1, two_thirds]]
    interval = pieces.design.domain[INTERVAL]
    assert interval.values == ("0 to 2", "2 to 5", "5 to 10")  # type: ignore[union-attr]


def test_a_cut_time_has_no_event_and_an_entry_after_the_end_no_row() -> None:
    _, pieces = pieces_of(ENTERED)
    rows = {"start": [0, 5.0], "time": [70.0, 4.0], "event": [1, 1], "arm": ["new", "new"], "age": [30.0, 30.0]}
    blocks = pieces.rows(as_table(rows)).collect()
    assert sum(float(block.endog.sum()) for block in blocks) == 0
    at_risk = [(block.weights * np.exp(block.offset)).sum() for block in blocks]
    assert sum(map(float, at_risk)) == pytest.approx(1)


def time_at_risk(share: Any, most: float) -> tuple[Any, Any, Any]:
    """l' and l'' of a piece of the whole time, and what an event counts, at multiples of the ramp's start."""
    start, past = most / (np.e - 1), np.clip(np.log(np.maximum(share, 1e-300)), 0, 1)
    slope = np.where(share <= 1, start * share, start * ((2 - past) * np.exp(past) - 1))
    return slope, (1 - past) * start * share, 1 - past


def persons(ends: tuple[float, ...], most: float, steps: int = 401) -> Any:
    """|l'|, l'' and what the event counts of persons all over the bounds, by enumeration of section 3, shape (., 3)."""
    first, own = np.concatenate([[0.0], np.exp(np.linspace(-3, 1, 61))]), np.exp(np.linspace(-6, 1.1, steps))
    (x, x_bend, _), (y, y_bend, counts) = time_at_risk(first, most), time_at_risk(own, most)
    found = [np.stack([y, y_bend, np.zeros(steps)], 1)]
    for start, end in pairwise((0.0, *ends)):
        slope = np.add.outer(start * x, np.abs((end - start) * y - counts))
        bend = np.add.outer(start * x_bend, (end - start) * y_bend + ((counts > 0) & (counts < 1)))
        found.append(np.stack([slope, bend, np.broadcast_to(counts, slope.shape)], -1).reshape(-1, 3))
    return np.concatenate(found)


@pytest.mark.parametrize("ends", [(1.0,), (0.5, 1.0), (0.1, 0.3, 1.0), (0.2, 0.4, 0.6, 0.8, 1.0)])
@pytest.mark.parametrize("most", [0.3, 1.0, 4.0])
def test_the_scale_is_that_of_all_persons(ends: tuple[float, ...], most: float) -> None:
    """Section 3's supremum over interval, hazards and event by enumeration: the loss at the scale is eps, no less."""
    family, kappa = PiecewiseExponential(ends, most), 0.15
    scale = joint_scale(family, eps=1.0, curvature_ratio=kappa, row_norm=1.0, shared=True)
    slope, bend, _ = persons(ends, most).T
    assert 0.97 < np.max(kappa * bend + slope / scale) <= 1 + 1e-9


def test_sums_of_pieces_are_on_the_curve_of_one() -> None:
    """Persons whose intervals are at different places of the ramp; planted: the curve of an event's interval alone."""
    ends, most, rng = (0.1, 0.3, 1.0), 2.0, np.random.default_rng(3)
    gradient, curvature, _ = PiecewiseExponential(ends, most).corners()
    slopes, bends, _ = time_at_risk(np.exp(rng.uniform(-1, 1.2, (2000, 3))), most)
    lengths = np.diff((0.0, *ends))
    found = slopes @ lengths, bends @ lengths
    held = (found[0][:, None] <= gradient) & (found[1][:, None] <= curvature)
    assert held.any(axis=1).all()
    assert not np.all(found[1] <= most * lengths[-1] / (np.e - 1))


def test_a_forgotten_ramp_is_caught() -> None:
    """Planted: l'' of time at risk alone, as if an event ceased to count at once and at no price."""
    kappa, (slope, bend, count) = 1 / 3, persons((0.5, 1.0), 1.0).T
    scale = np.max(slope / (1 - kappa * (bend - ((count > 0) & (count < 1)))))
    assert np.max(kappa * bend + slope / scale) > 1.1


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("ends", [(1.0,), (0.4, 1.0), (0.2, 0.4, 0.6, 0.8, 1.0)])
def test_coefficients_and_matrix_together_cost_eps(ends: tuple[float, ...], adjacency: Any) -> None:
    """By enumeration of persons; planted: that only time at risk costs, as if events were not released."""
    family, kappa = PiecewiseExponential(ends, 1.5), 0.15
    given = {"curvature_ratio": kappa, "row_norm": 1.0, "adjacency": adjacency, "shared": True}
    scales = joint_scales(family, eps=1.0, ratio=1.5, **given)
    slope, bend, count = persons(ends, 1.5).T
    gradients = slope / scales.fit + count / scales.matrix
    second = np.max(gradients) if adjacency == "replace_one" else 0.0
    assert 0.97 < np.max(gradients + kappa * bend) + second <= 1 + 1e-9
    # The same noise with a matrix scale as if no event were in it is too little.
    spare = 1 - np.max(slope / scales.fit + kappa * bend) - (second and np.max(gradients))
    assert spare > 0.05


@pytest.mark.parametrize("most", [0.5, 2.0])
@pytest.mark.parametrize("hazard", [0.4, 1.2, 2.0, 9.0])
def test_the_score_has_mean_zero_whatever_the_hazard(most: float, hazard: float) -> None:
    """Of an exponential time in one interval, at the true hazard; so is the information what the matrix expects.

    Planted and caught: a cap under which events go on to count, and time at risk up to a cap beside events on a ramp.
    """
    family, middle = PiecewiseExponential((1.0,), most), (np.arange(200_000) + 0.5) / 200_000
    density, eta = hazard * np.exp(-hazard * middle), np.log(hazard * middle)
    end, stays = np.array([np.log(hazard)]), np.exp(-hazard)

    def expected(of: Any) -> float:
        """Of a function of eta and the response: of time at risk, and of the event."""
        at_events = of(eta, np.zeros(len(eta))) + of(eta, np.ones(len(eta)))
        return float(np.mean(density * at_events) + stays * of(end, np.zeros(1))[0])

    assert abs(expected(family.slope)) < 1e-5
    assert expected(family.weight) == pytest.approx(expected(family.event_counts), abs=1e-4)
    capped = float(np.mean(density * (np.minimum(hazard, most) * middle - 1)) + stays * min(hazard, most))
    assert hazard <= most or capped < -0.2

    def other(eta: Any, endog: Any) -> Any:
        return np.where(endog == 1, -np.clip(0.5 + np.log(most) - eta, 0, 1), np.minimum(np.exp(eta), most))

    assert hazard != most or abs(expected(other)) > 0.01


def test_the_matrix_is_of_events_alone() -> None:
    family = PiecewiseExponential((0.5, 1.0), 2.0)
    eta = np.array([-30.0, 0.0, 30.0, 0.0, np.log(2.0), 30.0])
    counts = row_weights(family, eta, np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]))
    assert counts.tolist() == [0, 0, 0, 1, pytest.approx(1 - np.log(np.e - 1)), 0]
    # No more than the majorant's slope says beside the optimum at which the noise was calibrated.
    near = np.linspace(-3, 3, 1001)
    moved = row_weights(family, near + 0.01, np.ones(1001)) - row_weights(family, near, np.ones(1001))
    assert np.abs(moved).max() <= 0.01 * majorant_lipschitz(family) + 1e-12
    assert weight_bound(family, None) == 1
    plan, pieces = pieces_of()
    for seed in range(30):
        blocks = pieces.rows(as_table(people(1, seed))).collect()
        events = [row_weights(plan.family, np.zeros(len(block.endog)), block.endog) for block in blocks]
        assert sum(float(part.sum()) for part in events) <= 1


def density_loss(scale: float, theta: float = -1e-9) -> float:
    """The log ratio of exact densities, two dummies and l1 noise, at a point where b has any sign: see the comments."""
    family, curvature = PiecewiseExponential((0.5, 1.0), 1.0), 10.0
    at = np.array([theta, -12.0])
    # Others: many events at time 0, of no curvature, and so many pieces of the second interval that b is negative.
    others, many = 50.0, 1e9
    hazard = family.mean(at)
    slope = np.array([-others, many * hazard[1]]) + curvature * at
    bends = np.array([curvature, curvature + many * hazard[1]])
    # The person: under observation for all of the first interval, then an event.
    own = np.array([0.5 * family.slope(at[:1], np.zeros(1))[0], family.slope(at[1:], np.ones(1))[0]])
    more = np.array([0.5 * family.weight(at[:1], np.zeros(1))[0], 0.0])
    noise = np.abs(-slope).sum() - np.abs(-(slope + own)).sum()
    return float(np.log1p(more / bends).sum() + noise / scale)


def test_exact_densities_keep_eps_and_the_bound_of_a_piece_is_caught() -> None:
    scale = joint_scale(PiecewiseExponential((0.5, 1.0), 1.0), eps=1.0, curvature_ratio=0.1, row_norm=1.0, shared=True)
    places = np.linspace(-2, 1, 61)
    assert 0.97 < max(density_loss(scale, theta) for theta in places) <= 1.0
    # Planted: the noise of one piece alone, or of an event alone, as if they were rows of different persons.
    piece = joint_scale(PiecewiseExponential((1.0,), 0.5), eps=1.0, curvature_ratio=0.1, row_norm=1.0)
    assert max(density_loss(piece, theta) for theta in places) > 1.2


def test_exact_densities_on_the_ramp_and_events_that_cease_at_once_are_caught() -> None:
    """One column of ones, one interval, others of no curvature, a person throughout at risk and an event at the end."""
    family, kappa = PiecewiseExponential((1.0,), 1.0), 0.7
    ramp = family.ramp_start + np.linspace(1e-9, 1 - 1e-9, 2001)
    slope = abs(sum(family.slope(ramp, np.full(2001, endog)) for endog in (0.0, 1.0)))
    time, event = (family.weight(ramp, np.full(2001, endog)) for endog in (0.0, 1.0))
    scale = joint_scale(family, eps=1.0, curvature_ratio=kappa, row_norm=1.0)
    assert 0.9 < np.max(np.log1p(kappa * (time + event)) + slope / scale) <= 1.0
    # Planted: the scale that time at risk asks for, without the ramp.
    without = np.max(slope / (1 - np.log1p(kappa * time)))
    assert np.max(np.log1p(kappa * (time + event)) + slope / without) > 1.05


def joined(blocks: list[Block]) -> Block:
    """All rows of some blocks."""
    return Block(*(None if of[0] is None else np.concatenate(of) for of in zip(*blocks, strict=True)))


def exact_losses(plan: dp.Plan, block: Any, factors: Any) -> Any:
    """Log ratios of the densities of coefficients and matrix, one person against none, at multiples of its last row.

    By the plan's own noise: that of a matrix falls by its trace over the scale.
    """
    family, stage = plan.family, plan.stages[-1].plan
    weights = np.ones(len(block.endog)) if block.weights is None else block.weights
    offset = np.zeros(len(block.endog)) if block.offset is None else block.offset
    exog, quadratic = np.asarray(block.exog, dtype=float), np.broadcast_to(stage.curvature, len(plan.names))
    events, found = [], []
    for factor in factors:
        theta = factor * exog[-1]
        eta = exog @ theta + offset
        slope = weights * family.slope(eta, block.endog)
        bends = np.diag(quadratic) + (exog.T * (weights * family.weight(eta, block.endog))) @ exog
        counts = weights * family.event_counts(eta, block.endog)
        # Where the noise has its mode, and far out on the side on which it falls by the whole gradient.
        for others in (0.0, 1e4):
            pull = others * (exog.T @ slope)
            with_person = stage.noise.log_density(-(exog.T @ slope + quadratic * theta + pull)[None])[0]
            without = stage.noise.log_density(-(quadratic * theta + pull)[None])[0]
            found.append(with_person - without + np.linalg.slogdet(bends)[1] - np.log(quadratic).sum())
            events.append(counts)
    if stage.information is not None:
        noise = stage.information.noise
        traces = np.einsum("ij,jk,ik->i", exog, np.linalg.inv(noise.metric), exog)
        found = [loss + counts @ traces / noise.scale for loss, counts in zip(found, events, strict=True)]
    return np.abs(found)


SHORT: dict[str, dict[str, Any]] = {
    "one interval": {"breaks": 1, "eps": 3.0, "rate_cap": 0.1},
    "small cap": {"breaks": 1, "eps": 8.0, "rate_cap": 0.06, "inference": False},
    "small eps": {"breaks": 1, "eps": 1.0, "rate_cap": 0.05},
    "short first interval": {"breaks": [1, 10], "eps": 3.0, "rate_cap": 0.0182, "curvature": 6.0},
}


@pytest.mark.parametrize("case", SHORT)
@pytest.mark.parametrize("start", [None, 0.0, 4.0])
def test_exact_densities_of_events_after_no_time_keep_eps(case: str, start: float | None) -> None:
    """An event at time 0, or right after entry, has a piece in its interval; planted and caught: an event alone."""
    given = {"breaks": 1, **SHORT[case]}
    surv = "Surv(time, event)" if start is None else "Surv(start, time, event)"
    plan = dp.plan_hazard(f"{surv} ~ 1", DOMAIN, check_share=0, **given)
    pieces = plan.call.source.pieces  # type: ignore[union-attr]
    stage = plan.stages[-1].plan
    charged = stage.eps + (0.0 if stage.information is None else stage.information.eps)
    time = 0.0 if start is None else np.nextafter(start, 10)
    rows = {"start": [start or 0.0], "time": [time], "event": [1], "arm": ["new"], "age": [30.0]}
    block = joined(pieces.rows(as_table(rows)).collect())
    assert block.endog.tolist() == [0, 1]
    np.testing.assert_array_equal(block.exog[0], block.exog[1])
    assert block.offset[0] == block.offset[1]
    length = float(block.exog[-1] @ block.exog[-1])
    factors = (plan.family.ramp_start + np.linspace(-6, 1.2, 400) - block.offset[-1]) / length
    assert exact_losses(plan, block, factors).max() <= charged
    alone = Block(*(None if of is None else of[1:] for of in block))
    if case != "short first interval":
        assert exact_losses(plan, alone, factors).max() > 1.05 * charged


def test_whole_weights_of_pieces_are_caught() -> None:
    """Planted: a piece that weighs 1 whatever its length, as rows without weights would."""
    plan, pieces = pieces_of(rate_cap=0.1)
    rows = {"start": [0.0], "time": [9.0], "event": [0], "arm": ["new"], "age": [30.0]}
    blocks = pieces.rows(as_table(rows)).collect()
    assert figures(plan.family, blocks, lambda row: 0.0)[0] <= plan.family.lipschitz
    whole = [block._replace(weights=np.ones(len(block.endog))) for block in blocks]
    assert figures(plan.family, whole, lambda row: 0.0)[0] > 1.4 * plan.family.lipschitz


def test_slopes_have_twice_the_digits() -> None:
    """Beside the definition in section 3, integrated to 40 digits."""
    family = PiecewiseExponential((0.5, 1.0), 2.0)
    eta = np.array([-3.0, 0.1, family.ramp_start, 0.3, 0.9, 9.0] * 2)
    endog = np.repeat([0.0, 1.0], 6)

    def counts(hazard: Any) -> Any:
        return max(mp.mpf(0), 1 - max(mp.mpf(0), mp.log(hazard) - mp.mpf(family.ramp_start)))

    with mp.workdps(40):
        bends = [mp.e ** (mp.mpf(family.ramp_start) + step) for step in (0, 1)]
        exact = []
        for one, event in zip(eta.tolist(), endog, strict=True):
            hazard = mp.e ** mp.mpf(one)
            parts = [mp.mpf(0), *(bend for bend in bends if bend < hazard), hazard]
            exact.append(-counts(hazard) if event else mp.quad(counts, parts))
        fine = pair_slope(family, single(eta, np.float64), endog)
        apart = [
            mp.mpf(high) + mp.mpf(low) - one
            for high, low, one in zip(*map(np.ndarray.tolist, fine), exact, strict=True)
        ]
        assert max(map(abs, apart)) < 1e-26
    rounded = [float(one) for one in exact]
    np.testing.assert_allclose(family.slope(eta, endog), rounded, rtol=2e-15)
    shrunk = np.exp(eta[:6]) * [float(counts(mp.e**one)) for one in eta[:6]]
    np.testing.assert_allclose(family.weight(eta, endog), [*shrunk, 0, 0, 0, 1, 1, 0], rtol=1e-14)
    steps = 1e-6
    ends = family.derivatives(eta + steps, endog).value, family.derivatives(eta - steps, endog).value
    np.testing.assert_allclose(family.slope(eta, endog), (ends[0] - ends[1]) / (2 * steps), rtol=2e-6)


def test_a_curve_stays_beside_its_family() -> None:
    family = PiecewiseExponential((0.25, 1.0), 1.2)
    assert dp.families.from_dict(family.to_dict()) == family
    assert np.all(np.diff(family.curve().curvature) <= 0)
    assert family.curve().gradient[-1] == family.lipschitz == pytest.approx(1.3)
    loss = joint_loss(family, scale=2.0, curvature_ratio=0.1, row_norm=1.0, adjacency="replace_one", shared=True)
    alone = joint_loss(family, scale=2.0, curvature_ratio=0.1, row_norm=1.0, shared=True)
    assert loss == pytest.approx(alone + 1.3 / 2)


def survival_rows(size: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    arm, age = rng.integers(0, 2, size), rng.uniform(20, 90, size)
    time, lost = rng.exponential(1 / (0.1 * np.exp(-0.7 * arm + 0.02 * (age - 55)))), rng.uniform(0, 14, size)
    event = (time <= lost) & (time < 10)
    found = np.minimum(np.minimum(time, lost), 10)
    return {"time": found, "event": event, "arm": np.where(arm, "new", "old"), "age": age}


def plain_fit(rows: dict[str, Any]) -> Any:
    """statsmodels' Poisson fit of pieces with the logarithm of their lengths as offset: the same likelihood."""
    time, event = rows["time"], rows["event"]
    parts = []
    for at, (start, end) in enumerate(pairwise([0.0, *BREAKS])):
        inside = time > start
        length = np.minimum(time[inside], end) - start
        died = event[inside] & (time[inside] <= end)
        exog = {
            "const": 1.0,
            "i1": at == 1,
            "i2": at == 2,
            "arm": rows["arm"][inside] == "new",
            "age": rows["age"][inside],
        }
        parts.append(pd.DataFrame({**exog, "y": died, "length": length / 10}).astype(float))
    pieces = pd.concat(parts)
    exog = pieces[["const", "i1", "i2", "arm", "age"]]
    return sm.GLM(pieces["y"], exog, family=sm.families.Poisson(), offset=np.log(pieces["length"])).fit()


def test_without_noise_it_is_the_likelihood_of_the_pieces() -> None:
    rows = survival_rows(2000, 1)
    fit = dp.hazard(FORMULA, rows, 1e5, domain=DOMAIN, breaks=BREAKS, rate_cap=1.0, seed=1)
    exact = plain_fit(rows)
    found = fit.uncertainty()
    np.testing.assert_allclose(found["coef"], exact.params, atol=5e-3)
    np.testing.assert_allclose(found["std_error"], exact.bse, rtol=0.02)
    survival = fit.survival({"arm": ["old", "new"], "age": [55.0, 55.0]}, [0.0, 5.0, 10.0, 11.0])
    np.testing.assert_allclose(survival.iloc[0, :3], np.exp(-0.1 * np.array([0, 5, 10])), atol=0.06)
    assert survival.iloc[:, 3].isna().all()


@pytest.mark.slow
def test_intervals_cover_and_are_little_wider() -> None:
    """Over 50 fits: 250 intervals that cover independently fall below .91 by chance once in 200."""
    truth, held, width = np.array([-0.7, 0.02]), [], []
    for seed in range(50):
        rows = survival_rows(3000, seed)
        fit = dp.hazard(FORMULA, rows, 3.0, domain=DOMAIN, breaks=BREAKS, seed=seed)
        table = fit.conf_int().to_numpy()[3:]
        held += ((table[:, 0] <= truth) & (truth <= table[:, 1])).tolist()
        if seed < 3:
            width.append(fit.bse.to_numpy()[3:] / plain_fit(rows).bse.to_numpy()[3:])
    assert 0.89 <= np.mean(held) <= 1
    assert np.mean(width) < 1.3


@pytest.mark.slow
def test_a_plan_tells_all_and_a_fit_is_stored(tmp_path: Any) -> None:
    plan = dp.plan_hazard(FORMULA, DOMAIN, 1.0, breaks=BREAKS)
    assert plan.names == ("Intercept", "interval[T.2 to 5]", "interval[T.5 to 10]", "arm[T.new]", "age")
    assert "hazard ratios" in " ".join(plan.summary().as_text().split())
    assert max(map(len, plan.summary().as_text().splitlines())) <= 80
    ledger = dp.Ledger(tmp_path / "books.db", dataset="rows", eps=5.0)
    rows = survival_rows(1000, 2)
    fit = dp.hazard(FORMULA, rows, 1.0, domain=DOMAIN, breaks=BREAKS, ledger=ledger, label="table 2", analyst="Ada")
    assert fit.guarantee == dp.Guarantee(1.0, basis="docs/proofs/survival")
    assert fit.plan.guarantee == plan.guarantee
    assert ledger.entries().iloc[-1]["method"] == "hazard"
    fit.save(tmp_path / "fit.json")
    again = dp.HazardResults.load(tmp_path / "fit.json")
    assert again.params.equals(fit.params)
    assert again.summary().as_text() == fit.summary().as_text()
    assert max(map(len, fit.summary(full=True).as_text().splitlines())) <= 80
    with pytest.raises(dp.errors.ArgumentError, match="survival"):
        fit.predict(rows)
    with pytest.raises(dp.errors.ArgumentError, match="survival"):
        fit.get_prediction(rows)
    with pytest.raises(dp.errors.ArgumentError, match="hazard ratios"):
        fit.get_margeff()
    with pytest.raises(dp.errors.ArgumentError, match="not evaluated"):
        dp.evaluate(fit, rows, 1.0)


def test_curves_end_where_observation_ends() -> None:
    end = 1_234_561.0
    domain = {"time": (0, end), "event": (0, 1)}
    rows = {"time": np.linspace(0, end, 500), "event": np.ones(500)}
    fit = dp.hazard("Surv(time, event) ~ 1", rows, 3.0, domain=domain, breaks=2, seed=1)
    assert np.isfinite(fit.survival({"x": [0.0]}, [end]).to_numpy()).all()


def test_more_options() -> None:
    rows = survival_rows(500, 2)
    fit = dp.hazard(FORMULA, rows, 1.0, domain=DOMAIN, inference=None, adjacency="replace_one", curvature=20.0)
    assert (fit.nobs, fit.has_errors) == (500, False)
    assert fit.guarantee.adjacency == "replace_one"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no Surv": ({"formula": "time ~ arm"}, "not Surv"),
    "dot": ({"formula": "Surv(time, event) ~ ."}, "write the columns out"),
    "place": ({"formula": "Surv(time, event) ~ arm + median(age)"}, "character 27"),
    "cap": ({"rate_cap": 0}, "rate_cap"),
    "text cap": ({"rate_cap": "high"}, "rate_cap"),
    "tiny cap": ({"rate_cap": 1e-60}, "rate_cap"),
    "inference": ({"inference": "robust"}, "True or None"),
    "undeclared": ({"formula": "Surv(time, event) ~ ward"}, "'ward' is not declared"),
    "undeclared entry": ({"formula": "Surv(since, time, event) ~ arm"}, "'since' is not declared"),
    "reserved": ({"formula": "Surv(time, event) ~ interval", "domain": {**DOMAIN, "interval": (0, 1)}}, "rename it"),
    "unit": ({"unit": "arm"}, "unit is not offered by dp.hazard"),
    "split": ({"split": "rows"}, "split is not offered by dp.hazard"),
    "delta": ({"delta": 1e-6}, "delta is not offered by dp.hazard"),
    "count": ({"check_share": 1.1}, "check_share must be 0"),
    "breaks": ({"breaks": [5, 2]}, "increasing"),
    "eps": ({"eps": 0}, "eps"),
    "curvature": ({"curvature": 1e-9}, "curvature"),
    "columns": ({"data": {"time": [1.0], "event": [1]}}, "arm"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_before_any_charge(case: str, tmp_path: Any) -> None:
    ledger = dp.Ledger(tmp_path / "books.db", dataset="rows", eps=10.0)
    call: dict[str, Any] = {"formula": FORMULA, "data": survival_rows(20, 1), "eps": 1.0, "domain": DOMAIN}
    given, message = BAD[case]
    with pytest.raises(dp.errors.DPStatsError, match=message):
        dp.hazard(**{**call, "ledger": ledger, **given})
    assert ledger.remaining[0] == 10.0

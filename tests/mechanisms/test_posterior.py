"""Posterior samples: exact probabilities and densities on neighbouring data, planted errors, the law of the draws.

Probabilities are computed, not sampled, wherever that is possible. Statements on draws have fixed seeds and a
false-alarm rate of 1e-6 each.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

import dpstats as dp
from dpstats.data import block_rows
from dpstats.errors import ArgumentError, BudgetExceeded, DPStatsError, NotReleasedError, UncertifiedError
from dpstats.families import Binomial, Gaussian, HuberSVM, SmoothSVM
from dpstats.mechanisms.posterior import (
    PosteriorPlan,
    acceptance_error,
    gaussian_temperature,
)
from dpstats.mechanisms.posterior_sampler import (
    UNIT,
    LossTable,
    by_rejection,
    lattice_points,
    lattice_scores,
    loss_sums,
)
from dpstats.penalties import Bridge, Lasso, Ridge
from dpstats.privacy.gaussian import gaussian_delta
from dpstats.privacy.randomness import SystemRandom
from dpstats.privacy.selection import exponential_index
from dpstats.risk.proved import gamma_excess

FAMILIES = [Binomial(), HuberSVM(0.5), SmoothSVM(0.3), Gaussian(0.5)]
ADJACENCIES = ["add_remove", "replace_one"]
FALSE_ALARM = 1e-6


def planned(family, size=1, eps=1.0, **arguments) -> PosteriorPlan:
    model = dp.GLM(np.empty(0), np.empty((0, size)), family=family, row_norm=1.0)
    plan = model.plan(eps, method="posterior", **arguments).objective
    assert isinstance(plan, PosteriorPlan)
    return plan


class TestTemperature:
    """privacy.md, section 6: reference values."""

    def test_normal(self):
        temperature = gaussian_temperature(Binomial(), eps=1.0, delta=1e-5, curvature_ratio=1 / 13.91761239)
        assert temperature == pytest.approx(1.0, rel=1e-6)
        # mu = L X sqrt(c / m) at c = .5, m = 2.
        delta = gaussian_delta(1.0, 0.5)
        found = gaussian_temperature(Binomial(), eps=1.0, delta=delta, curvature_ratio=0.5)
        assert found == pytest.approx(0.5, rel=1e-6)

    @pytest.mark.parametrize("family", FAMILIES, ids=str)
    def test_the_table_spans_the_range_of_the_loss(self, family):
        """What the region's scale is calibrated to; a table rounds each loss to half a unit."""
        eta = np.linspace(-1.3, 1.3, 2001)
        spans = []
        for response in (0.0, 1.0) if family.signed else (-1.0, 0.0, 1.0):
            losses = family.derivatives(eta, np.full(len(eta), response)).value
            spans.append(losses.max() - losses.min())
        span = LossTable.of(family, 1.3).span * UNIT
        assert max(spans) <= span + UNIT
        if family.signed:
            assert max(spans) == pytest.approx(span, rel=1e-5)

    def test_a_budget_without_delta_has_no_posterior_on_all_of_space(self):
        with pytest.raises(ArgumentError, match="delta"):
            gaussian_temperature(Binomial(), eps=1.0, delta=0.0, curvature_ratio=1.0)


def rows_of(family, count, size, random):
    exog = random.normal(size=(count, size))
    exog /= np.maximum(1, np.linalg.norm(exog, axis=1, keepdims=True))
    endog = random.integers(0, 2, count) if family.signed else random.uniform(-2, 2, count)
    return exog, endog.astype(float)


def log_probabilities(plan, exog, endog):
    points = lattice_points(plan.semi_axes, 401 if plan.size == 1 else 31)
    scores = lattice_scores(LossTable.of(plan.family, plan.reach), block_rows([(exog, endog)]), points)
    public = np.rint(0.5 * np.sum(plan.curvature * points**2, axis=1) / UNIT)
    logs = -(scores + public) / plan.scale
    return logs - special.logsumexp(logs)


def region_pairs(family, size, adjacency, random):
    axis = np.eye(size)[:1]
    for count in (0, 3, 400):
        exog, endog = rows_of(family, count, size, random)
        if count == 400:  # all on one side: the sum of weights sits where the changed row weighs most
            exog, endog = np.repeat(axis, count, axis=0), np.ones(count)
        for row, response in ((axis, 0.0), (axis, 1.0), (-axis, 1.0)):
            one = np.vstack([exog, row]), np.append(endog, response)
            if adjacency == "add_remove":
                yield one, (exog, endog)
            else:
                yield one, (np.vstack([exog, -row]), np.append(endog, response))
                yield one, (np.vstack([exog, row]), np.append(endog, 1 - response))


def worst_region_ratio(plan, seed=1):
    random, worst = np.random.default_rng(seed), 0.0
    for first, second in region_pairs(plan.family, plan.size, plan.adjacency, random):
        logs = log_probabilities(plan, *first) - log_probabilities(plan, *second)
        worst = max(worst, float(np.max(np.abs(logs))))
    return worst


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_the_lattice_keeps_the_pure_budget(family, adjacency, size):
    plan = planned(family, size, adjacency=adjacency, radius=3.0)
    assert worst_region_ratio(plan) <= plan.eps * (1 + 1e-12)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("family", FAMILIES[:3], ids=str)
def test_it_spends_it_too_and_less_is_caught(family, adjacency):
    plan = planned(family, adjacency=adjacency, radius=3.0)
    assert worst_region_ratio(plan) >= 0.85 * plan.eps
    # Half the scale: the factor of replacing a row left out, or exp(-eps u) for a score of oscillation 2.
    assert worst_region_ratio(replace(plan, scale=plan.scale / 2)) > 1.7 * plan.eps


def test_a_row_beyond_its_bound_counts_as_the_bound():
    plan = planned(Binomial(), radius=3.0)
    far = np.array([[1e6]]), np.ones(1)
    base = np.repeat([[-1.0]], 50, axis=0), np.ones(50)
    both = np.vstack([base[0], far[0]]), np.append(base[1], far[1])
    assert np.max(np.abs(log_probabilities(plan, *both) - log_probabilities(plan, *base))) <= plan.eps


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_a_rows_part_of_a_score_does_not_depend_on_the_rows_beside_it(family):
    random = np.random.default_rng(2)
    exog, endog = rows_of(family, 300, 3, random)
    points, table = lattice_points(np.array([1.0, 2.0, 0.5]), 9), LossTable.of(family, 2.0)
    whole = lattice_scores(table, block_rows([(exog, endog)]), points)
    for at in (0, 1, 77, 299):
        rest = np.delete(exog, at, axis=0), np.delete(endog, at)
        alone = lattice_scores(table, block_rows([(exog[at : at + 1], endog[at : at + 1])]), points)
        others = lattice_scores(
            table, block_rows([(rest[0][:100], rest[1][:100]), (rest[0][100:], rest[1][100:])]), points
        )
        np.testing.assert_array_equal(whole, others + alone)
        assert alone.max() - alone.min() <= table.span


def test_weights_within_one_stay_within_the_span():
    table, points = LossTable.of(Binomial(), 2.0), lattice_points(np.array([2.0]), 401)
    for weight in (0.0, 0.3, 1.0):
        rows = block_rows([(np.ones((1, 1)), np.ones(1), np.array([weight]))])
        scores = lattice_scores(table, rows, points)
        assert scores.max() - scores.min() <= weight * table.span + 1


@pytest.mark.slow
@pytest.mark.parametrize("source", ["system", "seeded"])
def test_the_index_has_the_exponential_law(source):
    """A chi-squared test of 4,000 draws."""
    random = SystemRandom() if source == "system" else np.random.default_rng(4)
    scores, scale = np.array([0, 3, 5, 9, 40, 2], dtype=np.int64), 4.0
    weights = np.exp(-scores / scale)
    counts = np.bincount([exponential_index(scores, scale, random) for _ in range(4000)], minlength=6)
    kept = weights / weights.sum() > 1e-3
    expected = 4000 * weights[kept] / weights[kept].sum()
    assert stats.chisquare(counts[kept], expected * counts[kept].sum() / 4000).pvalue > FALSE_ALARM


class Density:
    """exp(-c J) of one column, on a fine grid."""

    def __init__(self, plan, exog, endog, grid):
        family = plan.family
        losses = sum(
            family.derivatives(grid * x, np.full(len(grid), y)).value for x, y in zip(exog[:, 0], endog, strict=True)
        )
        potential = losses + 0.5 * plan.curvature[0] * grid**2
        if plan.penalty is not None:
            assert isinstance(plan.penalty, Lasso)
            potential = potential + plan.penalty.alpha * np.abs(grid) * plan.penalty_weights[0]
        logs = -plan.temperature * (potential - np.min(potential))
        self.values = np.exp(logs) / np.trapezoid(np.exp(logs), grid)


def stick(plan, eps, seed=3):
    """The greatest hockey-stick divergence found over neighbours, both ways."""
    random, worst = np.random.default_rng(seed), 0.0
    for count in (0, 2, 20):
        exog, endog = rows_of(plan.family, count, 1, random)
        endog = np.clip(endog, -1, 1)
        for response in (0.0, 1.0):
            one = np.vstack([exog, [[1.0]]]), np.append(endog, response)
            other = (exog, endog)
            if plan.adjacency == "replace_one":
                other = np.vstack([exog, [[-1.0]]]), np.append(endog, response)
            spread = 1 / math.sqrt(plan.temperature * plan.curvature[0])
            reach = 30 * spread + 25 / plan.curvature[0]
            grid = np.linspace(-reach, reach, 40_001)
            p, q = (Density(plan, *data, grid).values for data in (one, other))
            for left, right in ((p, q), (q, p)):
                worst = max(worst, float(np.trapezoid(np.maximum(left - math.exp(eps) * right, 0), grid)))
    return worst


@pytest.mark.parametrize("penalty", [None, Lasso(1.5)], ids=str)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_the_posterior_keeps_the_approximate_budget(family, adjacency, penalty):
    delta = 1e-3
    plan = planned(family, adjacency=adjacency, penalty=penalty, delta=delta, curvature=2.0)
    assert stick(plan, plan.eps) <= delta


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_its_bound_is_tight_and_a_colder_one_is_caught(adjacency):
    # A slope of L where the posterior is: one row shifts a normal law by exactly mu standard deviations.
    delta = 1e-3
    plan = planned(HuberSVM(0.1), adjacency=adjacency, delta=delta, curvature=4000.0, rows_at_most=1e3)
    assert 0.9 * delta <= stick(plan, plan.eps - plan.cover_eps) <= delta
    # L X without the factor of replacing a row, or kappa taken for a column of half the length.
    assert stick(replace(plan, temperature=4 * plan.temperature), plan.eps) > 10 * delta


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "penalty"), [(3, None), (300, None), (20, Lasso(8.0))])
def test_draws_have_the_posterior_law(rows, penalty):
    """A Kolmogorov-Smirnov test of 400 seeded draws of one column against the integrated density."""
    random = np.random.default_rng(5)
    family = Binomial()
    exog, endog = rows_of(family, rows, 1, random)
    plan = planned(family, delta=1e-3, curvature=3.0, rows_at_most=1e5, penalty=penalty)
    grid = np.linspace(-15, 15, 60_001)
    density = Density(plan, exog, endog, grid)
    cdf = np.concatenate([[0], np.cumsum((density.values[1:] + density.values[:-1]) / 2 * np.diff(grid))])
    draws = [plan.coefficients(block_rows([(exog, endog)]), np.random.default_rng(s))[0] for s in range(400)]
    assert stats.kstest(draws, lambda at: np.interp(at, grid, cdf)).pvalue > FALSE_ALARM
    # The proposals alone would fail it where rows say something.
    if rows == 300:
        proposals = np.asarray(plan.law.sample(400, np.random.default_rng(1))) / plan.noise_shape[0]
        assert stats.kstest(proposals + np.mean(draws), lambda at: np.interp(at, grid, cdf)).pvalue < 1e-3


@pytest.mark.slow
def test_a_penalty_is_part_of_the_public_score():
    """On two columns without rows: the mode of a lasso's lattice posterior is zero, its law the exponential one."""
    plan = planned(Binomial(), size=2, penalty=Lasso(30.0), radius=2.0)
    draws = np.array(
        [
            plan.coefficients(block_rows([(np.empty((0, 2)), np.empty(0))]), np.random.default_rng(seed))
            for seed in range(150)
        ]
    )
    points = lattice_points(plan.semi_axes, 71)
    logs = -plan.temperature * (30.0 * np.sum(np.abs(points), axis=1) + 0.5 * points**2 @ plan.curvature)
    weights = np.exp(logs - special.logsumexp(logs))
    expected = float(weights @ np.sum(np.abs(points), axis=1))
    # A mean of 150 sizes, whose standard deviation is about their mean: five standard errors, .41.
    assert np.mean(np.sum(np.abs(draws), axis=1)) == pytest.approx(expected, rel=5 / math.sqrt(150))


def test_rejection_accepts_in_proportion():
    random = np.random.default_rng(6)
    proposals = iter(np.tile([0.0, 1.0, 2.0], 40_000))
    heights = np.array([0.0, 1.0, 3.0])
    found = [
        by_rejection(lambda p: heights[p[:, 0].astype(int)], lambda: np.array([next(proposals)]), random, batch=1)[0]
        for _ in range(3000)
    ]
    # The first of a cycle that is accepted is not a draw; counting each value's acceptances is.
    shares = np.bincount(np.array(found, dtype=int), minlength=3) / 3000
    assert shares[0] > shares[1] > shares[2] > 0


def test_sums_are_as_exact_as_their_bound_says():
    random = np.random.default_rng(7)
    exog, endog = rows_of(Binomial(), 30_000, 2, random)
    point = np.array([[3.0, -8.0]])
    blocks = [(exog[start : start + 97], endog[start : start + 97]) for start in range(0, 30_000, 97)]
    losses = Binomial().derivatives(exog @ point[0], endog).value
    exact = math.fsum(losses.tolist())
    # 97 rows a block: few additions, so that what is seen is the rounding of single losses.
    assert float(loss_sums(Binomial(), block_rows(blocks), point)[0]) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("rows", [1e4, 1e9])
def test_the_draw_and_its_rounding_together_cost_what_is_charged(rows, adjacency):
    """An acceptance off by a factor exp(error) turns a delta at eps' into one at most exp(2 error) of it, 4 error on.

    The exact delta of the draw, by its Gaussian-DP parameter, at what rounding leaves of eps.
    """
    plan = planned(Binomial(), delta=1e-6, rows_at_most=rows, adjacency=adjacency)
    error, records = plan.cover_eps / 4, 2 if adjacency == "replace_one" else 1
    assert acceptance_error(plan) <= error
    mu = math.sqrt(plan.temperature * plan.kappa) * records * plan.family.lipschitz
    spent = math.exp(2 * error) * gaussian_delta(plan.eps - 4 * error, mu)
    assert spent <= plan.delta * (1 + 1e-6)
    assert spent >= (1 - 1e-3) * plan.delta


def test_fewer_rows_than_are_usual_buy_no_thinner_cover():
    """The proof ends at the stated rows, and nobody counts them: ten million are always covered."""
    plans = [planned(Binomial(), delta=1e-6, rows_at_most=rows) for rows in (1.0, 1e4, 1e7)]
    assert plans[0].cover_eps == plans[1].cover_eps == plans[2].cover_eps
    with pytest.raises(ArgumentError, match="rows_at_most"):
        planned(Binomial(), delta=1e-6, rows_at_most=1.0, curvature=1e-9)


def test_rounding_is_paid_for_by_the_stated_number_of_rows():
    few = planned(Binomial(), delta=1e-6, rows_at_most=1e4)
    many = planned(Binomial(), delta=1e-6, rows_at_most=1e9)
    assert 0 < few.cover_eps < many.cover_eps < 0.5
    assert 4 * acceptance_error(few) <= few.cover_eps * (1 + 1e-9)
    assert few.temperature > many.temperature
    with pytest.raises(ArgumentError, match="rows_at_most"):
        planned(Binomial(), delta=1e-6, rows_at_most=1e10, curvature=1e6)


DOMAIN = {"x": (-1, 1), "z": (0, 5), "g": ["a", "b", "c"], "y": [0, 1], "w": (0, 10)}


@pytest.fixture(name="frame", scope="module")
def fixture_frame() -> pd.DataFrame:
    random = np.random.default_rng(8)
    frame = pd.DataFrame({"x": random.uniform(-1, 1, 3000), "z": random.uniform(0, 5, 3000)})
    frame["g"] = random.choice(["a", "b", "c"], 3000)
    frame["y"] = (random.random(3000) < special.expit(3 * frame["x"])).astype(int)
    return frame.assign(w=5 + 2 * frame["x"] + random.normal(0, 0.5, 3000))


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_fit_and_its_tables(frame, delta, tmp_path):
    fit = dp.logit("y ~ x", frame, 2.0, domain=DOMAIN, method="posterior", delta=delta)
    assert fit.guarantee.certified
    assert (fit.guarantee.eps, fit.guarantee.delta) == (2.0, delta)
    assert fit.guarantee.basis == "docs/proofs/posterior"
    assert fit.budget["eps"].iloc[:-1].sum() == pytest.approx(2.0)
    text = str(fit.summary(full=True))
    for said in ("posterior", "factor on J", "exact", "noise at most", "one draw"):
        assert said in text
    assert fit.params["x"] == pytest.approx(3, abs=3)
    fit.save(tmp_path / "fit.json")
    stored = type(fit).load(tmp_path / "fit.json")
    assert stored.plan.digest() == fit.plan.digest()
    assert str(stored.summary(full=True)) == text
    with pytest.raises(NotReleasedError, match="napp"):
        _ = fit.bse


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_more_columns_are_not_certified(frame, delta, tmp_path):
    arguments = {"domain": DOMAIN, "method": "posterior", "delta": delta}
    with pytest.raises(UncertifiedError, match="Markov chain"):
        dp.logit("y ~ x + z + g", frame, 1.0, **arguments)
    fit = dp.logit("y ~ x + z + g", frame, 1.0, allow_uncertified=True, **arguments)
    assert not fit.guarantee.certified
    assert "Markov chain" in str(fit.summary())
    ledger = dp.Ledger(tmp_path / "l", dataset="d", eps=5.0, delta=1e-3)
    with pytest.raises(DPStatsError):
        dp.logit("y ~ x + z + g", frame, 1.0, allow_uncertified=True, ledger=ledger, **arguments)
    assert ledger.remaining.eps == 5.0


@pytest.mark.slow
def test_the_spread_is_at_most_what_the_table_says(frame):
    """Draws of two columns in 60 fits: the standard deviation beside its bound."""
    fits = [
        dp.ols("w ~ x", frame[:40], 1.0, domain=DOMAIN, method="posterior", delta=1e-5, seed=s, allow_uncertified=True)
        for s in range(60)
    ]
    spread = np.std([fit.scaled_params for fit in fits], axis=0)
    limit = math.sqrt(stats.chi2(59).isf(FALSE_ALARM) / 59)
    assert (spread <= limit * fits[0].plan.noise_sd.to_numpy()).all()


@pytest.mark.parametrize("shape", [1.0, 2.0])
@pytest.mark.parametrize("size", [1, 3])
def test_the_excess_of_a_draw_is_at_most_gamma(size, shape):
    """V = |theta|^a, a = 1 and 2: V is Gamma(p / a)."""
    for pi in (0.3, 0.05, 1e-3):
        assert stats.gamma(size / shape).sf(gamma_excess(size, pi)) <= pi
    assert size / shape <= size


def test_the_excess_risk_table():
    plan = dp.plan("y ~ x", DOMAIN, 1.0, family="binomial", method="posterior", delta=1e-5)
    fit = plan.objective
    table = plan.excess_risk().set_index("bound")["value"]
    assert table["regularised, in the mean"] == pytest.approx(2 / fit.temperature)
    assert len(dp.plan("y ~ x", DOMAIN, 1.0, family="binomial", method="posterior").excess_risk()) == 2
    region = dp.plan("y ~ x", DOMAIN, 1.0, family="binomial", method="posterior")
    assert region.objective.final_share is None
    assert region.excess_risk()["value"].isna().all()
    assert (region.excess_risk(n=1000)["value"] < region.excess_risk(n=2000)["value"]).all()
    chain = dp.plan("y ~ x + z + g", DOMAIN, 1.0, family="binomial", method="posterior", allow_uncertified=True)
    assert len(chain.excess_risk()) == 0
    assert "Markov" in str(chain)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"inference": True}, "inference"),
        ({"screen": 1}, "screen"),
        ({"stages": 2}, "stages"),
        ({"formula": "w ~ x", "family": "poisson"}, "counts"),
        ({"penalty": dp.penalties.SCAD(1.0)}, "convex"),
    ],
)
def test_what_does_not_go_with_it_is_refused_before_rows(arguments, name):
    asked = {"formula": "y ~ x", "family": "binomial", "method": "posterior"} | arguments
    with pytest.raises(ArgumentError, match=name):
        dp.plan(domain=DOMAIN, eps=1.0, **asked)


def test_the_ledger_is_charged_before_rows(frame, tmp_path):
    ledger = dp.Ledger(tmp_path / "l", dataset="d", eps=1.0)
    with pytest.raises(BudgetExceeded):
        dp.logit("y ~ x", frame, 2.0, domain=DOMAIN, method="posterior", ledger=ledger)
    dp.logit("y ~ x", frame, 1.0, domain=DOMAIN, method="posterior", ledger=ledger)
    assert ledger.remaining.eps == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_the_auditor_does_not_refute_it_and_refutes_a_colder_one(delta):
    """Runs of one column, a row of response 1 or none; confidence 0.999 an audit."""
    plan = planned(HuberSVM(0.1), delta=delta, radius=2.0, **({"curvature": 50.0} if delta else {}))
    data = (np.empty((0, 1)), np.empty(0))
    neighbour = (np.ones((1, 1)), np.ones(1))

    def mechanism(plan):
        return lambda rows, rng: plan.coefficients(block_rows([rows]), rng)

    sound = dp.audit(mechanism(plan), data, neighbour, eps=plan.eps, delta=delta, runs=500, seed=1)
    assert sound.passed, sound.summary()
    cold = replace(
        plan,
        scale=plan.scale / 12,
        temperature=plan.temperature * 60,
        noise=plan.noise.scaled(plan.noise.scale / math.sqrt(60)),
    )
    assert not dp.audit(mechanism(cold), data, neighbour, eps=plan.eps, delta=delta, runs=500, seed=1).passed


def test_offsets_and_trials_are_refused(frame):
    with pytest.raises(ArgumentError, match="offset"):
        dp.plan("y ~ x", DOMAIN, 1.0, family="binomial", method="posterior", offset="z")


def test_weights_count(frame):
    weighted = frame.assign(v=1.0)
    domain = DOMAIN | {"v": (0, 1)}
    for delta in (0.0, 1e-5):
        fit = dp.logit("y ~ x", weighted, 2.0, domain=domain, method="posterior", delta=delta, weights="v")
        assert fit.guarantee.certified
        assert fit.params["x"] == pytest.approx(3, abs=3)


class TestScoresFitTheirIntegers:
    """A sum that passes 64 bits turns round: the worst point becomes the best, by one row more."""

    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("radius", [1e-12, 1e-6, 1e6, 1e10, 1e100, 1e300])
    def test_a_radius_that_does_not_is_refused(self, family, radius):
        with pytest.raises(ArgumentError, match="radius"):
            planned(family, radius=radius)

    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("radius", [0.01, 1.0, 30.0, 300.0, 3000.0])
    def test_the_rows_covered_have_parts_that_fit(self, family, radius):
        plan = planned(family, size=2, radius=radius)
        table = LossTable.of(plan.family, plan.reach)
        points = lattice_points(plan.semi_axes, 9)
        worst = 0
        for response in (0.0, 1.0) if family.signed else (-1.0, 1.0):
            for row in np.array([[1.0, 0.0], [0.0, -1.0], [0.6, 0.8]]):
                worst = max(worst, int(np.abs(table.scores(points, row[None], np.array([response]))).max()))
        assert plan.covered_rows * worst <= 2**62
        assert plan.covered_rows >= 1e7

    def test_more_rows_are_declared_than_fit(self):
        assert planned(Binomial(), radius=1e4, rows_at_most=1e7).covered_rows < 1e9
        with pytest.raises(ArgumentError, match="radius"):
            planned(Binomial(), radius=1e4, rows_at_most=1e9)

    @pytest.mark.slow
    @pytest.mark.parametrize("curvature", [1e12, 1e20, 1e100])
    def test_a_public_part_beyond_the_integers_still_counts(self, curvature):
        """All draws are where the public part is least, whatever the rows say."""
        plan = planned(Binomial(), radius=5.0, curvature=curvature)
        rows = block_rows([(np.full((50, 1), sign), np.full(50, 1.0)) for sign in (1.0, 1.0)])
        assert {float(plan.coefficients(rows, SystemRandom())[0]) for _ in range(20)} == {0.0}


def objective_of(plan, exog, endog):
    """J of some rows at points, shape (points,)."""

    def value(points):
        eta = points @ exog.T
        losses = plan.family.derivatives(eta.ravel(), np.tile(endog, len(points))).value.reshape(eta.shape).sum(axis=1)
        public = 0.5 * np.sum(plan.curvature * points**2, axis=1)
        if plan.penalty is not None:
            public = public + [plan.penalty.value(point, plan.penalty_weights) for point in points]
        return losses + public

    return value


def best_on_region(plan, value, inside):
    """The least J on the ellipsoid shrunk to `inside`, found by projected search from many points: at least the truth.

    A bound that holds against it need not hold against the truth, so the lattice's best point is polished.
    """

    def shrunk(point):
        length = float(np.linalg.norm(point / plan.semi_axes))
        return point * min(1.0, inside / length) if length else point

    starts = plan.lattice[np.argsort(value(np.array([shrunk(point) for point in plan.lattice])), kind="stable")[:4]]
    return min(
        optimize.minimize(lambda point: value(shrunk(point)[None])[0], start, method="Nelder-Mead").fun
        for start in starts
    )


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [None, Ridge(3.0), Lasso(2.0), Bridge(2.0, 1.3)], ids=lambda one: str(one))
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_lattice_costs_no_more_than_is_printed(family, size, penalty):
    """docs/proofs/risk, theorem 8: whatever eps pays for, the draw is a point of the lattice, scored in whole numbers.

    At an eps of 1e9 every draw is a best point of it: the bound is the lattice's part alone.
    """
    random = np.random.default_rng(size)
    plan = planned(family, size, 1e9, penalty=penalty)
    for rows in (1, 300):
        exog = random.normal(size=(rows, size))
        exog /= np.maximum(1.0, np.linalg.norm(exog, axis=1))[:, None]
        true = random.normal(size=size) * plan.semi_axes / 2
        if family.signed:
            endog = (random.random(rows) < special.expit(exog @ true)).astype(float)
        else:
            endog = np.clip(exog @ true / 4, -1, 1)
        value = objective_of(plan, exog, endog)
        draw = plan.coefficients(block_rows([(exog, endog)]), SystemRandom())
        costs = plan.lattice_costs
        excess = value(draw[None])[0] - best_on_region(plan, value, costs.inside)
        assert excess <= costs.each * rows + costs.once + math.log(len(plan.lattice) / FALSE_ALARM) / plan.temperature


def test_the_cost_of_the_lattice_is_attained():
    """Least squares along one axis, midway between two points, meets the bound to a tenth: half of it would be false.

    Rows along one axis have the greatest curvature that the region allows; what is left is the rounding of the losses.
    """
    plan, rows = planned(Gaussian(4.0), 3, 1e9), 2000
    along = np.unique(plan.lattice[:, 0])
    best = np.array([np.mean(along[len(along) // 2 :][:2]), 0.0, 0.0])
    exog, endog = np.tile([1.0, 0.0, 0.0], (rows, 1)), np.full(rows, best[0])
    value = objective_of(plan, exog, endog)
    draw = plan.coefficients(block_rows([(exog, endog)]), SystemRandom())
    bound = plan.lattice_costs.each * rows + plan.lattice_costs.once
    assert 0.85 * bound < value(draw[None])[0] - value(best[None])[0] <= bound


def test_the_lattice_is_no_secret():
    """The case that was printed as .0096: 2,000 rows at an eps of 1e4, at most 3 points a unit of the lattice."""
    random = np.random.default_rng(7)
    exog = random.uniform(-1, 1, (2000, 3))
    rows = {name: exog[:, column] for column, name in enumerate("abc")}
    rows["y"] = (random.random(2000) < special.expit(exog @ np.array([2.2, -1.3, 0.7]))).astype(float)
    domain = {**dict.fromkeys("abc", (-1, 1)), "y": (0, 1)}
    fit = dp.logit("y ~ 0 + a + b + c", rows, 1e4, domain=domain, method="posterior")
    plan = fit.plan.objective
    value = objective_of(plan, exog / np.sqrt(3), rows["y"])
    start = np.array([2.2, -1.3, 0.7]) * np.sqrt(3)
    least = optimize.minimize(lambda point: value(point[None])[0], start, method="BFGS")
    assert np.sum((least.x / plan.semi_axes) ** 2) < plan.lattice_costs.inside**2
    excess = value(fit.scaled_params[None])[0] - least.fun
    bounds = fit.excess_risk(pi=FALSE_ALARM, n=2000).set_index("bound")["value"]
    assert 0.5 < excess <= bounds["regularised, on the region, with probability 0.999999"]
    for text in (str(fit), str(fit.plan)):
        assert "the lattice limits the accuracy, not the budget" in " ".join(text.split())
    mild = dp.plan("y ~ 0 + a", {"a": (-1, 1), "y": (0, 1)}, 0.1, family="binomial", method="posterior")
    assert "more eps does not make it finer" in " ".join(str(mild).split())


def test_a_public_part_that_is_cut_off_has_no_printed_bound():
    plan = dp.plan("y ~ x", DOMAIN, 1.0, family="binomial", method="posterior", curvature=1e14)
    assert len(plan.excess_risk(n=100)) == 0

"""Ordered levels: exact densities, planted errors, agreement with the cumulative logit, tables, bad input."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dpstats as dp
from dpstats.data import Block, as_table
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DataError, DomainError, DPStatsError, FormulaError
from dpstats.families.ordinal import CumulativeLogit, score_ratio
from dpstats.formula.design import DesignSpec
from dpstats.models import ordinal as code
from dpstats.models.ordinal import Pieces
from dpstats.plan import Plan
from dpstats.privacy.information.scores import person_scores
from dpstats.results.ordinal import CUT

LEVELS = ["poor", "fair", "good", "fine"]
DOMAIN: dict[str, Any] = {"x": (-1, 1), "g": ["a", "b", "c"], "y": LEVELS}
FORMULA = "y ~ x + g"
POINTS, SLOPES = np.array([-1.5, 0.0, 1.2]), np.array([0.7, -0.4, 1.0])


def rows(count: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(-1, 1, count), rng.integers(0, 3, count)
    latent = np.column_stack([g == 1, g == 2, x]) @ SLOPES + rng.logistic(size=count)
    level = (latent[:, None] > POINTS).sum(axis=1)
    return pd.DataFrame({"x": x, "g": np.array(list("abc"))[g], "y": np.array(LEVELS)[level]})


def planned(formula: str = FORMULA, eps: float = 1.0, domain: Any = DOMAIN, **options: Any) -> tuple[Plan, Pieces]:
    plan = dp.plan_ordinal(formula, domain, eps, **options)
    assert isinstance(plan.design, DesignSpec)
    return plan, plan.call.source.pieces  # type: ignore[union-attr]


def pieces_of(pieces: Pieces, data: Any) -> Block:
    blocks = pieces.rows(as_table(data)).collect()
    return Block(*(None if part[0] is None else np.concatenate(part) for part in zip(*blocks, strict=True)))


def log_density(plan: Plan, block: Block, theta: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """Of the minimiser at points (n, p), by the law of the plan's noise; `pull` stands for other rows far away."""
    stage = plan.stages[-1].plan
    assert block.weights is not None
    eta = theta @ block.exog.T
    slopes = block.weights * (special.expit(eta) - block.endog)
    noise = -(slopes @ block.exog + theta * stage.curvature + pull)
    bends = block.weights * special.expit(eta) * special.expit(-eta)
    hessian = np.einsum("ni,ij,ik->njk", bends, block.exog, block.exog) + np.diag(stage.curvature)
    return np.asarray(stage.noise.log_density(noise) + np.linalg.slogdet(hessian)[1])  # type: ignore[union-attr]


def added_trace(plan: Plan, block: Block, theta: np.ndarray) -> np.ndarray:
    """What rows add to the matrix at points (n, p), in the noise's metric: a trace."""
    information = plan.stages[-1].plan.information
    assert information is not None
    assert block.weights is not None
    length = np.sum((block.exog @ np.linalg.inv(np.linalg.cholesky(information.noise.metric)).T) ** 2, axis=1)
    eta = theta @ block.exog.T
    return np.asarray((block.weights * special.expit(eta) * special.expit(-eta)) @ length)


def worst(plan: Plan, first: Block, second: Block, seed: int = 0) -> float:
    """The greatest log-ratio of coefficients and matrix over points and pulls."""
    rng, size = np.random.default_rng(seed), len(plan.names)
    stage = plan.stages[-1].plan
    assert stage.information is not None
    found = 0.0
    for spread, pulled in product((1.0, 8.0, 60.0), (0.0, 3.0, 1e4)):
        theta = rng.normal(0, spread, (300, size))
        pull = pulled * rng.choice([-1.0, 1.0], size)
        ratio = log_density(plan, first, theta, pull) - log_density(plan, second, theta, pull)
        beside = added_trace(plan, first, theta) + added_trace(plan, second, theta)
        found = max(found, float(np.max(np.abs(ratio) + beside / stage.information.noise.scale)))
    return found


def charged(plan: Plan) -> float:
    """What coefficients and matrix cost, without what covers rounding."""
    stage = plan.stages[-1].plan
    assert stage.information is not None
    return stage.eps + stage.information.eps


RECORDS = [
    {"x": [x], "g": [g], "y": [y]} for x, g, y in product((-1.0, 1.0, 0.3), ("a", "c"), ("poor", "fair", "fine"))
]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_a_record_costs_what_was_charged(adjacency: str) -> None:
    plan, pieces = planned(adjacency=adjacency)
    nothing = pieces_of(pieces, {"x": [], "g": [], "y": []})
    found = []
    for at, record in enumerate(RECORDS):
        one = pieces_of(pieces, record)
        assert len(one.endog) == 3
        others = [nothing] if adjacency == "add_remove" else [pieces_of(pieces, RECORDS[(5 * at + 7) % len(RECORDS)])]
        found += [worst(plan, one, other, at) for other in others]
    assert 0.8 * charged(plan) < max(found) <= charged(plan) * (1 + 1e-6)


def test_planted_pieces_of_weight_one_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "piece_weight", lambda _: 1.0)
    plan, pieces = planned()
    nothing = pieces_of(pieces, {"x": [], "g": [], "y": []})
    assert worst(plan, pieces_of(pieces, RECORDS[0]), nothing) > 2 * charged(plan)


def test_planted_logarithm_is_caught() -> None:
    """log(1 + kappa h) in the place of kappa h is false where the pieces have several directions."""
    kappa, h, cuts = 2.0, 0.25, 3
    # Pieces of cut-points alone with curvature cuts / kappa each: equal lengths in independent directions.
    grown = np.linalg.slogdet(np.eye(cuts) + np.diag([kappa * h / cuts] * cuts))[1]
    assert np.log1p(kappa * h) < grown <= kappa * h


def test_weights_of_pieces_are_at_most_one() -> None:
    from fractions import Fraction

    for cuts in range(1, 64):
        assert 1 - 1e-12 < cuts * Fraction(code.piece_weight(cuts)) <= 1


def test_pieces() -> None:
    """A row is complete at every cut-point or at none, and all its pieces are one person's."""
    _, pieces = planned()
    data = {
        "x": [0.5, np.nan, 0.1, -9.0, 0.2],
        "g": ["b", "a", "z", "c", "a"],
        "y": ["good", "fair", "fair", "fine", "unheard of"],
    }
    block = pieces_of(pieces, data)
    assert block.person is not None
    assert np.bincount(block.person).tolist() == [3, 3]
    assert [block.endog[block.person == at].tolist() for at in (0, 1)] == [[1, 1, 0], [1, 1, 1]]
    terms = [block.exog[block.person == at][:, 3:] for at in (0, 1)]
    assert all((one == one[0]).all() for one in terms)
    cut = block.exog[:, :3] / block.exog[:, :3].max(axis=0)
    assert cut[block.person == 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 0, 1]]


def test_persons_are_numbered_through_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of records do not depend on where blocks end; planted: pieces that count as records of their own."""
    plan, pieces = planned(inference="robust")
    data = rows(50)
    whole = pieces_of(pieces, data)
    monkeypatch.setattr(code, "BLOCK_ROWS", 7)
    cut = pieces_of(pieces, data)

    def scores(block: Block, person: np.ndarray) -> np.ndarray:
        slopes = special.expit(0.3 * block.exog[:, 0]) - block.endog
        parts = [(block.exog, slopes, np.asarray(block.weights), person)]
        diagonal = np.full(len(plan.names), len(plan.names))
        return person_scores(diagonal, 1.0, (), parts).astype(float) / 2.0**40

    assert whole.person is not None
    assert cut.person is not None
    one, other = scores(whole, whole.person), scores(cut, cut.person)
    assert len(one) == 50
    np.testing.assert_array_equal(one, other)
    # A record's score is at most 1 long, and its square is what the sensitivity is of.
    assert np.max(np.sum(one**2, axis=1)) <= 1
    split = scores(whole, np.arange(len(whole.endog)))
    assert np.sum(split**2) < 0.7 * np.sum(one**2)  # it would claim less spread than there is


def test_the_correlation_of_cut_points() -> None:
    """Theorem 2 by sums over levels: the covariance is within phi of the information, and met for a slope."""
    for points in (np.array([-1.5, 0, 1.5]), np.array([-3.0, -0.2, 0.1, 2.0, 2.2])):
        phi, cuts, reached = score_ratio(points), len(points), 0.0
        for eta in np.linspace(-6, 6, 61):
            above = special.expit(eta - points)
            chances = -np.diff(np.concatenate([[1.0], above, [0.0]]))
            indicators = (np.arange(cuts + 1)[:, None] > np.arange(cuts)).astype(float) - above
            covariance = (indicators * chances[:, None]).T @ indicators / cuts**2
            bend = np.diag(above * (1 - above)) / cuts
            assert np.linalg.eigvalsh(phi * bend - covariance)[0] > -1e-9
            reached = max(reached, covariance.sum() / bend.sum())
        assert 0.99 * phi < reached <= phi * (1 + 1e-9)
    assert score_ratio(np.zeros(5)) == pytest.approx(1.0)


def test_it_is_the_cumulative_logit_where_eps_is_large() -> None:
    data = rows(4000)
    fit = dp.ordinal(FORMULA, data, 1e4, domain=DOMAIN, seed=1)
    exog = np.column_stack([data["g"] == "b", data["g"] == "c", data["x"]]).astype(float)
    codes = pd.Categorical(data["y"], LEVELS, ordered=True)
    classical = OrderedModel(pd.Series(codes), exog, distr="logit").fit(method="bfgs", disp=0)
    assert fit.params.index.tolist() == ["poor|fair", "fair|good", "good|fine", "g[T.b]", "g[T.c]", "x"]
    found = fit.uncertainty()
    assert np.allclose(found["coef"][3:], classical.params[:3], atol=0.03)
    assert np.allclose(found["coef"][:3], classical.model.transform_threshold_params(classical.params)[1:-1], atol=0.05)
    assert np.allclose(found["std_error"][3:], classical.bse[:3], rtol=0.06)
    assert np.all(found["std_error"][:1] > 0.95 * classical.bse.iloc[3])  # too wide, if anything
    assert np.allclose(fit.predict(data), classical.predict(), atol=0.02)
    robust = dp.ordinal(FORMULA, data, 1e4, domain=DOMAIN, seed=1, inference="robust")
    assert np.allclose(robust.bse.iloc[3:], classical.bse[:3], rtol=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("inference", [True, "robust"])
def test_intervals_cover(inference: str) -> None:
    """15 fits of 3 slopes at eps 1: .95 within 4 standard errors (false alarms below 1e-3)."""
    held = []
    for seed in range(15):
        fit = dp.ordinal(FORMULA, rows(3000, seed), 1.0, domain=DOMAIN, seed=seed, inference=inference)
        ends = fit.conf_int().to_numpy()[3:]
        held += ((ends[:, 0] <= SLOPES) & (ends[:, 1] >= SLOPES)).tolist()
    assert np.mean(held) > 0.82


def test_probabilities() -> None:
    fit = dp.ordinal(FORMULA, rows(2000), 1.0, domain=DOMAIN, seed=1)
    new = pd.DataFrame({"x": [0.0, 99.0, np.nan], "g": "a", CUT: 1}, index=list("uvw"))
    shares = fit.predict(new)
    assert shares.columns.tolist() == LEVELS
    assert shares.index.tolist() == list("uvw")
    assert np.allclose(shares.iloc[:2].sum(axis=1), 1)
    assert shares.iloc[2].isna().all()
    above = special.expit(-fit.params.iloc[:3])
    assert np.allclose(shares.iloc[0], -np.diff(np.concatenate([[1], above, [0]])))
    assert np.allclose(shares.loc["v"], fit.predict({"x": [1.0], "g": ["a"]}).iloc[0])  # clipped as in the fit
    assert fit.predict(new, which="class").tolist()[:2] == shares.iloc[:2].idxmax(axis=1).tolist()
    with pytest.raises(ArgumentError, match="which"):
        fit.predict(new, which="linear")
    with pytest.raises(DataError, match="'g'"):
        fit.predict({"x": [1.0]})


@pytest.mark.parametrize("seed", range(3))
def test_cut_points_out_of_order_give_probabilities_all_the_same(seed: int) -> None:
    fit = dp.ordinal(FORMULA, rows(20, seed), 0.02, domain=DOMAIN, seed=seed)
    shares = fit.predict(rows(50)).to_numpy()
    assert shares.min() >= 0
    assert np.allclose(shares.sum(axis=1), 1)


HOSTILE = {
    "one level": {"y": ["good"] * 200},
    "no level known": {"y": ["other"] * 200},
    "an empty level": {"y": ["poor", "fine"] * 100},
    "constant columns": {"x": [1.0] * 200, "g": ["b"] * 200},
    "infinite cells": {"x": [np.inf] * 200},
}


@pytest.mark.slow
@pytest.mark.parametrize("eps", [1e-2, 1e9])
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_rows_are_released_as_others_are(case: str, eps: float) -> None:
    data = rows(200).assign(**HOSTILE[case])
    fit = dp.ordinal(FORMULA, data, eps, domain=DOMAIN, seed=1, on_mismatch="go")
    assert np.isfinite(fit.params).all()
    assert max(map(len, fit.summary().as_text().splitlines())) <= 80
    assert np.isfinite(fit.predict(rows(5)).to_numpy()).all()


def test_no_rows() -> None:
    assert np.isfinite(dp.ordinal(FORMULA, rows(200)[:0], 1.0, domain=DOMAIN, seed=1).params).all()


@pytest.mark.slow
def test_tables_and_storage(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "books.db", dataset="rows", eps=5.0)
    fit = dp.ordinal(FORMULA, rows(4000), 3.0, domain=DOMAIN, ledger=ledger, label="table 2", analyst="Ada")
    assert fit.guarantee == dp.Guarantee(3.0, basis="docs/proofs/ordinal")
    assert ledger.entries().iloc[-1]["method"] == "ordinal"
    plan = dp.plan_ordinal(FORMULA, DOMAIN, 3.0)
    assert plan.names == tuple(fit.params.index)
    assert plan.df_model == 3
    for table in (plan.summary(), fit.summary(), fit.summary(full=True)):
        text = table.as_text()
        assert max(map(len, text.splitlines())) <= 80
        assert "the odds of a higher level of y" in text
    assert "polr" in " ".join(plan.summary().as_text().split())
    ratios = fit.tidy(exponentiate=True).set_index("term")
    assert ratios.loc["x", "estimate"] == pytest.approx(np.exp(fit.debiased["x"]))
    assert fit.glance().loc[0, "family"] == "ordinal"
    assert fit.levels == tuple(LEVELS)
    fit.save(tmp_path / "fit.json")
    again = dp.OrdinalResults.load(tmp_path / "fit.json")
    assert again.params.equals(fit.params)
    assert again.summary().as_text() == fit.summary().as_text()
    assert again.predict(rows(5)).equals(fit.predict(rows(5)))
    assert dp.Plan.from_dict(plan.to_dict()).digest() == plan.digest()
    assert "good|fine" in dp.etable([fit]).summary().as_text()
    assert fit.fitstats.loc["slopes", "df"] == 3
    for name in ("get_prediction", "get_margeff", "comparisons", "predictions"):
        with pytest.raises(ArgumentError, match=r"fit\.(predict|tidy)"):
            getattr(fit, name)()
    with pytest.raises(ArgumentError, match=r"what dp\.plan_ordinal returns"):
        fit.plan.fit(rows(100))


def test_files_and_adjacency(tmp_path: Path) -> None:
    data = rows(400)
    data.to_csv(tmp_path / "rows.csv", index=False)
    given: dict[str, Any] = {"domain": DOMAIN, "seed": 3, "adjacency": "replace_one"}
    fit, read = (dp.ordinal(FORMULA, one, 1.0, **given) for one in (data, tmp_path / "rows.csv"))
    assert fit.nobs == 400
    assert np.allclose(read.params, fit.params)
    assert dp.ordinal(FORMULA, data, 1.0, domain=DOMAIN, seed=1, inference=None).has_errors is False


def test_levels_may_be_numbers_and_cut() -> None:
    data = rows(500).assign(score=lambda frame: frame["x"])
    domain = {"score": (-1, 1), "g": ["a", "b", "c"]}
    fit = dp.ordinal("cut(score, [-1, -0.4, 0.4, 1]) ~ g + subset(g != 'c')", data, 3.0, domain=domain, seed=1)
    assert len(fit.levels) == 3
    assert list(fit.params.index) == ["(-1, -0.4]|(-0.4, 0.4]", "(-0.4, 0.4]|(0.4, 1]", "g[T.b]"]


def test_a_family_stays_beside_its_plan() -> None:
    family = CumulativeLogit()
    assert dp.families.from_dict(family.to_dict()) == family
    assert family.pieced
    assert not dp.families.Binomial().pieced


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "two levels": ({"domain": {**DOMAIN, "y": ["no", "yes"]}}, "3 to 64"),
    "a number": ({"domain": {**DOMAIN, "y": (0, 3)}}, "declared levels"),
    "no intercept": ({"formula": "y ~ x - 1"}, "intercept cannot be left out"),
    "contrast": ({"formula": "C(y, Treatment('good')) ~ x"}, "does not set the order"),
    "weights": ({"formula": "y ~ x + weights(x)"}, "not offered"),
    "offset": ({"formula": "y ~ g + offset(x)"}, "not offered"),
    "reserved": ({"formula": f"y ~ {CUT}", "domain": {**DOMAIN, CUT: (0, 1)}}, "rename it"),
    "undeclared": ({"formula": "y ~ ward"}, "'ward' is not declared"),
    "unit": ({"unit": "g"}, "unit is not offered by dp.ordinal"),
    "delta": ({"delta": 1e-6}, "delta is not offered by dp.ordinal"),
    "ranges": ({"ranges": "bought"}, "ranges is not offered by dp.ordinal"),
    "inference": ({"inference": "HC3"}, "inference"),
    "spread": ({"spread_share": 0.1}, "spread_share"),
    "eps": ({"eps": 0.0}, "eps"),
    "curvature": ({"curvature": 1e-9}, "curvature is too small"),
    "adjacency": ({"adjacency": "bounded"}, "adjacency"),
    "rows": ({"rows_at_most": 0}, "rows_at_most"),
    "formula": ({"formula": 3}, "formula must be a string"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_before_a_charge(case: str, tmp_path: Path) -> None:
    wrong, message = BAD[case]
    ledger = dp.Ledger(tmp_path / "books.db", dataset="rows", eps=5.0)
    asked: dict[str, Any] = {"formula": FORMULA, "eps": 1.0, "domain": DOMAIN, **wrong}
    with pytest.raises((ArgumentError, DomainError, FormulaError), match=message) as refused:
        dp.ordinal(data=rows(50), ledger=ledger, **asked)
    assert isinstance(refused.value, DPStatsError)
    with pytest.raises(DataError, match="'g'"):
        dp.ordinal(FORMULA, rows(50).drop(columns="g"), 1.0, domain=DOMAIN, ledger=ledger)
    assert len(ledger.entries()) == 0


def test_the_domain_of_the_ledger_serves(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "books.db", dataset="rows", eps=5.0, domain=DOMAIN)
    fit = dp.ordinal(FORMULA, rows(300), 1.0, ledger=ledger)
    assert fit.levels == tuple(LEVELS)


def test_levels_keep_their_order() -> None:
    turned = dp.ordinal(FORMULA, rows(2000), 1e4, domain={**DOMAIN, "y": LEVELS[::-1]}, seed=1)
    fit = dp.ordinal(FORMULA, rows(2000), 1e4, domain=DOMAIN, seed=1)
    assert np.allclose(turned.params.iloc[3:], -fit.params.iloc[3:], atol=0.02)
    assert all(low < high for low, high in pairwise(fit.params.iloc[:3]))
    assert np.allclose(turned.predict(rows(9))[LEVELS], fit.predict(rows(9)), atol=0.02)


def test_domains_are_coerced() -> None:
    assert dp.plan_ordinal(FORMULA, Domain(DOMAIN), 1.0).digest() == dp.plan_ordinal(FORMULA, DOMAIN, 1.0).digest()


def test_what_is_not_there_says_why() -> None:
    fit = dp.ordinal(FORMULA, rows(200), 1.0, domain=DOMAIN, seed=1)
    for name in ("resid", "aic", "prsquared", "fittedvalues"):
        with pytest.raises(dp.errors.NotReleasedError, match=f"{name} was not released"):
            getattr(fit, name)
    with pytest.raises(AttributeError, match="no attribute 'zzz'"):
        _ = fit.zzz


def measures(fit: dp.OrdinalResults, data: pd.DataFrame) -> dict[str, float]:
    """The metrics by the probabilities themselves."""
    shares, codes = fit.predict(data).to_numpy(), pd.Categorical(data["y"], fit.levels).codes
    own, base = shares[np.arange(len(codes)), codes], np.bincount(codes, minlength=shares.shape[1]) / len(codes)
    beyond = codes[:, None] <= np.arange(shares.shape[1] - 1)
    return {
        "accuracy": float(np.mean(shares.argmax(axis=1) == codes)),
        "mae": float(np.mean(np.abs(shares.argmax(axis=1) - codes))),
        "ranked probability score": float(np.mean((shares.cumsum(axis=1)[:, :-1] - beyond) ** 2)),
        "log score": float(-np.log(own).mean()),
        "deviance explained": float(1 - np.log(own).sum() / np.log(base[codes]).sum()),
    }


@pytest.mark.parametrize("eps", [0.3, 3.0])
def test_an_evaluation_measures_what_it_says(eps: float) -> None:
    """Twelve evaluations of one fit: within 5 standard errors of the noise and the error of cells, and unbiased."""
    fit, data = dp.ordinal(FORMULA, rows(4000), 2.0, domain=DOMAIN, seed=1), rows(6000, 5)
    truth = pd.Series(measures(fit, data))
    found = [dp.evaluate(fit, data, eps, seed=seed).metrics for seed in range(12)]
    for one in found:
        assert one.index.tolist() == truth.index.tolist()
        assert np.all(np.abs(one["estimate"] - truth) < 5 * one["noise_se"] + one["cells"])
    mean = sum(one["estimate"] for one in found) / 12
    assert np.all(np.abs(mean - truth) < 5 * found[0]["noise_se"] / 12**0.5 + found[0]["cells"])


@pytest.mark.slow
def test_an_evaluation_takes_files_sides_and_expressions(tmp_path: Path) -> None:
    data = rows(6000)
    ledger = dp.Ledger(tmp_path / "books.db", dataset="rows", eps=5.0, domain=DOMAIN)
    split = dp.holdout(data, share=0.3, ledger=ledger)
    fit = dp.ordinal(FORMULA, data, 1.0, ledger=split.train_ledger)
    quality = dp.evaluate(fit, data, 1.0, ledger=split.test_ledger, metrics=["accuracy", "mae"])
    assert quality.rows == pytest.approx(1800, abs=250)
    assert quality.guarantee == dp.Guarantee(1.0, basis="docs/proofs/evaluation")
    data.to_csv(tmp_path / "rows.csv", index=False)
    loaded = dp.OrdinalResults.from_dict(fit.to_dict())
    again, other = (dp.evaluate(one, tmp_path / "rows.csv", 1.0, seed=1) for one in (fit, loaded))
    assert again.metrics.equals(other.metrics)
    assert max(map(len, again.summary().as_text().splitlines())) <= 80
    assert dp.evaluate(fit, rows(3), 0.1, seed=1).metrics["estimate"].isna().all()
    with pytest.raises(ArgumentError, match="metrics must be among"):
        dp.evaluate(fit, data, 1.0, metrics=["roc"])
    with pytest.raises(ArgumentError, match="unit is not offered"):
        dp.evaluate(fit, data.assign(who=1), 1.0, unit="who")
    with pytest.raises(DataError, match="'y'"):
        dp.evaluate(fit, data.drop(columns="y"), 1.0)


@pytest.mark.parametrize("eps", [1e-4, 0.01])
def test_points_far_apart_and_out_of_order_are_measured(eps: float) -> None:
    for seed in range(3):
        fit = dp.ordinal(FORMULA, rows(20, seed), eps, domain=DOMAIN, seed=seed, on_mismatch="go")
        found = dp.evaluate(fit, rows(4000), 100.0, seed=1).metrics
        assert found["estimate"].notna().all()
        truth = measures(fit, rows(4000))
        assert found.loc["accuracy", "estimate"] == pytest.approx(truth["accuracy"], abs=0.01)

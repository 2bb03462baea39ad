"""Weights, offsets, exposures and counts of trials in fits, beside statsmodels and beside plain fits.

Budgets are huge where figures are compared, so that nothing here can fail by chance; seeds are fixed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpstats as dp
from dpstats.errors import ArgumentError, DataError, DomainError, FormulaError
from dpstats.mechanisms import information_release as information

HUGE = 1e6
N = 4000
DOMAIN = {
    **{"x": (0, 1), "t": (0.1, 30), "w": (0, 6), "g": ["a", "b", "c"], "one": (0, 1), "zero": (-1, 1)},
    **{"y": (0, 60), "s": (0, 12), "f": (0, 12), "b": (0, 1), "z": (-5, 20)},
}
POISSON = dp.families.Poisson(mean_cap=60.0, y_max=60.0)
CLOSE = {"rtol": 2e-3, "atol": 2e-3}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x, t, g = rng.uniform(0, 1, N), rng.uniform(0.5, 20, N), rng.choice(list("abc"), N)
    chance = 1 / (1 + np.exp(0.5 - 1.2 * x))
    trials = rng.integers(1, 12, N)
    successes = rng.binomial(trials, chance)
    return pd.DataFrame(
        {
            **{"x": x, "t": t, "g": g, "w": rng.integers(1, 6, N).astype(float)},
            **{"one": np.ones(N), "zero": np.zeros(N)},
            "y": rng.poisson(t * np.exp(-2 + x + 0.5 * (g == "b"))),
            **{"s": successes, "f": trials - successes, "b": (rng.uniform(size=N) < chance).astype(int)},
            "z": 1 + 2 * x + 0.3 * t + rng.normal(0, 0.5, N),
        }
    )


def fit(data: Any, formula: str, family: Any, **arguments: Any) -> dp.GLMResults:
    settings = {"domain": DOMAIN, "seed": 1, "curvature": 1e-4, "inference": True, **arguments}
    return dp.glm(formula, data, HUGE, family=family, **settings)


def same(released: dp.GLMResults, expected: Any, errors: Any = None) -> None:
    np.testing.assert_allclose(released.params, expected.params, **CLOSE)
    np.testing.assert_allclose(released.debiased, expected.params, **CLOSE)
    if errors is not None:
        np.testing.assert_allclose(released.bse, errors.bse, rtol=0.02)


class TestStatsmodels:
    """At a huge budget the fit is the one without privacy."""

    def test_exposure(self, data: pd.DataFrame) -> None:
        released = fit(data, "y ~ x + g", POISSON, exposure="t")
        model = smf.glm("y ~ x + g", data, family=sm.families.Poisson(), exposure=data["t"])
        expected = model.fit()
        same(released, expected, model.fit(scale="X2"))
        written = fit(data, "y ~ x + g + offset(np.log(t))", POISSON)
        assert (written.params == released.params).all()
        np.testing.assert_allclose(released.predict(data), expected.predict(data, exposure=data["t"]), **CLOSE)
        unit = expected.predict(data, exposure=np.ones(N))
        np.testing.assert_allclose(released.predict(data.drop(columns="t"), offset=0), unit, **CLOSE)
        np.testing.assert_allclose(
            released.predict(data.drop(columns="t"), offset=np.log(data["t"])), released.predict(data), rtol=1e-12
        )

    def test_offset_of_a_continuous_response(self, data: pd.DataFrame) -> None:
        released = fit(data, "z ~ x + g", dp.families.Gaussian(residual_cap=100), offset="0.3 * t")
        expected = smf.glm("z ~ x + g", data, offset=0.3 * data["t"]).fit()
        same(released, expected, expected)
        np.testing.assert_allclose(released.predict(data), expected.predict(data, offset=0.3 * data["t"]), **CLOSE)
        found = released.get_prediction(data[:50])
        np.testing.assert_allclose(found.predicted_mean, expected.predict(data, offset=0.3 * data["t"])[:50], **CLOSE)
        without = released.get_prediction(data[:50].drop(columns="t"), offset=0)
        np.testing.assert_allclose(found.predicted_mean - without.predicted_mean, 0.3 * data["t"][:50], **CLOSE)
        np.testing.assert_allclose(without.se_mean, found.se_mean, rtol=1e-6)

    @pytest.mark.parametrize(
        ("formula", "family", "likelihood", "offset"),
        [
            ("b ~ x + g", "binomial", sm.families.Binomial(), None),
            ("y ~ x + g", POISSON, sm.families.Poisson(), "np.log(t)"),
            ("z ~ x + g", dp.families.Gaussian(residual_cap=100), sm.families.Gaussian(), "0.3 * t"),
        ],
    )
    def test_weights(self, data: pd.DataFrame, formula: str, family: Any, likelihood: Any, offset: str | None) -> None:
        """Coefficients of either kind of weights, and the errors of a survey: the sandwich."""
        released = fit(data, formula, family, weights="w", offset=offset)
        more = {} if offset is None else {"offset": data.eval(offset.replace("np.", ""))}
        model = smf.glm(formula, data, family=likelihood, var_weights=data["w"], **more)
        same(released, model.fit(), model.fit(cov_type="HC0"))

    def test_counts(self, data: pd.DataFrame) -> None:
        released = fit(data, "s + f ~ x + g", "binomial")
        expected = smf.glm("s + f ~ x + g", data, family=sm.families.Binomial()).fit()
        same(released, expected, expected)
        np.testing.assert_allclose(released.predict(data), expected.predict(data), **CLOSE)
        bound = fit(data, "cbind(s, f) ~ x + g", "binomial")
        assert (bound.params == released.params).all()
        fewer = fit(
            data, "s + f ~ x + g", dp.families.BinomialCounts(trials=11), domain={"x": (0, 1), "g": list("abc")}
        )
        same(fewer, expected, expected)
        assert released.scale == pytest.approx(1.0)

    def test_weighted_counts(self, data: pd.DataFrame) -> None:
        released = fit(data, "s + f ~ x + g", "binomial", weights="w")
        model = smf.glm("s + f ~ x + g", data, family=sm.families.Binomial(), var_weights=data["w"])
        same(released, model.fit(), model.fit(cov_type="HC0"))

    def test_arrays(self, data: pd.DataFrame) -> None:
        exog = np.column_stack([np.ones(N), data["x"]]) / np.sqrt(2)
        offset = np.log(data["t"]).to_numpy()
        model = dp.GLM(
            data["y"], exog, POISSON, weights=data["w"], offset=offset, weight_bound=6.0, offset_bound=5.0, row_norm=1.0
        )
        released = model.fit(HUGE, seed=1, curvature=1e-4, inference=True)
        expected = sm.GLM(
            data["y"], exog, family=sm.families.Poisson(), var_weights=data["w"], offset=offset
        )  # fmt: skip
        same(released, expected.fit(), expected.fit(cov_type="HC0"))
        np.testing.assert_allclose(
            released.predict(exog, offset=offset), expected.fit().predict(exog, offset=offset), **CLOSE
        )
        with pytest.raises(ArgumentError, match="offset=0"):
            released.predict(exog)

    def test_arrays_of_shares(self, data: pd.DataFrame) -> None:
        """Trials as weights; without them nothing says of how many trials a share is: errors are robust then too."""
        exog, trials = np.column_stack([np.ones(N), data["x"]]) / np.sqrt(2), data["s"] + data["f"]
        share, family = (data["s"] / trials).to_numpy(), dp.families.BinomialCounts()
        model = sm.GLM(data[["s", "f"]], exog, family=sm.families.Binomial())
        released = dp.GLM(share, exog, family, weights=trials, weight_bound=11, row_norm=1.0).fit(
            HUGE, seed=1, curvature=1e-4
        )
        same(released, model.fit(), model.fit(cov_type="HC0"))
        alone = dp.GLM(share, exog, family, row_norm=1.0).fit(HUGE, seed=1, curvature=1e-4)
        plain = sm.GLM(share, exog, family=sm.families.Binomial())
        same(alone, plain.fit(), plain.fit(cov_type="HC0"))


class TestNeutral:
    """Weights 1 and offset 0 change no digit of a seeded release."""

    @pytest.mark.parametrize(
        "arguments", [{"weights": "one"}, {"offset": "zero"}, {"weights": "one", "offset": "zero"}]
    )
    @pytest.mark.parametrize(
        ("formula", "family", "more"),
        [
            ("b ~ x + g", "binomial", {"inference": "robust"}),
            ("y ~ x + g", POISSON, {"inference": "robust"}),
            ("z ~ x + g", "gaussian", {"inference": "robust"}),
            ("b ~ x + g", "huber_svm", {"penalty": "lasso", "alpha": 2.0, "inference": None}),
            ("z ~ x + g", "gaussian", {"stages": 2, "inference": None, "delta": 1e-6}),
            ("b ~ x + g", "binomial", {"screen": 1, "inference": None}),
            ("b ~ x + g", "binomial", {"method": "output"}),
        ],
    )
    def test_frames(self, data: pd.DataFrame, formula: str, family: Any, more: Any, arguments: dict[str, str]) -> None:
        # A count would draw for one column more.
        common = {"domain": DOMAIN, "family": family, "seed": 5, "check_share": 0, "fitstats": None, **more}
        plain = dp.glm(formula, data, 1.0, **common)
        other = dp.glm(formula, data, 1.0, **common, **arguments)
        assert (other.scaled_params == plain.scaled_params).all()
        if plain.released is not None:
            assert other.released.to_dict() == plain.released.to_dict()

    def test_arrays(self, data: pd.DataFrame) -> None:
        exog = np.column_stack([np.ones(N), data["x"]]) / np.sqrt(2)
        plain = dp.GLM(data["b"], exog, "binomial", row_norm=1.0).fit(1.0, seed=5, inference="robust")
        model = dp.GLM(
            data["b"], exog, "binomial", weights=np.full(N, 4.0), offset=np.zeros(N), weight_bound=4.0, row_norm=1.0
        )
        other = model.fit(1.0, seed=5, inference="robust")
        assert (other.scaled_params == plain.scaled_params).all()
        assert other.released.to_dict() == plain.released.to_dict()


class TestRows:
    """Which rows count, and how much."""

    def test_rows_without_a_weight_are_dropped(self, data: pd.DataFrame) -> None:
        bad = data.copy()
        bad.loc[:9, "w"] = [np.nan, np.inf, -np.inf, -3.0, 0.0] * 2
        kept = fit(data[10:], "b ~ x", "binomial", weights="w")
        assert (fit(bad, "b ~ x", "binomial", weights="w").params == kept.params).all()

    def test_weights_beyond_the_range_count_as_its_end(self, data: pd.DataFrame) -> None:
        high, held = data.assign(w=1e12), data.assign(w=6.0)
        assert (
            fit(high, "b ~ x", "binomial", weights="w", check_share=0).params
            == fit(held, "b ~ x", "binomial", weights="w", check_share=0).params
        ).all()

    def test_their_unit_does_not_matter(self, data: pd.DataFrame) -> None:
        """What counts is the weight over the upper end of its range, never over the data's sum."""
        one = fit(data, "b ~ x", "binomial", weights="w")
        other = fit(
            data.assign(w=1024 * data["w"]), "b ~ x", "binomial", weights="w", domain={**DOMAIN, "w": (0, 6144)}
        )
        assert (one.params == other.params).all()

    def test_offsets_are_clipped_to_their_range(self, data: pd.DataFrame) -> None:
        far = fit(data.assign(t=1e9), "z ~ x", "gaussian", offset="t", on_mismatch="go")
        assert (far.params == fit(data.assign(t=30.0), "z ~ x", "gaussian", offset="t").params).all()
        design = dp.plan("z ~ x", DOMAIN, 1.0, offset="t").design
        block = design.blocks(data.assign(t=[*([1e300] * 5), *([np.nan] * 5), *data["t"][10:]]))[0]
        assert np.abs(block.offset).max() <= design.offset_bound
        assert len(block.endog) == N - 5

    def test_exposures_that_are_not_positive_are_dropped(self, data: pd.DataFrame) -> None:
        bad = data.copy()
        bad.loc[:9, "t"] = [0.0, -1.0, np.nan, np.inf, -np.inf] * 2
        domain = {**DOMAIN, "t": (0, 30)}
        kept = fit(data[10:], "y ~ x", POISSON, exposure="t", domain=domain)
        assert (fit(bad, "y ~ x", POISSON, exposure="t", domain=domain).params == kept.params).all()

    def test_rows_of_no_trials_are_dropped(self, data: pd.DataFrame) -> None:
        bad = data.copy()
        bad.loc[:9, ["s", "f"]] = [[0, 0], [-1, 3], [2, -2], [0, 0], [-5, -5]] * 2
        domain = {**DOMAIN, "s": (-12, 12), "f": (-12, 12)}
        kept = fit(data[10:], "s + f ~ x", "binomial", domain=domain)
        assert (fit(bad, "s + f ~ x", "binomial", domain=domain).params == kept.params).all()


class TestPurchases:
    def test_the_rate_is_bought_where_there_is_an_exposure(self, data: pd.DataFrame) -> None:
        for weights in (None, "w"):
            released = fit(data, "y ~ x", "poisson", exposure="t", curvature=None, weights=weights)
            weight = np.ones(N) if weights is None else data["w"]
            assert released.plan.response.mean == pytest.approx(
                np.average(data["y"], weights=weight) / np.average(data["t"], weights=weight), rel=2e-3
            )
            assert "rate" in released.summary(full=True).as_text()

    def test_the_mean_is_weighted(self, data: pd.DataFrame) -> None:
        released = fit(data, "y ~ x", "poisson", curvature=None, weights="w")
        assert released.plan.response.mean == pytest.approx(np.average(data["y"], weights=data["w"]), rel=2e-3)

    def test_the_interval_is_of_what_the_offset_leaves(self, data: pd.DataFrame) -> None:
        """0.3 t explains most of z: the interval is narrower than without."""
        with_offset = fit(data, "z ~ x", "gaussian", offset="0.3 * t", response="bought")
        without = fit(data, "z ~ x", "gaussian", response="bought")
        width = [found.plan.response.high - found.plan.response.low for found in (with_offset, without)]
        assert width[0] <= 0.75 * width[1]
        expected = smf.glm("z ~ x", data, offset=0.3 * data["t"]).fit()
        np.testing.assert_allclose(with_offset.params, expected.params, atol=0.1)

    def test_ranges_of_weights_and_offsets_are_bought_if_left_open(self, data: pd.DataFrame) -> None:
        domain = {name: DOMAIN[name] for name in ("b", "x")}
        released = fit(data, "b ~ x", "binomial", weights="w", offset="zero + t - t", domain=domain)
        assert set(released.plan.bought) == {"w", "zero", "t"}


class TestInference:
    def test_weights_buy_the_robust_spread(self, data: pd.DataFrame) -> None:
        for wanted in ("auto", True, "robust"):
            plan = dp.plan("b ~ x", DOMAIN, 1.0, family="binomial", weights="w", inference=wanted)
            assert plan.stages[-1].plan.information.purchase.spread == "robust"
            assert "robust variances" in set(plan.budget["buys"])
        with pytest.raises(ArgumentError, match="'robust'"):
            dp.plan("b ~ x", DOMAIN, 1.0, family="binomial", weights="w", inference="model")

    def test_counts_and_offsets_need_not(self) -> None:
        for arguments in ({"formula": "s + f ~ x"}, {"formula": "b ~ x", "offset": "t"}):
            plan = dp.plan(domain=DOMAIN, eps=1.0, family="binomial", **arguments)
            assert plan.stages[-1].plan.information.purchase.spread == "known"

    def test_an_offset_costs_nothing(self) -> None:
        """The loss curve is over all linear predictors: noise and curvature are what they are without."""
        plain = dp.plan("y ~ x", DOMAIN, 1.0, family=POISSON)
        shifted = dp.plan("y ~ x", DOMAIN, 1.0, family=POISSON, exposure="t")
        assert (plain.noise_sd == shifted.noise_sd).all()
        assert (plain.curvature == shifted.curvature).all()
        assert plain.eps == shifted.eps


class TestPlantedErrors:
    """What would be wrong without being less private."""

    def test_an_offset_left_out_of_the_information(self, data: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
        model = smf.glm("y ~ x + g", data, family=sm.families.Poisson(), offset=np.log(data["t"]))
        right, errors = fit(data, "y ~ x + g", POISSON, exposure="t", inference="robust"), model.fit(cov_type="HC0").bse
        np.testing.assert_allclose(right.bse, errors, rtol=0.02)
        monkeypatch.setattr(
            information, "linear_predictors", lambda params, block: information.linear_predictor(block.exog, params)
        )
        wrong = fit(data, "y ~ x + g", POISSON, exposure="t", inference="robust")
        assert (np.abs(wrong.bse / errors - 1) > 0.03).all()

    def test_weights_left_out_of_the_scores(self, data: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
        right = information._bends_and_slopes

        def unweighted(family: Any, params: Any, block: Any, cap: Any, *, slopes: bool, **_: Any) -> Any:
            bends, _ = right(family, params, block, cap, slopes=slopes)
            return bends, right(family, params, block._replace(weights=None), cap, slopes=slopes)[1]

        monkeypatch.setattr(information, "_bends_and_slopes", unweighted)
        model = smf.glm("b ~ x + g", data, family=sm.families.Binomial(), var_weights=data["w"])
        wrong = fit(data, "b ~ x + g", "binomial", weights="w")
        assert (np.abs(wrong.bse / model.fit(cov_type="HC0").bse - 1) > 0.1).all()


class TestAround:
    """Plans, ledgers, files, evaluations and checks know of them."""

    def test_saved_and_loaded(self, data: pd.DataFrame, tmp_path: Path) -> None:
        for formula, family, more in (
            ("y ~ x + g", POISSON, {"exposure": "t", "weights": "w"}),
            ("s + f ~ x", "binomial", {}),
        ):
            released = fit(data, formula, family, **more)
            released.save(tmp_path / "fit.json")
            loaded = dp.GLMResults.load(tmp_path / "fit.json")
            assert (loaded.predict(data) == released.predict(data)).all()
            assert (loaded.bse == released.bse).all()
            assert loaded.plan.digest() == released.plan.digest()

    def test_summaries_name_them(self, data: pd.DataFrame) -> None:
        text = fit(data, "y ~ x", POISSON, exposure="t", weights="w").summary(full=True).as_text()
        assert {"Offset:", "np.log(t)", "Weights:"} <= set(text.split())
        assert max(map(len, text.splitlines())) <= 80
        assert "one row counts at most once" in " ".join(text.split()).replace("[5] ", "")
        assert "Trials at most" in fit(data, "s + f ~ x", "binomial").summary(full=True).as_text()
        short = " ".join(str(fit(data, "y ~ x", POISSON, exposure="t", weights="w").summary()).split())
        assert "weights: w; offset: np.log(t)" in short
        assert "Offset:" in dp.plan("z ~ x", DOMAIN, 1.0, offset="t").summary().as_text()

    def test_ledger(self, data: pd.DataFrame, tmp_path: Path) -> None:
        ledger = dp.Ledger(tmp_path / "l", dataset="d", eps=10.0)
        dp.glm("y ~ x", data, 1.0, family=POISSON, domain=DOMAIN, exposure="t", weights="w", ledger=ledger)
        assert "weights(w) + offset(np.log(t))" in str(ledger.entries()["formula"].iloc[-1])

    def test_many(self, data: pd.DataFrame) -> None:
        models = {
            "rates": {"formula": "y ~ x", "family": POISSON, "exposure": "t", "weights": "w"},
            "counts": {"formula": "s + f ~ x", "family": "binomial"},
        }
        plans = dp.plan_many(models, DOMAIN, 2.0, weights=[3, 1])
        released = plans.fit(data, seed=1)
        assert "weights(w)" in plans["rates"].formula
        assert released["rates"].plan.eps == pytest.approx(1.5)

    def test_evaluation(self, data: pd.DataFrame) -> None:
        released = fit(data, "y ~ x + g", POISSON, exposure="t", weights="w")
        found = dp.evaluate(released, data, HUGE, seed=1)
        weight, mean = data["w"], released.predict(data)
        share = weight / weight.sum()
        count = data["y"].to_numpy(dtype=float)
        unit = 2 * (count * np.log(np.maximum(count, 1e-300) / mean) - (count - mean))
        null = 2 * (count * np.log(np.maximum(count, 1e-300) / (share @ count)) - (count - share @ count))
        assert found.metrics.loc["deviance explained", "estimate"] == pytest.approx(
            1 - (share @ unit) / (share @ null), abs=0.02
        )
        assert found.rows == pytest.approx(weight.sum() / 6, rel=1e-3)
        assert any("weighted" in note for note in found.notes)

    @pytest.mark.slow
    def test_evaluation_of_counts(self, data: pd.DataFrame) -> None:
        released = fit(data, "s + f ~ x", "binomial")
        found = dp.evaluate(released, data, HUGE, seed=1)
        trials, chance = data["s"] + data["f"], released.predict(data)
        brier = (data["s"] * (1 - chance) ** 2 + data["f"] * chance**2).sum() / trials.sum()
        row = found.metrics.loc["brier"]
        assert row["estimate"] == pytest.approx(brier, abs=1e-3)
        singles = data.loc[data.index.repeat(trials)]
        first = singles.groupby(level=0).cumcount() < singles["s"]
        alone = dp.evaluate(
            fit(singles.assign(b=first.astype(int)), "b ~ x", "binomial"),
            singles.assign(b=first.astype(int)),
            HUGE,
            seed=1,
        )
        assert row["sampling_se"] == pytest.approx(alone.metrics.loc["brier", "sampling_se"], rel=0.02)

    def test_evaluation_of_arrays(self, data: pd.DataFrame) -> None:
        exog = np.column_stack([np.ones(N), data["x"]]) / np.sqrt(2)
        offset = np.log(data["t"]).to_numpy()
        beside = {"weights": data["w"].to_numpy(), "offset": offset}
        released = dp.GLM(data["y"], exog, POISSON, **beside, weight_bound=6.0, row_norm=1.0).fit(
            HUGE, seed=1, curvature=1e-4
        )
        found = dp.evaluate(released, (data["y"], exog), HUGE, seed=1, **beside)
        assert found.rows == pytest.approx(data["w"].sum() / 6, rel=1e-3)
        with pytest.raises(ArgumentError, match="offset"):
            dp.evaluate(released, (data["y"], exog), HUGE, seed=1)

    @pytest.mark.slow
    def test_pictures(self, data: pd.DataFrame) -> None:
        """An offset's columns are held like others, and may be what varies."""
        released = fit(data, "y ~ x", POISSON, exposure="t")
        lines = released.plot("effect", column="t").lines[0].get_ydata()
        assert lines[-1] / lines[0] == pytest.approx(300, rel=1e-6)
        assert "success" in fit(data, "s + f ~ x", "binomial").plot("effect", column="x").get_ylabel()

    def test_check(self, data: pd.DataFrame) -> None:
        bad = data.copy()
        bad.loc[:99, "w"] = np.nan
        bad.loc[100:299, "t"] = np.nan
        found = dp.check("y ~ x", bad, DOMAIN, 100.0, family="poisson", exposure="t", weights="w", seed=1)
        lost = found.table[found.table["fault"] == "lost"].set_index("column")["rows"]
        assert lost["w"] == pytest.approx(100, abs=1)
        assert lost["t"] == pytest.approx(200, abs=1)


class TestRefusedBeforeTheCharge:
    """Nothing is spent, and no message quotes a cell."""

    @pytest.mark.parametrize(
        ("formula", "arguments", "error", "said"),
        [
            ("b ~ x", {"weights": np.arange(4000.0)}, ArgumentError, "name of a column.*ndarray"),
            ("b ~ x", {"weights": ""}, ArgumentError, "name of a column"),
            ("b ~ x", {"exposure": "t"}, ArgumentError, "log link"),
            ("b ~ x", {"weights": "nobody"}, (DataError, DomainError), "nobody"),
            ("b ~ x", {"weights": "g"}, FormulaError, "levels"),
            ("b ~ x", {"weights": "-w"}, DomainError, "range above 0"),
            ("b ~ x", {"weights": "w - w.mean()"}, FormulaError, "combine rows"),
            ("b ~ x", {"offset": "np.log(-1 - x)"}, FormulaError, "not finite"),
            ("z + y ~ x", {"family": "gaussian"}, FormulaError, "binomial family"),
            ("s + f ~ x", {"family": "huber_svm"}, FormulaError, "binomial family"),
            ("b ~ x", {"family": "binomial_counts"}, FormulaError, r"successes \+ failures"),
            ("b ~ x", {"weights": "w", "moor": "paper", "penalty": "lasso", "alpha": 1.0, "allow_uncertified": True},
             ArgumentError, "replicated paper"),
            ("b ~ x", {"weights": "w", "inference": "model"}, ArgumentError, "robust"),
        ],
    )  # fmt: skip
    def test_refused(
        self, data: pd.DataFrame, tmp_path: Path, formula: str, arguments: Any, error: Any, said: str
    ) -> None:
        ledger = dp.Ledger(tmp_path / "l", dataset="d", eps=10.0)
        with pytest.raises(error, match=said):
            dp.glm(formula, data, 1.0, **{"family": "binomial", "domain": DOMAIN, "ledger": ledger, **arguments})
        assert len(ledger.entries()) == 0

    def test_arrays(self, data: pd.DataFrame) -> None:
        exog = np.ones((N, 1))
        for arguments, error in (
            ({"weights": np.ones(3)}, DataError),
            ({"weights": np.ones((N, 2))}, DataError),
            ({"offset": np.array(["a"] * N)}, DataError),
            ({"offset": np.zeros(N), "offset_bound": -1.0}, ArgumentError),
            ({"weights": np.ones(N), "weight_bound": 0.0}, ArgumentError),
        ):
            with pytest.raises(error):
                dp.GLM(data["b"], exog, "binomial", row_norm=1.0, **arguments)

    def test_released_statistics(self, data: pd.DataFrame) -> None:
        with pytest.raises(ArgumentError, match="weights, offsets and subsets"):
            dp.release_statistics(DOMAIN, ["z", "x", "weights(w)"], 1.0, data=data)


class TestWhereRowsAre:
    """The same release from files, and from rows that are kept in one."""

    @pytest.mark.parametrize(("formula", "family"), [("y ~ x + g", POISSON), ("s + f ~ x", "binomial")])
    def test_parquet(self, data: pd.DataFrame, tmp_path: Path, formula: str, family: Any) -> None:
        data.to_parquet(tmp_path / "rows.parquet")
        beside = {"weights": "w"} | ({"exposure": "t"} if family is POISSON else {})
        common = {"domain": DOMAIN, "family": family, "seed": 3, "inference": "robust", **beside}
        plain = dp.glm(formula, data, 1.0, **common)
        for more in ({}, {"memory": 1e4}):
            other = dp.glm(formula, tmp_path / "rows.parquet", 1.0, **common, **more)
            np.testing.assert_allclose(other.scaled_params, plain.scaled_params, rtol=1e-9)
            np.testing.assert_allclose(other.released.matrix, plain.released.matrix, rtol=1e-9)
        found = dp.evaluate(plain, tmp_path / "rows.parquet", 1.0, seed=1)
        assert found.to_dict() == dp.evaluate(plain, data, 1.0, seed=1).to_dict()
        assert (plain.predict(tmp_path / "rows.parquet").to_numpy() == plain.predict(data).to_numpy()).all()


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_a_plan_with_weights_tells_of_no_table_by_rows(family: str) -> None:
    """It named one above, which it does not print: weighted fits count their rows, and decide nothing by them."""
    plan = dp.plan("y ~ x", {"x": (0, 1), "w": (0, 2), "y": (0, 1)}, 1.0, family=family, weights="w")
    text = " ".join(str(plan.summary()).split())
    assert "table above" not in text
    assert ("not part of this release; inference=True buys them" in text) == (family == "gaussian")

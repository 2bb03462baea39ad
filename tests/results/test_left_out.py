"""After a selection, predictions and tables are of what is in the model: nothing else is read or listed."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError, DataError
from dpstats.formula.design import DesignSpec

FORMULA = "y ~ x + z + log(w) + g + x:z + bs(w, df=4) + I(x ** 2)"
DOMAIN = {"x": (-1, 1), "z": (-1, 1), "w": (-2, 9), "g": ["a", "b"], "y": (0, 1)}
LEFT_OUT = {"z": [np.nan, 0.1], "w": [-1.0, 0.0], "g": ["nowhere", None]}
"""Cells that would cost a row its prediction."""


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.uniform(-1, 1, (6000, 3)), columns=["x", "z", "w"])
    frame["g"] = random.choice(["a", "b"], 6000)
    frame["y"] = (random.random(6000) < 1 / (1 + np.exp(-3 * frame["x"]))).astype(int)
    frame["w"] += 4
    return frame


@pytest.fixture(scope="module")
def screened(rows: pd.DataFrame) -> dp.GLMResults:
    fit = dp.logit(FORMULA, rows, 20.0, domain=DOMAIN, screen=1, inference=True, seed=1)
    assert fit.selection.index.tolist() == ["Intercept", "x"]
    return fit


@pytest.fixture(scope="module")
def lasso(rows: pd.DataFrame) -> dp.GLMResults:
    found = dp.lasso("y ~ x + z + log(w) + g", rows, 20.0, domain=DOMAIN, family="binomial", alpha=300.0, seed=1)
    assert found.selection.index.tolist() == ["Intercept", "x"]
    return found


def test_predictions_read_what_is_in_the_model_alone(screened: dp.GLMResults, lasso: dp.GLMResults) -> None:
    x = [0.2, -0.4]
    for fit in (screened, lasso):
        whole = fit.predict({"x": x, "z": [0.0, 0.0], "w": [1.0, 2.0], "g": ["a", "b"]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a level that is not read is not warned of
            assert fit.predict({"x": x}).tolist() == fit.predict({"x": x, **LEFT_OUT}).tolist() == whole.tolist()
        with pytest.raises(DataError, match="no column 'x'"):
            fit.predict({"z": x, "w": x, "g": ["a", "b"]})
    assert np.isfinite(screened.get_prediction({"x": x}).se_mean).all()
    assert len(screened.predictions(newdata={"x": x})) == 1
    assert screened.comparisons(newdata={"x": x})["term"].tolist() == ["x"]
    with pytest.raises(ArgumentError, match="'z' is in no term of the model"):
        screened.comparisons("z", newdata={"x": x, "z": x})


def test_predictions_are_those_of_the_whole_design_bit_by_bit(screened: dp.GLMResults, rows: pd.DataFrame) -> None:
    design = screened.plan.design
    assert isinstance(design, DesignSpec)
    exog, _ = design.exog(rows)
    assert screened.predict(rows, "linear").tolist() == (exog @ screened.scaled_params).tolist()


def test_a_model_that_chose_no_column_reads_all(rows: pd.DataFrame) -> None:
    fit = dp.logit("y ~ x + z", rows, 5.0, domain=DOMAIN, seed=1)
    assert fit.predicting_design is fit.plan.design


def test_a_worker_of_a_cluster_reads_the_same(screened: dp.GLMResults, rows: pd.DataFrame) -> None:
    design = screened.predicting_design
    assert isinstance(design, DesignSpec)
    again = pickle.loads(pickle.dumps(design))
    assert again.columns == design.columns == ("y", "x")
    some = rows[["x", "y"]].head(50)
    assert again.exog(some)[0].tolist() == design.exog(some)[0].tolist()


def test_an_evaluation_reads_what_is_in_the_model_alone(screened: dp.GLMResults, rows: pd.DataFrame) -> None:
    whole = dp.evaluate(screened, rows, 1.0, seed=3)
    part = dp.evaluate(screened, rows[["x", "y"]], 1.0, seed=3)
    holed = dp.evaluate(screened, rows.assign(z=np.nan, w=-1.0, g="nowhere"), 1.0, seed=3)
    assert part.guarantee == whole.guarantee == holed.guarantee
    assert part.metrics.equals(whole.metrics)
    assert holed.metrics.equals(whole.metrics)
    with pytest.raises(DataError, match="no column 'x'"):
        dp.evaluate(screened, rows.drop(columns="x"), 1.0)


def test_a_choice_among_models_reads_what_is_in_them_alone(screened: dp.GLMResults, rows: pd.DataFrame) -> None:
    null = dp.logit("y ~ 1", rows, 5.0, domain=DOMAIN, seed=1)
    chosen = dp.select({"null": null, "x": screened}, "mistakes", rows[["x", "y"]], eps=5.0, seed=1)
    assert chosen.chosen == "x"


def test_tables_list_what_is_in_the_model(screened: dp.GLMResults, lasso: dp.GLMResults) -> None:
    for fit in (screened, lasso):
        assert fit.tidy()["term"].tolist() == ["Intercept", "x"]
        coefficients = fit.debiased if fit.has_errors else fit.params
        assert fit.tidy()["estimate"].tolist() == coefficients[fit.in_model].tolist()
        assert len(fit.params) == len(fit.plan.names)
    assert "log(w)" not in str(dp.etable([screened, lasso]))


def test_bins_at_public_rows_are_moved_by_a_step_of_their_column(rows: pd.DataFrame) -> None:
    fit = dp.logit("y ~ cut(x, [-1.5, 0, 1.5]) + z", rows, 20.0, domain=DOMAIN, inference=True, seed=1)
    public = {"x": [-0.2], "z": [0.0]}
    assert fit.comparisons(newdata=public)[["term", "contrast"]].to_numpy().tolist() == [["x", "+1"], ["z", "+1"]]
    (moved,) = fit.comparisons({"x": 0.5}, newdata=public)["estimate"]
    assert moved > 0.3


class TestWhatAShortSummarySaysFirst:
    """Three notes at most: those without which chosen columns are misread, then what holds of any fit."""

    NAMES = tuple(f"x{place}" for place in range(20))

    def arguments(self, size: int) -> tuple[str, pd.DataFrame, dict[str, Any]]:
        """Columns that are correlated by .8, of which three matter."""
        random = np.random.default_rng(0)
        columns = random.normal(size=(size, 20)) @ np.linalg.cholesky(0.8 + 0.2 * np.eye(20)).T
        rows = pd.DataFrame(columns.clip(-3, 3), columns=self.NAMES)
        effect = 0.6 * rows["x1"] - 0.5 * rows["x3"] + 0.25 * rows["x5"]
        rows["y"] = (effect + random.normal(size=size)).clip(-8, 8)
        known = {**dict.fromkeys(self.NAMES, dp.Range(-3, 3, typical=(0, 1))), "y": (-8, 8)}
        return f"y ~ {' + '.join(self.NAMES)}", rows, {"domain": known, "inference": True, "seed": 1}

    def check(self, fit: dp.GLMResults, expected: list[str], further: int) -> None:
        text = fit.summary().as_text()
        places = [text.find(f"\n{start}") for start in expected]
        assert -1 not in places
        assert places == sorted(places)
        assert f"{further} more note{'s' * (further > 1)}: fit.notes" in text
        assert [note for note in fit.notes if note.startswith(tuple(expected))] == fit.notes[: len(expected)]

    @pytest.mark.parametrize("split", [None, "rows"])
    def test_a_blank_column_that_may_stand_for_another_is_explained(self, split: str | None) -> None:
        """The rows that chose, what was left out and the cap on residuals took its place."""
        formula, rows, arguments = self.arguments(6000)
        fit = dp.lasso(formula, rows, 3.0, refit_share=0.5, split=split, **arguments)
        (blank,) = fit.bse[np.isinf(fit.bse)].index
        withheld = [f"No error is shown for {blank}:", "Left out: "]
        if split is None:
            self.check(fit, ["Not adjusted for selection", *withheld], 2)
        else:
            self.check(fit, [*withheld, "Residuals beyond"], 1)

    @pytest.mark.parametrize("split", [None, "rows"])
    def test_a_blank_effect_is_explained_before_the_cap_that_the_title_has(self, split: str | None) -> None:
        formula, rows, arguments = self.arguments(8000)
        fit = dp.ols(formula, rows, 1.5, screen=5, split=split, **arguments)
        assert np.isinf(fit.bse).sum() == 1
        blank = ["Left out: ", "Not identified at this budget:"]
        if split is None:
            self.check(fit, ["Not adjusted for selection", *blank], 2)
        else:
            self.check(fit, [*blank, "Residuals beyond"], 1)

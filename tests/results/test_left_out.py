"""After a selection, predictions and tables are of what is in the model: nothing else is read or listed."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError, DataError
from dpstats.formula.design import DesignSpec

FORMULA = "y ~ x + z + log(w) + g + x:z + bs(x, df=4) + I(x ** 2)"
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
    assert fit.comparisons(newdata=public)["term"].tolist() == ["z"]
    (moved,) = fit.comparisons({"x": 0.5}, newdata=public)["estimate"]
    assert moved > 0.3

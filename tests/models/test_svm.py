"""Support vector machines: losses, levels as labels, decisions and classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.families import HuberSVM, SmoothSVM

LABELS = [["no", "yes"], ["-1", "1"], [False, True], [0, 1], [1, 0]]


def frame_of(labels: list[object], rows: int = 4000) -> pd.DataFrame:
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"x": random.uniform(-1, 1, rows), "g": random.choice(["a", "b"], rows)})
    second = frame["x"] + 0.4 * (frame["g"] == "b") + random.normal(0, 0.2, rows) > 0.2
    return frame.assign(y=[labels[int(one)] for one in second])


def domain_of(labels: list[object]) -> dict[str, object]:
    return {"x": (-1, 1), "g": ["a", "b"], "y": labels}


@pytest.mark.parametrize("method", ["napp", "output"])
@pytest.mark.parametrize("loss", ["huber", "smooth"])
@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_classes_are_the_levels(labels: list[object], loss: str, method: str) -> None:
    frame = frame_of(labels)
    fit = dp.svm("y ~ x + g", frame, 2.0, domain=domain_of(labels), loss=loss, method=method)
    assert isinstance(fit.plan.family, HuberSVM if loss == "huber" else SmoothSVM)
    classes, decision = fit.predict(frame, which="class"), fit.predict(frame, which="decision")
    assert set(classes) <= set(labels)
    # One mistake in ten is what the labels' own noise costs; at this budget the noise adds little.
    assert np.mean(classes == frame["y"]) > 0.85
    assert ((decision > 0) == (classes == labels[1])).all()
    np.testing.assert_array_equal(fit.predict(frame), (decision > 0).astype(float))
    np.testing.assert_array_equal(fit.predict(frame, which="linear"), decision)


def test_numbers_may_stand_in_the_cells_of_levels_given_as_text() -> None:
    frame = frame_of([-1, 1])
    fit = dp.svm("y ~ x + g", frame, 2.0, domain=domain_of(["-1", "1"]))
    assert np.mean(fit.predict(frame, which="class") == frame["y"].astype(str)) > 0.85


def test_missing_cells_have_no_class() -> None:
    labels: list[object] = ["no", "yes"]
    fit = dp.svm("y ~ x + g", frame_of(labels), 1.0, domain=domain_of(labels))
    new = pd.DataFrame({"x": [0.9, np.nan, 0.9], "g": ["a", "a", "other"]}, index=[7, 8, 9])
    with (
        pytest.warns(UserWarning, match="1 of 3 rows have a level of 'g'"),
        pytest.warns(UserWarning, match="1 of 3 rows have no value of 'x', and no prediction"),
    ):
        found = fit.predict(new, which="class")
    assert list(found.index) == [7, 8, 9]
    assert found[7] in labels
    assert found[[8, 9]].isna().all()


def test_a_logistic_model_has_classes_too() -> None:
    labels: list[object] = ["no", "yes"]
    fit = dp.logit("y ~ x + g", frame_of(labels), 1.0, domain=domain_of(labels))
    new = pd.DataFrame({"x": [-0.9, 0.9], "g": ["a", "b"]})
    assert fit.predict(new, which="class").tolist() == labels
    assert ((fit.predict(new) > 0.5) == (fit.predict(new, which="decision") > 0)).all()


def test_arrays_have_the_classes_0_and_1() -> None:
    frame = frame_of([0, 1])
    exog = np.column_stack([frame["x"], frame["g"] == "b"]).astype(float) / 1.5
    fit = dp.GLM(frame["y"].to_numpy(), exog, family="huber_svm", row_norm=1.0).fit(2.0)
    assert set(fit.predict(exog, which="class")) == {0.0, 1.0}
    assert fit.predict(exog, which="decision").shape == (4000,)


def test_a_number_has_no_class() -> None:
    frame = frame_of([0, 1])
    fit = dp.ols("x ~ g", frame, 1.0, domain={"x": (-1, 1), "g": ["a", "b"]})
    for which in ("class", "decision"):
        with pytest.raises(ArgumentError, match="two values"):
            fit.predict(frame, which=which)


@pytest.mark.parametrize("loss", ["hinge", None, ["huber"]])
def test_other_losses_are_refused_before_rows(loss: object) -> None:
    with pytest.raises(ArgumentError, match="loss"):
        dp.svm("y ~ x", None, 1.0, domain=domain_of([0, 1]), loss=loss)  # type: ignore[arg-type]

"""Effects are predictions at public points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from drawn import fitted, predicting
from looking import band_of, caption, legend, marks
from matplotlib import pyplot
from matplotlib.axes import Axes
from scipy import special

import dpstats as dp
from dpstats import plots
from dpstats.errors import ArgumentError
from dpstats.plots.style import CAPTION, HEIGHT, WIDTH


def test_the_effect_is_the_prediction_with_its_band(fit: dp.GLMResults) -> None:
    ax = fit.plot("effect", column="x", at={"z": 2.0, "group": "b"}, points=11, alpha=0.1)
    grid = np.linspace(-2, 2, 11)
    found = fit.get_prediction(pd.DataFrame({"x": grid, "z": 2.0, "group": "b"}), alpha=0.1)
    (line,) = ax.lines
    assert line.get_xydata() == pytest.approx(np.column_stack([grid, found.predicted_mean]))
    corners = band_of(ax)
    for x, ends in zip(grid, found.conf_int(), strict=True):
        heights = corners[np.isclose(corners[:, 0], x), 1]
        assert [heights.min(), heights.max()] == pytest.approx(ends)
    assert ax.get_ylabel() == "Pr(b = yes)"
    assert "Held: z = 2, group = b. Band: 90 % at each point" in caption(ax)
    assert "costs no budget" in caption(ax)


def test_effects_of_levels_are_the_coefficients_of_the_table(fit: dp.GLMResults) -> None:
    (drawn,) = fit.plot("effect", column="group").containers
    linear = special.logit(drawn[0].get_ydata())
    assert np.diff(linear[[0, 1]]) == pytest.approx(fit.debiased["group[T.b]"])
    assert np.diff(linear[[0, 2]]) == pytest.approx(fit.debiased["group[T.c$_$]"])


def test_other_columns_are_held_at_the_middle_and_the_first_level(fit: dp.GLMResults) -> None:
    assert "Held: z = 5, group = a." in caption(fit.plot("effect", column="x"))


@pytest.fixture(scope="module")
def rates() -> dp.GLMResults:
    random = np.random.default_rng(0)
    columns = {"x": random.uniform(-2, 2, 4000), "code": random.integers(0, 2, 4000)}
    columns |= {"share": random.uniform(0, 1, 4000), "years": random.uniform(0.1, 1, 4000)}
    columns["count"] = random.poisson(columns["years"] * np.exp(0.3 * columns["x"]))
    domain = {"x": (-2, 2), "code": dp.Range(0, 1, typical=0.3), "share": (0.0, 1.0), "years": (0, 1), "count": (0, 9)}
    formula = "count ~ x + code + share"
    return dp.poisson(formula, columns, 20.0, domain=domain, exposure="years", inference=True, seed=2)


def test_an_exposure_is_held_at_1_and_codes_at_0(rates: dp.GLMResults) -> None:
    ax = rates.plot("effect", column="x", points=5)
    assert "Held: code = 0, share = 0.5, years = 1. Band" in caption(ax)
    assert "Hatched" not in caption(ax)
    grid = {"x": np.linspace(-2, 2, 5), "code": 0, "share": 0.5, "years": 1.0}
    assert ax.lines[0].get_ydata() == pytest.approx(rates.get_prediction(pd.DataFrame(grid)).predicted_mean)
    half = rates.plot("effect", column="x", points=5, exposure=0.5)
    assert "Held: exposure = 0.5, code = 0, share = 0.5. Band" in caption(half)
    assert half.lines[0].get_ydata() == pytest.approx(0.5 * ax.lines[0].get_ydata())


def test_an_exposure_is_drawn_over_its_range(rates: dp.GLMResults) -> None:
    ax = rates.plot("effect", column="years", points=5)
    drawn = ax.lines[0].get_xydata()
    assert drawn[:, 0] == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert drawn[1:, 1] == pytest.approx(drawn[4, 1] * drawn[1:, 0])
    assert "Hatched" not in caption(ax)  # a rate times 0 is no mean that noise hides
    for wrong in (0, "years"):
        with pytest.raises(ArgumentError, match="exposure must be a positive number"):
            rates.plot("effect", column="x", exposure=wrong)
    with pytest.raises(ArgumentError, match="one that the formula reads: x, code, share;"):
        rates.plot("effect", column="years", exposure=1)


def test_a_line_for_each_value_of_one_other_column(fit: dp.GLMResults) -> None:
    ax = fit.plot("effect", column="x", at={"group": ["a", "c$_$"]}, points=5)
    assert legend(ax) == ["group = a", "group = c$_$"]
    for level in ("a", "c$_$"):
        frame = pd.DataFrame({"x": np.linspace(-2, 2, 5), "z": 5.0, "group": level})
        assert marks(ax, f"group = {level}")[:, 1] == pytest.approx(fit.get_prediction(frame).predicted_mean)
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 2


def test_levels_are_points_with_bars(fit: dp.GLMResults) -> None:
    ax = fit.plot("effect", column="group", at={"x": 1.0})
    found = fit.get_prediction(pd.DataFrame({"x": 1.0, "z": 5.0, "group": ["a", "b", "c$_$"]}))
    (drawn,) = ax.containers
    assert drawn[0].get_xydata() == pytest.approx(np.column_stack([range(3), found.predicted_mean]))
    assert np.array(drawn[2][0].get_segments())[:, :, 1] == pytest.approx(found.conf_int())
    assert [text.get_text() for text in ax.get_xticklabels()] == ["a", "b", "c$_$"]


def test_where_the_effect_is_not_identified_there_is_no_band(fit: dp.GLMResults) -> None:
    numeric = plots.effect(predicting(fit, slice(0, 4)), "x", points=9)
    hatched = [part for part in numeric.collections if part.get_hatch()]
    assert [
        (part.get_paths()[0].vertices[:, 0].min(), part.get_paths()[0].vertices[:, 0].max()) for part in hatched
    ] == [(-2.0, -0.5)]
    assert "Band: 95 % at each point, for sampling error and noise. Hatched: not identified" in caption(numeric)
    nowhere = caption(plots.effect(predicting(fit, slice(0, 9)), "x", points=9))
    assert "Hatched: not identified" in nowhere
    assert "Band" not in nowhere
    by_level = plots.effect(predicting(fit, slice(1, 2)), "group")
    (lost,) = (part for part in by_level.collections if part.get_gid() == "unbounded")
    assert np.array(lost.get_segments())[:, :, 0].tolist() == [[1, 1]]
    assert "Dotted: not identified" in caption(by_level)
    assert "not identified" not in caption(fit.plot("effect", column="x"))


def test_an_effect_without_errors_is_a_line(bare: dp.GLMResults) -> None:
    ax = bare.plot("effect", column="z", points=6)
    frame = pd.DataFrame({"z": np.linspace(0, 10, 6), "x": 0.0, "group": "a"})
    assert ax.lines[0].get_ydata() == pytest.approx(bare.predict(frame).to_numpy())
    assert not ax.collections
    assert "No band" in caption(ax)


@pytest.mark.parametrize(
    ("formula", "family", "label"),
    [("y ~ x + z", "gaussian", "mean of y"), ("count ~ x + z", "poisson", "expected count")],
)
def test_effects_are_on_the_scale_of_the_response(rows: pd.DataFrame, formula: str, family: str, label: str) -> None:
    ax = fitted(rows, formula, family=family, inference=None).plot("effect", column="x")
    assert ax.get_ylabel() == label
    assert set(np.sign(np.diff(ax.lines[0].get_ydata()))) == {1.0}


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        ({"column": "y"}, "one that the formula reads: x, z, group"),
        ({"column": "x", "at": {"x": 1}}, "'x' is not among the other columns"),
        ({"column": "x", "at": {"group": "d"}}, "'group' must be one of"),
        ({"column": "x", "at": {"z": 11}}, r"'z' must lie within its range \(0, 10\)"),
        ({"column": "x", "at": {"z": [1, 2], "group": ["a"]}}, "only one column"),
        ({"column": "x", "at": {"z": []}}, "1 to 6 values"),
        ({"column": "x", "at": ["z"]}, "at must be a dict"),
        ({"column": "x", "points": 1}, "points must be an integer of at least 2"),
        ({"column": "x", "ax": "axes"}, "ax must be matplotlib axes"),
    ],
)
def test_wrong_arguments_of_effects(fit: dp.GLMResults, arguments: dict[str, Any], fix: str) -> None:
    with pytest.raises(ArgumentError, match=fix):
        fit.plot("effect", **arguments)


def test_models_without_effects(rows: pd.DataFrame) -> None:
    arrays = dp.GLM(rows["y"], rows[["x", "z"]], row_norm=12.0).fit(1.0)
    with pytest.raises(ArgumentError, match="plain arrays"):
        arrays.plot("effect", column="x")
    with pytest.raises(ArgumentError, match="by_range"):
        arrays.plot(by_range=True)
    assert len(arrays.plot().get_yticks()) == 2
    with pytest.raises(ArgumentError, match="no mean response"):
        fitted(rows, family="huber_svm").plot("effect", column="x")


def test_a_column_of_two_codes_has_two_points_and_is_held_at_the_first() -> None:
    rng = np.random.default_rng(2)
    data = pd.DataFrame(
        {"smoker": rng.random(2000) < 0.4, "x": rng.uniform(size=2000), "share": rng.uniform(size=2000)}
    )
    data["y"] = 1.0 + data["smoker"] + rng.normal(size=2000)
    domain = {"smoker": bool, "x": (0, 5), "share": (0.0, 1.0), "y": (-3, 6)}
    found = dp.ols("y ~ smoker + x + share", data, 4.0, domain=domain, inference=True, ranges="declared")
    ax = plots.effect(found, "smoker")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "1"]
    assert "Held: x = 2.5, share = 0.5" in caption(ax)
    ax = plots.effect(found, "share", at={"smoker": [0, 1]})
    assert legend(ax) == ["smoker = 0", "smoker = 1"]
    assert len(ax.lines[0].get_xdata()) == 101
    assert "smoker = 0" in caption(plots.effect(found, "x"))


def test_an_effect_ends_where_the_fit_left_rows_out_and_says_so() -> None:
    random = np.random.default_rng(0)
    rows = {name: random.normal(45, 3, 5000) for name in ("x", "z")}
    rows["y"] = (random.random(5000) < 0.5).astype(int)
    inner = {"x": dp.Range(0, 100, inner=(30, 60)), "z": dp.Range(0, 100, inner=(10, 90)), "y": (0, 1)}
    ax = dp.logit("y ~ x + z", rows, 1.0, domain=inner, seed=1).plot("effect", column="x")
    assert ax.get_xlim() == (30, 60)
    assert "Drawn from 30 to 60: of the declared 0 to 100 the fit left out the rows with x beyond." in caption(ax)
    assert "Held: z = 50." in caption(ax)
    lower = inner | {"z": dp.Range(0, 100, inner=(20, 50))}  # not at its end, the middle of the declared range
    assert "Held: z = 35." in caption(dp.logit("y ~ x + z", rows, 1.0, domain=lower, seed=1).plot("effect", column="x"))
    typical = inner | {"z": dp.Range(0, 100, typical=(44, 3)), "x": (0, 100)}
    ax = dp.logit("y ~ x + z", rows, 1.0, domain=typical, seed=1, ranges="declared").plot("effect", column="x")
    assert "Held: z = 44." in caption(ax)
    assert "Drawn from" not in caption(ax)


def test_an_effect_of_what_was_left_out_is_refused() -> None:
    random = np.random.default_rng(0)
    rows = {"x": random.uniform(0, 1, 5000), "z": random.uniform(0, 1, 5000)}
    rows["y"] = (random.random(5000) < rows["x"]).astype(int)
    fit = dp.logit("y ~ x + z", rows, 20.0, domain=dict.fromkeys(rows, (0, 1)), screen=1, seed=1)
    assert "Held" not in caption(plots.effect(fit, "x"))
    with pytest.raises(ArgumentError, match="'z' is in no term of the model"):
        plots.effect(fit, "z")


def test_levels_are_named_as_they_are_declared_however_they_are_given() -> None:
    """True is 1, and a bool that was written to a file is text."""
    random = np.random.default_rng(1)
    data = {"x": random.uniform(0, 1, 4_000), "b": random.random(4_000) < 0.4}
    data["y"] = data["x"] + data["b"]
    fit = dp.ols("y ~ x + b", data, 2.0, domain={"x": (0, 1), "b": [False, True], "y": (0, 2)}, seed=1)
    for values in ([False, True], ["False", "True"], [0, 1]):
        legend = plots.effect(fit, "x", at={"b": values}).get_legend()
        assert [one.get_text() for one in legend.get_texts()] == ["b = False", "b = True"]
    with pytest.raises(ArgumentError, match="must be one of"):
        plots.effect(fit, "x", at={"b": "yes"})


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_axes_of_a_two_by_two_grid_of_the_default_size_have_room(fit: dp.GLMResults, layout: str | None) -> None:
    """With texts of the size of a picture by itself they were a third as high, and lower than the y label."""
    figure, axes = pyplot.subplots(2, 2, layout=layout)
    for ax, column in zip(axes.ravel(), ("x", "group", "x", "group"), strict=True):
        plots.effect(fit, column, ax=ax)
    figure.canvas.draw()
    for ax in axes.ravel():
        box, label = ax.get_window_extent(), ax.yaxis.label.get_window_extent()
        assert box.height > 0.15 * figure.bbox.height
        assert label.height < 1.5 * box.height
        below = next(text for text in ax.texts if text.get_gid() == CAPTION).get_window_extent()
        assert below.y0 >= 0
        assert below.x1 <= figure.bbox.width
    pyplot.close(figure)


def test_letters_are_smaller_in_low_rows_alone_and_can_still_be_read(fit: dp.GLMResults) -> None:
    """Two rows that are each as high as a picture by itself look like it, with the whole caption."""
    alone = plots.effect(fit, "x")
    _, axes = pyplot.subplots(2, 1, figsize=(WIDTH, 2 * HEIGHT), layout="constrained")
    for ax in axes:
        plots.effect(fit, "x", ax=ax)
        assert caption(ax) == caption(alone)
        assert sizes(ax) == sizes(alone)
    _, small = pyplot.subplots(2, 2, layout="constrained")
    low = plots.effect(fit, "x", ax=small[0, 0])
    assert len(caption(low)) < len(caption(alone))
    assert 6 <= min(sizes(low)) < min(sizes(alone)), "journals ask for letters of six points"


def sizes(ax: Axes) -> set[float]:
    """Of all letters, in points."""
    texts = (*ax.texts, ax.xaxis.label, ax.yaxis.label, ax._left_title, *ax.get_xticklabels())
    return {float(text.get_fontsize()) for text in texts}

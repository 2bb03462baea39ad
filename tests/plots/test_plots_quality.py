"""Bins and curves are drawn where the evaluation has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from looking import bars, caption, faults, legend, marks
from matplotlib import pyplot

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.plots.style import CAPTION


@pytest.mark.parametrize(
    ("kind", "across", "upward"), [("calibration", "predicted", "observed"), ("residuals", "fitted", "residual")]
)
def test_bins_are_where_the_table_has_them(evaluation: dp.Evaluation, kind: str, across: str, upward: str) -> None:
    table = getattr(evaluation, kind)
    ax = evaluation.plot(kind)
    points, ends = bars(ax, "bins, 0.95 intervals", 1)
    assert points == pytest.approx(table[[across, upward]].to_numpy())
    assert ends == pytest.approx(table[["low", "high"]].to_numpy())
    _, noise = bars(ax, "part due to privacy", 1)
    stated = table[upward].to_numpy()[:, None] + 1.959964 * np.outer(table["noise_se"], [-1, 1])
    assert noise == pytest.approx(np.clip(stated, *(table[[end]].to_numpy() for end in ("low", "high"))), abs=1e-6)
    assert ax.get_xlim()[1] >= table[across].max()
    assert ax.get_ylim()[1] >= table["high"].max()


def test_the_roc_curve_with_its_area_and_errors(evaluation: dp.Evaluation) -> None:
    ax, table = evaluation.plot("roc"), evaluation.roc
    assert table is not None
    area = evaluation.metrics.loc["area under ROC"]
    label = f"area {area['estimate']:.3f} [{area['low']:.3f}, {area['high']:.3f}]"
    assert marks(ax, label) == pytest.approx(table[["false_positive", "true_positive"]].to_numpy())
    for axis, name in enumerate(["false_positive", "true_positive"]):
        points, ends = bars(ax, "0.95 intervals", axis)
        assert 6 <= len(points) <= 12
        for point, pair in zip(points, ends, strict=True):
            row = (table[["false_positive", "true_positive"]] - point).abs().sum(axis=1).idxmin()
            error = np.hypot(table.loc[row, f"{name}_noise_se"], table.loc[row, f"{name}_sampling_se"])
            assert pair == pytest.approx(table.loc[row, name] + 1.959964 * error * np.array([-1, 1]), abs=1e-6)


def test_a_comparison_has_no_plot(evaluation: dp.Evaluation) -> None:
    compared = replace(evaluation, against="binomial, y ~ x", calibration=None, roc=None, residuals=None)
    with pytest.raises(ArgumentError, match=r"a comparison of two models has no plot; evaluate each model alone"):
        compared.plot()


def test_the_first_picture_there_is(evaluation: dp.Evaluation) -> None:
    assert evaluation.plot().get_title(loc="left").startswith("Calibration")
    left = replace(evaluation, calibration=None)
    assert left.plot().get_title(loc="left").startswith("Residuals")
    with pytest.raises(ArgumentError, match=r"has residuals and roc, which.*evaluate with metrics=\['calibration'\]"):
        left.plot("calibration")
    with pytest.raises(ArgumentError, match="it has nothing that can be drawn"):
        replace(left, residuals=None, roc=None).plot("calibration")
    with pytest.raises(ArgumentError, match="nothing to draw"):
        replace(evaluation, residuals=evaluation.residuals * np.nan).plot("residuals")


def test_the_cost_of_the_models_is_left_out_once(evaluation: dp.Evaluation) -> None:
    known = replace(evaluation, guarantee=replace(evaluation.guarantee, certified=True, reason=None))
    ax = dp.plots.roc({"small": known, "large": known})
    assert caption(ax).endswith(". The cost of the models is not included.")
    assert caption(ax).count("not included") == 1
    assert caption(dp.plots.roc(known)).endswith(". The cost of the model is not included.")


@pytest.mark.parametrize("kind", ["roc", "calibration", "residuals"])
def test_several_evaluations_have_colours_and_names(evaluation: dp.Evaluation, kind: str) -> None:
    known = replace(evaluation.guarantee, certified=True, reason=None)
    evaluation = replace(evaluation, guarantee=known)
    other = replace(evaluation, model="another model", guarantee=replace(known, eps=0.5))
    _, ax = pyplot.subplots()
    evaluation.plot(kind, ax=ax)
    alone = legend(ax)
    other.plot(kind, ax=ax)
    at_once = getattr(dp.plots, kind)({"first": evaluation, "second": other})
    for axes, names in ((ax, (evaluation.model, other.model)), (at_once, ("first", "second"))):
        shown = legend(axes)
        assert len(shown) == len(set(shown)) == len(alone) + 1
        named = [text for text in shown if ": " in text]
        assert len(named) == 2
        assert named[1].startswith(names[1])
        title = axes.get_title(loc="left").replace("\n", " ")
        assert title.count(names[1]) == 1
        said = caption(axes)
        assert said.count("Protected: ") == 1
        assert f"the evaluation of {names[1]} is eps = 0.5" in said
        assert not faults(axes)
    lines = [line for line in at_once.lines if str(line.get_gid()).startswith("evaluation")]
    assert len({line.get_color() for line in lines}) == 2


def test_labels_of_evaluations_are_checked(evaluation: dp.Evaluation) -> None:
    for wrong, fix in (
        ({}, "keys of a dict"),
        ({1: evaluation}, "keys of a dict"),
        ([], "empty"),
        ([3], "dp.evaluate"),
    ):
        with pytest.raises(ArgumentError, match=fix):
            dp.plots.roc(wrong)
    with pytest.raises(ArgumentError, match="the keys of a dict are the labels"):
        dp.plots.roc({"a": evaluation}, label="b")
    with pytest.raises(ArgumentError, match="label must be a string"):
        evaluation.plot("roc", label=3)


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("size", [(6.4, 4.8), (10, 8)])
def test_captions_of_two_rows_of_pictures_do_not_overlap(
    evaluation: dp.Evaluation, size: tuple[float, float], *, tight: bool
) -> None:
    known = replace(evaluation, guarantee=replace(evaluation.guarantee, certified=True, reason=None))
    figure, axes = pyplot.subplots(2, 2, figsize=size)
    for ax, kind in zip(axes.ravel(), ("calibration", "roc", "residuals", "calibration"), strict=True):
        known.plot(kind, ax=ax)
    if tight:
        figure.tight_layout()
    figure.canvas.draw()
    captions = [next(text for text in ax.texts if text.get_gid() == CAPTION) for ax in axes.ravel()]
    assert all("eps = " in text.get_text().replace("\n", " ") for text in captions)
    for place, text in enumerate(captions):
        box = text.get_window_extent()
        others = [part for at, ax in enumerate(axes.ravel()) if at != place for part in (ax, ax._left_title)]
        assert not any(box.overlaps(other.get_window_extent()) for other in others)
        assert box.y0 >= 0
    pyplot.close(figure)

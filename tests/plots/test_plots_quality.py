"""Bins and curves are drawn where the evaluation has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from looking import bars, marks

import dpstats as dp
from dpstats.errors import ArgumentError


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


def test_the_first_picture_there_is(evaluation: dp.Evaluation) -> None:
    assert evaluation.plot().get_title(loc="left").startswith("Calibration")
    left = replace(evaluation, calibration=None)
    assert left.plot().get_title(loc="left").startswith("Residuals")
    with pytest.raises(ArgumentError, match="evaluate with metrics=\\['calibration'\\]"):
        left.plot("calibration")
    with pytest.raises(ArgumentError, match="nothing to draw"):
        replace(evaluation, residuals=evaluation.residuals * np.nan).plot("residuals")

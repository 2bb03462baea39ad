"""Coefficients are drawn where they were released, with their intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from drawn import changed, fitted, without_ends
from looking import bars, caption, faults, legend, marks, rectangles

import dpstats as dp
from dpstats import plots
from dpstats.errors import ArgumentError, NotReleasedError


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_intervals_are_those_released(fit: dp.GLMResults, alpha: float) -> None:
    ax = fit.plot(alpha=alpha)
    table = fit.uncertainty(alpha).drop(index="Intercept")
    points, ends = bars(ax, f"{1 - alpha:.4g} interval", 0)
    assert points[:, 0] == pytest.approx(table["coef"].to_numpy())
    assert points[:, 1].tolist() == list(range(len(table)))
    assert ends == pytest.approx(table[["low", "high"]].to_numpy())
    assert [text.get_text() for text in ax.get_yticklabels()] == list(table.index)
    share = 1 - fit.variance_shares.drop(index="Intercept")["sampling"].to_numpy()
    half = (table["high"] - table["low"]).to_numpy() / 2
    pale = rectangles(ax, "part due to privacy")
    assert (pale[:, 1] - pale[:, 0]) / 2 == pytest.approx(half * np.sqrt(share))
    assert pale[:, :2].mean(axis=1) == pytest.approx(table["coef"].to_numpy())
    low, high = ax.get_xlim()
    assert low < ends.min() < ends.max() < high


def test_without_inference_bars_are_twice_the_bound(bare: dp.GLMResults) -> None:
    size = np.array([3.0, -1.9, 2.1, 1.9, -2.1])
    params, bound = bare.params * 0 + size * bare.noise_at_most, bare.noise_at_most
    ax = plots.coefficients(changed(bare, params=params), intercept=True)
    found = rectangles(ax, "twice the noise at most")
    assert found[:, :2].mean(axis=1) == pytest.approx(params.to_numpy())
    assert (found[:, 1] - found[:, 0]) / 4 == pytest.approx(bound.to_numpy())
    assert marks(ax, "within noise") == pytest.approx(np.column_stack([params, range(5)])[[1, 3]])
    assert bars(ax, "coefficient as released", 0)[0] == pytest.approx(np.column_stack([params, range(5)])[[0, 2, 4]])
    assert "They omit sampling error" in caption(ax)


def test_what_is_not_identified_has_open_marks_and_arrows(fit: dp.GLMResults) -> None:
    ax = plots.coefficients(without_ends(fit, "x", "group[T.b]"))
    names = [name for name in fit.params.index if name != "Intercept"]
    lost = sorted([names.index("x"), names.index("group[T.b]")])
    open_marks = marks(ax, "not identified")
    assert open_marks[:, 1].tolist() == lost
    assert open_marks[:, 0] == pytest.approx(fit.debiased[[names[row] for row in lost]].to_numpy())
    assert next(line for line in ax.lines if line.get_label() == "not identified").get_markerfacecolor() == "white"
    assert sorted(bars(ax, "0.95 interval", 0)[0][:, 1].tolist()) == sorted(set(range(len(names))) - set(lost))
    low, high = ax.get_xlim()
    arrows = [line for line in ax.lines if line.get_gid() == "arrow"]
    assert {line.get_marker(): line.get_ydata().tolist() for line in arrows} == {"<": lost, ">": lost}
    assert {line.get_marker(): set(line.get_xdata()) for line in arrows} == {"<": {low}, ">": {high}}
    assert "Points with an interval are bias-corrected. Intervals include" in caption(ax)
    assert "Open marks (2): drawn as released, not identified" in caption(ax)
    assert "Points are bias-corrected. Intervals include" in caption(fit.plot())
    assert "not identified" not in caption(fit.plot())


def test_nothing_identified_is_still_a_picture(fit: dp.GLMResults) -> None:
    ax = plots.coefficients(without_ends(fit, *fit.params.index))
    assert len(marks(ax, "not identified")) == len(fit.params) - 1
    assert "0.95 interval" not in legend(ax)
    assert caption(ax).startswith(f"Open marks ({len(fit.params) - 1}): drawn as released")
    assert "bias-corrected" not in caption(ax)
    assert "Intervals" not in caption(ax)
    assert not faults(ax)


def test_an_interval_far_wider_than_the_rest_leaves_the_picture_with_an_arrow(fit: dp.GLMResults) -> None:
    wide = fit.uncertainty()
    wide.loc["x", ["low", "high"]] = wide.loc["x", "coef"] + np.array([-50.0, 50.0])
    ax = plots.coefficients(changed(fit, uncertainty=lambda alpha: wide))
    low, high = ax.get_xlim()
    assert high - low < 10
    row = [name for name in fit.params.index if name != "Intercept"].index("x")
    assert [line.get_ydata().tolist() for line in ax.lines if line.get_gid() == "arrow"] == [[row], [row]]
    assert "goes on beyond the picture" in caption(ax)


def test_by_range_multiplies_by_the_declared_width(fit: dp.GLMResults) -> None:
    points, ends = bars(fit.plot(by_range=True), "0.95 interval", 0)
    width = pd.Series({"group[T.b]": 1.0, "group[T.c$_$]": 1.0, "x": 4.0, "z": 10.0})
    table = fit.uncertainty().drop(index="Intercept").mul(width, axis=0)
    assert points[:, 0] == pytest.approx(table["coef"].to_numpy())
    assert ends == pytest.approx(table[["low", "high"]].to_numpy())


def test_by_range_has_the_declared_width_where_a_fit_bought_a_narrower_one() -> None:
    """Else the larger slope of two fits may be drawn as the smaller."""
    random = np.random.default_rng(2)
    data = pd.DataFrame({"x": random.normal(20, 2, 20_000).clip(0, 200)})
    data["y"] = data["x"] / 10 + random.normal(0, 1, 20_000)
    domain = {"x": (0, 200), "y": (-10, 20)}
    fit = dp.ols("y ~ x", data, 20.0, domain=domain, seed=3, ranges="bought", method="statistics")
    low, high = fit.plan.design.domain["x"].interval
    assert high - low <= 100
    points, _ = bars(fit.plot(by_range=True), "0.95 interval", 0)
    assert points[:, 0] == pytest.approx([200 * fit.debiased["x"]])


def test_chosen_columns_alone_are_drawn_and_the_choice_is_named(rows: pd.DataFrame) -> None:
    chosen = fitted(rows, "y ~ x + z + group", family="gaussian", screen=1, inference=None)
    ax = chosen.plot()
    kept = [name for name, is_kept in zip(chosen.params.index, chosen.plan.kept, strict=True) if is_kept]
    assert [text.get_text() for text in ax.get_yticklabels()] == [name for name in kept if name != "Intercept"]
    assert "Not adjusted for selection." in caption(ax)
    assert "selection" not in caption(fitted(rows, inference=None).plot())


def test_shares_add_up_and_what_is_not_identified_is_hatched(fit: dp.GLMResults) -> None:
    ax = plots.shares(without_ends(fit, "z"))
    names = [name for name in fit.params.index if name != "Intercept"]
    lost = names.index("z")
    table = fit.variance_shares.loc[names].to_numpy()
    drawn = [rectangles(ax, label) for label in ("the sample", "noise in the coefficients", "noise in the information")]
    widths = np.stack([part[:, 1] - part[:, 0] for part in drawn], axis=1)
    known = np.arange(len(names)) != lost
    assert widths[known] == pytest.approx(table[known])
    assert widths[lost].tolist() == [0, 0, 0]
    assert drawn[2][known, 1] == pytest.approx(1.0)
    assert rectangles(ax, "not identified").tolist() == [[0, 1, lost]]


def test_shares_need_errors(bare: dp.GLMResults) -> None:
    with pytest.raises(NotReleasedError):
        bare.plot("shares")


@pytest.mark.slow
def test_fits_stand_side_by_side(rows: pd.DataFrame, fit: dp.GLMResults, bare: dp.GLMResults) -> None:
    other = fitted(rows, "b ~ x + group", inference=True, eps=2.0)
    ax = plots.coefficients({"first": fit, "second": other})
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [name for name in fit.params.index if name != "Intercept"]
    for label, one in (("first", fit), ("second", other)):
        points, ends = bars(ax, f"{label}: 0.95 interval", 0)
        table = one.uncertainty().drop("Intercept")
        assert points[:, 0] == pytest.approx(table["coef"].to_numpy())
        assert ends == pytest.approx(table[["low", "high"]].to_numpy())
        assert [names[round(row)] for row in points[:, 1]] == list(table.index)
    assert "claimed for second: seeded" in caption(ax)
    assert not faults(ax)
    mixed = plots.coefficients([fit, without_ends(fit, "x"), bare])
    assert "(2): not identified" in legend(mixed)
    assert any(text.startswith("(3): ") for text in legend(mixed))
    assert len(legend(mixed)) == len(set(legend(mixed)))
    assert not faults(mixed)


def test_a_legend_in_narrow_axes_is_not_cut(fit: dp.GLMResults) -> None:
    """Two columns of it ended beyond the figure."""
    from matplotlib import pyplot

    for across in (3.4, 7.0):
        figure, ax = pyplot.subplots(figsize=(across, 3.6))
        plots.shares(fit, ax=ax)
        figure.draw_without_rendering()
        shown = ax.get_legend().get_window_extent()
        assert figure.bbox.x0 <= shown.x0 < shown.x1 <= figure.bbox.x1
        assert ax.xaxis.label.get_window_extent().x1 <= figure.bbox.x1
        assert all(figure.bbox.x0 <= name.get_window_extent().x0 for name in ax.get_yticklabels())
        pyplot.close(figure)


@pytest.mark.parametrize("has_errors", [True, False])
def test_ratios_are_exponentials_on_a_logarithmic_axis(
    fit: dp.GLMResults, bare: dp.GLMResults, has_errors: bool
) -> None:
    one, label = (fit, "0.95 interval") if has_errors else (bare, "twice the noise at most")
    plain, ratios = one.plot(), one.plot(exponentiate=True)
    assert (ratios.get_xscale(), plain.get_xscale()) == ("log", "linear")
    assert ratios.get_xlabel() == "odds ratios"
    assert ratios.lines[0].get_xdata() == [1.0, 1.0]
    drawn = ["part due to privacy"] if has_errors else [label]
    for name in drawn:
        bar, expected = rectangles(ratios, name), rectangles(plain, name)
        assert bar[:, :2] == pytest.approx(np.exp(expected[:, :2]))
        assert bar[:, 2].tolist() == expected[:, 2].tolist()
    if has_errors:
        (points, ends), (raw, raw_ends) = bars(ratios, label, 0), bars(plain, label, 0)
        assert points[:, 0] == pytest.approx(np.exp(raw[:, 0]))
        assert ends == pytest.approx(np.exp(raw_ends))
        assert ratios.get_xlim() == pytest.approx(np.exp(plain.get_xlim()))
    else:
        assert marks(ratios, "within noise")[:, 0] == pytest.approx(np.exp(marks(plain, "within noise")[:, 0]))
    assert not faults(ratios)
    assert not any("^" in text.get_text() for text in ratios.get_xticklabels()), "ticks are written out"


@pytest.mark.slow
def test_ticks_of_ratios_are_as_many_as_have_room(fit: dp.GLMResults) -> None:
    """The picture of an interval from 1 to r spans r^1.12."""
    for high, near in ((1.2, True), (4.9, True), (5.1, False)):
        table = fit.uncertainty().assign(coef=0.0, low=0.0, high=np.log(high))
        ax = plots.coefficients(changed(fit, uncertainty=lambda alpha, one=table: one), exponentiate=True)
        ticks = [at for at in ax.get_xticks() if ax.get_xlim()[0] <= at <= ax.get_xlim()[1]]
        assert len(ticks) >= 3
        assert np.allclose(np.diff(ticks, 2), 0) is near
    for high, fine in ((50.0, True), (3_600.0, True), (3_900.0, False), (1e6, False)):
        table = fit.uncertainty().assign(coef=0.0, low=0.0, high=np.log(high))
        ax = plots.coefficients(changed(fit, uncertainty=lambda alpha, one=table: one), exponentiate=True)
        low, end = ax.get_xlim()
        assert bool(end < 1e4 * low) is fine
        named = {text.get_text() for text in ax.get_xticklabels()}
        assert {"1", "10"} <= named
        assert ("5" in named) is ("20" in named) is fine
    table = fit.uncertainty().assign(coef=0.0, low=-2_000.0, high=2_000.0)
    ax = plots.coefficients(changed(fit, uncertainty=lambda alpha: table), exponentiate=True)
    assert ax.get_xlim() == pytest.approx((np.exp(-99.0), np.exp(99.0))), "what overflows lies beyond the picture"


def test_rows_are_chosen_and_named_as_in_tables(fit: dp.GLMResults) -> None:
    def names(**options: object) -> list[str]:
        return [text.get_text() for text in plots.coefficients(fit, **options).get_yticklabels()]  # type: ignore[arg-type]

    assert names(keep=["z", "group[T.b]"]) == ["z", "group[T.b]"]
    assert names(drop="group", rename={"x": "Hours"}) == ["Hours", "z"]
    assert names(drop=["group", "x"], intercept=True) == ["Intercept", "z"]
    assert names(drop=["Intercept", "z"]) == names(drop="z"), "as a script says that shows the intercept by default"
    points, _ = bars(plots.coefficients(fit, keep=["z", "x"]), "0.95 interval", 0)
    assert points[:, 0] == pytest.approx(fit.debiased[["z", "x"]].to_numpy())
    for options, match in (
        ({"keep": "Z"}, "keep: no coefficient is called 'Z'"),
        ({"rename": {"q": "Q"}}, "rename: no coefficient"),
        ({"drop": ["x", "z", "group"]}, "no row is left"),
        ({"exponentiate": 1}, "exponentiate"),
    ):
        with pytest.raises(ArgumentError, match=match):
            names(**options)


def test_ratios_of_another_link_are_refused(rows: pd.DataFrame, fit: dp.GLMResults) -> None:
    linear = fitted(rows, "y ~ x + group", family="gaussian", inference=None)
    with pytest.raises(ArgumentError, match="exponentiate needs a logit or log link, and that of the model is 'ident"):
        linear.plot(exponentiate=True)
    with pytest.raises(ArgumentError, match="linear has another one"):
        plots.coefficients({"logit": fit, "linear": linear}, exponentiate=True)

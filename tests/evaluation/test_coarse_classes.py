"""Evaluations where the response is declared so wide that the classes of the histograms are coarse."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.evaluation import binary, numeric
from dpstats.evaluation.histograms import (
    Grid,
    Histogram,
    ReleasedHistogram,
    class_error,
    deviance_grid,
    mean,
    probability_grid,
    response_grid,
)

SEEDS = range(20)
WIDE = "The declared range of the response"
METRICS = ("r2", "rmse", "mae")


def wages(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.uniform(0, 10, rows)
    return pd.DataFrame({"x": x, "y": np.maximum(13 + 1.45 * x + random.normal(0, 3.2, rows), 0.0)})


@cache
def evaluated(high: float) -> tuple[dp.GLMResults, list[dp.Evaluation]]:
    domain = {"x": (0, 10), "y": (0, high)}
    fit = dp.ols("y ~ x", wages(15_000, 1), 2.0, domain=domain, seed=1)
    return fit, [dp.evaluate(fit, wages(10_000, 2), 4.0, seed=seed) for seed in SEEDS]


def misses(high: float) -> dict[str, int]:
    """How many intervals exclude the figure of the rows themselves; an unknown figure excludes nothing."""
    fit, found = evaluated(high)
    rows = wages(10_000, 2)
    residual = rows.y - np.asarray(fit.predict(rows))
    root = float((residual**2).mean() ** 0.5)
    truth = {"r2": 1 - root**2 / rows.y.var(ddof=0), "rmse": root, "mae": residual.abs().mean()}
    ends = [one.metrics[["low", "high"]] for one in found]
    return {name: sum(bool(x.low[name] > truth[name] or x.high[name] < truth[name]) for x in ends) for name in METRICS}


@pytest.mark.parametrize("high", [100, 1000])
def test_intervals_cover_whatever_the_declared_range_is(high: float) -> None:
    """A right interval of 95 % misses more than 3 times in 20 with a chance of .016; these allow for sampling too."""
    assert max(misses(high).values()) <= 3


@pytest.mark.slow
def test_intervals_without_the_error_of_classes_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numeric, "class_error", lambda block, function: 0.0)
    evaluated.cache_clear()
    try:
        short = misses(1000)
    finally:
        evaluated.cache_clear()
    assert min(short["r2"], short["mae"]) > 15


def test_a_range_much_too_wide_is_the_first_note_and_leaves_r2_unknown() -> None:
    """Seeded; classes are 31 wide and the response has a standard deviation of 5.3."""
    for found in evaluated(1000)[1]:
        assert found.metrics.loc["r2"].isna().all()
        text = " ".join(found.summary().as_text().split())
        note = text.split(f"{WIDE} (0, 1000) is too wide for this evaluation: ")[1]
        assert note.startswith("the classes of responses are 31.2 wide and the first class of residuals is 7.81 wide")
        assert "The interval of mae allows for that. r2 is therefore unknown." in note
        assert "Most of the uncertainty" not in text


def test_an_ordinary_range_has_no_such_note_and_hardly_wider_intervals() -> None:
    """Seeded; without the error of classes an interval ends 1.96 standard errors away, or less by the kurtosis.

    On the other side, of larger errors, it allows for what the noise hides (`test_few_rows`).
    """
    for found in evaluated(100)[1]:
        assert not any(note.startswith(WIDE) for note in found.notes)
        metrics = found.metrics
        below, above = metrics["estimate"] - metrics["low"], metrics["high"] - metrics["estimate"]
        reached = below.where(below.index != "r2", above) / (1.96 * metrics["std_err"])
        assert (reached < 1.1).all()


@pytest.mark.parametrize("high", [100, 400])
def test_bins_of_residuals_name_the_ends_between_which_fitted_values_lie(high: float) -> None:
    """Noise alone exceeds eight of its standard deviations in fewer than 1e-4 of bins."""
    fit, found = evaluated(high)
    fitted = np.asarray(fit.predict(wages(10_000, 2)))
    for table in (one.residuals for one in found):
        assert table is not None
        assert (table["fitted_from"] < table["fitted_to"]).all()
        assert table["fitted_to"].max() <= fitted.max() + high / 16
        for _, row in table.iterrows():
            inside = ((fitted > row["fitted_from"]) & (fitted <= row["fitted_to"])).sum()
            assert row["rows"] == pytest.approx(inside, abs=8 * 13 * 8)


def test_a_picture_of_residuals_has_bins_at_their_middle() -> None:
    pytest.importorskip("matplotlib")
    found = evaluated(100)[1][0]
    assert found.residuals is not None
    ax = found.plot("residuals")
    middles = found.residuals[["fitted_from", "fitted_to"]].mean(axis=1)
    assert ax.get_xlabel() == "fitted value (middle of the bin)"
    assert ax.lines[-1].get_xdata() == pytest.approx(middles)


SHAPES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda random: random.normal(size=20_000),
    "exponential": lambda random: random.exponential(size=20_000),
    "halves": lambda random: np.rint(2 * random.normal(size=20_000)) / 2,
}


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("width", [0.6, 1.2, 1.8, 2.4, 3.6, 6.0])
def test_the_stated_error_of_classes_is_above_the_true_one(shape: str, width: float) -> None:
    """Of the mean square, with classes of so many standard deviations that begin anywhere; no noise, seeded."""
    random = np.random.default_rng(1)
    for _ in range(10):
        values = SHAPES[shape](random)
        values = (values - values.mean()) / values.std()
        low = width * (random.uniform(-1.5, 1.5) - 16)
        block = noiseless(Histogram(response_grid(low, low + 32 * width, count=False), place=1.0), values)
        stated = class_error(block, np.square)
        assert abs(mean(block, numeric._form(block, np.square))[0] - (values**2).mean()) <= stated + 0.01


def test_sizes_of_smooth_residuals_have_hardly_an_error_in_the_first_class() -> None:
    """The line of the root is the best one for roots that lie evenly; for squares that do it was 2 % too large."""
    values = np.random.default_rng(1).normal(size=40_000)
    block = noiseless(Histogram(deviance_grid(128.0**2, squares=True), place=1.0), values**2)
    assert mean(block, numeric._form(block, np.sqrt))[0] == pytest.approx(np.abs(values).mean(), rel=0.003)


def noiseless(histogram: Histogram, values: np.ndarray) -> ReleasedHistogram:
    counted = histogram.count(np.zeros(len(values), dtype=np.intp), values) / histogram.steps
    counts, places = counted.reshape(2, 1, histogram.grid.size)
    return ReleasedHistogram(histogram.grid, counts, places, 1e-12, 1e-12, 0.0)


def mean_by_lines(ends: list[float], counts: np.ndarray, middles: np.ndarray) -> float:
    """The mean of cubes by the best line in each cell, by a sum over many points; rows lie at the `middles`."""
    places, total = (np.arange(40_000) + 0.5) / 20_000 - 1, 0.0
    for low, high in itertools.pairwise(ends):
        half, middle = (high - low) / 2, (high + low) / 2
        cubes = (middle + half * places) ** 3
        inside = (middles > low) & (middles < high)
        line = cubes.mean() + 3 * (cubes * places).mean() * (middles[inside] - middle) / half
        total += float(counts[inside] @ line)
    return total / float(counts.sum())


@pytest.mark.parametrize(("counts", "full"), [([300.0, 200, 400, 100], 0.0), ([475.0, 475, 50, 0], 2 / 3)])
def test_the_error_of_classes_is_a_third_of_a_change_and_of_full_pairs_more(counts: list[float], full: float) -> None:
    ends, rows = [0.0, 2.0, 4.0, 6.0, 8.0], np.array(counts)
    grid = Grid(np.array(ends))
    block = ReleasedHistogram(grid, rows[None], np.zeros((1, 4)), 0.0, 0.0, 0.0)
    fine, *joined = (mean_by_lines(some, rows, grid.middle) for some in (ends, [0, 4, 8], [0, 2, 6, 8]))
    bound = float(grid.line(lambda value: value**3).error @ rows) / rows.sum()
    expected = max(abs(one - fine) for one in joined) / 3 + full * bound
    assert expected > 0
    assert class_error(block, lambda value: value**3) == pytest.approx(expected, rel=1e-4)


def test_the_area_of_a_rare_response_tells_its_groups_apart() -> None:
    """Rates of .28 and .55 %: the area is .58. On the scale of arcsin(sqrt(p)) both groups shared a cell, at .50."""
    random = np.random.default_rng(3)
    sex = random.integers(0, 2, 200_000)
    rows = pd.DataFrame({"sex": sex, "y": (random.random(200_000) < np.where(sex == 1, 0.0055, 0.0028)).astype(int)})
    fit = dp.logit("y ~ sex", rows, 2.0, domain={"sex": bool, "y": bool}, seed=1)
    ones, zeros = (np.bincount(sex[rows.y == y], minlength=2) / (rows.y == y).sum() for y in (1, 0))
    area = ones[1] * zeros[0] + (ones[0] * zeros[0] + ones[1] * zeros[1]) / 2
    found = dp.evaluate(fit, rows, 2.0, seed=1).metrics.loc["area under ROC"]
    assert area > 0.57
    assert abs(found["estimate"] - area) < 0.01
    assert found["low"] < area < found["high"]


def test_the_interval_of_an_area_allows_for_the_order_of_rows_within_cells() -> None:
    """Rows of one cell count half, so few cells make the area too small: the interval reaches as far."""
    random = np.random.default_rng(0)
    linear = random.normal(-1.0, 1.5, 50_000)
    endog = (random.random(50_000) < 1 / (1 + np.exp(-linear))).astype(np.intp)
    histogram = Histogram(Grid(np.linspace(-8.0, 6.0, 9)), groups=2)
    counts = histogram.count(endog, linear).reshape(2, 8) / histogram.steps
    block = ReleasedHistogram(histogram.grid, counts, np.zeros((2, 8)), 0.0, 0.0, 0.0)
    ranks = np.argsort(np.argsort(linear)) + 1
    ones = int(endog.sum())
    exact = (ranks[endog == 1].sum() - ones * (ones + 1) / 2) / (ones * (50_000 - ones))
    figure = binary._area(block)
    assert figure.value < exact - 0.02
    assert 0.8 < figure.class_error / (exact - figure.value) < 1.2


def test_cells_tell_rare_rows_apart_and_stay_narrow_about_one_half() -> None:
    """On the scale of arcsin(sqrt(p)) alone rates of .7 and 1 % share a cell; on that of log odds .44 and .55 do."""
    cells, _ = probability_grid(40, -8.0, 2.0).locate(np.array([-5.0, -4.6, -4.1]))
    assert len(set(cells)) == 3
    shares = 1 / (1 + np.exp(-probability_grid(40, -9.0, 9.0).ends))
    assert np.diff(shares).max() < 0.07


@pytest.mark.parametrize(("squares", "share"), [(False, 0.2), (False, 0.02), (True, 0.2), (True, 0.02)])
def test_hidden_numbers_are_taken_as_far_as_an_exponential_tail_goes(squares: bool, share: float) -> None:
    """Never nearer than half an octave beyond the last place where they stand out."""
    sizes = np.random.default_rng(1).exponential(size=1_000_000)
    far = np.quantile(sizes, 1 - share)
    mean = np.mean(sizes[sizes > far] ** (1 + squares)) / far ** (1 + squares)
    grid = SimpleNamespace(squares=squares)
    ratio = numeric._ratio_beyond(SimpleNamespace(grid=grid), numeric.Tail(1.0, 2.0, share))  # type: ignore[arg-type]
    assert ratio == pytest.approx(max(mean, 1.5), rel=0.01)

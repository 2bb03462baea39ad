"""The cap of least squares of persons: by residuals of one drawn row of each, about a rough fit to those rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted_residuals import clean_counts, dearer_residuals

import dpstats as dp
from dpstats.call import make_request
from dpstats.data import Block, Rows, as_table
from dpstats.mechanisms.residuals import residuals_about
from dpstats.mechanisms.statistics import ResidualCentre
from dpstats.models import residuals, sources
from dpstats.models.release import person_rows
from dpstats.models.sources import FormulaSource
from dpstats.privacy import residuals as histogram
from dpstats.privacy.randomness import random_source
from dpstats.privacy.residuals import buy_residual_counts

MODEL = "y ~ x + z"
WIDE: dict[str, Any] = {"x": (-1, 1), "z": (-1, 1), "y": (-50, 50)}
TRUTH = pd.Series({"x": 4.0, "z": -2.0})
PERSONS = 10_000
ADJACENCIES = pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
UNITS = pytest.mark.parametrize("unit", [{}, {"max_rows": 2}], ids=["equal", "two"])


def frame(persons: int = PERSONS, seed: int = 0) -> pd.DataFrame:
    """Persons of 1 to 6 rows; half of the variance of the residuals, which is 1, is theirs."""
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(persons), random.integers(1, 7, persons))
    data = pd.DataFrame(random.uniform(-1, 1, (len(who), 2)), columns=["x", "z"]).assign(who=who)
    own, common = random.standard_normal(len(who)), random.standard_normal(persons)[who]
    return data.assign(y=data[["x", "z"]] @ TRUTH + (own + common) / np.sqrt(2))


def fitted(data: pd.DataFrame | None = None, **options: Any) -> Any:
    given = {"eps": 1.0, "seed": 1, "inference": True, "unit": "who", "domain": WIDE, **options}
    return dp.ols(MODEL, frame() if data is None else data, **given)


def cap_of(found: Any) -> float:
    return float(found.plan.family.residual_cap * found.plan.design.response_scaling()[1])


def test_the_cap_fits_the_residuals_and_errors_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    found = fitted()
    assert 2.5 < cap_of(found) < 5  # of residuals with a standard deviation of 1
    assert found.plan.request.method == "napp"
    shown = " ".join(found.summary().as_text().split())
    assert "residual spread" in shown
    assert f"capped at {cap_of(found):.4g}" in shown
    again = dp.GLMResults.from_dict(found.to_dict())
    pd.testing.assert_frame_equal(again.conf_int(), found.conf_int())
    assert again.plan.digest() == found.plan.digest()
    monkeypatch.setattr(sources, "with_residuals", lambda plan, *_: plan)
    wide = fitted()
    assert wide.plan.residuals is None
    assert (found.bse < 0.8 * wide.bse)[TRUTH.index].all()


@pytest.mark.parametrize(
    "options",
    [
        {"residual_cap": 4.0},
        {"response": "declared"},
        {"method": "napp"},
        {"penalty": "ridge", "alpha": 1.0},
        {"check_share": 0},
        {"eps": 0.25},
        {"inference": None},
        {"max_rows": 4},
        {"information_share": 0.3},
        {"spread_share": 0.3},
        {"curvature": 20.0},
    ],
)
def test_who_insists_and_few_persons_buy_no_residuals(options: dict[str, Any]) -> None:
    assert fitted(**options).plan.residuals is None


def test_rows_with_missing_cells_do_not_narrow_the_cap() -> None:
    """Fewer persons have a complete row where one is drawn among all than have any: those in the histogram count."""
    data = frame()
    data.loc[np.random.default_rng(1).random(len(data)) < 0.4, "z"] = np.nan
    assert cap_of(fitted(data, on_mismatch="go")) > 0.9 * cap_of(fitted())


def test_rows_that_count_apart_and_no_intercept_buy_no_residuals() -> None:
    data = frame().assign(w=1.0, o=0.0)
    for formula, given in ((MODEL, {"weights": "w"}), (MODEL, {"offset": "o"}), ("y ~ 0 + x + z", {})):
        domain = {**WIDE, "w": (0, 1), "o": (-1, 1)}
        found = dp.ols(formula, data, 1.0, domain=domain, unit="who", inference=True, seed=1, **given)
        assert found.plan.residuals is None


@UNITS
@ADJACENCIES
def test_all_of_it_costs_what_is_charged(adjacency: str, unit: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rough fit, histogram, interval and fit by what they cost one row of weight 1, and the count of persons."""
    spent: list[float] = []
    honest_fit, honest_counts = residuals.release_stages, residuals.buy_residual_counts

    def noted_fit(stages: Any, *arguments: Any) -> Any:
        spent.append(sum(stage.cost for _, stage in stages))
        assert all(stage.delta == 0 for _, stage in stages)
        return honest_fit(stages, *arguments)

    def noted_counts(*arguments: Any, eps: float, **others: Any) -> Any:
        spent.append(eps)
        assert others["adjacency"] == adjacency
        return honest_counts(*arguments, eps=eps, **others)

    monkeypatch.setattr(residuals, "release_stages", noted_fit)
    monkeypatch.setattr(residuals, "buy_residual_counts", noted_counts)
    public = {"n": PERSONS} if adjacency == "replace_one" else {}  # persons are not counted then
    found = fitted(adjacency=adjacency, **unit, **public)
    plan = found.plan
    assert len(spent) == 2
    assert sum(spent) <= plan.residuals.eps * (1 + 1e-9)
    counted = 0.0 if plan.counts is None else plan.counts.eps
    rows = sum(spent) + plan.response.eps + plan.stages[-1].plan.cost
    assert 0.99 < counted + unit.get("max_rows", 1) * rows <= 1 + 1e-9
    assert found.guarantee.eps == 1.0
    assert found.guarantee.basis == "docs/proofs/persons"


def test_a_planted_purchase_that_costs_more_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    dearer_residuals(monkeypatch)
    with pytest.raises(dp.errors.ReleaseError, match="nothing was released"):
        fitted()


ABOUT = ResidualCentre((0.0, 0.3, -0.2), 2.0)


def neighbours(adjacency: str, *, drawn: bool) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Data of up to two persons, and the same without the last one or with another in its place.

    Where of several rows some are drawn the others have one row each, so that nothing but the last one's draw differs.
    """
    random = np.random.default_rng(5)

    def person(name: str, rows: int) -> pd.DataFrame:
        return pd.DataFrame(random.uniform(-1, 1, (rows, 3)), columns=["x", "z", "y"]).assign(who=name)

    for others, rows in product(range(3), range(1, 6)):
        rest = [person(f"p{at}", 1 if drawn else 3) for at in range(others)]
        nobody = pd.DataFrame({"x": [0.1], "z": [0.2], "y": [0.3], "who": [None]})
        one, other = person("z", rows), [person("z", 6 - rows)] if adjacency == "replace_one" else []
        yield pd.concat([*rest, one, nobody], ignore_index=True), pd.concat([*rest, *other, nobody], ignore_index=True)


def worst_ratio(adjacency: str, unit: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> float:
    """The greatest log-ratio of what neighbours release as a histogram, over what it is charged; nothing is drawn."""
    scales: list[float] = []

    def noiseless(values: Any, sensitivity: int, eps: float, random: object) -> Any:
        scales.append(sensitivity / eps)
        return values

    monkeypatch.setattr(histogram, "noisy_integers", noiseless)
    given = {"eps": 1.0, "family": "gaussian", "unit": "who", "inference": True, "adjacency": adjacency, **unit}
    request, worst = make_request(**given), 0.0
    for pair in neighbours(adjacency, drawn=bool(unit)):
        released = []
        for data in pair:
            source = FormulaSource(MODEL, as_table(data), {**WIDE, "y": (-1, 1)})
            rows = source._counted(source.plan(request), as_table(data), random_source(2))
            values = rows.map(lambda block: residuals_about(ABOUT, block))
            eps = request.options.record.each(0.7)
            released.append(
                buy_residual_counts(values, 1.0, eps=eps, adjacency=request.adjacency, random=random_source(3)).ravel()
            )
        first, second = released
        for output in (first, second, first + 3, second - 2):
            worst = max(worst, abs(float(np.abs(output - second).sum() - np.abs(output - first).sum())) / scales[-1])
    return worst


@UNITS
@ADJACENCIES
def test_a_person_moves_the_histogram_as_much_as_is_charged(
    adjacency: str, unit: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worst_ratio(adjacency, unit, monkeypatch) == pytest.approx(0.7)


@ADJACENCIES
def test_planted_rows_that_all_count_are_caught(adjacency: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The histogram of all rows of a fit, each of which counts as one: five times what is charged."""
    monkeypatch.setattr(sources, "counted_rows", person_rows)
    assert worst_ratio(adjacency, {}, monkeypatch) > 2


def test_the_rough_fit_and_the_histogram_have_one_row_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the fit has all."""
    read: list[tuple[int, bool]] = []
    honest_rough, honest_fit = residuals.release_stages, sources.person_rows
    data = frame()

    def length(rows: Rows[Block]) -> int:
        return rows.total(lambda blocks: sum(len(block.endog) for block in blocks), int.__add__)

    def rough(stages: Any, spec: Any, rows: Rows[Block], random: Any) -> Any:
        read.append((length(rows), True))
        return honest_rough(stages, spec, rows, random)

    def fit(*arguments: Any) -> Any:
        rows = honest_fit(*arguments)
        read.append((length(rows), False))
        return rows

    monkeypatch.setattr(residuals, "release_stages", rough)
    monkeypatch.setattr(sources, "person_rows", fit)
    fitted(data)
    assert read == [(PERSONS, True), (len(data), False)]


def caps_of_one_release(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The caps of two data sets whose interval, rough fit and histogram come out alike: those of the first one.

    The second has residuals three times as large. No false alarm, for one release serves both.
    """
    monkeypatch.setattr(sources, "bought_response", _first_of(sources.bought_response))
    for name in ("release_stages", "buy_residual_counts"):
        monkeypatch.setattr(residuals, name, _first_of(getattr(residuals, name)))
    data = frame()
    wide = data.assign(y=data["y"] + 3 * np.random.default_rng(5).standard_normal(len(data)))
    return [cap_of(fitted(rows)) for rows in (data, wide)]


def _first_of(honest: Any) -> Any:
    released: list[Any] = []

    def release(*arguments: Any, **others: Any) -> Any:
        released.append(honest(*arguments, **others))
        return released[0]

    return release


def test_the_cap_follows_from_what_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = caps_of_one_release(monkeypatch)
    assert one == other < 5


def test_a_planted_clean_histogram_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cap by the counts before their noise."""
    clean_counts(monkeypatch, residuals)
    one, other = caps_of_one_release(monkeypatch)
    assert one != other


@ADJACENCIES
def test_a_plan_with_public_persons_costs_what_the_fit_does(adjacency: str) -> None:
    settings = {"inference": True, "unit": "who", "n": PERSONS, "adjacency": adjacency}
    plan = dp.plan(MODEL, WIDE, 1.0, **settings)
    found = fitted(**settings)
    assert found.guarantee.eps == plan.guarantee.eps == 1.0
    pd.testing.assert_series_equal(plan.budget.loc["residual spread"], found.budget.loc["residual spread"])
    assert "how far residuals about it reach" in " ".join(str(plan.summary()).split())
    assert plan.at(0.5).at(1.0).digest() == plan.digest()
    said, unsaid = (plan.standard_errors(PERSONS, residual_sd=sd)["std_error"] for sd in (1.0, 10.0))
    assert (said < unsaid).all()


def test_forecasts_by_public_persons_foresee_the_cap() -> None:
    """Ratios to seven fits' median errors: 1.08 and 1.10, and 2.4 as if the cap followed the response's interval."""
    errors = np.median([fitted(frame(seed=seed), seed=seed).bse for seed in range(7)], axis=0)
    plan = dp.plan(MODEL, WIDE, 1.0, unit="who", inference=True)
    ratios = plan.standard_errors(PERSONS, like=frame(2_000, 9))["std_error"] / errors
    assert ratios[TRUTH.index].between(0.9, 1.2).all()


@pytest.mark.slow
def test_forecasts_take_the_cap_that_nine_in_ten_fits_reach() -> None:
    """Of few persons the widest, of more what purchases find, of many that of the residuals; numbers follow."""
    plan, known = dp.plan(MODEL, WIDE, 1.0, unit="who", inference=True), {"x": (0.0, 0.58), "z": (0.0, 0.58)}
    given = dp.plan(MODEL, WIDE, 1.0, unit="who", inference=True, family=dp.families.Gaussian(residual_cap=3.5))
    found, narrow = (
        [one.standard_errors(n, typical=known, residual_sd=1.0).loc["x"] for n in (4_000, 6_000, 12_000)]
        for one in (plan, given)
    )
    usual = [one["std_error"] / other["std_error"] for one, other in zip(found, narrow, strict=True)]
    # In 25 fits each of one row a person the widest caps were .16, .11 and .08 of half of the range.
    assert usual[0] > 2
    assert usual[1] == pytest.approx(1.4, abs=0.15)
    assert usual[2] < 1.1
    # Of a response that is not described residuals may be skewed, and the widest cap stays.
    assert found[2]["upper"] > 5 * narrow[2]["std_error"]
    described = {**known, "y": (0.0, 1.3)}
    unlucky = [plan.standard_errors(n, typical=described, residual_sd=1.0).loc["x", "upper"] for n in (6_000, 12_000)]
    assert 1.7 < unlucky[0] / narrow[1]["std_error"] < 2.5
    assert unlucky[1] / narrow[2]["std_error"] < 1.35
    size = dp.sample_size(plan, se={"x": float(found[1]["std_error"])}, typical=described, residual_sd=1.0)
    assert size.cautious > 1.05 * size.n
    assert f"With {size.cautious:,} persons, at least 95 of 100 fits are expected to meet the target" in " ".join(
        str(size).split()
    )


def test_a_printed_plan_has_the_purchase_and_from_how_many_persons_on_it_is() -> None:
    """1,000 persons times eps for each of two columns, at eps 2; of auto errors the table has fewer persons."""
    plan = dp.plan("y ~ x", {"x": (0, 1), "y": (-20, 20)}, 2.0, unit="p", inference=True)
    text = " ".join(str(plan).split())
    assert "Budget: eps 2, with 1,000 persons: row counts 0.06, response 0.06, residual spread 0.18, fit" in text
    assert "With about 1,000 persons or more, the fit also spends up to eps 0.18 on how far residuals" in text
    spends = [("residual spread" in plan.call.with_rows(plan, persons).budget.index) for persons in (999, 1000)]
    assert spends == [False, True]


def test_a_summary_says_that_no_narrower_cap_was_found() -> None:
    """Exponential residuals, of which a cap was paid for; of normal ones it was found."""
    data = frame()
    single = data.assign(y=data["y"] - 45 + 2 * np.random.default_rng(3).exponential(size=len(data)) ** 1.5)
    texts = [" ".join(str(fitted(one, eps=3.0, seed=5).summary()).split()) for one in (single, data)]
    assert ["No narrower cap found: residuals are capped at 33.75" in text for text in texts] == [True, False]
    assert "which is 0.9 times the width of the response's bought interval (-50, -12.5)." in texts[0]


def test_responses_without_residuals_are_fitted() -> None:
    """The narrowest cap that a histogram tells, of a range 10^6 times as wide as the response."""
    data = frame().assign(y=0.5)
    found = fitted(data, domain={**WIDE, "y": (-1e6, 1e6)})
    assert found.plan.residuals is not None
    assert np.isfinite(found.bse).all()


def test_one_tail_keeps_the_wide_cap() -> None:
    """Residuals of an exponential response have one tail: a narrow cap would bend the slopes."""
    data = frame()
    data["y"] += 2 * np.random.default_rng(3).exponential(size=len(data)) ** 1.5
    found = fitted(data, eps=3.0)
    assert found.plan.residuals is not None
    assert found.plan.family.residual_cap >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("unit", [{}, {"max_rows": 2}], ids=["equal", "two"])
def test_intervals_of_persons_cover(unit: dict[str, int]) -> None:
    """40 fits of 2 slopes of new persons: .95 less 3 standard errors of 80 independent ones is .877."""
    covered: list[bool] = []
    for seed in range(40):
        found = fitted(frame(seed=seed), seed=seed, **unit)
        assert found.plan.residuals is not None
        ends = found.conf_int().loc[TRUTH.index].to_numpy()
        covered += ((ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH)).tolist()
    assert np.mean(covered) > 0.877

"""The rule that chooses what a fit spends on errors by a number of rows."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpstats as dp
from dpstats.models import adaptive, expectations, forecast_by_rows
from dpstats.models.expectations import (
    InformationRatios,
    Outlook,
    choose,
    has_expectation,
    noise_projection,
    outlooks,
    preferred,
)
from dpstats.plan import with_settled_law
from dpstats.plan.plan import rescaled

DOMAIN = {"a": (0, 1), "b": (0, 1), "f": ["u", "v", "w"], "y": (0, 1)}
FORMULA = "y ~ a + b + f"
ALONE, FREE, PAID = {"inference": None}, {"inference": "auto"}, {"inference": True}


def plans(family: str, *settings: dict[str, Any], eps: float = 1.0, **options: Any) -> list[dp.Plan]:
    """Plans of one call that differ in what they spend on errors."""
    domain = {**DOMAIN, "y": (0, 20) if family == "poisson" else bool if family == "binomial" else (0.0, 1.0)}
    return [dp.plan(FORMULA, domain, eps, family=family, **options, **setting) for setting in settings]


@pytest.mark.parametrize("family", ["binomial", "poisson", "gaussian"])
def test_few_rows_get_coefficients_alone_and_some_are_worth_paying(family):
    candidates = plans(family, ALONE, FREE, PAID) if family != "gaussian" else plans(family, ALONE, PAID)
    chosen = [choose(candidates, n) for n in (30, 4_000)]
    assert chosen == [0, len(candidates) - 1]


def test_what_many_rows_show_for_free_is_not_paid_for():
    candidates = plans("binomial", ALONE, FREE, PAID)
    assert candidates[1].stages[-1].plan.information is not None
    assert choose(candidates, 1e8) == 1


def test_of_equal_plans_the_first_is_chosen():
    alone = plans("gaussian", ALONE)[0]
    assert choose([alone, alone], 5_000) == 0


@pytest.mark.parametrize("n", [-3_000.0, 0.0, 1.0, 0.3, 1e15])
def test_a_noisy_count_may_be_anything(n):
    candidates = plans("binomial", ALONE, FREE, PAID, eps=0.01)
    assert choose(candidates, n) in (0, 1, 2)
    assert all(0 <= one.share <= 1 and 1 <= one.loss < np.inf for one in outlooks(candidates, [n])[0])


@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}, {"adjacency": "replace_one"}])
@pytest.mark.parametrize("settings", [(PAID,), ({"method": "statistics"},)])
def test_more_rows_show_more_and_lose_less(settings, options):
    rows = [10.0**power for power in range(1, 8)]
    found = [one[0] for one in outlooks(plans("gaussian", *settings, **options), rows)]
    assert all(before.share <= after.share for before, after in itertools.pairwise(found))
    assert all(before.loss >= after.loss for before, after in itertools.pairwise(found))
    assert found[0].share < 0.1
    assert found[-1].share > 0.99


RARE = {f"f{j}": (0, 1) for j in range(3)} | {f"d{j}": (0, 30) for j in range(3)} | {"y": (0, 30)}
RARE_FORMULA = "y ~ f0 + f1 + f2 + d0 + d1 + d2"


def rare_rows(seed: int) -> dict[str, Any]:
    """20,000 counts by rare flags and by days of which most are zero, so that no narrower range is found."""
    random, size = np.random.default_rng(seed), 20_000
    rows = {f"f{j}": (random.random(size) < 0.03).astype(float) for j in range(3)}
    rows |= {f"d{j}": (random.random(size) < 0.1) * np.minimum(random.exponential(4, size), 30) for j in range(3)}
    means = np.exp(-0.8 + 0.3 * (rows["f0"] + rows["f1"]) + 0.05 * (rows["d0"] - rows["d1"]))
    return rows | {"y": np.minimum(random.poisson(means * random.gamma(2, 0.5, size)), 30)}


def test_intervals_of_counts_do_not_get_fewer_as_eps_rises():
    """Free errors of columns that say little are not counted on: 10 of these 21 coefficients had one at eps 5.

    Of 100 other seeds 62, 36, 1 and 1 leave 7, 6, 5 and 3 of seven an interval: one false alarm in about 100 choices of
    seeds.
    """
    shown = {eps: [_intervals(seed, eps) for seed in range(3)] for eps in (1.0, 5.0)}
    assert all(few <= many for few, many in zip(shown[1.0], shown[5.0], strict=True))
    assert sum(shown[5.0]) >= 16


def _intervals(seed: int, eps: float) -> int:
    """How many of the seven coefficients have one."""
    fit = dp.poisson(RARE_FORMULA, rare_rows(seed), eps, domain=RARE, seed=seed, allow_uncertified=True)
    return int(np.isfinite(fit.bse).sum()) if fit.has_errors else 0


def test_counts_by_numbers_alone_have_errors_too():
    """Rows that say little are not what errors wait for: of Fair's affairs (1978) half of the coefficients have one."""
    numbers = {"marriage": (1, 5), "age": (15, 50), "years": (0, 30), "children": (0, 6), "faith": (1, 4)}
    candidates = [
        dp.plan(f"y ~ {' + '.join(numbers)}", numbers | {"y": (0, 30)}, 0.3, family="poisson", **setting)
        for setting in (ALONE, FREE, PAID)
    ]
    assert choose(candidates, 30_000) == 2


@pytest.mark.parametrize("part", [0.005, 0.05, 0.3])
def test_a_plan_foresees_what_is_chosen_once_the_mean_of_counts_is_bought(part):
    """Information and its noise go by the mean alike, so whatever it turns out to be the shares are within a tenth."""
    plan = dp.plan(RARE_FORMULA, RARE, 1.0, family="poisson")
    bought = rescaled(plan, with_settled_law(plan), replace(plan.response, mean=part * 30))
    rows = [2_000.0, 20_000.0, 200_000.0]
    for before, after in zip(*(outlooks(adaptive.candidates_of(one), rows) for one in (plan, bought)), strict=True):
        assert [one.share for one in before] == pytest.approx([one.share for one in after], abs=0.1)


def test_coefficients_alone_show_no_interval():
    assert outlooks(plans("gaussian", ALONE), [1e6])[0][0].share == 0


def test_ratios_are_those_of_drawn_noise():
    """G_jj over the deviation of g'E g, within four standard errors of 1,000 draws, where nothing is dropped."""
    plan = dp.plan("y ~ a + b", DOMAIN | {"y": bool}, 1.0, family="binomial", inference=True)
    noise = plan.stages[-1].plan.information.noise
    information = 3_000 * np.array([[0.4, 0.05, 0.0], [0.05, 0.3, 0.1], [0.0, 0.1, 0.3]])
    inverse, random = np.linalg.inv(information), np.random.default_rng(5)
    moved = np.array([np.diag(inverse @ noise.sample(random) @ inverse) for _ in range(1_000)])
    wanted = np.diag(inverse) / moved.std(axis=0)
    # In the user's units the intercept is a combination, with what is least known of it.
    ratios = InformationRatios(plan, information / 3_000, noise_projection(plan)).of(3_000)
    assert ratios[1:] == pytest.approx(wanted[1:], rel=0.1)
    assert ratios[0] == pytest.approx(wanted.min(), rel=0.1)


def test_a_coefficient_without_information_does_not_take_the_others_along():
    """What it is nearly collinear with keeps its interval: the least is dropped first."""
    plan = dp.plan("y ~ a + b", DOMAIN | {"y": bool}, 1.0, family="binomial", inference=True)
    both = 5_000 * np.array([[0.3, 0.0, 0.0], [0.0, 0.3, 0.2999], [0.0, 0.2999, 0.3001]])
    ratios = InformationRatios(plan, both, noise_projection(plan)).of(1)
    assert ratios[1] < 2 < ratios[2] or ratios[2] < 2 < ratios[1]


def test_what_is_typical_decides():
    """A narrow column says little; one that fills its range says much."""
    candidates = plans("gaussian", ALONE, PAID, eps=0.5)
    spread, narrow = (dict.fromkeys("ab", (0.5, sd)) for sd in (0.28, 0.01))
    rows = [5_000.0]
    assert outlooks(candidates, rows, spread)[0][1].share > outlooks(candidates, rows, narrow)[0][1].share + 0.2


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({}, True),
        ({"delta": 1e-6}, True),
        ({"weights": "b"}, False),
        ({"unit": "person"}, True),
        ({"screen": 1}, False),
        ({"domain": {"y": (0.0, 1.0), "b": (0, 1)}}, True),
    ],
)
def test_what_public_facts_tell_of(call, expected):
    call = {"domain": {"a": (0, 1), "b": (0, 1), "y": (0.0, 1.0)}, "inference": None, **call}
    formula = "y ~ a" if "weights" in call else "y ~ a + b"
    assert has_expectation(dp.plan(formula, call.pop("domain"), 1.0, **call)) is expected


SCREENED = {f"x{j}": (-1, 1) for j in range(12)} | {"y": (-6.0, 6.0)}
MANY = "y ~ " + " + ".join(f"x{j}" for j in range(12))


@pytest.mark.parametrize("options", [{}, {"split": "rows"}, {"delta": 1e-6}])
def test_errors_of_screened_least_squares_follow_the_number_of_rows(options: dict[str, Any]) -> None:
    """The widest terms stand for those that will be chosen, so the table has no column for the others."""
    found = dp.plan(MANY, SCREENED, 1.0, screen=3, **options).by_rows()
    assert found["errors"].iloc[0] == "none"
    assert found["errors"].iloc[-1] == "paid"
    assert found["share"].is_monotonic_increasing
    assert found["share"].iloc[-1] > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"split": "rows"}, {"delta": 1e-6}])
@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_errors_of_other_screened_models_are_paid_for_where_that_is_worth_it(
    family: str, options: dict[str, Any]
) -> None:
    """A fit that follows the number of rows costs what was charged, whichever errors it has settled on."""
    domain = {**SCREENED, "y": bool if family == "binomial" else (0, 20)}
    plan = dp.plan(MANY, domain, 1.0, family=family, screen=3, **options)
    found = plan.by_rows()
    assert found["errors"].iloc[0] == "none"
    assert "paid" in found["errors"].tolist()
    assert found["share"].iloc[-1] > 0.95
    random = np.random.default_rng(0)
    rows = {name: random.uniform(-1, 1, 6_000) for name in SCREENED}
    rows["y"] = (random.uniform(-1, 1, 6_000) < rows["x1"]).astype(int)
    fit = dp.glm(MANY, rows, 1.0, family=family, domain=domain, screen=3, **options)
    assert fit.plan.request.options.inference is True
    assert fit.guarantee == plan.guarantee


@pytest.mark.slow
def test_screened_least_squares_has_intervals_where_there_are_rows_enough(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = {name: random.uniform(-1, 1, 6_000) for name in SCREENED}
    rows["y"] = 2 * rows["x1"] - 2 * rows["x4"] + random.normal(size=6_000)
    ledger = dp.Ledger(tmp_path / "ledger", dataset="d", eps=5.0)
    fit = dp.ols(MANY, rows, 3.0, domain=SCREENED, screen=3, ledger=ledger)
    assert fit.identified[["x1", "x4"]].all()
    assert fit.bse[["x1", "x4"]].max() < 0.1
    assert ledger.remaining[0] == pytest.approx(2.0)  # nothing beyond what was planned
    few = dp.ols(MANY, {name: column[:300] for name, column in rows.items()}, 0.3, domain=SCREENED, screen=3, seed=1)
    assert not few.has_errors
    assert "nearly all of them need about" in " ".join(str(few.summary()).split())
    assert "standard_errors(n)" not in str(few.summary())  # which has no forecast of a screened model


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"inference": None, "ranges": "declared", "family": "binomial"}, "leave out inference=None"),
        ({"check_share": 0, "family": "binomial"}, "counts no rows"),
        ({"weights": "b", "family": "binomial"}, "there is no forecast with weights"),
    ],
)
def test_an_empty_table_by_rows_has_a_reason(
    options: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    domain = {"a": (0, 1), "b": (0, 1), "y": bool}
    assert dp.plan("y ~ a", domain, 1.0, **options).by_rows().empty
    assert reason in caplog.text


def test_errors_are_worth_what_the_page_says():
    """docs/benchmarks_inference: share - 2 log(loss), a tenth of the intervals at least, Phi(ratio - 2.5)."""
    assert preferred([Outlook(0.2, 1.0), Outlook(0.31, 1.05)]) == 1
    assert preferred([Outlook(0.2, 1.0), Outlook(0.29, 1.05)]) == 0
    assert preferred([Outlook(0.0, 2.0), Outlook(0.11, 1.0)]) == 1
    assert preferred([Outlook(0.0, 2.0), Outlook(0.09, 1.0)]) == 0
    assert preferred([Outlook(0.0, 1.0, 0.0), Outlook(0.01, 1.0, 0.11)]) == 1  # of counts


def test_at_two_and_a_half_an_interval_is_an_even_chance(monkeypatch):
    one = np.array([2.5, *[1e9] * 4])
    monkeypatch.setattr(expectations.InformationRatios, "of", lambda ratios, n: one)
    assert outlooks(plans("gaussian", PAID), [5_000.0])[0][0].share == pytest.approx((0.5 + 4) / 5)


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["y ~ x1", "y ~ x1 * x2 + g"])
def test_the_stand_in_for_a_response_decides_next_to_nothing(formula: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows from which errors are paid for are within a third of what they are once the interval is bought.

    So it is wherever it is guessed to lie: at half and at twice the part of the range that stands in for it.
    """
    domain = {"x1": (0, 10), "x2": (-5, 5), "g": ["a", "b", "c"], "y": (0, 100)}
    plan = dp.plan(formula, domain, 1.0)
    asked = with_settled_law(plan)

    def least_rows(candidates: list[dp.Plan]) -> float:
        low, high = 10.0, 1e6
        while high > 1.03 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if choose(candidates, middle) else (middle, high)
        return high

    first = adaptive.candidates_of(plan)
    bought = adaptive._likely_interval(first[-1].request, plan)
    once_bought = least_rows(adaptive.candidates_of(rescaled(plan, first[-1].request, bought), asked))
    for part in (0.5, 1.0, 2.0):
        with monkeypatch.context() as patched:
            likely = part * expectations.LIKELY_PART
            for module in (adaptive, expectations):
                patched.setattr(module, "LIKELY_PART", likely)
            assert least_rows(adaptive.candidates_of(plan)) == pytest.approx(once_bought, rel=1 / 3)


def test_errors_that_cost_predictions_much_are_left() -> None:
    """Prices of computers, of which columns explain four fifths: at 4,400 rows errors cost half as much loss again."""
    columns = {
        "speed": (10, 150),
        "hd": (20, 4000),
        "ram": (1, 64),
        "screen": (12, 21),
        "ads": (0, 500),
        "trend": (1, 36),
    }
    factors = {name: ["no", "yes"] for name in ("cd", "multi", "premium")}
    domain = {"price": (500, 8000), **columns, **factors}
    choices = forecast_by_rows.Choices(dp.plan(f"np.log(price) ~ {' + '.join([*columns, *factors])}", domain, 1.0))
    assert [choices.outlook(rows)[0] for rows in (4_400, 8_000)] == [0, 1]


def test_more_rows_have_no_smaller_share_of_intervals() -> None:
    domain = {"age": (20, 80), "sex": ["F", "M"], "arm": ["placebo", "low", "high"], "bmi": (14, 60), "score": (0, 100)}
    plan = dp.plan("score ~ cr(age, df=4, constraints='center') + arm + sex*center(bmi)", domain, 1.0)
    shares = plan.by_rows([300_000, 500_000, 700_000, 800_000, 900_000, 1_000_000, 1_300_000, 2_000_000])["share"]
    # Where the last knot is nearly identified, others share its noise only if it is not dropped.
    assert (shares.diff().dropna() > -1e-3).all()
    assert shares.iloc[-1] > 0.99


@pytest.mark.parametrize("terms", ["bmi*age", "poly(bmi, 2)", "cr(age, df=4, constraints='center')"])
def test_shares_of_intervals_rise_steadily_where_columns_go_together(terms: str) -> None:
    """Others count as if the least identified one were dropped, as long as it may be: no share jumps back."""
    plan = dp.plan(f"score ~ {terms}", {"age": (20, 80), "bmi": (14, 60), "score": (0, 100)}, 1.0)
    shares = plan.by_rows(np.geomspace(1_000, 3_000_000, 100).astype(int).tolist())["share"]
    assert shares.iloc[0] < 0.6
    assert shares.iloc[-1] > 0.99
    assert (shares.diff().dropna() > -0.003).all()

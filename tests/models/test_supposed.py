"""What is known of rows that are made up: typical columns, and public rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError

DOMAIN = {
    "bmi": (12, 60),
    "ward": ["a", "b", "c", "d"],
    "old": bool,
    "sbp": (70, 230),
    "died": ["no", "yes"],
    "falls": (0, 30),
}
TYPICAL = {"bmi": (27, 4), "ward": {"d": 0.01, "b": 0.5}, "old": 0.2}


def made_up(formula: str, n: int = 40_000, family: str = "gaussian", **known: Any) -> pd.DataFrame:
    return dp.plan(formula, DOMAIN, 1.0, family=family).made_up(n, 3, **known)


def test_columns_are_as_typical_has_them() -> None:
    """Forty thousand rows with a fixed seed; tolerances are five standard errors and more."""
    rows = made_up("sbp ~ bmi + ward + old", typical={**TYPICAL, "sbp": (130, 17)})
    assert rows["bmi"].mean() == pytest.approx(27, abs=0.1)
    assert rows["bmi"].std() == pytest.approx(4, abs=0.1)
    assert rows["sbp"].mean() == pytest.approx(130, abs=0.5)
    assert rows["sbp"].std() == pytest.approx(17, abs=0.5)
    assert rows["old"].mean() == pytest.approx(0.2, abs=0.01)
    shares = rows["ward"].value_counts(normalize=True)
    assert shares[["d", "b"]].tolist() == pytest.approx([0.01, 0.5], abs=0.013)
    # What is not said is ever rarer in its order.
    assert shares["a"] == pytest.approx(9 * shares["c"], rel=0.1)


@pytest.mark.parametrize(
    ("pair", "spread"), [((60, 0), 0.0), ((12.5, 3), 3.0), ((36, 13.9), 13.9), ((36, 23), 23.0), ((36, 24.01), 24.0)]
)
def test_a_mean_and_an_sd_fill_no_more_than_the_range(pair: tuple[float, float], spread: float) -> None:
    """A constant, a skewed number, one that fills its range, and one at its two ends."""
    bmi = made_up("sbp ~ bmi", typical={"bmi": pair})["bmi"]
    assert bmi.between(12, 60).all()
    assert bmi.mean() == pytest.approx(pair[0], abs=0.6)
    assert bmi.std() == pytest.approx(spread, rel=0.05)


def test_a_response_is_as_typical_has_it() -> None:
    died = made_up("died ~ bmi", family="binomial", typical={"died": {"yes": 0.03}})["died"]
    assert (died == "yes").mean() == pytest.approx(0.03, abs=0.005)
    assert died.equals(made_up("died ~ bmi", family="binomial", typical={"died": 0.03})["died"])
    old = made_up("old ~ bmi", family="binomial", typical={"old": (0.2, 0.4)})["old"]
    assert old.isin([0, 1]).all()
    assert old.mean() == pytest.approx(0.2, abs=0.02)
    falls = made_up("falls ~ bmi", family="poisson", typical={"falls": (0.6, 1)})["falls"]
    assert falls.mean() == pytest.approx(0.6, abs=0.05)


def test_rows_of_a_public_frame_keep_what_goes_together() -> None:
    base = np.random.default_rng(1).uniform(15, 45, 500)
    public = pd.DataFrame({"bmi": base, "old": base > 30, "sbp": 100 + base})
    rows = made_up("sbp ~ bmi + old", 2000, like=public)
    assert (rows["old"] == (rows["bmi"] > 30)).all()
    assert np.allclose(rows["sbp"], 100 + rows["bmi"])
    changed = made_up("sbp ~ bmi + old", 2000, like=public, typical={"old": 0.5})
    assert 0.4 < (changed["old"] == (changed["bmi"] > 30)).mean() < 0.6
    without = made_up("sbp ~ bmi + old", 2000, like=public.drop(columns="sbp").to_dict("list"))
    assert without["sbp"].between(70, 230).all()
    assert not np.allclose(without["sbp"], 100 + without["bmi"])


def test_columns_that_go_together_have_larger_errors() -> None:
    domain = {"u": (0, 10), "v": (0, 10), "y": (0, 10)}
    plan = dp.plan("y ~ u + v", domain, 1.0, inference=True)
    random = np.random.default_rng(4)
    u, other = random.uniform(0, 10, (2, 5000))
    y = 5 + 0.2 * (u - 5) + random.normal(0, 1, 5000)
    alone = plan.standard_errors(20_000, like={"u": u, "v": other, "y": y})
    together = plan.standard_errors(20_000, like={"u": u, "v": 0.9 * u + 0.1 * other, "y": y})
    assert together.loc["u", "std_error"] > 3 * alone.loc["u", "std_error"]


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_an_intercept_is_no_surer_where_columns_are_independent(family: str) -> None:
    """Independent columns as described: a correlation would leave the intercept a smaller error, slopes larger ones."""
    domain = {"age": (18, 90), "inc": (0, 100), "sex": ["F", "M"], "y": bool if family == "binomial" else (0, 100)}
    typical = {"age": (45, 15), "inc": (30, 15), "sex": {"M": 0.5}, "y": 0.3 if family == "binomial" else (50, 10)}
    random = np.random.default_rng(8)
    age, inc = 18 + 72 * random.beta(1.65, 2.75, 20_000), 100 * random.beta(2.5, 5.83, 20_000)
    like = pd.DataFrame({"age": age, "inc": inc, "sex": np.where(random.random(20_000) < 0.5, "M", "F")})
    plan = dp.plan("y ~ age + inc + sex", domain, 1.0, family=family, inference=True)
    response = {"y": typical["y"]}
    foreseen = plan.standard_errors(10_000, typical=typical)
    independent = plan.standard_errors(10_000, typical=response, like=like)
    for column in ("lower", "sampling"):
        ratios = foreseen[column] / independent[column]
        assert ratios["Intercept"] == pytest.approx(1, abs=0.07)
        assert (ratios.drop("Intercept") > 1.01).all()


@pytest.mark.slow
def test_columns_that_are_one_are_never_told_apart() -> None:
    plan = dp.plan("y ~ u + v", {"u": (0, 10), "v": (0, 10), "y": (0, 10)}, 1.0, inference=True)
    u = np.linspace(0, 10, 500)
    one = {"u": u, "v": u, "y": 5 + 0.2 * np.sin(7 * u)}
    assert plan.standard_errors(10**7, like=one).loc["u", "identified"] < 0.95
    with pytest.raises(ArgumentError, match="more than 1,000,000,000,000 rows would be needed"):
        dp.sample_size(plan, se={"u": 0.1}, like=one)


@pytest.mark.slow
def test_what_is_typical_is_foreseen() -> None:
    plan = dp.plan("sbp ~ bmi", DOMAIN, 1.0, inference=True)
    errors = [
        plan.standard_errors(20_000, typical={"bmi": pair}).loc["bmi", "std_error"]
        for pair in ((36, 12), (36, 6), (27, 4))
    ]
    assert errors[0] < 0.6 * errors[1] < 0.6 * errors[2]


def test_declared_columns_that_the_formula_does_not_read_may_be_described() -> None:
    rows = made_up("sbp ~ bmi", 100, typical={"bmi": (27, 4)})
    assert made_up("sbp ~ bmi", 100, typical={"bmi": (27, 4), "ward": {"d": 0.01}, "old": 0.2}).equals(rows)
    hazard = dp.plan_hazard("Surv(falls, old) ~ bmi", DOMAIN, 1.0, breaks=[0, 10, 30])
    events = hazard.made_up(100, typical={"old": 0.9, "sbp": (130, 17)})
    assert events["old"].mean() > 0.6 > hazard.made_up(100)["old"].mean()
    plan = dp.plan("ward ~ bmi", DOMAIN, 1.0, family="multinomial")
    assert len(plan.made_up(100, typical={"bmi": (27, 4), "old": 0.2})) == 100


@pytest.mark.parametrize(
    ("known", "fix"),
    [
        ({"typical": (27, 4)}, "typical must be a dict"),
        ({"typical": {"age": (27, 4)}}, "'age' is no column of the formula; it reads"),
        ({"typical": {"bmi": 27}}, r"bmi' is numeric.* as in typical=\{'bmi': \(27, SD\)\}; got 27"),
        ({"typical": {"old": "yes"}}, "or the share of ones"),
        ({"typical": {"old": 1.5}}, "or the share of ones"),
        ({"typical": {"bmi": (27, -1)}}, "sd of 'bmi' must be at least 0"),
        ({"typical": {"bmi": (27, 30)}}, "at most 22.25"),
        ({"typical": {"bmi": (270, 4)}}, "mean of 'bmi' must be within its range, 12 to 60"),
        ({"typical": {"bmi": (np.nan, 4)}}, "mean and standard deviation"),
        ({"typical": {"ward": 0.1}}, r"give shares of some or all, such as typical=\{'ward': \{'d': 0.1\}\}"),
        ({"typical": {"ward": {"e": 0.1}}}, "'ward' has no level 'e'"),
        ({"typical": {"ward": {"a": -0.1}}}, "give shares"),
        ({"typical": {"ward": {"a": 0.6, "b": 0.6}}}, "add up to 1.2, not 1"),
        ({"typical": {"ward": dict.fromkeys("abcd", 0.1)}}, "add up to 0.4, not 1"),
        ({"like": 5}, "like must be a frame of public rows"),
        ({"like": {"bmi": [1.0], "ward": ["a", "b"]}}, "columns of one length"),
        ({"like": {"bmi": []}}, "like must have rows"),
        ({"like": {"bmi": [20.0]}}, "like has no column 'ward'"),
        ({"like": pd.DataFrame([[20.0, 21.0]], columns=["bmi", "bmi"])}, "several columns of one name"),
    ],
)
def test_what_is_not_known_so_is_refused(known: dict[str, Any], fix: str) -> None:
    with pytest.raises(ArgumentError, match=fix):
        made_up("sbp ~ bmi + ward + old", 100, **known)


@pytest.mark.slow
def test_a_response_that_is_no_column_needs_rows_that_have_it() -> None:
    plan = dp.plan("np.log(sbp) ~ bmi", DOMAIN, 1.0, inference=True)
    with pytest.raises(ArgumentError, match="like= rows that have it"):
        plan.made_up(100)
    rows = made_up("sbp ~ bmi", 5000)
    assert plan.simulate(5000, like=rows).params.index.tolist() == ["Intercept", "bmi"]
    assert np.isfinite(plan.standard_errors(50_000, like=rows)["std_error"]).all()
    known = plan.standard_errors(50_000, typical={"bmi": (36, 10), "sbp": (130, 5)})
    assert known.loc["bmi", "sampling"] < plan.standard_errors(50_000).loc["bmi", "sampling"]


@pytest.mark.slow
def test_forecasts_say_which_share_of_events_they_assume() -> None:
    columns = {"x": (-4, 4), "y": bool, "b": ["no", "yes"], "k": (0, 20)}
    plan = dp.plan("y ~ x", columns, 1.0, family="binomial")
    usual, rare = dp.sample_size(plan, se={"x": 0.1}), dp.sample_size(plan, se={"x": 0.1}, typical={"y": 0.06})
    assert "25 % of y are 1" in (text := " ".join(str(usual).split()))
    assert "typical={'y': 0.25}" in text
    assert "This assumes that 6 % of y are 1." in " ".join(str(rare).split())
    assert rare.n > 1.5 * usual.n
    assert "12 % of y are 1" in repr(plan.by_rows())
    assert dp.plan_ordinal("g ~ x", {"x": (0, 1), "g": ["a", "b", "c"]}, 2.0).by_rows().empty
    # A mean and any sd, and what the Domain says, are the same share.
    declared = dp.plan("y ~ x", {**columns, "y": dp.Range(0, 1, typical=0.06)}, 1.0, family="binomial")
    foreseen = [plan.standard_errors(5000, typical={"y": share}) for share in (0.06, (0.06, 0.2))]
    for other in (foreseen[1], declared.standard_errors(5000)):
        assert np.allclose(foreseen[0]["sampling"], other["sampling"])
    levels = dp.plan("b ~ x", columns, 1.0, family="binomial").standard_errors(5000)
    assert "typical={'b': {\"yes\": 0.25}}" in levels.attrs["note"]
    enough = dp.required(plan, se={"x": 0.01}, n=500)
    assert "The sampling error alone is too large" in " ".join(str(enough).split())
    counts = dp.plan("k ~ x", columns, 1.0, family="poisson", inference=True)
    assert "k has a mean of 1 and varies" in counts.standard_errors(5000).attrs["note"]
    known = counts.standard_errors(5000, typical={"x": (0, 1), "k": (1, 3), "b": {"yes": 0.1}}).attrs["note"]
    assert known.endswith("This assumes that k has a mean of 1 and a standard deviation of 3.")
    wide, narrow = (counts.standard_errors(5000, typical={"k": (1, sd)}).loc["x", "sampling"] for sd in (3, 1))
    assert wide > 1.5 * narrow


def test_errors_without_noise_are_of_the_alpha_that_described_counts_buy() -> None:
    """statsmodels' negative binomial has .0151 for `g` of 20,000 such rows; by Poisson counts it would be .0056."""
    columns = {"x": (0, 1), "g": ["u", "v"], "y": (0, 200)}
    known = {"x": (0.5, 0.29), "g": {"v": 0.5}, "y": (7.5, 8.0)}

    def sampling(family: object) -> pd.Series:
        forecast = dp.plan("y ~ x + g", columns, 50.0, family=family, inference=True).forecast(typical=known)
        errors = forecast.errors(20_000)
        assert np.allclose(forecast.sampling("known", 20_000), np.sqrt(20_000) * errors["sampling"])
        assert np.all(errors["sampling"] <= errors["std_error"])
        return errors["sampling"]

    bought, alpha = sampling("negative_binomial"), (8**2 - 7.5) / 7.5**2
    assert 0.0145 < bought["g[T.v]"] < 0.0165
    assert np.allclose(bought, sampling(dp.families.NegativeBinomial(alpha)), rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
@pytest.mark.parametrize("most", [12, 60])
def test_described_counts_have_errors_as_fits_do(family: str, most: int) -> None:
    """A greatest count is bought, and the mean that caps the noise or the dispersion; the median of five seeded fits.

    `std_error` is for the mean of the greatest counts that fits buy.
    """
    random = np.random.default_rng(2)
    rows = pd.DataFrame({"x": random.normal(0, 1, 20_000).clip(-4, 4)})
    rows["k"] = np.minimum(random.poisson(random.gamma(1, np.exp(0.3 * rows["x"]))), most)
    plan = dp.plan("k ~ x", {"x": (-4, 4), "k": (0, most)}, 2.0, family=family)
    fits = pd.concat([plan.fit(rows, seed=seed).bse for seed in range(5)], axis=1).median(axis=1)
    known = {"x": (0, 1), "k": (float(rows["k"].mean()), float(rows["k"].std()))}
    for foreseen in (plan.standard_errors(20_000, like=rows), plan.standard_errors(20_000, typical=known)):
        assert np.all(np.abs(np.log(foreseen["lower"] / fits)) < np.log(1.5))
        assert np.all(np.abs(np.log(foreseen["std_error"] / fits)) < np.log(1.5))
        assert np.all(foreseen["lower"] <= foreseen["std_error"])
        assert np.all(foreseen["std_error"] <= foreseen["upper"])


CLAIMS = {"age": (18, 100), "bonus": dp.Range(50, 350, typical=(60, 16)), "years": (0, 1), "fuel": ["petrol", "diesel"]}


def claims(rows: int, seed: int) -> pd.DataFrame:
    """Rare counts: .08 in the mean, .13 a year."""
    random = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "age": random.normal(45, 14, rows).clip(18, 100),
            "bonus": (50 + random.gamma(0.4, 25, rows)).clip(50, 350),
            "years": random.uniform(0.05, 1, rows),
            "fuel": random.choice(["petrol", "diesel"], rows),
        }
    )
    rate = 0.13 * np.exp(0.02 * (found["bonus"] - 60))
    found["k"] = np.minimum(random.poisson(rate * found["years"] * random.gamma(2, 0.5, rows)), 20)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("eps", [1.0, 3.0])
def test_rare_counts_with_exposures_have_errors_as_fits_do(eps: float) -> None:
    """Described in the Domain or by `like`: most fits buy a greatest count of 2 to 4 of 20 (nine seeded fits)."""
    formula, options = "k ~ age + bonus + fuel", {"family": "poisson", "exposure": "years"}
    rows = claims(40_000, 1)
    known = (float(rows["k"].mean()), float(rows["k"].std()))
    domain = {**CLAIMS, "k": dp.Range(0, 20, typical=known)}
    plan = dp.plan(formula, domain, eps, **options)
    fits = pd.concat([plan.fit(rows, seed=seed).bse for seed in range(9)], axis=1).median(axis=1)
    response = plan.forecast().plan_at(40_000).response
    assert 2 <= response.high <= 5
    assert abs(response.mean / (rows["k"].sum() / rows["years"].sum()) - 1) < 0.3
    foreseen = plan.standard_errors(40_000, like=rows)
    assert np.all(np.abs(np.log(foreseen["std_error"] / fits)) < np.log(2))
    declared = plan.standard_errors(40_000)
    assert np.all(np.abs(np.log(declared["std_error"] / fits)) < np.log(3))
    # Whoever says it of the forecast supposes what the Domain does.
    assert declared.equals(plan.standard_errors(40_000, typical={"k": known}))


@pytest.mark.slow
def test_least_squares_of_a_described_response_have_the_errors_of_the_method_that_fits_choose() -> None:
    """About the numbers of rows at which the method changes; the median of nine seeded fits at each.

    Up to twice as large where fewer than nine in ten fits find a narrower cap on residuals: it has the widest.
    """
    random = np.random.default_rng(5)
    rows = pd.DataFrame({"age": random.normal(52, 18, 15_000).clip(18, 90), "sex": random.choice(["f", "m"], 15_000)})
    rows["bmi"] = random.normal(27, 4.5, 15_000).clip(12, 60)
    mean = 100 + 0.5 * rows["age"] + 0.6 * (rows["bmi"] - 27) + 4 * (rows["sex"] == "m")
    rows["sbp"] = (mean + random.normal(0, 12, 15_000)).clip(60, 260)
    domain = {"age": (18, 90), "sex": ["f", "m"], "bmi": (12, 60), "sbp": (60, 260)}
    plan = dp.plan("sbp ~ age + sex + bmi", domain, 0.5, ranges="declared")
    for n in (5_000, 7_000, 10_000, 15_000):
        fits = [plan.fit(rows.head(n), seed=seed) for seed in range(9)]
        assert {one.plan.request.method for one in fits} == {plan.forecast(like=rows).plan_at(n).request.method}
        median = pd.concat([one.bse for one in fits], axis=1).median(axis=1)
        assert (plan.standard_errors(n, like=rows)["std_error"] / median).between(0.6, 2.0).all()

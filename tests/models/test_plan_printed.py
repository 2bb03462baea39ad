"""What `print(plan)` shows: the essentials, and where the rest is."""

from __future__ import annotations

import re
from typing import Any

import pytest

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.models import forecast_by_rows

WIDE = {f"x{j}": (0, 10) for j in range(20)}
SCREEN: dict[str, Any] = {"screen": 8, "split": "rows", "inference": True}


def planned(response: object, domain: dict[str, Any], eps: float = 1.0, **options: Any) -> dp.Plan:
    return dp.plan(f"y ~ {' + '.join(domain)}", {"y": response, **domain}, eps, **options)


@pytest.mark.parametrize(
    ("response", "domain", "options"),
    [
        ((-50, 50), {"x1": (0, 10), "x2": bool}, {}),
        (bool, {"x1": (0, 10), "x2": bool}, {"family": "binomial", "n": 20_000}),
        ((0, 20), {"x1": (0, 10)}, {"family": "poisson", "delta": 1e-6}),
        ((-50, 50), WIDE, SCREEN),
        (bool, WIDE, {**SCREEN, "family": "binomial"}),
    ],
)
def test_a_printed_plan_is_short_and_leads_to_the_whole_text(
    response: object, domain: dict[str, Any], options: dict[str, Any]
) -> None:
    lines = str(planned(response, domain, **options)).splitlines()
    assert len(lines) <= (36 if "screen" in options else 31)
    assert max(map(len, lines)) <= 80
    assert lines[-1].endswith("print(plan.summary())")
    assert any(line.startswith("Budget: eps 1") for line in lines)
    assert any("-differentially private for" in line for line in lines)


def test_a_printed_plan_warns_of_weak_guarantees_and_of_none() -> None:
    assert "hardly limits" in str(planned((0, 1), {"x": (0, 1)}, 30.0))
    assert "NOT CERTIFIED" in str(planned((0, 1), {"x": (0, 1)}, seed=1, allow_uncertified=True))


@pytest.mark.parametrize("options", [{}, {"family": "binomial"}])
def test_ranges_of_chosen_columns_are_in_the_notes_and_by_rows(options: dict[str, Any]) -> None:
    """Before the rows are counted the budget is that of few rows, as for other ranges."""
    plan = planned(bool if options else (-50, 50), WIDE, **SCREEN, **options)
    assert plan.by_rows([15_000, 17_000])["ranges"].tolist() == ["declared", "bought"]
    assert "about 16,000 to 84,351 rows" in " ".join(str(plan).split())
    declared = planned(bool if options else (-50, 50), WIDE, ranges="declared", **SCREEN, **options)
    assert declared.by_rows(17_000)["ranges"].tolist() == ["declared"]
    assert "chosen columns" not in str(declared.summary())


def test_by_rows_says_what_it_takes_of_chosen_columns_and_of_intervals() -> None:
    columns: dict[str, Any] = {f"x{place}": (0, 100) for place in range(6)}
    formula = "y ~ " + " + ".join(columns)
    screened = dp.plan(formula, {**columns, "y": (0, 1)}, 1.0, screen=2, inference=True)
    assert (
        "screen= chooses count as correlated by 0.2; fewer of more correlated columns"
        in screened.by_rows().attrs["note"]
    )
    assert "forecast for hardly correlated columns: numbers fill little of their ranges" in str(screened)
    assert "cautious forecast" not in str(screened)
    assert "Columns that screen= chooses count as correlated by 0.2" in str(screened)
    plain = dp.plan(formula, {**columns, "y": (0, 1)}, 1.0, inference=True)
    assert plain.by_rows().attrs["note"] == "cautious forecast: numbers fill little of their ranges"
    inner = dp.plan(formula, {**columns, "x0": dp.Range(0, 100, inner=(5, 30)), "y": (0, 1)}, 1.0, inference=True)
    assert "within inner=" in inner.by_rows().attrs["note"]


def test_the_share_of_events_that_by_rows_assumes_can_be_told() -> None:
    """A plan that screens has no other forecast, so the Domain alone takes the share."""
    columns: dict[str, Any] = {f"x{place}": (0, 100) for place in range(6)}

    def told(response: Any, **options: Any) -> str:
        plan = dp.plan("y ~ " + " + ".join(columns), {**columns, "y": response}, 1.0, family="binomial", **options)
        note: str = plan.by_rows(10_000).attrs["note"]
        return note.split("\n")[1]

    assert "plan.standard_errors(n, typical={'y': 0.12}) takes the share" in told(bool)
    assert "; dp.Range(0, 1, typical=0.12) for y in the Domain takes the share" in told(bool, screen=2)
    assert told(dp.Range(0, 1, typical=0.3), screen=2) == "This assumes that 30 % of y are 1, as declared."
    assert told(["no", "yes"], screen=2) == "This assumes that 12 % of y are yes."


def test_a_forecast_of_an_alpha_that_will_be_bought_says_that_counts_vary_as_poisson_counts() -> None:
    """Overdispersed counts have far fewer intervals: the forecast of a known alpha counts with it."""

    def forecast(declared: Any, family: Any = "negative_binomial", **options: Any) -> tuple[str, float]:
        plan = dp.plan("y ~ x + g", {"x": (0, 9), "g": ["u", "v"], "y": declared}, 2.0, family=family, **options)
        table = plan.by_rows(10_000)
        return table.attrs["note"], float(table["share"].iloc[0])

    note, share = forecast((0, 1000))
    known, of_known = forecast((0, 1000), dp.families.NegativeBinomial(alpha=1))
    assert note == (
        "forecast for counts that vary as Poisson counts do: numbers fill little of their ranges, levels are rare\n"
        "Fewer coefficients have a standard error if counts vary more; plan.standard_errors(n, typical={'y': [50, "
        "10]}) takes the mean and the standard deviation that you know."
    )
    assert share > 0.9 > 0.2 > of_known
    quiet = [known, forecast((0, 1000), "poisson")[0], forecast((0, 1000), response="declared")[0]]
    assert quiet == ["cautious forecast: numbers fill little of their ranges, levels are rare"] * 3
    described = forecast(dp.Range(0, 1000, typical=(37, 35)))[0]
    assert "; plan.standard_errors(n) takes the declared standard deviation." in described
    columns = {"x": dp.Range(0, 9, typical=(4, 1)), "y": (0, 99)}
    printed = " ".join(str(dp.plan("y ~ x", columns, 2.0, family="negative_binomial")).split())
    assert "forecast for counts that vary as Poisson counts do, columns as declared Fewer" in printed


def test_a_forecast_by_rows_supposes_nothing_of_what_is_declared() -> None:
    known, unknown = dp.Range(0, 100, typical=(50, 10)), (0, 100)

    def supposed(**columns: Any) -> str:
        plan = dp.plan("y ~ " + " + ".join(columns), {**columns, "y": (0, 1)}, 1.0)
        return " ".join(str(plan).split())

    assert "cautious forecast: numbers fill little of their ranges =" in supposed(a=unknown)
    assert "cautious forecast: numbers fill little of their ranges, levels are rare =" in supposed(a=unknown, g=bool)
    assert "cautious forecast: numbers without typical values fill little" in supposed(a=unknown, b=known)
    assert "cautious forecast: levels are rare =" in supposed(b=known, g=["u", "v", "w"])
    assert "forecast for columns as declared =" in supposed(b=known)
    inner = dp.Range(0, 300, inner=(0, 80))
    assert "cautious forecast: numbers with inner= lie far from its middle All rows count" in supposed(c=inner)
    assert "forecast for columns as declared All rows" in supposed(c=dp.Range(0, 300, inner=(0, 80), typical=(40, 12)))
    assert (
        "cautious forecast: numbers without typical values or inner= fill little of their ranges, numbers with inner= "
        "lie far" in supposed(a=unknown, c=inner)
    )


def test_numbers_fill_more_of_the_interval_that_inner_declares_than_of_a_range() -> None:
    """Twelve skewed columns, which have published intervals: fewer errors are expected than with typical values."""

    def share(declared: Any) -> float:
        columns = {f"x{place}": declared for place in range(12)}
        formula, options = "y ~ " + " + ".join(columns), {"screen": 7, "split": "rows", "inference": True}
        plan = dp.plan(formula, {**columns, "y": [0, 1]}, 1.0, family="binomial", **options)
        return float(plan.by_rows(10_000)["share"].iloc[0])

    assert share((0, 80)) < 0.1 < 0.15 < share(dp.Range(0, 300, inner=(0, 80)))
    assert share(dp.Range(0, 300, inner=(0, 80), typical=(35, 80 / 6))) > 0.7


@pytest.mark.parametrize("skewed", [1, 6])
def test_no_interval_is_promised_where_inner_holds_a_long_tail(skewed: int) -> None:
    """Lognormal columns, mean 9, within (0, 45): of 20 fits .64 and .67 of the coefficients had an interval.

    The forecast had been 1: a column far from the middle of its interval goes with the intercept, and hides others.
    """

    def share(declared: dp.Range) -> list[float]:
        typical = dp.Range(0, 100, typical=(50, 10))
        columns = {f"x{place}": declared if place < skewed else typical for place in range(30)}
        options: dict[str, Any] = {"family": "binomial", "screen": 7, "split": "rows", "inference": True}
        events = dp.Range(0, 1, typical=0.5)
        plan = dp.plan("y ~ " + " + ".join(columns), {**columns, "y": events}, 1.0, **options)
        return list(plan.by_rows([17_000, 60_000])["share"])

    few, many = share(dp.Range(0, 150, inner=(0, 45)))
    assert 0.4 < few < 0.7
    assert many > 0.95
    assert min(share(dp.Range(0, 150, inner=(0, 45), typical=(22, 7)))) > 0.95, "in the middle"


def test_only_rows_that_say_little_lie_far_from_the_middle_of_an_inner_interval() -> None:
    """Usual rows, and so standard errors in the first column, are as they were; `upper` is of a long tail."""
    declared = {"y": dp.Range(0, 1, typical=0.5), **dict.fromkeys("ab", dp.Range(0, 150, inner=(0, 45)))}
    middle = declared | dict.fromkeys("ab", dp.Range(0, 150, inner=(0, 45), typical=(20, 7.5)))
    tailed, known = (
        dp.plan("y ~ a + b", domain, 1.0, family="binomial", inference=True).standard_errors(3_000)
        for domain in (declared, middle)
    )
    assert tailed["std_error"].to_numpy() == pytest.approx(known["std_error"].to_numpy(), rel=0.1)
    assert (tailed["upper"] > 1.5 * tailed["std_error"])[["a", "b"]].all()


def test_numbers_of_rows_stand_in_one_line_beside_methods() -> None:
    plan = dp.plan("y ~ a", {"a": dp.Range(0, 100, typical=(50, 10)), "y": (0.0, 1.0)}, 1.0)
    assert plan.by_rows()["method"].nunique() > 1
    assert "\n1,000,000 " in str(plan.summary())


def test_by_rows_takes_off_the_rows_beyond_typical_values() -> None:
    """Normal numbers: .27 % each, half of it where the declared range ends within three standard deviations."""
    both, above = dp.Range(0, 100, typical=(50, 10)), dp.Range(0, 100, typical=(10, 10))
    domain = {"a": both, "b": both, "c": above, "d": (0, 100), "y": dp.Range(0, 1, typical=(0.5, 0.1))}
    plan = dp.plan("y ~ a + b + c + d", domain, 1.0, inference=True)
    kept = (1 - 0.00135) ** 5
    assert forecast_by_rows._kept(plan) == pytest.approx(kept, rel=1e-4)
    assert forecast_by_rows._kept(dp.plan("y ~ a + b", domain, 1.0, unit="who", inference=True)) == 1.0
    settled = forecast_by_rows.Choices(plan).outlook(1000 * kept)[1].share
    assert plan.by_rows(1000)["share"].item() == pytest.approx(settled, rel=1e-4)


def test_by_rows_takes_numbers_of_rows() -> None:
    plan = planned((-5, 5), {"x": (0, 1)})
    assert plan.by_rows(4_000).index.tolist() == [4_000]
    assert plan.by_rows(n=[1_000, 5_000]).index.tolist() == [1_000, 5_000]
    for wrong in ([], "many", [1.5], [1_000, -3]):
        with pytest.raises(ArgumentError, match="n must be a whole number of rows"):
            plan.by_rows(wrong)  # type: ignore[arg-type]


def test_budget_and_noise_are_those_of_a_line_of_the_table() -> None:
    domain = {
        "age": (20, 80),
        "sex": ["F", "M"],
        "arm": ["placebo", "low", "high"],
        "bmi": (14, 60),
        "ill": ["no", "yes"],
    }
    formula = "ill ~ cr(age, df=4, constraints='center') + arm + sex*center(bmi)"
    plan = dp.plan(formula, domain, 2.0, family="binomial")
    text, tables = " ".join(str(plan).split()), plan.summary().as_text()
    fitted = dp.plan(formula, domain, 2.0, family="binomial", n=30_000)
    assert "Budget: eps 2, with 30,000 rows: row counts 0.06, ranges 0.02, fit " in text
    told = re.findall(r"Budget: eps 2, with ([\d,]+) rows", text)[0]
    assert re.search(rf"\n{told} .+%", str(plan)), "the Budget is that of a line"
    information = float(re.findall(r"information ([\d.]+)", text)[0])
    assert information == pytest.approx(fitted.budget["eps"].filter(like="info").sum(), rel=0.05)
    assert "Budget with 30,000 rows" in tables
    noise = tables.partition("Noise in the objective with 30,000 rows")[2]
    scale = float(re.findall(r"\nfit +([\d.]+)", noise)[0])
    assert scale == pytest.approx(fitted.noise.scale, rel=0.05)
    assert "This plan uses the declared ranges" not in text

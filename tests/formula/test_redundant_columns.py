"""Columns that depend on each other in every row are refused before any charge, and no others are."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpstats as dp
from dpstats.errors import FormulaError
from dpstats.families import Gaussian
from dpstats.formula import redundant_columns
from dpstats.formula.design import design_spec, requested_spec

DOMAIN = dp.Domain(
    {
        **{"y": (0, 1), "x": (17, 90), "z": (0.0, 10.0), "w": (-5, 3), "share": (0, 1), "year": (1990, 2020)},
        **{"g": ["a", "b", "c"], "h": ["m", "f"], "one": ["k"], "big": [f"l{level}" for level in range(150)]},
        **{f"v{index}": (0, 10) for index in range(30)},
    }
)

LEAVE_OUT = {
    "z + I(2*z)": "I(2 * z) is a linear combination of z in every row that the Domain allows; leave I(2 * z) out",
    "g + I(x - 50) + x": "x is a linear combination of the intercept and I(x - 50)",
    "w + z + I(w + z)": "I(w + z) is a linear combination of w and z",
    "0 + x + I(x - 3) + I(x + 4)": "I(x + 4) is a linear combination of x and I(x - 3)",
    "year + I((year - 2000)**2) + I(year**2)": "leave I(year ** 2) out",
    "I((x - 50)**3) + x + I(x**2) + I(x**3)": "leave I(x ** 3) out",
    "x:z + I(x*z)": "I(x * z) is a linear combination of x:z",
    # The one that loses nothing, whichever comes first.
    "x + poly(x, 2)": "x is a linear combination of the intercept and poly(x, 2)",
    "poly(x, 2) + x": "leave x out",
    "bs(x, df=4) + x": "leave x out",
    "x + cr(x, df=4, constraints='center')": "leave x out",
    "center(x) + x": "leave x out",
    "np.where(x > 50, x, 0) + np.where(x <= 50, x, 0) + x": "leave x out",
    "z + np.log(z + 1) + I(np.log((z + 1)**2))": "leave I(np.log((z + 1) ** 2)) out",
    "x + I(x > -1)": "I(x > -1) is the same in every row that the Domain allows; leave I(x > -1) out",
    # Whatever else multiplies them, and however many levels it has.
    "x:g + I(2*x)": "I(2 * x) is a linear combination of x:g",
    "x*big + I(2*x)": "I(2 * x) is a linear combination of x",
    "one:x + x + I(x / 3)": "I(x / 3) is a linear combination of x",
    "share:w:g + I(share*w)": "I(share * w) is a linear combination of share:w:g",
    "0 + g + I(x > -1)": "I(x > -1) is a linear combination of g",
}

INSTEAD = {
    "C(h, Treatment('f')) + g*h": "C(h, Treatment('f')) and h code the same column, h",
    "g + I(g == 'a')": "g and I(g == 'a') code the same column, g",
    "cut(x, [0, 40, 90]) + cut(x, [0, 20, 40, 90])": "write one of them in every term",
    "bs(x, df=4) + bs(x, df=5)": "leave bs(x, df=4) or bs(x, df=5) out",
    # Each has something that the other does not.
    "poly(x, 2) + g/x": "columns of the intercept, poly(x, 2) and g:x depend on each other linearly in every row",
    "cut(x, [0, 10, 40, 90])": "one of its bins, so its columns add up to the intercept; leave that bin out",
}

ALLOWED = [
    *("x + I(x**2) + I(x**3) + I(x**4) + I(x**5) + I(x**6) + I(x**7) + I(x**8)", "year + I(year**2) + I(year**3)"),
    *("x + np.log(x) + np.sqrt(x)", "bs(x, df=12) + z", "poly(x, 8)", "bs(x, knots=[88, 89, 89.5])"),
    *("x + I(x == 33)", "x + I(x == 33.5)", "x + I(x > 89.9) + I(x > 89.99)", "np.where(x > 50, x - 50, 0) + x"),
    *("g*h*share*x", "big*x + I(x**2)", "0 + g + h + x", "x / g", "0 + g:x", "one*x + z", "I(x*z) + x + z"),
    *("C(g, Sum)*C(h, Helmert)*x", "bs(x, df=6)*bs(z, df=6)", "big:x + I(big == 'l5') + z", "bs(x, df=5)*big"),
    # They differ at 40 alone.
    "cut(x, [0, 40, 90]) + C(np.digitize(x, [40]))",
    # A range of 0 and 1 has what lies between.
    *("share + I(share**2)", "share + I(share == 1)"),
    *("rff(x, gamma=1.0, D=40) + x", "np.sin(z) + np.cos(z) + np.sin(2*z) + np.cos(2*z)"),
]


def refusal(formula: str, domain: dp.Domain = DOMAIN) -> str | None:
    """Why a formula is refused, None if it is not."""
    try:
        requested_spec(f"y ~ {formula}", domain, family=Gaussian())
    except FormulaError as error:
        return str(error)
    return None


@pytest.mark.parametrize("formula", [*LEAVE_OUT, *INSTEAD])
def test_columns_that_depend_on_each_other_are_refused(formula: str) -> None:
    message = refusal(formula)
    assert message is not None
    assert {**LEAVE_OUT, **INSTEAD}[formula] in message


@pytest.mark.parametrize("formula", ALLOWED)
def test_columns_that_some_row_tells_apart_are_not(formula: str) -> None:
    assert refusal(formula) is None


@pytest.mark.parametrize("formula", [one for one in LEAVE_OUT if "0 +" not in one])
def test_a_formula_without_what_is_to_be_left_out_has_the_same_columns_but_one(formula: str) -> None:
    message = refusal(formula)
    assert message is not None
    leave = message.partition("; leave ")[2].partition(" out (character")[0]
    terms = design_spec(f"y ~ {formula}", DOMAIN, family=Gaussian()).coding.term_names
    rest = " + ".join(term for term in terms if term not in (leave, "Intercept"))
    assert rest != ""
    assert refusal(rest) is None


SIMPLE = ["x", "z", "w", "np.log(x)", "I(z**2)", "g", "h", "w:g", "h:z", "share", "bs(year, df=4)"]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    terms=st.lists(st.sampled_from(SIMPLE), min_size=2, max_size=6, unique=True),
    factor=st.sampled_from([-3.0, 0.1, 0.7, 7.0, 1e6]),
    shift=st.sampled_from([-4.5, 0.3, 100.0]),
    within=st.sampled_from(["", "g", "h"]),
    intercept=st.booleans(),
)
def test_a_planted_dependence_is_found_and_nothing_else(
    terms: list[str], factor: float, shift: float, within: str, intercept: bool
) -> None:
    formula = " + ".join(terms if intercept else ["0", *terms])
    assert refusal(formula) is None
    numbers = [term for term in terms if term in ("x", "z", "w", "share", "np.log(x)")]
    if not numbers:
        return
    term = numbers[0]
    planted = f"I({factor} * {term} + {shift})" if intercept else f"I({factor} * {term})"
    levels = f" + {within}:{term} + {within}:{planted}" if within else f" + {planted}"
    assert refusal(formula + levels) is not None
    assert refusal(f"{formula} + I({factor} * {term}**3)") is None
    if len(numbers) > 1:
        assert refusal(f"{formula} + I({factor} * {numbers[0]} - {numbers[1]})") is not None


def test_the_tolerance_lies_between_rounding_and_the_nearest_dependence(monkeypatch: pytest.MonkeyPatch) -> None:
    planted, close = "z + I(z / 3) + w", "year + I(year**2) + I(year**3)"
    monkeypatch.setattr(redundant_columns, "ROUNDING", 2.0**-54)
    assert refusal("I((x - 50)**3) + x + I(x**2) + I(x**3) + te(bs(x, df=4), bs(z, df=4)) + x:z") is None
    monkeypatch.setattr(redundant_columns, "ROUNDING", 1e-7)
    assert refusal(close) is not None
    monkeypatch.undo()
    assert refusal(close) is None
    assert refusal(planted) is not None
    # What little is left of an exact dependence beside columns that are close to others.
    powers = " + ".join(f"I(x**{power})" for power in range(2, 9))
    assert refusal(f"x + {powers} + I((x - 50)**8)") is not None


def test_more_rows_are_needed_than_those_of_the_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    rare = "z + I(np.abs(np.exp(z) - 1000) > 20)"  # not so in one value of 250
    assert refusal(rare) is None
    monkeypatch.setattr(redundant_columns, "MORE_ROWS", 10)
    monkeypatch.setattr(redundant_columns, "LEAST_ROWS", 20)
    assert refusal(rare) is not None


@pytest.mark.parametrize(
    ("formula", "subset", "what"),
    [
        ("y ~ x + z", "x == 30", "x has the same value in every row that"),
        ("y ~ h + z", "(h == 'f') & (z > 9.99)", "h has the same value in every row that"),
        ("y ~ z", "y == 1", "the response y has the same value in every row that"),
        # Of rows that meet the condition one or a few are drawn.
        ("y ~ x", "abs(x - 50) < 0.001", None),
        ("y ~ w + z", "(z/7 > 1.41) & (w*3 > 2.99) & (x/3 > 29.9)", None),
        ("y ~ z + g", "(x // 7 == 5) & (g != 'a')", None),
        ("y ~ x + z", "(x > 30) & (x < 30.000001)", None),
    ],
)
def test_a_column_is_said_to_have_one_value_only_where_no_other_meets_the_subset(
    formula: str, subset: str, what: str | None
) -> None:
    """`abs(inc - 500) < 20` was refused with "inc has the same value in every row", which is untrue."""
    if what is None:
        dp.plan(formula, DOMAIN, 1.0, subset=subset)
        return
    with pytest.raises(FormulaError, match=what):
        dp.plan(formula, DOMAIN, 1.0, subset=subset)


def test_a_condition_that_few_rows_meet_is_met() -> None:
    assert dp.plan("y ~ day", {"y": (0, 1), "day": (0, 20_000)}, 1.0, subset="day // 7 == 2600").eps == 1.0


def test_rows_of_which_a_fit_keeps_few_are_enough_to_look_on() -> None:
    """`MORE_ROWS` have what differs in one row of 5,000; of `LEAST_ROWS` two logarithms leave one in twenty."""
    assert refusal("x + I(x + (z > 9.9)*(v0 > 9.9)*(v1 > 9.9)*(v2 > 9))") is None
    logs = "np.log(x - 85)*np.log(z - 8)"
    assert refusal(f"I({logs}) + I(2*{logs})") is not None


@pytest.mark.slow
@pytest.mark.parametrize(("levels", "looked_through"), [(200, True), (310, False)])
def test_designs_of_so_many_columns_are_looked_through(levels: int, looked_through: bool) -> None:
    """`MOST_COLUMNS`: two codings of 200 levels are refused at once."""
    domain = DOMAIN.with_(big=[f"l{level}" for level in range(levels)])
    assert (refusal("C(big, Sum) + big", domain) is not None) == looked_through


def test_a_range_to_be_bought_says_nothing_of_curves() -> None:
    rows = {"x": np.linspace(0, 50, 4000), "y": np.linspace(0, 1, 4000)}
    domain = {"y": (0, 1)}
    assert dp.ols("y ~ x + np.maximum(x - 20, 0)", rows, 1.0, domain=domain, seed=1).plan.bought == ("x",)
    with pytest.raises(FormulaError, match=r"leave I\(x - 20\) out"):
        dp.ols("y ~ x + I(x - 20)", rows, 1.0, domain=domain, seed=1)


def test_what_counts_is_the_interval_in_which_rows_are_kept() -> None:
    formula = "np.maximum(x - 55, 0) + x"
    assert refusal(formula) is None
    assert refusal(formula, DOMAIN.with_(x=dp.Range(17, 90, typical=(75, 2)))) is not None
    # A row without a logarithm is left out, so that its sign tells nothing apart.
    assert refusal("np.log(w) + I(w > 0)") is not None


@pytest.mark.slow
def test_calls_refuse_before_anything_is_charged(tmp_path: Path) -> None:
    formula, random = "y ~ z + I(2 * z)", np.random.default_rng(0)
    domain = {"z": (0.0, 10.0), "y": (0, 1), "g": ["a", "b"]}
    rows = {"z": random.uniform(0, 10, 50), "y": random.uniform(0, 1, 50), "g": random.choice(["a", "b"], 50)}
    ledger = dp.Ledger(tmp_path / "ledger.db", "rows", eps=10)
    calls = (
        lambda: dp.ols(formula, rows, 1.0, domain=domain, ledger=ledger),
        lambda: dp.ols(f"{formula} | g", rows, 1.0, domain=domain, ledger=ledger),
        lambda: dp.glm(formula, rows, 1.0, domain=domain, penalty="ridge", alpha=1.0, ledger=ledger),
        lambda: dp.lasso(formula, rows, 1.0, domain=domain, alpha=1.0, ledger=ledger),
        lambda: dp.check(formula, rows, domain, 1.0, ledger=ledger),
        lambda: dp.plan(formula, domain, 1.0),
        lambda: dp.plan(formula, {**domain, "y": ["low", "mid", "high"]}, 1.0, family="multinomial"),
        lambda: dp.plan_many({"one": {"formula": formula}}, domain, 1.0),
        lambda: dp.streaming.Regression(formula, domain, eps=1.0, horizon=10),
        lambda: dp.local.Spec(domain, formula, eps=1.0, delta=1e-5, n=5000),
    )
    for call in calls:
        with pytest.raises(FormulaError, match=r"leave I\(2 \* z\) out"):
            call()
    assert ledger.remaining == ledger.total


def test_an_absorbed_factor_has_a_constant() -> None:
    for formula in ("y ~ z + I(x > -1) | g", "y ~ 0 + z + I(x > -1) | g"):
        with pytest.raises(FormulaError, match=r"I\(x > -1\) is the same in every row"):
            dp.plan(formula, DOMAIN, 1.0)
    with pytest.raises(FormulaError, match=r"of a constant \(the levels of g add up to one\) and I"):
        dp.plan("y ~ 0 + I(z - 1) + z | g", DOMAIN, 1.0)


@pytest.mark.parametrize("declared", [(0, 1e40), (-1e99, 1e99), (0, 1e-100), (1000, 1001), (0.2, 0.8)])
def test_ranges_may_be_tiny_or_beyond_whole_numbers(declared: tuple[float, float]) -> None:
    domain = DOMAIN.with_(z=declared)
    assert refusal("z + np.sqrt(z) + g*h", domain) is None
    assert refusal("z + I(z / 3) + g*h", domain) is not None


def test_a_stored_design_of_such_a_formula_is_built_as_it_was() -> None:
    old = design_spec("y ~ z + I(2 * z)", DOMAIN, family=Gaussian())
    assert type(old).from_dict(old.to_dict()).to_dict() == old.to_dict()


@pytest.mark.slow
def test_designs_of_many_columns_and_levels_are_looked_through_at_once() -> None:
    many = " + ".join(f"v{index} + np.log1p(v{index})" for index in range(30))
    for formula in (f"big*x + I(x**2) + {many}", "bs(x, df=20)*big"):
        design = design_spec(f"y ~ {formula}", DOMAIN, family=Gaussian())
        start = time.process_time()
        redundant_columns.refuse_redundant(design.coding, design.domain, design.support)
        assert time.process_time() - start < 1.0


def test_two_codings_of_many_levels_are_found_and_a_design_of_more_is_not_looked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    formula = "C(big, Sum) + big"
    assert "code the same column, big" in str(refusal(formula))
    monkeypatch.setattr(redundant_columns, "MOST_COLUMNS", 200)
    assert refusal(formula) is None


@pytest.mark.parametrize(
    ("terms", "subset", "name"),
    [
        ("x + h", "h == 'f'", "h"),
        ("x + h", "h != 'f'", "h"),
        ("x * g", "(g == 'b') & (x >= 30)", "g"),
        ("x:h", "h == 'm'", "h"),
        ("z + year", "year == 2017", "year"),
        ("z + g", "(g != 'a') & (g != 'c')", "g"),
        ("z + h", "g == 'a'", None),
        ("z + g", "g != 'a'", None),
        ("z + h", "(h == 'f') | (z == 7.3)", None),
        ("z + year", "year >= 2019.5", None),
    ],
)
def test_a_column_of_one_value_in_the_subset_is_refused(terms: str, subset: str, name: str | None) -> None:
    """Fits paid for columns of zeros, and had no intercept where the reference level was left out."""
    said = None
    try:
        dp.plan(f"y ~ {terms}", DOMAIN, 1.0, subset=subset)
    except FormulaError as error:
        said = str(error)
    wanted = None if name is None else f"{name} has the same value in every row that subset("
    assert said is None if wanted is None else said is not None and said.startswith(wanted)
    stored = design_spec(f"y ~ {terms} + subset({subset})", DOMAIN, family=Gaussian())
    assert stored.subset is not None


def test_a_subset_whose_range_is_to_be_bought_tells_nothing_of_its_rows() -> None:
    domain = {"y": (0, 1), "h": ["m", "f"]}
    assert dp.plan("y ~ h", domain, 1.0, subset="(h == 'f') | (z > 5)").names == ("Intercept", "h[T.f]")


def test_a_condition_may_name_any_number_of_the_range() -> None:
    """It was refused as one that no row meets, unless the number was one of an even lattice."""
    assert dp.plan("y ~ x", DOMAIN, 1.0, subset="year == 2017").names == ("Intercept", "x")
    for beyond in ("year == 2027", "(year == 2017) & (year > 2017)"):
        with pytest.raises(FormulaError, match="no row within the declared ranges meets it"):
            dp.plan("y ~ x", DOMAIN, 1.0, subset=beyond)


@pytest.mark.parametrize(("response", "high"), [("I(0 * y)", 1.0), ("I(2 * y - 1)", 1e-160)])
def test_a_response_of_one_value_is_refused(response: str, high: float) -> None:
    """With persons and a bought interval it ended in a division by zero."""
    with pytest.raises(FormulaError, match="has the same value in every row that the Domain allows"):
        dp.plan(f"{response} ~ x", {"x": (0, 1), "y": (0, high)}, 1.0)


def test_a_spline_of_which_typical_values_keep_a_small_part_is_refused_by_what_to_type() -> None:
    """Its knots lie all over (0, 200), and five columns do not differ in (9, 81)."""
    spline, others = "cr(x, df=4, constraints='center')", {"g": ["a", "b"], "y": (0, 1)}
    for cut in (dp.Range(0, 200, typical=(45, 12)), dp.Range(0, 200, inner=(9, 81))):
        with pytest.raises(FormulaError, match=r"keeps only rows with x in \(9, 81\).*declare a narrower range of x"):
            dp.plan(f"y ~ g + {spline}", {**others, "x": cut}, 1.0)
        dp.plan("y ~ g + cr(x, df=3, constraints='center')", {**others, "x": cut}, 1.0)
    dp.plan(f"y ~ g + {spline}", {**others, "x": (9, 81)}, 1.0)
    with pytest.raises(FormulaError, match=r"I\(2 \* x\) is a linear combination of x in every row"):
        dp.plan("y ~ x + I(2 * x)", {**others, "x": dp.Range(0, 200, inner=(9, 81))}, 1.0)

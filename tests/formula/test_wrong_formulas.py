"""What is told of a wrong formula: where it is wrong, and what to write instead."""

from __future__ import annotations

import pytest

import dpstats as dp

DOMAIN = {"y": (-5, 5), "x": (0, 10), "z": (0, 1), "g": ["a", "b", "c"], "k": (1, 3), "wide": (0, 1000)}

WRONG: list[tuple[str, int, str]] = [
    # formula, the character that is wrong from 1, what to write
    ("y ~ x +", 7, "a column or a call is missing"),
    ("y", 1, "as in y ~ x"),
    ("~ x", 1, "as in y ~ x"),
    ("y = x", 3, "write y ~ x"),
    ("y ~", 3, "a column or a call is missing"),
    ("y ~ 0", 3, "keep the intercept or add a column"),
    ("y ~ 5", 5, "I(x + 5)"),
    ("y ~ x ~ z", 1, "write one ~"),
    ("y ~ (x + z)^2", 12, "(a + b)**2"),
    ("y ~ x^2", 6, "I(x**2)"),
    ("y ~ I(x^2)", 5, "I(x**2)"),
    ("y ~ x**2", 5, "write I(x**2)"),
    ("y ~ z + I(x)**2", 9, "write I(x**2)"),
    ("y ~ x**2.5", 8, "I(x**2.5)"),
    ("y ~ 1/x", 5, "I(1 / x)"),
    ("y ~ x | g + h", 7, "C(year) | firm"),
    ("y ~ x + (1|g)", 11, "there are no random effects"),
    ("y ~ (x > 1) | (z > 1)", 13, "I((x > 1) | (z > 1))"),
    ("y ~ x %in% g", 7, "I((g == 'a') | (g == 'b'))"),
    ("y ~ `my col`", 5, "Q('my column')"),
    ("y ~ my col", 5, "Q('my col')"),
    ("y ~ x z", 5, "put + or :"),
    ("y ~ x:*z", 7, "a column or a call is missing"),
    ("y ~ (x", 5, "close the bracket"),
    ("y ~ x)", 6, "take the bracket away"),
    ("y ~ $x", 4, "Q('name')"),
    ("y ~ 'x'", 5, "leave it out"),
    ("y ~ lambda", 5, "Q('name')"),
    ("y ~ np.log x", 5, "Q('name')"),
    ("y ~ C(k)", 5, "declare [1, 2, 3], not (1, 3)"),
    ("y ~ factor(k)", 5, "declare [1, 2, 3], not (1, 3)"),
    ("y ~ C(wide)", 5, "cut(wide, [...])"),
    ("y ~ C(x + 1)", 5, "cut(x, [0, 10, 20])"),
    ("y ~ C(g, ref='b')", 5, "C(g, Treatment('b'))"),
    ("y ~ C(g, Treatment(ref='b'))", 5, "Treatment('level')"),
    ("y ~ C(g, Treatment('q'))", 5, "one of ['a', 'b', 'c']"),
    ("y ~ x + relevel(g, 'b')", 9, "C(g, Treatment('b'))"),
    ("y ~ C(g, Foo)", 5, "as in C(g, Sum)"),
    ("y ~ C(g, 'Sum', 3, 4)", 5, "as in C(g, Sum)"),
    ("y ~ C(g, levels=['a'])", 5, "['a', 'b', 'c']"),
    ("y ~ C()", 5, "write C(column)"),
    ("y ~ cut(x, 3)", 5, "cut(x, [0, 10, 20])"),
    ("y ~ cut(x, [5, 2])", 5, "breaks must increase"),
    ("y ~ cut(x, [0, 5, 10], ['a'])", 5, "a list of 2 different names"),
    ("y ~ cut(x)", 5, "cut(x, [0, 10, 20]"),
    ("y ~ cut(x, [20, 30])", 5, "move the breaks"),
    ("y ~ np.digitize(x, z)", 5, "must be written out"),
    ("y ~ x - x.mean()", 9, "center(x)"),
    ("y ~ np.mean(x)", 5, "center(x)"),
    ("y ~ np.cumsum(x)", 5, "as a column of the data"),
    ("y ~ foo(x)", 5, "as a column of the data"),
    ("y ~ lgo(x)", 5, "did you mean log(...)?"),
    ("y ~ sin(x)", 5, "write np.sin(...)"),
    ("y ~ log(x, z)", 5, "log(x)"),
    ("y ~ np.log(x, z)", 5, "np.log(x)"),
    ("y ~ np.exp(x, out=z)", 5, "leave them out"),
    ("y ~ log(g)", 5, "as a range (low, high)"),
    ("y ~ log(x - 20)", 5, "narrow them"),
    ("y ~ g[0]", 5, "compare instead"),
    ("y ~ I(g > 'a')", 5, "compare by == or !="),
    ("y ~ I(g == 'q')", 5, "one of ['a', 'b', 'c']"),
    ("y ~ I(x == 'a')", 5, "declared by levels"),
    ("y ~ x and z", 5, "use & and |"),
    ("y ~ x if z else 1", 5, "np.where(condition, a, b)"),
    ("y ~ ifelse(x > 1, 1, 0)", 5, "np.where(condition, a, b)"),
    ("y ~ 1 < x < 3", 5, "(1 < x) & (x < 3)"),
    ("y ~ np.where(x, 1, 0)", 5, "such as (x > 1)"),
    ("y ~ s(x)", 5, "cr(..., df=4, constraints='center')"),
    ("y ~ z + ns(x, 3)", 9, "cr(..., df=4, constraints='center')"),
    ("y ~ z + cr(x, df=4)", 9, "cr(x, df=4) adds up to the intercept; write cr(x, df=4, constraints='center')"),
    ("y ~ z + bs(x)", 9, "bs(x, df=4)"),
    ("y ~ poly(x)", 5, "poly(x, 2)"),
    ("y ~ cr(x, df=1)", 5, "cr(x, df=3, constraints='center')"),
    ("y ~ rff(x)", 5, "rff(x, gamma=1.0, D=40)"),
    ("y ~ scale()", 5, "scale(x)"),
    ("y ~ Q(x)", 5, "Q('name')"),
    ("y ~ I()", 5, "I(x**2)"),
    ("y ~ offset(x, z)", 5, "offset(np.log(t))"),
    ("y ~ x:offset(z)", 5, "cannot be part of another term"),
    ("y ~ weights(x) + weights(z)", 18, "weights(a * b)"),
    (". ~ x", 1, "name the response"),
]


@pytest.mark.parametrize(("formula", "place", "fix"), WRONG, ids=[formula for formula, _, _ in WRONG])
def test_a_refusal_says_where_and_what_to_write(formula: str, place: int, fix: str) -> None:
    with pytest.raises(dp.errors.FormulaError) as caught:
        dp.plan(formula, DOMAIN, 1.0)
    assert f"(character {place} of the formula)" in str(caught.value)
    assert fix in str(caught.value)


def test_a_share_of_counts_is_answered_by_cbind() -> None:
    counts = {"hits": (0, 8), "shots": (1, 8), "x": (0, 1)}
    for response in ("hits / shots", "I(hits / shots)"):
        with pytest.raises(dp.errors.DPStatsError, match=r"cbind\(hits, shots - hits\) ~ ..., without weights"):
            dp.plan(f"{response} ~ x", counts, 1.0, family="binomial", weights="shots")
    assert dp.plan("cbind(hits, shots - hits) ~ x", counts, 1.0, family="binomial").design.response.trials


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("log(x + 1)", ["log(x + 1)"]),
        ("sqrt(x) + exp(z) + abs(z)", ["sqrt(x)", "exp(z)", "abs(z)"]),
        ("factor(g)", ["factor(g)[T.b]", "factor(g)[T.c]"]),
        ("as.factor(g)", ["factor(g)[T.b]", "factor(g)[T.c]"]),
        ("I(g == 'as.factor(')", None),
        ("cut(x, c(0, 5, Inf), right=False)", ["cut(x, c(0, 5, Inf), right=False)[T.[5, inf)]"]),
    ],
)
def test_what_r_writes_is_taken(written: str, names: list[str] | None) -> None:
    domain = {**DOMAIN, "g": ["a", "b", "c", "as.factor("]} if names is None else DOMAIN
    found = dp.plan(f"y ~ {written}", domain, 1.0).names[1:]
    assert list(found) == names if names else len(found) == 1


def test_places_are_those_of_the_text_that_was_written() -> None:
    with pytest.raises(dp.errors.FormulaError, match=r"character 22 of"):
        dp.plan("y ~ as.factor( g ) + foo(x)", DOMAIN, 1.0)


def test_all_columns_are_those_of_the_domain() -> None:
    domain = {**DOMAIN, "my col": (0, 1), "w": (0, 2)}
    plan = dp.plan("log(y + 6) ~ . - k + offset(z)", domain, 1.0, weights="w")
    assert plan.formula == "log(y + 6) ~ (x + g + k + wide + Q('my col')) - k + offset(z) + weights(w)"
    with pytest.raises(dp.errors.FormulaError, match="it declares no other"):
        dp.plan("y ~ .", {"y": (0, 1)}, 1.0)
    assert dp.plan("y ~ I(x * .5)", DOMAIN, 1.0).formula == "y ~ I(x * .5)"


def test_a_declared_column_that_the_data_lack_is_said_to_come_from_the_dot() -> None:
    """Nobody has written its name in the formula."""
    rows, domain = {"x": [0.1, 0.2], "y": [0.3, 0.4]}, {"x": (0, 1), "y": (0, 1), "z": (0, 1)}
    with pytest.raises(dp.errors.DataError, match=r"no column 'z': '\.' means all columns that domain declares"):
        dp.ols("y ~ .", rows, 1.0, domain=domain)
    with pytest.raises(dp.errors.DataError, match=r"has no column 'z'$"):
        dp.ols("y ~ x + z", rows, 1.0, domain=domain)

"""The whitelist: what a formula may say, and what it refuses with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from patsy import ModelDesc

from dpstats.errors import FormulaError
from dpstats.formula.parse import parse


@pytest.mark.parametrize(
    ("factor", "reason"),
    [
        ("I(x - x.mean())", "attributes and methods"),
        ("x.rank()", "attributes and methods"),
        ("I(x.values)", "attributes and methods"),
        ("np.mean(x)", "not an elementwise function"),
        ("np.cumsum(x)", "not an elementwise function"),
        ("np.sort(x)", "not an elementwise function"),
        ("np.random.normal(x)", "attributes and methods"),
        ("np.linalg.norm(x)", "attributes and methods"),
        ("np.add.accumulate(x)", "attributes and methods"),
        ("np.add.reduce(x)", "attributes and methods"),
        ("np.matmul(x, x)", "not an elementwise function"),
        ("np.vecdot(x, x)", "not an elementwise function"),
        ("np.modf(x)", "not an elementwise function"),
        ("np.frompyfunc(x, 1, 1)", "not an elementwise function"),
        ("np.nosuchthing(x)", "not an elementwise function"),
        ("np.log(x, out=z)", "keyword arguments"),
        ("np.add(x, z, where=x > 1)", "keyword arguments"),
        ("np.log(x, z)", "takes 1 argument"),
        ("np.where(x > 1)", "not an elementwise function"),
        ("I(x[0])", "subscripts"),
        ("I(x[::-1])", "subscripts"),
        ("I((lambda v: v)(x))", "can call only"),
        ("I([v for v in x])", "comprehensions"),
        ("I(x if z else 1)", "np.where"),
        ("I(x and z)", "& and"),
        ("I(not x)", "use ~"),
        ("I((w := x))", "assigned"),
        ("I(x @ z)", "not a row-wise operation"),
        ("I(x << 2)", "not a row-wise operation"),
        ("I(x in z)", "'in' and 'is'"),
        ("I(1 < x < 3)", "for a chain"),
        ("I(f'{x}')", "not a row-wise operation"),
        ("I({x})", "not a row-wise operation"),
        ("I([x, z])", "not a row-wise operation"),
        ("I(1j * x)", "not a row-wise operation"),
        ("I(*x)", "I\\(\\) takes one argument|unpacked"),
        ("I(x, z)", "takes one argument"),
        ("I(x=z)", "takes one argument"),
        ("Q(x)", "takes one argument"),
        ("Q('x', 'z')", "takes one argument"),
        ("bs(x, knots=z)", "written out"),
        ("bs(x, df=z)", "written out"),
        ("bs(x, 4, z)", "written out"),
        ("bs(x, **z)", "unpacked"),
        ("bs(x, no_such=1)", "unexpected keyword"),
        ("bs()", "missing a required argument"),
        ("te()", "needs a column"),
        ("poly(x)", "missing a required argument"),
        ("C(x, z)", "no contrast"),
        ("C(x, Treatment(z))", "written out"),
        ("C(x, Treatment(nope=1))", "write Treatment"),
        ("C(x, levels=z)", "written out"),
        ("C(x, levels='abc')", "must be a list"),
        ("C(x, other=1)", "write C"),
        ("C()", "names no column"),
        ("sum(x)", "can call only"),
        ("max(x, z)", "can call only"),
        ("ns(x, 4)", r"write cr\("),
        ("x:offset(x)", "cannot be part of another term"),
        ("I(offset(x))", "cannot be part of another term"),
        ("cbind(x, x)", "cannot be part of another term"),
        ("weights(x) + weights(z)", "several weights"),
        ("offset(x, z)", "takes 1"),
        ("offset(x - x.mean())", "attributes and methods"),
        (".", "write the columns out"),
        ("eval('x')", "can call only"),
        ("__import__('os').system('true')", "attributes and methods"),
        ("np.pi", "reads no column"),
        ("I(3)", "reads no column"),
        ("np.log(2)", "reads no column"),
        ("I(x * 1" + "0" * 400 + ")", "not a valid expression"),
    ],
)
def test_refusals_say_why(factor: str, reason: str) -> None:
    with pytest.raises(FormulaError, match=reason):
        parse(f"y ~ {factor}")


def test_a_subtracted_factor_is_checked_too() -> None:
    with pytest.raises(FormulaError, match="attributes and methods"):
        parse("y ~ x - x.mean()")


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x +",
        "y ~ (x",
        "y ~ x ~ z",
        "y ~ 2",
        "y ~ 'x",
        "y ~ x y",
        "y ~ class",
        "y ~ x # no",
        "y ~ x**z",
        "y ~ 1:x",
        "y ~ .",
        "",
        "x",
        "~ x",
        "0 ~ x",
        "1 ~ x",
        "y + z + x ~ x",
        "cbind(y) ~ x",
        "offset(y) ~ x",
        "y ~ 0 + offset(x)",
        "y:z ~ x",
        "y ~ 0",
        "y ~ x - x - 1",
        "y ~ \x00",
        "y ~ I(" + "-" * 5000 + "x)",
    ],
)
def test_malformed_formulas(formula: str) -> None:
    with pytest.raises(FormulaError):
        parse(formula)


@pytest.mark.parametrize("formula", [None, 3, ["y ~ x"], b"y ~ x"])
def test_a_formula_is_a_string(formula: object) -> None:
    with pytest.raises(FormulaError, match="must be a string"):
        parse(formula)  # type: ignore[arg-type]


def test_columns_are_found_in_order_wherever_they_stand() -> None:
    formula = parse("np.log(wage) ~ bs(age, df=4)*sex + I((a > 1) & (Q('b c') <= 2)) + te(cr(u, df=3), cr(v, df=3))")
    assert formula.columns == ("wage", "age", "sex", "a", "b c", "u", "v")
    assert formula.exog_columns == formula.columns[1:]
    assert formula.response.code == "np.log(wage)"


def test_terms_expand_as_in_patsy() -> None:
    terms = parse("y ~ (a + b)**2 - b").terms
    assert [":".join(factor.code for factor in term) for term in terms] == ["", "a", "a:b"]


def test_names_are_read_as_written() -> None:
    # Python normalises U+00B5 (micro) to U+03BC (mu) in identifiers; data frames do not.
    assert parse("y ~ µ + größe + C + np").exog_columns == ("µ", "größe", "C", "np")


def test_builtins_are_columns_like_any_other_name() -> None:
    assert parse("y ~ I(__builtins__) + open").exog_columns == ("__builtins__", "open")


def test_every_elementwise_ufunc_is_known() -> None:
    for name in ("log", "exp", "sqrt", "abs", "minimum", "hypot", "floor", "log1p", "tanh", "sign", "square"):
        arguments = ", ".join(["x"] * getattr(np, name).nin)
        assert parse(f"y ~ np.{name}({arguments})").exog_columns == ("x",)


class TestLongSums:
    """A sum of many terms is read as a balanced tree, and means the same."""

    @pytest.mark.parametrize(
        "formula",
        [
            "y ~ a",
            "y ~ a + b + c + d + e",
            "y ~ 0 + a + b + c",
            "y ~ a + b + 0 + c + d - 1 + e + 1",
            "y ~ a + b - a + c + d + a",
            "y ~ a*b + c + a:c + (d + e):a + b",
            "y ~ (a + b + c)**2 + d + e - a:b",
            "y ~ a - b + c + d / e + f + g",
            "y ~ a + (b + 0) + c + d + (1 + e) + f",
        ],
    )
    def test_terms_and_their_order_are_patsys(self, formula):
        expected = [term.name() for term in ModelDesc.from_formula(formula).rhs_termlist]
        found = [":".join(factor.code for factor in term) or "Intercept" for term in parse(formula).terms]
        assert found == expected

    @pytest.mark.parametrize("start", ["", "0 + "])
    def test_thousands_of_terms(self, start):
        columns = [f"x{j}" for j in range(3000)]
        terms = [f"{column}:z" if column.endswith("7") else column for column in columns]
        found = parse(f"y ~ {start}{' + '.join(terms)}")
        assert len(found.terms) == 3000 + (not start)
        assert set(found.exog_columns) == {*columns, "z"}

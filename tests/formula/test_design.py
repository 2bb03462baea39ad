"""Designs: columns as patsy codes them, scaling that can be undone, bounds that every row keeps."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import patsy
import pytest
from numpy.typing import NDArray

from dpstats.domain import Domain, Levels, Range
from dpstats.errors import DataError, DomainError, FormulaError
from dpstats.families import Gaussian
from dpstats.formula.design import DesignSpec, design_spec

DOMAIN = Domain(
    {"odd name": (-1, 1), "class": (0, 1)},
    y=(-4, 10),
    x=(0, 10),
    z=(-1, 3),
    größe=(50, 220),
    a=["p", "q", "r"],
    b=[1, 2, 3],
    flag=bool,
    only=["one"],
)

FORMULAS = [
    "y ~ 1",
    "y ~ x",
    "y ~ x + z - 1",
    "y ~ 0 + x + a",
    "y ~ a",
    "y ~ a*b",
    "y ~ a:b",
    "y ~ 0 + a:b",
    "y ~ x:a",
    "y ~ x*a - x",
    "y ~ x:z",
    "y ~ x*z*a",
    "y ~ (x + z + a)**2",
    "y ~ a/x",
    "y ~ I(x**2) + I(x - z) + I(-x * 2 // 3 % 2)",
    "y ~ np.log(x + 1) + np.exp(z) + np.sqrt(x) + np.abs(z) + np.minimum(x, z) + abs(z)",
    "y ~ center(x) + standardize(z, ddof=1) + scale(größe)",
    "y ~ bs(x, df=5) + cr(z, df=4)",
    "y ~ 0 + bs(x, df=4, degree=2, include_intercept=True)",
    "y ~ bs(x, df=4):a",
    "y ~ cc(x, df=4) + cr(z, df=3, constraints='center')",
    "y ~ bs(center(np.log(x + 1)), 4)",
    "y ~ te(cr(x, df=3), cr(x, df=3))",
    "y ~ poly(x, 3) + poly(z, 1)",
    "y ~ C(a, Sum) + C(b, Helmert)",
    "y ~ C(a, Poly) + C(b, Diff)",
    "y ~ C(a, Treatment(reference='q')) + C(b, Treatment(2))",
    "y ~ C(a, Sum(omit='p')) + C(b, Poly(scores=[1, 2, 10]))",
    "y ~ C(a, levels=['r', 'p', 'q'])",
    "y ~ C(C(a, Sum), levels=['q', 'r', 'p']):x",
    "y ~ C(a, [[1, 0], [0, 1], [-1, -1]])",
    "y ~ Q('odd name') + Q('class') + größe",
    "y ~ (x > 3) + I((a == 'p') * x) + I((b != 2) & ~(x < 1) | (z >= 2) ^ (z <= 0))",
    "y ~ C(x > 5, Sum)",
    "y ~ np.where(a == 'q', x, z) + np.clip(x, 1, 4) + np.logical_or(x > 1, z > 1)",
    "y ~ flag + flag:a",
    "y ~ only + 0 + only:x",
    "y ~ x + I(0 * x + 3)",
]


def frame_of(rows: int, seed: int = 0) -> pd.DataFrame:
    """Rows within the Domain, with the end points of every range."""
    random = np.random.default_rng(seed)
    numeric = {name: (DOMAIN[name].low, DOMAIN[name].high) for name in ["y", "x", "z", "größe", "odd name", "class"]}  # type: ignore[union-attr]
    frame = pd.DataFrame({name: random.uniform(*ends, rows) for name, ends in numeric.items()})
    frame.iloc[:2] = [[low for low, _ in numeric.values()], [high for _, high in numeric.values()]]
    frame["a"] = random.choice(["p", "q", "r"], rows)
    frame["b"] = random.choice([1, 2, 3], rows)
    frame["flag"] = random.choice([True, False], rows)
    frame["only"] = "one"
    return frame


def patsy_rows(formula: str, frame: pd.DataFrame) -> NDArray[np.float64]:
    """patsy's own design of `frame`, with transforms that learned from uniform public columns."""
    grid = np.linspace(0, 1, 1009)
    public = pd.DataFrame(
        {
            name: [column.low + (column.high - column.low) * u for u in grid]
            if hasattr(column, "low")
            else [column.values[i % len(column.values)] for i in range(1009)]
            for name, column in DOMAIN.items()
        }
    )
    frame = frame.copy()
    for table in (public, frame):
        table["b"] = pd.Categorical(table["b"], categories=[1, 2, 3])
        table["flag"] = table["flag"].astype(float)
    scope = patsy.EvalEnvironment([{"np": np, "poly": legendre_over(public), "abs": abs}])
    info = patsy.incr_dbuilder(formula.partition("~")[2], lambda: iter([public]), eval_env=scope)
    return np.asarray(patsy.build_design_matrices([info], frame)[0])


def legendre_over(public: pd.DataFrame) -> Any:
    class Legendre:
        def memorize_chunk(self, x: pd.Series[float], degree: int) -> None:
            self.ends = x.min(), x.max()

        def memorize_finish(self) -> None:
            pass

        def transform(self, x: pd.Series[float], degree: int) -> NDArray[np.float64]:
            low, high = self.ends
            return np.polynomial.legendre.legvander((2 * x - low - high) / (high - low), degree)[:, 1:]

    return patsy.stateful_transform(Legendre)


@pytest.mark.parametrize("formula", FORMULAS)
def test_coefficients_in_the_users_units_give_patsys_predictions(formula: str) -> None:
    frame = frame_of(300)
    spec = design_spec(formula, DOMAIN, family=Gaussian())
    (exog, endog, *_), *more = spec.blocks(frame)
    assert not more
    assert exog.shape == (300, len(spec.names))
    scaled = np.random.default_rng(1).normal(size=len(spec.names))
    matrix, shift = spec.back_transform()
    middle, half_width = spec.response_scaling()
    expected = patsy_rows(formula, frame) @ (matrix @ scaled + shift)
    ours = middle + half_width * (exog @ scaled)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-10 * (1 + np.abs(scaled).sum() * np.abs(matrix).max()))
    np.testing.assert_allclose(middle + half_width * endog, frame["y"], atol=1e-12)


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_row_keeps_every_declared_bound(formula: str) -> None:
    random = np.random.default_rng(2)
    frame = frame_of(500)
    wild = frame_of(500, seed=3)
    numeric = ["y", "x", "z", "größe", "odd name", "class"]
    wild[numeric] = random.normal(size=(500, len(numeric))) * 10.0 ** random.uniform(-3, 300, (500, len(numeric)))
    wild.loc[:50, "x"] = -1.0
    spec = design_spec(formula, DOMAIN, family=Gaussian())
    exog, endog, *_ = spec.blocks(pd.concat([frame, wild]))[0]
    assert exog.flags.f_contiguous
    assert np.abs(endog).max() <= 1
    norms = np.zeros(len(exog))
    for term in spec.terms:
        part = np.abs(exog[:, term.columns])
        assert (part <= term.maxima).all()
        assert (np.linalg.norm(part, axis=1) <= term.l2).all()
        assert (part.sum(axis=1) <= term.l1).all()
        norms += (part**2).sum(axis=1)
    assert (norms <= 1).all()
    assert sum(term.l2**2 for term in spec.terms) == pytest.approx(1, abs=1e-12)
    weights = random.exponential(size=exog.shape[1])
    for which, order in (("l1", 1), ("l2", 2), ("linf", np.inf)):
        assert np.linalg.norm(exog * weights, ord=order, axis=1).max() <= spec.norm_bound(which, weights)
        assert np.linalg.norm(exog, ord=order, axis=1).max() <= spec.row_norms[which]
    assert (exog**2 / weights).sum(axis=1).max() <= spec.curvature_ratio(weights) * (1 + 1e-12)


@pytest.mark.parametrize("formula", [f for f in FORMULAS if "only" not in f and "0 * x" not in f])
def test_bounds_are_nearly_attained_by_some_row(formula: str) -> None:
    # Terms that are at their largest at different rows keep the row norm below 1; each term on its own attains its own.
    spec = design_spec(formula, DOMAIN, family=Gaussian())
    exog = spec.blocks(frame_of(20000))[0][0]
    for term in spec.terms:
        assert np.linalg.norm(exog[:, term.columns], axis=1).max() >= 0.93 * term.l2, term.name


def test_a_factor_costs_one_dummy_however_many_levels() -> None:
    spec = design_spec("y ~ x + a", DOMAIN, family=Gaussian())
    assert [term.name for term in spec.terms] == ["Intercept", "a", "x"]
    assert [term.l2 for term in spec.terms] == pytest.approx([3**-0.5] * 3)
    assert spec.norm_bound("l2", np.array([1.0, 2.0, 3.0, 1.0])) == pytest.approx(np.sqrt((1 + 9 + 1) / 3))
    assert spec.row_norms == pytest.approx({"l1": 3**0.5, "l2": 1.0, "linf": 3**-0.5})
    assert spec.curvature_ratio(np.array([1.0, 0.5, 2.0, 1.0])) == pytest.approx((1 + 2 + 1) / 3)


def test_names_are_patsys() -> None:
    spec = design_spec("y ~ x*a + C(b, Sum) + bs(z, df=3)", DOMAIN, family=Gaussian())
    expected = ["Intercept", "a[T.q]", "a[T.r]", "C(b, Sum)[S.1]", "C(b, Sum)[S.2]", "x", "x:a[T.q]", "x:a[T.r]"]
    assert list(spec.names) == expected + [f"bs(z, df=3)[{i}]" for i in range(3)]


def test_single_numeric_terms_are_centred_only_beside_an_intercept() -> None:
    centred = design_spec("y ~ x + a", DOMAIN, family=Gaussian())
    assert centred.center.tolist() == [0, 0, 0, 5]
    assert centred.response_scaling() == (3.0, 7.0)
    plain = design_spec("y ~ 0 + x + a", DOMAIN, family=Gaussian())
    assert not plain.center.any()
    assert plain.response_scaling() == (0.0, 10.0)


def test_blocks_split_rows_without_changing_them() -> None:
    frame = frame_of(1000)
    spec = design_spec("y ~ bs(x, df=5)*a + z", DOMAIN, family=Gaussian())
    whole = spec.blocks(frame)[0]
    parts = spec.blocks(frame, block_rows=137)
    assert [len(endog) for _, endog, *_ in parts] == [137] * 7 + [41]
    np.testing.assert_array_equal(np.vstack([exog for exog, *_ in parts]), whole[0])
    np.testing.assert_array_equal(np.concatenate([endog for _, endog, *_ in parts]), whole[1])


def test_missing_unknown_and_infinite_rows_are_left_out() -> None:
    frame = frame_of(8).astype({"a": object, "x": object})
    frame.loc[0, "a"], frame.loc[1, "a"], frame.loc[2, "x"], frame.loc[3, "x"] = "new", None, "?", np.inf
    frame.loc[4, "y"] = np.nan
    spec = design_spec("y ~ x + a", DOMAIN, family=Gaussian())
    (exog, endog, *_), *_ = spec.blocks(frame)
    assert len(exog) == len(endog) == 3
    rows, complete = spec.exog(frame.drop(columns="y"))
    assert complete.tolist() == [False] * 4 + [True] * 4
    assert np.isnan(rows[:4]).all()
    np.testing.assert_array_equal(rows[5:], exog)


def test_rows_where_a_term_is_not_finite_are_left_out_and_noted() -> None:
    domain = Domain(y=(0, 1), x=(0, 10))
    spec = design_spec("y ~ np.log(x)", domain, family=Gaussian())
    assert len(spec.notes) == 1
    assert "np.log(x) is not finite at x = 0" in spec.notes[0]
    frame = pd.DataFrame({"x": [0.0, 1.0, 10.0], "y": 0.5})
    assert len(spec.blocks(frame)[0][1]) == 2
    assert spec.exog(frame)[1].tolist() == [False, True, True]
    assert design_spec("y ~ np.log(x + 1)", domain, family=Gaussian()).notes == ()
    assert "np.log(y) is not finite at y = 0" in design_spec("np.log(y) ~ x", domain, family=Gaussian()).notes[0]


@pytest.mark.parametrize("factor", ["x", "x:z", "standardize(x)", "bs(x, df=4):z"])
def test_values_that_could_overflow_are_refused(factor: str) -> None:
    domain = Domain(y=(0, 1), x=(0, 8e307), z=(0, 8e307))
    with pytest.raises(FormulaError, match=r"rescale it|not finite anywhere"):
        design_spec(f"y ~ {factor}", domain, family=Gaussian())


def test_values_that_do_overflow_make_a_row_missing() -> None:
    spec = design_spec("y ~ I(1 / x)", Domain(y=(0, 1), x=(0, 10)), family=Gaussian())
    assert len(spec.notes) == 1
    assert len(spec.blocks(pd.DataFrame({"x": [1.0, 5e-324], "y": 0.5}))[0][1]) == 1


def test_a_factor_that_overflows_nearly_everywhere_is_refused() -> None:
    """Its bounds would be those of the one corner where it is finite."""
    with pytest.raises(FormulaError, match=r"not finite anywhere.*narrow"):
        design_spec("y ~ np.exp(x)", Domain(y=(0, 1), x=(0, 2.0**50)), family=Gaussian())


def test_constant_columns_neither_fail_nor_leak_into_bounds() -> None:
    spec = design_spec("y ~ I(0 * x + 3) + x", DOMAIN, family=Gaussian())
    exog = spec.blocks(frame_of(50))[0][0]
    assert not exog[:, 1].any()
    assert spec.terms[1].l2 == 0
    alone = design_spec("y ~ 0 + I(0 * x - 3)", DOMAIN, family=Gaussian())
    np.testing.assert_allclose(alone.blocks(frame_of(5))[0][0], -1)
    with pytest.raises(FormulaError, match="every column is zero"):
        design_spec("y ~ 0 + I(0 * x)", DOMAIN, family=Gaussian())


def test_no_rows_work_like_any_other() -> None:
    for formula in FORMULAS:
        spec = design_spec(formula, DOMAIN, family=Gaussian())
        [(exog, endog, *_)] = spec.blocks(frame_of(5).iloc[:0])
        assert exog.shape == (0, len(spec.names))
        assert endog.shape == (0,)
        assert spec.exog(frame_of(5).iloc[:0])[0].shape == (0, len(spec.names))


@pytest.mark.parametrize("formula", FORMULAS)
def test_json_round_trip(formula: str) -> None:
    spec = design_spec(formula, DOMAIN, family=Gaussian())
    again = DesignSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    frame = frame_of(40)
    np.testing.assert_array_equal(spec.exog(frame)[0], again.exog(frame)[0])
    np.testing.assert_array_equal(spec.back_transform()[0], again.back_transform()[0])
    assert again.response == spec.response


def test_a_stored_design_that_would_scale_differently_is_refused() -> None:
    stored = design_spec("y ~ x", DOMAIN, family=Gaussian()).to_dict()
    stored["scale"][1] *= 2
    with pytest.raises(DomainError, match="scales columns differently"):
        DesignSpec.from_dict(stored)
    del stored["formula"]
    with pytest.raises(DomainError, match="lacks 'formula'"):
        DesignSpec.from_dict(stored)


@pytest.mark.parametrize(
    ("formula", "error", "message"),
    [
        ("y ~ nowhere", DomainError, "'nowhere' is not declared"),
        ("nowhere ~ x", DomainError, "'nowhere' is not declared"),
        ("y ~ DOMAIN", DomainError, "variables of the calling program"),
        ("y ~ C(x)", FormulaError, "would be learned from the data"),
        ("y ~ C(b, levels=[1, 2])", FormulaError, "the declared levels in another order"),
        ("y ~ C(a, levels=['p', 'q', 's'])", FormulaError, "the declared levels in another order"),
        ("y ~ C(a, Treatment('s'))", FormulaError, "no level 's' to use as reference"),
        ("y ~ C(a, Poly([1, 2]))", FormulaError, "cannot be coded"),
        ("y ~ C(a, [[1, 0], [0, 1]])", FormulaError, "Mismatched contrast matrix"),
        ("y ~ C(a, [[1, 0], [0, 1], [0, 1e999]])", FormulaError, "contrast must be finite"),
        ("y ~ C(a, 'Sum')", FormulaError, "cannot be coded"),
        ("y ~ np.log(a)", FormulaError, "declare the column as a range"),
        ("y ~ I(a + 1)", FormulaError, "declare the column as a range"),
        ("y ~ I(a < 'q')", FormulaError, "== or !="),
        ("y ~ I(a == 's')", FormulaError, "not among the declared levels"),
        ("y ~ I(a == b)", FormulaError, "a declared level"),
        ("y ~ I(x == 'p')", FormulaError, "not text"),
        ("y ~ I(x & z)", FormulaError, "comparison is needed"),
        ("y ~ I(bs(x, df=4) * z)", FormulaError, "basis of several columns"),
        ("y ~ bs(bs(x, df=4), df=4)", FormulaError, "single column"),
        ("y ~ bs(a, df=4)", FormulaError, "declare the column as a range"),
        ("y ~ bs(x, df=1)", FormulaError, "df is too small"),
        ("y ~ np.log(-1 - x)", FormulaError, "not finite anywhere"),
        ("y ~ bs(np.log(-1 - x), df=4)", FormulaError, "not finite anywhere"),
        ("np.log(-1 - x) ~ z", FormulaError, "not finite anywhere"),
        ("bs(x, df=4) ~ z", FormulaError, "single column"),
        ("y ~ np.gcd(x, z)", FormulaError, "np.gcd"),
        ("a ~ x", DomainError, "pass family='binomial'"),
        ("y ~ 0 + only - only", FormulaError, "no term"),
    ],
)
def test_what_the_domain_cannot_support_is_refused_before_any_row(
    formula: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        design_spec(formula, DOMAIN, family=Gaussian())


def test_a_factor_of_one_level_has_no_columns_beside_an_intercept() -> None:
    spec = design_spec("y ~ only + x", DOMAIN, family=Gaussian())
    assert spec.names == ("Intercept", "x")


def test_names_of_functions_may_be_columns() -> None:
    domain = Domain(y=(0, 1), np=(0, 2), C=["u", "v"], bs=(0, 3), I=(0, 4))
    spec = design_spec("y ~ np + C(C) + bs(bs, df=3) + I(I) + np.log(np + 1)", domain, family=Gaussian())
    assert spec.names[:2] == ("Intercept", "C(C)[T.v]")


def test_schema_errors_come_without_reading_rows() -> None:
    spec = design_spec("y ~ x + a", DOMAIN, family=Gaussian())
    frame = frame_of(3)
    spec.check_schema(frame)
    with pytest.raises(DataError, match="no column 'x'"):
        spec.check_schema(frame.drop(columns="x"))
    with pytest.raises(DataError, match="more than one column 'x'"):
        spec.check_schema(pd.concat([frame, frame[["x"]]], axis=1))
    with pytest.raises(DomainError, match="'x' has dtype datetime64"):
        spec.check_schema(frame.assign(x=pd.Timestamp("2020-01-01")))
    with pytest.raises(DataError, match="no column 'y'"):
        spec.blocks(frame.drop(columns="y"))
    with pytest.raises(DataError, match="no column 'a'"):
        spec.exog(frame.drop(columns="a"))


SUBNORMAL = [
    ("y ~ x", {"x": (0, 5e-324)}),
    ("y ~ x", {"x": (0, 0.99e-290)}),
    ("y ~ np.exp(x)", {"x": (-800, -744)}),
    ("y ~ I(x**2)", {"x": (1e-170, 2e-162)}),
    ("y ~ 0 + x", {"x": (1e-300, 2e-300)}),
    ("y ~ x:z", {"x": (0, 1e-160), "z": (0, 1e-160)}),
    ("y ~ x:a", {"x": (0, 1e-310), "a": ["p", "q"]}),
    ("y ~ I(1e-300 * x):bs(z, df=4)", {"x": (0, 1), "z": (0, 1)}),
    ("y ~ C(a, [[1e-300], [-1e-300]])", {"a": ["p", "q"]}),
    ("y ~ x", {"x": (0, 1), "y": (0, 1e-300)}),
    ("y ~ x + weights(w)", {"x": (0, 1), "w": (0, 1e-300)}),
]
"""At the first, the third and the fourth a row had norm 1.2247."""


@pytest.mark.parametrize(("formula", "ranges"), SUBNORMAL, ids=[f"{one} {two}" for one, two in SUBNORMAL])
def test_ranges_too_small_for_doubles_are_refused(formula: str, ranges: dict[str, Any]) -> None:
    with pytest.raises((FormulaError, DomainError), match="rescale it"):
        design_spec(formula, {"y": (0, 1), **ranges}, family=Gaussian())


SMALL = [
    ("y ~ x", {"x": (0, 2e-290)}),
    ("y ~ np.exp(x)", {"x": (-700, -660)}),
    ("y ~ x:z + z", {"x": (0, 1e-145), "z": (-1e-144, 0)}),
    ("y ~ x:bs(z, df=4)", {"x": (1e-288, 2e-288), "z": (0, 1e-300)}),
    ("y ~ x*a", {"x": (-1e-280, 0), "a": ["p", "q", "r"]}),
    ("y ~ 0 + x + z", {"x": (-1e-270, 0), "z": (0, 1e100)}),
]


@pytest.mark.parametrize(("formula", "ranges"), SMALL, ids=[f"{one} {two}" for one, two in SMALL])
def test_no_row_of_a_small_range_is_longer_than_one(formula: str, ranges: dict[str, Any]) -> None:
    # A response in units of its own: beside one of (0, 1) such a coefficient could not be written.
    assert longest(design_spec(formula, {"y": (0, 1e-100), **ranges}, family=Gaussian())) <= 1


def test_the_search_for_long_rows_finds_those_of_subnormal_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault put back: without the refusal these plans are certified for an eps that their rows exceed."""
    monkeypatch.setattr("dpstats.formula.design.LEAST", 0.0)
    monkeypatch.setattr("dpstats.formula.design._check_units", lambda *_: None)
    for formula, ranges in (SUBNORMAL[0], SUBNORMAL[2], SUBNORMAL[3]):
        assert longest(design_spec(formula, {"y": (0, 1), **ranges}, family=Gaussian())) > 1.2**2


def longest(spec: DesignSpec) -> Fraction:
    """The square of the norm, exactly, of the longest row at corners of the ranges, beyond them and between."""
    names = [name for name in spec.domain if name != "y"]
    cells = [list(fact.values) if isinstance(fact := spec.domain[name], Levels) else ends(fact) for name in names]
    rows = pd.DataFrame(list(itertools.product(*cells)), columns=names).assign(y=0.5)
    return max(sum(Fraction(x) ** 2 for x in row) for exog, *_ in spec.blocks(rows) for row in exog.tolist())


def ends(fact: Range) -> list[float]:
    return [fact.low, fact.high, fact.low * 0.75 + fact.high * 0.25, -1e300, 1e300, 5e-324]

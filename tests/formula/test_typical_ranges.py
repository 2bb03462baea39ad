"""Ranges of which an inner interval is known: where rows are kept, what the design and the matrix noise make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import dpstats as dp
from dpstats.domain import support_of
from dpstats.errors import ArgumentError, DomainError
from dpstats.families import Gaussian
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.mechanisms.information import matrix_metric
from dpstats.privacy.information.matrix import MatrixNoise

WIDE = dp.Domain(x=(0, 200), z=(0, 100), b=bool, s=["a", "b", "c"], y=(-10, 20))
KNOWN = WIDE.with_(x=dp.Range(0, 200, typical=(50, 2)), z=dp.Range(0, 100, typical=(1, 1)))
INNER = WIDE.with_(x=dp.Range(0, 200, inner=(44, 56)), z=dp.Range(0, 100, inner=(0, 4)))
FORMULA = "y ~ x + z + s"


def design_of(formula: str, domain: dp.Domain) -> DesignSpec:
    return design_spec(formula, domain, family=Gaussian())


def made_up(rows: int, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x, z = random.normal(50, 2, rows), random.exponential(1, rows)
    s = random.choice(["a", "b", "c"], rows)
    return pd.DataFrame({"x": x, "z": z, "s": s, "b": 1, "y": 2 + 0.5 * (x - 50) + 0.3 * z + random.normal(0, 1, rows)})


def test_rows_are_kept_within_three_standard_deviations() -> None:
    assert KNOWN["x"].interval == (44, 56)
    assert KNOWN["z"].interval == (0, 4)
    assert support_of(KNOWN) == WIDE.with_(x=(44.0, 56.0), z=(0, 4.0))
    assert support_of(WIDE) is WIDE
    assert not dp.Range(0, 10, typical=(5, 4)).drops


@pytest.mark.parametrize("narrow", [KNOWN, INNER])
def test_a_design_is_that_of_the_interval(narrow: dp.Domain) -> None:
    """Noise, bounds and rows of plain columns are those of the narrower range that drops rows."""
    dropping = WIDE.with_(x=dp.Range(44, 56, outside="drop"), z=dp.Range(0, 4, outside="drop"))
    one, other = design_of(FORMULA, narrow), design_of(FORMULA, dropping)
    for fact in ("lower", "upper", "center", "scale"):
        assert np.array_equal(getattr(one, fact), getattr(other, fact))
    rows = made_up(500)
    assert np.array_equal(one.blocks(rows)[0].exog, other.blocks(rows)[0].exog)
    far = pd.DataFrame({"x": [199.0], "z": [0.5], "s": ["a"], "y": [1.0]})
    assert len(one.blocks(far)[0].endog) == 0
    assert one.exog(far)[0][0, 3] == pytest.approx((199 - 50) / one.scale[3])
    assert one.names[3] == "x"
    assert one.keeps(far).tolist() == [False]


def test_bases_stay_those_of_the_declared_range() -> None:
    """Knots, and with them coefficients' meaning, do not follow the interval; bounds do."""
    for term in ("bs(x, df=5)", "poly(x, 2)", "cr(x, df=4)", "standardize(x)"):
        narrow, wide = design_of(f"y ~ {term}", INNER), design_of(f"y ~ {term}", WIDE)
        rows = made_up(200)
        values = [spec.exog(rows)[0] * spec.scale + spec.center for spec in (narrow, wide)]
        assert values[0] == pytest.approx(values[1], rel=1e-9, abs=1e-9)
        assert np.all(narrow.upper - narrow.lower <= (wide.upper - wide.lower) * (1 + 1e-9))
        kept = narrow.blocks(rows)[0]
        # In a fit no column is clipped: the bounds hold on the whole interval.
        assert kept.exog == pytest.approx(narrow.exog(rows)[0][narrow.keeps(rows)], rel=1e-6, abs=1e-9)


def test_a_column_of_codes_keeps_its_range() -> None:
    """Ones that are rare lie many standard deviations from the mean."""
    assert dp.Range(0, 1, typical=(0.01, 0.0995)).interval == (0, 1)
    assert dp.Range(0.0, 1.0, typical=(0.01, 0.02)).drops


def test_what_is_typical_of_a_response_leaves_no_row_out() -> None:
    domain = WIDE.with_(y=dp.Range(-10, 20, typical=(2, 1)))
    for formula in ("y ~ x", "y ~ y:x", "I(y + x) ~ z"):
        one, other = design_of(formula, domain), design_of(formula, WIDE)
        rows = pd.DataFrame({"x": [1.0, 199], "z": [1.0, 2], "y": [19.0, -3]})
        assert np.array_equal(one.blocks(rows)[0].exog, other.blocks(rows)[0].exog)
        assert len(one.blocks(rows)[0].endog) == 2
        assert DesignSpec.from_dict(one.to_dict()).names == one.names


def test_a_response_may_have_no_inner_interval() -> None:
    with pytest.raises(DomainError, match="part of the response"):
        design_of("x ~ z", INNER)


@pytest.mark.parametrize("law", ["wishart", "normal"])
def test_the_matrix_noise_covers_every_row(law: Any) -> None:
    """x'D^-1 x is at most 1 in every row that can be kept, with the spread known, and attained."""
    design = design_of("y ~ x + z + s + b", KNOWN)
    noise = MatrixNoise(law, 1.0, *matrix_metric(design))
    ends = [(x, z, s, b) for x in (44, 56) for z in (0, 4) for s in "abc" for b in (0, 1)]
    rows = pd.DataFrame(ends, columns=["x", "z", "s", "b"]).assign(y=0.0)
    inner = noise.coordinates(np.asarray(design.blocks(rows)[0].exog))
    reach = np.sum(inner**2 / np.array(noise.diagonal), axis=1)
    assert reach.max() <= 1 + 1e-9
    assert reach.max() > 0.9


def test_a_metric_that_follows_spread_alone_is_caught() -> None:
    """Planted: columns in proportion to what is typical, without the rows that reach the ends."""
    design = design_of("y ~ x + z", KNOWN)
    noise = MatrixNoise("wishart", 1.0, *matrix_metric(design))
    spreads = [body.image.spread or 1.0 for body in design.bodies]
    planted = MatrixNoise(
        "wishart", 1.0, tuple(d * v for d, v in zip(noise.diagonal, spreads, strict=True)), noise.mixing
    )
    rows = pd.DataFrame({"x": [44.0], "z": [4.0], "y": [0.0]})
    inner = planted.coordinates(np.asarray(design.blocks(rows)[0].exog))
    assert np.sum(inner**2 / np.array(planted.diagonal)) > 1.5


def test_known_spread_takes_noise_from_where_little_is_known() -> None:
    """Of columns with the same interval the one of known spread has less of the matrix noise."""
    half = WIDE.with_(x=dp.Range(0, 200, typical=(50, 2)), z=dp.Range(0, 100, inner=(0, 4)))
    diagonal = np.array(matrix_metric(design_of("y ~ x + z", half)).diagonal)
    assert diagonal[1] < diagonal[2] / 2


def errors_of(domain: dp.Domain, **known: Any) -> NDArray[np.float64]:
    plan = dp.plan(FORMULA, domain, 1.0, inference=True)
    return np.asarray(plan.standard_errors(10_000, **known)["std_error"])


@pytest.mark.slow
def test_forecasts_know_what_is_typical() -> None:
    said = {"x": (50, 2), "z": (1, 1)}
    assert np.array_equal(errors_of(KNOWN), errors_of(KNOWN, typical=said))
    plan = dp.plan(FORMULA, KNOWN, 1.0)
    rows = plan.made_up(4000, seed=1)
    assert rows["x"].mean() == pytest.approx(50, abs=0.2)
    assert rows["x"].std() == pytest.approx(2, rel=0.1)
    inner = dp.plan(FORMULA, INNER, 1.0).made_up(4000, seed=1)
    assert INNER["x"].holds(inner["x"].to_numpy()).all()


@pytest.mark.slow
def test_a_wide_range_with_known_spread_has_intervals() -> None:
    """Ranges of 100 times the spread, n eps = 10,000: all coefficients have intervals, and those hold the truth.

    Ten fits; each of two slopes within 4 standard errors fails by chance once in 800 runs of this test.
    """
    for seed in range(10):
        fit = dp.ols("y ~ x + z", made_up(10_000, seed), 1.0, domain=KNOWN, inference=True, seed=seed)
        assert np.isfinite(fit.bse).all()
        assert abs(fit.params["x"] - 0.5) < 4 * fit.bse["x"] + 0.05
        assert fit.bse["x"] < 0.02
    assert "Rows with x outside (44, 56) or z outside (0, 4) are left out" in " ".join(str(fit.summary()).split())
    loaded = dp.GLMResults.from_dict(fit.to_dict())
    new = made_up(5)
    inside = new[new["z"].between(0, 4)]
    assert loaded.predict(inside).equals(fit.predict(inside))


@pytest.mark.parametrize("text", ["json", "yaml", "csv"])
def test_codebooks_hold_it(text: str) -> None:
    for domain in (KNOWN, INNER, KNOWN | INNER.with_(x=dp.Range(0, 200, "drop", typical=(50, 2.5), inner=(30, 60)))):
        written = getattr(domain, f"to_{text}")()
        read = getattr(dp.Domain, f"from_{text}")(written)
        assert read["x"] == domain["x"]
        assert read["z"] == domain["z"]


@pytest.mark.parametrize("given", [5, (1,), ("a", 2), (1, np.nan), {"mean": 1}, (True, None)])
@pytest.mark.parametrize("name", ["typical", "inner"])
def test_wrong_pairs_are_refused(name: str, given: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be a pair of finite numbers"):
        dp.Range(0, 10, **{name: given})


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"typical": (11, 1)}, "mean of 'x' must be within"),
        ({"typical": (5, 0)}, "must be positive"),
        ({"typical": (5, 6)}, "at most 5"),
        ({"typical": (5, 1e-300)}, "too small"),
        ({"inner": (5, 5)}, "inner interval of 'x'"),
        ({"inner": (-1, 5)}, "inner interval of 'x'"),
        ({"inner": (6, 5)}, "inner interval of 'x'"),
    ],
)
def test_what_does_not_suit_the_range_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DomainError, match=complaint):
        dp.Domain(x=dp.Range(0, 10, **given))


def test_codebooks_of_other_numbers_are_refused() -> None:
    with pytest.raises(DomainError, match=r"line 2.*typical must be a pair"):
        dp.Domain.from_csv("name,low,high,mean,sd\nx,0,1,0.5,\n")
    with pytest.raises(DomainError, match="inner must be a pair"):
        dp.Domain.from_yaml("x: {range: [0, 1], inner: [a, b]}\n")
    with pytest.raises(DomainError, match="stored domain of 'x'"):
        dp.Domain.from_dict({"x": {"range": [0, 1], "typical": [1]}})


def test_a_report_of_a_record_beyond_is_null() -> None:
    spec = dp.local.Spec(KNOWN, "y ~ x", eps=1.0, delta=1e-5, n=1000)
    assert spec.program.encode({"x": 50, "y": 1}) is not None
    assert spec.program.encode({"x": 70, "y": 1}) is None

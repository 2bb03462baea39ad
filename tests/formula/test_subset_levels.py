"""Levels that no row of a subset has are no levels of the model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import FormulaError
from dpstats.families import Gaussian
from dpstats.formula.design import DesignSpec, design_spec, requested_spec
from dpstats.formula.parse import parse
from dpstats.formula.subset_levels import met_levels

DOMAIN = {"y": (-3, 4), "x": (0, 1), "g": list("abc"), "h": ["u", "v"], "k": [1, 2, 3]}


def frame(rows: int = 8_000) -> pd.DataFrame:
    random = np.random.default_rng(5)
    data = pd.DataFrame({"x": random.uniform(size=rows), "g": random.choice(list("abc"), rows)})
    data = data.assign(h=random.choice(["u", "v"], rows), k=random.integers(1, 4, rows))
    return data.assign(y=data["x"] + data["g"].map({"a": 0, "b": 0.5, "c": -0.5}) + random.normal(0, 0.3, rows))


@pytest.mark.parametrize(
    ("subset", "wanted"),
    [
        ("g != 'c'", {"g": "ab"}),
        ("~(g == 'a')", {"g": "bc"}),
        ("(g == 'a') | (g == 'b')", {"g": "ab"}),
        ("(g != 'c') & (x > 0.2)", {"g": "ab"}),
        ("(g != 'c') & (k != 1)", {"g": "ab", "k": "23"}),
        ("((g == 'a') & (h == 'u')) | ((g == 'b') & (x < 0.5))", {"g": "ab"}),
        ("~((g == 'c') | (x > 0.5))", {"g": "ab"}),
        ("(g != 'c') | (x > 0.5)", {}),
        ("(g != 'c') | (h == 'u')", {}),
        ("(g == 'a') | (x // 0.001 == 7)", {}),
        ("(g == 'a') ^ (g == 'b')", {"g": "ab"}),
        ("(g != 'c') ^ (x > 0.5)", {}),
        ("x > 0.5", {}),
    ],
)
def test_only_levels_that_no_row_can_have_are_left_out(subset: str, wanted: dict[str, str]) -> None:
    formula, domain = parse(f"y ~ g + subset({subset})"), dp.Domain(DOMAIN)
    met = met_levels(formula, domain)
    kept = {
        name: "".join(str(level) for level, one in zip(domain[name].values, own, strict=True) if one)  # type: ignore[union-attr]
        for name, own in met.items()
    }
    assert kept == wanted


@pytest.mark.parametrize("terms", ["x + g", "x * C(g, Sum)", "C(g, levels=['c', 'b', 'a']) + x", "h + g:x"])
@pytest.mark.parametrize("level", ["a", "c"])
def test_the_model_is_that_of_a_domain_without_the_level(terms: str, level: str) -> None:
    """Columns of a level that no row has were blank, and redundant if it was the reference."""
    rest = [one for one in "abc" if one != level]
    data = frame(3_000)
    other = terms.replace(f"'{level}', ", "").replace(f", '{level}'", "")
    whole = requested_spec(f"y ~ {terms} + subset(g != {level!r})", DOMAIN, family=Gaussian())
    part = requested_spec(f"y ~ {other}", {**DOMAIN, "g": rest}, family=Gaussian())
    assert [one.replace(terms, other) for one in whole.names] == [
        one if other == terms else one.replace(other[: other.index(")") + 1], terms[: terms.index(")") + 1])
        for one in part.names
    ]
    assert not whole.has_gaps
    assert not whole.notes
    assert whole.scale.tolist() == part.scale.tolist()
    got, wanted = whole.rows(data).collect(), part.rows(data).collect()
    assert np.array_equal(got[0].exog, wanted[0].exog)
    again = DesignSpec.from_dict(whole.to_dict())
    assert again.names == whole.names
    assert again.to_dict() == whole.to_dict()
    old = {name: value for name, value in whole.to_dict().items() if name != "unmet"}
    with pytest.raises(dp.errors.DomainError, match="scales columns differently"):
        DesignSpec.from_dict(old)  # a design that was stored without this is built as it was


def test_a_fit_reports_no_such_level(tmp_path: Path) -> None:
    data = frame()
    ledger = dp.Ledger(tmp_path / "a.ledger", eps=9.0, dataset="d", domain=DOMAIN)
    plan = dp.plan("y ~ x + g", DOMAIN, 2.0, subset="g != 'a'", inference=True, n=5_000)
    assert plan.names == ("Intercept", "g[T.c]", "x")
    dp.ols("y ~ x + g", data, 2.0, ledger=ledger, subset="g != 'a'", inference=True)
    fit = dp.ols("y ~ x + g", data, 2.0, domain=DOMAIN, subset="g != 'a'", inference=True, seed=1)
    assert np.isfinite(fit.bse).all()
    assert abs(fit.params["g[T.c]"] + 1) < 6 * fit.bse["g[T.c]"]
    assert not fit.plan.counts.findings(), "rows outside the subset are not lost"
    fit.save(tmp_path / "fit.json")
    fit = dp.GLMResults.load(tmp_path / "fit.json")
    told = "1 of 2 rows have a level of 'g' that the model does not have, and no prediction .* keeps 'b', 'c'"
    with pytest.warns(UserWarning, match=told):
        predicted = fit.predict(pd.DataFrame({"x": [0.5, 0.5], "g": ["c", "a"]}))
    assert [math.isnan(one) for one in predicted] == [False, True]
    pytest.importorskip("matplotlib").use("agg")
    assert len(dp.plots.effect(fit, "g").get_xticklabels()) == 2
    assert fit.comparisons("g")["contrast"].tolist() == ["c - b"]
    assert fit.comparisons("g", newdata={"x": [0.1], "g": ["b"]})["contrast"].tolist() == ["c - b"]


def test_a_reference_outside_the_subset_is_refused() -> None:
    call: dict[str, Any] = {"domain": DOMAIN, "eps": 1.0, "subset": "g != 'a'"}
    with pytest.raises(FormulaError, match=r"no row of the subset has the reference 'a'; write another \(character"):
        dp.plan("y ~ C(g, Treatment('a'))", **call)
    assert dp.plan("y ~ C(g, Treatment('c'))", **call).names[1:] == ("C(g, Treatment('c'))[T.b]",)
    assert design_spec("y ~ g + subset(g == 'a')", DOMAIN, family=Gaussian()).names == ("Intercept",)

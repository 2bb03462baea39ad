"""Weights, offsets and trials of rows: bounded by the Domain, and functions of one row alone."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import DomainError, FormulaError
from dpstats.families import Binomial, BinomialCounts, Family, Gaussian, Poisson
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.formula.parse import parse
from dpstats.formula.syntax import add_terms, auxiliary_call

DOMAIN = {"y": (0, 10), "x": (0, 1), "t": (0.5, 8), "w": (1, 4), "s": (0, 6), "f": (0, 5), "g": ["a", "b"]}
CELLS = [0.0, 0.3, 1.0, 2.5, 4.0, 7.0, 1e9, -1.0, np.nan, np.inf, -np.inf]


def frame(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    numbers = {name: random.choice(CELLS, rows) for name in ("y", "x", "t", "w", "s", "f")}
    return pd.DataFrame({**numbers, "g": random.choice(["a", "b"], rows)})


DESIGNS: list[tuple[str, Family]] = [
    ("y ~ x + offset(np.log(t)) + weights(w)", Poisson(y_max=10.0)),
    ("y ~ x + offset(t) + offset(2 * w) + weights(w * t)", Gaussian(1.0)),
    ("s + f ~ x + g", Binomial()),
    ("cbind(s, 6 - s) ~ x + weights(w) + offset(t)", Binomial()),
    ("s + f ~ x", BinomialCounts(3.0)),
]
every_design = pytest.mark.parametrize(("formula", "family"), DESIGNS, ids=[formula for formula, _ in DESIGNS])


@every_design
def test_bounds_hold_whatever_the_cells_are(formula: str, family: Family) -> None:
    design = design_spec(formula, DOMAIN, family=family)
    (block,) = design.blocks(frame(4000, 1))
    assert len(block.endog) > 20
    if block.weights is not None:
        assert (block.weights > 0).all()
        assert (block.weights <= 1).all()
    if block.offset is not None:
        assert np.abs(block.offset).max() <= design.offset_bound * (1 + 1e-15)
    assert np.isfinite(block.exog).all()
    assert np.isfinite(block.endog).all()


@pytest.mark.slow
@every_design
def test_a_row_does_not_depend_on_the_others(formula: str, family: Family) -> None:
    """Nothing is normalised by the rows there are: each has alone what it has among others."""
    design, data = design_spec(formula, DOMAIN, family=family), frame(300, 2)
    whole = design.blocks(data)[0]
    alone = [design.blocks(data[i : i + 1])[0] for i in range(300)]
    for part in ("exog", "endog", "weights", "offset"):
        one, other = getattr(whole, part), [getattr(block, part) for block in alone]
        if one is not None:
            assert (one == np.concatenate(other)).all()


@every_design
def test_plain_values_give_the_design_again(formula: str, family: Family) -> None:
    design, data = design_spec(formula, DOMAIN, family=family), frame(200, 3)
    for copy in (DesignSpec.from_dict(design.to_dict()), pickle.loads(pickle.dumps(design))):
        for one, other in zip(copy.blocks(data)[0], design.blocks(data)[0], strict=True):
            assert one is other is None or (one == other).all()
        assert (copy.offset_bound, copy.score_ratio) == (design.offset_bound, design.score_ratio)


def test_designs_stored_before_there_were_any_can_be_read() -> None:
    stored = design_spec("y ~ x", DOMAIN, family=Gaussian(1.0)).to_dict()
    del stored["trials"]
    design = DesignSpec.from_dict(stored)
    assert (design.offset_bound, design.score_ratio) == (0.0, 1.0)


def test_trials() -> None:
    design = design_spec("s + f ~ x", DOMAIN, family=Binomial())
    assert design.response.trials == 11
    assert design.score_ratio == 1 / 11
    data = pd.DataFrame({"s": [3.0, 0.0, 6.0, 9.0, 0.0], "f": [1.0, 5.0, 5.0, 9.0, 0.0], "x": 0.5})
    (block,) = design.blocks(data)
    np.testing.assert_allclose(block.endog, [0.75, 0.0, 6 / 11, 6 / 11])
    np.testing.assert_allclose(block.weights, [4 / 11, 5 / 11, 1, 1])
    fewer = design_spec("s + f ~ x", DOMAIN, family=BinomialCounts(4.0)).blocks(data)[0]
    np.testing.assert_allclose(fewer.endog, block.endog)
    np.testing.assert_allclose(fewer.weights, [1, 1, 1, 1])


def test_an_offset_is_centred_where_there_is_an_intercept() -> None:
    for formula, center in (("y ~ x + offset(t)", 4.25), ("y ~ 0 + x + offset(t)", 0.0)):
        design = design_spec(formula, DOMAIN, family=Poisson(y_max=10.0))
        assert design.offset_center == center
        assert design.offset_bound == max(8 - center, abs(0.5 - center))
        matrix, shift = design.back_transform()
        params, block = np.array([0.3, -0.2])[: len(matrix)], design.blocks(frame(4000, 4))[0]
        model = block.exog @ params + block.offset
        columns = block.exog * design.scale + design.center
        user = columns @ (matrix @ params + shift) + block.offset + center
        np.testing.assert_allclose(user, model, atol=1e-12)


@pytest.mark.parametrize(
    ("formula", "domain", "error"),
    [
        ("y ~ x + weights(g)", {}, FormulaError),
        ("y ~ x + offset(g)", {}, FormulaError),
        ("y ~ x + offset(bs(x, df=4))", {}, FormulaError),
        ("y ~ x + weights(w)", {"w": (-3, 0)}, DomainError),
        ("y ~ x + weights(-t)", {}, DomainError),
        ("y ~ x + offset(np.sqrt(-t))", {}, FormulaError),
        ("y ~ x + offset(nobody)", {}, DomainError),
    ],
)
def test_what_cannot_be_a_weight_or_an_offset(formula: str, domain: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        design_spec(formula, {**DOMAIN, **domain}, family=Gaussian(1.0))


def test_terms_of_arguments() -> None:
    assert add_terms("y ~ x", weights="w", offset="a - b", exposure=" t ") == (
        "y ~ x + weights(w) + offset(a - b) + offset(np.log(t))"
    )
    assert add_terms("y ~ x") == "y ~ x"
    parsed = parse(add_terms("y ~ x - 1", weights="w", offset="t"))
    assert parsed.columns == ("y", "x", "t", "w")
    assert parsed.predicting_columns == ("x", "t")
    assert len(parsed.terms) == 1


def test_special_calls() -> None:
    assert auxiliary_call("offset(np.log(t))") == ("offset", ("np.log(t)",))
    assert auxiliary_call("cbind(s, n - s)") == ("cbind", ("s", "n - s"))
    assert auxiliary_call("offset") is auxiliary_call("I(offset)") is auxiliary_call("1 +") is None

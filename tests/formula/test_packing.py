"""How designs are kept: opened, they are patsy's columns in model units to the last bit, whatever the formula."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import patsy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from patsy.missing import NAAction
from test_design import DOMAIN, FORMULAS, frame_of

import dpstats as dp
from dpstats.data import as_table
from dpstats.families import Gaussian
from dpstats.formula import reader, scaled_design
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.privacy.k_norm import shrink_block

Array = NDArray[np.float64]

NO_NA = NAAction(on_NA="raise", NA_types=[])

MORE = ["y ~ a*x*b", "y ~ 0 + a:x + poly(z, 3):b", "y ~ cut(x, [0, 3, 7]) + a:cut(z, [-1, 0.5, 2])", "y ~ a*b*flag"]

FACTORS = [
    "x",
    "z",
    "a",
    "b",
    "flag",
    "only",
    "C(a, Sum)",
    "C(b, Helmert)",
    "(x > 3)",
    "cut(x, [0, 3, 7])",
    "np.log(z)",
    "poly(x, 2)",
    "bs(z, df=4)",
]


def in_model_units(spec: DesignSpec, raw: Array) -> Array:
    """What docs/proofs/design says of patsy's columns, shape (rows, p), step by step."""
    exog = np.where(np.isfinite(raw), raw, np.nan)
    exog = (np.clip(exog, spec.lower, spec.upper) - spec.center) / spec.scale
    for term in spec.shrunk:
        scaled_design._shrink(term, exog[:, term.columns])
    for body in spec.bodies:
        if body.scales is not None:
            shrink_block(exog[:, body.columns], body.image.block, body.scales)
    return exog


def by_patsy(spec: DesignSpec, frame: pd.DataFrame) -> tuple[Array, NDArray[np.bool_]]:
    """The columns of the rows that have all cells, and which of those are finite and in a level of every factor."""
    table = as_table(frame)
    encoded, complete = reader.encode(table, spec.parsed.exog_columns, spec.domain)
    encoded = reader.take(encoded, complete)
    with np.errstate(all="ignore"):
        raw = np.asarray(patsy.build_design_matrices([spec.coding], encoded, NA_action=NO_NA)[0])
        raw = np.broadcast_to(raw, (int(complete.sum()), raw.shape[1]))
        exog = in_model_units(spec, raw)
        _, known = scaled_design.factor_values(spec.factors, encoded)
    return exog, np.isfinite(exog).all(axis=1) & known


def check(formula: str, frame: pd.DataFrame) -> None:
    spec = design_spec(formula, DOMAIN, family=Gaussian())
    exog, finite = by_patsy(spec, frame)
    blocks = spec.blocks(frame, 70)
    found = np.concatenate([block.exog for block in blocks])
    np.testing.assert_array_equal(found.view(np.int64), exog[finite].view(np.int64))
    rows, usable = spec.exog(frame)
    np.testing.assert_array_equal(rows[usable], exog[finite])
    assert np.isnan(rows[~usable]).all()


def spoiled(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Some cells are missing, infinite, far out or of no level."""
    random, frame = np.random.default_rng(seed), frame.astype({"a": object, "b": object, "flag": object})
    bad = {"x": [np.nan, np.inf, 1e300, -5.0], "z": [np.nan, 7.0, -np.inf, 0.0], "a": [None, "s"], "b": [None, 9]}
    for name, choices in bad.items():
        for choice in choices:
            frame.loc[random.integers(0, len(frame), 3), name] = choice
    return frame


@pytest.mark.parametrize("formula", [*FORMULAS[1:], *MORE])
def test_opened_rows_are_patsys_to_the_last_bit(formula: str) -> None:
    check(formula, frame_of(300))


terms = st.lists(st.sampled_from(FACTORS), min_size=1, max_size=3, unique=True).map(":".join)
formulas = st.tuples(st.sampled_from(["", "0 + "]), st.lists(terms, min_size=1, max_size=4, unique=True)).map(
    lambda drawn: f"y ~ {drawn[0]}{' + '.join(drawn[1])}"
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(formula=formulas, seed=st.integers(0, 3))
def test_opened_rows_are_patsys_whatever_the_formula_and_the_cells(formula: str, seed: int) -> None:
    check(formula, spoiled(frame_of(150, seed), seed))


def test_levels_are_kept_in_place_of_dummies() -> None:
    spec = design_spec("y ~ a*b + x + a:x + C(b, Sum):(z > 1)", DOMAIN, family=Gaussian())
    (block,) = spec.rows(frame_of(50)).packed.collect()
    assert spec.packing.size == len(spec.names) == 17
    assert [spec.names[place] for place in spec.packing.numbers] == ["x", "a[T.q]:x", "a[T.r]:x"]
    assert block.exog.shape == (50, 3)
    assert block.levels is not None
    assert block.levels.dtype == np.uint8
    opened = spec.blocks(frame_of(50))[0]
    assert opened.exog.shape == (50, len(spec.names))
    assert opened.levels is None


@pytest.mark.parametrize("most", ["MOST_VALUES", "MOST_LEVELS"])
def test_columns_of_too_many_values_are_numbers(most: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = frame_of(80)
    spec = design_spec("y ~ a*b + x", DOMAIN, family=Gaussian())
    before = spec.blocks(frame)[0].exog
    other = replace(spec)  # whose packing is still open
    monkeypatch.setattr(scaled_design, most, 8)
    assert "a[T.q]:b[T.2]" in [spec.names[place] for place in other.packing.numbers]
    np.testing.assert_array_equal(other.blocks(frame)[0].exog, before)


def test_two_bytes_tell_many_levels_apart() -> None:
    levels = [f"l{number}" for number in range(400)]
    frame = pd.DataFrame({"y": 0.5, "g": levels})
    spec = design_spec("y ~ g", {"y": (0, 1), "g": levels}, family=Gaussian())
    (block,) = spec.rows(frame).packed.collect()
    assert block.levels is not None
    assert block.levels.dtype == np.uint16
    exog = spec.blocks(frame)[0].exog[:, 1:]
    assert (np.argmax(exog[1:], axis=1) == np.arange(399)).all()
    assert (np.count_nonzero(exog, axis=1) == np.arange(400).clip(max=1)).all()


def test_levels_combined_in_another_order_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the last factor of an interaction varies fastest."""
    monkeypatch.setattr(scaled_design, "combination_index", lambda levels, counts: levels[0] * counts[-1] + levels[-1])
    with pytest.raises(AssertionError):
        check("y ~ a:b", frame_of(100))


def test_memory_changes_no_release() -> None:
    """In memory, in a file and read again: the same release of a seeded fit."""
    frame = frame_of(4000)
    fit = partial(dp.ols, "y ~ a*b + x + bs(z, df=4)", frame, 1.0, domain=DOMAIN, seed=3, allow_uncertified=True)
    found = [fit(memory=memory) for memory in (None, 1e4)]
    assert (found[0].params == found[1].params).all()

"""Plain arrays as rows: clipped to every bound, row by row, without needless copies."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpstats.data import Block, as_endog, as_exog
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, Poisson
from dpstats.mechanisms.design import NormName, array_norms
from dpstats.models.sources import array_blocks

CELLS = st.floats(allow_nan=True, allow_infinity=True, width=64)


def blocks_of(endog: object, exog: object, family: Family, norms: dict[NormName, float]) -> list[Block]:
    return array_blocks(as_endog(endog), as_exog(exog), family, norms).collect()


@pytest.mark.slow
@given(
    arrays(np.float64, st.tuples(st.integers(0, 12), st.integers(1, 5)), elements=CELLS),
    st.dictionaries(st.sampled_from(["l1", "l2", "linf"]), st.floats(1e-6, 1e6), min_size=1),
)
@settings(max_examples=300)
def test_every_row_is_within_every_bound(exog: np.ndarray, norms: dict[str, float]) -> None:
    endog = np.zeros(len(exog))
    for block, response, *_ in blocks_of(endog, exog, Binomial(), norms):
        assert np.isfinite(block).all()
        assert len(block) == len(response)
        for name, bound in norms.items():
            order = {"l1": 1, "l2": 2, "linf": np.inf}[name]
            assert np.all(np.linalg.norm(block, ord=order, axis=1) <= bound)


@pytest.mark.slow
@given(
    arrays(np.float64, st.tuples(st.integers(2, 8), st.integers(1, 4)), elements=CELLS),
    st.integers(0, 7),
    arrays(np.float64, 4, elements=CELLS),
)
@settings(max_examples=200)
def test_one_row_never_changes_another(exog: np.ndarray, index: int, cells: np.ndarray) -> None:
    """Changing a row leaves the encoding of all the others bit for bit as it was."""
    index %= len(exog)
    other = exog.copy()
    other[index] = cells[: exog.shape[1]]
    others = np.arange(len(exog)) != index
    endog = np.zeros(len(exog))
    kept = [blocks_of(endog[others], data[others], Gaussian(1.0), {"l2": 1.0})[0][0] for data in (exog, other)]
    whole = [blocks_of(endog, data, Gaussian(1.0), {"l2": 1.0})[0][0] for data in (exog, other)]
    assert np.array_equal(kept[0], kept[1])
    for block in whole:
        assert len(block) - len(kept[0]) in (0, 1)
        assert {row.tobytes() for row in kept[0]} <= {row.tobytes() for row in block}


def test_clean_rows_are_not_copied() -> None:
    exog = np.full((200_000, 3), 0.1)
    blocks = blocks_of(np.zeros(200_000), exog, Binomial(), {"l2": 1.0})
    assert all(np.shares_memory(block, exog) for block, *_ in blocks)
    assert sum(len(block) for block, *_ in blocks) == 200_000


def test_numbers_too_large_for_float64_are_missing_without_a_warning() -> None:
    huge = np.array(["1", "1e4000"], dtype=np.longdouble)
    (exog, endog, *_), *_ = blocks_of(np.zeros(2), huge[:, None], Gaussian(1.0), {"l2": 1.0})
    assert len(exog) == len(endog) == 1
    assert len(blocks_of(huge, np.ones((2, 1)), Gaussian(1.0), {"l2": 1.0})[0][1]) == 1


@pytest.mark.parametrize("bound", [0.99e-50, 1e-170, 1.01e50, 1e100, 0.0, np.inf])
def test_bounds_at_which_squares_vanish_are_refused(bound: float) -> None:
    """At 1e-170 the square of a cell of 1e-163 is 0, and the row would pass for a short one."""
    with pytest.raises(ArgumentError, match="row_norm must be a number from 1e-50 to 1e50"):
        array_norms(bound, 3)
    with pytest.raises(ArgumentError, match="row_norm must be a number from 1e-50 to 1e50"):
        array_norms({"l1": 1.0, "linf": bound}, 3)


def test_infinite_responses_are_missing() -> None:
    for family in (Poisson(5.0, 5.0), Gaussian(1.0)):
        [(exog, endog, *_)] = blocks_of(np.array([np.inf, -np.inf, 1.0]), np.ones((3, 1)), family, {"l2": 1.0})
        assert len(exog) == len(endog) == 1


@pytest.mark.parametrize("columns", [9, 17, 40])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_row_keeps_its_bits_wherever_a_block_ends(columns: int, order: str, norm: NormName) -> None:
    """The last row of one block is the only row of another when there is one row more."""
    exog = np.asarray(np.random.default_rng(0).normal(size=(8194, columns)), order=order)  # type: ignore[call-overload]
    lone, paired = (
        np.concatenate([block for block, *_ in blocks_of(np.zeros(n), exog[:n], Binomial(), {norm: 1.0})])
        for n in (8193, 8194)
    )
    assert np.array_equal(lone, paired[:8193])


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_wide_rows_are_within_the_bound_exactly(norm: NormName, monkeypatch: pytest.MonkeyPatch) -> None:
    """Addends of almost half a unit of the sum's last place are lost each time; with the old margin they pass."""
    columns, power = 10_000, {"l1": 1, "l2": 2}[norm]
    units = np.ceil((1 + 1e-13) * 2.0**53 / columns)
    exog = np.full((2, columns), ((units + 0.49) * 2.0**-53) ** (1 / power))

    def length() -> Fraction:
        [(kept, *_)] = blocks_of(np.zeros(2), exog, Binomial(), {norm: 1.0})
        assert np.ptp(kept) == 0
        return Fraction(float(kept[0, 0])) ** power * columns

    assert 1 - Fraction(1e-11) < length() <= 1
    monkeypatch.setattr("dpstats.models.sources.safe_share", lambda norm, columns: 1 - 2.0**-48)
    assert length() > 1 + Fraction(1e-13)

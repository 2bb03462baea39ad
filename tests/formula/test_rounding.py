"""No row's value depends, in its last bit, on which other rows there are or how the cells lie in memory.

A condition on a tie would make a row of that bit. Where the machine rounds in one way only, these tests cannot fail.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.data import as_table
from dpstats.data.containers import column_of
from dpstats.families import get_family
from dpstats.formula.design import design_spec

FUNCTIONS = [
    "np.cbrt(x)",
    "np.exp(x / 30)",
    "np.log10(x + 1)",
    "np.expm1(x / 30)",
    "np.sinh(x / 30)",
    "x ** 1.7",
    "np.log(x + 1)",
]
VALUES = np.random.default_rng(0).uniform(0, 100, 1024)
VALUES[::3] = 27.0


@pytest.mark.parametrize("step", [-1, 2, -3])
def test_cells_lie_side_by_side_however_the_data_do(step: int) -> None:
    for cells in (
        VALUES[::step],
        pd.Series(VALUES)[::step],
        np.asfortranarray(np.column_stack([VALUES] * 2))[::step, 1],
    ):
        column = column_of(cells)
        assert column is not None
        assert column.numbers().flags.c_contiguous
        assert column.numbers().tolist() == VALUES[::step].tolist()


@pytest.mark.parametrize("text", FUNCTIONS)
@pytest.mark.parametrize("step", [1, -1, 2])
@pytest.mark.parametrize("extra", [np.nan, 101.0, 50.0], ids=["missing", "clipped", "usual"])
def test_one_more_row_moves_no_other(text: str, step: int, extra: float) -> None:
    design = design_spec(f"y ~ I({text})", {"x": (0, 100), "y": (0, 1)}, family=get_family("gaussian"))
    frame = pd.DataFrame({"x": VALUES, "y": 0.5})
    more = pd.DataFrame({"x": [extra, *VALUES], "y": 0.5})
    less, whole = (
        np.concatenate([block.exog for block in design.blocks(as_table(one[::step] if step < 0 else one))])
        for one in (frame, more)
    )
    whole = whole[: len(less)] if step < 0 else whole[len(whole) - len(less) :]
    assert np.array_equal(less, whole)

"""No row can be noticed through another: designs are public, and every row is encoded as if it were alone.

Random frames meet random formulas, with cells of every odd kind. The checks are exact (bitwise), so they have no
false alarms.
"""

from __future__ import annotations

import datetime
import math
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from dpstats.domain import Domain
from dpstats.errors import DataError, DomainError
from dpstats.families import Binomial, Family, Gaussian, Poisson
from dpstats.formula.design import DesignSpec, design_spec

DOMAIN = Domain(
    {"odd name": (0, 1)}, y=(-4, 4), n=(0, 9), win=["no", "yes"], x=(0, 10), z=(-1, 3), a=["p", "q", "r"], b=[1, 2, 3]
)

RESPONSES: list[tuple[str, Family]] = [
    ("y", Gaussian()),
    ("np.log(n + 1)", Gaussian()),
    ("np.log(n)", Gaussian()),
    ("win", Binomial()),
    ("I(x > 3)", Binomial()),
    ("n", Poisson()),
]
FACTORS = [
    "x", "z", "a", "b", "Q('odd name')", "I(x**2)", "np.log(x)", "np.exp(20 * x)", "I(1 / z)", "np.sqrt(z)",
    "center(x)",
    "standardize(np.log(x))", "bs(x, df=5)", "bs(np.log(x), df=4)", "bs(z * x, df=4)", "cr(z, df=4)", "poly(x, 3)",
    "cr(x, df=3, constraints='center')", "cc(z, df=3)", "te(cr(x, df=3), bs(z, df=3), constraints='center')", "(x > z)",
    "C(a, Sum)", "C(b, Poly)", "C(a, Treatment('q'))", "I((a == 'p') * x)", "np.where(b == 2, x, z)", "I(x // z % 2)",
    "a:b", "x:a", "x:z", "bs(x, df=4):a",
]  # fmt: skip
ODD: list[Any] = [
    None, math.nan, math.inf, -math.inf, pd.NA, pd.NaT, 1e308,
    -1e308, 10**400, 2**63, -(2**64), True, "", " ", "p ", "P",
    "1", "2.0", "0x1", "1e309", "nan", "yes", [1, 2], {}, {"a": 1}, (), object(), datetime.date(2020, 1, 1), 1j, b"p",
    pd.Timestamp("2020-01-01"), np.timedelta64(1, "D"), Decimal("sNaN"), Decimal("2"), np.float32(1), np.array([1, 2]),
    Exception("x"), float, 0, -0.0, 5e-324, "q" * 1000, "\x00", "２",
]  # fmt: skip
TYPICAL: dict[str, list[Any]] = {
    "y": [-3.5, 0, 2], "n": [0, 1, 8], "win": ["no", "yes"], "x": [0, 0.3, 5, 10, 12], "z": [-1, 0, 0.7, 3],
    "a": ["p", "q", "r"], "b": [1, 2, 3], "odd name": [0.1, 1],
}  # fmt: skip

Row = dict[str, Any]


def random_row(random: np.random.Generator, oddity: float) -> Row:
    return {
        name: ODD[random.integers(len(ODD))] if random.random() < oddity else cells[random.integers(len(cells))]
        for name, cells in TYPICAL.items()
    }


def random_formula(random: np.random.Generator) -> tuple[str, Family]:
    response, family = RESPONSES[random.integers(len(RESPONSES))]
    factors = random.choice(FACTORS, size=random.integers(1, 5), replace=False)
    return f"{response} ~ {random.choice(['', '0 + '])}{random.choice([' + ', ' * ']).join(factors[:2])}", family


def frame_of(rows: list[Row], *, inferred: bool) -> pd.DataFrame:
    """A frame whose dtypes pandas infers from the cells, or all objects."""
    columns = {}
    for name in TYPICAL:
        cells = pd.Series([None, *(row[name] for row in rows)], dtype=object)[1:]
        columns[name] = cells.infer_objects() if inferred and len(cells) else cells
    return pd.DataFrame(columns)


def encoded(spec: DesignSpec, frame: pd.DataFrame, block_rows: int = 65536) -> list[tuple[bytes, float]]:
    return [
        (x.tobytes(), float(y))
        for exog, endog, *_ in spec.blocks(frame, block_rows)
        for x, y in zip(exog, endog, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_every_row_is_encoded_as_if_it_were_alone(part: int) -> None:
    for seed in range(100 * part, 100 * (part + 1)):
        try:
            encoded_as_alone(seed)
        except Exception as fault:
            fault.add_note(f"seed {seed}")
            raise


def encoded_as_alone(seed: int) -> None:
    random = np.random.default_rng(seed)
    formula, family = random_formula(random)
    spec = design_spec(formula, DOMAIN, family=family)
    rows = [random_row(random, oddity=0.1) for _ in range(random.integers(0, 25))]
    frame = frame_of(rows, inferred=False)
    # Each row as the only one of a frame: a list of one encoded row, or empty if it is left out.
    expected = [line for place in range(len(rows)) for line in encoded(spec, frame.iloc[[place]])]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encoded(spec, frame) == expected
        assert encoded(spec, frame, block_rows=7) == expected
        try:
            inferred = encoded(spec, frame_of(rows, inferred=True))
        except (DataError, DomainError) as error:
            # Only a dtype can be refused, and only for what it is.
            assert "has dtype" in str(error) or "holds numbers" in str(error)  # noqa: PT017
        else:
            assert inferred == expected


def test_changing_a_row_changes_no_other_row_in_prediction() -> None:
    for seed in range(100):
        random = np.random.default_rng(1000 + seed)
        formula, family = random_formula(random)
        spec = design_spec(formula, DOMAIN, family=family)
        rows = [random_row(random, oddity=0.05) for _ in range(12)]
        at = int(random.integers(12))
        changed = [*rows[:at], random_row(random, oddity=0.7), *rows[at + 1 :]]
        before, after = (spec.exog(frame_of(some, inferred=False)) for some in (rows, changed))
        others = np.arange(12) != at
        for one, other in zip(before[:2], after[:2], strict=True):
            np.testing.assert_array_equal(one[others], other[others], err_msg=f"seed {seed}: {formula}")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 1000])
def test_vectorised_arithmetic_rounds_each_row_alike(count: int) -> None:
    # Vector units treat the last few elements apart, and BLAS and pairwise sums regroup with the number of rows.
    random = np.random.default_rng(count)
    frame = pd.DataFrame({"x": random.uniform(0, 10, count), "z": random.uniform(-1, 3, count), "y": 0.0})
    spec = design_spec(
        "y ~ np.log(x) + np.exp(z) + np.sin(x) + np.power(x, 1.7) + I(x**3) + np.tanh(z) + np.hypot(x, z) + bs(x, df=6)"
        " + te(cr(x, df=4), cc(z, df=4), constraints='center') + cr(z, df=4, constraints='center') + poly(x, 5)",
        DOMAIN,
        family=Gaussian(),
    )
    whole: NDArray[np.float64] = spec.blocks(frame)[0][0]
    for i in range(0, count, max(1, count // 50)):
        np.testing.assert_array_equal(spec.blocks(frame.iloc[[i]])[0][0][0], whole[i])


def test_the_design_is_a_function_of_formula_and_domain() -> None:
    for seed in range(50):
        formula, family = random_formula(np.random.default_rng(seed))
        first, second = (design_spec(formula, DOMAIN, family=family) for _ in range(2))
        first.blocks(frame_of([random_row(np.random.default_rng(seed), 0.3) for _ in range(9)], inferred=False))
        assert first.to_dict() == second.to_dict()
        assert [vars(t).keys() for t in first.terms] == [vars(t).keys() for t in second.terms]
        for one, two in zip(first.terms, second.terms, strict=True):
            assert (one.name, one.columns, one.l2, one.l1) == (two.name, two.columns, two.l2, two.l1)
            np.testing.assert_array_equal(one.maxima, two.maxima)


def test_errors_never_quote_a_cell() -> None:
    secret = "secret-cell"
    frame = pd.DataFrame({"x": [secret], "y": [pd.Timestamp("2020-02-02")], "a": [secret]})
    spec = design_spec("y ~ x + a", DOMAIN, family=Gaussian())
    with pytest.raises(DomainError) as caught:
        spec.blocks(frame)
    assert secret not in str(caught.value)
    assert "2020-02-02" not in str(caught.value)

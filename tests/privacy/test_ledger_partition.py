"""Disjoint parts compose in parallel, and only as far as that is sound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpstats.errors import ArgumentError, BudgetExceeded, DataError, LedgerError
from dpstats.ledger import Ledger
from dpstats.ledger.accounts import Account, Amount, Books
from dpstats.privacy.guarantee import Guarantee


@pytest.fixture
def ledger(path: Path | str) -> Ledger:
    return Ledger(path, "d", 1.0, 1e-5)


def test_the_whole_pays_for_the_worst_part(ledger: Ledger) -> None:
    parts = ledger.partition("region", ["north", "south"])
    parts["north"].charge(Guarantee(0.3, 1e-6), label="a")
    parts["south"].charge(Guarantee(0.2, 2e-6), label="b")
    assert ledger.remaining == (0.7, 8e-6)
    assert parts["north"].remaining == (0.7, 9e-6)
    assert parts["south"].remaining == (0.8, 8e-6)
    ledger.charge(Guarantee(0.5), label="all rows")
    parts["south"].charge(Guarantee(0.3), label="c")
    assert ledger.remaining.eps == 0.2 - 0.2
    assert parts["south"].remaining.eps == 0.0
    assert parts["north"].remaining.eps == 0.2
    for spender in (ledger, parts["south"]):
        with pytest.raises(BudgetExceeded):
            spender.charge(Guarantee(1e-9), label="too much")
    assert ledger.entries()["part"].tolist() == ["region='north'", "region='south'", "", "region='south'"]
    assert parts["south"].entries()["label"].tolist() == ["b", "c"]


def test_different_partitions_and_nested_ones_add_up(ledger: Ledger) -> None:
    north = ledger.partition("region", ["north", "south"])["north"]
    ledger.partition("sex", ["F", "M"])["F"].charge(Guarantee(0.2), label="a")
    nested = north.partition("sex", ["F", "M"])
    nested["F"].charge(Guarantee(0.1), label="b")
    nested["M"].charge(Guarantee(0.3), label="c")
    north.charge(Guarantee(0.1), label="d")
    assert ledger.remaining.eps == pytest.approx(1 - 0.2 - 0.3 - 0.1)
    assert nested["F"].remaining.eps == pytest.approx(0.6)
    assert nested["F"].entries()["part"].tolist() == ["region='north', sex='F'"]
    assert "part region='north'" in north.report()
    assert "Only the worst part of a partition counts" in ledger.report()


def test_rows_that_are_coded_anew_pay_in_both_parts(ledger: Ledger) -> None:
    """The ledger sees no rows: what it cannot check its report says."""
    parts = ledger.partition("region", ["north", "south"])
    frame = pd.DataFrame({"region": ["north", "south"], "x": [1.0, 2.0]})
    recoded = frame.assign(region="south")
    parts["north"].charge(Guarantee(0.5), label="a")
    parts["south"].charge(Guarantee(0.5), label="b")
    read = pd.concat([parts["north"].rows(frame), parts["south"].rows(recoded)])
    assert read["x"].tolist() == [1.0, 1.0, 2.0]
    assert ledger.remaining.eps == 0.5
    said = "as long as every row stays in its part from call to call, which the ledger cannot check"
    assert said in " ".join(ledger.report().split())
    assert said in ledger.to_html()
    assert max(map(len, ledger.report().splitlines())) <= 80


def test_a_refund_in_a_part_reaches_the_whole(ledger: Ledger) -> None:
    part = ledger.partition("region", ["north"])["north"]
    charge = part.charge(Guarantee(0.4), label="a")
    assert ledger.remaining.eps == 0.6
    charge.refund()
    assert ledger.remaining.eps == 1.0


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 50)), max_size=20))
def test_remaining_is_exactly_what_the_filter_accepts(charges: list[tuple[int, int]]) -> None:
    nothing = Amount(0, 0, 0)
    shape = [(1, None, None), (2, 1, "a"), (3, 1, "a"), (4, 1, "b"), (5, 2, "c"), (6, 2, "c"), (7, 2, "a")]
    books = Books(Account(number, parent, rule, str(number), nothing) for number, parent, rule in shape)
    limit = Amount(100, 0, 0)
    for account, eps in charges:
        left = limit.minus(books.total(1)).plus(books.slack(account)).eps
        after = books.charged(account, Amount(eps, 0, 0))
        assert after.total(1).within(limit) == (eps <= left)
        books = after if eps <= left else books


def test_under_replace_one_a_part_takes_add_remove_guarantees_and_pays_double(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0, adjacency="replace_one")
    parts = ledger.partition("region", ["north", "south"])
    # The size of a part is not public: the changed record may move to another part.
    with pytest.raises(LedgerError, match="a part of a partition"):
        parts["north"].charge(Guarantee(0.1, adjacency="replace_one"), label="a")
    parts["north"].charge(Guarantee(0.25), label="a")
    parts["south"].charge(Guarantee(0.25), label="b")
    assert ledger.remaining.eps == 0.5


def test_a_partition_is_remembered_and_cannot_be_redrawn(ledger: Ledger) -> None:
    ledger.partition("region", ["north", "south"])["north"].charge(Guarantee(0.5), label="a")
    again = Ledger.open(ledger.path).partition("region", ["north", "south"])
    assert again["north"].remaining.eps == 0.5
    assert (list(again), len(again), again.by, again["south"].value) == (["north", "south"], 2, "region", "south")
    for parts in (["north"], ["south", "north"], ["north", "south", "west"]):
        with pytest.raises(LedgerError, match="in this order"):
            ledger.partition("region", parts)


@pytest.mark.parametrize(
    "parts", [[], "north", ["a", "a"], [1, True], [0.5], [None], [np.nan]], ids=["", "s", "twice", "1", "f", "n", "nan"]
)
def test_bad_parts_are_refused(ledger: Ledger, parts: list[object]) -> None:
    with pytest.raises(ArgumentError, match="parts"):
        ledger.partition("region", parts)  # type: ignore[arg-type]


def test_every_row_is_in_one_part_at_most(ledger: Ledger) -> None:
    # In single precision both values are the same cell: the row belongs to the first only.
    parts = ledger.partition("key", [16777216, 16777217, 3])
    data = pd.DataFrame({"key": np.array([16777216, 3, 4, np.nan], dtype=np.float32)})
    found = [part.rows(data).index.tolist() for part in parts.values()]
    assert found == [[0], [], [1]]


@pytest.mark.parametrize("dtype", [object, "category", "string"])
def test_rows_follow_the_rule_through_every_level(ledger: Ledger, dtype: str) -> None:
    data = pd.DataFrame({"region": ["n", "s", "n", None, "w"], "sex": ["F", "F", "M", "F", "F"]}, dtype=dtype)
    regions = ledger.partition("region", ["n", "s"])
    assert ledger.rows(data) is data
    assert regions["n"].rows(data).index.tolist() == [0, 2]
    assert regions["n"].partition("sex", ["F", "M"])["M"].rows(data).index.tolist() == [2]
    with pytest.raises(DataError, match="region"):
        regions["n"].rows(data[["sex"]])

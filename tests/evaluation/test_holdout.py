"""A holdout: every row on one side, by a function of that row alone, the same in every later call."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpstats as dp
from dpstats.data import as_table
from dpstats.errors import ArgumentError, BudgetExceeded, DataError, DomainError, LedgerError
from dpstats.evaluation.holdout_split import HoldoutRule

DOMAIN = {"y": (-5, 5), "x": (0, 10)}


def frame(rows: int = 2000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "x": rng.uniform(0, 10, rows),
            "y": rng.normal(size=rows),
            "g": rng.choice(["a", "b", None], rows),
        }
    )


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return dp.Ledger(tmp_path / "budget.db", "d", 3.0, 1e-5)


def ids(table: Any) -> list[int]:
    return table.column("id").numbers().astype(int).tolist()


def test_every_row_is_on_one_side() -> None:
    split = dp.holdout(frame(), 0.3, seed=1)
    train, test = ids(split.train), ids(split.test)
    assert sorted(train + test) == list(range(2000))
    # 600 expected, standard deviation 20.5: the margin is five of them.
    assert 500 < len(test) < 700
    assert ids(dp.holdout(frame(), 0.3, seed=1).test) == test
    assert ids(dp.holdout(frame(), 0.3, seed=2).test) != test
    assert ids(dp.holdout(frame(), 0.3).test) != ids(dp.holdout(frame(), 0.3).test)


CONTAINERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
    "lists": lambda data: {name: data[name].tolist() for name in data},
    "category": lambda data: data.astype({"g": "category"}),
    "string": lambda data: data.astype({"g": "string"}),
    "nullable": lambda data: data.convert_dtypes(),
    "floats": lambda data: data.astype({"id": float}),
    "columns in another order": lambda data: data[["y", "g", "id", "x"]],
    "dictionary": lambda data: pa.table(
        {
            **{n: data[n] for n in ("id", "x", "y")},
            "g": pa.array([g if isinstance(g, str) else None for g in data["g"]]).dictionary_encode(),
        }
    ),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_side_does_not_depend_on_the_container(name: str) -> None:
    expected = ids(dp.holdout(frame(), 0.4, seed=3).test)
    assert ids(dp.holdout(CONTAINERS[name](frame()), 0.4, seed=3).test) == expected


rows = st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["a", "b", " a ", None])), min_size=1, max_size=30)


@settings(max_examples=60)
@given(rows, st.randoms(use_true_random=False))
def test_no_row_depends_on_another(cells: list[tuple[int, str | None]], random: Any) -> None:
    """Removing, replacing or moving rows leaves the side of every other: what parallel composition rests on."""
    rule = HoldoutRule(0.5, ("x", "g"), "00" * 16)

    def sides(chosen: list[tuple[int, str | None]]) -> list[bool]:
        x, g = [list(column) for column in zip(*chosen, strict=True)]
        return rule.tests(as_table({"x": x, "g": g})).tolist()

    every = dict(zip(cells, sides(cells), strict=True))
    shuffled = random.sample(cells, len(cells))
    assert sides(shuffled) == [every[cell] for cell in shuffled]
    assert sides(cells[:1]) == [every[cells[0]]]


def moved(sides: Callable[[pd.DataFrame], Any]) -> int:
    """Rows that change sides when another row is put before them."""
    data = frame(200)
    added = pd.concat([pd.DataFrame({"id": [-1], "x": [0.0], "y": [0.0], "g": ["a"]}), data], ignore_index=True)
    return int(np.sum(sides(data) != sides(added)[1:]))


def test_a_holdout_by_position_is_caught() -> None:
    """Planted: the draw of a row follows its place in the data, which the other rows decide."""
    rule = HoldoutRule(0.5, ("g", "id", "x", "y"), "00" * 16)
    assert moved(lambda data: rule.tests(as_table(data))) == 0
    assert moved(lambda data: np.random.default_rng(1).random(len(data)) < 0.5) > 0


def test_sides_are_independent_of_the_cells() -> None:
    """Shares by group and mean by side, each within five standard errors."""
    data = frame(20_000)
    chosen = HoldoutRule(0.25, ("id",), "ab" * 16).tests(as_table(data))
    assert abs(chosen.mean() - 0.25) < 5 * 0.0031
    assert abs(data["x"][chosen].mean() - data["x"][~chosen].mean()) < 5 * 0.047
    # Neighbouring identifiers are no more alike than others.
    assert abs(np.corrcoef(chosen[1:], chosen[:-1])[0, 1]) < 5 / np.sqrt(20_000)


def test_the_two_sides_compose_in_parallel(ledger: dp.Ledger) -> None:
    data = frame()
    split = dp.holdout(data, 0.3, ledger=ledger)
    assert len(ledger.entries()) == 0
    fit = dp.ols("y ~ x", data, 2.0, domain=DOMAIN, ledger=split.train_ledger)
    dp.evaluate(fit, data, 1.5, ledger=split.test_ledger)
    assert ledger.remaining.eps == 1.0
    assert ledger.entries()["part"].tolist() == ["holdout='train'"] * 2 + ["holdout='test'"]
    dp.ols("y ~ x", data, 1.0, domain=DOMAIN, ledger=ledger)
    with pytest.raises(BudgetExceeded):
        dp.evaluate(fit, data, 0.6, ledger=split.test_ledger)


def test_charges_read_their_own_side_only(ledger: dp.Ledger) -> None:
    split = dp.holdout(frame(), 0.5, ledger=ledger)
    assert split.train_ledger is not None
    assert split.test_ledger is not None
    assert split.train_ledger.rows(frame())["id"].tolist() == ids(split.train)
    assert split.test_ledger.rows(frame())["id"].tolist() == ids(split.test)
    assert ids(split.test_ledger.rows_of(split.test)) == ids(split.test)
    assert ids(split.test_ledger.rows_of(split.train)) == []


SCRIPT = """
import sys, pandas as pd, dpstats as dp
data = pd.read_csv(sys.argv[2])
split = dp.holdout(data.assign(new=1), 0.3, ledger=dp.Ledger.open(sys.argv[1]))
print(split.test.column("id").numbers().astype(int).tolist())
"""


@pytest.mark.slow
def test_another_process_finds_the_same_split(ledger: dp.Ledger, tmp_path: Path) -> None:
    """From a file, with a column added and the rows in another order."""
    split = dp.holdout(frame(300), 0.3, ledger=ledger)
    frame(300).sample(frac=1, random_state=1).to_csv(tmp_path / "rows.csv", index=False)
    command = [sys.executable, "-c", SCRIPT, str(ledger.path), str(tmp_path / "rows.csv")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert sorted(map(int, found.strip()[1:-1].split(","))) == ids(split.test)


def test_another_split_of_the_same_rows_is_refused(ledger: dp.Ledger) -> None:
    dp.holdout(frame(), 0.3, by="id", ledger=ledger)
    assert dp.holdout(frame(), 0.3, ledger=ledger).by == ("id",)
    for other in ({"share": 0.2}, {"share": 0.3, "by": ["x"]}, {"share": 0.3, "seed": 1}):
        with pytest.raises(LedgerError, match=r"share 0\.3 by id"):
            dp.holdout(frame(), ledger=ledger, **other)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="id"):
        dp.holdout(frame().drop(columns="id"), 0.3, ledger=ledger)


def test_a_holdout_of_a_part_and_a_part_of_a_holdout(ledger: dp.Ledger) -> None:
    north = ledger.partition("g", ["a", "b"])["a"]
    split = dp.holdout(frame(), 0.5, ledger=north)
    assert split.test_ledger is not None
    inside = split.test_ledger.partition("g", ["a", "b"])
    assert set(ids(inside["a"].rows_of(as_table(frame())))) == set(ids(split.test))
    assert ids(inside["b"].rows_of(as_table(frame()))) == []
    assert {"g", "x"} <= set(split.test_ledger.columns)
    again = dp.holdout(split.train, 0.5, ledger=split.train_ledger)
    assert 0 < len(ids(again.test)) < len(ids(split.train))
    dp.ols("y ~ x", frame(), 0.5, domain=DOMAIN, ledger=again.test_ledger)
    assert ledger.entries()["part"].tolist() == ["g='a', holdout='train', holdout='test'"] * 2


def test_under_replace_one_a_side_takes_add_remove_guarantees_and_pays_double(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", "d", 2.0, adjacency="replace_one")
    split = dp.holdout(frame(), 0.5, ledger=ledger)
    with pytest.raises(LedgerError, match="a part of a partition"):
        dp.ols("y ~ x", frame(), 0.5, domain=DOMAIN, adjacency="replace_one", ledger=split.train_ledger)
    dp.ols("y ~ x", frame(), 0.5, domain=DOMAIN, ledger=split.train_ledger)
    assert ledger.remaining.eps == 1.0


def test_people_stay_together() -> None:
    data = frame(900).assign(person=lambda rows: rows["id"] // 3)
    test = dp.holdout(data, 0.5, by="person", seed=1).test
    counts = pd.Series(test.column("person").numbers()).value_counts()
    assert set(counts) == {3}


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"share": 0}, ArgumentError, "share"),
    ({"share": 1}, ArgumentError, "share"),
    ({"share": True}, ArgumentError, "share"),
    ({"share": float("nan")}, ArgumentError, "share"),
    ({"share": "0.3"}, ArgumentError, "share"),
    ({"by": []}, ArgumentError, "by"),
    ({"by": ["x", "x"]}, ArgumentError, "by"),
    ({"by": [3]}, ArgumentError, "by"),
    ({"by": "nowhere"}, DataError, "nowhere"),
    ({"by": "when"}, DomainError, "when"),
    ({"seed": -1}, ArgumentError, "seed"),
    ({"ledger": 3}, ArgumentError, "ledger"),
]


@pytest.mark.parametrize(("given", "error", "fragment"), BAD, ids=[str(given) for given, _, _ in BAD])
def test_bad_arguments(given: dict[str, Any], error: type[Exception], fragment: str, ledger: dp.Ledger) -> None:
    data = frame(20).assign(when=pd.Timestamp("2020-01-01"))
    arguments = {"share": 0.3, "ledger": ledger, **given}
    with pytest.raises(error, match=fragment):
        dp.holdout(data, **arguments)
    assert len(ledger.entries()) == 0


@pytest.mark.parametrize("labels", ["numbers", "texts", "pairs"])
def test_predictions_for_a_side_have_the_labels_of_its_rows(labels: str, ledger: dp.Ledger) -> None:
    """Numbered from 0 they were joined to other rows of the data without a word."""
    data = frame(300)
    numbers = np.arange(300) + 1000
    index = {"numbers": pd.Index(numbers), "texts": pd.Index([f"r{one}" for one in numbers])}
    data.index = index.get(labels, pd.MultiIndex.from_arrays([numbers % 7, numbers], names=["a", "b"]))
    split = dp.holdout(data, 0.3, ledger=ledger)
    fit = dp.ols("y ~ x", split.train, 100.0, domain=DOMAIN, seed=1)
    assert split.test_ledger is not None
    known, within = fit.predict(data), dp.holdout(split.train, 0.5, seed=1).test
    for side in (split.train, split.test, within):
        predicted = fit.predict(side)
        assert predicted.index.equals(data.index[ids(side)])
        pd.testing.assert_series_equal(predicted, known[data.index.isin(predicted.index)])
        assert fit.get_prediction(side).summary_frame().index.equals(predicted.index)
    assert split.test_ledger.rows(data).index.equals(fit.predict(split.test).index)


def test_a_release_does_not_read_the_labels_of_rows() -> None:
    side = dp.holdout(frame(), 0.3, seed=1).train
    side._index = lambda: pytest.fail("the labels were read")
    assert dp.ols("y ~ x", side, 1.0, domain=DOMAIN, seed=1).params.notna().all()


def test_predictions_for_a_side_of_rows_without_labels_are_numbered() -> None:
    split = dp.holdout({"x": np.arange(10.0), "y": np.zeros(10)}, 0.5, seed=1)
    fit = dp.ols("y ~ x", split.train, 1.0, domain=DOMAIN, seed=1)
    assert fit.predict(split.test).index.equals(pd.RangeIndex(split.test.rows))


def test_columns_that_cannot_be_hashed_are_left_out() -> None:
    data = frame(20).assign(when=pd.Timestamp("2020-01-01"))
    assert dp.holdout(data, 0.3).by == ("g", "id", "x", "y")
    with pytest.raises(DataError, match="column"):
        dp.holdout(data[["when"]], 0.3)


def test_no_partition_may_pass_for_a_holdout(ledger: dp.Ledger) -> None:
    with pytest.raises(ArgumentError, match="by"):
        ledger.partition("\x1fholdout {}", ["train", "test"])


def test_a_holdout_keeps_its_rows_to_itself() -> None:
    split = dp.holdout(frame(123), 0.3, seed=1)
    assert repr(split) == "<Holdout: about 0.3 of the rows for testing, by 4 columns>"
    assert repr(dp.holdout(frame(123), 0.3, by="id")) == "<Holdout: about 0.3 of the rows for testing, by id>"
    assert "123" not in repr((split, split.train, split.test))
    with pytest.raises(DataError, match="pickled"):
        pickle.dumps(split)


def test_hostile_cells_are_silent() -> None:
    class Loud:
        def __float__(self) -> float:
            raise ValueError("canary")

        __str__ = __hash__ = __float__  # type: ignore[assignment]

    cells = np.array([Loud(), [1], "\ud800", 10**400, float("inf"), "a"], dtype=object)
    split = dp.holdout({"x": cells, "z": np.arange(6)}, 0.5, seed=1)
    assert split.train.rows + split.test.rows == 6


def test_a_side_has_no_guarantee_for_replaced_rows() -> None:
    """How many rows a side has is private: an exact number of rows must not be printed beside it."""
    split = dp.holdout(frame(), 0.3, seed=1)
    for side in (split.train, split.test):
        with pytest.raises(ArgumentError, match="add_remove"):
            dp.ols("y ~ x", side, 1.0, domain=DOMAIN, adjacency="replace_one")
        assert dp.ols("y ~ x", side, 1.0, domain=DOMAIN, seed=1).params.notna().all()


def test_a_side_for_replaced_rows_is_refused_before_the_charge(ledger: dp.Ledger) -> None:
    split = dp.holdout(frame(), 0.3, ledger=ledger)
    before = ledger.remaining
    with pytest.raises(ArgumentError, match="add_remove"):
        dp.ols("y ~ x", split.train, 1.0, domain=DOMAIN, adjacency="replace_one", ledger=split.train_ledger)
    assert ledger.remaining == before


def test_the_part_of_the_other_side_is_refused_before_the_charge(ledger: dp.Ledger) -> None:
    """Side and part are public, and no row would be left: the charge would buy noise."""
    split = dp.holdout(frame(), 0.3, ledger=ledger)
    fit = dp.ols("y ~ x", split.train, 0.5, domain=DOMAIN, ledger=split.train_ledger)
    before = ledger.remaining
    calls: list[Callable[[], object]] = [
        lambda: dp.ols("y ~ x", split.train, 0.5, domain=DOMAIN, ledger=split.test_ledger),
        lambda: dp.evaluate(fit, split.test, 0.5, ledger=split.train_ledger),
        lambda: dp.check("y ~ x", split.test, DOMAIN, 0.5, ledger=split.train_ledger),
        lambda: dp.holdout(split.train, 0.5, ledger=split.test_ledger),
    ]
    for call in calls:
        with pytest.raises(ArgumentError, match=r"ledger pays for the (test|training) rows of a holdout"):
            call()
    assert ledger.remaining == before
    assert len(ledger.entries()) == 2  # a count of rows, and a fit
    dp.evaluate(fit, split.test, 0.5, ledger=split.test_ledger)
    assert ledger.remaining == before


def test_sides_within_sides_are_told_apart(ledger: dp.Ledger) -> None:
    """A holdout of a part: rows of one region fit the other side of another rule, never another region."""
    regions = ledger.partition("g", ["a", "b"])
    data = frame()
    north = dp.holdout(data, 0.5, ledger=regions["a"])
    with pytest.raises(ArgumentError, match="g='b', and data are the rows with g='a'"):
        dp.ols("y ~ x", north.train, 0.5, domain=DOMAIN, ledger=regions["b"])
    inner = dp.holdout(north.train, 0.5, ledger=north.train_ledger)
    with pytest.raises(ArgumentError, match="no row would be left"):
        dp.ols("y ~ x", inner.test, 0.5, domain=DOMAIN, ledger=north.test_ledger)
    dp.ols("y ~ x", inner.test, 0.5, domain=DOMAIN, ledger=north.train_ledger)
    dp.ols("y ~ x", inner.test, 0.5, domain=DOMAIN, ledger=regions["a"])


@pytest.mark.parametrize("lazy", [False, True])
def test_sides_without_a_ledger_know_what_they_are(ledger: dp.Ledger, lazy: bool) -> None:
    """A seed gives the same rule with and without a ledger, in memory and read in batches."""
    data: Any = pl.from_pandas(frame()).lazy() if lazy else frame()
    alone = dp.holdout(data, 0.3, seed=4)
    paid = dp.holdout(frame(), 0.3, seed=4, ledger=ledger)
    with pytest.raises(ArgumentError, match="no row would be left"):
        dp.ols("y ~ x", alone.train, 0.5, domain=DOMAIN, ledger=paid.test_ledger)
    again = dp.holdout(alone.train, 0.5, seed=5)
    with pytest.raises(ArgumentError, match="no row would be left"):
        dp.ols("y ~ x", again.test, 0.5, domain=DOMAIN, ledger=paid.test_ledger)
    dp.ols("y ~ x", again.test, 0.5, domain=DOMAIN, ledger=paid.train_ledger)


def test_a_side_that_divides_persons_is_not_taken_for_them(tmp_path: Path) -> None:
    """By default the cells of a row decide its side, so that most persons have rows on both; nothing is charged."""
    rows = frame().assign(id=np.arange(2000) // 4)
    ledger = dp.Ledger(tmp_path / "rows.ledger", dataset="rows", eps=9.0, unit="id")
    divided = dp.holdout(rows, 0.3)
    for by in ("id", ["id", "x"]):
        split = dp.holdout(rows, 0.3, by=by)
        if by == "id":
            fit = dp.ols("y ~ x", split.train, 1.0, domain=DOMAIN, unit="id", inference=None)
            dp.evaluate(fit, split.test, 1.0, metrics=["mae"])
        else:
            with pytest.raises(ArgumentError, match=r"rows on both sides: pass by='id' to dp\.holdout"):
                dp.ols("y ~ x", split.train, 1.0, domain=DOMAIN, unit="id")
    for call in (
        lambda: dp.ols("y ~ x", divided.train, 1.0, domain=DOMAIN, unit="id", ledger=ledger),
        lambda: dp.evaluate(fit, divided.test, 1.0, ledger=ledger),
        lambda: dp.check("y ~ x", divided.test, DOMAIN, 1.0, unit="id", ledger=ledger),
    ):
        with pytest.raises(ArgumentError, match="rows on both sides"):
            call()
    assert ledger.entries().empty
    own = dp.holdout(rows, 0.3, ledger=ledger)  # by the persons of the ledger
    assert own.by == ("id",)
    dp.ols("y ~ x", rows, 1.0, domain=DOMAIN, unit="id", ledger=own.train_ledger, inference=None)

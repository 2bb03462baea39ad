"""Whose data one record is: arguments, guarantees, composition, and ledgers that never mix units."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpstats.errors import ArgumentError, LedgerError
from dpstats.evaluation.holdout_split import open_holdout
from dpstats.ledger import Ledger
from dpstats.privacy import compose
from dpstats.privacy.guarantee import ROW, Guarantee, Unit, make_unit


def test_units() -> None:
    assert make_unit(None) == ROW == Unit.from_dict(None)
    assert make_unit("id") == make_unit("id", "equal") == Unit("id", shared=True)
    assert make_unit("id", max_rows=3) == make_unit("id", "one", 3) == Unit("id", rows=3)
    assert make_unit("id", max_rows=4).each(2.0) == 0.5
    assert Unit.from_dict(make_unit("id", max_rows=3).to_dict()) == Unit("id", rows=3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((None, "equal"), "need unit"),
        ((None, None, 2), "need unit"),
        (("",), "name of the column"),
        ((["id"],), "name of the column"),
        (("id", "heavy"), "unit_weight must be one of"),
        (("id", "one"), "needs max_rows"),
        (("id", "equal", 2), "leave it out"),
        (("id", None, 0), "positive whole number"),
        (("id", None, True), "positive whole number"),
        (("id", None, 2.0), "positive whole number"),
    ],
)
def test_arguments_that_do_not_suit_each_other(arguments: tuple, words: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ArgumentError, match=words):
        make_unit(*arguments)


def test_guarantees_say_whose_they_are() -> None:
    persons, rows = Guarantee(0.5, unit="person_id"), Guarantee(0.5)
    assert "add_remove per person_id" in str(persons)
    assert " per " not in str(rows)
    assert Guarantee(**persons.to_dict()) == persons
    old = {name: value for name, value in rows.to_dict().items() if name != "unit"}
    assert Guarantee(**old) == rows
    assert persons.uncertified("seeded").unit == "person_id"
    assert compose([persons, persons]).unit == "person_id"
    assert compose([persons, Guarantee(0.5, adjacency="replace_one", unit="person_id")]).unit == "person_id"
    for other in (rows, Guarantee(0.5, unit="household")):
        with pytest.raises(ArgumentError, match="different units"):
            compose([persons, other])
    with pytest.raises(ArgumentError, match="unit must be"):
        Guarantee(0.5, unit="")


class TestLedger:
    def test_a_ledger_takes_charges_for_its_unit_only(self, tmp_path: Path) -> None:
        with Ledger(tmp_path / "persons.ledger", "data", 1.0, unit="person_id") as persons:
            persons.charge(Guarantee(0.3, unit="person_id"), label="first")
            for guarantee, words in ((Guarantee(0.1), "pass unit='person_id'"), (Guarantee(0.1, unit="x"), "per x")):
                with pytest.raises(LedgerError, match=words):
                    persons.charge(guarantee, label="refused")
            assert persons.entries()["unit"].tolist() == ["person_id"]
            assert "add_remove per person_id" in persons.report()
            assert persons.remaining.eps == pytest.approx(0.7)
        with Ledger(tmp_path / "rows.ledger", "data", 1.0) as rows:
            with pytest.raises(LedgerError, match="made with that unit"):
                rows.charge(Guarantee(0.1, unit="person_id"), label="refused")
            rows.charge(Guarantee(0.1), label="row by row")
            assert rows.entries()["unit"].tolist() == [None]

    def test_the_unit_is_fixed_when_it_is_made(self, tmp_path: Path) -> None:
        Ledger(tmp_path / "a.ledger", "data", 1.0, unit="person_id").close()
        assert Ledger.open(tmp_path / "a.ledger").unit == "person_id"
        with pytest.raises(LedgerError, match="unit"):
            Ledger(tmp_path / "a.ledger", "data", 1.0)
        with pytest.raises(ArgumentError, match="unit"):
            Ledger(tmp_path / "b.ledger", "data", 1.0, unit=" ")
        assert not (tmp_path / "b.ledger").exists()

    def test_parts_hold_whole_persons(self, tmp_path: Path) -> None:
        with Ledger(tmp_path / "a.ledger", "data", 1.0, unit="person_id") as ledger:
            with pytest.raises(LedgerError, match="several parts"):
                ledger.partition("region", ["north", "south"])
            with pytest.raises(LedgerError, match="several parts"):
                open_holdout(ledger, 0.3, ["region"], ["region"], None, "00")
            train, test = open_holdout(ledger, 0.3, None, ["region", "person_id"], None, "00")
            assert train.columns == test.columns == ("person_id",)
            train.charge(Guarantee(0.5, unit="person_id"), label="fit")
            test.charge(Guarantee(0.4, unit="person_id"), label="test")
            assert ledger.remaining.eps == pytest.approx(0.5)

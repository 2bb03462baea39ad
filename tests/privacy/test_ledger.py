"""What a ledger accepts, refuses, remembers and shows."""

from __future__ import annotations

import contextlib
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import postgres
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpstats._version import __version__
from dpstats.errors import ArgumentError, BudgetExceeded, LedgerError, UncertifiedError
from dpstats.ledger import Charge, Ledger
from dpstats.ledger.accounts import cost, largest, limits
from dpstats.privacy.accounting import DELTA_UNIT, EPS_UNIT, RHO_UNIT, exact, split_budget, zcdp_eps
from dpstats.privacy.guarantee import Guarantee


def test_a_charge_is_recorded_in_full_and_survives_reopening(path: Path | str) -> None:
    guarantee = Guarantee(0.25, 1e-6, basis="docs/proofs/objective")
    with Ledger(path, dataset="adult", eps=1.0, delta=1e-5) as ledger:
        charge = ledger.charge(guarantee, label="first", formula="y ~ x", method="napp", plan_hash="abc")
        assert (charge.number, charge.guarantee, charge.state) == (1, guarantee, "charged")
    with Ledger(path, dataset="adult", eps=1.0, delta=1e-5) as ledger:
        entry = ledger.entries().loc[1]
        assert ledger.remaining == (0.75, 9e-6)
        assert ledger.total == (1.0, 1e-5)
    expected = {"eps": 0.25, "delta": 1e-6, "label": "first", "formula": "y ~ x", "method": "napp", "plan_hash": "abc"}
    expected |= {"adjacency": "add_remove", "basis": "docs/proofs/objective", "state": "charged"}
    expected |= {"version": __version__}
    assert {name: entry[name] for name in expected} == expected
    assert entry["part"] == entry["note"] == ""
    assert math.isnan(entry["rho"])
    assert entry["time"].tzinfo is not None


def test_ten_tenths_fit_in_one_and_an_eleventh_of_any_size_does_not(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    for number in range(10):
        ledger.charge(Guarantee(0.1), label=str(number))
    assert ledger.remaining == (0.0, 0.0)
    for eps in (0.1, 1e-12, 1e-300):
        with pytest.raises(BudgetExceeded, match="nothing is left"):
            ledger.charge(Guarantee(eps), label="one too many")
    assert len(ledger.entries()) == 10


@pytest.mark.parametrize(
    ("guarantee", "fits"),
    [
        (Guarantee(0.5, 1e-6), True),
        (Guarantee(0.5, 1.0000000000000002e-06), False),
        (Guarantee(0.5000000000000001, 1e-7), False),
        (Guarantee(0.1, 1e-300), True),
    ],
)
def test_either_of_eps_and_delta_may_run_out(path: Path | str, guarantee: Guarantee, fits: bool) -> None:
    ledger = Ledger(path, "d", 0.5, 1e-6)
    if fits:
        ledger.charge(guarantee, label="a")
    else:
        with pytest.raises(BudgetExceeded):
            ledger.charge(guarantee, label="a")
    assert len(ledger.entries()) == fits


def test_what_remains_can_be_spent_to_the_last_unit(path: Path | str) -> None:
    ledger = Ledger(path, "d", 0.7, 1e-6)
    ledger.charge(Guarantee(0.1 + 0.2, 1e-7), label="a")
    ledger.charge(Guarantee(*ledger.remaining), label="the rest")
    assert ledger.remaining == (0.0, 0.0)


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(1e-15, 0.3), st.floats(0, 1e-6)), max_size=30), st.sampled_from(["basic", "zcdp"]))
def test_the_grid_never_favours_the_spender(charges: list[tuple[float, float]], accountant: str) -> None:
    left = limits(accountant, 1.0, 1e-5)  # type: ignore[arg-type]
    eps = delta = rho = Fraction(0)
    for charge in charges:
        price = cost(accountant, Guarantee(*charge))  # type: ignore[arg-type]
        assert price.eps * EPS_UNIT >= exact(charge[0]) or accountant == "zcdp"
        assert price.rho * RHO_UNIT >= exact(charge[0]) ** 2 / 2 or accountant == "basic"
        assert price.delta * DELTA_UNIT >= exact(charge[1])
        if price.within(left):
            left = left.minus(price)
            eps, delta = eps + exact(charge[0]), delta + exact(charge[1])
            rho += exact(charge[0]) ** 2 / 2
    if accountant == "basic":
        assert eps <= 1
        assert delta <= exact(1e-5)
    else:
        assert zcdp_eps(float(rho) * (1 + 1e-12) + 1e-15, 5e-6) <= 1 + 1e-9
        assert delta <= exact(5e-6)
    most, _ = largest(accountant, left)  # type: ignore[arg-type]
    if most > 0:
        assert cost(accountant, Guarantee(most)).within(left)  # type: ignore[arg-type]
        assert not cost(accountant, Guarantee(most * 1.001 + 1e-9)).within(left)  # type: ignore[arg-type]


def test_split_shares_fill_a_ledger(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0, 1e-6)
    for eps, delta in split_budget(1.0, 1e-6, [1, 1, 1]):
        ledger.charge(Guarantee(eps, delta), label="share")
    assert ledger.remaining.eps <= 3e-12


def test_a_ledger_without_totals_names_the_call_that_opens_one(path: Path | str) -> None:
    Ledger(path, "d", 1.0)
    for arguments in ((path,), (path, "d")):
        with pytest.raises(ArgumentError, match=r"dp.Ledger.open\(path\) opens an existing one"):
            Ledger(*arguments)  # type: ignore[call-arg]
    assert Ledger.open(path).total.eps == 1


def test_no_ledger_accepts_an_uncertified_guarantee(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    with pytest.raises(UncertifiedError, match="use a certified method"):
        ledger.charge(Guarantee(0.1).uncertified("not proved"), label="a")
    with pytest.raises(UncertifiedError, match="seeded"):
        ledger.charge(Guarantee(0.1).uncertified("seeded"), label="a")
    assert ledger.entries().empty


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"guarantee": 0.5, "label": "a"}, "guarantee"),
        ({"guarantee": Guarantee(0.5), "label": None}, "label"),
        ({"guarantee": Guarantee(0.5), "label": "a", "formula": 3}, "formula"),
        ({"guarantee": Guarantee(0.5), "label": "\ud800"}, "label"),
    ],
)
def test_a_bad_argument_of_charge_is_named(path: Path | str, options: dict[str, object], name: str) -> None:
    with pytest.raises(ArgumentError, match=name):
        Ledger(path, "d", 1.0).charge(**options)  # type: ignore[arg-type]


def note_of_a_block_that_fails(charge: Charge, first: Callable[[], None]) -> str:
    """Do `first` inside the charge's block and fail; the note on the error."""

    def fail() -> None:
        with charge:
            first()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        fail()
    (note,) = caught.value.__notes__
    return note


def test_an_error_alone_refunds_nothing(path: Path | str) -> None:
    """The block may have shown its release before it failed."""
    ledger = Ledger(path, "d", 1.0)
    shown: list[str] = []
    for number in (1, 2):
        charge = ledger.charge(Guarantee(0.4), label="a")
        note = note_of_a_block_that_fails(charge, lambda: shown.append("the release"))
        assert note == f"Ledger charge {number} was kept. If no row was read, refund() of this charge gives it back."
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee(0.4), label="a")
    assert len(shown) == 2
    ledger.close()
    again = Ledger(path, "d", 1.0)
    assert again.remaining.eps == pytest.approx(0.2)
    assert again.entries()["state"].tolist() == ["charged", "charged"]


def test_a_failure_after_rows_were_read_keeps_the_charge(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    charge = ledger.charge(Guarantee(0.4), label="a")
    assert note_of_a_block_that_fails(charge, charge.rows_read) == "Ledger charge 1 was kept: rows were read."
    assert ledger.remaining.eps == 0.6
    assert ledger.entries()["state"].tolist() == ["read"]


def test_a_success_is_never_refunded(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    with ledger.charge(Guarantee(0.4), label="a"):
        pass
    assert ledger.remaining.eps == 0.6


def test_an_explicit_refund_is_durable(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    charge = ledger.charge(Guarantee(1.0), label="a")
    charge.refund()
    charge.refund()  # what is given back already stays so
    ledger.close()
    again = Ledger(path, "d", 1.0)
    assert again.remaining.eps == 1.0
    assert again.entries()["state"].tolist() == ["refunded"]
    again.charge(Guarantee(1.0), label="b")


def test_a_block_that_refunds_and_then_fails_says_so(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    charge = ledger.charge(Guarantee(1.0), label="a")
    assert note_of_a_block_that_fails(charge, charge.refund) == "Ledger charge 1 was refunded."
    assert ledger.remaining.eps == 1.0


def test_a_refunded_charge_lets_nobody_read_rows(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    charge = ledger.charge(Guarantee(1.0), label="a")
    charge.refund()
    with pytest.raises(LedgerError, match="charge the ledger again"):
        charge.rows_read()


def test_rows_read_rule_out_a_refund_even_when_announced_elsewhere(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    charge = ledger.charge(Guarantee(1.0), label="a")
    pickle.loads(pickle.dumps(charge)).rows_read()  # as a worker process would
    with pytest.raises(LedgerError, match=r"^charge 1 cannot be refunded: .* leave it as spent"):
        charge.refund()
    assert charge.state == "read"
    assert ledger.remaining.eps == 0.0


def test_a_ledger_that_fails_too_does_not_hide_the_first_error(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger = Ledger(path, "d", 1.0)
    charge = ledger.charge(Guarantee(1.0), label="a")
    assert note_of_a_block_that_fails(charge, path.unlink).startswith("Ledger charge 1 was kept.")


def test_the_books_cannot_be_rewritten(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    ledger.charge(Guarantee(0.5), label="a").rows_read()
    for statement in (
        "DELETE FROM entry",
        "UPDATE entry SET cost_eps = 0",
        "UPDATE entry SET state = 'refunded'",
        "UPDATE entry SET state = 'charged'",
        "INSERT INTO entry SELECT 9, 1, 0, 0, 0, 0, 0, 'b', '', '', '', '', '', '', '', '', 'refunded', '', '', '', ''",
        "DELETE FROM account",
        "UPDATE ledger SET limit_eps = 9",
        "DELETE FROM ledger",
    ):
        with postgres.raw(path) as execute, pytest.raises(postgres.BROKEN_RULES):
            execute(statement)


def test_balances_that_were_tampered_with_are_found_on_opening(path: Path | str) -> None:
    Ledger(path, "d", 1.0).charge(Guarantee(0.5), label="a")
    with postgres.raw(path) as execute:
        execute("UPDATE account SET spent_eps = 0")
    with pytest.raises(LedgerError, match="balances"):
        Ledger(path, "d", 1.0)


def test_an_add_remove_guarantee_counts_twice_under_replace_one_and_says_so(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0, 1e-5, adjacency="replace_one")
    ledger.charge(Guarantee(0.25, 1e-6), label="a")
    ledger.charge(Guarantee(0.25, 1e-6, adjacency="replace_one"), label="b")
    table = ledger.entries()
    assert table["eps"].tolist() == [0.5, 0.25]
    assert table["delta"].tolist() == pytest.approx([1e-6 * (1 + math.exp(0.25)), 1e-6])
    assert table["adjacency"].tolist() == ["add_remove", "replace_one"]
    assert table["note"].tolist() == ["group rule, two steps of eps=0.25, delta=1e-06 under add_remove", ""]
    assert ledger.remaining.eps == 0.25


def test_a_replace_one_guarantee_is_refused_under_add_remove(path: Path | str) -> None:
    with pytest.raises(LedgerError, match='adjacency="add_remove"'):
        Ledger(path, "d", 1.0).charge(Guarantee(0.1, adjacency="replace_one"), label="a")


def test_zcdp_holds_many_more_gaussian_releases(path: Path | str, tmp_path: Path) -> None:
    release = Guarantee(0.2, 5e-7, mu=0.05)
    zcdp = Ledger(path, "d", 1.0, 1e-5, accountant="zcdp")
    basic = Ledger(tmp_path / "basic.db", "d", 1.0, 1e-5)
    counts = []
    for ledger in (zcdp, basic):
        with contextlib.suppress(BudgetExceeded):
            for number in range(100):
                ledger.charge(release, label=str(number))
        counts.append(len(ledger.entries()))
    assert counts == [22, 5]
    assert zcdp_eps(22 * 0.05**2 / 2, 5e-6) <= 1.0 < zcdp_eps(23 * 0.05**2 / 2, 5e-6)
    assert zcdp.entries()["rho"].tolist() == pytest.approx([0.00125] * 22)
    assert zcdp.entries()["note"].iloc[0] == "charged by rho, its delta is not used up"
    assert basic.remaining_rho is None


def test_the_table_of_the_guide_adds_up(tmp_path: Path) -> None:
    """A fit is charged in two steps, which cost less rho than one: the table's 11 and 44 looked wrong beside eps²/2."""
    text = Path(__file__).parents[2].joinpath("docs", "ledger.md").read_text(encoding="utf-8")
    fits = [line.split("|")[2:5] for line in text.splitlines() if line.startswith(("  | fits", "  | the same"))]
    assert [float(eps) for eps, *_ in fits] == [0.5, 0.2, 0.1]
    for eps, *expected in fits:
        for accountant, number in zip(("basic", "zcdp"), map(int, expected), strict=True):
            ledger = Ledger(tmp_path / f"{accountant}{eps.strip()}.ledger", "d", 3.0, 1e-5, accountant=accountant)
            counts, rest = Guarantee(0.03 * float(eps)), Guarantee(0.97 * float(eps), 1e-7)
            with contextlib.suppress(BudgetExceeded):
                for _ in range(100):
                    ledger.check_charges([counts, rest])
                    for one in (counts, rest):
                        ledger.charge(one, label="a step of a fit")
            assert len(ledger.entries()) == 2 * number
    quota = Ledger(tmp_path / "quota.ledger", "d", 3.0, 1e-5, accountant="zcdp")
    quota.set_quota("Ada", 1.5, 1e-6)
    for eps, enough in ((0.322, True), (0.323, False)):
        with contextlib.nullcontext() if enough else pytest.raises(BudgetExceeded):
            quota.signed("Ada").check_charges([Guarantee(0.03 * eps), Guarantee(0.97 * eps)])


def test_zcdp_takes_delta_from_entries_without_a_rho(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0, 1e-5, accountant="zcdp")
    before = ledger.remaining_rho
    assert before is not None
    ledger.charge(Guarantee(0.1, 2e-6), label="approximate")
    ledger.charge(Guarantee(0.1), label="pure")
    assert ledger.remaining_rho == pytest.approx(before - 2 * 0.1**2 / 2)
    assert ledger.remaining.delta == 3e-6
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee(0.01, 4e-6), label="more than the half of delta")
    ledger.charge(Guarantee(ledger.remaining.eps), label="the rest")


def test_zcdp_needs_a_delta(path: Path | str) -> None:
    with pytest.raises(ArgumentError, match="delta"):
        Ledger(path, "d", 1.0, accountant="zcdp")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"dataset": "other"}, "dataset"),
        ({"eps": 2.0}, "eps"),
        ({"delta": 1e-6}, "delta"),
        ({"adjacency": "replace_one"}, "adjacency"),
        ({"accountant": "zcdp", "delta": 1e-5}, "accountant"),
    ],
)
def test_an_existing_file_must_agree_with_every_argument(
    path: Path | str, change: dict[str, object], name: str
) -> None:
    totals = {"dataset": "d", "eps": 1.0, "delta": 1e-5, "adjacency": "add_remove", "accountant": "basic"}
    Ledger(path, **totals).close()  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match=rf"^{name}: .* pass {name}="):
        Ledger(path, **(totals | change))  # type: ignore[arg-type]
    assert Ledger.open(path).total == (1.0, 1e-5)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"eps": 0.0}, "eps"),
        ({"eps": 1e9}, "eps"),
        ({"delta": 1.0}, "delta"),
        ({"adjacency": "swap"}, "adjacency"),
        ({"accountant": "pld"}, "accountant"),
        ({"dataset": " "}, "dataset"),
        ({"path": 3}, "path"),
    ],
)
def test_a_bad_total_makes_no_file(path: Path | str, options: dict[str, object], name: str) -> None:
    with pytest.raises(ArgumentError, match=name):
        Ledger(**({"path": path, "dataset": "d", "eps": 1.0} | options))  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="missing"):
        Ledger.open(path)


def test_the_report_fits_80_columns_and_cannot_steer_a_terminal(path: Path | str) -> None:
    ledger = Ledger(path, "adult\x1b[31m", 1.0, 1e-5)
    ledger.charge(Guarantee(0.1, 1e-6), label="age\non\x07income " + "x" * 200, formula="y ~ x", method="napp")
    ledger.charge(Guarantee(0.2), label="failed").refund()
    lines = ledger.report().splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() for line in lines)
    assert [line.split() for line in lines if line.startswith(("eps", "delta"))] == [
        ["eps", "1", "0.1", "0.9"],
        ["delta", "1e-05", "1e-06", "9e-06"],
    ]
    assert "refunded" in ledger.report()
    assert "age on income" in ledger.report()


def test_an_empty_ledger_has_a_report_and_typed_entries(path: Path | str) -> None:
    ledger = Ledger(path, "d", 1.0)
    assert "nothing yet" in ledger.report()
    assert ledger.entries()["eps"].dtype == float
    assert repr(ledger) == f"Ledger({str(path)!r}, dataset='d', eps=1.0, delta=0.0)"

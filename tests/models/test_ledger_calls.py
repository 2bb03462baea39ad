"""Every call that is charged takes a path for its ledger, a signed ledger, and refuses the ledger of other data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError, BudgetExceeded, LedgerError, MismatchError

DOMAIN = dp.Domain(y=(-5, 5), x=(0, 10), g=["a", "b"])
OTHER = {**DOMAIN, "x": (0, 20)}


@pytest.fixture
def data() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame({"y": rng.normal(size=500), "x": rng.uniform(0, 10, 500), "g": rng.choice(["a", "b"], 500)})


@pytest.fixture
def path(tmp_path: Path) -> str:
    dp.Ledger(tmp_path / "budget.db", "d", 10.0, domain=DOMAIN).close()
    return str(tmp_path / "budget.db")


def fit(data: pd.DataFrame, domain: Any = DOMAIN, ledger: Any = None) -> dp.GLMResults:
    return dp.ols("y ~ x + g", data, 0.5, domain=domain, ledger=ledger, check_share=0)


Call = Callable[[pd.DataFrame, Any, Any], object]
CALLS: dict[str, Call] = {
    "glm": fit,
    "check": lambda data, domain, ledger: dp.check("y ~ x", data, domain, 0.5, ledger=ledger),
    "evaluate": lambda data, domain, ledger: dp.evaluate(fit(data, domain), data, 0.5, ledger=ledger),
    "release_statistics": lambda data, domain, ledger: dp.release_statistics(
        domain, ["y", "x"], 0.5, data=data, ledger=ledger
    ),
    "plan_many": lambda data, domain, ledger: dp.plan_many({"one": "y ~ x", "two": "y ~ g"}, domain, 0.5).fit(
        data, ledger=ledger
    ),
    "quantreg": lambda data, domain, ledger: dp.quantreg(
        "y ~ x", data, 0.5, [0.25, 0.75], domain=domain, ledger=ledger, check_share=0
    ),
    "tune": lambda data, domain, ledger: dp.tune(
        "y ~ x", data, {"alpha": [1.0, 2.0]}, eps=0.5, penalty="ridge", domain=domain, ledger=ledger
    ),
    "select": lambda data, domain, ledger: dp.select(
        [1.0, 2.0], "abs(x - candidate) / 20", data, domain=domain, eps=0.5, ledger=ledger
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_path_and_a_signature_serve_every_call(name: str, path: str, data: pd.DataFrame) -> None:
    CALLS[name](data, DOMAIN, path)
    with dp.Ledger.open(path) as ledger:
        CALLS[name](data, DOMAIN, ledger.signed("Ada", purpose="thesis"))
        entries = ledger.entries()
    assert entries["analyst"].tolist() == [None, "Ada"]
    assert entries["purpose"].tolist() == [None, "thesis"]
    assert entries["state"].tolist() == ["read", "read"]
    assert entries["domain_hash"].nunique() == 1


@pytest.mark.parametrize("name", CALLS)
def test_every_call_refuses_the_ledger_of_other_data(name: str, path: str, data: pd.DataFrame) -> None:
    with pytest.raises(LedgerError, match=r"column 'x' is declared as \(0, 20\), and as \(0, 10\)"):
        CALLS[name](data, OTHER, path)
    with dp.Ledger.open(path) as ledger:
        assert ledger.entries().empty


def test_a_fit_under_a_wrong_domain_says_how_the_ledger_is_corrected(path: str, data: pd.DataFrame) -> None:
    """Whose Domain has levels that no row has. What was planned under it is refused afterwards, and says why."""
    wrong = dp.plan("y ~ x + g", DOMAIN, 2.0)
    capitals = pd.concat([data.assign(g=data["g"].str.upper())] * 20)
    with dp.Ledger.open(path) as ledger:
        with pytest.raises(
            MismatchError, match=r"`g`.* Have the ledger's keeper correct .*set_domain.*on_mismatch='go'"
        ):
            dp.ols("y ~ x + g", capitals, 2.0, ledger=path)
        ledger.set_domain({**DOMAIN, "g": ["A", "B"]})
        assert ledger.remaining.eps == pytest.approx(9.94)
        assert dp.ols("y ~ x + g", capitals, 2.0, ledger=path).params.index.tolist()[1] == "g[T.B]"
        with pytest.raises(LedgerError, match=r"declared as \[a, b\], and as \[A, B\]"):
            wrong.fit(capitals, ledger=path)
        assert ledger.remaining.eps == pytest.approx(7.94)


def test_a_stream_that_has_started_goes_on_under_its_own_domain(path: str, data: pd.DataFrame) -> None:
    with dp.Ledger(path + "2", "d", 10.0, 1e-5, domain=DOMAIN) as ledger:
        stream = dp.streaming.Regression("y ~ x", DOMAIN, 1.0, 1e-6, horizon=2, ledger=ledger)
        stream.update(data[:250])
        ledger.set_domain(OTHER)
        stream.update(data[250:])
        assert ledger.remaining.eps == 9.0


def test_a_check_takes_the_domain_of_the_ledger(path: str, data: pd.DataFrame) -> None:
    found = dp.check("y ~ x + g", data, eps=1.0, ledger=path)
    assert {"x", "g"} <= set(found.located["column"])
    with pytest.raises(ArgumentError, match="needs eps"):
        dp.check("y ~ x + g", data, ledger=path)


def test_a_budget_is_no_eps(path: str, data: pd.DataFrame) -> None:
    with dp.Ledger.open(path) as ledger, pytest.raises(ArgumentError, match=r"got Budget\(eps=10.0, .*; use its \.eps"):
        dp.ols("y ~ x", data, eps=ledger.remaining, ledger=ledger)  # type: ignore[arg-type]


def test_a_quota_without_delta_refuses_calls_that_spend_one_alone(path: str, data: pd.DataFrame) -> None:
    with dp.Ledger.open(path) as ledger:
        ledger.set_quota("Ada", 5.0)
        ada = ledger.signed("Ada")
        dp.ols("y ~ x", data, 1.0, delta=1e-6, ledger=ada)
        assert ledger.entries()["delta"].eq(0.0).all()
        with pytest.raises(BudgetExceeded, match="delta"):
            dp.ols("y ~ x", data, 1.0, delta=1e-6, noise="gaussian", ledger=ada)


def test_bought_ranges_are_for_the_ledgers_columns(path: str, data: pd.DataFrame) -> None:
    dp.buy_ranges(data, ["x"], 1.0, ledger=path)
    with pytest.raises(LedgerError, match="'z'"):
        dp.buy_ranges(data.assign(z=1.0), ["z"], 1.0, ledger=path)
    with dp.Ledger.open(path) as ledger:
        assert len(ledger.entries()) == 1


def test_a_column_that_the_ledger_does_not_have_is_refused_before_the_log(
    path: str, data: pd.DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    """The fit told that it buys the range of the column, and then refused it."""
    with pytest.raises(LedgerError, match="column 'z' is not in the Domain of ledger"):
        dp.ols("y ~ x + z", data.assign(z=1.0), 1.0, ledger=path)
    assert not caplog.records


def test_a_fit_with_a_bought_range_can_be_evaluated(path: str, data: pd.DataFrame) -> None:
    """What was bought is no declaration that could contradict the ledger's."""
    bought = dp.ols("y ~ x", data, 2.0, domain={"y": (-5, 5)}, ledger=path)
    dp.evaluate(bought, data, 0.5, ledger=path)


def test_arrays_do_not_go_with_a_ledger_that_keeps_a_domain(path: str, data: pd.DataFrame) -> None:
    model = dp.GLM(data["y"].to_numpy(), data[["x"]].to_numpy(), row_norm=10.0)
    with pytest.raises(LedgerError, match="arrays have no declared columns"):
        model.fit(0.5, ledger=path)


def test_the_persons_column_need_not_be_declared(tmp_path: Path, data: pd.DataFrame) -> None:
    ledger = dp.Ledger(tmp_path / "p.db", "d", 2.0, unit="person", domain=DOMAIN)
    dp.ols("y ~ x", data.assign(person=np.arange(500) // 2), 0.5, domain=DOMAIN, unit="person", ledger=ledger)
    assert ledger.entries()["unit"].tolist() == ["person", "person"]


def test_a_quota_is_checked_before_rows_are_read(path: str, data: pd.DataFrame) -> None:
    with dp.Ledger.open(path) as ledger:
        ledger.set_quota("Ada", 0.4)
        with pytest.raises(BudgetExceeded, match="quota of analyst 'Ada'"):
            fit(data, ledger=ledger.signed("Ada"))
        assert ledger.entries().empty


def test_a_holdout_takes_a_path(path: str, data: pd.DataFrame) -> None:
    split = dp.holdout(data, 0.3, ledger=path)
    fit(data, ledger=split.train_ledger)  # type: ignore[arg-type]
    with dp.Ledger.open(path) as ledger:
        assert ledger.entries()["part"].tolist() == ["holdout='train'"]


def test_a_missing_file_is_named_and_not_made(tmp_path: Path, data: pd.DataFrame) -> None:
    with pytest.raises(LedgerError, match=r"none\.db' is missing"):
        fit(data, ledger=tmp_path / "none.db")
    assert not list(tmp_path.iterdir())


def test_who_charges_and_what_for_are_given_by_position_too(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "l.db", dataset="d", eps=1.0)
    ledger.signed("ada", "a check").charge(dp.Guarantee(0.5), label="a mean")
    assert ledger.entries()[["analyst", "purpose"]].iloc[-1].tolist() == ["ada", "a check"]

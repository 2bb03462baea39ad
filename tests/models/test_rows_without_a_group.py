"""Rows without a value of an absorbed factor are counted for each row, and those of no person for nobody."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import as_table
from dpstats.domain import Domain
from dpstats.errors import DataError, LedgerError, MismatchError
from dpstats.evaluation import data_check
from dpstats.evaluation.column_histograms import column_histograms
from dpstats.evaluation.data_check import STEPS, count_faults
from dpstats.evaluation.integer_noise import choose_noise
from dpstats.families import Gaussian
from dpstats.formula.design import design_spec
from dpstats.formula.faults import column_facts, possible_faults, raw_flags
from dpstats.models import sources

DOMAIN: dict[str, Any] = {"x": (-1, 1), "z": (0, 10), "y": (-2, 2)}
FORMULA = "y ~ x + z | firm"


def table(groups: int = 400, blank: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Groups of five rows, of which a share has no group."""
    rng = np.random.default_rng(seed)
    firm = np.repeat(np.arange(groups), 5)
    rows = pd.DataFrame({"x": rng.uniform(-1, 1, len(firm)), "z": rng.uniform(0, 10, len(firm))})
    rows["y"] = np.clip(0.5 * rows["x"] + rng.normal(0, 0.3, len(firm)), -2, 2)
    rows["firm"] = [f"f{name}" for name in firm]
    rows.loc[rng.random(len(rows)) < blank, "firm"] = None
    return rows


FAULTY = pd.DataFrame(
    [
        (0.5, 5.0, 0.0, None),
        (0.5, 5.0, 0.0, " "),
        (0.5, 5.0, 0.0, math.nan),
        (0.5, 5.0, 0.0, datetime.date(2000, 1, 1)),
        (9.0, 5.0, 9.0, None),
        (math.nan, 99.0, 0.0, None),
        (math.nan, 5.0, 0.0, "f1"),
        (9.0, 99.0, 9.0, "new"),
    ],
    columns=["x", "z", "y", "firm"],
)
"""Rows with no group, with other faults too, and with both."""


def counted(rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> np.ndarray:
    """The counts of a fit without their noise: rows used, then by first fault."""
    with monkeypatch.context() as exact:
        exact.setattr(sources, "noisy_integers", lambda values, *_: values)
        counts = dp.ols(FORMULA, rows, 1.0, domain=DOMAIN, on_mismatch="go", **arguments).counts
    return np.array([counts.rows, *counts.at_fault])


def most_moved(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """By how much one more row moves the number of rows used at most, and the faults in all."""
    rows = table(20)
    before = counted(rows, monkeypatch)
    after = [counted(pd.concat([rows, FAULTY.iloc[[at]]]), monkeypatch) - before for at in range(len(FAULTY))]
    return max(abs(one[0]) for one in after), max(int(np.abs(one[1:]).sum()) for one in after)


def test_a_row_counts_once_whatever_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert most_moved(monkeypatch) == (1, 1)
    assert counted(pd.concat([table(20), FAULTY]), monkeypatch)[0] == 101  # "new" is clipped and used
    # y, x and z are lost, then the group, then what clips.
    assert counted(FAULTY, monkeypatch).tolist() == [1, 0, 2, 0, 5, 1, 0, 0]


def test_counting_the_group_beside_other_faults_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: a row without a group counts there even if it is lost to a column before."""
    right = sources._row_sums

    def beside(design: Any, facts: Any, faults: Any, used: Any, tables: Any) -> np.ndarray:
        rows = list(tables)
        total = right(design, facts, faults, used, rows)
        for at, fault in enumerate(faults, start=1):
            if fault.ungrouped:
                total[at] = sum(int(next(raw_flags(one, {}, design, [fault])).sum()) for one in rows)
        return total

    monkeypatch.setattr(sources, "_row_sums", beside)
    assert most_moved(monkeypatch)[1] == 2


def test_rows_used_and_lost_are_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows without a group were among those used."""
    rows = table(400, 0.08)
    found = counted(rows, monkeypatch)
    assert found[0] == rows["firm"].notna().sum()
    assert found.sum() == len(rows)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("planted", [False, True])
def test_a_check_keeps_its_eps_exactly(adjacency: Any, planted: bool) -> None:
    """Planted: a row without a group gives it a whole row beside what it gives its other faults."""
    design = design_spec("y ~ x + z", Domain(DOMAIN), family=Gaussian())
    facts = column_facts(design.parsed, design.domain, Gaussian())
    faults = possible_faults(facts, design, design.parsed, "firm")
    at = 1 + next(place for place, fault in enumerate(faults) if fault.ungrouped)
    noise = choose_noise(STEPS, STEPS**2, 0.3, 0.0, adjacency)

    def sums(rows: pd.DataFrame) -> np.ndarray:
        found = count_faults(as_table(rows), facts, design, faults, column_histograms(facts))
        if planted:
            found[at] = STEPS * int(np.sum([str(one).strip() in ("None", "", "nan") for one in rows["firm"]]))
        return found

    rows = pd.concat([table(2), FAULTY], ignore_index=True)
    whole, worst = sums(rows), 0.0
    assert planted or whole.sum() == STEPS * len(rows)
    for left in range(len(rows)):
        without = rows.drop(index=left)
        others = (
            [without] if adjacency == "add_remove" else [pd.concat([without, FAULTY.iloc[[new]]]) for new in (4, 5)]
        )
        worst = max(worst, *(float(np.abs(whole - sums(one)).sum()) / noise.scale for one in others))
    assert (worst > 0.3 * 1.2) if planted else (0.3 * 0.99 < worst <= 0.3 * (1 + 1e-12))


def test_a_summary_and_a_check_name_the_factor_that_loses_rows() -> None:
    rows = table(4000, 0.08)
    lost = rows["firm"].isna().mean()
    fit = dp.ols(FORMULA, rows, 1.0, domain=DOMAIN, seed=1)
    text = " ".join(fit.summary().as_text().split())
    assert "are lost to `firm`: missing, so that the row is in no group" in text
    assert "not counted" not in text
    share = next(one for one in fit.counts.named if one[0].ungrouped)
    assert share[1] == pytest.approx(lost, abs=4 * share[2])
    assert fit.counts.rows == pytest.approx(rows["firm"].notna().sum(), abs=6 * fit.counts.rows_sd)
    found = dp.check(FORMULA, rows, DOMAIN, 0.1, seed=1)
    line = found.table.set_index("column").loc["firm"]
    assert line["rows"] == pytest.approx(lost * len(rows), abs=4 * found.std_err)
    assert found.findings[0].endswith("`firm`: missing, so that the row is in no group.")


def test_a_fit_stops_if_too_many_rows_have_no_group(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "rows.ledger", dataset="rows", eps=2.0)
    with pytest.raises(MismatchError, match="are lost to `firm`: missing"):
        dp.ols(FORMULA, table(2000, 0.4), 1.0, domain=DOMAIN, ledger=ledger)
    assert ledger.entries()["eps"].tolist() == pytest.approx([0.03])


@pytest.mark.parametrize("eps", [0.3, 1.0])
def test_the_count_is_a_part_of_what_rows_pay_for_already(eps: float) -> None:
    counts = dp.plan(FORMULA, DOMAIN, eps).counts
    plain = dp.plan("y ~ x + z", DOMAIN, eps, family="gaussian").counts
    assert (counts.eps, counts.rest, counts.fault_eps) == (plain.eps, plain.rest, plain.fault_eps)
    assert [fault.column for fault in counts.faults if fault.ungrouped] == ["firm"]


def test_every_source_gives_the_same_counts(tmp_path: Path) -> None:
    rows = table(400, 0.08)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    as_categories = rows.assign(firm=rows["firm"].astype("category"))
    numbered = rows.assign(firm=rows["firm"].str[1:].astype(float))
    given = [rows, as_categories, numbered, str(tmp_path / "rows.csv"), str(tmp_path / "rows.parquet")]
    fits = [dp.ols(FORMULA, one, 1.0, domain=DOMAIN, seed=3) for one in given]
    assert all(fit.counts == fits[0].counts for fit in fits)
    checks = [dp.check(FORMULA, one, DOMAIN, 1.0, seed=3).counts.tolist() for one in given]
    assert all(one == checks[0] for one in checks)


PERSONS = {"check": "counts", "logit": "params", "ols": "params", "evaluate": "metrics"}


def of_persons(call: str, rows: pd.DataFrame) -> Any:
    """What a call for persons releases."""
    seeded: dict[str, Any] = {"unit": "firm", "seed": 4}
    if call == "check":
        return dp.check("y ~ x + z", rows, DOMAIN, 1.0, **seeded)
    if call == "evaluate":
        known = rows[rows["firm"].notna()]
        return dp.evaluate(dp.ols("y ~ x", known, 1.0, domain=DOMAIN, **seeded), rows, 1.0, seed=4)
    if call == "logit":
        return dp.logit(
            "passed ~ x", rows.assign(**{"passed": rows["y"] > 0}), 1.0, domain={**DOMAIN, "passed": bool}, **seeded
        )
    return dp.ols(FORMULA, rows, 1.0, domain=DOMAIN, **seeded)


@pytest.mark.parametrize("call", list(PERSONS))
def test_nothing_of_rows_of_nobody_enters_what_is_released_of_persons(call: str) -> None:
    """One person may own all of them, so that no number of them may move anything."""
    rows = table(400)
    more = pd.concat([rows, table(100).assign(firm=None, x=0.9, y=2.0)], ignore_index=True)
    one, two = (np.asarray(getattr(of_persons(call, data), PERSONS[call])) for data in (rows, more))
    assert one.tolist() == two.tolist()


def test_counting_rows_of_nobody_for_persons_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: k rows without an identifier move the counts by k rows, for noise that hides one person."""
    rows = table(400)
    more = pd.concat([rows, table(100).assign(firm=None)], ignore_index=True)
    monkeypatch.setattr(data_check, "counted_tables", lambda table, names, *_: table.batches(names))
    one, two = (np.asarray(of_persons("check", data).counts) for data in (rows, more))
    assert np.abs(one - two).sum() > 400


def test_a_short_summary_says_in_few_words_that_rows_of_nobody_are_left_out() -> None:
    fit = dp.ols("y ~ x", table(400, 0.08), 8.0, domain=DOMAIN, unit="firm", seed=1)
    short, full = (" ".join(str(fit.summary(full=full)).split()) for full in (False, True))
    few, many = (
        "Rows without a value of firm are left out uncounted.",
        "does not let them be counted. dp.check('y ~ x | firm'",
    )
    assert few in short
    assert many not in short
    assert many in full
    assert any(many in note for note in fit.notes)


def test_persons_are_told_what_counts_rows_of_nobody(tmp_path: Path) -> None:
    """The call that the words name counts them, for rows, and a ledger for persons does not pay for it."""
    rows = table(400, 0.08)
    for words in (of_persons("check", rows).summary(), of_persons("ols", rows).summary()):
        text = " ".join(str(words).split())
        assert "a guarantee for each firm does not let them be counted. dp.check('y ~ x + z | firm', ...)" in text
    domain = {**DOMAIN, "passed": ["no", "yes"]}
    answers = rows.assign(**{"passed": np.where(rows["y"] > 0, "yes", "no")})
    found = dp.check("passed ~ x | firm", answers, domain, 1.0, seed=1)
    assert found.guarantee.unit is None
    assert found.table.set_index("column").loc["firm", "rows"] == pytest.approx(rows["firm"].isna().sum(), abs=12)
    ledger = dp.Ledger(tmp_path / "firms.ledger", dataset="rows", eps=1.0, unit="firm")
    with pytest.raises(LedgerError):
        dp.check(FORMULA, rows, DOMAIN, 0.1, ledger=ledger)
    with pytest.raises(DataError, match="no column 'frm'"):
        dp.check("y ~ x | frm", rows, DOMAIN, 0.1)

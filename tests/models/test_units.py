"""Guarantees for persons through the public calls: what a person adds to every sum, errors, ledgers, results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.call import make_request
from dpstats.data import Block, as_table
from dpstats.errors import ArgumentError, DataError, DomainError, LedgerError
from dpstats.models.release import counted_rows, counted_tables, counted_values
from dpstats.models.sources import FormulaSource
from dpstats.privacy.guarantee import make_unit
from dpstats.privacy.randomness import random_source

DOMAIN = {"y": [0, 1], "x": (-1, 1), "g": ["a", "b", "c"]}
FORMULA = "y ~ x + g"


def data(persons: int, seed: int = 0, most: int = 7) -> pd.DataFrame:
    """Persons with 1 to `most` rows, shuffled; some cells and some identifiers are missing."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(persons), rng.integers(1, most + 1, persons)).astype(float)
    rng.shuffle(ids)
    size = len(ids)
    frame = pd.DataFrame(
        {
            "y": rng.integers(0, 2, size),
            "x": rng.uniform(-1, 1, size),
            "g": rng.choice(["a", "b", "c"], size),
            "z": rng.normal(50, 10, size),
            "who": ids,
        }
    )
    frame.loc[rng.random(size) < 0.1, "x"] = np.nan
    frame.loc[rng.random(size) < 0.05, "who"] = np.nan
    return frame


def fit_rows(frame: pd.DataFrame, **options: Any) -> Block:
    """The rows that a fit would see, in one block."""
    request = make_request(eps=1.0, family="binomial", unit="who", **options)
    source = FormulaSource(FORMULA, as_table(frame), DOMAIN)
    blocks = source.rows(source.plan(request), as_table(frame), random_source(4)).collect()
    parts = zip(*blocks, strict=True)
    return Block(*(None if part[0] is None else np.concatenate(part) for part in parts))


class TestWhatRowsWeigh:
    def test_complete_rows_of_known_persons_share_one(self) -> None:
        frame = data(200)
        complete = frame.dropna()
        block = fit_rows(frame)
        assert len(block.endog) == len(complete)
        expected = 1 / complete.groupby("who")["who"].transform("size").to_numpy()
        assert block.weights == pytest.approx(expected)
        assert np.bincount(block.person, weights=block.weights) == pytest.approx(1.0)  # type: ignore[arg-type]

    def test_the_others_do_not_matter(self) -> None:
        """What a person's rows weigh is the same bit by bit without any other person."""
        frame = data(60)
        whole = fit_rows(frame).weights
        complete = frame.dropna()
        for person in complete["who"].unique()[:10]:
            alone = fit_rows(frame[frame["who"] != person]).weights
            assert np.array_equal(alone, whole[(complete["who"] != person).to_numpy()])  # type: ignore[index]

    @pytest.mark.parametrize("most", [1, 3])
    def test_at_most_so_many_rows(self, most: int) -> None:
        frame = data(200)
        block = fit_rows(frame, max_rows=most)
        sizes = frame.dropna().groupby("who").size()
        assert block.weights is None
        assert sorted(np.bincount(block.person)) == sorted(sizes.clip(upper=most))  # type: ignore[arg-type]

    @pytest.mark.parametrize("most", [1, 2])
    def test_what_is_counted(self, most: int) -> None:
        """Rows, values and tables for all that counts rows: never more of a person than may be."""
        frame, record = data(150), make_unit("who", max_rows=most)
        table = as_table(frame)
        source = FormulaSource(FORMULA, as_table(frame), DOMAIN)
        plan = source.plan(make_request(eps=1.0, family="binomial", unit="who"))
        random = random_source(1)
        rows = counted_rows(plan.design, table, record, random).collect()  # type: ignore[arg-type]
        assert np.bincount(rows[0].person).max() == most  # type: ignore[arg-type]
        values = np.concatenate(counted_values(table, _number, ["x"], record, random).collect())
        known = frame.dropna(subset=["x", "who"])
        assert len(values) == known.groupby("who").size().clip(upper=most).sum()
        assert set(values) <= set(known["x"])
        tables = counted_tables(table, ["x"], record, random).collect()
        everyone = frame.dropna(subset=["who"]).groupby("who").size().clip(upper=most).sum()
        assert sum(part.rows for part in tables) == everyone


def _number(table: Any) -> np.ndarray:
    return table.column("x").numbers()


class TestPlans:
    @pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
    def test_one_person_costs_what_a_row_did(self, adjacency: str) -> None:
        """Logistic regression, equal weights: within the curvature's own choice the same noise."""
        common: dict[str, Any] = {"family": "binomial", "adjacency": adjacency, "inference": None, "curvature": 8.0}
        common["check_share"] = 0
        rows = dp.plan(FORMULA, DOMAIN, 1.0, **common)
        persons = dp.plan(FORMULA, DOMAIN, 1.0, unit="who", **common)
        capped = dp.plan(FORMULA, DOMAIN, 1.0, unit="who", max_rows=4, **common)
        assert persons.noise.scale == pytest.approx(rows.noise.scale, rel=1e-4)
        assert capped.noise.scale == pytest.approx(4 * rows.noise.scale, rel=0.02)
        assert (rows.guarantee.unit, persons.guarantee.unit, capped.guarantee.unit) == (None, "who", "who")
        assert persons.guarantee.basis == "docs/proofs/persons"

    @pytest.mark.parametrize("options", [{}, {"max_rows": 3}], ids=["equal", "three"])
    def test_the_budget_adds_up(self, options: dict[str, Any]) -> None:
        plan = dp.plan("y ~ x + z", {"y": [0, 1], "x": (-1, 1)}, 2.0, family="binomial", unit="who", **options)
        spent = plan.budget["eps"]
        assert spent.drop("total").sum() == pytest.approx(2.0)
        assert spent["total"] == plan.guarantee.eps == 2.0
        robust = dp.plan(FORMULA, DOMAIN, 2.0, family="binomial", unit="who", inference=True, **options)
        assert robust.budget.loc["spread", "buys"] == "variances by persons"
        assert robust.budget["eps"].drop("total").sum() == pytest.approx(2.0)

    def test_the_summary_says_whose(self) -> None:
        text = str(dp.plan(FORMULA, DOMAIN, 1.0, family="binomial", unit="who").summary())
        assert "Unit:" in text
        assert "equal shares" in text
        words = " ".join(text.split())
        assert "1-differentially private for adding or removing one who with all its rows" in words
        capped = dp.plan(FORMULA, DOMAIN, 1.0, family="binomial", unit="who", max_rows=2, adjacency="replace_one")
        assert "At most 2 rows of each who count" in " ".join(str(capped.summary()).split())

    def test_returned_budget_is_that_of_a_person(self) -> None:
        common: dict[str, Any] = {"family": "binomial", "retrieval": "return", "inference": None}
        row = dp.plan(FORMULA, DOMAIN, 1 / 3, **common)
        person = dp.plan(FORMULA, DOMAIN, 1.0, unit="who", max_rows=3, **common)
        assert person.eps == pytest.approx(3 * row.eps)
        assert person.eps < 1


class TestRefusals:
    """All of them before a ledger is charged."""

    CASES: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
        ({"unit": "nobody"}, DataError, "nobody"),
        ({"unit": "when"}, DomainError, "when"),
        ({"unit": "who", "delta": 1e-6}, ArgumentError, "delta must be 0 with a unit"),
        ({"unit": "who", "inference": "model"}, ArgumentError, "treats the rows of one person as independent"),
        ({"unit": "who", "unit_weight": "one"}, ArgumentError, "needs max_rows"),
        ({"unit": "who", "method": "posterior"}, ArgumentError, "proved for rows"),
        ({"max_rows": 2}, ArgumentError, "need unit"),
        ({"unit": "who", "realization": "augmented", "allow_uncertified": True}, ArgumentError, "replicated paper"),
    )

    @pytest.mark.parametrize(("arguments", "error", "words"), CASES, ids=lambda case: str(case)[:40])
    def test_fits(self, arguments: dict[str, Any], error: type[Exception], words: str, tmp_path: Path) -> None:
        frame = data(20).assign(when=pd.Timestamp("2020-01-01"))
        ledger = dp.Ledger(tmp_path / "a.ledger", "data", 5.0, delta=1e-5, unit="who")
        with pytest.raises(error, match=words):
            dp.logit(FORMULA, frame, 1.0, domain=DOMAIN, ledger=ledger, **arguments)
        assert len(ledger.entries()) == 0

    def test_two_columns_of_one_name(self) -> None:
        frame = data(20)
        twice = pd.concat([frame, frame["who"]], axis=1)
        with pytest.raises(DataError, match="more than one column 'who'"):
            dp.logit(FORMULA, twice, 1.0, domain=DOMAIN, unit="who")

    def test_arrays_have_no_columns(self) -> None:
        with pytest.raises(ArgumentError, match="unit is the name of a column"):
            dp.GLM([0, 1], np.array([[0.1], [0.2]]), "binomial", row_norm=1.0).fit(1.0, unit="who")

    def test_ledgers_of_another_unit(self, tmp_path: Path) -> None:
        frame = data(20)
        rows = dp.Ledger(tmp_path / "rows.ledger", "data", 5.0)
        persons = dp.Ledger(tmp_path / "persons.ledger", "data", 5.0, unit="who")
        with pytest.raises(LedgerError, match="for rows"):
            dp.logit(FORMULA, frame, 1.0, domain=DOMAIN, ledger=rows, unit="who")
        with pytest.raises(LedgerError, match="pass unit='who'"):
            dp.logit(FORMULA, frame, 1.0, domain=DOMAIN, ledger=persons)
        with pytest.raises(LedgerError, match="several parts"):
            dp.holdout(frame, 0.3, by="g", ledger=persons)
        assert len(rows.entries()) == len(persons.entries()) == 0

    def test_a_part_of_a_ledger_for_rows(self, tmp_path: Path) -> None:
        part = dp.Ledger(tmp_path / "a.ledger", "data", 5.0).partition("g", ["a", "b"])["a"]
        with pytest.raises(LedgerError, match="for rows"):
            dp.logit("y ~ x", data(20), 1.0, domain=DOMAIN, ledger=part, unit="who")


class TestCalls:
    @pytest.mark.parametrize("options", [{}, {"max_rows": 2}], ids=["equal", "two"])
    def test_everything_in_one_ledger(self, options: dict[str, Any], tmp_path: Path) -> None:
        frame = data(3000)
        ledger = dp.Ledger(tmp_path / "a.ledger", "data", 20.0, unit="who")
        ranges = dp.buy_ranges(frame, ["z"], 1.0, ledger=ledger, unit="who", max_rows=options.get("max_rows"))
        assert ranges.guarantee.unit == "who"
        low, high = ranges.domain["z"].low, ranges.domain["z"].high  # type: ignore[union-attr]
        assert low < 50 < high
        split = dp.holdout(frame, 0.3, ledger=ledger)
        assert split.by == ("who",)
        fit = dp.logit(FORMULA, split.train, 3.0, domain=DOMAIN, ledger=split.train_ledger, unit="who", **options)
        assert fit.guarantee.certified
        assert fit.guarantee.unit == "who"
        found = dp.evaluate(fit, split.test, 1.0, ledger=split.test_ledger, unit="who")
        assert "adding or removing one who with all its rows" in " ".join(str(found).split())
        # About a test row for each of the persons set aside who have a complete row.
        people = split.test.column("who").numbers()
        assert found.rows < len(np.unique(people[np.isfinite(people)])) * 1.2
        checked = dp.check(FORMULA, frame, DOMAIN, 0.5, family="binomial", ledger=ledger, unit="who")
        assert checked.rows < 3000 * 1.1
        many = dp.plan_many({"one": {"formula": "y ~ x + z", "family": "binomial"}}, DOMAIN, 3.0, unit="who", **options)
        assert many.fit(frame, ledger=ledger)["one"].guarantee.unit == "who"
        assert ledger.entries()["unit"].unique().tolist() == ["who"]
        # Training and test rows are of different persons: the dearer side counts.
        assert ledger.remaining.eps == pytest.approx(20 - 1.0 - 3.0 - 0.5 - 3.0)

    def test_the_number_of_rows_stays_private(self) -> None:
        frame = data(100)
        common: dict[str, Any] = {"domain": DOMAIN, "adjacency": "replace_one"}
        assert dp.logit(FORMULA, frame, 1.0, **common).nobs == len(frame)
        assert dp.logit(FORMULA, frame, 1.0, unit="who", **common).nobs is None
        checked = dp.check(FORMULA, frame, DOMAIN, 0.5, family="binomial", adjacency="replace_one", unit="who")
        assert checked.nobs is None

    def test_the_title_says_which_persons_have_a_noisy_number(self) -> None:
        """That of all persons is public under replace_one, that of persons with a complete row is not."""
        for adjacency, named, header in (
            ("replace_one", "persons with a complete row: about ", "Persons Used:"),
            ("add_remove", "persons: about ", "No. Persons:"),
        ):
            fit = dp.logit(FORMULA, data(400), 4.0, domain=DOMAIN, unit="who", adjacency=adjacency, seed=1)
            assert named in str(fit.summary())
            assert header in fit.summary(full=True).as_text()

    @pytest.mark.parametrize(
        "arguments",
        [
            {"inference": True},
            {"inference": True, "max_rows": 2},
            {"penalty": "lasso", "alpha": 1.0, "refit_share": 0.4, "split": "rows", "inference": True},
            {"screen": 1, "split": "rows"},
            {"stages": 2},
            {"method": "output"},
        ],
        ids=str,
    )
    def test_releases_can_be_kept(self, arguments: dict[str, Any], tmp_path: Path) -> None:
        fit = dp.logit(FORMULA, data(400), 4.0, domain=DOMAIN, unit="who", **arguments)
        assert fit.guarantee.basis == "docs/proofs/persons"
        fit.save(tmp_path / "fit.json")
        again = dp.GLMResults.load(tmp_path / "fit.json")
        assert again.guarantee == fit.guarantee
        assert again.plan.digest() == fit.plan.digest()
        assert str(again.summary()) == str(fit.summary())
        if fit.released is not None:
            assert fit.plan.stages[-1].plan.information.purchase.spread == "clustered"  # type: ignore[union-attr]

    def test_counts_and_numbers(self) -> None:
        frame = data(2000).assign(n=lambda rows: np.random.default_rng(1).poisson(2, len(rows)))
        domain = {"n": (0, 20), "x": (-1, 1), "z": (0, 100)}
        counts = dp.poisson("n ~ x", frame, 2.0, domain=domain, unit="who", seed=1)
        assert counts.plan.response is not None
        assert counts.plan.response.mean == pytest.approx(2.0, abs=0.5)
        numbers = dp.ols("z ~ x", frame, 2.0, domain=domain, unit="who", response="bought", seed=2)
        assert numbers.params["Intercept"] == pytest.approx(50, abs=5)

    def test_nobody_at_all(self) -> None:
        """Rows without identifiers are left out, quietly: what is released is noise about zero."""
        frame = data(50).assign(who=np.nan)
        fit = dp.logit(FORMULA, frame, 1.0, domain=DOMAIN, unit="who", inference=True)
        assert np.isfinite(fit.params).all()
        with pytest.raises(dp.errors.NotReleasedError, match="inference='model' buys it in fits without unit="):
            _ = fit.scale

    def test_identifiers_of_text(self) -> None:
        frame = data(300, seed=3)
        named = frame.assign(who=frame["who"].map(lambda person: None if np.isnan(person) else f"P{person:.0f}"))
        fits = [dp.logit(FORMULA, rows, 1.0, domain=DOMAIN, unit="who", seed=5) for rows in (frame, named)]
        assert fits[0].params.to_numpy() == pytest.approx(fits[1].params.to_numpy(), abs=1e-9)


class TestFiles:
    @pytest.mark.parametrize("suffix", ["parquet", "csv"])
    def test_the_same_release_as_from_memory(self, suffix: str, tmp_path: Path) -> None:
        """In several row groups, so that persons are spread over batches; equal to what certificates allow."""
        frame = data(400, seed=8)
        path = tmp_path / f"rows.{suffix}"
        if suffix == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path, row_group_size=100)
        common: dict[str, Any] = {"domain": DOMAIN, "unit": "who", "inference": True, "seed": 3}
        one, other = (dp.logit(FORMULA, rows, 2.0, **common) for rows in (frame, str(path)))
        assert other.params.to_numpy() == pytest.approx(one.params.to_numpy(), abs=1e-9)
        assert other.bse.to_numpy() == pytest.approx(one.bse.to_numpy(), rel=1e-6, nan_ok=True)

    def test_an_evaluation_protects_whom_the_fit_protects(self, tmp_path: Path) -> None:
        """It protected single rows without a word, with sampling errors as if a person's rows were independent."""
        frame = data(500, seed=8)
        fit = dp.logit(FORMULA, frame, 2.0, domain=DOMAIN, unit="who")
        persons = frame.dropna()["who"].nunique()
        found = dp.evaluate(fit, frame, 20.0)
        assert found.guarantee.unit == "who"
        assert found.rows == pytest.approx(persons, abs=5)
        assert "The guarantee is per who, as that of the model" in str(found)
        named = dp.evaluate(fit, frame.rename(columns={"who": "person"}), 20.0, unit="person")
        assert named.guarantee.unit == "person"
        assert named.rows == pytest.approx(persons, abs=5)
        assert "as that of the model" not in str(named)
        rows = dp.evaluate(fit, frame, 20.0, unit=False)
        assert rows.guarantee.unit is None
        assert rows.rows == pytest.approx(len(frame.dropna(subset=["y", "x", "z", "g"])), abs=5)
        plain = dp.logit(FORMULA, frame, 2.0, domain=DOMAIN)
        assert dp.evaluate(plain, frame, 20.0).guarantee.unit is None
        ledger = dp.Ledger(tmp_path / "a.ledger", "data", 2.0, unit="who")
        with pytest.raises(ArgumentError, match=r"the fit protects persons by 'who', and .* or pass unit=False"):
            dp.evaluate(fit, frame.drop(columns="who"), 1.0, ledger=ledger)
        assert ledger.remaining.eps == 2.0
        assert dp.evaluate(fit, frame, 1.0, ledger=ledger).guarantee.unit == "who"

    def test_an_evaluation_is_charged_to_those_whom_it_protects(self, tmp_path: Path) -> None:
        frame = data(500, seed=8)
        fit = dp.logit(FORMULA, frame, 2.0, domain=DOMAIN, unit="who")
        ledgers = {unit: dp.Ledger(tmp_path / f"{unit}.ledger", "data", 2.0, unit=unit) for unit in ("who", None)}
        with pytest.raises(LedgerError, match="it is for rows, and the ledger is per who"):
            dp.evaluate(fit, frame, 0.5, ledger=ledgers["who"], unit=False)
        with pytest.raises(LedgerError, match="it is per who, and the ledger is for rows"):
            dp.evaluate(fit, frame, 0.5, ledger=ledgers[None])
        assert [ledger.remaining.eps for ledger in ledgers.values()] == [2.0, 2.0]
        persons = dp.evaluate(fit, frame, 0.5, ledger=ledgers["who"])
        rows = dp.evaluate(fit, frame, 0.5, ledger=ledgers[None], unit=False)
        for unit, ledger in ledgers.items():
            assert ledger.remaining.eps == 1.5
            (entry,) = ledger.entries()[["eps", "unit"]].to_dict("records")
            assert entry == {"eps": 0.5, "unit": unit}
        words = [" ".join(str(found).split()) for found in (persons, rows)]
        assert "0.5-differentially private for adding or removing one who with all its rows, by" in words[0]
        assert "0.5-differentially private for adding or removing one row, by" in words[1]
        assert "who" not in words[1]
        again = dp.Evaluation.from_dict(persons.to_dict())
        assert (again.guarantee, again.notes) == (persons.guarantee, persons.notes)

    def test_draws_and_counts(self, tmp_path: Path) -> None:
        frame = data(500, seed=8)
        path = tmp_path / "rows.parquet"
        frame.to_parquet(path, row_group_size=100)
        fit = dp.logit(FORMULA, str(path), 2.0, domain=DOMAIN, unit="who", max_rows=2, inference=True)
        assert fit.guarantee.unit == "who"
        found = dp.evaluate(fit, str(path), 20.0, unit="who")
        assert found.rows == pytest.approx(frame.dropna()["who"].nunique(), abs=5)
        checked = dp.check(FORMULA, str(path), DOMAIN, 20.0, family="binomial", unit="who")
        assert checked.rows == pytest.approx(frame["who"].nunique(), abs=5)


def test_a_third_slope_leaves_the_errors_of_another_as_they_were() -> None:
    """All variances had the noise of the rarest one: with two slopes the error was 1.5 times that with three."""
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(3000), rng.integers(2, 7, 3000))
    female, hours = (rng.random(3000) < 0.97)[who].astype(int), rng.normal(44, 22, 3000)[who].clip(0, 80)
    educ = rng.normal(12, 2.5, 3000)[who].clip(0, 20)
    cured = rng.random(len(who)) < 1 / (1 + np.exp((44 - hours) / 50))
    frame = pd.DataFrame({"y": cured.astype(int), "female": female, "hours": hours, "educ": educ, "who": who})
    domain = {"y": [0, 1], "female": (0, 1), "hours": (0, 80), "educ": (0, 20)}
    errors = {}
    for formula in ("y ~ hours", "y ~ female + hours", "y ~ female + hours + educ"):
        fit = dp.logit(formula, frame, 2.0, domain=domain, unit="who", inference=True, seed=3)
        errors[formula] = fit.bse["hours"]
    alone, two, three = errors.values()
    assert two < 1.5 * alone
    assert two < 1.1 * three

"""Plans, fits and evaluations from the shell: what is printed, what is charged, and how it ends."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats import writing
from dpstats.cli import main
from dpstats.cli.shared import read_domain
from dpstats.errors import DomainError

ROWS, USED = 3173, 3172
"""Rows, and those without a level that is not declared."""

CELL, NUMBER = "canary-cell", 7316549.0
"""Cells that no correct release can reproduce."""

COUNT = re.compile(rf"(?<![\w.-])({ROWS}|{USED})(?![\w.])|{CELL}|{NUMBER:.0f}|7\.316549|7\.317e")
"""What must not be seen anywhere: the number of rows, and cells."""

YAML = """
age: {range: [17, 90]}
sex: [F, M]
income: {levels: [low, high]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, never_drawn: Callable[[list[int]], None]) -> Path:
    """Rows as CSV and Parquet, a Domain, and a ledger that keeps it."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.uniform(17, 90, ROWS).round(), "sex": rng.choice(["F", "M"], ROWS)})
    rows["income"] = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-(rows["age"] - 50) / 20)), "high", "low")
    rows.loc[5, "sex"], rows.loc[6, "age"] = CELL, NUMBER
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "adult.yaml").write_text(YAML)
    monkeypatch.chdir(tmp_path)
    never_drawn([ROWS, USED])
    assert main(["ledger", "init", "adult.ledger", "--dataset", "adult", "--eps", "3", "--domain", "adult.yaml"]) == 0
    return tmp_path


FIT = ["fit", "income ~ age + C(sex)"]
LOGIT = ["--family", "binomial", "--eps", "1"]


def spent() -> float:
    with dp.Ledger.open("adult.ledger") as ledger:
        return ledger.total.eps - ledger.remaining.eps


def test_plans_have_the_columns_of_the_ledger(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One of another column was printed, and the fit refused it."""
    assert main(["plan", "income ~ age + height", "--ledger", "adult.ledger", *LOGIT]) == 4
    assert "column 'height' is not in the Domain of ledger" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("file", ["rows.csv", "rows.parquet"])
def test_plan_fit_and_evaluation_for_a_team(folder: Path, file: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "income ~ age + C(sex)", "--ledger", "adult.ledger", *LOGIT]) == 0
    assert spent() == 0
    signed = ["--ledger", "adult.ledger", "--analyst", "Ada", "--purpose", "thesis", "--label", "main model"]
    assert main([*FIT, file, *LOGIT, *signed, "--output", "fit.json"]) == 0
    assert main(["evaluate", "fit.json", file, "--eps", "0.5", *signed[:4], "--output", "score.json"]) == 0
    with dp.Ledger.open("adult.ledger") as ledger:
        entries = ledger.entries()
    assert entries["eps"].tolist() == [0.03, 0.97, 0.5]
    assert entries["label"].tolist()[0] == "main model"
    assert entries["analyst"].tolist() == ["Ada"] * 3
    assert entries["state"].tolist() == ["read"] * 3
    assert dp.GLMResults.load("fit.json").params.index.tolist() == ["Intercept", "C(sex)[T.M]", "age"]
    assert main(["ledger", "show", "adult.ledger", "--json"]) == 0
    assert main(["ledger", "html", "adult.ledger"]) == 0
    shown = capfd.readouterr()
    for text in (shown.out, shown.err, Path("fit.json").read_text(), Path("score.json").read_text()):
        assert not COUNT.search(text)


def printed(capfd: pytest.CaptureFixture[str], arguments: list[str]) -> dict[str, Any]:
    capfd.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def test_json_is_whole_and_standard(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    domain = ["--domain", "adult.yaml"]
    plan = printed(capfd, ["plan", "income ~ age", *domain, *LOGIT])
    fit = printed(capfd, ["fit", "income ~ age", "rows.csv", *domain, *LOGIT, "--output", "fit.json"])
    assert plan["guarantee"] == fit["guarantee"]
    assert plan["guarantee"]["certified"] is True
    assert [row["purchase"] for row in plan["budget"]][-1] == "total"
    saved = dp.GLMResults.load("fit.json")
    assert [row["released"] for row in fit["coefficients"]] == saved.params.tolist()
    assert {"term", "std_error", "conf_low", "conf_high"} <= set(fit["coefficients"][0])
    found = printed(capfd, ["evaluate", "fit.json", "rows.csv", "--eps", "0.5"])
    assert {"metric", "estimate", "std_err"} <= set(found["metrics"][0])
    assert found["rows"] == pytest.approx(ROWS, abs=200)
    assert 0 < found["rows_left_out_se"] < 3
    foreseen = printed(capfd, ["plan", "income ~ age", *domain, *LOGIT, "--rows", "20000"])
    assert foreseen["assumption"].startswith("This assumes that")
    with pytest.raises(SystemExit):
        main(["evaluate", "fit.json", "fit.json", "rows.csv", "--eps", "0.5"])
    assert "run it once for each model" in " ".join(capfd.readouterr().err.split())


def test_json_of_a_fit_tells_what_its_summary_tells(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The notes, such as on a code for missing in a column, the figures of the fit, and what was counted."""
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 80, 8000).round()
    y = np.clip(10 + 0.1 * x + rng.normal(0, 3, x.size), 0, 40)
    x[:200] = 999
    pd.DataFrame({"x": x, "y": y, "person": np.arange(x.size) // 2}).to_csv("codes.csv", index=False)
    Path("codes.yaml").write_text("x: {range: [0, 100]}\ny: {range: [0, 40]}\n")
    words = ["fit", "y ~ x", "codes.csv", "--domain", "codes.yaml", "--eps", "4", "--set", "seed=1"]
    fit = printed(capfd, [*words, "--output", "fit.json"])
    saved = dp.GLMResults.load("fit.json")
    assert "such as -9, 999 or 9999" in " ".join(fit["notes"])
    summary = " ".join(str(saved.summary(full=True)).split())
    assert all(note.split(" --")[0][:60] in summary for note in fit["notes"])
    assert (fit["rows"], fit["rows_se"]) == (saved.glance()["nobs"][0], saved.glance()["nobs_std_error"][0])
    assert {row["figure"]: row["value"] for row in fit["fitstats"]} == saved.fitstats["value"].to_dict()
    shown = printed(capfd, ["show", "fit.json"])
    assert shown == fit
    persons = printed(capfd, [*words, "--unit", "person"])
    assert (persons["rows"], persons["rows_se"]) == (None, None)
    assert persons["persons"] == pytest.approx(4000, abs=6 * persons["persons_se"])
    assert printed(capfd, [*words, "--inference", "no"])["fitstats"] == []


def test_json_has_the_ranges_that_were_used(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Columns of which no narrower range was found were listed as bought, and none had its ends."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"age": rng.uniform(18, 80, 40_000), "bmi": rng.normal(26, 4, 40_000).clip(12, 60)})
    rows["y"] = (rows["age"] / 10 + rows["bmi"] / 5 + rng.normal(0, 1, 40_000)).clip(0, 40)
    rows["income"] = rng.exponential(900, 40_000)
    rows.to_csv("ranges.csv", index=False)
    Path("ranges.yaml").write_text("age: {range: [18, 80]}\nbmi: {range: [0, 400]}\ny: {range: [0, 40]}\n")
    given = ["--domain", "ranges.yaml", "--eps", "4", "--set", "seed=1"]
    plan = printed(capfd, ["plan", "y ~ age + bmi", *given])
    assert (plan["ranges_to_buy"], plan["ranges_to_narrow"]) == ([], ["age", "bmi"])
    fit = printed(capfd, ["fit", "y ~ age + bmi", "ranges.csv", *given, "--output", "fit.json"])
    narrower = dp.GLMResults.load("fit.json").plan.design.domain["bmi"].inner
    assert fit["narrowed_ranges"] == {"bmi": list(narrower)}
    assert (fit["bought_ranges"], fit["no_narrower_range"]) == ({}, ["age"])
    assert printed(capfd, ["show", "fit.json"]) == fit
    assert not any("noise_sd" in facts for facts in (plan, fit))
    opened = printed(capfd, ["fit", "y ~ age + income", "ranges.csv", *given, "--method", "napp"])
    low, high = opened["bought_ranges"]["income"]
    assert (low, opened["narrowed_ranges"], opened["no_narrower_range"]) == (0, {}, [])
    assert 2000 < high < 20_000


def test_a_file_that_holds_no_fit_is_named_by_what_it_holds(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = {"x": np.linspace(0, 1, 500), "y": np.linspace(0, 1, 500)}
    fit = dp.ols("y ~ x", rows, 1.0, domain={"x": (0, 1), "y": (0, 1)}, seed=1)
    fit.save("fit.json")
    dp.evaluate(fit, rows, 1.0, seed=1).save("score.json")
    dp.check("y ~ x", rows, {"x": (0, 1), "y": (0, 1)}, 1.0, seed=1).save("check.json")
    (kept := Path("printed.json")).write_text(json.dumps(fit.tidy().to_dict()))  # as of a --json that was redirected
    capfd.readouterr()
    for arguments, words in (
        *(
            ([*command, *more], f"{what}: {kept} is not a file written by --output. The output of --json is for other")
            for command, what, more in (
                (["show", str(kept)], "file", []),
                (["predict", str(kept), "rows.csv"], "fit", []),
                (["evaluate", str(kept), "rows.csv"], "fit", ["--eps", "1"]),
            )
        ),
        (
            ["predict", "score.json", "rows.csv"],
            "fit: score.json holds an evaluation, not a fit; pass a file written by",
        ),
        (["evaluate", "check.json", "rows.csv", "--eps", "1"], "fit: check.json holds a check, not a fit"),
        (
            ["evaluate", "fit.json", "rows.csv", "--eps", "1", "--against", "score.json"],
            "--against: score.json holds an",
        ),
        (["predict", "none.json", "rows.csv"], "fit: there is no file 'none.json'"),
        (["plan", "y ~ x", "--eps", "1", "--domain", "none.yaml"], "--domain: there is no file 'none.yaml'"),
    ):
        assert main(arguments) == 1
        assert words in capfd.readouterr().err


def test_predictions_are_those_of_the_saved_fit(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With intervals where there are errors; what a call of Python warns of is a note."""
    Path("new.csv").write_text("age,sex\n30,M\n95,M\n30,Unknown\n")
    words = ["fit", "income ~ age + sex", "rows.csv", "--domain", "adult.yaml", *LOGIT]
    for inference in ("yes", "no"):
        assert main([*words, "--inference", inference, "--output", f"{inference}.json"]) == 0
        capfd.readouterr()
        assert main(["predict", f"{inference}.json", "new.csv", "--output", f"{inference}.csv"]) == 0
        notes = capfd.readouterr().err
        assert notes.count("note: newdata") == 2
        assert "95" not in notes
    fit, bare = (dp.GLMResults.load(f"{name}.json") for name in ("yes", "no"))
    rows = pd.DataFrame({"age": [30], "sex": ["M"]})
    written = pd.read_csv("yes.csv").iloc[0]
    assert written.to_numpy() == pytest.approx(fit.get_prediction(rows).summary_frame().iloc[0].to_numpy())
    written = pd.read_csv("no.csv")["predicted"]
    assert written[0] == pytest.approx(bare.predict(rows).iloc[0])
    assert np.isnan(written[2])


@pytest.mark.parametrize("file", ["new.csv", "new.parquet"])
def test_predictions_stand_beside_an_identifier_and_those_missing_are_counted(
    folder: Path, file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A line of a CSV file that is no row comes last there, so whoever joins predictions by position would be wrong."""
    words = ["fit", "income ~ age + sex", "rows.csv", "--domain", "adult.yaml", *LOGIT, "--inference", "no"]
    assert main([*words, "--output", "fit.json"]) == 0
    rows = pd.DataFrame({"person": ["007", "8", "9", "10"], "age": [30, None, 40, 50], "sex": ["M", "M", "X", "M"]})
    rows.to_parquet("new.parquet")
    Path("new.csv").write_text(rows.to_csv(index=False).replace("\n10,", "\n\n10,"))
    capfd.readouterr()
    assert main(["predict", "fit.json", file, "--id", "person", "--output", "out.csv"]) == 0
    found = pd.read_csv("out.csv", dtype={"person": str}).set_index("person")["predicted"]
    assert found.dropna().index.tolist() == ["007", "10"]
    missing = 2 + (file == "new.csv")
    assert f"in all, {missing} of {2 + missing} rows have no prediction" in capfd.readouterr().err
    assert main(["predict", "fit.json", file, "--id", "name"]) == 1
    assert "--id: new" in (told := capfd.readouterr().err)
    assert "has no column 'name'; its columns are person, age, sex" in told


def test_predictions_are_a_csv_file_by_their_name(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Text was written into a file .parquet. Such a name is refused before the fit and the rows are read."""
    for name in ("out.parquet", "my out.xlsx"):
        assert main(["predict", "none.json", "none.csv", "--output", name]) == 1
        told = capfd.readouterr().err
        assert f"--output: {name} would be a CSV file; pass --output " in told
        assert not Path(name).exists()
    assert told.strip().endswith("--output 'my out.csv'")
    words = ["fit", "income ~ age + sex", "rows.csv", "--domain", "adult.yaml", *LOGIT, "--inference", "no"]
    assert main([*words, "--output", "fit.json"]) == 0
    for name in ("out.csv", "OUT.CSV", "out"):
        Path(name).unlink(missing_ok=True)
        assert main(["predict", "fit.json", "rows.csv", "--output", name]) == 0
        assert pd.read_csv(name).columns.tolist() == ["predicted"]
    with pytest.raises(SystemExit):
        main(["predict", "--help"])
    assert "a new CSV file, .csv" in " ".join(capfd.readouterr().out.split())


def test_predictions_of_many_rows_are_written_batch_by_batch(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One header, the rows in their order, and each warning once; intervals can be left out."""
    words = ["fit", "income ~ age + sex", "rows.csv", "--domain", "adult.yaml", *LOGIT, "--inference", "yes"]
    assert main([*words, "--output", "fit.json"]) == 0
    count = 2**16 + 1000
    rows = pd.DataFrame({"person": range(count), "age": 17.0 + np.arange(count) % 90, "sex": "M"})
    rows.to_csv("many.csv", index=False)
    capfd.readouterr()
    asked = ["predict", "fit.json", "many.csv", "--id", "person", "--output"]
    assert main([*asked, "short.csv", "--no-intervals"]) == 0
    told = capfd.readouterr().err
    assert told.count("note:") == 1
    assert f"of {count:,} rows have 'age' outside" in told
    written, fit = pd.read_csv("short.csv"), dp.GLMResults.load("fit.json")
    assert written.columns.tolist() == ["person", "predicted"]
    assert written["person"].tolist() == list(range(count))
    with pytest.warns(UserWarning, match="outside"):
        assert written["predicted"].to_numpy() == pytest.approx(fit.predict(rows).to_numpy())
    rows.iloc[-1500:].to_parquet("few.parquet", row_group_size=700)
    assert main(["predict", "fit.json", "few.parquet", "--output", "whole.csv"]) == 0
    with pytest.warns(UserWarning, match="outside"):
        expected = fit.get_prediction(rows.iloc[-1500:]).summary_frame()
    assert pd.read_csv("whole.csv").to_numpy() == pytest.approx(expected.to_numpy())


def test_a_single_number_is_not_enough_for_a_column_of_numbers(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "income ~ age", "--domain", "adult.yaml", *LOGIT, "--rows", "900", "--typical", "age=40"]) == 1
    assert (
        "--typical: 'age' is numeric; give its mean and standard deviation, as in --typical 'age=[40, SD]'; got 40"
        in " ".join(capfd.readouterr().err.split())
    )


def test_an_evaluation_protects_whom_the_fit_protects(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By default, and rows with --no-unit; either is charged to a ledger that is for the same.

    Numbers of rows have a standard deviation of 4, and are off by 20 in fewer than one of a million runs.
    """
    rows = pd.read_csv("rows.csv")
    rows.assign(who=np.arange(ROWS) // 4).to_csv("rows.csv", index=False)
    for unit in ([], ["--unit", "who"]):
        name = f"{'who' if unit else 'rows'}.ledger"
        assert main(["ledger", "init", name, "--dataset", "adult", "--eps", "9", "--domain", "adult.yaml", *unit]) == 0
    paid = ["rows.csv", *LOGIT, "--ledger", "who.ledger", "--unit", "who", "--output", "fit.json"]
    assert main(["fit", "income ~ age", *paid]) == 0
    evaluate = ["evaluate", "fit.json", "rows.csv", "--eps", "4"]
    persons = printed(capfd, [*evaluate, "--ledger", "who.ledger", "--output", "persons.json"])
    single = printed(capfd, [*evaluate, "--no-unit", "--ledger", "rows.ledger", "--output", "single.json"])
    assert [found["guarantee"]["unit"] for found in (persons, single)] == ["who", None]
    assert dp.Evaluation.load("persons.json").rows == pytest.approx(ROWS / 4, abs=20)
    assert dp.Evaluation.load("single.json").rows == pytest.approx(ROWS, abs=20)
    assert any("per who, as that of the model" in note for note in persons["notes"])
    assert not any("who" in note for note in single["notes"])
    for name, unit in (("who", "who"), ("rows", None)):
        with dp.Ledger.open(f"{name}.ledger") as ledger:
            entry = ledger.entries().iloc[-1]
        assert (entry["eps"], entry["unit"], entry["method"]) == (4.0, unit, "evaluate")
    assert main([*evaluate, "--no-unit", "--ledger", "who.ledger"]) == 4  # of the ledger
    pd.read_csv("rows.csv").drop(columns="who").to_csv("nobody.csv", index=False)
    assert main(["evaluate", "fit.json", "nobody.csv", "--eps", "1", "--ledger", "who.ledger"]) == 1
    assert "pass --no-unit for a guarantee for single rows" in " ".join(capfd.readouterr().err.split())
    with dp.Ledger.open("who.ledger") as ledger:
        assert ledger.remaining.eps == 9.0 - 1.0 - 4.0
    with pytest.raises(SystemExit):
        main([*evaluate, "--no-unit", "--unit", "who"])


def test_replace_one_shows_no_count_either(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The guarantee takes it to be public, and a log file need not tell it."""
    arguments = ["fit", "income ~ age", "rows.csv", "--domain", "adult.yaml", *LOGIT, "--adjacency", "replace_one"]
    for more in ([], ["--check-share", "0.1"]):
        assert main([*arguments, *more, "--output", f"fit{len(more)}.json"]) == 0
        shown = capfd.readouterr()
        assert "private" in shown.out
        for text in (shown.out, shown.err, Path(f"fit{len(more)}.json").read_text()):
            assert not COUNT.search(text.replace(",", ""))


def test_columns_at_fault_are_noted_where_the_count_is_left_out(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    domain = ["--domain", "narrow.yaml", "--check-share", "0.1", "--on-mismatch", "go"]
    Path("narrow.yaml").write_text(Path("adult.yaml").read_text().replace("17", "30"))
    assert main(["fit", "income ~ age", "rows.csv", *domain, *LOGIT, "--adjacency", "replace_one"]) == 0
    assert "rows (s.d." in capfd.readouterr().err


ENDS: list[tuple[list[str], int, str]] = [
    ([*FIT, "rows.csv", "--eps", "4", "--family", "binomial"], 3, "exceeds what remains of 'adult'"),
    (["fit", "income ~ wage", "rows.csv", *LOGIT], 1, "'wage'"),
    (["fit", "income ~", "rows.csv", *LOGIT], 1, "formula"),
    ([*FIT, "none.csv", *LOGIT], 1, "none.csv"),
    ([*FIT, "rows.csv", "--eps", "-1"], 1, "eps"),
    ([*FIT, "rows.csv", *LOGIT, "--set", "screen"], 1, "NAME=VALUE"),
    ([*FIT, "rows.csv", *LOGIT, "--set", "eps=3"], 1, "--eps"),
    ([*FIT, "rows.csv", *LOGIT, "--set", "scren=3"], 1, "screen"),
    ([*FIT, "rows.csv", *LOGIT, "--domain", "none.yaml"], 1, "there is no file 'none.yaml'"),
    ([*FIT, "rows.csv", *LOGIT, "--output", "rows.csv"], 1, "choose a new file"),
    ([*FIT, "rows.csv", *LOGIT, "--output", "nowhere/fit.json"], 1, "cannot be written"),
    ([*FIT, "rows.csv", *LOGIT, "--set", "realization=augmented"], 5, "not certified"),
    (["evaluate", "rows.csv", "rows.csv", "--eps", "1"], 1, "fit: rows.csv does not hold released values"),
]


@pytest.mark.parametrize(("arguments", "status", "words"), ENDS, ids=[" ".join(case[0][2:]) for case in ENDS])
def test_how_commands_end(
    folder: Path, arguments: list[str], status: int, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """An error names its cause, spends nothing and leaves no file."""
    files = sorted(folder.iterdir())
    assert main([*arguments, "--ledger", "adult.ledger"]) == status
    shown = capfd.readouterr()
    assert words in shown.err
    assert shown.err.startswith("error: ")
    assert spent() == 0
    assert sorted(path for path in folder.iterdir() if ".ledger" not in path.name) == [
        path for path in files if ".ledger" not in path.name
    ]


def test_a_missing_or_foreign_ledger_ends_with_4(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for ledger in ("none.ledger", "rows.csv"):
        assert main([*FIT, "rows.csv", *LOGIT, "--ledger", ledger, "--output", "fit.json"]) == 4
    assert not Path("fit.json").exists()
    (folder / "other.yaml").write_text(YAML.replace("90", "99"))
    assert main([*FIT, "rows.csv", *LOGIT, "--ledger", "adult.ledger", "--domain", "other.yaml"]) == 4
    assert "leave out --domain" in capfd.readouterr().err


def test_a_wrong_domain_of_a_ledger_is_corrected(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.yaml").write_text(YAML.replace("[F, M]", "[f, m]"))
    assert main(["ledger", "init", "s.ledger", "--dataset", "s", "--eps", "3", "--domain", "bad.yaml"]) == 0
    fit = [*FIT, "rows.csv", *LOGIT, "--ledger", "s.ledger"]
    capfd.readouterr()
    assert main(fit) == 6
    assert "correct the Domain (dpstats ledger domain LEDGER --domain FILE), or pass" in capfd.readouterr().err
    capfd.readouterr()
    assert main(["ledger", "domain", "s.ledger", "--domain", "adult.yaml"]) == 0
    (line,) = capfd.readouterr().out.splitlines()
    assert line.startswith("Domain corrected; sex: {'levels': ['f', 'm']} before, {'levels': ['F', 'M']} from now on.")
    assert main(["ledger", "domain", "s.ledger", "--domain", "adult.yaml"]) == 0
    assert capfd.readouterr().out == "The ledger has this Domain already. What was spent stays spent.\n"
    assert main(fit) == 0
    with dp.Ledger.open("s.ledger") as ledger:
        assert ledger.remaining.eps == pytest.approx(1.97)


def test_the_whole_summary(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert main([*FIT, "rows.csv", *LOGIT, "--domain", "adult.yaml"]) == 0
    assert "show FILE --full, if --output keeps one" in " ".join(capfd.readouterr().out.split())
    assert main([*FIT, "rows.csv", *LOGIT, "--domain", "adult.yaml", "--output", "kept.json"]) == 0
    assert "show kept.json --full." in " ".join(capfd.readouterr().out.split())
    assert main([*FIT, "rows.csv", *LOGIT, "--domain", "adult.yaml", "--full"]) == 0
    assert "Noise in the objective" in capfd.readouterr().out


def test_errors_quote_no_cell(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A column of text that is declared as numbers, and one that is not declared."""
    (folder / "numbers.yaml").write_text("age: {range: [17, 90]}\nsex: {range: [0, 1]}\nincome: [low, high]\n")
    for domain in ("numbers.yaml", "adult.yaml"):
        main(["fit", "income ~ sex + missing", "rows.parquet", *LOGIT, "--domain", domain])
        main(["fit", "income ~ sex", "rows.parquet", *LOGIT, "--domain", domain])
    shown = capfd.readouterr()
    assert not COUNT.search(shown.out + shown.err)


def test_without_a_ledger_a_word_of_warning(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "rows.csv", *LOGIT, "--domain", "adult.yaml"]) == 0
    assert "without --ledger the budget spent on these data is not recorded" in capfd.readouterr().err
    assert main([*FIT, "rows.csv", *LOGIT, "--domain", "adult.yaml", "--analyst", "Ada"]) == 1
    assert "name the ledger with --ledger" in capfd.readouterr().err


def test_other_options_reach_the_model(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plain = ["plan", "income ~ age + C(sex)", "--domain", "adult.yaml", *LOGIT]
    assert printed(capfd, plain)["budget"] != printed(capfd, [*plain, "--set", "curvature=9.5"])["budget"]
    assert "information" in [row["purchase"] for row in printed(capfd, plain)["budget"]]
    assert main(["fit", "income ~ sex", "rows.csv", *LOGIT, "--domain", "adult.yaml", "--subset", "age >= 40"]) == 0
    without = printed(capfd, [*plain, "--inference", "no"])["budget"]
    assert "information" not in [row["purchase"] for row in without]


def test_true_and_false_are_written_as_elsewhere(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In YAML, JSON or Python; what is none of the words is refused with all of them."""
    plain = ["plan", "income ~ age + C(sex)", "--domain", "adult.yaml", *LOGIT]
    for word, meant in {"true": "yes", "True": "yes", "AUTO": "auto", "false": "no", "None": "no"}.items():
        found, same = (printed(capfd, [*plain, "--inference", one]) for one in (word, meant))
        assert found == same, word
    assert printed(capfd, [*plain, "--inference"]) == printed(capfd, [*plain, "--inference", "yes"])
    for word in ("false", "False"):
        assert printed(capfd, [*plain, "--set", f"allow_uncertified={word}"]) == printed(capfd, plain)
    lossy = [*plain, "--penalty", "scad", "--alpha", "1", "--set", "realization=augmented"]
    assert main([*lossy, "--set", "allow_uncertified=true"]) == main([*lossy, "--set", "allow_uncertified=True"])
    capfd.readouterr()
    with pytest.raises(SystemExit):
        main([*plain, "--inference", "ture"])
    assert "--inference: 'ture' is none of auto, model, robust, yes, no" in " ".join(capfd.readouterr().err.split())


@pytest.mark.slow
def test_caps_are_options(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plain = ["plan", "age ~ C(sex)", "--domain", "adult.yaml", "--eps", "1"]
    capfd.readouterr()
    assert main([*plain, "--residual-cap", "12"]) == 0
    assert "Residuals beyond 12 " in " ".join(capfd.readouterr().out.split())
    assert main([*plain, "--family", "poisson", "--mean-cap", "30", "--y-max", "40"]) == 0
    assert "means up to 30" in " ".join(capfd.readouterr().out.split())
    assert main([*plain, "--mean-cap", "30"]) == 1
    assert "--mean-cap is for 'poisson', not for --family gaussian" in capfd.readouterr().err


@pytest.mark.slow
def test_as_a_process(folder: Path) -> None:
    """The exit status and both streams as a shell sees them."""
    command = [sys.executable, "-m", "dpstats", *FIT, "rows.csv", *LOGIT, "--ledger", "adult.ledger"]
    environment = {**os.environ, "PYTHONPATH": str(Path(dp.__file__).parents[1])}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "C(sex)[T.M]" in run.stdout
    assert run.stderr == ""
    again = subprocess.run([*command, "--eps", "9"], capture_output=True, text=True, check=False, env=environment)
    assert (again.returncode, again.stdout) == (3, "")


def test_a_domain_in_yaml_and_in_json(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text('age: {range: [17, 90.5]}\nsmokes: [no, yes]\nkids: ["0", 1, 2+]\nmember: bool\n')
    domain = read_domain(path)
    assert domain == dp.Domain(age=(17, 90.5), smokes=["no", "yes"], kids=[0, 1, "2+"], member=bool)
    (tmp_path / "d.json").write_text(domain.to_json())
    assert read_domain(tmp_path / "d.json") == domain


BAD_DOMAINS = ["", "age", "age: 3", "age: {range: [1]}", "age: {range: [a, b]}", "age: {range: [9, 1]}", "a: [b, b]",
               "age: {range: [1, 2], more: 3}", "age: [1, 90]", "{", "a: !!python/object:os.system {}"]  # fmt: skip


@pytest.mark.parametrize("text", BAD_DOMAINS)
def test_bad_domains(tmp_path: Path, text: str) -> None:
    path = tmp_path / "d.yaml"
    path.write_text(text)
    with pytest.raises(DomainError):
        read_domain(path)


def test_a_domain_file_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match=r"must end in \.yaml"):
        read_domain(tmp_path / "d.toml")
    (tmp_path / "d.json").write_bytes(b"\xff\xfe")
    with pytest.raises(DomainError, match="as text"):
        read_domain(tmp_path / "d.json")


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_it_in_silence(tmp_path: Path) -> None:
    """As head does; what is left in the buffer must not be complained of at exit either."""
    (tmp_path / "domain.yaml").write_text("x: {range: [0, 1]}\ny: bool\n")
    command = [
        sys.executable,
        "-m",
        "dpstats",
        "plan",
        "y ~ x",
        "--eps",
        "1",
        "--domain",
        str(tmp_path / "domain.yaml"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(dp.__file__).parents[1])}
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(
        [*command, "--family", "binomial"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=environment,
    )
    os.close(writer)
    assert run.stderr == ""
    assert run.returncode == 141


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("output", [None, "fit.json"])
def test_what_was_paid_for_is_kept_where_nothing_can_be_printed(
    folder: Path, output: str | None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    capfd.readouterr()
    for arguments, status in (([*FIT, "rows.csv", *LOGIT], 6), (["plan", "income ~ age", *LOGIT], 1)):
        named = ["--output", output] if output is not None and status == 6 else []
        with open("/dev/full", "w") as nowhere, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", nowhere)
            assert main([*arguments, "--ledger", "adult.ledger", *named]) == status
        shown = capfd.readouterr()
        said = re.fullmatch(
            r"error: standard output cannot be written \(.*\)(; the release that was paid for is in (.*))?\n", shown.err
        )
        assert said is not None
        if status == 6:
            assert output is None or said[2] == output
            assert dp.GLMResults.load(said[2]).params.index.tolist() == ["Intercept", "C(sex)[T.M]", "age"]
    assert spent() == 1


def test_nothing_is_spent_where_standard_output_is_closed_and_no_file_named(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    paid = [*FIT, "rows.csv", *LOGIT, "--ledger", "adult.ledger"]
    assert main(paid) == 1
    assert "error: standard output is closed" in capfd.readouterr().err
    assert spent() == 0
    assert main([*paid, "--output", "fit.json"]) == 0
    assert capfd.readouterr().err == ""
    assert dp.GLMResults.load("fit.json").params.size == 3


@pytest.mark.slow
def test_streams_that_are_closed_are_no_place_for_files(folder: Path) -> None:
    """What is opened first would get their number, and what is printed would be written into it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(dp.__file__).parents[1])}
    command = f"{sys.executable} -m dpstats plan 'income ~ age' --ledger adult.ledger {' '.join(LOGIT)} --json <&- 2>&-"
    run = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    assert json.loads(run.stdout)["formula"] == "income ~ age"


def full(path: Path, text: str, **_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("command", ["fit", "check", "evaluate"])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_what_was_paid_for_is_kept_where_the_disk_is_full(
    folder: Path, command: str, elsewhere: bool, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has filled up since the charge: the result is printed, and kept in another folder, or on standard error."""
    commands = {
        "fit": [*FIT, "rows.csv", *LOGIT],
        "check": ["check", "income ~ age + C(sex)", "rows.csv", "--eps", "1"],
        "evaluate": ["evaluate", "first.json", "rows.csv", "--eps", "1"],
    }
    paid = [*commands[command], "--ledger", "adult.ledger"]
    assert main([*FIT, "rows.csv", *LOGIT, "--domain", "adult.yaml", "--output", "first.json"]) == 0
    capfd.readouterr()
    whole_file = writing.whole_file

    def filled_up(path: Path) -> AbstractContextManager[IO[bytes]]:
        return whole_file(path) if elsewhere and path.name != "f.json" else full(path, "")

    with monkeypatch.context() as patch:
        patch.setattr(writing, "whole_file", filled_up)
        assert main([*paid, "--output", "f.json"]) == 6
    shown = capfd.readouterr()
    assert "====" in shown.out
    assert "error: --output: No space left on device; " in shown.err
    assert spent() == 1
    assert not Path("f.json").exists()
    if elsewhere:
        kept = Path(shown.err.strip().rpartition(" ")[2])
    else:
        kept = folder / "kept.json"
        kept.write_text(shown.err[: shown.err.index("error: ")])
    assert main(["show", str(kept)]) == 0
    assert not COUNT.search(kept.read_text())


def test_a_full_disk_is_seen_before_the_charge(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the name of a file, and no content."""
    monkeypatch.setattr(os, "fsync", lambda _: full(Path(), ""))
    assert main([*FIT, "rows.csv", *LOGIT, "--ledger", "adult.ledger", "--output", "fit.json"]) == 1
    assert "--output: fit.json cannot be written (No space left on device)" in capfd.readouterr().err
    assert spent() == 0
    assert not Path("fit.json").exists()


def test_a_reader_that_has_seen_enough_costs_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main([*FIT, "rows.csv", *LOGIT, "--ledger", "adult.ledger", "--output", "fit.json"]) == 141
    assert dp.GLMResults.load("fit.json").params.size == 3
    assert not list(folder.glob("dpstats-*"))


def test_a_count_that_stops_the_fit_is_charged(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its status is that of what was charged and failed, and the message has the shell's words."""
    Path("other.yaml").write_text(YAML.replace("[F, M]", "[A, B]"))
    arguments = [*FIT, "rows.csv", *LOGIT, "--domain", "other.yaml", "--check-share", "0.5", "--output", "f.json"]
    capfd.readouterr()
    assert main(arguments) == 6
    assert "or pass --on-mismatch go to fit in any case" in capfd.readouterr().err
    assert not Path("f.json").exists()


def test_what_cannot_be_rendered_is_kept_too(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("dpstats.cli.models.summarize", fails)
    assert main([*FIT, "rows.csv", *LOGIT, "--ledger", "adult.ledger"]) == 6
    said = capfd.readouterr().err
    assert said.startswith("error: standard output cannot be written (ZeroDivisionError); ")
    assert dp.GLMResults.load(said.strip().rpartition(" ")[2]).params.size == 3


def test_a_misspelt_option_is_answered_by_the_one_that_was_meant(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fit", "y ~ x", "rows.csv", "--eps", "1", "--famly", "binomial"])
    assert "--famly; did you mean --family?" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        main(["fit", "y ~ x", "rows.csv", "--esp", "1"])
    assert "--esp; did you mean --eps?" in capfd.readouterr().err


ASKED = ["plan", "age ~ sex", "--domain", "adult.yaml", "--eps", "1"]
NAMED = [
    ([*ASKED, "--residual-cap", "-1"], "--residual-cap must"),
    ([*ASKED, "--family", "none"], "--family must"),
    ([*ASKED, "--delta", "2"], "--delta must"),
    ([*ASKED, "--n", "0"], "--n must"),
    ([*ASKED, "--check-share", "2"], "--check-share must"),
    ([*ASKED, "--rows", "0"], "--rows must"),
    ([*ASKED, "--se", "age[south]=0.08"], "--se: the plan has no coefficient 'age[south]'"),
    ([*ASKED, "--rows", "1000", "--se", "sex[T.M]=-1"], "--se must"),
    ([*ASKED, "--rows", "1000", "--typical", "nobody=1"], "--typical: "),
    ([*ASKED, "--rows", "1000", "--residual-sd", "-1"], "--residual-sd must"),
    (["check", "age ~ sex", "rows.csv", "--domain", "adult.yaml", "--eps", "-1"], "--eps must"),
    (["ledger", "quota", "adult.ledger", "--analyst", " ", "--eps", "1"], "--analyst must"),
    (["ledger", "quota", "adult.ledger", "--analyst", "Ada", "--eps", "-1"], "--eps must"),
    (["ledger", "init", "new.ledger", "--dataset", "d", "--eps", "1", "--delta", "2"], "--delta must"),
    (["show", "fit.json", "--exponentiate"], "--exponentiate needs"),
    (["predict", "fit.json", "public.csv", "--level", "95"], "--level must"),
    (["evaluate", "fit.json", "rows.csv", "--eps", "nan"], "--eps must"),
    (["evaluate", "fit.json", "rows.csv", "--eps", "1", "--metrics", "none"], "--metrics"),
]


def test_errors_name_options_as_they_are_typed(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Python's arguments have no dashes; columns keep their names."""
    assert main(["fit", "age ~ sex", "rows.csv", "--domain", "adult.yaml", "--eps", "3", "--output", "fit.json"]) == 0
    (folder / "public.csv").write_text("sex\nF\n")
    for words, message in NAMED:
        capfd.readouterr()
        assert main(words) == 1, words
        assert f"error: {message}" in capfd.readouterr().err, words
    (folder / "unit.yaml").write_text("{unit: [3, 1], age: [0, 1]}")
    assert main(["plan", "age ~ unit", "--domain", "unit.yaml", "--eps", "1"]) == 1
    assert "--unit" not in capfd.readouterr().err


def test_a_plan_is_printed_as_in_python_and_whole_if_asked(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "income ~ age + C(sex)", "--domain", "adult.yaml", *LOGIT]
    assert main(words) == 0
    short = capfd.readouterr().out
    assert main([*words, "--full"]) == 0
    assert len(short.splitlines()) < 40 < len(capfd.readouterr().out.splitlines())
    assert "All tables and notes: --full" in short


def test_forecasts_are_tables_and_speak_of_no_argument_of_python(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ["plan", "income ~ age", "--domain", "adult.yaml", "--eps", "1", "--family", "binomial"]
    assert main([*asked, "--rows", "30000"]) == 0
    table = capfd.readouterr().out
    assert "Standard errors forecast for 30,000 rows" in table
    assert max(map(len, table.splitlines())) <= 78
    assert main([*asked, "--se", "age=0.01"]) == 0
    assert "like=" not in capfd.readouterr().out

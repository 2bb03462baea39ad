"""The command line."""

from __future__ import annotations

import configparser
import io
import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.ledger import Ledger
from dpstats.privacy.guarantee import Guarantee


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with one entry, made from the command line."""
    path = tmp_path / "budget.db"
    options = ["--dataset", "adult", "--eps", "1", "--delta", "1e-5", "--adjacency", "replace_one"]
    assert main(["ledger", "init", str(path), *options, "--accountant", "zcdp"]) == 0
    with Ledger.open(path) as ledger:
        ledger.charge(Guarantee(0.1, 1e-16, "replace_one"), label="first", formula="y ~ x")
    return path


def test_init_fixes_the_totals(path: Path) -> None:
    ledger = Ledger(path, "adult", 1.0, 1e-5, adjacency="replace_one", accountant="zcdp")
    assert len(ledger.entries()) == 1


def test_init_never_touches_a_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "init", str(path), "--dataset", "adult", "--eps", "1"]) == 4
    assert "exists already" in capsys.readouterr().err


def test_show_prints_the_report(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["ledger", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown == Ledger.open(path).report() + "\n"
    assert "Privacy budget of adult" in shown


def test_show_of_a_missing_ledger_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "show", str(tmp_path / "none.db")]) == 4
    assert capsys.readouterr().err.startswith("error: ")
    assert not list(tmp_path.iterdir())


def test_export_as_csv_to_a_new_file_only(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "entries.csv"
    arguments = ["ledger", "export", str(path), "--output", str(output)]
    assert main(arguments) == 0
    table = pd.read_csv(output)
    assert (table["entry"].tolist(), table["delta"].tolist(), table["label"].tolist()) == ([1], [1e-16], ["first"])
    assert main(arguments) == 1, "the ledger can be used"
    assert "choose a new file" in capsys.readouterr().err


def test_export_as_json_keeps_every_digit(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["ledger", "export", str(path), "--format", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["eps"], entry["delta"], entry["formula"], entry["method"]) == (0.1, 1e-16, "y ~ x", None)
    assert entry["time"].endswith("+00:00")


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_export_has_the_totals_of_analysts_beside_their_quotas(
    path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the entries were exported: totals had to be added up, and quotas copied from the report."""
    with Ledger.open(path) as ledger:
        ledger.set_quota("=Ada", eps=0.5, delta=1e-6)
        expected = ledger.spending()
    capsys.readouterr()
    assert main(["ledger", "export", str(path), "--by-analyst", "--format", kind]) == 0
    shown = capsys.readouterr().out
    if kind == "json":
        rows = json.loads(shown)
        assert [row["analyst"] for row in rows] == expected.index.tolist()
        quotas = {row["analyst"]: row["quota_eps"] for row in rows}
        assert quotas["=Ada"] == 0.5
        assert [row["rho"] for row in rows] == expected["rho"].tolist()
    else:
        table = pd.read_csv(io.StringIO(shown), keep_default_na=False, index_col="analyst")
        assert table.columns.tolist() == expected.columns.tolist()
        assert float(table.loc["'=Ada", "quota_eps"]) == 0.5, "a name is no formula of a spreadsheet"
        assert table["rho"].astype(float).tolist() == expected["rho"].tolist()


def test_every_change_of_a_quota_is_exported(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For an auditor, who reads that a quota was raised."""
    for who, eps in ((["--analyst", "Ada"], "0.2"), (["--everyone-else"], "0"), (["--analyst", "Ada"], "0.5")):
        assert main(["ledger", "quota", str(path), *who, "--eps", eps, "--delta", "1e-6"]) == 0
    capsys.readouterr()
    expected = [("Ada", 0.2, 1e-6), ("", 0.0, 1e-6), ("Ada", 0.5, 1e-6)]
    assert main(["ledger", "show", str(path), "--json"]) == 0
    quotas = json.loads(capsys.readouterr().out)["quotas"]
    assert [(one["analyst"], one["eps"], one["delta"]) for one in quotas] == expected
    assert quotas[0]["time"].endswith("+00:00")
    assert main(["ledger", "export", str(path), "--quotas", "--format", "json"]) == 0
    exported = json.loads(capsys.readouterr().out)
    assert exported == [{"number": place} | one for place, one in enumerate(quotas)]
    assert main(["ledger", "export", str(path), "--quotas"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out), keep_default_na=False)
    assert list(table[["analyst", "eps", "delta"]].itertuples(index=False, name=None)) == expected


def test_a_missing_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["ledger"])
    assert caught.value.code == 2
    assert "usage: python -m dpstats ledger" in capsys.readouterr().err


def test_the_installed_command_is_main_and_goes_by_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = configparser.ConfigParser()
    settings.read(Path(__file__).parents[2] / "setup.cfg")
    (script,) = settings["options.entry_points"]["console_scripts"].split("\n")[1:]
    command = EntryPoint(*script.split(" = "), group="console_scripts")
    monkeypatch.setattr("sys.argv", [f"/usr/bin/{command.name}", "--help"])
    with pytest.raises(SystemExit) as ended:
        command.load()()
    assert ended.value.code == 0
    assert "usage: dpstats [-h] [--version] command" in capsys.readouterr().out


def test_show_as_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "quota", str(path), "--analyst", "Ada", "--eps", "0.5", "--delta", "1e-6"]) == 0
    capsys.readouterr()
    assert main(["ledger", "show", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["dataset"], facts["total"], facts["domain"]) == ("adult", {"eps": 1.0, "delta": 1e-5}, None)
    assert [entry["label"] for entry in facts["entries"]] == ["first"]
    assert [(one["analyst"], one["quota_eps"]) for one in facts["analysts"]] == [("Ada", 0.5), ("", None)]


def test_a_quota_for_everyone_else(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line is printed, not the whole report."""
    assert main(["ledger", "quota", str(path), "--everyone-else", "--eps", "0"]) == 0
    line = "Quota of everyone else, each: eps=0, delta=0; a charge may now have at most eps=0, delta=0."
    assert capsys.readouterr().out.splitlines() == [line]
    assert main(["ledger", "quota", str(path), "--analyst", "Ada", "--eps", "0.25", "--delta", "1e-6"]) == 0
    line = "Quota of Ada: eps=0.25, delta=1e-06; a charge may now have at most eps=0.05"
    assert capsys.readouterr().out.startswith(line)
    with Ledger.open(path) as ledger:
        assert ledger.signed("Bob").remaining == (0.0, 0.0)


def test_a_page_goes_to_a_new_file_only(path: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    assert main(["ledger", "html", str(path), "--output", str(output)]) == 0
    assert output.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert main(["ledger", "html", str(path), "--output", str(output)]) == 1


FORMULAS = {
    "=HYPERLINK(1)": "'=HYPERLINK(1)",
    "+1": "'+1",
    "-1": "'-1",
    "@SUM(1)": "'@SUM(1)",
    "\t=1": "' =1",
    " \u200b=1": "'  =1",
    "\uff1d1": "'\uff1d1",
    "my model\r=1+1+cmd|' /C calc'!A0": "my model =1+1+cmd|' /C calc'!A0",
    'my model\n"\n=1': 'my model " =1',
    "my model\u2028=1\x85=1\x0b=1": "my model =1 =1 =1",
    "my model;=1": "my model;'=1",
    'my model; "=1': "my model;' \"=1",
    "y ~ a + b; ridge": "y ~ a + b; ridge",
}


@pytest.mark.parametrize("label", FORMULAS)
def test_labels_are_no_formulas_in_an_exported_file(path: Path, label: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(path) as ledger:
        ledger.charge(Guarantee(1e-6), label=label)
    capsys.readouterr()
    assert main(["ledger", "export", str(path)]) == 0
    text = capsys.readouterr().out
    # Read as a program would that begins a row at every end of a line, in quotes or not: each cell is in quotes.
    lines = text.splitlines()
    assert len(lines) == 3
    assert all(line[0] == line[-1] == '"' for line in lines)
    found = pd.read_csv(io.StringIO(text))
    assert found["label"].iloc[-1] == FORMULAS[label]
    assert found["eps"].iloc[-1] == 2e-6  # by the group rule
    assert found["eps"].dtype == float

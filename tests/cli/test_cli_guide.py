"""What the guide tells to type in a shell does what it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import dpstats as dp
from dpstats.cli import main
from dpstats.cli.main import STATUS

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "ledger.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    return found


@pytest.mark.slow
def test_the_commands_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a folder with the Domain of the page, and rows of Adult."""
    monkeypatch.chdir(tmp_path)
    Path("adult.yaml").write_text(block("yaml"))
    dp.datasets.load_adult().data.to_parquet("rows.parquet")
    dp.datasets.load_adult("test").data.to_parquet("test.parquet")
    Path("new.csv").write_text("age,sex\n40,Male\n")
    commands = [line for line in block("sh").splitlines() if line.strip()]
    assert len(commands) >= 6
    for command in commands:
        program, *arguments = shlex.split(command.removeprefix("python -m "))
        assert program == "dpstats"
        capfd.readouterr()
        assert main(arguments) == 0, command
        if "--json" in arguments:
            json.loads(capfd.readouterr().out)
    with dp.Ledger.open("adult.ledger") as ledger:
        assert ledger.remaining.eps == pytest.approx(2.38)
        assert ledger.spending().loc["Ada", "entries"] == 4  # a fit has two, its count of rows first
    assert Path("report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_table_of_exit_statuses_is_complete() -> None:
    listed = [int(status) for status in re.findall(r"^\| (\d) \|", GUIDE, re.MULTILINE)]
    assert listed == sorted({0, 2, *(status for _, status in STATUS)})

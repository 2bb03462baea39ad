"""An office from a shell: its file, its tokens, its server."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from dpstats.cli import main
from dpstats.ledger import Ledger
from dpstats.office.config import Office
from dpstats.office.service import Service

CODEBOOK = "name,low,high,levels\nx,0,1,\ny,0,1,\n"


@pytest.fixture
def office(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    (tmp_path / "rows.csv").write_text("x,y\n0.5,0.5\n")
    (tmp_path / "codebook.csv").write_text(CODEBOOK)
    given = ["--dataset", "survey", "--source", "rows.csv", "--domain", "codebook.csv", "--eps", "4", "--rows", "1000"]
    path = tmp_path / "office.toml"
    assert main(["office", "init", str(path), *given, "--quota", "1", "--most-eps", "0.5", "--approve"]) == 0
    assert Service(Office.load(path)).is_keeper(capsys.readouterr().out.splitlines()[1])
    return path


def test_init_writes_the_file_and_makes_the_ledger(office: Path) -> None:
    survey = Office.load(office).datasets["survey"]
    assert (survey.most_eps, survey.approve, survey.quotas["*"].eps) == (0.5, True, 1.0)
    assert Ledger.open(survey.ledger).total == (4.0, 0.0)
    assert main(["office", "init", str(office)]) == 1


def test_init_asks_for_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "office.toml"
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    assert main(["office", "init", str(path)]) == 1
    assert "error: --dataset is missing: Name of the data set" in capsys.readouterr().err
    (tmp_path / "rows.csv").write_text("x,y\n0.5,0.5\n")
    (tmp_path / "codebook.csv").write_text(CODEBOOK)
    answers = iter(["survey", "rows.csv", "codebook.csv", "4", "1000"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    assert main(["office", "init", str(path)]) == 0
    assert Office.load(path).datasets["survey"].rows == 1000


def test_an_init_that_fails_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--dataset", "survey", "--source", "rows.csv", "--domain", "none.csv", "--eps", "4", "--rows", "1000"]
    assert main(["office", "init", str(tmp_path / "office.toml"), *given]) == 1
    assert "[data.survey]: domain" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_init_compares_the_codebook_with_the_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_text("x,Y\n")
    (tmp_path / "codebook.csv").write_text(CODEBOOK)
    given = ["--dataset", "survey", "--source", "rows.csv", "--domain", "codebook.csv", "--eps", "4", "--rows", "1000"]
    assert main(["office", "init", str(tmp_path / "office.toml"), *given]) == 1
    assert "'y'" in capsys.readouterr().err
    assert not (tmp_path / "office.toml").exists()


def test_a_missing_ledger_names_the_command_that_makes_one(office: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in office.parent.glob("survey.ledger*"):
        file.unlink()
    assert main(["office", "analyst", "list", "--office", str(office)]) == 4
    command = capsys.readouterr().err.strip().partition("type: dpstats ")[2]
    assert main(shlex.split(command)) == 0
    assert main(["office", "analyst", "list", "--office", str(office)]) == 0


def test_tokens_are_printed_once(office: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--office", str(office)]
    assert main(["office", "analyst", "add", "Ada", *where]) == 0
    token = capsys.readouterr().out.splitlines()[1]
    service = Service(Office.load(office))
    assert service.analyst_of(token) == "Ada"
    assert main(["office", "analyst", "list", *where]) == 0
    assert capsys.readouterr().out.startswith("Ada  ")
    assert main(["office", "analyst", "revoke", "Ada", *where]) == 0
    assert service.analyst_of(token) is None
    assert main(["office", "analyst", "revoke", "Ada", *where]) == 1
    assert main(["office", "keeper", *where]) == 0
    assert service.is_keeper(capsys.readouterr().out.splitlines()[-1])


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


@pytest.mark.slow
def test_serve_answers_at_both_addresses_and_says_nothing_more(
    office: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ports = free_port(), free_port()
    text = office.read_text()
    office.write_text(text.replace("8470", str(ports[0])).replace("8471", str(ports[1])))
    main(["office", "analyst", "add", "Ada", "--office", str(office)])
    token = capsys.readouterr().out.splitlines()[1]
    command = [sys.executable, "-m", "dpstats", "serve", str(office)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == f"Analysts: http://127.0.0.1:{ports[0]}\n"
        assert server.stdout.readline() == f"The keeper: http://127.0.0.1:{ports[1]}\n"
        asked = urllib.request.Request(f"http://127.0.0.1:{ports[0]}/v1/datasets")
        asked.add_header("Authorization", f"Bearer {token}")
        for _ in range(100):
            try:
                with urllib.request.urlopen(asked) as answer:
                    found = json.load(answer)
                break
            except OSError:
                time.sleep(0.1)
        assert "survey" in json.dumps(found)
    finally:
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=60)
    assert (server.returncode, out, err) == (0, "", "")


def test_an_office_never_listens_to_others_in_the_clear(office: Path, capsys: pytest.CaptureFixture[str]) -> None:
    office.write_text(office.read_text().replace("127.0.0.1:8470", "0.0.0.0:8470"))
    assert main(["serve", str(office)]) == 1
    assert "behind_tls = true" in capsys.readouterr().err

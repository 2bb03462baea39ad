"""The keeper's guide does what it says; docs/office/analyst.md runs when the documentation is built."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import dpstats as dp
from dpstats.cli import main
from dpstats.office.config import Office
from dpstats.office.request import VERBS

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "office"


def blocks(page: str, language: str) -> list[str]:
    text = (GUIDES / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_commands_of_the_keepers_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a folder with the rows; the codebook is that of the page."""
    monkeypatch.chdir(tmp_path)
    dp.datasets.load_wages().data.to_parquet("wages.parquet")
    template, opening = blocks("keeper.md", "sh")
    for command in (*template.splitlines(), *opening.splitlines()):
        assert main(shlex.split(command.removeprefix("python -m dpstats "))) == 0, command
        if " template " in command:
            Path("codebook.json").write_text(blocks("keeper.md", "json")[0])
    assert "Ada" in capfd.readouterr().out
    (wages,) = Office.load("office.toml").datasets.values()
    assert (wages.eps, wages.most_eps, wages.quotas["*"].eps, wages.rows) == (6.0, 1.0, 2.0, 55_000)


def test_the_file_of_the_keepers_guide_opens(tmp_path: Path) -> None:
    (tmp_path / "codebook.json").write_text(blocks("keeper.md", "json")[0])
    (tmp_path / "office.toml").write_text(blocks("keeper.md", "toml")[0])
    office = Office.load(tmp_path / "office.toml")
    assert office.behind_tls
    assert office.datasets["wages"].approve
    assert office.datasets["wages"].quotas["Ada"].delta == 1e-7


def test_the_page_of_the_api_lists_its_addresses_and_verbs() -> None:
    page = (GUIDES / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"`(GET|POST) (/v1/[\w/-]+)(?:`, `\.\.\./(\w+))?", page)
    listed = {(method, path) for method, path, _ in named}
    listed |= {(method, f"{path.rpartition('/')[0]}/{other}") for method, path, other in named if other}
    from dpstats.office.api import OPERATIONS

    offered = {(method, re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), path)) for method, path in OPERATIONS}
    assert listed == offered
    assert all(f"`{verb}`" in page for verb in VERBS)

"""The file of an office: each fault is named by its key, with what to type."""

from __future__ import annotations

from pathlib import Path

import pytest
from offices import FILE, write_office

from dpstats.errors import ArgumentError
from dpstats.office.config import Office


def test_a_file_says_all_that_an_office_needs(tmp_path: Path) -> None:
    office = Office.load(write_office(tmp_path, 'quotas = {"*" = 1.0, ada = {eps = 2.0}}\nverbs = ["glm"]'))
    survey = office.datasets["survey"]
    assert (office.listen, office.keeper_listen) == (("127.0.0.1", 8470), ("127.0.0.1", 8471))
    assert (survey.quotas["*"].eps, survey.quotas["ada"].eps, survey.verbs) == (1.0, 2.0, ("glm",))
    assert survey.source == str(tmp_path / "rows.csv")
    assert survey.columns["x"]["unit"] == "m"
    assert list(survey.domain) == ["x", "y", "g"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("rows = 2000", "", r"\[data\.survey\]: rows is missing; add a line rows = "),
        ("rows = 2000", "rows = 1.5", "rows must be a whole number from 1 to"),
        ("eps = 10.0", "eps = true", "eps must be a number above 0 to"),
        ("most_eps = 2.0", "most_eps = 20.0", "most_eps must be a number above 0 to 10"),
        ("most_eps = 2.0", "mosteps = 2.0", "'mosteps' is not known; did you mean most_eps"),
        ('source = "rows.csv"', "source = 3", "source must be a path or pattern"),
        ('domain = "codebook.csv"', 'domain = "nowhere.csv"', "domain .* cannot be read as a codebook"),
        ("workers = 2", 'listen = "0.0.0.0:80"', r"listen .* behind_tls = true"),
        ("workers = 2", "behind_tls = true", r"hosts is missing; add .* hosts = \["),
        ("workers = 2", 'hosts = ["https://a.org"]', "hosts must be names without port"),
        ("workers = 2", 'keeper_listen = "127.0.0.1:8470"', "keeper_listen must differ"),
        ("workers = 2", 'tls = ["a.pem"]', "tls must be two files"),
        ("workers = 2", "workers = 0", "workers must be a whole number from 1"),
        ("columns.x]", "columns.z]", "'z' is not in the codebook"),
        ("[data.survey]", '[data."../x"]', "the name of a data set has letters"),
        ("{more}", 'verbs = ["audit"]', "'audit' is not offered; choose among glm"),
        ("{more}", 'adjacency = "none"', "adjacency must be one of add_remove"),
        ("{more}", "quotas = {ada = -1}", "ada must be a number from 0"),
        ("{more}", "approve = 1", "approve must be true or false"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = write_office(tmp_path)
    assert old in FILE
    path.write_text(FILE.replace(old, new).replace("{more}", ""))
    with pytest.raises(ArgumentError, match=words):
        Office.load(path)


def test_two_ledgers_of_one_source_are_refused(tmp_path: Path) -> None:
    path = write_office(tmp_path)
    with path.open("a") as file:
        file.write('[data.other]\nsource = "./rows.csv"\ndomain = "codebook.csv"\neps = 1.0\nrows = 2000\n')
    with pytest.raises(
        ArgumentError, match=r"\[data.other]: source is that of \[data.survey] too.* one ledger for both"
    ):
        Office.load(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="dpstats office init"):
        Office.load(tmp_path / "office.toml")
    (tmp_path / "office.toml").write_text("[")
    with pytest.raises(ArgumentError, match="is not TOML"):
        Office.load(tmp_path / "office.toml")

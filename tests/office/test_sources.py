"""Rows that are in a database, and rows that a cluster reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import postgres
import psycopg
import pytest
from offices import FILE, FIT, finished, write_office

from dpstats.errors import ArgumentError
from dpstats.office import worker
from dpstats.office.config import Office
from dpstats.office.jobs import FAILED
from dpstats.office.request import Request, from_result
from dpstats.office.service import Service
from dpstats.office.source import check_source

GLM = Request("survey", "glm", FIT)


@pytest.fixture
def table(database: postgres.Server, tmp_path: Path) -> str:
    """The address of a database whose table `survey` has the rows of an office in `tmp_path`."""
    write_office(tmp_path)
    rows = pd.read_csv(tmp_path / "rows.csv")
    address, _ = postgres.schema_of(database.url("none"))
    with psycopg.connect(address, autocommit=True) as session:
        session.execute("DROP TABLE IF EXISTS survey")
        session.execute("CREATE TABLE survey (x double precision, y double precision, g text)")
        with session.cursor().copy("COPY survey FROM STDIN") as copy:
            for row in rows.itertuples(index=False):
                copy.write_row(row)
    return address


def rewritten(folder: Path, address: str, query: str) -> Office:
    """The office of `folder`, whose rows are those of a query now."""
    path = folder / "office.toml"
    source = f'{{{{postgresql = "{address}", query = "{query}"}}}}'
    path.write_text(FILE.replace('"rows.csv"', source).format(more=""))
    return Office.load(path)


def released(folder: Path, **options: Any) -> Any:
    """What an analyst gets of a fit at the office of `folder`; its time to be shown is not waited for."""
    service = Service(Office.load(folder / "office.toml"))
    job = service.submit("ada", Request("survey", "glm", FIT | options), "a")
    worker.main(str(service.office.path), job.id)
    row = service._store.row("SELECT state, result FROM job")
    assert row is not None
    assert row["state"] == "released"
    return from_result(json.loads(row["result"]))


@pytest.mark.slow
def test_rows_may_be_in_postgresql(table: str, tmp_path: Path) -> None:
    check_source(rewritten(tmp_path, table, "SELECT x, y, g FROM survey").datasets["survey"])
    assert released(tmp_path).params["x"] == pytest.approx(0.5, abs=0.2)  # seven standard errors


@pytest.mark.slow
def test_the_types_of_a_query_are_told_without_its_rows(table: str, tmp_path: Path) -> None:
    failing = "SELECT x, y, CAST(1 / (CASE WHEN x >= 0 THEN 0 ELSE 1 END) AS text) AS g FROM survey"
    check_source(rewritten(tmp_path, table, failing).datasets["survey"])
    for query, words in (
        ("SELECT x, y FROM survey", "column 'g': data has no column 'g'"),
        ("SELECT x::numeric AS x, y, g FROM survey", "column 'x' has dtype extension; convert it to numbers"),
        ("SELECT x, y, g FROM secrets", "source cannot be opened"),
    ):
        with pytest.raises(ArgumentError, match=words):
            check_source(rewritten(tmp_path, table, query).datasets["survey"])


@pytest.mark.slow
def test_a_query_that_fails_after_the_charge_says_the_constant_words(table: str, tmp_path: Path) -> None:
    failing = "SELECT 1 / (x - x) AS x, y, g FROM survey"
    service = Service(rewritten(tmp_path, table, failing))
    job = finished(service, "ada", service.submit("ada", GLM, "a").id)
    assert (job.state, job.message) == ("failed", FAILED)


@pytest.mark.slow
def test_a_cluster_reads_the_rows(cluster: tuple[str, Path], tmp_path: Path) -> None:
    write_office(tmp_path, f'cluster = "{cluster[0]}"')
    fit = released(tmp_path, inference=None, check_share=0)  # few passes: each takes a second
    assert fit.params["x"] == pytest.approx(0.5, abs=0.2)

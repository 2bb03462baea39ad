"""Offices to test: a data set of two thousand rows, its codebook and its ledger in a folder."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd

from dpstats.office import worker
from dpstats.office.config import Office
from dpstats.office.request import Job
from dpstats.office.service import Service

FILE = """
[office]
deadline = 0.02
workers = 2

[data.survey]
title = "A survey"
source = "rows.csv"
domain = "codebook.csv"
ledger = "survey.ledger"
eps = 10.0
most_eps = 2.0
rows = 2000
{more}

[data.survey.columns.x]
description = "an explanatory number"
unit = "m"
"""

CODEBOOK = "name,low,high,levels\nx,0,2,\ny,0.0,1.0,\ng,,,a|b\n"

FIT = {"formula": "y ~ x", "eps": 0.5}


def write_rows(path: Path, rows: int = 2000) -> None:
    """A file of rows that are made up."""
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 1, rows)
    y = np.clip(0.2 + 0.5 * x + rng.normal(0, 0.1, rows), 0, 1)
    pd.DataFrame({"x": x, "y": y, "g": np.where(rng.uniform(size=rows) < 0.5, "a", "b")}).to_csv(path, index=False)


def write_office(folder: Path, more: str = "", text: str = FILE) -> Path:
    """The file of an office with rows, codebook and an empty ledger."""
    write_rows(folder / "rows.csv")
    (folder / "codebook.csv").write_text(CODEBOOK)
    path = folder / "office.toml"
    path.write_text(text.format(more=more))
    for dataset in Office.load(path).datasets.values():
        dataset.make_ledger().close()
    return path


def work_here(service: Service) -> None:
    """Have this process carry out each job as soon as it is paid for: a process of its own imports all first."""

    def wake() -> None:
        for job in service._pool._taken():
            worker.main(str(service.office.path), job)

    service._pool.wake = wake  # type: ignore[method-assign]


def finished(service: Service, analyst: str, job: str) -> Job:
    """The job as it is shown once a worker, here in this process, has carried it out."""
    worker.main(str(service.office.path), job)
    while (shown := service.job(analyst, job)).state == "working":
        time.sleep(0.02)
    return shown

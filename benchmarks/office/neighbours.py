"""Neighbouring tables served by an office over HTTP: whatever an analyst or the keeper sees must be the same.

``python -m benchmarks.office.neighbours [tables] [--seed SEED]``.

A case is a file of rows with one hostile row, or without it, and one request. Everything that is sent back, by either
listener, is written down: status, headers and body of the answers to the request, to its release before and after it
is ready, to its table, to the lists, to the budgets and to the audit log; what is logged and printed too. Identities,
times and numbers are left out of it: of the numbers those of a result are what the budget has paid for, and all others
are compared by themselves. Every difference between the two is a finding; the exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import logging
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from starlette.testclient import TestClient

from benchmarks.audits.edge_cases.cells import TAME
from benchmarks.audits.edge_cases.observed import STREAMS
from dpstats.office import worker
from dpstats.office.api import create_app
from dpstats.office.config import Office
from dpstats.office.security import Limits
from dpstats.office.service import Service

ROWS = 200
SETS = {f"{side}_{kind}": f"{side}.{kind}" for side in ("with", "none") for kind in ("csv", "parquet")}
"""Data sets by name, and their files; names of the two sides have the same length."""

TABLE = """
[data.{name}]
source = "{file}"
domain = "codebook.csv"
ledger = "{name}.ledger"
eps = 1e6
most_eps = 10.0
rows = 200
"""

REQUESTS: dict[str, dict[str, Any]] = {
    "glm": {"formula": "y ~ x + g", "eps": 1.0, "inference": None},
    # Whether an interval of the response is bought follows the noisy count: declared, the shape does not.
    "errors": {"formula": "y ~ x + g", "eps": 10.0, "inference": "model", "response": "declared"},
    "binomial": {"formula": "I(y > 0.5) ~ np.log(x + 1)", "eps": 1.0, "family": "binomial", "inference": None},
    "weights": {"formula": "y ~ x", "eps": 1.0, "weights": "x", "inference": None},
    "check": {"formula": "y ~ x + g", "eps": 1.0},
    "release_statistics": {"columns": ["x", "y"], "eps": 1.0},
    "buy_ranges": {"columns": ["x"], "eps": 5.0},
}

RAW = (
    *(b"", b"\xff\xfe", b"\x00", b'"', b'"a', b'a"', b'""', b'"a""b"', b'"1,2"', b'"\n"', b"\r", b"1\r", b",", b",,,,"),
    *(
        b"1e999",
        b"-1e999",
        b"1e-999",
        b"0x1p3",
        b"1_0",
        b"1,5",
        b"1;5",
        b" 1 ",
        b"+1",
        b"1.",
        b".5",
        b"--1",
        b"1e",
        b"nan",
    ),
    *(
        b"NaN",
        b"inf",
        b"-Infinity",
        b"null",
        b"NULL",
        b"NA",
        b"#N/A",
        b"None",
        b"true",
        b"\xef\xbb\xbf1",
        b"=1+1",
        b"@x",
    ),
    *(
        b"9" * 400,
        b"9" * 100_000,
        b"a" * 1_000_000,
        b"2020-01-01",
        b"12:00",
        b"\xc2\xa01",
        b"\xe2\x80\x8b1",
        b"\\N",
        b"\x1a",
    ),
)
"""Bytes of a field as they may stand in a file of text."""

VALUES: tuple[tuple[pa.DataType, tuple[Any, ...]], ...] = (
    (pa.float64(), (None, np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308, 2.0, 1.5)),
    (pa.float32(), (None, np.nan, np.inf, 3e38, 0.5)),
    (pa.int64(), (None, 2**63 - 1, -(2**63), 0, 1)),
    (pa.uint64(), (None, 2**64 - 1, 0)),
    (pa.bool_(), (None, True, False)),
    (pa.string(), (None, "", "a", "1", "1e999", "nan", "\x00", "a\x00", "a" * 100_000, "９", "a ")),
    (pa.large_string(), (None, "a", "\n")),
    (pa.dictionary(pa.int8(), pa.string()), (None, "a", "z")),
)
"""Types of a column of Parquet, and hostile cells of each."""


class Served:
    """An office of neighbouring data sets, and the transcript of what it answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "codebook.csv").write_text("name,low,high,levels\nx,0,2,\ny,0,1,\ng,,,a|b\n")
        text = '[office]\nfolder = "state"\ndeadline = 0.01\n'
        text += "".join(TABLE.format(name=name, file=file) for name, file in SETS.items())
        (folder / "office.toml").write_text(text)
        office = Office.load(folder / "office.toml")
        for dataset in office.datasets.values():
            dataset.make_ledger().close()
        self.service = Service(office)
        analyst, keeper = self.service.add_analyst("anna"), self.service.new_keeper_token()
        limits = Limits(calls=(1e6, 1e6))
        self.analyst, self.keeper = (
            TestClient(
                create_app(self.service, keeper=kept, limits=limits),
                "http://127.0.0.1",
                headers={"Authorization": f"Bearer {token}"},
            )
            for kept, token in ((False, analyst), (True, keeper))
        )
        self.since = time.time()

    def transcript(self, dataset: str, name: str) -> tuple[str, str]:
        """All that is seen of one request to a data set, and the state in which it ended."""
        lines: list[str] = []
        heard = logging.StreamHandler(io.StringIO())
        logging.getLogger().addHandler(heard)

        def see(client: TestClient, method: str, path: str, **more: Any) -> Any:
            answer = client.request(method, path, **more)
            kept = {key: value for key, value in answer.headers.items() if key not in ("content-length", "date")}
            lines.append(f"{method} {answer.status_code} {kept} {answer.text}")
            return answer.json()

        verb = name if name in ("check", "release_statistics", "buy_ranges") else "glm"
        sent = {"dataset": dataset, "verb": verb, "arguments": REQUESTS[name]}
        key = {"Idempotency-Key": f"{random.getrandbits(128):032x}"}
        with STREAMS.caught():
            job = see(self.analyst, "POST", "/v1/releases", json=sent, headers=key)
            address = f"/v1/releases/{job['id']}"
            worker.main(str(self.folder / "office.toml"), job["id"])
            while (job := self.analyst.get(address).json())["state"] == "working":
                time.sleep(0.005)
            see(self.analyst, "GET", address)
            if job["state"] != "released":
                see(self.analyst, "GET", f"{address}/table")
            left = see(self.analyst, "GET", f"/v1/datasets/{dataset}")["left"]
            since, self.since = self.since, time.time()
            see(self.keeper, "GET", "/v1/keeper/waiting")
            see(self.keeper, "GET", f"/v1/keeper/audit?since={since}")
        logging.getLogger().removeHandler(heard)
        lines += [f"log: {heard.stream.getvalue()}", f"printed: {STREAMS.text}", f"left: {left}"]
        # A result is what was paid for: its shape alone must not differ.
        text = "\n".join(lines).replace(dataset, "DATASET").replace(SETS[dataset], "FILE")
        text = re.sub(r"\b[0-9a-f]{32}\b", "ID", text)
        # Whether noise has left standard errors, and so whether advice on rows that give some is there, is released.
        text = re.sub(r', "needed_rows": {[^{}]*}', "", text)
        return re.sub(r"-?\b\d+(\.\d+)?(e[+-]?\d+)?\b", "#", text), str(job["state"])


def rows(rng: np.random.Generator) -> dict[str, list[Any]]:
    """Harmless rows."""
    x, y = rng.uniform(0, 1, ROWS), rng.uniform(0, 1, ROWS)
    return {"x": x.round(6).tolist(), "y": y.round(6).tolist(), "g": rng.choice(["a", "b"], ROWS).tolist()}


def text_file(columns: dict[str, list[Any]], place: int, column: str, cell: bytes | None) -> bytes:
    """A file of text with a row more at a place, whose cell of one column is these bytes; None for no such row."""
    lines = [",".join(map(str, row)).encode() for row in zip(*columns.values(), strict=True)]
    if cell is not None:
        harmless = {"x": b"0.5", "y": b"0.5", "g": b"a"}
        lines.insert(place, b",".join((harmless | {column: cell})[name] for name in columns))
    return b"\n".join([",".join(columns).encode(), *lines]) + b"\n"


def parquet_file(columns: dict[str, list[Any]], place: int, column: str, kind: pa.DataType, cell: Any) -> bytes:
    """The same as Parquet, with a type of the column; Ellipsis for no such row."""
    made = {}
    for name, cells in columns.items():
        own = kind if name == column else (pa.string() if name == "g" else pa.float64())
        # What a column of this type holds beside the hostile cell.
        plain = {pa.bool_(): True, pa.string(): "a", pa.large_string(): "a"}
        filler = plain.get(own, "a" if pa.types.is_dictionary(own) else 1)
        values = list(cells) if own in (pa.float64(), pa.float32()) and name != "g" else [filler] * len(cells)
        values = list(cells) if name == "g" and own == pa.string() else values
        if cell is not ...:
            values.insert(place, cell if name == column else {"x": 0.5, "y": 0.5, "g": "a"}[name])
        made[name] = pa.array(values, own)
    out = io.BytesIO()
    parquet.write_table(pa.table(made), out)
    return out.getvalue()


def cells_of_text() -> Iterator[bytes]:
    """The bytes above, and the texts of what hostile cells there are, bare and as a writer of CSV quotes them."""
    yield from RAW
    for cell in TAME:
        with contextlib.suppress(Exception):
            text = str(cell.make())
            quoted = io.StringIO()
            csv.writer(quoted).writerow([text])
            yield text.encode("utf-8", "surrogateescape")[:1_000_000]
            yield quoted.getvalue().removesuffix("\r\n").encode("utf-8", "surrogateescape")


def sweep(tables: int, seed: int = 0) -> tuple[list[str], Counter[str]]:
    """Findings of so many pairs of neighbours, and how often their requests ended in which state."""
    chance, findings, states = random.Random(seed), list[str](), Counter[str]()
    texts = list(cells_of_text())
    for start in range(0, tables, 200):
        with tempfile.TemporaryDirectory() as folder:
            served = Served(Path(folder))
            for number in range(start, min(tables, start + 200)):
                columns = rows(np.random.default_rng([seed, number]))
                place, column = chance.choice([0, ROWS // 2, ROWS]), chance.choice(list(columns))
                if chance.random() < 0.6:
                    cell: Any = chance.choice(texts)
                    kind, files = "csv", [text_file(columns, place, column, one) for one in (cell, None)]
                else:
                    kind = "parquet"
                    type_, values = chance.choice(VALUES)
                    cell = chance.choice(values)
                    files = [parquet_file(columns, place, column, type_, one) for one in (cell, ...)]
                sides = [f"with_{kind}", f"none_{kind}"]
                for side, content in zip(sides, files, strict=True):
                    (served.folder / SETS[side]).write_bytes(content)
                name = chance.choice(list(REQUESTS))
                (was, state), (other, _) = (served.transcript(side, name) for side in sides)
                states[state] += 1
                if was != other:
                    at = next(i for i, (a, b) in enumerate(zip(was + "\0", other + "\0", strict=False)) if a != b)
                    shown = [text[max(0, at - 60) : at + 140] for text in (was, other)]
                    findings.append(f"{name}, {kind}, {column}, place {place}, {cell!r:.80}: " + json.dumps(shown))
    return findings, states


def main() -> int:
    parser = argparse.ArgumentParser(description="Neighbouring tables served by an office.")
    parser.add_argument("tables", nargs="?", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    start = time.perf_counter()
    findings, states = sweep(chosen.tables, chosen.seed)
    print(f"{chosen.tables} pairs of tables in {time.perf_counter() - start:.0f} s; ended as {dict(states)}")
    for one in findings[:20]:
        print(one)
    print(f"{len(findings)} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())

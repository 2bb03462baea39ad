"""Hostile requests to an office, made from its own OpenAPI text, beside an analyst who works.

``python -m benchmarks.office.hostile [requests] [--seed SEED]``.

An office with canaries in its rows, its paths and its count of rows is served on this machine. Requests have the form
that the OpenAPI text describes, with hostile values in it; paths with tricks; bodies that are huge, deep, torn or no
JSON; formulas of 10^6 letters, and short ones that ask for a year; wrong tokens and forged cookies. No answer may have
a status of 5xx, and neither answers nor logs may hold a canary. The exit status is 1 otherwise, or if the plans of an
analyst who works beside take more than twice as long as without.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import logging
import random
import re
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import uvicorn

from dpstats.office.api import create_app
from dpstats.office.config import Office
from dpstats.office.security import Limits
from dpstats.office.service import Service

ROWS = 2_749
CANARY = "canary7041"
NUMBER = 0.70411997
FILE = """
[office]
folder = "state{canary}"
[data.survey]
source = "rows{canary}.csv"
domain = "codebook{canary}.csv"
ledger = "ledger{canary}"
eps = 1000.0
most_eps = 2.0
rows = 2000
approve = true
"""
SECRETS = re.compile(rf"{CANARY}|{NUMBER}|(?<![\d.]){ROWS}(?!\d)|Traceback|site-packages|\.py\b|/tmp/|/work/")
"""What no answer and no log may hold unless the request did."""

TEXTS: tuple[str, ...] = (
    *("", " ", "survey", "glm", "y ~ x", "y ~ x + g", "y", "~", "y ~", "y ~ .", "y ~ y", "x" * 7_999, "x" * 8_001),
    *("../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "C:\\secret", "%00", "\x00", "\ud800", "\u202e", "\n"),
    *("' OR 1=1 --", '"; DROP TABLE job; --', "<script>alert(1)</script>", "{{7*7}}", "${jndi:ldap://x}", "`id`"),
    *("y ~ __import__('os').system('id')", "y ~ x.__class__.__mro__", "y ~ eval('1')", "y ~ open('/etc/passwd')"),
    *("y ~ x.mean()", "y ~ x - np.mean(x)", "y ~ np.random.normal(size=3)", "y ~ lambda: x", "y ~ [x for x in x]"),
    *("y ~ C(g, levels=['a'])", "y ~ bs(x, df=0)", "y ~ bs(x, df=-1)", "y ~ I(x ** 9**9)", "y ~ x + x + x" * 50),
    *("y ~ " + "(" * 300 + "x" + ")" * 300, "y ~ " + "-" * 5_000 + "x", "y ~ x" + " + x" * 1_900, "𝓎 ~ 𝓍", "y ~ `x`"),
    *("nan", "inf", "1e999", "auto", "napp", "posterior", "gaussian", "poisson", "huber_svm", "0" * 32, "a" * 32),
)
DEAR = ("y ~ bs(x, df=100000)", "y ~ poly(x, 100000)", "y ~ (x + g + y) ** 90", "y ~ bs(x, df=2000)")
"""Short formulas that ask for hours."""

NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 0.5, 1e-300, 1e300, -1e300, 2**31, 2**53, 2**63, 10**40, 1e-9, 1.5, True, False, None, [], {}, "1"),
)
NAMES = (
    *("x", "y", "g", "formula", "eps", "delta", "family", "penalty", "alpha", "weights", "subset", "offset", "method"),
    *("seed", "ledger", "data", "domain", "engine", "memory", "inference", "typical", "unit", "curvature", "radius"),
    *("rows_at_most", "__class__", "fit", "candidates", "score", "columns", "metrics", "bins"),
)

TARGETS = (
    *("/", "//", "/v1", "/v1/", "/v1/releases/../..", "/v1/keeper/audit", "*", "/" * 900, "/login?next=//x"),
    *("/static/../office.toml", "/%2e%2e/", "/static/%2e%2e/pages.py", "/static/..%5c..%5coffice.toml"),
    "/v1/datasets/survey?" + "a=1&" * 9_000,
)
BODIES = (
    *(
        b"[" * 20_000,
        b'{"a":' * 20_000,
        b"[" * 30,
        b'{"arguments":{"formula":[' * 30,
        b"\xff\xfe" * 99,
        b"null",
        b"NaN",
    ),
    *(b"{" + b'"a":1,' * 9_000, b'{"a":1,"a":2}', b'{"dataset":"survey","verb":"gl', b""),
    b'{"dataset":"survey","verb":"glm","arguments":{"eps":1' + b"0" * 9_000 + b"}}",
)


@dataclass
class Report:
    """What was sent and what went wrong."""

    statuses: Counter[int] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


class Hostile:
    """Requests by chance, from a seed."""

    def __init__(self, document: dict[str, Any], token: str, cookie: str, seed: int, dear: float) -> None:
        self.document, self.token, self.cookie = document, token, cookie
        self.random, self.dear = random.Random(seed), dear

    def value(self, depth: int = 0) -> Any:
        """Any JSON."""
        kind = self.random.random()
        if depth > 3 or kind < 0.4:
            return self.random.choice(TEXTS)
        if kind < 0.75:
            return self.random.choice(NUMBERS)
        if kind < 0.88:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        return {self.random.choice(NAMES + TEXTS): self.value(depth + 1) for _ in range(self.random.randrange(4))}

    def of(self, schema: dict[str, Any]) -> Any:
        """A value of a schema, hostile now and then."""
        if self.random.random() < 0.12:
            return self.value()
        kind = schema.get("type")
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if kind == "object":
            properties = schema.get("properties", {})
            made = {
                name: self.of(part)
                for name, part in properties.items()
                if name in schema.get("required", ()) or self.random.random() < 0.5
            }
            if properties.keys() >= {"formula", "eps"}:
                made |= {"formula": self.formula(), "eps": self.random.choice((0.5, 1, *NUMBERS))}
            if schema.get("additionalProperties") is not False and self.random.random() < 0.4:
                made[self.random.choice(NAMES)] = self.value()
            return made
        if kind == "array":
            return [self.of(schema["items"]) for _ in range(self.random.randrange(4))]
        if kind == "boolean":
            return self.random.random() < 0.5
        if kind in ("number", "integer"):
            return self.random.choice(NUMBERS)
        return "survey" if "pattern" in schema and "{32}" not in schema["pattern"] else self.random.choice(TEXTS)

    def formula(self) -> str:
        if self.random.random() < self.dear:
            return self.random.choice(DEAR)
        return self.random.choice(TEXTS) if self.random.random() < 0.6 else "y ~ x + g"

    def request(self) -> tuple[str, bytes, dict[str, str], bytes | None]:
        """Method, target, headers and body."""
        chance = self.random
        path = chance.choice(list(self.document["paths"]))
        method = chance.choice(list(self.document["paths"][path])).upper()
        operation = self.document["paths"][path][method.lower()]
        parts = ["survey", "0" * 32, "..", "%2e%2e", "%00", "%ff", "a%0d%0aX-Y: 1", "x" * 5_000, "%2fetc%2fpasswd", "*"]
        target = re.sub(r"{\w+}", lambda _: chance.choice(parts), path)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        headers["Idempotency-Key"] = f"{chance.getrandbits(128):032x}"
        body: bytes | None = None
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            body = json.dumps(self.of(schema)).encode()
        trick = chance.random()
        if trick < 0.05:
            method = chance.choice(["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "POST", "GET", "X" * 100])
        elif trick < 0.10:
            target = chance.choice(TARGETS)
        elif trick < 0.18:
            headers |= chance.choice(
                [{"Authorization": f"Bearer {one}"} for one in (self.token[:-1], "a" * 43, "", "a" * 9_000, "%00")]
                + [{"Authorization": f"Basic {self.token}"}, {"Host": "evil.example"}, {"Host": ""}]
                + [{"Content-Type": one} for one in ("text/plain", "application/x-www-form-urlencoded", "")]
                + [{"Content-Encoding": "gzip"}, {"X-Forwarded-For": "'"}, {"Idempotency-Key": "a"}]
            )
        elif trick < 0.24:
            del headers["Authorization"]
            name = self.cookie
            headers["Cookie"] = chance.choice([f"{name}={'a' * 43}", f"{name}=", f"{name}={self.token}", "=" * 999])
        elif trick < 0.32:
            body = chance.choice(BODIES)
        elif trick < 0.325:
            asked = {"dataset": "survey", "verb": "glm", "arguments": {"formula": "y ~ x" + " + x" * 250_000, "eps": 1}}
            body = json.dumps(asked).encode()
        return method, target.encode("utf-8", "surrogatepass"), headers, body


def send(port: int, method: str, target: bytes, headers: dict[str, str], body: bytes | None) -> tuple[int, str]:
    """Status, and headers and content as one text, of a request that is sent as it stands."""
    lines = [method.encode() + b" " + target.replace(b" ", b"%20") + b" HTTP/1.1"]
    headers = {"Host": f"127.0.0.1:{port}", "Connection": "close", **headers}
    lines += [f"{name}: {value}".encode() for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}".encode()] if body is not None else []
    with socket.create_connection(("127.0.0.1", port), timeout=120) as line:
        with contextlib.suppress(ConnectionError):  # an office may answer before a long body is through
            line.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + (body or b""))
        answer = http.client.HTTPResponse(line, method=method)
        try:
            answer.begin()
            content = answer.read()
        except (http.client.HTTPException, ConnectionError):
            return 0, ""
    return answer.status, f"{answer.headers}\n{content.decode('utf-8', 'replace')}"


@contextlib.contextmanager
def running(folder: Path, keeper: bool = False) -> Iterator[tuple[int, Service, str]]:
    """The port of an office with canaries, its service and the name of its cookie."""
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({"x": rng.uniform(0, 1, ROWS), "y": rng.uniform(0, 1, ROWS), "g": rng.choice(["a", "b"], ROWS)})
    rows.loc[7] = [NUMBER, NUMBER, CANARY]
    rows.to_csv(folder / f"rows{CANARY}.csv", index=False)
    (folder / f"codebook{CANARY}.csv").write_text("name,low,high,levels\nx,0,2,\ny,0,1,\ng,,,a|b\n")
    (folder / "office.toml").write_text(FILE.format(canary=CANARY))
    office = Office.load(folder / "office.toml")
    for dataset in office.datasets.values():
        dataset.make_ledger().close()
    service = Service(office)
    limits = Limits(calls=(1e6, 1e6), strangers=(1e6, 1e6))  # what stands behind the rates is to be tested
    app = create_app(service, keeper=keeper, limits=limits)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="critical", access_log=False, server_header=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1], service, app.state.sessions.cookie
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
        service.stop()


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def attack(
    count: int, seed: int = 0, *, keeper: bool = False, dear: float = 0.002, plans: int = 40
) -> tuple[Report, list[float], list[float]]:
    """Send so many requests; the report, and the seconds that plans of another analyst took without and beside them."""
    report, heard = Report(), _Heard()
    logging.getLogger().addHandler(heard)
    with tempfile.TemporaryDirectory(prefix=CANARY) as folder, running(Path(folder), keeper) as (port, service, cookie):
        token = service.new_keeper_token() if keeper else service.add_analyst("mallory")
        other = {"Authorization": f"Bearer {service.add_analyst('anna')}", "Content-Type": "application/json"}

        def planned(number: int) -> float:
            asked = {"formula": "y ~ x + g", "eps": 1 + number / 1e6}
            body = json.dumps({"dataset": "survey", "verb": "glm", "arguments": asked}).encode()
            start = time.perf_counter()
            status, content = send(port, "POST", b"/v1/plan", other, body)
            if status != 200:
                report.findings.append(f"anna: {status} {content[-300:]}")
            return time.perf_counter() - start

        alone, beside = [] if keeper else [planned(at) for at in range(plans)][10:], []
        over = threading.Event()

        def working() -> None:
            at = 100
            while not over.wait(0.2):
                beside.append(planned(at))
                at += 1

        worker = threading.Thread(target=working, daemon=True)
        if not keeper:
            worker.start()
        document = json.loads(send(port, "GET", b"/v1/openapi.json", {}, None)[1].partition("\n\n")[2])
        hostile = Hostile(document, token, cookie, seed, dear)
        for number in range(count):
            request = hostile.request()
            status, content = send(port, *request)
            report.statuses[status] += 1
            sent = (repr(request) + json.dumps(repr(request))).replace("\\", "")
            leaked = [one for one in SECRETS.findall(content) if one not in sent]
            if status >= 500 or leaked:
                report.findings.append(
                    f"request {number} of seed {seed}: {status} {leaked} {request!r:.600} -> {content[-400:]}"
                )
        over.set()
        if worker.is_alive():
            worker.join(60)
        rest = 200 if keeper or send(port, "GET", b"/v1/datasets", other, None)[0] == 200 else 0
        if rest != 200:
            report.findings.append("the office does not answer any more")
    logging.getLogger().removeHandler(heard)
    report.findings += [f"log: {line}" for line in heard.lines if SECRETS.search(line) or "failed" in line]
    return report, alone, beside


def main() -> int:
    parser = argparse.ArgumentParser(description="Hostile requests to an office.")
    parser.add_argument("requests", nargs="?", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keeper", action="store_true", help="to the keeper's listener, with the keeper's token")
    chosen = parser.parse_args()
    start = time.perf_counter()
    report, alone, beside = attack(chosen.requests, chosen.seed, keeper=chosen.keeper)
    print(f"{chosen.requests} requests in {time.perf_counter() - start:.0f} s", dict(sorted(report.statuses.items())))
    slow = False
    if alone and beside:
        was, became = (float(np.quantile(times, 0.5)) for times in (alone, beside))
        print(f"plans of another analyst: median {1e3 * was:.0f} ms alone, {1e3 * became:.0f} ms beside; "
              f"95 %: {1e3 * np.quantile(alone, 0.95):.0f} and {1e3 * np.quantile(beside, 0.95):.0f} ms")  # fmt: skip
        slow = became > 2 * was
    for one in report.findings[:20]:
        print(one)
    print(f"{len(report.findings)} findings")
    return int(bool(report.findings) or slow)


if __name__ == "__main__":
    sys.exit(main())

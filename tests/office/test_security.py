"""What stands before every request: tokens, sessions, limits, headers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")

from starlette.responses import Response
from starlette.testclient import TestClient

from dpstats.office import security
from dpstats.office.api import create_app
from dpstats.office.security import HEADERS, Buckets, Limits, Refused, Sessions, parse_json

FIT = {"dataset": "survey", "verb": "glm", "arguments": {"formula": "y ~ x", "eps": 1.0}}


@pytest.fixture
def service(opened: Callable[..., Any]) -> Any:
    return opened()


def test_tokens(service: Any) -> None:
    token = service.add_analyst("anna")
    client = TestClient(create_app(service, keeper=False), base_url="http://127.0.0.1")
    wrong = ["", token[:-1], token + "a", token.swapcase(), "Ω" * 43, "a" * 10_000, service.new_keeper_token()]
    answers = {
        (answer.status_code, answer.content)
        for one in wrong
        for answer in [client.get("/v1/datasets", headers={"Authorization": f"Bearer {one}".encode()})]
    }
    assert len(answers) == 1
    assert answers.pop()[0] == 401
    assert client.get("/v1/datasets", headers={"Authorization": f"bearer {token}"}).status_code == 200
    # In an address it would be in logs and histories.
    assert client.get(f"/v1/datasets?token={token}").status_code == 401
    service.revoke("anna")
    assert client.get("/v1/datasets", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_a_session_needs_its_csrf_token_and_its_own_pages(service: Any) -> None:
    app = create_app(service, keeper=False)
    sessions: Sessions = app.state.sessions
    session = sessions.open(service.add_analyst("anna"))
    client = TestClient(app, base_url="http://127.0.0.1", cookies={sessions.cookie: session.id})
    assert client.get("/v1/datasets").status_code == 200
    good = {"X-CSRF-Token": session.csrf, "Origin": "http://127.0.0.1"}
    assert client.post("/v1/plan", json=FIT, headers=good).status_code == 200
    for bad in (
        {},
        {"X-CSRF-Token": session.id},
        good | {"Origin": "http://127.0.0.1.example.org"},
        good | {"Origin": "null"},
        good | {"Sec-Fetch-Site": "cross-site"},
        good | {"Sec-Fetch-Site": "same-site"},
    ):
        assert client.post("/v1/plan", json=FIT, headers=bad).status_code == 403
    sessions.close(session)
    assert client.get("/v1/datasets").status_code == 401


@pytest.mark.parametrize("cookie", ["x", "a" * 43, "", "%00", '"', "a=b"])
def test_forged_cookies(service: Any, cookie: str) -> None:
    app = create_app(service, keeper=False)
    session = app.state.sessions.open(service.add_analyst("anna"))
    name = app.state.sessions.cookie
    client = TestClient(app, base_url="http://127.0.0.1")
    for header in (f"{name}={cookie}", f"{name}={session.csrf}", f"{name}={session.id}; {name}={cookie}"):
        assert client.get("/v1/datasets", headers={"Cookie": header}).status_code == 401


def test_sessions_end(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(service, keeper=False)
    sessions: Sessions = app.state.sessions
    session = sessions.open(service.add_analyst("anna"))
    client = TestClient(app, base_url="http://127.0.0.1", cookies={sessions.cookie: session.id})
    service.revoke("anna")
    assert client.get("/v1/datasets").status_code == 401
    monkeypatch.setattr(security.time, "monotonic", lambda: session.ends + 1)
    assert sessions.find(session.id) is None


def test_the_cookie_is_for_this_site_alone() -> None:
    for secure in (True, False):
        sessions, response = Sessions("office", secure=secure), Response()
        sessions.set_cookie(response, sessions.open("t" * 43))
        words = response.headers["set-cookie"].split("; ")
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(words)
        assert ("Secure" in words) == words[0].startswith("__Host-") == secure
        assert not any(word.startswith("Domain") for word in words)


def test_every_answer_has_the_headers(service: Any) -> None:
    client = TestClient(create_app(service, keeper=False), base_url="http://127.0.0.1")
    token = {"Authorization": f"Bearer {service.add_analyst('anna')}"}
    answers = [
        client.get("/v1/datasets", headers=token),
        client.get("/v1/openapi.json"),
        client.get("/nothing"),
        client.get("/v1/datasets"),
        client.delete("/v1/datasets"),
        client.get("/v1/openapi.json", headers={"Host": "evil.example"}),
        client.post("/v1/plan", content=b"{" * 100, headers=token),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 401, 405, 421, 415]
    for answer in answers:
        assert HEADERS.items() <= dict(answer.headers).items()
        assert "server" not in answer.headers
    assert "unsafe" not in HEADERS["content-security-policy"]


PATHS = (
    *("/v1/../office.toml", "/v1/%2e%2e/x", "/static/..%2foffice.toml", "/v1//datasets", "/v1/datasets/%00"),
    *("/v1/datasets/..%5c..%5cx", "/v1/datasets/a/b", "/etc/passwd"),
)


@pytest.mark.parametrize("path", PATHS)
def test_paths_lead_nowhere(service: Any, path: str) -> None:
    client = TestClient(create_app(service, keeper=False), base_url="http://127.0.0.1")
    headers = {"Authorization": f"Bearer {service.add_analyst('anna')}"}
    # As it stands, which most clients would tidy up.
    sent = client.request("GET", "http://127.0.0.1/", headers=headers, extensions={"target": path.encode()})
    assert sent.status_code in (200, 303, 404)
    assert client.get(path, headers=headers).status_code == 404


def test_limits_of_a_body(service: Any) -> None:
    limits = Limits(body=2_000, text=100, depth=8)
    client = TestClient(create_app(service, keeper=False, limits=limits), base_url="http://127.0.0.1")
    token = {"Authorization": f"Bearer {service.add_analyst('anna')}", "Content-Type": "application/json"}

    def status(body: bytes | Any, **more: str) -> int:
        return client.post("/v1/plan", content=body, headers=token | more).status_code

    assert status(json.dumps(FIT).encode()) == 200
    assert status(b"x" * 2_001) == 413
    assert status(iter([b"x" * 1_500, b"x" * 1_500])) == 413  # without a length
    assert status(b"{}", **{"Content-Length": "9" * 30}) == 413
    assert status(json.dumps({**FIT, "label": "x" * 101}).encode()) == 413
    assert status(b"[" * 500) == 400
    assert status(json.dumps(FIT).encode(), **{"Content-Type": "text/plain"}) == 415


NO_BODIES = (
    *('{"a": NaN}', '{"a": 1e999}', '{"a": -Infinity}', '{"a": 9007199254740993}', '{"a": 1' + "0" * 5000 + "}"),
    *('{"a": 1, "a": 2}', '["a"]', "1", "", "\ufeff{}", '{"a": "', '{"a":' * 30 + "1" + "}" * 30),
    *('{"a": "\\u0000"}', '{"a": "\\ud800"}', '{"\\u001b[31m": 1}'),
)


@pytest.mark.parametrize("text", NO_BODIES, ids=range(len(NO_BODIES)))
def test_what_is_no_body(text: str) -> None:
    with pytest.raises(Refused):
        parse_json(text.encode(), Limits())
    with pytest.raises(Refused):
        parse_json(text.encode() + b"\xff", Limits())


def test_brackets_in_texts_are_no_depth() -> None:
    body = {"formula": "[{" * 100 + '\\"]}', "x": ["]", "}"]}
    assert parse_json(json.dumps(body).encode(), Limits()) == body


def test_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(security.time, "monotonic", lambda: now[0])
    buckets = Buckets(1.0, 3.0, most=2)
    assert [buckets.take("a") for _ in range(4)] == [True, True, True, False]
    assert buckets.take("b")
    now[0] = 2.0
    assert [buckets.take("a") for _ in range(3)] == [True, True, False]


def test_strangers_do_not_lock_out_who_has_a_token(service: Any) -> None:
    limits = Limits(strangers=(0.001, 5), calls=(0.001, 20))
    client = TestClient(create_app(service, keeper=False, limits=limits), base_url="http://127.0.0.1")
    token = {"Authorization": f"Bearer {service.add_analyst('anna')}"}
    assert [client.get("/v1/datasets").status_code for _ in range(7)] == [401] * 5 + [429] * 2
    assert [client.get("/v1/releases", headers=token).status_code for _ in range(21)] == [200] * 20 + [429]


def test_nobody_ends_the_sessions_of_others() -> None:
    sessions = Sessions("office", secure=False)
    others, mine = sessions.open("o" * 43), [sessions.open("m" * 43) for _ in range(20)]
    assert sessions.find(others.id) == others
    assert [sessions.find(one.id) is not None for one in mine] == [False] * 12 + [True] * 8


def test_bodies_that_do_not_come_keep_no_stranger_of_the_same_address_out(service: Any) -> None:
    app = create_app(service, keeper=False, limits=Limits(seconds=0.3))
    path = {"type": "http", "method": "POST", "path": "/login", "query_string": b"", "client": ("10.0.0.1", 1)}
    path |= {"headers": [(b"host", b"127.0.0.1")], "http_version": "1.1", "scheme": "http", "root_path": ""}

    async def answer(*messages: dict[str, Any]) -> int:
        sent, coming = [], list(messages)

        async def receive() -> dict[str, Any]:
            if not coming:
                await asyncio.sleep(5)
            return coming.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        await app(dict(path), receive, send)
        return int(sent[0]["status"])

    async def all_answers() -> list[int]:
        slow = [asyncio.create_task(answer()) for _ in range(6)]
        await asyncio.sleep(0.05)
        last = await answer({"type": "http.request", "body": b"token=x", "more_body": False})
        return [last, *await asyncio.gather(*slow)]

    assert asyncio.run(all_answers()) == [401] + [408] * 6


def test_a_body_has_one_length(service: Any) -> None:
    client = TestClient(create_app(service, keeper=False), base_url="http://127.0.0.1")
    token = {"Authorization": f"Bearer {service.add_analyst('anna')}", "Content-Type": "application/json"}
    both = token | {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    assert client.post("/v1/plan", content=b"{}", headers=both).status_code == 400


def test_only_hosts_of_the_file_are_answered(opened: Any) -> None:
    for more in ({}, {"behind_tls": True, "hosts": ("office.example.org",)}):
        service = opened()
        service.office = replace(service.office, **more)
        for keeper in (False, True):
            client = TestClient(create_app(service, keeper=keeper), base_url="http://127.0.0.1")
            answers = {
                host: client.get("/v1/openapi.json", headers={"Host": host}).status_code
                for host in ("localhost:8470", "office.example.org", "office.example.org:443", "evil.example")
            }
            assert list(answers.values()) == [200, *([200, 200] if more else [421, 421]), 421]

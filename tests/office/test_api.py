"""The office over HTTP: what is asked, what is answered, and that answers follow from public facts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")

from offices import work_here
from starlette.testclient import TestClient

import dpstats as dp
from dpstats.errors import LedgerError
from dpstats.office.api import create_app, tables
from dpstats.office.request import from_result, to_result
from dpstats.office.security import STATUS, UNAVAILABLE

# Workers outlive the pool that has started them.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")

FIT = {"dataset": "survey", "verb": "glm", "arguments": {"formula": "y ~ x", "eps": 1.0}}
KEY = {"Idempotency-Key": "k" * 32}


@pytest.fixture
def service(opened: Callable[..., Any]) -> Any:
    return opened()


def speak(service: Any, token: str | None, *, keeper: bool = False) -> TestClient:
    """A client with a token in its header."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return TestClient(create_app(service, keeper=keeper), base_url="http://127.0.0.1", headers=headers)


@pytest.fixture
def anna(service: Any) -> Iterator[TestClient]:
    with speak(service, service.add_analyst("anna")) as client:
        yield client


def finished(client: TestClient, job: dict[str, Any]) -> dict[str, Any]:
    """The job once it may be shown."""
    deadline = time.monotonic() + 60
    while job["state"] in ("waiting", "working"):
        assert time.monotonic() < deadline
        time.sleep(max(0.02, job["wait"] or 0.02))
        job = client.get(f"/v1/releases/{job['id']}").json()
    return job


def test_public_facts(anna: TestClient) -> None:
    (one,) = anna.get("/v1/datasets").json()["datasets"]
    assert anna.get("/v1/datasets/survey").json() == one
    assert one["left"] == {"eps": 10.0, "delta": 0.0}
    assert dp.Domain.from_dict(one["domain"]) == dp.Domain(x=(0, 2), y=(0, 1), g=["a", "b"])
    assert anna.get("/v1/datasets/other").status_code == 404


@pytest.mark.slow
def test_a_plan_is_free(anna: TestClient) -> None:
    facts = anna.post("/v1/plan", json=FIT | {"forecast": True}).json()
    local = dp.plan("y ~ x", {"x": (0, 2), "y": (0.0, 1.0), "g": ["a", "b"]}, 1.0)
    assert facts["digest"] == local.digest()
    assert facts["costs"] == {"eps": 1.0, "delta": 0.0}
    assert facts["forecast"]
    rows = anna.post("/v1/made-up", json=FIT | {"rows": 20})
    assert rows.headers["content-type"].startswith("text/csv")
    assert len(rows.text.splitlines()) == 21
    assert anna.get("/v1/datasets/survey").json()["left"]["eps"] == 10.0


@pytest.mark.slow
def test_a_release(anna: TestClient, service: Any) -> None:
    service.start()
    taken = anna.post("/v1/releases", json=FIT, headers=KEY)
    assert taken.status_code == 201
    again = anna.post("/v1/releases", json=FIT, headers=KEY)
    assert (again.status_code, again.json()["id"]) == (200, taken.json()["id"])
    other = anna.post("/v1/releases", json=FIT | {"label": "other"}, headers=KEY)
    assert (other.status_code, other.json()["error"]["type"]) == (422, "ArgumentError")

    job = finished(anna, taken.json())
    fit = from_result(job["result"])
    assert isinstance(fit, dp.GLMResults)
    assert anna.get("/v1/datasets/survey").json()["left"]["eps"] == 9.0
    assert "result" not in anna.get("/v1/releases").json()["releases"][0]

    table = anna.get(f"/v1/releases/{job['id']}/table?level=0.9").json()
    assert table["tidy"]["estimate"] == pytest.approx(fit.tidy()["estimate"].tolist())
    assert table["tidy"]["conf_low"] == pytest.approx(fit.conf_int(0.1)[0].tolist())
    assert table["vcov"]["rows"] == pytest.approx(fit.cov_params().to_numpy(), nan_ok=True)
    sent = {"newdata": {"x": [0.5, None]}, "level": 0.95}
    predicted = anna.post(f"/v1/releases/{job['id']}/predict", json=sent).json()
    assert predicted["predicted"] == [pytest.approx(fit.predict({"x": [0.5]})[0]), None]
    assert predicted["mean_ci_lower"][0] < predicted["mean"][0] < predicted["mean_ci_upper"][0]

    with speak(service, service.add_analyst("ben")) as ben:
        address = f"/v1/releases/{job['id']}"
        assert ben.get(address).status_code == ben.get(f"{address}/table").status_code == 404
        assert ben.get(f"/v1/releases/{'0' * 32}").content == ben.get(address).content
        assert ben.post(f"{address}/share", json={"shared": True}).status_code == 404
        assert anna.post(f"{address}/share", json={"shared": True}).json()["shared"]
        assert ben.get(address).json()["result"] == job["result"]


@pytest.mark.slow
def test_the_keeper_decides(opened: Callable[..., Any]) -> None:
    service = opened("approve = true")
    with (
        speak(service, service.add_analyst("anna")) as anna,
        speak(service, service.new_keeper_token(), keeper=True) as keeper,
    ):
        first, second = (
            anna.post("/v1/releases", json=FIT | {"label": name}, headers={"Idempotency-Key": name * 16}).json()
            for name in "ab"
        )
        assert {first["state"], second["state"]} == {"waiting"}
        waiting = keeper.get("/v1/keeper/waiting").json()["releases"]
        assert [one["id"] for one in waiting] == [first["id"], second["id"]]
        assert keeper.post(f"/v1/keeper/releases/{first['id']}/approve").json()["state"] == "working"
        assert keeper.post(f"/v1/keeper/releases/{second['id']}/refuse").json()["state"] == "refused"
        work_here(service)  # only now: on a busy machine its deadline may pass before the answer is read
        service._pool.wake()
        assert finished(anna, first)["state"] == "released"
        assert keeper.post("/v1/keeper/analysts", json={"name": "ben"}).json()["token"]
        assert keeper.post("/v1/keeper/analysts/anna/revoke").json() == {"name": "anna", "revoked": True}
        assert anna.get("/v1/datasets").status_code == 401
        assert {"anna", "ben"} <= {one["name"] for one in keeper.get("/v1/keeper/analysts").json()["analysts"]}
        assert keeper.get("/v1/keeper/budgets").json()["budgets"][0]["remaining"]["eps"] == 9.0
        assert {"request", "approve"} <= {one["act"] for one in keeper.get("/v1/keeper/audit?since=0").json()["audit"]}
        report = keeper.get("/v1/keeper/datasets/survey/report")
        assert "sandbox" in report.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (FIT | {"arguments": {"formula": "y ~ x.mean()", "eps": 1.0}}, "FormulaError"),
        (FIT | {"arguments": {"formula": "y ~ x", "eps": 50.0}}, "ArgumentError"),
        (FIT | {"arguments": {"formula": "y ~ x", "eps": 1.0, "ledger": "/tmp/x"}}, "ArgumentError"),
        (FIT | {"arguments": {"formula": "y ~ x", "eps": 1.0, "seed": 1}}, "ArgumentError"),
        (FIT | {"verb": "rm"}, "ArgumentError"),
        (FIT | {"dataset": "../survey"}, "ArgumentError"),
        ({"dataset": "survey"}, "ArgumentError"),
    ],
)
def test_refusals_are_those_of_the_plan(anna: TestClient, body: dict[str, Any], kind: str) -> None:
    planned, asked = anna.post("/v1/plan", json=body), anna.post("/v1/releases", json=body, headers=KEY)
    assert (planned.status_code, planned.json()["error"]["type"]) == (STATUS[kind], kind)
    assert planned.content == asked.content
    assert anna.get("/v1/releases").json() == {"releases": []}


@pytest.mark.parametrize(
    ("address", "body", "words"),
    [
        ("plan", FIT | {"forecast": 1}, "forecast must be of type boolean, got 1"),
        ("plan", FIT | {"forcast": True}, "'forcast' is not known here; the names are dataset, verb"),
        ("plan", {"dataset": "survey", "verb": "glm"}, "arguments is missing; this needs dataset verb arguments"),
        ("releases", FIT | {"label": 3}, "label must be of type string or null, got 3"),
        (f"releases/{'0' * 32}/predict", {"newdata": [1.0]}, "newdata must be of type object"),
    ],
)
def test_a_body_is_what_is_described(anna: TestClient, address: str, body: dict[str, Any], words: str) -> None:
    answer = anna.post(f"/v1/{address}", json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (422, "ArgumentError")
    assert words in answer.json()["error"]["message"]


def test_few_jobs_at_a_time(anna: TestClient) -> None:
    answers = [anna.post("/v1/releases", json=FIT, headers={"Idempotency-Key": f"{at:032}"}) for at in range(4)]
    assert [one.status_code for one in answers] == [201] * 3 + [429]
    assert answers[3].json()["error"]["type"] == "TooManyRequests"


def test_what_cannot_be_paid_for(anna: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpstats.office.service.MOST_WORKING", 6)
    dear = {**FIT, "arguments": {"formula": "y ~ x", "eps": 2.0}}
    answers = [anna.post("/v1/releases", json=dear, headers={"Idempotency-Key": f"{at:032}"}) for at in range(6)]
    assert [one.status_code for one in answers] == [201] * 5 + [409]
    assert answers[-1].json()["error"]["type"] == "BudgetExceeded"


def test_any_failure_is_one_constant(
    anna: TestClient, service: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bodies = set()
    for error in (KeyError("canary-7041"), LedgerError("/secret/canary-7041"), MemoryError(), RecursionError("x")):

        def failing(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(service, "plan", failing)
        answer = anna.post("/v1/plan", json=FIT)
        assert answer.status_code == 503
        bodies.add((answer.content, str(sorted(answer.headers))))
    assert len(bodies) == 1
    assert json.loads(bodies.pop()[0])["error"]["message"] == UNAVAILABLE
    assert "canary" not in caplog.text
    assert "KeyError" in caplog.text


def test_the_description_covers_every_address(anna: TestClient, service: Any) -> None:
    with speak(service, None) as stranger, speak(service, None, keeper=True) as keeper:
        open_, kept = stranger.get("/v1/openapi.json").json(), keeper.get("/v1/openapi.json").json()
    assert not any("keeper" in path for path in open_["paths"])
    assert all(path.startswith("/v1/keeper/") for path in kept["paths"])
    for app, paths in (
        (create_app(service, keeper=False), open_["paths"]),
        (create_app(service, keeper=True), kept["paths"]),
    ):
        served = {(route.path, method) for route in app.routes for method in getattr(route, "methods", None) or ()}
        described = {(path, method.upper()) for path, methods in paths.items() for method in methods}
        own = {one for one in served if one[0].startswith("/v1/") and one[1] != "HEAD"}
        assert own == described | {("/v1/openapi.json", "GET")}


def test_each_listener_has_its_own_addresses(anna: TestClient, service: Any) -> None:
    assert anna.get("/v1/keeper/waiting").status_code == 404
    token = anna.headers["Authorization"].removeprefix("Bearer ")
    with speak(service, token, keeper=True) as keeper:
        assert keeper.get("/v1/keeper/waiting").status_code == 401
        assert keeper.get("/v1/datasets").status_code == 404


def test_a_table_without_errors_has_no_columns_of_them() -> None:
    """By these the client for R says that the budget has not paid for any."""
    rows = {"x": np.linspace(0, 1, 500), "y": np.linspace(0, 1, 500)}
    domain = {"x": (0, 1), "y": (0, 1)}
    fits = [dp.ols("y ~ x", rows, 5.0, domain=domain, inference=paid, seed=1) for paid in (None, True)]
    without, paid = (tables(to_result(fit), 0.95)["tidy"] for fit in fits)
    assert set(paid) - set(without) == {"std_error", "statistic", "p_value", "conf_low", "conf_high"}

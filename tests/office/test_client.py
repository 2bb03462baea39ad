"""`dp.connect`: the same results as from one's own rows, over HTTP."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("uvicorn")

from offices import work_here
from served import served

import dpstats as dp
from dpstats.errors import ArgumentError, BudgetExceeded, FormulaError, OfficeError, ReleaseError
from dpstats.office import client as client_module

# Workers outlive the pool that has started them.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")

TOKEN = "t" * 43


@pytest.fixture
def service(opened: Callable[..., Any]) -> Any:
    return opened()


@pytest.fixture
def office(service: Any) -> Iterator[Any]:
    with served(service) as url:
        yield dp.connect(url, service.add_analyst("anna"))


def test_what_is_free(office: Any) -> None:
    assert office.datasets()["name"].tolist() == ["survey"]
    assert office.codebook("survey")["name"].tolist() == ["x", "y", "g"]
    plan = office.plan("y ~ x + g", "survey", eps=0.5)
    assert plan.costs == {"eps": 0.5, "delta": 0.0}
    assert plan.left["eps"] == 10
    assert "Private Generalized Linear Model" in str(plan)
    assert "<table" in plan._repr_html_()
    assert "Standard errors forecast for about 2000 rows" in str(plan)
    assert "divided by their noisy number" in str(plan)
    assert plan.standard_errors(2000).equals(plan.forecast)
    with pytest.raises(ArgumentError, match="n must be the declared number of rows, 2000"):
        plan.standard_errors(10)
    assert list(plan.forecast["term"]) == ["Intercept", "g[T.b]", "x"]
    assert office.made_up("y ~ x", "survey", eps=0.5, rows=7).shape[0] == 7
    assert office.releases().empty


@pytest.mark.slow
def test_a_fit_comes_back_whole(office: Any, service: Any, capsys: pytest.CaptureFixture[str]) -> None:
    work_here(service)
    fit = office.glm("y ~ x", "survey", eps=2.0, family=dp.families.Gaussian(), inference="model")
    assert isinstance(fit, dp.GLMResults)
    assert fit.guarantee.certified
    assert fit.conf_int().shape == (2, 2)
    assert "Private Generalized Linear Model" in str(fit.summary())
    assert capsys.readouterr().err == ""

    # The same call is the same release; another label asks for another one.
    again = office.glm("y ~ x", "survey", eps=2.0, family=dp.families.Gaussian(), inference="model")
    assert again.params.equals(fit.params)
    assert "paid for once" in capsys.readouterr().err
    assert office.plan("y ~ x", "survey", eps=1.0).left["eps"] == 8
    office.glm("y ~ x", "survey", eps=2.0, family=dp.families.Gaussian(), inference="model", label="again")
    assert office.plan("y ~ x", "survey", eps=1.0).left["eps"] == 6

    measured = office.evaluate(fit, "survey", eps=1.0)
    assert isinstance(measured, dp.Evaluation)
    table = office.releases()
    assert table["verb"].tolist() == ["evaluate", "glm", "glm"]
    assert office.release(table["id"].iloc[-1]).params.equals(fit.params)
    assert isinstance(office.evaluate(table["id"].iloc[-1], "survey", eps=1.0), dp.Evaluation)


@pytest.mark.slow
def test_the_other_verbs(office: Any, service: Any) -> None:
    work_here(service)
    bought = office.buy_ranges("survey", ["x"], eps=2.0)
    assert isinstance(bought, dp.BoughtRanges)
    narrow = office.glm("y ~ x", "survey", eps=1.0, domain=bought)
    assert narrow.plan.design.domain["x"] == bought.domain["x"]
    assert isinstance(office.check("y ~ x", "survey", eps=1.0), dp.Check)
    sums = office.release_statistics("survey", ["x", "y"], eps=2.0)
    assert isinstance(sums, dp.ReleasedStatistics)
    other = office.glm("y ~ x", "survey", eps=1.0, inference=None, weights=None)
    assert not other.has_errors
    chosen = office.select({"narrow": narrow, "other": other}, "squared_error", "survey", eps=0.5)
    assert isinstance(chosen, dp.Selection)


def test_refusals_are_errors_as_everywhere(office: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpstats.office.service.MOST_WORKING", 10)
    with pytest.raises(FormulaError, match="mean"):
        office.plan("y ~ x - x.mean()", "survey", eps=0.5)
    with pytest.raises(ArgumentError, match="seed"):
        office.glm("y ~ x", "survey", eps=0.5, seed=1)
    with pytest.raises(ArgumentError, match="did you mean"):
        office.glm("y ~ x", "servey", eps=0.5)
    with pytest.raises(ArgumentError, match="name at the office"):
        office.glm("y ~ x", {"x": [1.0]}, eps=0.5)
    with pytest.raises(ArgumentError, match="cannot be sent"):
        office.glm("y ~ x", "survey", eps=0.5, weights=object())
    with pytest.raises(ArgumentError, match="this office has released"):
        office.evaluate(
            dp.ols("y ~ x", {"x": [0.1], "y": [0.2]}, 1.0, domain={"x": (0, 1), "y": (0, 1)}), "survey", 1.0
        )
    for at in range(5):
        office._call("/v1/releases", _asked(f"{at}"))
    with pytest.raises(BudgetExceeded):
        office.glm("y ~ x", "survey", eps=2.0)


def _asked(label: str) -> dict[str, Any]:
    return {"dataset": "survey", "verb": "glm", "arguments": {"formula": "y ~ x", "eps": 2.0}, "label": label}


@pytest.mark.slow
def test_an_interrupt_leaves_the_release_to_the_office(
    office: Any, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.start()

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client_module, "time", SimpleNamespace(sleep=interrupted))
        with pytest.raises(KeyboardInterrupt):
            office.glm("y ~ x", "survey", eps=1.0)
    assert office.glm("y ~ x", "survey", eps=1.0).guarantee.eps == 1.0
    assert office.plan("y ~ x", "survey", eps=1.0).left["eps"] == 9


def test_short_calls_are_those_of_glm(office: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(office, "_release", lambda kind, request: asked.append(request["arguments"]))
    office.ols("y ~ x", "survey", 0.5)
    office.logit("g ~ x", "survey", 0.5)
    office.poisson("y ~ x", "survey", 0.5, y_max=20)
    office.svm("g ~ x", "survey", 0.5, loss="smooth")
    office.lasso("y ~ x", "survey", 0.5)
    families = [dp.families.Gaussian(), dp.families.Binomial(), dp.families.Poisson(y_max=20)]
    families.append(dp.families.SmoothSVM(0.5))
    assert [one["family"] for one in asked[:4]] == [family.to_dict() for family in families]
    assert asked[4]["penalty"] == "lasso"
    office.lasso("y ~ x", "survey", 0.5, residual_cap=2.0)
    assert asked[5]["family"] == dp.families.Gaussian(2.0).to_dict()
    with pytest.raises(ArgumentError, match="loss must be"):
        office.svm("g ~ x", "survey", 0.5, loss="hinge")


def test_addresses_and_tokens() -> None:
    for url in (
        "http://office.example.org",
        "http://10.0.0.1:8470",
        "http://localhost.example.org",
        "http://127.1.example",
    ):
        with pytest.raises(ArgumentError, match="https://"):
            dp.connect(url, TOKEN)
    for url in ("ftp://x", "office.example.org", "https://", "https://a:b@x.example", "https://x.example/?q", None, 3,
                "https://x:99999"):  # fmt: skip
        with pytest.raises(ArgumentError, match="url"):
            dp.connect(url, TOKEN)
    for token in ("short", "t" * 43 + "\r\nX: y", "Ω" * 43, None):
        with pytest.raises(ArgumentError, match="token"):
            dp.connect("https://office.example.org", token)


class Impostor(http.server.BaseHTTPRequestHandler):
    """An address that is no office; it keeps what it was sent."""

    seen: list[tuple[str, str | None]] = []  # noqa: RUF012
    status, body, more = 200, b"{}", {}

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization")))
        self.send_response(self.status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(self.body)),
            **self.more,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "body", "more", "message"),
    [
        (302, b"", {"Location": "http://127.0.0.1:9/v1/datasets"}, "status 302"),
        (200, b"<html>", {"Content-Type": "text/html"}, "not as an office"),
        (200, b"{", {}, "not as an office"),
        (401, b'{"error": {"type": "Unauthorized", "message": "m"}}', {}, "this token is not known, or it was revoked"),
        (422, b'{"error": {"type": "SystemExit", "message": "m"}}', {}, "^m$"),
        (422, b'{"error": 3}', {}, "status 422"),
    ],
)
def test_what_is_no_office(status: int, body: bytes, more: dict[str, str], message: str) -> None:
    kind = type("Other", (Impostor,), {"status": status, "body": body, "more": more, "seen": []})
    with http.server.HTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(OfficeError, match=message):
                dp.connect(f"http://127.0.0.1:{server.server_port}", TOKEN)
        finally:
            server.shutdown()
    assert len(kind.seen) == 1  # and a redirection was not followed


def test_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "time", SimpleNamespace(sleep=lambda seconds: None))
    office = client_module.OfficeClient("http://127.0.0.1:9", TOKEN)
    assert TOKEN not in repr(office)
    with pytest.raises(OfficeError, match="not known: repeat the same call, which is paid for once"):
        office.glm("y ~ x", "survey", eps=1.0)


@pytest.mark.slow
def test_a_wrong_address_is_refused_at_once(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def slept(seconds: float) -> None:
        raise AssertionError("nothing is tried again at the first contact")

    monkeypatch.setattr(client_module, "time", SimpleNamespace(sleep=slept))
    with pytest.raises(OfficeError, match=r"does not answer .*check the address"):
        dp.connect("http://127.0.0.1:9", TOKEN)
    token = service.add_analyst("anna")
    with served(service) as url:
        with pytest.raises(OfficeError, match=f"it speaks no TLS; try {url}$"):
            dp.connect(url.replace("http:", "https:"), token)
        with pytest.raises(OfficeError, match="this token is not known, or it was revoked"):
            dp.connect(url, TOKEN)
        assert dp.connect(url, f" {token}\n").datasets().shape[0] == 1
    with served(service, keeper=True) as url, pytest.raises(OfficeError, match="this is the keeper's address"):
        dp.connect(url, service.new_keeper_token())


def test_a_server_that_stops_leaves_the_request_taken(
    office: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client_module, "time", SimpleNamespace(sleep=lambda seconds: None))
    job = {"id": "0" * 32, "dataset": "survey", "state": "waiting", "wait": None}
    monkeypatch.setattr(office, "url", "http://127.0.0.1:9")
    with pytest.raises(OfficeError, match=f"it took the request, {'0' * 32}: .* not paid for again"):
        office._wait(job)
    assert "waits for the keeper's approval" in capsys.readouterr().err


def test_a_proxy_does_not_see_the_token(monkeypatch: pytest.MonkeyPatch, office: Any) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert dp.connect(office.url, office._token).datasets().shape[0] == 1


def test_a_failure_is_a_release_error(office: Any) -> None:
    job = {"id": "0" * 32, "dataset": "survey", "state": "failed", "message": "the release failed", "wait": 0}
    with pytest.raises(ReleaseError, match="the release failed"):
        office._wait(job)
    with pytest.raises(OfficeError, match=r"refused.*another label asks again"):
        office._wait({**job, "state": "refused", "message": None})


@pytest.mark.slow
def test_no_server_is_imported() -> None:
    code = "import sys, dpstats as dp; print(*sys.modules); dp.connect; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    bare, connected = ran.stdout.splitlines()
    assert not {"starlette", "uvicorn", "jinja2", "anyio"} & set(connected.split())
    assert not any(name.startswith("dpstats.office") for name in bare.split())

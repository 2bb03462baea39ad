"""The office over HTTP: JSON under /v1 with its description as OpenAPI 3.1, thin over the service; pages are beside it.

Each operation is described once: its description checks bodies, and clients and hostile tests are made from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import uvicorn
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from dpstats._version import __version__
from dpstats.arguments import is_number, safe_repr
from dpstats.errors import ArgumentError
from dpstats.office import pages
from dpstats.office.bounded import bounded
from dpstats.office.config import is_loopback
from dpstats.office.pages import Visit
from dpstats.office.request import MOST_ROWS, VERBS, Job, Request, from_result
from dpstats.office.security import STATUS, Guard, Limits, Refused, Sessions, caller_of, check_csrf, fault, parse_json
from dpstats.office.service import Service, to_json
from dpstats.results.glm_results import GLMResults

JSON_TYPE = "application/json"
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")  # what a listener on the loopback is called, by a tunnel too
REPORT = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"}
"""For the ledger's own page, which has its style inside."""

Schema = dict[str, Any]
TEXT, NUMBER, FLAG, ANY = ({"type": name} for name in ("string", "number", "boolean", "object"))
ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
NAME = {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}
PATH = {"id": ID, "name": NAME}
ARGUMENTS: Schema = {
    "type": "object",
    "description": "JSON forms of the arguments of the public call. A family or a penalty is its name, or an object "
    'such as {"name": "poisson", "y_max": 20}; earlier releases are meant by their id: "fit" of evaluate, "domain" '
    "for ranges that were bought.",
    "properties": {
        "formula": {"type": "string", "maxLength": 8000, "examples": ["y ~ x"]},
        **{"eps": NUMBER, "delta": NUMBER, "columns": {"type": "array", "items": TEXT}, "fit": ID},
    },
    "additionalProperties": True,
}
REQUEST: Schema = {
    "dataset": NAME,
    "verb": {"type": "string", "enum": list(VERBS)},
    "arguments": ARGUMENTS,
    "label": {"type": ["string", "null"], "maxLength": 200},
}
RELEASE: Schema = {
    "type": "object",
    "description": "A request that was taken. Until `ready` it is working, whatever happened.",
    "properties": {
        **{"id": ID, "dataset": TEXT, "verb": TEXT, "arguments": ANY, "label": REQUEST["label"], "analyst": TEXT},
        **{"mine": FLAG, "shared": FLAG},
        "state": {"type": "string", "enum": ["waiting", "refused", "working", "released", "failed"]},
        "message": {"type": ["string", "null"], "description": "of a refusal or a failure"},
        "taken": {"type": "number", "description": "seconds since 1970"},
        "ready": {"type": ["number", "null"], "description": "when it may be shown; null while the keeper decides"},
        "wait": {"type": ["number", "null"], "description": "seconds until then"},
        "result": {"type": ["object", "null"], "description": "the release as its own file has it, with its kind"},
    },
    "required": ["id", "dataset", "verb", "arguments", "state", "taken", "ready", "wait"],
}
RELEASES: Schema = {"type": "object", "properties": {"releases": {"type": "array", "items": RELEASE}}}
CELLS = {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}}
COLUMNS: Schema = {"type": "object", "additionalProperties": CELLS}
WHICH = ["mean", "linear", "decision", "class"]
LEVEL: Schema = {"type": ["number", "null"], "minimum": 0.5, "maximum": 0.9999}
KEY: Schema = {
    **{"name": "Idempotency-Key", "in": "header", "required": False},
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{16,128}$"},
    "description": "The same key and request are one release, charged once; without keys, the same request is.",
}
MESSAGE = {"type": "object", "properties": {"type": {"enum": list(STATUS)}, "message": TEXT}}
ERROR = {"type": "object", "properties": {"error": MESSAGE}, "required": ["error"]}
TYPES: Mapping[str, Any] = {"string": str, "object": dict, "boolean": bool, "null": type(None)}
"""The types of a body that are checked before a handler has it."""


class Operation(NamedTuple):
    """What is done at an address, by a function of a visit, which runs in a thread; `body` is what it is sent."""

    summary: str
    handler: Callable[[Visit], Any]
    answer: Schema | str = ANY
    body: Mapping[str, Schema] = {}
    needed: str = ""
    parameters: tuple[Schema, ...] = ()

    def check(self, sent: Mapping[str, Any]) -> None:
        """Raise ArgumentError unless a body has the names and types that are described."""
        for name in (*sent, *self.needed.split()):
            if name not in self.body:
                raise ArgumentError(f"{safe_repr(name)} is not known here; the names are {', '.join(self.body)}")
            if name not in sent:
                raise ArgumentError(f"{name} is missing; this needs {self.needed}")
            kinds = [self.body[name]["type"]] if isinstance(self.body[name]["type"], str) else self.body[name]["type"]
            if TYPES.keys() >= set(kinds) and not isinstance(sent[name], tuple(TYPES[kind] for kind in kinds)):
                raise ArgumentError(f"{name} must be of type {' or '.join(kinds)}, got {safe_repr(sent[name])}")

    def described(self, path: str) -> dict[str, Any]:
        parts = re.findall(r"{(\w+)}", path)
        places = [{"name": name, "in": "path", "required": True, "schema": PATH[name]} for name in parts]
        is_text = isinstance(self.answer, str)
        content = {"content": {self.answer: {"schema": TEXT}}} if is_text else as_json(self.answer)
        codes = ("200", "201") if KEY in self.parameters else ("200",)
        done = {code: {"description": "Done", **content} for code in codes}
        sent = {"type": "object", "properties": self.body, "required": self.needed.split()}
        body = {"required": True, **as_json({**sent, "additionalProperties": False})}
        return {
            "summary": self.summary,
            "parameters": [*places, *self.parameters],
            "responses": {**done, "default": {"$ref": "#/components/responses/Error"}},
            **({"requestBody": body} if self.body else {}),
        }


def as_json(schema: Any) -> dict[str, Any]:
    return {"content": {JSON_TYPE: {"schema": schema}}}


def job_json(job: Job, caller: str, *, result: bool = True) -> dict[str, Any]:
    """A job as analysts see it. Before `ready` all of it follows from the request and the clock."""
    request, ready = job.request, job.ready
    facts = {name: getattr(job, name) for name in ("id", "state", "message", "label", "analyst", "shared")}
    facts |= {"dataset": request.dataset, "verb": request.verb, "arguments": dict(request.arguments)}
    facts |= {"mine": job.analyst == caller, "taken": round(job.taken, 3), "ready": ready and round(ready, 3)}
    facts |= {"wait": ready and round(max(0.0, ready - time.time()), 3)}
    return facts | ({"result": job.result} if result else {})


def job_list(jobs: list[Job], caller: str) -> dict[str, Any]:
    return {"releases": [job_json(job, caller, result=False) for job in jobs]}


def tables(facts: Mapping[str, Any], level: float) -> dict[str, Any]:
    """What clients without dpstats need of a release: its summary, and of a model what broom and vcov return."""
    result = from_result(facts)
    made: dict[str, Any] = {"kind": type(result).__name__, "summary": str(result)}
    if isinstance(result, GLMResults):
        tidy = result.tidy(conf_level=level)
        if not result.has_errors:  # clients know by the columns
            tidy = tidy.drop(columns=["std_error", "statistic", "p_value", "conf_low", "conf_high"])
        else:
            covariance = result.cov_params()
            made["vcov"] = {"names": list(covariance.index), "rows": covariance.to_numpy()}
        made |= {"tidy": tidy, "glance": result.glance(), "level": level, "formula": result.formula}
    return to_json(made)


def predictions(facts: Mapping[str, Any], newdata: Any, which: Any, level: float | None) -> dict[str, Any]:
    """Predictions of a released model for rows that the caller sends, with intervals at a level."""
    result = from_result(facts)
    if not isinstance(result, GLMResults):
        raise ArgumentError("only a model predicts")
    rows = pd.DataFrame(newdata)
    made = {"predicted": result.predict(rows, which).to_numpy()}
    if level is not None:
        predicted = result.get_prediction(rows, 1 - level)
        ends = {f"linear_ci_{side}": predicted.linear_intervals[:, at] for at, side in enumerate(("lower", "upper"))}
        made |= {**predicted.summary_frame(), "linear": predicted.linear, "linear_se": predicted.linear_se, **ends}
    return to_json(made)


def check_level(value: object) -> float:
    if not is_number(value) or not 0.5 <= value <= 0.9999:
        raise ArgumentError(f"level must be a number from 0.5 to 0.9999, got {safe_repr(value)}")
    return float(value)


def query_number(visit: Visit, name: str, default: float | None) -> float | None:
    text = visit.query_params.get(name)
    return default if text is None else pages.number(name, text)


def answer_of(value: Any, status: int = 200) -> Response:
    """Values as JSON; answers as they are."""
    is_answer = isinstance(value, Response)
    return value if is_answer else Response(json.dumps(to_json(value), allow_nan=False), status, None, JSON_TYPE)


def asked(visit: Visit) -> Request:
    sent = visit.sent
    return Request(sent["dataset"], sent["verb"], sent["arguments"], sent.get("label"))


def own_result(visit: Visit) -> Mapping[str, Any]:
    job = visit.job()
    if job.result is None:
        raise ArgumentError(f"this release has no result to show: its state is {job.state!r}")
    return job.result


def decided(visit: Visit, job: Job) -> dict[str, Any]:
    return job_json(job, visit.name, result=False)


def submit(visit: Visit) -> Response:
    key = visit.headers.get("idempotency-key")
    if key is not None and not re.fullmatch(KEY["schema"]["pattern"], key):
        raise Refused("BadRequest", "the header Idempotency-Key must have 16 to 128 letters, digits, '-' and '_'")
    arrived = time.time()
    job = visit.service.submit(visit.name, asked(visit), key)
    return answer_of(job_json(job, visit.name), 201 if job.taken >= arrived else 200)


def predict(visit: Visit) -> Any:
    newdata, level = visit.sent["newdata"], visit.sent.get("level")
    lengths = {len(column) if isinstance(column, list) else -1 for column in newdata.values()}
    if len(lengths) != 1 or not 1 <= min(lengths) <= MOST_ROWS:
        raise ArgumentError(f"newdata must have columns of one length, from 1 to {MOST_ROWS:,} rows")
    if any(isinstance(cell, (list, dict)) for column in newdata.values() for cell in column):
        raise ArgumentError("newdata must have numbers, texts, true, false and null in its columns")
    level = None if level is None else check_level(level)
    return bounded(visit.name, predictions, own_result(visit), newdata, visit.sent.get("which", "mean"), level)


def made_up(visit: Visit) -> Response:
    rows = visit.service.made_up(visit.name, asked(visit), visit.sent.get("rows", 1_000))
    return Response(rows, media_type="text/csv")


def revoke(visit: Visit) -> Any:
    visit.service.revoke(visit.path_params["name"])
    return {"name": visit.path_params["name"], "revoked": True}


_ASKED = "dataset verb arguments"
OPERATIONS = {
    ("GET", "/v1/datasets"): Operation(
        "Data sets, their public facts and what is left",
        lambda visit: {"datasets": visit.service.datasets(visit.name)},
    ),
    ("GET", "/v1/datasets/{name}"): Operation("One data set", lambda visit: visit.dataset(visit.path_params["name"])),
    ("POST", "/v1/plan"): Operation(
        "What a request would release and cost; free",
        lambda visit: visit.service.plan(visit.name, asked(visit), forecast=visit.sent.get("forecast", False)),
        body={**REQUEST, "forecast": FLAG},
        needed=_ASKED,
    ),
    ("POST", "/v1/made-up"): Operation(
        "Rows made up by the codebook alone, to write code against; free",
        made_up,
        "text/csv",
        {**REQUEST, "rows": {"type": "integer", "minimum": 1, "maximum": MOST_ROWS}},
        _ASKED,
    ),
    ("GET", "/v1/releases"): Operation(
        "One's own releases and those shared, without their results",
        lambda visit: job_list(visit.service.jobs(visit.name), visit.name),
        RELEASES,
    ),
    ("POST", "/v1/releases"): Operation(
        "Ask for a release, which is charged: 201 when taken, 200 if its key was known",
        *(submit, RELEASE, REQUEST, _ASKED, (KEY,)),
    ),
    ("GET", "/v1/releases/{id}"): Operation(
        "A release, with its result once it is ready", lambda visit: job_json(visit.job(), visit.name), RELEASE
    ),
    ("POST", "/v1/releases/{id}/share"): Operation(
        "Show a release of one's own to the other analysts of its data set, or no more",
        lambda visit: decided(visit, visit.service.share(visit.name, visit.job().id, visit.sent["shared"])),
        *(RELEASE, {"shared": FLAG}, "shared"),
    ),
    ("GET", "/v1/releases/{id}/table"): Operation(
        "Summary, tidy, glance and covariance of a release",
        lambda visit: bounded(visit.name, tables, own_result(visit), check_level(query_number(visit, "level", 0.95))),
        parameters=({"name": "level", "in": "query", "schema": LEVEL},),
    ),
    ("POST", "/v1/releases/{id}/predict"): Operation(
        "Predictions of a released model for rows of the caller",
        *(predict, ANY, {"newdata": COLUMNS, "which": {**TEXT, "enum": WHICH}, "level": LEVEL}, "newdata"),
    ),
    ("GET", "/v1/keeper/waiting"): Operation(
        "Requests that wait for the keeper",
        lambda visit: job_list(visit.service.waiting(), visit.name),
        RELEASES,
    ),
    ("POST", "/v1/keeper/releases/{id}/approve"): Operation(
        "Charge a request that waits, and carry it out",
        lambda visit: decided(visit, visit.service.approve(visit.path_params["id"])),
        RELEASE,
    ),
    ("POST", "/v1/keeper/releases/{id}/refuse"): Operation(
        "Refuse a request that waits; nothing is charged",
        lambda visit: decided(visit, visit.service.refuse(visit.path_params["id"])),
        RELEASE,
    ),
    ("GET", "/v1/keeper/analysts"): Operation("Analysts", lambda visit: {"analysts": visit.service.analysts()}),
    ("POST", "/v1/keeper/analysts"): Operation(
        "A new analyst, with a token shown once",
        lambda visit: {"name": visit.sent["name"], "token": visit.service.add_analyst(visit.sent["name"])},
        body={"name": TEXT},
        needed="name",
    ),
    ("POST", "/v1/keeper/analysts/{name}/revoke"): Operation("Revoke the token of an analyst", revoke),
    ("GET", "/v1/keeper/budgets"): Operation(
        "What was spent, by data set and analyst", lambda visit: {"budgets": visit.service.budgets()}
    ),
    ("GET", "/v1/keeper/audit"): Operation(
        "The audit log",
        lambda visit: {"audit": visit.service.audit(query_number(visit, "since", None))},
        parameters=({"name": "since", "in": "query", "schema": NUMBER},),
    ),
    ("GET", "/v1/keeper/datasets/{name}/report"): Operation(
        "The report of a ledger, to print",
        lambda visit: Response(visit.service.report(visit.path_params["name"]), 200, REPORT, "text/html"),
        "text/html",
    ),
}
"""By method and path; those of /v1/keeper are of the keeper's listener."""


def description(keeper: bool) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), one in OPERATIONS.items():
        if path.startswith("/v1/keeper/") == keeper:
            paths.setdefault(path, {})[method.lower()] = one.described(path)
    error = {"description": "An error", "content": {JSON_TYPE: {"schema": ERROR}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "dpstats office", "version": __version__},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Error": error},
        },
    }


def create_app(service: Service, *, keeper: bool, limits: Limits = Limits()) -> Starlette:  # noqa: B008
    """The application of one listener: the analysts', or the keeper's.

    `service` knows who may what; `limits` are those of one caller.
    """
    office = service.office
    host = (office.keeper_listen if keeper else office.listen)[0]
    secure = office.tls is not None or office.behind_tls
    sessions = Sessions("dpstats_keeper" if keeper else "dpstats_office", secure=secure)
    threads, openapi = CapacityLimiter(limits.threads), description(keeper)

    def route(method: str, path: str, handler: Callable[[Visit], Any], described: Operation | None = None) -> Route:
        async def answer(web: HTTPRequest) -> Response:
            visit = Visit(web.scope, web.receive)
            body = await visit.body()
            if described is None:
                visit.read_form(body, is_open=handler in pages.OPEN)
            else:
                caller_of(visit)
                if method == "POST":
                    check_csrf(visit, visit.headers.get("x-csrf-token"))
                    if body and visit.headers.get("content-type", "").partition(";")[0].strip() != JSON_TYPE:
                        raise Refused("UnsupportedMediaType", f"the body must have content-type {JSON_TYPE}")
                    visit.sent = parse_json(body, limits) if body else {}
                    described.check(visit.sent)
            return await to_thread.run_sync(lambda: answer_of(handler(visit)), limiter=threads)

        return Route(path, answer, methods=[method])

    async def describe(web: HTTPRequest) -> Response:
        return answer_of(openapi)

    def no_such_place(web: HTTPRequest, error: Any) -> Response:
        known = {404: ("NotFound", "there is nothing at this address"), 405: ("MethodNotAllowed", "not by this method")}
        raise Refused(*known[error.status_code]) if error.status_code in known else error

    def refused(scope: Scope, error: Refused) -> Response:
        return fault(error) if scope["path"].startswith("/v1/") else pages.fault_page(scope, error)

    routes = [Route("/v1/openapi.json", describe, methods=["GET"])]
    for (method, path), one in OPERATIONS.items():
        if path.startswith("/v1/keeper/") == keeper:
            routes.append(route(method, path, one.handler, one))
    routes += [route(*one) for one in (*pages.BOTH, *(pages.KEEPER if keeper else pages.ANALYST))]
    holder = partial(service.analyst_of, role="keeper") if keeper else service.analyst_of
    hosts = (*office.hosts, *(LOCAL_HOSTS if is_loopback(host) else (f"[{host}]" if ":" in host else host,)))
    guard = Middleware(Guard, limits, sessions, holder, hosts, refused)
    app = Starlette(routes=routes, middleware=[guard], exception_handlers={HTTPException: no_such_place})
    app.router.redirect_slashes = False
    app.state.service, app.state.sessions, app.state.keeper = service, sessions, keeper
    return app


class Listener(uvicorn.Server):
    """A server that leaves signals to its process, which has two."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(service: Service) -> None:
    """Answer until the process is told to stop; workers at work then finish by themselves."""
    office = service.office
    certificate, key = office.tls or (None, None)
    # Tracebacks have paths, and addresses may have formulas.
    common: dict[str, Any] = {"log_level": "critical", "access_log": False, "server_header": False}
    common |= {"ssl_certfile": certificate, "ssl_keyfile": key, "proxy_headers": office.behind_tls}
    common |= {"limit_concurrency": 512, "timeout_keep_alive": 5, "timeout_graceful_shutdown": 5}
    places = (("Analysts", *office.listen, False), ("The keeper", *office.keeper_listen, True))
    apps = [(create_app(service, keeper=keeper), host, port) for _, host, port, keeper in places]
    listeners = [Listener(uvicorn.Config(app, host=host, port=port, **common)) for app, host, port in apps]
    service.start()
    for who, host, port, _ in places:
        print(f"{who}: http{'s' if office.tls else ''}://{host}:{port}", flush=True)
    try:
        asyncio.run(_all(listeners))
    finally:
        service.stop()


async def _all(listeners: list[Listener]) -> None:
    def stop() -> None:
        for listener in listeners:
            listener.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    work = [asyncio.create_task(listener.serve()) for listener in listeners]
    await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
    stop()  # one that cannot listen ends the other
    await asyncio.gather(*work)

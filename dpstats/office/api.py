"""The office over HTTP: JSON under /v1, thin over the service, and the pages beside it."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HTTPRequest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from dpstats.arguments import is_number, safe_repr
from dpstats.errors import ArgumentError, DPStatsError
from dpstats.office.bounded import bounded
from dpstats.office.config import is_loopback
from dpstats.office.openapi import description
from dpstats.office.request import MOST_ROWS, Job, Request, from_result
from dpstats.office.security import (
    LOCAL_HOSTS,
    STATUS,
    UNAVAILABLE,
    Guard,
    Limits,
    Refused,
    Sessions,
    caller_of,
    check_csrf,
    fault,
    parse_json,
)
from dpstats.results.glm_results import GLMResults

if TYPE_CHECKING:
    from dpstats.office.service import Service

_log = logging.getLogger("dpstats.office")

SHOWN = (
    *("ArgumentError", "BudgetExceeded", "DataError", "DomainError", "FormulaError", "MismatchError"),
    *("NotReleasedError", "TooManyRequests", "UncertifiedError"),
)
"""Errors whose messages are functions of public facts and of the request: no row is read in this process.

All others, those of ledgers among them, are answered by a constant.
"""

LETTERS = 1_000
"""A message is cut here: it may quote a long formula."""

REPORT = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"}
"""For the ledger's own page, which has its style inside."""


@dataclass(frozen=True)
class Call:
    """A request whose caller is known and whose body was read."""

    caller: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Headers
    body: dict[str, Any]

    def only(self, *names: str) -> None:
        """Refuse other names in the body."""
        if unknown := sorted(set(self.body) - set(names)):
            raise ArgumentError(f"{safe_repr(unknown[0])} is not known here; the names are {', '.join(names)}")

    def request(self, *more: str) -> Request:
        """What is asked of a data set."""
        self.only("dataset", "verb", "arguments", "label", *more)
        dataset, verb, label = (self.body.get(name) for name in ("dataset", "verb", "label"))
        arguments = self.body.get("arguments")
        if not isinstance(dataset, str) or not isinstance(verb, str) or not isinstance(arguments, dict):
            raise ArgumentError("a request needs dataset and verb, two texts, and arguments, an object")
        if label is not None and not isinstance(label, str):
            raise ArgumentError(f"label must be a text, got {safe_repr(label)}")
        return Request(dataset, verb, arguments, label)


def to_json(value: Any) -> Any:
    """Released and public values as JSON; nan is null, infinity a text that R and Python read as a number."""
    if isinstance(value, pd.DataFrame):
        return {str(name): to_json(value[name].tolist()) for name in value.columns}
    if isinstance(value, Mapping):
        return {str(name): to_json(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray, pd.Series)):
        return [to_json(part) for part in value]
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return None if value is pd.NA or value is pd.NaT else value


def job_json(job: Job, caller: str, *, result: bool = True) -> dict[str, Any]:
    """A job as analysts see it. Before `ready` all of it follows from the request and the clock."""
    request = job.request
    facts = {name: getattr(job, name) for name in ("id", "state", "message", "label", "analyst", "shared")}
    facts |= {"dataset": request.dataset, "verb": request.verb, "arguments": dict(request.arguments)}
    facts |= {"mine": job.analyst == caller, "taken": round(job.taken, 3)}
    facts |= {"ready": None if job.ready is None else round(job.ready, 3)}
    facts |= {"wait": None if job.ready is None else round(max(0.0, job.ready - time.time()), 3)}
    return facts | ({"result": job.result} if result else {})


def tables(facts: Mapping[str, Any], level: float) -> dict[str, Any]:
    """What clients without dpstats need of a release: its summary, and of a model what broom and vcov return."""
    result = from_result(facts)
    made: dict[str, Any] = {"kind": type(result).__name__, "summary": str(result)}
    if isinstance(result, GLMResults):
        tidy = result.tidy(conf_level=level)
        if result.has_errors:
            covariance = result.cov_params()
            made["vcov"] = {"names": list(covariance.index), "rows": covariance.to_numpy()}
        made |= {"tidy": tidy, "glance": result.glance(), "level": level, "formula": result.formula}
    return to_json(made)


def predictions(
    facts: Mapping[str, Any], newdata: Mapping[str, Any], which: Any, level: float | None
) -> dict[str, Any]:
    """Predictions of a released model for rows that the caller sends, with intervals at a level."""
    result = from_result(facts)
    if not isinstance(result, GLMResults):
        raise ArgumentError("only a model predicts")
    rows = pd.DataFrame(newdata)
    made = {"predicted": result.predict(rows, which).to_numpy()}
    if level is not None:
        foreseen = result.get_prediction(rows, 1 - level)
        ends = {f"linear_ci_{side}": foreseen.linear_intervals[:, at] for at, side in enumerate(("lower", "upper"))}
        made |= {**foreseen.summary_frame(), "linear": foreseen.linear, "linear_se": foreseen.linear_se, **ends}
    return to_json(made)


def check_level(value: object) -> float:
    """A level of confidence."""
    if not is_number(value) or not 0.5 <= value <= 0.9999:
        raise ArgumentError(f"level must be a number from 0.5 to 0.9999, got {safe_repr(value)}")
    return float(value)


class Endpoints:
    """Handlers of /v1, each a function of a call; they run in threads."""

    def __init__(self, service: Service) -> None:
        self.service = service

    # What an analyst may do.

    def datasets(self, call: Call) -> Any:
        return to_json({"datasets": self.service.datasets(call.caller)})

    def dataset(self, call: Call) -> Any:
        for facts in self.service.datasets(call.caller):
            if facts["name"] == call.path["name"]:
                return to_json(facts)
        raise Refused("NotFound", "there is no data set of this name that you may ask")

    def plan(self, call: Call) -> Any:
        forecast = call.body.get("forecast", False)
        if not isinstance(forecast, bool):
            raise ArgumentError("forecast must be true or false")
        return to_json(self.service.plan(call.caller, call.request("forecast"), forecast=forecast))

    def made_up(self, call: Call) -> Any:
        rows = self.service.made_up(call.caller, call.request("rows"), call.body.get("rows", 1_000))
        return PlainTextResponse(rows, media_type="text/csv")

    def submit(self, call: Call) -> Any:
        key = call.headers.get("idempotency-key")
        plain = key is None or (key.isascii() and key.replace("-", "").replace("_", "").isalnum())
        if key is not None and not (plain and 16 <= len(key) <= 128):
            raise Refused("BadRequest", "the header Idempotency-Key must have 16 to 128 letters, digits, '-' and '_'")
        arrived = time.time()
        job = self.service.submit(call.caller, call.request(), key)
        return Response(write(job_json(job, call.caller)), 201 if job.taken >= arrived else 200, None, JSON_TYPE)

    def releases(self, call: Call) -> Any:
        return {"releases": [job_json(job, call.caller, result=False) for job in self.service.jobs(call.caller)]}

    def release(self, call: Call) -> Any:
        return job_json(self._job(call), call.caller)

    def share(self, call: Call) -> Any:
        call.only("shared")
        shared = call.body.get("shared")
        if not isinstance(shared, bool):
            raise ArgumentError("shared must be true or false")
        self._job(call)
        return job_json(self.service.share(call.caller, call.path["id"], shared), call.caller, result=False)

    def table(self, call: Call) -> Any:
        level = check_level(_number("level", call.query.get("level", "0.95")))
        return bounded(call.caller, tables, self._result(call), level)

    def predict(self, call: Call) -> Any:
        call.only("newdata", "which", "level")
        newdata, level = call.body.get("newdata"), call.body.get("level")
        columns = list(newdata.values()) if isinstance(newdata, dict) else []
        lengths = {len(column) if isinstance(column, list) else -1 for column in columns}
        if len(lengths) != 1 or not 1 <= min(lengths) <= MOST_ROWS:
            raise ArgumentError(f"newdata must have columns of one length, from 1 to {MOST_ROWS:,} rows")
        if any(isinstance(cell, (list, dict)) for column in columns for cell in column):
            raise ArgumentError("newdata must have numbers, texts, true, false and null in its columns")
        which, level = call.body.get("which", "mean"), None if level is None else check_level(level)
        return bounded(call.caller, predictions, self._result(call), newdata, which, level)

    def _job(self, call: Call) -> Job:
        try:
            return self.service.job(call.caller, call.path["id"])
        except ArgumentError:
            raise Refused("NotFound", "there is no release of this id that you may see") from None

    def _result(self, call: Call) -> Mapping[str, Any]:
        job = self._job(call)
        if job.result is None:
            raise ArgumentError(f"this release has no result to show: its state is {job.state!r}")
        return job.result

    # What the keeper may do.

    def waiting(self, call: Call) -> Any:
        return {"releases": [job_json(job, call.caller, result=False) for job in self.service.waiting()]}

    def approve(self, call: Call) -> Any:
        return job_json(self.service.approve(call.path["id"]), call.caller, result=False)

    def refuse(self, call: Call) -> Any:
        return job_json(self.service.refuse(call.path["id"]), call.caller, result=False)

    def analysts(self, call: Call) -> Any:
        return {"analysts": self.service.analysts()}

    def add_analyst(self, call: Call) -> Any:
        call.only("name")
        name = call.body.get("name")
        if not isinstance(name, str):
            raise ArgumentError("name must be a text")
        return {"name": name, "token": self.service.add_analyst(name)}

    def revoke(self, call: Call) -> Any:
        self.service.revoke(call.path["name"])
        return {"name": call.path["name"], "revoked": True}

    def budgets(self, call: Call) -> Any:
        return to_json({"budgets": self.service.budgets()})

    def audit(self, call: Call) -> Any:
        since = call.query.get("since")
        return {"audit": self.service.audit(None if since is None else _number("since", since))}

    def report(self, call: Call) -> Any:
        return Response(self.service.report(call.path["name"]), 200, REPORT, "text/html")


def _number(name: str, text: str) -> float:
    """A number of a query."""
    try:
        number = float(text) if len(text) <= 40 else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ArgumentError(f"{name} must be a number")
    return number


ANALYST = (
    ("GET", "/v1/datasets", "datasets"),
    ("GET", "/v1/datasets/{name}", "dataset"),
    ("POST", "/v1/plan", "plan"),
    ("POST", "/v1/made-up", "made_up"),
    ("GET", "/v1/releases", "releases"),
    ("POST", "/v1/releases", "submit"),
    ("GET", "/v1/releases/{id}", "release"),
    ("POST", "/v1/releases/{id}/share", "share"),
    ("GET", "/v1/releases/{id}/table", "table"),
    ("POST", "/v1/releases/{id}/predict", "predict"),
)
KEEPER = (
    ("GET", "/v1/keeper/waiting", "waiting"),
    ("POST", "/v1/keeper/releases/{id}/approve", "approve"),
    ("POST", "/v1/keeper/releases/{id}/refuse", "refuse"),
    ("GET", "/v1/keeper/analysts", "analysts"),
    ("POST", "/v1/keeper/analysts", "add_analyst"),
    ("POST", "/v1/keeper/analysts/{name}/revoke", "revoke"),
    ("GET", "/v1/keeper/budgets", "budgets"),
    ("GET", "/v1/keeper/audit", "audit"),
    ("GET", "/v1/keeper/datasets/{name}/report", "report"),
)

JSON_TYPE = "application/json"


def write(value: Any) -> str:
    """JSON for an answer."""
    return json.dumps(value, allow_nan=False)


def as_fault(error: Exception) -> Response:
    """The answer to an error: its message where that follows from public facts, else a constant."""
    if isinstance(error, Refused):
        return fault(error.kind, str(error))
    kind = next((one.__name__ for one in type(error).__mro__ if one.__name__ in SHOWN), None)
    if kind is None or not isinstance(error, DPStatsError):
        _log.error("a request failed: %s", type(error).__name__)
        return fault("Unavailable", UNAVAILABLE)
    message = str(error)
    return fault(kind, message if len(message) <= LETTERS else message[: LETTERS - 4] + " ...")


def _http_fault(request: HTTPRequest, error: Exception) -> Response:
    """Addresses and methods that there are not."""
    known = {404: ("NotFound", "there is nothing at this address"), 405: ("MethodNotAllowed", "not by this method")}
    status = error.status_code if isinstance(error, HTTPException) else 503
    return fault(*known.get(status, ("Unavailable", UNAVAILABLE)))


def create_app(service: Service, *, keeper: bool, limits: Limits = Limits()) -> Starlette:  # noqa: B008
    """The application of one listener: the analysts', or the keeper's.

    `service` knows who may what; `limits` are those of one caller.
    """
    office = service.office
    secure = office.tls is not None or office.behind_tls
    listen = (office.keeper_listen if keeper else office.listen)[0]
    sessions = Sessions("dpstats_keeper" if keeper else "dpstats_office", secure=secure)
    endpoints, threads = Endpoints(service), CapacityLimiter(limits.threads)
    offered = KEEPER if keeper else ANALYST
    text = write(description([(method, path) for method, path, _ in offered]))

    def answering(method: str, name: str) -> Callable[[HTTPRequest], Any]:
        work = getattr(endpoints, name)

        async def answer(request: HTTPRequest) -> Response:
            try:
                caller = caller_of(request)
                body: dict[str, Any] = {}
                if method == "POST":
                    check_csrf(request, request.headers.get("x-csrf-token"))
                    sent = await request.body()
                    if sent and request.headers.get("content-type", "").partition(";")[0].strip() != JSON_TYPE:
                        raise Refused("UnsupportedMediaType", f"the body must have content-type {JSON_TYPE}")
                    body = parse_json(sent, limits) if sent else {}
                call = Call(caller.name, request.path_params, request.query_params, request.headers, body)
                value = await to_thread.run_sync(partial(_answered, work, call), limiter=threads)
            except (Refused, DPStatsError) as error:
                return as_fault(error)
            return value

        return answer

    async def openapi(request: HTTPRequest) -> Response:
        return Response(text, media_type=JSON_TYPE)

    routes: list[BaseRoute] = [Route("/v1/openapi.json", openapi, methods=["GET"])]
    routes += [Route(path, answering(method, name), methods=[method]) for method, path, name in offered]
    pages = import_module("dpstats.office.pages") if find_spec("dpstats.office.pages") else None
    if pages is not None:
        routes += pages.routes(service, sessions, keeper=keeper)

    def refusal(scope: Scope, error: Refused) -> Response:
        if pages is not None and not scope["path"].startswith("/v1/"):
            return pages.fault_page(scope, error, STATUS[error.kind])
        return fault(error.kind, str(error))

    guard = Middleware(
        Guard,
        limits=limits,
        sessions=sessions,
        holder=(lambda token: "keeper" if service.is_keeper(token) else None) if keeper else service.analyst_of,
        hosts=(*office.hosts, *(LOCAL_HOSTS if is_loopback(listen) else (f"[{listen}]" if ":" in listen else listen,))),
        log=_log.error,
        answer=refusal,
    )
    app = Starlette(routes=routes, middleware=[guard], exception_handlers={HTTPException: _http_fault})
    app.router.redirect_slashes = False
    app.state.sessions = sessions
    return app


def _answered(work: Callable[[Call], Any], call: Call) -> Response:
    value = work(call)
    return value if isinstance(value, Response) else Response(write(value), media_type=JSON_TYPE)

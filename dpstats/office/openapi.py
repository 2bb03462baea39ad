"""The description of /v1 as OpenAPI 3.1, from which clients and hostile tests are made."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from dpstats._version import __version__
from dpstats.office.request import VERBS
from dpstats.office.security import STATUS


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def _text(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
NAME = {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}
ANY = {"type": "object"}
CELL = {"type": ["string", "number", "boolean", "null"]}
ARGUMENTS = {
    "type": "object",
    "description": "JSON forms of the arguments of the public call. A family or a penalty is its name, or an object "
    'such as {"name": "poisson", "y_max": 20}; earlier releases are meant by their id: "fit" of evaluate, "domain" '
    "for ranges that were bought.",
    "properties": {
        "formula": _text(maxLength=8000, examples=["y ~ x"]),
        "eps": {"type": "number"},
        "delta": {"type": "number"},
        "columns": {"type": "array", "items": _text()},
        "fit": ID,
    },
    "additionalProperties": True,
}
REQUEST = {
    "dataset": NAME,
    "verb": {"type": "string", "enum": list(VERBS)},
    "arguments": ARGUMENTS,
    "label": {"type": ["string", "null"], "maxLength": 200},
}
RELEASE = {
    "type": "object",
    "description": "A request that was taken. Until `ready` it is working, whatever happened.",
    "properties": {
        "id": ID,
        "dataset": _text(),
        "verb": _text(),
        "arguments": ANY,
        "label": {"type": ["string", "null"]},
        "analyst": _text(),
        "mine": {"type": "boolean"},
        "shared": {"type": "boolean"},
        "state": {"type": "string", "enum": ["waiting", "refused", "working", "released", "failed"]},
        "message": {"type": ["string", "null"], "description": "of a refusal or a failure"},
        "taken": {"type": "number", "description": "seconds since 1970"},
        "ready": {"type": ["number", "null"], "description": "when it may be shown; null while the keeper decides"},
        "wait": {"type": ["number", "null"], "description": "seconds until then"},
        "result": {"type": ["object", "null"], "description": "the release as its own file has it, with its kind"},
    },
    "required": ["id", "dataset", "verb", "arguments", "state", "taken", "ready", "wait"],
}
ERROR = _object("error", error=_object("type message", type=_text(enum=list(STATUS)), message=_text()))

KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{16,128}$"},
    "description": "The same key and request are one release, charged once; without keys, the same request is.",
}

_RELEASES = {"type": "object", "properties": {"releases": {"type": "array", "items": RELEASE}}}

OPERATIONS: dict[tuple[str, str], tuple[str, dict[str, Any] | None, dict[str, Any] | str]] = {
    ("GET", "/v1/datasets"): ("Data sets, their public facts and what is left", None, ANY),
    ("GET", "/v1/datasets/{name}"): ("One data set", None, ANY),
    ("POST", "/v1/plan"): (
        "What a request would release and cost; free",
        _object("dataset verb arguments", **REQUEST, forecast={"type": "boolean"}),
        ANY,
    ),
    ("POST", "/v1/made-up"): (
        "Rows made up by the codebook alone, to write code against",
        _object("dataset verb arguments", **REQUEST, rows={"type": "integer", "minimum": 1, "maximum": 10_000}),
        "text/csv",
    ),
    ("GET", "/v1/releases"): ("One's own releases and those shared, without their results", None, _RELEASES),
    ("POST", "/v1/releases"): (
        "Ask for a release, which is charged: 201 when taken, 200 if its key was known",
        _object("dataset verb arguments", **REQUEST),
        RELEASE,
    ),
    ("GET", "/v1/releases/{id}"): ("A release, with its result once it is ready", None, RELEASE),
    ("POST", "/v1/releases/{id}/share"): (
        "Show a release of one's own to the other analysts of its data set, or no more",
        _object("shared", shared={"type": "boolean"}),
        RELEASE,
    ),
    ("GET", "/v1/releases/{id}/table"): ("Summary, tidy, glance and covariance of a release", None, ANY),
    ("POST", "/v1/releases/{id}/predict"): (
        "Predictions of a released model for rows of the caller",
        _object(
            "newdata",
            newdata={"type": "object", "additionalProperties": {"type": "array", "items": CELL}},
            which=_text(enum=["mean", "linear", "decision", "class"]),
            level={"type": ["number", "null"]},
        ),
        ANY,
    ),
    ("GET", "/v1/keeper/waiting"): ("Requests that wait for the keeper", None, _RELEASES),
    ("POST", "/v1/keeper/releases/{id}/approve"): ("Charge a request that waits, and carry it out", None, RELEASE),
    ("POST", "/v1/keeper/releases/{id}/refuse"): ("Refuse a request that waits; nothing is charged", None, RELEASE),
    ("GET", "/v1/keeper/analysts"): ("Analysts", None, ANY),
    ("POST", "/v1/keeper/analysts"): ("A new analyst, with a token shown once", _object("name", name=NAME), ANY),
    ("POST", "/v1/keeper/analysts/{name}/revoke"): ("Revoke the token of an analyst", None, ANY),
    ("GET", "/v1/keeper/budgets"): ("What was spent, by data set and analyst", None, ANY),
    ("GET", "/v1/keeper/audit"): ("The audit log", None, ANY),
    ("GET", "/v1/keeper/datasets/{name}/report"): ("The report of a ledger, to print", None, "text/html"),
}
QUERY = {
    "/v1/releases/{id}/table": ("level", {"type": "number", "minimum": 0.5, "maximum": 0.9999}),
    "/v1/keeper/audit": ("since", {"type": "number", "minimum": 0}),
}
PATH = {"id": ID, "name": NAME}


def description(offered: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The document for those operations, by method and path, that a listener offers."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path in offered:
        summary, body, answer = OPERATIONS[method, path]
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": PATH[name]}
            for name in re.findall(r"{(\w+)}", path)
        ]
        if path in QUERY:
            name, schema = QUERY[path]
            parameters.append({"name": name, "in": "query", "required": False, "schema": schema})
        parameters += [KEY] if (method, path) == ("POST", "/v1/releases") else []
        content = {answer: {"schema": _text()}} if isinstance(answer, str) else {"application/json": {"schema": answer}}
        done: dict[str, Any] = {"200": {"description": "Done", "content": content}}
        if (method, path) == ("POST", "/v1/releases"):
            done["201"] = done["200"]
        operation: dict[str, Any] = {
            "summary": summary,
            "parameters": parameters,
            "responses": {**done, "default": {"$ref": "#/components/responses/Error"}},
        }
        if body is not None:
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        paths.setdefault(path, {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "dpstats office", "version": __version__},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Error": {"description": "An error", "content": {"application/json": {"schema": ERROR}}},
            },
        },
    }

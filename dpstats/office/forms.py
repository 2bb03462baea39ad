"""The forms of the pages: how a request is read from one, and how one is filled in with a request.

The requests themselves are judged by the service alone.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from dpstats.errors import ArgumentError
from dpstats.office.request import VERBS, Request
from dpstats.office.security import Limits, Refused, parse_json

FAMILIES = {"gaussian": "Gaussian: a number", "binomial": "Binomial: yes or no", "poisson": "Poisson: a count"}
GIVEN = {name: "" for verb in VERBS.values() for name in verb.fields} | {"family": "gaussian", "eps": "0.5"}
GIVEN |= {"label": "", "options": ""}
LISTS = ("columns", "candidates")

OPTION = 1_000
"""Letters of a line of options: Python's own reader is not made for long ones."""


def request_of(dataset: str, sent: Mapping[str, str]) -> Request:
    """What a form asks for; ArgumentError where a field cannot be read. The rest is judged by the service."""
    name = sent.get("verb", "glm")
    if name not in VERBS:
        raise ArgumentError(f"verb must be one of {', '.join(VERBS)}")
    arguments: dict[str, Any] = {}
    for field in (*VERBS[name].fields, "eps"):
        text = sent.get(field, "").strip()
        if field in LISTS:
            arguments[field] = [_candidate(line) if field == "candidates" else line for line in _lines(text)]
        elif field == "eps" or (field == "delta" and text):
            arguments[field] = _number(field, text)
        elif text and (name, field, text) != ("check", "family", "gaussian"):
            arguments[field] = text
    for number, line in enumerate(_lines(sent.get("options", "")), 1):
        option, _, value = line[:OPTION].partition("=")
        try:
            arguments[option.strip()] = json.loads(json.dumps(ast.literal_eval(value.strip()), allow_nan=False))
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            what = "type a name, '=' and a value as in Python, such as inference = True or method = 'statistics'"
            raise ArgumentError(f"options, line {number}: {what}") from None
    request = Request(dataset, name, arguments, sent.get("label", "").strip() or None)
    return read(dataset, written(request))  # within the limits of all requests


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _number(name: str, text: str) -> float:
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ArgumentError(f"{name} must be a number, such as {'1e-6' if name == 'delta' else '0.5'}")
    return number


def _candidate(line: str) -> Any:
    if re.fullmatch(r"[0-9a-f]{32}", line):
        return {"fit": line}
    try:
        return _number("candidates", line)
    except ArgumentError:
        return line


def written(request: Request) -> str:
    """The request in a hidden field: what is bought is what was planned."""
    return json.dumps({"verb": request.verb, "arguments": dict(request.arguments), "label": request.label})


def read(dataset: str, text: str) -> Request:
    """The request in a hidden field; Refused where it is none, or beyond the limits."""
    facts = parse_json(text.encode(), Limits())
    if set(facts) != {"verb", "arguments", "label"} or not isinstance(facts["arguments"], dict):
        raise Refused("BadRequest", "the form could not be read; plan the release again")
    return Request(dataset, **facts)


def fields_of(request: Request) -> dict[str, str]:
    """The fields of the form that asks for the same."""
    rest, given = dict(request.arguments), {"label": request.label or ""}
    for name in (*VERBS[request.verb].fields, "eps"):
        if isinstance(value := rest.get(name), list):
            value = "\n".join(one["fit"] if isinstance(one, dict) else str(one) for one in value)
        if isinstance(value, (str, int, float)):
            given[name] = str(value)
            del rest[name]
    return {**given, "options": "\n".join(f"{name} = {value!r}" for name, value in rest.items())}

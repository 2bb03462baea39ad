"""The forms of the pages: what they ask for, how a request is read from one, and how one is filled in with a request.

The requests themselves are judged by the service alone.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpstats.errors import ArgumentError
from dpstats.office.request import Request
from dpstats.office.security import Limits, Refused, parse_json


@dataclass(frozen=True)
class Form:
    """A kind of release: how it is called, what it is about and what it asks for."""

    title: str
    about: str
    fields: tuple[str, ...]


FORMS = {
    "glm": Form(
        "Regression",
        "A regression of one column on others, with standard errors where the budget buys them.",
        ("formula", "family", "delta", "subset"),
    ),
    "evaluate": Form(
        "Evaluation",
        "How well a released regression describes the rows: explained variance, errors, calibration.",
        ("fit", "delta"),
    ),
    "check": Form(
        "Codebook check",
        "How many rows a formula loses, and how many cells lie outside their range, column by column.",
        ("formula", "family", "delta"),
    ),
    "release_statistics": Form(
        "Sums for many regressions",
        "Sums of squares and products of some columns. Any number of linear regressions of them costs nothing more.",
        ("columns", "response", "delta"),
    ),
    "buy_ranges": Form(
        "Narrower ranges",
        "Intervals that hold nearly all rows, where the codebook declares wide ranges: later regressions are exacter.",
        ("columns",),
    ),
    "select": Form(
        "Best of several",
        "The candidate with the least loss. Only its name is released.",
        ("candidates", "score"),
    ),
}
TITLES = {verb: form.title for verb, form in FORMS.items()}
FAMILIES = {"gaussian": "Gaussian: a number", "binomial": "Binomial: yes or no", "poisson": "Poisson: a count"}
TEXTS = ("formula", "family", "subset", "response", "score", "fit")
GIVEN = {"formula": "", "family": "gaussian", "eps": "0.5", "delta": "", "label": "", "options": ""}
GIVEN |= dict.fromkeys(("subset", "columns", "response", "candidates", "score", "fit"), "")
IDENTIFIER = re.compile(r"[0-9a-f]{32}")

OPTION = 1_000
"""Letters of a line of options: Python's own reader is not made for long ones."""


def request_of(dataset: str, sent: Mapping[str, str]) -> Request:
    """What a form asks for; ArgumentError where a field cannot be read. The rest is judged by the service."""
    verb = sent.get("verb", "glm")
    if verb not in FORMS:
        raise ArgumentError(f"verb must be one of {', '.join(FORMS)}")
    arguments: dict[str, Any] = {}
    for name in FORMS[verb].fields:
        text = sent.get(name, "").strip()
        if name in TEXTS and text and not (verb == "check" and name == "family" and text == "gaussian"):
            arguments[name] = text
        elif name in ("columns", "candidates"):
            arguments[name] = [_candidate(line) if name == "candidates" else line for line in _lines(text)]
    arguments["eps"] = _number("eps", sent.get("eps", ""))
    if "delta" in FORMS[verb].fields and sent.get("delta", "").strip():
        arguments["delta"] = _number("delta", sent["delta"])
    for number, line in enumerate(_lines(sent.get("options", "")), 1):
        name, _, value = line[:OPTION].partition("=")
        try:
            arguments[name.strip()] = json.loads(json.dumps(ast.literal_eval(value.strip()), allow_nan=False))
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            raise ArgumentError(
                f"options, line {number}: type a name, '=' and a value as in Python, such as inference = True or "
                "method = 'statistics'"
            ) from None
    request = Request(dataset, verb, arguments, sent.get("label", "").strip() or None)
    return read(dataset, written(request))  # within the limits of all requests


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _number(name: str, text: str) -> float:
    try:
        number = float(text.strip().replace(",", "."))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ArgumentError(f"{name} must be a number, such as {'1e-6' if name == 'delta' else '0.5'}")
    return number


def _candidate(line: str) -> Any:
    if IDENTIFIER.fullmatch(line):
        return {"fit": line}
    try:
        number = float(line)
    except ValueError:
        return line
    return number if math.isfinite(number) else line


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
    arguments = dict(request.arguments)
    given = {"label": request.label or ""}
    for name in (*FORMS[request.verb].fields, "eps"):
        value = arguments.get(name)
        if isinstance(value, list):
            given[name] = "\n".join(one["fit"] if isinstance(one, dict) else str(one) for one in value)
        elif not isinstance(value, (str, int, float)):
            continue
        else:
            given[name] = str(value)
        del arguments[name]
    given["options"] = "\n".join(f"{name} = {value!r}" for name, value in arguments.items())
    return given

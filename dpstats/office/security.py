"""What stands before every request of the office: who asks, how often, how much, and what browsers may do with answers.

Everything here is a function of the request, of the clock and of earlier requests: nothing of it knows rows.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import math
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpstats.errors import DPStatsError
from dpstats.office.store import hash_of, new_token

STATUS = {
    "BadRequest": 400, "Unauthorized": 401, "Forbidden": 403, "NotFound": 404, "MethodNotAllowed": 405,
    "Timeout": 408, "BudgetExceeded": 409, "TooLarge": 413, "UnsupportedMediaType": 415, "WrongHost": 421,
    "ArgumentError": 422, "DataError": 422, "DomainError": 422, "FormulaError": 422, "MismatchError": 422,
    "NotReleasedError": 422, "UncertifiedError": 422, "TooManyRequests": 429, "Unavailable": 503,
}  # fmt: skip
"""The status of an answer by the type of its error; 500 is none of them."""

SHOWN = frozenset(kind for kind, status in STATUS.items() if status in (409, 422, 429))
"""Errors whose messages are functions of public facts and of the request: no row is read in this process.

All others, those of ledgers among them, are answered by a constant.
"""

UNAVAILABLE = "the office could not answer this request; nothing is known to be wrong with it, so try again later"
"""What is said of every failure that is not a refusal, whatever it was."""

LETTERS = 1_000  # a message is cut here: it may quote a long formula


class Refused(Exception):
    """A request that is answered by an error alone; `kind` is one of STATUS."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.status = kind, STATUS[kind]


def refusal(error: Exception) -> Refused:
    """What is said of an error: its message where that follows from public facts, else a constant."""
    if isinstance(error, Refused):
        return error
    kind = next((one.__name__ for one in type(error).__mro__ if one.__name__ in SHOWN), None)
    if kind is None or not isinstance(error, DPStatsError):
        # The type alone: a message may quote anything.
        logging.getLogger("dpstats.office").error("a request failed: %s", type(error).__name__)
        return Refused("Unavailable", UNAVAILABLE)
    message = str(error)
    return Refused(kind, message if len(message) <= LETTERS else message[: LETTERS - 4] + " ...")


@dataclass(frozen=True)
class Limits:
    """How much one caller may ask for."""

    body: int = 1 << 18  # bytes
    target: int = 32_000  # bytes of path and query, which may hold a formula
    seconds: float = 10.0  # until a body has arrived
    depth: int = 24  # brackets within brackets
    text: int = 8_000  # letters of a text, such as a formula
    calls: tuple[float, float] = (20.0, 200.0)  # of an analyst or keeper: a second, and at once
    strangers: tuple[float, float] = (2.0, 60.0)  # of an address, without a valid token
    together: int = 4  # calls of one caller that are at work at a time
    threads: int = 40  # those of all callers


class Buckets:
    """Token buckets by key: `rate` a second, `burst` at once; the least recent key beyond `most` is forgotten."""

    def __init__(self, rate: float, burst: float, most: int = 10_000) -> None:
        self.rate, self.burst, self.most = rate, burst, most
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable) -> bool:
        now = time.monotonic()
        level, last = self._levels.pop(key, (self.burst, now))
        level = min(self.burst, level + (now - last) * self.rate)
        self._levels[key] = (level - 1 if level >= 1 else level, now)
        if len(self._levels) > self.most:
            self._levels.popitem(last=False)
        return level >= 1


@dataclass(frozen=True)
class Session:
    """Who has logged in on the pages; the token is looked up in every request, so that a revoked one ends it."""

    id: str
    token: str
    csrf: str
    ends: float


class Sessions:
    """Sessions of this process: random, in memory, by the hash of what the cookie holds; `most` of one token."""

    def __init__(self, name: str, *, secure: bool, seconds: float = 8 * 3600, most: int = 8) -> None:
        # A cookie is sent to every port of a host, so the two listeners have names of their own.
        self.cookie = f"__Host-{name}" if secure else name
        self.secure, self.seconds, self.most = secure, seconds, most
        self._open: dict[str, Session] = {}
        self._lock = threading.Lock()

    def open(self, token: str) -> Session:
        now = time.monotonic()
        session = Session(new_token(), token, new_token(), now + self.seconds)
        with self._lock:
            self._open = {key: one for key, one in self._open.items() if one.ends >= now}
            same_token = [key for key, one in self._open.items() if one.token == token]
            if len(same_token) >= self.most:  # nobody ends the sessions of others
                del self._open[same_token[0]]
            self._open[hash_of(session.id)] = session
        return session

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie, if there is one and it has not ended."""
        with self._lock:
            session = self._open.get(hash_of(cookie))
        return None if session is None or session.ends < time.monotonic() else session

    def close(self, session: Session) -> None:
        with self._lock:
            self._open.pop(hash_of(session.id), None)

    def set_cookie(self, response: Response, session: Session | None) -> None:
        """Hand the cookie of a session to the browser, or take it away (None)."""
        content, age = ("", 0) if session is None else (session.id, int(self.seconds))
        response.set_cookie(self.cookie, content, age, path="/", httponly=True, samesite="strict", secure=self.secure)


@dataclass(frozen=True)
class Caller:
    """Who sent a request: an analyst by name, or the keeper; the session if a cookie said so."""

    name: str
    session: Session | None = None


def caller_of(request: Request) -> Caller:
    """Who sent the request; Refused if nobody known."""
    caller: Caller | None = request.scope.get("caller")
    if caller is None:
        raise Refused("Unauthorized", "a valid token is needed: send the header 'Authorization: Bearer TOKEN'")
    return caller


def check_origin(headers: Headers) -> None:
    """Refuse what a page of another site has a browser send."""
    origin = headers.get("origin")
    here = origin is None or origin.partition("://")[2] == headers.get("host")
    if not here or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refused("Forbidden", "this request comes from a page of another site")


def check_csrf(request: Request, given: str | None) -> None:
    """Refuse a change by a cookie alone: `given` is the session's CSRF token, from the form or X-CSRF-Token."""
    session = caller_of(request).session
    if session is not None:
        check_origin(request.headers)
        if given is None or not hmac.compare_digest(hash_of(given), hash_of(session.csrf)):
            raise Refused("Forbidden", "the form has expired; load the page again")


_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def parse_json(body: bytes, limits: Limits) -> dict[str, Any]:
    """A JSON object within the limits, of numbers that are finite, different keys and texts that can be written."""

    def checked(value: Any) -> Any:
        """A part of the body; ValueError for numbers that Python alone reads."""
        if isinstance(value, str) and len(value) > limits.text:
            raise Refused("TooLarge", f"a text of a request, such as a formula, has at most {limits.text:,} letters")
        if isinstance(value, str) and _CONTROL.search(value):
            raise Refused("BadRequest", "a text of a request must not hold control characters")
        if isinstance(value, int) and abs(value) > 2**53:
            raise Refused("BadRequest", "whole numbers of a request must lie within 2**53, as doubles do")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("not finite")
        for part in (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
            checked(part)
        return value

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(made := dict(pairs)) < len(pairs):
            raise ValueError("a key twice")
        return made

    try:
        text = body.decode("utf-8")
        steps = (1 if mark in "[{" else -1 for mark in re.findall(r"[][{}]", _TEXTS.sub("", text)))
        if max(accumulate(steps), default=0) > limits.depth:
            raise Refused("BadRequest", f"the JSON of a request has at most {limits.depth} brackets in each other")
        value = checked(json.loads(text, object_pairs_hook=distinct))
    except (ValueError, RecursionError):
        raise Refused("BadRequest", "the body must be JSON in UTF-8, with finite numbers and no key twice") from None
    if not isinstance(value, dict):
        raise Refused("BadRequest", "the body must be a JSON object")
    return value


HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # "no-referrer" would have browsers send "Origin: null" with the forms of our own pages.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""On every answer."""


def fault(error: Refused) -> Response:
    body = json.dumps({"error": {"type": error.kind, "message": str(error)}})
    more = {"retry-after": "1"} if error.status in (429, 503) else {}
    more |= {"www-authenticate": "Bearer"} if error.status == 401 else {}
    return Response(body, error.status, more, "application/json")


@dataclass
class Guard:
    """ASGI middleware: host, caller, rates, size and time of the body, headers, and one constant for any failure."""

    app: ASGIApp
    limits: Limits
    sessions: Sessions
    holder: Callable[[str], str | None]
    hosts: Collection[str]
    answer: Callable[[Scope, Refused], Response]

    def __post_init__(self) -> None:
        self.callers, self.strangers = Buckets(*self.limits.calls), Buckets(*self.limits.strangers)
        self.at_work: Counter[Hashable] = Counter()
        self.looking_up = CapacityLimiter(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await (self.app(scope, receive, send) if scope["type"] == "lifespan" else send({"type": "websocket.close"}))
            return
        started = False

        async def answered(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if self.sessions.secure:
                    headers["strict-transport-security"] = "max-age=31536000"
            await send(message)

        try:
            await self._pass_on(scope, receive, answered)
        except Exception as error:
            response = self.answer(scope, refusal(error))
            if not started:
                await response(scope, receive, answered)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if re.sub(r":\d*$", "", headers.get("host", "").lower()) not in self.hosts:
            raise Refused("WrongHost", "this host is not the office's; its keeper names hosts in the office's file")
        target = scope.get("raw_path") or scope["path"].encode()
        if len(target) + len(scope["query_string"]) > self.limits.target:
            raise Refused("TooLarge", "the address of the request is too long")
        if re.search(rb"\.\.|//|\\|%(?:00|2e|2f|5c)", target, re.IGNORECASE):
            raise Refused("NotFound", "there is nothing at this address")
        scope["caller"] = caller = await self._identify(headers)
        key = ("name", caller.name) if caller else ("address", scope["client"][0] if scope.get("client") else "")
        if not (self.strangers if caller is None else self.callers).take(key):
            raise Refused("TooManyRequests", "too many requests; wait a little")
        # A stranger who sends slowly keeps nobody of the same address from signing in.
        body = await self._body(headers, receive) if caller is None else b""
        # Of one caller some requests work at a time, so that others are not slowed by them.
        # Style sheet and script come as fast as the page that asks for them.
        if self.at_work[key] >= self.limits.together and not target.startswith(b"/static/"):
            raise Refused("TooManyRequests", f"at most {self.limits.together} requests at a time; wait for the others")
        self.at_work[key] += 1
        try:
            pending = [{"type": "http.request", "body": await self._body(headers, receive) if caller else body}]

            async def again() -> Message:  # the body that was read, then what else comes
                return pending.pop() if pending else await receive()

            await self.app(scope, again, send)
        finally:
            self.at_work[key] -= 1
            self.at_work += Counter()  # without those that have none

    async def _identify(self, headers: Headers) -> Caller | None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        session = None
        if scheme.lower() != "bearer":
            pairs = [part.partition("=") for part in re.split(r";\s*", headers.get("cookie", ""))]
            values = [value for name, _, value in pairs if name == self.sessions.cookie]
            # Of two cookies of this name one was put there by somebody else.
            session = self.sessions.find(values[0]) if len(values) == 1 else None
            token = session.token if session else ""
        if not 20 <= len(token) <= 200 or not token.isascii():
            return None
        name = await to_thread.run_sync(self.holder, token, limiter=self.looking_up)
        return None if name is None else Caller(name, session)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        too_large = Refused("TooLarge", f"a request has at most {self.limits.body:,} bytes")
        length, body, more = headers.get("content-length", "0"), bytearray(), True
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may read the other one
            raise Refused("BadRequest", "a request has either Content-Length or Transfer-Encoding")
        if not length.isdecimal() or len(length) > 9 or int(length) > self.limits.body:
            raise too_large
        try:
            async with asyncio.timeout(self.limits.seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise TimeoutError
                    body += message.get("body", b"")
                    if len(body) > self.limits.body:
                        raise too_large
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refused("Timeout", "the request was not sent whole") from None
        return bytes(body)

"""The pages of the office: what the service says, for people. A page without a script does whatever one with it does.

A handler gets a `Visit` and returns an answer; what it shows comes from the service, which judges what forms ask for.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request as HTTPRequest
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.types import Scope

import dpstats as dp
from dpstats.errors import ArgumentError, DPStatsError
from dpstats.office import reports
from dpstats.office.bounded import bounded
from dpstats.office.request import VERBS, Job, Request
from dpstats.office.security import Limits, Refused, Sessions, caller_of, check_csrf, check_origin, parse_json, refusal
from dpstats.office.service import Service

HERE = Path(__file__).parent
STATIC = {path.name: path for path in (HERE / "static").iterdir()}

STATES = {"waiting": "waits for the keeper", "working": "in preparation"}  # states whose own word says too little
HEADINGS = {401: "Please sign in", 404: "There is no such page", 409: "The budget does not suffice"}
HEADINGS |= {422: "This cannot be done"}
LINKS = {"/": "Data sets", "/releases": "Releases"}
KEEPER_LINKS = {"/": "Budgets and requests", "/analysts": "Analysts", "/audit": "Audit log"}
FAMILIES = {"gaussian": "Gaussian: a number", "binomial": "Binomial: yes or no", "poisson": "Poisson: a count"}
GIVEN = {name: "" for verb in VERBS.values() for name in verb.fields} | {"family": "gaussian", "eps": "0.5"}
GIVEN |= {"label": "", "options": ""}
LISTS = ("columns", "candidates")

OPTION = 1_000  # letters of a line of options: Python's own reader is not made for long ones


class Visit(HTTPRequest):
    """A request to the office whose body was read: `sent` has the fields of the form, or of the JSON."""

    sent: dict[str, Any]

    def read_form(self, body: bytes, *, is_open: bool) -> None:
        """Take the fields of a form; unless the page is open to strangers, refuse them, and forms of other pages."""
        try:
            pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100)
        except ValueError:
            raise Refused("BadRequest", "the form could not be read") from None
        self.sent = {name: value.replace("\r\n", "\n") for name, value in pairs}
        if not is_open:
            caller_of(self)
            if self.method == "POST":
                check_csrf(self, self.sent.get("csrf"))

    @property
    def service(self) -> Service:
        return self.app.state.service

    @property
    def name(self) -> str:
        """Who has signed in; Refused if nobody has."""
        return caller_of(self).name

    def dataset(self, name: str) -> dict[str, Any]:
        for one in self.service.datasets(self.name):
            if one["name"] == name:
                return one
        raise Refused("NotFound", "there is no data set of this name that you may ask")

    def title(self, job: Job) -> str:
        return job.label or what(self.service, job)

    def job(self) -> Job:
        """The release in the address; Refused if there is none that the caller may see."""
        try:
            return self.service.job(self.name, self.path_params["id"])
        except ArgumentError:
            raise Refused("NotFound", "there is no release of this id that you may see") from None

    def result(self, function: Callable[..., Any], *more: Any) -> Any:
        """What a function makes of the release in the address; Refused where it makes nothing."""
        result = self.job().result
        made = None if result is None else bounded(self.name, function, result, *more)
        if made is None:
            raise Refused("NotFound", "this release has no such picture or file")
        return made

    def show(self, template: str, title: str, status: int = 200, **values: Any) -> Response:
        return page(self.scope, template, title, status, **values)


def figure(value: Any, digits: int = 6) -> str:
    """A number with so many digits, without an exponent from .0001 to a million; "none" where there is none."""
    if value is None or not math.isfinite(value):
        return "none"
    if digits >= 6 and value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text and abs(value) < 1e9 else text


def sentence(text: str | None) -> str:
    """A message with a full stop, or its question mark; it may begin with an argument's name, which has no capital."""
    text = text or ""
    return text if not text or text.endswith("?") else f"{text.rstrip('.')}."


def when(seconds: float) -> Markup:
    time = datetime.fromtimestamp(seconds, UTC)
    return Markup('<time datetime="{}">{}</time>').format(time.isoformat(), time.strftime("%-d %b %Y, %H:%M:%S UTC"))


def what(service: Service, job: Job) -> str:
    """What a job is about: its formula, or that of the model that it evaluates."""
    arguments, title = job.request.arguments, VERBS[job.request.verb].title
    about = arguments.get("formula") or arguments.get("score") or arguments.get("columns") or ""
    for model in service.named([arguments["fit"]]).values() if job.request.verb == "evaluate" else ():
        return f"{title} of {model.label or what(service, model)}"
    text = ", ".join(map(str, about)) if isinstance(about, list) else str(about)
    return text or title


def printed(text: str) -> Markup:
    """The HTML of a summary, its notes below it; places and widths are those of the style sheet."""
    tables, _, notes = re.sub(r' style="[^"]*"', "", text).partition("<br/><br/>")
    sentences = [re.sub(r"^\[\d+\] ", "", note) for note in notes.split("<br/>") if note not in ("", "Notes:")]
    return Markup(tables + "".join(["<ol class=notes>", *(f"<li>{one}</li>" for one in sentences), "</ol>"]))


TEMPLATES = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined)
TEMPLATES.trim_blocks = TEMPLATES.lstrip_blocks = True
TEMPLATES.filters |= {one.__name__: one for one in (figure, sentence, when, printed)}
TEMPLATES.globals |= {"words": STATES, "verbs": VERBS, "families": FAMILIES}


def page(scope: Scope, template: str, title: str, status: int = 200, **values: Any) -> Response:
    """A page for whoever has sent the request; without a title a part of one."""
    caller, state = scope.get("caller"), scope["app"].state
    values |= {"what": partial(what, state.service), "links": KEEPER_LINKS if state.keeper else LINKS}
    values |= {"place": state.service.office.title}
    values |= {"keeper": state.keeper, "here": scope["path"], "name": caller.name if caller else "", "title": title}
    values |= {"csrf_token": caller.session.csrf if caller and caller.session else "", "content": template}
    text = TEMPLATES.get_template("base.html" if title else template).render(values)
    return Response(text, status, media_type="text/html")


def fault_page(scope: Scope, error: Refused) -> Response:
    """The page that says why a request is refused; to the sign-in where nobody has signed in."""
    if error.kind == "Unauthorized" and scope["method"] == "GET":
        return RedirectResponse("/login", 303)
    return page(scope, "fault.html", HEADINGS.get(error.status, "Not now"), error.status, message=str(error))


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
            arguments[field] = number(field, text)
        elif text and (name, field, text) != ("check", "family", "gaussian"):
            arguments[field] = text
    for at, line in enumerate(_lines(sent.get("options", "")), 1):
        option, _, value = line[:OPTION].partition("=")
        try:
            arguments[option.strip()] = json.loads(json.dumps(ast.literal_eval(value.strip()), allow_nan=False))
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            what = "type a name, '=' and a value as in Python, such as inference = True or method = 'statistics'"
            raise ArgumentError(f"options, line {at}: {what}") from None
    request = Request(dataset, name, arguments, sent.get("label", "").strip() or None)
    return read(dataset, written(request))  # within the limits of all requests


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def number(name: str, text: str) -> float:
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
        return number("candidates", line)
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


def sign_in(visit: Visit) -> Response:
    sessions: Sessions = visit.app.state.sessions
    keeper, token, fault = visit.app.state.keeper, visit.sent.get("token", "").strip(), None
    if visit.method == "POST":
        check_origin(visit.headers)
        if visit.service.is_keeper(token) if keeper else visit.service.analyst_of(token) is not None:
            answer = RedirectResponse("/", 303)
            sessions.set_cookie(answer, sessions.open(token))
            return answer
        fault = "This token is not known, or it was revoked."
    title = "Sign in as keeper" if keeper else "Sign in"
    return visit.show("login.html", title, 401 if fault else 200, fault=fault)


def sign_out(visit: Visit) -> Response:
    answer, session, sessions = RedirectResponse("/login", 303), caller_of(visit).session, visit.app.state.sessions
    if session is not None:
        sessions.close(session)
    sessions.set_cookie(answer, None)
    return answer


def static(visit: Visit) -> Response:
    name = visit.path_params["name"]
    if name not in STATIC:
        raise Refused("NotFound", "there is no such page")
    return FileResponse(STATIC[name], headers={"cache-control": "max-age=600"})


def home(visit: Visit) -> Response:
    jobs = visit.service.jobs(visit.name)
    return visit.show("datasets.html", "Data sets", datasets=visit.service.datasets(visit.name), recent=jobs[:5])


def codebook(visit: Visit) -> Response:
    """The public facts of a data set; those columns that have all the words that are searched for."""
    data, query = visit.dataset(visit.path_params["data"]), visit.query_params.get("q", "")
    texts = [" ".join(map(str, one.values())).lower() for one in data["columns"]]
    matches = [all(word in text for word in query.lower().split()) for text in texts]
    columns = [one for one, is_found in zip(data["columns"], matches, strict=True) if is_found]
    return visit.show("dataset.html", data["title"], data=data, columns=columns, q=query)


def ask(visit: Visit) -> Response:
    """The form of a plan, with the plan below it once there is one."""
    data, query = visit.dataset(visit.path_params["data"]), visit.query_params
    values: dict[str, Any] = {"chosen": query.get("verb", data["verbs"][0]), "plan": None, "fault": None}
    if visit.method == "POST":
        values["given"] = GIVEN | {name: value for name, value in visit.sent.items() if name in GIVEN}
        values |= {"chosen": visit.sent.get("verb", values["chosen"]), **planned(visit, data)}
    elif "from" in query:
        before = visit.service.job(visit.name, query["from"]).request
        values |= {"given": GIVEN | fields_of(before), "chosen": before.verb}
    else:
        values["given"] = GIVEN | {name: query[name] for name in ("fit", "options") if name in query}
    if values["chosen"] not in data["verbs"]:
        raise Refused("NotFound", "this data set does not offer that kind of release")
    kind = ("released", "glm", data["name"])
    fits = [one for one in visit.service.jobs(visit.name) if (one.state, one.request.verb, one.request.dataset) == kind]
    return visit.show("ask.html", "Plan a release", 422 if values["fault"] else 200, data=data, fits=fits, **values)


def plan(visit: Visit) -> Response:
    data = visit.dataset(visit.path_params["data"])
    return visit.show("plan.html", "", data=data, **planned(visit, data))


def planned(visit: Visit, data: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows of a plan: the plan, or the fault of the request."""
    try:
        request = request_of(data["name"], visit.sent)
        plan_facts = visit.service.plan(visit.name, request, forecast=True)
    except (DPStatsError, Refused) as error:
        return {"fault": str(refusal(error)), "plan": None}
    facts = {"fault": None, "plan": plan_facts, "chosen": request.verb, "asked": written(request)}
    return {**facts, "code": reports.code(visit, request)}


def planned_request(visit: Visit) -> Request:
    return read(visit.path_params["data"], visit.sent.get("request", ""))


def file(content: bytes, kind: str, name: str) -> Response:
    return Response(content, 200, {"content-disposition": f'attachment; filename="{name}"'}, kind)


def made_up(visit: Visit) -> Response:
    request = planned_request(visit)
    text = visit.service.made_up(visit.name, request, 1000)
    return file(text.encode(), "text/csv", f"{request.dataset}_made_up.csv")


def submit(visit: Visit) -> Response:
    job = visit.service.submit(visit.name, planned_request(visit))
    return RedirectResponse(f"/releases/{job.id}", 303)


def share(visit: Visit) -> Response:
    job = visit.service.share(visit.name, visit.job().id, visit.sent.get("shared") == "yes")
    return RedirectResponse(f"/releases/{job.id}", 303)


def release(visit: Visit) -> Response:
    """One release: that it waits, or its table with all that can be done with it."""
    job = visit.job()
    values: dict[str, Any] = {"job": job}
    if job.state == "released" and job.result is not None and job.result["kind"] != "Mismatch":
        values["table"], values["pictures"] = visit.result(reports.shown)
        values |= {"exports": reports.exports(), "code": reports.code(visit, job.request, job.id)}
    return visit.show("release.html", visit.title(job), **values)


def picture(visit: Visit) -> Response:
    return Response(visit.result(reports.picture, visit.path_params["kind"]), media_type="image/svg+xml")


def export(visit: Visit) -> Response:
    job, kind = visit.job(), visit.path_params["kind"]
    content, media = visit.result(reports.export, visit.title(job), kind)
    return file(content, media, f"release_{job.id[:8]}.{kind}")


def overview(visit: Visit) -> Response:
    budgets = visit.service.budgets()
    for one in budgets:
        one["spent"] = max((row["eps"] or 0.0 for row in one["history"]), default=0.0)
    return visit.show("overview.html", KEEPER_LINKS["/"], waiting=visit.service.waiting(), budgets=budgets)


def decide(visit: Visit) -> Response:
    decision = visit.sent.get("decision")
    if decision not in ("approve", "refuse"):
        raise Refused("BadRequest", "choose between approve and refuse")
    getattr(visit.service, decision)(visit.path_params["id"])
    return RedirectResponse("/", 303)


def analysts(visit: Visit) -> Response:
    """Who may ask; the token of one that is added is on this answer and nowhere else."""
    name = visit.sent.get("name", "").strip()
    token = visit.service.add_analyst(name) if visit.method == "POST" else ""
    return visit.show("analysts.html", "Analysts", analysts=visit.service.analysts(), analyst=name, token=token)


def revoke(visit: Visit) -> Response:
    visit.service.revoke(visit.sent.get("name", ""))
    return RedirectResponse("/analysts", 303)


def audit(visit: Visit) -> Response:
    """Who did what, the latest first; of one analyst, act or request where that is searched for."""
    about = visit.query_params.get("about", "").strip()
    rows = visit.service.audit(most=1000, about=about)
    jobs = visit.service.named(row["subject"] for row in rows)
    return visit.show("audit.html", "Audit log", rows=rows[::-1], about=about, jobs=jobs)


def report(visit: Visit) -> Response:
    """The ledger's own page, whose style sheet is allowed by its hash."""
    text = visit.service.report(visit.path_params["data"])
    sheets = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode() for sheet in sheets]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    return Response(text, 200, {"content-security-policy": f"default-src 'none'; style-src {allowed}"}, "text/html")


def spending(visit: Visit) -> Response:
    name = visit.path_params["data"]
    if name not in visit.service.office.datasets:
        raise Refused("NotFound", "the office has no such data set")
    ledger = visit.service.office.datasets[name].ledger
    return Response(reports.draw(lambda ax: dp.plots.spending(ledger, ax=ax)), media_type="image/svg+xml")


Handler = Callable[[Visit], Response]
OPEN: tuple[Handler, ...] = (sign_in, static)  # what those see who have not signed in
BOTH: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/login", sign_in),
    ("POST", "/login", sign_in),
    ("POST", "/logout", sign_out),
    ("GET", "/static/{name}", static),
)
ANALYST: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/", home),
    ("GET", "/data/{data}", codebook),
    ("GET", "/data/{data}/ask", ask),
    ("POST", "/data/{data}/ask", ask),
    ("POST", "/data/{data}/plan", plan),
    ("POST", "/data/{data}/release", submit),
    ("POST", "/data/{data}/made_up", made_up),
    ("GET", "/releases", lambda visit: visit.show("releases.html", "Releases", jobs=visit.service.jobs(visit.name))),
    ("GET", "/releases/{id}", release),
    ("GET", "/releases/{id}/state", lambda visit: Response(visit.job().state, media_type="text/plain")),
    ("GET", "/releases/{id}/picture/{kind}", picture),
    ("GET", "/releases/{id}/export/{kind}", export),
    ("POST", "/releases/{id}/share", share),
)
KEEPER: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/", overview),
    ("POST", "/requests/{id}", decide),
    ("GET", "/analysts", analysts),
    ("POST", "/analysts", analysts),
    ("POST", "/analysts/revoke", revoke),
    ("GET", "/audit", audit),
    ("GET", "/budgets/{data}/report", report),
    ("GET", "/budgets/{data}/picture", spending),
)

"""The pages of the office: what the service says, for people. A page without a script does whatever one with it does.

A handler gets a `Visit` and returns an answer; what it shows comes from the service.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as Web
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

import dpstats as dp
from dpstats.cached import cached_property
from dpstats.errors import DPStatsError
from dpstats.office import reports
from dpstats.office.bounded import bounded
from dpstats.office.forms import FAMILIES, FORMS, GIVEN, TITLES, fields_of, read, request_of, written
from dpstats.office.request import Job
from dpstats.office.security import STATUS, UNAVAILABLE, Refused, Sessions, caller_of, check_csrf, check_origin
from dpstats.office.service import Service

HERE = Path(__file__).parent


STATES = {"waiting": "waits for the keeper", "working": "in preparation"}
"""States whose own word says too little."""

HEADINGS = {
    401: "Please sign in",
    404: "There is no such page",
    409: "The budget does not suffice",
    422: "This cannot be done",
}
# --- what a visitor sends --------------------------------------------------------------------------------------------


@dataclass
class Visit:
    """A request of a browser to the pages of analysts or of the keeper."""

    web: Web
    service: Service
    sessions: Sessions
    keeper: bool
    body: bytes = b""

    @cached_property
    def sent(self) -> dict[str, str]:
        """The fields of the form."""
        try:
            pairs = parse_qsl(self.body.decode(), keep_blank_values=True, max_num_fields=100)
        except ValueError:
            raise Refused("BadRequest", "the form could not be read") from None
        return {name: value.replace("\r\n", "\n") for name, value in pairs}

    @property
    def name(self) -> str:
        """Who has signed in; Refused if nobody has."""
        return caller_of(self.web).name

    @property
    def frame(self) -> dict[str, Any]:
        """What all pages have around them."""
        links = KEEPER_LINKS if self.keeper else ANALYST_LINKS
        return {"place": self.service.office.title, "links": links, "keeper": self.keeper}

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page."""
        return page(self.web.scope, template, status, **self.frame, **values)

    def data(self) -> dict[str, Any]:
        """The public facts of the data set in the address."""
        name = self.web.path_params["data"]
        for one in self.service.datasets(self.name):
            if one["name"] == name:
                return one
        raise Refused("NotFound", "the office has no such data set for you")

    def job(self) -> Job:
        """The release in the address."""
        return self.service.job(self.name, self.web.path_params["id"])


def refusal(error: DPStatsError) -> Refused:
    """What is said of an error of the service: its message if that follows from public facts, else a constant."""
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__name__ in STATUS and kind.__name__ != "DataError"]
    return Refused(kinds[0], str(error)) if kinds else Refused("Unavailable", UNAVAILABLE)


# --- how values are written ------------------------------------------------------------------------------------------


def figure(value: Any, digits: int = 6) -> str:
    """A number with so many digits, without an exponent from .0001 to a million; "none" where there is none."""
    if value is None or not math.isfinite(value):
        return "none"
    if digits >= 6 and value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text and abs(value) < 1e9 else text


def sentence(text: str | None) -> str:
    """A message with a full stop; it may begin with the name of an argument, which has no capital."""
    return f"{text.rstrip('.')}." if text else ""


def when(seconds: float) -> Markup:
    """A time, in UTC."""
    time = datetime.fromtimestamp(seconds, UTC)
    return Markup('<time datetime="{}">{}</time>').format(time.isoformat(), time.strftime("%-d %b %Y, %H:%M:%S UTC"))


def what(job: Job) -> str:
    """What a job is about, on one line."""
    arguments = job.request.arguments
    about = arguments.get("formula") or arguments.get("score") or arguments.get("columns") or ""
    text = ", ".join(map(str, about)) if isinstance(about, list) else str(about)
    return text or FORMS[job.request.verb].title


def printed(text: str) -> Markup:
    """The HTML of a summary, its notes below it; places and widths are those of the style sheet."""
    tables, _, notes = re.sub(r' style="[^"]*"', "", text).partition("<br/><br/>")
    sentences = [re.sub(r"^\[\d+\] ", "", note) for note in notes.split("<br/>") if note not in ("", "Notes:")]
    return Markup(tables + "".join(["<ol class=notes>", *(f"<li>{one}</li>" for one in sentences), "</ol>"]))


TEMPLATES = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined)
TEMPLATES.trim_blocks = TEMPLATES.lstrip_blocks = True
TEMPLATES.filters |= {one.__name__: one for one in (figure, sentence, when, what, printed)}


def page(scope: Scope, template: str, status: int = 200, **values: Any) -> Response:
    """A page for whoever has sent the request."""
    caller = scope.get("caller")
    session = caller.session if caller else None
    text = TEMPLATES.get_template(template).render(
        name="" if caller is None else caller.name,
        csrf_token="" if session is None else session.csrf,
        here=scope["path"],
        words=STATES,
        **{"titles": TITLES, **values},
    )
    return Response(text, status, media_type="text/html")


def fault_page(scope: Scope, error: Refused, status: int, **values: Any) -> Response:
    """The page that says why a request is refused; to the sign-in where nobody has signed in."""
    if error.kind == "Unauthorized" and scope["method"] == "GET":
        return RedirectResponse("/login", 303)
    values = {"place": "Office", "links": (), "keeper": False, **values}
    return page(scope, "fault.html", status, heading=HEADINGS.get(status, "Not now"), message=str(error), **values)


# --- pages of both ---------------------------------------------------------------------------------------------------


def sign_in(visit: Visit) -> Response:
    """Ask for a token, and open a session for one that is known."""
    if visit.web.method == "GET":
        return visit.show("login.html", fault=None)
    check_origin(visit.web.headers)
    token = visit.sent.get("token", "").strip()
    known = visit.service.is_keeper(token) if visit.keeper else visit.service.analyst_of(token) is not None
    if not known:
        return visit.show("login.html", 401, fault="This token is not known, or it was revoked.")
    answer = RedirectResponse("/", 303)
    visit.sessions.set_cookie(answer, visit.sessions.open(token))
    return answer


def sign_out(visit: Visit) -> Response:
    """Close the session."""
    session = caller_of(visit.web).session
    if session is not None:
        visit.sessions.close(session)
    answer = RedirectResponse("/login", 303)
    visit.sessions.set_cookie(answer, None)
    return answer


def static(visit: Visit) -> Response:
    """The style sheet, the script and the icon."""
    name = visit.web.path_params["name"]
    kinds = {"office.css": "text/css", "office.js": "text/javascript", "icon.svg": "image/svg+xml"}
    if name not in kinds:
        raise Refused("NotFound", "there is no such page")
    return FileResponse(HERE / "static" / name, headers={"cache-control": "max-age=600"}, media_type=kinds[name])


# --- the analyst's ---------------------------------------------------------------------------------------------------


def home(visit: Visit) -> Response:
    """The data sets, and what was released last."""
    jobs = visit.service.jobs(visit.name)
    return visit.show("datasets.html", datasets=visit.service.datasets(visit.name), recent=jobs[:5])


def codebook(visit: Visit) -> Response:
    """The public facts of a data set; those columns that have all the words that are searched for."""
    data = visit.data()
    query = visit.web.query_params.get("q", "")
    words = query.lower().split()
    columns = [
        one for one in data["columns"] if all(word in " ".join(map(str, one.values())).lower() for word in words)
    ]
    return visit.show("dataset.html", data=data, columns=columns, q=query)


def ask(visit: Visit) -> Response:
    """The form of a plan, with the plan below it once there is one."""
    data = visit.data()
    given = dict(GIVEN)
    asked = visit.web.query_params
    chosen = asked.get("verb", data["verbs"][0])
    if visit.web.method == "POST":
        given |= {name: value for name, value in visit.sent.items() if name in given}
        chosen = visit.sent.get("verb", chosen)
    elif "from" in asked:
        before = visit.service.job(visit.name, asked["from"]).request
        given, chosen = given | fields_of(before), before.verb
    else:
        given |= {name: asked[name] for name in ("fit", "options") if name in asked}
    if chosen not in data["verbs"]:
        raise Refused("NotFound", "this data set does not offer that kind of release")
    jobs = visit.service.jobs(visit.name)
    fits = [job for job in jobs if job.state == "released" and job.request.verb == "glm"]
    below = _planned(visit, data) if visit.web.method == "POST" else {"plan": None, "fault": None}
    return visit.show(
        "ask.html",
        422 if below["fault"] else 200,
        **{"chosen": chosen, **below},
        data=data,
        given=given,
        forms=FORMS,
        families=FAMILIES,
        fits=[job for job in fits if job.request.dataset == data["name"]],
    )


def plan(visit: Visit) -> Response:
    """The plan alone, for the script."""
    data = visit.data()
    return visit.show("plan.html", data=data, **_planned(visit, data))


def _planned(visit: Visit, data: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows of a plan: the plan, or the fault of the request."""
    try:
        request = request_of(data["name"], visit.sent)
        found = visit.service.plan(visit.name, request, forecast=True)
    except (DPStatsError, Refused) as error:
        return {"fault": str(error if isinstance(error, Refused) else refusal(error)), "plan": None}
    return {
        "fault": None,
        "plan": found,
        "chosen": request.verb,
        "asked": written(request),
        "code": reports.code(visit.web, request),
    }


def release(visit: Visit) -> Response:
    """Take a request that was planned."""
    data = visit.data()
    request = read(data["name"], visit.sent.get("request", ""))
    job = visit.service.submit(visit.name, request)
    return RedirectResponse(f"/releases/{job.id}", 303)


def made_up(visit: Visit) -> Response:
    """Rows of a plan, drawn from public facts."""
    data = visit.data()
    text = visit.service.made_up(visit.name, read(data["name"], visit.sent.get("request", "")), 1000)
    return _file(text.encode(), "text/csv", f"{data['name']}_made_up.csv")


def _file(content: bytes, kind: str, name: str) -> Response:
    return Response(content, headers={"content-disposition": f'attachment; filename="{name}"'}, media_type=kind)


def releases(visit: Visit) -> Response:
    """All that the analyst may see."""
    return visit.show("releases.html", jobs=visit.service.jobs(visit.name))


def released(visit: Visit) -> Response:
    """One release: that it waits, or its table with all that can be done with it."""
    job = visit.job()
    values: dict[str, Any] = {"job": job}
    if job.state == "released" and job.result is not None and job.result["kind"] != "Mismatch":
        table, pictures = _of_result(visit, reports.shown)
        values |= {
            "table": table,
            "pictures": pictures,
            "exports": reports.exports(),
            "code": reports.code(visit.web, job.request, job.id),
        }
    return visit.show("release.html", **values)


def state(visit: Visit) -> Response:
    """The state of a release, for the script."""
    return Response(visit.job().state, media_type="text/plain")


def _of_result(visit: Visit, function: Callable[..., Any], *more: Any) -> Any:
    """What a function makes of a release; Refused where it makes nothing."""
    result = visit.job().result
    found = None if result is None else bounded(visit.name, function, result, *more)
    if found is None:
        raise Refused("NotFound", "this release has no such picture or file")
    return found


def picture(visit: Visit) -> Response:
    """A picture of a release."""
    kind = visit.web.path_params["kind"]
    return Response(_of_result(visit, reports.picture, kind), media_type="image/svg+xml")


def export(visit: Visit) -> Response:
    """A release as a file."""
    job, kind = visit.job(), visit.web.path_params["kind"]
    content, media = _of_result(visit, reports.export, job.label or what(job), kind)
    return _file(content, media, f"release_{job.id[:8]}.{kind}")


def share(visit: Visit) -> Response:
    """Show a release to the other analysts, or no more."""
    job = visit.service.share(visit.name, visit.web.path_params["id"], visit.sent.get("shared") == "yes")
    return RedirectResponse(f"/releases/{job.id}", 303)


# --- the keeper's ----------------------------------------------------------------------------------------------------


def overview(visit: Visit) -> Response:
    """Requests that wait, and the budgets."""
    budgets = [
        {**one, "spent": max((row["eps"] or 0.0 for row in one["history"]), default=0.0)}
        for one in visit.service.budgets()
    ]
    return visit.show("overview.html", waiting=visit.service.waiting(), budgets=budgets)


def decide(visit: Visit) -> Response:
    """Approve or refuse a request that waits."""
    decision = visit.sent.get("decision")
    if decision not in ("approve", "refuse"):
        raise Refused("BadRequest", "choose between approve and refuse")
    getattr(visit.service, decision)(visit.web.path_params["id"])
    return RedirectResponse("/", 303)


def analysts(visit: Visit, **new: str) -> Response:
    """Who may ask; with the token of one that was just added."""
    return visit.show("analysts.html", analysts=visit.service.analysts(), new=new)


def add_analyst(visit: Visit) -> Response:
    """Add an analyst; the token is on the answer and nowhere else."""
    name = visit.sent.get("name", "").strip()
    return analysts(visit, analyst=name, token=visit.service.add_analyst(name))


def revoke(visit: Visit) -> Response:
    """Take an analyst's token away."""
    visit.service.revoke(visit.sent.get("name", ""))
    return RedirectResponse("/analysts", 303)


def audit(visit: Visit) -> Response:
    """Who did what, the latest first; of one analyst, act or request where that is searched for."""
    about = visit.web.query_params.get("about", "").strip()
    rows = visit.service.audit(most=1000, about=about)
    return visit.show("audit.html", rows=rows[::-1], about=about)


def report(visit: Visit) -> Response:
    """The ledger's own page, whose style sheet is allowed by its hash."""
    page = visit.service.report(visit.web.path_params["data"])
    sheets = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode() for sheet in sheets]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    return Response(
        page, headers={"content-security-policy": f"default-src 'none'; style-src {allowed}"}, media_type="text/html"
    )


def spending(visit: Visit) -> Response:
    """The picture of a budget over time."""
    name = visit.web.path_params["data"]
    if name not in visit.service.office.datasets:
        raise Refused("NotFound", "the office has no such data set")
    ledger = visit.service.office.datasets[name].ledger
    return Response(reports.draw(lambda ax: dp.plots.spending(ledger, ax=ax)), media_type="image/svg+xml")


# --- addresses -------------------------------------------------------------------------------------------------------

ANALYST_LINKS = (("/", "Data sets"), ("/releases", "Releases"))
KEEPER_LINKS = (("/", "Budgets and requests"), ("/analysts", "Analysts"), ("/audit", "Audit log"))

Handler = Callable[[Visit], Response]
OPEN: tuple[Handler, ...] = (sign_in, static)
"""What those see who have not signed in."""

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
    ("POST", "/data/{data}/release", release),
    ("POST", "/data/{data}/made_up", made_up),
    ("GET", "/releases", releases),
    ("GET", "/releases/{id}", released),
    ("GET", "/releases/{id}/state", state),
    ("GET", "/releases/{id}/picture/{kind}", picture),
    ("GET", "/releases/{id}/export/{kind}", export),
    ("POST", "/releases/{id}/share", share),
)
KEEPER: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/", overview),
    ("POST", "/requests/{id}", decide),
    ("GET", "/analysts", analysts),
    ("POST", "/analysts", add_analyst),
    ("POST", "/analysts/revoke", revoke),
    ("GET", "/audit", audit),
    ("GET", "/budgets/{data}/report", report),
    ("GET", "/budgets/{data}/picture", spending),
)


def routes(service: Service, sessions: Sessions, *, keeper: bool = False) -> list[Route]:
    """The routes of the pages for analysts, or of those for the keeper."""
    return [
        Route(path, _endpoint(handler, service, sessions, keeper), methods=[method])
        for method, path, handler in (*BOTH, *(KEEPER if keeper else ANALYST))
    ]


def _endpoint(handler: Handler, service: Service, sessions: Sessions, keeper: bool) -> Callable[[Web], Any]:
    """What Starlette calls: the handler in a thread, once the form's own token is checked."""

    async def endpoint(web: Web) -> Response:
        visit = Visit(web, service, sessions, keeper, await web.body())
        try:
            if handler not in OPEN:
                caller_of(web)
            if web.method == "POST" and handler is not sign_in:
                check_csrf(web, visit.sent.get("csrf"))
            return await run_in_threadpool(handler, visit)
        except (Refused, DPStatsError) as error:
            refused = error if isinstance(error, Refused) else refusal(error)
            return fault_page(web.scope, refused, STATUS[refused.kind], **visit.frame)

    return endpoint

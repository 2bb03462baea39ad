"""An office from the analyst's side: requests over HTTPS, and the same results as from calls on one's own rows."""

from __future__ import annotations

import io
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import numpy as np
import pandas as pd

from dpstats import errors
from dpstats.arguments import check_choice, explain_calls, is_number, safe_repr
from dpstats.errors import ArgumentError, DPStatsError, OfficeError, ReleaseError
from dpstats.evaluation import Check, Evaluation
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson, SmoothSVM
from dpstats.families.gaussian import capped
from dpstats.frames import WideFrame
from dpstats.models.ranges import BoughtRanges
from dpstats.office.config import is_loopback
from dpstats.office.request import from_result
from dpstats.penalties import Penalty
from dpstats.progress import show_elapsed
from dpstats.results.glm_results import GLMResults
from dpstats.results.statistics import ReleasedStatistics
from dpstats.tuning import Selection

Result = TypeVar("Result", GLMResults, Evaluation, Check, ReleasedStatistics, BoughtRanges, Selection)

KNOWN = ("ArgumentError", "BudgetExceeded", "DataError", "DomainError", "FormulaError", "MismatchError",
         "NotReleasedError", "UncertifiedError")  # fmt: skip
"""Errors of an office that are raised as those of a call on one's own rows."""

TRIES = 6
"""How often a request is sent that got no answer, with 1, 2, 4 ... half seconds in between."""

JSON_TYPE = "application/json"
MOST_BYTES = 1 << 28  # a longer answer is none of an office


@explain_calls()
def connect(url: str, token: str | None = None, *, ca: str | None = None, timeout: float = 60.0) -> OfficeClient:
    """Connect to an office: somebody else's rows, which stay there.

    Parameters
    ----------
    url : str
        Such as ``"https://office.example.org"``. ``http://`` is for this machine only, as the token would cross the
        network in the clear.
    token : str, optional
        The analyst's, as the keeper has handed it over; by default that of the environment variable DPSTATS_TOKEN.
    ca : str, optional
        The file of a certificate authority that the machine does not know, such as the keeper's own.
    timeout : float
        Seconds to wait for one answer. Releases are waited for as long as they take.

    Returns
    -------
    OfficeClient
        With `glm`, `plan` and the other calls, where the name of a data set stands in place of the rows.

    Raises
    ------
    ArgumentError
        If the address or the token cannot be one.
    OfficeError
        If there is no office at the address, or it does not know the token.

    Examples
    --------
    >>> import dpstats as dp
    >>> office = dp.connect("https://office.example.org", token="...")  # doctest: +SKIP
    >>> print(office.plan("y ~ x1 + x2", "survey", eps=0.5))  # doctest: +SKIP
    >>> fit = office.glm("y ~ x1 + x2", "survey", eps=0.5)  # doctest: +SKIP
    """
    client = OfficeClient(url, token if token is not None else os.environ.get("DPSTATS_TOKEN"), ca, timeout)
    client.datasets()
    return client


@dataclass(frozen=True)
class OfficePlan:
    """What a request would release and cost, by the office's own account; `str` and notebooks show it whole.

    Attributes
    ----------
    facts : dict
        As the office sent them: notes and others.
    costs, left : dict
        The eps and delta that the request would be charged, and those that the analyst may still spend.
    forecast : pandas.DataFrame or None
        Standard errors forecast for the declared number of rows, if they can be.
    """

    facts: Mapping[str, Any]
    costs: dict[str, float]
    left: dict[str, float]
    forecast: pd.DataFrame | None

    def standard_errors(self, n: int | None = None) -> pd.DataFrame | None:
        """The same as `forecast`; an office forecasts them for the declared number of rows and no other."""
        if n is not None and n != self.facts["rows"]:
            raise ArgumentError(f"n must be the declared number of rows, {self.facts['rows']}, or left out")
        return self.forecast

    def __str__(self) -> str:
        parts = [str(self.facts["summary"])]
        if "row counts" in parts[0]:
            parts.append(
                "The rows are counted first, and the rest of the budget is divided by their noisy number: what is "
                "released may\ndivide it otherwise than the table above. The sum stays."
            )
        if (table := self.forecast) is not None:
            title = f"Standard errors forecast for about {self.facts['rows']} rows, with ranges as they are declared:"
            shown = table.set_index("term")[["std_error", "lower", "upper"]]
            parts.append(f"{title}\n{shown.to_string(float_format='{:.3g}'.format)}")
        elif (why := self.facts.get("no_forecast")) is not None:
            parts.append(f"{why[:1].upper()}{why[1:]}.")
        if self.facts.get("before") is not None:
            parts.append(f"It was asked for before, as {self.facts['before']}, and is not paid for again.")
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return f"<OfficePlan: eps={self.costs['eps']:g}; {self.left['eps']:g} left>"

    def _repr_html_(self) -> str:
        return str(self.facts["html"])


class OfficeClient:
    """An office, for one analyst; made by `dpstats.connect`.

    The same call is the same release: its arguments and its label make the key under which the office charges it once.
    After a lost connection, an interrupt or a restart the call is repeated as it stands and takes the release up; run
    twice in a notebook it is paid for once. Another ``label=`` asks, and pays, for another release of the same.

    Examples
    --------
    >>> office = dp.connect("https://office.example.org", token="...")  # doctest: +SKIP
    >>> office.datasets()  # doctest: +SKIP
    >>> office.glm("y ~ x", "survey", eps=0.5, label="second draw")  # doctest: +SKIP
    """

    def __init__(self, url: str, token: str | None, ca: str | None = None, timeout: float = 60.0) -> None:
        self.url, local = _checked_url(url)
        token = token.strip() if isinstance(token, str) else token  # pasted with a line break
        if not isinstance(token, str) or not 20 <= len(token) <= 200 or not token.isascii() or not token.isprintable():
            raise ArgumentError("token must be what the keeper has handed over; or set DPSTATS_TOKEN to it")
        if not is_number(timeout) or timeout <= 0:
            raise ArgumentError(f"timeout must be a positive number of seconds, got {safe_repr(timeout)}")
        self._token, self._timeout = token, timeout
        self._answered = False  # whether there is an office at this address, for which it is worth to wait
        try:
            tls = ssl.create_default_context(cafile=ca)
        except (OSError, TypeError, ValueError):
            raise ArgumentError(f"ca must be the file of a certificate authority, got {safe_repr(ca)}") from None
        # A proxy would see the token of a plain connection, which goes to this machine.
        proxies = [urllib.request.ProxyHandler({})] if local else []
        self._opener = urllib.request.build_opener(_Stay(), urllib.request.HTTPSHandler(context=tls), *proxies)

    def __repr__(self) -> str:
        return f"<OfficeClient: {self.url}>"

    def datasets(self) -> pd.DataFrame:
        """The data sets that may be asked, one a row, and what is left of each."""
        sets = self._call("/v1/datasets")[1]["datasets"]
        rows = [{**one, **{f"{name}_left": one["left"].get(name) for name in ("eps", "delta")}} for one in sets]
        columns = ["name", "title", "rows", "most_eps", "verbs", "eps_left", "delta_left"]
        return WideFrame(pd.DataFrame(rows, columns=columns))

    def dataset(self, name: str) -> dict[str, Any]:
        """All public facts of a data set: its columns, its guarantee, what is offered and what is left."""
        return dict(self._call(f"/v1/datasets/{_part('dataset', name)}")[1])

    def codebook(self, name: str) -> pd.DataFrame:
        """The columns of a data set, one a row: kinds, ranges or levels, units, descriptions."""
        return WideFrame(self.dataset(name)["columns"])

    def plan(self, formula: str | None, dataset: str, eps: float, *, verb: str = "glm", **arguments: Any) -> OfficePlan:
        """What a call would release and cost; free. `verb` names another call than glm, whose formula may be None."""
        if formula is not None:
            arguments["formula"] = formula
        request = _request(verb, dataset, eps=eps, **arguments)
        facts = self._call("/v1/plan", request | {"forecast": verb == "glm"})[1]
        forecast = None if facts["forecast"] is None else WideFrame(facts["forecast"])
        return OfficePlan(facts, facts["costs"], facts["left"], forecast)

    def made_up(self, formula: str, dataset: str, eps: float, *, rows: int = 1_000, **arguments: Any) -> pd.DataFrame:
        """Rows that are made up by the codebook alone, to write code against; free."""
        request = _request("glm", dataset, formula=formula, eps=eps, **arguments)
        return pd.read_csv(io.StringIO(self._call("/v1/made-up", request | {"rows": rows})[1]))

    def glm(self, formula: str, dataset: str, eps: float, **arguments: Any) -> GLMResults:
        """A model, as by `dpstats.glm`; its seed, ledger and engine are the keeper's, and so is the adjacency.

        Ranges that were bought are used with ``domain=``: what `buy_ranges` returned, or the id of that release.
        """
        return self._release(GLMResults, _request("glm", dataset, formula=formula, eps=eps, **arguments))

    def ols(
        self, formula: str, dataset: str, eps: float, *, residual_cap: float | None = None, **arguments: Any
    ) -> GLMResults:
        """Least squares, as by `dpstats.ols`."""
        return self.glm(formula, dataset, eps, family=Gaussian(residual_cap), **arguments)

    def logit(self, formula: str, dataset: str, eps: float, **arguments: Any) -> GLMResults:
        """Logistic regression, as by `dpstats.logit`."""
        return self.glm(formula, dataset, eps, family=Binomial(), **arguments)

    def poisson(
        self,
        formula: str,
        dataset: str,
        eps: float,
        *,
        mean_cap: float | None = None,
        y_max: float | None = None,
        **arguments: Any,
    ) -> GLMResults:
        """Poisson regression, as by `dpstats.poisson`."""
        return self.glm(formula, dataset, eps, family=Poisson(mean_cap, y_max), **arguments)

    def svm(
        self, formula: str, dataset: str, eps: float, *, loss: str = "huber", h: float = 0.5, **arguments: Any
    ) -> GLMResults:
        """A linear support vector machine, as by `dpstats.svm`."""
        check_choice("loss", loss, ("huber", "smooth"))
        return self.glm(formula, dataset, eps, family=HuberSVM(h) if loss == "huber" else SmoothSVM(h), **arguments)

    def lasso(
        self,
        formula: str,
        dataset: str,
        eps: float,
        *,
        alpha: float | str = "auto",
        residual_cap: float | None = None,
        **arguments: Any,
    ) -> GLMResults:
        """A sparse fit, as by `dpstats.lasso`."""
        if residual_cap is not None:
            arguments = {**arguments, "family": capped(residual_cap, arguments.get("family", "gaussian"))}
        return self.glm(formula, dataset, eps, penalty="lasso", alpha=alpha, **arguments)

    def evaluate(self, fit: GLMResults | str, dataset: str, eps: float, **arguments: Any) -> Evaluation:
        """Measures of a model that this office released, or of its id, as by `dpstats.evaluate`."""
        return self._release(Evaluation, _request("evaluate", dataset, fit=fit, eps=eps, **arguments))

    def check(self, formula: str, dataset: str, eps: float, **arguments: Any) -> Check:
        """A look at the data before a fit, as by `dpstats.check`."""
        return self._release(Check, _request("check", dataset, formula=formula, eps=eps, **arguments))

    def release_statistics(self, dataset: str, columns: list[str], eps: float, **arguments: Any) -> ReleasedStatistics:
        """Sums of squares and products for many least squares models, as by `dpstats.release_statistics`."""
        request = _request("release_statistics", dataset, columns=columns, eps=eps, **arguments)
        return self._release(ReleasedStatistics, request)

    def buy_ranges(self, dataset: str, columns: list[str], eps: float, **arguments: Any) -> BoughtRanges:
        """Ranges of columns, as by `dpstats.buy_ranges`."""
        return self._release(BoughtRanges, _request("buy_ranges", dataset, columns=columns, eps=eps, **arguments))

    def select(self, candidates: Any, score: str, dataset: str, eps: float, **arguments: Any) -> Selection:
        """The best of some candidates, as by `dpstats.select`; models are results of this office."""
        named = isinstance(candidates, Mapping)
        parts = candidates.values() if named else candidates
        sent = [{"fit": one} if isinstance(one, GLMResults) else one for one in parts]
        arguments |= {"candidates": dict(zip(candidates, sent, strict=True)) if named else sent, "score": score}
        return self._release(Selection, _request("select", dataset, eps=eps, **arguments))

    def releases(self) -> pd.DataFrame:
        """One's own releases and those that others share, one a row."""
        names = ["id", "dataset", "verb", "formula", "eps", "label", "analyst", "state", "taken", "shared"]
        rows = [{"formula": None, **one["arguments"], **one} for one in self._call("/v1/releases")[1]["releases"]]
        table = pd.DataFrame(rows, columns=names)
        table["taken"] = pd.to_datetime(table["taken"].astype(float), unit="s", utc=True).dt.round("s")
        return WideFrame(table)

    def release(self, id: str) -> Any:
        """A release made before, once it is ready."""
        return self._wait(self._call(f"/v1/releases/{_part('id', id)}")[1])

    def share(self, id: str, shared: bool = True) -> None:
        """Show a release of one's own to the other analysts of its data set, or no more."""
        self._call(f"/v1/releases/{_part('id', id)}/share", {"shared": shared})

    def _release(self, kind: type[Result], request: Mapping[str, Any]) -> Result:
        unsure = "; whether it took the request is not known: repeat the same call, which is paid for once"
        status, job = self._call("/v1/releases", request, taken=unsure)
        if status == 200:
            made = time.strftime("%Y-%m-%d %H:%M", time.localtime(job["taken"]))
            _say(f"this is the release that was asked for at {made}, paid for once; another label asks for another one")
        released = self._wait(job)
        if not isinstance(released, kind):
            raise OfficeError(f"the office sent a {type(released).__name__} in place of a {kind.__name__}")
        return released

    def _wait(self, job: Mapping[str, Any]) -> Any:
        """The result of a job; an interrupt leaves it to the office, where the same call finds it."""
        pause, keeper = 1.0, " until its keeper decides" if job["state"] == "waiting" else ""
        again = "repeat the same call, or office.release(id), which is not paid for again"
        if keeper:
            whose = f"request {job['id']} of {job['dataset']}"
            _say(f"{whose} was taken and waits for the keeper's approval. You may stop waiting; later {again}")
        taken = f"; it took the request, {job['id']}: when it answers again, {again}"
        with show_elapsed(f"waiting for release {job['id'][:8]} of {job['dataset']}{keeper}"):
            while job["state"] in ("waiting", "working"):
                # The office says when it may be shown next; who waits for the keeper asks less and less often.
                time.sleep(pause if job["wait"] is None else max(0.05, job["wait"]))
                pause = min(60.0, 1.5 * pause)
                job = self._call(f"/v1/releases/{job['id']}", taken=taken)[1]
        if job["state"] == "refused":
            refused = (job.get("message") or "the keeper refused this request; nothing was charged").rstrip(".")
            raise OfficeError(f"{refused}. The same call stays refused; another label asks again")
        if job["state"] != "released":
            raise ReleaseError(job.get("message") or "the release failed after it was charged; the charge stays")
        try:
            made = from_result(job["result"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OfficeError("the office sent a result that this version of dpstats does not know") from error
        vars(made)["office_id"] = job["id"]
        return made

    def _call(self, path: str, body: Mapping[str, Any] | None = None, *, taken: str = "") -> tuple[int, Any]:
        """Status and content of an answer. What got none is sent again, which is safe: keys make it one release.

        If there is none in the end, the error adds what was `taken`. At the first contact it comes at once.
        """
        headers = {"Authorization": f"Bearer {self._token}", "Accept": JSON_TYPE}
        sent, more = (None, {}) if body is None else (json.dumps(body).encode(), {"Content-Type": JSON_TYPE})
        for attempt in range(1, TRIES + 1):
            last = attempt == TRIES or not self._answered
            try:
                request = urllib.request.Request(self.url + path, sent, headers | more)
                with self._opener.open(request, timeout=self._timeout) as answer:
                    content = _content(answer)
                    self._answered = True
                    return answer.status, content
            except urllib.error.HTTPError as error:
                with error:
                    if error.code not in (429, 502, 503, 504) or last:
                        raise _raised(error, path) from None
            except (OSError, HTTPException) as error:
                reason = getattr(error, "reason", error)
                if isinstance(reason, ssl.SSLCertVerificationError):
                    what = f"the certificate of {self.url} cannot be trusted: {reason.verify_message}"
                    raise OfficeError(what) from None
                if last:
                    fix = taken if self._answered else taken + _other_scheme(self.url, reason)
                    raise OfficeError(f"{self.url} does not answer ({type(reason).__name__}){fix}") from None
            time.sleep(0.5 * 2.0 ** (attempt - 1))
        raise AssertionError("the last attempt returns or raises")


def _say(text: str) -> None:
    print(f"dpstats: {text}", file=sys.stderr)


class _Stay(urllib.request.HTTPRedirectHandler):
    """An office does not send elsewhere: the token would go along."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def _checked_url(url: object) -> tuple[str, bool]:
    """The address without a last slash, and whether it is plain HTTP to this machine."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment:
        raise ArgumentError(f"url must be an address such as 'https://office.example.org', got {safe_repr(url)}")
    if parts.scheme == "http" and not is_loopback(host):
        raise ArgumentError("url must begin with https://, as the token would cross the network in the clear")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/"), parts.scheme == "http"


def _part(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ArgumentError(f"{name} must be a text, got {safe_repr(value)}")
    return quote(value, safe="")


def _request(verb: str, dataset: object, *, label: str | None = None, **arguments: Any) -> dict[str, Any]:
    if not isinstance(dataset, str):
        raise ArgumentError(f"the data set must be given by its name at the office, got {safe_repr(dataset)}")
    sent = {name: _json(name, value) for name, value in arguments.items()}
    return {"dataset": dataset, "verb": verb, "arguments": sent} | ({} if label is None else {"label": label})


def _json(name: str, value: Any) -> Any:
    if isinstance(value, (Family, Penalty)):
        return value.to_dict()
    if isinstance(value, (GLMResults, BoughtRanges)):
        if (id_ := vars(value).get("office_id")) is None:
            raise ArgumentError(f"{name} must be what this office has released, or the id of such a release")
        return id_
    if isinstance(value, np.generic):
        return _json(name, value.item())
    if isinstance(value, (list, tuple)):
        return [_json(name, part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): _json(name, part) for key, part in value.items()}
    if value is None or isinstance(value, (bool, str, int)) or is_number(value):
        return value
    raise ArgumentError(f"{name} cannot be sent to an office: {safe_repr(value)}")


def _content(answer: Any) -> Any:
    content = answer.read(MOST_BYTES + 1)
    kind = answer.headers.get_content_type()
    if len(content) > MOST_BYTES or kind not in (JSON_TYPE, "text/csv"):
        raise OfficeError("this address answers, but not as an office does")
    try:
        return json.loads(content) if kind == JSON_TYPE else content.decode()
    except ValueError:
        raise OfficeError("this address answers, but not as an office does") from None


def _other_scheme(url: str, reason: object) -> str:
    """What to type if the address speaks TLS and the client does not, or the other way round."""
    scheme, _, rest = url.partition("://")
    if isinstance(reason, ssl.SSLError):
        return f": it speaks no TLS; try http://{rest}"
    return f"; try https://{rest}" if scheme == "http" and isinstance(reason, HTTPException) else "; check the address"


def _raised(error: urllib.error.HTTPError, path: str) -> DPStatsError:
    try:
        facts = json.loads(error.read(1 << 20))["error"]
        kind, message = str(facts["type"]), str(facts["message"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return OfficeError(f"this address answers with status {error.code}, and not as an office does")
    if kind == "Unauthorized":
        return OfficeError("this token is not known, or it was revoked; ask the keeper for another")
    if kind == "NotFound" and path == "/v1/datasets":  # which every address of analysts has
        return OfficeError("this is the keeper's address; analysts have another, such as the same with port 8470")
    made: DPStatsError = (getattr(errors, kind) if kind in KNOWN else OfficeError)(message)
    return made

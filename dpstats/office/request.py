"""What an analyst asks for and gets: requests in JSON as arguments of public calls, and jobs with their results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import dpstats as dp
from dpstats.arguments import is_number, near_miss, safe_repr
from dpstats.call import PlanKeywords
from dpstats.errors import ArgumentError, MismatchError
from dpstats.mechanisms.options import Options

JSON = Any
"""null, bool, number, text, list or object."""

_FIXED = ("adjacency", "unit", "seed", "allow_uncertified")
"""What the keeper's file says, or what no ledger takes."""

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "glm": (
        *("formula", "eps", "family", "domain"),
        *(name for name in PlanKeywords.__annotations__ if name not in _FIXED),
    ),
    "evaluate": ("fit", "eps", "delta", "metrics", "bins"),
    "check": ("formula", "eps", "delta", "family", "weights", "offset", "exposure"),
    "release_statistics": ("columns", "eps", "delta", "response", "radius", "domain"),
    "buy_ranges": ("columns", "eps", "rows_at_least", "max_rows"),
    "select": ("candidates", "score", "eps", "monotone"),
}
"""The arguments that an analyst may give, by verb; the keeper's file says the rest."""

MOST_ROWS = 10_000
"""Rows of a prediction, or that are made up."""

VERBS = tuple(ARGUMENTS)

_NONE_MEANS = {option.name for option in fields(Options) if option.default is not None}
"""Options that None turns off, such as inference; of the others it is what they are by default."""

_NEEDED = {
    "glm": ("formula", "eps"),
    "evaluate": ("fit", "eps"),
    "check": ("formula", "eps"),
    "release_statistics": ("columns", "eps"),
    "buy_ranges": ("columns", "eps"),
    "select": ("candidates", "score", "eps"),
}


@dataclass(frozen=True)
class Request:
    """What an analyst asks of a data set: a verb and the JSON forms of its arguments.

    A family or a penalty is its name, or an object such as {"name": "poisson", "y_max": 20}; releases made before are
    meant by their id: {"fit": "..."} of evaluate, {"domain": "..."} of ranges that were bought.
    """

    dataset: str
    verb: str
    arguments: Mapping[str, JSON]
    label: str | None = None

    def check(self) -> None:
        """Raise ArgumentError unless it has the form of a request: names of arguments, eps and delta."""
        if not isinstance(self.verb, str) or self.verb not in ARGUMENTS:
            raise ArgumentError(f"verb must be one of {list(VERBS)}, got {safe_repr(self.verb)}")
        known = ARGUMENTS[self.verb]
        if not isinstance(self.arguments, Mapping) or not all(isinstance(name, str) for name in self.arguments):
            raise ArgumentError("arguments must be an object of names and values")
        for name in self.arguments:
            if name not in known:
                hint = near_miss(name, known)
                ask = f"; did you mean {hint!r}?" if hint else f"; it takes {', '.join(known)}"
                raise ArgumentError(f"{safe_repr(name)} is not an argument of {self.verb}{ask}")
        for name in _NEEDED[self.verb]:
            if self.arguments.get(name) is None:
                raise ArgumentError(f"{name} is missing; {self.verb} needs {', '.join(_NEEDED[self.verb])}")
        for name, value in (("eps", self.eps), ("delta", self.delta)):
            if not is_number(value):
                raise ArgumentError(f"{name} must be a number, got {safe_repr(value)}")
        if self.label is not None and not (
            isinstance(self.label, str) and 0 < len(self.label) <= 200 and self.label.isprintable()
        ):
            raise ArgumentError("label must be a text on one line, of at most 200 letters")

    @property
    def eps(self) -> float:
        """What it may cost."""
        return self.arguments["eps"]

    @property
    def delta(self) -> float:
        """What it may cost beside eps."""
        delta = self.arguments.get("delta")
        return 0.0 if delta is None else delta

    @property
    def digest(self) -> str:
        """The same for the same request, whether a page, Python or R has written it; the key that it has by itself."""
        given = {
            name: _usual(name, value)
            for name, value in self.arguments.items()
            if value is not None or name in _NONE_MEANS
        }
        asked = {name: value for name, value in given.items() if (name, value) not in _DEFAULTS}
        facts = [self.dataset, self.verb, asked, self.label]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @property
    def python(self) -> str:
        """The line of Python that asks for the same."""
        rest = dict(self.arguments)
        if self.label is not None:
            rest["label"] = self.label
        first = [rest.pop(name) for name in ("formula", "fit", "candidates", "score") if name in rest]
        given = [*map(repr, [*first, self.dataset]), *(f"{name}={value!r}" for name, value in rest.items())]
        return f"office.{self.verb}({', '.join(given)})"


_DEFAULTS = (("family", "gaussian"), ("delta", 0.0))
"""Arguments that say no more than to leave them out."""


def _usual(name: str, value: JSON) -> JSON:
    """One way to write an argument: 1 as 1.0, and a family without options as its name."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53:
        return float(value)
    if isinstance(value, Mapping):
        of = {key: _usual(key, part) for key, part in value.items() if part is not None}
        return of["name"] if name in ("family", "penalty") and list(of) == ["name"] else of
    return [_usual("", part) for part in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True)
class Job:
    """A request that was taken. Until `ready` it is "working", whatever happened."""

    id: str
    analyst: str
    request: Request
    key: str
    state: str  # waiting, refused, working, released or failed
    taken: float  # seconds since 1970
    ready: float | None  # when it may be shown, as far as can be told now; None while it waits for the keeper
    result: dict[str, JSON] | None = None
    shared: bool = False
    label: str | None = None
    message: str | None = None  # of a refusal or a failure


@dataclass(frozen=True)
class Mismatch:
    """What a release is whose look at the Domain stopped it: released counts say that a fit would be worth nothing."""

    message: str

    def to_dict(self) -> dict[str, JSON]:
        """Its JSON form."""
        return {"message": self.message}

    @classmethod
    def from_dict(cls, facts: Mapping[str, JSON]) -> Mismatch:
        """Raises MismatchError, as the local call does."""
        raise MismatchError(str(facts["message"]))


RESULTS: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (dp.GLMResults, dp.Evaluation, dp.Check, dp.ReleasedStatistics, dp.BoughtRanges, dp.Selection, Mismatch)
}


def to_result(released: Any) -> dict[str, JSON]:
    """The JSON form of a release, as its own file has it."""
    return {"format": 1, "kind": type(released).__name__, **released.to_dict()}


def from_result(result: Mapping[str, JSON]) -> Any:
    """The release whose JSON form it is, as the object that the public call returned."""
    facts = dict(result)
    kind, form = facts.pop("kind", None), facts.pop("format", 1)
    if kind not in RESULTS or form != 1:
        raise ArgumentError(f"result: {safe_repr(kind)} is not known; upgrade dpstats")
    return RESULTS[kind].from_dict(facts)


Find = Callable[[str], Mapping[str, JSON]]
"""The result of an earlier release of its id."""


def call_arguments(request: Request, dataset: Any, find: Find) -> dict[str, Any]:
    """The arguments of the public call, without rows and ledger; ArgumentError for what cannot be one."""
    given = {name: value for name, value in request.arguments.items() if value is not None or name in _NONE_MEANS}
    if isinstance(given.get("family"), Mapping):
        given["family"] = dp.families.from_dict(given["family"])
    elif "family" in given:
        given["family"] = dp.families.get_family(given["family"])  # refuses what an office does not release
    if isinstance(given.get("penalty"), Mapping):
        given["penalty"] = dp.penalties.from_dict(given["penalty"])
    if request.verb == "evaluate":
        given["fit"] = _release(find, "fit", given["fit"], dp.GLMResults)
    if request.verb == "select":
        given["candidates"] = _candidates(find, given["candidates"])
    if "domain" in ARGUMENTS[request.verb] or request.verb in ("check", "buy_ranges", "select"):
        bought = given.get("domain")
        domain = dataset.domain if bought is None else _release(find, "domain", bought, dp.BoughtRanges).domain
        if not any(isinstance(one, dp.GLMResults) for one in _values(given.get("candidates"))):  # these have their own
            given["domain"] = domain
    given["adjacency"] = dataset.adjacency
    if request.verb != "release_statistics":
        given["unit"] = dataset.unit
    return given


def _values(candidates: Any) -> Any:
    return candidates.values() if isinstance(candidates, Mapping) else candidates or ()


def _candidates(find: Find, given: Any) -> Any:
    """Candidates of a choice: {"fit": id} is a model, other texts and numbers are rules."""

    def one(value: Any) -> Any:
        if isinstance(value, Mapping):
            return _release(find, "candidates", value.get("fit"), dp.GLMResults)
        return value

    if isinstance(given, Mapping):
        return {name: one(value) for name, value in given.items()}
    return [one(value) for value in given] if isinstance(given, list) else given


def _release(find: Find, name: str, given: object, kind: Any) -> Any:
    """The release that an argument means by its id."""
    if not isinstance(given, str):
        raise ArgumentError(f"{name} must be the id of a release, got {safe_repr(given)}")
    found = from_result(find(given))
    if not isinstance(found, kind):
        raise ArgumentError(f"{name} must be the id of a {kind.__name__}, and that release is a {type(found).__name__}")
    return found

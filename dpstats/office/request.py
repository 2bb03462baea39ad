"""What an analyst asks for and gets: requests in JSON as arguments of public calls, and jobs with their results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import dpstats as dp
from dpstats.arguments import is_number, near_miss, safe_repr
from dpstats.call import PlanKeywords
from dpstats.errors import ArgumentError, MismatchError
from dpstats.formula.syntax import absorbed_factor
from dpstats.mechanisms.options import Options

JSON = Any  # null, bool, number, text, list or object
MOST_ROWS = 10_000  # rows of a prediction, or that are made up


class Verb(NamedTuple):
    """A kind of release: what pages say of it, and the arguments of the public call that an analyst may give."""

    title: str
    about: str
    needed: tuple[str, ...]
    optional: tuple[str, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*self.needed, *self.optional)

    @property
    def fields(self) -> list[str]:
        """Those of its form, beside eps, label and options; a formula names its response itself."""
        named = {"response"} if "formula" in self.needed else set()
        return [name for name in FIELDS if name in self.arguments and name not in named]


FIELDS = ("formula", "fit", "columns", "candidates", "score", "response", "family", "subset", "delta")
_FIXED = ("adjacency", "unit", "seed", "allow_uncertified")  # the keeper's file says these, and no ledger takes a seed
VERBS = {
    "glm": Verb(
        "Regression",
        "A regression of one column on others, with standard errors where the budget buys them.",
        ("formula", "eps"),
        ("family", "domain", *(name for name in PlanKeywords.__annotations__ if name not in _FIXED)),
    ),
    "evaluate": Verb(
        "Evaluation",
        "How well a released regression describes the rows: explained variance, errors, calibration.",
        ("fit", "eps"),
        ("delta", "metrics", "bins"),
    ),
    "check": Verb(
        "Codebook check",
        "How many rows a formula loses, and how many cells lie outside their range, column by column.",
        ("formula", "eps"),
        ("delta", "family", "weights", "offset", "exposure"),
    ),
    "release_statistics": Verb(
        "Sums for many regressions",
        "Sums of squares and products of some columns. Any number of linear regressions of them costs nothing more.",
        ("columns", "eps"),
        ("delta", "response", "radius", "domain"),
    ),
    "buy_ranges": Verb(
        "Narrower ranges",
        "Intervals that hold nearly all rows, where the codebook declares wide ranges: later regressions are exacter.",
        ("columns", "eps"),
        ("rows_at_least", "max_rows"),
    ),
    "select": Verb(
        "Best of several",
        "The candidate with the least loss. Only its name is released.",
        ("candidates", "score", "eps"),
        ("monotone",),
    ),
}

_NONE_MEANS = {option.name for option in fields(Options) if option.default is not None}
"""Options that None turns off, such as inference; of the others it is what they are by default."""


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
        if not isinstance(self.verb, str) or self.verb not in VERBS:
            raise ArgumentError(f"verb must be one of {list(VERBS)}, got {safe_repr(self.verb)}")
        verb = VERBS[self.verb]
        if not isinstance(self.arguments, Mapping) or not all(isinstance(name, str) for name in self.arguments):
            raise ArgumentError("arguments must be an object of names and values")
        for name in self.arguments:
            if name not in verb.arguments:
                hint = near_miss(name, verb.arguments)
                ask = f"; did you mean {hint!r}?" if hint else f"; it takes {', '.join(verb.arguments)}"
                raise ArgumentError(f"{safe_repr(name)} is not an argument of {self.verb}{ask}")
        for name in verb.needed:
            if self.arguments.get(name) is None:
                raise ArgumentError(f"{name} is missing; {self.verb} needs {', '.join(verb.needed)}")
        for name, value in (("eps", self.eps), ("delta", self.delta)):
            if not is_number(value):
                raise ArgumentError(f"{name} must be a number, got {safe_repr(value)}")
        if (label := self.label) is not None and not (
            isinstance(label, str) and 0 < len(label) <= 200 and label.isprintable()
        ):
            raise ArgumentError("label must be a text on one line, of at most 200 letters")

    @property
    def eps(self) -> float:
        return self.arguments["eps"]

    @property
    def delta(self) -> float:
        delta = self.arguments.get("delta")
        return 0.0 if delta is None else delta

    @property
    def given(self) -> dict[str, JSON]:
        return {name: value for name, value in self.arguments.items() if value is not None or name in _NONE_MEANS}

    @property
    def digest(self) -> str:
        """The same for the same request, whether a page, Python or R has written it; the key that it has by itself."""
        given = {name: _usual(name, value) for name, value in self.given.items()}
        arguments = {name: value for name, value in given.items() if (name, value) not in _DEFAULTS}
        facts = [self.dataset, self.verb, arguments, self.label]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @property
    def python(self) -> str:
        rest = dict(self.arguments) | ({} if self.label is None else {"label": self.label})
        first = [rest.pop(name) for name in ("formula", "fit", "candidates", "score") if name in rest]
        given = [*map(repr, [*first, self.dataset]), *(f"{name}={value!r}" for name, value in rest.items())]
        return f"office.{self.verb}({', '.join(given)})"


_DEFAULTS = (("family", "gaussian"), ("delta", 0.0))  # arguments that say no more than to leave them out


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
        return {"message": self.message}

    @classmethod
    def from_dict(cls, facts: Mapping[str, JSON]) -> Mismatch:
        """Raises MismatchError, as the local call does."""
        raise MismatchError(str(facts["message"]))


_KINDS = (dp.GLMResults, dp.Evaluation, dp.Check, dp.ReleasedStatistics, dp.BoughtRanges, dp.Selection, Mismatch)
RESULTS: Mapping[str, Any] = {kind.__name__: kind for kind in _KINDS}


def to_result(released: Any) -> dict[str, JSON]:
    return {"format": 1, "kind": type(released).__name__, **released.to_dict()}


def from_result(result: Mapping[str, JSON]) -> Any:
    """The release whose JSON form it is, as the object that the public call returned."""
    facts = dict(result)
    kind, form = facts.pop("kind", None), facts.pop("format", 1)
    if kind not in RESULTS or form != 1:
        raise ArgumentError(f"result: {safe_repr(kind)} is not known; upgrade dpstats")
    return RESULTS[kind].from_dict(facts)


def call_arguments(request: Request, dataset: Any, find: Callable[[str], Mapping[str, JSON]]) -> dict[str, Any]:
    """The arguments of the public call, without rows and ledger; ArgumentError for what cannot be one.

    `find` gives the result of an earlier release by its id.
    """

    def released(name: str, id: object, kind: Any) -> Any:
        if not isinstance(id, str):
            raise ArgumentError(f"{name} must be the id of a release, got {safe_repr(id)}")
        release = from_result(find(id))
        if not isinstance(release, kind):
            raise ArgumentError(
                f"{name} must be the id of a {kind.__name__}; that release is a {type(release).__name__}"
            )
        return release

    def candidate(value: Any) -> Any:  # {"fit": id} is a model, other texts and numbers are rules
        return released("candidates", value.get("fit"), dp.GLMResults) if isinstance(value, Mapping) else value

    given = request.given
    for name, read in (("family", dp.families.from_dict), ("penalty", dp.penalties.from_dict)):
        if isinstance(given.get(name), Mapping):
            given[name] = read(given[name])
    if isinstance(given.get("family"), str):
        dp.families.get_family(given["family"])  # refuses what an office does not release
    if absorbed_factor(given.get("formula", ""))[1] is not None:
        raise ArgumentError("formula: an absorbed factor, y ~ x | g, is not offered here; write + C(g)")
    unit: str | Literal[False] | None = dataset.unit
    if request.verb == "evaluate":
        given["fit"] = released("fit", given["fit"], dp.GLMResults)
        unit = dataset.unit or False  # of the data, whatever that of the fit was
    else:
        bought = given.get("domain")
        given["domain"] = dataset.domain if bought is None else released("domain", bought, dp.BoughtRanges).domain
    made = given.get("candidates")
    if isinstance(made, (Mapping, list)):
        parts = made.values() if isinstance(made, Mapping) else made
        if any(isinstance(one, Mapping) for one in parts):  # models have domains of their own
            del given["domain"]
        read_parts = [candidate(one) for one in parts]
        given["candidates"] = dict(zip(made, read_parts, strict=True)) if isinstance(made, Mapping) else read_parts
    given["adjacency"] = dataset.adjacency
    return given if request.verb == "release_statistics" else {**given, "unit": unit}

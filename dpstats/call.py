"""The arguments of the public calls: declared once, checked and frozen."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from dpstats.arguments import check_choice, check_flag, safe_repr
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.families import Family, Gaussian, get_family
from dpstats.families import from_dict as family_from_dict
from dpstats.ledger import LedgerLike
from dpstats.mechanisms.options import LATER, OptionKeywords, Options
from dpstats.penalties import Penalty
from dpstats.penalties import from_dict as penalty_from_dict
from dpstats.penalties import penalty as get_penalty
from dpstats.privacy.guarantee import (
    Adjacency,
    Guarantee,
    Unit,
    check_adjacency,
    check_budget,
    check_delta,
    check_planned,
    make_unit,
)
from dpstats.privacy.randomness import RandomSource, random_source
from dpstats.replication.napp import UNCERTIFIED
from dpstats.wording import argument

Function = TypeVar("Function", bound=Callable[..., Any])

DomainLike = Domain | Mapping[str, Any] | None


class RowKeywords(TypedDict, total=False):
    """Columns, or expressions of columns, beside a formula."""

    weights: str | None
    offset: str | None
    exposure: str | None
    subset: str | None


class RequestKeywords(OptionKeywords, total=False):
    """What a release is asked for, beside its eps and the family; the options are among them."""

    delta: float
    method: str
    penalty: str | Penalty | None
    alpha: float | Literal["auto"] | None
    adjacency: str
    allow_uncertified: bool
    seed: int | None


class PlanKeywords(RequestKeywords, RowKeywords, total=False):
    """Those of a formula's model and of what it is asked for."""


class ChargeKeywords(TypedDict, total=False):
    """Who pays for a fit, how the entry is signed, and how much memory the rows may take."""

    ledger: LedgerLike
    memory: float | None
    label: str | None
    analyst: str | None


class FitKeywords(RequestKeywords, ChargeKeywords, total=False):
    """Those of the fit of a model."""


class DomainKeyword(TypedDict, total=False):
    """What is public about the columns."""

    domain: DomainLike


class ModelKeywords(DomainKeyword, FitKeywords, RowKeywords, total=False):
    """Those of a formula's model and of its fit."""

    engine: str | None


REQUEST_DEFAULTS: RequestKeywords = {
    "delta": 0.0,
    "method": "auto",
    "penalty": None,
    "alpha": None,
    "adjacency": "add_remove",
    "allow_uncertified": False,
    "seed": None,
}
"""What is asked for unless something else is; every other keyword but the options is None."""


def split_kwargs(arguments: Mapping[str, Any], *lists: type) -> tuple[dict[str, Any], ...]:
    """The arguments that are on each of the lists, and last the others."""
    parts: list[dict[str, Any]] = [{} for _ in (*lists, None)]
    for name, value in arguments.items():
        place = next((at for at, listed in enumerate(lists) if name in listed.__annotations__), -1)
        parts[place][name] = value
    return tuple(parts)


def expand_signature(
    keywords: type, *, defaults: Mapping[str, Any] = REQUEST_DEFAULTS, without: tuple[str, ...] = ()
) -> Callable[[Function], Function]:
    """A decorator: `help` shows the keywords of a list as if they stood in the signature, and options as ``**options``.

    `keywords` is the list of the function's ``**arguments``, without those in `without`, which it does not take.
    """
    listed = {name: of.__forward_arg__ for name, of in keywords.__annotations__.items()}
    options = set(OptionKeywords.__annotations__)
    options = options if options <= listed.keys() else set()
    expanded = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=of)
        for name, of in listed.items()
        if name not in options and name not in without
    ]
    rest = [inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD, annotation="Any")]

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        named = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        parameters = [*named, *expanded, *(rest if options else [])]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return decorate


METHODS = ("auto", "napp", "objective", "output", "statistics", "posterior")

DELTA_LEAST = 1e-250
"""The least positive delta of a request: the calibration goes down to 1e-290, and stages buy shares of delta."""

SEEDED = "seeded: the noise can be reproduced by whoever knows the seed"
"""Why nothing drawn from a seed is certified."""


@dataclass(frozen=True)
class PrivacyParameters:
    """What a call has to guarantee, checked: its budget, which data are neighbours and whose data one record is."""

    eps: float
    delta: float
    adjacency: Adjacency
    record: Unit
    seed: int | None  # with one nothing is certified

    @property
    def row_eps(self) -> float:
        """What a row of weight 1 may cost: less than eps where a person may have several (docs/proofs/persons)."""
        return self.record.each(self.eps)

    def random(self) -> RandomSource:
        """Where the noise comes from."""
        return random_source(self.seed)

    def guarantee(self, basis: str) -> Guarantee:
        """Of a release that costs the whole budget, by the proof at `basis`."""
        return self.of_records(Guarantee(self.eps, self.delta, self.adjacency, basis=basis))

    def of_records(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee of rows as that of records, uncertified if the noise is seeded."""
        guarantee = replace(guarantee, unit=self.record.column)
        return guarantee if self.seed is None else guarantee.uncertified(SEEDED)


def check_privacy(
    eps: float,
    delta: float = 0.0,
    *,
    adjacency: str,
    seed: int | None,
    unit: str | None = None,
    unit_weight: str | None = None,
    max_rows: int | None = None,
) -> PrivacyParameters:
    """The privacy parameters of a call; ArgumentError names the first one not usable."""
    eps, delta = check_budget(eps, delta)
    notion = check_adjacency(adjacency)
    random_source(seed)  # refuses what is no seed
    return PrivacyParameters(eps, delta, notion, make_unit(unit, unit_weight, max_rows), seed)


@dataclass(frozen=True)
class Request:
    """What one call asks for, apart from formula, Domain and data."""

    eps: float
    delta: float
    family: Family
    method: str
    penalty: Penalty | None
    adjacency: Adjacency
    allow_uncertified: bool
    seed: int | None
    options: Options = field(default_factory=Options)
    open_method: bool = field(default=False, compare=False)  # released statistics may take its place where they suit

    @property
    def row_eps(self) -> float:
        """What a row of weight 1 may cost: less than eps where a person may have several (docs/proofs/persons)."""
        return self.options.record.each(self.eps)

    @property
    def uncertified_reasons(self) -> tuple[str, ...]:
        """Why nothing released under this request can be certified; empty if it can."""
        reasons = [] if self.seed is None else [SEEDED]
        if self.options.as_printed:
            reasons.append(UNCERTIFIED)
        if self.options.realization == "augmented":
            reasons.append("augmented noise rows lack the curvature that the proof needs")
        for given in (self.family, self.penalty):
            if given is not None and not type(given).__module__.startswith("dpstats."):
                reasons.append(
                    f"{type(given).__name__} is not part of dpstats: no proof covers the bounds that it declares"
                )
        return tuple(reasons)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON. The seed stays out: it would reproduce the noise."""
        return {
            **{name: getattr(self, name) for name in ("eps", "delta", "method", "adjacency")},
            "family": self.family.to_dict(),
            "penalty": None if self.penalty is None else self.penalty.to_dict(),
            "options": self.options.to_dict(),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Request:
        """The request whose `to_dict` gave `stored`."""
        penalty = stored["penalty"]
        return cls(
            **{name: stored[name] for name in ("eps", "delta", "method", "adjacency")},
            family=family_from_dict(stored["family"]),
            penalty=None if penalty is None else penalty_from_dict(penalty),
            allow_uncertified=False,
            seed=None,
            options=Options(**{**LATER, **stored["options"]}),
        )


def _automatic(settings: RequestKeywords) -> float:
    """The strength that stands for one that is chosen: none, with weights by `selection`, which is set to "auto"."""
    check_choice("alpha", settings["alpha"], ("auto",))
    if settings["penalty"] != "lasso" or settings["method"] not in ("auto", "napp", "objective"):
        wanted, napp = argument("penalty", "lasso"), argument("method", "napp")
        raise ArgumentError(f"{argument('alpha', 'auto')} is for {wanted} with {napp}; give the strength as a number")
    if settings.get("selection", "auto") != "auto":
        automatic = argument("alpha", "auto")
        raise ArgumentError(f"{automatic} chooses the weights: leave selection out, or give alpha as a number")
    settings["selection"] = "auto"
    return 0.0


def _insists_on_errors(request: Request) -> bool:
    """Whether fit statistics are asked for of plain least squares, which then has errors whatever the rows are."""
    options = request.options
    explicit = options.fitstats not in (None, 0, "auto")
    explicit |= options.fitstats == "auto" and (options.fitstats_by, options.fitstats_variables) != (None, None)
    plain = isinstance(request.family, Gaussian) and request.method == "napp" and request.penalty is None
    plain &= not options.replicates and options.retrieval == "recycle" and options.focus is None
    plain &= options.unit is None and options.screen is None and options.selection is None
    return explicit and plain and options.inference == "auto"


def make_request(*, eps: float, family: str | Family = "gaussian", **arguments: Unpack[RequestKeywords]) -> Request:
    """Check every argument that is not data and freeze them; ArgumentError names the first one not usable, and the fix.

    UncertifiedError if the request cannot be certified and `allow_uncertified` is False.
    """
    settings: RequestKeywords = {**REQUEST_DEFAULTS, **arguments}
    eps, delta = check_planned(eps, settings["delta"])
    check_delta(delta, DELTA_LEAST)
    method = settings["method"]
    check_choice("method", method, METHODS)
    random_source(settings["seed"])
    alpha = settings["alpha"]
    if alpha is None and isinstance(settings["penalty"], str) and settings["penalty"] == "lasso":
        alpha = settings["alpha"] = "auto"
    if isinstance(alpha, str):
        alpha = _automatic(settings)
    request = Request(
        eps=eps,
        delta=delta,
        family=get_family(family),
        method="napp" if method == "auto" else method,
        penalty=get_penalty(settings["penalty"], alpha),
        adjacency=check_adjacency(settings["adjacency"]),
        allow_uncertified=check_flag("allow_uncertified", settings["allow_uncertified"]),
        seed=settings["seed"],
        options=Options.from_mapping({name: value for name, value in settings.items() if name not in REQUEST_DEFAULTS}),
        open_method=method == "auto",
    )
    if _insists_on_errors(request):
        request = replace(request, options=replace(request.options, inference=True))
    if request.options.unit is not None and delta > 0:
        raise ArgumentError(
            f"delta must be 0 with a unit, got {delta!r}: the proof for persons covers pure epsilon only"
        )
    if request.options.unit is not None and method in ("posterior", "statistics"):
        raise ArgumentError(
            f"unit cannot be combined with {argument('method', method)}, which is proved for rows only; use "
            f"{argument('method', 'napp')}"
        )
    if request.options.noise == "gaussian" and delta == 0:
        raise ArgumentError(f"delta must be positive for Gaussian noise, got {safe_repr(delta)}")
    reasons = [reason for reason in request.uncertified_reasons if reason != SEEDED]
    if reasons and not request.allow_uncertified:
        raise UncertifiedError(
            f"not certified: {'; '.join(reasons)}. Pass {argument('allow_uncertified', True)} to replicate it"
        )
    return request

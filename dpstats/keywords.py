"""The keywords that public calls share: each stands here once, with its type and what it is unless it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar

from dpstats.domain import Domain
from dpstats.mechanisms.options import OptionKeywords
from dpstats.penalties import Penalty
from dpstats.privacy.ledger import LedgerLike

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
    alpha: float | None
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
    "method": "napp",
    "penalty": None,
    "alpha": None,
    "adjacency": "add_remove",
    "allow_uncertified": False,
    "seed": None,
}
"""What is asked for unless something else is; every other keyword but the options is None."""


def parted(arguments: Mapping[str, Any], keywords: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments that are on the list, and the others."""
    listed = {name: value for name, value in arguments.items() if name in keywords.__annotations__}
    return listed, {name: value for name, value in arguments.items() if name not in listed}


def written_out(
    keywords: type, *, defaults: Mapping[str, Any] = REQUEST_DEFAULTS, without: tuple[str, ...] = ()
) -> Callable[[Function], Function]:
    """A decorator: `help` shows the keywords of a list as if they stood in the signature, and options as ``**options``.

    Parameters
    ----------
    keywords : type
        The list of the function's ``**arguments``.
    defaults : dict
        What each is unless it is given; None for those left out.
    without : tuple of str
        Names that the function does not take.
    """
    listed = {name: of.__forward_arg__ for name, of in keywords.__annotations__.items()}
    options = set(OptionKeywords.__annotations__)
    options = options if options <= listed.keys() else set()
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=of)
        for name, of in listed.items()
        if name not in options and name not in without
    ]
    rest = [inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD, annotation="Any")]

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        shown = [*own, *shared, *(rest if options else [])]
        function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        return function

    return decorate

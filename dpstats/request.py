"""The arguments of one call, checked and frozen."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import numpy as np

from dpstats.errors import ArgumentError
from dpstats.families import Family, get_family
from dpstats.families import from_dict as family_from_dict
from dpstats.penalties import Penalty
from dpstats.penalties import from_dict as penalty_from_dict
from dpstats.penalties import penalty as get_penalty
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget

METHODS = ("napp", "objective")


@dataclass(frozen=True)
class Options:
    """Settings beyond the named arguments; every one is public.

    Attributes
    ----------
    curvature : float, optional
        Quadratic term added to the objective, per column, in model units; chosen from public facts by default.
    radius : float, optional
        Guess at the norm of the coefficients in model units, which the default curvature is chosen for.
    range_share : float
        Share of eps that buys the ranges of numeric columns left out of the Domain.
    release_share : float
        Share of eps that the final discrete noise is charged.
    retrieval : {"recycle", "return", None}
        What becomes of the budget that the joint bound retrieves from the classical split: less noise, a lower charge
        for noise of the classical scale, or nothing.
    penalty_weights : dict, optional
        Penalty weights by name of term or column; 0 leaves it unpenalised, as the intercept is by default.
    """

    curvature: float | None = None
    radius: float | None = None
    range_share: float = 0.1
    release_share: float = 0.01
    retrieval: Literal["recycle", "return"] | None = "recycle"
    penalty_weights: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        for name in ("curvature", "radius"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise ArgumentError(f"{name} must be a positive finite number, got {value!r}")
        for name in ("range_share", "release_share"):
            value = getattr(self, name)
            if not (_is_number(value) and 0 < value < 1):
                raise ArgumentError(f"{name} must lie strictly between 0 and 1, got {value!r}")
        if self.retrieval not in ("recycle", "return", None):
            raise ArgumentError(f"retrieval must be 'recycle', 'return' or None, got {self.retrieval!r}")
        for key, weight in (self.penalty_weights or {}).items():
            if not (_is_number(weight) and weight >= 0):
                raise ArgumentError(f"penalty_weights[{key!r}] must be a finite number >= 0, got {weight!r}")

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Options:
        """Check option names and build the options.

        Raises
        ------
        ArgumentError
            If a name is unknown; the message suggests the nearest known one.
        """
        known = [item.name for item in fields(cls)]
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ArgumentError(f"unknown option {name!r}{hint} Known options: {', '.join(known)}")
        return cls(**given)


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

    @property
    def uncertified_reasons(self) -> tuple[str, ...]:
        """Why nothing released under this request can be certified; empty if it can."""
        return () if self.seed is None else ("seeded: the noise can be reproduced by whoever knows the seed",)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON. The seed stays out: it would reproduce the noise."""
        return {
            **{name: getattr(self, name) for name in ("eps", "delta", "method", "adjacency")},
            "family": self.family.to_dict(),
            "penalty": None if self.penalty is None else self.penalty.to_dict(),
            "options": asdict(self.options),
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
            options=Options(**stored["options"]),
        )


def make_request(
    *,
    eps: float,
    delta: float,
    family: str | Family,
    method: str,
    penalty: str | Penalty | None,
    alpha: float | None,
    adjacency: str,
    allow_uncertified: bool,
    seed: int | None,
    options: Mapping[str, Any],
) -> Request:
    """Check every argument that is not data and freeze them.

    Raises
    ------
    ArgumentError
        Naming the first argument that is not usable, and the fix.
    UncertifiedError
        If the request cannot be certified and `allow_uncertified` is False.
    """
    eps, delta = check_budget(eps, delta)
    if method not in METHODS:
        raise ArgumentError(f"method must be one of {list(METHODS)}, got {method!r}")
    return Request(
        eps=eps,
        delta=delta,
        family=get_family(family),
        method=method,
        penalty=get_penalty(penalty, alpha),
        adjacency=check_adjacency(adjacency),
        allow_uncertified=bool(allow_uncertified),
        seed=seed,
        options=Options.from_mapping(options),
    )


def _is_number(value: Any) -> bool:
    """Whether `value` is a finite real number and not a bool."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return real and math.isfinite(value)

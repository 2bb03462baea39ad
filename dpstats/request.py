"""The arguments of one call, checked and frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Unpack

from dpstats.arguments import check_choice, check_flag, shown
from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.families import Family, get_family
from dpstats.families import from_dict as family_from_dict
from dpstats.keywords import REQUEST_DEFAULTS, RequestKeywords
from dpstats.mechanisms.options import Options
from dpstats.penalties import Penalty
from dpstats.penalties import from_dict as penalty_from_dict
from dpstats.penalties import penalty as get_penalty
from dpstats.privacy.calibration_gaussian import check_delta
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_planned
from dpstats.privacy.randomness import random_source
from dpstats.replication.paper_modes import UNCERTIFIED

METHODS = ("napp", "objective", "output", "statistics", "posterior")

DELTA_LEAST = 1e-250
"""The least positive delta of a request: the calibration goes down to 1e-290, and stages buy shares of delta."""

SEEDED = "seeded: the noise can be reproduced by whoever knows the seed"
"""Why nothing drawn from a seed is certified."""


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
            reasons.append("augmented noise rows miss the curvature that the proof needs")
        for given in (self.family, self.penalty):
            if given is not None and not type(given).__module__.startswith("dpstats."):
                reasons.append(f"{type(given).__name__} is not part of dpstats: nobody has proved what it declares")
        return tuple(reasons)

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


def make_request(*, eps: float, family: str | Family = "gaussian", **arguments: Unpack[RequestKeywords]) -> Request:
    """Check every argument that is not data and freeze them.

    Raises
    ------
    ArgumentError
        Naming the first argument that is not usable, and the fix.
    UncertifiedError
        If the request cannot be certified and `allow_uncertified` is False.
    """
    asked: RequestKeywords = {**REQUEST_DEFAULTS, **arguments}
    eps, delta = check_planned(eps, asked["delta"])
    check_delta(delta, DELTA_LEAST)
    method = asked["method"]
    check_choice("method", method, METHODS)
    random_source(asked["seed"])
    request = Request(
        eps=eps,
        delta=delta,
        family=get_family(family),
        method=method,
        penalty=get_penalty(asked["penalty"], asked["alpha"]),
        adjacency=check_adjacency(asked["adjacency"]),
        allow_uncertified=check_flag("allow_uncertified", asked["allow_uncertified"]),
        seed=asked["seed"],
        options=Options.from_mapping({name: value for name, value in asked.items() if name not in REQUEST_DEFAULTS}),
    )
    if request.options.unit is not None and delta > 0:
        raise ArgumentError(f"delta must be 0 with a unit, got {delta!r}: the proof for persons is for pure privacy")
    if request.options.unit is not None and method in ("posterior", "statistics"):
        raise ArgumentError(f"unit does not go with method={method!r}, which is proved for rows; take method='napp'")
    if request.options.noise == "gaussian" and delta == 0:
        raise ArgumentError(f"delta must be positive for Gaussian noise, got {shown(delta)}")
    reasons = [reason for reason in request.uncertified_reasons if reason != SEEDED]
    if reasons and not request.allow_uncertified:
        raise UncertifiedError(f"not certified: {'; '.join(reasons)}. Pass allow_uncertified=True to replicate it")
    return request

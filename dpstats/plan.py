"""The plan of a call: curvature, noise and budget split, fixed without reading a row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import ArrayDesign, PublicDesign
from dpstats.mechanisms.objective import ObjectivePlan, Purchase, plan_objective
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.noise import Noise
from dpstats.request import Options, Request

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plan:
    """What a call will release and what it costs; a function of formula, Domain and options alone.

    Attributes
    ----------
    request : Request
    design : PublicDesign
        Columns and their bounds.
    family : Family
        With every cap filled in from the public range of the response.
    formula : str or None
        None for plain arrays.
    bought : tuple of str
        Columns whose range is bought from the budget.
    objective : ObjectivePlan
        The perturbed objective: curvature, noise, final discretisation.
    guarantee : Guarantee
        For everything the call releases.
    """

    request: Request
    design: PublicDesign
    family: Family
    formula: str | None
    bought: tuple[str, ...]
    objective: ObjectivePlan
    guarantee: Guarantee

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return self.design.names

    @property
    def curvature(self) -> Vector:
        """M, the diagonal of the quadratic term in model units, shape (p,)."""
        return self.objective.curvature

    @property
    def noise(self) -> Noise:
        """The law of the objective's linear term, in the metric x * noise_shape."""
        return self.objective.noise

    @property
    def noise_shape(self) -> Vector:
        """Public column weights a: the objective's linear term is b / a."""
        return self.objective.noise_shape

    @property
    def kappa(self) -> float:
        """sup x' M^-1 x."""
        return self.objective.kappa

    @property
    def eps(self) -> float:
        """The total epsilon."""
        return self.guarantee.eps

    @property
    def delta(self) -> float:
        """The total delta."""
        return self.guarantee.delta

    @property
    def adjacency(self) -> str:
        """Which data sets count as neighbours."""
        return self.guarantee.adjacency

    @property
    def radius(self) -> float:
        """The guess at the coefficients' norm behind the default curvature."""
        return self.objective.radius

    @property
    def budget(self) -> pd.DataFrame:
        """The purchases, one a row, and their total; columns eps, delta, buys."""
        rows = []
        if self.bought:
            rows.append(("ranges", range_eps(self.request, self.bought), 0.0, ", ".join(self.bought)))
        kind = self.noise.kind
        rows.append(("objective", self.objective.eps, self.objective.delta, f"{kind} noise in the objective"))
        rows.append(("release", self.objective.final.eps, 0.0, "discrete noise on the optimum"))
        total = (sum(row[1] for row in rows), sum(row[2] for row in rows))
        rows.append(("total", *total, ""))
        return pd.DataFrame(rows, columns=["purchase", "eps", "delta", "buys"]).set_index("purchase")

    @property
    def title(self) -> str:
        """A line that names the release, for the ledger."""
        return f"{self.family.name} GLM of {self.design.response_name} on {len(self.names)} columns"

    def digest(self) -> str:
        """A hash of the public facts, as the ledger records it."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {
            "formula": self.formula,
            "bought": list(self.bought),
            "request": self.request.to_dict(),
            "design": self.design.to_dict(),
            "objective": self.objective.to_dict(),
            "guarantee": self.guarantee.to_dict(),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Plan:
        """The plan whose `to_dict` gave `stored`."""
        objective = ObjectivePlan.from_dict(stored["objective"])
        design = ArrayDesign if stored["formula"] is None else DesignSpec
        return cls(
            request=Request.from_dict(stored["request"]),
            design=design.from_dict(stored["design"]),
            family=objective.family,
            formula=stored["formula"],
            bought=tuple(stored["bought"]),
            objective=objective,
            guarantee=Guarantee(**stored["guarantee"]),
        )


def range_eps(request: Request, bought: tuple[str, ...]) -> float:
    """What the ranges of the columns left out of the Domain cost together."""
    return request.options.range_share * request.eps if bought else 0.0


def penalty_weights(design: PublicDesign, options: Options) -> Vector:
    """The penalty's weight on each column, shape (p,): 0 on the intercept, else as the options say, else 1.

    Raises
    ------
    ArgumentError
        If a key of the option `penalty_weights` is neither a term nor a column.
    """
    weights = np.ones(len(design.names))
    if design.has_intercept:
        weights[design.names.index("Intercept")] = 0.0
    terms = {getattr(term, "name", ""): term.columns for term in design.terms}
    for key, weight in (options.penalty_weights or {}).items():
        if key in terms:
            weights[terms[key]] = weight
        elif key in design.names:
            weights[design.names.index(key)] = weight
        else:
            raise ArgumentError(f"penalty_weights: {key!r} is neither a term nor a column; terms: {', '.join(terms)}")
    return weights


def make_plan(
    request: Request, design: PublicDesign, family: Family, *, formula: str | None, bought: tuple[str, ...] = ()
) -> Plan:
    """Split the budget and plan the release; reads no row.

    Parameters
    ----------
    request : Request
    design : PublicDesign
    family : Family
        With every cap filled in.
    formula : str or None
    bought : tuple of str
        Columns whose range is bought.
    """
    rest = request.eps - range_eps(request, bought)
    final_eps = request.options.release_share * rest
    options = request.options
    purchase = Purchase(
        eps=rest - final_eps,
        delta=request.delta,
        final_eps=final_eps,
        adjacency=request.adjacency,
        retrieval=options.retrieval,
        curvature=options.curvature,
        radius=options.radius,
    )
    objective = plan_objective(design, family, purchase, request.penalty, penalty_weights(design, options))
    spent = request.eps - (objective.planned_eps - objective.eps)
    guarantee = Guarantee(spent, request.delta, request.adjacency, basis="docs/proofs/objective")
    for reason in request.uncertified_reasons:
        guarantee = guarantee.uncertified(reason)
    return Plan(request, design, family, formula, bought, objective, guarantee)

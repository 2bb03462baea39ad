"""Objective perturbation: one noisy linear term, one strongly convex optimum (docs/proofs/objective)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.families import from_dict as family_from_dict
from dpstats.mechanisms.calibration import (
    PAID_ROOM,
    NoiseBudget,
    NoiseCandidate,
    Price,
    curvature_room,
    least_curvature,
    noise_candidates,
    price_fit,
    price_information,
    risk_curvature,
    scales,
    typical_sizes,
)
from dpstats.mechanisms.design import Bounds
from dpstats.mechanisms.information import InformationPlan, eta_error, with_final_step
from dpstats.mechanisms.release import (
    GRADIENT_SHARE,
    LEAST_SHARE,
    ROUNDED,
    LatticeRelease,
    covered_rows,
    final_noise_share,
    least_gradient_tolerance,
    plan_final,
)
from dpstats.penalties import Penalty, split_curvature
from dpstats.penalties import from_dict as penalty_from_dict
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.k_norm.noise import law_from_dict
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import RandomSource
from dpstats.solvers import newton, prox
from dpstats.solvers.objective import PerturbedObjective

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ObjectivePlan:
    """Everything about one release that is fixed before rows are read.

    Attributes
    ----------
    family : Family
    eps, delta : float
        The share of the budget that buys `noise`.
    adjacency : {"add_remove", "replace_one"}
    curvature : ndarray, shape (p,)
        M, the diagonal quadratic term of the objective: the floor privacy needs plus the penalty's own.
    kappa : float
        sup x' M^-1 x over all rows of the design.
    row_norm : float
        The bound on the rows, after `noise_shape`, in the norm of the noise.
    row_length : float
        The bound on the rows' Euclidean norm.
    rows_at_most : float
        So many rows are certified to `tolerance`, whatever they are.
    noise : Noise or KNormNoise
        The law of b: in the metric x * noise_shape, or cut to the design.
    noise_shape : ndarray, shape (p,)
        Public weights a: the objective's linear term is b / a. Ones for noise cut to the design.
    classical_scale : float
        The scale that the papers' even split of `planned_eps` would cost.
    planned_eps : float
        What was set aside for the noise; `eps` is less where retrieved budget is returned.
    joint_need : float
        The eps that noise of the classical scale really costs, by the joint bound.
    penalty : Penalty or None
        What the penalty is beyond its curvature, which is part of `curvature`.
    penalty_weights : ndarray, shape (p,)
        Its weight on each column.
    threshold : ndarray, shape (p,)
        The part of a lasso's weights that noise alone rarely passes; zeros unless selection is noise-aware.
    linear : ndarray, shape (p,)
        A public linear term of the objective, from an earlier release; zeros in a single stage.
    radius : float
        The guessed norm of the coefficients in model units that the default curvature was chosen for.
    tolerance : float
        gamma, the certified bound on the gradient norm at the solver's point.
    final : LatticeRelease
        The discrete noise of the last step.
    information : InformationPlan, optional
        What is released beside the coefficients, for inference.
    offset_bound : float
        The greatest size of a row's offset.
    stored : bool
        Whether the plan was read from a file: it was checked where it was made, perhaps for another arithmetic.

    Raises
    ------
    ArgumentError
        If `tolerance` or `final` is finer than the proof allows beside the noise that is drawn (docs/proofs/release).
    """

    family: Family
    eps: float
    delta: float
    adjacency: Adjacency
    curvature: Vector
    kappa: float
    row_norm: float
    row_length: float
    rows_at_most: float
    noise: Noise | KNormNoise
    noise_shape: Vector
    classical_scale: float
    planned_eps: float
    joint_need: float
    penalty: Penalty | None
    penalty_weights: Vector
    threshold: Vector
    linear: Vector
    radius: float
    tolerance: float
    final: LatticeRelease
    information: InformationPlan | None = None
    offset_bound: float = 0.0
    stored: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not self.stored:
            self.check_last_step()

    def check_last_step(self) -> None:
        """Raise ArgumentError unless the last step covers the solver's error and the sampling of this noise."""
        least = least_gradient_tolerance(
            self.family,
            rms=self.gradient_size,
            row_length=self.row_length,
            curvature=self.curvature,
            rows=self.rows_at_most,
            penalty=self.penalty,
            linear=self.linear,
            offset_bound=self.offset_bound,
            share=LEAST_SHARE if self.noise_averages_out else GRADIENT_SHARE,
        )
        apart = 2 * self.tolerance / float(np.min(self.curvature))
        if not (self.tolerance * ROUNDED >= least and self.final.distance * ROUNDED >= apart):
            raise ArgumentError(
                f"tolerance = {self.tolerance:.3g} is too small for the proof, which asks for {least:.3g} beside this "
                "noise, or final is for another one: no guarantee would hold"
            )
        self.final.check()

    @property
    def cost(self) -> float:
        """eps of everything that this stage releases."""
        return self.eps + self.final.eps + (0.0 if self.information is None else self.information.cost)

    @property
    def size(self) -> int:
        """The number of coefficients p."""
        return len(self.curvature)

    @property
    def noise_variances(self) -> Vector:
        """Variances of the objective's linear term, shape (p,)."""
        if isinstance(self.noise, KNormNoise):
            return self.noise.standard_deviations() ** 2
        return self.noise.expected_square(self.size) / self.size / self.noise_shape**2

    @property
    def expected_square(self) -> float:
        """The mean squared norm of the linear term's noise."""
        return float(np.sum(self.noise_variances))

    @property
    def law_name(self) -> str:
        """The law of the noise, in words."""
        return f"{self.noise.kind} ({self.noise.norm})"

    @property
    def bought_law(self) -> str:
        """What `eps` buys, in words."""
        return f"{self.noise.kind} noise ({self.noise.norm})"

    @property
    def gradient_size(self) -> float:
        """The noise in the objective's gradient, root mean square: what the solver's tolerance must be small beside."""
        return float(np.sqrt(self.expected_square))

    @property
    def final_share(self) -> float:
        """The final noise's standard deviation over that of the objective's noise, at `rows_at_most` rows or fewer."""
        return self.final_share_at(self.rows_at_most)

    def final_share_at(self, rows: float) -> float:
        """The same at so many rows or fewer."""
        share = final_noise_share(
            self.family, self.final.eps, rows=rows, row_length=self.row_length, curvature=self.curvature
        )
        return share * self.tolerance / self.gradient_size

    @property
    def final_norm(self) -> float:
        """The final noise's norm in the coefficients, root mean square, in model units."""
        return math.sqrt(2 * self.size) * self.final.scale

    @property
    def covered_rows(self) -> float:
        """Up to how many rows the guarantee is whole on this machine, a power of ten; at least `ROWS_AT_MOST`."""
        return covered_rows(
            self.family,
            self.tolerance,
            rms=self.gradient_size,
            row_length=self.row_length,
            curvature=self.curvature,
            penalty=self.penalty,
            linear=self.linear,
            offset_bound=self.offset_bound,
        )

    @property
    def noise_averages_out(self) -> bool:
        """Whether more rows make the noise's effect on the coefficients smaller."""
        return True

    def sample(self, random: RandomSource) -> Vector:
        """One draw of the objective's linear term, its public part included, shape (p,)."""
        if isinstance(self.noise, KNormNoise):
            return self.linear + self.noise.sample(random)
        return self.linear + self.noise.sample(self.size, random) / self.noise_shape

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            **{name: getattr(self, name).tolist() for name in _VECTORS},
            "family": self.family.to_dict(),
            "noise": self.noise.to_dict(),
            "penalty": None if self.penalty is None else self.penalty.to_dict(),
            "final": asdict(self.final),
            "information": None if self.information is None else self.information.to_dict(),
            "offset_bound": self.offset_bound,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ObjectivePlan:
        """The plan whose `to_dict` gave `stored`."""
        vectors: dict[str, Any] = {name: np.asarray(stored[name], dtype=np.float64) for name in _VECTORS}
        return cls(
            **{name: stored[name] for name in _PLAIN},
            **vectors,
            family=family_from_dict(stored["family"]),
            noise=law_from_dict(stored["noise"]),
            penalty=None if stored["penalty"] is None else penalty_from_dict(stored["penalty"]),
            final=LatticeRelease(**stored["final"]),
            information=None if stored.get("information") is None else InformationPlan.from_dict(stored["information"]),
            offset_bound=stored.get("offset_bound", 0.0),
            stored=True,
        )


AnyPlan = TypeVar("AnyPlan", bound=ObjectivePlan)


_PLAIN = (
    *("eps", "delta", "adjacency", "kappa", "row_norm", "classical_scale", "planned_eps", "joint_need"),
    *("radius", "tolerance", "row_length", "rows_at_most"),
)


_VECTORS = ("curvature", "penalty_weights", "threshold", "linear", "noise_shape")


def recentre(plan: AnyPlan, curvature: Vector, linear: Vector) -> AnyPlan:
    """The plan with a public linear term and a curvature whose ratio is no larger, so that the noise still suffices."""
    tolerance, final = plan_final(
        plan.family,
        plan.final.eps,
        rms=plan.gradient_size,
        row_length=plan.row_length,
        curvature=curvature,
        rows=plan.rows_at_most,
        penalty=plan.penalty,
        linear=linear,
        offset_bound=plan.offset_bound,
        averages_out=plan.noise_averages_out,
    )
    information = plan.information
    if information is not None:
        information = with_final_step(information, final, plan.row_length, plan.offset_bound)
    return replace(plan, curvature=curvature, linear=linear, tolerance=tolerance, final=final, information=information)


SURELY = 1e-6
"""Risk bounds that differ by less than this part are compared as they are computed."""

AHEAD = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)
"""Where the last step's own error raises the noise, it is planned anew for so many times the noise asked for,"""

HOPELESS = 1e9
"""unless that is so many times the fit's alone."""

NO_JACOBIAN = 1e-9
"""A curvature ratio at which the Jacobian costs nothing."""


def plan_objective(
    design: Bounds,
    family: Family,
    purchase: NoiseBudget,
    penalty: Penalty | None = None,
    penalty_weights: Vector | None = None,
) -> ObjectivePlan:
    """Choose curvature and noise for one release, from public facts only.

    Parameters
    ----------
    design : Bounds
    family : Family
        With every cap filled in.
    purchase : Purchase
    penalty : Penalty, optional
        Convex. Curvature that it has everywhere counts towards M (docs/proofs/napp).
    penalty_weights : ndarray, shape (p,), optional
        Its weight on each column, ones by default.

    Returns
    -------
    ObjectivePlan
        Of the laws that the design and the budget allow, the one with the least bound on the risk.
    """
    size = len(design.names)
    weights = np.ones(size) if penalty_weights is None else penalty_weights
    ridge, remainder = (0.0, None) if penalty is None else split_curvature(penalty)
    sizes = typical_sizes(family, design, purchase.radius)
    metric, default = _best(design, family, purchase, sizes)
    own = ridge * weights
    total = np.maximum(own, default) if purchase.curvature is None else own + purchase.curvature
    row_length = float(np.sqrt(design.curvature_ratio(np.ones(size))))
    price, total, tolerance, final, information = _priced(
        design, family, purchase, metric, total, default=default, row_length=row_length, penalty=remainder
    )
    return ObjectivePlan(
        family=family,
        eps=price.eps,
        delta=metric.delta,
        adjacency=purchase.adjacency,
        curvature=total,
        kappa=design.curvature_ratio(total),
        row_norm=metric.row_norm,
        row_length=row_length,
        rows_at_most=purchase.rows_at_most,
        noise=metric.noise(price.scale),
        noise_shape=metric.shape,
        classical_scale=price.classical,
        planned_eps=price.planned,
        joint_need=price.need,
        penalty=remainder,
        penalty_weights=weights,
        threshold=np.zeros(size),
        linear=np.zeros(size),
        radius=float(np.linalg.norm(sizes)),
        tolerance=tolerance,
        final=final,
        information=information,
        offset_bound=design.offset_bound,
    )


class _Priced(NamedTuple):
    """What a stage costs and releases, at the curvature that it settles for."""

    price: Price
    curvature: Vector
    tolerance: float
    final: LatticeRelease
    information: InformationPlan | None


def _priced(
    design: Bounds,
    family: Family,
    purchase: NoiseBudget,
    metric: NoiseCandidate,
    curvature: Vector,
    *,
    default: Vector,
    row_length: float,
    penalty: Penalty | None,
) -> _Priced:
    """Settle noise, curvature, the last step and, if there is room for it, the information.

    A ridge of the caller's beyond the `default` curvature keeps its strength.
    """
    unit = float(np.sqrt(np.sum(metric.variances)))

    def facts(scale: float, at: Vector) -> dict[str, Any]:
        public = {"row_length": row_length, "offset_bound": design.offset_bound, "rows": purchase.rows_at_most}
        return {**public, "rms": unit * scale, "curvature": at, "penalty": penalty}

    def rounded(scale: float, at: Vector) -> tuple[float, LatticeRelease]:
        return plan_final(family, purchase.final_eps, **facts(scale, at))

    def informed(inside: Vector, alone: Price) -> _Priced | None:
        """The error of the last step costs noise, and more noise asks for a coarser last step: until both agree."""
        scale = alone.scale
        for ahead in AHEAD:
            tolerance, final = rounded(scale, inside)
            final.check()
            error = eta_error(final, row_length, design.offset_bound)
            found = price_information(design, family, purchase, metric, inside, alone, error)
            if found is None:
                return None
            price, information = found
            if price.scale > HOPELESS * alone.scale:
                break
            if least_gradient_tolerance(family, **facts(price.scale, inside)) <= tolerance * ROUNDED:
                return _Priced(price, inside, tolerance, final, information)
            scale = price.scale * ahead
        if purchase.information is None or purchase.information.free or purchase.charged:
            return None
        raise ArgumentError(
            "inference costs too much beside a last step for so many rows: lower rows_at_most, raise curvature or "
            "release_share, or pass inference=None"
        )

    asked = purchase.information
    if asked is not None:
        inside = curvature
        if asked.free:
            alone = price_fit(design, family, replace(purchase, information=None), metric, curvature)
            if purchase.curvature is None:
                inside = np.maximum(
                    curvature, default * curvature_room(family, purchase, design.curvature_ratio(curvature))
                )
        else:
            alone = price_fit(design, family, purchase, metric, curvature)
        found = informed(inside, alone)
        if found is not None:
            return found
    price = price_fit(design, family, purchase.whole, metric, curvature)
    return _Priced(price, curvature, *rounded(price.scale, curvature), None)


def release_objective(
    plan: ObjectivePlan, rows: Rows[Block] | Iterable[tuple[Any, ...]], random: RandomSource
) -> Vector:
    """Read the rows once charged, minimise, and release coefficients in model units, shape (p,).

    Parameters
    ----------
    plan : ObjectivePlan
    rows : Rows of Block
        Within the bounds the plan was made for.
    random : RandomSource
    """
    objective = PerturbedObjective(
        plan.family, rows, plan.curvature, plan.sample(random), plan.row_length, offset_bound=plan.offset_bound
    )
    if plan.penalty is None:
        return plan.final.release(newton.optimum(objective, plan.tolerance), random)
    optimum = prox.optimum(objective, plan.penalty, plan.tolerance, weights=plan.penalty_weights)
    released = plan.final.release(optimum, random)
    return plan.final.sparse(released) if plan.penalty.sparse else released


class _Choice(NamedTuple):
    """A metric with the curvature that suits it best, and the risk bound there."""

    metric: NoiseCandidate
    curvature: Vector
    risk: float


def _best(design: Bounds, family: Family, purchase: NoiseBudget, sizes: Vector) -> tuple[NoiseCandidate, Vector]:
    """The law of the least risk bound, the first of several, and the default curvature that suits it."""
    best: _Choice | None = None
    for metric in noise_candidates(design, purchase):
        choice = _choose(metric, design, family, purchase, sizes, math.inf if best is None else best.risk)
        best = choice if best is None or (choice is not None and choice.risk < best.risk) else best
    assert best is not None
    return best.metric, best.curvature


def _choose(
    metric: NoiseCandidate, design: Bounds, family: Family, purchase: NoiseBudget, sizes: Vector, beaten: float
) -> _Choice | None:
    """The best default curvature for the noise of one law; the least risk decides between laws.

    None for a law whose risk is certainly no less than `beaten`: its search would be for nothing.

    The bound is sum_j (E b_j^2 / m_j + m_j r_j^2) / 2 (docs/proofs/risk): m_j is in proportion to the column's noise
    over the typical size r_j of its coefficient. Columns of much noise are those of terms with few columns, whose
    coefficients are larger: r_j grows with the root of the noise's deviation (docs/defaults).
    """
    deviations = np.sqrt(metric.variances)
    sizes = sizes * np.sqrt(deviations / np.mean(deviations))
    direction = deviations / sizes
    direction = direction / np.sqrt(np.mean(direction**2))
    unit_ratio = design.curvature_ratio(direction)

    # Free information leaves the noise as it is, and beside normal noise it costs too little to calibrate it here.
    asked = purchase.information
    alone = asked is None or asked.free or metric.kind == "gaussian"
    searched = replace(purchase, information=None) if alone else purchase

    @cache
    def mean_square(curvature: float) -> float:
        kappa = max(unit_ratio / curvature, NO_JACOBIAN)
        scale = scales(family, searched, metric, kappa).fit
        return float(np.sum(metric.variances / direction)) * scale**2

    size = float(np.sqrt(np.sum(direction * sizes**2)))
    # Without a Jacobian the bound is least: E / 2 m + m r^2 / 2 is never below the root of E r^2.
    if np.sqrt(mean_square(np.inf)) * size > beaten * (1 + SURELY):
        return None
    least = least_curvature(family, unit_ratio, purchase.eps, shared=purchase.shared)
    curvature, risk = risk_curvature(size, mean_square, 2 * least)
    if asked is not None and not asked.free:
        # What is paid for is the interval: less noise, for the shrinkage will be undone.
        curvature *= PAID_ROOM
    return _Choice(metric, curvature * direction, risk)

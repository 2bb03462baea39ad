"""Objective perturbation: one noisy linear term, one strongly convex optimum (docs/proofs/objective)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.families import from_dict as family_from_dict
from dpstats.mechanisms.curvature import default_radius, least_curvature, risk_curvature
from dpstats.mechanisms.design import NORM_NAMES, Bounds, NormName
from dpstats.mechanisms.release import ROWS_AT_MOST, LatticeRelease, gradient_tolerance
from dpstats.penalties import Penalty, split_curvature
from dpstats.penalties import from_dict as penalty_from_dict
from dpstats.privacy.calibration import classical_scale, joint_loss, joint_scale
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import RandomSource
from dpstats.solvers import newton, prox
from dpstats.solvers.objective import Block, PerturbedObjective

Vector = NDArray[np.float64]

NO_JACOBIAN = 1e-9
"""A curvature ratio at which the Jacobian costs nothing."""


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
    noise : Noise
        The law of b in the metric x * noise_shape.
    noise_shape : ndarray, shape (p,)
        Public weights a: the objective's linear term is b / a.
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
    noise: Noise
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

    @property
    def size(self) -> int:
        """The number of coefficients p."""
        return len(self.curvature)

    @property
    def expected_square(self) -> float:
        """E||b / a||^2, the mean squared norm of the linear term."""
        return self.noise.expected_square(self.size) / self.size * float(np.sum(self.noise_shape**-2.0))

    def sample(self, random: RandomSource) -> Vector:
        """One draw of the objective's linear term, its public part included, shape (p,)."""
        return self.linear + self.noise.sample(self.size, random) / self.noise_shape

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            **{name: getattr(self, name).tolist() for name in _VECTORS},
            "family": self.family.to_dict(),
            "noise": asdict(self.noise),
            "penalty": None if self.penalty is None else self.penalty.to_dict(),
            "final": asdict(self.final),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ObjectivePlan:
        """The plan whose `to_dict` gave `stored`."""
        vectors: dict[str, Any] = {name: np.asarray(stored[name], dtype=np.float64) for name in _VECTORS}
        return cls(
            **{name: stored[name] for name in _PLAIN},
            **vectors,
            family=family_from_dict(stored["family"]),
            noise=Noise(**stored["noise"]),
            penalty=None if stored["penalty"] is None else penalty_from_dict(stored["penalty"]),
            final=LatticeRelease(**stored["final"]),
        )


_PLAIN = (
    *("eps", "delta", "adjacency", "kappa", "row_norm", "classical_scale", "planned_eps", "joint_need"),
    *("radius", "tolerance", "row_length", "rows_at_most"),
)
_VECTORS = ("curvature", "penalty_weights", "threshold", "linear", "noise_shape")


@dataclass(frozen=True)
class Purchase:
    """What one release may cost, and how its noise and curvature are to be chosen.

    Attributes
    ----------
    eps, delta : float
        For the noise in the objective; delta = 0 means Laplace noise, delta > 0 Gaussian.
    final_eps : float
        For the final discrete noise, on top of `eps`.
    adjacency : {"add_remove", "replace_one"}
    retrieval : {"recycle", "return", None}
        Where the budget goes that the joint bound retrieves from the classical split: into less noise, back to the
        analyst (the noise keeps the classical scale and what it really costs is charged), or nowhere.
    curvature : float, optional
        Curvature added to the penalty's own; by default what the penalty lacks of the default curvature.
    radius : float, optional
        The analyst's guess at the norm of the coefficients in model units.
    norm : {"l1", "l2", "linf"}, optional
        The norm of the noise to insist on.
    rows_at_most : float
        The greatest number of rows to be certified.
    """

    eps: float
    delta: float
    final_eps: float
    adjacency: Adjacency
    retrieval: Literal["recycle", "return"] | None = "recycle"
    curvature: float | None = None
    radius: float | None = None
    norm: NormName | None = None
    rows_at_most: float = ROWS_AT_MOST

    @property
    def kind(self) -> Literal["laplace", "gaussian"]:
        """The noise that delta asks for."""
        return "gaussian" if self.delta > 0 else "laplace"


def plan_objective(
    design: Bounds,
    family: Family,
    purchase: Purchase,
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
        Of the three norms, the one with the least bound on the risk.
    """
    size = len(design.names)
    weights = np.ones(size) if penalty_weights is None else penalty_weights
    ridge, remainder = (0.0, None) if penalty is None else split_curvature(penalty)
    radius = default_radius(family, design) if purchase.radius is None else purchase.radius
    candidates = [_choose(metric, design, family, purchase, radius) for metric in _metrics(design, purchase)]
    metric, default, _ = min(candidates, key=lambda choice: choice.risk)
    own = ridge * weights
    total = np.maximum(own, default) if purchase.curvature is None else own + purchase.curvature
    price = _price(design, family, purchase, metric, total)
    row_length = float(np.sqrt(design.curvature_ratio(np.ones(size))))
    tolerance = gradient_tolerance(
        family,
        rms=float(np.sqrt(metric.unit_square)) * price.scale,
        row_length=row_length,
        curvature=total,
        rows=purchase.rows_at_most,
        penalty=remainder,
    )
    return ObjectivePlan(
        family=family,
        eps=price.eps,
        delta=purchase.delta,
        adjacency=purchase.adjacency,
        curvature=total,
        kappa=design.curvature_ratio(total),
        row_norm=metric.row_norm,
        row_length=row_length,
        rows_at_most=purchase.rows_at_most,
        noise=Noise(purchase.kind, metric.norm, price.scale),
        noise_shape=metric.shape,
        classical_scale=price.classical,
        planned_eps=purchase.eps,
        joint_need=price.need,
        penalty=remainder,
        penalty_weights=weights,
        threshold=np.zeros(size),
        linear=np.zeros(size),
        radius=radius,
        tolerance=tolerance,
        final=LatticeRelease(purchase.final_eps, 2 * tolerance / float(np.min(total)), size),
    )


class _Price(NamedTuple):
    """Noise scale and cost of one release, beside the classical split's scale and what that really costs."""

    scale: float
    eps: float
    classical: float
    need: float


def _price(design: Bounds, family: Family, purchase: Purchase, metric: _Metric, curvature: Vector) -> _Price:
    """Calibrate the noise at a curvature, and settle where retrieved budget goes."""
    kappa = design.curvature_ratio(curvature)
    bought: dict[str, Any] = {"delta": purchase.delta, "row_norm": metric.row_norm, "adjacency": purchase.adjacency}
    joint = joint_scale(family, eps=purchase.eps, curvature_ratio=kappa, **bought)
    if not np.isfinite(joint):
        least = least_curvature(family, design.curvature_ratio(np.ones(len(curvature))), purchase.eps)
        raise ArgumentError(f"curvature is too small for this eps: give more than about {least:.4g}, or raise eps")
    classical = classical_scale(family, eps=purchase.eps, **bought)
    need = joint_loss(family, scale=classical, curvature_ratio=kappa, kind=purchase.kind, **bought)
    # Too little curvature for the classical split leaves nothing to retrieve: the joint bound then asks for more noise.
    if need >= purchase.eps or purchase.retrieval == "recycle":
        return _Price(joint, purchase.eps, classical, need)
    return _Price(classical, need if purchase.retrieval == "return" else purchase.eps, classical, need)


def release_objective(plan: ObjectivePlan, blocks: Iterable[Block], random: RandomSource) -> Vector:
    """Read the rows once charged, minimise, and release coefficients in model units, shape (p,).

    Parameters
    ----------
    plan : ObjectivePlan
    blocks : collection of (exog, endog)
        Rows within the bounds the plan was made for.
    random : RandomSource
    """
    objective = PerturbedObjective(plan.family, blocks, plan.curvature, plan.sample(random), plan.row_length)
    if plan.penalty is None:
        return plan.final.release(newton.minimize(objective, plan.tolerance), random)
    optimum = prox.minimize(objective, plan.penalty, plan.tolerance, weights=plan.penalty_weights)
    released = plan.final.release(optimum, random)
    return plan.final.sparse(released) if plan.penalty.sparse else released


def noise_shape(design: Bounds, norm: NormName) -> Vector:
    """Column weights a, constant on each term, that minimise E||b / a||^2 under the same row bound.

    For a term of k columns whose part of a row is at most r in the norm: a**2 prop. to sqrt(k) / r (l2),
    a prop. to (k / r)**(1/3) (l1), and 1 / r for each column (linf); derived in docs/proofs/noise.
    """
    shape = np.ones(len(design.names))
    for term in design.terms:
        size = term.columns.stop - term.columns.start
        if term.l2 == 0:
            continue  # zero on the whole declared range, such as np.maximum(x - 9, 0) on (0, 5): any weight will do
        if norm == "l2":
            shape[term.columns] = np.sqrt(np.sqrt(size) / term.l2)
        elif norm == "l1":
            shape[term.columns] = (size / term.l1) ** (1 / 3) if np.isfinite(term.l1) else 1.0
    return shape / np.max(shape)


class _Metric(NamedTuple):
    """A norm for the noise, the shape of its columns, and what they cost."""

    norm: NormName
    shape: Vector
    row_norm: float
    unit_square: float
    """E||b / a||^2 at noise scale 1."""


class _Choice(NamedTuple):
    """A metric with the curvature that suits it best, and the risk bound there."""

    metric: _Metric
    curvature: float
    risk: float


def _choose(metric: _Metric, design: Bounds, family: Family, purchase: Purchase, radius: float) -> _Choice:
    """The best default curvature for the noise of one metric; the least risk decides between metrics."""
    unit_ratio = design.curvature_ratio(np.ones(len(metric.shape)))

    @cache
    def mean_square(curvature: float) -> float:
        scale = joint_scale(
            family,
            eps=purchase.eps,
            delta=purchase.delta,
            curvature_ratio=max(unit_ratio / curvature, NO_JACOBIAN),
            row_norm=metric.row_norm,
            adjacency=purchase.adjacency,
        )
        return metric.unit_square * scale**2

    return _Choice(metric, *risk_curvature(radius, mean_square, 2 * least_curvature(family, unit_ratio, purchase.eps)))


def _metrics(design: Bounds, purchase: Purchase) -> Iterator[_Metric]:
    """The norms that the design bounds."""
    allowed = NORM_NAMES if purchase.kind == "laplace" else ("l2",)
    for norm in allowed if purchase.norm is None else (purchase.norm,):
        shape = noise_shape(design, norm)
        row_norm = design.norm_bound(norm, shape)
        if np.isfinite(row_norm):
            spread = Noise(purchase.kind, norm, 1.0).expected_square(len(shape)) * float(np.mean(shape**-2.0))
            yield _Metric(norm, shape, row_norm, spread)

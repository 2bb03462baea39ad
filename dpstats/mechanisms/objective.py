"""Objective perturbation: one noisy linear term, one strongly convex optimum (docs/proofs/objective)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.families import Family
from dpstats.families import from_dict as family_from_dict
from dpstats.mechanisms.curvature import default_curvature, default_radius
from dpstats.mechanisms.design import NORM_NAMES, NormName, PublicDesign
from dpstats.mechanisms.release import LatticeRelease
from dpstats.privacy.calibration import classical_scale, joint_scale
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import RandomSource
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import Block, PerturbedObjective

Vector = NDArray[np.float64]

GRADIENT_SHARE = 1e-10
"""gamma as a share of the noise's root mean square: far below anything the noise leaves visible."""


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
    noise : Noise
        The law of b in the metric x * noise_shape.
    noise_shape : ndarray, shape (p,)
        Public weights a: the objective's linear term is b / a.
    classical_scale : float
        The scale the same guarantee costs under the classical split, at the same curvature.
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
    noise: Noise
    noise_shape: Vector
    classical_scale: float
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
        """One draw of the linear term, shape (p,)."""
        return self.noise.sample(self.size, random) / self.noise_shape

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            **{name: getattr(self, name).tolist() for name in _VECTORS},
            "family": self.family.to_dict(),
            "noise": asdict(self.noise),
            "final": asdict(self.final),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ObjectivePlan:
        """The plan whose `to_dict` gave `stored`."""
        return cls(
            **{name: stored[name] for name in _PLAIN},
            **{name: np.asarray(stored[name], dtype=np.float64) for name in _VECTORS},
            family=family_from_dict(stored["family"]),
            noise=Noise(**stored["noise"]),
            final=LatticeRelease(**stored["final"]),
        )


_PLAIN = ("eps", "delta", "adjacency", "kappa", "row_norm", "classical_scale", "radius", "tolerance")
_VECTORS = ("curvature", "noise_shape")


def plan_objective(
    design: PublicDesign,
    family: Family,
    *,
    eps: float,
    delta: float,
    adjacency: Adjacency,
    final_eps: float,
    ridge: Vector,
    curvature: float | Vector | None = None,
    radius: float | None = None,
) -> ObjectivePlan:
    """Choose curvature and noise for one release, from public facts only.

    Parameters
    ----------
    design : PublicDesign
    family : Family
        With every cap filled in.
    eps, delta : float
        What the noise may cost; delta = 0 means Laplace noise, delta > 0 Gaussian.
    adjacency : {"add_remove", "replace_one"}
    final_eps : float
        What the final discrete noise may cost, on top of `eps`.
    ridge : ndarray, shape (p,)
        Curvature the penalty has everywhere; it counts towards M.
    curvature : float or ndarray, optional
        Curvature added to the penalty's; by default what `ridge` lacks of the default (privacy.md section 2d).
    radius : float, optional
        The analyst's guess at the norm of the coefficients in model units.

    Returns
    -------
    ObjectivePlan
        Of the three norms, the one whose noise has the least mean squared norm.
    """
    size = len(design.names)
    kind: Literal["laplace", "gaussian"] = "gaussian" if delta > 0 else "laplace"
    metric = min(_metrics(design, kind), key=lambda metric: metric.unit_square * metric.row_norm**2)

    @cache
    def scale_at(kappa: float) -> float:
        return joint_scale(
            family, eps=eps, delta=delta, curvature_ratio=kappa, row_norm=metric.row_norm, adjacency=adjacency
        )

    guess = default_radius(design) if radius is None else radius
    if curvature is None:
        unit_ratio = design.curvature_ratio(np.ones(size))
        floor = default_curvature(unit_ratio, guess, lambda kappa: metric.unit_square * scale_at(kappa) ** 2)
        total = np.maximum(ridge, floor)
    else:
        total = ridge + curvature
    kappa = design.curvature_ratio(total)
    tolerance = GRADIENT_SHARE * float(np.sqrt(metric.unit_square)) * scale_at(kappa)
    return ObjectivePlan(
        family=family,
        eps=eps,
        delta=delta,
        adjacency=adjacency,
        curvature=total,
        kappa=kappa,
        row_norm=metric.row_norm,
        noise=Noise(kind, metric.norm, scale_at(kappa)),
        noise_shape=metric.shape,
        classical_scale=classical_scale(family, eps=eps, delta=delta, row_norm=metric.row_norm, adjacency=adjacency),
        radius=guess,
        tolerance=tolerance,
        final=LatticeRelease(final_eps, 2 * tolerance / float(np.min(total)), size),
    )


def release_objective(plan: ObjectivePlan, blocks: Iterable[Block], random: RandomSource) -> Vector:
    """Read the rows once charged, minimise, and release coefficients in model units, shape (p,).

    Parameters
    ----------
    plan : ObjectivePlan
    blocks : collection of (exog, endog)
        Rows within the bounds the plan was made for.
    random : RandomSource
    """
    design_norm = float(np.sqrt(plan.kappa * np.max(plan.curvature)))
    objective = PerturbedObjective(plan.family, blocks, plan.curvature, plan.sample(random), design_norm)
    return plan.final.release(minimize(objective, plan.tolerance), random)


def noise_shape(design: PublicDesign, norm: NormName) -> Vector:
    """Column weights a, constant on each term, that minimise E||b / a||^2 under the same row bound.

    For a term of k columns whose part of a row is at most r in the norm: a**2 prop. to sqrt(k) / r (l2),
    a prop. to (k / r)**(1/3) (l1), and 1 / r for each column (linf); derived in docs/proofs/noise.
    """
    shape = np.ones(len(design.names))
    for term in design.terms:
        size = term.columns.stop - term.columns.start
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


def _metrics(design: PublicDesign, kind: Literal["laplace", "gaussian"]) -> Iterator[_Metric]:
    """The norms that the design bounds."""
    for norm in NORM_NAMES if kind == "laplace" else ("l2",):
        shape = noise_shape(design, norm)
        row_norm = design.norm_bound(norm, shape)
        if np.isfinite(row_norm):
            spread = Noise(kind, norm, 1.0).expected_square(len(shape)) * float(np.mean(shape**-2.0))
            yield _Metric(norm, shape, row_norm, spread)

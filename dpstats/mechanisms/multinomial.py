"""Coefficients of several classes by noise in the objective, planned without rows (docs/proofs/multinomial)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError
from dpstats.families.multinomial import Multinomial
from dpstats.mechanisms.calibration import NoiseBudget, risk_curvature, typical_sizes
from dpstats.mechanisms.design import Bounds
from dpstats.mechanisms.release import LatticeRelease, plan_final
from dpstats.privacy.class_noise import ClassNoise, class_noise, class_scale
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.randomness import RandomSource
from dpstats.solvers import newton
from dpstats.solvers.classes import ClassesObjective

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

PROOF = "docs/proofs/multinomial"


@dataclass(frozen=True, eq=False)
class ClassesStage:
    """One release of the coefficients of K classes, all of it fixed before rows are read."""

    classes: int
    eps: float  # the share of a row's budget that buys `noise`
    adjacency: Adjacency
    shared: bool  # rows of a person share a weight of 1
    curvature: Vector  # the diagonal quadratic term, the same for every class, shape (p,)
    kappa: float  # sup x' M^-1 x over all rows of the design
    row_length: float  # the bound on the rows' Euclidean norm
    rows_at_most: float  # so many rows are certified to `tolerance`, whatever they are
    noise: ClassNoise
    tolerance: float  # gamma, the certified bound on the gradient norm at the solver's point
    final: LatticeRelease  # the discrete noise of the last step

    def release(self, rows: Rows[Block], random: RandomSource) -> Matrix:
        """Read the rows once charged: coefficients in model units, shape (K, p), of sum zero over the classes."""
        curvature = np.tile(self.curvature, self.classes)
        noise = self.noise.sample(random).T.ravel()
        objective = ClassesObjective(Multinomial(self.classes), rows, curvature, noise, self.row_length)
        released = self.final.release(newton.optimum(objective, self.tolerance), random).reshape(self.classes, -1)
        # The exact optimum has this sum; what the last step's noise adds to it is taken off.
        return released - released.mean(axis=0)

    @property
    def cost(self) -> float:
        """eps of a row."""
        return self.eps + self.final.eps

    @property
    def noise_sd(self) -> Vector:
        """The standard deviation of each column's noise in the gradient of one class, shape (p,)."""
        return np.sqrt(np.diag(self.noise.covariance) * (1 - 1 / self.classes))

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "curvature": self.curvature.tolist(),
            "noise": self.noise.to_dict(),
            "final": asdict(self.final),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ClassesStage:
        """The stage whose `to_dict` gave `stored`."""
        return cls(
            **{name: stored[name] for name in _PLAIN},
            curvature=np.asarray(stored["curvature"], dtype=np.float64),
            noise=ClassNoise.from_dict(stored["noise"]),
            final=LatticeRelease(**stored["final"]),
        )


_PLAIN = ("classes", "eps", "adjacency", "shared", "kappa", "row_length", "rows_at_most", "tolerance")


def plan_classes(design: Bounds, classes: int, budget: NoiseBudget) -> ClassesStage:
    """Choose curvature and noise from public facts only, the curvature by the least bound on the risk.

    ArgumentError if the curvature asked for is too small for eps, or predictors could overflow.
    """
    family, size = Multinomial(classes), len(design.names)
    unit = class_noise(design.images, size, classes)

    @cache
    def scale(kappa: float) -> float:
        return class_scale(classes, eps=budget.eps, kappa=kappa, adjacency=budget.adjacency, shared=budget.shared)

    if budget.curvature is not None:
        curvature = np.full(size, budget.curvature)
    else:
        sizes = coefficient_sizes(design, family, budget.radius)
        deviations = np.sqrt(unit.variances)
        sizes = sizes * np.sqrt(deviations / np.mean(deviations))
        direction = deviations / sizes
        direction = direction / np.sqrt(np.mean(direction**2))
        ratio = design.curvature_ratio(direction)

        def mean_square(curvature: float) -> float:
            return float(np.sum(unit.variances / direction)) * scale(max(ratio / curvature, NO_JACOBIAN)) ** 2

        # Two halves are a class of its own beside another: no determinant of K classes has a greater factor.
        least = ratio * 0.5 / math.expm1(min(budget.eps, 700.0) / max(1, classes - 1))
        radius = float(np.sqrt(np.sum(direction * sizes**2)))
        curvature = risk_curvature(radius, mean_square, 2 * least)[0] * direction
    kappa = design.curvature_ratio(curvature)
    found = scale(kappa)
    if not np.isfinite(found):
        needed = design.curvature_ratio(np.ones(size)) * (classes - 2) / (classes - 1)
        raise ArgumentError(
            f"curvature is too small for eps = {budget.eps:.3g}: pass more than about "
            f"{2 * needed / budget.eps:.4g}, or raise eps"
        )
    noise, row_length = unit.scaled(found), float(np.sqrt(design.curvature_ratio(np.ones(size))))
    tolerance, final = plan_final(
        family,
        budget.final_eps,
        rms=float(np.sqrt(np.sum(noise.variances))),
        row_length=row_length,
        curvature=np.tile(curvature, classes),
        rows=budget.rows_at_most,
        penalty=None,
    )
    final.check()
    return ClassesStage(
        classes=classes,
        eps=budget.eps,
        adjacency=budget.adjacency,
        shared=budget.shared,
        curvature=curvature,
        kappa=kappa,
        row_length=row_length,
        rows_at_most=budget.rows_at_most,
        noise=noise,
        tolerance=tolerance,
        final=final,
    )


NO_JACOBIAN = 1e-9
"""A curvature ratio at which the Jacobian costs nothing."""


def coefficient_sizes(design: Bounds, family: Multinomial, radius: float | None) -> Vector:
    """A guess at the norm over the classes of each column's coefficients in model units, shape (p,).

    That of a logit's coefficient for each of K - 1 contrasts, which lie so far from their mean; `radius` is the norm of
    all of them.
    """
    sizes = typical_sizes(family, design, None) * math.sqrt((family.classes - 1) / 2)
    return sizes if radius is None else sizes * (radius / float(np.linalg.norm(sizes)))

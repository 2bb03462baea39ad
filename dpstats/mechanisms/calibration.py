"""Noise and curvature of a fit: the candidate laws, the default curvature, and what both cost
(docs/proofs/objective, noise)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.formula.joint_bodies import joint_images
from dpstats.mechanisms.design import NORM_NAMES, Bounds, NormName
from dpstats.mechanisms.information import InformationPlan, InformationPurchase, matrix_metric
from dpstats.mechanisms.release import ROWS_AT_MOST
from dpstats.privacy.calibration import classical_scale, joint_loss, least_scale
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information import (
    JointScales,
    MatrixLaw,
    MatrixNoise,
    best_joint_scales_delta,
    free_ratio,
    headroom,
    joint_scales,
    joint_scales_delta,
    weight_bound,
)
from dpstats.privacy.k_norm import ROUNDED, KNormNoise, focused_noise, k_norm_noise
from dpstats.privacy.noise import Kind, Noise

Vector = NDArray[np.float64]

SEARCHED = (0.3, 50.0)
"""Multiples of the curvature that would be best if the Jacobian were free, between which the best one is sought."""


def typical_sizes(family: Family, design: Bounds, radius: float | None = None) -> Vector:
    """A guess at the size of each coefficient in model units, shape (p,), settled by the experiments in docs/defaults.

    For rows of Euclidean norm one the family's `typical_norm` in equal parts, none above its `typical_size`. An
    intercept's column is as small as the row has terms: it has the family's `typical_intercept`, in units of the linear
    predictor, where that is more. `radius` is the norm of the coefficients to assume instead, in the same proportions.
    """
    size = len(design.names)
    each = min(family.typical_size, family.typical_norm / float(np.sqrt(size)))
    sizes = np.full(size, each / float(np.sqrt(design.curvature_ratio(np.ones(size)))))
    for image in design.images:
        if image.block.kind == "intercept":
            constant = image.columns[int(np.argmax(np.abs(image.matrix[0])))]
            sizes[constant] = max(sizes[constant], family.typical_intercept / float(np.max(np.abs(image.matrix))))
    return sizes if radius is None else sizes * (radius / float(np.linalg.norm(sizes)))


def least_curvature(family: Family, unit_ratio: float, eps: float, *, shared: bool = False) -> float:
    """The curvature at which the Jacobian alone costs eps, sup ||x||^2 = `unit_ratio`: more of it is needed.

    `shared` says that rows of a person share a weight: kappa h = eps instead of log(1 + kappa h) = eps.
    """
    return unit_ratio * family.curvature_bound / (eps if shared else math.expm1(min(eps, 700.0)))


def risk_curvature(radius: float, mean_square: Callable[[float], float], least: float) -> tuple[float, float]:
    """The curvature m that minimises the risk bound E||b(m)||^2 / (2 m) + m radius^2 / 2, and that (docs/proofs/risk).

    `mean_square` gives E||b||^2 of the noise that the budget buys at curvature m: decreasing, and perhaps infinite
    below `least`. Without a Jacobian the best m is sqrt(E||b||^2) / radius; a family whose curvature does not vanish
    where its gradient is extreme gains from more.
    """
    start = max(np.sqrt(mean_square(np.inf)) / radius, least)

    def risk(log_multiple: float) -> float:
        m = start * np.exp(log_multiple)
        return float(mean_square(m) / (2 * m) + m * radius**2 / 2)

    low, high = np.log(SEARCHED)
    best = optimize.minimize_scalar(risk, bounds=(low, high), method="bounded", options={"xatol": 0.01})
    return float(start * np.exp(best.x)), float(best.fun)


@dataclass(frozen=True)
class NoiseBudget:
    """What one release may cost, and how its noise and curvature are to be chosen."""

    eps: float  # for the noise in the objective
    delta: float  # positive: Gaussian noise is permitted
    final_eps: float  # for the final discrete noise, on top of `eps`
    adjacency: Adjacency
    # Where the budget goes that the joint bound retrieves from the classical split: less noise, or less charge.
    retrieval: Literal["recycle", "return"] | None = "recycle"
    curvature: float | None = None  # added to the penalty's own; by default what that lacks of the default curvature
    radius: float | None = None  # the analyst's guess at the norm of the coefficients in model units
    kind: Kind | None = None  # to insist on; by default whichever costs less risk
    norm: NormName | Literal["design"] | None = None  # to insist on
    rows_at_most: float = ROWS_AT_MOST  # the greatest number of rows to be certified
    # Spent on inference besides `eps`, which then pays for fit and information matrix together.
    information: InformationPurchase | None = None
    shared: bool = False  # a record is a person's rows, which share a weight of 1 (docs/proofs/persons), not one row
    charged: bool = False  # spent already: information without a price is left out instead of refused
    focus: int | None = None  # the column whose noise is to be small


@dataclass(frozen=True, eq=False)
class NoiseCandidate:
    """A law of the objective's linear term, up to its scale."""

    kind: Kind
    delta: float  # what it spends of the budget's delta: 0 for Laplace noise
    row_norm: float  # the largest norm of a row
    # Weights a of a law that is the same in all columns but for them; ones for noise cut to the design, shape (p,).
    shape: Vector
    unit: Noise | KNormNoise  # the law at scale 1, before it is divided by `shape`

    @cached_property
    def variances(self) -> Vector:
        """Variances of the linear term at scale 1, shape (p,)."""
        if isinstance(self.unit, KNormNoise):
            return self.unit.standard_deviations() ** 2
        return self.unit.expected_square(len(self.shape)) / len(self.shape) / self.shape**2


def noise_candidates(design: Bounds, budget: NoiseBudget) -> Iterator[NoiseCandidate]:
    """The laws that the budget permits and the design bounds."""
    images = design.images
    # A formula's own bodies leave nothing to gain for a norm of the whole row.
    default: tuple[NormName | Literal["design"], ...] = ("design",) if images else NORM_NAMES
    for name in () if budget.kind == "gaussian" else default if budget.norm is None else (budget.norm,):
        if name != "design":
            yield from _by_norm(design, name, "laplace", 0.0)
        elif images:
            focus = budget.focus
            joint = images if not design.joint else joint_images(images, design.joint)
            law = k_norm_noise(joint) if focus is None else focused_noise(images, focus, FOCUS_SHARE)
            yield NoiseCandidate("laplace", 0.0, ROUNDED, np.ones(len(design.names)), law)
    if budget.delta > 0 and budget.kind != "laplace":
        yield from _by_norm(design, "l2", "gaussian", budget.delta)


FOCUS_SHARE = 0.3
"""The share of the noise's norm that a column in focus has with the intercept (docs/proofs/focus)."""


def _by_norm(design: Bounds, norm: NormName, kind: Kind, delta: float) -> Iterator[NoiseCandidate]:
    shape = noise_shape(design, norm)
    row_norm = design.norm_bound(norm, shape)
    if np.isfinite(row_norm):
        yield NoiseCandidate(kind, delta, row_norm, shape, Noise(kind, norm, 1.0))


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


MOST = 1e300
"""What no eps pays for is said to cost so much: plans are stored as JSON, which has no infinity."""

ROOM_WANTED = 0.4
"""Free information: the curvature is raised until kappa takes no more than this part of what the fit's noise has room
for in l'',"""

MOST_ROOM = 1.6
"""but no further than to so many times what the fit alone would have: it is shrinkage,"""

ROOM_PER_EPS = 1.4
"""and where eps is small, little more than that (docs/defaults)."""

LEAST_FREE = 0.25
"""Information is not worth having for less than this part of that room."""

FREE_SURCHARGE = 0.002
"""What is called free may raise the scale of normal noise by this part, and of other noise where nothing else helps."""

PAID_SURCHARGES = (0.1, 0.25)
"""What is paid for raises it by so much: where the fit's noise has room for the information, and where it has none."""

PAID_ROOM = 1.5
"""Information that is paid for: the curvature is so many times what is best for prediction; the noise is less then."""


class Price(NamedTuple):
    """Noise scale and cost of one fit, beside the classical split's scale and what that really costs."""

    scale: float
    eps: float
    planned: float
    classical: float
    need: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Noise of one law for a loss on a design, within a budget: its scale, its cost, and that of information."""

    design: Bounds
    family: Family
    budget: NoiseBudget
    law: NoiseCandidate

    def price(self, curvature: Vector) -> Price:
        """The noise at a curvature, and where retrieved budget goes; ArgumentError if none is enough."""
        budget, kappa = self.budget, self.design.curvature_ratio(curvature)
        if not kappa > 0:
            raise ArgumentError(
                f"eps = {budget.eps:.3g}, the part of eps that is left for this fit, is too small: noise of about "
                f"{self.family.lipschitz / budget.eps:.1g} would hide any data. Pass an eps between 0.01 and 10, as is "
                "usual"
            )
        joint = self.scales(kappa).fit
        if not np.isfinite(joint):
            square = self.design.curvature_ratio(np.ones(len(curvature)))
            least = least_curvature(self.family, square, budget.eps, shared=budget.shared)
            raise ArgumentError(
                f"curvature is too small for eps = {budget.eps:.3g}: pass more than about {least:.4g}, or raise eps"
            )
        classical, need = self._classical(budget.eps, kappa)
        # Too little curvature for the classical split leaves nothing to retrieve: the joint bound then asks for more
        # noise.
        if need >= budget.eps or budget.retrieval == "recycle":
            return Price(joint, budget.eps, budget.eps, classical, need)
        charged = need if budget.retrieval == "return" else budget.eps
        return Price(classical, charged, budget.eps, classical, need)

    def scales(self, kappa: float, error: float = 0.0) -> JointScales:
        """Scales of the noise of the fit, and of its information if that is paid for too, as it is without a cap.

        `error` bounds the difference of linear predictors at the released and at the exact optimum.
        """
        budget = self.budget
        common = {**self._common, "eps": budget.eps, "curvature_ratio": kappa, "shared": budget.shared}
        if budget.information is None:
            return JointScales(least_scale(self.family, **common), np.inf)
        common |= {"ratio": budget.information.ratio, "eta_error": error}
        if self.law.kind == "gaussian":
            del common["shared"]  # which is for pure noise alone
            return joint_scales_delta(self.family, law="wishart", **common)
        del common["delta"]
        return joint_scales(self.family, **common)

    def room(self, kappa: float) -> float:
        """By what the curvature is raised to make room for free information."""
        rows = 2 if self.budget.adjacency == "replace_one" else 1
        most = headroom(self.family) * self.budget.eps / (rows * self.family.lipschitz)
        return min(MOST_ROOM, 1 + ROOM_PER_EPS * self.budget.eps, max(1.0, kappa / (ROOM_WANTED * most)))

    def price_information(
        self, curvature: Vector, fit_price: Price, error: float
    ) -> tuple[Price, InformationPlan] | None:
        """Fit and information together; None if the latter was to be free and there is hardly room for it.

        Free information keeps the noise of `fit_price`, what the fit costs without it; `error` as for `scales`.
        """
        bought, kappa = self.budget.information, self.design.curvature_ratio(curvature)
        assert bought is not None
        joint: JointScales | None
        law: MatrixLaw = "wishart"
        if self.law.kind == "gaussian":
            law, joint = self._normal_scales(kappa, len(curvature), error)
        elif bought.free:
            joint = self._free_scales(kappa, fit_price.scale, error)
        else:
            joint = self.scales(kappa, error)
            if bought.weight_cap is not None and np.isfinite(joint.fit):
                # The fit's noise stays: the matrix has all that the cap leaves.
                joint = self._beside(kappa, joint.fit, error)
        if joint is None:
            return None
        eps = self.budget.eps
        fit = min(self._loss(joint.fit, kappa), eps)
        classical, need = self._classical(fit, kappa)
        noise = MatrixNoise(law, joint.matrix, *matrix_metric(self.design))
        plan = InformationPlan(bought, noise, weight_bound(self.family, bought.weight_cap), eps - fit, error)
        return Price(joint.fit, fit, fit, classical, need), plan

    def _free_scales(self, kappa: float, scale: float, error: float) -> JointScales | None:
        """The matrix noise that there is room for beside the fit's pure noise of a scale; None for hardly any.

        Where the whole of eps is spent on the extreme gradient, the error of the last step finds no room unless there
        is a little more noise.
        """
        for fit in (scale, scale * (1 + FREE_SURCHARGE)):
            scales = self._beside(kappa, fit, error)
            if fit > LEAST_FREE * headroom(self.family) * self.law.row_norm * scales.matrix:
                return scales
        return None

    def _beside(self, kappa: float, fit: float, error: float) -> JointScales:
        """The least matrix noise that there is room for beside the fit's pure noise of a scale; infinite for none."""
        budget, row_norm = self.budget, self.law.row_norm
        assert budget.information is not None
        ratio = free_ratio(
            self.family,
            scale=fit,
            eps=budget.eps,
            curvature_ratio=kappa,
            row_norm=row_norm,
            adjacency=budget.adjacency,
            eta_error=error,
            shared=budget.shared,
            weight_cap=budget.information.weight_cap,
        )
        return JointScales(fit, fit / (ratio * row_norm) if ratio > 0 else np.inf)

    def _normal_scales(self, kappa: float, size: int, error: float) -> tuple[MatrixLaw, JointScales | None]:
        """The matrix noise beside normal noise of the fit that is raised a little, and its law."""
        bought = self.budget.information
        assert bought is not None
        paid = PAID_SURCHARGES[0 if headroom(self.family) > 0 else 1] if bought.surcharge is None else bought.surcharge
        choice = best_joint_scales_delta(
            self.family,
            eps=self.budget.eps,
            size=size,
            curvature_ratio=kappa,
            surcharge=FREE_SURCHARGE if bought.free else paid,
            eta_error=error,
            weight_cap=bought.weight_cap,
            **self._common,
        )
        return choice.law, choice.scales if np.isfinite(choice.entry_variance) else None

    @property
    def _common(self) -> dict[str, Any]:
        """What the calibrations have in common."""
        return {"delta": self.law.delta, "row_norm": self.law.row_norm, "adjacency": self.budget.adjacency}

    def _classical(self, eps: float, kappa: float) -> tuple[float, float]:
        """The scale of the papers' even split of eps, and what such noise really costs: `MOST` if no eps does."""
        classical = classical_scale(self.family, eps=eps, **self._common)
        return classical, min(self._loss(classical, kappa), MOST)

    def _loss(self, scale: float, kappa: float) -> float:
        """What noise of a scale costs."""
        facts: dict[str, Any] = {**self._common, "kind": self.law.kind, "shared": self.budget.shared}
        return joint_loss(self.family, scale=scale, curvature_ratio=kappa, **facts)

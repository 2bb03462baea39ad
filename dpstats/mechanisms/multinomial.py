"""Coefficients of several classes by noise in the objective, planned without rows (docs/proofs/multinomial)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError
from dpstats.families.base import pad_rows
from dpstats.families.multinomial import Multinomial
from dpstats.inference import (
    Estimates,
    Inference,
    KnownInformation,
    MappedLinear,
    ModelSpread,
    SpanNoise,
)
from dpstats.inference.basis import self_adjoint
from dpstats.inference.noise_laws import DRAWS, SEED
from dpstats.mechanisms.calibration import PAID_ROOM, NoiseBudget, risk_curvature, typical_sizes
from dpstats.mechanisms.design import Bounds, constant_places
from dpstats.mechanisms.information import COVER, FARTHEST, eta_error, matrix_metric
from dpstats.mechanisms.information_release import pieces_by_columns
from dpstats.mechanisms.release import LATTICE_LIMIT, LastStep, LatticeRelease
from dpstats.privacy.class_noise import ClassNoise, class_noise, class_scale
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information import MatrixNoise, linear_predictor
from dpstats.privacy.information.exact_sums import cover_with_noise, integer_sums
from dpstats.privacy.information.matrix import substitute_columns
from dpstats.privacy.randomness import RandomSource
from dpstats.solvers import newton
from dpstats.solvers.classes import ClassesObjective
from dpstats.wording import argument

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
    radius: float  # the guessed norm of the coefficients that the default curvature was chosen for
    information: MatrixNoise | None = None  # of the information in the coordinates of `class_basis`, if it is bought
    cover_eps: float = 0.0  # for its floating point
    eta_error: float = 0.0  # how far predictors at released coefficients may be from those at the exact optimum

    def release(self, rows: Rows[Block], random: RandomSource) -> ReleasedClasses:
        """Read the rows once charged."""
        curvature = np.tile(self.curvature, self.classes)
        noise = self.noise.sample(random).T.ravel()
        objective = ClassesObjective(Multinomial(self.classes), rows, curvature, noise, self.row_length)
        optimum = self.final.release(newton.optimum(objective, self.tolerance), random).reshape(self.classes, -1)
        # The exact optimum has this sum; what the last step's noise adds to it is taken off.
        params = optimum - optimum.mean(axis=0)
        clamped = np.any(np.abs(optimum) >= 0.99 * LATTICE_LIMIT * self.final.step)
        if self.information is None or clamped or np.linalg.norm(params) * self.row_length > FARTHEST:
            return ReleasedClasses(params, None)
        total = rows.total_of_pieces(partial(information_sums, self.information, params), operator.add)
        (released,) = cover_with_noise(
            [total], self.information, weight_bound=PART_WEIGHT, cover_eps=self.cover_eps, random=random
        )
        return ReleasedClasses(params, released)

    @property
    def cost(self) -> float:
        """eps of a row."""
        return self.eps + self.final.eps + self.cover_eps

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
            "information": None if self.information is None else self.information.to_dict(),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ClassesStage:
        """The stage whose `to_dict` gave `stored`."""
        return cls(
            **{name: stored[name] for name in _PLAIN},
            curvature=np.asarray(stored["curvature"], dtype=np.float64),
            noise=ClassNoise.from_dict(stored["noise"]),
            final=LatticeRelease(**stored["final"]),
            information=None if stored["information"] is None else MatrixNoise.from_dict(stored["information"]),
        )


_PLAIN = (
    *("classes", "eps", "adjacency", "shared", "kappa", "row_length", "rows_at_most", "tolerance", "radius"),
    *("cover_eps", "eta_error"),
)


class ReleasedClasses(NamedTuple):
    """Coefficients in model units, shape (K, p), of sum zero over the classes, and the information if it was bought.

    That has shape ((K - 1) p, (K - 1) p), in the coordinates of `class_basis`: those of a column one after the other.
    """

    params: Matrix
    information: Matrix | None


def plan_classes(
    design: Bounds, classes: int, budget: NoiseBudget, information_share: float | None = None
) -> ClassesStage:
    """Choose curvature and noise from public facts only, the curvature by the least bound on the risk.

    Of `budget.eps` a share may buy the information, and what covers its floating point. ArgumentError if the curvature
    asked for is too small for eps, or predictors could overflow.
    """
    family, size = Multinomial(classes), len(design.names)
    unit = class_noise(design.images, size, classes)
    matrix, cover = None, 0.0
    if information_share is not None:
        cover = COVER * budget.eps
        # At the extreme gradient what is left of the trace costs so much.
        rows = 2 if budget.adjacency == "replace_one" else 1
        scale_of = rows * (classes - 2) / (classes - 1) / (information_share * budget.eps)
        diagonal, mixing = matrix_metric(design)
        matrix = MatrixNoise(
            "wishart",
            scale_of,
            tuple(np.repeat(diagonal, classes - 1).tolist()),
            tuple(map(tuple, np.kron(mixing, np.eye(classes - 1)).tolist())) if mixing else (),
        )

    @cache
    def scale(kappa: float, error: float = 0.0) -> float:
        bought = {} if matrix is None else {"matrix_scale": matrix.scale, "eta_error": error}
        common: dict[str, Any] = {"adjacency": budget.adjacency, "shared": budget.shared, **bought}
        return class_scale(classes, eps=budget.eps - cover, kappa=kappa, **common)

    sizes = coefficient_sizes(design, family, budget.radius)
    guess = float(np.linalg.norm(sizes))
    if budget.curvature is not None:
        curvature = np.full(size, budget.curvature)
    else:
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
        if matrix is not None:
            # What is paid for is the interval: less noise, for the shrinkage will be undone.
            curvature = PAID_ROOM * curvature
    kappa = design.curvature_ratio(curvature)
    noise_scale = scale(kappa)
    if not np.isfinite(noise_scale):
        needed = design.curvature_ratio(np.ones(size)) * (classes - 2) / (classes - 1)
        raise ArgumentError(
            f"curvature is too small for eps = {budget.eps:.3g}: pass more than about "
            f"{2 * needed / budget.eps:.4g}, or raise eps"
        )
    row_length = float(np.sqrt(design.curvature_ratio(np.ones(size))))

    def last_step(scale: float) -> tuple[float, LatticeRelease]:
        rms = scale * float(np.sqrt(np.sum(unit.variances)))
        step = LastStep(family, rms, row_length, np.tile(curvature, classes), budget.rows_at_most)
        return step.plan(budget.final_eps)

    error = 0.0
    tolerance, final = last_step(noise_scale)
    if matrix is not None:
        # The error of the last step costs noise, and more noise asks for a coarser last step: with room for that.
        error = AHEAD * eta_error(final, row_length)
        noise_scale = scale(kappa, error)
        tolerance, final = last_step(min(noise_scale, HOPELESS))
        if not eta_error(final, row_length) <= error:
            raise ArgumentError(
                "inference costs too much together with a last step for so many rows: lower rows_at_most, raise "
                f"curvature or release_share, or pass {argument('inference', None)}"
            )
    noise = unit.scaled(noise_scale)
    final.check()
    return ClassesStage(
        classes=classes,
        eps=budget.eps - cover,
        adjacency=budget.adjacency,
        shared=budget.shared,
        curvature=curvature,
        kappa=kappa,
        row_length=row_length,
        rows_at_most=budget.rows_at_most,
        noise=noise,
        tolerance=tolerance,
        final=final,
        radius=guess,
        information=matrix,
        cover_eps=cover,
        eta_error=error,
    )


AHEAD, HOPELESS = 4.0, 1e9
"""The last step's error is paid for so many times over; a scale that no last step suits."""

LARGER = 2.0
"""Settled by simulation: `python -m benchmarks.models.multinomial radius`."""

NO_JACOBIAN = 1e-9
"""A curvature ratio at which the Jacobian costs nothing."""


def coefficient_sizes(design: Bounds, family: Multinomial, radius: float | None) -> Vector:
    """A guess at the norm over the classes of each column's coefficients in model units, shape (p,).

    `LARGER` times that of a logit's coefficient for each of K - 1 contrasts, which lie so far from their mean; `radius`
    is the norm of all of them.
    """
    sizes = LARGER * typical_sizes(family, design, None) * math.sqrt((family.classes - 1) / 2)
    return sizes if radius is None else sizes * (radius / float(np.linalg.norm(sizes)))


def class_basis(classes: int) -> Matrix:
    """Orthonormal columns, shape (K, K - 1), of the vectors of sum zero."""
    basis = np.array([[1.0] * k + [-float(k)] + [0.0] * (classes - k - 1) for k in range(1, classes)]).T
    return np.asarray(basis / np.linalg.norm(basis, axis=0), dtype=np.float64)


PART_WEIGHT = 2.0
"""The information of a row is that of K vectors x (x) (e_k - pi) / sqrt 2 of weights 2 pi_k: none is longer than 1."""


def information_sums(noise: MatrixNoise, params: Matrix, blocks: Iterable[Block]) -> NDArray[np.object_]:
    """The exact sum of w x x' (x) Q over some rows, in the coordinates that `noise` is the same in, as integers.

    Each row's part is a function of that row alone, to the last bit.
    """
    classes, basis = len(params), class_basis(len(params))
    diagonal = np.array(noise.diagonal)[:: classes - 1]
    mixing = tuple(row[:: classes - 1] for row in noise.mixing[:: classes - 1])

    def parts() -> Iterator[tuple[Matrix, tuple[Vector, ...]]]:
        for block in pieces_by_columns(0, blocks):
            shares = _shares(params, block.exog)
            columns = substitute_columns(np.array(block.exog.T, order="C"), mixing)
            columns /= np.sqrt(diagonal)[:, None]
            length = np.zeros(columns.shape[1])
            for column in columns:
                length += column * column
            columns /= np.maximum(1.0, np.sqrt(length))
            for place, share in enumerate(shares):
                # B'(e_k - pi), one coordinate after the other.
                moved = [
                    sum((b * ((k == place) - one) for k, (b, one) in enumerate(zip(c, shares, strict=True))), 0.0)
                    for c in basis.T
                ]
                vectors = np.stack([column * one for column in columns for one in moved]) / math.sqrt(2)
                weights = PART_WEIGHT * share if block.weights is None else PART_WEIGHT * share * block.weights
                yield vectors, (weights,)

    return integer_sums(parts(), np.ones(noise.size), (PART_WEIGHT,))[0]


def _shares(params: Matrix, exog: Matrix) -> list[Vector]:
    """The probabilities of each class, shapes (rows,)."""
    eta = [linear_predictor(exog, one) for one in params]
    top = eta[0]
    for one in eta[1:]:
        top = np.maximum(top, one)
    raised = [np.exp(pad_rows(one - top))[: len(top)] for one in eta]
    total = raised[0]
    for one in raised[1:]:
        total = total + one
    return [np.asarray(one / total, dtype=np.float64) for one in raised]


@dataclass(frozen=True, eq=False)
class ClassesLaw:
    """The law of the objective's noise in the coordinates of `class_basis`, those of a column one after the other."""

    noise: ClassNoise

    @property
    def normal(self) -> bool:
        """False."""
        return False

    @property
    def covariance(self) -> Matrix:
        """E b b'."""
        return np.asarray(np.kron(self.noise.covariance, np.eye(self.noise.classes - 1)), dtype=np.float64)

    def draws(self, count: int, random: np.random.Generator) -> Matrix:
        """Independent draws, shape (count, (K - 1) p)."""
        return (self.noise.draws(count, random) @ class_basis(self.noise.classes)).reshape(count, -1)

    @cached_property
    def seeded(self) -> Matrix:
        """The same draws each time."""
        return self.draws(DRAWS, np.random.default_rng(SEED))


MOST_FORMS = 400
"""What the design knows of the information is used as long as there is no more of it: the work goes with its cube."""


def known_forms(design: Bounds, classes: int) -> Matrix:
    """Symmetric C with tr(C x x' (x) Q) = 0 for every row and all probabilities, shape (r, (K - 1) p, (K - 1) p)."""
    size, others = len(design.names), classes - 1
    pairs = [(one, two) for one in range(others) for two in range(one, others)]
    forms = []
    for form in design.forms():
        for one, two in pairs:
            unit = np.zeros((others, others))
            unit[one, two] = unit[two, one] = 1.0
            forms.append(np.kron(form, unit))
    for row in range(size):
        for column in range(row):
            for one, two in pairs:
                if one != two:
                    # Entries (j, c; l, d) and (j, d; l, c) are the same sum of x_j x_l Q_cd.
                    inner, turned = np.zeros((size, size)), np.zeros((others, others))
                    inner[row, column], turned[one, two], turned[two, one] = 1.0, 1.0, -1.0
                    form = np.kron(inner, turned)
                    forms.append(form + form.T)
    if len(forms) > MOST_FORMS:
        return np.zeros((0, size * others, size * others))
    return np.array(forms).reshape(-1, size * others, size * others)


def classes_law(stage: ClassesStage) -> SpanNoise:
    """The law of the noise in a released information."""
    assert stage.information is not None
    return SpanNoise(stage.information.metric, stage.information.entry_variance)


def classes_inference(
    stage: ClassesStage,
    design: Bounds,
    released: ReleasedClasses,
    known_in: Callable[[Matrix], KnownInformation] | None = None,
    noise: ClassesLaw | None = None,
) -> Inference:
    """Coefficients against the first class in the user's units, class by class, with their errors (theorem 3).

    Within they are measured from the class that leaves most of them identified: a rare one would tell little of all.
    `known_in` is what is known of the released information in coordinates T, and `noise` the law of the coefficients'
    noise, if at hand.
    """
    classes = stage.classes
    assert released.information is not None
    if known_in is None:
        constants = constant_places(design, classes - 1)
        whole = KnownInformation.of(
            released.information, classes_law(stage), known_forms(design, classes), (), constants
        )
        known_in = whole.turned
    basis, curvature = class_basis(classes), np.diag(np.repeat(stage.curvature, classes - 1))
    noise, inferences = noise or ClassesLaw(stage.noise), list[Inference]()
    for base in range(classes):
        inner = np.delete(basis, base, axis=0).T
        turned = np.asarray(np.kron(np.eye(len(design.names)), inner), dtype=np.float64)
        known = known_in(turned)
        estimates = Estimates(
            coef=(np.delete(released.params, base, axis=0) - released.params[base]).T.ravel(),
            information=known.matrix,
            curvature=self_adjoint(turned.T @ curvature @ turned),
            linear=MappedLinear(noise, turned),
            matrix=known.law,
            spread=ModelSpread(1.0),
            typical_size=stage.radius / math.sqrt(len(turned)),
            found=known.identified,
        )
        # A class less the first, in units of classes less the base: exactly -1, 0 or 1.
        units = np.insert(np.eye(classes - 1), base, 0.0, axis=0)
        rows = np.vstack([np.kron(design.back_transform()[0], one) for one in units[1:] - units[0]])
        inferences.append(Inference(estimates, rows))
    return max(inferences, key=lambda one: int(np.sum(one.identified)))

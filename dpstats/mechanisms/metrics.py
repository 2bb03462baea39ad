"""The laws that an objective's noise may follow, from the design and the budget alone (docs/proofs/noise, bodies)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.mechanisms.design import NORM_NAMES, Bounds, NormName
from dpstats.mechanisms.information import InformationPurchase
from dpstats.mechanisms.release import ROWS_AT_MOST
from dpstats.privacy.bodies import ROUNDED, BodyNoise, body_noise
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.noise import Kind, Noise

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Purchase:
    """What one release may cost, and how its noise and curvature are to be chosen.

    Attributes
    ----------
    eps, delta : float
        For the noise in the objective; delta > 0 permits Gaussian noise.
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
    kind : {"laplace", "gaussian"}, optional
        The noise to insist on; by default whichever costs less risk.
    norm : {"l1", "l2", "linf", "design"}, optional
        The norm of the noise to insist on.
    rows_at_most : float
        The greatest number of rows to be certified.
    information : InformationPurchase, optional
        What is spent on inference besides `eps`, which then pays for fit and information matrix together.
    shared : bool
        Whether a record is a person's rows, which share a weight of 1 (docs/proofs/persons), or one row.
    """

    eps: float
    delta: float
    final_eps: float
    adjacency: Adjacency
    retrieval: Literal["recycle", "return"] | None = "recycle"
    curvature: float | None = None
    radius: float | None = None
    kind: Kind | None = None
    norm: NormName | Literal["design"] | None = None
    rows_at_most: float = ROWS_AT_MOST
    information: InformationPurchase | None = None
    shared: bool = False

    @property
    def whole(self) -> Purchase:
        """The same without inference, what that would cost spent on the fit."""
        beside = 0.0 if self.information is None else self.information.beside
        return replace(self, eps=self.eps + beside, information=None)


@dataclass(frozen=True, eq=False)
class Metric:
    """A law of the objective's linear term, up to its scale.

    Attributes
    ----------
    kind : {"laplace", "gaussian"}
    delta : float
        What it spends of the budget's delta: 0 for Laplace noise.
    row_norm : float
        The largest norm of a row.
    shape : ndarray, shape (p,)
        Public weights a of a law that is the same in all columns but for them; ones for noise cut to the design.
    unit : Noise or BodyNoise
        The law at scale 1, before it is divided by `shape`.
    """

    kind: Kind
    delta: float
    row_norm: float
    shape: Vector
    unit: Noise | BodyNoise

    @cached_property
    def variances(self) -> Vector:
        """Variances of the linear term at scale 1, shape (p,)."""
        if isinstance(self.unit, BodyNoise):
            return self.unit.standard_deviations() ** 2
        return self.unit.expected_square(len(self.shape)) / len(self.shape) / self.shape**2

    def noise(self, scale: float) -> Noise | BodyNoise:
        """The law at a scale."""
        return self.unit.scaled(scale)


def metrics(design: Bounds, purchase: Purchase) -> Iterator[Metric]:
    """The laws that the budget permits and the design bounds."""
    if purchase.kind != "gaussian":
        yield from _laplace(design, purchase.norm)
    if purchase.delta > 0 and purchase.kind != "laplace":
        yield from _by_norm(design, "l2", "gaussian", purchase.delta)


def design_norms(design: Bounds) -> tuple[Literal["design"], ...]:
    """The norm cut to the design, where its rows have bodies."""
    return ("design",) if design.images else ()


def _laplace(design: Bounds, norm: NormName | Literal["design"] | None) -> Iterator[Metric]:
    # A formula's own bodies leave nothing to gain for a norm of the whole row.
    for name in (design_norms(design) or NORM_NAMES) if norm is None else (norm,):
        if name != "design":
            yield from _by_norm(design, name, "laplace", 0.0)
        elif design.images:
            yield Metric("laplace", 0.0, ROUNDED, np.ones(len(design.names)), body_noise(design.images))


def _by_norm(design: Bounds, norm: NormName, kind: Kind, delta: float) -> Iterator[Metric]:
    shape = noise_shape(design, norm)
    row_norm = design.norm_bound(norm, shape)
    if np.isfinite(row_norm):
        yield Metric(kind, delta, row_norm, shape, Noise(kind, norm, 1.0))


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

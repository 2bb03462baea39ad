"""A released information matrix after what is known of every such matrix, in the basis that suits it
(docs/proofs/inference, 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpstats.arguments import safe_repr
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.inference.inverse import Identified, identify
from dpstats.inference.noise_laws import LinearLaw, MatrixLaw, check_symmetric

Float = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Dummies:
    """The treatment coding of one factor beside an intercept."""

    base: int  # the intercept's column
    constant: float  # its value in every row
    columns: tuple[int, ...]  # one for each level but the reference
    codes: tuple[float, ...]  # the one value of each column that is not zero

    def weights(self, information: Float) -> Float:
        """The released weight of each level, the reference first."""
        levels = np.diag(information)[list(self.columns)] / np.array(self.codes) ** 2
        whole = information[self.base, self.base] / self.constant**2
        return np.concatenate(([whole - levels.sum()], levels))


def reference_levels(information: Float, factors: Sequence[Dummies]) -> Float:
    """T, shape (p, p): coefficients are T times those that measure each factor from its level of largest weight."""
    transform = np.eye(len(information))
    for factor in factors:
        level = int(np.argmax(factor.weights(information))) - 1
        if level < 0:
            continue
        chosen, code = factor.columns[level], factor.codes[level]
        step = np.eye(len(information))
        # The chosen column now stands for the old reference.
        step[chosen, chosen] = -1.0
        step[factor.base, chosen] = code / factor.constant
        for column, other in zip(factor.columns, factor.codes, strict=True):
            if column != chosen:
                step[column, chosen] = -code / other
        transform = transform @ step
    return transform


@dataclass(frozen=True, eq=False)
class MappedMatrix:
    """The law of T'ET for noise E of a law and a public T."""

    law: MatrixLaw
    transform: Float  # T, shape (p, k)

    @property
    def size(self) -> int:
        """The number of columns k."""
        return int(self.transform.shape[1])

    def square(self, matrix: Float) -> Float:
        """S(A) = E[E A E], shape (k, k)."""
        inner = self.law.square(self.transform @ matrix @ self.transform.T)
        return self.transform.T @ inner @ self.transform

    def images(self, vector: Float) -> Float:
        """S(e_j m') for each unit vector e_j, shape (k, k, k)."""
        inner = np.tensordot(self.transform, self.law.images(self.transform @ vector), axes=(0, 0))
        return self.transform.T @ inner @ self.transform

    def bilinear(self, left: Float, right: Float) -> Float:
        """Var(g'E m) for the rows g, m of `left` and `right`, shape (rows, k)."""
        return self.law.bilinear(left @ self.transform.T, right @ self.transform.T)

    def restrict(self, kept: Indices) -> MappedMatrix:
        """The law of E's rows and columns `kept`."""
        return MappedMatrix(self.law, self.transform[:, kept])


@dataclass(frozen=True, eq=False)
class MappedLinear:
    """The law of T'b for b of a law and a public T."""

    law: LinearLaw
    transform: Float  # T, shape (p, k)

    @property
    def normal(self) -> bool:
        """Whether b is normal."""
        return self.law.normal

    @property
    def covariance(self) -> Float:
        """E T'b b'T, shape (k, k)."""
        return self.transform.T @ self.law.covariance @ self.transform

    def draws(self, count: int, random: np.random.Generator) -> Float:
        """Independent draws, shape (count, k)."""
        return self.law.draws(count, random) @ self.transform

    @property
    def seeded(self) -> Float:
        """The same draws each time, shape (DRAWS, k): of one b for all T."""
        return self.law.seeded @ self.transform


KNOWN = 1e-12
"""Of a combination that is left so small a share of its variance, the rest is rounding: the combination is known."""

RANK = 1e-9
"""Forms that depend on others up to this share of their size are left out."""


def metric_images(metric: Float, vector: Float) -> Float:
    """tr(e_j m' D) D + D m e_j' D for each unit vector e_j, shape (p, p, p)."""
    moved = metric @ vector
    return moved[:, None, None] * metric + moved[None, :, None] * metric[:, None, :]


@dataclass(frozen=True, eq=False)
class SpanNoise:
    """Noise E = R U R' with R R' = D: U symmetric, its entries uncorrelated, of variance v, 2 v on the diagonal."""

    metric: Float  # D, shape (p, p), positive definite, such as MatrixNoise.metric
    variance: float  # v, such as MatrixNoise.entry_variance
    removed: Float | None = None  # E[F_ij F_kl] of the part F taken off, shape (p, p, p, p); see project_forms

    def __post_init__(self) -> None:
        size = len(self.metric)
        check_symmetric("metric", self.metric, size)
        if not (np.isfinite(self.variance) and self.variance > 0):
            raise ArgumentError(f"variance must be finite and positive, got {safe_repr(self.variance)}")
        if self.removed is not None and self.removed.shape != (size,) * 4:
            raise ArgumentError("removed must have four axes as long as the metric")

    @property
    def size(self) -> int:
        """The number of rows p."""
        return len(self.metric)

    def square(self, matrix: Float) -> Float:
        """S(A) = E[E A E], shape (p, p)."""
        size, metric = self.size, self.metric
        whole = self.variance * (float(np.sum(matrix * metric)) * metric + metric @ matrix.T @ metric)
        if self.removed is None:
            return whole
        off = self.removed.reshape(size**2, size**2) @ matrix.ravel()
        return np.asarray(whole - off.reshape(size, size), dtype=np.float64)

    def images(self, vector: Float) -> Float:
        """S(e_j m') for each unit vector e_j, shape (p, p, p)."""
        whole = self.variance * metric_images(self.metric, vector)
        return whole if self.removed is None else whole - (self.removed @ vector).transpose(2, 0, 1)

    def bilinear(self, left: Float, right: Float) -> Float:
        """Var(g'E m) for the rows g, m of `left` and `right`, shape (k, p)."""
        inner = left @ self.metric
        own = np.sum(inner * left, axis=1) * np.sum(right @ self.metric * right, axis=1)
        whole = self.variance * (own + np.sum(inner * right, axis=1) ** 2)
        if self.removed is None:
            return np.asarray(whole, dtype=np.float64)
        # Axes 1 and 2 are kept apart in `removed`: g_i A_jk m_l with A = m g'.
        middle = np.einsum("ni,nj->nij", right, left).reshape(len(left), self.size**2)
        moved = middle @ self.removed.reshape(self.size**2, self.size**2)
        moved = moved.reshape(len(left), self.size, self.size)
        rest = np.asarray(whole - np.einsum("ni,nij,nj->n", left, moved, right), dtype=np.float64)
        return np.where(rest > KNOWN * whole, rest, 0.0)

    def restrict(self, kept: Indices) -> SpanNoise:
        """The law of E's rows and columns `kept`."""
        removed = None if self.removed is None else self.removed[np.ix_(kept, kept, kept, kept)]
        return SpanNoise(self.metric[np.ix_(kept, kept)], self.variance, removed)


def project_forms(matrix: Float, law: SpanNoise, forms: Float) -> tuple[Float, SpanNoise]:
    """A released matrix and its noise after the forms that vanish on every row: the nearest matrix with tr(C H) = 0.

    Of the symmetric C, shape (q, p, p), each has x'C x = 0 in every row. Near is in the metric of the noise, of which
    nothing has been removed; no unbiased linear estimate has less noise.
    """
    projection = Projection.of(law, forms)
    return projection.clean(matrix), projection.law


@dataclass(frozen=True, eq=False)
class Projection:
    """How matrices with noise of one law become those on which forms vanish; see `project_forms`."""

    whole: SpanNoise  # the law of the noise, of which nothing has been removed
    basis: Float  # an orthonormal basis of the forms in the metric of the noise, shape (q, p, p)
    directions: Float  # what of it a matrix has is taken off along these, shape (q, p, p)
    root: Float  # of the metric, shape (p, p)

    @classmethod
    def of(cls, law: SpanNoise, forms: Float) -> Projection:
        """For noise of a law, of which nothing has been removed, and forms, shape (q, p, p)."""
        if law.removed is not None:
            raise ArgumentError("law has forms removed already")
        if forms.shape[1:] != law.metric.shape or not np.all(np.isfinite(forms)):
            raise ArgumentError("forms must be finite and have a row and a column for each of the matrix's")
        root: Float = np.asarray(np.linalg.cholesky(law.metric), dtype=np.float64)
        if not len(forms):
            return cls(law, forms, forms, root)
        basis = _orthonormal(root.T @ forms @ root)
        return cls(law, basis, root @ basis @ root.T, root)

    @cached_property
    def law(self) -> SpanNoise:
        """Of the noise that is left."""
        if not len(self.basis):
            return self.whole
        flat = self.directions.reshape(len(self.directions), -1)
        products = (flat.T @ flat).reshape((self.whole.size,) * 4)
        # E[F A F]_il is the sum over j, k of E[F_ij F_kl] A_jk: on A its rows are (i, l), its columns (j, k).
        removed = 2 * self.whole.variance * products.transpose(0, 3, 1, 2)
        return SpanNoise(self.whole.metric, self.whole.variance, np.ascontiguousarray(removed))

    def clean(self, matrix: Float) -> Float:
        """The matrix without its part in the forms, shape (p, p)."""
        matrix = check_symmetric("matrix", matrix, self.whole.size)
        if not len(self.basis):
            return matrix
        left = linalg.solve_triangular(self.root, matrix, lower=True)
        whitened = linalg.solve_triangular(self.root, left.T, lower=True)
        clean = matrix - np.tensordot(np.tensordot(self.basis, whitened, axes=2), self.directions, axes=1)
        return (clean + clean.T) / 2


def _orthonormal(forms: Float) -> Float:
    """An orthonormal basis of symmetric matrices, shape (rank, p, p)."""
    flat = forms.reshape(len(forms), -1)
    _, values, basis = np.linalg.svd(flat / np.linalg.norm(flat, axis=1, keepdims=True), full_matrices=False)
    kept = basis[values > RANK * values[0]].reshape(-1, *forms.shape[1:])
    return np.asarray((kept + kept.transpose(0, 2, 1)) / 2, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class KnownInformation:
    """The information of coefficients theta' with theta = T theta'."""

    basis: Float  # T, shape (p, p): each factor is measured from its commonest level
    matrix: Float  # T'HT, shape (p, p), projected on what the design knows
    law: MatrixLaw  # of its noise
    found: Identified | None = None  # what is identified, if that is at hand
    constants: Sequence[int] = ()  # of each equation the column that has the same value in every row

    @classmethod
    def of(
        cls, released: Float, noise: SpanNoise, forms: Float, factors: Sequence[Dummies], constants: Sequence[int] = ()
    ) -> KnownInformation:
        """From the released matrix, its noise, the forms that vanish in every row, the factors and the constants."""
        projection = Projection.of(noise, forms)
        matrix = projection.clean(released)
        basis = reference_levels(matrix, factors)
        information, law = self_adjoint(basis.T @ matrix @ basis), MappedMatrix(projection.law, basis)
        return cls(basis, information, law, constants=constants)

    def turned(self, transform: Float) -> KnownInformation:
        """The same in coordinates theta'' with theta' = S theta'', in which the constants are where they were."""
        matrix = self_adjoint(transform.T @ self.matrix @ transform)
        law = MappedMatrix(self.law, transform)
        return KnownInformation(self.basis @ transform, matrix, law, constants=self.constants)

    @cached_property
    def identified(self) -> Identified:
        """The coefficients theta' that the budget identifies."""
        return identify(self.matrix, self.law, constants=self.constants) if self.found is None else self.found

    @property
    def inverse(self) -> Float:
        """T G'T', shape (p, p): the inverse among what is identified, for coefficients theta."""
        active = np.flatnonzero(self.identified.active)
        columns = self.basis[:, active]
        return self_adjoint(columns @ self.identified.inverse @ columns.T)

    def inside(self, contrasts: Float) -> NDArray[np.bool_]:
        """Which combinations of theta, the rows of `contrasts`, are identified."""
        rows = contrasts @ self.basis
        active = self.identified.active
        return np.asarray(~np.any(rows[:, ~active] != 0, axis=1) & np.any(rows[:, active] != 0, axis=1))


def self_adjoint(matrix: Float) -> Float:
    """The symmetric part of a matrix that rounding alone keeps from being symmetric."""
    return (matrix + matrix.T) / 2

"""The collector's part: from reports, or their sum, to a model. All of it is post-processing (docs/proofs/local, 4)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import check_choice, check_flag, check_type
from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.formula.design import DesignSpec
from dpstats.inference import SpanNoise, project_forms
from dpstats.inference.basis import self_adjoint
from dpstats.local.compile import local_design
from dpstats.local.contributor import Report
from dpstats.local.linearised import LinearisedLogistic
from dpstats.local.results import LocalResults
from dpstats.local.spec import Spec
from dpstats.local.transport import Total, checked_batches, total
from dpstats.penalties import Penalty
from dpstats.penalties import penalty as named_penalty
from dpstats.privacy.calibration import check_positive
from dpstats.quiet import quiet
from dpstats.solvers.linear_algebra import minimize_quadratic

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Features = Literal["debiased", "printed"]
Reports = Total | str | Path | Iterable[Report]

TOLERANCE = 1e-12

LEAN = 0.7
"""The ridge of a logistic fit, in units of the rule's; settled by `python -m benchmarks.defaults.local`."""


@dataclass(frozen=True, eq=False)
class ReportMoments:
    """What the reports say of sum q q' and sum p, and how far off it is."""

    matrix: Matrix  # (p, p)
    vector: Vector  # (p,)
    matrix_noise: float  # Variance of the noise in an entry off the diagonal; on it twice as much
    vector_noise: float  # Variance of the noise in an entry of `vector`
    count: int  # The number of reports


def fit(
    reports: Reports,
    spec: Spec,
    *,
    penalty: Penalty | str | None = None,
    alpha: float | None = None,
    curvature: float | None = None,
    features: Features = "debiased",
    allow_uncertified: bool = False,
) -> LocalResults:
    """Fit the model of `spec` to reports.

    Parameters
    ----------
    reports : iterable of Report, path, or Total
        A path ends in ``.jsonl`` or ``.parquet``. A Total is enough in scheme "statistics": whoever gets no more than
        that from a secure sum sees what has the central guarantee only.
    spec : Spec
    penalty : Penalty or str, optional
        Convex, on the sum of the losses and the coefficients in model units; the intercept is free of it.
    alpha : float, optional
        The strength of a penalty given by name.
    curvature : float, optional
        Of the ridge that steadies the solution against the noise. By default from the noise and `spec.radius`.
    features : {"debiased", "printed"}
        For scheme "features": the noise's own second moment is taken off the matrix, or stays as in the paper.
    allow_uncertified : bool
        Scheme "features" with a central eps needs it: that guarantee is unproven, and the summary says so.

    Returns
    -------
    LocalResults

    Raises
    ------
    ArgumentError
        If there are fewer reports than `spec.n`, one answers another specification, or an option is unusable.
    DataError
        If reports cannot be read.
    UncertifiedError
        For scheme "features" with a central eps, without `allow_uncertified`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> spec = dp.local.Spec({"x": (0, 1), "y": (0, 1)}, "y ~ x", eps=8.0, delta=1e-6, n=500)
    >>> people = [{"x": x, "y": x / 2} for x in np.linspace(0, 1, 500)]
    >>> fit = dp.local.fit([dp.local.randomize(person, spec) for person in people], spec)
    >>> list(fit.params.index)
    ['Intercept', 'x']
    """
    check_type("spec", spec, Spec, "a dp.local.Spec")
    allow_uncertified = check_flag("allow_uncertified", allow_uncertified)
    convex = _checked_penalty(named_penalty(penalty, alpha), curvature, features)
    if not (spec.central_guarantee().certified or allow_uncertified):
        raise UncertifiedError(
            "scheme='features' has no proof of a central guarantee: give the specification local_eps instead of eps, "
            "or pass allow_uncertified=True"
        )
    moments = _feature_moments(reports, spec, features) if spec.scheme == "features" else _moments(reports, spec)
    if moments.count < spec.n:
        raise ArgumentError(
            f"reports must be at least the n = {spec.n} that spec promises, got {moments.count}: with fewer, the noise "
            "of all of them is less than the guarantee needs"
        )
    design = local_design(spec.formula, spec.domain, spec.family)
    moments = _projected(moments, design)
    # What replicates the paper is its ridge and its approximation.
    plain = spec.scheme == "features" and features == "printed"
    lean = LEAN if spec.family == "binomial" and not plain else 1.0
    ridge = lean * _curvature(moments, spec.radius) if curvature is None else float(curvature)
    with quiet():
        gram, steady = _steadied(moments, ridge, plain)
        logistic = None if plain or spec.family != "binomial" else _linearised(moments, gram, steady, design)
        solve = _quadratic if logistic is None else partial(_logistic, logistic)
        scaled, noise = solve(moments, gram + steady, convex, _penalty_weights(design))
    return LocalResults(spec, design, scaled, noise, moments.count, ridge, convex, features)


def _moments(reports: Reports, spec: Spec) -> ReportMoments:
    """The sums themselves, scheme "statistics"."""
    found = total(reports, spec)
    p, (gradient, unit) = len(spec.names), spec.units
    matrix = np.zeros((p, p))
    rows, columns = np.triu_indices(p)
    matrix[rows, columns] = found.values[p:] * unit / np.where(rows == columns, 1.0, math.sqrt(2))
    share = found.count / spec.n
    return ReportMoments(
        np.asarray(matrix + np.triu(matrix, 1).T, dtype=np.float64),
        np.asarray(found.values[:p] * gradient, dtype=np.float64),
        matrix_noise=share * spec.tau**2 / 2,
        vector_noise=share * spec.sigma_b**2,
        count=found.count,
    )


def _feature_moments(reports: Reports, spec: Spec, features: Features) -> ReportMoments:
    """Sums of products of noisy features, scheme "features"."""
    if isinstance(reports, Total):
        raise ArgumentError("reports of scheme='features' are needed one by one: their products are added, not they")
    p, (gradient, unit) = len(spec.names), spec.units
    matrix, vector, count = np.zeros((p, p)), np.zeros(p), 0
    for values in checked_batches(reports, spec):
        q = values[:, p:] * unit
        matrix, vector, count = matrix + q.T @ q, vector + values[:, :p].sum(axis=0) * gradient, count + len(values)
    share, own = count / spec.n, spec.sigma_u**2 / spec.n
    debiased: Matrix = matrix - share * spec.sigma_u**2 * np.eye(p)
    # Cross products q u' + u q' and u u', the latter twice on the diagonal; the trace of sum q q' is known with noise.
    signal = max(float(np.trace(debiased)) / p, 0.0)
    return ReportMoments(
        matrix if features == "printed" else debiased,
        vector,
        matrix_noise=2 * own * signal + count * own**2,
        vector_noise=share * spec.sigma_b**2,
        count=count,
    )


def _projected(moments: ReportMoments, design: DesignSpec) -> ReportMoments:
    """With what the coding knows of every sum of w x x': dummies that exclude each other, or are their own squares."""
    forms = design.forms()
    law = SpanNoise(np.eye(len(moments.vector), dtype=np.float64), moments.matrix_noise)
    matrix, _ = project_forms(moments.matrix, law, forms)
    return ReportMoments(matrix, moments.vector, moments.matrix_noise, moments.vector_noise, moments.count)


def _gradient_noise(moments: ReportMoments, square: float) -> float:
    """E ||noise of the gradient||^2 at coefficients of squared norm `square`."""
    p = len(moments.vector)
    return p * moments.vector_noise + (p + 1) * moments.matrix_noise * square


def _curvature(moments: ReportMoments, radius: float) -> float:
    """The m that is least for E||b||^2/(2 m) + m radius^2/2 (docs/proofs/risk)."""
    return math.sqrt(_gradient_noise(moments, radius**2)) / radius


def _steadied(moments: ReportMoments, ridge: float, plain: bool) -> tuple[Matrix, Matrix]:
    """Sum q q' without negative eigenvalues, which would be noise, and the ridge K that steadies it, shapes (p, p).

    K is m where the sum is nothing and m^2 / l where it is much more, l; `plain`: m everywhere (docs/proofs/local, 4).
    """
    values, vectors = np.linalg.eigh(moments.matrix)
    values = np.maximum(values, 0.0)
    added = np.full_like(values, ridge) if plain else np.sqrt(values**2 / 4 + ridge**2) - values / 2
    return self_adjoint((vectors * values) @ vectors.T), self_adjoint((vectors * added) @ vectors.T)


def _quadratic(
    moments: ReportMoments, hessian: Matrix, penalty: Penalty | None, weights: Vector
) -> tuple[Vector, Matrix]:
    """Coefficients in model units, and the covariance that the noise gives them, to first order."""
    scaled = np.asarray(np.linalg.solve(hessian, moments.vector), dtype=np.float64)
    if penalty is not None:
        gradient = hessian @ scaled - moments.vector
        scaled = minimize_quadratic(hessian, gradient, penalty, weights, scaled, TOLERANCE * _size(moments))
    # Var(E t + e) for symmetric E with independent entries: v (|t|^2 I + t t') + vector_noise I.
    spread = moments.matrix_noise * (scaled @ scaled) + moments.vector_noise
    inverse = np.linalg.inv(hessian)
    along = inverse @ scaled
    return scaled, self_adjoint(spread * inverse @ inverse + moments.matrix_noise * np.outer(along, along))


def _linearised(moments: ReportMoments, gram: Matrix, ridge: Matrix, design: DesignSpec) -> LinearisedLogistic | None:
    """The logistic equation in what the sums say of it; None if they hardly say that there are rows."""
    loss = LinearisedLogistic(4 * gram, moments.vector, ridge, design.images, moments.count)
    at = None if loss.intercept is None else loss.intercept[0]
    return None if at is not None and gram[at, at] <= math.sqrt(2 * moments.matrix_noise) else loss


def _logistic(
    loss: LinearisedLogistic, moments: ReportMoments, _: Matrix, penalty: Penalty | None, weights: Vector
) -> tuple[Vector, Matrix]:
    """As `_quadratic`, of the equation with its best line."""
    scaled = loss.solve(penalty, weights, TOLERANCE * _size(moments))
    # q is x / 2.
    return scaled, loss.covariance(scaled, 16 * moments.matrix_noise, moments.vector_noise)


def _penalty_weights(design: DesignSpec) -> Vector:
    return np.array([0.0 if name == "Intercept" else 1.0 for name in design.names])


def _size(moments: ReportMoments) -> float:
    return max(float(np.linalg.norm(moments.vector)), 1.0)


def _checked_penalty(penalty: Penalty | None, curvature: float | None, features: str) -> Penalty | None:
    if penalty is not None and not penalty.convex:
        raise ArgumentError(f"penalty must be convex, got {penalty}")
    if curvature is not None:
        check_positive("curvature", curvature)
    check_choice("features", features, get_args(Features))
    return penalty

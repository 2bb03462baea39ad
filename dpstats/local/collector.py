"""The collector's part: from reports, or their sum, to a model; post-processing all of it (docs/proofs/local, 4, 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.arguments import check_choice, check_flag, check_type
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.formula.design import DesignSpec
from dpstats.inference import SpanNoise, project_forms
from dpstats.inference.basis import self_adjoint
from dpstats.local.compile import local_design
from dpstats.local.contributor import Report
from dpstats.local.results import LocalResults, ReportMoments
from dpstats.local.spec import BOUNDS, Spec
from dpstats.local.transport import Total, checked_batches, total
from dpstats.mechanisms.design import constant_column
from dpstats.penalties import Penalty
from dpstats.penalties import penalty as named_penalty
from dpstats.plan.row_counts import RowCount
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.k_norm.blocks import Image
from dpstats.quiet import quiet
from dpstats.solvers.linear_algebra import minimize_quadratic

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

Features = Literal["debiased", "printed"]
Reports = Total | str | Path | Iterable[Report]

TOLERANCE = 1e-12
LOGISTIC_RIDGE = 0.7  # Ridge of a logistic fit relative to the rule's; see benchmarks.defaults.local
QUANTILE_LEVELS = (np.arange(400) + 0.5) / 400  # Quantiles at these levels represent the law of x'theta
MOST_ITERATIONS = 1000
LINE_TOLERANCE = 1e-11  # Change of log slope plus change of offset in one iteration
LEAST_SLOPE = 1e-12  # Flatter lines belong to predictors that only noise puts so far out
LEAST_VARIANCE = 1e-9  # Predictors of less variance count as one point
NORMAL_SIZE = 1e6  # A beta law of more pseudo-observations is taken to be normal
TWO_POINT_SIZE = 1e-3  # A beta law of fewer pseudo-observations is two points
STEP = 1e-5  # Relative step of numerical derivatives


class BestLinear(NamedTuple):
    """The linear function of eta that is nearest to expit(eta) - 1/2 in mean square."""

    offset: float
    slope: float


def nearest_line(mean: float, variance: float, low: float, high: float) -> BestLinear:
    """For a beta law on [low, high] with a mean and a variance.

    It is two points where the variance is the greatest possible, uniform where it is that of a uniform law, and nearly
    normal where it is small beside the interval.
    """
    eta = _quantiles(mean, variance, low, high)
    center = float(eta.mean())
    slope = special.expit(eta) - 0.5
    centered = eta - center
    square = float(np.mean(centered * centered))
    if square <= LEAST_VARIANCE:
        bend = float(special.expit(center) * special.expit(-center))
    else:
        bend = float(np.mean(centered * slope)) / square
    bend = max(bend, LEAST_SLOPE)
    return BestLinear(float(slope.mean()) - bend * center, bend)


def _quantiles(mean: float, variance: float, low: float, high: float) -> Vector:
    width = high - low
    if not width**2 > LEAST_VARIANCE:
        return np.full_like(QUANTILE_LEVELS, mean)
    place = min(max((mean - low) / width, 1e-6), 1 - 1e-6)
    total = place * (1 - place) * width**2 / max(variance, 1e-300) - 1
    if total > NORMAL_SIZE:
        return np.asarray(mean + math.sqrt(max(variance, 0.0)) * special.ndtri(QUANTILE_LEVELS))
    total = max(total, TWO_POINT_SIZE)
    return np.asarray(low + width * special.betaincinv(place * total, (1 - place) * total, QUANTILE_LEVELS))


@dataclass(frozen=True, eq=False)
class LinearisedLogistic:
    """The estimating equation of logistic regression, as far as second moments tell it.

    That equation is sum (expit(x'theta) - 1/2) x + K theta = v. With offset a and slope b of the line nearest to
    expit(eta) - 1/2 over the law of x'theta it becomes a sum x + b sum x x' theta + K theta = v: exactly so where the
    mean of x given x'theta is linear in x'theta. Mean and variance of x'theta are those of the sums, its range is that
    of the design, and its law is taken to be a beta law.
    """

    gram: Matrix  # (p, p): about sum x x', positive semidefinite
    vector: Vector  # (p,): v, about sum (y - 1/2) x
    ridge: Matrix  # (p, p): K, positive definite
    images: tuple[Image, ...]  # What rows of the design can be
    # The number of rows where there is no intercept, which tells it and the columns' means; these are then taken to be
    # zero.
    count: float

    @cached_property
    def intercept(self) -> tuple[int, float] | None:
        """The place of the column that is the same in all rows, and its value; None if there is none."""
        for image in self.images:
            if image.block.kind == "intercept" and np.count_nonzero(image.matrix) == 1:
                at = int(np.argmax(np.abs(image.matrix[0])))
                return image.columns[at], float(image.matrix[0, at])
        return None

    @cached_property
    def rows(self) -> float:
        """How many rows there are."""
        if self.intercept is None:
            return self.count
        at, constant = self.intercept
        return float(self.gram[at, at]) / constant**2

    @cached_property
    def sums(self) -> Vector:
        """Sums of the columns, shape (p,)."""
        if self.intercept is None:
            return np.zeros_like(self.vector)
        at, constant = self.intercept
        return np.asarray(self.gram[at] / constant)

    def moments(self, theta: Vector) -> tuple[float, float]:
        """Mean and variance of x'theta."""
        mean = float(self.sums @ theta) / self.rows
        return mean, max(float(theta @ self.gram @ theta) / self.rows - mean**2, 0.0)

    def reach(self, theta: Vector) -> tuple[float, float]:
        """The least and the greatest x'theta that the design has."""
        low, high = 0.0, 0.0
        for image in self.images:
            along, kind = image.matrix @ theta[list(image.columns)], image.block.kind
            if kind == "intercept":
                low, high = low + float(along[0]), high + float(along[0])
            elif kind == "simplex":
                low, high = low + min(float(along.min()), 0.0), high + max(float(along.max()), 0.0)
            else:
                size = float(np.linalg.norm(along, {"box": 1, "cross": np.inf, "ball": 2}[kind]))
                low, high = low - size, high + size
        return low, high

    def line(self, theta: Vector) -> BestLinear:
        """The nearest line over the law of x'theta."""
        return nearest_line(*self.moments(theta), *self.reach(theta))

    def solve(self, penalty: Penalty | None, weights: Vector, tolerance: float) -> Vector:
        """Coefficients for which line and solution agree, shape (p,), with a convex penalty if there is one.

        `tolerance` is of the distance of 0 to the subdifferential, for a given line.
        """
        theta, line = np.zeros_like(self.vector), BestLinear(0.0, 0.25)
        for _ in range(MOST_ITERATIONS):
            hessian, target = line.slope * self.gram + self.ridge, self.vector - line.offset * self.sums
            if penalty is None:
                theta = np.asarray(np.linalg.solve(hessian, target), dtype=np.float64)
            else:
                theta = minimize_quadratic(hessian, hessian @ theta - target, penalty, weights, theta, tolerance)
            nearest = self.line(theta)
            change = abs(nearest.offset - line.offset) + abs(math.log(nearest.slope / line.slope))
            # Half of the way: where predictors are far out the new line overshoots.
            line = BestLinear((nearest.offset + line.offset) / 2, math.sqrt(nearest.slope * line.slope))
            if change < LINE_TOLERANCE:
                break
        return theta

    def covariance(self, theta: Vector, matrix: float, vector: float) -> Matrix:
        """What noise in the sums gives the solution without penalty, to first order, shape (p, p).

        `matrix` and `vector` are variances of the noise in an entry off the diagonal of `gram`, on it twice as much,
        and of `vector`.
        """
        inverse = np.linalg.pinv(self._jacobian(theta))
        noise = self._noise(theta, matrix) + vector * np.eye(len(theta))
        return np.asarray(inverse @ noise @ inverse.T, dtype=np.float64)

    def _jacobian(self, theta: Vector) -> Matrix:
        """The equation's derivative by theta, shape (p, p)."""
        line, size = self.line(theta), max(float(np.linalg.norm(theta)), 1.0)
        derivatives = [
            (np.array(self.line(theta + STEP * size * unit)) - np.array(self.line(theta - STEP * size * unit)))
            / (2 * STEP * size)
            for unit in np.eye(len(theta))
        ]
        offsets, slopes = np.array(derivatives).T
        bent = np.outer(self.gram @ theta, slopes) + np.outer(self.sums, offsets)
        return np.asarray(line.slope * self.gram + self.ridge + bent, dtype=np.float64)

    def _noise(self, theta: Vector, variance: float) -> Matrix:
        """The equation's covariance by noise E in `gram`, shape (p, p): of E a + sum_i u_i b_i'E c_i."""
        direct, scalars = self._differential(theta)
        covariance = variance * ((direct @ direct) * np.eye(len(theta)) + np.outer(direct, direct))
        for u, b, c in scalars:
            mixed = variance * np.outer((direct @ c) * b + (direct @ b) * c, u)
            covariance = covariance + mixed + mixed.T
            for other, d, e in scalars:
                covariance = covariance + variance * ((b @ d) * (c @ e) + (b @ e) * (c @ d)) * np.outer(u, other)
        return np.asarray(covariance, dtype=np.float64)

    def _differential(self, theta: Vector) -> tuple[Vector, list[tuple[Vector, Vector, Vector]]]:
        """a, and the triples (u, b, c), of the equation's differential by `gram`."""
        (mean, variance), reach, n = self.moments(theta), self.reach(theta), self.rows
        line, step = nearest_line(mean, variance, *reach), STEP * max(math.sqrt(variance), STEP)
        by_mean = _slope(lambda by: nearest_line(mean + by, variance, *reach), step)
        by_variance = _slope(lambda by: nearest_line(mean, variance + by, *reach), step * math.sqrt(variance))
        along = np.column_stack([self.sums, self.gram @ theta])
        of_variance = along @ by_variance
        if self.intercept is None:
            return line.slope * theta, [(of_variance / n, theta, theta)]
        at, constant = self.intercept
        unit = np.zeros_like(theta)
        unit[at] = 1.0
        # n d mean = unit'E theta / c - mean dn and n d variance = theta'E theta - (variance + mean^2) dn - 2 n mean
        # d mean, with dn = unit'E unit / c^2.
        of_mean = along @ by_mean - 2 * mean * of_variance
        remainder = mean * of_mean + (variance + mean**2) * of_variance
        return line.slope * theta + line.offset / constant * unit, [
            (of_mean / (constant * n), unit, theta),
            (of_variance / n, theta, theta),
            (-remainder / (constant**2 * n), unit, unit),
        ]


def _slope(line: Callable[[float], BestLinear], step: float) -> Vector:
    """The derivatives of offset and slope, shape (2,)."""
    if step == 0:
        return np.zeros(2)
    return np.asarray((np.array(line(step)) - np.array(line(-step))) / (2 * step), dtype=np.float64)


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
    chosen = named_penalty(penalty, alpha)
    if chosen is not None and not chosen.convex:
        raise ArgumentError(f"penalty must be convex, got {chosen}")
    if curvature is not None:
        check_positive("curvature", curvature)
    check_choice("features", features, get_args(Features))
    if not (spec.central_guarantee().certified or allow_uncertified):
        raise UncertifiedError(
            "scheme='features' has no proof of a central guarantee: give the specification local_eps instead of eps, "
            "or pass allow_uncertified=True"
        )
    moments = _feature_moments(reports, spec, features) if spec.scheme == "features" else _moments(reports, spec)
    if moments.count < spec.n:
        raise ArgumentError(
            f"reports must be at least n = {spec.n}, as spec promises, got {moments.count}: the noise of fewer "
            "reports is less than the guarantee needs"
        )
    design = local_design(spec.formula, spec.domain, spec.family)
    sums_kept = moments if spec.scheme == "statistics" and spec.family == "gaussian" and chosen is None else None
    records = _count_records(moments, spec, design) if spec.scheme == "statistics" else None
    moments = _project_moments(moments, design)
    # What replicates the paper is its ridge and its approximation.
    plain = spec.scheme == "features" and features == "printed"
    lean = LOGISTIC_RIDGE if spec.family == "binomial" and not plain else 1.0
    ridge = lean * _least_risk_ridge(moments, spec.radius) if curvature is None else float(curvature)
    with quiet():
        gram, steady = _regularise(moments, ridge, plain)
        logistic = None if plain or spec.family != "binomial" else _linearise_loss(moments, gram, steady, design)
        weights = np.array([0.0 if name == "Intercept" else 1.0 for name in design.names])
        tolerance = TOLERANCE * max(float(np.linalg.norm(moments.vector)), 1.0)
        if logistic is None:
            scaled, noise = _solve_quadratic(moments, gram + steady, chosen, weights, tolerance)
        else:  # whose q is x / 2
            scaled = logistic.solve(chosen, weights, tolerance)
            noise = logistic.covariance(scaled, 16 * moments.matrix_noise, moments.vector_noise)
    return LocalResults(spec, design, scaled, noise, moments.count, ridge, chosen, features, sums_kept, records)


def _count_records(moments: ReportMoments, spec: Spec, design: DesignSpec) -> RowCount | None:
    """About how many reports are not null, by the intercept's square; None without an intercept (docs/proofs/local, 4).

    Every record with content adds the same to it, and a null report nothing.
    """
    if (known := constant_column(design)) is None:
        return None
    place, constant = known
    unit = BOUNDS[spec.family][1] * constant**2  # q is x, or x / 2
    return RowCount(float(moments.matrix[place, place]) / unit, math.sqrt(2 * moments.matrix_noise) / unit)


def _moments(reports: Reports, spec: Spec) -> ReportMoments:
    """The released sums of scheme "statistics"."""
    sums = total(reports, spec)
    p, (gradient, unit) = len(spec.names), spec.units
    matrix = np.zeros((p, p))
    rows, columns = np.triu_indices(p)
    matrix[rows, columns] = sums.values[p:] * unit / np.where(rows == columns, 1.0, math.sqrt(2))
    share = sums.count / spec.n
    return ReportMoments(
        np.asarray(matrix + np.triu(matrix, 1).T, dtype=np.float64),
        np.asarray(sums.values[:p] * gradient, dtype=np.float64),
        matrix_noise=share * spec.tau**2 / 2,
        vector_noise=share * spec.sigma_b**2,
        count=sums.count,
    )


def _feature_moments(reports: Reports, spec: Spec, features: Features) -> ReportMoments:
    """Sums of products of noisy features, scheme "features"."""
    if isinstance(reports, Total):
        raise ArgumentError(
            "reports of scheme='features' must be passed one by one, because their products are added up"
        )
    p, (gradient, unit) = len(spec.names), spec.units
    matrix, vector, count = np.zeros((p, p)), np.zeros(p), 0
    for values in checked_batches(reports, spec):
        q = values[:, p:] * unit
        matrix, vector, count = matrix + q.T @ q, vector + values[:, :p].sum(axis=0) * gradient, count + len(values)
    share, variance = count / spec.n, spec.sigma_u**2 / spec.n
    debiased: Matrix = matrix - share * spec.sigma_u**2 * np.eye(p)
    # Cross products q u' + u q' and u u', the latter twice on the diagonal; the trace of sum q q' is known with noise.
    signal = max(float(np.trace(debiased)) / p, 0.0)
    return ReportMoments(
        matrix if features == "printed" else debiased,
        vector,
        matrix_noise=2 * variance * signal + count * variance**2,
        vector_noise=share * spec.sigma_b**2,
        count=count,
    )


def _project_moments(moments: ReportMoments, design: DesignSpec) -> ReportMoments:
    """Projected on the sums that the coding allows: dummies exclude each other and are their own squares."""
    law = SpanNoise(np.eye(len(moments.vector), dtype=np.float64), moments.matrix_noise)
    return replace(moments, matrix=project_forms(moments.matrix, law, design.forms())[0])


def _least_risk_ridge(moments: ReportMoments, radius: float) -> float:
    """The m that is least for E||b||^2/(2 m) + m radius^2/2 (docs/proofs/risk), b the noise of the gradient there."""
    p = len(moments.vector)
    return math.sqrt(p * moments.vector_noise + (p + 1) * moments.matrix_noise * radius**2) / radius


def _regularise(moments: ReportMoments, ridge: float, plain: bool) -> tuple[Matrix, Matrix]:
    """Sum q q' without negative eigenvalues, which would be noise, and the ridge K that steadies it, shapes (p, p).

    K is m where the sum is nothing and m^2 / l where it is much more, l; `plain`: m everywhere (docs/proofs/local, 4).
    """
    values, vectors = np.linalg.eigh(moments.matrix)
    values = np.maximum(values, 0.0)
    added = np.full_like(values, ridge) if plain else np.sqrt(values**2 / 4 + ridge**2) - values / 2
    return self_adjoint((vectors * values) @ vectors.T), self_adjoint((vectors * added) @ vectors.T)


def _solve_quadratic(
    moments: ReportMoments, hessian: Matrix, penalty: Penalty | None, weights: Vector, tolerance: float
) -> tuple[Vector, Matrix]:
    """Coefficients in model units, and the covariance that the noise gives them, to first order."""
    scaled = np.asarray(np.linalg.solve(hessian, moments.vector), dtype=np.float64)
    if penalty is not None:
        gradient = hessian @ scaled - moments.vector
        scaled = minimize_quadratic(hessian, gradient, penalty, weights, scaled, tolerance)
    # Var(E t + e) for symmetric E with independent entries: v (|t|^2 I + t t') + vector_noise I.
    spread = moments.matrix_noise * (scaled @ scaled) + moments.vector_noise
    inverse = np.linalg.inv(hessian)
    along = inverse @ scaled
    return scaled, self_adjoint(spread * inverse @ inverse + moments.matrix_noise * np.outer(along, along))


def _linearise_loss(
    moments: ReportMoments, gram: Matrix, ridge: Matrix, design: DesignSpec
) -> LinearisedLogistic | None:
    """The logistic equation in terms of the sums; None if the noise hides the number of rows."""
    loss = LinearisedLogistic(4 * gram, moments.vector, ridge, design.images, moments.count)
    at = None if loss.intercept is None else loss.intercept[0]
    return None if at is not None and gram[at, at] <= math.sqrt(2 * moments.matrix_noise) else loss

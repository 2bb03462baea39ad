"""A table of coefficients with errors, joint tests, mean responses, and what the noise can do at most
(docs/proofs/inference, 8 to 10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from dpstats.arguments import safe_repr
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.inference.estimates import LEVEL, Contrasts, Estimates
from dpstats.inference.noise_laws import SEED, TAIL, check_symmetric

Float = NDArray[np.float64]

RANK = 1e-10
"""Eigenvalues of the correlation below this share of the largest count as zero: redundant combinations."""

LAPLACE_EXCESS = 0.5**0.5
"""By how much a Laplace variable of variance one exceeds any bound on average, once it does."""


@dataclass(frozen=True)
class JointTest:
    """The result of a joint test."""

    # Chi-squared in the limit of exact information, or the one of the least p-value; 0 if none is tested
    statistic: float
    df: int  # independent combinations tested
    pvalue: float
    untested: int  # combinations that are not identified or have unbounded intervals
    bonferroni: bool = False  # whether it is the least p-value of single tests times their number
    tested: tuple[int, ...] = ()  # the places of the others


def wald_test(estimates: Estimates, rows: Float, null: Float | float = 0.0) -> JointTest:
    """Test that c'theta = null for all rows c with a bounded interval at once: the joint hypothesis implies theirs.

    Each error is inflated as that of an interval as far out as the statistic's 95 % point, which makes the test
    conservative in most cases. One combination has the statistic and p-value of its own test, as in `Contrasts`. Where
    b is not normal the p-value of several is (1 + simulated statistics above) / (1 + draws) down to a hundredth of the
    draws, and beyond them an exponential tail in the statistic's root.

    Where variances alone were released the correlations of errors are unknown: the p-value is Bonferroni's.
    """
    rows = estimates.check_rows(rows)
    values = np.broadcast_to(np.asarray(null, dtype=np.float64), (len(rows),))
    if not np.all(np.isfinite(values)):
        raise ArgumentError("null must be finite, one value or one for each row")
    kept = np.flatnonzero(estimates.contrasts(rows).identified)
    while len(kept):
        if len(kept) == 1:
            return _single(estimates.contrasts(rows[kept]), values[kept], len(rows) - 1, int(kept[0]))
        if not estimates.is_model:
            return _bonferroni(estimates, rows, values)
        contrasts, law = estimates.contrasts(rows[kept]), standardised_law(estimates, rows[kept])
        metric = _root_of_inverse(law.correlation)
        rank = metric.shape[1]
        draws = None if estimates.draws is None else np.sum((law.simulate(estimates.draws) @ metric) ** 2, axis=1)
        point = float(special.chdtri(rank, LEVEL) if draws is None else np.quantile(draws, 1 - LEVEL))
        inflated = contrasts.inflated(point)
        if not np.all(np.isfinite(inflated)):
            kept = kept[np.isfinite(inflated)]
            continue
        distance = (contrasts.estimates - values[kept]) / np.sqrt(inflated) @ metric
        statistic = float(distance @ distance)
        above = special.chdtrc(rank, statistic) if draws is None else simulated_tail(np.sqrt(draws), statistic**0.5)
        return JointTest(statistic, rank, float(above), len(rows) - len(kept), tested=tuple(kept.tolist()))
    return JointTest(0.0, 0, 1.0, len(rows))


def _single(contrasts: Contrasts, null: Float, untested: int, place: int) -> JointTest:
    """The test of one combination; of none where its interval is unbounded."""
    if not np.isfinite(contrasts.se[0]):
        return JointTest(0.0, 0, 1.0, untested + 1)
    statistic = float((contrasts.estimates[0] - null[0]) / contrasts.se[0]) ** 2
    return JointTest(statistic, 1, float(contrasts.pvalues(null)[0]), untested, tested=(place,))


def _bonferroni(estimates: Estimates, rows: Float, values: Float) -> JointTest:
    """The joint test of the combinations with a bounded interval by their own p-values, whatever the correlations."""
    contrasts = estimates.contrasts(rows)
    bounded = np.isfinite(contrasts.se)
    count = int(bounded.sum())
    if not count:
        return JointTest(0.0, 0, 1.0, len(rows))
    pvalues = np.where(bounded, contrasts.pvalues(values), np.inf)
    least = int(np.argmin(pvalues))
    statistic = float((contrasts.estimates[least] - values[least]) / contrasts.se[least]) ** 2
    rank = int(np.linalg.matrix_rank(in_units(rows[bounded])[0]))
    tested = tuple(np.flatnonzero(bounded).tolist())
    return JointTest(statistic, rank, min(1.0, count * float(pvalues[least])), len(rows) - count, count > 1, tested)


def simulated_tail(draws: Float, length: float) -> float:
    """P(|Z| >= length) from draws of |Z|, shape (m,), Z of unit variance in every direction.

    Beyond the `TAIL` largest draws exponential, of their mean excess or, if that is more, of Laplace's: the slowest
    direction's tail, which may begin farther out.
    """
    largest = np.sort(draws)[-TAIL - 1 :]
    if length <= largest[0]:
        return float(1 + np.sum(draws >= length)) / (1 + len(draws))
    excess = max(float(np.mean(largest[1:])) - float(largest[0]), LAPLACE_EXCESS)
    return float((1 + TAIL) / (1 + len(draws)) * np.exp((largest[0] - length) / excess))


def where_bounded(errors: Float, values: Float) -> Float:
    """Statistics or p-values (k,), NaN where the standard error is infinite: no test is shown without an interval."""
    return np.where(np.isfinite(errors), values, np.nan)


@dataclass(frozen=True, eq=False)
class Standardised:
    """The joint law of the errors over their standard deviations sqrt A, for k combinations."""

    normal: Float  # covariance of the normal part, (k, k): sampling, debiasing, dropped and weak coefficients
    loadings: Float  # times b, the rest; shape (k, p)
    correlation: Float  # of the whole, shape (k, k)

    def simulate(self, draws: Float) -> Float:
        """Draws of the law, shape (count, k), from draws of b and a constant public seed."""
        values, vectors = np.linalg.eigh(self.normal)
        plain = np.random.default_rng(SEED + 1).standard_normal((len(draws), len(values)))
        return plain * np.sqrt(np.maximum(values, 0)) @ vectors.T + draws @ self.loadings.T


def standardised_law(estimates: Estimates, rows: Float) -> Standardised:
    """The joint law for identified combinations `rows`, shape (k, p)."""
    identification, parts = estimates.identified, estimates.parts(rows)
    inner, shift = rows[:, identification.active], estimates.correction[identification.active]
    sampling = _with_diagonal(inner @ identification.inverse @ inner.T, parts.sampling.variance)
    debiasing = parts.directions @ identification.law.square(np.outer(shift, shift)) @ parts.directions.T
    noise = _with_diagonal(parts.noise_directions @ inner.T, parts.noise)
    attenuation = parts.directions * estimates.weak_scores @ parts.directions.T
    attenuation += np.outer(estimates.path_errors(rows), estimates.path_errors(rows))
    total = sampling + debiasing + noise + attenuation
    roots = np.sqrt(np.diag(total))
    # The noise's variance in A is a little less than that of g'b: the same factor for its draws.
    factors = _root_ratio(parts.noise, np.sum(parts.noise_directions * inner, axis=1))
    loadings = estimates.widened(parts.directions * (factors / roots)[:, None])
    correlation = total / np.outer(roots, roots)
    return Standardised(correlation - loadings @ estimates.linear.covariance @ loadings.T, loadings, correlation)


def _with_diagonal(covariance: Float, diagonal: Float) -> Float:
    """The covariance with rows and columns scaled to another diagonal."""
    computed = np.diag(covariance)
    factors = _root_ratio(diagonal, computed)
    lost = np.diag(np.where(computed > 0, 0.0, diagonal))
    return np.asarray(covariance * np.outer(factors, factors) + lost, dtype=np.float64)


def _root_ratio(variances: Float, computed: Float) -> Float:
    """sqrt(variances / computed); 0 where a sum of roundings is left of what was computed, which may be negative."""
    return np.sqrt(np.divide(variances, computed, out=np.zeros_like(variances), where=computed > 0))


def _root_of_inverse(correlation: Float) -> Float:
    """R with R R' the inverse on the range, shape (k, rank)."""
    values, vectors = np.linalg.eigh(correlation)
    kept = values > RANK * values[-1]
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]), dtype=np.float64)


class CombinationTests(NamedTuple):
    """Tests of k linear combinations; arrays of shape (k,), intervals of shape (k, 2).

    ``statistics`` are (effect - null) / se, 0 where se is infinite; p-values do not derive from them but from the law.
    """

    effect: Float
    se: Float
    statistics: Float
    pvalues: Float
    conf_int: Float


@dataclass(frozen=True, eq=False)
class Inference:
    """Coefficients A theta + shift with their errors; ArgumentError if shapes disagree or a value is not finite."""

    estimates: Estimates  # in model units
    transform: Float | None = None  # A, public, shape (q, p); the identity by default, for model units
    shift: Float | None = None  # shape (q,); 0 by default
    withheld: NDArray[np.bool_] | None = None  # coefficients that the table shows no error of, shape (q,)

    def __post_init__(self) -> None:
        rows = self.estimates.check_rows(self.map)
        if np.shape(self.offset) != (len(rows),) or not np.all(np.isfinite(self.offset)):
            raise ArgumentError("shift must be finite and have one entry for each row of transform")

    @property
    def map(self) -> Float:
        """A, shape (q, p)."""
        return np.eye(self.estimates.size) if self.transform is None else np.asarray(self.transform, dtype=np.float64)

    @property
    def offset(self) -> Float:
        """The shift, shape (q,)."""
        return np.zeros(len(self.map)) if self.shift is None else np.asarray(self.shift, dtype=np.float64)

    @cached_property
    def contrasts(self) -> Contrasts:
        """The rows of A as combinations of the coefficients in model units, those withheld as if not identified."""
        contrasts = self.estimates.contrasts(self.map)
        return (
            contrasts if self.withheld is None else replace(contrasts, identified=contrasts.identified & ~self.withheld)
        )

    @cached_property
    def coef(self) -> Float:
        """Debiased coefficients, shape (q,); released ones where not identified."""
        return self.contrasts.estimates + self.offset

    @property
    def se(self) -> Float:
        """Half-widths of 95 % intervals over 1.96, shape (q,); infinite where unbounded."""
        return self.contrasts.se

    @property
    def identified(self) -> NDArray[np.bool_]:
        """Whether the budget identifies the coefficient, shape (q,)."""
        return self.contrasts.identified

    @property
    def shares(self) -> Float:
        """Shares of se^2: sampling, noise, information; shape (q, 3)."""
        return self.contrasts.shares

    @cached_property
    def pvalues(self) -> Float:
        """p-values of coefficients of 0, shape (q,); NaN where se is infinite."""
        return where_bounded(self.se, self.contrasts.pvalues(-self.offset))

    @property
    def tvalues(self) -> Float:
        """coef / se, shape (q,); NaN where se is infinite."""
        return where_bounded(self.se, self.coef / self.se)

    def conf_int(self, alpha: float = 0.05) -> Float:
        """Intervals of coverage 1 - alpha, shape (q, 2)."""
        return self.contrasts.conf_int(alpha) + self.offset[:, None]

    def cov_params(self) -> Float:
        """Covariance of the coefficients' errors, shape (q, q), with the squares of `se` on its diagonal.

        The correlations are those of A, as if the information were exact; `t_test` and `wald_test` are better for
        combinations. For coefficients without a bound infinite on the diagonal, and NaN elsewhere. NaN off the whole
        diagonal where variances alone were released, which say nothing of correlations (docs/proofs/inference, 9).
        """
        covariance, where = np.full((len(self.map), len(self.map)), np.nan), np.flatnonzero(np.isfinite(self.se))
        if len(where) and self.estimates.is_model:
            law, errors = standardised_law(self.estimates, self.map[where]), self.se[where]
            covariance[np.ix_(where, where)] = law.correlation * np.outer(errors, errors)
        np.fill_diagonal(covariance, self.se**2)
        return covariance

    def t_test(self, rows: Float, null: Float | float = 0.0, alpha: float = 0.05) -> CombinationTests:
        """Test each combination r'coef = null for rows r, shape (k, q)."""
        inner, moved = self._model_rows(rows)
        contrasts = self.estimates.contrasts(inner)
        null = np.broadcast_to(np.asarray(null, dtype=np.float64), (len(inner),))
        effect = contrasts.estimates + moved
        statistics = where_bounded(contrasts.se, (effect - null) / contrasts.se)
        pvalues = where_bounded(contrasts.se, contrasts.pvalues(null - moved))
        return CombinationTests(effect, contrasts.se, statistics, pvalues, contrasts.conf_int(alpha) + moved[:, None])

    def wald_test(self, rows: Float, null: Float | float = 0.0) -> JointTest:
        """Test all combinations r'coef = null for rows r, shape (k, q), at once."""
        inner, moved = self._model_rows(rows)
        return wald_test(self.estimates, inner, np.asarray(null, dtype=np.float64) - moved)

    def _model_rows(self, rows: Float) -> tuple[Float, Float]:
        """r'A, shape (k, p), and r'shift."""
        rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != len(self.map) or not np.all(np.isfinite(rows)):
            raise ArgumentError(f"rows must be finite and have {len(self.map)} columns")
        return rows @ self.map, rows @ self.offset


AT_ONCE = 1024
"""Rows at once: what they take of memory goes with the square of the columns."""


class MeanResponse(NamedTuple):
    """Predictions at k rows: arrays of shape (k,), intervals of shape (k, 2)."""

    linear: Float
    linear_se: Float
    linear_interval: Float
    mean: Float
    mean_interval: Float


def mean_response(
    estimates: Estimates,
    rows: Float,
    inverse_link: Callable[[Float], Float],
    offset: Float | float = 0.0,
    alpha: float = 0.05,
) -> MeanResponse:
    """The mean response of public rows (k, p) in model units, each with an interval of coverage 1 - alpha by itself.

    The interval is the image of the linear predictor's by the nondecreasing inverse link, which is called at -inf and
    inf where a row is not identified: it covers exactly when that does.
    """
    rows = estimates.check_rows(rows)
    moved = np.broadcast_to(np.asarray(offset, dtype=np.float64), (len(rows),))
    if not np.all(np.isfinite(moved)):
        raise ArgumentError("offset must be finite")
    contrasts = (estimates.contrasts(rows[at : at + AT_ONCE]) for at in range(0, max(len(rows), 1), AT_ONCE))
    parts = [(some.estimates, some.se, some.conf_int(alpha)) for some in contrasts]
    effect, error, interval = (np.concatenate(part) for part in zip(*parts, strict=True))
    linear, ends = effect + moved, interval + moved[:, None]
    with np.errstate(over="ignore"):
        return MeanResponse(linear, error, ends, inverse_link(linear), inverse_link(ends))


Reading = Literal["linear", "normal", "l1", "any"]


def noise_bound(
    covariance: Float, curvature: Float, directions: Float | None = None, *, reading: Reading = "linear"
) -> Float:
    """A bound on the standard deviation that the noise alone gives each c'theta, whatever the rows are, shape (k,).

    Sigma is the covariance of the objective's noise b, M its positive definite curvature (theta'M theta / 2), c the
    rows of `directions`, the coefficients by default. The reading "linear" bounds the part of theta that is linear in
    b, whatever its law: the least of lambda c'M^-1 c, lambda the largest eigenvalue of M^-1/2 Sigma M^-1/2, and of the
    bound of "any". The others hold for theta itself, given the rows, for any convex loss and penalty: "normal" b has
    the same bound, "l1" (independent Laplace entries) twice lambda, and "any" law ((tr(M^-1 Sigma) c'M^-1 c)^1/2 +
    (c'M^-1 Sigma M^-1 c)^1/2)^2 / 4.
    """
    if reading not in get_args(Reading):
        raise ArgumentError(f"reading must be one of {list(get_args(Reading))}, got {safe_repr(reading)}")
    curvature = check_symmetric("curvature", curvature, len(curvature))
    covariance = check_symmetric("covariance", covariance, len(curvature))
    if np.linalg.eigvalsh(curvature)[0] <= 0:
        raise ArgumentError("curvature must be positive definite")
    rows = np.eye(len(curvature)) if directions is None else np.asarray(directions, dtype=np.float64)
    rows, units = in_units(rows)
    moved = np.linalg.solve(curvature, rows.T).T
    plain = np.sum(rows * moved, axis=1)
    values = linalg.eigh(covariance, curvature, eigvals_only=True)
    largest = max(float(values[-1]), 0.0) * plain
    every = (np.sqrt(float(values.sum()) * plain) + np.sqrt(np.sum(moved @ covariance * moved, axis=1))) ** 2 / 4
    factor = {"linear": 1.0, "normal": 1.0, "l1": 2.0, "any": np.inf}[reading]
    return units * np.sqrt(np.minimum(factor * largest, every))


def in_units(rows: Float) -> tuple[Float, Float]:
    """Rows over powers of two, shape (k,), near their largest entries: in any units their squares are doubles."""
    largest = np.max(np.abs(rows), axis=1, initial=0.0)
    units = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))))
    return rows / units[:, None], units

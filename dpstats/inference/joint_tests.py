"""Joint tests of several linear combinations (docs/proofs/inference, 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.errors import ArgumentError
from dpstats.inference.estimates import LEVEL, Contrasts, Estimates
from dpstats.inference.linear_noise import SEED, TAIL

Float = NDArray[np.float64]

RANK = 1e-10
"""Eigenvalues of the correlation below this share of the largest count as zero: redundant combinations."""

LAPLACE_EXCESS = 0.5**0.5
"""By how much a Laplace variable of variance one exceeds any bound on average, once it does."""


@dataclass(frozen=True)
class JointTest:
    """The result of a joint test."""

    statistic: float  # chi-squared in the limit of exact information; 0 where nothing is identified
    df: int  # independent combinations tested
    pvalue: float
    untested: int  # combinations that are not identified or have unbounded intervals


def wald_test(estimates: Estimates, rows: Float, null: Float | float = 0.0) -> JointTest:
    """Test that c'theta = null for all rows c with a bounded interval at once: the joint hypothesis implies theirs.

    Each error is inflated as that of an interval as far out as the statistic's 95 % point, which makes the test
    conservative in most cases. One combination has the statistic and p-value of its own test, as in `Contrasts`. Where
    b is not normal the p-value of several is (1 + simulated statistics above) / (1 + draws) down to a hundredth of the
    draws, and beyond them an exponential tail in the statistic's root.
    """
    rows = estimates.check_rows(rows)
    values = np.broadcast_to(np.asarray(null, dtype=np.float64), (len(rows),))
    if not np.all(np.isfinite(values)):
        raise ArgumentError("null must be finite, one value or one for each row")
    kept = np.flatnonzero(estimates.contrasts(rows).identified)
    while len(kept):
        if len(kept) == 1:
            return _single(estimates.contrasts(rows[kept]), values[kept], len(rows) - 1)
        found, law = estimates.contrasts(rows[kept]), standardised_law(estimates, rows[kept])
        metric = _root_of_inverse(law.correlation)
        rank = metric.shape[1]
        draws = None if estimates.draws is None else np.sum((law.simulate(estimates.draws) @ metric) ** 2, axis=1)
        point = float(special.chdtri(rank, LEVEL) if draws is None else np.quantile(draws, 1 - LEVEL))
        inflated = found.inflated(point)
        if not np.all(np.isfinite(inflated)):
            kept = kept[np.isfinite(inflated)]
            continue
        distance = (found.estimates - values[kept]) / np.sqrt(inflated) @ metric
        statistic = float(distance @ distance)
        above = special.chdtrc(rank, statistic) if draws is None else simulated_tail(np.sqrt(draws), statistic**0.5)
        return JointTest(statistic, rank, float(above), len(rows) - len(kept))
    return JointTest(0.0, 0, 1.0, len(rows))


def _single(found: Contrasts, null: Float, untested: int) -> JointTest:
    """The test of one combination; of none where its interval is unbounded."""
    if not np.isfinite(found.se[0]):
        return JointTest(0.0, 0, 1.0, untested + 1)
    statistic = float((found.estimates[0] - null[0]) / found.se[0]) ** 2
    return JointTest(statistic, 1, float(found.pvalues(null)[0]), untested)


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


@dataclass(frozen=True, eq=False)
class Standardised:
    """The joint law of the errors over their standard deviations sqrt A, for k combinations."""

    normal: Float  # covariance of the normal part, (k, k): sampling, debiasing, dropped coefficients
    loadings: Float  # times b, the rest; shape (k, p)
    correlation: Float  # of the whole, shape (k, k)

    def simulate(self, draws: Float) -> Float:
        """Draws of the law, shape (count, k), from draws of b and a constant public seed."""
        values, vectors = np.linalg.eigh(self.normal)
        plain = np.random.default_rng(SEED + 1).standard_normal((len(draws), len(values)))
        return plain * np.sqrt(np.maximum(values, 0)) @ vectors.T + draws @ self.loadings.T


def standardised_law(estimates: Estimates, rows: Float) -> Standardised:
    """The joint law for identified combinations `rows`, shape (k, p)."""
    found, parts = estimates.identified, estimates.parts(rows)
    inner, shift = rows[:, found.active], estimates.correction[found.active]
    sampling = _with_diagonal(inner @ found.inverse @ inner.T, parts.sampling.variance)
    debiasing = parts.directions @ found.law.square(np.outer(shift, shift)) @ parts.directions.T
    noise = _with_diagonal(parts.noise_directions @ inner.T, parts.noise)
    roots = np.sqrt(np.diag(sampling) + np.diag(debiasing) + np.diag(noise))
    # The noise's variance in A is a little less than that of g'b: the same factor for its draws.
    factors = np.sqrt(parts.noise / np.sum(parts.noise_directions * inner, axis=1))
    loadings = estimates.widened(parts.directions * (factors / roots)[:, None])
    correlation = (sampling + debiasing + noise) / np.outer(roots, roots)
    return Standardised(correlation - loadings @ estimates.linear.covariance @ loadings.T, loadings, correlation)


def _with_diagonal(covariance: Float, diagonal: Float) -> Float:
    """The covariance with rows and columns scaled to another diagonal."""
    factors = np.sqrt(diagonal / np.diag(covariance))
    return np.asarray(covariance * np.outer(factors, factors), dtype=np.float64)


def _root_of_inverse(correlation: Float) -> Float:
    """R with R R' the inverse on the range, shape (k, rank)."""
    values, vectors = np.linalg.eigh(correlation)
    kept = values > RANK * values[-1]
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]), dtype=np.float64)

"""Empirical Bayes for coefficients of groups that were released with noise of a known law (docs/proofs/groups, 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpstats.cached import cached_property
from dpstats.inference.basis import SpanNoise, self_adjoint
from dpstats.inference.inverse import identify

Float = NDArray[np.float64]

DRAWS = 256
"""Of the spread of the groups' coefficients, which a few groups leave uncertain."""

SEED = 20_261_123
"""Public seed of those draws: what is pooled is a function of what was released."""

LEAST, MOST = 1e-3, 4.0
"""Standard deviations between groups that are looked at, in sizes of coefficients that a model expects."""

LEAST_PHI = 0.1
"""Of the mean square about the pooled model, what is left at least for the rows of one group."""

USUAL = 0.25
"""Scale of the half-normal prior of the spread between groups, in the same sizes; it matters where rows say little."""


class Pooled(NamedTuple):
    """Coefficients of the groups and of their mean, in model units."""

    mean: Float  # shape (p,)
    mean_covariance: Float  # shape (p, p)
    between: Float  # standard deviations of the groups' coefficients, shape (p,)
    coef: Float  # posterior means, shape (groups, p)
    covariance: Float  # posterior, shape (groups, p, p)
    own: Float  # the part of each coefficient that is from the group's own release, shape (groups, p)


def pooled_solution(informations: Float, moments: Float, law: SpanNoise) -> Float | None:
    """Coefficients of the sum over all groups, shape (p,); None unless the sum identifies every one of them."""
    total = self_adjoint(informations.sum(axis=0))
    removed = None if law.removed is None else law.removed * len(informations)
    identification = identify(total, SpanNoise(law.metric, law.variance * len(informations), removed))
    return identification.inverse @ moments.sum(axis=0) if identification.active.all() else None


class Steady(NamedTuple):
    """The groups' informations with less noise, and what is left of it."""

    informations: Float  # positive semidefinite, shape (groups, p, p)
    total: Float  # of all groups, shape (p, p)
    share_variance: float  # of the multiple of the total that a group is
    trusted: float  # how much of the noise in its deviation from that a group keeps
    law: SpanNoise

    def noise(self, lever: Float) -> Float:
        """Covariance of what is left of the noise in a group's information times a vector, about, shape (p, p)."""
        moved = self.total @ lever
        kept = self.trusted**2 * self.law.square(np.outer(lever, lever))
        return np.asarray(self.share_variance * np.outer(moved, moved) + kept, dtype=np.float64)


def steady_informations(informations: Float, law: SpanNoise, total: Float) -> Steady:
    """Each group's information with less noise.

    In the coordinates of the sum over groups each is a multiple of the identity, which is estimated best, and a
    deviation. The multiples are shrunk to their mean, and the deviations to nothing, as far as noise explains their
    sizes in all groups together: the size of a single one is mostly chance.
    """
    size = informations.shape[1]
    root = np.asarray(np.linalg.cholesky(_positive(total)), dtype=np.float64)
    back = np.asarray(np.linalg.inv(root), dtype=np.float64)
    whitened, metric = _sandwich(back, informations), _sandwich(back, law.metric)
    inverse = np.asarray(np.linalg.inv(metric), dtype=np.float64)
    square = float(np.trace(inverse @ inverse))
    shares, share_variance = np.einsum("ij,gij->g", inverse @ inverse / square, whitened), 2 * law.variance / square
    apart = shares - shares.mean()
    differing = max(0.0, 1 - (len(shares) - 3) * share_variance / max(float(apart @ apart), 1e-300))
    shares = np.maximum(shares.mean() + differing * apart, 0.0)
    deviations = whitened - shares[:, None, None] * np.eye(size)
    lengths = np.einsum("ij,gjk,kl,gil->g", inverse, deviations, inverse, deviations)
    expected = law.variance * (size * (size + 1) - 2)
    trusted = max(0.0, 1 - expected / max(float(lengths.mean()), 1e-300))
    steady = shares[:, None, None] * np.eye(size) + trusted * deviations
    values, vectors = np.linalg.eigh(steady)
    estimates = _sandwich(root, (vectors * np.maximum(values, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2))
    return Steady(estimates, _sandwich(root, np.eye(size)), differing * share_variance, trusted, law)


@dataclass(frozen=True, eq=False)
class GroupModel:
    """Groups' coefficients are mean + N(0, diag(between^2)), and their scores normal about H times the rest."""

    centre: Float  # where the scores are taken, near the mean, shape (p,)
    informations: Float  # steady, shape (groups, p, p)
    scores: Float  # at the centre, shape (groups, p)
    noise: Float  # shape (groups, p, p)
    residuals: float  # the sum of squares about the centre; of families whose dispersion is known, the rows
    rows: float  # of all groups
    sizes: Float  # of coefficients that the model expects, shape (p,)
    total_score: Float  # of all rows together, released apart, shape (p,)
    total_noise: Float  # shape (p, p)
    known_dispersion: bool = False

    def dispersion(self, between: Float) -> Float:
        """phi at some spreads between groups, shape (draws,)."""
        if self.known_dispersion:
            return np.full(len(between), self.residuals / self.rows)
        taken = between**2 @ np.diag(self.informations.sum(axis=0))
        return np.maximum(self.residuals - taken, LEAST_PHI * abs(self.residuals)) / self.rows

    def posterior(self, between: Float) -> tuple[Float, Float, Float, Float, Float, Float]:
        """Log density, mean, its covariance, and of each group coefficients, covariance and own part.

        For each of `between`, shape (draws, p); that is the first axis of everything.
        """
        information, size = self.informations, between.shape[1]
        prior = (between**2)[:, None, :, None] * np.eye(size)
        exact = information @ prior @ information + self.dispersion(between)[:, None, None, None] * information
        spread = exact + self.noise
        whole = np.linalg.solve(spread, np.broadcast_to(information, spread.shape))  # V^-1 H
        solved = np.linalg.solve(spread, np.broadcast_to(self.scores[..., None], (*spread.shape[:-1], 1)))[..., 0]
        lost = np.linalg.solve(spread, np.broadcast_to(self.noise, spread.shape))  # V^-1 N
        # What the release of all rows says beyond those of the groups.
        beyond = self.total_score - np.einsum("bgij,bgj->bi", exact, solved)
        carried = np.einsum("gij,bgjk->bik", self.noise, whole)
        rest = self.total_noise + np.einsum("bgij,bgjk->bik", exact, lost)
        total = np.einsum("gij,bgjk->bik", information, whole) + np.swapaxes(carried, 1, 2) @ np.linalg.solve(
            rest, carried
        )
        weighed = np.linalg.solve(rest, beyond[..., None])[..., 0]
        right = np.einsum("gij,bgj->bi", information, solved) + np.einsum("bji,bj->bi", carried, weighed)
        covariance = np.linalg.inv(total)
        shift = np.einsum("bij,bj->bi", covariance, right)
        logs = sum(np.linalg.slogdet(one)[1] for one in (rest, total)) + np.linalg.slogdet(spread)[1].sum(axis=1)
        fitted = np.einsum("gi,bgi->b", self.scores, solved) + np.einsum("bi,bi->b", beyond, weighed)
        fitted = fitted - np.einsum("bi,bi->b", right, shift)
        # Of a group: T H V^-1 times what is left of its score, and T H V^-1 N R^-1 times what is left of the total's.
        by_group, by_total = prior @ np.swapaxes(whole, 2, 3), prior @ information @ lost
        by_total = by_total @ np.linalg.inv(rest)[:, None]
        left = np.eye(size) - by_group @ information - by_total @ carried[:, None]
        moved = self.scores - np.einsum("gij,bj->bgi", information, shift)
        coef = shift[:, None, :] + np.einsum("bgij,bgj->bgi", by_group, moved)
        coef = coef + np.einsum("bgij,bj->bgi", by_total, beyond - np.einsum("bij,bj->bi", carried, shift))
        inner = (np.eye(size) - by_group @ information) @ prior - by_total @ np.swapaxes(
            prior @ information @ lost, 2, 3
        )
        inner = inner + left @ covariance[:, None] @ np.swapaxes(left, 2, 3)
        own = np.einsum("bgij,gji->bgi", by_group, information)
        return -(logs + fitted) / 2, shift, covariance, coef, inner, own

    def expected_noise(self, between: Float, levers: Float, law: SpanNoise) -> Float:
        """E[E | score] at a spread between groups, shape (p,): the score has E times `levers`, shape (groups, p).

        What is left of E is uncorrelated with the score: gains made of it do not lean with its noise.
        """
        inner = self.informations
        spread = inner @ np.diag(between**2) @ inner + self.dispersion(between[None])[0] * inner + self.noise
        solved = np.linalg.solve(spread, self.scores[..., None])[..., 0] @ law.metric
        moved = levers @ law.metric
        product = law.variance * solved[:, :, None] * moved[:, None, :]
        return np.asarray(product + np.swapaxes(product, 1, 2))

    @cached_property
    def spreads(self) -> tuple[Float, Float]:
        """Draws of the spreads between groups, shape (draws, p), and their weights: flat on each spread itself."""
        size = len(self.sizes)
        bounds = [(float(np.log(LEAST * one)), float(np.log(MOST * one))) for one in self.sizes]

        def density(logs: Float) -> Float:
            """Of the logarithms."""
            spreads = np.exp(logs)
            prior = np.sum((spreads / (USUAL * self.sizes)) ** 2, axis=1) / 2
            return self.posterior(spreads)[0] + logs.sum(axis=1) - prior

        start = np.log(USUAL / 2 * self.sizes)
        steps = 1e-4 * np.vstack([np.zeros(size), np.eye(size), -np.eye(size)])

        def loss(logs: Float) -> tuple[float, Float]:
            values = density(logs + steps)
            return -float(values[0]), -(values[1 : size + 1] - values[size + 1 :]) / 2e-4

        mode = optimize.minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
        curvature = np.array([(loss(mode + step)[1] - loss(mode - step)[1]) / 2e-2 for step in 1e-2 * np.eye(size)])
        values, vectors = np.linalg.eigh(self_adjoint(curvature))
        widths = 1.5 / np.sqrt(np.maximum(values, 1.0))
        random = np.random.default_rng(SEED)
        normal = random.standard_normal((DRAWS, size))
        # Draws of a t law with four degrees of freedom: its tails are wider than those of the density.
        scale = np.sqrt(random.chisquare(4, (DRAWS, 1)) / 4)
        draws = mode + normal / scale * widths @ vectors.T
        distance = np.sum((normal / scale) ** 2, axis=1)
        proposal = -(4 + size) / 2 * np.log1p(distance / 4)
        low, high = np.array(bounds).T
        weights = np.where(np.all((draws >= low) & (draws <= high), axis=1), density(draws) - proposal, -np.inf)
        weights = np.exp(weights - weights.max())
        return np.exp(draws), weights / weights.sum()

    def pooled(self) -> Pooled:
        """The posterior, averaged over what the spreads between groups may be."""
        draws, weights = self.spreads
        _, shifts, covariances, coefs, inner, own = self.posterior(draws)

        def mixed(means: Float, within: Float) -> tuple[Float, Float]:
            mean = np.tensordot(weights, means, 1)
            apart = means - mean
            outer = apart[..., :, None] * apart[..., None, :]
            return mean, np.tensordot(weights, within + outer, 1)

        mean, mean_covariance = mixed(shifts, covariances)
        coef, covariance = mixed(coefs, inner)
        return Pooled(
            mean=self.centre + mean,
            mean_covariance=mean_covariance,
            between=weights @ draws,
            coef=self.centre + coef,
            covariance=covariance,
            own=np.clip(np.tensordot(weights, own, 1), 0.0, 1.0),
        )


def _sandwich(left: Float, middle: Float) -> Float:
    """L A L', for one A or several."""
    return np.asarray(left @ middle @ left.T, dtype=np.float64)


def _positive(matrix: Float) -> Float:
    """The matrix with eigenvalues of at least a small part of the largest."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 1e-6 * values[-1])) @ vectors.T, dtype=np.float64)

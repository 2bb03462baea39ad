"""Private selection: noisy maxima by exponential noise, and the best of a random number of runs.

Report noisy max with exponential noise is permute-and-flip (docs/proofs/choice, ranges, screening); with Gumbel noise
it is the exponential mechanism (docs/proofs/posterior). OpenDP draws both exactly, except from a seeded source, whose
releases are never certified. The best of random runs: docs/proofs/tuning.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_noisy_max
from opendp.measures import max_divergence, zero_concentrated_divergence
from opendp.metrics import linf_distance
from opendp.mod import enable_features
from opendp.typing import i64
from scipy import optimize

from dpstats.arguments import check_choice, is_number, safe_repr
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.randomness import RandomSource, SystemRandom


def exponential_scale(eps: float, *, sensitivity: float = 1.0, monotone: bool) -> float:
    """The mean of the exponential noise with which one noisy maximum is eps-DP, in the scores' units.

    `sensitivity` is the most by which neighbouring data move a score. If they move all scores the same way
    (`monotone`), half of the noise does.
    """
    # The margin keeps the rounding of the quotient from costing more than eps.
    return sensitivity * (1 if monotone else 2) / eps * (1 + 1e-12)


@lru_cache(maxsize=16)
def noisy_max(scale: float, *, monotone: bool) -> Any:
    """OpenDP's measurement from integer scores to the index of the largest after exponential noise of mean `scale`.

    Its ``map(d)`` is the eps at which neighbouring data may move scores by d.
    """
    enable_features("contrib")
    return make_noisy_max(
        vector_domain(atom_domain(T=i64)),
        linf_distance(T=i64, monotonic=monotone),
        max_divergence(),
        scale=scale,
    )


def noisy_argmax(
    scores: Sequence[int] | NDArray[np.int64], scale: float, random: RandomSource, *, monotone: bool
) -> int:
    """The index of the largest of some integer scores after exponential noise of mean `scale`."""
    if isinstance(random, SystemRandom):
        return int(noisy_max(scale, monotone=monotone)(np.ascontiguousarray(scores, dtype=np.int64)))
    return int(np.argmax(np.asarray(scores, dtype=np.float64) - scale * np.log(random.random(len(scores)))))


PURCHASES = 400
"""So many choices are drawn for a forecast."""

HOPELESS = 30.0
"""None is of a candidate that is so many noise scales below the best one: its noise exceeds that once in 10^13."""


def likely_choices(scores: NDArray[np.int64], scale: float, random: np.random.Generator) -> NDArray[np.intp]:
    """What `noisy_argmax` would choose of public scores, again and again, shape (PURCHASES,)."""
    near = np.flatnonzero(scores >= scores.max() - HOPELESS * scale)
    return near[np.argmax(scores[near] + random.exponential(scale, (PURCHASES, len(near))), axis=1)]


def choice_chances(scores: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """The chance of each choice by `noisy_argmax` of public scores, which need not be whole, shape (k,).

    With d the distance from the best score in units of the scale it is e^-d_k times the integral over v from 0 to 1 of
    the product over all j but k of 1 - (1 - v) e^-d_j, a polynomial.
    """
    near = np.flatnonzero(scores >= scores.max() - HOPELESS * scale)
    parts = np.exp((scores[near] - scores.max()) / scale)
    nodes, weights = np.polynomial.legendre.leggauss(len(near) // 2 + 1)  # exact to that degree
    below = 1 - (1 - nodes[:, None]) / 2 * parts
    chances = np.zeros(len(scores))
    chances[near] = parts * (weights / 2 @ (np.prod(below, axis=1)[:, None] / below))
    return chances


def quantile_choice(chosen: NDArray[np.intp], sizes: NDArray[np.float64], share: float) -> int:
    """Of some choices the one than which a `share` of them have no greater size; `sizes` are of the candidates."""
    by_size = np.argsort(sizes[chosen], kind="stable")
    return int(chosen[by_size[math.ceil(share * len(chosen)) - 1]])


def exponential_index(scores: NDArray[np.int64], scale: float, random: RandomSource) -> int:
    """An index k drawn with probability proportional to exp(-scores[k] / scale): the exponential mechanism."""
    if not isinstance(random, SystemRandom):
        # Gumbel noise, whose maximum has that law.
        uniform = np.maximum(random.random(len(scores)), np.finfo(np.float64).tiny)
        return int(np.argmin((scores - scores.min()) / scale + np.log(-np.log(uniform))))
    enable_features("contrib")
    space = vector_domain(atom_domain(T=i64)), linf_distance(T=i64)
    draw = make_noisy_max(*space, zero_concentrated_divergence(), scale=scale, negate=True)
    return int(draw(np.ascontiguousarray(scores, dtype=np.int64)))


STEPS = 1024
"""Losses are sums of whole steps, of which a row's whole loss of 1 has so many."""


@dataclass(frozen=True)
class PermuteAndFlip:
    """A choice among `candidates` whose losses are sums over rows; pure eps-DP."""

    candidates: int  # k, how many there are
    eps: float  # The budget; pure
    adjacency: Adjacency
    monotone: bool = True  # Whether a row adds between 0 and 1 to every loss; else between -1 and 1

    @property
    def one_sided(self) -> bool:
        """Whether neighbouring data move all losses the same way."""
        return self.monotone and self.adjacency == "add_remove"

    @property
    def sensitivity(self) -> int:
        """How far neighbouring data move one loss, in rows."""
        return 2 if self.adjacency == "replace_one" and not self.monotone else 1

    @property
    def scale(self) -> float:
        """Mean of the exponential noise on each loss, in rows."""
        return exponential_scale(self.eps, sensitivity=self.sensitivity, monotone=self.one_sided)

    def choose(self, losses: NDArray[np.int64], random: RandomSource) -> int:
        """The position of the least loss after noise; losses are in steps, shape (k,)."""
        if isinstance(random, SystemRandom):
            return int(self.measurement()(np.ascontiguousarray(-losses, dtype=np.int64)))
        # Not `noisy_argmax`, whose other transform of the uniforms would change what a seed releases.
        noise = -self.scale * STEPS * np.log1p(-random.random(len(losses)))
        return int(np.argmax(noise - losses))

    def measurement(self) -> Any:
        """OpenDP's choice of the largest of k integers; its privacy map at `sensitivity` is at most eps."""
        scale = self.scale * STEPS
        measurement = noisy_max(scale, monotone=self.one_sided)
        while measurement.map(self.sensitivity * STEPS) > self.eps:
            scale *= 1 + 1e-12
            measurement = noisy_max(scale, monotone=self.one_sided)
        return measurement

    def failure(self, gap: float) -> float:
        """The greatest chance that the chosen candidate loses more than `gap` rows beyond the best one.

        Exact: it is attained where all others lose so much (docs/proofs/choice, section 3).
        """
        size, part = self.candidates, math.exp(-gap / self.scale)
        if size * part < 1e-4:
            return (size - 1) * part / 2  # an upper bound always, and all digits here
        if part == 1:
            return 1 - 1 / size
        return 1 + math.expm1(size * math.log1p(-part)) / (size * part)

    def bound(self, beta: float) -> float:
        """What the chosen candidate loses beyond the best one, in rows, except with probability `beta`."""
        if not is_number(beta) or not 0 < beta < 1:
            raise ArgumentError(f"beta must lie strictly between 0 and 1, got {safe_repr(beta)}")
        if self.failure(0.0) <= beta:
            return 0.0
        most = self.scale * math.log((self.candidates - 1) / (2 * beta)) if 2 * beta < self.candidates - 1 else 0.0
        return float(
            optimize.brentq(lambda gap: self.failure(gap) - beta, 0.0, max(most, self.scale) * 1.01, rtol=1e-12)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> PermuteAndFlip:
        """The choice whose `to_dict` gave `stored`."""
        return cls(**stored)


ETAS = (-0.5, 0.0, 1.0)
"""Powers whose laws are drawn exactly: between geometric (1) and of longer tails."""


@dataclass(frozen=True)
class RandomStopping:
    """The number of runs K: a negative binomial law truncated to K >= 1 (Papernot and Steinke 2022).

    P(K = k) is proportional to (1 - gamma)^k Gamma(k + eta) / k!; eta = 1 is the geometric law, 0 the logarithmic one.
    """

    eta: float
    mean: float  # E K, more than 1

    def __post_init__(self) -> None:
        check_choice("eta", self.eta, ETAS)
        real = isinstance(self.mean, (int, float)) and not isinstance(self.mean, bool)
        if not (real and 1 < self.mean <= 1e4):
            raise ArgumentError(
                f"runs must be a mean number of runs, more than 1 and at most 10000, got {safe_repr(self.mean)}"
            )
        object.__setattr__(self, "eta", float(self.eta))
        object.__setattr__(self, "mean", float(self.mean))

    @cached_property
    def gamma(self) -> float:
        """The law's parameter, by its mean."""
        log = optimize.brentq(lambda log: expected_runs(self.eta, math.exp(log)) - self.mean, -40.0, -1e-12, xtol=1e-15)
        return math.exp(float(log))

    def generating(self, at: float) -> float:
        """E at^K, for `at` within [0, 1]."""
        gamma = self.gamma
        if self.eta == 0:
            return math.log1p(-(1 - gamma) * at) / math.log(gamma)
        return float(((1 - (1 - gamma) * at) ** -self.eta - 1) / (gamma**-self.eta - 1))

    def coverage(self, candidates: int) -> float:
        """The chance that a given one of several candidates is among those tried."""
        return 1 - self.generating(1 - 1 / candidates)

    def total(self, each: float) -> float:
        """What releasing the best of K runs costs if each is `each`-private: exact, attained by some mechanism."""
        worse = math.exp(-each) / (1 + math.exp(-each))
        gamma = self.gamma
        gained = math.log((gamma + (1 - gamma) * (1 - worse)) / (gamma + (1 - gamma) * worse))
        return each + (1 + self.eta) * gained

    def each(self, total: float) -> float:
        """What a run may cost so that all together cost `total`, at most."""
        low, high = total / (2 + self.eta + 1e-9), total
        cost = float(optimize.brentq(lambda each: self.total(each) - total, low * 0.5, high, xtol=1e-300, rtol=1e-14))
        while self.total(cost) > total:
            cost *= 1 - 1e-13
        return cost * (1 - 1e-12)

    def draw(self, random: RandomSource) -> int:
        """K, exactly by whole random numbers, except from a seeded source, whose releases are never certified.

        Coins: with gamma the run is the last; else it is k + 1's turn, which comes with (k + eta) / (k + 1), and all
        starts again where it does not. That thins the geometric law to (1 - gamma)^k Gamma(k + eta) / k!.
        """
        last, eta = Fraction(self.gamma), Fraction(self.eta)
        count = 1
        while not _coin(last, random):
            count = count + 1 if _coin((count + eta) / (count + 1), random) else 1
        return count

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> RandomStopping:
        """The law whose `to_dict` gave `stored`."""
        return cls(**stored)


def expected_runs(eta: float, gamma: float) -> float:
    """E K."""
    if eta == 0:
        return (1 / gamma - 1) / -math.log(gamma)
    return float(eta * (1 - gamma) / (gamma * (1 - gamma**eta)))


def _coin(chance: Fraction, random: RandomSource) -> bool:
    if isinstance(random, SystemRandom):
        return secrets.randbelow(chance.denominator) < chance.numerator
    return bool(random.random(1)[0] < float(chance))

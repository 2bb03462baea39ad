"""A random number of runs of which the best is released: its law and what that costs (docs/proofs/tuning)."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from scipy import optimize

from dpstats.arguments import check_choice, shown
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.privacy.randomness import RandomSource, SystemRandom

ETAS = (-0.5, 0.0, 1.0)
"""Powers whose laws are drawn exactly: between geometric (1) and of longer tails."""


@dataclass(frozen=True)
class Runs:
    """The number of runs K: a negative binomial law truncated to K >= 1 (Papernot and Steinke 2022).

    P(K = k) is proportional to (1 - gamma)^k Gamma(k + eta) / k!; eta = 1 is the geometric law, 0 the logarithmic one.

    Attributes
    ----------
    eta : {-0.5, 0.0, 1.0}
    mean : float
        E K, more than 1.
    """

    eta: float
    mean: float

    def __post_init__(self) -> None:
        check_choice("eta", self.eta, ETAS)
        real = isinstance(self.mean, (int, float)) and not isinstance(self.mean, bool)
        if not (real and 1 < self.mean <= 1e4):
            raise ArgumentError(
                f"runs must be a mean number of runs, more than 1 and at most 10000, got {shown(self.mean)}"
            )
        object.__setattr__(self, "eta", float(self.eta))
        object.__setattr__(self, "mean", float(self.mean))

    @cached_property
    def gamma(self) -> float:
        """The law's parameter, by its mean."""
        log = optimize.brentq(lambda log: expected(self.eta, math.exp(log)) - self.mean, -40.0, -1e-12, xtol=1e-15)
        return math.exp(float(log))

    def generating(self, at: float) -> float:
        """E at^K, for `at` within [0, 1]."""
        gamma = self.gamma
        if self.eta == 0:
            return math.log1p(-(1 - gamma) * at) / math.log(gamma)
        return float(((1 - (1 - gamma) * at) ** -self.eta - 1) / (gamma**-self.eta - 1))

    def found(self, candidates: int) -> float:
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
        found = float(optimize.brentq(lambda each: self.total(each) - total, low * 0.5, high, xtol=1e-300, rtol=1e-14))
        while self.total(found) > total:
            found *= 1 - 1e-13
        return found * (1 - 1e-12)

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
    def from_dict(cls, stored: Mapping[str, Any]) -> Runs:
        """The law whose `to_dict` gave `stored`."""
        return cls(**stored)


def expected(eta: float, gamma: float) -> float:
    """E K."""
    if eta == 0:
        return (1 / gamma - 1) / -math.log(gamma)
    return float(eta * (1 - gamma) / (gamma * (1 - gamma**eta)))


def _coin(chance: Fraction, random: RandomSource) -> bool:
    if isinstance(random, SystemRandom):
        return secrets.randbelow(chance.denominator) < chance.numerator
    return bool(random.random(1)[0] < float(chance))

"""The choice of the candidate of least loss, a sum over rows, by permute-and-flip (docs/proofs/choice)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import opendp.prelude as opendp
from numpy.typing import NDArray
from scipy import optimize

from dpstats.arguments import is_number, shown
from dpstats.errors import ArgumentError
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.randomness import RandomSource, SystemRandom

STEPS = 1024
"""Losses are sums of whole steps, of which a row's whole loss of 1 has so many."""


@dataclass(frozen=True)
class Choice:
    """A choice among candidates whose losses are sums over rows.

    Attributes
    ----------
    candidates : int
        k, how many there are.
    eps : float
        The budget; pure.
    adjacency : {"add_remove", "replace_one"}
    monotone : bool
        Whether a row adds between 0 and 1 to every loss; else between -1 and 1.
    """

    candidates: int
    eps: float
    adjacency: Adjacency
    monotone: bool = True

    @property
    def together(self) -> bool:
        """Whether neighbouring data move all losses the same way: half the noise does then."""
        return self.monotone and self.adjacency == "add_remove"

    @property
    def shift(self) -> int:
        """How far neighbouring data move one loss, in rows."""
        return 2 if self.adjacency == "replace_one" and not self.monotone else 1

    @property
    def scale(self) -> float:
        """Mean of the exponential noise on each loss, in rows."""
        # The margin keeps the rounding of the quotient from costing more than eps.
        return self.shift * (1 if self.together else 2) / self.eps * (1 + 1e-12)

    def choose(self, losses: NDArray[np.int64], random: RandomSource) -> int:
        """The position of the least loss after noise.

        Parameters
        ----------
        losses : ndarray of int64, shape (k,)
            In steps.
        random : RandomSource
            OpenDP draws, exactly, except from a seeded source, whose releases are never certified.
        """
        if isinstance(random, SystemRandom):
            return int(self.measurement()([-int(loss) for loss in losses]))
        noise = -self.scale * STEPS * np.log1p(-random.random(len(losses)))
        return int(np.argmax(noise - losses))

    def measurement(self) -> Any:
        """OpenDP's choice of the largest of k integers; its privacy map at `shift` is at most eps."""
        opendp.enable_features("contrib")
        space = (
            opendp.vector_domain(opendp.atom_domain(T="i64")),
            opendp.linf_distance(T="i64", monotonic=self.together),
            opendp.max_divergence(),
        )
        scale = self.scale * STEPS
        found = opendp.m.make_noisy_max(*space, scale=scale)
        while found.map(self.shift * STEPS) > self.eps:
            scale *= 1 + 1e-12
            found = opendp.m.make_noisy_max(*space, scale=scale)
        return found

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
        """What the chosen candidate loses beyond the best one, in rows, except with probability `beta`.

        Raises
        ------
        ArgumentError
            If `beta` is not strictly between 0 and 1.
        """
        if not is_number(beta) or not 0 < beta < 1:
            raise ArgumentError(f"beta must lie strictly between 0 and 1, got {shown(beta)}")
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
    def from_dict(cls, stored: Mapping[str, Any]) -> Choice:
        """The choice whose `to_dict` gave `stored`."""
        return cls(**stored)

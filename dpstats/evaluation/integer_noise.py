"""Noise for one vector of integers: whichever of two exact discrete laws has less of it (docs/proofs/evaluation)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian
from opendp.metrics import l2_distance
from opendp.mod import enable_features
from opendp.typing import f64, i64
from scipy import special

from dpstats.errors import ArgumentError
from dpstats.privacy.accounting import zcdp_budget
from dpstats.privacy.guarantee import Adjacency, Guarantee
from dpstats.privacy.randomness import RandomSource, SystemRandom, folded_uniforms, noisy_integers

PROOF = "docs/proofs/evaluation"

LEAST_EPS = 1e-6  # the noise of a smaller eps would leave the range of 64-bit integers

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class IntegerNoise:
    """Independent noise on each coordinate of a vector of integers."""

    kind: Literal["laplace", "gaussian"]  # P(k) proportional to exp(-|k| / scale), or to exp(-k^2 / (2 scale^2))
    # What neighbouring vectors differ by at most: their l1 distance (Laplace), or its l2 counterpart squared.
    sensitivity: int
    scale: float  # In lattice steps
    # eps, delta: What it buys; delta is 0 for Laplace noise.
    eps: float
    delta: float
    rho: float | None = None  # The zCDP parameter of Gaussian noise

    @property
    def variance(self) -> float:
        """Of each coordinate, in squared steps; for Gaussian noise a bound that is exact up to 1e-8 from scale 1 on."""
        if self.kind == "gaussian":
            return self.scale**2
        # Below so small a scale no draw differs from zero.
        return 0.5 / math.sinh(0.5 / self.scale) ** 2 if self.scale > 2e-3 else 0.0

    @property
    def excess(self) -> float:
        """Excess kurtosis of a coordinate: 3 for Laplace noise on a fine lattice, 0 for Gaussian."""
        return 3.0 if self.kind == "laplace" else 0.0

    def add(self, values: Integers, random: RandomSource) -> Integers:
        """`values` with noise, shape (k,). OpenDP draws it, except from a seeded source: never certified."""
        if self.kind == "laplace":
            return noisy_integers(values, self.sensitivity, self.eps, random)
        if not isinstance(random, SystemRandom):
            tail, upper = folded_uniforms(random, len(values))
            return values + np.rint(self.scale * special.ndtri(tail) * np.where(upper, -1.0, 1.0)).astype(np.int64)
        enable_features("contrib")
        space = vector_domain(atom_domain(T=i64)), l2_distance(T=f64)
        distance, scale = math.nextafter(math.sqrt(self.sensitivity), math.inf), self.scale
        measurement = make_gaussian(*space, scale=scale)
        while measurement.map(distance) > self.rho:
            scale = math.nextafter(scale, math.inf) * (1 + 1e-15)
            measurement = make_gaussian(*space, scale=scale)
        return np.asarray(measurement(np.ascontiguousarray(values, dtype=np.int64)), dtype=np.int64)

    def guarantee(self, adjacency: Adjacency) -> Guarantee:
        """What the release promises."""
        return Guarantee(self.eps, self.delta, adjacency, basis=PROOF, rho=self.rho)


def choose_noise(largest: int, square: int, eps: float, delta: float, adjacency: Adjacency) -> IntegerNoise:
    """The law of less variance among those that (eps, delta) buys; Laplace, without delta, if that has no more.

    `largest` and `square` bound the l1 norm and the squared l2 norm of one row's vector, in steps. Replacing a row
    takes one vector off and adds another: twice the l1 norm, and twice the squared l2 norm, which the caller must have
    proved of differences of two rows' vectors. ArgumentError if eps is below `LEAST_EPS`.
    """
    if eps < LEAST_EPS:
        raise ArgumentError(f"eps must be at least {LEAST_EPS:g} here, got {eps!r}: a smaller eps would buy only noise")
    times = 1 if adjacency == "add_remove" else 2
    laplace = IntegerNoise("laplace", times * largest, times * largest / eps, eps, 0.0)
    if not delta:
        return laplace
    rho = zcdp_budget(eps, delta)
    scale = math.sqrt(times * square / (2 * rho)) * (1 + 1e-12)
    gaussian = IntegerNoise("gaussian", times * square, scale, eps, delta, rho)
    return gaussian if gaussian.variance < laplace.variance else laplace

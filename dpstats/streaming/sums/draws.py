"""Fresh noise vectors of integers on the public lattice (docs/proofs/streams, 4 and 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.k_norm.noise import law_from_dict
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import RandomSource, check_scale, gaussian_integers, noisy_integers

Float = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianDraws:
    """Independent discrete Gaussian integers of the given scale, in lattice steps."""

    scale: float

    def __post_init__(self) -> None:
        check_scale(self.scale)

    def draw(self, count: int, size: int, random: RandomSource) -> NDArray[np.object_]:
        """Python integers, shape (count, size)."""
        return gaussian_integers(count * size, self.scale, random).reshape(count, size).astype(object)

    def covariance(self, size: int) -> Float:
        """Of one vector, in squared lattice steps, shape (size, size)."""
        return self.scale**2 * np.eye(size)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {"draws": "gaussian", "scale": self.scale}


@dataclass(frozen=True)
class LaplaceDraws:
    """Independent discrete Laplace integers: pure noise for the l1 norm, exact."""

    reach: int  # The most all noised vectors together move in the l1 norm, in lattice steps
    eps: float

    def __post_init__(self) -> None:
        check_scale(self.reach / self.eps)

    def draw(self, count: int, size: int, random: RandomSource) -> NDArray[np.object_]:
        """Python integers, shape (count, size)."""
        zeros = np.zeros(count * size, dtype=np.int64)
        return noisy_integers(zeros, self.reach, self.eps, random).reshape(count, size).astype(object)

    def covariance(self, size: int) -> Float:
        """Of one vector, in squared lattice steps, shape (size, size)."""
        return 2 * (self.reach / self.eps) ** 2 * np.eye(size)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {"draws": "laplace", "reach": self.reach, "eps": self.eps}


@dataclass(frozen=True)
class NormDraws:
    """Noise with a density that falls with a norm, rounded to the lattice and covered by discrete Laplace noise."""

    law: Noise | KNormNoise  # In lattice steps
    cover_reach: int  # The most that all rounded vectors together may move in the l1 norm, given the ideal ones
    cover_eps: float

    def __post_init__(self) -> None:
        check_scale(max(self.law.scale, self.cover_reach / self.cover_eps))

    def draw(self, count: int, size: int, random: RandomSource) -> NDArray[np.object_]:
        """Python integers, shape (count, size)."""
        drawn = np.concatenate([sample_law(self.law, size, random) for _ in range(count)])
        whole = np.rint(drawn).astype(np.int64)
        covered = noisy_integers(whole, self.cover_reach, self.cover_eps, random)
        return covered.reshape(count, size).astype(object)

    def covariance(self, size: int) -> Float:
        """Of one vector, in squared lattice steps, shape (size, size)."""
        cover = 2 * (self.cover_reach / self.cover_eps) ** 2
        return law_covariance(self.law, size) + cover * np.eye(size)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {
            "draws": "norm",
            "law": self.law.to_dict(),
            "cover_reach": self.cover_reach,
            "cover_eps": self.cover_eps,
        }


Draws = GaussianDraws | LaplaceDraws | NormDraws


def draws_from_dict(stored: Mapping[str, Any]) -> Draws:
    """The draws whose `to_dict` gave `stored`."""
    if stored["draws"] == "gaussian":
        return GaussianDraws(stored["scale"])
    if stored["draws"] == "laplace":
        return LaplaceDraws(stored["reach"], stored["eps"])
    return NormDraws(law_from_dict(stored["law"]), stored["cover_reach"], stored["cover_eps"])


def sample_law(law: Noise | KNormNoise, size: int, random: RandomSource) -> Float:
    """One vector, shape (size,)."""
    return law.sample(random) if isinstance(law, KNormNoise) else law.sample(size, random)


def law_covariance(law: Noise | KNormNoise, size: int) -> Float:
    """Covariance of one vector, shape (size, size)."""
    if isinstance(law, KNormNoise):
        return law.covariance()
    return law.expected_square(size) / size * np.eye(size)


def law_root_mean_square(law: Noise | KNormNoise, size: int) -> float:
    """The square root of E ||b||^2."""
    return math.sqrt(law.expected_square() if isinstance(law, KNormNoise) else law.expected_square(size))

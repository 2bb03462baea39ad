"""Noise on the public lattice: rows in whole steps, fresh draws, paths of them (docs/proofs/streams, 4 and 6)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError, DataError
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.k_norm.noise import law_from_dict
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import LARGEST_SCALE, RandomSource, check_scale, gaussian_integers, noisy_integers

Float = NDArray[np.float64]
Integers = NDArray[np.object_]

_BELOW = 1 - 2.0**-30  # stands above the rounding of the steps before truncation, for a million numbers
_BLOCK = 4096
_ADD: dict[str, Callable[[Float, Float], Float]] = {
    "l1": lambda total, size: total + size,
    "l2": lambda total, size: total + size**2,
    "linf": np.maximum,
}


def lattice_total(rows: NDArray[np.floating], size: int, norm: str, longest: float, step: float) -> Integers:
    """Sum of rows in whole steps, shape (size,): each is shortened to `longest` in the norm and truncated towards 0.

    A row with an entry that is not finite counts as zero; `longest` / `step` is at most 2**50.

    DataError if the shape is another or the entries are not floating-point numbers.
    """
    array = np.asarray(rows)
    if array.ndim != 2 or array.shape[1] != size or not np.issubdtype(array.dtype, np.floating):
        raise DataError(f"rows must be floating-point numbers of shape (n, {size})")
    total = zeros(1, size)[0]
    for start in range(0, len(array), _BLOCK):
        whole = _whole(array[start : start + _BLOCK].astype(np.float64), norm, longest, step)
        # 4,096 rows of at most 2**50 each fit 64 bits.
        total = total + whole.sum(axis=0).astype(object)
    return total


def _whole(block: NDArray[np.float64], norm: str, longest: float, step: float) -> NDArray[np.int64]:
    """Each row as integers, shape (n, size)."""
    with np.errstate(all="ignore"):
        block = np.where(np.isfinite(block).all(axis=1, keepdims=True), block, 0.0)
        largest = np.maximum(np.abs(block).max(axis=1), 1e-300)
        unit = block / largest[:, None]
        length = np.zeros(len(block))
        for column in np.abs(unit).T:  # column by column: the order of the sum does not depend on the block
            length = _ADD[norm](length, column)
        length = np.sqrt(length) if norm == "l2" else length
        short = (largest * length <= longest)[:, None]
        shortened = np.where(short, block, unit * (longest / np.maximum(length, 1.0))[:, None])
        return np.trunc(shortened * (_BELOW / step)).astype(np.int64)


def zeros(rows: int, size: int) -> Integers:
    """Python integers 0, shape (rows, size)."""
    return np.full((rows, size), 0, dtype=object)


class NoisePath(ABC):
    """The noise of tick after tick as integers, made of fresh draws and a memory of earlier ones.

    All arrays hold Python integers (dtype object), so that nothing overflows or is rounded unseen.
    """

    portable: ClassVar[bool] = True
    """Whether integers that the plan stores fix every step, so that all machines make the same noise of a state."""

    def fresh(self, tick: int) -> int:
        """How many fresh vectors tick `tick` = 1, 2, ... takes."""
        return 1

    @abstractmethod
    def memory(self, size: int) -> Integers:
        """The memory before the first tick, shape (rows, size)."""

    @abstractmethod
    def step(self, tick: int, fresh: Integers, memory: Integers) -> tuple[Integers, Integers]:
        """The noise of tick `tick` >= 1, shape (size,), and the memory after it; `fresh` is of shape
        (self.fresh(tick), size), `memory` of (rows, size) and left as it is."""

    def error(self) -> float:
        """By how much more than 1/2 a number of C times the noises may differ from the fresh one."""
        return 0.0


@dataclass(frozen=True)
class GaussianDraws:
    """Independent discrete Gaussian integers of the given scale, in lattice steps."""

    scale: float

    def __post_init__(self) -> None:
        check_scale(self.scale)

    def draw(self, count: int, size: int, random: RandomSource) -> Integers:
        """Python integers, shape (count, size)."""
        return gaussian_integers(count * size, self.scale, random).reshape(count, size).astype(object)

    def covariance(self, size: int) -> Float:
        """Of one vector, in squared lattice steps, shape (size, size)."""
        return self.scale**2 * np.eye(size)

    def to_dict(self) -> dict[str, Any]:
        return {"draws": "gaussian", "scale": self.scale}


@dataclass(frozen=True)
class LaplaceDraws:
    """Independent discrete Laplace integers: pure noise for the l1 norm, exact."""

    reach: int  # The most all noised vectors together move in the l1 norm, in lattice steps
    eps: float

    def __post_init__(self) -> None:
        check_scale(self.reach / self.eps)

    def draw(self, count: int, size: int, random: RandomSource) -> Integers:
        plain = np.zeros(count * size, dtype=np.int64)
        return noisy_integers(plain, self.reach, self.eps, random).reshape(count, size).astype(object)

    def covariance(self, size: int) -> Float:
        return 2 * (self.reach / self.eps) ** 2 * np.eye(size)

    def to_dict(self) -> dict[str, Any]:
        return {"draws": "laplace", **vars(self)}


@dataclass(frozen=True)
class NormDraws:
    """Noise with a density that falls with a norm, rounded to the lattice and covered by discrete Laplace noise."""

    law: Noise | KNormNoise  # In lattice steps
    cover_reach: int  # The most that all rounded vectors together may move in the l1 norm, given the ideal ones
    cover_eps: float

    def __post_init__(self) -> None:
        check_scale(max(self.law.scale, self.cover_reach / self.cover_eps))

    def draw(self, count: int, size: int, random: RandomSource) -> Integers:
        law = self.law
        drawn = [law.sample(random) if isinstance(law, KNormNoise) else law.sample(size, random) for _ in range(count)]
        whole = np.rint(np.concatenate(drawn)).astype(np.int64)
        return noisy_integers(whole, self.cover_reach, self.cover_eps, random).reshape(count, size).astype(object)

    def covariance(self, size: int) -> Float:
        cover = 2 * (self.cover_reach / self.cover_eps) ** 2 * np.eye(size)
        if isinstance(self.law, KNormNoise):
            return self.law.covariance() + cover
        return self.law.expected_square(size) / size * np.eye(size) + cover

    def to_dict(self) -> dict[str, Any]:
        return {"draws": "norm", **vars(self), "law": self.law.to_dict()}


Draws = GaussianDraws | LaplaceDraws | NormDraws


def draws_from_dict(stored: Mapping[str, Any]) -> Draws:
    """The draws whose `to_dict` gave `stored`."""
    facts = dict(stored)
    kind = {"gaussian": GaussianDraws, "laplace": LaplaceDraws, "norm": NormDraws}[facts.pop("draws")]
    return kind(**{**facts, "law": law_from_dict(facts["law"])} if "law" in facts else facts)


def law_root_mean_square(law: Noise | KNormNoise, size: int) -> float:
    """The square root of E ||b||^2."""
    return math.sqrt(law.expected_square() if isinstance(law, KNormNoise) else law.expected_square(size))


# The lattice step is 2**-RESOLUTION of a row's reach, as a power of two, unless the noise is very large
RESOLUTION = 40
LONGEST_ROW = 2.0**50  # Blocks of 4,096 rows of this length add up in 64-bit integers
MOST_NUMBERS = 10**6
REACHES = (1e-50, 1e50)  # A row's reach must lie between these, so that nothing under- or overflows
ROUNDING = 1e-11  # Relative rounding error of norms of columns, at most


def lattice_step(step: float | None, row_sensitivity: float, scale: float) -> float:
    """The spacing: as given, or a power of two, coarser if the noise's `scale` would not fit the integers.

    ArgumentError if a given step is not positive or too fine for the noise.
    """
    if step is None:
        finest = math.log2(scale / LARGEST_SCALE)
        return 2.0 ** max(math.floor(math.log2(row_sensitivity)) - RESOLUTION, math.ceil(finest) + 1)
    least = max(scale / LARGEST_SCALE, row_sensitivity / LONGEST_ROW)
    if check_positive("step", step) < least:
        raise ArgumentError(f"step must be at least {least:.3g}: finer integers would not fit 64 bits")
    return float(step)


def check_reach(name: str, value: float) -> float:
    """`value` if it is a number in `REACHES`, else ArgumentError."""
    if not REACHES[0] <= check_positive(name, value) <= REACHES[1]:
        raise ArgumentError(f"{name} must lie between {REACHES[0]:g} and {REACHES[1]:g}, got {safe_repr(value)}")
    return float(value)


def discrete_mu(eps: float, delta: float, moved: float, numbers: int, first_mu: float) -> float:
    """A mu for which discrete Gaussian noise of scale moved / mu is (eps, delta)-private (docs/proofs/streams, 4).

    ArgumentError if the lattice is too coarse for discrete noise to be like the real-valued one.
    """
    scale = moved / first_mu
    mass = numbers / (24 * scale**2)
    loss = first_mu * (60 * math.sqrt(numbers) + first_mu) / (4 * scale**2)
    if scale < 2**20 or mass > 1e-3 or loss > 1e-3 * eps:
        raise ArgumentError("step must be finer: at this spacing the noise would be too few integers wide")
    return analytic_mu(eps - loss, delta * math.exp(-mass)) * (1 - 1e-12)

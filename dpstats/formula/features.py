"""Random Fourier features: a shift-invariant kernel as some columns, with public directions (docs/proofs/kernels)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

LATTICE = 2.0**-20
"""Directions are rounded to multiples of this, so that no last digit of a quantile decides a prediction."""

MOST = 10_000
"""Features of one term, at most."""

QUANTILES: dict[str, Callable[[Array, float], Array]] = {
    "gaussian": lambda uniform, gamma: np.sqrt(2 * gamma) * special.ndtri(uniform),
    "laplacian": lambda uniform, gamma: gamma * np.tan(np.pi * (uniform - 0.5)),
    "cauchy": lambda uniform, gamma: -gamma * np.sign(uniform - 0.5) * np.log1p(-2 * np.abs(uniform - 0.5)),
}
"""Of the law of each coordinate of a direction, by kernel, of which `KERNELS` are the characteristic functions."""

KERNELS: dict[str, Callable[[Array, float], Array]] = {
    "gaussian": lambda apart, gamma: np.exp(-gamma * (apart**2).sum(axis=1)),
    "laplacian": lambda apart, gamma: np.exp(-gamma * np.abs(apart).sum(axis=1)),
    "cauchy": lambda apart, gamma: np.prod(1 / (1 + (gamma * apart) ** 2), axis=1),
}
"""The kernels, of differences of scaled inputs, shape (rows, d)."""


@dataclass(frozen=True)
class Norms:
    """What is known of the columns of a transform, whatever the row.

    Attributes
    ----------
    largest : float
        Bound on the absolute value of each column.
    l2, l1 : float
        Bounds on the norms of a row.
    """

    largest: float
    l2: float
    l1: float


@dataclass(frozen=True, eq=False)
class Features:
    """The features of rows: row-wise, with directions that were fixed before any row was seen.

    Attributes
    ----------
    lows, highs : ndarray, shape (d,)
        Ranges of the inputs, which are scaled to [-1, 1].
    directions : ndarray, shape (frequencies, d)
    phases : ndarray, shape (frequencies,), or None
        None for pairs of cosine and sine.
    """

    lows: Array
    highs: Array
    directions: Array
    phases: Array | None

    @property
    def norms(self) -> Norms:
        """Pairs have norm 1 exactly; cosines with a phase up to sqrt 2 (docs/proofs/kernels)."""
        count = len(self.directions)
        if self.phases is None:
            return Norms(count**-0.5, 1.0, (2 * count) ** 0.5)
        return Norms((2 / count) ** 0.5, 2**0.5, (2 * count) ** 0.5)

    def __call__(self, *rows: Array) -> Array:
        """The features of rows, shape (rows, D)."""
        count = len(self.directions)
        angles = np.zeros((len(rows[0]), count)) + (0.0 if self.phases is None else self.phases)
        # Input by input: a matrix product may round a row by its place in the block, which other rows decide.
        for values, low, high, weights in zip(rows, self.lows, self.highs, self.directions.T, strict=True):
            clipped = np.where(np.isfinite(values), np.clip(values, low, high), np.nan)
            angles += ((clipped - low) / (high - low) * 2 - 1)[:, None] * weights
        if self.phases is not None:
            return np.cos(angles) * (2 / count) ** 0.5
        pairs = np.stack([np.cos(angles), np.sin(angles)], axis=2)
        return pairs.reshape(len(angles), 2 * count) * count**-0.5


def rff(
    *public: Array, gamma: float, D: int, kernel: str = "gaussian", features: str = "pairs", seed: int = 0
) -> Features:
    """Random Fourier features of one or more columns (Rahimi and Recht 2007).

    Parameters
    ----------
    public : ndarray, each of shape (m,)
        Values over the declared range, to which the inputs are scaled: [-1, 1].
    gamma : float
        Of the kernel of scaled inputs; see `KERNELS`.
    D : int
        The number of columns; even for pairs.
    kernel : {"gaussian", "laplacian", "cauchy"}
    features : {"pairs", "phase"}
        (cos w'x, sin w'x) sqrt(2/D) for D/2 directions, or cos(w'x + psi) sqrt(2/D) for D of them.
    seed : int
        Other seeds give other directions; public.

    Raises
    ------
    ValueError
        If an argument is not usable.
    """
    count, positive = _checked(gamma, D, kernel, features, seed)
    spans = [_span(values) for values in public]
    key = f"dpstats rff {seed} {kernel} {features} {len(public)}"
    uniform = uniforms(key, count * (len(public) + 1)).reshape(count, len(public) + 1)
    directions = np.rint(QUANTILES[kernel](uniform[:, 1:], positive) / LATTICE) * LATTICE
    phases = None if features == "pairs" else np.rint((2 * uniform[:, 0] - 1) * np.pi / LATTICE) * LATTICE
    lows, highs = (np.array(ends) for ends in zip(*spans, strict=True))
    return Features(lows, highs, directions, phases)


def uniforms(key: str, size: int) -> Array:
    """Uniforms on (0, 1) that a public key fixes on every machine, shape (size,): midpoints of 2**52 cells."""
    words = np.frombuffer(hashlib.shake_256(key.encode()).digest(8 * size), dtype="<u8") >> np.uint64(12)
    return np.asarray((words.astype(np.float64) + 0.5) * 2.0**-52)


def _checked(gamma: object, count: object, kernel: str, features: str, seed: object) -> tuple[int, float]:
    """The number of directions, and gamma."""
    if isinstance(gamma, bool) or not isinstance(gamma, (int, float)) or not 0 < gamma < 1e6:
        raise ValueError("gamma must be a positive number below 1e6")
    if kernel not in QUANTILES:
        raise ValueError(f"kernel must be one of {list(QUANTILES)}")
    if features not in ("pairs", "phase"):
        raise ValueError("features must be 'pairs' or 'phase'")
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        raise ValueError(f"D must be a whole number of features from 1 to {MOST}")
    if features == "pairs" and count % 2:
        raise ValueError("D must be even: features='pairs' come in pairs of cosine and sine")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError("seed must be a non-negative whole number")
    return (count // 2 if features == "pairs" else count), float(gamma)


def _span(values: Array) -> tuple[float, float]:
    if np.ndim(values) != 1:
        raise ValueError("its inputs must be single columns of numbers; gamma and D are given by name")
    finite = values[np.isfinite(values)]
    if len(finite) == 0 or not finite.min() < finite.max():
        raise ValueError("an input is constant, or not finite, over the declared ranges")
    return float(finite.min()), float(finite.max())

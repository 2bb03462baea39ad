"""Uniform draws from bodies (docs/proofs/bodies, 5).

Continuous variables invert distribution functions at folded uniforms, as in `dpstats.privacy.noise`; which cell, and
which coordinates are positive, is decided by integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.privacy.bodies.blocks import Block
from dpstats.privacy.bodies.integers import draw_cell, integer_below, subset
from dpstats.privacy.randomness import RandomSource, folded

Float = NDArray[np.float64]


def gamma_variable(shape: int, random: RandomSource) -> float:
    """One Gamma variable of scale 1, each tail inverted at the distance to its own end."""
    tail, upper = folded(random, 1)
    return float((special.gammainccinv if upper[0] else special.gammaincinv)(shape, tail[0]))


def exponentials(size: int, random: RandomSource) -> Float:
    """Unit exponentials, shape (size,), of full relative precision both near 0 and far out."""
    tail, upper = folded(random, size)
    return np.where(upper, -np.log(tail), -np.log1p(-tail))


def uniform_in_simplex(size: int, random: RandomSource) -> Float:
    """A uniform point of {z >= 0, sum z <= 1}, shape (size,)."""
    parts = exponentials(size + 1, random)
    return parts[:size] / parts.sum()


def uniform_in_block(block: Block, random: RandomSource) -> Float:
    """A uniform point of the symmetric hull of a block, shape (k,)."""
    if block.kind in ("simplex", "cross"):
        signs = [2 * integer_below(2, random) - 1 for _ in range(block.size)]
        return uniform_in_simplex(block.size, random) * np.array(signs, dtype=np.float64)
    ball = block.kind == "ball"
    # The first k coordinates of a uniform point of the sphere in k + 2 dimensions are uniform in the ball.
    tail, upper = folded(random, block.size + 2 if ball else block.size)
    sign = np.where(upper, 1.0, -1.0)
    if ball:
        normal = -sign * special.ndtri(tail)
        return np.asarray(normal[: block.size] / np.linalg.norm(normal), dtype=np.float64)
    return sign * (1 - 2 * tail)


def uniform_in_hull(sizes: Sequence[int], random: RandomSource) -> tuple[float, list[Float]]:
    """A uniform point of the hull of {1} x simplices of the given sizes.

    Returns
    -------
    intercept : float
    parts : list of ndarray, shapes (k_t,)
    """
    counts = draw_cell(sizes, random)
    positive, dimension = sum(counts), sum(sizes)
    # a ~ Beta(J + 1, K - J + 1) as a share of two gammas, so that neither a nor 1 - a is a difference.
    upper, lower = gamma_variable(positive + 1, random), gamma_variable(dimension - positive + 1, random)
    total = upper + lower
    parts = []
    for size, count in zip(sizes, counts, strict=True):
        chosen = subset(size, count, random)
        part = np.empty(size)
        part[chosen] = upper / total * uniform_in_simplex(count, random)
        part[~chosen] = -lower / total * uniform_in_simplex(size - count, random)
        parts.append(part)
    return (upper - lower) / total, parts

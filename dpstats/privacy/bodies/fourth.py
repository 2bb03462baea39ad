"""Fourth moments of the length of noise, for bounds on its quantiles (docs/proofs/bodies, 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.bodies.blocks import Block
from dpstats.privacy.bodies.hull import cells, mixed_moment, node_weights, quadrature
from dpstats.privacy.bodies.image import Image

Float = NDArray[np.float64]


class Mixed(NamedTuple):
    """Mixed moments of distinct coordinates by their exponents, each of shape (N,): given a, or constant."""

    square: Float
    product: Float
    fourth: Float
    cube: Float
    squares: Float
    square_products: Float
    products: Float


def length_moments(images: Sequence[Image]) -> tuple[float, float]:
    """E||C'U||^2 and E||C'U||^4 for U uniform in the group's body, when no two maps share a column."""
    dimension = sum(image.block.size for image in images if image.block.kind == "simplex")
    rule = quadrature(dimension)
    homogenised = any(image.block.kind == "intercept" for image in images)
    mean, variance = np.zeros_like(rule.points), np.zeros_like(rule.points)
    log_density = np.zeros_like(rule.points)
    for image in images:
        if homogenised and image.block.kind == "intercept":
            mean += (2 * rule.points - 1) ** 2 * image.trace
            continue
        if homogenised and image.block.kind == "simplex":
            probabilities, log_volume = cells(image.block.size, rule.points)
            log_density += log_volume
            moments = _inside(probabilities, rule.points)
        else:
            moments = _symmetric(image.block, rule.points)
        first, second = quadratic_moments(image.matrix @ image.matrix.T, moments)
        mean += first
        variance += second - first**2
    weights = node_weights(log_density, rule.weights)
    # Given a the blocks are independent.
    return float(weights @ mean), float(weights @ (mean**2 + variance))


def quadratic_moments(gram: Float, moments: Mixed) -> tuple[Float, Float]:
    """E z'Gz and E (z'Gz)^2 for exchangeable coordinates z, by the patterns of equal indices.

    Parameters
    ----------
    gram : ndarray, shape (k, k)
        G, symmetric.
    moments : Mixed
        Of z.

    Returns
    -------
    first, second : ndarray, shape (N,)
    """
    diagonal, rows = np.diag(gram), gram.sum(axis=1)
    beside, frobenius = rows - diagonal, (gram * gram).sum(axis=1)
    trace, total = diagonal.sum(), rows.sum()
    fourth = (diagonal**2).sum()
    cube = 4 * (diagonal @ beside)
    squares = trace**2 - fourth + 2 * (frobenius.sum() - fourth)
    square_products = 2 * (diagonal @ (total - trace - 2 * beside))
    square_products += 4 * (beside**2 - frobenius + diagonal**2).sum()
    # At z = (1, ..., 1) all the patterns together make (1'G1)^2.
    products = total**2 - fourth - cube - squares - square_products
    second = fourth * moments.fourth + cube * moments.cube + squares * moments.squares
    second = second + square_products * moments.square_products + products * moments.products
    return trace * moments.square + (total - trace) * moments.product, second


def _inside(probabilities: Float, points: Float) -> Mixed:
    """Of a simplex block's part in the hull, given a."""
    patterns = ((2,), (1, 1), (4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1))
    return Mixed(*(mixed_moment(pattern, probabilities, points) for pattern in patterns))


def _symmetric(block: Block, points: Float) -> Mixed:
    """Of a uniform point of the block's symmetric hull; moments with an odd exponent vanish."""
    size = block.size
    if block.kind in ("simplex", "cross"):
        # E prod |z_i|^n_i = prod n_i! k! / (k + n)!, n = 4 in all.
        unit = 1 / math.prod(range(size + 1, size + 5))
        fourth, squares = 24 * unit, 4 * unit
    elif block.kind == "ball":
        squares = 1 / ((size + 2) * (size + 4))
        fourth = 3 * squares
    else:
        fourth, squares = 1 / 5, 1 / 9
    zero, one = np.zeros_like(points), np.ones_like(points)
    return Mixed(block.variance * one, zero, fourth * one, zero, squares * one, zero, zero)

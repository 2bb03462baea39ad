"""Upper bounds of quantiles of ||b||_2 (docs/proofs/bodies, 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import special

from dpstats.privacy.bodies.fourth import length_moments
from dpstats.privacy.bodies.image import Image
from dpstats.privacy.bodies.tails import ROUNDING, log_concave_quantile


class Part(NamedTuple):
    """One group's b_g = R C'U: the group's maps, its dimension d and the scale of R, Gamma(d + 1)."""

    images: tuple[Image, ...]
    dimension: int
    scale: float


def length_quantile(parts: Sequence[Part], square: float, probability: float) -> float:
    """A bound that ||b||_2 exceeds with probability at most 1 - `probability`.

    Parameters
    ----------
    parts : sequence of Part
        The groups.
    square : float
        E ||b||^2.
    probability : float
        In (0, 1).
    """
    dimension = sum(part.dimension for part in parts)
    reach = max(longest(part.images) * part.scale for part in parts)
    by_gauge = reach * float(special.gammaincinv(dimension, probability))
    by_moments = math.sqrt(square) * log_concave_quantile(1 - probability)
    # Cantelli's inequality, from mean and variance of ||b||^2.
    variance = max(fourth_moment(parts) - square**2, 0.0)
    cantelli = math.sqrt(square + math.sqrt(variance * probability / (1 - probability)))
    return min(by_gauge, by_moments, cantelli) * (1 + ROUNDING)


def fourth_moment(parts: Sequence[Part]) -> float:
    """E ||b||^4, or a bound on it if the intercept's map shares columns with another's."""
    shared, squares, fourths = 0.0, [], []
    apart = overlapping([image for part in parts for image in part.images])
    for part in parts:
        images, growth = part.images, math.prod(range(part.dimension + 1, part.dimension + 5)) * part.scale**4
        if apart and any(image.block.kind == "intercept" for image in images):
            shared = growth * length_moments(_only(images, constant=True))[1]
            images = _only(images, constant=False)
        square, fourth = length_moments(images)
        squares.append((part.dimension + 1) * (part.dimension + 2) * part.scale**2 * square)
        fourths.append(growth * fourth)
    total = math.fsum(squares) ** 2 + math.fsum(fourths) - math.fsum(square**2 for square in squares)
    # Minkowski's inequality in L4 adds the intercept's part to the rest.
    return float((total**0.25 + shared**0.25) ** 4)


def overlapping(images: Sequence[Image]) -> bool:
    """Whether the intercept's map shares columns with another's."""
    constants = {column for image in images if image.block.kind == "intercept" for column in image.columns}
    others = {column for image in images if image.block.kind != "intercept" for column in image.columns}
    return bool(constants & others)


def longest(images: Sequence[Image]) -> float:
    """A bound on ||C'u||_2 over a group's body, which lies in the product of the blocks' symmetric hulls."""
    constant = math.hypot(*(_longest_image(image) for image in images if image.block.kind == "intercept"))
    others = math.hypot(*(_longest_image(image) for image in images if image.block.kind != "intercept"))
    # Parts in different columns are orthogonal, others at worst parallel.
    return constant + others if overlapping(images) else math.hypot(constant, others)


def _longest_image(image: Image) -> float:
    """The largest ||C'u||_2 over a block's symmetric hull, or for a box a bound on it."""
    lengths = np.sqrt((image.matrix * image.matrix).sum(axis=1))
    if image.block.kind in ("simplex", "cross"):
        return float(lengths.max())
    spectral = float(np.linalg.norm(image.matrix, ord=2))
    if image.block.kind == "ball":
        return spectral
    # No vertex of a cube is longer than sqrt(k), and the triangle inequality.
    return min(spectral * math.sqrt(image.block.size), float(lengths.sum()))


def _only(images: Sequence[Image], *, constant: bool) -> tuple[Image, ...]:
    """The same body with all maps zero but the intercept's, or with that one zero."""
    kept = ((image, (image.block.kind == "intercept") == constant) for image in images)
    return tuple(replace(image, matrix=image.matrix * keep) for image, keep in kept)

"""Noise whose density falls with a gauge made for the design (docs/proofs/bodies)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.privacy.k_norm.blocks import ConvexBody, Image, check_images, stack_images
from dpstats.privacy.k_norm.groups import Group, check_groups, gamma_variable, group_blocks, log_normaliser
from dpstats.privacy.k_norm.quantiles import ROUNDING, GroupNorm, length_quantile, log_concave_quantile, marginal
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import RandomSource

Float = NDArray[np.float64]

ROUNDED = 1 + 1e-12
"""The gauge of a row of the design, whose bodies hold it up to rounding (docs/proofs/bodies, 5)."""


@dataclass(frozen=True, eq=False)
class KNormNoise:
    """The law of b = C'b_d with b_d of density proportional to exp(-sum_g w_g ||(b_d)_g||_g / scale).

    A row x = C'd whose blocks' parts lie in their bodies has norm at most 1: the density moves by at most
    exp(|t| / scale) when its argument moves by t x. Made by `k_norm_noise`, which finds groups and shares.
    """

    scale: float  # s, positive and finite
    images: tuple[Image, ...]  # The blocks with their maps to the p columns
    groups: tuple[tuple[int, ...], ...]  # Blocks by index; every block is in exactly one group
    shares: tuple[float, ...]  # w_g, positive, with sum 1

    # As `dpstats.privacy.Noise` has them: a density that falls exponentially, with the gauge.
    kind: ClassVar[Literal["laplace"]] = "laplace"
    norm: ClassVar[Literal["design"]] = "design"

    def __post_init__(self) -> None:
        check_images(self.images)
        check_groups(self.images, self.groups)
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ArgumentError(f"scale must be finite and positive, got {safe_repr(self.scale)}")
        if len(self.shares) != len(self.groups) or not all(share > 0 for share in self.shares):
            raise ArgumentError("shares must be positive, one a group")
        if abs(math.fsum(self.shares) - 1) > 1e-13:
            raise ArgumentError("shares must add up to 1")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KNormNoise) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.scale, self.groups, self.shares))

    def __repr__(self) -> str:
        return f"KNormNoise(kind='laplace', norm='design', scale={self.scale!r}, blocks={len(self.images)})"

    def scaled(self, scale: float) -> KNormNoise:
        """The same law at another scale."""
        law = replace(self, scale=scale)
        law.__dict__.update(bodies=self.bodies, maps=self.maps)  # whose moments and places are known
        return law

    def weighted(self, factors: Float) -> KNormNoise:
        """The law of b * factors, for positive factors of shape (p,)."""
        images = [replace(image, matrix=image.matrix * factors[list(image.columns)]) for image in self.images]
        return replace(self, images=tuple(images))

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        images = [
            {"block": asdict(image.block), "columns": list(image.columns), "matrix": image.matrix.tolist()}
            for image in self.images
        ]
        groups = [list(group) for group in self.groups]
        laid_out = {"images": images, "groups": groups, "shares": list(self.shares)}
        return {"kind": self.kind, "norm": self.norm, "scale": self.scale, **laid_out}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> KNormNoise:
        """The law whose `to_dict` gave `stored`."""
        images = tuple(
            Image(ConvexBody(**image["block"]), tuple(image["columns"]), np.asarray(image["matrix"], dtype=np.float64))
            for image in stored["images"]
        )
        groups = tuple(tuple(group) for group in stored["groups"])
        return cls(stored["scale"], images, groups, tuple(stored["shares"]))

    @cached_property
    def size(self) -> int:
        """The number of columns p."""
        return 1 + max(column for image in self.images for column in image.columns)

    @cached_property
    def bodies(self) -> tuple[Group, ...]:
        """The groups' bodies."""
        return tuple(Group(tuple(image.block for image in self._members(group))) for group in self.groups)

    @cached_property
    def maps(self) -> tuple[Float, ...]:
        """C of each group, shapes (d_g, p)."""
        return tuple(stack_images(self._members(group), self.size) for group in self.groups)

    def gauge(self, parts: Sequence[NDArray[np.floating]]) -> Float:
        """The norm of rows given by their blocks' parts, in the order of `images`, shapes (..., k_t)."""
        total: Float = np.zeros(np.shape(parts[0])[:-1])
        for body, group, share in zip(self.bodies, self.groups, self.shares, strict=True):
            total = total + share * body.gauge(np.concatenate([parts[index] for index in group], axis=-1))
        return total

    def sample(self, random: RandomSource) -> Float:
        """Draw b, shape (p,): in each group a Gamma(d + 1) radius times a uniform point of its body."""
        noise = np.zeros(self.size)
        for body, matrix, scale in zip(self.bodies, self.maps, self._scales, strict=True):
            radius = scale * gamma_variable(body.size + 1, random)
            noise += radius * body.uniform(random) @ matrix
        return noise

    def covariance(self) -> Float:
        """E b b', shape (p, p)."""
        total = np.zeros((self.size, self.size))
        for body, matrix, scale in zip(self.bodies, self.maps, self._scales, strict=True):
            square = (body.size + 1) * (body.size + 2) * scale**2
            total += square * (matrix.T @ body.second_moments @ matrix)
        return total

    def standard_deviations(self) -> Float:
        """The standard deviation of each column's noise, shape (p,)."""
        return np.sqrt(np.diag(self.covariance()))

    def expected_square(self) -> float:
        """E ||b||_2^2."""
        return float(np.trace(self.covariance()))

    def log_density(self, noise: NDArray[np.floating]) -> Float:
        """Log density at `noise`, shape (..., p), over the last axis.

        ArgumentError if there are more block coordinates than columns: the density is then an integral without a closed
        form.
        """
        matrix = np.concatenate(self.maps)
        if matrix.shape[0] != matrix.shape[1]:
            raise ArgumentError("the density is known in closed form only if the map C is invertible")
        points = noise @ np.linalg.inv(matrix)
        total: Float = np.full(points.shape[:-1], -float(np.linalg.slogdet(matrix).logabsdet))
        start = 0
        for body, scale in zip(self.bodies, self._scales, strict=True):
            part = points[..., start : start + body.size]
            total = total - body.gauge(part) / scale - log_normaliser(body, scale)
            start += body.size
        return total

    def thresholds(self, level: float, columns: Sequence[int] | None = None) -> Float:
        """Bounds t_j with P(|b_j| > t_j for some j among `columns`) <= level, shape (p,), infinite elsewhere.

        Each column has an equal part of the level. A column that is a multiple of one coordinate, or of several of a
        ball, has that coordinate's law; a sum of such parts has equal parts of the column's level, and any other column
        the bound for log-concave laws of its variance.
        """
        if not 0 < level < 1:
            raise ArgumentError(f"level must lie strictly between 0 and 1, got {safe_repr(level)}")
        chosen = list(range(self.size)) if columns is None else list(columns)
        if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(self.size)):
            raise ArgumentError("columns must be distinct columns of the design, at least one")
        each = level / len(chosen)
        bounds = log_concave_quantile(each) * (1 + ROUNDING) * self.standard_deviations()
        blocks = [
            (body, block, scale, matrix[where])
            for body, matrix, scale in zip(self.bodies, self.maps, self._scales, strict=True)
            for block, where in zip(body.blocks, body.slices, strict=True)
        ]
        for column in chosen:
            reaching = [
                (body, block, scale * _length(part[:, column]), np.count_nonzero(part[:, column]))
                for body, block, scale, part in blocks
                if part[:, column].any()
            ]
            if all(block.kind == "ball" or sources == 1 for _, block, _, sources in reaching):
                parts = [size * _quantile(body, block, each / len(reaching)) for body, block, size, _ in reaching]
                bounds[column] = parts[0] if len(parts) == 1 else min(sum(parts), float(bounds[column]))
        return np.where(np.isin(np.arange(self.size), chosen), bounds, math.inf)

    def norm_quantile(self, probability: float) -> float:
        """A bound that ||b||_2 exceeds with probability at most 1 - `probability`.

        The least of three: Cantelli's inequality for ||b||^2 from its first moments; the exact Gamma law of the norm
        times the longest row; and Markov's inequality with the moments of log-concave coordinates. At 95 % it is
        about 1.3 times the quantile.
        """
        if not 0 < probability < 1:
            raise ArgumentError(f"probability must lie strictly between 0 and 1, got {safe_repr(probability)}")
        bodies = zip(self.groups, self.bodies, self._scales, strict=True)
        parts = [GroupNorm(tuple(self._members(group)), body.size, scale) for group, body, scale in bodies]
        return length_quantile(parts, self.expected_square(), probability)

    @cached_property
    def _scales(self) -> tuple[float, ...]:
        """The scale of each group, s / w_g."""
        return tuple(self.scale / share for share in self.shares)

    def _members(self, group: Sequence[int]) -> list[Image]:
        return [self.images[index] for index in group]


def _length(part: Float) -> float:
    """The Euclidean length of a column of a map; of one entry its size, without rounding."""
    return float(np.linalg.norm(part) if np.count_nonzero(part) > 1 else np.abs(part).max())


@lru_cache(maxsize=256)
def _quantile(body: Group, block: ConvexBody, level: float) -> float:
    """The size that a coordinate of a block exceeds with this probability."""
    return marginal(body, block).quantile(level)


def k_norm_noise(images: Sequence[Image], scale: float = 1.0) -> KNormNoise:
    """The noise with the groups and shares of `group_blocks`."""
    return _unit_noise(tuple(images)).scaled(scale)


@lru_cache(maxsize=16)
def _unit_noise(images: tuple[Image, ...]) -> KNormNoise:
    """See `k_norm_noise`: the grouping takes time, and every plan of a design has the same."""
    check_images(images)
    grouping = group_blocks(images)
    return KNormNoise(1.0, images, grouping.groups, grouping.shares)


def focused_noise(images: Sequence[Image], column: int, share: float) -> KNormNoise:
    """The noise with a group of its own, of this share, for a dummy and the intercept; the usual one where it has less.

    What is to be small is the noise along the dummy's column less half of what the intercept's has there.
    """
    whole = _unit_noise(tuple(images))
    own = tuple(at for at, one in enumerate(images) if column in one.columns or one.block.kind == "intercept")
    rest = [at for at in range(len(images)) if at not in own]
    if not rest or any(len(images[at].columns) > 1 for at in own):
        return whole
    left = group_blocks([images[at] for at in rest])
    groups = (own, *(tuple(rest[at] for at in group) for group in left.groups))
    shares = [share, *((1 - share) * part for part in left.shares)]
    shaped = KNormNoise(1.0, tuple(images), groups, tuple(part / math.fsum(shares) for part in shares))
    direction = np.zeros(shaped.size)
    for at in own:
        (place,), size = images[at].columns, float(images[at].matrix[0, 0])
        direction[place] = 1 / size if place == column else -0.5 / size
    return min(shaped, whole, key=lambda law: float(direction @ law.covariance() @ direction))


def law_from_dict(stored: Mapping[str, Any]) -> Noise | KNormNoise:
    """The law whose `to_dict` gave `stored`."""
    return KNormNoise.from_dict(stored) if stored["norm"] == "design" else Noise(**stored)

"""The noise added to an objective: its law, its size, and draws from it (docs/proofs/noise)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpstats.arguments import check_choice, is_number, safe_repr
from dpstats.errors import ArgumentError
from dpstats.privacy.randomness import RandomSource, folded_uniforms

Kind = Literal["laplace", "gaussian"]
Norm = Literal["l1", "l2", "linf"]
Float = NDArray[np.float64]

# Points of the grid for laws of sums, and a bound on the rounding error of the distribution function of such a sum.
_GRID = 2**17
_FFT_ERROR = 1e-8

_ORDER: dict[str, float] = {"l1": 1, "l2": 2, "linf": math.inf}


@dataclass(frozen=True)
class Noise:
    """A law for the noise vector b of shape (p,).

    Attributes
    ----------
    kind : {"laplace", "gaussian"}
        Density proportional to exp(-||b|| / scale), or normal with covariance scale^2 I.
    norm : {"l1", "l2", "linf"}
        The norm in the Laplace density; always "l2" for Gaussian noise.
    scale : float
        Positive and finite.

    Raises
    ------
    ArgumentError
        If a field is outside the values above.

    Examples
    --------
    >>> import dpstats as dp
    >>> noise = dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, eps=1.0).noise
    >>> noise.kind
    'laplace'
    """

    kind: Kind
    norm: Norm
    scale: float

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(Kind))
        check_choice("norm", self.norm, get_args(Norm))
        if self.kind == "gaussian" and self.norm != "l2":
            raise ArgumentError("norm must be 'l2' for Gaussian noise")
        if not is_number(self.scale) or self.scale <= 0:
            raise ArgumentError(f"scale must be finite and positive, got {safe_repr(self.scale)}")

    def scaled(self, scale: float) -> Noise:
        """The same law at another scale.

        Examples
        --------
        >>> Noise("laplace", "l2", 3.0).scaled(2.0)
        Noise(kind='laplace', norm='l2', scale=2.0)
        """
        return replace(self, scale=scale)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON.

        Examples
        --------
        >>> Noise(**Noise("laplace", "l2", 3.0).to_dict()).scale
        3.0
        """
        return asdict(self)

    def sample(self, size: int, random: RandomSource) -> Float:
        """Draw b, shape (size,), by inverting distribution functions at the source's uniforms.

        Laplace noise in l2 is a Gamma(size) radius times a uniform direction; in linf a Gamma(size + 1) radius times a
        uniform point of the cube; in l1 independent Laplace variables (docs/proofs/noise).

        Examples
        --------
        >>> from dpstats.privacy.randomness import random_source
        >>> Noise("laplace", "l2", 3.0).sample(2, random_source(1)).shape
        (2,)
        """
        size = _check_size(size)
        tail, upper = folded_uniforms(random, size)
        sign = np.where(upper, 1.0, -1.0)
        if self.kind == "gaussian":
            return -self.scale * sign * special.ndtri(tail)
        if self.norm == "l1":
            return -self.scale * sign * np.log(2 * tail)
        if self.norm == "linf":
            return self.scale * _gamma(size + 1, random) * sign * (1 - 2 * tail)
        direction = -sign * special.ndtri(tail)
        return self.scale * _gamma(size, random) * (direction / np.linalg.norm(direction))

    def expected_square(self, size: int) -> float:
        """E ||b||_2^2 for b of shape (size,).

        Examples
        --------
        >>> Noise("gaussian", "l2", 3.0).expected_square(2)
        18.0
        """
        size = _check_size(size)
        factor = {"l1": 2.0 * size, "l2": size * (size + 1.0), "linf": size * (size + 1.0) * (size + 2.0) / 3}
        return self.scale * self.scale * (size if self.kind == "gaussian" else factor[self.norm])

    def norm_quantile(self, size: int, probability: float) -> float:
        """A bound that ||b||_2 exceeds with probability at most 1 - `probability`.

        Exact for Gaussian and l2 Laplace noise. For l1 and linf an upper bound that rounds each square up to a fine
        grid, within 1 % up to a thousand columns (docs/proofs/noise).

        Raises
        ------
        ArgumentError
            If `probability` is not strictly between 0 and 1 or `size` is not a positive integer.

        Examples
        --------
        >>> round(Noise("laplace", "l2", 3.0).norm_quantile(2, 0.95), 1)
        14.2
        """
        size = _check_size(size)
        if not 0 < probability < 1:
            raise ArgumentError(f"probability must lie strictly between 0 and 1, got {safe_repr(probability)}")
        if self.kind == "gaussian":
            unit = math.sqrt(2 * float(special.gammaincinv(size / 2, probability)))
        elif self.norm == "l2":
            unit = float(special.gammaincinv(size, probability))
        elif self.norm == "l1":
            unit = _l1_quantile(size, probability)
        else:
            unit = _linf_quantile(size, probability)
        return self.scale * unit

    def log_density(self, noise: NDArray[np.floating]) -> float | Float:
        """Log density at `noise`, shape (..., p), over the last axis.

        Examples
        --------
        >>> bool(Noise("laplace", "l2", 3.0).log_density(np.ones(2)) < 0)
        True
        """
        size = noise.shape[-1]
        length = np.linalg.norm(noise, ord=_ORDER[self.norm], axis=-1) / self.scale
        if self.kind == "gaussian":
            return -(length**2) / 2 - size * math.log(self.scale * math.sqrt(2 * math.pi))
        # The density integrates to p! times the volume of the unit ball times scale^p.
        log_volume = {
            "l1": size * math.log(2) - math.lgamma(size + 1),
            "l2": size / 2 * math.log(math.pi) - math.lgamma(size / 2 + 1),
            "linf": size * math.log(2),
        }[self.norm]
        return -length - math.lgamma(size + 1) - log_volume - size * math.log(self.scale)


def _check_size(size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise ArgumentError(f"size must be a positive integer, got {safe_repr(size)}")
    return int(size)


def _gamma(shape: int, random: RandomSource) -> float:
    """One Gamma variable of scale 1; small uniforms give large ones."""
    tail, upper = folded_uniforms(random, 1)
    return float((special.gammaincinv if upper[0] else special.gammainccinv)(shape, tail[0]))


def _sum_above(size: int, distribution: Float, tilt: float = 0.0) -> Float:
    """Law on a grid of a sum of `size` independent variables, each rounded up to the grid.

    `distribution` holds the distribution function of one variable at the grid points 0, 1, 2, ... (in grid steps),
    shape (points,). Sums beyond the grid wrap around, damped by exp(-tilt).
    """
    points = len(distribution)
    damping = np.exp(-tilt * np.arange(points) / points)
    spectrum = np.fft.rfft(np.diff(distribution, prepend=0.0) * damping)
    return np.maximum(np.fft.irfft(spectrum**size, points), 0) / damping


def _l1_quantile(size: int, probability: float) -> float:
    """Upper bound of the quantile of sqrt(sum of squares of `size` unit exponentials)."""
    # ||b||_2 <= ||b||_1, and Cantelli's inequality: the squares have mean 2 and variance 20.
    cantelli = 2 * size + math.sqrt(20 * size * probability / (1 - probability))
    bound = min(float(special.gammaincinv(size, probability)), math.sqrt(cantelli))
    if 1 - probability < 1e-6 or size > _GRID // 4:
        return bound
    # Room on the grid for `size` roundings, each of less than a step.
    grid = np.linspace(0, 1.01 * bound**2 / (1 - size / _GRID), _GRID)
    law = _sum_above(size, -np.expm1(-np.sqrt(grid)), tilt=20.0)
    reached = int(np.searchsorted(np.cumsum(law), probability + _FFT_ERROR))
    return min(bound, math.sqrt(grid[reached])) if reached < _GRID else bound


def _linf_quantile(size: int, probability: float) -> float:
    """Upper bound of the quantile of R |U|, R Gamma(size + 1) and U uniform in the cube [-1, 1]^size."""
    by_radius = math.sqrt(size) * float(special.gammaincinv(size, probability))  # ||b||_2 <= sqrt(p) ||b||_inf
    # The step is chosen so that `size` variables of at most 1, rounded up, stay on the grid.
    step = size / (_GRID - 1 - size) if size < _GRID // 2 else 2.0
    grid = step * np.arange(_GRID)
    law = _sum_above(size, np.sqrt(np.minimum(grid, 1)))
    kept = law > _FFT_ERROR / _GRID
    lengths, weights = np.sqrt(grid[kept]), law[kept]

    def excess(bound: float) -> float:
        exceeds = special.gammaincc(size + 1, bound / np.maximum(lengths, 1e-300))
        return float(weights @ exceeds) - (1 - probability - 2 * _FFT_ERROR)

    if excess(by_radius) >= 0:
        return by_radius
    return float(optimize.brentq(excess, 0.0, by_radius, rtol=1e-9)) * (1 + 1e-8)

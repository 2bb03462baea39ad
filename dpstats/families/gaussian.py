"""Least squares up to a residual cap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from dpstats.errors import ArgumentError
from dpstats.families.base import Array, Family, LossCurve, check_cap, closed_cap, declared_range, one_cell
from dpstats.wording import argument

# The default cap as a multiple of half the response's range.
DEFAULT_CAP = 0.25


@dataclass(frozen=True)
class Gaussian(Family):
    """Squared loss r^2 / 2, r = eta - y, while |r| <= residual_cap; linear beyond (docs/proofs/families).

    It is exactly ordinary least squares for every row whose residual stays within the cap. The loss at eta = 0, a
    constant of the row, is left out.

    Parameters
    ----------
    residual_cap : float, optional
        The cap tau. For plain arrays in the units of endog; with a formula in the units of the response, which is
        scaled to [-1, 1] before fitting. By default an eighth of the width of the response's range for coefficients
        alone, and .9 half widths of a bought interval, or of the range, with standard errors (docs/proofs/purchases):
        noise grows with the cap, and rows beyond it still have influence, as in Huber's regression (docs/defaults).

    Raises
    ------
    ArgumentError
        If the cap is not a finite positive number.

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"x": (0, 1), "y": (0, 100)}
    >>> narrow = dp.plan("y ~ x", domain, 1.0, family=dp.families.Gaussian(residual_cap=5.0))
    >>> narrow.noise.scale < dp.plan("y ~ x", domain, 1.0).noise.scale  # noise follows the cap
    True
    """

    residual_cap: float | None = None

    name: ClassVar[str] = "gaussian"
    link: ClassVar[str] = "identity"
    signed: ClassVar[bool] = False
    response: ClassVar[Literal["continuous", "binary", "count"]] = "continuous"
    typical_norm: ClassVar[float] = 1.75
    typical_size: ClassVar[float] = 0.75
    typical_intercept: ClassVar[float] = 0.3

    def __post_init__(self) -> None:
        if self.residual_cap is not None:
            # In the units of any response; plans ask for `CAPS` of what it is in model units.
            check_cap("residual_cap", self.residual_cap, (5e-324, 1e308))

    @property
    def lipschitz(self) -> float:
        """L = residual_cap."""
        return closed_cap("residual_cap", self.residual_cap)

    @property
    def curvature_bound(self) -> float:
        """1: the curvature of r^2 / 2."""
        return 1.0

    def curve(self, size: int = 1000) -> LossCurve:
        """One cell: the curve reaches its corner (residual_cap, 1)."""
        return one_cell(self.lipschitz, 1.0)

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        cap = eta.dtype.type(self.lipschitz)
        residual = eta - endog
        gradient, start = np.clip(residual, -cap, cap), np.clip(-endog, -cap, cap)
        # With c the clipped residual, r^2/2 inside and cap |r| - cap^2/2 outside are both c (r - c/2). Its value at
        # eta = 0, with c = start, is taken off: a response far beyond the cap would otherwise leave no digit of a sum
        # for eta, and a solver that looks at sums would be led astray by one row.
        value = gradient * eta - (gradient - start) * (endog + (gradient + start) / 2)
        return value, gradient, (gradient == residual).astype(eta.dtype)

    def slope(self, eta: Array, endog: Array) -> Array:
        """The residual within the cap."""
        cap, residual = eta.dtype.type(self.lipschitz), eta - endog
        return np.clip(residual, -cap, cap, out=residual)

    def weight(self, eta: Array, endog: Array) -> Array:
        """1 within the cap, 0 beyond."""
        return (np.abs(eta - endog) <= eta.dtype.type(self.lipschitz)).astype(eta.dtype)

    def slope_and_weight(self, eta: Array, endog: Array) -> tuple[Array, Array]:
        """Both, of the same residuals."""
        cap, residual = eta.dtype.type(self.lipschitz), eta - endog
        return np.clip(residual, -cap, cap), (np.abs(residual) <= cap).astype(eta.dtype)

    def mean(self, eta: Array) -> Array:
        """Eta itself."""
        return eta

    def clip_response(self, endog: Array) -> Array:
        """The response unchanged: the residual cap bounds its influence, whatever it is."""
        return endog

    def resolve(self, response_range: tuple[float, float] | None) -> Gaussian:
        """Set an open residual_cap from the response's range."""
        if self.residual_cap is not None:
            return self
        low, high = declared_range(response_range, "residual_cap")
        return replace(self, residual_cap=DEFAULT_CAP * (high - low) / 2)


def capped(residual_cap: float, family: object) -> Gaussian:
    """Least squares with this cap; ArgumentError if another `family` is asked for, or one with caps of its own."""
    if not isinstance(family, str) or family != "gaussian":
        gaussian = argument("family", "gaussian")
        raise ArgumentError(f"residual_cap is for {gaussian}; leave it out, or give the family its own cap")
    return Gaussian(residual_cap)

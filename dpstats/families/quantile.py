"""Quantile regression: the pinball loss with a rounded corner."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from scipy import special

from dpstats.arguments import is_number, safe_repr
from dpstats.errors import ArgumentError
from dpstats.families.base import Array, Family, LossCurve, check_cap, closed_cap, declared_range

QUANTILES = (1e-4, 1 - 1e-4)
"""Quantiles lie between these."""

DEFAULT_H = 0.08
"""The default width over sqrt(q (1 - q)) and half the response's range, or a bought interval, for `USUAL_ROWS`."""

USUAL_ROWS = 1e4
"""Rows times eps that the default width is for. It grows with the cube root of fewer, up to `MOST_WIDENED`."""

NARROWING = -1 / 2
"""The power of more of them that it falls with. Its bias falls with the square, and so faster than standard errors."""

MOST_NARROWED, MOST_WIDENED = 0.1, 1.25
"""The least and the greatest multiple of it for other numbers of rows."""


def is_quantile(value: object) -> bool:
    """Whether `value` is a number from 0.0001 to 0.9999."""
    return is_number(value) and QUANTILES[0] <= value <= QUANTILES[1]


@dataclass(frozen=True)
class Quantile(Family):
    """Pinball loss q (y - eta)_+ + (1 - q) (eta - y)_+, its corner rounded by h log(1 + exp((eta - y) / h)).

    It is the loss of statsmodels' ``QuantReg`` averaged over a shift of the response that has a logistic law of scale h
    (docs/proofs/families). Its slope is at most max(q, 1 - q) however far a response is off, so noise does not grow
    with the range of the response.

    Parameters
    ----------
    q : float
        The quantile of the response, from 0.0001 to 0.9999.
    h : float, optional
        Width of the rounded corner, in units of the response (plain arrays: of endog). A smaller one is closer to the
        quantile itself and needs more curvature. By default 0.08 sqrt(q (1 - q)) times half the width of a bought
        interval of the response, or of its range, where rows times eps is 10,000; less for more of them
        (docs/proofs/purchases).

    Raises
    ------
    ArgumentError
        If `q` or `h` is not a number in its range.

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"x": (0, 1), "y": (0, 100)}
    >>> dp.plan("y ~ x", domain, 1.0, family=dp.families.Quantile(0.9, h=2.0)).family.lipschitz
    0.9
    """

    q: float = 0.5
    h: float | None = None

    name: ClassVar[str] = "quantile"
    link: ClassVar[str] = "identity"
    signed: ClassVar[bool] = False
    response: ClassVar[Literal["continuous", "binary", "count"]] = "continuous"
    models_mean: ClassVar[bool] = False
    typical_norm: ClassVar[float] = 3.5
    typical_size: ClassVar[float] = 1.5
    typical_intercept: ClassVar[float] = 0.6

    def __post_init__(self) -> None:
        if not is_quantile(self.q):
            raise ArgumentError(f"q must be a number from 0.0001 to 0.9999, such as 0.5, got {safe_repr(self.q)}")
        if self.h is not None:
            # In the units of any response; plans ask for `CAPS` of what it is in model units.
            check_cap("h", self.h, (5e-324, 1e308))

    @property
    def title(self) -> str:
        """The family and its quantile."""
        return f"quantile, q = {self.q:.4g}"

    @property
    def target(self) -> str:
        """The quantile."""
        return "the median" if self.q == 0.5 else f"the {self.q:.4g} quantile"

    @property
    def lipschitz(self) -> float:
        """max(q, 1 - q)."""
        return max(self.q, 1 - self.q)

    @property
    def curvature_bound(self) -> float:
        """1 / (4 h): l'' = p (1 - p) / h."""
        return 0.25 / closed_cap("h", self.h)

    def curve(self, size: int = 1000) -> LossCurve:
        """Cells between L - (1 - sin(phi_i)) / 2, phi uniform on [0, pi/2], where l'' <= cos(phi)^2 / (4 h).

        Smaller gradients lie in the first cell.
        """
        return _curve(self.lipschitz, closed_cap("h", self.h), size)

    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        h, q = eta.dtype.type(closed_cap("h", self.h)), eta.dtype.type(self.q)
        far, start = (eta - endog) / h, -endog / h
        small = np.exp(-np.abs(far))
        inverse = 1 / (1 + small)
        chance = np.where(far >= 0, inverse, small * inverse)
        # The loss at eta = 0, a constant of the row, is left out: beside a response far off no digit of a sum would
        # be left for eta. So is what max(far, 0) and max(start, 0) have in common.
        bends = np.log1p(small) - np.log1p(np.exp(-np.abs(start)))
        between = np.where(start >= 0, np.maximum(eta, endog), np.maximum(eta - endog, 0))
        return h * bends + between - q * eta, chance - q, small * inverse * inverse / h

    def slope(self, eta: Array, endog: Array) -> Array:
        """p - q, p the share of the shifted responses that lie below eta."""
        with np.errstate(over="ignore"):
            far = (eta - endog) / eta.dtype.type(closed_cap("h", self.h))
        return np.asarray(special.expit(far, out=far) - eta.dtype.type(self.q))

    def mean(self, eta: Array) -> Array:
        """Eta itself: the quantile."""
        return eta

    def clip_response(self, endog: Array) -> Array:
        """The response unchanged: the slope is bounded whatever it is."""
        return endog

    def resolve(self, response_range: tuple[float, float] | None) -> Quantile:
        """Set an open h from the response's range."""
        if self.h is not None:
            return self
        low, high = declared_range(response_range, "h")
        return replace(self, h=default_width(self.q) * (high - low) / 2)


def default_width(q: float, information: float | None = None) -> float:
    """The width of a quantile over half that of an interval of the response; `information` is rows times eps."""
    # A noisy number of rows may be negative; the width of so few is the greatest.
    more = (USUAL_ROWS if information is None else max(information, 1.0)) / USUAL_ROWS
    factor = more ** (NARROWING if more > 1 else -1 / 3)
    return DEFAULT_H * math.sqrt(q * (1 - q)) * min(max(factor, MOST_NARROWED), MOST_WIDENED)


@lru_cache(maxsize=64)
def _curve(lipschitz: float, h: float, size: int) -> LossCurve:
    """See `Quantile.curve`: a plan needs it a few dozen times."""
    phi = np.linspace(0.0, np.pi / 2, size)
    gradient = lipschitz - (1 - np.sin(phi)) / 2
    gradient[-1] = lipschitz
    return LossCurve(gradient, np.cos(np.concatenate(([0.0], phi[:-1]))) ** 2 * (0.25 / h))

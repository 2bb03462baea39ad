"""What a loss must declare so that privacy can be planned and the optimum found."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError

Array = NDArray[np.floating]

# Rows handled at a time: a handful of temporaries of this length stay in a core's cache.
BLOCK_ROWS = 8192


class Derivatives(NamedTuple):
    """A loss and its first two derivatives in eta, each of shape (rows,), in the dtype of eta."""

    value: Array
    gradient: Array
    curvature: Array


@dataclass(frozen=True, eq=False)
class LossCurve:
    """Upper corners of cells that cover the loss curve {(|l'|, l'')} (docs/proofs/families).

    Every point (g, h) of the curve is dominated by some pair: g <= gradient[i] and h <= curvature[i], so that a
    supremum over the pairs of anything increasing in both is an upper bound of the supremum over the curve.

    Attributes
    ----------
    gradient : ndarray (cells,)
        Strictly increasing, ending at L.
    curvature : ndarray (cells,)
        Not increasing: a pair with less of both would be dominated by a later one.
    """

    gradient: NDArray[np.float64]
    curvature: NDArray[np.float64]

    def __post_init__(self) -> None:
        # Curves are kept and shared between plans.
        self.gradient.flags.writeable = False
        self.curvature.flags.writeable = False


@lru_cache(maxsize=64)
def one_cell(gradient: float, curvature: float) -> LossCurve:
    """The curve of a family that reaches its corner, both derivatives extreme at once."""
    return LossCurve(np.array([gradient]), np.array([curvature]))


OF_PIECES = {"hazard": "docs/proofs/survival", "ordinal": "docs/proofs/ordinal"}
"""Families whose rows are pieces of records that a verb of their name makes, with the page that proves its bounds."""


class Family(ABC):
    """A convex GLM loss l(eta; y), eta = x'theta, with bounded l' and l''.

    Subclasses are frozen dataclasses whose fields are the caps. ``signed`` states that l' has one sign for a given
    record at any eta (docs/proofs/objective uses it in the Gaussian calibration).

    Examples
    --------
    >>> import dpstats as dp
    >>> logistic = dp.families.Binomial()
    >>> logistic.lipschitz, logistic.curvature_bound
    (1.0, 0.25)
    """

    name: ClassVar[str]
    link: ClassVar[str]
    signed: ClassVar[bool]
    response: ClassVar[Literal["continuous", "binary", "count", "class"]]
    models_mean: ClassVar[bool] = True
    """Whether eta says what the mean of the response is, and with it how the response varies."""
    relative_slope: ClassVar[float | None] = None
    """sup |eta| l'' of a family whose w l' is computed to three units in the last place *of itself*; None of others.

    Also l'' <= |l'| and |(log l'')'| <= 1: the sum of |l'| bounds rounding errors (docs/proofs/release).
    """
    typical_norm: ClassVar[float] = 7.5
    """Norm of the coefficients in model units that the default curvature is chosen for, rows being of norm one."""
    typical_size: ClassVar[float] = 2.5
    """No coefficient is expected to be larger than this where there are few."""
    typical_intercept: ClassVar[float] = 1.5
    """What is expected of the intercept, in units of the linear predictor."""

    @property
    def title(self) -> str:
        """The family as titles name it.

        Examples
        --------
        >>> dp.families.NegativeBinomial(alpha=0.5).title
        'negative binomial, alpha = 0.5'
        """
        return self.name

    @property
    def target(self) -> str:
        """What predictions are of the response, in words.

        Examples
        --------
        >>> dp.families.Quantile(0.9).target
        'the 0.9 quantile'
        """
        return "the mean"

    @property
    def pieced(self) -> bool:
        """Whether a record is several rows of a design, in several directions, that a verb of its own makes of it.

        Examples
        --------
        >>> logistic.pieced
        False
        """
        return False

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """L = sup |l'| over all eta and all responses in the family's domain."""

    @property
    @abstractmethod
    def curvature_bound(self) -> float:
        """sup l''."""

    @abstractmethod
    def curve(self, size: int = 1000) -> LossCurve:
        """Cover the loss curve with at most about `size` cells.

        Examples
        --------
        >>> logistic.curve().gradient.shape == logistic.curve().curvature.shape
        True
        """

    @abstractmethod
    def _block(self, eta: Array, endog: Array) -> tuple[Array, Array, Array]:
        """Loss, l' and l'' for a block short enough for the cache."""

    @abstractmethod
    def mean(self, eta: Array) -> Array:
        """The response-scale prediction for a linear predictor (inverse link; for SVMs the 0/1 decision).

        Examples
        --------
        >>> logistic.mean(np.zeros(1))
        array([0.5])
        """

    @abstractmethod
    def clip_response(self, endog: Array) -> Array:
        """Map each response to the family's domain, row by row; NaN stays NaN (a missing row).

        Examples
        --------
        >>> dp.families.Poisson(4.0, y_max=5).clip_response(np.array([2.0, 9.0]))
        array([2., 5.])
        """

    def derivatives(self, eta: Array, endog: Array) -> Derivatives:
        """Loss, l' and l'' at eta, shape (rows,), keeping eta's dtype (float64 or longdouble).

        `endog` has shape (rows,) and lies in the family's domain (see `clip_response`). No value of eta, however
        large, overflows in l' or l''.

        Examples
        --------
        >>> logistic.derivatives(np.zeros(1), np.ones(1)).gradient
        array([-0.5])
        """
        out = Derivatives(np.empty_like(eta), np.empty_like(eta), np.empty_like(eta))
        with np.errstate(over="ignore"):
            for start in range(0, len(eta), BLOCK_ROWS):
                rows = slice(start, start + BLOCK_ROWS)
                for target, block in zip(out, self._block(eta[rows], endog[rows]), strict=True):
                    target[rows] = block
        return out

    def slope(self, eta: Array, endog: Array) -> Array:
        """l' alone, where neither the loss nor l'' is wanted; shape (rows,), in the dtype of eta.

        Examples
        --------
        >>> logistic.slope(np.zeros(1), np.ones(1))
        array([-0.5])
        """
        return self.derivatives(eta, endog).gradient

    def weight(self, eta: Array, endog: Array) -> Array:
        """l'' alone; shape (rows,), in the dtype of eta.

        Examples
        --------
        >>> logistic.weight(np.zeros(1), np.ones(1))
        array([0.25])
        """
        return self.derivatives(eta, endog).curvature

    def slope_and_weight(self, eta: Array, endog: Array) -> tuple[Array, Array]:
        """l' and l''; shape (rows,) each, in the dtype of eta.

        Examples
        --------
        >>> logistic.slope_and_weight(np.zeros(1), np.ones(1))
        (array([-0.5]), array([0.25]))
        """
        _, slope, weight = self.derivatives(eta, endog)
        return slope, weight

    def resolve(self, response_range: tuple[float, float] | None) -> Family:
        """Fill in missing caps from the public range of the response (after scaling); the base class has no caps.

        Examples
        --------
        >>> dp.families.Gaussian().resolve((-1.0, 1.0)).residual_cap > 0
        True
        """
        return self

    def to_dict(self) -> dict[str, Any]:
        """The name and the caps, for JSON; `dpstats.families.from_dict` reads it back.

        Examples
        --------
        >>> dp.families.from_dict(logistic.to_dict()) == logistic
        True
        """
        return {"name": self.name} | {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def pad_rows(values: NDArray[Any]) -> NDArray[Any]:
    """`values` with ones up to a multiple of 64, shape (rows,).

    A vectorised exponential or logarithm may round what is left over at the end of an array in another way: then the
    number of rows would move others.
    """
    beyond = -len(values) % 64
    return np.concatenate([values, np.ones(beyond)]) if beyond else values


CAPS = (1e-50, 1e50)
"""Caps lie between these: squares of them, times that of a count of rows, are normal floats, whatever the rows are."""


def check_cap(name: str, value: object, within: tuple[float, float] = CAPS) -> None:
    """Raise ArgumentError unless `value` is a positive number from one end to the other."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not within[0] <= value <= within[1]:
        raise ArgumentError(
            f"{name} must be a positive number from {within[0]:g} to {within[1]:g}, got {safe_repr(value)}"
        )


def closed_cap(name: str, value: float | None) -> float:
    """The cap's value; ArgumentError if it is still open."""
    if value is None:
        raise ArgumentError(f"{name} is not set: pass {name}, or declare the range of the response in the domain")
    return float(value)


def declared_range(response_range: tuple[float, float] | None, name: str) -> tuple[float, float]:
    """The (low, high) of a declared range, checked; ArgumentError tells to set `name` when there is none."""
    if response_range is None:
        raise ArgumentError(f"{name} is not set: pass {name}, or declare the range of the response in the domain")
    low, high = response_range
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ArgumentError(f"response_range must be finite with low < high, got {safe_repr(response_range)}")
    return float(low), float(high)

"""The weights of the parts of a row's vector, from public facts: the least noise in typical coefficients' equations.

docs/proofs/streams, 8 and 9.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from scipy import optimize

from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family
from dpstats.formula.design import DesignSpec
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information import MatrixNoise, design_metric
from dpstats.privacy.information.statistics import SQUARE_SHARE, frobenius_sensitivity
from dpstats.streaming.vectors import RowVector

FREE_WEIGHT = math.sqrt(12) * (1 - 1e-12)
"""Up to this weight the Hessian of a logistic regression costs nothing beside its gradient (docs/proofs/streams, 9)."""

WIDEST = 8.0
"""Natural logarithm of the farthest weight from 1 that is looked for."""

FARTHEST = 40.0
"""Linear predictors up to which a loss curve is followed; a row beyond is cut."""


def linear_vector(
    design: DesignSpec, family: Family, radius: float, adjacency: Adjacency, *, square: bool
) -> tuple[RowVector, float]:
    """The vector of a linear model's rows, and the most that a neighbour moves their sum by.

    Parameters
    ----------
    design : DesignSpec
    family : Family
    radius : float
        Public guess at the norm of the coefficients in the metric.
    adjacency : {"add_remove", "replace_one"}
    square : bool
        Whether the sum of y^2 is wanted, from which errors follow.
    """
    metric = rows_metric(design)
    size = metric.size

    def squared(weight: float) -> float:
        if not square:
            return 0.0
        free = weight / math.sqrt(2)
        return free if adjacency == "replace_one" else min(free, math.sqrt(SQUARE_SHARE * (1 + weight**2)))

    def moved(weight: float) -> float:
        if square:
            return frobenius_sensitivity(weight, squared(weight), adjacency)
        return frobenius_sensitivity(weight, 1e-9 * weight, adjacency)

    def noise(log_weight: float) -> float:
        weight = math.exp(log_weight)
        return moved(weight) ** 2 * (size / weight**2 + (size + 1) * radius**2 / 2)

    weight = math.exp(_least(noise))
    reach = math.sqrt(1 + weight**2 + squared(weight) ** 2)
    return RowVector("linear", family, metric, 1.0, weight, squared(weight), reach), moved(weight)


def renewed_vector(design: DesignSpec, family: Family, radius: float, adjacency: Adjacency) -> tuple[RowVector, float]:
    """The vector of rows linearised at released coefficients, and the most that a neighbour moves their sum by.

    Parameters as for `linear_vector`. To replace a row moves the sum by twice the reach.

    Raises
    ------
    ArgumentError
        If the family's loss is not made of a score and a weight that its curve bounds.
    """
    metric, offset = rows_metric(design), design.offset_bound
    size = metric.size

    def noise(log_weight: float) -> float:
        inner = math.exp(log_weight)
        return reach_of(family, inner, offset) ** 2 * (size + (size + 1) * radius**2 / (2 * inner**2))

    free = isinstance(family, Binomial) and offset == 0
    inner = FREE_WEIGHT if free else math.exp(_least(noise))
    reach = reach_of(family, inner, offset)
    if not math.isfinite(reach):
        raise ArgumentError(f"family {family.name!r} has no bounded scores for mechanism='renewable': give it caps")
    rows = 2 if adjacency == "replace_one" else 1
    return RowVector("renewable", family, metric, inner, 1.0, 0.0, reach), rows * reach


def reach_of(family: Family, inner: float, offset: float = 0.0) -> float:
    """sup of ((w (eta - o) - l')^2 + (inner w)^2)^1/2 along the loss curve, up to a grid: rows beyond it are cut.

    Over offsets o up to `offset` on either side, at the ends of which it is greatest. For a logistic regression
    without one 1 up to `FREE_WEIGHT`.
    """
    if isinstance(family, Binomial) and inner <= FREE_WEIGHT and offset == 0:
        return 1.0
    most = 0.0
    for outcome, added in itertools.product(_outcomes(family), sorted({-offset, offset})):
        low, high = -FARTHEST, FARTHEST
        for _ in range(3):  # closer and closer to where it is greatest, which may be at a kink
            eta = np.linspace(low, high, 2001)
            found = family.derivatives(eta, np.full_like(eta, outcome))
            squares = (found.curvature * (eta - added) - found.gradient) ** 2 + (inner * found.curvature) ** 2
            place, step = int(np.argmax(squares)), (high - low) / 2000
            low, high = eta[place] - step, eta[place] + step
            most = max(most, float(squares[place]))
    return math.sqrt(most)


def rows_metric(design: DesignSpec) -> MatrixNoise:
    """The coordinates in which rows are measured: |z| <= 1, and the noise is the same in every direction."""
    diagonal, mixing = design_metric(design.images)
    return MatrixNoise("normal", 1.0, diagonal, mixing)


def _outcomes(family: Family) -> tuple[float, ...]:
    """The ends of the response's range: a slope is linear, or one of two, in between."""
    if family.response == "count":
        return 0.0, float(getattr(family, "y_max", 1.0))
    return (0.0, 1.0) if family.response == "binary" else (-1.0, 1.0)


def _least(noise: Callable[[float], float]) -> float:
    found = optimize.minimize_scalar(lambda at: math.log(noise(at)), bounds=(-WIDEST, WIDEST), method="bounded")
    return float(found.x)

"""How much noise an objective needs: both factors of the density ratio bounded together (docs/proofs/objective).

The noise on the gradient and the Jacobian depend on the same eta, so the worst case is sought along the family's loss
curve instead of bounding each at its own worst point. Every figure returned is on the safe side: scales are rounded
up by less than 1e-3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstats.arguments import check_choice, check_flag, is_number, safe_repr
from dpstats.errors import ArgumentError
from dpstats.families import Family, get_family
from dpstats.families.base import check_cap
from dpstats.privacy.gaussian import gaussian_eps, gaussian_mu
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget, check_delta
from dpstats.privacy.k_norm import ROUNDED, Image, KNormNoise, k_norm_noise
from dpstats.privacy.noise import Kind, Noise, Norm

# Cells of the loss curve: fine enough for every scale to be within 1e-3 of the best.
CELLS = 16385
# Relative allowance for rounding errors in the pure calibration.
ROUNDING = 1e-13
# Which norm to prefer when the number of columns is not known: E||b||_2^2 grows as p, p^2 and p^3.
_WIDE_ORDER: tuple[Norm, ...] = ("l1", "l2", "linf")


def joint_scale(
    family: Family | str,
    *,
    eps: float,
    delta: float = 0.0,
    curvature_ratio: float,
    row_norm: float,
    adjacency: Adjacency = "add_remove",
    shared: bool = False,
) -> float:
    """The least noise scale at which the joint bound guarantees (eps, delta).

    Parameters
    ----------
    family : Family or str
        The loss, its caps set; or the name of one that has no caps to set.
    eps, delta : float
        The budget. With ``delta == 0`` the scale is that of Laplace noise, otherwise the standard deviation of
        Gaussian noise; a positive delta below 1e-290 is refused.
    curvature_ratio : float
        kappa = sup over rows of x' M^-1 x, M the curvature of the objective without the rows (always Euclidean).
    row_norm : float
        sup over rows of ||x||_K in the noise's norm K; the Euclidean norm for Gaussian noise.
    adjacency : {"add_remove", "replace_one"}
    shared : bool
        Whether a record is a person's rows, any number of them, with weights that sum to at most 1; else one row.

    Returns
    -------
    float
        The scale, in units of the gradient; ``inf`` if the curvature is too small for any noise to suffice.

    Raises
    ------
    ArgumentError
        If an argument is outside its range, a cap of the family is open, or `shared` is asked for with a delta.

    Notes
    -----
    docs/proofs/objective, theorems 1 and 2, and docs/proofs/persons, theorem 1; seeds of the idea are Chaudhuri et al.
    (2011), algorithm 2, and Kifer et al. (2012), algorithm 1, which bound the two factors apart.

    Examples
    --------
    >>> round(joint_scale("binomial", eps=1.0, curvature_ratio=0.1, row_norm=1.0), 2)
    1.0
    """
    family = get_family(family, of_pieces=True)
    eps, delta = check_budget(eps, delta)
    check_delta(delta)
    return least_scale(
        family,
        eps=eps,
        delta=delta,
        curvature_ratio=curvature_ratio,
        row_norm=row_norm,
        adjacency=check_adjacency(adjacency),
        shared=check_flag("shared", shared),
    )


def least_scale(
    family: Family,
    *,
    eps: float,
    delta: float,
    curvature_ratio: float,
    row_norm: float,
    adjacency: Adjacency,
    shared: bool,
) -> float:
    """`joint_scale` for planners, of arguments that were checked but for the two figures that follow from others."""
    kappa, norm = check_positive("curvature_ratio", curvature_ratio), check_positive("row_norm", row_norm)
    reach = norm * family.lipschitz
    curve = family.curve(CELLS)
    check_pure(delta, shared=shared)
    if delta > 0:
        mu = gaussian_mu(curve, family.signed, eps, delta, kappa, adjacency)
        return reach / mu if mu > 0 else math.inf
    remaining = eps * (1 - ROUNDING) - determinant_loss(kappa, curve.curvature, shared=shared) * (1 + ROUNDING)
    if remaining.min() <= 0:
        return math.inf
    gradient = curve.gradient if adjacency == "add_remove" else curve.gradient + family.lipschitz
    return norm * float(np.max(gradient / remaining))


def joint_loss(
    family: Family | str,
    *,
    scale: float,
    delta: float = 0.0,
    curvature_ratio: float,
    row_norm: float,
    adjacency: Adjacency = "add_remove",
    kind: Kind = "laplace",
    shared: bool = False,
) -> float:
    """The eps that noise of a given scale guarantees: the inverse of `joint_scale`.

    Parameters
    ----------
    family, curvature_ratio, row_norm, adjacency, shared
        As for `joint_scale`.
    scale : float
        Of the noise.
    delta : float
        0 for Laplace noise, at least 1e-290 for Gaussian noise.
    kind : {"laplace", "gaussian"}

    Returns
    -------
    float
        An upper bound of the privacy loss; ``inf`` if Gaussian noise is so small that eps would exceed 500.

    Raises
    ------
    ArgumentError
        If an argument is outside its range, `delta` does not suit `kind` or `shared`, or a cap of the family is open.

    Examples
    --------
    >>> scale = joint_scale("binomial", eps=1.0, curvature_ratio=0.1, row_norm=1.0)
    >>> round(joint_loss("binomial", scale=scale, curvature_ratio=0.1, row_norm=1.0), 6)
    1.0
    """
    family = get_family(family, of_pieces=True)
    _, delta = check_budget(1.0, delta)
    check_delta(delta)
    check_pure(delta, shared=check_flag("shared", shared))
    check_choice("kind", kind, ("laplace", "gaussian"))
    if (kind == "gaussian") != (delta > 0):
        raise ArgumentError(
            f"kind must be 'laplace' with delta = 0 or 'gaussian' with delta > 0, got {safe_repr(kind)}"
        )
    adjacency = check_adjacency(adjacency)
    kappa, norm = check_positive("curvature_ratio", curvature_ratio), check_positive("row_norm", row_norm)
    reach = norm * family.lipschitz / check_positive("scale", scale)
    curve = family.curve(CELLS)
    if kind == "gaussian":
        return gaussian_eps(curve, family.signed, reach, delta, kappa, adjacency)
    shift = reach * curve.gradient / family.lipschitz
    loss = float(np.max(determinant_loss(kappa, curve.curvature, shared=shared) + shift))
    return (loss + (reach if adjacency == "replace_one" else 0.0)) * (1 + ROUNDING)


def determinant_loss(kappa: float, curvature: NDArray[np.float64], *, shared: bool) -> NDArray[np.float64]:
    """Log of the most by which a record of sup l'' = `curvature` raises the determinant of the Hessian.

    log(1 + kappa h) for one row. For rows whose weights sum to 1 it is up to kappa h, which several columns approach
    (docs/proofs/persons, theorem 1).
    """
    return kappa * curvature if shared else np.log1p(kappa * curvature)


def check_pure(delta: float, *, shared: bool) -> None:
    """Raise ArgumentError for rows that share a weight and a positive delta, for which nothing is proved."""
    if shared and delta > 0:
        raise ArgumentError(
            f"delta must be 0 for persons with several rows, got {safe_repr(delta)}: Gaussian noise is proved for "
            "one row per person only"
        )


def classical_scale(
    family: Family | str,
    *,
    eps: float,
    delta: float = 0.0,
    row_norm: float,
    adjacency: Adjacency = "add_remove",
) -> float:
    """The scale of the papers' even split of the budget between noise and Jacobian, for comparison only.

    Pure: Chaudhuri et al. (2011), algorithm 2. With delta: Kifer et al. (2012), algorithm 1. Both also ask for
    log(1 + kappa sup l'') <= eps / 2.
    """
    family = get_family(family, of_pieces=True)
    eps, delta = check_budget(eps, delta)
    rows = 2 if check_adjacency(adjacency) == "replace_one" else 1
    reach = rows * check_positive("row_norm", row_norm) * family.lipschitz
    return reach * (math.sqrt(8 * math.log(2 / delta) + 4 * eps) if delta > 0 else 2.0) / eps


class BodyBounds(Protocol):
    """What noise cut to a design needs of it: `DesignSpec`, as a plan's `design` holds it, has it."""

    @property
    def images(self) -> tuple[Image, ...]:
        """Bodies that hold every row."""

    def curvature_ratio(self, curvature: NDArray[np.float64]) -> float:
        """kappa: the supremum over rows of sum_j x_j**2 / curvature_j, shape (p,)."""


@overload
def objective_noise(
    family: Family | str,
    *,
    eps: float,
    delta: float = 0.0,
    row_norm: float | Mapping[str, float] = 1.0,
    curvature: float | ArrayLike,
    adjacency: Adjacency = "add_remove",
    size: int | None = None,
    design: None = None,
) -> Noise: ...


@overload
def objective_noise(
    family: Family | str,
    *,
    eps: float,
    delta: float = 0.0,
    curvature: float | ArrayLike,
    adjacency: Adjacency = "add_remove",
    design: BodyBounds,
) -> Noise | KNormNoise: ...


def objective_noise(
    family: Family | str,
    *,
    eps: float,
    delta: float = 0.0,
    row_norm: float | Mapping[str, float] = 1.0,
    curvature: float | ArrayLike,
    adjacency: Adjacency = "add_remove",
    size: int | None = None,
    design: BodyBounds | None = None,
) -> Noise | KNormNoise:
    """Noise b for which minimising sum_i l(x_i't; y_i) + P(t) + t'Mt / 2 + b't is (eps, delta)-private.

    Parameters
    ----------
    family : Family or str
        The loss, its caps set; or the name of one that has no caps to set.
    eps, delta : float
        The budget: Laplace noise for ``delta == 0``, Gaussian noise otherwise, for delta of at least 1e-290.
    row_norm : float or dict
        A bound on ||x||_2, every column counted (the intercept's too), or bounds under the keys "l1", "l2", "linf".
        A float gives l2 noise. With a dict the plan takes, for pure privacy, the norm with the least E||b||_2^2; if
        `size` is unknown, the first of l1, l2, linf that is bounded, which is the least for wide designs.
    curvature : float or array (p,)
        The diagonal of M, on the sum objective. Every entry positive.
    adjacency : {"add_remove", "replace_one"}
    size : int, optional
        The number of columns p; the length of `curvature` if that is an array.
    design : BodyBounds, optional
        Stands in for `row_norm` and `size`: the design of a formula's plan, ``dp.plan(...).design``. Its noise is cut
        to the bodies that hold the rows, which is less than any norm of the whole row asks for; with a delta it is
        Gaussian noise if that has the lesser E||b||_2^2.

    Returns
    -------
    Noise or KNormNoise
        The latter for a design, unless Gaussian noise is less.

    Raises
    ------
    ArgumentError
        If an argument is outside its range, a cap of the family is open, the curvature is too small for any noise, or a
        design has no bodies, as that of plain arrays.

    Notes
    -----
    docs/proofs/objective, docs/proofs/bodies; the convex penalty P costs nothing, and curvature it has everywhere may
    be counted in M.

    Examples
    --------
    >>> objective_noise("binomial", eps=1.0, row_norm=1.0, curvature=2.5, size=3).kind
    'laplace'
    """
    family = get_family(family, of_pieces=True)
    eps, delta = check_budget(eps, delta)
    diagonal = _check_curvature(curvature)
    if design is not None:
        if not hasattr(design, "images"):
            raise ArgumentError(f"design must be that of a plan, dp.plan(...).design; got {safe_repr(design)}")
        return _design_noise(family, design, diagonal, eps, delta, adjacency)
    size = _check_size(size, diagonal)
    bounds = _check_norms(row_norm)
    euclidean = _euclidean(bounds, size)
    ratio = euclidean**2 / float(diagonal.min())

    def noise(norm: Norm) -> Noise:
        bound = euclidean if norm == "l2" else bounds[norm]
        scale = joint_scale(family, eps=eps, delta=delta, curvature_ratio=ratio, row_norm=bound, adjacency=adjacency)
        _check_scale(scale, family, euclidean**2, eps)
        return Noise("gaussian" if delta > 0 else "laplace", norm, scale)

    if delta > 0:
        return noise("l2")
    allowed = [norm for norm in _WIDE_ORDER if norm in bounds]
    if size is None:
        return noise(allowed[0])
    return min((noise(norm) for norm in allowed), key=lambda candidate: candidate.expected_square(size))


def _design_noise(
    family: Family, design: BodyBounds, diagonal: NDArray[np.float64], eps: float, delta: float, adjacency: Adjacency
) -> Noise | KNormNoise:
    """The noise cut to the design, or Gaussian noise if delta permits it and it is less."""
    if not design.images:
        raise ArgumentError("design has bounds on the norms of its rows only; pass row_norm instead")
    cut = k_norm_noise(design.images)
    if len(diagonal) not in (1, cut.size):
        raise ArgumentError(f"curvature must have one entry or one per column: {cut.size}, got {len(diagonal)}")
    ones = np.ones(cut.size)
    common: dict[str, Any] = {"curvature_ratio": design.curvature_ratio(diagonal * ones), "adjacency": adjacency}
    square = design.curvature_ratio(ones)
    scale = joint_scale(family, eps=eps, row_norm=ROUNDED, **common)
    _check_scale(scale, family, square, eps)
    if delta == 0:
        return cut.scaled(scale)
    gaussian = joint_scale(family, eps=eps, delta=delta, row_norm=math.sqrt(square), **common)
    less = gaussian**2 * cut.size < scale**2 * cut.expected_square()
    return Noise("gaussian", "l2", gaussian) if less else cut.scaled(scale)


def _check_scale(scale: float, family: Family, row_square: float, eps: float) -> None:
    if math.isinf(scale):
        least = row_square * family.curvature_bound / math.expm1(min(eps, 700.0))
        raise ArgumentError(
            f"curvature is too small for eps = {eps:.3g}: pass more than about {least:.4g}, or raise eps"
        )


def check_positive(name: str, value: Any) -> float:
    """The value as a float if it is a finite positive number, else ArgumentError naming it."""
    if not is_number(value) or value <= 0:
        raise ArgumentError(f"{name} must be a finite positive number, got {safe_repr(value)}")
    return float(value)


def _check_curvature(curvature: Any) -> NDArray[np.float64]:
    try:
        diagonal = np.atleast_1d(np.asarray(curvature, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError("curvature must be a positive number or a 1-D array of them") from None
    if diagonal.ndim != 1 or diagonal.size == 0 or not np.all(np.isfinite(diagonal) & (diagonal > 0)):
        raise ArgumentError("curvature must be a finite positive number or a 1-D array of them, one per column")
    return diagonal


def _check_size(size: int | None, diagonal: NDArray[np.float64]) -> int | None:
    if size is None:
        return len(diagonal) if len(diagonal) > 1 else None
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or not 1 <= size < 2**53:
        raise ArgumentError(f"size must be a positive integer, got {safe_repr(size)}")
    if len(diagonal) not in (1, size):
        raise ArgumentError(f"curvature must have one entry or one per column: {size}, got {len(diagonal)}")
    return int(size)


NORMS = (1e-100, 1e100)
"""Row norms lie between these, so that their squares are normal floats."""


def _check_norms(row_norm: float | Mapping[str, float]) -> dict[Norm, float]:
    if not isinstance(row_norm, Mapping):
        check_cap("row_norm", row_norm, NORMS)
        return {"l2": float(row_norm)}
    unknown = [key for key in row_norm if key not in _WIDE_ORDER]
    if unknown or not row_norm:
        raise ArgumentError(f"row_norm must have keys among {list(_WIDE_ORDER)}, got {safe_repr(list(row_norm))}")
    return {norm: check_positive(f"row_norm[{norm!r}]", row_norm[norm]) for norm in _WIDE_ORDER if norm in row_norm}


def _euclidean(bounds: Mapping[Norm, float], size: int | None) -> float:
    """The least bound on ||x||_2 that the given ones imply."""
    sums, largest = bounds.get("l1", math.inf), bounds.get("linf", math.inf)
    implied = [bounds.get("l2", math.inf), sums]
    if math.isfinite(largest):
        implied += [math.sqrt(sums * largest), largest * math.sqrt(size) if size is not None else math.inf]
    least = min(implied)
    if math.isinf(least):
        raise ArgumentError("row_norm gives only 'linf': add 'l2' or 'l1', or give size, the number of columns")
    return least

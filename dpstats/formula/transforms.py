"""Stateful transforms that learn from public values and then act on each row alone.

Each function takes the values its argument has on the public frame, fixes what must be remembered (mean, knots,
constraints) and returns a row-wise function. Bases are evaluated point by point through scipy's piecewise
polynomials, with the constraints folded into the coefficients, so that no row's value depends on another row, not
even in the last bit. Arguments and results are those of patsy's transforms of the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.interpolate import BSpline, CubicSpline

from dpstats.formula.features import rff

Array = NDArray[np.float64]
RowWise = Callable[..., Array]


def center(public: Array) -> RowWise:
    """Subtract the mean over the declared range."""
    return standardize(public, rescale=False)


def standardize(public: Array, center: bool = True, rescale: bool = True, ddof: int = 0) -> RowWise:
    """Subtract the mean and divide by the standard deviation of a uniform spread over the declared range."""
    finite = _finite(public)
    shift = finite.mean() if center else 0.0
    deviation = finite.std(ddof=ddof) if rescale else 1.0
    divisor = deviation if deviation > 0 else 1.0
    return lambda x: (x - shift) / divisor


def poly(public: Array, degree: int) -> RowWise:
    """Legendre polynomials 1 to `degree` of x scaled from its declared range to [-1, 1], shape (rows, degree)."""
    if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
        raise ValueError("degree must be a positive integer")
    low, high = _span(public)

    def basis(x: Array) -> Array:
        unit = (_clip(x, low, high) - low) / (high - low) * 2 - 1
        return np.ascontiguousarray(legendre.legvander(unit, degree)[..., 1:])

    return basis


def bs(
    public: Array,
    df: int | None = None,
    knots: Sequence[float] | None = None,
    degree: int = 3,
    include_intercept: bool = False,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
) -> RowWise:
    """B-splines of a given degree; inner knots at equally spaced quantiles of the public values unless given."""
    if isinstance(degree, bool) or not isinstance(degree, int) or degree < 0:
        raise ValueError("degree must be a non-negative integer")
    low, high = _span(public, lower_bound, upper_bound)
    inner_count = None if df is None else df - (degree + 1) + (not include_intercept)
    inner = _inner_knots(_finite(public), inner_count, knots, low, high)
    all_knots = np.sort(np.concatenate(([low, high] * (degree + 1), inner)))
    coefficients = np.eye(len(all_knots) - degree - 1)[:, 0 if include_intercept else 1 :]
    if coefficients.shape[1] == 0:
        raise ValueError("the basis has no column; raise df or degree")
    spline = BSpline(all_knots, coefficients, degree)
    return lambda x: np.ascontiguousarray(spline(_clip(x, low, high)))


def cr(
    public: Array,
    df: int | None = None,
    knots: Sequence[float] | None = None,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
    constraints: ArrayLike | str | None = None,
) -> RowWise:
    """Natural cubic regression splines in the cardinal basis (Wood 2006, section 4.1.2)."""
    return _cubic(public, df, knots, lower_bound, upper_bound, constraints, cyclic=False)


def cc(
    public: Array,
    df: int | None = None,
    knots: Sequence[float] | None = None,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
    constraints: ArrayLike | str | None = None,
) -> RowWise:
    """Cyclic cubic regression splines in the cardinal basis (Wood 2006, section 4.1.3)."""
    return _cubic(public, df, knots, lower_bound, upper_bound, constraints, cyclic=True)


def te(*public: Array, constraints: ArrayLike | str | None = None) -> RowWise:
    """The tensor product of several bases (Wood 2006, section 4.1.8)."""
    free = _row_tensor_product(*public)
    free = free[np.isfinite(free).all(axis=1)]
    null_space = _null_space(constraints, free, free.shape[1])

    def basis(*bases: Array) -> Array:
        product = _row_tensor_product(*bases)
        if null_space is None:
            return product
        # A sum of columns rather than a matrix product: BLAS may round a row differently when other rows change.
        result = np.zeros((len(product), null_space.shape[1]))
        for column, weights in zip(product.T, null_space, strict=True):
            result += column[:, None] * weights
        return result

    return basis


TRANSFORMS: dict[str, Callable[..., RowWise]] = {
    "center": center,
    "standardize": standardize,
    "scale": standardize,
    "poly": poly,
    "bs": bs,
    "cr": cr,
    "cc": cc,
    "te": te,
    "rff": rff,
}


EXAMPLES = {
    "center": "center(x)",
    "standardize": "standardize(x)",
    "scale": "scale(x)",
    "poly": "poly(x, 2)",
    "bs": "bs(x, df=4)",
    "cr": "cr(x, df=3)",
    "cc": "cc(x, df=3)",
    "te": "te(cr(x, df=3), cr(z, df=3))",
    "rff": "rff(x, gamma=1.0, D=40)",
}
"""How each is written."""


def _cubic(
    public: Array,
    df: int | None,
    knots: Sequence[float] | None,
    lower_bound: float | None,
    upper_bound: float | None,
    constraints: ArrayLike | str | None,
    cyclic: bool,
) -> RowWise:
    low, high = _span(public, lower_bound, upper_bound)
    finite = _finite(public)
    if constraints is None:
        constraint_count = 0
    else:
        constraint_count = 1 if isinstance(constraints, str) else len(np.atleast_2d(constraints))
    inner_count = None if df is None else df - 2 + constraint_count + cyclic
    inside: Array = np.unique(finite[(low <= finite) & (finite <= high)])
    all_knots: Array = np.unique(np.concatenate(([low, high], _inner_knots(inside, inner_count, knots, low, high))))
    size = len(all_knots) - cyclic
    if size < 2 - cyclic or (df is not None and size - constraint_count != df):
        raise ValueError("df is too small, or some knots coincide")
    # The cardinal basis interpolates the unit vectors; a cyclic one ends where it starts.
    values = np.eye(size)[np.arange(len(all_knots)) % size]
    boundary: Literal["periodic", "natural"] = "periodic" if cyclic else "natural"
    free = CubicSpline(all_knots, values, bc_type=boundary)
    null_space = _null_space(constraints, free(_clip(finite, low, high)), size)
    spline = free if null_space is None else CubicSpline(all_knots, values @ null_space, bc_type=boundary)
    return lambda x: np.ascontiguousarray(spline(_clip(x, low, high)))


def _null_space(constraints: ArrayLike | str | None, public_basis: Array, size: int) -> Array | None:
    """Coordinates of the coefficient vectors that satisfy the constraints, shape (size, size - constraints)."""
    if constraints is None:
        return None
    if isinstance(constraints, str):
        if constraints != "center":
            raise ValueError("constraints must be 'center' or a list of numbers")
        rows = public_basis.mean(axis=0)[None, :]
    else:
        rows = np.atleast_2d(np.asarray(constraints, dtype=float))
    if rows.ndim != 2 or rows.shape[1] != size or len(rows) >= size or not np.isfinite(rows).all():
        raise ValueError(f"constraints must have {size} finite columns and fewer rows than that")
    return np.asarray(linalg.qr(rows.T)[0][:, len(rows) :])


def _inner_knots(
    values: Array, count: int | None, knots: Sequence[float] | None, low: float, high: float
) -> NDArray[np.float64]:
    if knots is None:
        if count is None:
            raise ValueError("give df or knots")
        if count < 0:
            raise ValueError("df is too small")
        return np.quantile(values, np.linspace(0, 1, count + 2)[1:-1])
    given = np.asarray(knots, dtype=float)
    if given.ndim != 1 or (count is not None and count != len(given)):
        raise ValueError("knots must be a list of numbers that agrees with df")
    if not ((low <= given) & (given <= high)).all():
        raise ValueError("knots must lie within the declared range and the bounds")
    return given


def _span(public: Array, lower: float | None = None, upper: float | None = None) -> tuple[float, float]:
    finite = _finite(public)
    low = float(finite.min() if lower is None else lower)
    high = float(finite.max() if upper is None else upper)
    if not low < high or not np.isfinite(high - low):
        raise ValueError("the argument is constant over the declared ranges, or lower_bound >= upper_bound")
    return low, high


def _finite(public: Array) -> Array:
    if np.ndim(public) != 1:
        raise ValueError("the argument must be a single column")
    finite = public[np.isfinite(public)]
    if len(finite) == 0:
        raise ValueError("the argument is not finite anywhere on the declared ranges")
    return finite


def _clip(x: Array, low: float, high: float) -> Array:
    # Infinite values stay missing: clipping them would keep a row that the same expression elsewhere would drop.
    return np.where(np.isfinite(x), np.clip(x, low, high), np.nan)


def _row_tensor_product(*bases: Array) -> Array:
    product = _as_columns(bases[0])
    for basis in bases[1:]:
        columns = _as_columns(basis)
        size = product.shape[1] * columns.shape[1]
        product = (product[:, :, None] * columns[:, None, :]).reshape(len(columns), size)
    return product


def _as_columns(basis: Array) -> Array:
    return basis[:, None] if basis.ndim == 1 else basis

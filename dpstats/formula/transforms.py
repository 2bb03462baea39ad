"""Transforms that learn from public values and then act on each row alone; random Fourier features
(docs/proofs/kernels)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, special
from scipy.interpolate import BSpline, CubicSpline

from dpstats.families.base import pad_rows

Array = NDArray[np.float64]

LATTICE = 2.0**-20
"""Directions are rounded to multiples of this, so that no last digit of a quantile decides a prediction."""

MOST = 10_000
"""Features of one term, at most."""

QUANTILES: dict[str, Callable[[Array, float], Array]] = {
    "gaussian": lambda uniform, gamma: np.sqrt(2 * gamma) * special.ndtri(uniform),
    "laplacian": lambda uniform, gamma: gamma * np.tan(np.pi * (uniform - 0.5)),
    "cauchy": lambda uniform, gamma: -gamma * np.sign(uniform - 0.5) * np.log1p(-2 * np.abs(uniform - 0.5)),
}
"""Of the law of each coordinate of a direction, by kernel, of which `KERNELS` are the characteristic functions."""

KERNELS: dict[str, Callable[[Array, float], Array]] = {
    "gaussian": lambda apart, gamma: np.exp(-gamma * (apart**2).sum(axis=1)),
    "laplacian": lambda apart, gamma: np.exp(-gamma * np.abs(apart).sum(axis=1)),
    "cauchy": lambda apart, gamma: np.prod(1 / (1 + (gamma * apart) ** 2), axis=1),
}
"""The kernels, of differences of scaled inputs, shape (rows, d)."""


@dataclass(frozen=True)
class Norms:
    """What is known of the columns of a transform, whatever the row."""

    largest: float  # bound on the absolute value of each column
    l2: float  # bounds on the norms of a row
    l1: float


@dataclass(frozen=True, eq=False)
class Features:
    """The features of rows: row-wise, with directions that were fixed before any row was seen."""

    lows: Array  # ranges of the inputs, (d,), which are scaled to [-1, 1]
    highs: Array
    directions: Array  # (frequencies, d)
    phases: Array | None  # (frequencies,); None for pairs of cosine and sine

    @property
    def norms(self) -> Norms:
        """Pairs have norm 1 exactly; cosines with a phase up to sqrt 2 (docs/proofs/kernels)."""
        count = len(self.directions)
        if self.phases is None:
            return Norms(count**-0.5, 1.0, (2 * count) ** 0.5)
        return Norms((2 / count) ** 0.5, 2**0.5, (2 * count) ** 0.5)

    def __call__(self, *rows: Array) -> Array:
        """The features of rows, shape (rows, D)."""
        count, size = len(self.directions), len(rows[0])
        rows = tuple(pad_rows(values) for values in rows)  # a cosine may be rounded in another way at the end
        angles = np.zeros((len(rows[0]), count)) + (0.0 if self.phases is None else self.phases)
        # Input by input: a matrix product may round a row by its place in the block, which other rows decide.
        for values, low, high, weights in zip(rows, self.lows, self.highs, self.directions.T, strict=True):
            clipped = np.where(np.isfinite(values), np.clip(values, low, high), np.nan)
            angles += ((clipped - low) / (high - low) * 2 - 1)[:, None] * weights
        if self.phases is not None:
            return np.asarray(np.cos(angles)[:size] * (2 / count) ** 0.5)
        pairs = np.stack([np.cos(angles), np.sin(angles)], axis=2)[:size]
        return np.asarray(pairs.reshape(size, 2 * count) * count**-0.5)


def rff(
    *public: Array, gamma: float, D: int, kernel: str = "gaussian", features: str = "pairs", seed: int = 0
) -> Features:
    """D random Fourier features (Rahimi and Recht 2007) of columns, scaled by their declared ranges to [-1, 1].

    Of "pairs", (cos w'x, sin w'x) sqrt(2/D) for D/2 directions, or by "phase", cos(w'x + psi) sqrt(2/D) for D of them;
    `gamma` is of the `kernel` of scaled inputs (see `KERNELS`), `seed` is public. Raises ValueError.
    """
    count, positive = _checked(gamma, D, kernel, features, seed)
    spans = [_kernel_span(values) for values in public]
    key = f"dpstats rff {seed} {kernel} {features} {len(public)}"
    uniform = uniforms(key, count * (len(public) + 1)).reshape(count, len(public) + 1)
    directions = np.rint(QUANTILES[kernel](uniform[:, 1:], positive) / LATTICE) * LATTICE
    phases = None if features == "pairs" else np.rint((2 * uniform[:, 0] - 1) * np.pi / LATTICE) * LATTICE
    lows, highs = (np.array(ends) for ends in zip(*spans, strict=True))
    return Features(lows, highs, directions, phases)


def uniforms(key: str, size: int) -> Array:
    """Uniforms on (0, 1) that a public key fixes on every machine, shape (size,): midpoints of 2**52 cells."""
    words = np.frombuffer(hashlib.shake_256(key.encode()).digest(8 * size), dtype="<u8") >> np.uint64(12)
    return np.asarray((words.astype(np.float64) + 0.5) * 2.0**-52)


def _checked(gamma: object, count: object, kernel: str, features: str, seed: object) -> tuple[int, float]:
    """The number of directions, and gamma."""
    if isinstance(gamma, bool) or not isinstance(gamma, (int, float)) or not 0 < gamma < 1e6:
        raise ValueError("gamma must be a positive number below 1e6")
    if kernel not in QUANTILES:
        raise ValueError(f"kernel must be one of {list(QUANTILES)}")
    if features not in ("pairs", "phase"):
        raise ValueError("features must be 'pairs' or 'phase'")
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        raise ValueError(f"D must be a whole number of features from 1 to {MOST}")
    if features == "pairs" and count % 2:
        raise ValueError("D must be even: features='pairs' has pairs of cosine and sine")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError("seed must be a non-negative whole number")
    return (count // 2 if features == "pairs" else count), float(gamma)


def _kernel_span(values: Array) -> tuple[float, float]:
    if np.ndim(values) != 1:
        raise ValueError("its inputs must be single columns of numbers; gamma and D are given by name")
    finite = values[np.isfinite(values)]
    if len(finite) == 0 or not finite.min() < finite.max():
        raise ValueError("an input is constant, or not finite, over the declared ranges")
    return float(finite.min()), float(finite.max())


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


def _cubic(*, cyclic: bool) -> Callable[..., RowWise]:
    """A transform to cubic splines in the cardinal basis, natural or cyclic ones."""

    def splines(
        public: Array,
        df: int | None = None,
        knots: Sequence[float] | None = None,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        constraints: ArrayLike | str | None = None,
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

    return splines


cr = _cubic(cyclic=False)
"""Natural cubic regression splines (Wood 2006, section 4.1.2)."""

cc = _cubic(cyclic=True)
"""Cyclic cubic regression splines (Wood 2006, section 4.1.3)."""


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
    "cr": "cr(x, df=3, constraints='center')",
    "cc": "cc(x, df=3, constraints='center')",
    "te": "te(cr(x, df=3), cr(z, df=3), constraints='center')",
    "rff": "rff(x, gamma=1.0, D=40)",
}
"""How each is written."""


def _null_space(constraints: ArrayLike | str | None, public_basis: Array, size: int) -> Array | None:
    """Coordinates of the coefficient vectors that satisfy the constraints, shape (size, size - constraints)."""
    if constraints is None:
        return None
    if isinstance(constraints, str):
        if constraints != "center":
            raise ValueError("constraints must be 'center' or a list of numbers")
        if not len(public_basis):
            raise ValueError("an input is not finite anywhere within the declared ranges")
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
        raise ValueError("knots must be a list of numbers whose length agrees with df")
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

"""The noise of a private stream for a budget, fixed before a row is read (docs/proofs/streams, 4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError, DataError
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.gaussian import analytic_mu, check_delta
from dpstats.privacy.guarantee import Adjacency, Guarantee, check_adjacency, check_budget
from dpstats.privacy.randomness import LARGEST_SCALE, random_source
from dpstats.streaming.sums.draws import Draws, GaussianDraws
from dpstats.streaming.sums.running import PrefixSums

if TYPE_CHECKING:
    from dpstats.streaming.sums.base import Mechanism

Float = NDArray[np.float64]

_BELOW = 1 - 2.0**-30  # stands above the rounding of the steps before truncation, for a million numbers

_BLOCK = 4096

_ADD: dict[str, Callable[[Float, Float], Float]] = {
    "l1": lambda total, size: total + size,
    "l2": lambda total, size: total + size**2,
    "linf": np.maximum,
}


def lattice_total(rows: NDArray[np.floating], size: int, norm: str, longest: float, step: float) -> NDArray[np.object_]:
    """Sum of rows in whole steps, shape (size,): each is shortened to `longest` in the norm and truncated towards 0.

    A row with an entry that is not finite counts as zero; `longest` / `step` is at most 2**50.

    DataError if the shape is another or the entries are not floating-point numbers.
    """
    array = np.asarray(rows)
    if array.ndim != 2 or array.shape[1] != size or not np.issubdtype(array.dtype, np.floating):
        raise DataError(f"rows must be floating-point numbers of shape (n, {size})")
    total = np.full(size, 0, dtype=object)
    for start in range(0, len(array), _BLOCK):
        whole = _whole(array[start : start + _BLOCK].astype(np.float64), norm, longest, step)
        # 4,096 rows of at most 2**50 each fit 64 bits.
        total = total + whole.sum(axis=0).astype(object)
    return total


def _whole(block: NDArray[np.float64], norm: str, longest: float, step: float) -> NDArray[np.int64]:
    """Each row as integers, shape (n, size)."""
    with np.errstate(all="ignore"):
        finite = np.asarray(np.isfinite(block).all(axis=1))
        block = np.where(finite.reshape(-1, 1), block, 0.0)
        largest = np.maximum(np.abs(block).max(axis=1), 1e-300)
        unit = block / largest[:, None]
        length = np.zeros(len(block))
        for column in np.abs(unit).T:  # column by column: the order of the sum does not depend on the block
            length = _ADD[norm](length, column)
        length = np.sqrt(length) if norm == "l2" else length
        short = largest * length <= longest
        kept = np.where(short.reshape(-1, 1), block, unit * (longest / np.maximum(length, 1.0))[:, None])
        return np.trunc(kept * (_BELOW / step)).astype(np.int64)


SumsNorm = Literal["l2", "l1", "linf", "design"]

BASIS = "docs/proofs/streams"

RESOLUTION = 40
"""The lattice is 2**-RESOLUTION of a row's reach, to the next power of two, unless the noise is very large."""

LONGEST_ROW = 2.0**50
"""Rows of so many steps can be added by blocks of 4,096 in 64-bit integers."""

MOST_NUMBERS = 10**6

LEAST_DELTA = 1e-280

REACHES = (1e-50, 1e50)
"""A row's reach lies between these, so that nothing under- or overflows."""

ROUNDING = 1e-11
"""A relative allowance for the floating-point evaluation of norms of columns."""


@dataclass(frozen=True)
class SumsPlan:
    """Everything about a private stream that is public: mechanism, noise, lattice and guarantee.

    Attributes
    ----------
    mechanism : Mechanism
    size : int
        Numbers in a vector.
    row_sensitivity : float
        Delta, the most one row moves its tick's vector, in the norm `norm`.
    norm : {"l2", "l1", "linf", "design"}
    step : float
        Spacing of the lattice; vectors are whole multiples of it.
    draws : Draws
        The law of a fresh noise vector, in lattice steps.
    guarantee : Guarantee
        Of the whole transcript, spent once: per row, or per person if `mechanism.participation` says so.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.streaming.sums import Blt
    >>> plan = Blt(horizon=120).plan(size=2, eps=1.0, delta=1e-5)
    >>> plan.guarantee.eps <= 1
    True
    """

    mechanism: Mechanism
    size: int
    row_sensitivity: float
    norm: SumsNorm
    step: float
    draws: Draws
    guarantee: Guarantee

    def noise_sd(self, t: int) -> Float:
        """Standard deviations of the noise in the release at tick `t`, in the rows' units, shape (size,).

        Raises
        ------
        ArgumentError
            If `t` lies outside the horizon.

        Examples
        --------
        >>> plan.noise_sd(12).shape
        (2,)
        """
        variance = self.mechanism.release_variances(self.mechanism.check_ticks(np.array([t])))[0]
        return self.step * np.sqrt(variance * np.diag(self.draws.covariance(self.size)))

    def covariance(self, intervals: Sequence[tuple[int, int]], coordinate: int = 0) -> Float:
        """Covariance of one coordinate's noise in sums over intervals, in the rows' units, shape (n, n).

        Parameters
        ----------
        intervals : sequence of (a, b)
            The ticks a + 1, ..., b; the sums are differences of released prefix sums.
        coordinate : int

        Raises
        ------
        ArgumentError
            If an interval is empty or lies outside the horizon.

        Examples
        --------
        >>> plan.covariance([(0, 12), (12, 24)]).shape
        (2, 2)
        """
        variance = float(self.draws.covariance(self.size)[coordinate, coordinate])
        return self.step**2 * variance * self.mechanism.draw_covariance(intervals)

    def total(self, rows: NDArray[np.floating]) -> NDArray[np.object_]:
        """The sum of rows as whole lattice steps, each row shortened to Delta and truncated, shape (size,).

        Parameters
        ----------
        rows : ndarray, shape (n, size)
            A row with an entry that is not finite counts as zero. Under replace_one rows are shortened to
            half of Delta.

        Raises
        ------
        ArgumentError
            If the noise is cut to a body: whoever made the body makes rows that lie in it.
        DataError
            If `rows` have another shape or type.

        Examples
        --------
        >>> plan.total(np.array([[0.6, 0.8]])).shape
        (2,)
        """
        if self.norm == "design":
            raise ArgumentError("rows must be made by the design that the body is for, as whole lattice steps")
        longest = self.row_sensitivity / (2 if self.guarantee.adjacency == "replace_one" else 1)
        return lattice_total(rows, self.size, self.norm, longest, self.step)

    def start(self, *, seed: int | None = None, recall: int = 0) -> PrefixSums:
        """A stream before its first tick.

        Parameters
        ----------
        seed : int, optional
            For a reproducible stream, whose guarantee is not certified.
        recall : int
            How many past releases to keep for `PrefixSums.between`.

        Examples
        --------
        >>> plan.start().tick
        0
        """
        return PrefixSums.begin(self, random_source(seed), recall)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON.

        Examples
        --------
        >>> from dpstats.streaming.sums import plan_from_dict
        >>> plan_from_dict(plan.to_dict()).guarantee == plan.guarantee
        True
        """
        return {
            "mechanism": self.mechanism.to_dict(),
            "size": self.size,
            "row_sensitivity": self.row_sensitivity,
            "norm": self.norm,
            "step": self.step,
            "draws": self.draws.to_dict(),
            "guarantee": self.guarantee.to_dict(),
        }


def check_size(size: object) -> int:
    """`size` if it is a number of entries that a vector can have, else ArgumentError."""
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or not 1 <= size <= MOST_NUMBERS:
        raise ArgumentError(f"size must be an integer from 1 to {MOST_NUMBERS:,}, got {safe_repr(size)}")
    return int(size)


def lattice_step(step: float | None, row_sensitivity: float, scale: float) -> float:
    """The spacing: as given, or a power of two, coarser if the noise's `scale` would not fit the integers.

    ArgumentError if a given step is not positive or too fine for the noise.
    """
    if step is None:
        finest = math.log2(scale / LARGEST_SCALE)
        return 2.0 ** max(math.floor(math.log2(row_sensitivity)) - RESOLUTION, math.ceil(finest) + 1)
    least = max(scale / LARGEST_SCALE, row_sensitivity / LONGEST_ROW)
    if check_positive("step", step) < least:
        raise ArgumentError(f"step must be at least {least:.3g}: finer integers would not fit 64 bits")
    return float(step)


def plan_gaussian(
    mechanism: Mechanism,
    size: int,
    *,
    eps: float,
    delta: float,
    row_sensitivity: float | Mapping[str, float],
    adjacency: Adjacency,
    step: float | None,
) -> SumsPlan:
    """One Gaussian mechanism for the whole transcript; parameters and errors as `Mechanism.plan`."""
    size, adjacency = check_size(size), check_adjacency(adjacency)
    eps, delta = check_budget(eps, delta)
    check_delta(delta, LEAST_DELTA)
    if delta == 0:
        raise ArgumentError(f"delta must be positive for {type(mechanism).__name__}: KNormTree is pure")
    reach = euclidean(row_sensitivity)
    first_mu = analytic_mu(eps, delta)
    spacing = lattice_step(step, reach, mechanism.sensitivity * reach / first_mu)
    # Columns of C, and the rounding of past noise, which differs by less than a step in each number that a row touches.
    touched = mechanism.touched()
    slack = math.sqrt(touched * size) * (1 + 2 * mechanism.path().error()) if touched else 0.0
    moved = mechanism.sensitivity * (1 + ROUNDING) * reach / spacing + slack
    mu = discrete_mu(eps, delta, moved, 2 * mechanism.workload.ticks * size, first_mu)
    guarantee = Guarantee(eps, delta, adjacency, basis=BASIS, rho=mu**2 / 2)
    return SumsPlan(mechanism, size, reach, "l2", spacing, GaussianDraws(moved / mu), guarantee)


def euclidean(row_sensitivity: float | Mapping[str, float]) -> float:
    """Delta in the Euclidean norm. ArgumentError if it is not positive, or other norms are given alone."""
    if isinstance(row_sensitivity, Mapping):
        if "l2" not in row_sensitivity:
            raise ArgumentError("row_sensitivity must give the l2 norm for Gaussian noise")
        row_sensitivity = row_sensitivity["l2"]
    return check_reach("row_sensitivity", row_sensitivity)


def check_reach(name: str, value: float) -> float:
    """`value` if it is a number in `REACHES`, else ArgumentError."""
    if not REACHES[0] <= check_positive(name, value) <= REACHES[1]:
        raise ArgumentError(f"{name} must lie between {REACHES[0]:g} and {REACHES[1]:g}, got {safe_repr(value)}")
    return float(value)


def discrete_mu(eps: float, delta: float, moved: float, numbers: int, first_mu: float) -> float:
    """A mu for which discrete Gaussian noise of scale moved / mu is (eps, delta)-private (docs/proofs/streams, 4).

    ArgumentError if the lattice is too coarse for discrete noise to be like the real-valued one.
    """
    scale = moved / first_mu
    mass = numbers / (24 * scale**2)
    loss = first_mu * (60 * math.sqrt(numbers) + first_mu) / (4 * scale**2)
    if scale < 2**20 or mass > 1e-3 or loss > 1e-3 * eps:
        raise ArgumentError("step must be finer: at this spacing the noise would be too few integers wide")
    return analytic_mu(eps - loss, delta * math.exp(-mass)) * (1 - 1e-12)


def printed_tree_plan(exact: SumsPlan) -> SumsPlan:
    """Algorithm 4 with its printed node variance, 2 log2(T)^2 Delta^2 ln(2 / delta) / eps^2: not certified."""
    claim, ticks = exact.guarantee, exact.mechanism.workload.ticks
    factor = math.sqrt(2 * math.log(2 / claim.delta)) * math.log2(ticks) / claim.eps
    if factor == 0:
        raise ArgumentError("horizon must be at least 2: the printed variance of a single tick is zero")
    scale = factor * exact.row_sensitivity / exact.step
    reason = "the printed variance of Algorithm 4 is not what its guarantee needs"
    guarantee = replace(claim, rho=None).uncertified(reason)
    return replace(exact, draws=GaussianDraws(scale), guarantee=guarantee)

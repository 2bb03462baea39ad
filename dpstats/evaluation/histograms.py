"""Histograms with places, released together, on public cells of the real line (docs/proofs/evaluation)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.evaluation.integer_noise import IntegerNoise
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import PublicDesign

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

MARGIN = 9.0  # log odds are clipped to this size: probabilities within 1.2e-4 of 0 and 1
LEAST_MEAN = 1e-3  # the least predicted count

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


class CellwiseLinear(NamedTuple):
    """The straight line in each cell that stands for a function: constant + slope * place, shapes (groups, cells).

    `error` bounds what it is off by anywhere in the cell, at the points looked at.
    """

    constant: Array
    slope: Array
    error: Array


@dataclass(frozen=True, eq=False)
class Grid:
    """Adjacent cells; values beyond the first and the last are clipped to their outer ends, finite and increasing."""

    ends: Array  # (cells + 1,): Increasing; a cell holds its upper end, not its lower one
    whole: bool = False  # Whether the values are whole numbers and the ends half ones
    squares: bool = False  # Whether the values are squares: their roots, not they, lie about evenly in a cell

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"):
            if not (np.isfinite(self.ends).all() and (np.diff(self.ends) > 0).all()):
                raise ArgumentError("fit: the range of its response is too wide or too narrow to divide; rescale it")

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.ends) - 1

    @property
    def middle(self) -> Array:
        """The middle of each cell."""
        return (self.ends[1:] + self.ends[:-1]) / 2

    @property
    def half(self) -> Array:
        """Half the width of each cell."""
        return (self.ends[1:] - self.ends[:-1]) / 2

    def locate(self, values: Array) -> tuple[Indices, Array]:
        """The cell of each value and its place there, from -1 to 1; shapes (rows,). No value depends on another."""
        clipped = np.clip(values, self.ends[0], self.ends[-1])
        cell = np.searchsorted(self.ends[1:-1], clipped, side="left").astype(np.intp)
        # A place is always a number: NaN would be cast to the greatest integer.
        return cell, np.nan_to_num(np.clip((clipped - self.middle[cell]) / self.half[cell], -1.0, 1.0))

    def line(self, function: Callable[[Array], Array]) -> CellwiseLinear:
        """The best line for `function` in each cell, shapes (cells,), over whole numbers or over the interval."""
        if self.whole:
            return self._whole_line(function)
        if self.squares:
            return self._line_over_roots(function)
        middle, half = self.middle[:, None], self.half[:, None]
        values = function(middle + half * NODES)
        constant = values @ WEIGHTS / 2
        slope = values @ (WEIGHTS * NODES) * 1.5
        ends = function(middle + half * np.array([-1.0, 1.0]) * (1 - 1e-12))
        off = np.concatenate([values, ends], axis=1)
        places = np.append(NODES, [-1.0, 1.0])
        return CellwiseLinear(constant, slope, np.abs(off - constant[:, None] - slope[:, None] * places).max(axis=1))

    def _line_over_roots(self, function: Callable[[Array], Array]) -> CellwiseLinear:
        roots = Grid(np.sqrt(self.ends))
        points = (roots.middle[:, None] + roots.half[:, None] * NODES) ** 2
        places, values = (points - self.middle[:, None]) / self.half[:, None], function(points)
        center, constant = (part @ WEIGHTS[:, None] / 2 for part in (places, values))
        slope = ((places - center) * (values - constant)) @ WEIGHTS / (((places - center) ** 2) @ WEIGHTS)
        constant = constant[:, 0] - slope * center[:, 0]
        ends = function(self.middle[:, None] + self.half[:, None] * np.array([-1.0, 1.0]) * (1 - 1e-12))
        off = np.concatenate([values, ends], axis=1) - constant[:, None]
        places = np.concatenate([places, np.tile([-1.0, 1.0], (self.size, 1))], axis=1)
        return CellwiseLinear(constant, slope, np.abs(off - slope[:, None] * places).max(axis=1))

    def _whole_line(self, function: Callable[[Array], Array]) -> CellwiseLinear:
        lines = []
        for low, high, middle, half in zip(self.ends[:-1], self.ends[1:], self.middle, self.half, strict=True):
            points = np.arange(np.ceil(low), np.floor(high) + 1)
            places, values = (points - middle) / half, function(points)
            slope = float(places @ values / (places @ places)) if len(points) > 1 else 0.0
            constant = float(values.mean())
            lines.append((constant, slope, float(np.abs(values - constant - slope * places).max())))
        return CellwiseLinear(*(np.array(column) for column in zip(*lines, strict=True)))


def probability_grid(cells: int, low: float, high: float) -> Grid:
    """Log odds from `low` to `high`, in cells of equal width in the mean of two scales: arcsin(sqrt(p)) and log odds.

    The error of a frequency is even on the first. The second tells rows apart whose frequencies are all near 0. If zero
    lies between, on which decisions hang, it is the end of a cell.
    """
    low, high = max(low, -MARGIN), min(high, MARGIN)
    linear = np.linspace(low, high, 4096)
    angles = np.arcsin(np.sqrt(1 / (1 + np.exp(-linear))))
    places = (angles - angles[0]) / (angles[-1] - angles[0]) + (linear - low) / (high - low)
    return _with_zero(low, np.interp(2 * np.arange(1, cells) / cells, places, linear), high)


def decision_grid(cells: int, low: float, high: float) -> Grid:
    """Margins of a support vector machine from `low` to `high`, within [-2, 2], in cells of equal width."""
    low, high = max(low, -2.0), min(high, 2.0)
    return _with_zero(low, np.linspace(low, high, cells + 1)[1:-1], high)


def _with_zero(low: float, inner: Array, high: float) -> Grid:
    """A grid with the given ends, the inner one nearest to zero moved there if zero lies between them."""
    if low < 0 < high:
        inner = np.append(inner, 0.0) if len(inner) == 0 else inner
        inner[np.argmin(np.abs(inner))] = 0.0
    return Grid(np.concatenate([[low], inner, [high]]))


def residual_grid(width: float) -> Grid:
    """Residuals from -width to width: half octaves down to a 64th on either side, and one cell around zero."""
    sizes = width * 2.0 ** (-np.arange(13) / 2)
    return Grid(np.concatenate([-sizes, sizes[::-1]]))


def deviance_grid(most: float, *, squares: bool = False) -> Grid:
    """Unit deviances from 0 to `most`, in octaves."""
    return Grid(np.concatenate([[0.0], most * 2.0 ** -np.arange(14.0, -1.0, -1.0)]), squares=squares)


def response_grid(low: float, high: float, *, count: bool) -> Grid:
    """Responses: 32 cells of equal width, or every count up to six, then cells that grow by a third."""
    if not count:
        return Grid(np.linspace(low, high, 33))
    ends = [-0.5]
    while ends[-1] < high:
        ends.append(ends[-1] + max(1.0, float(np.floor(ends[-1] / 3))))
    return Grid(np.array(ends), whole=True)


def fitted_grid(low: float, high: float, *, count: bool) -> Grid:
    """Predicted responses in 16 cells: of equal width, or of equal width in the logarithm from `LEAST_MEAN` on."""
    return Grid(np.geomspace(low, high, 17) if count else np.linspace(low, high, 17))


def linear_range(design: PublicDesign, params: Array) -> tuple[float, float]:
    """The range of the linear predictor over all possible rows, by public bounds and released coefficients."""
    reach = np.concatenate([term.maxima for term in design.terms])
    below, above = -reach, reach
    if isinstance(design, DesignSpec):
        least, most = ((ends - design.center) / design.scale for ends in (design.lower, design.upper))
        constant = design.lower == design.upper  # all rows have the intercept; of other columns a row may have none
        below, above = (
            np.where(constant, least, np.minimum(least, 0.0)),
            np.where(constant, most, np.maximum(most, 0.0)),
        )
    least, most = np.minimum(params * below, params * above), np.maximum(params * below, params * above)
    low = high = 0.0
    for term in design.terms:
        part = params[term.columns]
        if len(part) == 0:
            continue
        sizes = min(float(np.abs(part).max()) * term.l1, float(np.linalg.norm(part)) * term.l2)
        low += max(float(least[term.columns].sum()), -sizes)
        high += min(float(most[term.columns].sum()), sizes)
    room = 1e-3 + 1e-9 * (high - low)  # for rounding, and so that the ends differ
    room += design.offset_bound
    return low - room, high + room


STEPS = 1024  # one row in lattice steps
WEIGHTED_STEPS = 2**20  # the same for weighted rows, so that small weights count too
NORMAL = 1.959963984540054  # the 97.5 % point of the normal law
NEGLIGIBLE = 0.1  # an error of classes below this share of the standard error moves no interval
FULL_PAIR = 0.85  # two cells that hold a greater share of the rows tell little of a distribution's shape
ROWS_NEEDED = 5.0  # a denominator must exceed so many standard deviations of its noise
# The k cells of a tail count as empty unless their sum exceeds a + b / sqrt(k) standard deviations of its noise.
TAIL = 3.75, 2.3  # Laplace noise does so with a chance below 1e-4 for any k: numbers are held where a tail begins
DOUBT = 3.0, 0.0  # Noise does so now and then: beyond there may be rows, and errors account for both


@dataclass(frozen=True, eq=False)
class Histogram:
    """A histogram of one number of a row, in groups of rows, and the rows' places within its cells."""

    grid: Grid
    groups: int = 1
    place: float = 0.0  # The weight of a row's place beside that of its presence, from 0 (none) to 1
    steps: int = STEPS  # One row of weight 1 in lattice steps
    # The sampling variance of a sum of weights, over the sum: 1 over the greatest number of trials where weights are
    # numbers of trials over that, else at most 1.
    score_ratio: float = 1.0

    @property
    def place_steps(self) -> int:
        """The greatest size of a place, in steps."""
        return round(self.place * self.steps)

    @property
    def size(self) -> int:
        """Numbers released."""
        return self.grid.size * self.groups * (2 if self.place else 1)

    @property
    def largest(self) -> int:
        """The greatest l1 norm of one row's part, in steps."""
        return self.steps + self.place_steps

    @property
    def square(self) -> int:
        """The greatest squared l2 norm of one row's part, in steps."""
        return self.steps**2 + self.place_steps**2

    def count(self, group: Indices, values: Array, weights: Array | None = None) -> NDArray[np.int64]:
        """Sums over rows, in steps, shape (size,); `weights` lie within [0, 1].

        Parts of rows are rounded towards zero, so that those of one row that is divided do not add up to more.
        """
        cells = self.grid.size * self.groups
        cell, place = self.grid.locate(values)
        at = group * self.grid.size + cell
        # Sums of whole numbers below 2**53: exact in floating point, in whatever order.
        if weights is None:
            present = np.bincount(at, minlength=cells).astype(np.int64) * self.steps
        else:
            present = np.bincount(at, weights=np.trunc(self.steps * weights), minlength=cells).astype(np.int64)
        if not self.place:
            return present
        parts = np.rint(self.place_steps * place) if weights is None else np.trunc(self.place_steps * place * weights)
        places = np.bincount(at, weights=parts, minlength=cells)
        return np.concatenate([present, places.astype(np.int64)])

    def measured(self, released: NDArray[np.int64], noise: IntegerNoise) -> ReleasedHistogram:
        """The released numbers of this block, in rows."""
        shape = (self.groups, self.grid.size)
        cells = self.grid.size * self.groups
        variance = noise.variance
        counts = released[:cells].reshape(shape) / self.steps
        places, place_variance = np.zeros(shape), 0.0
        if self.place:
            places = released[cells:].reshape(shape) / self.place_steps
            place_variance = variance / self.place_steps**2
        return ReleasedHistogram(
            self.grid, counts, places, variance / self.steps**2, place_variance, noise.excess, self.score_ratio
        )


@dataclass(frozen=True, eq=False)
class ReleasedHistogram:
    """A released histogram."""

    grid: Grid
    # counts, places: (groups, cells): Noisy numbers of rows, and noisy sums of their places.
    counts: Array
    places: Array
    # count_variance, place_variance: Of the noise in each.
    count_variance: float
    place_variance: float
    excess: float  # Excess kurtosis of the noise
    score_ratio: float = 1.0  # As for `Histogram`

    @property
    def rows(self) -> float:
        """About how many rows there are."""
        return float(self.counts.sum())

    def joined(self, first: int) -> ReleasedHistogram:
        """The same rows in cells joined by twos, those before `first` and an odd one at the end left as they are."""
        size = self.grid.size
        starts = np.unique(np.append(np.arange(first), np.arange(first, size, 2)))
        grid = replace(self.grid, ends=np.append(self.grid.ends[starts], self.grid.ends[-1]))
        which = np.searchsorted(starts, np.arange(size), side="right") - 1
        # A sum of places is one of distances from a cell's middle, in half widths.
        moved = (self.counts * (self.grid.middle - grid.middle[which]) + self.places * self.grid.half) / grid.half[
            which
        ]
        counts, places = (np.add.reduceat(part, starts, axis=1) for part in (self.counts, moved))
        return replace(self, grid=grid, counts=counts, places=places)

    def enough(self, counts: Array) -> bool:
        """Whether the sum of these counts stands out from its noise."""
        return float(counts.sum()) > max(1.0, ROWS_NEEDED * math.sqrt(self.count_variance * counts.size))


class Influence(NamedTuple):
    """The derivatives of a figure by the released numbers of a block."""

    block: ReleasedHistogram
    counts: Array
    places: Array


class Estimate(NamedTuple):
    """A figure with its two errors, and the excess kurtosis of the sum of both.

    `cells` bounds what the figure is off by because functions are lines within cells. `class_error` is how much of it
    is likely where cells are coarse beside what they divide; the interval includes it. It also goes from `least` or
    less to `most` or more, for what the noise may hide on one side.
    """

    value: float
    noise_se: float
    sampling_se: float
    excess: float = 0.0
    cells: float = 0.0
    class_error: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    @property
    def std_err(self) -> float:
        """Both errors together."""
        return math.hypot(self.noise_se, self.sampling_se)

    def interval(self, low: float, high: float) -> tuple[float, float]:
        """A 95 % interval within the possible range: normal, corrected for the noise's kurtosis (Cornish, Fisher).

        It is about the possible value nearest to the estimate, so it is never empty and covers no less.
        """
        reach = (NORMAL + (NORMAL**3 - 3 * NORMAL) * self.excess / 24) * self.std_err
        coarse = self.class_error if self.class_error > NEGLIGIBLE * self.std_err else 0.0
        middle = min(max(self.value, low), high)
        least, most = min(middle - reach, self.least) - coarse, max(middle + reach, self.most) + coarse
        return max(least, low), min(most, high)


UNKNOWN = Estimate(math.nan, math.nan, math.nan)


def estimate(
    value: float, influences: Iterable[Influence], cells: float = 0.0, hidden: float = 0.0, share: float = 1.0
) -> Estimate:
    """A figure's errors by the delta method: of the noise, whose law is known, and of the rows as a sample.

    Blocks are taken to be independent as samples, or else to have `share` of the variance that follows from that.
    `hidden` is what rows that the noise may hide in a tail could add to the figure; it counts as an error of the noise.
    """
    noise, fourth, sampling = hidden**2, 0.0, 0.0
    for block, by_count, by_place in influences:
        noise += block.count_variance * float((by_count**2).sum()) + block.place_variance * float((by_place**2).sum())
        fourth += block.count_variance**2 * float((by_count**4).sum())
        fourth += block.place_variance**2 * float((by_place**4).sum())
        # A third is the mean square of a place, all places alike.
        squares = block.counts * (by_count**2 + by_place**2 / 3) + 2 * block.places * by_count * by_place
        # A sum below the noise in it tells no more than that it is not much greater: 0 would claim to know it.
        unsure = block.count_variance * float(((by_count**2 + by_place**2 / 3) ** 2).sum())
        unsure += block.place_variance * float(((2 * by_count * by_place) ** 2).sum())
        sampling += block.score_ratio * max(float(squares.sum()), math.sqrt(unsure))
        excess = block.excess
    sampling *= share
    spread = (noise + sampling) ** 2
    return Estimate(value, math.sqrt(noise), math.sqrt(sampling), excess * fourth / spread if spread else 0.0, cells)


def mean(block: ReleasedHistogram, form: CellwiseLinear, chosen: Array | None = None) -> tuple[float, Influence, float]:
    """The mean of a function over the rows of `chosen` cells, its influence, and a bound on the error of its lines."""
    inside = np.ones(block.counts.shape) if chosen is None else chosen
    rows = float((inside * block.counts).sum())
    form = CellwiseLinear(*(inside * part for part in form))
    value = float((form.constant * block.counts).sum() + (form.slope * block.places).sum()) / rows
    off = float((form.error * np.maximum(block.counts, 0.0)).sum()) / rows
    return value, Influence(block, (form.constant - inside * value) / rows, form.slope / rows), off


def class_error(block: ReleasedHistogram, function: Callable[[Array], Array]) -> float:
    """What the mean of a function of one group is likely off by because cells are coarse (docs/proofs/evaluation).

    A third of the change of the mean if neighbours are joined by twos, from the first cell or from the second on, as
    for an error that grows with the square of the width (Richardson). Two cells that hold nearly all rows leave no
    neighbour to tell how rows lie within them: then the bound counts, in part or as a whole.
    """
    fine = block.grid.line(function)
    value, _, _ = mean(block, fine)
    changes = [abs(mean(joined, joined.grid.line(function))[0] - value) for joined in map(block.joined, (0, 1))]
    shares = np.maximum(block.counts[0], 0.0) / block.rows
    part = np.clip((np.sort(shares)[-2:].sum() - FULL_PAIR) / (1 - FULL_PAIR), 0.0, 1.0)
    return max(changes) / 3 + float(part * (fine.error @ shares))


def scaled(influence: Influence, factor: float) -> Influence:
    """The influence on `factor` times a figure."""
    return Influence(influence.block, factor * influence.counts, factor * influence.places)


def display_bins(counts: Array, bins: int, deviation: float) -> Indices:
    """Neighbouring cells joined into at most `bins` groups of about equal numbers of rows; post-processing.

    Groups by cell, from 0; none has fewer rows than eight of the standard `deviation` of its noise.
    """
    rows = np.maximum(counts, 0.0)
    total = float(rows.sum())
    for number in range(bins, 1, -1):
        if total <= 0:
            break
        share = (np.cumsum(rows) - rows / 2) / total
        labels = np.minimum((number * share).astype(np.intp), number - 1)
        _, labels = np.unique(labels, return_inverse=True)
        labels = labels.reshape(-1).astype(np.intp)
        sums = np.bincount(labels, weights=counts)
        if (sums > 8 * deviation * np.sqrt(np.bincount(labels))).all():
            return labels
    return np.zeros(len(counts), dtype=np.intp)


def reach(counts: Array, deviation: Array | float, limit: tuple[float, float]) -> int:
    """The last cell from the middle outwards that is not in an empty tail, from noisy counts; post-processing."""
    cells = np.arange(len(counts), 0, -1)
    tails = np.cumsum(counts[::-1])[::-1]
    spread = np.sqrt(np.cumsum((np.ones(len(counts)) * np.square(deviation))[::-1])[::-1])
    full = np.flatnonzero(tails > (limit[0] + limit[1] / np.sqrt(cells)) * spread)
    return int(full[-1]) if len(full) else 0


def monotone(values: Sequence[float] | Array) -> Array:
    """The nearest non-decreasing sequence in the greatest difference, within [0, 1]; post-processing."""
    array = np.clip(np.asarray(values, dtype=np.float64), 0.0, 1.0)
    above = np.maximum.accumulate(array)
    below = np.minimum.accumulate(array[::-1])[::-1]
    return (above + below) / 2

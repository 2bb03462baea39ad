"""Models of a number: histograms of unit deviances, of responses, and of residuals by fitted value."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from dpstats.evaluation.histograms import (
    DOUBT,
    LEAST_MEAN,
    NODES,
    TAIL,
    UNKNOWN,
    WEIGHTS,
    Array,
    CellwiseLinear,
    Estimate,
    Grid,
    Histogram,
    Indices,
    Influence,
    ReleasedHistogram,
    class_error,
    deviance_grid,
    display_bins,
    estimate,
    fitted_grid,
    mean,
    reach,
    residual_grid,
    response_grid,
    scaled,
)
from dpstats.evaluation.result import (
    BINS_CLIP,
    FEW_ROWS_NOTE,
    NULL_MODEL,
    PRINTED_NAMES,
    WIDE_RANGE,
    Tables,
    bin_entry,
    bin_table,
    combine_influences,
)
from dpstats.families import Family, Quantile
from dpstats.families.base import pad_rows
from dpstats.wording import phrase

FEW_BINS = 4
"""Fewer bins of residuals show little of a lack of fit."""

MOST_CLASS_ERROR = 0.25  # an R2 that its classes leave more uncertain than this is unknown

GAUSSIAN_METRICS = ("r2", "rmse", "mae", "residuals")
COUNT_METRICS = ("deviance", "mae", "residuals")
QUANTILE_METRICS = ("pinball",)

DEVIANCE_PLACE = 0.5
RESPONSE_PLACE = 0.25
COUNT_RESIDUAL_PLACE = 0.25
"""Weights of places, near the best (docs/proofs/evaluation). Residuals of a small count are all on one side of their
cells: their places keep the mean from moving there."""

HALF_OCTAVE = 1.5
"""How many times the outer end numbers in the last cell in sight, or in the next one, are on average, at the least."""

LONG_TAIL = 2.5  # The variance of a row's squared residual over the squared mean is 2 for normal residuals
LONG_TAIL_NOTE = (
    "Residuals have a long tail. Noise hides the largest of them, and these rows may lack the rarest: rmse, mae and "
    "their errors can then be too small, and the intervals can lie below the true values. Rarely the tail is only "
    "noise, which makes rmse and mae too large; a narrower declared range of the response prevents that."
)


@dataclass(frozen=True)
class NumericModel:
    """What to release of a model of a continuous response or of counts, and what to make of it."""

    family: Family
    # low, high: The response's public range in the user's units; predictions and responses are held within it.
    low: float
    high: float
    count: bool
    # middle, scale: A response, and for continuous ones a linear predictor, in the user's units is middle + scale *
    # model units.
    middle: float
    scale: float
    linear: tuple[float, float]  # Ends between which linear predictors lie, in model units
    metrics: Collection[str]
    bins: int

    @property
    def width(self) -> float:
        """The greatest residual."""
        return self.high - self.low

    @property
    def _sizes(self) -> str | None:
        """The mean of residuals' sizes that needs a histogram of its own: a count's deviance does not tell them."""
        offered = ("mae",) if self.count else QUANTILE_METRICS
        return next((name for name in offered if name in self.metrics), None)

    def _histograms(self) -> dict[str, Histogram]:
        """By what they are of; only those that the metrics need: each divides the budget once more."""
        metrics, histograms = set(self.metrics), {}
        # A squared residual tells its size too.
        if metrics & ({"deviance"} if self.count else {"r2", "rmse", "mae"}):
            grid = deviance_grid(self.most_deviance(), squares=not self.count)
            histograms["deviances"] = Histogram(grid, place=DEVIANCE_PLACE)
        if metrics & {"r2", "deviance"}:
            grid = response_grid(self.low, self.high, count=self.count)
            histograms["responses"] = Histogram(grid, place=RESPONSE_PLACE)
        if self._sizes:
            histograms["sizes"] = Histogram(deviance_grid(self.width), place=DEVIANCE_PLACE)
        if "residuals" in metrics:
            place = COUNT_RESIDUAL_PLACE if self.count else 0.0
            grid, groups = residual_grid(self.width), self._fitted().size
            histograms["residuals"] = Histogram(grid, groups=groups, place=place)
        return histograms

    def blocks(self) -> tuple[Histogram, ...]:
        """What is released."""
        return tuple(self._histograms().values())

    def locate(self, linear: Array, endog: Array) -> list[tuple[Indices, Array]]:
        """Group and value of each row for each block; no row's depend on another."""
        response = np.clip(self.middle + self.scale * endog, self.low, self.high)
        fitted = self.predicted(linear)
        values: dict[str, Callable[[], Array]] = {
            "deviances": lambda: self.deviances(response, fitted),
            "responses": lambda: np.rint(response) if self.count else response,
            "sizes": lambda: self.residual_sizes(response - fitted),
            "residuals": lambda: response - fitted,
        }
        no_groups = np.zeros(len(response), dtype=np.intp)
        return [
            (self._fitted().locate(fitted)[0] if name == "residuals" else no_groups, values[name]())
            for name in self._histograms()
        ]

    def tables(self, measured: Sequence[ReleasedHistogram]) -> Tables:
        """Every figure and table asked for."""
        tables = Tables.of(measured[0])
        if not all(block.enough(block.counts) for block in measured):
            tables.notes.append(FEW_ROWS_NOTE)
            unknown = (UNKNOWN, -math.inf, math.inf)
            tables.metrics = {PRINTED_NAMES.get(name, name): unknown for name in self.metrics if name != "residuals"}
            return tables
        blocks = dict(zip(self._histograms(), measured, strict=True))
        if "deviances" in blocks:
            self._deviance_figures(blocks, tables)
        if self._sizes:
            tail = _tail(blocks["sizes"])
            if rows := _rows_beyond(blocks["sizes"], tail.far):
                tables.notes.append(f"{self._sizes} clips residuals to a size of {tail.far:.4g}: {rows}.")
            size = _clipped_mean(blocks["sizes"], tail.far, tail, lambda x: x)
            tables.metrics[self._sizes] = (size.estimate(), 0.0, self.width)
        if "residuals" in blocks:
            most, beyond = signed_reach(blocks["residuals"])
            if most < self.width:
                tables.notes.append(
                    f"{BINS_CLIP} to a size of {most:.4g}: {beyond} rows. A long tail on one side moves the means of "
                    f"all bins towards the other. The intervals allow for tails up to {1.5 * most:.4g} on average."
                )
            tables.residuals = self._residual_table(blocks["residuals"], most)
            if len(tables.residuals) < FEW_BINS <= self.bins:
                alone = phrase('metrics=["residuals"]', shell="--metrics residuals")
                more = [] if set(self.metrics) == {"residuals"} else [f"{alone} alone"]
                more += ["a model of more columns"] if self.count else ["a model of the response's logarithm"]
                tables.notes.append(
                    "There are few bins, because few rows for the noise lie in each, or most fitted values lie in a "
                    f"small part of their possible range. A narrower declared range, {' or '.join(more)} may give more."
                )
        return tables

    def _deviance_figures(self, blocks: Mapping[str, ReleasedHistogram], tables: Tables) -> None:
        block = blocks["deviances"]
        tail = self._tail_by_responses(blocks)
        square = _clipped_mean(block, tail.end, tail, lambda d: d)
        if rows := _rows_beyond(block, tail.end):
            what = "unit deviances to" if self.count else "residuals to a size of"
            end, far = (x if self.count else math.sqrt(x) for x in (tail.end, tail.far))
            doubt = doubt_text(f"{far:.4g}") if end < far else ""
            tables.notes.append(f"The metrics clip {what} {end:.4g}: {rows}.{doubt}")
        if not self.count and square.relative_variance() > LONG_TAIL and {"rmse", "mae"} & set(self.metrics):
            tables.notes.append(LONG_TAIL_NOTE)
        if "rmse" in self.metrics:
            root = math.sqrt(max(square.value, 0.0))
            most = math.sqrt(max(square.most, 0.0))
            figure = square.estimate(root, 0.5 / root)._replace(most=most) if root else UNKNOWN
            tables.metrics["rmse"] = (figure, 0.0, self.width)
        if "mae" in self.metrics and not self.count:
            size = _clipped_mean(block, tail.far, tail, _root)
            figure = size.estimate()._replace(class_error=class_error(block, lambda d: _root(np.minimum(d, tail.far))))
            tables.metrics["mae"] = (figure, 0.0, self.width)
        if "responses" in blocks:
            self._explained(blocks, square, tail, tables)
        self._classes_in_words(blocks, tables)

    def _classes_in_words(self, blocks: Mapping[str, ReleasedHistogram], tables: Tables) -> None:
        """A note where classes are too coarse; an R2 of which they leave too little is unknown."""
        unknown = "r2" in tables.metrics and tables.metrics["r2"][0].class_error > MOST_CLASS_ERROR
        coarse = [name for name, (figure, _, _) in tables.metrics.items() if figure.class_error > figure.std_err]
        coarse = list(dict.fromkeys([*coarse, *["r2"] * unknown]))
        if not coarse:
            return
        if unknown:
            tables.metrics["r2"] = (UNKNOWN, *tables.metrics["r2"][1:])
        widths = []
        if "r2" in coarse:
            widths.append(f"the classes of responses are {2 * blocks['responses'].grid.half[0]:.3g} wide")
        if "mae" in coarse:
            widths.append(f"the first class of residuals is {math.sqrt(blocks['deviances'].grid.ends[1]):.3g} wide")
        included = [name for name in coarse if not (unknown and name == "r2")]
        what = [f"The interval of {' and '.join(included)} allows for that."] if included else []
        what += ["r2 is therefore unknown."] if unknown else []
        tables.notes.append(
            f"{WIDE_RANGE} ({self.low:.6g}, {self.high:.6g}) is too wide for this evaluation: {' and '.join(widths)}, "
            f"and where rows lie within a class is not known. {' '.join(what)} More eps does not help: declare a "
            "narrower range in the Domain, and fit again."
        )

    def _tail_by_responses(self, blocks: Mapping[str, ReleasedHistogram]) -> Tail:
        """The tail of the deviances; of counts none is in doubt that no response in sight could have.

        One cell in hundreds stands out by noise. That of the responses, whose noise is independent, hardly ever agrees.
        """
        block = blocks["deviances"]
        tail = _tail(block)
        if not self.count or "responses" not in blocks or tail.far == tail.end:
            return tail
        responses = blocks["responses"]
        _, last = _support(responses.counts[0], math.sqrt(responses.count_variance), DOUBT)
        low, high = self._likely_fitted(blocks)
        most = self.deviances(np.array([responses.grid.ends[last + 1], 0.0]), np.array([low, high])).max()
        far = block.grid.ends[1:][block.grid.ends[1:] >= max(most, tail.end)][:1]
        return _tail_to(block, tail.end, min([tail.far, *far.tolist()]))

    def _likely_fitted(self, blocks: Mapping[str, ReleasedHistogram]) -> tuple[float, float]:
        """The least and the greatest prediction that stand out from the noise, or that are possible."""
        grid = self._fitted()
        if "residuals" not in blocks:
            return float(grid.ends[0]), float(grid.ends[-1])
        block = blocks["residuals"]
        deviation = math.sqrt(block.count_variance * block.grid.size)
        first, last = _support(block.counts.sum(axis=1), deviation, DOUBT)
        return float(grid.ends[first]), float(grid.ends[last + 1])

    def _explained(
        self, blocks: Mapping[str, ReleasedHistogram], square: ClippedMean, tail: Tail, tables: Tables
    ) -> None:
        """R2, or the share of the deviance explained."""
        block = blocks["responses"]
        ends, far = self._clipping_range(block, tail.end, TAIL), self._clipping_range(block, tail.far, DOUBT)
        if self.count:  # responses further out would have deviances that do not stand out
            _, high = self._likely_fitted(blocks)
            inside = self.deviances(block.grid.ends[1:], np.full(block.grid.size, high)) <= tail.far
            least = block.grid.ends[1:][~(inside | (block.grid.ends[1:] <= high))][:1]
            far = far[0], max(ends[1], min([far[1], *least.tolist()]))
        if ends != (block.grid.ends[0], block.grid.ends[-1]):
            near, wide = (f"({max(low, 0.0) if self.count else low:.4g}, {high:.4g})" for low, high in (ends, far))
            doubt = doubt_text(wide) if ends != far else ""
            metric = f"the {PRINTED_NAMES['deviance']}" if self.count else "r2"
            tables.notes.append(
                f"{NULL_MODEL} of {metric} predicts one mean for all rows. Its errors are those of responses clipped "
                f"to {near}.{doubt}"
            )
        spread, by_spread, off, _ = self._spread(block, *ends)
        further, _, _, unseen = self._spread(block, *far)
        figure = UNKNOWN
        if spread > 2 * estimate(spread, [by_spread]).noise_se and spread > 0:
            ratio = square.value / spread
            influences = [scaled(square.influence, -1 / spread), scaled(by_spread, ratio / spread)]
            # Rows far out would be in both tails.
            hidden = abs(square.doubt - ratio * (further - spread)) / 2 + math.hypot(square.unseen, ratio * unseen)
            share = 1.0
            if "residuals" in blocks:
                center, _, _ = mean(block, _form(block, lambda y: np.clip(y, *ends)))
                share = self._joint_share(blocks["residuals"], tail.end, ends, center, ratio)
            figure = estimate(1 - ratio, influences, (square.off + ratio * off) / spread, hidden / spread, share)
            figure = figure._replace(least=1 - square.most / spread)
            if not self.count:  # classes of counts are narrow where counts are, whatever the range
                least_spread = spread - class_error(block, lambda y: (np.clip(y, *ends) - (ends[0] + ends[1]) / 2) ** 2)
                least_r2 = 1 - square.value / least_spread if least_spread > 0 else -math.inf
                figure = figure._replace(class_error=max(1 - ratio - least_r2, 0.0))
        tables.metrics[PRINTED_NAMES["deviance"] if self.count else "r2"] = (figure, -math.inf, 1.0)

    def _joint_share(
        self, block: ReleasedHistogram, most: float, ends: tuple[float, float], center: float, ratio: float
    ) -> float:
        """The variance of d - ratio * d0 as a share of what it were if d and d0 were independent, at most 1.

        These are deviances from the model and from `center`. Histograms of each do not tell that they go together; in
        that of residuals by fitted value both of these, hence the response, are known to a cell, and spread evenly over
        it. The share errs to the larger side: what they vary within cells counts above and not below, and one standard
        deviation of the noise is added.
        """
        fitted_cells, deviation = self._fitted(), math.sqrt(block.count_variance)
        fitted, residual = (grid.middle[:, None] + grid.half[:, None] * NODES for grid in (fitted_cells, block.grid))
        fitted, residual = (part.ravel() for part in np.broadcast_arrays(fitted[:, None, :, None], residual[:, None]))
        response = np.clip(fitted + residual, self.low, self.high)
        held = np.clip(response, max(ends[0], self.low), ends[1])
        own = np.minimum(self.deviances(response, fitted), most)
        null = ratio * self.deviances(held, np.full(len(held), max(center, LEAST_MEAN) if self.count else center))
        first, last = _support(block.counts.sum(axis=1), deviation * math.sqrt(block.grid.size), DOUBT)
        inner = (slice(first, last + 1), np.abs(block.grid.middle) <= signed_reach(block)[0])
        rows = block.counts[inner]

        def cells(values: Array) -> Array:
            """Means over each cell."""
            points = values.reshape(*block.counts.shape, -1)
            return (points @ np.outer(WEIGHTS, WEIGHTS).ravel() / 4)[inner]

        def middle(values: Array) -> float:
            return float((rows * cells(values)).sum()) / max(float(rows.sum()), 1.0)

        together = cells((own - null - middle(own - null)) ** 2)
        apart = (cells(own) - middle(own)) ** 2 + (cells(null) - middle(null)) ** 2
        noise = deviation * float(np.linalg.norm(together))
        alone = float((rows * apart).sum())
        total = max(float((rows * together).sum()), 0.0)  # noise may leave less than none
        return min((total + noise) / alone, 1.0) if alone > 0 else 1.0

    def _spread(self, block: ReleasedHistogram, low: float, high: float) -> tuple[float, Influence, float, float]:
        """Mean deviance of the responses from their own mean: their variance, or twice a sum of y log(y / mean).

        Responses are held where they no longer stand out, but none whose deviance from the mean is below `most`: the
        model's own deviances are held there, and what it is compared with must not be held sooner. The last values
        are a bound on the error of its lines and what rows beyond could add.
        """
        low = max(low, 0.0) if self.count else low
        center = 0.0 if self.count else (low + high) / 2

        def clipped(y: Array) -> Array:
            return np.clip(y, low, high) - center

        first, by_first, off = mean(block, _form(block, clipped))
        if not self.count:
            second, by_second, further = mean(block, _form(block, lambda y: clipped(y) ** 2))
            influences = [by_second, scaled(by_first, -2 * first)]
            off = further + 2 * abs(first) * off
            unseen = self._unseen(block, low, high, first + center)
            return second - first**2, combine_influences(influences)[0], off, unseen
        first = max(first, LEAST_MEAN)
        second, by_second, further = mean(block, _form(block, lambda y: _y_log_y(clipped(y))))
        influences = [scaled(by_second, 2.0), scaled(by_first, -2 * (math.log(first) + 1))]
        off = 2 * (further + abs(math.log(first) + 1) * off)
        unseen = self._unseen(block, low, high, first)
        return 2 * (second - first * math.log(first)), combine_influences(influences)[0], off, unseen

    def _unseen(self, block: ReleasedHistogram, low: float, high: float, center: float) -> float:
        """What rows beyond (low, high), which the noise may hide, could add to the mean deviance from `center`."""
        further = 0.0
        for counts, end, beyond in (
            (block.counts[0, block.grid.ends[1:] <= low], low, block.grid.middle[block.grid.ends[1:] <= low][-1:]),
            (block.counts[0, block.grid.ends[:-1] >= high], high, block.grid.middle[block.grid.ends[:-1] >= high][:1]),
        ):
            if counts.size and (not self.count or end > 0):
                at = np.maximum(np.array([end, beyond[0]]), 0.0 if self.count else -math.inf)
                near, far = self.deviances(at, np.full(2, center)).tolist()
                further += tail_share(counts, block) * max(far - near, 0.0)
        return further

    def _clipping_range(self, block: ReleasedHistogram, most: float, limit: tuple[float, float]) -> tuple[float, float]:
        first, last = _support(block.counts[0], math.sqrt(block.count_variance), limit)
        low, high = block.grid.ends[[first, last + 1]].tolist()
        center, _, _ = mean(block, _form(block, lambda y: np.clip(y, low, high)))
        center = max(center, LEAST_MEAN) if self.count else center
        ends = block.grid.ends
        near = ends[self.deviances(np.maximum(ends, 0.0) if self.count else ends, np.full(len(ends), center)) <= most]
        return min([low, *near.tolist()]), max([high, *near.tolist()])

    def _residual_table(self, block: ReleasedHistogram, most: float) -> pd.DataFrame:
        """Mean residual by bins of the fitted value, with the ends of each bin."""
        counts = block.counts.sum(axis=1)
        labels = display_bins(counts, self.bins, math.sqrt(block.count_variance * block.grid.size))
        form, ends_of_cells = _form(block, lambda e: np.clip(e, -most, most)), self._fitted().ends
        first, last = _support(counts, math.sqrt(block.count_variance * block.grid.size), DOUBT)
        outside = np.abs(block.grid.middle) > most
        entries = []
        for label in range(labels[-1] + 1):
            inside = labels == label
            chosen = np.repeat(inside[:, None].astype(np.float64), block.grid.size, axis=1)
            value, influence, off = mean(block, form, chosen)
            hidden = 0.0
            if outside.any():
                rows, tail = max(float(counts[inside].sum()), 1.0), block.counts[inside][:, outside]
                hidden = min(tail_share(tail, block) * block.rows / rows, 1.0) * most / 2
            figure = estimate(value, [influence], off, hidden)
            # The outermost bins go on to the ends of what is possible, where no rows stand out.
            cells = np.flatnonzero(inside)
            low, high = ends_of_cells[[max(cells[0], min(first, cells[-1])), min(cells[-1], max(last, cells[0])) + 1]]
            fitted = {"fitted_from": float(low), "fitted_to": float(high)}
            ends = figure.interval(-self.width, self.width)
            entries.append(bin_entry(float(counts[inside].sum()), figure, ends, **fitted, residual=value))
        return bin_table(entries)

    def _fitted(self) -> Grid:
        low, high = self.predicted(np.array(self.linear)).tolist()
        if not low < high:  # every prediction is held at one end of the range
            low, high = (LEAST_MEAN if self.count else self.low), self.high
        return fitted_grid(low, high, count=self.count)

    def predicted(self, linear: Array) -> Array:
        """Predictions in the user's units, within the response's range."""
        if not self.count:
            return np.clip(self.middle + self.scale * linear, self.low, self.high)
        means = np.asarray(self.family.mean(pad_rows(linear)), dtype=np.float64)
        return np.clip(means[: len(linear)], LEAST_MEAN, self.high)

    def residual_sizes(self, residuals: Array) -> Array:
        """The residuals' sizes; of a quantile the pinball loss, the smaller weight of either side below its size."""
        if not isinstance(self.family, Quantile):
            return np.abs(residuals)
        return np.maximum(self.family.q * residuals, (self.family.q - 1) * residuals)

    def deviances(self, response: Array, fitted: Array) -> Array:
        """Unit deviances: squared residuals, or those of Poisson."""
        if not self.count:
            return (response - fitted) ** 2
        ratios = pad_rows(np.maximum(response, 1e-300) / fitted)
        return 2 * (response * np.log(ratios)[: len(response)] - (response - fitted))

    def most_deviance(self) -> float:
        """The greatest unit deviance."""
        if not self.count:
            return self.width * self.width  # infinite rather than an error if it overflows
        return 2 * max(self.high * math.log(self.high / LEAST_MEAN) - self.high + LEAST_MEAN, self.high)


def _y_log_y(y: Array) -> Array:
    return y * np.log(np.maximum(y, 1e-300))


def _root(y: Array) -> Array:
    return np.sqrt(np.maximum(y, 0.0))


def _form(block: ReleasedHistogram, function: Callable[[Array], Array]) -> CellwiseLinear:
    """A function of the block's number by lines in cells, alike in all groups."""
    line = block.grid.line(function)
    shape = block.counts.shape
    return CellwiseLinear(*(np.broadcast_to(part, shape) for part in line))


def _rows_text(counts: Array, block: ReleasedHistogram) -> str:
    """About how many rows, in words."""
    deviation = math.sqrt(block.count_variance * max(counts.size, 1))
    return f"about {max(float(counts.sum()), 0.0):,.0f} (s.d. {deviation:,.0f})"


def _rows_beyond(block: ReleasedHistogram, end: float) -> str:
    """About how many rows lie beyond `end`, in words; "" if the block ends there."""
    outer = block.counts[:, block.grid.ends[:-1] >= end]
    return f"{_rows_text(outer, block)} rows" if outer.size else ""


def doubt_text(far: str) -> str:
    """What a note adds if it is in doubt where a tail begins."""
    return (
        f" It is uncertain whether any rows lie beyond that, up to {far}, or noise alone: the intervals allow for both."
    )


class Tail(NamedTuple):
    """Where numbers no longer stand out: they surely do up to `end`, and perhaps up to `far`.

    The share is what may be beyond `far` and remain unseen: their noisy number and one standard deviation more.
    """

    end: float
    far: float
    share: float


def tail_share(counts: Array, block: ReleasedHistogram) -> float:
    """What share of the rows a tail may have: its noisy number and one standard deviation more."""
    deviation = math.sqrt(block.count_variance * counts.size)
    return (max(float(counts.sum()), 0.0) + deviation) / block.rows


def _tail(block: ReleasedHistogram) -> Tail:
    """Where the block's numbers, which are not negative, no longer stand out."""
    counts, deviation = block.counts[0], math.sqrt(block.count_variance)
    last, far = (float(block.grid.ends[reach(counts, deviation, limit) + 1]) for limit in (TAIL, DOUBT))
    return _tail_to(block, last, far)


def _tail_to(block: ReleasedHistogram, end: float, far: float) -> Tail:
    """The tail between two ends of cells."""
    beyond = block.counts[0, block.grid.ends[:-1] >= far]
    return Tail(end, far, tail_share(beyond, block) if beyond.size else 0.0)


class ClippedMean(NamedTuple):
    """A mean of held numbers, as `mean` gives it, and what it may lack.

    `doubt` is what it grows by from one end of the tail to the other; rows beyond, which the noise hides, would add
    `unseen`. `most` is the upper end of an interval for the mean with them: noise that makes their number small makes
    the mean and its doubt small too.
    """

    value: float
    influence: Influence
    off: float
    doubt: float
    unseen: float
    most: float = -math.inf

    def estimate(self, value: float | None = None, slope: float = 1.0) -> Estimate:
        """The mean, or a function of it with this value and slope.

        Half of the doubt is one standard deviation: the interval of about two reaches the other figure.
        """
        shown, hidden = self.value if value is None else value, abs(self.doubt) / 2 + self.unseen
        figure = estimate(shown, [scaled(self.influence, slope)], slope * self.off, slope * hidden)
        return figure._replace(most=self.most)

    def relative_variance(self) -> float:
        """The variance of one row's number over the squared mean."""
        rows = self.influence.block.rows
        return rows * (self.estimate().sampling_se / self.value) ** 2 if self.value > 0 else 0.0


def _clipped_mean(block: ReleasedHistogram, most: float, tail: Tail, function: Callable[[Array], Array]) -> ClippedMean:
    """The mean of an increasing function of the block's number, held at `most`, which is one end of the tail."""

    def held(end: float) -> tuple[float, Influence, float]:
        return mean(block, _form(block, lambda x: function(np.minimum(x, end))))

    value, influence, off = held(most)
    doubt = held(tail.far)[0] - held(tail.end)[0]
    last, beyond, further = function(tail.far * np.array([1.0, HALF_OCTAVE, _ratio_beyond(block, tail)])).tolist()
    outer, by_outer, _ = mean(block, _form(block, lambda x: np.where(x > tail.far, further, function(x))))
    _, upper = estimate(outer, [by_outer], hidden=tail.share * (further - beyond)).interval(-math.inf, math.inf)
    return ClippedMean(value, influence, off, doubt, tail.share * (beyond - last), upper)


def _ratio_beyond(block: ReleasedHistogram, tail: Tail) -> float:
    """How many times `tail.far` numbers beyond it are on average, if sizes have an exponential tail; or half an octave.

    That is longer than a normal tail, and goes further the more rows the noise may hide there.
    """
    depth = -math.log(min(max(tail.share, 1e-12), 0.5))
    return max(1 + 2 / depth + 2 / depth**2 if block.grid.squares else 1 + 1 / depth, HALF_OCTAVE)


def signed_reach(block: ReleasedHistogram, limit: tuple[float, float] = DOUBT) -> tuple[float, str]:
    """The size beyond which no numbers of either sign stand out, and the rows beyond it in words."""
    counts, middle = block.counts.sum(axis=0), block.grid.size // 2
    levels = np.append(counts[middle], counts[middle + 1 :] + counts[:middle][::-1])
    groups = block.counts.shape[0]
    numbers = np.append(groups, np.full(middle, 2 * groups))
    last = reach(levels, np.sqrt(block.count_variance * numbers), limit)
    outer = np.concatenate([block.counts[:, : middle - last], block.counts[:, middle + last + 1 :]], axis=1)
    return float(block.grid.ends[middle + last + 1]), _rows_text(outer, block)


def _support(counts: Array, deviation: float, limit: tuple[float, float]) -> tuple[int, int]:
    """The first and the last cell that stand out from the noise."""
    mode = int(np.argmax(counts))
    return mode - reach(counts[: mode + 1][::-1], deviation, limit), mode + reach(counts[mode:], deviation, limit)

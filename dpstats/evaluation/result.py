"""What `dpstats.evaluate` found: tidy tables of released values, with their errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
from statsmodels.iolib.table import SimpleTable

from dpstats.arguments import check_flag
from dpstats.evaluation.histograms import Estimate, Influence, ReleasedHistogram
from dpstats.evaluation.integer_noise import IntegerNoise
from dpstats.frames import WideFrame
from dpstats.plots import draw_evaluation
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.contrasts import to_the_noise
from dpstats.results.stored import Released, guarantee_sentence, marked_title
from dpstats.summaries import WIDTH, Summary, full_width, shorten, wrap_note
from dpstats.wording import phrase

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = ("response", "decision")  # columns of levels; others are of numbers
FRAMES = ("metrics", "calibration", "roc", "residuals", "confusion")


@dataclass(frozen=True, eq=False)
class Evaluation(Released):
    """Metrics of a model on some rows.

    Attributes
    ----------
    model : str
        Family and formula of the model.
    rows, rows_se : float
        About how many complete rows were evaluated, and the standard deviation of the noise in that number.
    metrics : DataFrame
        One row per metric: estimate; std_err, for noise and sampling together; noise_se, known from the law of the
        noise; sampling_se, by the delta method; low and high, a 95 % interval within the possible range, wider by the
        likely error of classes that are coarse, and on one side by large residuals that the noise may hide; cells, a
        bound on the error of the estimate from the linear interpolation within cells (0 for auc: its interval has it).
    calibration : DataFrame or None
        Predicted and observed frequency by bins of neighbouring cells.
    roc : DataFrame or None
        False and true positive rate by threshold, with their errors; `auc` is the area under them.
    residuals : DataFrame or None
        Mean residual (response less prediction) by bins of the fitted value: of a 0/1 response with the mean prediction
        of each bin, of numbers with its ends.
    confusion : DataFrame or None
        Rows by response and decision, in the levels of the response.
    guarantee : Guarantee
        For everything this object shows; the cost of the model itself is not included.
    noise : IntegerNoise
        The law of the noise, in lattice steps.
    notes : tuple of str
    rows_left_out, rows_left_out_se : float or None
        About how many rows were left out because the model cannot use them (a missing cell, an undeclared level, a
        value outside a range that drops rows), and the standard deviation of the noise in that number. Of persons, how
        many have no complete row; rows of nobody are in neither number. None in files that an older version saved.
    against : str or None
        Family and formula of another model: `metrics` are then mean differences of losses, those of `model` less those
        of the other.
    held_out : bool
        Whether the rows are known to be the test rows of a `dpstats.holdout` to whose training rows the model, or each
        of both, was fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> fit = dp.ols("y ~ x", rows, eps=1.0, domain=domain)
    >>> quality = dp.evaluate(fit, rows, 0.5)
    >>> list(quality.metrics.columns)
    ['estimate', 'std_err', 'noise_se', 'sampling_se', 'low', 'high', 'cells']
    >>> "rmse" in quality.summary().as_text()
    True
    >>> axes = quality.plot("residuals")  # with the extra "plots"
    """

    model: str
    rows: float
    rows_se: float
    metrics: pd.DataFrame
    calibration: pd.DataFrame | None
    roc: pd.DataFrame | None
    residuals: pd.DataFrame | None
    confusion: pd.DataFrame | None
    guarantee: Guarantee
    noise: IntegerNoise
    notes: tuple[str, ...]
    rows_left_out: float | None = None
    rows_left_out_se: float | None = None
    against: str | None = None
    held_out: bool = False

    @property
    def auc(self) -> pd.Series[float] | None:
        """The row of `metrics` that is the area under `roc`: estimate, errors and interval; None without that curve.

        Examples
        --------
        >>> quality.auc is None  # of a numeric response
        True
        """
        area = PRINTED_NAMES["roc"]
        return self.metrics.T[area] if area in self.metrics.index else None

    @property
    def budget(self) -> pd.DataFrame:
        """What the budget was spent on: one release."""
        entry = (self.guarantee.eps, self.guarantee.delta, f"{self.noise.kind} noise")
        return WideFrame([entry], columns=["eps", "delta", "buys"], index=pd.Index(["evaluation"], name="purchase"))

    def summary(self, *, full: bool = False) -> Summary:
        """Metrics and tables at 80 columns; as_text, as_html and as_latex.

        Below are the guarantee and the three notes that matter most, or in `full` all.
        """
        tables = [self._metrics_table()]
        if self.confusion is not None:
            tables.append(_confusion_table(self.confusion))
        if self.calibration is not None:
            tables.append(_bins_table(self.calibration, "Calibration", ("predicted", "observed")))
        if self.residuals is not None and self.calibration is None:
            names = [name for name in ("fitted", "fitted_from", "fitted_to") if name in self.residuals]
            tables.append(_bins_table(self.residuals, "Residuals by fitted value", (*names, "residual")))
        guaranteed = guarantee_sentence(
            self.guarantee, "This evaluation is", "; the cost of the model itself is not included"
        )
        notes = sorted(self._notes(), key=_place)  # stable
        shown = notes if check_flag("full", full) else notes[:MOST_NOTES]
        if (more := len(notes) - len(shown)) > 0:
            where = phrase("summary(full=True)", shell="--full")
            shown = [*shown, f"{more} more note{'s' * (more > 1)}: {where}"]
        summary = Summary(tables)
        summary.add_extra_txt([line for note in (guaranteed, *shown) for line in wrap_note(note)])
        return summary

    def _metrics_table(self) -> SimpleTable:
        lines = [f"Evaluation: {self.model}"]
        if self.against is not None:
            what = f": {self.metrics.index[0]}" if len(self.metrics) == 1 else ""
            lines = [f"Difference of two models{what}", f"first: {self.model}", f"second: {self.against}"]
        if self.guarantee.unit is not None:
            lines.append(f"rows: one of each {self.guarantee.unit}")
        lines = [shorten(line, 76) for line in lines]
        title = lines[0] if len(lines) == 1 else "\n".join(line.center(WIDTH) for line in lines)
        rows = [("rows (complete)", [f"{self.rows:,.0f}", f"{self.rows_se:,.0f}", "", "", ""])]
        for name, row in self.metrics.iterrows():
            rows.append((str(name), _figures(row, "estimate")))
        headers = ["estimate", "noise", "sampling", "[0.025", "0.975]"]
        return full_width(headers, rows, [11, 11, 11, 11, 11], title=marked_title(title, self.guarantee))

    @property
    def _bins_clip(self) -> bool:
        """Whether mean residuals are of clipped ones."""
        return any(note.startswith(BINS_CLIP) for note in self.notes)

    def _notes(self) -> list[str]:
        return [
            *self.notes,
            f"{ERRORS_NOTE}{self._words_on_fitted_rows()}{self._words_on_rows_left_out()}",
            *([] if self.roc is None else [f"The ROC curve is in {phrase('.roc', shell='--json')}."]),
        ]

    def _words_on_fitted_rows(self) -> str:
        """What holds of rows that a model was fitted to, unless these are others."""
        if self.held_out or (self.against is None and NOT_KNOWN_HELD_OUT in self.notes):
            return ""
        if self.against is not None:
            return " Rows that a model was fitted to favour it."
        return " On rows that the model was fitted to, metrics are too good."

    def _words_on_rows_left_out(self) -> str:
        """What no note of its own says of them."""
        if self.rows_left_out_se is None:
            return (
                " Rows with a missing cell or an undeclared level, also of the response, are left out and not counted; "
                "a check counts them."
            )
        if any(note.startswith(LEFT_OUT) for note in self.notes):
            return ""
        persons = self.guarantee.unit is not None
        none = "No person seems to lack a complete row" if persons else "No row seems to be left out"
        return f" {none} (s.d. of the noise {rows_error(self.rows_left_out_se)})."

    def __repr__(self) -> str:
        other = "" if self.against is None else f" against {shorten(self.against, 50)}"
        return f"<Evaluation: {shorten(self.model, 50)}{other}; {self.guarantee}>"

    def plot(self, kind: str | None = None, **arguments: Any) -> Axes:
        """Draw "calibration", "residuals" or "roc", by default the first there is; see `dpstats.plots`."""
        return draw_evaluation(self, kind, **arguments)

    def to_dict(self) -> dict[str, Any]:
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        facts |= {name: _plain(facts[name]) for name in FRAMES}
        for name in ("against", "held_out"):
            if not facts[name]:  # as older versions stored it
                del facts[name]
        return {**facts, "guarantee": self.guarantee.to_dict(), "noise": asdict(self.noise), "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        frames = {name: _frame(facts[name]) for name in FRAMES}
        noise, notes = IntegerNoise(**facts["noise"]), tuple(facts["notes"])
        return cls(**{**facts, **frames, "guarantee": Guarantee(**facts["guarantee"]), "noise": noise, "notes": notes})


def _bins_table(table: pd.DataFrame, title: str, names: tuple[str, ...]) -> SimpleTable:
    rows = []
    for label, row in table.iterrows():
        rows.append((label, [f"{row['rows']:,.0f}", *_figures(row, *names)]))
    headers = ["rows", *(name.removeprefix("fitted_") for name in names), "noise", "sampling", "[0.025", "0.975]"]
    # statsmodels makes the fifth and the sixth column at least 11 wide.
    widths = [8, 10, 9, 8, 11, 11, 9] if len(names) == 2 else [7, 8, 8, 9, 11, 11, 8, 8]
    return full_width(headers, rows, widths, title=title)


def _confusion_table(table: pd.DataFrame) -> SimpleTable:
    cells = {(row["response"], row["decision"]): row for _, row in table.iterrows()}
    levels = list(dict.fromkeys(table["response"]))
    rows = [(f"response {y}", [f"{cells[y, decision]['rows']:,.0f}" for decision in levels]) for y in levels]
    # The bins of a decision are summed, of either response: the noise of a column is the same in all of its cells.
    errors = [cells[levels[0], decision]["noise_se"] for decision in levels]
    rows.append(("noise se of each", [to_the_noise(error, error) for error in errors]))
    return full_width([f"decision {level}" for level in levels], rows, [16, 16], title="Decisions, in rows")


def rows_error(error: float) -> str:
    """The standard deviation of the noise in a number of rows, which may be below one row."""
    return f"{error:,.0f}" if error >= 10 else f"{error:.2g}"


def _figures(row: pd.Series[float], *names: str) -> list[str]:
    """Figures, their two errors and the ends of the interval, to the digits that the errors leave."""
    error = row["std_err"]
    parts = [to_the_noise(row[part], row[part]) for part in ("noise_se", "sampling_se")]
    cells = [*(to_the_noise(row[name], error) for name in names), *parts]
    return [cell or "unknown" for cell in [*cells, *(to_the_noise(row[end], error) for end in ("low", "high"))]]


def _plain(table: pd.DataFrame | None) -> dict[str, Any] | None:
    """A table as plain values; infinite and missing ones as text."""
    if table is None:
        return None

    def plain(cell: Any) -> Any:
        return repr(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell

    columns = {name: [plain(cell) for cell in table[name].tolist()] for name in table.columns}
    return {"columns": columns, "index": table.index.tolist(), "name": table.index.name}


def _frame(stored_table: Mapping[str, Any] | None) -> pd.DataFrame | None:
    if stored_table is None:
        return None
    columns = {
        name: [float(value) if isinstance(value, str) and name not in LEVELS else value for value in values]
        for name, values in stored_table["columns"].items()
    }
    return WideFrame(columns, index=pd.Index(stored_table["index"], name=stored_table["name"]))


BINS_CLIP = "The bins clip residuals"
"""What the note begins with that says so."""

MOST_NOTES = 3  # below a short summary, the most important first

ERRORS_NOTE = (
    "noise is the standard error due to privacy, sampling the one due to the sample; the interval includes both."
)

WIDE_RANGE = "The declared range of the response"
"""What the note begins with that says it is too wide for the classes of the histograms."""

METRICS_CLIP = "The metrics clip"
NULL_MODEL = "The null model"
CLIPS = (METRICS_CLIP, NULL_MODEL, "mae clips", "pinball clips", BINS_CLIP)
"""What notes begin with that say where numbers are clipped: after all others, but for words that every table has."""


def _place(note: str) -> int:
    """Where a note belongs: first a range that is too wide, then those on what was evaluated and on what to do."""
    if note.startswith(WIDE_RANGE):
        return -1
    if note.startswith(CLIPS):
        return 2 if "uncertain" not in note and not note.startswith(BINS_CLIP) else 1
    return 3 if note.startswith(ERRORS_NOTE) or note.startswith("The ROC curve") else 0


FEW_ROWS_NOTE = (
    "Noise hides the sums and counts that the metrics are computed from, so no metric can be estimated. More rows, "
    "more eps or fewer metrics (metrics=) help."
)

NOT_KNOWN_HELD_OUT = (
    "These are the test rows of a holdout, and no record shows that the model was fitted to its training rows "
    "(split.train, or split.train_ledger as the ledger). A model of all rows was fitted to these too: its metrics are "
    "too good."
)
"""What is said of test rows that the model may have been fitted to."""

LEFT_OUT = "Left out:"
"""What the note begins with that says how many rows were."""

PRINTED_NAMES = {
    "deviance": "deviance explained",
    "log_score": "log score",
    "roc": "area under ROC",
    "rps": "ranked probability score",
}
"""Of metrics that tables call by more than their name as an argument; `metrics=` takes both."""

METRIC_COLUMNS = ["estimate", "std_err", "noise_se", "sampling_se", "low", "high", "cells"]


@dataclass
class Tables:
    """Figures and tables of one evaluation."""

    rows: Estimate  # The number of rows evaluated
    # By name: the estimate and its possible range.
    metrics: dict[str, tuple[Estimate, float, float]] = field(default_factory=dict)
    calibration: pd.DataFrame | None = None
    roc: pd.DataFrame | None = None
    residuals: pd.DataFrame | None = None
    confusion: pd.DataFrame | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, block: ReleasedHistogram) -> Self:
        """None yet, of the rows of a histogram."""
        return cls(Estimate(block.rows, math.sqrt(block.count_variance * block.counts.size), 0.0))

    def frame(self) -> pd.DataFrame:
        """The figures, one a row, held to their possible ranges."""
        rows = {}
        for name, (figure, low, high) in self.metrics.items():
            errors = (figure.std_err, figure.noise_se, figure.sampling_se, *figure.interval(low, high), figure.cells)
            known = not math.isnan(figure.value)
            rows[name] = (min(max(figure.value, low), high), *errors) if known else (math.nan,) * len(METRIC_COLUMNS)
        return WideFrame(pd.DataFrame.from_dict(rows, orient="index", columns=METRIC_COLUMNS).rename_axis("metric"))


def bin_entry(rows: float, figure: Estimate, ends: tuple[float, float], **values: float) -> dict[str, float]:
    """One row of `bin_table`: how many rows, values by name, and the errors and the interval of a figure."""
    errors = {"std_err": figure.std_err, "noise_se": figure.noise_se, "sampling_se": figure.sampling_se}
    return {"rows": rows, **values, **errors, "low": ends[0], "high": ends[1]}


def bin_table(entries: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a bin, numbered from 1."""
    return WideFrame(entries, index=pd.RangeIndex(1, len(entries) + 1, name="bin"))


def combine_influences(influences: Sequence[Influence]) -> list[Influence]:
    """One influence per block: those on the same numbers are added up before they are squared."""
    sums: dict[int, Influence] = {}
    for one in influences:
        known = sums.get(id(one.block))
        both = one if known is None else Influence(one.block, known.counts + one.counts, known.places + one.places)
        sums[id(one.block)] = both
    return list(sums.values())

"""A regression of some ticks of a stream, from released sums alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_flag
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError, NotReleasedError
from dpstats.frames import WideFrame
from dpstats.inference.basis import self_adjoint
from dpstats.mechanisms.design import constant_column
from dpstats.plan.row_counts import RowCount
from dpstats.plots import style
from dpstats.quiet import quiet
from dpstats.results.contrasts import inference_table
from dpstats.results.fitted_model import NOT_RELEASED, FittedModel
from dpstats.results.standard_errors import ReleasedErrors
from dpstats.streaming.fit import MOST_REMAINDER
from dpstats.streaming.plan import StreamPlan, header, neighbouring_rows, promise, ticks_table
from dpstats.streaming.projected import stored_plan
from dpstats.streaming.sums.workloads import Halflife
from dpstats.summaries import Summary, format_number, full_width
from dpstats.wording import phrase

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]

SHRUNK = (
    "coef is shrunk towards zero according to the noise, and contains noise: a small one may stand for a large effect."
)

_MEANS = "get_prediction(newdata) has the means of public rows, with intervals"
_TESTS = "wald_test tests slopes together, and fits of dp.streaming.Refits have fitstats"

# A count below so many standard deviations may be of no row
FEW_DEVIATIONS = 3.0


@dataclass(frozen=True, eq=False)
class StreamResults(FittedModel):
    """The regression of the ticks first, ..., last of a stream.

    Attributes
    ----------
    plan : StreamPlan
    scaled_params : ndarray, shape (p,)
        Coefficients in model units, shrunk according to the noise.
    sums : ndarray, shape (size,)
        The noisy sums behind them.
    deviation : float
        Standard deviation of the noise of each.
    first, last : int
        The ticks; older ones count less in a stream with a half-life.
    linearised : ndarray, shape (k, p)
        Coefficients at which the ticks were linearised, or the first of them.
    weights : ndarray, shape (k,)
        The number of ticks for each of these.
    late : bool
        Whether the stream itself has left out the ticks before `first`, because their linearisation was poor.
    with_errors : (int, int) or None
        For ``between``: ticks that end at `last` and have errors where these have none, if any were found.

    Examples
    --------
    >>> import dpstats as dp
    >>> stream = dp.streaming.Regression("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1, 1e-6, horizon=12)
    >>> fit = stream.update({"x": [0.2, 0.4], "y": [0.1, 0.9]})
    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/fit.json"
    >>> fit.save(path)
    >>> bool((dp.streaming.StreamResults.load(path).params == fit.params).all())
    True
    >>> dp.streaming.StreamResults.from_dict(fit.to_dict()).last, fit.noise_sd.index.tolist()
    (1, ['Intercept', 'x'])
    >>> "Ticks:" in fit.summary(full=True).as_text(), "tabular" in fit.to_latex(), "|---:|" in fit.to_markdown()
    (True, True, True)
    >>> "<td" in fit.to_html()
    True
    >>> list(fit.tidy().columns[:2]), fit.glance()["last_tick"].item()
    (['term', 'estimate'], 1)
    >>> fit.excess_risk()
    Traceback (most recent call last):
    dpstats.errors.NotReleasedError: excess_risk: bounds are proved for single fits; plan.ticks() predicts ...
    """

    plan: StreamPlan
    sums: Float
    deviation: float
    first: int
    last: int
    linearised: Float
    weights: Float
    late: bool = False
    with_errors: tuple[int, int] | None = None

    not_released: ClassVar[Mapping[str, str]] = {
        **NOT_RELEASED,
        **dict.fromkeys(("df_resid", "n_obs"), "rows is about the number of rows"),
        **dict.fromkeys(("aic", "bic", "deviance", "llf", "null_deviance", "pearson_chi2", "rsquared"), _TESTS),
        **dict.fromkeys(
            ("resid", "residuals", "resid_deviance", "resid_pearson", "resid_response"),
            "dp.evaluate buys residuals of a fit of dp.streaming.Refits",
        ),
    }
    instead: ClassVar[Mapping[str, str]] = {
        "predictions": _MEANS,
        **dict.fromkeys(("comparisons", "effects", "get_margeff"), f"{_MEANS}, and t_test has changes of coefficients"),
        **dict.fromkeys(("fitstats", "fvalue", "f_pvalue", "rsquared_adj"), _TESTS),
        "notes": "summary() prints its notes",
        "left_out": "selection has the columns that a sparse penalty kept",
        "focus": "conf_int() has intervals of all coefficients",
    }

    @property
    def nobs(self) -> None:
        """None: the number of rows is private, or not one of a single charge."""
        return

    @cached_property
    def _inferred(self) -> ReleasedErrors:
        reason = self._obstacle()
        if reason is not None:
            raise NotReleasedError(f"this regression has no standard errors: {reason}")
        with quiet():
            inference, basis = self.plan.fitting.inference(self.sums, self.deviation, self._remainder)
        return ReleasedErrors(inference, basis, np.zeros(len(basis)))

    @property
    def has_errors(self) -> bool:
        """Whether there are errors and intervals; finite ones where the budget identifies them."""
        return self._obstacle() is None

    def _obstacle(self) -> str | None:
        """Why there are no errors, from public and released facts."""
        if self.plan.without_errors is not None:
            return self.plan.without_errors
        if self._remainder <= MOST_REMAINDER:
            return None
        far = (
            f"when the stream summed the rows from tick {self.first} on, its coefficients were still too far from "
            "these, so standard errors would be wrong"
        )
        if self.with_errors is not None:
            return f"{far}; type stream.between{self.with_errors}.bse, for ticks that have some"
        more, untold = "more rows a tick", self.plan.without_typical
        if untold:
            more = f"{more}, or typical values declared as dp.Range(..., typical=(mean, sd)) for {', '.join(untold)}"
        return (
            f"{far}, and no other ticks tried that end here have any; a new stream is likelier to have some with {more}"
        )

    @cached_property
    def _remainder(self) -> float:
        """About how far linearisation moves coefficients, in standard errors; see `TickFitting.remainder`."""
        if self.plan.method != "renewable":
            return 0.0
        with quiet():
            return self.plan.fitting.remainder(
                self.sums, self.deviation, self.scaled_params, self.linearised, self.weights
            )

    @property
    def information(self) -> pd.DataFrame:
        """The information matrix as released, with its noise, in model units, shape (p, p)."""
        with quiet():
            moments = self.plan.fitting.moments(self.sums, self.deviation)
        names = list(self.plan.names)
        return WideFrame(self_adjoint(moments.matrix[:-1, :-1]), index=names, columns=names)

    @property
    def budget(self) -> pd.DataFrame:
        """One charge for the whole stream, whatever is looked at."""
        charge, names = self.plan.guarantee, pd.Index(["stream"], name="purchase")
        return WideFrame([(charge.eps, charge.delta, "every tick")], columns=["eps", "delta", "buys"], index=names)

    @property
    def rows(self) -> RowCount | None:
        """About how many rows these ticks used: `value` and `std_error`, that of the noise in the released sums.

        Models with another link than the identity, weights and a half-life count each row by its weight over the
        greatest: the number is an effective one, and there are more rows. None without an intercept, and of a projected
        stream, whose sums are of sketches.

        Examples
        --------
        >>> str(fit.rows).startswith("about "), fit.rows.std_error > 0
        (True, True)
        """
        if (known := constant_column(self.plan.design)) is None or self.plan.method == "projected":
            return None
        with quiet():
            moments = self.plan.fitting.moments(self.sums, self.deviation)
        at, unit = np.eye(len(moments.matrix))[[known[0]]], known[1] ** 2 * self.plan.vector.weight_bound
        deviation = np.sqrt(moments.law.bilinear(at, at)[0])
        return RowCount(float(moments.matrix[known[0], known[0]] / unit), float(deviation / unit))

    @property
    def _row_weights(self) -> list[str]:
        """By what a row counts for less than one in `rows`."""
        plan = self.plan
        reasons = {
            "by its weight in the fit": plan.method != "linear",
            "by its weight": plan.design.weights is not None,
            "the less the older it is": isinstance(plan.sums.mechanism.workload, Halflife),
        }
        return [words for words, holds in reasons.items() if holds]

    @property
    def noise_sd(self) -> pd.Series[float]:
        """Standard deviation that noise alone gives each coefficient of `debiased`, in the user's units.

        A part of `bse`, and released where that is. Infinite where the budget does not identify the coefficient.
        """
        shares = self._inferred.table.shares
        values = np.sqrt((shares[:, 1] + shares[:, 2]) * np.where(np.isfinite(self.bse), self.bse, np.nan) ** 2)
        return self._series(np.where(np.isnan(values), np.inf, values), "noise_sd")

    def glance(self) -> pd.DataFrame:
        """One row of facts about the regression.

        nobs is noisy, by `rows`, and nobs_std_error follows; it is missing where rows count by weights. noise_sd is of
        an entry of the sum of x y, as in `StreamPlan.ticks`; the property `noise_sd` is of coefficients.
        """
        plan = self.plan
        rows = None if self._row_weights else self.rows
        facts = {
            "family": plan.family.name,
            "link": plan.family.link,
            "method": plan.method,
            "penalty": "none" if plan.penalty is None else plan.penalty.name,
            "df_model": plan.df_model,
            "nobs": pd.NA if rows is None else max(round(rows.value), 0),
            **({} if rows is None else {"nobs_std_error": rows.std_error}),
            **{name: getattr(plan.guarantee, name) for name in ("eps", "delta", "adjacency", "unit", "certified")},
            "first_tick": self.first,
            "last_tick": self.last,
            "noise_sd": self.deviation / plan.vector.cross,
        }
        return WideFrame([facts])

    def summary(self, *, full: bool = False, n: int | None = None) -> Summary:
        """The regression table, in statsmodels' look; as_text, as_html, as_latex and as_markdown.

        Parameters
        ----------
        full : bool
            Also noise and predicted excess by tick, and the plan's notes.
        n : None
            Not offered for streams.

        Raises
        ------
        ArgumentError
            If `n` is given.
        """
        if n is not None:
            raise ArgumentError("n: no risk is proved for streams; plan.ticks() predicts it for rows_guess rows a tick")
        full = check_flag("full", full)
        errors = self.has_errors and bool(np.isfinite(self.bse).any())
        ticks = f"{self.first:,} to {self.last:,}" if self.last > self.first else f"{self.last:,}"
        if errors:
            table = inference_table(self.uncertainty())
        else:
            pairs = zip(self.plan.names, self.params, self.scaled_params, strict=True)
            lines = [(name, [format_number(value), format_number(scaled)]) for name, value, scaled in pairs]
            table = full_width(["coef", "scaled coef"], lines, [14, 14])
        tables = [
            header(self.plan, ticks, late=self.first > 1),
            table,
            *([ticks_table(self.plan.ticks())] if full else []),
        ]
        return Summary(tables, [*self._notes(errors), *(self.plan.notes() if full else [])])

    def _notes(self, errors: bool) -> list[str]:
        notes = ["One charge covers the whole stream; this regression cost nothing more."]
        if (unit := self.plan.guarantee.unit) is not None:
            rows = neighbouring_rows(self.plan.guarantee, self.plan.sums.mechanism.participation)
            one = f"The guarantee is for each {unit} {rows}. The stream cannot check that none has more."
            notes = [f"{one} {notes[0]}"]
        if self.late:
            notes.append(
                f"The ticks before {self.first} are left out, at most half of all, because their rows were linearised "
                "too far from the coefficients."
            )
        if self.rows is not None:
            weights = " and ".join(self._row_weights)
            rows_note = f"{'Effective number of rows' if weights else 'Rows used'}, by the noisy sums: {self.rows}."
            rows_note += f" A row counts {weights}, so that there may be more rows than that." if weights else ""
            check = phrase("dp.check", shell="python -m dpstats check")
            rows_note += f" A stream does not count lost and clipped rows; {check} counts them."
            if self.rows.value < FEW_DEVIATIONS * self.rows.std_error:
                rows_note += " That is no more than noise: if many were passed, compare their cells with the domain."
            notes.append(rows_note)
        if (reason := self._obstacle()) is not None:
            return [*notes, f"No errors are shown: {reason}.", SHRUNK]
        if not errors:
            return [*notes, "At this tick the budget identifies no coefficient.", SHRUNK]
        notes.append(
            "coef, std err and the tests are bias-corrected; params holds the coefficients shrunk according to "
            "the noise. Standard errors (model-based) account for sampling and for the "
            "noise."
        )
        unknown = [str(name) for name, error in self.bse.items() if np.isinf(error)]
        return [*notes, f"Not identified at this budget: {', '.join(unknown)}."] if unknown else notes

    def __repr__(self) -> str:
        return f"<StreamResults: ticks {self.first} to {self.last}, {self.plan.description}>"

    def to_dict(self) -> dict[str, Any]:
        """The released values and the public plan, for JSON."""
        return {
            "plan": self.plan.to_dict(),
            **{name: getattr(self, name).tolist() for name in ("scaled_params", "sums")},
            "deviation": self.deviation,
            "ticks": [self.first, self.last],
            "late": self.late,
            "with_errors": self.with_errors,
            **{name: getattr(self, name).tolist() for name in ("linearised", "weights")},
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """What `to_dict` gave `facts` of."""
        plan = stored_plan(facts["plan"])
        params, sums, linearised, weights = (
            np.asarray(facts[name], dtype=np.float64) for name in ("scaled_params", "sums", "linearised", "weights")
        )
        if sums.shape != (plan.vector.size,) or params.shape != (len(plan.names),):
            raise ValueError("the stored values do not suit the plan")
        first, last = facts["ticks"]
        # Of a file without these words they are not known, and not said.
        late, interval = facts.get("late", False), facts.get("with_errors")
        interval = None if interval is None else tuple(interval)
        return cls(plan, params, sums, facts["deviation"], first, last, linearised, weights, late, interval)

    @property
    def _fitted_columns(self) -> NDArray[np.intp]:
        return np.arange(len(self.plan.names))

    @property
    def noise(self) -> NoReturn:
        raise NotReleasedError("noise: a stream has its noise by tick, see plan.ticks() and deviation")

    @property
    def noise_at_most(self) -> NoReturn:
        raise NotReleasedError(
            "noise_at_most: the noise in a stream's coefficients is not bounded without rows; noise_sd estimates it "
            "where there are standard errors"
        )

    @property
    def selection(self) -> pd.DataFrame:
        """The coefficients that are not zero, under a sparse penalty; empty without one."""
        if self.plan.penalty is None or not self.plan.penalty.sparse:
            return WideFrame()
        return WideFrame(self.params[self.scaled_params != 0].to_frame("coef"))

    @property
    def statistics(self) -> NoReturn:
        """Not released apart: the sums of a stream are for its own model."""
        raise NotReleasedError(
            "statistics: a stream's sums are for its own model; release_statistics buys them of a table"
        )

    def excess_risk(self, *arguments: Any, **options: Any) -> NoReturn:
        """Not proved for streams: `StreamPlan.ticks` predicts it."""
        raise NotReleasedError(
            "excess_risk: bounds are proved for single fits; plan.ticks() predicts the excess by tick"
        )


def change_table(later: StreamResults, earlier: StreamResults, covariance: Float) -> pd.DataFrame:
    """Coefficients of one interval less those of an earlier, disjoint one, with errors, by term.

    The errors' noise parts are taken to be correlated as unfavourably as the noise of the two intervals' sums is, which
    has this `covariance` (docs/proofs/streams, 10).
    """
    from scipy import stats

    correlation = float(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]))
    one, two = (result.bse.to_numpy() for result in (later, earlier))
    first, second = (np.sqrt(result._inference.shares[:, 1:3].sum(axis=1)) for result in (later, earlier))
    with np.errstate(invalid="ignore"):
        error = np.sqrt(one**2 + two**2 + 2 * abs(correlation) * (first * one) * (second * two))
        error = np.where(np.isnan(error), np.inf, error)
        change = later.debiased.to_numpy() - earlier.debiased.to_numpy()
        z = np.where(np.isfinite(error), change / error, np.nan)
    half, p_value = stats.norm.ppf(0.975) * error, 2 * stats.norm.sf(np.abs(z))
    columns = {"change": change, "std_error": error, "z": z, "p_value": p_value}
    names = pd.Index(list(later.plan.names), name="term")
    return WideFrame({**columns, "low": change - half, "high": change + half}, index=names)


MOST_TICKS = 60  # Ticks with intervals in a picture, evenly spread


def coefficient_picture(
    results: Sequence[StreamResults], term: str, title: str, ax: Axes | None, *, caption: bool
) -> Axes:
    """A coefficient over the ticks at which the results end, with 95 % intervals where there are any."""
    ax = style.new_axes(ax)
    plan = results[0].plan
    ticks = np.array([result.last for result in results])
    values = np.array([result.params[term] for result in results])
    spread = np.linspace(0, len(results) - 1, min(len(results), MOST_TICKS)).astype(int)
    # Rows of the first ticks may be linearised too far off for errors, where later ticks have them.
    shown = [result for result in map(results.__getitem__, spread) if result.has_errors]
    ends = np.array([result.conf_int().loc[term].to_numpy(dtype=float) for result in shown]).reshape(-1, 2)
    finite = np.isfinite(ends).all(axis=1)
    if finite.any():
        at, (low, high) = np.array([result.last for result in shown])[finite], ends[finite].T
        middle = np.array([result.debiased[term] for result in shown])[finite]
        ax.fill_between(at, low, high, color=style.SKY, alpha=0.3, linewidth=0, label="95 % interval")
        ax.plot(at, middle, color=style.BLUE, linewidth=1.6, label="without shrinkage")
    ax.plot(ticks, values, color=style.ORANGE, linewidth=1.2, linestyle="--", label="params, for prediction")
    ax.locator_params("x", integer=True)
    labels = "tick", f"coefficient of {term}"
    about = "Intervals include sampling error and noise." if finite.any() else "No tick drawn has an interval."
    sentences = about, promise(plan, "the whole stream")
    return style.finish(ax, title, *sentences, labels=labels, legend="above", caption=caption)

"""The results of t_test, wald_test and get_prediction, under statsmodels' names; their laws include the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special
from statsmodels.iolib.table import SimpleTable

from dpstats.arguments import check_numbers
from dpstats.errors import ArgumentError
from dpstats.frames import TINY, EffectFrame, NotedFrame, WideFrame, four_digits
from dpstats.inference import CombinationTests
from dpstats.inference.estimates import LEVEL
from dpstats.results.stored import Printed
from dpstats.summaries import Summary, format_number, full_width

UNLIKE = 10.0  # times the p-value of a normal distribution: one that a reader would not expect
PVALUES_WORDS = "p-values account for noise in std err, and can be larger or smaller than"

ERROR_DIGITS = 2  # of a standard error; the estimate ends at the same decimal place
MOST_PLACES = 6  # decimal places; smaller numbers are written with an exponent
WRITTEN_OUT, FULL_PLACES = (1e-3, 1e5), 12
"""Numbers of this size, such as odds ratios near 1, are written out to the noise, with up to so many places."""


def to_the_noise(value: float, error: float) -> str:
    """`value` up to the place where its standard error has its second digit; three digits if there is no error."""
    if value != value:
        return ""
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return f"{value + 0.0:.3g}"
    places = ERROR_DIGITS - 1 - math.floor(math.log10(float(f"{error:.{ERROR_DIGITS - 1}e}")))
    # Adding zero turns the -0 of a rounded small number into 0.
    if places > 0 and WRITTEN_OUT[0] <= abs(value) < WRITTEN_OUT[1]:
        places = min(places, FULL_PLACES)
        return f"{round(value, places) + 0.0:.{places}f}"
    if -MOST_PLACES <= places <= MOST_PLACES:
        text = f"{round(value, places) + 0.0:.{max(places, 0)}f}"
        return text if len(text) <= MOST_PLACES + ERROR_DIGITS + 1 else format_number(value)
    if value == 0:
        return "0"
    digits = math.floor(math.log10(abs(value))) + places
    return f"{value:.{min(max(digits, 0), 3)}e}"


Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ContrastTests(Printed):
    """Tests of linear combinations of the coefficients, one by one.

    Attributes
    ----------
    names : tuple of str
    effect, sd : ndarray, shape (k,)
        Estimates and standard errors; the error is infinite if the budget does not identify the combination.
    statistic, pvalue : ndarray, shape (k,)
        ``tvalue`` is the same as ``statistic``. p-values follow from the joint distribution of noise and sampling
        error, not from the statistic alone.
    intervals : ndarray, shape (k, 2)
    alpha : float
        One minus the coverage of the intervals.
    """

    names: tuple[str, ...]
    effect: Float
    sd: Float
    statistic: Float
    pvalue: Float
    intervals: Float
    alpha: float

    @classmethod
    def of(cls, tests: CombinationTests, names: tuple[str, ...], alpha: float) -> ContrastTests:
        """The tests of `Inference.t_test`."""
        ends = np.asarray(tests.conf_int)
        return cls(names, tests.effect, tests.se, tests.statistics, tests.pvalues, ends, alpha)

    @property
    def tvalue(self) -> Float:
        """The statistic, under statsmodels' name."""
        return self.statistic

    def conf_int(self) -> Float:
        """Intervals of coverage 1 - alpha, shape (k, 2)."""
        return self.intervals

    def summary_frame(self) -> pd.DataFrame:
        """One row a combination; columns as statsmodels names them, though the p-values are no normal table's."""
        columns = ["coef", "std err", "z", "P>|z|", "Conf. Int. Low", "Conf. Int. Upp."]
        values = np.column_stack((self.effect, self.sd, self.statistic, self.pvalue, self.intervals))
        return WideFrame(values, index=list(self.names), columns=columns)

    def summary(self) -> Summary:
        """The same as a table at 80 columns."""
        table = inference_table(self.summary_frame(), self.alpha, title="Test for Constraints", test="statistic")
        return Summary([table])


LARGEST_VALUE = 1e100  # that coefficients are tested against: its square is finite

TESTED = ("estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high")
"""Broom's names of the columns of a regression table."""

COEFFICIENT_WIDTHS = [9, 9, 9, 7, 10, 10]  # of the columns of a regression table


def coefficient_headers(alpha: float, estimate: str = "coef", test: str = "coef/se") -> list[str]:
    """The headers of a regression table: none names the normal distribution, which p-values do not follow."""
    return [estimate, "std err", test, "p-value", f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.3g}]"]


def coefficient_cells(values: Sequence[float] | Float) -> list[str]:
    """One row of a regression table: estimate, error, statistic, p, and the interval, to the noise's digits.

    All is blank where the budget does not identify the coefficient: what was released may be noise alone.
    """
    estimate, error, statistic, pvalue, low, high = (float(value) for value in values)
    if not np.isfinite(error):
        return [""] * 6
    places = 3 if abs(statistic) < 100 else 1
    known = f"{round(statistic, places) + 0.0:.{places}f}" if abs(statistic) < 1e5 else ""
    numbers = [to_the_noise(number, error) for number in (estimate, error, low, high)]
    return [*numbers[:2], known, f"{pvalue:.3f}", *numbers[2:]]


def inference_table(
    frame: pd.DataFrame,
    alpha: float = LEVEL,
    title: str | None = None,
    estimate: str = "coef",
    test: str = "coef/se",
) -> SimpleTable:
    """The regression table of estimates, errors, statistics, p and both ends of their intervals, a row each."""
    rows = [(str(name), coefficient_cells(row.to_numpy(dtype=np.float64))) for name, row in frame.iterrows()]
    return full_width(coefficient_headers(alpha, estimate, test), rows, COEFFICIENT_WIDTHS, title=title)


def as_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """A table in broom's words with estimates and their intervals as ratios; errors stay those of coefficients."""
    ratios = table.columns.intersection(["estimate", "conf_low", "conf_high"])
    with np.errstate(over="ignore"):
        return table.assign(**{name: np.exp(table[name].to_numpy()) for name in ratios})


def log_scale_note(table: pd.DataFrame) -> str:
    """Which columns beside exponentiated estimates stay those of coefficients."""
    stay = [name for name in ("std_error", "released", "noise_at_most") if name in table]
    return f"on the log scale: {', '.join(stay)}" if stay else ""


@dataclass(frozen=True, eq=False)
class WaldTest:
    """A test of several linear combinations at once.

    Attributes
    ----------
    statistic : float
        Chi-squared in the limit of many rows; of Bonferroni's test that of the combination with
        the least p-value, squared.
    pvalue : float
        From the joint distribution of noise and sampling error; of Bonferroni's test the least p-value of one
        combination times their number, or 1 if that is less.
    df_constraint : int
        Independent combinations tested.
    untested : int
        Combinations that the budget does not identify, or are too noisy for a joint test, left out of the test: the
        hypothesis implies those left.
    bonferroni : bool
        Whether the test is Bonferroni's, which holds whatever the correlations of the errors: robust and clustered fits
        release variances alone.
    """

    statistic: float
    pvalue: float
    df_constraint: int
    untested: int
    bonferroni: bool = False

    def __str__(self) -> str:
        name = "Bonferroni test" if self.bonferroni else "Wald test"
        left_out = f", {self.untested} untested" if self.untested else ""
        return (
            f"<{name}: statistic={self.statistic:.4g}, p-value={self.pvalue:.4g}, "
            f"df_constraint={self.df_constraint}{left_out}>"
        )

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class WaldTestTerms:
    """Joint tests of the coefficients of each term.

    Attributes
    ----------
    table : DataFrame
        A row for each term; columns statistic, pvalue, df_constraint and untested, as in `WaldTest`. statistic and
        pvalue are NaN for a term that the budget does not identify.
    """

    table: pd.DataFrame

    def summary_frame(self) -> pd.DataFrame:
        """The table, its columns named as in statsmodels' summary."""
        names = {"statistic": "chi2", "pvalue": "P>chi2", "df_constraint": "df constraint"}
        return WideFrame(self.table.rename(columns=names))

    def __str__(self) -> str:
        names = {"pvalue": "p-value", "df_constraint": "df"}
        written = WideFrame(self.table.rename(columns=names)).to_string(float_format=four_digits)
        return "\n".join([written, *filter(None, [self.table.attrs.get("note")])])

    __repr__ = __str__


BONFERRONI_NOTE = (
    "Terms of several coefficients have Bonferroni's test, as the fit released no correlations of errors: statistic is "
    "that of the coefficient with the least p-value, squared."
)


def with_pvalues_note(table: pd.DataFrame, *, bonferroni: bool = False) -> NotedFrame:
    """A table of statistic, pvalue and df_constraint that says below if a p-value is far from that of a chi2 law."""
    noted = NotedFrame(table)
    if bonferroni:
        noted.attrs["note"] = BONFERRONI_NOTE
        return noted
    usual = special.chdtrc(table["df_constraint"], table["statistic"])
    if np.any((table["pvalue"] > TINY) & (table["pvalue"] > UNLIKE * usual)):
        noted.attrs["note"] = f"{PVALUES_WORDS} chi2 suggests."
    return noted


@dataclass(frozen=True, eq=False, repr=False)
class PredictionResults:
    """The mean response at given rows, each with its own interval.

    Attributes
    ----------
    index : Index or None
        Of the rows, if they have one.
    predicted_mean, se_mean : ndarray, shape (rows,)
        From the bias-corrected coefficients, unlike `predict`, which uses the shrunken ones; the error follows by the
        delta method. NaN for incomplete rows.
    intervals : ndarray, shape (rows, 2)
        Images of the linear predictor's intervals.
    linear, linear_se, linear_intervals : ndarray
        The same on the scale of the linear predictor.
    alpha : float
        One minus the coverage of the intervals.
    again : callable or None
        The same rows at another alpha.
    """

    index: pd.Index | None
    predicted_mean: Float
    se_mean: Float
    intervals: Float
    linear: Float
    linear_se: Float
    linear_intervals: Float
    alpha: float = 0.05
    again: Callable[[float], PredictionResults] | None = field(default=None, repr=False)

    def conf_int(self, alpha: float | None = None) -> Float:
        """Intervals for the mean of coverage 1 - alpha, shape (rows, 2); by default as they were asked for."""
        return self._at(alpha).intervals

    def _at(self, alpha: float | None) -> PredictionResults:
        """The same predictions with intervals of another coverage."""
        if alpha is None or alpha == self.alpha:
            return self
        if self.again is None:
            raise ArgumentError("alpha must be given to get_prediction(newdata, alpha=...) for these predictions")
        return self.again(alpha)

    def summary_frame(self, alpha: float | None = None) -> pd.DataFrame:
        """One row a prediction; columns as statsmodels names them. `alpha` is 1 less the coverage."""
        if alpha is not None and alpha != self.alpha:
            return self._at(alpha).summary_frame()
        columns = {
            "mean": self.predicted_mean,
            "mean_se": self.se_mean,
            "mean_ci_lower": self.intervals[:, 0],
            "mean_ci_upper": self.intervals[:, 1],
        }
        return EffectFrame(columns, index=self.index)

    def __str__(self) -> str:
        return repr(self.summary_frame())

    __repr__ = __str__

    def _repr_html_(self) -> Any:
        """What notebooks show."""
        return self.summary_frame()._repr_html_()  # type: ignore[operator]


def hypotheses(weights: Any, values: Any) -> tuple[Float, Float]:
    """Combinations of coefficients, shape (k, q), and the values that they are tested against, shape (k,)."""
    rows, against = check_numbers("weights", weights), check_numbers("values", values)[0]
    if len(against) not in (1, len(rows)) or np.max(np.abs(against), initial=0.0) > LARGEST_VALUE:
        many = f"one for each of {len(rows)} combinations"
        raise ArgumentError(f"values must be one number, or {many}, to {LARGEST_VALUE:g}")
    return rows, against

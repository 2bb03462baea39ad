"""Tests, confidence sets and first stages of models with instruments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.iolib.table import SimpleTable

from dpstats.arguments import check_numbers, safe_repr
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError, FormulaError
from dpstats.frames import WideFrame
from dpstats.inference.estimates import check_level
from dpstats.mechanisms.instruments import AndersonRubin, FirstStage, InstrumentedModel
from dpstats.quiet import quiet
from dpstats.results.contrasts import LARGEST_VALUE
from dpstats.results.inference_mixin import InferenceMixin
from dpstats.summaries import format_number, full_width
from dpstats.wording import argument

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class ConfidenceSet:
    """The values of a coefficient that a test does not reject.

    Attributes
    ----------
    intervals : tuple of pairs
        In order, apart from each other; one of the whole line, two rays, or none if every value is rejected.
    alpha : float
        One minus the coverage.

    Examples
    --------
    >>> import math
    >>> rays = ConfidenceSet(((-math.inf, 0.5), (2.0, math.inf)), 0.05)
    >>> print(rays)
    (-inf, 0.5] and [2, inf)
    >>> 1.0 in rays, rays.is_bounded
    (False, False)
    >>> print(ConfidenceSet((), 0.05), ConfidenceSet(((-math.inf, math.inf),), 0.05), sep="; ")
    empty; the whole line
    """

    intervals: tuple[tuple[float, float], ...]
    alpha: float

    @property
    def is_bounded(self) -> bool:
        """Whether no interval goes on for ever; an empty set is bounded."""
        return all(math.isfinite(end) for pair in self.intervals for end in pair)

    def __contains__(self, value: float) -> bool:
        return any(low <= value <= high for low, high in self.intervals)

    def __str__(self) -> str:
        if not self.intervals:
            return "empty"
        if self.intervals == ((-math.inf, math.inf),):
            return "the whole line"
        shown = [
            ("(-inf, " if low == -math.inf else f"[{format_number(low)}, ")
            + ("inf)" if high == math.inf else f"{format_number(high)}]")
            for low, high in self.intervals
        ]
        return " and ".join(shown)

    def __repr__(self) -> str:
        return f"<{1 - self.alpha:.4g} confidence set: {self}>"


@dataclass(frozen=True)
class InstrumentTest:
    """A test of coefficients, or of the instruments, whose statistic is chi-squared of `df` degrees of freedom.

    Attributes
    ----------
    statistic, pvalue : float
    df : int

    Examples
    --------
    >>> InstrumentTest(3.84, 0.05, 1)
    <InstrumentTest: statistic=3.84, p-value=0.05, df=1>
    """

    statistic: float
    pvalue: float
    df: int

    def __repr__(self) -> str:
        return f"<InstrumentTest: statistic={self.statistic:.4g}, p-value={self.pvalue:.4g}, df={self.df}>"


def two_parts(formula: str) -> tuple[str, str]:
    """The two formulas of ``"y ~ x + w | z + w"``: ``y ~ x + w`` and ``y ~ z + w``; else FormulaError."""
    parts = formula.split("|") if isinstance(formula, str) else []
    if len(parts) != 2 or parts[0].count("~") != 1 or "~" in parts[1] or not all(part.strip() for part in parts):
        raise FormulaError(
            "formula must have regressors and instruments, as in 'y ~ x + w | z + w': x is endogenous, z an "
            f"instrument, and controls w stand on both sides of '|'; got {safe_repr(formula)}"
        )
    return parts[0].strip(), f"{parts[0].split('~')[0].strip()} ~ {parts[1].strip()}"


def trimmed_error(name: str) -> FormulaError:
    """The error that rows were left out by a column that is neither an instrument nor a control."""
    return FormulaError(
        f"formula: rows with {name} outside an interval were left out of these statistics, and {name} is neither an "
        "instrument nor a control, so two-stage least squares would be biased; release statistics with its range "
        f"declared as a plain pair, as in {argument('domain', {name: (0, 1)})}"
    )


class InstrumentTests(InferenceMixin):
    """First stages, Anderson-Rubin tests and the test of overidentification of a model with instruments."""

    model: InstrumentedModel

    @property
    def endogenous(self) -> tuple[str, ...]:
        """The columns of the regressors that are not among the instruments."""
        return tuple(compress(self.model.part.names, self.model.endogenous))

    @property
    def excluded(self) -> tuple[str, ...]:
        """The instruments that are not among the regressors."""
        return tuple(compress(self.model.first.names, self.model.excluded))

    @cached_property
    def _stages(self) -> list[FirstStage]:
        with quiet():
            return self.model.first_stages()

    @cached_property
    def _anderson_rubin(self) -> AndersonRubin:
        with quiet():
            return self.model.anderson_rubin()

    @property
    def first_stage(self) -> pd.DataFrame:
        """A row for each endogenous column: the F that no instrument moves it, over sampling error and noise.

        ``rows_F`` estimates the F of the rows without noise, and ``rows_F_sd`` is the standard deviation of the noise
        in it.
        """
        lines = [(one.f, one.pvalue, one.df, one.untested, one.rows_f, one.rows_f_sd) for one in self._stages]
        columns = ["F", "pvalue", "df", "untested", "rows_F", "rows_F_sd"]
        return WideFrame(pd.DataFrame(lines, columns=columns, index=list(self.endogenous)))

    def ar_test(self, values: float | Sequence[float] | Vector = 0.0) -> InstrumentTest:
        """The Anderson-Rubin test that the endogenous columns have these coefficients; valid with weak instruments.

        Parameters
        ----------
        values : float or array_like, shape (m,)
            One for all, or one for each of `endogenous`.

        Raises
        ------
        ArgumentError
            If `values` is not usable.
        """
        given = check_numbers("values", values)[0]
        number = len(self.endogenous)
        if len(given) not in (1, number) or np.max(np.abs(given)) > LARGEST_VALUE:
            raise ArgumentError(f"values must be one number, or one for each of {', '.join(self.endogenous)}")
        inner = np.linalg.solve(self._units, np.broadcast_to(given, (number,)))
        with quiet():
            statistic = self._anderson_rubin.at(inner)
        return InstrumentTest(statistic, self._anderson_rubin.pvalue(statistic), self._anderson_rubin.sizes[0])

    def ar_conf_int(self, alpha: float = 0.05) -> ConfidenceSet:
        """The values of the endogenous coefficient that `ar_test` does not reject; perhaps unbounded, or empty.

        Raises
        ------
        ArgumentError
            If several columns are endogenous: `ar_test` tests their coefficients together.
        """
        level = check_level(alpha)
        if len(self.endogenous) > 1:
            raise ArgumentError(
                f"ar_conf_int needs one endogenous column, got {', '.join(self.endogenous)}; "
                "ar_test([...]) tests their coefficients together"
            )
        with quiet():
            pairs = self._anderson_rubin.confidence_set(level)
        unit = float(self._units[0, 0])
        turned = pairs if unit > 0 else tuple((high, low) for low, high in reversed(pairs))
        return ConfidenceSet(tuple((unit * low, unit * high) for low, high in turned), level)

    @property
    def j_stat(self) -> InstrumentTest:
        """The test that all instruments agree: the least Anderson-Rubin statistic of all coefficients.

        Raises
        ------
        ArgumentError
            If there are as many instruments as endogenous columns: nothing is left to test.
        """
        number = len(self.endogenous)
        if self._anderson_rubin.sizes[0] == number:
            raise ArgumentError("j_stat needs more instruments than endogenous columns")
        inner = self._inferred.table.estimates.debiased[self.model.endogenous]
        with quiet():
            return InstrumentTest(*self._anderson_rubin.overidentification(inner))

    @property
    def _units(self) -> Matrix:
        """A with A times coefficients of endogenous columns in model units in the user's, shape (m, m)."""
        return self._inferred.table.map[np.ix_(self.model.endogenous, self.model.endogenous)]

    def _instrument_tables(self) -> list[SimpleTable]:
        """The tables of the first stages and of the tests."""
        rows = []
        for name, one in zip(self.endogenous, self._stages, strict=True):
            pvalue = f"{one.pvalue:.3f}" if one.df else ""
            rows.append((name, [format_number(one.f), pvalue, format_number(one.rows_f), format_number(one.rows_f_sd)]))
        stages = full_width(["F", "p-value", "F of rows", "s.d."], rows, [11, 9, 11, 9], title="First Stage")
        names = self.endogenous
        alone = len(names) == 1
        tests = [(f"AR: {names[0] if alone else 'all endogenous'} = 0", self.ar_test())]
        if len(self.excluded) > len(names):
            tests.append(("J: instruments agree", self.j_stat))
        sets = [str(self.ar_conf_int()) if alone else "", ""]
        lines = []
        for (name, test), values in zip(tests, sets, strict=False):
            # Each of two rays has a line of its own.
            first, *rest = values.replace(" and ", " and\n").split("\n")
            lines.append((name, [f"{test.statistic:.4g}", str(test.df), f"{test.pvalue:.3f}", first]))
            lines += [("", ["", "", "", ray]) for ray in rest]
        heads = ["chi2", "df", "P>chi2", "95 % set"]
        title = "Anderson-Rubin and J Tests" if len(tests) > 1 else "Anderson-Rubin Test"
        return [stages, full_width(heads, lines, [9, 4, 8, 27], title=title)]

    def _weak_note(self) -> list[str]:
        """A note on weak instruments, if any."""
        weak = [pair for pair in zip(self.endogenous, self._stages, strict=True) if pair[1].is_weak]
        if not weak:
            return []
        name, least = min(weak, key=lambda pair: pair[1].f if pair[1].df else 0.0)
        strength = f"its first-stage F is {least.f:.3g}, below 10" if least.df else "no instrument is identified"
        return [
            f"Instruments are weak for {name} at this budget: {strength}. The coefficients of two-stage least squares "
            "and their intervals may be far off; the Anderson-Rubin test and its set are valid."
        ]

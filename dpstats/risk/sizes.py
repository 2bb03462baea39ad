"""Numbers of rows, and what each of them rests on."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.inference.identified import LIKELY
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.noise import Noise

WIDTH = 78

MOST = 10**12
"""The largest number of rows that errors are foreseen for."""

CLOSE = 1.01
"""A number of rows for errors, which are a forecast, is found to this factor."""

EVEN = (
    "A forecast for rows made up from the Domain, numbers about the middle of their range and levels ever rarer: real "
    "rows differ, and may need more. plan.simulate(n, seed) shows such a fit."
)
"""What forecasts of errors say of themselves."""


FREE = " These errors are free: real rows lose them more easily. inference=True pays for errors that are there."


class _Printed:
    """What prints as a short table, and shows itself in a line."""

    n: int

    def __int__(self) -> int:
        """The number of rows."""
        return self.n

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.n:,} rows>"


@dataclass(frozen=True, eq=False, repr=False)
class SampleSize(_Printed):
    """A number of rows for which privacy costs little, and what it rests on; print it.

    Attributes
    ----------
    n : int
        The smallest number of rows at which the proved bound on the excess of the mean loss, over every coefficient
        vector of norm `radius`, is at most the target.
    curvature : float
        The quadratic term it is reached at, on the sum objective; of a plan the least of its own.
    noise : Noise or BodyNoise
        The noise at that curvature.
    table : DataFrame
        ``n`` beside the sources' results; columns bound, source, n, holds, note.
    target, radius, pi : float
        As asked for.
    """

    n: int
    curvature: float
    noise: Noise | Any
    table: pd.DataFrame = field(repr=False)
    target: float = math.nan
    radius: float = math.nan
    pi: float = math.nan

    def __str__(self) -> str:
        """The proved numbers and what they are about, at 80 columns."""
        said = (
            f"With {self.n:,} rows, privacy adds at most {self.target:.4g} to the mean loss of these rows, against any "
            f"coefficients of norm {self.radius:.4g} in model units, with probability {1 - self.pi:g} over the noise. "
            "The loss is the family's, in model units: of 'binomial' 0.693 a row without coefficients, of 'gaussian' "
            "half the squared residual where the response fills [-1, 1]."
        )
        proved = self.table[self.table["holds"] == "proved"]
        names = {"unregularised, same rows": "these rows", "population": "new rows"}
        rows = [
            f"{names.get(row['bound'], row['bound']):<12}{row['n']:>22,}  {row['note']}" for _, row in proved.iterrows()
        ]
        lines = [line for row in rows for line in textwrap.wrap(row, WIDTH, subsequent_indent=" " * 36)]
        more = "Standard errors instead: sample_size(plan, se={'column': 0.1}). Other papers' bounds: table."
        return "\n".join(
            [*textwrap.wrap(said, WIDTH), "", f"{'excess of':<12}{'rows':>22}", *lines, "", *textwrap.wrap(more, WIDTH)]
        )


@dataclass(frozen=True, eq=False, repr=False)
class ErrorSize(_Printed):
    """A number of rows for which standard errors are likely to be small, and what it rests on; print it.

    Attributes
    ----------
    n : int
        To one percent.
    table : DataFrame
        A row for each coefficient asked for: wanted; std_error, foreseen at `n` rows; sampling, the same without any
        noise.
    eps : float
        The budget of the plan.
    free : bool
        Whether the errors are free, and so a matter of luck with real rows.
    """

    n: int
    table: pd.DataFrame
    eps: float
    free: bool = False

    def __str__(self) -> str:
        """The number and the errors at it, at 80 columns."""
        said = f"About {self.n:,} rows for these standard errors at eps = {self.eps:.4g}. {EVEN}"
        said += FREE if self.free else ""
        table = self.table.map("{:.4g}".format).to_string(max_colwidth=40)
        return "\n".join([*textwrap.wrap(said, WIDTH), "", table])


def rows_for_errors(plan: Any, se: Any, residual_sd: float | None = None) -> ErrorSize:
    """The number of rows at which every standard error asked for is foreseen to be met.

    Parameters
    ----------
    plan : Plan
    se : dict
        Standard errors by the name of the coefficient, in the user's units.
    residual_sd : float, optional
        As for `Plan.standard_errors`.

    Raises
    ------
    ArgumentError
        If `se` is no such dict, the plan buys no standard errors, or no number of rows up to 10^12 will do.
    """
    wanted = _wanted(plan, se)

    def excess(n: int) -> float:
        found = plan.standard_errors(n, residual_sd=residual_sd).loc[wanted.index]
        known = found["identified"].min() >= LIKELY
        return float(np.max(found["std_error"].to_numpy() / wanted.to_numpy())) if known else np.inf

    low, high = 1, 64
    while excess(high) > 1:
        low, high = high, 8 * high
        if high > MOST:
            raise ArgumentError(f"se: more than {MOST:,} rows would be needed at this eps; ask for less, or raise eps")
    while high > CLOSE * low and high - low > 1:
        middle = math.isqrt(low * high)
        low, high = (middle, high) if excess(middle) > 1 else (low, middle)
    table = plan.standard_errors(high, residual_sd=residual_sd).loc[wanted.index]
    table.insert(0, "wanted", wanted)
    information = plan.stages[-1].plan.information
    return ErrorSize(high, table, plan.request.eps, information is not None and information.purchase.free)


def _wanted(plan: Any, se: Any) -> pd.Series[float]:
    """The errors asked for, by names that the plan has."""
    if not isinstance(se, Mapping) or not se:
        raise ArgumentError(f"se must be a dict such as {{{plan.names[-1]!r}: 0.1}}, got {shown(se)}")
    for name, value in se.items():
        if name not in plan.names:
            raise ArgumentError(f"se: the plan has no coefficient {shown(name)}; it has {', '.join(plan.names)}")
        check_positive("se", value)
    return pd.Series({str(name): float(value) for name, value in se.items()}, dtype=float)

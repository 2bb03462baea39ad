"""Numbers of rows and budgets that are enough, and what each of them rests on."""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_row_count, near_miss, safe_repr
from dpstats.errors import ArgumentError
from dpstats.frames import WideFrame
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.noise import Noise
from dpstats.progress import show_elapsed
from dpstats.wording import argument, phrase

WIDTH = 78

MOST_ROWS = 10**12  # the largest number of rows that errors are forecast for
TOLERANCE = 1.01  # the factor to which a number of rows is found; errors are a forecast
ROUGH_TOLERANCE = 1.1  # the same for rows that are more or less informative
LONGEST_STEP = 2.0  # of the search, on the logarithm of the number of rows
GROWTH = 4.0  # the factor between trials until coefficients are likely to be identified
IDENTIFIED_TOLERANCE = 1.05  # the factor to which the number that identifies them is found
BINDING = 0.9  # of the target: smaller forecasts show that something else binds
SEARCH_DRAWS = 6  # of noise, in the search; all decide about its answer


class _RowCount:
    """A number of rows; it prints as a short table, and its repr is one line."""

    n: int
    of: str = "rows"

    def __int__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.n:,} {self.of}>"


@dataclass(frozen=True, eq=False, repr=False)
class SampleSize(_RowCount):
    """A number of rows for which privacy costs little, and what it rests on; print it.

    Attributes
    ----------
    n : int
        The smallest number of rows at which the proved bound on the excess of the mean loss, over every coefficient
        vector of norm `radius`, is at most the target.
    curvature : float
        The quadratic term it is reached at, on the sum objective; of a plan the least of its own.
    noise : Noise or KNormNoise
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
        bound = (
            f"With {self.n:,} rows, privacy adds at most {self.target:.4g} to the mean loss of these rows, compared "
            f"with any coefficients of norm up to {self.radius:.4g} in model units, with probability {1 - self.pi:g} "
            "over the noise. The loss is that of the family, in model units: 'binomial' has 0.693 per row without "
            "coefficients, 'gaussian' half the squared residual if the response fills [-1, 1]."
        )
        proved = self.table[self.table["holds"] == "proved"]
        names = {"unregularised, same rows": "these rows", "population": "new rows"}
        rows = [
            f"{names.get(row['bound'], row['bound']):<12}{row['n']:>22,}  {row['note']}" for _, row in proved.iterrows()
        ]
        lines = [line for row in rows for line in textwrap.wrap(row, WIDTH, subsequent_indent=" " * 36)]
        more = "Standard errors instead: sample_size(plan, se={'column': 0.1}). The bounds of papers are in `table`."
        table = [f"{'excess of':<12}{'rows':>22}", *lines]
        return "\n".join([*textwrap.wrap(bound, WIDTH), "", *table, "", *textwrap.wrap(more, WIDTH)])


@dataclass(frozen=True, eq=False, repr=False)
class ErrorSize(_RowCount):
    """A number of rows for which standard errors are likely to be small, and what it rests on; print it.

    Attributes
    ----------
    n : int
        The number at which usual rows, or those described, are forecast to meet the target, to a few percent.
    cautious : int
        The number at which uninformative rows are also likely to have finite errors. Where the rows are described, the
        one at which at least 95 of 100 fits are expected to meet the target; with `n`, half of them or more.
    table : DataFrame
        One row per coefficient: the target, and the forecast of `Plan.standard_errors` for `n` rows.
    eps : float
        The budget of the plan.
    free : bool
        Whether the errors are free, which real rows may not have.
    least, most : int
        The numbers at which informative and uninformative rows are forecast to meet the target, by ``lower`` and
        ``upper`` of `Plan.standard_errors`.
    known : bool
        Whether `typical` or `like` described the spread of all columns.
    of : str
        What is counted: "rows", or "persons" of a plan with a unit.
    assumption : str
        The share of events, or the mean of counts, that the numbers are for, and how to say another.
    alike : bool
        Whether the rows of a person are taken as alike, so that rows which differ give smaller errors.
    """

    n: int
    table: pd.DataFrame
    eps: float
    free: bool = False
    cautious: int = 0
    least: int = 0
    most: int = 0
    known: bool = False
    of: str = "rows"
    assumption: str = ""
    alike: bool = False

    @property
    def usual(self) -> int:
        """The number `n`, by the name of its rows."""
        return self.n

    def __str__(self) -> str:
        """The numbers and the errors at `n`, at 80 columns."""
        answer = (
            f"About {self.n:,} {self.of} for these standard errors at eps = {self.eps:.4g}{_if_alike(self.alike)}. "
            f"{self._assumptions()}"
        )
        if self.free:
            paid = argument("inference", True)
            answer += (
                f" These errors cost no extra budget, and with real rows they are more often infinite. {paid} reserves "
                "budget for them."
            )
        return _text_with_table(f"{answer} {self.assumption}".rstrip(), self.table, self.known, f"fewer {self.of}")

    def _assumptions(self) -> str:
        """The assumptions behind the number."""
        if self.known:
            shares = _shares_note(f"{self.n:,}", f"{self.cautious:,}", f" {self.of}")
            return shares * (self.cautious > self.n) + described_rows_note()
        fewer = f" If numbers fill their ranges, {self.least:,} are enough." * (self.least < self.n)
        needed = f"about {self.cautious:,} are needed"
        if self.most != self.cautious:
            needed += f" for finite standard errors, and about {self.most:,} to meet the target"
        return f"{USUAL_ROWS}{fewer} {UNINFORMATIVE_ROWS}, {needed}. {simulated_rows_note()}"


USUAL_ROWS = "This is enough if numbers fill a good part of their ranges and no level is rare."
UNINFORMATIVE_ROWS = "If numbers fill little of their ranges, or levels are rare"


def _if_alike(alike: bool) -> str:
    """The condition of an answer about persons whose rows are not described."""
    return ", if the rows of a person are alike" * alike


def described_rows_note() -> str:
    """The assumption of an answer about described rows."""
    return f"This is a forecast for rows as described by {phrase('typical= or like=', shell='--typical')}."


def simulated_rows_note() -> str:
    """The assumption of an answer if no rows are described."""
    described = phrase("; typical= and like= describe other rows", shell="; --typical describes other rows")
    return f"This is a forecast for rows simulated from the Domain{described}."


def _shares_note(usual: str, cautious: str, of: str) -> str:
    """How many fits are expected to meet the target at a usual answer and at a cautious one, of described rows."""
    # The error in the middle of the draws meets it. Columns of typical= are supposed to be correlated, and bought
    # ranges to be wide, so that the errors of most fits are smaller.
    return (
        f"With {cautious}{of}, at least 95 of 100 fits are expected to meet the target; with {usual}, half of them or "
        "more (often all). "
    )


def _is_easy(table: pd.DataFrame) -> bool:
    """Whether the forecast is so far below the target that something else decides."""
    return float((table["std_error"] / table["wanted"]).max()) < BINDING


def _text_with_table(answer: str, table: pd.DataFrame, known: bool, less: str) -> str:
    """An answer in words, and the forecast for it."""
    if _is_easy(table):
        answer += (
            f" A typical fit would reach the target with {less}. But then too many fits would miss it, or have no "
            "standard errors."
        )
    ends = [name for name in ("lower", "upper") if known and table[name].equals(table["std_error"])]
    columns = table.drop(columns=[*ends, "identified_upper"])
    shown = columns.map("{:.4g}".format).to_string(max_colwidth=30, line_width=WIDTH)
    upper = table["identified_upper"]
    each = ", ".join(f"{name} {value:.4g}" for name, value in upper.items())
    notes = [f"{', '.join(ends)}: as std_error"] * bool(ends)
    chances = "identified_upper, the chance of a standard error for the rows of upper: "
    notes.append("identified_upper: as identified" if upper.equals(table["identified"]) else chances + each)
    return "\n".join([*textwrap.wrap(answer, WIDTH), "", shown, *textwrap.wrap("; ".join(notes), WIDTH)])


@dataclass(frozen=True, eq=False, repr=False)
class RequiredEps:
    """The least eps at which standard errors are likely to be small, and what it rests on; print it.

    Attributes
    ----------
    eps : float
        The eps at which usual rows, or those described, are forecast to meet the target, to a few percent; inf where no
        eps up to 20 is enough.
    cautious : float
        The eps at which uninformative rows are also likely to have finite errors. Where the rows are described, the one
        at which at least 95 of 100 fits are expected to meet the target; with `eps`, half of them or more.
    n : int
        The number of rows.
    table : DataFrame
        One row per coefficient: the target, and the forecast of `Plan.standard_errors` at `eps`, or at 20.
    known : bool
        Whether `typical` or `like` described the spread of all columns.
    of : str
        What is counted: "rows", or "persons" of a plan with a unit.
    assumption : str
        The share of events, or the mean of counts, that the answer is for, and how to say another.
    alike : bool
        Whether the rows of a person are taken as alike, so that rows which differ give smaller errors.
    """

    eps: float
    cautious: float
    n: int
    table: pd.DataFrame
    known: bool = False
    of: str = "rows"
    assumption: str = ""
    alike: bool = False

    def __float__(self) -> float:
        """The eps."""
        return self.eps

    def __repr__(self) -> str:
        return f"<RequiredEps: {self.eps:.4g}>"

    def __str__(self) -> str:
        """The eps and the errors at it, at 80 columns."""
        rests_on = f"{described_rows_note() if self.known else simulated_rows_note()} {self.assumption}".rstrip()
        if math.isinf(self.eps):
            most = f"{LARGEST_EPS:g}"
            condition = _if_alike(self.alike)
            answer = f"No eps up to {most} gives {self.n:,} {self.of} these standard errors{condition}. {self._why()}"
            answer += f"The table is for eps = {most}. "
            return _text_with_table(answer + rests_on, self.table, self.known, "a smaller eps")
        condition = _if_alike(self.alike)
        answer = f"About eps = {self.eps:.4g} for these standard errors of {self.n:,} {self.of}{condition}. "
        if not self.known:
            rare = f"no eps up to {LARGEST_EPS:g} is likely to give finite standard errors"
            if math.isfinite(self.cautious):
                rare = (
                    f"eps = {self.cautious:.4g} is likely to give finite standard errors, which may exceed the target"
                )
            answer += f"{USUAL_ROWS} {UNINFORMATIVE_ROWS}, {rare}. "
        elif self.cautious > self.eps:
            if math.isfinite(self.cautious):
                answer += _shares_note(f"eps = {self.eps:.4g}", f"eps = {self.cautious:.4g}", "")
            else:
                answer += f"With no eps up to {LARGEST_EPS:g} are 95 of 100 fits expected to meet the target. "
        return _text_with_table(answer + rests_on, self.table, self.known, "a smaller eps")

    def _why(self) -> str:
        """Which error is beyond its target whatever the eps, if one is, and what helps."""
        wanted, sampling = (self.table[name].to_numpy() for name in ("wanted", "sampling"))
        place = int(np.argmax(sampling / wanted))
        if sampling[place] <= wanted[place]:
            return f"Take more {self.of} or larger targets. "
        rows = _round_up(self.n * float(sampling[place] / wanted[place]) ** 2)
        then = "then " * self.alike
        return (
            f"The sampling error alone is {then}too large: without any privacy noise the standard error of "
            f"{self.table.index[place]} is {sampling[place]:.3g}, the target {wanted[place]:.3g}. Take more "
            f"{self.of} (more than {rows:,}) or a larger target. "
        )


def required(
    plan: Any,
    *,
    se: Mapping[str, float],
    n: int,
    residual_sd: float | None = None,
    typical: Mapping[str, Any] | None = None,
    like: Any = None,
) -> RequiredEps:
    """Which eps makes standard errors as small as `se` with `n` rows; reads no row and spends nothing.

    Parameters
    ----------
    plan : Plan
        Of `dpstats.plan`, whatever its eps.
    se : dict
        Standard errors by coefficient, such as ``{"smoker": 0.1}``, in the user's units.
    n : int
        The number of rows, or of persons of a plan with a unit, public or assumed.
    residual_sd, typical, like : float, dict, DataFrame, optional
        A description of the rows, as for ``plan.standard_errors``; `like` must be public rows.

    Returns
    -------
    RequiredEps
        ``eps``, usually enough, ``cautious``, nearly always enough, and ``table``; a number with words when printed.
        inf where no eps up to 20 is enough.

    Raises
    ------
    ArgumentError
        If an argument is outside its range, or the plan has no standard errors to forecast.

    Examples
    --------
    >>> import dpstats as dp
    >>> plan = dp.plan("y ~ x", {"x": (0, 1), "y": bool}, 1.0, family="binomial", inference=True)
    >>> dp.required(plan, se={"x": 0.2}, n=20_000).eps < 1
    True
    """
    targets = _targets(plan, se)
    wanted = targets.to_numpy()
    with show_elapsed("looking for an eps"):
        forecast = plan.forecast(residual_sd=residual_sd, typical=typical, like=like)
        places = [forecast.coefficients.index(name) for name in targets.index]

        @functools.cache  # what is printed was asked for by the search
        def at(eps: float) -> Any:
            """The forecast at another eps; None where there is no plan with errors."""
            try:
                return forecast.at(plan.at(eps))
            except ArgumentError:  # too small for the ranges to be bought, or the errors are not free there
                return None

        def meets(forecast_there: Any, name: str) -> bool:
            likely = forecast_there is not None and forecast_there.enough(n, places, name=name)
            return likely and bool(np.all(forecast_there.likely(name, n)[0][places] <= wanted))

        def cautious(eps: float) -> bool:
            forecast_there = at(eps)
            if forecast_there is None:
                return False
            unlucky = forecast_there.cautious()
            if not forecast.known:
                return bool(unlucky.enough(n, places))
            return meets(unlucky, forecast.last)

        def nearly_cautious(eps: float) -> bool:
            """The same to first order, by few draws: all of them raise errors, and take most of the time."""
            forecast_there = at(eps)
            if forecast_there is None:
                return False
            errors, chances = forecast_there.cautious().likely(forecast.last, n, rough=True)
            return bool(np.all((errors[places] <= wanted) & (chances[places] > 1 - 1e-9)))

        check_row_count(n, 10**15)
        eps = _least_eps(lambda eps: meets(at(eps), forecast.names[0]), EPS_LADDER)
        sure = eps
        if not math.isinf(eps):
            if forecast.known:
                sure = min(
                    _least_eps(nearly_cautious, [eps, *(step for step in EPS_LADDER if step > eps)]), LARGEST_EPS
                )
            near = [step for step in (sure * IDENTIFIED_TOLERANCE**k for k in range(4)) if step <= LARGEST_EPS]
            sure = _least_eps(cautious, [*near, *(step for step in EPS_LADDER if step > near[-1])])
        shown = at(min(eps, LARGEST_EPS)) or forecast
        table = shown.errors(n).loc[targets.index]
    table.insert(0, "wanted", targets)
    known, of = forecast.known, _counted(plan)
    return RequiredEps(eps, sure, n, WideFrame(table), known, of, forecast.assumption, forecast.alike)


LARGEST_EPS = 20.0  # a larger eps is no guarantee worth its name

EPS_LADDER = tuple(LARGEST_EPS * 0.5**halvings for halvings in range(11, -1, -1))
"""Budgets to try in this order; the interval before the first one that is enough is then bisected."""


def _least_eps(enough: Callable[[float], bool], ladder: Sequence[float]) -> float:
    """The least eps of a ladder, or between its steps, that is enough, with two digits, rounded up; inf if none is."""
    place = next((place for place, eps in enumerate(ladder) if enough(eps)), None)
    if place is None:
        return math.inf
    high, low = ladder[place], ladder[max(place - 1, 0)]
    while high > IDENTIFIED_TOLERANCE * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    unit = 10.0 ** (math.floor(math.log10(high)) - 1)
    steps = math.ceil(high / unit - 1e-9)
    # The purchases of a rounded budget may be other ones: it is asked about as it will be printed.
    while (eps := min(round(steps * unit, 12), ladder[-1])) < ladder[-1] and not enough(eps):
        steps += 1
    return eps


def rows_for_errors(
    plan: Any, se: Any, residual_sd: float | None = None, typical: object = None, like: object = None
) -> ErrorSize:
    """The number of rows at which every standard error of `se`, by coefficient, is forecast to be met.

    ArgumentError if `se` is no such dict, the plan buys no standard errors, or no number of rows up to 10^12 will do.
    """
    targets = _targets(plan, se)
    with show_elapsed("looking for a number of rows"):
        forecast = plan.forecast(residual_sd=residual_sd, typical=typical, like=like)
        places = [forecast.coefficients.index(name) for name in targets.index]
        search = _Search(forecast, places, np.array(targets, dtype=np.float64))
        n = cautious = least = most = search.met(forecast.names[0], TOLERANCE)
        if forecast.known:
            cautious = replace(search, forecast=forecast.cautious()).met(forecast.last, ROUGH_TOLERANCE, n)
            most = cautious
        else:
            # These are found to a tenth only.
            least = min(search.met(forecast.names[1], ROUGH_TOLERANCE), n)
            cautious = search.identified(forecast.last, n, IDENTIFIED_TOLERANCE)
            most = search.met(forecast.last, ROUGH_TOLERANCE, cautious)
        table = forecast.errors(n).loc[targets.index]
    table.insert(0, "wanted", targets)
    known, of = forecast.known, _counted(plan)
    free = forecast.free(n)
    assumed, alike = forecast.assumption, forecast.alike
    return ErrorSize(n, WideFrame(table), plan.eps, free, cautious, least, most, known, of, assumed, alike)


def _counted(plan: Any) -> str:
    """What numbers of rows are of."""
    return "rows" if plan.guarantee.unit is None else "persons"


@dataclass(frozen=True, eq=False)
class _Search:
    """A search for the least numbers of rows at which some coefficients have the target errors, shape (k,).

    They are numbers as they are printed, and what is sought holds at them.
    """

    forecast: Any
    places: list[int]
    targets: NDArray[np.float64]

    def met(self, population: str, close: float, known: int | None = None) -> int:
        """The number at which errors are likely to be finite and on target; at `known` rows they are likely finite."""
        n = known
        if n is None:
            # Without noise it would take this many.
            noiseless = max(1.0, float(np.max(self.forecast.sampling(population)[self.places] / self.targets)) ** 2)
            n = self.identified(population, noiseless, max(close, IDENTIFIED_TOLERANCE))
        rows = n if self._excess(population, n) <= 0 else _round_up(self._enough(population, n, close))
        while not (self._likely(population, rows) and self._on_target(population, rows)):
            rows = _round_up(_check_feasible(close * rows))
        return rows

    def identified(self, population: str, least: float, close: float) -> int:
        """The number, at least `least`, at which errors are likely to be finite, to a factor `close`."""
        low = high = _check_feasible(least)
        while not self._likely(population, high, SEARCH_DRAWS):
            low, high = high, _check_feasible(GROWTH * high)
        while high > close * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self._likely(population, middle, SEARCH_DRAWS) else (middle, high)
        while not self._likely(population, high):
            high = _check_feasible(IDENTIFIED_TOLERANCE * high)
        return _round_up(high)

    def _likely(self, population: str, n: float, draws: int | None = None) -> bool:
        """Whether errors of this many rows, rounded up, are likely to be finite."""
        return bool(self.forecast.enough(_round_up(n), self.places, draws, population))

    def _on_target(self, population: str, rows: int) -> bool:
        """Whether the errors that a table prints for this many rows are."""
        return bool(np.all(self.forecast.likely(population, rows)[0][self.places] <= self.targets))

    def _excess(self, population: str, n: float) -> float:
        """The logarithm of the worst ratio of an error to its target."""
        errors = self.forecast.expected(population, math.ceil(_check_feasible(n)))[self.places]
        return float(np.log(np.max(errors / self.targets)))

    def _enough(self, population: str, n: float, close: float) -> float:
        """The number of rows at which errors are on target, to a factor `close`; those of `n` rows are not."""
        low = high = math.log(n)
        above = below = self._excess(population, n)
        while above > 0:
            low, below = high, above
            high += min(max(above, 0.1), LONGEST_STEP)
            above = self._excess(population, math.exp(high))
        while high - low > math.log(close):
            share = below / (below - above) if np.isfinite(below) else 0.5
            middle = low + (high - low) * min(max(share, 0.1), 0.9)
            if (excess := self._excess(population, math.exp(middle))) > 0:
                low, below = middle, excess
            else:
                high, above = middle, excess
        return math.exp(high)


def _check_feasible(n: float) -> float:
    """The number of rows; ArgumentError if it is above `MOST_ROWS`."""
    if n > MOST_ROWS:
        raise ArgumentError(
            f"se: more than {MOST_ROWS:,} rows would be needed at this eps; allow larger errors, or raise eps"
        )
    return n


def _round_up(n: float) -> int:
    """A number of rows, rounded up to three digits."""
    unit = 10 ** max(0, math.floor(math.log10(n)) - 2)
    return math.ceil(n / unit - 1e-9) * unit


def _targets(plan: Any, se: Any) -> pd.Series[float]:
    """The target errors by coefficient; ArgumentError for a name that the plan does not have."""
    if not hasattr(plan, "standard_errors"):
        raise ArgumentError(f"plan must be a plan that dpstats.plan has made, got {safe_repr(plan)}")
    known = list(getattr(plan, "coefficients", plan.names))  # with an absorbed factor none are forecast by rows
    if not isinstance(se, Mapping) or not se:
        raise ArgumentError(f"se must be a dict such as {{{known[-1]!r}: 0.1}}, got {safe_repr(se)}")
    for name, value in se.items():
        if name not in known:
            near = (
                _closest_name(name, [one for one in known if isinstance(one, str)]) if isinstance(name, str) else None
            )
            listed = f"did you mean {near!r}?" if near else f"it has {', '.join(map(str, known))}"
            raise ArgumentError(f"se: the plan has no coefficient {safe_repr(name)}; {listed}")
        check_positive("se", value)
    return pd.Series(list(map(float, se.values())), index=list(se), dtype=float)


def _closest_name(name: str, names: Sequence[str]) -> str | None:
    """The coefficient that is probably meant by a misspelt name or one without its level."""
    return next((one for one in names if one.startswith((f"{name}[", f"C({name})["))), None) or near_miss(name, names)

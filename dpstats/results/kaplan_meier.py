"""Survival curves and the log-rank test of one noisy histogram: its plan and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_numbers, is_number, safe_repr
from dpstats.errors import ArgumentError
from dpstats.frames import WideFrame
from dpstats.inference.estimates import check_level
from dpstats.inference.survival import CLEAR, LEAST_AT_RISK, LogRank, NoisyCounts, curves, log_rank
from dpstats.plots.by_group import survival
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.stored import Printed, Released, guarantee_sentence, marked_title
from dpstats.summaries import Summary, format_number, full_width, paired_facts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALL = "all"  # the name of the group if there is one


@dataclass(frozen=True)
class KaplanMeierPlan(Printed):
    """The cost and the noise of survival curves; a function of formula, Domain and options alone.

    Attributes
    ----------
    formula : str
    groups : tuple of str
        A curve each; "all" if the formula has no groups.
    breaks : tuple of float
        Ends of the intervals, from 0 on.
    guarantee : Guarantee

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"time": (0, 60), "event": (0, 1), "arm": ["a", "b"]}
    >>> plan = dp.plan_kaplan_meier("Surv(time, event) ~ arm", domain, eps=1.0)
    >>> print(plan.guarantee)
    eps=1, add_remove, certified
    >>> round(plan.count_sd, 2)
    1.36
    >>> plan.table.columns.to_list()
    ['start', 'end', 'noise_sd', 'shown_from']
    >>> "Plan of survival curves" in plan.summary().as_text()
    True
    >>> dp.KaplanMeierPlan.from_dict(plan.to_dict()) == plan
    True
    """

    formula: str
    groups: tuple[str, ...]
    breaks: tuple[float, ...]
    guarantee: Guarantee

    @property
    def sensitivity(self) -> int:
        """How many numbers of the histogram a record changes by one."""
        return 1 if self.guarantee.adjacency == "add_remove" else 2

    @property
    def variance(self) -> float:
        """The variance of the noise in each number."""
        half = self.guarantee.eps / self.sensitivity / 2
        return 0.5 / math.sinh(half) ** 2 if half < 350 else 0.0

    @property
    def count_sd(self) -> float:
        """The standard deviation of the noise in a number of events of one interval."""
        return math.sqrt(self.variance)

    @property
    def intervals(self) -> int:
        """The number of intervals."""
        return len(self.breaks) - 1

    @property
    def cells(self) -> int:
        """Numbers released: events and censored by interval, and those observed to the end, in each group."""
        return len(self.groups) * (2 * self.intervals + 1)

    @property
    def table(self) -> pd.DataFrame:
        """An interval a row: its start and end, the noise in the number at risk, and from how many on it is shown."""
        later = np.arange(self.intervals, 0, -1)
        noise = np.sqrt((2 * later + 1) * self.variance)
        shown = np.maximum(np.ceil(CLEAR * noise), LEAST_AT_RISK)
        ends = np.array(self.breaks)
        return WideFrame({"start": ends[:-1], "end": ends[1:], "noise_sd": noise, "shown_from": shown})

    def summary(self) -> Summary:
        """The plan at 80 columns; as_text, as_html, as_latex and as_markdown."""
        table, (left, right) = self.table, self._facts()
        facts = paired_facts(marked_title("Plan of survival curves", self.guarantee), left, right)
        rows = [
            (f"{row.start:.4g} to {row.end:.4g}", [f"{row.noise_sd:.1f}", f"{row.shown_from:.0f}"])
            for row in table.iloc[_few(self.intervals)].itertuples()
        ]
        notes = [
            guarantee_sentence(self.guarantee, "The curves will be"),
            f"A curve ends where fewer rows are at risk than {CLEAR:g} standard deviations of the noise.",
        ]
        return Summary([facts, full_width(["noise sd, at risk", "shown from"], rows, [20, 14])], notes)

    def _facts(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        budget = f"{self.guarantee.eps:.4g}"
        left = [("Groups:", str(len(self.groups))), ("Intervals:", str(self.intervals))]
        return left, [("Epsilon:", budget), ("Noise sd, count:", f"{self.count_sd:.3g}")]

    def to_dict(self) -> dict[str, Any]:
        """Public facts, for JSON."""
        return {
            "formula": self.formula,
            "groups": list(self.groups),
            "breaks": list(self.breaks),
            "guarantee": self.guarantee.to_dict(),
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """What `to_dict` described."""
        guarantee = Guarantee(**facts["guarantee"])
        return cls(facts["formula"], tuple(facts["groups"]), tuple(facts["breaks"]), guarantee)


@dataclass(frozen=True, eq=False)
class KaplanMeier(Released):
    """Survival curves with intervals that count the noise, and the log-rank test.

    Attributes
    ----------
    plan : KaplanMeierPlan
    counts : ndarray of int, shape (groups, 2 * intervals + 1)
        As released: events by interval, censored by interval, and those observed to the end. They may be negative.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.integers(0, 2, 2000)
    >>> time = rng.exponential(30 + 20 * arm)
    >>> rows = {"time": np.minimum(time, 60), "event": time < 60, "arm": np.where(arm, "new", "old")}
    >>> domain = {"time": (0, 60), "event": (0, 1), "arm": ["old", "new"]}
    >>> km = dp.kaplan_meier("Surv(time, event) ~ arm", rows, 1.0, domain=domain, seed=1)
    >>> km.logrank().pvalue < 0.001
    True
    >>> bool(km.survival(20.0, "arm=new")["low"][0] < np.exp(-20 / 50) < km.survival(20.0, "arm=new")["high"][0])
    True
    >>> km.curves().columns.to_list()
    ['group', 'time', 'at_risk', 'events', 'survival', 'std_err', 'noise_err', 'low', 'high']
    >>> km.conf_int().loc[("arm=new", 30.0)].between(0, 1).all().item()
    True
    >>> km.tidy().columns.to_list()[:4]
    ['time', 'n_risk', 'n_event', 'estimate']
    >>> int(km.glance()["groups"].iloc[0])
    2
    >>> km.logrank().df
    1
    >>> km.plot().get_xlabel()
    'time'
    >>> "Private Survival Curves" in km.summary().as_text()
    True
    """

    plan: KaplanMeierPlan
    counts: NDArray[np.int64]

    @property
    def guarantee(self) -> Guarantee:
        """What the release promises."""
        return self.plan.guarantee

    @property
    def _noisy(self) -> NoisyCounts:
        counts, intervals = self.counts.astype(np.float64), self.plan.intervals
        return NoisyCounts(counts[:, :intervals], counts[:, intervals:-1], counts[:, -1], self.plan.variance)

    def curves(self, alpha: float = 0.05) -> pd.DataFrame:
        """One row a group and interval, with pointwise 1 - alpha intervals that count noise and sampling.

        Columns group, time (the end of the interval), at_risk (at its start) and events as released, but at least zero;
        survival, std_err, noise_err (the part of privacy), low, high. NaN where too few are at risk beside the noise.
        """
        check_level(alpha)
        estimates, noisy = curves(self._noisy, alpha), self._noisy
        survival = np.exp(-estimates.hazard)
        columns = {
            "at_risk": np.maximum(noisy.at_risk, 0.0),
            "events": np.maximum(noisy.events, 0.0),
            "survival": survival,
            "std_err": survival * estimates.std_err,
            "noise_err": survival * estimates.noise_err,
            "low": np.exp(-estimates.high),
            "high": np.exp(-estimates.low),
        }
        groups = np.repeat(self.plan.groups, self.plan.intervals)
        times = np.tile(self.plan.breaks[1:], len(self.plan.groups))
        return WideFrame({"group": groups, "time": times, **{name: part.ravel() for name, part in columns.items()}})

    @property
    def table(self) -> pd.DataFrame:
        """`curves` with 95 % intervals."""
        return self.curves()

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Pointwise intervals of the survival, by group and time; columns low and high."""
        return self.curves(alpha).set_index(["group", "time"])[["low", "high"]]

    def tidy(self, alpha: float = 0.05) -> pd.DataFrame:
        """`curves` under broom's names."""
        names = {
            **{"time": "time", "at_risk": "n_risk", "events": "n_event", "survival": "estimate"},
            **{"std_err": "std_error", "low": "conf_low", "high": "conf_high", "group": "strata"},
        }
        return WideFrame(self.curves(alpha)[list(names)].rename(columns=names))

    def glance(self) -> pd.DataFrame:
        """One row: groups, intervals, budget, and the log-rank test."""
        test = self.logrank()
        facts = {"groups": len(self.plan.groups), "intervals": self.plan.intervals, "eps": self.guarantee.eps}
        return WideFrame({**facts, "statistic": test.statistic, "df": test.df, "p_value": test.pvalue}, index=[0])

    def survival(self, times: Any, group: str | None = None, alpha: float = 0.05) -> pd.DataFrame:
        """The survival at some times, with intervals; between the ends of intervals, by a constant hazard.

        Parameters
        ----------
        times : float or sequence of float
        group : str, optional
            One of `plan.groups`; may be left out if there is one.
        alpha : float

        Returns
        -------
        DataFrame
            Columns time, survival, low, high; NaN beyond the end of the curve.
        """
        check_level(alpha)
        wanted = check_numbers("times", times).ravel()
        estimates, at = curves(self._noisy, alpha), self._place(group)
        ends = np.array(self.plan.breaks)
        # NaN beyond the last interval that is shown, and before the start.
        parts = {
            name: np.exp(-np.interp(wanted, ends, np.append(0.0, part[at]), left=np.nan, right=np.nan))
            for name, part in (("survival", estimates.hazard), ("low", estimates.high), ("high", estimates.low))
        }
        return WideFrame({"time": wanted, **parts})

    def _place(self, group: str | None) -> int:
        if group is None and len(self.plan.groups) == 1:
            return 0
        if not isinstance(group, str) or group not in self.plan.groups:
            raise ArgumentError(f"group must be one of {list(self.plan.groups)}, got {safe_repr(group)}")
        return self.plan.groups.index(group)

    def quantile(self, q: float = 0.5, alpha: float = 0.05) -> pd.DataFrame:
        """When a share q has had the event, by group: the median by default, with an interval.

        Parameters
        ----------
        q : float
            Between 0 and 1.
        alpha : float

        Returns
        -------
        DataFrame
            Indexed by group; columns time, low, high. NaN where the curve ends before.

        Examples
        --------
        >>> km.quantile().columns.to_list()
        ['time', 'low', 'high']
        """
        check_level(alpha)
        if not (is_number(q) and 0 < q < 1):
            raise ArgumentError(f"q must lie strictly between 0 and 1, got {safe_repr(q)}")
        level, estimates = -math.log1p(-q), curves(self._noisy, alpha)
        rows = [
            [_crossing(self.plan.breaks, part[at], level) for part in (estimates.hazard, estimates.high, estimates.low)]
            for at in range(len(self.plan.groups))
        ]
        return WideFrame(pd.DataFrame(rows, index=list(self.plan.groups), columns=["time", "low", "high"]))

    def logrank(self) -> LogRank:
        """The log-rank test that all groups have one hazard; its variance counts noise and sampling.

        Returns
        -------
        LogRank
            statistic (chi-squared with df degrees of freedom), df, pvalue, intervals (the number that had enough rows
            in every group), and excess (events of each group less those expected).
        """
        return log_rank(self._noisy)

    def plot(self, *, alpha: float = 0.05, caption: bool = True, ax: Axes | None = None) -> Axes:
        """The curves with their pointwise intervals; see `dpstats.plots.by_group`."""
        return survival(self, alpha=alpha, caption=caption, ax=ax)

    def summary(self, alpha: float = 0.05) -> Summary:
        """Curves and log-rank test at 80 columns; as_text, as_html, as_latex and as_markdown."""
        check_level(alpha)
        test = self.logrank()
        left, right = self.plan._facts()
        if test.df:
            left = [*left, ("Log-rank chi2:", format_number(test.statistic) or "not known")]
            right = [*right, (f"Prob (chi2, df {test.df}):", format_number(test.pvalue) or "not known")]
        facts = paired_facts(marked_title("Private Survival Curves", self.guarantee), left, right)
        quantiles = self.quantile(0.5, alpha).iterrows()
        times = [(group, [format_number(value) or "-" for value in row]) for group, row in quantiles]
        ends = [f"[{alpha / 2:.4g}", f"{1 - alpha / 2:.4g}]"]
        medians = full_width(["time", *ends], times, [12, 12, 12], title="Median time to the event")
        return Summary([facts, *self._curve_tables(alpha), medians], self._notes(test))

    def _curve_tables(self, alpha: float) -> list[Any]:
        heads = ["at risk", "events", "survival", "std err", f"[{alpha / 2:.4g}", f"{1 - alpha / 2:.4g}]"]
        tables = []
        for group, table in self.curves(alpha).groupby("group", sort=False):
            shown = table[table["survival"].notna()]
            # A line covers all intervals since the line above it.
            places = _few(len(shown))
            first = [0, *(place + 1 for place in places)][: len(places)]
            events = np.cumsum(shown["events"].to_numpy(dtype=np.float64))
            since = np.diff(events[places], prepend=0.0)
            figures = shown[["survival", "std_err", "low", "high"]].iloc[places].to_numpy()
            columns = (shown["time"].iloc[places], shown["at_risk"].iloc[first], since, figures)
            rows = [
                (f"{time:.5g}", [f"{at_risk:.0f}", f"{count:.0f}", *(f"{one:.3f}" for one in own)])
                for time, at_risk, count, own in zip(*columns, strict=True)
            ]
            title = self.plan.formula if group == ALL else str(group)
            tables.append(full_width(heads, rows or [("too few at risk", [""] * 6)], [9, 9, 9, 9, 9, 9], title=title))
        return tables

    def _notes(self, test: LogRank) -> list[str]:
        notes = [
            guarantee_sentence(self.guarantee, "The curves and the test are"),
            "std err and intervals include privacy noise and sampling error. Intervals are pointwise: each covers the "
            "survival at its time.",
            f"A curve ends where fewer rows are at risk than {CLEAR:g} standard deviations of the noise. A line "
            "shows the number at risk at the end of the line above it, and the events since, as released. curves() "
            "returns all intervals.",
        ]
        if test.df and test.intervals < self.plan.intervals:
            notes.append(
                f"The log-rank test is of the first {test.intervals} of {self.plan.intervals} intervals, in which "
                "every group has enough rows at risk."
            )
        return notes

    def __repr__(self) -> str:
        return f"<KaplanMeier: {len(self.plan.groups)} curves, {self.guarantee}>"

    def to_dict(self) -> dict[str, Any]:
        return {"plan": self.plan.to_dict(), "counts": self.counts.tolist()}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        plan = KaplanMeierPlan.from_dict(facts["plan"])
        counts = np.asarray(facts["counts"], dtype=np.int64)
        if counts.shape != (len(plan.groups), 2 * plan.intervals + 1):
            raise ValueError("counts do not suit the plan")
        return cls(plan, counts)


def _crossing(breaks: tuple[float, ...], hazard: NDArray[np.float64], level: float) -> float:
    """Where a cumulative hazard, linear between the breaks, first reaches a level; NaN if it does not."""
    values = np.append(0.0, hazard)
    above = np.flatnonzero(values >= level)
    if len(above) == 0:
        return math.nan
    at = int(above[0])
    low, high = values[at - 1], values[at]
    return float(breaks[at - 1] + (breaks[at] - breaks[at - 1]) * (level - low) / (high - low))


def _few(number: int) -> list[int]:
    """At most ten places, evenly spaced, including the last."""
    step = -(-number // 10) if number else 1
    return list(range(number - 1, -1, -step))[::-1]

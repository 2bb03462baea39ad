"""The noisy counts that `dpstats.check` releases: rows without a fault, with each fault and at each place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.evaluation.column_histograms import ColumnHistogram
from dpstats.formula.faults import FORMULA, NEARLY_ALL, OPEN, Fault
from dpstats.formula.parse import parse
from dpstats.frames import WideFrame
from dpstats.plan.row_counts import DRAWN, MOST_AT_FAULT, most_by_noise
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.stored import Released
from dpstats.wording import joined

CERTAIN_SDS = 4.0
"""A figure counts as certain from so many standard deviations of its noise; noise alone passes once in 600 figures."""

UNDOUBTED_SDS = 6.0
"""From so many on noise alone passes once in 10,000 figures, and a finding says nothing of it."""

LIKELY_SDS = 2.0
"""A level is not suspected of having no rows from so many on; noise alone passes about once in 30 levels. The share of
rows in a part of a range is at least what it is with so many less."""

LEAST_CLEAN = 0.5
"""Ranges are judged by rows without a fault, where these are more than this share of all."""

LARGE_LOSS = 0.05
"""From so large a share on lost rows are added up over columns."""


@dataclass(frozen=True, eq=False)
class CheckCounts(Released):
    """What a check releases, and its tables of numbers of rows; `Check` describes the attributes."""

    formula: str
    faults: tuple[Fault, ...]
    counts: NDArray[np.float64]
    std_err: float
    nobs: int | None
    guarantee: Guarantee
    noise: str
    places: tuple[ColumnHistogram, ...] = ()
    at: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    steps: tuple[int, ...] = (1, 1, 1, 1)
    count: bool = False  # whether the response is a count
    count_limit: Literal["bought", "declared", "y_max"] = "bought"
    advice: tuple[str, ...] = ()  # what the formula, the Domain and the names of columns tell alone
    absorbed: str | None = None
    trimmable: tuple[str, ...] = ()

    @property
    def clean_err(self) -> float:
        """Standard deviation of the noise in the number of rows without a fault."""
        return self.std_err * self.steps[0] / self.steps[1]

    @property
    def place_err(self) -> float:
        """Standard deviation of the noise in the number of rows at one place."""
        return self.std_err * self.steps[0] / self.steps[2]

    @property
    def code_err(self) -> float:
        """Standard deviation of the noise in the number of rows with a code, which older files count as a place."""
        return self.std_err * self.steps[0] / self.steps[-1]

    @property
    def rows(self) -> float:
        """About how many rows there are: as many as are complete and lost together, of which neither is negative."""
        if self.nobs is not None:
            return float(self.nobs)
        return float(sum(max(self.counts[part].sum(), 0.0) for part in (self._losing, ~self._losing)))

    @property
    def _losing(self) -> NDArray[np.bool_]:
        """Which of the counts are of rows that a fit loses."""
        return np.array([False, *(fault.loses for fault in self.faults)])

    @property
    def totals(self) -> pd.DataFrame:
        """All rows, those that a fit uses, and those that it loses; columns rows and std_err."""
        losing, every = self._losing, np.ones(1 + len(self.faults), dtype=bool)
        totals = {}
        for name, chosen in (("rows", every), ("complete", ~losing), ("lost", losing)):
            # Noise may leave no row lost and more complete ones than all counts together.
            value = self.rows if name == "rows" else min(max(float(self.counts[chosen].sum()), 0.0), self.rows)
            squares = np.where(np.arange(len(chosen)) == 0, self.clean_err, self.std_err) ** 2
            totals[name] = (value, math.sqrt(float(squares[chosen].sum())))
        if self.nobs is not None:
            totals["rows"] = (float(self.nobs), 0.0)
        return WideFrame(pd.DataFrame.from_dict(totals, orient="index", columns=["rows", "std_err"]))

    @property
    def table(self) -> pd.DataFrame:
        """One row a possible fault: column, fault, declared, rows, std_err, share of all rows, and advice if any."""
        counts = np.maximum(self.counts[1:], 0.0)
        columns = {
            "column": [fault.column for fault in self.faults],
            "fault": [fault.kind for fault in self.faults],
            "declared": [fault.declared for fault in self.faults],
            "rows": counts,
            "std_err": self.std_err,
            "share": np.minimum(counts / max(self.rows, 1.0), 1.0),
            "advice": [self._advice(fault, count) for fault, count in zip(self.faults, counts, strict=True)],
        }
        return WideFrame(columns)

    def _advice(self, fault: Fault, count: float) -> str:
        """What to do about a figure that matters and that noise cannot explain."""
        if count < self._most_by_noise(fault, CERTAIN_SDS):
            return ""
        if fault.column == FORMULA and (exposures := parse(self.formula).exposures):
            return f"the exposure {joined(sorted(exposures), 'or')} is not above 0, or {fault.advice}"
        if not fault.loses and count >= NEARLY_ALL * self.totals["rows"].to_dict()["complete"]:
            return fault.other_unit
        # A column of text is lost as a whole, in equal parts with others; one that is declared misses some cells.
        large = LARGE_LOSS if fault.declared == OPEN else MOST_AT_FAULT
        return fault.advice if count < large * self.rows else fault.large_advice

    def _most_by_noise(self, fault: Fault, deviations: float) -> float:
        """The count that noise exceeds as seldom as so many of its standard deviations, of rows as declared."""
        return most_by_noise(fault, self.rows, self.std_err / math.sqrt(2), math.sqrt(2) * deviations)

    def to_dict(self) -> dict[str, Any]:
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, default in (("absorbed", None), ("count_limit", "bought")):
            if own[name] == default:  # which older files do not tell
                del own[name]
        return own | {
            "faults": [list(fault.stored) for fault in self.faults],
            "counts": self.counts.tolist(),
            "guarantee": self.guarantee.to_dict(),
            "places": [list(place if place.codes else place[:-1]) for place in self.places],
            "at": self.at.tolist(),
            "steps": list(self.steps),
            "advice": list(self.advice),
            "trimmable": list(self.trimmable),
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        ranges = [place[0] for place in facts.get("places", ()) if place[2]]
        responses = parse(facts["formula"]).response_columns
        values = {
            "faults": tuple(Fault(*fault) for fault in facts["faults"]),
            "counts": np.asarray(facts["counts"], dtype=np.float64),
            "guarantee": Guarantee(**facts["guarantee"]),
            "places": tuple(ColumnHistogram.from_stored(*place) for place in facts.get("places", ())),
            "at": np.asarray(facts.get("at", ()), dtype=np.float64),
            "steps": tuple(facts.get("steps", (1, 1, 1))),
            "advice": tuple(facts.get("advice", ())),
            # Older files do not tell them, and mean every number that explains.
            "trimmable": tuple(facts.get("trimmable", [name for name in ranges if name not in responses])),
        }
        return cls(**{**facts, **values})


def counts_at(check: CheckCounts, place: ColumnHistogram) -> NDArray[np.float64]:
    """The released counts of a place's levels or parts, in rows."""
    before = sum(len(one.names) for one in check.places[: check.places.index(place)])
    return check.at[before : before + len(place.names)]


def rows_text(check: CheckCounts) -> str:
    """The number of rows, with its error unless it is public, and which rows of persons they are."""
    value, error = check.totals.loc["rows", ["rows", "std_err"]]
    number = f"{value:,.0f}" if check.nobs is not None else f"{value:,.0f} (s.d. {error:,.0f})"
    return f"{number} rows" + ("" if check.guarantee.unit is None else f" ({DRAWN})")


def code_names(check: CheckCounts) -> list[str]:
    """The codes within ranges, by column."""
    return [f"{code:g} in `{place.column}`" for place in check.places for code in place.codes]


def beside_err(check: CheckCounts, parts: int) -> float:
    """Standard deviation of the noise in the difference of a code's rows and those of so many parts."""
    return math.hypot(check.code_err, check.place_err * math.sqrt(parts))


def doubt(check: CheckCounts, count: float, least: float) -> str:
    """How often noise alone finds a fault or code, beside a count below `least`; normal noise hardly ever does."""
    if check.noise != "laplace" or count >= least:
        return ""
    chance = (len(check.faults) + len(code_names(check))) * math.exp(-math.sqrt(2) * CERTAIN_SDS) / 2
    return f". Noise alone finds a fault in up to {math.ceil(100 * chance)} of 100 checks. Check again to confirm it"

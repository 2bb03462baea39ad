"""What `dpstats.check` found: released counts, their noise, and what to do about them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.iolib.table import SimpleTable

from dpstats.evaluation.column_histograms import (
    PARTS,
    ColumnHistogram,
    heap_beyond,
    heaps_by_noise,
    is_code,
    part_of,
    parts_apart,
    parts_near,
)
from dpstats.formula.parse import parse
from dpstats.formula.reader import DROPS, FORMULA, NEARLY_ALL, OPEN, TYPICAL, Fault
from dpstats.frames import WideFrame
from dpstats.plan.row_counts import (
    DRAWN,
    MOST_AT_FAULT,
    NINE_OF_TEN_SDS,
    NORMAL_LOSS,
    most_by_noise,
    rows_of_nobody,
)
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.trimming import (
    BOUGHT_EPS,
    COUNT_MARGIN,
    MANY_ZEROS,
    NARROWEST,
    USUALLY_ENOUGH,
    eps_despite_zeros,
    rows_that_pay,
    usually_narrows,
)
from dpstats.results.stored import Released, marked_title, privacy_level
from dpstats.summaries import WIDTH, Summary, full_width
from dpstats.wording import argument, joined, phrase, purchase, sentence

USUAL_EPS = 1.0  # where a fit of so much narrows ranges by itself, no more is advised

CERTAIN_SDS = 4.0
"""A figure counts as certain from so many standard deviations of its noise; noise alone passes once in 600 figures."""

ALONE = 2.5
"""A code is named that has more rows than the rest of its part and those next to it, or so many times those of its
part: at the end of a range that values fill the highest of all values has fewer (99 hours a week in Adult: 1.5)."""

MANY_NUMBERS = 100
"""A code is named too if it certainly has more rows than all other values of a part of so many whole numbers, unless
that part ends the range: there it may be the largest amount, to which others are cut."""

GAP = 0.1
"""A code is named too if the parts beside its own have fewer than so many times the rows there: codes such as 97, 98
and 99 outnumber each other, and hardly any value lies between them and the rest."""

PROBABLE_SDS = 1.0
"""By so many standard deviations of noise a code must have more rows than the values near it, which are few."""

LIKELY_SDS = 2.0
"""A level is not suspected of having no rows from so many on; noise alone passes about once in 30 levels. The share of
rows in a part of a range is at least what it is with so many less."""

UNDOUBTED_SDS = 6.0
"""From so many on noise alone passes once in 10,000 figures, and a finding says nothing of it."""

RARE_HEAP = 0.001
"""If noise alone heaps up so many rows in more checks than this share, the finding says so."""

SEEN_SDS = 2.5
"""A code is found in nine of ten checks if its rows, less those near it, are so many standard deviations of both."""

POWERFUL_SDS = 7.0
"""A range that is too wide is found in nearly all checks if so many standard deviations are as many rows as may lie
outside."""

LEAST_CLEAN = 0.5
"""Ranges are judged by rows without a fault, where these are more than this share of all."""

USUAL_LOSS = 0.004
"""The share of its rows beyond 3 sd of a column that is not far from normal."""

LARGE_LOSS, MOST_LOSING = 0.05, 3
"""From so large a share on lost rows are added up over columns; the columns that lose most are named."""

CLIPPED_SHARE = 0.005  # the range to declare clips a smaller share of the rows

LEAST_OUTSIDE, MOST_OUTSIDE = 0.05, 0.3
"""A range is too wide if a share up to the first lies outside a part of it, and certainly no more than the second."""

CLIPS = "a range that clips counts biases every coefficient"

COUNT_LIMITS = {
    "bought": f"A fit buys a limit for counts by itself, so a narrower range gains little, and {CLIPS}",
    "declared": f"A fit of this family buys no limit for counts: declare the largest count to expect; {CLIPS}",
    "y_max": "A fit of this family clips counts to its y_max, which decides the noise: a narrower range gains nothing",
}
"""What a narrower range of a count does, by what limits counts in a fit."""

TOTAL_NAMES = {
    "rows": "rows in all",
    "complete": "complete: a fit uses them, clipped or not",
    "lost": "lost: a fit drops them",
}
"""What a summary calls the rows of `totals`."""

MOST_NAMES = 6
"""A note names so many columns; of more it tells the number."""

RARE_REFERENCE = 0.1  # of the commonest level, where noise may be all of its rows; else a tenth of that

PART_NAMES = {1: "an eighth", 2: "a quarter"}  # of a range, by the number of `PARTS`
LEAST_VISIBLE_SHARE = 0.1  # a check that misses faults of this share of the rows says little


def _widened(ends: Sequence[float], start: int, share: float) -> tuple[float, float]:
    """An eighth of a range with a share of an eighth on both sides, or with twice that on one if the other ends it."""
    first, last, part = ends[0], ends[-1], ends[start + 1] - ends[start]
    width = (1 + 2 * share) * part
    low = min(max(ends[start] - share * part, first), last - width)
    return low, low + width


def _listed(columns: Sequence[str]) -> str:
    """Names of columns, or how many there are."""
    return ", ".join(f"`{name}`" for name in columns) if len(columns) <= MOST_NAMES else f"{len(columns)} columns"


@dataclass(frozen=True, eq=False)
class Check(Released):
    """Noisy counts of rows that a fit would use, lose or clip.

    Attributes
    ----------
    formula : str
    faults : tuple of Fault
    counts : ndarray, shape (1 + number of faults,)
        As released, in rows: those without a fault, then the part of each fault. They may be negative.
    std_err : float
        Standard deviation of the noise in the part of a fault.
    nobs : int or None
        The number of rows where it is public (``adjacency="replace_one"``), else None.
    guarantee : Guarantee
    noise : str
        "laplace" or "gaussian".
    places : tuple of ColumnHistogram
        Columns whose rows without a fault are counted by level, or by part of their range.
    at : ndarray
        These counts, one place after the other, in rows.
    steps : tuple of int
        The contribution of a row to its faults, to "no fault", to each of its places and to its codes, in steps of the
        lattice of the noise.
    count : bool
        Whether the response is a count.
    count_limit : {"bought", "declared", "y_max"}
        What limits counts in a fit: a limit that it buys, the declared range, or the `y_max` of the family.
    advice : tuple of str
        What was probably not meant, by the formula, the Domain and the names of the columns alone.
    absorbed : str or None
        The absorbed factor that the formula was given with.
    trimmable : tuple of str
        The columns of which a fit may buy an interval within the declared range.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> check = dp.check("y ~ x", rows, domain, 0.5)
    >>> check.std_err > 0
    True
    >>> "y ~ x" in check.summary().as_text()
    True
    """

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

    @property
    def located(self) -> pd.DataFrame:
        """Where rows without a fault lie: column, place (a level, or a part of the range), rows, std_err."""
        names = [(place.column, name) for place in self.places for name in place.names]
        table = pd.DataFrame(names, columns=["column", "place"])
        errors = np.where(is_code(self.places), self.code_err, self.place_err)
        return WideFrame(table.assign(rows=np.maximum(self.at, 0.0), std_err=errors))

    @property
    def findings(self) -> list[str]:
        """The faults that are there for sure, in sentences, the greatest first; then ranges that are far too wide."""
        table = self.table
        certain = table[table["advice"] != ""].sort_values("rows", ascending=False)
        if beyond := self._beyond_typical():
            many = set(self._many_beyond)
            certain = certain[[place not in many for place in certain.index]]
        kinds = [self.faults[place] for place in certain.index]
        losing = sum(fault.loses for fault in kinds) + len(beyond)
        first = [*(self._lost_in_all() if losing > 1 else []), *beyond]
        clipped = {"below": "are clipped in", "above": "are clipped in"}
        # A row with faults in k columns adds 1/k to the count of each.
        columns = {loses: {one.column for one in kinds if one.loses == loses} for loses in (True, False)}
        faults = [
            f"{'at least ' * (len(columns[fault.loses]) > 1)}about {row['rows']:,.0f} (s.d. {self.std_err:,.0f}) of "
            f"{self._rows_text} {clipped.get(row['fault'], 'are lost to')} `{row['column']}`: {row['advice']}"
            f"{self._empty_levels(row['column'], row['fault'])}"
            f"{self._doubt(row['rows'], self._most_by_noise(fault, UNDOUBTED_SDS))}"
            for fault, (_, row) in zip(kinds, certain.iterrows(), strict=True)
        ]
        ranges = [place for place in self.places if place.ends]
        placed = [one for place in ranges for one in self._range_findings(place)]
        return list(map(sentence, [*first, *faults, *self._rare_references(), *placed]))

    def _rare_references(self) -> list[str]:
        """The factors whose first level, from which the others are measured, has few rows or none."""
        terms = {one.code for term in parse(self.formula).terms for one in term}
        sentences = []
        for place in self.places:
            if place.ends or terms.isdisjoint((place.column, f"C({place.column})")):
                continue
            first, *others = self._counts_at(place)
            most = max(first, 0.0) + LIKELY_SDS * self.place_err
            rare = RARE_REFERENCE if first < LIKELY_SDS * self.place_err else RARE_REFERENCE / 10
            if most > rare * max(others, default=0.0):
                continue
            if (self.table.loc[self.table["column"] == place.column, "advice"] != "").any():
                continue  # its levels are spelt in another way, perhaps
            sentences.append(
                f"the first level of `{place.column}`, {place.names[0]!r}, is the reference and has few rows or "
                f"none: about {max(first, 0.0):,.0f} (s.d. {self.place_err:,.0f}). Declare a frequent level first, or "
                f"write C({place.column}, Treatment('a frequent level'))"
            )
        return sentences

    def _lost_in_all(self) -> list[str]:
        """How many rows are lost to all columns, where that is a large share."""
        lost, error = self.totals.loc["lost", ["rows", "std_err"]].to_numpy(dtype=float)
        if lost < max(CERTAIN_SDS * error, LARGE_LOSS * self.rows):
            return []
        share = f"{100 * lost / self.rows:.0f} %; s.d. {error:,.0f}"
        return [f"in all about {lost:,.0f} ({share}) of {self._rows_text} are lost"]

    @property
    def _many_beyond(self) -> list[int]:
        """The faults beyond typical values that are named together, by place: one of many rows is named alone."""
        most = LARGE_LOSS * self.rows
        return [i for i, fault in enumerate(self.faults) if fault.beyond_typical and self.counts[1 + i] < most]

    def _beyond_typical(self) -> list[str]:
        """That columns lose many more rows beyond 3 sd of their typical values than normal ones do, in one sentence."""
        beyond = self._many_beyond
        counts, error = self.counts[1:][beyond], self.std_err * math.sqrt(len(beyond))
        usual = 1 - (1 - USUAL_LOSS) ** len(beyond)
        lost, share = float(counts.sum()), float(counts.sum()) / max(self.rows, 1.0)
        if len(beyond) < 2 or share < LARGE_LOSS or lost - usual * self.rows < CERTAIN_SDS * error:
            return []
        most = [beyond[place] for place in np.argsort(-counts)[:MOST_LOSING]]
        named = joined([f"`{self.faults[place].column}` (about {self.counts[1 + place]:,.0f})" for place in most])
        compare = phrase("inner=(low, high) or a range in its place", shell="inner or a range in its place")
        typical, normal = phrase("typical=", shell="typical"), 1 - (1 - NORMAL_LOSS) ** len(beyond)
        return [
            f"about {lost:,.0f} ({100 * share:.0f} %; s.d. {error:,.0f}) of {self._rows_text} are lost because "
            f"one of {len(beyond)} columns is missing or beyond 3 sd of {typical}, most by {named}. Of as many normal "
            f"columns without missing cells at most {100 * normal:.2g} % would be. Rows with missing cells are lost "
            f"with any {typical}. If few cells are missing, the columns are skewed, or the values are wrong. Compare "
            f"{typical} with its source. For skewed columns declare {compare}, or leave {typical} out"
        ]

    def _doubt(self, count: float, least: float) -> str:
        """How often noise alone finds a fault or code, beside a count below `least`; normal noise hardly ever does."""
        if self.noise != "laplace" or count >= least:
            return ""
        chance = (len(self.faults) + len(self._codes)) * math.exp(-math.sqrt(2) * CERTAIN_SDS) / 2
        return (
            f". Noise alone finds a fault in up to {math.ceil(100 * chance)} of 100 checks. Check again to confirm it"
        )

    def _heap_doubt(self, counts: NDArray[np.float64], near: range, heap: int) -> str:
        """How often noise alone finds rows that lie apart, beside a heap that is not much higher than parts before."""
        if self.noise != "laplace":
            return ""
        before = counts[near.stop - 1 : heap] if heap >= near.stop else counts[heap + 1 : near.start + 1]
        ranges = sum(bool(place.ends) for place in self.places)
        higher = float(counts[heap] - max(before.min(), 0.0)) / self.place_err
        if heaps_by_noise(higher, ranges) <= RARE_HEAP:
            return ""
        often = math.ceil(100 * heaps_by_noise(math.sqrt(2) * CERTAIN_SDS, ranges))
        return f". Noise alone finds such rows in up to {often} of 100 checks. Check again to confirm it"

    @property
    def _rows_text(self) -> str:
        """The number of rows, with its error unless it is public, and which rows of persons they are."""
        value, error = self.totals.loc["rows", ["rows", "std_err"]]
        number = f"{value:,.0f}" if self.nobs is not None else f"{value:,.0f} (s.d. {error:,.0f})"
        return f"{number} rows" + ("" if self.guarantee.unit is None else f" ({DRAWN})")

    def _counts_at(self, place: ColumnHistogram) -> NDArray[np.float64]:
        """The released counts of a place's levels or parts, in rows."""
        before = sum(len(one.names) for one in self.places[: self.places.index(place)])
        return self.at[before : before + len(place.names)]

    def _empty_levels(self, column: str, fault: str) -> str:
        """The declared levels whose count may be noise in a column that loses rows, if others are certain.

        One beyond two standard deviations is no sign that its level is misspelt.
        """
        place = next((one for one in self.places if one.column == column and not one.ends), None)
        if place is None or fault not in ("undeclared", "lost"):
            return ""
        counts = self._counts_at(place) / self.place_err
        missing = [repr(name) for name, count in zip(place.names, counts, strict=True) if count < LIKELY_SDS]
        certain = (counts >= CERTAIN_SDS).any()
        if not (certain and missing):
            return ""
        return (
            ". The counts of these declared levels do not stand out from the noise, so they may be the misspelt ones: "
            f"{', '.join(missing)}"
        )

    def _range_findings(self, place: ColumnHistogram) -> list[str]:
        """Codes within a range, or that it is far too wide, or rows that lie apart."""
        codes = self._missing_codes(place)
        wide = [] if codes else self._too_wide(place)
        return [*codes, *(wide or self._apart(place))]

    def _apart(self, place: ColumnHistogram) -> list[str]:
        """Rows that lie beyond an empty part of a range, as a code does that no check tries."""
        counts = self._counts_at(place)
        named = zip(place.codes, counts[PARTS:], strict=True)  # the others beside one that is named are in its sentence
        coded = [part_of(place, code) for code, count in named if count >= CERTAIN_SDS * self.code_err]
        sentences = []
        for parts in parts_apart(counts[:PARTS], self.place_err, CERTAIN_SDS):
            if any(part in parts for part in coded):
                continue
            low, high = place.ends[parts.start], place.ends[parts.stop]
            without = self._without_code(place.column, "code")
            sentences.append(
                f"about {counts[parts].sum():,.0f} (s.d. {self.place_err * math.sqrt(len(parts)):,.0f}) of "
                f"{self._rows_text} have `{place.column}` between {low:.6g} and {high:.6g}, and hardly any row lies "
                "between them and the others. They may have a code for missing data, or be a group by itself, such as "
                f"values that are cut at the end of the range. If they have a code, {without}"
            )
        return sentences

    def _missing_codes(self, place: ColumnHistogram) -> list[str]:
        """The codes that certainly have rows, more than all else near or than their part, or apart (`ALONE`, `GAP`)."""
        counts = self._counts_at(place)
        sentences = []
        for code, count in zip(place.codes, counts[PARTS:], strict=True):
            part, near = part_of(place, code), counts[parts_near(place, code)]
            own = max(float(counts[part]), 0.0)
            most = max(float(near.sum()), 0.0) + PROBABLE_SDS * self._beside_err(len(near))
            within = ALONE * own + PROBABLE_SDS * math.hypot(self.code_err, ALONE * self.place_err)
            many = place.ends[part + 1] - place.ends[part] >= MANY_NUMBERS and 0 < part < PARTS - 1
            outnumbers = many and count >= own + CERTAIN_SDS * self._beside_err(1)
            beside = max(float(near.sum() - counts[part]), 0.0) + LIKELY_SDS * self._beside_err(len(near))
            apart = beside < GAP * (count + own)
            far = count >= min(most, within) or apart
            if count < CERTAIN_SDS * self.code_err or not (far or outnumbers):
                continue
            why = (
                "far from most other values"
                if far
                else f"and about {own:,.0f} another value in the same eighth of the range"
            )
            sentences.append(
                f"about {count:,.0f} (s.d. {self.code_err:,.0f}) of {self._rows_text} have `{place.column}` "
                f"equal to {code:g}, {why}. If {code:g} stands for missing, "
                + self._without_code(place.column, f"{code:g}")
                + self._doubt(count, UNDOUBTED_SDS * self.code_err)
            )
            if far and count < min(most, within):
                sentences[-1] += (
                    f". About {own:,.0f} other rows lie in the same eighth of the range. Are they codes too?"
                )
        return sentences

    def _beside_err(self, parts: int) -> float:
        """Standard deviation of the noise in the difference of a code's rows and those of so many parts."""
        return math.hypot(self.code_err, self.place_err * math.sqrt(parts))

    def _without_code(self, column: str, code: str) -> str:
        """What to type if a value stands for missing; a response drops no rows."""
        cells = phrase(f"data[{column!r}].mask(data[{column!r}] == {code})", shell="an empty cell in the file")
        masked = f"make it missing before the call: {cells}"
        if column in parse(self.formula).response_columns:
            return masked
        dropped = phrase(
            f'domain={{{column!r}: dp.Range(low, high, outside="drop")}}',
            shell=f"{column}: {{range: [low, high], outside: drop}}",
        )
        return f"declare the range without it, {dropped}, or {masked}"

    def _too_wide(self, place: ColumnHistogram) -> list[str]:
        """Whether hardly any rows lie outside a small part of a column's range; of a logarithm that may be right."""
        counts, parsed, table = self._counts_at(place), parse(self.formula), self.table
        # A row with another column's code lies in no part.
        others = is_code(self.places) & [one is not place for one in self.places for _ in one.names]
        total = max(float(self.counts[0] - self.at[others].sum()), 1.0)
        # Few rows without a fault say little of all.
        if total < LEAST_CLEAN * self.rows or place.column not in parsed.untransformed_columns:
            return []
        own = table[table["column"] == place.column]
        if (own["share"][own["fault"].isin(("below", "above")) & (own["advice"] != "")] > CLIPPED_SHARE).any():
            return []  # rows beyond its range, which is to be wider, lie in no part
        for width in (1, 2):
            inside = np.convolve(counts[:PARTS], np.ones(width), mode="valid")
            start = int(np.argmax(inside))
            # The number of rows without a fault has less noise than the sum over their places.
            outside = max(total - float(inside[start]), 0.0)
            coded = self.code_err * math.sqrt(float(others.sum()))
            noise = math.hypot(self.clean_err, coded, self.place_err * math.sqrt(width))
            if outside - noise <= LEAST_OUTSIDE * total and outside + CERTAIN_SDS * noise <= MOST_OUTSIDE * total:
                low, high = place.ends[start], place.ends[start + width]
                declared = next(fault.declared for fault in self.faults if fault.column == place.column)
                declared = declared.removesuffix(DROPS)
                is_response = place.column in parsed.response_columns
                least_inside = math.floor(100 * (1 - max(outside + LIKELY_SDS * noise, 0.0) / total))
                claim = (
                    f"at least {least_inside} % of the rows without a fault (95 % confidence) have `{place.column}` "
                    f"between {low:.6g} and {high:.6g}, {PART_NAMES[width]} of its declared range {declared}, which "
                    "may be far too wide. "
                )
                near = range(start, start + width)
                if (heap := heap_beyond(counts, near, self.place_err, CERTAIN_SDS)) is not None:
                    # A fit may keep the range for these rows, and then they decide its slope.
                    cure = phrase('dp.Range(low, high, outside="drop")', shell="{range: [low, high], outside: drop}")
                    cure = "make these cells missing" if is_response else f"declare the range without it, {cure}"
                    low, high = place.ends[heap], place.ends[heap + 1]
                    return [
                        f"{claim}About {counts[heap]:,.0f} rows (s.d. {self.place_err:,.0f}) lie apart from these, "
                        f"between {low:.6g} and {high:.6g}. If they have a code for missing, {cure}"
                        f"{self._heap_doubt(counts, near, heap)}"
                    ]
                if is_response and self.count:
                    return [f"{claim}{COUNT_LIMITS[self.count_limit]}"]
                # Where no row lies outside an eighth, it may be eight times too wide or a thousand times.
                typed = ""
                if width == 1 and outside <= max(CLIPPED_SHARE * total, CERTAIN_SDS * noise):
                    # Unless hardly any row lies outside for sure, tails reach further: a clipped response biases.
                    certain = outside + CERTAIN_SDS * noise <= CLIPPED_SHARE * total
                    low, high = _widened(place.ends, start, 0.0 if certain else 0.5 if outside <= noise else 1.0)
                    typed = phrase(
                        f"domain={{{place.column!r}: ({low:.6g}, {high:.6g})}}",
                        shell=f"{place.column!r}: {{range: [{low:.6g}, {high:.6g}]}}",
                    )
                if is_response and typed:
                    # A fit narrows it by a limited factor.
                    return [
                        f"{claim}Declare a narrower range, such as {typed}, and check again. Standard errors grow with "
                        "the range, although a fit may buy an interval of it"
                    ]
                fullest = {many: np.convolve(counts[:PARTS], np.ones(many), mode="valid").max() for many in PART_NAMES}
                beyond = {many: (max(total - float(most), 0.0) + noise) / total for many, most in fullest.items()}
                lying = f"about {outside:,.0f} rows (s.d. {noise:,.0f}) lie outside this part"
                narrowing = sentence(self._narrowing(place.column, is_response, beyond, lying)).removesuffix(".")
                if typed and place.column in self.trimmable and self.absorbed is None:
                    least = NARROWEST * (place.ends[-1] - place.ends[0])
                    bought = phrase(" or buy one with domain={}" * (self.guarantee.unit is None), shell="")
                    narrowing += (
                        f". If its values may fill less than {least:.6g}, 1/{1 / NARROWEST:.0f} of the declared range, "
                        f"first declare a narrower one, such as {typed}, and check again{bought and ',' + bought}"
                    )
                return [f"{claim}A narrower range gives less noise. {narrowing}"]
        return []

    def _narrowing(self, column: str, is_response: bool, beyond: Mapping[int, float], lying: str) -> str:
        """What narrows a range: a fit of so many rows by itself, of a predictor from some eps on.

        `beyond` is the share of rows outside parts of it, by their eighths; `lying` tells of them.
        """
        if self.absorbed is not None:
            return "declare one: with an absorbed factor no fit buys it"
        if is_response:  # of a fit that has fewer rows it would have more noise than the declared range
            return "least squares with standard errors and enough rows buys an interval of it by itself"
        buys, parsed = argument("ranges", "bought"), parse(self.formula)
        if column not in parsed.exog_columns:
            return "declare one: a fit narrows only the ranges of columns that explain"
        if column in parsed.knotted_columns:  # its knots stay over the declared range
            filled = phrase('dp.Range(low, high, outside="drop")', shell="{range: [low, high], outside: drop}")
            return f"declare a range that the values fill, {filled}: no fit narrows the range of a spline"
        if column not in self.trimmable:
            declared = next(fault.declared for fault in self.faults if fault.column == column)
            narrower = f"declare a narrower {phrase('inner=(low, high)', shell='inner')}"
            if declared.endswith(TYPICAL + DROPS):
                narrower = f"compare {phrase('typical=(mean, sd)', shell='typical')} with its source"
            return f"{narrower}: no fit narrows it"
        adjacency, columns = self.guarantee.adjacency, len(self.trimmable)
        if not usually_narrows(beyond, adjacency, columns):
            return (
                f"{lying}, and a fit that buys ranges narrows this one only if hardly any do. If they have values like "
                "the others, keep the range. If not, declare a narrower one"
            )
        if self.guarantee.unit is not None or any(fault.declared == OPEN for fault in self.faults):
            return f"a fit with {buys} finds one"
        told, error = self.totals.loc["complete", ["rows", "std_err"]].to_numpy(dtype=float)
        complete = max(float(told - PROBABLE_SDS * error), 1.0)  # of fewer rows a fit would need more
        eps = COUNT_MARGIN * rows_that_pay(1.0, adjacency, columns) / complete
        zeros, unless, bought = "", "", BOUGHT_EPS
        ends = next(place.ends for place in self.places if place.column == column)
        if ends[0] <= 0 <= ends[-1]:
            fit, bought = eps_despite_zeros(complete, adjacency, columns)
            others = {many: share / (1 - MANY_ZEROS) for many, share in beyond.items()}
            if usually_narrows(others, adjacency, columns, USUALLY_ENOUGH):
                zeros = f" ({_two_digits(fit)} if many of its values are 0, up to nine in ten)"
            else:
                unless = ", unless many of its values are 0"
        drops = any(fault.declared.endswith(DROPS) for fault in self.faults if fault.column == column)
        pair = f"{ends[0]:.15g}, {ends[-1]:.15g}"  # to be typed
        declared = f'dp.Range({pair}, outside="drop")' if drops else f"({pair})"
        call = purchase([column], _two_digits(bought), f"{{{column!r}: {declared}}}", adjacency)
        by_itself = (
            f"with an eps of about {_two_digits(eps)} or more{zeros} a fit of so many rows usually narrows it by itself"
            + unless
            + phrase(f". To narrow it before the fit, type {call}", shell="")
        )
        return by_itself if eps <= USUAL_EPS else f"a fit with {buys} finds one, and {by_itself}"

    def summary(self) -> Summary:
        """Totals, faults and what to do, at 80 columns; as_text, as_html and as_latex."""
        beside = "" if self.absorbed is None else f" | {self.absorbed}"
        title = f"Check of {self.formula}{beside}" if len(self.formula + beside) < 60 else "Check"
        if self.guarantee.unit is not None:
            title = "\n".join(
                line.center(WIDTH) for line in (title, f"rows: one drawn from each {self.guarantee.unit}")
            )
        title = marked_title(title, self.guarantee)
        totals = [
            (TOTAL_NAMES[str(name)], [f"{row['rows']:,.0f}", f"{row['std_err']:,.0f}"])
            for name, row in self.totals.iterrows()
        ]
        tables = [full_width(["rows", "std err"], totals, [12, 12], title=title), self._by_column()]
        return Summary(tables, [*self.findings, *map(sentence, self.advice), *self._notes()])

    def _by_column(self) -> SimpleTable:
        """Rows lost and clipped, one column of the data a line."""
        table = self.table
        shown = {"missing": "other loss", "lost": "other loss"}
        figures = {
            (row["column"], shown.get(row["fault"], row["fault"])): f"{row['rows']:,.0f}" for _, row in table.iterrows()
        }
        kinds = ["undeclared", "other loss", "below", "above"]
        declared = dict(zip(table["column"], table["declared"], strict=True))
        rows = [(name, [*(figures.get((name, kind), "") for kind in kinds), fact]) for name, fact in declared.items()]
        title = f"Rows lost and clipped by column (std err of each figure: {self.std_err:,.0f})"
        return full_width([*kinds, "declared"], rows, [12, 11, 9, 9, 18], title=title)

    def _notes(self) -> list[str]:
        guarantee = self.guarantee
        private = f"The counts are {privacy_level(guarantee)}-differentially private for {guarantee.difference}"
        if not guarantee.certified:
            private = f"No guarantee is claimed for these counts: {guarantee.reason}"
        public = "" if self.nobs is None else " All rows are counted exactly, and noisy counts need not add up to them."
        return [
            f"{private}. std err is that of their noise.{public}",
            "A row that is lost to k columns adds 1/k to the count of each, and so does a row that is clipped in k "
            "columns. Only rows that are not lost count as clipped.",
            *self._expected_loss(),
            *([self._place_note()] if self.places else []),
            self._hidden() + self._beside(),
        ]

    def _expected_loss(self) -> list[str]:
        """How many rows are lost in all where no finding tells it: many columns lose a few each."""
        if any(fault.loses for fault, advice in zip(self.faults, self.table["advice"], strict=True) if advice):
            return []
        if self._beyond_typical() or not (lost := self._lost_in_all()):
            return []
        typical = phrase("typical=", shell="typical")
        few = f" No column loses many; a normal one has {100 * NORMAL_LOSS:.2g} % of its rows beyond 3 sd of {typical}."
        return [sentence(lost[0]) + few * any(fault.beyond_typical for fault in self.faults)]

    def _place_note(self) -> str:
        """Which rows of which columns are counted by place, how accurately, and whether a wide range would show."""
        clean, noise = max(float(self.counts[0]), 0.0), math.hypot(self.clean_err, self.place_err)
        levels, ranges = ([one.column for one in self.places if bool(one.ends) == numeric] for numeric in (False, True))
        parts = [f"with each level of {_listed(levels)}"] if levels else []
        parts += [f"in each eighth of the declared range of {_listed(ranges)}"] if ranges else []
        coded = bool(self._codes)
        counted = (
            f"{phrase('The table `located`', shell='--json')} has the number of rows {' and '.join(parts)} (std err "
            f"{self.place_err:,.0f}). These numbers leave out rows that are incomplete or clipped"
            + (
                f", and rows with a code for missing, which has its own line (std err {self.code_err:,.0f})."
                if coded
                else "."
            )
        )
        least, likely = (sds * noise / MOST_OUTSIDE for sds in (CERTAIN_SDS, POWERFUL_SDS))
        if not ranges or (clean >= likely and clean >= LEAST_CLEAN * self.rows):
            return counted
        if clean < LEAST_CLEAN * self.rows:
            return f"{counted} Fewer than half of all rows are left, too few to tell whether a range is too wide."
        return (
            f"{counted} With fewer than about {least:,.0f} such rows the check cannot find ranges that are too wide. "
            f"With fewer than about {likely:,.0f} it may miss them, because the {len(self.places)} columns that are "
            f"counted share the budget. eps = {self._eps_for(likely, clean)} is enough for these rows."
        )

    def _eps_for(self, needed: float, rows: float) -> str:
        """The eps at which so many rows are enough where more are needed now: noise goes with its inverse."""
        eps = self.guarantee.eps * needed / max(rows, 1.0)
        digit = 10.0 ** (math.floor(math.log10(eps)) - 1)
        return f"{math.ceil(eps / digit) * digit:.2g}"

    def _hidden(self) -> str:
        """How many rows a fault needs to stand out from the noise."""
        least = CERTAIN_SDS * self.std_err
        if least >= LEAST_VISIBLE_SHARE * self.rows:
            return (
                f"Only a fault of {least:,.0f} rows or more stands out from the noise, and there are about "
                f"{self.rows:,.0f} rows, so this check can find little. Raise eps: eps = "
                f"{self._eps_for(least / LEAST_VISIBLE_SHARE, self.rows)} sees a column that loses or clips a tenth of "
                "the rows."
            )
        opening = "Beside the findings above, no" if self.findings else "No"
        usual = (CERTAIN_SDS + NINE_OF_TEN_SDS) * self.std_err
        return (
            f"{opening} fault stands out from the noise. If a column loses or clips {max(math.ceil(usual), 2):,} rows, "
            f"a check finds it with a probability of 90 %.{self._hidden_codes()}"
        )

    @property
    def _codes(self) -> list[str]:
        """The codes within ranges, by column."""
        return [f"{code:g} in `{place.column}`" for place in self.places for code in place.codes]

    def _hidden_codes(self) -> str:
        """From how many rows on a code within a range is seen, which takes more."""
        if not self._codes:
            return ""
        near = [parts_near(place, code) for place in self.places for code in place.codes]
        most = max(part.stop - part.start for part in near)
        likely = max((CERTAIN_SDS + 1) * self.code_err, SEEN_SDS * self._beside_err(most))
        codes = ", ".join(self._codes[:MOST_NAMES]) + (", ..." if len(self._codes) > MOST_NAMES else "")
        return (
            f" A number within a range that may stand for missing ({codes}) is found with this probability if about "
            f"{max(float(f'{likely:.2g}'), 2):,.0f} rows have it, or more if other values are near it."
        )

    def _beside(self) -> str:
        """That rows of no person are not counted."""
        return "" if self.guarantee.unit is None else f" {rows_of_nobody(self.formula, self.guarantee.unit)}"

    def __repr__(self) -> str:
        return f"<Check: {self.formula if len(self.formula) < 50 else 'formula'}; {self.guarantee}>"

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


def _two_digits(eps: float) -> str:
    """Rounded up: what holds from `eps` on holds there."""
    digit = 10.0 ** (math.floor(math.log10(eps)) - 1)
    return f"{math.ceil(eps / digit - 1e-9) * digit:.2g}"

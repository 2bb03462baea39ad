"""What `dpstats.check` found: released counts, their noise, and what to do about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from statsmodels.iolib.table import SimpleTable

from dpstats.evaluation.check_counts import (
    CERTAIN_SDS,
    LARGE_LOSS,
    LEAST_CLEAN,
    LIKELY_SDS,
    UNDOUBTED_SDS,
    CheckCounts,
    beside_err,
    code_names,
    counts_at,
    doubt,
    rows_text,
)
from dpstats.evaluation.column_histograms import is_code, parts_near
from dpstats.evaluation.range_findings import MOST_OUTSIDE, RangeFindings
from dpstats.formula.parse import parse
from dpstats.frames import WideFrame
from dpstats.plan.row_counts import NINE_OF_TEN_SDS, NORMAL_LOSS, rows_of_nobody
from dpstats.results.stored import marked_title, privacy_level
from dpstats.summaries import WIDTH, Summary, full_width
from dpstats.wording import joined, phrase, sentence

SEEN_SDS = 2.5
"""A code is found in nine of ten checks if its rows, less those near it, are so many standard deviations of both."""

POWERFUL_SDS = 7.0
"""A range that is too wide is found in nearly all checks if so many standard deviations are as many rows as may lie
outside."""

MOST_LOSING = 3
"""So many columns that lose most are named."""

USUAL_LOSS = 0.004
"""The share of its rows beyond 3 sd of a column that is not far from normal."""

TOTAL_NAMES = {
    "rows": "rows in all",
    "complete": "complete: a fit uses them, clipped or not",
    "lost": "lost: a fit drops them",
}
"""What a summary calls the rows of `totals`."""

MOST_NAMES = 6
"""A note names so many columns; of more it tells the number."""

RARE_REFERENCE = 0.1  # of the commonest level, where noise may be all of its rows; else a tenth of that

LEAST_VISIBLE_SHARE = 0.1  # a check that misses faults of this share of the rows says little


def _listed(columns: Sequence[str]) -> str:
    """Names of columns, or how many there are."""
    return ", ".join(f"`{name}`" for name in columns) if len(columns) <= MOST_NAMES else f"{len(columns)} columns"


@dataclass(frozen=True, eq=False)
class Check(CheckCounts):
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
            f"{rows_text(self)} {clipped.get(row['fault'], 'are lost to')} `{row['column']}`: {row['advice']}"
            f"{self._empty_levels(row['column'], row['fault'])}"
            f"{doubt(self, row['rows'], self._most_by_noise(fault, UNDOUBTED_SDS))}"
            for fault, (_, row) in zip(kinds, certain.iterrows(), strict=True)
        ]
        ranges = [place for place in self.places if place.ends]
        placed = [one for place in ranges for one in RangeFindings(self, place).texts()]
        return list(map(sentence, [*first, *faults, *self._rare_references(), *placed]))

    def _rare_references(self) -> list[str]:
        """The factors whose first level, from which the others are measured, has few rows or none."""
        terms = {one.code for term in parse(self.formula).terms for one in term}
        sentences = []
        for place in self.places:
            if place.ends or terms.isdisjoint((place.column, f"C({place.column})")):
                continue
            first, *others = counts_at(self, place)
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
        return [f"in all about {lost:,.0f} ({share}) of {rows_text(self)} are lost"]

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
            f"about {lost:,.0f} ({100 * share:.0f} %; s.d. {error:,.0f}) of {rows_text(self)} are lost because "
            f"one of {len(beyond)} columns is missing or beyond 3 sd of {typical}, most by {named}. Of as many normal "
            f"columns without missing cells at most {100 * normal:.2g} % would be. Rows with missing cells are lost "
            f"with any {typical}. If few cells are missing, the columns are skewed, or the values are wrong. Compare "
            f"{typical} with its source. For skewed columns declare {compare}, or leave {typical} out"
        ]

    def _empty_levels(self, column: str, fault: str) -> str:
        """The declared levels whose count may be noise in a column that loses rows, if others are certain.

        One beyond two standard deviations is no sign that its level is misspelt.
        """
        place = next((one for one in self.places if one.column == column and not one.ends), None)
        if place is None or fault not in ("undeclared", "lost"):
            return ""
        counts = counts_at(self, place) / self.place_err
        missing = [repr(name) for name, count in zip(place.names, counts, strict=True) if count < LIKELY_SDS]
        certain = (counts >= CERTAIN_SDS).any()
        if not (certain and missing):
            return ""
        return (
            ". The counts of these declared levels do not stand out from the noise, so they may be the misspelt ones: "
            f"{', '.join(missing)}"
        )

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
        coded = bool(code_names(self))
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
            f"a check finds it with a probability of 90 %.{self._hidden_typical()}{self._hidden_codes()}"
        )

    def _hidden_typical(self) -> str:
        """From how many rows on a column with typical values is named: normal ones lose some without a fault."""
        limits = [self._most_by_noise(fault, CERTAIN_SDS) for fault in self.faults if fault.beyond_typical]
        if not limits:
            return ""
        usual = max(limits) + NINE_OF_TEN_SDS * self.std_err
        return (
            f" A column with {phrase('typical=', shell='typical')} is found so from {math.ceil(usual):,} lost rows on, "
            "because it loses rows beyond 3 sd even without a fault."
        )

    def _hidden_codes(self) -> str:
        """From how many rows on a code within a range is seen, which takes more."""
        if not code_names(self):
            return ""
        near = [parts_near(place, code) for place in self.places for code in place.codes]
        most = max(part.stop - part.start for part in near)
        likely = max((CERTAIN_SDS + 1) * self.code_err, SEEN_SDS * beside_err(self, most))
        codes = ", ".join(code_names(self)[:MOST_NAMES]) + (", ..." if len(code_names(self)) > MOST_NAMES else "")
        return (
            f" A number within a range that may stand for missing ({codes}) is found with this probability if about "
            f"{max(float(f'{likely:.2g}'), 2):,.0f} rows have it, or more if other values are near it."
        )

    def _beside(self) -> str:
        """That rows of no person are not counted."""
        return "" if self.guarantee.unit is None else f" {rows_of_nobody(self.formula, self.guarantee.unit)}"

    def __repr__(self) -> str:
        return f"<Check: {self.formula if len(self.formula) < 50 else 'formula'}; {self.guarantee}>"

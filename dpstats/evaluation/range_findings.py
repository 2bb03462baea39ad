"""What the counts of the parts of a range show: a code for missing, a range far too wide, rows that lie apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpstats.evaluation.check_counts import (
    CERTAIN_SDS,
    LEAST_CLEAN,
    LIKELY_SDS,
    UNDOUBTED_SDS,
    CheckCounts,
    beside_err,
    counts_at,
    doubt,
    rows_text,
)
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
from dpstats.formula.faults import DROPS, OPEN, TYPICAL
from dpstats.formula.parse import parse
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
from dpstats.wording import argument, phrase, purchase, sentence

USUAL_EPS = 1.0  # where a fit of so much narrows ranges by itself, no more is advised

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

RARE_HEAP = 0.001
"""If noise alone heaps up so many rows in more checks than this share, the finding says so."""

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

PART_NAMES = {1: "an eighth", 2: "a quarter"}  # of a range, by the number of `PARTS`


class RangeFindings:
    """The findings on one range of a check."""

    def __init__(self, check: CheckCounts, place: ColumnHistogram) -> None:
        self.check, self.place = check, place
        self.counts = counts_at(check, place)

    def texts(self) -> list[str]:
        """Codes within the range, or that it is far too wide, or rows that lie apart."""
        codes = self._missing_codes()
        wide = [] if codes else self._too_wide()
        return [*codes, *(wide or self._apart())]

    def _missing_codes(self) -> list[str]:
        """The codes that certainly have rows, more than all else near or than their part, or apart (`ALONE`, `GAP`)."""
        check, place, counts = self.check, self.place, self.counts
        sentences = []
        for code, count in zip(place.codes, counts[PARTS:], strict=True):
            part, near = part_of(place, code), counts[parts_near(place, code)]
            own = max(float(counts[part]), 0.0)
            most = max(float(near.sum()), 0.0) + PROBABLE_SDS * beside_err(check, len(near))
            within = ALONE * own + PROBABLE_SDS * math.hypot(check.code_err, ALONE * check.place_err)
            many = place.ends[part + 1] - place.ends[part] >= MANY_NUMBERS and 0 < part < PARTS - 1
            outnumbers = many and count >= own + CERTAIN_SDS * beside_err(check, 1)
            beside = max(float(near.sum() - counts[part]), 0.0) + LIKELY_SDS * beside_err(check, len(near))
            apart = beside < GAP * (count + own)
            far = count >= min(most, within) or apart
            if count < CERTAIN_SDS * check.code_err or not (far or outnumbers):
                continue
            why = (
                "far from most other values"
                if far
                else f"and about {own:,.0f} another value in the same eighth of the range"
            )
            sentences.append(
                f"about {count:,.0f} (s.d. {check.code_err:,.0f}) of {rows_text(check)} are without a fault "
                f"and have `{place.column}` equal to {code:g}, {why}. If {code:g} stands for missing, "
                + self._without_code(f"{code:g}")
                + doubt(check, count, UNDOUBTED_SDS * check.code_err)
            )
            if far and count < min(most, within):
                sentences[-1] += (
                    f". About {own:,.0f} other rows lie in the same eighth of the range. Are they codes too?"
                )
        return sentences

    def _apart(self) -> list[str]:
        """Rows that lie beyond an empty part of a range, as a code does that no check tries."""
        check, place, counts = self.check, self.place, self.counts
        named = zip(place.codes, counts[PARTS:], strict=True)  # the others beside one that is named are in its sentence
        coded = [part_of(place, code) for code, count in named if count >= CERTAIN_SDS * check.code_err]
        sentences = []
        for parts in parts_apart(counts[:PARTS], check.place_err, CERTAIN_SDS):
            if any(part in parts for part in coded):
                continue
            low, high = place.ends[parts.start], place.ends[parts.stop]
            without = self._without_code("code")
            sentences.append(
                f"about {counts[parts].sum():,.0f} (s.d. {check.place_err * math.sqrt(len(parts)):,.0f}) of "
                f"{rows_text(check)} are without a fault and have `{place.column}` between {low:.6g} and "
                f"{high:.6g}, and hardly any row lies between them and the others. They may have a code for missing "
                "data, or be a group by itself, such as "
                f"values that are cut at the end of the range. If they have a code, {without}"
            )
        return sentences

    def _without_code(self, code: str) -> str:
        """What to type if a value stands for missing; a response drops no rows."""
        column = self.place.column
        cells = phrase(f"data[{column!r}].mask(data[{column!r}] == {code})", shell="an empty cell in the file")
        masked = f"make it missing before the call: {cells}"
        if column in parse(self.check.formula).response_columns:
            return masked
        dropped = phrase(
            f'domain={{{column!r}: dp.Range(low, high, outside="drop")}}',
            shell=f"{column}: {{range: [low, high], outside: drop}}",
        )
        return f"declare the range without it, {dropped}, or {masked}"

    def _too_wide(self) -> list[str]:
        """Whether hardly any rows lie outside a small part of a column's range; of a logarithm that may be right."""
        check, place = self.check, self.place
        counts, parsed, table = self.counts, parse(check.formula), check.table
        # A row with another column's code lies in no part.
        others = is_code(check.places) & [one is not place for one in check.places for _ in one.names]
        total = max(float(check.counts[0] - check.at[others].sum()), 1.0)
        # Few rows without a fault say little of all.
        if total < LEAST_CLEAN * check.rows or place.column not in parsed.untransformed_columns:
            return []
        own = table[table["column"] == place.column]
        if (own["share"][own["fault"].isin(("below", "above")) & (own["advice"] != "")] > CLIPPED_SHARE).any():
            return []  # rows beyond its range, which is to be wider, lie in no part
        for width in (1, 2):
            inside = np.convolve(counts[:PARTS], np.ones(width), mode="valid")
            start = int(np.argmax(inside))
            # The number of rows without a fault has less noise than the sum over their places.
            outside = max(total - float(inside[start]), 0.0)
            coded = check.code_err * math.sqrt(float(others.sum()))
            noise = math.hypot(check.clean_err, coded, check.place_err * math.sqrt(width))
            if outside - noise <= LEAST_OUTSIDE * total and outside + CERTAIN_SDS * noise <= MOST_OUTSIDE * total:
                low, high = place.ends[start], place.ends[start + width]
                declared = next(fault.declared for fault in check.faults if fault.column == place.column)
                declared = declared.removesuffix(DROPS)
                is_response = place.column in parsed.response_columns
                least_inside = math.floor(100 * (1 - max(outside + LIKELY_SDS * noise, 0.0) / total))
                claim = (
                    f"at least {least_inside} % of the rows without a fault (95 % confidence) have `{place.column}` "
                    f"between {low:.6g} and {high:.6g}, {PART_NAMES[width]} of its declared range {declared}, which "
                    "may be far too wide. "
                )
                near = range(start, start + width)
                if (heap := heap_beyond(counts, near, check.place_err, CERTAIN_SDS)) is not None:
                    # A fit may keep the range for these rows, and then they decide its slope.
                    cure = phrase('dp.Range(low, high, outside="drop")', shell="{range: [low, high], outside: drop}")
                    cure = "make these cells missing" if is_response else f"declare the range without it, {cure}"
                    low, high = place.ends[heap], place.ends[heap + 1]
                    return [
                        f"{claim}About {counts[heap]:,.0f} rows (s.d. {check.place_err:,.0f}) lie apart from these, "
                        f"between {low:.6g} and {high:.6g}. If they have a code for missing, {cure}"
                        f"{self._heap_doubt(near, heap)}"
                    ]
                if is_response and check.count:
                    return [f"{claim}{COUNT_LIMITS[check.count_limit]}"]
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
                narrowing = sentence(self._narrowing(is_response, beyond, lying)).removesuffix(".")
                if typed and place.column in check.trimmable and check.absorbed is None:
                    least = NARROWEST * (place.ends[-1] - place.ends[0])
                    bought = phrase(", or buy a range with domain={}" * (check.guarantee.unit is None), shell="")
                    narrowing += (
                        f". If its values may fill less than {least:.6g}, 1/{1 / NARROWEST:.0f} of the declared range, "
                        f"that is not enough: declare the range that is known of it{bought}. A check counts eighths of "
                        f"a range; with {typed} it counts smaller ones"
                    )
                return [f"{claim}A narrower range gives less noise. {narrowing}"]
        return []

    def _heap_doubt(self, near: range, heap: int) -> str:
        """How often noise alone finds rows that lie apart, beside a heap that is not much higher than parts before."""
        check, counts = self.check, self.counts
        if check.noise != "laplace":
            return ""
        before = counts[near.stop - 1 : heap] if heap >= near.stop else counts[heap + 1 : near.start + 1]
        ranges = sum(bool(place.ends) for place in check.places)
        higher = float(counts[heap] - max(before.min(), 0.0)) / check.place_err
        if heaps_by_noise(higher, ranges) <= RARE_HEAP:
            return ""
        often = math.ceil(100 * heaps_by_noise(math.sqrt(2) * CERTAIN_SDS, ranges))
        return f". Noise alone finds such rows in up to {often} of 100 checks. Check again to confirm it"

    def _narrowing(self, is_response: bool, beyond: Mapping[int, float], lying: str) -> str:
        """What narrows a range: a fit of so many rows by itself, of a predictor from some eps on.

        `beyond` is the share of rows outside parts of it, by their eighths; `lying` tells of them.
        """
        check, column, ends = self.check, self.place.column, self.place.ends
        if check.absorbed is not None:
            return "declare one: with an absorbed factor no fit buys it"
        if is_response:  # of a fit that has fewer rows it would have more noise than the declared range
            return "least squares with standard errors and enough rows buys an interval of it by itself"
        buys, parsed = argument("ranges", "bought"), parse(check.formula)
        if column not in parsed.exog_columns:
            return "declare one: a fit narrows only the ranges of columns that explain"
        if column in parsed.knotted_columns:  # its knots stay over the declared range
            filled = phrase('dp.Range(low, high, outside="drop")', shell="{range: [low, high], outside: drop}")
            return f"declare a range that the values fill, {filled}: no fit narrows the range of a spline"
        if column not in check.trimmable:
            declared = next(fault.declared for fault in check.faults if fault.column == column)
            narrower = f"declare a narrower {phrase('inner=(low, high)', shell='inner')}"
            if declared.endswith(TYPICAL + DROPS):
                narrower = f"compare {phrase('typical=(mean, sd)', shell='typical')} with its source"
            return f"{narrower}: no fit narrows it"
        adjacency, columns = check.guarantee.adjacency, len(check.trimmable)
        if not usually_narrows(beyond, adjacency, columns):
            return (
                f"{lying}. A fit that buys ranges takes a wider part, without the rows outside it, or keeps the range. "
                "If these rows have values like the others, keep the range. If not, declare a narrower one"
            )
        if check.guarantee.unit is not None or any(fault.declared == OPEN for fault in check.faults):
            return f"a fit with {buys} finds one"
        told, error = check.totals.loc["complete", ["rows", "std_err"]].to_numpy(dtype=float)
        complete = max(float(told - PROBABLE_SDS * error), 1.0)  # of fewer rows a fit would need more
        eps = COUNT_MARGIN * rows_that_pay(1.0, adjacency, columns) / complete
        zeros, unless, bought = "", "", BOUGHT_EPS
        if ends[0] <= 0 <= ends[-1]:
            fit, bought = eps_despite_zeros(complete, adjacency, columns)
            others = {many: share / (1 - MANY_ZEROS) for many, share in beyond.items()}
            if usually_narrows(others, adjacency, columns, USUALLY_ENOUGH):
                zeros = f" ({_two_digits(fit)} if many of its values are 0, up to nine in ten)"
            else:
                unless = ", unless many of its values are 0"
        drops = any(fault.declared.endswith(DROPS) for fault in check.faults if fault.column == column)
        pair = f"{ends[0]:.15g}, {ends[-1]:.15g}"  # to be typed
        declared = f'dp.Range({pair}, outside="drop")' if drops else f"({pair})"
        call = purchase([column], _two_digits(bought), f"{{{column!r}: {declared}}}", adjacency)
        by_itself = (
            f"with an eps of about {_two_digits(eps)} or more{zeros} a fit of so many rows usually narrows it by itself"
            + unless
            + phrase(f". To narrow it before the fit, type {call}", shell="")
        )
        return by_itself if eps <= USUAL_EPS else f"a fit with {buys} finds one, and {by_itself}"


def _widened(ends: Sequence[float], start: int, share: float) -> tuple[float, float]:
    """An eighth of a range with a share of an eighth on both sides, or with twice that on one if the other ends it."""
    first, last, part = ends[0], ends[-1], ends[start + 1] - ends[start]
    width = (1 + 2 * share) * part
    low = min(max(ends[start] - share * part, first), last - width)
    return low, low + width


def _two_digits(eps: float) -> str:
    """Rounded up: what holds from `eps` on holds there."""
    digit = 10.0 ** (math.floor(math.log10(eps)) - 1)
    return f"{math.ceil(eps / digit - 1e-9) * digit:.2g}"

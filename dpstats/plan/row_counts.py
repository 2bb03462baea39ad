"""The rows of a fit, counted privately before the rest is planned: how many it uses, and what is wrong with others.

A row counts once among those used, or once for the first column at fault in a public order. Of persons those with a row
that is used are counted, and for the faults one row of each, drawn at random (docs/proofs/adaptive).
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from dpstats.formula.faults import DROPS, FORMULA, NEARLY_ALL, Fault
from dpstats.privacy.accounting import exact, float_down, split_budget
from dpstats.privacy.guarantee import Adjacency, Guarantee
from dpstats.wording import argument, joined, phrase

PROOF = "docs/proofs/adaptive"

CHECK_SHARE = 0.03
"""The share of eps that a fit spends on counts of its rows, where they are offered and nothing else is said."""

LEAST_EPS = 1e-9
"""A call for less counts no rows unless it asks to: shares would vanish on a ledger's grid."""

ROWS_PART = 1 / 3
"""The part of the purchase that counts the rows used; the rest counts rows at fault, where more counts have noise."""

MOST_AT_FAULT, MOST_UNDECLARED = 0.2, 0.1
"""A fit stops if one column loses or clips more than the first share of the rows. The second is for undeclared levels,
which are probably misspelt, and for a clipped response, which biases every coefficient."""

LEAST_NAMED = 0.005
"""A summary names a column that loses or clips more of the rows, where noise alone does not explain it.

A hundredth of the rows with a code such as 999, clipped to the end of a range, takes a third off a slope.
"""

TYPICAL_LOSS, NORMAL_LOSS = 0.01, 0.0027
"""A column with typical values is named for a larger share of its rows; a normal one has the second beyond 3 sd."""

SURE_SDS = 3
"""So many standard deviations of its noise all that is lost must exceed to be told."""

FALSE_STOPS, FALSE_NOTES = 1e-3, 3e-2
"""How often noise alone may stop a fit, or name a column, where nothing is wrong."""

MISSED = 0.05
"""How often a column that is not named may have more rows at fault than `RowCounts.most_unnamed` says."""

CHECK_SDS = 4  # standard deviations of its noise from which a count of dp.check is certain

NINE_OF_TEN_SDS = 1.2
"""So many more and nine of ten counts are above that."""

LARGE_UNNAMED = 0.02
"""A summary says how many rows a column that is not named may lose or clip if they are more than this share."""

LATER: dict[str, Any] = {"trimmable": (), "persons": False, "sound": None}
"""Fields that older versions did not store, with what they are there: a plan that has no more keeps its digest."""

DRAWN = "one drawn from each person"
"""Which rows of persons the counts of faults are of."""

LONGEST_FORMULA = 40
"""Of a longer one a note repeats no more than what is added to it."""


@dataclass(frozen=True)
class RowCounts:
    """What counts the rows, and the counts once they are released."""

    share: float  # of eps, that was asked for; where the number of rows is public its part is left to the fit
    eps: float  # what it costs
    rest: float  # what it leaves for everything else; both on a ledger's grid, where they add up to no more than all
    adjacency: Adjacency
    faults: tuple[Fault, ...]  # what may be wrong with a row, in the order that decides which comes first
    settles_errors: bool  # whether what is spent on standard errors follows the number of rows
    rows: int | None = None  # released: about how many rows the fit uses, or how many there are where that is public
    at_fault: tuple[int, ...] | None = None  # released: about how many rows have each fault first
    # numbers of which an interval within the declared range is bought if the number of rows says that it pays
    trimmable: tuple[str, ...] = ()
    persons: bool = False  # whether `rows` are persons with a row that is used, and `at_fault` one row drawn from each
    sound: int | None = None  # released of persons: about how many of the rows drawn have no fault

    @classmethod
    def planned(
        cls,
        eps: float,
        share: float,
        adjacency: Adjacency,
        faults: Iterable[Fault],
        *,
        settles_errors: bool = False,
        trimmable: tuple[str, ...] = (),
        persons: bool = False,
    ) -> Self:
        """For a share of all that a fit may cost; rows below and above a range are counted together."""
        paid = share if persons or adjacency == "add_remove" else (1 - ROWS_PART) * share
        (cost, _), (rest, _) = split_budget(eps, 0.0, [paid, 1 - paid])
        # Those beyond either end of a range are counted together.
        distinct_faults = tuple(dict.fromkeys(one if one.loses else one._replace(kind="outside") for one in faults))
        return cls(share, cost, rest, adjacency, distinct_faults, settles_errors, trimmable=trimmable, persons=persons)

    def at(self, eps: float) -> RowCounts:
        """The same share of another eps; nothing is released of it."""
        follows: dict[str, Any] = {name: getattr(self, name) for name in ("settles_errors", "trimmable", "persons")}
        planned = self.planned(eps, self.share, self.adjacency, self.faults, **follows)
        return replace(planned, faults=self.faults)

    @property
    def rows_eps(self) -> float:
        """What the number of rows used costs; nothing where it is public: that of persons with such a row never is."""
        return ROWS_PART * self.eps if self.persons or self.adjacency == "add_remove" else 0.0

    @property
    def fault_eps(self) -> float:
        """What the counts of rows at fault cost together; both add up to no more than all, without rounding."""
        return _rest(self.eps, self.rows_eps)

    @property
    def fault_sensitivity(self) -> int:
        """By how much the counts of faults of neighbours differ in all: a row counts for one fault at most."""
        return 1 if self.adjacency == "add_remove" else 2

    @property
    def rows_sd(self) -> float:
        """Standard deviation of the noise in the number of rows."""
        if not self.rows_eps:
            return 0.0
        return math.sqrt(2) * math.exp(-0.5 * self.rows_eps) / -math.expm1(-self.rows_eps)  # no overflow

    @property
    def of(self) -> str:
        """What the number of rows used is of."""
        return "persons" if self.persons else "rows"

    @property
    def of_faults(self) -> str:
        """What the counts of faults are of."""
        return f"rows ({DRAWN})" if self.persons else "rows"

    @property
    def released_rows(self) -> tuple[float, float] | None:
        """The number of rows used and the standard deviation of its noise; None unless it was bought."""
        return None if self.rows is None or not self.rows_eps or self.persons else (float(self.rows), self.rows_sd)

    def guarantees(self, whole: Guarantee) -> tuple[Guarantee, Guarantee]:
        """Of the counts and of the rest, which together cost no more than `whole`; each is charged by itself."""
        counted = replace(whole, eps=self.eps, delta=0.0, basis=PROOF, rho=None, mu=None)
        return counted, replace(whole, eps=self.rest)

    def released(self, rows: int, at_fault: Sequence[int], sound: int | None = None) -> RowCounts:
        """With what was released."""
        return replace(self, rows=int(rows), at_fault=tuple(map(int, at_fault)), sound=sound)

    @property
    def shown(self) -> str:
        """The number of rows with its error, for a table."""
        if self.rows is None:
            return f"to be counted (s.d. {_deviation(self.rows_sd)})" if self.rows_eps else "public"
        return about_rows(self.rows, self.rows_sd) if self.rows_eps else f"{self.rows:,}"

    def findings(self, narrowed: Container[str] = ()) -> list[str]:
        """Columns that certainly lose or clip rows, in sentences; a range bought of `narrowed` ones leaves rows out."""
        return self._sentences(self.named, narrowed=narrowed) + self._lost_in_all() + self._lost_with_named()

    @property
    def named(self) -> list[tuple[Fault, float, float]]:
        """The faults that a summary names, as `_seen` finds them."""
        return self._seen([LEAST_NAMED] * len(self.faults), FALSE_NOTES)

    def _lost_in_all(self) -> list[str]:
        """The rows that all columns lose together, where several leave rows out beyond an interval; else nothing.

        Of dozens of such columns none may lose enough to be named.
        """
        (lost, error), rows = self._lost, self._rows_with_lost
        dropping = sum(fault.loses and fault.declared.endswith(DROPS) for fault in self.faults)
        if dropping < 2 or lost < max(SURE_SDS * error, LEAST_NAMED * rows):
            return []
        share, deviation = (_percent(min(one / rows, 1.0), 2) for one in (lost, error))
        return [f"in all {self._share_text(share, deviation)} are lost"]

    @property
    def _lost(self) -> tuple[int, float]:
        """About how many rows all columns lose together, and the standard deviation of its noise."""
        assert self.at_fault is not None
        losing = [count for fault, count in zip(self.faults, self.at_fault, strict=True) if fault.loses]
        return sum(losing), math.sqrt(2 * len(losing)) * self._scale

    @property
    def _rows_with_lost(self) -> float:
        """About how many rows there are: with all that are lost if together they stand out, else with those that do."""
        lost, error = self._lost
        return max(self._rows_in_all(-math.inf if lost > SURE_SDS * error else self._noise(FALSE_NOTES)), 1.0)

    def _lost_with_named(self) -> list[str]:
        """That rows which a named column loses may be lost to later ones too: a row counts for its first fault."""
        losing = [fault for fault in self.faults if fault.loses]
        named = [fault for fault, _, _ in self.named if fault.loses]
        later = losing[next((place + 1 for place, fault in enumerate(losing) if fault in named), len(losing)) :]
        if not {fault.column for fault in later}.difference({fault.column for fault in named}, {FORMULA}):
            return []
        check = phrase("dp.check", shell="python -m dpstats check")
        return [f"other columns may have faults in the same rows: {check} names them"]

    @property
    def least_named(self) -> float:
        """About so many rows at fault a column must have for `findings` to name it."""
        assert self.rows is not None
        rows = self._rows_in_all(self._noise(FALSE_NOTES)) if self.persons else self.rows
        return min(most_by_noise(one, rows, self._scale, self._odds(FALSE_NOTES), LEAST_NAMED) for one in self.faults)

    @property
    def most_unnamed(self) -> tuple[int, float]:
        """About so many rows at most has any fault that is not `named`, and their share of all rows.

        One has more with probability `MISSED` at most (docs/proofs/adaptive, 5).
        """
        assert self.at_fault is not None
        named = {fault for fault, _, _ in self.named}
        others = [count for fault, count in zip(self.faults, self.at_fault, strict=True) if fault not in named]
        if not others:
            return 0, 0.0
        most = max(max(others) + self._noise(MISSED), 0.0)
        unit = 10.0 ** max(math.floor(math.log10(max(most, 1.0))) - 1, 0)
        return int(math.ceil(most / unit) * unit), most / self._rows_with_lost

    @property
    def eps_to_check(self) -> float:
        """At about so much eps nine of ten checks are certain of a column with half of what may go unnamed at fault.

        That is a share of at most `LARGE_UNNAMED` of the rows.
        """
        share = min(LARGE_UNNAMED, self.most_unnamed[1] / 2)
        least = max(share * self._rows_with_lost, 1.0)
        eps = (CHECK_SDS + NINE_OF_TEN_SDS) * math.sqrt(2) * self.fault_sensitivity / least
        digit = 10.0 ** math.floor(math.log10(eps))
        return float(f"{math.ceil(eps / digit) * digit:.1g}")

    def _noise(self, chance: float) -> float:
        """What the noise of any count of rows at fault exceeds with `chance`, in rows."""
        return self._scale * self._odds(chance)

    def _odds(self, chance: float) -> float:
        """That in scales of the noise."""
        # P(Z > z) is at most exp(-z / scale) / (1 + exp(-1 / scale)).
        return math.log(len(self.faults) / (chance * (1 + math.exp(-1 / self._scale))))

    @property
    def _scale(self) -> float:
        """Of the discrete Laplace noise in each count of rows at fault, in rows."""
        return self.fault_sensitivity / self.fault_eps

    def mismatch(self, truths: Container[str] = ()) -> list[str]:
        """Columns that lose or clip so many rows that the fit had better not be made, in sentences.

        Any code other than 0 and 1 in `truths` that stands out from the noise is too many.
        """
        least = [_most(fault) for fault in self.faults]
        for place, fault in enumerate(self.faults):
            if fault.kind == "undeclared" and fault.column in truths:
                least[place] = LEAST_NAMED
        return self._sentences(self._seen(least, FALSE_STOPS, large=True), large=True)

    @property
    def losing(self) -> list[str]:
        """The columns of which `findings` says that they lose rows."""
        least = [LEAST_NAMED if fault.loses else 1.0 for fault in self.faults]
        return list(dict.fromkeys(fault.column for fault, _, _ in self._seen(least, FALSE_NOTES) if fault.loses))

    def _sentences(
        self,
        faults: Sequence[tuple[Fault, float, float]],
        *,
        large: bool = False,
        narrowed: Container[str] = (),
    ) -> list[str]:
        """What `_seen` has found, in words: of columns with the same cause in one sentence, with one advice."""
        alike: dict[object, list[tuple[Fault, float, float]]] = {}
        for one in faults:
            fault = one[0]
            alone = fault.response or (not fault.loses and fault.column in narrowed)
            # A column that noise alone may have named has its own figure, and a sentence that says so.
            alone = alone or (not large and bool(self._doubt(fault) or self._unstopped(fault)))
            alike.setdefault(fault if alone else fault.shared_effect("", large=large), []).append(one)
        return [
            self._shared_sentence(group, large=large)
            if len(group) > 1
            else self._sentence(*group[0], large=large, narrowed=narrowed)
            for group in alike.values()
        ]

    def _sentence(self, fault: Fault, share: float, error: float, *, large: bool, narrowed: Container[str]) -> str:
        """On one column."""
        trimmed = not fault.loses and fault.column in narrowed
        if not (fault.loses or trimmed) and share >= NEARLY_ALL:
            return f"{self._share_text(_percent(share, 2), _percent(error, 2))} {fault.unit_effect}"
        return (
            f"{self._share_text(_percent(share, 2), _percent(error, 2))} "
            + (_trimmed_effect(fault) if trimmed else fault.large_effect if large else fault.effect)
            + ("" if large else self._doubt(fault) or ("" if trimmed else self._unstopped(fault)))
        )

    def _shared_sentence(self, group: Sequence[tuple[Fault, float, float]], *, large: bool) -> str:
        """On several columns that have the same cause, those of most rows first: a row counts for one of them."""
        most = sorted(group, key=lambda one: -one[1])
        listed = [
            f"`{fault.column}` ({'another ' * (place > 0)}{_percent(share, 2)})"
            for place, (fault, share, _) in enumerate(most)
        ]
        share, error = math.fsum(one[1] for one in group), group[0][2] * math.sqrt(len(group))
        columns = joined(listed, "and" if most[0][0].loses else "or")
        lost = self._share_text(_percent(min(share, 1.0), 2), _percent(error, 2))
        return f"{lost} {most[0][0].shared_effect(columns, large=large)}"

    def _share_text(self, share: str, deviation: str) -> str:
        """A share of the rows and its error, in words."""
        return f"about {share} of the rows ({f'{DRAWN}, ' if self.persons else ''}s.d. {deviation})"

    def _unstopped(self, fault: Fault) -> str:
        """Why so many rows at fault did not stop the fit, if noise may have made a part of them; else empty."""
        assert self.at_fault is not None
        noise = self._noise(FALSE_STOPS)
        most = _most(fault) * self._rows_in_all(noise)
        if not most < self.at_fault[self.faults.index(fault)] <= most + noise:
            return ""
        return f". The count is noisy, and stops a fit only beyond about {round(most + noise, -1):,.0f} rows"

    def _doubt(self, fault: Fault) -> str:
        """How often noise alone names a column, beside a count not far above the limit; else empty."""
        assert self.at_fault is not None
        rows, odds = self._rows_in_all(self._noise(FALSE_NOTES)), self._odds(FALSE_STOPS)
        if self.at_fault[self.faults.index(fault)] > most_by_noise(fault, rows, self._scale, odds):
            return ""
        check = phrase("dp.check", shell="python -m dpstats check")
        return f". Noise alone names a column in up to {100 * FALSE_NOTES:g} of 100 fits. Confirm it with {check}"

    def _rows_in_all(self, noise: float) -> float:
        """About how many rows there are, of persons rows drawn: a public number has those lost among them."""
        assert self.rows is not None
        assert self.at_fault is not None
        if self.sound is not None:  # those used are persons here, and may have lost the row that was drawn
            return max(float(self.sound), 0.0) + sum(count for count in self.at_fault if count > noise)
        counted = zip(self.faults, self.at_fault, strict=True) if self.rows_eps else ()
        return max(float(self.rows), 0.0) + sum(count for fault, count in counted if fault.loses and count > noise)

    def _seen(self, least: Sequence[float], chance: float, *, large: bool = False) -> list[tuple[Fault, float, float]]:
        """Faults of more than `least` of the rows, for sure if `large`, each with its share and the error of that.

        Noise alone names any with `chance`, of rows as they are declared.
        """
        assert self.rows is not None
        assert self.at_fault is not None
        counts = np.array(self.at_fault, dtype=np.float64)
        noise = self._noise(chance)
        rows = self._rows_in_all(noise)
        shares = np.minimum(counts / max(rows, 1.0), 1.0)
        fewest = np.array(least) * rows + noise
        if not large:
            named, odds = zip(self.faults, least, strict=True), self._odds(chance)
            fewest = np.array([most_by_noise(one, rows, self._scale, odds, share) for one, share in named])
        error = min(math.sqrt(2) * self._scale / max(rows, 1.0), 1.0)
        faults = zip(self.faults, shares, counts > fewest, strict=True)
        return [(fault, float(share), error) for fault, share, excess in faults if excess]

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        stored = asdict(self) | {"faults": [list(fault.stored) for fault in self.faults]}
        return {name: value for name, value in stored.items() if name not in LATER or value != LATER[name]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The counts whose `to_dict` gave `stored`."""
        faults = tuple(Fault(*fault) for fault in stored["faults"])
        at_fault = None if stored["at_fault"] is None else tuple(stored["at_fault"])
        trimmable = tuple(stored.get("trimmable", ()))
        return cls(**{**stored, "faults": faults, "at_fault": at_fault, "trimmable": trimmable})


@lru_cache(maxsize=64)
def _rest(eps: float, part: float) -> float:
    """What is left of eps, rounded down: a summary asks for it with every bound."""
    return float_down(exact(eps) - exact(part))


def most_by_noise(fault: Fault, rows: float, scale: float, odds: float, least: float = 0.0) -> float:
    """The count of rows at fault up to which a column is not named, in fits and in checks.

    Laplace noise of this scale alone exceeds `odds` scales with the accepted chance, and `least` is a share of the
    rows. A column with typical values may lose rows beyond 3 sd without a fault: their number and the noise together
    pass the limit with the same chance (docs/proofs/adaptive, 4).
    """
    if not fault.beyond_typical:
        return max(scale * odds, least * rows)
    scale = max(scale, 1.0)  # less noise than that does not hide how the number of such rows varies
    normal = NORMAL_LOSS * rows * scale * math.expm1(1 / scale)
    return max(scale * odds + normal, max(TYPICAL_LOSS, least) * rows)


def _most(fault: Fault) -> float:
    """The share of rows that may have a fault before a fit stops."""
    return MOST_UNDECLARED if fault.kind == "undeclared" or fault.response else MOST_AT_FAULT


def _trimmed_effect(fault: Fault) -> str:
    """What happens to rows outside of a declared range if a narrower one was bought: they are among those left out."""
    return (
        f"have `{fault.column}` {fault.kind} its declared range {fault.declared}. They are among those outside the "
        "bought range, which are left out"
    )


def about_rows(count: float, deviation: float) -> str:
    """A number of rows with noise of that standard deviation, for a table."""
    return f"about {max(round(count), 0):,} (s.d. {_deviation(deviation)})"


def rows_of_nobody(formula: str | None, unit: str) -> str:
    """Why rows of no person are not counted (docs/proofs/persons, 8), and what counts them for another guarantee."""
    column = unit if unit.isidentifier() else f"Q({unit!r})"
    known = formula is not None and len(formula) <= LONGEST_FORMULA
    checked = f"{formula} | {column}" if known else f"the formula with | {column}"
    check = phrase(f"dp.check({checked!r}, ...)", shell=f"python -m dpstats check {checked!r}")
    if not known:
        check = f"{phrase('dp.check', shell='python -m dpstats check')} of {checked}"
    return (
        f"Rows without a value of {unit} are left out, and a guarantee for each {unit} does not let them be counted. "
        f"{check} without {argument('unit')} counts them, but protects single rows."
    )


def uncounted(unit: str) -> str:
    """That in a few words."""
    return f"Rows without a value of {unit} are left out uncounted."


class RowCount(NamedTuple):
    """A number of rows with the standard deviation of its noise; it prints as tables show it."""

    value: float
    std_error: float

    def __repr__(self) -> str:
        return about_rows(self.value, self.std_error)


def _deviation(rows: float) -> str:
    """In whole rows from one on: an error is never printed as none."""
    return f"{rows:,.0f}" if rows >= 0.95 else f"{rows:.1g}"


def _percent(share: float, digits: int) -> str:
    """A share with so many significant digits, and all those before the point."""
    return f"{float(f'{100 * share:.{digits}g}'):g} %"

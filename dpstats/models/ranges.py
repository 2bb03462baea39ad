"""Ranges, centres and spreads that are bought once, within the declared ranges or for columns without."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import check_names, explain_calls
from dpstats.call import check_privacy
from dpstats.data import Block, Rows, Table, as_table
from dpstats.data.columns import usable_kind
from dpstats.domain import Domain, Range
from dpstats.errors import ArgumentError, DomainError, DPStatsError
from dpstats.families.base import pad_rows
from dpstats.families.negative_binomial import NegativeBinomial, least_alpha
from dpstats.formula.design import DesignSpec
from dpstats.ledger import LedgerLike, with_domain
from dpstats.mechanisms.residuals import ERROR_OF_CAP
from dpstats.models.release import Release, check_unit, counted_rows, counted_values
from dpstats.plan import Plan, range_eps
from dpstats.plan.methods import (
    FEWEST_BOUGHT,
    LARGEST_EXPONENT,
    MEAN_SHARE,
    NUMBER_SHARE,
    ResponsePurchase,
    can_be_trimmed,
    caps_for_intervals,
)
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.dispersion import buy_count_moments
from dpstats.privacy.guarantee import ROW, Adjacency, Guarantee, Unit
from dpstats.privacy.randomness import RandomSource
from dpstats.privacy.ranges import (
    ROWS_AT_LEAST,
    buy_interval,
    buy_mean,
    buy_number,
    buy_range,
    buy_rate,
    buy_reach,
    buy_weighted_mean,
    check_range_eps,
    count_candidates,
    is_narrowest,
)
from dpstats.privacy.trimming import buy_inner_intervals, counts_away
from dpstats.quiet import hide_frames
from dpstats.wording import argument

PROOF = "docs/proofs/ranges"

STAND_IN = Range(-1.0, 1.0)
"""What stands for a range until it is bought; every plan is tried with it before the charge."""

Built = TypeVar("Built")


@dataclass(frozen=True)
class BoughtRanges:
    """A Domain completed by bought ranges, and what they cost.

    Attributes
    ----------
    domain : Domain
        Pass it as ``domain=`` to any number of models: the ranges are public from now on.
    guarantee : Guarantee
        For the ranges alone.
    narrowest : tuple of str
        The columns whose bought range is the narrowest about zero that can be bought. Nearly all of their values are
        zero, or too small to tell from it; larger ones would be clipped.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> bought = dp.buy_ranges(rows, ["x"], eps=0.5)
    >>> print(bought.guarantee)
    eps=0.5, add_remove, certified
    """

    domain: Domain
    guarantee: Guarantee
    narrowest: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<BoughtRanges: {self.domain!r}; {self.guarantee}>{self._narrowest_note}"

    @property
    def _narrowest_note(self) -> str:
        """What to type where a range is of the zeros alone, a line; empty where none is."""
        if not self.narrowest:
            return ""
        names, typed = ", ".join(map(repr, self.narrowest)), argument("domain", {self.narrowest[0]: (0, 1000)})
        return (
            f"\n{names}: the narrowest range about zero that can be bought. Nearly all values are zero or close to it, "
            "and noise hides how far the others reach: a fit would clip them. Declare the range by the codebook, as in "
            f"{typed}, or buy with more eps"
        )

    def to_dict(self) -> dict[str, Any]:
        """The Domain and the guarantee, for JSON.

        Examples
        --------
        >>> dp.BoughtRanges.from_dict(bought.to_dict()) == bought
        True
        """
        narrowest = {"narrowest": list(self.narrowest)} if self.narrowest else {}
        return {"domain": self.domain.to_dict(), "guarantee": self.guarantee.to_dict()} | narrowest

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> BoughtRanges:
        """What `to_dict` gave `facts` of.

        Examples
        --------
        >>> dp.BoughtRanges.from_dict(bought.to_dict()).domain == bought.domain
        True
        """
        narrowest = tuple(facts.get("narrowest", ()))
        return cls(Domain.from_dict(facts["domain"]), Guarantee(**facts["guarantee"]), narrowest)


@hide_frames
@explain_calls()
def buy_ranges(
    data: object,
    columns: Sequence[str],
    eps: float,
    *,
    domain: Domain | Mapping[str, Any] | None = None,
    adjacency: str = "add_remove",
    rows_at_least: float = ROWS_AT_LEAST,
    ledger: LedgerLike = None,
    seed: int | None = None,
    unit: str | None = None,
    max_rows: int | None = None,
    engine: str | None = None,
) -> BoughtRanges:
    """Buy the ranges of numeric columns once, to be used by several models.

    Parameters
    ----------
    data : DataFrame or another table
    columns : sequence of str
        Numeric columns. Those that `domain` does not declare get a range; those whose range it declares get the
        interval within it that holds nearly all rows, and a fit leaves the others out (docs/proofs/trimming). Few rows
        keep the declared range. Such an interval is for predictors: rows left out by their response would bias every
        coefficient, so a model refuses it for its response, of which least squares buys an interval by itself.
    eps : float
        For all of them together, in equal parts. Of declared columns one with many zeros may take what others leave.
    domain : Domain or dict, optional
        What is declared already. By default the Domain that the ledger stores, if it stores one; ``{}`` declares
        nothing.
    adjacency : {"add_remove", "replace_one"}
    rows_at_least : float
        A public lower bound on the number of rows, by which eps is judged too small; no guarantee depends on it.
    ledger : Ledger, Part or path, optional
        Charged durably before any row is read.
    seed : int, optional
        For tests only; the guarantee is then not certified.
    unit : str, optional
        The column that tells persons apart, if the guarantee is to be for persons: one row of each is counted, drawn
        among those whose cell is finite.
    max_rows : int, optional
        So many rows of a person are counted instead, with as many times the noise.
    engine : {"dask"}, optional
        Read files on the cluster that this process is a client of; see `dpstats.glm`.

    Returns
    -------
    BoughtRanges

    Raises
    ------
    ArgumentError, DataError, DomainError
        Before anything is spent, if a column is missing, repeated or not numeric, has an interval already, or eps is
        too small for a range to mean anything.
    BudgetExceeded
        If the ledger has too little left.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> bought = dp.buy_ranges(rows, ["x"], eps=0.5, domain={"y": (0, 1)})
    >>> list(bought.domain)
    ['y', 'x']
    >>> wide = dp.buy_ranges(rows, ["x"], eps=0.5, domain={"x": (-50, 50)})
    >>> wide.domain["x"].interval[1] < 5
    True
    """
    if isinstance(columns, str):
        raise ArgumentError(f"columns must be a list of names: columns=[{columns!r}]")
    ledger, domain = with_domain(ledger, domain)
    names, declared = check_names("columns", columns), Domain.coerce(domain)
    privacy = check_privacy(eps, adjacency=adjacency, seed=seed, unit=unit, max_rows=max_rows)
    if narrow := [name for name in names if name in declared and not can_be_trimmed(declared[name])]:
        raise ArgumentError(
            f"columns: the domain declares levels, codes 0 and 1, or an inner interval of {narrow[0]!r} already; leave "
            "it out of columns"
        )
    check_positive("rows_at_least", rows_at_least)
    table = as_table(data, engine)
    check_numeric(table, names)
    if unknown := [name for name in names if name not in declared]:
        check_range_eps(privacy.row_eps / len(names), unknown, privacy.adjacency, rows_at_least, declared)
    check_unit(table, privacy.record)
    release = Release(
        privacy.guarantee(PROOF),
        table,
        lambda rows: ranges_of(
            rows, names, privacy.row_eps, privacy.adjacency, privacy.random(), privacy.record, declared
        )[0],
        label=f"ranges of {', '.join(names)}",
        method="ranges",
        columns=names,
        domain=declared,
    )
    ranges = release.run(ledger)
    narrowest = tuple(name for name in unknown if is_narrowest(ranges[name].low, ranges[name].high))
    return BoughtRanges(declared.with_(ranges), release.guarantee, narrowest)


def check_numeric(table: Table, names: Sequence[str]) -> None:
    """Raise DataError or DomainError unless each of `names` is one column of numbers or booleans, by its type."""
    for name in names:
        if usable_kind(name, table.column(name)) == "text":
            raise DomainError(f"column {name!r} is not numeric; declare its levels instead of buying a range")


def ranges_of(
    data: Table,
    names: Sequence[str],
    eps: float,
    adjacency: Adjacency,
    random: RandomSource,
    record: Unit = ROW,
    declared: Domain | None = None,
    most: float | None = None,
) -> tuple[dict[str, Range], float]:
    """Buy a range for each column with an equal part of eps, which a row counted may cost. Charge first.

    Of a column that is declared already the interval is bought that holds nearly all of its rows. For one with many
    zeros more may be spent, up to `most` in all, or less (`priced_choices`): what was spent comes second.
    """
    share, known = eps / len(names), Domain.coerce(declared)
    read = {name: counted_values(data, partial(_numbers, name), [name], record, random) for name in names}
    trimmed = {name: whole for name in names if isinstance(whole := known.get(name), Range)}
    ranges = {
        name: Range(*buy_range(read[name], eps=share, adjacency=adjacency, random=random))
        for name in names
        if name not in trimmed
    }
    if not trimmed:
        return ranges, eps
    counts = [counts_away(read[name], float(one.low), float(one.high)) for name, one in trimmed.items()]
    others = share * len(ranges)
    part = share * len(trimmed) if ranges else eps
    allowed = part if most is None else most - others
    bought, spent = buy_inner_intervals(counts, eps=part, most=allowed, adjacency=adjacency, random=random)
    for (name, whole), ends in zip(trimmed.items(), bought, strict=True):
        ranges[name] = whole if ends == (whole.low, whole.high) else replace(whole, inner=ends)
    return {name: ranges[name] for name in names}, eps if spent == part else others + spent


def bought_ranges(
    plan: Plan, data: Table, random: RandomSource, most: float | None = None
) -> tuple[dict[str, Range], float]:
    """Buy the ranges that a plan leaves open, or intervals within them, and what was spent: at most `most`, if given.

    Reads rows: charge first.
    """
    request, design = plan.request, plan.design
    assert isinstance(design, DesignSpec)
    declared = Domain({name: design.domain[name] for name in plan.trimmed})
    eps, record = range_eps(request, plan.bought), request.options.record
    ranges, spent = ranges_of(data, plan.bought, eps, request.adjacency, random, record, declared, most)
    if request.options.ranges != "bought":
        return ranges, spent
    clipped = {*declared, *design.parsed.response_columns}
    dropping = {name: one if name in clipped else replace(one, outside="drop") for name, one in ranges.items()}
    return dropping, spent


def _numbers(name: str, table: Table) -> NDArray[np.float64]:
    return table.column(name).numbers()


def serve(
    ranges: Mapping[str, Range], build: Callable[[Mapping[str, Range]], Built], declared: Domain | None = None
) -> Built:
    """What `build` makes of the bought ranges, or of the nearest ones that it can use.

    The budget is spent by now, and a range may not suit its formula: `np.log(x)` on one below zero, `np.exp(x)` on one
    that reaches 2^50; `build` raises DPStatsError then. All that is tried here is a function of the released ranges.
    `build` is known to serve with `STAND_IN` for each, or with the `declared` range of which an interval was bought.
    """
    try:
        return build(ranges)
    except DPStatsError:
        known = {name: one for name, one in Domain.coerce(declared).items() if isinstance(one, Range)}
        usable = {name: known.get(name, STAND_IN) for name in ranges}
    for name, bought in ranges.items():
        for candidate in _nearest(bought) if name not in known else [bought]:
            try:
                build({**usable, name: candidate})
            except DPStatsError:
                continue
            usable[name] = candidate
            break
    return build(usable)


def _nearest(bought: Range) -> Iterator[Range]:
    """The range, then the least one that holds the stand-in too, then that one cut off at falling powers of two."""
    yield bought
    low, high = min(bought.low, STAND_IN.low), max(bought.high, STAND_IN.high)
    yield replace(bought, low=low, high=high)
    for power in range(50, 0, -1):
        yield replace(bought, low=max(low, -(2.0**power)), high=min(high, 2.0**power))


Array = NDArray[np.float64]

LEAST_RATE = 1e-300
"""Its logarithm is a number still."""


def bought_response(plan: Plan, data: Table, random: RandomSource) -> ResponsePurchase:
    """Buy what a plan with every range known sets aside for its response. Reads rows: charge first."""
    planned, design, adjacency = plan.response, plan.design, plan.request.adjacency
    assert planned is not None
    assert isinstance(design, DesignSpec)
    eps, rows = planned.eps, _CountedRows(design, data, plan.request.options.record, random)
    if plan.family.response == "continuous":
        low, high, number = design.response.low, design.response.high, counted_number(plan)
        if caps_for_intervals(plan.request):
            if number is None:
                number = buy_number(rows.unexplained(), eps=NUMBER_SHARE * eps, random=random)
                eps *= 1 - NUMBER_SHARE
            if number * eps < FEWEST_BOUGHT:
                return planned  # an interval of too few is noise, and may lie anywhere
        # Quantiles do not depend on how far the farthest responses are.
        core = None if plan.family.models_mean else float(number or 0.0)
        ends = buy_interval(rows.unexplained(), low, high, eps=eps, adjacency=adjacency, random=random, core=core)
        one_tail = plan.family.models_mean and (ends[0] == low) != (ends[1] == high)
        return replace(planned, low=ends[0], high=ends[1], one_tail=one_tail)
    if isinstance(plan.request.family, NegativeBinomial):
        centred = design.has_intercept and design.offset is None
        return _bought_dispersion(planned, rows, adjacency, score_noise(plan), centred=centred)
    share = MEAN_SHARE if design.has_intercept else 0.0
    high = buy_reach(rows.responses(), planned.high, eps=(1 - share) * eps, random=random)
    if not share:
        return replace(planned, high=high)
    mean = _mean(rows, high, eps=share * eps, adjacency=adjacency, random=random)
    return replace(planned, high=high, mean=mean)


def counted_number(plan: Plan) -> float | None:
    """About how many rows there are, where it is public: released, or given."""
    return plan.request.options.n if plan.counts is None else plan.counts.rows


def score_noise(plan: Plan) -> float:
    """About the noise that a fit adds to a sum of scores, over the largest score of a row."""
    return ERROR_OF_CAP * math.sqrt(len(plan.design.names)) / plan.request.row_eps


def _bought_dispersion(
    planned: ResponsePurchase, rows: _CountedRows, adjacency: Adjacency, noise: float, *, centred: bool
) -> ResponsePurchase:
    """The greatest count that is not clipped, the dispersion and, for an intercept to centre, the mean.

    Of few rows the reach that is bought leaves so many beyond it that fitted means are too small by several standard
    errors. The moments tell so, and move it up.
    """
    values, each = rows.responses(), planned.eps / 2
    high = buy_reach(values, planned.high, eps=each, random=rows.random)
    moments = buy_count_moments(values, planned.high, eps=each, adjacency=adjacency, random=rows.random)
    high = max(high, moments.least_reach(count_candidates(planned.high), noise))
    return replace(planned, high=high, mean=moments.mean if centred else None, alpha=least_alpha(high, moments.alpha))


class _CountedRows(NamedTuple):
    """The rows that count in the purchases of a response."""

    design: DesignSpec
    data: Table
    record: Unit
    random: RandomSource

    def complete(self) -> Rows[Block]:
        """In model units."""
        return counted_rows(self.design, self.data, self.record, self.random)

    def responses(self) -> Rows[Array]:
        """Responses in the user's units."""
        read = self.design.response_values
        return counted_values(self.data, read, self.design.response_columns, self.record, self.random)

    def unexplained(self) -> Rows[Array]:
        """Continuous responses less what an offset says of them, in the user's units."""
        if self.design.offset is None:
            return self.responses()
        return self.complete().map(partial(_less_offset, self.design))


def _mean(rows: _CountedRows, most: float, *, eps: float, adjacency: Adjacency, random: RandomSource) -> float:
    """The mean of counts, weighted as the rows are; with an offset the counts per exp(offset)."""
    design = rows.design
    if design.offset is not None:
        longest = math.exp(min(design.offset.high, LARGEST_EXPONENT))
        rate = buy_rate(rows.complete().map(partial(_exposed, design)), most, eps=eps, random=random) / longest
        return max(rate, LEAST_RATE)
    if design.weights is not None:
        return buy_weighted_mean(rows.complete().map(_weighted), most, eps=eps, adjacency=adjacency, random=random)
    return buy_mean(rows.responses(), most, eps=eps, adjacency=adjacency, random=random)


def _less_offset(design: DesignSpec, block: Block) -> Array:
    assert block.offset is not None
    middle, half_width = design.response_scaling()
    return np.asarray((block.endog - block.offset) * half_width + middle)


def _weighted(block: Block) -> tuple[Array, Array]:
    """Responses and weights of some rows of counts, whose model units are the user's."""
    weights = np.ones(len(block.endog)) if block.weights is None else block.weights
    return np.asarray(block.endog, dtype=np.float64), np.asarray(weights, dtype=np.float64)


def _exposed(design: DesignSpec, block: Block) -> tuple[Array, Array, Array]:
    """Responses, weights, and exposures over the greatest, of some rows of counts."""
    assert block.offset is not None
    assert design.offset is not None
    short = block.offset - (design.offset.high - design.offset_center)
    return *_weighted(block), np.exp(pad_rows(np.asarray(short)))[: len(short)]

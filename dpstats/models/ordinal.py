"""Ordered levels: K - 1 logits with the same slopes as weighted pieces of one record (docs/proofs/ordinal)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpstats.arguments import check_choice, explain_calls, is_number
from dpstats.call import make_request
from dpstats.data import Block, Memory, PackedRows, Rows, Table, as_table, slices
from dpstats.data.table import with_level
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DomainError, FormulaError
from dpstats.families.ordinal import CumulativeLogit, score_ratio
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.formula.parse import expand_dot, parse
from dpstats.formula.reader import BLOCK_ROWS, check_columns, cut_anew
from dpstats.inference import ModelSpread
from dpstats.ledger import LedgerLike, as_ledger
from dpstats.mechanisms.information import Information
from dpstats.mechanisms.release import MOST_COVERED, ROWS_AT_MOST
from dpstats.models.glm import release_rows
from dpstats.models.release import Release
from dpstats.models.sources import cap_rows
from dpstats.plan import Plan
from dpstats.plan.plan import make_plan
from dpstats.privacy.randomness import random_source
from dpstats.quiet import hide_frames, quiet
from dpstats.results.ordinal import CUT, OrdinalResults, cut_points, level_names

OPTIONS = ("curvature", "radius", "information_share", "spread_share", "release_share", "rows_at_most")
"""Options of a fit that ordered levels take; others would draw, count or weigh rows, which are pieces of records."""


class Pieces(NamedTuple):
    """How a table of rows becomes one of pieces, one for each cut-point."""

    design: DesignSpec  # of pieces, with the level of each row as response

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that are read."""
        return tuple(name for name in self.design.columns if name != CUT)

    def check_schema(self, table: Table) -> None:
        """Raise DataError or DomainError if the table cannot be read, by names and types alone."""
        check_columns(table, self.design.domain, self.columns)

    def rows(self, table: Table) -> PackedRows:
        """Pieces in model units. Reads rows: charge first."""
        return PackedRows(self.design.packing, table.batches(self.columns).map_shards(partial(_blocks, self.design)))


def _blocks(design: DesignSpec, _: int, tables: Iterable[Table]) -> Iterator[Block]:
    return cut_anew(_found(design, tables), BLOCK_ROWS)


def _found(design: DesignSpec, tables: Iterable[Table]) -> Iterator[tuple[bool, Block]]:
    """Blocks of pieces, with whether they are of a filtered table; a row is complete at every cut-point or at none."""
    names = level_names(design)
    cuts = len(names)
    share, first = piece_weight(cuts), 0
    for table in tables:
        for rows in slices(table.rows, BLOCK_ROWS):
            chosen = np.zeros(table.rows, dtype=bool)
            chosen[rows] = True
            some = table.select(chosen, rows.stop - rows.start)
            counts = set()
            for at in range(cuts):
                (block,) = design.read_blocks(with_level(some, CUT, names, at), BLOCK_ROWS)
                size = len(block.endog)
                counts.add(size)
                yield (
                    table.filtered,
                    block._replace(
                        endog=(block.endog > at).astype(np.float64),
                        weights=np.full(size, share),
                        person=np.arange(first, first + size, dtype=np.intp),
                    ),
                )
            assert len(counts) == 1, "a row has a piece for each cut-point or none"
            first += counts.pop()


def piece_weight(cuts: int) -> float:
    """The weight of each piece of a row: so many times it is at most 1, exactly."""
    return 1.0 if cuts == 1 else float(np.nextafter(1.0 / cuts, 0.0))


@hide_frames
@explain_calls()
def plan_ordinal(
    formula: str,
    domain: Domain | Mapping[str, Any],
    eps: float,
    *,
    adjacency: str = "add_remove",
    inference: str | bool | None = True,
    **options: Any,
) -> Plan:
    """What `ordinal` would release and cost; reads no rows.

    Parameters
    ----------
    formula, domain, eps, adjacency, inference
        As for `ordinal`.
    **options
        As for `ordinal`.

    Returns
    -------
    Plan

    Raises
    ------
    ArgumentError, FormulaError, DomainError

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"health": ["poor", "fair", "good"], "age": (20, 90)}
    >>> plan = dp.plan_ordinal("health ~ age", domain, 1.0)
    >>> plan.names
    ('poor|fair', 'fair|good', 'age')
    """
    return _plan(formula, Domain.coerce(domain), eps, None, {"adjacency": adjacency, "inference": inference, **options})


@hide_frames
@explain_calls()
def ordinal(
    formula: str,
    data: object,
    eps: float,
    *,
    domain: Domain | Mapping[str, Any] | None = None,
    adjacency: str = "add_remove",
    inference: str | bool | None = True,
    ledger: LedgerLike = None,
    label: str | None = None,
    analyst: str | None = None,
    seed: int | None = None,
    memory: float | None = None,
    **options: Any,
) -> OrdinalResults:
    """Odds ratios of a higher level: a cumulative logit with proportional odds, as R's polr and OrderedModel fit it.

    Parameters
    ----------
    formula : str
        ``"health ~ age + group"``. The response has three levels or more.
    data : DataFrame or another table
    eps : float
        The budget of this call.
    domain : Domain or dict
        Declares every column: ranges of numbers, levels of groups, and the levels of the response, in their order.
    adjacency : {"add_remove", "replace_one"}
    inference : {True, "robust", "auto", None}
        True pays for standard errors that take proportional odds for granted, and "robust" for errors that do not.
        "auto" has the former if the noise of the fit leaves room for them, which takes more rows; None has coefficients
        alone.
    ledger : Ledger, Part or path, optional
        Charged durably before any row is read.
    label, analyst : str, optional
        Sign the entry of the ledger.
    seed : int, optional
        For tests only; the guarantee is then not certified.
    memory : float, optional
        Bytes that pieces in model units may take up in memory; see `dpstats.glm`.
    **options
        curvature, radius, information_share, spread_share, release_share and rows_at_most, of `dpstats.call.Options`.

    Returns
    -------
    OrdinalResults
        Its table has the cut-points, as "poor|fair", and a line for each term: the logarithm of the odds ratio.

    Raises
    ------
    ArgumentError, FormulaError, DataError, DomainError
        Before anything is spent.
    BudgetExceeded
        If the ledger has too little left.

    Notes
    -----
    Whether a row's level is above each of the K - 1 cut-points makes K - 1 logits with the same slopes. Each has the
    weight 1 / (K - 1), so the row counts as one record whatever K is, and needs no more noise than a logit of two
    levels (docs/proofs/ordinal). Coefficients are those of the cumulative logit; where odds are not proportional, they
    are averages over the cut-points. Rows with a missing cell are left out.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 90, 5000)
    >>> place = np.searchsorted([-1, 1], -0.04 * (age - 55) + rng.logistic(size=5000))
    >>> rows = {"age": age, "health": np.array(["poor", "fair", "good"])[place]}
    >>> domain = {"age": (20, 90), "health": ["poor", "fair", "good"]}
    >>> fit = dp.ordinal("health ~ age", rows, 1.0, domain=domain, seed=1)
    >>> low, high = fit.conf_int().loc["age"]
    >>> bool(low < -0.04 < high)
    True
    >>> fit.predict({"age": [30.0]}).columns.tolist()
    ['poor', 'fair', 'good']
    """
    if domain is None and (opened := as_ledger(ledger)) is not None:
        ledger, domain = opened, opened.domain
    declared = Domain.coerce(domain)
    plan = _plan(formula, declared, eps, seed, {"adjacency": adjacency, "inference": inference, **options})
    table = as_table(data)
    if table.distributed:
        raise ArgumentError(
            "data must be a frame or files: ordered levels of a Dask frame are not offered; write it to Parquet"
        )
    assert isinstance(plan.design, DesignSpec)
    pieces = Pieces(plan.design)
    pieces.check_schema(table)

    def work(rows: Table) -> OrdinalResults:
        with quiet():
            blocks = cap_rows(pieces.rows(rows), plan.family)
        return _released(plan, blocks, rows.rows if adjacency == "replace_one" else None, seed)

    return Release(
        plan.guarantee,
        table,
        work,
        label=plan.title,
        method="ordinal",
        columns=pieces.columns,
        formula=formula,
        digest=plan.digest,
        domain=declared,
        memory=None if memory is None else Memory(memory),
    ).run(ledger, label=label, analyst=analyst)


def _released(plan: Plan, blocks: Rows[Block], nobs: int | None, seed: int | None) -> OrdinalResults:
    """The release of pieces that are paid for, with the score's covariance that the released cut-points imply."""
    fit = release_rows(plan, plan.guarantee, blocks, nobs, random_source(seed))
    released = fit.released
    if isinstance(released, Information) and isinstance(released.spread, ModelSpread):
        ratio = score_ratio(cut_points(plan.design, fit.scaled_params))
        released = replace(released, spread=ModelSpread(ratio))
    return OrdinalResults(fit.plan, fit.scaled_params, fit.nobs, released)


def _plan(formula: str, domain: Domain, eps: float, seed: int | None, asked: Mapping[str, Any]) -> Plan:
    """The plan of the pieces of rows."""
    if (unknown := [name for name in asked if name not in (*OPTIONS, "adjacency", "inference")]) != []:
        raise ArgumentError(
            f"{unknown[0]} is not offered by dp.ordinal, whose options are {', '.join(OPTIONS)}; dp.logit has more, "
            "for two levels such as I(health > 2)"
        )
    check_choice("inference", asked["inference"], ("auto", "robust", True, None))
    # A row is a piece for each cut-point: so many are certified for as many rows as elsewhere.
    design, rows = _design(formula, domain), asked.get("rows_at_most", ROWS_AT_MOST)
    settings = dict(asked)
    if is_number(rows):
        settings["rows_at_most"] = min(rows * len(design.cut_points), MOST_COVERED)
    family = CumulativeLogit()
    request = make_request(
        eps=eps, family=family, seed=seed, method="napp", fitstats=None, check_share=0, ranges="declared", **settings
    )
    plan = make_plan(request, design, family, formula=formula)
    return replace(plan, guarantee=replace(plan.guarantee, basis="docs/proofs/ordinal"))


def _design(formula: str, domain: Domain) -> DesignSpec:
    """The design of pieces: the terms beside a factor that tells the cut-points apart."""
    text = expand_dot(formula, domain)
    parsed = parse(text)
    if parsed.weights is not None or parsed.offsets or parsed.failures is not None:
        raise FormulaError("formula: weights, offsets and counts of failures are not offered for ordered levels")
    if () not in parsed.terms:
        raise FormulaError(
            "formula: the intercept cannot be left out of a model of cut-points; leave '- 1' or '0 +' out"
        )
    if re.match(r"(C|factor)\(.*,", parsed.response.code):
        raise FormulaError(
            f"formula: {parsed.response.code} does not set the order of levels, which is that of the Domain: declare "
            "them in their order, and name the column alone"
        )
    if CUT in parsed.columns:
        raise DomainError(f"column {CUT!r} has the name of a part of the model here; rename it")
    # What the cut-points are called follows from the response's levels.
    left, _, right = text.partition("~")
    bound = design_spec(f"{left}~ 1", domain, family=CumulativeLogit())
    assert bound.response.levels is not None
    names = level_names(bound)
    design = design_spec(f"{left}~ {CUT} + {right}", domain.with_({CUT: names}), family=CumulativeLogit())
    return design.with_cut_points(names)

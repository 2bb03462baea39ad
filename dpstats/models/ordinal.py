"""Ordered levels: K - 1 logits with the same slopes as weighted pieces of one record (docs/proofs/ordinal)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpstats.arguments import check_choice, explain_calls
from dpstats.data import Block, PackedRows, Table, slices
from dpstats.data.table import with_level
from dpstats.domain import Domain
from dpstats.errors import DomainError, FormulaError
from dpstats.families.ordinal import CumulativeLogit
from dpstats.formula.design import DesignSpec, design_spec, requested_spec
from dpstats.formula.parse import expand_dot, parse
from dpstats.formula.reader import BLOCK_ROWS, cut_anew
from dpstats.inference import ModelSpread
from dpstats.ledger import LedgerLike, with_domain
from dpstats.mechanisms.information import Information
from dpstats.models.glm import DryRun
from dpstats.models.pieces import PieceSource, piece_request
from dpstats.models.population import ColumnPrior, KnownColumns, made_up_rows
from dpstats.plan import Plan
from dpstats.quiet import hide_frames
from dpstats.results.glm_results import GLMResults
from dpstats.results.ordinal import CUT, OrdinalResults, implied_spread, level_names

OPTIONS = (
    *("curvature", "radius", "information_share", "spread_share", "release_share", "rows_at_most"),
    *("check_share", "on_mismatch"),
)
"""Options of a fit that ordered levels take; others would draw, count or weigh rows, which are pieces of records."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """How a table of rows becomes one of pieces, one for each cut-point."""

    design: DesignSpec  # of pieces, with the level of each row as response
    records: DesignSpec  # of rows

    responses = property(lambda self: tuple(self.records.parsed.response_columns))
    clipping = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that are read."""
        return self.records.columns

    def check_schema(self, table: Table) -> None:
        """Raise DataError or DomainError if the table cannot be read, by names and types alone."""
        self.records.check_schema(table)

    def rows(self, table: Table) -> PackedRows:
        """Pieces in model units. Reads rows: charge first."""
        return PackedRows(self.design.packing, table.batches(self.columns).map_shards(partial(_blocks, self.design)))

    def used(self, table: Table) -> int:
        """How many rows of a table have pieces."""
        return self.records.used_rows(table)

    def made_up(
        self, known: KnownColumns, count: int, prior: ColumnPrior, random: np.random.Generator
    ) -> tuple[Pieces, dict[str, Any]]:
        """Columns of rows that nobody has read, with a response."""
        return self, made_up_rows(self.records, CumulativeLogit(), known, count, prior, random)

    def results(self, fit: GLMResults) -> OrdinalResults:
        """The fit, with the score's covariance that the released cut-points imply."""
        released = fit.released
        if isinstance(released, Information) and isinstance(released.spread, ModelSpread):
            released = replace(released, spread=implied_spread(self.design, fit.scaled_params))
        return OrdinalResults(fit.plan, fit.scaled_params, fit.nobs, released)


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


def at_first_cut(design: DesignSpec, table: Table) -> Table:
    """The rows of a table as their pieces at the first cut-point, with their levels as responses."""
    return with_level(table, CUT, level_names(design), 0)


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
    arguments = {"adjacency": adjacency, "inference": inference, **options}
    return _call(formula, Domain.coerce(domain), eps, None, arguments).plan()


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
        curvature, radius, information_share, spread_share, release_share, rows_at_most, check_share and on_mismatch, of
        `dpstats.call.Options`.

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
    >>> fit = dp.ordinal("health ~ age", rows, 1.0, domain=domain, seed=4)
    >>> low, high = fit.conf_int().loc["age"]
    >>> bool(low < -0.04 < high)
    True
    >>> fit.predict({"age": [30.0]}).columns.tolist()
    ['poor', 'fair', 'good']
    """
    ledger, domain = with_domain(ledger, domain)
    arguments = {"adjacency": adjacency, "inference": inference, **options}
    call = _call(formula, Domain.coerce(domain), eps, seed, arguments)
    results = call.fit(data, None, ledger=ledger, label=label, analyst=analyst, memory=memory)
    assert isinstance(results, OrdinalResults)
    return results


def _call(formula: str, domain: Domain, eps: float, seed: int | None, arguments: Mapping[str, Any]) -> DryRun:
    """What is asked for, and the pieces of rows."""
    family, pieces = CumulativeLogit(), _pieces(formula, domain)
    request = piece_request("ordinal", eps, family, seed, len(pieces.design.cut_points), OPTIONS, arguments)
    check_choice("inference", request.options.inference, ("auto", "robust", True, None))
    return DryRun(PieceSource(formula, domain, family, pieces), request)


def _pieces(formula: str, domain: Domain) -> Pieces:
    """The designs of rows, and of pieces: the terms beside a factor that tells the cut-points apart."""
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
    records, (left, _, right) = requested_spec(text, domain, family=CumulativeLogit()), text.partition("~")
    names = level_names(records)
    design = design_spec(f"{left}~ {CUT} + {right}", domain.with_({CUT: names}), family=CumulativeLogit())
    return Pieces(design.with_cut_points(names), records)

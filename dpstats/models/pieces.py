"""Models whose rows are pieces of records: ordered levels and hazards, planned and fitted as other formulas are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from dpstats.arguments import is_number
from dpstats.call import Request, make_request
from dpstats.data import Block, Rows, Table
from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.mechanisms.release import MOST_COVERED, ROWS_AT_MOST
from dpstats.models.population import RecordPieces
from dpstats.models.sources import Completed, cap_rows, plan_counts
from dpstats.plan import Plan
from dpstats.plan.plan import make_plan
from dpstats.privacy.randomness import RandomSource
from dpstats.quiet import quiet
from dpstats.results.glm_results import GLMResults


class ReadPieces(RecordPieces, Protocol):
    """Pieces with what reads them and what is made of their fit."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that are read."""

    def check_schema(self, table: Table) -> None:
        """Raise DataError or DomainError if the table cannot be read, by names and types alone."""

    def results(self, fit: GLMResults) -> GLMResults:
        """The result of the verb."""


@dataclass(frozen=True, eq=False)
class PieceSource:
    """A formula whose records are divided into pieces; a dry run has no data."""

    formula: str
    domain: Domain
    family: Family
    pieces: ReadPieces
    data: Table | None = None

    def reading(self, table: Table) -> Self:
        """The same of the records of a table, checked by names and types alone."""
        if table.distributed:
            raise ArgumentError(
                "data must be a frame or files: ordered levels and hazards of a Dask frame are not offered; write it "
                "to Parquet"
            )
        self.pieces.check_schema(table)
        return replace(self, data=table)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the frame that are read."""
        return self.pieces.columns

    def plan(self, request: Request, *, alone: bool = True) -> Plan:
        """The plan, from public facts alone."""
        counts = plan_counts(request, self.pieces.records, self.pieces.clipping, self.data, alone=alone)
        return make_plan(request, self.pieces.design, self.family, formula=self.formula, counts=counts)

    def complete(self, plan: Plan, data: Table, random: RandomSource) -> Completed:
        """The plan itself: all ranges are declared."""
        return Completed(plan)

    def rows(self, plan: Plan, data: Table, random: RandomSource) -> Rows[Block]:
        """Pieces in model units. Reads rows: charge first."""
        with quiet():
            return cap_rows(self.pieces.rows(data), self.family)

    def nobs(self, request: Request, data: Table) -> int | None:
        """The number of records as given, where it is public."""
        return data.rows if request.adjacency == "replace_one" else None


def piece_request(
    verb: str,
    eps: float,
    family: Family,
    seed: int | None,
    most: int,
    options: tuple[str, ...],
    arguments: Mapping[str, Any],
) -> Request:
    """The request of a fit whose records have `most` pieces; ArgumentError for what its verb does not take."""
    if (unknown := [name for name in arguments if name not in (*options, "adjacency", "inference")]) != []:
        raise ArgumentError(f"{unknown[0]} is not offered by dp.{verb}, whose options are {', '.join(options)}")
    # So many pieces are certified for as many records as elsewhere.
    rows, settings = arguments.get("rows_at_most", ROWS_AT_MOST), dict(arguments)
    if is_number(rows):
        settings["rows_at_most"] = min(rows * most, MOST_COVERED)
    request = make_request(eps=eps, seed=seed, method="napp", fitstats=None, ranges="declared", **settings)
    return replace(request, family=family)  # which no other call may name

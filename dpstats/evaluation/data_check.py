"""Do the rows suit the formula and the Domain? Asked before the budget of a fit is spent (docs/proofs/evaluation)."""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import explain_calls
from dpstats.call import check_privacy
from dpstats.data import Rows, Table, as_table, slices
from dpstats.data.columns import usable_kind
from dpstats.domain import Domain, Levels, Range
from dpstats.errors import ArgumentError
from dpstats.evaluation.check_result import Check
from dpstats.evaluation.column_histograms import (
    ColumnHistogram,
    code_flags,
    column_histograms,
    count_places,
    is_code,
    steps_per_place,
)
from dpstats.evaluation.integer_noise import choose_noise
from dpstats.families import Family, get_family
from dpstats.formula.advice import advice, schema_domain
from dpstats.formula.design import DesignSpec, requested_spec
from dpstats.formula.expression import Column as ColumnNode
from dpstats.formula.faults import Facts, Fault, Flags, column_facts, fault_flags, possible_faults
from dpstats.formula.parse import parse
from dpstats.formula.response import clipping_response
from dpstats.formula.syntax import absorbed_factor
from dpstats.ledger import LedgerLike, with_domain
from dpstats.models.release import Release, check_unit, counted_tables
from dpstats.models.sources import model_formula
from dpstats.plan.methods import buys_greatest_count, narrowed_unasked
from dpstats.quiet import hide_frames

_log = logging.getLogger("dpstats")

STEPS = 5040  # one row in lattice steps: up to ten columns can share it equally, and more nearly so
BLOCK_ROWS = 65536  # rows that are read at once


@hide_frames
@explain_calls()
def check(
    formula: str,
    data: object,
    domain: Domain | Mapping[str, Any] | None = None,
    eps: float | None = None,
    *,
    delta: float = 0.0,
    family: str | Family | None = None,
    adjacency: str = "add_remove",
    ledger: LedgerLike = None,
    seed: int | None = None,
    weights: str | None = None,
    offset: str | None = None,
    exposure: str | None = None,
    unit: str | None = None,
    engine: str | None = None,
) -> Check:
    """How many rows a fit would use, how many it would lose, and to which column: misspelt levels, wrong ranges.

    A fit drops incomplete rows and clips cells to their ranges. It counts both coarsely and stops in bad cases; a check
    counts them for a budget that you choose: eps = 0.02 finds faults in a tenth of 10,000 rows. A check also counts the
    rows without a fault, with more noise, in each eighth of a range and at each level. These counts show a range that
    is far too wide, a code for missing such as 999 within a range and, in a column that loses rows, a level that no row
    has.

    Parameters
    ----------
    formula : str
        As for `dpstats.glm`. Of an absorbed factor, ``y ~ x | g``, rows without a value are counted, unless its values
        identify the persons of `unit`. Any family may stand beside it here.
    data : DataFrame or another table
    domain : Domain or dict, optional
        Of numeric columns that are left out only missing cells are counted. By default the Domain that the ledger
        keeps.
    eps, delta : float
        The budget of this call; eps must be given. A delta permits Gaussian noise and stays unspent where Laplace
        noise is less.
    family : str or Family, optional
        Says what the response must be; without it a response that is declared as bool, as (0, 1) or by two levels is
        taken as binary, any other as a number.
    adjacency : {"add_remove", "replace_one"}
    ledger : Ledger, Part or path, optional
        Charged durably before any row is read.
    seed : int, optional
        For tests only; the guarantee is then not certified.
    weights, offset, exposure : str, optional
        As for `dpstats.glm`. A row counts as one whatever its weight is.
    unit : str, optional
        The column that identifies persons, if the guarantee is to be for persons: one row of each, drawn at random, is
        counted.
    engine : {"dask"}, optional
        Read files on the cluster that this process is a client of; see `dpstats.glm`.

    Returns
    -------
    Check
        A row that is lost to several columns is shared equally among them, and so is one that is clipped in several:
        the parts add up to the rows. Each figure has the standard deviation of its noise.

    Raises
    ------
    ArgumentError, FormulaError, DataError, DomainError
        Before anything is spent.
    BudgetExceeded
        If the ledger has too little left.

    Notes
    -----
    One row's part of the release has l1 norm one, however many columns there are (docs/proofs/evaluation).

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> check = dp.check("y ~ x", rows, domain, 0.5)
    >>> print(check.guarantee)
    eps=0.5, add_remove, certified
    """
    if eps is None:
        raise ArgumentError("check() needs eps, the privacy budget, such as eps=0.1")
    privacy = check_privacy(eps, delta, adjacency=adjacency, seed=seed, unit=unit, max_rows=None if unit is None else 1)
    ledger, domain = with_domain(ledger, domain)
    declarations = Domain.coerce(domain)
    kind = get_family(implied_family(formula, declarations) if family is None else family)
    formula, absorbed = absorbed_factor(formula)
    formula = model_formula(formula, kind, weights=weights, offset=offset, exposure=exposure)
    table = as_table(data, engine)
    known, open_ranges = schema_domain(formula, declarations, table, kind)
    design = None if open_ranges else requested_spec(formula, known, family=kind, absorbed=absorbed)
    parsed = parse(formula)
    facts = column_facts(parsed, clipping_response(parsed, known), kind)
    grouping = None if absorbed == unit else absorbed  # which may be counted: rows of no person may not
    faults = possible_faults(facts, design, parsed, grouping, table=table)
    columns = list(dict.fromkeys([*facts, *([] if grouping is None else [grouping])]))
    places = column_histograms(facts)
    noise = choose_noise(STEPS, STEPS**2, privacy.eps, privacy.delta, privacy.adjacency)
    check_unit(table, privacy.record)
    if grouping is not None:
        usable_kind(grouping, table.column(grouping))
    guarantee = privacy.of_records(noise.guarantee(privacy.adjacency))
    advised = advice(formula, declarations, table, bought=())
    for sentence in advised:
        _log.warning("dpstats: %s", sentence)

    def work(rows: Table) -> Check:
        random = privacy.random()
        counted = counted_tables(rows, columns, privacy.record, random)
        released = noise.add(count_faults(counted, facts, design, faults, places), random)
        # Counts are in rows: divided by the steps that one row has in each.
        part = steps_per_place(places, STEPS)
        units = np.full(1 + len(faults), STEPS)
        units[0] -= len(places) * part
        placed = np.where(is_code(places), len(places) * part, part)
        return Check(
            formula=formula,
            faults=faults,
            counts=released[: len(units)] / units,
            places=places,
            at=released[len(units) :] / placed,
            steps=(STEPS, int(units[0]), max(part, 1), max(len(places) * part, 1)),
            std_err=noise.variance**0.5 / STEPS,
            nobs=rows.rows if privacy.adjacency == "replace_one" and unit is None else None,
            guarantee=guarantee,
            noise=noise.kind,
            count=kind.response == "count",
            count_limit=_count_limit(kind),
            advice=advised,
            absorbed=absorbed,
            trimmable=() if absorbed is not None else narrowed_unasked(parsed, known),
        )

    return Release(
        guarantee,
        table,
        work,
        label="check",
        method="check",
        columns=columns,
        compared=() if absorbed is None else (absorbed,),
        formula=formula,
        domain=declarations,
    ).run(ledger)


def _count_limit(family: Family) -> Literal["bought", "declared", "y_max"]:
    """What limits counts in a fit of the family; of other families the default."""
    if family.response != "count" or buys_greatest_count(family):
        return "bought"
    return "declared" if getattr(family, "y_max", None) is None else "y_max"


def implied_family(formula: str, domain: Domain) -> str:
    """The family that the declaration of the response implies; beside an absorbed factor (0, 1) is a range."""
    formula, absorbed = absorbed_factor(formula)
    parsed = parse(formula)
    node = parsed.response.node
    declared = domain.get(node.name) if isinstance(node, ColumnNode) else None
    two = isinstance(declared, Levels) and len(declared.values) == 2
    truths = absorbed is None and isinstance(declared, Range) and declared.is_binary
    return "binomial" if two or truths or parsed.failures is not None else "gaussian"


def count_faults(
    rows: Table | Rows[Table],
    facts: Facts,
    design: DesignSpec | None,
    faults: Sequence[Fault],
    places: Sequence[ColumnHistogram] = (),
) -> NDArray[np.int64]:
    """Sums over rows of their parts, in steps, shape (1 + number of faults + sizes of the places,). Charge first.

    Rows with no fault, the part of each fault, then where rows with no fault lie; one row adds `STEPS` altogether.
    """
    part = partial(_fault_sums, facts, design, tuple(faults), tuple(places))
    columns = dict.fromkeys([*facts, *(fault.column for fault in faults if fault.ungrouped)])
    return (rows.batches(columns) if isinstance(rows, Table) else rows).total(part, operator.add)


def _fault_sums(
    facts: Facts,
    design: DesignSpec | None,
    faults: Sequence[Fault],
    places: Sequence[ColumnHistogram],
    tables: Iterable[Table],
) -> NDArray[np.int64]:
    """The sums over the rows of some tables."""
    part = steps_per_place(places, STEPS)
    total = np.zeros(1 + len(faults) + sum(len(place.names) for place in places), dtype=np.int64)
    for table in tables:
        for rows in slices(table.rows, BLOCK_ROWS):
            block = table.select(rows, rows.stop - rows.start)
            flags = fault_flags(block, facts, design, faults)
            clean = np.asarray(~flags.any(axis=1))
            total[: 1 + len(faults)] += shared_steps(flags)
            # The steps that a row without a fault adds to its places are taken off "no fault". One with a code gives
            # all of them to it: codes are few, and a row's part would drown in the noise of its places.
            codes = code_flags(block, places)
            coded = codes.any(axis=1)
            located = part * count_places(block, clean & ~coded, places, facts)
            if codes.shape[1]:
                located[is_code(places)] += shared_steps(codes[clean], len(places) * part)[1:]
            total[0] -= len(places) * part * int(clean.sum())
            total[1 + len(faults) :] += located
    return total


def shared_steps(flags: Flags, steps: int = STEPS) -> NDArray[np.int64]:
    """Sums over rows of one row's steps, shared among its faults, or given to the first place if it has none.

    Of flags of shape (r, faults), shape (1 + faults,).
    """
    number = flags.sum(axis=1)
    part = steps // np.maximum(number, 1)
    parts = flags * part[:, None]
    # What is left of the division goes to the first fault, so that every row adds exactly these steps.
    faulty = np.flatnonzero(number)
    parts[faulty, flags[faulty].argmax(axis=1)] += (steps - part * number)[faulty]
    return np.concatenate([[steps * int(np.sum(number == 0))], parts.sum(axis=0)]).astype(np.int64)

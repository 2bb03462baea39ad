"""Sums of squares and products of several columns, bought once for any number of linear models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpstats.arguments import explain_calls, safe_repr
from dpstats.call import DELTA_LEAST, check_privacy
from dpstats.data import Table, as_table
from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.families import Gaussian
from dpstats.formula.design import design_spec
from dpstats.ledger import LedgerLike
from dpstats.mechanisms.statistics import RADIUS, plan_statistics
from dpstats.models.release import Release
from dpstats.privacy.guarantee import check_delta
from dpstats.quiet import hide_frames
from dpstats.results.statistics import ReleasedStatistics
from dpstats.wording import argument


@hide_frames
@explain_calls()
def release_statistics(
    domain: Domain | Mapping[str, Any],
    columns: Sequence[str],
    eps: float,
    *,
    data: object,
    delta: float = 0.0,
    response: str | None = None,
    radius: float = RADIUS,
    adjacency: str = "add_remove",
    ledger: LedgerLike = None,
    seed: int | None = None,
    engine: str | None = None,
) -> ReleasedStatistics:
    """Buy X'X, X'y and y'y of some columns once: any number of linear models of them then costs nothing more.

    Parameters
    ----------
    domain : Domain or dict
        Declares every column: ranges and levels.
    columns : sequence of str
        Columns, or terms of formulas such as ``"bs(age, df=4)"`` and ``"sex:hours"``; an intercept is added.
    eps, delta : float
        The budget of this call. A delta permits Gaussian noise and stays unspent where pure noise is less.
    data : DataFrame or another table
        The private rows; incomplete ones are left out.
    response : str, optional
        The number that most models are to explain, the first of `columns` by default. Any other column of numbers can
        be explained too, with a little more noise.
    radius : float
        A guess at how far predictions reach from the middle of the response's range, in half widths of it. Public; it
        divides the noise among the sums and is the default of `ReleasedStatistics.fit`.
    adjacency : {"add_remove", "replace_one"}
    ledger : Ledger, Part or path, optional
        Charged durably before any row is read.
    seed : int, optional
        For tests only; the guarantee is then not certified.
    engine : {"dask"}, optional
        Read files on the cluster that this process is a client of; see `dpstats.glm`.

    Returns
    -------
    ReleasedStatistics

    Raises
    ------
    ArgumentError, FormulaError, DomainError, DataError
        Before anything is spent.
    BudgetExceeded
        If the ledger has too little left.

    Notes
    -----
    One noise for all sums together, by their joint sensitivity (docs/proofs/statistics).

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> sums = dp.release_statistics(domain, ["y", "x"], 1.0, data=rows)
    >>> list(sums.fit("y ~ x").params.index)
    ['Intercept', 'x']
    >>> list(sums.fit("x ~ y").params.index)  # at no further charge
    ['Intercept', 'y']
    """
    privacy = check_privacy(eps, delta, adjacency=adjacency, seed=seed)
    check_delta(privacy.delta, DELTA_LEAST)
    formula = statistics_formula(columns, response)
    design = design_spec(formula, Domain.coerce(domain), family=Gaussian())
    if any(part is not None for part in (design.weights, design.offset, design.subset)):
        raise ArgumentError(
            "columns must be columns of the sums: weights, offsets and subsets are not offered here, use dp.glm"
        )
    if not design.has_intercept:
        raise ArgumentError(
            "columns must keep the intercept; a model without one can be fitted from the same statistics"
        )
    table = as_table(data, engine)
    design.check_schema(table)
    plan = plan_statistics(design, eps=privacy.eps, delta=privacy.delta, adjacency=privacy.adjacency, radius=radius)
    plan = replace(plan, guarantee=privacy.of_records(plan.guarantee))

    def work(rows: Table) -> ReleasedStatistics:
        nobs = rows.rows if privacy.adjacency == "replace_one" else None
        return ReleasedStatistics(plan, plan.release(plan.design.rows(rows), privacy.random()), nobs)

    return Release(
        plan.guarantee,
        table,
        work,
        label=f"statistics of {len(design.names)} columns and {design.response_name}",
        method="statistics",
        columns=design.columns,
        formula=formula,
        digest=plan.digest,
        domain=design.domain,
    ).run(ledger)


def statistics_formula(columns: Sequence[str], response: str | None) -> str:
    """The formula of all columns that the statistics are of: two different texts or more, with the response."""
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not all(isinstance(c, str) for c in columns):
        raise ArgumentError("columns must be a list of names or terms: columns=['y', 'x1', 'x2']")
    if response is not None and not isinstance(response, str):
        raise ArgumentError(f"response must be the name of a column, got {safe_repr(response)}")
    terms = [column.strip() for column in columns]
    if any("~" in term or not term for term in [*terms, response or "y"]):
        raise ArgumentError(
            f"columns must be names or terms, without '~'; name the response with {argument('response')}"
        )
    outcome = response.strip() if response is not None else terms[0] if terms else ""
    others = [term for term in terms if term != outcome]
    if not others or len(set(terms)) != len(terms):
        raise ArgumentError("columns must name at least one column besides the response, and each column once")
    return f"{outcome} ~ {' + '.join(others)}"

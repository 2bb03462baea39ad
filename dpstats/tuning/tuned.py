"""A fit whose settings the data chose, privately (docs/proofs/tuning)."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from dpstats.arguments import answered
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DataError
from dpstats.models.charging import charged, check_for_unit
from dpstats.models.sources import FormulaSource
from dpstats.plan.tables import WIDTH, Summary, wrap_notes
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger import LedgerLike
from dpstats.privacy.randomness import RandomSource, random_source
from dpstats.quiet import sealed
from dpstats.results.glm_results import GLMResults
from dpstats.tables import Table, as_table
from dpstats.tuning.candidates import Grid
from dpstats.tuning.planning import UNTUNED, TuningPlan, tuning_plan
from dpstats.tuning.strategies import Fitting, by_public, every, in_parts, stopping

_log = logging.getLogger("dpstats")


@dataclass(frozen=True, eq=False)
class Tuned:
    """A tuned fit.

    Attributes
    ----------
    chosen : str
        The candidate's name, as the grid sets it.
    fit : GLMResults
        The candidate's fit; its guarantee is that of the whole call.
    plan : TuningPlan
        What was planned, and charged.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> found = dp.tune("y ~ x", rows, {"alpha": [1.0, 9.0]}, eps=2.0, penalty="ridge", domain=domain)
    >>> list(found.fit.params.index)
    ['Intercept', 'x']
    """

    chosen: str
    fit: GLMResults
    plan: TuningPlan

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of everything this object shows."""
        return self.plan.guarantee

    @property
    def params(self) -> pd.Series[float]:
        """The fit's coefficients in the user's units."""
        return self.fit.params

    @property
    def budget(self) -> pd.DataFrame:
        """What the budget was spent on; see `TuningPlan.budget`."""
        return self.plan.budget

    def predict(self, newdata: Any, **arguments: Any) -> Any:
        """Predictions of the fit for new rows; see `GLMResults.predict`.

        Examples
        --------
        >>> found.predict({"x": [0.2, 0.8]}).shape
        (2,)
        """
        return self.fit.predict(newdata, **arguments)

    def summary(self, *, full: bool = False, n: int | None = None) -> Summary:
        """The fit's coefficients, guarantee and budget, and which candidate it is; as_text, as_html and as_latex.

        Parameters
        ----------
        full : bool
            Candidates and what was paid for each, then all of the fit's own tables.
        n : int, optional
            A public number of rows; see `GLMResults.summary`.

        Examples
        --------
        >>> "alpha" in found.summary().as_text()
        True
        """
        summary, own = self.fit.summary(full=full, n=n), Summary()
        if full:
            own.tables = [*self.plan.tables(self.chosen), *summary.tables]
            own.add_extra_txt([*wrap_notes(self.plan.notes()), "Of the fit:", *summary.extra_txt.splitlines()])
            return own
        said = textwrap.fill(
            f"Chosen by {self.plan.strategy!r} among {len(self.plan.names)} candidates: {self.chosen}.",
            WIDTH,
            subsequent_indent="  ",
        )
        aware = "\nStandard errors do not know of the choice." if self.fit.released is not None else ""
        own.tables = summary.tables
        own.add_extra_txt([f"{said}\n{summary.extra_txt}{aware}"])
        return own

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        return f"<Tuned: {self.chosen}; {self.guarantee}>"


@sealed
@answered()
def tune(
    formula: str,
    data: object,
    grid: Grid,
    *,
    eps: float,
    strategy: str = "stopping",
    domain: Domain | Mapping[str, Any] | None = None,
    delta: float = 0.0,
    adjacency: str = "add_remove",
    score: str | None = None,
    score_share: float | None = None,
    runs: float = 10,
    eta: float = 0.0,
    public: object = None,
    ledger: LedgerLike = None,
    seed: int | None = None,
    allow_uncertified: bool = False,
    **arguments: Any,
) -> Tuned:
    """Fit a model whose settings the private rows choose, within one budget.

    Look at `plan_tuning` first: one fit with the defaults and the whole budget is usually better.

    Parameters
    ----------
    formula : str
    data : DataFrame or another table
        The private rows.
    grid : dict or list of dict
        Lists of values by argument of `dpstats.glm`, of which every combination is a candidate, such as
        ``{"curvature": [1, 10, 100]}`` or ``{"penalty": ["lasso"], "alpha": [1.0, 10.0]}``; or the candidates one by
        one. Families must have one kind of response. Public: it must not come out of the data.
    eps, delta : float
        The budget of the whole call. "stopping" is pure.
    strategy : {"stopping", "all", "parts", "public"}
        "stopping": a random number of runs, each a fit of a random candidate on all rows and a noisy score; the best
        fit is released. "all": every candidate on all rows with its share of the budget, then a private choice.
        "parts": every candidate on rows of its own with the whole budget, and a choice on the rest (Chaudhuri,
        Monteleoni and Sarwate 2011, Algorithm 4). "public": public rows choose, at no cost.
    domain : Domain or dict
        Ranges and levels of all columns; none are bought here.
    adjacency : {"add_remove", "replace_one"}
    score : {"mistakes", "absolute_error", "squared_error"}, optional
        The loss of a row; mistakes for a response of two values, else the absolute error as a share of its range.
    score_share : float, optional
        Of a run's eps for its score ("stopping"), or of the whole eps for the choice ("all"); 0.2 and 0.1 by default.
    runs : float
        The mean number of runs of "stopping".
    eta : {-0.5, 0.0, 1.0}
        Their law: 1 is geometric, smaller values have longer tails and leave a run more of the budget.
    public : DataFrame or another table
        For strategy="public": rows that need no protection.
    ledger : Ledger, Part or path, optional
        Charged durably before any private row is read.
    seed : int, optional
        For tests only; the guarantee is then not certified.
    allow_uncertified : bool
    **arguments
        Those of `dpstats.glm` that all candidates share: family, method, penalty, alpha and options. With
        strategy="stopping" or "all" `unit` too, a column that tells persons apart, whose rows share a weight of 1.

    Returns
    -------
    Tuned
        ``chosen``, ``fit``, ``summary()``. Neither scores nor the number of runs are kept.

    Raises
    ------
    ArgumentError, FormulaError, DomainError, DataError
        Before anything is spent.
    BudgetExceeded
        If the ledger has too little left.

    Notes
    -----
    The time that "stopping" takes tells how many runs there were, which its guarantee takes to be unknown: keep it from
    whoever gets the result (docs/proofs/tuning, section 5).

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> found = dp.tune("y ~ x", rows, {"alpha": [1.0, 9.0]}, eps=2.0, penalty="ridge", domain=domain)
    >>> found.chosen in found.plan.names
    True
    """
    source = FormulaSource(formula, as_table(data), domain)
    plan = tuning_plan(
        source,
        grid,
        eps,
        strategy=strategy,
        delta=delta,
        adjacency=adjacency,
        score=score,
        score_share=score_share,
        runs=runs,
        eta=eta,
        allow_uncertified=allow_uncertified,
        seed=seed,
        **arguments,
    )
    if public is not None and public is data:
        raise ArgumentError("public must be rows that need no protection: these are the rows of data, which do")
    shown = _public_rows(plan, source, public)
    random = random_source(seed)
    unit = plan.guarantee.unit
    check_for_unit(ledger, unit, "dp.tune")
    _log.warning("dpstats.tune: %s plan_tuning() shows its plan beside that of the candidates.", UNTUNED)
    return charged(
        ledger,
        plan.guarantee,
        source.data,
        lambda rows: released(plan, source.with_data(rows), shown, random),
        label=f"tuning of {plan.plans[0].title}, {len(plan.names)} candidates",
        method=f"tune, {plan.strategy}",
        columns=source.columns if unit is None else (*source.columns, unit),
        formula=formula,
        plan_hash=plan.digest(),
        domain=source.domain,
    )


def released(plan: TuningPlan, source: FormulaSource, public: Table | None, random: RandomSource) -> Tuned:
    """Carry the plan out. Reads rows: charge first."""
    fitting = Fitting(source, random)
    if plan.strategy == "public":
        assert public is not None
        place, fit = by_public(plan, fitting, public)
    else:
        place, fit = {"stopping": stopping, "all": every, "parts": in_parts}[plan.strategy](plan, fitting)
    fit = replace(fit, plan=replace(fit.plan, guarantee=plan.guarantee))
    return Tuned(plan.names[place], fit, plan)


def _public_rows(plan: TuningPlan, source: FormulaSource, public: object) -> Table | None:
    """The public rows, checked by their schema; private ones are checked too."""
    design: Any = plan.plans[0].design
    design.check_schema(source.data)
    if (public is None) == (plan.strategy == "public"):
        raise ArgumentError("public must be given with strategy='public', and with no other")
    if public is None:
        return None
    table = as_table(public)
    if table.divided:
        raise DataError("public must not be rows of a holdout or of a part of a ledger: those are private")
    design.check_schema(table)
    return table

"""A fit whose settings are chosen privately by the data (docs/proofs/tuning)."""

from __future__ import annotations

import logging
import secrets
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from dpstats.arguments import explain_calls
from dpstats.data import Block, Rows, Table, as_table, partition
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DataError
from dpstats.formula.design import DesignSpec
from dpstats.ledger import LedgerLike
from dpstats.models.glm import release_rows
from dpstats.models.release import Release, check_for_unit, holdouts, person_rows
from dpstats.models.sources import FormulaSource, cap_rows
from dpstats.plan import Plan
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.randomness import RandomSource, SystemRandom, noisy_integers, random_source, secret_key
from dpstats.privacy.selection import STEPS
from dpstats.quiet import hide_frames, quiet
from dpstats.results.glm_results import GLMResults
from dpstats.results.stored import Printed
from dpstats.summaries import WIDTH, Summary, wrap_notes
from dpstats.tuning.losses import block_loss
from dpstats.tuning.plan import DEFAULTS_NOTE, Grid, TuningPlan, make_tuning_plan

_log = logging.getLogger("dpstats")

PUBLIC_FITS = 10  # Random halves of the public rows: each candidate is fitted to one half and judged on the other


class CandidateFits:
    """Fits of candidates to the rows of one table."""

    def __init__(self, source: FormulaSource, data: Table, random: RandomSource) -> None:
        self.source = source
        self.data = data
        self.random = random
        self._shared: dict[int, Rows[Block]] = {}

    def rows(self, plan: Plan) -> Rows[Block]:
        """The rows of a completed plan's design, with no cap of its family on their response."""
        design = plan.design
        assert isinstance(design, DesignSpec)
        if plan.response is None and id(design) in self._shared:
            return self._shared[id(design)]
        with quiet():
            rows = person_rows(design, self.data, plan.request.options.record, self.random).persist()
        if plan.response is None:  # else what was bought has made a design for this plan alone
            self._shared[id(design)] = rows
        return rows

    def fit(self, plan: Plan) -> tuple[GLMResults, Rows[Block]]:
        """A candidate's fit to all rows, and the rows of its design."""
        completed = self.source.complete(plan, self.data, self.random).plan
        rows = self.rows(completed)
        return self.fit_to(completed, rows, self.source.nobs(plan.request, self.data)), rows

    def fit_to(self, completed: Plan, rows: Rows[Block], nobs: int | None = None) -> GLMResults:
        """The fit of a completed plan to some rows."""
        fitted = cap_rows(rows, completed.family)
        fit = release_rows(completed, completed.guarantee, fitted, nobs, self.random)
        return fit._completed(holdouts=holdouts(self.data, "train"))


def random_stopping(plan: TuningPlan, fitting: CandidateFits) -> tuple[int, GLMResults]:
    """The best of a random number of runs, each of a random candidate with a noisy score."""
    assert plan.runs is not None
    random = fitting.random
    best: tuple[int, GLMResults] | None = None
    least, ties = 0, 0
    for _ in range(plan.runs.draw(random)):
        place = uniform_integer(len(plan.plans), random)
        fit, rows = fitting.fit(plan.plans[place])
        loss = np.array([block_loss(fit, plan.score, rows)], dtype=np.int64)
        noisy = int(noisy_integers(loss, STEPS, plan.score_eps, random)[0])
        # Of several best runs each must be as likely: the theorem breaks ties at random.
        ties = ties + 1 if best is not None and noisy == least else 1
        if best is None or noisy < least or (noisy == least and uniform_integer(ties, random) == 0):
            best, least = (place, fit), noisy
    assert best is not None
    return best


def every_candidate(plan: TuningPlan, fitting: CandidateFits) -> tuple[int, GLMResults]:
    """Every candidate on all rows, then the choice."""
    assert plan.choice is not None
    fits = [fitting.fit(one) for one in plan.plans]
    losses = [block_loss(fit, plan.score, rows) for fit, rows in fits]
    place = plan.choice.choose(np.array(losses, dtype=np.int64), fitting.random)
    return place, fits[place][0]


def disjoint_parts(plan: TuningPlan, fitting: CandidateFits) -> tuple[int, GLMResults]:
    """Each candidate on rows of its own, then the choice on the rest."""
    assert plan.choice is not None
    size = len(plan.plans)
    parts = partition(fitting.rows(plan.plans[0]), secret_key(fitting.random), size + 1)
    fits = [fitting.fit_to(one, part) for one, part in zip(plan.plans, parts[:size], strict=True)]
    losses = np.array([block_loss(fit, plan.score, parts[size]) for fit in fits], dtype=np.int64)
    place = plan.choice.choose(losses, fitting.random)
    return place, fits[place]


def best_on_public_rows(plan: TuningPlan, fitting: CandidateFits) -> int:
    """Which candidate errs least on halves of the rows, fitted to the other halves with the noise that a fit has."""
    losses = np.zeros(len(plan.plans))
    for _ in range(PUBLIC_FITS):
        key = secret_key(fitting.random)
        for place, one in enumerate(plan.plans):
            completed = fitting.source.complete(one, fitting.data, fitting.random).plan
            train, test = partition(fitting.rows(completed), key, 2)
            losses[place] += block_loss(fitting.fit_to(completed, train), plan.score, test)
    return int(np.argmin(losses))


def uniform_integer(size: int, random: RandomSource) -> int:
    """A whole number from 0 to size - 1, each as likely; exactly so except from a seeded source."""
    if isinstance(random, SystemRandom):
        return secrets.randbelow(size)
    return int(random.random(1)[0] * size)


@dataclass(frozen=True, eq=False)
class Tuned(Printed):
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
    >>> search = dp.tune("y ~ x", rows, {"alpha": [1.0, 9.0]}, eps=2.0, penalty="ridge", domain=domain)
    >>> list(search.fit.params.index)
    ['Intercept', 'x']
    >>> search.predict({"x": [0.2, 0.8]}).shape, "alpha" in search.summary().as_text()
    ((2,), True)
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
        """Predictions of the fit for new rows; see `GLMResults.predict`."""
        return self.fit.predict(newdata, **arguments)

    def summary(self, *, full: bool = False, n: int | None = None) -> Summary:
        """The fit's coefficients, guarantee and budget, and which candidate it is; as_text, as_html and as_latex.

        Parameters
        ----------
        full : bool
            Candidates and what was paid for each, then all of the fit's own tables.
        n : int, optional
            A public number of rows; see `GLMResults.summary`.
        """
        of_fit, summary = self.fit.summary(full=full, n=n), Summary()
        if full:
            summary.tables = [*self.plan.tables(self.chosen), *of_fit.tables]
            summary.add_extra_txt([*wrap_notes(self.plan.notes()), "Of the fit:", *of_fit.extra_txt.splitlines()])
            return summary
        among = f"Chosen by {self.plan.strategy!r} among {len(self.plan.names)} candidates: {self.chosen}."
        choice = textwrap.fill(among, WIDTH, subsequent_indent="  ")
        aware = "\nStandard errors do not account for the choice." if self.fit.released is not None else ""
        summary.tables = of_fit.tables
        summary.add_extra_txt([f"{choice}\n{of_fit.extra_txt}{aware}"])
        return summary

    def __repr__(self) -> str:
        return f"<Tuned: {self.chosen}; {self.guarantee}>"


@hide_frames
@explain_calls()
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
        Lists of values by argument of `dpstats.glm`, such as ``{"curvature": [1, 10, 100]}`` or ``{"penalty":
        ["lasso"], "alpha": [1.0, 10.0]}``. Every combination is a candidate. Or a list of candidates. Families must
        have the same kind of response. The grid is public and must not depend on the data.
    eps, delta : float
        The budget of the whole call. "stopping" is pure.
    strategy : {"stopping", "all", "parts", "public"}
        "stopping": a random number of runs, each a fit of a random candidate on all rows and a noisy score; the best
        fit is released. "all": every candidate on all rows with its share of the budget, then a private choice.
        "parts": every candidate on separate rows with the whole budget, and a choice on the other rows (Chaudhuri,
        Monteleoni and Sarwate 2011, Algorithm 4). "public": public rows choose, at no cost.
    domain : Domain or dict
        Ranges and levels of all columns; none are bought here.
    adjacency : {"add_remove", "replace_one"}
    score : {"mistakes", "absolute_error", "squared_error"}, optional
        The loss of a row; mistakes for a response of two values, else the absolute error as a share of its range.
    score_share : float, optional
        The share of a run's eps for its score ("stopping"), or of the whole eps for the choice ("all"); 0.2 and 0.1 by
        default.
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
        Arguments of `dpstats.glm` that all candidates share: family, method, penalty, alpha and options. With
        strategy="stopping" or "all" also `unit`, the column that identifies persons, whose rows share a weight of 1.

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
    The duration of "stopping" reveals the number of runs, and the guarantee assumes that readers of the result do not
    know it: keep the duration private (docs/proofs/tuning, section 5).

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> search = dp.tune("y ~ x", rows, {"alpha": [1.0, 9.0]}, eps=2.0, penalty="ridge", domain=domain)
    >>> search.chosen in search.plan.names
    True
    """
    table = as_table(data)
    source = FormulaSource(formula, table, domain)
    shared = {"adjacency": adjacency, "allow_uncertified": allow_uncertified, "seed": seed}
    plan = make_tuning_plan(source, grid, eps, delta, strategy, score, score_share, runs, eta, arguments, **shared)
    if public is not None and public is data:
        raise ArgumentError("public must be rows that need no protection; these are the private rows of data")
    public_table = _public_rows(plan, source, public)
    check_for_unit(ledger, plan.guarantee.unit, "dp.tune")
    _log.warning("dpstats.tune: %s plan_tuning() shows its plan beside that of the candidates.", DEFAULTS_NOTE)
    return Release(
        plan.guarantee,
        table,
        lambda rows: release_tuned(plan, CandidateFits(source, rows, random_source(seed)), public_table),
        label=f"tuning of {plan.plans[0].title}, {len(plan.names)} candidates",
        method=f"tune, {plan.strategy}",
        columns=source.columns,
        formula=formula,
        digest=plan.digest,
        domain=source.domain,
    ).run(ledger)


def release_tuned(plan: TuningPlan, fitting: CandidateFits, public: Table | None) -> Tuned:
    """Carry the plan out. Reads rows: charge first."""
    if plan.strategy == "public":
        assert public is not None
        place = best_on_public_rows(plan, CandidateFits(fitting.source, public, fitting.random))
        fit, _ = fitting.fit(plan.plans[place])
    else:
        strategies = {"stopping": random_stopping, "all": every_candidate, "parts": disjoint_parts}
        place, fit = strategies[plan.strategy](plan, fitting)
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
    if table.filtered:
        raise DataError("public must not be rows of a holdout or of a part of a ledger: those are private")
    design.check_schema(table)
    return table

"""The plan of a tuned fit: which candidates, at what price, and what one fit with the defaults would have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpstats.arguments import answered, check_choice
from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.frames import Printed
from dpstats.models.sources import FormulaSource
from dpstats.plan import Plan
from dpstats.plan.tables import Summary, format_number, full_width, shorten, wrap_notes
from dpstats.privacy.calibration_gaussian import check_delta
from dpstats.privacy.choice import Choice
from dpstats.privacy.guarantee import Guarantee, check_adjacency, check_planned
from dpstats.privacy.stopping import Runs
from dpstats.privacy.unit import Unit, make_unit
from dpstats.proving import cited
from dpstats.quiet import sealed
from dpstats.request import DELTA_LEAST, SEEDED, make_request
from dpstats.tuning.candidates import Grid, candidates_of
from dpstats.tuning.pricing import checked_score, checked_share, divided_eps

PROOF = "docs/proofs/tuning"

STRATEGIES = ("stopping", "all", "parts", "public")

PERSONAL = ("stopping", "all")
"""Strategies that protect persons with several rows."""

UNTUNED = (
    "One fit with the defaults and the whole budget had at most the error of every strategy in every cell of the "
    "benchmark: its curvature is chosen from public facts."
)


@dataclass(frozen=True, eq=False)
class TuningPlan:
    """What a tuned fit would cost; a function of formula, Domain, grid and options alone.

    Attributes
    ----------
    strategy : {"stopping", "all", "parts", "public"}
    formula : str
    names : tuple of str
        The candidates.
    plans : tuple of Plan
        Of each candidate's fit, at the budget that it has.
    default : Plan or None
        Of one fit with the whole budget and nothing set by the grid; None if the grid has to set something.
    score : str
        The loss of a row that candidates are compared by.
    score_eps : float
        What a noisy score, or the choice, costs.
    runs : Runs or None
        The law of the number of runs of "stopping".
    choice : Choice or None
        The choice of "all" and "parts".
    guarantee : Guarantee
        For the released fit and the candidate's name together.

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> plan = dp.plan_tuning("y ~ x", domain, {"alpha": [1.0, 9.0]}, eps=1.0, penalty="ridge")
    >>> print(plan.guarantee)
    eps=1, add_remove, certified
    """

    strategy: str
    formula: str
    names: tuple[str, ...]
    plans: tuple[Plan, ...]
    default: Plan | None
    score: str
    score_eps: float
    runs: Runs | None
    choice: Choice | None
    guarantee: Guarantee

    @property
    def budget(self) -> pd.DataFrame:
        """What the budget is spent on, one purchase a row.

        Returns
        -------
        DataFrame
            Columns eps and delta of each; times, how often it is paid; charged, the eps that all of them have of the
            total; and buys.
        """
        eps, total = self.plans[0].request.eps, self.guarantee.eps
        score, size, delta = self.score_eps, len(self.plans), self.plans[0].request.delta
        paid: list[tuple[Any, ...]] = []
        if self.strategy == "stopping":
            paid.append(("fit", eps, 0.0, "each run", eps, "one random candidate's fit"))
            paid.append(("score", score, 0.0, "each run", score, "its noisy loss"))
            rest = total - eps - score
            paid.append(("other runs", rest, 0.0, "together", rest, "their number and scores"))
        elif self.strategy == "all":
            paid.append(("fit", eps, delta, f"{size} times", size * eps, "every candidate on all rows"))
            paid.append(("choice", score, 0.0, "once", total - size * eps, "the least loss"))
        elif self.strategy == "parts":
            # A row is in one part and pays for that alone.
            paid.append(("fit", eps, delta, "by its part", total, "candidates on rows apart"))
            paid.append(("choice", score, 0.0, "by its part", 0.0, "least loss on the last part"))
        else:
            paid.append(("fit", eps, delta, "once", total, "what public rows chose"))
        paid.append(("total", total, self.guarantee.delta, "", total, ""))
        columns = ["purchase", "eps", "delta", "times", "charged", "buys"]
        return Printed(pd.DataFrame(paid, columns=columns).set_index("purchase"))

    @property
    def table(self) -> pd.DataFrame:
        """The candidates' fits, and that with the defaults: eps, delta, noise_sd (root mean square), curvature."""
        plans = dict(zip(self.names, self.plans, strict=True))
        if self.default is not None:
            plans["untuned default"] = self.default
        rows = [
            (
                name,
                plan.request.eps,
                plan.request.delta,
                float(np.sqrt(np.mean(plan.noise_sd**2))),
                float(np.median(plan.curvature)),
            )
            for name, plan in plans.items()
        ]
        columns = ["candidate", "eps", "delta", "noise_sd", "curvature"]
        return Printed(pd.DataFrame(rows, columns=columns).set_index("candidate"))

    def tables(self, chosen: str | None = None) -> list[Any]:
        """The tables that plan and result share; `chosen` is marked.

        Examples
        --------
        >>> len(plan.tables()) > 0
        True
        """
        title = f"Tuning of {shorten(self.formula, 50)}, {self.strategy}"
        if not self.guarantee.certified:
            title = f"*** NOT CERTIFIED ***\n{title}"
        rows = [
            (name, ["chosen" if name == chosen else "", *map(format_number, figures)])
            for name, *figures in self.table.itertuples()
        ]
        spent = [
            (name, [format_number(eps), format_number(part), times, format_number(charged), buys])
            for name, eps, part, times, charged, buys in self.budget.itertuples()
        ]
        return [
            full_width(["", "eps", "delta", "noise sd", "curvature"], rows, [7, 9, 9, 9, 9], title=title),
            full_width(["eps", "delta", "times", "charged", "buys"], spent, [8, 8, 11, 8, 27], title="Budget"),
        ]

    def notes(self) -> list[str]:
        """What the reader must know, in plain words.

        Examples
        --------
        >>> all(isinstance(note, str) for note in plan.notes())
        True
        """
        guarantee = self.guarantee
        spent = f"({guarantee.eps:.4g}, {guarantee.delta:.4g})" if guarantee.delta else f"{guarantee.eps:.4g}"
        said = [
            f"The released fit and which candidate it is are {spent}-differentially private under "
            f"{guarantee.neighbours}, by {cited(guarantee.basis)}."
            if guarantee.certified
            else f"No guarantee is claimed for this output: {guarantee.reason}.",
            UNTUNED,
        ]
        if self.runs is not None:
            said.append(
                f"The number of runs is random, {self.runs.mean:g} on average, and private like the scores: do not let "
                f"readers of the result time the call. A given candidate is tried with probability "
                f"{self.runs.found(len(self.names)):.2f}."
            )
        if any(stage.plan.information is not None for plan in self.plans for stage in plan.stages):
            said.append("Standard errors do not know that the data chose among the candidates.")
        if self.strategy == "public":
            said.append("The rows given as public are taken to be so: nothing protects them.")
        return said

    def summary(self) -> Summary:
        """Candidates, budget and notes; as_text, as_html and as_latex.

        Examples
        --------
        >>> "stopping" in plan.summary().as_text()
        True
        """
        summary = Summary()
        summary.tables = self.tables()
        summary.add_extra_txt(wrap_notes(self.notes()))
        return summary

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        return f"<TuningPlan: {self.strategy} among {len(self.names)} candidates; {self.guarantee}>"

    def digest(self) -> str:
        """A hash of the public facts, as a ledger records it.

        Examples
        --------
        >>> len(plan.digest())
        64
        """
        facts = [self.strategy, self.names, self.score, self.score_eps, [plan.digest() for plan in self.plans]]
        return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()


@sealed
@answered()
def plan_tuning(
    formula: str,
    domain: Domain | Mapping[str, Any] | None,
    grid: Grid,
    eps: float,
    *,
    strategy: str = "stopping",
    delta: float = 0.0,
    adjacency: str = "add_remove",
    score: str | None = None,
    score_share: float | None = None,
    runs: float = 10,
    eta: float = 0.0,
    allow_uncertified: bool = False,
    seed: int | None = None,
    **arguments: Any,
) -> TuningPlan:
    """What `tune` with these arguments would cost, and what one fit with the defaults would have; reads no data.

    Parameters
    ----------
    formula, domain, grid, eps, strategy, delta, adjacency, score, score_share, runs, eta, allow_uncertified, seed
        As for `tune`.
    **arguments
        Those of `dpstats.glm` that all candidates share, `unit` among them.

    Returns
    -------
    TuningPlan

    Raises
    ------
    ArgumentError, FormulaError, DomainError
        As `tune` does.

    Examples
    --------
    >>> import dpstats as dp
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> plan = dp.plan_tuning("y ~ x", domain, {"alpha": [1.0, 9.0]}, eps=1.0, penalty="ridge")
    >>> len(plan.names)
    2
    """
    source = FormulaSource(formula, None, domain)
    return tuning_plan(
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


def tuning_plan(
    source: FormulaSource,
    grid: Grid,
    eps: float,
    *,
    strategy: str,
    delta: float,
    adjacency: str,
    score: str | None,
    score_share: float | None,
    runs: float,
    eta: float,
    allow_uncertified: bool,
    seed: int | None,
    **common: Any,
) -> TuningPlan:
    """See `plan_tuning`; the source may have data, of which the schema alone is looked at."""
    eps, delta = check_planned(eps, delta)
    check_delta(delta, DELTA_LEAST)
    notion = check_adjacency(adjacency)
    record = make_unit(common.get("unit"))
    _check_strategy(strategy, delta, record)
    share = checked_share(strategy, score_share)
    # Standard errors would not know that the data chose the fit: whoever wants them all the same has to ask.
    common = {"inference": None, **common}
    named = candidates_of(grid, common)
    law = Runs(eta, runs) if strategy == "stopping" else None
    fit_eps, score_eps = divided_eps(strategy, eps, share, len(named), law)
    shared = {"adjacency": adjacency, "allow_uncertified": allow_uncertified, "seed": seed}
    fit_delta = delta / len(named) if strategy == "all" else delta
    plans = [
        _planned(source, {**given, **shared, "eps": fit_eps, "delta": fit_delta}, f"the candidate {name}: ")
        for name, given in named.items()
    ]
    for plan in plans:
        if strategy == "parts" and plan.response is not None:
            raise ArgumentError("response='declared' is needed with strategy='parts': a fit sees its own rows only")
    guarantee = _guarantee(Guarantee(eps, delta, notion, basis=PROOF, unit=record.column), plans, seed)
    return TuningPlan(
        strategy=strategy,
        formula=source.formula,
        names=tuple(named),
        plans=tuple(plans),
        default=_default(source, {**common, **shared, "eps": eps, "delta": delta}),
        score=checked_score(score, plans[0].family.response),
        score_eps=score_eps,
        runs=law,
        choice=Choice(len(named), score_eps, notion) if strategy in ("all", "parts") else None,
        guarantee=guarantee,
    )


def _check_strategy(strategy: str, delta: float, record: Unit) -> None:
    """Raise ArgumentError for a strategy that there is not, or that has no proof for this delta or unit."""
    check_choice("strategy", strategy, STRATEGIES)
    if strategy == "stopping" and delta > 0:
        raise ArgumentError("delta must be 0 with strategy='stopping', whose theorem is for pure eps; use 'all'")
    if record.column is not None and strategy not in PERSONAL:
        raise ArgumentError(
            f"unit goes with strategy='stopping' and 'all', not with {strategy!r}: rows of a person could come into "
            "several parts, and public ones need no guarantee; choose by public rows first, and fit by dp.glm"
        )


def _guarantee(whole: Guarantee, plans: Sequence[Plan], seed: int | None) -> Guarantee:
    """Of the tuning: uncertified for the reasons of any of its fits, or because it is seeded."""
    reasons = dict.fromkeys(plan.guarantee.reason for plan in plans if plan.guarantee.reason is not None)
    for reason in reasons or ({} if seed is None else {SEEDED: None}):
        whole = whole.uncertified(reason)
    return whole


def _planned(source: FormulaSource, arguments: Mapping[str, Any], whose: str = "") -> Plan:
    try:
        request = make_request(**arguments)
        undeclared = source.undeclared(request.family)
        plan = None if undeclared else source.plan(request)
    except ArgumentError as error:  # one of public arguments
        raise ArgumentError(f"{whose}{error}") from error
    if plan is None:
        raise ArgumentError(
            f"domain must declare the range of {', '.join(undeclared)}: tuning buys none; dp.buy_ranges does, once for "
            "all"
        )
    return plan


def _default(source: FormulaSource, arguments: Mapping[str, Any]) -> Plan | None:
    try:
        return _planned(source, arguments)
    except ArgumentError:  # decided by public arguments alone: a penalty, say, whose strength is tuned
        return None

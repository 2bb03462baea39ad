"""The plan of a tuned fit: its candidates and their budgets, beside one fit with the defaults."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpstats.arguments import MOST_LETTERS, check_choice, check_fraction, explain_calls, safe_repr
from dpstats.call import DELTA_LEAST, make_request
from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.families import get_family
from dpstats.frames import WideFrame
from dpstats.models.sources import FormulaSource
from dpstats.plan import Plan
from dpstats.privacy.guarantee import Guarantee, Unit, check_adjacency, check_delta, check_planned, make_unit
from dpstats.privacy.selection import PermuteAndFlip, RandomStopping
from dpstats.quiet import hide_frames
from dpstats.results.stored import Printed, guarantee_sentence, marked_title
from dpstats.summaries import Summary, format_number, full_width, shorten
from dpstats.tuning.losses import MODEL_LOSSES

# Arguments that all candidates share
SHARED_ARGUMENTS = (
    *("adjacency", "allow_uncertified", "data", "delta", "domain", "eps", "formula", "ledger", "memory", "seed"),
    "unit",
)
# Not offered: only rows of a person that share one weight add at most one row's loss
UNIT_ARGUMENTS = ("max_rows", "unit_weight")
FORMULA_TERMS = ("exposure", "offset", "weights")  # These are terms of the formula instead
STRATEGIES = ("stopping", "all", "parts", "public")
UNIT_STRATEGIES = ("stopping", "all")  # Strategies that protect persons with several rows
# Shares of a run's eps for its score, and of the whole eps for the choice; chosen by the benchmark (docs/tuning)
SCORE_SHARES = {"stopping": 0.2, "all": 0.1}
MOST_CANDIDATES = 1000  # Candidates of a grid
PROOF = "docs/proofs/tuning"
DEFAULTS_NOTE = (
    "In every cell of the benchmark one fit with the defaults and the whole budget was at least as good as every "
    "strategy of tuning, because its curvature is chosen from public facts."
)

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]


def candidates_of(grid: Grid, common: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The arguments of each candidate's fit, by a name that lists what it sets; all have those in `common`.

    ArgumentError unless they differ, have responses of one kind, and set nothing that all candidates share.
    """
    chosen = _combinations(grid)
    for name in itertools.chain(common, *chosen):
        if name in UNIT_ARGUMENTS:
            raise ArgumentError(f"tune() does not take {name}: the rows of a person share a weight; pass unit= alone")
        if name in FORMULA_TERMS:
            raise ArgumentError(f"{name} is not an argument here: write weights() and offset() as terms of the formula")
    for one in chosen:
        for name in one:
            if not isinstance(name, str) or name in SHARED_ARGUMENTS:
                raise ArgumentError(f"grid cannot set {safe_repr(name)}: it is the same for all candidates")
    named = {
        ", ".join(f"{name}={_value_text(value)}" for name, value in one.items()): {**common, **one} for one in chosen
    }
    if len(named) < max(2, len(chosen)):
        raise ArgumentError("grid must hold at least two candidates, all of them different")
    kinds = {get_family(arguments.get("family", "gaussian")).response for arguments in named.values()}
    if len(kinds) > 1:
        raise ArgumentError("grid must hold families of one kind of response: their errors cannot be compared")
    return named


def _combinations(grid: Grid) -> list[dict[str, Any]]:
    if isinstance(grid, Mapping) and all(isinstance(values, (list, tuple)) for values in grid.values()):
        if not 0 < math.prod(map(len, grid.values())) <= MOST_CANDIDATES:
            raise ArgumentError(f"grid must hold between 2 and {MOST_CANDIDATES} combinations")
        return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if (
        isinstance(grid, (list, tuple))
        and len(grid) <= MOST_CANDIDATES
        and all(isinstance(one, Mapping) for one in grid)
    ):
        return [dict(one) for one in grid]
    raise ArgumentError("grid must be a dict of lists, such as {'curvature': [1, 10]}, or a list of dicts of arguments")


def _value_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) and len(value) <= MOST_LETTERS else safe_repr(value)


def split_eps(
    strategy: str, eps: float, share: float, candidates: int, runs: RandomStopping | None
) -> tuple[float, float]:
    """The eps of one fit and that of a score, or of the choice (docs/proofs/tuning)."""
    if strategy == "stopping" and runs is not None:
        each = runs.each(eps)
        return (1 - share) * each, share * each
    if strategy == "all":
        return (1 - share) * eps / candidates * (1 - 1e-12), share * eps
    return eps, 0.0 if strategy == "public" else eps


def check_share(strategy: str, share: float | None) -> float:
    """The share of eps that scores or the choice take; ArgumentError if it is none."""
    if strategy not in SCORE_SHARES:
        if share is not None:
            raise ArgumentError(
                f"score_share cannot be combined with strategy={strategy!r}, which pays for the score separately"
            )
        return 0.0
    return SCORE_SHARES[strategy] if share is None else check_fraction("score_share", share)


def check_score(score: str | None, response: str) -> str:
    """The score's name, by the kind of response unless one is given."""
    if score is None:
        return "mistakes" if response == "binary" else "absolute_error"
    if not isinstance(score, str) or score not in MODEL_LOSSES or (score == "mistakes" and response != "binary"):
        suited: Sequence[str] = MODEL_LOSSES if response == "binary" else MODEL_LOSSES[1:]
        raise ArgumentError(f"score must be one of {list(suited)} for this family, got {safe_repr(score)}")
    return score


@dataclass(frozen=True, eq=False)
class TuningPlan(Printed):
    """The cost of a tuned fit; a function of formula, Domain, grid and options alone.

    Attributes
    ----------
    strategy : {"stopping", "all", "parts", "public"}
    formula : str
    names : tuple of str
        The candidates.
    plans : tuple of Plan
        The plan of each candidate's fit, at its share of the budget.
    default : Plan or None
        The plan of one fit with the whole budget and defaults for the grid; None if the grid must set an argument.
    score : str
        The loss of a row that candidates are compared by.
    score_eps : float
        The cost of a noisy score, or of the choice.
    runs : RandomStopping or None
        The law of the number of runs of "stopping".
    choice : PermuteAndFlip or None
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
    >>> len(plan.tables()), len(plan.digest()), plan.notes() != [], "stopping" in plan.summary().as_text()
    (2, 64, True, True)
    """

    strategy: str
    formula: str
    names: tuple[str, ...]
    plans: tuple[Plan, ...]
    default: Plan | None
    score: str
    score_eps: float
    runs: RandomStopping | None
    choice: PermuteAndFlip | None
    guarantee: Guarantee

    @property
    def budget(self) -> pd.DataFrame:
        """The parts of the budget, a row each: eps and delta, how many times it is paid, its eps in the total, buys."""
        eps, total = self.plans[0].request.eps, self.guarantee.eps
        score, size, delta = self.score_eps, len(self.plans), self.plans[0].request.delta
        rest, last = total - eps - score, total - size * eps
        paid = {
            "stopping": [
                ("fit", eps, 0.0, "each run", eps, "one random candidate's fit"),
                ("score", score, 0.0, "each run", score, "its noisy loss"),
                ("other runs", rest, 0.0, "together", rest, "their number and scores"),
            ],
            "all": [
                ("fit", eps, delta, f"{size} times", size * eps, "every candidate on all rows"),
                ("choice", score, 0.0, "once", last, "the least loss"),
            ],
            "parts": [  # a row is in one part and pays for that alone
                ("fit", eps, delta, "by its part", total, "candidates on rows apart"),
                ("choice", score, 0.0, "by its part", 0.0, "least loss on the last part"),
            ],
            "public": [("fit", eps, delta, "once", total, "what public rows chose")],
        }[self.strategy]
        paid.append(("total", total, self.guarantee.delta, "", total, ""))
        columns = ["purchase", "eps", "delta", "times", "charged", "buys"]
        return WideFrame(pd.DataFrame(paid, columns=columns).set_index("purchase"))

    @property
    def table(self) -> pd.DataFrame:
        """The candidates' fits, and that with the defaults: eps, delta, noise_sd (root mean square), curvature."""
        plans = dict(zip(self.names, self.plans, strict=True))
        if self.default is not None:
            plans["untuned default"] = self.default
        figures = {
            "eps": [plan.request.eps for plan in plans.values()],
            "delta": [plan.request.delta for plan in plans.values()],
            "noise_sd": [float(np.sqrt(np.mean(plan.noise_sd**2))) for plan in plans.values()],
            "curvature": [float(np.median(plan.curvature)) for plan in plans.values()],
        }
        return WideFrame(figures, index=pd.Index(plans, name="candidate"))

    def tables(self, chosen: str | None = None) -> list[Any]:
        """The tables that plan and result share; `chosen` is marked."""
        title = marked_title(f"Tuning of {shorten(self.formula, 50)}, {self.strategy}", self.guarantee)
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
        """What the reader must know, in plain words."""
        notes = [guarantee_sentence(self.guarantee, "The released fit and which candidate it is are"), DEFAULTS_NOTE]
        if self.runs is not None:
            notes.append(
                f"The number of runs is random, {self.runs.mean:g} on average, and private like the scores: keep "
                "the duration of the call private too. Each candidate is tried with probability "
                f"{self.runs.coverage(len(self.names)):.2f}."
            )
        if any(stage.plan.information is not None for plan in self.plans for stage in plan.stages):
            notes.append("Standard errors do not account for the choice among the candidates.")
        if self.strategy == "public":
            notes.append("The rows passed as public are not protected.")
        return notes

    def summary(self) -> Summary:
        """Candidates, budget and notes; as_text, as_html and as_latex."""
        return Summary(self.tables(), self.notes())

    def __repr__(self) -> str:
        return f"<TuningPlan: {self.strategy} among {len(self.names)} candidates; {self.guarantee}>"

    def digest(self) -> str:
        """A hash of the public facts, as a ledger records it."""
        facts = [self.strategy, self.names, self.score, self.score_eps, [plan.digest() for plan in self.plans]]
        return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()


@hide_frames
@explain_calls()
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
    """The cost of `tune` with these arguments, beside one fit with the defaults; reads no data.

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
    shared = {"adjacency": adjacency, "allow_uncertified": allow_uncertified, "seed": seed}
    return make_tuning_plan(source, grid, eps, delta, strategy, score, score_share, runs, eta, arguments, **shared)


def make_tuning_plan(
    source: FormulaSource,
    grid: Grid,
    eps: float,
    delta: float,
    strategy: str,
    score: str | None,
    score_share: float | None,
    runs: float,
    eta: float,
    common: Mapping[str, Any],
    **shared: Any,
) -> TuningPlan:
    """As `plan_tuning`, of a source that may have data, of which the schema alone is looked at.

    `common` are arguments of `dpstats.glm` that all candidates share, as are adjacency, allow_uncertified and seed.
    """
    eps, delta = check_planned(eps, delta)
    check_delta(delta, DELTA_LEAST)
    neighbours = check_adjacency(shared["adjacency"])
    record = make_unit(common.get("unit"))
    _check_strategy(strategy, delta, record)
    share = check_share(strategy, score_share)
    # Standard errors would not know that the data chose the fit: whoever wants them all the same has to ask.
    common = {"inference": None, **common}
    named = candidates_of(grid, common)
    law = RandomStopping(eta, runs) if strategy == "stopping" else None
    fit_eps, score_eps = split_eps(strategy, eps, share, len(named), law)
    fit_delta = delta / len(named) if strategy == "all" else delta
    plans = [
        _plan_candidate(source, {**given, **shared, "eps": fit_eps, "delta": fit_delta}, f"the candidate {name}: ")
        for name, given in named.items()
    ]
    if strategy == "parts" and any(plan.response is not None for plan in plans):
        raise ArgumentError("response='declared' is needed with strategy='parts', where each fit has its own rows")
    guarantee = Guarantee(eps, delta, neighbours, basis=PROOF, unit=record.column)
    for reason in dict.fromkeys(plan.guarantee.reason for plan in plans):
        guarantee = guarantee if reason is None else guarantee.uncertified(reason)
    try:
        default = _plan_candidate(source, {**common, **shared, "eps": eps, "delta": delta})
    except ArgumentError:  # decided by public arguments alone: a penalty, say, whose strength is tuned
        default = None
    return TuningPlan(
        strategy=strategy,
        formula=source.formula,
        names=tuple(named),
        plans=tuple(plans),
        default=default,
        score=check_score(score, plans[0].family.response),
        score_eps=score_eps,
        runs=law,
        choice=PermuteAndFlip(len(named), score_eps, neighbours) if strategy in ("all", "parts") else None,
        guarantee=guarantee,
    )


def _check_strategy(strategy: str, delta: float, record: Unit) -> None:
    """Raise ArgumentError for an unknown strategy, or one that has no proof for this delta or unit."""
    check_choice("strategy", strategy, STRATEGIES)
    if strategy == "stopping" and delta > 0:
        raise ArgumentError("delta must be 0 with strategy='stopping', whose theorem is for pure eps; use 'all'")
    if record.column is not None and strategy not in UNIT_STRATEGIES:
        raise ArgumentError(
            f"unit goes with strategy='stopping' and 'all', not with {strategy!r}: rows of a person could fall "
            "into several parts, and public rows need no guarantee; choose on public rows first, and fit by dp.glm"
        )


def _plan_candidate(source: FormulaSource, arguments: Mapping[str, Any], prefix: str = "") -> Plan:
    try:
        request = make_request(**arguments)
        undeclared = source.undeclared(request.family)
        plan = None if undeclared else source.plan(request)
    except ArgumentError as error:  # one of public arguments
        raise ArgumentError(f"{prefix}{error}") from error
    if plan is None:
        raise ArgumentError(
            f"domain must declare the range of {', '.join(undeclared)}: tuning does not buy ranges; dp.buy_ranges "
            "buys them once for all candidates"
        )
    return plan

"""The public facts of a plan, with the tables of what it costs: its budget and its excess risk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_flag
from dpstats.call import Request
from dpstats.domain import Range
from dpstats.families import Family, NegativeBinomial
from dpstats.formula.design import DesignSpec
from dpstats.frames import NotedFrame, WideFrame
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.fit_statistics import FitStatisticsPlan
from dpstats.mechanisms.focus import FocusPlan
from dpstats.mechanisms.information import InformationPlan
from dpstats.mechanisms.screening import ScreeningPlan
from dpstats.mechanisms.stage import LatticeCosts, Stage, StagePlan
from dpstats.plan.methods import ResidualPurchase, ResponsePurchase, range_eps
from dpstats.plan.row_counts import RowCounts
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.noise import Noise
from dpstats.risk import Bound, OutputFacts, RiskBounds, objective_risk, output_risk, posterior_risk
from dpstats.risk.proved import posterior_bounds, region_bounds

Vector = NDArray[np.float64]


class ErrorForecast(Protocol):
    """Standard errors to be expected at numbers of rows."""

    def errors(self, n: int) -> pd.DataFrame:
        """Of `n` rows; see `Plan.standard_errors`."""

    def enough(self, n: int) -> bool:
        """Whether all coefficients are likely to have errors of `n` rows."""


class PlannedCall(Protocol):
    """The call that a dry run stands for: what a plan can do besides being looked at, each method given the plan."""

    @property
    def request(self) -> Request:
        """What was asked for."""

    @property
    def unread(self) -> frozenset[str]:
        """Columns that are declared and not read."""

    def fit(self, data: object, engine: str | None, **charge: Any) -> Any:
        """The result on private rows."""

    def simulate(self, plan: Any, n: int, seed: int, typical: object, like: object) -> Any:
        """The result on made-up rows."""

    def made_up(self, plan: Any, n: int, seed: int, typical: object, like: object) -> pd.DataFrame:
        """Made-up rows."""

    def forecast(self, plan: Any, residual_sd: float | None, typical: object, like: object) -> ErrorForecast:
        """What errors fits are likely to show."""

    def by_rows(self, plan: Any, n: object = None) -> pd.DataFrame:
        """What is spent on errors by the number of rows; None for a ladder of numbers."""

    def with_rows(self, plan: Any, n: int) -> Any:
        """What the plan becomes once so many rows are counted."""

    def at(self, eps: float) -> PlannedCall:
        """The same call at another budget."""

    def plan(self) -> Any:
        """Its plan."""


@dataclass(frozen=True, eq=False)
class PlanFacts:
    """What a plan has settled, all of it public: what tables and notes read."""

    request: Request
    design: PublicDesign
    formula: str | None
    bought: tuple[str, ...]
    stages: tuple[Stage, ...]
    guarantee: Guarantee
    response: ResponsePurchase | None = None
    completed: bool = False
    screening: ScreeningPlan | None = None
    fitstats: FitStatisticsPlan | None = None
    advice: tuple[str, ...] = ()
    call: PlannedCall | None = field(default=None, repr=False)
    trimmed: tuple[str, ...] = ()
    counts: RowCounts | None = None
    focus: FocusPlan | None = None
    residuals: ResidualPurchase | None = None

    @property
    def objective(self) -> StagePlan:
        """The release of the penalised fit itself."""
        return next(plan for role, plan in self.stages if role == "fit")

    @property
    def family(self) -> Family:
        """The loss of the coefficients, every cap filled in from the public range of the response.

        A choice of columns for a refit may have a narrower cap.
        """
        return self.stages[-1].plan.family

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return self.design.names

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Whether the fit has each column, shape (p,): all of them without screening."""
        if self.screening is None:
            return np.ones(len(self.names), dtype=bool)
        return np.isin(np.arange(len(self.names)), self.screening.kept)

    @property
    def counts_rows_used(self) -> bool:
        """Whether the rows that were counted are those used: no range that was bought afterwards leaves others out.

        A narrower one does. One that was open may drop rows too, or decide where the formula or its condition has no
        place: until it is bought a stand-in decides.
        """
        design = self.design
        if self.screening is not None and self.screening.narrowed:
            return False
        if not self.bought or not isinstance(design, DesignSpec):
            return True
        bought = {name: one for name in self.bought if isinstance(one := design.domain[name], Range)}
        if any(bought[name].inner is not None for name in self.trimmed):
            return False
        opened = bought.keys() - set(self.trimmed)
        drops = any(bought[name].drops for name in opened)
        return not (drops or opened & {*design.gap_columns, *design.parsed.subset_columns})

    @property
    def df_model(self) -> int:
        """Coefficients of the fit besides the intercept, or besides cut-points."""
        return int(self.kept.sum()) - self.constants

    @property
    def constants(self) -> int:
        """How many columns, the first ones, are an intercept or cut-points."""
        cut_points = len(self.design.cut_points) if isinstance(self.design, DesignSpec) else 0
        return max(cut_points, int(self.design.has_intercept))

    @property
    def curvature(self) -> Vector:
        """M, the diagonal of the quadratic term in model units, one a column of the fit."""
        return self.objective.curvature

    @property
    def noise(self) -> Noise | KNormNoise:
        """The law of the objective's linear term: cut to the design, or in the metric x * noise_shape."""
        return self.objective.noise

    @property
    def noise_shape(self) -> Vector:
        """Public column weights a: the objective's linear term is b / a."""
        return self.objective.noise_shape

    @property
    def linear(self) -> Vector:
        """The public linear term of the objective, shape (p,): -linear / curvature is what coefficients shrink to."""
        return self.objective.linear

    @property
    def noise_sd(self) -> pd.Series[float]:
        """Standard deviation of the linear term of each column, in model units; released noise is about it over n h.

        Of output perturbation that of the noise in the released coefficients.
        """
        names = [name for name, kept in zip(self.names, self.kept, strict=True) if kept]
        return pd.Series(np.sqrt(self.objective.noise_variances), index=names, name="noise_sd")

    @property
    def kappa(self) -> float:
        """sup x' M^-1 x."""
        return self.objective.kappa

    @property
    def eps(self) -> float:
        """The total epsilon."""
        return self.guarantee.eps

    @property
    def delta(self) -> float:
        """The total delta."""
        return self.guarantee.delta

    @property
    def adjacency(self) -> str:
        """Which data sets count as neighbours."""
        return self.guarantee.adjacency

    @property
    def radius(self) -> float:
        """The guess at the coefficients' norm behind the default curvature."""
        return self.objective.radius

    @property
    def budget(self) -> pd.DataFrame:
        """The purchases, one a row, and their total.

        Of a plan whose number of rows decides they are as before any is counted: of errors that cost nothing, if there
        are such, and without intervals of ranges; a printed plan has those of a line of its table.

        Returns
        -------
        DataFrame
            Columns: eps and delta as charged; planned, the eps set aside; need, the eps that noise of the classical
            scale really costs by the joint bound; retrieved, planned less need; and buys, in words.
        """
        return _budget_frame(self)

    def excess_risk(
        self, pi: float = 0.05, radius: float | None = None, n: int | None = None, *, printed: bool = False
    ) -> pd.DataFrame:
        """Proved bounds on what privacy costs in the objective.

        Parameters
        ----------
        pi, radius, n
            As for `dpstats.risk.objective_risk`.
        printed : bool
            All columns of `dpstats.risk.RiskBounds.frame`, and the bounds that papers print.

        Returns
        -------
        DataFrame
            Columns bound; value, on the sum of losses; per_row, value / n.
        """
        table = self.risk_bounds(pi, radius, n).frame()
        if check_flag("printed", printed):
            return table
        proved = table.loc[table["holds"] == "proved", ["bound", "value", "per_row"]]
        return WideFrame(proved.drop_duplicates("bound", ignore_index=True))

    def risk_bounds(self, pi: float = 0.05, radius: float | None = None, n: int | None = None) -> RiskBounds:
        """The bounds of `excess_risk`, to be looked up by what they bound."""
        return self.objective.risk(_RiskTables(self, pi, radius, n))


@dataclass(frozen=True)
class _RiskTables:
    """The bounds on the excess risk of a plan, of which its mechanism takes its own."""

    plan: PlanFacts
    pi: float
    radius: float | None
    n: int | None

    def of_objective(self) -> RiskBounds:
        return objective_risk(self.plan, self.pi, self.radius, self.n)

    def of_optimum(self, law: Noise) -> RiskBounds:
        fit = self.plan.objective
        facts = OutputFacts(fit.family, law, fit.curvature, fit.kappa, fit.penalty, fit.penalty_weights)
        return output_risk(self.plan, facts, self.pi, self.radius, self.n)

    def of_posterior(self, temperature: float) -> RiskBounds:
        def bounds(pi: float, radius: float, n: int | None) -> list[Bound]:
            curvature = self.plan.curvature
            return posterior_bounds(temperature, len(curvature), float(np.max(curvature)), pi, radius)

        return posterior_risk(self.plan, bounds, self.pi, self.radius, self.n)

    def of_lattice(self, temperature: float, points: int, costs: LatticeCosts) -> RiskBounds:
        def bounds(pi: float, radius: float, n: int | None) -> list[Bound]:
            return region_bounds(temperature, points, pi, rows=n, **costs._asdict())

        return posterior_risk(self.plan, bounds, self.pi, self.radius, self.n)

    def unproved(self) -> RiskBounds:
        return posterior_risk(self.plan, lambda *_: [], self.pi, self.radius, self.n)


BESIDE = "A row pays for the choice of columns or for their fit: the total has the dearer of the two alone."
COLUMNS = ["purchase", "eps", "delta", "planned", "need", "retrieved", "buys"]


def _budget_frame(plan: PlanFacts) -> pd.DataFrame:
    """The purchases, a row each, then their total."""
    rows: list[tuple[Any, ...]] = []
    if plan.counts is not None:
        cost = plan.request.options.record.each(plan.counts.eps)  # a row's part, like all below
        rows.append(("row counts", cost, 0.0, cost, cost, 0.0, f"{plan.counts.of}, rows at fault"))
    if plan.bought:
        cost = range_eps(plan.request, plan.bought)
        rows.append(("ranges", cost, 0.0, cost, cost, 0.0, ", ".join(plan.bought)))
    if plan.response is not None:
        cost = plan.response.eps
        counts = "count, mean, alpha" if isinstance(plan.family, NegativeBinomial) else "greatest count, mean"
        facts = counts if plan.family.response == "count" else "centre, spread"
        rows.append(("response", cost, 0.0, cost, cost, 0.0, facts))
    apart, residuals = plan.request.options.split is not None, list[tuple[Any, ...]]()
    if plan.residuals is not None:
        cost = plan.residuals.eps
        residuals.append(("residual spread", cost, 0.0, cost, cost, 0.0, "first fit, cap"))
    rows += [] if apart else residuals
    if plan.screening is not None:
        rows += _screening_rows(plan.screening)
        if (cost := plan.screening.range_eps) > 0:
            residuals.insert(0, (CHOSEN_RANGES, cost, 0.0, cost, cost, 0.0, "of chosen columns"))
    for role, stage in plan.stages:
        rows += residuals if apart and role == plan.stages[-1].role else []  # by the rows of the last fit
        retrieved = max(0.0, stage.planned_eps - stage.joint_need)
        need, final = stage.planned_eps - retrieved, stage.final.eps
        rows.append((role, stage.eps, stage.delta, stage.planned_eps, need, retrieved, stage.bought_law))
        if final > 0:
            rows.append((f"{role}: rounding", final, 0.0, final, final, 0.0, "discrete noise"))
        if stage.information is not None:
            rows += _information_rows(stage.information)
    if plan.fitstats is not None:
        cost = plan.fitstats.eps
        rows.append(("fit statistics", cost, 0.0, cost, cost, 0.0, "rows, fit, effects"))
    if plan.focus is not None:
        cost = plan.focus.eps
        rows.append(("focus", cost, 0.0, cost, cost, 0.0, "sums of two arms"))
    sums = [sum(row[column] for row in rows) for column in (4, 5)]
    if plan.request.options.split is not None:
        sums = [float("nan")] * 2  # parts of the rows pay side by side
    # A person may have several rows of weight 1, each of which costs what is planned for one.
    times = plan.request.options.record.rows
    rows = [(row[0], *(times * cell for cell in row[1:6]), row[6]) for row in rows]
    sums = [times * total for total in sums]
    planned = plan.request.eps
    if plan.guarantee.eps > planned * (1 + 1e-9):  # the fit is one of several, of which the rows chose
        rest, delta = plan.guarantee.eps - sum(row[1] for row in rows), plan.guarantee.delta - sum(r[2] for r in rows)
        rows.append(("choice, others", rest, delta, rest, rest, 0.0, "candidates and choice"))
        sums[0], planned = sums[0] + rest, plan.guarantee.eps
    rows.append(("total", plan.guarantee.eps, plan.guarantee.delta, planned, sums[0], sums[1], ""))
    frame = NotedFrame(pd.DataFrame(rows, columns=COLUMNS).set_index("purchase"))
    frame.attrs["note"] = BESIDE if apart else ""
    return frame


CHOSEN_RANGES = "narrower ranges"
"""The line of the budget for ranges that the rows of a fit of chosen columns buy."""


def _screening_rows(screening: ScreeningPlan) -> list[tuple[Any, ...]]:
    """The purchases of screening, as rows of the budget table."""
    choices = screening.eps - screening.null_eps
    terms = f"{screening.choices} of {screening.candidates} terms"
    rows: list[tuple[Any, ...]] = [("screening", choices, 0.0, choices, choices, 0.0, terms)]
    if screening.null is not None:
        cost = screening.null_eps
        rows.insert(0, ("null model", cost, 0.0, cost, cost, 0.0, "what to score against"))
    return rows


def _information_rows(plan: InformationPlan) -> list[tuple[Any, ...]]:
    """The purchases of inference, as rows of the budget table."""
    purpose = {
        "known": "",
        "dispersion": "dispersion",
        "robust": "robust variances",
        "clustered": "variances by persons",
    }[plan.purchase.spread]
    costs = {
        ("information", "standard errors"): plan.eps,
        ("info: rounding", "discrete noise"): plan.purchase.cover_eps,
        ("spread", purpose): plan.purchase.spread_eps + plan.purchase.weights_eps,
    }
    return [(name, cost, 0.0, cost, cost, 0.0, buys) for (name, buys), cost in costs.items() if buys]

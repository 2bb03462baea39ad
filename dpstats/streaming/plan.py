"""What a stream of regressions will release and what it costs: a function of formula, Domain and options alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.iolib.table import SimpleTable

from dpstats.arguments import is_number, is_whole
from dpstats.cached import cached_property
from dpstats.domain import Range
from dpstats.errors import ArgumentError
from dpstats.families import Family, NegativeBinomial, Poisson
from dpstats.families.poisson import CAP_SHARE
from dpstats.formula.design import DesignSpec
from dpstats.frames import WideFrame
from dpstats.penalties import Penalty
from dpstats.penalties import from_dict as penalty_from_dict
from dpstats.plan.tables import banner
from dpstats.plots import style
from dpstats.privacy.guarantee import Guarantee
from dpstats.proof_pages import cite_proof
from dpstats.streaming.constraints import Constraint
from dpstats.streaming.constraints import from_dict as constraint_from_dict
from dpstats.streaming.fit import TickFitting, predicted_excess
from dpstats.streaming.forecast import forecast_errors
from dpstats.streaming.sums import SumsPlan, plan_from_dict
from dpstats.streaming.sums.lattice import GaussianDraws
from dpstats.streaming.sums.workloads import Cumulative, Halflife, Window
from dpstats.streaming.vectors import RowVector
from dpstats.summaries import Summary, format_number, full_width, paired_facts, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SHOWN = 100_000
"""A number of ticks with more digits has no room in the header."""


def header(plan: StreamPlan, ticks: str, *, late: bool = False) -> SimpleTable:
    """Pairs of facts on the stream (left) and on the guarantee (right); `late`: of a regression without first ticks."""
    guarantee, mechanism = plan.guarantee, plan.sums.mechanism
    title = "\n".join([*banner(guarantee), f"Private Stream of Regressions: {plan.family.title}"])
    model_facts = [
        ("Dep. Variable:", shorten(plan.design.response_name, 20)),
        ("Mechanism:", plan.method),
        ("Link:", plan.family.link),
        ("Penalty:", "None" if plan.penalty is None else plan.penalty.name)
        if plan.constraint is None
        else ("Constraint:", shorten(plan.constraint.name, 20)),
        ("Df Model:", str(plan.df_model)),
        ("Sums:", mechanism.name),
        ("Horizon:", f"{mechanism.workload.ticks:,} ticks")
        if late and isinstance(mechanism.workload, Cumulative)
        else ("Each tick:", shorten(plan.workload, 20)),
    ]
    unit, often = "one row", len(mechanism.participation)
    if guarantee.unit is not None:
        unit = f"{shorten(guarantee.unit, 14)}, " + ("one row" if often == 1 else f"{often} ticks")
    guarantee_facts = [
        ("Adjacency:", guarantee.adjacency),
        ("Unit:", unit),
        ("Epsilon:", f"{guarantee.eps:.6g}"),
        ("Delta:", f"{guarantee.delta:.6g}"),
        ("Certified:", "yes" if guarantee.certified else "NO"),
        ("Proof:", cite_proof(guarantee.basis) if guarantee.certified else "none"),
        ("Ticks:", ticks),
    ]
    return paired_facts(title, model_facts, guarantee_facts)


Float = NDArray[np.float64]

# Ticks that a plan shows, up to its horizon
TICKS_SHOWN = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000)
# The last tick that a plan shows of a stream that runs for ever, or whose horizon was not declared
LAST_TICK_SHOWN = 1000


@dataclass(frozen=True, eq=False)
class StreamPlan:
    """The plan of a stream of regressions, fixed before any row is read.

    Attributes
    ----------
    design : DesignSpec
    vector : RowVector
        The contribution of a row to its tick.
    sums : SumsPlan
        The noise of their sums.
    radius : float
        Public guess at the norm of the coefficients in the metric of the rows.
    penalty : Penalty or None
    constraint : Constraint or None
    solver : {"accelerated", "paper"}
    rows_guess : float
        Public guess at the rows of a tick, for predictions; no guarantee and no release depends on it.
    guarantee : Guarantee
        Of everything that the stream ever shows, spent once.

    Examples
    --------
    >>> import dpstats as dp
    >>> plan = dp.streaming.Regression("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1, 1e-6, horizon=12).plan()
    >>> plan.names, plan.formula, plan.family.name, plan.horizon
    (('Intercept', 'x'), 'y ~ x', 'gaussian', 12)
    >>> plan.weighed(12) > plan.weighed(1), plan.deviation(12) > 0, plan.interval_deviation(4, 8) > 0
    (True, True, True)
    >>> len(plan.digest()), "formula" in plan.digests(), plan.notes() != []
    (64, True, True)
    >>> again = dp.streaming.StreamPlan.from_dict(plan.to_dict())
    >>> again.digest() == plan.digest(), plan.on_noise_of(again.sums).sums == plan.sums
    (True, True)
    >>> plan.ticks([1, 6, 12]).shape[0], "gaussian" in plan.summary().as_text()
    (3, True)
    >>> axes = plan.plot()  # with the extra "plots"
    """

    design: DesignSpec
    vector: RowVector
    sums: SumsPlan
    radius: float
    penalty: Penalty | None
    constraint: Constraint | None
    solver: str
    rows_guess: float
    guarantee: Guarantee

    @property
    def family(self) -> Family:
        """The loss, every cap filled in."""
        return self.vector.family

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return self.design.names

    @property
    def formula(self) -> str:
        """Of the model."""
        return self.design.formula

    @property
    def method(self) -> str:
        """The mechanism: "linear" or "renewable"."""
        return self.vector.method

    @property
    def df_model(self) -> int:
        """Coefficients besides the intercept."""
        return len(self.names) - int(self.design.has_intercept)

    @property
    def horizon(self) -> int | None:
        """The last tick; None of a stream that runs for ever."""
        return self.sums.mechanism.horizon

    @property
    def workload(self) -> str:
        """In words: what each tick's regression is of."""
        workload = self.sums.mechanism.workload
        if isinstance(workload, Halflife):
            return f"half-life {workload.halflife:g} ticks"
        if isinstance(workload, Window):
            return f"the last {workload.window:,} ticks"
        known = workload.ticks < MOST_SHOWN  # more are declared where no horizon is
        return f"all so far, of {workload.ticks}" if known else "all so far"

    @cached_property
    def fitting(self) -> TickFitting:
        """How coefficients follow from released sums."""
        return TickFitting(**{field.name: getattr(self, field.name) for field in fields(TickFitting)})

    @property
    def may_start_late(self) -> bool:
        """Whether the first ticks may be left out; streams that forget do so by themselves."""
        return self.method == "renewable" and isinstance(self.sums.mechanism.workload, Cumulative)

    @property
    def normal(self) -> bool:
        """Whether the noise is normal, as errors take it to be."""
        return isinstance(self.sums.draws, GaussianDraws)

    @property
    def without_errors(self) -> str | None:
        """Why no regression of this stream has errors, where none can have them."""
        name = self.family.name
        if not self.normal:
            return "they need normal noise; pass delta=, such as delta=1e-9, when you create the stream"
        if self.penalty is not None and self.penalty.sparse:
            return "errors are not valid after a selection by the same sums; leave the penalty out"
        if self.design.score_ratio is None:
            return "weights do not determine the variance of the response, and the stream has no sum of squared scores"
        needs_square = self.method == "linear" or self.family.response == "count"
        if needs_square and self.vector.square == 0:
            return "errors need an intercept: it gives the dispersion its denominator"
        if not needs_square and name not in ("binomial", "binomial_counts"):
            return f"the sums do not hold the dispersion of family {name!r}"
        return None

    @property
    def without_typical(self) -> list[str]:
        """Columns of numbers, the response aside, whose typical values the Domain does not tell."""
        domain, responses = self.design.domain, self.design.parsed.response_columns
        declarations = {name: domain.get(name) for name in self.design.columns if name not in responses}
        return [
            name
            for name, declared in declarations.items()
            if isinstance(declared, Range) and declared.typical is None and not declared.is_binary
        ]

    def deviation(self, tick: int) -> float:
        """Standard deviation of the noise of a released number at `tick`."""
        return float(self.sums.noise_sd(tick)[0])

    def interval_deviation(self, a: int, b: int) -> float:
        """The same of the sums of the ticks a + 1, ..., b."""
        return float(np.sqrt(self.sums.covariance([(a, b)])[0, 0]))

    def ticks(self, ticks: Sequence[int] | None = None) -> pd.DataFrame:
        """Noise and predicted excess, with one row per tick: of `ticks`, or of a few up to the horizon.

        Returns
        -------
        DataFrame
            Indexed by tick. noise_sd: of an entry of the sum of x y (of g x), with rows x scaled to a norm of at most 1
            and y to [-1, 1]. rows: the guessed number of rows in the regression of the tick. excess: the predicted
            increase of the sum of losses due to noise. per_row: excess divided by rows. null: the increase due to the
            null model at coefficients of norm `radius`.

        Raises
        ------
        ArgumentError
            If a tick lies outside the horizon.
        """
        if ticks is None:
            last = self.horizon or LAST_TICK_SHOWN
            ticks = sorted({tick for tick in TICKS_SHOWN if tick < last} | {last})
        listed = isinstance(ticks, Iterable) and not isinstance(ticks, (str, bytes))
        if not (listed and all(map(is_whole, ticks))):
            raise ArgumentError("ticks must be a list of integers: the ticks to predict")
        # w of a row at a linear predictor of 0.
        typical = 1.0 if self.method == "linear" else float(self.family.weight(np.zeros(1), np.zeros(1))[0])
        rows = []
        for tick in ticks:
            deviation, weighed = self.deviation(int(tick)), self.rows_guess * self.weighed(int(tick))
            excess = predicted_excess(len(self.names), typical, deviation, self.vector, self.radius, weighed)
            null = weighed * typical * self.radius**2 / len(self.names) / 2
            rows.append((deviation / self.vector.cross, weighed, excess, excess / weighed, null))
        columns = ["noise_sd", "rows", "excess", "per_row", "null"]
        return WideFrame(rows, index=pd.Index([int(tick) for tick in ticks], name="tick"), columns=columns)

    def standard_errors(
        self,
        rows: float,
        *,
        tick: int | None = None,
        window: int | None = None,
        residual_sd: float | None = None,
        typical: Mapping[str, Any] | None = None,
        like: Any = None,
    ) -> pd.DataFrame:
        """Standard errors that a regression of the stream is likely to show: a forecast, for which nothing is read.

        Parameters
        ----------
        rows : float
            Of a tick.
        tick : int, optional
            At which the regression is released, by default the horizon.
        window : int, optional
            Of the last `window` ticks alone, as of ``stream.window``.
        residual_sd, typical, like
            What is known of rows, as for `Plan.standard_errors`.

        Returns
        -------
        DataFrame
            As of `Plan.standard_errors`, in the user's units. The rows of all ticks are supposed to be linearised at
            their own coefficients: first ticks that a logistic regression or one of counts leaves out are not. With
            public rows that have a 0/1 response the first ticks are made up as well, except for a `window`. Of counts
            `identified` and `identified_upper` are NaN: a stream has no standard errors if its ticks were linearised
            too far off, which is rarer with ``dp.families.Poisson(mean_cap=...)`` near the largest usual mean.

        Raises
        ------
        ArgumentError
            If no regression of the stream has errors, or for an argument that is not usable.

        Examples
        --------
        >>> domain = {"x": (0, 1), "y": [0, 1]}
        >>> stream = dp.streaming.Regression("y ~ x", domain, 1, 1e-6, family="binomial", horizon=12)
        >>> forecast = stream.plan().standard_errors(3000)
        >>> (forecast.std_error < stream.plan().standard_errors(3000, window=3).std_error).all().item()
        True
        """
        if self.without_errors is not None:
            raise ArgumentError(f"plan: no regression of this stream has standard errors: {self.without_errors}")
        if self.design.score_ratio != 1.0:
            raise ArgumentError("plan: standard errors are forecast for responses that are not counts of trials")
        if not is_number(rows) or not 1 <= rows <= 1e12:
            raise ArgumentError("rows must be a number from 1 to 1e+12: the rows of a tick")
        last = (self.horizon or LAST_TICK_SHOWN) if tick is None else tick
        self.deviation(last)  # refuses what is no tick
        if window is not None and (not is_whole(window) or not 1 <= window <= last):
            raise ArgumentError(f"window must be a number of ticks from 1 to {last}")
        return forecast_errors(self, rows, last, window, residual_sd, typical, like)

    def weighed(self, tick: int) -> float:
        """Ticks that a release is of, older ones by their weight."""
        workload = self.sums.mechanism.workload
        if isinstance(workload, Halflife):
            return (1 - workload.decay**tick) / (1 - workload.decay)
        return float(min(tick, workload.window) if isinstance(workload, Window) else tick)

    def summary(self) -> Summary:
        """The public tables of the plan, in statsmodels' look; as_text, as_html and as_latex."""
        return Summary([header(self, "none read"), ticks_table(self.ticks())], self.notes())

    def plot(self, *, caption: bool = True, ax: Axes | None = None) -> Axes:
        """Draw the predicted excess per row by tick, with that of the null model.

        Parameters
        ----------
        caption : bool
            Write below the picture what it shows and what is protected.
        ax : Axes, optional
            To draw on; by default those of a new figure.

        Raises
        ------
        ArgumentError
            If matplotlib is not installed.
        """
        ax, table = style.new_axes(ax), self.ticks()
        ticks = table.index.to_numpy()
        ax.plot(ticks, table.per_row, "o-", color=style.BLUE, markersize=4, linewidth=1.6, label="noise of privacy")
        ax.plot(ticks, table.null / table.rows, color=style.GREY, linewidth=1.2, linestyle="--", label="null model")
        ax.set_xscale("log")
        ax.set_yscale("log")
        guess = (
            f"Predicted for {self.rows_guess:,.0f} rows a tick and coefficients of norm {self.radius:g} in model units."
        )
        title, labels = f"{self.family.title}: {self.workload}", ("tick", "predicted excess per row")
        protected = promise(self, "all ticks together")
        return style.finish(ax, title, guess, protected, labels=labels, legend="above", caption=caption)

    def notes(self) -> list[str]:
        """What the reader must know, in plain words."""
        verb = "replacing" if self.guarantee.adjacency == "replace_one" else "adding or removing"
        unit, rows = self.guarantee.unit, neighbouring_rows(self.guarantee, self.sums.mechanism.participation)
        notes = [
            f"One charge covers everything that the stream ever shows: {verb} one {unit or 'row'} {rows}. Ticks "
            "are public. The rows of a tick are private, and so is their number unless ticks are counted in rows.",
        ]
        if unit is not None:
            notes.append(
                f"The stream cannot check this: the caller must ensure that no {unit} has more rows. For one that "
                "has, the guarantee is weaker."
            )
        if self.design.weights is not None:
            notes.append(
                f"Rows count by their weight divided by {self.design.weights.high:g}, the greatest weight declared."
            )
        if self.horizon is None:
            notes.append("The noise does not grow: the stream may run for ever.")
        if self.method == "renewable":
            strong = "" if isinstance(self.family, Poisson | NegativeBinomial) else " (probabilities near 0 or 1)"
            notes.append(
                "The rows of a tick are linearised at the coefficients released before it. With a strong "
                f"signal{strong} this is inaccurate for the first ticks. Up to half of the ticks are left out if the "
                "released coefficients show this; between(a, b) leaves out more at no charge."
            )
        notes.append(
            f"Predictions are for {self.rows_guess:,.0f} rows a tick (rows_guess) and coefficients of norm "
            f"{self.radius:g} in the metric of the rows (radius)."
        )
        if isinstance(self.family, Poisson) and self.family.mean_cap == CAP_SHARE * (self.family.y_max or 0.0):
            notes.append(
                f"Means have a log link up to {self.family.mean_cap:.4g}, two thirds of the greatest count. The noise "
                "grows with this cap: if no mean is so great, declare a smaller one by Poisson(mean_cap=...)."
            )
        if self.without_errors is not None:
            notes.append(f"No regression of this stream will have standard errors: {self.without_errors}.")
        return [*notes, *(f"{note}." for note in self.design.notes)]

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        return f"<StreamPlan: {self.description}>"

    @property
    def description(self) -> str:
        """Model and guarantee in a line."""
        return f"{self.family.name}, {self.formula}, {self.workload}; {self.guarantee}"

    @property
    def title(self) -> str:
        """A line that names the release, for the ledger."""
        name = shorten(self.design.response_name, 40)
        return f"stream of {self.family.name} regressions of {name} on {len(self.names)} columns"

    def on_noise_of(self, stored: SumsPlan) -> StreamPlan:
        """The plan with the noise of a stream that was begun on another machine; itself if that is no such noise."""
        if not self.sums.repeats(stored):
            return self
        return replace(self, sums=stored, guarantee=replace(self.guarantee, rho=stored.guarantee.rho))

    def digests(self) -> dict[str, str]:
        """Hashes of the public facts that the stream is bound to, by the argument that they come from."""
        facts = self.to_dict()
        model = [facts[name] for name in ("vector", "radius", "penalty", "constraint", "solver")]
        parts = {
            "formula": facts["design"]["formula"],
            "domain": facts["design"]["domain"],
            "horizon, halflife, window, participation or sums": facts["sums"]["mechanism"],
            "eps, delta or adjacency": facts["guarantee"],
            "family, mechanism, radius, penalty, constraint or solver": model,
        }
        return {name: facts_digest(value) for name, value in parts.items()}

    def digest(self) -> str:
        """A hash of them all."""
        return facts_digest(self.digests())

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: fact.to_dict() if hasattr(fact, "to_dict") else fact for name, fact in facts.items()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The plan whose `to_dict` gave `stored`."""
        return cls(**{**stored, **{name: made(stored[name]) for name, made in cls._FACTS.items()}})

    _FACTS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "design": DesignSpec.from_dict,
        "vector": RowVector.from_dict,
        "sums": plan_from_dict,
        "penalty": lambda penalty: None if penalty is None else penalty_from_dict(penalty),
        "constraint": lambda constraint: None if constraint is None else constraint_from_dict(constraint),
        "guarantee": lambda guarantee: Guarantee(**guarantee),
    }
    """What makes a field of its stored form, where that is not the field itself."""


def ticks_table(frame: pd.DataFrame) -> SimpleTable:
    """Noise and predicted excess by tick."""
    rows = zip(frame.index, frame.to_numpy(), strict=True)
    lines = [
        (f"{tick:,}", [f"{value:,.0f}" if value >= 1000 else format_number(float(value)) for value in row])
        for tick, row in rows
    ]
    headers = ["noise sd", "rows guessed", "excess", "per row", "null model"]
    return full_width(headers, lines, [12, 14, 12, 12, 12], title="Noise by tick, and the excess it is likely to cost")


def facts_digest(facts: Any) -> str:
    """A hash of plain public values."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def neighbouring_rows(guarantee: Guarantee, participation: Sequence[int]) -> str:
    """The rows by which neighbours differ, in words."""
    if guarantee.unit is None:
        return "in its tick"
    often = "in all" if len(participation) == 1 else f"in each of {len(participation)} ticks (offsets as declared)"
    return f"with at most one row {often}"


def promise(plan: StreamPlan, what: str) -> str:
    """The guarantee of a picture's numbers, in words for its caption."""
    count = len(plan.sums.mechanism.participation)
    words = style.promise(plan.guarantee, what)
    unit = plan.guarantee.unit if count > 1 else None
    return words if unit is None else words.replace(f"any one {unit}", f"any one {unit} with a row in {count} ticks")

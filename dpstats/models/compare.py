"""Which method? Plans of several, and what each is likely to cost, without rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats import plots
from dpstats.arguments import explain_calls, safe_repr
from dpstats.call import METHODS, DomainLike, Request, RequestKeywords, expand_signature, make_request
from dpstats.errors import ArgumentError, UncertifiedError
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.formula.submodels import uniform_exog
from dpstats.frames import WideFrame
from dpstats.mechanisms.calibration import typical_sizes
from dpstats.mechanisms.options import ROWS_GUESS
from dpstats.models.sources import FormulaSource
from dpstats.plan import Plan, make_plan
from dpstats.quiet import hide_frames
from dpstats.results.stored import Printed
from dpstats.summaries import Summary, format_number, full_width
from dpstats.wording import argument

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTES = (
    "No row was read and nothing spent: a comparison is a function of formula, Domain and options.",
    "'excess' predicts how much privacy adds to the mean loss of the rows, for typical coefficients and rows "
    "drawn uniformly from the Domain. Real rows are less uniform, so the order of the methods matters more than "
    "the figures. 'at most' is a proved bound on its mean over the noise, for any rows.",
    "'noise' is the predicted standard deviation of a coefficient's noise: the root mean square over the "
    "coefficients, in model units.",
)


@dataclass(frozen=True, eq=False)
class Comparison(Printed):
    """Methods side by side; `dpstats.compare` makes it.

    Attributes
    ----------
    formula : str
    n : int
        The guess at the number of rows that `table` is for.
    table : DataFrame
        One method a row, the least predicted excess first. Columns: law, of the noise; noise; excess and at_most, by
        row; eps and delta as they would be charged; certified.
    curves : DataFrame
        Columns method, n, noise, excess, at_most: the same at other numbers of rows.
    left_out : dict
        Methods that do not suit the model, and why.
    description : str
        Family, budget and neighbours in a line.
    counted : str
        What `n` is the number of.

    Examples
    --------
    >>> import dpstats as dp
    >>> comparison = dp.compare("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, n=5000)
    >>> {"method", "n", "excess"} <= set(comparison.curves.columns)
    True
    """

    formula: str
    n: int
    table: pd.DataFrame
    curves: pd.DataFrame
    left_out: Mapping[str, str]
    description: str
    counted: str = "rows"

    @property
    def best(self) -> str:
        """The method of the least predicted excess at `n`."""
        return str(self.table.index[0])

    def summary(self) -> Summary:
        """The table, in statsmodels' look; as_text, as_html and as_latex.

        Examples
        --------
        >>> comparison.best in comparison.summary().as_text()
        True
        >>> "tabular" in comparison.to_latex(), "<td" in comparison.to_html(), "---:|" in comparison.to_markdown()
        (True, True, True)
        """
        names = ("noise", "excess", "at_most", "delta")
        rows = [
            (method, [row["law"], *(format_number(row[name]) for name in names)])
            for method, row in self.table.iterrows()
        ]
        headers = ["law", "noise", "excess", "at most", "delta"]
        title = f"Methods for {self.formula}, {self.n:,} {self.counted}\n{self.description}"
        others = [f"{method} is NOT certified here." for method in self.table.index[~self.table["certified"]]]
        others += [f"{method} is left out: {reason}." for method, reason in self.left_out.items()]
        return Summary([full_width(headers, rows, [17, 10, 10, 10, 11], title=title)], [*NOTES, *others])

    def plot(self, **arguments: Any) -> Axes:
        """The predicted excess of each method against the number of rows; see `dpstats.plots.methods`.

        Examples
        --------
        >>> comparison.plot().get_xscale()  # with the extra "plots"
        'log'
        """
        return plots.methods(self, **arguments)

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(map(str, self.table.index))}: {self.formula}, best {self.best}>"


Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

COEFFICIENTS = 64
"""Draws of typical coefficients that a prediction is the mean over."""

SEED = 20231
"""Of what is made up; public, like all that a prediction rests on."""


@dataclass(frozen=True)
class Prediction:
    """What a release is likely to cost at some number of rows."""

    noise: float  # root mean square of the coefficients' noise sd, in model units
    excess: float  # mean over the noise of what privacy adds to the mean loss


@dataclass(frozen=True, eq=False)
class UniformPopulations:
    """Populations of rows made up from public facts."""

    coefficients: Matrix  # counted from what the quadratic term shrinks to, in model units, shape (k, p)
    information: Matrix  # the mean of l'' x x' at each of them, shape (k, p, p)

    def mean(self, costs: Callable[[Matrix, Vector], tuple[Matrix, Matrix]], rows: float) -> Prediction:
        """The mean over the populations of `costs`.

        From the Hessian of all rows and the coefficients they give the covariance of the noise in the release and the
        mean square of its bias, each of shape (p, p).
        """
        risks = []
        for information, coefficients in zip(self.information, self.coefficients, strict=True):
            hessian = rows * information
            noise, bias = costs(hessian, coefficients)
            risks.append((np.trace(noise) / len(noise), np.sum(hessian * (noise + bias)) / (2 * rows)))
        square, excess = np.mean(risks, axis=0)
        return Prediction(float(np.sqrt(square)), float(excess))


def uniform_populations(family: Family, exog: Matrix, sizes: Vector, center: Vector) -> UniformPopulations:
    """Rows (n, p) in model units beside coefficients drawn at random with typical sizes (p,), counted from `center`.

    Responses are the mean that the coefficients predict: a response's own scatter is not public.
    """
    coefficients = sizes * np.random.default_rng(SEED).normal(size=(COEFFICIENTS, len(sizes)))
    information = np.empty((COEFFICIENTS, exog.shape[1], exog.shape[1]))
    for at, drawn in enumerate(coefficients):
        eta = exog @ (center + drawn)
        endog = family.clip_response(np.asarray(family.mean(eta), dtype=np.float64))
        weights = family.derivatives(eta, endog).curvature
        information[at] = (exog * weights[:, None]).T @ exog / len(exog)
    return UniformPopulations(coefficients, information)


COMPARED = ("objective", "output", "statistics", "posterior")
"""What is compared unless a choice is made."""

FACTORS = 4.0 ** np.arange(-3, 4)
"""The numbers of rows of a picture, in units of the guess."""


@dataclass(frozen=True, eq=False)
class _Model:
    """What all methods share: request and plan of the first of them, and populations to predict on."""

    request: Request
    plan: Plan
    made_up: UniformPopulations

    def planned(self, method: str, n: int) -> Plan:
        """The plan of another method, or for another guess at the number of rows."""
        options = replace(self.request.options, rows_guess=float(n))
        request = replace(self.request, method=method, options=options)
        plan = self.plan
        return make_plan(
            request,
            plan.design,
            plan.family,
            formula=plan.formula,
            bought=plan.bought,
            trimmed=plan.trimmed,
            response=plan.response,
        )


@hide_frames
@explain_calls(method="pass methods=[...], or leave it out for all methods that suit the model")
@expand_signature(RequestKeywords, without=("method", "allow_uncertified", "seed"))
def compare(  # type: ignore[misc]  # n is an option too: the same public guess
    formula: str,
    domain: DomainLike,
    eps: float,
    *,
    n: int = ROWS_GUESS,
    methods: Sequence[str] | None = None,
    family: str | Family = "gaussian",
    **arguments: Unpack[RequestKeywords],
) -> Comparison:
    """What each method would cost for this model and budget; reads no data and spends nothing.

    Parameters
    ----------
    formula : str
    domain : Domain or dict
        Public ranges and levels, as for `plan`.
    eps, delta : float
        The budget of one fit.
    n : int
        A guess at the number of rows; with a unit whose rows share a weight, of persons.
    methods : sequence of str, optional
        Among "objective" (and "napp", the same noise), "output", "statistics" and "posterior"; by default all that suit
        the model.
    family : str or Family
    penalty, alpha : str or Penalty, float
        As for `plan`; predictions count a penalty's curvature only.
    adjacency : {"add_remove", "replace_one"}
    **options
        As for `plan`.

    Returns
    -------
    Comparison
        ``table``, ``best``, ``plot()`` against the number of rows, ``summary()``.

    Raises
    ------
    ArgumentError, FormulaError, DomainError
        As for `plan`; ArgumentError also for a method that is unknown, or named and not suited to the model.

    See Also
    --------
    plan : the plan of one method, with all its tables.

    Examples
    --------
    >>> import dpstats as dp
    >>> comparison = dp.compare("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, n=5000)
    >>> "napp" in comparison.table.index or "objective" in comparison.table.index
    True
    """
    count = _checked_rows(n)
    chosen = _checked_methods(methods)
    request = make_request(eps=eps, family=family, **arguments)
    model = _model(FormulaSource(formula, None, domain).plan(request), request)
    curves, left_out = _curves(model, chosen, count, named=methods is not None)
    table = curves[curves["n"] == count].drop_duplicates("method").set_index("method").sort_values("excess")
    record = request.options.record
    return Comparison(
        formula=formula,
        n=count,
        table=WideFrame(table[["law", "noise", "excess", "at_most", "eps", "delta", "certified"]]),
        curves=WideFrame(curves[["method", "n", "noise", "excess", "at_most"]]),
        left_out=left_out,
        counted=f"persons ({record.column})" if record.column is not None and record.shared else "rows",
        description=_description(model),
    )


def _model(plan: Plan, request: Request) -> _Model:
    """The plan of the first method and populations to predict on; ArgumentError if no row can be drawn."""
    assert isinstance(plan.design, DesignSpec)
    exog = uniform_exog(plan.design)
    sizes = typical_sizes(plan.family, plan.design, request.options.radius)
    center = -plan.objective.linear / plan.objective.curvature
    if len(exog) == 0:
        raise ArgumentError("formula has no finite value at any row drawn from the domain")
    return _Model(request, plan, uniform_populations(plan.family, exog, sizes, center))


def _curves(model: _Model, methods: Sequence[str], n: int, *, named: bool) -> tuple[pd.DataFrame, dict[str, str]]:
    """Each method at several numbers of rows, and why methods are left out; one that was named raises instead."""
    rows: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for method in methods:
        try:
            if method in ("posterior", "statistics") and model.request.options.unit is not None:
                raise ArgumentError(f"{argument('method', method)} is proved for rows only and takes no unit")
            rows += [_line(model, method, max(1, round(n * factor))) for factor in FACTORS]
        except (ArgumentError, UncertifiedError) as error:
            if named:
                raise
            left_out[method] = str(error)
    return pd.DataFrame(rows), left_out


def _description(model: _Model) -> str:
    """Family, budget and notion of neighbours, in words."""
    request = model.request
    one = "a row" if request.options.unit is None else f"one {request.options.unit} with all its rows"
    neighbours = f"{one} {'added or removed' if request.adjacency == 'add_remove' else 'replaced'}"
    spent = f"eps = {request.eps:g}" + (f", delta = {request.delta:g}" if request.delta else "")
    return f"{model.plan.family.name}, {spent}, neighbours by {neighbours}"


def _checked_rows(n: Any) -> int:
    """`n` as an int; ArgumentError unless it is a positive whole number."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 1 <= n <= 10**12:
        raise ArgumentError(f"n must be a positive whole number, a guess at the number of rows, got {safe_repr(n)}")
    return int(n)


def _checked_methods(methods: Sequence[str] | None) -> tuple[str, ...]:
    """The methods to compare; ArgumentError for a name that is none."""
    if methods is None:
        return COMPARED
    known = tuple(dict.fromkeys((*METHODS[1:], *COMPARED)))
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not methods:
        raise ArgumentError(f"methods must be a list of names among {list(known)}")
    unknown = [method for method in methods if not isinstance(method, str) or method not in known]
    if unknown:
        raise ArgumentError(f"methods must be among {list(known)}, got {safe_repr(unknown)}")
    return tuple(dict.fromkeys(methods))


def _line(model: _Model, method: str, n: int) -> dict[str, Any]:
    """One method at one number of rows."""
    plan = model.planned(method, n)
    stage = plan.stages[-1].plan
    prediction = model.made_up.mean(stage.predicted_error, n)
    bound = plan.risk_bounds(n=n).value("unregularised", "mean") / n
    law = stage.law_name
    guarantee = plan.guarantee
    return _facts(method, n, prediction, law, bound) | {
        "eps": guarantee.eps,
        "delta": guarantee.delta,
        "certified": guarantee.certified,
    }


def _facts(method: str, n: int, prediction: Prediction, law: str, bound: float) -> dict[str, Any]:
    return {
        "method": method,
        "n": n,
        "law": law,
        "noise": prediction.noise,
        "excess": prediction.excess,
        "at_most": bound,
    }

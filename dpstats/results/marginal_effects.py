"""Average marginal effects: what the mean response gains by a unit of a column, or by a change of a level
(docs/proofs/fit_statistics, 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_choice, check_flag
from dpstats.errors import NotReleasedError
from dpstats.families import Family
from dpstats.formula.design import DesignSpec
from dpstats.frames import EffectFrame, WideFrame
from dpstats.inference.estimates import check_level
from dpstats.mechanisms.design import divided_variables, formula_variables
from dpstats.plan import Plan
from dpstats.plan.methods import no_averages
from dpstats.results.contrasts import inference_table
from dpstats.results.fit_statistics import Effect, FitStatistics, HalfWidth, contrast_width, derivative
from dpstats.results.standard_errors import ReleasedErrors
from dpstats.results.stored import Printed
from dpstats.summaries import Summary
from dpstats.wording import argument, joined

Vector = NDArray[np.float64]
At = Literal["overall", "mean", "zero"]

NOT_BOUGHT = (
    "get_margeff(at='overall') needs averages over the rows, and this fit bought no fit statistics: fitstats=0.05 "
    "buys them; at='zero' needs none"
)
NOT_OFFERED = (
    "get_margeff(at='overall') needs averages over the rows, which are not offered {rows}; at='zero' needs none, and "
    "comparisons(newdata=...) has effects at public values"
)
NO_MEANS = (
    "get_margeff(at='mean') needs the means of the columns, which no fit of this family releases; {instead} "
    "fit.comparisons(newdata={{{columns}}}) has effects at public typical values, at no charge"
)


class FittedColumns(NamedTuple):
    """The k columns that were fitted last, with their errors."""

    plan: Plan
    errors: ReleasedErrors
    columns: NDArray[np.intp]  # positions in the design

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [self.plan.names[column] for column in self.columns]

    @property
    def rows(self) -> Vector:
        """Their coefficients in the user's units by those in model units, shape (k, k)."""
        return self.plan.design.back_transform()[0][np.ix_(self.columns, self.columns)]


@dataclass(frozen=True, eq=False)
class MarginalEffects(Printed):
    """Marginal effects with their errors, under statsmodels' names.

    Attributes
    ----------
    names : tuple of str
    margeff, margeff_se, tvalues, pvalues : ndarray, shape (k,)
        Effects in units of the response per unit of the column, or for a change of a factor from its reference level.
        Error, z, p-value and interval are those of the effect, not of its coefficient: p is the least alpha whose
        interval is without zero.
    ratios : DataFrame
        For changes of levels, with ``dummy=True``: the mean response if all rows had the level, divided by the mean
        response if all rows had the reference level; columns ratio, low and high.
    at : str
    alpha : float
        One minus the coverage of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 1, 20_000)
    >>> rows = {"x": x, "y": rng.uniform(0, 1, 20_000) < 0.2 + 0.5 * x}
    >>> fit = dp.logit("y ~ x", rows, 2.0, domain={"x": (0, 1), "y": (0, 1)}, seed=1)
    >>> effects = fit.get_margeff()
    >>> effects.summary_frame().columns.tolist()
    ['dy/dx', 'Std. Err.', 'z', 'Pr(>|z|)', 'Conf. Int. Low', 'Conf. Int. Hi.']
    >>> bool(abs(effects.margeff[0] - 0.5) < 4 * effects.margeff_se[0])
    True
    >>> effects.conf_int(alpha=0.1).shape
    (1, 2)
    >>> "dy/dx" in effects.summary().as_text()
    True
    """

    names: tuple[str, ...]
    margeff: Vector
    margeff_se: Vector
    tvalues: Vector
    pvalues: Vector
    ratios: pd.DataFrame
    at: str
    alpha: float
    half_widths: tuple[HalfWidth, ...]
    divided: tuple[str, ...] = ()  # variables that move several columns, of which no line is the effect

    def __repr__(self) -> str:
        return f"<MarginalEffects, {self.at}: {', '.join(self.names)}>"

    def conf_int(self, alpha: float | None = None) -> Vector:
        """Intervals of coverage 1 - alpha, shape (k, 2); by default as they were asked for."""
        level = check_level(self.alpha if alpha is None else alpha)
        half = np.array([width(level) for width in self.half_widths])
        return np.column_stack((self.margeff - half, self.margeff + half))

    def summary_frame(self, alpha: float | None = None) -> pd.DataFrame:
        """One row an effect; columns as statsmodels names them."""
        columns = ["dy/dx", "Std. Err.", "z", "Pr(>|z|)", "Conf. Int. Low", "Conf. Int. Hi."]
        values = np.column_stack((self.margeff, self.margeff_se, self.tvalues, self.pvalues, self.conf_int(alpha)))
        return EffectFrame(values, index=list(self.names), columns=columns)

    def summary(self) -> Summary:
        """The same as a table at 80 columns."""
        notes = []
        if unknown := [name for name, error in zip(self.names, self.margeff_se, strict=True) if math.isinf(error)]:
            notes.append(f"Not identified at this budget: {', '.join(unknown)}.")
        if self.divided:
            notes.append(
                "A line holds all other columns fixed, so no line is the effect of a variable with several columns "
                f"({', '.join(self.divided)}); fit.comparisons(..., newdata=...) has it at public rows, at no charge."
            )
        title = f"Marginal effects (dy/dx), {'at zero' if self.at == 'zero' else self.at}"
        heads = {"estimate": "dy/dx", "test": "est/se"}
        return Summary([inference_table(self.summary_frame(), self.alpha, title=title, **heads)], notes)


def marginal_effects(
    model: FittedColumns, statistics: FitStatistics | None, at: At, dummy: bool, alpha: float
) -> MarginalEffects:
    """The effects of all columns but the intercept; NotReleasedError where they do not follow from what was bought."""
    plan = model.plan
    check_choice("at", at, ("overall", "mean", "zero"))
    check_flag("dummy", dummy)
    check_level(alpha)
    family = plan.family
    if family.link == "none" or family.name.endswith("svm"):
        raise NotReleasedError("get_margeff: a support vector machine has no mean response")
    if family.link == "identity":
        effects = _slopes(model, 1.0, np.zeros(len(model.columns)))
    elif at == "zero":
        effects = _at_zero(model)
    elif at == "mean":
        design = plan.design
        names = design.parsed.exog_columns if isinstance(design, DesignSpec) else design.names
        columns = ", ".join(f"{name!r}: [...]" for name in names if name != "Intercept")
        overall = (
            "at='overall' averages over the rows, and" if no_averages(plan.request.options, design) is None else "but"
        )
        raise NotReleasedError(NO_MEANS.format(columns=columns, instead=overall))
    elif statistics is None or (average := statistics.average_slope()) is None:
        rows = no_averages(plan.request.options, plan.design)
        raise NotReleasedError(NOT_BOUGHT if rows is None else NOT_OFFERED.format(rows=rows))
    else:
        slope, moves, gradient = average
        # The average hardly depends on coefficients that are not identified: those of rare levels.
        bends = np.where(model.errors.table.estimates.identified.active, gradient @ model.errors.basis, 0.0)
        effects = _slopes(model, slope, bends, lambda coef: statistics.width_of(moves.times(coef)))
    ratios: dict[str, tuple[float, float, float]] = {}
    if dummy and statistics is not None and at == "overall" and family.link != "identity":
        if unbought := _unbought(model, statistics):
            steps = {**(plan.fitstats.steps if plan.fitstats else {}), **dict.fromkeys(unbought)}
            raise NotReleasedError(
                f"get_margeff(dummy=True): the fit bought no averages by level of {joined(unbought)}. "
                f"{argument('fitstats_variables', steps)} in the call of the fit buys them. dummy=False has the "
                "derivatives, and fit.comparisons() the changes that were bought"
            )
        changes, ratios = _changes(model, statistics, alpha)
        effects |= changes
    value, se, pvalues = np.array([(one.value, one.se, one.pvalue) for one in effects.values()]).reshape(-1, 3).T
    tvalues, pvalues = np.where(np.isinf(se), np.nan, [value / se, pvalues])  # as in `tidy`
    frame = WideFrame(pd.DataFrame.from_dict(ratios, orient="index", columns=["ratio", "low", "high"]))
    half_widths = tuple(one.half_width for one in effects.values())
    divided = tuple(divided_variables(plan.design))
    return MarginalEffects(tuple(effects), value, se, tvalues, pvalues, frame, at, alpha, half_widths, divided)


def _slopes(
    model: FittedColumns, slope: float, bends: Vector, sums: Callable[[float], HalfWidth] | None = None
) -> dict[str, Effect]:
    """The effect of a unit of each column: its coefficient times a slope that depends on coefficients and sums.

    `bends` is the slope's gradient by the coefficients theta'. `sums` gives half the width of what sums over rows add
    to the interval of an effect, by its coefficient.
    """
    rows, errors, effects = model.rows, model.errors, {}
    estimates = errors.table.estimates
    for place, name in enumerate(model.names):
        if name == "Intercept":
            continue
        coef = float(errors.table.coef[place])
        inner = (slope * rows[place]) @ errors.basis + coef * bends
        width = contrast_width(estimates, inner, None if sums is None else sums(coef))
        effects[name] = Effect(coef * slope, width)
    return effects


def _at_zero(model: FittedColumns) -> dict[str, Effect]:
    """The effects where every column is zero, in the user's units."""
    family, names = model.plan.family, model.names
    if "Intercept" not in names:
        return _slopes(model, float(_slope(family, np.zeros(1))[0]), np.zeros(len(names)))
    place = names.index("Intercept")
    eta = np.array([float(model.errors.table.coef[place])])
    slope = float(_slope(family, eta)[0])
    bend = float(derivative(partial(_slope, family), eta)[0])
    effects = _slopes(model, slope, bend * model.rows[place] @ model.errors.basis)
    if np.isinf(model.errors.table.se[place]):  # a small weight on it does not make the slope known
        return {name: effect._replace(half_width=lambda _: math.inf) for name, effect in effects.items()}
    return effects


def _slope(family: Family, eta: Vector) -> Vector:
    """The derivative of the mean response."""
    return np.asarray(derivative(family.mean, eta), dtype=np.float64)


def _unbought(model: FittedColumns, statistics: FitStatistics) -> list[str]:
    """The factors by themselves of which the averages by level were not bought: a derivative is no change of level."""
    bought = [factor.columns for factor in statistics.functions.factors]
    fitted, unbought = set(model.columns), []
    for name, one in formula_variables(model.plan.design).items():
        if one.alone and one.factor is not None and one.column in fitted and one.factor.columns not in bought:
            unbought.append(name)
    return unbought


def _changes(
    model: FittedColumns, statistics: FitStatistics, alpha: float
) -> tuple[dict[str, Effect], dict[str, tuple[float, float, float]]]:
    """Changes of factors from their reference levels, as differences and as ratios with their intervals."""
    effects, ratios = {}, {}
    for factor in statistics.functions.factors:
        before = statistics.level_mean(factor, None)
        for column in factor.columns:
            after, name = statistics.level_mean(factor, column), model.plan.names[column]
            half = statistics.half_widths([(after, 1.0), (before, -1.0)])
            effects[name] = Effect(after.value - before.value, half)
            ratios[name] = (math.nan, 0.0, math.inf)
            if min(after.value, before.value) > 0:
                ratio = after.value / before.value
                parts = [(after, 1 / after.value), (before, -1 / before.value)]
                width = statistics.half_widths(parts)(alpha)
                with np.errstate(over="ignore"):
                    low, high = np.exp(math.log(ratio) + width * np.array([-1.0, 1.0]))
                ratios[name] = (ratio, float(low), float(high))
    return effects, ratios

"""Released sums of squares and products, and the linear models that follow from them at no charge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.iolib.table import SimpleTable

from dpstats.cached import cached_property
from dpstats.data import as_table
from dpstats.domain import Range
from dpstats.errors import ArgumentError
from dpstats.families import Family, Gaussian
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.formula.parse import parse
from dpstats.formula.submodels import combinations
from dpstats.frames import WideFrame
from dpstats.mechanisms.instruments import InstrumentedModel
from dpstats.mechanisms.least_squares import sums_facts
from dpstats.mechanisms.statistics import Moments, StatisticsPlan, check_size, inference_of, noisy_count
from dpstats.penalties import Penalty
from dpstats.penalties import from_dict as penalty_from_dict
from dpstats.penalties import penalty as get_penalty
from dpstats.plan.row_counts import about_rows
from dpstats.plan.tables import facts_table
from dpstats.privacy.guarantee import Guarantee
from dpstats.proof_pages import cite_proof
from dpstats.quiet import quiet
from dpstats.results.contrasts import ContrastTests, hypotheses, inference_table
from dpstats.results.inference_mixin import InferenceMixin
from dpstats.results.instruments import InstrumentTests, trimmed_error, two_parts
from dpstats.results.standard_errors import ReleasedErrors
from dpstats.results.stored import OF_LINES, Released
from dpstats.summaries import Summary, format_number, full_width, paired_facts, shorten

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NO_CHARGE = "The guarantee is that of the released statistics; this fit cost nothing more."


def _header(title: str, left: list[tuple[str, str]], plan: StatisticsPlan) -> SimpleTable:
    """Pairs of facts on the release (left) and on the guarantee (right)."""
    guarantee = plan.guarantee
    if not guarantee.certified:
        title = f"*** NOT CERTIFIED: {guarantee.reason} ***\n{title}"
    right = [
        ("Epsilon:", f"{guarantee.eps:.6g}"),
        ("Delta:", f"{guarantee.delta:.6g}"),
        ("Adjacency:", guarantee.adjacency),
        ("Noise:", plan.noise.law),
        ("Proof:", cite_proof(guarantee.basis) if guarantee.certified else "none"),
    ]
    left = [*left, *[("", "")] * (len(right) - len(left))]
    return paired_facts(title, left, right)


@dataclass(frozen=True, eq=False)
class ReleasedStatistics(Released):
    """X'X, X'y and y'y of one data set with noise, as returned by `dpstats.release_statistics`.

    Attributes
    ----------
    plan : StatisticsPlan
        The public plan of the release.
    released : ndarray, shape (p + 1, p + 1)
        Sums of products of the columns and, last, the response, in model units, as the mechanism released them.
    nobs : int or None
        The number of rows where it is public (``adjacency="replace_one"``), else None.
    ranges_eps : float
        The part of the budget that bought ranges first, if a fit did so.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> sums = dp.release_statistics(domain, ["x", "y"], 1.0, data=rows, delta=1e-6)
    >>> sums.names, sums.guarantee.certified
    (('Intercept', 'y', 'x'), True)
    >>> sums.rows > 0, list(sums.budget.index)
    (True, ['statistics', 'cover'])
    >>> "Released Statistics" in sums.summary().as_text()
    True
    """

    plan: StatisticsPlan
    released: Matrix
    nobs: int | None = None
    ranges_eps: float = 0.0

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of this object and of every model that is fitted from it."""
        return self.plan.guarantee

    @property
    def budget(self) -> pd.DataFrame:
        """What the budget was spent on: ranges that were bought, one release, the cover of its floating point."""
        paid, cover, ranges = self.guarantee, self.plan.cover_eps, self.ranges_eps
        lines = [
            ("ranges", ranges, 0.0, "of columns"),
            ("statistics", paid.eps - cover - ranges, paid.delta, f"{self.plan.noise.law} noise"),
            ("cover", cover, 0.0, "floating point"),
        ]
        table = pd.DataFrame(lines, columns=["purchase", "eps", "delta", "buys"]).set_index("purchase")
        return WideFrame(table if ranges else table.drop(index="ranges"))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, then the response."""
        return (*self.plan.design.names, self.plan.design.response_name)

    @property
    def rows(self) -> float:
        """About how many complete rows there are."""
        return noisy_count(self.plan, self._moments, self.nobs).count

    @cached_property
    def _moments(self) -> Moments:
        with quiet():
            return Moments.of(self.plan, self.released)

    def fit(
        self,
        formula: str,
        *,
        penalty: str | Penalty | None = None,
        alpha: float | None = None,
        radius: float | None = None,
    ) -> StatisticsResults:
        """A linear model of these columns: post-processing, which reads no rows and costs nothing.

        Parameters
        ----------
        formula : str
            Every column, and the response, must be a linear combination of the released columns: a subset of the terms,
            another coding of a factor, no intercept, another numeric column as the response.
        penalty, alpha : str or Penalty, float
            A convex penalty on the scaled coefficients, in addition to the ridge penalty for the noise, as in
            `dpstats.glm`.
        radius : float, optional
            A guess at the largest distance of predictions from the middle of the response's range, in half widths of
            the range; by default that of the release. A larger radius means less ridge.

        Returns
        -------
        StatisticsResults

        Raises
        ------
        ArgumentError, FormulaError
            If the statistics do not determine the model, or an argument is not usable.

        Examples
        --------
        >>> sums.fit("y ~ 1").params.index.tolist()
        ['Intercept']
        """
        guess = self.plan.radius if radius is None else check_size("radius", radius)
        chosen = get_penalty(penalty, alpha)
        if chosen is not None and not chosen.convex:
            raise ArgumentError(f"penalty must be convex to be fitted from released statistics, got {chosen.name!r}")
        part = self._submodel(formula)
        mapped = combinations(self.plan.design, part)
        weights = np.array([0.0 if name == "Intercept" else 1.0 for name in part.names])
        with quiet():
            params = self._moments.equations(*mapped).solve(guess, chosen, weights)
        return StatisticsResults(self, part, params, chosen, guess, mapped)

    def iv(self, formula: str, *, radius: float | None = None) -> IVResults:
        """Two-stage least squares with instruments, and Anderson-Rubin tests: post-processing, which costs nothing.

        Parameters
        ----------
        formula : str
            As for R's ivreg, ``"y ~ x + w | z + w"``: what stands before the bar alone is endogenous, what stands
            behind it alone is an instrument, and controls stand on both sides. All of it must be a linear combination
            of the released columns, as in `fit`.
        radius : float, optional
            As in `fit`; it sizes coefficients that the budget does not identify.

        Returns
        -------
        IVResults

        Raises
        ------
        ArgumentError, FormulaError
            If the statistics do not determine the model, there are fewer instruments than endogenous columns, or rows
            were left out by a column that is neither an instrument nor a control.

        Notes
        -----
        The errors are homoscedastic ones, and count the noise (docs/proofs/instruments).

        Examples
        --------
        >>> rows = {**rows, "z": rng.uniform(0, 1, 2000)}
        >>> sums = dp.release_statistics(domain | {"z": (0, 1)}, ["y", "x", "z"], 1.0, data=rows, delta=1e-6)
        >>> sums.iv("y ~ x | z").params.index.tolist()
        ['Intercept', 'x']
        """
        guess = self.plan.radius if radius is None else check_size("radius", radius)
        part, first = (self._submodel(one) for one in two_parts(formula))
        (columns, response), (instruments, _) = (combinations(self.plan.design, one) for one in (part, first))
        model = InstrumentedModel(
            self.plan, self._moments, part, first, (columns, instruments, response), self.nobs, guess
        )
        model.check()
        for name in part.parsed.columns:
            declared = self.plan.design.domain[name]
            if name not in first.parsed.exog_columns and isinstance(declared, Range) and declared.drops:
                raise trimmed_error(name)
        with quiet():
            errors, basis = model.two_stage
        return IVResults(self, part, basis @ errors.estimates.debiased, None, guess, (columns, response), first, model)

    def _submodel(self, formula: str) -> DesignSpec:
        """The model's design; ArgumentError if it reads a column whose statistics were not released."""
        domain = self.plan.design.domain
        unknown = [name for name in parse(formula).columns if name not in domain]
        if unknown:
            raise ArgumentError(
                f"formula: statistics of column {unknown[0]!r} were not released, only of {', '.join(domain)}"
            )
        part = design_spec(formula, domain, family=Gaussian())
        if any(one is not None for one in (part.weights, part.offset, part.subset)):
            raise ArgumentError("formula: the statistics have no weights, offsets and subsets; leave them out")
        return part

    def __repr__(self) -> str:
        return f"<ReleasedStatistics of {len(self.names)} columns: {self.guarantee}>"

    def summary(self) -> Summary:
        """What was released, at what price, with what noise; as_text, as_html and as_latex."""
        design, count = self.plan.design, noisy_count(self.plan, self._moments, self.nobs)
        facts = [
            ("Columns:", str(len(design.names))),
            ("Response:", shorten(design.response_name, 22)),
            ("Complete Rows:", about_rows(count.count, count.deviation).removeprefix("about ")),
        ]
        notes = [
            "The guarantee covers this release and every model fitted from it: a fit costs nothing.",
            f"Columns: {', '.join(design.names)}.",
            *(f"{note}." for note in design.notes),
        ]
        return Summary([_header("Released Statistics", facts, self.plan), facts_table(sums_facts(self.plan))], notes)

    def to_dict(self) -> dict[str, Any]:
        facts = {"plan": self.plan.to_dict(), "released": self.released.tolist(), "nobs": self.nobs}
        return facts | {"ranges_eps": self.ranges_eps}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        plan = StatisticsPlan.from_dict(facts["plan"])
        released = np.asarray(facts["released"], dtype=np.float64)
        if released.shape != (plan.noise.size + 1,) * 2 or not np.isfinite(released).all():
            raise ValueError("the stored matrix does not suit the plan")
        return cls(plan, released, facts["nobs"], facts.get("ranges_eps", 0.0))


@dataclass(frozen=True, eq=False)
class StatisticsResults(InferenceMixin, Released):
    """A linear model from released statistics.

    Attributes
    ----------
    statistics : ReleasedStatistics
    design : DesignSpec
        Of the model.
    scaled_params : ndarray, shape (q,)
        Coefficients in model units.
    penalty : Penalty or None
    radius : float
    mapped : tuple
        T and t: the model's columns and its response as combinations of those released.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> model = dp.release_statistics(domain, ["x", "y"], 1.0, data=rows, delta=1e-6).fit("y ~ x")
    >>> model.guarantee.certified, model.params.index.tolist()
    (True, ['Intercept', 'x'])
    >>> model.debiased.shape == model.bse.shape == model.tvalues.shape == model.pvalues.shape
    True
    >>> model.t_test([1, 1]).effect.shape, model.t_test("Intercept + x = 0.5").effect.shape
    ((1,), (1,))
    >>> model.glance()["method"].tolist()
    ['statistics']
    >>> "Private Linear Model" in model.summary().as_text()
    True
    """

    statistics: ReleasedStatistics
    design: DesignSpec
    scaled_params: Vector
    penalty: Penalty | None
    radius: float
    mapped: tuple[Matrix, Vector]

    instead: ClassVar[Mapping[str, str]] = {
        **OF_LINES,
        "budget": "statistics.budget is that of the sums",
        "nobs": "glance() has the number of rows, with its noise",
    }

    @property
    def params(self) -> pd.Series[float]:
        """Coefficients in the user's units, shrunk as the noise asks for: for prediction."""
        matrix, shift = self.design.back_transform()
        return pd.Series(matrix @ self.scaled_params + shift, index=list(self.design.names), name="params")

    @property
    def guarantee(self) -> Guarantee:
        """That of the statistics; the fit adds nothing to it."""
        return self.statistics.guarantee

    def predict(self, newdata: Any) -> pd.Series[float]:
        """Expected responses of new rows, in the response's units; NaN for incomplete rows.

        Parameters
        ----------
        newdata : DataFrame or another table
            Numeric columns are clipped to the Domain's ranges.

        Raises
        ------
        DataError
            If `newdata` lacks a column the formula needs.

        Examples
        --------
        >>> model.predict({"x": [0.2, 0.8]}).shape
        (2,)
        """
        table = as_table(newdata)
        exog, complete = self.design.exog(table)
        predicted = np.full(len(exog), np.nan)
        middle, half_width = self.design.response_scaling()
        with quiet():
            predicted[complete] = middle + half_width * (exog[complete] @ self.scaled_params)
        return pd.Series(predicted, index=table.index, name="predicted")

    @property
    def _design(self) -> DesignSpec:
        return self.design

    @property
    def _family(self) -> Family:
        return Gaussian()

    @cached_property
    def _inferred(self) -> ReleasedErrors:
        if not self.has_errors:
            raise ArgumentError("penalty: errors are not valid after a selection by the same statistics; fit without")
        sums = self.statistics
        with quiet():
            table, basis = inference_of(sums.plan, sums._moments, self.design, self.mapped, sums.nobs, self.radius)
        return ReleasedErrors(table, basis, np.zeros(len(basis)))

    @property
    def debiased(self) -> pd.Series[float]:
        """Coefficients without ridge and penalty: what errors, tests and intervals refer to."""
        return self._series(self._inference.coef, "debiased")

    @property
    def has_errors(self) -> bool:
        """Whether standard errors are valid: not after a penalty that selects."""
        return self.penalty is None or not self.penalty.sparse

    # Values may be an argument of their own here, as they always could.
    def t_test(  # type: ignore[override]
        self, weights: Any, values: float | Vector = 0.0, alpha: float = 0.05
    ) -> ContrastTests:
        """Test linear combinations of the coefficients, rows of `weights` (k, q), against `values`, one by one.

        Text such as ``"x = 0"``, a dict, or ``(weights, values)`` stands for both, as for other models.
        """
        if isinstance(weights, str | dict | tuple) or (
            isinstance(weights, list) and all(isinstance(one, str) for one in weights)
        ):
            return super().t_test(weights, alpha)
        tests = self._inference.t_test(*hypotheses(weights, values), alpha)
        return ContrastTests.of(tests, tuple(f"c{number}" for number in range(len(tests.effect))), alpha)

    def glance(self) -> pd.DataFrame:
        """One row of facts about the model; the number of rows is noisy."""
        sums, paid = self.statistics, self.guarantee
        count = noisy_count(sums.plan, sums._moments, sums.nobs)
        facts = {
            "family": "gaussian",
            "method": "statistics",
            "penalty": "none" if self.penalty is None else self.penalty.name,
            "df_model": len(self.design.names) - self.design.has_intercept,
            "nobs": round(count.count),
            "nobs_std_error": count.deviation,
            **{name: getattr(paid, name) for name in ("eps", "delta", "adjacency", "unit", "certified")},
            "noise": sums.plan.noise.law,
        }
        return WideFrame([facts])

    def summary(self) -> Summary:
        """The regression table, in statsmodels' look; as_text, as_html and as_latex."""
        facts = [
            ("Dep. Variable:", shorten(self.design.response_name, 22)),
            ("Model:", "Linear, from sums"),
            ("Penalty:", "None" if self.penalty is None else self.penalty.name),
        ]
        header = _header("Private Linear Model", facts, self.statistics.plan)
        if not self.has_errors:
            values = zip(self.params.items(), self.scaled_params, strict=True)
            lines = [(name, [format_number(value), format_number(scaled)]) for (name, value), scaled in values]
            why = "No standard errors are shown: the penalty selected columns from the same statistics."
            return Summary([header, full_width(["coef", "scaled coef"], lines, [14, 14])], [NO_CHARGE, why])
        corrected = (
            "coef, std err and the tests are bias-corrected; params holds the coefficients shrunk according to the "
            "noise. Standard errors (model-based) account for sampling and for the noise."
        )
        return Summary(
            [header, inference_table(self.uncertainty())], [NO_CHARGE, corrected, *self._unidentified_note()]
        )

    def _unidentified_note(self) -> list[str]:
        """A note on coefficients without an interval, if there are any."""
        unknown = [str(name) for name, error in self.bse.items() if np.isinf(error)]
        return [f"Not identified at this budget: {', '.join(unknown)}."] if unknown else []

    def __repr__(self) -> str:
        return f"<StatisticsResults: {self.design.formula}, {self.guarantee}>"

    def to_dict(self) -> dict[str, Any]:
        """The released sums and what the model is of them, for JSON."""
        return {
            "statistics": self.statistics.to_dict(),
            "formula": self.design.formula,
            "penalty": None if self.penalty is None else self.penalty.to_dict(),
            "radius": self.radius,
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> StatisticsResults:
        """The model whose `to_dict` gave `facts`, fitted again: a function of the released statistics."""
        penalty = None if facts["penalty"] is None else penalty_from_dict(facts["penalty"])
        statistics = ReleasedStatistics.from_dict(facts["statistics"])
        return statistics.fit(facts["formula"], penalty=penalty, radius=facts["radius"])


@dataclass(frozen=True, eq=False)
class IVResults(InstrumentTests, StatisticsResults):
    """Two-stage least squares from released statistics, with Anderson-Rubin tests, which weak instruments leave valid.

    Attributes
    ----------
    statistics : ReleasedStatistics
    design, instruments : DesignSpec
        Of response and regressors, and of response and instruments, controls in both.
    scaled_params : ndarray, shape (p,)
        Coefficients in model units.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> z, hidden = rng.uniform(0, 1, 20000), rng.uniform(-0.2, 0.2, 20000)
    >>> rows = {"z": z, "x": 0.2 + 0.6 * z + hidden, "y": 0.5 + 0.6 * z + 3 * hidden}
    >>> domain = {"z": (0, 1), "x": (0, 1), "y": (0, 2)}
    >>> sums = dp.release_statistics(domain, ["y", "x", "z"], 3.0, data=rows, delta=1e-6)
    >>> model = sums.iv("y ~ x | z")
    >>> model.endogenous, bool(model.first_stage.loc["x", "F"] > 10)
    (('x',), True)
    >>> 1.0 in model.ar_conf_int(alpha=0.0001), model.ar_test(1.0).df
    (True, 1)
    >>> "Anderson-Rubin" in model.summary().as_text()
    True
    """

    instruments: DesignSpec
    model: InstrumentedModel = field(repr=False)

    @property
    def formula(self) -> str:
        """The formula, with its bar."""
        return f"{self.design.formula} | {self.instruments.formula.partition('~')[2].strip()}"

    @cached_property
    def _inferred(self) -> ReleasedErrors:
        with quiet():
            table, basis = self.model.two_stage
        return ReleasedErrors(table, basis, np.zeros(len(basis)))

    def summary(self) -> Summary:
        """The regression table, the first stage and the tests; as_text, as_html and as_latex."""
        facts = [
            ("Dep. Variable:", shorten(self.design.response_name, 18)),
            ("Model:", "2SLS, from sums"),
            ("Endogenous:", shorten(", ".join(self.endogenous), 18)),
            ("Instruments:", shorten(", ".join(self.excluded), 18)),
        ]
        header = _header("Private Instrumental Variables", facts, self.statistics.plan)
        notes = [
            *self._weak_note(),
            NO_CHARGE,
            "Standard errors and tests are homoscedastic ones; they account for sampling and for the noise. F of rows "
            "estimates the F without noise.",
            *self._unidentified_note(),
        ]
        return Summary([header, inference_table(self.uncertainty()), *self._instrument_tables()], notes)

    def glance(self) -> pd.DataFrame:
        """One row of facts about the model, with the least F of a first stage; the number of rows is noisy."""
        return WideFrame(super().glance().assign(method="2sls", first_stage_F=self.first_stage["F"].min()))

    def __repr__(self) -> str:
        return f"<IVResults: {self.formula}, {self.guarantee}>"

    def to_dict(self) -> dict[str, Any]:
        """The released sums and what the model is of them, for JSON."""
        return {"statistics": self.statistics.to_dict(), "formula": self.formula, "radius": self.radius}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> IVResults:
        """The model whose `to_dict` gave `facts`, fitted again: a function of the released statistics."""
        return ReleasedStatistics.from_dict(facts["statistics"]).iv(facts["formula"], radius=facts["radius"])

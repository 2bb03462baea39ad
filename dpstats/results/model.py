"""The coefficients of a released model and what was released of their errors: what its tables and notes read."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.cached import cached_property
from dpstats.data import as_table
from dpstats.errors import ArgumentError, NotReleasedError
from dpstats.families import Gaussian
from dpstats.formula.design import DesignSpec
from dpstats.frames import NotedFrame, WideFrame
from dpstats.inference import JointTest, ModelSpread, wald_test
from dpstats.inference.estimates import NORMAL
from dpstats.mechanisms.design import PublicDesign, SubDesign, constant_column
from dpstats.mechanisms.fit_statistics import FitSums, MadeUpRows, RowFunctions
from dpstats.mechanisms.focus import ArmSums
from dpstats.mechanisms.information import Information, ReleasedSums
from dpstats.mechanisms.screening import split_terms
from dpstats.plan import Plan, penalty_weights
from dpstats.plan.error_notes import kept_note
from dpstats.plan.tables import capped_at, in_units
from dpstats.quiet import quiet
from dpstats.results.cell_warnings import warn_of_cells
from dpstats.results.comparisons import Changes, Comparer, Comparison, PrivateRows, PublicRows, public_frame
from dpstats.results.explained_share import Figure, counted_rows, debiased_params, explained_by_sums, row_figure
from dpstats.results.fit_statistics import LAPLACE, FitStatistics, made_up_rows, row_functions
from dpstats.results.fitted_model import FittedModel
from dpstats.results.focus import focus_table
from dpstats.results.inference_mixin import (
    as_offset,
    with_exposure,
)
from dpstats.results.marginal_effects import At, FittedColumns, MarginalEffects, marginal_effects
from dpstats.results.standard_errors import (
    ReleasedErrors,
    inference_of,
    missing_information,
    selects,
    sums_inference,
    sums_noise,
)
from dpstats.wording import argument, joined

Vector = NDArray[np.float64]

GRADIENT_UNITS = (
    "coef is in the columns' own units; weight and threshold are limits of the gradient, summed over the rows, in "
    "model units, and do not compare with coef."
)


class NeededRows(NamedTuple):
    """How many rows are forecast to give nearly all coefficients an interval, in a call that insists on errors."""

    rows: float  # of the fit, about
    usual: float | None  # enough if columns are spread as usual; None if no number is forecast to be enough


@dataclass(frozen=True, eq=False)
class ReleasedModel(FittedModel):
    """A model of rows.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.integers(0, 2, 2000)}
    >>> fit = dp.logit("y ~ x", rows, 10.0, domain={"x": (0, 1), "y": (0, 1)})
    >>> fit.has_errors
    True
    >>> fit.left_out
    []
    >>> "nobs" in fit.fitstats.index
    True
    """

    plan: Plan
    nobs: int | None = None
    released: Information | ReleasedSums | None = None
    fit_sums: FitSums | None = None
    arm_sums: ArmSums | None = None
    # Post-processing that takes longer than a fit should: asked for by notes, and stored where they have its numbers.
    forecast_rows: Callable[[float], NeededRows | None] | None = field(default=None, repr=False)
    holdouts: tuple[str, ...] = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name == "rsquared" and self.has_errors and "r_squared" in self._figures.index:
                raise NotReleasedError("rsquared: see fit.fitstats, whose row r_squared has its error and interval too")
            return super().__getattr__(name)

    @cached_property
    def needed_rows(self) -> NeededRows | None:
        """How many rows nearly all errors would need, if the number of rows was released or is public."""
        counted = self._counted_records
        if self.forecast_rows is None or counted is None:
            return None
        halves = 1 if self._counted is None or self.plan.request.options.split is None else 2  # it counts one
        with quiet():
            return self.forecast_rows(halves * counted[0])

    @property
    def _counted_records(self) -> tuple[float, float] | None:
        """The number of rows, or of persons of a fit with a unit, and the deviation of its noise, if it is known."""
        counted, counts = self._counted, self.plan.counts
        if counted is not None:
            return counted.value, counted.se
        public = self.nobs if counts is None else counts.rows
        return None if public is None else (float(public), 0.0 if counts is None else counts.rows_sd)

    @property
    def budget(self) -> pd.DataFrame:
        """What the budget was spent on, one purchase a row."""
        return self.plan.budget

    @property
    def selection(self) -> pd.DataFrame:
        """The columns of the design that screening or a sparse penalty left in the model; empty without either.

        Columns: coef, as in `params`; with screening how, "screened", or "always" for what is kept unasked; with a
        sparse penalty weight, the lasso weight of the column in model units (the slope at zero of another sparse
        penalty), and threshold, what the noise brought into it: a bound noise alone rarely passes ("noise_aware"), or
        the size of noise and sampling error ("auto"), of which the weight is a multiple. Both are limits of the
        gradient of the loss, not of coef. `left_out` has the names of all others. Without a refit the columns are kept
        for prediction, some without an effect; a note below the table says about how many.
        """
        plan, objective = self.plan, self.plan.objective
        if not self.selects:
            return WideFrame(columns=["coef", "weight", "threshold"])
        table: dict[str, Any] = {"coef": self.params.to_numpy()}
        if plan.screening is not None:
            always, _ = split_terms(plan.design, penalty_weights(plan.design, plan.request.options))
            how = np.full(len(plan.names), "screened")
            how[always] = "always"
            table["how"] = how
        if _is_sparse(plan):
            assert objective.penalty is not None
            slope = objective.penalty.majorizer(1.0, 1.0) if objective.penalty.name == "lasso" else 1.0
            weight, threshold = np.full((2, len(plan.names)), np.nan)
            weight[plan.kept] = float(slope) * objective.penalty_weights
            threshold[plan.kept] = objective.threshold
            table |= {"weight": weight, "threshold": threshold}
        frame = NotedFrame(pd.DataFrame(table, index=pd.Index(plan.names, name="term"))[self.in_model])
        units = [GRADIENT_UNITS] if _is_sparse(plan) else []
        frame.attrs["note"] = " ".join([*units, *self.kept_notes])
        return frame

    @property
    def kept_notes(self) -> list[str]:
        """What a sparse penalty keeps without an effect, by what was released."""
        rows, constant = self._counted_records, constant_column(self.plan.design)
        eta = 0.0 if constant is None else float(self.scaled_params[constant[0]]) * constant[1]
        return kept_note(self.plan, None if rows is None else max(rows[0], 0.0), eta)

    @property
    def left_out(self) -> list[str]:
        """The columns of the design that screening or a sparse penalty left out; their coefficients are zero."""
        return [name for name, kept in zip(self.plan.names, self.in_model, strict=True) if not kept]

    @property
    def selects(self) -> bool:
        """Whether rows decide which columns are in the model."""
        return self.plan.screening is not None or _is_sparse(self.plan)

    @property
    def has_errors(self) -> bool:
        """Whether standard errors were released; a sparse penalty on released sums leaves none that are valid."""
        if isinstance(self.released, ReleasedSums):
            return self.plan.request.options.inference is not None and not selects(self.plan)
        return self.released is not None

    @cached_property
    def _inferred(self) -> ReleasedErrors:
        if self.released is None or not self.has_errors:
            raise NotReleasedError(missing_information(self.plan))
        with quiet():
            if isinstance(self.released, ReleasedSums):
                return sums_inference(self.plan, self.released, self.nobs)
            return inference_of(self.plan, self.scaled_params, self.released)

    @cached_property
    def _averaged(self) -> tuple[RowFunctions, MadeUpRows] | None:
        """What fit statistics average over rows, and rows like those that were fitted; None if that cannot be told."""
        try:
            params = debiased_params(self._inferred)
            made_up = made_up_rows(self.plan, params, self._inferred)
        except (np.linalg.LinAlgError, ArgumentError):  # decided by released values; the rest must not be lost
            return None
        return None if made_up is None else (row_functions(self.plan, params, made_up), made_up)

    def _completed(self, **parts: Any) -> Self:
        """The model with parts that change neither coefficients nor errors: what was inferred of these stays known."""
        model = replace(self, **parts)
        vars(model).update({name: vars(self)[name] for name in ("_inferred", "_averaged") if name in vars(self)})
        return model

    @cached_property
    def _fit_statistics(self) -> FitStatistics | None:
        if self.fit_sums is None:
            return None
        with quiet():
            averaged = self._averaged
            assert averaged is not None  # or the sums would not have been taken
            functions, made_up = averaged
            functions = replace(functions, null=self.fit_sums.null, sums_gain=self.fit_sums.place("gain") is not None)
            return FitStatistics(self.plan, self._inferred, functions, made_up, self.fit_sums)

    @property
    def _rows_before(self) -> tuple[float, float] | None:
        """The count of rows made before ranges were bought and its deviation; of a split, that of the half fitted."""
        counts = self.plan.counts
        if counts is None or counts.released_rows is None:
            return None
        count, deviation = counts.released_rows
        if self.plan.request.options.split is None:
            return count, deviation
        # A row is in its half with a chance of one half.
        return count / 2, math.hypot(deviation, math.sqrt(max(count, 0.0))) / 2

    @cached_property
    def _counted(self) -> Figure | None:
        """The number of rows used by the last fit, of all that was released of it what has the least noise, or None."""
        figures = []
        if self._fit_statistics is not None:
            figures.append(self._fit_statistics.rows())
        if self._rows_before is not None and self.plan.counts_rows_used:
            figures.append(row_figure(*self._rows_before, LAPLACE))
        if isinstance(self.released, ReleasedSums) and self.guarantee.unit is None:
            with quiet():
                figures.append(counted_rows(self.plan, self.released, self.nobs))
        return min(figures, key=lambda figure: figure.se, default=None)

    @property
    def fitstats(self) -> pd.DataFrame:
        """The fit of the whole model, a row for each figure, with its standard error and 95 % interval.

        nobs, the number of rows used; r_squared of least squares, of capped residuals as a note says unless
        method="statistics", else deviance_explained; scale of least squares, the
        residual variance in the response's units, unless the loss caps residuals (`scale` is then that of capped ones);
        dispersion_used of Poisson counts, the factor in the coefficients' variances: the sum of squared residuals over
        that of the rows' weights in the information, at the coefficients as released, and at least 1. Its error is that
        of the noise. It is not Pearson's dispersion, statsmodels' `scale`, which divides every row's square by its own
        mean: they agree where variances are in proportion to means. slopes is the joint test that all coefficients but
        the intercept are zero: the statistic of `wald_test`, with df and p_value; a note names the coefficients that
        are too noisy for it. nobs and the share explained need `fitstats` in the call, or follow from what else was
        released; the others follow from the errors.

        Raises
        ------
        NotReleasedError
            If no errors were released.
        """
        table = NotedFrame(self._figures.copy())
        notes = []
        if "r_squared" in table.index and (cap := capped_at(self.plan)) is not None:
            notes.append(f"r_squared: of residuals capped at {in_units(cap)}")
        if self._slopes_test is None:
            table.attrs.update({"note": "; ".join(notes)} if notes else {})
            return table
        _, tested = self._slopes_test
        differences, slopes = self._tested_differences, self.params.index[self._fitted_columns][self.plan.constants :]
        apart = {name for names in differences.values() for name in names}
        named = [name for name in tested if name not in apart]
        named += [f"differences of levels of {term}" for term in differences]
        if len(tested) < len(slopes):
            left_out = "others" if differences else joined([name for name in slopes if name not in tested])
            notes.append(f"slopes: joint test of {joined(named)}, without {left_out} (too noisy for it)")
        table.attrs.update({"note": "; ".join(notes)} if notes else {})
        return table

    @cached_property
    def _figures(self) -> pd.DataFrame:
        """What `fitstats` is: a summary asks for it several times."""
        inferred, statistics, plan = self._inferred, self._fit_statistics, self.plan
        rows: dict[str, tuple[float, ...]] = {}
        if self._counted is not None:
            rows["nobs"] = (*self._counted, math.nan, math.nan)
        if statistics is not None:
            explained = "r_squared" if isinstance(plan.family, Gaussian) else "deviance_explained"
            rows[explained] = (*statistics.explained(), math.nan, math.nan)
        elif isinstance(self.released, ReleasedSums):
            rows["r_squared"] = (*explained_by_sums(plan, self.released, inferred, self.nobs), math.nan, math.nan)
        spread = inferred.table.estimates.spread
        # Of capped residuals it is no estimate of the variance, and its interval would miss that.
        if isinstance(spread, ModelSpread) and spread.deviation > 0 and capped_at(plan) is None:
            scale, noise = self.scale, spread.deviation / spread.value
            if plan.family.response == "count":
                half = NORMAL * noise * scale
                figure = (scale, scale * noise, max(scale - half, 1.0), scale + half)
                rows["dispersion_used"] = (*figure, math.nan, math.nan)
            else:  # of a normal response, sampling has its part
                sampled = 2 / max(rows["nobs"][0], 1.0) if "nobs" in rows else 0.0
                half = NORMAL * (error := math.hypot(noise, math.sqrt(sampled)))
                figure = (scale, scale * error, scale * max(1 - half, 0.0), scale * (1 + half))
                rows["scale"] = (*figure, math.nan, math.nan)
        if self._slopes_test is not None:
            test, _ = self._slopes_test
            rows["slopes"] = (test.statistic, math.nan, math.nan, math.nan, test.df, test.pvalue)
        columns = ["value", "std_error", "low", "high", "df", "p_value"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    @cached_property
    def _slopes_test(self) -> tuple[JointTest, list[str]] | None:
        """The test that all coefficients but the intercept, or cut-points, are zero, and the names of those tested.

        None where none can be tested.
        """
        errors, columns = self._inferred, self._fitted_columns
        places = np.flatnonzero(columns >= self.plan.constants)
        if not len(places):
            return None
        test = wald_test(errors.table.estimates, np.eye(len(columns))[places], errors.nulls[places])
        names = [self._fitted_names[places[place]] for place in test.tested]
        return (test, names) if test.df else None

    @cached_property
    def _tested_differences(self) -> dict[str, list[str]]:
        """The names in the joint test that stand for differences from the commonest level of a factor, by the term.

        Not those of a factor of which all are tested and have a std err: they are zero where its slopes are.
        """
        _, tested = self._slopes_test or (None, [])
        design, turned = SubDesign(self.plan.design, self._fitted_columns), np.diag(self._inferred.basis) < 0
        shown, differences = set(self.bse.index[np.isfinite(self.bse)]), dict[str, list[str]]()
        for factor in design.dummies:
            columns = list(factor.columns)
            names = [design.names[column] for column in columns]
            among = [name for name in names if name in tested]
            if among and turned[columns].any() and not (among == names and set(names) <= shown):
                (term,) = (one.name for one in design.terms if one.columns.start <= columns[0] < one.columns.stop)
                differences[term] = among
        return differences

    def get_margeff(self, at: At = "overall", *, dummy: bool = False, alpha: float = 0.05) -> MarginalEffects:
        """Marginal effects on the mean response, as of statsmodels.

        Parameters
        ----------
        at : {"overall", "mean", "zero"}
            The average over the rows, which needs `fitstats` in the call unless the link is the identity; or where all
            columns are zero. At the columns' means is offered for the identity alone: means were not released.
        dummy : bool
            Changes of a factor from its reference level in the place of derivatives, where it is by itself in the
            formula; `ratios` then has them as ratios. Every row is taken to be of either level: statsmodels leaves the
            dummies of the factor's other levels as they are, which differs where there are more than two.
        alpha : float
            1 less the coverage of the intervals.

        Raises
        ------
        NotReleasedError
            If what it needs was not released; with `dummy` also if `fitstats_variables` of the call left a factor out.

        Examples
        --------
        >>> fit.get_margeff().names
        ('x',)
        """
        model = FittedColumns(self.plan, self._inferred, self._fitted_columns)
        return marginal_effects(model, self._fit_statistics, at, dummy, alpha)

    def comparisons(
        self,
        variables: Changes = None,
        *,
        comparison: Comparison = "difference",
        by: str | None = None,
        newdata: Any = None,
        alpha: float = 0.05,
        offset: Any = None,
        exposure: Any = None,
    ) -> pd.DataFrame:
        """Average differences or ratios of the mean response, as R's marginaleffects has them.

        Parameters
        ----------
        variables : str, list of str or dict, optional
            What changes: a factor, from its reference level to each other one, or a number, by 1 or by a step,
            ``{"age": 10}``. ``{"region": "pairwise"}`` compares all levels with one another, and
            ``{"region": ["b", "c"]}`` has the change from b to c. By default what the call bought
            (`fitstats_variables`), else every factor; where it costs nothing every factor and number that is a term;
            with `newdata` every column of the model. A line below the table names the others and what to type.
        comparison : {"difference", "ratio"}
            Of the average means before and after, "differenceavg" and "ratioavg" there: risk differences and risk
            ratios of a logistic model.
        by : str, optional
            Over the rows of each level of this factor, the one that `fitstats_by` named in the call. With `newdata`,
            over its rows with each value of this column, which may be any.
        newdata : DataFrame or dict of columns, optional
            Public rows to average over in the place of the private ones, at no charge, such as one of typical values.
            A number that the step would take out of its range is compared with the number one step back; a line below
            the table says which.
        alpha : float
            1 less the coverage of the intervals.
        offset, exposure : float or array_like, shape (rows,), optional
            Of `newdata`, as for `predict`: with an exposure of 1 differences are those of rates.

        Returns
        -------
        DataFrame
            One row a change: term, contrast, the level of `by`, estimate, std_error, statistic, p_value, conf_low,
            conf_high. Differences with an identity link and ratios with a logarithm are coefficients and the same in
            every group.

        Raises
        ------
        NotReleasedError
            If it needs sums over the rows that the call did not buy.

        Examples
        --------
        >>> fit.comparisons({"x": 0.5}, newdata={"x": [0.0, 0.2]})["contrast"].tolist()
        ['+0.5']
        >>> import dpstats as dp
        >>> survey = dp.datasets.load_adult()
        >>> by_race = dp.logit("income ~ age + race", survey.data, 1.0, domain=survey.domain, seed=1)
        >>> by_race.comparisons({"race": ["Black", "White"]})["contrast"].tolist()
        ['White - Black']
        """
        given = with_exposure(self.plan.family.link, offset, exposure)
        return self._compared(
            "comparisons", newdata, by, given, lambda comparer: comparer.comparisons(variables, comparison, by, alpha)
        )

    def predictions(
        self,
        variables: str | None = None,
        *,
        by: str | None = None,
        newdata: Any = None,
        alpha: float = 0.05,
        offset: Any = None,
        exposure: Any = None,
    ) -> pd.DataFrame:
        """Average predictions: over the rows, by groups of them, or were all rows of each level of a factor.

        Intervals are cut off at the ends of what a mean can be. With `by` they allow for the noise in the sizes of the
        groups (Fieller's method), and a group whose interval is the whole range is blank, as not identified. Otherwise
        they are symmetric (delta method). With another link than the identity, those of `get_prediction` for the same
        mean differ, because they are transformed by the inverse link.

        Parameters
        ----------
        variables : str, optional
            A factor, or at public rows a column declared as bool: every row is taken to be of each of its levels in
            turn (adjusted predictions).
        by, newdata, alpha, offset, exposure
            As for `comparisons`. `get_prediction` has public rows one by one.

        Returns
        -------
        DataFrame
            One row an average: the level, estimate, std_error, conf_low, conf_high.

        Raises
        ------
        NotReleasedError
            If it needs sums over the rows that the call did not buy.

        Examples
        --------
        >>> fit.predictions(newdata={"x": [0.0, 0.2]}).columns.tolist()
        ['estimate', 'std_error', 'conf_low', 'conf_high']
        """
        given = with_exposure(self.plan.family.link, offset, exposure)
        return self._compared(
            "predictions", newdata, by, given, lambda comparer: comparer.predictions(variables, by, alpha)
        )

    def focus(self, alpha: float = 0.05) -> pd.DataFrame:
        """The coefficient of the randomised treatment that the call had in focus, with its interval.

        Parameters
        ----------
        alpha : float
            1 less the coverage of the interval.

        Returns
        -------
        DataFrame
            One row: coef, without the shrinkage, std_error, z, p_value, low and high. It takes for granted that chance
            assigned the treatment, whatever else a row holds.

        Raises
        ------
        NotReleasedError
            If the call had no `focus`.

        Examples
        --------
        >>> rows["arm"] = rng.integers(0, 2, 2000)
        >>> domain = {"x": (0, 1), "arm": [0, 1], "y": (0, 1)}
        >>> trial = dp.logit("y ~ arm + x", rows, 1.0, domain=domain, focus="arm")
        >>> trial.focus().index.tolist()
        ['arm[T.1]']
        """
        if self.arm_sums is None:
            named = argument("focus")
            raise NotReleasedError(f"focus: {named} with the name of a randomised treatment buys its interval")
        with quiet():
            return focus_table(self.plan, self.scaled_params, self.arm_sums, alpha)

    def _compared(
        self, name: str, newdata: Any, by: str | None, offset: Any, table: Callable[[Comparer], pd.DataFrame]
    ) -> pd.DataFrame:
        """A table of averages over private rows or those of `newdata`."""
        model, family = FittedColumns(self.plan, self._inferred, self._fitted_columns), self.plan.family
        if family.link == "none" or family.name.endswith("svm"):
            raise NotReleasedError("comparisons and predictions: a support vector machine has no mean response")

        def rows(frame: pd.DataFrame) -> tuple[Vector, Vector]:
            own = None if given is None else given[frame.index]
            exog, complete, _, added = self._model_rows(frame, own, warns=False)
            exog, added = exog[complete][:, model.columns], added[complete]
            capped[self._capped_means(exog @ debiased_params(model.errors), added)] = None
            return exog, added

        if not isinstance(by, str | None):
            raise ArgumentError(f"by takes one column, got {safe_repr(by)}; add one that numbers the groups")
        given: Vector | None = None
        capped: dict[str, None] = {}  # as averages are worked out: also of rows as a comparison changes them
        source: PrivateRows | PublicRows = PrivateRows(name, self.plan, self._fit_statistics)
        if newdata is None and offset is not None:
            raise ArgumentError(f"{name}: offset and exposure are of the rows of newdata; pass these too")
        if newdata is not None:
            design, frame = self.predicting_design, public_frame(newdata)
            given = None if offset is None else as_offset(offset, len(frame))
            spec = design if isinstance(design, DesignSpec) else None
            domain, read = ({}, ()) if spec is None else (spec.model_domain, spec.parsed.exog_columns)
            if isinstance(design, DesignSpec):  # once of all rows: they are changed, and read again and again
                warn_of_cells(design, as_table(frame), offset=given is None)
            source = PublicRows(name, model.errors, frame, rows, self._mean, domain, read, by)
        with quiet():
            made = table(Comparer(model, source))
        for text in filter(None, capped):
            warnings.warn(text, UserWarning, stacklevel=3)
        return made

    @property
    def information(self) -> pd.DataFrame:
        """The information matrix of the fitted columns as released, with its noise, in model units, shape (k, k).

        Raises
        ------
        NotReleasedError
            If the call did not release it, like all below.
        """
        if self.released is None:
            raise NotReleasedError(missing_information(self.plan))
        names = self._fitted_names
        return WideFrame(self.released.matrix, index=names, columns=names)

    @property
    def noise_at_most(self) -> pd.Series[float]:
        """A proved bound on the standard deviation that the noise gives each coefficient, in the user's units.

        Of the part that is linear in the noise, from public values alone (docs/proofs/inference, 10); of two stages,
        of the last. It needs no inference. It holds however few the rows are, so with many of them the noise is far
        less: only a coefficient beyond it says something. Of output perturbation it is the exact standard deviation of
        the noise, however many rows there are; of released statistics what it is at the released sums.
        """
        columns = np.flatnonzero(self.plan.kept) if self.released is None else np.array(self.released.columns)
        last = self.plan.stages[-1].plan
        if self.released is None and last.size != len(columns):
            columns = np.flatnonzero(self.scaled_params)
        bounds = np.full(len(self.plan.names), np.nan)
        if isinstance(self.released, ReleasedSums):
            bounds[columns] = sums_noise(self.plan, self.scaled_params, self.released)
        elif len(columns) == last.size:
            transform, _ = self.plan.design.back_transform()
            bounds[columns] = last.noise_bounds(transform[np.ix_(columns, columns)])
        return pd.Series(bounds, index=list(self.plan.names), name="noise_at_most")

    @property
    def in_model(self) -> NDArray[np.bool_]:
        kept = self.plan.kept
        return kept & (self.scaled_params != 0) if _is_sparse(self.plan) else kept

    @cached_property
    def predicting_design(self) -> PublicDesign:
        """The design as a prediction reads it: without the terms that are not in the model."""
        design = self.plan.design
        if not self.selects or not isinstance(design, DesignSpec):
            return design
        read = self.in_model.copy()
        if self.has_errors:
            read[self._fitted_columns] = True
        return design.without_terms([term.name for term in design.terms if not read[term.columns].any()])

    @property
    def ignores_selection(self) -> bool:
        chosen = self.plan.screening is not None or any(role == "refit" for role, _ in self.plan.stages)
        return chosen and self.plan.request.options.split is None

    @property
    def _fitted_columns(self) -> NDArray[np.intp]:
        assert self.released is not None
        return np.array(self.released.columns)


def _is_sparse(plan: Plan) -> bool:
    """Whether the penalty of the fit, with what the noise brought into it, sets coefficients to zero."""
    penalty = plan.objective.penalty
    return penalty is not None and penalty.sparse

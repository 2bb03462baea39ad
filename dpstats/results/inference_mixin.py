"""The inferential part of a result: errors, intervals, tests and predictions, all post-processing."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_flag, check_fraction, explain_calls, is_number, near_miss, safe_repr
from dpstats.data import as_endog, as_exog, as_table
from dpstats.errors import ArgumentError, DataError, NotReleasedError
from dpstats.families import Family, Poisson
from dpstats.formula.design import DesignSpec
from dpstats.formula.patsy_internals import DesignInfo, PatsyError
from dpstats.frames import NotedFrame, WideFrame
from dpstats.inference import Inference, mean_response, wald_test
from dpstats.mechanisms.design import PublicDesign
from dpstats.plots import draw_result
from dpstats.quiet import quiet
from dpstats.results.cell_warnings import warn_of_cells
from dpstats.results.contrasts import (
    TESTED,
    ContrastTests,
    PredictionResults,
    WaldTest,
    WaldTestTerms,
    as_ratios,
    log_scale_note,
    with_pvalues_note,
)
from dpstats.results.standard_errors import ReleasedErrors
from dpstats.wording import argument

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpstats.formula.bounds import Term

Vector = NDArray[np.float64]


ROWS_AT_ONCE = 65_536
"""Rows whose intervals are worked out at a time: of all others only the results are in memory."""


class NewRows(NamedTuple):
    """Rows for prediction: in model units, which are complete, their labels, and what is added to x'theta."""

    exog: Vector
    complete: NDArray[np.bool_]
    labels: pd.Index | None
    offset: Vector


def _array_rows(design: PublicDesign, newdata: Any, offset: Any) -> NewRows:
    """Rows for prediction of a model of plain arrays."""
    matrix = as_exog(newdata)
    if matrix.size != len(design.names):
        raise DataError(f"newdata must have {len(design.names)} columns, got {matrix.size}")
    if offset is None and design.offset_bound > 0:
        zero = argument("offset", 0)
        raise ArgumentError(f"offset must be given, as the model was fitted with one: {zero} leaves it out")
    rows = matrix.block(slice(0, matrix.rows))
    own = as_offset(0.0 if offset is None else offset, len(rows))
    return NewRows(rows, np.isfinite(rows).all(axis=1) & np.isfinite(own), pd.RangeIndex(len(rows)), own)


def with_exposure(link: str, offset: Any, exposure: Any) -> Any:
    """The offset that a positive exposure stands for, added to another if there is one. It needs a log link."""
    if exposure is None:
        return offset
    if link != "log":
        raise ArgumentError(
            f"exposure needs a log link, and the link of this model is {link!r}; {argument('offset')} works with "
            "any link"
        )
    try:
        given = np.asarray(exposure, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.zeros(1)
    if not (given > 0).all():
        raise ArgumentError("exposure must be a positive number, or one for each row; its logarithm is added")
    return np.log(given)[()] + (0.0 if offset is None else np.asarray(offset, dtype=np.float64))


def as_offset(offset: Any, rows: int) -> Vector:
    """A number, or one for each of some rows, shape (rows,); ArgumentError or DataError if it is neither."""
    if is_number(offset):
        return np.full(rows, float(offset))
    column = as_endog(offset, "offset")
    if len(column) != rows:
        raise ArgumentError(f"offset must be a number or have one for each of the {rows} rows, got {len(column)}")
    return column.numbers()


class InferenceMixin:
    """Standard errors, tests and intervals of released coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.integers(0, 2, 2000)}
    >>> fit = dp.logit("y ~ x", rows, eps=2.0, domain={"x": (0, 1), "y": (0, 1)})
    >>> fit.has_errors, fit.scale
    (True, 1.0)
    >>> fit.debiased.shape == fit.bse.shape == fit.tvalues.shape == fit.pvalues.shape
    True
    >>> fit.identified.index.equals(fit.noise_at_most.index)
    True
    >>> fit.information.shape, list(fit.variance_shares.columns)
    ((2, 2), ['sampling', 'noise', 'information'])
    >>> axes = fit.plot(by_range=True)  # with the extra "plots"
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['x']
    >>> fit.conf_int(alpha=0.1).shape
    (2, 2)
    >>> fit.cov_params().shape
    (2, 2)
    >>> fit.uncertainty().index.tolist()
    ['Intercept', 'x']
    >>> 0 <= fit.wald_test("Intercept = 0, x = 0").pvalue <= 1
    True
    >>> list(fit.wald_test_terms().table.index)
    ['Intercept', 'x']
    >>> "x" in fit.anova().index
    True
    """

    @property
    def _design(self) -> PublicDesign:
        """The columns whose coefficients were released."""
        raise NotImplementedError

    @property
    def in_model(self) -> NDArray[np.bool_]:
        """Which columns of the design are in the model, shape (p,): all, but for a selection."""
        return np.ones(len(self._design.names), dtype=bool)

    @property
    def predicting_design(self) -> PublicDesign:
        """The design as a prediction reads it: without the terms that are not in the model."""
        return self._design

    @property
    def _family(self) -> Family:
        """The loss of the fit, with all caps set."""
        raise NotImplementedError

    @property
    def _inferred(self) -> ReleasedErrors:
        """Errors of the columns that were fitted last; NotReleasedError if there are none."""
        raise NotImplementedError

    @property
    def _fitted_columns(self) -> NDArray[np.intp]:
        """Positions in the design of the columns that were fitted last: of all, unless a selection came first."""
        return np.arange(len(self._design.names))

    @property
    def params(self) -> pd.Series[float]:
        """Coefficients as released, in the user's units."""
        raise NotImplementedError

    @property
    def has_errors(self) -> bool:
        """Whether standard errors were released."""
        return True

    @property
    def _inference(self) -> Inference:
        return self._inferred.table

    @property
    def debiased(self) -> pd.Series[float]:
        """Bias-corrected coefficients in the user's units; as released where they are not identified.

        Standard errors, intervals and tests refer to them. `params` predicts better.
        """
        values = self._series(self._inference.coef, "debiased", other=0.0)
        # In the user's units, coefficients that are not identified may depend on some that are.
        return values.mask(np.isinf(self.bse), self.params)

    @property
    def identified(self) -> pd.Series[bool]:
        """Whether the budget identifies each coefficient: whether its 95 % interval is bounded."""
        bounded = np.isfinite(self._inference.se)
        return self._series(bounded.astype(float), "identified", other=0.0).astype(bool)

    @property
    def bse(self) -> pd.Series[float]:
        """Standard errors of `debiased`: half-widths of 95 % intervals over 1.96.

        inf where the budget does not identify the coefficient, NaN for columns not in the fit.
        """
        return self._series(self._inference.se, "bse")

    @property
    def tvalues(self) -> pd.Series[float]:
        """`debiased` over `bse`; NaN where the budget does not identify the coefficient."""
        return self._series(self._inference.tvalues, "tvalues")

    @property
    def pvalues(self) -> pd.Series[float]:
        """p-values of the tests that a coefficient is zero; NaN where the budget does not identify it.

        They follow from the joint distribution of noise and sampling error, not from `tvalues` and a normal table.
        """
        return self._series(self._inference.pvalues, "pvalues")

    def plot(self, kind: str = "coefficients", **arguments: Any) -> Axes:
        """Draw "coefficients", "shares" (of errors), the "effect" of a column, or "survival"; see `dpstats.plots`.

        "survival" is of hazards, and takes the persons whose survival is drawn: ``fit.plot("survival", newdata=...)``.
        """
        return draw_result(self, kind, **arguments)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals of coverage 1 - alpha for each coefficient; columns 0 and 1."""
        ends = self._inference.conf_int(alpha)
        return WideFrame({side: self._series(ends[:, side], "ends") for side in (0, 1)})

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the errors of `debiased`, for the fitted columns; its diagonal is ``bse**2``.

        Robust and clustered fits release the variance of each coefficient but no covariances: these are NaN, and
        `t_test` tests combinations by an upper bound. In other fits covariances are NaN for a coefficient that is not
        identified, whose variance is infinite; `t_test` and `wald_test` are more accurate than the matrix, because they
        account for the noise in the information of each combination.
        """
        matrix, names = self._inference.cov_params(), self._fitted_names
        table = NotedFrame(pd.DataFrame(matrix, index=names, columns=names))
        if not self._inference.estimates.is_model:
            table.attrs["note"] = (
                "Covariances are not released: a fit with robust or clustered errors releases variances alone. t_test "
                "tests combinations of coefficients."
            )
        return table

    @explain_calls()
    def tidy(self, *, exponentiate: bool = False, conf_int: bool = True, conf_level: float = 0.95) -> pd.DataFrame:
        """One row per coefficient in the model, with the column names of broom.

        As broom does for glmnet, it leaves out the zeros of columns that are not in the model after `screen=` or a
        lasso: `params` has them, and `left_out` their names.

        The columns are term; estimate, in the user's units, bias-corrected (`debiased`) with inference; std_error,
        statistic, p_value, conf_low and conf_high, which are NaN without; released, the coefficient as released.
        Generalized linear models also have scaled_released, as released in model units, and fits of rows
        noise_at_most.

        Parameters
        ----------
        exponentiate : bool
            For a logit or log link: estimate, conf_low and conf_high become odds ratios or ratios of means. std_error
            stays that of the coefficient, on the log scale, as in broom, and so do released and the other columns.
        conf_int : bool
            Whether conf_low and conf_high are there.
        conf_level : float
            The coverage of these intervals.

        Raises
        ------
        ArgumentError
            If the link is another one for `exponentiate`, or an argument is not as described.

        Examples
        --------
        >>> "estimate" in fit.tidy().columns
        True
        """
        level, link = check_fraction("conf_level", conf_level), self._family.link
        ends = check_flag("conf_int", conf_int)
        table = pd.DataFrame({"term": list(self.params.index), "estimate": self.params.to_numpy()})
        if self.has_errors:
            # Rounded, so that 0.95 is the alpha 0.05 of other tables.
            table[list(TESTED)] = self.uncertainty(round(1 - level, 15)).to_numpy()
        else:
            table = table.reindex(columns=["term", *TESTED])
        table = table if ends else table.drop(columns=["conf_low", "conf_high"])
        if check_flag("exponentiate", exponentiate):
            if link not in ("logit", "log"):
                raise ArgumentError(f"exponentiate needs a logit or log link; the link of this model is {link!r}")
            table = as_ratios(table)
        table = table.assign(**self._as_released())
        frame = NotedFrame(table[self.in_model].reset_index(drop=True))
        if exponentiate:
            frame.attrs["note"] = log_scale_note(frame)
        return frame

    def _as_released(self) -> dict[str, NDArray[Any]]:
        """The last columns of `tidy`: coefficients as released."""
        return {"released": self.params.to_numpy()}

    def uncertainty(self, alpha: float = 0.05) -> pd.DataFrame:
        """The regression table as a frame: coef, std_error, z, p_value, low and high, one row a coefficient."""
        ends = self.conf_int(alpha)
        columns = [self.debiased, self.bse, self.tvalues, self.pvalues, ends[0], ends[1]]
        names = ["coef", "std_error", "z", "p_value", "low", "high"]
        return WideFrame(dict(zip(names, columns, strict=True)))

    @property
    def variance_shares(self) -> pd.DataFrame:
        """Of the squared standard error, the shares of sampling, of the noise in the fit and in the information."""
        shares = self._inference.shares
        names = ["sampling", "noise", "information"]
        return WideFrame({name: self._series(shares[:, at], name) for at, name in enumerate(names)})

    @property
    def scale(self) -> float:
        """The dispersion used for the errors, in squared units of the response; 1 for 0/1 and negative binomial
        responses.
        """
        spread = self._inference.estimates.spread
        if not hasattr(spread, "value"):
            model, unit = argument("inference", "model"), argument("unit")
            raise NotReleasedError(f"scale: robust errors need no dispersion; {model} buys it in fits without {unit}")
        ratio = self._design.score_ratio or 1.0
        return float(spread.value) / ratio * self._design.response_scaling()[1] ** 2

    def t_test(self, r_matrix: Any, alpha: float = 0.05) -> ContrastTests:
        """Test linear combinations of the coefficients one by one.

        Parameters
        ----------
        r_matrix : str, list of str, dict, tuple or array_like, shape (k, p)
            Such as ``"x1 - x2 = 0"``, or the weights of the combinations, tested against 0; ``(weights, values)`` tests
            against other values. A line of the table is named by the hypothesis where it is given as text, and c0, c1,
            ... otherwise.
        alpha : float
            One minus the coverage of the intervals.

        Raises
        ------
        NotReleasedError
            If inference was not released.
        ArgumentError
            If `r_matrix` is not usable, or names a column that is not in the fit.

        Examples
        --------
        >>> fit.t_test("Intercept + x = 0, x = 0.5").names
        ('Intercept + x', 'x = 0.5')
        """
        inference = self._inference
        rows, values, names = self._constraints(r_matrix)
        return ContrastTests.of(inference.t_test(rows, values, alpha), names, alpha)

    def wald_test(self, r_matrix: Any) -> WaldTest:
        """Test linear combinations of the coefficients all at once; arguments and errors as for `t_test`.

        The name of a term tests all of its coefficients, as in `wald_test_terms`.

        Robust and clustered fits release no correlations of errors: the test is then Bonferroni's, which rejects at
        most as often as its level whatever the correlations.
        """
        inference = self._inference
        if isinstance(r_matrix, str) and r_matrix not in self._design.names:
            for term in self._design.terms:
                if term.name == r_matrix and (joint := self._term_test(term)) is not None:
                    return joint
        rows, values, _ = self._constraints(r_matrix)
        test = inference.wald_test(rows, values)
        return WaldTest(test.statistic, test.pvalue, test.df, test.untested, test.bonferroni)

    def wald_test_terms(self) -> WaldTestTerms:
        """Test for each term that all of its coefficients are zero: the analysis of variance of the model.

        Each is tested as by `wald_test`.
        """
        rows: dict[str, tuple[float, ...]] = {}
        bonferroni = False
        for term in self._design.terms:
            if (test := self._term_test(term)) is not None:
                bonferroni |= test.bonferroni
                rows[term.name] = (test.statistic, test.pvalue, test.df_constraint, test.untested)
        names = ["statistic", "pvalue", "df_constraint", "untested"]
        table = pd.DataFrame.from_dict(rows, orient="index", columns=names)
        table = table.astype({"df_constraint": int, "untested": int})
        return WaldTestTerms(with_pvalues_note(table, bonferroni=bonferroni))

    def _term_test(self, term: Term) -> WaldTest | None:
        """Of all coefficients of a term; None if the fit has none of them."""
        errors, columns = self._inferred, self._fitted_columns
        places = np.flatnonzero((columns >= term.columns.start) & (columns < term.columns.stop))
        if not len(places):
            return None
        unshown = 0 if errors.table.withheld is None else int(np.sum(errors.table.withheld[places]))
        if errors.table.withheld is not None:
            places = places[~errors.table.withheld[places]]
        weights = np.eye(len(columns))[places]
        if term.name == "Intercept":
            test = errors.table.wald_test(weights)
        else:  # a term's coefficients are zero if they are so from whichever level they are measured
            test = wald_test(errors.table.estimates, weights, errors.nulls[places])
        # Nothing was tested if no coefficient of the term is identified.
        tested = (test.statistic, test.pvalue) if test.df else (np.nan, np.nan)
        return WaldTest(*tested, test.df, test.untested + unshown, test.bonferroni)

    def anova(self) -> pd.DataFrame:
        """The table of `wald_test_terms`.

        p-values account for the noise in the standard errors: a statistic in which this noise plays a larger part may
        be the larger one and have the larger p-value.
        """
        return self.wald_test_terms().table

    def get_prediction(
        self, newdata: Any, alpha: float = 0.05, *, offset: Any = None, exposure: Any = None
    ) -> PredictionResults:
        """The mean response at public rows with intervals, each valid by itself.

        An interval is that of the linear predictor, transformed by the inverse link, so with another link than the
        identity it differs from that of `predictions` for the same mean, which is symmetric (delta method).

        Parameters
        ----------
        newdata : DataFrame or another table, or ndarray of shape (rows, p) for a model of plain arrays
            As for `predict`.
        alpha : float
            One minus the coverage of the intervals.
        offset, exposure : float or array_like, shape (rows,), optional
            As for `predict`.

        Raises
        ------
        NotReleasedError
            If inference was not released, or the family has no mean (the SVMs).
        DataError
            If `newdata` lacks a column the formula needs, or has the wrong shape.

        Examples
        --------
        >>> fit.get_prediction({"x": [0.2, 0.8]}).summary_frame().shape[0]
        2
        """
        errors, family = self._inferred, self._family
        if family.link == "none" or family.name.endswith("svm"):
            raise NotReleasedError("get_prediction: a support vector machine has no mean response; use predict")
        offset = with_exposure(family.link, offset, exposure)
        rows, complete, index, added = self._model_rows(newdata, offset)
        scale = self._design.response_scaling()[1] if family.response == "continuous" else 1.0
        mean, se, interval, *linear = every = [np.full((len(rows), *more), np.nan) for more in ((), (), (2,)) * 2]
        known = np.flatnonzero(complete)
        for start in range(0, max(len(known), 1), ROWS_AT_ONCE):
            at = known[start : start + ROWS_AT_ONCE]
            fitted = rows[at][:, self._fitted_columns]
            with quiet():
                shift = fitted @ errors.center + added[at]
                answer = mean_response(errors.table.estimates, fitted @ errors.basis, self._mean, shift, alpha)
                step = 1e-6
                slope = (self._mean(answer.linear + step) - self._mean(answer.linear - step)) / (2 * step)
                error = np.where(np.isfinite(answer.linear_se), np.abs(slope) * answer.linear_se, np.inf)
            parts = [answer.mean, error, answer.mean_interval]
            parts += [scale * part for part in (answer.linear, answer.linear_se, answer.linear_interval)]
            for whole, part in zip(every, parts, strict=True):
                whole[at] = part
        self._warn_of_capped_means(linear[0][known] - added[known], added[known])
        again = partial(self.get_prediction, newdata, offset=offset)
        return PredictionResults(index, mean, se, interval, linear[0], linear[1], linear[2], alpha, again)

    @property
    def _fitted_names(self) -> list[str]:
        return [self._design.names[column] for column in self._fitted_columns]

    def _series(self, values: Vector, name: str, other: float = np.nan) -> pd.Series[float]:
        """Values of the fitted columns among all columns."""
        whole = np.full(len(self._design.names), other)
        whole[self._fitted_columns] = values
        return pd.Series(whole, index=list(self._design.names), name=name)

    def _mean(self, linear: Vector) -> Vector:
        """Scaled linear predictors as mean responses in the user's units."""
        return self._in_units(np.asarray(self._family.mean(linear), dtype=np.float64))

    def _in_units(self, values: Vector) -> Vector:
        """Scaled responses, or linear predictors of continuous ones, in the user's units."""
        if self._family.response != "continuous":
            return values
        middle, half_width = self._design.response_scaling()
        return np.asarray(middle + half_width * values)

    def _capped_means(self, linear: Vector, offset: Vector) -> str:
        """What to know of means beyond the cap of a Poisson fit, at x'theta and its offset; empty if there are none."""
        family, design = self._family, self.predicting_design
        # Without an offset or an exposure the cap is among the limits that were declared for the response.
        if not isinstance(family, Poisson) or not offset.any():
            return ""
        if not np.any(beyond := linear + offset > family.knots()[0]):
            return ""
        cap, most = family.curvature_bound, family.lipschitz
        of_one = design.scaled_offset(np.zeros(1)) if isinstance(design, DesignSpec) else 0.0  # offsets are centered
        longer = bool(np.any(beyond & (linear + of_one <= family.knots()[0])))  # only the exposure leads beyond the cap
        limit = f"means are at most {most:.4g}, the mean cap of this fit"
        if cap < most:
            slowly = "more slowly than the exposure" if longer else "ever more slowly"
            limit = f"means above {cap:.4g}, the mean cap of this fit, rise {slowly}, to at most {most:.4g}"
        if longer:
            return f"{limit}: predict with {argument('exposure', 1)}, and multiply the rates"
        return f"{limit}; a fit with a larger {argument('y_max')} or {argument('mean_cap')} has a higher cap"

    def _warn_of_capped_means(self, linear: Vector, offset: Vector) -> None:
        """Warn of means beyond the cap of a fit, which do not rise as its coefficients say."""
        with quiet():
            text = self._capped_means(linear, offset)
        if text:
            warnings.warn(text, UserWarning, stacklevel=4)

    def _model_rows(
        self, newdata: Any, offset: Any, *, warns: bool = True, coefficients: Vector | None = None
    ) -> NewRows:
        """Rows for prediction in model units; `offset` is what the caller gave of one, or None.

        With `coefficients` x'theta in place of x, shape (rows, 1), which needs less memory.
        """
        design = self.predicting_design
        if not isinstance(design, DesignSpec):
            given = _array_rows(design, newdata, offset)
            if coefficients is None:
                return given
            with quiet():
                return given._replace(exog=(given.exog @ coefficients)[:, None])
        table, parsed = as_table(newdata), design.parsed
        read = [] if offset is not None else [name for name in parsed.predicting_columns if not table.count(name)]
        if missing := [name for name in read if name not in parsed.exog_columns]:
            raise DataError(
                f"newdata has no column {missing[0]!r}, which the offset of this model reads: add it, or pass "
                f"{argument('exposure', 1.0)} for a rate where the link is a logarithm, or {argument('offset', 0.0)}"
            )
        exog, complete, own = design.predicting(table, offset=offset is None, coefficients=coefficients)
        if warns:
            warn_of_cells(design, table, offset=offset is None)
        if offset is not None:
            own = design.scaled_offset(as_offset(offset, len(exog)))
            complete = complete & np.isfinite(own)
        return NewRows(exog, complete, table.index, own)

    def _constraints(self, r_matrix: Any) -> tuple[Vector, Vector, tuple[str, ...]]:
        """Weights among the fitted columns, shape (k, fitted), values to test against, and names."""
        names = list(self._design.names)
        try:
            constraint = DesignInfo(names).linear_constraint(r_matrix)
        except (PatsyError, ValueError, TypeError, LookupError, OverflowError) as error:
            if (wrong := _unknown_name(r_matrix, names)) is not None:
                near, every = near_miss(wrong, names), f"columns: {', '.join(names)}"
                fix = f"did you mean {near!r}?" if near else every
                terms = [
                    one.name for one in self._design.terms if one.name == wrong or one.name.startswith(f"{wrong}(")
                ]
                if terms:
                    fix = f"wald_test({terms[0]!r}) tests all columns of a term at once; {every}"
                raise ArgumentError(f"r_matrix: no column of the model is called {safe_repr(wrong)}; {fix}") from None
            raise ArgumentError(
                f"r_matrix must be an array of {len(names)} columns, or text such as '{names[-1]} = 0'; columns: "
                f"{', '.join(names)}"
            ) from error
        weights, values = np.asarray(constraint.coefs, dtype=np.float64), np.asarray(constraint.constants).ravel()
        columns = self._fitted_columns
        outside = np.any(np.delete(weights, columns, axis=1) != 0, axis=0)
        if outside.any():
            left_out = np.delete(np.array(names), columns)[outside]
            raise ArgumentError(f"r_matrix: {left_out[0]} is not in the fit and cannot be tested")
        as_text = isinstance(r_matrix, (str, Mapping)) or all(isinstance(one, str) for one in r_matrix)
        shown = tuple(
            _hypothesis(dict(zip(names, row, strict=True)), value) if as_text else f"c{number}"
            for number, (row, value) in enumerate(zip(weights, values, strict=True))
        )
        return weights[:, columns], values.astype(np.float64), shown


def _hypothesis(weights: Mapping[str, float], value: float) -> str:
    """A combination of coefficients and the value that it is tested against, as text; without a value of 0."""
    sum_of = ""
    for name, weight in weights.items():
        if weight:
            size = "" if abs(weight) == 1 else f"{abs(weight):g}*"
            sum_of += f" {'-' if weight < 0 else '+'} {size}{name}"
    # The first sign stands at its name, and only where it is a minus.
    sum_of = f"-{sum_of[3:]}" if sum_of.startswith(" -") else sum_of[3:]
    return f"{sum_of} = {value:g}" if value else sum_of


def _unknown_name(r_matrix: Any, names: Sequence[str]) -> str | None:
    """The first name in combinations of coefficients that none of them has, if there is one."""
    if isinstance(r_matrix, Mapping):
        return next((str(name) for name in r_matrix if name not in names), None)
    texts = [r_matrix] if isinstance(r_matrix, str) else r_matrix
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        return None
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    rest = (re.sub(rf"(?<!\w)(?:{known})(?![\w\[])", " ", text) for text in texts)
    return next((word for text in rest for word in re.findall(r"[^\W\d][\w.]*(?:\[[^\]]*\])?", text)), None)


def shows_errors(results: InferenceMixin) -> bool:
    """Whether the budget identifies any coefficient, so that there are errors to show."""
    return results.has_errors and bool(np.isfinite(results._inference.se).any())

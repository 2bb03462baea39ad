"""What every fitted model has: its coefficients in the user's units, its inference and its predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.families import Family, Gaussian, Quantile
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import PublicDesign
from dpstats.privacy.guarantee import Guarantee
from dpstats.quiet import quiet
from dpstats.results.inference_mixin import (
    InferenceMixin,
    NewRows,
    with_exposure,
)
from dpstats.results.stored import Released

Vector = NDArray[np.float64]


_QUALITY = (
    "fit.fitstats has R2 or the deviance explained of a fit with standard errors and without offset, weights and "
    "unit; dp.evaluate measures both, and calibration, on any rows"
)
_RESIDUALS = "dp.evaluate buys residuals in bins of the fitted values"
_FITTED = "predict(newdata) gives the mean at public rows; predictions for private rows are not protected"
_COVARIANCE = "cov_params() is the covariance of the errors"

_ROWS = (
    "the number of rows is private: adjacency='replace_one' makes it public (nobs), and fitstats or dp.check buys it"
)

NOT_RELEASED = {
    **dict.fromkeys(("df_resid", "n_obs"), _ROWS),
    **dict.fromkeys(("aic", "bic", "deviance", "llf", "null_deviance", "pearson_chi2", "rsquared"), _QUALITY),
    **dict.fromkeys(("resid", "residuals", "resid_deviance", "resid_pearson", "resid_response"), _RESIDUALS),
    **dict.fromkeys(("fitted", "fittedvalues"), _FITTED),
    **dict.fromkeys(("normalized_cov_params", "vcov"), _COVARIANCE),
}
"""What results of statsmodels or R have and these have not, as functions of the rows, and what there is instead."""


class FittedPlan(Protocol):
    """What a model is of: the plan of a fit, or that of a stream."""

    @property
    def design(self) -> PublicDesign: ...
    @property
    def family(self) -> Family: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def formula(self) -> str | None: ...
    @property
    def df_model(self) -> int: ...
    @property
    def guarantee(self) -> Guarantee: ...


@dataclass(frozen=True, eq=False)
class FittedModel(InferenceMixin, Released):
    """Released coefficients and what follows from them; of rows and of streams.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> fit = dp.ols("y ~ x", rows, eps=1.0, domain={"x": (0, 1), "y": (0, 1)})
    >>> fit.formula, fit.df_model, fit.family.name
    ('y ~ x', 1, 'gaussian')
    """

    plan: FittedPlan
    scaled_params: Vector

    not_released: ClassVar[Mapping[str, str]] = NOT_RELEASED

    @property
    def params(self) -> pd.Series[float]:
        """Coefficients in the user's units, indexed by column name."""
        matrix, shift = self.plan.design.back_transform()
        return pd.Series(matrix @ self.scaled_params + shift, index=list(self.plan.names), name="params")

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of everything this object shows."""
        return self.plan.guarantee

    @property
    def formula(self) -> str | None:
        """The formula; None for a model of plain arrays."""
        return self.plan.formula

    @property
    def df_model(self) -> int:
        """Coefficients besides the intercept."""
        return self.plan.df_model

    @property
    def family(self) -> Family:
        """The loss, with its caps; that of residuals in the response's units, as it was or could be given."""
        family = self.plan.family
        if isinstance(family, Gaussian) and family.residual_cap is not None:
            return replace(family, residual_cap=family.residual_cap * self.plan.design.response_scaling()[1])
        if isinstance(family, Quantile) and family.h is not None:
            return replace(family, h=family.h * self.plan.design.response_scaling()[1])
        return family

    @property
    def ignores_selection(self) -> bool:
        """Whether errors are those of columns that the same data chose, and not adjusted for it."""
        return False

    @property
    def _design(self) -> PublicDesign:
        return self.plan.design

    @property
    def _family(self) -> Family:
        return self.plan.family

    def _as_released(self) -> dict[str, NDArray[Any]]:
        return super()._as_released() | {"scaled_released": self.scaled_params}

    def predict(
        self,
        newdata: Any,
        which: Literal["mean", "linear", "decision", "class"] = "mean",
        *,
        offset: Any = None,
        exposure: Any = None,
    ) -> Any:
        """Predictions for new rows; post-processing of the released coefficients.

        Parameters
        ----------
        newdata : DataFrame or another table, or ndarray of shape (rows, p) for a model of plain arrays
            Numeric columns are clipped to the Domain's ranges, as in the fit, with a warning; beyond ranges outside of
            which the fit left rows out predictions are extrapolations, with a warning too. Columns of terms that
            screening or a sparse penalty left out are not read.
        which : {"mean", "linear", "decision", "class"}
            The expected response (for an SVM the decision as 0 or 1), or the linear predictor. Of a response of two
            values also the decision function, positive for the second of them, or the class itself, as the Domain
            declares it.
            Of a response of successes and failures "mean" is the chance of a success.
        offset : float or array_like, shape (rows,), optional
            Takes the place of the formula's offset or exposure, whose columns `newdata` then need not have: 0 predicts
            for an exposure of 1. A model of arrays that has an offset asks for it.
        exposure : float or array_like, shape (rows,), optional
            For a log link: its logarithm is the offset. Means of a Poisson fit that exceed its cap rise more slowly
            than the exposure, with a warning, as any means beyond the cap.

        Returns
        -------
        Series indexed as `newdata`, or ndarray of shape (rows,)
            In the response's units. NaN for rows with a missing value or a level that is not declared; a warning of
            each names the columns and counts the rows.

        Raises
        ------
        ArgumentError
            If `which` is unknown or asks for a class where the response is a number, or `offset` is missing.
        DataError
            If `newdata` lacks a column that the model needs, or has the wrong shape.

        Examples
        --------
        >>> fit.predict(pd.DataFrame({"x": [0.2, 0.8]}, index=["Ada", "Bo"])).index.tolist()
        ['Ada', 'Bo']
        """
        binary = self.plan.family.response == "binary"
        if not isinstance(which, str) or which not in ("mean", "linear", *(("decision", "class") if binary else ())):
            more = ", 'decision' or 'class'" if binary else "; only a response of two values has classes"
            raise ArgumentError(f"which must be 'mean' or 'linear'{more}, got {safe_repr(which)}")
        offset = with_exposure(self.plan.family.link, offset, exposure)
        return self._predicted(self._model_rows(newdata, offset, coefficients=self.scaled_params), which)

    def _predicted(self, rows: NewRows, which: str = "mean") -> Any:
        """Predictions for rows of which x'theta is known."""
        predicted = np.full(len(rows.exog), np.nan)
        if which == "mean":
            self._warn_of_capped_means(rows.exog[rows.complete, 0], rows.offset[rows.complete])
        with quiet():
            linear = rows.exog[rows.complete, 0] + rows.offset[rows.complete]
            if which == "class":
                predicted[rows.complete] = linear > 0
            else:
                predicted[rows.complete] = self._mean(linear) if which == "mean" else self._in_units(linear)
        design = self.plan.design
        if not isinstance(design, DesignSpec):
            return predicted
        values: Any = predicted
        if which == "class" and design.response.levels is not None:
            values = np.full(len(predicted), np.nan, dtype=object)
            values[rows.complete] = [design.response.levels[int(second)] for second in predicted[rows.complete]]
        return pd.Series(values, index=rows.labels, name="predicted")

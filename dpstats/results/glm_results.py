"""What a fitted model keeps: released coefficients and public facts, never rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_flag, safe_repr
from dpstats.errors import ArgumentError, NotReleasedError
from dpstats.families import Family, Gaussian
from dpstats.formula.design import DesignSpec
from dpstats.frames import WideFrame
from dpstats.mechanisms.information import Information, ReleasedSums
from dpstats.plan import Plan
from dpstats.plots import draw_result
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.noise import Noise
from dpstats.quiet import quiet
from dpstats.results.inference_mixin import with_exposure
from dpstats.results.model import ReleasedModel
from dpstats.results.statistics import ReleasedStatistics
from dpstats.results.stored import Released
from dpstats.results.summary import Summary, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]

_QUALITY = "dp.evaluate buys deviance explained, R2 and calibration, on rows held out or not"
_RESIDUALS = "dp.evaluate buys residuals in bins of the fitted values"
_FITTED = "predict(newdata) gives the mean at public rows; predictions for private rows are not protected"
_COVARIANCE = "cov_params() is the covariance of the errors"

_ROWS = "the number of rows is private: adjacency='replace_one' makes it public (nobs), and dp.check buys it"

TESTED = ("estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high")
"""What broom calls the columns of a regression table."""

NOT_RELEASED = {
    **dict.fromkeys(("df_resid", "n_obs"), _ROWS),
    **dict.fromkeys(("aic", "bic", "deviance", "llf", "null_deviance", "pearson_chi2", "rsquared"), _QUALITY),
    **dict.fromkeys(("resid", "residuals", "resid_deviance", "resid_pearson", "resid_response"), _RESIDUALS),
    **dict.fromkeys(("fitted", "fittedvalues"), _FITTED),
    **dict.fromkeys(("normalized_cov_params", "vcov"), _COVARIANCE),
    "get_margeff": "it averages over the rows; get_prediction gives the mean with an interval at public rows",
}
"""What results of statsmodels or R have and these have not, as functions of the rows, and what there is instead."""


def as_ratios(table: pd.DataFrame, link: str) -> pd.DataFrame:
    """A tidy table with estimates and ends of intervals exponentiated; ArgumentError unless the link is a logarithm."""
    if link not in ("logit", "log"):
        raise ArgumentError(f"exponentiate needs a logit or log link; this one's is {link!r}")
    ratios = [name for name in ("estimate", "conf_low", "conf_high") if name in table]
    with np.errstate(over="ignore"):
        return table.assign(**{name: np.exp(table[name].to_numpy()) for name in ratios})


class GLMResults(ReleasedModel, Released):
    """A released generalised linear model.

    Attributes
    ----------
    plan : Plan
        The public plan the release followed.
    scaled_params : ndarray, shape (p,)
        Released coefficients in model units, as the mechanism released them.
    nobs : int or None
        The number of rows where it is public (``adjacency="replace_one"``), else None.
    released : Information, ReleasedSums or None
        What was released for inference, if anything.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> fit = dp.ols("y ~ x", rows, eps=1.0, domain=domain)
    >>> fit
    <GLMResults: gaussian, y ~ x; eps=1, add_remove, certified>
    >>> fit.predict({"x": [0.2, 0.8]}).shape
    (2,)
    >>> fit.nobs is None  # private under add_remove
    True
    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/fit.json"
    >>> fit.save(path)
    >>> bool((dp.GLMResults.load(path).params == fit.params).all())
    True
    >>> dp.GLMResults.from_dict(fit.to_dict())
    <GLMResults: gaussian, y ~ x; eps=1, add_remove, certified>
    """

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
        return family

    @property
    def noise(self) -> Noise | KNormNoise:
        """The law of the noise in the objective."""
        return self.plan.noise

    @property
    def statistics(self) -> ReleasedStatistics:
        """The released sums of a fit by ``method="statistics"``: other linear models of its columns cost no more.

        Raises
        ------
        NotReleasedError
            If the fit was by another method.
        """
        statistics = self.plan.objective.statistics
        if statistics is None or not isinstance(self.released, ReleasedSums):
            raise NotReleasedError("statistics were not released; method='statistics' or release_statistics buys them")
        held = replace(statistics, guarantee=self.guarantee)
        ranges = float(self.budget["eps"].get("ranges", 0.0))
        return ReleasedStatistics(held, self.released.sums, self.nobs, ranges)

    def __getattr__(self, name: str) -> Any:
        own = getattr(type(self), name, None)
        if own is not None:
            # Its own NotReleasedError has led here, being an AttributeError: raise it again.
            return own.__get__(self)
        if name in NOT_RELEASED:
            raise NotReleasedError(f"{name} was not released: the budget has not paid for it; {NOT_RELEASED[name]}")
        hint = "; the coefficients are params" if name in ("coef", "coef_", "coefficients") else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def excess_risk(
        self, pi: float = 0.05, radius: float | None = None, n: int | None = None, *, printed: bool = False
    ) -> pd.DataFrame:
        """Proved bounds on what privacy costs in the objective; see `Plan.excess_risk`."""
        return self.plan.excess_risk(pi, radius, n, printed=printed)

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
            Numeric columns are clipped to the Domain's ranges, as in the fit.
        which : {"mean", "linear", "decision", "class"}
            The expected response (for an SVM the decision as 0 or 1), or the linear predictor. Of a response of two
            values also the decision function, positive for the second of them, or the class itself, as the Domain
            declares it.
            Of a response of successes and failures "mean" is the chance of a success.
        offset : float or array_like, shape (rows,), optional
            Takes the place of the formula's offset or exposure, whose columns `newdata` then need not have: 0 predicts
            for an exposure of 1. A model of arrays that has an offset asks for it.
        exposure : float or array_like, shape (rows,), optional
            For a log link: its logarithm is the offset.

        Returns
        -------
        Series indexed as `newdata`, or ndarray of shape (rows,)
            In the response's units. NaN for rows with a missing value or an unknown level.

        Raises
        ------
        ArgumentError
            If `which` is unknown or asks for a class where the response is a number, or `offset` is missing.
        DataError
            If `newdata` lacks a column the formula needs, or has the wrong shape.

        Examples
        --------
        >>> fit.predict({"x": [0.2, None]}).isna().tolist()
        [False, True]
        """
        binary = self.plan.family.response == "binary"
        if not isinstance(which, str) or which not in ("mean", "linear", *(("decision", "class") if binary else ())):
            more = ", 'decision' or 'class'" if binary else "; there are classes where the response has two values"
            raise ArgumentError(f"which must be 'mean' or 'linear'{more}, got {safe_repr(which)}")
        rows = self._model_rows(newdata, with_exposure(self.plan.family.link, offset, exposure))
        predicted = np.full(len(rows.exog), np.nan)
        with quiet():
            linear = rows.exog[rows.complete] @ self.scaled_params + rows.offset[rows.complete]
            predicted[rows.complete] = self._respond(linear, which)
        design = self.plan.design
        if not isinstance(design, DesignSpec):
            return predicted
        values: Any = predicted
        if which == "class" and design.response.levels is not None:
            values = np.full(len(predicted), np.nan, dtype=object)
            values[rows.complete] = [design.response.levels[int(second)] for second in predicted[rows.complete]]
        return pd.Series(values, index=rows.labels, name="predicted")

    def __repr__(self) -> str:
        return f"<GLMResults: {self.plan.description}>"

    def tidy(self, *, exponentiate: bool = False) -> pd.DataFrame:
        """One row a coefficient, columns as broom names them.

        term; estimate, in the user's units, with inference free of the shrinkage (`debiased`) and followed by its
        std_error, statistic, p_value, conf_low and conf_high; released and scaled_released, the coefficient as
        released, in the user's and in model units; noise_at_most.

        Parameters
        ----------
        exponentiate : bool
            Of a logit or log link: odds ratios or ratios of means in the place of estimate, conf_low and conf_high; the
            other columns stay on the scale of the coefficients, as broom has them.

        Raises
        ------
        ArgumentError
            If it is asked for with another link.

        Examples
        --------
        >>> "estimate" in fit.tidy().columns
        True
        >>> fit.glance().shape[0], "per_row" in fit.excess_risk(n=2000).columns
        (1, True)
        """
        table = pd.DataFrame({"term": list(self.plan.names), "estimate": self.params.to_numpy()})
        if self.has_errors:
            table[list(TESTED)] = self.uncertainty().to_numpy()
        table = as_ratios(table, self.plan.family.link) if check_flag("exponentiate", exponentiate) else table
        as_released = {"released": self.params.to_numpy(), "scaled_released": self.scaled_params}
        return WideFrame(table.assign(**as_released, noise_at_most=self.noise_at_most.to_numpy()))

    def glance(self) -> pd.DataFrame:
        """One row of facts about the model; nobs is missing where it is private."""
        plan, request = self.plan, self.plan.request
        facts = {
            "family": plan.family.name,
            "link": plan.family.link,
            "method": request.method,
            "penalty": "none" if request.penalty is None else request.penalty.name,
            "df_model": plan.df_model,
            "nobs": pd.NA if self.nobs is None else self.nobs,
            **{name: getattr(plan.guarantee, name) for name in ("eps", "delta", "adjacency", "unit", "certified")},
            "noise": plan.objective.law_name,
            "noise_scale": plan.noise.scale,
            "curvature": float(np.min(plan.curvature)),
        }
        return WideFrame([facts])

    def summary(self, *, full: bool = False, n: int | None = None) -> Summary:
        """The regression table, in statsmodels' look; as_text, as_html, as_latex and as_markdown.

        Parameters
        ----------
        full : bool
            Also mechanism, budget, noise, proved excess risk and all notes.
        n : int, optional
            A public number of rows: what privacy costs each of them is then shown.

        Raises
        ------
        ArgumentError
            If `n` is not positive.

        Examples
        --------
        >>> "x" in fit.summary(full=True).as_text()
        True
        >>> "tabular" in fit.to_latex(), "|---:|" in fit.to_markdown()
        (True, True)
        """
        return summarize(self, full=check_flag("full", full), n=n)

    def plot(self, kind: str = "coefficients", **arguments: Any) -> Axes:
        """Draw "coefficients", "shares" (of their errors) or the "effect" of a column; see `dpstats.plots`.

        Examples
        --------
        >>> axes = fit.plot(by_range=True)  # with the extra "plots"
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['x']
        """
        return draw_result(self, kind, **arguments)

    def to_dict(self) -> dict[str, Any]:
        """The released values and the public plan, for JSON."""
        released = None if self.released is None else self.released.to_dict()
        facts = {"plan": self.plan.to_dict(), "scaled_params": self.scaled_params.tolist(), "nobs": self.nobs}
        return {**facts, "information": released, "advice": list(self.plan.advice)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """What `to_dict` gave `facts` of."""
        kept = facts.get("information")
        released = None if kept is None else (ReleasedSums if "sums" in kept else Information).from_dict(kept)
        plan = replace(Plan.from_dict(facts["plan"]), advice=tuple(map(str, facts.get("advice", ()))))
        return cls(plan, np.asarray(facts["scaled_params"]), facts["nobs"], released)

    def _respond(self, linear: Vector, which: str) -> Vector:
        """Scaled linear predictors as predictions in the response's units; a class is 0 or 1."""
        if which == "class":
            return (linear > 0).astype(np.float64)
        values: Vector = np.asarray(self.plan.family.mean(linear) if which == "mean" else linear, dtype=np.float64)
        if self.plan.family.response != "continuous":
            return values
        middle, half_width = self.plan.design.response_scaling()
        return np.asarray(middle + half_width * values)

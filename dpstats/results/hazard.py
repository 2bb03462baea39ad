"""A released piecewise exponential model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from dpstats.arguments import check_numbers
from dpstats.data import as_table
from dpstats.data.table import with_level
from dpstats.errors import ArgumentError
from dpstats.families.hazard import PiecewiseExponential
from dpstats.formula.design import DesignSpec
from dpstats.frames import WideFrame
from dpstats.results.glm_results import GLMResults

PARTS = INTERVAL, EVENT, WEIGHT, AT_RISK = "interval", "event", "length", "at_risk"
"""Columns of the pieces of a person's time: the interval, whether the piece is an event, its weight, and its offset."""


class HazardResults(GLMResults):
    """A released piecewise exponential model: hazard ratios, their errors, and survival curves of given persons.

    Everything that `GLMResults` has of coefficients: params, bse, conf_int, summary, tidy, t_test, save and load.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"time": rng.exponential(5, 2000), "age": rng.uniform(20, 90, 2000)}
    >>> rows["event"] = rows["time"] < 10
    >>> domain = {"time": (0, 10), "event": (0, 1), "age": (20, 90)}
    >>> fit = dp.hazard("Surv(time, event) ~ age", rows, 3.0, domain=domain, seed=1)
    >>> fit.survival({"age": [30.0, 80.0]}, [2.5, 5.0, 10.0]).shape
    (2, 3)
    """

    instead: ClassVar[Mapping[str, str]] = {"get_margeff": "tidy(exponentiate=True) has hazard ratios"}

    @property
    def observed_until(self) -> float:
        """The end of the last interval: survival is not known beyond."""
        design = self.plan.design
        assert isinstance(design, DesignSpec)
        return float(str(design.domain[INTERVAL].values[-1]).rpartition(" to ")[2])  # type: ignore[union-attr]

    def survival(self, newdata: Any, times: Any) -> pd.DataFrame:
        """The survival of persons at some times, by the released coefficients.

        Parameters
        ----------
        newdata : DataFrame or another table
            The columns of the formula's right side.
        times : float or sequence of float
            Within the time observed; NaN beyond.

        Returns
        -------
        DataFrame
            A row a person, a column a time; NaN where a cell is missing.
        """
        design, family = self.plan.design, self.plan.family
        assert isinstance(design, DesignSpec)
        table, names = as_table(newdata), design.domain[INTERVAL].values  # type: ignore[union-attr]
        assert isinstance(family, PiecewiseExponential)
        breaks = np.array([0.0, *family.ends]) * self.observed_until
        hazards = np.zeros((table.rows, len(names)))
        for at in range(len(names)):
            exog, known, _ = design.predicting(with_level(table, INTERVAL, names, at), offset=False)
            hazards[:, at] = np.where(known, np.exp(exog @ self.scaled_params), np.nan)
        until = np.concatenate(
            [np.zeros((table.rows, 1)), np.cumsum(hazards * np.diff(breaks) / breaks[-1], axis=1)], 1
        )
        wanted = check_numbers("times", times).ravel()
        curves = [np.exp(-np.interp(wanted, breaks, own, left=np.nan, right=np.nan)) for own in until]
        return WideFrame(pd.DataFrame(curves, columns=wanted, index=table.index))

    def predict(self, newdata: Any, *_: Any, **__: Any) -> Any:
        """Not offered: a hazard has no mean response; see `survival`."""
        raise ArgumentError("predict is not offered for hazards: fit.survival(newdata, times) has the survival")

    def get_prediction(self, *_: Any, **__: Any) -> Any:
        """Not offered; see `survival`."""
        raise ArgumentError("get_prediction is not offered for hazards: fit.survival(newdata, times) has the survival")

    def get_margeff(self, *_: Any, **__: Any) -> Any:
        """Not offered; hazard ratios are ``fit.tidy(exponentiate=True)``."""
        raise ArgumentError("get_margeff is not offered for hazards: fit.tidy(exponentiate=True) has hazard ratios")

    def __repr__(self) -> str:
        return f"<HazardResults: {self.plan.description}>"

"""What a picture needs to know of what it shows: results stand above this folder, so they are described here."""

from __future__ import annotations

from typing import Any, Protocol

import pandas as pd

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.plan import Plan
from dpstats.privacy.guarantee import Guarantee


def check_subject(name: str, value: object, shows: str, made: str) -> None:
    """Raise ArgumentError unless a picture can show `value`: it has the attribute `shows`; `made` says what has."""
    if isinstance(value, (type, pd.DataFrame, pd.Series)) or not hasattr(value, shows):
        raise ArgumentError(f"{name} must be {made}; got {shown(value)}")


FIT = "a fit, such as dp.glm returns"
EVALUATION = "an evaluation, as dp.evaluate returns"


class Fitted(Protocol):
    """A released model; `dpstats.GLMResults`."""

    @property
    def plan(self) -> Plan:
        """The plan the release followed."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of everything it shows."""

    @property
    def has_errors(self) -> bool:
        """Whether standard errors were released."""

    @property
    def params(self) -> pd.Series[float]:
        """Coefficients as released, in the user's units."""

    @property
    def bse(self) -> pd.Series[float]:
        """Standard errors; infinite where not identified, NaN for columns that are not in the fit."""

    @property
    def noise_at_most(self) -> pd.Series[float]:
        """A bound on the standard deviation that noise gives each coefficient."""

    @property
    def variance_shares(self) -> pd.DataFrame:
        """Shares of sampling, noise and information in the squared standard errors."""

    def uncertainty(self, alpha: float = 0.05) -> pd.DataFrame:
        """The regression table as a frame."""

    def predict(self, newdata: Any) -> Any:
        """Predictions at public rows."""

    def get_prediction(self, newdata: Any, alpha: float = 0.05) -> Any:
        """The mean response at public rows with intervals."""


class Evaluated(Protocol):
    """The result of an evaluation; `dpstats.Evaluation`."""

    @property
    def model(self) -> str:
        """Family and formula of the model."""

    @property
    def metrics(self) -> pd.DataFrame:
        """One row a metric."""

    @property
    def calibration(self) -> pd.DataFrame | None:
        """Predicted and observed frequency by bins."""

    @property
    def roc(self) -> pd.DataFrame | None:
        """False and true positive rate by threshold."""

    @property
    def residuals(self) -> pd.DataFrame | None:
        """Mean residual by bins of the fitted value."""

    @property
    def guarantee(self) -> Guarantee:
        """For everything it shows, apart from the model's own."""

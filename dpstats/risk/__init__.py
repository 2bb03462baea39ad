"""Excess risk and sample sizes, from public values alone (docs/risk)."""

from dpstats.risk.gaps import gap_mean, gap_quantile, quadratic_quantile
from dpstats.risk.literature_bounds import Bound
from dpstats.risk.proved import OutputFacts
from dpstats.risk.rows_needed import ErrorSize, RequiredEps, SampleSize, required
from dpstats.risk.sample_sizes import sample_size
from dpstats.risk.table import ReleasePlan, RiskBounds, objective_risk, output_risk, posterior_risk

__all__ = [
    "Bound",
    "ErrorSize",
    "OutputFacts",
    "ReleasePlan",
    "RequiredEps",
    "RiskBounds",
    "SampleSize",
    "gap_mean",
    "gap_quantile",
    "objective_risk",
    "output_risk",
    "posterior_risk",
    "quadratic_quantile",
    "required",
    "sample_size",
]

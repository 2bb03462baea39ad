"""Excess risk and sample sizes, from public values alone (docs/risk)."""

from dpstats.risk.gaps import gap_mean, gap_quantile
from dpstats.risk.output import OutputFacts
from dpstats.risk.printed import Bound
from dpstats.risk.quantiles import quadratic_quantile
from dpstats.risk.sample import sample_size
from dpstats.risk.sizes import ErrorSize, SampleSize
from dpstats.risk.table import ReleasePlan, excess_risk, output_risk, posterior_risk

__all__ = [
    "Bound",
    "ErrorSize",
    "OutputFacts",
    "ReleasePlan",
    "SampleSize",
    "excess_risk",
    "gap_mean",
    "gap_quantile",
    "output_risk",
    "posterior_risk",
    "quadratic_quantile",
    "sample_size",
]

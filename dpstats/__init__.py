"""dpstats: regression models with a differential-privacy guarantee.

>>> import dpstats as dp
>>> result = dp.glm("y ~ x1 + x2", data, eps=0.5)  # doctest: +SKIP
>>> print(result.summary())  # doctest: +SKIP
"""

from dpstats import datasets, errors, families, penalties, privacy
from dpstats.api import glm, logit, ols, plan, poisson, svm
from dpstats.domain import Domain
from dpstats.models.glm import GLM
from dpstats.audit import audit
from dpstats.privacy import Guarantee, Ledger, Noise, compose
from dpstats.results.glm_results import GLMResults

__version__ = "0.1.0"

__all__ = [
    "GLM",
    "Domain",
    "GLMResults",
    "Guarantee",
    "Ledger",
    "Noise",
    "audit",
    "compose",
    "datasets",
    "errors",
    "families",
    "glm",
    "logit",
    "ols",
    "penalties",
    "plan",
    "poisson",
    "privacy",
    "svm",
]

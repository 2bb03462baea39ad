"""dpstats: regression models with a differential-privacy guarantee.

>>> import dpstats as dp
>>> result = dp.glm("y ~ x1 + x2", data, eps=0.5)  # doctest: +SKIP
>>> print(result.summary())  # doctest: +SKIP
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dpstats import errors, local
from dpstats._version import __version__ as __version__
from dpstats.domain import Domain, Range

# Who only sends reports (dpstats.local) needs neither; everything else does.
if find_spec("pandas") is not None and find_spec("statsmodels") is not None:
    from dpstats import datasets, families, penalties, plots, privacy
    from dpstats.api import glm, lasso, load, logit, ols, plan, plan_quantreg, poisson, quantreg, svm
    from dpstats.audit import audit
    from dpstats.evaluation import Check, Evaluation, Holdout, check, evaluate, holdout
    from dpstats.ledger import Ledger
    from dpstats.models.absorbed import AbsorbedModel
    from dpstats.models.compare import Comparison, compare
    from dpstats.models.glm import GLM
    from dpstats.models.groups import GroupPlan
    from dpstats.models.hazard import hazard, plan_hazard
    from dpstats.models.kaplan_meier import kaplan_meier, plan_kaplan_meier
    from dpstats.models.many import ManyPlans, plan_many
    from dpstats.models.ordinal import ordinal, plan_ordinal
    from dpstats.models.quantiles import QuantilePlan
    from dpstats.models.ranges import BoughtRanges, buy_ranges
    from dpstats.models.statistics import release_statistics
    from dpstats.plan import Plan
    from dpstats.privacy import Guarantee, Noise, compose
    from dpstats.proof_pages import Proof, proof
    from dpstats.results.absorbed import AbsorbedResults
    from dpstats.results.etable import ETable, etable
    from dpstats.results.glm_results import GLMResults
    from dpstats.results.groups import GroupResults
    from dpstats.results.hazard import HazardResults
    from dpstats.results.kaplan_meier import KaplanMeier, KaplanMeierPlan
    from dpstats.results.multinomial import MultinomialPlan, MultinomialResults
    from dpstats.results.ordinal import OrdinalResults
    from dpstats.results.quantiles import QuantileResults
    from dpstats.results.statistics import IVResults, ReleasedStatistics, StatisticsResults
    from dpstats.risk import required, sample_size
    from dpstats.tuning import Selection, Tuned, TuningPlan, plan_tuning, select, tune

if TYPE_CHECKING:
    from dpstats import streaming

__all__ = [
    "GLM",
    "AbsorbedModel",
    "AbsorbedResults",
    "BoughtRanges",
    "Check",
    "Comparison",
    "Domain",
    "ETable",
    "Evaluation",
    "GLMResults",
    "GroupPlan",
    "GroupResults",
    "Guarantee",
    "HazardResults",
    "Holdout",
    "IVResults",
    "KaplanMeier",
    "KaplanMeierPlan",
    "Ledger",
    "ManyPlans",
    "MultinomialPlan",
    "MultinomialResults",
    "Noise",
    "OrdinalResults",
    "Plan",
    "Proof",
    "QuantilePlan",
    "QuantileResults",
    "Range",
    "ReleasedStatistics",
    "Selection",
    "StatisticsResults",
    "Tuned",
    "TuningPlan",
    "audit",
    "buy_ranges",
    "check",
    "compare",
    "compose",
    "connect",
    "datasets",
    "errors",
    "etable",
    "evaluate",
    "families",
    "glm",
    "hazard",
    "holdout",
    "kaplan_meier",
    "lasso",
    "load",
    "local",
    "logit",
    "ols",
    "ordinal",
    "penalties",
    "plan",
    "plan_hazard",
    "plan_kaplan_meier",
    "plan_many",
    "plan_ordinal",
    "plan_quantreg",
    "plan_tuning",
    "plots",
    "poisson",
    "privacy",
    "proof",
    "quantreg",
    "release_statistics",
    "required",
    "sample_size",
    "select",
    "streaming",
    "svm",
    "tune",
]


def __dir__() -> list[str]:
    return [name for name in (*__all__, "__version__") if name in globals() or name in ("connect", "streaming")]


def __getattr__(name: str) -> Any:
    """Streams on first use: the parts of scipy that only they need take half as long to import as all else.

    Offices too, which nobody needs who has the rows.
    """
    if name == "streaming":
        return import_module("dpstats.streaming")
    if name == "connect":
        return import_module("dpstats.office.client").connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

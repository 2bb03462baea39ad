"""How good a released model is, whether the data suit a formula, and a holdout (docs/proofs/evaluation)."""

from dpstats.evaluation.check_result import Check
from dpstats.evaluation.data_check import check
from dpstats.evaluation.holdout_split import Holdout, holdout
from dpstats.evaluation.model_quality import evaluate
from dpstats.evaluation.result import Evaluation

__all__ = ["Check", "Evaluation", "Holdout", "check", "evaluate", "holdout"]

"""How good a released model is, whether the data suit a formula, and a holdout (docs/proofs/evaluation)."""

from dpstats.evaluation.check import check
from dpstats.evaluation.check_result import Check
from dpstats.evaluation.evaluate import evaluate
from dpstats.evaluation.holdout import Holdout, holdout
from dpstats.evaluation.result import Evaluation

__all__ = ["Check", "Evaluation", "Holdout", "check", "evaluate", "holdout"]

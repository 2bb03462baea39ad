"""How good a released model is, whether the data suit a formula, and a holdout (docs/proofs/evaluation)."""

from dpstats.evaluation.check_result import Check
from dpstats.evaluation.evaluating import evaluate
from dpstats.evaluation.faults import check
from dpstats.evaluation.result import Evaluation
from dpstats.evaluation.splitting import Holdout, holdout

__all__ = ["Check", "Evaluation", "Holdout", "check", "evaluate", "holdout"]

"""What each part of a tuning budget buys, and what candidates are scored by."""

from __future__ import annotations

from collections.abc import Sequence

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.privacy.stopping import Runs
from dpstats.tuning.losses import MODEL_LOSSES


def divided_eps(strategy: str, eps: float, share: float, candidates: int, runs: Runs | None) -> tuple[float, float]:
    """The eps of one fit and that of a score, or of the choice (docs/proofs/tuning)."""
    if strategy == "stopping" and runs is not None:
        each = runs.each(eps)
        return (1 - share) * each, share * each
    if strategy == "all":
        return (1 - share) * eps / candidates * (1 - 1e-12), share * eps
    return eps, 0.0 if strategy == "public" else eps


SHARES = {"stopping": 0.2, "all": 0.1}
"""Of a run's eps for its score, and of the whole for the choice; settled by the benchmark (docs/tuning)."""


def checked_share(strategy: str, share: float | None) -> float:
    """The share of eps that scores or the choice take; ArgumentError if it is none."""
    if strategy not in SHARES:
        if share is not None:
            raise ArgumentError(f"score_share does not go with strategy={strategy!r}, which pays for it apart")
        return 0.0
    if share is None:
        return SHARES[strategy]
    real = isinstance(share, (int, float)) and not isinstance(share, bool)
    if not (real and 0 < share < 1):
        raise ArgumentError(f"score_share must lie strictly between 0 and 1, got {shown(share)}")
    return float(share)


def checked_score(score: str | None, response: str) -> str:
    """The score's name, by the kind of response unless one is given."""
    if score is None:
        return "mistakes" if response == "binary" else "absolute_error"
    if not isinstance(score, str) or score not in MODEL_LOSSES or (score == "mistakes" and response != "binary"):
        suited: Sequence[str] = MODEL_LOSSES if response == "binary" else MODEL_LOSSES[1:]
        raise ArgumentError(f"score must be one of {list(suited)} for this family, got {shown(score)}")
    return score

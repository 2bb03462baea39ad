"""Guarantees, noise and its calibration, ledgers: what privacy costs and who keeps the books."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpstats.privacy.accounting import compose
from dpstats.privacy.calibration import joint_loss, joint_scale, objective_noise
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.noise import Noise

if TYPE_CHECKING:
    from dpstats.privacy.ledger import Ledger

__all__ = ["Guarantee", "Ledger", "Noise", "compose", "joint_loss", "joint_scale", "objective_noise"]


def __getattr__(name: str) -> Any:
    """The ledger on first use: it reads tables and needs pandas, which noise and guarantees do without."""
    if name == "Ledger":
        from dpstats.privacy.ledger import Ledger

        return Ledger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

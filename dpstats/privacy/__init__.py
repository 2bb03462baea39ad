"""Guarantees, noise and its calibration, ledgers: what privacy costs and who keeps the books."""

from dpstats.privacy.accounting import compose
from dpstats.privacy.calibration import joint_loss, joint_scale, objective_noise
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger import Ledger
from dpstats.privacy.noise import Noise

__all__ = ["Guarantee", "Ledger", "Noise", "compose", "joint_loss", "joint_scale", "objective_noise"]

"""Guarantees, noise and its calibration: what privacy costs."""

from dpstats.privacy.accounting import compose
from dpstats.privacy.calibration import joint_loss, joint_scale, objective_noise
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.noise import Noise

__all__ = ["Guarantee", "Noise", "compose", "joint_loss", "joint_scale", "objective_noise"]


def __dir__() -> list[str]:
    return [*__all__, "ranges"]

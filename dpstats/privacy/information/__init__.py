"""The information matrix and the spread of the scores, released (docs/proofs/information)."""

from dpstats.privacy.information.clusters import noisy_cluster_spread
from dpstats.privacy.information.joint import (
    JointScales,
    free_information,
    free_ratio,
    headroom,
    joint_information_loss,
    joint_scales,
    majorant_lipschitz,
    row_weights,
)
from dpstats.privacy.information.joint_choice import JointChoice, best_joint_scales_delta
from dpstats.privacy.information.joint_gaussian import joint_scales_delta
from dpstats.privacy.information.levels import LevelNoise, level_maps, noisy_level_information
from dpstats.privacy.information.matrix import MatrixLaw, MatrixNoise, matrix_noise, matrix_scale, shaped_diagonal
from dpstats.privacy.information.metric import Joined, Metric, design_metric, optimal_design
from dpstats.privacy.information.rows import COVER_SHARE, linear_predictor, noisy_information, row_parts
from dpstats.privacy.information.scores import noisy_spread, noisy_sum, spread_allowances, spread_bound

__all__ = [
    "COVER_SHARE",
    "Joined",
    "JointChoice",
    "JointScales",
    "LevelNoise",
    "MatrixLaw",
    "MatrixNoise",
    "Metric",
    "best_joint_scales_delta",
    "design_metric",
    "free_information",
    "free_ratio",
    "headroom",
    "joint_information_loss",
    "joint_scales",
    "joint_scales_delta",
    "level_maps",
    "linear_predictor",
    "majorant_lipschitz",
    "matrix_noise",
    "matrix_scale",
    "noisy_cluster_spread",
    "noisy_information",
    "noisy_level_information",
    "noisy_spread",
    "noisy_sum",
    "optimal_design",
    "row_parts",
    "row_weights",
    "shaped_diagonal",
    "spread_allowances",
    "spread_bound",
]

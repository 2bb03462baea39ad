"""The information matrix and the spread of the scores, released (docs/proofs/information)."""

from dpstats.privacy.information.exact_sums import (
    COVER_SHARE,
    linear_predictor,
    noisy_information,
    row_parts,
)
from dpstats.privacy.information.joint import (
    JointScales,
    capped_weights,
    free_information,
    free_ratio,
    headroom,
    joint_information_loss,
    joint_scales,
    majorant_lipschitz,
    row_weights,
    weight_bound,
)
from dpstats.privacy.information.joint_gaussian import JointChoice, best_joint_scales_delta, joint_scales_delta
from dpstats.privacy.information.matrix import (
    DesignMetric,
    JointColumns,
    MatrixLaw,
    MatrixNoise,
    design_metric,
    matrix_noise,
    matrix_scale,
    optimal_design,
    shaped_diagonal,
)
from dpstats.privacy.information.scores import (
    noisy_cluster_spread,
    noisy_spread,
    noisy_sum,
    spread_allowances,
    spread_bound,
)

__all__ = [
    "COVER_SHARE",
    "DesignMetric",
    "JointChoice",
    "JointColumns",
    "JointScales",
    "MatrixLaw",
    "MatrixNoise",
    "best_joint_scales_delta",
    "capped_weights",
    "design_metric",
    "free_information",
    "free_ratio",
    "headroom",
    "joint_information_loss",
    "joint_scales",
    "joint_scales_delta",
    "linear_predictor",
    "majorant_lipschitz",
    "matrix_noise",
    "matrix_scale",
    "noisy_cluster_spread",
    "noisy_information",
    "noisy_spread",
    "noisy_sum",
    "optimal_design",
    "row_parts",
    "row_weights",
    "shaped_diagonal",
    "spread_allowances",
    "spread_bound",
    "weight_bound",
]

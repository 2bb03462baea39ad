"""Standard errors, intervals and tests from released quantities alone (docs/proofs/inference)."""

from dpstats.inference.basis import (
    Dummies,
    KnownInformation,
    LevelSpanNoise,
    MappedLinear,
    MappedMatrix,
    SpanNoise,
    project_forms,
    reference_levels,
)
from dpstats.inference.debiasing_path import MeanFunction, average_along_path
from dpstats.inference.delta_method import ModelSpread, RobustSpread, Spread
from dpstats.inference.estimates import Contrasts, Estimates
from dpstats.inference.inverse import Identified, identify, self_consistent_inverse
from dpstats.inference.joint_tests import JointTest, wald_test
from dpstats.inference.linear_noise import LinearLaw, NormalLaw, ReleasedLaw
from dpstats.inference.matrix_noise import EntryNoise, MatrixLaw, Tie, project, symmetric_normal, wishart_difference
from dpstats.inference.table import CombinationTests, Inference, MeanResponse, mean_response, noise_bound

__all__ = [
    "CombinationTests",
    "Contrasts",
    "Dummies",
    "EntryNoise",
    "Estimates",
    "Identified",
    "Inference",
    "JointTest",
    "KnownInformation",
    "LevelSpanNoise",
    "LinearLaw",
    "MappedLinear",
    "MappedMatrix",
    "MatrixLaw",
    "MeanFunction",
    "MeanResponse",
    "ModelSpread",
    "NormalLaw",
    "ReleasedLaw",
    "RobustSpread",
    "SpanNoise",
    "Spread",
    "Tie",
    "average_along_path",
    "identify",
    "mean_response",
    "noise_bound",
    "project",
    "project_forms",
    "reference_levels",
    "self_consistent_inverse",
    "symmetric_normal",
    "wald_test",
    "wishart_difference",
]

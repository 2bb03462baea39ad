"""Standard errors, intervals and tests from released quantities alone (docs/proofs/inference)."""

from dpstats.inference.basis import (
    Dummies,
    KnownInformation,
    MappedLinear,
    MappedMatrix,
    Projection,
    SpanNoise,
    project_forms,
    reference_levels,
)
from dpstats.inference.debiasing_path import JointValues, MeanFunction, average_along_path, similar_rows
from dpstats.inference.delta_method import ModelSpread, RobustSpread, Spread
from dpstats.inference.estimates import Contrasts, DeclaredRanges, Estimates
from dpstats.inference.inverse import Identified, identify, self_consistent_inverse
from dpstats.inference.noise_laws import LinearLaw, MatrixLaw, NormalLaw, ReleasedLaw
from dpstats.inference.table import (
    CombinationTests,
    Inference,
    JointTest,
    MeanResponse,
    mean_response,
    noise_bound,
    wald_test,
)

__all__ = [
    "CombinationTests",
    "Contrasts",
    "DeclaredRanges",
    "Dummies",
    "Estimates",
    "Identified",
    "Inference",
    "JointTest",
    "JointValues",
    "KnownInformation",
    "LinearLaw",
    "MappedLinear",
    "MappedMatrix",
    "MatrixLaw",
    "MeanFunction",
    "MeanResponse",
    "ModelSpread",
    "NormalLaw",
    "Projection",
    "ReleasedLaw",
    "RobustSpread",
    "SpanNoise",
    "Spread",
    "average_along_path",
    "identify",
    "mean_response",
    "noise_bound",
    "project_forms",
    "reference_levels",
    "self_consistent_inverse",
    "similar_rows",
    "wald_test",
]

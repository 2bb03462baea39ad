"""Standard errors, intervals and tests from released quantities alone (docs/proofs/inference)."""

from dpstats.inference.basis import Dummies, MappedLinear, MappedMatrix, rebased
from dpstats.inference.bound import noise_at_most
from dpstats.inference.contrasts import Contrasts
from dpstats.inference.estimates import Estimates
from dpstats.inference.identified import Identified, identify
from dpstats.inference.inverse import self_consistent_inverse
from dpstats.inference.joint import JointTest, wald_test
from dpstats.inference.known import KnownInformation
from dpstats.inference.linear import LinearLaw, NormalLaw, ReleasedLaw
from dpstats.inference.matrix import EntryNoise, MatrixLaw, Tie, project, symmetric_normal, wishart_difference
from dpstats.inference.path import Response, along_way
from dpstats.inference.response import MeanResponse, mean_response
from dpstats.inference.result import CombinationTests, Inference
from dpstats.inference.span import LevelSpanNoise, SpanNoise, project_forms
from dpstats.inference.spread import ModelSpread, RobustSpread, Spread

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
    "MeanResponse",
    "ModelSpread",
    "NormalLaw",
    "ReleasedLaw",
    "Response",
    "RobustSpread",
    "SpanNoise",
    "Spread",
    "Tie",
    "along_way",
    "identify",
    "mean_response",
    "noise_at_most",
    "project",
    "project_forms",
    "rebased",
    "self_consistent_inverse",
    "symmetric_normal",
    "wald_test",
    "wishart_difference",
]

"""What one objective perturbation fixes before rows are read (docs/proofs/objective)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.families import from_dict as family_from_dict
from dpstats.mechanisms.information import InformationPlan, follow
from dpstats.mechanisms.release import (
    GRADIENT_SHARE,
    LEAST_SHARE,
    ROUNDED,
    LatticeRelease,
    covered_rows,
    final_noise_share,
    least_gradient_tolerance,
    plan_final,
)
from dpstats.penalties import Penalty
from dpstats.penalties import from_dict as penalty_from_dict
from dpstats.privacy.bodies import BodyNoise
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.laws import law_from_dict
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import RandomSource

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ObjectivePlan:
    """Everything about one release that is fixed before rows are read.

    Attributes
    ----------
    family : Family
    eps, delta : float
        The share of the budget that buys `noise`.
    adjacency : {"add_remove", "replace_one"}
    curvature : ndarray, shape (p,)
        M, the diagonal quadratic term of the objective: the floor privacy needs plus the penalty's own.
    kappa : float
        sup x' M^-1 x over all rows of the design.
    row_norm : float
        The bound on the rows, after `noise_shape`, in the norm of the noise.
    row_length : float
        The bound on the rows' Euclidean norm.
    rows_at_most : float
        So many rows are certified to `tolerance`, whatever they are.
    noise : Noise or BodyNoise
        The law of b: in the metric x * noise_shape, or cut to the design.
    noise_shape : ndarray, shape (p,)
        Public weights a: the objective's linear term is b / a. Ones for noise cut to the design.
    classical_scale : float
        The scale that the papers' even split of `planned_eps` would cost.
    planned_eps : float
        What was set aside for the noise; `eps` is less where retrieved budget is returned.
    joint_need : float
        The eps that noise of the classical scale really costs, by the joint bound.
    penalty : Penalty or None
        What the penalty is beyond its curvature, which is part of `curvature`.
    penalty_weights : ndarray, shape (p,)
        Its weight on each column.
    threshold : ndarray, shape (p,)
        The part of a lasso's weights that noise alone rarely passes; zeros unless selection is noise-aware.
    linear : ndarray, shape (p,)
        A public linear term of the objective, from an earlier release; zeros in a single stage.
    radius : float
        The guessed norm of the coefficients in model units that the default curvature was chosen for.
    tolerance : float
        gamma, the certified bound on the gradient norm at the solver's point.
    final : LatticeRelease
        The discrete noise of the last step.
    information : InformationPlan, optional
        What is released beside the coefficients, for inference.
    offset_bound : float
        The greatest size of a row's offset.
    stored : bool
        Whether the plan was read from a file: it was checked where it was made, perhaps for another arithmetic.

    Raises
    ------
    ArgumentError
        If `tolerance` or `final` is finer than the proof allows beside the noise that is drawn (docs/proofs/release).
    """

    family: Family
    eps: float
    delta: float
    adjacency: Adjacency
    curvature: Vector
    kappa: float
    row_norm: float
    row_length: float
    rows_at_most: float
    noise: Noise | BodyNoise
    noise_shape: Vector
    classical_scale: float
    planned_eps: float
    joint_need: float
    penalty: Penalty | None
    penalty_weights: Vector
    threshold: Vector
    linear: Vector
    radius: float
    tolerance: float
    final: LatticeRelease
    information: InformationPlan | None = None
    offset_bound: float = 0.0
    stored: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not self.stored:
            self.check_last_step()

    def check_last_step(self) -> None:
        """Raise ArgumentError unless the last step covers the solver's error and the sampling of this noise."""
        least = least_gradient_tolerance(
            self.family,
            rms=self.gradient_size,
            row_length=self.row_length,
            curvature=self.curvature,
            rows=self.rows_at_most,
            penalty=self.penalty,
            linear=self.linear,
            offset_bound=self.offset_bound,
            share=LEAST_SHARE if self.noise_averages_out else GRADIENT_SHARE,
        )
        apart = 2 * self.tolerance / float(np.min(self.curvature))
        if not (self.tolerance * ROUNDED >= least and self.final.distance * ROUNDED >= apart):
            raise ArgumentError(
                f"tolerance = {self.tolerance:.3g} is too small for the proof, which asks for {least:.3g} beside this "
                "noise, or final is for another one: no guarantee would hold"
            )
        self.final.check()

    @property
    def cost(self) -> float:
        """eps of everything that this stage releases."""
        return self.eps + self.final.eps + (0.0 if self.information is None else self.information.cost)

    @property
    def size(self) -> int:
        """The number of coefficients p."""
        return len(self.curvature)

    @property
    def noise_variances(self) -> Vector:
        """Variances of the objective's linear term, shape (p,)."""
        if isinstance(self.noise, BodyNoise):
            return self.noise.standard_deviations() ** 2
        return self.noise.expected_square(self.size) / self.size / self.noise_shape**2

    @property
    def expected_square(self) -> float:
        """The mean squared norm of the linear term's noise."""
        return float(np.sum(self.noise_variances))

    @property
    def law_name(self) -> str:
        """The law of the noise, in words."""
        return f"{self.noise.kind} ({self.noise.norm})"

    @property
    def bought_law(self) -> str:
        """What `eps` buys, in words."""
        return f"{self.noise.kind} noise ({self.noise.norm})"

    @property
    def gradient_size(self) -> float:
        """The noise in the objective's gradient, root mean square: what the solver's tolerance must be small beside."""
        return float(np.sqrt(self.expected_square))

    @property
    def final_share(self) -> float:
        """The final noise's standard deviation over that of the objective's noise, at `rows_at_most` rows or fewer."""
        share = final_noise_share(
            self.family,
            self.final.eps,
            rows=self.rows_at_most,
            row_length=self.row_length,
            curvature=self.curvature,
        )
        return share * self.tolerance / self.gradient_size

    @property
    def covered_rows(self) -> float:
        """Up to how many rows the guarantee is whole on this machine, a power of ten; at least `ROWS_AT_MOST`."""
        return covered_rows(
            self.family,
            self.tolerance,
            rms=self.gradient_size,
            row_length=self.row_length,
            curvature=self.curvature,
            penalty=self.penalty,
            linear=self.linear,
            offset_bound=self.offset_bound,
        )

    @property
    def noise_averages_out(self) -> bool:
        """Whether more rows make the noise's effect on the coefficients smaller."""
        return True

    def sample(self, random: RandomSource) -> Vector:
        """One draw of the objective's linear term, its public part included, shape (p,)."""
        if isinstance(self.noise, BodyNoise):
            return self.linear + self.noise.sample(random)
        return self.linear + self.noise.sample(self.size, random) / self.noise_shape

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            **{name: getattr(self, name).tolist() for name in _VECTORS},
            "family": self.family.to_dict(),
            "noise": self.noise.to_dict(),
            "penalty": None if self.penalty is None else self.penalty.to_dict(),
            "final": asdict(self.final),
            "information": None if self.information is None else self.information.to_dict(),
            "offset_bound": self.offset_bound,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ObjectivePlan:
        """The plan whose `to_dict` gave `stored`."""
        vectors: dict[str, Any] = {name: np.asarray(stored[name], dtype=np.float64) for name in _VECTORS}
        return cls(
            **{name: stored[name] for name in _PLAIN},
            **vectors,
            family=family_from_dict(stored["family"]),
            noise=law_from_dict(stored["noise"]),
            penalty=None if stored["penalty"] is None else penalty_from_dict(stored["penalty"]),
            final=LatticeRelease(**stored["final"]),
            information=None if stored.get("information") is None else InformationPlan.from_dict(stored["information"]),
            offset_bound=stored.get("offset_bound", 0.0),
            stored=True,
        )


AnyPlan = TypeVar("AnyPlan", bound=ObjectivePlan)


_PLAIN = (
    *("eps", "delta", "adjacency", "kappa", "row_norm", "classical_scale", "planned_eps", "joint_need"),
    *("radius", "tolerance", "row_length", "rows_at_most"),
)


_VECTORS = ("curvature", "penalty_weights", "threshold", "linear", "noise_shape")


def recentred(plan: AnyPlan, curvature: Vector, linear: Vector) -> AnyPlan:
    """The plan with a public linear term and a curvature whose ratio is no larger, so that the noise still suffices."""
    tolerance, final = plan_final(
        plan.family,
        plan.final.eps,
        rms=plan.gradient_size,
        row_length=plan.row_length,
        curvature=curvature,
        rows=plan.rows_at_most,
        penalty=plan.penalty,
        linear=linear,
        offset_bound=plan.offset_bound,
        averages_out=plan.noise_averages_out,
    )
    information = plan.information
    if information is not None:
        information = follow(information, final, plan.row_length, plan.offset_bound)
    return replace(plan, curvature=curvature, linear=linear, tolerance=tolerance, final=final, information=information)

"""What all mechanisms have in common: a release is planned without rows, described from its plan, and carried out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.families import from_dict as family_from_dict
from dpstats.mechanisms.design import Bounds
from dpstats.mechanisms.information import Information, InformationPlan, ReleasedSums, with_final_step
from dpstats.mechanisms.information_release import release_information
from dpstats.mechanisms.release import GRADIENT_SHARE, LEAST_SHARE, ROUNDED, LastStep, LatticeRelease
from dpstats.mechanisms.statistics import StatisticsPlan
from dpstats.penalties import Penalty
from dpstats.penalties import from_dict as penalty_from_dict
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.k_norm.noise import law_from_dict
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import RandomSource
from dpstats.solvers import newton, prox
from dpstats.solvers.objective import PerturbedObjective
from dpstats.solvers.pairs import Pair

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Role = Literal["fit", "pilot", "refit"]
Table = TypeVar("Table", covariant=True)

MODEL_UNITS = "on columns in model units: numeric columns scaled to [-1, 1], rows to a Euclidean norm of at most one."


class Released(NamedTuple):
    """Released coefficients in model units, shape (p,), and what was released with them for inference."""

    params: Vector
    information: Information | ReleasedSums | None


class NoiseFacts(NamedTuple):
    """The noise of a stage as a table: a row without a name has that of the stage, a vector is shown by its range."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float | str | Vector, ...]], ...]


class LatticeCosts(NamedTuple):
    """By how much the best point of a lattice, as it is scored, may be worse than the best coefficients."""

    each: float  # a row
    once: float  # whatever the rows
    inside: float  # the coefficients it is compared with lie in the ellipsoid shrunk to this part


class RiskTables(Protocol[Table]):
    """Tables of the excess risk by what is perturbed, of which each mechanism takes one (docs/proofs/risk)."""

    def of_objective(self) -> Table:
        """For noise in the objective."""

    def of_optimum(self, law: Noise) -> Table:
        """For noise M^(-1/2) g in the optimum, `law` that of g."""

    def of_posterior(self, temperature: float) -> Table:
        """For a draw from exp(-temperature J) on all of space."""

    def of_lattice(self, temperature: float, points: int, costs: LatticeCosts) -> Table:
        """For a draw from exp(-temperature J) of so many points of a lattice."""

    def unproved(self) -> Table:
        """For what no bound is proved of."""


@dataclass(frozen=True, eq=False)
class StagePlan(ABC):
    """One release of a fit, all of it fixed before rows are read; a subclass is a mechanism.

    ArgumentError if `tolerance` or `final` is finer than the proof allows beside the noise (docs/proofs/release).
    """

    family: Family
    eps: float  # the share of the budget that buys `noise`, with `delta`
    delta: float
    adjacency: Adjacency
    curvature: Vector  # M, the diagonal quadratic term: the floor that privacy needs plus the penalty's own, shape (p,)
    kappa: float  # sup x' M^-1 x over all rows of the design
    row_norm: float  # the bound on the rows, after `noise_shape`, in the norm of the noise
    row_length: float  # the bound on the rows' Euclidean norm
    rows_at_most: float  # so many rows are certified to `tolerance`, whatever they are
    noise: Noise | KNormNoise
    noise_shape: Vector  # public weights a by which `noise` is divided, shape (p,); ones for noise cut to the design
    classical_scale: float  # the scale that the papers' even split of `planned_eps` would cost
    planned_eps: float  # what was set aside for the noise; `eps` is less where retrieved budget is returned
    joint_need: float  # the eps that noise of the classical scale really costs, by the joint bound
    penalty: Penalty | None  # beyond its curvature, which is part of `curvature`
    penalty_weights: Vector  # its weight on each column, shape (p,)
    threshold: Vector  # what noise alone rarely passes in a noise-aware selection, else zeros, shape (p,)
    linear: Vector  # a public linear term of the objective, from an earlier release, shape (p,)
    radius: float  # the guessed norm of the coefficients in model units that the default curvature was chosen for
    tolerance: float  # gamma, the certified bound on the gradient norm at the solver's point
    final: LatticeRelease  # the discrete noise of the last step
    information: InformationPlan | None = None  # what is released beside the coefficients, for inference
    offset_bound: float = 0.0  # the greatest size of a row's offset
    statistics: StatisticsPlan | None = field(default=None, kw_only=True)  # the sums from which coefficients follow
    stored: bool = field(default=False, kw_only=True)  # read from a file: checked where it was made

    released: ClassVar[str | None] = None  # names the mechanism in a stored plan; an objective's has no name
    noise_averages_out: ClassVar[bool] = True  # more rows make the noise's effect on the coefficients smaller
    noise_in_coefficients: ClassVar[bool] = False  # it is added to them: `noise_variances` are exact, whatever the rows
    caps_loss: ClassVar[bool] = True  # the family's caps are part of what is fitted
    risk_is_proved: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.stored:
            self.check_last_step()

    @abstractmethod
    def coefficients(self, rows: Rows[Block] | Iterable[tuple[Any, ...]], random: RandomSource) -> Vector:
        """Read the rows once charged, and release coefficients in model units, shape (p,).

        The rows are within the bounds that the plan was made for.
        """

    def release(self, design: Bounds, rows: Rows[Block], random: RandomSource) -> Released:
        """Coefficients and, if it is planned, the information at them, from rows that are paid for."""
        params = self.coefficients(rows, random)
        if self.information is None:
            return Released(params, None)
        given = (self.information, self.final, self.family, design, params, rows, self.adjacency, random)
        return Released(params, release_information(*given))

    @property
    @abstractmethod
    def gradient_size(self) -> float:
        """The noise as a gradient, root mean square: what the solver's tolerance must be small beside."""

    @property
    @abstractmethod
    def noise_facts(self) -> NoiseFacts:
        """The noise as a table of the plan has it."""

    @abstractmethod
    def risk(self, tables: RiskTables[Table]) -> Table:
        """The table of the excess risk that covers this mechanism."""

    @abstractmethod
    def predicted_error(self, hessian: Matrix, coefficients: Vector) -> tuple[Matrix, Matrix]:
        """Covariance of the noise and mean square of the bias of what is released, each of shape (p, p).

        To first order, at a Hessian of all rows' losses and coefficients counted from what they are shrunk to.
        """

    @abstractmethod
    def noise_bounds(self, transform: Matrix) -> Vector:
        """Bounds on the standard deviation that the noise gives the coefficients transform @ theta, shape (k,)."""

    @property
    def last_step(self) -> LastStep:
        """What the last step has to cover."""
        public, rms, rows = (self.penalty, self.linear, self.offset_bound), self.gradient_size, self.rows_at_most
        return LastStep(self.family, rms, self.row_length, self.curvature, rows, *public)

    def check_last_step(self) -> None:
        """Raise ArgumentError unless the last step covers the solver's error and the sampling of this noise."""
        least = self.last_step.tolerance(LEAST_SHARE if self.noise_averages_out else GRADIENT_SHARE)
        apart = 2 * self.tolerance / float(np.min(self.curvature))
        if not (self.tolerance * ROUNDED >= least and self.final.distance * ROUNDED >= apart):
            raise ArgumentError(
                f"tolerance = {self.tolerance:.3g} is too small for the proof, which needs {least:.3g} with this "
                "noise, or final belongs to another noise: no guarantee would hold"
            )
        self.final.check()

    def optimum(self, rows: Rows[Block] | Iterable[tuple[Any, ...]], linear: Vector) -> Pair:
        """The minimiser of losses + theta'M theta / 2 + P(theta) + linear'theta, certified to the tolerance."""
        objective = PerturbedObjective(
            self.family, rows, self.curvature, linear, self.row_length, offset_bound=self.offset_bound
        )
        if self.penalty is None:
            return newton.optimum(objective, self.tolerance)
        return prox.optimum(objective, self.penalty, self.tolerance, weights=self.penalty_weights)

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
        """Variances of `noise` over its shape, shape (p,)."""
        if isinstance(self.noise, KNormNoise):
            return self.noise.standard_deviations() ** 2
        return self.noise.expected_square(self.size) / self.size / self.noise_shape**2

    @property
    def shrunk_towards(self) -> Vector:
        """Where the quadratic term has its minimum, shape (p,): 0, or what was released before."""
        return np.asarray(-self.linear / self.curvature, dtype=np.float64)

    def sample(self, random: RandomSource) -> Vector:
        """One draw of `noise` over its shape, shape (p,)."""
        if isinstance(self.noise, KNormNoise):
            return self.noise.sample(random)
        return self.noise.sample(self.size, random) / self.noise_shape

    @property
    def law_name(self) -> str:
        """The law of the noise, in words."""
        return f"{self.noise.kind} ({self.noise.norm})"

    @property
    def bought_law(self) -> str:
        """What `eps` buys, in words."""
        return f"{self.noise.kind} noise ({self.noise.norm})"

    @property
    def shrinkage_note(self) -> str:
        """What the coefficients are shrunk by, in a sentence."""
        scaled = "" if self.information else " 'scaled coef' is on that scale."
        return f"Coefficients are shrunk towards zero by a public quadratic term ('curvature') {MODEL_UNITS}{scaled}"

    @property
    def errors_note(self) -> str | None:
        """What to know of standard errors; None where that follows from the information, or from its absence."""
        return None

    @property
    def risk_takes_rows(self) -> bool:
        """Whether the bounds of the excess risk are for a number of rows alone."""
        return self.noise_in_coefficients

    def limit_note(self, rows: float) -> str | None:
        """What limits the release at so many rows beside the noise that the budget buys, if anything does."""
        return None

    @property
    def final_share(self) -> float | None:
        """The standard deviation of the final noise over that of the noise, at `rows_at_most` rows or fewer.

        None where rows do not average the noise out, or none is final.
        """
        return None

    @property
    def covered_rows(self) -> float:
        """Up to how many rows the guarantee is whole on this machine, a power of ten; at least `ROWS_AT_MOST`."""
        return self.last_step.covered_rows(self.tolerance)

    def recentred(self, curvature: Vector, linear: Vector) -> Self:
        """With a public linear term and a curvature whose ratio is no larger, so that the noise still suffices."""
        step = replace(self.last_step, curvature=curvature, linear=linear)
        tolerance, final = step.plan(self.final.eps, averages_out=self.noise_averages_out)
        changed: dict[str, Any] = {"curvature": curvature, "linear": linear, "tolerance": tolerance, "final": final}
        if self.information is not None:
            changed["information"] = with_final_step(self.information, final, self.row_length, self.offset_bound)
        return replace(self, **changed)

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
            **({} if self.released is None else {"released": self.released}),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The plan whose `to_dict` gave `stored`."""
        vectors: dict[str, Any] = {name: np.asarray(stored[name], dtype=np.float64) for name in _VECTORS}
        information = stored.get("information")
        return cls(
            **{name: stored[name] for name in _PLAIN},
            **vectors,
            family=family_from_dict(stored["family"]),
            noise=law_from_dict(stored["noise"]),
            penalty=None if stored["penalty"] is None else penalty_from_dict(stored["penalty"]),
            final=LatticeRelease(**stored["final"]),
            information=None if information is None else InformationPlan.from_dict(information),
            offset_bound=stored.get("offset_bound", 0.0),
            stored=True,
            **cls.specific_fields(stored),
        )

    @classmethod
    def specific_fields(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that this mechanism alone has, from what `to_dict` gave."""
        return {}


_PLAIN = (
    *("eps", "delta", "adjacency", "kappa", "row_norm", "classical_scale", "planned_eps", "joint_need"),
    *("radius", "tolerance", "row_length", "rows_at_most"),
)
_VECTORS = ("curvature", "penalty_weights", "threshold", "linear", "noise_shape")


def scale_facts(plan: StagePlan, title: str) -> NoiseFacts:
    """Noise of one scale, beside the classical split's, and the curvature."""
    scale, classical = plan.noise.scale, plan.classical_scale
    cells = (scale, classical, classical / scale, plan.curvature)
    return NoiseFacts(title, ("scale", "classical", "ratio", "curvature"), (("", cells),))


class Stage(NamedTuple):
    """One release of a fit, and what it is for."""

    role: Role
    plan: StagePlan


@dataclass(frozen=True, eq=False)
class StagesRelease:
    """Released coefficients in model units, shape (p,), the stages as they were carried out, and the information."""

    params: Vector
    stages: tuple[Stage, ...]
    information: Information | ReleasedSums | None = None

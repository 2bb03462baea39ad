"""Output perturbation: the optimum plus noise in the metric of its curvature (docs/proofs/output)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import safe_repr
from dpstats.data import Block, Rows
from dpstats.errors import ArgumentError
from dpstats.families import Family
from dpstats.inference.table import in_units
from dpstats.mechanisms.calibration import NoiseBudget, typical_sizes
from dpstats.mechanisms.design import Bounds
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.release import LastStep
from dpstats.mechanisms.selection import noise_threshold
from dpstats.mechanisms.spec import FitSpec
from dpstats.mechanisms.stage import NoiseFacts, RiskTables, StagePlan, Table, scale_facts
from dpstats.penalties import Penalty, split_curvature
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.gaussian import analytic_mu
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget
from dpstats.privacy.noise import Kind, Noise
from dpstats.privacy.randomness import RandomSource
from dpstats.solvers import pairs
from dpstats.wording import argument

ROUNDED = 1 + 1e-12
"""Covers the rounding of the few operations below."""


def output_sensitivity(family: Family, *, curvature_ratio: float, adjacency: Adjacency = "add_remove") -> float:
    """How far one row moves the optimum in the norm of its curvature, ||M^(1/2) (theta - theta')||_2.

    L sqrt(kappa) to add or remove a row, twice that to replace one (docs/proofs/output, Theorem 1); kappa, the
    `curvature_ratio`, is the supremum of x' M^-1 x over all rows.
    """
    rows = 2 if check_adjacency(adjacency) == "replace_one" else 1
    ratio = check_positive("curvature_ratio", curvature_ratio)
    return rows * family.lipschitz * math.sqrt(ratio) * ROUNDED


def output_noise(
    family: Family,
    *,
    eps: float,
    delta: float = 0.0,
    curvature_ratio: float,
    adjacency: Adjacency = "add_remove",
    kind: Kind | None = None,
) -> Noise:
    """The law of g, where output perturbation releases the optimum plus M^(-1/2) g; `curvature_ratio` is kappa.

    "laplace": density prop. to exp(-||g||_2 / scale), a Gamma(p) radius, (eps, 0)-DP. "gaussian", the default where
    delta is positive: N(0, scale^2 I), the analytic Gaussian mechanism; ArgumentError with delta = 0.
    docs/proofs/output; Chaudhuri et al. (2011), algorithm 1; Balle and Wang (2018).
    """
    eps, delta = check_budget(eps, delta)
    sensitivity = output_sensitivity(family, curvature_ratio=curvature_ratio, adjacency=adjacency)
    if (kind or ("gaussian" if delta > 0 else "laplace")) == "laplace":
        return Noise("laplace", "l2", sensitivity / eps * ROUNDED)
    if delta == 0:
        raise ArgumentError(f"delta must be positive for Gaussian noise, got {safe_repr(delta)}")
    return Noise("gaussian", "l2", sensitivity / analytic_mu(eps, delta) * ROUNDED)


Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

MEAN_CURVATURE = 0.5
"""A guess at the mean of l'' at the optimum as a share of its supremum; the default curvature goes by its cube root."""

LEAST_SHARE = 1e-3
"""No term's curvature is planned for rows shorter than this share of the longest part of a row."""


@dataclass(frozen=True, eq=False)
class OutputPlan(StagePlan):
    """The minimiser plus g / a, with `noise` the law of g and `noise_shape` the weights a = sqrt(m)."""

    released: ClassVar[str | None] = "output"
    noise_averages_out: ClassVar[bool] = False
    noise_in_coefficients: ClassVar[bool] = True

    def coefficients(self, rows: Rows[Block] | Iterable[tuple[Any, ...]], random: RandomSource) -> Vector:
        """The optimum with its noise, shape (p,); under a sparse penalty what noise alone could bring in is zero."""
        optimum = self.optimum(rows, self.linear)
        released = self.final.release(pairs.plus(optimum, self.sample(random).astype(optimum.high.dtype)), random)
        return np.where(np.abs(released) <= self.threshold, 0.0, released)

    @property
    def law(self) -> Noise:
        """The law of g, the same in all directions."""
        assert isinstance(self.noise, Noise)
        return self.noise

    @property
    def gradient_size(self) -> float:
        """Twice the noise, as a gradient of the flattest column.

        Half of the rounding that this pays for is the noise's own (docs/proofs/output, 4).
        """
        return gradient_size(self.law, self.curvature)

    @property
    def noise_facts(self) -> NoiseFacts:
        """Scale and curvature, beside the classical split's scale."""
        return scale_facts(self, "Noise in the coefficients, in the metric of the curvature")

    @property
    def errors_note(self) -> str:
        """Why there are none, and what stands in for them."""
        return (
            "The noise is added to the coefficients themselves and its law is public: 'noise sd' is its exact "
            "standard deviation. Standard errors would include sampling error, which depends on the rows and is "
            f"not part of this release; {argument('method', 'napp')} releases them."
        )

    def risk(self, tables: RiskTables[Table]) -> Table:
        """That of noise in the optimum."""
        return tables.of_optimum(self.law)

    def predicted_error(self, hessian: Matrix, coefficients: Vector) -> tuple[Matrix, Matrix]:
        """The noise's own variances, and what M pulls."""
        bias = np.linalg.solve(hessian + np.diag(self.curvature), self.curvature * coefficients)
        return np.diag(self.noise_variances), np.outer(bias, bias)

    def noise_bounds(self, transform: Matrix) -> Vector:
        """The standard deviations themselves."""
        return deviations(transform, self.noise_variances)


def plan_output(spec: FitSpec, eps: float, delta: float) -> OutputPlan:
    """Choose curvature and noise for one release, from public facts only.

    ArgumentError if the penalty is not convex, or for an option that the method does not have.
    """
    check_output_options(spec.options, "output")
    design, family, penalty = spec.design, spec.family, spec.penalty
    budget = spec.budget(eps, delta)
    if penalty is not None and not penalty.convex:
        raise ArgumentError(
            f"penalty {penalty.name!r} is not convex: {argument('method', 'output')} has no guarantee for it"
        )
    ridge, remainder = (0.0, None) if penalty is None else split_curvature(penalty)
    penalised, size = ridge * spec.weights, len(design.names)
    sizes = typical_sizes(family, design, budget.radius)
    kinds: tuple[Kind, ...] = ("laplace", "gaussian") if budget.delta > 0 else ("laplace",)
    kinds = kinds if budget.kind is None else (budget.kind,)
    units = {kind: _unit(family, budget, kind).expected_square(size) for kind in kinds}
    kind = min(kinds, key=lambda kind: units[kind])
    if budget.curvature is None:
        rows = spec.options.rows_guess * (MEAN_CURVATURE * family.curvature_bound)
        total = np.maximum(penalised, output_curvature(design, sizes, units[kind] / size, rows))
    else:
        total = penalised + budget.curvature
    kappa = design.curvature_ratio(total)
    noise = output_noise(
        family,
        eps=budget.eps,
        delta=budget.delta if kind == "gaussian" else 0.0,
        curvature_ratio=kappa,
        adjacency=budget.adjacency,
        kind=kind,
    )
    row_length = math.sqrt(design.curvature_ratio(np.ones(size)))
    step = LastStep(
        family,
        gradient_size(noise, total),
        row_length,
        total,
        budget.rows_at_most,
        remainder,
        offset_bound=design.offset_bound,
    )
    tolerance, final = step.plan(budget.final_eps, averages_out=False)
    return OutputPlan(
        family=family,
        eps=budget.eps,
        delta=budget.delta if kind == "gaussian" else 0.0,
        adjacency=budget.adjacency,
        curvature=total,
        kappa=kappa,
        row_norm=row_length,
        row_length=row_length,
        rows_at_most=budget.rows_at_most,
        noise=noise,
        noise_shape=np.sqrt(total),
        classical_scale=classical_scale(family, budget, noise.kind, total, row_length),
        planned_eps=budget.eps,
        joint_need=budget.eps,
        penalty=remainder,
        penalty_weights=spec.weights,
        threshold=_threshold(noise, total, remainder, spec),
        linear=np.zeros(size),
        radius=float(np.linalg.norm(sizes)),
        tolerance=tolerance,
        final=final,
        offset_bound=design.offset_bound,
    )


def deviations(transform: Matrix, variances: Vector) -> Vector:
    """Standard deviations of transform @ theta for independent coefficients of these variances, shape (k,)."""
    rows, units = in_units(transform)
    return np.asarray(units * np.sqrt(rows**2 @ variances))


def gradient_size(law: Noise, curvature: Vector) -> float:
    """Twice the noise of the coefficients, root mean square, as a gradient of the flattest column."""
    return 2 * math.sqrt(law.expected_square(len(curvature))) * math.sqrt(float(np.min(curvature)))


def _threshold(noise: Noise, curvature: Vector, penalty: Penalty | None, spec: FitSpec) -> Vector:
    """What noise alone rarely passes in a sparse fit, by `selection_level`, shape (p,); zeros in another."""
    if penalty is None or not penalty.sparse or not np.any(spec.weights):
        return np.zeros(len(curvature))
    columns = int(np.count_nonzero(spec.weights))
    bound = noise_threshold(noise, len(curvature), spec.options.selection_level, columns=columns)
    return np.where(spec.weights > 0, bound / np.sqrt(curvature), 0.0)


def output_curvature(design: Bounds, sizes: Vector, unit_variance: float, row_curvature: float) -> Vector:
    """The diagonal M that minimises what noise and shrinkage cost together, shape (p,), from public values alone.

    For terms of length l_t and coefficients of norm R_t the cost is nearly c kappa h sum_j q_j / m_j + sum_j m_j r_j^2,
    kappa = sum_t l_t^2 / m_t and sum of q_j over a term l_t^2: least at m_t = tau l_t / R_t with tau^3 = 2 c h sum_t
    l_t R_t (docs/proofs/output, 5). `sizes` (p,) guesses at r, `row_curvature` at h, the sum of l'' over all rows;
    `unit_variance` is c, the variance of a coordinate of g where kappa is 1.
    """
    lengths, norms = np.ones(len(sizes)), np.ones(len(sizes))
    longest = max(term.l2 for term in design.terms)
    total = 0.0
    for term in design.terms:
        length, norm = max(term.l2, LEAST_SHARE * longest), float(np.linalg.norm(sizes[term.columns]))
        lengths[term.columns], norms[term.columns] = length, norm
        total += length * norm
    return (2 * unit_variance * row_curvature * total) ** (1 / 3) * lengths / norms


def classical_scale(family: Family, budget: NoiseBudget, kind: Kind, curvature: Vector, row_length: float) -> float:
    """The scale of g whose mean square in the coefficients is that of the published rule at the same curvature.

    The rule: sensitivity L X / min m in every direction, and sqrt(2 log(1.25 / delta)) / eps for normal noise.
    """
    rows = 2 if budget.adjacency == "replace_one" else 1
    sensitivity = rows * family.lipschitz * row_length / float(np.min(curvature))
    factor = 1.0 if kind == "laplace" else math.sqrt(2 * math.log(1.25 / budget.delta))
    return sensitivity * factor / budget.eps * math.sqrt(len(curvature) / float(np.sum(1 / curvature)))


def check_output_options(options: Options, method: str) -> None:
    """Raise ArgumentError if an option asks for what noise in the optimum, or a posterior sample, does not have."""
    conflicts = {
        "inference": options.inference not in ("auto", None),
        "stages": options.stages == 2,
        "selection": options.selection is not None,
        "refit_share": options.refit_share > 0,
        "screen": options.screen is not None,
        "split": options.split is not None,
        "retrieval": options.retrieval in ("return", "paper"),
        "moor": options.moor is not None,
        "realization": options.realization != "analytic",
    }
    refuse_options(conflicts, method)


def refuse_options(conflicts: Mapping[str, bool], method: str) -> None:
    """Raise ArgumentError for the first option that is given and that a method does not have."""
    for name, given in conflicts.items():
        if given:
            this, other = argument("method", method), argument("method", "napp")
            raise ArgumentError(f"{name} cannot be combined with {this}; leave it out, or use {other}")


def _unit(family: Family, budget: NoiseBudget, kind: Kind) -> Noise:
    """The law of g where kappa is 1."""
    delta = budget.delta if kind == "gaussian" else 0.0
    return output_noise(family, eps=budget.eps, delta=delta, curvature_ratio=1.0, adjacency=budget.adjacency, kind=kind)

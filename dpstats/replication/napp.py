"""NAPP-ERM as printed, behind dp.glm's options: for replication, never certified (docs/napp)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from dpstats.arguments import safe_repr
from dpstats.data import Block, Rows, block_rows
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, Poisson
from dpstats.mechanisms.design import Bounds
from dpstats.mechanisms.spec import FitSpec
from dpstats.mechanisms.stage import Stage, StagePlan, StagesRelease
from dpstats.penalties import Bridge, Penalty, Ridge
from dpstats.privacy.guarantee import check_budget
from dpstats.privacy.noise import Noise
from dpstats.privacy.randomness import RandomSource
from dpstats.solvers.newton import damped_newton
from dpstats.solvers.objective import PerturbedObjective
from dpstats.wording import argument

Vector = NDArray[np.float64]
Selection = Literal["vs", "vs+"]

UNCERTIFIED = "constants and iterations of the NAPP-ERM paper, whose proof does not hold"
"""The reason every guarantee of these modes carries."""

NEGLIGIBLE_COEFFICIENT = 1e-6

HEAVIEST = 1e25
"""Majoriser weights are held at this, far above any Hessian, so that a coefficient at zero has a finite one."""

DECREMENT = 1e-9
"""Squared Newton decrement that ends each fit: the next one moves the target anyway."""

NOISE_ROWS = {"gaussian": (1.0, -1.0, 1.0), "binomial": (0.0, 0.5, 0.25), "poisson": (0.0, 1.0, 1.0)}
"""The response e_y of a noise row, and l'(0) and l''(0) of the uncapped loss there.

The paper suggests e_y = 0 for linear and 1 for Poisson regression, where l'(0) = 0 and its eq. (3) divides by it; and 0
and 1 in halves for logistic, whose antithetic pairs then fail to cancel."""


@dataclass(frozen=True)
class PaperConstants:
    """Algorithm 1's constants: a share r of eps for the noise, the rest for the Jacobian."""

    eps: float
    delta: float = 0.0
    # row_norm, lipschitz, curvature_bound: zeta_1, sup |l'| and sup l''. The paper's zeta_2 bounds the gradient in
    # theta and zeta_1 zeta_2 the row norm once more; with row_norm = 1, as in all its experiments, both readings agree.
    row_norm: float = 1.0
    lipschitz: float = 1.0
    curvature_bound: float = 1.0
    share: float = 0.5  # r, in (0, 1)

    def __post_init__(self) -> None:
        check_budget(self.eps, self.delta)
        if not 0 < self.share < 1:
            raise ArgumentError(f"share must lie in (0, 1), got {safe_repr(self.share)}")

    @property
    def lambda0(self) -> float:
        """Lambda_0 = zeta_3 / (2 (1 - r) eps), half the curvature the Jacobian is thought to need."""
        return self.curvature_bound * self.row_norm**2 / (2 * (1 - self.share) * self.eps)

    @property
    def scale(self) -> float:
        """Scale of the noise in eq. (4): that of the spherical Laplace law, or the Gaussian standard deviation."""
        spread = self.row_norm * self.lipschitz / (self.share * self.eps)
        return spread if self.delta == 0 else spread * math.sqrt(2 * (self.share * self.eps - math.log(self.delta)))

    def sample(
        self, size: int, random: RandomSource, *, printed_shape: bool = True, selection: Selection | None = None
    ) -> Vector:
        """Draw b, shape (size,), by eq. (4), or by eq. (9) and (10) with c = 0 for ``selection="vs+"``.

        `printed_shape` draws the radius of the spherical Laplace law from the printed Gamma(1, 2 scale), else from the
        right Gamma(size, scale).
        """
        direction = ndtri(random.random(size))
        if self.delta > 0:
            noise = self.scale * direction
        else:
            uniform = float(random.random(1)[0])
            shape, scale = (1.0, 2 * self.scale) if printed_shape else (float(size), self.scale)
            noise = direction / np.linalg.norm(direction) * scale * float(gammaincinv(shape, uniform))
        # Both laws are symmetric in every coordinate, so conditioning on b > 0 takes absolute values.
        return np.abs(noise) if selection == "vs+" else noise

    def retrieved(self, curvature: Vector, *, corrected: bool = True) -> float:
        """Eq. (13): the part of (1 - r) eps said to be spare at the weights n_e l'' V of the private optimum.

        It reads the private optimum, so the eps it returns depends on the data; and at a plain ridge, where n_e l'' V
        is 2 Lambda_0 exactly and nothing is spare, it gives back half. `corrected` is max{0, .}, which is meant, for
        the printed min{0, .}, which never retrieves anything.
        """
        spare = (1 - self.share) * self.eps * (1 - self.lambda0 / float(np.min(curvature)))
        return max(0.0, spare) if corrected else min(0.0, spare)


def curvature(penalty: Penalty, theta: Vector, lambda0: float, *, moor: bool, weights: Vector) -> Vector:
    """The quadratic weights n_e l''(0) V of Table 2 (moor) or Claim 2, shape (p,), for 1/2 sum_j w_j theta_j^2.

    As printed: 2 max(Lambda |theta|^-g, Lambda_0) with MOOR, 2 (Lambda |theta|^-g + Lambda_0) without, twice the
    lasso asked for; with Lambda the strength of Lasso, Ridge or Bridge(q = 2 - g), and ElasticNet(alpha, l1_ratio) for
    Lambda = alpha l1_ratio, kappa = (1 - l1_ratio) / l1_ratio.
    """
    touching = np.minimum(penalty.majorizer(theta, weights), HEAVIEST)
    if isinstance(penalty, Bridge):
        touching = touching / penalty.q
    together = moor or isinstance(penalty, Ridge)
    return 2 * (np.maximum(touching, lambda0) if together else touching + lambda0)


def fit(
    family: Family,
    rows: Rows[Block] | Iterable[tuple[Any, ...]],
    noise: Vector,
    penalty: Penalty,
    lambda0: float,
    *,
    moor: bool = True,
    selection: Selection | None = None,
    weights: Vector | None = None,
    iterations: int = 80,
) -> Vector:
    """Algorithm 1 with infinitely many noise rows: `iterations` weighted ridge fits on one draw of b. Uncertified.

    `moor`: Table 2's maximum, or Claim 2's sum. `selection` adds the term b'|theta| of eq. (8), by giving b the sign of
    the last estimate; coefficients that change sign from fit to fit at the end, or are below 1e-6, are set to 0
    (section 3.5).
    """
    size = len(noise)
    scale = np.ones(size) if weights is None else weights
    rows = block_rows(rows)
    heavier, linear = np.full(size, 2 * lambda0), noise
    theta = previous = np.zeros(size)
    for _ in range(iterations):
        previous, theta = theta, damped_newton(PerturbedObjective(family, rows, heavier, linear), theta, DECREMENT)[0]
        heavier = curvature(penalty, theta, lambda0, moor=moor, weights=scale)
        if selection is not None:
            linear = noise * np.sign(theta)
    if selection is not None or penalty.sparse:
        theta = np.where((np.abs(theta) < NEGLIGIBLE_COEFFICIENT) | (theta * previous < 0), 0.0, theta)
    return theta


# The `augmented` realisation: penalty and noise of privacy as extra rows for an ordinary fitter, here statsmodels' GLM.
# As their number grows the fit tends to the weighted ridge of `fit` (docs/proofs/napp, 4). For replication and for
# borrowing other software: the sampled rows miss the curvature that privacy needs, so no guarantee covers it.


def reference_draws(noise_rows: int, columns: int, random: RandomSource) -> NDArray[np.float64]:
    """Standard normal draws in antithetic pairs (row i and row i + noise_rows/2), shape (noise_rows, columns)."""
    half = ndtri(random.random(noise_rows // 2 * columns)).reshape(-1, columns)
    return np.concatenate([half, -half])


def noise_row(family: Family) -> tuple[float, float, float]:
    """Response, slope and curvature of a noise row; ArgumentError for a family that statsmodels does not fit."""
    if not isinstance(family, (Gaussian, Binomial, Poisson)):
        raise ArgumentError(
            f"{argument('realization', 'augmented')} needs a family statsmodels fits, Gaussian, Binomial or Poisson;"
            f" got {safe_repr(family)}"
        )
    return NOISE_ROWS[family.name]


def augment(family: Family, curvature: Vector, noise: Vector, draws: NDArray[np.float64]) -> tuple[Vector, Vector]:
    """Noise rows whose losses add up to about 1/2 theta' diag(curvature) theta + noise'theta (seed eq. 3 and 5).

    exog, shape (noise_rows, p), and endog, from `reference_draws`. `curvature` is privacy's m plus the majoriser's
    weights; the loss has no caps, of which an ordinary fitter knows none.
    """
    response, slope, bend = noise_row(family)
    rows = len(draws)
    return draws * np.sqrt(curvature / (rows * bend)) + noise / (rows * slope), np.full(rows, response)


def augmented_fit(
    family: Family,
    rows: Rows[Block] | Iterable[tuple[Any, ...]],
    curvature: Vector,
    noise: Vector,
    penalty: Penalty | None,
    random: RandomSource,
    *,
    weights: Vector | None = None,
    noise_rows: int = 10_000,
    iterations: int = 80,
    change: float = 1e-7,
) -> Vector:
    """The augmented counterpart of `fit`, uncertified: one statsmodels GLM fit an iteration.

    The same standard normal draws serve every iteration, rescaled, so that the iterations converge (the paper redraws
    them and averages the wander away).
    """
    scale = np.ones(len(noise)) if weights is None else np.asarray(weights, dtype=np.float64)
    draws = reference_draws(noise_rows, len(noise), random)
    blocks = block_rows(rows).collect()
    exog = np.concatenate([np.empty((0, len(noise))), *(block.exog for block in blocks)])
    endog = np.concatenate([np.empty(0), *(block.endog for block in blocks)])

    def ridge(total: Vector, start: Vector) -> Vector:
        extra, response = augment(family, total, noise, draws)
        return _ordinary_fit(family, np.concatenate([exog, extra]), np.concatenate([endog, response]), start)

    theta = ridge(curvature, np.zeros(len(noise)))
    if penalty is None:
        return theta
    for _ in range(iterations):
        heavier = np.minimum(penalty.majorizer(theta, scale), HEAVIEST)
        previous, theta = theta, ridge(curvature + heavier, theta)
        if np.max(np.abs(theta - previous)) <= change * np.max(np.abs(theta)):
            break
    return theta


def _ordinary_fit(family: Family, exog: NDArray[np.float64], endog: Vector, start: Vector) -> Vector:
    """Maximum likelihood by statsmodels, silent: its warnings would tell of the data."""
    # Half as long to import as all of dpstats, and for nothing else.
    from statsmodels.genmod import families
    from statsmodels.genmod.generalized_linear_model import GLM

    likelihood = {"gaussian": families.Gaussian, "binomial": families.Binomial, "poisson": families.Poisson}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GLM(endog, exog, family=likelihood[family.name]())
        fitted = model.fit(start_params=start, tol=1e-12, tol_criterion="params", maxiter=200)
    return np.asarray(fitted.params, dtype=np.float64)


def plan_replication(stages: Sequence[Stage], spec: FitSpec) -> tuple[Stage, ...]:
    """The plan of a paper mode: the printed noise and curvature in place of the calibrated ones.

    ArgumentError with two stages, a refit or a missing penalty, which the paper does not know, or if noise rows are
    asked for of a family that statsmodels does not fit.
    """
    design, penalty, options = spec.design, spec.penalty, spec.options
    if design.offset_bound or design.score_ratio != 1:
        raise ArgumentError(
            "weights, offsets and counts of trials are not part of the replicated paper; leave them out"
        )
    if len(stages) != 1:
        two = argument("stages", 2)
        raise ArgumentError(f"{two} and refit_share are not part of the replicated paper; leave them out")
    if penalty is None and options.as_printed:
        raise ArgumentError("penalty must be given, such as 'lasso': the modes of the replicated paper need one")
    plan = stages[0].plan
    if options.realization == "augmented":
        noise_row(plan.family)
    if not options.as_printed:
        return tuple(stages)
    constants = _constants(plan, design)
    size = plan.size
    return (
        Stage(
            "fit",
            replace(
                plan,
                noise=Noise("gaussian" if plan.delta > 0 else "laplace", "l2", constants.scale),
                noise_shape=np.ones(size),
                curvature=np.full(size, 2 * constants.lambda0),
                joint_need=plan.planned_eps,
                penalty=penalty,
            ),
        ),
    )


def release_replication(
    stages: Sequence[Stage], spec: FitSpec, rows: Rows[Block] | Iterable[tuple[Any, ...]], random: RandomSource
) -> StagesRelease:
    """Run the paper's iteration. Uncertified: what it releases depends on the rows in ways its proof leaves out."""
    plan, penalty, options = stages[0].plan, spec.penalty, spec.options
    if not options.as_printed:
        noise = plan.sample(random)
        theta = augmented_fit(
            plan.family, rows, plan.curvature, noise, plan.penalty, random, weights=plan.penalty_weights
        )
        return StagesRelease(theta, tuple(stages))
    assert penalty is not None
    constants = _constants(plan, spec.design)
    selection: Selection | None = None
    if options.selection == "vs" or options.selection == "vs+":
        selection = options.selection
    noise = constants.sample(plan.size, random, selection=selection)
    settings: dict[str, Any] = {"moor": options.moor == "paper", "selection": selection, "weights": spec.weights}
    theta = fit(plan.family, rows, noise, penalty, constants.lambda0, **settings)
    if options.retrieval == "paper":
        theta = _recycled(theta, plan.family, rows, noise, penalty, constants, settings)
    return StagesRelease(theta, tuple(stages))


def _constants(plan: StagePlan, design: Bounds) -> PaperConstants:
    """Algorithm 1's constants for this design."""
    return PaperConstants(
        eps=plan.planned_eps,
        delta=plan.delta,
        row_norm=design.norm_bound("l2", np.ones(plan.size)),
        lipschitz=plan.family.lipschitz,
        curvature_bound=plan.family.curvature_bound,
    )


def _recycled(
    theta: Vector,
    family: Family,
    rows: Rows[Block] | Iterable[tuple[Any, ...]],
    noise: Vector,
    penalty: Penalty,
    constants: PaperConstants,
    settings: dict[str, Any],
) -> Vector:
    """One round of Algorithm 2: shrink the same noise by what eq. (13) retrieves, and fit again."""
    heavier = curvature(penalty, theta, constants.lambda0, moor=settings["moor"], weights=settings["weights"])
    planned = constants.share * constants.eps
    shrunk = noise * planned / (planned + constants.retrieved(heavier))
    lambda0 = max(constants.lambda0, float(np.min(heavier)) / 2)
    return fit(family, rows, shrunk, penalty, lambda0, **settings)

"""NAPP-ERM as printed (seed NAPP-ERM), for replication only: none of it is private as claimed.

Every function follows the paper's formulas with their constants, errors included, so that its figures can be redrawn
and its claims put to the test. docs/napp.md lists what fails and the tests show each failure by exact probabilities.
What is shipped with a guarantee lives in `mechanisms.objective`, `mechanisms.two_stage` and `mechanisms.selection`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.families.base import Family
from dpstats.penalties import Bridge, Penalty, Ridge
from dpstats.privacy.guarantee import check_budget
from dpstats.privacy.randomness import RandomSource
from dpstats.rows import Block, Rows, block_rows
from dpstats.solvers.majorize import DECREMENT, HEAVIEST
from dpstats.solvers.newton import damped_newton
from dpstats.solvers.objective import PerturbedObjective

Vector = NDArray[np.float64]
Selection = Literal["vs", "vs+"]

UNCERTIFIED = "constants and iterations of the NAPP-ERM paper, whose proof does not hold"
"""The reason every guarantee of these modes carries."""

NEGLIGIBLE_COEFFICIENT = 1e-6


@dataclass(frozen=True)
class PaperConstants:
    """Algorithm 1's constants: a share r of eps for the noise, the rest for the Jacobian.

    Attributes
    ----------
    eps, delta : float
    row_norm, lipschitz, curvature_bound : float
        zeta_1, sup |l'| and sup l''. The paper's zeta_2 bounds the gradient in theta and zeta_1 zeta_2 the row norm
        once more; with row_norm = 1, as in all its experiments, both readings agree.
    share : float
        r, in (0, 1).

    Raises
    ------
    ArgumentError
        If the budget or the share is out of range.
    """

    eps: float
    delta: float = 0.0
    row_norm: float = 1.0
    lipschitz: float = 1.0
    curvature_bound: float = 1.0
    share: float = 0.5

    def __post_init__(self) -> None:
        check_budget(self.eps, self.delta)
        if not 0 < self.share < 1:
            raise ArgumentError(f"share must lie in (0, 1), got {shown(self.share)}")

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

        Parameters
        ----------
        printed_shape : bool
            Draw the radius of the spherical Laplace law from the printed Gamma(1, 2 scale); False draws it from the
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
        is 2 Lambda_0 exactly and nothing is spare, it gives back half.

        Parameters
        ----------
        curvature : ndarray, shape (p,)
            n_e l''(0) V(e_j), as from `curvature`.
        corrected : bool
            max{0, .}, which is meant, for the printed min{0, .}, which never retrieves anything.
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
    """Algorithm 1 with infinitely many noise rows: weighted ridge fits on one draw of b. Uncertified.

    Parameters
    ----------
    family : Family
    rows : Rows of Block
    noise : ndarray, shape (p,)
        b, from `PaperConstants.sample`.
    penalty : Penalty
    lambda0 : float
    moor : bool
        Table 2's maximum, or Claim 2's sum.
    selection : {"vs", "vs+"}, optional
        The term b'|theta| of eq. (8), by giving b the sign of the last estimate; coefficients that change sign from
        fit to fit at the end, or are below 1e-6, are set to 0 (section 3.5).
    weights : ndarray, shape (p,), optional
        Column weights of the penalty, ones by default.
    iterations : int
        T fits, the first with the weights 2 Lambda_0 alone.

    Returns
    -------
    ndarray, shape (p,)
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

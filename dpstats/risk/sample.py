"""How many rows make the price of privacy small (docs/risk, sample sizes)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import optimize

from dpstats.errors import ArgumentError
from dpstats.families import Family, get_family
from dpstats.mechanisms.design import array_norms
from dpstats.privacy.calibration import check_positive, objective_noise
from dpstats.privacy.guarantee import Adjacency, check_adjacency, check_budget
from dpstats.privacy.noise import Noise
from dpstats.risk import printed
from dpstats.risk.gaps import check_failure, gap_quantile
from dpstats.risk.table import PROOF

NO_JACOBIAN = 1e6
"""Curvature, in units of the least feasible one, at which the Jacobian costs nothing visible."""


@dataclass(frozen=True, eq=False)
class SampleSize:
    """A number of rows and what it rests on.

    Attributes
    ----------
    n : int
        The smallest number of rows at which the proved bound on the excess of the mean loss, over every coefficient
        vector of norm `radius`, is at most the target.
    curvature : float
        The quadratic term it is reached at, on the sum objective.
    noise : Noise
        The noise at that curvature.
    table : DataFrame
        ``n`` beside the sources' results; columns bound, source, n, holds, note.
    """

    n: int
    curvature: float
    noise: Noise
    table: pd.DataFrame = field(repr=False)

    def __int__(self) -> int:
        """The number of rows."""
        return self.n


def sample_size(
    family: str | Family,
    columns: int,
    *,
    eps: float,
    target: float,
    radius: float,
    delta: float = 0.0,
    pi: float = 0.05,
    row_norm: float | Mapping[str, float] = 1.0,
    adjacency: Adjacency = "add_remove",
    curvature: float | None = None,
) -> SampleSize:
    """The smallest n at which privacy costs at most `target` per row, with probability 1 - `pi`.

    The cost is (1/n) sum_i l(x_i'theta; y_i), without its quadratic term, at the released coefficients less its
    value at any coefficients of norm `radius`: the best for the same rows, not for new ones. On the sum objective
    that bound does not depend on n, so n is the bound divided by the target.

    Parameters
    ----------
    family : str or Family
        The loss, its caps set.
    columns : int
        p, every column counted (the intercept's too).
    eps, delta : float
        The budget of the noise.
    target : float
        Excess of the mean loss, in units of the loss.
    radius : float
        Norm of the coefficients to compare with, in model units.
    pi : float
        Probability, over the noise, of missing the target.
    row_norm : float or dict
        Bounds on the rows, as for `dpstats.privacy.objective_noise`.
    adjacency : {"add_remove", "replace_one"}
    curvature : float, optional
        The quadratic term; by default the one that needs the fewest rows.

    Returns
    -------
    SampleSize

    Raises
    ------
    ArgumentError
        If an argument is outside its range, or `curvature` is too small for any noise.

    References
    ----------
    docs/proofs/risk, theorem 2; Chaudhuri et al. (2011), theorems 3 and 4; Li & Liu, theorem 10.
    """
    family = get_family(family)
    eps, delta = check_budget(eps, delta)
    adjacency = check_adjacency(adjacency)
    pi = check_failure(pi)
    target, radius = check_positive("target", target), check_positive("radius", radius)
    if isinstance(columns, bool) or not isinstance(columns, (int, np.integer)) or columns < 1:
        raise ArgumentError(f"columns must be a positive integer, got {columns!r}")
    ones = np.ones(columns)

    def noise_at(level: float) -> Noise:
        return objective_noise(
            family, eps=eps, delta=delta, row_norm=row_norm, curvature=level, adjacency=adjacency, size=columns
        )

    def cost(level: float) -> float:
        diagonal = level * ones
        return gap_quantile(noise_at(level), ones, diagonal, pi, removed=diagonal, radius=radius)

    row_square = array_norms(row_norm, columns)["l2"] ** 2
    smoothness = family.curvature_bound * row_square
    if curvature is None:
        least = smoothness / math.expm1(min(eps, 50.0))
        free = math.sqrt(noise_at(NO_JACOBIAN * least).expected_square(columns)) / radius
        curvature = _least_cost(cost, 1.01 * least, 100 * max(least, free))
    curvature = check_positive("curvature", curvature)
    n = math.ceil(cost(curvature) / target)
    setting = printed.Setting(
        columns=columns,
        eps=eps,
        delta=delta,
        pi=pi,
        curvature=curvature,
        lipschitz=family.lipschitz * math.sqrt(row_square),
        smoothness=smoothness,
        radius=radius,
    )
    proved = ("unregularised, same rows", f"{PROOF}, theorem 2", n, "proved", "the price of privacy alone")
    table = pd.DataFrame([proved, *printed_sizes(setting, target)], columns=["bound", "source", "n", "holds", "note"])
    return SampleSize(n, curvature, noise_at(curvature), table)


def printed_sizes(setting: printed.Setting, target: float) -> list[tuple[str, str, int, str, str]]:
    """The sources' sample sizes, unknown constants taken as 1 (a factor) or 0 (a term); rows of the table."""
    lipschitz, radius, pi = setting.lipschitz, setting.radius, setting.pi
    sampling = (lipschitz * radius / target) ** 2 * math.log(1 / pi)
    noise = setting.gamma_norm * lipschitz * radius / (target * setting.eps)
    curved = setting.smoothness * radius**2 / target
    objective = max(sampling, curved / setting.eps, noise)
    smooth = setting.gamma_norm * lipschitz * math.sqrt(setting.smoothness) * radius**2
    output = max(sampling, noise, smooth / (target**1.5 * setting.eps))
    constant = printed.napp_sample_constant(setting)
    split = printed.SHARE * setting.eps
    napp = _balanced(constant, setting.smoothness / split, radius) / target
    quoted = _balanced(2 * printed.kifer_noise_square(setting), 2 * setting.smoothness / setting.eps, radius) / target
    rows = [
        (
            "unregularised, same rows",
            f"{printed.KIFER}, as quoted in {printed.FUKUCHI}, lemma 2",
            quoted,
            "implied" if setting.delta == 0 else "other noise",
            "solved for n at the curvature that is best for it",
        ),
        (
            "population",
            f"{printed.NAPP}, theorem 10, eq. (21)",
            napp,
            "order only",
            "C' = 0 taken; vacuous for targets below C' log(1/pi') / (2 m)",
        ),
    ]
    if setting.delta == 0:
        rows += [
            ("population", f"{printed.CHAUDHURI}, theorem 4, eq. (59)", objective, "order only", "C = 1 taken"),
            (
                "population",
                f"{printed.CHAUDHURI}, theorem 3, eq. (43)",
                output,
                "order only",
                "output perturbation; C = 1 taken",
            ),
        ]
    return [(bound, source, math.ceil(value), holds, note) for bound, source, value, holds, note in rows]


def _balanced(noise: float, least: float, radius: float) -> float:
    """min of noise / m + m radius^2 / 2 over m >= least."""
    curvature = max(math.sqrt(2 * noise) / radius, least)
    return noise / curvature + curvature * radius**2 / 2


def _least_cost(cost: Callable[[float], float], low: float, high: float) -> float:
    """The curvature of least cost between the two, to one percent."""
    found = optimize.minimize_scalar(
        lambda level: cost(math.exp(level)),
        bounds=(math.log(low), math.log(high)),
        method="bounded",
        options={"xatol": 0.01},
    )
    return math.exp(float(found.x))

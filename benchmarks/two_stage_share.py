"""Prediction error of one-shot and two-stage fits by the share of stage 1: how the default share was chosen.

The settings are those of Table 4 of the NAPP-ERM paper and larger samples. Errors are excess over the non-private fit:
mean squared error (linear, Poisson) or misclassification (logistic) on 10,000 fresh rows.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from functools import cache

import numpy as np

from dpstats.families import Binomial, Family, Gaussian, Poisson
from dpstats.mechanisms.curvature import least_curvature, risk_curvature
from dpstats.mechanisms.two_stage import allocate
from dpstats.privacy.calibration import joint_scale
from dpstats.privacy.noise import Noise
from dpstats.solvers import newton
from dpstats.solvers.objective import PerturbedObjective

COLUMNS = 16
MAXIMA = np.full(COLUMNS, 1 / np.sqrt(COLUMNS))
SETTINGS = (
    ("linear", 500),
    ("linear", 5000),
    ("logistic", 1000),
    ("logistic", 10_000),
    ("poisson", 1000),
    ("poisson", 5000),
)
BUDGETS = ((0.4, 0.0), (1.0, 0.0), (1.0, 1e-3))
SHARES = (0.1, 0.2, 0.35, 0.5)
FAMILIES: dict[str, Family] = {"linear": Gaussian(0.5), "logistic": Binomial(), "poisson": Poisson(20.0, 20.0)}
RESPONSE_UNIT = 1.7  # half the range of the linear response
Rows = tuple[np.ndarray, np.ndarray]


class Box:
    """All columns as one term, |x_j| <= 1/4."""

    columns = slice(0, COLUMNS)
    l2 = 1.0

    @staticmethod
    def ratio(curvature: np.ndarray) -> float:
        return float(np.sum(MAXIMA**2 / curvature))


def draw(name: str, rows: int, random: np.random.Generator) -> Rows:
    """Rows in model units: eight of sixteen coefficients are not zero."""
    exog = random.uniform(-0.25, 0.25, (rows, COLUMNS))
    steps = np.arange(8) / 7
    if name == "linear":
        eta = exog[:, :8] @ (1 - 0.8 * steps)
        return exog, (eta + np.clip(random.normal(0, 0.25, rows), -0.5, 0.5)) / RESPONSE_UNIT
    eta = exog[:, :8] @ (4 - 0.5 * steps)
    if name == "logistic":
        return exog, (random.random(rows) < 1 / (1 + np.exp(-2 * eta))).astype(float)
    return exog, np.minimum(random.poisson(np.exp(eta)), 20).astype(float)


def loss(name: str, theta: np.ndarray, rows: Rows) -> float:
    exog, endog = rows
    if name == "logistic":
        return float(np.mean((exog @ theta > 0) != (endog > 0.5)))
    fitted = np.exp(np.minimum(exog @ theta, np.log(20))) if name == "poisson" else exog @ theta
    return float(np.mean((fitted - endog) ** 2)) * (RESPONSE_UNIT**2 if name == "linear" else 1.0)


@cache
def curvature_and_noise(name: str, eps: float, delta: float) -> tuple[float, Noise]:
    """The default curvature and the noise it needs; kappa = 1 / curvature."""
    kind, norm, row_norm = ("gaussian", "l2", 1.0) if delta > 0 else ("laplace", "linf", float(MAXIMA[0]))

    @cache
    def scale(kappa: float) -> float:
        return joint_scale(
            FAMILIES[name], eps=eps, delta=delta, curvature_ratio=kappa, row_norm=row_norm, adjacency="add_remove"
        )

    square = Noise(kind, norm, 1.0).expected_square(COLUMNS)
    least = 2 * least_curvature(FAMILIES[name], 1.0, eps)
    curvature, _ = risk_curvature(1.6 * np.sqrt(COLUMNS), lambda m: square * scale(max(1 / m, 1e-9)) ** 2, least)
    return curvature, Noise(kind, norm, scale(1 / curvature))


def solve(name: str, rows: Rows, curvature: np.ndarray, linear: np.ndarray) -> np.ndarray:
    return newton.minimize(PerturbedObjective(FAMILIES[name], [rows], curvature, linear), 1e-6).astype(float)


def two_stages(
    name: str, rows: Rows, eps: float, delta: float, share: float, random: np.random.Generator
) -> dict[str, np.ndarray]:
    """Stage 2 shrunk towards zero and towards stage 1, on the same draws."""
    first, first_noise = curvature_and_noise(name, eps * share, delta / 2)
    stage1 = solve(name, rows, np.full(COLUMNS, first), first_noise.sample(COLUMNS, random))
    second, second_noise = curvature_and_noise(name, eps * (1 - share), delta / 2)
    curvature = allocate(stage1, [Box()], MAXIMA, Box.ratio, 1 / second)
    noise = second_noise.sample(COLUMNS, random)
    return {
        f"zero {share:g}": solve(name, rows, curvature, noise),
        f"stage1 {share:g}": solve(name, rows, curvature, noise - curvature * stage1),
    }


def main() -> None:
    """Print one line a setting and budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    repeats = parser.parse_args().repeats
    for name, count in SETTINGS:
        random = np.random.default_rng(1)
        fresh = draw(name, 10_000, random)
        for eps, delta in BUDGETS:
            losses = defaultdict(list)
            for _ in range(repeats):
                rows = draw(name, count, random)
                plain = loss(name, solve(name, rows, np.full(COLUMNS, 1e-3), np.zeros(COLUMNS)), fresh)
                curvature, noise = curvature_and_noise(name, eps, delta)
                fits = {"one shot": solve(name, rows, np.full(COLUMNS, curvature), noise.sample(COLUMNS, random))}
                for share in SHARES:
                    fits |= two_stages(name, rows, eps, delta, share, random)
                for label, theta in fits.items():
                    losses[label].append(loss(name, theta, fresh) - plain)
            line = ", ".join(f"{label} {np.mean(values):.4f}" for label, values in losses.items())
            print(f"{name} n={count} eps={eps} delta={delta}: {line}", flush=True)


if __name__ == "__main__":
    main()

"""Levels of the proved excess-risk bounds and looseness of the printed ones.

``python -m benchmarks.audits.excess_risk``.

Prints the tables of docs/risk. Each printed bound is held against the mechanism of its own source, drawn afresh.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from dpstats.families import Binomial, Gaussian
from dpstats.privacy.calibration import classical_scale, objective_noise
from dpstats.privacy.noise import Noise
from dpstats.risk import gap_quantile, literature_bounds, sample_size
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import PerturbedObjective

PI = 0.05
SEED = 2026
LAW_DRAWS = 20_000
FITS = 1_000
ROWS = 2_000
LAWS = [Noise("gaussian", "l2", 1.0), *(Noise("laplace", norm, 1.0) for norm in ("l2", "l1", "linf"))]

Vector = np.ndarray
Data = tuple[np.ndarray, np.ndarray]


def law_name(noise: Noise) -> str:
    return noise.kind if noise.kind == "gaussian" else f"laplace {noise.norm}"


def levels_without_rows() -> pd.DataFrame:
    """The worst data: no rows. The share of draws beyond the bound should be pi exactly."""
    random = np.random.default_rng(SEED)
    lines = []
    for noise in LAWS:
        for size in (1, 5, 20, 105):
            draws = np.array([noise.sample(size, random) for _ in range(LAW_DRAWS)])
            for name, curvature in (("equal", np.full(size, 3.0)), ("1 to 20", np.geomspace(1, 20, size))):
                gaps = 0.5 * draws**2 @ (1 / curvature)
                sharp = gap_quantile(noise, np.ones(size), curvature, PI)
                crude = noise.norm_quantile(size, 1 - PI) ** 2 / (2 * curvature.min())
                fails = f"{100 * np.mean(gaps > sharp):.2f} %"
                lines.append((law_name(noise), size, name, fails, f"{crude / sharp:.2f}"))
    return pd.DataFrame(lines, columns=["noise", "p", "curvature", "beyond theorem 1", "||b||^2 / (2 min m) over it"])


def logistic_rows(columns: int, random: np.random.Generator) -> Data:
    """Rows in the unit ball and 0/1 responses with coefficients of norm 1.6 sqrt(p)."""
    exog = random.uniform(-1, 1, size=(ROWS, columns)) / math.sqrt(columns)
    theta = random.normal(size=columns)
    theta *= 1.6 * math.sqrt(columns) / np.linalg.norm(theta)
    return exog, (random.random(ROWS) < 1 / (1 + np.exp(-exog @ theta))).astype(float)


class Problem:
    """Logistic regression on given rows: optima and losses."""

    def __init__(self, data: Data, curvature: float) -> None:
        self.data, self.curvature, self.columns = data, curvature, data[0].shape[1]
        self.best = self.released(np.zeros(self.columns))
        self.free = self.solve(1e-3, np.zeros(self.columns))

    def solve(self, curvature: float, linear: Vector) -> Vector:
        diagonal = np.full(self.columns, curvature)
        found = minimize(PerturbedObjective(Binomial(), [self.data], diagonal, linear), 1e-8)
        return np.asarray(found, dtype=float)

    def released(self, linear: Vector) -> Vector:
        return self.solve(self.curvature, linear)

    def loss(self, theta: Vector) -> float:
        return float(np.sum(Binomial().derivatives(self.data[0] @ theta, self.data[1]).value))

    def gaps(self, theta: Vector) -> tuple[float, float]:
        """Excess of the regularised objective over its minimum, and of the loss over its minimum."""
        ridge = 0.5 * self.curvature * (theta @ theta - self.best @ self.best)
        return self.loss(theta) - self.loss(self.best) + ridge, self.loss(theta) - self.loss(self.free)

    def sample_gaps(self, draw: Callable[[], Vector], moves: bool) -> np.ndarray:
        """Gaps of FITS releases, shape (FITS, 2): noise in the objective, or on its optimum if it `moves` that."""
        draws = (draw() for _ in range(FITS))
        return np.array([self.gaps(self.best + b if moves else self.released(b)) for b in draws])


def levels_with_rows() -> pd.DataFrame:
    """Logistic regression: how often the gaps exceed the bounds, and the bounds over the gaps' quantiles."""
    lines = []
    for columns, eps, delta, adjacency in (
        (5, 1.0, 0.0, "add_remove"),
        (20, 1.0, 0.0, "add_remove"),
        (20, 0.1, 0.0, "add_remove"),
        (20, 1.0, 1e-6, "add_remove"),
        (20, 0.1, 1e-6, "replace_one"),
    ):
        random = np.random.default_rng(SEED)
        data = logistic_rows(columns, random)
        radius = float(np.linalg.norm(Problem(data, 1e-3).free))
        size = sample_size(
            "binomial", columns, eps=eps, delta=delta, radius=radius, target=0.01, adjacency=adjacency, pi=PI
        )
        ones = np.ones(columns)
        diagonal = size.curvature * ones
        bounds = np.array(
            [
                gap_quantile(size.noise, ones, diagonal, PI),
                gap_quantile(size.noise, ones, diagonal, PI, removed=diagonal, radius=radius),
            ]
        )
        problem = Problem(data, size.curvature)
        gaps = problem.sample_gaps(lambda law=size.noise, p=columns, source=random: law.sample(p, source), moves=False)
        beyond = [f"{100 * share:.1f} %" for share in np.mean(gaps > bounds, axis=0)]
        over = [f"{ratio:.1f}" for ratio in bounds / np.quantile(gaps, 1 - PI, axis=0)]
        setting = (columns, eps, delta, adjacency, f"{size.curvature:.3g}", f"{radius:.1f}")
        lines.append((*setting, beyond[0], over[0], beyond[1], over[1], size.n))
    titles = ["p", "eps", "delta", "adjacency", "m", "R", "beyond 1", "bound 1 / quantile"]
    return pd.DataFrame(lines, columns=[*titles, "beyond 2", "bound 2 / quantile", "n for 0.01"])


def source_noise(bound: literature_bounds.Bound, setting: literature_bounds.PublicSetting) -> Noise | None:
    """The noise of the bound's own source; None for input perturbation."""
    size, eps, delta = setting.lipschitz, setting.eps, setting.delta
    if bound.source.startswith(literature_bounds.CHAUDHURI):
        left = eps - 2 * math.log1p(setting.smoothness / setting.curvature)
        scale = 2 * size / (left if bound.same_mechanism else eps * setting.curvature)
    elif bound.source.startswith(literature_bounds.LECTURE):
        scale = size / (setting.curvature * eps) * math.sqrt(2 * math.log(1.25 / delta))
    elif bound.source.startswith(literature_bounds.FUKUCHI):
        return None
    elif bound.source.startswith(literature_bounds.NAPP) and delta > 0:
        split = literature_bounds.SHARE * eps
        scale = size / split * math.sqrt(2 * (split - math.log(delta)))
    else:
        scale = classical_scale(Binomial(), eps=eps, delta=delta, row_norm=1.0)
    return Noise("gaussian" if delta > 0 else "laplace", "l2", scale)


def printed_looseness() -> pd.DataFrame:
    """Every printed bound over the quantile of its own mechanism, with rows and, where that is the worst, without.

    The first setting is the one of Chaudhuri et al.'s theorem 4: the Jacobian takes half of eps.
    """
    lines = []
    for columns, eps, delta, curvature in (
        (1, 1.0, 0.0, 0.25 / math.expm1(0.25)),
        (20, 1.0, 0.0, 8.0),
        (20, 1.0, 1e-6, 8.0),
    ):
        random = np.random.default_rng(SEED)
        problem = Problem(logistic_rows(columns, random), curvature)
        radius = float(np.linalg.norm(problem.free))
        setting = literature_bounds.PublicSetting(columns, eps, delta, PI, curvature, 1.0, 0.25, radius, ROWS)
        ours = objective_noise(Binomial(), eps=eps, delta=delta, curvature=curvature, size=columns)
        ones, diagonal = np.ones(columns), np.full(columns, curvature)
        best = {
            "regularised": gap_quantile(ours, ones, diagonal, PI),
            "unregularised": gap_quantile(ours, ones, diagonal, PI, removed=diagonal, radius=radius),
        }
        for bound in literature_bounds.printed_bounds(setting):
            noise = source_noise(bound, setting)
            if noise is None or bound.gap == "population":
                continue
            draws = np.array([noise.sample(columns, random) for _ in range(FITS)])
            gaps = problem.sample_gaps(iter(draws).__next__, moves=not bound.same_mechanism)
            found = np.quantile(gaps[:, 0 if bound.gap == "regularised" else 1], 1 - PI)
            empty = "-"
            if bound.gap == "regularised" and bound.same_mechanism:
                law = np.sum(np.array([noise.sample(columns, random) for _ in range(LAW_DRAWS)]) ** 2, axis=1)
                empty = f"{100 * np.mean(law / (2 * curvature) > bound.value):.2f} %"
            figures = (f"{bound.value / found:.3g}", empty, f"{bound.value / best[bound.gap]:.3g}")
            lines.append((columns, delta, bound.gap, bound.source, *figures))
    titles = ["p", "delta", "gap", "source", "over its own quantile", "beyond it without rows", "over our bound"]
    return pd.DataFrame(lines, columns=titles)


def input_perturbation() -> pd.DataFrame:
    """Fukuchi et al.'s lemma 2 and theorem 2 on least squares: printed value over what their mechanism does."""
    lines = []
    for columns, rows in ((5, 10_000), (20, 100_000)):
        random = np.random.default_rng(SEED)
        exog = random.uniform(-1, 1, size=(rows, columns)) / math.sqrt(columns)
        endog = np.clip(exog @ random.normal(size=columns) + random.normal(scale=0.2, size=rows), -1, 1)
        best = np.linalg.solve(exog.T @ exog, exog.T @ endog)
        eps, delta = 1.0, 1e-5
        radius = float(np.linalg.norm(best))
        setting = literature_bounds.PublicSetting(
            columns, eps, delta, PI, 3 / eps, Gaussian(1.0).lipschitz, 1.0, radius, rows
        )
        part = math.sqrt(math.log(4 / delta) / rows)
        lead = math.sqrt(2 * columns) * part
        sigma = (lead + math.sqrt(lead**2 + 2 / eps * (1 - 2 * part))) / (1 - 2 * part)
        noise = setting.lipschitz * math.sqrt(8 * math.log(4 / delta) + 4 * eps) / eps
        gaps = []
        for _ in range(200):
            features = exog + random.normal(scale=sigma / math.sqrt(rows), size=exog.shape)
            ridge = (setting.curvature - 2 / eps) * np.eye(columns)
            moments = exog.T @ endog - noise * random.normal(size=columns)
            shift = np.linalg.solve(features.T @ features + ridge, moments) - best
            gaps.append(0.5 * float(np.sum((exog @ shift) ** 2)))
        for bound, found in zip(
            literature_bounds.fukuchi(setting), (np.quantile(gaps, 1 - PI), np.mean(gaps)), strict=True
        ):
            lines.append((columns, rows, bound.source, f"{bound.value / found:.3g}"))
    return pd.DataFrame(lines, columns=["p", "n", "source", "over what happens"])


def sample_sizes() -> pd.DataFrame:
    """Rows needed for an excess mean loss of 0.01 at radius 1.6 sqrt(p), ours and printed."""
    tables = []
    for columns, eps, delta in ((5, 1.0, 0.0), (20, 1.0, 0.0), (20, 0.1, 0.0), (20, 1.0, 1e-6), (105, 1.0, 1e-6)):
        found = sample_size(
            "binomial", columns, eps=eps, delta=delta, radius=1.6 * math.sqrt(columns), target=0.01, pi=PI
        )
        tables.append(found.table.assign(p=columns, eps=eps, delta=delta))
    table = pd.concat(tables)
    wide = table.pivot_table(index="source", columns=["p", "eps", "delta"], values="n", sort=False)
    return wide.map(lambda rows: "-" if math.isnan(rows) else f"{rows:,.0f}").reset_index()


def main() -> None:
    for title, table in (
        ("Without rows", levels_without_rows),
        ("Logistic regression", levels_with_rows),
        ("Printed bounds", printed_looseness),
        ("Input perturbation", input_perturbation),
        ("Sample sizes", sample_sizes),
    ):
        print(f"\n## {title}\n\n{table().to_string(index=False)}", flush=True)


if __name__ == "__main__":
    main()

"""The radius and the ridge of logistic regression from reports: ``python -m benchmarks.defaults.local [runs]``.

Six populations: the census of benchmarks.replications.local with an upper quarter and with an upper half to tell, a
model of Adult, four columns of strong effects, six skewed columns, one 0/1 column. Shown is what a method loses beside
the best coefficients in the population, the mean logistic loss and the share of mistakes, at 2^13 reports, delta = .01:
of `dp.local` with the radius a multiple of the typical one and the ridge a multiple of the rule's, of the quadratic
approximation that it had before, and of `dp.glm`, which sees the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, special

import dpstats as dp
from benchmarks.replications import local
from dpstats.local import collector
from dpstats.local.compile import SHRUNK, local_design

ROWS, DELTA, SEED = 2**13, 0.01, 5
EVERYONE = 150_000
SETTINGS = ((1.0, 1.0), (1.0, 0.7), (0.7, 0.7), (0.5, 1.0), (0.5, 0.7), (0.5, 0.5), (0.35, 0.7))
"""Multiples of the typical radius and of the ridge's rule."""

Rows = tuple[np.ndarray, np.ndarray]


def populations(random: np.random.Generator) -> Iterator[tuple[str, Any, str, pd.DataFrame]]:
    """Name, Domain, formula and rows."""
    census = local.census(EVERYONE, random)
    for name, cut in (("census, quarter", 10.6), ("census, half", 9.9)):
        yield name, local.DOMAIN, f"high ~ {local.FORMULA}", census.assign(high=(census.log_income > cut).astype(float))
    adult = dp.datasets.load_adult()
    yield "Adult", adult.domain, "income ~ age + education_num + sex + hours_per_week + marital_status", adult.data

    def answers(eta: Any) -> np.ndarray:
        return (random.random(EVERYONE) < special.expit(eta)).astype(float)

    strong = pd.DataFrame({"a": random.uniform(-1, 1, EVERYONE), "b": random.normal(0, 0.4, EVERYONE).clip(-1, 1)})
    strong["c"] = random.choice(["u", "v", "w"], EVERYONE)
    strong["y"] = answers(-1 + 4 * strong.a - 3 * strong.b + 1.5 * (strong.c == "v"))
    yield "strong", {"a": (-1, 1), "b": (-1, 1), "c": ["u", "v", "w"], "y": (0, 1)}, "y ~ a + b + c", strong
    names = [f"x{place}" for place in range(6)]
    skewed = pd.DataFrame({name: random.exponential(0.12, EVERYONE).clip(0, 1) for name in names})
    skewed["y"] = answers(-3 + skewed.to_numpy() @ [8, 6, -4, 3, 0, 0])
    yield "skewed", {**dict.fromkeys(names, (0, 1)), "y": (0, 1)}, f"y ~ {' + '.join(names)}", skewed
    flag = pd.DataFrame({"s": (random.random(EVERYONE) < 0.3).astype(float)})
    flag["y"] = answers(np.where(flag.s > 0, special.logit(0.9), special.logit(0.2)))
    yield "flag", {"s": (0, 1), "y": (0, 1)}, "y ~ s", flag


def losses(theta: np.ndarray, rows: Rows) -> np.ndarray:
    """Mean logistic loss and share of mistakes."""
    eta = rows[0] @ theta
    return np.array([np.mean(np.logaddexp(0, eta) - rows[1] * eta), np.mean((eta > 0) != (rows[1] > 0.5))])


def best_coefficients(rows: Rows) -> np.ndarray:
    """Those of least mean loss."""

    def loss(theta: Any) -> Any:
        return losses(theta, rows)[0], rows[0].T @ (special.expit(rows[0] @ theta) - rows[1]) / len(rows[1])

    return np.asarray(optimize.minimize(loss, np.zeros(rows[0].shape[1]), jac=True, method="L-BFGS-B").x)


def fits(domain: Any, formula: str, data: pd.DataFrame, eps: float, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """Method and coefficients in model units."""
    given: dict[str, Any] = {"eps": eps, "delta": DELTA, "n": ROWS, "family": "binomial"}
    typical = dp.local.Spec(domain, formula, **given).radius / SHRUNK["binomial"]
    design = local_design(formula, domain, "binomial")
    for radius, ridge in SETTINGS:
        spec = dp.local.Spec(domain, formula, **given, radius=radius * typical)
        total = local.simulated_total(data, spec, np.random.default_rng([SEED, seed]))
        moments = collector._project_moments(collector._moments(total, spec), design)
        rule = collector._least_risk_ridge(moments, spec.radius)
        yield f"{radius:g}, {ridge:g}", dp.local.fit(total, spec, curvature=ridge * rule).scaled_params
        if radius == ridge == 1:
            gram, steady = collector._regularise(moments, rule, True)
            yield "quadratic", np.linalg.solve(gram + steady, moments.vector)
    common: dict[str, Any] = {"adjacency": "replace_one", "seed": seed, "inference": None, "family": "binomial"}
    yield "dp.glm", dp.glm(formula, data, eps, delta=DELTA, domain=domain, **common).scaled_params


def table(runs: int) -> pd.DataFrame:
    """Means over the runs, one line a population, eps and measure."""
    random, lines = np.random.default_rng(SEED), {}
    for name, domain, formula, everyone in populations(random):
        rows: Rows = local_design(formula, domain, "binomial").blocks(everyone, len(everyone))[0][:2]
        least = losses(best_coefficients(rows), rows)
        for eps in (0.1, 1.0):
            found: dict[str, list[np.ndarray]] = {}
            for run in range(runs):
                data = everyone.iloc[random.integers(0, len(everyone), ROWS)]
                for method, theta in fits(domain, formula, data, eps, run):
                    found.setdefault(method, []).append(losses(theta, rows) - least)
            for place, measure in enumerate(("loss", "mistakes")):
                lines[name, eps, measure] = {method: np.mean(each, axis=0)[place] for method, each in found.items()}
    return pd.DataFrame(lines).T


if __name__ == "__main__":
    print(table(int(sys.argv[1]) if len(sys.argv) > 1 else 15).round(4).to_string())

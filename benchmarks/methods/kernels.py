"""Random Fourier features.

``python -m benchmarks.methods.kernels`` prints what pairs save, and errors on a made-up circle.

Kernel error: the mean squared error of inner products of 200 features, over pairs of uniform points and seeds. Noise:
the root mean square of the noise in the linear term, in units of the features. Test error: of logistic regression where
rows within a circle are positive, but for one in twenty.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpstats as dp
from dpstats.formula.transforms import KERNELS, rff

SEED = 2026
DOMAIN = {"inside": ["no", "yes"], "x": (0, 10), "z": (-5, 5)}
TEST = 20_000


def circle(rows: int, random: np.random.Generator) -> pd.DataFrame:
    """Points in a square, inside or outside of a circle; one in twenty is labelled wrongly."""
    x, z = random.uniform(0, 10, rows), random.uniform(-5, 5, rows)
    inside = ((x - 5) ** 2 + z**2 < 9) ^ (random.random(rows) < 0.05)
    return pd.DataFrame({"x": x, "z": z, "inside": np.where(inside, "yes", "no")})


def kernel_errors(seeds: int = 100) -> pd.Series:
    """Mean squared errors of the Gaussian kernel, gamma = 1, by kind of features."""
    random = np.random.default_rng(SEED)
    one, two = random.uniform(-1, 1, (2, 500, 2))
    exact = KERNELS["gaussian"](one - two, 1.0)
    ends = np.array([-1.0, 1.0])
    found = {}
    for shape in ("pairs", "phase"):
        made = [rff(ends, ends, gamma=1.0, D=200, features=shape, seed=seed) for seed in range(seeds)]
        found[shape] = np.mean([((each(*one.T) * each(*two.T)).sum(axis=1) - exact) ** 2 for each in made])
    return pd.Series(found)


def noise_ratios() -> pd.DataFrame:
    """Noise of features with a phase over that of pairs."""
    lines = []
    for count in (10, 40, 200):
        for delta in (0.0, 1e-6):
            spread = []
            for shape in ("pairs", "phase"):
                formula = f"inside ~ rff(x, z, gamma=2.0, D={count}, features='{shape}')"
                plan = dp.plan(formula, DOMAIN, 1.0, delta=delta, family="binomial", inference=None)
                spread.append(np.sqrt(np.mean((plan.noise_sd[1:] * plan.design.scale[1:]) ** 2)))  # type: ignore[attr-defined]
            lines.append((count, delta, *spread, spread[1] / spread[0]))
    return pd.DataFrame(lines, columns=["D", "delta", "pairs", "phase", "ratio"])


TERMS = {
    "x + z": "x + z",
    "squares": "poly(x, 2) + poly(z, 2)",
    "gaussian, pairs, D = 20": "rff(x, z, gamma=2.0, D=20)",
    "gaussian, phase, D = 20": "rff(x, z, gamma=2.0, D=20, features='phase')",
    "gaussian, pairs, D = 100": "rff(x, z, gamma=2.0, D=100)",
    "gaussian, phase, D = 100": "rff(x, z, gamma=2.0, D=100, features='phase')",
    "laplacian, pairs, D = 100": "rff(x, z, gamma=1.0, D=100, kernel='laplacian')",
}


def errors(rows: int, eps: float, runs: int, delta: float = 0.0) -> pd.Series:
    """Mean test errors by terms; the noise of seeded fits."""
    found = {name: [] for name in TERMS}
    for run in range(runs):
        random = np.random.default_rng([SEED, rows, round(1000 * eps), run])
        train, test = circle(rows, random), circle(TEST, random)
        for name, terms in TERMS.items():
            arguments = {"domain": DOMAIN, "delta": delta, "inference": None, "seed": run}
            fit = dp.logit(f"inside ~ {terms}", train, eps, **arguments)
            found[name].append((fit.predict(test, which="class") != test["inside"]).mean())
    return pd.DataFrame(found).mean()


def main(runs: int = 10) -> None:
    print(kernel_errors().round(5).to_string(), end="\n\n")
    print(noise_ratios().round(3).to_string(index=False), end="\n\n")
    cells = {
        f"n={rows}, eps={eps}, delta={delta:g}": errors(rows, eps, runs, delta)
        for rows, eps, delta in ((2_000, 1.0, 0.0), (20_000, 0.2, 0.0), (20_000, 1.0, 0.0), (20_000, 0.2, 1e-6))
    }
    print(pd.DataFrame(cells).round(4).to_string())


if __name__ == "__main__":
    main()

"""Intervals beside other schemes, on the same samples: ``python -m benchmarks.inference.rivals [repetitions]``.

The designs are those of `benchmarks.inference.core`. The rivals are given what favours them: add_remove sensitivities
and bounds of the design's rows as they are, so that only the schemes differ.

* naive: the released fit, and standard errors that ignore the noise.
* Wang, Kifer and Lee (2019): objective perturbation with 70 % of eps, the Hessian with 15 % and the scores' second
  moment with 15 %, both with noise that is spherical in the Frobenius norm, eigenvalues cut off below; intervals
  centred at the fit, with the variance of the noise inside the sandwich.
* Ferrando, Wang and Sheldon (2022), least squares: X'X, X'y and y'y with Laplace noise, n public, and a parametric
  bootstrap of the plug-in estimate with the noise drawn anew; pivotal intervals.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from benchmarks.inference import core
from benchmarks.inference.core import CAP, CURVE, SEED, SIGMA, Cell

REPETITIONS = 200
NORMAL = 1.959963984540054
BOOTSTRAPS = 400
FIT_SHARE = 0.7
CELLS = (
    Cell("gaussian", 3, 1000, 0.5),
    Cell("gaussian", 3, 10_000, 0.1),
    Cell("gaussian", 3, 10_000, 1.0),
    Cell("gaussian", 10, 10_000, 1.0),
    Cell("binomial", 3, 10_000, 0.1),
    Cell("binomial", 10, 10_000, 1.0),
)


@dataclass(frozen=True)
class Interval:
    """Ends of 95 % intervals, arrays of shape (p,)."""

    low: np.ndarray
    high: np.ndarray


def reach(cell: Cell) -> float:
    """The greatest number of entries of a row that are not 0: the square of its length."""
    return 1.0 + cell.numeric + len(cell.factors)


def spherical(size: int, scale: float, random: np.random.Generator) -> np.ndarray:
    """A symmetric matrix of density exp(-||E||_F / scale)."""
    upper = np.triu(random.standard_normal((size, size)))
    upper[np.triu_indices(size, 1)] /= np.sqrt(2)
    direction = upper + np.triu(upper, 1).T
    return direction / np.linalg.norm(direction) * random.gamma(size * (size + 1) / 2) * scale


def raised(matrix: np.ndarray, least: float) -> np.ndarray:
    """The matrix with eigenvalues of at least `least`."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, least)) @ vectors.T


def perturbed(
    cell: Cell, eps: float, exog: np.ndarray, endog: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, float, float]:
    """Objective perturbation with spherical noise: coefficients, the variance of an entry of b, and the curvature."""
    size, square = cell.columns, reach(cell)
    curvature = square * CURVE[cell.family] / np.expm1(eps / 4)
    scale = np.sqrt(square) * CAP[cell.family] / (0.75 * eps)
    direction = random.standard_normal(size)
    noise = direction / np.linalg.norm(direction) * random.gamma(size) * scale
    theta = core.minimum(cell, exog, endog, curvature * np.eye(size), noise)
    return theta, (size + 1) * scale**2, curvature


def wang_kifer_lee(cell: Cell, exog: np.ndarray, endog: np.ndarray, random: np.random.Generator) -> Interval:
    """Intervals centred at the fit."""
    theta, variance, curvature = perturbed(cell, FIT_SHARE * cell.eps, exog, endog, random)
    share, square, size = (1 - FIT_SHARE) / 2 * cell.eps, reach(cell), cell.columns
    mean = special.expit(exog @ theta) if cell.family == "binomial" else exog @ theta
    weights = mean * (1 - mean) if cell.family == "binomial" else np.ones(cell.rows)
    slopes = np.clip(mean - endog, -CAP[cell.family], CAP[cell.family])
    hessian = (exog.T * weights) @ exog + spherical(size, square * CURVE[cell.family] / share, random)
    scores = (exog.T * slopes**2) @ exog + spherical(size, square * CAP[cell.family] ** 2 / share, random)
    inverse = np.linalg.inv(raised(hessian, 0.0) + curvature * np.eye(size))
    middle = raised(scores, 0.0) + variance * np.eye(size)
    half = NORMAL * np.sqrt(np.diag(inverse @ middle @ inverse))
    return Interval(theta - half, theta + half)


def ferrando(cell: Cell, exog: np.ndarray, endog: np.ndarray, random: np.random.Generator) -> Interval:
    """Pivotal intervals of the parametric bootstrap of perturbed sufficient statistics."""
    size, rows, square = cell.columns, cell.rows, reach(cell)
    bound = float(np.abs(cell.truth).sum()) + 4 * SIGMA
    response = np.clip(endog, -bound, bound)
    # Replacing a record moves a product by twice its bound, a square by its bound; the number of rows is public.
    products, squares = square * (square - 1) / 2, square - 1
    scale = (2 * products + squares + 2 * square * bound + bound**2) / cell.eps

    def noise(shape: tuple[int, ...]) -> np.ndarray:
        return random.laplace(scale=scale, size=shape)

    def symmetric(count: int) -> np.ndarray:
        upper = np.triu(noise((count, size, size)))
        upper[:, 0, 0] = 0.0
        return upper + np.swapaxes(np.triu(upper, 1), 1, 2)

    gram = raised(exog.T @ exog + symmetric(1)[0], rows * 1e-3)
    theta = np.linalg.solve(gram, exog.T @ response + noise((size,)))
    total = float(response @ response) + float(noise((1,))[0])
    sigma = np.sqrt(max(total - theta @ gram @ theta, rows * 1e-4) / rows)
    root = np.linalg.cholesky(gram)
    drawn = random.standard_normal((BOOTSTRAPS, size)) @ root.T * sigma
    moved = np.array([raised(one, rows * 1e-3) for one in gram + symmetric(BOOTSTRAPS)])
    right = gram @ theta + drawn + noise((BOOTSTRAPS, size))
    again = np.linalg.solve(moved, right[:, :, None])[:, :, 0]
    low, high = np.quantile(again, (0.025, 0.975), axis=0)
    return Interval(2 * theta - high, 2 * theta - low)


def repetition(cell: Cell, seed: int) -> dict[str, np.ndarray]:
    """Half-widths and whether the truth is covered, of every scheme."""
    found = core.repetition(cell, seed)
    plain = NORMAL * found["plain"]
    intervals = {"naive": Interval(found["theta"] - plain, found["theta"] + plain)}
    # The same sample: the first draws of the repetition's generator are its rows.
    exog, endog = core.draw(cell, np.random.default_rng([SEED, seed]))
    random = np.random.default_rng([SEED, seed, 1])
    intervals["Wang, Kifer, Lee"] = wang_kifer_lee(cell, exog, endog, random)
    if cell.family == "gaussian":
        intervals["Ferrando et al."] = ferrando(cell, exog, endog, random)
    answer = {"ours covers": found["covers"], "ours half": found["half"], "plain": plain}
    for name, interval in intervals.items():
        answer[name + " covers"] = (interval.low <= cell.truth) & (cell.truth <= interval.high)
        answer[name + " half"] = (interval.high - interval.low) / 2
    return answer


def figures(cell: Cell, repetitions: int) -> list[dict[str, object]]:
    """A line for each scheme."""
    runs = [repetition(cell, seed) for seed in range(repetitions)]
    found = {key: np.array([run[key] for run in runs]) for key in runs[0]}
    lines = []
    for name in [key.removesuffix(" covers") for key in found if key.endswith(" covers")]:
        covers, half = found[name + " covers"], found[name + " half"]
        lines.append(
            {
                "cell": f"{cell.family} p={cell.columns} n={cell.rows:.0e} eps={cell.eps}",
                "scheme": name,
                "cov 95": covers.mean(),
                "s.e.": covers.mean(axis=1).std() / np.sqrt(repetitions),
                "least": covers.mean(axis=0).min(),
                "width": np.median(2 * half),
                "width/plain": np.median(half / found["plain"]),
            }
        )
    return lines


def main(repetitions: int = REPETITIONS) -> None:
    """Print the table, a cell as soon as it is there."""
    for index, cell in enumerate(CELLS):
        table = pd.DataFrame(figures(cell, repetitions)).round(4)
        print(table.to_string(index=False, header=index == 0), flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

"""Excess sums of squares of constrained streams: sets, sketches and refits, beside the bounds of the source.

``python -m benchmarks.streams.geometry sets|sparse|bounds|refits [runs]`` prints a part of docs/benchmarks_streams.

Streams are those of eps = 1, delta = 1e-5, replace_one, rows and responses of norm at most 1, a release a row, summed
by `Blt`. Sums are drawn exactly; their noise is normal with the standard deviation of the released one.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import dpstats as dp
from dpstats.streaming import constrained, projected
from dpstats.streaming.constraints import Constraint, L1Ball, L2Ball
from dpstats.streaming.refits import Schedule, share
from dpstats.streaming.sums import Blt

Float = NDArray[np.float64]

EPS, DELTA = 1.0, 1e-5

REACH = np.sqrt(4.5)
"""How far replacing a row moves (x y, vech x x')."""

EFFECTS = np.array([0.4, -0.25, 0.2, -0.1, 0.05])
"""Coefficients of the first columns, of sum 1 in absolute value."""


def deviation(ticks: int, eps: float = EPS) -> float:
    """Of the noise of an entry of x y after the last of `ticks`; off the diagonal of x x' it is 1 / sqrt 2 of that."""
    plan = Blt(horizon=ticks).plan(2, eps=eps, delta=DELTA, row_sensitivity=float(REACH), adjacency="replace_one")
    return float(plan.noise_sd(ticks)[0])


def noise(size: int, sd: float, random: np.random.Generator) -> tuple[Float, Float]:
    """That of q and of Q."""
    upper = np.triu(random.standard_normal((size, size)) * (sd / np.sqrt(2)), 1)
    whole = upper + upper.T
    whole[np.arange(size), np.arange(size)] = random.standard_normal(size) * sd
    return random.standard_normal(size) * sd, whole


def slope(across: Sequence[float], values: Sequence[float]) -> float:
    """Of log values on log across."""
    return float(np.polyfit(np.log(across), np.log(values), 1)[0])


def squares(theta: Float, cross: Float, gram: object) -> float:
    """theta'Q theta - 2 theta'q."""
    return float(theta @ (gram @ theta) - 2 * theta @ cross)  # type: ignore[operator]


def diagonal_excess(
    scale: Float, theta: Float, ball: Constraint, sd: float, random: np.random.Generator, *, fallback: bool = False
) -> float:
    """Of a fit to noisy sums of rows with Q* = diag(scale), responses theta'x and a residual of deviation .1.

    With `fallback` the null model takes its place where the sums are noise alone.
    """
    gram = np.diag(scale)
    cross = scale * theta + 0.1 * np.sqrt(scale) * random.standard_normal(len(scale))
    best = constrained.minimise(cross, gram, ball)
    of_cross, of_gram = noise(len(scale), sd, random)
    found = constrained.minimise(cross + of_cross, gram + of_gram, ball, tolerance=1e-6)
    if fallback and constrained.explained_by_noise(cross + of_cross, sd, ball):
        found = np.zeros(len(scale))
    return squares(found, cross, gram) - squares(best, cross, gram)


def report(name: str, across: Sequence[float], columns: dict[str, list[float]]) -> None:
    """A table with a log-log slope below each column."""
    print(f"\n{name:>12s} " + " ".join(f"{title:>12s}" for title in columns))
    for place, value in enumerate(across):
        print(f"{value:12,.5g} " + " ".join(f"{column[place]:12.4g}" for column in columns.values()))
    print(f"{'slope':>12s} " + " ".join(f"{slope(across, column):12.2f}" for column in columns.values()), flush=True)


def mean_of(runs: int, draw: Callable[[np.random.Generator], float], seed: int) -> float:
    """Over runs with their own seeds."""
    return float(np.mean([draw(np.random.default_rng([seed, run])) for run in range(runs)]))


def sets(runs: int) -> None:
    """Excess against d for the L1 and the L2 ball, T = 1e5: ten columns in use, the others never."""
    ticks, sizes = 100_000, (200, 400, 800, 1600, 3200)
    sd = deviation(ticks)
    columns: dict[str, list[float]] = {}
    for ball in (L1Ball(1.0), L2Ball(1.0)):
        for part in (0.5, 1.0):
            found = []
            for size in sizes:
                scale = np.zeros(size)
                scale[:10] = ticks / 10
                theta = np.zeros(size)
                theta[:5] = EFFECTS
                theta *= part / ball.gauge(theta)
                many = max(2, runs * 800 // size) if size > 800 else runs
                found.append(mean_of(many, lambda r, s=scale, t=theta, b=ball: diagonal_excess(s, t, b, sd, r), 1))
                print(".", end="", flush=True)
            columns[f"{ball.name}, gauge {part:g}"] = found
    columns["w(L1)"] = [L1Ball().gaussian_width(size) for size in sizes]
    columns["w(L2)"] = [L2Ball().gaussian_width(size) for size in sizes]
    report("d", sizes, columns)


def sparse_rows(ticks: int, size: int, random: np.random.Generator) -> sparse.csr_matrix:
    """Up to ten entries +-1, columns by Zipf's law, of norm 1."""
    chances = 1 / np.arange(1, size + 1)
    places = random.choice(size, size=(ticks, 10), p=chances / chances.sum())
    signs = random.choice([-1.0, 1.0], size=(ticks, 10))
    made = sparse.csr_matrix((signs.ravel(), (np.repeat(np.arange(ticks), 10), places.ravel())), shape=(ticks, size))
    lengths = np.sqrt(np.asarray(made.multiply(made).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags(1 / np.maximum(lengths, 1e-9)) @ made)


def sparse_streams(runs: int) -> None:
    """`linear` and `projected` for sparse rows, d = 2,000, the L1 ball."""
    size, ball = 2000, L1Ball(1.0)
    for ticks in (20_000, 100_000):
        sd = deviation(ticks)
        width = projected.region_width(size, 10) + ball.gaussian_width(size)
        auto = projected.choose_directions(size, ball, rows=ticks, noise_sd=sd)
        print(f"\nT = {ticks:,}: m printed {projected.printed_directions(ticks, width):,}, auto {auto}, d {size:,}")
        table: dict[str, list[float]] = {}
        for run in range(runs):
            for name, value in _sparse_run(ticks, size, ball, sd, auto, np.random.default_rng([2, run])).items():
                table.setdefault(name, []).append(value)
        for name, values in table.items():
            print(f"{name:>24s} {np.mean(values):8.1f}   {' '.join(f'{value:.1f}' for value in values)}", flush=True)


def _sparse_stream(ticks: int, size: int, random: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Sparse rows and responses of which five columns tell."""
    exog = sparse_rows(ticks, size, random)
    theta = np.zeros(size)
    theta[[0, 1, 3, 6, 10]] = EFFECTS
    return exog, np.clip(exog @ theta + 0.1 * random.standard_normal(ticks), -1, 1)


def thresholded(gram: Float, sd: float) -> Float:
    """The matrix without the entries off the diagonal that noise of deviation `sd` alone explains."""
    kept = np.abs(gram) > np.sqrt(2 * np.log(len(gram) * (len(gram) - 1) / 2)) * sd
    np.fill_diagonal(kept, True)
    return np.where(kept, gram, 0.0)


def _sparse_run(
    ticks: int, size: int, ball: Constraint, sd: float, auto: int, random: np.random.Generator
) -> dict[str, float]:
    """Excesses of one stream."""
    exog, endog = _sparse_stream(ticks, size, random)
    gram, cross = (exog.T @ exog).toarray(), exog.T @ endog
    least = squares(constrained.minimise(cross, gram, ball, tolerance=1e-8), cross, gram)
    of_cross, of_gram = noise(size, sd, random)
    found = {"null model": -least}
    for name, noisy in (
        ("linear", gram + of_gram),
        ("linear, thresholded", thresholded(gram + of_gram, sd / 2**0.5)),
    ):
        fitted = constrained.minimise(cross + of_cross, noisy, ball, tolerance=1e-5)
        found[name] = squares(fitted, cross, gram) - least
    for directions in (100, 200, 500, 1000, auto):
        projection = projected.Projection(size, directions, int(random.integers(2**31)))
        image = exog @ projection.matrix.T  # as Projection.rows does for rows that are not sparse
        image /= np.maximum(np.linalg.norm(image, axis=1), 1e-12)[:, None]
        sketched, small = noise(directions, sd, random)
        fitted = projection.fit(image.T @ endog + sketched, image.T @ image + small, ball, tolerance=1e-5, lift=False)
        name = f"projected, m = {directions}" + (" (auto)" if directions == auto else "")
        found[name] = squares(fitted, cross, gram) - least
    return found


def bounds(runs: int) -> None:
    """Theorem 4.2 and Theorem 1 of docs/proofs/geometry: excess against T, d and eps, isotropic rows, the L2 ball."""
    base = {"ticks": 100_000, "size": 20, "eps": 1.0}
    for name, values in (
        ("ticks", (1000, 10_000, 100_000, 1_000_000)),
        ("size", (5, 10, 20, 40, 80)),
        ("eps", (0.25, 0.5, 1, 2, 4)),
    ):
        columns: dict[str, list[float]] = {"excess": [], "or null": [], "theorem 1": [], "theorem 4.2": [], "null": []}
        for value in values:
            ticks, size, eps = ({**base, name: value}[key] for key in ("ticks", "size", "eps"))
            sd, ball = deviation(int(ticks), float(eps)), L2Ball(1.0)
            scale = np.full(int(size), ticks / size)
            theta = np.full(int(size), size**-0.5)
            for title, fallback in (("excess", False), ("or null", True)):

                def draw(
                    random: np.random.Generator, fallback: bool = fallback, given: tuple = (scale, theta, ball, sd)
                ) -> float:
                    return diagonal_excess(*given, random, fallback=fallback)

                columns[title].append(mean_of(runs, draw, 3))
            columns["theorem 1"].append(4 * sd * ball.gaussian_width(int(size)))
            printed = np.log(ticks) ** 1.5 * np.sqrt(np.log(1 / DELTA)) * np.sqrt(size) / eps
            columns["theorem 4.2"].append(float(printed))
            columns["null"].append(ticks / size)
        report({"ticks": "T", "size": "d"}.get(name, name), values, columns)
    print("Theorem 4.2 with 1 for its constant.")


def projected_bounds(runs: int) -> None:
    """Theorem 5.7: excess of `projected` with its m against T, sparse rows, d = 2,000."""
    size, ball, horizons = 2000, L1Ball(1.0), (10_000, 20_000, 50_000, 100_000)
    width = projected.region_width(size, 10) + ball.gaussian_width(size)
    columns: dict[str, list[float]] = {"m": [], "excess": [], "T^1/3 W^2/3": [], "null": []}
    for ticks in horizons:
        sd = deviation(ticks)
        auto = projected.choose_directions(size, ball, rows=ticks, noise_sd=sd)
        found = [_projected_run(ticks, size, ball, sd, auto, np.random.default_rng([5, run])) for run in range(runs)]
        columns["m"].append(float(auto))
        columns["excess"].append(float(np.mean([excess for excess, _ in found])))
        columns["null"].append(float(np.mean([null for _, null in found])))
        columns["T^1/3 W^2/3"].append(float(ticks ** (1 / 3) * width ** (2 / 3)))
    report("T", horizons, columns)


def _projected_run(
    ticks: int, size: int, ball: Constraint, sd: float, directions: int, random: np.random.Generator
) -> tuple[float, float]:
    """The excess of one sketched stream, and the null model's."""
    exog, endog = _sparse_stream(ticks, size, random)
    gram, cross = exog.T @ exog, exog.T @ endog
    least = squares(constrained.minimise(cross, gram.toarray(), ball, tolerance=1e-7), cross, gram)
    projection = projected.Projection(size, directions, int(random.integers(2**31)))
    image = exog @ projection.matrix.T
    image /= np.maximum(np.linalg.norm(image, axis=1), 1e-12)[:, None]
    sketched, small = noise(directions, sd, random)
    found = projection.fit(image.T @ endog + sketched, image.T @ image + small, ball, tolerance=1e-5, lift=False)
    return squares(found, cross, gram) - least, -least


def refits(runs: int) -> None:
    """Theorem 3.1: excess log-likelihood at the last tick, logistic, d = 5, with the printed tau and geometric refits.

    One row a tick is what the printed tau is for; the fits are those of `dp.GLM` on arrays, at the budget each has.
    """
    size, horizons = 5, (4000, 16_000, 64_000)
    columns: dict[str, list[float]] = {"fits, tau": [], "fits, 1.6": [], "tau": [], "geometric": [], "null": []}
    for ticks in horizons:
        period = math.ceil((ticks * size) ** (1 / 3) / EPS ** (2 / 3) * (1 - 1e-12))
        plans = {
            "tau": Schedule.every(period, ticks),
            "geometric": Schedule.geometric(ticks, first=max(1, ticks // 60)),
        }
        spent = {name: _share(plan, size) for name, plan in plans.items()}
        found: dict[str, list[float]] = {"tau": [], "geometric": [], "null": []}
        for run in range(runs):
            for name, value in _refit_run(ticks, size, plans, spent, np.random.default_rng([4, run])).items():
                found[name].append(value)
        columns["fits, tau"].append(float(len(plans["tau"].times)))
        columns["fits, 1.6"].append(float(len(plans["geometric"].times)))
        for name, values in found.items():
            columns[name].append(float(np.mean(values)))
    report("T", horizons, columns)


def _share(plan: Schedule, size: int) -> tuple[float, float]:
    """eps and delta of each fit, as `dp.streaming.Refits` shares them out."""
    model = dp.GLM(np.zeros(1), np.zeros((1, size)), family="binomial")
    each = share(EPS, DELTA, len(plan.times), lambda eps, delta: model.plan(eps, delta=delta, inference=None).guarantee)
    return each[0], each[1]


def _refit_run(
    ticks: int,
    size: int,
    plans: dict[str, Schedule],
    spent: dict[str, tuple[float, float]],
    random: np.random.Generator,
) -> dict[str, float]:
    """Excesses at the last tick of one stream."""
    exog = random.standard_normal((ticks, size))
    exog /= np.linalg.norm(exog, axis=1)[:, None]
    endog = (random.random(ticks) < 1 / (1 + np.exp(-exog @ np.linspace(3, -3, size)))).astype(float)

    def loss(theta: Float) -> float:
        return float(np.sum(np.logaddexp(0, exog @ theta) - endog * (exog @ theta)))

    from statsmodels.api import Logit

    least = loss(np.asarray(Logit(endog, exog).fit(disp=0).params))
    found = {"null": loss(np.zeros(size)) - least}
    for name, plan in plans.items():
        eps, delta = spent[name]
        last = plan.times[-1]
        fitted = dp.GLM(endog[:last], exog[:last], family="binomial").fit(eps, delta=delta, inference=None)
        found[name] = loss(fitted.scaled_params) - least
    return found


PARTS = {"sets": sets, "sparse": sparse_streams, "bounds": bounds, "projected": projected_bounds, "refits": refits}


def main(arguments: list[str]) -> None:
    """One part."""
    began = time.process_time()
    PARTS[arguments[0]](int(arguments[1]) if len(arguments) > 1 else 8)
    print(f"\n{time.process_time() - began:.0f} s of one core")


if __name__ == "__main__":
    main(sys.argv[1:])

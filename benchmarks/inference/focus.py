"""Is one coefficient's interval narrower, or there at all, where it alone is asked for?

`python -m benchmarks.inference.focus [RUNS]`: by model, rows, eps and what is released, the part of runs in which the
coefficient of a randomised treatment has an interval, coverage, and the median width over that without privacy. Shares
of the noise's norm are planted where plans are made: any groups and shares are as private (docs/proofs/bodies, 4).
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy import special

import dpstats as dp
from dpstats.mechanisms import calibration
from dpstats.privacy.k_norm import Image, KNormNoise, k_norm_noise
from dpstats.results.focus import treatment_effect

TREATMENT = 0.4
NUMBERS, LEVELS = 10, ("a", "b", "c", "d", "e")


class Trial(NamedTuple):
    """Rows to draw, what is declared of them, the coefficient in focus and its truth."""

    draw: Callable[[int, np.random.Generator], pd.DataFrame]
    domain: dict[str, Any]
    formula: str
    family: str
    column: str
    truth: float


def randomised(family: str, strength: float = 1.0) -> Trial:
    """A treatment by the toss of a coin, ten numbers that fill a part of their range and two factors."""

    def draw(rows: int, random: np.random.Generator) -> pd.DataFrame:
        frame = pd.DataFrame({f"x{j}": random.normal(0, 0.4, rows).clip(-1, 1) for j in range(NUMBERS)})
        for name in ("g", "h"):
            frame[name] = random.choice(LEVELS, rows, p=[0.4, 0.25, 0.2, 0.1, 0.05])
        frame["treatment"] = random.integers(0, 2, rows)
        nuisance = 0.8 * frame["x0"] - 0.5 * frame["x1"] + 0.4 * (frame["g"] == "b")
        eta = -0.3 + TREATMENT * frame["treatment"] + strength * nuisance
        if family == "binomial":
            frame["y"] = (random.random(rows) < special.expit(eta)).astype(int)
        else:
            frame["y"] = (eta + random.normal(0, 1, rows)).clip(-5, 5)
        return frame

    domain: dict[str, Any] = {f"x{j}": (-1, 1) for j in range(NUMBERS)}
    domain |= {"g": list(LEVELS), "h": list(LEVELS), "treatment": (0, 1)}
    domain["y"] = (0, 1) if family == "binomial" else (-5, 5)
    names = " + ".join(["treatment", *(f"x{j}" for j in range(NUMBERS)), "g", "h"])
    return Trial(draw, domain, f"y ~ {names}", family, "treatment", TREATMENT)


def without(image: Image, place: int) -> Image:
    """The image among the other columns."""
    return replace(image, columns=tuple(column - (column > place) for column in image.columns))


@contextmanager
def focused(share: float, column: str, names: Sequence[str]) -> Iterator[None]:
    """Plans made within give the blocks of a column the share, and what is left to the others as they have it."""
    place = list(names).index(column)

    def shaped(images: Sequence[Image], scale: float = 1.0) -> KNormNoise:
        own = [at for at, image in enumerate(images) if place in image.columns and len(image.columns) == 1]
        if not own or not share:
            return k_norm_noise(images, scale)
        rest = [at for at in range(len(images)) if at not in own]
        left = k_norm_noise([without(images[at], place) for at in rest])
        groups = (tuple(own), *(tuple(rest[at] for at in group) for group in left.groups))
        shares = np.array([share, *((1 - share) * np.array(left.shares))])
        return KNormNoise(scale, tuple(images), groups, tuple((shares / shares.sum()).tolist()))

    before = calibration.k_norm_noise
    calibration.k_norm_noise = shaped
    try:
        yield
    finally:
        calibration.k_norm_noise = before


def cell(trial: Trial, rows: int, eps: float, share: float, runs: int) -> dict[str, float]:
    """Figures of one setting."""
    settings: dict[str, Any] = {"inference": True, "check_share": 0, "fitstats": None}
    plan = dp.plan(trial.formula, trial.domain, eps, family=trial.family, **settings)
    found = []
    with focused(share, trial.column, plan.names):
        for run in range(runs):
            random = np.random.default_rng([run, rows, int(1000 * eps)])
            frame = trial.draw(rows, random)
            fit = dp.glm(
                trial.formula, frame, eps, family=trial.family, domain=trial.domain, seed=run, **settings
            )  # fmt: skip
            low, high = fit.conf_int().loc[trial.column]
            found.append({
                "interval": np.isfinite(fit.bse[trial.column]),
                "width": high - low,
                "covered": low <= trial.truth <= high,
                "others": np.isfinite(fit.bse.drop(trial.column)).mean(),
                "noise": fit.variance_shares.loc[trial.column, "noise"],
            })  # fmt: skip
    table = pd.DataFrame(found).astype(float)
    return {**table[["interval", "covered", "others"]].mean().to_dict(), **table[["width", "noise"]].median().to_dict()}


def in_focus(trial: Trial, rows: int, eps: float, runs: int) -> dict[str, float]:
    """Figures of ``focus=``, the treatment being declared by its levels."""
    domain, found = {**trial.domain, trial.column: [0, 1]}, []
    for run in range(runs):
        random = np.random.default_rng([run, rows, int(1000 * eps)])
        frame = trial.draw(rows, random)
        fit = dp.glm(
            trial.formula, frame, eps, family=trial.family, domain=domain, focus=trial.column, check_share=0, seed=run
        )  # fmt: skip
        assert fit.arm_sums is not None
        line = fit.focus().iloc[0]
        effect = treatment_effect(fit.plan, fit.scaled_params, fit.arm_sums)
        found.append({
            "interval": np.isfinite(line["std_error"]),
            "covered": line["low"] <= trial.truth <= line["high"],
            "width": line["high"] - line["low"],
            "noise": effect.noise / effect.variance,
            "error": line["coef"] - trial.truth,
            "shrunk": 1 - fit.params.filter(like=trial.column).iloc[0] / line["coef"],
        })  # fmt: skip
    table = pd.DataFrame(found).astype(float)
    means = table[["interval", "covered", "error"]].mean().to_dict()
    return means | table[["width", "noise", "shrunk"]].median().to_dict()


SUMS = 0.15
"""Share of eps for the two sums of `two_sums`."""


def two_sums(trial: Trial, rows: int, eps: float, share: float, runs: int) -> dict[str, float]:
    """Coefficients alone and two noisy sums in the place of the information, for a randomised treatment.

    With the treatment's centred column r the sums are J, of l'' r^2, and V, of l'^2 r^2; others are taken to be
    uncorrelated with it. The error of the coefficient is (its noise + V)^1/2 / J.
    """
    settings: dict[str, Any] = {"inference": None, "check_share": 0, "fitstats": None}
    plan = dp.plan(trial.formula, trial.domain, (1 - SUMS) * eps, family=trial.family, **settings)
    place, found = list(plan.names).index(trial.column), []
    with focused(share, trial.column, plan.names):
        for run in range(runs):
            random = np.random.default_rng([run, rows, int(1000 * eps)])
            frame = trial.draw(rows, random)
            fit = dp.glm(
                trial.formula, frame, (1 - SUMS) * eps, family=trial.family, domain=trial.domain, seed=run, **settings
            )  # fmt: skip
            family, design, stage = fit.plan.family, fit.plan.design, fit.plan.stages[-1].plan
            exog, endog = fit_rows(fit, frame)
            eta, column = exog @ fit.scaled_params, exog[:, place]
            reach = np.max(np.abs(column)) ** 2
            bounds = np.array([family.curvature_bound * reach, family.lipschitz**2 * reach])
            sums = np.array([
                np.sum(family.weight(eta, endog) * column**2),
                np.sum(np.asarray(family.slope(eta, endog)) ** 2 * column**2),
            ])  # fmt: skip
            # Each in its own units the two have sensitivity 2.
            noise = random.laplace(scale=2 * bounds / (SUMS * eps))
            weight, score = np.maximum(sums + noise, 1e-9)
            known = weight > 3 * math.sqrt(8) * bounds[0] / (SUMS * eps)
            unit = float(design.back_transform()[0][place, place])
            debiased = unit * fit.scaled_params[place] * (1 + stage.curvature[place] / weight)
            variance = float(stage.noise.covariance()[place, place]) + score
            relative = math.sqrt(8) * bounds[0] / (SUMS * eps) / weight
            half = 1.96 * abs(unit) * math.sqrt(variance) / weight * math.sqrt(1 + 3 * relative**2)
            half = half if known else math.inf
            found.append({
                "interval": known,
                "width": 2 * half,
                "covered": abs(debiased - trial.truth) <= half,
                "noise": 1 - score / variance,
            })  # fmt: skip
    table = pd.DataFrame(found).astype(float)
    return {**table[["interval", "covered"]].mean().to_dict(), **table[["width", "noise"]].median().to_dict()}


def fit_rows(fit: dp.GLMResults, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a fit in model units."""
    blocks = fit.plan.design.rows(frame).total(list, operator.add)
    return np.vstack([block.exog for block in blocks]), np.concatenate([block.endog for block in blocks])


def without_privacy(trial: Trial, rows: int) -> float:
    """The width of the interval in focus without privacy, of one sample."""
    frame = trial.draw(rows, np.random.default_rng(1))
    model = (smf.logit if trial.family == "binomial" else smf.ols)(trial.formula, frame).fit(disp=0)
    return 2 * 1.96 * float(model.bse[trial.column])


CELLS = ((1_000, 1.0), (3_000, 0.3), (10_000, 0.1), (30_000, 0.1), (10_000, 0.3), (10_000, 1.0))


def main(runs: int = 100) -> None:
    """Print the tables."""
    trials = {"logit": randomised("binomial"), "least squares": randomised("gaussian")}
    for name, trial in (trials | {"logit, strong": randomised("binomial", 3.0)}).items():
        by_level = trial._replace(domain={**trial.domain, "treatment": [0, 1]}, column="treatment[T.1]")
        for rows, eps in CELLS:
            plain = without_privacy(trial, rows)
            lines = {
                "in focus": in_focus(trial, rows, eps, runs),
                "whole table": cell(by_level, rows, eps, 0.0, runs // 5),
            }
            if name in trials and rows == 10_000:
                for share in (0.0, 0.15, 0.3, 0.5):
                    lines |= {f"two sums, share {share}": two_sums(trial, rows, eps, share, runs // 10)}
                    lines |= {f"whole table, share {share}": cell(trial, rows, eps, share, runs // 10)}
            for label, line in lines.items():
                line["width"] /= plain
                print(name, rows, eps, label, *(f"{key} {one:.3g}" for key, one in line.items()), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

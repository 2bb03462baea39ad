"""The paper's figures as tables: every study returns one row a setting, method and strength, means over repeats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.replications import napp_methods as methods
from benchmarks.replications.napp_methods import Method
from benchmarks.replications.napp_settings import COLUMNS, RELEVANT, Setting, area, draw, error
from dpstats.penalties import Lasso
from dpstats.replication import napp
from dpstats.solvers import prox
from dpstats.solvers.objective import PerturbedObjective

SEED = 2026
TEST_ROWS = 10_000
KEYS = ["model", "rows", "eps", "delta", "method"]

CERTIFIED: dict[str, Method] = {
    "one shot": methods.one_shot,
    "one shot, floor": partial(methods.one_shot, floor=1.0),
    "noise aware": methods.noise_aware,
    "two stages": methods.two_stage,
}
MAIN_PAPER: dict[str, Method] = {"VS+": methods.paper}
PRINTED: dict[str, Method] = {"VS+ (printed shape)": partial(methods.paper, printed=True)}
OTHER_PAPER: dict[str, Method] = {
    "VS+, no MOOR": partial(methods.paper, moor=False),
    "VS": partial(methods.paper, selection="vs"),
    "VS, no MOOR": partial(methods.paper, selection="vs", moor=False),
    "NAPP": partial(methods.paper, selection=None),
    "DP-ERM": partial(methods.paper, selection=None, moor=False),
}
REFERENCE: dict[str, Method] = {"not private": methods.not_private}
RECYCLING: dict[str, Method] = {
    **{
        f"{name}{', recycled' if recycle else ''}": partial(methods.paper, selection=selection, recycle=recycle)
        for name, selection in (("NAPP", None), ("VS", "vs"), ("VS+", "vs+"))
        for recycle in (False, True)
    },
    "one shot, classical": partial(methods.one_shot, retrieval=None),
    "one shot, recycled": methods.one_shot,
}


def simulate(settings: Iterable[Setting], chosen: Mapping[str, Method], repeats: int, seed: int = SEED) -> pd.DataFrame:
    """Prediction error and selection of each method at each strength.

    Returns
    -------
    DataFrame
        Columns: those of `KEYS`, strength, repeats, error and its standard error `se`, tpr and fpr (share of the
        relevant and of the irrelevant columns selected), retrieved (Fig. 7), empty (error with no covariates).
    """
    lines = []
    for setting in settings:
        tests = draw(setting.model, TEST_ROWS, np.random.default_rng(seed))
        empty = error(setting.model, np.zeros(COLUMNS), tests)
        found = defaultdict(list)
        for repeat in range(repeats):
            # Every setting has draws of its own, so that one unlucky draw does not decide several.
            cell = [seed, setting.rows, round(10 * setting.eps), round(1e4 * setting.delta), repeat]
            rows = draw(setting.model, setting.rows, np.random.default_rng(cell))
            for number, (name, method) in enumerate(chosen.items()):
                random = np.random.default_rng([*cell, 1 + number])
                fits = method(setting, rows, random)
                found[name].append([_facts(setting, theta, i, name, tests) for i, theta in enumerate(fits)])
        for name, facts in found.items():
            mean, spread = np.mean(facts, axis=0), np.std(facts, axis=0) / np.sqrt(repeats)
            for i, strength in enumerate(setting.strengths):
                where = (setting.model, setting.rows, setting.eps, setting.delta, name, strength, repeats)
                lines.append((*where, mean[i, 0], spread[i, 0], *mean[i, 1:], empty))
    return pd.DataFrame(
        lines, columns=[*KEYS, "strength", "repeats", "error", "se", "tpr", "fpr", "retrieved", "empty"]
    )


def _facts(setting: Setting, theta: np.ndarray, i: int, name: str, tests: tuple) -> list[float]:
    kept = theta != 0
    facts = [error(setting.model, theta, tests), float(np.mean(kept[:RELEVANT])), float(np.mean(kept[RELEVANT:]))]
    return [*facts, _retrieved(setting, theta, float(setting.strengths[i]), name)]


def _retrieved(setting: Setting, theta: np.ndarray, strength: float, name: str) -> float:
    """The share of the Jacobian's half of eps that is retrieved: from the optimum (paper), or a priori (ours)."""
    if name.startswith(("VS", "NAPP", "DP-ERM")):
        spare, _ = methods.retrieved(setting, theta, strength, moor="no MOOR" not in name and name != "DP-ERM")
        return spare / ((1 - methods.constants(setting).share) * setting.eps)
    if name == "not private":
        return np.nan
    objective = methods.plan(setting)[-1].plan
    return max(0.0, objective.planned_eps - objective.joint_need) / (objective.planned_eps / 2)


def curves(table: pd.DataFrame) -> pd.DataFrame:
    """One row a setting and method: area under the ROC curve, least and greatest error over the strengths."""
    grouped = table.groupby(KEYS, sort=False)
    return pd.DataFrame(
        {
            "auc": grouped[["tpr", "fpr"]].apply(lambda rows: area(rows["tpr"].to_numpy(), rows["fpr"].to_numpy())),
            "best": grouped["error"].min(),
            "worst": grouped["error"].max(),
            "empty": grouped["empty"].first(),
        }
    ).reset_index()


def moor_distance(repeats: int, seed: int = SEED) -> pd.DataFrame:
    """Fig. 3: distance to the lasso of the paper's iteration without noise, with and without MOOR, and of ours.

    The lasso asked for by the paper's weights is twice Lambda |theta| (docs/napp), so both references are given.
    """
    lines = []
    for model, rows in (("linear", 500), ("logistic", 1000), ("poisson", 1000)):
        setting = Setting(model, rows, 1.0, 0.0)
        for repeat in range(repeats):
            block = draw(model, rows, np.random.default_rng([seed, 1, repeat]))
            for least in (0.25, 1.0, 4.0, 16.0):
                for strength in setting.strengths:
                    lines.append((model, repeat, least, strength, *_distances(setting, block, least, float(strength))))
    names = ["MOOR", "no MOOR", "additive, certified", "MOOR, to twice the lasso", "no MOOR, to twice the lasso"]
    table = pd.DataFrame(lines, columns=["model", "repeat", "lambda0", "strength", *names])
    return table.groupby(["model", "lambda0", "strength"], sort=False)[names].mean().reset_index()


def _distances(setting: Setting, rows: tuple, lambda0: float, strength: float) -> list[float]:
    nothing = np.zeros(COLUMNS)

    def lasso(weight: float, curvature: float) -> np.ndarray:
        objective = PerturbedObjective(setting.family, [rows], np.full(COLUMNS, curvature), nothing)
        return prox.minimize(objective, Lasso(weight), 1e-6).astype(float)

    plain, twice = lasso(strength, 1e-3), lasso(2 * strength, 1e-3)
    printed = [
        napp.fit(setting.family, [rows], nothing, Lasso(strength), lambda0, moor=moor, iterations=40)
        for moor in (True, False)
    ]
    # Half the paper's Lambda is the lasso its weights realise: compare like with like.
    ours = lasso(strength, 2 * lambda0)
    fits = [(printed[0], plain), (printed[1], plain), (ours, plain), (printed[0], twice), (printed[1], twice)]
    return [float(np.linalg.norm(fit - reference)) for fit, reference in fits]

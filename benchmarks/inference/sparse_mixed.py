"""Screening where numbers stand beside 0/1 columns: which are chosen, by the power of its spread that divides a score.

``python -m benchmarks.inference.sparse_mixed [draws] [screen|lasso]``. Numbers have a typical mean and standard
deviation, a third of their interval's half width; a 0/1 column moves through its whole range. 60 columns in blocks of
six that are correlated. With `stand-ins` the active columns are numbers, beside inactive 0/1 columns of their blocks;
with `both` numbers and 0/1 columns are active; with `survey` five of six columns are 0/1; with `rare` five of them have
1 % or 5 % of ones and no effect.

Of `screen=` the columns chosen are counted, of a lasso with a refit those that its table shows with p < .003.
"""

from __future__ import annotations

import itertools
import logging
import sys
import warnings
from typing import NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

import dpstats as dp
from dpstats.mechanisms import spreads

DRAWS = 16
ROWS = 20_000
POWERS = (0.0, 0.5, 0.75, 1.0)
BUDGETS = (1.0, 0.4)
CLEAR = 0.003
NUMBER = dp.Range(0, 120, typical=(50, 15))


class Sample(NamedTuple):
    """Rows, their Domain, the active columns, and how many are to be chosen."""

    frame: pd.DataFrame
    domain: dict[str, object]
    active: dict[str, float]
    choices: int


class Kind(NamedTuple):
    """A design: the correlation in a block, the places of 0/1 columns with their cut points, and effects by place."""

    correlation: float
    cuts: dict[int, float]
    effects: dict[int, float]


NUMBERS = {0: 0.5, 6: -0.5, 12: 0.4, 18: 0.3}
KINDS = {
    "stand-ins .5": Kind(0.5, dict.fromkeys((1, 7, 13, 19, 25, 31), 0.0), NUMBERS),
    "stand-ins .8": Kind(0.8, dict.fromkeys((1, 2, 7, 13, 19, 25, 31), 0.0), NUMBERS),
    "both": Kind(
        0.5,
        {1: 0.0, 7: 0.0, 19: 0.0, 25: 0.5, 31: 1.2, 37: 0.0, 43: 0.5, 49: 1.2},
        {0: 0.4, 6: -0.4, 12: 0.3, 19: 0.4, 25: -0.3, 31: 0.3},
    ),
    "survey": Kind(
        0.5,
        {place: 1.3 * place / 60 for place in range(60) if place % 6 != 5},
        {0: 0.3, 7: -0.3, 14: 0.25, 21: -0.2, 29: 0.3, 35: -0.25},
    ),
    "rare": Kind(0.3, {55: 2.326, 56: 2.326, 57: 1.645, 58: 1.645, 59: 1.645}, {0: 0.5, 6: -0.4, 12: 0.3, 18: 0.3}),
}


def draw(kind: Kind, family: str, seed: int) -> Sample:
    """Rows of one draw; effects are by standard deviations of the columns."""
    random = np.random.default_rng([seed, 17])
    shared = np.repeat(random.normal(size=(ROWS, 10)), 6, axis=1)
    latent = np.sqrt(kind.correlation) * shared + np.sqrt(1 - kind.correlation) * random.normal(size=(ROWS, 60))
    columns: dict[str, NDArray[np.float64]] = {}
    domain: dict[str, object] = {}
    active, eta = {}, np.full(ROWS, -0.5)
    for place in range(60):
        binary = place in kind.cuts
        name = f"{'b' if binary else 'x'}{place}"
        values = (latent[:, place] > kind.cuts[place]).astype(float) if binary else latent[:, place] * 15 + 50
        columns[name], domain[name] = values, (0, 1) if binary else NUMBER
        if effect := kind.effects.get(place):
            active[name] = effect
            eta += effect * (values - values.mean()) / values.std()
    if family == "binomial":
        response, domain["y"] = (random.random(ROWS) < special.expit(eta)).astype(float), (0, 1)
    else:
        response, domain["y"] = np.clip(eta + random.normal(size=ROWS), -8, 8), (-8, 8)
    return Sample(pd.DataFrame({**columns, "y": response}), domain, active, len(active) + 1)


def found(sample: Sample, family: str, eps: float, method: str, power: float, seed: int) -> set[str]:
    """The terms that one fit chooses on half of the rows, or shows after a refit on the other half."""
    names = [name for name in sample.frame.columns if name != "y"]
    options: dict[str, object] = {"screen": sample.choices, "inference": None}
    if method == "lasso":
        options = {"penalty": "lasso", "refit_share": 0.5, "inference": True}
    formula = f"y ~ {' + '.join(names)}"
    with mock.patch.object(spreads, "SPREAD_POWER", power):
        fit = dp.glm(
            formula, sample.frame, eps, family=family, domain=sample.domain, seed=seed, split="rows", **options
        )
    if method == "screen":
        return set(names) - set(fit.left_out)
    shown = fit.pvalues.reindex(names) if fit.has_errors else pd.Series(index=names, dtype=float)
    return set(shown.index[shown < CLEAR])


def table(draws: int, method: str) -> pd.DataFrame:
    """Every choice, a row each."""
    lines = []
    for (name, kind), family, eps, seed in itertools.product(
        KINDS.items(), ("binomial", "gaussian"), BUDGETS, range(draws)
    ):
        sample = draw(kind, family, seed)
        for power in POWERS:
            names = found(sample, family, eps, method, power, seed)
            of_active = [one for one in names if one in sample.active]
            lines.append(
                {
                    "design": name,
                    "family": family,
                    "eps": eps,
                    "power": power,
                    "active numbers": sum(one[0] == "x" for one in of_active),
                    "active 0/1": sum(one[0] == "b" for one in of_active),
                    "other numbers": sum(one[0] == "x" for one in names - set(of_active)),
                    "other 0/1": sum(one[0] == "b" for one in names - set(of_active)),
                    "of": len(sample.active),
                }
            )
    return pd.DataFrame(lines)


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    logging.getLogger("dpstats").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", RuntimeWarning)
    lines = table(draws, (sys.argv[2:] or ["screen"])[0])
    figures = [name for name in lines if lines[name].dtype == int]
    for by in (["eps", "power"], ["design", "eps", "power"]):
        print(f"\n{lines.groupby(by)[figures].sum().to_string()}")


if __name__ == "__main__":
    main()

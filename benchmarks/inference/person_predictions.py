"""Predictions of fits for persons: their standard errors over the spread of predictions, and coverage.

``python -m benchmarks.inference.person_predictions [fits]``. 6,000 persons with 1 to 8 yearly rows, and a response of
which the person has a large part. `year` and `hours` change from row to row, `female` does not. Each fit has a panel of
its own; the target is a fit without privacy to 400,000 persons in which each person weighs the same. About 2 minutes of
one core for 40 fits.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpstats as dp

PERSONS, MANY, MOST_ROWS, FITS = 6000, 400_000, 8, 40
DOMAIN = {"year": (2005, 2020), "female": bool, "hours": (0, 80), "wage": (0, 6), "sick": [0, 1]}
FORMULAS = {"ols": "wage ~ year + hours + female", "logit": "sick ~ year + hours + female"}
NEW = pd.DataFrame({"year": [2012, 2015, 2010], "hours": [38, 38, 55], "female": [0, 1, 1]})
CASES = tuple(
    (model, eps, rows) for model in FORMULAS for eps, rows in ((1.0, None), (2.0, None), (6.0, None), (6.0, 3))
)


def panel(seed: int, persons: int = PERSONS) -> pd.DataFrame:
    """Persons with their rows; wages are logarithms."""
    random = np.random.default_rng(seed)
    most = random.integers(1, MOST_ROWS + 1, persons)
    person = np.repeat(np.arange(persons), most)
    rows = pd.DataFrame({"person": person, "female": random.integers(0, 2, persons)[person]})
    rows["year"] = random.integers(2008, 2011, persons)[person] + rows.groupby("person").cumcount()
    rows["hours"] = np.clip(random.normal(38, 8, len(rows)), 0, 80)
    own = random.normal(0, 0.35, persons)[person]
    mean = 2.3 + 0.01 * (rows["year"] - 2012) + 0.004 * (rows["hours"] - 38) - 0.2 * rows["female"]
    rows["wage"] = mean + own + random.normal(0, 0.25, len(rows))
    chance = 1 / (1 + np.exp(1.5 - 0.5 * rows["female"] + 2 * own))
    return rows.assign(sick=(random.random(len(rows)) < chance).astype(int))


def target(model: str, most: int | None) -> np.ndarray:
    """Predictions of a fit without privacy in which each person weighs the same, or each row up to `most` of them."""
    rows = panel(0, MANY)
    number = rows.groupby("person")["year"].transform("size")
    weights = 1 / number if most is None else np.minimum(number, most) / number
    response = FORMULAS[model].split(" ~ ")[0]
    family = sm.families.Gaussian() if model == "ols" else sm.families.Binomial()
    centred = [sm.add_constant(frame[["year", "hours", "female"]] - [2012, 38, 0]) for frame in (rows, NEW)]
    return np.asarray(sm.GLM(rows[response], centred[0], family, var_weights=weights).fit().predict(centred[1]))


def line(model: str, eps: float, most: int | None, fits: int) -> tuple[np.ndarray, np.ndarray]:
    """The median standard error over the spread of predictions, and coverage, by prediction."""
    frames = []
    for seed in range(fits):
        fit = getattr(dp, model)(
            FORMULAS[model],
            panel(seed + 1),
            eps,
            domain=DOMAIN,
            unit="person",
            max_rows=most,
            inference=True,
        )
        frames.append(fit.get_prediction(NEW).summary_frame().to_numpy()[:, :4])
    found, truth = np.array(frames), target(model, most)
    covered = (found[:, :, 2] <= truth) & (truth <= found[:, :, 3])
    return np.median(found[:, :, 1], axis=0) / found[:, :, 0].std(axis=0, ddof=1), covered.mean(axis=0)


def main(fits: int) -> None:
    """Print one line a case."""
    print("model, eps, max_rows: standard error over spread; coverage")
    for model, eps, most in CASES:
        ratios, covered = line(model, eps, most, fits)
        span = f"{ratios.min():.2f} to {ratios.max():.2f}; {covered.min():.3f} to {covered.max():.3f}"
        print(f"{model}, {eps:g}, {most}: {span}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FITS)

"""The simulation settings of the NAPP-ERM paper's Table 4, in model units, with what its text leaves open filled in.

Every row has Euclidean norm at most 1 and |x_j| <= 1/4. The paper's logistic columns lie within 1/2 and its
coefficients are half as large, which is the same model. It does not state the bound on the gradient (its zeta_2): here
it is the family's cap, the same for every method.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.families import Binomial, Family, Gaussian, Poisson
from dpstats.mechanisms.design import ArrayDesign

Vector = NDArray[np.float64]
Rows = tuple[Vector, Vector]

COLUMNS = 16
RELEVANT = 8
LARGEST_COUNT = 20.0
"""Counts are clipped to it, as a Domain would, and so are predicted counts."""

FAMILIES: dict[str, Family] = {
    "linear": Gaussian(residual_cap=1.0),
    "logistic": Binomial(),
    "poisson": Poisson(mean_cap=LARGEST_COUNT / 2, y_max=LARGEST_COUNT),
}
"""Of all private methods; half the largest count is the cap on the mean that docs/guide/families describes."""

PLAIN_FAMILIES = FAMILIES | {"poisson": Poisson(mean_cap=LARGEST_COUNT, y_max=LARGEST_COUNT)}
"""Of the fit without privacy, which needs no cap that bites."""

SIZES = {"linear": (200, 500), "logistic": (500, 1000), "poisson": (500, 1000)}
BUDGETS = (0.4, 0.6, 0.8, 1.0)
DELTAS = (0.0, 1e-3)
STRENGTHS = {
    "linear": 2.0 ** np.arange(-2, 5),
    "logistic": 2.0 ** np.arange(-2, 5),
    "poisson": 2.0 ** np.arange(2, 9),
}
"""The lasso strengths Lambda that trace a curve; the paper gives none for the simulations."""

DESIGN = ArrayDesign(tuple(f"x{j + 1}" for j in range(COLUMNS)), {"l2": 1.0, "linf": 0.25})


@dataclass(frozen=True)
class Setting:
    """One cell of Table 4."""

    model: str
    rows: int
    eps: float
    delta: float

    @property
    def family(self) -> Family:
        return FAMILIES[self.model]

    @property
    def strengths(self) -> Vector:
        return STRENGTHS[self.model]


def settings(budgets: tuple[float, ...] = BUDGETS, deltas: tuple[float, ...] = DELTAS) -> Iterator[Setting]:
    """The cells of Table 4 at some of its budgets."""
    for model, sizes in SIZES.items():
        for rows in sizes:
            for delta in deltas:
                for eps in budgets:
                    yield Setting(model, rows, eps, delta)


def coefficients(model: str) -> Vector:
    """Eight coefficients that are not zero, then eight that are."""
    steps = np.arange(RELEVANT) / 7
    relevant = {"linear": 1 - 0.8 * steps, "logistic": 2 * (4 - 0.5 * steps), "poisson": 4 - 0.5 * steps}[model]
    return np.concatenate([relevant, np.zeros(COLUMNS - RELEVANT)])


def draw(model: str, rows: int, random: np.random.Generator) -> Rows:
    """Columns and a response."""
    exog = random.uniform(-0.25, 0.25, (rows, COLUMNS))
    eta = exog @ coefficients(model)
    if model == "linear":
        return exog, eta + truncated_normal(rows, random)
    if model == "logistic":
        return exog, (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(float)
    return exog, np.minimum(random.poisson(np.exp(eta)), LARGEST_COUNT).astype(float)


def truncated_normal(rows: int, random: np.random.Generator) -> Vector:
    """N(0, 1/16) given that it lies within 1/2."""
    values = random.normal(0, 0.25, rows)
    while np.any(outside := np.abs(values) > 0.5):
        values[outside] = random.normal(0, 0.25, int(np.sum(outside)))
    return values


def error(model: str, theta: Vector, rows: Rows) -> float:
    """Mean squared error of the prediction, for logistic regression the share misclassified."""
    exog, endog = rows
    eta = exog @ theta
    if model == "logistic":
        # At eta = 0 neither class is predicted: half an error.
        return float(np.mean(np.where(eta == 0, 0.5, (eta > 0) != (endog > 0.5))))
    fitted = np.minimum(np.exp(np.minimum(eta, 50.0)), LARGEST_COUNT) if model == "poisson" else eta
    return float(np.mean((fitted - endog) ** 2))


def area(tpr: Vector, fpr: Vector) -> float:
    """Area under the ROC curve through the given points, joined to (0, 0) and (1, 1) by straight lines."""
    true = np.concatenate([[0.0], np.sort(tpr), [1.0]])
    false = np.concatenate([[0.0], np.sort(fpr), [1.0]])
    return float(np.sum(np.diff(false) * (true[1:] + true[:-1])) / 2)

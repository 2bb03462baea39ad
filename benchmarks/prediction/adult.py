"""Adult: who earns more than $50,000? Test error at default settings.

``python -m benchmarks.prediction.adult [draws]``.

Every setting sees the same splits; the noise comes from the system's generator, as a user gets it. Arrays are
preprocessed as by Chaudhuri et al. (2011): 105 columns, the numeric ones scaled to [0, 1], each row to norm 1.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.shared.splits import DRAWS, Rows, Score, score
from dpstats.domain import Levels

EVERYTHING = (
    "income ~ age + workclass + fnlwgt + education + education_num + marital_status + occupation + relationship + race "
    "+ sex + capital_gain + capital_loss + hours_per_week + native_country"
)
"""The columns of the arrays, coded by dpstats."""

FORMULA = (
    "income ~ age + education_num + marital_status + occupation + relationship + race + sex + np.log1p(capital_gain) + "
    "np.log1p(capital_loss) + hours_per_week"
)
"""The ten variables of docs/benchmarks; the demonstration's model has fewer."""

ROW_L2 = {"l2": 1.0}
ROW_L2_L1 = {"l2": 1.0, "l1": 3.75}
"""At most 14 of the 105 entries of a row are not zero, so a row of l2 norm 1 has an l1 norm of at most sqrt(14)."""

Predict = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], Predict]
Line = tuple[str, str, str, str]

QUOTED: tuple[Line, ...] = (
    ("diffprivlib, tuned on the test set", "0.1", "0.224", ""),
    ("Chaudhuri et al. (2011), logistic, tuned", "0.1", "0.2161", ""),
    ("Chaudhuri et al. (2011), Huber SVM, tuned", "0.1", "0.2046", ""),
    ("best published, tuned", "0.1, 1/n²", "0.191", ""),
)


def adult_arrays() -> tuple[np.ndarray, np.ndarray]:
    """0/1 responses and complete rows of norm 1, shape (45222, 105)."""
    adult = dp.datasets.load_adult("all")
    frame = adult.data.dropna()
    columns = []
    for name in [name for name in adult.domain if name != "income"]:
        declared, cells = adult.domain[name], frame[name]
        if isinstance(declared, Levels):
            columns += [(cells == level).to_numpy(float) for level in declared.values]
        else:
            columns.append(((cells - cells.min()) / (cells.max() - cells.min())).to_numpy(float))
    exog = np.column_stack(columns)
    return (frame["income"] == ">50K").to_numpy(float), exog / np.linalg.norm(exog, axis=1, keepdims=True)


def private(family: str, eps: float, norms: dict[str, float], approximate: bool = False) -> Fit:
    """dpstats with nothing set but the bounds on the rows; delta = 1/n² if `approximate`."""

    def fit(endog: np.ndarray, exog: np.ndarray) -> Predict:
        delta = len(endog) ** -2.0 if approximate else 0.0
        model = dp.GLM(endog, exog, family=family, row_norm=norms)
        return model.fit(eps, delta=delta, adjacency="replace_one").predict

    return fit


def diffprivlib(eps: float) -> Fit:
    """diffprivlib's logistic regression with nothing set but the norm of the rows."""
    from diffprivlib.models import LogisticRegression

    return lambda endog, exog: LogisticRegression(epsilon=eps, data_norm=1.0).fit(exog, endog).predict


def not_private(endog: np.ndarray, exog: np.ndarray) -> Predict:
    """scikit-learn, hardly regularised."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1000.0, max_iter=2000, fit_intercept=False).fit(exog, endog).predict


ARRAYS: tuple[tuple[str, str, Fit, str], ...] = (
    ("logistic, l2", "0.1", private("binomial", 0.1, ROW_L2), "0.22"),
    ("logistic, l2 and l1", "0.1", private("binomial", 0.1, ROW_L2_L1), "0.205"),
    ("logistic, l2", "1", private("binomial", 1.0, ROW_L2), "0.170"),
    ("logistic, l2 and l1", "1", private("binomial", 1.0, ROW_L2_L1), "0.170"),
    ("logistic, l2", "0.1, 1/n²", private("binomial", 0.1, ROW_L2, approximate=True), "0.20"),
    ("Huber SVM, l2", "0.1", private("huber_svm", 0.1, ROW_L2), ""),
    ("Huber SVM, l2 and l1", "0.1", private("huber_svm", 0.1, ROW_L2_L1), ""),
    ("Huber SVM, l2", "1", private("huber_svm", 1.0, ROW_L2), ""),
    ("Huber SVM, l2 and l1", "1", private("huber_svm", 1.0, ROW_L2_L1), ""),
)


def array_error(fit: Fit, endog: np.ndarray, exog: np.ndarray, draws: int) -> Score:
    """Test error of `fit` over splits of the rows."""

    def error(training: Rows, test: Rows) -> float:
        predicted = fit(endog[training], exog[training])(exog[test])
        return float(np.mean((predicted >= 0.5) != endog[test]))

    return score(len(endog), error, draws)


def arrays(draws: int = DRAWS) -> pd.DataFrame:
    """105 columns, replace_one: dpstats, diffprivlib in the same run, and figures quoted."""
    endog, exog = adult_arrays()
    lines: list[Line] = [
        (name, budget, str(array_error(fit, endog, exog, draws)), target) for name, budget, fit, target in ARRAYS
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for eps in (0.1, 1.0):
            lines.append(("diffprivlib", f"{eps:g}", str(array_error(diffprivlib(eps), endog, exog, draws)), ""))
    lines.append(("scikit-learn", "not private", str(array_error(not_private, endog, exog, min(draws, 5))), ""))
    return pd.DataFrame([*lines, *QUOTED], columns=["Adult, 105 columns", "eps, delta", "test error", "target"])


def formula_error(
    eps: float,
    draws: int,
    formula: str = FORMULA,
    adjacency: str = "add_remove",
    delta: Callable[[int], float] = lambda rows: 0.0,
) -> Score:
    """Test error of a formula model over splits, on rows without a missing value; `delta` of the training rows."""
    adult = dp.datasets.load_adult("all")
    frame, positive = adult.data, (adult.data["income"] == ">50K").to_numpy()

    def error(training: Rows, test: Rows) -> float:
        fitted = dp.logit(
            formula,
            frame.iloc[training],
            eps,
            delta=delta(len(training)),
            domain=adult.domain,
            adjacency=adjacency,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="newdata: .* (no value of|beyond which the fit)")
            predicted = fitted.predict(frame.iloc[test]).to_numpy()
        known = ~np.isnan(predicted)
        return float(np.mean((predicted[known] >= 0.5) != positive[test][known]))

    return score(len(frame), error, draws)


def formulas(draws: int = DRAWS) -> pd.DataFrame:
    """Formula and Domain: the model of the ten variables above, and the columns of the arrays."""
    lines = [
        ("ten variables", "add_remove", "0.1", str(formula_error(0.1, draws)), "0.175"),
        ("ten variables", "add_remove", "1", str(formula_error(1.0, draws)), ""),
        ("ten variables", "add_remove", "0.1, 1e-6", str(formula_error(0.1, draws, delta=lambda _: 1e-6)), ""),
    ]
    for name, formula in (("ten variables", FORMULA), ("all variables", EVERYTHING)):
        pure = formula_error(0.1, draws, formula, "replace_one")
        approximate = formula_error(0.1, draws, formula, "replace_one", lambda rows: rows**-2.0)
        lines += [
            (name, "replace_one", "0.1", str(pure), ""),
            (name, "replace_one", "0.1, 1/n²", str(approximate), ""),
        ]
    return pd.DataFrame(lines, columns=["Adult by formula", "adjacency", "eps, delta", "test error", "target"])


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    print(f"\n## Adult by formula, {draws} splits\n\n{FORMULA}\n\n{formulas(draws).to_string(index=False)}", flush=True)
    print(f"\n## Adult by arrays, {draws} splits\n\n{arrays(draws).to_string(index=False)}", flush=True)


if __name__ == "__main__":
    main()

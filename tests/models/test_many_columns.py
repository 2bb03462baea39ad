"""What is said of forecasts by rows where columns are many and nothing of them is taken to be uninformative."""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpstats as dp

BETTER = "too optimistic for so many columns: plan.standard_errors(n) is more exact"


def described(columns: int) -> tuple[str, dict[str, dp.Range]]:
    names = [f"x{place}" for place in range(columns)]
    domain = {name: dp.Range(0, 100, typical=(50, 10)) for name in names}
    return f"y ~ {' + '.join(names)}", {**domain, "y": dp.Range(-100, 140)}


def test_a_forecast_by_rows_says_where_it_promises_too_much() -> None:
    for columns, optimistic in ((10, False), (40, True)):
        formula, domain = described(columns)
        plan = dp.plan(formula, domain, 1.0, inference=True)
        assert (BETTER in " ".join(str(plan).split())) == optimistic
    formula, domain = described(40)
    undescribed = dp.plan(formula, {**domain, "x3": (0, 100)}, 1.0, inference=True)
    assert BETTER not in " ".join(str(undescribed).split()), "it is cautious of such a column"


def test_so_many_rows_as_a_note_names_are_a_lower_bound_for_many_columns() -> None:
    formula, domain = described(40)
    random = np.random.default_rng(1)
    data = pd.DataFrame(random.normal(50, 10, (9_000, 40)), columns=list(domain)[:-1])
    data["y"] = data["x0"] / 10 + random.normal(0, 1, len(data))
    fit = dp.ols(formula, data, 1.0, domain=domain, inference=True, seed=1)
    assert "nearly all coefficients need more than about" in " ".join(str(fit.summary()).split())

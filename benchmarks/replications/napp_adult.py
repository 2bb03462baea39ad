"""Fig. 6 of the NAPP-ERM paper: misclassification in the Adult data, lasso, all columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.replications.napp_methods import noise_size
from dpstats.data import Block
from dpstats.families import Binomial
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.mechanisms.napp import plan_stages, release_stages
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.spec import FitSpec
from dpstats.penalties import Lasso
from dpstats.replication import napp
from dpstats.solvers import prox
from dpstats.solvers.objective import PerturbedObjective

SEED = 2026
FAMILY = Binomial()
STRENGTHS = (1.0,)
BUDGETS = (0.1, 1.0)
ITERATIONS = 10
"""Fits of a paper mode, against 80 in the paper: each takes seconds."""


def formula(domain: dp.Domain, *, logarithms: bool) -> str:
    """All columns; the capital gains and losses, of which one in ten is not zero, as they are or as logarithms."""
    names = [name for name in domain if name != "income"]
    terms = [f"np.log1p({name})" if logarithms and name.startswith("capital") else name for name in names]
    return "income ~ " + " + ".join(terms)


def misclassified(repeats: int) -> pd.DataFrame:
    """Test error by formula, method, strength and budget; means over repeats (one for the paper's modes)."""
    train, test = dp.datasets.load_adult("train"), dp.datasets.load_adult("test")
    lines = []
    for logarithms in (False, True):
        design = design_spec(formula(train.domain, logarithms=logarithms), train.domain, family=FAMILY)
        comparison = _Comparison(design, design.blocks(train.data), design.blocks(test.data))
        label = "logarithms" if logarithms else "as they are"
        for strength in STRENGTHS:
            lines.append((label, "not private", strength, np.inf, 0.0, 1, comparison.error(comparison.plain(strength))))
            for eps in BUDGETS:
                for delta in (0.0, 1e-5):
                    for name, count, fit in comparison.methods(strength, eps, delta):
                        if logarithms and name.startswith("VS+"):
                            continue
                        count = min(count, repeats)
                        errors = [comparison.error(fit(np.random.default_rng([SEED, i]))) for i in range(count)]
                        lines.append((label, name, strength, eps, delta, count, float(np.mean(errors))))
    return pd.DataFrame(lines, columns=["gains", "method", "strength", "eps", "delta", "repeats", "error"])


class _Comparison:
    """One formula's rows and the fits compared on them."""

    def __init__(self, design: DesignSpec, rows: list[Block], tests: list[Block]) -> None:
        self.design, self.rows, self.tests = design, rows, tests
        self.size = len(design.names)
        self.weights = np.ones(self.size)
        self.weights[design.names.index("Intercept")] = 0.0

    def error(self, theta: np.ndarray) -> float:
        wrong = sum(int(np.sum((exog @ theta > 0) != (endog > 0.5))) for exog, endog, *_ in self.tests)
        return wrong / sum(len(endog) for _, endog in self.tests)

    def plain(self, strength: float) -> np.ndarray:
        objective = PerturbedObjective(FAMILY, self.rows, np.full(self.size, 1e-2), np.zeros(self.size))
        return prox.minimize(objective, Lasso(strength), 1e-4, weights=self.weights).astype(float)

    def methods(self, strength: float, eps: float, delta: float) -> list:
        """(name, repeats, random -> coefficients)"""
        penalty = Lasso(strength)

        def certified(options: Options, floor: float = 0.0):
            spec = FitSpec(self.design, FAMILY, penalty, self.weights, options)
            stages = plan_stages(spec, eps, delta)
            if floor == 0:
                return lambda random: release_stages(stages, spec, self.rows, random).params
            plan = stages[0].plan
            least = np.maximum(strength, floor * noise_size(plan)) * self.weights
            raised = replace(plan, penalty=Lasso(1.0), penalty_weights=least)
            return lambda random: raised.coefficients(self.rows, random)

        def paper(printed: bool):
            row_norm = self.design.norm_bound("l2", np.ones(self.size))
            bounds = napp.PaperConstants(eps, delta, row_norm=row_norm, curvature_bound=0.25)

            def fit(random: np.random.Generator) -> np.ndarray:
                noise = bounds.sample(self.size, random, printed_shape=printed, selection="vs+")
                chosen = {"selection": "vs+", "weights": self.weights, "iterations": ITERATIONS}
                return napp.fit(FAMILY, self.rows, noise, penalty, bounds.lambda0, **chosen)

            return fit

        found = [
            ("one shot", 99, certified(Options())),
            ("one shot, floor", 99, certified(Options(), 1.0)),
            ("noise aware", 99, certified(Options(selection="noise_aware"))),
        ]
        if strength == STRENGTHS[0]:
            found.append(("VS+", 1, paper(False)))
            if delta == 0:
                found.append(("VS+ (printed shape)", 1, paper(True)))
        return found

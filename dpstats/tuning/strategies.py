"""Carrying out a tuned fit: fits of candidates, their losses, and the one that is released (docs/proofs/tuning)."""

from __future__ import annotations

import secrets

import numpy as np

from dpstats.formula.design import DesignSpec
from dpstats.models.glm import release_rows
from dpstats.models.persons import person_rows
from dpstats.models.sources import FormulaSource, capped_rows
from dpstats.plan import Plan
from dpstats.privacy.choice import STEPS
from dpstats.privacy.lattice import noisy_integers
from dpstats.privacy.randomness import RandomSource, SystemRandom, secret_key
from dpstats.privacy.unit import Unit
from dpstats.quiet import quiet
from dpstats.results.glm_results import GLMResults
from dpstats.rows import Block, Rows, parted
from dpstats.tables import Table
from dpstats.tuning.losses import block_loss
from dpstats.tuning.planning import TuningPlan

PUBLIC_FITS = 10
"""Fits to a random half of the public rows by which each candidate is judged on the other half."""


class Fitting:
    """Fits of candidates to one table.

    Parameters
    ----------
    source : FormulaSource
        With the table as its data.
    random : RandomSource
    """

    def __init__(self, source: FormulaSource, random: RandomSource) -> None:
        self.source = source
        self.random = random
        self._shared: dict[int, Rows[Block]] = {}

    def rows(self, plan: Plan) -> Rows[Block]:
        """The rows of a completed plan's design, with no cap of its family on their response."""
        design = plan.design
        assert isinstance(design, DesignSpec)
        if plan.response is not None:  # a design of its own, as what was bought has it
            return self._encoded(design, plan.request.options.record)
        if id(design) not in self._shared:
            self._shared[id(design)] = self._encoded(design, plan.request.options.record)
        return self._shared[id(design)]

    def _encoded(self, design: DesignSpec, record: Unit) -> Rows[Block]:
        assert self.source.data is not None
        with quiet():
            return person_rows(design, self.source.data, record, self.random).held()

    def fit(self, plan: Plan) -> tuple[GLMResults, Rows[Block]]:
        """A candidate's fit to all rows, and these in its design."""
        completed = self.source.complete(plan, self.random)
        rows = self.rows(completed)
        public = plan.request.adjacency == "replace_one" and plan.request.options.unit is None
        nobs = self.source.public_rows() if public else None
        return self.fit_to(completed, rows, nobs), rows

    def fit_to(self, completed: Plan, rows: Rows[Block], nobs: int | None = None) -> GLMResults:
        """The fit of a completed plan to some rows."""
        fitted = capped_rows(rows, completed.family)
        return release_rows(completed, completed.guarantee, fitted, nobs, self.random)


def stopping(plan: TuningPlan, fitting: Fitting) -> tuple[int, GLMResults]:
    """The best of a random number of runs, each of a random candidate with a noisy score."""
    assert plan.runs is not None
    random = fitting.random
    best: tuple[int, GLMResults] | None = None
    least, ties = 0, 0
    for _ in range(plan.runs.draw(random)):
        place = whole(len(plan.plans), random)
        fit, rows = fitting.fit(plan.plans[place])
        loss = np.array([block_loss(fit, plan.score, rows)], dtype=np.int64)
        noisy = int(noisy_integers(loss, STEPS, plan.score_eps, random)[0])
        # Of several best runs each must be as likely: the theorem breaks ties at random.
        ties = ties + 1 if best is not None and noisy == least else 1
        if best is None or noisy < least or (noisy == least and whole(ties, random) == 0):
            best, least = (place, fit), noisy
    assert best is not None
    return best


def every(plan: TuningPlan, fitting: Fitting) -> tuple[int, GLMResults]:
    """Every candidate on all rows, then the choice."""
    assert plan.choice is not None
    found = [fitting.fit(one) for one in plan.plans]
    losses = [block_loss(fit, plan.score, rows) for fit, rows in found]
    place = plan.choice.choose(np.array(losses, dtype=np.int64), fitting.random)
    return place, found[place][0]


def in_parts(plan: TuningPlan, fitting: Fitting) -> tuple[int, GLMResults]:
    """Each candidate on rows of its own, then the choice on the rest."""
    assert plan.choice is not None
    size = len(plan.plans)
    parts = parted(fitting.rows(plan.plans[0]), secret_key(fitting.random), size + 1)
    fits = [fitting.fit_to(one, part) for one, part in zip(plan.plans, parts[:size], strict=True)]
    losses = np.array([block_loss(fit, plan.score, parts[size]) for fit in fits], dtype=np.int64)
    place = plan.choice.choose(losses, fitting.random)
    return place, fits[place]


def by_public(plan: TuningPlan, fitting: Fitting, public: Table) -> tuple[int, GLMResults]:
    """The candidate that does best on public rows, with one fit to the private ones."""
    place = best_in_public(plan, Fitting(fitting.source.with_data(public), fitting.random))
    return place, fitting.fit(plan.plans[place])[0]


def best_in_public(plan: TuningPlan, fitting: Fitting) -> int:
    """Which candidate errs least on halves of the rows, fitted to the other halves with the noise that a fit has."""
    losses = np.zeros(len(plan.plans))
    for _ in range(PUBLIC_FITS):
        key = secret_key(fitting.random)
        for place, one in enumerate(plan.plans):
            completed = fitting.source.complete(one, fitting.random)
            train, test = parted(fitting.rows(completed), key, 2)
            losses[place] += block_loss(fitting.fit_to(completed, train), plan.score, test)
    return int(np.argmin(losses))


def whole(size: int, random: RandomSource) -> int:
    """A whole number from 0 to size - 1, each as likely; exactly so except from a seeded source."""
    if isinstance(random, SystemRandom):
        return secrets.randbelow(size)
    return int(random.random(1)[0] * size)

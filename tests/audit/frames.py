"""Calls on data frames as the auditor sees them, each beside itself with one planted error: tuning, and kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd

from dpstats.call import make_request
from dpstats.data import Block, Rows, as_table
from dpstats.formula.design import DesignSpec
from dpstats.models.glm import release_fit
from dpstats.models.sources import FormulaSource
from dpstats.plan import Plan
from dpstats.privacy.randomness import random_source
from dpstats.tuning import tuned as strategies
from dpstats.tuning.plan import TuningPlan, plan_tuning
from dpstats.tuning.tuned import CandidateFits, release_tuned

DOMAIN = {"x": (-1, 1), "y": (0, 1)}
WITHOUT_NOISE = 1e6


class Pair(NamedTuple):
    """Two neighbouring frames."""

    name: str
    data: pd.DataFrame
    neighbour: pd.DataFrame


def frame(*rows: tuple[float, float]) -> pd.DataFrame:
    """Rows (x, y)."""
    return pd.DataFrame(list(rows), columns=["x", "y"], dtype=float)


def by_place(rows: Rows[Block], _: bytes, parts: int) -> tuple[Rows[Block], ...]:
    """Each row in one of several parts by its place: one that comes in at the front moves all others."""

    def part(number: int, block: Block) -> Block:
        return block.take(np.arange(len(block.endog)) % parts == number)

    return tuple(rows.map(lambda block, number=number: part(number, block)).persist() for number in range(parts))


@dataclass(frozen=True)
class Tuning:
    """`dpstats.tune` of the curvature of a logistic regression of one column, whose choice and fit are released.

    Planted is, by the strategy, that losses decide without noise, as if their share of the budget were all that the
    world has; that rows go to parts by their place; that the private rows are taken for the public ones.
    """

    name: str
    strategy: str
    pair: Pair
    eps: float = 0.2
    adjacency: str = "add_remove"
    runs: int = 3000
    fast: int = 600
    grid: tuple[float, ...] = (16.0, 32.0, 64.0, 128.0, 256.0)

    @property
    def planted(self) -> str:
        other = {"parts": "rows go to parts by their place", "public": "private rows taken for public ones"}
        return other.get(self.strategy, "losses compared without noise")

    @cached_property
    def plan(self) -> TuningPlan:
        return plan_tuning(
            "y ~ 0 + x",
            DOMAIN,
            {"curvature": list(self.grid)},
            self.eps,
            family="binomial",
            strategy=self.strategy,
            adjacency=self.adjacency,
        )

    @property
    def claim(self) -> dict[str, float]:
        return {"eps": self.plan.guarantee.eps, "delta": self.plan.guarantee.delta}

    def mechanism(self) -> Callable[..., Any]:
        return self._of(self.plan)

    def wrong(self) -> Callable[..., Any]:
        if self.strategy == "parts":
            return self._of(self.plan, parted=by_place)
        if self.strategy == "public":
            return self._of(self.plan, own=True)
        choice = None if self.plan.choice is None else replace(self.plan.choice, eps=WITHOUT_NOISE)
        return self._of(replace(self.plan, score_eps=WITHOUT_NOISE, choice=choice))

    def _of(
        self, plan: TuningPlan, *, parted: Callable[..., Any] | None = None, own: bool = False
    ) -> Callable[..., Any]:
        def tuned(data: pd.DataFrame, rng: np.random.Generator) -> Any:
            shown = as_table(data if own else PUBLIC) if plan.strategy == "public" else None
            with patch.object(strategies, "partition", parted or strategies.partition):
                source = FormulaSource(plan.formula, None, DOMAIN)
                found = release_tuned(plan, CandidateFits(source, as_table(data), rng), shown)
            return [float(plan.names.index(found.chosen)), float(found.fit.scaled_params[0])]

        return tuned


@dataclass(frozen=True)
class Kernel:
    """`dpstats.svm` on one random feature: planted is the noise for rows of norm 1, which phases exceed."""

    name: str
    pair: Pair
    planted: str = "phase features taken to have norm 1"
    eps: float = 1.0
    adjacency: str = "add_remove"
    runs: int = 10_000
    fast: int = 6000
    term: str = "rff(x, gamma=20, D=1, features='phase')"
    curvature: float = 100.0

    @property
    def source(self) -> FormulaSource:
        return FormulaSource(f"y ~ 0 + {self.term}", as_table(frame()), DOMAIN)

    @cached_property
    def plan(self) -> Plan:
        return self.source.plan(
            make_request(
                eps=self.eps,
                family="huber_svm",
                adjacency=self.adjacency,
                curvature=self.curvature,
                inference=None,
                seed=1,
            )
        )

    @property
    def claim(self) -> dict[str, float]:
        return {"eps": self.plan.guarantee.eps, "delta": self.plan.guarantee.delta}

    def mechanism(self) -> Callable[..., Any]:
        return self._of(self.plan)

    def wrong(self) -> Callable[..., Any]:
        (stage,) = self.plan.stages
        noise = replace(stage.plan.noise, scale=stage.plan.noise.scale / 2**0.5)
        return self._of(replace(self.plan, stages=(stage._replace(plan=replace(stage.plan, noise=noise)),)))

    def _of(self, plan: Plan) -> Callable[..., Any]:
        assert isinstance(plan.design, DesignSpec)

        def fitted(data: pd.DataFrame, rng: np.random.Generator) -> Any:
            seeded = replace(plan, request=replace(plan.request, seed=int(rng.integers(2**62))))
            source, random = FormulaSource(plan.formula, None, DOMAIN), random_source(seeded.request.seed)
            return release_fit(source, seeded, random, as_table(data)).scaled_params

        return fitted


NOBODY, ONE = frame(), frame((1, 1))
PUBLIC = frame((0.5, 1), (-0.5, 0), (1, 1), (-1, 0), (1, 0))
IN_TURN = ((1.0, 1.0), (1.0, 0.0), (1.0, 1.0)) * 60
"""Every third row is a 0: of three parts by place it has one to itself."""

AT_THE_END = frame((-1, 1))
"""Where the one feature is .97 of what its norm allows."""

CALLS: tuple[Tuning | Kernel, ...] = (
    Tuning("tune, stopping", "stopping", Pair("nobody, one row", NOBODY, ONE)),
    Tuning("tune, all", "all", Pair("nobody, one row", NOBODY, ONE), fast=300),
    Tuning("tune, all, row replaced", "all", Pair("one row, another", frame((1, 0)), ONE), adjacency="replace_one"),
    Tuning(
        "tune, parts",
        "parts",
        Pair("rows in turn, one more in front", frame(*IN_TURN), frame((1, 1), *IN_TURN)),
        grid=(4.0, 16.0),
    ),
    Tuning("tune, public", "public", Pair("nobody, one row", NOBODY, ONE), runs=1000, fast=300, grid=(16.0, 64.0)),
    Kernel("svm on rff", Pair("nobody, one row", NOBODY, AT_THE_END)),
    Kernel("svm on rff, row replaced", Pair("one row, another", frame((-1, 0)), AT_THE_END), adjacency="replace_one"),
)

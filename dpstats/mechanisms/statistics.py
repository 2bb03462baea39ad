"""Sufficient statistics of linear models: planned without rows, released once (docs/proofs/statistics)."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.formula.design import DesignSpec
from dpstats.formula.made_up import made_up_exog
from dpstats.inference import SpanNoise
from dpstats.inference.known import self_adjoint
from dpstats.privacy.guarantee import Adjacency, Guarantee
from dpstats.privacy.information import COVER_SHARE, Joined, MatrixLaw, MatrixNoise, design_metric
from dpstats.privacy.information.statistics import (
    StatisticsNoise,
    frobenius_sensitivity,
    integer_statistics,
    noisy_statistics,
    statistics_noise,
)
from dpstats.privacy.randomness import RandomSource
from dpstats.rows import Block, Rows, block_rows

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

PROOF = "docs/proofs/statistics"

RADIUS = 1.0
"""Default guess at the norm of the coefficients in the metric of the design: |x'theta| is at most that."""


WORTHWHILE = 0.5
"""See `worthwhile`; settled by `python -m benchmarks.methods.statistics joined`."""

LEAST, MOST = 1e-6, 1e6
"""Between which eps and the radius must lie: beyond, noise leaves the lattice, or means nothing."""


@dataclass(frozen=True, eq=False)
class StatisticsPlan:
    """One release of X'X, X'y and y'y, fixed before rows are read.

    Attributes
    ----------
    design : DesignSpec
        Of all columns, in model units.
    noise : StatisticsNoise
        In the coordinates of `metric`.
    metric : MatrixNoise
        Holds D and L with z = D^-1/2 L^-1 x, |z| <= 1; its scale means nothing.
    radius : float
    cover_eps : float
        The part of eps for floating point.
    guarantee : Guarantee
    """

    design: DesignSpec
    noise: StatisticsNoise
    metric: MatrixNoise
    radius: float
    cover_eps: float
    guarantee: Guarantee

    @property
    def axes(self) -> Matrix:
        """K with (x, y) = K (z, y), shape (p + 1, p + 1)."""
        size = len(self.design.names)
        axes = np.eye(size + 1)
        axes[:size, :size] = np.diag(np.sqrt(self.metric.diagonal))
        if self.metric.mixing:
            axes[:size, :size] = np.array(self.metric.mixing) @ axes[:size, :size]
        return axes

    @property
    def square_excess(self) -> float:
        """The variance of y'y less what `law` says it is."""
        return self.noise.square_variance - 8 * self.noise.entry_variance / self.noise.response**4

    @property
    def intercept(self) -> tuple[int, float]:
        """The place of the intercept's column and its value in model units."""
        at = self.design.names.index("Intercept")
        return at, float(1 / self.design.scale[at])

    @property
    def law(self) -> SpanNoise:
        """The noise in the coordinates (x, y); that of y'y, which no fit of y uses, is as if its weight were a^2/2."""
        axes = self.axes.copy()
        axes[-1, -1] = np.sqrt(2) / self.noise.response
        return SpanNoise(self_adjoint(axes @ axes.T), self.noise.entry_variance)

    def release(self, rows: Rows[Block] | Iterable[tuple[Any, ...]], random: RandomSource) -> Matrix:
        """The matrix of sums of w w', w = (x, y), with its noise. Reads rows: charge first."""
        exact = block_rows(rows).total(partial(_exact, self.metric), operator.add)
        released = noisy_statistics(exact, self.noise, cover_eps=self.cover_eps, random=random)
        return self_adjoint(self.axes @ released @ self.axes.T)

    def digest(self) -> str:
        """A hash of all that was decided, for the ledger."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {
            "design": self.design.to_dict(),
            "noise": self.noise.to_dict(),
            "metric": self.metric.to_dict(),
            "radius": self.radius,
            "cover_eps": self.cover_eps,
            "guarantee": self.guarantee.to_dict(),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> StatisticsPlan:
        """The plan whose `to_dict` gave `stored`."""
        return cls(
            design=DesignSpec.from_dict(stored["design"]),
            noise=StatisticsNoise.from_dict(stored["noise"]),
            metric=MatrixNoise.from_dict(stored["metric"]),
            radius=float(stored["radius"]),
            cover_eps=float(stored["cover_eps"]),
            guarantee=Guarantee(**stored["guarantee"]),
        )


def plan_statistics(
    design: DesignSpec,
    *,
    eps: float,
    delta: float = 0.0,
    adjacency: Adjacency = "add_remove",
    radius: float = RADIUS,
    law: MatrixLaw | None = None,
) -> StatisticsPlan:
    """Weights, law and scale of the noise from public facts alone.

    Parameters
    ----------
    design : DesignSpec
    eps, delta : float
        The budget; normal noise needs a positive delta, and pure noise is taken where it is less.
    adjacency : {"add_remove", "replace_one"}
    radius : float
        Guess at sqrt(theta'D theta) for the coefficients theta in model units, D the metric; bounds |x'theta|.
    law : {"wishart", "normal"}, optional
        The law to insist on.

    Raises
    ------
    ArgumentError
        If an argument is outside its range.
    """
    check_size("eps", eps)
    radius = check_size("radius", radius)
    cover = COVER_SHARE * eps
    noise = statistics_noise(
        len(design.names), eps=eps - cover, delta=delta, radius=radius, adjacency=adjacency, law=law
    )
    diagonal, mixing = design_metric(design.images, joined=worthwhile(design))
    if noise.law == "normal":
        mu = frobenius_sensitivity(noise.response, noise.square, adjacency) / noise.scale
        guarantee = Guarantee(eps, delta, adjacency, basis=PROOF, rho=(mu**2 + cover**2) / 2)
    else:
        guarantee = Guarantee(eps, 0.0, adjacency, basis=PROOF)
    return StatisticsPlan(design, noise, MatrixNoise("normal", 1.0, diagonal, mixing), radius, cover, guarantee)


def worthwhile(design: DesignSpec) -> tuple[Joined, ...]:
    """Columns that move together whose optimal design is to stand for the product of their bodies.

    Those for which it makes the noise in predictions, for rows drawn evenly from the Domain, `WORTHWHILE` of what it is
    or less: products of columns and splines, as a rule. Real rows are nearer to the middle, where it helps less, so a
    small gain is not taken (docs/proofs/statistics, 3).
    """
    if not design.joined:
        return ()
    rows = made_up_exog(design)
    inverse = np.linalg.pinv(rows.T @ rows / max(len(rows), 1))

    def spread(joined: tuple[Joined, ...]) -> float:
        found = design_metric(design.images, joined=joined)
        return float(np.sum(inverse * MatrixNoise("normal", 1.0, *found).metric))

    plain = spread(())
    return tuple(one for one in design.joined if spread((one,)) <= WORTHWHILE * plain)


def _exact(metric: MatrixNoise, blocks: Iterable[Block]) -> NDArray[np.object_]:
    """The exact sums over some rows."""
    return integer_statistics((block.doubles()[:2] for block in blocks), metric)


def check_size(name: str, value: float) -> float:
    """`value` as a float; ArgumentError unless it is a number from 1e-6 to 1e6."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not LEAST <= value <= MOST:
        raise ArgumentError(
            f"{name} must be a number from {LEAST:g} to {MOST:g} for released statistics, got {shown(value)}"
        )
    return float(value)

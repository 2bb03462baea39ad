"""The interval of a randomised treatment's coefficient, from sums over its arms (docs/proofs/focus)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, special

from dpstats.frames import WideFrame
from dpstats.inference import ReleasedLaw
from dpstats.inference.estimates import NORMAL, check_level
from dpstats.mechanisms.focus import ArmSums, treated
from dpstats.plan import Plan

Vector = NDArray[np.float64]

DRAWS, SEED = 20_000, 20_261_124  # of the noise in the coefficients; the seed is public
LEAST_WEIGHT_SDS = 4.0  # an arm's sum of l'' must exceed so many standard deviations of its noise
LARGEST_BOUND = 60.0  # no error is larger, in standard deviations


@dataclass(frozen=True, eq=False)
class TreatmentEffect:
    """The debiased coefficient and what is known of its error."""

    value: float
    sampling: float  # variances: V / J^2,
    noise: float  # g'Sb g / J^2
    shift: float  # and of what is added for the shrinkage, by noise in J
    square_noise: float  # F, the variance of the whole by noise in V, over 4 A
    weight_noise: float  # beta, the squared relative error of J
    draws: Vector  # of the noise's part, of variance 1

    @property
    def variance(self) -> float:
        """A, of the whole."""
        return self.sampling + self.noise + self.shift

    def tail(self, bound: float) -> float:
        """The probability that the standardised error is beyond a bound."""
        part = self.noise / self.variance
        moved, spread = math.sqrt(part) * self.draws, math.sqrt(max(1 - part, 1e-12))
        both = special.ndtr((moved - bound) / spread) + special.ndtr((-moved - bound) / spread)
        return float(np.mean(both))

    def reach(self, bound: float) -> float:
        """Half the width of the interval of `bound` standard deviations; perhaps infinite."""
        square = bound**2 + 1
        room = 1 - square * self.weight_noise
        return bound * math.sqrt((self.variance + square * self.square_noise) / room) if room > 0 else math.inf

    def half_width(self, alpha: float) -> float:
        """Half the width of the interval of coverage 1 - alpha."""
        if not math.isfinite(self.variance):
            return math.inf
        return self.reach(float(optimize.brentq(lambda bound: self.tail(bound) - alpha, 0.0, LARGEST_BOUND)))

    @property
    def pvalue(self) -> float:
        """1 less the coverage of the interval that ends at nil."""
        low, high = 0.0, LARGEST_BOUND
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.reach(middle) < abs(self.value) else (low, middle)
        return min(self.tail(low), 1.0)


def treatment_effect(plan: Plan, scaled_params: Vector, sums: ArmSums) -> TreatmentEffect:
    """The effect in the user's units."""
    assert plan.focus is not None
    stage, factor = plan.stages[-1].plan, treated(plan.design, plan.focus.treatment)
    (column,), (code,) = factor.columns, factor.codes
    unit = float(plan.design.back_transform()[0][column, column])
    law = ReleasedLaw(stage.noise, stage.noise_shape)
    if min(sums.weights) <= LEAST_WEIGHT_SDS * sums.weight_sd:
        return TreatmentEffect(unit * float(scaled_params[column]), math.inf, 0.0, 0.0, 0.0, 0.0, np.zeros(1))
    control, treatment = sums.weights
    part = treatment / (control + treatment)
    weight = code**2 * control * part
    ends = np.array([part**2, (1 - part) ** 2])
    square = code**2 * max(float(ends @ np.array(sums.squares)), 0.0)
    apart = float(np.linalg.norm(ends))
    direction = np.zeros(len(scaled_params))
    direction[column], direction[factor.base] = 1.0, -code * part / factor.constant
    score = float(direction @ (stage.curvature * (scaled_params - stage.shrunk_towards)))
    noise = float(direction @ law.covariance @ direction)
    moved = law.draws(DRAWS, np.random.default_rng(SEED)) @ direction
    relative = (code**2 * sums.weight_sd * apart / weight) ** 2
    scale = (unit / weight) ** 2
    variance = scale * (square + noise + relative * score**2)
    return TreatmentEffect(
        unit * (float(scaled_params[column]) + score / weight),
        scale * square,
        scale * noise,
        scale * relative * score**2,
        (scale * code**2 * sums.square_sd * apart) ** 2 / (4 * variance),
        relative,
        moved / math.sqrt(max(noise, 1e-300)),
    )


def focus_table(plan: Plan, scaled_params: Vector, sums: ArmSums, alpha: float) -> pd.DataFrame:
    """The table of `ReleasedModel.focus`."""
    assert plan.focus is not None
    effect = treatment_effect(plan, scaled_params, sums)
    half, error = effect.half_width(check_level(alpha)), effect.half_width(0.05) / NORMAL
    name = plan.names[treated(plan.design, plan.focus.treatment).columns[0]]
    tests = [effect.value / error, effect.pvalue] if math.isfinite(error) else [math.nan, math.nan]
    values = [effect.value, error, *tests, effect.value - half, effect.value + half]
    columns = ["coef", "std_error", "z", "p_value", "low", "high"]
    return WideFrame(pd.DataFrame([values], index=[name], columns=columns))

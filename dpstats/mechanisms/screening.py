"""Screening: a noisy choice of a few terms, on which the rest of the budget buys a fit (docs/proofs/screening).

Terms are chosen one by one, as by orthogonal matching pursuit: after each choice the terms chosen so far are fitted.
The score of another term is the length of its part of the gradient at that fit, in whole numbers: each row's
contribution is rounded to a public lattice before anything is added up, so that sums are exact and one row moves no
score by more than `STEPS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Block, Rows, block_rows, divide
from dpstats.errors import ArgumentError
from dpstats.families import BinomialCounts, Family
from dpstats.families.base import pad_rows
from dpstats.formula.design import DesignSpec
from dpstats.mechanisms.design import ArrayDesign, Bounds, constant_column
from dpstats.mechanisms.information import Information
from dpstats.mechanisms.napp import plan_stages, release_stages
from dpstats.mechanisms.narrowing import in_design, narrowed_design
from dpstats.mechanisms.objective import ObjectivePlan, plan_objective
from dpstats.mechanisms.options import Options
from dpstats.mechanisms.residuals import suited_family
from dpstats.mechanisms.spec import FitSpec, check_units
from dpstats.mechanisms.spreads import USUAL_SPREAD, balancing_weights, declared_spreads
from dpstats.mechanisms.stage import Stage, StagePlan, StagesRelease
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.randomness import RandomSource, secret_key
from dpstats.privacy.selection import exponential_scale, noisy_argmax
from dpstats.solvers.linear_algebra import chunks
from dpstats.wording import argument

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class NullResidual:
    """The derivative of one row's loss at a public linear predictor, as a function of the response alone.

    It is `at_zero` for a response of 0 and `at_one` for one of 1 if responses are binary; else `at_zero` less the
    response. It lies within `bound`, to which it is clipped. With offsets it is the derivative at `eta` + offset.
    """

    binary: bool
    at_zero: float
    at_one: float
    bound: float
    family: Family | None = None
    eta: float = 0.0

    @classmethod
    def at(cls, family: Family, eta: float, *, offset: bool = False) -> NullResidual:
        """The residual of the null model with linear predictor `eta`, for rows with offsets or without."""
        point = np.array([eta])
        ends = np.array([0.0, 1.0])
        if offset:
            return cls(False, 0.0, 0.0, family.lipschitz, family, eta)
        if isinstance(family, BinomialCounts):
            chance = float(family.mean(point)[0])
            return cls(False, chance, chance - 1, max(chance, 1 - chance))
        if family.response == "binary":
            at_zero, at_one = (float(family.derivatives(point, end[None]).gradient[0]) for end in ends)
            return cls(True, at_zero, at_one, max(abs(at_zero), abs(at_one), np.finfo(float).tiny))
        mean = float(family.mean(point)[0])  # which may lie beyond the cap on residuals
        bound = family.lipschitz
        if family.response == "count":
            bound = max(mean, float(family.clip_response(np.array([np.inf]))[0]) - mean)
        return cls(False, mean, mean - 1, bound)

    def __call__(self, endog: NDArray[np.floating]) -> Vector:
        """The residuals over their bound, shape (rows,): each from its own response, whatever the others are."""
        response = endog.astype(np.float64)
        if self.binary:
            residual = np.where(response >= 0.5, self.at_one, self.at_zero)
        else:
            residual = np.clip(self.at_zero - response, -self.bound, self.bound)
        return np.asarray(residual / self.bound, dtype=np.float64)

    def of(self, block: Block) -> Vector:
        """The residuals of a block's rows, shape (rows,): weighted, and at their offsets."""
        if block.offset is None:
            residuals = self(block.endog)
        else:
            assert self.family is not None
            eta, endog = pad_rows(self.eta + block.offset), pad_rows(block.endog)
            slope = self.family.slope(eta, endog)[: len(block.endog)]
            residuals = np.clip(slope.astype(np.float64) / self.bound, -1.0, 1.0)
        return residuals if block.weights is None else residuals * block.weights


@dataclass(frozen=True, eq=False)
class FitResidual:
    """The derivative of one row's loss at released coefficients, as a function of that row alone, over its bound."""

    family: Family
    columns: tuple[int, ...]
    coefficients: Vector  # in model units, shape (k,)

    def as_offset(self, bound: float, block: Block) -> Block:
        """The rows of an intercept alone, with the linear predictor, clipped to a public bound on it, as offset."""
        return _intercept_alone(block)._replace(offset=np.clip(self.predictor(block), -bound, bound))

    def predictor(self, block: Block) -> Vector:
        """The linear predictor of a block's rows, shape (rows,), with their offsets."""
        # Column by column: a matrix product may round a row by its place in the block.
        eta = np.zeros(len(block.endog)) if block.offset is None else block.offset.astype(np.float64)
        for column, coefficient in zip(self.columns, self.coefficients, strict=True):
            eta = eta + block.exog[:, column].astype(np.float64) * coefficient
        return eta

    def of(self, block: Block) -> Vector:
        """The residuals of a block's rows, shape (rows,): weighted, and at their offsets."""
        eta = self.predictor(block)
        slope = self.family.slope(pad_rows(eta), pad_rows(block.endog))[: len(eta)]
        residuals = np.clip(slope.astype(np.float64) / self.family.lipschitz, -1.0, 1.0)
        return residuals if block.weights is None else residuals * block.weights


Integers = NDArray[np.int64]

STEPS = 2**20
"""The most by which one row moves a score, in steps of the lattice."""

CHUNK_ROWS = 2048
"""Rows rounded at a time. A chunk's sums stay far below 2^53, so that floats add them up exactly."""

INSIDE = 1 - 2.0**-40
"""Contributions end this much inside the bound, so that rounding of their length does not put them outside."""

NULL_PRICE, REFIT_PRICE = 0.5, 0.5
"""What the null model and a fit between choices cost, over what a choice does."""

INTERCEPT_PART = 0.5
"""The part of a fit between choices with which the intercept is fitted anew at the slopes just released.

Else its error, which is that of a fit of all terms chosen, enters the scores of every column whose values lie on one
side of the centre of its range, such as a rare 0/1 column.
"""

SMALLEST_EPS = 1e-30
"""Below it the scale of the noise would exceed every score by far, and soon what integers of 64 bits hold."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Columns that are kept or left together: a term of a formula, a column of an array."""

    name: str
    columns: NDArray[np.intp]  # their positions in the design, shape (k,)
    center: float  # what is subtracted from a single column first
    reach: float  # a bound on the Euclidean norm of the columns' part of any row, less `center`
    # Whether the rest of the reach counts as a further column: for 0/1 columns of a factor's levels it is the reference
    # level's.
    complement: bool
    weight: float = 1.0  # in (0, 1]: its scores are multiplied by it


@dataclass(frozen=True, eq=False)
class ScreeningPlan:
    """What screening costs and keeps; all but `kept` is fixed before rows are read."""

    eps: float  # for the null model and all choices together; pure
    choices: int  # k, the number of terms to be chosen
    candidates: int  # the number of terms to choose from
    adjacency: Adjacency
    null: ObjectivePlan | None  # the null model, an intercept alone; None where every column is chosen among
    refit_eps: float  # for each fit of the terms chosen so far, one between each two choices
    # Positions of the columns that are fitted: as released or, in a plan, those of the widest terms, which stand in.
    kept: tuple[int, ...]
    fit_eps: float  # what is left for the fit on them, whichever they are
    fit_delta: float
    range_eps: float = 0.0  # for narrower ranges of the terms chosen, by the rows of the fit
    narrowed: tuple[str, ...] = ()  # the columns of the data that have one, as released

    @property
    def null_eps(self) -> float:
        """What the null model costs; its part goes to the choices where there is none."""
        return 0.0 if self.null is None else self.null.cost

    @property
    def refits_eps(self) -> float:
        """What the fits between choices cost together."""
        return (self.choices - 1) * self.refit_eps

    @property
    def choice_eps(self) -> float:
        """The budget of one choice."""
        return (self.eps - self.null_eps - self.refits_eps) / self.choices

    @property
    def scale(self) -> float:
        """The mean of the exponential noise on the scores, in rows that contribute all they can."""
        return noise_scale(self.choice_eps, self.adjacency) / STEPS

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON; of narrower ranges where they may be bought, as older plans have none."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        null = None if self.null is None else self.null.to_dict()
        ranges = {"range_eps": self.range_eps, "narrowed": list(self.narrowed)} if self.range_eps else {}
        return {**plain, "null": null, "kept": list(self.kept), **ranges}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ScreeningPlan:
        """The plan whose `to_dict` gave `stored`."""
        null = None if stored["null"] is None else ObjectivePlan.from_dict(stored["null"])
        names = {name: tuple(stored.get(name, ())) for name in ("kept", "narrowed")}
        # Older plans chose all terms by the same scores.
        return cls(**{"refit_eps": 0.0, **stored, "null": null, **names})


_PLAIN = ("eps", "choices", "candidates", "adjacency", "refit_eps", "fit_eps", "fit_delta")


def plan_choice(spec: FitSpec, eps: float, delta: float) -> tuple[ScreeningPlan | None, tuple[Stage, ...]]:
    """Split a budget over a fit and the choice of its columns, by screening or by a first fit; reads no rows.

    With screening the stages are planned as if the widest terms were chosen. What is charged does not depend on which
    terms are; the noise of the fit follows them. ArgumentError as of `plan_stages`, and if no term would be screened
    out, or an option would let the charge or the feasibility of the fit follow the terms.
    """
    options = spec.options
    _check_split(options)
    empty = [term.name for term in spec.design.terms if term.l2 == 0]
    if empty:
        # Alone it would leave a fit without a column, after the charge.
        raise ArgumentError(
            f"formula: the term {empty[0]!r} is zero on the declared ranges and cannot be chosen; leave it out"
        )
    if options.screen is None:
        return None, plan_stages(spec, eps, delta)
    if options.retrieval == "return":
        returned = argument("retrieval", "return")
        raise ArgumentError(
            f"{returned} cannot be combined with screen, because the amount depends on the columns kept"
        )
    if options.replicates:
        raise ArgumentError("screen is not part of the replicated paper; leave one of them out")
    check_units(spec.design, options)  # whichever columns are kept
    screening = plan_screening(spec, eps, delta)
    if options.curvature is not None:
        # Too little curvature must not come out after the charge: what suffices for all columns does for some.
        _plan_part(screening, np.arange(len(spec.design.names)), spec)
    return screening, _plan_part(screening, np.array(screening.kept), spec)


def _check_split(options: Options) -> None:
    """Raise ArgumentError unless there is one choice to keep the rows of apart."""
    if options.split is None:
        return
    rows = argument("split", "rows")
    if options.screen is None and options.refit_share == 0:
        raise ArgumentError(f"{rows} needs a choice of columns: pass screen or refit_share")
    if options.screen is not None and options.refit_share > 0:
        raise ArgumentError(f"{rows} divides rows once: pass screen or refit_share, not both")
    if options.retrieval == "return":
        raise ArgumentError(
            f"{argument('retrieval', 'return')} cannot be combined with {rows}, whose parts pay in parallel"
        )
    if options.replicates:
        raise ArgumentError("split is not part of the replicated paper; leave one of them out")


def plan_screening(spec: FitSpec, eps: float, delta: float) -> ScreeningPlan:
    """Divide the budget of screening: half as much for the null model and a refit as for a choice; reads no rows.

    Screening takes the share `screen_share` of eps, and no delta. Terms of penalty weight 0, such as the intercept, are
    not chosen among. ArgumentError if there are no more candidates than `screen` or eps is below `SMALLEST_EPS`.
    """
    design, options = spec.design, spec.options
    always, candidates = split_terms(design, spec.weights)
    choices = options.screen or 0
    if not 0 < choices < len(candidates):
        raise ArgumentError(f"screen must be less than the number of terms to choose from, {len(candidates)}")
    # Divided rows pay for the screening with the whole budget.
    cost = eps if options.split is not None else options.screen_share * eps
    share = cost / (choices + NULL_PRICE + REFIT_PRICE * (choices - 1))
    if share < SMALLEST_EPS:
        raise ArgumentError(f"eps is too small for screening: a choice needs at least {SMALLEST_EPS:g}; raise eps")
    null = None
    family = spec.choice.family
    if always.size:
        null = plan_objective(_intercept_design(design.offset_bound), family, spec.pure_budget(NULL_PRICE * share))
    widest = sorted(range(len(candidates)), key=lambda index: -candidates[index].columns.size)[:choices]
    kept = _columns(always, [candidates[index] for index in widest])
    left = (eps if options.split is not None else eps - cost) - spec.cap_eps - spec.range_eps
    refit_eps = REFIT_PRICE * share if choices > 1 else 0.0
    if refit_eps:  # what cannot be planned is refused before the charge
        plan_objective(spec.among(np.array(kept)).design, family, spec.pure_budget(refit_eps))
    return ScreeningPlan(
        cost, choices, len(candidates), spec.adjacency, null, refit_eps, kept, left, delta, spec.range_eps
    )


def _plan_part(
    screening: ScreeningPlan, columns: NDArray[np.intp], spec: FitSpec, *, charged: bool = False
) -> tuple[Stage, ...]:
    """The stages of a fit on some columns with what screening leaves of the budget."""
    fitted = replace(spec.among(columns), choosing=None)
    return plan_stages(fitted, screening.fit_eps, screening.fit_delta, charged=charged)


def release_screened(
    screening: ScreeningPlan, stages: Sequence[Stage], spec: FitSpec, rows: Rows[Block], random: RandomSource
) -> tuple[ScreeningPlan, StagesRelease, DesignSpec | None]:
    """Choose the terms and fit them, on rows that are paid for; the other coefficients are zero.

    The design is that of the fit if it is another: with narrower ranges of chosen columns.
    """
    choosing, fitting = divide(rows, secret_key(random)) if spec.options.split else (rows, rows)
    chosen = release_screening(screening, spec.choice, choosing, random)
    columns, size = np.array(chosen), len(spec.weights)
    narrow = narrowed_design(spec, screening.range_eps, columns, fitting, random)
    if narrow is not None:
        whole = spec.design
        assert isinstance(whole, DesignSpec)
        names = tuple(name for name, declared in narrow.domain.items() if declared != whole.domain[name])
        fitting, spec = fitting.map(partial(in_design, whole, narrow)), replace(spec, design=narrow)
        screening = replace(screening, narrowed=names)
    part_rows = fitting.map(partial(Block.columns, kept=columns)).persist()
    spec = replace(spec, family=suited_family(spec.among(columns), screening.fit_eps, part_rows, random))
    planned = tuple(
        Stage(role, _shrunk_as_planned(plan, stand_in, screening.kept, columns, size))
        for (role, plan), (_, stand_in) in zip(_plan_part(screening, columns, spec, charged=True), stages, strict=True)
    )
    fitted = release_stages(planned, spec.among(columns), part_rows, random)
    params = np.zeros(size)
    params[columns] = fitted.params
    information = fitted.information.among(chosen) if isinstance(fitted.information, Information) else None
    return replace(screening, kept=chosen), StagesRelease(params, fitted.stages, information), narrow


def _shrunk_as_planned(
    plan: StagePlan, stand_in: StagePlan, shown: Sequence[int], columns: NDArray[np.intp], size: int
) -> StagePlan:
    """The plan, shrinking what is not chosen among to where the stand-in shrinks it, such as a bought mean."""
    if not np.any(stand_in.linear):
        return plan
    target = np.zeros(size)
    target[list(shown)] = -stand_in.linear / stand_in.curvature
    return plan.recentred(plan.curvature, -plan.curvature * target[columns])


def release_screening(plan: ScreeningPlan, spec: FitSpec, rows: Rows[Block], random: RandomSource) -> tuple[int, ...]:
    """Choose the terms on rows that are paid for, and return the positions of all columns of the fit, increasing.

    Each choice is by the gradient at a fit of the terms chosen before it; `spec` has the family that is for choices.
    """
    always, candidates = split_terms(spec.design, spec.weights)
    eta, released = 0.0, np.zeros(len(spec.weights))
    if plan.null is not None:
        eta = float(plan.null.coefficients(rows.map(_intercept_alone).persist(), random)[0])
        if (constant := constant_column(spec.design)) is not None:
            released[constant[0]] = eta / constant[1]
    residual: NullResidual | FitResidual = NullResidual.at(spec.family, eta, offset=spec.design.offset_bound > 0)
    scale = noise_scale(plan.choice_eps, plan.adjacency)
    chosen: list[Candidate] = []
    for _ in range(plan.choices):
        if chosen:
            columns = _columns(always, chosen)
            released = _refit(plan, spec, columns, released, rows, random)
            residual = FitResidual(spec.family, columns, released[list(columns)])
        scores = term_scores(candidates, residual, rows, centred=plan.null is not None)
        chosen.append(candidates.pop(noisy_argmax(scores, scale, random, monotone=False)))
    return _columns(always, chosen)


def _refit(
    plan: ScreeningPlan, spec: FitSpec, columns: Sequence[int], last: Vector, rows: Rows[Block], random: RandomSource
) -> Vector:
    """Released coefficients of a fit of some columns, shape (p,), shrunk towards those released `last`.

    Where no fit can be planned of the columns chosen, which are released, the next choice is made at the last one.
    """
    kept, constant = np.array(columns), constant_column(spec.design)
    alone = INTERCEPT_PART * plan.refit_eps if constant is not None else 0.0
    try:
        fit = plan_objective(spec.among(kept).design, spec.family, spec.pure_budget(plan.refit_eps - alone))
    except ArgumentError:
        return last
    fit = fit.recentred(fit.curvature, -fit.curvature * last[kept])
    released = np.zeros(len(last))
    released[kept] = fit.coefficients(rows.map(partial(Block.columns, kept=kept)).persist(), random)
    if constant is None:
        return released
    place, value = constant
    others = kept[kept != place]
    slopes = FitResidual(spec.family, tuple(others.tolist()), released[others])
    maxima = np.concatenate([term.maxima for term in spec.design.terms])
    bound = float(np.abs(released[others]) @ maxima[others]) + spec.design.offset_bound
    try:
        fit = plan_objective(_intercept_design(bound), spec.family, spec.pure_budget(alone))
    except ArgumentError:
        return released
    fit = fit.recentred(fit.curvature, -fit.curvature * released[place] * value)
    released[place] = fit.coefficients(rows.map(partial(slopes.as_offset, bound)).persist(), random)[0] / value
    return released


def _intercept_design(offset_bound: float) -> ArrayDesign:
    """Of the null model, and of an intercept beside released slopes."""
    return ArrayDesign(("Intercept",), {"l2": 1.0}, offset_bound=offset_bound)


def split_terms(design: Bounds, weights: Vector) -> tuple[NDArray[np.intp], list[Candidate]]:
    """Columns that are kept in any case, and the candidates in the order of their columns.

    A formula's terms stay whole; every column of an array is a candidate of its own.
    """
    always: list[int] = []
    candidates = []
    for term in design.terms:
        positions = np.arange(term.columns.start, term.columns.stop)
        parts = [np.array([j]) for j in positions] if isinstance(design, ArrayDesign) else [positions]
        for part in parts:
            intercept = term.name == "Intercept" and not isinstance(design, ArrayDesign)
            if intercept or not np.any(weights[part]):
                always += part.tolist()
            else:
                candidates.append(_candidate(design, part, term.name, term.l2, term.l1, term.maxima))
    if isinstance(design, DesignSpec) and candidates:
        spreads = declared_spreads(design)
        weights = balancing_weights(np.array([_spread(one, spreads) for one in candidates]))
        candidates = [replace(one, weight=float(weight)) for one, weight in zip(candidates, weights, strict=True)]
    return np.array(always, dtype=np.intp), candidates


def _spread(candidate: Candidate, spreads: Vector) -> float:
    """The spread of a candidate over its reach; that of a factor counts the reference level."""
    if candidate.columns.size == 1:
        return float(spreads[candidate.columns[0]]) / candidate.reach if candidate.reach > 0 else 1.0
    return (candidate.columns.size + 1) ** -0.5 if candidate.complement else USUAL_SPREAD


def _candidate(design: Bounds, part: NDArray[np.intp], name: str, l2: float, l1: float, maxima: Vector) -> Candidate:
    """A candidate with the least bound on its part of a row that the design gives."""
    if not isinstance(design, DesignSpec):
        return Candidate(design.names[part[0]], part, 0.0, float(maxima[part[0]]), complement=False)
    low, high = ((end[part] - design.center[part]) / design.scale[part] for end in (design.lower, design.upper))
    if len(part) == 1:
        return Candidate(name, part, float(low[0] + high[0]) / 2, float(high[0] - low[0]) / 2, complement=False)
    # One nonzero entry a row, never negative: the dummies of a factor, of which one level has none.
    dummies = bool((low >= 0).all()) and l1 <= l2 * (1 + 1e-9)
    return Candidate(name, part, 0.0, l2, complement=dummies)


def _columns(always: NDArray[np.intp], chosen: Sequence[Candidate]) -> tuple[int, ...]:
    parts = [always, *(candidate.columns for candidate in chosen)]
    return tuple(sorted(int(column) for column in np.concatenate(parts)))


def term_scores(
    candidates: Sequence[Candidate],
    residual: NullResidual | FitResidual,
    blocks: Rows[Block] | Iterable[tuple[Any, ...]],
    *,
    centred: bool,
) -> list[int]:
    """The score of each candidate: the length of its columns' sums, rounded down to a whole number.

    One row moves no score by more than `STEPS` (docs/proofs/screening, lemma 1). `centred` says that the null model has
    an intercept, so that a shift of a column changes nothing but its noise.
    """
    part = partial(_sums, tuple(candidates), residual, centred)
    sums = block_rows(blocks).total(part, lambda one, other: [x + y for x, y in zip(one, other, strict=True)])
    return [math.isqrt(sum(int(entry) ** 2 for entry in total)) for total in sums]


def _sums(
    candidates: Sequence[Candidate], residual: NullResidual | FitResidual, centred: bool, blocks: Iterable[Block]
) -> list[Integers]:
    """The sums of each candidate's columns over some rows."""
    single = [index for index, candidate in enumerate(candidates) if candidate.columns.size == 1]
    several = [index for index, candidate in enumerate(candidates) if candidate.columns.size > 1]
    columns = np.array([candidates[index].columns[0] for index in single], dtype=np.intp)
    center, reach, weight = (
        np.array([getattr(candidates[index], name) for index in single]) for name in ("center", "reach", "weight")
    )
    if not centred:
        center, reach = np.zeros(len(single)), np.abs(center) + reach
    totals = np.zeros(len(single), dtype=np.int64)
    sums = {index: np.zeros(candidates[index].columns.size + 1, dtype=np.int64) for index in several}
    for block in chunks(blocks, CHUNK_ROWS):
        rows, slope = block.exog.astype(np.float64, copy=False), residual.of(block)
        totals += single_contributions(rows[:, columns], center, reach / weight, slope).sum(axis=0).astype(np.int64)
        for index in several:
            sums[index] += group_contributions(rows, candidates[index], slope, centred=centred).sum(axis=0)
    sums |= {index: totals[place : place + 1] for place, index in enumerate(single)}
    return [sums[index] for index in range(len(candidates))]


def _intercept_alone(block: Block) -> Block:
    """The rows of the null model: an intercept alone."""
    return block._replace(exog=np.ones((len(block.endog), 1)))


def single_contributions(rows: Vector, center: Vector, reach: Vector, slope: Vector) -> Vector:
    """Whole numbers from -`STEPS` to `STEPS`, shape (rows, k): what each row adds to the sum of each column.

    `rows` has shape (rows, k), `center` and `reach` shape (k,), `slope` shape (rows,) within [-1, 1].
    """
    steps = STEPS / np.where(reach > 0, reach, np.inf)
    contributions = np.trunc((rows - center) * slope[:, None] * steps)
    return np.nan_to_num(np.clip(contributions, -STEPS, STEPS, out=contributions), copy=False)


def group_contributions(rows: Vector, candidate: Candidate, slope: Vector, *, centred: bool) -> Integers:
    """Whole numbers, shape (rows, k + 1): what each row adds to the sums of a term of k columns.

    The squares of a row's add up to `STEPS`**2 at most; the last column is the complement's, or zero.
    """
    scaled = rows[:, candidate.columns] / (candidate.reach if candidate.reach > 0 else np.inf)
    rest = np.zeros(len(rows))
    if candidate.complement and centred:
        for column in range(scaled.shape[1]):
            rest += scaled[:, column]
        rest = 1 - np.clip(rest, 0, 1)
    vectors = np.column_stack([scaled, rest]) * slope[:, None] * (INSIDE * STEPS * candidate.weight)
    # No NaN comes here; as a whole number it would have a square that wraps.
    integers = np.nan_to_num(np.clip(np.trunc(vectors), -STEPS, STEPS)).astype(np.int64)
    # No row of the design is longer, up to the rounding that INSIDE leaves room for; the proof needs none to be.
    return np.where((integers**2).sum(axis=1, keepdims=True) <= STEPS**2, integers, 0)


def noise_scale(eps: float, adjacency: Adjacency) -> float:
    """The mean, in steps, of the exponential noise with which one choice is eps-private.

    Scores move either way, by `STEPS` for each row that neighbours differ by (docs/proofs/screening, lemma 2).
    """
    sensitivity = STEPS if adjacency == "add_remove" else 2 * STEPS
    return exponential_scale(eps, sensitivity=sensitivity, monotone=False)

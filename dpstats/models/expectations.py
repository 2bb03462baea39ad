"""What plans of one call are expected to show by the number of rows: shares of intervals, and the loss.

A closed form, by public facts, of what `dpstats.models.forecast` draws, within milliseconds. How the constants were
chosen, and how often the rule is right, is in docs/benchmarks_inference.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpstats.cached import cached_property
from dpstats.errors import DPStatsError
from dpstats.families import Family, Poisson
from dpstats.formula.design import DesignSpec
from dpstats.inference import MatrixLaw, Projection
from dpstats.inference.basis import reference_levels, self_adjoint
from dpstats.inference.forecast_identification import ProjectedNoise
from dpstats.inference.inverse import LEAST_RATIO, least_identified
from dpstats.mechanisms.design import SubDesign, constant_places
from dpstats.models.population import POOR, RICH, USUAL, KnownColumns, mean_exposure
from dpstats.models.supposed_rows import RowMeans, mean_information, row_means, sample_rows, weight_cap
from dpstats.plan import Plan
from dpstats.plan.plan import rescaled
from dpstats.plan.row_notes import narrowed_columns
from dpstats.plan.tables import tailed_columns
from dpstats.results.standard_errors import information_law, releases_errors

Vector = NDArray[np.float64]

EXPECTED_RATIO = 2.5
"""At this ratio of the expected information to its noise a coefficient has an interval every other time, beside few."""

COLLECTIVE_RATIO, COLLECTIVE_SLOPE = 1.8, 3.0
"""At this ratio of the information on all other coefficients to its noise a coefficient has an interval every other
time, however much is known of itself; and how fast its chance rises with the ratio, in standard deviations of a normal
law (docs/proofs/inference, 4: noise in the whole of the information)."""

UNDISTURBED = 0.05
"""With at most so many columns over the square of the least ratio each chance is that of the coefficient alone: the
others take less than one in 10^9 away, even if their noise is coupled twice as closely as that of any two columns."""

FEWER_ROWS = 2.0 ** (-np.arange(9) / 2)
"""Where these parts of the rows show a coefficient, more do: a coefficient that is hardly identified disturbs others,
and one that is not identified at all does not."""

SURE_RATIO = EXPECTED_RATIO + 3.0
"""At this one it has one nearly always, and what others would have without it no longer counts.

A greater one changes no share by .002.
"""

HIDDEN = 0.5
"""Of the intervals of other coefficients, the share that is lost where one is dropped that is collinear with the
intercept (measured in docs/defaults; why in docs/proofs/inference, 4)."""

LOSS_PRICE = 2.0
"""Errors for a further tenth of the coefficients are worth a loss that is larger by a twentieth: one over this."""

SUPPOSED_LOSS = 5.0
"""What noise adds to the loss of least squares counts so many times over: it is relative to what the columns leave
unexplained, which is a fifth of what is supposed where they explain nine tenths.

So it does of released statistics until an interval of the response is bought, and in proportion to `LIKELY_PART` over
the part of the range that it is, squared, from then on: where responses fill their range statistics lose far less.
"""

LESS_INFORMATION = (1.0, 1 / 2, 1 / 4, 1 / 8)
"""Columns may go together more than is supposed: released statistics and a residual cap are compared by the shares of
intervals, on average over so much of the information."""

WIDTH_PRICE = 0.2
"""There intervals that are half as wide are worth as much as a seventh more of the coefficients that have one."""

FAR = 1e6
"""So many times the rows: what shrinkage does to them is not seen."""

LIKELY_PART = 0.3
"""Until it is bought the interval is taken for so much of the middle of the response's range.

Half to all of it is bought of most data sets, a tenth to two fifths of wide ranges (docs/proofs/purchases): only the
purchase tells, and the choice is made again after it.
"""

DRAWS = 2
"""Draws of coefficients that a forecast's means are over: more move fewer choices than another seed
does, and take longer than a fit."""

LEAST_SHARE = 0.1
"""A table with fewer intervals than that is not worth having, even for nothing."""


class Outlook(NamedTuple):
    """What a plan is expected to show of some rows."""

    share: float  # of the coefficients, those with an interval
    # Of predictions, over that of the best coefficients. That of counts is taken for one: their dispersion beyond
    # Poisson's is not known, and errors cost them at most a tenth.
    loss: float
    # The same of usual rows, where these decide whether there is a table at all.
    usual_share: float | None = None

    @property
    def worth(self) -> float:
        """What the rule maximises."""
        return self.share - LOSS_PRICE * math.log(self.loss)

    @property
    def worth_having(self) -> bool:
        """Whether there may be intervals enough for a table."""
        return (self.share if self.usual_share is None else self.usual_share) >= LEAST_SHARE


class Populations(NamedTuple):
    """What a row adds in the mean."""

    identifying: Vector  # of l'' x x', for what is identified; shape (p, p)
    informative: Callable[[], Vector]  # the same of rows that say much, as nothing tells how columns disturb each other
    usual: RowMeans
    scaling: tuple[float, float]  # middle and half width of the response, in units of which they are

    def coefficients(self, plan: Plan) -> Vector:
        """Usual ones in the model units of a plan, shape (p,)."""
        (middle, half), (own_middle, own_half) = self.scaling, plan.design.response_scaling()
        coef = self.usual.coef * (half / own_half)
        if isinstance(plan.design, DesignSpec) and plan.design.has_intercept:
            at = plan.names.index("Intercept")
            coef[at] += plan.design.scale[at] * (middle - own_middle) / own_half
        return coef


def has_expectation(plan: Plan) -> bool:
    """Whether public facts tell what a plan will show: of a formula's rows that count alike and columns that all stay.

    Ranges that are still to be bought stand in as they do in the plan.
    """
    return plan.screening is None and comparable(plan)


def comparable(plan: Plan) -> bool:
    """Whether public facts tell plans of a call apart; of a screened model the widest terms stand for the chosen."""
    return (
        isinstance(plan.design, DesignSpec)
        and plan.design.score_ratio == 1.0
        and plan.stages[-1].plan.size == int(plan.kept.sum())
    )


def choose(candidates: Sequence[Plan], n: float, typical: object = None) -> int:
    """The place of the plan that suits `n` rows best: the first, coefficients alone, where none shows many intervals.

    The candidates are plans of one call that have an expectation and differ in what they spend on errors. `n` may be a
    released count, and `typical` is as for `Plan.standard_errors`. Nothing but public facts and `n` decides.
    """
    return preferred(outlooks(candidates, [n], typical)[0])


def preferred(expected: Sequence[Outlook]) -> int:
    """The place of the outlook that is worth most; the first, unless another shows intervals."""
    others = (one.worth if one.worth_having else -math.inf for one in expected[1:])
    return int(np.argmax([expected[0].worth, *others]))


def outlooks(candidates: Sequence[Plan], rows: Sequence[float], typical: object = None) -> list[list[Outlook]]:
    """What each of the candidates is expected to show of each number of rows; arguments as for `choose`."""
    expected = expectations(candidates, typical)
    return [[one.of(n) for one in expected] for n in rows]


def expectations(candidates: Sequence[Plan], typical: object = None) -> list[Expectation]:
    plans = [with_likely_mean(plan) for plan in candidates]
    return [Expectation(*both) for both in zip(plans, populations_of(plans, typical), strict=True)]


def with_likely_mean(plan: Plan) -> Plan:
    """The plan of counts once it has bought their mean, to which it caps the information, as far as it can be told."""
    planned, design = plan.response, plan.design
    if not isinstance(design, DesignSpec):
        return plan
    caps = isinstance(plan.family, Poisson) and design.has_intercept
    if planned is None or planned.mean is not None or not caps:
        return plan
    with contextlib.suppress(DPStatsError):  # as public as what is planned
        mean = USUAL.count * design.response.high / _mean_exposure(design)
        return rescaled(plan, plan.request, replace(planned, mean=mean))
    return plan


def with_free_errors(plan: Plan) -> Plan:
    """The plan, of counts with their likely mean where free errors have no room before the fit has bought it."""
    if plan.request.options.inference != "auto" or releases_errors(plan):
        return plan
    likely = with_likely_mean(plan)
    return likely if releases_errors(likely) else plan


def _count_level(plan: Plan) -> float:
    """The mean of counts over the greatest one: as it was bought, and else as it usually is.

    Noise goes by a bought mean too, so that rare counts say as much as others; beside a declared cap they would not.
    """
    bought, design = plan.response, plan.design
    assert isinstance(design, DesignSpec)
    if bought is None or bought.mean is None:
        return USUAL.count
    return bought.mean * _mean_exposure(design) / design.response.high


@lru_cache(maxsize=12)
def _mean_exposure(design: DesignSpec) -> float:
    """The mean of exp(offset), by which a rate is bought, of rows that are as usual; 1 without an offset."""
    return mean_exposure(design, KnownColumns.from_arguments(design, None, None), USUAL)


def populations_of(candidates: Sequence[Plan], typical: object = None) -> list[Populations]:
    """What is supposed of the rows of each candidate; arguments as for `choose`."""
    first, caps = candidates[0], [weight_cap(plan) for plan in candidates]
    assert isinstance(first.design, DesignSpec)
    # A rate tells how much rows say only where it caps their weights: the noise then goes by it.
    informative = first.design.offset is None or any(cap is not None for cap in caps)
    level = _count_level(first) if informative else USUAL.count
    supposed = first.design, first.family, level, frozenset(caps), frozenset(narrowed_columns(first))
    means = _declared_populations(*supposed) if typical is None else _populations(*supposed, typical)
    return [means[cap] for cap in caps]


def _populations(
    design: DesignSpec,
    family: Family,
    count: float,
    caps: frozenset[float | None],
    bought: frozenset[str],
    typical: object = None,
) -> dict[float | None, Populations]:
    """What is supposed of rows, by the cap on their weights; `count` as in `_count_level`, `bought` as known."""
    known = KnownColumns.from_arguments(design, typical, None, bought=bought)
    # What is identified is judged by rows that say little; but poor counts would be rare besides.
    priors = (*(replace(one, count=count) for one in (USUAL, POOR)), replace(RICH, count=max(count, RICH.count)))
    usual, poor = (sample_rows(design, family, known, prior, None, DRAWS) for prior in priors[:2])
    # How columns disturb each other hardly depends on the coefficients, of which one draw is enough, nor does it matter
    # where there are many rows.
    rich = cache(partial(sample_rows, design, family, known, priors[2], None, 1))

    def informative(cap: float | None) -> Vector:
        return mean_information(family, rich(), cap)

    return {
        cap: Populations(
            mean_information(family, poor, cap),
            partial(informative, cap),
            row_means(family, usual, cap),
            design.response_scaling(),
        )
        for cap in caps
    }


_declared_populations = lru_cache(maxsize=12)(_populations)
"""By the Domain alone: the same for all numbers of rows and budgets that are asked about, and of the next fit."""


class Expectation:
    """What a plan is expected to show by the number of its rows, of which each adds what is supposed in the mean.

    Of persons it is by their number: rows of one person are supposed to be alike, and as many as count.
    """

    def __init__(self, plan: Plan, means: Populations) -> None:
        self.plan, record = plan, plan.request.options.record
        usual, identifying = means.usual.person(record), record.rows * means.identifying
        kept = np.flatnonzero(plan.kept)
        among = np.ix_(kept, kept)
        self.coef, self.row_information = means.coefficients(plan)[kept], usual.information[among]
        self._projection = noise_projection(plan)
        self.ratios = InformationRatios(plan, identifying[among], self._projection)
        self._informative, self._among = means.informative, among
        # Of a well-specified model l'^2 over l'' is twice the loss of a row that is left: the unit of an excess.
        rescaled_by = (plan.design.response_scaling()[1] / means.scaling[1]) ** 2
        self.units = usual.weight / usual.square * rescaled_by if usual.square > 0 else 0.0

    @cached_property
    def _other_ratios(self) -> InformationRatios:
        rows = self.plan.request.options.record.rows
        return InformationRatios(self.plan, rows * self._informative()[self._among], self._projection)

    @cached_property
    def _usual_ratios(self) -> InformationRatios:
        return InformationRatios(self.plan, self.row_information, self._projection)

    def of(self, n: float) -> Outlook:
        """For `n` rows, at least one: a released count may be negative."""
        share, family, stage = self.share(n), self.plan.family, self.plan.stages[-1].plan
        if family.response == "count":
            # By poor rows alone errors would be put off that fits of many counts would have.
            return Outlook(share, 1.0, self._share(self._usual_ratios, n))
        noise, bias = stage.predicted_error(self._used(n) * self.row_information, self.coef - stage.shrunk_towards)
        excess = float(np.sum(self.row_information * (noise + bias))) * self.units
        excess *= self._supposed_loss() if family.response == "continuous" else 1.0
        return Outlook(share, 1 + max(excess, 0.0))

    def _supposed_loss(self) -> float:
        """How many times what noise adds to the loss of least squares counts."""
        response = self.plan.response
        if response is None or self.plan.request.method != "statistics":
            return SUPPOSED_LOSS
        part = (response.high - response.low) / 2 / self.plan.design.response_scaling()[1]
        return SUPPOSED_LOSS * (LIKELY_PART / part) ** 2

    def _used(self, n: float) -> float:
        n = max(float(n), 1.0)
        return n / 2 if self.plan.request.options.split is not None else n  # the others choose the columns

    def share(self, n: float) -> float:
        """Of the coefficients those that are expected to have an interval, of `n` rows."""
        return self._share(self.ratios, n)

    def slopes(self, n: float) -> float:
        """The same share of the slopes, of all if there are none."""
        slopes = np.array([name != "Intercept" for name in _fitted_design(self.plan).names])
        return float(np.mean(self._chances(self.ratios, n)[slopes if slopes.any() else ...]))

    def _share(self, by_rows: InformationRatios, n: float) -> float:
        return float(np.mean(self._chances(by_rows, n)))

    def _chances(self, by_rows: InformationRatios, n: float) -> Vector:
        n = self._used(n)
        chances = interval_chances(by_rows.of(n), self._other_ratios.of(n), lambda: self._other_ratios.coupling)
        together = float(np.min(chances, where=self._hiding, initial=1.0))
        return chances * (1 - HIDDEN * (1 - together))

    @cached_property
    def _hiding(self) -> NDArray[np.bool_]:
        """Which coefficients hide the others where they are dropped: of numbers with a long tail, and the intercept.

        These lie far from the middle of their interval, and so are collinear with the intercept.
        """
        tailed, names = tailed_columns(self.plan), _fitted_design(self.plan).names
        hiding = np.array([name in tailed for name in names])
        return hiding | (hiding.any() & np.array([name == "Intercept" for name in names]))

    def intervals(self, n: float) -> float:
        """What those of a linear model are worth beside those of another, of `n` rows."""
        share = float(np.mean([self.share(part * max(float(n), 1.0)) for part in LESS_INFORMATION]))
        return share / self.width(n) ** WIDTH_PRICE

    def width(self, n: float) -> float:
        """Of a linear model the geometric mean of the slopes' standard errors in the user's units, of `n` rows."""
        design, information = _fitted_design(self.plan), self._used(n) * self.row_information
        stage = self.plan.stages[-1].plan
        far, _ = stage.predicted_error(FAR * information, self.coef - stage.shrunk_towards)
        rows = design.back_transform()[0][[name != "Intercept" for name in design.names]]
        covariance = FAR**2 * far + np.linalg.pinv(information) / self.units
        squares = np.sum(rows @ covariance * rows, axis=1)
        return float(np.exp(np.mean(np.log(squares[squares > 0])) / 2)) if np.any(squares > 0) else 1.0


def interval_chances(ratios: Vector, others: Vector, coupling: Callable[[], Vector]) -> Vector:
    """The chance of an interval of each coefficient by the ratios of `InformationRatios`, shape (p,).

    `others` are those by which coefficients disturb each other, and `coupling` tells which do, where it may matter.
    Near the thresholds the noise decides, so that chances are smooth in the number of rows.
    """
    if math.sqrt(len(others) / UNDISTURBED) <= others.min():
        return np.where(ratios > 0, special.ndtr(ratios - EXPECTED_RATIO), 0.0)
    own, others = (FEWER_ROWS[:, None] * of_all for of_all in (ratios, others))
    with np.errstate(divide="ignore"):
        # Where a coefficient is hardly ever identified it is dropped, and disturbs no other one.
        disturbances = np.minimum((1 / others) ** 2 / 2, others / LEAST_RATIO**4)
    disturbed = np.maximum(disturbances @ coupling(), np.finfo(np.float64).tiny)
    beside = special.ndtr(COLLECTIVE_SLOPE * (1 / np.sqrt(disturbed) - COLLECTIVE_RATIO))
    chances = np.minimum(special.ndtr(own - EXPECTED_RATIO), beside).max(axis=0)
    return np.where(ratios > 0, chances, 0.0)


class InformationRatios:
    """Of each coefficient in the user's units its information over the deviation of the plan's noise in it.

    By the number of rows, each of which adds `information`, shape (p, p); the projection is of the plan's noise, None
    where it releases no information. It is G_jj / sd(g_j'E g_j) with G the inverse of what is expected, among the
    coefficients that are not dropped (docs/proofs/inference, 5); of a dropped one as it was then. Zero where none is
    released.

    A coefficient that another one makes uncertain, which may be dropped, has the larger ratio of the two cases: where
    noise leaves it little information, the other one has less and is dropped.
    """

    def __init__(self, plan: Plan, information: Vector, projection: Projection | None) -> None:
        self._steps = [(np.zeros(len(information)), 0.0)]
        self._law: ProjectedNoise | None = None
        self._dropping, self._entering = iter(self._steps[:0]), np.eye(len(information), dtype=bool)
        if projection is not None:
            design = _fitted_design(plan)
            matrix = projection.clean(information)
            basis = reference_levels(matrix, design.dummies)
            self._law = ProjectedNoise.of(projection, basis)
            self._entering = design.back_transform()[0] @ basis != 0
            known = self_adjoint(basis.T @ matrix @ basis)
            self._dropping = _dropping_steps(known, self._law, constant_places(design))

    @cached_property
    def coupling(self) -> Vector:
        """How far the noise between two coefficients is that between any two columns, shape (p, p), 0 of the diagonal.

        It is 0 between levels of a factor, which exclude each other, so that their entry is known.
        """
        size = len(self._entering)
        if self._law is None:
            return np.zeros((size, size))
        variances = self._law.entry_variances
        roots = np.sqrt(np.maximum(np.diag(variances), 0.0))
        scales = np.outer(roots, roots)
        # Off the diagonal noise has half of the variance that the two entries on it have.
        coupling = 2 * np.divide(variances, scales, out=np.zeros((size, size)), where=scales > 0)
        np.fill_diagonal(coupling, 0.0)
        return np.asarray(coupling)

    def of(self, n: float) -> Vector:
        """Of `n` rows, shape (p,)."""
        # All grow with the rows alike, so that the same one is the least.
        ratios = np.zeros(len(self._entering))
        for step in itertools.count(1):
            if len(self._steps) == step:
                self._steps += itertools.islice(self._dropping, 1)
            here = n * self._steps[min(step, len(self._steps) - 1)][0]
            last = len(self._steps) == step
            if last or n * self._steps[step][1] >= LEAST_RATIO:
                ratios = np.maximum(ratios, np.where(self._entering, here, np.inf).min(axis=1))
            if last or n * self._steps[step][1] >= SURE_RATIO:
                return np.asarray(ratios)
        raise AssertionError("a coefficient is dropped in every step")


def noise_projection(plan: Plan) -> Projection | None:
    """How an information loses what is known of every such matrix, with the noise that is left; None if none is
    released."""
    law = information_law(plan)
    return None if law is None else Projection.of(law, _fitted_design(plan).forms())


def _fitted_design(plan: Plan) -> DesignSpec | SubDesign:
    """The columns that are fitted, or stand for those that will be chosen."""
    assert isinstance(plan.design, DesignSpec)
    return plan.design if plan.screening is None else SubDesign(plan.design, np.flatnonzero(plan.kept))


def _dropping_steps(information: Vector, law: MatrixLaw, constants: Sequence[int]) -> Iterator[tuple[Vector, float]]:
    """Ratios of coefficients as the least is dropped again and again, shape (p,), and the least of those left."""
    size = len(information)
    entry_deviations = np.sqrt(law.bilinear(np.eye(size), np.eye(size)))
    kept = np.flatnonzero(entry_deviations > 0)
    inverse, ratios = np.linalg.pinv(information[np.ix_(kept, kept)]), np.zeros(size)
    while len(kept):
        directions = np.zeros((len(kept), size))
        directions[:, kept] = inverse
        deviations = np.sqrt(law.bilinear(directions, directions))
        t_ratios = np.divide(np.diag(inverse), deviations, out=np.zeros(len(kept)), where=deviations > 0)
        ratios[kept] = t_ratios
        least = int(np.argmin(t_ratios))
        yield ratios.copy(), float(t_ratios[least])
        least = least_identified(information, entry_deviations, kept, least, constants, solved=True)
        # The inverse of the information among the rest: a rank-one change.
        rest = np.delete(np.arange(len(kept)), least)
        column = inverse[rest, least]
        inverse = inverse[np.ix_(rest, rest)] - np.outer(column, column) / (inverse[least, least] or 1.0)
        kept = kept[rest]

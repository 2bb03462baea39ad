"""Standard errors to be expected of a plan, from public facts alone: no row is read and nothing spent.

The released values that errors follow from are put where rows made up from the Domain would have them, and go through
the same inference as those of a fit; which coefficients are identified is told by draws of the noise (docs/guide/eps).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from dpstats.arguments import check_row_count, check_type
from dpstats.cached import cached_property
from dpstats.data.passes import single_blas_thread
from dpstats.formula.design import DesignSpec
from dpstats.formula.submodels import SEED
from dpstats.frames import ForecastFrame
from dpstats.inference import (
    Inference,
    KnownInformation,
    Projection,
    ReleasedLaw,
    RobustSpread,
    Spread,
)
from dpstats.inference.forecast_identification import forecast_information
from dpstats.inference.inverse import LIKELY
from dpstats.mechanisms.design import constant_places
from dpstats.mechanisms.information import Information, InformationPlan, ReleasedSums
from dpstats.mechanisms.information_release import dispersion, variance_noise
from dpstats.mechanisms.statistics import ResidualCentre, StatisticsPlan
from dpstats.models.forecast_assumptions import (
    check_plan,
    correlation_assumption,
    described_response_assumption,
    person_assumption,
    residual_in_model_units,
    response_assumption,
    shape_assumption,
)
from dpstats.models.likely_caps import likely_cap, rough_errors
from dpstats.models.population import KnownColumns, RecordPieces
from dpstats.models.residuals import first_fit
from dpstats.models.supposed_rows import (
    DRAWS,
    RowMeans,
    Sample,
    declared_means,
    differing_information,
    log_variances,
    panel_means,
    record_means,
    row_means,
    sample_rows,
    shrunk_means,
    supposed,
    weight_cap,
)
from dpstats.plan import Plan
from dpstats.plan.methods import CENTRE_SHARE, TAILS_SHARE
from dpstats.plan.row_notes import narrowed_columns
from dpstats.privacy.information import MatrixNoise
from dpstats.progress import show_elapsed
from dpstats.quiet import quiet
from dpstats.results.ordinal import implied_spread
from dpstats.results.standard_errors import inference_of, information_law, sums_inference

Vector = NDArray[np.float64]

Value = TypeVar("Value")

MOST_NOISES, LEAST_NOISES, FEW_NOISES = 40, 10, 6
"""Draws of the information's noise: a chance is known to .08, or of many columns to .16, at worst (one standard error).

The few tell roughly. All are made for a chance that is printed: often the few agree where one fit in five has no error.
"""

DRAWN_COLUMNS = 600
"""So many columns at most all draws have together, unless there are the least of them: draws of more take longer."""

SURE, HOPELESS = 5.0, 1.0
"""The least ratio of a coefficient's information to its noise, beyond what the noise of all moves it by, at which all
are sure to be identified; and the greatest ratio at which none is."""

UNLUCKY = 2.33
"""An unlucky error is so many of these standard deviations above the expected one: by a normal law 99 of 100 fits show
less. To first order deviations are up to a third too small, so that nineteen in twenty is what is promised."""

HALF = 0.5
"""An error whose chance is less is infinite in a forecast."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """Standard errors of fits of a plan by what is supposed of their rows, for any number of them."""

    plan: Plan
    # what a row adds in the mean, by the names of `supposed`
    populations: Mapping[str, RowMeans]
    finds_cap: bool = field(default=True, kw_only=True)  # whether the purchase of a cap of residuals goes well
    # The cap that it finds, in model units, and the rows themselves; None unless all of them is described.
    cap: float | None = field(default=None, kw_only=True)
    sample: Sample | None = field(default=None, kw_only=True, repr=False)
    # Rows of counts by population: shrinkage moves their weights.
    counts: Mapping[str, Sample] = field(default_factory=dict, kw_only=True, repr=False)
    # Whether errors are those that nineteen in twenty fits stay below, of rows that are described.
    unlucky: bool = field(default=False, kw_only=True)
    alike: bool = field(default=False, kw_only=True)  # whether the rows of a person are supposed to be
    of_response: str = field(default="", kw_only=True)  # what is supposed of the response of described columns
    supposes_correlations: bool = field(default=False, kw_only=True)  # as no rows describe them
    # What was computed, for a search asks again for the numbers that its table is of; the same of cautious fits. A
    # change of anything else needs a dict of its own.
    computed: dict[Hashable, Any] = field(default_factory=dict, kw_only=True, repr=False)

    def _once(self, compute: Callable[[], Value], *key: Hashable) -> Value:
        """What `compute` returns, computed once for each `key`."""
        if key not in self.computed:
            self.computed[key] = compute()
        return self.computed[key]

    @property
    def _projection(self) -> Projection:
        """How a released information loses what is known of every such matrix: the same for all draws."""
        return self._once(self._new_projection, "projection")

    def _new_projection(self) -> Projection:
        law = information_law(self.plan)
        assert law is not None
        return Projection.of(law, self.plan.design.forms())

    def _matrix_noise(self, name: str, n: float) -> MatrixNoise | StatisticsPlan:
        """The noise of the information that is released, or of sums with it."""
        stage = self._likely_plan(name, n).stages[-1].plan
        if stage.statistics is not None:
            return stage.statistics
        assert stage.information is not None
        return stage.information.noise

    @property
    def coefficients(self) -> list[Any]:
        """What errors are of."""
        return self.plan.coefficients

    def free(self, n: float) -> bool:
        """Whether the errors of a fit of `n` rows are free."""
        information = self.plan_at(n).stages[-1].plan.information
        return information is not None and information.purchase.free

    def at(self, plan: Plan) -> Forecast:
        """The same of the same call at another budget."""
        check_type("plan", plan, Plan, "a plan of the same call, as plan.at(eps) makes it")
        check_plan(plan)
        return replace(self, plan=plan, computed={})

    def cautious(self) -> Forecast:
        """The same of fits that go badly: of described rows errors are those that nineteen in twenty stay below."""
        return replace(self, unlucky=self.known)

    def plan_at(self, n: float) -> Plan:
        """What a fit of `n` rows is planned as."""
        return self.plan

    @property
    def _noise_law(self) -> ReleasedLaw:
        """Of the noise in the coefficients: one for all draws, as it has draws of its own."""
        return self._once(self._new_noise_law, "noise law")

    def _new_noise_law(self) -> ReleasedLaw:
        stage = self.plan.stages[-1].plan
        return ReleasedLaw(stage.noise, stage.noise_shape)

    def errors(self, n: int) -> pd.DataFrame:
        """Errors of `n` rows; see `Plan.standard_errors`."""
        n = check_row_count(n, 10**15)
        with show_elapsed("forecasting standard errors"):
            forecasts = [self.likely(name, n) for name in self.names]
        usual, upper = forecasts[0], forecasts[-1]
        unlucky, chance, identified = *upper, usual[1]
        if self.known:  # chances count fits whose purchases go badly too
            cautious = self.cautious()
            identified = np.minimum(identified, cautious.chances(self.names[0], n, rough=False))
            unlucky, chance = cautious.likely(self.last, n)
            chance = np.minimum(identified, chance)
        columns = {
            "std_error": np.where(identified < HALF, np.inf, usual[0]),
            "lower": np.minimum.reduce([errors for errors, _ in forecasts]),
            "upper": np.maximum(usual[0], unlucky),
            "sampling": self.sampling(self.names[0], n) / np.sqrt(n),
            "identified": identified,
            "identified_upper": chance,
        }
        pairs = isinstance(self.coefficients[0], tuple)
        index = pd.MultiIndex.from_tuples(self.coefficients) if pairs else self.coefficients
        table = ForecastFrame(columns, index=index)
        table.attrs |= {"note": self.assumption, "described": self.known}
        return table

    @property
    def names(self) -> tuple[str, ...]:
        """The populations: the usual one or that which is known, and of rows that say more and less."""
        return ("known",) if self.known else tuple(self.populations)

    @property
    def last(self) -> str:
        """The population that says least: of described rows that whose columns predict strongly, if it is supposed."""
        return "strong known" if "strong known" in self.populations else self.names[-1]

    @property
    def assumption(self) -> str:
        """What is supposed of what nobody describes, and of the rows of a person, in sentences."""
        means = [self.populations[name] for name in self.names]
        response = response_assumption(self.plan, [one.response for one in means], means[0].deviation)
        correlations = correlation_assumption(self.plan) if self.supposes_correlations else ""
        persons = person_assumption(self.plan) if self.alike else ""
        return " ".join(filter(None, [response, self.of_response, correlations, persons]))

    @property
    def known(self) -> bool:
        """Whether the analyst said how all columns are spread."""
        return "known" in self.populations

    def sampling(self, name: str, n: float | None = None) -> Vector:
        """Errors of one row of a population that no noise adds to, in the user's units, shape (p,).

        They are for the alpha that a fit of `n` rows is likely to buy, or for the least one, which stands in for it.
        """
        return np.maximum.reduce([self._row_errors(one) for one in self._kinds(name)])

    def _kinds(self, name: str) -> tuple[str, ...]:
        """The populations of which an error is the largest: columns that are known may be independent."""
        independent = name.replace("known", "independent")
        return (name, independent) if independent != name and independent in self.populations else (name,)

    def _row_errors(self, name: str) -> Vector:
        """As `sampling`, of this population alone."""
        return _sampling(self.plan, self.populations[name])

    def expected(self, name: str, n: int) -> Vector:
        """Errors of `n` rows of a population where noise leaves the information at its mean, shape (p,)."""
        return self._once(lambda: self._expected(name, n), "expected", self.unlucky, name, n)

    def _expected(self, name: str, n: int) -> Vector:
        if self.unlucky:
            return np.asarray(self.spread(name, n, rough=True)[-1])
        return np.maximum(self._larger(name, n) * self._errors(name, n), self.sampling(name) / np.sqrt(n))

    def spread(self, name: str, n: int, *, rough: bool = False) -> Vector:
        """Errors that fits of `n` rows of a population show, all as likely, in order; shape (draws, p).

        If `rough`, they are those of a normal law of their logarithms, to first order; else draws may raise them.
        """
        draws = noises(len(self.coefficients))
        steps = special.ndtri(np.arange(1, draws + 1) / (draws + 1))[:, None]
        steps *= UNLUCKY / steps[-1]
        errors = replace(self, unlucky=False).expected(name, n) * np.exp(steps * self._log_deviations(name, n))
        if rough:
            return np.asarray(errors)
        plain = self._plain_answer(name, n)
        drawn = np.array(list(self.drawn_errors(name, n, LEAST_NOISES if plain else draws)))
        if np.isfinite(few := drawn[:LEAST_NOISES]).all():  # what the first order leaves out
            logs = np.log(few)
            errors = np.maximum(errors, np.exp(logs.mean(axis=0) + steps * logs.std(axis=0)))
        if plain:
            errors[-1] = np.maximum(errors[-1], drawn.max(axis=0))
            return np.asarray(errors)
        return np.maximum(errors, np.sort(drawn, axis=0))

    def _log_deviations(self, name: str, n: int) -> Vector:
        """Standard deviations of the logarithms of the errors that fits show, shape (p,).

        By noise in the information and in the spread of the score, to first order (docs/proofs/inference, 6), by which
        rows there are, and by the coefficients that residuals are about.
        """
        centres = self._centre_variance(name, n)
        with single_blas_thread(len(self.coefficients)), quiet(), np.errstate(invalid="ignore"):
            contrasts = self._inferred(name, n).contrasts
            spread, noise = contrasts.spread_noise / contrasts.variances, contrasts.noise / contrasts.variances
        squares = contrasts.information_noise + spread + noise**2 * centres / 4
        if self.sample is not None:  # of the rows of a fit, and of those that stand for all
            squares = squares + self.sample.log_variances * (1 / n + 1 / len(self.sample.endog))
        return np.asarray(np.sqrt(np.where(np.isfinite(squares), squares, 0.0)))

    def _centre_variance(self, name: str, n: float) -> float:
        """The relative variance of the noise's variance in the coefficients with those that residuals are about."""
        if self.cap is None:
            return 0.0
        statistics, means = self._likely_plan(name, n).objective.statistics, self.populations[name]
        assert statistics is not None
        assert statistics.residuals is not None
        pulled, noise = self.centre_errors(name, n)
        centres = np.random.default_rng(SEED).multivariate_normal(
            means.coef + pulled, noise, MOST_NOISES, method="eigh"
        )
        metrics = [
            replace(statistics, residuals=replace(statistics.residuals, coef=tuple(one))).law.metric for one in centres
        ]
        left = np.append(-means.coef, 1.0)
        sizes = np.array([left @ metric @ left for metric in metrics])
        return float(np.var(sizes) / np.mean(sizes) ** 2)

    def likely(self, name: str, n: int, *, rough: bool = False) -> tuple[Vector, Vector]:
        """Errors of `n` rows of a population, inf where most draws of noise leave none, and chances, each (p,).

        They are those in the middle of all draws, and of an `unlucky` forecast the greatest; if `rough`, the expected.
        """
        rough = rough or name not in (self.names[0], self.last)
        chance = self.chances(name, n, rough=rough)
        if np.all(chance < HALF):
            return np.full(len(chance), np.inf), chance
        if rough:
            return np.where(chance < HALF, np.inf, self.expected(name, n)), chance
        if self.unlucky:
            errors = self.spread(name, n)[-1]
        else:
            drawn = list(self.drawn_errors(name, n, noises(len(chance))))
            errors = np.quantile(drawn, 0.5, axis=0, method="lower")
        return np.where(chance < HALF, np.inf, errors), chance

    def chances(self, name: str, n: int, *, rough: bool = True) -> Vector:
        """The share of draws that leave each coefficient an error."""
        draws = FEW_NOISES if rough else noises(len(self.coefficients))
        drawn = list(self.drawn_errors(name, n, draws, worst=False))
        return np.asarray(np.isfinite(drawn).mean(axis=0), dtype=np.float64)

    def drawn_errors(self, name: str, n: int, draws: int, *, worst: bool = True) -> Iterator[Vector]:
        """The errors that draws of what is released leave, of rows of a population, inf where there is none, (p,).

        They are those of the `worst` of its `_kinds`, which has them in the same draws.
        """
        plain, made = self._plain_answer(name, n), draws
        if plain is not None:  # a few tell how errors vary
            made = min(draws, LEAST_NOISES) if plain and self.unlucky else 0
        if made:
            larger = self._larger(name, n) if worst else 1.0
            yield from (larger * errors for errors in self._draws(name, n, made))
        if made < draws:
            yield from [self.expected(name, n) if plain else np.full(len(self.coefficients), np.inf)] * (draws - made)

    def _draws(self, name: str, n: int, draws: int) -> Iterator[Vector]:
        """As `drawn_errors`, of this population alone and without a `_plain_answer`."""
        random, law = np.random.default_rng(SEED), self._matrix_noise(name, n)
        known: list[Vector] = self._once(list, "draws", name, n)
        for place in range(draws):
            noise, moved = law.sample(random), None
            if name in self.counts:
                moved = self._noise_law.draws(1, random)[0]
            if place == len(known):
                known.append(self._errors(name, n, noise, moved))
            yield known[place]

    def _larger(self, name: str, n: int) -> Vector | float:
        """How many times errors of a population are larger in the worst of its `_kinds`, shape (p,): by few draws."""
        return self._once(lambda: self._larger_by(name, n), "larger", name, n)

    def _larger_by(self, name: str, n: int) -> Vector | float:
        kinds, plain = self._kinds(name), self._plain_answer(name, n)
        if len(kinds) == 1 or plain is False:
            return 1.0
        made = [[self._errors(one, n)] if plain else list(self._draws(one, n, FEW_NOISES)) for one in kinds]
        errors, finite = np.array(made), np.isfinite(made).all(axis=0)
        ratios = np.divide(errors.max(axis=0), errors[0], out=np.ones(finite.shape), where=finite)
        return np.asarray(np.median(ratios, axis=0))

    def _plain_answer(self, name: str, n: float) -> bool | None:
        """Whether all coefficients have errors in every draw, or none has in any, as far as no draw is needed.

        Noise of one in every entry moves the eigenvalues of a matrix by up to about 2 sqrt(p), and ratios are in units
        of sqrt(2).
        """
        return self._once(lambda: self._sure_answer(name, n), "plain answer", name, n)

    def _sure_answer(self, name: str, n: float) -> bool | None:
        ratios = self._known(n * self._released(name, n).information, noisy=False).identified.ratios
        if ratios.min() >= math.sqrt(2 * len(ratios)) + SURE:
            return True
        return False if ratios.max() < HOPELESS else None

    def _released(self, name: str, n: float, noise: Vector | None = None) -> RowMeans:
        """What a row of a population adds at the coefficients that `n` rows release, if it is counts; else at its own.

        Coefficients have this noise, or none.
        """
        means = self.populations[name]
        stage = None if name not in self.counts else self.plan.stages[-1].plan
        if stage is None:
            return means
        at_coefficients = partial(
            shrunk_means, self.plan.family, self.counts[name], weight_cap(self.plan), means, stage, n
        )
        return self._once(at_coefficients, "shrunk", name, n) if noise is None else at_coefficients(noise)

    def _known(self, matrix: Vector, *, noisy: bool) -> KnownInformation:
        """What is known of an information matrix, and identified of it."""
        design = self.plan.design
        constants = constant_places(design)
        return forecast_information(matrix, self._projection, design.dummies, noisy=noisy, constants=constants)

    @cached_property
    def _rough(self) -> Plan | None:
        """The fit whose coefficients residuals are about, if it is known what is bought of the response."""
        plan = self.plan
        if plan.residuals is None or plan.response is None:
            return None
        return first_fit(plan, CENTRE_SHARE / (CENTRE_SHARE + TAILS_SHARE) * plan.residuals.eps)

    def centre_errors(self, name: str, n: float) -> tuple[Vector, Vector]:
        """How far the coefficients that residuals are about are pulled, and the covariance of their noise."""
        means = self.populations[name]
        if self._rough is None or self.plan.objective.statistics is None:  # persons find caps as if there were none
            return np.zeros(len(means.coef)), np.zeros((len(means.coef),) * 2)
        return rough_errors(self._rough, means, n)

    def _likely_plan(self, name: str, n: float) -> Plan:
        """The plan of `n` rows once it has bought what its sums are of, if they are of residuals."""
        return self._once(lambda: self._plan_with_centre(name, n), "plan", name, n)

    def _plan_with_centre(self, name: str, n: float) -> Plan:
        statistics, plan = self.plan.objective.statistics, self.plan
        if plan.residuals is None or statistics is None:
            return plan
        means = self.populations[name]
        pulled, noise = self.centre_errors(name, n)
        # What the noise adds goes to the same side, as only its squares count.
        errors = np.copysign(np.sqrt(pulled**2 + np.diag(noise)), pulled)
        cap = likely_cap(plan, means, narrowed=self.finds_cap) if self.cap is None else self.cap
        centre = ResidualCentre(tuple(means.coef + errors), cap)
        stage = replace(plan.objective, statistics=replace(statistics, residuals=centre))
        return replace(plan, stages=(plan.stages[0]._replace(plan=stage),))

    def _errors(self, name: str, n: float, noise: Vector | None = None, moved: Vector | None = None) -> Vector:
        """Errors of `n` rows, with noise as for `_inferred`, shape (p,)."""
        if noise is None and moved is None:
            return self._once(lambda: self._new_errors(name, n), "errors", name, n)
        return self._new_errors(name, n, noise, moved)

    def _new_errors(self, name: str, n: float, noise: Vector | None = None, moved: Vector | None = None) -> Vector:
        # On matrices so small BLAS's threads wait for each other.
        with single_blas_thread(len(self.coefficients)), quiet():
            return np.asarray(self._inferred(name, n, noise, moved).se)

    def _inferred(self, name: str, n: float, noise: Vector | None = None, moved: Vector | None = None) -> Inference:
        """The table of errors of `n` rows that are as their mean, with some noise in what is released or with none.

        Coefficients of counts have noise too if it is given (`moved`), as the information is of the released ones.
        """
        plan, means = self._likely_plan(name, n), self.populations[name]
        if plan.objective.statistics is not None:
            sums = ReleasedSums(n * means.moments + (0.0 if noise is None else noise))
            return sums_inference(plan, sums, None, self._known(sums.matrix, noisy=noise is not None)).table
        stage = plan.stages[-1].plan
        assert stage.information is not None
        means = self._released(name, n, moved)
        params, matrix = means.coef, n * means.information
        if name not in self.counts:
            curvature = np.diag(stage.curvature)
            start = matrix @ means.coef + curvature @ stage.shrunk_towards
            params = np.asarray(np.linalg.solve(matrix + curvature, start), dtype=np.float64)
        matrix = matrix if noise is None else matrix + noise
        known = self._known(matrix, noisy=noise is not None)
        spread = _spread(plan, stage.information, known, params, n * means.square, n * means.weight)
        released = Information(tuple(range(stage.size)), matrix, spread)
        return inference_of(plan, params, released, known, self._noise_law).table

    def enough(
        self, n: int, columns: Sequence[int] | None = None, draws: int | None = None, name: str | None = None
    ) -> bool:
        """Whether all coefficients, or some, are likely to have errors of `n` rows of a population, or of the last.

        Where the first `draws` all leave them one these are enough, else `noises` decide.
        """
        places, most = slice(None) if columns is None else list(columns), noises(len(self.coefficients))
        missed = np.zeros(len(self.coefficients), dtype=int)[places]
        for number, errors in enumerate(self.drawn_errors(name or self.last, n, most, worst=False), 1):
            missed += ~np.isfinite(errors[places])
            if missed.max() > int((1 - LIKELY) * most + 1e-9):
                return False
            if number == draws and not missed.any():
                return True
        return True


def forecast(
    plan: Plan,
    residual_sd: float | None = None,
    typical: object = None,
    like: object = None,
    pieces: RecordPieces | None = None,
) -> Forecast:
    """A forecast of a plan's standard errors; arguments as for `Plan.standard_errors`.

    Where rows of the design are `pieces` of records it is for numbers of records.
    """
    check_plan(plan)
    design = plan.design if pieces is None else pieces.records
    assert isinstance(design, DesignSpec)
    known = KnownColumns.from_arguments(design, typical, like, bought=narrowed_columns(plan))
    residual = residual_in_model_units(plan, known, residual_sd)
    priors = supposed(design, known, () if pieces is None else pieces.clipping, response=residual is None)
    everything, record, sample = "known" in priors, plan.request.options.record, None
    with quiet():
        if record.column is not None and known.in_like((record.column, *design.columns)):
            return Forecast(plan, dict.fromkeys(priors, panel_means(plan, known)))
        family, cap = plan.family, weight_cap(plan)
        if pieces is not None:
            declared = typical is None and like is None
            means = {
                name: declared_means(pieces, family, cap, prior)  # type: ignore[arg-type]
                if declared
                else record_means(pieces, family, cap, known, prior)
                for name, prior in priors.items()
            }
            words = described_response_assumption(plan, known, priors, residual)
            return Forecast(plan, means, of_response=words, supposes_correlations=known.like is None)
        samples = {name: sample_rows(design, family, known, prior, residual, DRAWS) for name, prior in priors.items()}
        if everything:
            sample = samples.get("strong known", samples["known"])
            sample = sample._replace(log_variances=log_variances(plan, sample, cap))
        means = {name: row_means(family, one, cap) for name, one in samples.items()}
        for name in (one for one in means if one.startswith("strong")):
            means[name] = means[name]._replace(information=differing_information(family, samples[name], cap))
        populations = {name: one.person(record) for name, one in means.items()}
        rows = {name: one.of_one_draw() for name, one in samples.items()} if family.response == "count" else {}
        return Forecast(
            plan,
            populations,
            alike=record.column is not None,
            sample=sample,
            of_response=" ".join(
                filter(
                    None,
                    [described_response_assumption(plan, known, priors, residual), shape_assumption(design, known)],
                )
            ),
            counts=rows,
            supposes_correlations=known.like is None,
        )


def noises(columns: int) -> int:
    """How many draws of the information's noise tell the chances of so many columns."""
    return max(LEAST_NOISES, min(MOST_NOISES, DRAWN_COLUMNS // max(columns, 1)))


def _sampling(plan: Plan, means: RowMeans) -> Vector:
    """Standard errors of one row's worth, in the user's units, that no noise adds to."""
    rows = plan.design.back_transform()[0]
    inverse = np.linalg.pinv(means.information)
    information = plan.stages[-1].plan.information
    known = information is not None and information.purchase.spread == "known"
    phi = implied_spread(plan.design, means.coef).phi if known else means.square / means.weight
    square = phi * np.sum(rows @ inverse * rows, axis=1)
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))


def _spread(
    plan: Plan, bought: InformationPlan, known: KnownInformation, params: Vector, total: float, mass: float
) -> Spread:
    """The spread of the score with its noise."""
    family, design = plan.family, plan.design
    if bought.purchase.spread == "known":
        return implied_spread(design, params)
    if bought.purchase.spread == "dispersion":
        return dispersion(bought, family, design, total, mass)
    wanted = design.back_transform()[0]
    inside, inverse = known.inside(wanted), known.inverse
    variances, deviations = np.full(len(wanted), np.nan), np.zeros(len(wanted))
    rows = wanted[inside]
    variances[inside] = total / mass * np.sum(rows @ inverse * rows, axis=1)
    if len(rows):
        deviations[inside] = variance_noise(bought, family, inverse, rows, plan.adjacency).deviations  # type: ignore[arg-type]
    return RobustSpread(variances, deviations)

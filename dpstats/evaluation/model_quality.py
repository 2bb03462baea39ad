"""How good a released model is on private rows: one release of histograms (docs/proofs/evaluation)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import check_names, explain_calls, is_whole, near_miss, safe_repr
from dpstats.call import check_privacy
from dpstats.data import Table, as_endog, as_exog, as_table
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DataError
from dpstats.evaluation.binary import DECISION_METRICS, PROBABILITY_METRICS, BinaryModel
from dpstats.evaluation.histograms import STEPS, WEIGHTED_STEPS, Histogram, linear_range
from dpstats.evaluation.integer_noise import IntegerNoise, choose_noise
from dpstats.evaluation.levels import LEVEL_METRICS, LevelModel
from dpstats.evaluation.numeric import COUNT_METRICS, GAUSSIAN_METRICS, QUANTILE_METRICS, NumericModel
from dpstats.evaluation.paired import (
    NO_DIFFERENCE,
    PRINTED_LOSSES,
    ComparedModel,
    ModelPair,
    PairSums,
    check_same_response,
    shared_losses,
    verdict_note,
)
from dpstats.evaluation.result import (
    FEW_ROWS_NOTE,
    LEFT_OUT,
    NOT_KNOWN_HELD_OUT,
    PRINTED_NAMES,
    WIDE_RANGE,
    Evaluation,
    Tables,
    rows_error,
)
from dpstats.evaluation.row_sums import Model, RowSums, columns_read, steps_left_out
from dpstats.formula.advice import dropped_note
from dpstats.formula.design import DesignSpec
from dpstats.formula.reader import check_columns
from dpstats.ledger import LedgerLike
from dpstats.mechanisms.design import ArrayDesign, PublicDesign
from dpstats.models.release import Release, check_unit, holdouts
from dpstats.models.sources import OFFSET_BOUND, AuxiliaryArrays, auxiliary_arrays
from dpstats.plan import Plan
from dpstats.privacy.guarantee import Guarantee, Unit
from dpstats.quiet import hide_frames
from dpstats.results.glm_results import GLMResults
from dpstats.results.ordinal import CUT, cut_points
from dpstats.wording import argument, part_of, phrase

NOT_EVALUATED = {
    "AbsorbedResults": "the effects of the groups are not released, so it predicts differences and no responses",
    "MultinomialResults": "it has a probability for each class; dp.glm with I(y == 'a') ~ ... fits one class",
    "StatisticsResults": "fit the same formula by dp.ols, whose result can be",
    "IVResults": "two-stage least squares does not predict best; first_stage, ar_test and j_stat judge it",
    "StreamResults": (
        "its sums are for its own model; fits of dp.streaming.Refits, and that of the same rows by dp.glm, can be"
    ),
    "LocalResults": "compare predict(newdata) with public responses; fits of dp.glm can be",
    "KaplanMeier": "its intervals, and logrank, say what the curves are worth",
}
"""Why results of other kinds have no metrics."""

PER_UNIT = "The guarantee is per {unit}, as that of the model: one row of each {unit} counts."
"""What is said of a unit that the caller did not name."""

SHRUNKEN = 1.05  # predictions are shrunken if unbiased coefficients are so many times as large as the released ones
NOISY_SHARE, LARGE_NOISE = 3.0, 0.05
"""The noise of a share explained is named if it is so many times the sampling error, and so large in itself."""

MANY_ROWS = 100.0
"""Standard deviations of its noise above which a number of rows is so large that noise hides no variation of a response
but a slight one."""

CLEARLY_LEFT_OUT = 3.0
"""Standard deviations of its noise above which a number of rows left out is named: noise alone in .0072 of calls."""


@hide_frames
@explain_calls()
def evaluate(
    fit: GLMResults,
    data: object,
    eps: float,
    *,
    metrics: Sequence[str] | None = None,
    against: GLMResults | None = None,
    delta: float = 0.0,
    adjacency: str = "add_remove",
    ledger: LedgerLike = None,
    seed: int | None = None,
    bins: int = 10,
    weights: Any = None,
    offset: Any = None,
    unit: str | Literal[False] | None = None,
    engine: str | None = None,
) -> Evaluation:
    """Evaluate a released model: accuracy, calibration, ROC curve, R2 and residuals in one release, with errors.

    Parameters
    ----------
    fit : GLMResults
        Public: its coefficients are released already.
    data : DataFrame or another table
        The private rows, preferably rows that the model was not fitted to (`dpstats.holdout`). Rows that miss a cell
        which the model reads are left out and counted; columns of terms that screening or a lasso left out need not be
        there. For a model of plain arrays, the pair (endog, exog). Weights and offset of a formula are used.
    eps, delta : float
        The budget of this call. A delta permits Gaussian noise and stays unspent if Laplace noise is smaller.
    metrics : sequence of str, optional
        By default all metrics of the family; fewer metrics have less noise. Binomial: accuracy, brier, log_score,
        deviance (the share explained), calibration, roc, residuals. SVMs: accuracy, roc. Ordered levels:
        accuracy, mae (levels between the most probable one and the row's), rps (the ranked probability score, a mean
        over cut-points), log_score, deviance. Gaussian: r2, rmse, mae,
        residuals. Quantiles: pinball. Poisson: deviance, mae, residuals; negative binomial without the deviance.
        Names as printed ("deviance explained") are taken too, in any case ("R2"), and "auc" for roc.
    against : GLMResults, optional
        Another model of the same response. The release is then the mean difference of both models' losses on the same
        rows, those of `fit` less those of `against`, which usually has far less noise than two evaluations. Losses:
        log_score, brier (rps of ordered levels), accuracy (error rates); mse, mae; deviance, mse, mae of counts
        (negative binomial without the deviance); pinball. By default the first of these that both models have. No other
        metric is compared, so not the area under the ROC curve.
    adjacency : {"add_remove", "replace_one"}
    ledger : Ledger, Part or path, optional
        Charged durably before any row is read.
    seed : int, optional
        For tests only; the guarantee is then not certified.
    bins : int
        The largest number of bins in the tables of calibration and residuals, from 1 to 100. Bins are formed from the
        release, and there are fewer if the noise is large.
    weights, offset : array_like, shape (rows,), optional
        For plain arrays, within the bounds of the fit.
    unit : str or False, optional
        The column that identifies persons, for a guarantee for persons: one complete row of each person is drawn and
        counted, so sampling errors are valid. By default that of the fit; False protects single rows all the same, and
        sampling errors take rows as independent.
    engine : {"dask"}, optional
        Read files on the Dask cluster of this process; see `dpstats.glm`.

    Returns
    -------
    Evaluation

    Raises
    ------
    ArgumentError, DataError, DomainError
        Before anything is spent.
    BudgetExceeded
        If the ledger has too little left.

    Notes
    -----
    A row falls into one cell of each histogram, so the noise grows neither with the number of metrics that share a
    histogram nor with the number of bins. A row that is left out is in no cell, so that its number costs nothing more
    (docs/proofs/evaluation).

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> fit = dp.ols("y ~ x", rows, eps=1.0, domain=domain)
    >>> quality = dp.evaluate(fit, rows, 0.5)
    >>> "r2" in quality.metrics.index
    True
    """
    if not isinstance(fit, GLMResults):
        raise _not_evaluated(fit)
    if against is not None and not isinstance(against, GLMResults):
        raise _not_evaluated(against, "against")
    inherited = _inherited_unit(fit, against) if unit is None else None
    person = inherited if unit is None else None if unit is False else unit
    most = None if person is None else 1
    privacy = check_privacy(eps, delta, adjacency=adjacency, seed=seed, unit=person, max_rows=most)
    pair = None if against is None else _plan_pair(fit, against, metrics, bins)
    model = plan_evaluation(fit, metrics, bins) if pair is None else pair
    design = fit.predicting_design  # what is not in the model may be missing: the coefficients tell, which are released
    table, auxiliary = _checked_data(design, data, weights, offset, privacy.record, engine, inherited)
    if pair is not None:
        assert table is not None
        check_columns(table, pair.second.design.domain, columns_read(pair.second.design))
    blocks = _weighted(model.blocks(), fit.plan, auxiliary)
    largest, square = (sum(getattr(block, name) for block in blocks) for name in ("largest", "square"))
    noise = choose_noise(largest, square, privacy.eps, privacy.delta, privacy.adjacency)
    left_out = steps_left_out(blocks, noise.kind)
    sums: RowSums | PairSums
    if isinstance(model, ModelPair):
        sums = PairSums(model, blocks, left_out)
    else:
        sums = RowSums(model, blocks, fit.scaled_params, left_out)
    guarantee = privacy.of_records(noise.guarantee(privacy.adjacency))
    plans = [fit.plan] if against is None else [fit.plan, against.plan]
    designs: list[PublicDesign] = [design] if pair is None else [pair.first.design, pair.second.design]

    def work(rows: Table | None) -> Evaluation:
        random = privacy.random()
        if isinstance(sums, PairSums):
            assert rows is not None
            values = sums.of_table(rows, privacy.record, random)
        elif rows is None:
            assert isinstance(design, ArrayDesign)
            values = sums.of_arrays(fit.plan.family, design, data, auxiliary)
        else:
            assert isinstance(design, DesignSpec)
            values = sums.of_table(design, rows, privacy.record, random)
        evaluation = describe(fit.plan, sums, noise.add(values, random), noise, guarantee)
        tested, models = set(holdouts(rows, "test")), [fit] if against is None else [fit, against]
        evaluation = replace(evaluation, held_out=bool(tested) and all(tested & set(one.holdouts) for one in models))
        unsure = [NOT_KNOWN_HELD_OUT] if tested and not evaluation.held_out else []
        if against is not None:
            evaluation = replace(evaluation, against=model_name(against.plan))
        verdict = [] if against is None else [verdict_note(evaluation)]
        dropped = [f"{note}." for note in dict.fromkeys(note for one in designs for note in _dropped_notes(one))]
        per_unit = [] if inherited is None else [PER_UNIT.format(unit=inherited)]
        weighted = bool(weights_note(blocks))
        lost = left_out_note(evaluation, design, dropped, weighted=weighted)
        dropped = [] if lost else dropped  # which it has
        about_fit = (*noisy_share_note(evaluation, fit), *shrunken_note(evaluation, fit))
        return replace(evaluation, notes=(*verdict, *unsure, *lost, *about_fit, *evaluation.notes, *dropped, *per_unit))

    return Release(
        guarantee,
        table,
        work,
        label=f"evaluation of {' against '.join(plan.title for plan in plans)}",
        method="evaluate",
        columns=columns_read(design) if pair is None else pair.columns,
        formula=fit.plan.formula,
        digest=fit.plan.digest,
        domain=_declared(plans),
    ).run(ledger)


def _inherited_unit(fit: GLMResults, against: GLMResults | None) -> str | None:
    """Whom the models protect, who are protected here too."""
    units = dict.fromkeys(one.plan.guarantee.unit for one in (fit, against) if one is not None)
    persons = [unit for unit in units if unit is not None]
    if len(persons) > 1:
        raise ArgumentError(
            f"unit: the models protect persons by {persons[0]!r} and {persons[1]!r}; name one by {argument('unit')}"
        )
    return persons[0] if persons else None


def _plan_pair(fit: GLMResults, against: GLMResults, metrics: Sequence[str] | None, bins: int) -> ModelPair:
    """What to release of two models; reads no row. ArgumentError if they, or these metrics, are not compared."""
    check_same_response(fit, against)
    models = [plan_evaluation(one, None, bins) for one in (fit, against)]
    losses = shared_losses(*models)
    where = f"with {argument('against')}"
    chosen = losses[:1] if metrics is None else _check_metrics(metrics, losses, where, PRINTED_LOSSES, NO_DIFFERENCE)
    return ModelPair(ComparedModel.of(fit, models[0]), ComparedModel.of(against, models[1]), chosen)


def _not_evaluated(fit: object, name: str = "fit") -> ArgumentError:
    """What to say of anything but a generalized linear model."""
    kind = type(fit).__name__
    if kind in NOT_EVALUATED:
        return ArgumentError(f"{name}: {kind} cannot be evaluated: {NOT_EVALUATED[kind]}")
    if isinstance(fit, (list, tuple, dict)):
        return ArgumentError(
            f"{name} must be one fitted model; got a {kind}: evaluate each by itself, what they cost on one test set "
            f"adds up, or compare two by {argument('against')}"
        )
    return ArgumentError(f"{name} must be a fitted model, as dp.glm returns; got {kind}{part_of(fit)}")


def _dropped_notes(design: PublicDesign) -> tuple[str, ...]:
    """Which rows are left out by a range, as in the fit."""
    if not isinstance(design, DesignSpec):
        return ()
    return dropped_note(design.parsed, design.domain._among(design.columns))


def _declared(plans: Sequence[Plan]) -> Domain:
    """What the fits declared of their columns, or the first: no bought ranges, and nothing that a family implies."""
    declared: dict[str, Any] = {}
    for plan in reversed(plans):
        if isinstance(plan.design, DesignSpec):
            known = plan.design.domain
            chosen = () if plan.screening is None else plan.screening.narrowed
            without = (*plan.bought, *chosen, plan.design.response_name, CUT)
            declared |= {name: known[name] for name in known if name not in without}
    return Domain(declared)


def plan_evaluation(fit: GLMResults, metrics: Sequence[str] | None, bins: int) -> Model:
    """What to release for these metrics; reads no row. ArgumentError if a metric, or `bins`, is not usable."""
    plan, family = fit.plan, fit.plan.family
    if family.name == "hazard":
        raise ArgumentError(
            "fit: hazards are not evaluated: rows are persons, and the model is of pieces of their time"
        )
    # A family from elsewhere has the measures of its kind of response.
    known: dict[str, Sequence[str]] = {"continuous": GAUSSIAN_METRICS, "count": COUNT_METRICS[1:]}
    known |= {"poisson": COUNT_METRICS, "quantile": QUANTILE_METRICS}  # the deviance is Poisson's
    known |= dict.fromkeys(("binomial", "binomial_counts"), PROBABILITY_METRICS) | {"ordinal": LEVEL_METRICS}
    possible = known.get(family.name, known.get(family.response, DECISION_METRICS))
    if family.response == "continuous" and family.link != "identity":
        raise ArgumentError(
            f"fit: numeric predictions are evaluated for the identity link only, and family {family.name!r} has "
            f"the {family.link} link"
        )
    chosen = _check_metrics(metrics, possible, f"for the family {family.name!r}")
    if not is_whole(bins) or not 1 <= bins <= 100:
        raise ArgumentError(f"bins must be a whole number from 1 to 100, got {safe_repr(bins)}")
    ends = linear_range(plan.design, fit.scaled_params)
    if family.name == "ordinal":
        # Rows are located by their predictor at the first cut-point as it was released; points are put in order.
        points = cut_points(plan.design, fit.scaled_params)
        return LevelModel(np.sort(points) - points[0], *ends, chosen)
    if family.response == "binary":
        levels = plan.design.response.levels if isinstance(plan.design, DesignSpec) else None
        return BinaryModel(family, *ends, chosen, int(bins), levels or (0, 1))
    count = family.response == "count"
    middle, scale = plan.design.response_scaling()
    if isinstance(plan.design, DesignSpec):
        low, high = plan.design.response.low, plan.design.response.high
    else:
        low, high = (0.0, float(family.y_max)) if count else (-1.0, 1.0)  # type: ignore[attr-defined]
    return NumericModel(family, 0.0 if count else low, high, count, middle, scale, ends, chosen, int(bins))


def _weighted(blocks: Sequence[Histogram], plan: Plan, auxiliary: AuxiliaryArrays) -> tuple[Histogram, ...]:
    """The histograms on a lattice fine enough for weights, where rows have any."""
    if plan.design.score_ratio == 1.0 and auxiliary.weights is None:
        return tuple(blocks)
    ratio = 1.0 if plan.design.score_ratio is None else plan.design.score_ratio
    return tuple(replace(block, steps=WEIGHTED_STEPS, score_ratio=ratio) for block in blocks)


def offset_note(tables: Tables, plan: Plan) -> list[str]:
    """What the deviance explained is relative to where each row has its own mean without any column."""
    if PRINTED_NAMES["deviance"] not in tables.metrics or not plan.design.offset_bound:
        return []
    return [
        "The deviance explained compares with one mean for all rows, so it includes what the offset or exposure "
        "explains; statsmodels and R compare with one rate."
    ]


def weights_note(blocks: Sequence[Histogram]) -> list[str]:
    """What a reader must know where rows have weights."""
    if all(block.steps == STEPS for block in blocks):
        return []
    ratio = blocks[0].score_ratio
    if ratio < 1:
        return [f"'rows' is the number of trials divided by {1 / ratio:.4g}, the greatest number of trials in a row."]
    return [
        "Rows are weighted: 'rows' is the sum of the weights divided by the greatest weight. sampling assumes the "
        "greatest weight for every row, so it can only be too large."
    ]


def model_name(plan: Plan) -> str:
    """Family and formula."""
    return f"{plan.family.name}, {plan.formula or plan.design.response_name}"


def describe(
    plan: Plan, sums: RowSums | PairSums, released: NDArray[np.int64], noise: IntegerNoise, guarantee: Guarantee
) -> Evaluation:
    """What follows from the released integers: post-processing."""
    blocks = sums.blocks
    ends = np.cumsum([block.size for block in blocks])
    *cells, (left_out,) = np.split(released, ends)
    measured = [block.measured(part, noise) for block, part in zip(blocks, cells, strict=True)]
    tables = sums.model.tables(measured)
    return Evaluation(
        model=model_name(plan),
        rows=max(tables.rows.value, 0.0),
        rows_se=tables.rows.noise_se,
        metrics=tables.frame(),
        calibration=tables.calibration,
        roc=tables.roc,
        residuals=tables.residuals,
        confusion=tables.confusion,
        guarantee=guarantee,
        noise=noise,
        notes=(*offset_note(tables, plan), *tables.notes, *weights_note(blocks)),
        rows_left_out=max(float(left_out) / sums.left_out, 0.0),
        rows_left_out_se=noise.variance**0.5 / sums.left_out,
    )


def left_out_note(evaluation: Evaluation, design: PublicDesign, dropped: Sequence[str], *, weighted: bool) -> list[str]:
    """How many rows, or persons, were left out, where noise hardly explains the number; with what ranges drop."""
    number, error = evaluation.rows_left_out, evaluation.rows_left_out_se
    assert number is not None
    assert error is not None
    if number <= max(CLEARLY_LEFT_OUT * error, 0.5):
        return []
    unit = evaluation.guarantee.unit
    what = "rows" if unit is None else "persons"
    of = "" if weighted else f"of {evaluation.rows + number:,.0f} "  # what is left out has no weight to add
    why = "with a missing cell, an undeclared level, or a term or exposure without a value"
    if dropped:
        why = "with a missing cell, an undeclared level, a term or exposure without a value, or a value outside a range"
    why = why if unit is None else "who have no complete row"
    check = phrase("dp.check", shell="check")
    finds = f": {check} finds the columns."
    if dropped:  # of ranges that a fit bought a check knows nothing
        finds = f". {' '.join(dropped)} If this does not explain the number, {check} finds the columns."
    if not isinstance(design, DesignSpec):
        why, finds = "with a number that is missing or infinite", "."
    return [f"{LEFT_OUT} {number:,.0f} (s.d. {rows_error(error)}) {of}{what}, {why}{finds}"]


def noisy_share_note(evaluation: Evaluation, fit: GLMResults) -> list[str]:
    """Why R2, or the share of the deviance explained, is unknown or uncertain, and what the fit itself has."""
    names = {"r2": "r_squared", PRINTED_NAMES["deviance"]: "deviance_explained"}
    name = next((name for name in names if name in evaluation.metrics.index), None)
    if (
        name is None
        or FEW_ROWS_NOTE in evaluation.notes
        or any(note.startswith(WIDE_RANGE) for note in evaluation.notes)
    ):
        return []
    noise, sampling = evaluation.metrics["noise_se"][name], evaluation.metrics["sampling_se"][name]
    if noise <= max(NOISY_SHARE * sampling, LARGE_NOISE):  # not so if they are unknown
        return []
    narrower = "" if fit.plan.family.response == "binary" else "a narrower declared range of the response or "
    figure = "R2" if name == "r2" else f"the {name}"
    note = f"Most of the uncertainty of {figure} is privacy noise: {narrower}more eps helps."
    if math.isnan(noise) and evaluation.rows > MANY_ROWS * evaluation.rows_se:  # which noise could not hide
        note = f"The response hardly varies in these rows: {figure} is unknown. Is the response coded as in the Domain?"
    if fit.has_errors and names[name] in fit.fitstats.index:
        value, error = fit.fitstats["value"][names[name]], fit.fitstats["std_error"][names[name]]
        if not error >= noise:
            where = phrase("fit.fitstats", shell="the output of show FIT")
            note += f" That of the rows which the model was fitted to is {value:.4f} (std err {error:.4f}), in {where}."
    return [note]


def shrunken_note(evaluation: Evaluation, fit: GLMResults) -> list[str]:
    """That observed shares differ more between bins than predicted ones, where the fit's shrinkage may explain it."""
    table = evaluation.calibration
    if table is None or len(table) < 2:
        return []
    if fit.has_errors:
        errors = fit.bse.to_numpy()
        slopes = fit.bse.index != "Intercept"  # those without an error, which are shrunken most, count as 0 here
        released, unbiased = (
            float(np.abs(one.to_numpy() / errors)[slopes].sum()) for one in (fit.params, fit.debiased)
        )
        if np.isfinite(errors).all() and not unbiased > SHRUNKEN * released:
            return []
    rows = np.maximum(table["rows"].to_numpy(), 0.0)
    predicted, observed, deviations = (table[name].to_numpy() for name in ("predicted", "observed", "std_err"))
    pull = rows * (predicted - np.average(predicted, weights=rows))
    slope, error = float(pull @ observed), float(np.linalg.norm(pull * deviations))
    spread = float(pull @ predicted)
    if slope - 2 * error <= spread:
        return []
    unshrunken = phrase("fit.debiased", shell="the output of show FIT")
    corrected = f"Coefficients with a standard error are not shrunken in {unshrunken}."
    return [
        f"Predictions are shrunken towards the mean: observed shares differ {slope / spread:.2f} times (s.d. "
        f"{error / spread:.2g}) as much between bins as predicted ones. "
        f"{corrected if fit.has_errors else 'More rows or a larger eps shrink less.'}"
    ]


def _check_metrics(
    metrics: Sequence[str] | None,
    known: Sequence[str],
    where: str,
    printed: Mapping[str, str] = PRINTED_NAMES,
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, ...]:
    """The metrics asked for, by their names as arguments; `reasons` why some are not offered."""
    if metrics is None:
        return tuple(known)
    if isinstance(metrics, str):
        raise ArgumentError(f"metrics must be a list of names: metrics=[{safe_repr(metrics)}]")
    arguments = {"auc": "roc", **{name.lower(): argument for argument, name in {**PRINTED_NAMES, **printed}.items()}}
    given = check_names("metrics", metrics, "metrics")
    named = [arguments.get(name.lower(), name.lower()) for name in given]
    chosen = tuple(dict.fromkeys(named))
    if any(name not in known for name in chosen):
        strange, meant = next(pair for pair in zip(given, named, strict=True) if pair[1] not in known)
        near = "roc" if "auc" in strange.lower() and "roc" in known else near_miss(strange, known)
        hint = f": {reasons[meant]}" if meant in reasons else f"; did you mean {near!r}?" if near else ""
        raise ArgumentError(f"metrics must be among {list(known)} {where}, got {safe_repr(list(given))}{hint}")
    return chosen


def _checked_data(
    design: PublicDesign, data: Any, weights: Any, offset: Any, record: Unit, engine: str | None, inherited: str | None
) -> tuple[Table | None, AuxiliaryArrays]:
    """The rows of a model by formula, or weights and offsets of one of arrays; checked by schema and shapes alone."""
    if isinstance(design, DesignSpec):
        if weights is not None or offset is not None:
            raise ArgumentError("weights and offset come from the formula; leave them out")
        table = as_table(data, engine)
        check_columns(table, design.domain, columns_read(design))
        if inherited is not None and not table.count(inherited):
            rows = phrase("pass unit=False", shell="pass --no-unit")
            raise ArgumentError(
                f"unit: the fit protects persons by {inherited!r}, and data has no such column; add it to data, name "
                f"another by {argument('unit')}, or {rows} for a guarantee for single rows"
            )
        check_unit(table, record)
        if design.cut_points and record.column is not None:
            raise ArgumentError("unit is not offered for ordered levels; leave it out")
        return table, AuxiliaryArrays()
    assert isinstance(design, ArrayDesign)
    if record.column is not None:
        raise ArgumentError(
            "unit is the name of a column of a data frame, and a model of plain arrays has none; leave it out"
        )
    if not isinstance(data, tuple) or len(data) != 2:
        raise DataError("data must be the pair (endog, exog) for a model of plain arrays")
    endog, exog = as_endog(data[0]), as_exog(data[1])
    if len(endog) != exog.rows or exog.size != len(design.names):
        raise DataError(
            f"data must be (endog, exog) with the same number of rows, and {len(design.names)} columns in exog"
        )
    if (offset is None) != (design.offset_bound == 0):
        raise ArgumentError("offset must be given exactly if the model was fitted with one")
    if weights is not None and design.weight_bound is None:
        raise ArgumentError("weights are for models that were fitted with weights; leave them out")
    bounds = design.weight_bound or 1.0, design.offset_bound or OFFSET_BOUND
    return None, auxiliary_arrays(weights, offset, *bounds, exog.rows)

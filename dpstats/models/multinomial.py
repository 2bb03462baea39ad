"""Several classes: what `dpstats.glm` and `dpstats.plan` do for ``family="multinomial"`` (docs/proofs/multinomial)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_flag, check_row_count, check_type
from dpstats.call import (
    DELTA_LEAST,
    ChargeKeywords,
    DomainLike,
    PrivacyParameters,
    RequestKeywords,
    RowKeywords,
    check_privacy,
    split_kwargs,
)
from dpstats.data import Memory, Table, as_rows, as_table
from dpstats.data.passes import concatenate, single_blas_thread
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, FormulaError
from dpstats.families.multinomial import Multinomial
from dpstats.formula.design import DesignSpec, requested_spec
from dpstats.formula.faults import Facts, possible_faults
from dpstats.formula.parse import expand_dot, parse
from dpstats.formula.submodels import SEED
from dpstats.formula.syntax import add_terms
from dpstats.inference import Inference, KnownInformation, Projection
from dpstats.inference.forecast_identification import forecast_information
from dpstats.ledger import as_ledger
from dpstats.mechanisms.calibration import NoiseBudget
from dpstats.mechanisms.design import constant_places
from dpstats.mechanisms.multinomial import (
    PROOF,
    ClassesLaw,
    ReleasedClasses,
    class_basis,
    classes_inference,
    classes_law,
    known_forms,
    plan_classes,
)
from dpstats.mechanisms.options import Options
from dpstats.models.forecast import Forecast
from dpstats.models.glm import count_first
from dpstats.models.population import ROWS_EACH, USUAL, ColumnPrior, KnownColumns, made_up_rows
from dpstats.models.release import Release, check_unit, person_rows
from dpstats.models.sources import known_facts, release_counts
from dpstats.models.supposed_rows import DRAWS, PUBLIC_GRADIENT, PUBLIC_RIDGE, PUBLIC_ROWS, ROWS, supposed
from dpstats.plan.row_counts import CHECK_SHARE, LEAST_EPS, RowCounts
from dpstats.privacy.guarantee import check_delta, check_planned
from dpstats.privacy.information import MatrixNoise
from dpstats.privacy.randomness import random_source
from dpstats.quiet import quiet
from dpstats.results.multinomial import MultinomialPlan, MultinomialResults, errors_offered
from dpstats.solvers.classes import ClassesObjective
from dpstats.solvers.newton import minimize
from dpstats.wording import argument

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_PAID, _COUNTED = ("inference", "information_share"), ("check_share", "on_mismatch")

OFFERED = ("curvature", "radius", "release_share", "rows_at_most", "unit", "unit_weight", "max_rows", *_COUNTED, *_PAID)
"""Options of a fit that a model of several classes has too."""


def plan_multinomial(formula: str, domain: DomainLike, eps: float, arguments: Mapping[str, Any]) -> MultinomialPlan:
    """The plan of a model of several classes, from public facts; `arguments` as `dpstats.plan` takes them."""
    rows, settings = split_kwargs(arguments, RowKeywords)
    privacy, options = _checked(eps, settings)
    for name in ("offset", "exposure"):
        if rows.get(name) is not None:
            raise _not_offered(name, ", which has a linear predictor for each class")
    declared = Domain.coerce(domain)
    text = expand_dot(add_terms(formula, **rows), declared)
    parsed, person = parse(text), privacy.record.column
    if parsed.offsets or parsed.failures is not None:
        raise _not_offered("formula: an offset or a count of failures")
    if person is not None and person in parsed.columns:
        raise ArgumentError(
            f"unit: {person!r} identifies persons and must not be in the formula; leave it out of one of them"
        )
    # The number of classes follows from the design; a family of any number says what kind of response it has.
    design = requested_spec(text, declared, family=Multinomial(3))
    assert design.response.levels is not None
    if re.match(r"(C|factor)\(.*,", design.response_name):
        raise FormulaError(
            f"formula: {design.response_name} does not set what classes are compared with, the first level in "
            "the Domain: declare that level first, and name the column alone"
        )
    counts = _planned_counts(privacy, options, design)
    left = privacy.row_eps if counts is None else privacy.record.each(counts.rest)
    last = options.release_share * left
    budget = NoiseBudget(
        eps=left - last,
        delta=0.0,
        final_eps=last,
        adjacency=privacy.adjacency,
        curvature=options.curvature,
        radius=options.radius,
        rows_at_most=options.rows_at_most,
        shared=privacy.record.shared,
    )
    share = _information_share(options)
    if share is not None and (design.weights is not None or person is not None):
        raise ArgumentError(
            f"inference of several classes is for rows that count alike: leave weights and unit out, or pass "
            f"{argument('inference', None)}"
        )
    stage = plan_classes(design, len(design.response.levels), budget, share)
    call = ClassesCall(formula, Domain.coerce(domain), eps, arguments, privacy, options.on_mismatch)
    return MultinomialPlan(design, stage, privacy.guarantee(PROOF), call, counts)


def _planned_counts(privacy: PrivacyParameters, options: Options, design: DesignSpec) -> RowCounts | None:
    """What counts the rows before the fit, or persons and one row of each; None where the call says so."""
    share, persons = options.check_share, privacy.record.column is not None
    if share is None:
        share = 0.0 if privacy.eps < LEAST_EPS else CHECK_SHARE
    faults = possible_faults(_facts(design), design, design.parsed)
    return RowCounts.planned(privacy.eps, share, privacy.adjacency, faults, persons=persons) if share else None


def _facts(design: DesignSpec) -> Facts:
    return known_facts(design, (), Multinomial(3))


def fit_multinomial(formula: str, data: object, eps: float, arguments: Mapping[str, Any]) -> MultinomialResults:
    """The fit of a model of several classes; `arguments` as `dpstats.glm` takes them."""
    rest = dict(arguments)
    domain, engine = rest.pop("domain", None), rest.pop("engine", None)
    charge, settings = split_kwargs(rest, ChargeKeywords)
    if domain is None and (ledger := as_ledger(charge.get("ledger"))) is not None:
        charge["ledger"], domain = ledger, ledger.domain
    table = as_table(data, engine)
    return plan_multinomial(formula, domain, eps, settings).fit(table, **charge)


@dataclass(frozen=True)
class ClassesCall:
    """The call that a plan of several classes stands for."""

    formula: str
    domain: Domain
    eps: float
    arguments: Mapping[str, Any]
    privacy: PrivacyParameters
    on_mismatch: str

    @property
    def unread(self) -> frozenset[str]:
        """Columns that are declared and not read."""
        return frozenset(self.domain) - set(self.plan().design.domain)

    def plan(self) -> MultinomialPlan:
        """The plan."""
        return plan_multinomial(self.formula, self.domain, self.eps, self.arguments)

    def at(self, eps: float) -> ClassesCall:
        """The same at another budget."""
        return replace(self, eps=eps)

    def fit(self, data: object, engine: str | None, **charge: Any) -> MultinomialResults:
        """The fit that was planned."""
        return _fit(self.plan(), self.privacy, self.on_mismatch, data, engine=engine, **charge)

    def made_up(self, plan: MultinomialPlan, n: int, seed: int, typical: object, like: object) -> pd.DataFrame:
        """Rows that are made up by the Domain; see `MultinomialPlan.made_up`."""
        known, count = KnownColumns.from_arguments(plan.design, typical, like), check_row_count(n, 10**7)
        random_source(seed)  # refuses what is no seed
        random = np.random.default_rng(seed)
        table = pd.DataFrame(made_up_rows(plan.design, _family(plan), known, count, USUAL, random))
        person = self.privacy.record.column
        return table if person is None else table.assign(**{person: np.arange(n) // ROWS_EACH})

    def simulate(self, plan: MultinomialPlan, n: int, seed: int, typical: object, like: object) -> MultinomialResults:
        """The fit of such rows."""
        return self.fit(self.made_up(plan, n, seed, typical, like), None, seed=seed)

    def forecast(
        self, plan: MultinomialPlan, residual_sd: float | None, typical: object, like: object
    ) -> ClassesForecast:
        """What errors fits are likely to show, by their numbers of rows."""
        _check_errors(plan)
        if residual_sd is not None:
            raise ArgumentError("residual_sd is for numeric responses; classes have no residual: leave it out")
        known = KnownColumns.from_arguments(plan.design, typical, like)
        priors = supposed(plan.design, known, response=True)
        with quiet():
            if typical is None and like is None:
                means = {name: declared_means(plan.design, _family(plan), prior) for name, prior in priors.items()}
            else:
                means = {name: class_means(plan.design, _family(plan), known, prior) for name, prior in priors.items()}
            return ClassesForecast(plan, means)


def _family(plan: MultinomialPlan) -> Multinomial:
    return Multinomial(len(plan.classes))


def _check_errors(plan: MultinomialPlan) -> None:
    """Refuse plans that buy no errors."""
    if plan.stage.information is None:
        raise ArgumentError(f"plan: {errors_offered(plan)}")


class ClassMeans(NamedTuple):
    """What a row adds in the mean, and coefficients of one draw."""

    coef: Matrix  # of each class in model units, shape (K, p), of sum zero over the classes
    information: Matrix  # in the coordinates of `class_basis`, those of a column one after the other


@lru_cache(maxsize=12)
def declared_means(design: DesignSpec, family: Multinomial, prior: ColumnPrior) -> ClassMeans:
    """`class_means` by the Domain alone: the same for all numbers of rows and budgets that are asked about."""
    return class_means(design, family, KnownColumns.from_arguments(design, None, None), prior)


def class_means(design: DesignSpec, family: Multinomial, known: KnownColumns, prior: ColumnPrior) -> ClassMeans:
    """Of rows that are made up, a few draws of coefficients, or of those of `like` with their response."""
    random, whole = np.random.default_rng(SEED), known.has_response(design)
    size = min(len(known.like), PUBLIC_ROWS) if known.like is not None and whole else ROWS
    means = []
    for _ in range(1 if whole else DRAWS):
        table = pd.DataFrame(made_up_rows(design, family, known, size, prior, random))
        block = concatenate(design.blocks(table))
        count, columns = block.exog.shape
        if not count:
            raise ArgumentError("like: no row is complete; check its numbers and levels against the domain")
        ridge = np.full(family.classes * columns, PUBLIC_RIDGE * count)
        objective = ClassesObjective(family, as_rows([block]), ridge, np.zeros(len(ridge)), 1.0)
        coef = np.asarray(minimize(objective, PUBLIC_GRADIENT * count), dtype=np.float64).reshape(family.classes, -1)
        shares, basis = family.mean(block.exog @ coef.T), class_basis(family.classes)
        bends = (
            np.einsum("ka,nk,kb->nab", basis, shares, basis) - (inner := shares @ basis)[:, :, None] * inner[:, None]
        )
        information = np.einsum("ni,nj,nab->iajb", block.exog, block.exog, bends, optimize=True) / count
        means.append(ClassMeans(coef - coef.mean(axis=0), information.reshape((columns * (family.classes - 1),) * 2)))
    return ClassMeans(means[0].coef, np.mean([one.information for one in means], axis=0))


@dataclass(frozen=True, eq=False)
class ClassesForecast(Forecast):
    """Standard errors of fits of several classes by what is supposed of their rows, for any number of them."""

    plan: MultinomialPlan  # type: ignore[assignment]
    populations: Mapping[str, ClassMeans]  # type: ignore[assignment]

    @property
    def assumption(self) -> str:
        return ""

    def _new_projection(self) -> Projection:
        return Projection.of(classes_law(self.plan.stage), known_forms(self.plan.design, self.plan.stage.classes))

    def _new_noise_law(self) -> ClassesLaw:  # type: ignore[override]
        return ClassesLaw(self.plan.stage.noise)

    def _matrix_noise(self, name: str, n: float) -> MatrixNoise:
        assert self.plan.stage.information is not None
        return self.plan.stage.information

    def at(self, plan: Any) -> ClassesForecast:
        check_type("plan", plan, MultinomialPlan, "a plan of the same call, as plan.at(eps) makes it")
        _check_errors(plan)
        return replace(self, plan=plan, computed={})

    def _row_errors(self, name: str) -> Vector:
        inverse, basis = np.linalg.pinv(self.populations[name].information), class_basis(self.plan.stage.classes)
        units, _ = self.plan.design.back_transform()
        rows = np.vstack([np.kron(units, one - basis[0]) for one in basis[1:]])
        return np.asarray(np.sqrt(np.maximum(np.sum(rows @ inverse * rows, axis=1), 0.0)))

    def free(self, n: float) -> bool:
        return False

    def _known(self, matrix: Matrix, *, noisy: bool) -> KnownInformation:
        return forecast_information(matrix, self._projection, noisy=noisy, constants=self._constants)

    @property
    def _constants(self) -> tuple[int, ...]:
        return constant_places(self.plan.design, self.plan.stage.classes - 1)

    def _inferred(self, name: str, n: float, noise: Matrix | None = None, moved: Vector | None = None) -> Inference:
        stage, means = self.plan.stage, self.populations[name]
        matrix, basis = n * means.information, class_basis(stage.classes)
        start = matrix @ (means.coef.T @ basis).ravel()
        curvature = np.diag(np.repeat(stage.curvature, stage.classes - 1))
        params = basis @ np.linalg.solve(matrix + curvature, start).reshape(-1, stage.classes - 1).T
        matrix = matrix if noise is None else matrix + noise
        known = partial(
            forecast_information, matrix, self._projection, (), noisy=noise is not None, constants=self._constants
        )
        released = ReleasedClasses(params, matrix)
        return classes_inference(stage, self.plan.design, released, known, self._noise_law)  # type: ignore[arg-type]


INFORMATION_SHARE = 0.4
"""Of eps, for the information where standard errors are paid for (`python -m benchmarks.models.multinomial share`)."""


def _information_share(options: Options) -> float | None:
    """What part of eps buys standard errors; None for none, as where they are to be free."""
    if options.inference in (None, "auto"):
        if options.information_share is not None:
            paid = argument("inference", True)
            raise ArgumentError(
                f"information_share needs standard errors that are paid for: pass {paid}, or leave it out"
            )
        return None
    if options.inference == "robust":
        raise _not_offered(argument("inference", "robust"), ", whose errors take the model for granted")
    return INFORMATION_SHARE if options.information_share is None else options.information_share


def _not_offered(name: str, why: str = "") -> ArgumentError:
    """What to say of an argument that a model of several classes has not."""
    return ArgumentError(f"{name} is not offered for {argument('family', 'multinomial')}{why}; leave it out")


def _checked(eps: float, settings: Mapping[str, Any]) -> tuple[PrivacyParameters, Options]:
    """What the call has to guarantee, and its options; ArgumentError for what a model of several classes has not."""
    named, given = split_kwargs(settings, RequestKeywords)
    given = {**{name: value for name, value in named.items() if name in Options.__dataclass_fields__}, **given}
    options = Options.from_mapping(given)
    check_planned(eps)
    delta = named.get("delta", 0.0)
    privacy = check_privacy(
        eps,
        delta,
        adjacency=named.get("adjacency", "add_remove"),
        seed=named.get("seed"),
        unit=options.unit,
        unit_weight=options.unit_weight,
        max_rows=options.max_rows,
    )
    check_delta(privacy.delta, DELTA_LEAST)
    check_flag("allow_uncertified", named.get("allow_uncertified", False))
    for name in ("penalty", "alpha"):
        if named.get(name) is not None:
            raise _not_offered(name, ", whose coefficients have a quadratic term alone")
    if named.get("method", "auto") not in ("auto", "napp", "objective"):
        raise _not_offered("method", ", which adds its noise to the objective")
    for option in fields(Options):
        if option.name in given and option.name not in OFFERED and given[option.name] not in (option.default, None):
            raise _not_offered(option.name)
    # Gaussian noise is not proved for several classes: a delta stays unspent.
    return replace(privacy, delta=0.0), options


def _fit(
    plan: MultinomialPlan,
    privacy: PrivacyParameters,
    on_mismatch: str,
    data: object,
    *,
    ledger: Any = None,
    seed: int | None = None,
    memory: float | None = None,
    engine: str | None = None,
    label: str | None = None,
    analyst: str | None = None,
) -> MultinomialResults:
    """Charge the plan and carry it out; a seed takes its certificate."""
    if seed is not None:
        check_privacy(privacy.eps, adjacency=privacy.adjacency, seed=seed)
        privacy = replace(privacy, seed=seed)
        plan = replace(plan, guarantee=privacy.guarantee(PROOF))
    table, record, design = as_table(data, engine), privacy.record, plan.design
    design.check_schema(table)
    check_unit(table, record)
    random, title, counts = privacy.random(), f"multinomial logit of {len(plan.classes)} classes", plan.counts
    signed, opened = {"analyst": analyst, "label": label}, as_ledger(ledger)
    release = partial(
        Release,
        data=table,
        columns=design.columns,
        formula=design.formula,
        digest=lambda: hashlib.sha256(json.dumps(plan.to_dict(), sort_keys=True).encode()).hexdigest(),
        domain=design.domain,
        memory=None if memory is None else Memory(memory),
    )
    rest = plan.guarantee
    if counts is not None:
        counted, rest = counts.guarantees(plan.guarantee)
        count = partial(release_counts, counts, design, _facts(design), design.used_rows, random=random, record=record)
        counting = release(
            counted, work=lambda rows: (count(rows), None), label=f"rows of a {title}", method="row counts"
        )
        counts, _ = count_first(counting, [counted, rest], opened, on_mismatch, (), **signed)

    def work(rows: Table) -> MultinomialResults:
        with quiet():
            kept = person_rows(design, rows, record, random).persist()
        with single_blas_thread(len(design.names)):
            released = plan.stage.release(kept, random)
        public = privacy.adjacency == "replace_one" and record.column is None
        shown = replace(plan, call=None, counts=counts)
        return MultinomialResults(shown, released.params, rows.rows if public else None, released.information)

    return release(rest, work=work, label=title, method="multinomial").run(opened, **signed)

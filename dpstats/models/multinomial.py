"""Several classes: what `dpstats.glm` and `dpstats.plan` do for ``family="multinomial"`` (docs/proofs/multinomial)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

from dpstats.arguments import check_flag
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
from dpstats.data import Memory, Table, as_table
from dpstats.data.passes import single_blas_thread
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, FormulaError
from dpstats.families.multinomial import Multinomial
from dpstats.formula.design import design_spec
from dpstats.formula.parse import expand_dot, parse
from dpstats.formula.syntax import add_terms
from dpstats.ledger import as_ledger
from dpstats.mechanisms.calibration import NoiseBudget
from dpstats.mechanisms.multinomial import PROOF, plan_classes
from dpstats.mechanisms.options import Options
from dpstats.models.release import Release, check_unit, person_rows
from dpstats.privacy.guarantee import check_delta, check_planned
from dpstats.quiet import quiet
from dpstats.results.multinomial import MultinomialPlan, MultinomialResults
from dpstats.wording import argument

_PAID = ("inference", "information_share")

OFFERED = ("curvature", "radius", "release_share", "rows_at_most", "unit", "unit_weight", "max_rows", *_PAID)
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
    design = design_spec(text, declared, family=Multinomial(3))
    assert design.response.levels is not None
    if re.match(r"(C|factor)\(.*,", design.response_name):
        raise FormulaError(
            f"formula: {design.response_name} does not set what classes are compared with, the first level in "
            "the Domain: declare that level first, and name the column alone"
        )
    last = options.release_share * privacy.row_eps
    budget = NoiseBudget(
        eps=privacy.row_eps - last,
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
    plan = MultinomialPlan(design, stage, privacy.guarantee(PROOF))
    return replace(plan, call=partial(_fit, plan, privacy))


def fit_multinomial(formula: str, data: object, eps: float, arguments: Mapping[str, Any]) -> MultinomialResults:
    """The fit of a model of several classes; `arguments` as `dpstats.glm` takes them."""
    rest = dict(arguments)
    domain, engine = rest.pop("domain", None), rest.pop("engine", None)
    charge, settings = split_kwargs(rest, ChargeKeywords)
    if domain is None and (ledger := as_ledger(charge.get("ledger"))) is not None:
        charge["ledger"], domain = ledger, ledger.domain
    table = as_table(data, engine)
    plan = plan_multinomial(formula, domain, eps, settings)
    return plan.fit(table, **charge)


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
    random = privacy.random()

    def work(rows: Table) -> MultinomialResults:
        with quiet():
            kept = person_rows(design, rows, record, random).persist()
        with single_blas_thread(len(design.names)):
            released = plan.stage.release(kept, random)
        public = privacy.adjacency == "replace_one" and record.column is None
        shown = replace(plan, call=None)
        return MultinomialResults(shown, released.params, rows.rows if public else None, released.information)

    return Release(
        plan.guarantee,
        table,
        work,
        label=f"multinomial logit of {len(plan.classes)} classes",
        method="multinomial",
        columns=design.columns,
        formula=design.formula,
        digest=lambda: hashlib.sha256(json.dumps(plan.to_dict(), sort_keys=True).encode()).hexdigest(),
        domain=design.domain,
        memory=None if memory is None else Memory(memory),
    ).run(ledger, analyst=analyst, label=label)

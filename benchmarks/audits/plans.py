"""Random plans carried out: whatever is accepted must end in a result, since the budget is spent by then.

    python -m benchmarks.audits.plans [plans] [--from SEED] [--kept FILE]

A plan is drawn from formula, Domain and options: factors (of one level too), numbers, interactions, splines, ranges
that are tiny, huge or far from zero; families, penalties, methods, kinds of inference, budgets of 1e-12 to 1e12. If it
is accepted it is printed, stored and loaded, and carried out on 0, 1, 2 and 50 rows that are made up from the Domain,
with cells that are missing or out of range; each result is printed, saved and loaded. Every error, every warning,
every coefficient that is not a number and every plan without an end is a finding, as is an error of `dp.plan` that is
none of dpstats'.

With ``--kept`` each plan's outcome is a line of a file, and plans that have one are not carried out again. One plan:

    python -m benchmarks.audits.plans 1 --from 4711
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpstats as dp
from dpstats.errors import DPStatsError, FormulaError, NotReleasedError
from dpstats.families import Gaussian
from dpstats.formula.design import design_spec, requested_spec

ROWS = (0, 1, 2, 50)
"""Numbers of rows that every plan is carried out on."""

LIMIT = 300
"""Seconds after which a plan is taken for one that does not end."""

RANGES: tuple[tuple[float, float], ...] = (
    (0, 1), (-1, 1), (0, 10), (-5, 20), (17, 90), (1e-3, 2e-3), (1000, 1001), (0, 1e6), (-1e12, 1e12), (1e15, 1e15 + 2),
    (0, 1e-9), (0, 1e-40), (0, 1e-140), (0, 1e-160), (-1e-200, 1e-200), (0, 1e-280), (0, 5e-324), (-800, -744),
    (1e-170, 2e-162), (0, 1e40), (-1e99, 1e99), (0, 1e160), (0, 1e300), (1, 1 + 1e-15),
)  # fmt: skip
"""Of numbers; the first six are drawn two times in three."""

LEVELS: tuple[list[Any], ...] = (["a"], [1], ["a", "b"], [0, 1], ["a", "b", "c"], [1, 2, 3, 4], list("abcdefgh"))

NUMBERS = (
    "x", "z", "I(x**2)", "x + I(x**2)", "np.exp(x)", "np.log(x)", "np.sqrt(x)", "poly(x, 2)", "poly(x, 3)",
    "bs(x, df=4)", "bs(x, df=5, degree=2)", "cr(x, df=3, constraints='center')", "cc(x, df=3, constraints='center')",
    "center(x)", "standardize(x)", "I(x > 0.5)", "x:z", "x*z",
    "te(cr(x, df=3), cr(z, df=3), constraints='center')", "rff(x, gamma=1.0, D=6)", "cut(x, [0, 0.5, 1])",
    "I(1 / x)", "I(0 * x)", "np.exp(-x)",
)  # fmt: skip
FACTORS = (
    "g", "h", "C(g, Sum)", "C(g, Helmert)", "g:h", "g*h", "x:g", "x*g", "0 + g", "0 + g:h", "bs(x, df=4):g",
    "C(h, Poly)", "0 + x", "0 + x:g", "x:g:h", "g/x",
)  # fmt: skip
CONTINUOUS = ("y", "y", "y", "y", "I(y**2)", "np.log(y)", "I(2 * y - 1)")
FAMILIES = ("gaussian", "binomial", "poisson", "negative_binomial", "huber_svm", "smooth_svm")
METHODS = ("napp", "napp", "napp", "objective", "output", "statistics", "posterior")
STRENGTHS = (1e-12, 1e-3, 0.1, 1.0, 30.0, 1e4, 1e12)


@dataclass(frozen=True)
class Case:
    """A plan to be asked for.

    Attributes
    ----------
    formula : str or None
        None for plain arrays.
    domain : dict
        Declared columns; `hidden` has the ranges of those whose range is to be bought.
    arguments : dict
        Of `dp.plan`, or of `GLM.plan`.
    array : dict
        Of `GLM`, for plain arrays.
    """

    formula: str | None
    domain: Mapping[str, Any]
    arguments: Mapping[str, Any]
    hidden: Mapping[str, Any] = field(default_factory=dict)
    array: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        if self.formula is None:
            return f"GLM(..., {self.array}), {given}"
        return f"dp.plan({self.formula!r}, {dict(self.domain)!r}, {given}), undeclared: {dict(self.hidden)!r}"


class Draws:
    """A random generator that picks among things."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([seed, 20_270])

    def one(self, of: Sequence[Any]) -> Any:
        """One of some things, each as likely."""
        return of[int(self.random.integers(len(of)))]

    def chance(self, share: float) -> bool:
        """True with a probability."""
        return bool(self.random.random() < share)

    def power(self, low: float, high: float) -> float:
        """A number between two, its logarithm uniform."""
        return float(f"{np.exp(self.random.uniform(np.log(low), np.log(high))):.6g}")


def _redundant(terms: Sequence[str], domain: Mapping[str, Any]) -> bool:
    """Whether a formula that has a design is refused for columns that depend on each other."""
    try:
        design_spec(formula := f"out ~ {' + '.join(terms)}", declared := {**domain, "out": (0, 1)}, family=Gaussian())
    except DPStatsError:
        return False
    try:
        requested_spec(formula, declared, family=Gaussian())
    except FormulaError:
        return True
    return False


def drawn(seed: int) -> Case:
    """The plan of a seed."""
    draws = Draws(seed)
    family = draws.one(FAMILIES)
    if draws.chance(0.12):
        return _of_arrays(draws, family)
    domain: dict[str, Any] = {name: _range(draws) for name in ("x", "z")}
    domain |= {name: draws.one(LEVELS) for name in ("g", "h")}
    response = _response(draws, family, domain)
    terms = [draws.one(NUMBERS if draws.chance(0.6) else FACTORS) for _ in range(draws.one((1, 1, 2, 2, 3)))]
    while _redundant(terms, domain):
        terms = terms[:-1] or ["x"]
    arguments = _arguments(draws, family)
    if draws.chance(0.1):
        domain["w"], arguments["weights"] = draws.one(((0, 1), (0, 1e4), (0, 1e-30), (1, 2))), "w"
    if draws.chance(0.1):
        domain["o"], arguments["offset"] = draws.one(((0, 1), (-3, 3), (-200, 200), (5, 5.5), (0, 1e20))), "o"
    if draws.chance(0.05):
        arguments["subset"] = draws.one(("x > 0", "z < 0.5", "x > 2 * z"))
    if draws.chance(0.08):
        arguments |= {"unit": "id"} | draws.one(({}, {"max_rows": 3}, {"unit_weight": "equal"}))
    hidden = {name: domain.pop(name) for name in ("x", "z", "y") if name in domain and draws.chance(0.05)}
    return Case(f"{response} ~ {' + '.join(terms)}", domain, arguments, hidden)


def _range(draws: Draws) -> tuple[float, float]:
    return draws.one(RANGES[:6] if draws.chance(0.67) else RANGES)


def _response(draws: Draws, family: str, domain: dict[str, Any]) -> str:
    """The left-hand side, its columns declared."""
    if family == "gaussian":
        domain["y"] = _range(draws)
        return str(draws.one(CONTINUOUS))
    if family in ("poisson", "negative_binomial"):
        domain["y"] = draws.one(((0, 10), (0, 1), (0, 50), (3, 40), (0, 1e5), (0, 1e-9), (0, 1e40)))
        return "y"
    if family == "binomial" and draws.chance(0.15):
        domain |= {"s": draws.one(((0, 10), (0, 1), (0, 1e30))), "f": draws.one(((0, 10), (0, 1e-30)))}
        return "s + f"
    domain["y"] = draws.one(((0, 1), ["no", "yes"], [0, 1]))
    return "y"


def _arguments(draws: Draws, family: str) -> dict[str, Any]:
    """Family, budget, method, penalty and options; each of them left out more often than not."""
    rare: Callable[[float], bool] = draws.chance
    given: dict[str, Any] = {"eps": draws.power(0.02, 50) if rare(0.8) else draws.power(1e-12, 1e12)}
    given["family"] = _family(draws, family)
    if rare(0.4):
        given["delta"] = draws.one((1e-6, 1e-9, 1e-3, 0.5, 1e-100))
    if rare(0.5):
        given["method"] = draws.one(METHODS)
    if rare(0.25):
        given["adjacency"] = "replace_one"
    if rare(0.4):
        given |= _penalty(draws)
    if rare(0.5):
        given["inference"] = draws.one((True, "model", "robust", None))
    options: dict[str, Sequence[Any]] = {
        "curvature": (1e-9, 0.01, 1.0, 30.0, 1e4, 1e12),
        "radius": (1e-6, 0.1, 1.0, 100.0),
        "release_share": (1e-9, 0.2, 0.9),
        "information_share": (0.01, 0.5, 0.9999),
        "spread_share": (0.001, 0.5),
        "rows_guess": (10, 1e9),
        "rows_at_most": (1, 1e4, 1e10),
        "noise": ("laplace", "gaussian" if "delta" in given else None),
        "stages": (2, "auto"),
        "selection": ("auto", "noise_aware"),
        "refit_share": (0.1, 0.5, 0.99),
        "retrieval": ("return", None),
        "screen": (1, 2, 3),
        "split": ("rows",),
        "response": ("bought", "declared"),
        "penalty_weights": ({"x": 0}, {"Intercept": 1}, {"x": 1e9}),
        "first_stage_share": (0.01, 0.9),
        "range_share": (0.01, 0.9),
    }
    given |= {name: draws.one(values) for name, values in options.items() if rare(0.05)}
    if given.get("split") and rare(0.8):
        given |= {"screen": 1} if rare(0.5) else {"penalty": dp.penalties.Lasso(1.0), "refit_share": 0.5}
    return given


def _family(draws: Draws, name: str) -> Any:
    """A family by its name, or with caps."""
    if draws.chance(0.8):
        return name
    cap = draws.one((1e-6, 0.1, 1.0, 5.0, 1e6))
    made: dict[str, Callable[[], Any]] = {
        "gaussian": lambda: dp.families.Gaussian(residual_cap=cap),
        "poisson": lambda: dp.families.Poisson(mean_cap=cap),
        "negative_binomial": lambda: dp.families.NegativeBinomial(alpha=cap),
        "huber_svm": lambda: dp.families.HuberSVM(draws.one((1e-6, 0.5, 2.0))),
        "smooth_svm": lambda: dp.families.SmoothSVM(draws.one((1e-6, 0.5, 2.0))),
    }
    try:
        return made.get(name, lambda: name)()
    except DPStatsError:
        return name


def _penalty(draws: Draws) -> dict[str, Any]:
    """A penalty, most often with the stages that it needs."""
    alpha, penalties = draws.one(STRENGTHS), dp.penalties
    kinds: Sequence[Callable[[], Any]] = (
        lambda: penalties.Ridge(alpha),
        lambda: penalties.Lasso(alpha),
        lambda: penalties.ElasticNet(alpha, draws.one((0.0, 0.1, 0.5, 1.0))),
        lambda: penalties.Bridge(alpha, draws.one((0.2, 0.5, 1.0, 1.5, 2.0))),
        lambda: penalties.L0(alpha),
        lambda: penalties.SCAD(alpha),
    )
    try:
        penalty = draws.one(kinds)()
    except DPStatsError:
        return {"penalty": "ridge", "alpha": 1.0}
    more = {"stages": "auto"} if draws.chance(0.8) else {}
    return {"penalty": penalty, **more, **({"refit_share": 0.3} if draws.chance(0.2) else {})}


def _of_arrays(draws: Draws, family: str) -> Case:
    """A model of plain arrays."""
    norms = (1.0, 3.0, 1e-40, 1e40, {"l2": 1.0, "l1": 2.0}, {"linf": 1.0}, {"l1": 1e-6})
    array = {"columns": draws.one((1, 2, 5, 12)), "row_norm": draws.one(norms)}
    if draws.chance(0.1):
        array["weight_bound"] = draws.one((1.0, 1e-20, 1e20))
    if draws.chance(0.1):
        array["offset_bound"] = draws.one((0.1, 100.0, 1e20))
    arguments = _arguments(draws, family)
    arguments.pop("penalty_weights", None)
    if family in ("poisson", "negative_binomial") and isinstance(arguments["family"], str):
        arguments["family"] = {"poisson": dp.families.Poisson, "negative_binomial": dp.families.NegativeBinomial}[
            family
        ](y_max=10.0)
    return Case(None, {}, arguments, {}, array)


def made_up(facts: Mapping[str, Any], rows: int, seed: int) -> dict[str, Any]:
    """Columns within declared facts, and now and then beyond them or missing, as a mapping to arrays."""
    random = np.random.default_rng([seed, rows])
    table: dict[str, Any] = {}
    for name, fact in facts.items():
        if isinstance(fact, list):
            cells = [fact[code] for code in random.integers(len(fact), size=rows)]
            table[name] = np.array([None if random.random() < 0.03 else cell for cell in cells], dtype=object)
            continue
        low, high = fact
        share = random.choice([-0.5, 0.0, 1.0, 1.5], size=rows)
        share = np.where(random.random(rows) < 0.8, random.random(rows), share)
        with np.errstate(all="ignore"):
            values = low * (1 - share) + high * share
        if name in ("y", "s", "f") and high >= 1:
            values = np.rint(values)
        table[name] = np.where(random.random(rows) < 0.03, np.nan, values)
    table["id"] = np.array([f"p{number // 3}" for number in range(rows)], dtype=object)
    return table


@dataclass(frozen=True)
class Outcome:
    """What became of a plan: "refused", "carried out", or a fault with what was said and where."""

    seed: int
    kind: str
    said: str = ""
    seconds: float = 0.0

    @property
    def faulty(self) -> bool:
        """Whether it is a finding."""
        return self.kind not in ("refused", "carried out")


def carried_out(case: Case, seed: int, folder: Path, rows: Sequence[int] = ROWS) -> Outcome:
    """Ask for a plan and, if it is accepted, carry it out on so many rows, which a seed makes up; files in a folder."""
    start, kind, said = time.perf_counter(), "", ""
    before = signal.signal(signal.SIGALRM, _stop)
    signal.alarm(LIMIT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "newdata: ")  # made-up cells are beyond the declared ranges on purpose
            warnings.filterwarnings("ignore", "means (above|are at most) ")  # so may be the means of such cells
            for kind, work in _steps(case, seed, folder, rows):  # noqa: B007
                work()
    except _Refused as refused:
        kind, said = "refused", str(refused)
    except Exception:
        said = traceback.format_exc()
    else:
        kind = "carried out"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return Outcome(seed, kind, said, time.perf_counter() - start)


def _stop(*_: object) -> None:
    raise TimeoutError(f"not done after {LIMIT} s")


class _Refused(Exception):
    """The plan was not accepted."""


def _steps(case: Case, seed: int, folder: Path, numbers: Sequence[int]) -> Iterator[tuple[str, Callable[[], None]]]:
    """What is done, one after the other, each with the name of its failure."""
    state: dict[str, Any] = {}

    def plan() -> None:
        try:
            state["plan"] = _plan(case)
        except DPStatsError as error:
            raise _Refused(str(error)) from error

    yield "plan fails", plan
    yield "plan cannot be printed", lambda: _print_plan(state["plan"])
    for rows in numbers:

        def fit(rows: int = rows) -> None:
            # Every other plan with the system's noise: seeded noise takes other roads here and there.
            state["fit"] = _fit(case, rows, seed, None if seed % 2 else seed)

        yield f"fit of {rows} rows fails", fit
        yield f"fit of {rows} rows cannot be shown", lambda: _show(state["fit"], folder)
    yield f"fit of {numbers[-1]} rows cannot be shown", lambda: _show_all(state["fit"], case, seed, folder)


def _plan(case: Case) -> Any:
    if case.formula is None:
        model, arguments = _model(case, 3, 1)
        return model.plan(**arguments)
    if case.hidden:
        rows = made_up({**case.domain, **case.hidden}, 3, 1)
        return _frame_model(case, rows)[0].plan(**_frame_model(case, rows)[1])
    return dp.plan(case.formula, dict(case.domain), **case.arguments)


def _model(case: Case, rows: int, seed: int) -> tuple[dp.GLM, dict[str, Any]]:
    """A model of plain arrays and the arguments of its fit."""
    random, array = np.random.default_rng([seed, rows]), dict(case.array)
    size = array.pop("columns")
    reach = array["row_norm"] if isinstance(array["row_norm"], float) else 1.0
    exog: NDArray[np.float64] = random.standard_normal((rows, size)) * reach
    exog[random.random((rows, size)) < 0.01] = np.nan
    endog = random.integers(0, 2, rows).astype(float)
    beside: dict[str, Any] = {}
    if "weight_bound" in array:
        beside["weights"] = random.random(rows) * array["weight_bound"]
    if "offset_bound" in array:
        beside["offset"] = random.standard_normal(rows) * array["offset_bound"]
    arguments = dict(case.arguments)
    return dp.GLM(endog, exog, arguments.pop("family"), **array, **beside), arguments


BESIDE = ("weights", "offset", "subset")


def _frame_model(case: Case, rows: Mapping[str, Any]) -> tuple[dp.GLM, dict[str, Any]]:
    """A model of a formula and the arguments of its fit."""
    arguments = {"on_mismatch": "go", **case.arguments}  # rows are made up without regard to the Domain
    beside = {name: arguments.pop(name) for name in BESIDE if name in arguments}
    assert case.formula is not None
    model = dp.GLM.from_formula(case.formula, rows, arguments.pop("family"), dict(case.domain), **beside)
    return model, arguments


def _fit(case: Case, rows: int, seed: int, noise: int | None) -> Any:
    if case.formula is None:
        model, arguments = _model(case, rows, seed)
    else:
        model, arguments = _frame_model(case, made_up({**case.domain, **case.hidden}, rows, seed))
    return model.fit(**arguments, seed=noise)


def _print_plan(plan: Any) -> None:
    """In every form, stored and loaded."""
    assert "nan" not in str(plan.summary()).split(), "a plan prints nan"
    for form in (repr, lambda one: one.summary().as_latex(), lambda one: one.budget, lambda one: one.excess_risk()):
        form(plan)
    again = dp.Plan.from_dict(json.loads(json.dumps(plan.to_dict(), allow_nan=False)))
    assert again.digest() == plan.digest(), "a stored plan is another"


def _show(fit: Any, folder: Path) -> None:
    """Printed, saved and loaded."""
    assert np.isfinite(fit.params.to_numpy()).all(), "a coefficient is not a number"
    assert "nan" not in str(fit).split(), "a fit prints nan"
    str(fit.tidy())
    for name in ("anova", "uncertainty"):
        _paid(lambda name=name: str(getattr(fit, name)()))  # type: ignore[misc]
    fit.save(folder / "fit.json")
    again = dp.GLMResults.load(folder / "fit.json")
    assert again.to_dict() == fit.to_dict(), "a loaded fit is another"


def _show_all(fit: Any, case: Case, seed: int, folder: Path) -> None:
    """In every form, with predictions and tests."""
    for form in (
        repr,
        lambda one: one.summary(full=True).as_text(),
        lambda one: one.summary(n=50).as_html(),
        lambda one: one.to_latex(),
        lambda one: one.to_markdown(),
        lambda one: str(one.glance()),
        lambda one: str(one.budget),
        lambda one: str(one.family),
    ):
        form(fit)
    for name in ("selection", "information", "variance_shares", "bse", "pvalues", "scale", "debiased", "noise_at_most"):
        _paid(lambda name=name: str(getattr(fit, name)))  # type: ignore[misc]
    for name in ("conf_int", "cov_params", "wald_test_terms"):
        _paid(lambda name=name: str(getattr(fit, name)()))  # type: ignore[misc]
    _paid(lambda: str(fit.t_test(np.eye(len(fit.params))[[fit.released.columns[0]]])) if fit.has_errors else None)
    if case.formula is not None:
        new = made_up({**case.domain, **case.hidden}, 5, seed)
        fit.predict(new)
        _paid(lambda: str(fit.get_prediction(new).summary_frame()))
    assert str(dp.GLMResults.load(folder / "fit.json")) == str(fit), "a loaded fit prints otherwise"


def _paid(shown: Callable[[], object]) -> None:
    """Look at what is there only if it was paid for."""
    try:
        shown()
    except NotReleasedError:
        return


def search(seeds: Sequence[int], kept: Path | None = None, rows: Sequence[int] = ROWS) -> Iterator[Outcome]:
    """The outcomes of some plans; those that a file has are taken from it, and the others are added to it."""
    known: dict[int, Outcome] = {}
    if kept is not None and kept.exists():
        for line in kept.read_text().splitlines():
            one = Outcome(**json.loads(line))
            known[one.seed] = one
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            if seed not in known:
                known[seed] = carried_out(drawn(seed), seed, Path(folder), rows)
                if kept is not None:
                    with kept.open("a") as lines:
                        lines.write(json.dumps(known[seed].__dict__) + "\n")
            yield known[seed]


def told(one: Outcome) -> str:
    """A finding: what failed, its plan, and the last lines of what was said."""
    last = "\n".join("    " + line for line in one.said.strip().splitlines()[-4:])
    return f"{one.seed}: {one.kind}\n    {drawn(one.seed)}\n{last}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Random plans carried out on rows that are made up.")
    parser.add_argument("plans", nargs="?", type=int, default=20_000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--kept", type=Path)
    chosen = parser.parse_args()
    logging.getLogger("dpstats").setLevel(logging.ERROR)
    counts: Counter[str] = Counter()
    for one in search(range(chosen.first, chosen.first + chosen.plans), chosen.kept):
        counts[one.kind] += 1
        if one.faulty:
            print(told(one), flush=True)
        elif chosen.plans == 1:
            print(drawn(one.seed), one.kind, one.said, sep="\n")
    print(f"{sum(counts.values())} plans: " + ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    return int(any(kind not in ("refused", "carried out") for kind in counts))


if __name__ == "__main__":
    sys.exit(main())

"""Every public call that takes rows, on one world of columns with public ranges and levels."""

from __future__ import annotations

import functools
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.audits.edge_cases.cells import Meaning

Shown = tuple[str, str]
SEED = 7

WORLD: dict[str, list[Any]] = {
    "y": [0.0, 1.0, 2.0, 3.0, 2.0, 1.0, 0.0, 3.0],
    "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 2.0],
    "g": ["a", "b", "a", "b", "b", "a", "a", "b"],
    "k": [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0],
    "b": [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0],
    "c": [0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 1.0, 2.0],
    "w": ["no", "yes", "yes", "no", "no", "yes", "no", "yes"],
    "z": [1.0, 0.0, 2.0, 1.0, 0.0, 2.0, 1.0, 0.0],
    "s": ["u", "v", "u", "v", "u", "u", "v", "v"],
    "m": [1.0, 2.0, 1.0, 2.0, 1.0, 1.0, 2.0, 2.0],
}
ARRAYS: dict[str, list[Any]] = {
    "endog": [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0],
    "x": [0.5, 1.0, 0.0, 0.25, 0.75, 0.5, 1.0, 0.0],
    "x2": [0.25, 0.5, 0.75, 1.0, 0.0, 0.25, 0.5, 0.75],
}
DOMAIN: dict[str, Any] = {
    "y": (-4, 4), "x": (0, 10), "g": ["a", "b"], "k": [1, 2, 3], "b": (0, 1), "c": (0, 9), "w": ["no", "yes"],
}  # fmt: skip


class Books:
    """A ledger made when a call asks for it, and what it has on record."""

    def __init__(self) -> None:
        self._ledger: dp.Ledger | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._known = 0

    @property
    def ledger(self) -> dp.Ledger:
        """The ledger, with two partitions."""
        if self._ledger is None:
            self._folder = tempfile.TemporaryDirectory()
            self._ledger = dp.Ledger(Path(self._folder.name) / "books.db", dataset="d", eps=1e6)
        return self._ledger

    def part(self, by: str) -> Any:
        """The first part of the partition by a column of text or of numbers."""
        return self.ledger.partition(by, ["u", "v"] if by == "s" else [1, 2])["u" if by == "s" else 1]

    def state(self) -> str:
        """What was recorded since the last look."""
        if self._ledger is None:
            return ""
        entries = self._ledger.entries()
        new, self._known = entries.iloc[self._known :], len(entries)
        public = [
            name for name in new.columns if name in ("eps", "delta", "label", "formula", "method", "state", "part")
        ]
        return "; ".join(map(str, new[public].to_numpy().tolist()))

    def close(self) -> None:
        """Close and remove the ledger."""
        if self._ledger is not None:
            self._ledger.close()
        if self._folder is not None:
            self._folder.cleanup()


@dataclass(frozen=True)
class Entry:
    """A public call.

    Attributes
    ----------
    call : callable
        With the data and the books, to (public facts, paid bits); bits are "" where they are not reproducible.
    columns : tuple of str
        Those it reads; a hostile cell may also stand in the column z.
    open : tuple of str
        Columns whose range is bought, so that only a missing cell's meaning is known.
    by_row : bool
        The value has a part for each row, or the number of rows is public.
    several : bool
        A row with a missing cell still counts for something, such as the range of another column.
    """

    name: str
    call: Callable[[Any, Books], Shown]
    columns: tuple[str, ...]
    open: tuple[str, ...] = ()
    by_row: bool = False
    several: bool = False
    world: Literal["table", "arrays"] = "table"
    parts: Mapping[str, tuple[Any, ...]] | None = None

    def key(self, column: str, means: Meaning) -> object:
        """Cells of one key are one cell to this call; None where the design leaves it open."""
        if column not in self.columns:
            return "not read"
        if means is ...:
            return None
        if isinstance(means, str):
            means = means.strip()
        if means is None or self.world == "arrays" or column in self.open:
            return "missing" if means is None or isinstance(means, str) else self._open(means)
        if self.parts and column in self.parts:
            return means if means in self.parts[column] else "missing"
        declared = (0, 1) if column == "b" else DOMAIN[column]
        if isinstance(declared, tuple) and column != "b":
            return "missing" if isinstance(means, str) else min(max(means, declared[0]), declared[1]) + 0.0
        return means if means in declared else "missing"

    def _open(self, number: Any) -> object:
        return number + 0.0 if self.world == "arrays" and abs(number) < 1e140 else None


def shown(result: Any) -> Shown:
    """Public facts and released bits of a result, or of several."""
    if isinstance(result, dict):
        parts = [shown(one) for one in result.values()]
        return "; ".join(facts for facts, _ in parts), "; ".join(bits for _, bits in parts)
    if isinstance(result, dp.GLMResults):
        released = result.released
        errors = "" if released is None else repr((released.to_dict(), result.uncertainty().to_numpy().tolist()))
        return repr((result.plan.names, result.guarantee, released is None)), repr(result.params.to_dict()) + errors
    if isinstance(result, dp.MultinomialResults):
        bits = repr((result.params.to_dict(), None if result.information is None else result.information.tolist()))
        return repr((result.plan.names, result.guarantee)), bits
    if isinstance(result, dp.KaplanMeier):
        return repr(result.plan), repr(result.counts.tolist())
    if isinstance(result, dp.Plan):
        return repr(result.to_dict()), ""
    if isinstance(result, (pd.Series, np.ndarray)):
        # numpy would ask a Series for attributes, and so hash its labels.
        values = result.to_numpy() if isinstance(result, pd.Series) else result
        return str(type(result)), repr(values.tolist())
    return str(type(result)), repr(getattr(result, "domain", None))


def _glm(name: str, formula: str, columns: str, domain: Any = DOMAIN, **arguments: Any) -> Entry:
    open_columns, by_row = arguments.pop("open", ""), arguments.get("adjacency") == "replace_one"

    def call(data: Any, books: Books) -> Shown:
        return shown(dp.glm(formula, data, 1.0, domain=domain, seed=SEED, **arguments))

    return Entry(f"glm, {name}", call, tuple(columns.split()), tuple(open_columns.split()), by_row, bool(open_columns))


FIRST = {"y": (-4, 4)}
GLMS = [
    _glm("gaussian", "y ~ x + g", "y x g"),
    _glm("absorbed", "y ~ x | s", "y x"),
    _glm("absorbed groups", "y ~ x | m", "y x", unit="m"),
    _glm("multinomial", "k ~ x + g", "k x g", family="multinomial", inference=True),
    _glm("gaussian, delta", "y ~ x + g", "y x g", delta=1e-6),
    _glm("transforms", "np.log(y + 5) ~ I(x**2) + C(g, Sum) + k + np.log(x + 1)", "y x g k"),
    _glm("partial transforms", "y ~ np.log(x) + I(1 / (x - 5))", "y x"),
    _glm("underflow", "y ~ np.exp(-100 * x) + I(x**200 * 1e-200) + g:x", "y x g"),
    _glm("splines", "y ~ bs(x, df=4)", "y x"),
    _glm("binomial", "b ~ x + g", "b x g", family="binomial"),
    _glm("binomial by levels", "w ~ x + C(k)", "w x k", family="binomial"),
    _glm("binomial, compared", "I(x > 3) ~ g + y", "x g y", family="binomial"),
    _glm("poisson", "c ~ x + g", "c x g", family="poisson"),
    _glm("svm", "b ~ x + k", "b x k", family="huber_svm"),
    _glm("objective", "y ~ x", "y x", method="objective"),
    _glm("replace one", "y ~ x + g", "y x g", adjacency="replace_one"),
    _glm("two stages", "y ~ x", "y x", stages=2),
    _glm("ridge", "b ~ x", "b x", family="binomial", penalty="ridge", alpha=1.0),
    _glm("selection", "y ~ x + g", "y x g", penalty="lasso", alpha=1.0, selection="noise_aware", refit_share=0.3),
    _glm("inference", "y ~ x + g", "y x g", inference=True),
    _glm("inference, robust", "w ~ x + g", "w x g", family="binomial", inference="robust", delta=1e-6),
    _glm("inference, svm", "b ~ 0 + x + g", "b x g", family="smooth_svm", inference=True),
    _glm(
        "inference, refit",
        "c ~ x + g",
        "c x g",
        family="poisson",
        inference=True,
        penalty="lasso",
        alpha=0.1,
        refit_share=0.5,
        split="rows",
    ),
    _glm("inference, two stages", "w ~ x + g", "w x g", family="binomial", inference=True, stages=2),
    _glm("range bought", "y ~ x", "y x", FIRST, open="x"),
    _glm("ranges bought", "y ~ np.log(x) + z", "y x z", None, open="y x z"),
    _glm("response bought", "y ~ x + g", "y x g", {"x": (0, 10), "g": ["a", "b"]}, open="y"),
    _glm("weights", "y ~ x + g", "y x g c", weights="c", inference="robust"),
    _glm("weights, offset", "b ~ k", "b k c x", family="binomial", weights="c / (x + 1)", offset="np.log(x)"),
    _glm("exposure, weights", "c ~ g", "c g x y", family="poisson", exposure="x", weights="y", inference=True),
    _glm("offset, response bought", "y ~ g", "y g x", offset="x", response="bought"),
    _glm("weights, screened", "w ~ x + k + g", "w x k g c", family="binomial", weights="c", offset="x", screen=1),
    _glm("trials", "c + x ~ g", "c x g", family="binomial", inference=True),
    _glm("trials, weights", "cbind(c, 9 - c) ~ g", "c g x", family="binomial", weights="x", stages=2),
    _glm("weights bought", "y ~ g", "y g z", {**FIRST, "g": ["a", "b"]}, open="z", weights="z"),
    _glm("range bought, replace one", "c ~ x", "c x", {"c": (0, 9)}, open="x", adjacency="replace_one"),
]


def _call(name: str, columns: str, call: Callable[[Any, Books], Any], open_columns: str = "", **facts: Any) -> Entry:
    return Entry(name, lambda data, books: shown(call(data, books)), tuple(columns.split()),
                 tuple(open_columns.split()), **facts)  # fmt: skip


def _wrapped() -> list[Entry]:
    known: dict[str, Any] = {"domain": DOMAIN, "seed": SEED}
    model = dp.GLM.from_formula
    return [
        _call("ols", "y x", lambda data, _: dp.ols("y ~ x", data, 1.0, **known)),
        _call("logit", "w x", lambda data, _: dp.logit("w ~ x", data, 1.0, **known)),
        _call("poisson", "c g", lambda data, _: dp.poisson("c ~ g", data, 1.0, **known)),
        _call("svm", "b k", lambda data, _: dp.svm("b ~ k", data, 1.0, **known)),
        _call("lasso", "y x", lambda data, _: dp.lasso("y ~ x", data, 1.0, alpha=1.0, **known)),
        _call("from_formula", "c x", lambda data, _: model("c ~ x", data, "poisson", DOMAIN).fit(1.0, seed=SEED)),
        _call("from_formula, plan", "y x", lambda data, _: model("y ~ x", data, domain=FIRST).plan(1.0), "x"),
        _call(
            "buy_ranges", "x c", lambda data, _: dp.buy_ranges(data, ["x", "c"], 1.0, seed=SEED), "x c", several=True
        ),
        _call("kaplan_meier", "x b g", lambda data, _: dp.kaplan_meier("Surv(x, b) ~ g", data, 1.0, **known)),
        _call("hazard", "c b g y", lambda data, _: dp.hazard("Surv(c, b) ~ g + y", data, 1.0, **known)),
        _call("ordinal", "k x g", lambda data, _: dp.ordinal("k ~ x + g", data, 1.0, **known)),
        _call("ordinal, robust", "k c", lambda data, _: dp.ordinal("k ~ c", data, 1.0, inference="robust", **known)),
        _call("hazard, entry", "x c b k", lambda data, _: dp.hazard("Surv(x, c, b) ~ k", data, 1.0, **known)),
        _call("plan_many", "y x b", lambda data, _: _many(DOMAIN).fit(data, seed=SEED), several=True),
        _call("plan_many, bought", "y x b", lambda data, _: _many(None).fit(data, seed=SEED), "y x", several=True),
    ]


def _checked(data: Any, books: Books) -> Shown:
    """Whether a cell is clipped is part of what is paid for: public facts alone."""
    found = dp.check("y ~ np.log(x) + g", data, DOMAIN, 1.0, seed=SEED)
    return repr((found.faults, found.guarantee)), ""


def _split(data: Any, books: Books) -> Shown:
    split = dp.holdout(data, 0.5, by=["x", "g"], ledger=books.ledger)
    return repr((split, split.by)), ""


def _evaluated(formula: str, family: str) -> Callable[[Any, Books], Shown]:
    def call(data: Any, books: Books) -> Shown:
        found = dp.evaluate(_fitted(formula, family), data, 1.0, seed=SEED)
        # The number of rows left out is released, and named in a note: a missing row is to move nothing else.
        facts = {**found.to_dict(), "rows_left_out": None}
        facts["notes"] = [note for note in facts["notes"] if not note.startswith("Left out: ")]
        return repr((found.guarantee, found.model)), repr(facts)

    return call


def _evaluations() -> list[Entry]:
    models = {"y ~ x + g": ("gaussian", "y x g"), "w ~ bs(x, df=4) + k": ("binomial", "w x k"),
              "c ~ np.log(x) + g": ("poisson", "c x g"), "b ~ x": ("huber_svm", "b x"),
              "c ~ g + offset(np.log(x)) + weights(y)": ("poisson", "c g x y"),
              "c + x ~ g": ("binomial", "c x g")}  # fmt: skip
    made = [
        Entry(f"evaluate, {family}, {formula}", _evaluated(formula, family), tuple(columns.split()))
        for formula, (family, columns) in models.items()
    ]
    split = Entry("holdout", _split, ("x", "g"), by_row=True)
    return [*made, Entry("check", _checked, ("y", "x", "g"), several=True), split]


def _buy(data: Any, books: Books) -> Any:
    return dp.buy_ranges(data, ["x", "c"], 1.0, seed=SEED)


@functools.cache
def _planned(declared: bool) -> Any:
    models = {"one": "y ~ x", "two": {"formula": "b ~ x", "family": "binomial"}}
    return dp.plan_many(models, DOMAIN if declared else None, 2.0)


def _many(domain: Any) -> Any:
    return _planned(domain is not None)


def _ledgers() -> list[Entry]:
    def paid(formula: str, by: str, **known: Any) -> Callable[[Any, Books], Shown]:
        def call(data: Any, books: Books) -> Shown:
            dp.glm(formula, data, 1.0, ledger=books.part(by) if by else books.ledger, **known)
            return "released", ""

        return call

    def bought(data: Any, books: Books) -> Shown:
        dp.buy_ranges(data, ["x"], 1.0, ledger=books.part("s"))
        return "released", ""

    def rows(by: str) -> Callable[[Any, Books], Shown]:
        return lambda data, books: ("", str(len(books.part(by).rows(data))))

    text, numbers = {"s": ("u", "v")}, {"m": (1.0, 2.0)}
    return [
        Entry("ledger", paid("y ~ x + g", "", domain=DOMAIN), ("y", "x", "g")),
        Entry("ledger, bought", paid("y ~ x", "", domain=FIRST), ("y", "x"), ("x",)),
        Entry("part by text", paid("y ~ x", "s", domain=DOMAIN), ("y", "x", "s"), parts=text),
        Entry("part by numbers", paid("y ~ x", "m", domain=DOMAIN), ("y", "x", "m"), parts=numbers),
        Entry("part, buy_ranges", bought, ("x", "s"), ("x",), parts=text),
        Entry("part.rows by text", rows("s"), ("s",), parts=text),
        Entry("part.rows by numbers", rows("m"), ("m",), parts=numbers),
    ]


@functools.cache
def _fitted(formula: str, family: str) -> Any:
    frame = pd.DataFrame(WORLD)
    return dp.glm(formula, frame, 50.0, domain=DOMAIN, family=family, seed=SEED)


def _predicted(formula: str, family: str, data: Any, which: str = "mean") -> Any:
    """Predictions without the warnings that they have: of missing cells and of levels that are not declared.

    They name column and number of rows of a frame of the caller, as the predictions do; any other is a finding.
    """
    with warnings.catch_warnings():
        for fault in (r"a level of '\w+' that the Domain", "no value of"):
            warnings.filterwarnings("ignore", message=rf"newdata: [\d,]+ of [\d,]+ rows have {fault}")
        return _fitted(formula, family).predict(data, which)


def _predictions() -> list[Entry]:
    models = {"y ~ x + g": ("gaussian", "x g"), "w ~ bs(x, df=4) + k": ("binomial", "x k")}
    models |= {"c ~ np.log(x) + g": ("poisson", "x g"), "b ~ x": ("huber_svm", "x")}
    models |= {"c ~ g + offset(np.log(x))": ("poisson", "x g")}
    made = [
        _call(f"predict, {formula}", columns, lambda data, _, m=(formula, family): _predicted(*m, data), by_row=True)
        for formula, (family, columns) in models.items()
    ]
    linear = _call("predict, linear", "x g", lambda d, _: _predicted("y ~ x + g", "gaussian", d, "linear"),
                   by_row=True)  # fmt: skip
    return [*made, linear]


@functools.cache
def _array_model() -> Any:
    exog = np.column_stack([ARRAYS["x"], ARRAYS["x2"]])
    return {size: dp.GLM(ARRAYS["endog"], exog[:, :size], row_norm=1.0).fit(9.0, seed=SEED) for size in (1, 2)}


def _array_predict(data: Any, books: Books) -> Shown:
    _, exog = data
    shape = np.shape(exog) if isinstance(exog, (np.ndarray, pd.DataFrame)) else (0, 2)
    return shown(_array_model()[1 if shape[1:] == (1,) else 2].predict(exog))[0], ""


def _array_calls() -> list[Entry]:
    made = []
    for family in ("gaussian", "binomial", dp.families.Poisson(y_max=5), "huber_svm"):
        call = lambda data, _, f=family: dp.GLM(*data, family=f, row_norm=1.0).fit(1.0, seed=SEED)  # noqa: E731
        made.append(_call(f"arrays, {getattr(family, 'name', family)}", "endog x", call, world="arrays"))
    norms = {"l2": 1, "l1": 1.4, "linf": 1}
    three = lambda data, _: dp.GLM(*data, row_norm=norms).fit(1.0, seed=SEED, delta=1e-6)  # noqa: E731
    made.append(_call("arrays, three norms", "endog x", three, world="arrays"))
    public = lambda data, _: dp.GLM(*data, row_norm=1.0).fit(1.0, seed=SEED, adjacency="replace_one")  # noqa: E731
    made.append(_call("arrays, replace one", "endog x", public, world="arrays", by_row=True))
    made.append(Entry("arrays, predict", _array_predict, ("x",), by_row=True, world="arrays"))
    return made


ENTRIES = [*GLMS, *_wrapped(), *_ledgers(), *_predictions(), *_evaluations(), *_array_calls()]

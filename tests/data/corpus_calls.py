"""The names that the cases of the corpus are written with: made-up rows, and calls of public functions on them.

Rows are made of uniform numbers and of arithmetic that is exact in any order, so that they are the same on any machine.
Calls are seeded; where that cannot be, the budget is so great that the noise is nothing.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import runpy
import shlex
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from corpus_text import attempt, digest

import dpstats as dp
from dpstats import families, penalties, plots, privacy, streaming
from dpstats.audit import audit_exact, sensitivity, worst_cases
from dpstats.streaming import constrained, constraints, sums

os.environ.setdefault("MPLBACKEND", "Agg")

__all__ = ["audit_exact", "constraints", "plots", "privacy", "sensitivity", "sums", "uuid", "worst_cases"]
"""Names that the table alone uses."""

DOMAIN: dict[str, Any] = {
    **{"x": (0, 10), "z": (-1, 1), "g": ["a", "b", "c"], "s": ["f", "m"], "y": (-6, 10), "b": (0, 1), "c": (0, 12)},
    **{"w": (0.0, 2.0), "t": (0.25, 4.0), "hits": (0, 6), "misses": (0, 6), "rare": [0, 1], "lab": ["no", "yes"]},
}
WRONG_DOMAIN = {**DOMAIN, "x": (2, 100), "g": ["A", "b", "c"]}
KNOWN = {"x": (5, 2), "z": (0, 0.5), "g": {"a": 0.5}, "b": 0.3}
MODEL, LOGIT, COUNT = "y ~ x + z + g", "b ~ x + z + g", "c ~ x + s"
NEW = {
    **{"x": [0.0, 2.5, 10.0], "z": [0.5, -1.0, 0.0], "g": ["a", "b", "c"], "s": ["f", "m", "m"], "t": [1.0, 2.0, 0.5]},
    **{"w": [1.0, 1.0, 2.0], "rare": [0, 1, 0], "hits": [1, 2, 3], "misses": [3, 2, 1]},
}


def some(*names: str) -> dict[str, Any]:
    """A part of the Domain: the ranges of other columns are bought."""
    return {name: DOMAIN[name] for name in names}


def rows(count: int = 900, seed: int = 7) -> pd.DataFrame:
    """Made-up rows; some cells are missing, unknown or beyond their range."""
    uniform = np.random.default_rng(seed).integers(0, 2**20, size=(count, 12)) / 2**20
    x, z = np.floor(uniform[:, 0] * 10_000) / 1000, np.floor(uniform[:, 1] * 2048) / 1024 - 1
    group, person = np.floor(uniform[:, 2] ** 2 * 3).astype(int), np.arange(count) // 3
    spread = uniform[:, 3] + uniform[:, 4] + uniform[:, 5] - 1.5
    data = pd.DataFrame(
        {
            **{"x": x, "z": z, "g": np.array(["a", "b", "c"])[group], "s": np.where(uniform[:, 6] < 0.4, "f", "m")},
            "y": 1 + 0.5 * x - 1.5 * z + 0.5 * group + 2 * spread,
            "b": (uniform[:, 7] < 0.15 + 0.05 * x + 0.2 * (z > 0)).astype(int),
            "c": np.floor(uniform[:, 8] * uniform[:, 9] * (3 + x)).astype(int),
            **{"w": 0.25 + np.floor(uniform[:, 10] * 14) / 8, "t": 0.25 + np.floor(uniform[:, 11] * 15) / 4},
            **{"hits": np.floor(uniform[:, 8] * 6).astype(int), "misses": np.floor(uniform[:, 9] * 6).astype(int)},
            **{"rare": (uniform[:, 4] < 0.05).astype(int), "lab": np.where(uniform[:, 7] < 0.5, "no", "yes")},
            **{"person": person, "quarter": np.array(["q1", "q2", "q3"])[person % 3]},
        }
    )
    data.loc[data.index[5::97], "x"] = np.nan
    data.loc[data.index[7::131], "x"] = 11.5
    data.loc[data.index[9::151], "g"] = "unknown"
    return data


DATA = rows()
PARTS = [DATA.iloc[place * 150 : place * 150 + 150] for place in range(6)]


def fit(formula: str, *, eps: float = 6.0, verb: Any = dp.glm, **arguments: Any) -> dict[str, Any]:
    """A seeded fit, its predictions, and whether what it saves is itself."""
    found = verb(formula, DATA, eps, **{"domain": DOMAIN, "seed": 1, **arguments})
    return {
        **{"": found, "plan_digest": f"#{found.plan.digest()}", "full": found.summary(full=True).as_text()},
        **{"predict": attempt(lambda: found.predict(NEW)), "saved": again(found)},
        "get_prediction": attempt(lambda: found.get_prediction(NEW).summary_frame()),
    }


def again(found: Any) -> Any:
    """Whether what is saved is what is loaded; else what is."""
    found.save("kept.json")
    loaded = type(found).load("kept.json")
    same = loaded.params.equals(found.params) if hasattr(found, "params") else str(loaded) == str(found)
    return True if same else loaded


def saved(found: Any) -> dict[str, Any]:
    return {"": found, "saved": again(found)}


def brief(formula: str = MODEL, *, data: Any = DATA, **arguments: Any) -> dict[str, Any]:
    """The coefficients of a fit alone, and what it says of its guarantee."""
    found = dp.glm(formula, data, **{"eps": 6.0, "domain": DOMAIN, "seed": 1, **arguments})
    return {"params": found.params, "guarantee": str(found.guarantee)}


def plan(formula: str, *, eps: float = 1.0, domain: Any = DOMAIN, **arguments: Any) -> dict[str, Any]:
    """A plan, and what follows from it without rows."""
    found = dp.plan(formula, domain, eps, **arguments)
    stored = json.loads(json.dumps(found.to_dict()))
    return {
        **{"": found, "noise": repr(found.noise), "twice": attempt(lambda: f"#{found.at(2 * eps).digest()}")},
        "again": attempt(lambda: type(found).from_dict(stored).digest() == found.digest()),
    }


def logit(**arguments: Any) -> dp.Plan:
    return dp.plan(LOGIT, DOMAIN, 1.0, family="binomial", **arguments)


@cache
def kept(which: str) -> dp.GLMResults:
    """Fits that several cases look at."""
    formula, arguments = {
        "gaussian": (MODEL, {"inference": True}),
        "plain": (MODEL, {}),
        "binomial": (LOGIT, {"family": "binomial"}),
        "label": ("lab ~ x + z", {"family": "binomial"}),
        "poisson": (COUNT, {"family": "poisson"}),
        "svm": ("lab ~ x + z", {"family": "huber_svm", "inference": True}),
        "weak": (MODEL, {"inference": True, "eps": 0.2}),
        "unit": (MODEL, {"inference": True, "unit": "person"}),
        "lasso": (MODEL, {"penalty": "lasso", "alpha": 30.0}),
    }[which]
    return dp.glm(formula, DATA, **{"eps": 8.0, "domain": DOMAIN, "seed": 1, **arguments})


def answers(which: str) -> dict[str, Any]:
    """What a fit answers beside what every case records."""
    found = kept(which)
    asked: dict[str, Callable[[], Any]] = {
        **{"tidy": lambda: found.tidy(exponentiate=True), "conf_int": lambda: found.conf_int(0.1)},
        **{"wald_terms": lambda: found.wald_test_terms(), "n": lambda: found.summary(n=900)},
        **{"risk": lambda: found.excess_risk(n=900), "latex": found.to_latex, "markdown": found.to_markdown},
        **{"html": lambda: found.summary()._repr_html_(), "mean": lambda: found.predict(DATA.head(50))},
        **{which: lambda which=which: found.predict(NEW, which=which) for which in ("linear", "decision")},
        **{"class": lambda: found.predict(NEW, which="class"), "at": lambda: found.predict(NEW, offset=0.5)},
        "prediction": lambda: found.get_prediction(NEW).conf_int(0.1),
    }
    return {name: attempt(call) for name, call in asked.items()}


def margins(formula: str, **arguments: Any) -> dict[str, Any]:
    """The fit of the whole model, and marginal effects."""
    bought = {} if "method" in arguments else {"fitstats": "auto"}
    found = dp.glm(formula, DATA, **{"eps": 30.0, "domain": DOMAIN, "seed": 1, **bought, **arguments})
    asked: dict[str, Callable[[], Any]] = {
        **{"fitstats": lambda: found.fitstats, "glance": found.glance, "overall": lambda: found.get_margeff()},
        **{"zero": lambda: found.get_margeff(at="zero").summary_frame(0.1), "mean": lambda: found.get_margeff("mean")},
        **{"dummy": lambda: found.get_margeff(dummy=True), "etable": lambda: dp.etable([found])},
        "ratios": lambda: found.get_margeff(dummy=True).ratios,
    }
    return {name: attempt(call) for name, call in asked.items()}


def files(form: str, count: int = 400) -> Any:
    """The rows in a form; files in the folder of the case."""
    import dask.dataframe as dd
    import duckdb
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    data = DATA.head(count)
    table = pa.Table.from_pandas(data, preserve_index=False)
    if form == "odd.csv":
        Path(form).write_text('y,x,z,g\n1,2,.5,a\n2,3,.1,"b"\n3,"4\n5",0.2,c\n4,5\n5,6,7,8,9\n,,,\n6,x,1,a\n')
    elif "sv" in form:
        data.to_csv(form, index=False, sep="\t" if "tsv" in form else ",")
    elif form == "one.parquet":
        pq.write_table(table, form)
    elif form in ("part*.parquet", "dataset", "scan"):
        for place in range(4):
            pq.write_table(table.slice(place * 100, 100), f"part{place}.parquet")
    texts = {"g": pd.CategoricalDtype(["a", "b", "c"]), "s": "string"}
    forms: dict[str, Callable[[], Any]] = {
        **{"pandas": lambda: data, "categorical": lambda: data.astype(texts), "nullable": data.convert_dtypes},
        **{
            "arrow dtypes": lambda: data.convert_dtypes(dtype_backend="pyarrow"),
            "objects": lambda: data.astype(object),
        },
        **{"dict": lambda: {name: data[name].to_numpy() for name in data}, "dask": lambda: dd.from_pandas(data, 3)},
        "float32": lambda: data.assign(x=data["x"].astype("float32"), z=data["z"].astype("float16")),
        **{"texts": lambda: data.assign(x=data["x"].astype(str)), "index": lambda: data.set_index(data["x"])},
        **{"polars": lambda: pl.from_pandas(data), "lazy": lambda: pl.from_pandas(data).lazy(), "arrow": lambda: table},
        **{"reader": lambda: table.to_reader(max_chunksize=64), "batch": lambda: table.to_batches()[0]},
        **{"dataset": lambda: ds.dataset(".", format="parquet"), "scan": lambda: pl.scan_parquet("part*.parquet")},
        **{"duckdb": lambda: duckdb.from_df(data)},
        "dictionary": lambda: table.set_column(2, "g", table["g"].dictionary_encode()),
    }
    return forms.get(form, lambda: form)()


def arrays(family: Any, *, endog: Any = None, fit: Mapping[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """A fit of plain arrays."""
    exog, endog = DATA[["x", "z"]] / 10, DATA["b"] if endog is None else endog
    return saved(dp.GLM(endog, exog, family, **arguments).fit(4.0, seed=1, **(fit or {})))


# ---- choices and sums -----------------------------------------------------------------------------------------------

RULES = {"five": "x > 5", "both": "(x > 3) & (z > 0)", "s": "s == 'm'"}
GRID = {"penalty": ["lasso"], "alpha": [1.0, 30.0]}
LISTED = [{"curvature": 20.0}, {"curvature": 90.0, "inference": None}, {"method": "output"}]
MANY: dict[str, Any] = {"one": "y ~ x", "two": {"formula": "b ~ x + z", "family": "binomial", "inference": True}}
PATH = {f"alpha {alpha}": {"formula": MODEL, "penalty": "lasso", "alpha": alpha} for alpha in (1.0, 9.0)}


def rivals(family: str, response: str) -> dict[str, dp.GLMResults]:
    terms = {"plain": "x", "more": "x + z", "other": "z"}
    given = {"domain": DOMAIN, "family": family, "seed": 1}
    return {name: dp.glm(f"{response} ~ {one}", DATA, 4.0, **given) for name, one in terms.items()}


def chosen(candidates: Any, score: str, **more: Any) -> dict[str, Any]:
    found = dp.select(candidates, score, DATA, **{"eps": 0.5, "domain": DOMAIN, "seed": 1, **more})
    utility = [found.utility(), found.utility(0.01, n=900)]
    return {"": found, "utility": utility, "saved": again(found)}


def tuned(formula: str, grid: Any, **more: Any) -> dp.Tuned:
    return dp.tune(formula, DATA, grid, eps=2.0, domain=DOMAIN, seed=1, **more)


def sums_of(**more: Any) -> dp.ReleasedStatistics:
    columns = ["y", "poly(x, 2)", "z", "g", "s"]
    return dp.release_statistics(DOMAIN, columns, **{"eps": 6.0, "data": DATA, "seed": 1, **more})


def linear(formula: str, **more: Any) -> dict[str, Any]:
    """A linear model of released sums that were kept in a file."""
    sums_of().save("sums.json")
    found = dp.ReleasedStatistics.load("sums.json").fit(formula, **more)
    test = attempt(lambda: found.t_test(np.eye(len(found.params))[-1:]))
    return {"": found, "test": test, "predict": found.predict(NEW), "saved": again(found)}


# ---- streams and reports --------------------------------------------------------------------------------------------


def stream(formula: str = MODEL, *, eps: float = 20.0, delta: float = 1e-6, **more: Any) -> streaming.Regression:
    domain = {**DOMAIN, "quarter": ["q1", "q2", "q3"]}
    return streaming.Regression(formula, domain, eps, delta, **{"seed": 1, **more})


def ticks(formula: str = MODEL, **more: Any) -> dict[str, Any]:
    """A stream of four ticks."""
    made = stream(formula, **({} if {"halflife", "window", "workload"} & more.keys() else {"horizon": 12}), **more)
    for part in PARTS[:4]:
        latest = made.update(part)
    return {
        **{"plan": made.plan(), "ticks": made.plan().ticks([1, 4, 12]), "stream": repr(made), "latest": latest},
        **{"full": latest.summary(full=True).as_text(), "predict": attempt(lambda: latest.predict(NEW))},
        **{"history": made.history, "window": attempt(lambda: made.window(2).params)},
        **{"change": attempt(lambda: made.change(2)), "saved": again(latest)},
    }


def fed() -> streaming.Regression:
    made = stream(horizon=12)
    for part in PARTS[:4]:
        made.update(part)
    return made


def in_turn(data: Any, **more: Any) -> list[Any]:
    made = stream(horizon=12)
    return [(made.tick, made.label, one.params.to_numpy()) for one in made.run(data, **more)]


def resumed_stream() -> list[Any]:
    """A stream that goes on from its file; an old copy, and another stream, are refused."""
    given: dict[str, Any] = {"state": "a.state", "horizon": 12}
    first = stream(**given)
    first.update(PARTS[0], label="2021-1")
    first.update(PARTS[1], label="2021-2")
    second = stream(**given)
    latest = second.update(PARTS[2], label="2021-3")
    refused = attempt(lambda: first.update(PARTS[2], label="2021-4")), attempt(lambda: stream("y ~ x", **given))
    return [latest.params, second.between(1, 3).params, second.history, *refused, second.label, repr(second)]


def paid_stream() -> list[Any]:
    """Streams under a ledger, without a seed: their charges, and what is refused."""
    with ledger() as book:
        given: dict[str, Any] = {"state": "a.state", "ledger": book, "horizon": 12, "seed": None}
        first = stream(eps=2.0, **given)
        first.update(PARTS[0])
        shutil.copy("a.state", "old.state")
        second = stream(eps=2.0, **given)
        second.update(PARTS[1])
        old = attempt(lambda: stream(eps=2.0, **{**given, "state": "old.state"}).update(PARTS[1]))
        late = attempt(lambda: first.update(PARTS[1]))
        dear = attempt(lambda: stream(**{**given, "state": "b.state"}).update(PARTS[1]))
        return [second.tick, second.guarantee, old, late, dear, book.report()]


def refits(*, delta: float = 1e-6, **more: Any) -> dict[str, Any]:
    given = {"horizon": 6, "seed": 1, "family": "huber_svm", **more}
    made = streaming.Refits(LOGIT, DOMAIN, 20.0, delta, **given)
    found = [attempt(lambda count=count: made.update(DATA.head(150 * count))) for count in range(1, 5)]
    return {
        "plan": str(made.plan()),
        "digest": f"#{made.plan().digest()}",
        "latest": found[-1],
        "history": made.history,
    }


def prefix_sums(mechanism: Any, *, delta: float = 1e-6, **more: Any) -> dict[str, Any]:
    found = mechanism.plan(2, eps=3.0, delta=delta, **more)
    running = found.start(seed=3, recall=8)
    released = [running.step(found.total(np.array([[0.5, 0.25], [-0.5, 0.125]]) * tick)) for tick in range(1, 6)]
    kept = sums.PrefixSums.from_bytes(running.to_bytes(), found)
    return {
        **{"plan": repr(found), "stored": digest(str(found.to_dict())), "released": np.array(released)},
        **{"kept": kept.total, "its plan": sums.stored_plan(running.to_bytes()).to_dict() == found.to_dict()},
        **{"between": attempt(lambda: running.between(1, 4)), "total": running.total},
        **{"std": mechanism.std(np.array([1, 5])), "sensitivity": mechanism.sensitivity},
    }


def region(one: Any) -> dict[str, Any]:
    """A set of coefficients."""
    point = [1.0, -0.5, 2.0, 0.25]
    stored = {"stored": str(one.to_dict()), "again": repr(constraints.from_dict(one.to_dict()))}
    found = {"project": one.project(point), "gauge": one.gauge([0.1, 0.2, 0.0, 0.05]), "support": one.support(point)}
    return {**stored, **found, "width": one.gaussian_width(4), "reach": one.reach}


def solved(constraint: Any) -> dict[str, Any]:
    """Coefficients from noisy sums."""
    gram = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, -0.125]])
    return {"minimise": constrained.minimise(np.array([2.0, -1.0, 0.5]), gram, constraint)}


def spec(formula: str, **more: Any) -> dp.local.Spec:
    return dp.local.Spec(DOMAIN, formula, **{"delta": 1e-6, "n": 500, **more})


def reports(formula: str, **more: Any) -> dict[str, Any]:
    """A specification; reports are random, and so only their form is recorded."""
    made = spec(formula, **more)
    row = {name: values[1] for name, values in NEW.items()} | {"y": 2.5, "b": 1, "lab": "yes"}
    report = dp.local.randomize(row, made)
    sent = dp.local.from_json(dp.local.to_json(report))
    reports = [report, dp.local.randomize(None, made)]
    dp.local.write(reports, "r.parquet")
    summed = dp.local.total("r.parquet", made) if made.scheme == "statistics" else dp.local.total(reports, made)
    modular = dp.local.Total.from_modular([int(value) % 2**62 for value in summed.values], 2**62, 2, made)
    return {
        **{
            "": made,
            "json": digest(made.to_json()),
            "again": dp.local.Spec.from_json(made.to_json()).hash == made.hash,
        },
        **{"sent": bool((sent.values == report.values).all()), "size": len(report.values)},
        **{"modular": bool((modular.values == summed.values).all()), "count": modular.count},
        **{
            "central": attempt(lambda: made.central_guarantee(3)),
            "missing": len(dp.local.randomize(None, made).values),
        },
    }


# ---- ledgers and the shell ------------------------------------------------------------------------------------------


def ledger(**more: Any) -> dp.Ledger:
    return dp.Ledger(**{"path": "a.ledger", "dataset": "made up", "eps": 10.0, "delta": 1e-3, **more})


def one_charge() -> dp.Ledger:
    book = ledger()
    book.signed("Ada").charge(dp.Guarantee(0.5), label="one")
    with book.charge(dp.Guarantee(0.25), label="two"):
        pass
    book.charge(dp.Guarantee(0.125), label="taken back").refund()
    return book


def corrected() -> dp.Ledger:
    book = ledger(domain={**DOMAIN, "g": ["A", "B", "C"]})
    book.charge(dp.Guarantee(0.5), label="before")
    book.set_domain(DOMAIN)
    return book


def book_of(book: dp.Ledger) -> dict[str, Any]:
    """What a ledger shows."""
    lines_of_html = book.to_html().count("<tr")
    return {
        **{"repr": repr(book), "report": book.report(), "entries": book.entries().drop(columns="time")},
        **{"spending": book.spending(), "history": book.history().drop(columns="time"), "domain": book.domain},
        **{"remaining": tuple(book.remaining), "rho": book.remaining_rho, "total": tuple(book.total)},
        "html": lines_of_html,
    }


def spending(**more: Any) -> dict[str, Any]:
    """A ledger that pays, or refuses to pay, for every kind of call."""
    book, unit = ledger(**more), {"unit": more["unit"]} if "unit" in more else {}
    book.set_quota("Ada", eps=3.0, delta=1e-4)
    book.set_quota(None, eps=6.0, delta=1e-4)
    ada = book.signed("Ada", purpose="a chapter", label="ada's")
    given: dict[str, Any] = {"domain": DOMAIN, "ledger": book, **unit}
    calls: dict[str, Callable[[], Any]] = {
        "seeded": lambda: dp.glm("y ~ x", DATA, 1.0, seed=1, **given),
        "quota": lambda: dp.glm("y ~ x", DATA, 3.5, **{**given, "ledger": ada}),
        "total": lambda: dp.glm("y ~ x", DATA, 30.0, **{**given, "ledger": ada}),
        "delta": lambda: dp.glm("y ~ x", DATA, 0.25, delta=0.01, **given),
        # Noise that is no seed's decides whether so few rows stop there, and which method suits them.
        "other domain": lambda: dp.glm(
            "y ~ x", DATA, 1.0, on_mismatch="go", method="napp", **{**given, "domain": {**DOMAIN, "x": (0, 5)}}
        ),
        "other neighbours": lambda: dp.glm("y ~ x", DATA, 0.5, adjacency="replace_one", method="napp", **given),
        "arrays": lambda: dp.GLM(DATA["b"], DATA[["z"]], "binomial", 1.0).fit(0.125, ledger=book),
        "label": lambda: dp.glm("y ~ x", DATA, 1.0, label="a model", method="napp", **{**given, "ledger": ada}),
        "normal": lambda: dp.glm("y ~ x", DATA, 0.5, delta=1e-6, noise="gaussian", **given),
        "return": lambda: dp.glm("y ~ x", DATA, 0.5, retrieval="return", **given),
        "check": lambda: dp.check("y ~ x", DATA, DOMAIN, 0.25, ledger=ada, **unit),
        "ranges": lambda: dp.buy_ranges(DATA, ["x"], 0.5, ledger=book, **unit),
        "evaluate": lambda: dp.evaluate(kept("plain"), DATA, 0.5, ledger=book, **unit),
        "statistics": lambda: dp.release_statistics(DOMAIN, ["y", "x"], 0.25, data=DATA, ledger=book),
        "select": lambda: dp.select([1.0, 5.0], "abs(x - candidate) / 10", DATA, eps=0.25, **given),
        "many": lambda: dp.plan_many({"one": "y ~ x"}, DOMAIN, 0.5, **unit).fit(DATA, ledger=book)["one"],
        "tune": lambda: dp.tune("y ~ x", DATA, {"curvature": [50.0, 90.0]}, eps=0.5, **given),
        "stream": lambda: streaming.Regression("y ~ x", eps=0.25, delta=1e-6, horizon=4, **given).update(DATA),
        "refits": lambda: streaming.Refits("y ~ x", eps=0.25, horizon=4, **given).update(DATA),
        "by hand": lambda: book.charge(dp.Guarantee(0.125, **unit), label="by hand"),
        "by hand, beyond": lambda: book.charge(dp.Guarantee(50.0, **unit), label="beyond"),
    }
    found: dict[str, Any] = {}
    for name, call in calls.items():
        made = attempt(call)
        found[name] = made if isinstance(made, Exception) else getattr(made, "guarantee", "paid")
    return {"call": found, "book": book_of(book), "ada": tuple(ada.remaining)}


def divided() -> dict[str, Any]:
    """A ledger with parts, and one with a holdout."""
    book = ledger(domain=DOMAIN)
    parts = book.partition("g", ["a", "b", "c"])
    for name, eps in (("a", 1.0), ("b", 2.0)):
        dp.glm("y ~ x", DATA, eps, domain=DOMAIN, ledger=parts[name])
    dp.glm("y ~ x", DATA, 3.0, domain=DOMAIN, ledger=parts["c"].partition("s", ["f", "m"])["m"])
    split = dp.holdout(DATA, 0.3, ledger=book)
    dp.glm("y ~ x", DATA, 2.0, domain=DOMAIN, ledger=split.train_ledger)
    refused = [
        attempt(lambda: book.partition("g", ["a", "b"])),
        attempt(lambda: book.partition("person", [1, 1])),
        attempt(lambda: dp.holdout(DATA, 0.2, ledger=book)),
        attempt(lambda: dp.glm("y ~ x", split.train, 1.0, domain=DOMAIN, ledger=split.test_ledger)),
        attempt(lambda: dp.glm("y ~ x", DATA.drop(columns="g"), 1.0, domain=DOMAIN, ledger=parts["a"])),
    ]
    return {"refused": refused, "rows": len(parts["a"].rows(DATA)), "part": repr(parts["a"]), **book_of(book)}


def opened() -> list[Any]:
    """Ledgers that are there, or not, or are none."""
    ledger().close()
    Path("no.text").write_text("nothing")
    calls: list[Callable[[], Any]] = [
        *(lambda: repr(dp.Ledger.open("a.ledger")), lambda: dp.Ledger("a.ledger", "other", 2.0)),
        *(lambda: dp.Ledger.open("no.ledger"), lambda: dp.Ledger.open("no.text"), lambda: ledger(path="b", eps=0.0)),
        *(lambda: dp.glm("y ~ x", DATA, 1.0, ledger="no.ledger"), lambda: ledger(path="b", accountant="magic")),
        *(lambda: ledger(path="b", adjacency="x"), lambda: ledger(path="b/c"), lambda: ledger(path="b", domain=3)),
    ]
    return [attempt(call) for call in calls]


CODEBOOK = "".join(
    f"{name}: {{range: [{fact[0]}, {fact[1]}]}}\n" if isinstance(fact, tuple) else f"{name}: {{levels: {fact}}}\n"
    for name, fact in some("x", "z", "g", "y", "b", "c").items()
)
COMMANDS: dict[str, str] = {
    "plan": """plan 'y ~ x + g' --domain d.yaml --eps 1
        plan 'y ~ x' --domain d.yaml --eps 1 --json --rows 20000
        plan 'b ~ x' --domain d.yaml --eps 1 --family binomial --penalty lasso --alpha 3 --inference yes --delta 1e-6
        plan 'c ~ x' --domain d.yaml --eps 1 --family poisson --mean-cap 4 --y-max 8 --adjacency replace_one
        plan 'y ~ x' --domain d.yaml --eps 1 --residual-cap 2 --unit person --set max_rows=3 --inference no""",
    "fit": """fit 'y ~ x + g' rows.csv --domain d.yaml --eps 8 --set seed=1 --inference yes --output fit.json
        show fit.json
        show fit.json --full
        show fit.json --uncertainty
        show fit.json --format markdown
        show fit.json --format latex
        show fit.json --format html
        show fit.json --format json
        show fit.json --uncertainty --full
        fit 'y ~ x' rows.parquet --domain d.yaml --eps 8 --set seed=1 --json
        fit 'y ~ x + z' rows.csv --eps 8 --set seed=1 --full
        fit 'y ~ x + g' rows.csv --domain d.yaml --eps 8 --set seed=1 --output fit.json""",
    "paid": """ledger init a.ledger --dataset 'made up' --eps 1e9 --domain d.yaml
        ledger quota a.ledger --analyst Ada --eps 1e8
        ledger quota a.ledger --everyone-else --eps 0
        fit 'b ~ x' rows.csv --eps 1e6 --family binomial --ledger a.ledger --analyst Ada --output f.json --json
        check 'y ~ x + g' rows.csv --eps 1e6 --ledger a.ledger --analyst Ada --output check.json
        evaluate f.json rows.parquet --eps 1e7 --ledger a.ledger --analyst Ada --metrics accuracy --output e.json
        show check.json
        show e.json --format markdown
        show e.json --full
        ledger show a.ledger
        ledger html a.ledger --output r.html
        ledger export a.ledger --format csv
        ledger export a.ledger --format json
        ledger show a.ledger --json
        fit 'y ~ x' rows.csv --eps 1 --ledger a.ledger
        fit 'y ~ x' rows.csv --eps 1e9 --ledger a.ledger --analyst Ada
        plan 'b ~ x' --ledger a.ledger --eps 1 --family binomial""",
    "template": """template rows.parquet
        template rows.csv --output t.yaml
        template nothing.csv
        template rows.json""",
    "wrong": """nonsense
        --help
        fit --help
        ledger --help
        plan
        plan 'y ~ x' --eps one
        plan 'y ~ x' --eps 0
        plan 'y ~' --eps 1
        plan 'y ~ x' --eps 1 --family gamma
        plan 'y ~ x' --eps 1 --set screen
        plan 'y ~ x' --eps 1 --set eps=3
        plan 'y ~ x' --eps 1 --set curvatur=3
        plan 'y ~ x' --eps 1 --domain none.yaml
        plan 'y ~ x' --eps 1 --mean-cap 3
        plan 'y ~ x' --eps 1 --set moor=paper --penalty lasso --alpha 3 --domain d.yaml
        show none.json
        show rows.csv
        fit 'y ~ x' none.csv --eps 1 --domain d.yaml
        fit 'y ~ g' rows.csv --eps 1 --set seed=1
        fit 'y ~ .' rows.csv --eps 1
        plan 'y ~ x' --eps 1 --domain d.yaml --method statistics --set response=bought
        plan 'y ~ x' --eps 1 --domain d.yaml --set lam=3
        ledger show none.ledger
        ledger init rows.csv --dataset d --eps 1
        evaluate none.json rows.csv --eps 1""",
}


def typed(which: str) -> dict[str, Any]:
    """What ``python -m dpstats`` says to one command after another, and how each ends."""
    Path("d.yaml").write_text(CODEBOOK)
    DATA.to_csv("rows.csv", index=False)
    DATA.to_parquet("rows.parquet")
    found = {}
    for command in COMMANDS[which].split("\n"):
        out, err, status = io.StringIO(), io.StringIO(), None
        typed = mock.patch.object(sys, "argv", ["dpstats", *shlex.split(command)])
        with typed, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                runpy.run_module("dpstats", run_name="__main__")
            except SystemExit as ended:
                status = ended.code
        found[command.strip()] = {"status": status, "out": out.getvalue(), "err": err.getvalue()}
    return found


# ---- objects and pictures -------------------------------------------------------------------------------------------


def family(one: Any) -> dict[str, Any]:
    eta, response = np.linspace(-6, 6, 9), np.linspace(0, 1, 9)
    return {
        **{
            "stored": str(one.to_dict()),
            "again": repr(families.from_dict(one.to_dict())),
            "mean": one.mean(eta),
        },
        **{"bounds": [repr(one.lipschitz), repr(one.curvature_bound)]},
        "derivatives": list(one.derivatives(eta, response)),
    }


def penalty(one: Any) -> dict[str, Any]:
    value = attempt(lambda: one.value(np.linspace(-2, 2, 9), np.ones(9)))
    split = attempt(lambda: repr(penalties.split_curvature(one)))
    stored = {"stored": str(one.to_dict()), "again": repr(penalties.from_dict(one.to_dict()))}
    return {**stored, "value": value, "split": split, "facts": [one.convex, one.sparse]}


def law(noise: dp.Noise) -> list[Any]:
    density = noise.log_density(np.array([[0.5, 1.0]]))
    return [
        noise.to_dict(),
        [noise.expected_square(3), noise.norm_quantile(3, 0.95), density],
        repr(noise.scaled(3.0)),
    ]


def domains() -> list[Any]:
    """A Domain in every form."""
    whole, book = (
        dp.Domain(DOMAIN, flag=bool, code=["01", "2"]),
        "name,low,high,levels\nx,0,10,\ng,,,a|b\nflag,,,bool\n",
    )
    return [
        *(repr(whole), whole.to_json(), whole.to_dict(), whole.to_yaml(), whole.to_csv(), repr(whole["g"])),
        *(dp.Domain.from_json(whole.to_json()) == whole, dp.Domain.from_yaml(whole.to_yaml()) == whole),
        *(repr(dp.Domain.from_csv(book)), repr(dp.Domain.from_yaml(CODEBOOK)), dp.Domain.from_csv(book).to_csv()),
        *(repr(whole | {"x": (0, 5)}), repr(whole.with_(new=["u", "v"])), whole.matches(whole)),
    ]


def noisy(data: list[float], rng: np.random.Generator) -> float:
    return sum(data) + float(np.floor(rng.random() * 8)) / 4


def drawn(axes: Any) -> dict[str, Any]:
    """What a picture shows and says."""
    from matplotlib import pyplot

    found = {}
    for place, one in enumerate(np.atleast_1d(np.array(axes, dtype=object)).ravel()):
        texts = [text.get_text() for text in (*one.texts, *one.figure.texts) if text.get_text()]
        legend = one.get_legend()
        found[str(place)] = {
            **{"title": one.get_title(), "x": one.get_xlabel(), "y": one.get_ylabel(), "texts": texts},
            **{"legend": [text.get_text() for text in legend.get_texts()] if legend else None},
            **{"picture": [np.asarray(line.get_xydata(), dtype=float) for line in one.get_lines()]},
            **{"ticks": [tick.get_text() for tick in one.get_yticklabels()]},
            **{"parts": len(one.patches) + len(one.collections)},
        }
    pyplot.close("all")
    return found


# ---- refusals -------------------------------------------------------------------------------------------------------

BAD: dict[str, Any] = {
    **{"None": None, "text": "nonsense", "empty": "", "negative": -1, "zero": 0.0, "nan": float("nan"), "large": 1e300},
    **{"flag": True, "list": [], "mapping": {}, "class": int, "series": pd.Series([1.5, 2.5], name="private")},
}
BAD_DOMAINS: tuple[Any, ...] = (
    *({"x": (1, 1)}, {"x": (2, 1)}, {"x": (0, float("inf"))}, {"x": (float("nan"), 1)}, {"x": (0, 1, 2)}, {"x": 3}),
    *({"g": []}, {"g": ["a", "a"]}, {"g": ["a", None]}, {"g": [["a"]]}, {"x": {1, 2}}, {"x": pd.Series([1.0, 2.0])}),
    *({"x": [0, 1e400]}, {3: (0, 1)}, {"x": (0, 1e300)}, {"x": "0-1"}, {"x": [1, True]}, {"x": np.array([1, 2])}, 3),
)
BAD_CODEBOOKS = ("", "{", "x: 3", "name,low\nx,1", "name,low,high,levels\nx,2,1,", "none.file", "x: {range: [1]}")
BAD_FRAMES: dict[str, Callable[[], Any]] = {
    **{"missing column": lambda: DATA.drop(columns="x"), "twice": lambda: pd.concat([DATA, DATA[["x"]]], axis=1)},
    **{"empty": pd.DataFrame, "number": lambda: 17, "none": lambda: None, "no file": lambda: "no.parquet"},
    **{"other file": lambda: "no.xlsx", "text undeclared": lambda: DATA.assign(x="a"), "one": lambda: iter([DATA])},
    **{"dates": lambda: DATA.assign(x=pd.Timestamp("2020-01-01")), "complex": lambda: DATA.assign(x=1j)},
    **{"two heads": lambda: DATA.set_axis(pd.MultiIndex.from_product([["a"], DATA.columns]), axis=1)},
    **{"lengths": lambda: {"x": [1.0], "y": [1.0, 2.0], "z": [0.5], "g": ["a"]}, "rows": lambda: [[1, 2], [3, 4]]},
}
SAVED = (
    *(dp.GLMResults, dp.Evaluation, dp.Check, dp.Selection, dp.ReleasedStatistics, dp.StatisticsResults),
    *(streaming.StreamResults, dp.local.LocalResults),
)


def refused_by(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """The error, or that the call was taken."""
    try:
        call(*arguments, **named)
    except dp.errors.DPStatsError as error:
        return error
    except Exception as error:
        return f"no error of dpstats: {type(error).__name__}"
    return "taken"


def refused(formula: str, *, eps: Any = 1.0, **arguments: Any) -> Any:
    return refused_by(dp.glm, formula, DATA, eps, **{"domain": DOMAIN, **arguments})


def wrong(call: Callable[..., Any], **right: Any) -> dict[str, Any]:
    """What becomes of one wrong argument after another; of `right` what the call takes."""
    kinds = ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY")
    named = [one.name for one in inspect.signature(call).parameters.values() if one.kind.name in kinds]
    right = {name: value for name, value in right.items() if name in named}
    asked = [name for name in named if name not in ("progress", "n_jobs", "mechanism", "path", "data", "memory", "ax")]
    found = {f"{name}={kind}": refused_by(call, **{**right, name: bad}) for name in asked for kind, bad in BAD.items()}
    return {name: said for name, said in found.items() if said != "taken"}


def unreadable() -> list[Any]:
    """Files that are no results."""
    found = [refused_by(dp.GLMResults.load, "none.json")]
    for kind in SAVED:
        for text in ("", "{}", '{"format": 2}', '{"format": 1, "kind": "Check"}'):
            Path("f.json").write_text(text)
            found.append(refused_by(kind.load, "f.json"))
    return found


# ---- files of an earlier version ------------------------------------------------------------------------------------

ARTEFACTS = Path(__file__).parent / "artefacts_2e4dd80"


def copied(name: str) -> str:
    """A copy of a file of the earlier version, or of a folder."""
    shutil.copytree(ARTEFACTS, "kept", dirs_exist_ok=True)
    return f"kept/{name}"


def loaded(kind: Any, name: str) -> dict[str, Any]:
    """What was saved, what it prints in full, what it answers, and whether it is kept as it is."""
    found = kind.load(copied(name))
    full = found.summary(full=True).as_text() if isinstance(found, (dp.GLMResults, streaming.StreamResults)) else None
    return {
        "": found,
        "full": full,
        "predict": attempt(lambda: found.predict(NEW)) if hasattr(found, "predict") else None,
        "saved": again(found),
    }


def kept_domain() -> dp.Domain:
    return dp.Domain.from_json(Path(copied("domain.json")).read_text())


def kept_plan() -> dp.Plan:
    return dp.Plan.from_dict(json.loads(Path(copied("plan.json")).read_text()))


def kept_ledger(name: str) -> dict[str, Any]:
    with dp.Ledger.open(copied(name)) as book:
        beyond = attempt(lambda: book.signed("Ada").charge(dp.Guarantee(50.0, unit=book.unit), label="beyond"))
        book.charge(dp.Guarantee(0.25, unit=book.unit), label="one more")
        return {"beyond": beyond, **book_of(book)}


def kept_stream(noise: str) -> dict[str, Any]:
    """A stream that goes on where the earlier version has left it, under its ledger."""
    with dp.Ledger.open(copied(f"{noise}.ledger")) as book:
        given: dict[str, Any] = {"sums": noise, "state": f"kept/{noise}.state", "ledger": book}
        made = streaming.Regression(MODEL, DOMAIN, 10.0, 1e-6, horizon=8, **given)
        before = {"tick": made.tick, "label": made.label, "params": made.params, "history": made.history}
        more = made.update(DATA.head(200), label="third").params.index.tolist()
        charges = len(book.entries())
        return {**before, "plan": made.plan(), "more": more, "results": made.between(0, 2), "charges": charges}


def kept_reports(name: str) -> dict[str, Any]:
    folder = copied(name)
    made = dp.local.Spec.from_json(Path(f"{folder}/spec.json").read_text())
    found = dp.local.fit(f"{folder}/reports.jsonl", made)
    other = dp.local.fit(f"{folder}/reports.parquet", made)
    total = dp.local.total(f"{folder}/reports.jsonl", made)
    halves = [list(dp.local.read(f"{folder}/reports.jsonl"))[place::2] for place in (0, 1)]
    summed = dp.local.total(halves[0], made) + dp.local.total(halves[1], made)
    return {
        **{"spec": made, "fit": found, "same": bool((found.scaled_params == other.scaled_params).all())},
        **{
            "total": total,
            "against": attempt(lambda: found.against(3)),
            "summed": bool((summed.values == total.values).all()),
        },
        **{"loaded": dp.local.LocalResults.load(f"{folder}/fit.json"), "predict": found.predict(NEW)},
        "twice": attempt(lambda: dp.local.fit([*halves[0], *halves[0]], made)),
        "few": attempt(lambda: dp.local.fit(halves[0], made)),
    }

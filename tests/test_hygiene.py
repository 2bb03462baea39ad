"""Canaries planted in the data never reach anything that leaves a public call.

Looked at: standard output and error, log records, warnings, errors with their notes and causes, reprs, tables, pickles,
saved files, the ledger's files and temporary files. The canaries are cells that no correct release can reproduce.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pickle
import re
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats import cli

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

NUMBER = 7316549.0
TEXT = "canary-cell"
ROWS = 3173
CELLS = re.compile(rf"{NUMBER:.0f}|7\.316549|7\.31655e|7\.317e|{TEXT}".encode())
LENGTH = re.compile(rf"(?<![\d.eE-]){ROWS}(?![\d.])".encode())
PATTERN = re.compile(b"|".join([CELLS.pattern, LENGTH.pattern]))

DOMAIN = {"y": (-5, 5), "x": (0, 10), "g": ["a", "b"], "b": (0, 1), "count": (0, 9)}


class Loud:
    """A cell that shouts whenever anyone converts it."""

    def __float__(self) -> float:
        raise ValueError(TEXT)

    def __str__(self) -> str:
        raise TypeError(TEXT)

    __repr__ = __str__

    def __hash__(self) -> int:
        raise TypeError(TEXT)


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    levels, mixed = rng.choice(["a", "b"], ROWS).astype(object), rng.uniform(0, 10, ROWS).astype(object)
    levels[4], levels[5] = TEXT, Loud()
    mixed[6], mixed[7] = Loud(), [TEXT, NUMBER]
    numbers = {
        "y": rng.normal(size=ROWS),
        "x": rng.uniform(0, 10, ROWS),
        "b": rng.integers(0, 2, ROWS).astype(float),
        "count": rng.poisson(2, ROWS).astype(float),
    }
    for column in numbers.values():
        column[3] = NUMBER
    objects = {"g": pd.Series(levels, dtype=object), "mixed": pd.Series(mixed, dtype=object)}
    return pd.DataFrame({**numbers, **objects}).set_axis([f"{TEXT}-{row}" for row in range(ROWS)])


def fit(formula: str = "y ~ x + g", **arguments: Any) -> Callable[[Path], Any]:
    return lambda folder: dp.glm(formula, frame(), 1.0, **{"domain": DOMAIN, **arguments})


def saved(folder: Path) -> Any:
    result = fit()(folder)
    result.save(folder / "result.json")
    return dp.GLMResults.load(folder / "result.json")


def with_ledger(folder: Path) -> Any:
    with dp.Ledger(folder / "ledger.db", dataset="d", eps=9.0) as ledger:
        dp.glm("y ~ x + g", frame(), 1.0, domain=DOMAIN, ledger=ledger)
        part = ledger.partition("g", ["a", "b"])["a"]
        dp.glm("y ~ x", frame(), 1.0, domain=DOMAIN, ledger=part)
        dp.buy_ranges(frame(), ["x"], 1.0, ledger=ledger)
        with contextlib.suppress(dp.errors.DPStatsError):
            dp.glm("y ~ x", frame(), 100.0, domain=DOMAIN, ledger=ledger)
        cli.main(["ledger", "show", str(folder / "ledger.db")])
        return ledger.entries(), ledger.report()


def many(folder: Path) -> Any:
    fits = dp.plan_many({"one": "y ~ x", "two": {"formula": "b ~ x", "family": "binomial"}}, None, 2.0).fit(frame())
    return list(fits.values())


def arrays(folder: Path) -> Any:
    data = frame()
    return dp.GLM(data["b"], data[["x", "y"]], family="binomial", row_norm=1.0).fit(1.0)


def evaluated(formula: str, family: str) -> Callable[[Path], Any]:
    def call(folder: Path) -> Any:
        found = dp.evaluate(fit(formula, family=family)(folder), frame(), 1.0)
        found.save(folder / "evaluation.json")
        return [found, found.to_dict(), *(str(table) for table in (found.metrics, found.roc, found.residuals))]

    return call


def compared(folder: Path) -> Any:
    found = dp.evaluate(fit("y ~ x + g")(folder), frame(), 1.0, against=fit("y ~ x")(folder))
    return [found, found.to_dict(), str(found.metrics)]


def checked(folder: Path) -> Any:
    found = dp.check("y ~ x + g + mixed", frame(), {**DOMAIN, "mixed": (0, 10)}, 0.1)
    found.save(folder / "check.json")
    return [found, found.to_dict(), str(found.table), str(found.totals), found.findings]


def held_out(folder: Path) -> Any:
    with dp.Ledger(folder / "ledger.db", dataset="d", eps=9.0) as ledger:
        split = dp.holdout(frame(), 0.3, ledger=ledger)
        dp.glm("y ~ x", frame(), 1.0, domain=DOMAIN, ledger=split.train_ledger)
        with contextlib.suppress(dp.errors.LedgerError):
            dp.holdout(frame(), 0.2, ledger=ledger)
        return [ledger.report(), repr(split), repr(split.test), split.by]


def statistics(folder: Path) -> Any:
    found = dp.release_statistics(DOMAIN, ["y", "x", "g"], 1.0, data=frame(), delta=1e-6)
    fits = [found.fit("y ~ x + g"), found.fit("x ~ g", penalty="lasso", alpha=1.0)]
    found.save(folder / "statistics.json")
    fits[0].save(folder / "fit.json")
    return [found, *fits, fits[0].conf_int()]


def reports(folder: Path) -> Any:
    """What follows from reports; these themselves are integers of which any may look like a canary."""
    records = frame().head(150).to_dict("records")
    spec = dp.local.Spec(DOMAIN, "y ~ x + g", eps=1.0, delta=1e-6, n=150)
    found = dp.local.fit([dp.local.randomize(record, spec) for record in records], spec)
    found.save(folder / "local.json")
    with contextlib.suppress(dp.errors.DataError):
        dp.local.randomize({"x": NUMBER, "g": TEXT}, spec)
    return [spec, found, found.params, found.guarantees, found.tidy(), found.summary().as_html()]


def chosen(folder: Path) -> Any:
    fits = [fit()(folder), fit("y ~ x")(folder)]
    found = [
        dp.select(fits, "absolute_error", frame(), eps=1.0),
        dp.select(["x > 3", "g == 'a'"], "candidate != (b > 0)", frame(), domain=DOMAIN, eps=1.0),
    ]
    found[0].save(folder / "choice.json")
    return [found[1], *(str(item.utility(n=1e4)) for item in found), found[1].summary().as_html()]


def table() -> Any:
    """The frame as Arrow has it, cells that shout as text."""
    cells = {name: column if column.dtype == float else column.map(as_text) for name, column in frame().items()}
    return pa.table({name: pa.array(list(column)) for name, column in cells.items()})


def as_text(cell: object) -> str:
    return cell if isinstance(cell, str) else f"{cell:.6f}" if isinstance(cell, float) else TEXT


def from_file(name: str, **arguments: Any) -> Callable[[Path], Any]:
    """Calls on a file, which is not there afterwards."""

    def call(folder: Path) -> Any:
        path = folder / name
        if name.endswith(".csv"):
            table().to_pandas().to_csv(path, index=False)
            with path.open("ab") as file:
                file.write(f'{NUMBER},"{TEXT}\n{TEXT}\n{TEXT},'.encode() + b"\xff,1,2,a,1\n")
        else:
            pq.write_table(table(), path)
        try:
            found = [dp.glm("y ~ x + g", path, 1.0, **{"domain": DOMAIN, **arguments})]
            split = dp.holdout(path, 0.3)
            found.append(dp.evaluate(found[0], split.test, 1.0))
            return [*found, repr(split), repr(split.test), dp.check("y ~ x + g + mixed", path, DOMAIN, 0.1)]
        finally:
            path.unlink()

    return call


def queries(folder: Path) -> Any:
    found = []
    for data in (pl.from_arrow(table()).lazy(), duckdb.connect().from_arrow(table()), table().to_reader()):
        found.append(dp.glm("y ~ x + g", data, 1.0, domain=DOMAIN))
    strict = pl.from_arrow(table()).lazy().with_columns(pl.col("g").cast(pl.Float64))
    relation = duckdb.connect().from_arrow(table()).project("y, cast(g as double) g")
    for data in (strict, relation):
        try:
            dp.glm("y ~ g", data, 1.0, domain={"y": (-5, 5), "g": (0, 1)})
        except dp.errors.ReleaseError as error:
            found.append(b"".join(told(error)))
    assert len(found) == 5
    return found


def tuned(folder: Path) -> Any:
    grid = {"curvature": [50.0, 500.0]}
    arguments: dict[str, Any] = {"eps": 3.0, "family": "binomial", "domain": DOMAIN}
    found = [
        dp.tune("b ~ x + g", frame(), grid, strategy=strategy, **arguments) for strategy in ("stopping", "all", "parts")
    ]
    found[0].fit.save(folder / "tuned.json")
    pieces = [[str(one), repr(one), one.budget, one.fit, one.plan.table, one.summary().as_html()] for one in found]
    return [piece for one in pieces for piece in one]


CALLS: dict[str, Callable[[Path], Any]] = {
    "gaussian": fit(),
    "gaussian noise": fit(delta=1e-6),
    "binomial": fit("b ~ x + g", family="binomial"),
    "poisson": fit("count ~ x + g", family="poisson"),
    "svm": fit("b ~ x", family="huber_svm"),
    "objects": fit("y ~ mixed", domain={"y": (-5, 5), "mixed": (0, 10)}),
    "bought ranges": fit("y ~ x", domain={"y": (-5, 5)}),
    "splines": fit("y ~ bs(x, df=4) + np.log(x)"),
    "weights": fit(weights="count + mixed", offset="mixed", domain={**DOMAIN, "mixed": (0, 10)}),
    "exposure": fit("count ~ g", family="poisson", exposure="x", weights="b"),
    "trials": fit("count + b ~ x", family="binomial"),
    "weights of an array": fit(weights=np.full(9, NUMBER)),
    "wrong weights": fit(weights="y - 9"),
    "lasso": fit(penalty="lasso", alpha=1.0, selection="noise_aware", refit_share=0.3),
    "two stages": fit(stages=2),
    "absorbed": fit("y ~ x | g"),
    "absorbed, of groups": fit("y ~ x | g", unit="g"),
    "absorbed objects": fit("y ~ x | mixed"),
    "seeded": fit(seed=1),
    "paper": fit("y ~ x", moor="paper", penalty="lasso", alpha=1.0, allow_uncertified=True),
    "augmented": fit("y ~ x", realization="augmented", allow_uncertified=True),
    "undeclared levels": fit(domain={"y": (-5, 5), "x": (0, 10)}),
    "missing column": fit("y ~ nowhere"),
    "Parquet": from_file("rows.parquet"),
    "Parquet, little memory": from_file("rows.parquet", memory=1000),
    "CSV": from_file("rows.csv"),
    "CSV, ranges bought": from_file("rows.csv", domain={"y": (-5, 5), "g": ["a", "b"]}),
    "queries": queries,
    "not row-wise": fit("y ~ x - x.mean()"),
    "wrong domain": fit(domain={**DOMAIN, "x": (1, 0)}),
    "saved": saved,
    "ledger": with_ledger,
    "many": many,
    "arrays": arrays,
    "evaluation": evaluated("y ~ x + g", "gaussian"),
    "evaluation, binomial": evaluated("b ~ x + g", "binomial"),
    "evaluation, poisson": evaluated("count ~ x + g", "poisson"),
    "evaluation of two models": compared,
    "check": checked,
    "holdout": held_out,
    "statistics": statistics,
    "reports": reports,
    "choice": chosen,
    "evaluation, weights": evaluated("count ~ g + offset(np.log(x)) + weights(b)", "poisson"),
    "tuning": tuned,
}


def shown(value: Any) -> Iterator[bytes]:
    """Every way to look at what a call returned."""
    for part in value if isinstance(value, (list, tuple)) else [value]:
        yield repr(part).encode()
        yield str(part).encode()
        yield pickle.dumps(part)
        if isinstance(part, dp.GLMResults):
            summary = part.summary()
            yield (summary.as_text() + summary.as_html() + summary.as_latex()).encode()
            yield repr([part.params, part.budget, part.selection, part.guarantee, part.plan, part.tidy()]).encode()
            yield repr([part.glance().T, part.excess_risk(), part.noise, part.plan.to_dict()]).encode()


def told(error: BaseException) -> Iterator[bytes]:
    """An error as a traceback shows it, without the source lines of this test."""
    for link in (error, error.__cause__, error.__context__ if not error.__suppress_context__ else None):
        if link is not None:
            yield "".join(traceback.format_exception_only(link)).encode()


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_no_canary_leaves(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A noisy count of rows is their exact number in about one call of a hundred, hence in all of three in 1e-6."""
    caplog.set_level(logging.DEBUG)
    for attempt in ("first", "second", "third"):
        folder = tmp_path / attempt
        folder.mkdir()
        caplog.clear()
        left = leaving(name, folder, monkeypatch, caplog)
        for piece in left:
            assert not CELLS.search(piece), CELLS.search(piece)
        if not any(LENGTH.search(piece) for piece in left):
            return
    pytest.fail("the number of rows leaves")


def leaving(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[bytes]:
    """All that a call leaves behind."""
    temporary = folder / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.chdir(folder)
    output, left = io.StringIO(), list[bytes]()
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(output):
        warnings.simplefilter("always")
        with contextlib.redirect_stderr(output):
            try:
                left += shown(CALLS[name](folder))
            except dp.errors.DPStatsError as error:
                left += told(error)
    assert not warned
    assert not list(temporary.iterdir())
    assert os.environ["TMPDIR"] == str(temporary)
    left += [output.getvalue().encode(), caplog.text.encode()]
    return left + [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def test_the_search_finds_a_leak() -> None:
    """The same look at a result that carries a cell, and at one that carries the number of rows."""
    with pytest.raises(TypeError):
        str(Loud())
    for leak in (
        frame().drop(columns=["g", "mixed"]),
        ValueError(f"bad cell {NUMBER}"),
        {"nobs": ROWS},
        f"level {TEXT}",
    ):
        pieces = list(told(leak)) if isinstance(leak, Exception) else list(shown(leak))
        assert any(PATTERN.search(piece) for piece in pieces)


def test_models_keep_their_rows_to_themselves() -> None:
    """A model must hold its rows until it is fitted; it neither prints them nor can be pickled with them."""
    data = frame()
    for model in (dp.GLM(data["b"], data[["x", "y"]], row_norm=1.0), dp.GLM.from_formula("y ~ x", data, domain=DOMAIN)):
        assert not PATTERN.search(repr(model).encode())
        assert not PATTERN.search(str(model).encode())
        with pytest.raises(dp.errors.DataError, match="pickle"):
            pickle.dumps(model)

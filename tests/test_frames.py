"""Every table that a public object returns prints whole at 80 columns, and is a plain DataFrame once worked on."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.frames import LONGEST, EffectFrame, ForecastFrame, LogFrame, SpendingFrame, WideFrame

ROWS = 400
RNG = np.random.default_rng(1)
FRAME = pd.DataFrame(
    {
        "age_of_patient": RNG.uniform(18, 90, ROWS),
        "ward": RNG.choice(["surgery", "general medicine", "burns and plastic"], ROWS),
        "readmitted": RNG.integers(0, 2, ROWS),
        "pressure": RNG.uniform(80, 200, ROWS),
    }
)
DOMAIN = dp.Domain(
    age_of_patient=(18, 90),
    ward=["surgery", "general medicine", "burns and plastic"],
    readmitted=[0, 1],
    pressure=(60, 220),
)
FORMULA = "pressure ~ age_of_patient * ward"
LABEL = "the second model of the report on pressures that the committee asked for, with interactions"


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ledger = dp.Ledger(tmp_path_factory.mktemp("books") / "ledger.db", dataset="stays", eps=50.0, delta=1e-5)
    linear = dp.ols(FORMULA, FRAME, eps=4.0, domain=DOMAIN, inference=True, ledger=ledger, label=LABEL, analyst="Ada")
    binary = dp.logit("readmitted ~ age_of_patient + ward", FRAME, eps=4.0, domain=DOMAIN)
    plan = dp.plan(FORMULA, DOMAIN, 1.0, inference=True)
    sums = dp.release_statistics(DOMAIN, ["pressure", "age_of_patient"], 1.0, data=FRAME)
    tuning = dp.plan_tuning("readmitted ~ ward", DOMAIN, eps=1.0, grid={"curvature": [1.0, 2.0]}, family="binomial")
    stream = dp.streaming.Regression(FORMULA, DOMAIN, eps=1.0, delta=1e-6, horizon=8)
    tick = stream.update(FRAME)
    return {
        "ledger": ledger,
        "linear": linear,
        "binary": binary,
        "tests of terms": linear.wald_test_terms(),
        "test": linear.t_test("age_of_patient = 0"),
        "prediction": linear.get_prediction(FRAME.head(3)),
        "plan": plan,
        "etable": dp.etable([linear, binary]),
        "evaluation": dp.evaluate(linear, FRAME, eps=1.0),
        "classes": dp.evaluate(binary, FRAME, eps=1.0),
        "check": dp.check(FORMULA, FRAME, eps=1.0, domain=DOMAIN),
        "comparison": dp.compare(FORMULA, DOMAIN, 1.0, n=500),
        "errors' size": dp.sample_size(plan, se={"age_of_patient": 0.5}),
        "size": dp.sample_size("binomial", 3, eps=1.0, target=0.1, radius=1.0),
        "statistics": sums,
        "absorbed": dp.ols("pressure ~ age_of_patient | ward", FRAME, eps=4.0, domain=DOMAIN),
        "absorbed, planned": dp.plan("pressure ~ age_of_patient | ward", DOMAIN, eps=4.0),
        "of statistics": sums.fit("pressure ~ age_of_patient"),
        "tuning": tuning,
        "stream": stream,
        "stream's plan": stream.plan,
        "tick": tick,
    }


def tables(owner: Any) -> Iterator[tuple[str, pd.DataFrame]]:
    """Every table among the public attributes and the methods that need no argument."""
    for name in (name for name in dir(owner) if not name.startswith("_")):
        try:
            value = getattr(owner, name)
            if inspect.ismethod(value) and "DataFrame" in str(inspect.signature(value).return_annotation):
                required = [p for p in inspect.signature(value).parameters.values() if p.default is p.empty]
                value = None if required else value()
        except dp.errors.DPStatsError:
            continue
        if isinstance(value, pd.DataFrame):
            yield name, value


@pytest.mark.slow
def test_all_tables_of_all_objects_print_whole(objects: dict[str, Any]) -> None:
    seen = set()
    for owner, held in objects.items():
        for name, table in tables(held):
            seen.add(name)
            assert isinstance(table, WideFrame), (owner, name)
            told = repr(table)
            assert max(map(len, told.splitlines())) <= 80, (owner, name)
            assert " ... " not in told, (owner, name)
            assert all(str(column) in told for column in table.columns.get_level_values(0)), (owner, name)
    expected = {"tidy", "glance", "anova", "uncertainty", "budget", "entries", "spending", "history", "metrics"}
    assert expected | {"curves", "table", "frame", "located", "cov_params", "summary_frame"} <= seen


@pytest.mark.slow
def test_a_forecast_prints_whole(objects: dict[str, Any]) -> None:
    for table in (objects["plan"].standard_errors(500), objects["plan"].excess_risk(n=500, printed=True)):
        assert isinstance(table, WideFrame)
        assert max(map(len, repr(table).splitlines())) <= 80


def test_a_label_is_never_cut(objects: dict[str, Any]) -> None:
    told = repr(objects["ledger"].entries())
    assert len(LABEL) > LONGEST
    assert " ".join(LABEL.split()[:5]) in told
    assert LABEL.split()[-1] in told
    assert "..." not in told


def test_long_texts_go_on_below() -> None:
    table = WideFrame(
        {"a": [1.5, np.nan], "b": ["word " * 20, None], "c": ["q" * 70, ""]}, index=pd.Index([7, 8], name="n")
    )
    lines = repr(table).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.split().count("word") for line in lines) == 20
    assert sum(line.count("q") for line in lines) == 70
    assert sum(line.startswith(("7 ", "8 ")) for line in lines) == 4  # each name once a block of columns


def test_what_is_made_of_it_is_plain() -> None:
    table = WideFrame({"a": [1, 2], "b": ["x", "y"]})
    for made in (table.copy(), table[["a"]], table.head(1), table.assign(c=1), table.set_index("a"), table.T):
        assert type(made) is pd.DataFrame
    assert type(table["a"]) is pd.Series
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(table)), table)
    assert table.equals(pd.DataFrame(table))
    assert repr(WideFrame()) == repr(pd.DataFrame())
    for frame in (WideFrame, LogFrame):
        written = repr(frame(columns=[f"column_{place}" for place in range(30)]))
        assert "column_29" in written
        assert max(map(len, written.splitlines())) <= 80
    assert WideFrame(table).to_html() == pd.DataFrame(table).to_html()


def test_rows_beyond_pandas_limit_are_left_out_as_pandas_does() -> None:
    table = WideFrame({"a": range(500), "b": ["long " * 30] * 500})
    assert "[500 rows x 2 columns]" in repr(table)


def test_entries_of_a_log_have_a_line_each() -> None:
    entries = {
        "eps": [0.5, 1.25, 0.1],
        "delta": [0.0, 0.0, 0.0],
        "label": ["a count", "a model", "\x1b[31m a survey of many words" + " again" * 20],
        "formula": ["y ~ x", "y ~ x + z", None],
        "plan_hash": ["0e" * 32, None, "1f" * 32],
        "time": pd.to_datetime(["2026-01-02 03:04:05.678"] * 3, utc=True),
        "analyst": ["Ada", None, "A name of an analyst that goes on and on"],
    }
    table = LogFrame(entries, index=pd.Index([1, 2, 3], name="entry"))
    lines = repr(table).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2].split() == ["1", "2026-01-02", "03:04", "0.5", "Ada", "a", "count;", "y", "~", "x"]
    assert " ".join(lines[3].split()[3:]) == "1.25 a model; y ~ x + z"
    assert sum(line.split().count("again") for line in lines) == 20
    assert "\x1b" not in repr(table)
    assert "0e0e" not in repr(table)
    assert lines[-1] == "[3 rows x 7 columns; not printed: delta, plan_hash]"
    assert type(table[["eps"]]) is type(table.copy()) is pd.DataFrame
    assert repr(LogFrame()) == repr(pd.DataFrame())
    assert "label" in repr(table.assign(formula=None).pipe(LogFrame)).splitlines()[0]
    long = repr(LogFrame({"eps": [0.1] * 500, "label": ["count"] * 500}))
    assert len(long.splitlines()) == 1 + 5 + 1 + 5 + 1
    assert "[500 rows x 2 columns]" in long


def test_a_forecast_prints_ends_that_differ() -> None:
    columns = {"std_error": [0.5, np.inf], "lower": [0.5, np.inf], "upper": [0.5, np.inf], "identified": [1.0, 0.2]}
    same = ForecastFrame({**columns, "identified_upper": [1.0, 0.2]}, index=["x", "z"])
    assert repr(same).splitlines()[0].split() == ["std_error", "identified"]
    assert repr(same).splitlines()[-1] == "lower, upper: as std_error; identified_upper: as identified"
    apart = ForecastFrame({**columns, "upper": [0.6, np.inf]})
    assert repr(apart).splitlines()[0].split() == ["std_error", "upper", "identified"]
    assert list(same.columns) == [*columns, "identified_upper"]


def test_a_table_of_spending_prints_what_there_is() -> None:
    """Zeros are figures, except of delta where everything is pure; nothing is lost from the frame."""
    figures = {"entries": 2, "eps": 0.0, "delta": 0.0, "rho": np.nan, "remaining_eps": 0.0, "remaining_delta": 0.0}
    facts = {name: [value] for name, value in figures.items()}
    table = SpendingFrame(facts, index=["Ada"])
    assert repr(table).splitlines()[0].split() == ["entries", "eps", "remaining_eps"]
    assert repr(table).endswith("not printed: delta, rho, remaining_delta")
    assert "remaining_delta" in repr(SpendingFrame({**facts, "delta": [1e-6]}, index=["Ada"])).splitlines()[0]
    assert list(table) == list(facts)


def test_effects_print_four_digits_on_one_line() -> None:
    figures = {"estimate": 0.0874781, "std_error": 0.000685123, "statistic": 127.70703, "p_value": 1.8e-150}
    ends = {"conf_low": 0.0861361, "conf_high": 12_345.678}
    table = EffectFrame({"term": ["x"], "contrast": ["+1"], **{name: [at] for name, at in (figures | ends).items()}})
    _, line = repr(table).splitlines()
    assert line.split() == ["0", "x", "+1", "0.08748", "0.0006851", "127.7", "<1e-16", "0.08614", "12,346"]
    none = EffectFrame({"estimate": [0.0, 1.0], "std_error": [0.5, np.inf], "p_value": [0.0, np.nan]})
    for zero in (none, none.assign(std_error=0.5).pipe(EffectFrame)):
        assert repr(zero).splitlines()[1].split() == ["0", "0", "0.5", "<1e-16"], "of a p-value alone"
        assert "&lt;1e-16" in zero._repr_html_()
        assert zero["p_value"][0] == 0
    with pd.option_context("display.float_format", "{:.1f}".format):
        assert "127.7" in repr(table)
        assert "0.08748" not in repr(table)


def test_effects_and_their_ends_are_told_apart() -> None:
    """A ratio for a unit of an income is near 1; rows of wider intervals keep their four digits."""
    ratios = {"estimate": [0.9999792, 1.00004], "std_error": [9.7e-7, 0.0026], "p_value": [1e-9, 0.9]}
    table = EffectFrame(ratios | {"conf_low": [0.9999773, 0.995], "conf_high": [0.9999811, 1.00513]})
    for rows in (table, EffectFrame(pd.concat([table, table.head(1).assign(std_error=np.inf)]))):
        lines = repr(rows).splitlines()
        assert lines[1].split() == ["0", "0.9999792", "9.7e-07", "1e-09", "0.9999773", "0.9999811"]
        assert lines[2].split() == ["1", "1", "0.0026", "0.9", "0.995", "1.005"]
        assert "0.9999773" in rows._repr_html_()
    with pd.option_context("display.float_format", "{:.2f}".format):
        assert repr(table).splitlines()[1].split() == ["0", "1.00", "0.00", "0.00", "1.00", "1.00"]


def test_latex_has_the_digits_that_are_printed_and_signs_as_text(tmp_path: Path) -> None:
    """It was a table of pandas: p-values of 0.000000, and names such as std_error, which LaTeX does not read."""
    lines = {"term": ["a<b_c", "x"], "estimate": [0.0298712, 12345.678], "std_error": [0.00693512, 35.0]}
    table = EffectFrame(pd.DataFrame({**lines, "p_value": [2.28312e-9, 0.0]}))
    text = table.to_latex(index=False)
    assert r"a\textless{}b\_c & 0.02987 & 0.006935 & 2.283e-09 \\" in text
    assert r"x & 12,346 & 35 & \textless{}1e-16 \\" in text
    assert r"std\_error" in text
    assert "0.0299" in table.to_latex(float_format="%.4f")
    table.to_latex(tmp_path / "table.tex", index=False)
    assert (tmp_path / "table.tex").read_text() == text

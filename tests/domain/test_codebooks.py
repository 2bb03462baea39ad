"""A Domain written down elsewhere: codebooks, types that list levels, templates."""

from __future__ import annotations

import enum
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import dpstats as dp
from dpstats.domain import Levels, Range, as_number, codebook
from dpstats.domain.codebook import yaml_template_of
from dpstats.errors import DataError, DomainError

DECLARED = dp.Domain({"hours per week": (1, 99)}, age=(17, 90), bmi=(10.5, 80), sex=["F", "M"], code=["1", "2", "30"])

CSV = """variable,Min,Max,values
hours per week,1,99,
age,17,90,

bmi,10.5,80,
sex,,,F|M
code,,,1 | 2|30
"""

YAML = """
hours per week: {range: [1, 99]}
age: {range: [17, 90]}
bmi: {range: [10.5, 80]}
sex: [F, M]
code: {levels: ["1", "2", "30"]}
"""


def test_codebooks_declare_what_a_domain_does(tmp_path: Path) -> None:
    (tmp_path / "book.csv").write_text(CSV, encoding="utf-8-sig")
    (tmp_path / "book.yaml").write_text(YAML)
    assert dp.Domain.from_csv(tmp_path / "book.csv") == DECLARED
    assert dp.Domain.from_yaml(str(tmp_path / "book.yaml")) == DECLARED


def test_a_point_tells_a_share_from_a_column_of_0_and_1() -> None:
    yaml = "share: {range: [0.0, 1.0]}\ncode: {range: [0, 1]}\nage: {range: [17.0, 90.0]}\n"
    csv = dp.Domain.from_csv("name,low,high\nshare,0.0,1.0\ncode,0,1\nage,17.0,90.0\n")
    for read in (csv, dp.Domain.from_yaml(yaml), dp.Domain.from_csv(csv.to_csv()), dp.Domain.from_yaml(csv.to_yaml())):
        shown = "Domain({'share': (0.0, 1.0), 'code': (0, 1), 'age': (17, 90)})"
        assert repr(read) == shown
        assert [read[name].is_binary for name in read] == [False, True, False]


def test_points_that_pandas_wrote_tell_nothing() -> None:
    book = pd.DataFrame({"name": ["smoker", "age", "sex"], "low": [0, 17, None], "high": [1, 90, None]})
    text = book.assign(levels=[None, None, "f|m"]).to_csv(index=False)
    assert "smoker,0.0,1.0" in text
    assert repr(dp.Domain.from_csv(text)) == "Domain({'smoker': (0, 1), 'age': (17, 90), 'sex': ['f', 'm']})"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("", "name,low,high,levels"),
        ("a,b\n1,2", "name,low,high,levels"),
        ("name,low,high\nx,1,", "line 2 of the codebook must have two numbers"),
        ("name,low,high\ny,0,1\nx,one,2", "line 3"),
        ('name,low,high\nx,"0,5",10', r"two numbers \(low and high, written as 0.5 and 1000, with no comma\)"),
        ('name,low,high,levels\nx,"1,000","9,000",', "written as 0.5 and 1000, with no comma"),
        ("name,low,high,levels\nx,0,5,10,", "written as 0.5 and 1000, with no comma"),
        ("name;low;high\nx;0,5;10", "name,low,high,levels, divided by commas, with numbers such as 0.5"),
        ("name,low,high,levels\nx,0,1,a|b", "line 2"),
        ("name,low,high\nx,0,1\nx,0,2", "line 3 of the codebook repeats a name"),
        ("name,low,high\n,0,1", "line 2 of the codebook has no name"),
        ("name,low,high\nx,2,1", "low < high"),
        ("name,levels\nx,a|a", "not distinct"),
        ("variable,colour,min,max,values\nx,red,0,1,", "unknown or repeated column 'colour'"),
        ("name,low,high,typical\nx,0,1,0.5", "name,low,high,levels and, if needed, outside,mean,sd,inner_low"),
        ("variable,label,label,min,max\nx,an x,,0,1", "unknown or repeated column 'label'"),
        ("name,levels\nx,1=North|2=South", "codes without their labels"),
        ("name,variable,low,high\nx,x,0,1", "unknown or repeated column 'name'"),
        ("name,levels\nx,1=North;2=South", "divide levels by |"),
        ("name,levels\nx,North;South;East", "divide levels by |"),
        ("name,low,high,levels\nx,,,", "or bool"),
        ("name,low,high,levels\ny,0,1,,\nx,,,a,b", "line 3 of the codebook has 5 cells, and the first line 4"),
    ],
)
def test_a_line_that_is_wrong_is_named(text: str, fix: str, tmp_path: Path) -> None:
    (tmp_path / "book.csv").write_text(text)
    with pytest.raises(DomainError, match=fix):
        dp.Domain.from_csv(tmp_path / "book.csv")


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("x: {rnage: [0, 1]}", "did you mean 'range'"),
        ("x: {range: [a, 1]}", "pair of numbers"),
        ("- x", "a line for each column"),
        ("x: [", "not YAML"),
        ("x: 3", "as bool"),
        ("bmi: [15, 45]", r"\{range: \[15, 45\]\} for a range, as \{levels: \[15, 45\]\}"),
        ("bmi: [15.5, 45]", r"\{range: \[15.5, 45\]\} for a range"),
        ("share: [0, 0.5]", r"\{range: \[0, 0.5\]\} for a range, as \{levels: \[0, 0.5\]\}"),
        ("age: [80, 18]", r"\{range: \[18, 80\]\} for a range, as \{levels: \[80, 18\]\}"),
        ("x: [-0.1, 1e3]", r"\{range: \[-0.1, 1e3\]\} for a range"),
        ("x: bool\ny: [a, b]\nx: {range: [0, 1]}", "declares 'x' twice"),
    ],
)
def test_yaml_that_is_wrong_says_what_to_write(text: str, fix: str, tmp_path: Path) -> None:
    (tmp_path / "book.yml").write_text(text)
    with pytest.raises(DomainError, match=fix):
        dp.Domain.from_yaml(tmp_path / "book.yml")


def test_bool_is_a_word_of_codebooks(tmp_path: Path) -> None:
    (tmp_path / "book.csv").write_text("name,low,high,levels\nsmoker,,,bool\nodd,,,a=b|c;d\n")
    assert dp.Domain.from_csv(tmp_path / "book.csv") == dp.Domain(smoker=bool, odd=["a=b", "c;d"])
    (tmp_path / "book.yaml").write_text("smoker: bool\ncode: {levels: [15, 45]}\nflag: [0, 1]")
    assert dp.Domain.from_yaml(tmp_path / "book.yaml") == dp.Domain(smoker=bool, code=["15", "45"], flag=[0, 1])


@pytest.mark.parametrize("pair", [[18, 80], [80, 18], [0.25, 0.75], [0, 0.5], [-1, 1]])
def test_two_numbers_are_never_guessed_at(pair: list[float], tmp_path: Path) -> None:
    """A bare list of them is refused everywhere, and what its message says to write is read as it says."""
    low, high = sorted(pair)
    ways = {
        dp.Domain.from_yaml: (
            f"x: {pair}\n",
            r"as (\{range: .*\}) for a range, as (\{levels: .*\}) for two",
            "x: {}\n",
        ),
        dp.Domain.from_json: (
            json.dumps({"x": pair}),
            r'("x": \{"l.*\}) for two levels, or ("x": \{"r.*\}) for',
            "{{{}}}",
        ),
    }
    for read, (text, advice, form) in ways.items():
        with pytest.raises(DomainError) as refused:
            read(text)
        found = re.search(advice, str(refused.value))
        assert found is not None
        declared = {type(one["x"]): one["x"] for one in (read(form.format(way)) for way in found.groups())}
        assert (declared[Range].low, declared[Range].high) == (low, high)
        assert [float(level) for level in declared[Levels].values] == pair
    for declaration in (pair, tuple(map(str, pair))):
        with pytest.raises(DomainError):
            dp.Domain(x=declaration)
    levels = dp.Domain.from_json(json.dumps({"x": {"levels": pair}}))
    assert eval(repr(levels), {"Domain": dp.Domain}).matches(levels)
    assert dp.Domain.from_yaml(levels.to_yaml()).matches(levels)
    assert dp.Domain.from_csv(levels.to_csv()).matches(levels)
    assert dp.Domain.from_json(levels.to_json()) == levels
    assert levels.with_(y=(0, 1))["x"] == levels["x"]


def test_codes_that_follow_each_other_are_levels() -> None:
    for pair in ([0, 1], [1, 2], [2, 1], [1.0, 2.0]):
        assert dp.Domain(x=pair)["x"] == Levels(tuple(pair))
    assert dp.Domain.from_yaml("x: [2, 1]\ny: bool\n")["x"] == Levels((2, 1))


@pytest.mark.parametrize(("levels", "range_"), [([0, 1], "0, 1"), ([2, 1], "1, 2"), (["18", "80"], "18, 80")])
def test_rows_lost_to_two_numbers_say_both_ways_of_writing(levels: list[Any], range_: str) -> None:
    """At an eps of which noise passes for a loss of all rows, or hides it, in fewer than one of a million runs."""
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"x": random.uniform(0, 80, 3000), "y": random.uniform(0, 1, 3000)})
    domain = dp.Domain(x=levels, y=(0, 1))
    coded = ". If its codes are 1 and 2, declare the levels [1, 2]" * (range_ == "0, 1")
    said = (
        f"neither of the levels {range_}{coded}. Compare the codebook. If the cells are a code for missing, such as 9, "
    )
    said += "make them missing. If numbers between the levels are meant, "
    said += f"declare the range ({range_}), in a file {{range: [{range_}]}}"
    with pytest.raises(dp.errors.MismatchError) as stopped:
        dp.ols("y ~ x", rows, 20.0, domain=domain)
    assert said in str(stopped.value)
    assert any(said in finding for finding in dp.check("y ~ x", rows, domain, 20.0, family="gaussian").findings)
    # A response of 0 and 1 that is declared as a range is not told to be one.
    rows["y"] = 0.5
    binary = dp.check("y ~ x", rows, dp.Domain(x=(0, 80), y=(0, 1)), 20.0, family="binomial")
    assert any("lost to `y`: a level that is not declared" in finding for finding in binary.findings)


def test_missing_codebooks_are_errors_of_ours(tmp_path: Path) -> None:
    for read in (dp.Domain.from_csv, dp.Domain.from_yaml):
        with pytest.raises(DomainError, match="check the path"):
            read(tmp_path / "none")


class Sex(enum.Enum):
    FEMALE = "F"
    MALE = "M"
    WOMAN = "F"  # an alias


@pytest.mark.parametrize("declared", [Sex, pd.CategoricalDtype(["F", "M"]), pl.Enum(["F", "M"])])
def test_types_that_list_levels_stand_for_them(declared: Any) -> None:
    assert dp.Domain(sex=declared) == dp.Domain(sex=["F", "M"])


@pytest.mark.parametrize(
    ("declared", "fix"),
    [
        ({"F", "M"}, "a set, which has no order: write a list. The first level"),
        (frozenset("FM"), "a set"),
        (pd.CategoricalDtype(), "lists no categories"),
        ((..., ...), "not filled in"),
        ([...], "not filled in"),
        (["F", ...], "not filled in"),
    ],
)
def test_what_has_no_order_or_is_not_filled_in_is_refused(declared: Any, fix: str) -> None:
    with pytest.raises(DomainError, match=fix):
        dp.Domain(sex=declared)


def test_domains_are_joined_like_dicts() -> None:
    both = dp.Domain(a=(0, 1), b=(0, 1)) | {"b": (0, 2)}
    assert both == dp.Domain(a=(0, 1), b=(0, 2))
    assert {"b": (0, 2)} | dp.Domain(b=(0, 1)) == dp.Domain(b=(0, 1))
    assert both.with_(a=["x", "y"]) == dp.Domain(a=["x", "y"], b=(0, 2))
    with pytest.raises(TypeError):
        _ = dp.Domain(a=(0, 1)) | 3


FRAME = pd.DataFrame(
    {
        "age": [918273645],
        "class": ["canary"],
        "my col": [0.5],
        "smoker": [True],
        "kind": pd.Categorical(["canary"]),
        "day": [pd.Timestamp("2001-02-03")],
    }
)


@pytest.mark.parametrize(
    "frame", [FRAME, pl.from_pandas(FRAME), pl.from_pandas(FRAME).lazy(), pl.from_pandas(FRAME).to_arrow()]
)
def test_a_template_shows_names_and_types_and_no_cell(frame: Any) -> None:
    text = dp.Domain.template(frame)
    assert "canary" not in text
    assert "918273645" not in text
    assert repr(text) == str(text)
    with pytest.raises(DomainError, match="not filled in"):
        exec(text, {"dp": dp})
    space: dict[str, Any] = {"dp": dp}
    exec(text.replace("(..., ...)", "(0, 1)").replace("[...]", "['a', 'b']"), space)
    assert set(space["domain"]) == set(FRAME.columns)
    assert isinstance(space["domain"]["smoker"], type(dp.Domain(x=bool)["x"]))


def test_a_template_of_something_else_is_refused() -> None:
    with pytest.raises(DataError, match="frame must be"):
        dp.Domain.template(np.zeros((2, 2)))


LEVEL = st.one_of(
    st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6, allow_nan=False), st.text(max_size=6), st.booleans()
)
"""What a level may be; texts of any signs."""

ENDS = st.tuples(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@st.composite
def domains(draw: st.DrawFn) -> dp.Domain:
    """Domains of up to four columns with odd names; declarations that a Domain refuses are drawn again."""
    columns = draw(
        st.dictionaries(st.text(min_size=1, max_size=8), st.lists(LEVEL, min_size=1, max_size=4) | ENDS, max_size=4)
    )
    try:
        return dp.Domain(columns)
    except DomainError:
        reject()


@pytest.mark.slow
@settings(max_examples=150)
@given(domains())
def test_what_is_written_is_read_back(domain: dp.Domain) -> None:
    if len(domain):
        assert dp.Domain(codebook.from_yaml(domain.to_yaml(), as_number)).matches(domain)
    try:
        text = domain.to_csv()
    except DomainError:
        return
    assert dp.Domain(codebook.from_csv(text, as_number)).matches(domain)


@pytest.mark.parametrize("kind", ["yaml", "csv"])
def test_written_codebooks_are_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"book.{kind}"
    path.write_text(getattr(DECLARED, f"to_{kind}")(), encoding="utf-8")
    assert getattr(dp.Domain, f"from_{kind}")(path) == DECLARED
    other = dp.Domain({**DECLARED, "age": (17, 91)})
    assert not other.matches(DECLARED)


@pytest.mark.parametrize("kind", ["yaml", "csv"])
def test_text_stands_for_a_file_of_it(kind: str) -> None:
    read = getattr(dp.Domain, f"from_{kind}")
    text = getattr(DECLARED, f"to_{kind}")()
    assert read(text) == DECLARED
    assert read("\ufeff" + text.replace("\r", "").replace("\n", "\r\n")) == DECLARED
    wrong = {"yaml": "age: {range: [2, 1]}\n", "csv": "name,low,high\nage,2,1\n"}[kind]
    with pytest.raises(DomainError, match=r"^the text: .*age"):
        read(wrong)


@pytest.mark.parametrize("level", ["a|b", "bool", "x;y", "1=one"])
def test_what_a_csv_codebook_would_read_otherwise_is_refused(level: str) -> None:
    domain = dp.Domain(g=[level])
    with pytest.raises(DomainError, match="read back as a different one; use to_yaml"):
        domain.to_csv()
    assert dp.Domain(codebook.from_yaml(domain.to_yaml(), as_number)) == domain


@pytest.mark.parametrize(
    ("kind", "text"), [("csv", "name,low,high\nx,2,1"), ("yaml", "x: {range: [2, 1]}"), ("yaml", "x: 3")]
)
def test_errors_of_a_codebook_name_its_file(tmp_path: Path, kind: str, text: str) -> None:
    path = tmp_path / f"book.{kind}"
    path.write_text(text)
    with pytest.raises(DomainError, match=f"book.{kind}: "):
        getattr(dp.Domain, f"from_{kind}")(path)


def test_a_template_of_a_file_reads_no_row(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [731.0], "smoker": [True], "sex": ["canary"]})
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for name, lines in (
        ("rows.parquet", ["age=(..., ...),  # double", "smoker=bool,", "sex=[...],"]),
        ("rows.csv", ["age=(..., ...),  # unknown", "smoker=", "sex="]),
    ):
        text = dp.Domain.template(tmp_path / name)
        assert all(line in text for line in lines)
        assert "731" not in text
        assert "canary" not in text
    for separated in ("age;smoker\n731;1\n", "age|smoker\n731|1\n"):
        (tmp_path / "other.csv").write_text(separated)
        with pytest.raises(DataError, match=r"other.csv' names a single column and contains '[;|]'; columns must be"):
            dp.Domain.template(tmp_path / "other.csv")
    for missing in ("none.parquet", "none.csv", "rows.xlsx"):
        with pytest.raises(DataError, match=r"check the path|must end in"):
            dp.Domain.template(str(tmp_path / missing))


def test_a_range_of_python_is_answered() -> None:
    with pytest.raises(DomainError, match=r"declare 'age' as \(1, 5\), a range of numbers, or as list"):
        dp.Domain(age=range(1, 6))


def test_no_line_of_a_template_is_longer_than_a_terminal_for_its_comment() -> None:
    wide = pd.DataFrame({"the_systolic_blood_pressure_at_admission": [120.0], "ward": ["a"]})
    for text in (dp.Domain.template(wide), yaml_template_of(wide)):
        assert max(map(len, text.splitlines())) <= 80
        assert "least, greatest" in text


@pytest.mark.parametrize(
    "text", ["a: [false, true]\n", "a: {levels: [False, True]}\n", "a:\n  levels:\n  - FALSE\n  - TRUE\n"]
)
def test_true_and_false_of_yaml_are_those_of_python(text: str) -> None:
    assert dp.Domain.from_yaml(text) == dp.Domain(a=[False, True])
    assert dp.Domain.from_yaml("a: [true, false]\n") == dp.Domain(a=[True, False])


def test_true_and_false_of_a_table_are_those_of_python() -> None:
    assert dp.Domain.from_csv("name,levels\na,FALSE|TRUE\n") == dp.Domain(a=[False, True])
    assert dp.Domain.from_csv("name,levels\na,false|true|unknown\n") == dp.Domain(a=["false", "true", "unknown"])


@pytest.mark.parametrize("levels", [[False, True], [True, False]])
def test_truths_are_written_as_such(levels: list[bool]) -> None:
    domain = dp.Domain(a=levels, b=["false", "true"])
    assert repr(dp.Domain.from_yaml(domain.to_yaml())) == repr(domain)
    assert repr(dp.Domain.from_csv(dp.Domain(a=levels).to_csv())) == repr(dp.Domain(a=levels))
    with pytest.raises(DomainError, match="read back as a different one; use to_yaml"):
        domain.to_csv()


@pytest.mark.parametrize("levels", [["false", "true"], ["no", "yes"], ["true", "unknown"], ["true"]])
def test_words_in_quotes_and_other_words_are_texts(levels: list[str]) -> None:
    quoted = ", ".join(f'"{level}"' for level in levels)
    assert dp.Domain.from_yaml(f"a: [{quoted}]\nb: [false, true]\n") == dp.Domain(a=levels, b=[False, True])
    if levels != ["false", "true"]:
        assert dp.Domain.from_yaml(f"a: [{', '.join(levels)}]\n") == dp.Domain(a=levels)
    assert dp.Domain.from_yaml(dp.Domain(a=levels).to_yaml()) == dp.Domain(a=levels)


def test_a_codebook_and_a_table_that_pandas_wrote_speak_of_the_same(tmp_path: Path) -> None:
    """Columns of True and False in CSV: with levels that are texts every row would be lost."""
    frame = pd.DataFrame({"flag": [True, False] * 2000, "y": [1.0, 0.0] * 2000})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    domain = dp.Domain.from_yaml("flag: {levels: [false, true]}\ny: {range: [0, 1]}\n")
    fit = dp.ols("y ~ flag", tmp_path / "rows.csv", 50.0, domain=domain, seed=1, method="statistics")
    assert fit.params.iloc[1] == pytest.approx(1, abs=0.05)


def test_a_drafted_codebook_leaves_out_categories() -> None:
    """A dict of columns of polars drafted the categories of an Enum, which are values of the data."""
    assert "secret" not in yaml_template_of({"x": pl.Series(["secret"], dtype=pl.Enum(["secret"]))})

"""Templates, checks and saved results from the shell, and messages in its words."""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.cli import main
from dpstats.cli.shared import OPTIONS, flag, shell_argument
from dpstats.mechanisms.options import Options
from dpstats.summaries import wrap_notes
from dpstats.wording import argument, shell_wording

YAML = """
age: {range: [17, 90]}
sex: [F, M]
income: {levels: [low, high]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows of which a fifth have a sex that is not declared, a Domain, and a ledger."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.uniform(17, 90, 3173), "sex": rng.choice(["F", "M", "M", "F", "canary"], 3173)})
    rows["income"] = np.where(rng.random(3173) < 1 / (1 + np.exp(-(rows["age"] - 50) / 20)), "high", "low")
    rows.to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "adult.yaml").write_text(YAML)
    monkeypatch.chdir(tmp_path)
    assert main(["ledger", "init", "adult.ledger", "--dataset", "adult", "--eps", "3", "--domain", "adult.yaml"]) == 0
    return tmp_path


CHECK = ["check", "income ~ age + C(sex)", "rows.parquet", "--eps", "0.5"]


def test_a_check_pays_and_tells_what_is_lost(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = [*CHECK, "--ledger", "adult.ledger", "--analyst", "Ada", "--output", "check.json"]
    capfd.readouterr()
    assert main([*arguments, "--adjacency", "add_remove"]) == 0
    shown = capfd.readouterr().out
    assert "rows are lost to `sex`" in " ".join(shown.split())
    assert "canary" not in shown
    with dp.Ledger.open("adult.ledger") as ledger:
        assert ledger.remaining.eps == 2.5
        assert ledger.entries()["analyst"].tolist() == ["Ada"]
    assert dp.Check.load("check.json").findings
    assert main([*CHECK, "--domain", "adult.yaml", "--json"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert {"findings", "totals", "table", "located", "guarantee", "formula"} == set(facts)
    assert [row["what"] for row in facts["totals"]] == ["rows", "complete", "lost"]


def test_a_check_shows_no_exact_count(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert main([*CHECK, "--domain", "adult.yaml", "--adjacency", "replace_one", "--output", "c.json"]) == 0
    assert dp.Check.load("c.json").nobs is None
    assert main(["check", "income ~ wage", "rows.parquet", "--eps", "0.5", "--domain", "adult.yaml"]) == 1
    assert "'wage'" in capfd.readouterr().err


def test_saved_values_are_shown(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = {"x": np.linspace(0, 1, 500), "y": np.linspace(0, 1, 500)}
    fit = dp.ols("y ~ x", data, 1.0, domain={"x": (0, 1), "y": (0, 1)}, method="napp")
    fit.save("fit.json")
    dp.evaluate(fit, data, 1.0).save("score.json")
    main([*CHECK, "--domain", "adult.yaml", "--output", "check.json"])
    capfd.readouterr()
    for file, word in (("fit.json", "coef"), ("score.json", "rmse"), ("check.json", "lost")):
        assert main(["show", file]) == 0
        assert word in capfd.readouterr().out
    for form, start in (("latex", "tabular"), ("html", "<table"), ("markdown", "|:---|"), ("json", '"coefficients"')):
        assert main(["show", "fit.json", "--format", form]) == 0
        assert start in capfd.readouterr().out
    assert main(["show", "fit.json", "--full"]) == 0
    assert "Noise in the objective" in capfd.readouterr().out
    for arguments, words in (
        (["none.json"], "there is no file 'none.json'"),
        (["adult.yaml"], "check the path"),
        (["check.json", "--full"], "--full is for a fit"),
        (["check.json", "--exponentiate", "--json"], "--exponentiate is for a fit"),
        (["fit.json", "--exponentiate"], "needs a logit or log link"),
    ):
        assert main(["show", *arguments]) == 1
        assert words in capfd.readouterr().err
    Path("other.json").write_text('{"kind": "Ledger", "format": 1}')
    assert main(["show", "other.json"]) == 1
    assert "not a fit, check or evaluation" in capfd.readouterr().err


PYTHON = re.compile(r"dp\.check|(?<!--set )(inference|method|screen|residual_cap)=|summary\(|`located`|\.roc\b")
"""Words of Python that a shell has others for."""


@pytest.mark.slow
def test_every_form_has_the_words_of_the_shell(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(2)
    data = {"x": np.linspace(0, 1, 90), "g": list("abc") * 30, "y": rng.integers(0, 2, 90)}
    domain = {"x": (0, 1), "g": ["a", "b", "c"], "y": (0, 1)}
    fit = dp.logit("y ~ x + g", data, 0.1, domain=domain, seed=1)
    assert PYTHON.search(str(fit.summary()))  # or the test looks for nothing
    dp.ols("y ~ x + g", data, 0.1, domain=domain, seed=1).save("linear.json")
    fit.save("fit.json")
    dp.evaluate(fit, data, 1.0, seed=1).save("score.json")
    dp.check("y ~ x + g", data, domain, 1.0, seed=1).save("check.json")
    for form in ("text", "markdown", "latex", "html"):
        for file in ("fit.json", "linear.json", "score.json", "check.json"):
            capfd.readouterr()
            assert main(["show", file, "--format", form]) == 0
            said = capfd.readouterr().out
            found = PYTHON.search(" ".join(said.split()))
            assert not found, (file, form, found)
            assert "Details" not in said or form == "text"
            if form == "text":
                assert max(map(len, said.splitlines())) <= 80, file


def test_options_in_notes_are_not_broken() -> None:
    """Whoever copies one copies it whole, wherever the line ends."""
    for indent in range(60, 80):
        with shell_wording(shell_argument):
            lines = wrap_notes([f"{'x' * indent} {argument('residual_cap', 2.0)} and --everyone-else"])
        assert max(map(len, lines)) <= 80
        assert {"--residual-cap", "--everyone-else"} <= set(" ".join(lines).split())


def test_a_template_is_a_codebook_to_fill_in(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert main(["template", "rows.parquet"]) == 0
    text = capfd.readouterr().out
    assert "canary" not in text
    assert "# A range is [least, greatest]" in text
    assert main(["template", "rows.parquet", "--output", "new.yaml"]) == 0
    assert Path("new.yaml").read_text() == text
    assert main(["template", "rows.parquet", "--output", "new.yaml"]) == 1
    assert main(["plan", "income ~ age", "--domain", "new.yaml", "--eps", "1"]) == 1
    assert "'age' is not filled in" in capfd.readouterr().err
    filled = text.replace("{range: [..., ...]}", "{range: [17, 90]}").replace("{levels: [...]}", "[a, b]")
    Path("filled.yaml").write_text(filled)
    assert dp.Domain.from_yaml("filled.yaml") == dp.Domain(age=(17, 90), sex=["a", "b"], income=["a", "b"])


def test_a_template_takes_the_patterns_that_fit_and_check_take(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["template", "rows.parquet"]) == 0
    whole = capfd.readouterr().out
    assert main(["template", "row*.parquet"]) == 0
    assert capfd.readouterr().out == whole
    assert main(["template", "none*.parquet"]) == 1
    assert "error: data: there is no file 'none*.parquet'" in capfd.readouterr().err


def test_a_template_is_of_a_form_that_can_be_read_here(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without PyYAML JSON, and YAML for no money."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    capfd.readouterr()
    assert main(["template", "rows.parquet"]) == 0
    text = capfd.readouterr().out
    assert main(["template", "rows.parquet", "--output", "new.json"]) == 0
    assert Path("new.json").read_text() == text
    assert main(["plan", "income ~ age", "--domain", "new.json", "--eps", "1"]) == 1
    assert "'age' is not filled in" in capfd.readouterr().err
    filled = text.replace('["...", "..."]', "[17, 90]").replace('["..."]', '["a", "b"]')
    assert dp.Domain.from_json(filled) == dp.Domain(age=(17, 90), sex=["a", "b"], income=["a", "b"])
    for name in ("new.yaml", "new.txt"):
        assert main(["template", "rows.parquet", "--output", name]) == 1
        assert not Path(name).exists()
    assert "pip install pyyaml" in capfd.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "income ~ age", "--eps", "1", "--fam", "binomial"],
        ["ledger", "init", "l.db", "--data", "d", "--eps", "1"],
    ],
)
def test_options_are_written_whole(words: list[str], folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert re.search("unrecognized arguments: --(fam|data); did you mean", capfd.readouterr().err)


def test_a_plan_answers_how_many_rows_and_which_eps(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("d.json").write_text(dp.Domain(x=(0, 1), y=bool).to_json())
    words = ["plan", "y ~ x", "--domain", "d.json", "--eps", "1", "--family", "binomial", "--se", "x=0.2"]
    capfd.readouterr()
    assert main(words) == 0
    assert capfd.readouterr().out.startswith("About ")
    assert main([*words, "--rows", "20000", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["n"] == 20_000
    assert found["eps"] < 1
    without = [word for word in words if word not in ("--eps", "1")]
    assert main([*without, "--rows", "20000", "--json"]) == 0  # eps is what is asked
    assert json.loads(capfd.readouterr().out) == found
    assert main(without) == 1
    assert "--eps is missing" in capfd.readouterr().err
    assert main([*words[:-1], "x"]) == 1
    assert "--se takes NAME=ERROR" in capfd.readouterr().err
    assert main([*words, "--typical", "y=0.06"]) == 0
    assert "6 % of y are 1" in " ".join(capfd.readouterr().out.split())
    assert main([*words[:-2], "--typical", "y=0.06"]) == 1
    assert "--typical describes rows for a forecast: add --rows N, or --se" in capfd.readouterr().err


@pytest.mark.slow
def test_a_plan_takes_the_residuals_that_are_known(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The assumption that columns explain half of the variance was named, with no option to change it."""
    domain = dp.Domain(x=(0, 1), y=(0, 10))
    Path("d.json").write_text(domain.to_json())
    words = ["plan", "y ~ x", "--domain", "d.json", "--eps", "1", "--typical", "x=[0.5,0.3]", "--typical", "y=[5,2]"]
    capfd.readouterr()
    assert main([*words, "--rows", "20000"]) == 0
    assert "If they explain less, standard errors are larger: pass --residual-sd." in " ".join(
        capfd.readouterr().out.split()
    )
    known = {"typical": {"x": (0.5, 0.3), "y": (5, 2)}, "residual_sd": 1.9}
    plan = dp.plan("y ~ x", domain, 1.0)
    for options, expected in (
        (["--rows", "20000"], plan.standard_errors(20_000, **known).loc["x", "std_error"]),
        (["--se", "x=0.2"], dp.sample_size(plan, se={"x": 0.2}, **known).table.loc["x", "std_error"]),
    ):
        assert main([*words, "--residual-sd", "1.9", *options, "--json"]) == 0
        (found,) = [one for one in json.loads(capfd.readouterr().out)["standard_errors"] if one["term"] == "x"]
        assert found["std_error"] == expected
    for wrong, message in (("99", "--residual-sd must be less than the range"), ("-1", "--residual-sd must be")):
        assert main([*words, "--rows", "20000", "--residual-sd", wrong]) == 1
        assert message in capfd.readouterr().err
    assert main([*words[:-4], "--residual-sd", "1.9"]) == 1
    assert "--residual-sd describes rows for a forecast" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        (["--eps", "30"], "eps = 30 is above 20"),
        (["--eps", "1", "--delta", "0.01"], "delta = 0.01 is above 0.001"),
        (["--eps", "1", "--delta", "0.0005", "--n", "10000"], "delta = 0.0005 is above 1/n = 0.0001"),
        (["--eps", "1", "--delta", "1e-6", "--n", "10000"], ""),
    ],
)
def test_a_guarantee_that_means_little_is_named(
    given: list[str], warned: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("d.json").write_text(dp.Domain(dict.fromkeys("abcdefghy", (0, 1))).to_json())
    words = ["plan", "y ~ .", "--domain", "d.json", "--set", "noise=gaussian", *given]
    if "--delta" not in given:
        words = words[:4] + given
    capfd.readouterr()
    assert main(words) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert (warned in said) if warned else ("is above" not in said)
    assert main([*words, "--json"]) == 0
    said = capfd.readouterr().err
    assert said.startswith(f"note: {warned}") if warned else not said


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("method", "napp", "--method napp"),
        ("inference", True, "--inference yes"),
        ("inference", None, "--inference no"),
        ("inference", "robust", "--inference robust"),
        ("residual_cap", 750, "--residual-cap 750"),
        ("unit", "the person", "--unit 'the person'"),
        ("refit_share", 0.5, "--set refit_share=0.5"),
        ("split", "rows", "--set split=rows"),
        ("allow_uncertified", True, "--set allow_uncertified=True"),
        ("unit", ..., "--unit"),
        ("screen", ..., "--set screen=VALUE"),
        ("data", ..., "data"),
    ],
)
def test_arguments_are_options(name: str, value: object, option: str) -> None:
    """Those that a command takes: `test_every_option_exists` types them."""
    assert shell_argument(name, value) == option


def test_every_option_exists(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What messages tell to type is understood: flags by argparse, settings by the fit that they are for."""
    capfd.readouterr()
    for option in OPTIONS:
        with pytest.raises(SystemExit):
            main(["fit", "--help"])
        assert f"{flag(option)} " in capfd.readouterr().out, option
    for name in (one.name for one in fields(Options)):
        option, *rest = shlex.split(shell_argument(name, "magic"))
        arguments = ["plan", "income ~ age", "--domain", "adult.yaml", "--eps", "1", "--family", "binomial"]
        try:
            main([*arguments, option, *rest])
        except SystemExit:
            assert name in ("inference", "n", "check_share", "on_mismatch")  # argparse has their choices and types
        assert "unknown option" not in capfd.readouterr().err, name


@pytest.mark.slow
def test_what_messages_name_prints_forecasts_and_errors(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = ["income ~ age", "--domain", "adult.yaml", "--eps", "1", "--family", "binomial"]
    foreseen = dp.plan("income ~ age", dp.Domain.from_yaml("adult.yaml"), 1.0, family="binomial").standard_errors(5000)
    capfd.readouterr()
    assert main(["plan", *model, "--rows", "5000"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert "Standard errors forecast for 5,000 rows" in lines[0]
    assert any("finite   at upper" in line or "finite  at upper" in line for line in lines)
    for name, row in foreseen.iterrows():
        (line,) = (line for line in lines if line.startswith(str(name)))
        assert float(line.split()[1]) == pytest.approx(row["std_error"], rel=1e-3)
    assert main(["plan", *model, "--rows", "5000", "--json"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert [row["sampling"] for row in facts["standard_errors"]] == pytest.approx(foreseen["sampling"].tolist())
    assert facts["budget_for"] == "5,000 rows"
    assert main(["plan", *model, "--json"]) == 0
    usual = json.loads(capfd.readouterr().out)
    assert main(["plan", *model]) == 0
    assert f"with {usual['budget_for']}" in " ".join(capfd.readouterr().out.split())
    paid = {row["errors"] for row in usual["by_rows"] if f"{row['rows']:,} rows" == usual["budget_for"]}
    bought = sum(row["eps"] for row in usual["budget"] if "standard errors" in str(row["buys"]))
    assert (bought == 0) == (paid == {"none"})
    described = ["--typical", "age=[54,18]", "--typical", "income=0.2"]
    for typical, words in (([], "off-centre numbers"), (described, "rows as described, lower that of the median fit")):
        assert main(["plan", *model, "--rows", "5000", *typical]) == 0
        assert words in " ".join(capfd.readouterr().out.split())
    assert main(["plan", *model, "--rows", "0"]) == 1
    assert main(["fit", model[0], "rows.parquet", *model[1:], "--output", "kept.json"]) == 0
    capfd.readouterr()
    assert main(["show", "kept.json", "--uncertainty"]) == 0
    lines, kept = capfd.readouterr().out.splitlines(), dp.GLMResults.load("kept.json")
    assert lines[0].split() == list(kept.uncertainty().columns)
    assert len(lines) == 1 + len(kept.params)
    assert max(map(len, lines)) <= 80
    assert main(["show", "kept.json", "--exponentiate"]) == 0
    lines = capfd.readouterr().out.splitlines()
    (at,) = (at for at, line in enumerate(lines) if line.startswith("age"))
    printed = [float(cell) for cell in " ".join(lines[at : at + 2]).translate(str.maketrans("[,]", "   ")).split()[1:]]
    ratios = kept.tidy(exponentiate=True).set_index("term").loc["age", ["estimate", "conf_low", "conf_high"]]
    assert printed == pytest.approx(ratios.tolist(), rel=2e-3)
    for form, start in (("latex", "tabular"), ("html", "<table"), ("markdown", "|:---|")):
        assert main(["show", "kept.json", "--exponentiate", "--format", form]) == 0
        shown = capfd.readouterr().out
        assert start in shown
        assert kept.plan.design.response_name in shown
        assert "(1)" not in shown
    assert main(["show", "kept.json", "--json", "--exponentiate"]) == 0
    assert json.loads(capfd.readouterr().out)["coefficients"][1]["estimate"] == pytest.approx(ratios["estimate"])
    assert main(["show", "kept.json", "--uncertainty", "--full"]) == 1
    assert "leave out --full" in capfd.readouterr().err


def test_a_plan_speaks_of_options(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert main(["plan", "age ~ sex", "--domain", "adult.yaml", "--eps", "1"]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "--inference yes always pays" in said
    assert "inference=True" not in said
    assert "--method statistics" in said


def test_a_domain_that_cannot_be_read_is_named_once(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, text in (("bad.json", "\xff"), ("bad.yaml", "age: {range: [9, 1]}"), ("bad.csv", "name,low,high\na,1,")):
        Path(name).write_bytes(text.encode("latin-1"))
        capfd.readouterr()
        assert main(["plan", "age ~ sex", "--domain", name, "--eps", "1"]) == 1
        said = capfd.readouterr().err
        assert said.count(name) == 1
        assert said.count("--domain") == 1


def test_a_check_of_a_column_of_text_says_to_list_its_levels(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A CSV file declares no types, so the text of a column is no number and every row is lost to it."""
    pd.read_parquet("rows.parquet").assign(age=lambda rows: rows["age"].where(rows["age"] > 25)).to_csv("rows.csv")
    assert main(["check", "age ~ sex", "rows.csv", "--eps", "1"]) == 0
    told = " ".join(capfd.readouterr().out.split())
    for name in ("sex", "age"):  # a tenth of the ages are missing
        assert f"rows are lost to `{name}`: missing, or not a number. If the column holds text, list its levels" in told
    assert main(["fit", "age ~ sex", "rows.csv", "--eps", "1"]) == 6
    assert "If the column holds text, list its levels in the Domain" in capfd.readouterr().err
    Path("ranges.yaml").write_text("age: {range: [17, 90]}\nsex: [F, M, canary]\n")
    assert main(["check", "age ~ sex", "rows.csv", "--eps", "1", "--domain", "ranges.yaml"]) == 0
    told = " ".join(capfd.readouterr().out.split())
    assert "rows are lost to `age`: missing, or not a number. Convert text" in told


def test_a_response_that_drops_rows_is_declared_again_in_the_file(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("drops.yaml").write_text("age: {range: [17, 90], outside: drop}\nsex: [F, M, canary]\n")
    Path("clips.yaml").write_text("age: {range: [17, 90]}\nsex: [F, M, canary]\n")
    assert main(["ledger", "init", "ages.ledger", "--dataset", "ages", "--eps", "3", "--domain", "drops.yaml"]) == 0
    command = ["fit", "age ~ sex", "rows.parquet", "--eps", "1", "--ledger", "ages.ledger"]
    assert main(command) == 1
    told = " ".join(capfd.readouterr().err.split())
    assert "a range that clips: 'age': {range: [17, 90]}, without outside: drop, in the file of --domain" in told
    assert main([*command, "--domain", "clips.yaml"]) == 0


def test_commands_in_messages_name_the_family_that_the_next_call_needs(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A check takes a 0/1 response for binomial, a fit without a family for a number: pasted commands failed."""
    model, domain = "income ~ age", ["--domain", "adult.yaml"]
    capfd.readouterr()
    assert main(["check", model, "rows.parquet", *domain, "--eps", "0.5"]) == 0
    assert "The response has two values: pass --family binomial to plan and fit." in capfd.readouterr().out
    for given in (["age ~ sex"], [model, "--family", "binomial"]):
        assert main(["check", given[0], "rows.parquet", *given[1:], *domain, "--eps", "0.5"]) == 0
        assert "--family" not in capfd.readouterr().out
    assert main(["plan", model, *domain, "--eps", "1"]) == 1
    assert "or pass --family binomial" in capfd.readouterr().err
    few = pd.read_parquet("rows.parquet").iloc[:60]
    few.to_parquet("few.parquet")
    assert main(["fit", model, "few.parquet", *domain, "--eps", "0.3", "--family", "binomial"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "python -m dpstats plan --family binomial --inference yes has cautious numbers" in shown
    assert main(["plan", model, *domain, "--eps", "1", "--family", "binomial"]) == 0
    assert "--rows N forecasts them" in " ".join(capfd.readouterr().out.split())
    assert main(["fit", model, "rows.parquet", *domain, "--eps", "0.3", "--family", "binomial"]) == 0
    assert "python -m dpstats check --family binomial --eps" in " ".join(capfd.readouterr().out.split())

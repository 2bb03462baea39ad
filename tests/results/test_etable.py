"""Fits side by side."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.results.contrasts import to_the_noise

DOMAIN = {"y": (-6, 10), "x": (0, 10), "z": (0, 1), "b": ["no", "yes"]}


@pytest.fixture(scope="module")
def fits() -> dict[str, dp.GLMResults]:
    rng = np.random.default_rng(8)
    data = pd.DataFrame({"x": rng.uniform(0, 10, 4000), "z": rng.uniform(size=4000)})
    data["y"] = 1 + 0.5 * data["x"] - data["z"] + rng.normal(size=4000)
    data["b"] = np.where(data["y"] > 3, "yes", "no")
    return {
        "paid": dp.ols("y ~ x + z", data, 1.0, domain=DOMAIN, inference=True),
        "plain": dp.ols("y ~ x", data, 0.5, domain=DOMAIN, inference=None),
        "logit": dp.logit("b ~ x", data, 1.0, domain=DOMAIN, seed=1),
    }


def test_cells_are_the_fits_own(fits: dict[str, dp.GLMResults]) -> None:
    table = dp.etable(fits)
    text = table.summary().as_text()
    assert max(map(len, text.splitlines())) <= 80
    paid, plain = fits["paid"], fits["plain"]
    assert to_the_noise(paid.debiased["z"], paid.bse["z"]) in text
    assert f"({to_the_noise(paid.bse['z'], paid.bse['z'])})" in text
    assert "[" not in text.partition("Notes:")[0], "a bound on the noise is no standard error"
    assert "Nothing in brackets: coefficients as released" in " ".join(text.split())
    assert "logit is NOT CERTIFIED: seeded" in " ".join(text.split())
    assert "On the same rows these fits cost eps 2.5 together" in " ".join(text.split())
    assert "logit: Pr(b = yes)." in text
    frame = table.frame
    assert frame["paid", "coef"].to_numpy() == pytest.approx(paid.debiased.to_numpy())
    assert np.isnan(frame.loc["z", ("plain", "coef")])
    assert np.isnan(frame.loc["x", ("plain", "std_error")])
    assert frame.loc["x", ("plain", "coef")] == plain.params["x"]


@pytest.mark.slow
def test_every_form_has_every_fit(fits: dict[str, dp.GLMResults]) -> None:
    table = dp.etable([fits["paid"]] * 6)
    assert max(map(len, str(table).splitlines())) <= 80
    for text in (str(table), table.to_latex(), table.to_markdown(), table._repr_html_()):
        for place in range(1, 7):
            assert f"({place})" in text


def test_fits_of_the_same_unit_say_what_is_protected_and_that_errors_are_clustered() -> None:
    rng = np.random.default_rng(3)
    rows = {"x": rng.uniform(0, 10, 4000), "who": np.arange(4000) // 2}
    rows["y"] = rows["x"] + rng.normal(0, 1, 4000)
    domain = {"x": (0, 10), "y": (-5, 15)}
    person = dp.ols("y ~ x", rows, 2.0, domain=domain, unit="who", inference=True, seed=1)
    absorbed = dp.ols("y ~ x | who", rows, 2.0, domain=domain, unit="who", seed=1)
    for fits in ([person], [person, person], [absorbed], [person, absorbed]):
        for text in (str(dp.etable(fits)), dp.etable(fits).to_markdown().replace("|", " ")):
            lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.split()}
            assert lines["Protected"] == ["each", "who"] * len(fits)
            assert lines["Errors"] == ["clustered"] * len(fits)
    single = str(dp.etable([dp.ols("y ~ x", rows, 2.0, domain=domain, seed=1)]))
    assert "Protected" not in single
    assert "Errors" not in single


def test_what_differs_has_a_row(fits: dict[str, dp.GLMResults]) -> None:
    rng = np.random.default_rng(3)
    data = {
        "x": rng.uniform(0, 10, 500),
        "z": rng.uniform(0.5, 1, 500),
        "y": rng.poisson(2, 500),
        "who": np.arange(500),
    }
    ranges = {"x": (0, 10), "z": (0.5, 1), "y": (0, 10)}
    calls: dict[str, dict[str, str]] = {"plain": {}, "with an exposure": {"exposure": "z"}, "persons": {"unit": "who"}}
    counts = {label: dp.poisson("y ~ x", data, 1.0, domain=ranges, **more) for label, more in calls.items()}
    text = str(dp.etable(counts))
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.split()}
    assert lines["Offset"] == ["np.log(z)"]
    assert lines["Protected"] == ["rows", "rows", "each", "who"]
    assert lines["Neighbours"] == ["add_remove"] * 3
    assert not {"Response", "Penalty", "Weights", "Subset"} & set(lines)
    assert "Offset" in str(dp.etable([counts["with an exposure"]] * 2))  # no difference, and a mean by another unit
    assert "with an" in text
    assert "..." not in text
    mixed = dp.etable([fits["plain"], dp.lasso("y ~ x", fits_data(), 1.0, alpha=2.0, domain=DOMAIN)])
    assert "Penalty none lasso, alpha 2" in " ".join(str(mixed).split())
    rows, persons = (next(line for line in text.splitlines() if line.startswith(name)) for name in ("Rows", "Persons"))
    assert (rows.count("about"), persons.count("about")) == (2, 1)
    assert "\nRows" not in str(dp.etable([counts["persons"]]))


def fits_data() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    return pd.DataFrame({"x": rng.uniform(0, 10, 300), "y": rng.normal(size=300)})


def test_long_names_are_whole(fits: dict[str, dp.GLMResults]) -> None:
    name = "a_name_that_a_survey_gives_to_its_columns"
    data = fits_data().rename(columns={"x": name}).assign(x=0.5)
    domain = {name: (0, 10), "x": (0, 1), "y": (-5, 5)}
    fit = dp.ols(f"y ~ {name} * x", data, 2.0, domain=domain, inference=True, seed=1)
    for text in (str(dp.etable([fit, fit])), str(fit.summary())):
        assert max(map(len, text.splitlines())) <= 80
        assert "..." not in text
        starts = "".join(line[:33].strip() for line in text.splitlines())
        assert f"{name}:x" in starts or f"{name}:x" in text


@pytest.mark.parametrize(
    ("given", "labels", "fix"),
    [
        ([], None, "a list of results"),
        (None, None, "a list of results"),
        ([3], None, r"fits\[0\] must be what dp.glm returns, got int"),
        ("paid", ["a", "b"], "1 different strings"),
        ("dict", ["a"], "whose keys are the labels"),
    ],
)
def test_other_things_are_refused(given: Any, labels: Any, fix: str, fits: dict[str, dp.GLMResults]) -> None:
    asked = {"paid": [fits["paid"]], "dict": fits}.get(given, given) if isinstance(given, str) else given
    with pytest.raises(ArgumentError, match=fix):
        dp.etable(asked, labels)


def test_results_are_composed_as_their_guarantees(fits: dict[str, dp.GLMResults]) -> None:
    both = [fits["paid"], fits["plain"]]
    assert dp.compose(both) == dp.compose([fit.guarantee for fit in both])


def test_copies_of_a_release_count_once(fits: dict[str, dp.GLMResults], tmp_path: Path) -> None:
    """A fit beside itself, or beside its copy from a file, was counted twice: "they cost eps 2 together"."""
    fits["paid"].save(tmp_path / "paid.json")
    copy = dp.load(tmp_path / "paid.json")
    text = " ".join(str(dp.etable([fits["paid"], copy, fits["paid"]])).split())
    assert "Columns of the same release share one charge." in text
    assert "cost eps" not in text
    text = " ".join(str(dp.etable([fits["paid"], copy, fits["plain"]])).split())
    assert "On the same rows the releases cost eps 1.5 together." in text


def test_releases_of_zeros_may_be_alike_and_count_each() -> None:
    rows, domain = pd.DataFrame({"x": [0.5] * 50, "y": [0.5] * 50}), {"x": (0, 1), "y": (0, 1)}
    lasso = {"penalty": "lasso", "alpha": 50.0, "inference": None, "domain": domain, "seed": 1}
    zeros = [dp.ols("y ~ x - 1", rows, 1.0, **lasso) for _ in range(2)]
    assert not zeros[0].params.any()
    other = dp.ols("y ~ 1", rows, 1.0, domain=domain, inference=None)  # a table has at least one row
    assert "these fits cost eps 3 together" in " ".join(str(dp.etable([*zeros, other])).split())


def test_fits_of_one_charge_are_not_said_to_be_charged_separately() -> None:
    """Those of `plan_many` have one entry of a ledger; their note said that they "were charged separately"."""
    rows, domain = pd.DataFrame({"x": [0.2, 0.4], "y": [0.1, 0.9]}), {"x": (0, 1), "y": (0, 1)}
    fits = dp.plan_many({"a": "y ~ x", "b": "y ~ 1"}, domain, 1.0).fit(rows, seed=1)
    text = " ".join(str(dp.etable(fits)).split())
    assert "On the same rows these fits cost eps 1 together." in text
    assert "separately" not in text


def test_ratios_have_intervals_and_stars_follow_the_p_values(fits: dict[str, dp.GLMResults]) -> None:
    fit = fits["logit"]
    table = dp.etable([fit], exponentiate=True, stars=True)
    frame = table.frame["(1)"]
    assert frame["ratio"].to_numpy() == pytest.approx(np.exp(fit.debiased.to_numpy()))
    assert frame[["low", "high"]].to_numpy() == pytest.approx(np.exp(fit.conf_int().to_numpy()))
    lines = {line.split()[0]: line.split() for line in str(table).splitlines() if line.split()}
    assert fit.pvalues["x"] < 0.001
    assert lines["x"][1].endswith("***")
    assert "odds ratios" in str(table)
    assert "*** p < 0.001" in " ".join(str(table).split())
    plain = str(dp.etable([fit]))
    assert "*" not in plain
    with pytest.raises(ArgumentError, match="exponentiate needs a logit or log link, and paid has another one"):
        dp.etable(fits, exponentiate=True)
    for name in ("exponentiate", "stars"):
        with pytest.raises(ArgumentError, match=name):
            dp.etable([fit], **{name: "yes"})  # type: ignore[arg-type]


def test_coefficients_and_facts_are_one_table_where_lines_have_no_end(fits: dict[str, dp.GLMResults]) -> None:
    table = dp.etable([fits["paid"], fits["plain"]] * 3, stars=True)
    latex, html, markdown = table.to_latex(), table.to_html(), table.to_markdown()
    assert latex.count(r"\begin{tabular}{lrrrrrr}") == latex.count(r"\begin{tabular}") == 1
    assert latex.count(r"\midrule") == 2
    assert html.count("<table") == 1
    assert markdown.count("|:---|") == 1
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in rows} == {6}
    # Numbers end at the same place, whether they have stars or not: stars have no width, and nothing else is padded.
    cells = [cell.strip(" \\") for row in rows[1:7] for cell in row.split(" & ")[1:]]
    starred = [cell for cell in cells if "*" in cell]
    assert starred
    assert all(re.fullmatch(r"[-.\d]+\\rlap\{\$\^\{\*+\}\$\}", cell) for cell in starred)
    assert "phantom" not in latex
    assert 'style="text-align: right"' in html


def test_stars_leave_digits_below_each_other(fits: dict[str, dp.GLMResults]) -> None:
    lines = str(dp.etable([fits["paid"]], stars=True)).splitlines()
    ends = {len(line.rstrip("* ")) for line in lines[3:9]}
    assert len(ends) == 1 or {end - min(ends) for end in ends} == {0, 1}, "a bracket is the one sign beyond"


def test_text_of_html_has_the_stars_of_the_table(fits: dict[str, dp.GLMResults]) -> None:
    """Cells without stars were padded with invisible ones, which pandas and Word read."""
    table = dp.etable([fits["paid"]], stars=True)
    text = re.sub("<[^>]*>", "", table.to_html())
    assert re.findall(r"\d(\*+)", text) == re.findall(r"\d(\*+)", str(table))
    assert "visibility" not in table.to_html()


def test_figures_of_the_fit_stand_in_every_table_that_has_them(fits: dict[str, dp.GLMResults]) -> None:
    """Of one column as of several, of released statistics as of sums that were bought."""
    rows = fits_data().assign(y=lambda data: 0.3 * data["x"] + data["y"])
    statistics = dp.ols("y ~ x", pd.concat([rows] * 20), 4.0, domain=DOMAIN, method="statistics")
    for fit, words in ((fits["paid"], "R2"), (fits["logit"], "Deviance expl."), (statistics, "R2")):
        name = "r_squared" if words == "R2" else "deviance_explained"
        value, error = fit.fitstats.loc[name, ["value", "std_error"]]
        cell = f"{to_the_noise(value, error)} ({to_the_noise(error, error)})"
        for table in (dp.etable([fit]), dp.etable([fit, fits["plain"]])):
            for text in (str(table), table.to_latex(), table.to_html(), table.to_markdown()):
                assert cell in text
                assert words in text
    assert "R2" not in str(dp.etable([fits["plain"]]))


def test_no_interval_goes_on_in_another_line() -> None:
    random = np.random.default_rng(6)
    rows = pd.DataFrame({"x": random.uniform(0, 1000, 30_000)})
    rows["y"] = (random.random(30_000) < 1 / (1 + np.exp(6 - 0.01 * rows["x"]))).astype(int)
    fit = dp.logit("y ~ x", rows, 2.0, domain={"x": (0, 1000), "y": (0, 1)}, inference=True)
    for stars in (False, True):
        for number in (1, 2, 4):
            text = str(dp.etable([fit] * number, exponentiate=True, stars=stars))
            assert max(map(len, text.splitlines())) <= 78
            table = text.partition("Notes:")[0]
            assert all(line.count("[") == line.count("]") for line in table.splitlines())
            assert table.count("[0.00") == number


@pytest.fixture(scope="module")
def rare() -> dp.GLMResults:
    """One level has three rows, which this budget does not identify."""
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({"x": rng.uniform(0, 10, 6000), "g": rng.choice(["a", "b"], 6000)})
    rows["b"] = np.where(rng.random(6000) < 1 / (1 + np.exp(2 - 0.5 * rows["x"])), "yes", "no")
    rows.loc[:2, "g"] = "rare"
    domain = {"x": (0, 10), "g": ["a", "b", "rare"], "b": ["no", "yes"]}
    return dp.logit("b ~ x + g", rows, 1.0, domain=domain, seed=1)


def test_what_is_not_identified_is_marked_in_every_form(rare: dp.GLMResults, tmp_path: Path) -> None:
    assert not rare.identified["g[T.rare]"]
    assert rare.identified["x"]
    docx = pytest.importorskip("docx")
    for exponentiate in (False, True):
        table = dp.etable([rare], exponentiate=exponentiate, stars=True)
        table.to_docx(tmp_path / "table.docx")
        document = docx.Document(tmp_path / "table.docx")
        word = "\n".join([cell.text for made in document.tables for row in made.rows for cell in row.cells])
        word += "\n".join(paragraph.text for paragraph in document.paragraphs)
        for text in (str(table), table.to_latex(), table.to_html(), table.to_markdown(), word):
            assert text.count("not identified") == 2, "at the coefficient, and in a note"
            above = "exponential of the coefficient" if exponentiate else "coefficient"
            assert f"at this budget: the number above is the {above} as released" in " ".join(text.split())
    assert "not identified" not in str(dp.etable([rare], keep=["x"]))


def test_rows_are_chosen_ordered_and_named(rare: dp.GLMResults) -> None:
    def rows(**chosen: Any) -> list[str]:
        return dp.etable([rare], **chosen).frame.index.tolist()

    assert rows() == ["Intercept", "g[T.b]", "g[T.rare]", "x"]
    assert rows(keep=["x", "g[T"]) == ["x", "g[T.b]", "g[T.rare]"]
    assert rows(keep="^g.*b.$") == ["g[T.b]"]
    assert rows(drop=["Intercept", "g"], rename={"x": "Hours", "Intercept": "Constant"}) == ["Hours"]
    table = dp.etable([rare], drop="g", rename={"x": "Hours_%"}, title="A table of 100 %")
    for text, percent in ((str(table), "%"), (table.to_latex(), r"\%"), (table.to_markdown(), "%")):
        assert f"A table of 100 {percent}" in text
        assert f"Hours{'_' if percent == '%' else chr(92) + '_'}{percent}" in text
        assert "rare" not in text


@pytest.mark.parametrize(
    ("chosen", "fix"),
    [
        ({"keep": "X"}, r"keep: no coefficient is called 'X' or matches it; did you mean 'x'\?"),
        ({"drop": "C(g"}, "drop: no coefficient is called .* the rows are Intercept, "),
        ({"keep": 3}, "keep must be a string or a list of strings"),
        ({"drop": ["x", "g", "Intercept"]}, "no row is left"),
        ({"rename": {"y": "Y"}}, "rename: no coefficient is called 'y'; the rows are"),
        ({"rename": {"x": "g[T.b]"}}, "two rows the same name"),
        ({"rename": ["Hours"]}, "rename must be a dict"),
        ({"title": 3}, "title must be a string"),
    ],
)
def test_other_rows_are_refused(chosen: dict[str, Any], fix: str, rare: dp.GLMResults) -> None:
    with pytest.raises(ArgumentError, match=fix):
        dp.etable([rare], **chosen)


def test_ratios_without_errors_have_the_digits_that_noise_leaves(fits: dict[str, dp.GLMResults]) -> None:
    rng = np.random.default_rng(1)
    rows = {"x": rng.uniform(0, 100, 20_000), "y": rng.integers(0, 2, 20_000)}
    fit = dp.logit("y ~ x", rows, 1.0, domain={"x": (0, 100), "y": (0, 1)}, inference=None)
    cell = next(line.split()[1] for line in str(dp.etable([fit], exponentiate=True)).splitlines() if line[:2] == "x ")
    ratio = float(np.exp(fit.params["x"]))
    assert abs(float(cell) - ratio) < fit.noise_at_most["x"] / 10
    assert len(cell) >= len("1.000")


def test_a_ratio_with_a_wide_interval_is_not_zero(
    monkeypatch: pytest.MonkeyPatch, fits: dict[str, dp.GLMResults]
) -> None:
    rng = np.random.default_rng(1)
    rows = {"x": rng.uniform(0, 1, 3000), "y": rng.integers(0, 2, 3000)}
    fit = dp.logit("y ~ x", rows, 1.0, domain={"x": (0, 1), "y": (0, 1)}, inference=True, on_mismatch="go")
    ends = pd.DataFrame({0: np.log([0.001, 0.001]), 1: np.log([7230.0, 7230.0])}, index=fit.params.index)
    monkeypatch.setattr(type(fit), "conf_int", lambda fit: ends)
    monkeypatch.setattr(type(fit), "debiased", property(lambda fit: pd.Series(np.log([1.903, 0.5]), ends.index)))
    lines = str(dp.etable([fit], exponentiate=True)).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Intercept"))
    assert lines[at].split()[1] == "1.9"
    assert " ".join(lines[at + 1].split()) == "[0.0010, 7200]"


def test_no_row_of_latex_begins_with_an_argument(fits: dict[str, dp.GLMResults]) -> None:
    """TeX reads `\\\\[Age]` as a line that is followed by a space of Age."""
    (name, *_) = fits["paid"].params.index
    for new in ("[Age]", "*Age"):
        lines = dp.etable([fits["paid"]], rename={name: new}).to_latex().splitlines()
        (line,) = (line for line in lines if "Age" in line)
        assert line.strip().startswith(f"{{{new[0]}}}")


def test_a_share_of_capped_residuals_is_no_r2() -> None:
    """Two thirds of the variance are in one residual of a hundred, which the cap moves.

    With each of the seeds 0 to 19 the shares are .885 to .888, and .329 to .335.
    """
    rng = np.random.default_rng(1)
    x, residuals = rng.uniform(0, 10, 20_000), rng.standard_normal(20_000)
    residuals[:200] = np.where(np.arange(200) % 2, 40, -40)
    rows = {"x": x, "y": np.clip(x + residuals, -40, 60)}
    call = {"domain": {"x": (0, 10), "y": (-40, 60)}, "inference": True, "seed": 1}
    capped, exact = dp.ols("y ~ x", rows, 8.0, **call), dp.ols("y ~ x", rows, 8.0, method="statistics", **call)
    lines = {line[:16].strip(): line[16:].split() for line in str(dp.etable([capped, exact])).splitlines()}
    shown, true = float(lines["R2 (capped)"][0]), float(lines["R2"][0])
    assert shown > true + 0.5
    assert len(lines["Residual cap"]) == 1
    assert "Residual cap" in str(dp.etable([capped])), "also where there is no other fit to differ from"
    assert "Residual cap" not in str(dp.etable([exact]))
    for table in (capped.fitstats, capped.glance()):
        assert table.attrs["note"].startswith("r_squared: of residuals capped at ")
    assert "capped" not in exact.fitstats.attrs.get("note", "")


def test_a_missing_share_has_its_reason(fits: dict[str, dp.GLMResults]) -> None:
    lines = str(dp.etable([fits["paid"], fits["plain"]])).splitlines()
    (line,) = (line for line in lines if line.startswith("R2"))
    assert line.endswith("not bought")


def test_a_share_that_the_summary_leaves_out_is_hidden_in_the_table(fits: dict[str, dp.GLMResults]) -> None:
    """It stood there as .57 (.44)."""
    rng = np.random.default_rng(8)
    rows = pd.DataFrame({"x": rng.uniform(0, 10, 300)})
    rows["b"] = (rng.random(300) < 1 / (1 + np.exp(-(rows["x"] - 5) / 2))).astype(int)
    domain = {"x": (0, 10), "b": (0, 1)}
    fit = dp.logit("b ~ x", rows, 1.0, domain=domain, seed=1, inference=True, fitstats=0.03)
    assert np.isfinite(fit.fitstats.loc["deviance_explained", "value"])
    assert "deviance explained" not in fit.summary().as_text()
    for table, cells in ((dp.etable([fit]), 1), (dp.etable([fit, fits["logit"]]), 2)):
        (line,) = (line for line in table.to_markdown().splitlines() if "Deviance expl." in line)
        assert line.count("hidden by noise") == 1
        assert line.count("(") == cells - 1


def test_long_names_go_on_before_fits_go_to_another_panel() -> None:
    rng = np.random.default_rng(2)
    name = "occupation_of_the_person_asked"
    rows = {name: rng.uniform(0, 1, 3000), "y": rng.integers(0, 2, 3000)}
    fit = dp.logit(f"y ~ {name}", rows, 1.0, domain={name: (0, 1), "y": (0, 1)})
    text = str(dp.etable([fit] * 3, exponentiate=True))
    assert max(map(len, text.splitlines())) <= 78
    assert any(line.split() == ["(1)", "(2)", "(3)"] for line in text.splitlines())


def test_a_title_is_a_caption_and_a_label_can_be_referred_to(fits: dict[str, dp.GLMResults]) -> None:
    """The title was a comment of LaTeX."""
    table = dp.etable([fits["paid"], fits["plain"]], title="Wages & more_or_less")
    shown = table.to_latex(label="tab:wages-2")
    alone = dp.etable({"a": table.fits[0]}).to_latex(label="tab:wages-2")
    assert "caption" not in alone
    assert "\\refstepcounter{table}\n\\label{tab:wages-2}" in alone, "a reference has the number of the table"
    lines = shown.splitlines()
    assert lines[0].startswith(r"\begin{table}")
    assert lines[2:4] == [r"\caption{Wages \& more\_or\_less}", r"\label{tab:wages-2}"]
    assert lines[-1] == r"\end{table}"
    assert shown.index(r"\end{tabular}") < shown.index("Notes:") < shown.index(r"\end{minipage}")
    for rule in ("toprule", "midrule", "bottomrule"):
        assert rf"\{rule}" in shown
    assert "%\\caption" not in shown
    assert r"\label" not in table.to_latex()
    assert r"\caption{Wages" in table.to_latex()
    assert "<caption>Wages &amp; more_or_less</caption>" in table.to_html()
    assert r"\begin{table}" not in dp.etable([fits["paid"]]).to_latex()
    assert r"\label{a}" in fits["paid"].summary().as_latex("a")
    for wrong in ("tab}{x", "a%b", 3):
        with pytest.raises(ArgumentError, match="label must be letters"):
            table.to_latex(label=wrong)  # type: ignore[arg-type]
    assert dp.etable([fits["paid"]], title=None).to_latex() == dp.etable([fits["paid"]]).to_latex()


def test_tables_are_written_where_a_path_says(fits: dict[str, dp.GLMResults], tmp_path: Path) -> None:
    """The path was taken for a label, and no file was written."""
    for shown in (dp.etable([fits["paid"]]), fits["paid"]):
        for name in ("to_latex", "to_html", "to_markdown"):
            path, encoding = tmp_path / name, '<meta charset="utf-8">\n' * (name == "to_html")
            text = getattr(shown, name)(path)
            assert text == getattr(shown, name)()
            assert path.read_text(encoding="utf-8") == encoding + text, "a browser guesses the encoding of a file"
        for name in ("to_latex", "to_html", "to_markdown"):
            with pytest.raises(ArgumentError, match="cannot be written"):
                getattr(shown, name)(tmp_path / "nowhere" / "table")


def test_what_a_lasso_kept_is_not_printed_as_zero() -> None:
    """The bound on its noise alone would print some of the slopes as 0.0, which reads as left out."""
    rng = np.random.default_rng(3)
    names = [f"z{place}" for place in range(8)]
    data = pd.DataFrame(rng.uniform(0, 1, (8000, 8)), columns=names).assign(y=rng.normal(50, 5, 8000))
    domain = {**dict.fromkeys(names, (0, 1)), "y": (0, 100)}
    fit = dp.lasso(f"y ~ {' + '.join(names)}", data, 1.0, domain=domain, alpha=1.0, seed=1)
    kept = fit.params[fit.in_model].drop("Intercept")
    assert any(float(to_the_noise(value, fit.noise_at_most[name] / 10)) == 0 for name, value in kept.items())
    lines = dp.etable([fit]).summary().as_text().splitlines()
    cells = {line.split()[0]: line.split()[1] for line in lines if line.startswith("z")}
    assert set(cells) == set(kept.index)
    assert all(float(cell) * kept[name] > 0 for name, cell in cells.items())
    assert all(cell in str(fit.summary()) for cell in cells.values())


def test_ratios_near_one_differ_from_one_and_from_their_ends() -> None:
    """The odds for a unit of an income: four digits would be an odds ratio of exactly 1 with three stars."""
    rng = np.random.default_rng(1)
    income = rng.uniform(0, 1e5, 20_000)
    data = {
        "income": income,
        "b": np.where(rng.uniform(size=20_000) < 1 / (1 + np.exp(2e-5 * income - 1)), "yes", "no"),
    }
    fit = dp.logit("b ~ income", data, 2.0, domain={"income": (0, 1e5), "b": ["no", "yes"]}, seed=1)
    table = dp.etable([fit], exponentiate=True, stars=True)
    tidy = fit.tidy(exponentiate=True).set_index("term").loc["income"]
    for text in (str(table), table.to_latex(), table.to_markdown(), table._repr_html_()):
        written = [float(number) for number in re.findall(r"0\.9999\d+", text)]
        assert written == pytest.approx([tidy["estimate"], tidy["conf_low"], tidy["conf_high"]], abs=1e-7)
        assert len({*written, 1.0}) == 4


def test_fits_of_chosen_columns_say_so_beside_others() -> None:
    """The title of their summaries says it, which no column of a table has; so does the note on the same rows."""
    random = np.random.default_rng(0)
    rows = pd.DataFrame(random.uniform(-1, 1, (3000, 6)), columns=list("abcdef"))
    rows["y"] = rows["a"] + random.normal(0, 0.5, 3000)
    domain = {**dict.fromkeys("abcdef", (-1, 1)), "y": (-3, 3)}
    arguments = {"domain": domain, "inference": True, "seed": 1}
    apart, same = (
        dp.ols("y ~ a + b + c + d + e + f", rows, 2.0, screen=2, split=one, **arguments) for one in ("rows", None)
    )
    notes = " ".join(
        str(dp.etable({"apart": apart, "same": same, "a": dp.ols("y ~ a", rows, 2.0, **arguments)})).split()
    )
    assert "apart, same: effects in the model chosen; a column without a cell was not chosen." in notes
    assert "same: not adjusted for selection, as the same rows chose the columns." in notes
    assert "apart: not adjusted" not in notes


@pytest.fixture(scope="module")
def lasso() -> dp.GLMResults:
    """Of columns correlated by .8, of which a lasso chooses one that may stand for another."""
    random, size = np.random.default_rng(0), 20
    names = [f"x{place}" for place in range(size)]
    columns = random.normal(size=(6000, size)) @ np.linalg.cholesky(0.8 + 0.2 * np.eye(size)).T
    rows = pd.DataFrame(columns.clip(-3, 3), columns=names)
    rows["y"] = 0.6 * rows["x1"] - 0.5 * rows["x3"] + 0.25 * rows["x5"] + random.normal(size=6000)
    domain = {**dict.fromkeys(names, dp.Range(-3, 3, typical=(0, 1))), "y": (-8, 8)}
    arguments: dict[str, Any] = {"refit_share": 0.5, "split": "rows", "inference": True, "domain": domain, "seed": 1}
    return dp.lasso(f"y ~ {' + '.join(names)}", rows, 3.0, **arguments)


def test_a_lasso_alone_is_a_fit_of_chosen_columns(lasso: dp.GLMResults) -> None:
    """Its table named neither the choice nor the penalty, and a withheld error was called not identified."""
    unknown = lasso.bse[np.isinf(lasso.bse)].index.tolist()
    assert len(unknown) == 1
    assert f"No error is shown for {unknown[0]}:" in " ".join(lasso.notes)
    table = dp.etable([lasso], title="Lasso")
    for text in (str(table), table._repr_html_(), table.to_latex(), table.to_markdown()):
        words = " ".join(text.split())
        assert "(1): effects in the model chosen; a column without a cell was not chosen." in words
        assert f"(1): no error is shown for {unknown[0]}: an effect this uncertain does not explain the choice" in words
        assert "Penalty" in words
        assert "lasso, alpha" in words
        assert words.count("not shown") == 1
        assert "not identified" not in words
        assert "not adjusted" not in words
    assert table.frame.index.tolist() == lasso.params[lasso.in_model].index.tolist()
    csv = pd.read_csv(io.StringIO(table.to_csv()), header=[0, 1], index_col=0)
    assert csv.loc[unknown[0], ("(1)", "std_error")] == np.inf


def test_columns_kept_for_prediction_are_not_called_effects_alone() -> None:
    random = np.random.default_rng(0)
    rows = pd.DataFrame(random.uniform(-1, 1, (3000, 6)), columns=list("abcdef"))
    rows["y"] = rows["a"] + random.normal(0, 0.5, 3000)
    domain = {**dict.fromkeys("abcdef", (-1, 1)), "y": (-3, 3)}
    kept = dp.lasso("y ~ a + b + c + d + e + f", rows, 2.0, domain=domain, seed=1)
    ridge = dp.ols("y ~ a", rows, 2.0, domain=domain, penalty="ridge", alpha=1.0, seed=1)
    words = " ".join(str(dp.etable({"kept": kept})).split())
    assert "kept: columns are kept for prediction and may have no effect." in words
    alone = " ".join(str(dp.etable({"ridge": ridge})).split())
    assert "Penalty ridge, alpha 1" in alone
    assert "model chosen" not in alone


def test_the_numbers_of_a_table_are_written_as_csv(fits: dict[str, dp.GLMResults], tmp_path: Path) -> None:
    table = dp.etable([fits["paid"], fits["plain"]])
    text = table.to_csv(tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == text
    read = pd.read_csv(tmp_path / "table.csv", header=[0, 1], index_col=0)
    assert read.columns.tolist() == table.frame.columns.tolist()
    assert np.array_equal(read.to_numpy(), table.frame.to_numpy(), equal_nan=True)


@pytest.mark.parametrize("exponentiate", [False, True])
def test_stars_of_a_table_are_written_as_csv(fits: dict[str, dp.GLMResults], exponentiate: bool) -> None:
    """They were left out without a word."""
    logit, plain = fits["logit"], "" if exponentiate else "plain"
    table = dp.etable([logit, *([fits[plain]] if plain else [])], exponentiate=exponentiate, stars=True)
    read = pd.read_csv(io.StringIO(table.to_csv()), header=[0, 1], index_col=0, keep_default_na=False)
    assert read["(1)"].columns[-1] == "stars"
    for name, pvalue in logit.pvalues.items():
        assert read.loc[name, ("(1)", "stars")] == "*" * sum(pvalue < level for level in (0.05, 0.01, 0.001))
    assert "***" in set(read["(1)", "stars"])
    if plain:
        assert set(read["(2)", "stars"]) == {""}
    unmarked = dp.etable([logit], exponentiate=exponentiate).frame
    assert "stars" not in unmarked["(1)"]

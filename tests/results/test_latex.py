"""LaTeX of every kind of summary: no sign of a name means anything to TeX, and TeX takes it where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.summaries import LATEX, Summary, full_width, wrap_notes

LEVELS = [
    *("a & b", "50 % [x]", "#1 {z}", "~tilde^2", "ümläut ß", "back\\slash", '<b> | "q"', "$5 _x_", "[T.[brackets]]"),
    "a level that is so long that its name has to go on in another line of the table",
]
FORMULA = 'y_1 ~ age_in_years*group_ß + Q("x%") + I(t**2)'
SPECIAL = re.compile(r"[&%$#_{}~^<>|]")


def escaped_away(text: str) -> str:
    """What is left without the commands and escapes that LaTeX is to read."""
    text = re.sub(r"^%\\caption\{.*\}$", "", text, flags=re.MULTILINE)  # the title stands in a comment
    text = re.sub(r"\\(begin|end)\{(center|tabular|minipage)\}(\{([lcr]+|\\linewidth)\})?", "", text)
    text = re.sub(r"\\text(backslash|asciitilde|asciicircum|less|greater|bar)\{\}", "", text)
    text = re.sub(r"\\texttt\{([^{}]*)\}|(?<=-)\{\}(?=-)", r"\1", re.sub(r"\\[&%$#_{}]", "", text))
    text = re.sub(r"\\(toprule|midrule|bottomrule|footnotesize)", "", text)
    return re.sub(r" & |&(?= )", " ", text.replace(r"\\", ""))


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(
        {
            "age_in_years": rng.uniform(18, 90, 400),
            "group_ß": rng.choice(LEVELS, 400),
            "x%": rng.uniform(0, 1, 400),
            "y_1": rng.integers(0, 2, 400),
            "z": rng.uniform(60, 220, 400),
            "t": rng.uniform(1, 5, 400),
        }
    )
    domain = {"age_in_years": (18, 90), "group_ß": LEVELS, "x%": (0, 1), "y_1": (0, 1), "z": (60, 220), "t": (1, 5)}
    linear = FORMULA.replace("y_1", "z")
    binary = dp.logit(FORMULA, rows, 5.0, domain=domain)
    bounded = dp.ols(linear, rows, 5.0, delta=1e-6, inference=True, adjacency="replace_one", domain=domain)
    sparse = dp.lasso(linear, rows, 2.0, alpha=5.0, domain=domain)
    seeded = dp.ols("z ~ age_in_years", rows, 2.0, seed=1, allow_uncertified=True, domain=domain)
    stream = dp.streaming.Regression("z ~ age_in_years + group_ß", domain, 1.0, 1e-6, horizon=8)
    sums = dp.release_statistics(domain, ["z", "age_in_years"], 1.0, data=rows)
    found = {
        "fit": binary.summary(),
        "full": binary.summary(full=True),
        "bounded": bounded.summary(full=True, n=400),
        "sparse": sparse.summary(full=True),
        "seeded": seeded.summary(full=True),
        "output": dp.ols("z ~ age_in_years", rows, 2.0, method="output", domain=domain).summary(full=True),
        "side by side": dp.etable({"a_1 & b": binary, "OLS %": bounded, "#3": seeded}).summary(),
        "classes": dp.evaluate(binary, rows, 2.0).summary(),
        "numbers": dp.evaluate(seeded, rows, 2.0).summary(),
        "check": dp.check(FORMULA, rows, domain, 1.0).summary(),
        "plan": dp.plan(FORMULA, domain, 1.0).summary(),
        "stream": stream.update(rows).summary(full=True),
        "sums": sums.summary(),
        "of sums": sums.fit("z ~ age_in_years").summary(),
        "methods": dp.compare("z ~ age_in_years", domain, 1.0).summary(),
    }
    return {name: summary.as_latex() for name, summary in found.items()}


@pytest.mark.slow
def test_environments_are_balanced_and_no_sign_is_left(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        assert page.count(r"\begin{tabular}") == page.count(r"\end{tabular}") > 0, name
        left = SPECIAL.search(escaped_away(page))
        assert left is None, (name, left)


def test_every_row_has_a_cell_for_each_column(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        for columns, body in re.findall(r"\\begin\{tabular\}\{([lcr]+)\}(.*?)\\end\{tabular\}", page, re.DOTALL):
            rows = [line for line in body.splitlines() if line.rstrip().endswith(r"\\")]
            assert rows, name
            assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(columns)}, name


def test_names_and_notes_stand_on_one_line(pages: dict[str, str]) -> None:
    long = LEVELS[-1].translate(LATEX)
    assert f"T.{long}" in pages["fit"]
    assert all("Details" not in page and "newline" not in page for page in pages.values())


def test_a_sign_that_is_missed_is_found() -> None:
    """The test above looks for something: a name that is not escaped does not pass it."""
    table = full_width(["coef"], [("x_1", ["2"])], [10])
    assert SPECIAL.search(escaped_away(table.as_latex_tabular(replacements={})))
    summary = Summary()
    summary.tables = [table]
    summary.add_extra_txt(wrap_notes(["50 % of x_1"]))
    assert not SPECIAL.search(escaped_away(summary.as_latex()))


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_tex_takes_it(pages: dict[str, str], tmp_path: Path) -> None:
    document = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n%s\n\\end{document}\n"
    (tmp_path / "pages.tex").write_text(document % "\n\\clearpage\n".join(pages.values()), encoding="utf-8")
    made = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "pages.tex"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert made.returncode == 0, made.stdout.decode(errors="replace")[-1500:]


def test_names_and_options_of_notes_are_typewritten() -> None:
    """Backticks would be two opening quotes, and two hyphens a dash."""
    summary = Summary([full_width(["coef"], [("x", ["2"])], [10])], ["rows are lost to `income_eur`; type --set a=b"])
    assert r"lost to \texttt{income\_eur}; type -{}-set a=b" in summary.as_latex()
    assert "`income_eur`; type --set a=b" in summary.as_text().replace("\n    ", " ")

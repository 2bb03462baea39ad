"""Word files have the tables and the notes of a summary."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError

docx = pytest.importorskip("docx")

LONG = "the_number_of_hours_that_somebody_works_in_a_usual_week_of_the_last_year_by_their_account"


@pytest.fixture(scope="module")
def fits() -> list[dp.GLMResults]:
    random = np.random.default_rng(0)
    rows = {LONG: random.uniform(0, 1, 2_000), "x": random.uniform(0, 1, 2_000)}
    rows["y"] = rows[LONG] + random.normal(0, 0.2, 2_000)
    domain = {LONG: (0, 1), "x": (0, 1), "y": (-1, 2)}
    return [dp.ols(f"y ~ {right}", rows, 5.0, domain=domain, seed=1) for right in (LONG, f"{LONG} + x")]


def test_a_table_of_fits_is_one_table_with_a_row_a_line(fits: list[dp.GLMResults], tmp_path: Path) -> None:
    table = dp.etable({"small": fits[0], "large": fits[1]}, stars=True)
    table.to_docx(tmp_path / "table.docx")
    document = docx.Document(str(tmp_path / "table.docx"))
    cells = [[cell.text for cell in row.cells] for row in document.tables[0].rows]
    assert len(document.tables) == 1
    assert cells[0] == ["", "small", "large"]
    assert LONG in [row[0] for row in cells]  # in one piece
    assert all(text.isprintable() for row in cells for text in row)
    assert [one.text for one in document.paragraphs if one.text] == table.summary()._notes()


def test_a_fit_says_that_it_is_not_certified_and_a_check_has_its_findings(
    fits: list[dp.GLMResults], tmp_path: Path
) -> None:
    fits[0].to_docx(str(tmp_path / "fit.docx"))
    document = docx.Document(str(tmp_path / "fit.docx"))
    assert "NOT CERTIFIED" in document.paragraphs[0].text
    with pytest.raises(ArgumentError, match="cannot be written"):
        fits[0].to_docx(tmp_path / "nowhere" / "fit.docx")


def test_without_the_package_the_error_says_what_to_do(
    fits: list[dp.GLMResults], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "docx", None)
    with pytest.raises(ArgumentError, match=r"pip install python-docx.*to_html"):
        fits[0].to_docx(tmp_path / "fit.docx")
    assert not list(tmp_path.iterdir())

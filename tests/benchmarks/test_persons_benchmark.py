"""The benchmarks of persons at a small size: columns, and that intervals by rows are the shortest."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.inference import person_caps, person_forecasts, person_predictions, persons


def test_a_small_cell() -> None:
    target = pd.Series([0.2, 0.7, -0.5], index=["Intercept", "own", "now"])
    table = persons.cell(400, 8.0, 2, {True: target, False: target}).set_index("rows count")
    assert table.index.tolist() == list(persons.CASES)
    assert table["covered"].between(0, 1).all()
    assert np.isfinite(table.loc[table["bounded"] == 1, "width"]).all()
    assert table.loc["by rows, for rows", "width"] < table.loc["equal shares", "width"]


def test_persons_have_one_to_ten_rows() -> None:
    sizes = persons.population(500, 1).groupby("person").size()
    assert (sizes.min(), sizes.max(), len(sizes)) == (1, 10, 500)


def test_forecasts_are_divided_by_the_errors_of_fits() -> None:
    found = person_forecasts.ratios("gaussian", 0.5, 1)
    assert list(found) == [
        f"{known} {kind}" for known in (*person_forecasts.KNOWN["gaussian"], "like=") for kind in ("lower", "std_error")
    ]
    assert all((one > 0).all() for one in found.values())


def test_a_cap_has_the_errors_and_the_coverage_of_its_fits() -> None:
    table = person_caps.line(8.0, person_caps.NARROW, {}, 2)
    assert table.index.tolist() == list(person_caps.SLOPES)
    assert table["covered"].isin([0, 0.5, 1]).all()
    assert np.isfinite(table).all(axis=None)


@pytest.mark.parametrize("model", ["ols", "logit"])
def test_predictions_for_persons_have_errors_of_their_size(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of all parts' errors is 10 to 2,000 times too large for a year that is far from zero."""
    monkeypatch.setattr(person_predictions, "MANY", 5000)
    ratios, covered = person_predictions.line(model, 20.0, None, 4)
    assert ratios.shape == covered.shape == (3,)
    assert np.all(ratios < 6)  # of four fits: the spread is known to a factor of about three

"""Example data sets: complete, described, and with public facts that hold."""

from __future__ import annotations

import dataclasses
import gzip
import socket
from collections.abc import Callable
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from dpstats.datasets import Dataset, load_adult, load_fair, load_randhie, load_wages
from dpstats.domain import Levels, Range
from dpstats.errors import ArgumentError

LOADERS = [load_adult, load_wages, load_randhie, load_fair]


@pytest.mark.parametrize("loader", LOADERS)
def test_domain_covers_columns_in_order(loader: Callable[[], Dataset]) -> None:
    dataset = loader()
    assert list(dataset.domain) == list(dataset.data.columns)


def test_every_adult_cell_lies_in_the_codebook() -> None:
    dataset = load_adult("all")
    for name, facts in dataset.domain.items():
        cells = dataset.data[name].dropna()
        inside = cells.between(facts.low, facts.high) if isinstance(facts, Range) else cells.isin(facts.values)
        assert inside.all(), name


def test_domain_is_the_same_for_every_split() -> None:
    assert load_adult("train").domain == load_adult("test").domain == load_adult("all").domain


@pytest.mark.parametrize(("split", "rows", "rich", "missing"), [
    ("train", 32_561, 7_841, 4_262), ("test", 16_281, 3_846, 2_203), ("all", 48_842, 11_687, 6_465),
])  # fmt: skip
def test_adult_matches_its_published_counts(split: str, rows: int, rich: int, missing: int) -> None:
    """Rows, rows above $50K and missing cells, as UCI's adult.names and the source files give them."""
    data = load_adult(split).data  # type: ignore[arg-type]
    assert data.shape == (rows, 15)
    assert (data["income"] == ">50K").sum() == rich
    assert data.isna().to_numpy().sum() == missing
    assert not (data == "?").to_numpy().any()


def test_adult_education_number_is_the_rank_of_its_level() -> None:
    dataset = load_adult()
    levels = dataset.domain["education"]
    assert isinstance(levels, Levels)
    ranks = dataset.data["education"].map({level: rank for rank, level in enumerate(levels.values, start=1)})
    pd.testing.assert_series_equal(ranks, dataset.data["education_num"], check_names=False)


def test_adult_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "socket", refuse)
    assert len(load_adult().data) == 32_561


def test_licence_and_citation_lie_beside_the_data() -> None:
    folder = files("dpstats.datasets")
    notice = folder.joinpath("adult.md").read_text()
    assert "CC BY 4.0" in notice
    assert "10.24432/C5XW20" in notice
    for part in ("train", "test"):
        with folder.joinpath(f"adult_{part}.csv.gz").open("rb") as stream:
            assert gzip.decompress(stream.read()).startswith(b"age,workclass,")


def test_wages_lie_in_their_domain_and_give_the_published_regression() -> None:
    """Least squares as dp-statsmodels' paper has it: a year of school .0979 (.0010), women -.390 (.0068)."""
    dataset = load_wages()
    assert not dataset.data.isna().to_numpy().any()
    for name, facts in dataset.domain.items():
        assert isinstance(facts, Range)
        assert dataset.data[name].between(facts.low, facts.high).all(), name
    data = dataset.data.assign(log_wage=np.log(dataset.data["wage"]))
    fit = smf.ols("log_wage ~ education_years + experience + I(experience**2) + female", data).fit()
    assert fit.params[["education_years", "female"]].round(4).tolist() == [0.0979, -0.3901]
    assert fit.bse[["education_years", "female"]].round(4).tolist() == [0.0010, 0.0068]


def test_citation_and_licence_of_wages_lie_beside_them() -> None:
    notice = files("dpstats.datasets").joinpath("wages.md").read_text()
    assert load_wages().licence in notice
    assert "U.S. Census Bureau (2024)" in notice


def test_unknown_split_is_refused() -> None:
    with pytest.raises(ArgumentError, match="split"):
        load_adult("validation")  # type: ignore[arg-type]


@pytest.mark.parametrize("loader", LOADERS)
def test_repr_is_readable_and_the_object_frozen(loader: Callable[[], Dataset]) -> None:
    dataset = loader()
    text = repr(dataset)
    assert f"{len(dataset.data):,} rows" in text
    unwrapped = " ".join(text.split())
    assert dataset.citation in unwrapped
    assert dataset.licence in unwrapped
    assert max(map(len, text.splitlines())) <= 80
    with pytest.raises(dataclasses.FrozenInstanceError):
        dataset.name = "other"  # type: ignore[misc]

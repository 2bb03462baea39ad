"""Declaring public facts: ranges, levels, and the rule by which cells match levels."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.domain import Domain, Levels, Range, as_number, canonical
from dpstats.errors import DomainError


def test_ranges_levels_and_bool_are_told_apart() -> None:
    domain = Domain({"hours-per-week": (1, 99.5)}, sex=["F", "M"], smoker=bool, zero_one=[0, 1])
    assert dict(domain) == {
        "hours-per-week": Range(1, 99.5),
        "sex": Levels(("F", "M")),
        "smoker": Range(0, 1),
        "zero_one": Levels((0, 1)),
    }
    assert list(Levels(("F", "M"))) == ["F", "M"]
    assert len(Levels(("F", "M"))) == 2


@pytest.mark.parametrize("found", [np.array, pd.Index, pd.Series, lambda levels: pd.Categorical(levels)])
def test_levels_that_come_out_of_a_container_of_cells_are_refused(found: Callable[[list[str]], Any]) -> None:
    """``data["sex"].unique()`` is a list of what is in the data."""
    with pytest.raises(DomainError, match=r"'sex' must be a list written from the codebook.*tolist") as caught:
        Domain(sex=found(["canary", "M"]))
    assert "canary" not in str(caught.value)


def test_levels_are_plain_scalars() -> None:
    assert type(Domain(a=[np.int64(2), np.int64(1)])["a"].values[0]) is int


def test_coerce_keeps_a_domain_and_builds_one_from_a_dict_or_nothing() -> None:
    domain = Domain(x=(0, 1))
    assert Domain.coerce(domain) is domain
    assert Domain.coerce({"x": (0, 1)}) == domain
    assert len(Domain.coerce(None)) == 0


@pytest.mark.parametrize(
    ("declaration", "fix"),
    [
        ((1, 0), "low < high"),
        ((1, 1), "low < high"),
        ((0, math.inf), "finite"),
        ((math.nan, 1), "finite"),
        ((-1.7e308, 1.7e308), "finite"),
        ((0, 10**400), "finite"),
        ((0, 1, 2), "pair of numbers"),
        ((0,), "pair of numbers"),
        (("F", "M"), r"write levels as a list: \['F', 'M'\]"),
        ((False, True), "pair of numbers"),
        ((0, 1j), "pair of numbers"),
        ([], "empty"),
        (["a", "b", " a "], "not distinct"),
        ([1, "1.0"], "not distinct"),
        ([True, 1], "not distinct"),
        (["a", None], "strings, finite numbers"),
        ([1.0, math.nan], "strings, finite numbers"),
        ([["a"], ["b"]], "strings, finite numbers"),
        ([pd.Timestamp("2020-01-01")], "strings, finite numbers"),
        ({"a", "b"}, "write a list"),
        ("abc", "list of levels"),
        (None, "list of levels"),
        (float, "list of levels"),
        (3, "list of levels"),
    ],
)
def test_bad_declarations_name_the_column_and_the_fix(declaration: object, fix: str) -> None:
    with pytest.raises(DomainError, match=f"'wage'.*{fix}"):
        Domain(wage=declaration)


@pytest.mark.parametrize("columns", [[("x", (0, 1))], {3: (0, 1)}, "x"])
def test_columns_must_map_strings(columns: object) -> None:
    with pytest.raises(DomainError):
        Domain(columns)  # type: ignore[arg-type]


def test_a_column_is_declared_once() -> None:
    with pytest.raises(DomainError, match="twice"):
        Domain({"x": (0, 1)}, x=(0, 2))
    with pytest.raises(DomainError, match="already declares 'x'"):
        Domain(x=(0, 1)).with_ranges({"x": (0, 2)})


def test_with_ranges_leaves_the_original_alone() -> None:
    domain = Domain(sex=["F", "M"])
    wider = domain.with_ranges({"x": (-4.0, 4.0)})
    assert "x" not in domain
    assert wider == Domain(sex=["F", "M"], x=(-4.0, 4.0))


def test_domains_are_immutable_and_hashable() -> None:
    domain = Domain(x=(0, 1), a=["u", 2, True])
    with pytest.raises(TypeError):
        domain["x"] = Range(0, 2)  # type: ignore[index]
    with pytest.raises(AttributeError):
        domain.other = 1  # type: ignore[attr-defined]
    assert hash(domain) == hash(Domain(a=["u", 2, True], x=(0, 1)))
    assert domain != Domain(x=(0, 2), a=["u", 2, True])


def test_json_round_trip_keeps_types_and_order() -> None:
    domain = Domain({"größe (m)": (0.5, 2)}, level=["1a", 2, 3.5, True], age=(17, 90))
    again = Domain.from_json(domain.to_json())
    assert again == domain
    assert list(again) == list(domain)
    assert [type(v) for v in again["level"].values] == [str, int, float, bool]  # type: ignore[union-attr]
    assert eval(repr(domain), {"Domain": Domain}) == domain


def test_a_codebook_in_json_names_the_column_and_shows_the_form() -> None:
    assert Domain.from_json('{"sex": ["f", "m"]}') == Domain(sex=["f", "m"])
    with pytest.raises(
        DomainError, match=r"""'sex' must be two numbers; for levels write "sex": {"levels": \["f", "m"]}"""
    ):
        Domain.from_json('{"sex": {"range": ["f", "m"]}}')
    for text in ('{"a": [0, 1]}', '{"a": 3}', '{"a": null}'):
        with pytest.raises(DomainError, match=r"""of 'a' .* write "a": {"levels": .*{"range": \[0, 1]}"""):
            Domain.from_json(text)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"x": 1}', '{"x": {}}', '{"x": {"range": [0]}}', '{"x": {"range": [0, 1], "levels": []}}']
)
def test_from_json_refuses_what_it_did_not_write(text: str) -> None:
    with pytest.raises(DomainError):
        Domain.from_json(text)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (1, 1.0),
        (True, 1.0),
        (np.True_, 1.0),
        ("1", 1.0),
        (" 1.00 ", 1.0),
        ("1e3", 1000.0),
        (Decimal("2.5"), 2.5),
        (np.float32(0.5), 0.5),
        (" F ", "F"),
        ("1_000", "1_000"),
        ("nan", "nan"),
        ("inf", "inf"),
        (math.nan, None),
        (math.inf, None),
        (None, None),
        (pd.NA, None),
        (pd.NaT, None),
        (10**400, None),
        (Decimal("sNaN"), None),
        (1j, None),
        ([1], None),
        (b"1", None),
    ],
)
def test_canonical_values(cell: object, expected: object) -> None:
    assert canonical(cell) == expected
    if isinstance(expected, float):
        assert as_number(cell) == expected
    else:
        assert math.isnan(as_number(cell))


def test_canonical_swallows_objects_that_misbehave() -> None:
    class Rude(float):
        def __float__(self) -> float:
            raise RuntimeError("no")

    assert canonical(Rude(1.0)) == 1.0  # its class is not asked


def test_rows_are_kept_within_three_typical_deviations_and_the_range() -> None:
    assert Range(0, 300, typical=(27, 5)).interval == (12, 42)
    assert Range(20, 300, typical=(27, 5)).interval == (20, 42)

"""What names and dtypes add to a Domain, and what they leave to be bought or declared."""

from __future__ import annotations

import pandas as pd
import pytest

from dpstats.data import as_table
from dpstats.domain import Domain
from dpstats.errors import DataError, DomainError
from dpstats.families import Binomial
from dpstats.formula.advice import schema_domain

FRAME = pd.DataFrame({name: [0.5, 1.0] for name in ("y", "x", "z")}).assign(
    a="p", b=[1, 2], flag=[True, False], text="t", category=pd.Categorical(["u", "u"])
)


def test_undeclared_columns_by_schema() -> None:
    frame, nothing = as_table(FRAME), Domain()
    assert schema_domain("y ~ x + z:a + b", Domain(x=(0, 1), a=["p"]), frame)[1] == ("y", "z", "b")
    assert schema_domain("y ~ flag + x", Domain(x=(0, 1)), frame)[1] == ("y",)
    assert schema_domain("flag ~ x", nothing, frame, family=Binomial())[1] == ("x",)
    with pytest.raises(DomainError, match="the response 'b' is not declared"):
        schema_domain("b ~ x", nothing, frame, family=Binomial())
    assert schema_domain("b ~ x", nothing, None, family=Binomial())[1] == ("x",)
    assert schema_domain("y ~ x", nothing, None)[1] == ("y", "x")
    for name in ("text", "category"):
        with pytest.raises(
            DomainError, match=rf"'{name}' is not numeric and not declared.*levels.*days since a public date"
        ):
            schema_domain(f"y ~ {name}", nothing, frame)
        with pytest.raises(DomainError, match=f"'{name}' is not numeric and not declared"):
            schema_domain(f"{name} ~ x", nothing, frame, family=Binomial())
    with pytest.raises(DataError, match="no column 'nowhere'"):
        schema_domain("y ~ nowhere", nothing, frame)
    with pytest.raises(DomainError, match=r"datetime64.*days since a public date"):
        schema_domain("y ~ when", nothing, as_table(FRAME.assign(when=pd.Timestamp("2020-01-01"))))


def test_boolean_columns_declare_themselves() -> None:
    domain = schema_domain("y ~ flag + x", Domain(y=(0, 1)), as_table(FRAME))[0]
    assert domain == Domain(y=(0, 1), flag=(0, 1))
    assert schema_domain("flag ~ x", Domain(), as_table(FRAME), family=Binomial())[0] == Domain(flag=(0, 1))

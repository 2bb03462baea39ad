"""The Adult census-income data, shipped inside the package (adult.md: origin, licence, changes made)."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal, get_args

import pandas as pd

from dpstats.arguments import check_choice
from dpstats.datasets.base import Dataset
from dpstats.domain import Domain

Split = Literal["train", "test", "all"]


def load_adult(split: Split = "train") -> Dataset:
    """Load the Adult data: does a person earn more than $50,000 a year?

    Parameters
    ----------
    split : {"train", "test", "all"}
        The 32,561 training rows, the 16,281 test rows, or both, training rows first.

    Returns
    -------
    Dataset
        Its Domain comes from the public codebook. A "?" in the source is a missing value.

    Raises
    ------
    ArgumentError
        If `split` is none of the three.

    References
    ----------
    .. [1] Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository. doi:10.24432/C5XW20. CC BY 4.0.

    Examples
    --------
    >>> from dpstats.datasets import load_adult
    >>> load_adult("test").data.shape
    (16281, 15)
    """
    check_choice("split", split, get_args(Split))
    parts = ["train", "test"] if split == "all" else [split]
    return Dataset(
        name=f"Adult ({split})",
        data=pd.concat([_read(part) for part in parts], ignore_index=True),
        domain=_domain(),
        citation="Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository. doi:10.24432/C5XW20",
        licence="CC BY 4.0",
        description="Persons above 16 in the 1994 US Current Population Survey; income above or below $50,000.",
    )


def _read(part: str) -> pd.DataFrame:
    with files("dpstats.datasets").joinpath(f"adult_{part}.csv.gz").open("rb") as stream:
        return pd.read_csv(stream, compression="gzip", na_values="?", keep_default_na=False)


def _domain() -> Domain:
    """The codebook: levels as it lists them (education from least to most), ranges from what its fields can hold."""
    return Domain(
        age=(17, 90),  # extracted with AAGE > 16; the survey codes 90 for 90 and above
        workclass=[
            "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay",
            "Never-worked",
        ],
        fnlwgt=(0, 2_000_000),  # a sampling weight with two implied decimals: at most 20,000 persons a record
        education=[
            "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
            "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
        ],
        education_num=(1, 16),  # the rank of education in the list above
        marital_status=[
            "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent",
            "Married-AF-spouse",
        ],
        occupation=[
            "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
            "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving",
            "Priv-house-serv", "Protective-serv", "Armed-Forces",
        ],
        relationship=["Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"],
        race=["White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"],
        sex=["Female", "Male"],
        capital_gain=(0, 99_999),  # five digits
        capital_loss=(0, 9_999),  # four digits
        hours_per_week=(1, 99),  # extracted with HRSWK > 0; two digits
        native_country=[
            "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany", "Outlying-US(Guam-USVI-etc)",
            "India", "Japan", "Greece", "South", "China", "Cuba", "Iran", "Honduras", "Philippines", "Italy", "Poland",
            "Jamaica", "Vietnam", "Mexico", "Portugal", "Ireland", "France", "Dominican-Republic", "Laos", "Ecuador",
            "Taiwan", "Haiti", "Columbia", "Hungary", "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia",
            "El-Salvador", "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands",
        ],
        income=["<=50K", ">50K"],
    )  # fmt: skip

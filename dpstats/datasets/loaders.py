"""Example data sets: Adult, wages, and data that statsmodels ships, each with a Domain from its codebook."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Literal, get_args

import pandas as pd
from statsmodels.datasets import fair, randhie

from dpstats.arguments import check_choice
from dpstats.domain import Domain


@dataclass(frozen=True)
class Dataset:
    """An example data set, with the facts that an analyst may know before seeing a row.

    Attributes
    ----------
    name : str
    data : DataFrame
        One row a record; missing values are NaN.
    domain : Domain
        Ranges and levels from the codebook, never from the rows.
    citation, licence, description : str

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.datasets.load_adult().domain["age"]
    Range(low=17, high=90)
    """

    name: str
    data: pd.DataFrame = field(repr=False, compare=False)
    domain: Domain
    citation: str
    licence: str
    description: str

    def __repr__(self) -> str:
        rows, columns = self.data.shape
        paragraphs = (
            f"{self.name}: {rows:,} rows, {columns} columns",
            self.description,
            f"Columns: {', '.join(self.data.columns)}",
            f"Citation: {self.citation}",
            f"Licence: {self.licence}",
        )
        return "\n".join(textwrap.fill(text, width=80, subsequent_indent="    ") for text in paragraphs)


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
        data=pd.concat([_read(f"adult_{part}") for part in parts], ignore_index=True),
        domain=_domain(),
        citation="Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository. doi:10.24432/C5XW20",
        licence="CC BY 4.0",
        description="Persons above 16 in the 1994 US Current Population Survey; income above or below $50,000.",
    )


def _read(name: str) -> pd.DataFrame:
    with files("dpstats.datasets").joinpath(f"{name}.csv.gz").open("rb") as stream:
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


def load_wages() -> Dataset:
    """Load yearly wages of 54,875 persons from the Current Population Survey of March 2024.

    Returns
    -------
    Dataset
        The response is ``wage``, in dollars. The Domain has the range of the survey's field for wages, and the ranges
        that follow from the selection (ages 25 to 64) and from the coding of schooling.

    References
    ----------
    .. [1] U.S. Census Bureau (2024). Current Population Survey, Annual Social and Economic Supplement. Public domain.

    Examples
    --------
    >>> from dpstats.datasets import load_wages
    >>> load_wages().data.shape
    (54875, 5)
    """
    data = _read("wages")
    data.insert(3, "experience", (data["age"] - data["education_years"] - 6).clip(lower=0))
    return Dataset(
        name="Wages (CPS, March 2024)",
        data=data,
        domain=Domain(
            wage=(1, 1_999_999),  # positive by selection; what the field WSAL_VAL can hold
            age=(25, 64),  # selected so
            education_years=(0, 22),  # from no school to a doctorate
            experience=(0, 58),  # age less years of school less 6
            female=(0, 1),
        ),
        citation=(
            "U.S. Census Bureau (2024). Current Population Survey, Annual Social and Economic Supplement, public-use "
            "microdata"
        ),
        licence="public domain",
        description="Wage and salary income of persons aged 25 to 64 in the United States, with schooling and sex.",
    )


def load_randhie() -> Dataset:
    """Load the RAND Health Insurance Experiment: visits to a doctor in a year, 20,190 rows, from statsmodels.

    Returns
    -------
    Dataset
        The count is ``mdvis``. Its declared range is a judgement made beforehand (at most one visit a week, more are
        clipped), as is that of the disease index ``disea``.

    References
    ----------
    .. [1] Cameron, A. C. and Trivedi, P. K. (2005). Microeconometrics: methods and applications. Cambridge.

    Examples
    --------
    >>> from dpstats.datasets import load_randhie
    >>> load_randhie().data.shape
    (20190, 10)
    """
    yes_no = (0, 1)
    return Dataset(
        name="RAND Health Insurance Experiment",
        data=randhie.load_pandas().data,
        domain=Domain(
            mdvis=(0, 52),
            lncoins=(0, math.log(101)),  # log of one plus a coinsurance rate of 0 to 100 per cent
            idp=yes_no,
            lpi=(0, 8),  # log of a yearly incentive payment of at most about $3,000
            fmde=(0, math.log(4_000)),  # log of a maximum of $1,000 over a coinsurance rate of at least 25 per cent
            physlm=yes_no,
            disea=(0, 60),
            hlthg=yes_no,
            hlthf=yes_no,
            hlthp=yes_no,
        ),
        citation=(
            "Cameron, A. C. and Trivedi, P. K. (2005). Microeconometrics: methods and applications. Cambridge; "
            "data collected by the RAND Corporation; statsmodels.datasets.randhie"
        ),
        licence="public domain",
        description="Outpatient visits to a doctor in a year, insurance plan and health of participants.",
    )


def load_fair() -> Dataset:
    """Load Fair's survey of extramarital affairs, 6,366 rows, from statsmodels.

    Returns
    -------
    Dataset
        The response is ``affairs``, time spent in affairs; its declared range is a judgement made beforehand. All other
        columns are coded answers, whose ranges the questionnaire gives.

    References
    ----------
    .. [1] Fair, R. (1978). A theory of extramarital affairs. Journal of Political Economy 86, 45-61.

    Examples
    --------
    >>> from dpstats.datasets import load_fair
    >>> load_fair().data.shape
    (6366, 9)
    """
    return Dataset(
        name="Fair's affairs survey",
        data=fair.load_pandas().data,
        domain=Domain(
            rate_marriage=(1, 5),
            age=(17.5, 42),
            yrs_married=(0.5, 23),
            children=(0, 5.5),
            religious=(1, 4),
            educ=(9, 20),
            occupation=(1, 6),
            occupation_husb=(1, 6),
            affairs=(0, 60),
        ),
        citation=(
            "Fair, R. (1978). A theory of extramarital affairs. Journal of Political Economy 86, 45-61; "
            "statsmodels.datasets.fair"
        ),
        licence="included in statsmodels with permission of the author",
        description="Answers of married women to a magazine survey of 1974; time spent in extramarital affairs.",
    )

"""What every example data set comes with."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

import pandas as pd

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

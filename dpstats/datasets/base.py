"""What every example data set comes with."""

from __future__ import annotations

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
    """

    name: str
    data: pd.DataFrame = field(repr=False, compare=False)
    domain: Domain
    citation: str
    licence: str
    description: str

    def __repr__(self) -> str:
        rows, columns = self.data.shape
        return (
            f"{self.name}: {rows:,} rows, {columns} columns\n"
            f"{self.description}\n"
            f"Columns: {', '.join(self.data.columns)}\n"
            f"Citation: {self.citation}\n"
            f"Licence: {self.licence}"
        )

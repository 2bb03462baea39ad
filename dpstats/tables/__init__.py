"""The one door for rows: containers become tables, and columns of any declared type numbers or codes of levels."""

from dpstats.tables.columns import Column
from dpstats.tables.door import as_table
from dpstats.tables.matrix import Matrix, as_endog, as_exog
from dpstats.tables.table import Table, slices

__all__ = [
    "Column",
    "Matrix",
    "Table",
    "as_endog",
    "as_exog",
    "as_table",
    "slices",
]

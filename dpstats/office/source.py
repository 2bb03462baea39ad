"""The rows of a data set, opened; and whether their types suit the codebook, of which no row is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpstats.data.columns import usable_kind
from dpstats.data.ingest import as_table
from dpstats.domain import Domain, Range
from dpstats.errors import ArgumentError, DataError, DPStatsError
from dpstats.formula.reader import check_columns
from dpstats.office.config import DataSet


def opened(dataset: DataSet) -> Any:
    if isinstance(dataset.source, str):
        return dataset.source
    query = dataset.source["query"]
    if "postgresql" in dataset.source:
        return _postgresql(dataset.source["postgresql"], query)
    import duckdb

    return duckdb.connect(dataset.source["duckdb"], read_only=True).sql(query)


def _postgresql(address: str, query: str) -> Any:
    """A reader of a query, which is described now and carried out when it is read."""
    import pyarrow as pa
    from adbc_driver_postgresql import dbapi

    def batches() -> Iterator[pa.RecordBatch]:
        with dbapi.connect(address) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            yield from cursor.fetch_record_batch()

    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        return pa.RecordBatchReader.from_batches(cursor.adbc_execute_schema(query), batches())


def check_source(dataset: DataSet) -> None:
    """Raise ArgumentError, for the keeper alone, unless each column of the codebook is there with a type that suits it.

    Requests are charged before their rows are opened, so a source that no request could read must not be served.
    """
    where = f"[data.{dataset.name}]"
    try:
        table = as_table(opened(dataset))
    except DPStatsError as error:
        raise ArgumentError(f"{where}: source cannot be opened: {error}") from error
    except ImportError as error:
        package = str(error.name).replace("_", "-")
        raise ArgumentError(f"{where}: source needs a package that is not installed: pip install {package}") from error
    except Exception as error:  # a database's, say, whose messages may quote rows
        raise ArgumentError(
            f"{where}: source cannot be opened ({type(error).__name__}); correct it, or try its query in the database"
        ) from None
    for name in dataset.domain if dataset.unit is None else (*dataset.domain, dataset.unit):
        declared = dataset.domain.get(name)
        try:
            check_columns(table, dataset.domain if declared else Domain({}), [name])
        except DataError as error:
            fix = "name it as the source does, or take it out of the codebook" if declared else "correct unit"
            raise ArgumentError(f"{where}: column {name!r}: {error}; {fix}") from error
        except DPStatsError as error:
            raise ArgumentError(f"{where}: {error}") from error
        if isinstance(declared, Range) and usable_kind(name, table.column(name)) == "text":
            raise ArgumentError(
                f"{where}: column {name!r} is {table.column(name).type_name} in the source, and the codebook declares "
                f"a range; convert it to numbers, or declare its levels: {name},,,a|b"
            )

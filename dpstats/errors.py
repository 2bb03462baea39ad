"""Every error dpstats raises.

A message names the argument and the fix, and never quotes a data value: the
schema (column names and dtypes), the formula, the Domain and the options are
public; cells, counts and labels found in the data are not.
"""

from __future__ import annotations


class DPStatsError(Exception):
    """Base of every error raised by dpstats."""


class ArgumentError(DPStatsError, ValueError):
    """An argument is of the wrong type or outside its allowed values."""


class DomainError(DPStatsError, ValueError):
    """A public fact is missing, contradictory or unusable for a column."""


class FormulaError(DPStatsError, ValueError):
    """The formula cannot be parsed or is not a row-wise function of the data."""


class DataError(DPStatsError, ValueError):
    """The data container has the wrong shape or schema (never: wrong values)."""


class ReleaseError(DPStatsError, RuntimeError):
    """A release failed after rows were read, which no data set should bring about; the message is a constant."""


class MismatchError(DPStatsError, RuntimeError):
    """The rows, counted privately, do not suit the Domain, or are too few for the standard errors that were asked for.

    No fit was made, and the count alone was charged.
    """


class RowsChangedError(ReleaseError):
    """The rows changed while a release read them, so that its passes would not have seen the same ones."""

    def __init__(self) -> None:
        super().__init__(
            "the data were changed while they were read; nothing was released, and the charge stays. Pass data "
            "that are not written to during the call, such as a copy; new rights, owners and hard links of a file "
            "count as changes too"
        )


class NoRoomError(ReleaseError):
    """There was no room to keep the rows of a query, which is carried out once."""

    def __init__(self) -> None:
        super().__init__(
            "there was no room to keep the rows; nothing was released, and the charge stays. Set the variable "
            "TMPDIR to a folder with more room"
        )


class NotReleasedError(DPStatsError, AttributeError):
    """A statistic of statsmodels' results that the budget has not paid for, so that it does not exist."""


class UncertifiedError(DPStatsError):
    """An uncertified guarantee was asked for without ``allow_uncertified=True``."""


class LedgerError(DPStatsError):
    """The ledger file cannot be opened, trusted or written; nothing was released."""


class BudgetExceeded(LedgerError):
    """The charge would exceed what remains in the ledger; nothing was released."""


class StreamError(DPStatsError, RuntimeError):
    """A stream is past its horizon, its state cannot be used or belongs to another plan; nothing was released."""


class OfficeError(DPStatsError, RuntimeError):
    """An office does not answer, or not as one does, or its keeper has refused; a repeated call is charged once."""

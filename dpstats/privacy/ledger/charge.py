"""A charge on a ledger, and whether the release that it paid for got as far as reading rows."""

from __future__ import annotations

from types import TracebackType

from dpstats.errors import LedgerError
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger.store import Store


class Charge:
    """A charge that is already durable; also a context manager around the release that it pays for.

    Reading rows must be announced first, by `rows_read`. A block that fails before that gets its charge back, as a
    durable change of the entry's state; in every other case, a crash included, the charge stays.

    Attributes
    ----------
    number : int
        The entry's number in the ledger.
    guarantee : Guarantee
        What was charged, under the ledger's adjacency.
    """

    def __init__(self, store: Store, number: int, guarantee: Guarantee) -> None:
        self.number = number
        self.guarantee = guarantee
        self._store = store

    @property
    def state(self) -> str:
        """``"charged"``, ``"read"`` or ``"refunded"``, as the file has it."""
        with self._store.transaction(write=False) as connection:
            return connection.execute("SELECT state FROM entry WHERE id = ?", (self.number,)).fetchone()[0]

    def rows_read(self) -> None:
        """Record durably that rows are about to be read: from here on nothing refunds the charge.

        Raises
        ------
        LedgerError
            If the file cannot be written, or the charge was refunded before: no row may be read.
        """
        if self._move("read") == "refunded":
            raise LedgerError(f"charge {self.number} was refunded; charge the ledger again before reading rows")

    def __enter__(self) -> Charge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        try:
            state = self._move("refunded")
        except LedgerError:
            state = "kept"  # the first error is the one to report
        outcome = "refunded: no row was read" if state == "refunded" else "kept"
        error.add_note(f"Ledger charge {self.number} was {outcome}.")

    def _move(self, state: str) -> str:
        """Move on from "charged" to `state`; the state afterwards."""
        with self._store.transaction(write=True) as connection:
            connection.execute("UPDATE entry SET state = ? WHERE id = ? AND state = 'charged'", (state, self.number))
            return connection.execute("SELECT state FROM entry WHERE id = ?", (self.number,)).fetchone()[0]

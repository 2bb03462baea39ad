"""A charge on a ledger: spent once it is made, and given back only by an explicit call before any row is read."""

from __future__ import annotations

from types import TracebackType

from dpstats.errors import LedgerError
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger.store import Store


class Charge:
    """A charge that is already durable; also a context manager around the release that it pays for.

    It is spent from the start. Leaving the block by an error gives nothing back, since the block may have shown its
    release before; the error gets a note that says so. `refund` gives the charge back where it is known that no row
    was read. Reading rows must be announced first, by `rows_read`, which rules a refund out.

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
        """Record durably that rows are about to be read: from here on the charge cannot be refunded.

        Raises
        ------
        LedgerError
            If the file cannot be written, or the charge was refunded before: no row may be read.
        """
        if self._move("read") == "refunded":
            raise LedgerError(f"charge {self.number} was refunded; charge the ledger again before reading rows")

    def refund(self) -> None:
        """Give the charge back, durably: the caller's word that no row was read for it, nor will be.

        A charge that was refunded already stays so.

        Raises
        ------
        LedgerError
            If rows were announced by `rows_read`, or the file cannot be written: the charge stays spent.
        """
        if self._move("refunded") == "read":
            raise LedgerError(f"charge {self.number} cannot be refunded: its rows were read; leave it as spent")

    def __enter__(self) -> Charge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        try:
            state = self.state
        except LedgerError:
            state = "charged"  # the first error is the one to report
        outcome = {
            "charged": "kept. If no row was read, refund() of this charge gives it back",
            "read": "kept: rows were read",
            "refunded": "refunded",
        }[state]
        error.add_note(f"Ledger charge {self.number} was {outcome}.")

    def _move(self, state: str) -> str:
        """Move on from "charged" to `state`; the state afterwards."""
        with self._store.transaction(write=True) as connection:
            connection.execute("UPDATE entry SET state = ? WHERE id = ? AND state = 'charged'", (state, self.number))
            return connection.execute("SELECT state FROM entry WHERE id = ?", (self.number,)).fetchone()[0]

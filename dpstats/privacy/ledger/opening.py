"""What may be given as ``ledger=``: a ledger, a part of one, or the path of its file."""

from __future__ import annotations

import os
from pathlib import Path

from dpstats.arguments import can_be_path, shown
from dpstats.errors import ArgumentError, LedgerError
from dpstats.privacy.ledger.ledger import Ledger
from dpstats.privacy.ledger.spender import Part

LedgerLike = Ledger | Part | str | os.PathLike[str] | None
"""A ledger, a part of one, the path of an existing ledger's file, or None: nothing is charged."""


def as_ledger(ledger: LedgerLike) -> Ledger | Part | None:
    """The ledger that is meant; a path is opened, and no file is ever made.

    Raises
    ------
    ArgumentError
        If it is none of `LedgerLike`.
    LedgerError
        If the file is missing, is no ledger or is damaged.
    """
    if ledger is None or isinstance(ledger, (Ledger, Part)):
        return ledger
    if not isinstance(ledger, (str, os.PathLike)):
        raise ArgumentError(
            "ledger must be a Ledger, a part of one, or the path of its file, as dp.Ledger(path, dataset=, eps=) "
            f"makes; got {shown(ledger)}"
        )
    if not can_be_path(os.fspath(ledger)):
        raise LedgerError("ledger must name a file; this text is too long for that, or has several lines")
    if not Path(ledger).exists():
        raise LedgerError(
            f"ledger {shown(os.fspath(ledger))} is missing; correct the path, restore the file, or make it: "
            "dp.Ledger(path, dataset=..., eps=...) (nothing was charged or released)"
        )
    return Ledger.open(ledger)
